"""What TensorRT says when it fails, and what engine files tell: real texts, each with a cause and a cure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpustack.matrix.index import Matrix
from gpustack.triton.engine import engine_of, judge_engine
from gpustack.triton.served import with_version
from gpustack.verify.tensorrt.error_texts import choose_message, explain_error

SEEN = json.loads(
    (Path(__file__).parent.parent / "fixtures" / "h200" / "tensorrt-8.6.0-damaged.json").read_text(encoding="utf-8")
)
"""A real engine of TensorRT 8.6.0, damaged in 25 ways, and what TensorRT said of each on an H200."""

NO_ENGINE, CUT, INSIDE = (
    "the file is not an engine, or is damaged",
    "the engine file is truncated or has extra data",
    "the engine file is damaged",
)
CAUSES = {
    "first bytes zeroed": NO_ENGINE,
    "cut to half": CUT,
    "cut to 100 bytes": CUT,
    "empty": "the engine file is empty",
    "text": NO_ENGINE,
    "end damaged": "the engine file is damaged at its end",
    "byte 16 flipped": CUT,
    "byte 56 flipped": NO_ENGINE,
    "byte 64 flipped": "the engine was built by another release of TensorRT, or is damaged: its serialization version is 19, and this TensorRT reads 236",
    **{f"byte {place} flipped": INSIDE for place in (8, 12, 32, 40, 44, 48, 72, 80, 96, 112, 128)},
    "hidden GPU": "no GPU is visible",
    "build with hidden GPU": "no GPU is visible",
    "damaged ONNX": "the file is not an ONNX model, or is damaged",
}


@pytest.mark.parametrize("case", [one for one in SEEN["cases"] if not one["ok"]], ids=lambda one: str(one["case"]))
def test_every_failure_that_was_seen_has_a_cause_and_a_cure(case: dict[str, list[str]]) -> None:
    found = explain_error(choose_message(case["messages"]))
    assert found.cause == CAUSES[str(case["case"])]
    assert found.fix


def test_what_was_loaded_in_spite_of_its_damage_is_known() -> None:
    """So the header's version is what the builder wrote, and 8.6.0 does not look at it; see docs/media.md."""
    loaded = {one["case"] for one in SEEN["cases"] if one["ok"]} - {"build", "good"}
    assert loaded == {
        "version 8 5 3 1", "version 10 3 0 26", "middle damaged", "byte 4 flipped", "byte 28 flipped", "byte 36 flipped",
    }  # fmt: skip


def test_the_head_of_a_real_engine() -> None:
    read = engine_of(bytes.fromhex(SEEN["head"]), SEEN["size"])
    assert (read.kind, read.version, read.serialization, read.fault) == ("tensorrt", "8.6.0.12", 236, "")
    longer = engine_of(bytes.fromhex(SEEN["head"]), SEEN["size"] + 5)
    assert "5 extra bytes after the engine" in longer.fault


def test_a_header_of_an_unknown_form_tells_no_version() -> None:
    """NVIDIA's trtexec reads the version only where the word after the tag is 0, and so does gpustack."""
    head = bytearray.fromhex(SEEN["head"])
    head[4] = 1
    read = engine_of(bytes(head), SEEN["size"])
    assert read.version == ""
    verdict = judge_engine(read, "8.6.0", "9.0", "this host")
    assert (verdict.fits, verdict.reason) == (None, "its header does not contain the TensorRT version that built it")


@pytest.mark.parametrize(
    ("number", "library", "fits", "words"),
    [
        (232, "8.5.3", None, "built by TensorRT 8.5, and here has 8.5.3: it loads only if the full versions are equal"),
        (213, "8.6.1", False, "built by TensorRT 8.4, but here has 8.6.1"),
        (205, "10.3.0", False, "which cannot load it"),
        (199, "8.5.3", None, "does not contain the TensorRT version that built it"),
    ],
)
def test_engines_from_before_8_6_tell_their_serialization(
    matrix: Matrix, number: int, library: str, fits: bool | None, words: str
) -> None:
    head = b"ptrt" + bytes(4) + number.to_bytes(8, "little") + bytes(100)
    read = engine_of(head, 4000)
    assert (read.kind, read.version, read.serialization) == ("tensorrt", "", number)
    verdict = judge_engine(with_version(matrix, read), library, "8.6", "here")
    assert (verdict.fits, words in verdict.reason) == (fits, True), verdict


PUBLIC = [
    (
        # https://github.com/NVIDIA/TensorRT/issues/2176
        "The engine plan file is generated on an incompatible device, expecting compute 8.6 got compute 7.5, please rebuild.",
        "the engine was built for compute capability 7.5, but this GPU has 8.6",
    ),
    (
        # https://github.com/triton-inference-server/server/issues/317
        "The engine plan file is not compatible with this version of TensorRT, expecting library version 5.1.2 got 5.1.5,",
        "the engine was built by TensorRT 5.1.5, but TensorRT 5.1.2 is installed",
    ),
    (
        # As TensorRT 10.7 tells a file whose version it cannot read.
        "IRuntime::deserializeCudaEngine: Error Code 6: API Usage Error (The engine plan file is not compatible with this"
        " version of TensorRT, expecting library version 10.7.0.23 got ..)",
        "the engine was built by another TensorRT, but TensorRT 10.7.0.23 is installed",
    ),
    (
        # https://github.com/NVIDIA/TensorRT/issues/3898
        "Serialization assertion stdVersionRead == serializationVersion failed.Version tag does not match. Note: Current"
        " Version: 236, Serialized Engine Version: 237)",
        "the engine was built by another release of TensorRT, or is damaged: its serialization version is 237, and this TensorRT reads 236",
    ),
    (
        "IBuilder::buildSerializedNetwork: Error Code 9: API Usage Error (Target GPU SM 61 is not supported by this"
        " TensorRT release. In checkCurrentSMEnabled at /_src/optimizer/common/builderHelpers.cpp:718)",
        "this TensorRT does not support this GPU (compute capability 6.1)",
    ),
    (
        "Target GPU SM 120 is not supported by this TensorRT release.",
        "this TensorRT does not support this GPU (compute capability 12.0)",
    ),
]
OTHER_RELEASE = "find a release that does: `gpustack plan tensorrt`"


@pytest.mark.parametrize(("said", "cause"), PUBLIC)
def test_what_users_report(said: str, cause: str) -> None:
    found = explain_error(said)
    assert found.cause == cause
    assert found.fix
    assert (found.fix == OTHER_RELEASE) is said.startswith(("Target GPU", "IBuilder"))


def test_an_error_that_is_known_comes_before_one_that_is_not_and_before_warnings() -> None:
    known = "ERROR: [runtime] Serialization assertion a == b failed"
    assert choose_message(["WARNING: libcudnn is old", "ERROR: something", known]) == known
    assert choose_message(["ERROR: something", "WARNING: CUDA initialization failure with error: 100"]).startswith(
        "WARNING"
    )
    assert choose_message(["WARNING: slow", "ERROR: first", "ERROR: second"]) == "ERROR: first"
    assert choose_message(["WARNING: slow"]) == "TensorRT reported no reason"
