"""Plan documents as files: what is written is read back, and everything else is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.plan.making import CUDA, DRIVER, host, plan

from gpustack.errors import DocumentError, UsageError
from gpustack.plan.document import MAX_BYTES, dump, load, parse
from gpustack.render.api import demand_format, render


@pytest.fixture(scope="module")
def text() -> str:
    return dump(plan(host(), DRIVER, CUDA))


def test_a_plan_survives_the_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    assert dump(load(path)) == text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda document: document.update(schema="gpustack/plan/v2"), "schema"),
        (lambda document: document.update(schema=3), "schema"),
        (lambda document: document.pop("host"), "is not a plan"),
        (lambda document: document["steps"][0].update(kind="surprise"), "is not a plan"),
        (lambda document: document["steps"][0].update(title="other"), "changed"),
        (lambda document: document["steps"][3]["commands"].append(["reboot"]), "changed"),
        (lambda document: document.update(digest=""), "changed"),
    ],
)
def test_a_changed_document_is_refused(text: str, change: object, says: str) -> None:
    document = json.loads(text)
    change(document)  # type: ignore[operator]
    with pytest.raises(DocumentError, match=says) as caught:
        parse(json.dumps(document).encode(), where="plan.json")
    assert caught.value.exit_code == 2
    assert caught.value.where == "plan.json"
    assert caught.value.hint


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'"' + b"x" * 1000])
def test_nonsense_is_refused(raw: bytes) -> None:
    with pytest.raises(DocumentError):
        parse(raw, where="plan.json")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="does not exist"):
        load(tmp_path / "none.json")
    with pytest.raises(DocumentError, match="is not a file"):
        load(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(DocumentError, match="larger than 64 MiB"):
        load(path)


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="'tablet'") as caught:
        demand_format("tablet")
    assert "'table'" in caught.value.hint


def test_the_table_fits_100_columns_but_for_long_words(text: str) -> None:
    for line in render(parse(text.encode(), where=""), "table").splitlines():
        assert len(line) <= 100 or " https://" in line or max(map(len, line.split())) > 60, line
