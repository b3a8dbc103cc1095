"""What programs on a GPU answered, judged: recorded outputs, since no GPU can be had where these tests run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpustack.matrix.index import Matrix
from gpustack.matrix.index import load_matrix as real_matrix
from gpustack.model.host import Copy, Gpu, Host, Installed, OperatingSystem
from gpustack.model.results import CheckResult, Measurement
from gpustack.system.run import Finished
from gpustack.verify import api
from gpustack.verify.cuda import smoke as cuda_smoke
from gpustack.verify.cuda.build import build_failure
from gpustack.verify.cuda.measure import Measured
from gpustack.verify.cuda.toolchain import Home, Toolkit
from gpustack.verify.cudnn import answers
from gpustack.verify.declare import Context
from gpustack.verify.driver.figures import Figures
from gpustack.verify.driver.full import LEAST_RATIO, throughput
from gpustack.verify.nccl import all_reduce

DIGITS = "01234567890123456789"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcudnn.so.9.14.0"
HOME = Home(
    include=Path("/usr/include/x86_64-linux-gnu"),
    library=Path("/usr/lib/x86_64-linux-gnu/libcudnn.so"),
    origin="system",
)


def finished(*lines: dict[str, Any] | str, code: int | None = 0, err: str = "", error: str = "") -> Finished:
    out = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    return Finished(argv=("./program",), code=code, out=out, err=err, error=error, seconds=1.0)


@pytest.fixture
def context(healthy: Host, matrix: Matrix) -> Context:
    return Context(host=healthy, matrix=matrix)


def cudnn(context: Context, *lines: dict[str, Any] | str, **end: Any) -> tuple[str, str, str]:
    outcome = answers.judge(context, HOME, finished(*lines, **end))
    return outcome.status, outcome.reason or outcome.detail, outcome.fix


VERSIONS = {"header": 91400, "library": 91400, "cuda": 13000}
LOADED = {"loaded": LIBRARY}
RIGHT = {"gpu": 0, "digits": DIGITS, "most_apart": 1.7e-7, "wrong": 0}


def test_the_network_reads_every_digit(context: Context) -> None:
    assert cudnn(context, VERSIONS, LOADED, RIGHT, "Test passed!") == (
        "pass",
        f"Test passed! cuDNN 9.14.0 of {LIBRARY} recognized 20 digits correctly",
        "",
    )


def test_an_older_runtime_than_the_header(context: Context) -> None:
    """github.com/m-bain/whisperX issue 1297: compiled against (9,10,2) but found runtime version (9,1,0)."""
    versions = {"header": 91002, "library": 90100, "cuda": 12040}
    assert cudnn(context, versions, {"loaded": "/opt/old/libcudnn.so.9"}, RIGHT) == (
        "fail",
        "programs built with cuDNN 9.10.2 (/usr/include/x86_64-linux-gnu/cudnn.h) load 9.1.0 from /opt/old/libcudnn.so.9: the runtime must have the same major version and must not be older",
        "remove the folder of /opt/old/libcudnn.so.9 from LD_LIBRARY_PATH and /etc/ld.so.conf.d, or install both from one release",
    )


def test_the_oldest_message_of_all(context: Context) -> None:
    """github.com/google/automl issue 33: loaded runtime 7.4.1, compiled with 7.6.4."""
    versions = {"header": 7604, "library": 7401, "cuda": 10000}
    assert cudnn(context, versions, {"loaded": "/x/libcudnn.so.7"})[1].startswith(
        "programs built with cuDNN 7.6.4 (/usr/include/x86_64-linux-gnu/cudnn.h) load 7.4.1 from /x/libcudnn.so.7"
    )


def test_a_library_that_the_loader_does_not_find(context: Context, tmp_path: Path) -> None:
    """github.com/MahmoudAshraf97/whisper-diarization issue 259: wanted for cuDNN 9, there is cuDNN 8."""
    (tmp_path / "libcudnn.so.8").touch()
    home = Home(include=tmp_path, library=tmp_path / "libcudnn.so.8", origin="system")
    words = (
        "./digits: error while loading shared libraries: libcudnn.so.9: cannot open shared object file: No such file"
    )
    outcome = answers.judge(context, home, finished(code=127, err=words))
    assert (outcome.status, outcome.reason, outcome.fix) == (
        "fail",
        f"the loader does not find libcudnn.so.9; the folder of {tmp_path}/libcudnn.so.8 contains libcudnn.so.8",
        "reinstall all of cuDNN: `gpustack install cudnn`; after unpacking an archive run `sudo ldconfig`",
    )


def test_cudnn_that_does_not_start(context: Context) -> None:
    """github.com/haotian-liu/LLaVA issue 458: CUDNN_STATUS_NOT_INITIALIZED, whose causes are three."""
    broken = {"step": "cudnn cudnnCreate(&handle)", "code": 1001, "name": "CUDNN_STATUS_NOT_INITIALIZED"}
    assert cudnn(context, VERSIONS, LOADED, broken, code=1) == (
        "fail",
        "CUDNN_STATUS_NOT_INITIALIZED: cuDNN does not initialize; common causes: it was built for another CUDA than the loaded one, its libraries come from different copies, or the GPU is out of memory",
        "check that one cuDNN for the installed CUDA is loaded (`gpustack verify cudnn`) and GPU memory is free (`nvidia-smi`)",
    )


def test_cudnn_without_code_for_the_gpu(context: Context) -> None:
    broken = {"step": "cudnn x", "code": 3001, "name": "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH"}
    assert cudnn(context, VERSIONS, LOADED, broken, code=1) == (
        "fail",
        "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH: this cuDNN has no code for the host's GPU",
        "`gpustack install cudnn`",
    )


def test_parts_of_two_cudnns(context: Context) -> None:
    other = {"loaded": "/opt/venv/lib/libcudnn_graph.so.9"}
    assert cudnn(context, VERSIONS, LOADED, other, RIGHT) == (
        "fail",
        "libraries of cuDNN are loaded from different folders: /opt/venv/lib and /usr/lib/x86_64-linux-gnu",
        "keep one of them on the loader's path",
    )


def test_wrong_digits(context: Context) -> None:
    wrong = {"gpu": 0, "digits": "11234567890123456789", "most_apart": 0.9, "wrong": 2}
    assert cudnn(context, VERSIONS, LOADED, wrong, code=1) == (
        "fail",
        f"cuDNN 9.14.0 computed wrong results: it recognized 11234567890123456789 instead of {DIGITS}",
        "reinstall cuDNN; if that does not help, try another GPU",
    )


def test_cudnn_that_hangs_or_dies(context: Context) -> None:
    late = {"code": None, "error": "no answer within 90 s"}
    assert cudnn(context, VERSIONS, LOADED, **late)[:2] == (
        "error",
        "the network's program produced no output: no answer within 90 s",
    )
    assert cudnn(context, VERSIONS, LOADED, code=-11)[:2] == (
        "fail",
        "the network's program crashed (signal 11, SIGSEGV)",
    )


def nccl(context: Context, *lines: dict[str, Any] | str, **end: Any) -> tuple[str, str, str]:
    outcome = all_reduce.judge(context, finished(*lines, **end))
    return outcome.status, outcome.reason or outcome.detail, outcome.fix


HEAD = {"header": 22803, "library": 22803, "gpus": 2}
DEBUG = "Run `NCCL_DEBUG=WARN gpustack verify nccl --level smoke --format json`; NCCL's log is in 'evidence'."


def test_all_gpus_add_up(context: Context) -> None:
    rate = {"name": "bus-bandwidth", "value": 316.1, "unit": "GB/s"}
    assert nccl(context, HEAD, {"gpu": 0, "wrong": 0}, {"gpu": 1, "wrong": 0}, rate) == (
        "pass",
        "NCCL 2.28.3: correct sums on 2 GPUs; bus-bandwidth 316.1 GB/s",
        "",
    )


def test_versions_of_nccl_are_found_wherever_they_are_printed(context: Context) -> None:
    """A warning of NCCL may come first; sums without the versions are no answer."""
    warning = {"level": "WARN", "text": "no plugin"}
    sums = ({"gpu": 0, "wrong": 0}, {"gpu": 1, "wrong": 0})
    assert nccl(context, warning, HEAD, *sums)[:2] == ("pass", "NCCL 2.28.3: correct sums on 2 GPUs")
    assert nccl(context, warning, *sums)[:2] == (
        "error",
        f"the all-reduce produced no output: {json.dumps(warning)}",
    )


@pytest.mark.parametrize(
    ("lines", "end", "expected"),
    [
        (
            ({"gpu": 0, "wrong": 0}, {"gpu": 1, "wrong": 7}),
            {"code": 1},
            ("fail", "the sum is wrong on GPU 1", "check the GPUs: `gpustack verify driver --level full`"),
        ),
        (
            ({"step": "nccl ncclCommInitAll", "code": 2, "name": "unhandled system error"},),
            {"code": 1, "err": "host:1:1 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-x"},
            (
                "fail",
                "NCCL fails with 'unhandled system error': Error: failed to extend /dev/shm/nccl-x",
                "enlarge /dev/shm: start the container with `--shm-size=1g` or `--ipc=host`",
            ),
        ),
        (
            ({"step": "nccl ncclAllReduce", "code": 3, "name": "internal error"},),
            {"code": 1},
            ("fail", "NCCL fails with 'internal error'", DEBUG),
        ),
        (
            (),
            {"code": 127, "err": "./allreduce: error while loading shared libraries: libnccl.so.2: cannot open"},
            (
                "fail",
                "the loader does not find libnccl.so.2",
                "reinstall NCCL: `gpustack install nccl`; after unpacking an archive run `sudo ldconfig`",
            ),
        ),
        (
            (),
            {"code": 127, "err": "./allreduce: error while loading shared libraries: libstdc++.so.6: cannot open"},
            (
                "fail",
                "the loader does not find libstdc++.so.6",
                "install the library, or add its folder to /etc/ld.so.conf.d and run `sudo ldconfig`",
            ),
        ),
        ((), {"code": None, "error": "no answer within 120 s"},
         ("error", "the all-reduce produced no output: no answer within 120 s", "")),
    ],
)  # fmt: skip
def test_an_all_reduce_that_fails(context: Context, lines: Any, end: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert nccl(context, HEAD, *lines, **end) == expected


def test_an_older_nccl_than_the_header(context: Context) -> None:
    assert nccl(context, {**HEAD, "library": 22103}, {"gpu": 0, "wrong": 0}) == (
        "fail",
        "programs built with NCCL 2.28.3 load the older 2.21.3",
        "keep one NCCL on the loader's path",
    )


def test_how_versions_are_counted() -> None:
    assert [answers.version_text(number) for number in (7605, 8907, 90100, 91400)] == [
        "7.6.5",
        "8.9.7",
        "9.1.0",
        "9.14.0",
    ]
    assert [all_reduce.version_text(number) for number in (2708, 2804, 20908, 22809)] == [
        "2.7.8",
        "2.8.4",
        "2.9.8",
        "2.28.9",
    ]


H200 = Gpu(name="H200", pci_id="10de:2335", bus_id="0000:00:06.0", compute_capability="9.0")


@pytest.mark.parametrize(
    ("bandwidth", "status", "told"),
    [
        (3992.0, "pass", "H200 (0000:00:06.0): 83% of H200's memory bandwidth"),
        (1200.0, "fail", "H200 (0000:00:06.0): 25% of H200's memory bandwidth"),
    ],
)
def test_a_gpu_is_held_against_its_datasheet(bandwidth: float, status: str, told: str) -> None:
    """The figure comes from the real matrix: 4800 GB/s for an H200."""
    context = Context(host=Host(gpus=(H200,)), matrix=real_matrix())
    values = {"memory-bandwidth": Measurement(value=bandwidth, unit="GB/s")}
    one = Measured(about={"called": "NVIDIA H200", "bus": "0000:00:06.0"}, values=values, evidence={})
    context.shared.once("measured", lambda: (one,))
    outcome = throughput(context)
    assert (outcome.status, outcome.reason or outcome.detail) == (status, told)
    assert outcome.measurements["gpu0-memory-bandwidth-ratio"].value == round(bandwidth / 4800, 3)


def test_the_least_share_of_a_datasheet_is_what_dcgm_asks_for() -> None:
    """DCGM's file has a least bandwidth for each board: the middle one of their shares of the datasheets is ours."""
    matrix = real_matrix()
    rows = matrix.rows("gpu-figures", "dcgm_minimums", dict)
    stated = {row["device"]: row["minimum_mbs"] / 1000 for row in rows}
    figures = matrix.rows("gpu-figures", "figures", Figures)
    datasheets = {device: row.bandwidth_gbs for row in figures for device in row.devices if row.bandwidth_gbs}
    shares = sorted(least / datasheets[device] for device, least in stated.items())
    assert len(shares) > 50
    assert abs(shares[len(shares) // 2] - LEAST_RATIO) < 0.01


def test_a_program_that_adds_wrongly(context: Context) -> None:
    line = {"gpu": 0, "called": "L4", "capability": "8.9", "bus": "0000:01:00.0", "wrong": 3}
    outcome = cuda_smoke.judge(context, finished({"runtime": 13000, "driver": 13000}, line, code=1))
    assert (outcome.status, outcome.reason, outcome.fix) == (
        "fail",
        "L4 (0000:01:00.0) computed wrong results: 3 of 1,048,576 sums",
        "take the GPU out of service and replace it",
    )


@pytest.mark.parametrize(
    ("said", "reason", "fix"),
    [
        (
            "/usr/bin/ld: cannot find -lz: No such file or directory\ncollect2: error: ld returned 1 exit status\n",
            "the linker does not find libz",
            "install the development package that contains libz.so or libz.a",
        ),
        (
            "/usr/bin/ld: digits.o: undefined reference to `cudnnAddTensor'\n"
            "/usr/bin/ld: digits.o: undefined reference to `cudnnAddTensor'\n",
            "none of the linked libraries defines cudnnAddTensor",
            "a library is missing or from another release: install libraries and headers of one release",
        ),
    ],
    ids=["library", "symbol"],
)
def test_what_the_linker_lacks_is_named(context: Context, said: str, reason: str, fix: str) -> None:
    kit = Toolkit(nvcc="nvcc", release="13.0", version="13.0.88", root=Path("/usr/local/cuda"))
    outcome = build_failure(context, finished(code=1, err=said), kit, "g++ 13.3.0", "")
    assert (outcome.status, outcome.reason, outcome.fix) == ("fail", reason, fix)


def verdicts(host: Host) -> dict[str, CheckResult]:
    return {one.id: one for one in api.verify(("nccl",), "quick", host, real_matrix(), None).checks}


def test_nccl_of_another_cuda() -> None:
    copy = Copy(component="nccl", path="/usr/lib/libnccl.so.2", version="2.28.3", soname="libnccl.so.2", wins=True)
    host = Host(
        os=OperatingSystem(id="ubuntu", version_id="24.04", family="apt"),
        copies=(copy,),
        installed={"cuda": Installed(version="13.0.2"), "nccl": Installed(version="2.28.3", method="network")},
    )
    found = verdicts(host)
    assert (found["nccl.found"].status, found["nccl.found"].detail) == ("pass", "/usr/lib/libnccl.so.2 (2.28.3)")
    assert found["nccl.cuda"].status in {"pass", "skip"}


def test_no_nccl_where_it_is_named_is_a_failure() -> None:
    assert [(one.status, one.reason, one.fix) for one in verdicts(Host()).values()] == [
        ("fail", "required, but no NCCL was found", "`gpustack install nccl`"),
        ("skip", "no NCCL was found", "`gpustack install nccl`"),
    ]
