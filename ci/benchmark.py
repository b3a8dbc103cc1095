"""What gpustack costs, measured in one run beside its yardsticks: a bare interpreter, a typer hello world, hpccm.

    python3 ci/benchmark.py [PART ...]     processes, facts, smoke, solver, downloads,
                                           rendering; all if none is named

Prints medians of CPU time (user + system) of whole processes, their peak memory, and CPU time of the solver inside one
process. No verdict and no assertion: machines differ; compare the ratios of one run.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bootstrap import ROOT, environment

RUNS = 15
PARTS = ("processes", "facts", "smoke", "solver", "downloads", "rendering")
HELLO = "import typer\napp = typer.Typer()\n@app.command()\ndef hello(name: str = 'world'):\n    print(name)\napp()\n"


def cost(command: list[str]) -> tuple[float, float]:
    """CPU milliseconds and peak MiB of one run of a command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return (usage.ru_utime + usage.ru_stime) * 1000, usage.ru_maxrss / 1024


OVERLAY = """\
schema: gpustack/matrix/v1
subject: cuda
sources: {ours: {address: "https://wiki.example.com/gpu", known: tested}}
tables: {releases: {rows: [{version: 13.99.9, date: 2026-12-01, src: [ours]}]}}
"""


def facts(python: str, folder: Path) -> None:
    """What an installed update and an overlay cost a plan, next to neither."""
    place = folder / "updates"
    overlay = folder / "overlay"
    overlay.mkdir()
    (overlay / "cuda.yaml").write_text(OVERLAY)
    tool, keys, repo = [python, str(ROOT / "ci" / "bundle.py")], folder / "keys", folder / "repo"
    key, public = str(keys / "all.pem"), str(keys / "all.pub")
    roles = [word for role in ("root", "targets", "snapshot", "timestamp") for word in (f"--{role}", public)]
    for words in (
        ["keys", str(keys), "all"],
        ["init", str(repo), key, *roles, "--root-threshold", "1"],
        ["publish", str(repo), key],
    ):
        subprocess.run([*tool, *words], check=True, stdout=subprocess.DEVNULL)
    update = ["matrix", "update", "--from", str(repo), "--trusted-root", str(repo / "metadata" / "1.root.json")]
    updated = ["env", f"GPUSTACK_FACTS={place}", python, "-m", "gpustack"]
    subprocess.run([*updated, *update], check=True, stdout=subprocess.DEVNULL)
    plan = ["plan", "driver", "cuda", "cudnn", "--os", "ubuntu24.04", "--gpu", "L4"]
    none = ["env", f"GPUSTACK_FACTS={folder / 'none'}", python, "-m", "gpustack", *plan]
    compare({
        "bare interpreter": [python, "-c", "pass"],
        "gpustack plan": none,
        "gpustack plan, with an update": [*updated, *plan],
        "gpustack plan, with an overlay": [*none, "--matrices", str(overlay)],
        "gpustack plan, with both": [*updated, *plan, "--matrices", str(overlay)],
        "gpustack matrix status": [*updated, "matrix", "status"],
        "gpustack matrix update, nothing new": [*updated, *update],
    })  # fmt: skip


def processes(python: str, host: Path, folder: Path) -> None:
    """Every command that changes nothing, and the yardsticks."""
    compare(commands_of(python, host, folder))


def compare(commands: dict[str, list[str]]) -> None:
    """Medians over runs in turns: what else the machine does meets the yardsticks as it meets the commands."""
    for command in commands.values():
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            runs[name].append(cost(command))
    bare = statistics.median(spent for spent, _ in runs["bare interpreter"])
    print(f"{'process':40} {'CPU ms':>8} {'x bare':>7} {'peak MiB':>9}")
    for name, costs in runs.items():
        spent, peak = (statistics.median(column) for column in zip(*costs, strict=True))
        print(f"{name:40} {spent:8.1f} {spent / bare:7.1f} {peak:9.1f}")


def commands_of(python: str, host: Path, folder: Path) -> dict[str, list[str]]:
    """The yardsticks and every command that changes nothing, by what the figure is called."""
    hello = folder / "hello.py"
    hello.write_text(HELLO)
    recipe = folder / "recipe.py"
    recipe.write_text("Stage0 += baseimage(image='nvidia/cuda:12.4.1-devel-ubuntu22.04')\nStage0 += ofed()\n")
    plan = folder / "plan.json"
    gpustack = [python, "-m", "gpustack"]
    asked = ["driver", "cuda", "cudnn", "--os", "ubuntu24.04", "--gpu", "L4"]
    subprocess.run([*gpustack, "plan", *asked, "--out", str(plan)], check=True, stdout=subprocess.DEVNULL)
    commands = {
        "bare interpreter": [python, "-c", "pass"],
        "typer hello world": [python, str(hello)],
        "hpccm recipe": [python, "-m", "hpccm.cli", "--recipe", str(recipe)],
        "gpustack --version": [*gpustack, "--version"],
        "gpustack --help": [*gpustack, "--help"],
        "gpustack check, five components": [
            *gpustack, "check", "driver==580.95.05", "cuda==13.0.2", "cudnn==9.14.0.64", "tensorrt==10.13.3.9",
            "nv-codec-headers==13.0.19.0", "--host", str(host),
        ],
        "gpustack plan, recorded host": [*gpustack, "plan", "cuda", "cudnn", "--host", str(host), "--format", "json"],
        "gpustack plan, described host": [*gpustack, "plan", *asked],
        "gpustack explain": [*gpustack, "explain", *asked],
        "gpustack render --format shell": [*gpustack, "render", str(plan), "--format", "shell"],
        "gpustack install --dry-run": [*gpustack, "install", "cuda", "--dry-run"],
        "gpustack detect": [*gpustack, "detect", "--format", "json"],
        "gpustack detect, 50 MB of kern.log": [*gpustack, "detect", "--root", str(logged(folder)), "--format", "json"],
        "gpustack check, a framework": [*gpustack, "check", "torch==2.9.1", "driver==550.54.15", *asked[-4:]],
        "gpustack plan, a framework": [*gpustack, "plan", "vllm", *asked[-4:]],
        "gpustack plan, torch": [*gpustack, "plan", "torch", *asked[-4:]],
        "gpustack verify --level quick": [*gpustack, "verify", "--level", "quick"],
        "gpustack matrix list": [*gpustack, "matrix", "list"],
        "gpustack schema plan": [*gpustack, "schema", "plan"],
    }  # fmt: skip
    if subprocess.run([python, "-c", "import hpccm"], check=False, stderr=subprocess.DEVNULL).returncode:
        print("hpccm is not installed (pip install hpccm)")
        del commands["hpccm recipe"]
    return commands


def logged(folder: Path) -> Path:
    """A recorded host with a driver whose kernel log of one boot is full: a firewall, containers, USB."""
    tree = folder / "logged"
    shutil.copytree(ROOT / "tests" / "fixtures" / "hosts" / "ubuntu2404-h200-recorded" / "root", tree, symlinks=True)
    told = (
        "usb {0}-{1}: new high-speed USB device number {1} using xhci_hcd",
        "br-0c{0}: port {1}(veth{0}a{1}) entered forwarding state",
        "[UFW BLOCK] IN=eth0 OUT= SRC=10.0.{0}.{1} DST=10.0.0.5 LEN=40 TTL=247 PROTO=TCP SPT={1} DPT=22",
        "eth0: renamed from veth{0}b{1}",
    )
    head = "Nov 20 07:00:00 node kernel: [    0.000000] Linux version 6.8.0-48-generic\n"
    lines = [
        f"Nov 20 {7 + at // 3600:02}:{at // 60 % 60:02}:{at % 60:02} node kernel: [{at:12}.000000] "
        f"{told[at % len(told)].format(at % 7, at % 90)}\n"
        for at in range(60_000)
    ]
    block = "".join(lines)
    (tree / "var" / "log").mkdir(exist_ok=True)
    with (tree / "var" / "log" / "kern.log").open("w") as log:
        log.write(head)
        for _ in range(50_000_000 // len(block) + 1):
            log.write(block)
    return tree


SMOKE = """
import resource, sys
from gpustack.cli import main
main(["verify", *sys.argv[2:], "--level", "smoke", "--output", sys.argv[1]])
own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(*(one.ru_utime + one.ru_stime for one in (own, others)))
"""


def smoke(python: str, folder: Path) -> None:
    """What verify itself spends beside the programs that it starts: compilers, probes, samples."""
    asked = ["driver", "cuda", "cudnn", "nccl"] if Path("/dev/nvidiactl").exists() else ["cuda"]
    command = [python, "-c", SMOKE, str(folder / "report.txt"), *asked]
    answers = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3)]
    own, others = (statistics.median(column) for column in zip(*(map(float, a.split()) for a in answers), strict=True))
    if others < 1:
        print(f"{'gpustack verify --level smoke':40} no nvcc is installed here")
        return
    print(f"{'verify --level smoke, itself':40} {own * 1000:8.1f}  {' '.join(asked)}")
    print(f"{'  the programs that it ran':40} {others * 1000:8.1f}")
    print(f"{'  its share':40} {own / others:8.1%}")


SERVER = """
import os, socket, sys, threading
file = open(sys.argv[1], "rb")
size = os.fstat(file.fileno()).st_size
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
def serve(client):
    client.recv(65536)
    client.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % size)
    at = 0
    while at < size:
        at += os.sendfile(client.fileno(), file.fileno(), at, min(size - at, 1 << 22))
    client.close()
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""
FETCH = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from gpustack.install.supply.cache import Cache
from gpustack.install.supply.downloads import Fetcher
from gpustack.model.steps import Artifact
artifact = Artifact(url=sys.argv[1], path="/large", sha256=sys.argv[2])
Fetcher(Cache(Path(sys.argv[3])), mirrors={})(artifact, lambda done, total: None)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""
LARGE = 2 * 2**30


def downloads(python: str, folder: Path) -> None:
    """A file of 2 GiB from loopback: fetched, hashed and written, beside curl, sha256sum and openssl."""
    large = folder / "large"
    block = os.urandom(1 << 20)
    with large.open("wb") as stream:
        for _ in range(LARGE >> 20):
            stream.write(block)
    server = subprocess.Popen([python, "-c", SERVER, str(large)], stdout=subprocess.PIPE, text=True)
    if server.stdout is None:
        return
    address = f"http://127.0.0.1:{server.stdout.readline().strip()}/large"
    sha256 = subprocess.run(["sha256sum", str(large)], check=True, capture_output=True, text=True).stdout.split()[0]
    copy, cache = folder / "copy", folder / "cache"
    curl, ours, both, hashed = [], [], [], []
    peak = 0
    for _ in range(3):
        curl.append(wall(["curl", "--silent", "--output", str(copy), address]))
        both.append(curl[-1] + wall(["sha256sum", str(copy)]))
        hashed.append(wall(["openssl", "dgst", "-sha256", str(copy)]))
        copy.unlink()
        start = time.perf_counter()
        words = [python, "-c", FETCH, address, sha256, str(cache), str(ROOT / "src")]
        peak = max(peak, int(subprocess.run(words, check=True, capture_output=True, text=True).stdout))
        ours.append(time.perf_counter() - start)
        shutil.rmtree(cache)
    server.terminate()
    server.wait()
    print(f"\n{'2 GiB from loopback, wall time':40} {'seconds':>8}")
    for name, times in (
        ("curl to a file", curl),
        ("curl, then sha256sum", both),
        ("openssl dgst -sha256", hashed),
        ("gpustack: fetched, hashed, written", ours),
    ):
        print(f"{name:40} {statistics.median(times):8.2f}")
    mine = statistics.median(ours)
    yardstick = max(statistics.median(curl), statistics.median(hashed))
    print(f"{'curl and sha256sum / gpustack':40} {statistics.median(both) / mine:8.2f}")
    print(f"{'gpustack / larger of curl, openssl':40} {mine / yardstick:8.2f}")
    print(f"{'peak memory of gpustack, MiB':40} {peak / 1024:8.1f}")


def wall(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def solver(host_file: Path) -> None:
    sys.path.insert(0, str(ROOT / "src"))
    from gpustack.detect.hostfile import load
    from gpustack.errors import NoSolutionError
    from gpustack.matrix.index import load_matrix
    from gpustack.model.request import Request
    from gpustack.plan.build import build
    from gpustack.solve.requirements import parse_requirement
    from gpustack.solve.resolve import resolve

    def request(*texts: str) -> Request:
        return Request(requirements=tuple(parse_requirement(text) for text in texts))

    host = load(host_file)
    start = time.process_time()
    matrix = load_matrix()
    for component in ("driver", "cuda", "cudnn", "tensorrt", "nv-codec-headers"):
        matrix.rules(component)
        matrix.releases(component)
    print(f"\n{'facts of five components':40} {(time.process_time() - start) * 1000:8.1f} ms CPU")
    full = request("driver", "cuda", "cudnn", "tensorrt", "nv-codec-headers", "ffmpeg", "triton", "container-toolkit")
    report("full stack solved (first)", lambda: resolve(matrix, host, full), 1)
    report("full stack solved (warm)", lambda: resolve(matrix, host, full), 10)

    def conflict() -> None:
        try:
            resolve(matrix, host, request("cuda==11.2.*", "cudnn==9.*"))
        except NoSolutionError:
            return

    report("conflict with explanation (first)", conflict, 1)
    report("conflict with explanation (warm)", conflict, 5)
    plain = request("cuda", "cudnn")
    report(
        "1,000 hosts planned, all of them",
        lambda: [build(host, plain, resolve(matrix, host, plain), matrix) for _ in range(1000)],
        1,
    )


def rendering() -> None:
    """1,000 plans written in each form: the same two plans over and over, one for Linux and one for Windows."""
    from gpustack.detect.describe import describe
    from gpustack.matrix.index import load_matrix
    from gpustack.model.request import Request
    from gpustack.plan.build import build
    from gpustack.render.api import FORMATS, render
    from gpustack.solve.requirements import parse_requirement
    from gpustack.solve.resolve import resolve

    matrix = load_matrix()
    linux = describe(matrix, os="ubuntu24.04", arch="x86_64", gpus=("L4",))
    windows = describe(matrix, os="windows11", arch="x86_64", gpus=("GeForce RTX 3060",))
    names = ("driver", "cuda", "cudnn"), ("cuda", "cudnn")
    asked = [Request(requirements=tuple(map(parse_requirement, some))) for some in names]
    plans = [
        build(host, one, resolve(matrix, host, one), matrix) for host, one in zip((linux, windows), asked, strict=True)
    ]
    for form in FORMATS:
        plan = plans[form == "powershell"]
        report(f"1,000 plans as {form}", lambda plan=plan, form=form: [render(plan, form) for _ in range(1000)], 1)


def report(name: str, action: Callable[[], object], times: int) -> None:
    start = time.process_time()
    for _ in range(times):
        action()
    print(f"{name:40} {(time.process_time() - start) * 1000 / times:8.1f} ms CPU")


def main() -> None:
    asked = sys.argv[1:]
    if not set(asked) <= set(PARTS):
        sys.exit(f"parts: {', '.join(PARTS)}")
    python = str(environment(for_tests=True))
    if Path(sys.executable).resolve() != Path(python).resolve() or sys.prefix == sys.base_prefix:
        os.execv(python, [python, __file__, *sys.argv[1:]])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        host = folder / "host.json"
        tree = ROOT / "tests" / "fixtures" / "hosts" / "ubuntu2404-h200-recorded"
        saved = subprocess.run(
            [python, "-m", "gpustack", "detect", "--root", str(tree), "--format", "json"],
            check=True,
            capture_output=True,
        )
        host.write_bytes(saved.stdout)
        parts = {
            "processes": lambda: processes(python, host, folder),
            "facts": lambda: facts(python, folder),
            "smoke": lambda: smoke(python, folder),
            "solver": lambda: solver(host),
            "downloads": lambda: downloads(python, folder),
            "rendering": rendering,
        }
        for part in asked or parts:
            parts[part]()
    print(f"\npeak of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f} MiB")


if __name__ == "__main__":
    main()
