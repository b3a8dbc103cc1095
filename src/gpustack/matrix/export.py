"""The facts as one plain document for other programs."""

from __future__ import annotations

from typing import Any

from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.published import PublishedFacts, PublishedTable


def published(facts: Matrix, what: str | None) -> PublishedFacts:
    """All facts, those of a subject ("cuda") or of a table ("cuda.releases"). Raises UsageError for any other."""
    subject, _, table = (what or "").partition(".")
    wanted = [
        (one, name)
        for one in facts.subjects
        for name in facts.tables(one)
        if subject in {"", one} and table in {"", name}
    ]
    if not wanted:
        msg = f"{what!r} is not a subject or a table of the facts"
        raise UsageError(msg, code="unknown-subject", hint="`gpustack matrix list` names them")
    tables = {f"{one}.{name}": _table(facts, one, name) for one, name in wanted}
    keys = sorted({key for one in tables.values() for row in one.rows for key in row["src"]})
    sources = {key: facts.sources(key.partition("/")[0])[key.partition("/")[2]] for key in keys}
    return PublishedFacts(date=facts.date, digest=facts.digest, sources=sources, tables=tables)


def _table(facts: Matrix, subject: str, name: str) -> PublishedTable:
    about, key, fields = facts.table_head(subject, name)
    rows: tuple[dict[str, Any], ...] = facts.rows(subject, name, dict)
    return PublishedTable(about=about, key=key, fields=fields, rows=rows)
