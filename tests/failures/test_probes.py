"""What the probes of libcuda and NVML answer in trouble, line by line, and what the checks make of it.

The probes themselves are run against stand-in libraries in ``tests/unit/verify/test_gpu_stubs.py``.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.failures.conftest import Ask, Compare, Scripted, says, told
from tests.unit.verify.conftest import HEALTHY

from gpustack.model.host import Gpu, Host
from gpustack.system.run import Finished

GPUS = tuple(msgspec.structs.replace(HEALTHY.gpus[0], bus_id=f"0000:0{n}:00.0", uuid=f"GPU-{n}") for n in (1, 2))
TWO = msgspec.structs.replace(HEALTHY, gpus=GPUS)
CONTAINER = msgspec.structs.replace(TWO, environment="container")


def lines(*told: dict[str, Any], code: int | None = 0, error: str = "", seconds: float = 1.0) -> Finished:
    text = "".join(f"{json.dumps(one)}\n" for one in told)
    return Finished(argv=("x",), code=code, out=text, error=error, seconds=seconds)


def nvml(*gpus: dict[str, Any], **fields: Any) -> Finished:
    return lines({"gpus": [{"index": n, "name": "L4", **one} for n, one in enumerate(gpus)], **fields})


LOAD = {"step": "load", "library": "/usr/lib/libcuda.so.1"}
INIT = {"step": "init", "code": 0, "name": "CUDA_SUCCESS"}
COUNT = {"step": "count", "code": 0, "name": "CUDA_SUCCESS", "count": 2, "cuda": 13000}
BEGIN = [{"step": "begin", "gpu": n, "called": "L4", "bus": f"0000:0{n + 1}:00.0", "uuid": str(n + 1)} for n in (0, 1)]
END = [{"step": "end", "gpu": n, "at": "", "code": 0, "name": ""} for n in (0, 1)]
BOTH = nvml({"bus_id": "00000000:01:00.0", "uuid": "GPU-1"}, {"bus_id": "00000000:02:00.0", "uuid": "GPU-2"})
NO_ANSWER = lines(code=None, error="no answer within 30 s")

CONTEXTS: dict[str, tuple[Host, Finished]] = {
    "no library": (TWO, lines({"step": "load", "error": "libcuda.so.1: cannot open shared object file"})),
    "no library in a container": (
        CONTAINER,
        lines({"step": "load", "error": "libcuda.so.1: cannot open shared object"}),
    ),
    "probe broke": (TWO, lines(code=1)),
    "cuInit hangs": (TWO, lines(LOAD, code=None, error="no answer within 100 s")),
    "no GPU counted": (TWO, lines(LOAD, INIT, {**COUNT, "count": 0})),
    "a GPU hangs": (TWO, lines(LOAD, INIT, COUNT, BEGIN[0], END[0], BEGIN[1], code=None, seconds=100.0)),
    "out of memory": (
        TWO,
        lines(LOAD, INIT, COUNT, BEGIN[0], {**END[0], "at": "context", "code": 2, "name": "CUDA_ERROR_OUT_OF_MEMORY"}),
    ),
    "a damaged library": (TWO, lines(code=-7)),
    "a damaged library in a container": (msgspec.structs.replace(TWO, environment="container"), lines(code=-7)),
    "other bytes": (TWO, lines(LOAD, INIT, COUNT, BEGIN[0], {**END[0], "at": "compare"})),
}


def test_what_libcuda_answers(ask: Ask, compare: Compare) -> None:
    texts: dict[str, str] = {}
    for name, (host, answer) in CONTEXTS.items():
        texts |= told(name, ask("driver.context", host, on=Scripted({"*cuda_contexts.py": answer})))
    compare("libcuda", texts)


ADDS = [{**line, "step": "adds"} for line in BEGIN]
ADDED = [{"step": "added", "gpu": number, "at": "", "code": 0, "name": "CUDA_SUCCESS", "wrong": 0} for number in (0, 1)]
KEPLER = msgspec.structs.replace(
    TWO, gpus=(TWO.gpus[0], msgspec.structs.replace(TWO.gpus[1], name="Tesla K80", compute_capability="3.7"))
)
SUMS: dict[str, tuple[Host, Finished]] = {
    "a kernel hangs": (TWO, lines(LOAD, INIT, COUNT, ADDS[0], ADDED[0], ADDS[1], code=None, seconds=100.0)),
    "wrong sums": (TWO, lines(ADDS[0], ADDED[0], ADDS[1], {**ADDED[1], "wrong": 1024})),
    "no PTX": (TWO, lines(ADDS[0], {**ADDED[0], "at": "module", "code": 223, "name": "CUDA_ERROR_X", "log": "no JIT"})),
    "all are too old": (KEPLER, lines(ADDS[1], {**ADDED[1], "at": "module", "code": 209})),
    "none is listed": (TWO, lines(LOAD, INIT, COUNT)),
}


def test_what_the_kernel_computes(ask: Ask, compare: Compare) -> None:
    texts: dict[str, str] = {}
    for name, (host, answer) in SUMS.items():
        texts |= told(name, ask("driver.sums", host, on=Scripted({"*cuda_contexts.py": answer})))
    compare("sums", texts)


LISTS: dict[str, tuple[Host, Finished, Finished, dict[str, str]]] = {
    "NVML lists none": (TWO, nvml(), lines(LOAD, INIT, COUNT, *BEGIN, *END), {}),
    "NVML lacks one": (TWO, nvml({"bus_id": "00000000:01:00.0"}), lines(LOAD, INIT, COUNT, *BEGIN, *END), {}),
    "one fell off": (
        TWO,
        nvml({"bus_id": "00000000:01:00.0", "uuid": "GPU-1"}, {"error": "GPU is lost"}),
        lines(LOAD, INIT, COUNT, *BEGIN, *END),
        {},
    ),
    "CUDA lacks one, hidden": (TWO, BOTH, lines(LOAD, INIT, COUNT, BEGIN[0], END[0]), {"CUDA_VISIBLE_DEVICES": "0"}),
    "CUDA lacks one": (TWO, BOTH, lines(LOAD, INIT, COUNT, BEGIN[0], END[0]), {}),
    "a container of some": (CONTAINER, BOTH, lines(LOAD, INIT, COUNT, BEGIN[0], END[0]), {}),
    "another bus": (
        msgspec.structs.replace(HEALTHY, gpus=(Gpu(name="L4", bus_id="0000:09:00.0"),)),
        BOTH,
        lines(LOAD, INIT, COUNT, *BEGIN, *END),
        {},
    ),
    "another name": (
        TWO,
        BOTH,
        lines(LOAD, INIT, COUNT, {**BEGIN[0], "uuid": "7"}, BEGIN[1], *END),
        {},
    ),
    "inside WSL": (msgspec.structs.replace(TWO, environment="wsl"), BOTH, lines(LOAD, INIT, COUNT, *BEGIN, *END), {}),
}


def test_which_lists_differ(ask: Ask, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[str, str] = {}
    for name, (host, by_nvml, by_cuda, environment) in LISTS.items():
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        runner = Scripted({"*cuda_contexts.py": by_cuda, "*nvml_health.py": by_nvml})
        texts |= told(name, ask("driver.lists", host, on=runner))
    compare("lists", texts)


HEALTH: dict[str, tuple[str, Host, Finished]] = {
    "NVML hangs": ("driver.health", TWO, NO_ANSWER),
    "probe broke": ("driver.health", TWO, lines(code=3)),
    "driver not loaded": ("driver.health", TWO, lines({"error": "Driver Not Loaded", "code": 9})),
    "unknown error": ("driver.health", TWO, lines({"error": "Something New", "code": 777})),
    "no GPU listed": ("driver.health", TWO, nvml()),
    "one is lost": ("driver.modes", TWO, nvml({"error": "GPU is lost"})),
    "fabric starts": ("driver.modes", TWO, nvml({"fabric": {"state": 2, "status": 0}})),
    "fabric starts, in a container": ("driver.modes", CONTAINER, nvml({"fabric": {"state": 2, "status": 0}})),
    "fabric failed": ("driver.modes", TWO, nvml({"fabric": {"state": 3, "status": 5}})),
    "MIG without instances": ("driver.modes", TWO, nvml({"mig": 1, "mig_instances": 0})),
    "prohibited": ("driver.modes", TWO, nvml({"compute_mode": 2})),
    "one uncorrected": ("driver.health", TWO, nvml({"uncorrected": 1})),
    "many uncorrected": ("driver.health", TWO, nvml({"uncorrected": 5})),
    "row not replaced": ("driver.health", TWO, nvml({"remapped": {"failed": 1}})),
    "row waits": ("driver.health", TWO, nvml({"remapped": {"pending": 1}})),
    "page waits": ("driver.health", TWO, nvml({"retirement_pending": 1})),
    "slow by hardware": ("driver.clocks", TWO, nvml({"throttle": 0x8})),
    "slow by temperature": ("driver.clocks", TWO, nvml({"throttle": 0x20})),
    "slow by the brake": ("driver.clocks", TWO, nvml({"throttle": 0x80 | 0x40})),
}


def test_what_nvml_tells(ask: Ask, compare: Compare) -> None:
    texts: dict[str, str] = {}
    for name, (identity, host, answer) in HEALTH.items():
        texts |= told(f"{name}, {identity}", ask(identity, host, on=Scripted({"*nvml_health.py": answer})))
    compare("nvml", texts)


def listed(*names: str) -> Scripted:
    return Scripted({"ldconfig -p": says("".join(f"\t{name} (libc6,x86-64) => /usr/lib/{name}\n" for name in names))})


VIDEO = ("libnvidia-encode.so.1", "libnvcuvid.so.1")
COMPUTE = ("libcuda.so.1", "libnvidia-ptxjitcompiler.so.1")
LIBRARIES: dict[str, tuple[Host, Scripted, str]] = {
    "nothing": (TWO, listed(), ""),
    "no NVML": (TWO, listed(*COMPUTE, *VIDEO), ""),
    "no video": (TWO, listed(*COMPUTE, "libnvidia-ml.so.1"), ""),
    "not asked for": (CONTAINER, listed("libnvidia-ml.so.1"), "utility"),
    "asked for and lacking": (CONTAINER, listed("libnvidia-ml.so.1"), "all"),
}


def test_which_libraries_are_missing(ask: Ask, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    texts: dict[str, str] = {}
    for name, (host, runner, capabilities) in LIBRARIES.items():
        monkeypatch.setenv("NVIDIA_DRIVER_CAPABILITIES", capabilities)
        texts |= told(name, ask("driver.libraries", host, on=runner))
    compare("libraries", texts)
