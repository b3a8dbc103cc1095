"""What the detectors say of the hosts that tests describe, held whole in ``tests/golden/detect``.

``ids.txt`` has the findings of each host by their ids: a detector that begins to speak of a host, or falls silent,
changes a line. ``texts.txt`` has the words of each kind of finding once. Findings that are rows of the facts are left out.
With ``--update-golden`` the tests of tests/unit/detect write both anew; what they then say is to be read.
"""

from __future__ import annotations

import re
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

MOST, OF_LINES = 40, 200
"""So many texts of one id are held, and so many of lines by their own words: the first of each shape, numbers apart."""


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
def ids() -> dict[str, str]:
    """The ids of each host's findings."""
    lines = (GOLDEN / "ids.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.rsplit(" = ", 1) for line in lines)


@cache
def texts() -> dict[str, dict[str, str]]:
    """The texts that are held, by host and id."""
    found: dict[str, dict[str, str]] = {}
    for block in (
        (GOLDEN / "texts.txt").read_text(encoding="utf-8").split("\n\n")
        if (GOLDEN / "texts.txt").stat().st_size
        else ()
    ):
        head, text = block.strip("\n").split("\n", 1)
        identity, host = head.removeprefix("[").split("] ", 1)
        found.setdefault(host, {})[identity] = text
    return found


class Findings:
    """Compares the findings of hosts with the goldens, or collects them."""

    def __init__(self, *, update: bool) -> None:
        self._update = update
        self._said: dict[str, tuple[Problem, ...]] = {}

    def compare(self, host: str, problems: tuple[Problem, ...]) -> None:
        """Hosts that the goldens do not have yet are asserted by their tests alone."""
        if host.startswith(("kernel-threads", "fixtures")):
            problems = tuple(problem for problem in problems if problem.id not in OF_DAYS)
        if self._update:
            self._said[host] = problems
            return
        again = "read what changed, then run with --update-golden"
        assert host not in ids() or _ids(problems) == ids()[host], (host, again)
        said: dict[str, list[str]] = {}
        for problem in problems:
            said.setdefault(problem.id, []).append(_text(problem))
        for identity, text in texts().get(host, {}).items():
            assert text in said.get(identity, ()), (host, identity, text, said.get(identity), again)

    def write(self) -> None:
        """Write what was collected; of hosts that did not run the goldens stay."""
        if not self._said:
            return
        lines = {**ids(), **{host: _ids(problems) for host, problems in self._said.items()}}
        held = {
            (name, host): text for host, of in texts().items() if host not in self._said for name, text in of.items()
        }
        shapes = {(name, _shape(text)) for (name, _), text in held.items()}
        for host, problems in sorted(self._said.items()):
            for problem in problems:
                text, key = _text(problem), (problem.id, host)
                shape = (problem.id, _shape(text))
                most = OF_LINES if problem.id == "detect-unexplained-log" else MOST
                full = sum(name == problem.id for name, _ in shapes) >= most
                if problem.id in OF_ROWS or shape in shapes or full or key in held:
                    continue
                held[key] = text
                shapes.add(shape)
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / "ids.txt").write_text("".join(f"{host} = {lines[host]}\n" for host in sorted(lines)), "utf-8")
        blocks = (f"[{name}] {host}\n{held[name, host]}\n" for name, host in sorted(held))
        (GOLDEN / "texts.txt").write_text("\n".join(blocks), "utf-8")


def _ids(problems: tuple[Problem, ...]) -> str:
    return " ".join(sorted({problem.id for problem in problems}))


def _text(problem: Problem) -> str:
    reboot = {True: ", reboot", False: "", None: ", maybe a reboot"}[problem.reboot]
    return f"  {problem.severity}{reboot}: {problem.message}\n  {problem.fix}"


def _shape(text: str) -> str:
    return re.sub(r"\d+", "0", text)
