"""Every text that a check may give as cause or cure is asserted whole somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden/verify"
SCRIPT = Path(__file__).resolve().parents[2] / "ci/failure_texts.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    """The module ``ci/failure_texts.py``."""
    spec = importlib.util.spec_from_file_location("failure_texts", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_text_is_asserted_whole(tool: Any) -> None:
    asserted = tool.Asserted()
    texts = list(tool.told())
    assert len(texts) > 500
    missing = [
        f"{text.place}: {text.words.replace(tool.HOLE, '{}')!r}" for text in texts if asserted.place(text) is None
    ]
    assert missing == [], "assert these whole in a test, or in tests/failures with --update-golden"


EMPTY_SLOT = re.compile(r" [,;:.](?= |$)|  |\(\)|[,;:] *$|: [,;:]|\bNone\b|``|''")
"""What a sentence looks like where a value that it was made with is empty: "API , and", "offers : it", a double blank."""


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_no_text_has_an_empty_slot(path: Path) -> None:
    texts = [line.partition(": ")[2] for line in path.read_text(encoding="utf-8").splitlines()]
    assert [text for text in texts if EMPTY_SLOT.search(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "this FFmpeg was built for NVENC API , and driver 535 offers 12.1",
        "driver 535.104.05 offers : it needs a driver",
        "NVENC API  (the driver)",
        "the engine of TensorRT () is damaged",
        "the server ended with an error: ",
        "version None is installed",
    ],
)
def test_an_empty_slot_is_found(text: str) -> None:
    assert EMPTY_SLOT.search(text)


@pytest.mark.parametrize(
    ("code", "words", "is_whole"),
    [
        ('failed("the disk is full", "make some room now")', ["the disk is full", "make some room now"], [True, False]),
        ('failed(f"disk {name} is full")', ["disk \0 is full"], [True]),
        ('errored("it took " + text + " too long")', ["it took \0 too long"], [True]),
        ('skipped(why, "install the thing first")', ["install the thing first"], [False]),
        ('x = "one of two" if y else "the other one"', ["one of two", "the other one"], [False, False]),
        ("failed(f\"a{' or the other one' if y else ''}\")", [" or the other one"], [False]),
        ('check("a.b", title="what it is", expects="It is so.", mends="Make it so.")', ["Make it so."], [False]),
        ('passed("all is well here", actual="as well as it was")', [], []),
        ('Outcome(status="pass", detail="all is well here")', [], []),
        ('Outcome(status="skip", reason="there is nothing here")', ["there is nothing here"], [False]),
        ('shared.once("a name of several words", lambda: failed("the disk is full"))', ["the disk is full"], [True]),
        ('"""What this module is."""\nraise ValueError("not an outcome here")', [], []),
        ('if "not an outcome here" in text: run("not an outcome here")', [], []),
    ],
)
def test_what_is_told_is_found(tool: Any, code: str, words: list[str], is_whole: list[bool]) -> None:
    finder = tool.Finder(SCRIPT)
    finder.visit(tool.ast.parse(code))
    assert [text.words for text in finder.found] == words
    assert [text.is_whole for text in finder.found] == is_whole


def test_a_part_of_a_reason_is_not_the_whole_of_it(tool: Any) -> None:
    reason = tool.Text(SCRIPT, 1, "disk \0 is full", is_whole=True)
    cure = tool.Text(SCRIPT, 1, "make some room", is_whole=False)
    told = "disk sda is full, so make some room"
    assert reason.pattern.search(told) is None
    assert reason.pattern.search("disk sda is full")
    assert cure.pattern.search(told)
