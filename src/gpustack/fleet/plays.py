"""The playbooks of ``fleet apply`` and ``fleet verify``: one play, where each host includes the role of its class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpustack.fleet.engine import INVENTORY, Play
from gpustack.model.plan import Plan
from gpustack.model.results import Level
from gpustack.render.ansible_roles import role
from gpustack.render.ansible_tasks import Expression
from gpustack.render.api import without_verification
from gpustack.render.yaml_text import Value, lines

TAKE = "Take this host for the plan"
DONE = "Everything is as planned"
VERIFY = "Verify the stack"
FOLDER = "/var/lib/gpustack"
LOCK = f"{FOLDER}/fleet.lock"
"""A link on the host whose target names the plan that works on it: made in one step, so only one run gets it."""

PROGRAM = f"{FOLDER}/gpustack"
"""Where ``--program FILE`` is on the host."""


def role_name(name: str) -> str:
    """The role, and the inventory group, of a class of hosts."""
    return f"gpustack_{name}"


def apply_play(
    hosts: Mapping[str, str],
    plans: Mapping[str, Plan],
    *,
    run: str,
    level: Level | None,
    program: Path | None,
    reboots: bool,
) -> Play:
    """The playbook for ``hosts``, which maps each to its class. ``run`` names the plan; no level: no verification."""
    files: dict[str, str] = {}
    for name in sorted({*hosts.values()}):
        files |= role(role_name(name), without_verification(plans[name]) if level else plans[name])
    files[INVENTORY] = _inventory(hosts, plans, level)
    block: list[Value] = [
        {
            "name": "Carry out the plan of its class",
            "ansible.builtin.include_role": {"name": Expression("{{ gpustack_role }}")},
        },
        {"name": "Run what the steps notify", "ansible.builtin.meta": "flush_handlers"},
        {"name": DONE, "ansible.builtin.debug": {"msg": DONE}},
        *(_verification(program) if level else []),
    ]
    free: Value = {"name": "Release this host", "ansible.builtin.file": {"path": LOCK, "state": "absent"}, **_QUIET}
    play: dict[str, Value] = {
        "name": "Carry out the plans of a fleet",
        "hosts": "all",
        "strategy": "free",
        "gather_facts": True,
        "become": True,
        "force_handlers": True,
        "tasks": [*_lock(run), {"name": "Work", "block": block, "always": [free]}],
    }
    if not reboots:
        play["vars"] = {"gpustack_reboot": False}
    return Play([play], files, tuple(hosts))


def verify_play(hosts: Sequence[str], words: Sequence[str], program: Path | None) -> Play:
    """The playbook that verifies hosts; ``words`` are the arguments of ``gpustack verify``."""
    inventory: Value = {"all": {"vars": {"gpustack_verify": list(words)}, "hosts": {host: {} for host in hosts}}}
    play: Value = {
        "name": VERIFY,
        "hosts": "all",
        "strategy": "free",
        "gather_facts": False,
        "become": True,
        "tasks": _verification(program),
    }
    return Play([play], {INVENTORY: "\n".join(["---", *lines(inventory), ""])}, tuple(hosts))


_QUIET: dict[str, Value] = {"changed_when": False}


def _lock(run: str) -> list[Value]:
    folder: Value = {"path": FOLDER, "state": "directory", "mode": "0755"}
    return [
        {"name": "Make the folder of gpustack", "ansible.builtin.file": folder, **_QUIET},
        {
            "name": "Lock this host",
            "ansible.builtin.command": {"argv": ["ln", "-s", run, LOCK]},
            "failed_when": False,
            **_QUIET,
        },
        {
            "name": TAKE,
            "ansible.builtin.command": {"argv": ["readlink", LOCK]},
            "register": "gpustack_lock",
            "failed_when": f"gpustack_lock.rc != 0 or gpustack_lock.stdout != '{run}'",
            **_QUIET,
        },
    ]


def _verification(program: Path | None) -> list[Value]:
    tasks: list[Value] = []
    if program is not None:
        copy: Value = {"src": str(program.resolve()), "dest": PROGRAM, "mode": "0755"}
        tasks += [
            {
                "name": "Make the folder of gpustack",
                "ansible.builtin.file": {"path": FOLDER, "state": "directory", "mode": "0755"},
                **_QUIET,
            },
            {"name": "Copy gpustack to this host", "ansible.builtin.copy": copy, **_QUIET},
        ]
    argv = Expression(
        f"{{{{ ['{PROGRAM if program else 'gpustack'}', 'verify'] + gpustack_verify + ['--format', 'json'] }}}}"
    )
    tasks.append(
        {
            "name": VERIFY,
            "ansible.builtin.command": {"argv": argv},
            "register": "gpustack_report",
            "failed_when": "gpustack_report.rc not in [0, 1]",
            **_QUIET,
        }
    )
    return tasks


def _inventory(hosts: Mapping[str, str], plans: Mapping[str, Plan], level: Level | None) -> str:
    children: dict[str, Value] = {}
    for name in sorted({*hosts.values()}):
        mine = [host for host, of_class in hosts.items() if of_class == name]
        words: list[Value] = [*plans[name].stack, "--level", level or "quick"]
        variables: Value = {"gpustack_role": role_name(name), "gpustack_verify": words}
        children[role_name(name)] = {"vars": variables, "hosts": {host: {} for host in mine}}
    return "\n".join(["---", *lines({"all": {"children": children}}), ""])
