"""The commands of an action, for a person to review and a machine to run. The one place that spells them.

The words of package managers are in `gpustack.plan.managers`, one module for each.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpustack.model import actions as do
from gpustack.model.actions import Argv
from gpustack.plan.managers import manager

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_PACKAGES = "PKG_CONFIG_PATH=/usr/local/lib/pkgconfig"
_CONFIGURE = (
    'export PATH="$1" PKG_CONFIG_PATH=/usr/local/lib/pkgconfig && cd "$2" && shift 2 && '
    'if command -v ccache >/dev/null; then set -- "$@" "--cc=ccache gcc"; fi && ./configure "$@"'
)
_MAKE = 'export PATH="$1" && exec make -C "$2" --jobs="$(nproc)"'
_TAKE_OUT = 'cd "$1" && find . ! -type d -print0 | (cd "$2" && xargs -0 rm -f --)'
_ASK = ("curl", "--fail", "--silent", "--show-error", "--retry", "30", "--retry-delay", "4", "--retry-connrefused")


def commands_of(actions: Iterable[do.AnyAction]) -> tuple[Argv, ...]:
    """The commands of these actions, in order."""
    return tuple(argv for action in actions for argv in spell(action))


def packages_of(actions: Iterable[do.AnyAction]) -> tuple[str, ...]:
    """The packages and projects that these actions name, as each manager spells them."""
    found: list[str] = []
    for action in actions:
        match action:
            case do.InstallPackages(packages=packages):
                found += map(manager(action.manager).word, packages)
            case do.InstallFile(name=name):
                found.append(name)
            case do.RemovePackages(names=names) | do.HoldPackages(names=names):
                found += names
            case do.EnableStream(stream=stream):
                found.append(stream)
            case do.InstallWheels(projects=names) | do.RunMsys(packages=names):
                found += names
            case _:
                pass
    return tuple(found)


def spell(action: do.AnyAction) -> tuple[Argv, ...]:  # noqa: C901, PLR0911, PLR0912 (one for each action)
    """The commands of one action."""
    match action:
        case do.PackageAction():
            tool = manager(action.manager)
            commands = tool.commands(action)
            return tuple(map(tool.offline, commands)) if action.bundle else commands
        case do.Words(argv=argv):
            return (argv,)
        case do.WindowsAction():
            from gpustack.plan.managers import windows  # noqa: PLC0415 (only plans for Windows need it)

            return windows.commands(action)
        case do.Look(argv=argv, environment=environment):
            return (("env", *environment, *argv) if environment else argv,)
        case do.Run():
            return (_run(action),)
        case do.EnableSource(argv=argv) | do.RebuildInitramfs(argv=argv):
            return (argv,)
        case do.ByHand(commands=commands):
            return commands
        case do.Verify(components=components, python=python):
            return (("gpustack", "verify", *components, *(("--python", python) if python else ())),)
        case do.TakeKey() | do.CheckKeyFile():
            return _keys(action)
        case do.EnableService() | do.DisableService() | do.RestartService() | do.BuildModules() | do.Reboot():
            return _system(action)
        case do.PullImage() | do.RemoveImage() | do.StartContainer() | do.RemoveContainer() | do.AwaitServer():
            return _containers(action)
        case do.RunInstaller() | do.Clone() | do.Configure() | do.Make():
            return _sources(action)
        case do.MakeVenv() | do.InstallWheels() | do.RemoveWheels():
            return _python(action)
        case _:
            return _files(action)


def _run(action: do.Run) -> Argv:
    folder, argv = action.folder, action.argv
    front = action.environment
    if folder and action.old_env:
        argv = ("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", folder, *argv)
    elif folder:
        front = (*front, f"--chdir={folder}")
    return ("env", *front, *argv) if front else argv


def _keys(action: do.TakeKey | do.CheckKeyFile) -> tuple[Argv, ...]:
    match action:
        case do.TakeKey(source=source, wanted=wanted, target=target, home=home):
            # Nothing is imported, so gpg starts no agent and touches no keyring of a user.
            gpg = ("gpg", "--homedir", home, "--batch")
            ring = f"{home}/all.gpg"
            from_ring = (*gpg, "--no-default-keyring", "--keyring", ring)
            armour = ("--armor",) if action.armoured else ()
            return (
                ("install", "-d", "-m", "0700", "--", home),
                (*gpg, "--yes", "--output", ring, "--dearmor", source),
                (*from_ring, "--list-keys", wanted),
                ("install", "-d", "-m", "0755", "--", target.rpartition("/")[0]),
                (*from_ring, "--yes", *armour, "--output", target, "--export", wanted),
                ("chmod", "0644", "--", target),
            )
        case do.CheckKeyFile(source=source, sums=sums, target=target):
            return (
                # The Version line of an armoured key changes with every export; without it the file is stable.
                ("sed", "-i", "-e", "/^Version/d", "--", source),
                ("sha256sum", "--check", "--strict", "--", sums),
                ("install", "-D", "-m", "0644", "--", source, target),
            )


_System = do.EnableService | do.DisableService | do.RestartService | do.BuildModules | do.Reboot


def _system(action: _System) -> tuple[Argv, ...]:
    match action:
        case do.EnableService(unit=unit, now=now):
            return (("systemctl", "enable", *(("--now",) if now else ()), unit),)
        case do.DisableService(unit=unit, now=now):
            return (("systemctl", "disable", *(("--now",) if now else ()), unit),)
        case do.RestartService(unit=unit):
            return (("systemctl", "restart", unit),)
        case do.BuildModules(kernels=kernels):
            return tuple(("dkms", "autoinstall", "-k", kernel) for kernel in kernels)
        case do.Reboot(systemd=systemd):
            return (("systemctl", "reboot") if systemd else ("shutdown", "-r", "now"),)


_Containers = do.PullImage | do.RemoveImage | do.StartContainer | do.RemoveContainer | do.AwaitServer


def _containers(action: _Containers) -> tuple[Argv, ...]:
    match action:
        case do.PullImage(engine=engine, reference=reference):
            return ((engine, "pull", reference),)
        case do.RemoveImage(engine=engine, reference=reference):
            return ((engine, "image", "rm", reference),)
        case do.StartContainer(engine=engine, name=name, reference=reference):
            head = (engine, "run", "--detach", f"--name={name}", "--restart=unless-stopped")
            return ((*head, *action.options, reference, *action.server),)
        case do.RemoveContainer(engine=engine, name=name):
            return ((engine, "rm", "--force", name),)
        case do.AwaitServer(url=url):
            return ((*_ASK, url),)


def _sources(action: do.RunInstaller | do.Clone | do.Configure | do.Make) -> tuple[Argv, ...]:
    match action:
        case do.RunInstaller(path=path, arguments=arguments):
            return (("sh", path, *arguments),)
        case do.Clone(url=url, tag=tag, commit=commit, folder=folder):
            return (
                ("rm", "-rf", "--", folder),
                ("git", "clone", "--quiet", "--depth", "1", "--branch", tag, "--", url, folder),
                ("git", "-C", folder, "checkout", "--quiet", "--detach", commit),
            )
        case do.Configure(folder=folder, prefix=prefix, path=path):
            return (("sh", "-c", _CONFIGURE, "sh", path, folder, f"--prefix={prefix}", *action.arguments),)
        case do.Make(parallel=True, folder=folder, path=path):
            return (("sh", "-c", _MAKE, "sh", path, folder),)
        case do.Make(folder=folder, words=words, path=path):
            front = ("env", f"PATH={path}") if path else ()
            return ((*front, "make", "-C", folder, *words),)


def _python(action: do.MakeVenv | do.InstallWheels | do.RemoveWheels) -> tuple[Argv, ...]:
    match action:
        case do.MakeVenv(folder=folder):
            return (("python3", "-m", "venv", folder),)
        case do.InstallWheels(home=home, requirements=requirements, index=index):
            further = ("--extra-index-url", index) if index and not action.wheels else ()
            exact = (*further, "--require-hashes", "--only-binary=:all:", "--no-deps", "-r", requirements)
            pip = (f"{home}/bin/python3", "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *exact)
            return (wheels_from(action.wheels, pip) if action.wheels else pip,)
        case do.RemoveWheels(home=home, names=names):
            return ((f"{home}/bin/python3", "-m", "pip", "uninstall", "--yes", *names),)


def wheels_from(folder: str, pip: Argv) -> Argv:
    """The pip command with wheels from a folder, and no index."""
    return ("env", "PIP_NO_INDEX=1", f"PIP_FIND_LINKS={folder}", *pip)


def wheels_to(folder: str, pip: Argv) -> Argv:
    """The command that downloads what a pip command would install."""
    at = pip.index("install")
    words = (word for word in pip[at + 1 :] if word not in {"--upgrade", "--force-reinstall"})
    return (*pip[:at], "download", "--dest", folder, *words)


_Files = (
    do.StoreFile
    | do.MakeFolders
    | do.Remove
    | do.Unpack
    | do.Readable
    | do.CopyTree
    | do.TakeOut
    | do.Mark
    | do.Link
    | do.ChooseAlternative
    | do.RefreshLoader
)


def _files(action: _Files) -> tuple[Argv, ...]:  # noqa: C901, PLR0911, PLR0912 (one for each action)
    match action:
        case do.StoreFile(source=source, target=target):
            return (("install", "-D", "-m", "0644", "--", source, target),)
        case do.MakeFolders(paths=paths):
            return (("install", "-d", "-m", "0755", "--", *paths),)
        case do.Remove(paths=paths, whole=whole):
            return (("rm", "-rf" if whole else "-f", "--", *paths),)
        case do.Unpack(archive=archive, folder=folder, own=own):
            plain = ("--no-same-owner", "--no-same-permissions") if own else ()
            tar = ("tar", "--extract", f"--file={archive}", f"--directory={folder}", "--strip-components=1", *plain)
            return (tar,)
        case do.Readable(folder=folder):
            return (("chmod", "-R", "a+rX", "--", folder),)
        case do.CopyTree(source=source, target=target, into=False):
            return (("cp", "-R", "-P", "--", source, target),)
        case do.CopyTree(source=source, target=target):
            # -P keeps the links between library names: without it one library becomes three full copies. A library that
            # programs have open is replaced, not overwritten.
            return (("cp", "-R", "-P", "--remove-destination", "--", f"{source}/.", f"{target}/"),)
        case do.TakeOut(source=source, target=target):
            return (("sh", "-c", _TAKE_OUT, "sh", source, target),)
        case do.Mark(path=path):
            return ("install", "-d", "-m", "0755", "--", path.rpartition("/")[0]), ("touch", "--", path)
        case do.Link(path=path, target=target):
            return (("ln", "-sfn", target, path),)
        case do.ChooseAlternative(group=group, choice=""):
            return (("update-alternatives", "--auto", group),)
        case do.ChooseAlternative(group=group, choice=choice):
            return (("update-alternatives", "--set", group, choice),)
        case do.RefreshLoader():
            return (("ldconfig",),)
