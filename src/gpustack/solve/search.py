"""Newest-first search with look-ahead over all components at once.

Components are chosen in the order of installation (driver first; what only some versions require comes after them, so
that avoiding it never costs a newer version of a requested component). A version is taken if it is compatible with the
host and all choices so far, and if every open component keeps at least one version compatible with all
choices. Versions that breach advice, or are known to go wrong here, are tried after the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from gpustack.model.facts import COMPONENTS
from gpustack.solve.causes import Asked, Constraint, Pair, Refusal, Unwanted
from gpustack.solve.doubts import Doubts
from gpustack.solve.hostview import COMPILERS
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import KERNEL_SIDE, Candidate, Question
from gpustack.solve.refusals import Refusals
from gpustack.solve.rulebook import BoundRule

Chosen = dict[str, Candidate | None]
"""The stack so far; None for an omitted component that only some versions require."""

_NOT_ADVICE_TO_CHOOSE_BY = COMPILERS | {"python"}
"""Another compiler or Python can be installed, so its range never decides between versions."""


def _given_or_driver(question: Question) -> set[str]:
    """The partners of equal version that take part in ``check``."""
    return {"driver", *question.host.installed}


class Search:
    """One search. ``off`` are dropped constraints (to find the cause of a failure).

    ``is_cautious`` accepts nothing of unknown compatibility; otherwise that is tried last.
    """

    def __init__(
        self,
        question: Question,
        off: frozenset[Constraint] = frozenset(),
        refusals: Refusals | None = None,
        *,
        is_cautious: bool = False,
    ) -> None:
        self.question = question
        self.off = off
        self.refusals = refusals or Refusals(question)
        self.doubts = Doubts(question)
        self._is_cautious = is_cautious
        self._on_host: dict[str, list[Candidate]] = {}
        self._freed = {one.component for one in off if isinstance(one, Asked)}

    def leaving_out(self, off: frozenset[Constraint]) -> Search:
        """A search of the same question with other constraints dropped; refusals and doubts are shared."""
        found = Search(self.question, off, self.refusals)
        found.doubts = self.doubts
        return found

    def best(self) -> Chosen | None:
        """A stack of known compatibility, else one that is partly unknown; None without any."""
        found = self.run()
        if found is None or not self.doubts.of_stack(found):
            return found
        return Search(self.question, self.off, self.refusals, is_cautious=True).run() or found

    def run(self) -> Chosen | None:
        """The stack, or None."""
        members = self.members
        order = sorted(members, key=lambda name: (not (members[name] or name in KERNEL_SIDE), COMPONENTS.index(name)))
        solution, _ = self._extend({}, order, members)
        return None if solution is None else self._without_idle(solution, members)

    def _without_idle(self, solution: Chosen, members: dict[str, bool]) -> Chosen:
        """The solution in the order of installation, without components that nothing in it requires."""
        kept = {name: solution[name] for name in COMPONENTS if name in solution}
        while idle := [name for name in kept if kept[name] and not members[name] and self._may_be_absent(name, kept)]:
            kept[idle[0]] = None
        return kept

    @cached_property
    def members(self) -> dict[str, bool]:
        """The components that take part: True if always required, False if only some versions require it."""
        members = dict.fromkeys(self.question.asked, True)
        pending = list(members)
        while pending:
            name = pending.pop(0)
            for other, is_needed in self._needs(name).items():
                has_to_be = is_needed and members[name]
                if other in members and (members[other] or not has_to_be):
                    continue
                if not self.question.wants(other):
                    continue
                members[other] = has_to_be
                pending.append(other)
        return members

    def domain(self, component: str) -> tuple[Candidate, ...]:
        """The candidates of a component, with the user's requirement unless that is dropped."""
        return self.question.candidates(component, is_free=component in self._freed)

    def _needs(self, component: str) -> dict[str, bool]:
        """The components that some (False) or all (True) candidates of ``component`` require."""
        applying = self.question.book.applying
        # Hundreds of versions share a few sets of rules, and with them their requirements.
        unlike = {id(applying(component, candidate.version)): candidate for candidate in self.domain(component)}
        found = [self._find_required(candidate) for candidate in unlike.values()]
        some = set().union(*found)
        everywhere = set.intersection(*found) if found else set()
        return {name: name in everywhere for name in sorted(some, key=COMPONENTS.index)}

    def _find_required(self, candidate: Candidate) -> set[str]:
        """What a version requires. ``check`` ignores a partner of equal version, unless that is the driver.

        The others are always available; a driver is judged by the GPUs and the system of its own.
        """
        component, question = candidate.component, self.question
        return {
            name
            for name, rules in question.book.applying(component, candidate.version).items()
            if name in POSSIBLE
            and Pair(component, name) not in self.off
            and any(
                bound.pulls
                and not (bound.rule.equal and question.mode == "check" and name not in _given_or_driver(question))
                and question.view.holds(bound.rule, component)
                for bound in rules
            )
        }

    def _extend(
        self, chosen: Chosen, order: list[str], members: dict[str, bool]
    ) -> tuple[Chosen | None, frozenset[str]]:
        """The finished stack, or None and the components to blame.

        If the current component is not to blame for a failure further down, its other versions would fail too, so the
        search jumps back past it.
        """
        if not order:
            return chosen, frozenset()
        name, rest = order[0], order[1:]
        blamed: frozenset[str] = frozenset()
        for candidate in self._tries(name, chosen, is_needed=members[name]):
            extended = {**chosen, name: candidate}
            failed = next(
                (other for other in rest if not self._has_support(other, extended, is_needed=members[other])), None
            )
            if failed is None:
                solution, culprits = self._extend(extended, rest, members)
                if solution is not None:
                    return solution, frozenset()
            else:
                culprits = self._blame(failed, extended, is_needed=members[failed])
            if name not in culprits:
                return None, culprits
            blamed |= culprits
        return None, (blamed | self._blame(name, chosen, is_needed=members[name])) - {name}

    def _blame(self, name: str, chosen: Chosen, *, is_needed: bool) -> frozenset[str]:
        """The chosen components that refuse candidates of ``name``, or that require it."""
        culprits: set[str] = set()
        for candidate in self._hosted(name):
            if not (self._is_cautious and self.doubts.of(candidate)):
                culprits.update(self._refusing(candidate, chosen))
        if not is_needed:
            culprits.update(
                other.component for other in chosen.values() if other is not None and name in self._pulled(other)
            )
        return frozenset(culprits)

    def _refusing(self, candidate: Candidate, chosen: Chosen) -> Iterator[str]:
        pulled = self._pulled(candidate)
        for name, other in chosen.items():
            if (name in pulled) if other is None else (not self._fits_with(candidate, other)):
                yield name

    def _pulled(self, candidate: Candidate) -> frozenset[str]:
        return self.question.book.pulled(candidate.component, candidate.version, self.question.view)

    def _tries(self, name: str, chosen: Chosen, *, is_needed: bool) -> Iterator[Candidate | None]:
        """The values to try, those with the most drawbacks last. Omission, if possible, comes first.

        The driver comes before what may require it, so for the driver omission comes last.
        """
        may_be_absent = not is_needed and self._may_be_absent(name, chosen)
        if may_be_absent and name not in KERNEL_SIDE:
            yield None
        later = []
        for candidate in self._hosted(name):
            if not self._fits(candidate, chosen):
                continue
            if candidate.is_installed or not any(self._drawbacks(candidate, chosen)):
                yield candidate
            else:
                later.append(candidate)
        yield from sorted(later, key=lambda one: sum(self._drawbacks(one, chosen)))
        if may_be_absent and name in KERNEL_SIDE:
            yield None

    def _drawbacks(self, candidate: Candidate, chosen: Chosen) -> Iterator[bool]:
        yield bool(self.doubts.of(candidate))
        yield bool(self.advice(candidate, chosen))
        yield self.refusals.known_bad.is_avoided(candidate)

    def _may_be_absent(self, name: str, chosen: Chosen) -> bool:
        return not any(other is not None and name in self._pulled(other) for other in chosen.values())

    def _has_support(self, name: str, chosen: Chosen, *, is_needed: bool) -> bool:
        if not is_needed and self._may_be_absent(name, chosen):
            return True
        return any(self._fits(candidate, chosen) for candidate in self._hosted(name))

    def _hosted(self, name: str) -> list[Candidate]:
        """The versions of a component that the host does not refuse: the search asks for them thousands of times."""
        if name not in self._on_host:
            self._on_host[name] = [one for one in self.domain(name) if self.host_refusal(one) is None]
        return self._on_host[name]

    def _fits(self, candidate: Candidate, chosen: Chosen) -> bool:
        if self.refusal(candidate, chosen) is not None:
            return False
        return not self._is_cautious or (
            not self.doubts.of(candidate)
            and not any(self.doubts.between(candidate, other) for other in chosen.values() if other is not None)
        )

    def _fits_with(self, candidate: Candidate, other: Candidate) -> bool:
        is_doubted = self._is_cautious and self.doubts.between(candidate, other)
        return self.pair_refusal(candidate, other) is None and not is_doubted

    def refusal(self, candidate: Candidate, chosen: Chosen) -> Refusal | None:
        """What refuses this version on the host or with the choices so far; None if nothing does."""
        refused = self.host_refusal(candidate)
        if refused is not None:
            return refused
        pulled = self._pulled(candidate)
        for name, other in chosen.items():
            if other is None:
                if name in pulled:
                    return Unwanted(Pair(candidate.component, name))
            elif (refused := self.pair_refusal(candidate, other)) is not None:
                return refused
        return None

    def host_refusal(self, candidate: Candidate) -> Refusal | None:
        """What of the host refuses this version: one of its properties, or the lack of an offer."""
        if not self.off:
            return self.refusals.first_by_host(candidate)
        return self._first(self.refusals.by_host(candidate))

    def pair_refusal(self, a: Candidate, b: Candidate) -> Refusal | None:
        """What refuses these two versions together."""
        if not self.off:
            return self.refusals.first_by_pair(a, b)
        return self._first(self.refusals.by_pair(a, b))

    def _first(self, refusals: tuple[Refusal, ...]) -> Refusal | None:
        """The first refusal by a constraint that is not dropped."""
        for refusal in refusals:
            if refusal.constraint not in self.off:
                return refusal
        return None

    def advice(self, candidate: Candidate, chosen: Chosen) -> BoundRule | None:
        """The first advice that this version would breach here; except for compilers, which can be installed."""
        book, view = self.question.book, self.question.view
        for bound, _ in book.host_breaches(candidate.component, candidate.version, view, advice=True):
            if bound.rule.needs not in _NOT_ADVICE_TO_CHOOSE_BY:
                return bound
        for other in chosen.values():
            if other is not None:
                breach = book.breach(
                    candidate.component, candidate.version, other.component, other.version, view, advice=True
                )
                if breach is not None:
                    return breach
        return self._partners_advice(candidate, chosen)

    def _partners_advice(self, candidate: Candidate, chosen: Chosen) -> BoundRule | None:
        """The first advice that a partner of the same version would breach: partners are chosen only afterwards."""
        book, view, mine = self.question.book, self.question.view, (candidate.component, candidate.version)
        for name, rules in book.applying(*mine).items():
            if name not in chosen and any(
                bound.rule.equal and bound.pulls and view.holds(bound.rule, candidate.component) for bound in rules
            ):
                found = book.one_way_breach((name, candidate.version), mine, view, advice=True)
                if found is not None:
                    return found
        return None
