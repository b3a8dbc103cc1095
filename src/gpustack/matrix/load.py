"""Matrix files (YAML) to checked subjects. The only importer of yaml.

A file looks like this; every scalar is read as a string and converted by the column's declared kind, because YAML's
own guesses read 12.10 as 12.1 and no as False::

    schema: gpustack/matrix/v1
    subject: cuda
    about: one sentence
    sources:
      guide: {address: https://docs.nvidia.com/..., known: stated, read: 2026-11-21}
    tables:
      releases:
        about: one sentence
        key: [version]
        fields: {version: version, date: date}
        rows:
          - {version: 13.0.2, date: 2025-10-09, src: [guide]}

Every row also has ``src`` (at least one source), and may have ``known`` and ``note``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpustack.errors import MatrixError
from gpustack.matrix import fields

SCHEMA = "gpustack/matrix/v1"
COMMON = {"src": "list of word", "known": "word", "note": "text"}
KNOWN = ("tested", "stated", "reported")
"""How a row is known, the strongest first."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of a subject: its declared columns and its converted rows."""

    about: str
    key: tuple[str, ...]
    fields: dict[str, str]
    rows: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One matrix file, checked and converted."""

    name: str
    about: str
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]  # typed stub lacks the C loaders
    """Every scalar a string; a key given twice is an error, where PyYAML would keep the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 (yaml's own)
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                msg = f"key {key_node.value!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, msg, key_node.start_mark)
            if isinstance(key_node.value, str):
                seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)  # type: ignore[no-any-return]


def read_subject(path: Path, *, base: Subject | None = None) -> Subject:
    """The subject in the file ``path``. ``base`` lends its columns and sources to an overlay.

    Raises MatrixError naming file, table, row and field.
    """
    document = _parse(path)
    where = str(path)
    if document.get("schema") != SCHEMA:
        raise _fault(where, f"schema is {document.get('schema')!r}, has to be {SCHEMA!r}")
    unknown = set(document) - {"schema", "subject", "about", "sources", "tables"}
    if unknown:
        raise _fault(where, f"unknown key {sorted(map(str, unknown))[0]!r} at the top")
    name = document.get("subject")
    if not isinstance(name, str) or not name:
        raise _fault(where, "subject is missing")
    sources = _sources(document.get("sources") or {}, where)
    known_sources = sources if base is None else {**base.sources, **sources}
    raw_tables = document.get("tables") or {}
    if not isinstance(raw_tables, dict):
        raise _fault(where, "tables has to be a mapping of table names")
    tables = {
        table: _table(raw, f"{where}: {table}", known_sources, base.tables.get(table) if base else None)
        for table, raw in raw_tables.items()
    }
    return Subject(name=name, about=str(document.get("about", "")), sources=sources, tables=tables)


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 (a BaseLoader: strings, lists and mappings only)
    except (OSError, UnicodeDecodeError) as exc:
        raise _fault(str(path), f"cannot be read: {exc}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise _fault(str(path), " ".join(str(exc).split()) or "is not YAML") from exc
    if not isinstance(document, dict):
        raise _fault(str(path), "is not a mapping with schema, subject, sources and tables")
    return document


def _fault(where: str, message: str) -> MatrixError:
    return MatrixError(message, where=where, hint="`gpustack matrix check --matrices DIR` lists every fault")


def _sources(raw: object, where: str) -> dict[str, dict[str, str]]:
    if not isinstance(raw, dict):
        raise _fault(where, "sources has to be a mapping")
    for key, source in raw.items():
        if not isinstance(source, dict) or not isinstance(source.get("address"), str):
            raise _fault(where, f"source {key!r} has no address")
        if source.get("known") not in KNOWN:
            raise _fault(where, f"source {key!r}: known has to be one of {', '.join(KNOWN)}")
        unknown = set(source) - {"address", "known", "dated", "read", "note"}
        if unknown:
            raise _fault(where, f"source {key!r} has an unknown field {sorted(unknown)[0]!r}")
    return raw


def _table(raw: object, where: str, sources: dict[str, dict[str, str]], base: Table | None) -> Table:
    if not isinstance(raw, dict):
        raise _fault(where, "is not a mapping with about, key, fields and rows")
    unknown = set(raw) - {"about", "key", "fields", "rows"}
    if unknown:
        raise _fault(where, f"unknown key {sorted(unknown)[0]!r}")
    columns = raw.get("fields") or (base.fields if base else None)
    key = raw.get("key") or (list(base.key) if base else None)
    rows = raw.get("rows")
    if not isinstance(columns, dict) or not isinstance(key, list) or not isinstance(rows, list):
        raise _fault(where, "key (a list), fields (a mapping) and rows (a list) have to be given")
    for name, kind in columns.items():
        if not isinstance(kind, str) or not fields.is_kind(kind):
            raise _fault(where, f"field {name!r} has the unknown kind {kind!r}")
    kinds = {**columns, **COMMON}
    converted = [_row(row, f"{where}: row {number}", kinds, key, sources) for number, row in enumerate(rows, 1)]
    return Table(about=str(raw.get("about", "")), key=tuple(key), fields=dict(columns), rows=converted)


def _row(
    row: object, where: str, kinds: dict[str, str], key: list[str], sources: dict[str, dict[str, str]]
) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise _fault(where, "is not a mapping")
    label = " ".join(str(row.get(name, "")) for name in key).strip()
    where = f"{where} ({label})" if label else where
    converted: dict[str, Any] = {}
    for name, value in row.items():
        kind = kinds.get(name)
        if kind is None:
            raise _fault(where, f"field {name!r} is not declared in the table's fields")
        try:
            converted[name] = fields.convert(kind, value)
        except (ValueError, TypeError) as exc:
            raise _fault(where, f"field {name!r}: {exc}") from exc
    if not converted.get("src"):
        raise _fault(where, "field 'src' is missing: every row says where it comes from")
    for source in converted["src"]:
        if source not in sources:
            raise _fault(where, f"field 'src': {source!r} is not among the sources")
    converted.setdefault("known", min((sources[s]["known"] for s in converted["src"]), key=KNOWN.index))
    if converted["known"] not in KNOWN:
        raise _fault(where, f"field 'known' has to be one of {', '.join(KNOWN)}")
    return converted
