"""``fleet verify``: every host's report, by gpustack on the host or by a file that is copied there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gpustack.fleet import layout
from gpustack.fleet.detect import message_of
from gpustack.fleet.engine import FORKS, Event, list_hosts, run_play
from gpustack.fleet.plays import VERIFY, verify_play
from gpustack.fleet.store import write_document
from gpustack.model.fleet import Fleet, Member, State
from gpustack.model.results import Report


def report_in(event: Event) -> Report | None:
    """The report that a host printed; None if it printed something else."""
    try:
        return msgspec.json.decode(str(event.result.get("stdout", "")).encode(), type=Report)
    except (msgspec.DecodeError, UnicodeError):
        return None


def faults_of(report: Report) -> list[str]:
    """What is wrong by a report; also that nothing passed, which proves nothing."""
    found = [f"{one.id}: {one.reason}" for one in report.checks if one.status in {"fail", "error"}]
    if not found and not any(one.status == "pass" for one in report.checks):
        return ["no check passed: nothing was proven"]
    return found


def verify_fleet(
    inventories: Sequence[Path],
    words: Sequence[str],
    folder: Path,
    *,
    limit: str = "",
    program: Path | None = None,
    forks: int = FORKS,
    is_stopped: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Fleet, dict[str, Report]]:
    """Verify the hosts of an inventory and write their reports. Raises UsageError, GpustackError."""
    groups = list_hosts(inventories, limit).groups
    reports: dict[str, Report] = {}
    reasons: dict[str, tuple[State, str]] = {}

    def note(event: Event) -> None:
        if event.kind == "ok" and event.task == VERIFY:
            report = report_in(event)
            if report is not None:
                reports[event.host] = report
            else:
                reasons[event.host] = ("failed", "its verification did not run: it printed no report")
        elif event.kind in {"failed", "unreachable"}:
            state: State = "unreachable" if event.kind == "unreachable" else "failed"
            reasons[event.host] = (state, message_of(event))
        tell(f"{len(reports)} reports, {len(reasons)} hosts without one")

    asked = [name for name in groups if layout.is_name(name)]
    why = ""
    if asked:
        play = verify_play(asked, words, program)
        why = run_play(play, inventories, note=note, is_stopped=is_stopped, forks=forks)
    members = []
    for name, of_host in groups.items():
        if name in reports:
            write_document(layout.report_file(folder, name), reports[name])
            members.append(Member(name=name, groups=of_host))
            continue
        if name in asked:
            layout.report_file(folder, name).unlink(missing_ok=True)
        state, reason = reasons.get(name, ("failed", why or "its name in the inventory cannot be the name of a folder"))
        members.append(Member(name=name, groups=of_host, state=state, reason=reason))
    date = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    shown = tuple(str(path.resolve()) for path in inventories)
    fleet = Fleet(date=date, inventories=shown, limit=limit, hosts=tuple(members))
    write_document(layout.fleet_file(folder), fleet)
    return fleet, reports
