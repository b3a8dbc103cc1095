"""Constraints and refusals in sentences, with the addresses of the facts behind them."""

from __future__ import annotations

from itertools import islice

from msgspec import Struct

from gpustack.model.facts import COMPONENTS
from gpustack.solve.causes import (
    Asked,
    Breach,
    Constraint,
    Denied,
    Failing,
    Flavour,
    HostLimit,
    KnownToFail,
    Missing,
    NoFlavour,
    NoOffer,
    Offered,
    Pair,
    Refusal,
    Unwanted,
    Vulnerable,
)
from gpustack.solve.known_bad import KnownBad
from gpustack.solve.own_files import built_for
from gpustack.solve.question import Question
from gpustack.solve.rulebook import BoundRule
from gpustack.solve.security import exposure
from gpustack.solve.words import capitalised, contradiction_in_words, in_words, join_and, rule_in_words, title

MOST_RULES = 3
"""The most sentences for one pair of components; of more rules only that of the preferred release is shown."""


class Sentence(Struct, frozen=True):
    """One sentence without its full stop, and its sources."""

    text: str
    sources: tuple[str, ...] = ()


def constraint_sentences(question: Question, constraint: Constraint) -> list[Sentence]:
    """The sentences for a constraint; those for an offer need the missing version."""
    match constraint:
        case Asked(component):
            return [asked_sentence(question, component)]
        case HostLimit(component, name):
            return _host_sentences(question, component, name)
        case Offered(component):
            method, place = question.offers.method(component), question.host.os.called
            return [Sentence(f"Method {method} offers no compatible {title(component)} for {place}")]
        case Flavour():
            return _flavour_sentences(question)
        case Denied(component):
            return _denied_sentences(question, component)
        case Failing():
            return _failing_sentences(question)
        case Pair(subject, other):
            return _rule_sentences(question, subject, other)


def sentences_of(
    question: Question, constraints: frozenset[Constraint], missing: tuple[Missing, ...] = ()
) -> list[Sentence]:
    """What was requested, then the host's limits, then what is missing, then what follows from them."""
    offers: dict[Constraint, list[Sentence]] = {
        Offered(one.component): [_offer_sentence(question, one)] for one in missing
    }
    ordered = sorted(constraints, key=_reading_order)
    return [sentence for one in ordered for sentence in offers.get(one) or constraint_sentences(question, one)]


def _reading_order(constraint: Constraint) -> tuple[int, int, int, str]:
    match constraint:
        case Asked(component):
            return 0, _rank(component), 0, ""
        case HostLimit(component, name):
            return 1, _rank(component), _rank(name), name
        case Flavour():
            return 2, 0, 0, ""
        case Failing():
            return 2, 1, 0, ""
        case Offered(component):
            return 3, _rank(component), 0, ""
        case Denied(component):
            return 3, _rank(component), 1, ""
        case Pair(subject, other):
            return 4, _rank(subject), _rank(other), other


def _rank(name: str) -> int:
    return COMPONENTS.index(name) if name in COMPONENTS else len(COMPONENTS)


def by_kind(constraint: Constraint) -> tuple[int, str, str]:
    """The order of members and hints in a conflict: by kind, then by name."""
    match constraint:
        case Asked(component):
            return 0, component, ""
        case Flavour():
            return 1, "", ""
        case Failing():
            return 1, "failing", ""
        case HostLimit(component, name):
            return 2, component, name
        case Offered(component):
            return 3, component, ""
        case Denied(component):
            return 3, component, "denied"
        case Pair(subject, other):
            return 4, subject, other


def refusal_in_words(question: Question, refused: Refusal) -> Sentence:
    """Why a version is refused, without its subject."""
    match refused:
        case Breach(_, bound, value):
            sentence = rule_sentence(question, bound)
            return Sentence(f"{sentence.text}; here it is {value}", sentence.sources)
        case NoOffer(component, cuda):
            if files := question.request.own_files(component):
                return Sentence(built_for(files))
            method = question.offers.method(component)
            place = question.host.os.called
            about = f" for CUDA {cuda}" if cuda else ""
            return Sentence(f"not available by method {method}{about} for {place}")
        case NoFlavour():
            return Sentence("none of its kernel module flavours supports every GPU here")
        case Vulnerable(exposed):
            return Sentence(exposed.reason, exposed.sources)
        case KnownToFail(reason, _, sources):
            return Sentence(reason, sources)
        case Unwanted(pair):
            return Sentence(f"it would add {title(pair.other)}")


def _denied_sentences(question: Question, component: str) -> list[Sentence]:
    """The bulletins against the preferred version."""
    found = (exposure(question, candidate) for candidate in question.candidates(component))
    first = next((one for one in found if one is not None), None)
    return [] if first is None else [Sentence(f"{first.reason} (--deny-vulnerable)", first.sources)]


def _failing_sentences(question: Question) -> list[Sentence]:
    """What is known of the preferred release that fails."""
    known_bad = KnownBad(question)
    found = (refused for one in question.candidates("driver") for refused in known_bad.refusals(one))
    return [Sentence(capitalised(one.reason), one.sources) for one in islice(found, 1)]


def asked_sentence(question: Question, component: str) -> Sentence:
    """What the user requested, or what the host has installed."""
    requirement = question.asked.get(component)
    if requirement is None:
        installed = question.host.installed[component]
        how = "given" if question.host.described else "installed"
        return Sentence(f"This host has {title(component)} {installed.version} ({how})")
    if question.belongs_to_host_below(component):
        driver = question.host.installed[component].version
        return Sentence(f"In a container the driver is that of the host below, here {driver}")
    if why := contradiction_in_words(component, requirement.versions):
        return Sentence(capitalised(why))
    wanted = in_words(requirement.versions) if requirement.versions else "of any version"
    return Sentence(f"You asked for {title(component)} {wanted}")


def rule_sentence(question: Question, bound: BoundRule) -> Sentence:
    """One rule, with its own range as the subject."""
    text = capitalised(rule_in_words(bound.rule, subject_in_words(bound)))
    return Sentence(text, question.matrix.addresses(bound.rule.src))


def subject_in_words(bound: BoundRule) -> str:
    """The rule's subject: "CUDA 13.x", "driver 590 or newer"."""
    return f"{title(bound.component)} {in_words(bound.subject.text)}" if bound.subject.text else title(bound.component)


def _host_sentences(question: Question, component: str, name: str) -> list[Sentence]:
    rules = _rules(question, component, name)
    if name == "l4t" and component not in question.asked and len(rules) > 1:
        return [_runs_on_board(question, component, rules)]
    sentences = [rule_sentence(question, bound) for bound in rules]
    last = last_branch(question, component, name)
    return [*sentences, Sentence(host_has(question, name)), *([Sentence(last)] if last else [])]


def _runs_on_board(question: Question, component: str, rules: list[BoundRule]) -> Sentence:
    """Which versions of a component run on this Jetson Linux, in place of a rule for each of them."""
    known = [
        candidate.version
        for candidate in question.candidates(component)
        if question.book.property_breach(component, candidate.version, "l4t", question.view)[0] is None
    ]
    where = f"Jetson Linux {', '.join(question.view.values('l4t'))}"
    sources = [address for bound in rules for address in question.matrix.addresses(bound.rule.src)]
    named = join_and(known[:4]) if known else "none that is known"
    return Sentence(f"Of {title(component)}, {where} runs {named}", tuple(dict.fromkeys(sources))[:MOST_RULES])


def last_branch(question: Question, component: str, name: str) -> str:
    """The last driver branch for the host's first GPU that newer ones no longer support, "" for other rules."""
    if component != "driver" or name != "compute-capability":
        return ""
    last = [gpu for gpu in question.host.gpus if gpu.driver_last]
    return f"The last driver branch for {last[0].name or 'this GPU'} is {last[0].driver_last}" if last else ""


def host_has(question: Question, name: str) -> str:
    """The host's value of a property: "This host has GeForce GTX 1050 (compute capability 6.1)"."""
    values = question.view.values(name)
    if question.view.is_assumed(name):
        return f"The default of {question.view.default(name)[1]} is {title(name)} {', '.join(values)}"
    if name != "compute-capability":
        return f"This host has {title(name)} {', '.join(values)}"
    named = [f"{', '.join(question.view.gpus_with(value))} (compute capability {value})" for value in values]
    return f"This host has {' and '.join(named)}"


def _offer_sentence(question: Question, missing: Missing) -> Sentence:
    from gpustack.solve.offered import offer_text  # noqa: PLC0415 (most questions have an answer)

    component = missing.component
    why, sources = method_limit(question, component, question.offers.method(component))
    return Sentence(f"{offer_text(question, missing)}{why}", sources)


def method_limit(question: Question, component: str, method: str) -> tuple[str, tuple[str, ...]]:
    """Why a method has no more of a component on this system, if a fact says so; with its addresses."""
    for row in question.matrix.rows(component, "method_limits", dict):
        if (row["method"], row["os"]) == (method, question.view.system(component)):
            return f": {row['reason']}", question.matrix.addresses(tuple(row["src"]))
    return "", ()


def _flavour_sentences(question: Question) -> list[Sentence]:
    """Which GPU requires which kernel modules, if no flavour supports them all."""
    verdicts = {
        "required": "is supported by open kernel modules only",
        "impossible": "is not supported by open kernel modules",
    }
    found = [
        Sentence(f"{gpu.called} {verdicts[gpu.open_module]}")
        for gpu in question.host.gpus
        if gpu.open_module in verdicts
    ]
    asked = question.request.kernel_module
    return [*dict.fromkeys(found), *([Sentence(f"You asked for {asked} kernel modules")] if asked != "auto" else [])]


def _rules(question: Question, subject: str, other: str) -> list[BoundRule]:
    """The rules of ``subject`` about ``other`` that bind its candidates: the ones that refuse all, if any do."""
    found: dict[str, BoundRule] = {}
    for candidate in question.candidates(subject):
        for bound in question.book.applying(subject, candidate.version).get(other, ()):
            if not bound.is_advice and question.view.holds(bound.rule, subject):
                found.setdefault(bound.rule.id, bound)
    rules = list(found.values())
    refusing = [bound for bound in rules if _refuses_all(question, bound, other)]
    return refusing or rules


def _refuses_all(question: Question, bound: BoundRule, other: str) -> bool:
    """Whether the rule refuses every possible version of the other side."""
    values = _values(question, other)
    return bool(values) and not bound.rule.equal and not any(bound.accepts("0", value) for value in values)


def _values(question: Question, other: str) -> tuple[str, ...]:
    if other in COMPONENTS:
        return tuple(candidate.version for candidate in question.candidates(other))
    return question.view.values(other)


def _rule_sentences(question: Question, subject: str, other: str) -> list[Sentence]:
    rules = _rules(question, subject, other)
    if len(rules) <= MOST_RULES:
        return [rule_sentence(question, bound) for bound in rules]
    older = Sentence(f"Older releases of {title(subject)} have limits of their own for {title(other)}")
    return [rule_sentence(question, rules[0]), older]


def between(question: Question, constraints: frozenset[Constraint]) -> tuple[str, ...]:
    """The names of what cannot hold together: "cuda==13.0.2", "gpu: GeForce GTX 1050", "os: Ubuntu 24.04"."""
    named: list[str] = []
    members: set[str] = set()
    for one in sorted(constraints, key=by_kind):
        match one:
            case Asked(component):
                named.append(spelled(question, component))
            case HostLimit(_, name):
                named.append(host_name(question, name))
            case Denied():
                named.append("--deny-vulnerable")
            case Offered():
                named.append(f"os: {question.host.os.called}")
            case Flavour() | Failing():
                named.append(host_name(question, "compute-capability"))
            case Pair(subject, other):
                members |= {subject, other}
    asked = [spelled(question, name) for name in question.asked if name in members]
    return tuple(dict.fromkeys([*named, *asked]))


def spelled(question: Question, component: str) -> str:
    """A component as the user requested it, or as it is installed."""
    requirement = question.asked.get(component)
    if requirement is None:
        return f"{component}=={question.host.installed[component].version}"
    return str(requirement)


def host_name(question: Question, name: str) -> str:
    """A property of the host as a member of a conflict."""
    if name == "compute-capability":
        return f"gpu: {', '.join(dict.fromkeys(gpu.called for gpu in question.host.gpus))}"
    return f"os: {title(name)} {', '.join(question.view.values(name))}"
