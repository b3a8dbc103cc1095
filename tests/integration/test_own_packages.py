"""gpustack itself as one file, as .deb and .rpm, and its manual page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.roots import base_tree, copy_tree
from tests.unit.render.galaxy import collections

from gpustack import resources
from gpustack.cli import COMMANDS, declared
from gpustack.cli.declare import Option

pytestmark = pytest.mark.gate

CI = resources.folder("matrices").parent / "ci"


def build(name: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(CI / name), *words], check=True, capture_output=True, text=True, timeout=1200
    )
    return done.stdout


def test_manual_page(tmp_path: Path) -> None:
    page = build("build_man.py", "2026-11-24")
    file = tmp_path / "gpustack.1"
    file.write_text(page, encoding="utf-8")
    linted = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(file)], check=False, capture_output=True)
    assert (linted.returncode, linted.stdout) == (0, b"")
    shown = subprocess.run(["mandoc", "-T", "ascii", str(file)], check=True, capture_output=True, text=True).stdout
    plain = subprocess.run(["col", "-b"], input=shown, check=True, capture_output=True, text=True).stdout
    for name in COMMANDS:
        assert f"gpustack {name}" in plain
        for one in declared(name).parameters():
            if isinstance(one.form, Option):
                assert all(word in plain for word in one.form.names)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("single") / "gpustack.run"
    build("build_single_file.py", "--to", str(made))
    return made


@pytest.fixture
def bare(single: Path, tmp_path: Path) -> Path:
    """A root without any Python, in which there is busybox alone."""
    root = tmp_path / "root"
    for folder in ("bin", "tmp", "etc", "root", "dev", "proc"):
        (root / folder).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox
    shutil.copy2(Path(busybox).resolve(), root / "bin/busybox")
    linked = subprocess.run(["ldd", busybox], check=False, capture_output=True, text=True).stdout
    for library in {word for word in linked.split() if word.startswith("/")}:
        (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(library).resolve(), root / library[1:])
    for name in (
        "sh",
        "cat",
        "cp",
        "cut",
        "dirname",
        "echo",
        "gzip",
        "id",
        "mkdir",
        "mktemp",
        "mv",
        "rm",
        "tail",
        "tar",
    ):
        (root / "bin" / name).symlink_to("busybox")
    (root / "etc/os-release").write_text('ID=rocky\nVERSION_ID="8.10"\nNAME="Rocky Linux"\n', encoding="utf-8")
    shutil.copy2(single, root / "gpustack.run")
    return root


def inside(root: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": "/usr/bin:/bin", "HOME": "/root", **more}
    return subprocess.run(
        [shutil.which("chroot") or "chroot", str(root), *words],
        check=False,
        env=given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_one_file_runs_without_a_python(bare: Path) -> None:
    first = inside(bare, "/gpustack.run", "--version")
    assert (first.returncode, first.stdout.split()[0], first.stderr) == (0, "gpustack", "")
    (folder,) = (bare / "root/.cache/gpustack-program").iterdir()
    assert folder.name.startswith("gpustack-")
    detected = inside(bare, "/gpustack.run", "detect", "--format", "json")
    assert json.loads(detected.stdout)["os"]["version_id"] == "8.10"
    planned = inside(bare, "/gpustack.run", "plan", "cuda", "--os", "rocky8.10", "--gpu", "L4", "--format", "json")
    assert json.loads(planned.stdout)["schema"] == "gpustack/plan/v1"
    verified = inside(bare, "/gpustack.run", "verify", "driver")
    assert verified.returncode == 1
    assert "driver.module" in verified.stdout
    assert inside(bare, "/gpustack.run", "status").returncode in {0, 1, 2}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_one_file_on_debian_11_and_through_a_fleet(single: Path, tmp_path: Path) -> None:
    """glibc 2.31: the file loads its own C library, and by it a library of the driver (a stand-in)."""
    root = copy_tree(base_tree("bullseye", ("python3",), ()), tmp_path / "root").path
    shutil.copy2(single, root / "root/gpustack.run")
    stub = Path(__file__).parents[1] / "stubs/libnvidia-ml.c"
    library = root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(stub)], check=True)
    host = json.loads(inside(root, "/root/gpustack.run", "detect", "--format", "json").stdout)
    assert (host["os"]["version_id"], host["glibc"]) == ("11", "2.31")
    (folder,) = (root / "root/.cache/gpustack-program").iterdir()
    asked = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    counted = inside(root, f"/{folder.relative_to(root)}/bin/python3", "-c", asked, STUB_GPUS="2")
    assert counted.stdout == "2\n", counted.stderr

    hosts = tmp_path / "hosts.ini"
    hosts.write_text(
        f"old ansible_connection=community.general.chroot ansible_host={root} ansible_become=false "
        "ansible_python_interpreter=/usr/bin/python3\n"
    )
    words = (
        "fleet",
        "verify",
        "-i",
        str(hosts),
        "driver",
        "--program",
        str(single),
        "--out",
        str(tmp_path / "reports"),
    )
    done = subprocess.run(
        [sys.executable, "-m", "gpustack", *words],
        env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "ansible"), "ANSIBLE_COLLECTIONS_PATH": str(collections())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "0 of 1 hosts passed" in done.stdout
    report = json.loads((tmp_path / "reports/old/report.json").read_text())
    assert report["host"]["os"]["version_id"] == "11"
    assert {one["component"] for one in report["checks"]} == {"driver"}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_one_file_says_where_it_cannot_unpack(bare: Path) -> None:
    """A home that is a link of somebody else's choice, and no other folder."""
    (bare / "root").rmdir()
    (bare / "root").write_text("", encoding="utf-8")
    shutil.rmtree(bare / "tmp")
    (bare / "tmp").write_text("", encoding="utf-8")
    (bare / "var").write_text("", encoding="utf-8")
    done = inside(bare, "/gpustack.run", "--version", TMPDIR="/etc/os-release")
    assert done.returncode == 1
    assert done.stderr.startswith("error[no-temporary-folder]: gpustack cannot unpack itself: ")
    assert "GPUSTACK_PROGRAM_FOLDER=" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_programs_that_it_starts_are_the_hosts(single: Path, tmp_path: Path) -> None:
    """Neither the library path nor a home of Python reaches a child."""
    home = tmp_path / "home"
    program = home / "gpustack-program"
    subprocess.run([str(single), "--version"], env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(home)}, check=True)
    (folder,) = program.iterdir()
    asked = "import os, subprocess; print(subprocess.run(['/usr/bin/env'], capture_output=True, text=True, check=True).stdout)"
    done = subprocess.run(
        [str(folder / "bin/python3"), "-c", asked],
        env={"PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert sorted(line.partition("=")[0] for line in done.stdout.split()) in (["LC_CTYPE", "PATH"], ["PATH"])


@pytest.mark.slow
def test_the_same_tree_makes_the_same_file(single: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.run"
    build("build_single_file.py", "--to", str(again))
    assert again.read_bytes() == single.read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="packages are installed into roots of dpkg and rpm")
def test_packages(tmp_path: Path) -> None:
    build("build_packages.py", "--to", str(tmp_path / "dist"), "--day", "2026-11-24")
    (deb,) = (tmp_path / "dist").glob("*.deb")
    (rpm,) = (tmp_path / "dist").glob("*.rpm")
    roots = {}
    for name, command in {
        "deb": ["dpkg", "--root={root}", "--force-not-root", "--force-depends", "--install", str(deb)],
        "rpm": ["rpm", "--root={root}", "--nodeps", "--install", str(rpm)],
    }.items():
        root = tmp_path / name
        for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/rpm"):
            (root / folder).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        subprocess.run([word.format(root=root) for word in command], check=True, capture_output=True)
        roots[name] = {path.relative_to(root).as_posix() for path in (root / "usr").rglob("*")}
        program = root / "usr/lib/gpustack/bin/gpustack"
        assert subprocess.run([str(program), "--version"], check=True, capture_output=True).stdout.startswith(
            b"gpustack"
        )
        started = (root / "usr/bin/gpustack").read_text(encoding="utf-8")
        assert started == '#!/bin/sh\nexec /usr/lib/gpustack/bin/gpustack "$@"\n'
    assert roots["deb"] == roots["rpm"]
    assert "usr/share/man/man1/gpustack.1.gz" in roots["deb"]
