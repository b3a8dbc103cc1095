"""Smoke checks of the driver: a CUDA context on every GPU, and every list of GPUs beside the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpustack.model.host import Host
from gpustack.system.run import Finished
from gpustack.verify.cuda.errors import explained
from gpustack.verify.declare import Context, Outcome, check, errored, failed, needless, passed, skipped
from gpustack.verify.driver.nvml import health
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of
from gpustack.verify.frame.probes import bus, gpu_called, lines_of, python_probe

PROC_GPUS = Path("/proc/driver/nvidia/gpus")


@check(
    "driver.context",
    level="smoke",
    title="a CUDA context on every GPU",
    expects="libcuda initialises, and every GPU takes a context, memory and a copy.",
    mends="See the error's own cure; else look at `sudo dmesg` for NVRM and Xid lines.",
    needs=("driver.module",),
    unless=(host_facts.no_gpu,),
    limit_s=120.0,
)
def contexts(context: Context) -> Outcome:
    end = _probe(context)
    lines = {line["step"]: line for line in lines_of(end.out) if line.get("step") not in {"begin", "end"}}
    evidence = evidence_of(end, work=context.work)
    broken = _before_gpus(context, lines, end, evidence)
    if broken is not None:
        return broken
    begun = [line for line in lines_of(end.out) if line.get("step") == "begin"]
    ended = {line["gpu"]: line for line in lines_of(end.out) if line.get("step") == "end"}
    for line in begun:
        done = ended.get(line["gpu"])
        called = gpu_called(context.host, line)
        if done is None:
            return failed(
                f"{called} does not answer: the context was not there within {end.seconds:.0f} s",
                "look for Xid and RmInitAdapter lines in `sudo dmesg`; end what uses the GPU and reset it, or reboot",
                evidence=evidence,
            )
        if done["code"]:
            cause, fix = explained(done["code"], context, done["name"])
            return failed(f"{called}, at {done['at']}: {cause}", fix, evidence=evidence)
        if done["at"]:
            return failed(f"{called} returns other bytes than were written", "have it replaced", evidence=evidence)
    return passed(
        f"CUDA {_spelled(lines['count']['cuda'])} through {lines['load'].get('library') or 'libcuda.so.1'}: "
        + ", ".join(gpu_called(context.host, line) for line in begun),
        actual=f"{len(begun)} GPUs",
        evidence=evidence,
    )


def _probe(context: Context) -> Finished:
    """What libcuda answers; asked once a run."""
    return context.shared.once("cuda-contexts", lambda: python_probe(context, "cuda_contexts.py", timeout=100.0))


def _before_gpus(context: Context, lines: dict[str, Any], end: Finished, evidence: dict[str, str]) -> Outcome | None:
    """What went wrong before any GPU was touched; None if nothing did."""
    load = lines.get("load")
    if load is not None and "error" in load:
        return _not_loaded(context.host, str(load["error"]), evidence)
    if load is None or "init" not in lines:
        if end.code is None:
            return failed(
                f"libcuda does not come back from cuInit: {end.error}",
                "the driver hangs: look for Xid lines in `sudo dmesg`, then reboot",
                evidence=evidence,
            )
        return errored("the probe of libcuda broke before cuInit", evidence=evidence)
    for step in ("init", "count"):
        code = lines.get(step, {}).get("code", 0)
        if code:
            cause, fix = explained(code, context, lines[step]["name"])
            hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
            told = f"; CUDA_VISIBLE_DEVICES is {hidden!r}" if code in {100, 101} and hidden is not None else ""
            return failed(f"CUDA answers with {cause}{told}", fix, actual=f"error {code}", evidence=evidence)
    if not lines["count"]["count"]:
        cause, fix = explained(100, context)
        return failed(f"CUDA answers with {cause}", fix, evidence=evidence)
    return None


def _not_loaded(host: Host, words: str, evidence: dict[str, str]) -> Outcome:
    if host.environment == "container":
        return failed(
            f"the container was not given the driver library: {words}",
            "start it with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES holding `compute`",
            evidence=evidence,
        )
    return failed(f"the driver library cannot be loaded: {words}", "`gpustack install driver`", evidence=evidence)


def _spelled(number: int) -> str:
    """CUDA's own way of counting: 13000 is 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


@check(
    "driver.lists",
    level="smoke",
    title="bus, kernel module, NVML and CUDA list the same GPUs",
    expects="Every GPU on the bus is known to the kernel module, NVML and CUDA, under one UUID.",
    mends="Look for the missing GPU's bus address in `sudo dmesg`.",
    needs=("driver.context",),
    unless=(host_facts.no_gpu,),
    limit_s=60.0,
)
def lists(context: Context) -> Outcome:
    found = health(context)
    begun = [line for line in lines_of(_probe(context).out) if line.get("step") == "begin"]
    by_cuda = {bus(str(line.get("bus"))): str(line.get("uuid", "")) for line in begun}
    by_nvml = {bus(gpu.bus_id): (gpu.uuid or "").removeprefix("GPU-") for gpu in found.gpus if not gpu.error}
    by_module = _of_proc(PROC_GPUS)
    on_bus = {bus(gpu.bus_id) for gpu in host_facts.own_gpus(context.host) if gpu.bus_id}
    if context.host.environment == "wsl":
        return needless("inside WSL the GPUs are not on the PCI bus")
    if not by_nvml:
        return skipped("NVML lists no GPU to compare with")
    lost = [gpu for gpu in found.gpus if gpu.error]
    if lost:
        return failed(
            f"NVML knows of GPU {', '.join(str(gpu.index) for gpu in lost)} but cannot reach it: {lost[0].error}",
            "it fell off the bus: look for its Xid 79 line in `sudo dmesg`; only a cold start brings it back",
        )
    seen = {"bus": on_bus, "kernel module": set(by_module), "NVML": set(by_nvml), "CUDA": set(by_cuda)}
    told = _differences(context, seen)
    if told:
        return told
    for place, uuid in by_nvml.items():
        others = {name: seen.get(place, "") for name, seen in (("CUDA", by_cuda), ("the kernel module", by_module))}
        wrong = [f"{name} calls it {other}" for name, other in others.items() if other and other != uuid]
        # CUDA names a MIG instance where the GPU is divided, and some modules show no UUID before the first use.
        mig = next((gpu.mig for gpu in found.gpus if bus(gpu.bus_id) == place), None)
        if wrong and not mig and not any("?" in one for one in wrong):
            return failed(f"the GPU at {place} is {uuid} for NVML, but {' and '.join(wrong)}", "`sudo reboot`")
    return passed(", ".join(f"{place} is GPU-{uuid}" for place, uuid in by_nvml.items()), actual=f"{len(by_nvml)} GPUs")


def _of_proc(folder: Path) -> dict[str, str]:
    """Place on the bus and UUID of each GPU by the kernel module's own files."""
    found: dict[str, str] = {}
    try:
        for one in sorted(folder.iterdir()):
            text = (one / "information").read_text(encoding="utf-8", errors="replace")
            fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            found[bus(one.name)] = fields.get("GPU UUID", "").strip().removeprefix("GPU-")
    except OSError:
        return found
    return found


def _differences(context: Context, seen: dict[str, set[str]]) -> Outcome | None:
    """Which list lacks a GPU that others have; a list that is empty is one that cannot be read here."""
    everywhere = set().union(*seen.values())
    for name, places in seen.items():
        missing = sorted(everywhere - places)
        if not places or not missing:
            continue
        if name == "bus":
            return needless(f"the bus shown here is not that of the GPUs: it lacks {', '.join(missing)}")
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        if name == "CUDA" and hidden is not None:
            return failed(
                f"CUDA does not see {', '.join(missing)}: CUDA_VISIBLE_DEVICES is {hidden!r}",
                "unset CUDA_VISIBLE_DEVICES to prove the whole machine",
            )
        if context.host.environment == "container":
            return needless(f"the container was given {len(places)} of {len(everywhere)} GPUs")
        return failed(
            f"{name} does not list the GPU at {', '.join(missing)}",
            "look for RmInitAdapter and Xid lines at that address in `sudo dmesg`",
        )
    return None
