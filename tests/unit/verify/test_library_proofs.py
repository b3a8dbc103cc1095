"""CuBLAS, cuDNN and NCCL used without a compiler, against stand-ins of theirs that compute by the processor.

The stand-ins lie in a Python environment as wheels put them; the loader loads them, the proof calls them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gpustack.matrix.index import Matrix
from gpustack.model.host import Copy, Host
from gpustack.model.results import CheckResult
from gpustack.system.run import LocalRunner
from gpustack.verify.cuda.toolchain import Toolkit
from gpustack.verify.declare import Context, checks_of
from gpustack.verify.frame import runner

STUBS = Path(__file__).resolve().parents[2] / "stubs"
LIBRARIES = {"cublas": "libcublas.so.13", "cudnn": "libcudnn.so.9", "nccl": "libnccl.so.2"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the three libraries, and beside it a libcuda."""
    folder = tmp_path_factory.mktemp("environment") / "site-packages"
    made = {folder.parent / "libcuda.so.1": "libcuda.c"}
    made |= {folder / f"nvidia/{name}/lib/{file}": "libraries.c" for name, file in LIBRARIES.items()}
    for library, source in made.items():
        library.parent.mkdir(parents=True, exist_ok=True)
        command = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(STUBS / source)]
        subprocess.run(command, check=True)
    return folder


Ask = Callable[..., CheckResult]


@pytest.fixture
def ask(site: Path, healthy: Host, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run one check on a host with so many GPUs and no toolkit, whose Python has the stand-ins."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(site.parent))
    monkeypatch.setenv("PYTHONPATH", str(site))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)

    def run(
        identity: str,
        stub: str = "",
        *,
        gpus: int = 1,
        limit: float = 60.0,
        kit: Toolkit | None = None,
        **env: object,
    ) -> CheckResult:
        for name, value in {"STUB_LIBRARY": stub, "STUB_GPUS": gpus, **env}.items():
            monkeypatch.setenv(name, str(value))
        copies = tuple(
            Copy(component=name, path=str(site / f"nvidia/{name}/lib/{file}"), version="9.14.0", owner="wheel")
            for name, file in LIBRARIES.items()
        )
        host = msgspec.structs.replace(healthy, gpus=healthy.gpus * gpus, copies=copies, installed={})
        check = next(one for one in checks_of(identity.partition(".")[0]) if one.id == identity)
        check = msgspec.structs.replace(check, limit_s=limit)
        context = Context(host=host, matrix=matrix, runner=LocalRunner())
        context.shared.once("toolkit", lambda: kit)
        answer = runner._Answer(context, runner._Required(frozenset(), frozenset()))
        folder = tmp_path / identity
        folder.mkdir()
        return answer(check, {}, folder)

    return run


def told(result: CheckResult) -> tuple[str, str, str]:
    return result.status, result.reason or result.detail, result.fix


@pytest.mark.parametrize(
    ("identity", "name"), [("cuda.blas", "cublas"), ("cudnn.library", "cudnn"), ("nccl.library", "nccl")]
)
def test_a_library_of_an_environment_is_used_on_every_gpu(ask: Ask, site: Path, identity: str, name: str) -> None:
    path = site / f"nvidia/{name}/lib/{LIBRARIES[name]}"
    assert told(ask(identity, gpus=3)) == ("pass", f"{path}: correct on 3 GPUs, without a compiler", "")


def test_a_product_that_is_wrong(ask: Ask, site: Path) -> None:
    assert told(ask("cuda.blas", "blas-wrong")) == (
        "fail",
        f"cuBLAS ({site}/nvidia/cublas/lib/libcublas.so.13) computed wrong results on GPU 0: 1 of 1,024 numbers",
        "`gpustack verify driver --level full` checks the GPU's memory; reinstall the library",
    )


def test_a_sum_that_is_wrong_on_the_last_gpu(ask: Ask) -> None:
    assert " computed wrong results on GPU 1: 1 of 4,096 numbers" in ask("nccl.library", "nccl-wrong", gpus=2).reason


def test_a_library_that_does_not_know_the_gpu(ask: Ask, site: Path) -> None:
    assert ask("cuda.blas", "blas-arch").reason == (
        f"cublasCreate of cuBLAS ({site}/nvidia/cublas/lib/libcublas.so.13) fails with CUBLAS_STATUS_ARCH_MISMATCH"
    )


def test_a_cudnn_that_does_not_start_has_the_cause_of_a_program_that_was_built(ask: Ask) -> None:
    status, reason, fix = told(ask("cudnn.library", "dnn-init"))
    assert status == "fail"
    assert reason.startswith("CUDNN_STATUS_NOT_INITIALIZED: cuDNN does not initialize; common causes: ")
    assert fix.startswith("check that one cuDNN for the installed CUDA is loaded (`gpustack verify cudnn`)")


def test_an_nccl_that_does_not_start(ask: Ask, site: Path) -> None:
    status, reason, fix = told(ask("nccl.library", "nccl-system"))
    assert (status, reason) == (
        "fail",
        f"ncclCommInitAll of NCCL ({site}/nvidia/nccl/lib/libnccl.so.2) fails with 'unhandled system error'",
    )
    assert fix == "Run `NCCL_DEBUG=WARN gpustack verify nccl --level smoke --format json`; NCCL's log is in 'evidence'."


def test_a_gpu_that_fails_before_the_library_is_used(ask: Ask, site: Path) -> None:
    assert ask("cudnn.library", STUB_CUINIT=802).reason.startswith(
        f"CUDA fails before cuDNN ({site}/nvidia/cudnn/lib/libcudnn.so.9) is used: error 802 "
    )


def test_a_library_whose_parts_are_missing(ask: Ask, site: Path) -> None:
    library = site / "nvidia/nccl/lib/libnccl.so.2"
    whole = library.read_bytes()
    library.unlink()
    library.write_bytes(whole[:64])
    try:
        status, reason, fix = told(ask("nccl.library"))
    finally:
        library.write_bytes(whole)
    assert status == "fail"
    assert reason.startswith(f"NCCL ({library}) cannot be loaded: {library}: ")
    assert fix == "install all of its parts from one release: `gpustack install nccl`"


def test_a_library_without_the_functions_of_its_name(ask: Ask, site: Path) -> None:
    library = site / "nvidia/nccl/lib/libnccl.so.2"
    whole = library.read_bytes()
    library.unlink()
    library.write_bytes((site.parent / "libcuda.so.1").read_bytes())
    try:
        reason = ask("nccl.library").reason
    finally:
        library.unlink()
        library.write_bytes(whole)
    assert reason.startswith(f"NCCL ({library}) is not what it is called: ")
    assert reason.endswith("undefined symbol: ncclGetErrorString")


def test_numbers_are_added_without_a_toolkit(ask: Ask) -> None:
    assert told(ask("cuda.ptx"))[:2] == ("pass", "correct sums on L4 (0000:01:00.0)")


@pytest.mark.gate
def test_a_library_that_never_ends(ask: Ask, site: Path) -> None:
    status, reason, fix = told(ask("nccl.library", "nccl-hangs", limit=4.0))
    assert (status, fix) == ("fail", "check `sudo dmesg` for Xid messages")
    assert reason.startswith(f"NCCL ({site}/nvidia/nccl/lib/libnccl.so.2) does not end: no answer within ")


def test_a_library_that_ends_the_program(ask: Ask, site: Path) -> None:
    assert ask("nccl.library", "nccl-crashes").reason == (
        f"the proof of NCCL ({site}/nvidia/nccl/lib/libnccl.so.2) crashed (signal 6, SIGABRT)"
    )


def test_where_nvcc_is_the_kernel_is_one_that_it_builds(ask: Ask) -> None:
    kit = Toolkit(nvcc="nvcc", release="13.0", version="13.0.88", root=Path("/usr/local/cuda"))
    assert told(ask("cuda.ptx", kit=kit))[1] == "nvcc is installed: cuda.run computes with what it builds"


def test_nothing_of_a_library_is_a_skip(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")
    assert told(ask("cuda.blas")) == ("skip", "no cuBLAS was found", "`gpustack install cuda`")
