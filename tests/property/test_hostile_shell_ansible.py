"""Hostile strings in any field of a plan reach a command, a file or a task as themselves, and nothing else does.

A real shell reads the script and calls what it reads; a YAML parser with Ansible's tags reads the playbook, and
Ansible's own templating is run over what it read.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.property.hostile import HOSTILE, Place, places, planted, shape, texts
from tests.property.test_hostile_names import shell_words
from tests.tiers import examples
from tests.unit.render.cases import anywhere, plan_for, plan_of
from tests.unit.render.test_ansible import Loader, Unsafe, step

from gpustack.errors import UnsupportedError
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.render.ansible import render as ansible
from gpustack.render.commands import changes, fetch, is_manual
from gpustack.render.shell import render as shell
from gpustack.visible import one_line

DECIDING = {"family", "system", "environment", "done_when", "method", "methods", "id", "depends_on", "phase"}
"""Fields that choose what is written: another word there rightly makes another text."""

CALLED = ("run", "put", "check_sum", "say", "begin")
NOTED = """
noted() {{ printf '%s\\0' "$@" >>{file}; printf '\\1' >>{file}; }}
""" + "".join(f'{name}() {{{{ noted {name} "$@"; }}}}\n' for name in CALLED if name != "put")
PUT = 'put() {{ noted put "$@" "$(cat; printf .)"; }}\n'


@cache
def debian() -> Plan:
    return plan_for("driver cuda cudnn container-toolkit", "debian12", methods=("network", "cudnn=tar"))


@cache
def rhel() -> Plan:
    return plan_for("driver cuda container-toolkit", "rhel9", methods=("network",))


PLANS = {"debian": debian, "rhel": rhel}


@cache
def fields(name: str) -> dict[tuple[str, ...], list[Place]]:
    found: dict[tuple[str, ...], list[Place]] = {}
    for place in places(PLANS[name]()):
        if not DECIDING & set(shape(place)):
            found.setdefault(shape(place), []).append(place)
    return found


VERIFICATION = ("check", "check_part", "end_checks", "cannot_check")
"""The functions that check what can be checked without gpustack: they change nothing."""


def calls(script: str) -> list[tuple[str, ...]]:
    """What a real shell calls when it runs the script: every step as if nothing of it were done."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "noted"
        # Nothing but the programs that note the calls: what else the text would run is not found, and fails.
        (folder / "bin").mkdir()
        (folder / "bin" / "cat").symlink_to("/bin/cat")
        (folder / "work").mkdir()
        helpers = re.findall(r"^([a-z_]+)\(\) \{", script, re.MULTILINE)
        asked = [one for one in helpers if one.startswith(("has_", "is_", "no_"))]
        never = "".join(f"{one}() {{ return 1; }}\n" for one in asked)
        unasked = ("work", "again", "mark", "needs_reboot", "wait_for_reboot", *VERIFICATION)
        quiet = "".join(f"{one}() {{ :; }}\n" for one in unasked)
        noted = (NOTED + PUT).format(file=file) + never + quiet + "id() { echo 0; }\n"
        head, mark, rest = anywhere(script).partition("# Marks of steps whose result cannot be tested.\n")
        assert mark
        done = subprocess.run(
            ["/bin/dash"],
            input=(head + noted + mark + rest).encode(),
            capture_output=True,
            check=False,
            cwd=folder / "work",
            env={"PATH": str(folder / "bin")},
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == b""
        assert not list((folder / "work").iterdir())
        assert {path.name for path in folder.iterdir()} == {"bin", "work", "noted"}
        raw = file.read_bytes().decode("utf-8", "surrogateescape")
    return [tuple(call.split("\0")) for call in raw.split("\0\1")[:-1]]


def expected(plan: Plan) -> Iterator[tuple[str, ...]]:
    """What the plan says that is to be called."""
    for one in plan.steps:
        if not (changes(one) or is_manual(one) or one.kind == "note"):
            continue
        yield ("begin", one_line(one.title))
        if not (one.reboot_after or is_manual(one)):
            yield from expected_of(one)


def expected_of(one: Step) -> Iterator[tuple[str, ...]]:
    for artifact in one.artifacts:
        for argv in fetch(artifact):
            yield ("run", *argv)
        if artifact.sha256:
            yield ("check_sum", artifact.path, artifact.sha256)
    for file in one.files:
        yield ("put", file.path, file.mode, file.content + ".")
    for argv in one.commands:
        if argv[0] != "gpustack":
            yield ("run", *argv)


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), text=texts)
def test_a_shell_calls_exactly_what_the_plan_says(name: str, data: st.DataObject, text: str) -> None:
    assume("\1" not in text)
    field = data.draw(st.sampled_from(sorted(fields(name))))
    plan = planted(PLANS[name](), fields(name)[field], text)
    assume(plan is not None)
    assert plan is not None
    assert [call for call in calls(shell(plan)) if call[0] != "say"] == list(expected(plan))


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\1" not in text])
def test_a_shell_calls_exactly_what_a_plan_of_hostile_words_says(text: str) -> None:
    """Every field of a step at once, conditions too."""
    file = FileWrite(path=f"/etc/{text}", content=text)
    artifact = Artifact(url=f"https://example.com/{text}", path=f"/var/{text}", sha256="0" * 64)
    plan = plan_of(
        step("one", title=text, why=text, files=(file,), artifacts=(artifact,), commands=(("prog", text, f"-{text}"),)),
        step("two", commands=(("ln", "-sfn", text, f"/{text}"), ("apt-mark", "hold", text)), depends_on=("one",)),
        step("three", commands=(("prog", text),), done_when=f"path /{one_line(text) or 'x'}"),
        step("four", commands=(("prog", text),), undo=(("rm", "-f", "--", f"/{text}"),)),
        name=text,
        version=text,
        warnings=(text,),
    )
    assert [call for call in calls(shell(plan)) if call[0] != "say"] == list(expected(plan))


MARK = "Qz, Qz"
"""Harmless, but no word that anything takes for the name of a package: both strings go the same ways."""
NAME = "QzQz"
"""Harmless, and may be the name of a package."""

NAMES = {"packages", "names", "tools"}
WORDED = {"name", "notify", "msg", "fail_msg", "register", "label", "tags"}
"""Keys whose text is a wording, which stands on one line."""

GUARD = "expand_argument_vars"
"""Said where a word looks like a variable, and only there."""


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in WORDED:
                yield from leaves(inner, (*place, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*place, number))
    elif isinstance(value, str) and value.startswith("#!/bin/sh\n# Written by gpustack"):
        yield from leaves(shell_words(value), place)
    else:
        yield place, value


def read(plan: Plan) -> dict[tuple[Any, ...], Any]:
    [play] = yaml.load(ansible(plan), Loader)  # noqa: S506 (a safe loader with one more tag)
    work = {key: play[key] for key in ("tasks", "handlers") if key in play}
    return {place: value for place, value in leaves(work) if not {"msg", GUARD}.intersection(place)}


OURS = re.compile(r"\{\{ (item|item\.path|gpustack_play_[a-z0-9_.]+|\(.* \| ternary\('/', '/dev/null/never'\)) \}\}.*")


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), text=texts)
def test_a_playbook_carries_the_string_and_nothing_more(name: str, data: st.DataObject, text: str) -> None:
    field = data.draw(st.sampled_from([one for one in sorted(fields(name)) if one[0] == "steps"]))
    [place] = [data.draw(st.sampled_from(fields(name)[field]))]
    assume(field[-1] != "path" or "/" not in text)  # another folder is another task
    mark = MARK
    if "actions" in field and NAMES.intersection(field):
        # A module takes what may be a package's name, and a command what may not.
        assume(not text.startswith("-"))
        mark = MARK if "," in text or text != text.strip() else NAME
    plan, harmless = planted(PLANS[name](), [place], text), planted(PLANS[name](), [place], mark)
    assume(plan is not None and harmless is not None)
    assert plan is not None
    assert harmless is not None
    try:
        found, wanted = read(plan), read(harmless)
    except UnsupportedError:
        # Modules would expand a variable in a path: said, and not written.
        assert re.search(r"\$(?:\w|\{)|^~", text, re.ASCII)
        return
    assert len(found) == len(wanted)
    for leaf in found.values():
        if isinstance(leaf, str) and re.search(r"\{[{%#]", leaf):
            assert isinstance(leaf, Unsafe) or OURS.fullmatch(leaf), leaf
    for place_in, value in wanted.items():
        if isinstance(value, str) and mark in value and place_in in found:
            assert found[place_in] == value.replace(mark, text)
