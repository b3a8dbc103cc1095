"""The document of a measurement: results, settings, and their text form."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field, structs

Cell = str | int | float | None


class Bench(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/bench/v1``: rows of measurements that share their columns.

    ``settings`` are the conditions of the measurement, ``units`` the unit of each column that has one; ``notes`` say
    what was skipped and why. ``layers`` are the times of a network's layers, if requested; ``changes`` compares with an
    earlier document. It contains no verdict.
    """

    schema: Literal["gpustack/bench/v1"] = "gpustack/bench/v1"
    subject: str
    settings: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    units: dict[str, str] = field(default_factory=dict)
    rows: tuple[dict[str, Cell], ...] = ()
    notes: tuple[str, ...] = ()
    layers: tuple[dict[str, Cell], ...] = ()
    changes: tuple[dict[str, Cell], ...] = ()


class Interrupted(KeyboardInterrupt):
    """A measurement was interrupted. ``bench`` has the rows that were finished, and a note that others are missing."""

    def __init__(self, bench: Bench, cause: KeyboardInterrupt) -> None:
        super().__init__(*cause.args)
        self.number: int = getattr(cause, "number", 2)  # 2: SIGINT, which Python itself reports
        self.bench = bench


def demand_whole(bench: Bench, stop: KeyboardInterrupt | None) -> Bench:
    """``bench``, if nothing has stopped its measurement. Raises Interrupted otherwise, with the finished rows."""
    if stop is None:
        return bench
    raise Interrupted(structs.replace(bench, notes=(*bench.notes, _INCOMPLETE)), stop) from stop


_INCOMPLETE = "interrupted: what was not finished by then is missing"


def as_text(bench: Bench) -> str:
    """A measurement as a text table."""
    heads = [f"{name} ({bench.units[name]})" if name in bench.units else name for name in bench.columns]
    lines = [f"{name}: {value}" for name, value in bench.settings.items()]
    lines += _table(heads, bench.columns, bench.rows)
    for rows in (bench.layers, bench.changes):
        lines += _table(list(rows[0]), tuple(rows[0]), rows) if rows else []
    lines += ["", *(f"note: {one}" for one in bench.notes)] if bench.notes else []
    return "\n".join(lines)


def _table(heads: list[str], columns: tuple[str, ...], rows: tuple[dict[str, Cell], ...]) -> list[str]:
    cells = [[_shown(row.get(name)) for name in columns] for row in rows]
    widths = [max(len(line[place]) for line in (heads, *cells)) for place in range(len(heads))]
    return ["", _line(heads, widths), *(_line(one, widths) for one in cells)] if rows else []


def _line(cells: list[str], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _shown(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return str(value)
