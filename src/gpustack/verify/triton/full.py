"""Full check of Triton: throughput and latency as NVIDIA's own client measures them."""

from __future__ import annotations

import re
import shutil

from gpustack.model.results import Measurement
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed
from gpustack.verify.frame.commands import evidence_of
from gpustack.verify.triton.endpoint import Endpoint
from gpustack.verify.triton.smoke import of_model

_WINDOW_MS = "2000"
_THROUGHPUT = re.compile(r"Throughput: ([\d.]+) infer/sec")
_LATENCY = re.compile(r"Avg latency: ([\d.]+) usec")


@check(
    "triton.perf",
    level="full",
    title="throughput and latency",
    expects="NVIDIA's client (perf_analyzer, perf_client for v1) measures the model under test.",
    fix="See its output under 'evidence' in the JSON or HTML report.",
    needs=("triton.infer",),
    limit_s=180,
)
@of_model
def perf(context: Context, found: Endpoint, name: str) -> Outcome:
    is_new = found.protocol == "v2"
    client = "perf_analyzer" if is_new else "perf_client"
    program = shutil.which(client)
    if program is None or context.runner is None:
        return needless(f"{client} is not installed", "`pip install perf-analyzer`" if is_new else "")
    if not found.server.is_direct:
        return needless(f"{client} reaches no server behind a proxy")
    threads = ("--concurrency-range", "1:1") if is_new else ("-t", "1")
    words = (program, "-m", name, "-u", found.server.address, "-p", _WINDOW_MS, *threads)
    end = context.runner.run(words, timeout=150, cwd=context.folder)
    rate, latency = _THROUGHPUT.search(end.out), _LATENCY.search(end.out)
    evidence = evidence_of(end, work=context.work)
    if end.code != 0 or rate is None or latency is None:
        why = end.error or (end.err or end.out).strip()[-300:] or f"exit status {end.code}"
        return failed(f"{client} measured nothing of {name}: {why}", evidence=evidence)
    measured = {
        "throughput": Measurement(value=float(rate[1]), unit="inferences/s"),
        "latency": Measurement(value=float(latency[1]) / 1000, unit="ms"),
    }
    return passed(
        f"{name}: {rate[1]} inferences/s, {latency[1]} microseconds each, one at a time",
        measurements=measured,
        evidence=evidence,
    )
