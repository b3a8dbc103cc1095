"""A server that misbehaves: every fault ends in a clear sentence, nothing half-trusted, and goes on once it is gone."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.downloads.conftest import Place
from tests.downloads.server import Files, serving

from gpustack.install.supply.cache import key_of
from gpustack.install.supply.downloads import Fetcher, fetch_all
from gpustack.model.steps import Artifact
from gpustack.system.asking import TransferError

LASTING = {
    "truncate": "the connection ended (after|before the file did)",
    "reset": "Connection reset|closed connection",
    "stall": "no answer in time",
    "other bytes": "is not the file that was planned: its sha256 is",
    "other size": "has 3,000,005 bytes on the server, and 3,000,001 in the plan",
    "403": "the server answered 403 Forbidden",
    "404": "the server answered 404 Not Found",
    "500": "the server answered 500 Internal Server Error",
    "503": "the server answered 503 Service Unavailable",
    "to http://localhost:1/file.tar": "the server redirects to http://localhost:1/file.tar, which is not https",
    "to /file.tar": "the server redirects more than 10 times",
}


@pytest.mark.parametrize("fault", LASTING)
def test_a_lasting_fault_is_told_and_nothing_is_trusted(fault: str, place: Place) -> None:
    artifact = place.offer()
    place.files.faults = [fault] * 40
    with pytest.raises(TransferError, match=LASTING[fault]) as caught:
        place.fetch(artifact)
    assert caught.value.exit_code == 1
    assert caught.value.where == artifact.url
    assert caught.value.hint
    assert not place.whole_files()
    place.files.faults = []
    assert place.is_right(place.fetch(artifact))
    assert not place.parts()


@pytest.mark.parametrize("fault", ["truncate", "reset", "stall", "500", "503", "no length", "other range", "416"])
@pytest.mark.parametrize("known", [True, False])
def test_a_passing_fault_is_got_over(fault: str, known: bool, place: Place) -> None:
    artifact = place.offer(known=known)
    place.files.faults = ["truncate", fault]
    assert place.is_right(place.fetch(artifact))


def test_a_break_is_gone_on_from_where_it_was(place: Place) -> None:
    artifact = place.offer()
    place.files.faults = ["truncate", "reset"]
    assert place.is_right(place.fetch(artifact))
    first, second, third = (wanted for _, wanted in place.files.asked)
    assert first == ""
    assert second.startswith("bytes=")
    assert int(third[6:-1]) > int(second[6:-1]) >= 1_000_000


def test_every_byte_gained_gives_new_patience(place: Place) -> None:
    place.files.faults = ["truncate"] * 12
    assert place.is_right(place.fetch(place.offer()))


def test_a_server_without_ranges_begins_anew(place: Place) -> None:
    place.files.faults = ["truncate", "no ranges"]
    assert place.is_right(place.fetch(place.offer()))


@pytest.mark.parametrize("known", [True, False])
def test_a_file_that_changes_underway_is_never_mixed(known: bool, place: Place) -> None:
    artifact = place.offer(known=known)
    place.files.faults = ["truncate"]
    old = place.files.content["/file.tar"]
    fetcher = Fetcher(place.cache, mirrors={})

    def replace_it(done: int, _total: int | None) -> None:
        if done > 1_000_000:
            place.files.content["/file.tar"] = old[::-1]

    if not known:
        assert fetcher(artifact, replace_it).read_bytes() == old[::-1]
        return
    with pytest.raises(TransferError, match="is not the file that was planned"):
        fetcher(artifact, replace_it)
    assert not place.whole_files()


def test_a_damaged_part_is_noticed_and_fetched_anew_once(place: Place) -> None:
    artifact = place.offer()
    part = place.cache.part(key_of(artifact.url, artifact.sha256))
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(1_000_000))
    assert place.is_right(place.fetch(artifact))
    assert [wanted for _, wanted in place.files.asked] == ["bytes=1000000-", ""]


@pytest.mark.parametrize("size", [3_000_001, 4_000_000])
def test_a_damaged_part_of_full_size_or_more_is_fetched_anew(size: int, place: Place) -> None:
    artifact = place.offer()
    part = place.cache.part(key_of(artifact.url, artifact.sha256))
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(size))
    assert place.is_right(place.fetch(artifact))


def test_a_file_in_the_cache_is_taken_without_asking_and_a_damaged_one_is_not(place: Place) -> None:
    artifact = place.offer()
    path = place.fetch(artifact)
    assert place.fetch(artifact) == path
    assert len(place.files.asked) == 1
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert place.is_right(place.fetch(artifact))
    assert len(place.files.asked) == 2


def test_redirects_over_https_are_followed(place: Place) -> None:
    artifact = place.offer()
    place.files.faults = [f"to {place.address}/file.tar"]
    assert place.is_right(place.fetch(artifact))


def test_plain_http_is_only_for_files_with_a_known_sum(place: Place) -> None:
    artifact = place.offer()
    files = Files()
    files.content["/mirror/file.tar"] = place.files.content["/file.tar"]
    with serving(files, None) as plain:
        fetcher = Fetcher(place.cache, mirrors={f"{place.address}/": f"{plain}/mirror/"})
        assert place.is_right(fetcher(artifact, lambda _done, _total: None))
        unknown = Artifact(url=artifact.url, path="/x/file.tar")
        with pytest.raises(TransferError, match="http is accepted only where the file's checksum is known"):
            fetcher(unknown, lambda _done, _total: None)
    assert not place.files.asked


def test_a_server_that_nobody_vouches_for_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(TransferError, match="certificate is not trusted") as caught:
        place.fetch(place.offer())
    assert "REQUESTS_CA_BUNDLE" in caught.value.hint


def test_a_proxy_of_the_environment_is_used(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(TransferError, match="Connection refused"):
            place.fetch(place.offer())
    assert not place.files.asked


def test_a_proxy_that_wants_a_name_is_told_from_one_that_is_broken(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")
    for answer, said in (
        ("407 Proxy Authentication Required", "requires a name"),
        ("502 Bad Gateway 407", "failed: 502"),
    ):
        with proxy_that_answers(answer) as port:
            monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
            with pytest.raises(TransferError, match=said):
                place.fetch(place.offer())


@contextmanager
def proxy_that_answers(status: str) -> Iterator[int]:
    class Refusal(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.wfile.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_all_that_is_missing_is_told_at_once(place: Place) -> None:
    there = place.offer("there.tar")
    gone = [Artifact(url=f"{place.address}/gone-{n}.tar", path=f"/x/gone-{n}.tar", sha256=f"{n}" * 64) for n in (1, 2)]
    fetcher = Fetcher(place.cache, mirrors={})
    with pytest.raises(TransferError, match=r"(?s)2 files could not be downloaded:.*gone-1.*404.*gone-2.*404"):
        fetch_all([gone[0], there, gone[1]], fetcher, lambda _name, _size: lambda _done, _total: None)
    assert [path.name for path in place.whole_files()] == [there.sha256]
    found = fetch_all([there, there], fetcher, lambda _name, _size: lambda _done, _total: None)
    assert place.is_right(found[there], "there.tar")


def test_a_cache_that_cannot_be_written_is_told(place: Place) -> None:
    place.cache.folder.write_text("a file where the folder should be")
    with pytest.raises(Exception, match="the cache cannot be used: ") as caught:
        place.fetch(place.offer())
    assert "GPUSTACK_CACHE" in caught.value.hint  # type: ignore[attr-defined]


def test_a_link_in_the_place_of_a_part_is_not_followed(place: Place, tmp_path: Path) -> None:
    artifact = place.offer()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    part = place.cache.part(key_of(artifact.url, artifact.sha256))
    part.parent.mkdir(parents=True)
    part.symlink_to(victim)
    with pytest.raises(TransferError, match="cannot be written"):
        place.fetch(artifact)
    assert victim.read_text() == "mine"


def test_progress_counts_to_the_end(place: Place) -> None:
    artifact = place.offer()
    place.files.faults = ["truncate"]
    seen: list[tuple[int, int | None]] = []
    Fetcher(place.cache, mirrors={})(artifact, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (artifact.size, artifact.size)
    assert hashlib.sha256(place.files.content["/file.tar"]).hexdigest() == artifact.sha256
