"""The attacks of the TUF specification: each is refused with exit code 8, and the facts in use stay."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.feed.conftest import ROLES, TOOL, Machine, Publisher, Server, archive

from gpustack.matrix.age import OldFactsError
from gpustack.matrix.feed import bundle as bundles
from gpustack.matrix.updates import current


def demand_refused(machine: Machine, source: object, reason: str) -> None:
    before = current(machine.folder)
    with pytest.raises(OldFactsError, match=reason) as caught:
        machine.update(source)
    assert caught.value.exit_code == 8
    assert caught.value.code == "update-untrusted"
    assert current(machine.folder) == before


def copy(publisher: Publisher, name: str) -> Path:
    return Path(shutil.copytree(publisher.path, publisher.path.with_name(name)))


def test_rollback_an_earlier_state_of_the_server_is_refused(publisher: Publisher, machine: Machine) -> None:
    before = copy(publisher, "before")
    publisher.release("13.4.0")
    publisher.publish()
    machine.update(publisher.path)
    demand_refused(machine, before, "version")


def test_rollback_of_the_snapshot_alone_is_refused(publisher: Publisher, machine: Machine) -> None:
    """The time stamp is new, and names a snapshot of before."""
    publisher.publish()
    machine.update(publisher.path)
    md = publisher.repo().open("timestamp")
    md.signed.snapshot_meta.version -= 1
    publisher.repo().close("timestamp", md)
    demand_refused(machine, publisher.path, "version")


def test_freeze_a_server_that_publishes_nothing_new_is_refused_once_its_time_stamp_expires(
    publisher: Publisher, machine: Machine
) -> None:
    past = publisher.now - TOOL.EXPIRY["timestamp"] - timedelta(days=1)
    publisher.repo(now=past).do_timestamp(force=True)
    demand_refused(machine, publisher.path, "expired")


@pytest.mark.parametrize("role", ["targets", "snapshot"])
def test_freeze_of_one_role_is_refused(publisher: Publisher, machine: Machine, role: str) -> None:
    md = publisher.repo().open(role)
    publisher.repo(now=publisher.now - timedelta(days=400)).close(role, md)
    repo = publisher.repo()
    if role == "targets":
        repo.do_snapshot()
    repo.do_timestamp()
    demand_refused(machine, publisher.path, "expired")


def test_an_expired_root_is_refused(publisher: Publisher, machine: Machine) -> None:
    with publisher.repo(now=publisher.now - timedelta(days=400)).edit_root():
        pass
    demand_refused(machine, publisher.path, "expired")


def test_an_expired_root_is_followed_by_a_valid_one(publisher: Publisher, machine: Machine) -> None:
    """A machine that was off for a year: the chain of roots counts, not the age of its links."""
    with publisher.repo(now=publisher.now - timedelta(days=400)).edit_root():
        pass
    with publisher.repo().edit_root():
        pass
    publisher.release("13.4.0")
    publisher.publish()
    assert machine.update(publisher.path).is_new


def test_mix_and_match_metadata_of_different_times_is_refused(publisher: Publisher, machine: Machine) -> None:
    """Targets of before under the name of the new ones, which are signed as well, but not for this version."""
    publisher.release("13.4.0")
    publisher.publish()
    metadata = publisher.path / "metadata"
    newest = publisher.repo().newest("targets")
    shutil.copy(metadata / "1.targets.json", newest)
    demand_refused(machine, publisher.path, "Expected targets v3, got v1")


def test_mix_and_match_a_file_of_before_is_refused(publisher: Publisher, machine: Machine) -> None:
    old, *_ = (publisher.path / "targets").glob("*.bundle")
    publisher.release("13.4.0")
    publisher.publish()
    new = next(path for path in (publisher.path / "targets").glob("*.bundle") if path != old)
    shutil.copy(old, new)
    demand_refused(machine, publisher.path, "(hash|length|longer)")


def endless(handler: BaseHTTPRequestHandler) -> bool:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * 65536)
    except OSError:
        return True


@pytest.mark.parametrize("name", ["2.root.json", "timestamp.json", ".snapshot.json", ".targets.json", ".bundle"])
def test_endless_data_is_read_no_further_than_what_was_signed(
    publisher: Publisher, machine: Machine, server: Server, name: str
) -> None:
    publisher.release("13.4.0")
    publisher.publish()
    server.instead[name] = endless
    demand_refused(machine, server.url, "longer than")


@pytest.mark.parametrize("role", ROLES)
def test_a_wrong_key_is_refused(publisher: Publisher, machine: Machine, role: str) -> None:
    """Somebody who controls the server, but none of the keys."""
    publisher.release("13.4.0")
    publisher.publish()
    publisher.publish("generated")
    repo = publisher.repo()
    path = repo.newest(role)
    md = repo.open(role)
    if role == "root":
        md.signed.version += 1
        path = path.with_name(f"{md.signed.version}.root.json")
    md.signatures.clear()
    md.sign(TOOL.signer_of(publisher.keys / "stranger.pem"), append=True)
    md.to_file(str(path))
    demand_refused(machine, publisher.path, "signed by 0/")


def test_a_changed_byte_is_refused(publisher: Publisher, machine: Machine) -> None:
    publisher.release("13.4.0")
    publisher.publish()
    path = publisher.path / "metadata" / "timestamp.json"
    document = json.loads(path.read_text())
    document["signed"]["expires"] = "2099-01-01T00:00:00Z"
    path.write_text(json.dumps(document))
    demand_refused(machine, publisher.path, "signed by 0/1")


def test_a_threshold_that_is_not_reached_is_refused(publisher: Publisher, machine: Machine) -> None:
    """One of the two keys that a root requires."""
    with publisher.repo("root-1").edit_root():
        pass
    demand_refused(machine, publisher.path, "signed by 1/2")


def test_two_signatures_of_one_key_are_no_threshold(publisher: Publisher, machine: Machine) -> None:
    with publisher.repo("root-1").edit_root():
        pass
    path = publisher.path / "metadata" / "2.root.json"
    document = json.loads(path.read_text())
    document["signatures"] *= 2
    path.write_text(json.dumps(document))
    demand_refused(machine, publisher.path, "deserialize")


def test_rotation_a_removed_key_signs_no_more(publisher: Publisher, machine: Machine) -> None:
    repo = publisher.repo()
    TOOL.rotate(repo, "targets", publisher.public("stranger"), publisher.public("targets"), None)
    publisher.release("13.4.0")
    publisher.publish("targets", "targets", "snapshot", "timestamp")
    demand_refused(machine, publisher.path, "signed by 0/1")


def test_rotation_a_new_key_is_accepted(publisher: Publisher, machine: Machine) -> None:
    repo = publisher.repo()
    TOOL.rotate(repo, "targets", publisher.public("stranger"), publisher.public("targets"), None)
    publisher.release("13.4.0")
    publisher.publish("targets", "stranger", "snapshot", "timestamp")
    assert machine.update(publisher.path).is_new


def test_rotation_of_the_root_itself_is_signed_by_the_old_and_the_new_keys(
    publisher: Publisher, machine: Machine
) -> None:
    repo = publisher.repo("root-1", "root-2", "stranger")
    TOOL.rotate(repo, "root", publisher.public("stranger"), publisher.public("root-1", "root-3"), None)
    publisher.release("13.4.0")
    publisher.publish()
    assert machine.update(publisher.path).is_new
    with publisher.repo("root-1", "root-2").edit_root():  # the old keys alone
        pass
    demand_refused(machine, publisher.path, "signed by 1/2")


def test_rotation_that_the_old_keys_did_not_sign_is_refused(publisher: Publisher, machine: Machine) -> None:
    repo = publisher.repo("stranger", "root-1")
    TOOL.rotate(repo, "root", publisher.public("stranger"), publisher.public("root-2", "root-3"), None)
    demand_refused(machine, publisher.path, "signed by 1/2")


def test_another_root_of_trust_does_not_verify(publisher: Publisher, machine: Machine, tmp_path: Path) -> None:
    other = Publisher(tmp_path / "other", publisher.keys)
    keys = {role: publisher.public("stranger") for role in ROLES}
    TOOL.init(other.repo("stranger"), keys, dict.fromkeys(ROLES, 1))
    stranger = Machine(machine.folder, other.path / "metadata" / "1.root.json")
    demand_refused(stranger, publisher.path, "(signed by 0/|version)")


MACHINE: dict[str, tuple[Callable[[Publisher], None], str]] = {
    "a checksum changes": (lambda p: p.archives(archive("a.tar", digit="2")), "changes or removes the row"),
    "a row vanishes": (lambda p: p.archives(archive("b.tar")), "changes or removes the row"),
    "another host": (
        lambda p: p.archives(archive("a.tar"), archive("b.tar", host="evil.example.com")),
        "names the host https://evil.example.com",
    ),
    "another subject": (
        lambda p: (p.matrices / "generated" / "more.yaml").write_text(
            (p.matrices / "generated" / "files.yaml").read_text().replace("subject: files", "subject: more")
        ),
        "publishes a subject that only persons sign",
    ),
    "a rule": (
        lambda p: (p.matrices / "generated" / "files.yaml").write_text(
            (p.matrices / "generated" / "files.yaml").read_text()
            + (p.matrices / "cuda.yaml").read_text().split("tables:\n")[1]
        ),
        "changes tables or columns",
    ),
}


@pytest.mark.parametrize("deed", MACHINE)
def test_the_key_of_a_machine_only_adds_rows(publisher: Publisher, machine: Machine, deed: str) -> None:
    change, reason = MACHINE[deed]
    change(publisher)
    publisher.publish("generated")
    demand_refused(machine, publisher.path, reason)


def test_the_key_of_a_machine_signs_nothing_else(publisher: Publisher, machine: Machine) -> None:
    """The persons' file named by the machine's role: the delegation does not cover it, and the persons' own counts."""
    publisher.release("13.4.0")
    repo = publisher.repo("generated", "snapshot", "timestamp")
    data = bundles.pack(bundles.Bundle(index=bundles.Index(format=bundles.FORMAT, subjects={}), files={}))
    repo.add_target("generated", bundles.NAME, data)
    repo.announce()
    assert not machine.update(publisher.path).is_new
