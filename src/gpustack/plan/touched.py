"""What an action may change, by its type and fields, so that the installer can keep it first."""

import os
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gpustack.model import actions as do
from gpustack.model.steps import Step
from gpustack.plan.former import actions_of, touched_by_words


class Touched(Struct, frozen=True):
    """Places of the tree, files or folders; ``settings`` of the system, and ``packages``, which change both."""

    places: tuple[str, ...] = ()
    settings: bool = False
    packages: bool = False


_PACKAGES = Touched(settings=True, packages=True)
_SETTINGS = Touched(settings=True)
_NOTHING = Touched()


def touched(step: Step) -> Touched:
    """What the actions of a step may change, besides the files that it downloads and writes."""
    found: list[Touched] = []
    for action in actions_of(step):
        if isinstance(action, do.Words):
            said = Touched(*touched_by_words(step.kind, action.argv))
            # What only looks like a path, such as the text of a script, is not a place.
            found.append(replace(said, places=tuple(path for path in said.places if not place_fault(path))))
        else:
            found.append(touched_by(action))
    return _together(found)


def _together(found: Iterable[Touched]) -> Touched:
    all_of = tuple(found)
    return Touched(
        places=tuple(dict.fromkeys(place for one in all_of for place in one.places)),
        settings=any(one.settings for one in all_of),
        packages=any(one.packages for one in all_of),
    )


def place_fault(path: str, *, is_windows: bool = False) -> str:
    """Why no file or folder can be created at a path, "" if one can."""
    parts = path.replace("\\", "/").split("/") if is_windows else path.split("/")
    short = repr(path if len(path) <= _SHOWN else f"{path[:_SHOWN]}...")
    if not path:
        return "is an empty path"
    if not is_windows and not path.startswith("/"):
        return f"is {short}, and not a path from the root on"
    if parts[-1] in {"", ".", ".."}:
        return f"is {short}, and names no file or folder of its own"
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
        return f"is {short}, and a name in it is longer than {_LONGEST_NAME} bytes"
    return f"is {short}, and longer than {_LONGEST_PATH} bytes" if len(os.fsencode(path)) > _LONGEST_PATH else ""


_LONGEST_NAME = 255
_LONGEST_PATH = 4000
"""The most bytes of a name and of a path in Linux (NAME_MAX, PATH_MAX), minus room for a tree in front of it."""

_SHOWN = 80


def touched_by(action: do.AnyAction) -> Touched:  # noqa: C901, PLR0911, PLR0912 (one for each action)
    """What one action may change."""
    match action:
        case do.RefreshIndex():
            return _NOTHING
        case do.DisableRepository() | do.EnableRepository() | do.ExcludePackages() | do.IncludePackages():
            return _SETTINGS
        case do.PackageAction():
            return _PACKAGES
        case do.TakeKey(target=target, home=home):
            return Touched(places=(target, home), settings=True)
        case do.CheckKeyFile(source=source, target=target):
            return Touched(places=(source, target), settings=True)
        case do.MakeFolders(paths=paths) | do.Remove(paths=paths):
            return Touched(places=paths)
        case do.Unpack(folder=folder) | do.Readable(folder=folder) | do.Clone(folder=folder):
            return Touched(places=(folder,))
        case do.Configure(folder=folder) | do.MakeVenv(folder=folder):
            return Touched(places=(folder,))
        case do.StoreFile(target=path) | do.CopyTree(target=path) | do.TakeOut(target=path) | do.Link(path=path):
            return Touched(places=(path,))
        case do.Mark(path=path):
            return Touched(places=(path.rpartition("/")[0], path))
        case do.Make(folder=folder, touches=touches):
            return Touched(places=(folder, *touches))
        case do.InstallWheels(home=home) | do.RemoveWheels(home=home):
            return Touched(places=(home,))
        case do.RunInstaller(touches=touches):
            return Touched(places=touches, settings=True)
        case do.Run(touches=touches, folder=folder, settings=settings, packages=packages):
            return Touched((*touches, *((folder,) if folder else ())), settings or packages, packages)
        case do.EnableSource() | do.ChooseAlternative() | do.EnableService() | do.DisableService():
            return _SETTINGS
        case do.RebuildInitramfs() | do.BuildModules():
            return _SETTINGS
        case do.Look() | do.RefreshLoader() | do.RestartService() | do.Reboot() | do.AwaitServer() | do.Verify():
            return _NOTHING
        case do.PullImage() | do.RemoveImage() | do.StartContainer() | do.RemoveContainer() | do.ByHand():
            return _NOTHING
        case do.Words() | do.WindowsAction():
            # What words may change is derived step by step; nothing for Windows is carried out here.
            return _NOTHING
