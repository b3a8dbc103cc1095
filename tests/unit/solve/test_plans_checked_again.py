"""What `plan` chooses is asked of `check` again: incompatible or unknown only where the plan warns of it.

The first is a toolkit that does not compile on the system, and was asked for by its version all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

import pytest
from tests.golden_plans import (
    BOARDS,
    DRIVERLESS,
    ERAS,
    NEWEST,
    POWER_DRIVER,
    SERVER_ARCHITECTURES,
    Case,
    cases,
    host_of,
    matrix,
    name_of,
    outcome,
    request_of,
)

from gpustack.errors import GpustackError
from gpustack.model.places import System
from gpustack.model.request import Request
from gpustack.model.resolution import Resolution
from gpustack.plan.targets import demand_host
from gpustack.solve.check import check
from gpustack.solve.question import Question
from gpustack.solve.requirements import parse_methods, parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.solve.search import Search

QUICK = {"ubuntu24.04", "debian12", "debian13", "rhel9", "sles15.7", "azurelinux3.0", "windows11", "l4t36"}


def is_told(reason: str, warnings: Iterable[str]) -> bool:
    """Whether a plan warns of what refuses a toolkit: that it does not compile with the system's C library."""
    statement = re.split(r"\. (?:This host has|The default of [^.]* is) glibc ", reason)[0]
    return statement != reason and any(statement in warning for warning in warnings)


Resolved = Iterable[tuple[Case, Resolution]]


def faults(resolved: Resolved) -> Iterator[str]:
    """What is wrong with the answers to these stacks."""
    seen = set()
    for case, resolution in resolved:
        stack = tuple(f"{pick.component}=={pick.version}" for pick in resolution.picks)
        key = (case.os, case.arch, case.gpus, stack)
        if key in seen:
            continue
        seen.add(key)
        requirements = tuple(parse_requirement(text) for text in stack)
        request = Request(requirements=requirements, methods=parse_methods(case.methods))
        verdict = check(matrix(), host_of(case), request)
        where = f"{case} {case.arch}: {' '.join(stack)}"
        untold = [one.reason for one in verdict.conflicts if not is_told(one.reason, resolution.warnings)]
        if untold:
            yield f"{where}: {untold[0]}"
        if not verdict.conflicts and (verdict.verdict == "unknown") != bool(resolution.unknown):
            yield f"{where}: {verdict.verdict}, {[one.reason for one in verdict.unknown or resolution.unknown]}"
        silent = [one.reason for one in verdict.unknown if one.reason not in resolution.warnings]
        if silent:
            yield f"{where}: no warning of {silent[0]}"


def golden(system: str) -> Resolved:
    """The stacks of the golden plans of a system."""
    for case in cases()[system]:
        if (found := outcome(case).resolution) is not None:
            yield case, found


def resolved(cases_of_system: Iterable[Case]) -> Resolved:
    """The first stack that there is of what each case asks for, one after the other."""
    for case in cases_of_system:
        for asked in case.asked:
            try:
                host, request = host_of(case), request_of(case, asked)
                demand_host(matrix(), host, request)
                if Search(Question(matrix(), host, request, mode="plan")).best() is None:
                    continue  # the explanation of a refusal costs more than all answers, and is not asked for
                yield case, resolve(matrix(), host, request)
            except GpustackError:
                continue
            break


@pytest.mark.parametrize(
    "system", [name if name in QUICK else pytest.param(name, marks=pytest.mark.gate) for name in cases()]
)
def test_the_plans_of_a_system_stand_before_check(system: str) -> None:
    found = list(faults(golden(system)))
    assert not found, "\n".join(found)


def whole(row: System) -> Iterator[Case]:
    """Every method and era, on every architecture that the system has, on boards of several generations."""
    servers = [SERVER_ARCHITECTURES[word] for word in row.arch if word in SERVER_ARCHITECTURES]
    arches = ["aarch64"] if row.id == "l4t" else ["x86_64", *servers]
    for arch, method in product(dict.fromkeys(arches), NEWEST):
        boards = {"Jetson AGX Orin"} if row.id == "l4t" else {BOARDS[arch], "Tesla T4", "H200", "GeForce RTX 5090"}
        for number, texts in enumerate((NEWEST[method], *((text,) for text in ERAS[method]))):
            asked = tuple(
                " ".join(word for word in text.split() if word != "driver" or row.id not in DRIVERLESS)
                for text in texts
            )
            for board in sorted(boards):
                driver = POWER_DRIVER if arch == "ppc64le" else None
                yield Case(name_of(row), f"{method}{number}", asked, (method,), (board,), arch=arch, driver=driver)


def distinct() -> dict[str, System]:
    """One system for each set of what plans and answers depend on; those of the same set have the same grid."""
    found: dict[tuple[object, ...], System] = {}
    for row in matrix().systems:
        base = matrix().system(row.base) or row
        libraries = (row.gcc or base.gcc, row.glibc or base.glibc, row.python or base.python, row.glibc_least)
        offers = (
            row.family,
            row.manager,
            row.repo,
            row.no_repo,
            row.binaries,
            row.is_read_only,
            row.support,
            row.rolling,
        )
        found.setdefault((*libraries, *offers, row.arch, row.kernel), row)
    return {name_of(row): row for row in found.values()}


SAMPLE = {"almalinux8", "sles15.6", "ubuntu24.04"}
"""The systems whose whole grid the gate asks; all of them take five minutes."""


@pytest.mark.parametrize(
    "system",
    [pytest.param(name, marks=pytest.mark.gate if name in SAMPLE else pytest.mark.slow) for name in distinct()],
)
def test_every_plan_of_the_whole_grid_stands_before_check(system: str) -> None:
    found = list(faults(resolved(whole(distinct()[system]))))
    assert not found, "\n".join(found)


def test_the_grid_plans_something() -> None:
    """That nothing is wrong means that something was asked."""
    case = next(case for case in cases()["ubuntu24.04"] if case.methods == ("network",))
    assert resolve(matrix(), host_of(case), request_of(case, case.asked[0])).picks
