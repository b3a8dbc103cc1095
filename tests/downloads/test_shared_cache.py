"""A cache that others can write to: what comes out of it is what was asked for, or nothing."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest
from tests.downloads.server import Files, serving

from gpustack.errors import GpustackError
from gpustack.install.supply.cache import Cache, is_private, take
from gpustack.install.supply.downloads import Fetcher
from gpustack.model.steps import Artifact

CONTENT = b"a publisher's file\n" * 100_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root gives files to another user")


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    part = tmp_path / "part"
    part.write_bytes(CONTENT)
    return Cache(tmp_path / "cache").publish(part, SHA256)


def test_a_file_of_another_user_is_copied_and_never_shared(cached: Path, tmp_path: Path) -> None:
    os.chown(cached, NOBODY, NOBODY)
    target = tmp_path / "target"
    take(cached, target, SHA256)
    assert target.read_bytes() == CONTENT
    assert (target.stat().st_uid, target.stat().st_nlink) == (os.geteuid(), 1)
    with cached.open("r+b") as file:
        file.write(b"changed afterwards")
    assert target.read_bytes() == CONTENT


def test_what_was_changed_after_it_was_checked_is_refused(cached: Path, tmp_path: Path) -> None:
    with cached.open("r+b") as file:
        file.write(b"changed before its use")
    with pytest.raises(GpustackError, match=f"its sha256 is [0-9a-f]{{64}}, and {SHA256} is required"):
        take(cached, tmp_path / "target", SHA256)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_refused(kind: str, cached: Path, tmp_path: Path) -> None:
    """A link leads to whatever its owner likes, a pipe would be waited for."""
    kept = cached.rename(tmp_path / "kept")
    if kind == "link":
        cached.symlink_to(kept)
    elif kind == "pipe":
        os.mkfifo(cached)
    else:
        cached.mkdir()
    with pytest.raises(GpustackError, match="cannot be copied"):
        take(cached, tmp_path / "target", SHA256)
    assert not (tmp_path / "target").exists()


def test_what_is_there_already_stays(cached: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("of somebody")
    with pytest.raises(GpustackError, match="File exists"):
        take(cached, tmp_path / "target", SHA256)
    assert (tmp_path / "target").read_text() == "of somebody"


def test_a_download_that_another_user_began_is_begun_anew(tmp_path: Path) -> None:
    """Whoever holds the old file open writes into nothing that is used."""
    cache = Cache(tmp_path / "cache")
    part = cache.folder / "partial" / SHA256
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:1000])
    os.chown(part, NOBODY, NOBODY)
    files = Files()
    files.content = {"/file": CONTENT}
    with part.open("r+b") as held, serving(files, None) as server:
        fetcher = Fetcher(cache, mirrors={"https://vendor.gpustack.test/": f"{server}/"})
        artifact = Artifact(url="https://vendor.gpustack.test/file", path="/file", sha256=SHA256)
        found = fetcher(artifact, lambda _there, _size: None)
        held.write(b"x" * 1000)
        held.flush()
    assert found.read_bytes() == CONTENT
    assert found.stat().st_uid == os.geteuid()


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    (cache.folder / "locks").mkdir(parents=True)
    (cache.folder / "locks" / SHA256).symlink_to(tmp_path / "elsewhere")
    artifact = Artifact(url="https://vendor.gpustack.test/file", path="/file", sha256=SHA256)
    with pytest.raises(GpustackError, match="the cache cannot be used"):
        Fetcher(cache, mirrors={})(artifact, lambda _there, _size: None)
    assert not (tmp_path / "elsewhere").exists()


def test_a_place_is_private_where_nobody_else_can_change_it(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    (folder / "deb").mkdir(parents=True)
    file = folder / "deb/one"
    file.write_text("x")
    assert is_private(folder)
    for place, mode, owner in (
        (file, 0o666, 0),
        (file, 0o644, NOBODY),
        (folder / "deb", 0o777, 0),
        (folder, 0o1777, 0),
        (tmp_path, 0o777, 0),
        (tmp_path, 0o755, NOBODY),
    ):
        before = place.stat()
        place.chmod(mode)
        os.chown(place, owner, owner)
        assert not is_private(folder), f"{place} {mode:o} {owner}"
        place.chmod(stat.S_IMODE(before.st_mode))
        os.chown(place, before.st_uid, before.st_gid)
    assert is_private(folder)
