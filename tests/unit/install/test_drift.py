"""Drift: a host as it was installed, one thing changed, and what status says of it with its cure."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gpustack import resources
from gpustack.cli import main
from gpustack.detect.api import detect_with_packages
from gpustack.install.lock import document as locks
from gpustack.install.lock.checks import lock_checks
from gpustack.install.lock.drift import Drift, Status, status_of
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.lock import Lock, LockedPackage
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve

HEALTHY = resources.folder("matrices").parent / "tests/fixtures/hosts/healthy-ubuntu2404/root"
NAMES = ("nvidia-open", "libnvidia-compute", "cuda-toolkit-13-0", "libcudnn9-cuda-13", "libc6")
STATUS = "var/lib/dpkg/status"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    copy = tmp_path / "root"
    shutil.copytree(HEALTHY, copy, symlinks=True)
    change(copy / STATUS, "Package: libcudnn9-cuda-13\nStatus: install", "Package: libcudnn9-cuda-13\nStatus: hold")
    return copy


def lock_of(tree: Path, matrix: Matrix, *, installed: bool = True) -> Lock:
    host, versions = detect_with_packages(tree, matrix, NAMES)
    request = Request(
        requirements=tuple(map(parse_requirement, ("driver==580.95.05", "cuda==13.0.2", "cudnn==9.14.*")))
    )
    plan = build(host, request, resolve(matrix, host, request), matrix)
    packages = [LockedPackage(kind="deb", name=name, version=version) for name, version in versions.items()]
    return locks.of_plan(plan, packages=packages, host=host if installed else None)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.unlink()
    path.write_text(text.replace(old, new, 1))


def of_package(name: str, old: str, new: str) -> Callable[[Path], None]:
    def act(tree: Path) -> None:
        before, mark, rest = (tree / STATUS).read_text().partition(f"Package: {name}\n")
        assert mark
        assert old in rest
        (tree / STATUS).write_text(before + mark + rest.replace(old, new, 1))

    return act


def other_module(tree: Path) -> None:
    change(tree / "proc/driver/nvidia/version", "580.95.05", "575.57.08")
    (tree / "sys/module/nvidia/version").write_text("575.57.08\n")


def no_module(tree: Path) -> None:
    for name in ("proc/driver/nvidia/version", "sys/module/nvidia/version"):
        (tree / name).unlink()
    (tree / "proc/modules").write_text("")


def new_kernel(tree: Path) -> None:
    (tree / "boot/vmlinuz-6.8.0-90-generic").write_text("")
    (tree / "lib/modules/6.8.0-90-generic").mkdir()
    (tree / "lib/modules/6.8.0-90-generic/modules.dep").write_text("")


def kernel_too_new(tree: Path) -> None:
    (tree / "boot/vmlinuz-6.19.4-generic").write_text("")
    (tree / "lib/modules/6.19.4-generic").mkdir()
    (tree / "lib/modules/6.19.4-generic/modules.dep").write_text("")


def second_copy(tree: Path) -> None:
    (tree / "usr/local/lib").mkdir(parents=True)
    (tree / "usr/local/lib/libcudnn.so.9.1.0").write_text("")
    (tree / "usr/local/lib/libcudnn.so.9").symlink_to("libcudnn.so.9.1.0")
    (tree / "etc/ld.so.conf.d").mkdir(parents=True)
    (tree / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    (tree / "etc/ld.so.conf.d/a.conf").write_text("/usr/local/lib\n")


def no_library(tree: Path) -> None:
    shutil.rmtree(tree / "usr/local/cuda-13.0")
    (tree / "usr/local/cuda").unlink()


def without_key(tree: Path) -> None:
    path = next((tree / "etc/apt/sources.list.d").iterdir())
    path.write_text("deb [trusted=yes] http://mirror.example/cuda/repos/ubuntu2404/x86_64/nvidia/ /\n")


def no_source(tree: Path) -> None:
    next((tree / "etc/apt/sources.list.d").iterdir()).unlink()


CHANGES: dict[str, tuple[Callable[[Path], None], str, str, str, bool]] = {
    "package moved": (
        of_package("libcudnn9-cuda-13", "9.14.0.64-1", "9.27.0.1-1"),
        "package",
        "the package libcudnn9-cuda-13 is at 9.27.0.1-1; the lock has 9.14.0.64-1",
        "gpustack install LOCK",
        False,
    ),
    "package gone": (
        of_package("libc6", "install ok installed", "deinstall ok config-files"),
        "package",
        "the package libc6 2.39-0ubuntu8.6 of the lock is no longer installed",
        "gpustack install LOCK (it reinstalls libc6)",
        False,
    ),
    "driver moved under its module": (
        of_package("nvidia-open", "580.95.05-0ubuntu1", "580.105.08-0ubuntu1"),
        "package",
        "the package nvidia-open is at 580.105.08-0ubuntu1",
        "gpustack install LOCK",
        True,
    ),
    "library gone": (no_library, "library", "cuda", "gpustack install LOCK", False),
    "another module is loaded": (
        other_module,
        "module",
        "the loaded kernel module is 575.57.08; the lock has 580.95.05",
        "reboot",
        True,
    ),
    "no module is loaded": (no_module, "module", "no kernel module of the driver is loaded", "modprobe nvidia", False),
    "another kernel boots next": (
        new_kernel,
        "kernel",
        "the kernel that boots next is 6.8.0-90-generic; the driver was installed for 6.8.0-71-generic",
        "dkms autoinstall -k 6.8.0-90-generic",
        True,
    ),
    "a kernel boots next that the driver does not build on": (
        kernel_too_new,
        "kernel",
        "driver 580.95.05 does not build on kernel 6.19.4-generic",
        "`gpustack plan driver` chooses a driver for this kernel",
        True,
    ),
    "hold gone": (
        of_package("libcudnn9-cuda-13", "hold ok", "install ok"),
        "hold",
        "libcudnn9-cuda-13 is no longer held",
        "apt-mark hold libcudnn9-cuda-13",
        False,
    ),
    "second copy first": (
        second_copy,
        "copy",
        "libcudnn.so.9 is taken from /usr/local/lib/libcudnn.so.9",
        "no package owns /usr/local/lib/libcudnn.so.9",
        False,
    ),
    "source changed": (without_key, "repository", "leads to http://mirror.example/", "gpustack install LOCK", False),
    "source gone": (no_source, "repository", "is gone", "gpustack install LOCK", False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_drift_is_told_with_its_cure(name: str, tree: Path, matrix: Matrix) -> None:
    act, kind, message, cure, reboot = CHANGES[name]
    lock = lock_of(tree, matrix)
    act(tree)
    found = one_of(status_of(lock, *detect_with_packages(tree, matrix, NAMES)), kind, message)
    assert cure in found.cure
    assert found.reboot is reboot


def one_of(status: Status, kind: str, message: str) -> Drift:
    fitting = [one for one in status.drift if one.kind == kind and message in one.message]
    assert len(fitting) == 1, [one.message for one in status.drift]
    assert status.reboot == any(one.reboot for one in status.drift)
    return fitting[0]


def test_an_unchanged_host_has_no_drift(tree: Path, matrix: Matrix) -> None:
    assert status_of(lock_of(tree, matrix), *detect_with_packages(tree, matrix, NAMES)).drift == ()


def test_a_lock_of_a_plan_alone_is_enough_for_versions(tree: Path, matrix: Matrix) -> None:
    lock = lock_of(tree, matrix, installed=False)
    assert status_of(lock, *detect_with_packages(tree, matrix, NAMES)).drift == ()
    other_module(tree)
    of_package("libcudnn9-cuda-13", "9.14.0.64-1", "9.27.0.1-1")(tree)
    kinds = {one.kind for one in status_of(lock, *detect_with_packages(tree, matrix, NAMES)).drift}
    assert kinds == {"package", "module"}


def test_the_command_ends_with_6_where_there_is_drift(
    tree: Path, matrix: Matrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stack.lock.json"
    file.write_text(locks.dump(lock_of(tree, matrix)))
    words = ["status", "--lock", str(file), "--root", str(tree)]
    assert main(words) == 0
    assert "no drift" in capsys.readouterr().out
    other_module(tree)
    assert main(words) == 6
    assert "fix: reboot" in capsys.readouterr().out
    assert main([*words, "--format", "json"]) == 6
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "gpustack/status/v1"
    assert told["reboot"] is True
    kept = tree / "var/lib/gpustack/lock.json"
    kept.parent.mkdir(parents=True)
    shutil.copy(file, kept)
    assert main(["status", "--root", str(tree)]) == 6


def test_a_lock_that_was_changed_by_hand_is_refused(tree: Path, matrix: Matrix, tmp_path: Path) -> None:
    document = json.loads(locks.dump(lock_of(tree, matrix)))
    document["packages"][0]["version"] = "1"
    file = tmp_path / "lock.json"
    for content in (json.dumps(document), "{}", "no json", ""):
        file.write_text(content)
        assert main(["status", "--lock", str(file)]) == 2
    os.mkfifo(tmp_path / "pipe")
    for path in ("pipe", ".", "nothing"):
        assert main(["status", "--lock", str(tmp_path / path)]) == 2


def test_a_driver_of_a_planned_lock_that_is_not_there_is_a_difference(tree: Path, matrix: Matrix) -> None:
    """The lock of a plan knows no host after its installation: the driver is compared with the lock's own version."""
    lock = replace(lock_of(tree, matrix), host=None)
    host, packages = detect_with_packages(tree, matrix, NAMES)
    without = replace(host, module=None, installed={k: v for k, v in host.installed.items() if k != "driver"})
    found = one_of(status_of(lock, without, packages), "library", "driver is not installed; the lock has")
    assert found.cure == "gpustack install LOCK"


def test_the_fix_of_a_check_names_each_command_once(tree: Path, matrix: Matrix) -> None:
    lock = lock_of(tree, matrix)
    gone = dict.fromkeys([one.name for one in lock.packages if one.kind != "wheel"], "")
    assert len(gone) > 1
    host, _ = detect_with_packages(tree, matrix, NAMES)
    for one in lock_checks(lock, status_of(lock, host, gone)):
        assert one.fix.count("gpustack install LOCK") <= 1
    fixes = " ".join(one.fix for one in lock_checks(lock, status_of(lock, host, gone)))
    assert all(name in fixes for name in gone)


def test_the_timer_runs_status_every_day(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--timer"]) == 0
    told = capsys.readouterr().out
    assert "OnCalendar=daily" in told
    assert " status\n" in told


def test_a_lock_survives_being_written_and_read(tree: Path, matrix: Matrix, tmp_path: Path) -> None:
    lock = lock_of(tree, matrix)
    file = tmp_path / "lock.json"
    file.write_text(locks.dump(lock))
    assert locks.load(file) == lock
    assert msgspec.json.decode(file.read_bytes())["schema"] == "gpustack/lock/v1"


def test_verify_checks_a_lock_component_by_component(
    tree: Path, matrix: Matrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stack.lock.json"
    file.write_text(locks.dump(lock_of(tree, matrix)))
    of_package("libcudnn9-cuda-13", "9.14.0.64-1", "9.27.0.1-1")(tree)
    words = ["verify", "cudnn", "--lock", str(file), "--root", str(tree), "--format", "json"]
    assert main(words) == 1
    checks = {one["id"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert {name: checks[f"{name}.lock"]["status"] for name in ("driver", "cuda", "cudnn")} == {
        "driver": "pass",
        "cuda": "pass",
        "cudnn": "fail",
    }
    assert "9.27.0.1-1" in checks["cudnn.lock"]["reason"]
