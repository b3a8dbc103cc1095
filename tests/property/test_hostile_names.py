"""A hostile string in any field of a plan arrives as itself, or not at all: what a real reader takes a form apart into
is what it takes the same form with a harmless string apart into, but for that string."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.property.hostile import Place, places, planted, shape, texts
from tests.tiers import examples
from tests.unit.render.cases import plan_for
from tests.unit.render.test_dockerfile import instructions
from tests.unit.render.test_powershell import commands_of, faults

from gpustack.errors import GpustackError
from gpustack.model.plan import Plan
from gpustack.render.api import render, render_short
from gpustack.visible import is_visible, one_line

MARK = "Qz, Qz"
"""Harmless, but no word that any form would write without quotes: both strings go the same ways."""

SAFE = re.compile(r"[\w./:+=@-]*")
DECIDING = {"family", "system", "environment", "done_when", "method", "methods", "id", "depends_on"}
"""Fields that choose what is written: another word there rightly makes another text."""


@cache
def linux() -> Plan:
    stack = "driver cuda cudnn nv-codec-headers ffmpeg container-toolkit"
    return plan_for(stack, "ubuntu22.04", methods=("cudnn=tar",))


@cache
def fedora() -> Plan:
    return plan_for("driver cuda cudnn container-toolkit", "rhel9")


@cache
def windows() -> Plan:
    return plan_for("cuda==11.8.* cudnn==8.9.* ffmpeg==7.1.5", "windows11", gpu="Tesla T4", methods=("zip",))


@cache
def fields(plan: Callable[[], Plan]) -> dict[tuple[str, ...], list[Place]]:
    found: dict[tuple[str, ...], list[Place]] = {}
    for place in places(plan()):
        if not DECIDING & set(shape(place)):
            found.setdefault(shape(place), []).append(place)
    return found


PRINTED = re.compile(r"\"\$\((printf '[^']*')\)\"")
"""A word that is spelled out, since not all of it can be seen."""


def written(match: re.Match[str]) -> str:
    """The word, as a real shell makes it."""
    done = subprocess.run(["dash", "-c", match[1]], check=True, capture_output=True)
    return shlex.quote(done.stdout.decode())


def shell_words(script: str) -> list[str]:
    """The words of a script, as a shell reads them."""
    return shlex.split(PRINTED.sub(written, script), comments=True)


def user_data(text: str) -> Any:
    """Maps, lists and argument lists; the words of the scripts in it as a shell reads them."""
    document = yaml.safe_load(text)
    for file in document.get("write_files", ()):
        # The others are files of the plan, some of which wait for their place.
        if file["path"].startswith(("/var/lib/cloud/", "/var/lib/gpustack/")) and file["path"].endswith(".sh"):
            checked = subprocess.run(["dash", "-n"], input=file["content"].encode(), capture_output=True, check=False)
            assert checked.returncode == 0, checked.stderr
            file["content"] = shell_words(file["content"])
    return document


def dockerfile(text: str) -> Any:
    found = []
    for name, rest in instructions(text):
        script = json.loads(rest)[2] if name == "RUN" and rest.startswith("[") else rest
        if name == "RUN":
            checked = subprocess.run(["dash", "-n"], input=script.encode(), capture_output=True, check=False)
            assert checked.returncode == 0, checked.stderr
        # shlex knows no quotes within the double quotes of a command substitution.
        script = script.replace('[ "$(sha256sum <', "[ $(sha256sum <").replace(')" = ', ") = ")
        if name == "LABEL":
            # A Dockerfile reads an escaped dollar sign in double quotes as a shell does; shlex leaves the backslash.
            script = re.sub(r"(\\\\)|\\\$", lambda match: match[1] or "$", script)
        if name == "COPY":
            option, _, paths = rest.partition(" ")
            found.append([name, option, *(json.loads(paths) if paths.startswith("[") else paths.split(" "))])
        else:
            found.append([name, *shlex.split(script)])
    return found


def powershell(text: str) -> Any:
    assert text.isascii()
    assert faults(text) == []
    return commands_of(text)


def markdown(text: str) -> Any:
    """What stands in which element; code as its words where it is shell."""
    found = []
    for token in MarkdownIt("commonmark").enable("table").enable("strikethrough").parse(text):
        # An address stands as a link to itself, which reads as its own text.
        shown = [child for child in token.children or () if child.markup != "autolink"]
        inner = [[child.type, child.content, child.attrs] for child in shown]
        merged = "".join(content if kind != "softbreak" else " " for kind, content, _ in inner)
        kinds = [kind for kind, *_ in inner if kind not in {"text", "softbreak", "text_special"}]
        content: Any = token.content if token.type != "inline" else [kinds, merged]
        if token.type == "fence" and token.info == "sh":
            content = shlex.split(PRINTED.sub(written, token.content))
        assert token.type != "html_block"
        assert "html_inline" not in kinds
        found.append([token.type, token.info, content])
    return found


FORMS: dict[str, tuple[Callable[[], Plan], Callable[[Plan], str], Callable[[str], Any]]] = {
    "cloud-init": (linux, lambda plan: render(plan, "cloud-init"), user_data),
    "cloud-init-yum": (fedora, lambda plan: render(plan, "cloud-init"), user_data),
    "cloud-init-short": (linux, lambda plan: render_short(plan, "cloud-init"), user_data),
    "dockerfile": (linux, lambda plan: render(plan, "dockerfile"), dockerfile),
    "powershell": (windows, lambda plan: render(plan, "powershell"), powershell),
    "markdown": (linux, lambda plan: render(plan, "markdown"), markdown),
    "json": (linux, lambda plan: render(plan, "json"), json.loads),
}


def same(found: Any, harmless: Any, text: str) -> bool:
    """Whether ``found`` is ``harmless`` with ``text`` in the place of the mark: exactly, or as titles show it."""
    if isinstance(found, str) and isinstance(harmless, str):
        wanted = harmless.replace(MARK, text)
        shown = [one_line(wanted), one_line(harmless.replace(MARK, one_line(text)))]
        # A guide begins its sentences with a capital letter, which the mark has already.
        return found == wanted or one_line(found) in {*shown, *(line[:1].upper() + line[1:] for line in shown)}
    if isinstance(found, dict) and isinstance(harmless, dict):
        keys = {str(key).replace(MARK, text): inner for key, inner in harmless.items()}
        return found.keys() == keys.keys() and all(same(found[key], keys[key], text) for key in keys)
    if isinstance(found, list | tuple) and isinstance(harmless, list | tuple):
        return len(found) == len(harmless) and all(same(a, b, text) for a, b in zip(found, harmless, strict=True))
    return bool(found == harmless)


def difference(found: Any, harmless: Any, text: str) -> Any:
    """The innermost pair that differs."""
    if isinstance(found, dict) and isinstance(harmless, dict) and found.keys() == harmless.keys():
        pairs = [(found[key], harmless[key]) for key in found]
    elif isinstance(found, list | tuple) and isinstance(harmless, list | tuple) and len(found) == len(harmless):
        pairs = list(zip(found, harmless, strict=True))
    else:
        return found, harmless
    return next(difference(a, b, text) for a, b in pairs if not same(a, b, text))


def attempt(form: str, plan: Plan) -> Any:
    _, write, read = FORMS[form]
    try:
        text = write(plan)
    except GpustackError:
        return "refused"
    return read(text)


@cache
def expected(form: str, place: Place) -> Any:
    harmless = planted(FORMS[form][0](), [place], MARK)
    return attempt(form, harmless) if harmless else None


def sampled(form: str) -> Iterator[tuple[str, ...]]:
    yield from fields(FORMS[form][0])


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data(), text=texts)
def test_a_string_in_any_field_arrives_as_itself(form: str, data: st.DataObject, text: str) -> None:
    assume(not SAFE.fullmatch(text))
    plan = FORMS[form][0]()
    field = data.draw(st.sampled_from(sorted(sampled(form))))
    where = [data.draw(st.sampled_from(fields(FORMS[form][0])[field]))]
    if field[-1] == "path":
        text = text.replace("/", ":")  # what is before a slash is a folder, which forms name apart
    # A file with what cannot be seen is a command there: test_hidden_characters runs it.
    assume(form != "markdown" or field[-1] != "content" or is_visible(text.replace("\n", "")))
    hostile = planted(plan, where, text)
    wanted = expected(form, where[0])
    if hostile is None or wanted is None:
        return  # a field whose own pattern refuses such words
    found = attempt(form, hostile)
    assert same(found, wanted, text), difference(found, wanted, text)
