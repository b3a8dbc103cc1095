"""``gpustack bench``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.cli import bench_options as of
from gpustack.cli import frame
from gpustack.cli.declare import command
from gpustack.cli.options import TextOrJson
from gpustack.cli.outputs import demand_one, save

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpustack.verify.declare import Context
    from gpustack.verify.frame.bench_table import Bench, Cell
    from gpustack.verify.tensorrt.network import Asked

_SUBJECTS = ("ffmpeg", "tensorrt", "gpu")


@command("bench", example="gpustack bench ffmpeg --sessions 1,2,4 --seconds 30")
def bench(
    subject: of.Subject,
    sessions: of.Sessions = "1,4",
    seconds: of.Seconds = 20.0,
    size: of.Size = "640x360",
    outputs: of.Outputs = "1",
    all_gpus: of.AllGpus = False,
    onnx: of.Onnx = None,
    engine: of.Engine = None,
    shapes: of.Shapes = None,
    batch: of.Batch = None,
    streams: of.Streams = "1,4",
    iterations: of.Iterations = None,
    duration: of.Duration = 3,
    warm_up: of.WarmUp = 200,
    precision: of.Precision = "",
    calibration: of.Calibration = None,
    cuda_graph: of.CudaGraph = False,
    latency_limit: of.LatencyLimit = None,
    layers: of.Layers = False,
    compare: of.Compare = None,
    profile: of.Profile = None,
    ffmpeg: of.Ffmpeg = None,
    format: of.Format = None,
) -> int:
    """Measure FFmpeg's engines, TensorRT or the GPU itself, without a verdict."""
    _demand_subject(subject)
    named = {"sessions": sessions, "outputs": outputs, "batch": batch, "streams": streams}
    counts = {name: _numbers(f"--{name}", text) for name, text in named.items() if text is not None}
    own = {"--shapes": shapes, "--cuda-graph": cuda_graph, "--layers": layers, "--latency-limit": latency_limit}
    _demand_network(subject, onnx, engine, own, {"--precision": precision, "--calibration": calibration})
    old = _old(compare, subject)
    pixels = _size(size)
    is_shown = demand_one({"--profile": profile}, format and format.value)
    context = _context({"ffmpeg": str(ffmpeg)} if ffmpeg else {})
    measure: Callable[[], Bench]
    if subject == "ffmpeg":
        measure = partial(_measure_ffmpeg, context, counts, seconds, pixels, all_gpus=all_gpus)
    elif onnx is not None or engine is not None:
        from gpustack.verify.tensorrt import network

        asked = network.Asked(
            onnx=onnx, engine=engine, shapes=network.parse_shapes(shapes or ()), batches=counts.get("batch", ()),
            streams=counts["streams"], precisions=network.parse_precisions(precision), calibration=calibration,
            with_graphs=cuda_graph, with_layers=layers or profile is not None, limit_ms=latency_limit,
            warm_up_ms=warm_up, seconds=duration, iterations=iterations or 10,
        )  # fmt: skip
        measure = partial(_measure_network, context, asked)
    elif subject == "tensorrt":
        measure = partial(_measure_digits, context, counts, precision, iterations or 500, profile)
    else:
        from gpustack.verify.cuda import bench as gpu

        measure = partial(gpu.bench, context)
    shown = (format or TextOrJson.TEXT) if is_shown else None
    return measure_and_show(measure, shown, profile=profile if onnx or engine else None, old=old)


def measure_and_show(
    measure: "Callable[[], Bench]", form: TextOrJson | None, *, profile: Path | None = None, old: "Bench | None" = None
) -> int:
    """Measure, save the times of layers in ``profile``, compare with ``old``, and print the document if it has a form.

    Raises Interrupted, after all that, where only a part could be measured.
    """
    from gpustack.verify.frame.bench_table import Interrupted, as_text

    stop = None
    try:
        found = measure()
    except Interrupted as exc:
        # Rows that took minutes are useful; the exit code and a note show that others are missing.
        found, stop = exc.bench, exc
    if profile is not None:
        save(_indented(found.layers), profile, "--profile")
    found = found if old is None else _compare(old, found)
    if form is not None:
        frame.page(frame.to_json(found) if form is TextOrJson.JSON else as_text(found))
    if stop is not None:
        raise stop
    return 0


def _measure_ffmpeg(
    context: "Context", counts: dict[str, tuple[int, ...]], seconds: float, size: tuple[int, int], *, all_gpus: bool
) -> "Bench":
    from gpustack.verify.ffmpeg import bench as ffmpeg

    sessions, outputs = counts["sessions"], counts["outputs"]
    wanted = ffmpeg.Wanted(sessions=sessions, seconds=seconds, size=size, outputs=outputs, all_gpus=all_gpus)
    return ffmpeg.bench(context, wanted)


def _measure_network(context: "Context", asked: "Asked") -> "Bench":
    from gpustack.cli.check_progress import note
    from gpustack.verify.tensorrt.network_bench import bench_network

    return bench_network(context, asked, note())


def _indented(layers: "Sequence[Mapping[str, Cell]]") -> str:
    import json

    return json.dumps(layers, indent=1) + "\n"


def _measure_digits(
    context: "Context", counts: dict[str, tuple[int, ...]], precision: str, iterations: int, profile: Path | None
) -> "Bench":
    from gpustack.cli.check_progress import note
    from gpustack.verify.tensorrt import bench as tensorrt

    chosen = tensorrt.Settings(
        batches=counts.get("batch", tensorrt.BATCHES),
        streams=counts["streams"],
        precisions=tensorrt.parse_precisions(precision),
        iterations=iterations,
        profile=None if profile is None else partial(save, path=profile, option="--profile"),
        note=note(),
    )
    return tensorrt.bench(context, chosen)


def _demand_subject(subject: str) -> None:
    from gpustack.errors import UsageError

    if subject not in _SUBJECTS:
        message = f"unknown subject {subject!r}"
        raise UsageError(message, code="unknown-benchmark", where="bench", hint=f"known: {', '.join(_SUBJECTS)}")


def _demand_network(
    subject: str,
    onnx: Path | None,
    engine: Path | None,
    own: "Mapping[str, object]",
    of_builder: "Mapping[str, object]",
) -> None:
    """Raise UsageError for options of the user's own network that have none, or that an engine file excludes."""
    from gpustack.errors import UsageError

    given = {"--onnx": onnx, "--engine": engine}
    there = [name for name, value in given.items() if value is not None]
    lonely = [name for name, value in {**own, "--calibration": of_builder["--calibration"]}.items() if value]
    wrong = ""
    if len(there) == 2:
        wrong = "--onnx and --engine are both given: which one is to be measured?"
    elif there and subject != "tensorrt":
        wrong = f"{there[0]} is for `bench tensorrt`, not for `bench {subject}`"
    elif not there and lonely:
        wrong = f"{lonely[0]} requires --onnx or --engine"
    elif engine is not None and any(of_builder.values()):
        name = next(name for name, value in of_builder.items() if value)
        wrong = f"--engine is built already, so {name} cannot change it"
    if wrong:
        raise UsageError(wrong, code="conflicting-options", hint="see `gpustack bench --help`")


def _old(path: Path | None, subject: str) -> "Bench | None":
    """The document to compare with, read before anything is measured."""
    if path is None:
        return None
    from gpustack.verify.frame.bench_compare import read_bench

    if subject != "tensorrt":
        from gpustack.errors import UsageError

        message = f"--compare is for `bench tensorrt`, not for `bench {subject}`"
        raise UsageError(message, code="conflicting-options", hint="see `gpustack bench --help`")
    return read_bench(path, subject)


def _compare(old: "Bench", found: "Bench") -> "Bench":
    from gpustack.verify.frame.bench_compare import compare

    return compare(old, found)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    from gpustack.errors import UsageError

    parts = [one.strip() for one in text.split(",")]
    if not all(one.isdigit() and 0 < int(one) <= 1024 for one in parts):
        message = f"{text!r} is not a list of numbers from 1 to 1024"
        raise UsageError(message, code="invalid-value", where=option, hint="for example 1,4,8")
    return tuple(dict.fromkeys(int(one) for one in parts))


def _size(text: str) -> tuple[int, int]:
    from gpustack.errors import UsageError

    width, _, height = text.partition("x")
    if not (width.isdigit() and height.isdigit() and all(64 <= int(one) <= 8192 for one in (width, height))):
        message = f"{text!r} is not a size from 64x64 to 8192x8192"
        raise UsageError(message, code="invalid-value", where="--size", hint="for example 1920x1080")
    return int(width), int(height)


def _context(given: dict[str, str]) -> "Context":
    from gpustack.detect.api import detect
    from gpustack.system.run import LocalRunner
    from gpustack.verify.declare import Context

    matrix = frame.matrix()
    return Context(host=detect(None, matrix), matrix=matrix, runner=LocalRunner(), given=given)
