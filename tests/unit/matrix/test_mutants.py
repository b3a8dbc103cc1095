"""A change of a row of the facts changes an answer; ``ci/mutate_facts.py`` asks the same of a thousand rows."""

from __future__ import annotations

import random
import sys

from gpustack import resources

sys.path.insert(0, str(resources.folder("matrices").parent / "ci"))

from mutate_facts import Facts, decided, survivors

DRAWN, MOST = 60, 9
"""More than nine of ten rows decide something; of so few that are drawn, some more may not."""


def test_rows_of_the_facts_decide_answers() -> None:
    facts = Facts()
    drawn = random.Random(1).sample(list(decided(facts, "")), DRAWN)  # noqa: S311 (no secret)
    left = list(survivors(facts, drawn))
    assert len(left) <= MOST, "\n".join(left)
