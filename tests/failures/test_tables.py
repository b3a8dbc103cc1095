"""Texts that stand in tables: what each check expects and how it is mended, and what errors of others mean."""

from __future__ import annotations

import msgspec
import pytest
from tests.failures.conftest import Compare
from tests.unit.verify.conftest import HEALTHY

from gpustack.matrix.index import Matrix
from gpustack.model.host import Copy
from gpustack.triton.engine import engine_of, judge_engine
from gpustack.verify import declare
from gpustack.verify.cuda.errors import SUBJECT, Meaning, explain
from gpustack.verify.declare import Context
from gpustack.verify.ffmpeg.causes import CAUSES, Setup, key_of
from gpustack.verify.ffmpeg.diagnosis import diagnose, exit_status
from gpustack.verify.ffmpeg.engines import Chip
from gpustack.verify.ffmpeg.lists import About
from gpustack.verify.frame import host_facts
from gpustack.verify.tensorrt import error_texts as words
from gpustack.verify.tensorrt.error_texts import explain_error


def test_what_every_check_expects_and_what_mends_it(compare: Compare) -> None:
    """The cure of a check stands where a failure has none of its own, and where a skip was required."""
    texts: dict[str, str] = {}
    for component in declare.COMPONENTS:
        for one in sorted(declare.checks_of(component), key=lambda one: one.id):
            texts[f"{one.id} expects"] = one.expects
            texts[f"{one.id} fix"] = one.fix
    compare("declared", texts)


def test_codes_of_cuda(compare: Compare, facts: Matrix) -> None:
    machine = Context(host=HEALTHY, matrix=facts)
    container = msgspec.structs.replace(machine, host=msgspec.structs.replace(HEALTHY, environment="container"))
    texts: dict[str, str] = {}
    for row in facts.rows(SUBJECT, "cuda", Meaning):
        cause, fix = explain(row.code, machine)
        texts |= {
            f"{row.code} cause": cause,
            f"{row.code} fix": fix,
            f"{row.code} inside": explain(row.code, container)[1],
        }
    cause, fix = explain(987, machine, "CUDA_ERROR_NEW")
    texts |= {"987 cause": cause, "987 fix": fix}
    compat = Copy(component="cuda-compat", path="/usr/local/cuda/compat/libcuda.so.1", version="580.1", wins=True)
    with_compat = msgspec.structs.replace(
        machine, host=msgspec.structs.replace(HEALTHY, copies=(compat, *HEALTHY.copies))
    )
    texts["804 with compat"] = explain(804, with_compat)[0]
    compare("cuda-errors", texts)


def test_the_rebuild_of_the_ramdisk_on_every_family(compare: Compare) -> None:
    families = ("apt", "dnf", "yum", "tdnf", "zypper", None)
    hosts = {name: msgspec.structs.replace(HEALTHY.os, family=name) for name in families}
    compare(
        "ramdisk",
        {
            str(name): host_facts.rebuild_initramfs(msgspec.structs.replace(HEALTHY, os=one))
            for name, one in hosts.items()
        },
    )


L4 = Chip(name="L4", nvenc=2, nvdec=4, codecs=("h264", "hevc", "av1"), sessions="unrestricted")
H200 = Chip(name="H200", nvenc=0, nvdec=7, codecs=())
RTX = Chip(name="GeForce RTX 3080", nvenc=1, nvdec=1, codecs=("h264", "hevc"), sessions="12")
SCENES = {
    "machine": Setup(chip=L4, driver="535.104.05"),
    "container": Setup(chip=L4, driver="580.95.05", in_container=True, gpus=2),
    "no encoder": Setup(chip=H200, driver="580.95.05"),
    "capped board": Setup(chip=RTX, driver="550.54.15", limit=8, about=About(word="7.1.5", version="7.1.5", major=7)),
    "unknown": Setup(hidden_libcuda="/opt/nvidia/lib/libcuda.so.1"),
}
SAID = {
    "headers": "Driver does not support the required nvenc API version. Required: 13.0 Found: 12.1",
    "headers of the future": "Driver does not support the required nvenc API version. Required: 99.0 Found: 13.0",
    "headers, cut off": "Driver does not support the required nvenc API version.",
    "no libcuda": "Cannot load libcuda.so.1",
    "no libnvcuvid": "Cannot load libnvcuvid.so.1",
    "no libnvcuvid and no libcuda": "Cannot load libnvcuvid.so.1\nCannot load libcuda.so.1",
    "no libnvidia-encode": "Cannot load libnvidia-encode.so.1",
    "symbol": "Cannot load cuCtxGetDevice",
    "no encoder": "OpenEncodeSessionEx failed: unsupported device (2): (no details)",
    "session, new": "OpenEncodeSessionEx failed: incompatible client key (21): (no details)",
    "session, old": "OpenEncodeSessionEx failed: out of memory (10): (no details)",
    "memory": "cuMemAlloc failed -> CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "no device": "cuInit(0) failed -> CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    "GPU number": "[h264_nvenc @ 0x1] No capable devices found",
    "codec": "[av1_nvenc @ 0x1] Codec not supported",
    "pixel format": "[h264_nvenc @ 0x1] 10 bit encode not supported",
    "pixel format, no words": "not supported",
    "size": "[h264_nvenc @ 0x1] Width 8192 exceeds 4096",
    "size, no words": "frame exceeds it",
    "structures": "OpenEncodeSessionEx failed: invalid version (15): (no details)",
    "threads": "Using more than 32 (64) decode surfaces might cause nvdec to fail.",
    "surfaces": "No decoder surfaces left",
    "preset gone": "Cannot get the preset configuration: invalid param (8): (no details)",
    "preset unknown": 'Unable to parse "preset" option value "p9"',
    "encoder": "Unknown encoder 'h264_nvenc'",
    "filter": "No such filter: 'scale_npp'",
    "filter graph": "No option name near '1280:720'",
    "option": "Unrecognized option 'vsync'.",
    "other option": "Unrecognized option 'no_such'.",
    "option of a decoder": "Unrecognized option 'resize'.",
    "option of an encoder": "Unrecognized option 'rc-lookahead'.",
    "no CUDA": "Device creation failed: -12.",
    "dash": "Unable to find a suitable output format for '\u2013c:v'",
    "own words": "Error while opening encoder for output stream #0:0",
    "nothing": "",
}


def test_errors_of_ffmpeg(compare: Compare, facts: Matrix) -> None:
    texts: dict[str, str] = {}
    for name, said in SAID.items():
        for place, scene in SCENES.items():
            found = diagnose(facts, said, 1, scene)
            parts = {"cause": found.cause, "fix": found.fix, "needs": found.needs, "has": found.has}
            known = {text for key, text in texts.items() if key.startswith(f"{name}, ")}
            texts |= {f"{name}, {place}, {part}": text for part, text in parts.items() if text not in known}
    compare("ffmpeg-errors", texts)
    assert set(CAUSES) <= {key_of(facts, said) for said in SAID.values()}


def test_exit_statuses_of_ffmpeg(compare: Compare, facts: Matrix) -> None:
    old, new = About(version="5.1", major=5), About(version="7.1", major=7)
    texts = {
        f"{code} of {about.version}": exit_status(facts, code, about)
        for about in (old, new)
        for code in (None, -11, 139, 1, 187, 218, 234, 254, 255, 77)
    }
    compare("ffmpeg-exit-statuses", texts)


TENSORRT = {
    "version": "The engine plan file is not compatible with this version of TensorRT, expecting library version 10.3.0.26 got"
    " 8.6.1.6, please rebuild.",
    "RTX GPU": "Unsupported compute capability 7.0. Supported compute capabilities: 7.5, 8.0, 8.6.",
    "RTX Turing": "Cannot compile operation 'conv' for Turing (SM75): bf16 needs Ampere. ",
    "driver": "CUDA initialization failure with error: 35 cudaError 35",
    "hidden": "CUDA initialization failure with error: 100",
    "device": "Using an engine plan file across different models of devices: incompatible device",
    "magic": "Serialization assertion stdVersionRead == serializationVersion failed. Magic tag does not match",
    "magic 8.6": "Serialization (Serialization assertion magicTag == rt::kPLAN_MAGIC_TAG failed.",
    "cut": "header.size == blobSize",
    "end": "kEND_OF_PLAN_MARKER",
    "empty": "empty memory buffer",
    "tag": "Version tag does not match. Note: Current Version: 228, Serialized Engine Version: 213",
    "cudnn": "libcudnn.so.8: cannot open shared object file",
    "libcuda": "libcuda.so.1: cannot open shared object file",
    "memory": "out of memory",
    "own words": "something that nobody has seen",
}


def test_errors_of_tensorrt(compare: Compare) -> None:
    texts: dict[str, str] = {}
    for name, said in TENSORRT.items():
        found = explain_error(said)
        texts |= {f"{name}, cause": found.cause, f"{name}, cure": found.fix}
    for said in words._KNOWN:
        found = explain_error(said)
        texts |= {f"{said!r} cause".replace(": ", ""): found.cause, f"{said!r} cure".replace(": ", ""): found.fix}
    compare("tensorrt-errors", texts)


def head(tag: bytes, version: tuple[int, ...], length: int, targets: int = 0) -> bytes:
    return tag + bytes(12) + length.to_bytes(8, "little") + bytes(version) + bytes(4) + targets.to_bytes(8, "little")


def test_engine_files(compare: Compare) -> None:
    """What an engine's head tells is compared with the TensorRT and the GPU that would load it."""
    trt = head(b"ftrt", (10, 3, 0, 26), 100)
    rtx = head(b"vtrt", (1, 7, 0, 1), 100, 8)
    cases = {
        "empty": (b"", 0, "10.3.0.26", "8.9"),
        "zip": (b"PK\x03\x04" + bytes(40), 100, "10.3.0.26", "8.9"),
        "onnx": (b"\x08\x07\x12\x04" + bytes(40), 100, "10.3.0.26", "8.9"),
        "pointer": (b"version https://git-lfs.github.com/spec/v1" + bytes(9), 130, "10.3.0.26", "8.9"),
        "nothing known": (b"hello" + bytes(40), 100, "10.3.0.26", "8.9"),
        "header": (trt[:20], 20, "10.3.0.26", "8.9"),
        "cut": (head(b"ftrt", (10, 3, 0, 26), 5000), 100, "10.3.0.26", "8.9"),
        "same major": (trt, 100, "10.9.0.34", "8.9"),
        "next major": (trt, 100, "11.0.0.1", "8.9"),
        "far": (head(b"ftrt", (7, 2, 3, 4), 100), 100, "10.9.0.34", "8.9"),
        "rtx other GPU": (rtx, 100, "1.7.0", "7.5"),
        "rtx no targets": (head(b"vtrt", (1, 7, 0, 1), 100), 100, "1.7.0", "7.5"),
    }
    texts: dict[str, str] = {}
    for name, (content, size, library, capability) in cases.items():
        verdict = judge_engine(engine_of(content[:40], size), library, capability, "this host")
        assert not verdict.fits, name
        texts |= {f"{name} reason": verdict.reason, f"{name} cure": verdict.fix}
    unknown = judge_engine(engine_of(rtx, 100), "1.7.0", None, "this host")
    texts["rtx without GPU"] = unknown.reason
    assert unknown.fits
    other = msgspec.structs.replace(engine_of(trt, 100), targets=("8.0",))
    texts["other GPU reason"] = judge_engine(other, "10.3.0.26", "8.9", "this host").reason
    silent = msgspec.structs.replace(engine_of(trt, 100), version="")
    texts["silent reason"] = judge_engine(silent, "10.3.0.26", "8.9", "this host").reason
    texts["silent called"] = silent.called
    compare("tensorrt-engines", texts)


@pytest.mark.parametrize("text", list(TENSORRT.values()))
def test_no_error_of_tensorrt_is_left_without_words(text: str) -> None:
    assert explain_error(text).cause
