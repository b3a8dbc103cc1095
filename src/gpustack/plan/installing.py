"""Actions that install packages, of any kind: their command, their packages, and copies with other packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import UNSET
from msgspec.structs import replace

from gpustack.model.actions import AnyAction, Argv, HoldPackages, InstallPackages, ManagerName, Package, Words
from gpustack.model.steps import Step
from gpustack.plan.commands import commands_of, packages_of, spell
from gpustack.plan.former import manager_of
from gpustack.plan.managers import manager


def installs(action: AnyAction) -> tuple[ManagerName, Argv] | None:
    """The package manager and the command by which an action installs packages, None if it installs none."""
    match action:
        case InstallPackages():
            [argv] = spell(action)
            return action.manager, argv
        case HoldPackages(tools=tools) if tools:
            return installs(tools_of(action))
        case Words(argv=argv):
            name = manager_of(argv)
            return (name, argv) if name and "install" in argv else None
        case _:
            return None


def tools_of(action: HoldPackages) -> InstallPackages:
    """The installation of the tools that a hold requires."""
    packages = tuple(Package(name=name) for name in action.tools)
    return InstallPackages(manager=action.manager, bundle=action.bundle, packages=packages)


def with_packages(action: AnyAction, change: Callable[[list[Package]], list[Package]]) -> AnyAction:
    """The action with other packages; itself if it installs none."""
    match action:
        case InstallPackages(packages=packages):
            return replace(action, packages=tuple(change(list(packages))))
        case Words(argv=argv):
            name = manager_of(argv)
            if not name or "install" not in argv:
                return action
            tool, at = manager(name), argv.index("install") + 1
            switches = [word for word in argv[at:] if word.startswith("-")]
            others = change([tool.read(word) for word in argv[at:] if not word.startswith("-")])
            return Words(argv=(*argv[:at], *switches, *tool.switches(others), *map(tool.word, others)))
        case _:
            return action


def with_actions(step: Step, actions: Iterable[AnyAction]) -> Step:
    """The step with other actions and what follows from them."""
    found = tuple(actions)
    if step.actions is UNSET:
        return replace(step, commands=commands_of(found))
    return replace(step, actions=found or UNSET, commands=commands_of(found), packages=packages_of(found))
