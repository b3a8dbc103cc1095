"""Change single rows of the facts, and look whether any answer changes: a row that decides nothing is found so.

    .venv/bin/python ci/mutate_facts.py [--rows 1000] [--seed 1] [--table SUBJECT.TABLE]

Draws rows of the tables that code reads, changes one column after the other that code reads, asks the questions that
the row should bear on (plans, verdicts, the GPU of a name) with and without the change, and prints the rows of which no
change was noticed by any answer. Exit code 1 where fewer than 95 of 100 are noticed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

import fact_probes as probes
from fact_columns import Columns
from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix
from gpustack.matrix.store import open_store

T = TypeVar("T")
WANTED = 0.95
MOST_QUESTIONS = 60
"""Questions that are asked about one row before it counts as unnoticed."""
NEVER_SAMPLED = ("bounds", "seen_names")


class Facts(Matrix):
    """The facts as they are, each table decoded once for all mutants."""

    def __init__(self) -> None:
        store = open_store()
        super().__init__(store.overlaid(store.index.subjects, {}))


class Mutant(Facts):
    """The facts with one row changed."""

    def __init__(self, facts: Facts, drawn: tuple[str, str, int], row: dict[str, Any]) -> None:
        Matrix.__init__(self, facts._store)  # noqa: SLF001 (a copy of the same facts)
        self._facts, self._table, self._place, self._row = facts, drawn[:2], drawn[2], row

    def rows(self, subject: str, table: str, kind: type[T]) -> tuple[T, ...]:
        """The rows as they are, or with the changed one in its place."""
        rows = self._facts.rows(subject, table, kind)
        if (subject, table) != self._table:
            return rows
        key = (subject, table, kind)
        if key not in self._rows:
            changed = msgspec.convert(self._row, kind, strict=False)
            self._rows[key] = (*rows[: self._place], changed, *rows[self._place + 1 :])
        return self._rows[key]


def decided(facts: Facts, only: str) -> Iterator[tuple[str, str, int, set[str]]]:
    """Each row that code reads: subject, table, place, and the columns of it that code reads."""
    columns = Columns()
    for subject in facts.subjects:
        for table, count in facts.tables(subject).items():
            if table in NEVER_SAMPLED or only not in {"", f"{subject}.{table}"}:
                continue
            read = columns.read(subject, table, set(facts.table_head(subject, table)[2]))
            if read:
                yield from ((subject, table, place, read) for place in range(count))


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


def is_decided_by(
    facts: Facts, drawn: tuple[str, str, int], column: str, chance: random.Random, known: dict[Any, str]
) -> bool:
    """Whether an answer changes with this column of the row that was drawn: its subject, table and place."""
    subject, table, place = drawn
    row = facts.rows(subject, table, dict)[place]
    other = {**row, column: changed(row[column], facts.table_head(subject, table)[2][column], chance)}
    return is_noticed(facts, Mutant(facts, drawn, other), probes.questions(facts, subject, table, row), known)


def is_noticed(facts: Facts, mutant: Mutant, questions: Iterator[probes.Question], known: dict[Any, str]) -> bool:
    """Whether an answer to one of the questions differs."""
    for question in itertools.islice(questions, MOST_QUESTIONS):
        if question not in known:
            known[question] = answer(facts, question)
        if answer(mutant, question) != known[question]:
            return True
    return False


def answer(matrix: Matrix, question: probes.Question) -> str:
    """What is answered, or how it is refused; a fault of the facts is an answer too."""
    try:
        return question.ask(matrix)
    except (GpustackError, msgspec.ValidationError, ValueError, KeyError, TypeError, StopIteration) as exc:
        return f"{type(exc).__name__}: {exc} {getattr(exc, 'hint', '')}"


def main() -> int:
    """Draw, change, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", default="")
    asked = parser.parse_args()
    facts, chance, known = Facts(), random.Random(asked.seed), {}  # noqa: S311 (no secret)
    places = list(decided(facts, asked.table))
    drawn = chance.sample(places, min(asked.rows, len(places)))
    survivors: list[str] = []
    for subject, table, place, read in drawn:
        row = facts.rows(subject, table, dict)[place]
        columns = sorted(name for name in row if name in read)
        chance.shuffle(columns)
        if not any(is_decided_by(facts, (subject, table, place), column, chance, known) for column in columns):
            key = facts.table_head(subject, table)[1]
            named = " ".join(f"{name}={row[name]}" for name in key if name in row)
            survivors.append(f"{subject}.{table}: {named}")
            print(survivors[-1], flush=True)
    per_table = Counter(line.partition(":")[0] for line in survivors)
    print(f"{len(drawn) - len(survivors)} of {len(drawn)} changes were noticed; survivors by table: {dict(per_table)}")
    return int(len(survivors) > (1 - WANTED) * len(drawn))


if __name__ == "__main__":
    sys.exit(main())
