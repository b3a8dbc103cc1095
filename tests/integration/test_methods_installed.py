"""Archives, .run files, wheels and local repositories by `gpustack install`: killed, gone on with, there, taken back.

Everything is fetched from loopback. Archives and packages have the vendor's names and little in them, .run files are
scripts of the tests; the wheels are NVIDIA's own. Each tree is compared as a whole with the one before.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace
from tests.install.layers import Layer, layer
from tests.install.test_faults import redigested
from tests.integration import runfiles
from tests.integration.field import ARCHIVE, HOSTS, Ask, Scene, Workshop
from tests.integration.managers import installed, missing
from tests.integration.roots import Root
from tests.integration.server import served
from tests.integration.test_archives import ERAS, Field, maker
from tests.integration.test_bundles import as_system, gpustack, local, mirror
from tests.integration.test_debian_archive import debian
from tests.integration.test_local_packages import HOLDING, serve_holding_file
from tests.integration.test_pip_real import made as wheels_plan
from tests.media.conftest import L4
from tests.tiers import tiers

from gpustack.detect.describe import describe
from gpustack.matrix.index import load_matrix
from gpustack.model.host import Host, OperatingSystem
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.model.steps import Artifact, FileWrite
from gpustack.plan.build import build
from gpustack.plan.document import dump
from gpustack.solve.requirements import parse_methods, parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.system.run import LocalRunner
from gpustack.verify.declare import Context
from gpustack.verify.frame.runner import run_checks

__all__ = ["debian", "local", "maker", "mirror"]

Make = Callable[..., Layer]


@dataclass(frozen=True)
class Served:
    """A folder with a folder for each host name."""

    www: Path


@pytest.fixture
def over(tmp_path: Path) -> Iterator[Make]:
    """A maker of layers over a root."""
    with ExitStack() as stack:

        def make(root: Root) -> Layer:
            return stack.enter_context(layer([root.path], root.path, tmp_path / "layer"))

        yield make


def comes_and_goes(
    made: Layer, plan: Plan, folder: Path, environment: dict[str, str], demand: Callable[[Root], None], *, dies: str
) -> None:
    """Install, look, install again, look at the drift, take back.

    The first attempt is killed when the step whose id begins with ``dies`` has done its work and is not recorded; at
    the end another one that was killed there is taken back.
    """
    path = folder / "plan.json"
    path.write_text(dump(plan))
    words = ("--root", made.root.path, "--yes")
    family = plan.host.os.family or ""
    before = installed(made.root, family)
    die(path, words, environment, dies)
    done = gpustack("install", "--resume", *words, environment=environment)
    assert done.returncode == 0, done.stderr
    demand(made.root)
    status = gpustack("status", "--root", made.root.path, environment=environment)
    assert status.returncode == 0, status.stdout + status.stderr
    changed = made.changes()
    again = gpustack("install", path, *words, environment=environment)
    assert again.returncode == 0, again.stderr
    assert "nothing to do" in again.stderr
    assert made.changes() == changed
    for is_killed in (False, True):
        if is_killed:
            die(path, words, environment, dies)
        back = gpustack("install", "--rollback", *words, environment=environment)
        assert back.returncode == 0, back.stderr
        assert left(made) == {}
        assert installed(made.root, family) == before


def die(plan: Path, words: tuple[object, ...], environment: dict[str, str], step: str) -> None:
    """`gpustack install`, ended by SIGKILL ahead of the last record of a step."""
    sources = environment["PYTHONPATH"]
    environment = {**environment, "PYTHONPATH": f"{sources}:{Path(sources).parent}", "DIE_AT": f"before end {step}"}
    command = [sys.executable, "-m", "tests.install.launcher", "install", plan, *words]
    done = subprocess.run(
        [*map(str, command)], check=False, capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def left(made: Layer) -> dict[str, str]:
    """What differs from the tree below, but for Python's caches and folders that no .rpm package of the tests owns."""
    return {
        path: text
        for path, text in made.changes().items()
        if "__pycache__" not in path and not is_ownerless(made, path)
    }


def is_ownerless(made: Layer, path: str) -> bool:
    place = made.root.inside(path)
    return (
        not made.root.inside("/var/lib/dpkg").exists()
        and place.is_dir()
        and not any(one.is_file() for one in place.rglob("*"))
    )


def test_an_archive(
    make: Callable[..., Field], over: Make, mirror: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    field = make(ERAS["9"])
    as_debian(field.root)
    made = over(field.root)

    def demand(root: Root) -> None:
        assert dataclasses.replace(field, root=root).version() == str(field.era.number)
        for name in ("version", "version.c"):
            root.inside(f"/root/{name}").unlink()

    environment = mirror(Served(tmp_path / "www"))
    comes_and_goes(made, field.plan, tmp_path, environment, demand, dies="unpack")


def as_debian(root: Root) -> None:
    root.write("/etc/os-release", 'ID=debian\nVERSION_ID="12"\n')


LOCAL = {"apt": HOLDING["apt"], "dnf": dataclasses.replace(HOLDING["dnf"], system="rocky9")}
"""RHEL itself asks for a subscription."""


@pytest.mark.parametrize("family", tiers({family: family for family in LOCAL}, "apt"))
def test_a_package_that_holds_a_repository(
    family: str,
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    over: Make,
    mirror: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    host = scene(LOCAL[family])
    serve_holding_file(host, host.workshop.keys.current)
    root = enter(host)
    as_system(root, host)

    def demand(root: Root) -> None:
        assert not missing(host.plan, installed(root, family))

    comes_and_goes(over(root), host.plan, tmp_path, mirror(host), demand, dies="install-cudnn")


RUNFILES = Ask("debian12", ("driver", "cuda"), ("--gpu", "L40S", "--method", "runfile"))


def serve_runfiles(host: Scene) -> Plan:
    """Stand-ins in the place of the vendor's .run files, and the plan with their sums and sizes."""
    known: dict[str, bytes] = {}
    for artifact in (one for step in host.plan.steps for one in step.artifacts):
        address = urlsplit(artifact.url)
        place = host.www / str(address.hostname) / address.path.lstrip("/")
        name = place.name
        if name.startswith("cuda_"):
            runfiles.toolkit(place, runfiles.version_of(name))
        else:
            runfiles.driver(place, runfiles.version_of(name), host.folder)
        known[artifact.url] = place.read_bytes()

    def of_file(file: FileWrite, artifacts: tuple[Artifact, ...]) -> FileWrite:
        one = next((one for one in artifacts if file.path == f"{one.path}.md5"), None)
        if one is None:
            return file
        return replace(file, content=f"{hashlib.md5(known[one.url]).hexdigest()}  {one.path}\n")  # noqa: S324

    steps = []
    for step in host.plan.steps:
        artifacts = tuple(
            replace(one, size=len(known[one.url]), sha256=one.sha256 and hashlib.sha256(known[one.url]).hexdigest())
            for one in step.artifacts
        )
        files = tuple(of_file(file, artifacts) for file in step.files)
        steps.append(replace(step, artifacts=artifacts, files=files))
    return redigested(replace(host.plan, steps=tuple(steps)))


def test_run_files(
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    over: Make,
    mirror: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    host = scene(RUNFILES)
    plan = serve_runfiles(host)
    root = enter(host)
    as_system(root, host)
    keep_doc(root)
    # The packages of compilers and headers are stand-ins: this is what the real ones bring.
    for name in ("gcc", "make"):
        root.write(f"/usr/bin/{name}", "#!/bin/sh\n", 0o755)
    root.write(f"/lib/modules/{os.uname().release}/build/Makefile", "")

    def demand(root: Root) -> None:
        assert plan.stack["cuda"].version in root.must("/usr/local/cuda/bin/nvcc", "--version")
        assert plan.stack["driver"].version in root.must("readlink", "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
        assert root.inside("/etc/systemd/system/nvidia-persistenced.service").is_file()

    comes_and_goes(over(root), plan, tmp_path, mirror(host), demand, dies="install-driver")


def keep_doc(root: Root) -> None:
    """A folder that every system has: removed as empty with the last file in it, dpkg would write all its lists anew."""
    root.write("/usr/share/doc/kept", "")


WHEELS = ("nvidia-nvtx", "nvidia-cuda-runtime")
"""The smallest wheels of the toolkit; the whole set is 2 GB."""


def small_wheels(folder: Path) -> Plan:
    """The plan of the toolkit with two of its projects, whose wheels lie in ``folder``."""

    def smaller(file: FileWrite) -> FileWrite:
        if not file.path.endswith(".txt") or "pip" in file.path:
            return file
        blocks = file.content.replace("\\\n", "\\").split("\n")
        kept = [block.replace("\\", "\\\n") for block in blocks if block.partition("==")[0] in WHEELS]
        assert len(kept) == len(WHEELS)
        return replace(file, content="\n".join(kept) + "\n")

    plan = wheels_plan()
    steps = tuple(replace(step, files=tuple(map(smaller, step.files))) for step in plan.steps)
    text = next(
        file.content for step in steps if step.component == "cuda" for file in step.files if file.path.endswith(".txt")
    )
    download(folder, text)
    return redigested(replace(plan, steps=steps))


def download(folder: Path, requirements: str) -> None:
    (folder / "wheels.txt").write_text(requirements)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", "--dest", str(folder), "--requirement", str(folder / "wheels.txt")]
    subprocess.run(command, check=True)


@pytest.mark.slow
def test_wheels(
    debian: Callable[[str], Root],
    workshop: Workshop,
    over: Make,
    mirror: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    with chroot_with_wheels(debian, workshop, tmp_path, small_wheels) as (root, plan):

        def demand(root: Root) -> None:
            home = "/opt/gpustack/venv-cuda13"
            program = f"import ctypes; ctypes.CDLL('{home}/link/libcudart.so.13').cudaRuntimeGetVersion"
            root.must(f"{home}/bin/python3", "-c", program)

        environment = mirror(Served(tmp_path / "www"))
        comes_and_goes(over(root), plan, tmp_path, environment, demand, dies="install-cuda")


@contextmanager
def chroot_with_wheels(
    debian: Callable[[str], Root], workshop: Workshop, folder: Path, plan_of: Callable[[Path], Plan]
) -> Iterator[tuple[Root, Plan]]:
    """A tree whose pip has the wheels that ``plan_of`` put into its folder, and no others; and the plan."""
    wheels = folder / "www" / ARCHIVE / "wheels"
    wheels.mkdir(parents=True)
    plan = plan_of(wheels)
    root = debian("debian12")
    bundle = root.inside("/etc/ssl/certs/ca-certificates.crt")
    bundle.write_text(bundle.read_text() + workshop.certificate.authority.read_text())
    settings = f"[global]\nno-index = true\nfind-links = https://{ARCHIVE}/wheels/\ncert = /etc/ssl/certs/ca-certificates.crt\n"
    root.write("/etc/pip.conf", settings)
    keep_doc(root)
    with served(folder / "www", workshop.certificate) as address:
        root.write("/etc/hosts", f"{root.inside('/etc/hosts').read_text()}\n{address} {' '.join(HOSTS)}\n")
        yield root, plan


def ffmpeg_wheel(folder: Path) -> Plan:
    """The plan of `--method ffmpeg=wheel`, whose real wheel lies in ``folder``."""
    matrix = load_matrix()
    machine = replace(describe(matrix, os="debian12", arch="x86_64", gpus=("L4",)), environment="container")
    request = Request(requirements=(parse_requirement("ffmpeg"),), methods=parse_methods(("ffmpeg=wheel",)))
    plan = build(machine, request, resolve(matrix, machine, request), matrix)
    texts = (file.content for step in plan.steps for file in step.files if file.path.endswith(".txt"))
    download(folder, next(text for text in texts if "imageio-ffmpeg==" in text))
    return plan


def test_a_ready_ffmpeg_out_of_a_wheel(
    debian: Callable[[str], Root],
    workshop: Workshop,
    over: Make,
    mirror: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    """What was installed has NVENC in it, and says what is missing on a machine without a GPU."""
    path = tmp_path / "plan.json"
    host = Host(os=OperatingSystem(id="debian", version_id="12", family="apt"), arch="x86_64", gpus=(L4,))
    with chroot_with_wheels(debian, workshop, tmp_path, ffmpeg_wheel) as (root, plan):
        path.write_text(dump(plan))
        made, environment = over(root), mirror(Served(tmp_path / "www"))
        done = gpustack("install", path, "--root", made.root.path, "--yes", environment=environment)
        assert done.returncode == 0, done.stderr
        assert "ffmpeg version n9.0.2" in made.root.must("/usr/local/bin/ffmpeg", "-hide_banner", "-version")
        assert " h264_nvenc " in made.root.must("/usr/local/bin/ffmpeg", "-hide_banner", "-encoders")
        (program,) = made.root.path.glob(
            "opt/gpustack/venv-ffmpeg/lib/*/site-packages/imageio_ffmpeg/binaries/ffmpeg-*"
        )
        context = Context(host=host, matrix=load_matrix(), runner=LocalRunner(), given={"ffmpeg": str(program)})
        found = {one.id: one for one in run_checks(("ffmpeg",), "smoke", context)}
        assert (found["ffmpeg.compiled"].status, found["ffmpeg.nvenc"].status) == ("pass", "fail")
        assert "libcuda.so.1" in found["ffmpeg.nvenc"].reason
        back = gpustack("install", "--rollback", "--root", made.root.path, "--yes", environment=environment)
        assert back.returncode == 0, back.stderr
        assert left(made) == {}
