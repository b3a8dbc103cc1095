"""``fleet apply``: the plans of a fleet's classes, carried out in waves."""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from gpustack.errors import GpustackError, UsageError
from gpustack.fleet import layout
from gpustack.fleet.detect import Answers, evidence_play, message_of
from gpustack.fleet.drain import Drain, DrainError
from gpustack.fleet.engine import Event, Play, leftovers, run_play
from gpustack.fleet.groups import without_identity
from gpustack.fleet.journal import Journal, Phase
from gpustack.fleet.plays import DONE, TAKE, VERIFY, apply_play
from gpustack.fleet.store import write_document
from gpustack.fleet.verify import faults_of, report_in
from gpustack.fleet.waves import in_turn, parse_limit, parse_waves
from gpustack.install.run.host_changed import demand_same_host
from gpustack.matrix.index import Matrix
from gpustack.model.fleet import Fleet, FleetPlan, Member
from gpustack.model.plan import Plan
from gpustack.model.results import Level, Report

LOCK = "apply.lock"


class Choices(NamedTuple):
    """How the plan is carried out. ``level`` None means that nothing is verified."""

    waves: str
    most_failures: str
    level: Level | None
    program: Path | None
    reboots: bool
    forks: int


class Outcome(NamedTuple):
    """The last phase of each host with its reason, hosts that no wave reached, and whether it was stopped."""

    phases: dict[str, tuple[Phase, str]]
    untouched: tuple[str, ...]
    why: str
    is_stopped: bool


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the lock of a plan's folder. Raises GpustackError if another run has it."""
    path = folder / LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        msg = f"cannot be written: {exc.strerror or exc}"
        raise GpustackError(msg, code="not-writable", where=str(path), hint="make it writable") from exc
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        owner = os.pread(handle, 200, 0).decode("utf-8", "replace").strip()
        os.close(handle)
        msg = f"another run of this plan works: {owner}"
        raise GpustackError(msg, code="fleet-running", where=str(path), hint="wait for its end") from exc
    try:
        if running := leftovers(str(folder.resolve())):
            msg = f"Ansible of a killed run still works: process {', '.join(map(str, running))}"
            raise GpustackError(msg, code="fleet-running", where=str(path), hint="wait for its end, or end it")
        with suppress(OSError):  # for the message of others alone
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


class Application:
    """One run over a fleet's plan."""

    def __init__(
        self,
        folder: Path,
        made: FleetPlan,
        plans: Mapping[str, Plan],
        drain: Drain,
        matrix: Matrix,
        choices: Choices,
        *,
        tell: Callable[[str], None],
        is_stopped: Callable[[], bool],
        is_ended: Callable[[], bool],
    ) -> None:
        """``is_stopped``: begin no further wave; ``is_ended``: end what runs, too."""
        self._folder = folder
        self._plans = plans
        self._drain = drain
        self._matrix = matrix
        self._choices = choices
        self._tell = tell
        self._is_stopped = is_stopped
        self._is_ended = is_ended
        self._inventories = [Path(path) for path in made.inventories]
        self._made = made
        self._class = {host: one.name for one in made.classes if one.steps for host in one.hosts}
        self._order = in_turn([one.hosts for one in made.classes if one.steps])
        self._reports: dict[str, Report] = {}
        self.journal = Journal(folder)
        self.run_id = f"gpustack-{_digest(made)}"

    def demand_resume(self, *, resumes: bool) -> None:
        """Raise UsageError if an earlier run is unfinished and shall not be resumed, or nothing is there to resume."""
        unfinished = [host for host in self.journal.now if not self.journal.is_done(host)]
        if unfinished and not resumes:
            msg = f"an earlier run left {len(unfinished)} hosts unfinished: {', '.join(unfinished[:5])}"
            hint = "continue it with --resume, or plan the fleet again into another folder"
            raise UsageError(msg, code="paused", where=str(self._folder), hint=hint)

    def run(self) -> Outcome:
        """Carry the plan out, wave by wave."""
        total = len(self._order)
        if not total:
            return Outcome({}, (), "", is_stopped=False)
        ends = parse_waves(self._choices.waves, total)
        most = parse_limit(self._choices.most_failures, total)
        begun, why, failed = 0, "", 0
        for number, end in enumerate(ends, 1):
            wave = [host for host in self._order[begun:end] if not self.journal.is_done(host)]
            if self._is_stopped():
                break
            begun = end
            if wave:
                self._tell(f"wave {number} of {len(ends)}: {len(wave)} hosts")
                self._wave(wave)
            failed = sum(self._has_failed(host) for host in self._order[:end])
            if failed > most and end < total:
                allowed = f"--max-fail {self._choices.most_failures} allows"
                why = f"{failed} hosts failed, more than {allowed}: later waves were not begun"
                break
        self._save_reports()
        now = {host: self.journal.now[host] for host in self._order if host in self.journal.now}
        phases = {host: (record.phase, record.reason) for host, record in now.items()}
        untouched = tuple(host for host in self._order if host not in phases)
        return Outcome(phases, untouched, why, is_stopped=self._is_stopped())

    def _has_failed(self, host: str) -> bool:
        return host in self.journal.now and self.journal.now[host].phase in {"failed", "stale"}

    def _play(self, play: Play, note: Callable[[Event], None]) -> str:
        forks, mark = self._choices.forks, str(self._folder.resolve())
        return run_play(play, self._inventories, note=note, is_stopped=self._is_ended, forks=forks, mark=mark)

    def _wave(self, wave: list[str]) -> None:
        ready = self._drained(self._current(wave))
        if not ready or self._is_ended():
            return
        for host in ready:
            self.journal.write(host, "begun")
        choices = self._choices
        play = apply_play(
            {host: self._class[host] for host in ready},
            self._plans,
            run=self.run_id,
            level=choices.level,
            program=choices.program,
            reboots=choices.reboots,
        )
        why = run_play(
            play,
            self._inventories,
            note=self._note,
            is_stopped=self._is_ended,
            forks=choices.forks,
            mark=str(self._folder),
        )
        for host in ready:
            if self.journal.now[host].phase == "begun" and not self._is_ended():
                self.journal.write(host, "failed", why or "Ansible ended before it came to the end of this host")
        self._returned([host for host in ready if self.journal.now[host].phase == "verified"])

    def _current(self, wave: list[str]) -> list[str]:
        """The hosts that are still those of the plan; of a host that a run has begun, only its system is compared."""
        fresh = [host for host in wave if host not in self.journal.touched]
        if not fresh:
            return wave
        answers = Answers(self._matrix)
        why = self._play(evidence_play(fresh), answers.note)
        current = {name for name in fresh if self._is_current(name, answers, why)}
        return [host for host in wave if host in self.journal.touched or host in current]

    def _is_current(self, name: str, answers: Answers, why: str) -> bool:
        if name not in answers.hosts:
            if not self._is_ended():
                self.journal.write(name, "failed", answers.reasons.get(name, ("", why or "it gave no answer"))[1])
            return False
        try:
            demand_same_host(self._plans[self._class[name]], without_identity(answers.hosts[name]))
        except UsageError as exc:
            self.journal.write(name, "stale", exc.message)
            return False
        return True

    def _drained(self, hosts: list[str]) -> list[str]:
        """The hosts that are out of service now."""
        with ThreadPoolExecutor(max_workers=max(1, min(self._choices.forks, len(hosts)))) as pool:
            told = list(pool.map(self._out, hosts))
        for host, (was_out, why) in zip(hosts, told, strict=True):
            if why:
                self.journal.write(host, "failed", f"it was not taken out of service: {why}")
            elif host not in self.journal.drained:
                self.journal.write(host, "drained", was_out=was_out)
        return [host for host, (_, why) in zip(hosts, told, strict=True) if not why]

    def _out(self, host: str) -> tuple[bool, str]:
        try:
            return self._drain.out(host), ""
        except DrainError as exc:
            return False, str(exc)

    def _returned(self, hosts: list[str]) -> None:
        """Put verified hosts back into service, but for those that were out before."""
        for host in hosts:
            was_out = host in self.journal.was_out
            why = "" if was_out else self._back(host)
            if why:
                self.journal.write(host, "failed", f"it was not returned to service: {why}")
            else:
                self.journal.write(host, "done", "it was out of service before" if was_out else "")

    def _back(self, host: str) -> str:
        try:
            self._drain.back(host)
        except DrainError as exc:
            return str(exc)
        return ""

    def _note(self, event: Event) -> None:
        """Learn what happened on a host."""
        host = event.host
        if host not in self._class or event.kind == "skipped":
            return
        if event.kind != "ok":
            words = message_of(event)
            if event.task == TAKE:
                words = f"another run works on it: {event.result.get('stdout') or words}"
            elif event.task == VERIFY:
                words = f"its verification did not run: {words}"
            self.journal.write(host, "failed", f"{event.task}: {words}" if event.task not in {TAKE, VERIFY} else words)
        elif event.task == DONE:
            self.journal.write(host, "applied")
            if self._choices.level is None:
                self.journal.write(host, "verified", "not verified: --gate none")
        elif event.task == VERIFY:
            self._judge(host, event)

    def _judge(self, host: str, event: Event) -> None:
        report = report_in(event)
        if report is None:
            self.journal.write(host, "failed", "its verification did not run: it printed no report")
            return
        self._reports[host] = report
        faults = faults_of(report)
        if faults:
            self.journal.write(host, "failed", "; ".join(faults)[:1000])
        else:
            self.journal.write(host, "verified")

    def _save_reports(self) -> None:
        """Write the reports, and the document that names the hosts that gave none."""
        folder = self._folder / layout.REPORTS
        members = []
        for host in sorted(self._class):
            record = self.journal.now.get(host)
            if host in self._reports:
                write_document(layout.report_file(folder, host), self._reports[host])
            has_report = host in self._reports or layout.report_file(folder, host).exists()
            reason = "" if has_report else (record.reason if record and record.reason else "it was not verified")
            members.append(Member(name=host, state="answered" if has_report else "failed", reason=reason))
        date = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
        write_document(
            layout.fleet_file(folder), Fleet(date=date, inventories=self._made.inventories, hosts=tuple(members))
        )


def _digest(made: FleetPlan) -> str:
    import hashlib  # noqa: PLC0415

    return hashlib.sha256(msgspec.json.encode(made, order="sorted")).hexdigest()[:16]
