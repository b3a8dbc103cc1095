"""What an error of CUDA means on a host whose driver or GPU is known: which CUDA the one runs, which code the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpustack.detect.problems import cures
from gpustack.detect.problems.demands import plan_for
from gpustack.detect.scene import Scene
from gpustack.model.host import Gpu, Host
from gpustack.versions import is_within, version_key

if TYPE_CHECKING:
    from gpustack.solve.question import Question

_DRIVER_TOO_OLD, _NO_CODE, _NEW_PTX = 35, 209, 222


def by_versions(scene: Scene, code: int) -> tuple[str, str] | None:
    """The cause and the fix of an error by driver and GPU, None where neither decides or both are unknown."""
    if code == _NO_CODE:
        return _no_code(scene.gpus)
    version = scene.driver_version
    if code not in {_DRIVER_TOO_OLD, _NEW_PTX} or not version or scene.environment == "jetson":
        return None
    if code == _DRIVER_TOO_OLD and not (scene.library_version or scene.evidence.excerpt):
        return None  # CUDA says the same where it finds no libcuda
    from gpustack.solve.cuda_runs import newest_cuda  # noqa: PLC0415 (few hosts have such an error)

    cuda = newest_cuda(_question(scene), version)
    if not cuda:
        return None
    kit = max((kit.version for kit in scene.toolkits if kit.version), key=version_key, default="")
    newer = kit if kit and version_key(kit) > version_key(cuda) else ""
    if code == _DRIVER_TOO_OLD and newer.partition(".")[0] == cuda.partition(".")[0]:
        newer = ""  # programs of the same major release run
    return _too_old(scene, cuda, newer) if code == _DRIVER_TOO_OLD else _newer_ptx(scene, cuda, newer)


def _question(scene: Scene) -> Question:
    from gpustack.model.request import Request  # noqa: PLC0415 (as above)
    from gpustack.solve.question import Question  # noqa: PLC0415 (as above)

    system = scene.os
    if system.family is None and scene.evidence.excerpt:
        system = replace(system, family="")  # a text that names no system is of a Linux
    host = Host(os=system, arch=scene.arch or "x86_64", environment=scene.environment, gpus=scene.gpus)
    return Question(scene.matrix, host, Request(requirements=()), mode="check")


def _too_old(scene: Scene, cuda: str, kit: str) -> tuple[str, str]:
    """A program of a newer major CUDA than the driver runs, or one that does not find the driver's library."""
    major = int(cuda.partition(".")[0])
    says = f"driver {scene.driver_version} runs programs of CUDA {major} (it is of CUDA {cuda}), and "
    older = f"build the program with CUDA {major}, or use its build or image for that: {cures.plan(f'cuda=={major}.*')}"
    missing = "CUDA says the same where the program finds no libcuda.so.1 (`ldconfig -p`, a container without GPUs)"
    if kit:
        return f"{says}the toolkit here is {kit}", f"{_upgrade(scene, f'cuda>={kit}', older)}; {missing}"
    says += "the program finds no libcuda.so.1, or is of a newer CUDA"
    least = f"cuda>={major + 1}.0" if scene.matrix.releases("cuda")[0].version >= str(major + 1) else ""
    return says, (
        "where `nvidia-smi` does not run in the same place, give it the driver's library (`sudo ldconfig`; a "
        f"container: --gpus all or runtimeClassName: nvidia); else {_upgrade(scene, least, older)}"
    )


def _newer_ptx(scene: Scene, cuda: str, kit: str) -> tuple[str, str]:
    """PTX of a newer CUDA than the compiler of the driver knows."""
    named = f" ({kit} is here)" if kit else ""
    says = f"driver {scene.driver_version} compiles PTX up to CUDA {cuda}, and the program's is of a newer one{named}"
    code = next((gpu.compute_capability for gpu in scene.gpus if gpu.compute_capability), None)
    arch = f"-arch=sm_{code.replace('.', '')}" if code else "-arch=native"
    older = f"build machine code for the GPU (`nvcc {arch}`), or with CUDA {cuda} or older"
    return says, _upgrade(scene, f"cuda>={kit}" if kit else "", older)


def _upgrade(scene: Scene, demand: str, older: str) -> str:
    """A newer driver where one supports the GPU, and what does without."""
    legacy = next((gpu for gpu in scene.gpus if gpu.driver_last), None)
    newest = legacy.driver_last if legacy is not None else None
    if legacy is not None and newest and is_within(scene.driver_version or "0", f">={newest.partition('.')[0]}"):
        return f"no newer driver branch supports {legacy.called} ({newest} is its last): {older}"
    where = {"container": "on the container's host ", "wsl": "under Windows "}.get(scene.environment or "", "")
    first = plan_for(scene, demand) or cures.plan("driver")
    return f"{where}{first} installs a newer driver; or {older}"


def _no_code(gpus: tuple[Gpu, ...]) -> tuple[str, str] | None:
    kinds = {gpu.compute_capability: gpu for gpu in gpus}
    if len(kinds) != 1:
        return None
    [(capability, gpu)] = kinds.items()
    if not capability:
        return None
    arch = f"`nvcc -arch=sm_{capability.replace('.', '')}`, TORCH_CUDA_ARCH_LIST={capability}"
    release = "a release of it for this GPU: `gpustack plan torch --method pip` names one of PyTorch"
    says = "the program has no code for this GPU's compute capability: it was built for newer or older GPUs "
    says += f"({gpu.called} has {capability})"
    return says, f"build it for that ({arch}), or use {release}"
