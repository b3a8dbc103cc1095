"""A command as the Ansible module that does the same, so that a playbook can tell what it would change."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Literal, NamedTuple

from gpustack.errors import UnsupportedError
from gpustack.render.yaml_text import Value

Argv = tuple[str, ...]
Sign = Literal["none", "early", "read", "mark", "creates", "query"]
"""How a task knows that nothing is left to do: its module sees it; its module sees it, but not before earlier tasks
have run for real; it changes nothing; a mark of ours; a path that it makes; a question to the package database."""


class Action(NamedTuple):
    """One module with its arguments; ``loop`` runs it for each of these, ``creates`` and ``query`` fill ``sign``."""

    about: str
    module: str
    arguments: dict[str, Value]
    sign: Sign = "none"
    loop: Argv = ()
    creates: str = ""
    query: Argv = ()
    environment: tuple[tuple[str, str], ...] = ()


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_FINGERPRINT = re.compile(r"[0-9A-F]{40}")
_DELETE = re.compile(r"/([A-Za-z0-9^_-]+)/d")
_COMMENT_OUT = re.compile(r"\\#(\^deb\.\*(?:[^#\\\n]|\\[.*\[\]^$#&\\])+)#s#\^#\\# off by gpustack: #")
_OWNED_BY_MODULES = frozenset(
    {"apt-get", "chkconfig", "curl", "git", "hg", "letsencrypt", "mktemp", "mount", "patch", "rpm", "rsync", "sed"}
    | {"service", "supervisorctl", "svn", "systemctl", "tar", "unarchive", "unzip", "wget", "yum"}
)
"""Programs that ansible-lint wants replaced by a module; an unknown use of one stays a command."""

_EXPANDED = re.compile(r"\$(?:[A-Za-z0-9_]|\{)|^~")
_PATHS = frozenset({"chdir", "creates", "deb", "dest", "executable", "path", "removes", "src"})
"""Arguments in which modules expand variables and a home folder, and cannot be told not to."""

_RPM_FILE = re.compile(r"/[^*?\[]*/[A-Za-z0-9][A-Za-z0-9_.+~-]*\.rpm")
ZYPPER = "community.general.zypper"
"""The one module that does not come with ansible-core."""

_WITHOUT_RUNNING = frozenset({"sha256sum", "md5sum", "gpgv", "pkg-config"})
"""Programs that look and change nothing."""


def demand_exact(arguments: Mapping[str, Value]) -> None:
    """Raise UnsupportedError where a module would take another path than the one that is said."""
    for name in _PATHS & set(arguments):
        value = arguments[name]
        if isinstance(value, str) and _EXPANDED.search(value):
            msg = f"Ansible would expand variables in the path {value!r}"
            raise UnsupportedError(msg, code="not-renderable", hint="--format shell takes any path as it is")


def needs_excuse(action: Action) -> bool:
    """Whether ansible-lint would want a module here, and there is none."""
    argv = action.arguments.get("argv")
    if not isinstance(argv, tuple | list) or not argv:
        return False
    first = argv[0]
    return isinstance(first, str) and first.rpartition("/")[2] in _OWNED_BY_MODULES


def actions(commands: tuple[Argv, ...]) -> list[Action]:
    """The commands of a step as modules, in their order. What is not known stays a command with its arguments."""
    found: list[Action] = []
    rest = commands
    while rest:
        size, action = _group(rest, commands)
        found += action
        rest = rest[size:]
    if not any(one.sign == "mark" for one in found):
        return found
    # A mark tells that all of it is done: what is removed before something is made again is not removed once more, and
    # whether the mode of what is made is right already cannot be told before it is made.
    return [_once(one) for one in found]


def _once(action: Action) -> Action:
    path, mode = action.arguments.get("path"), action.arguments.get("mode")
    if action.module != "ansible.builtin.file" or not isinstance(path, str):
        return action
    if action.arguments.get("state") == "absent":
        return command(("rm", "-rf", "--", path))._replace(about=action.about)
    if action.arguments.get("state") == "file" and isinstance(mode, str):
        return command(("chmod", mode, "--", path))._replace(about=action.about)
    return action


def _group(commands: tuple[Argv, ...], step: tuple[Argv, ...]) -> tuple[int, list[Action]]:
    """How many commands at the head make one thing, and that thing. ``step`` are all commands of the step."""
    first, second, third = (*commands, (), (), ())[:3]
    match first, second, third:
        case ("dnf", "clean", "expire-cache"), ("dnf", "-y", "makecache"), _:
            return 2, [Action("read the package index", "ansible.builtin.dnf", {"update_cache": True}, "early")]
        case (
            ("rm", "-rf", "--", gone),
            ("git", "clone", "--quiet", "--depth", "1", "--branch", _, "--", url, folder),
            ("git", "-C", inside, "checkout", "--quiet", "--detach", commit),
        ) if gone == folder == inside:
            arguments: dict[str, Value] = {"repo": url, "dest": folder, "version": commit, "force": True}
            return 3, [Action(f"clone {url}", "ansible.builtin.git", arguments, "early")]
    update, install = _apt(first), _apt(second)
    if update and install and update[0] == "update" and install[0] == "install":
        action = _apt_action(install)
        if action is not None:
            return 2, [action._replace(arguments={**action.arguments, "update_cache": True})]
    return 1, _single(first, step)


def _single(argv: Argv, step: tuple[Argv, ...]) -> list[Action]:
    words = _apt(argv)
    if words:
        known = _apt_action(words)
        if known is not None:
            return [known]
    for translate in (_files, _packages, _services):
        translated = translate(argv, step)
        if translated:
            return translated
    return [command(argv)]


def _apt(argv: Argv) -> Argv:
    """The words after apt-get and its fixed options; () where it is something else."""
    head = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300")
    return argv[len(head) :] if argv[: len(head)] == head else ()


_APT_SWITCHES = {"-y": "", "--allow-downgrades": "allow_downgrade", "--autoremove": "autoremove", "--purge": "purge"}


def _apt_action(words: Argv) -> Action | None:
    verb, *rest = words
    if verb == "update" and not rest:
        arguments: dict[str, Value] = {"update_cache": True, "lock_timeout": 300}
        return Action("read the package index", "ansible.builtin.apt", arguments, "read")
    switches = [word for word in rest if word.startswith("-")]
    names = [word for word in rest if not word.startswith("-")]
    if not names or any(switch not in _APT_SWITCHES for switch in switches) or not _are_names(names):
        return None
    arguments = {"name": names}
    if verb == "install":
        arguments["state"] = "present"
    elif verb == "purge":
        arguments |= {"state": "absent", "purge": True}
    else:
        return None
    arguments |= {_APT_SWITCHES[switch]: True for switch in switches if _APT_SWITCHES[switch]}
    return Action(f"packages {_few(names)}", "ansible.builtin.apt", {**arguments, "lock_timeout": 300}, "early")


def _are_names(names: list[str]) -> bool:
    """Whether a module takes these as names of packages: it splits a word at commas and strips its spaces."""
    return all(name and "," not in name and name == name.strip() for name in names)


def _files(argv: Argv, step: tuple[Argv, ...]) -> list[Action]:
    return _paths(argv) or _contents(argv, step)


def _paths(argv: Argv) -> list[Action]:
    match argv:
        case ("install", "-d", "-m", mode, "--", *folders) if folders:
            return _folders(folders, mode)
        case ("mkdir", "-p", "--", *folders) if folders:
            return _folders(folders, "0755")
        case ("install", "-D", "-m", mode, "--", source, target):
            copy: dict[str, Value] = {"src": source, "dest": target, "remote_src": True, "mode": mode}
            parent = _folders([target.rpartition("/")[0]], "0755")
            return [*parent, Action(f"copy {source}", "ansible.builtin.copy", copy, "early")]
        case ("chmod", mode, "--", path) if re.fullmatch("0[0-7]{3}", mode):
            attributes: dict[str, Value] = {"path": path, "mode": mode, "state": "file"}
            return [Action(f"mode of {path}", "ansible.builtin.file", attributes, "early")]
        case ("ln", "-sfn", target, link):
            state: dict[str, Value] = {"src": target, "dest": link, "state": "link", "force": True}
            return [Action(f"link {link}", "ansible.builtin.file", state, "early")]
        case ("rm", "-f" | "-rf", "--", *paths) if paths:
            return [
                Action(f"remove {path}", "ansible.builtin.file", {"path": path, "state": "absent"}) for path in paths
            ]
        case ("mv", "--", source, target):
            moved = command(argv)
            arguments = {**moved.arguments, "removes": source}
            return [moved._replace(about=f"move {source}", arguments=arguments, sign="creates", creates=target)]
        case _:
            return []


def _contents(argv: Argv, step: tuple[Argv, ...]) -> list[Action]:  # noqa: ARG001 (all translators are called alike)
    match argv:
        case ("cp", "--preserve", "--", source, target):
            saved: dict[str, Value] = {"src": source, "dest": target, "remote_src": True, "mode": "preserve"}
            return [Action(f"save {source}", "ansible.builtin.copy", {**saved, "force": False}, "early")]
        case ("sed", "-i", "-e", expression, "--", path):
            return _edit(expression, path)
        case ("tar", "--extract", *words) if words:
            # ansible.builtin.unarchive stops in check mode where the archive or the folder is not there yet.
            archive = words[0].rpartition("/")[2]
            return [command(argv)._replace(about=f"unpack {archive}")]
        case _:
            return []


def _folders(paths: list[str], mode: str) -> list[Action]:
    return [
        Action(f"folder {path}", "ansible.builtin.file", {"path": path, "state": "directory", "mode": mode})
        for path in paths
    ]


def _edit(expression: str, path: str) -> list[Action]:
    """The two edits that plans make with sed, as what they are."""
    delete = _DELETE.fullmatch(expression)
    if delete is not None:
        line: dict[str, Value] = {"path": path, "regexp": delete[1], "state": "absent"}
        return [Action(f"edit {path}", "ansible.builtin.lineinfile", line, "early")]
    disable = _COMMENT_OUT.fullmatch(expression)
    if disable is not None:
        # \# only escapes sed's delimiter; the rest reads the same in both kinds of expression.
        pattern = disable[1].replace("\\#", "#").replace("\\&", "&")
        edit: dict[str, Value] = {"path": path, "regexp": f"^({pattern[1:]}.*)$", "replace": "# off by gpustack: \\1"}
        return [Action(f"edit {path}", "ansible.builtin.replace", edit, "early")]
    return []


def _packages(argv: Argv, step: tuple[Argv, ...]) -> list[Action]:
    return _from_archives(argv) or _from_repositories(argv) or _keys_and_wheels(argv, step)


def _from_archives(argv: Argv) -> list[Action]:
    match argv:
        case ("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "-i", path):
            deb: dict[str, Value] = {"deb": path, "lock_timeout": 300}
            return [Action(f"package file {path.rpartition('/')[2]}", "ansible.builtin.apt", deb, "early")]
        case ("rpm", "--install", path) if _RPM_FILE.fullmatch(path):
            return [_asked(argv, (path.rpartition("/")[2].removesuffix(".rpm"),))]
        case ("apt-mark", "hold" | "unhold" as verb, *names) if names:
            selection = "hold" if verb == "hold" else "install"
            return [_selection(tuple(names), selection)]
        case _:
            return []


def _from_repositories(argv: Argv) -> list[Action]:
    match argv:
        case ("dnf", "-y", "install" | "downgrade" | "remove" as verb, *words) if words:
            return _dnf(verb, words)
        case ("yum", "-y", "install" as verb, *words) if words and _are_names(words):
            return [_rpm("ansible.builtin.package", words, verb)]
        case ("tdnf", "-y", "install", *words) if words:
            return [_asked(argv, tuple(words))]
        case ("zypper", "--non-interactive", "install", "--auto-agree-with-licenses", *words) if words:
            return _zypper(words)
        case ("zypper", "--non-interactive", "remove", "--clean-deps", *words) if words and _are_names(words):
            gone: dict[str, Value] = {"name": words, "state": "absent", "clean_deps": True}
            return [Action(f"packages {_few(words)}", ZYPPER, gone, "early")]
        case ("dnf" | "yum" | "tdnf" | "zypper", *words) if _is_index(words):
            return [command(argv)._replace(about="read the package index", sign="read")]
        case _:
            return []


def _keys_and_wheels(argv: Argv, step: tuple[Argv, ...]) -> list[Action]:
    match argv:
        case ("rpm", "--import", path):
            return [_rpm_key(path, step)]
        case (program, "install", "--no-input", "--only-binary=:all:", *words) if program.endswith(
            "/bin/pip"
        ) and _are_names(words):
            wheels: dict[str, Value] = {
                "name": words,
                "executable": program,
                "extra_args": "--no-input --only-binary=:all:",
            }
            return (
                [Action(f"wheels {_few(words)}", "ansible.builtin.pip", wheels, "early")] if _are_names(words) else []
            )
        case ("python3", "-m", "venv", folder):
            made = command(argv)
            return [made._replace(about=f"environment {folder}", sign="creates", creates=f"{folder}/bin/pip")]
        case _:
            return []


def _is_index(words: list[str]) -> bool:
    return words[:1] == ["clean"] or words[-1:] == ["makecache"] or words[:2] == ["--non-interactive", "refresh"]


def _dnf(verb: str, words: list[str]) -> list[Action]:
    erasing = "--allowerasing" in words
    names = [word for word in words if word != "--allowerasing"]
    if not names or not _are_names(names) or any(name.startswith("-") for name in names):
        return []
    action = _rpm("ansible.builtin.dnf", names, verb)
    extra: dict[str, Value] = {"allow_downgrade": True} if verb == "downgrade" else {}
    extra |= {"allowerasing": True} if erasing else {}
    return [action._replace(arguments={**action.arguments, **extra})]


def _zypper(words: list[str]) -> list[Action]:
    names = [word for word in words if word != "--oldpackage"]
    if not names or not _are_names(names) or any(name.startswith("-") for name in names):
        return []
    # The module leaves recommended packages out unless told; zypper itself takes them.
    arguments: dict[str, Value] = {"name": names, "state": "present", "disable_recommends": False}
    arguments |= {"oldpackage": True} if len(names) < len(words) else {}
    return [Action(f"packages {_few(names)}", ZYPPER, arguments, "early")]


def _rpm(module: str, words: list[str], verb: str) -> Action:
    state = "absent" if verb == "remove" else "present"
    return Action(f"packages {_few(words)}", module, {"name": words, "state": state}, "early")


def _asked(argv: Argv, names: Argv) -> Action:
    """An installation by a manager that Ansible itself has no module for: the package database is asked first."""
    return command(argv)._replace(about=f"packages {_few(list(names))}", sign="query", query=names)


def _rpm_key(path: str, step: tuple[Argv, ...]) -> Action:
    """The import of a key, which has to have the fingerprint that the step took it out by."""
    arguments: dict[str, Value] = {"key": path, "state": "present"}
    wanted = [argv[-1] for argv in step if "--export" in argv and _FINGERPRINT.fullmatch(argv[-1])]
    if wanted:
        arguments["fingerprint"] = wanted[0]
    return Action(f"import {path.rpartition('/')[2]}", "ansible.builtin.rpm_key", arguments, "early")


def _selection(names: Argv, selection: str) -> Action:
    arguments: dict[str, Value] = {"name": "", "selection": selection}
    return Action(f"{selection} {_few(list(names))}", "ansible.builtin.dpkg_selections", arguments, "early", loop=names)


def _services(argv: Argv, step: tuple[Argv, ...]) -> list[Action]:  # noqa: ARG001 (all translators are called alike)
    match argv:
        case ("systemctl", "enable" | "disable" as verb, *units) if units:
            wanted: dict[str, Value] = {"enabled": verb == "enable"}
            if units[0] == "--now":
                wanted["state"] = "started" if verb == "enable" else "stopped"
                units = units[1:]
            module = "ansible.builtin.systemd_service"
            return [Action(f"service {unit}", module, {"name": unit, **wanted}, "early") for unit in units]
        case ("systemctl", "restart", unit):
            state: dict[str, Value] = {"name": unit, "state": "restarted"}
            return [Action(f"restart {unit}", "ansible.builtin.systemd_service", state)]
        case _:
            return []


def command(argv: Argv) -> Action:
    """Any other command: its variables and its folder as what they are, its words as a list."""
    words, environment, folder = list(argv), [], ""
    while words[:1] == ["env"] and len(words) > 2:
        rest = words[1:]
        while rest and _VARIABLE.fullmatch(rest[0]):
            name, _, value = rest.pop(0).partition("=")
            environment.append((name, value))
        if rest and rest[0].startswith("--chdir="):
            folder = rest.pop(0).partition("=")[2]
        if not rest or rest[0].startswith("-"):
            words, environment, folder = list(argv), [], ""
            break
        words = rest
    arguments: dict[str, Value] = {"argv": words}
    if any(_EXPANDED.search(word) for word in words):
        arguments["expand_argument_vars"] = False
    if folder:
        arguments["chdir"] = folder
    sign: Sign = "read" if words and words[0] in _WITHOUT_RUNNING else "mark"
    return Action(_shown(tuple(words)), "ansible.builtin.command", arguments, sign, environment=tuple(environment))


def _shown(argv: Argv) -> str:
    return f"run {shlex.join(argv[:3])}"


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
