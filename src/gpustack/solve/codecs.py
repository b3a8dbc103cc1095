"""Abilities of video engines, requested by name: nvenc-av1, nvdec-hevc-422, nvenc-sessions==5."""

import re
from typing import Any

from msgspec import Struct

from gpustack.errors import UsageError
from gpustack.model.host import Gpu
from gpustack.model.resolution import Conflict, Findings, Unknown
from gpustack.solve.engines import names_of, rows_of, versions_of
from gpustack.solve.question import Question
from gpustack.solve.sessions import session_findings
from gpustack.solve.words import ranges_in_words
from gpustack.versions import is_within, version_key

_CODEC = {"h264": "H.264", "hevc": "HEVC", "av1": "AV1", "vp8": "VP8", "vp9": "VP9", "vc1": "VC-1"}
_MORE = {"422": "4:2:2", "444": "4:4:4", "10bit": "10 bit", "12bit": "12 bit", "8k": "8K", "bframes": "B-frames"}

ENCODED = {
    "h264": "h264_420", "h264-10bit": "h264_10bit", "h264-422": "h264_422", "h264-444": "h264_444",
    "h264-lossless": "h264_lossless", "hevc": "hevc_420", "hevc-10bit": "hevc_10bit", "hevc-422": "hevc_422",
    "hevc-444": "hevc_444", "hevc-lossless": "hevc_lossless", "hevc-8k": "hevc_8k", "hevc-bframes": "hevc_bframes",
    "av1": "av1_420",
}  # fmt: skip
"""What can be requested of an encoder, and its column."""

DECODED: dict[str, tuple[str, int]] = {
    "mpeg1": ("mpeg1", 0), "mpeg2": ("mpeg2", 0), "mpeg4": ("mpeg4", 0), "vc1": ("vc1", 0), "vp8": ("vp8", 0),
    "vp9": ("vp9_bits", 8), "vp9-10bit": ("vp9_bits", 10), "vp9-12bit": ("vp9_bits", 12), "h264": ("h264_8bit", 0),
    "h264-10bit": ("h264_10bit", 0), "h264-422": ("h264_422", 0), "hevc": ("hevc_420_bits", 8),
    "hevc-10bit": ("hevc_420_bits", 10), "hevc-12bit": ("hevc_420_bits", 12), "hevc-422": ("hevc_422", 0),
    "hevc-444": ("hevc_444", 0), "av1": ("av1_bits", 8), "av1-10bit": ("av1_bits", 10),
}  # fmt: skip
"""What can be requested of a decoder: its column and, where that lists bit depths, the depth."""

SESSIONS = re.compile(r"nvenc-sessions(?:==|>=)([1-9]\d{0,3})")
_WORD = re.compile(r"(nvenc|nvdec)-\S+")
HEADERS = "nv-codec-headers"


class _Need(Struct, frozen=True, kw_only=True):
    """The headers (and with them the NVENC API) that introduced an ability, and the releases of FFmpeg with it."""

    ability: str
    headers: str
    ffmpeg: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


class _Engines(Struct, frozen=True, kw_only=True):
    """The class of an engine of one GPU: its row, and its source. None if it is unknown or not a single one."""

    row: dict[str, Any] | None
    sources: tuple[str, ...]


def codec_word(text: str) -> str | None:
    """The ability that a word of the command line names: "nvenc-av1"; None for a component.

    Raises UsageError for an unknown codec or feature.
    """
    lowered = "".join(text.split()).lower()
    if not _WORD.fullmatch(lowered):
        return None
    engine, _, ability = lowered.partition("-")
    known: tuple[str, ...] = tuple(ENCODED if engine == "nvenc" else DECODED)
    if ability in known or SESSIONS.fullmatch(lowered):
        return lowered
    msg = f"{text!r} is nothing that can be asked of {engine.upper()}"
    sessions = "; nvenc-sessions==5 means sessions at once" if engine == "nvenc" else ""
    raise UsageError(
        msg, code="malformed-requirement", hint=f"{', '.join(f'{engine}-{one}' for one in known)}{sessions}"
    )


def codec_findings(question: Question, words: tuple[str, ...]) -> Findings:
    """What refuses these abilities on the host of ``question``, with its driver and headers."""
    found = Findings()
    for word in dict.fromkeys(words):
        asked = SESSIONS.fullmatch(word)
        found += session_findings(question, word, int(asked[1])) if asked else _ability(question, word)
    return found


def _ability(question: Question, word: str) -> Findings:
    gpus = question.host.gpus
    if not gpus:
        return Findings(unknown=(Unknown(reason=f"{word}: no GPU is given", needs="gpu", option="--gpu"),))
    engine, _, ability = word.partition("-")
    answers = [(gpu, *_answer(question, gpu, engine, ability)) for gpu in gpus]
    can = [gpu for gpu, answer, _ in answers if answer]
    open_ = [gpu for gpu, answer, _ in answers if answer is None]
    sources = tuple(dict.fromkeys(one for _, _, addresses in answers for one in addresses))
    what = f"{engine.upper()} of {names_of(gpus)}"
    if not can and not open_:
        between = (word, f"gpu: {names_of(gpus)}")
        reason = f"{_why_not(question, gpus, engine, ability)}."
        return Findings(conflicts=(Conflict(kind="video-engine", between=between, reason=reason, sources=sources),))
    if not can:
        reason = f"{word}: it is unknown whether {what} {_does(engine)} {_spell(ability)}"
        return Findings(unknown=(Unknown(reason=reason, needs="gpu", option="--gpu", sources=sources),))
    others = [gpu for gpu, answer, _ in answers if not answer]
    mixed = (f"{word}: true of {names_of(can)}, not known or not true of {names_of(others)}",) if others else ()
    return Findings(warnings=mixed) + _needs(question, word)


def _answer(question: Question, gpu: Gpu, engine: str, ability: str) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the GPU's engine has the ability, None if unknown; with the addresses.

    Which engines of its GPU a MIG instance or a vGPU has is unknown.
    """
    found = _engines(question, gpu, engine)
    if (gpu.nvenc if engine == "nvenc" else gpu.nvdec) == 0:
        return False, found.sources
    row = found.row or _of_architecture(question, gpu, engine)
    if row is None:
        return None, found.sources
    if engine == "nvenc":
        whole = row.get(ENCODED[ability])
    else:
        column, bits = DECODED[ability]
        whole = (bits in row.get(column, ())) if bits else row.get(column)
    return (None if whole and (gpu.part or found.row is None) else whole), found.sources


def _of_architecture(question: Question, gpu: Gpu, engine: str) -> dict[str, Any] | None:
    """The class of all engines of the GPU's architecture: what it cannot do, no GPU of that architecture can."""
    rows = (row for row in _classes(question, engine) if row.get("architecture", "") == gpu.architecture)
    return next(rows, None)


def _engines(question: Question, gpu: Gpu, engine: str) -> _Engines:
    """The class of the GPU's encoder or decoder."""
    matrix, column = question.matrix, "encode" if engine == "nvenc" else "decode"
    rows = rows_of(question.matrix, gpu)
    boards = [row for row in rows if not row.device]
    named = {getattr(row, column) for row in boards} - {""}
    # A device of this name without a class may be another chip, unless the support matrix means all of the name.
    named |= {getattr(row, column) for row in rows if row.device} - ({""} if named else set())
    own = [row for row in _classes(question, engine) if named == {row["id"]}]
    boards = boards or rows
    sources = matrix.addresses(tuple(dict.fromkeys(key for row in boards for key in row.src)))
    return _Engines(row=own[0] if own else None, sources=sources)


def _classes(question: Question, engine: str) -> tuple[dict[str, Any], ...]:
    if engine == "nvenc":
        return question.matrix.rows("nvenc", "encode_classes", dict)
    return question.matrix.rows("nvenc", "decode_classes", dict)


def _why_not(question: Question, gpus: tuple[Gpu, ...], engine: str, ability: str) -> str:
    engines = [gpu.nvenc if engine == "nvenc" else gpu.nvdec for gpu in gpus]
    if all(count == 0 for count in engines):
        return f"{names_of(gpus)} has no {engine.upper()}"
    sentence = f"{engine.upper()} of {names_of(gpus)} does not {_does(engine)[:-1]} {_spell(ability)}"
    column = ENCODED[ability] if engine == "nvenc" else DECODED[ability][0]
    bits = 0 if engine == "nvenc" else DECODED[ability][1]
    able = [
        row["generation"]
        for row in _classes(question, engine)
        if row.get("generation") and (bits in row.get(column, ()) if bits else row.get(column))
    ]
    own = _engines(question, gpus[0], engine).row or {}
    if not able or not own.get("generation"):
        return sentence
    first = min(able, key=version_key)
    return f"{sentence}: generation {first} of it is the first that does, this one is {own['generation']}"


def _needs(question: Question, word: str) -> Findings:
    """The headers that introduced the ability, their driver, and the FFmpeg that offers it: conflicts, or a remark."""
    need = next((row for row in question.matrix.rows("nvenc", "codec_needs", _Need) if row.ability == word), None)
    if need is None:
        return Findings()
    sources = question.matrix.addresses(need.src)
    drivers, headers = _driver_range(question, need.headers), f">={need.headers}"
    wanted = {"driver": drivers, HEADERS: (headers,), "ffmpeg": need.ffmpeg or (">=0",)}
    conflicts, remarks = [], []
    for component, ranges in wanted.items():
        versions = versions_of(question, component)
        said = f"{word} requires {component} {ranges_in_words(ranges)}"
        if versions and not any(is_within(one, text) for one in versions for text in ranges):
            reason = f"{said}; this is {', '.join(versions)}."
            between = (word, f"{component}=={versions[0]}")
            conflicts.append(Conflict(kind="refused-pair", between=between, reason=reason, sources=sources))
        elif not versions and component == "driver":
            remarks.append(said)
    return Findings(conflicts=tuple(conflicts), warnings=tuple(remarks))


def _driver_range(question: Question, headers: str) -> tuple[str, ...]:
    """The drivers that run binaries compiled with these headers."""
    line = [row.version for row in question.matrix.releases(HEADERS) if is_within(row.version, f"=={headers}.*")]
    for bound in question.book.applying(HEADERS, line[-1]).get("driver", ()) if line else ():
        if question.view.holds(bound.rule, HEADERS):
            return bound.rule.any
    return ()


def _does(engine: str) -> str:
    return "encodes" if engine == "nvenc" else "decodes"


def _spell(ability: str) -> str:
    """An ability as people write it: "HEVC 4:2:2"."""
    codec, _, more = ability.partition("-")
    return " ".join(filter(None, (_CODEC.get(codec, codec.upper()), _MORE.get(more, more))))
