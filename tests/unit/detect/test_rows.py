"""Each condition of a row that describes a host: one that holds, and near ones that do not."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack.detect.evidence import Evidence
from gpustack.detect.problems.rows import HostRow, is_like
from gpustack.detect.scene import Scene, build_scene
from gpustack.matrix.index import Matrix, load_matrix

BUS = "/sys/bus/pci/devices/0000:01:00.0"
STATUS = "\n\n".join(
    f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}"
    for name, version in (("nvidia-driver-570", "570.124.06-0ubuntu1"), ("own-tool", "latest"))
)
FILES = {
    "/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n',
    "/proc/sys/kernel/osrelease": "6.8.0-35-generic\n",
    "/proc/modules": "nvidia 1 0 - Live 0x0\nnvidia_uvm 1 0 - Live 0x0\n",
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\n",
    "/sys/module/nvidia/version": "570.124.06\n",
    "/var/lib/dpkg/status": f"{STATUS}\n",
    "/etc/nvidia/own/one.conf": "x",
    **{
        f"{BUS}/{name}": text
        for name, text in (("vendor", "0x10de\n"), ("device", "0x2330\n"), ("class", "0x030200\n"))
    },
}
LISTED = {"/sys/bus/pci/devices": ("0000:01:00.0",), "/usr/lib/x86_64-linux-gnu": ("libcuda.so.570.124.06",)}
MARKS = {"/dev/nvidia0": "there"}

HOLD: list[dict[str, Any]] = [
    {},
    {"driver": ">=570,<575"}, {"driver": ">=570.124.06"}, {"kernel": "<6.9"}, {"kernel": ">=6.8"},
    {"flavour": "open"}, {"module": "loaded"}, {"kind": "datacenter"}, {"gpus": ("A100", "H100")},
    {"compute_capability": "==9.0"}, {"gpus": ("H100",), "kind": "datacenter", "compute_capability": ">=9.0"},
    {"environment": ("container", "bare-metal")}, {"os": ("debian", "ubuntu")},
    {"has": ("nvidia-driver-.*",)}, {"has": (r"nvidia-driver-\d+>=570.124,<575", "own-tool")}, {"lacks": ("cuda-.*",)},
    {"lacks": ("nvidia-driver-570<570",)}, {"lacks": ("own-tool>=1",)},
    {"there": ("/dev/nvidia0", "/etc/nvidia/own", "/etc/nvidia/*/one.conf")},
    {"there": ("/usr/lib/*/libcuda.so.*", "/dev/nvidia*")}, {"missing": ("/dev/nvidia1", "/usr/lib/*/libcuda.so.1")},
    {"unloaded": ("nvidia_drm",)},
]  # fmt: skip
FAIL: list[dict[str, Any]] = [
    {"driver": "<570.124.06"}, {"kernel": ">=6.9"}, {"kernel": "<6.8"}, {"flavour": "proprietary"}, {"module": "absent"},
    {"kind": "consumer"}, {"gpus": ("A100",)}, {"compute_capability": "<9.0"}, {"gpus": ("H100",), "kind": "consumer"},
    {"gpus": ("H100",), "compute_capability": "==8.9"}, {"environment": ("container", "wsl")}, {"os": ("debian",)},
    {"has": ("nvidia-driver",)}, {"has": ("nvidia-driver-570", "cuda-.*")}, {"has": ("nvidia-driver-570<570",)},
    {"has": ("own-tool>=1",)}, {"lacks": ("cuda-.*", "own-tool")}, {"there": ("/dev/nvidia0", "/dev/nvidia1")},
    {"there": ("/etc/nvidia/ow",)}, {"there": ("/usr/lib/*/libcuda.so.1",)}, {"missing": ("/dev/nvidia1", "/dev/nvidia0")},
    {"missing": ("/usr/lib/*/libcuda.so.*",)}, {"unloaded": ("nvidia_drm", "nvidia_uvm")},
]  # fmt: skip


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def _scene(matrix: Matrix) -> Scene:
    return build_scene(Evidence(files=FILES, listings=LISTED, marks=MARKS), matrix)


def _row(**conditions: Any) -> HostRow:
    return HostRow(id="one", says="so", **conditions)


@pytest.mark.parametrize("conditions", HOLD, ids=str)
def test_a_condition_that_holds(conditions: dict[str, Any], matrix: Matrix) -> None:
    assert is_like(_scene(matrix), _row(**conditions))


@pytest.mark.parametrize("conditions", FAIL, ids=str)
def test_a_condition_that_does_not_hold(conditions: dict[str, Any], matrix: Matrix) -> None:
    assert not is_like(_scene(matrix), _row(**conditions))


def test_what_is_not_known_holds_in_no_range(matrix: Matrix) -> None:
    bare = build_scene(Evidence(files={"/etc/os-release": FILES["/etc/os-release"]}), matrix)
    assert not is_like(bare, _row(kernel=">=1"))
    assert not is_like(bare, _row(driver=">=1"))
    assert not is_like(bare, _row(unloaded=("nvidia_drm",)))
    assert not is_like(bare, _row(flavour="open"))
    assert is_like(bare, _row(module="absent"))


def test_a_text_that_is_no_range_holds_nowhere(matrix: Matrix) -> None:
    assert not is_like(_scene(matrix), _row(compute_capability="9.0"))


def test_the_next_kernel_stands_for_one_that_is_not_known(matrix: Matrix) -> None:
    listed = {**LISTED, "/boot": ("vmlinuz-6.11.0-9-generic",), "/lib/modules": ("6.11.0-9-generic",)}
    files = {path: text for path, text in FILES.items() if path != "/proc/sys/kernel/osrelease"}
    assert is_like(build_scene(Evidence(files=files, listings=listed), matrix), _row(kernel=">=6.11"))
    assert is_like(build_scene(Evidence(files=FILES, listings=listed), matrix), _row(kernel="<6.9"))
