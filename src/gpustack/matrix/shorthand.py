"""The short forms of a matrix file, expanded before a row is checked: groups, bounds, rows for release lines.

* ``groups: {ubuntu: [ubuntu2204, ubuntu2404]}`` in the head of a file; ``"@ubuntu"`` in a list stands for its members.
* ``@NAME`` in a range stands for a row of ``bounds.yaml``: the last known version, in one place.
* ``each: ["@lines"]`` repeats a row for each of these release lines within its ``versions``, with ``versions``
  narrowed to the line and ``{line}`` (13.4) and ``{line-dashed}`` (13-4) filled in. If a package name formed so
  is in no row of the file's table ``seen_names``, the
  row is marked as ``composed``, a column that the table must declare.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpustack.versions import version, version_range

EACH = "each"
SEEN = "seen_names"
"""The table of a file with the package names that somebody has seen, in its column ``names``."""
MOST = 200_000
"""The most items that the short forms of one file may stand for; ours need a tenth. Hostile files have no end."""
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_BOUND = re.compile(r"@([a-z0-9-]+)")


@dataclass
class Shorthand:
    """The short forms of one file; ``used`` collects the groups that its rows name."""

    groups: Mapping[str, list[str]] = field(default_factory=dict)
    bounds: Mapping[str, str] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)
    items: int = 0

    def members(self, item: str) -> list[str]:
        """The items that one item of a list stands for: the members of ``@group``, else itself. Raises ValueError."""
        if not item.startswith("@"):
            return [item]
        if item[1:] not in self.groups:
            msg = f"there is no group {item[1:]!r} in the head of the file"
            raise ValueError(msg)
        self.used.add(item[1:])
        self.spend(len(self.groups[item[1:]]))
        return self.groups[item[1:]]

    def spend(self, items: int) -> None:
        """Count ``items`` of a short form. Raises ValueError if a file exceeds MOST."""
        self.items += items
        if self.items > MOST:
            msg = f"the short forms of this file stand for more than {MOST} items"
            raise ValueError(msg)

    def range(self, text: str) -> str:
        """A range, or the ``of`` of a rule, with every ``@bound`` filled in. Raises ValueError."""
        missing = [name for name in _BOUND.findall(text) if name not in self.bounds]
        if missing:
            msg = f"there is no bound {missing[0]!r} in bounds.yaml"
            raise ValueError(msg)
        return _BOUND.sub(lambda match: self.bounds[match.group(1)], text)


def groups(raw: Mapping[str, object]) -> dict[str, list[str]]:
    """The groups in the head of a file. Raises ValueError naming the group."""
    found: dict[str, list[str]] = {}
    for name, members in raw.items():
        if not _NAME.fullmatch(name):
            msg = f"group {name!r}: a name has small letters, digits and hyphens"
            raise ValueError(msg)
        if not isinstance(members, list) or not members or not all(isinstance(one, str) for one in members):
            msg = f"group {name!r} has to be a list of words"
            raise ValueError(msg)
        if any(one.startswith("@") for one in members):
            msg = f"group {name!r} names another group; a row can name several"
            raise ValueError(msg)
        found[name] = members
    return found


def written_out(row: Mapping[str, Any], kinds: Mapping[str, str], short: Shorthand) -> list[dict[str, Any]]:
    """The rows that ``row`` stands for; itself without a short form. Raises ValueError naming the field."""
    full = {name: _filled(name, value, kinds.get(name, ""), short) for name, value in row.items()}
    lines = full.pop(EACH, None)
    if lines is None:
        return [full]
    if not isinstance(full.get("versions"), str) or not isinstance(lines, list):
        msg = f"field {EACH!r}: the row needs a list here, and a range in its field 'versions'"
        raise ValueError(msg)  # noqa: TRY004 (a fault of the file like the others)
    try:
        wanted = version_range(full["versions"])
        within = [line for line in lines if version(line) in wanted]
    except (ValueError, TypeError) as exc:
        msg = f"field {EACH!r}: {exc}"
        raise ValueError(msg) from exc
    if not within:
        msg = f"field {EACH!r}: none of the lines is within {full['versions']!r}"
        raise ValueError(msg)
    short.spend(len(within) * sum(len(value) if isinstance(value, list) else 1 for value in full.values()))
    return [_for_line(full, line, short) for line in within]


def _filled(name: str, value: object, kind: str, short: Shorthand) -> object:
    try:
        if isinstance(value, list) and (kind.startswith("list of ") or name == EACH):
            items = [one for item in value for one in (short.members(item) if _is_group(item, kind) else [item])]
            return [short.range(item) if isinstance(item, str) and kind == "list of range" else item for item in items]
        if isinstance(value, str) and (kind == "range" or name == "of"):
            return short.range(value)
    except ValueError as exc:
        msg = f"field {name!r}: {exc}"
        raise ValueError(msg) from exc
    return value


def _is_group(item: object, kind: str) -> bool:
    return isinstance(item, str) and kind != "list of range"


def _for_line(row: Mapping[str, Any], line: str, short: Shorthand) -> dict[str, Any]:
    names = {"{line}": line, "{line-dashed}": line.replace(".", "-")}
    found: dict[str, Any] = {name: _with_names(value, names) for name, value in row.items()}
    found["versions"] = f"=={line}.*"
    formed = [name for name in found.get("packages", []) if name not in row["packages"]]
    if any(name not in short.seen for name in formed):
        found["composed"] = "true"
    return found


def _with_names(value: object, names: Mapping[str, str]) -> object:
    if isinstance(value, list):
        return [_with_names(item, names) for item in value]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(name, text)
    return value
