"""Ansible as a fleet uses it: the hosts of an inventory, and playbooks over them. The only importer of the runner."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gpustack.errors import GpustackError, UsageError
from gpustack.render.yaml_text import Value, lines
from gpustack.system.files import write_atomically
from gpustack.system.run import LocalRunner

ENVIRONMENT = {
    "ANSIBLE_HOST_KEY_CHECKING": os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
    "ANSIBLE_RETRY_FILES_ENABLED": "False",
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
    "ANSIBLE_DEPRECATION_WARNINGS": "False",
    "ANSIBLE_LOCALHOST_WARNING": "False",
    "ANSIBLE_NOCOLOR": "True",
}
"""What differs from the user's own settings of Ansible: a broken inventory is an error, not an empty one."""

FORKS = 20
"""So many hosts are worked on at a time, unless the user says otherwise."""

INVENTORY = "inventory.yml"
"""The file of a playbook with the variables of its hosts, which is added to the user's inventories."""

_PATIENCE_S = 120.0
_WORST = 3000


class Event(NamedTuple):
    """What happened to one task on one host: ``kind`` is ok, failed, unreachable or skipped."""

    kind: str
    host: str
    task: str
    result: dict[str, Any]


class Listing(NamedTuple):
    """The hosts that an inventory and a pattern select, and the groups of each."""

    groups: dict[str, tuple[str, ...]]


def demand_engine() -> None:
    """Raise UsageError if Ansible is not installed next to this program."""
    missing = [name for name in ("ansible_runner", "ansible") if find_spec(name) is None]
    if missing:
        msg = f"{' and '.join(missing)} is not installed next to gpustack"
        raise UsageError(msg, code="tool-missing", hint="install the extra: gpustack-provision[fleet]")


def list_hosts(inventories: Sequence[Path], limit: str = "") -> Listing:
    """The hosts of the inventories. Raises UsageError if Ansible refuses one, or no host matches."""
    demand_engine()
    words = [word for path in inventories for word in ("-i", str(path))]
    if limit:
        words += ["--limit", limit]
    argv = (_program("ansible-inventory"), "--list", *words)
    done = LocalRunner().run(argv, timeout=_PATIENCE_S, env=ENVIRONMENT)
    where = ", ".join(map(str, inventories))
    if done.code != 0:
        why = " ".join((done.error or done.err or done.out).split())[:_WORST]
        msg = f"Ansible refuses the inventory: {why}"
        raise UsageError(msg, code="inventory-refused", where=where, hint=f"try: ansible-inventory -i {where} --graph")
    try:
        document = msgspec.json.decode(done.out.encode(), type=dict[str, Any])
    except msgspec.DecodeError as exc:
        msg = f"ansible-inventory printed no JSON: {exc}"
        raise UsageError(msg, code="inventory-refused", where=where, hint="run ansible-inventory --list") from exc
    found = _groups(document)
    if not found:
        msg = f"no host matches {limit!r}" if limit else "the inventory has no host"
        raise UsageError(msg, code="inventory-refused", where=where, hint=f"try: ansible-inventory -i {where} --graph")
    return Listing(dict(sorted(found.items())))


def _groups(document: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The groups of each host, those above too, in the order of their names."""
    above: dict[str, set[str]] = {}
    for name, group in document.items():
        for child in group.get("children", ()) if name != "_meta" else ():
            above.setdefault(child, set()).add(name)
    found: dict[str, set[str]] = {}
    for name, group in document.items():
        for host in group.get("hosts", ()) if name != "_meta" else ():
            waiting, seen = [name], found.setdefault(host, set())
            while waiting:
                one = waiting.pop()
                if one not in seen:
                    seen.add(one)
                    waiting += above.get(one, ())
    return {host: tuple(sorted(groups - {"all", "ungrouped"})) for host, groups in found.items()}


def _program(name: str) -> str:
    own = Path(sys.executable).with_name(name)
    return str(own) if own.exists() else name


def leftovers(mark: str) -> list[int]:
    """The processes of Ansible that a killed run with this mark has left."""
    wanted = f"GPUSTACK_FLEET={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
            if wanted in path.read_bytes().split(b"\0") and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return sorted(found)


class Play(NamedTuple):
    """A playbook to run: its plays, the files next to it by path, and the hosts."""

    plays: list[Value]
    files: dict[str, str]
    hosts: tuple[str, ...]


def run_play(
    play: Play,
    inventories: Sequence[Path],
    *,
    note: Callable[[Event], None],
    is_stopped: Callable[[], bool],
    forks: int = FORKS,
    mark: str = "",
) -> str:
    """Run a playbook over its hosts; "" if Ansible came to its end, else why it did not, in its own words.

    ``note`` learns each end of a task. ``is_stopped`` is asked every second; once it is true, Ansible is ended.
    ``mark`` is in the environment of its processes. Raises GpustackError if the folder for it cannot be written.
    """
    import ansible_runner  # noqa: PLC0415 (only fleets need it)

    with tempfile.TemporaryDirectory(prefix="gpustack-fleet-") as folder:
        try:
            _write(Path(folder), play)
        except OSError as exc:
            msg = f"cannot be written: {exc.strerror or exc}"
            hint = "make room on that file system, or name another with TMPDIR"
            raise GpustackError(msg, code="not-writable", where=folder, hint=hint) from exc
        told: list[str] = []
        ended = ansible_runner.run(
            private_data_dir=folder,
            playbook="playbook.yml",
            inventory=[
                *(str(path.resolve()) for path in inventories),
                *(f"{folder}/project/{name}" for name in play.files if name == INVENTORY),
            ],
            limit=f"@{folder}/limit",
            envvars={
                **ENVIRONMENT,
                "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
                "ANSIBLE_FORKS": str(forks),
                "ANSIBLE_ROLES_PATH": f"{folder}/project/roles",
                "GPUSTACK_FLEET": mark,
            },
            settings={"pexpect_timeout": 1},
            quiet=True,
            event_handler=lambda event: _handle(event, note, told),
            cancel_callback=is_stopped,
        )
    if ended.status == "canceled":
        return "it was stopped"
    # 2 and 4: tasks failed, or hosts were unreachable; their events say so.
    return "" if ended.rc in {0, 2, 4} and not _is_refused(told) else _why(told, ended.rc)


def _is_refused(told: list[str]) -> bool:
    has_error = any(line.startswith("ERROR!") or "[ERROR]: " in line[:20] for line in told)
    return has_error and not any("PLAY" in line for line in told)


def _why(told: list[str], code: object) -> str:
    words = [line.strip() for line in told if line.strip()]
    return " ".join(words[-12:])[-_WORST:] or f"ansible-playbook ended with {code}"


def _handle(event: dict[str, Any], note: Callable[[Event], None], told: list[str]) -> bool:
    """Pass an event on; no file is kept of it."""
    kind = str(event.get("event", ""))
    data = event.get("event_data") or {}
    if kind in {"runner_on_ok", "runner_on_failed", "runner_on_unreachable", "runner_on_skipped"}:
        failed = kind == "runner_on_failed" and data.get("ignore_errors")
        result = data.get("res")
        note(
            Event(
                "ok" if failed else kind.removeprefix("runner_on_"),
                str(data.get("host", "")),
                str(data.get("task", "")),
                result if isinstance(result, dict) else {},
            )
        )
    elif kind in {"verbose", "error", "warning", "playbook_on_play_start"}:
        told.append(str(event.get("stdout", "")))
    return False


def _write(folder: Path, play: Play) -> None:
    (folder / "project").mkdir()
    (folder / "limit").write_text("".join(f"{host}\n" for host in play.hosts), encoding="utf-8")
    texts = {"playbook.yml": "\n".join(["---", *lines(play.plays), ""]), **play.files}
    for name, text in texts.items():
        path = folder / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
