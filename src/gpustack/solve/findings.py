"""Incompatibilities found by ``check``, as conflicts with their sentences and sources."""

from __future__ import annotations

from gpustack.model.resolution import Conflict
from gpustack.solve.causes import (
    Breach,
    Finding,
    Flavour,
    ForeignSystem,
    HostLimit,
    KnownToFail,
    NoCombination,
    NoCommonFlavour,
    NoFlavour,
    NoOffer,
    Pair,
    Refusal,
    RefusedByHost,
    RefusedPair,
    Unwanted,
    Vulnerable,
)
from gpustack.solve.flavour import flavour_rules, unbuilt_flavours
from gpustack.solve.forward_compat import bridged_branches, package_for
from gpustack.solve.question import Question
from gpustack.solve.sentences import (
    between,
    constraint_sentences,
    host_has,
    host_name,
    last_branch,
    rule_sentence,
    sentences_of,
    spelled,
)
from gpustack.solve.words import capitalised, join_and, title


def conflict_of(question: Question, found: Finding) -> Conflict:
    """A finding as the conflict that ``check`` prints."""
    match found:
        case ForeignSystem(component):
            return _foreign_system(question, component)
        case RefusedByHost(component, refusal):
            return _refused_by_host(question, component, refusal)
        case NoCommonFlavour(driver):
            return _no_common_flavour(question, driver)
        case RefusedPair(one, other, refusal):
            return _refused_pair(question, one, other, refusal)
        case NoCombination(constraints):
            sentences = sentences_of(question, constraints)
            return Conflict(
                kind="no-combination",
                between=between(question, constraints),
                reason=". ".join(sentence.text for sentence in sentences) + ".",
                sources=tuple(dict.fromkeys(address for sentence in sentences for address in sentence.sources)),
            )


def _foreign_system(question: Question, component: str) -> Conflict:
    row = question.system_row
    name, why = (row.name, row.no_repo) if row is not None else (question.host.os.spelled, "")
    return Conflict(
        kind="foreign-system",
        between=(spelled(question, component), f"os: {name}"),
        reason=f"NVIDIA's programs do not run on {name}: {why}.",
        sources=question.matrix.addresses(row.src if row is not None else ()),
    )


def _refused_by_host(question: Question, component: str, refused: Refusal) -> Conflict:
    match refused:
        case Breach(HostLimit(_, name), bound, _):
            sentence = rule_sentence(question, bound)
            last = last_branch(question, component, name)
            return Conflict(
                kind="refused-by-host",
                between=(spelled(question, component), host_name(question, name)),
                reason=f"{sentence.text}. {host_has(question, name)}.{f' {last}.' if last else ''}",
                sources=sentence.sources,
            )
        case Vulnerable(exposed):
            return Conflict(
                kind="vulnerable",
                between=(spelled(question, component), "--deny-vulnerable"),
                reason=f"{exposed.reason}.",
                sources=exposed.sources,
            )
        case KnownToFail(reason, gpu, sources):
            return Conflict(
                kind="known-bad",
                between=(spelled(question, component), f"gpu: {gpu}"),
                reason=f"{capitalised(reason)}.",
                sources=sources,
            )
        case Breach() | NoOffer() | NoFlavour() | Unwanted():
            return Conflict(
                kind="refused-by-host",
                between=(spelled(question, component),),
                reason=f"{title(component)} is not available here",
            )


def _no_common_flavour(question: Question, driver: str) -> Conflict:
    rules, unbuilt = flavour_rules(question, driver), unbuilt_flavours(question, driver)
    sentences = [sentence.text for sentence in constraint_sentences(question, Flavour())]
    kernels = [rule_sentence(question, bound) for bound in unbuilt]
    reasons = [*sentences, *(rule.text.rstrip(".") for rule in rules), *(one.text for one in kernels)]
    sources = question.matrix.addresses(tuple(key for rule in rules for key in rule.src))
    return Conflict(
        kind="no-common-flavour",
        between=(spelled(question, "driver"), host_name(question, "kernel" if unbuilt else "compute-capability")),
        reason=f"{'. '.join(reasons)}.",
        sources=tuple(dict.fromkeys([*sources, *(address for one in kernels for address in one.sources)])),
    )


def _refused_pair(question: Question, one: str, other: str, refused: Refusal) -> Conflict:
    text, sources = "These are incompatible", tuple[str, ...]()
    match refused:
        case Breach(Pair(_, second), bound, value):
            sentence = rule_sentence(question, bound)
            this_is = "this is" if second in question.asked else "installed here is"
            text, sources = f"{sentence.text}; {this_is} {title(second)} {value}", sentence.sources
        case Breach() | NoOffer() | NoFlavour() | Unwanted() | Vulnerable() | KnownToFail():
            pass
    return Conflict(
        kind="refused-pair",
        between=(spelled(question, one), spelled(question, other)),
        reason=f"{text}.{_forward_compatibility(question, one, other)}",
        sources=sources,
    )


def _forward_compatibility(question: Question, a: str, b: str) -> str:
    """Distinguishes "will not run" from "runs with the compatibility package", with its condition."""
    if {a, b} != {"cuda", "driver"} or question.view.is_windows:
        return ""
    classes = {gpu.kind for gpu in question.host.gpus}
    if classes and classes <= {"datacenter"}:
        return f" {_compatibility_package(question)}"
    if classes:
        return " Forward compatibility (cuda-compat) does not exist for this class of GPU."
    return ""


def _compatibility_package(question: Question) -> str:
    answers = {
        package_for(question.matrix, cuda.version, driver.version)
        for cuda in question.candidates("cuda")
        for driver in question.candidates("driver")
    }
    if len(answers) == 1 and (answer := answers.pop()) is not None:
        package, result = answer
        if result == "compatible":
            return (
                f"Forward compatibility bridges this on data-centre GPUs: {package} installed with the toolkit,"
                " with its folder on LD_LIBRARY_PATH."
            )
        return f"Forward compatibility does not bridge this either: {package} does not work on this driver branch."
    package, branches = bridged_branches(question.matrix, question.candidates("cuda")[0].version)
    if branches:
        named = f"{package} on data-centre GPUs"
        return f"Forward compatibility, {named}, is stated for driver branch {join_and(branches)} only."
    return (
        "On data-centre GPUs the cuda-compat package of that CUDA release may bridge this (forward compatibility);"
        " on which driver branches it works is unknown."
    )
