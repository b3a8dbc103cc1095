"""Making a bundle: a folder with everything that a plan requires, for machines without a network."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gpustack.errors import GpustackError, UsageError
from gpustack.install.lock import document as locks
from gpustack.install.options import Counter
from gpustack.install.supply.bundle import FILES, LOCK, MANIFEST, PARTS, SIGNATURE, Bundle, File, Manifest
from gpustack.install.supply.cache import take
from gpustack.install.supply.closure import Closure, wheels_of
from gpustack.install.supply.downloads import Fetcher, fetch_all
from gpustack.install.supply.repository import DEB, RPM, WHEELS, take_debs, take_rpms, take_wheels
from gpustack.install.supply.signing import BundleKey
from gpustack.model.host import Host
from gpustack.model.lock import LockedPackage
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, Step
from gpustack.plan.former import actions_of
from gpustack.plan.installing import installs
from gpustack.system.files import write_atomically
from gpustack.system.hashed import sha256_of_file
from gpustack.system.mounts import overlaid, remove_tree

_NEW = ".new-"
"""The prefix of the folder in which a bundle is made; the next run removes what a killed one left."""


@dataclass(frozen=True)
class Maker:
    """Makes bundles; packages are selected for the system at ``root``."""

    root: Path
    fetcher: Fetcher
    transfer: Counter
    say: Callable[[str], None]

    def make(self, plan: Plan, folder: Path) -> Bundle:
        """Make the bundle of ``plan`` in ``folder``. Raises GpustackError, leaving ``folder`` as it was."""
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
        return Bundle(folder, say=self.say)

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
        names, pinned = _copies(found, new / FILES)
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
        key.sign(new / MANIFEST, new / SIGNATURE)


def brings_packages(plan: Plan) -> bool:
    """Whether a package manager must resolve what a plan requires."""
    actions = [action for step in plan.steps for action in actions_of(step)]
    return plan.host.os.family != "windows" and any(installs(action) or wheels_of(action) for action in actions)


def demand_same_system(plan: Plan, host: Host) -> None:
    """Raise UsageError if packages would be selected on ``host``, another system than the plan's."""
    wanted, found = plan.host, host
    is_same_system = (wanted.os.id, wanted.os.version_id) == (found.os.id, found.os.version_id)
    # A tree without packages has no known architecture.
    if not is_same_system or (found.arch and wanted.arch != found.arch):
        msg = (
            f"the plan is for {wanted.os.spelled} ({wanted.arch}), and packages would be chosen on "
            f"{found.os.spelled} ({found.arch})"
        )
        raise UsageError(msg, code="other-system", hint="give a tree of the plan's system: --root DIR")


def _by_address(step: Step) -> list[Artifact]:
    """The packages that commands install by address."""
    found = [installs(action) for action in actions_of(step)]
    words = [word for one in found if one is not None for word in one[1]]
    return [Artifact(url=word, path=f"/{word.rpartition('/')[2]}") for word in words if word.startswith("https://")]


def _copies(found: dict[Artifact, Path], folder: Path) -> tuple[dict[str, str], list[Artifact]]:
    """Copies of the files by their addresses, and the artifacts with their checksums."""
    names: dict[str, str] = {}
    pinned = []
    for artifact, path in found.items():
        folder.mkdir(exist_ok=True)
        sha256 = path.name
        name = f"{sha256[:16]}-{artifact.path.rpartition('/')[2]}"
        take(path, folder / name, sha256)
        names[artifact.url] = f"{folder.name}/{name}"
        pinned.append(replace(artifact, sha256=sha256, size=path.stat().st_size))
    return names, pinned


def _demand_own_folder(folder: Path) -> None:
    if not folder.exists():
        return
    others = folder.is_dir() and any(not path.name.startswith(_NEW) for path in folder.iterdir())
    if not folder.is_dir() or (others and not (folder / MANIFEST).exists()):
        msg = "is neither empty nor a bundle"
        raise GpustackError(
            msg,
            code="folder-not-empty",
            where=str(folder),
            hint="name a new folder, or that of a bundle to replace",
        )


def _put(new: Path, folder: Path) -> None:
    """Put the parts in place; while they change there is no manifest."""
    for name in reversed(PARTS):
        old = folder / name
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
    for name in PARTS:
        if (new / name).exists():
            (new / name).rename(folder / name)
