"""The typed tables, and what makes one of their rows valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gpustack.model.facts import COMPONENTS, PROPERTIES, Archive, Availability, PackageSet, Release, Rule
from gpustack.model.frameworks import Build, WheelFile
from gpustack.model.places import ConflictRow, GpuProduct, ImageRow, Repository, SigningKey, System
from gpustack.versions import version, version_range

TYPED: dict[str, type] = {
    "rules": Rule,
    "releases": Release,
    "availability": Availability,
    "packages": PackageSet,
    "archives": Archive,
    "systems": System,
    "base_images": ImageRow,
    "repositories": Repository,
    "keys": SigningKey,
    "products": GpuProduct,
    "conflicts": ConflictRow,
    "framework_builds": Build,
    "framework_files": WheelFile,
}
"""The type of the rows of these tables, in any file."""


def row_faults(table: str, row: dict[str, Any]) -> Iterator[str]:
    """The faults of one row of a table, as ``field 'x': ...`` if a field is to blame."""
    kind = TYPED.get(table)
    if kind is None:
        return
    try:
        typed: object = msgspec.convert(row, kind, strict=False)
    except msgspec.ValidationError as exc:
        yield str(exc)
        return
    if isinstance(typed, Rule):
        yield from rule_faults(typed)
    elif isinstance(typed, (Release, Archive)):
        yield from _version_faults("version", typed.version)
    elif isinstance(typed, Availability):
        yield from range_faults("versions", typed.versions)
    elif isinstance(typed, PackageSet):
        yield from range_faults("versions", typed.versions)
        yield from range_faults("with_cuda", typed.with_cuda)


def rule_faults(rule: Rule) -> Iterator[str]:
    """The faults in the shape of a rule."""
    given = [name for name in ("any", "none", "equal") if getattr(rule, name)]
    if len(given) != 1:
        yield f"exactly one of any, none and equal is required, not {given or 'none of them'}"
    component = component_of(rule)
    if not component:
        yield f"field 'of': {rule.of!r} does not begin with a component"
    if not rule.equal and rule.needs not in {*COMPONENTS, *PROPERTIES}:
        yield f"field 'needs': {rule.needs!r} is neither a component nor a property of a host"
    for name in rule.equal:
        if name not in COMPONENTS:
            yield f"field 'equal': {name!r} is not a component"
    if rule.strength == "only-if" and rule.when == type(rule.when)():
        yield "field 'when': only-if without a condition"
    yield from range_faults("of", rule.of[len(component) :])
    yield from range_faults("when", rule.when.compute_capability)
    yield from range_faults("when", rule.when.glibc)
    for text in (*rule.any, *rule.none):
        yield from range_faults("any" if rule.any else "none", text)


def component_of(rule: Rule) -> str:
    """The component that a rule is about, "" where it names none."""
    return next((name for name in sorted(COMPONENTS, key=len, reverse=True) if rule.of.startswith(name)), "")


def range_faults(field: str, text: str) -> Iterator[str]:
    """The faults of a range: its syntax, or that it can contain no version."""
    try:
        wanted = version_range(text)
    except ValueError as exc:
        yield f"field {field!r}: {exc}"
        return
    for clauses in wanted.alternatives:
        low = [clause.version for clause in clauses if clause.operator in {">=", ">"}]
        high = [clause.version for clause in clauses if clause.operator in {"<=", "<"}]
        if low and high and max(low) > min(high):
            yield f"field {field!r}: the window {text} is empty"


def _version_faults(field: str, text: str) -> Iterator[str]:
    try:
        version(text)
    except ValueError as exc:
        yield f"field {field!r}: {exc}"
