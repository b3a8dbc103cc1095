"""A change of a row of the facts changes an answer; ``ci/mutate_facts.py`` asks the same of a thousand rows."""

from __future__ import annotations

import sys

from gpustack import resources

sys.path.insert(0, str(resources.folder("matrices").parent / "ci"))

from mutate_facts import Facts, decided, sampled, survivors

DRAWN, MOST = 60, 9
"""More than nine of ten rows decide something; of so few that are drawn, some more may not."""


def test_rows_of_the_facts_decide_answers() -> None:
    facts = Facts()
    left = list(survivors(facts, sampled(facts, decided(facts, ""), DRAWN, seed=1)))
    assert len(left) <= MOST, "\n".join(left)


def test_a_row_that_goes_away_moves_no_other_one_into_the_sample() -> None:
    facts = Facts()
    places = list(decided(facts, "cudnn.releases"))
    drawn = sampled(facts, places, 9, seed=1)
    without = sampled(facts, [one for one in places if one != drawn[4]], 9, seed=1)
    assert [one for one in drawn if one != drawn[4]] == without[:8]
