"""Files that the user has downloaded, installed by the program itself in trees with real package managers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.catalogue import Package
from tests.integration.debs import build_deb
from tests.integration.field import Ask, Scene, Workshop
from tests.integration.managers import installed
from tests.integration.roots import Root
from tests.integration.test_bundles import as_system, gpustack, local, mirror
from tests.integration.vendor_files import CUDNN_896, X86_64, elf, repository_deb, repository_rpm, tar

from gpustack.plan.document import dump

__all__ = ["local", "mirror"]

TOP = "cudnn-linux-x86_64-8.9.6.50_cuda12-archive"


def apt_repository(workshop: Workshop, folder: Path) -> list[Path]:
    packages = [Package(name, "8.9.6.50-1+cuda12.2") for name in ("libcudnn8", "libcudnn8-dev")]
    keys = workshop.keys
    made = repository_deb(folder, "cudnn-local-repo-ubuntu2204-8.9.6.50", packages, keys, keys.current)
    return [made.rename(folder / "what I got.deb")]


def rpm_repository(workshop: Workshop, folder: Path) -> list[Path]:
    packages = [Package(name, "8.9.6.50-1.cuda12.2") for name in ("libcudnn8", "libcudnn8-devel")]
    keys = workshop.keys
    made = repository_rpm(folder, "cudnn-local-repo-rhel9-8.9.6.50", packages, keys, keys.current)
    return [made.rename(folder / "cudnn.rpm")]


def debs(_workshop: Workshop, folder: Path) -> list[Path]:
    version = "8.9.6.50-1+cuda12.2"
    library = build_deb(Package("libcudnn8", version), folder)
    return [library, build_deb(Package("libcudnn8-dev", version, (("libcudnn8", "=", version),)), folder)]


def archive(_workshop: Workshop, folder: Path) -> list[Path]:
    files = {
        f"{TOP}/include/cudnn_version.h": CUDNN_896,
        f"{TOP}/lib/libcudnn.so.8.9.6": elf(X86_64, "libcublas.so.12"),
    }
    return [tar(folder / "cudnn.tar.xz", files)]


CASES = {
    "apt-repository": ("ubuntu22.04", apt_repository),
    "dnf-repository": ("rocky9", rpm_repository),
    "debs": ("ubuntu22.04", debs),
    "archive": ("ubuntu22.04", archive),
}


@pytest.mark.parametrize("case", CASES)
def test_a_downloaded_file_is_installed_once_and_taken_back(
    case: str,
    workshop: Workshop,
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    mirror: Callable[[Scene], dict[str, str]],
    tmp_path: Path,
) -> None:
    system, make = CASES[case]
    folder = tmp_path / "downloads"
    folder.mkdir()
    words = [word for path in make(workshop, folder) for word in ("--from", f"cudnn={path}")]
    host = scene(Ask(system, ("cuda==12.2.*",), ("--gpu", "L40S", *words)))
    assert host.versions()["cudnn"] == "8.9.6.50"
    root = enter(host)
    as_system(root, host)
    family = host.system.family
    before, settings = installed(root, family), root.settings()
    plan = tmp_path / "plan.json"
    plan.write_text(dump(host.plan))
    environment = mirror(host)
    into = ("--root", root.path, "--yes")
    done = gpustack("install", plan, *into, environment=environment)
    assert done.returncode == 0, done.stderr
    if case == "archive":
        assert (root.path / "usr/local/cuda-12.2/include/cudnn_version.h").read_bytes() == CUDNN_896
    else:
        assert installed(root, family)["libcudnn8"].startswith("8.9.6.50-1")
    again = gpustack("install", plan, *into, environment=environment)
    assert again.returncode == 0, again.stderr
    assert "nothing to do" in again.stderr
    back = gpustack("install", "--rollback", *into, environment=environment)
    assert back.returncode == 0, back.stderr
    assert installed(root, family) == before
    now = root.settings()
    assert {path for path in {*now, *settings} if now.get(path) != settings.get(path)} <= {"etc/ld.so.cache"}


def test_a_file_that_was_changed_after_the_plan_is_refused(
    workshop: Workshop,
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    mirror: Callable[[Scene], dict[str, str]],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "downloads"
    folder.mkdir()
    (path,) = archive(workshop, folder)
    host = scene(Ask("ubuntu22.04", ("cuda==12.2.*",), ("--gpu", "L40S", "--from", f"cudnn={path}")))
    root = enter(host)
    as_system(root, host)
    plan = tmp_path / "plan.json"
    plan.write_text(dump(host.plan))
    tar(path, {f"{TOP}/include/cudnn_version.h": CUDNN_896})
    before = root.settings()
    done = gpustack("install", plan, "--root", root.path, "--yes", environment=mirror(host))
    assert done.returncode == 1
    assert "error[checksum-mismatch]" in done.stderr
    assert str(path) in done.stderr
    assert root.settings() == before
