"""What a failed FFmpeg run means: the cause in the user's words and what mends it, by text and exit status."""

from __future__ import annotations

import os
import re

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.verify.ffmpeg.engines import Chip, driver_for_api
from gpustack.verify.ffmpeg.lists import About

SUBJECT = "ffmpeg-diagnosis"
FEWER_THREADS = ("-threads", "8")
"""What older releases need before -i on machines of many cores, where one surface a thread is more than NVDEC has."""
MORE_SURFACES = ("-threads", "1", "-extra_hw_frames", "24")
"""What older releases need before -i where the encoder looks ahead: it keeps frames in the decoder's own surfaces."""
REMEDIES = {"too_many_surfaces": FEWER_THREADS, "no_surfaces_left": MORE_SURFACES}
"""Options before -i that cure a failure of a kind, for which the user need do nothing else."""

_NEEDED = re.compile(r"Required: (\d+\.\d+) Found: (\d+\.\d+)")
_NAMED = re.compile(r"(?:Unknown (?:en|de)coder|No such filter:|Unrecognized option|No option name near) '([^']*)'")
_SYMBOL = re.compile(r"Cannot load (cu\w+)")
_SIZE = re.compile(r"(Width|Height) (\d+) exceeds (\d+)")
_UNSUPPORTED = re.compile(r"\] ([^\]\n]*not supported[^\n]*)")
_NOISE = re.compile(
    r"^(?:Conversion failed!|frame=|\[out#|\[vf#|Error opening output file|Stream mapping|Press \[q\])|^\s|^$"
    r"|Terminating thread|Task finished|Could not open encoder before EOF"
)


_OWNERS = {
    "the cuvid decoders": {"resize", "crop"},
    "the NVENC encoders": {
        "b_ref_mode", "multipass", "rc-lookahead", "spatial-aq", "spatial_aq", "aq-strength", "temporal-aq",
        "temporal_aq",
    },
}  # fmt: skip
"""Options that FFmpeg knows only where the codec is there that has them."""


class Pattern(Struct, frozen=True, kw_only=True):
    """A text by which an error is recognised; rows are tried in their order."""

    order: int
    contains: str
    key: str


class ExitCode(Struct, frozen=True, kw_only=True):
    """What an exit status means, and since which release it means anything."""

    code: int
    meaning: str
    averror: str = ""
    since: str = ""


class Scene(Struct, frozen=True, kw_only=True):
    """Where the run took place: what the words of a cause and of its cure depend on."""

    chip: Chip = Chip(name="this GPU")
    driver: str | None = None
    system: str = "linux"
    in_container: bool = False
    gpus: int = 1
    limit: int | None = None
    hidden_libcuda: str = ""
    about: About = About()


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Why a run failed. ``key`` names the kind ("" for none that is known); ``needs`` and ``has`` what was compared."""

    key: str
    cause: str
    cure: str = ""
    needs: str = ""
    has: str = ""


def key_of(matrix: Matrix, text: str) -> str:
    """The kind of the error that FFmpeg printed, by the first known text in it; "" for none."""
    rows = sorted(matrix.rows(SUBJECT, "classify", Pattern), key=lambda row: row.order)
    return next((row.key for row in rows if row.contains in text), "")


def diagnose(matrix: Matrix, text: str, code: int | None, scene: Scene) -> Diagnosis:
    """Why FFmpeg failed with ``text`` on standard error and the exit status ``code``, and what to do.

    FFmpeg's own hint about a driver is never repeated: it is a constant of the build and says nothing of the cause.
    """
    key = key_of(matrix, text)
    known = _CAUSES.get(key)
    if known is not None:
        return known(matrix, text, scene)
    words = last_error(text)
    if words:
        return Diagnosis(key=key, cause=f"FFmpeg stopped: {words}")
    return Diagnosis(key=key, cause=f"FFmpeg stopped with {exit_status(matrix, code, scene.about)} and said nothing")


def exit_status(matrix: Matrix, code: int | None, about: About) -> str:
    """An exit status in words. Up to FFmpeg 6.0 every failure is 1; from 6.1 on it is the error number's last byte."""
    if code is None:
        return "no exit status"
    if code < 0 or code == 139:
        return f"a crash (signal {-code if code < 0 else 11})"
    if code == 1 and about.is_before(6, 1):
        return "exit status 1, which up to FFmpeg 6.0 tells nothing"
    row = next((one for one in matrix.rows(SUBJECT, "exit_codes", ExitCode) if one.code == code), None)
    if row is not None and not about.is_before(*_numbers(row.since)):
        return f"exit status {code} ({row.meaning})"
    number = 256 - code
    if not about.is_before(6, 1) and 0 < number < 134:
        return f"exit status {code} ({os.strerror(number)})"
    return f"exit status {code}"


def _numbers(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major or 0), int(minor.partition(".")[0] or 0)


def last_error(text: str) -> str:
    """The line of FFmpeg's output that says most: the first that is neither progress nor an echo of the failure."""
    lines = [line for line in text.splitlines() if not _NOISE.search(line)]
    telling = [
        line for line in lines if re.search(r"error|fail|cannot|invalid|unable|no such|not found", line, re.IGNORECASE)
    ]
    chosen = (telling or lines)[:1]
    return re.sub(r"^(?:\[[^\]]*\] ?)+", "", chosen[0]).strip() if chosen else ""


def _driver_too_old(matrix: Matrix, text: str, scene: Scene) -> Diagnosis:
    match = _NEEDED.search(text)
    need, found = (match[1], match[2]) if match else ("", "")
    first = driver_for_api(matrix, need, scene.system) if need else None
    wanted = f"driver {first} or newer" if first else f"a driver that offers NVENC API {need or 'of its headers'}"
    own = f"driver {scene.driver}" if scene.driver else "the driver"
    below = " on the machine below the container" if scene.in_container else ""
    cure = f"install {wanted}{below}" + (f": `gpustack install 'driver>={first}'`" if first and not below else "")
    older = f"or use an FFmpeg built with nv-codec-headers {found} or older" if found else "or use an older build"
    return Diagnosis(
        key="driver_too_old",
        cause=f"this FFmpeg was built for NVENC API {need}, and {own} offers {found}: it needs {wanted}",
        cure=f"{cure}, {older}",
        needs=f"NVENC API {need} ({wanted})",
        has=f"NVENC API {found} ({own})",
    )


def _no_libcuda(_matrix: Matrix, _text: str, scene: Scene) -> Diagnosis:
    if scene.in_container:
        cause = "the container was given no driver: libcuda.so.1 is not in it"
        cure = "start it with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES=compute,video,utility"
    elif scene.hidden_libcuda:
        cause = f"the driver's library lies at {scene.hidden_libcuda}, where the loader does not look"
        folder = scene.hidden_libcuda.rpartition("/")[0]
        cure = f"add {folder} to a file in /etc/ld.so.conf.d and run `sudo ldconfig`"
    else:
        cause = "no driver library: libcuda.so.1 is not on this machine"
        cure = "`gpustack install driver`"
    return Diagnosis(key="no_libcuda", cause=cause, cure=cure)


def _video_library(name: str, key: str, scene: Scene) -> Diagnosis:
    if scene.in_container:
        cause = f"the driver's {name} was not put into the container, although libcuda was"
        cure = "start it with NVIDIA_DRIVER_CAPABILITIES=compute,video,utility (or all)"
    else:
        cause = f"the driver's {name} is not installed, although libcuda is: the driver's packages are compute-only"
        cure = "install the driver's video libraries: `gpustack install driver`"
    return Diagnosis(key=key, cause=cause, cure=cure)


def _no_encode_library(_matrix: Matrix, _text: str, scene: Scene) -> Diagnosis:
    return _video_library("libnvidia-encode.so.1", "no_libnvidia_encode", scene)


def _no_decode_library(_matrix: Matrix, text: str, scene: Scene) -> Diagnosis:
    if key_of(_matrix, text.replace("libnvcuvid", "")) == "no_libcuda":
        return _no_libcuda(_matrix, text, scene)
    return _video_library("libnvcuvid.so.1", "no_libnvcuvid", scene)


def _missing_symbol(_matrix: Matrix, text: str, scene: Scene) -> Diagnosis:
    match = _SYMBOL.search(text)
    symbol = match[1] if match else "a function"
    own = f"driver {scene.driver}" if scene.driver else "the driver"
    return Diagnosis(
        key="missing_symbol",
        cause=f"{own} is older than the headers this FFmpeg was built with: its library has no {symbol}",
        cure="install a newer driver, or use an FFmpeg built with older nv-codec-headers",
    )


def _no_nvenc(_matrix: Matrix, _text: str, scene: Scene) -> Diagnosis:
    chip = scene.chip
    if chip.nvenc == 0:
        return Diagnosis(key="no_nvenc", cause=chip.why_no_nvenc, cure="encode in software, or on another GPU")
    if scene.in_container:
        return Diagnosis(
            key="no_nvenc",
            cause=f"the driver refused an encoder on {chip.name}, which has one: drivers 565 to 595 do so in a"
            " container that sees only some GPUs of its host",
            cure="give the container every GPU (`--gpus all`) and choose with `-gpu N`, or use driver 610 or newer",
        )
    known = "has an encoder by the tables" if chip.nvenc else "is not in the tables of encoders"
    return Diagnosis(
        key="no_nvenc",
        cause=f"the driver says that this GPU has no encoder (unsupported device); {chip.name} {known}",
        cure="look whether the GPU is in MIG mode or handed to a virtual machine, or choose another with `-gpu N`",
    )


def _session_limit(_matrix: Matrix, _text: str, scene: Scene) -> Diagnosis:
    count = f"{scene.limit} sessions" if scene.limit else "the sessions that its driver allows"
    return Diagnosis(
        key="session_limit",
        cause=f"the session limit is reached: {scene.chip.name} holds {count} at once, counted over the whole system",
        cure="end other encodes (`nvidia-smi encodersessions` lists them), or use a board without a limit",
        needs="a free encode session",
        has=f"limit {scene.limit}" if scene.limit else "",
    )


def _memory_or_limit(matrix: Matrix, text: str, scene: Scene) -> Diagnosis:
    """Older drivers say "out of memory" for a session too many; a board without a limit can only lack memory."""
    if scene.chip.sessions == "unrestricted":
        return _out_of_memory(matrix, text, scene)
    if scene.chip.sessions.isdigit():
        return _session_limit(matrix, text, scene)
    return Diagnosis(
        key="session_limit",
        cause="no further encode session: the driver's session limit is reached, or the GPU's memory is full",
        cure="end other encodes and programs on this GPU (`nvidia-smi` lists them)",
    )


def _out_of_memory(_matrix: Matrix, _text: str, scene: Scene) -> Diagnosis:
    return Diagnosis(
        key="out_of_memory",
        cause=f"the memory of {scene.chip.name} is full",
        cure="end other programs on this GPU (`nvidia-smi` lists them), or encode fewer streams at once",
    )


def _no_device(_matrix: Matrix, _text: str, scene: Scene) -> Diagnosis:
    where = "look at CUDA_VISIBLE_DEVICES and at what the container was given (`--gpus`)"
    return Diagnosis(
        key="no_cuda_device",
        cause="the driver's library finds no GPU",
        cure=where if scene.in_container else f"{where}; `gpustack verify driver` tells whether the module is loaded",
    )


def _wrong_gpu(_matrix: Matrix, _text: str, scene: Scene) -> Diagnosis:
    seen = "one GPU" if scene.gpus == 1 else f"{scene.gpus} GPUs"
    return Diagnosis(
        key="bad_gpu_index",
        cause=f"no GPU of the number that was asked for can encode; {seen} can be seen here",
        cure="`-gpu` counts from 0 after CUDA_VISIBLE_DEVICES: leave it out, or take a number that is there",
    )


def _codec(_matrix: Matrix, _text: str, scene: Scene) -> Diagnosis:
    own = f"; it takes {', '.join(scene.chip.codecs)}" if scene.chip.codecs else ""
    return Diagnosis(
        key="codec_unsupported",
        cause=f"the encoder of {scene.chip.name} does not take this codec{own}",
        cure="choose another encoder: h264_nvenc works on every chip with NVENC",
    )


def _format(_matrix: Matrix, text: str, scene: Scene) -> Diagnosis:
    match = _UNSUPPORTED.search(text)
    said = match[1].strip() if match else "this pixel format or bit depth is not supported"
    return Diagnosis(
        key="format_unsupported",
        cause=f"the encoder of {scene.chip.name} refuses the input: {said}",
        cure="convert the frames first: `-pix_fmt yuv420p`, or `p010le` with hevc_nvenc",
    )


def _too_large(_matrix: Matrix, text: str, scene: Scene) -> Diagnosis:
    match = _SIZE.search(text)
    said = f"{match[1].lower()} {match[2]} is more than {match[3]}" if match else "the frame is too large"
    return Diagnosis(
        key="too_large",
        cause=f"the encoder of {scene.chip.name} cannot take frames of this size with this codec: {said}",
        cure="scale the picture down, or use hevc_nvenc, which takes larger frames",
    )


def _bad_version(_matrix: Matrix, _text: str, scene: Scene) -> Diagnosis:
    own = f"driver {scene.driver}" if scene.driver else "the driver"
    return Diagnosis(
        key="bad_version",
        cause=f"{own} does not know the structures of the headers that this FFmpeg was built with",
        cure="use an FFmpeg built with a release of nv-codec-headers that this driver offers, or another driver",
    )


def _surfaces(_matrix: Matrix, _text: str, _scene: Scene) -> Diagnosis:
    return Diagnosis(
        key="too_many_surfaces",
        cause="this FFmpeg asks NVDEC for a surface a thread, and takes more threads on this machine than NVDEC has"
        " surfaces (32)",
        cure=f"put `{' '.join(FEWER_THREADS)}` before -i, or use a newer FFmpeg",
    )


def _no_surfaces(_matrix: Matrix, _text: str, _scene: Scene) -> Diagnosis:
    return Diagnosis(
        key="no_surfaces_left",
        cause="the encoder holds every surface that NVDEC decodes into, as it looks ahead or has many frames under way",
        cure=f"put `{' '.join(MORE_SURFACES)}` before -i, look ahead less, or use a newer FFmpeg",
    )


def _preset(_matrix: Matrix, text: str, _scene: Scene) -> Diagnosis:
    gone = "preset configuration" in text
    cause = (
        "the driver no longer serves the old presets that this FFmpeg asks for (drivers from 590 on)"
        if gone
        else "this build does not know the preset that was asked for"
    )
    cure = "use FFmpeg 4.4 or newer with p1 to p7" if gone else "p1 to p7 with -tune take the old presets' place"
    return Diagnosis(key="preset_gone" if gone else "preset_unknown", cause=cause, cure=cure)


def _not_compiled(_matrix: Matrix, text: str, _scene: Scene) -> Diagnosis:
    match = _NAMED.search(text)
    name = match[1] if match else "CUDA (NVDEC and the filters on the GPU)"
    filter_only = "No option name near" in text
    cause = (
        f"a filter of this command was not compiled into this FFmpeg (it stopped near {name!r})"
        if filter_only
        else f"{name} was not compiled into this FFmpeg"
    )
    return Diagnosis(key="not_compiled", cause=cause, cure="`gpustack install ffmpeg` builds one with NVENC and NVDEC")


def _option(_matrix: Matrix, text: str, scene: Scene) -> Diagnosis:
    match = _NAMED.search(text)
    name = match[1] if match else "an option"
    owner = next((owner for owner, options in _OWNERS.items() if name in options), None)
    if owner:
        return Diagnosis(
            key="not_compiled",
            cause=f"this FFmpeg has no option -{name}: it is one of {owner}, which was not compiled in or is older",
            cure="`gpustack install ffmpeg` builds one with NVENC and NVDEC",
        )
    return Diagnosis(
        key="option_gone",
        cause=f"FFmpeg {scene.about.word or 'of this release'} has no option -{name}",
        cure="-vsync became -fps_mode in 5.1 and went in 9.0"
        if name == "vsync"
        else "look it up with `ffmpeg -h full`",
    )


def _dash(_matrix: Matrix, _text: str, _scene: Scene) -> Diagnosis:
    return Diagnosis(
        key="typo_dash",
        cause="an option begins with a typographic dash (\u2013), so FFmpeg took it for a file name",
        cure="write a plain hyphen (-): copied guides often carry the other one",
    )


_CAUSES = {
    "driver_too_old": _driver_too_old,
    "no_libcuda": _no_libcuda,
    "no_libnvcuvid": _no_decode_library,
    "no_libnvidia_encode": _no_encode_library,
    "missing_symbol": _missing_symbol,
    "no_nvenc": _no_nvenc,
    "session_limit_new": _session_limit,
    "session_limit_old": _memory_or_limit,
    "out_of_memory": _out_of_memory,
    "no_cuda_device": _no_device,
    "bad_gpu_index": _wrong_gpu,
    "too_many_surfaces": _surfaces,
    "no_surfaces_left": _no_surfaces,
    "codec_unsupported": _codec,
    "format_unsupported": _format,
    "too_large": _too_large,
    "bad_version": _bad_version,
    "preset_gone": _preset,
    "preset_unknown": _preset,
    "not_compiled": _not_compiled,
    "option_gone": _option,
    "typo_dash": _dash,
}
