"""What a kernel log says about the GPUs, by the facts: the first grave message, its meaning, its consequences."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpustack.matrix.index import Matrix
from gpustack.patterns import later

SUBJECT = "driver-errors"
LINE_WIDTH = 220
"""So many characters of a message are quoted."""

_ADDRESS = later(r"\b([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(\.[0-7])?\b")
_CODES = later(r"RmInitAdapter failed!? ?(\((?:0x)?([0-9a-fA-F]+):(?:0x)?([0-9a-fA-F]+):\d+\))")
_XID = later(r"(?<!S)Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(.*)")
_RECOVERY = later(r"\bto 0x[0-9a-fA-F]+ \(([^)]+)\)")
_RECOVERY_XID = 154
_NONE = "None"
_TIME = later(
    r"(\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"
    r"|\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]+ \d{4}| *\d+\.\d+)\]"
)
_SERVICE = later(r"fabric-?[ ]?manager|fabric manager", re.IGNORECASE)
_OK = "fm-ok"


class Message(Struct, frozen=True, kw_only=True):
    """Texts that one line of a log (``kernel``, or ``fabric``: Fabric Manager's) holds; meaning and cure."""

    id: str
    log: str
    wants: tuple[str, ...]
    says: str
    fix: str = ""
    src: tuple[str, ...] = ()


class XidAction(Struct, frozen=True, kw_only=True):
    """What NVIDIA's catalog requires after an Xid; ``grave`` where restarting programs is not enough."""

    action: str
    grave: bool
    fix: str = ""


class Xid(Struct, frozen=True, kw_only=True):
    """A number of the driver's messages, the action that it requires, and what helps beyond that."""

    number: int
    says: str
    action: str
    fix: str = ""
    src: tuple[str, ...] = ()


class Order(Struct, frozen=True, kw_only=True):
    """Which messages another one follows from."""

    key: str
    after: tuple[str, ...]


class Code(Struct, frozen=True, kw_only=True):
    """A number inside RmInitAdapter messages; with the cure where a stage has one of its own."""

    code: int
    says: str
    fix: str = ""


class Event(Struct, frozen=True, kw_only=True):
    """A message in the log: its key, its GPU ("" where it names none), its words; ``fix`` is "" for a remark."""

    key: str
    place: str
    says: str
    fix: str
    line: str
    at: int = 0
    number: int | None = None
    codes: str = ""
    asked: str = ""
    src: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How it is called among the consequences of another."""
        if self.number is not None:
            return f"Xid {self.number}{f' ({self.asked})' if self.asked else ''}"
        return f"RmInitAdapter failed {self.codes}" if self.codes else self.says


class Verdict(Struct, frozen=True, kw_only=True):
    """The first grave message with its line, and what followed; without one, the remarks."""

    message: str = ""
    fix: str = ""
    when: str = ""
    line: str = ""
    then: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    src: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The line with its time, the consequences, and what does not follow from it."""
        then = f"; then {', '.join(self.then)}" if self.then else ""
        also = f"; besides {', '.join(self.also)}" if self.also else ""
        return f"{self.when + ': ' if self.when else ''}{self.line}{then}{also}"


def judge(matrix: Matrix, text: str, *, log: str = "kernel") -> Verdict:
    """Judge the messages of a log; syslog daemons write the line ends of one message as ``#012``."""
    lines = text.replace("#012", "\n").splitlines()
    events = list(_events(matrix, lines, log))
    every = [one for one in events if one.fix]
    # A flood of one message is one trouble: each is judged where it comes first, and counted.
    grave = list({(one.key, one.place): one for one in reversed(every)}.values())[::-1]
    grave.sort(key=lambda one: one.at)
    if not grave:
        return Verdict(remarks=_remarks(events))
    after = {row.key: row.after for row in matrix.rows(SUBJECT, "log_order", Order)}
    roots = [one for one in grave if not _causes(one, grave, after)]
    root = roots[0] if roots else grave[0]
    if root.number == _RECOVERY_XID:
        root = _before(root, events) or root
    alike = [one for one in roots if one.key == root.key] or [root]
    apart = [one for one in roots if one.key != root.key]
    followers = [one for one in grave if one is not root and one not in alike and one not in apart]
    followed = {(one.key, one.place) for one in followers}
    codes = root.codes or next((one.codes for one in followers if one.codes and _same(one, root)), "")
    return Verdict(
        message=_message(matrix, root, alike, codes, _place_of(root, followers)),
        fix=_of_stage(matrix, root) or _cure(root, followers),
        when=_when(lines, root.at),
        line=_quoted(root.line),
        then=_named(one.name for one in every if one.key != root.key and (one.key, one.place) in followed),
        also=_named(f"{one.name} at {one.place}" if one.place else one.name for one in apart),
        src=root.src,
    )


def _events(matrix: Matrix, lines: list[str], log: str) -> Iterator[Event]:
    """The messages that the facts know, in the log's order; of Fabric Manager's those since it last worked."""
    rows = [row for row in matrix.rows(SUBJECT, "kernel_log", Message) if row.log == log]
    known = {row.number: row for row in matrix.rows(SUBJECT, "xids", Xid)}
    actions = {row.action: row for row in matrix.rows(SUBJECT, "xid_actions", XidAction)}
    since = 0
    if log == "fabric":
        works = next(row for row in rows if row.id == _OK)
        since = max((at for at, line in enumerate(lines) if works.wants[0] in line), default=-1) + 1
    text = "\n".join(lines)
    rows = [row for row in rows if all(words in text for words in row.wants)]
    xid_rows = [row for row in rows if any(words.startswith(("):", "SXid")) for words in row.wants)]
    for at in range(since, len(lines)):
        line = lines[at]
        if log == "fabric" and not _SERVICE.search(line):
            continue
        matching = [row for row in (xid_rows if "Xid (" in line else rows) if all(words in line for words in row.wants)]
        row = max(matching, key=lambda one: sum(map(len, one.wants)), default=None)
        found = _XID.search(line) if log == "kernel" else None
        if row is not None:
            codes = _CODES.search(line)
            yield Event(
                key=row.id, place=_place(lines, at), says=row.says, fix=row.fix, line=line, at=at,
                codes=codes[1] if codes else "", src=row.src,
            )  # fmt: skip
        elif found is not None:
            yield _xid(known.get(int(found[2])), actions, found, line, at)


def _xid(row: Xid | None, actions: dict[str, XidAction], found: re.Match[str], line: str, at: int) -> Event:
    number, action = int(found[2]), actions.get(row.action) if row else None
    says = row.says if row else "its meaning is unknown"
    fix = "; ".join(part for part in (action.fix if action else "", row.fix if row else "") if part)
    recovery = _RECOVERY.search(found[3]) if number == _RECOVERY_XID else None
    asked = recovery[1] if recovery and recovery[1] != _NONE else ""
    if asked:
        says = f"the driver reports the required recovery action: {asked}"
        fix = actions["restart-machine" if "Reboot" in asked else "reset-gpu"].fix
    return Event(
        key=f"xid-{number}", place=found[1], says=says, fix=fix, line=line, at=at, number=number, asked=asked,
        src=row.src if row else (),
    )  # fmt: skip


def _place(lines: list[str], at: int) -> str:
    """The GPU that a message is about: on its line, else on the driver's line before, where long messages begin."""
    for line in (lines[at], lines[at - 1] if at and "NVRM" in lines[at - 1] else ""):
        found = _ADDRESS.search(line)
        if found:
            return found[0]
    return ""


def _same(one: Event, other: Event) -> bool:
    """Whether two messages can be about one GPU."""
    a, b = (place.partition(".")[0] for place in (one.place, other.place))
    return not a or not b or a == b


def _causes(one: Event, grave: list[Event], after: dict[str, tuple[str, ...]]) -> bool:
    """Whether another message on the same GPU brought this one."""
    named = after.get(one.key, ())
    others = (other for other in grave if other.key != one.key and _same(one, other))
    return any(other.key in named or ("any" in named and "any" not in after.get(other.key, ())) for other in others)


def _before(root: Event, events: list[Event]) -> Event | None:
    """The last Xid on the GPU before a message that only follows from others: what the driver gave up on."""
    earlier = [one for one in events[: events.index(root)] if one.number is not None and _same(one, root)]
    found = earlier[-1] if earlier else None
    return replace(found, fix=root.fix) if found else None


def _place_of(root: Event, followers: list[Event]) -> str:
    """The GPU of a message that names none: that of what it brought."""
    return root.place or next((one.place for one in followers if one.place), "")


def _message(matrix: Matrix, root: Event, alike: list[Event], codes: str, place: str) -> str:
    places = list(dict.fromkeys(one.place for one in alike if one.place)) or ([place] if place else [])
    at = f" at {' and '.join(places)}" if places else ""
    message = f"Xid {root.number}{at}: {root.says}" if root.number is not None else f"{root.says}{at}"
    return f"{message}: RmInitAdapter failed {codes}{_meaning(matrix, codes)}" if codes else message


def _meaning(matrix: Matrix, codes: str) -> str:
    """The driver's own words for the codes of RmInitAdapter: while what was done, and why it failed."""
    numbers = [int(part, 16) for part in codes.strip("()").split(":")[:2]]
    tables = ("rm_stages", "rm_statuses")
    stage, status = (
        next((row.says for row in matrix.rows(SUBJECT, table, Code) if row.code == number), "")
        for table, number in zip(tables, numbers, strict=True)
    )
    parts = [f"while {stage}" if stage else "", status]
    told = ": ".join(part for part in parts if part)
    return f" ({told})" if told else ""


def _of_stage(matrix: Matrix, root: Event) -> str:
    """The cure of why it failed or of what the driver was doing with the GPU, where one of these has its own."""
    if not root.codes or root.key != "rm-init":
        return ""
    stage, status = (int(part, 16) for part in root.codes.strip("()").split(":")[:2])
    found = (("rm_statuses", status), ("rm_stages", stage))
    rows = (row for table, number in found for row in matrix.rows(SUBJECT, table, Code) if row.code == number)
    return next((row.fix for row in rows if row.fix), "")


def _cure(root: Event, followers: list[Event]) -> str:
    """The cure of the cause; a command that resets a GPU names it."""
    fix = root.fix or next((one.fix for one in followers if one.fix), "")
    found = _place_of(root, followers)
    place = found if "." in found else f"{found}.0"
    return fix.replace("--gpu-reset`", f"--gpu-reset -i {place}`") if found else fix


def _named(names: Iterable[str]) -> tuple[str, ...]:
    counted = Counter(names)
    return tuple(f"{name} ({count} times)" if count > 1 else name for name, count in counted.items())


def _when(lines: list[str], at: int) -> str:
    """The time of a message: of its line, or of the one where a message of several lines begins."""
    near = (lines[before][:80] for before in range(at, max(-1, at - 4), -1))
    found = next((match for line in near if (match := _TIME.search(line))), None)
    return (found[1] or f"{found[2].strip()}{' s after boot' if '.' in found[2] else ''}") if found else ""


def _quoted(line: str) -> str:
    """The message without what the log daemon writes before it."""
    text = line[at:] if (at := line.find("NVRM")) >= 0 else re.sub(r"^.*?(?:\]:?|kernel:) ", "", line)
    return text.strip()[:LINE_WIDTH]


def _remarks(events: list[Event]) -> tuple[str, ...]:
    kinds = sorted({(one.number, one.says) for one in events if one.number is not None})
    return tuple(f"{number} ({says})" for number, says in kinds)
