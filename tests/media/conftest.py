"""Real programs for the media checks: FFmpegs, TensorRT-RTX and Triton out of wheels, stand-ins for a driver."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Copy, Gpu, Host, Installed, OperatingSystem
from gpustack.model.results import CheckResult
from gpustack.system.run import LocalRunner
from gpustack.verify.declare import Context
from gpustack.verify.ffmpeg.media import write_clip
from gpustack.verify.frame.runner import run_checks

Wheel = Callable[[str], Path]
Check = Callable[..., dict[str, CheckResult]]
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load_matrix(None)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """Unpack a wheel of the package index once for all workers: its folder."""
    shared = tmp_path_factory.getbasetemp().parent / "wheels"
    shared.mkdir(exist_ok=True)

    def get(name: str) -> Path:
        folder = shared / name.replace("==", "-")
        with (shared / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / ".whole").exists():
                folder.mkdir(exist_ok=True)
                command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
                subprocess.run([*command, "--dest", str(folder), name], check=True, capture_output=True)
                archive = next(folder.glob("*.whl"))
                with zipfile.ZipFile(archive) as packed:
                    packed.extractall(folder)
                archive.unlink()
                for program in (*folder.glob("*/binaries/ffmpeg*"), *folder.rglob("bin/tritonserver")):
                    program.chmod(0o755)
                (folder / ".whole").touch()
        return folder

    return get


@pytest.fixture(scope="session")
def ffmpegs(wheel: Wheel) -> dict[str, str]:
    """Three generations: Debian's own, and those of wheels."""
    found = {"5": "/usr/bin/ffmpeg"}
    for major, version in (("4", "0.5.1"), ("7", "0.6.0"), ("9", "0.8.1")):
        folder = wheel(f"imageio-ffmpeg=={version}") / "imageio_ffmpeg" / "binaries"
        found[major] = str(next(folder.glob("ffmpeg*")))
    return found


H200 = Gpu(
    name="H200", pci_id="10de:2335", bus_id="0000:00:06.0", compute_capability="9.0", nvenc=0, nvdec=7, bound="nvidia"
)
L4 = Gpu(
    name="L4", pci_id="10de:27b8", bus_id="0000:01:00.0", compute_capability="8.9", nvenc=2, nvdec=4, bound="nvidia"
)


def host_with(*gpus: Gpu, driver: str | None = "580.159.04", environment: str = "bare-metal") -> Host:
    installed = {"driver": Installed(version=driver)} if driver else {}
    copies = (
        (Copy(component="driver", path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", version=driver, wins=True),)
        if driver
        else ()
    )
    return Host(
        os=OperatingSystem(id="debian", version_id="12", family="apt"),
        arch="x86_64",
        environment=environment,  # type: ignore[arg-type]
        gpus=gpus,
        installed=installed,
        copies=copies,
    )


@pytest.fixture
def check(matrix: Matrix) -> Check:
    """Run checks for real on this machine, as if it were ``host``: results by their ids."""

    def run(component: str, level: str, host: Host, **given: str) -> dict[str, CheckResult]:
        context = Context(host=host, matrix=matrix, runner=LocalRunner(), given=given)
        return {one.id: one for one in run_checks((component,), level, context, workers=2)}  # type: ignore[arg-type]

    return run


T4 = Gpu(
    name="Tesla T4",
    pci_id="10de:1eb8",
    bus_id="0000:01:00.0",
    compute_capability="7.5",
    nvenc=1,
    nvdec=2,
    bound="nvidia",
)


@pytest.fixture(scope="session")
def codec_headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's nv-codec-headers, unpacked once for all workers: the folder to include from."""
    shared = tmp_path_factory.getbasetemp().parent / "codec-headers"
    shared.mkdir(exist_ok=True)
    with (shared / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "usr" / "include").is_dir():
            words = ["apt-get", "download", "-q", "libffmpeg-nvenc-dev"]
            if subprocess.run(words, cwd=shared, check=False, capture_output=True).returncode != 0:
                subprocess.run(["apt-get", "update", "-q"], check=True, capture_output=True)
                subprocess.run(words, cwd=shared, check=True, capture_output=True)
            package = next(shared.glob("libffmpeg-nvenc-dev_*.deb"))
            subprocess.run(["dpkg-deb", "-x", str(package), str(shared)], check=True)
    return shared / "usr" / "include"


def compiled(name: str, folder: Path, headers: Path) -> Path:
    """A stand-in for the library ``name`` of the driver."""
    source = HERE / "stubs" / f"{name.partition('.')[0]}.c"
    made = folder / name
    command = ["gcc", "-shared", "-fPIC", "-O2", f"-I{headers}", f"-Wl,-soname,{name}", "-o", str(made), str(source)]
    subprocess.run(command, check=True)
    return made


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory, codec_headers: Path) -> Path:
    """A folder with stand-ins for libcuda and libnvidia-encode, whose answers the environment chooses.

    They stand for a driver, which CI has not: see what each of them says of itself. A decode library is not there.
    """
    folder = tmp_path_factory.mktemp("driver")
    for name in ("libcuda.so.1", "libnvidia-encode.so.1"):
        compiled(name, folder, codec_headers)
    return folder


@pytest.fixture(scope="session")
def decoder(tmp_path_factory: pytest.TempPathFactory, codec_headers: Path) -> Path:
    """A folder with a stand-in for libnvcuvid, and beside it the frames of gpustack's clip, decoded by software."""
    folder = tmp_path_factory.mktemp("decoder")
    compiled("libnvcuvid.so.1", folder, codec_headers)
    clip = write_clip(folder)
    words = ["-v", "error", "-i", str(clip), "-vf", "pad=640:368", "-pix_fmt", "nv12", "-f", "rawvideo", "frames.yuv"]
    subprocess.run(["ffmpeg", *words], check=True, cwd=folder)
    return folder


@pytest.fixture
def software_gpu(driver: Path, decoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-ins made to work: real FFmpegs decode, scale and encode through them, and no chip is involved."""
    chosen = {
        "LD_LIBRARY_PATH": f"{driver}:{decoder}",
        "NVENC_API": "13.1",
        "NVENC_STATUS": "0",
        "NVDEC_FRAMES": str(decoder / "frames.yuv"),
    }
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
