"""`bench` that a signal ends: what was finished by then is printed, and what was running is ended.

The signals are real. Instead of a GPU, a runner answers for the programs that would use one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.media.conftest import L4, host_with
from tests.media.test_bench_network import fixed, quick
from tests.media.test_tensorrt_eras import settings, stands_in

from gpustack.cli.bench import measure_and_show
from gpustack.cli.options import TextOrJson
from gpustack.matrix.index import Matrix
from gpustack.system.run import Finished, LocalRunner
from gpustack.system.signals import ENDING, end_in_order
from gpustack.verify.cuda import bench as gpu
from gpustack.verify.cuda.toolchain import HostCompiler, Toolkit
from gpustack.verify.declare import Context
from gpustack.verify.ffmpeg.bench import Wanted
from gpustack.verify.ffmpeg.bench import bench as bench_ffmpeg
from gpustack.verify.frame.bench_table import Bench, Interrupted
from gpustack.verify.tensorrt import bench as digits
from gpustack.verify.tensorrt.network_bench import bench_network

__all__ = ["stands_in"]
KIT = Toolkit(nvcc="nvcc", release="13.0", version="13.0.88", root=Path("/usr/local/cuda"))
NOTE = "interrupted: what was not finished by then is missing"


@pytest.fixture
def ends_in_order() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    end_in_order()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Interrupting:
    """Runs commands, or answers for them; the signal comes while the one runs of which ``is_last`` is true."""

    def __init__(
        self,
        is_last: Callable[[tuple[str, ...]], bool],
        number: int,
        answer: Callable[[tuple[str, ...]], Finished | None] = lambda _: None,
    ) -> None:
        self._is_last, self._number, self._answer = is_last, number, answer

    def run(self, argv: tuple[str, ...], **how: Any) -> Finished:
        if self._is_last(argv):
            os.kill(os.getpid(), self._number)
            return LocalRunner().run(("sleep", "600"), timeout=600)
        return self._answer(argv) or LocalRunner().run(argv, **how)


def interrupted(context: Context, measure: Callable[[Context], Bench], form: TextOrJson, **how: Any) -> Interrupted:
    with pytest.raises(Interrupted) as raised:
        measure_and_show(lambda: measure(context), form, **how)
    return raised.value


def asks(argv: tuple[str, ...], **wanted: Any) -> bool:
    """Whether the command is TensorRT's child, with a request that has these values."""
    if not argv[-1].endswith(".json") or not Path(argv[-1]).is_file():
        return False
    request = json.loads(Path(argv[-1]).read_text())
    return all(request.get(key) == value for key, value in wanted.items())


@pytest.mark.usefixtures("ends_in_order")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_users_network(
    matrix: Matrix,
    stands_in: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
) -> None:
    for name, value in settings(stands_in, "8.6.0").items():
        monkeypatch.setenv(name, value)
    runner = Interrupting(lambda argv: asks(argv, do="build", precision="fp16"), number)
    context = Context(host=host_with(L4), matrix=matrix, runner=runner, given={"python": sys.executable})
    asked = quick(onnx=fixed(tmp_path), streams=(1, 2), precisions=("fp32", "fp16"), with_layers=True)
    profile = tmp_path / "layers.json"
    stop = interrupted(context, lambda one: bench_network(one, asked), TextOrJson.JSON, profile=profile)
    printed = json.loads(capsys.readouterr().out)
    assert [(row["precision"], row["streams"]) for row in printed["rows"]] == [("fp32", 1), ("fp32", 2)]
    assert (printed["notes"], stop.number, str(stop)) == (
        [NOTE],
        number,
        f"interrupted by {signal.Signals(number).name}",
    )
    assert json.loads(profile.read_text()) == printed["layers"] != []


@pytest.mark.usefixtures("ends_in_order")
def test_the_network_of_digits(
    matrix: Matrix, stands_in: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in settings(stands_in, "8.6.0").items():
        monkeypatch.setenv(name, value)
    runner = Interrupting(lambda argv: asks(argv, do="run", batch=8), signal.SIGINT)
    context = Context(host=host_with(L4), matrix=matrix, runner=runner, given={"python": sys.executable})
    asked = digits.Settings(batches=(1, 8), precisions=("fp32",), iterations=10)
    interrupted(context, lambda one: digits.bench(one, asked), TextOrJson.TEXT)
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == f"note: {NOTE}"
    assert "1      1        fp32" in shown


@pytest.mark.usefixtures("ends_in_order")
def test_nothing_finished_is_nothing_printed(
    matrix: Matrix, stands_in: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in settings(stands_in, "8.6.0").items():
        monkeypatch.setenv(name, value)
    runner = Interrupting(lambda argv: asks(argv, do="build"), signal.SIGINT)
    context = Context(host=host_with(L4), matrix=matrix, runner=runner, given={"python": sys.executable})
    with pytest.raises(KeyboardInterrupt) as raised:
        measure_and_show(lambda: digits.bench(context, digits.Settings()), TextOrJson.TEXT)
    assert (type(raised.value) is Interrupted, capsys.readouterr().out) == (False, "")


@pytest.mark.usefixtures("ends_in_order")
def test_sessions_of_ffmpeg(matrix: Matrix, ffmpegs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """All sessions that run at once are ended: each would take 10 minutes."""

    def sessions(argv: tuple[str, ...]) -> Finished | None:
        return Finished(argv=argv, code=0, seconds=0.5) if "-nostdin" in argv else None

    runner = Interrupting(lambda argv: "-nostdin" in argv and "hevc_nvenc" in argv, signal.SIGTERM, sessions)
    context = Context(host=host_with(L4), matrix=matrix, runner=runner, given={"ffmpeg": ffmpegs["9"]})
    stop = interrupted(context, lambda one: bench_ffmpeg(one, Wanted(sessions=(2,), seconds=1)), TextOrJson.JSON)
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["work"] for row in rows] == ["decode h264", "encode h264", "transcode h264 to h264"]
    assert stop.number == signal.SIGTERM


@pytest.mark.usefixtures("ends_in_order")
def test_gpus(matrix: Matrix, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(argv: tuple[str, ...]) -> Finished:
        lines = {"-1": '{"count": 2}\n', "0": '{"name": "L4"}\n{"name": "copy", "value": 12.5, "unit": "GB/s"}\n'}
        return Finished(argv=argv, code=0, out=lines.get(argv[-1], ""))

    runner = Interrupting(lambda argv: argv[-1] == "1", signal.SIGINT, answer)
    context = Context(host=host_with(L4, L4), matrix=matrix, runner=runner)
    context.shared.once("toolkit", lambda: KIT)
    context.shared.once("host-compiler", lambda: HostCompiler(path="g++", version="13.3.0"))
    interrupted(context, gpu.bench, TextOrJson.TEXT)
    shown = capsys.readouterr().out
    assert "12.5" in shown
    assert NOTE in shown
