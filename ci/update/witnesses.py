"""Which sources name a release: two have to, before its files are used."""

from __future__ import annotations

from gpustack.model.facts import SEEN
from update.record import Found, Given
from update.tables import Facts

_RELEASES_OF = {"cuda-redist": "cuda", "cudnn-archives": "cudnn"}
_OWN = frozenset({"repository_evidence", "pip_versions", "wheels"})
"""Tables of a component's own file whose rows are about its releases."""


class Witnesses:
    """Which sources name a release: the facts themselves, and the sources of this run."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._by: dict[tuple[str, str], set[str]] = {}

    def add(self, source: str, given: Given) -> None:
        for found in given.rows:
            if place := release_of(found):
                self._by.setdefault(place, set()).add(source)

    def confirm(self, component: str, release: str, source: str) -> bool:
        """Whether the facts, or another source than this one, know the release."""
        others = self._by.get((component, release), set()) - {source}
        return bool(others) or release in known_releases(self._facts, component, judged=True)


def release_of(found: Found) -> tuple[str, str] | None:
    """The component and the release that a row is about; None for rows about none."""
    if found.table == "releases":
        return found.subject, found.row["version"]
    component = found.row.get("component") or _RELEASES_OF.get(found.subject)
    component = found.subject if found.table in _OWN else component
    if found.subject == "security" or "version" not in found.row or component is None:
        return None
    return component, found.row["version"]


def known_releases(facts: Facts, component: str, *, judged: bool = False) -> set[str]:
    """Every release that the facts have a row for; with ``judged`` without those that were only seen."""
    rows = facts.rows(component, "releases") if component in facts.subjects else []
    return {row["version"] for row in rows if not judged or row.get("status") != SEEN}
