"""Where a plan departs from a wrong or outdated vendor guide, stated in the step that does."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gpustack.plan.context import Context
from gpustack.plan.draft import Draft
from gpustack.plan.preparation import SUBJECT
from gpustack.versions import is_within


class Departure(Struct, frozen=True, kw_only=True):
    """What a guide prints for these versions of a component, and why the step with this key differs."""

    step: str
    component: str
    versions: str = ""
    methods: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    departs: str
    src: tuple[str, ...] = ()


def with_departures(ctx: Context, drafts: Iterable[Draft]) -> list[Draft]:
    """The drafts; those that depart from a guide say so at the end of their reason."""
    rows = [row for row in ctx.matrix.rows(SUBJECT, "departures", Departure) if _holds(ctx, row)]
    return [_state_departures(ctx, one, [row for row in rows if row.step == one.key]) for one in drafts]


def _holds(ctx: Context, row: Departure) -> bool:
    pick = ctx.changes(row.component)
    return (
        pick is not None
        and (not row.versions or is_within(pick.version, row.versions))
        and (not row.methods or pick.method in row.methods)
        and (not row.families or ctx.system.family in row.families)
    )


def _state_departures(ctx: Context, one: Draft, rows: list[Departure]) -> Draft:
    if not rows:
        return one
    why = "; ".join((one.step.why, *(f"departs from NVIDIA's guide, {row.departs}" for row in rows)))
    sources = tuple(dict.fromkeys((*one.step.sources, *ctx.addresses(*rows))))
    return replace(one, step=replace(one.step, why=why, sources=sources))
