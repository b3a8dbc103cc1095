"""What cannot be seen comes out of no form of a plan, and what is spelled out for it is exactly the same to a shell."""

from __future__ import annotations

import json
import subprocess
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.property.hostile import Place, places, planted, shape
from tests.tiers import examples
from tests.unit.render.cases import anywhere, plan_for, plan_of
from tests.unit.render.test_ansible import step

from gpustack.detect.text import lines
from gpustack.errors import GpustackError
from gpustack.install.options import Options
from gpustack.install.run.dry_run import show
from gpustack.model.host import Host
from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite
from gpustack.plan.document import digest_of, parse
from gpustack.render.api import render, render_short, render_tree
from gpustack.render.commands import command_line
from gpustack.visible import one_line, visible, visible_json

HIDDEN = (
    "\x1b[5A\x1b[J",
    "\x07\x08\x0b\x0c\r",
    "\x7f",
    "\x80\x85\x9b31m\x9f",
    "\u200b\u200c\u200d\u2060\ufeff",
    "\u200e\u200f\u202a\u202b\u202c\u202d\u202e",
    "\u2066\u2067\u2068\u2069",
    "\u2028\u2029",
    "\u00ad\u034f\u115f\u3164\ufe0f\U000e0041\U000e0101",
    "\t",
)
"""C0, DEL, C1, no width, marks and turns of direction, isolates, separators, letters without a shape, a tabulator."""

SHAPELESS = set("\u034f\u115f\u3164\ufe0f\U000e0101")
"""Letters and marks to Unicode, and nothing to the eye."""

hostile = st.one_of(
    st.builds(
        "{}{}{}".format, st.sampled_from(("", "-", "it's 100%\\n")), st.sampled_from(HIDDEN), st.text(max_size=3)
    ),
    st.text(st.characters(categories=("Cc", "Cf", "Zl", "Zp", "L")), min_size=1, max_size=20),
).map(lambda text: text.replace("\0", "\x01"))
"""Without NUL, which no argument of a program can hold."""


def unseen(text: str) -> set[str]:
    """The characters of a text that act on a terminal or hide, by what Unicode says of them; line breaks aside."""
    hidden = {one for one in set(text) if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    return (hidden | (set(text) & SHAPELESS)) - {"\n"}


@cache
def linux() -> Plan:
    return plan_for("driver cuda cudnn container-toolkit", "ubuntu22.04", methods=("cudnn=tar",))


@cache
def windows() -> Plan:
    return plan_for("cuda==11.8.* cudnn==8.9.*", "windows11", gpu="Tesla T4", methods=("zip",))


FORMS: dict[str, tuple[Callable[[], Plan], Callable[[Plan], str]]] = {
    **{name: (linux, lambda plan, name=name: render(plan, name)) for name in ("table", "markdown", "shell", "json")},  # type: ignore[misc]
    **{name: (linux, lambda plan, name=name: render(plan, name)) for name in ("ansible", "cloud-init", "dockerfile")},  # type: ignore[misc]
    "ansible roles": (linux, lambda plan: "\n".join(render_tree({"host": plan}, "ansible").values())),
    "short": (linux, lambda plan: render_short(plan, "cloud-init")),
    "dry run": (linux, lambda plan: show(plan, Options(root=Path("/nowhere")))),
    "powershell": (windows, lambda plan: render(plan, "powershell")),
    "windows markdown": (windows, lambda plan: render(plan, "markdown")),
}


@cache
def fields(plan: Callable[[], Plan]) -> dict[tuple[str, ...], list[Place]]:
    found: dict[tuple[str, ...], list[Place]] = {}
    for place in places(plan()):
        if not {"family", "done_when"} & set(shape(place)):
            found.setdefault(shape(place), []).append(place)
    return found


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), text=hostile)
def test_nothing_hidden_comes_out_of_any_form(form: str, data: st.DataObject, text: str) -> None:
    make, write = FORMS[form]
    field = data.draw(st.sampled_from(sorted(fields(make))))
    plan = planted(make(), fields(make)[field], text)
    if plan is None:
        return
    try:
        written = write(plan)
    except GpustackError:
        return
    assert unseen(written) == set()


@settings(max_examples=examples(60), deadline=None)
@given(words=st.lists(hostile, min_size=1, max_size=3))
def test_a_shell_reads_the_very_words(words: list[str]) -> None:
    written = command_line(("printf", r"%s\1", *words))
    assert unseen(written) == set()
    for shell in ("dash", "bash"):
        done = subprocess.run([shell, "-c", written], check=True, capture_output=True)
        assert done.stdout.decode() == "".join(f"{word}\1" for word in words)


@pytest.mark.parametrize("text", HIDDEN)
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_a_file_of_hidden_characters_is_written_as_it_is(text: str, end: str, tmp_path: Path) -> None:
    """By what the guide says to type, and by the script."""
    content = f"-e 100% '{text}'\\n\n{text}{end}"
    file = FileWrite(path=str(tmp_path / "out"), content=content, mode="0600")
    plan = plan_of(step("one", kind="write-file", files=(file,), needs_root=False))
    (fence,) = [token for token in MarkdownIt("commonmark").parse(render(plan, "markdown")) if token.type == "fence"]
    subprocess.run(["dash", "-c", fence.content], check=True)
    assert (tmp_path / "out").read_bytes().decode() == content
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    (tmp_path / "out").unlink()
    script = tmp_path / "plan.sh"
    script.write_text(anywhere(render(plan, "shell")))
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run(["dash", str(script)], check=True, env=home, capture_output=True)
    assert (tmp_path / "out").read_bytes().decode() == content


@settings(max_examples=examples(30), deadline=None)
@given(text=hostile)
def test_what_a_script_shows_of_its_commands_can_be_seen(text: str) -> None:
    plan = plan_of(step("one", title=text, why=text, commands=(("true", text),), needs_root=False))
    script = anywhere(render(plan, "shell"))
    done = subprocess.run(["dash", "-s", "--", "--dry-run"], input=script.encode(), capture_output=True, check=True)
    assert b"true" in done.stdout
    assert unseen((done.stdout + done.stderr).decode()) == set()


@settings(max_examples=examples(60), deadline=None)
@given(text=hostile)
def test_a_document_is_the_same_with_and_without_escapes(text: str) -> None:
    plan = planted(linux(), [place for place in places(linux()) if place[-1] == "title"], text)
    assert plan is not None
    plan = msgspec.structs.replace(plan, digest=digest_of(plan))
    written = render(plan, "json")
    assert unseen(written) == set()
    assert parse(written.encode(), where="here") == plan
    assert json.loads(visible_json(json.dumps([text], ensure_ascii=False))) == [text]


@settings(max_examples=examples(60), deadline=None)
@given(text=hostile)
def test_a_host_is_described_by_what_can_be_seen(text: str) -> None:
    document: Any = msgspec.to_builtins(linux().host)
    document["os"]["name"] = document["kernel"] = document["gpus"][0]["name"] = text
    assert unseen(visible("\n".join(lines(msgspec.convert(document, Host))))) == set()
    assert unseen(one_line(text)) == set()
    assert "\n" not in one_line(f"a\n{text}\nb")
