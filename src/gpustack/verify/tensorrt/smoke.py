"""Smoke checks of TensorRT: an engine built from ONNX, run, its outputs compared, and loaded again."""

from __future__ import annotations

import msgspec

from gpustack.model.results import Measurement
from gpustack.triton.engine import Engine, read_engine
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.tensorrt.digits_engine import (
    Built,
    build_by_python,
    build_by_trtexec,
    find_trtexec,
    keep_engine,
    load_by_python,
    release_of,
    run_by_python,
    run_by_trtexec,
)
from gpustack.verify.tensorrt.error_texts import explain_error
from gpustack.verify.tensorrt.libraries import Binding, find_bindings, find_libraries
from gpustack.verify.tensorrt.quick import INSTALL, version_here

TARGETS = {"7.5": "SM75", "8.0": "SM80", "8.6": "SM86", "8.9": "SM89", "12.0": "SM120"}
"""The compute capabilities that TensorRT-RTX builds for on a machine without a GPU, and its names for them."""


def _failure(built: Built, doing: str) -> Outcome:
    known = explain_error(built.fault)
    return failed(
        f"{doing}: {known.cause}",
        known.fix,
        detail="; ".join(built.messages[:3]),
        measurements=built.measurements,
        evidence=built.evidence,
    )


@check(
    "tensorrt.build",
    level="smoke",
    title="an engine builds from ONNX, runs and reloads",
    expects="TensorRT builds an engine of a small network, and its outputs match the reference.",
    fix="See TensorRT's log under 'evidence' in the JSON or HTML report.",
    needs=("tensorrt.found",),
    unless=(host_facts.no_gpu,),
    limit_s=900,
)
def build(context: Context) -> Outcome:
    module = next((one for one in find_bindings(context) if not one.is_rtx and not one.error), None)
    program = find_trtexec(context)
    if module is None and program is None:
        here = [one for one in find_libraries(context) if one.name == "libnvinfer"]
        if here:
            return skipped(
                f"{here[0].path} was found, but neither trtexec nor the Python module, which build engines",
                "install trtexec (package libnvinfer-bin) or the wheel: `gpustack install tensorrt --method pip`",
            )
        return skipped("no TensorRT was found", INSTALL)
    if program is not None:
        return _by_trtexec(context, str(program), module)
    assert module is not None  # noqa: S101 (one of both is there)
    return _by_python(context, module)


def _by_python(context: Context, module: Binding) -> Outcome:
    made = build_by_python(context, module, context.folder)
    if made.fault:
        return _failure(made, f"building an engine with {module.called}")
    ran = run_by_python(context, module, made.engine, context.folder)
    evidence = {**made.evidence, **ran.evidence}
    measured = {**made.measurements, **ran.measurements}
    if ran.fault:
        return _failure(ran, "running the engine in a new process")
    return _confirm(context, module.called, made, measured, evidence)


def _by_trtexec(context: Context, program: str, module: Binding | None) -> Outcome:
    """Built and run by trtexec, and loaded by the Python module, if it is installed: both must be compatible."""
    from pathlib import Path  # noqa: PLC0415 (only where there is a trtexec)

    path = Path(program)
    release = release_of(context, path) or version_here(context) or ""
    if not release:
        return skipped(f"the TensorRT version of {program} could not be determined", INSTALL)
    made, said = build_by_trtexec(context, path, release, context.folder)
    if made.fault:
        return _failure(made, f"building an engine with {program}")
    ran = run_by_trtexec(context, path, said.version or release, made.engine, context.folder)
    if ran.fault:
        return _failure(ran, f"running the engine with {program}")
    measured = {**made.measurements, **ran.measurements}
    evidence = {**made.evidence, **ran.evidence}
    also = ""
    if module is not None:
        loaded = load_by_python(context, module, made.engine)
        if loaded.fault:
            return _failure(loaded, f"loading the engine of {program} with {module.called}")
        also, evidence = f"; {module.called} loads it as well", {**evidence, **loaded.evidence}
    found = _confirm(context, f"{program} {said.version}".strip(), made, measured, evidence)
    found = msgspec.structs.replace(found, detail=f"{found.detail}{also}" if found.status == "pass" else found.detail)
    if found.status == "pass" and not ran.measurements:
        unread = "; outputs not compared, as trtexec before 7.0 does not write them"
        return msgspec.structs.replace(found, detail=found.detail.replace(", every output correct", unread))
    return found


def _confirm(
    context: Context, maker: str, made: Built, measured: dict[str, Measurement], evidence: dict[str, str]
) -> Outcome:
    """The pass, unless the engine's header differs from what its builder reported."""
    read = read_engine(made.engine)
    if read.fault:
        return failed(f"{maker} built a damaged engine: {read.fault}", evidence=evidence)
    gpu = next(iter(host_facts.own_gpus(context.host)), None)
    kept = keep_engine(context, made, read.kind, (gpu.compute_capability if gpu else None) or "")
    detail = f"{maker}: {read.called}, {read.size} bytes; run in a new process, every output correct{kept}"
    return passed(detail, actual=read.version, measurements=measured, evidence=evidence)


@check(
    "tensorrt.load",
    level="smoke",
    title="engine file loads",
    expects="The TensorRT of this host loads the specified engine file.",
    fix="Rebuild the engine on the host that will run it.",
    needs=("tensorrt.found",),
    unless=(host_facts.no_gpu,),
    limit_s=180,
)
def load(context: Context) -> Outcome:
    given, release = context.given.get("engine"), context.given.get("release")
    if not given or release:
        why = f"the engine file is for Triton {release}" if release else "no engine file was specified"
        return needless(why, "to load one, use `--engine FILE` without --release")
    from pathlib import Path  # noqa: PLC0415 (an engine is seldom given)

    path = Path(given).resolve()
    try:
        read = read_engine(path)
    except OSError as exc:
        return failed(f"{path} cannot be read: {exc.strerror or exc}", "specify an existing, readable file")
    is_rtx = read.kind == "tensorrt-rtx"
    module = next((one for one in find_bindings(context) if one.is_rtx == is_rtx and not one.error), None)
    if module is None:
        wanted = "tensorrt_rtx" if is_rtx else "tensorrt"
        return skipped(
            f"the Python module {wanted}, which loads engines without running them, is not installed", INSTALL
        )
    ended = load_by_python(context, module, path)
    maker = module.called
    if ended.fault:
        return _failure(ended, f"loading {path.name} with {maker}")
    return passed(f"{path.name}: {read.called} loads with {maker}; it was not run", actual=read.version)


@check(
    "tensorrt.rtx",
    level="smoke",
    title="TensorRT-RTX builds engines, with or without a GPU",
    expects="TensorRT-RTX builds an engine for every architecture that it supports, and runs the one for this GPU.",
    fix="See TensorRT-RTX's log under 'evidence' in the JSON or HTML report.",
    needs=("tensorrt.found",),
    limit_s=300,
)
def rtx(context: Context) -> Outcome:
    module = next((one for one in find_bindings(context) if one.is_rtx and not one.error), None)
    if module is None:
        return needless("no TensorRT-RTX was found")
    built: dict[str, Built] = {}
    refused: dict[str, None] = {}
    evidence: dict[str, str] = {}
    for capability, name in TARGETS.items():
        made = build_by_python(context, module, context.folder, targets=[name], name=f"{name}.engine")
        evidence.update({f"{name}: {key}": text for key, text in made.evidence.items()})
        if not made.fault:
            read = read_engine(made.engine)
            if capability not in read.targets or read.fault:
                return _wrong_target(read, capability)
            keep_engine(context, made, read.kind, capability)
            built[capability] = made
            continue
        known = explain_error(made.fault)
        if not known.refusal:
            return _failure(made, f"building an engine for compute capability {capability}")
        refused.setdefault(known.cause)
    measured = {
        f"{name.replace('.', '_')}_{part}": value
        for name, made in built.items()
        for part, value in made.measurements.items()
    }
    if not built:
        return skipped(f"TensorRT-RTX {module.version} supports none of the requested GPUs: {'; '.join(refused)}")
    answer = _run_rtx(context, module, built)
    if isinstance(answer, Outcome):
        return answer
    parts = [f"TensorRT-RTX {module.version} builds for compute capability {', '.join(built)}", *refused, answer]
    return passed("; ".join(parts), actual=module.version, measurements=measured, evidence=evidence)


def _wrong_target(read: Engine, capability: str) -> Outcome:
    """The failure of an engine whose file is not for ``capability``, which was requested."""
    if read.fault:
        return failed(f"TensorRT-RTX built a damaged engine for compute capability {capability}: {read.fault}")
    targets = ", ".join(read.targets) or "none"
    return failed(
        f"TensorRT-RTX built an engine for compute capability {targets} instead of {capability}",
        expected=capability,
        actual=targets,
    )


def _run_rtx(context: Context, module: Binding, built: dict[str, Built]) -> str | Outcome:
    """Run the engine for this host's GPU: a sentence on the result, or the failure."""
    gpus = host_facts.own_gpus(context.host)
    capability = gpus[0].compute_capability if gpus else None
    if capability is None:
        return "not run, as no GPU was found"
    made = built.get(capability) or next(iter(built.values()))
    ran = run_by_python(context, module, made.engine, context.folder)
    if not ran.fault:
        return f"run on {gpus[0].called}, every output correct"
    known = explain_error(ran.fault)
    if known.refusal or capability not in built:
        return f"not run on {gpus[0].called}: {known.cause}"
    return _failure(ran, f"running the engine on {gpus[0].called}")
