"""``fleet plan``: one plan for each class of equal hosts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping

from gpustack.errors import GpustackError
from gpustack.fleet.groups import Requirements, gpus_of, grouped, names_of
from gpustack.model.fleet import Fleet, FleetPlan, HostClass, Member, Refusal
from gpustack.model.host import Host
from gpustack.model.plan import Plan

Planner = Callable[[Host, Requirements], Plan]
"""Makes the plan of one host; raises GpustackError where no stack suits it."""


def plan_fleet(
    fleet: Fleet,
    hosts: Iterable[tuple[str, Host]],
    requirements: Mapping[str, Requirements],
    planner: Planner,
    *,
    facts: str,
    allowed: Iterable[str] = (),
) -> tuple[FleetPlan, dict[str, Plan]]:
    """The plan of the fleet, and the plans of its classes by name.

    Hosts without an answer, without a GPU, or with fewer GPUs than their peers are omitted, unless ``allowed``.
    """
    wanted = {*allowed}
    omitted = [member for member in fleet.hosts if member.state != "answered"]
    left: dict[str, Member] = {}
    for member in fleet.hosts:
        if member.state == "answered" and (not member.remarks or member.name in wanted):
            left[member.name] = member
        elif member.state == "answered":
            omitted.append(member)
    classes = grouped(((name, host) for name, host in hosts if name in left), requirements)
    plans: dict[str, Plan] = {}
    described = []
    for name, (host, asked, members) in zip(names_of(classes), classes, strict=True):
        made, refused = _planned(planner, host, asked)
        if made is not None:
            plans[name] = made
        described.append(_class(name, host, asked, members, made, refused))
    return (
        FleetPlan(
            date=dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
            inventories=fleet.inventories,
            limit=fleet.limit,
            facts=facts,
            classes=tuple(described),
            omitted=tuple(sorted(omitted, key=lambda one: one.name)),
        ),
        plans,
    )


def _planned(planner: Planner, host: Host, asked: Requirements) -> tuple[Plan | None, Refusal | None]:
    try:
        return planner(host, asked), None
    except GpustackError as exc:
        if exc.exit_code not in {3, 4}:
            raise  # wrong for every host: an unknown component, a malformed requirement
        return None, Refusal(id=exc.code, message=exc.message, hint=exc.hint)


def _class(
    name: str, host: Host, asked: Requirements, members: list[str], plan: Plan | None, refused: Refusal | None
) -> HostClass:
    entries = {} if plan is None else plan.stack
    stack: dict[str, tuple[str | None, str | None]] = {
        one: (entry.former or None, entry.version) for one, entry in entries.items()
    }
    artifacts = () if plan is None else (file for step in plan.steps for file in step.artifacts)
    return HostClass(
        name=name,
        hosts=tuple(members),
        requirements=asked,
        system=host.os.called,
        kernel=host.kernel or "",
        gpus=gpus_of(host),
        stack=stack,
        steps=0 if plan is None else len(plan.steps),
        reboot=plan is not None and any(step.reboot_after for step in plan.steps),
        download=sum(file.size or 0 for file in artifacts),
        digest="" if plan is None else plan.digest,
        warnings=() if plan is None else plan.warnings,
        refused=refused,
    )
