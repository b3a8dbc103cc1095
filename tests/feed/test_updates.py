"""``matrix update``, ``status`` and ``rollback``: what a user gets, from a server, a folder and one file."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import zlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from tests.feed.conftest import TOOL, Machine, Publisher, Server, archive

from gpustack.cli import main
from gpustack.errors import GpustackError
from gpustack.matrix.age import OldFactsError
from gpustack.matrix.feed import bundle as bundles
from gpustack.matrix.feed.generations import kept
from gpustack.matrix.index import load_matrix
from gpustack.matrix.updates import current, newest_store


def releases() -> set[str]:
    return {row.version for row in load_matrix().releases("cuda")}


def test_an_update_is_in_use_by_the_next_command(publisher: Publisher, machine: Machine, server: Server) -> None:
    assert "13.4.0" not in releases()
    publisher.release("13.4.0")
    publisher.publish()
    done = machine.update(server.url)
    assert done.is_new
    assert "13.4.0" in releases()
    assert load_matrix().date == done.date
    assert not machine.update(server.url).is_new


@pytest.mark.usefixtures("machine")
def test_an_update_is_read_as_the_files_of_a_wheel() -> None:
    """Nothing is decoded twice or kept in memory: the generation is a folder like that of the installation."""
    store, generation = newest_store()
    assert generation is not None
    assert store.has_parts
    assert {path.suffix for path in generation.iterdir()} == {".msgpack", ".json"}


def test_a_machine_adds_rows(publisher: Publisher, machine: Machine) -> None:
    publisher.archives(archive("a.tar"), archive("b.tar"))
    publisher.publish("generated")
    before = load_matrix()
    done = machine.update(publisher.path)
    assert done.is_new
    assert [row["file"] for row in load_matrix().rows("files", "archives", dict)] == ["a.tar", "b.tar"]
    assert load_matrix().date == before.date == done.date  # no rule is younger
    assert load_matrix().digest != before.digest
    publisher.publish()  # persons have signed the same rows
    assert machine.update(publisher.path).is_new
    assert len(load_matrix().rows("files", "archives", dict)) == 2


def test_one_file_is_enough_offline(publisher: Publisher, machine: Machine, tmp_path: Path) -> None:
    publisher.release("13.4.0")
    publisher.publish()
    publisher.archives(archive("a.tar"), archive("b.tar"))
    publisher.publish("generated")
    TOOL.one_file(publisher.path, tmp_path / "facts.zip")
    shutil.rmtree(publisher.path)
    machine.root = None  # it is remembered
    assert machine.update(tmp_path / "facts.zip").is_new
    assert "13.4.0" in releases()


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.99])
def test_a_damaged_file_is_no_traceback(publisher: Publisher, machine: Machine, tmp_path: Path, cut: float) -> None:
    path = tmp_path / "facts.zip"
    publisher.release("13.4.0")
    publisher.publish()
    TOOL.one_file(publisher.path, path)
    content = bytearray(path.read_bytes())
    middle = int(len(content) * cut)
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    try:
        machine.update(path)
    except GpustackError:
        assert "13.4.0" not in releases()
    else:
        assert "13.4.0" in releases()


def test_the_last_two_are_kept_and_rollback_returns_to_the_one_before(
    publisher: Publisher, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("13.4.0", "13.5.0"):
        publisher.release(version)
        publisher.publish()
        machine.update(publisher.path)
    assert len(kept(machine.folder)) == 2
    assert {"13.4.0", "13.5.0"} <= releases()
    assert main(["matrix", "rollback"]) == 0
    assert f"; `gpustack matrix update --from {publisher.path}` undoes this" in capsys.readouterr().out
    assert "13.4.0" in releases()
    assert "13.5.0" not in releases()
    assert main(["matrix", "rollback"]) == 0
    assert current(machine.folder) is None
    assert main(["matrix", "rollback"]) == 1
    assert "no-earlier-facts" in capsys.readouterr().err
    assert machine.update(publisher.path).is_new
    assert "13.5.0" in releases()
    assert len(kept(machine.folder)) == 2


def test_a_generation_that_a_process_reads_is_not_removed(publisher: Publisher, machine: Machine) -> None:
    first = current(machine.folder)
    assert first is not None
    other = os.open(first, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_SH)  # as a process that has it open
    for version in ("13.4.0", "13.5.0"):
        publisher.release(version)
        publisher.publish()
        machine.update(publisher.path)
    assert first in kept(machine.folder)
    os.close(other)
    publisher.release("13.6.0")
    publisher.publish()
    machine.update(publisher.path)
    assert first not in kept(machine.folder)


def test_a_renewed_time_stamp_renews_the_expiry_and_nothing_else(
    publisher: Publisher, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    before = current(machine.folder)
    renewed = publisher.now + timedelta(hours=1)
    repo = publisher.repo(now=renewed)
    repo.announce(is_forced=True)
    done = machine.update(publisher.path)
    assert not done.is_new
    assert current(machine.folder) == before
    capsys.readouterr()
    main(["matrix", "status", "--format", "json"])
    assert (
        json.loads(capsys.readouterr().out)["expires"]
        == done.expires
        == f"{renewed + TOOL.EXPIRY['timestamp']:%Y-%m-%dT%H:%M:%SZ}"
    )


def test_a_second_update_at_the_same_time_is_refused(publisher: Publisher, machine: Machine) -> None:
    other = os.open(machine.folder / "lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(GpustackError, match="another process") as caught:
        machine.update(publisher.path)
    assert caught.value.code == "update-running"
    os.close(other)


@pytest.mark.parametrize("place", ["", "generations", "generations/000001"])
def test_facts_that_others_can_write_are_not_read(machine: Machine, place: str) -> None:
    assert newest_store()[1] is not None
    (machine.folder / place).chmod(0o777)
    assert newest_store()[1] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_facts_of_another_user_are_not_read(machine: Machine) -> None:
    os.chown(machine.folder / "generations" / "000001", 1234, 1234)
    assert newest_store()[1] is None


def test_a_link_to_facts_elsewhere_is_not_followed(machine: Machine, tmp_path: Path) -> None:
    shutil.move(machine.folder / "generations" / "000001", tmp_path / "elsewhere")
    (machine.folder / "generations" / "000001").symlink_to(tmp_path / "elsewhere")
    assert newest_store()[1] is None


def unusable(change: Callable[[bundles.Bundle], bundles.Bundle | bytes]) -> bytes:
    empty = bundles.Bundle(
        index=bundles.Index(format=bundles.FORMAT, subjects={}, made="2026-11-23T00:00:00Z"), files={}
    )
    made = change(empty)
    return made if isinstance(made, bytes) else bundles.pack(made)


UNUSABLE: dict[str, Callable[[bundles.Bundle], bundles.Bundle | bytes]] = {
    "no archive": lambda _: b"hello",
    "no bundle": lambda _: zlib.compress(b"hello"),
    "a bomb": lambda _: zlib.compress(bytes(bundles.LARGEST + 1)),
    "another layout": lambda one: msgspec.structs.replace(one, index=msgspec.structs.replace(one.index, format=1)),
    "no time": lambda one: msgspec.structs.replace(one, index=msgspec.structs.replace(one.index, made="")),
    "a path": lambda one: msgspec.structs.replace(one, files={"../../x": b""}),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_signed_bundle_that_this_program_cannot_read_is_refused(
    publisher: Publisher, machine: Machine, name: str
) -> None:
    before = current(machine.folder)
    repo = publisher.repo()
    repo.add_target("targets", bundles.NAME, unusable(UNUSABLE[name]))
    repo.announce()
    with pytest.raises(OldFactsError) as caught:
        machine.update(publisher.path)
    assert (caught.value.code, caught.value.exit_code) == ("update-unusable", 8)
    assert current(machine.folder) == before


def test_rows_of_a_later_program_are_refused(publisher: Publisher, machine: Machine) -> None:
    """A strength that this release does not know must not become a rule that it ignores."""
    path = publisher.matrices / "cuda.yaml"
    path.write_text(path.read_text().replace("strength: required", "strength: astonishing"))
    publisher.publish()
    with pytest.raises(OldFactsError, match="cannot read") as caught:
        machine.update(publisher.path)
    assert caught.value.code == "update-unusable"


def test_facts_older_than_those_of_the_installation_are_not_used(
    publisher: Publisher, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = publisher.repo()
    TOOL.publish(repo, "targets", "2020-01-01T00:00:00Z", publisher.matrices)
    repo.announce()
    assert main(["matrix", "update", "--from", str(publisher.path), "--trusted-root", str(machine.root)]) == 0
    assert "this gpustack has later facts" in capsys.readouterr().err
    assert newest_store()[1] is None


@pytest.mark.usefixtures("machine")
def test_status_names_date_digest_age_expiry_and_origin(
    publisher: Publisher, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matrix", "status", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["age_days"], found["digest"]) == (
        "gpustack/facts-status/v1",
        0,
        load_matrix().digest,
    )
    assert found["expires"] == f"{publisher.now + TOOL.EXPIRY['timestamp']:%Y-%m-%dT%H:%M:%SZ}"
    assert (found["origin"]["kind"], found["origin"]["source"]) == ("update", str(publisher.path))
    assert main(["matrix", "status"]) == 0
    text = capsys.readouterr().out
    assert all(part in text for part in (found["date"], found["digest"], found["expires"], str(publisher.path)))


def test_an_address_that_is_unreachable_is_a_failed_download(machine: Machine) -> None:
    with pytest.raises(GpustackError) as caught:
        machine.update("http://127.0.0.1:9")
    assert (caught.value.code, caught.value.exit_code) == ("download-failed", 1)


def test_without_a_source_or_a_root_nothing_is_invented(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUSTACK_FACTS", str(tmp_path / "fresh"))
    assert main(["matrix", "update"]) == 2
    assert "error[no-update-source]" in capsys.readouterr().err
    assert main(["matrix", "update", "--from", str(tmp_path / "repo")]) == 2
    assert "--trusted-root" in capsys.readouterr().err
    monkeypatch.setenv("GPUSTACK_FACTS_URL", str(tmp_path / "repo"))
    assert main(["matrix", "update", "--trusted-root", str(machine.root)]) == 0
    assert main(["matrix", "update"]) == 0  # the root is remembered
    assert main(["matrix", "list", "--trusted-root", str(machine.root)]) == 2
