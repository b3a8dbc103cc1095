"""Spoilt inputs through the command line: an answer or an explained refusal, in the command's own exit codes."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from types import FrameType

import pytest
from tests.fuzz.folders import KINDS, bundle_of
from tests.fuzz.inputs import Maker, Words
from tests.install.bundles import Forge
from tests.integration.keys import make_signing_keys
from tests.property.test_hidden_characters import unseen

from gpustack import resources
from gpustack.cli import main

CODES = {
    "detect": {0},
    "check": {0, 2, 3, 4, 7},
    "plan": {0, 2, 3, 4, 6},
    "explain": {0, 2, 3, 4, 6},
    "render": {0, 2, 4},
    "install": {0, 1, 2, 3, 4, 5},
    "status": {0, 2, 6},
    "triton": {0, 1, 2},
    "matrix": {0, 1, 2},
}
"""The exit codes that a user of the command knows: what each can come to on inputs that are not good."""

LONGEST = 120
"""Seconds after which an input is one that a command hangs on; ordinary ones take a thousandth of that."""

IN_GATE, IN_ALL = 200, 10_000
BUNDLE = "bundle manifest"


class HungError(BaseException):
    """A command is incomplete. No `Exception`, so that no command answers it."""


@contextmanager
def watchdog() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def in_process(words: Words) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with watchdog(), redirect_stdout(out), redirect_stderr(err):
        code = main(list(words))
    return code, out.getvalue(), err.getvalue()


def as_program(words: Words) -> tuple[int, str, str]:
    """What really installs has mounts and signals of its own, so it has to be a process of its own."""
    command = [sys.executable, "-m", "gpustack", *words]
    environment = {**os.environ, "PYTHONPATH": str(resources.folder("matrices").parent / "src")}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LONGEST
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def faults(words: Words) -> tuple[int | None, list[str]]:
    """The exit code of a command line, and what is wrong with how it ended."""
    try:
        code, out, err = (as_program if "--yes" in words else in_process)(words)
    except (HungError, subprocess.TimeoutExpired):
        return None, ["does not end"]
    except BaseException:  # noqa: BLE001 (whatever comes out of a command is told)
        return None, [traceback.format_exc()]
    told = out + err
    found = []
    if "internal-fault" in err or "Traceback" in told:
        found.append(err[-2000:])
    if code not in CODES[words[0]]:
        found.append(f"exit code {code}: {err[:500]}")
    if unseen(told):
        found.append(f"characters that cannot be seen: {sorted(map(ascii, unseen(told)))}")
    if code in {1, 2} and not err and words[0] != "triton":
        found.append("a refusal without a word")
    return code, found


def snapshot(tree: Path) -> dict[str, tuple[int, bytes]]:
    """What a person has in a tree: mode and content by name. gpustack's own records are its own."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(tree)):
        if folder == os.fsencode(tree):
            folders[:] = [name for name in folders if name != b"var"]
        for name in (*folders, *files):
            path = folder + b"/" + name
            kind = os.lstat(path).st_mode
            content = Path(os.fsdecode(path)).read_bytes() if stat.S_ISREG(kind) else b""
            found[os.fsdecode(path)] = (kind, content)
    return found


def attempt(make: Maker, kind: str, seed: int, folder: Path, table: Counter[tuple[str, int | None]]) -> list[str]:
    """Make one input and run its command lines: all that is wrong."""
    folder.mkdir()
    wrong = []
    try:
        lines = make(Random(f"{kind} {seed}"), folder)  # noqa: S311 (an input, no secret)
        before = snapshot(folder / "tree")
        for words in lines:
            code, found = faults(words)
            table[kind, code] += words is lines[0]
            wrong += [f"{kind}, seed {seed}: gpustack {' '.join(words)}: {text}" for text in found]
        if code == 0 and "--rollback" in lines[-1] and snapshot(folder / "tree") != before:
            wrong.append(f"{kind}, seed {seed}: a rollback that ended with 0 left {folder} changed")
        if lines[-1][-1] == "--dry-run" and snapshot(folder / "tree") != before:
            wrong.append(f"{kind}, seed {seed}: a dry run changed {folder}")
    finally:
        shutil.rmtree(os.fsencode(folder))
    return wrong


@pytest.fixture(scope="module")
def makers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Maker]]:
    """Those of all kinds; the bundle is signed by a key made for this."""
    keys = make_signing_keys(tmp_path_factory.mktemp("keys") / "gnupg")
    forge = Forge(tmp_path_factory.mktemp("bundle"), keys, keys.current)
    forge.make()
    yield {**KINDS, BUNDLE: bundle_of(forge)}
    keys.stop()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No home, no cache of anybody's, no network, and the mask of modes as it was."""
    for name in [name for name in os.environ if name.startswith(("GPUSTACK", "XDG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GPUSTACK_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


def tried(kind: str, makers: dict[str, Maker], tmp_path: Path, count: int) -> list[str]:
    """All that is wrong with so many inputs of a kind; prints how they were answered."""
    table: Counter[tuple[str, int | None]] = Counter()
    mask = os.umask(0o022)
    try:
        wrong = [
            text for seed in range(count) for text in attempt(makers[kind], kind, seed, tmp_path / str(seed), table)
        ]
    finally:
        os.umask(mask)
    codes = ", ".join(f"{code}: {number}" for (_, code), number in sorted(table.items(), key=str))
    print(f"{kind}: {count} inputs; exit codes {codes}; {len(wrong)} faults")  # noqa: T201 (with -rP)
    return wrong


@pytest.mark.gate
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", [*KINDS, BUNDLE])
def test_a_spoilt_input_is_used_or_refused(kind: str, makers: dict[str, Maker], tmp_path: Path) -> None:
    wrong = tried(kind, makers, tmp_path, IN_GATE // (len(KINDS) + 1) + 1)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", [*KINDS, BUNDLE])
def test_ten_thousand_spoilt_inputs_are_used_or_refused(kind: str, makers: dict[str, Maker], tmp_path: Path) -> None:
    wrong = tried(kind, makers, tmp_path, IN_ALL // (len(KINDS) + 1))
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(("name", "shown"), [("x" * 5_000, "x" * 1_000), ("a\0b", "a\\x00b"), ("n/" * 2_500, "n/n/n/")])
def test_a_model_may_name_files_that_cannot_be(
    name: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "digits/1").mkdir(parents=True)
    for place in (tmp_path, tmp_path / "digits"):
        (place / "link").symlink_to(f"/opt/{'n' * 300}")
    for field in (
        f'output [ {{ name: "y" label_filename: "{name}" }} ]',
        f'default_model_filename: "{name}"',
        f'cc_model_filenames [ {{ key: "8.9" value: "{name}" }} ]',
    ):
        (tmp_path / "digits/config.pbtxt").write_text(f'platform: "tensorrt_plan"\n{field}\n')
        assert main(["triton", "model-store", str(tmp_path)]) == 1
        assert shown in capsys.readouterr().out


def test_a_model_whose_name_is_no_text_is_named_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/digits\xff")  # noqa: PTH102 (bytes)
    assert main(["triton", "model-store", str(tmp_path), "--format", "json"]) == 1
    assert list(json.loads(capsys.readouterr().out)["models"]) == ["digits\\xff"]
