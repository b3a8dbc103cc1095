"""What the detectors say of the hosts that tests describe, held whole in ``tests/golden/detect``.

``ids.txt`` has the findings of each host, each by its id and a mark of its words, severity and sources: a detector that
begins to speak of a host, falls silent or says something else changes a line. ``texts.txt`` has each of these texts once,
under its mark and the first host that is told so. Of findings that are rows of the facts the mark stands for the row, and the
text is what the first host is told of it. With ``--update-golden`` the tests of tests/unit/detect write both anew; what they
then say is to be read.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from gpustack.model.host import Problem

GOLDEN = Path(__file__).parent / "golden/detect"
OF_ROWS = {"detect-service-log", "detect-setting", "detect-known-part"}
OF_DAYS = {"branch_eol", "eol_distro"}
"""What is said from a day on: of hosts whose evidence has no day, nothing of it is held."""


def named(file: str, cases: Iterable[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The hosts of a file of cases, each with its name: several of one thread are counted."""
    seen: Counter[str] = Counter()
    found = []
    for case in cases:
        name = f"{file}: {case['thread'].removeprefix('https://github.com/')}"
        seen[name] += 1
        found.append((name if seen[name] == 1 else f"{name} ({seen[name]})", case))
    return found


@cache
def marks() -> dict[str, str]:
    """The marks of each host's findings, as in ``ids.txt``."""
    lines = (GOLDEN / "ids.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.rsplit(" = ", 1) for line in lines)


@cache
def ids() -> dict[str, str]:
    """The ids of each host's findings, each once."""
    return {host: " ".join(dict.fromkeys(one.partition(":")[0] for one in of.split())) for host, of in marks().items()}


@cache
def texts() -> dict[str, str]:
    """The texts that are held, by their marks."""
    place = GOLDEN / "texts.txt"
    blocks = place.read_text(encoding="utf-8").rstrip("\n").split("\n\n") if place.stat().st_size else ()
    found = (block.split("\n", 1) for block in blocks)
    return {head.removeprefix("[").partition("] ")[0]: text for head, text in found}


class Findings:
    """Compares the findings of hosts with the goldens, or collects them."""

    def __init__(self, *, update: bool) -> None:
        self._update = update
        self._said: dict[str, list[tuple[str, str]]] = {}

    def compare(self, host: str, problems: tuple[Problem, ...]) -> None:
        """Hosts that the goldens do not have yet are asserted by their tests alone."""
        if host.startswith(("kernel-threads", "fixtures", "pasted-texts")):
            problems = tuple(problem for problem in problems if problem.id not in OF_DAYS)
        told = sorted((mark(problem.id, text(problem)), text(problem)) for problem in problems)
        if self._update:
            self._said[host] = told
            return
        said, held = [one for one, _ in told], marks().get(host)
        if held is None:
            return
        new = [words for one, words in told if one not in held.split()]
        gone = [texts()[one] for one in held.split() if one not in said]
        assert " ".join(said) == held, (host, "new", new, "gone", gone, "read, then run with --update-golden")

    def write(self) -> None:
        """Write what was collected; of hosts that did not run the goldens stay."""
        if not self._said:
            return
        lines = {**marks(), **{host: " ".join(one for one, _ in told) for host, told in self._said.items()}}
        first: dict[str, str] = {}
        for host in sorted(lines):
            for one in lines[host].split():
                first.setdefault(one, host)
        said = {
            **texts(),
            **{one: words for _, told in sorted(self._said.items(), reverse=True) for one, words in told},
        }
        (GOLDEN / "ids.txt").write_text("".join(f"{host} = {lines[host]}\n" for host in sorted(lines)), "utf-8")
        order = sorted(first, key=lambda one: (one.partition(":")[0], first[one], one))
        blocks = (f"[{one}] {first[one]}\n{said[one]}\n" for one in order)
        (GOLDEN / "texts.txt").write_text("\n".join(blocks), "utf-8")


def text(problem: Problem) -> str:
    """What a user reads of a finding; sources that rows have are the rows' own."""
    reboot = {True: ", reboot", False: "", None: ", maybe a reboot"}[problem.reboot]
    sources = f"\n  from {' '.join(problem.sources)}" if problem.sources else ""
    return f"  {problem.severity}{reboot}: {problem.message}\n  {problem.fix}{sources}"


def mark(identity: str, words: str) -> str:
    """A finding's id with a mark of its words, or of its row's."""
    held = words.partition("\n")[2] if identity in OF_ROWS else words
    return f"{identity}:{hashlib.sha256(held.encode()).hexdigest()[:5]}"
