"""Quick checks of the CUDA toolkit: found, and fit for driver, host compiler and GPUs by the matrix."""

from __future__ import annotations

from gpustack.model.host import Copy, Host
from gpustack.solve.forward_compat import package_for
from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Fit, Part, fit, of_gpu

INSTALL = "`gpustack install cuda`"


def _no_toolkit(host: Host) -> Outcome | None:
    return None if "cuda" in host.installed else skipped("no CUDA toolkit was found", INSTALL)


def _version(host: Host) -> str:
    """The toolkit's version; there is one where cuda.toolkit has held."""
    return host_facts.installed_version(host, "cuda") or ""


@check(
    "cuda.toolkit",
    title="toolkit found",
    expects="A CUDA toolkit is installed and says its version.",
    mends=INSTALL,
    unless=(_no_toolkit,),
)
def toolkit(context: Context) -> Outcome:
    found = context.host.installed["cuda"]
    if not _version(context.host):
        return failed(
            f"{found.path or 'the toolkit'} does not say its version",
            "install the toolkit again: its version.json and nvcc are missing or broken",
        )
    where = f" in {found.path}" if found.path else ""
    return passed(f"{found.version}{where}", actual=found.version or "")


@check(
    "cuda.driver",
    title="driver runs this toolkit",
    expects="The driver is new enough for what the toolkit builds.",
    mends="`gpustack plan driver cuda` names a newer driver or an older toolkit that go together.",
    needs=("cuda.toolkit", "driver.version"),
    unless=(_no_toolkit, host_facts.is_jetson),
)
def driver(context: Context) -> Outcome:
    host = context.host
    cuda = _version(host)
    version = host_facts.driver_version(host)
    if version is None:
        return host_facts.no_driver(host)
    answer = fit(context.matrix, host, Part("cuda", cuda), Part("driver", version))
    if answer.breach:
        return _will_not_run(context, cuda, version, answer)
    if not answer.covered:
        return skipped(f"no fact covers CUDA {cuda} with driver {version}")
    if answer.advice:
        return passed(
            f"driver {version} runs CUDA {cuda} by minor version compatibility: {answer.sentence(f'CUDA {cuda}')}",
            actual="minor-version compatibility",
        )
    return passed(f"driver {version} runs CUDA {cuda}")


def _will_not_run(context: Context, cuda: str, version: str, answer: Fit) -> Outcome:
    """A failure, unless CUDA's forward compatibility libraries are what programs load, on GPUs that allow them."""
    host = context.host
    says = answer.sentence(f"CUDA {cuda}")
    reason = f"CUDA {cuda} will not run on driver {version}: {says}"
    compat = host_facts.compat_library(host)
    if compat is None:
        return failed(
            reason, _newer_driver(host, answer), expected=f"driver {answer.wanted}", actual=f"driver {version}"
        )
    unable = tuple(gpu for gpu in host_facts.own_gpus(host) if gpu.kind not in {None, "datacenter", "soc"})
    if unable:
        return failed(
            f"{reason}; the forward compatibility library {compat.path} does not help, because"
            f" {host_facts.names_of(unable)} is no data-centre GPU (error 804)",
            f"take {compat.path} off the loader path, then {_newer_driver(host, answer)}",
        )
    return _by_compat(context, cuda, version, compat, reason)


def _by_compat(context: Context, cuda: str, version: str, compat: Copy, reason: str) -> Outcome:
    branch = version.partition(".")[0]
    answer = package_for(context.matrix, cuda, version)
    if answer is None:
        return skipped(f"no fact tells whether {compat.path} (CUDA {cuda}) works on driver branch {branch}")
    if answer[1] == "incompatible":
        return failed(
            f"{reason}; its forward compatibility library {compat.path} does not work on branch {branch} either",
            "install a newer driver: `gpustack install driver`",
        )
    return passed(
        f"driver {version} runs CUDA {cuda} by forward compatibility, through {compat.path}",
        actual="forward compatibility",
    )


def _newer_driver(host: Host, answer: Fit) -> str:
    if host.environment == "container":
        return "install a newer driver on the machine below the container, or take an image with an older CUDA"
    if host.environment == "wsl":
        return "install a newer driver in Windows"
    floor = answer.breach.any[0] if answer.breach and answer.breach.any else ""
    return f"`gpustack install 'driver{floor}'`, or an older toolkit: `gpustack install cuda`"


@check(
    "cuda.host-compiler",
    title="host compiler fits nvcc",
    expects="The system's gcc is one that this nvcc accepts.",
    mends="Install a gcc that nvcc accepts, and name it: `nvcc -ccbin g++-VERSION`.",
    needs=("cuda.toolkit",),
    unless=(_no_toolkit, host_facts.is_windows),
)
def host_compiler(context: Context) -> Outcome:
    host = context.host
    cuda = _version(host)
    gcc = host_facts.upstream(host.gcc)
    if gcc is None:
        return skipped("no gcc was found; nvcc needs a host compiler to build programs", "install gcc")
    answer = fit(context.matrix, host, Part("cuda", cuda), Part("gcc", gcc))
    if answer.breach or answer.advice:
        return failed(
            f"the system's gcc is {gcc}, and this is not one that nvcc of CUDA {cuda} accepts:"
            f" {answer.sentence(f'CUDA {cuda}')}",
            "install an accepted gcc beside it and build with `nvcc -ccbin` naming its g++",
            expected=f"gcc {answer.wanted}",
            actual=f"gcc {gcc}",
        )
    if not _speaks_of_gcc(context, cuda):
        return skipped(f"no fact covers CUDA {cuda} with gcc {gcc}")
    return passed(f"gcc {gcc} is accepted by nvcc of CUDA {cuda}")


def _speaks_of_gcc(context: Context, cuda: str) -> bool:
    """Whether any rule, advice included, says which gcc this CUDA accepts."""
    nowhere = fit(context.matrix, context.host, Part("cuda", cuda), Part("gcc", "0"))
    return bool(nowhere.covered or nowhere.advice)


@check(
    "cuda.gpu",
    title="toolkit knows the GPUs",
    expects="Every GPU's compute capability is one that this toolkit builds for.",
    mends="Install a toolkit that knows the GPU: `gpustack install cuda`.",
    needs=("cuda.toolkit",),
    unless=(_no_toolkit, host_facts.no_gpu),
)
def gpu(context: Context) -> Outcome:
    host = context.host
    cuda = _version(host)
    remarks = []
    unknown = []
    for one in host_facts.own_gpus(host):
        name = host_facts.name_of(one)
        if not one.compute_capability:
            unknown.append(name)
            continue
        capability = Part("compute-capability", one.compute_capability)
        answer = fit(context.matrix, of_gpu(host, one), Part("cuda", cuda), capability)
        if answer.breach:
            return failed(
                f"CUDA {cuda} does not build for {name}, compute capability {one.compute_capability}:"
                f" {answer.sentence(f'CUDA {cuda}')}",
                INSTALL,
                expected=f"compute capability {answer.wanted}",
                actual=f"compute capability {one.compute_capability}",
            )
        if not answer.covered:
            unknown.append(name)
        elif answer.advice:
            remarks.append(f"{name}: {answer.sentence(f'CUDA {cuda}')}")
    if unknown:
        return skipped(f"no fact covers CUDA {cuda} with {', '.join(unknown)}")
    return passed("; ".join(remarks) or f"CUDA {cuda} builds for {host_facts.names_of(host_facts.own_gpus(host))}")
