"""Hosts like those of public threads about the kernel's side: each is told its cause, and near ones are left in peace."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from tests.finding_goldens import Findings, named
from tests.reading import cases_in

from gpustack.detect.api import detect
from gpustack.matrix.index import Matrix, load_matrix

THREADS: list[dict[str, Any]] = cases_in(Path(__file__).parents[2] / "cases/kernel-threads.yaml")["threads"]
RELEASES = {
    "arch": "ID=arch\nID_LIKE=\n", "nixos": "ID=nixos\nVERSION_ID=25.05\n", "cachyos": "ID=cachyos\nID_LIKE=arch\n",
    "bazzite": "ID=bazzite\nID_LIKE=fedora\nVERSION_ID=44\n", "linuxmint21": "ID=linuxmint\nID_LIKE=ubuntu\nVERSION_ID=21\n",
    "opensuse-leap15.6": "ID=opensuse-leap\nVERSION_ID=15.6\n", "openeuler22.03": "ID=openEuler\nVERSION_ID=22.03\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def release(name: str) -> str:
    number = next(place for place, character in enumerate(name) if character.isdigit()) if name not in RELEASES else 0
    return RELEASES.get(name) or f'ID={name[:number]}\nVERSION_ID="{name[number:]}"\n'


def acs_bridge(control: str) -> bytes:
    """The configuration space of a bridge whose ACS capability has this control word."""
    header = b"\x22\x10\x83\x14".ljust(0x100, b"\0")
    return header + struct.pack("<IHH", 0x0001000D, 0x005F, int(control, 16)).ljust(0x100, b"\0")


def tree(root: Path, thread: dict[str, Any]) -> Path:
    """The root of a host like the thread's."""
    host = thread["host"]
    flavour = host.get("flavour", "open")
    loaded = ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"] if host["driver"] else []
    files: dict[str, str | bytes] = {
        "/etc/os-release": release(host["os"]),
        "/proc/sys/kernel/osrelease": f"{host['kernel']}\n",
        "/proc/sys/kernel/arch": f"{host.get('arch', 'x86_64')}\n",
        "/proc/modules": "".join(f"{name} 16384 0 - Live 0x0\n" for name in (*loaded, *host.get("modules", ()))),
        "/proc/cmdline": host.get("cmdline", "root=/dev/sda1 ro quiet") + "\n",
        "/sys/class/dmi/id/sys_vendor": "VMware, Inc.\n" if host.get("vm") else "Supermicro\n",
    }
    if host["driver"]:
        word = "Open Kernel Module for x86_64" if flavour == "open" else "x86_64 Kernel Module"
        files["/proc/driver/nvidia/version"] = f"NVRM version: NVIDIA UNIX {word}  {host['driver']}  Release Build\n"
    for number, device in enumerate(host["gpus"], 1):
        here = f"/sys/bus/pci/devices/0000:{number:02x}:00.0"
        files |= {f"{here}/vendor": "0x10de\n", f"{here}/device": f"0x{device}\n", f"{here}/class": "0x030200\n"}
        files |= {f"{here}/iommu_group/type": f"{host['iommu']}\n"} if "iommu" in host else {}
        files |= {f"{here}/resource": host["resource"]} if "resource" in host else {}
        names = ("current_link_width", "max_link_width", "current_link_speed", "max_link_speed")
        files |= {f"{here}/{name}": f"{value}\n" for name, value in zip(names, host.get("link", ()), strict=False)}
    if "acs" in host:
        here = "/sys/bus/pci/devices/0000:00:03.1"
        files |= {f"{here}/vendor": "0x1022\n", f"{here}/device": "0x1483\n", f"{here}/class": "0x060400\n"}
        files[f"{here}/config"] = acs_bridge(host["acs"])
    if host.get("switch"):
        files["/sys/class/infiniband/mlx5_0/device/vpd"] = "SW_MNG"
    if "packages" in host:
        files["/var/lib/dpkg/status"] = "\n".join(
            f"Package: {name}\nStatus: install ok installed\nVersion: {version}\nArchitecture: amd64\n"
            for name, version in host["packages"].items()
        )
    for key, path in (("log", "/var/log/kern.log"), ("syslog", "/var/log/syslog")):
        if key in thread:
            files[path] = "\n".join(thread[key]) + "\n"
    files |= host.get("files", {})
    for path, content in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


@pytest.mark.parametrize(
    ("name", "thread"), named("kernel-threads", THREADS), ids=[one["thread"].replace("/", "-") for one in THREADS]
)
def test_a_host_like_the_threads_is_told_its_cause(
    name: str, thread: dict[str, Any], tmp_path: Path, matrix: Matrix, findings: Findings
) -> None:
    host = detect(tree(tmp_path, thread), matrix)
    findings.compare(name, host.problems)
    told = {problem.id: f"{problem.message} | {problem.fix}" for problem in host.problems if problem.severity != "info"}
    assert not {*thread.get("absent", ())} & {problem.id for problem in host.problems}
    if "silent" in thread:
        assert not {*thread["silent"]} & told.keys(), told
        return
    identity, *words = thread["says"]
    found = [f"{one.message} | {one.fix}" for one in host.problems if one.id == identity]
    assert any(all(word in text for word in words) for text in found), [*found, *told.values()]


def test_every_class_has_three_hosts_that_have_it_and_two_that_have_not() -> None:
    kinds = {one["class"] for one in THREADS}
    assert len(THREADS) >= 60
    for kind in kinds:
        assert sum(one["class"] == kind and "says" in one for one in THREADS) >= 3
        assert sum(one["class"] == kind and "silent" in one for one in THREADS) >= 2
