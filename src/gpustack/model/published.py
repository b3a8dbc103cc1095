"""The facts as other programs read them: the document ``gpustack/facts/v1``."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from gpustack.model.facts import Source


class PublishedTable(Struct, frozen=True, kw_only=True):
    """One table. ``key`` names the columns that identify a row, ``fields`` the kind of each column.

    A row has only the columns that are known, ``src`` (keys of the document's ``sources``) and ``known``.
    """

    about: str
    key: tuple[str, ...]
    fields: dict[str, str]
    rows: tuple[dict[str, Any], ...]


class PublishedFacts(Struct, frozen=True, kw_only=True):
    """Tables by their names ("cuda.releases"), and the sources of their rows.

    ``date`` is when the facts were true (a day, or the time of publication in UTC), ``digest`` the sha256 of all facts,
    also those that are not in this document.
    """

    schema: Literal["gpustack/facts/v1"] = "gpustack/facts/v1"
    date: str
    digest: str
    sources: dict[str, Source] = field(default_factory=dict)
    tables: dict[str, PublishedTable] = field(default_factory=dict)
