"""Smoke checks of the driver: a CUDA context on every GPU, and every list of GPUs compared with the others."""

import os
from pathlib import Path
from typing import Any

from gpustack.model.host import Host
from gpustack.system.run import Finished
from gpustack.verify.cuda.errors import explain
from gpustack.verify.declare import Context, Outcome, check, errored, failed, needless, passed, skipped
from gpustack.verify.driver.nvml import read_health
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import describe_end, evidence_of
from gpustack.verify.frame.probes import bus, gpu_label, parse_lines, python_probe

PROC_GPUS = Path("/proc/driver/nvidia/gpus")


@check(
    "driver.context",
    level="smoke",
    title="a CUDA context on every GPU",
    expects="libcuda initializes, and a context, an allocation and a copy succeed on every GPU.",
    fix="Follow the fix shown with the error; otherwise check `sudo dmesg` for NVRM and Xid messages.",
    needs=("driver.module",),
    unless=(host_facts.no_gpu,),
    limit_s=120.0,
)
def contexts(context: Context) -> Outcome:
    end = probe_cuda(context)
    lines = {line["step"]: line for line in parse_lines(end.out) if line.get("step") in {"load", "init", "count"}}
    evidence = evidence_of(end, work=context.work)
    broken = _before_gpus(context, lines, end, evidence)
    if broken is not None:
        return broken
    begun = [line for line in parse_lines(end.out) if line.get("step") == "begin"]
    ended = {line["gpu"]: line for line in parse_lines(end.out) if line.get("step") == "end"}
    for line in begun:
        done = ended.get(line["gpu"])
        called = gpu_label(context.host, line)
        if done is None:
            return failed(
                f"{called} does not respond: no context was created within {end.seconds:.0f} s",
                "check `sudo dmesg` for Xid and RmInitAdapter messages; stop the programs on that GPU and reset it, or"
                " reboot",
                evidence=evidence,
            )
        if done["code"]:
            cause, fix = explain(done["code"], context, done["name"])
            return failed(f"{called}, {done['at']}: {cause}", fix, evidence=evidence)
        if done["at"]:
            return failed(f"{called} returns corrupted data", "replace the GPU", evidence=evidence)
    return passed(
        f"CUDA {_version_text(lines['count']['cuda'])} through {lines['load'].get('library') or 'libcuda.so.1'}: "
        + ", ".join(gpu_label(context.host, line) for line in begun),
        actual=f"{len(begun)} GPUs",
        evidence=evidence,
    )


def probe_cuda(context: Context) -> Finished:
    """What libcuda reports; the probe runs once."""
    return context.shared.once(
        "cuda-contexts", lambda: python_probe(context, "cuda_contexts.py", timeout=100.0, beside=("sums.ptx",))
    )


def _before_gpus(context: Context, lines: dict[str, Any], end: Finished, evidence: dict[str, str]) -> Outcome | None:
    """What went wrong before any GPU was used; None if nothing did."""
    load = lines.get("load")
    if load is not None and "error" in load:
        return _not_loaded(context.host, str(load["error"]), evidence)
    if load is None or "init" not in lines:
        if end.code is None:
            return failed(
                f"cuInit did not return: {end.error}",
                "the driver hangs: check `sudo dmesg` for Xid messages, then reboot",
                evidence=evidence,
            )
        if load is None and end.code < 0:
            return _damaged(context.host, describe_end(end), evidence)
        return errored("the probe of libcuda failed before cuInit", evidence=evidence)
    for step in ("init", "count"):
        code = lines.get(step, {}).get("code", 0)
        if code:
            cause, fix = explain(code, context, lines[step]["name"])
            hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
            hint = f"; CUDA_VISIBLE_DEVICES is {hidden!r}" if code in {100, 101} and hidden is not None else ""
            return failed(f"CUDA reports {cause}{hint}", fix, actual=f"error {code}", evidence=evidence)
    if not lines["count"]["count"]:
        cause, fix = explain(100, context)
        return failed(f"CUDA reports {cause}", fix, evidence=evidence)
    return None


def _not_loaded(host: Host, words: str, evidence: dict[str, str]) -> Outcome:
    if host.environment == "container":
        return failed(
            f"the driver library is not available in this container: {words}",
            "start it with `--gpus all` and `compute` in NVIDIA_DRIVER_CAPABILITIES",
            evidence=evidence,
        )
    return failed(f"the driver library cannot be loaded: {words}", "`gpustack install driver`", evidence=evidence)


def _damaged(host: Host, ended: str, evidence: dict[str, str]) -> Outcome:
    """A library that ends the program which loads it: its file is cut off, or its pages cannot be read."""
    fix = "recreate the container: its driver library comes from the host; reinstall the driver there if it fails too"
    return failed(
        f"a program that loads the driver library {ended}: the file is damaged, as a full disk leaves it",
        fix if host.environment == "container" else "`df -h` shows whether a disk is full; reinstall the driver",
        evidence=evidence,
    )


def _version_text(number: int) -> str:
    """The version of CUDA's number: 13000 is 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


@check(
    "driver.lists",
    level="smoke",
    title="PCI bus, kernel module, NVML and CUDA list the same GPUs",
    expects="The kernel module, NVML and CUDA list every GPU on the PCI bus, with the same UUID.",
    fix="Check `sudo dmesg` for the missing GPU's bus address.",
    needs=("driver.context",),
    unless=(host_facts.no_gpu,),
    limit_s=60.0,
)
def lists(context: Context) -> Outcome:
    found = read_health(context)
    begun = [line for line in parse_lines(probe_cuda(context).out) if line.get("step") == "begin"]
    by_cuda = {bus(str(line.get("bus"))): str(line.get("uuid", "")) for line in begun}
    by_nvml = {bus(gpu.bus_id): (gpu.uuid or "").removeprefix("GPU-") for gpu in found.gpus if not gpu.error}
    by_module = _read_proc(PROC_GPUS)
    on_bus = {bus(gpu.bus_id) for gpu in host_facts.own_gpus(context.host) if gpu.bus_id}
    if context.host.environment == "wsl":
        return needless("in WSL the GPUs are not on the PCI bus")
    if not by_nvml:
        return skipped("NVML lists no GPU to compare with")
    lost = [gpu for gpu in found.gpus if gpu.error]
    if lost:
        return failed(
            f"NVML lists GPU {', '.join(str(gpu.index) for gpu in lost)} but cannot reach it: {lost[0].error}",
            "the GPU fell off the bus: check `sudo dmesg` for Xid 79; only a power cycle restores it",
        )
    seen = {"bus": on_bus, "kernel module": set(by_module), "NVML": set(by_nvml), "CUDA": set(by_cuda)}
    difference = _differences(context, seen)
    if difference:
        return difference
    for place, uuid in by_nvml.items():
        others = {name: seen.get(place, "") for name, seen in (("CUDA", by_cuda), ("the kernel module", by_module))}
        wrong = [f"{name} reports {other}" for name, other in others.items() if other and other != uuid]
        # CUDA reports a MIG instance where the GPU is partitioned, and some modules show no UUID before the first use.
        mig = next((gpu.mig for gpu in found.gpus if bus(gpu.bus_id) == place), None)
        if wrong and not mig and not any("?" in one for one in wrong):
            return failed(
                f"NVML reports UUID {uuid} for the GPU at {place}, but {' and '.join(wrong)}", "`sudo reboot`"
            )
    return passed(", ".join(f"{place} is GPU-{uuid}" for place, uuid in by_nvml.items()), actual=f"{len(by_nvml)} GPUs")


def _read_proc(folder: Path) -> dict[str, str]:
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
    """Which list lacks a GPU that others have; an empty list could not be read."""
    everywhere = set().union(*seen.values())
    for name, places in seen.items():
        missing = sorted(everywhere - places)
        if not places or not missing:
            continue
        if name == "bus":
            return needless(f"the visible PCI bus does not have the GPUs at {', '.join(missing)}")
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        if name == "CUDA" and hidden is not None:
            return failed(
                f"CUDA does not see {', '.join(missing)}: CUDA_VISIBLE_DEVICES is {hidden!r}",
                "unset CUDA_VISIBLE_DEVICES to verify the whole machine",
            )
        if context.host.environment == "container":
            return needless(f"the container has {len(places)} of {len(everywhere)} GPUs")
        return failed(
            f"{name} does not list the GPU at {', '.join(missing)}",
            "check `sudo dmesg` for RmInitAdapter and Xid messages at that address",
        )
    return None
