"""Smoke checks of Triton: live, ready, a model ready, one inference with the right answer, statistics and metrics."""

from __future__ import annotations

import functools
from collections.abc import Callable

from gpustack.model.results import Measurement
from gpustack.triton import v1, v2
from gpustack.triton.client import Answer, Server, escaped
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.triton.endpoint import DIGITS, DOUBLE, Asked, asked, model_of
from gpustack.verify.triton.infer import Question, over_grpc, over_http, over_v1, question
from gpustack.verify.triton.own_server import find_server, free_ports, started

_NO_URL = "no server was named"
_KNOWN_ANSWER = "a model of `gpustack triton model-store DIR --digits` has an answer that is known"


def _of_server(look: Callable[[Context, Asked], Outcome]) -> Callable[[Context], Outcome]:
    """A check of the server that was named, once it is known which protocol it speaks."""

    @functools.wraps(look)
    def ask(context: Context) -> Outcome:
        found = asked(context)
        if found is None:
            return needless(_NO_URL, "`--url http://localhost:8000` has one asked")
        if not found.protocol:
            return failed(found.why, "start the server, and look at its log: `docker logs CONTAINER`")
        return look(context, found)

    return ask


def _of_model(look: Callable[[Context, Asked, str], Outcome]) -> Callable[[Context], Outcome]:
    """A check of the model that is tried on that server."""

    @_of_server
    @functools.wraps(look)
    def ask(context: Context, found: Asked) -> Outcome:
        choice = model_of(context, found)
        if not choice.model:
            return skipped(choice.why, "load a model, or name one with `--model NAME`")
        return look(context, found, choice.model)

    return ask


@check(
    "triton.live",
    level="smoke",
    title="server is live",
    expects="The server answers that it is live.",
    mends="Look at the server's log: `docker logs CONTAINER`.",
    limit_s=60,
)
@_of_server
def live(context: Context, found: Asked) -> Outcome:
    if found.protocol == "v2":
        answer = v2.live(found.server)
        told = v2.metadata(found.server).json()
        number = str(told.get("version", "")) if isinstance(told, dict) else ""
    else:
        answer = v1.live(found.server)
        status = v1.status(found.server)
        number = "" if isinstance(status, Answer) else status.version
    if not answer.is_ok:
        strict = found.protocol == "v1" and v1.live_means_loaded(context.given.get("release"))
        why = "; in this release live means that every model is loaded (--strict-liveness)" if strict else ""
        return failed(f"{found.server.url} is not live ({answer.why}){why}")
    return passed(f"{found.server.url} speaks {found.protocol}, version {number or 'not told'}", actual=number)


@check(
    "triton.ready",
    level="smoke",
    title="server is ready",
    expects="The server says that it takes inferences: with strict readiness, that every model is loaded.",
    mends="`curl -X POST URL/v2/repository/index` names the models that are not ready, with the reason.",
    needs=("triton.live",),
    limit_s=60,
)
@_of_server
def ready(context: Context, found: Asked) -> Outcome:
    answer = v2.ready(found.server) if found.protocol == "v2" else v1.ready(found.server)
    if answer.is_ok:
        early = found.protocol == "v1" and v1.live_means_loaded(context.given.get("release"))
        note = "; in this release ready does not mean that models are loaded, live does" if early else ""
        return passed(f"ready{note}")
    old = f"`curl {found.server.url}/api/status` names the models and their states." if found.protocol == "v1" else ""
    return failed(f"the server is live, but not ready: {_not_ready(found) or answer.why}", old)


def _not_ready(found: Asked) -> str:
    """The models that keep a server from being ready, with the reasons that it gives."""
    if found.protocol == "v2":
        rows = [row for row in v2.index(found.server) if row.get("state") not in {"READY", None}]
        return "; ".join(
            f"{row.get('name')} is {row.get('state')}: {row.get('reason', '')}".rstrip(": ") for row in rows
        )
    status = v1.status(found.server)
    if isinstance(status, Answer):
        return ""
    return "; ".join(
        f"{name}, version {number} is {state}"
        for name, versions in status.models.items()
        for number, state in versions.items()
        if state != "MODEL_READY"
    )


@check(
    "triton.model",
    level="smoke",
    title="a model is ready",
    expects="The model that is to be tried is loaded and ready.",
    mends="Look at the server's log for why it did not load; `gpustack triton model-store DIR` checks its folder.",
    needs=("triton.live",),
    limit_s=60,
)
@_of_model
def model(_context: Context, found: Asked, name: str) -> Outcome:
    if found.protocol == "v1":
        status = v1.status(found.server, name)
        if isinstance(status, Answer):
            return failed(f"{name} is not known to the server: {status.why}")
        states = status.models.get(name, {})
        if "MODEL_READY" not in states.values():
            told = ", ".join(f"version {number} is {state}" for number, state in states.items())
            return failed(f"{name} has no version that is ready: {told or 'none is loaded'}")
        numbers = ", ".join(str(one) for one, state in states.items() if state == "MODEL_READY")
        return passed(f"{name}, version {numbers}")
    answer = v2.model_ready(found.server, name)
    if not answer.is_ok:
        return _not_loaded(found.server, name)
    described = v2.describe(found.server, name)
    if isinstance(described, Answer):
        return failed(f"{name} is ready, but does not tell what it is: {described.why}")
    shape = ", ".join(f"{name} {kind}{list(dims)}" for name, kind, dims in (*described.inputs, *described.outputs))
    return passed(f"{name} ({described.platform}), version {', '.join(described.versions)}: {shape}")


def _not_loaded(server: Server, name: str) -> Outcome:
    """Why a model is not ready. A server that loads only what it is told to names the others without a state."""
    row = next((one for one in v2.index(server) if one.get("name") == name), None)
    if row is None:
        return failed(f"{name} is not ready: not in the server's repository")
    state, reason = str(row.get("state", "")), str(row.get("reason", ""))
    if state and reason != "unloaded":
        return failed(f"{name} is not ready: {state} {reason}".rstrip())
    told = f"{state} {reason}" if state else "in the repository, and not loaded"
    return failed(
        f"{name} is not ready: {told}",
        f"`curl -X POST {server.url}/v2/repository/models/{escaped(name)}/load`, or `--load-model={name}` when it"
        " starts with --model-control-mode=explicit",
    )


@check(
    "triton.infer",
    level="smoke",
    title="one inference with the right answer",
    expects="The model answers an inference over HTTP, and over gRPC where tritonclient is there, and answers rightly.",
    mends="Look at the server's log; a wrong answer points to the model's file or to its configuration.",
    needs=("triton.model",),
    limit_s=120,
)
@_of_model
def infer(context: Context, found: Asked, name: str) -> Outcome:
    if found.protocol == "v1":
        if name != DIGITS:
            return skipped(f"{name} was not tried: the first protocol does not tell its inputs", _KNOWN_ANSWER)
        tried = over_v1(found, name, context.clock)
        return failed(f"{name}: {tried.fault}") if tried.fault else passed(f"{name}: {tried.said}")
    described = v2.describe(found.server, name)
    if isinstance(described, Answer):
        return failed(f"{name} does not tell its inputs: {described.why}")
    ask = question(described)
    if not isinstance(ask, Question):
        return skipped(ask, _KNOWN_ANSWER)
    tried = over_http(found.server, name, ask, context.clock)
    if tried.fault:
        return failed(f"{name}: {tried.fault}")
    by_grpc = over_grpc(found.server, name, ask)
    if by_grpc is not None and by_grpc.fault:
        return failed(f"{name}: {by_grpc.fault}")
    also = by_grpc.said if by_grpc else "gRPC was not tried: the Python package tritonclient is not here"
    measured = {"http": Measurement(value=round(tried.seconds * 1e3, 3), unit="ms")}
    return passed(f"{name}: {tried.said}; {also}", measurements=measured)


@check(
    "triton.statistics",
    level="smoke",
    title="statistics count the inference",
    expects="The server's statistics name the model and count its inferences, none of them failed.",
    mends="Look at the server's log for the inferences that failed.",
    needs=("triton.infer",),
    limit_s=60,
)
@_of_model
def statistics(_context: Context, found: Asked, name: str) -> Outcome:
    if found.protocol == "v1":
        return needless("the first protocol tells its statistics inside the status, which triton.model reads")
    answer = v2.statistics(found.server, name)
    told = answer.json()
    rows = told.get("model_stats") if isinstance(told, dict) else None
    if not answer.is_ok or not isinstance(rows, list) or not rows:
        return failed(f"the server tells no statistics of {name}: {answer.why}")
    count = sum(v2.number_at(row, "inference_count") for row in rows)
    failures = sum(v2.number_at(row, "inference_stats", "fail", "count") for row in rows)
    if count == 0:
        return failed(f"the statistics count no inference of {name}, although one was answered")
    measured = {
        "inferences": Measurement(value=count, unit="inferences"),
        "failed": Measurement(value=failures, unit="inferences"),
    }
    return passed(f"{name}: {count} inferences, {failures} failed", measurements=measured)


@check(
    "triton.metrics",
    level="smoke",
    title="metrics are served",
    expects="The metrics service answers in Prometheus' text form and has the counters of inferences.",
    mends="Publish its port (-p8002:8002), and start the server without --allow-metrics=false.",
    needs=("triton.live",),
    limit_s=60,
)
@_of_server
def metrics(context: Context, found: Asked) -> Outcome:
    answer = found.server.metrics.get("/metrics")
    if not answer.is_ok and not found.server.is_direct:
        return skipped(
            f"{found.server.url} is a proxy or in a folder of one: where its metrics are is not known",
            "`--url` with the server's own address and port has them read",
        )
    if not answer.is_ok:
        return failed(f"{found.server.metrics.url}/metrics does not answer: {answer.why}")
    counted = v2.counters(answer.text)
    wanted = v2.METRICS if found.protocol == "v2" else ()
    lacking = [name for name in wanted if name not in counted]
    if lacking and model_of(context, found).model:
        return failed(
            f"the metrics lack {', '.join(lacking)}",
            f"`curl {found.server.metrics.url}/metrics` shows what answers there: it may be another program",
        )
    gpus = "" if any(name.startswith("nv_gpu_") for name in counted) else "; none of GPUs (no GPU, or no DCGM)"
    return passed(f"{len(counted)} metrics{gpus}")


@check(
    "triton.own-server",
    level="smoke",
    title="a server started here serves",
    expects="The Triton of this host starts on loopback, loads a model of the Python backend, answers it, and stops.",
    mends="Read the server's log: it is the evidence in what `--format json` or `--format html` writes.",
    needs=("triton.found",),
    limit_s=150,
)
def own_server(context: Context) -> Outcome:
    if context.given.get("url"):
        return needless("another server was named, and that one is asked")
    program = find_server(context.given.get("tritonserver"))
    if program is None:
        return needless("no tritonserver is on this host itself", "a container's server is asked with `--url`")
    if not (program.backends / "python").is_dir():
        return skipped(f"{program.backends} holds no Python backend, which the model here needs")
    with started(program, context.folder, free_ports()) as running:
        evidence = {"server.log": running.log}
        server = running.server
        if server is None:
            return failed(running.fault, evidence=evidence)
        fault, number = _serves(context, server)
    if fault:
        return failed(fault, evidence=evidence)
    if server.get("/v2/health/live", timeout=2.0).status:
        return failed(
            "the server was told to stop, and still answers",
            f"`pgrep -af {program.path.name}` names what is left of it: end that",
            evidence=evidence,
        )
    return passed(f"{program.path} {number}: started, right answer, metrics, stopped", actual=number, evidence=evidence)


def _serves(context: Context, server: Server) -> tuple[str, str]:
    """What is wrong with the answers of our own server ("" if nothing is), and its version."""
    told = v2.metadata(server).json()
    number = str(told.get("version", "")) if isinstance(told, dict) else ""
    described = v2.describe(server, DOUBLE)
    if isinstance(described, Answer):
        return f"{DOUBLE} is ready, but does not tell what it is: {described.why}", number
    ask = question(described)
    if not isinstance(ask, Question):
        return ask, number
    for tried in (over_http(server, DOUBLE, ask, context.clock), over_grpc(server, DOUBLE, ask)):
        if tried is not None and tried.fault:
            return f"{DOUBLE}: {tried.fault}", number
    counted = v2.counters(server.metrics.get("/metrics").text)
    lacking = [name for name in v2.METRICS if name not in counted]
    return (f"the server's metrics lack {', '.join(lacking)}" if lacking else ""), number
