"""The plan: decides the order of components, and what must not be planned at all."""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from gpustack.matrix.index import Matrix
from gpustack.model.actions import Verify
from gpustack.model.facts import CHECKED_WITH, COMPONENTS
from gpustack.model.host import Host
from gpustack.model.places import ImageRow, covers
from gpustack.model.plan import BaseImage, Plan, PythonEnvironment, StackEntry
from gpustack.model.request import Request
from gpustack.model.resolution import Pick, Resolution
from gpustack.plan.components import is_runtime
from gpustack.plan.context import Context
from gpustack.plan.departures import with_departures
from gpustack.plan.document import digest_of
from gpustack.plan.draft import Draft, assemble, draft, sha256_of
from gpustack.plan.methods import planner
from gpustack.plan.preflight import check, notes, replace_other_methods
from gpustack.plan.targets import target_steps

_LIBRARIES = ("cuda", "cudnn", "nccl", "tensorrt")
"""Components of which programs load libraries."""

_FIRST_SENTENCES = 3
"""The number of a pick's reasons in its stack entry: what required it, the choice, what refused newer ones."""


def build(host: Host, request: Request, resolution: Resolution, matrix: Matrix) -> Plan:
    """The ordered steps that take ``host`` to ``resolution``.

    Pure: the same input gives the same bytes. Raises UnsupportedError (exit 4) if no method can do it here.
    """
    ctx = Context(host=host, request=request, resolution=resolution, matrix=matrix)
    picks = sorted(resolution.picks, key=_place)
    changing = [pick for pick in picks if pick.state != "keep"]
    check(ctx, changing)
    drafts = notes(ctx, changing)
    for pick in changing:
        drafts += replace_other_methods(ctx, pick)
        drafts += planner(pick.method).drafts(ctx, pick)
    if resolution.frameworks:
        drafts += _frameworks(ctx)
    drafts += target_steps(ctx)
    _warn_of_whole(ctx, changing)
    drafts += _verification(ctx, changing, drafts)
    plan = Plan(
        host=host,
        host_digest=sha256_of(replace(host, name=UNSET)),
        request=request,
        facts=matrix.digest,
        facts_date=matrix.date or UNSET,
        image=_image(ctx),
        stack={pick.component: _entry(ctx, pick) for pick in picks} | _framework_entries(resolution),
        steps=assemble(with_departures(ctx, drafts)),
        warnings=tuple(dict.fromkeys((*resolution.warnings, *ctx.warnings))),
        python=_python_environment(ctx) if resolution.frameworks else UNSET,
    )
    return _sealed(plan)


def _sealed(plan: Plan) -> Plan:
    return replace(plan, digest=digest_of(plan))


def _image(ctx: Context) -> BaseImage | UnsetType:
    """The container image of the host's system, or of the system that a derivative is based on."""
    if ctx.host.environment == "jetson":
        return UNSET
    rows = ctx.matrix.rows("systems", "base_images", ImageRow)
    host = ctx.host.os
    for name, version in ((host.id, host.version_id), (ctx.base.id, ctx.base.version)):
        fitting = [row for row in rows if row.id == name and covers(row.version, version or "")]
        if fitting:
            row = max(fitting, key=lambda row: len(row.version))
            return BaseImage(name=row.image, sources=ctx.addresses(row))
    return UNSET


def _frameworks(ctx: Context) -> list[Draft]:
    from gpustack.plan.frameworks import drafts  # noqa: PLC0415 (few plans have frameworks)

    return drafts(ctx)


def _python_environment(ctx: Context) -> PythonEnvironment:
    from gpustack.plan.frameworks import environment  # noqa: PLC0415 (few plans have frameworks)

    return environment(ctx)


def _framework_entries(resolution: Resolution) -> dict[str, StackEntry]:
    return {
        one.build.component: StackEntry(
            version=one.build.number,
            method="pip",
            reason="; ".join(reason.text for reason in one.reasons),
            sources=tuple(dict.fromkeys(address for reason in one.reasons for address in reason.sources)),
            former=None,
        )
        for one in resolution.frameworks or ()
    }


def _place(pick: Pick) -> int:
    return COMPONENTS.index(pick.component) if pick.component in COMPONENTS else len(COMPONENTS)


def _entry(ctx: Context, pick: Pick) -> StackEntry:
    texts = dict.fromkeys(reason.text for reason in pick.reasons if reason.text)
    sources = dict.fromkeys(address for reason in pick.reasons for address in reason.sources)
    there = ctx.host.installed.get(pick.component)
    return StackEntry(
        version=pick.version,
        method=pick.method,
        reason="; ".join(list(texts)[:_FIRST_SENTENCES]),
        sources=tuple(sources),
        state=pick.state,
        former=there.version if there is not None else None,
        flavour=pick.flavour,
    )


def _warn_of_whole(ctx: Context, picks: list[Pick]) -> None:
    """Warn of components that ``--stage runtime`` does not cut down to their libraries."""
    whole = [pick for pick in picks if pick.component in _LIBRARIES and not is_runtime(ctx, pick)]
    for pick in whole if ctx.request.stage == "runtime" else []:
        ctx.warn(
            f"--stage runtime: {pick.component} {pick.version} by the method {pick.method} comes whole, because no"
            " packages with its libraries alone are known"
        )


def _verification(ctx: Context, picks: list[Pick], drafts: list[Draft]) -> list[Draft]:
    """The step that verifies what was changed; none if no check covers it."""
    names = dict.fromkeys(CHECKED_WITH.get(pick.component, pick.component) for pick in picks)
    names.pop("", None)
    python = ""
    if ctx.resolution.frameworks:
        from gpustack.plan.frameworks import verified  # noqa: PLC0415 (few plans have frameworks)

        more, python = verified(ctx)
        names.update(dict.fromkeys(more))
    if not names:
        return []
    step = draft(
        "verify",
        after=[one.key for one in drafts if one.step.kind not in {"note", "download"}],
        component="",
        kind="run",
        title="verify the stack",
        why="a successful installation does not prove that a GPU computes",
        actions=(Verify(components=tuple(names), python=python),),
        needs_root=False,
        undo_note="it reads only",
        phase="verification",
    )
    return [step]
