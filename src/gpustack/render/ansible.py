"""An Ansible playbook: one play, native modules where there are any, marks where there are none."""

from __future__ import annotations

import re

from gpustack.model.plan import Plan
from gpustack.render.ansible_tasks import (
    WORD,
    Expression,
    Handler,
    Task,
    as_data,
    handlers_of,
    is_marked,
    mark_name,
    name_of,
    step_tasks,
)
from gpustack.render.commands import one_line
from gpustack.render.comments import comment
from gpustack.render.templating import fill
from gpustack.render.yaml_text import Flow, Value, lines, quoted

_STEP_ID = re.compile(r"(.+)-[0-9a-f]{12}(?:-[0-9]+)?")
MARKS = "/var/lib/gpustack/ansible"
"""Where a playbook remembers which commands without a module have run; named by the ids of steps."""

_HOSTS = "{{ gpustack_hosts | default('all') }}"
_VERSIONED = frozenset({"ubuntu", "debian", "rhel", "rocky", "almalinux", "centos", "ol", "fedora", "amzn", "sles"})
"""Systems whose version Ansible tells as os-release does."""


def render(plan: Plan) -> str:
    """The plan as a playbook for the hosts in ``gpustack_hosts`` (all, where that is not set)."""
    handlers = handlers_of(plan)
    tags = _tags(plan)
    tasks: list[Task] = []
    for number, step in enumerate(plan.steps, 1):
        tasks += step_tasks(plan, number, step, tags[step.id], handlers)
    if tasks:
        tasks = [*_guard(plan), *_forget(plan), *tasks]
    title = f"Provision {', '.join(plan.stack) or 'nothing'} on {plan.host.os.name or plan.host.os.spelled}"
    return fill(
        "ansible/playbook.yml.j2",
        comments=_comments(plan),
        title=quoted(name_of(title)),
        hosts=quoted(_HOSTS),
        variables=lines(_variables(plan), 4) if tasks else [],
        tasks=_blocks(tasks),
        handlers=_blocks([Task(one.name, one.keys) for one in _unique(handlers)]),
    )


def _blocks(tasks: list[Task]) -> list[str]:
    texts = []
    for number, task in enumerate(tasks):
        first, *rest = lines([as_data({"name": name_of(task.name), **task.keys})], 4)
        excuse = "  # noqa: command-instead-of-module" if task.excuse else ""
        end = "\n" if number + 1 < len(tasks) else ""
        texts.append("\n".join([*(f"    {line}" for line in task.comment), first + excuse, *rest]) + end)
    return texts


def _comments(plan: Plan) -> list[str]:
    found = [f"# Plan {one_line(plan.digest)}, written by gpustack.", "#"]
    for name, entry in plan.stack.items():
        flavour = f", {entry.flavour} kernel modules" if entry.flavour else ""
        found.append(f"# {entry.state:<9} {one_line(name)} {one_line(entry.version)} ({entry.method}{flavour})")
    for text in plan.warnings:
        found += comment(f"warning: {text}")
    if not plan.steps:
        return [*found, "#", "# Nothing is to be done: the play only gathers facts.", ""]
    return [
        *found,
        "#",
        "# ansible-playbook -i INVENTORY -e gpustack_hosts=GROUP FILE        (--check --diff shows what would change)",
        "# Needs ansible-core 2.16 or newer and no collections.",
        "",
    ]


def _variables(plan: Plan) -> dict[str, Value]:
    found: dict[str, Value] = {"gpustack_marks": MARKS}
    if any(step.reboot_after for step in plan.steps):
        found |= {"gpustack_reboot": True, "gpustack_reboot_timeout": 1200}
    return found


def _tags(plan: Plan) -> dict[str, list[str]]:
    """The tags of each step: its component, or for what serves several, the components of all that come after it."""
    serves: dict[str, set[str]] = {step.id: set() for step in plan.steps}
    for step in reversed(plan.steps):
        if step.component:
            serves[step.id].add(step.component)
        if step.phase == "verification":
            serves[step.id].add("verify")
            continue
        for need in step.depends_on:
            if need in serves:
                serves[need] |= serves[step.id]
    return {
        step.id: sorted({_tag(name) for name in serves[step.id]}) or [_tag(step.phase or "always")]
        for step in plan.steps
    }


def _tag(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower() or "always"


def _guard(plan: Plan) -> list[Task]:
    """Refuse a host that the plan is not for, by what Ansible says of it without doubt."""
    host, wanted = plan.host, []
    if host.arch and WORD.fullmatch(host.arch):
        wanted.append(f"ansible_facts['architecture'] == '{host.arch}'")
    version = host.os.version_id or ""
    if host.os.id in _VERSIONED and WORD.fullmatch(version):
        # Releases of one major version share their repository where packages are rpms.
        known = version if host.os.family == "apt" or host.os.id == "sles" else version.partition(".")[0]
        wanted.append(f"(ansible_facts['distribution_version'] ~ '.').startswith('{known}.')")
    if not wanted:
        return []
    told = f"this playbook is for {host.os.name or host.os.spelled} on {host.arch or 'an unknown architecture'}"
    keys: dict[str, Value] = {
        "ansible.builtin.assert": {"that": [Expression(one) for one in wanted], "fail_msg": told, "quiet": True},
        "tags": Flow(["always"]),
    }
    return [Task("Refuse a host that the plan is not for", keys)]


def _forget(plan: Plan) -> list[Task]:
    """Remove the marks that earlier plans left for the same steps with other content."""
    marked = [step for step in plan.steps if is_marked(step)]
    stems = sorted({match[1] for step in marked if (match := _STEP_ID.fullmatch(mark_name(step)))})
    keep: dict[str, Value] = {
        "ansible.builtin.file": {"path": Expression("{{ gpustack_marks }}"), "state": "directory", "mode": "0755"},
        "tags": Flow(["always"]),
    }
    folder = Task("Make the folder for marks", keep)
    if not stems:
        return [folder] if marked else []
    kept = sorted({f"^{_literal(mark_name(step))}$" for step in marked})
    search: dict[str, Value] = {
        "paths": [Expression("{{ gpustack_marks }}")],
        "patterns": [f"^{_literal(stem)}-[0-9a-f]{{12}}(-[0-9]+)?$" for stem in stems],
        "excludes": kept,
        "use_regex": True,
    }
    found: dict[str, Value] = {
        "ansible.builtin.find": search,
        "register": "gpustack_old_marks",
        "tags": Flow(["always"]),
    }
    remove: dict[str, Value] = {
        "ansible.builtin.file": {"path": Expression("{{ item.path }}"), "state": "absent"},
        "loop": Expression("{{ gpustack_old_marks.files }}"),
        "loop_control": {"label": Expression("{{ item.path }}")},
        "tags": Flow(["always"]),
    }
    return [folder, Task("Look for marks of other versions of these steps", found), Task("Forget these marks", remove)]


def _literal(name: str) -> str:
    """A mark's name as a regular expression: of its signs only the dot means something there."""
    return name.replace(".", "\\.")


def _unique(handlers: list[Handler]) -> list[Handler]:
    return list({one.name: one for one in handlers}.values())
