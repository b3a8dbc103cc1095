"""The explorer gives the answers of `gpustack check`: verdicts, reasons, sources, warnings, hints, all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Same = Callable[[list[Any]], None]


@pytest.mark.gate
def test_random_questions_have_the_programs_answers(explorer: Any, same: Same) -> None:
    same(explorer.questions(200, seed=20, hints_of=20))


@pytest.mark.slow
def test_two_thousand_questions_have_the_programs_answers_and_hints(explorer: Any, same: Same) -> None:
    same(explorer.questions(2000, seed=7, hints_of=1))


@pytest.mark.gate
def test_the_page_is_one_file_that_a_phone_loads(explorer: Any, builder: Any) -> None:
    """Everything is in it, and nothing in it asks for anything: its policy forbids it."""
    text = builder.page(explorer.facts)
    assert len(text.encode()) < 5_000_000
    assert "default-src 'none'" in text
    assert "{{" not in text.partition('<script type="application/json"')[0]
    assert text.count("<script") == text.count("</script>") == 2
