"""What programs that are built here write and how they end, and what is said of it.

The programs are built and run for real in ``tests/integration/test_nvcc_real.py`` and on the machines of ``docs``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.failures.conftest import Compare, Scripted, says
from tests.unit.verify.conftest import HEALTHY

from gpustack.matrix.index import Matrix
from gpustack.system.run import Finished
from gpustack.verify.cuda import build, measure
from gpustack.verify.cuda import smoke as cuda_smoke
from gpustack.verify.cuda.toolchain import Home, Toolkit
from gpustack.verify.cudnn import answers, vendor
from gpustack.verify.declare import Context, Outcome
from gpustack.verify.nccl import all_reduce

KIT = Toolkit(nvcc="/usr/local/cuda/bin/nvcc", release="12.4", version="12.4.131", root=Path("/usr/local/cuda"))
HOME = Home(include=Path("/usr/include"), library=Path("/usr/lib/libcudnn.so.9"), origin="system")
NO_ANSWER = Finished(argv=("program",), code=None, error="no answer within 60 s")


def wrote(*told: dict[str, Any], code: int = 0, err: str = "") -> Finished:
    return Finished(argv=("program",), code=code, out="".join(f"{json.dumps(one)}\n" for one in told), err=err)


@pytest.fixture
def context(facts: Matrix, tmp_path: Path) -> Context:
    return Context(host=HEALTHY, matrix=facts, runner=Scripted(), work=tmp_path)


def texts_of(found: dict[str, Outcome]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, outcome in found.items():
        assert outcome.status != "pass", name
        texts |= {f"{name} {outcome.status}": outcome.reason, f"{name} fix": outcome.fix}
    return texts


def test_compilers(context: Context, compare: Compare) -> None:
    refused = "#error -- unsupported GNU version! gcc versions later than 13 are not supported!"
    said = {
        "gcc refused": (says(code=1, err=refused), ""),
        "gcc refused that was named": (says(code=1, err=refused), "NVCC_CCBIN"),
        "header missing": (says(code=1, err='a.cu(1): error: could not open source file "cudnn.h"'), ""),
        "compiler named does not work": (
            says(code=1, err="Failed to preprocess host compiler properties."),
            "NVCC_CCBIN",
        ),
        "architecture": (says(code=1, err="nvcc fatal   : Unsupported gpu architecture 'compute_120'"), ""),
        "architecture, newer nvcc": (
            says(code=1, err="Value 'sm_30' is not defined for option 'gpu-architecture'"),
            "",
        ),
        "library missing": (says(code=1, err="/usr/bin/ld: cannot find -lfreeimage: No such file or directory"), ""),
        "symbols missing": (says(code=1, err="a.o: undefined reference to `cudnnCreate'"), ""),
        "something else": (says(code=1, err='a.cu(7): error: expected a ";"'), ""),
        "no end": (NO_ANSWER, ""),
    }
    found = {
        name: build.build_failure(context, end, KIT, "/usr/bin/g++ 14.2", chosen_by)
        for name, (end, chosen_by) in said.items()
    }
    found["none at all"] = build._no_compiler(KIT, (), "")
    found["none that fits"] = build._no_compiler(KIT, ("g++ 14.2",), "6 to 13")
    found["none that fits, unknown"] = build._no_compiler(KIT, ("g++ 14.2",), "")
    compare("compilers", texts_of(found))


def test_programs_of_cuda(context: Context, compare: Compare) -> None:
    broken = {"step": "launch", "code": 209, "name": "cudaErrorNoKernelImageForDevice", "gpu": 0, "bus": "0000:01:00.0"}
    found: dict[str, Outcome] = {
        "call failed": cuda_smoke.judge(context, wrote(broken, code=1)),
        "before any GPU": cuda_smoke.judge(context, wrote({**broken, "gpu": -1, "code": 35}, code=1)),
        "no answer": cuda_smoke.judge(context, NO_ANSWER),
        "wrong sums": cuda_smoke.judge(context, wrote({"gpu": 0, "bus": "0000:01:00.0", "wrong": 7})),
        "crash": cuda_smoke.judge(context, wrote(code=-11, err="")),
        "measuring, no answer": measure._broken(context, "GPU 1", NO_ANSWER),
        "measuring, call failed": measure._broken(context, "GPU 1", wrote({**broken, "code": 2})),
    }
    compare("cuda-programs", texts_of(found))


def test_programs_of_nccl(context: Context, compare: Compare) -> None:
    head = {"header": 22803, "library": 22803, "gpus": 2}
    warning = "host: NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 9637888)"
    failed = {"step": "ncclCommInitAll", "code": 2, "name": "unhandled system error"}
    judge = all_reduce.judge
    found: dict[str, Outcome] = {
        "CUDA first": judge(context, wrote(head, {"step": "cuda set device", "code": 2, "name": "x"}, code=1)),
        "NCCL refuses": judge(context, wrote(head, failed, code=1)),
        "NCCL refuses and warns": judge(context, wrote(head, failed, code=1, err=warning)),
        "no library": judge(
            context, wrote(code=127, err="a: error while loading shared libraries: libnccl.so.2: cannot")
        ),
        "another library missing": judge(
            context, wrote(code=127, err="a: error while loading shared libraries: libcudart.so.12: cannot")
        ),
        "no answer": judge(context, NO_ANSWER),
        "older library": judge(context, wrote({**head, "library": 21805})),
        "wrong sum": judge(context, wrote(head, {"gpu": 1, "wrong": 3})),
        "no sum": judge(context, wrote(head)),
    }
    compare("nccl-programs", texts_of(found))


def test_programs_of_cudnn(context: Context, compare: Compare) -> None:
    head = {"header": 91400, "library": 91400}
    main, other = {"loaded": "/usr/lib/libcudnn.so.9"}, {"loaded": "/opt/cudnn/libcudnn_ops.so.9"}

    def judge(end: Finished) -> Outcome:
        return answers.judge(context, HOME, end)

    def vendored(end: Finished) -> Outcome:
        return vendor._judge(Path("/usr/src/cudnn_samples_v9"), HOME, end, {})

    reads = {"wrong": 1, "digits": "7", "most_apart": 0.5}
    version = "cudnnGetVersion() : 91400 , CUDNN_VERSION from cudnn.h : 91400 (9.14.0)\n"
    found: dict[str, Outcome] = {
        "library missing": judge(wrote(code=127, err="a: error while loading shared libraries: libcudnn.so.9: cannot")),
        "not started": judge(NO_ANSWER),
        "crash at start": judge(wrote(code=-11)),
        "older library": judge(wrote({**head, "library": 91000}, main)),
        "other major": judge(wrote({**head, "library": 8907})),
        "two folders": judge(wrote(head, main, other)),
        "CUDA first": judge(wrote(head, main, {"step": "cuda malloc", "code": 2, "name": "cudaErrorMemoryAllocation"})),
        "cuDNN refuses": judge(
            wrote(head, main, {"step": "cudnn create", "code": 1, "name": "CUDNN_STATUS_NOT_INITIALIZED"})
        ),
        "hang": judge(Finished(argv=("a",), code=None, out=json.dumps(head) + "\n", error="no answer within 60 s")),
        "crash": judge(wrote(head, main, code=-11)),
        "wrong digits": judge(wrote(head, main, reads)),
        "sample, no answer": vendored(NO_ANSWER),
        "sample, status": vendored(says(version + "CUDNN failure\nError: CUDNN_STATUS_EXECUTION_FAILED", code=1)),
        "sample, CUDA": vendored(says(version + "Cuda failure\nError: out of memory", code=1)),
        "sample, other words": vendored(says(version + "Test failed!\n", code=1)),
    }
    compare("cudnn-programs", texts_of(found))
    sample = vendor.run_sample(context, Path("/usr/src/cudnn_samples_v9"), HOME)
    assert not isinstance(sample, Outcome)
    assert sample.reason == "/usr/src/cudnn_samples_v9/mnistCUDNN was skipped: it requires nvcc and a host compiler"
