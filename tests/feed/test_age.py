"""``--max-facts-age``, the warning of old facts, and plans made with newer facts than these."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.feed.conftest import Installation

from gpustack.errors import UsageError
from gpustack.matrix.age import OldFactsError, demand_age, in_words, limit_of

CHECK = ("check", "cuda==13.0.2", "driver==580.95.05", "--os", "ubuntu24.04", "--gpu", "L4")
PLAN = ("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "L4", "--format", "json")


def test_facts_of_46_days_ago_are_warned_of_once_and_those_of_44_are_not(installation: Installation) -> None:
    for days, warned in ((46, 1), (44, 0)):
        installation.published(timedelta(days=days))
        done = installation.call(*PLAN)
        assert done.returncode == 0
        assert json.loads(done.stdout)["schema"] == "gpustack/plan/v1"
        told = [line for line in done.stderr.splitlines() if "46 days old" in line and "gpustack matrix update" in line]
        assert len(told) == warned
    installation.published(timedelta(days=46))
    for quiet in (installation.call(*PLAN, "--quiet"), installation.call(*PLAN, GPUSTACK_MAX_FACTS_AGE="none")):
        assert "days old" not in quiet.stderr


@pytest.mark.parametrize(
    "words",
    [
        CHECK,
        PLAN,
        ("detect",),
        ("schema", "plan"),
        ("matrix", "list"),
        ("matrix", "status"),
        ("triton", "model-store", "x"),
    ],
    ids=" ".join,
)
def test_every_command_ends_with_8_where_the_facts_are_too_old(
    installation: Installation, words: tuple[str, ...]
) -> None:
    installation.published(timedelta(days=31))
    done = installation.call(*words, "--max-facts-age", "30d")
    assert done.returncode == 8
    assert "error[facts-too-old]: the facts are 31 days old" in done.stderr
    assert "hint: `gpustack matrix update`" in done.stderr


def test_facts_that_are_young_enough_change_nothing(installation: Installation) -> None:
    installation.published(timedelta(days=29))
    with_limit, without = installation.call(*CHECK, "--max-facts-age", "30d"), installation.call(*CHECK)
    assert (with_limit.returncode, with_limit.stdout) == (without.returncode, without.stdout)
    assert installation.call(*CHECK, GPUSTACK_MAX_FACTS_AGE="1d").returncode == 8
    assert installation.call(*CHECK, "--max-facts-age", "30", GPUSTACK_MAX_FACTS_AGE="").returncode == 2


def test_a_clock_that_is_behind_the_facts_cannot_hide_their_age() -> None:
    later = f"{datetime.now(timezone.utc) + timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}"
    with pytest.raises(OldFactsError, match="clock"):
        demand_age(later, timedelta(days=30))


@pytest.mark.parametrize(("text", "hours"), [("12h", 12), ("30d", 720), ("4w", 672), ("0d", 0)])
def test_an_age_is_hours_days_or_weeks(text: str, hours: int) -> None:
    assert limit_of(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5d", "30 days", "1m", "999999d", "30d\n", "٣d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        limit_of(text)


def test_ages_in_words() -> None:
    assert [in_words(timedelta(hours=hours)) for hours in (0, 1, 47, 48, 1104)] == [
        "0 hours", "1 hour", "47 hours", "2 days", "46 days",
    ]  # fmt: skip


def test_a_plan_made_with_newer_facts_is_refused_until_they_are_here(
    installation: Installation, tmp_path: Path
) -> None:
    installation.published(timedelta(days=1))
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "cuda.yaml").write_text(
        "schema: gpustack/matrix/v1\nsubject: cuda\n"
        "sources: {ours: {address: 'https://wiki.example.com/gpu', known: tested}}\n"
        "tables: {releases: {rows: [{version: 13.9.9, date: 2026-12-01, src: [ours]}]}}\n"
    )
    plan = tmp_path / "plan.json"
    made = installation.call(*PLAN[:-2], "--out", str(plan), "--matrices", str(overlay))
    assert made.returncode == 0, made.stderr
    document = json.loads(plan.read_text())
    assert len(document["facts"]) == 64
    installation.published(timedelta(days=2))
    done = installation.call("install", str(plan), "--dry-run")
    assert done.returncode == 8
    assert "error[facts-older-than-plan]" in done.stderr
    assert "gpustack matrix update" in done.stderr
    installation.published(timedelta(hours=1))
    assert "facts-older-than-plan" not in installation.call("install", str(plan), "--dry-run").stderr
