"""Quick checks of cuDNN: header, libraries and packages agree, and fit CUDA and driver."""

from __future__ import annotations

from gpustack.model.host import Copy, Host
from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, fit
from gpustack.versions import version

INSTALL = "`gpustack install cudnn`"
RELEASE_DIGITS = 3
"""The header tells three numbers of a version (9.14.0); the fourth is a build number that only packages carry."""


def _loaded(host: Host) -> Copy | None:
    """The copy that programs load; where several sonames are there, the installed release's, else the newest."""
    copies = host_facts.loaded_copies(host, "cudnn")
    installed = host_facts.installed_version(host, "cudnn")
    mine = [copy for copy in copies if installed and copy.version and _same_release(copy.version, installed)]
    return mine[0] if mine else max(copies, key=_age, default=None)


def _age(copy: Copy) -> tuple[int, ...]:
    number = host_facts.upstream(copy.version) or host_facts.upstream((copy.soname or "").partition(".so.")[2])
    return version(number).numbers if number else ()


def _found(host: Host) -> str | None:
    """The version of the cuDNN that programs load, else of the one that is installed."""
    copy = _loaded(host)
    return (host_facts.upstream(copy.version) if copy else None) or host_facts.installed_version(host, "cudnn")


def _in_full(context: Context, number: str) -> str:
    """``number`` with the build number that files do not tell: as installed, else of the release the matrix knows."""
    installed = host_facts.installed_version(context.host, "cudnn")
    releases = (release.version for release in context.matrix.releases("cudnn"))
    candidates = (*((installed,) if installed else ()), *releases)
    return next((full for full in candidates if _same_release(full, number)), number)


def _same_release(one: str, other: str) -> bool:
    """Whether two versions agree in as many numbers as both tell, three at most."""
    left, right = (version(text).numbers[:RELEASE_DIGITS] for text in (one, other))
    length = min(len(left), len(right))
    return left[:length] == right[:length]


def _no_cudnn(host: Host) -> Outcome | None:
    return None if _found(host) else skipped("no cuDNN was found, or none that tells its version", INSTALL)


@check(
    "cudnn.found",
    title="library found",
    expects="libcudnn is where the loader looks.",
    mends=INSTALL,
)
def found(context: Context) -> Outcome:
    host = context.host
    copy = _loaded(host)
    installed = host.installed.get("cudnn")
    if copy is not None:
        return passed(host_facts.told_by(copy), actual=copy.version or "")
    wheels = tuple(one for one in host_facts.copies_of(host, "cudnn") if (one.owner or "").startswith("wheel "))
    if wheels:
        return passed(f"for their own Python only: {'; '.join(host_facts.told_by(one) for one in wheels)}")
    if installed is None:
        return skipped("no cuDNN was found", INSTALL)
    if installed.method == "pip":
        return passed(f"{installed.version or 'of unknown version'} as a Python wheel, for that Python only")
    place = f" in {installed.path}" if installed.path else ""
    return failed(
        f"cuDNN {installed.version or 'of unknown version'} is installed{place}, but the loader finds no libcudnn",
        "add its folder to /etc/ld.so.conf.d and run `sudo ldconfig`, or reinstall it",
    )


@check(
    "cudnn.versions",
    title="header, library and package of one version",
    expects="The library that programs load is of the header's and the package's release.",
    mends="Keep one cuDNN: remove the copies that do not belong to the installed release.",
    needs=("cudnn.found",),
)
def versions(context: Context) -> Outcome:
    host = context.host
    loaded = _loaded(host)
    if loaded is None:
        return skipped("no cuDNN library is on the loader path", INSTALL)
    if loaded.version is None:
        return skipped(f"{loaded.path} does not tell its version")
    headers = host_facts.headers_of(host, "cudnn")
    # Headers of several releases may lie side by side, each in its toolkit's folder; one has to be the library's.
    if headers and not any(_same_release(header.version or "", loaded.version) for header in headers):
        return failed(
            f"programs are built with cuDNN {headers[0].version} ({headers[0].path})"
            f" but load {loaded.version} ({loaded.path})",
            f"make header and library one release: remove the copy that you do not want, then {INSTALL}",
            expected=headers[0].version or "",
            actual=loaded.version,
        )
    installed = host_facts.installed_version(host, "cudnn")
    if installed and not _same_release(installed, loaded.version):
        return failed(
            f"cuDNN {installed} is installed, but programs load {host_facts.told_by(loaded)}",
            f"remove {loaded.path}, or the entry of LD_LIBRARY_PATH or /etc/ld.so.conf.d that puts its folder first",
            expected=installed,
            actual=loaded.version,
        )
    others = tuple(copy for copy in host_facts.copies_of(host, "cudnn") if copy != loaded and copy.version)
    shadowed = tuple(copy for copy in others if not _same_release(copy.version or "", loaded.version))
    if shadowed:
        listed = "; ".join(host_facts.told_by(copy) for copy in shadowed)
        return passed(f"programs load {host_facts.told_by(loaded)}; also there: {listed}", actual=loaded.version)
    return passed(f"{loaded.version} throughout", actual=loaded.version)


@check(
    "cudnn.cuda",
    title="fits the CUDA toolkit",
    expects="This cuDNN is made for the installed CUDA.",
    mends="Install the cuDNN of the installed CUDA's major version: `gpustack install cudnn`.",
    needs=("cudnn.found",),
    unless=(_no_cudnn,),
)
def cuda(context: Context) -> Outcome:
    host = context.host
    own = _found(host) or ""
    toolkit = host_facts.installed_version(host, "cuda")
    if toolkit is None:
        return skipped("no CUDA toolkit was found to compare with", "`gpustack install cuda`")
    answer = fit(context.matrix, host, Part("cudnn", _in_full(context, own)), Part("cuda", toolkit))
    if answer.breach:
        return failed(
            f"cuDNN {own} does not go with CUDA {toolkit}: {answer.sentence(f'cuDNN {own}')}",
            f"`gpustack install cudnn 'cuda=={toolkit}'` takes a cuDNN that does",
            expected=f"CUDA {answer.wanted}" if answer.wanted else "",
            actual=f"CUDA {toolkit}",
        )
    if not answer.covered:
        return skipped(f"no fact covers cuDNN {own} with CUDA {toolkit}")
    if answer.advice:
        return passed(f"cuDNN {own} with CUDA {toolkit}: {answer.sentence(f'cuDNN {own}')}")
    return passed(f"cuDNN {own} goes with CUDA {toolkit}")


@check(
    "cudnn.driver",
    title="driver runs this cuDNN",
    expects="The driver is new enough for this cuDNN.",
    mends="`gpustack plan driver cudnn` names a newer driver or an older cuDNN that go together.",
    needs=("cudnn.found", "driver.version"),
    unless=(_no_cudnn, host_facts.is_jetson),
)
def driver(context: Context) -> Outcome:
    host = context.host
    own = _found(host) or ""
    number = host_facts.driver_version(host)
    if number is None:
        return host_facts.no_driver(host)
    answer = fit(context.matrix, host, Part("cudnn", _in_full(context, own)), Part("driver", number))
    if answer.breach:
        where = " on the machine below the container" if host.environment == "container" else ""
        floor = answer.breach.any[0] if answer.breach.any else ""
        return failed(
            f"cuDNN {own} will not run on driver {number}: {answer.sentence(f'cuDNN {own}')}",
            f"install a newer driver{where}: `gpustack install 'driver{floor}'`",
            expected=f"driver {answer.wanted}" if answer.wanted else "",
            actual=f"driver {number}",
        )
    if not answer.covered:
        return skipped(f"no fact speaks of cuDNN {own} with driver {number}; cuda.driver tells what CUDA needs")
    return passed(f"driver {number} runs cuDNN {own}")
