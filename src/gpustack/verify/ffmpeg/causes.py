"""What each kind of FFmpeg failure means, and what fixes it, in sentences."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.verify.ffmpeg.engines import Chip
from gpustack.verify.ffmpeg.lists import About
from gpustack.verify.nv_codec_headers.api import driver_for_api

SUBJECT = "ffmpeg-diagnosis"
FEWER_THREADS = ("-threads", "8")
"""What older releases need before -i on machines with many cores, where NVDEC has fewer surfaces than threads."""
MORE_SURFACES = ("-threads", "1", "-extra_hw_frames", "24")
"""What older releases need before -i with look-ahead, which keeps frames in the decoder's own surfaces."""
_NEEDED = re.compile(r"Required: (\d+\.\d+) Found: (\d+\.\d+)")
_NAMED = re.compile(r"(?:Unknown (?:en|de)coder|No such filter:|Unrecognized option|No option name near) '([^']*)'")
_SYMBOL = re.compile(r"Cannot load (cu\w+)")
_SIZE = re.compile(r"(Width|Height) (\d+) exceeds (\d+)")
_UNSUPPORTED = re.compile(r"\] ([^\]\n]*not supported[^\n]*)")

_OWNERS = {
    "the cuvid decoders": {"resize", "crop"},
    "the NVENC encoders": {
        "b_ref_mode", "multipass", "rc-lookahead", "spatial-aq", "spatial_aq", "aq-strength", "temporal-aq",
        "temporal_aq",
    },
}  # fmt: skip
"""Options that FFmpeg has only where their codec is compiled in."""


class Pattern(Struct, frozen=True, kw_only=True):
    """A text by which an error is recognised; rows are tried in their order."""

    order: int
    contains: str
    key: str


class Setup(Struct, frozen=True, kw_only=True):
    """The surroundings of a run, which its cause and fix depend on."""

    chip: Chip = Chip(name="this GPU")
    driver: str | None = None
    system: str = "linux"
    in_container: bool = False
    gpus: int = 1
    limit: int | None = None
    hidden_libcuda: str = ""
    about: About = About()


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Why a run failed. ``key`` is the kind ("" for an unknown one); ``needs`` and ``has`` are what was compared."""

    key: str
    cause: str
    fix: str = ""
    needs: str = ""
    has: str = ""


def key_of(matrix: Matrix, text: str) -> str:
    """The kind of the error that FFmpeg printed, by the first known text in it; "" for none."""
    rows = sorted(matrix.rows(SUBJECT, "classify", Pattern), key=lambda row: row.order)
    return next((row.key for row in rows if row.contains in text), "")


def _driver_too_old(matrix: Matrix, text: str, setup: Setup) -> Diagnosis:
    match = _NEEDED.search(text)
    own = f"driver {setup.driver}" if setup.driver else "the driver"
    where = " on the container's host" if setup.in_container else ""
    if match is None:
        return Diagnosis(
            key="driver_too_old",
            cause=f"this FFmpeg was built for a newer NVENC API than {own} supports",
            fix=f"install a newer driver{where}, or use an FFmpeg built with older nv-codec-headers",
        )
    need, found = match[1], match[2]
    first = driver_for_api(matrix, need, setup.system)
    wanted = f"driver {first} or newer" if first else f"a driver that supports NVENC API {need}"
    required = f", which requires {wanted}" if first else ""
    command = f": `gpustack install 'driver>={first}'`" if first and not where else ""
    return Diagnosis(
        key="driver_too_old",
        cause=f"this FFmpeg was built for NVENC API {need}{required}, but {own} supports only NVENC API {found}",
        fix=f"install {wanted}{where}{command}, or use an FFmpeg built with nv-codec-headers {found} or older",
        needs=f"NVENC API {need} ({wanted})",
        has=f"NVENC API {found} ({own})",
    )


def _no_libcuda(_matrix: Matrix, _text: str, setup: Setup) -> Diagnosis:
    if setup.in_container:
        cause = "no NVIDIA driver is available in this container: libcuda.so.1 was not found"
        fix = "start it with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES=compute,video,utility"
    elif setup.hidden_libcuda:
        cause = f"the driver's library {setup.hidden_libcuda} is not on the loader's path"
        folder = setup.hidden_libcuda.rpartition("/")[0]
        fix = f"add {folder} to a file in /etc/ld.so.conf.d and run `sudo ldconfig`"
    else:
        cause = "the driver's library libcuda.so.1 was not found"
        fix = "`gpustack install driver`"
    return Diagnosis(key="no_libcuda", cause=cause, fix=fix)


def _video_library(name: str, key: str, setup: Setup) -> Diagnosis:
    if setup.in_container:
        cause = f"the driver's {name} is not available in this container, although libcuda is"
        fix = "start it with NVIDIA_DRIVER_CAPABILITIES=compute,video,utility (or all)"
    else:
        cause = f"the driver's {name} is not installed, although libcuda is: the driver has no video libraries"
        fix = "install the driver's video libraries: `gpustack install driver`"
    return Diagnosis(key=key, cause=cause, fix=fix)


def _no_encode_library(_matrix: Matrix, _text: str, setup: Setup) -> Diagnosis:
    return _video_library("libnvidia-encode.so.1", "no_libnvidia_encode", setup)


def _no_decode_library(_matrix: Matrix, text: str, setup: Setup) -> Diagnosis:
    if key_of(_matrix, text.replace("libnvcuvid", "")) == "no_libcuda":
        return _no_libcuda(_matrix, text, setup)
    return _video_library("libnvcuvid.so.1", "no_libnvcuvid", setup)


def _missing_symbol(_matrix: Matrix, text: str, setup: Setup) -> Diagnosis:
    match = _SYMBOL.search(text)
    symbol = match[1] if match else "a function"
    own = f"driver {setup.driver}" if setup.driver else "the driver"
    return Diagnosis(
        key="missing_symbol",
        cause=f"{own} is older than the headers that this FFmpeg was built with: its library has no {symbol}",
        fix="install a newer driver, or use an FFmpeg built with older nv-codec-headers",
    )


def _no_nvenc(_matrix: Matrix, _text: str, setup: Setup) -> Diagnosis:
    chip = setup.chip
    if chip.nvenc == 0:
        return Diagnosis(key="no_nvenc", cause=chip.why_no_nvenc, fix="encode in software, or on another GPU")
    if setup.in_container:
        return Diagnosis(
            key="no_nvenc",
            cause=f"the driver reports no encoder, but {chip.name} has one: drivers 565 to 595 do so in a container"
            " that"
            " has only some GPUs of its host",
            fix="start the container with every GPU (`--gpus all`) and select one with `-gpu N`, or use driver 610 or"
            " newer",
        )
    known = f"{chip.name} should have one" if chip.nvenc else f"whether {chip.name} has one is unknown"
    return Diagnosis(
        key="no_nvenc",
        cause=f"the driver reports no encoder (unsupported device); {known}",
        fix="check whether the GPU is in MIG mode or passed through to a virtual machine, or select another: `-gpu N`",
    )


def _session_limit(_matrix: Matrix, _text: str, setup: Setup) -> Diagnosis:
    limit = f"{setup.chip.name} allows {setup.limit} at once on the whole system" if setup.limit else setup.chip.name
    return Diagnosis(
        key="session_limit",
        cause=f"the limit of encode sessions is reached ({limit})",
        fix="stop other encodes (`nvidia-smi encodersessions` lists them), or use a board without a limit",
        needs="a free encode session",
        has=f"limit {setup.limit}" if setup.limit else "",
    )


def _memory_or_limit(matrix: Matrix, text: str, setup: Setup) -> Diagnosis:
    """Older drivers report "out of memory" for a session too many; a board without a limit can only lack memory."""
    if setup.chip.sessions == "unrestricted":
        return _out_of_memory(matrix, text, setup)
    if setup.chip.sessions.isdigit():
        return _session_limit(matrix, text, setup)
    return Diagnosis(
        key="session_limit",
        cause="the driver allows no further encode session: its session limit is reached, or the GPU's memory is full",
        fix="stop other encodes and programs on this GPU (`nvidia-smi` lists them)",
    )


def _out_of_memory(_matrix: Matrix, _text: str, setup: Setup) -> Diagnosis:
    return Diagnosis(
        key="out_of_memory",
        cause=f"the memory of {setup.chip.name} is full",
        fix="stop other programs on this GPU (`nvidia-smi` lists them), or encode fewer streams at once",
    )


def _no_device(_matrix: Matrix, _text: str, setup: Setup) -> Diagnosis:
    return Diagnosis(
        key="no_cuda_device",
        cause="the driver's library found no GPU",
        fix="check CUDA_VISIBLE_DEVICES and the container's `--gpus` option"
        if setup.in_container
        else "check CUDA_VISIBLE_DEVICES; `gpustack verify driver` shows whether the kernel module is loaded",
    )


def _wrong_gpu(_matrix: Matrix, _text: str, setup: Setup) -> Diagnosis:
    seen = "1 GPU" if setup.gpus == 1 else f"{setup.gpus} GPUs"
    return Diagnosis(
        key="bad_gpu_index",
        cause=f"the GPU index is out of range, or that GPU has no encoder ({seen} visible)",
        fix="omit `-gpu`, or use a valid index: it counts from 0 among the GPUs of CUDA_VISIBLE_DEVICES",
    )


def _codec(_matrix: Matrix, _text: str, setup: Setup) -> Diagnosis:
    own = f"; it supports {', '.join(setup.chip.codecs)}" if setup.chip.codecs else ""
    return Diagnosis(
        key="codec_unsupported",
        cause=f"the encoder of {setup.chip.name} does not support this codec{own}",
        fix="use another encoder: every GPU with NVENC supports h264_nvenc",
    )


def _format(_matrix: Matrix, text: str, setup: Setup) -> Diagnosis:
    match = _UNSUPPORTED.search(text)
    said = match[1].strip() if match else "this pixel format or bit depth is not supported"
    return Diagnosis(
        key="format_unsupported",
        cause=f"the encoder of {setup.chip.name} rejects the input: {said}",
        fix="convert the frames first: `-pix_fmt yuv420p`, or `p010le` with hevc_nvenc",
    )


def _too_large(_matrix: Matrix, text: str, setup: Setup) -> Diagnosis:
    match = _SIZE.search(text)
    said = f": {match[1].lower()} {match[2]} exceeds {match[3]}" if match else ""
    return Diagnosis(
        key="too_large",
        cause=f"the frame is too large for the encoder of {setup.chip.name} with this codec{said}",
        fix="scale the video down, or use hevc_nvenc, which supports larger frames",
    )


def _bad_version(_matrix: Matrix, _text: str, setup: Setup) -> Diagnosis:
    own = f"driver {setup.driver}" if setup.driver else "the driver"
    return Diagnosis(
        key="bad_version",
        cause=f"{own} does not support the nv-codec-headers that this FFmpeg was built with",
        fix="use an FFmpeg built with nv-codec-headers that this driver supports, or install another driver",
    )


def _surfaces(_matrix: Matrix, _text: str, _scene: Setup) -> Diagnosis:
    return Diagnosis(
        key="too_many_surfaces",
        cause="this FFmpeg requests one NVDEC surface for each thread, and uses more threads on this machine than NVDEC"
        " has surfaces (32)",
        fix=f"put `{' '.join(FEWER_THREADS)}` before -i, or use a newer FFmpeg",
    )


def _no_surfaces(_matrix: Matrix, _text: str, _scene: Setup) -> Diagnosis:
    return Diagnosis(
        key="no_surfaces_left",
        cause="the encoder holds every surface that NVDEC decodes into, because of look-ahead or many frames in flight",
        fix=f"put `{' '.join(MORE_SURFACES)}` before -i, reduce look-ahead, or use a newer FFmpeg",
    )


def _preset(_matrix: Matrix, text: str, _scene: Setup) -> Diagnosis:
    gone = "preset configuration" in text
    cause = (
        "the driver no longer supports the old presets that this FFmpeg uses (drivers 590 and newer)"
        if gone
        else "this FFmpeg does not support the requested preset"
    )
    fix = "use FFmpeg 4.4 or newer with presets p1 to p7" if gone else "use presets p1 to p7 with -tune instead"
    return Diagnosis(key="preset_gone" if gone else "preset_unknown", cause=cause, fix=fix)


def _not_compiled(_matrix: Matrix, text: str, _scene: Setup) -> Diagnosis:
    match = _NAMED.search(text)
    name = match[1] if match else "CUDA (NVDEC and the filters on the GPU)"
    filter_only = "No option name near" in text
    cause = (
        f"a filter of this command was not compiled into this FFmpeg (it stopped near {name!r})"
        if filter_only
        else f"{name} was not compiled into this FFmpeg"
    )
    return Diagnosis(key="not_compiled", cause=cause, fix="`gpustack install ffmpeg` builds one with NVENC and NVDEC")


def _option(_matrix: Matrix, text: str, setup: Setup) -> Diagnosis:
    match = _NAMED.search(text)
    name = match[1] if match else "an option"
    owner = next((owner for owner, options in _OWNERS.items() if name in options), None)
    if owner:
        return Diagnosis(
            key="not_compiled",
            cause=f"this FFmpeg has no option -{name}: it belongs to {owner}, which are not compiled in or too old",
            fix="`gpustack install ffmpeg` builds one with NVENC and NVDEC",
        )
    return Diagnosis(
        key="option_gone",
        cause=f"{f'FFmpeg {setup.about.word}' if setup.about.word else 'this FFmpeg'} has no option -{name}",
        fix="use -fps_mode: it replaced -vsync in FFmpeg 5.1, and 9.0 removed -vsync"
        if name == "vsync"
        else "list the options: `ffmpeg -h full`",
    )


def _dash(_matrix: Matrix, _text: str, _scene: Setup) -> Diagnosis:
    return Diagnosis(
        key="typo_dash",
        cause="an option begins with a typographic dash (\u2013), so FFmpeg treats it as a file name",
        fix="type a plain hyphen (-); copied guides often contain the other one",
    )


CAUSES = {
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
