"""The user's facts, applied over the built-in ones: ``--matrices DIR``.

A row with the key of a built-in row replaces it; any other row is added. A table may omit ``key`` and ``fields`` if the
built-in one declares them, and may use the built-in sources as well as its own.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import msgspec

from gpustack.errors import MatrixError
from gpustack.matrix import load
from gpustack.matrix.compile import bounds_of, compile_subject
from gpustack.matrix.layout import BOUNDS, SubjectEntry
from gpustack.matrix.store import Store
from gpustack.matrix.typed import row_faults


def lay_over(store: Store, folder: Path) -> Store:
    """``store`` with the matrix files of ``folder`` applied. Raises MatrixError with file, row and field."""
    try:
        is_folder = folder.is_dir()
    except OSError as exc:
        raise MatrixError(str(exc.strerror or exc), where=str(folder), hint="give a shorter name") from exc
    if not is_folder:
        msg = "is not a folder"
        raise MatrixError(msg, where=str(folder), hint="--matrices requires a folder of .yaml files")
    for path in sorted(folder.glob("*.yaml")):
        store = _with_file(store, path)
    return store


def _with_file(store: Store, path: Path) -> Store:
    bounds = _as_subject(store, BOUNDS)
    known = bounds_of(bounds.tables[BOUNDS].rows) if bounds else {}
    overlay = load.read_subject(path, base_of=lambda name: _as_subject(store, name), bounds=known)
    if overlay.name == BOUNDS:
        msg = "the built-in rows are compiled with their own bounds, which an overlay cannot change"
        raise MatrixError(msg, where=str(path), hint="replace the rows that end at the bound instead")
    _demand_usable_rows(overlay, path)
    base = _as_subject(store, overlay.name)
    merged = _merge(base, overlay) if base else overlay
    entries = dict(store.index.subjects)
    below = entries.get(overlay.name)
    entries[overlay.name] = SubjectEntry(
        digest=hashlib.sha256((below.digest if below else "").encode() + path.read_bytes()).hexdigest(),
        stamp=(0, 0),
        tables={name: len(table.rows) for name, table in merged.tables.items()},
        about=merged.about,
        read=below.read if below else "",
    )
    return store.overlaid(entries, compile_subject(merged))


def _demand_usable_rows(overlay: load.Subject, path: Path) -> None:
    load.every(
        functools.partial(_demand_usable_row, row, f"{path}: {name}: row {number}", name, table.key)
        for name, table in overlay.tables.items()
        for number, row in enumerate(table.rows, 1)
    )


def _demand_usable_row(row: dict[str, Any], where: str, table: str, key: tuple[str, ...]) -> None:
    fault = next(row_faults(table, row), None)
    if fault is not None:
        label = " ".join(str(row.get(column, "")) for column in key).strip()
        raise MatrixError(fault, where=f"{where} ({label})", hint="correct the row")


def _as_subject(store: Store, name: str) -> load.Subject | None:
    """The compiled subject as the loader returns it, with short source keys."""
    compiled = store.head(name)
    if compiled is None:
        return None
    tables = {}
    for table, content in compiled.tables.items():
        rows: list[dict[str, Any]] = msgspec.msgpack.decode(store.rows(name, table) or b"\x90")
        for row in rows:
            row["src"] = [key.partition("/")[2] for key in row["src"]]
        tables[table] = load.Table(about=content.about, key=content.key, fields=content.fields, rows=rows)
    sources = msgspec.msgpack.decode(compiled.sources)
    return load.Subject(name=name, about=store.index.subjects[name].about, sources=sources, tables=tables)


def _merge(base: load.Subject, overlay: load.Subject) -> load.Subject:
    tables = dict(base.tables)
    for name, table in overlay.tables.items():
        below = tables.get(name)
        if below is None:
            tables[name] = table
            continue
        rows = {_key(row, below.key): row for row in below.rows}
        rows.update({_key(row, below.key): row for row in table.rows})
        tables[name] = load.Table(
            about=below.about, key=below.key, fields={**below.fields, **table.fields}, rows=list(rows.values())
        )
    return load.Subject(name=base.name, about=base.about, sources={**base.sources, **overlay.sources}, tables=tables)


def _key(row: dict[str, Any], key: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(row.get(name, "")) for name in key)
