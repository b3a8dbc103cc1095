"""Every package that a plan would bring, dependencies too: asked of the real package manager in a tree of its own."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from gpustack.errors import GpustackError
from gpustack.install.mounts import forbid_services, name_servers
from gpustack.install.root import Target
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, Step
from gpustack.render.commands import command_line
from gpustack.system.files import write_atomically
from gpustack.system.run import LocalRunner

PACKAGES = "/gpustack-packages"
"""Where in the tree the packages are downloaded to."""

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
}
_NOT_HERE = frozenset({"systemctl", "update-initramfs", "dracut", "subscription-manager", "SUSEConnect"})
"""Programs that act on more than the tree: the running system, or an account at the distributor."""

_NETWORK = {"git": "clones a repository", "docker": "pulls an image", "podman": "pulls an image"}
_URI = re.compile(r"'([^']+)' (\S+) (\d+)(?: \S+)?")
_PATIENCE = 3600.0


def program_at(argv: tuple[str, ...]) -> int:
    """The place of the program in a command that may begin with ``env`` and its assignments."""
    return next(number for number, word in enumerate(argv) if word != "env" and "=" not in word)


def is_install(argv: tuple[str, ...]) -> bool:
    """Whether a command has a package manager install packages."""
    at = program_at(argv)
    return argv[at] in {"apt-get", "dnf", "yum", "tdnf", "zypper"} and "install" in argv[at:]


def is_pip_install(argv: tuple[str, ...]) -> bool:
    """Whether a command has pip install wheels."""
    return argv[1:4] == ("-m", "pip", "install")


class Closure:
    """Runs the part of a plan that decides which packages come, and downloads them instead of installing them.

    ``tree`` is a tree that may be changed; ``bring`` gives the verified file of an artifact. ``urls`` says of a
    package's file where it came from, as far as the manager tells, ``steps`` which step brought it; ``left`` what
    cannot be brought along.
    """

    def __init__(self, tree: Path, bring: Callable[[Artifact], Path], say: Callable[[str], None]) -> None:
        self.tree = tree
        self.bring = bring
        self.say = say
        self.urls: dict[str, str] = {}
        self.steps: dict[str, str] = {}
        self.left: list[str] = []

    def run(self, plan: Plan) -> None:
        """Download all packages of ``plan`` to ``PACKAGES``. Raises GpustackError where a manager fails."""
        for name in ("debs/partial", "new", "rpms", "wheels"):
            self._inside(f"{PACKAGES}/{name}").mkdir(parents=True, exist_ok=True)
        # A package that is installed to look others up must start no service: the processes would be the machine's.
        forbid_services(Target(self.tree))
        name_servers(Target(self.tree))
        for step in plan.steps:
            if step.phase not in {"reboot", "verification"} and step.kind not in {"note", "manual", "reboot"}:
                self._step(step)

    def _step(self, step: Step) -> None:
        is_preparing = step.phase in {"preflight", "repositories"} or (
            step.phase == "prerequisites" and not step.component
        )
        # What pins versions has to be there when they are looked up.
        is_real = is_preparing or (step.kind == "hold-packages" and step.phase == "driver")
        if is_real:
            for artifact in step.artifacts:
                self._place(artifact)
        for file in step.files:
            self._write(file.path, file.content, int(file.mode, 8))
        for argv in step.commands:
            name = argv[program_at(argv)]
            if is_install(argv):
                self.say(f"{step.title}: looking up and downloading packages")
                self._download(argv)
                self._note(step)
            elif is_pip_install(argv):
                self._wheels(argv)
                self._note(step)
            elif name in _NETWORK:
                self.left.append(f"{step.title}: `{name}` {_NETWORK[name]}, which is not in the bundle")
            if is_real and name not in _NOT_HERE:
                self.must(argv)

    def must(self, argv: tuple[str, ...]) -> str:
        """Run a command in the tree; what it printed. Raises GpustackError where it fails."""
        passed = {
            name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or name[:4] == "PIP_"
        }
        words = [f"{name}={value}" for name, value in {**passed, **ENVIRONMENT}.items()]
        done = LocalRunner().run(("chroot", str(self.tree), "env", *words, *argv), timeout=_PATIENCE)
        if done.code != 0:
            told = done.error or "\n".join((done.out + done.err).strip().splitlines()[-8:])
            msg = f"`{command_line(argv)[:300]}` failed:\n{told}"
            hint = "a package that is gone, a repository that does not answer, or one whose signature is bad"
            raise GpustackError(msg, code="command-failed", where="bundle", hint=hint)
        return done.out

    def _download(self, argv: tuple[str, ...]) -> None:
        at = argv.index("install", program_at(argv)) + 1
        name = argv[program_at(argv)]
        if name == "apt-get":
            archives = ("-o", f"Dir::Cache::archives={PACKAGES}/debs/")
            told = self.must((*argv[:at], *archives, "--print-uris", *argv[at:]))
            self._apt_addresses(told.splitlines())
            self.must((*argv[:at], *archives, "--download-only", *argv[at:]))
        elif name == "zypper":
            front = (*argv[: at - 1], "--pkg-cache-dir", f"{PACKAGES}/new")
            self.must((*front, "install", "--download-only", *argv[at:]))
        else:
            where = ("--downloadonly", f"--downloaddir={PACKAGES}/new")
            self.must((*argv[:at], *where, *argv[at:]))

    def _note(self, step: Step) -> None:
        """Say of new files which step they came with, and put .rpm files aside: dnf's next transaction removes them."""
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
                # apt takes such a file from where it lies, and keeps no copy.
                lies = self._inside("/" + url.removeprefix("file:").lstrip("/"))
                _copy(lies, self._inside(f"{PACKAGES}/debs/{name}"))

    def _wheels(self, argv: tuple[str, ...]) -> None:
        words = tuple(word for word in argv[4:] if word not in {"--upgrade", "--force-reinstall"})
        self.must((*argv[:3], "download", "--dest", f"{PACKAGES}/wheels", *words))

    def _place(self, artifact: Artifact) -> None:
        target = self._inside(artifact.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(self.bring(artifact), target)

    def _write(self, path: str, content: str, mode: int) -> None:
        target = self._inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content if content.endswith("\n") else f"{content}\n", mode=mode)

    def _inside(self, path: str) -> Path:
        """``path`` of the tree; what leads out of it through a link is refused."""
        place = self.tree / PurePosixPath(path).relative_to("/")
        parent = place.parent.resolve()
        if not parent.is_relative_to(self.tree.resolve()):
            msg = "leads out of the tree through a link"
            raise GpustackError(msg, code="unsafe-path", where=path, hint="give the root of a whole system: --root DIR")
        return place


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    with source.open("rb") as content, target.open("wb") as copy:
        while chunk := content.read(1 << 20):
            copy.write(chunk)
