"""Plans that the texts of facts tell a user to make can be made."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gpustack.cli import main

TOLD = sorted(
    {
        command.replace("''", "'")
        for path in (Path(__file__).parents[2] / "matrices").rglob("*.yaml")
        for command in re.findall(r"`gpustack (?:plan|install) ([^`{}]*)`", path.read_text())
    }
)


def test_texts_tell_of_plans() -> None:
    assert len(TOLD) > 20


@pytest.mark.parametrize("words", TOLD)
def test_a_told_plan_is_made(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *shlex.split(words), "--os", "ubuntu24.04", "--gpu", "A100"]) == 0, capsys.readouterr().err
