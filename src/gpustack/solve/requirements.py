"""Requirements as users write them: ``cuda>=12.4,<13``, ``cudnn==9.*``, ``ffmpeg``."""

from __future__ import annotations

import re

from gpustack.errors import UsageError
from gpustack.model.facts import COMPONENTS
from gpustack.model.request import METHODS, Method, Requirement
from gpustack.patterns import late
from gpustack.versions import version_range

_CLAUSE = r"(?:==|!=|>=|<=|<|>|~=)\d+(?:\.\d+)*(?:(?:a|b|rc)\d+|\.(?:post|dev)\d+)?(?:\.\*)?"
_SPECIFIER = late(rf"{_CLAUSE}(?:,{_CLAUSE})*,?")
_REQUIREMENT = late(r"([A-Za-z][A-Za-z0-9-]*)\s*(.*)", re.DOTALL)


def parse_requirement(text: str) -> Requirement:
    """The requirement spelled ``text``. Raises UsageError naming the nearest component or the clause that is wrong."""
    match = _REQUIREMENT.fullmatch(text.strip())
    if match is None:
        msg = f"{text!r} is not a requirement"
        raise UsageError(msg, hint="write a component and versions of it: cuda>=12.4,<13 or cudnn==9.* or ffmpeg")
    return Requirement(component=component_named(match[1]), versions=specifier(match[2], of=match[1]))


def component_named(name: str) -> str:
    """The component called ``name`` in any case. Raises UsageError with the nearest names."""
    lowered = name.lower()
    if lowered in COMPONENTS:
        return lowered
    msg = f"{name!r} is not a component"
    raise UsageError(msg, hint=nearest(lowered, COMPONENTS))


def specifier(text: str, *, of: str) -> str:
    """A PEP 440 specifier as one range of ours.

    Raises UsageError. A bare version (``cuda 12.4``) is refused: it could mean the version or the line.
    """
    cleaned = "".join(text.split())
    if not cleaned:
        return ""
    if _SPECIFIER.fullmatch(cleaned):
        try:
            return version_range(cleaned).text
        except ValueError:
            pass  # the sentence below says it better
    msg = f"{text.strip()!r} is not a version specifier for {of}"
    raise UsageError(msg, hint=_advice(cleaned, of))


def _advice(text: str, of: str) -> str:
    """What to write instead. ``packaging`` judges what PEP 440 allows and we do not compare."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 (costs more than a whole check)

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return f"write for example {of}>=12.4,<13 or {of}==12.4.*"
    return f"the vendor's versions are numbers: no epochs, local parts or ===; write for example {of}==12.4.*"


def parse_methods(texts: tuple[str, ...]) -> dict[str, Method]:
    """``--method network --method cudnn=tar`` as a mapping from component ("" for all) to method. Raises UsageError."""
    methods: dict[str, Method] = {}
    for text in texts:
        component, equals, name = text.rpartition("=")
        where = component_named(component) if equals else ""
        found = next((method for method in METHODS if method == name), None)
        if found is None:
            msg = f"{name!r} is not a method"
            raise UsageError(msg, hint=nearest(name, METHODS))
        if methods.get(where, found) != found:
            msg = f"two methods are asked for {where or 'all components'}: {methods[where]} and {found}"
            raise UsageError(msg, hint="give one, or name the component: --method cudnn=tar")
        methods[where] = found
    return methods


def merge(requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    """One requirement a component, in the order given: the clauses of all that name it, together."""
    merged: dict[str, list[str]] = {}
    for requirement in requirements:
        clauses = merged.setdefault(requirement.component, [])
        if requirement.versions and requirement.versions not in clauses:
            clauses.append(requirement.versions)
    return tuple(Requirement(component=name, versions=",".join(clauses)) for name, clauses in merged.items())


def nearest(word: str, names: tuple[str, ...]) -> str:
    """A hint: the names nearest to ``word``, or all of them."""
    import difflib  # noqa: PLC0415 (only on the way to an error)

    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(names)}"
