"""Settings of the kernel and the driver's modules: the command line, the options of modprobe, those in effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.evidence import Evidence

_PLACES = ("/lib/modprobe.d/", "/usr/lib/modprobe.d/", "/run/modprobe.d/", "/etc/modprobe.d/")
"""Later ones hide files of the same name in earlier ones."""


def command_line(evidence: Evidence) -> tuple[str, ...]:
    """The words of the running kernel's command line."""
    return tuple((evidence.text("/proc/cmdline") or "").split())


def modprobe_lines(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The lines of modprobe's configuration with their files, in the order in which modprobe reads them."""
    files = {path.rpartition("/")[2]: path for place in _PLACES for path in evidence.under(place, ".conf")}
    for _, path in sorted(files.items()):
        for line in evidence.files[path].replace("\\\n", " ").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield path, line.strip()


def module_options(evidence: Evidence) -> dict[tuple[str, str], tuple[str, str]]:
    """The value and the file of each option of NVIDIA's modules by (module, option); the command line wins."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for path, line in modprobe_lines(evidence):
        words = line.split()
        if words[0] == "options" and len(words) > 2 and words[1].startswith("nvidia"):
            for word in words[2:]:
                name, _, value = word.strip('"').partition("=")
                found[words[1].replace("-", "_"), name] = (value, path)
    for word in command_line(evidence):
        match = re.fullmatch(r"(nvidia[\w-]*)\.(\w+)=(.*)", word)
        if match:
            found[match[1].replace("-", "_"), match[2]] = (match[3], "/proc/cmdline")
    return found


def params(evidence: Evidence) -> dict[str, str]:
    """The options of the loaded module ``nvidia``, without their NVreg_."""
    lines = (evidence.text("/proc/driver/nvidia/params") or "").splitlines()
    return {
        name.strip(): value.strip().strip('"') for name, colon, value in (one.partition(":") for one in lines) if colon
    }


def same_value(one: str, other: str) -> bool:
    """Whether two spellings of an option's value mean the same: 0x02 and 2, Y and 1."""
    return _plain(one) == _plain(other)


def _plain(text: str) -> int | str:
    word = {"Y": "1", "N": "0"}.get(text.strip().strip('"'), text.strip().strip('"'))
    try:
        return int(word, 0)
    except ValueError:
        return word
