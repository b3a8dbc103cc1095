"""The commands of NVIDIA's FFmpeg guide in the spelling that the installed FFmpeg supports, and their outputs."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.verify.ffmpeg.causes import SUBJECT
from gpustack.verify.ffmpeg.lists import About
from gpustack.verify.ffmpeg.programs import Program

SIZE = (1920, 1080)
"""The size of input.mp4 and similar files; the guide's own commands assume 1080p."""

_MODERN = ("-fps_mode", "passthrough")
_SAME = {"output.mp4": SIZE}
_HALVED = {
    "output11.mp4": (640, 480),
    "output12.mp4": (320, 240),
    "output21.mp4": (1280, 720),
    "output22.mp4": (640, 480),
}
_MADE: dict[str, dict[str, tuple[int, int]]] = {
    "resize": {"output.mp4": (1280, 720)},
    # top x bottom x left x right: 16x16x32x32
    "crop": {"output.mp4": (SIZE[0] - 64, SIZE[1] - 32)},
    "scale_cuda": {"output.mp4": (1280, 720)},
    "scale_npp": {"output.mp4": (1280, 720)},
    "one_to_n": {"output1.mp4": (1920, 1080), "output2.mp4": (1280, 720)},
    "yuv_1toN": {f"output{number}.mp4": (1920, 1080) for number in range(1, 5)},
    "multi_1toN": _HALVED,
    "swdec_1toN": _HALVED,
    "encode": {"output.mp4": (1280, 720)},
    "decode_cuvid": {"output.yuv": SIZE},
    "multi_decode": {f"output{number}.yuv": SIZE for number in range(1, 4)},
}
_ADDED = (
    ("lookahead", "look ahead 20 frames", ("-rc-lookahead", "20")),
    ("spatial_aq", "spatial adaptive quantization", ("-spatial-aq", "1", "-aq-strength", "8")),
    ("temporal_aq", "temporal adaptive quantization", ("-temporal-aq", "1")),
)
"""Options that the guide recommends to add to a command, in a spelling that every release supports."""


class Row(Struct, frozen=True, kw_only=True):
    """A command of the guide: with its misprints corrected, and in today's spelling."""

    key: str
    order: int
    purpose: str
    command: str
    modern: str


class GuideCommand(Struct, frozen=True, kw_only=True):
    """One command ready to run: ``arguments`` without the program, ``makes`` the files and the size of their frames.

    ``uses`` are the encoders, decoders and filters that have to be compiled in; ``keeps_sound`` says that the input's
    audio is copied; ``note`` says what differs from the guide because of this build.
    """

    key: str
    purpose: str
    arguments: tuple[str, ...]
    makes: dict[str, tuple[int, int]]
    uses: tuple[str, ...] = ()
    keeps_sound: bool = False
    note: str = ""

    @property
    def takes(self) -> tuple[str, ...]:
        """The input files, in order."""
        found = [value for option, value in pairwise(self.arguments) if option == "-i"]
        return tuple(dict.fromkeys(found))


def guide_commands(matrix: Matrix, program: Program) -> tuple[GuideCommand, ...]:
    """Every command of the guide as ``program`` supports it, in the guide's order."""
    rows = sorted(matrix.rows(SUBJECT, "guide_commands", Row), key=lambda row: row.order)
    made = [_command(row, program) for row in rows]
    base = next((one for one in made if one.key == "transcode_1to1"), None)
    if base is not None:
        for key, purpose, options in _ADDED:
            words = (*base.arguments[:-1], *options, base.arguments[-1])
            made.append(
                GuideCommand(
                    key=key, purpose=purpose, arguments=words, makes=base.makes, uses=base.uses, keeps_sound=True
                )
            )
    return tuple(made)


def _command(row: Row, program: Program) -> GuideCommand:
    has_npp = "scale_npp" in program.filters
    words = adapt_to_release(row, program.about, has_npp=has_npp)
    return GuideCommand(
        key=row.key,
        purpose=row.purpose,
        arguments=words,
        makes=_MADE.get(row.key, _SAME),
        uses=_uses(words),
        keeps_sound="-c:a" in words,
        note="scale_cuda instead of scale_npp, which is not compiled in" if _takes_npp(row) and not has_npp else "",
    )


def _takes_npp(row: Row) -> bool:
    return "scale_npp" in row.command


def adapt_to_release(row: Row, about: About, *, has_npp: bool) -> tuple[str, ...]:
    """The arguments of a guide's command as this FFmpeg supports them.

    Releases before 5.1 know only the global -vsync, those before 4.4 only the old presets; scale_npp stays where it
    was compiled in, and scale_cuda takes its place elsewhere. The cuvid decoder is named where -resize and -crop need
    it: without it FFmpeg ignores both and says nothing.
    """
    words = shlex.split(row.modern)[1:]
    if has_npp and _takes_npp(row):
        words = [word.replace("scale_cuda", "scale_npp") for word in words]
    if about.is_before(4, 4):
        words = _old_presets(words, shlex.split(row.command)[1:])
    if about.is_before(5, 1):
        words = _global_vsync(words)
    return tuple(words)


def _global_vsync(words: list[str]) -> list[str]:
    plain: list[str] = []
    found = False
    skip = False
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if skip:
            skip = False
        elif (word, after) == _MODERN:
            found = skip = True
        else:
            plain.append(word)
    return [plain[0], "-vsync", "0", *plain[1:]] if found else plain


def _old_presets(words: list[str], printed: list[str]) -> list[str]:
    if "-preset" not in words:
        return words
    old = printed[printed.index("-preset") + 1]
    kept: list[str] = []
    pairs = iter(words)
    for word in pairs:
        if word in {"-tune", "-multipass"}:
            next(pairs, None)
        elif word == "-preset":
            next(pairs, None)
            kept += ["-preset", old]
        else:
            kept.append(word)
    return kept


def _uses(words: tuple[str, ...]) -> tuple[str, ...]:
    """Encoders, decoders and filters named in a command, by what follows -c:v and stands in filters."""
    named = [after for word, after in pairwise(words) if word == "-c:v"]
    graphs = [after for word, after in pairwise(words) if word in {"-vf", "-filter_complex"}]
    found = [match for graph in graphs for match in re.findall(r"(?:^|[\],;])(hw\w+|scale_\w+)", graph)]
    return tuple(dict.fromkeys((*named, *found)))


def missing_parts(command: GuideCommand, program: Program) -> tuple[str, ...]:
    """What ``command`` uses that ``program`` was not compiled with."""
    there = program.encoders | program.decoders | program.filters
    return tuple(name for name in command.uses if name not in there)


def insert_before_inputs(words: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """``words`` with the options ``before`` put in front of every input."""
    return tuple(part for word in words for part in ((*before, word) if word == "-i" else (word,)))
