"""Where documents go: ``-`` is standard output for every option that takes an output file, and that takes one document;
devices and links are written through, never replaced."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack.cli.install_sources import open_sources, origin_of
from gpustack.cli.outputs import STANDARD

UBUNTU = ("--os", "ubuntu24.04", "--gpu", "L4")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, where a file called "-" would be seen."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "schema"),
    [
        (("plan", "cuda", *UBUNTU, "--out", "-"), "gpustack/plan/v1"),
        (("plan", "cuda", *UBUNTU, "--lock", "-"), "gpustack/lock/v1"),
        (("explain", "cuda", *UBUNTU, "--out", "-"), "gpustack/plan/v1"),
        (("verify", "cuda", "--format", "json", "--output", "-"), "gpustack/report/v1"),
    ],
)
def test_a_minus_is_standard_output(call: Callable, here: Path, arguments: tuple[str, ...], schema: str) -> None:
    ended = call(*arguments)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["schema"] == schema
    assert list(here.iterdir()) == []


def test_it_is_the_same_document_as_in_a_file(call: Callable, here: Path) -> None:
    shown = call("plan", "cuda", *UBUNTU, "--out", "-").out
    assert call("plan", "cuda", *UBUNTU, "--out", "plan.json").code == 0
    assert (here / "plan.json").read_text() == shown


def test_a_report_without_a_format_is_text_there(call: Callable) -> None:
    ended = call("verify", "cuda", "--output", "-", "--output", "a.json")
    assert ended.out == call("verify", "cuda").out
    assert Path("a.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "cuda", *UBUNTU, "--out", "-", "--lock", "-"), "--out and --lock would both write to"),
        (("plan", "cuda", *UBUNTU, "--out", "-", "--format", "shell"), "--out and --format shell would both write to"),
        (("explain", "cuda", *UBUNTU, "--out", "-", "--format", "text"), "--out and --format text would both write"),
        (("bench", "tensorrt", "--profile", "-", "--format", "json"), "--profile and --format json would both write"),
        (("verify", "cuda", "--output", "-", "--output", "-"), "standard output is set for more than one report"),
        (
            ("verify", "cuda", "--output", "-", "--format", "tap", "--format", "json"),
            "standard output is set for more than one report",
        ),
        (("verify", "cuda", "--output", "a.xml", "--output", "a.xml"), "a.xml is set for more than one report"),
    ],
)
def test_two_documents_in_one_place_are_refused(call: Callable, arguments: tuple[str, ...], message: str) -> None:
    ended = call(*arguments)
    assert ended.is_told(2), ended
    assert message in ended.err


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("detect", "--record", "-"), "--record"),
        (("render", "plan.json", "--format", "ansible", "--out", "-"), "--out"),
        (("fetch", "plan.json", "--to", "-"), "--to"),
    ],
)
def test_a_folder_is_never_called_minus(call: Callable, here: Path, arguments: tuple[str, ...], option: str) -> None:
    assert call("plan", "cuda", *UBUNTU, "--out", "plan.json").code == 0
    ended = call(*arguments)
    assert ended.is_told(2), ended
    assert ended.err == (
        f"error[invalid-value]: {option}: - means standard output, but a folder is required\n"
        f"hint: a folder of that name is {option} ./-\n"
    )
    assert [path.name for path in here.iterdir()] == ["plan.json"]


def test_a_file_called_minus_can_still_be_named(call: Callable, here: Path) -> None:
    assert call("plan", "cuda", *UBUNTU, "--out", f"{here}/-").code == 0
    assert json.loads((here / "-").read_text())["schema"] == "gpustack/plan/v1"


def test_a_run_that_goes_on_later_remembers_standard_output_as_such() -> None:
    assert open_sources([], origin_of(bundle=None, fingerprint=None, mirrors=[], lock=Path("-"))).target == STANDARD


def test_every_option_that_takes_an_output_file_says_so(call: Callable) -> None:
    for command, option in (
        ("plan", "--out"), ("plan", "--lock"), ("explain", "--out"), ("install", "--lock"), ("verify", "--output"),
        ("bench", "--profile"),
    ):  # fmt: skip
        words = " ".join(call(command, "--help").out.split())
        _, _, after = words.partition(f" {option} ")
        assert "- is standard output." in after[:160], (command, option)


def test_a_device_is_written_to_and_stays_one(call: Callable) -> None:
    device = Path("/dev/null").stat()
    assert call("plan", "cuda", *UBUNTU, "--out", "/dev/null").code == 0
    assert call("verify", "cuda", "--output", "/dev/null").code == 0
    after = Path("/dev/null").stat()
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_ino, after.st_rdev) == (device.st_ino, device.st_rdev)


def test_the_link_to_standard_output_stays_one(environment: dict[str, str]) -> None:
    link = Path("/dev/stdout").readlink()
    command = [sys.executable, "-m", "gpustack", "plan", "cuda", *UBUNTU, "--lock", "/dev/stdout"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert '"schema": "gpustack/lock/v1"' in done.stdout
    assert Path("/dev/stdout").readlink() == link


def test_the_file_behind_a_link_is_written(call: Callable, here: Path) -> None:
    (here / "link.json").symlink_to("real.json")
    (here / "real.json").write_text("old")
    assert call("plan", "cuda", *UBUNTU, "--out", "link.json").code == 0
    assert (here / "link.json").is_symlink()
    assert json.loads((here / "real.json").read_text())["schema"] == "gpustack/plan/v1"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("folder", "Is a directory"),
        ("nowhere/report.json", "No such file or directory"),
        ("file/x.json", "Not a directory"),
    ],
)
def test_a_report_that_cannot_be_written_does_not_keep_back_the_others(
    call: Callable, here: Path, place: str, why: str
) -> None:
    (here / "folder").mkdir()
    (here / "file").write_text("mine")
    ended = call("verify", "cuda", "--output", "a.json", "--output", place, "--format", "json", "--format", "json",
                 "--format", "text")  # fmt: skip
    assert ended.code == 2
    assert ended.err == f"error[not-writable]: {place}: cannot be written: {why}\nhint: choose another --output\n"
    assert ended.out.startswith("skip   cuda.toolkit") or "cuda.toolkit" in ended.out
    assert json.loads((here / "a.json").read_text())["schema"] == "gpustack/report/v1"
    assert sorted(path.name for path in here.iterdir()) == ["a.json", "file", "folder"]


def test_a_full_disk_leaves_the_report_that_was_there(here: Path, environment: dict[str, str]) -> None:
    """A file system of 32 KiB in a name space of the program's own: what is too large for it is told, no part is left."""
    (here / "full").mkdir()
    script = (
        "mount -t tmpfs -o size=32k none full && echo old > full/report.json && head -c 24000 /dev/zero > full/ballast;"
        ' "$@"; code=$?; cat full/report.json >&2; ls -A full >&2; exit $code'
    )
    program = [sys.executable, "-m", "gpustack", "verify", "--format", "json", "--output", "full/report.json"]
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *program, "--output", "tap.tap"]
    done = subprocess.run(command, env=environment, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error[not-writable]: full/report.json: cannot be written: No space left on device",
        "hint: choose another --output",
        "old",
        "ballast",
        "report.json",
    ]
    assert (here / "tap.tap").read_text().startswith("TAP version 14\n")
