"""Many reports into one: a host of which nothing is proven has failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from gpustack import __version__
from gpustack.errors import DocumentError, UsageError
from gpustack.fleet.layout import HOST, REPORT, fleet_file, is_name, report_file
from gpustack.model.fleet import Fleet, Member
from gpustack.model.fleet_report import Ended, FleetCheck, FleetHost, FleetReport
from gpustack.model.results import CheckResult, Report

ENDED: tuple[Ended, ...] = ("pass", "fail", "error")
"""In the order in which summaries name them."""

NO_REPORT = "it has no report: verification did not run"
NOTHING_RAN = "no check ran on it: each was skipped"


def merge(folders: Iterable[Path]) -> FleetReport:
    """The report of all hosts of these folders; of a host in several, the last folder counts.

    Raises UsageError for a folder without hosts, DocumentError for a fleet.json that cannot be read.
    """
    found: dict[str, FleetHost] = {}
    for folder in folders:
        for host in _hosts(folder):
            found[host.name] = host
    hosts = tuple(found[name] for name in sorted(found))
    counts = Counter(one.status for one in hosts)
    summary: dict[str, int] = {status: counts[status] for status in ENDED}
    return FleetReport(hosts=hosts, summary={**summary, "total": len(hosts)}, version=__version__)


def exit_code(report: FleetReport) -> int:
    """0 if every host passed, else 1."""
    return int(report.summary["pass"] != report.summary["total"])


def _hosts(folder: Path) -> Iterator[FleetHost]:
    members = {one.name: one for one in _members(folder)}
    try:
        below = sorted(one.name for one in folder.iterdir())
    except OSError as exc:
        msg = f"the folder cannot be read: {exc.strerror or exc}"
        raise UsageError(
            msg, code="unreadable-folder", where=str(folder), hint="name a folder that `gpustack fleet verify` wrote"
        ) from exc
    others = [
        name
        for name in below
        if name not in members and is_name(name) and any((folder / name / one).is_file() for one in (HOST, REPORT))
    ]
    if not members and not others:
        msg = "the folder has no host: neither fleet.json nor HOST/report.json is in it"
        raise UsageError(
            msg, code="no-reports", where=str(folder), hint="`gpustack fleet verify -i INVENTORY --out DIR` writes one"
        )
    for member in (*members.values(), *(Member(name=name) for name in others)):
        yield _host(folder, member)


def _members(folder: Path) -> tuple[Member, ...]:
    path = fleet_file(folder)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Fleet).hosts
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        msg = f"the list of hosts cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise DocumentError(
            msg, code="unreadable-fleet", where=str(path), hint="write the folder again: `gpustack fleet verify`"
        ) from exc


def _host(folder: Path, member: Member) -> FleetHost:
    """What is known of one host. A report next to a reason is of an earlier run: the reason counts."""
    if member.reason or member.state != "answered":
        return _without(member, member.reason or member.state)
    if not is_name(member.name):
        return _without(member, "its name cannot be that of a folder")
    try:
        report = msgspec.json.decode(report_file(folder, member.name).read_bytes(), type=Report)
    except FileNotFoundError:
        return _without(member, NO_REPORT)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        return _without(member, f"its report cannot be read: {getattr(exc, 'strerror', None) or exc}")
    return of_report(member, report)


def _without(member: Member, reason: str) -> FleetHost:
    return FleetHost(name=member.name, status="error", groups=member.groups, reason=reason)


def of_report(member: Member, report: Report) -> FleetHost:
    """The host as its report describes it."""
    host = report.host
    statuses = {one.status for one in report.checks}
    is_proven = "pass" in statuses and "error" not in statuses
    status: Ended = "fail" if "fail" in statuses else "pass" if is_proven else "error"
    counted = Counter(gpu.called for gpu in host.gpus)
    return FleetHost(
        name=member.name,
        status=status,
        groups=member.groups,
        system=" ".join(part for part in (host.os.called, host.arch) if part),
        kernel=host.kernel or "",
        gpus=", ".join(name if count == 1 else f"{count} x {name}" for name, count in counted.items()),
        level=report.level,
        started=report.started,
        reason="" if statuses - {"skip"} else NOTHING_RAN,
        stack=report.stack,
        checks=tuple(map(_check, report.checks)),
    )


def _check(one: CheckResult) -> FleetCheck:
    is_good = one.status == "pass"
    return FleetCheck(
        id=one.id,
        component=one.component,
        status=one.status,
        duration_s=one.duration_s,
        reason="" if is_good else one.reason,
        fix="" if is_good else one.fix,
    )
