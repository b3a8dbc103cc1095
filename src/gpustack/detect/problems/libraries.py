"""Libraries with several copies, or with different versions of header and library."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.parse import toolkit
from gpustack.detect.parse.libraries import library_path
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.model.host import Copy

_TITLES = {"cudnn": "cuDNN", "tensorrt": "TensorRT", "nccl": "NCCL", "driver": "libcuda"}


def _several(scene: Scene, component: str) -> tuple[Copy, ...]:
    """The copies of one soname if they differ in version, in load order."""
    mine = [copy for copy in scene.copies if copy.component == component and copy.version]
    for soname in dict.fromkeys(copy.soname for copy in mine):
        same = tuple(copy for copy in mine if copy.soname == soname)
        if len({copy.version for copy in same}) > 1:
            return same
    return ()


def _list_copies(copies: tuple[Copy, ...]) -> str:
    return ", ".join(f"{copy.version} at {copy.path}" for copy in copies)


def _copies_finding(scene: Scene, component: str) -> Iterator[Finding]:
    copies = _several(scene, component)
    if not copies:
        return
    winner = next((copy for copy in copies if copy.wins), None)
    wheels = [copy for copy in copies if copy.owner]
    title = _TITLES[component]
    if winner is None:
        yield Finding(
            message=f"several copies of {title} differ: {_list_copies(copies)}; none is on the loader's path",
            severity="info",
        )
        return
    message = (
        f"several copies of {title} of the same soname differ: {_list_copies(copies)}; the loader takes "
        f"{winner.version} from {winner.path}"
    )
    shadowed = [copy for copy in wheels if copy.version != winner.version]
    if shadowed and winner.path.rpartition("/")[0] in _library_path(scene):
        message += f", which LD_LIBRARY_PATH puts before the {shadowed[0].owner}"
    if _is_apart(scene, copies, winner):
        fix = f"nothing has to be done: wheels load their own {title}, as long as LD_LIBRARY_PATH names no other"
        yield Finding(message=message, fix=fix, reboot=False, severity="info")
        return
    fix = f"keep one {title} on the loader's path, or take its folder out of LD_LIBRARY_PATH"
    yield Finding(message=message, fix=fix, reboot=False, severity="warn")


def _is_apart(scene: Scene, copies: tuple[Copy, ...], winner: Copy) -> bool:
    """Whether all other copies are in wheels, which load their own unless LD_LIBRARY_PATH names another."""
    return all(copy.owner for copy in copies if copy is not winner) and (
        winner.path.rpartition("/")[0] not in _library_path(scene)
    )


def _library_path(scene: Scene) -> tuple[str, ...]:
    return library_path(scene.evidence)


@detects("detect-cudnn-copies")
def cudnn_copies(scene: Scene) -> Iterator[Finding]:
    """Several copies of cuDNN."""
    yield from _copies_finding(scene, "cudnn")


@detects("detect-tensorrt-copies")
def tensorrt_copies(scene: Scene) -> Iterator[Finding]:
    """Several copies of TensorRT."""
    yield from _copies_finding(scene, "tensorrt")


@detects("detect-nccl-copies")
def nccl_copies(scene: Scene) -> Iterator[Finding]:
    """Several copies of NCCL."""
    yield from _copies_finding(scene, "nccl")


@detects("detect-driver-copies")
def driver_copies(scene: Scene) -> Iterator[Finding]:
    """Several libcuda of different versions."""
    if scene.environment != "wsl":
        yield from _copies_finding(scene, "driver")


def _header_finding(scene: Scene, component: str, headers: dict[str, str]) -> Iterator[Finding]:
    title = _TITLES[component]
    library, number = next(
        (
            (copy.path, copy.version)
            for copy in scene.copies
            if copy.component == component and copy.wins and copy.version and not copy.owner
        ),
        ("", ""),
    )
    for path, version in headers.items() if number else ():
        mine, theirs = number.split("."), version.split(".")
        differs = any(one != other for one, other in zip(mine, theirs, strict=False))
        # Of headers of several eras only that of the library's counts.
        if differs and (len(headers) == 1 or mine[:1] == theirs[:1]):
            yield Finding(
                message=f"{title}'s header {path} is {version} but its library {library} is {number}: programs built "
                "here load another version than they were compiled with",
                fix=f"install the library and development packages of {title} in the same version",
                reboot=False,
            )
            return


@detects("detect-cudnn-header")
def cudnn_header(scene: Scene) -> Iterator[Finding]:
    """The cuDNN header and library differ."""
    yield from _header_finding(scene, "cudnn", toolkit.cudnn_headers(scene.evidence))


@detects("detect-tensorrt-header")
def tensorrt_header(scene: Scene) -> Iterator[Finding]:
    """The TensorRT header and library differ."""
    yield from _header_finding(scene, "tensorrt", toolkit.tensorrt_headers(scene.evidence))


@detects("detect-dangling-library")
def dangling(scene: Scene) -> Iterator[Finding]:
    """Broken library links."""
    for path, mark in sorted(scene.evidence.marks.items()):
        name = path.rpartition("/")[2]
        if mark == "dangling" and name.startswith(
            ("libcuda.so", "libcudnn", "libnvinfer", "libnvidia-ml.so", "libnccl")
        ):
            yield Finding(
                message=f"{path} is a link to {scene.evidence.links.get(path)}, which does not exist",
                fix="reinstall the package of that library, then run `sudo ldconfig`",
                reboot=False,
            )
