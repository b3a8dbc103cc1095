"""A host of which only the report of NVIDIA's nvidia-bug-report.sh is at hand: NVIDIA's forum asks for it first.

The report is one text of sections behind rules of underscores. A section is a file ("*** /proc/cmdline", a line of ls,
the content) or the output of a command. https://github.com/bottlerocket-os/bottlerocket-admin-container has the script
of 2025; reports since 2009 have the same form.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Literal

from msgspec.structs import replace

from gpustack.detect.captured import Capture, evidence_of
from gpustack.detect.evidence import CommandOutput, Evidence
from gpustack.detect.parse.pci import BASE
from gpustack.detect.probes import QUERY

Entries = dict[str, tuple[Literal["l", "d", "f", "t", "b"], str | int]]

START = "Start of NVIDIA bug report log file"
_RULE = "_" * 44
_OTHER_ROOT = "/.bottlerocket/rootfs"
KERNEL = "/var/log/kern.log"
_SERVICES = "/var/log/daemon.log"
_LOADED = ("NVRM", "nvidia-", "nvrm-nvlog")
"""What the script looks for in logs."""

_HOME, _SHORT = "/root/", 400
"""A log of a program that somebody pasted is kept whole up to so many lines: what stands next to a line about GPUs
tells where it is from."""

_ISSUE = re.compile(r"^(Ubuntu|Debian GNU/Linux|Arch Linux|Fedora Linux|Fedora release)(?: (\d+(?:\.\d+)?))?")
_ISSUE_IDS = {"Ubuntu": "ubuntu", "Debian GNU/Linux": "debian", "Arch Linux": "arch"}
_LSPCI = re.compile(r"^(?:([0-9a-f]{4}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ")
_NAMED = re.compile(
    r"^(?:([0-9a-f]{4}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) .*?\[([0-9a-f]{4})\]: .*\[([0-9a-f]{4}):([0-9a-f]{4})\]"
)
_DUMP = re.compile(r"^([0-9a-f]{2,3}): ((?:[0-9a-f]{2} ?){16})$")
_LINK = re.compile(r"^\*\*\* ls: l\S+ .* (/\S+) -> (\S+)$")
_DEVICE = re.compile(r"^\*\*\* ls: c\S+ .* (/dev/\S+)$")


def read_bug_report(text: str) -> Evidence:
    """The evidence in the text of a report."""
    sections = _sections(text)
    entries: Entries = {}
    for lines in sections:
        _files(lines, entries)
    _system(sections[0] if sections else [], entries)
    functions(sections, entries)
    _logs(sections, entries)
    query = _query(sections)
    return excerpt(entries, told_by_the_driver(query), query)


def excerpt(entries: Entries, nvml: dict[str, Any] | None, query: str = "") -> Evidence:
    """The evidence of a host of which a text has only these files: what it does not hold is not said to be missing."""
    found = evidence_of(Capture(entries=entries))
    kernel = found.files.pop(KERNEL, "")
    for path in found.files:
        _, text = entries.get(path, ("t", ""))
        if path.startswith(_HOME) and isinstance(text, str) and text.count("\n") <= _SHORT:
            found.files[path] = text
    said = {"dmesg": kernel, QUERY: query}
    commands = {**found.commands, **{name: CommandOutput(code=0, out=out) for name, out in said.items() if out}}
    marks = {name: mark for name, mark in found.marks.items() if mark != "absent"}
    if kernel:
        marks["kernel log"] = "dmesg"
    return replace(found, commands=commands, marks=marks, nvml=nvml, excerpt=True)


def _sections(text: str) -> list[list[str]]:
    found: list[list[str]] = []
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_RULE):
            found.append(lines)
            lines = []
        elif line or lines:
            lines.append(line)
    return [one for one in (*found, lines) if one]


def _files(lines: list[str], entries: Entries) -> None:
    """The files, links and devices of a section."""
    if lines[0].startswith("*** /"):
        if len(lines) > 1 and lines[1].startswith(("*** ls: -", "*** ls: l")):
            content = lines[2:-1] if lines[-1] == "" else lines[2:]
            entries[_inside(lines[0].removeprefix("*** "))] = ("t", _text(content))
        return
    for line in lines:
        if link := _LINK.match(line):
            entries[_inside(link[1])] = ("l", link[2])
        elif device := _DEVICE.match(line):
            entries[device[1]] = ("f", 0)


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _inside(path: str) -> str:
    return path.removeprefix(_OTHER_ROOT).replace("/./", "/").rstrip()


def _system(start: list[str], entries: Entries) -> None:
    """The kernel and the system, where the report has no file that tells them."""
    uname = next((line.split() for line in start if line.startswith("uname: Linux ")), [])
    if len(uname) > 3:
        entries["/proc/sys/kernel/osrelease"] = ("t", f"{uname[3]}\n")
        machine = next((word for word in reversed(uname) if word in {"x86_64", "aarch64", "ppc64le", "i686"}), "")
        if machine:
            entries["/proc/sys/kernel/arch"] = ("t", f"{machine}\n")
    debian = str(entries.get("/etc/debian_version", ("t", ""))[1])
    if debian.strip().endswith("/sid"):
        del entries["/etc/debian_version"]  # also Ubuntu's is of Debian's next release
    issue = _ISSUE.match(str(entries.get("/etc/issue", ("t", ""))[1]))
    if issue and "/etc/os-release" not in entries:
        version = f'VERSION_ID="{issue[2]}"\n' if issue[2] else ""
        text = f'PRETTY_NAME="{issue[0]}"\nID={_ISSUE_IDS.get(issue[1], "fedora")}\n{version}'
        entries["/etc/os-release"] = ("t", text)


def functions(sections: list[list[str]], entries: Entries) -> None:
    """The functions of the bus by the dumps of their configuration spaces, as sysfs shows them, else by their ids."""
    for lines in sections:
        if "lspci" not in lines[0] and "PCI devices configuration space" not in lines[0]:
            continue
        here, space = "", bytearray()
        for line in (*lines, "ffff:ff:1f.7 "):
            if head := _LSPCI.match(line):
                _function(here, bytes(space), entries)
                here, space = f"{BASE}/{head[1] or '0000'}:{head[2]}", bytearray()
            elif (row := _DUMP.match(line.strip())) and int(row[1], 16) == len(space):
                space += bytes.fromhex(row[2])
            elif here and (bound := line.strip().partition("Kernel driver in use: ")[2]):
                entries[f"{here}/driver"] = ("l", f"../../../bus/pci/drivers/{bound}")

    for found in (match for lines in sections for line in lines if (match := _NAMED.match(line))):
        here = f"{BASE}/{found[1] or '0000'}:{found[2]}"
        for name, number in (("class", f"{found[3]}00"), ("vendor", found[4]), ("device", found[5])):
            entries.setdefault(f"{here}/{name}", ("t", f"0x{number}\n"))


def _function(here: str, space: bytes, entries: Entries) -> None:
    """One function by its configuration space: vendor and device, class, subsystem.

    A device that fell off the bus answers with ones only.
    """
    if not here or len(space) < 64 or space.startswith(b"\xff\xff"):
        return
    numbers = {"vendor": 0, "device": 2, "subsystem_vendor": 0x2C, "subsystem_device": 0x2E}
    for name, place in numbers.items():
        entries[f"{here}/{name}"] = ("t", f"0x{int.from_bytes(space[place : place + 2], 'little'):04x}\n")
    entries[f"{here}/class"] = ("t", f"0x{int.from_bytes(space[9:12], 'little'):06x}\n")
    entries[f"{here}/config"] = ("b", base64.b64encode(space).decode("ascii"))


def _logs(sections: list[list[str]], entries: Entries) -> None:
    """The kernel's log of this boot, and what services and the X server wrote."""
    ring: list[str] = []
    found: list[str] = []
    display: list[str] = []
    services: list[str] = []
    for lines in sections:
        if re.fullmatch(r"dmesg:|/\S+/dmesg", lines[0]):
            ring = lines[1:]
        elif lines[0].startswith("Scanning kernel log files"):
            found = _this_boot(lines)
        elif lines[0].startswith("journalctl -b -0 "):
            display += lines[1:]
        elif "systemctl status " in lines[0]:
            services += lines[1:]
            _units(lines, entries)
    if not any("Linux version " in line for line in ring):  # the ring has lost its start
        ring = [*found, *(line for line in ring if not any(word in line for word in _LOADED))]
    for path, text in ((KERNEL, _text(ring)), ("/var/log/Xorg.0.log", _text(display)), (_SERVICES, _text(services))):
        if text:
            entries.setdefault(path, ("t", text))


def _units(lines: list[str], entries: Entries) -> None:
    """The units that systemd knows, and whether each is enabled."""
    for line in lines:
        if unit := re.match(r" +Loaded: loaded \((/\S+/([\w-]+\.service)); (\w+)", line):
            entries[unit[1]] = ("f", 0)
            if unit[3] == "enabled":
                entries[f"/etc/systemd/system/multi-user.target.wants/{unit[2]}"] = ("l", unit[1])


def _this_boot(lines: list[str]) -> list[str]:
    """The driver's lines of this boot: by the journal, else all those of the first log file."""
    heads = [number for number, line in enumerate(lines) if re.match(r"  (?:/\S+|journalctl -b -\d):$", line)]
    parts = {
        lines[start].strip(): lines[start + 1 : end] for start, end in zip(heads, [*heads[1:], None], strict=False)
    }
    chosen = parts.get("journalctl -b -0:") or next(iter(parts.values()), [])
    return [line for line in chosen if line]


def _query(sections: list[list[str]]) -> str:
    """What `nvidia-smi --query` printed."""
    lines = next((one for one in sections if re.search(r"nvidia-smi --query$", one[0])), [])
    return "\n".join(lines[1:]).strip()


def told_by_the_driver(text: str) -> dict[str, Any] | None:
    """What `nvidia-smi --query` printed, in the form of NVML's answers; its message if it failed."""
    driver = re.search(r"^Driver Version +: (\S+)$", text, re.MULTILINE)
    gpus = [_gpu(one) for one in re.split(r"^GPU (?=[0-9A-F]{8}:)", text, flags=re.MULTILINE)[1:]]
    if not driver and not gpus:
        return {"error": text.partition("\n")[0][:300]} if text and not text.startswith("=") else None
    return {"driver": driver[1] if driver else None, "gpus": gpus}


def _gpu(text: str) -> dict[str, Any]:
    def told(pattern: str) -> str | None:
        found = re.search(pattern, text, re.MULTILINE)
        return None if found is None or found[1].strip() in {"N/A", "[N/A]"} else found[1].strip()

    def number(pattern: str, base: int = 10) -> int | None:
        found = told(pattern)
        return int(found, base) if found else None

    switch = {"Enabled": 1, "Disabled": 0}
    return {
        "name": told(r"^ +Product Name +: (.+)$"),
        "uuid": told(r"^ +GPU UUID +: (\S+)$"),
        "bus_id": text.partition("\n")[0].strip(),
        "device_id": number(r"^ +Device Id +: 0x([0-9A-Fa-f]+)$", 16),
        "subsystem_id": number(r"^ +Sub System Id +: 0x([0-9A-Fa-f]+)$", 16),
        "compute_capability": None,
        "memory_mib": number(r"^ +FB Memory Usage\n +Total +: (\d+) MiB$"),
        "persistence": switch.get(told(r"^ +Persistence Mode +: (\w+)$") or ""),
        "mig": switch.get(told(r"^ +MIG Mode\n +Current +: (\w+)$") or ""),
    }
