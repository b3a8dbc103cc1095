"""English as docs/contributing.md has it ("Words"): texts, docstrings, pages and facts avoid the phrases of its right column.

And pages name nothing that is gone: every module and folder that docs/architecture.md names exists.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PHRASES = re.compile(
    r"\b(?:(?:is|are|was|were|be) (?:told(?! to\b)|looked at)|(?:can|cannot|could|to|not) be had|are had"
    r"|goes with|goes? together|goes? on (?:with|to)|goes on|be given|says? of|tells? of|so that it is known"
    r"|vouch(?:es|ed)?|(?:taken|takes?|taking) back|left out|lea(?:ve|ves|ving) out|puts? back|one's own"
    r"|brings?|beside|anew|whoever|mends?|stands? in the way|no facts? (?:says?|speaks?|knows?|tells?)"
    r"|there (?:is|are) none)\b(?!`)",
    re.IGNORECASE,
)
KEPT = {
    "docs/observed-h200.md": "what a program of then printed",
    "docs/contributing.md": "the glossary itself",
}


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)


def words_of(path: Path) -> Iterator[tuple[int, str]]:
    """The strings and comments of a module, the lines of anything else."""
    if path.suffix != ".py":
        yield from lines_of(path)
        return
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value.replace("``beside``", "").replace("``bring``", "")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


PLACES = ("src/gpustack/**/*.py", "templates/*/*", "matrices/**/*.yaml", "docs/*.md", "README.md", "CHANGELOG.md")


@pytest.mark.parametrize("place", PLACES)
def test_texts_are_in_plain_english(place: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {phrase[0]}"
        for path in sorted(ROOT.glob(place))
        if str(path.relative_to(ROOT)) not in KEPT
        for number, text in words_of(path)
        for phrase in PHRASES.finditer(text)
    ]
    assert found == []


def test_the_phrases_are_found() -> None:
    for text in ("cuDNN goes with CUDA", "it cannot be had", "No fact says that", "the files are put back", "left out"):
        assert PHRASES.search(text.replace("are put back", "puts back")), text


def test_the_page_on_architecture_names_what_exists() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py))`", page) if not name.startswith("ci/")}
    gone = {name for name in named if not (ROOT / "src/gpustack" / name).exists() and not (ROOT / name).exists()}
    assert len(named) > 30
    assert gone == set()
    functions = set(re.findall(r"`([a-z_]+)` in `([a-z_/]+\.py)`", page))
    for function, module in functions:
        assert f"def {function}(" in (ROOT / "src/gpustack" / module).read_text(encoding="utf-8"), function
