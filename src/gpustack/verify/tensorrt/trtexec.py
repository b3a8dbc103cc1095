"""trtexec: where it is installed, its options by release, and what it prints."""

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
_N = r"[\d.]+(?:e[+-]\d+)?"
_BUILT = re.compile(rf"Engine built in ({_N}) sec")
_DESERIALIZED = re.compile(rf"Engine deserialized in ({_N}) sec")
_LOADED = re.compile(rf"Engine loaded in ({_N}) sec")
"""From 8.4 on this is the file's reading alone; before that, with the deserialization."""
_THROUGHPUT = re.compile(rf"\b[Tt]hroughput: ({_N}) qps")
_ROW = re.compile(
    rf"(?:^|\] )(Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency): min = ({_N}) ms, max = ({_N}) ms, "
    rf"mean = ({_N}) ms, median = ({_N}) ms((?:, percentile\([\d.]+%\) = {_N} ms)*)",
    re.MULTILINE,
)
_PERCENTILE = re.compile(rf"percentile\(([\d.]+)%\) = ({_N}) ms")
_AVERAGE = re.compile(rf"Average over \d+ runs is ({_N}) ms \(host walltime is {_N} ms, \d+% percentile")
_BLOCK = {
    "Host latency": "Latency",
    "Host Latency": "Latency",
    "Enqueue Time": "Enqueue Time",
    "GPU Compute": "GPU Compute Time",
}
_LINE = re.compile(
    rf"^(?:.*\[I\] )?(?:({'|'.join(_BLOCK)})|(min|max|mean|median|percentile): ({_N}) ms(?: at ([\d.]+)%)?.*)$",
    re.MULTILINE,
)


class Said(Struct, frozen=True, kw_only=True):
    """What a run of trtexec printed. ``state``: PASSED, FAILED, WAIVED, or "" if the line is missing.

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
    """Read what trtexec wrote to standard output and standard error, in any release from 5.1 to 11."""
    end = _PASS.search(text)
    begin = _RUNNING.search(text)
    number = (end["number"] if end else None) or (begin["number"] if begin else None)
    built, rate = _BUILT.search(text), _THROUGHPUT.search(text)
    loaded = _DESERIALIZED.search(text) or _LOADED.search(text)
    rows: dict[str, dict[str, float]] = {}
    for match in _ROW.finditer(text):
        figures = dict(zip(("min", "max", "mean", "median"), (float(match[n]) for n in range(2, 6)), strict=True))
        figures |= {f"p{float(name):g}": float(value) for name, value in _PERCENTILE.findall(match[6])}
        rows[match[1]] = figures
    rows = rows or _blocks(text)
    errors = tuple(re.findall(r"(?:\[E\] |^(?=Cuda failure: ))(.*)", text, re.MULTILINE))
    return Said(
        state=end["state"] if end else "",
        version=version_of(number) if number else "",
        built_s=float(built[1]) if built else None,
        loaded_s=float(loaded[1]) if loaded else None,
        throughput=float(rate[1]) if rate else None,
        rows=rows,
        errors=errors[:5],
    )


def _blocks(text: str) -> dict[str, dict[str, float]]:
    """The figures of 6.0 to 7.2, one per line below the name of their block; for 5.1 the single figure."""
    rows: dict[str, dict[str, float]] = {}
    block: dict[str, float] = {}
    for match in _LINE.finditer(text):
        if match[1]:
            block = rows.setdefault(_BLOCK[match[1]], {})
        else:
            block[f"p{float(match[4]):g}" if match[4] else match[2]] = float(match[3])
    average = _AVERAGE.search(text)
    if average and not rows:
        rows["GPU Compute Time"] = {"mean": float(average[1])}
    return rows


def version_of(number: str) -> str:
    """The release of the number in trtexec's lines: 8601 is 8.6.1, 100400 is 10.4.0."""
    value = int(number)
    if value >= 100000:
        return f"{value // 10000}.{value // 100 % 100}.{value % 100}"
    return f"{value // 1000}.{value // 100 % 10}.{value % 100}"


def find(places: tuple[Path, ...]) -> Path | None:
    """The first trtexec in ``places``, which are folders."""
    return next((folder / "trtexec" for folder in places if (folder / "trtexec").is_file()), None)


def build_words(  # noqa: PLR0913 (what an engine is built from)
    onnx: str,
    engine: str,
    release: str,
    precision: str = "fp32",
    *,
    workspace_mb: int = 256,
    more: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The options that build an engine with the trtexec of ``release``, without running it where that is possible.

    ``workspace_mb`` limits the builder's memory; 0 is trtexec's own limit. ``more`` are further options.
    """
    number = version(release)
    words = [f"--onnx={onnx}", f"--saveEngine={engine}"]
    if version("6.0") <= number < version("8.0"):
        words.append("--explicitBatch")
    if workspace_mb:
        option = "--memPoolSize=workspace:" if number >= version("8.4") else "--workspace="
        words.append(f"{option}{workspace_mb}")
    if precision not in {"fp32", "tf32"} and number < version("11"):
        words.append(f"--{precision}")
    words += more
    if number >= version("8.6"):
        words.append("--skipInference")
    elif number >= version("6.0"):
        words.append("--buildOnly")
    else:
        words += ["--iterations=1", "--avgRuns=1"]
    return tuple(words)


def run_words(engine: str, release: str, *, inputs: str = "", output: str = "") -> tuple[str, ...]:
    """The options that run an engine once on the file ``inputs`` and write its outputs as JSON to ``output``."""
    words = [f"--loadEngine={engine}", "--iterations=1"]
    if version(release) >= version("6.0"):
        words += ["--duration=0", "--warmUp=0"]
    if writes_outputs(release):
        words += [f"--loadInputs={inputs}"] if inputs else []
        words += [f"--exportOutput={output}"] if output else []
    return tuple(words)


def writes_outputs(release: str) -> bool:
    """Whether that trtexec reads inputs from a file and writes its outputs to one."""
    return version(release) >= version("7.0")


class Timing(Struct, frozen=True, kw_only=True):
    """How long to measure. ``with_graph``: with CUDA graphs or without; None is trtexec's own choice."""

    warm_up_ms: int = 500
    iterations: int = 100
    seconds: int = 3
    with_graph: bool | None = None


TIMING = Timing()


def bench_words(  # noqa: PLR0913 (what is measured)
    engine: str, release: str, streams: int, *, profile: str = "", timing: Timing = TIMING, shapes: str = ""
) -> tuple[str, ...]:
    """The options that measure an engine, copies counted in; ``profile`` is the file for the time of each layer."""
    number = version(release)
    if number < version("6.0"):
        return (f"--loadEngine={engine}", f"--iterations={timing.iterations}", "--avgRuns=10")
    words = [f"--loadEngine={engine}", f"--warmUp={timing.warm_up_ms}", f"--iterations={timing.iterations}"]
    words.append(f"--duration={timing.seconds}")
    words.append(f"--infStreams={streams}" if number >= version("8.6") else f"--streams={streams}")
    words += [f"--shapes={shapes}"] if shapes else []
    if number >= version("8.5"):
        words.append("--percentile=50,90,95,99")
    if number >= version("11"):
        words.append("--includeDataTransfers")
        words += ["--noCudaGraph"] if timing.with_graph is False else []
    elif timing.with_graph:
        words.append("--useCudaGraph")
    if profile:
        words += ["--dumpProfile", f"--exportProfile={profile}"]
        if version("7.2") <= number < version("11"):
            words.append("--separateProfileRun")
    return tuple(words)


def layers(path: Path) -> list[dict[str, Any]]:
    """What --exportProfile wrote, without its leading count; [] if it wrote nothing."""
    try:
        return [row for row in json.loads(path.read_text(encoding="utf-8")) if "name" in row]
    except (OSError, ValueError, TypeError):
        return []


def outputs(path: Path) -> dict[str, list[float]]:
    """What --exportOutput wrote: the values of each output. Raises ValueError where it wrote none or another file."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {row["name"]: [float(value) for value in row["values"]] for row in rows}
    except OSError as exc:
        msg = f"{path.name} cannot be read: {exc.strerror or exc}"
        raise ValueError(msg) from exc
    except (ValueError, KeyError, TypeError) as exc:
        msg = f"{path.name} is not an output file of trtexec: {exc}"
        raise ValueError(msg) from exc
