"""Full check of the pixel formats beyond 8 bits and 4:2:0 that NVENC takes, by the classes of encoders."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.results import Measurement
from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.setup import chip_under_test, failure, gpu_environment
from gpustack.verify.ffmpeg.smoke import ready
from gpustack.verify.frame.commands import evidence_of

_FRAMES = 15
_SOURCE = f"testsrc2=size=640x360:rate=30:duration={_FRAMES / 30:g}"


class Form(Struct, frozen=True, kw_only=True):
    """A pixel format given to an encoder, the format that the stream must have, and what the encoder must support."""

    codec: str
    given: str
    made: str
    ability: tuple[str, ...]


FORMS = (
    Form(codec="h264", given="yuv444p", made="yuv444p", ability=("h264_444",)),
    Form(codec="hevc", given="p010le", made="yuv420p10le", ability=("hevc_10bit",)),
    Form(codec="hevc", given="yuv444p16le", made="yuv444p10le", ability=("hevc_444", "hevc_10bit")),
)


@check(
    "ffmpeg.pixel-formats",
    level="full",
    title="10 bits and 4:4:4",
    expects="NVENC encodes every pixel format that NVIDIA's matrix lists for this GPU, and the stream has that format.",
    fix="See FFmpeg's log under 'evidence' in the JSON or HTML report.",
    needs=("ffmpeg.nvenc",),
    limit_s=180,
)
def pixel_formats(context: Context) -> Outcome:
    start = ready(context)
    if isinstance(start, Outcome):
        return start
    program, runner = start
    chip = chip_under_test(context)
    if chip.abilities is None:
        return skipped(f"it is unknown which pixel formats {chip.name} encodes")
    forms = [one for one in FORMS if set(one.ability) <= chip.abilities and f"{one.codec}_nvenc" in program.encoders]
    if not forms:
        return skipped(f"{chip.name} encodes 8 bits and 4:2:0 only, or FFmpeg lacks its encoders")
    measured: dict[str, Measurement] = {}
    for one in forms:
        doing = f"{one.codec} from {one.given}"
        path = context.folder / f"{one.codec}-{one.given}.mkv"
        words = (program.path, "-hide_banner", "-y", "-f", "lavfi", "-i", _SOURCE, "-pix_fmt", one.given)
        end = runner.run(
            (*words, "-c:v", f"{one.codec}_nvenc", str(path)), timeout=60, env=gpu_environment(context.host)
        )
        if end.code != 0:
            return failure(context, program, end, doing)
        found = media.inspect(program.path, path, runner)
        raw = context.folder / "back.yuv"
        media.decode(program, path, raw, runner)
        frames = media.count_frames(raw, (640, 360))
        if (found.codec, found.pixels, frames) != (one.codec, one.made, _FRAMES):
            return failed(
                f"{doing}: the stream is {found.codec or 'missing'} {found.pixels} of {frames:g} frames instead of"
                f" {one.codec} {one.made} of {_FRAMES}",
                evidence=evidence_of(end, work=context.work),
            )
        measured[path.stem] = Measurement(value=round(end.seconds, 3), unit="s")
    return passed("; ".join(f"{one.codec} from {one.given} is {one.made}" for one in forms), measurements=measured)
