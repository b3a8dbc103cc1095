"""Facts to read: all about one version, one table, one source."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.versions import is_within, version, version_range


def everything_about(facts: Matrix, component: str, range_text: str) -> list[dict[str, Any]]:
    """Every row about these versions of a component: its own rows, its rules, and the rules that require it."""
    pinned = [row.version for row in facts.releases(component) if not range_text or is_within(row.version, range_text)]
    if not pinned and range_text.startswith("=="):  # 8.9.6 stands for the line 8.9.6.x, as it does in `check`
        pinned = [row.version for row in facts.releases(component) if row.version.startswith(f"{range_text[2:]}.")]
    found = []
    for subject in facts.subjects:
        for table in facts.tables(subject):
            for row in facts.rows(subject, table, dict):
                if _speaks_of(row, subject, component, pinned):
                    found.append({"in": f"{subject}.{table}", **row})  # noqa: PERF401 (three loops)
    if not found:
        msg = f"nothing is known of {component}{range_text}"
        raise UsageError(msg, code="unknown-version", hint=f"`gpustack matrix show {component}` shows what is known")
    return found


def _speaks_of(row: dict[str, Any], subject: str, component: str, versions: list[str]) -> bool:
    of = row.get("of")
    if isinstance(of, str):
        return _rule_speaks_of(row, of, component, versions)
    about = row.get("component", subject)
    if about != component and not subject.startswith(f"{component}-"):
        return component in row and str(row[component]) in versions
    if "version" in row:
        return str(row["version"]) in versions
    return isinstance(row.get("versions"), str) and about == component and _any_within(versions, row["versions"])


def _rule_speaks_of(row: dict[str, Any], of: str, component: str, versions: list[str]) -> bool:
    if of.startswith(component) and not re.match(r"[a-z-]", of[len(component) :]):
        return _any_within(versions, of[len(component) :])
    if row.get("needs") == component:
        return any(_any_within(versions, text) for text in row.get("any", row.get("none", [])))
    return component in row.get("equal", []) and bool(versions)


def _any_within(versions: list[str], range_text: str) -> bool:
    try:
        wanted = version_range(range_text)
    except ValueError:
        return False
    return any(version(text) in wanted for text in versions)


def rows_of(facts: Matrix, subject: str, table: str) -> list[dict[str, Any]]:
    """The rows of one table, or of all tables of a subject. Raises UsageError for an unknown table."""
    tables = facts.tables(subject)
    if table and table not in tables:
        msg = f"{subject} has no table {table!r}"
        raise UsageError(msg, code="unknown-table", hint=f"its tables: {', '.join(tables)}")
    names = [table] if table else list(tables)
    return [{"in": f"{subject}.{name}", **row} for name in names for row in facts.rows(subject, name, dict)]


def source_named(facts: Matrix, key: str) -> dict[str, Any]:
    """A source by its global key ("cuda/guide_13_4"). Raises UsageError."""
    subject, _, short = key.partition("/")
    source = facts.sources(subject).get(short)
    if source is None:
        msg = f"there is no source {key!r}"
        raise UsageError(msg, code="unknown-source", hint=f"`gpustack matrix sources {subject}` lists them")
    return {"in": key, **msgspec.to_builtins(source)}
