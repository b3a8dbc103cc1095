"""What a refusal says holds: what it calls nearest lies beside what was requested, and what it suggests is accepted."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from tests.property import worlds

from gpustack.detect.describe import describe
from gpustack.errors import GpustackError, NoSolutionError, UnsupportedError, UsageError
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import Resolution
from gpustack.solve.check import check
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.solve.words import title
from gpustack.versions import version

SOME = 40
SYSTEMS = (
    *worlds.SYSTEMS, "debian13", "ubuntu26.04", "fedora43", "amzn2023", "azurelinux3.0", "rhel7.9", "opensuse-leap15.6",
    "arch", "windows11", "wsl-ubuntu24.04", "l4t36", "kylin10", "alpine3.20",
)  # fmt: skip
BOARDS = {"l4t36": "Jetson AGX Orin", "windows11": "GeForce RTX 3060", "wsl-ubuntu24.04": "GeForce RTX 4070"}
NEAREST = re.compile(r"the nearest (?:known )?are (\d[\d.]*\d) and (\d[\d.]*\d)")
OFFERS = re.compile(r"((?:--method \S+=\S+ ?)+)(?:together )?offers? (.*?) here(, if any version will do)?")
OTHER = re.compile(r"try (\S+)==(\S+), which is (?:compatible|available)")
BUILDS = re.compile(r"are known for CUDA ([\d.x, and]+) only")


def questions(count: int) -> Iterator[tuple[Host, Request]]:
    """Random hosts and requests of exact versions, many of which nothing satisfies; the same ones on every run."""
    chance = random.Random(14)  # noqa: S311 (a seed for examples)
    facts = worlds.facts()
    names = [name for name in POSSIBLE if name in worlds.ASKED]
    for _ in range(count):
        system = chance.choice(SYSTEMS)
        host = describe(facts, os=system, arch=None, gpus=(BOARDS.get(system) or chance.choice(worlds.GPUS),))
        asked = chance.sample(names, chance.randint(1, 3))
        texts = [f"{name}=={chance.choice(facts.releases(name)).version}" for name in asked]
        given = [f"{name}={chance.choice(POSSIBLE[name])}" for name in asked if chance.random() < 0.6]
        yield (
            host,
            Request(requirements=merge(tuple(map(parse_requirement, texts))), methods=parse_methods(tuple(given))),
        )


def resolved(host: Host, request: Request) -> Resolution | NoSolutionError | UnsupportedError | None:
    """The stack, or the refusal; None where the question is wrong."""
    try:
        return resolve(worlds.facts(), host, request)
    except UsageError:
        return None
    except (NoSolutionError, UnsupportedError) as refusal:
        return refusal


def instead(request: Request, requirement: str) -> Request:
    """The request with another requirement of one component."""
    new = parse_requirement(requirement)
    others = tuple(one for one in request.requirements if one.component != new.component)
    return replace(request, requirements=(*others, new))


def faults(host: Host, request: Request, refusal: GpustackError) -> Iterator[str]:
    """What a refusal says that does not hold."""
    text = f"{refusal.message}\n{refusal.hint}"
    wanted = [one.versions.removeprefix("==") for one in request.requirements]
    for low, high in NEAREST.findall(text):
        if not any(version(low) < version(one) < version(high) for one in wanted):
            yield f"nothing that was requested lies between {low} and {high}"
    cuda = next((one.versions.removeprefix("==") for one in request.requirements if one.component == "cuda"), None)
    for builds in BUILDS.findall(text):
        if cuda is not None and any(
            cuda == one or f"{cuda}.".startswith(f"{one.removesuffix('.x')}.") for one in re.findall(r"[\d.x]+", builds)
        ):
            yield f"the CUDA that was requested is among the builds {builds}"
    for words, picks, is_any in OFFERS.findall(refusal.hint):
        methods = parse_methods(tuple(re.findall(r"--method (\S+)", words)))
        varied = replace(request, methods={**request.methods, **methods})
        for component in methods if is_any else ():
            varied = instead(varied, component)
        found = resolved(host, varied)
        if isinstance(found, Resolution):
            have = {f"{title(pick.component)} {pick.version}" for pick in found.picks}
            yield from (f"{words}offers no {one}" for one in picks.split(", ") if one not in have)
        else:
            yield f"{words}is not accepted: {found}"
    for component, number in OTHER.findall(refusal.hint):
        found = resolved(host, instead(request, f"{component}=={number}"))
        if not isinstance(found, Resolution):
            yield f"{component}=={number} is not accepted: {found}"


def failing(count: int) -> Iterator[str]:
    """Every fault among so many questions."""
    for host, request in questions(count):
        refusal = resolved(host, request)
        if isinstance(refusal, GpustackError):
            asked = " ".join(map(str, request.requirements))
            yield from (
                f"{host.os.spelled} {asked} {request.methods}: {fault}" for fault in faults(host, request, refusal)
            )
        verdict = check(worlds.facts(), host, replace(request, methods={}), with_hints=True)
        for component, number in (pair for hint in verdict.hints for pair in OTHER.findall(hint)):
            if check(worlds.facts(), host, instead(replace(request, methods={}), f"{component}=={number}")).conflicts:
                yield f"{host.os.spelled} {request.requirements}: check refuses its hint {component}=={number}"


@pytest.mark.parametrize("count", [SOME, pytest.param(3000, marks=pytest.mark.slow)])
def test_what_a_refusal_says_and_suggests_holds(count: int) -> None:
    found = list(failing(count))
    assert not found, "\n".join(found)


def test_the_questions_are_refused_for_many_reasons_with_suggestions() -> None:
    refusals = [
        found for host, request in questions(SOME) if isinstance(found := resolved(host, request), GpustackError)
    ]
    assert len(refusals) > SOME / 3
    assert any(OFFERS.search(one.hint) or OTHER.search(one.hint) for one in refusals)
