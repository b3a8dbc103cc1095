"""Archives for real: served, downloaded, checked, unpacked and linked by the plan's own script; a wrong byte stops it.

The archives have the vendor's names and layout; what is in them is small and made here by the compiler, but for one in
the slow tier, which holds what the vendor's wheel has.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace
from tests.integration.field import Workshop, bare, bare_root
from tests.integration.roots import Root
from tests.integration.server import served

from gpustack.detect.describe import describe
from gpustack.matrix.index import load_matrix
from gpustack.model.host import Installed
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.render.api import render
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve


@dataclass(frozen=True)
class Era:
    """One archive of cuDNN: where it is planned, beside which toolkit, and how the vendor laid it out."""

    system: str
    toolkit: str
    cudnn: str
    libraries: str
    beside: str = "libcudnn_ops_infer"

    @property
    def home(self) -> str:
        return f"/usr/local/cuda-{'.'.join(self.toolkit.split('.')[:2])}"

    @property
    def number(self) -> int:
        """What cudnnGetVersion says."""
        major, minor, patch = (int(part) for part in self.cudnn.split(".")[:3])
        return major * (1000 if major < 9 else 10000) + minor * 100 + patch


ERAS = {
    "8.0.5": Era("ubuntu20.04", "11.1.1", "8.0.5.39", "lib64"),
    "8.9.6": Era("ubuntu22.04", "12.2.2", "8.9.6.50", "lib"),
    "9": Era("debian12", "13.0.2", "9.14.0.64", "lib", "libcudnn_ops"),
}
every_era = pytest.mark.parametrize("era", ERAS.values(), ids=ERAS)


def planned(era: Era, overlay: Path | None = None) -> Plan:
    """cuDNN by archive beside a toolkit that is there."""
    matrix = load_matrix(overlay)
    host = describe(matrix, os=era.system, arch="x86_64", gpus=("Tesla T4",), driver="580.95.05")
    toolkit = Installed(version=era.toolkit, method="runfile", path=era.home)
    host = replace(host, installed={**host.installed, "cuda": toolkit})
    asked = (parse_requirement(f"cuda=={era.toolkit}"), parse_requirement(f"cudnn=={era.cudnn}"))
    request = Request(requirements=merge(asked), methods=parse_methods(("cudnn=tar",)))
    return build(host, request, resolve(matrix, host, request), matrix)


def compiled(era: Era, folder: Path) -> None:
    """Libraries that call each other as cuDNN's do, with its names, and a header."""
    upstream = ".".join(era.cudnn.split(".")[:3])
    major = upstream.partition(".")[0]
    (folder / "include").mkdir(parents=True)
    (folder / "include/cudnn.h").write_text("#include <stddef.h>\nsize_t cudnnGetVersion(void);\n")
    place = folder / era.libraries
    place.mkdir()
    sources = {
        era.beside: f"int beside(void) {{ return {era.number}; }}\n",
        "libcudnn": "#include <stddef.h>\nint beside(void);\nsize_t cudnnGetVersion(void) { return beside(); }\n",
    }
    for name, source in sources.items():
        (folder / f"{name}.c").write_text(source)
        needed = [] if name == era.beside else [str(place / f"{era.beside}.so")]
        library = place / f"{name}.so.{upstream}"
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}.so.{major}", "-o", str(library)]
        subprocess.run([*command, str(folder / f"{name}.c"), *needed], check=True)
        (folder / f"{name}.c").unlink()
        link(place, name, upstream)


def from_wheel(era: Era, folder: Path) -> None:
    """What is in the vendor's wheel of that release, laid out as its archive has it."""
    wheel = era.cudnn, f"nvidia-cudnn-cu{era.toolkit.partition('.')[0]}"
    words = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    downloads = folder.parent / "wheel"
    pip = [sys.executable, "-m", "pip", *words, "--dest", str(downloads), f"{wheel[1]}=={wheel[0]}"]
    subprocess.run(pip, check=True)
    (file,) = downloads.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(downloads, [name for name in archive.namelist() if name.startswith("nvidia/cudnn/")])
    shutil.copytree(downloads / "nvidia/cudnn/include", folder / "include")
    place = folder / era.libraries
    place.mkdir()
    upstream = ".".join(era.cudnn.split(".")[:3])
    for library in (downloads / "nvidia/cudnn/lib").glob("libcudnn*.so.*"):
        name = library.name.partition(".so")[0]
        library.rename(place / f"{name}.so.{upstream}")
        link(place, name, upstream)
    shutil.rmtree(downloads)


def link(place: Path, name: str, upstream: str) -> None:
    major = upstream.partition(".")[0]
    (place / f"{name}.so.{major}").symlink_to(f"{name}.so.{upstream}")
    (place / f"{name}.so").symlink_to(f"{name}.so.{major}")


@dataclass
class Field:
    """A served archive, and the plan whose facts know its sum."""

    era: Era
    plan: Plan
    archive: Path
    root: Root

    def run(self) -> subprocess.CompletedProcess[str]:
        self.root.write("/root/plan.sh", render(self.plan, "shell"))
        return self.root.run(["sh", "/root/plan.sh"])

    def version(self) -> str:
        """Compiled and linked against what was unpacked, and run where it was unpacked."""
        home = self.root.inside(self.era.home)
        source = self.root.inside("/root/version.c")
        source.write_text(
            '#include <stdio.h>\nsize_t cudnnGetVersion(void);\nint main(void) { printf("%zu", cudnnGetVersion()); }\n'
        )
        assert (home / "include/cudnn.h").is_file()
        words = [f"-L{home}/lib64", "-lcudnn", f"-Wl,-rpath-link,{home}/lib64", "-Wl,--allow-shlib-undefined"]
        target = str(self.root.inside("/root/version"))
        done = subprocess.run(["gcc", str(source), *words, "-o", target], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return self.root.must("/root/version")


@pytest.fixture(name="make")
def maker(workshop: Workshop, tmp_path: Path) -> Iterator[Callable[[Era], Field]]:
    """A maker of fields: the archives are served until the test ends."""
    with ExitStack() as stack:

        def make(era: Era, fill: Callable[[Era, Path], None] = compiled) -> Field:
            (artifact,) = (one for step in planned(era).steps for one in step.artifacts)
            address = urlsplit(artifact.url)
            archive = tmp_path / "www" / str(address.hostname) / address.path.lstrip("/")
            archive.parent.mkdir(parents=True)
            content = tmp_path / "content"
            fill(era, content)
            pack(content, archive, top="cuda" if era.libraries == "lib64" else archive.name.partition(".tar")[0])
            overlay = tmp_path / "overlay"
            write_sum(overlay, artifact.url, archive)
            root = bare_root(
                workshop, tmp_path / "root", stack.enter_context(served(tmp_path / "www", workshop.certificate))
            )
            stack.callback(shutil.rmtree, root.path)
            root.inside(f"{era.home}/bin").mkdir(parents=True)
            plan = planned(era, overlay)
            root.write("/etc/os-release", f"ID={plan.host.os.id}\nVERSION_ID={plan.host.os.version_id}\n")
            return Field(era, plan, archive, root)

        yield make


def pack(content: Path, archive: Path, *, top: str) -> None:
    """By tar itself, fast: what the vendor packs small is only as small as it falls out here."""
    program = "gzip -1" if archive.suffix == ".tgz" else "xz -0 --threads=2"
    words = [f"--use-compress-program={program}", f"--transform=s,^\\.,{top},S", "--directory", str(content), "."]
    subprocess.run(["tar", "--create", "--file", str(archive), *words], check=True)
    shutil.rmtree(content)


def write_sum(overlay: Path, url: str, archive: Path) -> None:
    """The row of the archive with the sum and the size of the file that is served."""
    (raw,) = (raw for raw in load_matrix().rows("cudnn-archives", "archives", dict) if raw.get("url") == url)
    row = {**bare(raw), "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(), "size": archive.stat().st_size}
    tables = {"archives": {"rows": [row]}}
    overlay.mkdir()
    document = {"schema": "gpustack/matrix/v1", "subject": "cudnn-archives", "sources": {}, "tables": tables}
    (overlay / "cudnn-archives.yaml").write_text(json.dumps(document))


@pytest.mark.slow
def test_the_vendors_own_libraries_are_unpacked_and_answer(make: Callable[..., Field]) -> None:
    """cuDNN 9 of the package index: 0.4 GB to fetch, 0.7 GB unpacked."""
    era = ERAS["9"]
    field = make(era, from_wheel)
    done = field.run()
    assert done.returncode == 0, done.stdout
    assert field.version() == str(era.number)
    assert "nothing to change" in field.run().stdout


@every_era
def test_an_archive_is_unpacked_and_linked(era: Era, make: Callable[[Era], Field]) -> None:
    field = make(era)
    done = field.run()
    assert done.returncode == 0, done.stdout
    assert field.version() == str(era.number)
    library = field.root.inside(f"{era.home}/lib64/libcudnn.so")
    assert library.is_symlink(), "links stay links"
    assert f"=> {era.home}/lib64/libcudnn.so." in field.root.must("ldconfig", "-p")
    again = field.run()
    assert again.returncode == 0, again.stdout
    assert "nothing to change" in again.stdout


@every_era
def test_a_wrong_byte_stops_the_plan(era: Era, make: Callable[[Era], Field]) -> None:
    field = make(era)
    content = bytearray(field.archive.read_bytes())
    content[len(content) // 2] ^= 1
    field.archive.write_bytes(content)
    done = field.run()
    assert done.returncode != 0
    assert f"{field.archive.name} is not the file that was planned: its sha256 differs" in done.stdout
    assert not list(field.root.inside("/var/cache/gpustack").rglob(field.archive.name)), "the file stays"
    assert not list(field.root.inside(era.home).rglob("*cudnn*"))
    assert not field.root.inside("/etc/ld.so.conf.d/gpustack-cudnn.conf").exists()
