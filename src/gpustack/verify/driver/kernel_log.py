"""Messages about the GPUs in the kernel log, by the facts: why a GPU does not start, and what its Xid numbers mean."""

from __future__ import annotations

import re
from itertools import groupby

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.verify.declare import Outcome, failed, passed

SUBJECT = "driver-errors"
EVIDENCE_LINES = 20

_ADDRESS = re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\b")
_CODES = re.compile(r"RmInitAdapter failed!? ?(\([^)]*\))")
_XID = re.compile(r"Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(.*)")
_RECOVERY = re.compile(r"\bto 0x[0-9a-fA-F]+ \(([^)]+)\)")
_RECOVERY_XID = 154
_NONE = "None"


class Line(Struct, frozen=True, kw_only=True):
    """Texts that a log contains together (``wants``), what they mean and what fixes it."""

    order: int
    wants: tuple[str, ...]
    says: str
    fix: str


class XidAction(Struct, frozen=True, kw_only=True):
    """What NVIDIA's catalog requires after an Xid; ``grave`` if restarting programs is not enough."""

    action: str
    grave: bool
    fix: str = ""


class Xid(Struct, frozen=True, kw_only=True):
    """A number of the driver's messages, and the action that it requires."""

    number: int
    says: str
    action: str


class _Seen(Struct, frozen=True, kw_only=True):
    """An Xid in the log: its GPU, its meaning and its fix; ``fix`` is "" if nothing has to be done."""

    place: str
    number: int
    says: str
    fix: str = ""


def judge_log(matrix: Matrix, text: str) -> Outcome:
    """Judge the messages of a kernel log; syslog daemons write the line ends of one message as ``#012``."""
    lines = [line.strip() for line in text.replace("#012", "\n").splitlines() if "NVRM" in line or "nvidia" in line]
    log = "\n".join(lines)
    evidence = {"kernel log": "\n".join(lines[-EVIDENCE_LINES:])}
    for row in sorted(matrix.rows(SUBJECT, "kernel_log", Line), key=lambda row: row.order):
        if all(words in log for words in row.wants):
            return failed(_message(row, lines), row.fix, evidence=evidence)
    seen = _xids(matrix, log)
    grave = [one for one in seen if one.fix]
    if grave:
        last = grave[-1]
        others = sorted({one.number for one in grave} - {last.number})
        more = f"; {len(grave)} such messages since boot" if len(grave) > 1 else ""
        also = f", including Xid {', '.join(map(str, others))}" if others else ""
        return failed(f"Xid {last.number} at {last.place}: {last.says}{more}{also}", last.fix, evidence=evidence)
    if not seen:
        return passed("no Xid and no RmInitAdapter message")
    kinds = groupby(sorted(seen, key=lambda one: one.number), key=lambda one: (one.number, one.says))
    listed = ", ".join(f"{number} ({says})" for (number, says), _ in kinds)
    return passed(f"Xid {listed}; none is known to require more than restarting programs", evidence=evidence)


def _message(row: Line, lines: list[str]) -> str:
    """What it means, with the GPUs' addresses and the driver's own codes where the log has them."""
    about = [number for number, line in enumerate(lines) if row.wants[-1] in line]
    places = sorted({place for number in about if (place := _place(lines, number))})
    codes = [match[1] for number in about if (match := _CODES.search(lines[number]))]
    message = f"{row.says} at {' and '.join(places)}" if places else row.says
    return f"{message}: RmInitAdapter failed {codes[-1]}" if codes else message


def _place(lines: list[str], number: int) -> str:
    """The GPU that a message is about: on its line, else on the line before, where long messages begin."""
    for line in (lines[number], lines[number - 1] if number else ""):
        found = _ADDRESS.search(line)
        if found:
            return found[0]
    return ""


def _xids(matrix: Matrix, log: str) -> list[_Seen]:
    known = {row.number: row for row in matrix.rows(SUBJECT, "xids", Xid)}
    actions = {row.action: row for row in matrix.rows(SUBJECT, "xid_actions", XidAction)}
    seen = []
    for match in _XID.finditer(log):
        number, row = int(match[2]), known.get(int(match[2]))
        action = actions.get(row.action) if row else None
        says, fix = (row.says if row else "its meaning is unknown"), (action.fix if action else "")
        asked = _RECOVERY.search(match[3]) if number == _RECOVERY_XID else None
        if asked and asked[1] != _NONE:
            says, fix = f"the driver reports the required recovery action: {asked[1]}", actions["reset-gpu"].fix
        seen.append(_Seen(place=match[1], number=number, says=says, fix=fix))
    return seen
