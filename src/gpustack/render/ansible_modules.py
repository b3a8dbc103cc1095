"""An action as the equivalent Ansible modules, so that a playbook can report what it would change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpustack.model import actions as do
from gpustack.plan.commands import spell
from gpustack.render.ansible_packages import of_manager
from gpustack.render.ansible_use import Use, command
from gpustack.render.yaml_text import Value


def uses(actions: Iterable[do.AnyAction]) -> list[Use]:
    """The modules of a step's actions, in order. Anything else stays a command with its arguments."""
    found = [use for action in actions for use in _uses(action)]
    if not any(one.sign == "mark" for one in found):
        return found
    # A mark means that all of it is done: what is removed to be recreated is not removed again, and whether the mode
    # of a created file is right cannot be known before it exists.
    return [_once(one) for one in found]


def _once(use: Use) -> Use:
    path, mode = use.arguments.get("path"), use.arguments.get("mode")
    if use.module != "ansible.builtin.file" or not isinstance(path, str):
        return use
    if use.arguments.get("state") == "absent":
        return command(("rm", "-rf", "--", path))._replace(about=use.about)
    if use.arguments.get("state") == "file" and isinstance(mode, str):
        return command(("chmod", mode, "--", path))._replace(about=use.about)
    return use


def _uses(action: do.AnyAction) -> list[Use]:  # noqa: C901, PLR0911, PLR0912 (one for each action)
    match action:
        case do.PackageAction():
            return of_manager(action)
        case do.TakeKey() | do.CheckKeyFile() | do.StoreFile():
            return _key(action)
        case do.Look(argv=argv, environment=environment):
            return [command(argv, environment=environment)._replace(sign="read")]
        case do.Run(argv=argv, environment=environment, folder=folder):
            return [command(argv, environment=environment, folder=folder)]
        case do.Make(path=path, words=words, folder=folder, parallel=False):
            return [command(("make", "-C", folder, *words), environment=(f"PATH={path}",) if path else ())]
        case do.MakeFolders(paths=paths):
            return _folders(paths, "0755")
        case do.Remove(paths=paths):
            return [Use(f"remove {one}", "ansible.builtin.file", {"path": one, "state": "absent"}) for one in paths]
        case do.Link(path=path, target=target):
            link: dict[str, Value] = {"src": target, "dest": path, "state": "link", "force": True}
            return [Use(f"link {path}", "ansible.builtin.file", link, "early")]
        case do.Mark(path=path):
            return [*_folders([path.rpartition("/")[0]], "0755"), command(spell(action)[-1])]
        case do.Unpack(archive=archive):
            # ansible.builtin.unarchive fails in check mode if the archive or the folder does not exist yet.
            about = f"unpack --file={archive}".rpartition("/")[2] if "/" in archive else archive
            return [command(argv)._replace(about=f"unpack {about}") for argv in spell(action)]
        case do.EnableService(unit=unit, now=now):
            return [_service(unit, {"enabled": True, **({"state": "started"} if now else {})})]
        case do.DisableService(unit=unit, now=now):
            return [_service(unit, {"enabled": False, **({"state": "stopped"} if now else {})})]
        case do.RestartService(unit=unit):
            restart: dict[str, Value] = {"name": unit, "state": "restarted"}
            return [Use(f"restart {unit}", "ansible.builtin.systemd_service", restart)]
        case do.Clone(url=url, commit=commit, folder=folder):
            clone: dict[str, Value] = {"repo": url, "dest": folder, "version": commit, "force": True}
            return [Use(f"clone {url}", "ansible.builtin.git", clone, "early")]
        case do.MakeVenv(folder=folder):
            [made] = [command(argv) for argv in spell(action)]
            return [made._replace(about=f"environment {folder}", sign="creates", creates=f"{folder}/bin/pip")]
        case _:
            return [command(argv) for argv in spell(action)]


def _key(action: do.TakeKey | do.CheckKeyFile | do.StoreFile) -> list[Use]:
    match action:
        case do.TakeKey(home=home, target=target):
            _, dearmour, look, _, export, _ = spell(action)
            mode: dict[str, Value] = {"path": target, "mode": "0644", "state": "file"}
            return [
                *_folders([home], "0700"),
                command(dearmour),
                command(look),
                *_folders([target.rpartition("/")[0]], "0755"),
                command(export),
                Use(f"mode of {target}", "ansible.builtin.file", mode, "early"),
            ]
        case do.CheckKeyFile(source=source, target=target):
            _, check, _ = spell(action)
            line: dict[str, Value] = {"path": source, "regexp": "^Version", "state": "absent"}
            edit = Use(f"edit {source}", "ansible.builtin.lineinfile", line, "early")
            return [edit, command(check)._replace(sign="read"), *_copied(source, target)]
        case do.StoreFile(source=source, target=target):
            return _copied(source, target)


def _copied(source: str, target: str) -> list[Use]:
    copy: dict[str, Value] = {"src": source, "dest": target, "remote_src": True, "mode": "0644"}
    parent = _folders([target.rpartition("/")[0]], "0755")
    return [*parent, Use(f"copy {source}", "ansible.builtin.copy", copy, "early")]


def _folders(paths: Sequence[str], mode: str) -> list[Use]:
    return [
        Use(f"folder {path}", "ansible.builtin.file", {"path": path, "state": "directory", "mode": mode})
        for path in paths
    ]


def _service(unit: str, wanted: dict[str, Value]) -> Use:
    return Use(f"service {unit}", "ansible.builtin.systemd_service", {"name": unit, **wanted}, "early")
