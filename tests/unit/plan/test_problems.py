"""Every known bad state of a host: what a plan does about it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.plan.making import CUDA, DRIVER, host, matrix, pick, plan

from gpustack.errors import UnsupportedError
from gpustack.model.host import Host, Installed, Problem, RepositoryEntry
from gpustack.model.resolution import Pick

REFUSED = {
    "almalinux_signed_vs_nvidia", "container_driver", "immutable_os", "jetson", "other_vfio",
    "rpmfusion_vs_nvidia_repo", "suse_kmp_mix", "vgpu_guest", "vgpu_host_cc", "wsl_driver",
}  # fmt: skip
DEALT_WITH = {
    "arch_dir_mismatch", "branch_eol", "distro_upgraded", "dnf_module_filter", "driver_library_mismatch", "eol_distro",
    "headers_missing", "held_packages", "kernel_too_new", "keyring_wrong_distro", "machine_learning_repo",
    "mix_driver_runfile_packages", "mix_toolkit_runfile_packages", "no_repo_for_distro", "nouveau_loaded",
    "old_distro_driver_new_gpu", "proprietary_on_blackwell", "running_kernel_old", "secure_boot_unsigned",
    "sha1_key_debian13", "signed_by_conflict", "stale_cuda_symlink", "ubuntu2604_same_named_cuda", "ubuntu_590_rename",
}  # fmt: skip
"""States that the steps of the changed driver, toolkit or repository put right, or that a warning tells of."""
MENDED = {"old_key_7fa2af80"}
BY_HAND = {"debian_archive_vs_nvidia_repo", "ubuntu_archive_vs_nvidia_repo"}
TOLD = {
    "azure_linux_names", "fabric_manager_mismatch", "fabric_manager_missing", "foreign_architecture_404",
    "gcc_mismatch", "mft_doca_clash", "mig_enabled", "nvcc_host_gcc", "profiling_permission",
}  # fmt: skip
"""States that a plan without their component cannot change: a note with the cure stands in front."""
NEVER_PLANNED = {
    "gds_order", "gds_secure_boot", "hardcoded_key_id", "keyring_version_404", "module_on_el10",
    "persistenced_in_image_build", "version_id_minor",
}  # fmt: skip
"""Mistakes that a plan could make, not states of a host: the golden plans show that none makes them."""


def with_problem(identity: str, machine: Host | None = None) -> Host:
    row = matrix().conflicts[identity]
    severity = "block" if row.severity == "block" else "warn"
    problem = Problem(id=identity, message=f"the host has {identity}", fix="the cure", severity=severity)
    return replace(machine or host("ubuntu22.04"), problems=(problem,))


def told(machine: Host, *picks: Pick) -> list[tuple[str, str]]:
    """Kind and title of the steps that stand in front of a plan."""
    return [(step.kind, step.title) for step in plan(machine, *picks).steps if step.phase == "preflight"]


def test_the_lists_hold_every_known_state_once() -> None:
    lists = (REFUSED, DEALT_WITH, MENDED, BY_HAND, TOLD, NEVER_PLANNED)
    assert sum(map(len, lists)) == len(set().union(*lists))
    assert set().union(*lists) == set(matrix().conflicts)


@pytest.mark.parametrize("identity", sorted(REFUSED))
def test_refused_with_its_cure(identity: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        plan(with_problem(identity), DRIVER, CUDA)
    assert caught.value.exit_code == 4
    assert caught.value.hint == "the cure"


@pytest.mark.parametrize("identity", sorted(DEALT_WITH))
def test_dealt_with_by_the_plans_own_steps(identity: str) -> None:
    assert told(with_problem(identity), DRIVER, CUDA) == []


@pytest.mark.parametrize("identity", sorted(MENDED))
def test_mended_by_a_step(identity: str) -> None:
    (step,) = [step for step in plan(with_problem(identity), CUDA).steps if step.phase == "preflight"]
    assert step.kind == "run"
    assert step.commands


@pytest.mark.parametrize("identity", sorted(BY_HAND))
def test_blocking_states_that_no_step_mends_are_left_to_a_person(identity: str) -> None:
    assert told(with_problem(identity), DRIVER) == [("manual", f"the host has {identity}")]


@pytest.mark.parametrize("identity", sorted(TOLD | NEVER_PLANNED))
def test_other_states_are_told_with_their_cure(identity: str) -> None:
    steps = [step for step in plan(with_problem(identity), DRIVER, CUDA).steps if step.phase == "preflight"]
    assert [(step.title, step.why) for step in steps] == [(f"the host has {identity}", "the cure")]


@pytest.mark.parametrize("identity", ["rpmfusion_vs_nvidia_repo", "ubuntu_archive_vs_nvidia_repo"])
def test_packages_of_another_origin_are_removed_where_they_are_known(identity: str) -> None:
    there = {"driver": Installed(version="570.86.16", method="distro", packages=("nvidia-driver-570",))}
    made = plan(replace(with_problem(identity), installed=there), DRIVER)
    assert [step.packages for step in made.steps if step.kind == "remove-packages"] == [("nvidia-driver-570",)]


def test_an_old_driver_of_the_distribution_is_no_way_out_for_a_new_gpu() -> None:
    machine = with_problem("old_distro_driver_new_gpu", host("debian13", gpus=("GeForce RTX 5090",)))
    with pytest.raises(UnsupportedError):
        plan(machine, pick("driver", "550.163.01", "distro", flavour="proprietary"))


def test_missing_headers_are_installed_where_the_driver_stays() -> None:
    machine = with_problem("headers_missing", host("debian12", kernel="6.1.0-40-cloud-amd64"))
    titles = [step.title for step in plan(machine, CUDA).steps]
    assert "install the kernel headers" in titles


def test_missing_headers_bring_their_modules_on_rpm_systems_too() -> None:
    there = {"driver": Installed(version="580.95.05", method="network", packages=("nvidia-open",))}
    machine = host("rocky9", kernel="5.14.0-503.el9.x86_64", installed=there)
    found = {step.title: step.commands for step in plan(with_problem("headers_missing", machine), CUDA).steps}
    assert found["install the kernel headers"] == (("dnf", "-y", "install", "kernel-devel-matched", "kernel-headers"),)
    built = found["build the driver's modules for the kernels that have none"]
    assert built == (("dkms", "autoinstall", "-k", "5.14.0-503.el9.x86_64"),)


def test_a_driver_that_stays_gets_its_key_enrolled() -> None:
    machine = host("ubuntu24.04", secure_boot=True, kernel="6.8.0-60-generic")
    steps = plan(with_problem("secure_boot_unsigned", machine), CUDA).steps
    (enrolled,) = [step for step in steps if step.kind == "manual"]
    assert enrolled.commands == (("mokutil", "--import", "/var/lib/shim-signed/mok/MOK.der"),)
    assert any("mokutil" in argv for step in steps for argv in step.commands if step.kind == "install-packages")


def test_docas_packages_are_kept_by_the_entry_that_is_there(tmp_path: Path) -> None:
    from gpustack.model.host import RepositoryEntry

    path = "/etc/yum.repos.d/cuda-rhel9.repo"
    entry = RepositoryEntry(path=path, url="https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64")
    made = plan(with_problem("mft_doca_clash", host("rocky9", repositories=(entry,))), CUDA)
    (step,) = [step for step in made.steps if step.title.startswith("keep mft")]
    file = tmp_path / "cuda.repo"
    before = "[cuda]\nenabled=1\ngpgcheck=1\n"
    file.write_text(before)
    run = lambda argv: subprocess.run([str(file) if word == path else word for word in argv], check=True)  # noqa: E731
    run(step.commands[0])
    assert file.read_text() == "[cuda]\nenabled=1\nexcludepkgs=mft* kernel-mft*\ngpgcheck=1\n"
    run(step.undo[0])
    assert file.read_text() == before


def test_a_stale_link_is_pointed_at_the_new_toolkit() -> None:
    made = plan(with_problem("stale_cuda_symlink"), CUDA)
    assert ("update-alternatives", "--set", "cuda", "/usr/local/cuda-13.0") in [
        argv for step in made.steps for argv in step.commands
    ]


def test_entries_that_stop_the_package_manager_go_before_it_is_asked_anything() -> None:
    url = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/"
    entries = (
        RepositoryEntry(path="/etc/apt/sources.list.d/cuda.list", url=url),
        RepositoryEntry(path="/etc/apt/sources.list.d/other.list", url=url, signed_by="/usr/share/keyrings/x.gpg"),
    )
    made = plan(replace(with_problem("signed_by_conflict"), repositories=entries), CUDA)
    first = next(number for number, step in enumerate(made.steps) if any("apt-get" in argv for argv in step.commands))
    off = [number for number, step in enumerate(made.steps) if step.title.startswith("disable the entry")]
    assert off
    assert max(off) < first


@pytest.mark.parametrize("name", ["nvidia-container-toolkit.list", "mine.list"])
def test_a_source_that_cannot_be_used_is_off_before_the_package_manager_is_asked(name: str, tmp_path: Path) -> None:
    url, path = "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)", f"/etc/apt/sources.list.d/{name}"
    entry = RepositoryEntry(path=path, url=url, signed_by="/usr/share/keyrings/x.gpg", fault="its key does not exist")
    made = plan(replace(host("ubuntu22.04"), repositories=(entry,)), pick("container-toolkit", "1.17.8"))
    off = next(step for step in made.steps if step.title.startswith("disable the entry"))
    assert made.steps.index(off) == 0
    assert "its key does not exist" in off.why
    assert [step for step in made.steps if step.kind == "add-repository"]
    list_file = tmp_path / name
    list_file.write_text(f"deb [signed-by=/x.gpg] {url} /\ndeb https://deb.example/ stable main\n")
    for argv in off.commands:
        subprocess.run([word.replace("/etc/apt/sources.list.d", str(tmp_path)) for word in argv], check=True)
    assert [line[:1] for line in list_file.read_text().splitlines()] == ["#", "d"]


def test_nothing_is_planned_on_lists_that_apt_cannot_read() -> None:
    broken = Problem(id="detect-source-unreadable", message="apt cannot read x.list", fix="the cure", severity="block")
    with pytest.raises(UnsupportedError, match=r"apt cannot read x\.list"):
        plan(replace(host("ubuntu22.04"), problems=(broken,)), CUDA)


def test_a_key_that_has_to_be_confirmed_on_a_console_is_told_before_anything_is_changed() -> None:
    made = plan(host("ubuntu22.04", secure_boot=True), DRIVER)
    assert [text for text in made.warnings if "Enroll MOK" in text and "--resume" in text]
    assert not [text for text in plan(host("ubuntu22.04", secure_boot=False), DRIVER).warnings if "MOK" in text]


def test_a_system_that_is_read_only_gets_nothing_installed() -> None:
    with pytest.raises(UnsupportedError, match="read-only"):
        plan(host("bazzite"), pick("driver", "580.95.05", "runfile", flavour="open"))
