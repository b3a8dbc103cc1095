"""Every package that a plan would install, with dependencies, resolved by the package manager in a separate tree."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from gpustack.errors import GpustackError
from gpustack.install.mounts import forbid_services, name_servers
from gpustack.install.root import InstallRoot
from gpustack.model.actions import (
    AnyAction,
    Argv,
    Clone,
    DisableService,
    EnableService,
    EnableSource,
    InstallWheels,
    ManagerName,
    PullImage,
    RebuildInitramfs,
    RestartService,
    Words,
)
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, Step
from gpustack.plan.commands import spell, wheels_to
from gpustack.plan.former import actions_of, fetched_by, is_pip_install, missing_system, needs_account
from gpustack.plan.installing import installs
from gpustack.plan.managers import manager
from gpustack.render.commands import command_line
from gpustack.system.files import write_atomically
from gpustack.system.run import LocalRunner

PACKAGES = "/gpustack-packages"
"""The download folder in the tree."""

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
}
_URI = re.compile(r"'([^']+)' (\S+) (\d+)(?: \S+)?")
_PATIENCE = 3600.0


class Closure:
    """Runs the part of a plan that selects packages, and downloads them instead of installing them.

    ``tree`` is a tree that may be changed; ``bring`` returns the verified file of an artifact. ``urls`` maps a
    package's file to its address, as far as the manager reports it, ``steps`` to its step; ``left`` is what cannot be
    included.
    """

    def __init__(self, tree: Path, bring: Callable[[Artifact], Path], say: Callable[[str], None]) -> None:
        self.tree = tree
        self.bring = bring
        self.say = say
        self.urls: dict[str, str] = {}
        self.steps: dict[str, str] = {}
        self.left: list[str] = []

    def run(self, plan: Plan) -> None:
        """Download all packages of ``plan`` to ``PACKAGES``. Raises GpustackError if a manager fails."""
        for name in ("debs/partial", "new", "rpms", "wheels"):
            self._inside(f"{PACKAGES}/{name}").mkdir(parents=True, exist_ok=True)
        # Packages installed only to resolve others must start no service: the processes would be the machine's.
        forbid_services(InstallRoot(self.tree))
        name_servers(InstallRoot(self.tree))
        for step in plan.steps:
            if step.phase not in {"reboot", "verification"} and step.kind not in {"note", "manual", "reboot"}:
                self._step(step)

    def _step(self, step: Step) -> None:
        is_preparing = step.phase in {"preflight", "repositories"} or (
            step.phase == "prerequisites" and not step.component
        )
        # What pins versions must be present during the resolution.
        is_real = is_preparing or (step.kind == "hold-packages" and step.phase == "driver")
        if is_real:
            for artifact in step.artifacts:
                self._place(artifact)
        for file in step.files:
            self._write(file.path, file.content, int(file.mode, 8))
        for action in actions_of(step):
            self._look_up(step, action)
            if is_real and not _needs_more(action):
                for argv in spell(action):
                    self.must(argv)

    def _look_up(self, step: Step, action: AnyAction) -> None:
        """Download what an action would install, or note that it is not included."""
        found = installs(action)
        wheels = wheels_of(action)
        if found is not None:
            self.say(f"{step.title}: looking up and downloading packages")
            self._download(*found)
            self._note(step)
        elif wheels:
            self.must(wheels_to(f"{PACKAGES}/wheels", wheels))
            self._note(step)
        elif left := _left_by(action):
            self.left.append(f"{step.title}: {left}, which is not in the bundle")

    def must(self, argv: tuple[str, ...]) -> str:
        """Run a command in the tree and return its output. Raises GpustackError if it fails."""
        passed = {
            name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or name[:4] == "PIP_"
        }
        words = [f"{name}={value}" for name, value in {**passed, **ENVIRONMENT}.items()]
        done = LocalRunner().run(("chroot", str(self.tree), "env", *words, *argv), timeout=_PATIENCE)
        if done.code != 0:
            told = done.error or "\n".join((done.out + done.err).strip().splitlines()[-8:])
            msg = f"`{command_line(argv)[:300]}` failed:\n{told}"
            hint = "a missing package, a repository that does not answer, or a bad signature"
            raise GpustackError(msg, code="command-failed", where="bundle", hint=hint)
        return done.out

    def _download(self, name: ManagerName, argv: Argv) -> None:
        tool = manager(name)
        folder = f"{PACKAGES}/{'debs' if name == 'apt' else 'new'}"
        addresses = tool.addresses(argv, folder)
        if addresses:
            self._apt_addresses(self.must(addresses).splitlines())
        self.must(tool.download(argv, folder))

    def _note(self, step: Step) -> None:
        """Record the step of new files, and move .rpm files away: dnf's next transaction removes them."""
        new, kept = self._inside(f"{PACKAGES}/new"), self._inside(f"{PACKAGES}/rpms")
        for file in list(new.rglob("*.rpm")):
            shutil.move(file, kept / file.name)
        for folder in (kept, self._inside(f"{PACKAGES}/debs"), self._inside(f"{PACKAGES}/wheels")):
            for file in folder.iterdir():
                self.steps.setdefault(file.name, step.id)

    def _apt_addresses(self, lines: Iterable[str]) -> None:
        for line in lines:
            found = _URI.match(line)
            if found is None:
                continue
            url, name = found[1], found[2]
            self.urls[name] = url
            if url.startswith("file:"):
                # apt uses such a file in its place, and keeps no copy.
                lies = self._inside("/" + url.removeprefix("file:").lstrip("/"))
                _copy(lies, self._inside(f"{PACKAGES}/debs/{name}"))

    def _place(self, artifact: Artifact) -> None:
        target = self._inside(artifact.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(self.bring(artifact), target)

    def _write(self, path: str, content: str, mode: int) -> None:
        target = self._inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content if content.endswith("\n") else f"{content}\n", mode=mode)

    def _inside(self, path: str) -> Path:
        """``path`` in the tree; one that leads out of it through a link is refused."""
        place = self.tree / PurePosixPath(path).relative_to("/")
        parent = place.parent.resolve()
        if not parent.is_relative_to(self.tree.resolve()):
            msg = "is outside the tree through a link"
            raise GpustackError(msg, code="unsafe-path", where=path, hint="give the root of a whole system: --root DIR")
        return place


def _needs_more(action: AnyAction) -> bool:
    """Whether an action affects more than the tree: the running system, or an account with the distributor."""
    match action:
        case EnableService() | DisableService() | RestartService() | RebuildInitramfs():
            return True
        case EnableSource(needs_account=account):
            return account
        case Words(argv=argv):
            return bool(missing_system(argv)) or needs_account(argv)
        case _:
            return False


def wheels_of(action: AnyAction) -> Argv:
    """The command by which an action has pip install wheels, () if it does not."""
    match action:
        case InstallWheels():
            return spell(action)[0]
        case Words(argv=argv) if is_pip_install(argv):
            return argv
        case _:
            return ()


def _left_by(action: AnyAction) -> str:
    """What an action downloads that no bundle contains, "" for nothing."""
    match action:
        case Clone():
            return "`git` clones a repository"
        case PullImage(engine=engine):
            return f"`{engine}` pulls an image"
        case Words(argv=argv):
            return fetched_by(argv)
        case _:
            return ""


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    with source.open("rb") as content, target.open("wb") as copy:
        while chunk := content.read(1 << 20):
            copy.write(chunk)
