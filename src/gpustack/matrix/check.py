"""The invariants of the facts. Every fault is one line: file, table, row, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gpustack.errors import MatrixError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.facts import COMPONENTS, PROPERTIES, Archive, Availability, PackageSet, Release, Rule, Source
from gpustack.model.places import ConflictRow, GpuProduct, Repository, SigningKey, System
from gpustack.versions import version, version_range

TYPED: dict[str, type] = {
    "rules": Rule,
    "releases": Release,
    "availability": Availability,
    "packages": PackageSet,
    "archives": Archive,
    "systems": System,
    "repositories": Repository,
    "keys": SigningKey,
    "products": GpuProduct,
    "conflicts": ConflictRow,
}
"""Tables that the program decides by, wherever they stand, and the type of their rows."""

_FINGERPRINT_DIGITS = 40


def faults(overlay: Path | None = None) -> list[str]:
    """All breaches of the invariants in the built-in facts with ``overlay`` laid over them, one line each."""
    try:
        facts = load_matrix(overlay)
    except MatrixError as error:
        return [f"{error.where}: {error.message}"]
    found = [fault for subject in facts.subjects for fault in _subject_faults(facts, subject)]
    found += _rule_faults(facts)
    found += _place_faults(facts)
    found += _offer_faults(facts)
    return found


def _subject_faults(facts: Matrix, subject: str) -> Iterator[str]:
    used: set[str] = set()
    for table in facts.tables(subject):
        where = f"{subject}.yaml: {table}"
        _, key, fields = facts.table_head(subject, table)
        rows = facts.rows(subject, table, dict)
        yield from _key_faults(where, key, fields, rows)
        yield from _type_faults(facts, where, subject, table)
        used.update(source for row in rows for source in row["src"])
    for short, source in facts.sources(subject).items():
        if f"{subject}/{short}" not in used:
            yield f"{subject}.yaml: source {short} is used by no row"
        yield from _source_faults(f"{subject}.yaml: source {short}", source)


def _source_faults(where: str, source: Source) -> Iterator[str]:
    if not source.address.strip():
        yield f"{where}: has no address"


def _key_faults(where: str, key: tuple[str, ...], fields: dict[str, str], rows: tuple[dict[str, Any], ...]) -> Iterator[str]:
    for name in key:
        if name not in fields:
            yield f"{where}: key column {name} is not among the fields"
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        label = " ".join(str(row.get(name, "")) for name in key)
        if label in seen:
            yield f"{where}: rows {seen[label]} and {number} have the same key ({label})"
        seen[label] = number


def _type_faults(facts: Matrix, where: str, subject: str, table: str) -> Iterator[str]:
    kind = TYPED.get(table)
    if kind is None:
        return
    for number, row in enumerate(facts.rows(subject, table, dict), 1):
        try:
            msgspec.convert(row, kind, strict=False)
        except msgspec.ValidationError as exc:
            yield f"{where}: row {number}: {exc}"


def _rule_faults(facts: Matrix) -> Iterator[str]:
    seen: set[str] = set()
    for rule in facts.rules:
        where = f"rule {rule.id}"
        if rule.id in seen:
            yield f"{where}: the id stands twice"
        seen.add(rule.id)
        given = [name for name in ("any", "none", "equal") if getattr(rule, name)]
        if len(given) != 1:
            yield f"{where}: exactly one of any, none and equal has to be given, not {given or 'none of them'}"
        component = next((name for name in sorted(COMPONENTS, key=len, reverse=True) if rule.of.startswith(name)), None)
        if component is None:
            yield f"{where}: of {rule.of!r} does not begin with a component"
            continue
        if not rule.equal and rule.needs not in {*COMPONENTS, *PROPERTIES}:
            yield f"{where}: needs {rule.needs!r} is neither a component nor a property of a host"
        if rule.strength == "only-if" and rule.when == type(rule.when)():
            yield f"{where}: only-if without a condition"
        yield from _range_faults(where, (rule.of[len(component) :], *rule.any, *rule.none, rule.when.compute_capability))
        versions = [row.version for row in facts.releases(component)]
        if versions and not any(version(text) in version_range(rule.of[len(component) :]) for text in versions):
            yield f"{where}: binds no release of {component} ({rule.of})"


def _range_faults(where: str, texts: tuple[str, ...]) -> Iterator[str]:
    for text in texts:
        try:
            wanted = version_range(text)
        except ValueError as exc:
            yield f"{where}: {exc}"
            continue
        for clauses in wanted.alternatives:
            low = [clause.version for clause in clauses if clause.operator in {">=", ">"}]
            high = [clause.version for clause in clauses if clause.operator in {"<=", "<"}]
            if low and high and max(low) > min(high):
                yield f"{where}: the window {text} is empty"


def _place_faults(facts: Matrix) -> Iterator[str]:
    folders = {row.repo for row in facts.repositories}
    for system in facts.systems:
        where = f"systems.yaml: {system.id} {system.version}"
        if system.repo and system.repo not in folders:
            yield f"{where}: its repository folder {system.repo} is not among the repositories"
        if not system.repo and not system.no_repo:
            yield f"{where}: has no repository and does not say why"
    for row in facts.repositories:
        where = f"repository {row.repo}/{row.arch}"
        if row.key and row.key not in facts.keys:
            yield f"{where}: its key {row.key} is not among the keys"
        if not row.url.startswith("https://"):
            yield f"{where}: {row.url} is not https"
    for key in facts.keys.values():
        if key.fingerprint and (len(key.fingerprint) != _FINGERPRINT_DIGITS or not _is_hexadecimal(key.fingerprint)):
            yield f"key {key.id}: the fingerprint is not 40 hexadecimal digits"
        if key.fingerprint and _is_hexadecimal(key.id) and not key.fingerprint.lower().endswith(key.id.lower()):
            yield f"key {key.id}: the fingerprint does not end in the id"


def _is_hexadecimal(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)


def _offer_faults(facts: Matrix) -> Iterator[str]:
    folders = {row.repo for row in facts.repositories}
    for row in facts.availability:
        where = f"availability {row.component} in {row.repo}"
        yield from _range_faults(where, (row.versions,))
        if row.repo not in folders:
            yield f"{where}: no such repository folder"
    for packages in facts.packages:
        where = f"packages {packages.component} {packages.method} {packages.family} {packages.versions}"
        yield from _range_faults(where, (packages.versions, packages.with_cuda))
        if not packages.packages and not packages.pin:
            yield f"{where}: names no package"
        # A lock takes patterns: it has to catch packages that do not exist yet.
        for name in packages.packages if packages.role != "branch-lock" else ():
            if any(character in name for character in "{}<>*$ "):
                yield f"{where}: {name!r} is a pattern, names are data"
