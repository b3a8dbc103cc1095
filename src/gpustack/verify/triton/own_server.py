"""A Triton server started here: on loopback, with a model whose outputs are known, and stopped afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from gpustack.system.run import Background
from gpustack.triton import v2
from gpustack.triton.client import Server
from gpustack.triton.pbtxt import Message, Name, write
from gpustack.verify.triton.endpoint import DOUBLE

PLACES = ("/opt/tritonserver/bin/tritonserver",)
_DOUBLE = '''\
import numpy
import triton_python_backend_utils as backend


class TritonPythonModel:
    """Doubles its input."""

    def execute(self, requests):
        answers = []
        for request in requests:
            given = backend.get_input_tensor_by_name(request, "IN").as_numpy()
            doubled = numpy.ascontiguousarray(given * numpy.float32(2), dtype=numpy.float32)
            answers.append(backend.InferenceResponse([backend.Tensor("OUT", doubled)]))
        return answers
'''
_READY_S = 60.0
_PAUSE_S = 0.1


class ServerProgram(Struct, frozen=True, kw_only=True):
    """A tritonserver, and the folder of its backends."""

    path: Path
    backends: Path


class Running(Struct, frozen=True, kw_only=True):
    """A started server, or why it did not start, with the end of its log."""

    server: Server | None
    fault: str = ""
    log: str = ""


def find_server(given: str | None) -> ServerProgram | None:
    """The tritonserver that the user specified, or on PATH, or where the container image has it."""
    named = given or shutil.which("tritonserver") or next((one for one in PLACES if os.access(one, os.X_OK)), None)
    if not named:
        return None
    path = Path(named)
    return ServerProgram(path=path, backends=path.parent.parent / "backends")


def write_double(repository: Path) -> None:
    """Write the model that doubles numbers, which requires the Python backend and no GPU."""
    folder = repository / DOUBLE
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(_DOUBLE, encoding="utf-8")
    tensor: Message = {"data_type": [Name("TYPE_FP32")], "dims": [4]}
    configuration: Message = {
        "name": [DOUBLE],
        "backend": ["python"],
        "max_batch_size": [0],
        "input": [{"name": ["IN"], **tensor}],
        "output": [{"name": ["OUT"], **tensor}],
        "instance_group": [{"count": [1], "kind": [Name("KIND_CPU")]}],
    }
    (folder / "config.pbtxt").write_text(write(configuration), encoding="utf-8")


def find_free_ports() -> tuple[int, int, int]:
    """Three consecutive free ports: HTTP, gRPC, metrics. Raises OSError where none were found."""
    for _ in range(50):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        if first + 2 < 65536 and all(_is_free(first + step) for step in range(3)):
            return first, first + 1, first + 2
    msg = "no three consecutive ports are free"
    raise OSError(msg)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def start_server(
    program: ServerProgram, folder: Path, ports: tuple[int, int, int], patience_s: float = _READY_S
) -> Iterator[Running]:
    """Run the server on loopback for as long as the block lasts.

    The server has ``patience_s`` seconds to become ready.
    """
    repository, log = folder / "models", folder / "server.log"
    words = (
        str(program.path),
        f"--model-repository={repository}",
        f"--backend-directory={program.backends}",
        *(f"--{kind}-port={port}" for kind, port in zip(("http", "grpc", "metrics"), ports, strict=True)),
        *(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")),
        "--model-control-mode=explicit",
        f"--load-model={DOUBLE}",
        "--exit-on-error=false",
        "--log-verbose=0",
    )
    try:
        write_double(repository)
        background = Background(words, log, cwd=folder)
    except OSError as exc:
        yield Running(server=None, fault=f"{program.path} cannot be started: {exc}")
        return
    with background:
        server = Server(host="127.0.0.1", port=ports[0])
        fault = _wait(background, server, patience_s)
        text = log.read_text(encoding="utf-8", errors="replace")
        why = _why(text)
        yield Running(server=None if fault else server, fault=f"{fault}{why}" if fault else "", log=text[-4000:])


def _wait(background: Background, server: Server, patience_s: float) -> str:
    """Wait until the server is ready: "" when it is, else why it is not."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if background.code is not None:
            return f"the server ended with exit status {background.code} before it was ready"
        if v2.ready(server, timeout=2.0).is_ok:
            return ""
        if v2.live(server, timeout=2.0).is_ok:
            rows = [row for row in v2.index(server) if row.get("state") == "UNAVAILABLE" and row.get("reason")]
            if rows:
                return f"the test model did not load: {rows[0]['reason']}"
        time.sleep(_PAUSE_S)
    return f"the server was not ready within {patience_s:g} s"


def _why(log: str) -> str:
    """The last error in a server's log, as the end of a sentence: why it ended.

    Errors before it are about optional parts, such as the driver on a machine without one.
    """
    errors = [line for line in log.splitlines() if line.startswith("E") or "failed to" in line]
    if not errors:
        return ""
    words = errors[-1].split("] ", 1)[-1].strip().strip('" ')
    return f": {words[:300]}"
