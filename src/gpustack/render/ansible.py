"""An Ansible playbook: one play, native modules where possible, marks elsewhere."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpustack.model.plan import Plan
from gpustack.render.ansible_packages import ZYPPER
from gpustack.render.ansible_tasks import (
    WORD,
    Expression,
    Handler,
    Task,
    Writer,
    as_data,
    handlers_of,
    is_marked,
    mark_name,
    name_of,
)
from gpustack.render.comments import comment, stack
from gpustack.render.target import target_of
from gpustack.render.templating import fill
from gpustack.render.yaml_text import Flow, Value, lines, quoted
from gpustack.visible import one_line

_STEP_ID = re.compile(r"(.+)-[0-9a-f]{12}(?:-[0-9]+)?")
_SETTINGS: dict[str, tuple[bool | int | str, str, str]] = {
    "marks": ("/var/lib/gpustack/ansible", "path", "The folder on the host that records which commands have run."),
    "reboot": (True, "bool", "Whether to reboot the host when required."),
    "reboot_timeout": (1200, "int", "Seconds to wait for the host after its reboot."),
}
"""What a user may set, as ``gpustack_NAME``: its default, its type, and what it means."""

_HOSTS = "{{ gpustack_hosts | default('all') }}"
SERIAL = "{{ gpustack_serial | default('100%') }}"
"""The number of hosts at a time: nothing in a play depends on another host."""

_VERSIONED = frozenset({"ubuntu", "debian", "rhel", "rocky", "almalinux", "centos", "ol", "fedora", "amzn", "sles"})
"""Systems with the same version in Ansible's facts and in os-release."""


class Parts(NamedTuple):
    """The content of a play or a role of one plan; its own variables begin with ``prefix``."""

    prefix: str
    title: str
    comments: list[str]
    guards: list[str]
    tasks: list[Task]
    handlers: list[Task]
    settings: list[str]

    @property
    def variables(self) -> dict[str, Value]:
        """Its variables with their defaults; ``gpustack_NAME`` in inventory or command line overrides them."""
        return {
            f"{self.prefix}{name}": f"{{{{ gpustack_{name} | default({_default(name)}) }}}}" for name in self.settings
        }

    @property
    def needs_collection(self) -> bool:
        """Whether a module is missing in ansible-core."""
        return any(ZYPPER in task.keys for task in self.tasks)


def parts_of(plan: Plan, prefix: str) -> Parts:
    """The plan as tasks and handlers, whose variables begin with ``prefix``."""
    handlers = handlers_of(plan)
    writer = Writer(plan, prefix, handlers)
    tags = _tags(plan)
    tasks = [task for number, step in enumerate(plan.steps, 1) for task in writer.tasks(number, step, tags[step.id])]
    tasks = _each_once(tasks)
    guards = guards_of(plan)
    if tasks:
        tasks = [*_refusal(plan, guards), *_forget(plan, prefix), *tasks]
    title = f"Provision {', '.join(plan.stack) or 'nothing'} on {plan.host.os.called}"
    reboots = any(step.reboot_after for step in plan.steps)
    names = [name for name in _SETTINGS if reboots or "reboot" not in name] if tasks else []
    return Parts(
        prefix=prefix,
        title=name_of(title),
        comments=_comments(plan),
        guards=guards,
        tasks=tasks,
        handlers=[Task(one.name, one.keys) for one in _unique(handlers)],
        settings=names,
    )


def _each_once(tasks: list[Task]) -> list[Task]:
    """The tasks without repeated creation of a folder or package, which check mode would report twice.

    The first one gets the tags of all.
    """
    found: list[Task] = []
    made: dict[str, int] = {}
    waiting: tuple[str, ...] = ()
    for task in tasks:
        same = _lasting(task)
        if same and same in made:
            first = found[made[same]]
            tags = Flow(sorted({*_tags_of(first), *_tags_of(task)}))
            found[made[same]] = first._replace(keys={**first.keys, "tags": tags})
            waiting += task.comment
            continue
        if same:
            made[same] = len(found)
        found.append(task._replace(comment=(*waiting, *task.comment)))
        waiting = ()
    return found


_LASTING = {
    "ansible.builtin.file": "directory",
    "ansible.builtin.apt": "present",
    "ansible.builtin.dnf": "present",
}


def _lasting(task: Task) -> str:
    """The module and arguments of a task whose result no later task removes; "" for others."""
    for module, state in _LASTING.items():
        arguments = task.keys.get(module)
        if isinstance(arguments, dict) and arguments.get("state") == state:
            return f"{module} {arguments}"
    return ""


def _tags_of(task: Task) -> Flow:
    tags = task.keys.get("tags")
    return tags if isinstance(tags, Flow) else Flow()


def render(plan: Plan) -> str:
    """The plan as a playbook for the hosts in ``gpustack_hosts`` (all by default)."""
    parts = parts_of(plan, "gpustack_play_")
    return fill(
        "ansible/playbook.yml.j2",
        comments=[*parts.comments, *_usage(parts)],
        title=quoted(parts.title),
        hosts=quoted(_HOSTS),
        serial=quoted(SERIAL),
        variables=lines(parts.variables, 4),
        tasks=blocks(parts.tasks, 4),
        handlers=blocks(parts.handlers, 4),
    )


def blocks(tasks: list[Task], indent: int) -> list[str]:
    """Tasks as text, an empty line between them."""
    texts = []
    pad = " " * indent
    for number, task in enumerate(tasks):
        first, *rest = lines([as_data({"name": name_of(task.name), **task.keys})], indent)
        excuse = "  # noqa: command-instead-of-module" if task.excuse else ""
        end = "\n" if number + 1 < len(tasks) else ""
        texts.append("\n".join([*(f"{pad}{line}" for line in task.comment), first + excuse, *rest]) + end)
    return texts


def settings_of(parts: Parts) -> dict[str, tuple[bool | int | str, str, str]]:
    """What a user may set in these parts: the default, the type and the meaning of each, by name."""
    return {name: _SETTINGS[name] for name in parts.settings}


def _default(name: str) -> str:
    value = _SETTINGS[name][0]
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def _comments(plan: Plan) -> list[str]:
    found = [f"# Plan {one_line(plan.digest)}, written by gpustack.", "#"]
    found += stack(plan)
    for text in plan.warnings:
        found += comment(f"warning: {text}")
    return found


def _usage(parts: Parts) -> list[str]:
    if not parts.tasks:
        return ["#", "# Nothing to do: the play only gathers facts.", ""]
    needs = "the collection community.general" if parts.needs_collection else "no collections"
    return [
        "#",
        "# ansible-playbook -i INVENTORY -e gpustack_hosts=GROUP FILE        (--check --diff shows what would change)",
        f"# Needs ansible-core 2.16 or newer and {needs}. Variables: gpustack_serial (how many",
        "# hosts at a time), " + ", ".join(f"gpustack_{name}" for name in parts.settings) + ".",
        "",
    ]


def _tags(plan: Plan) -> dict[str, list[str]]:
    """The tags of each step: its component or, if it serves several, the components of all steps after it."""
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


def guards_of(plan: Plan) -> list[str]:
    """What must be true of a host that the plan is for, by reliable facts of Ansible."""
    target, wanted = target_of(plan), []
    if WORD.fullmatch(target.arch):
        wanted.append(f"ansible_facts['architecture'] == '{target.arch}'")
    if plan.host.os.id in _VERSIONED and WORD.fullmatch(target.version):
        wanted.append(f"(ansible_facts['distribution_version'] ~ '.').startswith('{target.version}.')")
    return wanted


def _refusal(plan: Plan, guards: list[str]) -> list[Task]:
    if not guards:
        return []
    system = plan.host.os.called
    keys: dict[str, Value] = {
        "ansible.builtin.assert": {
            "that": [Expression(one) for one in guards],
            "fail_msg": f"this plan is for {system} on {plan.host.arch or 'an unknown architecture'}",
            "quiet": True,
        },
        "tags": Flow(["always"]),
    }
    return [Task("Refuse a host that the plan was not made for", keys)]


def _forget(plan: Plan, prefix: str) -> list[Task]:
    """Remove the marks that earlier plans left for the same steps with other content."""
    marked = [step for step in plan.steps if is_marked(step)]
    stems = sorted({match[1] for step in marked if (match := _STEP_ID.fullmatch(mark_name(step)))})
    keep: dict[str, Value] = {
        "ansible.builtin.file": {"path": Expression(f"{{{{ {prefix}marks }}}}"), "state": "directory", "mode": "0755"},
        "tags": Flow(["always"]),
    }
    folder = Task("Make the folder for marks", keep)
    if not stems:
        return [folder] if marked else []
    kept = sorted({f"^{_literal(mark_name(step))}$" for step in marked})
    search: dict[str, Value] = {
        "paths": [Expression(f"{{{{ {prefix}marks }}}}")],
        "patterns": [f"^{_literal(stem)}-[0-9a-f]{{12}}(-[0-9]+)?$" for stem in stems],
        "excludes": kept,
        "use_regex": True,
    }
    found: dict[str, Value] = {
        "ansible.builtin.find": search,
        "register": f"{prefix}old_marks",
        "tags": Flow(["always"]),
    }
    remove: dict[str, Value] = {
        "ansible.builtin.file": {"path": Expression("{{ item.path }}"), "state": "absent"},
        "loop": Expression(f"{{{{ {prefix}old_marks.files }}}}"),
        "loop_control": {"label": Expression("{{ item.path }}")},
        "tags": Flow(["always"]),
    }
    return [folder, Task("Look for marks of other versions of these steps", found), Task("Forget these marks", remove)]


def _literal(name: str) -> str:
    """A mark's name as a regular expression: only its dots need an escape."""
    return name.replace(".", "\\.")


def _unique(handlers: list[Handler]) -> list[Handler]:
    return list({one.name: one for one in handlers}.values())
