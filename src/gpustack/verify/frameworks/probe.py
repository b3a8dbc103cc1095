"""Runs the probe in a framework's own interpreter, and judges what it writes."""

from __future__ import annotations

import os
from array import array
from typing import Any

from gpustack.model.results import Measurement
from gpustack.system.run import Finished
from gpustack.verify import samples
from gpustack.verify.cuda.errors import explain
from gpustack.verify.declare import Context, Outcome, errored, failed, passed
from gpustack.verify.frame.commands import describe_end, evidence_of
from gpustack.verify.frame.probes import parse_lines
from gpustack.verify.frameworks.places import TITLES, interpreter_of

_LIMITS = {"smoke": 240.0, "full": 540.0}
LARGE = 8192
"""Rows of the matrices for rates, as in samples/framework_full.py, which runs in another interpreter."""

_OLD_DRIVER = 35
"""CUDA_ERROR_INSUFFICIENT_DRIVER."""


def prove(context: Context, component: str, level: str) -> Outcome:
    """Import the framework in its interpreter and use it on every GPU."""
    python = interpreter_of(context, component)
    if isinstance(python, Outcome):
        return python
    script, *_ = samples.place(context.folder, "framework_probe.py", "framework_full.py")
    files = _digits(context) if component == "onnxruntime-gpu" else ()
    if component == "onnxruntime-gpu" and level == "full":
        files += _squares(context)
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    end = context.run(python, str(script), component, level, *files, timeout=_LIMITS[level], env=environment)
    return judge(context, component, python, end)


def _digits(context: Context) -> tuple[str, ...]:
    """The digits network, its pictures and its known answers as files."""
    from gpustack.verify.tensorrt.onnx import digits_model, load_digits  # noqa: PLC0415 (reads the network)

    digits = load_digits()
    pixels = array("f", (value / 255 for picture in digits.pictures for value in picture))
    answers = array("f", (value for row in digits.probabilities for value in row))
    contents = {
        "digits.onnx": digits_model(digits.weights),
        "pictures.f32": pixels.tobytes(),
        "answers.f32": answers.tobytes(),
    }
    for name, data in contents.items():
        (context.folder / name).write_bytes(data)
    return tuple(str(context.folder / name) for name in contents)


def _squares(context: Context) -> tuple[str, ...]:
    """The models of large products, by their number format."""
    from gpustack.verify.tensorrt.onnx import square_model  # noqa: PLC0415 (reads the network)

    found = []
    for called, kind in (("fp32", "float32"), ("fp16", "float16")):
        place = context.folder / f"square-{called}.onnx"
        place.write_bytes(square_model(kind, LARGE))
        found.append(f"{called}={place}")
    return tuple(found)


def judge(context: Context, component: str, python: str, end: Finished) -> Outcome:
    """The outcome by the lines of the probe."""
    lines = parse_lines(end.out)
    steps = {str(line.get("step")): line for line in lines}
    evidence = evidence_of(end, work=context.work)
    called = TITLES[component]
    imported = steps.get("imported")
    if end.code is None and not lines:
        return errored(f"{python} gave no answer: {end.error}", evidence=evidence)
    broken = _broken(called, steps, end, evidence)
    if broken is not None:
        return broken
    if imported is None:
        return failed(f"the probe of {called} {describe_end(end)}", evidence=evidence)
    where = f"{called} {imported['version']} in {python}"
    if not imported.get("cuda"):
        return failed(
            f"{where} is built without CUDA",
            f"replace it by a build with CUDA: `gpustack plan {component} --method pip` names one for this host",
            evidence=evidence,
        )
    if not steps.get("devices", {}).get("count"):
        return _no_device(context, where, imported, steps.get("driver", {}), evidence)
    return _computed(where, lines, evidence)


def _broken(called: str, steps: dict[str, dict[str, Any]], end: Finished, evidence: dict[str, str]) -> Outcome | None:
    """A probe that did not come to its end: no import, an error, a crash, no time."""
    wrong, last = steps.get("failed"), steps.get("uses")
    at = f" on {last['called']}" if last is not None else ""
    if wrong is not None and "imported" not in steps:
        return failed(
            f"{called} cannot be imported: {wrong['kind']}: {wrong['error']}",
            "`gpustack detect` lists what is wrong in each environment",
            evidence=evidence,
        )
    if wrong is not None:
        return failed(f"{called} fails{at}: {wrong['kind']}: {wrong['error']}", _kernel_fix(wrong), evidence=evidence)
    if "end" in steps:
        return None
    if end.code is None:
        return failed(
            f"{called} does not end{at}: {end.error}",
            "check `sudo dmesg` for Xid messages; stop other programs on the GPU",
            evidence=evidence,
        )
    return failed(f"{called}{at} {describe_end(end)}", "check `sudo dmesg` for Xid messages", evidence=evidence)


def _kernel_fix(wrong: dict[str, Any]) -> str:
    if "no kernel image" in f"{wrong['error']} {wrong['last']}":
        return "install a build that contains code for this GPU: `gpustack detect` lists the code inside it"
    if "cuDNN version incompatibility" in wrong["error"]:
        return "take the folder with the other cuDNN out of LD_LIBRARY_PATH: torch then loads the one that it came with"
    return "`gpustack verify cuda --level smoke` shows whether CUDA itself works"


def _no_device(
    context: Context, where: str, imported: dict[str, Any], driver: dict[str, Any], evidence: dict[str, str]
) -> Outcome:
    """Why a build with CUDA sees no GPU: what libcuda answers tells the causes apart."""
    if "error" in driver:
        return failed(
            f"{where} sees no GPU: there is no driver library to load ({driver['error']})",
            "install the driver: `gpustack install driver`; in a container start it with `--gpus all`",
            evidence=evidence,
        )
    if driver.get("code"):
        cause, fix = explain(int(driver["code"]), context, str(driver.get("name", "")))
        return failed(f"{where} sees no GPU: CUDA answers {cause}", fix, evidence=evidence)
    has, needs = int(driver.get("cuda", 0)) // 1000, str(imported["cuda"]).partition(".")[0]
    if needs.isdecimal() and has and has < int(needs):
        cause, fix = explain(_OLD_DRIVER, context)
        return failed(f"{where} is built for CUDA {imported['cuda']}, the driver has CUDA {has}: {cause}", fix,
                      evidence=evidence)  # fmt: skip
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        return failed(
            f"{where} sees no GPU: CUDA_VISIBLE_DEVICES is {hidden!r}",
            "unset CUDA_VISIBLE_DEVICES, or let it name GPUs that this host has",
            evidence=evidence,
        )
    return failed(
        f"{where} sees no GPU, although CUDA lists {driver.get('count', 0)}",
        "`gpustack detect` lists what is wrong in each environment",
        evidence=evidence,
    )


def _computed(where: str, lines: list[dict[str, Any]], evidence: dict[str, str]) -> Outcome:
    fallback = next((line for line in lines if line.get("step") == "fallback"), None)
    if fallback is not None:
        return failed(
            f"{where} falls back to the CPU: its provider for CUDA does not load",
            "`gpustack detect` lists the libraries that it needs and that are missing",
            evidence=evidence,
        )
    done = [line for line in lines if "wrong" in line]
    bad = next((line for line in done if line["wrong"]), None)
    if bad is not None:
        return failed(
            f"{where} computed wrong results on {bad['called']}: {bad['wrong']:,} of {bad['of']:,} ({bad['step']})",
            "`gpustack verify driver --level full` checks the GPU's memory; install the framework again",
            evidence=evidence,
        )
    gpus = dict.fromkeys(str(line["called"]) for line in done)
    numbers = {line["gpu"] for line in done}
    rates = {
        f"{line['kind']}-gpu{line['gpu']}": Measurement(value=line["tflops"], unit="TFLOP/s")
        for line in done
        if "tflops" in line
    }
    omitted = "".join(f"; {line['what']} omitted: {line['error']}" for line in lines if line.get("step") == "omitted")
    kinds = ", ".join(dict.fromkeys(str(line.get("kind", line["step"])) for line in done))
    detail = (
        f"{where}: {kinds} correct on {len(numbers)} GPU{'s' if len(numbers) > 1 else ''} ({', '.join(gpus)}){omitted}"
    )
    return passed(detail, actual=f"{len(numbers)} GPUs", measurements=rates, evidence=evidence)
