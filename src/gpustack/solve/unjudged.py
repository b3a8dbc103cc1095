"""Rules that could not be judged because a property of the host is unknown, and defaults used in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpustack.model.facts import COMPONENTS
from gpustack.model.resolution import Assumed, NotJudged, Unknown
from gpustack.solve.hostview import OPTIONS, SYSTEM_FIXED
from gpustack.solve.question import Candidate, Question
from gpustack.solve.rulebook import BoundRule
from gpustack.solve.unknown import UNKNOWN_KERNELS, lacks_kernels
from gpustack.solve.words import title


class Lacking(Struct, frozen=True):
    """A rule about a version, and the unknown property that prevented its judgement."""

    bound: BoundRule
    property: str


def lacking(question: Question, candidate: Candidate, picks: Mapping[str, Candidate]) -> Iterator[Lacking]:
    """Every unjudged rule about this version that might refuse it, or something with it."""
    view, name = question.view, candidate.component
    for other, rules in question.book.applying(name, candidate.version).items():
        if other in COMPONENTS:
            partner = picks.get(other)
            values: tuple[str, ...] = () if partner is None else (partner.version,)
        else:
            values = view.values(other)
            if not values or (other == "compute-capability" and _has_unknown_gpu(question)):
                yield from (Lacking(bound, other) for bound in rules if view.lacking(bound.rule, name) is not None)
                continue
        least = view.least(other)
        for bound in rules:
            missing = view.lacking(bound.rule, name)
            if least and missing == "" and not bound.accepts(candidate.version, least):
                yield Lacking(bound, other)
            if missing and not all(bound.accepts(candidate.version, value) for value in values):
                yield Lacking(bound, missing)


def _has_unknown_gpu(question: Question) -> bool:
    return any(not gpu.compute_capability for gpu in question.host.gpus)


def decides(question: Question, one: Lacking) -> bool:
    """Whether the verdict depends on a rule: it may refuse, and is about the system or a GPU of the host.

    Advice never decides, and what differs between hosts leaves the verdict as it is.
    """
    if one.bound.is_advice and not (one.bound.is_of_compiling and question.has_to_compile(one.bound.component)):
        return False
    return one.property in SYSTEM_FIXED or (one.property in {"compute-capability", "gpu"} and bool(question.host.gpus))


def unknown_rules(question: Question, candidate: Candidate, picks: Mapping[str, Candidate]) -> Iterator[Unknown]:
    """The unjudged rules on which the verdict about a version depends."""
    for one in lacking(question, candidate, picks):
        if decides(question, one):
            yield unknown_rule(question, candidate, one)


def unknown_rule(question: Question, candidate: Candidate, one: Lacking) -> Unknown:
    """An unjudged rule in the words of the verdict."""
    from gpustack.solve.sentences import rule_sentence  # noqa: PLC0415 (most rules can be judged)

    sentence = rule_sentence(question, one.bound)
    option = OPTIONS[one.property]
    others = ", or --os with the service pack" if question.view.least(one.property) else ""
    return Unknown(
        reason=(
            f"{candidate.component}=={candidate.version}: {sentence.text}; the {title(one.property)} of this host is"
            f" unknown ({option} gives it{others})"
        ),
        rule=one.bound.rule.id,
        needs=one.property,
        option=option,
        sources=sentence.sources,
    )


def not_judged(question: Question, picks: Mapping[str, Candidate]) -> tuple[NotJudged, ...]:
    """The other unjudged rules: their properties differ between hosts, or they are advice."""
    found: dict[tuple[str, str], NotJudged] = {}
    for candidate in picks.values():
        for one in lacking(question, candidate, picks):
            if decides(question, one):
                continue
            option = OPTIONS[one.property]
            found[one.bound.rule.id, one.property] = NotJudged(
                rule=one.bound.rule.id,
                property=one.property,
                option=option,
                reason=f"the {title(one.property)} of this host is unknown",
            )
    if "driver" in picks and question.view.is_assumed("kernel") and lacks_kernels(question, picks["driver"]):
        text = f"driver=={picks['driver'].version}: {UNKNOWN_KERNELS}"
        found["", "kernel"] = NotJudged(rule="", property="kernel", option=OPTIONS["kernel"], reason=text)
    return tuple(found.values())


def assumed(question: Question, picks: Mapping[str, Candidate]) -> tuple[Assumed, ...]:
    """The defaults of the system that rules about these versions were judged by."""
    view = question.view
    names = {
        name: None
        for candidate in picks.values()
        for name, rules in question.book.applying(candidate.component, candidate.version).items()
        if name not in COMPONENTS
        and view.is_assumed(name)
        and any(view.lacking(bound.rule, candidate.component) is not None for bound in rules)
    }
    return tuple(
        Assumed(property=name, value=", ".join(view.values(name)), system=view.default(name)[1], option=OPTIONS[name])
        for name in names
    )
