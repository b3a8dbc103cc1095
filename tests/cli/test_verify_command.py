"""``gpustack verify``: several reports in one run, checks of users' own, waiting, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack.cli.verify import paired
from gpustack.errors import UsageError
from gpustack.model.host import Host
from gpustack.model.results import CheckResult, Report
from gpustack.verify.api import verify_until
from gpustack.verify.report import build_report


def gpustack(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin", **env}
    command = [sys.executable, "-m", "gpustack", "verify", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("formats", "outputs", "pairs"),
    [
        ((), (), [("text", "-")]),
        (("tap",), (), [("tap", "-")]),
        ((), ("a.xml", "b.html"), [("junit", "a.xml"), ("html", "b.html")]),
        (("tap",), ("a", "b.sarif"), [("tap", "a"), ("sarif", "b.sarif")]),
        (("json", "text"), ("a",), [("json", "a"), ("text", "-")]),
        ((), ("report",), [("text", "report")]),
    ],
)
def test_formats_and_files_are_paired_in_order(
    formats: tuple[str, ...], outputs: tuple[str, ...], pairs: list[tuple[str, str]]
) -> None:
    found = [(name, str(path)) for name, path in paired(formats, tuple(map(Path, outputs)))]
    assert found == pairs


@pytest.mark.parametrize(
    ("formats", "outputs", "message"),
    [
        (("xml",), (), "no report format is called 'xml'"),
        (("json", "tap"), (), "2 formats and 0 files: standard output takes one report"),
        ((), ("a.xml", "b.odd"), "its name does not tell the format, and no --format is left for it"),
    ],
)
def test_pairs_that_make_no_sense_are_wrong_usage(
    formats: tuple[str, ...], outputs: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        paired(formats, tuple(map(Path, outputs)))
    assert (caught.value.exit_code, caught.value.message) == (2, message)


def test_several_reports_of_one_run(tmp_path: Path) -> None:
    names = ("a.json", "b.xml", "c.html", "d.sarif", "e.prom", "f.tap")
    done = gpustack("cuda", *(f"--output={tmp_path / name}" for name in names))
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == "gpustack/report/v1"


OWN = """
[[check]]
id = "site.answer"
title = "the answer"
command = ["echo", "the answer is 42"]
hint = "ask again"
expect.stdout = "is 4\\\\d$"

[[check]]
id = "site.wrong"
command = ["sh", "-c", "echo no; exit 3"]
hint = "run `mend`"
needs = ["site.answer"]

[[check]]
id = "site.other"
command = ["echo", "no"]
expect.stdout = "yes"
hint = "say yes"

[[check]]
id = "site.after"
command = ["true"]
hint = "nothing"
needs = ["site.wrong"]

[[check]]
id = "site.missing"
command = ["no-such-program"]
hint = "install it"
"""


def test_a_file_of_checks(tmp_path: Path) -> None:
    path = tmp_path / "checks.toml"
    path.write_text(OWN)
    done = gpustack("site", "--level", "smoke", "--checks", str(path), "--format", "json")
    assert done.returncode == 1, done.stderr
    told = {
        one["id"]: (one["status"], one["reason"] or one["detail"], one["fix"])
        for one in json.loads(done.stdout)["checks"]
    }
    assert told == {
        "site.answer": ("pass", "`echo the answer is 42` answers as expected", ""),
        "site.wrong": ("fail", "`sh -c echo no; exit 3` exits with 3, not 0", "run `mend`"),
        "site.other": ("fail", "`echo no` does not write 'yes'", "say yes"),
        "site.after": ("skip", "needs site.wrong, which failed", ""),
        "site.missing": ("error", "`no-such-program`: no-such-program is not installed", "install it"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no [[check]]"),
        ("[[check]]\nid = 1", "Expected `str`, got `int` - at `$.check[0].id`"),
        ('[[check]]\nid = "site.a"\nhint = "x"', "Object missing required field `command` - at `$.check[0]`"),
        ('[[check]]\nid = "site.a"\nhint = "x"\ncommand = ["a"]\nnow = 1', "Object contains unknown field `now`"),
        ('[[check]]\nid = "driver.a"\nhint = "x"\ncommand = ["a"]', "driver is a component of gpustack's own"),
        ('[[check]]\nid = "site"\nhint = "x"\ncommand = ["a"]', "it has to be component.name"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = []', "s.a: the command has to be a list of words"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\nexpect.stdout = "("', "'(' is no regular expression"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\ntimeout = 0', "the timeout has to be more than 0 seconds"),
        ("[[check]", "is not TOML"),
    ],
)  # fmt: skip
def test_a_file_of_checks_that_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "checks.toml"
    path.write_text(text)
    done = gpustack("--checks", str(path))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {path}: ")
    assert message in done.stderr
    assert "hint: " in done.stderr


def installed(folder: Path, code: str) -> Path:
    """A folder of packages in which one brings checks, as pip would leave it."""
    (folder / "own_checks.py").write_text(code)
    about = folder / "own_checks-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-checks\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[gpustack.checks]\nown = own_checks\n")
    return folder


def test_a_package_brings_checks(tmp_path: Path) -> None:
    code = (
        "from gpustack.verify.declare import check, passed\n"
        "@check('site.kernel', title='kernel', expects='One.', mends='reboot')\n"
        "def kernel(context):\n    return passed(context.host.arch or '')\n"
    )
    path = f"{installed(tmp_path, code)}:{':'.join(sys.path)}"
    done = gpustack("site", "--format", "tap", PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (0, "TAP version 14\n1..1\nok 1 - site.kernel kernel\n")


def test_a_package_whose_checks_cannot_be_loaded_is_no_failed_check(tmp_path: Path) -> None:
    path = f"{installed(tmp_path, 'import no_such_module')}:{':'.join(sys.path)}"
    done = gpustack("cuda", PYTHONPATH=path)
    assert done.returncode == 2
    assert done.stderr == (
        "error: the checks of own (own_checks) cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'\n"
        "hint: mend or uninstall the package that brings them\n"
    )


def test_checks_that_need_each_other_are_no_failed_check(tmp_path: Path) -> None:
    path = tmp_path / "checks.toml"
    body = 'command = ["true"]\nhint = "x"\n'
    path.write_text(
        f'[[check]]\nid = "site.a"\nneeds = ["site.b"]\n{body}[[check]]\nid = "site.b"\nneeds = ["site.a"]\n{body}'
    )
    done = gpustack("site", "--level", "smoke", "--checks", str(path))
    assert (done.returncode, done.stderr) == (
        2,
        "error: verify: checks need each other in a circle: site.a -> site.b -> site.a\n"
        "hint: mend the `needs` of the checks that you added\n",
    )


def test_a_fault_of_gpustack_is_no_failed_check(tmp_path: Path) -> None:
    """A package puts something in the list of checks that is none; whatever breaks then is told, and the code is 2."""
    code = "from gpustack.verify import declare\ndeclare._CHECKS['site.odd'] = None\n"
    done = gpustack("cuda", PYTHONPATH=f"{installed(tmp_path, code)}:{':'.join(sys.path)}")
    assert done.returncode == 2
    assert done.stderr.startswith("error: internal fault: AttributeError")


def given(status: str) -> Report:
    check = CheckResult(id="a.one", component="a", status=status, level="smoke")  # type: ignore[arg-type]
    done = CheckResult(id="a.two", component="a", status="pass", level="smoke")
    return build_report(Host(), (check, done), "smoke")


def test_waiting_repeats_what_failed_until_it_holds() -> None:
    answers = iter([given("fail"), given("fail"), given("pass")])
    kept: list[list[str]] = []
    pauses: list[float] = []
    now = iter(range(100))

    def again(before: object) -> Report:
        kept.append([one.id for one in before])  # type: ignore[attr-defined]
        return next(answers)

    report = verify_until(again, 60.0, pause=pauses.append, clock=lambda: float(next(now)))
    assert report.checks[0].status == "pass"
    assert kept == [[], ["a.two"], ["a.two"]]
    assert pauses == [0.5, 1.0]


def test_waiting_ends_with_the_last_report() -> None:
    now = iter([0.0, 1.0, 1.0, 6.0])
    report = verify_until(lambda _: given("fail"), 5.0, pause=lambda _: None, clock=lambda: next(now))
    assert report.checks[0].status == "fail"


def test_a_service_that_comes_up_is_waited_for(tmp_path: Path) -> None:
    flag = tmp_path / "up"
    path = tmp_path / "checks.toml"
    # The service comes up when it was asked for the second time.
    script = f"[ -e {flag} ] && exit 0; touch {flag}; exit 1"
    path.write_text(f'[[check]]\nid = "site.up"\nhint = "start it"\ncommand = ["sh", "-c", "{script}"]\n')
    common = ("site", "--level", "smoke", "--checks", str(path))
    assert gpustack(*common).returncode == 1
    flag.unlink()
    assert gpustack(*common, "--retry-timeout", "30").returncode == 0


def test_a_required_check_of_a_higher_level_is_wrong_usage() -> None:
    done = gpustack("cuda", "--require", "cuda.compile")
    assert done.returncode == 2
    assert done.stderr == (
        "error: --require: cuda.compile is a check of level smoke, which level quick does not run\n"
        "hint: --level smoke\n"
    )
