"""GPUs that need somebody by `nvidia-smi -q`: memory, fabric, slowdown, modes that wait for a reset."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gpustack.detect.probes import QUERY
from gpustack.detect.problems.registry import Finding, Severity, detects
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_GPU = later(r"GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)")
_FIELD = later(r"( *)(\S.*?) *(?: : (.*))?$")
_NONE = frozenset({"N/A", "[N/A]", "Unknown Error"})


class State(Struct, frozen=True, kw_only=True):
    """A row about a field of the query, by its headings with ``/`` between them, whose value needs somebody."""

    id: str
    field: str
    like: str
    says: str
    fix: str
    severity: Severity = "warn"
    src: tuple[str, ...] = ()


class Told(Struct, frozen=True, kw_only=True):
    """The value of a field of one GPU."""

    gpu: str
    field: str
    value: str

    def __str__(self) -> str:
        return f"{self.field}: {self.value}"


@detects("detect-gpu-state")
def reported(scene: Scene) -> Iterator[Finding]:
    """Fields with values that need somebody, and modes that wait for the next reset."""
    text = scene.evidence.output(QUERY)
    told = list(told_by(text)) if text else []
    for row in scene.matrix.rows("driver-errors", "gpu_states", State) if told else ():
        found = [one for one in told if re.fullmatch(row.field, one.field) and re.fullmatch(row.like, one.value)]
        if found:
            yield Finding(
                message=f"{row.says}: {_of(found)}",
                fix=row.fix,
                severity=row.severity,
                reboot=False,
                sources=scene.matrix.addresses(row.src),
            )
    yield from _waiting(told)
    yield from _narrow(told)


def _waiting(told: list[Told]) -> Iterator[Finding]:
    """Modes that were set and are not in force."""
    values = {(one.gpu, one.field): one.value for one in told}
    found = [
        one
        for one in told
        if one.field.endswith("/Pending")
        and one.value not in _NONE
        and values.get((one.gpu, f"{one.field.removesuffix('Pending')}Current"), one.value) != one.value
    ]
    if found:
        yield Finding(
            message=f"a mode was set and is in force after the next reset of the GPU: {_of(found)}",
            fix="stop all programs, then `sudo nvidia-smi --gpu-reset`, or reboot",
            severity="warn",
            reboot=False,
        )


def _narrow(told: list[Told]) -> Iterator[Finding]:
    """A GPU with fewer PCIe lanes than it has contacts for; their speed is lower whenever it rests."""
    lanes = {
        (one.gpu, one.field): _lanes(one.value) for one in told if one.field.endswith(("Width/Max", "Width/Current"))
    }
    found = [
        one
        for one in told
        if one.field.endswith("Link Width/Current")
        and 0 < _lanes(one.value) < lanes.get((one.gpu, f"{one.field.removesuffix('Current')}Max"), 0)
    ]
    if found:
        yield Finding(
            message=f"the GPU uses fewer PCIe lanes than it has: {_of(found)}",
            fix="a slot with more lanes (the board's manual says which share theirs), a riser or seat that fits; `sudo"
            " lspci -vv` shows the slot's own width",
            severity="info",
            reboot=False,
        )


def _lanes(value: str) -> int:
    number = value.removesuffix("x")
    return int(number) if number.isdecimal() else 0


def _of(found: list[Told]) -> str:
    """The first GPU and field, and how many more GPUs have it."""
    more = len({one.gpu for one in found}) - 1
    others = f" and {more} other GPU{'s' if more > 1 else ''}" if more else ""
    return f"{found[0]} (GPU {found[0].gpu}{others})" if found[0].gpu else str(found[0])


def told_by(text: str) -> Iterator[Told]:
    """The fields that the query prints, with their headings; a part of its output need not name its GPU."""
    gpu, above = "", list[tuple[int, str]]()
    for line in text.splitlines():
        if (head := _GPU.match(line)) is not None:
            gpu, above = head[1], []
            continue
        found = _FIELD.fullmatch(line)
        if found is None:
            continue
        depth = len(found[1])
        above = [one for one in above if one[0] < depth]
        if found[3] is None:
            above.append((depth, found[2]))
            continue
        yield Told(gpu=gpu, field="/".join([*(name for _, name in above), found[2]]), value=found[3].strip())
        above.append((depth, found[2]))
