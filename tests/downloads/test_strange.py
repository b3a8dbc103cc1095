"""Whatever a server sends, a download ends: with the right bytes, or with a sentence after a stated number of tries."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.downloads.strange import CONTENT, Wire, strange
from tests.integration.keys import Certificate

from gpustack.install.supply.cache import Cache
from gpustack.install.supply.downloads import KEY_BYTES, Fetcher
from gpustack.model.steps import Artifact
from gpustack.system.asking import TransferError
from gpustack.system.http import Patience, RemoteFile, download

QUICK = Patience(attempts=3, pause=0.001, connect=5, silence=0.3)
SUM = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)
MANY = b"9" * 5000
PACKED = gzip.compress(CONTENT)


def plain(*lines: bytes, status: bytes = b"200 OK", body: bytes = b"") -> Callable[[Wire], None]:
    def behave(wire: Wire) -> None:
        wire.head(*lines, status=status)
        wire.write(body)

    return behave


def raw(content: bytes) -> Callable[[Wire], None]:
    return lambda wire: wire.write(content) and None


def to(location: bytes) -> Callable[[Wire], None]:
    return plain(b"Location: " + location, b"Content-Length: 0", status=b"302 Found")


def no_ranges(most: int) -> Callable[[Wire], None]:
    """As a proxy with a limit: every answer is the whole file, and ends at the same place."""

    def behave(wire: Wire) -> None:
        wire.head(b"Content-Length: %d" % SIZE)
        wire.write(CONTENT[:most])

    return behave


def part(lines: bytes, status: bytes = b"206 Partial Content") -> Callable[[Wire], None]:
    """The first half, and then a part that describes itself so."""

    def behave(wire: Wire) -> None:
        if not wire.start:
            wire.part(most=SIZE // 2)
        else:
            wire.head(lines, b"Content-Length: 10", status=status)
            wire.write(bytes(10))

    return behave


def changing(wire: Wire) -> None:
    """Another file at each connection."""
    wire.start = 0
    wire.part(most=SIZE // 2, tag=b'"%d"' % wire.number)


def drip(wire: Wire) -> None:
    wire.head(b"Content-Length: %d" % SIZE)
    while wire.wait(0.01):
        wire.write(b"x")


def waiting(wire: Wire) -> None:
    wire.head(b"Content-Length: %d" % SIZE)
    wire.wait(30)


def endless(wire: Wire) -> None:
    wire.head(b"Connection: close")
    while wire.wait(0):
        wire.write(bytes(65536))


def endless_head(wire: Wire) -> None:
    wire.write(b"HTTP/1.1 200 OK\r\n")
    while wire.wait(0):
        wire.write(b"X-More: and more\r\n")


BROKEN = r"\(3 attempts made no progress\)"
ENDING = {
    # What brings nothing new, for ever.
    "no ranges, cut at one place": (no_ranges(SIZE // 2), f"the connection ended before the file did {BROKEN}"),
    "no ranges, cut after a byte": (no_ranges(1), BROKEN),
    "longer in words than in bytes": (plain(b"Content-Length: %d" % (SIZE + 9), body=CONTENT), BROKEN),
    "a byte for each connection": (lambda wire: wire.part(most=1), BROKEN),
    "nothing for each connection": (lambda wire: wire.part(most=0), BROKEN),
    "another file at each connection": (changing, BROKEN),
    "a byte now and then": (drip, "less than 1 KiB a second came for 0.2 seconds"),
    "silence": (waiting, f"no answer in time {BROKEN}"),
    "a head without an end": (endless_head, BROKEN),
    # Numbers that are none, or too large.
    "a length in superscript": (plain("Content-Length: ²".encode("latin-1"), body=CONTENT), "Content-Length that is not a number: ²"),
    "a length of 5,000 digits": (plain(b"Content-Length: " + MANY, body=CONTENT), r"not a number: 9{100}\.\.\. \("),
    "a negative length": (plain(b"Content-Length: -1", body=CONTENT), "Content-Length that is not a number: -1"),
    "a length in words": (plain(b"Content-Length: many", body=CONTENT), "Content-Length that is not a number: many"),
    "an empty length": (plain(b"Content-Length: ", body=CONTENT), "Content-Length that is not a number:"),
    "two lengths": (plain(b"Content-Length: 5", b"Content-Length: 6", body=CONTENT), "not a number: 5, 6|InvalidHeader|multiple"),
    "a part in superscript": (part("Content-Range: bytes ²-9/²".encode("latin-1")), BROKEN),
    "a part of 5,000 digits": (part(b"Content-Range: bytes " + MANY + b"-9/" + MANY), BROKEN),
    "a total of 5,000 digits": (part(b"Content-Range: bytes %d-9/" % (SIZE // 2) + MANY), BROKEN),
    "a part without a place": (part(b"X-Nothing: 1"), BROKEN),
    "no part at all": (part(b"X-Nothing: 1", status=b"416 No"), BROKEN),
    "a pause in superscript": (plain("Retry-After: ²".encode("latin-1"), b"Content-Length: 0", status=b"503 Busy"), "answered 503 Busy"),
    "a pause of 5,000 digits": (plain(b"Retry-After: " + MANY, b"Content-Length: 0", status=b"503 Busy"), "answered 503 Busy"),
    "a pause until a date": (plain(b"Retry-After: Fri, 01 Jan 2100 00:00:00 GMT", b"Content-Length: 0", status=b"503 B"), "answered 503 B"),
    # Redirects that lead nowhere.
    "to a bracket": (to(b"https://[::1"), r"the server redirects to https://\[::1, which is not an address"),
    "to a port that is none": (to(b"https://a.example:99999999/"), "redirects to https://a.example:99999999/, which is not an address"),
    "to a label of 300": (to(b"https://" + b"a" * 300 + b".example/"), r"redirects to https://a{92}\.\.\., which is not an address"),
    "to no UTF-8": (to(b"https://localhost:1/\xff\xfe"), f"Connection refused {BROKEN}"),
    "to no UTF-8, elsewhere": (to(b"https://[\xff\xfe]/"), "which is not an address"),
    # What is no answer.
    "garbage": (raw(b"\x00\xff" * 5000), BROKEN),
    "nothing at all": (raw(b""), BROKEN),
    "half a head": (raw(b"HTTP/1.1 200 OK\r\nContent-Le"), f"sent an empty file {BROKEN}"),
    "a head of a megabyte": (raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**20), BROKEN),
    "a chunk without a length": (plain(b"Transfer-Encoding: chunked", body=b"zz\r\nmore"), BROKEN),
    "a chunk of 10**30 bytes": (plain(b"Transfer-Encoding: chunked", body=b"f" * 30 + b"\r\nmore"), BROKEN),
    "a code that is none": (raw(b"HTTP/1.1 999999 What\r\n\r\n"), f"{BROKEN}|answered 999999"),
}  # fmt: skip
"""What goes on at each connection; the download ends after a stated number of them."""


@pytest.fixture
def cache(certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate.authority))
    return Cache(tmp_path / "cache")


def wanted(url: str, *, known: bool) -> Artifact:
    return Artifact(url=url, path="/var/cache/file.tar", sha256=SUM if known else "", size=SIZE if known else None)


def fetch(cache: Cache, artifact: Artifact, patience: Patience = QUICK) -> Path:
    return Fetcher(cache, mirrors={}, patience=patience)(artifact, lambda _done, _total: None)


def files(cache: Cache) -> list[Path]:
    return [path for name in ("sha256", "partial") for path in (cache.folder / name).rglob("*") if path.is_file()]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ENDING)
def test_it_ends_with_a_sentence(name: str, known: bool, certificate: Certificate, cache: Cache) -> None:
    behave, said = ENDING[name]
    patience = replace(QUICK, window=0.2) if behave is drip else QUICK
    with strange(certificate, behave) as (url, asked):
        artifact = replace(wanted(url, known=known), sha256=SUM if known else "", size=None)
        with pytest.raises(TransferError, match=said) as caught:
            fetch(cache, artifact, patience)
    assert caught.value.where == url
    assert caught.value.hint
    assert len(asked) <= 2 * QUICK.attempts
    assert not list((cache.folder / "sha256").rglob("*"))
    assert known or not files(cache), "what nobody can vouch for later is not kept"


FINAL = {
    "to a file": (to(b"file:///etc/passwd"), "redirects to file:///etc/passwd, which is not https"),
    "to http": (to(b"http://localhost:1/"), "redirects to http://localhost:1/, which is not https"),
    "to another scheme": (to(b"gopher://localhost/"), "which is not https"),
    "to itself": (to(b"/file.tar"), "redirects more than 10 times"),
    "with a password": (to(b"http://somebody:secret@localhost/"), r"redirects to http://localhost/, which"),
    "wrong bytes": (plain(b"Content-Length: %d" % SIZE, body=CONTENT[::-1]), "is not the file that was planned"),
    "packed": (plain(b"Content-Encoding: gzip", b"Content-Length: %d" % len(PACKED), body=PACKED), "bytes on the server"),
    "too large": (plain(b"Content-Length: %d" % (SIZE + 1), body=CONTENT + b"x"), "bytes on the server"),
    "too large, unsaid": (plain(b"Connection: close", body=CONTENT + b"x" * 99999), "is larger than the"),
    "10**17 bytes": (plain(b"Content-Length: 1" + b"0" * 17), "bytes on the server"),
    "no content": (plain(status=b"204 No Content"), "answered 204"),
    "unchanged": (plain(status=b"304 Not Modified"), "answered 304"),
}  # fmt: skip


@pytest.mark.parametrize("name", FINAL)
def test_what_no_other_attempt_mends_is_final(name: str, certificate: Certificate, cache: Cache) -> None:
    behave, said = FINAL[name]
    with strange(certificate, behave) as (url, asked):
        with pytest.raises(TransferError, match=said) as caught:
            fetch(cache, wanted(url, known=True))
        assert caught.value.where == url
        assert "secret" not in str(caught.value)
    assert len(asked) <= 11
    assert not list((cache.folder / "sha256").rglob("*"))


def passing(fault: Callable[[Wire], None], most: int = SIZE // 2) -> Callable[[Wire], None]:
    """Half of the file, a fault, and then the rest."""

    def behave(wire: Wire) -> None:
        if wire.number == 2:
            fault(wire)
        else:
            wire.part(most=most if wire.number == 1 else None)

    return behave


PASSING = {name: ENDING[name][0] for name in (
    "a length in superscript", "a length of 5,000 digits", "a part in superscript", "a total of 5,000 digits",
    "a pause in superscript", "to a bracket", "to a port that is none", "to a label of 300", "garbage", "nothing at all",
    "a chunk without a length", "two lengths", "nothing for each connection", "silence",
)}  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", PASSING)
def test_once_it_is_over_the_download_goes_on(name: str, known: bool, certificate: Certificate, cache: Cache) -> None:
    with strange(certificate, passing(PASSING[name])) as (url, asked):
        assert fetch(cache, wanted(url, known=known)).read_bytes() == CONTENT
    assert len(asked) >= 3


GOOD = {
    "the same length twice": plain(b"Content-Length: %d" % SIZE, b"Content-Length: %d" % SIZE, body=CONTENT),
    "a tag that is no text": plain(b'ETag: "\xff\x01"', b"Content-Length: %d" % SIZE, body=CONTENT),
    "said to be packed": plain(b"Content-Encoding: gzip", b"Content-Length: %d" % SIZE, body=CONTENT),
    "no length": plain(b"Connection: close", body=CONTENT),
    "in chunks": plain(
        b"Transfer-Encoding: chunked", body=b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (9, CONTENT[:9], SIZE - 9, CONTENT[9:])
    ),
}  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", GOOD)
def test_what_is_only_unusual_is_taken(name: str, known: bool, certificate: Certificate, cache: Cache) -> None:
    with strange(certificate, GOOD[name]) as (url, _):
        assert fetch(cache, wanted(url, known=known)).read_bytes() == CONTENT


def test_a_key_without_an_end_is_given_up_after_a_mebibyte(certificate: Certificate, cache: Cache) -> None:
    with strange(certificate, endless) as (url, asked):
        artifact = replace(wanted(url, known=False), fingerprint="A" * 40)
        with pytest.raises(TransferError, match=f"is larger than the {KEY_BYTES:,} bytes that are accepted where"):
            fetch(cache, artifact)
    assert len(asked) == 1
    assert not files(cache)


@pytest.mark.parametrize("sha256", ["", SUM])
@pytest.mark.usefixtures("cache")
def test_a_size_that_nobody_published_has_a_limit(sha256: str, certificate: Certificate, tmp_path: Path) -> None:
    with strange(certificate, endless) as (url, _):
        target = RemoteFile(url=url, sha256=sha256, most=200_000)
        with pytest.raises(TransferError, match="is larger than the 200,000 bytes that are accepted"):
            download(target, tmp_path / "part", patience=QUICK)
    assert not (tmp_path / "part").exists()
    with strange(certificate, plain(b"Content-Length: 200001")) as (url, asked):
        with pytest.raises(TransferError, match="is larger than the 200,000 bytes that are accepted"):
            download(replace(target, url=url), tmp_path / "part", patience=QUICK)
        assert asked == [0]
    assert not (tmp_path / "part").exists()


def test_a_slow_line_is_waited_for_where_the_user_says_so(certificate: Certificate, cache: Cache) -> None:
    def slow(wire: Wire) -> None:
        wire.head(b"Content-Length: 40", b"Connection: close")
        for _ in range(40):
            wire.wait(0.01)
            wire.write(b"x")

    artifact = Artifact(url="", path="/file")
    patience = replace(QUICK, window=0.05, speed=1_000_000.0)
    with strange(certificate, slow) as (url, _):
        with pytest.raises(TransferError, match=r"less than 977 KiB a second came for 0\.05 seconds") as caught:
            fetch(cache, replace(artifact, url=url), patience)
        assert "--min-speed" in caught.value.hint
        assert fetch(cache, replace(artifact, url=url), replace(patience, speed=0)).read_bytes() == b"x" * 40


def test_the_least_speed_counts_while_a_connection_stands_only(certificate: Certificate, cache: Cache) -> None:
    """Pauses between attempts, which servers ask for, are longer here than the time in which it is measured."""
    patience = replace(QUICK, window=0.05, speed=1_000_000.0, pause=0.1)
    with strange(certificate, passing(PASSING["a pause in superscript"])) as (url, asked):
        assert fetch(cache, wanted(url, known=True), patience).read_bytes() == CONTENT
    assert len(asked) == 3
