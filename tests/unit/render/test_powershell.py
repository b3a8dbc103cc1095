"""The PowerShell form: what a real grammar reads out of it is what the plan says, whatever its strings hold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import tree_sitter
import tree_sitter_powershell
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.by_hand import words
from tests.golden_plans import cases, outcome, script_of

from gpustack.errors import UsageError
from gpustack.model import actions as do
from gpustack.model.host import Host, OperatingSystem
from gpustack.model.plan import Plan, StackEntry
from gpustack.model.request import Request
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.managers import windows as win
from gpustack.render.api import render as render_as
from gpustack.render.powershell import command, literal, render

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
HOSTILE = (
    "",
    "plain",
    "it's",
    "''",
    "'; Remove-Item -Recurse C:\\; '",
    "$(Remove-Item C:\\)",
    '$env:Path `n " ${x}',
    "a\nb\r\nc",
    "\x00\x1b\x7f\x85",
    "\u2018left\u2019 \u201alow\u201b \u201cdouble\u201d \u201elow\u201f",  # PowerShell reads all of them as quotes
    "\u2013Force \u2014Force \u2015Force",  # and these as dashes
    "-Force",
    "--%",
    "#> <# requires",
    "@'\nhere\n'@",
    "\u00d2 na\u00efve \u65e5\u672c \U0001f642",
    "} ; exit 9 ; {",
    "\u2028\u2029\ufeff",
    "a,b;c|d&e>f",
    "%SystemRoot%",
    "x" * 5000,
)
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(),
    st.text(alphabet="'\u2018\u2019\u201a\u201b\u201c\u201d\"`$(){};#\n\r -\u2013\\@%&|<>a1\x00"),
    st.text(st.characters()),
)


def tree_of(script: str) -> Any:
    return PARSER.parse(script.encode()).root_node


def nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in node.children:
        yield from nodes(child)


def faults(script: str) -> list[str]:
    return [str(node) for node in nodes(tree_of(script)) if node.type == "ERROR" or node.is_missing]


def text_of(node: Any) -> str:
    return bytes(node.text).decode()


def value_of(node: Any) -> str:
    """The string that an expression of single-quoted strings and character codes comes to."""
    units = b""
    for part in nodes(node):
        if part.type == "verbatim_string_characters":
            units += text_of(part)[1:-1].replace("''", "'").encode("utf-16-be")
        elif part.type == "decimal_integer_literal":
            units += text_of(part).encode("utf-16-be")
        elif part.type == "cast_expression":
            (code,) = [text_of(one) for one in nodes(part) if one.type == "hexadecimal_integer_literal"]
            assert text_of(part).startswith("[char]0x")
            units += int(code, 16).to_bytes(2, "big")
    return units.decode("utf-16-be", "surrogatepass")


def words_of(node: Any) -> tuple[str, ...]:
    """A command as the grammar takes it apart: its name, its parameters, the values of its arguments."""
    words = [text_of(node.child_by_field_name("command_name"))]
    elements = node.child_by_field_name("command_elements")
    for element in elements.children if elements else ():
        if element.type == "command_parameter":
            words.append(text_of(element))
        elif element.type == "array_literal_expression":
            words += [value_of(part) for part in element.children if part.type == "unary_expression"]
    return tuple(words)


def commands_of(script: str) -> list[tuple[str, ...]]:
    return [words_of(node) for node in nodes(tree_of(script)) if node.type == "command"]


def step(number: int = 1, **fields: Any) -> Step:
    given_fields: dict[str, Any] = {"component": "cuda", "kind": "run", "title": "t", "why": "w", "phase": "toolkit"}
    return Step(id=f"s{number}", **{**given_fields, **fields})


def plan(*steps: Step, warnings: tuple[str, ...] = (), name: str = "Windows 11") -> Plan:
    host = Host(os=OperatingSystem(id="windows", version_id="11", family="windows", name=name), arch="x86_64")
    stack = {"cuda": StackEntry(version="12.2.2", method="zip", reason="asked for")}
    return Plan(
        host=host,
        host_digest="0",
        request=Request(requirements=()),
        facts="0",
        stack=stack,
        steps=steps,
        warnings=warnings,
    )


@cache
def golden_scripts() -> dict[str, str]:
    """The script of every golden plan for Windows."""
    windows = [case for name, there in cases().items() if name.startswith("windows") for case in there]
    planned = [one for one in map(outcome, windows) if one.plan is not None]
    return {str(one.case): script_of(one) for one in planned}


@pytest.mark.gate
def test_goldens_are_powershell() -> None:
    assert len(golden_scripts()) >= 15
    assert {name: found for name, script in golden_scripts().items() if (found := faults(script))} == {}


@pytest.mark.gate
def test_goldens_call_nothing_that_is_not_known() -> None:
    for name, script in golden_scripts().items():
        defined = {text_of(node) for node in nodes(tree_of(script)) if node.type == "function_name"}
        own = {called for called, *_ in commands_of(script)} - defined
        assert own <= CMDLETS, name


CMDLETS = {
    *("Copy-Item", "Expand-Archive", "ForEach-Object", "Get-Command", "Get-FileHash", "Get-Item", "Invoke-WebRequest"),
    *("Join-Path", "Move-Item", "New-Item", "New-Object", "Remove-Item", "Select-Object", "Set-ItemProperty"),
    *("Set-StrictMode", "Start-BitsTransfer", "Test-Path", "Where-Object", "Write-Host", "$Action"),
    *("Get-CimInstance", "Out-String", "$Test", "$found.Source"),
}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_strings_are_literals(text: str) -> None:
    script = f"Write-Host {literal(text)}"
    assert script.isascii()
    assert "\n" not in script
    assert faults(script) == []
    assert commands_of(script) == [("Write-Host", text)]


@given(text=texts)
@settings(max_examples=200, deadline=None)
def test_any_string_is_a_literal(text: str) -> None:
    script = f"Write-Host {literal(text)}"
    assert script.isascii()
    assert faults(script) == []
    assert commands_of(script) == [("Write-Host", text)]


@given(path=texts, value=texts)
@settings(max_examples=100, deadline=None)
def test_commands_carry_their_values_and_nothing_more(path: str, value: str) -> None:
    argv = ("Set-StackVariable", "-Name", path, "-Value", value, "-Scope", "Machine")
    assert commands_of(command(argv)) == [argv]
    # A value that looks like a parameter is quoted, so it stays a value.
    assert commands_of(command(words(do.CopyFiles(pattern="-Force", folder="-Recurse")))) == [
        words(do.CopyFiles(pattern="-Force", folder="-Recurse"))
    ]


@given(program=texts, arguments=st.lists(texts, min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_programs_get_their_arguments_one_by_one(program: str, arguments: list[str]) -> None:
    if program not in win.COMMANDS:
        script = command((program, *arguments))
        assert commands_of(script) == [("Invoke-Program", "-Program", program, "-Arguments", *arguments)]


@given(a=texts, b=texts, c=texts, d=texts)
@settings(max_examples=20, deadline=None)
def test_no_field_of_a_plan_gets_out_of_its_place(a: str, b: str, c: str, d: str) -> None:
    made = plan(
        step(
            1,
            title=a,
            why=b,
            commands=(words(do.RemoveFiles(pattern=c)),),
            undo=(words(do.MoveFiles(pattern=d, folder=a)),),
            done_when=f"path {b}",
        ),
        step(2, title=b, kind="manual", commands=((c, d),), why=d, done_when=f"file {a} {'0' * 64}"),
        step(3, kind="download", artifacts=(Artifact(url=a, path=b, sha256=c, size=7),)),
        step(4, kind="write-file", files=(FileWrite(path=c, content=d),)),
        step(5, kind="note", title=d, why=c),
        warnings=(a, b),
        name=c,
    )
    script = render(made)
    assert script.isascii()
    assert faults(script) == []
    found = commands_of(script)
    assert words(do.RemoveFiles(pattern=c)) in found
    assert words(do.MoveFiles(pattern=d, folder=a)) in found
    # A condition stands on one line and names something.
    assert not b or "\n" in b or ("Test-Path", "-LiteralPath", b) in found
    assert ("Save-StackFile", "-Uri", a, "-LiteralPath", b, *(("-Hash", c) if c else ()), "-Size", "7") in found
    assert ("Write-StackFile", "-LiteralPath", c, "-Content", d) in found
    assert {name for name, *_ in found} <= known_commands()


@cache
def known_commands() -> frozenset[str]:
    """The commands of a script whose steps hold nothing but letters."""
    return frozenset(name for name, *_ in commands_of(render(plan(*SIMPLE))))


SIMPLE = (
    step(
        1,
        commands=(words(do.RemoveFiles(pattern="x")), words(do.MoveFiles(pattern="x", folder="y"))),
        undo=(words(do.RemoveFiles(pattern="x")),),
        done_when="path x",
    ),
    step(2, kind="manual", commands=(("a", "b"),), done_when=f"file x {'0' * 64}"),
    step(3, kind="download", artifacts=(Artifact(url="u", path="p"),)),
    step(4, kind="write-file", files=(FileWrite(path="p", content="c"),)),
    step(5, kind="note"),
)


def test_a_command_with_a_parameter_it_does_not_have_is_refused() -> None:
    for argv in (("Remove-StackItem", "-Recurse"), ("Remove-StackItem", "-Path"), ("New-Item", "x")):
        with pytest.raises(UsageError, match="has no parameter"):
            command(argv)


def test_the_script_asks_for_an_administrator_only_where_a_step_needs_one() -> None:
    assert "#requires -RunAsAdministrator" in render(plan(step()))
    assert "#requires -RunAsAdministrator" not in render(plan(step(needs_root=False)))


def test_the_script_is_strict_and_stops_at_the_first_error() -> None:
    script = render(plan())
    for line in (
        "Set-StrictMode -Version Latest",
        "$ErrorActionPreference = 'Stop'",
        "[Alias('WhatIf')] [switch] $DryRun",
    ):
        assert line in script
    assert "SecurityProtocolType]::Tls12" in script


def test_steps_run_in_order_and_are_taken_back_in_reverse() -> None:
    one = step(
        1,
        commands=(words(do.RemoveFiles(pattern="a")),),
        undo=(words(do.RemoveFiles(pattern="b")),),
        done_when="path a b",
    )
    two = step(2, commands=(words(do.RemoveFiles(pattern="c")),), undo=(words(do.RemoveFiles(pattern="d")),))
    three = step(3, commands=(words(do.RemoveFiles(pattern="e")),), undo_note="it stays")
    tail = render(plan(one, two, three)).rpartition("if ($Rollback) {")[2]
    assert [word for word in tail.split() if "-Step" in word] == [
        *("Undo-Step02", "Undo-Step01"),
        *("Invoke-Step01", "Invoke-Step02", "Invoke-Step03"),
    ]


def test_what_was_never_done_is_not_taken_back() -> None:
    made = step(
        commands=(words(do.LeaveMark(path="m")),),
        undo=(words(do.RemoveFiles(pattern="folder")),),
        done_when=r"path C:\Program Files\x\m",
    )
    body = render(plan(made)).partition("function Undo-Step01 {")[2].partition("\n}\n")[0]
    guard, _, rest = body.partition("Write-Host '--- roll back")
    assert r"if (-not (Test-Path -LiteralPath 'C:\Program Files\x\m'))" in guard
    assert "return" in guard
    assert "Remove-StackItem -Path 'folder'" in rest


def test_a_sum_is_found_behind_a_path_with_spaces() -> None:
    digest = "a" * 64
    script = render(
        plan(step(commands=(words(do.LeaveMark(path="m")),), done_when=rf"file C:\Program Files\a b.zip {digest}"))
    )
    guard = ("Test-Sum", "-LiteralPath", r"C:\Program Files\a b.zip", "-Algorithm", "SHA256", "-Hash", digest)
    assert guard in commands_of(script)


def test_a_manual_step_stops_the_script_only_where_others_wait_for_it() -> None:
    hand = step(1, kind="manual", done_when="path x", commands=((r"C:\a b\setup.exe", "it's"),))
    waits = step(2, commands=(words(do.RemoveFiles(pattern="a")),), depends_on=("s1",))
    looks = step(3, commands=(("gpustack", "verify"),), depends_on=("s1",), phase="verification")
    stopping, going = render(plan(hand, waits)), render(plan(hand, looks))
    assert "exit 5" in stopping
    assert "exit 5" not in going
    assert "& ''C:\\a b\\setup.exe'' ''it''''s''" in going


def test_where_gpustack_is_not_installed_the_steps_results_are_checked() -> None:
    verify = step(9, commands=(("gpustack", "verify", "cuda"),), phase="verification")
    entry = StackEntry(version="13.4.2", method="zip", reason="")
    made = step(1, component="cuda", commands=(words(do.LeaveMark(path="m")),), done_when=r"path C:\cuda\m")
    script = render(replace(plan(made, verify), stack={"cuda": entry}))
    assert "if (Get-Command -Name 'gpustack'" in script
    assert r"-Test { Test-Path -LiteralPath 'C:\cuda\m' }" in script
    assert "-Test { Test-Compiler -Release '13.4' }" in script
    assert "nothing could be checked without gpustack" not in script
    assert "nothing could be checked without gpustack" in render(replace(plan(verify), stack={}))


def test_another_windows_or_architecture_is_refused_first() -> None:
    script = render(plan(step()))
    called = commands_of(script)
    guard = next(one for one in called if one[0] == "Assert-StackHost")
    assert guard[1:5] == ("-System", "Windows 11", "-Architecture", "x86_64")
    assert script.index("\nAssert-StackHost ") < script.index("$StateFolder = ")
    assert "exit 4" in script


def test_each_side_gets_its_own_script() -> None:
    there = plan(step())
    with pytest.raises(UsageError, match="Windows 11 cannot run the format 'shell'") as caught:
        render_as(there, "shell")
    assert "--format powershell" in caught.value.hint
    linux = Plan(
        host=Host(os=OperatingSystem(id="ubuntu", version_id="24.04", family="apt")),
        host_digest="0",
        request=Request(requirements=()),
        facts="0",
    )
    with pytest.raises(UsageError, match=r"ubuntu24.04 cannot run the format 'powershell'") as caught:
        render_as(linux, "powershell")
    assert "--format shell" in caught.value.hint
    assert render_as(there, "powershell") == render(there)
