"""Facts of one's own, laid over the built-in ones: ``--matrices DIR``.

A row with the key of a built-in row replaces it; any other row is added. A table may leave out ``key`` and ``fields``
where the built-in one declares them, and may use the built-in sources besides its own.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from gpustack.errors import MatrixError
from gpustack.matrix import load
from gpustack.matrix.compile import compile_subject
from gpustack.matrix.store import Store, SubjectEntry


def lay_over(store: Store, folder: Path) -> Store:
    """``store`` with the matrix files of ``folder`` laid over it. Raises MatrixError with file, row and field."""
    if not folder.is_dir():
        raise MatrixError("is not a folder", where=str(folder), hint="--matrices takes a folder of .yaml files")  # noqa: EM101
    entries = dict(store.index.subjects)
    memory: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.yaml")):
        overlay = load.read_subject(path, base=_base_of(store, path))
        base = _as_subject(store, overlay.name)
        merged = _merge(base, overlay) if base else overlay
        memory[overlay.name] = compile_subject(merged)
        digest = hashlib.sha256((entries[overlay.name].digest if base else "").encode() + path.read_bytes())
        entries[overlay.name] = SubjectEntry(
            digest=digest.hexdigest(),
            stamp=(0, 0),
            tables={name: len(table.rows) for name, table in merged.tables.items()},
            about=merged.about,
        )
    return store.overlaid(entries, memory)


def _base_of(store: Store, path: Path) -> load.Subject | None:
    """The built-in subject that ``path`` extends: it is named inside the file, so that is looked at first."""
    for line in _lines(path):
        if line.startswith("subject:"):
            return _as_subject(store, line.partition(":")[2].split("#")[0].strip().strip("'\""))
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise MatrixError(f"cannot be read: {exc}", where=str(path)) from exc  # noqa: EM102


def _as_subject(store: Store, name: str) -> load.Subject | None:
    """The compiled subject in the form that the loader gives, its own sources unqualified again."""
    compiled = store.subject(name)
    if compiled is None:
        return None
    tables = {}
    for table, content in compiled.tables.items():
        rows: list[dict[str, Any]] = msgspec.msgpack.decode(content.rows)
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
    return load.Subject(
        name=base.name, about=base.about, sources={**base.sources, **overlay.sources}, tables=tables
    )


def _key(row: dict[str, Any], key: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(row.get(name, "")) for name in key)
