"""Spack externals: the stack of the plan as packages that Spack uses and does not build."""

from __future__ import annotations

from gpustack.errors import UnsupportedError
from gpustack.model.plan import Plan, StackEntry
from gpustack.plan.components.cuda import prefix_of
from gpustack.render.comments import comment, stack
from gpustack.render.yaml_text import Value, lines

_PACKAGES = ("cuda", "cudnn", "nccl", "ffmpeg")
"""Components that Spack has a recipe for, under the same name."""

_OF_A_PACKAGE = frozenset({"network", "local"})


def render(plan: Plan) -> str:
    """A packages.yaml. Raises UnsupportedError for a plan of which Spack can use nothing."""
    found = _externals(plan)
    if not found:
        msg = "Spack can use nothing of this plan: " + ("; ".join(left_out_of(plan)) or "it has no component")
        raise UnsupportedError(msg, code="not-renderable", hint="plan cuda by network, local, runfile or tar")
    head = comment(f"{plan.host.os.called}, {plan.host.arch or ''}: plan {plan.digest}")
    head += [*stack(plan), *comment("spack config add --file THIS-FILE, or into ~/.spack/packages.yaml")]
    for text in left_out_of(plan):
        head += comment(f"omitted: {text}")
    packages: dict[str, Value] = {
        name: {"externals": [{"spec": spec, "prefix": prefix}], "buildable": False}
        for name, (spec, prefix) in found.items()
    }
    return "\n".join(["---", *head, "", *lines({"packages": packages}), ""])


def left_out_of(plan: Plan) -> list[str]:
    """What Spack cannot use, one sentence each, for the warnings."""
    known = _externals(plan)
    return [
        f"{name}: {'Spack has no recipe for it' if name not in _PACKAGES else f'by {entry.method} it has no folder'}"
        for name, entry in plan.stack.items()
        if name not in known
    ]


def _externals(plan: Plan) -> dict[str, tuple[str, str]]:
    """Specification and folder of each component, in Spack's words."""
    cuda = plan.stack.get("cuda")
    found: dict[str, tuple[str, str]] = {}
    for name, entry in plan.stack.items():
        prefix = _prefix(name, entry, cuda) if name in _PACKAGES else ""
        if prefix:
            found[name] = (f"{name}@{_version(name, entry.version, cuda)}", prefix)
    return found


def _version(name: str, text: str, cuda: StackEntry | None) -> str:
    """A version as Spack's recipes have it: cuDNN's ends in the line of CUDA that it is built for, NCCL's in 1."""
    if name == "cudnn" and cuda is not None:
        return f"{text}-{cuda.version.partition('.')[0]}"
    return f"{text}-1" if name == "nccl" else text


def _prefix(name: str, entry: StackEntry, cuda: StackEntry | None) -> str:
    """The folder of a component; "" if it has none of its own."""
    if name == "cuda":
        return prefix_of(entry.version) if entry.method in {*_OF_A_PACKAGE, "runfile", "tar"} else ""
    if name == "ffmpeg":
        return {"distro": "/usr", "source": f"/usr/local/ffmpeg-{entry.version}"}.get(entry.method, "")
    if entry.method in _OF_A_PACKAGE:
        return "/usr"
    return prefix_of(cuda.version) if entry.method == "tar" and cuda is not None else ""
