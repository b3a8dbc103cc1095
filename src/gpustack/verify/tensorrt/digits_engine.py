"""An engine of the digits network: built, run, its outputs compared, and loaded again in a new process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from gpustack.model.results import Measurement
from gpustack.system.run import Finished
from gpustack.triton.engine import read_engine
from gpustack.verify.declare import Context
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of
from gpustack.verify.tensorrt import trtexec
from gpustack.verify.tensorrt.error_texts import choose_message
from gpustack.verify.tensorrt.libraries import Binding, failure_reason, run_child
from gpustack.verify.tensorrt.onnx import INPUT, OUTPUT, Digits, digits_model, load_digits

TOLERANCE = 0.02
"""How far a probability may differ from the reference: fast paths of GPUs (TF32) round more than the reference does."""


MODEL, NETWORK = "digits.onnx", "digits"


class Built(Struct, frozen=True, kw_only=True):
    """How a build or run ended: ``fault`` is empty on success."""

    engine: Path
    fault: str = ""
    messages: tuple[str, ...] = ()
    measurements: dict[str, Measurement] = {}
    evidence: dict[str, str] = {}


def write_model(folder: Path, batch: int = 1) -> tuple[Path, Path, Digits]:
    """Write the network and its input images into ``folder``: the ONNX file, the floats, and what they mean."""
    digits = load_digits()
    model, floats = folder / MODEL, folder / "pictures.f32"
    model.write_bytes(digits_model(digits.weights, batch))
    count = -(-len(digits.pictures) // batch) * batch
    chosen = [digits.pictures[place % len(digits.pictures)] for place in range(count)]
    floats.write_bytes(b"".join(as_floats(one) for one in chosen))
    return model, floats, digits


def as_floats(picture: bytes) -> bytes:
    """An image of bytes as the network expects it: 32-bit floats from 0 to 1."""
    from array import array  # noqa: PLC0415 (only here)

    return array("f", [value / 255 for value in picture]).tobytes()


def keep_engine(context: Context, built: Built, kind: str, capability: str) -> str:
    """Keep the engine and its ONNX file in the user's folder: a sentence on it, "" without a folder.

    Raises OSError if that folder cannot be written.
    """
    given = context.given.get("artifacts")
    if not given:
        return ""
    from gpustack.triton.artifacts import keep_file  # noqa: PLC0415 (seldom requested)

    folder, read = Path(given), read_engine(built.engine)
    keep_file(folder, built.engine.parent / MODEL, "onnx", NETWORK)
    place = keep_file(folder, built.engine, kind, NETWORK, version=read.version, capability=capability)
    return f"; kept as {place}"


def build_by_python(context: Context, binding: Binding, folder: Path, **request: Any) -> Built:  # noqa: ANN401 (what the child takes)
    """Build the engine with a Python module of TensorRT, in a child process."""
    model, _, _ = write_model(folder, request.pop("batch", 1))
    engine = folder / request.pop("name", "digits.engine")
    request = {"do": "build", "module": binding.module, "onnx": str(model), "engine": str(engine), **request}
    answer, end = run_child(context, binding.python, request, timeout=600)
    evidence = evidence_of(end, work=context.work)
    if answer is None:
        return Built(engine=engine, fault=failure_reason(end), evidence=evidence)
    messages = tuple(answer["messages"])
    if not answer["ok"]:
        return Built(engine=engine, fault=choose_message(messages), messages=messages, evidence=evidence)
    measured = {
        "build": Measurement(value=round(answer["seconds"], 3), unit="s"),
        "engine": Measurement(value=answer["bytes"], unit="bytes"),
    }
    return Built(engine=engine, messages=messages, measurements=measured, evidence=evidence)


def run_by_python(context: Context, binding: Binding, engine: Path, folder: Path) -> Built:
    """Load the engine in a new process, run it on every image, and compare the outputs."""
    _, floats, digits = write_model(folder)
    request = {
        "do": "run",
        "module": binding.module,
        "engine": str(engine),
        "input": str(floats),
        "input_name": INPUT,
        "output_name": OUTPUT,
        "batch": 1,
    }
    answer, end = run_child(context, binding.python, request, timeout=120)
    evidence = evidence_of(end, work=context.work)
    if answer is None:
        return Built(engine=engine, fault=failure_reason(end), evidence=evidence)
    if not answer["ok"]:
        return Built(
            engine=engine,
            fault=choose_message(answer["messages"]),
            messages=tuple(answer["messages"]),
            evidence=evidence,
        )
    worst, fault = compare_outputs(answer["outputs"], digits)
    measured = {
        "load": Measurement(value=round(answer["load_seconds"], 3), unit="s"),
        "largest_difference": Measurement(value=float(f"{worst:.3g}")),
    }
    return Built(engine=engine, fault=fault, measurements=measured, evidence=evidence)


def compare_outputs(outputs: list[list[float]], digits: Digits) -> tuple[float, str]:
    """The largest difference from the reference, and what is wrong with the outputs ("" if nothing is)."""
    worst = 0.0
    for place, (got, wanted) in enumerate(zip(outputs, digits.probabilities, strict=False)):
        if len(got) != len(wanted):
            return worst, f"an output has {len(got)} values instead of {len(wanted)}"
        difference = max(abs(a - b) for a, b in zip(got, wanted, strict=True))
        if not difference <= TOLERANCE:  # NaN is not an answer either
            read = max(range(len(got)), key=lambda digit, values=got: values[digit])  # type: ignore[misc]
            return difference, (
                f"the engine recognizes image {place} as {read} instead of {digits.labels[place]} (probabilities"
                " differ by"
                f" {difference:.3g})"
            )
        worst = max(worst, difference)
    if len(outputs) < len(digits.probabilities):
        return worst, f"only {len(outputs)} of {len(digits.probabilities)} images have an output"
    return worst, ""


def load_by_python(context: Context, binding: Binding, engine: Path) -> Built:
    """Load an engine in a process of its own and run nothing."""
    request = {"do": "read", "module": binding.module, "engine": str(engine)}
    answer, end = run_child(context, binding.python, request, timeout=120)
    evidence = evidence_of(end, work=context.work)
    if answer is None:
        return Built(engine=engine, fault=failure_reason(end), evidence=evidence)
    messages = tuple(answer["messages"])
    return Built(
        engine=engine, fault="" if answer["ok"] else choose_message(messages), messages=messages, evidence=evidence
    )


def find_trtexec(context: Context) -> Path | None:
    """The trtexec of this machine: on PATH, else where packages and archives install it."""
    import shutil  # noqa: PLC0415 (only here)

    given = context.given.get("trtexec") or shutil.which("trtexec")
    if given:
        return Path(given)
    folders = [path for pattern in trtexec.FOLDERS for path in sorted(Path("/").glob(pattern.lstrip("/")))]
    return trtexec.find(tuple(folders))


def release_of(context: Context, program: Path) -> str:
    """The version in trtexec's first line, else that of the installed packages; "" where it is unknown."""
    release = trtexec.read(context.run(str(program), "--help", timeout=60).out).version
    return release or host_facts.installed_version(context.host, "tensorrt") or ""


def build_by_trtexec(context: Context, program: Path, release: str, folder: Path) -> tuple[Built, trtexec.Said]:
    """Build the engine with trtexec."""
    model, _, _ = write_model(folder)
    engine = folder / "digits.engine"
    end = context.run(str(program), *trtexec.build_words(str(model), str(engine), release), timeout=600)
    said = trtexec.read(end.out + end.err)
    fault = trtexec_fault(end, said)
    if not fault and not engine.is_file():
        fault = "trtexec reported success, but wrote no engine"
    measured = {}
    if not fault:
        measured["engine"] = Measurement(value=engine.stat().st_size, unit="bytes")
    if said.built_s is not None:
        measured["build"] = Measurement(value=said.built_s, unit="s")
    evidence = evidence_of(end, work=context.work)
    return Built(engine=engine, fault=fault, messages=said.errors, measurements=measured, evidence=evidence), said


def trtexec_fault(end: Finished, said: trtexec.Said) -> str:
    """Why a run of trtexec failed, by its messages; "" where it succeeded."""
    if said.has_passed and end.code == 0:
        return ""
    if end.code is None:
        return end.error
    words = (
        choose_message(f"ERROR: {one}" for one in said.errors).removeprefix("ERROR: ")
        if said.errors
        else failure_reason(end)
    )
    return f"trtexec {said.state or 'stopped without a result'}: {words}"


def run_by_trtexec(context: Context, program: Path, release: str, engine: Path, folder: Path) -> Built:
    """Load the engine with trtexec for one image and compare its output file."""
    _, _, digits = write_model(folder)
    one, output = folder / "picture.f32", folder / "output.json"
    one.write_bytes(as_floats(digits.pictures[0]))
    words = trtexec.run_words(str(engine), release, inputs=f"{INPUT}:{one}", output=str(output))
    end = context.run(str(program), *words, timeout=120)
    said = trtexec.read(end.out + end.err)
    evidence = evidence_of(end, work=context.work)
    fault = trtexec_fault(end, said)
    if fault or not trtexec.writes_outputs(release):
        return Built(engine=engine, fault=fault, messages=said.errors, evidence=evidence)
    try:
        got = trtexec.outputs(output).get(OUTPUT)
    except ValueError as exc:
        return Built(engine=engine, fault=f"trtexec passed, but {exc}", evidence=evidence)
    if got is None:
        return Built(engine=engine, fault=f"trtexec passed, but wrote no output called {OUTPUT}", evidence=evidence)
    first = Digits(
        weights={},
        pictures=digits.pictures[:1],
        labels=digits.labels[:1],
        probabilities=digits.probabilities[:1],
    )
    worst, fault = compare_outputs([got], first)
    measured = {"largest_difference": Measurement(value=float(f"{worst:.3g}"))}
    return Built(engine=engine, fault=fault, measurements=measured, evidence=evidence)
