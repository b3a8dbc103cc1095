"""The actions of steps: every plan says what it does, and its document is refused where words and meaning differ."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.golden_plans import cases, outcome
from tests.unit.plan.making import CUDA, CUDNN, DRIVER, host, plan

from gpustack.errors import DocumentError
from gpustack.model import actions as do
from gpustack.model.plan import Plan
from gpustack.plan.commands import commands_of, packages_of, spell
from gpustack.plan.document import dump, parse
from gpustack.plan.draft import sha256_of
from gpustack.plan.former import actions_of, undo_actions_of
from gpustack.plan.managers import NAMES, manager

SYSTEMS = ("amzn2023", "azurelinux3.0", "debian12", "l4t36", "rhel7", "rhel9", "sles15.7", "ubuntu24.04", "windows11")


def plans() -> list[Plan]:
    found = [outcome(case).plan for name in SYSTEMS for case in cases()[name]]
    return [one for one in found if one is not None]


def test_every_step_says_what_it_does_and_its_commands_are_no_more_than_that() -> None:
    for step in (step for one in plans() for step in one.steps):
        actions, back = actions_of(step), undo_actions_of(step)
        assert not any(isinstance(action, do.Words) for action in (*actions, *back)), step.title
        assert (commands_of(actions), commands_of(back), packages_of(actions)) == (
            step.commands,
            step.undo,
            step.packages,
        )


def test_a_document_is_read_as_it_was_written() -> None:
    for one in plans():
        raw = dump(one).encode()
        assert parse(raw, where="plan.json") == one
        assert dump(parse(raw, where="plan.json")).encode() == raw


def changed(made: Plan, change: Any) -> bytes:
    """The document after a change by somebody who knows how its digest is made."""
    document = msgspec.json.decode(dump(made))
    change(document["steps"])
    document.pop("digest")
    return msgspec.json.encode({**document, "digest": sha256_of(document)})


def nothing(steps: list[dict[str, Any]]) -> None:
    assert steps


def step_of(steps: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(step for step in steps if step["kind"] == kind)


def other_command(steps: list[dict[str, Any]]) -> None:
    step_of(steps, "install-packages")["commands"] = [["true"]]


def other_package(steps: list[dict[str, Any]]) -> None:
    step_of(steps, "install-packages")["actions"][0]["packages"][0]["name"] = "other"


def other_undo(steps: list[dict[str, Any]]) -> None:
    step_of(steps, "enable-service")["undo"] = []


def other_packages(steps: list[dict[str, Any]]) -> None:
    step_of(steps, "install-packages")["packages"] = []


def unknown_action(steps: list[dict[str, Any]]) -> None:
    step_of(steps, "install-packages")["actions"][0]["type"] = "conjure"


def unknown_field(steps: list[dict[str, Any]]) -> None:
    step_of(steps, "install-packages")["actions"][0]["force"] = True


def foreign_verb(steps: list[dict[str, Any]]) -> None:
    step = step_of(steps, "install-packages")
    step["actions"] = [{"type": "enable-stream", "manager": "apt", "stream": "a:b"}]


@pytest.mark.parametrize(
    "change",
    [other_command, other_package, other_undo, other_packages, unknown_action, unknown_field, foreign_verb],
)
def test_what_was_reviewed_is_what_runs(change: Any) -> None:
    made = plan(host(), DRIVER, CUDA, CUDNN)
    assert parse(changed(made, nothing), where="plan.json") == made
    with pytest.raises(DocumentError) as refused:
        parse(changed(made, change), where="plan.json")
    assert refused.value.exit_code == 2


def words_only(steps: list[dict[str, Any]]) -> None:
    for step in steps:
        step.pop("actions", None)
        step.pop("undo_actions", None)


def test_a_plan_of_the_first_edition_is_read_and_written_as_it_is() -> None:
    made = plan(host(), DRIVER, CUDA, CUDNN)
    raw = changed(made, words_only)
    read = parse(raw, where="plan.json")
    assert sorted(dump(read)) == sorted(msgspec.json.format(raw, indent=2).decode() + "\n")
    plain = do.Words | do.Verify | do.Reboot | do.ByHand
    for step, former in zip(made.steps, read.steps, strict=True):
        assert all(isinstance(action, plain) for action in (*actions_of(former), *undo_actions_of(former)))
        assert commands_of(actions_of(former)) == step.commands
        assert commands_of(undo_actions_of(former)) == step.undo


def test_a_reset_of_a_stream_comes_before_its_change() -> None:
    enable = do.EnableStream(manager="dnf", stream="nvidia-driver:580-open", instead="reset")
    assert [argv[3] for argv in spell(enable)] == ["reset", "enable"]


@pytest.mark.parametrize("name", NAMES)
def test_every_manager_takes_back_what_it_does(name: do.ManagerName) -> None:
    tool = manager(name)
    path = "/etc/yum.repos.d/x.repo" if name != "apt" else "/etc/apt/sources.list.d/x.sources"
    away = tool.commands(do.DisableRepository(manager=name, path=path, url="https://example.com/x"))
    back = tool.commands(do.EnableRepository(manager=name, path=path, url="https://example.com/x"))
    assert [argv[0] for argv in (*away, *back)] == ["mv", "mv"]
    assert away[0][2:] == (*back[0][:1:-1],)
