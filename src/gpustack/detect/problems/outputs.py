"""What outputs of commands in a pasted text show, which report no failure in words: settings, states, links."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gpustack.detect.problems.registry import Finding, Severity, detects
from gpustack.detect.problems.signs import about_host, quoted
from gpustack.detect.scene import Scene

_SHORT = 16
"""An answer of fewer characters is quoted with the line above it: the command, or the name of the value."""


class Output(Struct, frozen=True, kw_only=True):
    """A row of the outputs: the groups of ``like``, which may span lines, stand in ``says`` and ``fix``.

    ``wants``: texts that stand somewhere in the text, ``unlike``: an expression that it does not match. ``over``: rows
    and detectors of which the findings say only what follows from this one, ``after`` detectors that say the same. With
    severity info it answers a question about a healthy state: next to a failure it is not told.
    """

    id: str
    wants: tuple[str, ...]
    like: str
    says: str
    fix: str
    unlike: str = ""
    severity: Severity = "warn"
    over: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


@detects("detect-output")
def output(scene: Scene) -> Iterator[Finding]:
    """What a command answered in the text, where the answer is the cause."""
    text = scene.evidence.pasted
    for row in scene.matrix.rows("log-lines", "outputs", Output) if text else ():
        if not all(words in text for words in row.wants) or (row.unlike and re.search(row.unlike, text, re.MULTILINE)):
            continue
        found = re.search(row.like, text, re.MULTILINE)
        if found is None:
            continue
        words = {name: word or "" for name, word in found.groupdict().items()}
        *before, line = (one.strip() for one in found[0].strip().splitlines())
        line = f"{before[-1]}: {line}" if before and len(line) < _SHORT else line
        yield Finding(
            message=f"{row.says.format(**words)} (/root/pasted.log: {quoted(line)}{about_host(scene)})",
            fix=row.fix.format(**words),
            severity=row.severity,
            reboot=False,
            sources=scene.matrix.addresses(row.src),
            row=row.id,
            over=row.over,
            after=row.after,
            follows=row.severity == "info",
        )
