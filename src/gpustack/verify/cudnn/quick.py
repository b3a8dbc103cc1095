"""Quick checks of cuDNN: header, libraries and packages agree, and are compatible with CUDA and driver."""

from __future__ import annotations

from gpustack.model.host import Copy, Host
from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, fit, full_version, incompatible, judge_fit, same_release
from gpustack.versions import version

INSTALL = "`gpustack install cudnn`"


def _loaded(host: Host) -> Copy | None:
    """The copy that programs load; of several sonames, the installed release's, else the newest."""
    copies = host_facts.loaded_copies(host, "cudnn")
    installed = host_facts.installed_version(host, "cudnn")
    mine = [copy for copy in copies if installed and copy.version and same_release(copy.version, installed)]
    return mine[0] if mine else max(copies, key=_age, default=None)


def _age(copy: Copy) -> tuple[int, ...]:
    number = host_facts.upstream(copy.version) or host_facts.upstream((copy.soname or "").partition(".so.")[2])
    return version(number).numbers if number else ()


def _find_version(host: Host) -> str | None:
    """The version of the cuDNN that programs load, else of the one that is installed."""
    copy = _loaded(host)
    return (host_facts.upstream(copy.version) if copy else None) or host_facts.installed_version(host, "cudnn")


def _no_cudnn(host: Host) -> Outcome | None:
    return None if _find_version(host) else skipped("no cuDNN of known version was found", INSTALL)


@check(
    "cudnn.found",
    title="library found",
    expects="The loader finds libcudnn.",
    fix=INSTALL,
)
def found(context: Context) -> Outcome:
    host = context.host
    copy = _loaded(host)
    installed = host.installed.get("cudnn")
    if copy is not None:
        return passed(host_facts.describe_copy(copy), actual=copy.version or "")
    wheels = tuple(one for one in host_facts.copies_of(host, "cudnn") if (one.owner or "").startswith("wheel "))
    if wheels:
        return passed(f"in Python environments only: {'; '.join(host_facts.describe_copy(one) for one in wheels)}")
    if installed is None:
        return skipped("no cuDNN was found", INSTALL)
    if installed.method == "pip":
        return passed(f"{installed.version or 'of unknown version'} as a Python wheel, in that Python environment only")
    place = f" in {installed.path}" if installed.path else ""
    return failed(
        f"cuDNN {installed.version or 'of unknown version'} is installed{place}, but the loader does not find libcudnn",
        "add its folder to /etc/ld.so.conf.d and run `sudo ldconfig`, or reinstall it",
    )


@check(
    "cudnn.versions",
    title="header, library and package have one version",
    expects="The library that programs load, the header and the package are of one release.",
    fix="Keep one cuDNN: remove copies of other releases.",
    needs=("cudnn.found",),
)
def versions(context: Context) -> Outcome:
    host = context.host
    loaded = _loaded(host)
    if loaded is None:
        return skipped("no cuDNN library is on the loader's path", INSTALL)
    if loaded.version is None:
        return skipped(f"the version of {loaded.path} is unknown")
    headers = host_facts.headers_of(host, "cudnn")
    # Headers of several releases may lie side by side, each in its toolkit's folder; one has to be the library's.
    if headers and not any(same_release(header.version or "", loaded.version) for header in headers):
        return failed(
            f"programs are built with cuDNN {headers[0].version} ({headers[0].path})"
            f" but load {loaded.version} ({loaded.path})",
            f"remove the copy that you do not need, then {INSTALL}",
            expected=headers[0].version or "",
            actual=loaded.version,
        )
    installed = host_facts.installed_version(host, "cudnn")
    if installed and not same_release(installed, loaded.version):
        return failed(
            f"cuDNN {installed} is installed, but programs load {host_facts.describe_copy(loaded)}",
            f"remove {loaded.path}, or the entry of LD_LIBRARY_PATH or /etc/ld.so.conf.d that puts its folder first",
            expected=installed,
            actual=loaded.version,
        )
    others = tuple(copy for copy in host_facts.copies_of(host, "cudnn") if copy != loaded and copy.version)
    shadowed = tuple(copy for copy in others if not same_release(copy.version or "", loaded.version))
    if shadowed:
        listed = "; ".join(host_facts.describe_copy(copy) for copy in shadowed)
        return passed(f"programs load {host_facts.describe_copy(loaded)}; also found: {listed}", actual=loaded.version)
    return passed(f"{loaded.version} throughout", actual=loaded.version)


@check(
    "cudnn.cuda",
    title="compatible with the CUDA toolkit",
    expects="This cuDNN is compatible with the installed CUDA.",
    fix="Install the cuDNN for the installed CUDA: `gpustack install cudnn`.",
    needs=("cudnn.found",),
    unless=(_no_cudnn,),
)
def cuda(context: Context) -> Outcome:
    toolkit = host_facts.installed_version(context.host, "cuda")
    if toolkit is None:
        return skipped("no CUDA toolkit was found to compare with", "`gpustack install cuda`")
    fix = f"install a compatible cuDNN: `gpustack install cudnn 'cuda=={toolkit}'`"
    return judge_fit(context, _part(context), Part("cuda", toolkit), fix=fix)


@check(
    "cudnn.driver",
    title="driver is new enough for this cuDNN",
    expects="The driver can run this cuDNN.",
    fix="`gpustack plan driver cudnn` finds a compatible driver and cuDNN.",
    needs=("cudnn.found", "driver.version"),
    unless=(_no_cudnn, host_facts.is_jetson),
)
def driver(context: Context) -> Outcome:
    number = host_facts.driver_version(context.host)
    if number is None:
        return host_facts.no_driver(context.host)
    own, driver = _part(context), Part("driver", number)
    answer = fit(context, own, driver)
    if answer.breach:
        where = " on the container's host" if context.host.environment == "container" else ""
        floor = answer.breach.any[0] if answer.breach.any else ""
        return incompatible(own, driver, answer, f"install a newer driver{where}: `gpustack install 'driver{floor}'`")
    return judge_fit(context, own, driver)


def _part(context: Context) -> Part:
    """The installed cuDNN, named by the version numbers in its files."""
    number = _find_version(context.host) or ""
    return Part("cudnn", full_version(context, "cudnn", number), f"cuDNN {number}")
