"""Compares two documents of a measurement, row by row."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpustack.errors import UsageError
from gpustack.verify.frame.bench_table import Bench, Cell

_OPTION = "--compare"
_KEYS = ("batch", "streams", "precision", "cuda_graph")
_FIGURES = (
    "build_s",
    "engine_bytes",
    "host_median_ms",
    "host_p99_ms",
    "gpu_compute_ms",
    "h2d_ms",
    "d2h_ms",
    "runs_per_s",
)


def read_bench(path: Path, subject: str) -> Bench:
    """The earlier document. Raises UsageError where it is none, or of another subject."""
    hint = f"give what `gpustack bench {subject} --format json` printed"
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Bench)
    except OSError as exc:
        msg = f"{path} cannot be read: {exc.strerror or exc}"
        raise UsageError(msg, code="invalid-value", where=_OPTION, hint=hint) from exc
    except msgspec.DecodeError as exc:
        msg = f"{path} is not a document of bench: {exc}"
        raise UsageError(msg, code="invalid-value", where=_OPTION, hint=hint) from exc
    if found.subject != subject:
        msg = f"{path} is a measurement of {found.subject}, not of {subject}"
        raise UsageError(msg, code="invalid-value", where=_OPTION, hint=hint)
    return found


def compare(old: Bench, new: Bench) -> Bench:
    """``new`` with the change of each figure in percent, and with notes on conditions that differ."""
    before = {_key(row): row for row in old.rows}
    changes = tuple(_change(before[_key(row)], row) for row in new.rows if _key(row) in before)
    notes = [
        f"{name} differs: {old.settings.get(name, 'not told')} before, {new.settings.get(name, 'not told')} now"
        for name in dict.fromkeys((*old.settings, *new.settings))
        if old.settings.get(name) != new.settings.get(name)
    ]
    there = {_key(row) for row in new.rows}
    missing = sum(key not in there for key in before)
    notes += [f"{missing} rows of the earlier measurement have none to compare with"] if missing else []
    notes += [] if changes else ["no row has its like in the earlier measurement"]
    return msgspec.structs.replace(new, changes=changes, notes=(*new.notes, *notes))


def _key(row: dict[str, Cell]) -> tuple[Cell, ...]:
    """What tells rows apart; documents from before CUDA graphs were measured are without them."""
    return tuple(row.get(name, "off" if name == "cuda_graph" else None) for name in _KEYS)


def _change(old: dict[str, Cell], new: dict[str, Cell]) -> dict[str, Cell]:
    named: dict[str, Cell] = {name: new[name] for name in _KEYS if name in new}
    for name in _FIGURES:
        was, now = old.get(name), new.get(name)
        if isinstance(was, (int, float)) and isinstance(now, (int, float)) and was:
            named[f"{name} change"] = f"{100 * (now - was) / was:+.1f} %"
        else:
            named[f"{name} change"] = None
    return named
