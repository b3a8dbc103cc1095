"""Quick checks of NCCL: the library is found and fits the CUDA toolkit."""

from __future__ import annotations

from gpustack.model.host import Host
from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, fit

INSTALL = "`gpustack install nccl`"


def version_of(host: Host) -> str | None:
    """The version of the NCCL that programs load, else of the one that is installed."""
    copies = (*host_facts.loaded_copies(host, "nccl"), *host_facts.copies_of(host, "nccl"))
    own = next((copy.version for copy in copies if copy.version), None)
    return host_facts.upstream(own) or host_facts.installed_version(host, "nccl")


def _no_nccl(host: Host) -> Outcome | None:
    there = host_facts.copies_of(host, "nccl") or "nccl" in host.installed
    return None if there else skipped("no NCCL was found", INSTALL)


@check(
    "nccl.found",
    title="library found",
    expects="libnccl is where the loader looks, or in a Python environment.",
    mends=INSTALL,
    unless=(_no_nccl,),
)
def found(context: Context) -> Outcome:
    host = context.host
    copies = host_facts.copies_of(host, "nccl")
    loaded = host_facts.loaded_copies(host, "nccl")
    if loaded:
        others = "; ".join(host_facts.told_by(copy) for copy in copies if copy not in loaded)
        return passed(f"{host_facts.told_by(loaded[0])}{f'; also there: {others}' if others else ''}")
    wheels = tuple(copy for copy in copies if (copy.owner or "").startswith("wheel "))
    if wheels:
        return passed(f"for their own Python only: {'; '.join(host_facts.told_by(one) for one in wheels)}")
    installed = host.installed.get("nccl")
    return failed(
        f"NCCL {installed.version if installed else ''} is installed, but the loader finds no libnccl".replace(
            "  ", " "
        ),
        "add its folder to /etc/ld.so.conf.d and run `sudo ldconfig`, or reinstall it",
    )


@check(
    "nccl.cuda",
    title="fits the CUDA toolkit",
    expects="This NCCL is made for the installed CUDA.",
    mends="Install the NCCL of the installed CUDA's major version: `gpustack install nccl`.",
    needs=("nccl.found",),
    unless=(_no_nccl,),
)
def cuda(context: Context) -> Outcome:
    host = context.host
    own = version_of(host)
    toolkit = host_facts.installed_version(host, "cuda")
    if own is None:
        return skipped("the NCCL here does not tell its version")
    if toolkit is None:
        return skipped("no CUDA toolkit was found to compare with", "`gpustack install cuda`")
    answer = fit(context.matrix, host, Part("nccl", own), Part("cuda", toolkit))
    if answer.breach:
        return failed(
            f"NCCL {own} does not go with CUDA {toolkit}: {answer.sentence(f'NCCL {own}')}",
            f"`gpustack install nccl 'cuda=={toolkit}'` takes one that does",
            expected=f"CUDA {answer.wanted}" if answer.wanted else "",
            actual=f"CUDA {toolkit}",
        )
    if not answer.covered:
        return skipped(f"no fact covers NCCL {own} with CUDA {toolkit}")
    return passed(f"NCCL {own} goes with CUDA {toolkit}")
