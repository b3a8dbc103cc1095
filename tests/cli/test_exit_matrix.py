"""The exit codes of the contract, all in one table: what ends with which, and that 0, 1 and 2 are never confused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpustack.verify import declare

UBUNTU = ("--os", "ubuntu24.04", "--gpu", "L4")
GOOD = '[[check]]\nid = "site.a"\nhint = "x"\ncommand = ["true"]\n'
BAD = '[[check]]\nid = "site.a"\nhint = "x"\ncommand = ["false"]\n'
BROKEN = '[[check]]\nid = "site.a"\nhint = "x"\ncommand = ["no-such-program"]\n'
FILES = {
    "good.toml": GOOD,
    "bad.toml": BAD,
    "broken.toml": BROKEN,
    "circle.toml": GOOD + 'needs = ["site.b"]\n' + GOOD.replace("site.a", "site.b") + 'needs = ["site.a"]\n',
    "nonsense": "{ no document of any kind",
    "other.json": '{"schema": "gpustack/plan/v99"}',
    "empty.json": "{}",
    "overlay/cuda.yaml": "hello",
    "dead.toml": '[stack]\ncuda = ">=13"\ndriver = "==570.*"\n',
    "typo.toml": '[stak]\ncuda = ">=13"\n',
}
SITE = ("verify", "site", "--level", "smoke", "--checks")

MATRIX: list[tuple[int, str, tuple[str, ...]]] = [
    (0, "nothing failed", ("verify", "cuda")),
    (0, "skips are no failures", ("verify", "--host", "bare.json")),
    (0, "an own check that holds", (*SITE, "good.toml")),
    (0, "a report that is also written", (*SITE, "good.toml", "--output", "report.xml")),
    (0, "help", ("verify", "--help")),
    (0, "a plan", ("plan", "cuda", *UBUNTU)),
    (0, "a plan with changes, not asked in detail", ("plan", "driver", *UBUNTU)),
    (0, "a combination that fits", ("check", "cuda==12.4.1", "driver==550.54.15", *UBUNTU)),
    (0, "facts that hold", ("matrix", "list")),
    (1, "a check that failed", (*SITE, "bad.toml")),
    (1, "a check that could not run", (*SITE, "broken.toml")),
    (1, "a skip that was required", ("verify", "--host", "bare.json", "--require", "cudnn")),
    (1, "a failed check, told in another format", (*SITE, "bad.toml", "--format", "json")),
    (1, "a failed check, waited for", (*SITE, "bad.toml", "--retry-timeout", "0.1")),
    (1, "a plan that cannot be saved", ("plan", "cuda", *UBUNTU, "--out", "/nowhere/plan.json")),
    (2, "no such command", ("prove",)),
    (2, "no such option", ("verify", "--no-such")),
    (2, "no such component", ("verify", "cudn")),
    (2, "no such level", ("verify", "--level", "slow")),
    (2, "no such format", ("verify", "--format", "xml")),
    (2, "no such check", ("verify", "--require", "cuda.nothing")),
    (2, "a check that the level does not run", ("verify", "--require", "cuda.compile")),
    (2, "two reports in one place", ("verify", "--format", "tap", "--format", "json")),
    (2, "a report that cannot be written", (*SITE, "good.toml", "--output", "/nowhere/report.xml")),
    (2, "a report of failures that cannot be written", (*SITE, "bad.toml", "--output", "/nowhere/report.xml")),
    (2, "a file of checks that is none", (*SITE, "nonsense")),
    (2, "a file of checks that is not there", (*SITE, "nowhere.toml")),
    (2, "checks that need each other", (*SITE, "circle.toml")),
    (2, "a number that is none", ("verify", "--retry-timeout", "soon")),
    (2, "a saved host that is none", ("verify", "--host", "nonsense")),
    (2, "a tree that is none", ("verify", "--root", "nonsense")),
    (2, "a lock that is none", ("verify", "--lock", "nonsense")),
    (2, "an overlay that is malformed", ("verify", "--matrices", "overlay")),
    (2, "the same of the check of the facts", ("matrix", "check", "--matrices", "overlay")),
    (1, "a release that lacks what the one before it has", ("matrix", "check", "--complete", "cuda==13.4.2")),
    (0, "a release that lacks nothing", ("matrix", "check", "--complete", "driver==615.71.09")),
    (2, "no release to look for", ("matrix", "check", "--complete", "cuda>=13")),
    (2, "a release where the facts are listed", ("matrix", "list", "--complete", "cuda==13.4.2")),
    (2, "a specifier that is none", ("plan", "cuda>>12", *UBUNTU)),
    (2, "an unknown GPU", ("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "H2OO")),
    (2, "a plan that is none", ("render", "nonsense")),
    (2, "a plan of another schema", ("render", "other.json")),
    (2, "a plan without anything", ("render", "empty.json")),
    (2, "a request with an unknown table", ("plan", "--file", "typo.toml", *UBUNTU)),
    (3, "no stack", ("plan", "cuda>=13", "driver==570.*", *UBUNTU)),
    (3, "no stack, asked by a file", ("plan", "--file", "dead.toml", *UBUNTU)),
    (3, "a version that no fact knows", ("plan", "cuda==12.99", *UBUNTU)),
    (3, "an incompatible combination", ("check", "cuda==13.0.2", "driver==535.104.05", *UBUNTU)),
    (4, "a component without checks", ("verify", "container-toolkit")),
    (4, "a system without an offer", ("plan", "cuda", "--os", "alpine3.20")),
    (4, "a method that a component does not have", ("plan", "driver", *UBUNTU, "--method", "driver=zip")),
    (6, "pending changes, asked in detail", ("plan", "cuda", *UBUNTU, "--detailed-exitcode")),
    (7, "a version that no fact covers", ("check", "cuda==14.7", *UBUNTU)),
]  # 5 and 130 need a reboot and an interrupt: tests/install and tests/unit/verify/test_commands


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable) -> Iterator[None]:
    """A folder with files to name; own checks are declared once a process, so they go afterwards."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    host = json.loads(call("plan", "cuda", *UBUNTU, "--format", "json").out)["host"]
    (tmp_path / "bare.json").write_text(json.dumps({**host, "installed": {}, "gpus": []}))
    monkeypatch.chdir(tmp_path)
    yield
    for name in [one for one in declare._CHECKS if one.startswith("site.")]:
        del declare._CHECKS[name]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("code", "why", "arguments"), MATRIX, ids=[f"{code}-{why}" for code, why, _ in MATRIX])
def test_it_ends_with(call: Callable, code: int, why: str, arguments: tuple[str, ...]) -> None:
    ended = call(*arguments)
    assert ended.code == code, (why, ended)
    errors = [line for line in ended.err.splitlines() if line.startswith("error[")]
    if code == 2:
        # Wrong usage tells one error and what to do; a report that could be written is.
        assert len(errors) == 1, ended.err
        assert any(line.startswith("hint: ") for line in ended.err.splitlines())
        assert "internal-fault" not in ended.err
    elif arguments[0] == "verify":
        # What a verification finds is a document, and no error.
        assert bool(errors) is (code == 4)
        assert bool(ended.out) is (code != 4 and "--output" not in arguments)


def test_every_code_of_the_contract_is_in_the_table() -> None:
    assert {code for code, _, _ in MATRIX} == {0, 1, 2, 3, 4, 6, 7}
    assert len({why for _, why, _ in MATRIX}) == len(MATRIX)


def test_a_report_that_reaches_nobody_is_no_success(program: Callable) -> None:
    """/dev/full takes no byte: neither 0, which would say that all is well, nor 1, which would say that a check failed."""
    done = program("verify", "cuda", "--output", "/dev/full")
    assert done.code == 2
    assert (
        done.err
        == "error[not-writable]: /dev/full: cannot be written: No space left on device\nhint: choose another --output\n"
    )
