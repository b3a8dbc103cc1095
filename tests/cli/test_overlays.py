"""``--matrices DIR``: a broken overlay is exit 2 with file, row and field; it is never executed, expanded or waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

UBUNTU = ("--os", "ubuntu24.04", "--gpu", "L4")
HEAD = """\
schema: gpustack/matrix/v1
subject: cuda
about: mine
sources:
  mine: {address: "https://example.com/", known: tested, read: 2026-11-21}
tables:
  releases:
    rows:
"""
RULES = HEAD.replace("  releases:", "  rules:")


def rule(text: str) -> str:
    return f"{RULES}      - {{id: mine, {text}, src: [mine]}}\n"


NOT_A_FILE = "a folder"

BROKEN: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "mapping"),
    "only a comment": ("# nothing\n", "mapping"),
    "word": ("hello", "mapping"),
    "list": ("- a\n- b\n", "mapping"),
    "python tag": ('!!python/object/apply:os.system ["touch pwned"]\n', "tags"),
    "python tag inside": (HEAD + '      - {version: !!python/name:os.system "", src: [mine]}\n', "tags"),
    "alias": ("a: &x [1]\nb: *x\n", "aliases"),
    "alias bomb": (
        "a: &a [x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "aliases",
    ),
    "alias of itself": ("&x [*x]\n", "aliases"),
    "deep flow": ("[" * 200_000, "nested"),
    "deep flow mappings": ("{a: " * 100_000, "nested"),
    "deep block": ("- " * 3000 + "a\n", "nested"),
    "unclosed": (HEAD + "      - {version: 99.1, src: [mine]\n", "cuda.yaml"),
    "tab": ("\tschema: x\n", "cuda.yaml"),
    "two documents": (HEAD + "---\n" + HEAD, "more than one"),
    "same key twice": (HEAD.replace("about: mine", "about: mine\nabout: yours"), "twice"),
    "same column twice": (HEAD + "      - {version: 99.1, version: 99.2, src: [mine]}\n", "twice"),
    "list as a key": (HEAD + "? [a, b]\n: c\n", "key"),
    "mapping as a key": (HEAD + "? {a: b}\n: c\n", "key"),
    "no schema": (HEAD.replace("schema: gpustack/matrix/v1\n", ""), "schema"),
    "future schema": (HEAD.replace("/v1", "/v99"), "v99"),
    "schema is a list": (HEAD.replace("gpustack/matrix/v1", "[a, b]"), "schema"),
    "no subject": (HEAD.replace("subject: cuda\n", ""), "subject"),
    "subject is a list": (HEAD.replace("subject: cuda", "subject: [cuda]"), "subject"),
    "subject is a path": (HEAD.replace("subject: cuda", "subject: ../cuda"), "subject"),
    "unknown key": ("tabels: {}\n" + HEAD, "tabels"),
    "tables is a list": (HEAD[: HEAD.index("tables:")] + "tables: [a]\n", "tables"),
    "table is a list": (HEAD[: HEAD.index("  releases")] + "  releases: [a]\n", "releases"),
    "table with an unknown key": (HEAD.replace("    rows:", "    rosw:"), "rosw"),
    "table without rows": (HEAD, "rows"),
    "rows is a mapping": (HEAD + "      a: b\n", "rows"),
    "row is a word": (HEAD + "      - 99.1\n", "row 1"),
    "row is a list": (HEAD + "      - [99.1]\n", "row 1"),
    "row without a source": (HEAD + "      - {version: 99.1}\n", "src"),
    "unknown source": (HEAD + "      - {version: 99.1, src: [theirs]}\n", "theirs"),
    "source is a word": (HEAD + "      - {version: 99.1, src: mine}\n", "src"),
    "sources is a list": (
        HEAD.replace('{address: "https://example.com/", known: tested, read: 2026-11-21}', "[]"),
        "mine",
    ),
    "source without an address": (HEAD.replace('address: "https://example.com/", ', ""), "address"),
    "source known by hearsay": (HEAD.replace("known: tested", "known: hearsay"), "known"),
    "source dated by a list": (HEAD.replace("read: 2026-11-21", "read: [2026]"), "read"),
    "undeclared column": (HEAD + "      - {version: 99.1, colour: green, src: [mine]}\n", "colour"),
    "second row broken": (
        HEAD + "      - {version: 99.1, src: [mine]}\n      - {version: newest, src: [mine]}\n",
        "row 2 (newest): field 'version'",
    ),
    "version is a list": (HEAD + "      - {version: [99], src: [mine]}\n", "version"),
    "version is null": (HEAD + "      - {version: , src: [mine]}\n", "version"),
    "date is not one": (HEAD + "      - {version: 99.1, date: yesterday, src: [mine]}\n", "date"),
    "known is not one": (HEAD + "      - {version: 99.1, known: maybe, src: [mine]}\n", "known"),
    "no version": (HEAD + "      - {date: 2026-01-01, src: [mine]}\n", "version"),
    "unknown kind of column": (HEAD.replace("    rows:", "    fields: {version: colour}\n    rows: []"), "colour"),
    "another kind of column": (HEAD.replace("    rows:", "    fields: {version: int}\n    rows: []"), "version"),
    "key that is no column": (HEAD.replace("    rows:", "    key: [colour]\n    rows: []"), "colour"),
    "new table without columns": (HEAD.replace("releases:", "wishes:") + "      - {a: b, src: [mine]}\n", "fields"),
    "rule of nothing": (rule("of: nvidia, needs: driver, any: ['>=1']"), "of"),
    "rule with a broken subject": (rule("of: 'cuda=>1', needs: driver, any: ['>=1']"), "of"),
    "rule that needs nothing": (rule("of: cuda, needs: colour, any: ['>=1']"), "needs"),
    "rule with a broken range": (rule("of: cuda, needs: driver, any: ['=>1']"), "any"),
    "rule with an empty window": (rule("of: cuda, needs: driver, any: ['>=2,<1']"), "window"),
    "rule of two shapes": (rule("of: cuda, needs: driver, any: ['>=1'], none: ['>=2']"), "exactly one"),
    "rule of no shape": (rule("of: cuda, needs: driver"), "exactly one"),
    "rule with an unknown condition": (rule("of: cuda, needs: driver, any: ['>=1'], when: {moon: full}"), "moon"),
    "rule with an unknown strength": (rule("of: cuda, needs: driver, any: ['>=1'], strength: mighty"), "strength"),
    "utf-16": (HEAD.encode("utf-16"), "cuda.yaml"),
    "latin-1": (HEAD.replace("mine", "m\xeene").encode("latin-1"), "cuda.yaml"),
    "nul": (HEAD + "\0", "cuda.yaml"),
    "binary": (bytes(range(256)) * 40, "cuda.yaml"),
    "huge": (b"#" * 24_000_000, "larger"),
    "long value": (HEAD.replace("gpustack/matrix/v1", "x" * 1_000_000), "schema"),
    "a folder": (NOT_A_FILE, "not a file"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_overlay(case: str, call: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content, word = BROKEN[case]
    path = tmp_path / "cuda.yaml"
    if content == NOT_A_FILE:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    ended = call("plan", "cuda", *UBUNTU, "--format", "json", "--matrices", str(tmp_path))
    assert ended.is_told(2), ended
    assert "cuda.yaml" in ended.err
    assert word in ended.err
    assert len(ended.err) < 1500
    assert [entry.name for entry in tmp_path.iterdir()] == ["cuda.yaml"]


def test_every_command_refuses_a_broken_overlay(call: Callable, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("hello")
    option = ("--matrices", str(tmp_path))
    for arguments in (
        ("check", "cuda==12.4.1"),
        ("explain", "cuda", *UBUNTU),
        ("detect",),
        ("verify",),
        ("matrix", "list"),
        ("matrix", "show", "cuda"),
        ("matrix", "sources"),
        ("matrix", "check"),
    ):
        ended = call(*arguments, *option)
        assert ended.is_told(2), arguments
        assert "mine.yaml" in ended.err


def test_an_overlay_that_is_no_folder(call: Callable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "fifo.yaml")
    (tmp_path / "below").mkdir()
    (tmp_path / "below/endless.yaml").symlink_to("/dev/zero")
    (tmp_path / "empty").mkdir()
    assert not call("plan", "cuda", *UBUNTU, "--matrices", str(tmp_path / "empty")).code
    for path in (tmp_path / "file", tmp_path / "nowhere", tmp_path, tmp_path / "below"):
        assert call("plan", "cuda", *UBUNTU, "--matrices", str(path)).is_told(2), path


def test_an_empty_folder_and_other_files_change_nothing(call: Callable, tmp_path: Path) -> None:
    plain = call("plan", "cuda", *UBUNTU)
    assert call("plan", "cuda", *UBUNTU, "--matrices", str(tmp_path)) == plain
    (tmp_path / "README.md").write_text("not for the program")
    (tmp_path / "cuda.yaml~").write_text("hello")
    assert call("plan", "cuda", *UBUNTU, "--matrices", str(tmp_path)) == plain


def test_two_files_may_speak_of_one_subject(call: Callable, tmp_path: Path) -> None:
    for number in (1, 2):
        row = f"      - {{version: 99.{number}, src: [mine]}}\n"
        (tmp_path / f"{number}.yaml").write_text(HEAD + row)
    shown = call("matrix", "show", "cuda.releases", "--format", "json", "--matrices", str(tmp_path))
    versions = [row["version"] for row in json.loads(shown.out)]
    assert {"99.1", "99.2", "13.0.2"} <= set(versions)


def test_a_rule_of_ones_own_decides(call: Callable, tmp_path: Path) -> None:
    text = rule('of: "cuda==12.4.1", needs: driver, none: ["==580.95.05"], says: "Our cards hang with this pair"')
    (tmp_path / "cuda.yaml").write_text(text)
    question = ("check", "cuda==12.4.1", "driver==580.95.05", *UBUNTU, "--format", "json")
    assert call(*question).code == 0
    ended = call(*question, "--matrices", str(tmp_path))
    assert ended.code == 3
    conflict = json.loads(ended.out)["conflicts"][0]
    assert "Our cards hang with this pair" in conflict["reason"]
    assert conflict["sources"] == ["https://example.com/"]


def test_a_check_of_the_facts_as_json_lists_the_faults(call: Callable, tmp_path: Path) -> None:
    checked = json.loads(call("matrix", "check", "--format", "json").out)
    assert checked["faults"] == []
    assert (
        checked["generated"]["cuda-image-tags.tags"]["generated"]
        == checked["generated"]["cuda-image-tags.tags"]["rows"]
    )
    (tmp_path / "cuda.yaml").write_text(HEAD + "      - {version: banana, src: [mine]}\n")
    ended = call("matrix", "check", "--format", "json", "--matrices", str(tmp_path))
    assert (ended.code, ended.err) == (2, "")  # as for every command: the overlay is malformed
    assert "banana" in json.loads(ended.out)["faults"][0]
    unused = HEAD.replace("tables:", '  other: {address: "https://example.com/other", known: stated}\ntables:')
    (tmp_path / "cuda.yaml").write_text(unused + "      - {version: 99.1, date: 2030-01-01, src: [mine]}\n")
    ended = call("matrix", "check", "--format", "json", "--matrices", str(tmp_path))
    # Whole, but an invariant is breached.
    assert (ended.code, json.loads(ended.out)) == (1, {"faults": ["cuda.yaml: source other is not used by any row"]})


def test_a_line_of_versions_is_shown_by_its_short_name(call: Callable) -> None:
    assert call("matrix", "show", "cudnn==8.9.6").out.startswith("cuDNN 8.9.6.50: ")


def test_every_fault_of_a_file_is_told_at_once(call: Callable, tmp_path: Path) -> None:
    rows = ["version: banana, src: [mine]", "version: 99.1, date: soon, src: [mine]", "version: 99.2, src: [other]"]
    (tmp_path / "cuda.yaml").write_text(HEAD + "".join(f"      - {{{row}}}\n" for row in rows))
    ended = call("plan", "cuda", *UBUNTU, "--matrices", str(tmp_path))
    assert ended.code == 2
    for number, word in enumerate(("banana", "date", "other"), 1):
        assert any(f"row {number}" in line and word in line for line in ended.err.splitlines()), ended.err
    assert ended.err.splitlines()[-1].startswith("hint: ")
