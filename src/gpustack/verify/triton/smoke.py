"""Smoke checks of Triton: live, ready, a model ready, one inference with a correct output, statistics and metrics."""

from __future__ import annotations

import functools
from collections.abc import Callable

from gpustack.model.results import Measurement
from gpustack.triton import v1, v2
from gpustack.triton.client import Answer, Server, escaped
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.triton.endpoint import DIGITS, DOUBLE, Endpoint, choose_model, find_endpoint
from gpustack.verify.triton.infer import infer_over_v2
from gpustack.verify.triton.infer_v1 import infer_over_v1
from gpustack.verify.triton.own_server import find_free_ports, find_server, start_server

_KNOWN_ANSWER = "use a model whose outputs are known: `gpustack triton model-store DIR --digits`"


def _of_server(look: Callable[[Context, Endpoint], Outcome]) -> Callable[[Context], Outcome]:
    """A check of the specified server, whose protocol is detected first."""

    @functools.wraps(look)
    def ask(context: Context) -> Outcome:
        found = find_endpoint(context)
        if found is None:
            return needless("no server was specified", "specify the server: `--url http://localhost:8000`")
        if not found.protocol:
            return failed(found.why, "start the server and check its log: `docker logs CONTAINER`")
        return look(context, found)

    return ask


def of_model(look: Callable[[Context, Endpoint, str], Outcome]) -> Callable[[Context], Outcome]:
    """A check of the model under test on that server."""

    @_of_server
    @functools.wraps(look)
    def ask(context: Context, found: Endpoint) -> Outcome:
        choice = choose_model(context, found)
        if not choice.model:
            return skipped(choice.why, "load a model, or specify one with `--model NAME`")
        return look(context, found, choice.model)

    return ask


@check(
    "triton.live",
    level="smoke",
    title="server is live",
    expects="The server reports that it is live.",
    fix="Check the server's log: `docker logs CONTAINER`.",
    limit_s=60,
)
@_of_server
def live(context: Context, found: Endpoint) -> Outcome:
    if found.protocol == "v2":
        answer, number = v2.live(found.server), v2.server_version(found.server)
    else:
        answer = v1.live(found.server)
        status = v1.status(found.server)
        number = "" if isinstance(status, Answer) else status.version
    if not answer.is_ok:
        strict = found.protocol == "v1" and v1.live_means_loaded(context.given.get("release"))
        why = "; in this release, live means that every model is loaded (--strict-liveness)" if strict else ""
        models = _not_ready(found) if found.protocol == "v1" else ""
        return failed(f"{found.server.url} is not live ({answer.why}){why}{f': {models}' if models else ''}")
    return passed(f"{found.server.url}: protocol {found.protocol}, version {number or 'unknown'}", actual=number)


@check(
    "triton.ready",
    level="smoke",
    title="server is ready",
    expects="The server reports that it is ready (with strict readiness: that every model is loaded).",
    fix="List the models that are not ready, with the reason: `curl -X POST URL/v2/repository/index`.",
    needs=("triton.live",),
    limit_s=60,
)
@_of_server
def ready(context: Context, found: Endpoint) -> Outcome:
    answer = v2.ready(found.server) if found.protocol == "v2" else v1.ready(found.server)
    if answer.is_ok:
        early = found.protocol == "v1" and v1.live_means_loaded(context.given.get("release"))
        note = "; in this release, live and not ready means that models are loaded" if early else ""
        return passed(f"ready{note}")
    old = f"list the models and their states: `curl {found.server.url}/api/status`" if found.protocol == "v1" else ""
    return failed(f"the server is live, but not ready: {_not_ready(found) or answer.why}", old)


def _not_ready(found: Endpoint) -> str:
    """The models that are not ready, with the server's reasons."""
    if found.protocol == "v2":
        rows = [row for row in v2.index(found.server) if row.get("state") not in {"READY", None}]
        return "; ".join(
            f"{row.get('name')} is {row.get('state')}: {row.get('reason', '')}".rstrip(": ") for row in rows
        )
    status = v1.status(found.server)
    return "" if isinstance(status, Answer) else status.unready()


@check(
    "triton.model",
    level="smoke",
    title="a model is ready",
    expects="The model under test is loaded and ready.",
    fix="Find the reason in the server's log; `gpustack triton model-store DIR` checks the model's folder.",
    needs=("triton.live",),
    limit_s=60,
)
@of_model
def model(_context: Context, found: Endpoint, name: str) -> Outcome:
    if found.protocol == "v1":
        status = v1.status(found.server, name)
        if isinstance(status, Answer):
            return failed(f"the server does not have {name}: {status.why}")
        states = status.models.get(name, {})
        if "MODEL_READY" not in states.values():
            return failed(f"no version of {name} is ready: {status.unready() or 'none is loaded'}")
        numbers = ", ".join(str(one) for one, state in states.items() if state == "MODEL_READY")
        return passed(f"{name}, version {numbers}")
    answer = v2.model_ready(found.server, name)
    if not answer.is_ok:
        return _not_loaded(found.server, name)
    described = v2.describe(found.server, name)
    if isinstance(described, Answer):
        return failed(f"{name} is ready, but its metadata could not be read: {described.why}")
    shape = ", ".join(f"{name} {kind}{list(dims)}" for name, kind, dims in (*described.inputs, *described.outputs))
    return passed(f"{name} ({described.platform}), version {', '.join(described.versions)}: {shape}")


def _not_loaded(server: Server, name: str) -> Outcome:
    """Why a model is not ready. A server that loads models on request only lists the others without a state."""
    row = next((one for one in v2.index(server) if one.get("name") == name), None)
    if row is None:
        return failed(f"{name} is not ready: it is not in the server's repository")
    state, reason = str(row.get("state", "")), str(row.get("reason", ""))
    if state and reason != "unloaded":
        return failed(f"{name} is not ready: {state} {reason}".rstrip())
    why = f"{state} {reason}" if state else "it is in the repository, but not loaded"
    return failed(
        f"{name} is not ready: {why}",
        f"load it: `curl -X POST {server.url}/v2/repository/models/{escaped(name)}/load`, or start the server with"
        f" --model-control-mode=explicit --load-model={name}",
    )


@check(
    "triton.infer",
    level="smoke",
    title="one inference with a correct output",
    expects="An inference over HTTP, and over gRPC if tritonclient is installed, returns the correct output.",
    fix="Check the server's log; if the output is wrong, check the model's file and configuration.",
    needs=("triton.model",),
    limit_s=120,
)
@of_model
def infer(context: Context, found: Endpoint, name: str) -> Outcome:
    if found.protocol == "v1" and name != DIGITS:
        return skipped(f"{name} was not tested: the v1 protocol does not report its inputs", _KNOWN_ANSWER)
    tried = (
        infer_over_v1(found.server, name, context.clock)
        if found.protocol == "v1"
        else infer_over_v2(found.server, name, context.clock)
    )
    if tried.fault:
        return failed(f"{name}: {tried.fault}")
    if tried.skipped:
        return skipped(f"{name}: {tried.skipped}", _KNOWN_ANSWER)
    measured = {"http": Measurement(value=round(tried.seconds * 1e3, 3), unit="ms")}
    return passed(f"{name}: {tried.said}", measurements=measured)


@check(
    "triton.statistics",
    level="smoke",
    title="statistics count the inference",
    expects="The server's statistics count the model's inferences, and none of them failed.",
    fix="Check the server's log for the failed inferences.",
    needs=("triton.infer",),
    limit_s=60,
)
@of_model
def statistics(_context: Context, found: Endpoint, name: str) -> Outcome:
    if found.protocol == "v1":
        status = v1.status(found.server, name)
        if isinstance(status, Answer):
            return failed(f"the server reports no statistics of {name}: {status.why}")
        return _counted(name, *status.counts.get(name, (0, 0)))
    answer = v2.statistics(found.server, name)
    found_statistics = answer.json()
    rows = found_statistics.get("model_stats") if isinstance(found_statistics, dict) else None
    if not answer.is_ok or not isinstance(rows, list) or not rows:
        return failed(f"the server reports no statistics of {name}: {answer.why}")
    count = sum(v2.number_at(row, "inference_count") for row in rows)
    return _counted(name, count, sum(v2.number_at(row, "inference_stats", "fail", "count") for row in rows))


def _counted(name: str, count: int, failures: int) -> Outcome:
    if count == 0:
        return failed(f"the statistics count no inference of {name}, although one succeeded")
    measured = {
        "inferences": Measurement(value=count, unit="inferences"),
        "failed": Measurement(value=failures, unit="inferences"),
    }
    return passed(f"{name}: {count} inferences, {failures} failed", measurements=measured)


@check(
    "triton.metrics",
    level="smoke",
    title="metrics are available",
    expects="The metrics service responds in Prometheus' text format and has the counters of inferences.",
    fix="Publish its port (-p8002:8002), and start the server without --allow-metrics=false.",
    needs=("triton.live",),
    limit_s=60,
)
@_of_server
def metrics(context: Context, found: Endpoint) -> Outcome:
    answer = found.server.metrics.get("/metrics")
    if not answer.is_ok and not found.server.is_direct:
        return skipped(
            f"{found.server.url} is a proxy or a path of one: the address of its metrics is unknown",
            "specify the server's own address and port: `--url http://HOST:PORT`",
        )
    if not answer.is_ok:
        return failed(f"{found.server.metrics.url}/metrics cannot be read: {answer.why}")
    counted = v2.counters(answer.text)
    lacking = _missing_metrics(answer.text) if found.protocol == "v2" else []
    if lacking and choose_model(context, found).model:
        return failed(
            f"the metrics lack {', '.join(lacking)}",
            f"another program may use that port: check `curl {found.server.metrics.url}/metrics`",
        )
    gpus = "" if any(name.startswith("nv_gpu_") for name in counted) else "; none for GPUs (no GPU, or no DCGM)"
    return passed(f"{len(counted)} metrics{gpus}")


@check(
    "triton.own-server",
    level="smoke",
    title="a server started here works",
    expects="The Triton of this host starts on loopback, loads a model of the Python backend, infers correctly, and"
    " stops.",
    fix="See the server's log under 'evidence' in the JSON or HTML report.",
    needs=("triton.found",),
    limit_s=150,
)
def own_server(context: Context) -> Outcome:
    if context.given.get("url"):
        return needless("another server was specified with --url")
    program = find_server(context.given.get("tritonserver"))
    if program is None:
        return needless("tritonserver is not installed on this host", "for a server in a container use `--url`")
    if not (program.backends / "python").is_dir():
        return skipped(f"{program.backends} has no Python backend, which the test model requires")
    with start_server(program, context.folder, find_free_ports()) as running:
        evidence = {"server.log": running.log}
        server = running.server
        if server is None:
            return failed(running.fault, evidence=evidence)
        fault, number = _test_own_model(context, server), v2.server_version(server)
    if fault:
        return failed(fault, evidence=evidence)
    if server.get("/v2/health/live", timeout=2.0).status:
        return failed(
            "the server still responds after it was stopped",
            f"list its remaining processes with `pgrep -af {program.path.name}`, and stop them",
            evidence=evidence,
        )
    return passed(
        f"{program.path} {number}: started, correct output, metrics, stopped", actual=number, evidence=evidence
    )


def _test_own_model(context: Context, server: Server) -> str:
    """What is wrong with the responses of the server that was started here; "" if nothing is."""
    tried = infer_over_v2(server, DOUBLE, context.clock)
    if tried.fault or tried.skipped:
        return f"{DOUBLE}: {tried.fault or tried.skipped}"
    lacking = _missing_metrics(server.metrics.get("/metrics").text)
    return f"the server's metrics lack {', '.join(lacking)}" if lacking else ""


def _missing_metrics(text: str) -> list[str]:
    """The counters that every v2 server has and this page of metrics lacks."""
    counted = v2.counters(text)
    return [name for name in v2.METRICS if name not in counted]
