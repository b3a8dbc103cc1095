"""What a line of a pasted text tells by the one above it: a form's heading, a command, a package of apt policy."""

from __future__ import annotations

import re

from gpustack.detect.pasted.lines import LOG, RELEASE, SYSTEMS, is_distribution, stanza
from gpustack.patterns import later

_PACKAGE = later(r"([a-z0-9][a-z0-9.+-]+)(?::\w+)?:$")
_INSTALLED = later(r"\s*Installed: (\d\S*)$")
"""Of `apt policy`: the package, and below it the release that is installed."""

_NAME = later(r"Name: ([\w.-]+)$")
_VERSION = later(r"Version: (\d\S*)$")
"""The same of `pip show`."""

_HEADS: tuple[tuple[re.Pattern[str], str, re.Pattern[str]], ...] = (
    (
        later(
            r"\W*(?:NVIDIA )?(?:open gpu kernel modules?|(?:graphics )?driver)(?: version)?(?: / branch)?\W*$",
            re.IGNORECASE,
        ),
        "driver",
        later(rf".{{0,80}}?\b({RELEASE})\b(?!\.\d)"),
    ),
    (
        later(r"\W*(?:linux )?kernel(?: version| release)?\W*$|(?:.*[$#>] ?)?uname -r\W*$", re.IGNORECASE),
        "kernel",
        later(r"(?:Linux (?:\S+ )?)?(\d+\.\d+(?:\.\d+|-rc\d)[\w.+~-]*)"),
    ),
    (
        later(r"\W*(?:host )?(?:operating system|distribution|distro|os)(?: and version| version)?\W*$", re.IGNORECASE),
        "system",
        later(rf"\W*((?:{SYSTEMS})[\w .!/-]*)", re.IGNORECASE),
    ),
    (
        later(r"\W*(?:hardware: )?(?:gpu|graphics card|gpu model)\W*$", re.IGNORECASE),
        "named",
        later(
            r".{0,60}?(?:\[|NVIDIA )?((?:GeForce|Tesla|Quadro|TITAN|RTX|GTX) [\w. /-]*\w|[AHLVB]\d{2,3}\b)",
            re.IGNORECASE,
        ),
    ),
    (
        later(r".*\btorch\.__version__\b"),
        "torch",
        later(r"\W*(\d+\.\d+\.\d+\S*?)['\"]?$"),
    ),
    (
        later(r".*\b(?:tf|tensorflow)\.__version__\b"),
        "tensorflow",
        later(r"\W*(\d+\.\d+\.\d+\S*?)['\"]?$"),
    ),
    (
        later(r".*\bjax\.__version__\b"),
        "jax",
        later(r"\W*(\d+\.\d+\.\d+\S*?)['\"]?$"),
    ),
)
"""Headings and commands, what the next line tells, and how it tells it."""

_ANSWERS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (later(r".*\b(torch\.cuda\.is_available\(\))"), later(r"\W*(False)\W*$")),
    (later(r".*\b(tf\.config\.(?:experimental\.)?list_physical_devices\(.GPU.\))"), later(r"\s*(\[\])$")),
    (later(r".*\b(jax\.(?:local_)?devices\(\))"), later(r"\s*(\[CpuDevice\S*\])$")),
)
"""Questions for the GPUs in Python, and the answers that name no GPU."""

_WHEELS = ("torch", "tensorflow", "jax")


class Below:
    """The lines of a text one after the other, of which one can name what the next one tells."""

    def __init__(self) -> None:
        self._kind = ""
        self._answer: re.Pattern[str] | None = None
        self._package = ""
        self._distribution = ""
        self._asked = ""
        self._refusal: re.Pattern[str] | None = None

    def tells(self, line: str) -> tuple[str, str] | None:
        """What the line tells by the one above it, as ``kind_of`` says it; None if that names nothing."""
        if not line.strip():
            return None
        told = self._of_package(line) or self._of_question(line)
        if told is not None:
            return told
        answer = self._answer.match(line) if self._answer is not None else None
        kind, self._answer = self._kind, None
        if answer is not None:
            return ("wheel", f"{kind} {answer[1]}") if kind in _WHEELS else (kind, answer[1])
        for head, kind, pattern in _HEADS:
            if head.match(line):
                self._kind, self._answer = kind, pattern
        return None

    def _of_package(self, line: str) -> tuple[str, str] | None:
        """The release of the package that the line above names."""
        release = _INSTALLED.match(line) if self._package else None
        if release is not None:
            return stanza(self._package, "install ok installed", "", release[1])
        version = _VERSION.match(line) if self._distribution else None
        distribution, self._distribution = self._distribution, ""
        if version is not None:
            return "wheel", f"{distribution} {version[1]}"
        package, named = _PACKAGE.match(line), _NAME.match(line)
        self._package = package[1] if package is not None else ""
        if named is not None and is_distribution(named[1]):
            self._distribution = named[1]
        return None

    def _of_question(self, line: str) -> tuple[str, str] | None:
        """The answer to the question for GPUs that the line above asks."""
        refusal = self._refusal.match(line) if self._refusal is not None else None
        asked, self._refusal = self._asked, None
        if refusal is not None:
            return LOG, f"{asked} is {refusal[1]}"
        for question, refusals in _ANSWERS:
            if (found := question.match(line)) is not None:
                self._asked, self._refusal = found[1], refusals
        return None
