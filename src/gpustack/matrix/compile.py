"""From checked subjects to their compiled form. Imported only when something has to be compiled (it reads YAML)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gpustack.errors import MatrixError
from gpustack.matrix import load
from gpustack.matrix.expressions import words_of
from gpustack.matrix.layout import (
    BINDING,
    BOUNDS,
    FORMAT,
    GENERATED,
    PARTED,
    Index,
    SubjectEntry,
    SubjectHead,
    TableHead,
    matrix_files,
    part_name,
)
from gpustack.model.facts import COMPONENTS, MIRRORED, subject_of
from gpustack.versions import version, version_key, version_range

EXPRESSION, WORDS = "like", "words"


def compile_folder(
    folder: Path, stamps: dict[str, tuple[int, int]], old: tuple[Path, Index | None] | None = None
) -> tuple[Index, dict[str, bytes]]:
    """The index and the compiled subjects of ``folder``; subjects whose stamp is unchanged are taken from ``old``."""
    entries: dict[str, SubjectEntry] = {}
    blobs: dict[str, bytes] = {}
    files = matrix_files(folder)
    bounds = read_bounds(files)
    if old is not None and old[1] is not None and not _same(old[1].subjects.get(BOUNDS), stamps.get(BOUNDS)):
        old = None  # every file may name a bound
    for name, stamp in sorted(stamps.items()):
        kept = _kept(name, stamp, old)
        if kept is not None:
            entries[name] = kept[0]
            blobs.update(kept[1])
            continue
        path = files[name]
        subject = load.read_subject(path, bounds=bounds)
        if subject.name != name:
            msg = f"subject is {subject.name!r}, the file's name says {name!r}"
            raise MatrixError(msg, where=str(path))
        blobs.update(compile_subject(subject))
        entries[name] = SubjectEntry(
            digest=hashlib.sha256(path.read_bytes()).hexdigest(),
            stamp=stamp,
            tables={table: len(content.rows) for table, content in subject.tables.items()},
            about=subject.about,
            read=max((source.get("read", "") for source in subject.sources.values()), default=""),
            is_generated=path.parent.name == GENERATED,
        )
    blobs.update(parts_of(entries, blobs.__getitem__))
    return Index(format=FORMAT, subjects=entries), blobs


def read_bounds(files: dict[str, Path]) -> dict[str, str]:
    """The bounds that ranges may name, by name; {} if the folder has no file for them."""
    if BOUNDS not in files:
        return {}
    return bounds_of(load.read_subject(files[BOUNDS]).tables[BOUNDS].rows)


def bounds_of(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The rows of the bounds table, by name."""
    return {row["name"]: row["version"] for row in rows}


def _same(entry: SubjectEntry | None, stamp: tuple[int, int] | None) -> bool:
    return (entry.stamp if entry is not None else None) == stamp


def parts_of(entries: dict[str, SubjectEntry], blob: Callable[[str], bytes]) -> dict[str, bytes]:
    """The tables of PARTED, merged over all subjects and split by component; releases newest first.

    ``blob`` gives the compiled table of a name ("cuda.releases").
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for subject, entry in sorted(entries.items()):
        for table in PARTED:
            if table in entry.tables:
                for row in msgspec.msgpack.decode(blob(f"{subject}.{table}")):
                    rows.setdefault(part_name(table, _about(table, row, subject)), []).append(row)
    for name, found in rows.items():
        if name.startswith(part_name("releases", "")):
            found.sort(key=lambda row: version_key(row["version"]), reverse=True)
    binding = {part_name(BINDING, name): _binding(rows, name) for name in COMPONENTS}
    return {name: msgspec.msgpack.encode(found) for name, found in {**rows, **binding}.items()}


def _binding(rows: dict[str, list[dict[str, Any]]], component: str) -> dict[str, list[int]]:
    """The places of the rules that bind each release of a component, so that queries read no range."""
    rules = rows.get(part_name("rules", component), [])
    subjects = [version_range(rule["of"].removeprefix(component).strip()) for rule in rules]
    releases = rows.get(part_name("releases", MIRRORED.get(component, component)), [])
    return {
        text: [place for place, subject in enumerate(subjects) if version(text) in subject]
        for text in dict.fromkeys(row["version"] for row in releases)
    }


def _about(table: str, row: dict[str, Any], subject: str) -> str:
    """The component that a row is about."""
    if table == "rules":
        return subject_of(row["of"])
    return subject if table == "releases" else str(row["component"])


def compile_subject(subject: load.Subject) -> dict[str, bytes]:
    """One subject as msgpack, by file name: its head, and the rows of each table.

    Source keys become global: ``guide`` of subject cuda is ``cuda/guide``. A table with the columns ``like`` and
    ``words`` gets the latter here: what its expressions demand of a line.
    """
    heads = {
        name: TableHead(about=table.about, key=table.key, fields=table.fields) for name, table in subject.tables.items()
    }
    sources = msgspec.Raw(msgspec.msgpack.encode(subject.sources))
    blobs = {subject.name: msgspec.msgpack.encode(SubjectHead(name=subject.name, sources=sources, tables=heads))}
    for name, table in subject.tables.items():
        rows = [{**row, "src": [f"{subject.name}/{key}" for key in row["src"]]} for row in table.rows]
        if EXPRESSION in table.fields and WORDS in table.fields:
            rows = [{**row, WORDS: words_of(row[EXPRESSION])} for row in rows]
        blobs[f"{subject.name}.{name}"] = msgspec.msgpack.encode(rows)
    return blobs


def _kept(
    name: str, stamp: tuple[int, int], old: tuple[Path, Index | None] | None
) -> tuple[SubjectEntry, dict[str, bytes]] | None:
    """The compiled files of an unchanged subject; None if it has changed, or if one of them is missing."""
    if old is None or old[1] is None:
        return None
    entry = old[1].subjects.get(name)
    if entry is None or entry.stamp != stamp:
        return None
    try:
        files = [name, *(f"{name}.{table}" for table in entry.tables)]
        return entry, {file: (old[0] / f"{file}.msgpack").read_bytes() for file in files}
    except OSError:
        return None
