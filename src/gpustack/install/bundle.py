"""Bundles: a folder with everything that a plan needs, for machines that no network reaches."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpustack.errors import DocumentError, GpustackError, UsageError
from gpustack.install import lock as locks
from gpustack.install.closure import Closure, is_install, is_pip_install
from gpustack.install.downloads import Fetcher, fetch_all
from gpustack.install.options import Counter, Progress
from gpustack.install.repository import DEB, RPM, WHEELS, take_debs, take_rpms, take_wheels
from gpustack.install.signing import BundleKey, signer_of
from gpustack.model.host import Host
from gpustack.model.lock import LockedPackage
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, Step
from gpustack.system.files import write_atomically
from gpustack.system.hashed import sha256_of_file
from gpustack.system.mounts import overlaid, remove_tree

MANIFEST, LOCK = "manifest.json", "lock.json"
_PARTS = (DEB, RPM, WHEELS, "files", LOCK, "key.gpg", "key.asc", f"{MANIFEST}.asc", MANIFEST)
"""What a bundle consists of; the manifest comes last, so that a folder without one is no bundle."""


_NEW = ".new-"
"""What the folder's name begins with in which a bundle is made; what a killed run left is removed by the next."""


class File(Struct, frozen=True, kw_only=True):
    """One file of a bundle."""

    sha256: str
    size: int


class Manifest(Struct, frozen=True, kw_only=True):
    """What is in a bundle, by path, and what could not be brought along.

    ``fingerprint`` is that of the key which signs the manifest and the indexes; ``artifacts`` maps an address to the
    file that came from it.
    """

    schema: Literal["gpustack/bundle/v1"] = "gpustack/bundle/v1"
    fingerprint: str
    plan: str
    artifacts: dict[str, str]
    files: dict[str, File]
    left: tuple[str, ...] = ()


class Bundle:
    """An opened bundle: its signature holds, and its lock is the one that was signed."""

    def __init__(self, folder: Path) -> None:
        """Raises DocumentError where ``folder`` holds no bundle, GpustackError where it was changed."""
        self.folder = folder.absolute()
        path = self.folder / MANIFEST
        if not path.is_file():
            msg = "holds no bundle"
            raise DocumentError(msg, where=str(folder), hint="`gpustack fetch PLAN.json --to DIR` makes one")
        signer = signer_of(path, self.folder / f"{MANIFEST}.asc", self.folder / "key.gpg")
        try:
            self.manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except msgspec.DecodeError as exc:
            msg = f"is no manifest of a bundle: {exc}"
            raise DocumentError(msg, where=str(path), hint="a newer gpustack may have made it") from exc
        if signer != self.manifest.fingerprint:
            msg = f"is signed by {signer}, and names {self.manifest.fingerprint}"
            raise GpustackError(msg, where=str(path), hint="the bundle was changed: make it again")
        self.lock = locks.load(self._checked(LOCK))

    def __call__(self, artifact: Artifact, progress: Progress) -> Path:
        """The file of ``artifact``: a ``Downloader`` that needs no network. Raises GpustackError."""
        name = self.manifest.artifacts.get(artifact.url)
        if name is None:
            msg = "is not in the bundle"
            hint = "the bundle was made for another plan: install the plan of the bundle itself"
            raise GpustackError(msg, where=artifact.url, hint=hint)
        path = self._checked(name)
        if artifact.sha256 not in {"", self.manifest.files[name].sha256}:
            msg = f"has another sum in the bundle ({self.manifest.files[name].sha256}) than in the plan"
            raise GpustackError(msg, where=artifact.url, hint="make the bundle again from this plan")
        size = path.stat().st_size
        progress(size, size)
        return path

    def has(self, part: str) -> bool:
        """Whether there are packages of a kind (``DEB``, ``RPM``, ``WHEELS``)."""
        return any(name.startswith(f"{part}/") for name in self.manifest.files)

    def check(self) -> None:
        """Hash every file. Raises GpustackError with all that are gone or damaged."""
        bad = [f"{name} {fault}" for name in self.manifest.files if (fault := self._fault(name))]
        if bad:
            msg = f"{len(bad)} files of the bundle are gone or damaged:\n" + "\n".join(bad)
            raise GpustackError(msg, where=str(self.folder), hint="copy the bundle again")

    def _checked(self, name: str) -> Path:
        fault = self._fault(name)
        if fault:
            raise GpustackError(fault, where=str(self.folder / name), hint="copy the bundle again")
        return self.folder / name

    def _fault(self, name: str) -> str:
        """What is wrong with a file of the bundle, "" where nothing is."""
        wanted = self.manifest.files.get(name)
        try:
            found = sha256_of_file(self.folder / name)
        except OSError as exc:
            return f"cannot be read: {exc.strerror or exc}"
        return "" if wanted is not None and found == wanted.sha256 else "is not the file that was signed"


@dataclass(frozen=True)
class Maker:
    """Makes bundles; packages are chosen for the system at ``root``."""

    root: Path
    fetcher: Fetcher
    transfer: Counter
    say: Callable[[str], None]

    def make(self, plan: Plan, folder: Path) -> Bundle:
        """Make the bundle of ``plan`` in ``folder``. Raises GpustackError; then ``folder`` is as it was."""
        _demand_own_folder(folder)
        wanted = [one for step in plan.steps for one in (*step.artifacts, *_by_address(step))]
        found = fetch_all(wanted, self.fetcher, self.transfer)
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{_NEW}*"):
            remove_tree(left)
        work = Path(tempfile.mkdtemp(prefix=_NEW, dir=folder))
        work.chmod(0o755)
        try:
            new = work / "bundle"
            new.mkdir()
            with closing(BundleKey()) as key:
                key.export(new)
                self._fill(plan, new, key, found)
            _put(new, folder)
        finally:
            remove_tree(work)
            with suppress(OSError):
                folder.rmdir()
        return Bundle(folder)

    def _fill(self, plan: Plan, new: Path, key: BundleKey, found: dict[Artifact, Path]) -> None:
        packages: list[LockedPackage] = []
        left: list[str] = []
        if brings_packages(plan):
            with overlaid(self.root, new.parent) as tree:
                closure = Closure(tree, found.__getitem__, self.say)
                closure.run(plan)
                packages += take_debs(closure, new / DEB, key)
                packages += take_rpms(closure, new / RPM, key)
                packages += take_wheels(closure, new / WHEELS)
                left = closure.left
        names, pinned = _copies(found, new / "files")
        lock = locks.of_plan(plan, artifacts=pinned, packages=packages)
        write_atomically(new / LOCK, locks.dump(lock))
        files = {
            str(path.relative_to(new)): File(sha256=sha256_of_file(path), size=path.stat().st_size)
            for path in sorted(new.rglob("*"))
            if path.is_file()
        }
        manifest = Manifest(
            fingerprint=key.fingerprint, plan=plan.digest, artifacts=names, files=files, left=tuple(left)
        )
        document = msgspec.json.format(msgspec.json.encode(manifest), indent=2).decode() + "\n"
        write_atomically(new / MANIFEST, document)
        key.sign(new / MANIFEST, new / f"{MANIFEST}.asc")


def brings_packages(plan: Plan) -> bool:
    """Whether a package manager has to be asked what a plan needs."""
    commands = [argv for step in plan.steps for argv in step.commands]
    return plan.host.os.family != "windows" and any(is_install(argv) or is_pip_install(argv) for argv in commands)


def demand_same_system(plan: Plan, host: Host) -> None:
    """Raise UsageError where packages would be chosen on ``host``, another system than the plan is for."""
    wanted, found = plan.host, host
    is_same_system = (wanted.os.id, wanted.os.version_id) == (found.os.id, found.os.version_id)
    # A tree without a package says nothing of its architecture.
    if not is_same_system or (found.arch and wanted.arch != found.arch):
        msg = (
            f"the plan is for {wanted.os.spelled} ({wanted.arch}), and packages would be chosen on "
            f"{found.os.spelled} ({found.arch})"
        )
        raise UsageError(msg, hint="give a tree of the plan's system: --root DIR")


def _by_address(step: Step) -> list[Artifact]:
    """The packages that commands install by their address."""
    words = [word for argv in step.commands if is_install(argv) for word in argv]
    return [Artifact(url=word, path=f"/{word.rpartition('/')[2]}") for word in words if word.startswith("https://")]


def _copies(found: dict[Artifact, Path], folder: Path) -> tuple[dict[str, str], list[Artifact]]:
    """Copies of the files by the addresses that they came from, and the artifacts with their sums."""
    names: dict[str, str] = {}
    pinned = []
    for artifact, path in found.items():
        folder.mkdir(exist_ok=True)
        sha256 = path.name
        name = f"{sha256[:16]}-{artifact.path.rpartition('/')[2]}"
        shutil.copyfile(path, folder / name)
        names[artifact.url] = f"{folder.name}/{name}"
        pinned.append(replace(artifact, sha256=sha256, size=path.stat().st_size))
    return names, pinned


def _demand_own_folder(folder: Path) -> None:
    if not folder.exists():
        return
    others = folder.is_dir() and any(not path.name.startswith(_NEW) for path in folder.iterdir())
    if not folder.is_dir() or (others and not (folder / MANIFEST).exists()):
        msg = "is neither empty nor a bundle"
        raise GpustackError(msg, where=str(folder), hint="name a new folder, or that of a bundle to be made anew")


def _put(new: Path, folder: Path) -> None:
    """Put the parts in place; while they change there is no manifest."""
    for name in reversed(_PARTS):
        old = folder / name
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
    for name in _PARTS:
        if (new / name).exists():
            (new / name).rename(folder / name)
