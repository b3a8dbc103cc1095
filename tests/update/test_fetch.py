"""A body is read whole, over HTTPS, once, and no further than its limit; anything else is an error that says why."""

from __future__ import annotations

import gzip

import pytest
from tests.update.serving import Answer, serving

from update.fetch import fetch
from update.form import json_of
from update.record import SourceError

BODY = b'{"release_date": "2026-09-16"}'


def test_an_unchanged_body_is_not_read_again() -> None:
    with serving({"/a": Answer(BODY, etag='"one"')}) as (home, statuses):
        first = fetch(f"{home}/a")
        assert first.data == BODY
        assert fetch(f"{home}/a", first) is first
    assert statuses == [200, 304]


def test_a_packed_body_is_unpacked() -> None:
    with serving({"/a": Answer(gzip.compress(BODY), {"Content-Encoding": "gzip"})}) as (home, _):
        assert fetch(f"{home}/a").data == BODY


BOMB = gzip.compress(bytes(4 << 20))
WRONG = {
    "missing": (Answer(b"", status=404), "the server answers 404"),
    "moved": (Answer(b"", {"Location": "http://127.0.0.1/"}, 302), "the server answers 302"),
    "cut": (Answer(BODY, length=900), "breaks off"),
    "packed and cut": (Answer(gzip.compress(BODY)[:-9], {"Content-Encoding": "gzip"}), "breaks off after"),
    "bomb": (Answer(BOMB, {"Content-Encoding": "gzip"}), "is larger than 1048576 bytes"),
    "too large": (Answer(bytes(2 << 20)), "is larger than 1048576 bytes"),
    "not packed": (Answer(BODY, {"Content-Encoding": "gzip"}), "is not packed as the server says"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_body_that_is_not_whole_is_refused(name: str) -> None:
    answer, why = WRONG[name]
    with serving({"/a": answer}) as (home, _), pytest.raises(SourceError, match=why):
        fetch(f"{home}/a", limit=1 << 20)


def test_only_https_is_read_from_other_machines() -> None:
    with pytest.raises(SourceError, match="is not https"):
        fetch("http://example.com/redistrib_13.4.2.json")


def test_a_server_that_is_gone_is_an_error_of_one_line() -> None:
    with serving({}) as (home, _):
        pass
    with pytest.raises(SourceError, match="cannot be read") as caught:
        fetch(f"{home}/a")
    assert "\n" not in str(caught.value)


def test_a_page_in_place_of_json_is_said_to_be_one() -> None:
    with serving({"/a": Answer(b"<!DOCTYPE html><title>Log in</title>")}) as (home, _):
        body = fetch(f"{home}/a")
    with pytest.raises(SourceError, match="is a page and not JSON"):
        json_of(body)
