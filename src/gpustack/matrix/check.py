"""The invariants of the facts. Every fault is one line: file, table, row, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.matrix.typed import component_of, row_faults
from gpustack.model.facts import Availability, PackageSet, Rule, Source
from gpustack.versions import version, version_range

_FINGERPRINT_DIGITS = 40


def faults(overlay: Path | None = None) -> list[str]:
    """All faults of the built-in facts with ``overlay`` applied, one line each.

    Raises MatrixError (exit 2) if ``overlay`` is malformed, as every command does.
    """
    facts = load_matrix(overlay)
    found = [fault for subject in facts.subjects for fault in _subject_faults(facts, subject)]
    if found:
        return found  # what follows reads the faulty rows
    found += _rule_faults(facts)
    found += _place_faults(facts)
    found += _offer_faults(facts)
    return found


def generated(facts: Matrix) -> dict[str, tuple[int, int]]:
    """For each table with generated rows (``subject.table``) their number, and that of all its rows."""
    found = {}
    for subject in facts.subjects:
        makes = {f"{subject}/{key}": source.makes.split() for key, source in facts.sources(subject).items()}
        for table, count in facts.tables(subject).items():
            if any(table in tables for tables in makes.values()):
                rows = facts.rows(subject, table, dict)
                made = sum(all(table in makes.get(key, ()) for key in row["src"]) for row in rows)
                found[f"{subject}.{table}"] = (made, count)
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
            yield f"{subject}.yaml: source {short} is not used by any row"
        yield from _source_faults(f"{subject}.yaml: source {short}", source)


def _source_faults(where: str, source: Source) -> Iterator[str]:
    if not source.address.strip():
        yield f"{where}: has no address"
    if source.address.startswith("http") and len(source.address.split()) > 1:
        yield f"{where}: the address contains other text: a remark belongs in note"


def _key_faults(
    where: str, key: tuple[str, ...], fields: dict[str, str], rows: tuple[dict[str, Any], ...]
) -> Iterator[str]:
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
    for number, row in enumerate(facts.rows(subject, table, dict), 1):
        for fault in row_faults(table, row):
            yield f"{where}: row {number} ({row.get('id') or row.get('version') or row.get('component', '')}): {fault}"


def _rule_faults(facts: Matrix) -> Iterator[str]:
    seen: set[str] = set()
    for rule in facts.everywhere("rules", Rule):
        where = f"rule {rule.id}"
        if rule.id in seen:
            yield f"{where}: the id occurs twice"
        seen.add(rule.id)
        component = component_of(rule)
        bound = version_range(rule.of[len(component) :])
        versions = [row.version for row in facts.releases(component)]
        if versions and not any(version(text) in bound for text in versions):
            yield f"{where}: binds no release of {component} ({rule.of})"


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


def _is_packaged(facts: Matrix, offer: Availability) -> bool:
    """Whether some row names the packages of an offer in its folder."""
    families = {row.family for row in facts.repositories if row.repo == offer.repo}
    return any(
        row.method == "network" and row.family in families and (not row.repos or offer.repo in row.repos)
        for row in facts.packages(offer.component)
    )


def _offer_faults(facts: Matrix) -> Iterator[str]:
    folders = {row.repo for row in facts.repositories}
    for row in facts.everywhere("availability", Availability):
        where = f"availability {row.component} in {row.repo}"
        if row.repo not in folders:
            yield f"{where}: no such repository folder"
        elif row.method == "network" and not _is_packaged(facts, row):
            yield f"{where}: no row of packages names its packages for this folder (field 'repos', or its group)"
    for packages in facts.everywhere("packages", PackageSet):
        where = f"packages {packages.component} {packages.method} {packages.family} {packages.versions}"
        if not packages.packages and not packages.pin:
            yield f"{where}: names no package"
        # A lock uses patterns: it must match packages that do not exist yet.
        for name in packages.packages if packages.role != "branch-lock" else ():
            if any(character in name for character in "{}<>*$ "):
                yield f"{where}: {name!r} is a pattern, names are data"
