"""One use of an Ansible module, and the rules by which a playbook predicts changes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from gpustack.errors import UnsupportedError
from gpustack.model.actions import Argv
from gpustack.render.yaml_text import Value

Sign = Literal["none", "early", "read", "mark", "creates", "query"]
"""How a task knows that nothing is left to do: its module sees it; its module sees it, but not before earlier tasks
have run for real; it changes nothing; a mark of ours; a path that it makes; a question to the package database."""


class Use(NamedTuple):
    """One module with its arguments; ``loop`` repeats it, ``creates`` and ``query`` are for ``sign``."""

    about: str
    module: str
    arguments: dict[str, Value]
    sign: Sign = "none"
    loop: Argv = ()
    creates: str = ""
    query: Argv = ()
    environment: tuple[tuple[str, str], ...] = ()


_OWNED_BY_MODULES = frozenset(
    {"apt-get", "chkconfig", "curl", "git", "hg", "letsencrypt", "mktemp", "mount", "patch", "rpm", "rsync", "sed"}
    | {"service", "supervisorctl", "svn", "systemctl", "tar", "unarchive", "unzip", "wget", "yum"}
)
"""Programs that ansible-lint wants replaced by a module; an unknown use of one stays a command."""

_EXPANDED = re.compile(r"\$(?:[A-Za-z0-9_]|\{)|^~")
_PATHS = frozenset({"chdir", "creates", "deb", "dest", "executable", "path", "removes", "src"})
"""Arguments in which modules always expand variables and a home folder."""


def demand_exact(arguments: Mapping[str, Value]) -> None:
    """Raise UnsupportedError if a module would change the path."""
    for name in _PATHS & set(arguments):
        value = arguments[name]
        if isinstance(value, str) and _EXPANDED.search(value):
            msg = f"Ansible would expand variables in the path {value!r}"
            raise UnsupportedError(msg, code="not-renderable", hint="--format shell accepts any path")


def needs_excuse(use: Use) -> bool:
    """Whether ansible-lint would demand a module where none exists."""
    argv = use.arguments.get("argv")
    if not isinstance(argv, tuple | list) or not argv:
        return False
    first = argv[0]
    return isinstance(first, str) and first.rpartition("/")[2] in _OWNED_BY_MODULES


def command(argv: Argv, *, environment: Argv = (), folder: str = "") -> Use:
    """A command with its words as a list."""
    arguments: dict[str, Value] = {"argv": list(argv)}
    if any(_EXPANDED.search(word) for word in argv):
        arguments["expand_argument_vars"] = False
    if folder:
        arguments["chdir"] = folder
    variables = tuple((name, value) for name, _, value in (word.partition("=") for word in environment))
    return Use(f"run {shlex.join(argv[:3])}", "ansible.builtin.command", arguments, "mark", environment=variables)


def few(names: Sequence[str]) -> str:
    """The first few of many names."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
