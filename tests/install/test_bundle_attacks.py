"""A bundle that somebody changed on its way is refused before anything is written; a good one says who signed it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.install.bundles import CONTENT, Forge
from tests.install.layers import Layer, packages
from tests.install.world import World, ended
from tests.integration import debs
from tests.integration.catalogue import Package
from tests.integration.keys import SigningKeys

EVIL = Package("gp-tool", "1.0", files={"/DEBIAN/postinst": "#!/bin/sh\nid >/etc/OWNED\n"})


@pytest.fixture(scope="session")
def good(keys: SigningKeys, tmp_path_factory: pytest.TempPathFactory) -> Forge:
    forge = Forge(tmp_path_factory.mktemp("good") / "bundle", keys, keys.current)
    forge.make()
    return forge


@pytest.fixture
def bundle(good: Forge, tmp_path: Path) -> Forge:
    """A copy that a test may change."""
    shutil.copytree(good.folder, tmp_path / "bundle")
    return replace(good, folder=tmp_path / "bundle")


class Machine:
    """A fresh tree, and ``gpustack install`` into it with folders of its own for all that it might write."""

    def __init__(self, world: World, made: Layer, folder: Path) -> None:
        self.world = world
        self.made = made
        self.folders = [folder / name for name in ("home", "cache", "tmp", "state")]
        for one in self.folders:
            one.mkdir()

    def install(self, *words: object, front: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        home, cache, temporary, state = map(str, self.folders)
        environment = self.world.environment(
            HOME=home, GPUSTACK_CACHE=cache, TMPDIR=temporary, PYTHONDONTWRITEBYTECODE="1"
        )
        # The state of this machine, which a run in a tree is noted in, lies in a folder of the test.
        enter = ("unshare", "--mount", "sh", "-c", f'mount --bind "{state}" /var/lib && exec "$@"', "sh")
        program = (sys.executable, "-m", "gpustack", "install", *map(str, words), "--root", str(self.made.root.path))
        return ended([*enter, *front, *program], environment)

    def written(self) -> list[Path]:
        """All that was written anywhere, attributes included: the lower tree would show them as a copy of the file."""
        return [path for folder in (*self.folders, self.made.upper) for path in folder.rglob("*")]


@pytest.fixture
def machine(world: World, tmp_path: Path) -> Iterator[Machine]:
    with world.fresh(tmp_path / "layer") as made:
        yield Machine(world, made, tmp_path)


def other_key(forge: Forge) -> Forge:
    return replace(forge, key=forge.keys.retired)


def append_key(forge: Forge) -> None:
    """The proof of concept: the attacker's packages and index, the attacker's key behind the good one."""
    (next((forge.folder / "deb").glob("gp-tool*"))).unlink()
    debs.build_repository(forge.folder / "deb", [EVIL])
    other_key(forge).sign_packages()
    forge.put_keys(forge.keys.retired)


def append_key_and_sign_both(forge: Forge) -> None:
    """Both keys in the keyring, both signatures below the manifest."""
    append_key(forge)
    forge.seal()
    content = (forge.folder / "manifest.json").read_bytes()
    both = b"".join(forge.keys.detached(content, one) for one in (forge.key, forge.keys.retired))
    (forge.folder / "manifest.json.asc").write_bytes(both)


def exchange_armoured_key(forge: Forge) -> None:
    """Signed by one key, with another for dnf and zypper."""
    (forge.folder / "key.asc").write_bytes(forge.keys.public(forge.keys.retired))
    forge.seal()


def key_of_index(forge: Forge) -> None:
    """The same for the copy that zypper takes."""
    (forge.folder / "rpm/repodata").mkdir(parents=True)
    (forge.folder / "rpm/repodata/repomd.xml.key").write_bytes(forge.keys.public(forge.keys.retired))
    forge.seal()


def exchange_package(forge: Forge) -> None:
    package = next((forge.folder / "deb").glob("gp-tool*"))
    content = bytearray(package.read_bytes())
    content[len(content) // 2] ^= 1
    package.write_bytes(content)


def truncate_package(forge: Forge) -> None:
    package = next((forge.folder / "deb").glob("gp-tool*"))
    package.write_bytes(package.read_bytes()[:-1])


def package_less(forge: Forge) -> None:
    next((forge.folder / "deb").glob("gp-lib*")).unlink()


def unlisted_file(forge: Forge) -> None:
    (forge.folder / "deb/extra_1.0_amd64.deb").write_bytes(b"extra")


def unlisted_wheel(forge: Forge) -> None:
    (forge.folder / "wheels").mkdir()
    (forge.folder / "wheels/numpy-99-py3-none-any.whl").write_bytes(b"extra")


def second_manifest(forge: Forge) -> None:
    """Another manifest, of another key, in a folder of the bundle."""
    (forge.folder / "deb/manifest.json").write_bytes((forge.folder / "manifest.json").read_bytes())


def link_inside(forge: Forge) -> None:
    """A package that lies elsewhere: what it is can change at any time."""
    package = next((forge.folder / "deb").glob("gp-tool*"))
    package.rename(forge.folder.parent / package.name)
    package.symlink_to(forge.folder.parent / package.name)


def linked_folder(forge: Forge) -> None:
    (forge.folder / "deb").rename(forge.folder.parent / "elsewhere")
    (forge.folder / "deb").symlink_to(forge.folder.parent / "elsewhere")


def pipe_inside(forge: Forge) -> None:
    (forge.folder / "files/gp.txt").unlink()
    os.mkfifo(forge.folder / "files/gp.txt")


def climbing_name(forge: Forge) -> None:
    """The proof of concept: a link in the bundle, and a name that goes through it and up to a file of the machine."""
    owned = forge.folder.parent / "owned"
    owned.write_bytes(CONTENT)
    (forge.folder / "deb/x").symlink_to(forge.folder.parent)
    entry = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "size": len(CONTENT)}
    forge.seal(more_files={f"deb/x/{'../' * 30}{str(owned)[1:]}": entry})


def absolute_artifact(forge: Forge) -> None:
    forge.seal(artifacts={"https://vendor.gpustack.test/gp.txt": "/etc/shadow"})


def unknown_part(forge: Forge) -> None:
    (forge.folder / "hooks").write_bytes(b"x")
    forge.seal()


def lock_not_listed(forge: Forge) -> None:
    lock = (forge.folder / "lock.json").read_bytes()
    (forge.folder / "lock.json").unlink()
    forge.seal()
    (forge.folder / "lock.json").write_bytes(lock)


def other_fingerprint(forge: Forge) -> None:
    """A manifest that names another key than the one that signed it."""
    forge.seal(fingerprint=forge.keys.retired)


def unsigned(forge: Forge) -> None:
    (forge.folder / "manifest.json.asc").unlink()


def changed_manifest(forge: Forge) -> None:
    path = forge.folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"left"', b'"lift"') + b" ")


def truncated_manifest(forge: Forge) -> None:
    path = forge.folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:-20])


def huge_manifest(forge: Forge) -> None:
    with (forge.folder / "manifest.json").open("ab") as file:
        file.truncate(65 * 2**20)


def huge_key(forge: Forge) -> None:
    with (forge.folder / "key.gpg").open("ab") as file:
        file.truncate(65 * 2**20)


ATTACKS: dict[str, tuple[Callable[[Forge], None], str]] = {
    "appended key": (append_key, "holds 2 keys"),
    "two keys, two signatures": (append_key_and_sign_both, "holds 2 keys"),
    "another armoured key": (exchange_armoured_key, "is not the key of key.gpg"),
    "another key of the index": (key_of_index, "is not the key of key.gpg"),
    "swapped package": (exchange_package, "gp-tool_1.0_amd64.deb differs from what was signed"),
    "truncated package": (truncate_package, "were signed"),
    "missing package": (package_less, "gp-lib_1.0_amd64.deb is missing"),
    "unlisted package": (unlisted_file, "'deb/extra_1.0_amd64.deb' is not in the manifest"),
    "unlisted wheel": (unlisted_wheel, "'wheels/numpy-99-py3-none-any.whl' is not in the manifest"),
    "second manifest": (second_manifest, "'deb/manifest.json' is not in the manifest"),
    "link inside": (link_inside, "is a link, a device, a pipe or a socket"),
    "linked folder": (linked_folder, "'deb' is a link"),
    "pipe": (pipe_inside, "'files/gp.txt' is a link, a device, a pipe"),
    "name that climbs out": (climbing_name, "the manifest names what no bundle holds"),
    "absolute name": (absolute_artifact, "'/etc/shadow'"),
    "file of no part": (unknown_part, "'hooks'"),
    "lock that is not listed": (lock_not_listed, "lock.json is missing"),
    "fingerprint of another key": (other_fingerprint, "is signed by"),
    "no signature": (unsigned, "manifest.json.asc: cannot be read"),
    "changed manifest": (changed_manifest, "the signature is not valid"),
    "truncated manifest": (truncated_manifest, "the signature is not valid"),
    "huge manifest": (huge_manifest, "is larger than 64 MiB"),
    "huge key": (huge_key, "is larger than 0.0625 MiB"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_changed_bundle_is_refused_before_anything_is_written(name: str, bundle: Forge, machine: Machine) -> None:
    change, why = ATTACKS[name]
    change(bundle)
    owned = bundle.folder.parent / "owned"
    before = owned.lstat() if owned.exists() else None
    for words in (("--dry-run",), ("--yes",)):
        done = machine.install("--bundle", bundle.folder, *words)
        assert done.returncode == 1, done.stderr
        assert why in done.stderr
        assert "hint: " in done.stderr
        assert "Traceback" not in done.stderr
        assert machine.written() == []
    if before is not None:
        assert (owned.lstat().st_mtime_ns, owned.lstat().st_nlink) == (before.st_mtime_ns, before.st_nlink)


def test_a_bundle_that_is_none_is_no_usage_of_it(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = machine.install("--bundle", tmp_path / "empty", "--yes")
    assert done.returncode == 2
    assert "holds no bundle" in done.stderr
    assert machine.written() == []


def test_a_dry_run_shows_the_key_and_writes_nothing_anywhere(bundle: Forge, machine: Machine) -> None:
    """Not even where nothing could be written: the whole machine is read-only to it."""
    read_only = ("unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh")
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in bundle.folder.rglob("*"))
    for front in ((), read_only):
        done = machine.install("--bundle", bundle.folder, "--dry-run", front=front)
        assert done.returncode == 0, done.stderr
        assert f"signed with the key {bundle.key}" in done.stdout
        assert "apt-get" in done.stdout
        assert machine.written() == []
    assert sorted((str(path), path.lstat().st_mtime_ns) for path in bundle.folder.rglob("*")) == before


def test_who_does_not_say_yes_has_seen_the_key_and_nothing_is_written(bundle: Forge, machine: Machine) -> None:
    done = machine.install("--bundle", bundle.folder)
    assert done.returncode == 2, "nobody can be asked here"
    assert f"signed with the key {bundle.key}" in done.stderr
    assert machine.written() == []


def test_a_pinned_key_has_to_be_that_of_the_bundle(bundle: Forge, machine: Machine) -> None:
    forged = other_key(bundle)
    forged.put_keys()
    forged.sign_packages()
    forged.seal()
    spelled = " ".join(bundle.key[start : start + 4] for start in range(0, 40, 4)).lower()
    done = machine.install("--bundle", bundle.folder, "--yes", "--fingerprint", spelled)
    assert done.returncode == 1
    assert f"is signed by the key {forged.key}, and the key {bundle.key} is required" in done.stderr
    assert machine.written() == []
    for words, why in (
        (("--bundle", bundle.folder, "--fingerprint", bundle.key[:39]), "is not a full fingerprint"),
        (("cuda", "--fingerprint", bundle.key), "no bundle is given"),
    ):
        done = machine.install(*words, "--dry-run")
        assert done.returncode == 2
        assert why in done.stderr
    assert machine.written() == []


def test_a_good_bundle_is_installed_by_its_one_key(bundle: Forge, machine: Machine) -> None:
    """What an earlier, killed copy left half is copied anew."""
    (bundle.folder / "deb/empty").mkdir()
    words = ("--bundle", bundle.folder, "--yes", "--fingerprint", bundle.key)
    place = (
        f"var/cache/gpustack/bundle/{hashlib.sha256((bundle.folder / 'manifest.json').read_bytes()).hexdigest()[:16]}"
    )
    half = machine.made.root.path / place / "deb/gp-tool_1.0_amd64.deb"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    done = machine.install(*words)
    assert done.returncode == 0, done.stderr
    assert f"signed with the key {bundle.key}" in done.stderr
    assert {"gp-tool:amd64", "gp-lib:amd64"} <= packages(machine.made.root).keys()
    assert machine.made.root.inside("/var/cache/gpustack/gp/gp.txt").read_bytes() == CONTENT
    trusted = machine.made.root.inside("/var/lib/gpustack/bundle/key.asc").read_text()
    assert trusted == (bundle.folder / "key.asc").read_text()
    assert (
        "signed-by=/var/lib/gpustack/bundle/key.asc"
        in machine.made.root.inside("/var/lib/gpustack/bundle/apt.list").read_text()
    )
    left = [path.name for path in half.parent.iterdir()]
    assert sorted(left) == sorted(path.name for path in (bundle.folder / "deb").iterdir() if path.is_file())
