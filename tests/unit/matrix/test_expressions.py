"""What an expression demands of a line: a line without any of these texts is never searched for it."""

from __future__ import annotations

import re

import pytest

from gpustack.matrix.expressions import words_of


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("Failed to START", ("failed to start",)),
        (r"\bfoo(?:bar)?.*longest", ("longest",)),
        ("alpha|beta|gamma delta", ("alpha", "beta", "gamma delta")),
        (r"(?i)Unit (?P<name>\w+) is (?:masked|vanished)", ("masked", "vanished")),
        ("(?=.*nvidia).*x", ("nvidia",)),
        ("(?!.*nvidia)abc", ("abc",)),
        ("(?:abc)*def", ("def",)),
        ("(?:abcd)+de", ("abcd",)),
        (r"\d+[a-z]*", ()),
        ("abc|", ()),
        ("ab", ()),
    ],
)
def test_the_words_of_an_expression(expression: str, words: tuple[str, ...]) -> None:
    assert words_of(expression) == words


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(re.error):
        words_of("(")
