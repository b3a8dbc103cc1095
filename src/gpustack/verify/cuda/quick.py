"""Quick checks of the CUDA toolkit: found, and compatible with driver, host compiler and GPUs by the matrix."""

from __future__ import annotations

from gpustack.model.host import Copy, Host
from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Fit, Part, compute_capability_of, fit, incompatible, judge_fit

INSTALL = "`gpustack install cuda`"


def _no_toolkit(host: Host) -> Outcome | None:
    return None if "cuda" in host.installed else skipped("no CUDA toolkit was found", INSTALL)


def _version(host: Host) -> str:
    """The toolkit's version; there is one where cuda.toolkit has passed."""
    return host_facts.installed_version(host, "cuda") or ""


@check(
    "cuda.toolkit",
    title="toolkit found",
    expects="A CUDA toolkit is installed, and its version is known.",
    fix=INSTALL,
    unless=(_no_toolkit,),
)
def toolkit(context: Context) -> Outcome:
    found = context.host.installed["cuda"]
    if not _version(context.host):
        return failed(
            f"the version of {found.path or 'the CUDA toolkit'} is unknown: its version.json and nvcc are missing or"
            " broken",
            "reinstall the toolkit: `gpustack install cuda`",
        )
    where = f" in {found.path}" if found.path else ""
    return passed(f"{found.version}{where}", actual=found.version or "")


@check(
    "cuda.driver",
    title="driver is new enough for this toolkit",
    expects="The driver can run what this toolkit builds.",
    fix="`gpustack plan driver cuda` finds a compatible driver and toolkit.",
    needs=("cuda.toolkit", "driver.version"),
    unless=(_no_toolkit, host_facts.is_jetson),
)
def driver(context: Context) -> Outcome:
    host = context.host
    version = host_facts.driver_version(host)
    if version is None:
        return host_facts.no_driver(host)
    cuda, own = Part("cuda", _version(host)), Part("driver", version)
    answer = fit(context, cuda, own)
    if answer.breach:
        return _too_old(context, cuda, own, answer)
    if answer.covered and answer.advice:
        return passed(
            f"{own} runs {cuda} by minor-version compatibility: {answer.sentence}", actual="minor-version compatibility"
        )
    return judge_fit(context, cuda, own)


def _too_old(context: Context, cuda: Part, driver: Part, answer: Fit) -> Outcome:
    """A failure, unless programs load CUDA's forward compatibility libraries, on GPUs that support them."""
    host = context.host
    failure = incompatible(cuda, driver, answer, _newer_driver(host, answer))
    compat = host_facts.compat_library(host)
    if compat is None:
        return failure
    unable = tuple(gpu for gpu in host_facts.own_gpus(host) if gpu.kind not in {None, "datacenter", "soc"})
    if unable:
        return failed(
            f"{failure.reason}; the forward compatibility library {compat.path} does not help: it supports data-center"
            f" GPUs only, not {host_facts.names_of(unable)} (error 804)",
            f"remove {compat.path} from the loader's path, then {failure.fix}",
        )
    return _by_compat(context, cuda, driver, compat, failure.reason)


def _by_compat(context: Context, cuda: Part, driver: Part, compat: Copy, reason: str) -> Outcome:
    from gpustack.solve.forward_compat import package_for  # noqa: PLC0415 (imports the solver; few drivers need it)

    branch = driver.version.partition(".")[0]
    answer = package_for(context.matrix, cuda.version, driver.version)
    if answer is None:
        return skipped(f"compatibility of {compat.path} ({cuda}) with driver branch {branch} is unknown")
    if answer[1] == "incompatible":
        return failed(
            f"{reason}; the forward compatibility library {compat.path} does not support driver branch {branch} either",
            "install a newer driver: `gpustack install driver`",
        )
    return passed(
        f"{driver} runs {cuda} by forward compatibility, through {compat.path}", actual="forward compatibility"
    )


def _newer_driver(host: Host, answer: Fit) -> str:
    if host.environment == "container":
        return "install a newer driver on the container's host, or use an image with an older CUDA"
    if host.environment == "wsl":
        return "install a newer driver in Windows"
    floor = answer.breach.any[0] if answer.breach and answer.breach.any else ""
    return f"`gpustack install 'driver{floor}'`, or an older toolkit: `gpustack install cuda`"


@check(
    "cuda.host-compiler",
    title="host compiler is supported by nvcc",
    expects="This nvcc supports the system's GCC.",
    fix="Install a supported GCC and select it: `nvcc -ccbin g++-VERSION`.",
    needs=("cuda.toolkit",),
    unless=(_no_toolkit, host_facts.is_windows),
)
def host_compiler(context: Context) -> Outcome:
    gcc = host_facts.upstream(context.host.gcc)
    if gcc is None:
        return skipped("no GCC was found; nvcc requires a host compiler", "install gcc")
    cuda, own = Part("cuda", _version(context.host)), Part("gcc", gcc)
    answer = fit(context, cuda, own)
    if answer.breach or answer.advice:
        fix = "install a supported GCC as well, and build with `nvcc -ccbin g++-VERSION`"
        return incompatible(cuda, own, answer, fix)
    # Advice says which compilers are supported too: a toolkit with either has accepted this one.
    nowhere = fit(context, cuda, Part("gcc", "0"))
    if not (nowhere.covered or nowhere.advice):
        return skipped(f"compatibility of {cuda} with {own} is unknown")
    return passed(f"{cuda} is compatible with {own}")


@check(
    "cuda.gpu",
    title="toolkit supports the GPUs",
    expects="This toolkit builds for the compute capability of every GPU.",
    fix="Install a toolkit that supports the GPU: `gpustack install cuda`.",
    needs=("cuda.toolkit",),
    unless=(_no_toolkit, host_facts.no_gpu),
)
def gpu(context: Context) -> Outcome:
    cuda = Part("cuda", _version(context.host))
    gpus = host_facts.own_gpus(context.host)
    answer = judge_fit(context, cuda, *filter(None, map(compute_capability_of, gpus)), fix=INSTALL)
    unknown = tuple(one for one in gpus if not one.compute_capability)
    if answer.status == "pass" and unknown:
        return skipped(f"the compute capability of {host_facts.names_of(unknown)} is unknown")
    return answer
