"""``fleet plan --what-if``: which classes of hosts a release would suit, by the verdicts of ``check``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gpustack.fleet.groups import Requirements, gpus_of, grouped, names_of
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement, split_frameworks


class Judged(Struct, frozen=True, kw_only=True):
    """What the facts say about one class of hosts: conflicts, unknown pairs, and open bulletins among its warnings."""

    name: str
    hosts: tuple[str, ...]
    gpus: str
    verdict: str
    reasons: tuple[str, ...] = ()


def judge_fleet(
    matrix: Matrix, hosts: Iterable[tuple[str, Host]], requirements: Mapping[str, Requirements]
) -> list[Judged]:
    """A verdict for each class. Raises UsageError for a malformed requirement."""
    classes = grouped(hosts, requirements)
    return [
        _judged(matrix, name, host, asked, members)
        for name, (host, asked, members) in zip(names_of(classes), classes, strict=True)
    ]


def _judged(matrix: Matrix, name: str, host: Host, asked: Requirements, members: list[str]) -> Judged:
    stack, frameworks = split_frameworks(merge(tuple(parse_requirement(text) for text in asked)))
    request = Request(requirements=stack, frameworks=frameworks) if frameworks else Request(requirements=stack)
    found = check(matrix, host, request)
    reasons = [f"{' with '.join(one.between)}: {one.reason}" for one in found.conflicts]
    reasons += [f"unknown: {one.reason}" for one in found.unknown]
    reasons += [f"warning: {text}" for text in found.warnings]
    reasons += [f"bulletin open: {one.reason}" for one in found.security]
    return Judged(name=name, hosts=tuple(members), gpus=gpus_of(host), verdict=found.verdict, reasons=tuple(reasons))
