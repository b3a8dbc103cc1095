"""``fleet detect``: the evidence of every host, as host documents in a folder."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import UNSET, structs

from gpustack.detect.build import host_of
from gpustack.detect.captured import evidence_of, unpack
from gpustack.errors import DocumentError
from gpustack.fleet import layout
from gpustack.fleet.declared import module_text
from gpustack.fleet.engine import FORKS, Event, Play, list_hosts, run_play
from gpustack.fleet.peers import remarks_of
from gpustack.matrix.index import Matrix
from gpustack.model.fleet import Fleet, Member, State
from gpustack.model.host import Host
from gpustack.render.yaml_text import Value

MODULE = "gpustack_evidence"
TASK = "Gather the evidence"


def evidence_play(hosts: Sequence[str]) -> Play:
    """The playbook that asks hosts for their evidence."""
    tasks: list[Value] = [{"name": TASK, MODULE: {}}]
    play: Value = {"name": TASK, "hosts": "all", "gather_facts": False, "strategy": "free", "tasks": tasks}
    return Play([play], {f"library/{MODULE}.py": module_text()}, tuple(hosts))


class Answers:
    """The hosts that answered, and why the others did not."""

    def __init__(self, matrix: Matrix, tell: Callable[[str], None] = lambda _: None) -> None:
        self.hosts: dict[str, Host] = {}
        self.reasons: dict[str, tuple[str, str]] = {}
        self._matrix = matrix
        self._tell = tell

    def note(self, event: Event) -> None:
        """Learn one host's answer."""
        if event.kind == "skipped":
            return
        if event.kind == "ok" and "evidence" in event.result:
            try:
                self.hosts[event.host] = host_of(evidence_of(unpack(str(event.result["evidence"]))), self._matrix)
            except DocumentError as exc:
                self.reasons[event.host] = ("failed", exc.message)
        else:
            state = "unreachable" if event.kind == "unreachable" else "failed"
            self.reasons[event.host] = (state, message_of(event))
        self._tell(f"{len(self.hosts)} answered, {len(self.reasons)} did not")


def message_of(event: Event) -> str:
    """What a host or Ansible says about a failure, in one line."""
    told = (event.result.get(name) for name in ("msg", "stderr", "module_stderr", "module_stdout"))
    words = next((one for one in told if one), "no reason given")
    return " ".join(str(words).split())[:500]


def detect_fleet(
    inventories: Sequence[Path],
    matrix: Matrix,
    *,
    limit: str = "",
    forks: int = FORKS,
    is_stopped: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Fleet, dict[str, Host]]:
    """Ask every host; the fleet, and the host documents of those that answered. Raises UsageError."""
    groups = list_hosts(inventories, limit).groups
    nameless = {name for name in groups if not layout.is_name(name)}
    answers = Answers(matrix, tell)
    asked = [name for name in groups if name not in nameless]
    why = ""
    if asked:
        play = evidence_play(asked)
        why = run_play(play, inventories, note=answers.note, is_stopped=is_stopped, forks=forks)
    found = {name: host if host.name else structs.replace(host, name=UNSET) for name, host in answers.hosts.items()}
    remarks = remarks_of(found)
    members = []
    for name, of_host in groups.items():
        state, reason = answers.reasons.get(name, ("failed", why or "Ansible did not ask it"))
        if name in nameless:
            state, reason = "failed", "its name in the inventory cannot be the name of a folder"
        if name in found:
            members.append(Member(name=name, groups=of_host, remarks=remarks.get(name, ())))
        else:
            lost: State = "unreachable" if state == "unreachable" else "failed"
            members.append(Member(name=name, groups=of_host, state=lost, reason=reason))
    fleet = Fleet(
        date=dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
        inventories=tuple(str(path.resolve()) for path in inventories),
        limit=limit,
        hosts=tuple(members),
    )
    return fleet, found
