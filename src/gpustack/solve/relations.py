"""What no rule compares: the facts declare it independent, judged through something else, or open.

Every component is crossed with every other one and with every aspect of a host. A pair that neither a rule nor a row
here is about is a gap in the facts, and is said.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Literal

from msgspec import Struct

from gpustack.model.facts import PROPERTIES
from gpustack.model.resolution import Declared, NotJudged, Unknown
from gpustack.solve.applies import is_shown
from gpustack.solve.hostview import OPTIONS, STATES
from gpustack.solve.question import Candidate, Question
from gpustack.solve.unknown import COVERED_PAIRS
from gpustack.solve.words import title
from gpustack.versions import is_within

SUBJECT = "relations"


class Relation(Struct, frozen=True, kw_only=True):
    """One row: why no rule compares these components, in these versions ("" all), with these aspects or components.

    ``stand``: independent, through (what it names judges them), or open (nobody states it).
    """

    id: str
    components: tuple[str, ...]
    aspects: tuple[str, ...]
    stand: Literal["independent", "through", "open"]
    text: str
    through: str = ""
    versions: str = ""
    src: tuple[str, ...] = ()


def relation(question: Question, candidate: Candidate, aspect: str) -> Relation | None:
    """The row about a version and an aspect of a host, or another component; None if the facts have none."""
    return next(
        (
            row
            for row in question.matrix.rows(SUBJECT, SUBJECT, Relation)
            if candidate.component in row.components
            and aspect in row.aspects
            and (not row.versions or is_within(candidate.version, row.versions))
        ),
        None,
    )


def given(question: Question) -> dict[str, str]:
    """The aspects of the host that somebody named, or that are special about it, each with its value."""
    host, named = question.host, question.request.named or ()
    found = {name: question.view.read(name) or "" for name in PROPERTIES if name in named}
    states = {
        "secure-boot": host.secure_boot is True,
        "mig": any(gpu.is_mig for gpu in host.gpus),
        "vgpu": any(gpu.is_vgpu for gpu in host.gpus),
    }
    return {name: value for name, value in found.items() if value} | dict.fromkeys(
        (name for name, is_so in states.items() if is_so), ""
    )


def declared(question: Question, judged: Mapping[str, Candidate]) -> tuple[Declared, ...]:
    """The pairs that no rule compares because they are independent, or judged through something else."""
    found = [
        _declared(question, row, candidate, f"{title(aspect)} {value}".strip())
        for candidate, aspect, value, row in _unlooked_aspects(question, judged)
        if row is not None and row.stand != "open"
    ]
    found += [
        _declared(question, row, one, f"{other.component}=={other.version}")
        for one, other, row in _unlooked_pairs(question, judged)
        if row is not None and row.stand != "open"
    ]
    return tuple(found)


def _declared(question: Question, row: Relation, candidate: Candidate, other: str) -> Declared:
    return Declared(
        between=(f"{candidate.component}=={candidate.version}", other),
        stand="through" if row.stand == "through" else "independent",
        through=row.through,
        reason=row.text,
        sources=question.matrix.addresses(row.src),
    )


def open_aspects(question: Question, judged: Mapping[str, Candidate]) -> Iterator[NotJudged]:
    """The given aspects of the host on which nobody states whether a requested version depends."""
    for candidate, aspect, value, row in _unlooked_aspects(question, judged):
        if _is_open(question, row):
            subject = f"{candidate.component}=={candidate.version} with {title(aspect)} {value}".rstrip()
            text = row.text if row is not None else "no fact compares them"
            option = OPTIONS.get(aspect) or STATES[aspect]
            yield NotJudged(rule="", property=aspect, option=option, reason=f"{subject}: {text}")


def open_pairs(question: Question, judged: Mapping[str, Candidate]) -> Iterator[Unknown]:
    """The pairs of versions of which nobody states whether they depend on each other."""
    for one, other, row in _unlooked_pairs(question, judged):
        if _is_open(question, row):
            pair = f"{one.component}=={one.version} with {other.component}=={other.version}"
            text = row.text if row is not None else "no fact covers this pair"
            yield Unknown(
                reason=f"{pair}: compatibility unknown: {text}",
                sources=question.matrix.addresses(row.src) if row is not None else (),
            )


def _is_open(question: Question, row: Relation | None) -> bool:
    """Whether nobody states how two things stand to each other; facts without any row make no statement."""
    return bool(question.matrix.rows(SUBJECT, SUBJECT, Relation)) if row is None else row.stand == "open"


def _unlooked_aspects(
    question: Question, judged: Mapping[str, Candidate]
) -> Iterator[tuple[Candidate, str, str, Relation | None]]:
    """The requested versions and given aspects of the host that no rule compares, each with the row about it."""
    aspects = given(question)
    for candidate in [judged[name] for name in question.asked if name in judged] if aspects else []:
        for aspect, value in aspects.items():
            if candidate.is_known and not _is_looked_at(question, candidate, aspect):
                yield candidate, aspect, value, relation(question, candidate, aspect)


def _unlooked_pairs(
    question: Question, judged: Mapping[str, Candidate]
) -> Iterator[tuple[Candidate, Candidate, Relation | None]]:
    """The pairs of versions that no rule compares, each with the row about it."""
    for one, other in combinations([candidate for candidate in judged.values() if candidate.is_known], 2):
        names = (one.component, other.component)
        is_covered = names in COVERED_PAIRS or names[::-1] in COVERED_PAIRS
        if is_covered or _is_looked_at(question, one, names[1]) or _is_looked_at(question, other, names[0]):
            continue
        row = relation(question, one, names[1])
        yield (one, other, row) if row is not None else (other, one, relation(question, other, names[0]))


def _is_looked_at(question: Question, candidate: Candidate, other: str) -> bool:
    """Whether a rule about a version and something else applies here, or might.

    A toolkit with a compiler of which no rule speaks is unknown elsewhere (``unknown_compilers``).
    """
    name = candidate.component
    rules = question.book.applying(name, candidate.version).get(other, ())
    if any(question.view.lacking(bound.rule, name) is not None for bound in rules):
        return True
    if is_shown(question, name, candidate.version, other):
        return True
    return other in (question.request.named or ()) and any(
        bound.is_of_compiling and other in bound.objects for bound in question.book.of(name)
    )
