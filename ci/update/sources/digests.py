"""Digests of wheels: what was read inside one (``ci/frameworks/digest.py``), as a body below its project's page."""

from __future__ import annotations

import re

from update.form import json_of, keys, listing, mapping
from update.record import Body, Row, refuse

_ADDRESS = re.compile(r".*/[a-z0-9-]+/([^/]+\.whl)")
_PARTS = ("requires", "members", "texts", "libs")


def digest_of(body: Body) -> tuple[str, Row]:
    """The file name of a wheel, and what was read in it: requirements, names of libraries, texts, counts."""
    known = _ADDRESS.fullmatch(body.address)
    if known is None:
        raise refuse(body.address, "is neither a page of the index nor the digest of a wheel")
    read = json_of(body)
    keys(read, _PARTS, body.address, needed=("requires",))
    lists = [*listing(read["requires"], body.address), *listing(read.get("libs", []), body.address)]
    texts = mapping(read.get("texts", {}), body.address).values()
    if not all(isinstance(one, str) for one in (*lists, *texts)):
        raise refuse(body.address, "has a value that is no text")
    for member in mapping(read.get("members", {}), body.address).values():
        _demand_counts(mapping(member, body.address), body.address)
    return known[1], read


def _demand_counts(member: Row, where: str) -> None:
    """Raise unless this is what was counted in a library: its flags, or its fat binaries."""
    keys(member, ("flags", "containers", "n"), where)
    counted = mapping(member.get("n", {}), where)
    counts = [member.get("containers", 0), *counted.values()]
    if not all(re.fullmatch(r"(sass|ptx)_\d{2,3}", word) for word in counted) or not all(map(_is_count, counts)):
        raise refuse(where, "has counts that are none")
    if not all(isinstance(one, str) for one in listing(member.get("flags", []), where)):
        raise refuse(where, "has flags that are no texts")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 20
