"""Quick checks of NCCL: the library is found, and compatible with the CUDA toolkit."""

from __future__ import annotations

from gpustack.model.host import Host
from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, judge_fit

INSTALL = "`gpustack install nccl`"


def version_of(host: Host) -> str | None:
    """The version of the NCCL that programs load, else of the one that is installed."""
    copies = (*host_facts.loaded_copies(host, "nccl"), *host_facts.copies_of(host, "nccl"))
    own = next((copy.version for copy in copies if copy.version), None)
    return host_facts.upstream(own) or host_facts.installed_version(host, "nccl")


def _no_nccl(host: Host) -> Outcome | None:
    is_found = host_facts.copies_of(host, "nccl") or "nccl" in host.installed
    return None if is_found else skipped("no NCCL was found", INSTALL)


@check(
    "nccl.found",
    title="library found",
    expects="The loader or a Python environment provides libnccl.",
    fix=INSTALL,
    unless=(_no_nccl,),
)
def found(context: Context) -> Outcome:
    host = context.host
    copies = host_facts.copies_of(host, "nccl")
    loaded = host_facts.loaded_copies(host, "nccl")
    if loaded:
        others = "; ".join(host_facts.describe_copy(copy) for copy in copies if copy not in loaded)
        return passed(f"{host_facts.describe_copy(loaded[0])}{f'; also found: {others}' if others else ''}")
    wheels = tuple(copy for copy in copies if (copy.owner or "").startswith("wheel "))
    if wheels:
        return passed(f"in Python environments only: {'; '.join(host_facts.describe_copy(one) for one in wheels)}")
    installed = host.installed.get("nccl")
    known = f"NCCL {installed.version}" if installed and installed.version else "NCCL"
    return failed(
        f"{known} is installed, but the loader does not find libnccl",
        "add its folder to /etc/ld.so.conf.d and run `sudo ldconfig`, or reinstall it",
    )


@check(
    "nccl.cuda",
    title="compatible with the CUDA toolkit",
    expects="This NCCL is compatible with the installed CUDA.",
    fix="Install the NCCL for the installed CUDA: `gpustack install nccl`.",
    needs=("nccl.found",),
    unless=(_no_nccl,),
)
def cuda(context: Context) -> Outcome:
    host = context.host
    own = version_of(host)
    toolkit = host_facts.installed_version(host, "cuda")
    if own is None:
        return skipped("the NCCL version could not be determined")
    if toolkit is None:
        return skipped("no CUDA toolkit was found to compare with", "`gpustack install cuda`")
    fix = f"install a compatible NCCL: `gpustack install nccl 'cuda=={toolkit}'`"
    return judge_fit(context, Part("nccl", own), Part("cuda", toolkit), fix=fix)
