"""trtexec: where it lies, its options by era, and what it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpustack.versions import version

FOLDERS = ("/usr/src/tensorrt/bin", "/opt/tensorrt/bin", "/usr/local/tensorrt/bin", "/opt/TensorRT*/bin")
_PASS = re.compile(
    r"^&&&& (?P<state>PASSED|FAILED|WAIVED) TensorRT\.trtexec(?: \[TensorRT v(?P<number>\d+)\])?(?: \[b\d+\])? # ",
    re.MULTILINE,
)
_RUNNING = re.compile(r"^&&&& RUNNING TensorRT\.trtexec(?: \[TensorRT v(?P<number>\d+)\])?", re.MULTILINE)
_BUILT = re.compile(r"Engine built in ([\d.]+) sec")
_LOADED = re.compile(r"Engine (?:deserialized|loaded) in ([\d.]+) sec")
_THROUGHPUT = re.compile(r"Throughput: ([\d.]+) qps")
_ROW = re.compile(
    r"(Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency): min = ([\d.]+) ms, max = ([\d.]+) ms, "
    r"mean = ([\d.]+) ms, median = ([\d.]+) ms((?:, percentile\([\d.]+%\) = [\d.]+ ms)*)"
)
_PERCENTILE = re.compile(r"percentile\(([\d.]+)%\) = ([\d.]+) ms")
_OLD_SUMMARY = re.compile(r"Average over \d+ runs is ([\d.]+) ms \(host walltime is ([\d.]+) ms, \d+% percentile")


class Said(Struct, frozen=True, kw_only=True):
    """What a run of trtexec printed. ``state``: PASSED, FAILED, WAIVED, or "" where the line is missing.

    ``rows`` maps a timing ("Latency", "GPU Compute Time", ...) to its figures in milliseconds.
    """

    state: str = ""
    version: str = ""
    built_s: float | None = None
    loaded_s: float | None = None
    throughput: float | None = None
    rows: dict[str, dict[str, float]] = {}
    errors: tuple[str, ...] = ()

    @property
    def has_passed(self) -> bool:
        return self.state == "PASSED"


def read(text: str) -> Said:
    """Read what trtexec wrote to standard output and standard error, of any era from 5.1 to 11."""
    end = _PASS.search(text)
    begin = _RUNNING.search(text)
    number = (end["number"] if end else None) or (begin["number"] if begin else None)
    built, loaded, rate = _BUILT.search(text), _LOADED.search(text), _THROUGHPUT.search(text)
    rows: dict[str, dict[str, float]] = {}
    for match in _ROW.finditer(text):
        figures = dict(zip(("min", "max", "mean", "median"), (float(match[n]) for n in range(2, 6)), strict=True))
        figures |= {f"p{float(name):g}": float(value) for name, value in _PERCENTILE.findall(match[6])}
        rows[match[1]] = figures
    old = _OLD_SUMMARY.search(text)
    if old:
        rows["GPU Compute Time"] = {"mean": float(old[1])}
    errors = tuple(re.findall(r"\[E\] (.*)", text))
    return Said(
        state=end["state"] if end else "",
        version=version_of(number) if number else "",
        built_s=float(built[1]) if built else None,
        loaded_s=float(loaded[1]) if loaded else None,
        throughput=float(rate[1]) if rate else None,
        rows=rows,
        errors=errors[:5],
    )


def version_of(number: str) -> str:
    """The release of the number in trtexec's lines: 8601 is 8.6.1, 100400 is 10.4.0."""
    value = int(number)
    if value >= 100000:
        return f"{value // 10000}.{value // 100 % 100}.{value % 100}"
    return f"{value // 1000}.{value // 100 % 10}.{value % 100}"


def find(places: tuple[Path, ...]) -> Path | None:
    """The first trtexec in ``places``, which are folders."""
    return next((folder / "trtexec" for folder in places if (folder / "trtexec").is_file()), None)


def build_words(onnx: str, engine: str, release: str, precision: str = "fp32") -> tuple[str, ...]:
    """The options that build an engine with the trtexec of ``release``, and run nothing where it can be left out."""
    number = version(release)
    words = [f"--onnx={onnx}", f"--saveEngine={engine}"]
    if version("6.0") <= number < version("8.0"):
        words.append("--explicitBatch")
    words.append("--memPoolSize=workspace:256" if number >= version("8.4") else "--workspace=256")
    if precision == "fp16" and number < version("11"):
        words.append("--fp16")
    if number >= version("8.6"):
        words.append("--skipInference")
    elif number >= version("6.0"):
        words.append("--buildOnly")
    else:
        words += ["--iterations=1", "--avgRuns=1"]
    return tuple(words)


def run_words(engine: str, release: str, *, inputs: str = "", output: str = "") -> tuple[str, ...]:
    """The options that run an engine once on the file ``inputs`` and write its outputs as JSON to ``output``."""
    words = [f"--loadEngine={engine}", "--iterations=1", "--duration=0", "--warmUp=0"]
    words += [f"--loadInputs={inputs}"] if inputs else []
    words += [f"--exportOutput={output}"] if output else []
    return tuple(words if version(release) >= version("6.0") else [f"--loadEngine={engine}", "--iterations=1"])


def bench_words(engine: str, release: str, streams: int, *, profile: str = "") -> tuple[str, ...]:
    """The options that measure an engine, copies counted in; ``profile`` is the file for the time of each layer."""
    number = version(release)
    words = [f"--loadEngine={engine}", "--warmUp=500", "--iterations=100", "--duration=3"]
    if number < version("6.0"):
        return (f"--loadEngine={engine}", "--iterations=100", "--avgRuns=10")
    words.append(f"--infStreams={streams}" if number >= version("8.6") else f"--streams={streams}")
    if number >= version("8.5"):
        words.append("--percentile=50,90,95,99")
    if number >= version("11"):
        words.append("--includeDataTransfers")
    if profile:
        words += ["--dumpProfile", f"--exportProfile={profile}"]
        if version("7.2") <= number < version("11"):
            words.append("--separateProfileRun")
    return tuple(words)


def layers(path: Path) -> list[dict[str, Any]]:
    """What --exportProfile wrote, without its leading count; [] where it wrote nothing."""
    try:
        return [row for row in json.loads(path.read_text(encoding="utf-8")) if "name" in row]
    except (OSError, ValueError, TypeError):
        return []


def outputs(path: Path) -> dict[str, list[float]]:
    """What --exportOutput wrote: the values of each output. Raises ValueError where it is no such file."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return {row["name"]: [float(value) for value in row["values"]] for row in told}
    except (json.JSONDecodeError, KeyError, TypeError) as exc:
        msg = f"{path.name} is not what trtexec writes: {exc}"
        raise ValueError(msg) from exc
