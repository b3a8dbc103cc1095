"""The installed components: versions, methods, and places."""

from __future__ import annotations

from gpustack.detect.parse import driver, toolkit
from gpustack.detect.parse.packages import Package
from gpustack.detect.scene import Scene
from gpustack.model.host import Copy, Installed

DISTRIBUTIONS = {
    "ubuntu", "debian", "pop", "rpmfusion", "negativo17", "suse", "almalinux", "rocky", "redhat", "fedora", "oracle",
    "microsoft", "amazon", "centos", "deb-multimedia", "arch", "gentoo",
}  # fmt: skip


def method_of(origin: str) -> str:
    """The installation method of packages of that origin: NVIDIA's from its repository, a distribution's from there."""
    return "network" if origin == "nvidia" else "distro" if origin in DISTRIBUTIONS else "unknown"


def find_installed(scene: Scene) -> dict[str, Installed]:
    """Every installed component, by name."""
    found = {
        "driver": _driver(scene),
        "fabric-manager": _packaged(
            scene,
            r"(?:cuda-drivers-)?(?:nvidia-)?fabric-?manager(?:-\d+)?|nvidia-fabric-?manager(?:-\d+)?",
            "/usr/bin/nv-fabricmanager",
        ),
        "cuda": _cuda(scene),
        "cudnn": _library(
            scene,
            "cudnn",
            r"libcudnn\d+(?:-cuda-\d+)?|cudnn\d*-cuda-\d+|libcudnn\d+-cuda-\d+",
            toolkit.cudnn_headers(scene.evidence),
        ),
        "nccl": _library(scene, "nccl", r"libnccl2?|nccl", {}),
        "tensorrt": _library(scene, "tensorrt", r"libnvinfer\d*|tensorrt", toolkit.tensorrt_headers(scene.evidence)),
        "tensorrt-rtx": _library(scene, "tensorrt-rtx", r"tensorrt-rtx", {}),
        "nv-codec-headers": _codec_headers(scene),
        "ffmpeg": _ffmpeg(scene),
        "container-toolkit": _packaged(scene, r"nvidia-container-toolkit", "/usr/bin/nvidia-ctk"),
        "dcgm": _packaged(scene, r"datacenter-gpu-manager(?:-4-core)?", "/usr/bin/dcgmi"),
        "gdrcopy": _gdrcopy(scene),
        "gds": _packaged(scene, r"nvidia-gds-\d+-\d+", ""),
        "imex": _packaged(scene, r"nvidia-imex(?:-\d+)?", "/usr/bin/nvidia-imex"),
        "triton": _triton(scene),
    }
    return {name: entry for name, entry in found.items() if entry is not None}


def _driver(scene: Scene) -> Installed | None:
    version = scene.driver_version
    library = next((copy for copy in scene.copies if copy.component == "driver" and copy.wins), None)
    by_origin = driver.origins(scene.packages)
    if version is None and library is None and not by_origin:
        return None
    origin, mine = _main_origin(by_origin)
    method = method_of(origin) if mine else "unknown"
    if driver.is_runfile(scene.evidence) and not mine:
        method, origin = "runfile", "nvidia"
    elif not mine and scene.streams:  # module streams of this name are NVIDIA's own
        method, origin = "network", "nvidia"
    return Installed(
        version=version,
        method=method,
        path=library.path if library is not None else None,
        origin=origin or None,
        packages=tuple(package.name for package in mine),
        packaged=driver.package_version(scene.packages),
    )


def _main_origin(by_origin: dict[str, tuple[Package, ...]]) -> tuple[str, tuple[Package, ...]]:
    """The origin of most driver packages."""
    if not by_origin:
        return "", ()
    origin = max(by_origin, key=lambda name: (len(by_origin[name]), name))
    return origin, by_origin[origin]


def _cuda(scene: Scene) -> Installed | None:
    kit = toolkit.default_toolkit(scene.evidence, scene.toolkits)
    if kit is None:
        return None
    method = "runfile" if kit.runfile else method_of(kit.origin) if kit.packages else "unknown"
    return Installed(
        version=kit.version, method=method, path=kit.path, origin=kit.origin or None, packages=kit.packages
    )


def _library(scene: Scene, component: str, pattern: str, headers: dict[str, str]) -> Installed | None:
    """A library: the copy that the loader uses, with the exact number of the matching package."""
    winner = _winning(scene.copies, component)
    mine = scene.installed(pattern)
    agreeing = [p for p in mine if winner is None or winner.version is None or _same(p.upstream, winner.version)]
    if agreeing and (winner is None or winner.owner is None):
        package = max(agreeing, key=lambda p: len(p.upstream))
        return Installed(
            version=package.upstream,
            method=method_of(package.origin),
            path=winner.path if winner is not None else None,
            origin=package.origin or None,
            packages=tuple(p.name for p in agreeing),
        )
    if winner is not None:
        wheel = winner.owner is not None and winner.owner.startswith("wheel ")
        return Installed(
            version=winner.version or next(iter(headers.values()), None),
            method="pip" if wheel else "unknown",
            path=winner.path,
            origin="wheel" if wheel else None,
        )
    header = next(iter(headers.items()), None)
    return Installed(version=header[1], method="unknown", path=header[0]) if header is not None else None


def _winning(copies: tuple[Copy, ...], component: str) -> Copy | None:
    """The copy that the loader uses of the highest soname, else any copy."""
    mine = [copy for copy in copies if copy.component == component]
    winners = [copy for copy in mine if copy.wins]
    return winners[-1] if winners else mine[0] if mine else None


def _same(longer: str, shorter: str) -> bool:
    return longer == shorter or longer.startswith(f"{shorter}.")


def _packaged(scene: Scene, pattern: str, program: str) -> Installed | None:
    mine = scene.installed(pattern)
    path = program if program in scene.evidence.marks else None
    if not mine:
        return Installed(method="unknown", path=path) if path else None
    package = mine[0]
    return Installed(
        version=package.upstream,
        method=method_of(package.origin),
        path=path,
        origin=package.origin or None,
        packages=tuple(p.name for p in mine),
    )


def _gdrcopy(scene: Scene) -> Installed | None:
    """By its packages, else by its program; a build from source leaves the sources of its module for DKMS."""
    found = _packaged(scene, r"libgdrapi|gdrcopy", "/usr/bin/gdrcopy_sanity")
    built = "/usr/local/bin/gdrcopy_sanity"
    if found is not None or built not in scene.evidence.marks:
        return found
    sources = [path.split("/")[3] for path in scene.evidence.files if path.startswith("/usr/src/gdrdrv-")]
    return Installed(
        version=sources[0].removeprefix("gdrdrv-") if len(sources) == 1 else None, method="source", path=built
    )


def _codec_headers(scene: Scene) -> Installed | None:
    found = next(iter(toolkit.codec_headers(scene.evidence).items()), None)
    mine = scene.installed(r"nv-codec-headers|libffmpeg-nvenc-dev")
    if found is None:
        return None
    method = "distro" if mine and not found[0].startswith("/usr/local") else "source"
    return Installed(version=found[1], method=method, path=found[0], packages=tuple(p.name for p in mine))


def _ffmpeg(scene: Scene) -> Installed | None:
    marks = scene.evidence.marks
    path = next((path for path in ("/usr/local/bin/ffmpeg", "/usr/bin/ffmpeg") if path in marks), None)
    told = toolkit.ffmpeg_version(scene.evidence)
    mine = scene.installed(r"ffmpeg")
    if path == "/usr/local/bin/ffmpeg" or (path and not mine):
        return Installed(version=told, method="source" if path.startswith("/usr/local") else "unknown", path=path)
    if mine:
        package = mine[0]
        return Installed(
            version=told or package.upstream,
            method="distro",
            path=path,
            origin=package.origin or None,
            packages=("ffmpeg",),
        )
    return Installed(version=told, method="unknown") if told else None


def _triton(scene: Scene) -> Installed | None:
    evidence = scene.evidence
    version = evidence.line("/opt/tritonserver/TRITON_VERSION")
    if version is None and "/opt/tritonserver/bin/tritonserver" not in evidence.marks:
        return None
    plain = version if version and version[:1].isdigit() else None
    return Installed(
        version=plain, method="container" if scene.environment == "container" else "unknown", path="/opt/tritonserver"
    )


def toolkit_copies(scene: Scene) -> tuple[Copy, ...]:
    """The toolkits, ffmpeg programs and cuDNN headers, listed as copies: the default one wins."""
    default = toolkit.default_toolkit(scene.evidence, scene.toolkits)
    kits = [
        Copy(
            component="cuda",
            path=kit.path,
            version=kit.version,
            owner=kit.packages[0] if kit.packages else None,
            wins=kit is default,
        )
        for kit in scene.toolkits
    ]
    programs = [path for path in ("/usr/local/bin/ffmpeg", "/usr/bin/ffmpeg") if path in scene.evidence.marks]
    headers = toolkit.cudnn_headers(scene.evidence)
    kits += [Copy(component="cudnn", path=path, version=version) for path, version in headers.items()]
    return (*kits, *(Copy(component="ffmpeg", path=path, wins=path == programs[0]) for path in programs))
