"""Kernels: reports of builds that failed are caught, patched and running modules are left alone, the next one is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.plan.making import commands

from gpustack.detect.describe import describe
from gpustack.errors import NoSolutionError, UnsupportedError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host, Installed, KernelModule
from gpustack.model.places import System
from gpustack.model.request import Method, Request
from gpustack.model.resolution import Verdict
from gpustack.plan.build import build
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement
from gpustack.solve.resolve import resolve


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def on(matrix: Matrix, system: str, kernel: str | None = None) -> Host:
    return replace(describe(matrix, os=system, arch=None), kernel=kernel)


def ask(matrix: Matrix, host: Host, text: str, method: Method | None = None) -> Verdict:
    methods: dict[str, Method] = {"driver": method} if method else {}
    return check(matrix, host, Request(requirements=merge((parse_requirement(text),)), methods=methods))


@pytest.mark.parametrize(
    ("system", "kernel", "driver"),
    [
        ("debian13", "6.17.13-2-pve", "550.163.01"),  # NVIDIA/open-gpu-kernel-modules#1143
        ("fedora38", "6.4.1-zen1-1-zen", "530.41.03"),  # NVIDIA/open-gpu-kernel-modules#501
        ("void", "6.12.5_1", "470.239.06"),  # void-linux/void-packages#53759
        ("void", "5.7.4_1", "440.82"),  # void-linux/void-packages#23128
        ("void", "7.1.0_1", "580.142"),  # void-linux/void-packages#61087
        ("arch", "6.17.1-arch1-1", "570.172.08"),  # Frogging-Family/nvidia-all#310 names 570.183
        ("ubuntu25.10", "6.19.0-fractal", "590.48.01"),  # NVIDIA/open-gpu-kernel-modules#1021
        ("debian13", "7.1.3+deb13-amd64", "580.159.03"),  # Start9Labs/start-technologies#3589
        ("gentoo", "7.2.0-gentoo", "610.43.03"),  # NVIDIA/open-gpu-kernel-modules#1224
        ("arch", "6.15.1-arch1-1", "570.153.02"),  # void-linux/void-packages#55536
        ("debian12", "6.4.0-1-amd64", "525.105.17"),  # Debian bug 1042081
        ("arch", "6.13.0-arch1-1", "565.77"),  # NixOS/nixpkgs#375730
    ],
)
def test_reported_failures_are_incompatible(matrix: Matrix, system: str, kernel: str, driver: str) -> None:
    verdict = ask(matrix, on(matrix, system, kernel), f"driver=={driver}")
    assert verdict.verdict == "incompatible"
    (conflict,) = verdict.conflicts
    assert "do not build on Linux" in conflict.reason
    assert conflict.sources


@pytest.mark.parametrize(
    ("kernel", "driver"),
    [
        ("6.12.48-amd64", "550.163.01"),  # what Debian 13 ships together
        ("6.17.1-arch1-1", "570.195.03"),  # builds there: Frogging-Family/nvidia-all#310
        ("7.1.3+deb13-amd64", "580.173.02"),  # the cure of Start9Labs/start-technologies#3589
        ("7.2.12-amd64", "580.178.04"),  # Debian takes its repair for 7.2 from this release
        ("5.14.0-570.12.1.el9_6.x86_64", "535.183.06"),  # EL keeps the number
    ],
)
def test_pairs_that_were_built_stay_compatible_without_a_warning(matrix: Matrix, kernel: str, driver: str) -> None:
    verdict = ask(matrix, on(matrix, "debian13", kernel), f"driver=={driver}")
    assert (verdict.verdict, verdict.warnings) == ("compatible", ())


def test_a_distribution_repairs_the_modules_that_it_ships(matrix: Matrix) -> None:
    host = on(matrix, "debian13", "6.17.8+deb13-amd64")
    assert ask(matrix, host, "driver==550.163.01", "distro").verdict == "compatible"
    assert ask(matrix, host, "driver==550.163.01", "runfile").verdict == "incompatible"


def test_a_kernel_newer_than_any_that_was_shown_is_a_warning(matrix: Matrix) -> None:
    verdict = ask(matrix, on(matrix, "debian13", "7.3.4-amd64"), "driver==580.178.04")
    assert verdict.verdict == "compatible"
    assert any("Linux 7.2 is the newest kernel" in text for text in verdict.warnings)


def test_the_default_kernel_of_a_system_refuses_nothing_and_is_unknown_for_a_driver_alone(matrix: Matrix) -> None:
    host = on(matrix, "ubuntu24.04")
    alone = ask(matrix, host, "driver==470.57.02")
    assert alone.verdict == "unknown"
    assert any("Ubuntu 24.04 LTS has such a kernel" in one.reason for one in alone.unknown)
    assert not any("kernel 6.8.0" in text for text in alone.warnings)
    texts = ("driver==470.57.02", "cuda==11.4.4")
    beside = check(matrix, host, Request(requirements=merge(tuple(map(parse_requirement, texts)))))
    assert beside.verdict == "compatible"
    assert any("the default of Ubuntu 24.04 LTS is kernel 6.8.0" in text for text in beside.warnings)


def test_modules_that_run_were_built(matrix: Matrix) -> None:
    host = on(matrix, "debian13", "6.17.13-2-pve")
    installed = {"driver": Installed(version="550.163.01", method="network")}
    running = replace(host, installed=installed, module=KernelModule(version="550.163.01", loaded=True))
    assert ask(matrix, running, "driver==550.163.01").verdict == "compatible"
    after_the_boot = replace(running, next_kernel="6.18.1-1-pve")
    assert ask(matrix, after_the_boot, "driver==550.163.01").verdict == "incompatible"


def plan_of(matrix: Matrix, host: Host, text: str) -> tuple[str, tuple[str, ...]]:
    found = resolve(matrix, host, Request(requirements=merge((parse_requirement(text),))))
    pick = found.pick("driver")
    assert pick is not None
    return pick.version, found.warnings


def test_a_plan_warns_of_the_kernel_that_the_system_offers_next(matrix: Matrix) -> None:
    _, warnings = plan_of(matrix, on(matrix, "ubuntu24.04", "6.8.0-45-generic"), "driver==570.*")
    assert any("Ubuntu 24.04 LTS offers kernel 7.0 too" in text for text in warnings)


def test_a_plan_takes_a_driver_that_builds(matrix: Matrix) -> None:
    chosen, warnings = plan_of(matrix, on(matrix, "ubuntu24.04", "7.2.3-070203-generic"), "driver")
    assert chosen == "580.178.04"
    assert not warnings


def systems_of_linux(matrix: Matrix) -> list[System]:
    return [row for row in matrix.systems if row.family != "windows" and row.binaries != "none"]


def test_systems_that_nvidia_has_a_folder_for_have_their_properties(matrix: Matrix) -> None:
    lacking = {
        row.key: missing
        for row in systems_of_linux(matrix)
        if row.repo
        for base in [matrix.system(row.base) or row]
        if (missing := [name for name in ("gcc", "glibc", "python") if not (getattr(row, name) or getattr(base, name))])
    }
    assert lacking == NOT_FOUND


NOT_FOUND = {
    **{key: ["python"] for key in ("kylin10", "kylin11", "kylinV10", "kylinV11", "sles12.3", "opensuse-tumbleweed")},
}
"""What no source was found for."""


def test_a_rolling_system_is_judged_by_what_was_read_last_and_says_so(matrix: Matrix) -> None:
    verdict = ask(matrix, on(matrix, "arch"), "cuda==13.2.2")
    assert verdict.verdict == "compatible"
    assert ("glibc", "Arch Linux") in [(one.property, one.system) for one in verdict.assumed]


def test_a_c_library_that_is_too_old_is_known_on_old_systems(matrix: Matrix) -> None:
    for system in ("centos6", "rhel6", "amzn2", "sles12.3", "sles12.5"):
        assert ask(matrix, on(matrix, system), "cuda==13.2.2").verdict == "incompatible", system


def test_wheels_for_another_python_are_not_planned(matrix: Matrix) -> None:
    methods: dict[str, Method] = {"cuda": "pip", "cudnn": "pip", "tensorrt": "pip"}
    request = Request(requirements=merge((parse_requirement("tensorrt==8.5.*"),)), methods=methods)
    with pytest.raises(
        NoSolutionError,
        match=r"offers no TensorRT 8\.5\.x for Ubuntu 24\.04 LTS with Python 3\.12: they are for Python 3\.6, .*3\.10",
    ):
        resolve(matrix, on(matrix, "ubuntu24.04"), request)
    for host in (on(matrix, "ubuntu22.04"), replace(on(matrix, "ubuntu24.04"), python="3.10.14")):
        pick = resolve(matrix, host, request).pick("tensorrt")
        assert pick is not None
        assert "cp310" in {row.python for row in pick.offer.wheels}


@pytest.mark.parametrize(
    ("system", "kernel", "package"),
    [("proxmox9", None, "proxmox-default-headers"), ("debian12", "6.8.12-4-pve", "proxmox-headers-6.8.12-4-pve")],
)
def test_headers_of_proxmox(matrix: Matrix, system: str, kernel: str | None, package: str) -> None:
    host = on(matrix, system, kernel)
    request = Request(requirements=merge((parse_requirement("driver"),)), methods={"driver": "runfile"})
    made = build(host, request, resolve(matrix, host, request), matrix)
    assert any(package in command for command in commands(made))


def test_code_ready_builder_of_a_cloud_is_taken_as_it_is(matrix: Matrix) -> None:
    host = on(matrix, "rhel9.6")
    request = Request(requirements=merge((parse_requirement("driver"),)))
    made = build(host, request, resolve(matrix, host, request), matrix)
    (step,) = [step for step in made.steps if step.title == "enable CodeReady Builder"]
    assert "codeready-builder-for-rhel-9-" in step.done_when
    assert "(RHUI), others need a subscription" in step.why
    told = " ".join(word for command in commands(made) for word in command)
    assert "config-manager" in told
    assert "subscription-manager" in told


@pytest.mark.parametrize(
    ("system", "way"),
    [
        ("talos", "Image Factory"), ("rhcos", "GPU Operator"), ("truenas", "Install NVIDIA Drivers"),
        ("unraid", "plugin Nvidia-Driver"), ("esxi", "guest"), ("xcp-ng", "guest"), ("guix", "Nonguix"),
        ("igx", "leave the driver alone"),
    ],
)  # fmt: skip
def test_systems_that_nothing_is_installed_into_name_the_way_that_works(matrix: Matrix, system: str, way: str) -> None:
    host = on(matrix, system)
    request = Request(requirements=merge((parse_requirement("driver"),)), methods={"driver": "runfile"})
    with pytest.raises(UnsupportedError) as told:
        build(host, request, resolve(matrix, host, request), matrix)
    assert way in f"{told.value} {told.value.hint}"


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("elementary8", "elementary OS 8"), ("neon24.04", "KDE neon 24.04"), ("ubuntu24.10", "Ubuntu 24.10"),
        ("proxmox8", "Proxmox VE 8"), ("fedora36", "Fedora 36"), ("fedora37", "Fedora 37"), ("fedora38", "Fedora 38"),
        ("wsl-debian12", "Debian 12 on WSL 2"), ("wsl-fedora43", "Fedora 43 on WSL 2"), ("azurelinux3", "Azure Linux 3"),
    ],
)  # fmt: skip
def test_systems_that_users_have_are_known(matrix: Matrix, asked: str, name: str) -> None:
    host = on(matrix, asked)
    assert host.os.name == name
    assert ask(matrix, host, "cuda==13.2.2").verdict == "compatible"
