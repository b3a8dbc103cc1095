"""What refuses a version on a host, and two versions together: computed once per question, for all searches."""

from __future__ import annotations

from gpustack.model.facts import PROPERTIES
from gpustack.solve.causes import Breach, HostLimit, NoFlavour, NoOffer, Pair, Refusal, Vulnerable
from gpustack.solve.flavour import flavours
from gpustack.solve.forward_compat import is_bridged
from gpustack.solve.known_bad import KnownBad
from gpustack.solve.question import Candidate, Question
from gpustack.solve.security import exposure
from gpustack.versions import is_within


class Refusals:
    """All refusals of one question, by group of constraints, so that a search can drop groups."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self.known_bad = KnownBad(question)
        self._by_host: dict[tuple[str, str], tuple[Refusal, ...]] = {}
        self._by_pair: dict[tuple[str, str, str, str], tuple[Refusal, ...]] = {}
        self._first_by_host: dict[tuple[str, str], Refusal | None] = {}
        self._first_by_pair: dict[tuple[str, str, str, str], Refusal | None] = {}

    def by_host(self, candidate: Candidate) -> tuple[Refusal, ...]:
        """What of the host refuses this version: a missing offer, or properties of the host."""
        key = (candidate.component, candidate.version)
        found = self._by_host.get(key)
        if found is None:
            found = self._by_host[key] = (
                *self._offers(candidate),
                *self._properties(candidate),
                *self._vulnerable(candidate),
                *self.known_bad.refusals(candidate),
            )
        return found

    def by_pair(self, a: Candidate, b: Candidate) -> tuple[Refusal, ...]:
        """What refuses these two versions together."""
        key = (a.component, a.version, b.component, b.version)
        found = self._by_pair.get(key)
        if found is None:
            found = self._by_pair[key] = (
                *self._rules(a, b),
                *self._rules(b, a),
                *self._builds(a, b),
                *self._builds(b, a),
            )
        return found

    def first_by_host(self, candidate: Candidate) -> Refusal | None:
        """The first of ``by_host`` without computing the others: enough for a search that drops nothing."""
        key = (candidate.component, candidate.version)
        if key not in self._first_by_host:
            offers = self._offers(candidate)
            found = offers or self._properties(candidate) or self._vulnerable(candidate)
            self._first_by_host[key] = next(iter(found or self.known_bad.refusals(candidate)), None)
        return self._first_by_host[key]

    def first_by_pair(self, a: Candidate, b: Candidate) -> Refusal | None:
        """The first of ``by_pair`` without computing the others."""
        key = (a.component, a.version, b.component, b.version)
        if key not in self._first_by_pair:
            found = self._rules(a, b) or self._rules(b, a) or self._builds(a, b) or self._builds(b, a)
            self._first_by_pair[key] = next(iter(found), None)
        return self._first_by_pair[key]

    def _offers(self, candidate: Candidate) -> list[Refusal]:
        if candidate.is_installed or self._question.mode == "check":
            return []
        name = candidate.component
        found: list[Refusal] = []
        if self._question.offers.offer(name, candidate.version) is None:
            found.append(NoOffer(name))
        if name == "driver" and not flavours(self._question, candidate.version):
            found.append(NoFlavour())
        return found

    def _properties(self, candidate: Candidate) -> list[Refusal]:
        book, view, name = self._question.book, self._question.view, candidate.component
        rules = book.applying(name, candidate.version)
        return [
            Breach(HostLimit(name, prop), bound, value)
            for prop in PROPERTIES
            if prop in rules
            for bound, value in [book.property_breach(name, candidate.version, prop, view)]
            if bound is not None
        ]

    def _vulnerable(self, candidate: Candidate) -> list[Refusal]:
        """The security bulletins that refuse a version."""
        if not self._question.request.deny_vulnerable:
            return []
        found = exposure(self._question, candidate)
        return [Vulnerable(found)] if found is not None else []

    def _rules(self, subject: Candidate, other: Candidate) -> list[Refusal]:
        """The rules of one component about the other."""
        question = self._question
        bound = question.book.one_way_breach(
            (subject.component, subject.version), (other.component, other.version), question.view, advice=False
        )
        if bound is None or self._is_bridged(subject, other):
            return []
        return [Breach(Pair(subject.component, other.component), bound, other.version)]

    def _is_bridged(self, subject: Candidate, other: Candidate) -> bool:
        """Whether a requested compatibility package bridges a CUDA and its driver."""
        if (subject.component, other.component) != ("cuda", "driver"):
            return False
        return is_bridged(self._question, subject.version, other.version)

    def _builds(self, candidate: Candidate, cuda: Candidate) -> list[Refusal]:
        """The refusal if the packages or archives of a version include no build for the CUDA version.

        An installed version was built for the installed CUDA, and supports another one only if such a build exists.
        """
        if self._question.mode == "check" or cuda.component != "cuda" or (candidate.is_installed and cuda.is_installed):
            return []
        offer = self._question.offers.offer(candidate.component, candidate.version)
        if offer is None or not offer.with_cuda or any(is_within(cuda.version, text) for text in offer.with_cuda):
            return []
        return [NoOffer(candidate.component, cuda.version)]
