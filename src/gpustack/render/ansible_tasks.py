"""The steps of a plan as tasks of a playbook, and the handlers that they notify."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpustack.model.actions import RebuildInitramfs, RefreshLoader, RestartService, Verify
from gpustack.model.conditions import conditions
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.former import actions_of
from gpustack.plan.managers.database import rpm_is_there
from gpustack.render.ansible_modules import uses
from gpustack.render.ansible_sources import deb822
from gpustack.render.ansible_use import Use, command, demand_exact, needs_excuse
from gpustack.render.commands import command_line, is_manual, serves_reboot
from gpustack.render.comments import comment
from gpustack.render.verification import verification_script
from gpustack.render.yaml_text import Flow, Text, Unsafe, Value
from gpustack.visible import one_line

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,60}")
"""What may be in an expression unquoted."""

_TEMPLATE = re.compile(r"\{[{%#]")
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_SAME = '[ "$(sha256sum <"$1")" = "$2  -" ]'
_USUAL_FOLDERS = frozenset(
    {"/etc", "/etc/apt/apt.conf.d", "/etc/apt/preferences.d", "/etc/apt/sources.list.d", "/etc/ld.so.conf.d"}
    | {"/etc/pki/rpm-gpg", "/etc/profile.d", "/etc/yum.repos.d"}
    | {"/etc/zypp/repos.d", "/usr/local/bin", "/usr/share/keyrings"}
)


class Expression(str):
    """A string that is deliberately a template."""

    __slots__ = ()


def as_data(value: Value) -> Value:
    """Return ``value`` with every string marked as unsafe that Ansible would misread as a template."""
    if isinstance(value, str):
        return Unsafe(value) if _TEMPLATE.search(value) and not isinstance(value, Expression) else value
    if isinstance(value, Mapping):
        return {key: as_data(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, Flow):
        return [as_data(inner) for inner in value]
    return value


class Task(NamedTuple):
    """One task; ``comment`` stands above it, ``keys`` are all its keys but the name."""

    name: str
    keys: dict[str, Value]
    comment: tuple[str, ...] = ()
    excuse: bool = False


class Handler(NamedTuple):
    """A handler, which runs once if one of the steps ``listens`` (by id) has changed something."""

    name: str
    keys: dict[str, Value]
    listens: frozenset[str]


def name_of(text: str) -> str:
    """A name in the form that ansible-lint requires: one line, a capital, no template."""
    plain = re.sub(r"\{(?=[{%#])", "{ ", one_line(text)).strip() or "step"
    short = plain if len(plain) <= 100 else plain[:97].rstrip() + "..."
    return short[0].upper() + short[1:]


def mark_name(step: Step) -> str:
    """The file name of a step's mark."""
    return step.id if _SAFE.fullmatch(step.id) else "step-" + step.id.encode().hex()[:120]


def _mark(step: Step, prefix: str) -> Expression:
    return Expression(f"{{{{ {prefix}marks }}}}/{mark_name(step)}")


def _done_path(step: Step) -> str:
    """The path that the step creates last, if paths alone show that it is done."""
    found = conditions(step.done_when)
    return found[-1].words[0] if found and {one.kind for one in found} == {"path"} else ""


def _is_plain(step: Step) -> bool:
    """Whether the step's own commands run unchanged."""
    return not (step.reboot_after or is_manual(step) or step.kind == "note" or _only_verifies(step))


def _only_verifies(step: Step) -> bool:
    """Whether the step is only our own verification, which requires the program on the host."""
    return step.phase == "verification" and all(isinstance(action, Verify) for action in actions_of(step))


def is_marked(step: Step) -> bool:
    """Whether a mark shows that the step is done: one of its commands has no module and leaves no path."""
    if not _is_plain(step) or _done_path(step) or _handled(step):
        return False
    return any(one.sign == "mark" for one in uses(actions_of(step)))


def _handled(step: Step) -> bool:
    """Whether the step's commands only make something reload: a handler's job."""
    actions = actions_of(step)
    return bool(actions) and (
        step.kind == "rebuild-initramfs"
        or all(isinstance(action, RebuildInitramfs | RefreshLoader | RestartService) for action in actions)
    )


def handlers_of(plan: Plan) -> list[Handler]:
    """The handlers of the steps whose commands only make something reload."""
    found: list[Handler] = []
    names: dict[str, tuple[tuple[str, ...], ...]] = {}
    for step in plan.steps:
        if not _is_plain(step) or not _handled(step):
            continue
        name = name_of(step.title)
        while names.setdefault(name, step.commands) != step.commands:
            name += " again"
        listens = frozenset({step.id, *step.depends_on})
        for number, one in enumerate(uses(actions_of(step)), 1):
            demand_exact(one.arguments)
            arguments = dict(one.arguments)
            if one.module == "ansible.builtin.command":
                # Without a path that never exists, check mode would skip the command and not report it.
                arguments["creates"] = "/dev/null/never"
            keys: dict[str, Value] = {one.module: arguments}
            found.append(Handler(name if number == 1 else f"{name} ({number})", keys, listens))
    return found


class Writer(NamedTuple):
    """The tasks of one plan; all variables that they set or read begin with ``prefix``."""

    plan: Plan
    prefix: str
    handlers: list[Handler]

    def tasks(self, number: int, step: Step, tags: list[str]) -> list[Task]:
        """The tasks of the step with this number in the plan."""
        return _step_tasks(self, number, step, tags)


def _step_tasks(writer: Writer, number: int, step: Step, tags: list[str]) -> list[Task]:
    above = tuple(comment(f"{step.title}: {step.why}" if step.why else step.title, width=100))
    if step.reboot_after:
        tasks = _reboot(writer, step)
    elif step.kind == "note" or is_manual(step):
        tasks = [Task(step.title, {"ansible.builtin.debug": {"msg": _describe(step)}})]
    elif _only_verifies(step):
        tasks = _verify(writer.plan, f"{writer.prefix}step_{number}", step)
    else:
        tasks = _work(writer, number, step)
    finished = []
    for position, task in enumerate(tasks):
        keys = {**task.keys, "tags": Flow(tags)}
        finished.append(task._replace(keys=keys, comment=above if position == 0 else ()))
    return finished


def _describe(step: Step) -> Value:
    told = [f"{step.title}: {step.why}" if step.why else step.title]
    return [*told, "By hand:", *map(command_line, step.commands)] if step.commands else told


def _verify(plan: Plan, found: str, step: Step) -> list[Task]:
    """The verification by gpustack, else by what a script can check without it."""
    tasks = []
    for argv in step.commands:
        probe: dict[str, Value] = {
            "ansible.builtin.command": {"argv": ["sh", "-c", 'command -v "$1"', "sh", argv[0]]},
            "register": found,
            "changed_when": False,
            "failed_when": False,
            "check_mode": False,
        }
        check: dict[str, Value] = {
            "ansible.builtin.command": command(argv).arguments,
            "when": Expression(f"{found}.rc == 0"),
            "changed_when": False,
        }
        tasks += [Task(f"Look for {argv[0]}", probe), Task(step.title, check)]
    basic: dict[str, Value] = {
        "ansible.builtin.command": {"argv": ["sh", "-c", Text(verification_script(plan, step))]},
        "when": Expression(f"{found}.rc != 0"),
        "changed_when": False,
    }
    return [*tasks, Task(f"{step.title}: basic checks where gpustack is not installed", basic)]


def _work(writer: Writer, number: int, step: Step) -> list[Task]:
    """The tasks of an ordinary step, which notify its handlers and a later reboot of changes."""
    done: list[Use] = []
    for artifact in step.artifacts:
        done += _download(artifact)
    for file in step.files:
        done += _file(file)
    flush = _handled(step) and _is_plain(step)
    if not flush:
        done += uses(actions_of(step))
    marked = is_marked(step)
    if marked:
        copy: dict[str, Value] = {"dest": _mark(step, writer.prefix), "content": f"{step.id}\n", "mode": "0644"}
        done.append(Use("record that it is done", "ansible.builtin.copy", copy))
    tasks: list[Task] = []
    for position, action in enumerate(done, 1):
        register = f"{writer.prefix}step_{number}_{position}"
        tasks += _tasks(writer, step, action, register, alone=len(done) == 1)
    if flush:
        tasks.append(
            Task(f"{name_of(step.title)}, where something changed", {"ansible.builtin.meta": "flush_handlers"})
        )
    return tasks


def _tasks(writer: Writer, step: Step, action: Use, register: str, *, alone: bool) -> list[Task]:
    notify = list(dict.fromkeys(one.name for one in writer.handlers if step.id in one.listens))
    arguments: dict[str, Value] = dict(action.arguments)
    keys: dict[str, Value] = {action.module: arguments}
    before: list[Task] = []
    if action.loop:
        arguments["name"] = Expression("{{ item }}")
        keys["loop"] = list(action.loop)
    if action.environment:
        keys["environment"] = dict(action.environment)
    is_command = action.module == "ansible.builtin.command"
    # In check mode nothing before has really run: what cannot be examined yet counts as a change.
    early = action.sign == "early" or (action.sign == "mark" and "chdir" in arguments)
    if early or step.phase == "driver":
        keys["register"] = register
    if action.sign == "query":
        before.append(_query(action, register))
        # A path that always exists, or never: that makes check mode report "changed" for a command.
        arguments["creates"] = Expression(f"{{{{ ({register}_there.rc == 0) | ternary('/', '/dev/null/never') }}}}")
    elif action.sign == "creates":
        arguments["creates"] = action.creates
    elif action.sign == "mark":
        arguments["creates"] = _done_path(step) or _mark(step, writer.prefix)
    if action.sign == "read":
        keys["changed_when"] = False
    elif early:
        keys["changed_when"] = Expression(f"{register} is changed or ({register} is failed and ansible_check_mode)")
        keys["failed_when"] = Expression(f"{register} is failed and not ansible_check_mode")
    if notify:
        keys["notify"] = notify
    demand_exact(arguments)
    name = step.title if alone else f"{step.title}: {action.about}"
    return [*before, Task(name, keys, excuse=is_command and needs_excuse(action))]


def _query(action: Use, register: str) -> Task:
    keys: dict[str, Value] = {
        "ansible.builtin.command": command(rpm_is_there(*action.query)).arguments,
        "register": f"{register}_there",
        "changed_when": False,
        "failed_when": False,
        "check_mode": False,
    }
    return Task(f"Ask for {action.about}", keys, excuse=True)


def _download(artifact: Artifact) -> list[Use]:
    if artifact.own_path:
        return _own_file(artifact)
    arguments: dict[str, Value] = {"url": artifact.url, "dest": artifact.path, "mode": "0644"}
    if artifact.sha256:
        arguments["checksum"] = f"sha256:{artifact.sha256}"
    name = artifact.path.rpartition("/")[2]
    return [*_parent(artifact.path), Use(f"download {name}", "ansible.builtin.get_url", arguments, "early")]


def _own_file(artifact: Artifact) -> list[Use]:
    """The user's own file, which lies on the controller: the module compares by another sum, so a command does."""
    place = artifact.path
    copy: dict[str, Value] = {"src": artifact.own_path, "dest": place, "mode": "0644"}
    check = command(("sh", "-c", _SAME, "sh", place, artifact.sha256))
    return [
        *_parent(place),
        Use(f"copy {place.rpartition('/')[2]}", "ansible.builtin.copy", copy, "early"),
        Use("compare its checksum", "ansible.builtin.command", check.arguments, "read"),
    ]


def _file(file: FileWrite) -> list[Use]:
    entry = deb822(file)
    if entry:
        return entry
    arguments: dict[str, Value] = {"dest": file.path, "content": file.content, "mode": file.mode}
    return [*_parent(file.path), Use(f"file {file.path}", "ansible.builtin.copy", arguments)]


def _parent(path: str) -> list[Use]:
    folder = path.rpartition("/")[0]
    if not folder or folder in _USUAL_FOLDERS:
        return []
    arguments: dict[str, Value] = {"path": folder, "state": "directory", "mode": "0755"}
    return [Use(f"folder {folder}", "ansible.builtin.file", arguments)]


def _reboot(writer: Writer, step: Step) -> list[Task]:
    """The reboot, if this run changed the driver or the loaded module is not the planned one."""
    plan, prefix = writer.plan, writer.prefix
    before = serves_reboot(plan)
    results = [
        f"{prefix}step_{number}_{position}"
        for number, one in enumerate(plan.steps, 1)
        if one.id in before
        for position in _changers(one)
    ]
    tests = [f"({name} | default({{}})) is changed" for name in results]
    tasks = []
    driver = plan.stack.get("driver")
    if driver is not None and WORD.fullmatch(driver.version):
        look: dict[str, Value] = {
            "ansible.builtin.slurp": {"src": "/sys/module/nvidia/version"},
            "register": f"{prefix}module",
            "failed_when": False,
        }
        tasks.append(Task("Read the version of the loaded module", look))
        loaded = f"({prefix}module.content | default('') | b64decode | trim)"
        tests.append(f"{loaded} not in ['', '{driver.version}']")
    flush: dict[str, Value] = {"ansible.builtin.meta": "flush_handlers"}
    reboot: dict[str, Value] = {
        "ansible.builtin.reboot": {"reboot_timeout": Expression(f"{{{{ {prefix}reboot_timeout }}}}")},
        "when": [Expression(f"{prefix}reboot | bool"), Expression(" or ".join(tests) or "true")],
    }
    return [*tasks, Task("Run what waits for the reboot", flush), Task(step.title, reboot)]


def _changers(step: Step) -> range:
    """The indices of the registered results of a step."""
    size = sum(len(_download(one)) for one in step.artifacts) + sum(len(_file(one)) for one in step.files)
    size += 0 if _handled(step) else len(uses(actions_of(step)))
    return range(1, size + 1)
