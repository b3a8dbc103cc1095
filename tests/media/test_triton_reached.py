"""A real Triton server as users reach it: gRPC, proxies, TLS, sign-in, IPv6; and what answers in its place."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.media.conftest import L4, Check, host_with
from tests.media.proxy import Answering, forwarding, serving
from tests.media.test_triton import tritonserver, until

from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.triton import v1, v2
from gpustack.triton.client import Server, server_at
from gpustack.triton.releases import ReleaseRow
from gpustack.verify.triton.endpoint import DOUBLE, detect_protocol
from gpustack.verify.triton.infer import Sample, infer_over_grpc, make_sample
from gpustack.verify.triton.own_server import ServerProgram, find_free_ports, start_server

__all__ = ["tritonserver"]
HOST = host_with(L4)


@pytest.fixture(scope="module")
def running(tritonserver: ServerProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("reached")
    (folder / "models" / "idle" / "1").mkdir(parents=True)
    with start_server(tritonserver, folder, find_free_ports()) as found:
        assert found.server, (found.fault, found.log)
        # Another model is in the repository, which nobody loaded: the server loads what it is told to.
        shutil.copytree(folder / "models" / DOUBLE, folder / "models" / "idle", dirs_exist_ok=True)
        text = (folder / "models" / "idle" / "config.pbtxt").read_text()
        (folder / "models" / "idle" / "config.pbtxt").write_text(text.replace(DOUBLE, "idle"))
        yield found.server


def asking(server: Server) -> Sample:
    described = v2.describe(server, DOUBLE)
    assert isinstance(described, v2.Model)
    ask = make_sample(described)
    assert isinstance(ask, Sample)
    return ask


def test_grpc_gives_the_right_answer(check: Check, running: Server) -> None:
    found = check("triton", "smoke", HOST, url=running.url)["triton.infer"]
    assert found.status == "pass"
    assert found.detail == f"{DOUBLE}: HTTP: correct output; gRPC: correct output"


def test_grpc_tells_a_wrong_answer_an_unknown_model_and_who_is_not_there(running: Server) -> None:
    ask = asking(running)
    wrong = Sample(tensor=ask.tensor, values=ask.values, output=ask.output, expected=[9.0, 9.0, 9.0, 9.0])
    other = Sample(tensor=ask.tensor, values=ask.values, output="NOBODY")
    cases = {
        "the output is wrong: [0, 2, 4, 6] instead of [9, 9, 9, 9]": (running, DOUBLE, wrong),
        "the response over gRPC has no output NOBODY": (running, DOUBLE, other),
        "Request for unknown model: 'nobody' is not found": (running, "nobody", ask),
        # The port before that of HTTP: gRPC is looked for where HTTP is spoken.
        f"the inference over gRPC at 127.0.0.1:{running.port} failed: ": (
            Server(host="127.0.0.1", port=running.port - 1),
            DOUBLE,
            ask,
        ),
    }
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        cases[f"the inference over gRPC at 127.0.0.1:{port} failed: "] = (
            Server(host="127.0.0.1", port=port - 1),
            DOUBLE,
            ask,
        )
        for words, (server, model, given) in cases.items():
            tried = infer_over_grpc(server, model, given)
            assert tried is not None, words
            assert words in tried.fault, tried


def test_a_parser_of_prometheus_reads_the_metrics_as_we_do(check: Check, running: Server) -> None:
    assert check("triton", "smoke", HOST, url=running.url)["triton.metrics"].status == "pass"
    page = running.metrics.get("/metrics")
    theirs: dict[str, float] = {}
    for family in text_string_to_metric_families(page.text):
        for sample in family.samples:
            # The parser gives counters the ending that OpenMetrics wants of them.
            name = sample.name if sample.name in page.text else sample.name.removesuffix("_total")
            theirs[name] = theirs.get(name, 0.0) + sample.value
    ours = v2.counters(page.text)
    assert set(v2.METRICS) <= set(theirs)
    assert ours == pytest.approx(theirs)
    assert ours["nv_inference_count"] >= 1


def test_a_model_that_nobody_loaded_is_told_with_the_call_that_does(check: Check, running: Server) -> None:
    found = check("triton", "smoke", HOST, url=running.url, model="idle")["triton.model"]
    assert (found.status, found.reason) == ("fail", "idle is not ready: it is in the repository, but not loaded")
    assert f"`curl -X POST {running.url}/v2/repository/models/idle/load`" in found.fix
    nobody = check("triton", "smoke", HOST, url=running.url, model="nobody")["triton.model"]
    assert nobody.reason == "nobody is not ready: it is not in the server's repository"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that signs itself, with its key in the same file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run([*words, *names], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


def test_behind_a_proxy_with_tls_sign_in_and_a_folder(
    check: Check, running: Server, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering = forwarding(running.port, prefix="/triton", user="ada:s3cret/word")
    with serving(answering, certificate=certificate) as port:
        url = f"https://ada:s3cret%2Fword@localhost:{port}/triton/"
        unknown = check("triton", "smoke", HOST, url=url)["triton.live"]
        assert f"the certificate of localhost:{port} is not trusted (self" in unknown.reason
        assert "SSL_CERT_FILE" in unknown.reason
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        found = check("triton", "smoke", HOST, url=url)
        assert {name: found[f"triton.{name}"].status for name in ("live", "ready", "model", "infer", "metrics")} == {
            "live": "pass", "ready": "pass", "model": "pass", "infer": "pass", "metrics": "skip",
        }  # fmt: skip
        assert "gRPC was not tested: its port is unknown behind a proxy" in found["triton.infer"].detail
        assert "s3cret" not in repr(found)
        nobody = check("triton", "smoke", HOST, url=f"https://localhost:{port}/triton")["triton.live"]
        assert "HTTP 401: access denied; credentials go into the URL: --url http://USER:PASSWORD@HOST" in nobody.reason
        plain = detect_protocol(server_at(f"http://localhost:{port}"))
        assert (plain.protocol, "closed the connection" in plain.why) == ("", True)
    with serving(forwarding(running.port)) as port:
        secure = detect_protocol(server_at(f"https://127.0.0.1:{port}"))
        assert f"127.0.0.1:{port} does not support TLS" in secure.why


def test_over_ipv6(running: Server) -> None:
    with serving(forwarding(running.port), six=True) as port:
        server = server_at(f"http://[::1]:{port}")
        assert server.url == f"http://[::1]:{port}"
        assert detect_protocol(server).protocol == "v2"
    assert detect_protocol(server).why == f"no server listens at [::1]:{port}"


PAGE = b"<html><head><title>Welcome to our shop</title></head></html>"


@pytest.mark.parametrize(
    ("answering", "words"),
    [
        (lambda asked: asked.give(200, PAGE, Content_Type="text/html"), "a web page (Welcome to our shop)"),
        (lambda asked: asked.give(404, b"no"), "responds, but supports neither v2 (/v2: HTTP 404: no) nor v1"),
        (
            lambda asked: asked.give(503, PAGE, Content_Type="text/html"),
            "HTTP 503: a web page (Welcome to our shop) (from a proxy that cannot reach the server)",
        ),
        (lambda asked: asked.give(301, Location="https://models.example/"), "redirected to https://models.example/"),
        (lambda asked: asked.give(200, b'{"name"', claimed="900"), "closed the connection (IncompleteRead)"),
        (lambda asked: asked.wfile.write(b"SSH-2.0-server\r\n"), "closed the connection (BadStatusLine)"),
        (lambda asked: asked.give(200, bytes(17 << 20)), "exceeds 16 MiB"),
    ],
)
def test_what_is_no_server_of_models_is_told_apart(answering: Answering, words: str) -> None:
    with serving(closing(answering)) as port:
        found = detect_protocol(server_at(f"127.0.0.1:{port}"))
    assert found.protocol == ""
    assert words in found.why


def closing(answering: Answering) -> Answering:
    """Answer once, and close the connection."""

    def answer(asked: object) -> None:
        answering(asked)  # type: ignore[arg-type]
        asked.close_connection = True  # type: ignore[attr-defined]

    return answer


def test_a_server_that_never_answers_is_not_waited_for_long() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        found = detect_protocol(Server(host="127.0.0.1", port=port, patience_s=0.3))
    assert found.why == f"no response from 127.0.0.1:{port} within 0.3 s"


def test_a_server_that_is_still_loading_is_live_and_not_ready(check: Check) -> None:
    def answer(asked: object) -> None:
        path = asked.path  # type: ignore[attr-defined]
        body = b'{"name":"triton","version":"2.51.0","extensions":[]}' if path == "/v2" else b""
        if path == "/v2/repository/index":
            body = b'[{"name":"large","version":"1","state":"LOADING"}]'
        asked.give(503 if path.endswith("ready") else 200, body, Content_Type="application/json")  # type: ignore[attr-defined]

    with serving(answer) as port:
        found = check("triton", "smoke", HOST, url=f"127.0.0.1:{port}")
    assert found["triton.live"].status == "pass"
    assert found["triton.ready"].reason == "the server is live, but not ready: large is LOADING"


@pytest.mark.parametrize(
    "body",
    [
        b"null", b"[]", b"3", b'"text"', b"[" * 100_000, b"\xff\xfe", b'{"inputs": 3, "versions": 4}',
        b'{"inputs": [{"shape": ["a"]}], "outputs": [{"shape": null}]}', b'{"model_stats": [1]}',
        b'{"name": "m", "inputs": [{"name": "a", "datatype": "FP32", "shape": [4]}], "outputs": [{"name": "b"}]}',
        b'{"model_stats": [{"inference_count": "x", "inference_stats": 3}], "outputs": [{"name": "b", "data": [null]}]}',
        b'[{"name": "m", "state": "READY"}, 3, {"state": ["READY"]}]', b'{"inputs": [{"shape": [1e999]}]}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("model", ["", "m"])
def test_nonsense_of_a_server_is_a_failure_and_never_breaks_a_check(check: Check, body: bytes, model: str) -> None:
    def answer(asked: object) -> None:
        path = asked.path  # type: ignore[attr-defined]
        known = b'{"name": "triton", "version": ["2"], "extensions": 1}' if path == "/v2" else body
        asked.give(200, known, Content_Type="application/json")  # type: ignore[attr-defined]

    with serving(answer) as port:
        found = check("triton", "smoke", HOST, url=f"127.0.0.1:{port}", **({"model": model} if model else {}))
    assert {one.id: one.reason for one in found.values() if one.status == "error"} == {}
    assert found["triton.infer"].status in {"fail", "skip"}


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port", "http://host:99999", "http://[::1"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a server"):
        server_at(url)


def test_a_url_that_is_none_is_wrong_usage() -> None:
    words = [sys.executable, "-m", "gpustack", "verify", "triton", "--level", "smoke", "--url", "ftp://host"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "'ftp://host' is not the address of a server" in ended.stderr


def test_ports_and_folders_of_a_url() -> None:
    assert (server_at("host").url, server_at("https://host/a/").url) == ("http://host:8000", "https://host:443/a")
    assert (server_at("host:9000").grpc.address, server_at("host:9000").metrics.address) == ("host:9001", "host:9002")


def test_what_live_means_follows_the_release(matrix: Matrix) -> None:
    """--strict-liveness of the 0.5 beta against --strict-readiness of all that came later: every release of v1."""
    old = [row for row in matrix.rows("triton", "releases", ReleaseRow) if row.api.startswith("v1")]
    assert len(old) > 15
    meant = {row.version: v1.live_means_loaded(row.version) for row in old}
    before = {release for release in meant if release == "0.5.0" or release < "18.11"}
    assert {release for release, loaded in meant.items() if loaded} == before
    rows = {(row["protocol"], row["topic"]): row for row in matrix.rows("triton-server", "api", dict)}
    assert "200 when all models loaded" in rows["v1-0.5", "live"]["text"]
    assert "200 when all models loaded" in rows["v1", "ready"]["text"]
    assert rows["v1", "ready"]["era"].startswith("18.11 to 20.03.1")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_of_ours_ends_however_we_end(tritonserver: ServerProgram, tmp_path: Path, how: signal.Signals) -> None:
    """Stopped by Ctrl-C, told to end, or killed: a server that was started here is not left behind."""
    path = f"{elsewhere(tritonserver, tmp_path)}:{os.environ['PATH']}"
    # Whoever runs the tests in the background of a shell has Ctrl-C ignored, and so have all its children.
    inherited = signal.signal(signal.SIGINT, signal.SIG_DFL)
    ours = subprocess.Popen(
        [sys.executable, "-m", "gpustack", "verify", "triton", "--level", "smoke"],
        env={**os.environ, "PATH": path, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    signal.signal(signal.SIGINT, inherited)
    try:
        assert until(lambda: bool(servers(tmp_path))), "no server was started"
        ours.send_signal(how)
        assert ours.wait(300) != 0
        assert until(lambda: not servers(tmp_path)), servers(tmp_path)
    finally:
        ours.kill()
        ours.wait()


def elsewhere(tritonserver: ServerProgram, folder: Path) -> Path:
    """The server, answering on another port than it was asked for: who waits for it waits until the signal comes."""
    programs = folder / "opt" / "bin"
    programs.mkdir(parents=True)
    (folder / "opt" / "backends").symlink_to(tritonserver.backends)
    program = programs / "tritonserver"
    program.write_text(
        "#!/bin/sh\nfor word do\n    shift\n"
        f'    case $word in --http-port=*) word=--http-port={find_free_ports()[0]} ;; esac\n    set -- "$@" "$word"\n'
        f'done\nexec {tritonserver.path} "$@"\n'
    )
    program.chmod(0o755)
    return programs


def servers(folder: Path) -> list[str]:
    """The processes of a server whose repository lies below ``folder``: its own, and those of its Python models."""
    listed = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in listed if f"{folder}/" in line and "triton" in line.split()[0]]
