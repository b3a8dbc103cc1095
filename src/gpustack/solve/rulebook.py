"""The rules of a matrix, arranged for look-up by component and version."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from gpustack.matrix.index import Matrix
from gpustack.model.facts import COMPONENTS, Rule
from gpustack.solve.hostview import HostView
from gpustack.versions import Range, is_within, version, version_range

BUILT_FOR_BOARDS = frozenset({"cuda", "cudnn", "nccl", "tensorrt", "tensorrt-rtx"})
"""Components whose server builds do not run on every Jetson: a rule must name the Jetson Linux that one runs on."""


class BoundRule:
    """A rule with its subject parsed. ``objects`` are what it is about: components or one property."""

    __slots__ = ("component", "is_advice", "is_of_compiling", "is_unproven", "objects", "pulls", "rule")

    def __init__(self, rule: Rule, component: str) -> None:
        self.rule = rule
        self.component = component
        self.objects: tuple[str, ...] = rule.equal or (rule.needs,)
        self.is_of_compiling = rule.strength == "compiling"
        self.is_unproven = rule.strength == "unproven"
        self.is_advice = rule.strength in {"advised", "unproven"} or self.is_of_compiling
        self.pulls = rule.strength in {"required", "only-if"}

    @property
    def subject(self) -> Range:
        """The versions that the rule binds."""
        return version_range(self.rule.of.removeprefix(self.component).strip())

    def accepts(self, subject: str, value: str) -> bool:
        """Whether the object's ``value`` satisfies the rule for the subject's version."""
        rule = self.rule
        if rule.equal:
            return version(subject) == version(value)
        if rule.none:
            return not any(is_within(value, text) for text in rule.none)
        return any(is_within(value, text) for text in rule.any)


class RuleBook:
    """All rules of a matrix. The rules of a version are found once and kept."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._by_component: dict[str, list[BoundRule]] = {}
        self._applying: dict[tuple[str, str], dict[str, tuple[BoundRule, ...]]] = {}
        self._alike: dict[tuple[str, tuple[int, ...]], dict[str, tuple[BoundRule, ...]]] = {}

    def of(self, component: str) -> list[BoundRule]:
        """Every rule whose subject is ``component``."""
        found = self._by_component.get(component)
        if found is None:
            found = self._by_component[component] = [
                BoundRule(rule, component) for rule in self._matrix.rules(component)
            ]
        return found

    def applying(self, component: str, version_text: str) -> dict[str, tuple[BoundRule, ...]]:
        """The rules that bind this version, by object, on any host; versions with the same rules share one answer.

        Which rules those are is precomputed for the known versions.
        """
        key = (component, version_text)
        found = self._applying.get(key)
        if found is None:
            known = self._matrix.binding(component).get(version_text)
            if known is None:
                candidate = version(version_text)
                known = [place for place, bound in enumerate(self.of(component)) if candidate in bound.subject]
            places = (component, tuple(known))
            if places not in self._alike:
                self._alike[places] = self._by_object(component, known)
            found = self._applying[key] = self._alike[places]
        return found

    def _by_object(self, component: str, places: list[int]) -> dict[str, tuple[BoundRule, ...]]:
        rules = self.of(component)
        collected: dict[str, list[BoundRule]] = {}
        for place in places:
            for name in rules[place].objects:
                collected.setdefault(name, []).append(rules[place])
        return {name: tuple(bound) for name, bound in collected.items()}

    def covers(self, component: str, version_text: str, other: str, view: HostView) -> bool:
        """Whether any rule that applies on this host covers this version and ``other``."""
        rules = self.applying(component, version_text).get(other, ())
        return any(view.holds(bound.rule, component) for bound in rules)

    def is_proven_on_boards(self, component: str, version_text: str) -> bool:
        """Whether some rule names the Jetson Linux on which this version runs; one that only excludes is not enough."""
        rules = self.applying(component, version_text).get("l4t", ())
        return component not in BUILT_FOR_BOARDS or any(bound.rule.any and not bound.is_advice for bound in rules)

    def breach(self, a: str, va: str, b: str, vb: str, view: HostView, *, advice: bool) -> BoundRule | None:  # noqa: PLR0913 (two versioned things)
        """The first rule, in either direction, that refuses these two versions together; None if none does."""
        one, other = (a, va), (b, vb)
        return self.one_way_breach(one, other, view, advice=advice) or self.one_way_breach(
            other, one, view, advice=advice
        )

    def one_way_breach(
        self, subject: tuple[str, str], other: tuple[str, str], view: HostView, *, advice: bool
    ) -> BoundRule | None:
        """The first rule of the subject (component, version) that refuses the other; None if none does."""
        return next(self.one_way_breaches(subject, other, view, advice=advice), None)

    def one_way_breaches(
        self, subject: tuple[str, str], other: tuple[str, str], view: HostView, *, advice: bool
    ) -> Iterator[BoundRule]:
        """Every rule of the subject (component, version) that refuses the other."""
        for bound in self._breached(subject, other, view):
            if bound.is_advice == advice and not bound.is_unproven:
                yield bound

    def unproven(self, subject: tuple[str, str], other: tuple[str, str], view: HostView) -> list[BoundRule]:
        """The rules by which nobody knows whether the subject (component, version) is compatible with the other."""
        return [bound for bound in self._breached(subject, other, view) if bound.is_unproven]

    def _breached(self, subject: tuple[str, str], other: tuple[str, str], view: HostView) -> Iterator[BoundRule]:
        for bound in self.applying(*subject).get(other[0], ()):
            if not bound.accepts(subject[1], other[1]) and view.holds(bound.rule, subject[0]):
                yield bound

    def host_breach(
        self, component: str, version_text: str, view: HostView, *, advice: bool
    ) -> tuple[BoundRule, str] | None:
        """The first rule about a property of the host that refuses this version, with the value it refuses."""
        return next(self.host_breaches(component, version_text, view, advice=advice), None)

    def host_breaches(
        self, component: str, version_text: str, view: HostView, *, advice: bool
    ) -> Iterator[tuple[BoundRule, str]]:
        """For each property of the host the first rule that refuses this version, with the value it refuses."""
        for name in self.applying(component, version_text):
            if name not in COMPONENTS:
                bound, value = self.property_breach(component, version_text, name, view, advice=advice)
                if bound is not None:
                    yield bound, value

    def property_breach(
        self, component: str, version_text: str, name: str, view: HostView, *, advice: bool = False
    ) -> tuple[BoundRule | None, str]:
        """The first rule about one property of the host that refuses this version, with the value it refuses.

        A release of a system offers several kernels, so its default one only advises. It offers several Pythons too, so
        advice about bindings is about the one that was found or named.
        """
        is_kernel = name == "kernel"
        if is_kernel and view.runs_modules_of(component, version_text):
            return None, ""
        is_guess = is_kernel and view.is_assumed(name)
        for value in view.values(name):
            for bound in self.applying(component, version_text).get(name, ()):
                if bound.accepts(version_text, value) or not view.holds(bound.rule, component):
                    continue
                is_binding = name == "python" and bound.is_advice
                if is_binding and not view.read(name):
                    continue
                compiles = (bound.is_of_compiling or is_binding) and view.is_compiled_with(
                    component, version_text, name
                )
                if (is_guess or (bound.is_advice and not compiles)) == advice:
                    return bound, value
        return None, ""

    def pulled(self, component: str, version_text: str, view: HostView) -> frozenset[str]:
        """The components that this version adds to the stack on this host."""
        return frozenset(
            name
            for name, rules in self.applying(component, version_text).items()
            if name in COMPONENTS and any(bound.pulls and view.holds(bound.rule, component) for bound in rules)
        )


@lru_cache(maxsize=4)
def rule_book(matrix: Matrix) -> RuleBook:
    """The rule book of a matrix, built once."""
    return RuleBook(matrix)
