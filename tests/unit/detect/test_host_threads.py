"""Hosts of users' threads: each is built as a tree with the evidence that it had, and must be told what it lacks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.finding_goldens import Findings, named
from tests.reading import cases_in
from tests.signing import GLOBAL, SHIM, certificate, enrolled, signed

from gpustack.detect.build import host_of
from gpustack.detect.evidence import CommandOutput, Evidence
from gpustack.detect.gather import gather
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Problem


def _hosts(name: str) -> list[dict[str, Any]]:
    """The hosts of a file of cases."""
    hosts: list[dict[str, Any]] = cases_in(Path(__file__).parents[2] / f"cases/{name}.yaml")["hosts"]
    return hosts


CASES = [case for name in ("host-threads", "host-messages", "near-hosts") for case in named(name, _hosts(name))]
LOGS = ("detect-unexplained", "detect-service-log")
"""What is said of lines of logs: of a near host in ``container-threads`` nothing."""

_OF_APT, _OF_RPM, _OF_ARCH = (
    r"\b(?:apt-get|apt-mark|dpkg|update-initramfs|update-grub)\b", r"\b(?:dnf|yum|rpm-ostree|grubby|akmods|zypper)\b",
    r"\b(?:pacman|mkinitcpio)\b",
)  # fmt: skip
FOREIGN = {
    "ubuntu": (_OF_RPM, _OF_ARCH), "debian": (_OF_RPM, _OF_ARCH), "mint": (_OF_RPM, _OF_ARCH),
    "fedora": (_OF_APT, _OF_ARCH), "rhel": (_OF_APT, _OF_ARCH), "amzn": (_OF_APT, _OF_ARCH),
    "bazzite": (_OF_APT, _OF_ARCH), "suse": (_OF_APT, _OF_ARCH), "arch": (_OF_APT, _OF_RPM),
}  # fmt: skip
"""The programs of other systems, which no cure of a finding names; what a log says may be another machine's."""

CONTENT = "\x7fELF\n"
"""What stands for a library or program: a text of one word would count as a link."""

_GPU = "/sys/bus/pci/devices/0000:01:00.0"
_SYSTEMS = {
    "ubuntu2004": ('ID=ubuntu\nVERSION_ID="20.04"\n', "5.15.0-100-generic"),
    "ubuntu2204": ('ID=ubuntu\nVERSION_ID="22.04"\n', "5.15.0-100-generic"),
    "ubuntu2404": ('ID=ubuntu\nVERSION_ID="24.04"\n', "6.8.0-35-generic"),
    "debian12": ('ID=debian\nVERSION_ID="12"\n', "6.1.0-40-amd64"),
    "debian13": ('ID=debian\nVERSION_ID="13"\nVERSION_CODENAME=trixie\n', "6.12.48+deb13-amd64"),
    "fedora41": ('ID=fedora\nVERSION_ID=41\nPLATFORM_ID="platform:f41"\n', "6.11.4-301.fc41.x86_64"),
    "rhel9": ('ID=rhel\nVERSION_ID="9.5"\nPLATFORM_ID="platform:el9"\n', "5.14.0-503.22.1.el9_5.x86_64"),
    "rhel8": ('ID=rhel\nVERSION_ID="8.10"\nPLATFORM_ID="platform:el8"\n', "4.18.0-553.5.1.el8_10.x86_64"),
    "amzn2": ('ID="amzn"\nVERSION_ID="2"\n', "5.10.209-198.858.amzn2.x86_64"),
    "amzn2023": ('ID="amzn"\nVERSION_ID="2023"\nPLATFORM_ID="platform:al2023"\n', "6.1.90-99.173.amzn2023.x86_64"),
    "arch": ("ID=arch\n", "6.17.7-arch1-1"),
    "bazzite44": ("ID=bazzite\nID_LIKE=fedora\nVERSION_ID=44\n", "6.17.7-ba29.fc44.x86_64"),
    "bluefin": ("ID=bluefin\nID_LIKE=fedora\nVERSION_ID=41\n", "6.13.8-200.fc41.x86_64"),
    "mint22": ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\nUBUNTU_CODENAME=noble\n', "6.14.0-33-generic"),
    "gentoo": ("ID=gentoo\n", "6.12.31-gentoo"),
    "suse": ('ID=opensuse-leap\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n', "6.4.0-150600.23.25-default"),
    "fedora43": ('ID=fedora\nVERSION_ID=43\nPLATFORM_ID="platform:f43"\n', "6.17.10-300.fc43.x86_64"),
    "nixos": ('ID=nixos\nVERSION_ID="25.05"\n', "6.12.43"),
    "bazzite39": ("ID=bazzite\nID_LIKE=fedora\nVERSION_ID=39\n", "6.6.9-200.fsync.fc39.x86_64"),
    "cos": ("ID=cos\nVERSION_ID=109\n", "6.1.75+"),
    "talos": ('ID=talos\nVERSION_ID="v1.11.0"\n', "6.12.43-talos"),
    "void": ("ID=void\n", "6.12.28_1"),
    "alpine": ("ID=alpine\nVERSION_ID=3.21.3\n", "6.12.21-0-lts"),
}
_DRIVERS = {"ubuntu": "/usr/lib/x86_64-linux-gnu", "debian": "/usr/lib/x86_64-linux-gnu", "fedora": "/usr/lib64"}


def put(root: Path, path: str, data: bytes | str) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data.encode() if isinstance(data, str) else data)


def host_tree(root: Path, case: dict[str, Any]) -> None:
    """The files of the case's host: its base, and what the case adds."""
    base = case["base"]
    if base.startswith("wsl"):
        wsl_tree(root, empty=base.endswith("empty"))
    elif base.startswith("jetson"):
        put(root, "/etc/os-release", 'ID=ubuntu\nVERSION_ID="22.04"\n')
        put(root, "/etc/nv_tegra_release", f"# R{base[-2:]} (release), REVISION: 4.7, BOARD: generic, EABI: aarch64\n")
        put(root, "/proc/device-tree/compatible", "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0")
    elif base == "container":
        put(root, "/etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
        put(root, "/.dockerenv", "")
        put(root, "/proc/modules", "nvidia 1 0 - Live 0x0\n")
        put(root, "/proc/driver/nvidia/version", loaded_version("570.133.07"))
        for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-encode.so.1"):
            put(root, f"/usr/lib/x86_64-linux-gnu/{name}", CONTENT)
    else:
        machine_tree(root, case)
    put(root, "/proc/sys/kernel/arch", "aarch64\n" if base.startswith("jetson") else "x86_64\n")
    for path, target in case.get("links", {}).items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    for path, text in case.get("files", {}).items():
        if text is None:
            (root / path.lstrip("/")).unlink()
        else:
            put(root, path, CONTENT if text == "x" else text)
    status = "".join(map(stanza, case.get("packages", ())))
    if status:
        put(root, "/var/lib/dpkg/status", status)


def wsl_tree(root: Path, *, empty: bool) -> None:
    put(root, "/etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
    put(root, "/proc/sys/kernel/osrelease", "6.6.87.2-microsoft-standard-WSL2\n")
    put(root, "/proc/modules", "")
    put(root, "/dev/dxg", "")
    put(root, "/usr/lib/wsl/lib/libd3d12.so", CONTENT)
    for name in () if empty else ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-encode.so.1"):
        put(root, f"/usr/lib/wsl/lib/{name}", CONTENT)


def machine_tree(root: Path, case: dict[str, Any]) -> None:
    """A machine with a GPU, a kernel, and Secure Boot on where the case is about keys."""
    system, kernel = _SYSTEMS[case["base"]]
    kernel = case.get("kernel", kernel)
    put(root, "/etc/os-release", system)
    put(root, "/proc/sys/kernel/osrelease", f"{kernel}\n")
    for name in dict.fromkeys((kernel, case.get("next", kernel))):
        put(root, f"/lib/modules/{name}/modules.dep", "")
        put(root, f"/boot/vmlinuz-{name}", "")
    version = case.get("loaded")
    put(root, "/proc/modules", "nvidia 1 0 - Live 0x0\n" if version else "")
    if version:
        put(root, "/proc/driver/nvidia/version", loaded_version(version, case.get("flavour", "open")))
        folder = next((path for name, path in _DRIVERS.items() if case["base"].startswith(name)), None)
        for name in ("cuda", "nvidia-ml") if folder else ():
            put(root, f"{folder}/lib{name}.so.{case.get('libraries', version)}", CONTENT)
    for number, device in enumerate(case.get("gpus", ["2684"]), 1):
        for name, text in (("vendor", "0x10de"), ("device", f"0x{device}"), ("class", "0x030000")):
            put(root, f"/sys/bus/pci/devices/0000:{number:02x}:00.0/{name}", f"{text}\n")
    if case.get("bound"):
        (root / f"{_GPU.lstrip('/')}/driver").symlink_to(f"../../drivers/{case['bound']}")
    for path, key in case.get("modules", {}).items():
        put(root, f"/lib/modules/{path}", signed(key))
    for path, key in case.get("keys", {}).items():
        put(root, path, certificate(key))
    if case.get("class") == "secure-boot":
        firmware(root, case)


def firmware(root: Path, case: dict[str, Any]) -> None:
    place = "/sys/firmware/efi/efivars"
    put(root, f"{place}/SecureBoot-{GLOBAL}", b"\6\0\0\0\1")
    put(root, f"{place}/db-d719b2cb-3d3a-4596-a3bc-dad00e67656f", enrolled("Microsoft Corporation UEFI CA 2011"))
    if case.get("shim", True):
        put(root, f"{place}/MokListRT-{SHIM}", enrolled(*case.get("enrolled", ())))
    if case.get("asked"):
        put(root, f"{place}/MokNew-{SHIM}", b"\7\0\0\0x")


def loaded_version(version: str, flavour: str = "open") -> str:
    words = "Open Kernel Module for x86_64" if flavour == "open" else "x86_64 Kernel Module"
    return f"NVRM version: NVIDIA UNIX {words}  {version}  Release Build\n"


def stanza(words: str) -> str:
    """One package of dpkg's status: name, version, and its state where it is not installed."""
    name, version, state, *_ = (*words.split(), "installed")
    return f"Package: {name}\nStatus: install ok {state}\nArchitecture: amd64\nVersion: {version}\n\n"


def rpm_line(words: str) -> str:
    name, version, vendor = words.split(maxsplit=2)
    return f"{name}\t\t{version}\t1\tx86_64\t{vendor}"


def evidence_of(root: Path, case: dict[str, Any]) -> Evidence:
    """What is read of the case's host, whose files are written below ``root``."""
    host_tree(root, case)
    return msgspec.structs.replace(
        gather(root),
        rpms=tuple(map(rpm_line, case.get("rpms", ()))),
        nvml=case.get("nvml"),
        commands={name: CommandOutput(code=0, out=out) for name, out in case.get("commands", {}).items()},
        date="2026-11-21",
        live=case.get("live", False),
    )


def problems(root: Path, case: dict[str, Any], matrix: Matrix) -> tuple[Problem, ...]:
    return host_of(evidence_of(root, case), matrix).problems


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.mark.parametrize(("name", "case"), CASES, ids=[name.partition(": ")[2] for name, _ in CASES])
def test_the_host_is_told_what_it_lacks(
    name: str, case: dict[str, Any], matrix: Matrix, tmp_path: Path, findings: Findings
) -> None:
    found = problems(tmp_path, case, matrix)
    told = [f"{problem.message} | {problem.fix}" for problem in found]
    for problem in found:
        assert not re.search(r"<[a-z]+>|\{[a-z_]+\}|\bKEY\b", problem.fix), problem
        commands = re.findall(r"`([^`]+)`", problem.fix)
        assert all(shlex.split(words) for words in commands), problem
        if not problem.id.startswith(LOGS) and "/etc/os-release" not in case.get("files", {}):
            foreign = next((of for base, of in FOREIGN.items() if case["base"].startswith(base)), ())
            assert not [words for words in commands if any(re.search(one, words) for one in foreign)], problem
    for words in case.get("tells", ()):
        assert any(all(word.lower() in text.lower() for word in words) for text in told), (words, told)
    for word in case.get("never", ()):
        assert not [text for text in told if word.lower() in text.lower()], word
    findings.compare(name, found)


def test_hosts_of_containers_clusters_and_machines(matrix: Matrix, tmp_path: Path, findings: Findings) -> None:
    faults = []
    for number, (name, case) in enumerate(named("container-threads", _hosts("container-threads"))):
        found = problems(tmp_path / str(number), case, matrix)
        findings.compare(name, found)
        told = [f"{problem.message} | {problem.fix}".lower() for problem in found]
        lacking = [
            words
            for words in case.get("tells", ())
            if not any(all(word.lower() in text for word in words) for text in told)
        ]
        wrong = [word for word in case.get("never", ()) if any(word.lower() in text for text in told)]
        alone = [told] if case.get("near") and any(problem.id.startswith(LOGS) for problem in found) else []
        faults += [(case["thread"], lacking, wrong, alone)] if lacking or wrong or alone else []
    assert faults == []
