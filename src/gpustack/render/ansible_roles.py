"""Several plans for Ansible: one role per distinct plan, an inventory that groups the hosts, and a playbook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from gpustack.errors import UsageError
from gpustack.model.plan import Plan
from gpustack.plan.draft import sha256_of
from gpustack.render.ansible import SERIAL, Parts, blocks, guards_of, parts_of, settings_of
from gpustack.render.templating import fill
from gpustack.render.yaml_text import Value, lines

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOTHING = "gpustack_nothing"
_COLLECTION = "community.general"
INVENTORY = "inventory.yml"
_WRITTEN = "written by gpustack"
"""In the first lines of every file: marks those that may be rewritten."""


class _Group(NamedTuple):
    """The hosts of one role; ``parts`` has no tasks if nothing is to be done."""

    name: str
    parts: Parts
    hosts: list[str]


def tree(plans: Mapping[str, Plan]) -> dict[str, str]:
    """The files by path, for plans by host name. Raises UsageError for an invalid name."""
    groups = _groups(plans)
    found = {INVENTORY: _inventory(groups), "playbook.yml": _playbook(groups)}
    if any(group.parts.needs_collection for group in groups):
        found["requirements.yml"] = _document({"collections": [{"name": _COLLECTION}]})
    for group in groups:
        if group.parts.tasks:
            found |= {f"roles/{group.name}/{path}": text for path, text in _role(group).items()}
    return found


def role(name: str, plan: Plan) -> dict[str, str]:
    """The files of one plan's role by path below a playbook's folder; none if the plan has no steps."""
    group = _Group(name, parts_of(plan, f"{name}_"), [])
    return {f"roles/{name}/{path}": text for path, text in _role(group).items()} if group.parts.tasks else {}


def _groups(plans: Mapping[str, Plan]) -> list[_Group]:
    found: dict[str, _Group] = {}
    for host, plan in sorted(plans.items()):
        if not _HOST.fullmatch(host):
            msg = f"{host!r} cannot be the name of a host in an inventory"
            raise UsageError(
                msg, code="invalid-value", where=host, hint="name each plan's file after its host: web1.json"
            )
        # Ids of steps reflect their content; hosts with equal ids share a role, whatever else differs.
        same = sha256_of([[step.id for step in plan.steps], guards_of(plan)]) if plan.steps else ""
        if same not in found:
            taken = {group.name for group in found.values()}
            name = _role_name(plan, host, taken) if plan.steps else _NOTHING
            found[same] = _Group(name, parts_of(plan, f"{name}_"), [])
        found[same].hosts.append(host)
    return list(found.values())


def _role_name(plan: Plan, host: str, taken: set[str]) -> str:
    """A name that stays when the plan changes, for group_vars: of the system, then also of the role's first host."""
    name = f"gpustack_{_word(plan.host.os.system or plan.host.os.spelled)}"
    if name in taken:
        name = f"{name}_{_word(host)}"
    while name in taken:
        name += "_x"
    return name


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40]


def _inventory(groups: list[_Group]) -> str:
    children: dict[str, Value] = {group.name: {"hosts": {host: {} for host in group.hosts}} for group in groups}
    first, mark, *body = _document({"all": {"children": children}}).split("\n")
    return "\n".join([first, f"{mark}{_SUM}{_sum_of(body)}", *body])


_SUM = "; lines of your own stay until hosts or groups change: "
"""In the second line of an inventory, before the sum of what follows as it was written."""


def _sum_of(body: list[str]) -> str:
    return sha256_of("\n".join(body))[:16]


def is_same_inventory(there: str, new: str) -> bool:
    """Whether an inventory that was written earlier had the hosts and groups of a new one, whatever was added since."""
    return _SUM in there and there.split("\n")[1:2] == new.split("\n")[1:2]


def has_own_lines(there: str) -> bool:
    """Whether an inventory was changed since it was written."""
    _, mark, *body = [*there.split("\n"), ""]
    return _SUM in mark and mark.rpartition(_SUM)[2] != _sum_of(body[:-1])


def _playbook(groups: list[_Group]) -> str:
    plays: list[Value] = []
    for group in groups:
        play: dict[str, Value] = {"name": group.parts.title, "hosts": group.name}
        if group.parts.tasks:
            play |= {"serial": SERIAL, "become": True, "gather_facts": True, "force_handlers": True}
            play["roles"] = [{"role": group.name}]
        else:
            play |= {"name": "Gather facts where there is nothing to do", "gather_facts": True, "tasks": []}
        plays.append(play)
    return _document(plays)


def _role(group: _Group) -> dict[str, str]:
    parts = group.parts
    found = {
        "README.md": _readme(group),
        "defaults/main.yml": _document(parts.variables),
        "meta/argument_specs.yml": _document({"argument_specs": {"main": _specification(parts)}}),
        "meta/main.yml": _document({"galaxy_info": _about(parts), "dependencies": []}),
        "tasks/main.yml": _tasks(parts.comments, blocks(parts.tasks, 0)),
    }
    if parts.handlers:
        found["handlers/main.yml"] = _tasks([f"# Handlers, {_WRITTEN}."], blocks(parts.handlers, 0))
    return found


def _specification(parts: Parts) -> dict[str, Value]:
    options: dict[str, Value] = {}
    for name, (default, kind, meaning) in settings_of(parts).items():
        options[f"{parts.prefix}{name}"] = {"type": kind, "default": default, "description": [meaning]}
    return {"short_description": parts.title, "options": options}


def _about(parts: Parts) -> dict[str, Value]:
    return {
        "author": "gpustack",
        "description": parts.title,
        "license": "Apache-2.0",
        "min_ansible_version": "2.16",
        "galaxy_tags": ["cuda", "gpu", "nvidia"],
    }


def _readme(group: _Group) -> str:
    rows = [
        f"| `gpustack_{name}` | `{str(value).lower() if isinstance(value, bool) else value}` | {meaning} |"
        for name, (value, _, meaning) in settings_of(group.parts).items()
    ]
    return fill("ansible/README.md.j2", role=group.name, written=_WRITTEN, rows=rows)


def _tasks(comments: list[str], texts: list[str]) -> str:
    return "\n".join(["---", *[line for line in comments if line], "", *texts, ""])


def _document(value: Value) -> str:
    return "\n".join(["---", f"# {_WRITTEN.capitalize()}", "", *lines(value), ""])
