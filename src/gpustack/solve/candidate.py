"""One version that a component could have."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.facts import Release


class Candidate(Struct, frozen=True, kw_only=True):
    """One version that a component could have. ``is_known`` is False for a version that no fact covers."""

    component: str
    version: str
    release: Release | None = None
    is_installed: bool = False
    is_known: bool = True
