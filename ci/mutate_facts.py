"""Change single rows of the facts, and look whether any answer changes: a row that decides nothing is found so.

    .venv/bin/python ci/mutate_facts.py [--rows 1000] [--seed 1] [--table SUBJECT.TABLE]

Draws rows of the tables that code reads, changes one column after the other that code reads, asks the questions that
the row should bear on (plans, verdicts, the GPU of a name) with and without the change, and prints the rows of which no
change was noticed by any answer. Exit code 1 where fewer than 95 of 100 are noticed.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import itertools
import multiprocessing
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

import fact_probes as probes
from fact_answers import Asked, answer
from fact_columns import Columns
from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix
from gpustack.matrix.store import open_store
from gpustack.model.facts import Availability, PackageSet, Release, Rule, subject_of
from gpustack.versions import is_within

T = TypeVar("T")
Drawn = tuple[str, str, int, set[str]]
"""A row: subject, table, place, and the columns of it that code reads."""

WANTED = 0.95
MOST_QUESTIONS = 60
"""Questions that are asked about one row before it counts as unnoticed."""
ALWAYS_ASKED = 2
ROWS_A_PART = 8
"""Rows that a worker takes at once."""
NEVER_SAMPLED = ("bounds", "seen_names")


class Facts(Matrix):
    """The facts as they are, each look-up answered once for all mutants."""

    def __init__(self) -> None:
        store = open_store()
        super().__init__(store.overlaid(store.index.subjects, {}))
        self._compiled = Matrix(store)
        self._kept: dict[tuple[object, ...], Any] = {}

    def everywhere(self, table: str, kind: type[T]) -> tuple[T, ...]:
        return self._keep(table, "everywhere", table, kind)

    def releases(self, component: str) -> tuple[Release, ...]:
        return self._keep("releases", "releases", component)

    def rules(self, component: str) -> tuple[Rule, ...]:
        return self._keep("rules", "rules", component)

    def availability(self, component: str) -> tuple[Availability, ...]:
        return self._keep("availability", "availability", component)

    def packages(self, component: str) -> tuple[PackageSet, ...]:
        return self._keep("packages", "packages", component)

    def binding(self, component: str) -> dict[str, list[int]]:
        """Which rules bind which release, as worked out when the facts were compiled."""
        return self._compiled.binding(component)

    def _keep(self, _table: str, look_up: str, *about: object) -> Any:  # noqa: ANN401 (what the look-up returns)
        key = (look_up, *about)
        if key not in self._kept:
            self._kept[key] = getattr(Matrix, look_up)(self, *about)
        return self._kept[key]


class Mutant(Facts):
    """The facts with one row changed or (None) left out; other tables are looked up in the facts as they are."""

    def __init__(self, facts: Facts, drawn: tuple[str, str, int], row: dict[str, Any] | None) -> None:
        Matrix.__init__(self, facts.store)  # a copy of the same facts
        self._facts, self._table, self._place, self._row = facts, drawn[:2], drawn[2], row
        if row is None and drawn[1] == "rules":
            rule = facts.rows(*drawn[:2], dict)[drawn[2]]
            self._row = {**rule, "of": f"{subject_of(rule['of'])}==0.0.0.1"}
        self._kept = {}

    def rows(self, subject: str, table: str, kind: type[T]) -> tuple[T, ...]:
        """The rows as they are, or with the changed one in its place; a rule keeps its place and binds nothing."""
        rows = self._facts.rows(subject, table, kind)
        if (subject, table) != self._table:
            return rows
        key = (subject, table, kind)
        if key not in self._rows:
            changed = () if self._row is None else (msgspec.convert(self._row, kind, strict=False),)
            self._rows[key] = (*rows[: self._place], *changed, *rows[self._place + 1 :])
        return self._rows[key]

    def binding(self, component: str) -> dict[str, list[int]]:
        """As compiled, with what the changed rule binds; releases that it does not know are worked out."""
        rules, before = self.rules(component), self._facts.rules(component)
        if rules is before or len(rules) != len(before):
            return self._facts.binding(component) if rules is before else {}
        key = ("binding", component)
        if key not in self._kept:
            places = [place for place, (rule, old) in enumerate(zip(rules, before, strict=True)) if rule != old]
            self._kept[key] = {
                release: sorted({*bound} - {*places} | {place for place in places if is_bound(rules[place], release)})
                for release, bound in self._facts.binding(component).items()
            }
        return self._kept[key]

    def _keep(self, table: str, look_up: str, *about: object) -> Any:  # noqa: ANN401
        if table == self._table[1]:
            return super()._keep(table, look_up, *about)
        return self._facts._keep(table, look_up, *about)  # noqa: SLF001 (a copy of the same facts)


def is_bound(rule: Rule, release: str) -> bool:
    """Whether a rule binds this release of its component."""
    return is_within(release, rule.of.removeprefix(subject_of(rule.of)).strip())


def decided(facts: Facts, only: str) -> Iterator[Drawn]:
    """Each row that code reads: subject, table, place, and the columns of it that code reads."""
    columns = Columns()
    for subject in facts.subjects:
        for table, count in facts.tables(subject).items():
            if table in NEVER_SAMPLED or only not in {"", f"{subject}.{table}"}:
                continue
            read = columns.read(subject, table, set(facts.table_head(subject, table)[2]))
            if read:
                yield from ((subject, table, place, read) for place in range(count))


def sampled(facts: Facts, places: Iterable[Drawn], count: int, seed: int) -> list[Drawn]:
    """So many of the rows, by their own keys: a row that is added or goes away moves no other one into the sample."""
    tables: dict[tuple[str, str], list[str]] = {}

    def rank(drawn: Drawn) -> str:
        subject, table, place, _ = drawn
        if (subject, table) not in tables:
            tables[subject, table] = [identity(facts, subject, table, row) for row in facts.rows(subject, table, dict)]
        return hashlib.sha256(f"{seed} {tables[subject, table][place]}".encode()).hexdigest()

    return heapq.nsmallest(count, places, key=rank)


def identity(facts: Facts, subject: str, table: str, row: dict[str, Any]) -> str:
    """A row by its table and key."""
    return " ".join(
        [f"{subject}.{table}", *(f"{name}={row.get(name, '')}" for name in facts.table_head(subject, table)[1])]
    )


def changed(value: object, kind: str, chance: random.Random) -> object:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        if len(value) > 1 and chance.random() < 0.5:
            return value[1:]
        return [changed(value[0], kind, chance), *value[1:]] if value else ["other"]
    if isinstance(value, dict):
        name = min(value)
        return {**value, name: changed(value[name], "", chance)}
    text = str(value)
    if "range" in kind or text[:1] in "<>=!":
        return "==0.0.1"
    if text[-1:].isdigit():
        return text[:-1] + str((int(text[-1]) + 1) % 10)
    return {"a": "b", "0": "1"}.get(text[-1:], "a") if not text else f"{text[:-1]}{'y' if text[-1] != 'y' else 'z'}"


def is_decided_by(facts: Facts, drawn: tuple[str, str, int], columns: list[str], known: dict[Asked, str]) -> bool:
    """Whether an answer changes with one of these columns of a row: its subject, table and place.

    Most questions on a row are of places where it plays no part. Those are told by leaving the row out; the columns
    are then changed for the others, and for the first questions in any case.
    """
    subject, table, place = drawn
    row = facts.rows(subject, table, dict)[place]
    chance = random.Random(identity(facts, subject, table, row))  # noqa: S311 (no secret)
    kinds = facts.table_head(subject, table)[2]
    mutants = [Mutant(facts, drawn, {**row, column: changed(row[column], kinds[column], chance)}) for column in columns]
    gone = Mutant(facts, drawn, None)
    asked = list(itertools.islice(probes.questions(facts, subject, table, row), MOST_QUESTIONS))
    for question in asked:
        if answered(gone, question) != known_answer(facts, question, known) and any(
            answered(mutant, question) != known[question] for mutant in mutants
        ):
            return True
    return any(
        answered(mutant, question) != known_answer(facts, question, known)
        for question in asked[:ALWAYS_ASKED]
        for mutant in mutants
    )


def known_answer(facts: Facts, question: Asked, known: dict[Asked, str]) -> str:
    """The answer with the facts as they are, asked once."""
    if question not in known:
        known[question] = answered(facts, question)
    return known[question]


def answered(matrix: Matrix, question: Asked) -> str:
    """What is answered, or how it is refused; a fault of the facts is an answer too."""
    try:
        return answer(matrix, question)
    except (GpustackError, msgspec.ValidationError, ValueError, LookupError, TypeError, StopIteration) as exc:
        return f"{type(exc).__name__}: {exc} {getattr(exc, 'hint', '')}"


def survivors(facts: Facts, drawn: list[Drawn]) -> Iterator[str]:
    """The rows of which no change was noticed: table, key, and the columns that were changed."""
    known: dict[Asked, str] = {}
    for subject, table, place, read in drawn:
        row = facts.rows(subject, table, dict)[place]
        columns = sorted(name for name in row if name in read)
        if not is_decided_by(facts, (subject, table, place), columns, known):
            key = facts.table_head(subject, table)[1]
            named = " ".join(f"{name}={row[name]}" for name in key if name in row)
            yield f"matrices/{subject}.yaml {table}: {named} (changed: {', '.join(sorted(columns))})"


def in_workers(facts: Facts, drawn: list[Drawn]) -> Iterator[str]:
    """The survivors, found by one process a core; rows of a table stay together, because they share questions."""
    drawn = sorted(drawn, key=lambda one: one[:3])
    parts = [drawn[start : start + ROWS_A_PART] for start in range(0, len(drawn), ROWS_A_PART)]
    context = multiprocessing.get_context("fork")
    with context.Pool(initializer=_begin, initargs=(facts,)) as pool:
        for found in pool.imap_unordered(_part, parts):
            yield from found


_FACTS: list[Facts] = []
"""What a worker was forked with."""


def _begin(facts: Facts) -> None:
    _FACTS[:] = [facts]


def _part(drawn: list[Drawn]) -> list[str]:
    return list(survivors(_FACTS[0], drawn))


def main() -> int:
    """Draw, change, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", default="")
    asked = parser.parse_args()
    facts = Facts()
    drawn = sampled(facts, decided(facts, asked.table), asked.rows, asked.seed)
    left: list[str] = []
    for survivor in in_workers(facts, drawn):
        left.append(survivor)
        print(survivor, flush=True)
    per_table = Counter(line.partition(":")[0] for line in left)
    print(f"{len(drawn) - len(left)} of {len(drawn)} rows were noticed; survivors by table: {dict(per_table)}")
    return int(len(left) > (1 - WANTED) * len(drawn))


if __name__ == "__main__":
    sys.exit(main())
