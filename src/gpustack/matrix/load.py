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

Every row also has ``src`` (at least one source), and may have ``known`` and ``note``. Its short forms are expanded
by ``shorthand``, and what it lacks is filled by ``fills``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gpustack.errors import MatrixError
from gpustack.matrix import fields
from gpustack.matrix.fills import Fill, filled, fills
from gpustack.matrix.shorthand import SEEN, Shorthand, groups, written_out

SCHEMA = "gpustack/matrix/v1"
LARGEST = 8 << 20
"""The most bytes of a matrix file; our largest has a third of that."""
DEEPEST = 24
"""The deepest nesting; ours need seven levels."""
MOST_FAULTS = 20
"""The most faults of one file that are reported together."""
LONGEST = 400
"""The most characters of a fault: some quote what they found."""
COMMON = {"src": "list of word", "known": "word", "note": "text"}
KNOWN = ("tested", "stated", "reported")
"""How a row is known, the strongest first."""
_Read = TypeVar("_Read")
_SUBJECT = re.compile(r"[a-z0-9][a-z0-9-]*")
_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of a subject: its declared columns and its converted rows."""

    about: str
    key: tuple[str, ...]
    fields: dict[str, str]
    rows: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One matrix file, validated and converted."""

    name: str
    about: str
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)


def read_subject(
    path: Path, *, base_of: Callable[[str], Subject | None] | None = None, bounds: Mapping[str, str] | None = None
) -> Subject:
    """The subject in the file ``path``. ``base_of`` finds the subject whose columns and sources an overlay may use.

    ``bounds`` are the versions that ``@NAME`` stands for in a range. Raises MatrixError naming file, table, row, field.
    """
    where = str(path)
    document = _parse(path)
    if document.get("schema") != SCHEMA:
        raise _fault(where, f"schema is {document.get('schema')!r}, has to be {SCHEMA!r}")
    unknown = set(document) - {"schema", "subject", "about", "sources", "groups", "tables"}
    if unknown:
        raise _fault(where, f"unknown key {min(unknown)!r} at the top")
    name = document.get("subject")
    if not isinstance(name, str) or not _SUBJECT.fullmatch(name):
        raise _fault(where, "subject is missing: a word in small letters, digits and hyphens")
    base = base_of(name) if base_of else None
    sources = _sources(_mapping(document, "sources", where), where)
    known_sources = sources if base is None else {**base.sources, **sources}
    found = _mapping(document, "tables", where)
    short = _shorthand(document, found, bounds or {}, where)
    read = every(
        functools.partial(
            _table, raw, f"{where}: {table}", known_sources, base.tables.get(table) if base else None, short, found
        )
        for table, raw in found.items()
    )
    idle = set(short.groups) - short.used
    if idle:
        raise _fault(where, f"group {min(idle)!r} is named by no row")
    tables = dict(zip(found, read, strict=True))
    return Subject(name=name, about=_about(document, where), sources=sources, tables=tables)


def _shorthand(document: dict[str, Any], tables: dict[str, Any], bounds: Mapping[str, str], where: str) -> Shorthand:
    raw = tables.get(SEEN)
    rows = raw.get("rows") if isinstance(raw, dict) else None
    lists = [row.get("names") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    seen = {name for names in lists if isinstance(names, list) for name in names if isinstance(name, str)}
    try:
        return Shorthand(groups=groups(_mapping(document, "groups", where)), bounds=bounds, seen=frozenset(seen))
    except ValueError as exc:
        raise _fault(where, str(exc)) from exc


def _parse(path: Path) -> dict[str, Any]:
    try:
        document = parse_yaml(_text(path))
    except (OSError, UnicodeDecodeError) as exc:
        raise _fault(str(path), f"cannot be read: {exc}") from exc
    except (yaml.YAMLError, ValueError) as exc:
        said = " ".join(str(exc).split())
        if "nesting depth" in said:  # PyYAML's own limit, which it meets while it looks ahead
            said = f"nested deeper than {DEEPEST} levels"
        raise _fault(str(path), said or "is not YAML") from exc
    if not isinstance(document, dict):
        raise _fault(str(path), "is not a mapping with schema, subject, sources and tables")
    return document


def _text(path: Path) -> str:
    # A named pipe or a device would be read forever.
    if not path.is_file():
        raise _fault(str(path), "is not a file" if path.exists() else "does not exist")
    if path.stat().st_size > LARGEST:
        raise _fault(str(path), f"is larger than {LARGEST >> 20} MiB")
    return path.read_text(encoding="utf-8")


def parse_yaml(text: str) -> object:
    """One YAML document with every scalar as a string. Raises ValueError or yaml.YAMLError.

    Built from the parser's events: PyYAML's own composer keeps the last of two equal keys, expands an alias as often as
    it is used, and overflows the stack on deep nesting.
    """
    root: list[object] = []
    frames: list[_Frame] = [_Frame(root)]
    events: Iterator[Any] = yaml.parse(text, Loader=_Loader)
    for event in events:
        line = event.start_mark.line + 1
        _refuse(event, line)
        if isinstance(event, yaml.ScalarEvent):
            frames[-1].add(event.value, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            opened: list[object] | dict[str, object] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
            frames[-1].add(opened, line)
            frames.append(_Frame(opened))
        elif isinstance(event, yaml.CollectionEndEvent):
            frames.pop()
        if len(frames) > DEEPEST:
            msg = f"line {line}: nested deeper than {DEEPEST} levels"
            raise ValueError(msg)
    if len(root) > 1:
        msg = "holds more than one YAML document"
        raise ValueError(msg)
    return root[0] if root else None


def _refuse(event: object, line: int) -> None:
    tag = getattr(event, "tag", None)
    if isinstance(event, yaml.AliasEvent) or tag not in {None, "!"}:
        what = f"tags such as {tag}" if tag else "aliases"
        msg = f"line {line}: {what} are not read: write the value out"
        raise ValueError(msg)


class _Frame:
    """A list or mapping under construction."""

    __slots__ = ("content", "key")

    def __init__(self, content: list[object] | dict[str, object]) -> None:
        self.content = content
        self.key: str | None = None

    def add(self, value: object, line: int) -> None:
        """Add an item to a list, or the next key or value to a mapping."""
        if isinstance(self.content, list):
            self.content.append(value)
        elif self.key is not None:
            self.content[self.key] = value
            self.key = None
        elif not isinstance(value, str):
            msg = f"line {line}: a key has to be a word"
            raise ValueError(msg)
        elif value in self.content:
            msg = f"line {line}: key {value!r} occurs twice"
            raise ValueError(msg)
        else:
            self.key = value


def _fault(where: str, message: str) -> MatrixError:
    short = message if len(message) <= LONGEST else f"{message[:LONGEST]}..."
    return MatrixError(short, where=where, hint="`gpustack matrix check --matrices DIR` checks them")


def every(readers: Iterable[Callable[[], _Read]]) -> list[_Read]:
    """The result of every reader. Raises one MatrixError with the faults of all, not only of the first."""
    read: list[_Read] = []
    faults: list[MatrixError] = []
    for reader in readers:
        try:
            read.append(reader())
        except MatrixError as error:  # noqa: PERF203 (all are wanted, so each is tried)
            faults.append(error)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        first, *others = faults
        told = [f"{other.where}: {other.message}" for other in others[: MOST_FAULTS - 1]]
        untold = [f"and {len(others) - len(told)} more"] if len(others) > len(told) else []
        raise MatrixError("\n".join([first.message, *told, *untold]), where=first.where, hint=first.hint)
    return read


def _mapping(document: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    found = document.get(key) or {}
    if not isinstance(found, dict):
        raise _fault(where, f"{key} has to be a mapping of names")
    return found


def _about(document: dict[str, Any], where: str) -> str:
    about = document.get("about", "")
    if not isinstance(about, str):
        raise _fault(where, "about has to be a sentence")
    return about


def _sources(raw: dict[str, Any], where: str) -> dict[str, dict[str, str]]:
    for key, source in raw.items():
        if not isinstance(source, dict) or not isinstance(source.get("address"), str):
            raise _fault(where, f"source {key!r} has no address")
        if source.get("known") not in KNOWN:
            raise _fault(where, f"source {key!r}: known has to be one of {', '.join(KNOWN)}")
        unknown = set(source) - {"address", "known", "dated", "read", "makes", "note"}
        if unknown:
            raise _fault(where, f"source {key!r} has an unknown field {min(unknown)!r}")
        for name, value in source.items():
            if not isinstance(value, str):
                raise _fault(where, f"source {key!r}: {name} has to be a text")
    return raw


def _table(  # noqa: PLR0913, PLR0917 (the context in which a table is read)
    raw: object,
    where: str,
    sources: dict[str, dict[str, str]],
    base: Table | None,
    short: Shorthand,
    tables: dict[str, Any],
) -> Table:
    if not isinstance(raw, dict):
        raise _fault(where, "is not a mapping with about, key, fields and rows")
    unknown = set(raw) - {"about", "key", "fields", "filled", "readers", "rows"}
    if unknown:
        raise _fault(where, f"unknown key {min(unknown)!r}")
    columns = raw.get("fields") or (base.fields if base else None)
    key = raw.get("key") or (list(base.key) if base else None)
    rows = raw.get("rows")
    if not isinstance(columns, dict) or not isinstance(key, list) or not isinstance(rows, list):
        raise _fault(where, "key (a list), fields (a mapping) and rows (a list) are required")
    for name, kind in columns.items():
        if not isinstance(kind, str) or not fields.is_kind(kind):
            raise _fault(where, f"field {name!r} has the unknown kind {kind!r}")
        if base is not None and base.fields.get(name, kind) != kind:
            raise _fault(where, f"field {name!r} is of kind {base.fields[name]!r} in the built-in table, not {kind!r}")
    for name in key:
        if not isinstance(name, str) or name not in columns:
            raise _fault(where, f"key column {name!r} is not among the fields")
    _demand_readers(raw.get("readers", []), columns, where)
    kinds = {**columns, **COMMON}
    try:
        found = fills(raw, tables)
    except ValueError as exc:
        raise _fault(where, str(exc)) from exc
    converted = every(
        functools.partial(_rows, row, f"{where}: row {number}", kinds, key, sources, short, found)
        for number, row in enumerate(rows, 1)
    )
    rows = [row for found in converted for row in found]
    return Table(about=_about(raw, where), key=tuple(key), fields=dict(columns), rows=rows)


def _demand_readers(named: object, columns: Mapping[str, str], where: str) -> None:
    """Raise unless ``readers``, the columns that are for people and that no code reads, are columns of the table."""
    if named == "all":
        return
    if not isinstance(named, list):
        raise _fault(where, "readers has to be a list of columns, or all")
    for name in named:
        if name not in columns:
            raise _fault(where, f"column {name!r} of readers is not among the fields")


def _rows(  # noqa: PLR0913, PLR0917 (the context in which a row is read)
    row: object,
    where: str,
    kinds: dict[str, str],
    key: list[str],
    sources: dict[str, dict[str, str]],
    short: Shorthand,
    found: list[Fill],
) -> list[dict[str, Any]]:
    """The converted rows that one row of the file stands for."""
    if not isinstance(row, dict):
        raise _fault(where, "is not a mapping")
    label = " ".join(str(row.get(name, "")) for name in key).strip()
    where = f"{where} ({label})" if label else where
    try:
        full = written_out(_whole(row, found, kinds, sources), kinds, short)
    except ValueError as exc:
        raise _fault(where, str(exc)) from exc
    return [_row(one, where, kinds, sources) for one in full]


def _whole(
    row: dict[str, Any], found: list[Fill], kinds: dict[str, str], sources: dict[str, dict[str, str]]
) -> dict[str, Any]:
    """A row with what fills it. How it is known is a matter of its own sources."""
    full = filled(row, found, kinds)
    own = [sources[key]["known"] for key in row.get("src", ()) if key in sources] if full != row else []
    return {"known": min(own, key=KNOWN.index), **full} if own else full


def _row(row: dict[str, Any], where: str, kinds: dict[str, str], sources: dict[str, dict[str, str]]) -> dict[str, Any]:
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
