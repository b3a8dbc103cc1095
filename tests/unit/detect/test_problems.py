"""Every conflict of the matrix is either seen by a detector or listed here with the reason why evidence cannot show it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.finding_goldens import Findings

from gpustack.detect.build import host_of
from gpustack.detect.evidence import Evidence, Fault
from gpustack.detect.problems import DETECTORS
from gpustack.detect.problems.registry import Detected
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host

NOT_IN_EVIDENCE = {
    "ubuntu_590_rename": "about a plan that crosses branch 590, not about a state of the host",
    "hardcoded_key_id": "about what a plan or playbook names",
    "keyring_version_404": "only an answer of the network shows it",
    "module_on_el10": "about commands of a plan",
    "persistenced_in_image_build": "about commands of a plan on a machine without a GPU",
    "profiling_permission": "the default of every healthy host; only the wish to profile makes it a problem",
    "version_id_minor": "about tools that compare VERSION_ID, not about the host",
}
UBUNTU = 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04 LTS"\n'
ROCKY = 'ID=rocky\nVERSION_ID="9.6"\nPLATFORM_ID="platform:el9"\n'
CUDA_RHEL = "[cuda]\nbaseurl=https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64\n"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def test_all_conflicts_are_considered(matrix: Matrix) -> None:
    seen = {identity for identity in DETECTORS if not identity.startswith("detect-")}
    assert len(matrix.conflicts) >= 53
    assert seen | set(NOT_IN_EVIDENCE) == set(matrix.conflicts)
    assert not seen & set(NOT_IN_EVIDENCE)


def status(*packages: tuple[str, str]) -> str:
    return "\n".join(
        f"Package: {n}\nStatus: install ok installed\nVersion: {v}\nArchitecture: amd64\n" for n, v in packages
    )


def rpm(name: str, version: str, vendor: str = "NVIDIA", release: str = "1.el9") -> str:
    return f"{name}\t3\t{version}\t{release}\tx86_64\t{vendor}"


def evidence_of(files: dict[str, str], **rest: Any) -> Evidence:
    own = {"/proc/sys/kernel/osrelease": "6.8.0-71-generic\n", "/proc/sys/kernel/arch": "x86_64\n", "/proc/modules": ""}
    return Evidence(files={**own, **files}, date="2026-11-21", **rest)


def found(matrix: Matrix, files: dict[str, str], **rest: Any) -> Host:
    return host_of(evidence_of(files, **rest), matrix)


CASES: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "rpmfusion_vs_nvidia_repo": (
        {"/etc/os-release": ROCKY, "/etc/yum.repos.d/cuda-rhel9.repo": CUDA_RHEL},
        {"rpms": (rpm("akmod-nvidia", "580.95.05", "RPM Fusion"),)},
        "akmod-nvidia",
    ),
    "suse_kmp_mix": (
        {"/etc/os-release": "ID=opensuse-leap\nVERSION_ID=15.6\n"},
        {"rpms": (
            rpm("nvidia-open-driver-G06-signed-kmp-default", "580.82.07_k6.4", "SUSE LLC <https://www.suse.com/>"),
            rpm("nvidia-compute-G06", "580.95.05"),
        )},
        "must be equal",
    ),
    "almalinux_signed_vs_nvidia": (
        {"/etc/os-release": "ID=almalinux\nVERSION_ID=9.6\n"},
        {"rpms": (rpm("almalinux-release-nvidia-driver", "9", "AlmaLinux"), rpm("kmod-nvidia-open-dkms", "580.95.05"))},
        "AlmaLinux",
    ),
    "azure_linux_names": (
        {
            "/etc/os-release": "ID=azurelinux\nVERSION_ID=3.0\n",
            "/etc/yum.repos.d/azurelinux-nvidia-prod.repo": "[a]\nbaseurl=https://packages.microsoft.com/nvidia\n",
            "/etc/yum.repos.d/cuda-azl3.repo": CUDA_RHEL.replace("rhel9", "azl3"),
        },
        {},
        "Microsoft",
    ),
    "debian_archive_vs_nvidia_repo": (
        {
            "/etc/os-release": "ID=debian\nVERSION_ID=13\n",
            "/var/lib/dpkg/status": status(("nvidia-alternative", "550.163.01-2")).replace(
                "Architecture", "Maintainer: Debian NVIDIA Maintainers\nArchitecture"
            ),
            "/etc/apt/sources.list.d/cuda.list": "deb https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64 /",
        },
        {},
        "nvidia-alternative",
    ),
    "ubuntu2604_same_named_cuda": (
        {
            "/etc/os-release": "ID=ubuntu\nVERSION_ID=26.04\n",
            "/var/lib/dpkg/status": status(("cuda-cudart-13-1", "13.1.80-0ubuntu2")),
        },
        {},
        "Canonical",
    ),
    "mix_toolkit_runfile_packages": (
        {
            "/etc/os-release": UBUNTU,
            "/usr/local/cuda-12.4/version.json": '{"cuda":{"version":"12.4.1"}}',
            "/var/lib/dpkg/status": status(("cuda-toolkit-12-4", "12.4.1-1")),
        },
        {"marks": {"/usr/local/cuda-12.4/bin/cuda-uninstaller": "there"}},
        "runfile",
    ),
    "machine_learning_repo": (
        {
            "/etc/os-release": UBUNTU,
            "/etc/apt/sources.list.d/nvidia-ml.list": "deb https://developer.download.nvidia.com/compute/machine-learning/"
            "repos/ubuntu1804/x86_64 /",
        },
        {},
        "machine-learning",
    ),
    "distro_upgraded": (
        {
            "/etc/os-release": UBUNTU,
            "/etc/apt/sources.list.d/cuda.list": "deb https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64 /",
        },
        {},
        "ubuntu2204",
    ),
    "arch_dir_mismatch": (
        {
            "/etc/os-release": UBUNTU,
            "/etc/apt/sources.list.d/cuda.list": "deb https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/sbsa /",
        },
        {},
        "not for this machine",
    ),
    "foreign_architecture_404": (
        {
            "/etc/os-release": UBUNTU,
            "/var/lib/dpkg/arch": "amd64\ni386\n",
            "/etc/apt/sources.list.d/cuda.list": "deb https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64 /",
        },
        {},
        "i386",
    ),
    "mft_doca_clash": (
        {"/etc/os-release": ROCKY, "/etc/yum.repos.d/cuda-rhel9.repo": CUDA_RHEL},
        {"rpms": (rpm("doca-ofed", "3.1", "Mellanox"),)},
        "doca-ofed",
    ),
    "dnf_module_filter": (
        {
            "/etc/os-release": ROCKY,
            "/etc/dnf/modules.d/nvidia-driver.module": "[nvidia-driver]\nstream=575-open\nstate=enabled\n",
            "/sys/module/nvidia/version": "580.95.05\n",
        },
        {},
        "575-open",
    ),
    "container_driver": (
        {"/etc/os-release": UBUNTU, "/var/lib/dpkg/status": status(("nvidia-driver-580", "580.95.05-0ubuntu1"))},
        {"marks": {"/.dockerenv": "there"}},
        "inside a container",
    ),
    "jetson": (
        {
            "/etc/os-release": "ID=ubuntu\nVERSION_ID=22.04\n",
            "/etc/nv_tegra_release": "# R36 (release), REVISION: 4.3\n",
            "/var/lib/dpkg/status": status(("cuda-drivers", "580.95.05-0ubuntu1")),
        },
        {},
        "JetPack",
    ),
    "vgpu_guest": ({"/etc/os-release": UBUNTU}, {"marks": {"/etc/nvidia/gridd.conf": "there"}}, "vGPU"),
    "vgpu_host_cc": ({"/etc/os-release": UBUNTU}, {"marks": {"/usr/bin/nvidia-vgpu-mgr": "there"}}, "vGPU"),
    "immutable_os": ({"/etc/os-release": "ID=fedora\nVERSION_ID=44\nVARIANT_ID=coreos\n"}, {}, "ostree"),
    "no_repo_for_distro": ({"/etc/os-release": "ID=arch\n"}, {}, "no package repository"),
    "gds_secure_boot": (
        {"/etc/os-release": UBUNTU, "/var/lib/dpkg/status": status(("nvidia-gds-13-0", "13.0.2-1"))},
        {"blobs": {"/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "BgAAAAE="}},
        "GPUDirect",
    ),
    "gds_order": (
        {
            "/etc/os-release": UBUNTU,
            "/var/lib/dpkg/status": status(("nvidia-gds", "13.0.2-1")),
            "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Thu Oct\n",
        },
        {},
        "open kernel modules",
    ),
    "gcc_mismatch": (
        {
            "/etc/os-release": UBUNTU,
            "/proc/version": "Linux version 6.8.0-71-generic (b@h) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6) 13.3.0, GNU ld) #1",
            "/var/lib/dpkg/status": status(("gcc", "4:15.2.0-1"), ("nvidia-dkms-580", "580.95.05-0ubuntu1")),
        },
        {},
        "gcc 15",
    ),
    "nvcc_host_gcc": (
        {
            "/etc/os-release": UBUNTU,
            "/usr/local/cuda-12.4/version.json": '{"cuda":{"version":"12.4.1"}}',
            "/var/lib/dpkg/status": status(("gcc", "4:15.2.0-1")),
        },
        {},
        "nvcc",
    ),
    "old_distro_driver_new_gpu": (
        {
            "/etc/os-release": "ID=debian\nVERSION_ID=13\n",
            "/var/lib/dpkg/status": status(("libcuda1", "550.163.01-2~deb13u1")),
            "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
            "/sys/bus/pci/devices/0000:01:00.0/device": "0x2b85\n",
            "/sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
        },
        {"listings": {"/sys/bus/pci/devices": ("0000:01:00.0",)}},
        "newer than driver 550.163.01",
    ),
    "other_vfio": (
        {
            "/etc/os-release": UBUNTU,
            "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
            "/sys/bus/pci/devices/0000:01:00.0/device": "0x26b9\n",
            "/sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
        },
        {
            "listings": {"/sys/bus/pci/devices": ("0000:01:00.0",)},
            "links": {"/sys/bus/pci/devices/0000:01:00.0/driver": "../../../bus/pci/drivers/vfio-pci"},
        },
        "virtual machines",
    ),
    "mig_enabled": (
        {"/etc/os-release": UBUNTU},
        {"nvml": {"driver": "580.95.05", "gpus": [{"name": "NVIDIA H200", "bus_id": "00000000:01:00.0", "mig": 1}]}},
        "MIG",
    ),
    "detect-nvml": ({"/etc/os-release": UBUNTU}, {"nvml": {"error": "Driver/library version mismatch"}}, "NVML"),
    "detect-unreadable": (
        {"/etc/os-release": UBUNTU}, {"faults": (Fault(path="/etc/apt/sources.list", reason="holds binary data"),)}, "binary",
    ),
    "detect-dangling-library": (
        {"/etc/os-release": UBUNTU},
        {
            "links": {"/usr/lib/x86_64-linux-gnu/libcuda.so.1": "libcuda.so.535.1.2"},
            "marks": {"/usr/lib/x86_64-linux-gnu/libcuda.so.1": "dangling"},
        },
        "does not exist",
    ),
    "detect-tensorrt-copies": (
        {"/etc/os-release": UBUNTU},
        {"listings": {
            "/usr/lib/x86_64-linux-gnu": ("libnvinfer.so.8", "libnvinfer.so.8.0.0"),
            "/usr/local/TensorRT-8.0.1/lib": ("libnvinfer.so.8", "libnvinfer.so.8.0.1"),
        },
            "links": {
            "/usr/lib/x86_64-linux-gnu/libnvinfer.so.8": "libnvinfer.so.8.0.0",
            "/usr/local/TensorRT-8.0.1/lib/libnvinfer.so.8": "libnvinfer.so.8.0.1",
        }},
        "8.0.0",
    ),
    "detect-own-channel": ({"/etc/os-release": UBUNTU, "/etc/dgx-release": "DGX_NAME=x\n"}, {}, "DGX OS"),
}  # fmt: skip
"""Evidence for the detectors that no host in fixtures/hosts shows."""


@pytest.mark.parametrize("identity", sorted(CASES))
def test_detector(identity: str, matrix: Matrix, findings: Findings) -> None:
    files, rest, words = CASES[identity]
    host = found(matrix, files, **rest)
    findings.compare(f"problems: {identity}", host.problems)
    told = {problem.id: problem for problem in host.problems}
    assert identity in told, [problem.message for problem in host.problems]
    assert words in told[identity].message
    assert told[identity].fix


def test_problems_carry_the_sources_of_their_row(matrix: Matrix) -> None:
    host = found(matrix, CASES["immutable_os"][0])
    (problem,) = [one for one in host.problems if one.id == "immutable_os"]
    assert problem.sources
    assert problem.severity == "block"


def test_states_that_code_describes_say_where_they_are_known_from(matrix: Matrix) -> None:
    rows = matrix.rows("conflicts", "detected", Detected)
    assert {row.id for row in rows} <= set(DETECTORS)
    assert all(matrix.addresses(row.src) for row in rows)
    files = {"/etc/os-release": UBUNTU, "/var/lib/dpkg/status": status(("nvidia-peer-memory", "1.3"))}
    host = found(
        matrix,
        {**files, "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Thu\n"},
    )
    (problem,) = [one for one in host.problems if one.id == "detect-nv-peer-mem"]
    assert problem.sources == ("https://github.com/Mellanox/nv_peer_memory",)


def test_blocking_problems_come_first(matrix: Matrix) -> None:
    files = {**CASES["container_driver"][0], "/etc/apt/sources.list.d/nvidia-ml.list": CASES["machine_learning_repo"][0][
        "/etc/apt/sources.list.d/nvidia-ml.list"]}  # fmt: skip
    host = found(matrix, files, marks={"/.dockerenv": "there"})
    order = [problem.severity for problem in host.problems]
    assert order == sorted(order, key=["block", "warn", "info"].index)


def debian_550(**rest: Any) -> dict[str, Any]:
    files = {
        "/etc/os-release": 'ID=debian\nVERSION_ID="13"\nVERSION_CODENAME=trixie\n',
        "/proc/sys/kernel/osrelease": "6.17.13-2-pve\n",
        "/var/lib/dpkg/status": status(("nvidia-kernel-dkms", "550.163.01-2"), ("nvidia-driver", "550.163.01-2")),
    }
    kernels = {"/lib/modules": ("6.17.13-2-pve",), "/boot": ("vmlinuz-6.17.13-2-pve",)}
    return {"files": files, "listings": {**kernels, **rest}}


def test_a_kernel_on_which_the_driver_does_not_build(matrix: Matrix) -> None:
    problems = found(matrix, **debian_550()).problems
    (told,) = [one for one in problems if one.id == "kernel_too_new"]
    assert "driver 550.163.01 does not build on kernel 6.17.13-2-pve" in told.message
    assert "Linux 6.15" in told.message
    assert told.sources


def test_a_module_that_was_built_for_the_kernel_speaks_for_itself(matrix: Matrix) -> None:
    built = {"/lib/modules/6.17.13-2-pve/updates/dkms": ("nvidia.ko.xz",)}
    assert not [one for one in found(matrix, **debian_550(**built)).problems if one.id == "kernel_too_new"]
