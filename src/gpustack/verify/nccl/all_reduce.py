"""An all-reduce over all GPUs: built, run, and what its sums and NCCL's messages mean."""

from __future__ import annotations

import re

from gpustack.model.results import Measurement
from gpustack.system.run import Finished
from gpustack.verify.cuda.build import build, stops_at
from gpustack.verify.cuda.errors import explain
from gpustack.verify.cuda.toolchain import find_homes
from gpustack.verify.declare import Context, Outcome, errored, failed, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import describe_end, evidence_of, first_line
from gpustack.verify.frame.probes import parse_lines
from gpustack.verify.nccl.quick import INSTALL

DEBUG = "Run `NCCL_DEBUG=WARN gpustack verify nccl --level smoke --format json`; NCCL's log is in 'evidence'."


def run(context: Context, mib: int) -> Outcome:
    """Build the program and run it; it measures with buffers of ``mib`` MiB, or not at all for 0."""
    home = next(iter(find_homes(context, "nccl.h", "libnccl", "nccl")), None)
    if home is None:
        return skipped("no nccl.h with its library was found to build with", INSTALL)
    built = build(context, "allreduce.cu", home)
    if isinstance(built, Outcome):
        return built
    env = {"NCCL_DEBUG": "WARN", **built.environment}
    end = context.run(str(built.program), str(mib), timeout=120.0, env=env)
    stop = None if host_facts.own_gpus(context.host) else stops_at(end)
    if stop is not None:
        return passed(f"{home.library}: {stop}", evidence=evidence_of(built.end, end, work=context.work))
    return judge(context, end)


def judge(context: Context, end: Finished) -> Outcome:
    """Judge the program's output."""
    evidence = evidence_of(end, work=context.work)
    lines = parse_lines(end.out)
    head = next((line for line in lines if "header" in line), None)
    broken = next((line for line in lines if "step" in line), None)
    if broken is not None and str(broken["step"]).startswith("cuda "):
        cause, fix = explain(int(broken["code"]), context, str(broken["name"]))
        return failed(f"CUDA fails before NCCL is used: {cause}", fix, evidence=evidence)
    if broken is not None:
        warning = next((line.partition("WARN ")[2] for line in (end.out + end.err).splitlines() if "WARN " in line), "")
        said = f": {warning}" if warning else ""
        return failed(f"NCCL fails with {broken['name']!r}{said}", _fix(warning), evidence=evidence)
    absent = re.search(r"error while loading shared libraries: (\S+):", end.err)
    if absent:
        return failed(
            f"the loader does not find {absent[1]}",
            f"reinstall NCCL: {INSTALL}; after unpacking an archive run `sudo ldconfig`"
            if "nccl" in absent[1]
            else "install the library, or add its folder to /etc/ld.so.conf.d and run `sudo ldconfig`",
            evidence=evidence,
        )
    if head is None or end.code is None:
        return errored(f"the all-reduce produced no output: {end.error or first_line(end)}", evidence=evidence)
    if int(head["library"]) < int(head["header"]):
        return failed(
            f"programs built with NCCL {version_text(head['header'])} load the older {version_text(head['library'])}",
            "keep one NCCL on the loader's path",
            evidence=evidence,
        )
    sums = [line for line in lines if "wrong" in line]
    bad = [line for line in sums if line["wrong"]]
    if not bad and (not sums or end.code != 0):
        return failed(f"the all-reduce program {describe_end(end)}", evidence=evidence)
    if bad:
        which = ", ".join(str(line["gpu"]) for line in bad)
        return failed(
            f"the sum is wrong on GPU {which}",
            "check the GPUs: `gpustack verify driver --level full`",
            evidence=evidence,
        )
    values = {
        str(line["name"]): Measurement(value=line["value"], unit=line["unit"]) for line in lines if "value" in line
    }
    measured = ", ".join(f"{name} {float(one.value):.4g} {one.unit}" for name, one in values.items())
    return passed(
        f"NCCL {version_text(head['library'])}: correct sums on {len(sums)} GPU{'s' if len(sums) > 1 else ''}"
        f"{f'; {measured}' if measured else ''}",
        actual=version_text(head["library"]),
        measurements=values,
        evidence=evidence,
    )


def version_text(number: int) -> str:
    """The version of NCCL's number: 2804 is 2.8.4, and from 2.9 on 22809 is 2.28.9."""
    if number >= 10000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


def _fix(warning: str) -> str:
    if "shared memory" in warning.lower() or "/shm" in warning:
        return "enlarge /dev/shm: start the container with `--shm-size=1g` or `--ipc=host`"
    return DEBUG
