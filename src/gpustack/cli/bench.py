"""``gpustack bench``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.options import TextOrJson
from gpustack.cli.outputs import demand_one, save

if TYPE_CHECKING:
    from gpustack.verify.declare import Context

_SUBJECTS = ("ffmpeg", "tensorrt", "gpu")


@command("bench", example="gpustack bench ffmpeg --sessions 1,2,4 --seconds 30")
def bench(
    subject: Annotated[str, Argument(metavar="ffmpeg|tensorrt|gpu", help="What to measure.")],
    sessions: Annotated[
        str, Option("--sessions", metavar="N,N", help="ffmpeg: numbers of simultaneous transcodes.")
    ] = "1,4",
    seconds: Annotated[float, Option("--seconds", metavar="S", min=2, help="ffmpeg: length of each clip.")] = 20.0,
    size: Annotated[str, Option("--size", metavar="WxH", help="ffmpeg: size of the clip.")] = "640x360",
    batch: Annotated[str, Option("--batch", metavar="N,N", help="tensorrt: batch sizes.")] = "1,8,32,64,128",
    streams: Annotated[
        str, Option("--streams", metavar="N,N", help="tensorrt: numbers of simultaneous streams.")
    ] = "1,4",
    iterations: Annotated[int, Option("--iterations", metavar="N", min=10, help="tensorrt: timed runs.")] = 500,
    precision: Annotated[
        str, Option("--precision", metavar="P,P", help="tensorrt: fp32, fp16, bf16 (default: all supported).")
    ] = "",
    profile: Annotated[
        Path | None,
        Option(
            "--profile", metavar="FILE", help="tensorrt: write the time of each layer to FILE; - is standard output."
        ),
    ] = None,
    ffmpeg: Annotated[
        Path | None, Option("--ffmpeg", metavar="FILE", help="The FFmpeg to measure, if several are installed.")
    ] = None,
    format: Annotated[TextOrJson | None, Option("--format", help="text (default) or json.")] = None,
) -> int:
    """Measure FFmpeg's engines, TensorRT or the GPU itself, without a verdict."""
    from gpustack.verify.frame.bench_table import as_text

    _demand_subject(subject)
    named = {"sessions": sessions, "batch": batch, "streams": streams}
    counts = {name: _numbers(f"--{name}", text) for name, text in named.items()}
    pixels = _size(size)
    is_shown = demand_one({"--profile": profile}, format and format.value)
    context = _context({"ffmpeg": str(ffmpeg)} if ffmpeg else {})
    if subject == "ffmpeg":
        from gpustack.verify.ffmpeg import bench as measure

        found = measure.bench(context, counts["sessions"], seconds, pixels)
    elif subject == "tensorrt":
        from gpustack.cli.check_progress import note
        from gpustack.verify.tensorrt import bench as tensorrt

        keep = None if profile is None else partial(save, path=profile, option="--profile")
        chosen = tensorrt.Settings(
            batches=counts["batch"],
            streams=counts["streams"],
            precisions=tensorrt.parse_precisions(precision),
            iterations=iterations,
            profile=keep,
            note=note(),
        )
        found = tensorrt.bench(context, chosen)
    else:
        from gpustack.verify.cuda import bench as gpu

        found = gpu.bench(context)
    if is_shown:
        frame.page(frame.to_json(found) if format is TextOrJson.JSON else as_text(found))
    return 0


def _demand_subject(subject: str) -> None:
    from gpustack.errors import UsageError

    if subject not in _SUBJECTS:
        message = f"unknown subject {subject!r}"
        raise UsageError(message, code="unknown-benchmark", where="bench", hint=f"known: {', '.join(_SUBJECTS)}")


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
