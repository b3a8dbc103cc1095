"""What every plan keeps to, and what single hosts get."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.plan.making import (
    CUDA,
    CUDNN,
    DRIVER,
    TENSORRT,
    commands,
    contents,
    host,
    matrix,
    pick,
    plan,
    refusal,
    words,
)

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model.host import Gpu, Host, Installed, KernelModule, OperatingSystem, Problem, RepositoryEntry
from gpustack.model.plan import PHASES, Plan
from gpustack.plan.document import digest_of, dump
from gpustack.render.api import FORMATS, render

SYSTEMS = ("ubuntu24.04", "debian13", "rhel9.4", "rocky9.4", "rhel10.0", "sles15.7", "azurelinux3.0", "amzn2023")
URL = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/"


RHUI = "rhui-codeready-builder-for-rhel-9-x86_64-rhui-rpms"
AMAZON = "codeready-builder-for-rhel-9-rhui-rpms"


def demand_sound(made: Plan) -> None:
    seen: list[str] = []
    phases = [PHASES.index(step.phase) for step in made.steps]
    assert phases == sorted(phases)
    for step in made.steps:
        assert set(step.depends_on) <= set(seen), step.id
        assert re.fullmatch(r"[a-z0-9-]+-[0-9a-f]{12}(-\d+)?", step.id)
        assert step.why
        assert step.title
        assert step.undo or step.undo_note or step.kind == "note", step.id
        assert all(argv and all(isinstance(word, str) for word in argv) for argv in (*step.commands, *step.undo))
        seen.append(step.id)
    assert len(set(seen)) == len(seen)
    assert made.digest == digest_of(made)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_plan_is_sound_and_always_the_same(system: str) -> None:
    first = plan(host(system), DRIVER, CUDA)
    demand_sound(first)
    assert dump(first) == dump(plan(host(system), DRIVER, CUDA))


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_plan_weakens_the_check_of_signatures(system: str) -> None:
    made = plan(host(system), DRIVER, CUDA)
    text = dump(made)
    for bad in (
        "7fa2af80.pub",
        "apt-key",
        "trusted=yes",
        "--nogpgcheck",
        "--no-gpg-checks",
        "gpgcheck=0",
        "--force-yes",
    ):
        assert bad not in text
    assert not re.search(r"http://", text)
    for path, content in contents(made).items():
        if path.endswith(".repo"):
            assert "gpgcheck=1" in content


def test_every_key_in_use_is_checked_by_fingerprint_or_said_to_be_unknown() -> None:
    for row in matrix().repositories:
        key = matrix().keys.get(row.key)
        if key is None or key.status == "retired" or row.status == "dropped" or "cross" in row.arch:
            continue
        assert key.fingerprint or key.id in {"CDF6BA43", "1940C73E", "35A7D095", "azl4-repomd"}


def test_kept_components_need_no_steps() -> None:
    made = plan(host(), pick("driver", "580.95.05", state="keep", flavour="open"), pick("cuda", "13.0.2", state="keep"))
    assert made.steps == ()
    assert made.stack["cuda"].state == "keep"


def test_ubuntu_has_everything_in_order() -> None:
    made = plan(host(kernel="6.8.0-45-generic"), DRIVER, CUDA, CUDNN, TENSORRT)
    text = words(made)
    assert "linux-headers-6.8.0-45-generic" in text
    assert "nvidia-driver-pinning-580" in text
    assert "nvidia-open-580=580.95.05-*" in text
    assert "cuda-toolkit-13-0=13.0.2-1" in text
    assert text.index("nvidia-driver-pinning-580") < text.index("nvidia-open-580") < text.index("cuda-toolkit-13-0")
    assert "Pin: version 580.95.05*" in contents(made)["/etc/apt/preferences.d/gpustack-nvidia-driver"]
    assert sum(step.reboot_after for step in made.steps) == 1
    tensorrt = next(step for step in made.steps if step.title == "install tensorrt 10.13.3.9")
    assert all(re.fullmatch(r"[a-z0-9-]+=10\.13\.3\.9-1\+cuda13\.0", name) for name in tensorrt.packages)
    assert len(tensorrt.packages) >= 12


def test_headers_follow_both_kernels() -> None:
    made = plan(host(kernel="6.8.0-45-generic", next_kernel="6.8.0-50-generic"), DRIVER)
    assert "linux-headers-6.8.0-45-generic" in words(made)
    assert "linux-headers-6.8.0-50-generic" in words(made)
    debian = plan(host("debian12", kernel="6.1.0-28-cloud-amd64"), DRIVER)
    assert "linux-headers-6.1.0-28-cloud-amd64 linux-headers-cloud-amd64" in words(debian)
    suse = plan(host("sles15.7", kernel="6.4.0-150600.23.25-default"), DRIVER)
    assert "kernel-default-devel=6.4.0-150600.23.25" in words(suse)


def test_module_streams_are_enabled_switched_or_left_alone() -> None:
    assert "dnf -y module enable nvidia-driver:580-open" in words(plan(host("rhel9.4"), DRIVER))
    other = host("rhel9.4", streams=("nvidia-driver:latest-dkms",))
    assert "dnf -y module reset nvidia-driver" in words(plan(other, DRIVER))
    there = host(
        "rhel9.4",
        streams=("nvidia-driver:570-open",),
        installed={"driver": Installed(version="570.1", method="network")},
    )
    assert "module switch-to nvidia-driver:580-open --allowerasing" in words(plan(there, DRIVER))
    assert " module " not in words(plan(host("rhel10.0"), DRIVER))


def test_secure_boot_asks_for_a_hand() -> None:
    step = next(step for step in plan(host(secure_boot=True), DRIVER).steps if step.kind == "manual")
    assert step.commands == (("mokutil", "--import", "/var/lib/shim-signed/mok/MOK.der"),)
    assert not any(step.kind == "manual" for step in plan(host(secure_boot=False), DRIVER).steps)


def test_other_modules_are_kept_away_from_the_first_driver_and_where_one_holds_a_gpu() -> None:
    held = plan(_with_gpu(host(), "nova_core"), DRIVER)
    assert "blacklist nova_core" in contents(held)["/etc/modprobe.d/gpustack-blacklist.conf"]
    assert ("update-initramfs", "-u", "-k", "all") in commands(held)
    assert "blacklist nova_core" in contents(plan(host(), DRIVER))["/etc/modprobe.d/gpustack-blacklist.conf"]
    there = host(installed={"driver": Installed(version="570.86.16", method="network")})
    assert "/etc/modprobe.d/gpustack-blacklist.conf" not in contents(plan(there, DRIVER))


def _with_gpu(machine: Host, module: str) -> Host:
    from msgspec.structs import replace

    return replace(machine, gpus=(Gpu(name="L4", bound=module),))


def test_fabric_manager_has_the_drivers_version_and_starts_after_the_reboot() -> None:
    made = plan(host(gpus=("H100 80GB HBM3",)), DRIVER, pick("fabric-manager", "580.95.05"))
    assert "nvidia-fabricmanager=580.95.05-* libnvidia-nscq=580.95.05-*" in words(made)
    assert ("systemctl", "enable", "nvidia-fabricmanager.service") in commands(made)


def test_no_driver_where_it_belongs_to_others() -> None:
    for environment in ("wsl", "container", "jetson"):
        with pytest.raises(UnsupportedError) as caught:
            plan(host(environment=environment), DRIVER)
        assert caught.value.exit_code == 4
    with pytest.raises(UnsupportedError, match="Windows"):
        plan(host(environment="wsl"), DRIVER)


def test_a_container_gets_no_kernel_work() -> None:
    made = plan(host(environment="container"), CUDA, CUDNN)
    assert not re.search(r"linux-headers|reboot|systemctl|modprobe", words(made))


def test_systems_without_a_repository_are_refused_with_what_would_do() -> None:
    for system in ("alpine3.20", "ubuntu25.10", "fedora40"):
        error = refusal(host(system), "cuda", method="network")
        assert error.exit_code == 4
        assert error.hint


def test_a_driver_by_runfile_goes_first() -> None:
    made = plan(host(installed={"driver": Installed(version="550.54", method="runfile")}), DRIVER)
    assert ("nvidia-uninstall", "--silent") in commands(made)
    distro = Installed(
        version="535.1", method="distro", origin="ubuntu", packages=("nvidia-driver-535", "nvidia-utils-535")
    )
    assert "purge -y nvidia-driver-535 nvidia-utils-535" in words(plan(host(installed={"driver": distro}), DRIVER))
    with pytest.raises(UnsupportedError):
        plan(host(installed={"driver": Installed(version="535.1", method="distro")}), DRIVER)


def test_blocking_problems_refuse_and_others_are_told() -> None:
    vfio = Problem(id="other_vfio", message="GPU 1 is bound to vfio-pci", fix="install in the guest", severity="block")
    with pytest.raises(UnsupportedError, match="vfio"):
        plan(host(problems=(vfio,)), DRIVER)
    assert any("vfio" in step.title for step in plan(host(problems=(vfio,)), CUDA).steps)


def test_holds_of_the_host_are_lifted_for_the_packages_in_question() -> None:
    made = plan(host(holds=("cuda-toolkit-13-0", "firefox")), CUDA)
    assert ("apt-mark", "unhold", "cuda-toolkit-13-0") in commands(made)


def test_a_repository_that_is_there_is_used_and_not_doubled() -> None:
    good = RepositoryEntry(path="/etc/apt/sources.list.d/cuda.list", url=URL, signed_by="/usr/share/keyrings/cuda.gpg")
    made = plan(host(repositories=(good,)), CUDA)
    assert not any("cuda-keyring" in word for argv in commands(made) for word in argv)
    assert any(step.kind == "note" and "is already set up" in step.title for step in made.steps)


def test_an_unsigned_entry_for_the_same_address_is_switched_off() -> None:
    bad = RepositoryEntry(path="/etc/apt/sources.list.d/cuda.list", url=URL)
    old = RepositoryEntry(path="/etc/apt/sources.list.d/old.sources", url=URL.replace("2404", "2204"), signed_by="/x")
    made = plan(host(repositories=(bad, old)), CUDA)
    assert any(argv[0] == "sed" and argv[-1] == bad.path for argv in commands(made))
    assert ("mv", "--", old.path, f"{old.path}.disabled-by-gpustack") in commands(made)
    assert any("cuda-keyring" in word for argv in commands(made) for word in argv)


def test_the_loaded_module_is_the_reason_for_the_reboot() -> None:
    made = plan(host(module=KernelModule(version="570.10", loaded=True)), DRIVER)
    assert "570.10" in next(step for step in made.steps if step.kind == "reboot").why


HOSTILE = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    [
        "$(reboot)",
        "`id`",
        "; rm -rf /",
        "a b",
        "--force",
        "-o",
        "\n#",
        "'",
        '"',
        "../../etc/passwd",
        "%s",
        "\x00",
        "{kernel}",
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=HOSTILE)
def test_no_text_of_a_host_changes_the_commands(text: str) -> None:
    """The same plan with harmless and hostile words has the same number of commands and words in each."""
    made = plan(_odd_host(text), DRIVER, CUDA, CUDNN)
    demand_sound(made)
    plain = plan(_odd_host("unknown"), DRIVER, CUDA, CUDNN)
    assert commands(made) == commands(plain)
    assert contents(made) == contents(plain)
    assert refused(made) == refused(plain)


def refused(made: Plan) -> dict[str, str]:
    """The formats that this plan cannot have, and why; all others have a text."""
    found = {}
    for name in FORMATS:
        try:
            assert render(made, name)
        except (UsageError, UnsupportedError) as error:
            found[name] = error.code
    return found


def _odd_host(text: str) -> Host:
    from msgspec.structs import replace

    plain = host()
    return replace(
        plain,
        os=replace(plain.os, name=text, codename=text, like=(text,)),
        kernel=f";{text}",
        next_kernel=f" {text}",
        gpus=(Gpu(name=text, pci_id=text, bound=text, architecture=text, fabric=""),),
        module=KernelModule(version=text, loaded=False),
        repositories=(RepositoryEntry(path=f"/etc/apt/{text}\n", url=f"https://developer.download.nvidia.com/{text}"),),
        holds=(text,),
        pins=(text,),
        streams=(text,),
        problems=(Problem(id=f"x-{text}", message=text or "m", fix=text),),
    )


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="unknown system"):
        plan(Host(os=OperatingSystem(id="plan9", version_id="4"), arch="x86_64"), CUDA)


@pytest.mark.parametrize(
    ("driver", "version", "build"),
    [
        ("470.256.02", "4.6.1", "cuda11"),
        ("570.195.03", "4.6.1", "cuda12"),
        ("580.95.05", "4.6.1", "cuda13"),
        ("580.95.05", "4.2.3", "cuda12"),  # the build for CUDA 13 came with 4.3
    ],
)
def test_dcgm_4_gets_the_newest_build_that_the_driver_serves(driver: str, version: str, build: str) -> None:
    machine = host(gpus=("A100-PCIE-40GB",), installed={"driver": Installed(version=driver)})
    made = plan(machine, pick("dcgm", version))
    assert f"datacenter-gpu-manager-4-{build}=1:{version}-1" in words(made)
    assert set(re.findall(r"-4-(cuda\d+)", words(made))) == {build}
    assert ("systemctl", "enable", "--now", "nvidia-dcgm.service") in commands(made)


def test_dcgm_4_takes_the_place_of_the_package_before_it() -> None:
    before = Installed(version="3.3.9", method="network", packages=("datacenter-gpu-manager",))
    installed = {"driver": Installed(version="580.95.05"), "dcgm": before}
    made = plan(host(installed=installed), pick("dcgm", "4.6.1", state="upgrade"))
    removed = [argv for argv in commands(made) if argv[-1] == "datacenter-gpu-manager"]
    assert [argv[0] for argv in removed] == ["env"]
    assert "datacenter-gpu-manager" not in {argv[-1] for argv in commands(plan(host(), pick("dcgm", "4.6.1")))}


def test_dcgm_3_is_one_package() -> None:
    made = plan(host("ubuntu20.04", gpus=("Tesla T4",)), pick("dcgm", "3.3.9"))
    assert "datacenter-gpu-manager=1:3.3.9" in words(made)
    assert "datacenter-gpu-manager-4" not in words(made)


def test_an_image_of_a_cloud_enables_codeready_builder_of_its_rhui() -> None:
    made = plan(host("rhel9.6", codeready=RHUI), DRIVER)
    assert ("dnf", "config-manager", "--set-enabled", RHUI) in commands(made)
    assert "subscription-manager" not in words(made)
    assert "subscription-manager" in words(plan(host("rhel9.6"), DRIVER))
    # The repository of another release is of no use.
    assert "subscription-manager" in words(plan(host("rhel10.0", codeready=RHUI), DRIVER))


@pytest.mark.parametrize(
    ("listed", "runs"),
    [
        (f"{RHUI}  CRB of a cloud", RHUI),
        (f"{AMAZON.replace('rpms', 'debug-rpms')}  debug\n{AMAZON}  CRB", AMAZON),
        ("codeready-builder-for-rhel-9-x86_64-rpms  CRB", ""),
        ("rhel-9-for-x86_64-baseos-rhui-rpms  BaseOS", ""),
    ],
)
def test_a_described_rhel_looks_for_its_cloud_when_the_command_runs(tmp_path: Path, listed: str, runs: str) -> None:
    """The command as a script prints it, with stand-ins for dnf and subscription-manager that say what they were asked."""
    (argv,) = [one for one in commands(plan(host("rhel9.6"), DRIVER)) if "subscription-manager" in one]
    (tmp_path / "listed").write_text(f"{listed}\n")
    for name in ("dnf", "subscription-manager"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\n[ "$2" != repolist ] || exec cat "{tmp_path}/listed"\necho {name} "$@"\n')
        program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, check=True)
    expected = f"dnf config-manager --set-enabled {runs}\n" if runs else "subscription-manager repos --enable="
    assert done.stdout.startswith(expected)
