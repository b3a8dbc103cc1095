"""Actions of package managers, as the Ansible modules for each of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpustack.model import actions as do
from gpustack.model.actions import Argv
from gpustack.plan.commands import spell
from gpustack.plan.managers import manager
from gpustack.plan.managers.apt import line_of
from gpustack.render.ansible_use import Use, command, few
from gpustack.render.yaml_text import Value

ZYPPER = "community.general.zypper"
"""The only module from outside of ansible-core."""

_FINGERPRINT = re.compile(r"[0-9A-F]{40}")
_RPM_FILE = re.compile(r"/[^*?\[]*/[A-Za-z0-9][A-Za-z0-9_.+~-]*\.rpm")


def of_manager(action: do.AnyPackageAction) -> list[Use]:
    """The modules for an action of a package manager; its own commands if Ansible has none."""
    found = _of_apt(action) if action.manager == "apt" else _of_rpm(action)
    return found or [command(argv) for argv in spell(action)]


def _of_apt(action: do.AnyPackageAction) -> list[Use]:
    match action:
        case do.InstallPackages() | do.RemovePackages():
            return _apt_packages(action)
        case do.RefreshIndex():
            index: dict[str, Value] = {"update_cache": True, "lock_timeout": 300}
            return [Use("read the package index", "ansible.builtin.apt", index, "read")]
        case do.InstallFile(path=path):
            deb: dict[str, Value] = {"deb": path, "lock_timeout": 300}
            return [Use(f"package file {path.rpartition('/')[2]}", "ansible.builtin.apt", deb, "early")]
        case do.HoldPackages(names=names):
            return [_selection(names, "hold")]
        case do.UnholdPackages(names=names):
            return [_selection(names, "install")]
        case do.DisableRepository(path=path, url=url):
            return _commented_out(path, line_of(url)) if path.endswith(".list") else _move_files(action)
        case do.EnableRepository():
            return _move_files(action)
        case _:
            return []


def _apt_packages(action: do.InstallPackages | do.RemovePackages) -> list[Use]:
    words = _words(action)
    if not _are_names(words):
        return []
    arguments: dict[str, Value] = {"name": words}
    match action:
        case do.InstallPackages():
            arguments["state"] = "present"
            arguments |= {"autoremove": True, "purge": True} if action.replaces else {}
            arguments |= {"allow_downgrade": True} if action.downgrade else {}
        case do.RemovePackages():
            arguments |= {"state": "absent", "purge": True}
            arguments |= {"autoremove": True} if action.with_parts else {}
    return [Use(f"packages {few(words)}", "ansible.builtin.apt", {**arguments, "lock_timeout": 300}, "early")]


def _of_rpm(action: do.AnyPackageAction) -> list[Use]:
    match action:
        case do.InstallPackages() | do.RemovePackages():
            return _rpm_packages(action)
        case do.RefreshIndex(manager="dnf"):
            return [Use("read the package index", "ansible.builtin.dnf", {"update_cache": True}, "early")]
        case do.RefreshIndex():
            return [command(argv)._replace(about="read the package index", sign="read") for argv in spell(action)]
        case do.InstallFile(path=path) if _RPM_FILE.fullmatch(path):
            name = path.rpartition("/")[2].removesuffix(".rpm")
            return [_query_first(argv, (name,)) for argv in spell(action)]
        case do.HoldPackages(tools=tools) if tools:
            packages = tuple(do.Package(name=name) for name in tools)
            needs = do.InstallPackages(manager=action.manager, packages=packages)
            return [*of_manager(needs), *(command(argv) for argv in manager(action.manager).commands(action)[1:])]
        case do.ImportKey(path=path, fingerprint=fingerprint):
            key: dict[str, Value] = {"key": path, "state": "present"}
            # The key that was extracted before.
            key |= {"fingerprint": fingerprint} if _FINGERPRINT.fullmatch(fingerprint) else {}
            return [Use(f"import {path.rpartition('/')[2]}", "ansible.builtin.rpm_key", key, "early")]
        case do.DisableRepository() | do.EnableRepository():
            return _move_files(action)
        case _:
            return []


def _rpm_packages(action: do.InstallPackages | do.RemovePackages) -> list[Use]:
    words, tool = _words(action), action.manager
    if tool == "tdnf" and isinstance(action, do.InstallPackages):
        return [_query_first(argv, tuple(words)) for argv in spell(action)]
    if not _are_names(words) or any(word.startswith("-") for word in words):
        return []
    use = Use(f"packages {few(words)}", "ansible.builtin.dnf", {"name": words, "state": "present"}, "early")
    match action:
        case do.RemovePackages() if tool == "zypper":
            return [use._replace(module=ZYPPER, arguments={"name": words, "state": "absent", "clean_deps": True})]
        case do.RemovePackages() if tool == "dnf":
            return [use._replace(arguments={"name": words, "state": "absent"})]
        case do.InstallPackages() if tool == "dnf":
            return [use._replace(arguments={**use.arguments, **({"allowerasing": True} if action.replaces else {})})]
        case do.InstallPackages(downgrade=False) if tool == "yum":
            return [use._replace(module="ansible.builtin.package")]
        case do.InstallPackages(replaces=False) if tool == "zypper":
            # By default the module omits recommended packages; zypper itself installs them.
            extra: dict[str, Value] = {"disable_recommends": False}
            extra |= {"oldpackage": True} if action.downgrade else {}
            return [use._replace(module=ZYPPER, arguments={**use.arguments, **extra})]
        case _:
            return []


def _words(action: do.InstallPackages | do.RemovePackages) -> list[str]:
    if isinstance(action, do.RemovePackages):
        return list(action.names)
    return list(map(manager(action.manager).word, action.packages))


def _are_names(words: Sequence[str]) -> bool:
    """Whether a module accepts these as package names: it splits words at commas and strips spaces."""
    return bool(words) and all(word and "," not in word and word == word.strip() for word in words)


def _query_first(argv: Argv, names: Argv) -> Use:
    """An installation by a manager without an Ansible module: the package database is asked first."""
    return command(argv)._replace(about=f"packages {few(names)}", sign="query", query=names)


def _selection(names: Argv, selection: str) -> Use:
    arguments: dict[str, Value] = {"name": "", "selection": selection}
    return Use(f"{selection} {few(names)}", "ansible.builtin.dpkg_selections", arguments, "early", loop=names)


def _commented_out(path: str, line: str) -> list[Use]:
    aside = f"{path}.saved-by-gpustack"
    saved: dict[str, Value] = {"src": path, "dest": aside, "remote_src": True, "mode": "preserve", "force": False}
    # \\# \\# only escapes sed's delimiter; the rest means the same in both kinds of expression.
    pattern = line.replace("\\#", "#").replace("\\&", "&")
    edit: dict[str, Value] = {"path": path, "regexp": f"^({pattern[1:]}.*)$", "replace": "# off by gpustack: \\1"}
    return [
        Use(f"save {path}", "ansible.builtin.copy", saved, "early"),
        Use(f"edit {path}", "ansible.builtin.replace", edit, "early"),
    ]


def _move_files(action: do.DisableRepository | do.EnableRepository) -> list[Use]:
    found = []
    for argv in spell(action):
        source, target = argv[-2:]
        moved = command(argv)
        arguments = {**moved.arguments, "removes": source}
        found.append(moved._replace(about=f"move {source}", arguments=arguments, sign="creates", creates=target))
    return found
