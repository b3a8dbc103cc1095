"""``gpustack verify``: several reports in one run, checks of users' own, waiting, and what is refused."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack.cli.verify import paired
from gpustack.errors import UsageError
from gpustack.model.host import Host
from gpustack.model.results import CheckResult, Report
from gpustack.verify.api import Interrupted, verify_until
from gpustack.verify.frame.report import build_report


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
        (("xml",), (), "unknown report format 'xml'"),
        (("json", "tap"), (), "2 formats, but 0 files: standard output takes one report only"),
        ((), ("a.xml", "b.odd"), "the report's format is unknown: neither its name nor a --format sets it"),
    ],
)
def test_pairs_that_make_no_sense_are_wrong_usage(
    formats: tuple[str, ...], outputs: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        paired(formats, tuple(map(Path, outputs)))
    assert (caught.value.exit_code, caught.value.message) == (2, message)


def test_several_reports_of_one_run(tmp_path: Path) -> None:
    names = ("a.json", "b.xml", "c.html", "d.sarif", "e.prom", "f.tap", "g.md")
    done = gpustack("cuda", *(f"--output={tmp_path / name}" for name in names))
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == "gpustack/report/v1"


def test_a_job_of_github_gets_annotations_a_summary_and_the_sum(tmp_path: Path) -> None:
    """The page of the job is added to, as other steps write there too; without one nothing is written."""
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    (tmp_path / "checks.toml").write_text('[[check]]\nid = "site.no"\nhint = "mend it"\ncommand = ["false"]\n')
    words = ("site", "--level", "smoke", "--checks", str(tmp_path / "checks.toml"), "--format", "github")
    done = gpustack(*words, GITHUB_STEP_SUMMARY=str(page))
    assert (done.returncode, done.stderr.count("1 check: 1 failed")) == (1, 1)
    assert done.stdout.startswith("::error title=site.no ")
    assert "\n1 check: 1 failed\n" in done.stdout
    before, *summaries = page.read_text().split("## gpustack verify\n")
    assert before == "before\n"
    assert len(summaries) == 1
    assert "| site\\.no | " in summaries[0]
    done = gpustack(*words, GITHUB_STEP_SUMMARY=str(tmp_path / "none" / "there"))
    assert done.returncode == 1
    assert "GITHUB_STEP_SUMMARY" in done.stderr


def test_the_sum_and_what_is_not_proven_are_told_where_files_take_the_reports(tmp_path: Path) -> None:
    host = tmp_path / "host.json"
    host.write_text('{"schema": "gpustack/host/v1"}')
    done = gpustack("--host", str(host), f"--output={tmp_path / 'a.xml'}")
    assert done.stdout == ""
    assert re.search(r"\d+ checks: .*\nnot proven: that anything runs on a GPU: this host has none\n$", done.stderr)


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

[[check]]
id = "site.silent"
command = ["echo", "no"]
expect.stderr = "warning"
hint = "make it warn"
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
        "site.answer": ("pass", "`echo the answer is 42` returns the expected result", ""),
        "site.wrong": ("fail", "`sh -c echo no; exit 3` exits with 3 instead of 0", "run `mend`"),
        "site.other": ("fail", "`echo no` does not write 'yes'", "say yes"),
        "site.after": ("skip", "requires site.wrong, which failed", ""),
        "site.missing": ("error", "`no-such-program`: no-such-program is not installed", "install it"),
        "site.silent": ("fail", "`echo no` does not write 'warning' to standard error", "make it warn"),
    }
    expected = {one["id"]: one["expected"] for one in json.loads(done.stdout)["checks"] if one["status"] == "fail"}
    assert expected == {
        "site.wrong": "`sh -c echo no; exit 3` exits with 0.",
        "site.other": "`echo no` exits with 0, writes 'yes'.",
        "site.silent": "`echo no` exits with 0, writes 'warning' to standard error.",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file has no [[check]]"),
        ("[[check]]\nid = 1", "Expected `str`, got `int` - at `$.check[0].id`"),
        ('[[check]]\nid = "site.a"\nhint = "x"', "Object missing required field `command` - at `$.check[0]`"),
        ('[[check]]\nid = "site.a"\nhint = "x"\ncommand = ["a"]\nnow = 1', "Object contains unknown field `now`"),
        ('[[check]]\nid = "driver.a"\nhint = "x"\ncommand = ["a"]', "driver is a component of gpustack"),
        ('[[check]]\nid = "site"\nhint = "x"\ncommand = ["a"]', "use COMPONENT.NAME"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = []', "s.a: the command must be a list of words"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\nexpect.stdout = "("', "'(' is not a regular expression"),
        (
            '[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\nexpect.stderr = "a{99999999999}"',
            "s.a: 'a{99999999999}' is not a regular expression: the repetition number is too large",
        ),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\ntimeout = 0', "the timeout must be a number of seconds greater than 0"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\ntimeout = nan', "a number of seconds greater than 0"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\ntimeout = inf', "a number of seconds greater than 0"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = "ls -l"', "Expected `array`, got `str` - at `$.check[0].command`"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a\\u0000b"]', "s.a: the command must be a list of words"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\nlevel = "slow"', "Invalid enum value 'slow'"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\nneeds = "driver.module"', "Expected `array`, got `str`"),
        ('[[check]]\nid = "s.a"\nhint = "x"\ncommand = ["a"]\n' * 2, "the id s.a of a check is used twice"),
        ("check = 1", "Expected `array`, got `int` - at `$.check`"),
        ("[[checks]]", "Object contains unknown field `checks`"),
        ("[[check]", "is not TOML"),
    ],
)  # fmt: skip
def test_a_file_of_checks_that_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "checks.toml"
    path.write_text(text)
    done = gpustack("--checks", str(path))
    assert done.returncode == 2
    code = "unreadable-toml" if message == "is not TOML" else "bad-checks"
    assert done.stderr.startswith(f"error[{code}]: {path}: ")
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
        "@check('site.kernel', title='kernel', expects='One.', fix='reboot')\n"
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
        "error[bad-checks]: the site checks of own (own_checks) cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'\nhint: fix or uninstall the package that contains them\n"
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
        "error[invalid-checks]: verify: checks need each other: site.a -> site.b -> site.a\nhint: fix the `needs` of the site checks\n",
    )


def test_a_fault_of_gpustack_is_no_failed_check(tmp_path: Path) -> None:
    """A package puts something in the list of checks that is none; whatever breaks then is told, and the code is 2."""
    code = "from gpustack.verify import declare\ndeclare._CHECKS['site.odd'] = None\n"
    done = gpustack("cuda", PYTHONPATH=f"{installed(tmp_path, code)}:{':'.join(sys.path)}")
    assert done.returncode == 2
    assert done.stderr.startswith("error[internal-fault]: AttributeError")


def given(status: str) -> Report:
    check = CheckResult(id="a.one", component="a", status=status, level="smoke")  # type: ignore[arg-type]
    done = CheckResult(id="a.two", component="a", status="pass", level="smoke")
    return build_report(Host(), (check, done), "smoke")


def test_waiting_repeats_what_failed_until_it_holds() -> None:
    answers = iter([given("fail"), given("fail"), given("pass"), given("pass")])
    kept: list[list[str]] = []
    pauses: list[float] = []
    now = iter(range(100))

    def again(before: object) -> Report:
        kept.append([one.id for one in before])  # type: ignore[attr-defined]
        return next(answers)

    report = verify_until(again, 60.0, pause=pauses.append, clock=lambda: float(next(now)))
    assert report.checks[0].status == "pass"
    # The last run repeats all: what passed at another time proves nothing together.
    assert kept == [[], ["a.two"], ["a.two"], []]
    assert pauses == [0.5, 1.0]


def test_a_service_that_goes_down_while_another_is_waited_for_is_no_pass() -> None:
    down = CheckResult(id="a.two", component="a", status="fail", level="smoke")
    one = CheckResult(id="a.one", component="a", status="pass", level="smoke")
    answers = iter(
        [given("fail"), given("pass"), build_report(Host(), (one, down), "smoke"), given("pass"), given("pass")]
    )
    kept: list[list[str]] = []
    now = iter(range(100))

    def again(before: object) -> Report:
        kept.append([one.id for one in before])  # type: ignore[attr-defined]
        return next(answers)

    report = verify_until(again, 60.0, pause=lambda _: None, clock=lambda: float(next(now)))
    assert {one.status for one in report.checks} == {"pass"}
    assert kept == [[], ["a.two"], [], ["a.one"], []]


def test_an_interrupt_while_it_waits_tells_the_last_report() -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        verify_until(lambda _: given("fail"), 60.0, pause=interrupted)
    assert caught.value.report == given("fail")


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
        "error[check-not-run]: --require: cuda.compile is a check of level smoke, which does not run at level quick\n"
        "hint: use --level smoke\n"
    )


HOSTILE = """
[[check]]
id = "site.'; reboot #"
title = "\\u001b[31m ::error:: <b> ]]>"
command = ["printf", "%s", "$(touch made) `touch made`; touch made && ::error:: </pre><script> \\u2028"]
hint = "\\u0007 none"
expect.stdout = "never"
"""


def test_a_hostile_file_of_checks_steers_nothing(tmp_path: Path) -> None:
    (tmp_path / "checks.toml").write_text(HOSTILE)
    names = ("a.json", "a.xml", "a.html", "a.sarif", "a.prom", "a.tap", "a.txt", "a.md")
    outputs = [f"--output={tmp_path / name}" for name in names]
    done = gpustack("site", "--level", "smoke", "--checks", str(tmp_path / "checks.toml"), *outputs)
    assert done.returncode == 1, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((*names, "checks.toml"))
    assert all(char.isprintable() or char == "\n" for char in (tmp_path / "a.txt").read_text())
    (one,) = json.loads((tmp_path / "a.json").read_text())["checks"]
    assert (one["id"], one["status"]) == ("site.'; reboot #", "fail")


def test_an_expression_that_takes_years_is_given_up(tmp_path: Path) -> None:
    """Such a search holds up everything else in its process, and can be ended only with that."""
    path = tmp_path / "checks.toml"
    path.write_text(
        f'[[check]]\nid = "site.years"\nhint = "x"\ntimeout = 6\ncommand = ["echo", "{"a" * 40}b"]\n'
        'expect.stdout = "^(a+)+$"\n'
    )
    done = gpustack("site", "--level", "smoke", "--checks", str(path), "--format", "json")
    assert done.returncode == 1
    (one,) = json.loads(done.stdout)["checks"]
    assert one["status"] == "error"
    assert one["reason"].startswith(
        f"the output of `echo {'a' * 40}b` could not be searched for '^(a+)+$': no answer within "
    )
    assert one["fix"] == "use an expression without nested repetitions in `expect`"


HANGS = """
import ctypes, subprocess, sys, time
from pathlib import Path
from gpustack.verify.declare import Outcome, check, passed

@check("site.hangs", title="hangs", expects="It ends.", fix="Mend it.", level="{level}", limit_s=0.2)
def hangs(context):
    ctypes.PyDLL(None).usleep(1)
    Path("{mark}").write_text(str(__import__("os").getpid()))
    while True:
        time.sleep(3600)

@check("site.after", title="after", expects="It ends.", fix="Mend it.", level="{level}", needs=("site.hangs",))
def after(context):
    return passed()

@check("site.other", title="other", expects="It ends.", fix="Mend it.", level="{level}")
def other(context):
    return passed("still here")
"""


def test_python_code_that_hangs_is_given_up_and_ends_with_the_program(tmp_path: Path) -> None:
    """At level quick too, where checks of gpustack's own need no such care."""
    running = []
    for level in ("quick", "smoke"):
        folder = tmp_path / level
        folder.mkdir()
        path = f"{installed(folder, HANGS.format(level=level, mark=folder / 'pid'))}:{':'.join(sys.path)}"
        command = [sys.executable, "-m", "gpustack", "verify", "site", "--level", level, "--format", "json"]
        env = {"PYTHONPATH": path, "PATH": "/usr/bin:/bin", "TMPDIR": str(folder)}
        running.append((folder, subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)))
    for folder, process in running:
        out, err = process.communicate(timeout=60)
        # Where there is a GPU, the line about what is not proven says something else.
        assert (process.returncode, err.splitlines()[0]) == (1, b"3 checks: 1 passed, 1 skipped, 1 could not run")
        told = {
            one["id"]: (one["status"], re.sub(r"\d+ s", "N s", one["reason"]) or one["detail"])
            for one in json.loads(out)["checks"]
        }
        assert told == {
            "site.hangs": ("error", "the check did not return within N s and was abandoned"),
            "site.after": ("skip", "requires site.hangs, which could not run"),
            "site.other": ("pass", "still here"),
        }
        # The thread was one of the program's own, which has ended; its folder is gone too.
        assert int((folder / "pid").read_text()) == process.pid
        assert not list(folder.glob("gpustack-verify-*"))


ODD = """
import sys
from gpustack.verify.declare import Outcome, check, passed
from gpustack.model.results import Measurement

def declare(name, answer):
    check(f"site.{name}", title=name, expects="It holds.", fix="Mend it.", level="LEVEL")(answer)

declare("nothing", lambda context: None)
declare("word", lambda context: "pass")
declare("leaves", lambda context: sys.exit(0))
declare("status", lambda context: Outcome(status="good"))
declare("reason", lambda context: Outcome(status="fail", reason=7))
declare("endless", lambda context: passed("x" * 1_000_000))
declare("nan", lambda context: passed(measurements={"a": Measurement(value=float("nan")), "b": Measurement(value=2)}))
"""


@pytest.mark.parametrize("level", ["quick", "smoke"])
def test_a_foreign_check_that_answers_nonsense_is_an_error_of_its_own(tmp_path: Path, level: str) -> None:
    path = f"{installed(tmp_path, ODD.replace('LEVEL', level))}:{':'.join(sys.path)}"
    done = gpustack("site", "--level", level, "--format", "json", PYTHONPATH=path)
    assert done.returncode == 1, done.stderr
    found = {one["id"].removeprefix("site."): one for one in json.loads(done.stdout)["checks"]}
    told = {name: (one["status"], one["reason"]) for name, one in found.items()}
    assert told == {
        "nothing": ("error", "the check itself failed with ValidationError: Expected `object`, got `null`"),
        "word": ("error", "the check itself failed with ValidationError: Expected `object`, got `str`"),
        "leaves": ("error", "the check itself failed with SystemExit: 0"),
        "status": ("error", "the check itself failed with ValidationError: Invalid enum value 'good' - at `$.status`"),
        "reason": ("error", "the check itself failed with ValidationError: Expected `str`, got `int` - at `$.reason`"),
        "endless": ("pass", ""),
        "nan": ("pass", ""),
    }
    assert found["word"]["fix"] == (
        "fix it if it is a site check; otherwise report it with the output of `gpustack detect --record DIR`"
    )
    assert len(found["endless"]["detail"]) < 30_000
    assert found["nan"]["measurements"] == {"a": {"value": "nan", "unit": ""}, "b": {"value": 2, "unit": ""}}


SLEEPING_NVCC = """#!/bin/sh
case "$*" in
  *--version*) echo 'Cuda compilation tools, release 13.0, V13.0.88' ;;
  *--dryrun*) echo '#$ TOP=/usr' >&2 ;;
  *) sleep 300 & echo $! > "$STARTED.new"; mv "$STARTED.new" "$STARTED"; wait ;;
esac
"""


@pytest.mark.gate
@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_what_ends_a_verification_leaves_no_folder_and_no_child(
    tmp_path: Path, number: signal.Signals, times: int
) -> None:
    """A terminal that is closed sends SIGHUP twice: by the kernel, and by the shell."""
    nvcc, started, scratch = tmp_path / "cuda/bin/nvcc", tmp_path / "started", tmp_path / "scratch"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(SLEEPING_NVCC)
    nvcc.chmod(0o755)
    scratch.mkdir()
    environment = {
        "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin", "CUDA_HOME": str(tmp_path / "cuda"),
        "STARTED": str(started), "TMPDIR": str(scratch),
    }  # fmt: skip
    command = [sys.executable, "-m", "gpustack", "verify", "cuda", "--level", "smoke"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        while not started.exists() and run.poll() is None:
            pass
        assert list(scratch.iterdir())
        for _ in range(times):
            run.send_signal(number)
        out, err = run.communicate()
    assert run.returncode == 128 + number
    assert err.splitlines()[-1] == f"interrupted by {number.name}"
    assert "interrupted before this check ended" in out
    assert list(scratch.iterdir()) == []
    child = Path(f"/proc/{started.read_text().strip()}/stat")
    # A loaded machine takes a moment to carry out a kill, and a container's first process may not collect what ended.
    while child.exists() and (state := child.read_text().rpartition(")")[2].split()[0]) != "Z":
        assert state in {"R", "S", "D"}
