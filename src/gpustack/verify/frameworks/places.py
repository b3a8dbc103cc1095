"""Which environment and which interpreter a framework is checked in."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gpustack.model.host import PythonEnvironment
from gpustack.verify.declare import Context, Outcome, skipped

TITLES = {
    "torch": "torch", "tensorflow": "TensorFlow", "jax": "JAX", "onnxruntime-gpu": "ONNX Runtime", "cupy": "CuPy",
    "vllm": "vLLM",
}  # fmt: skip
_NAMES = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    "jax": ("jax", "jaxlib"),
    "onnxruntime-gpu": ("onnxruntime-gpu", "onnxruntime"),
}
"""Distributions that contain a framework, where the name is not its own."""


def versions_of(environment: PythonEnvironment, component: str) -> dict[str, str]:
    """The distributions of a framework in an environment, with their versions."""
    names = _NAMES.get(component, (component,))
    packages = environment.packages.items()
    is_cupy = component == "cupy"
    return {name: text for name, text in packages if name in names or (is_cupy and name.startswith("cupy-cuda"))}


def having(context: Context, component: str) -> tuple[PythonEnvironment, ...]:
    """The environments with a framework: the one to check first, the named one alone."""
    found = [one for one in context.host.environments or () if versions_of(one, component)]
    named = context.given.get("python")
    if named is not None:
        prefix = str(Path(named).parent.parent)
        return tuple(one for one in found if one.path == prefix)
    first = _prefix(shutil.which("python3") if context.runner is not None else None)
    active = (os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX"), first) if context.runner else ()
    return tuple(sorted(found, key=lambda one: one.path not in active))


def _prefix(program: str | None) -> str:
    return str(Path(program).parent.parent) if program else ""


def interpreter_of(context: Context, component: str) -> str | Outcome:
    """The interpreter to run, or the skip: none there, or one that somebody else could have changed."""
    named = context.given.get("python")
    if named is not None:
        return _own(Path(named))
    environments = having(context, component)
    if not environments:
        return absent(component)
    folder = Path(environments[0].path) / "bin"
    numbers = ".".join((environments[0].python or "3").split(".")[:2])
    programs = (folder / f"python{numbers}", folder / "python3", folder / "python")
    found = next((one for one in programs if os.access(one, os.X_OK)), None)
    if found is None and environments[0].path.endswith("/.local"):
        found = Path(shutil.which("python3") or "/usr/bin/python3")
    if found is None:
        return skipped(f"{environments[0].path} has no interpreter", "name the one to use: `--python FILE`")
    return _own(found)


def _own(program: Path) -> str | Outcome:
    """The program, unless we are root and another user could have written it."""
    try:
        owners = {place.stat().st_uid for place in (program, program.parent, program.resolve())}
    except OSError as exc:
        return skipped(f"{program} cannot be used: {exc.strerror}", "name another interpreter: `--python FILE`")
    other = next((owner for owner in owners if owner), None)
    if os.geteuid() == 0 and other is not None:
        return skipped(
            f"{program} belongs to the user with number {other}: as root, gpustack does not run it",
            "run gpustack as that user",
        )
    return str(program)


def absent(component: str) -> Outcome:
    """The skip where no environment has the framework."""
    return skipped(
        f"no {TITLES[component]} was found in a Python environment", "name its interpreter with `--python FILE`"
    )
