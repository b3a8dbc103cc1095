"""What the checks of frameworks say: of environments, of probes that go wrong, of GPUs that a framework does not see."""

from __future__ import annotations

import json
import os
import sys
import venv
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.failures.conftest import Compare, Scripted
from tests.unit.verify.conftest import HEALTHY

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.facts import CHECKED_FRAMEWORKS
from gpustack.model.host import Problem, PythonEnvironment
from gpustack.system.run import Finished, LocalRunner
from gpustack.verify import samples
from gpustack.verify.declare import Context, Outcome
from gpustack.verify.frame.runner import run_checks
from gpustack.verify.frameworks.full import EXPECTS
from gpustack.verify.frameworks.places import interpreter_of
from gpustack.verify.frameworks.probe import LARGE, judge, prove
from gpustack.verify.tensorrt.onnx import square_model

PYTHON = "/opt/venv/bin/python3"
IMPORTED = {"step": "imported", "version": "2.9.1+cu128", "cuda": "12.8"}
NONE = {"step": "devices", "count": 0}
ONE = {"step": "devices", "count": 1}
USES = {"step": "uses", "gpu": 0, "called": "NVIDIA L4"}
END = {"step": "end"}


def driver(code: int = 0, name: str = "CUDA_SUCCESS", cuda: int = 12080, count: int = 1) -> dict[str, Any]:
    return {"step": "driver", "code": code, "name": name, "cuda": cuda, "count": count}


def failed(error: str, kind: str = "RuntimeError") -> dict[str, Any]:
    return {"step": "failed", "kind": kind, "error": error, "last": error}


def done(step: str, wrong: int = 0) -> dict[str, Any]:
    return {"step": step, "gpu": 0, "called": "NVIDIA L4", "wrong": wrong, "of": 4096}


def wrote(*lines: dict[str, Any], code: int | None = 0, err: str = "", error: str = "") -> Finished:
    out = "".join(f"{json.dumps(one)}\n" for one in lines)
    return Finished(argv=("python3",), code=code, out=out, err=err, error=error)


PROBES: dict[str, Finished] = {
    "hangs before a word": wrote(code=None, error="no answer within 240 s"),
    "no import": wrote(failed("libcudnn.so.9: cannot open shared object file: No such file", "ImportError"), code=1),
    "dies while it is imported": wrote(driver(), code=-6),
    "CPU build": wrote(driver(), {**IMPORTED, "version": "2.9.1+cpu", "cuda": ""}, END),
    "no driver": wrote({"step": "driver", "error": "libcuda.so.1: cannot open shared object file"}, IMPORTED, NONE, END),
    "802": wrote(driver(802, "CUDA_ERROR_SYSTEM_NOT_READY"), IMPORTED, NONE, END),
    "803": wrote(driver(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), IMPORTED, NONE, END),
    "804": wrote(driver(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"), IMPORTED, NONE, END),
    "999": wrote(driver(999, "CUDA_ERROR_UNKNOWN"), IMPORTED, NONE, END),
    "driver too old": wrote(driver(cuda=12040), {**IMPORTED, "cuda": "13.0"}, NONE, END),
    "sees none": wrote(driver(), IMPORTED, NONE, END),
    "no kernel": wrote(driver(), IMPORTED, ONE, USES, failed("CUDA error: no kernel image is available"), code=1),
    "cuDNN fails": wrote(driver(), IMPORTED, ONE, USES, failed("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"), code=1),
    "another cuDNN": wrote(driver(), IMPORTED, ONE, USES, failed("cuDNN version incompatibility: PyTorch was compiled against (9, 19, 0) but found runtime version (9, 14, 0)."), code=1),
    "hangs on a GPU": wrote(driver(), IMPORTED, ONE, USES, code=None, error="no answer within 240 s"),
    "dies on a GPU": wrote(driver(), IMPORTED, ONE, USES, code=-11),
    "wrong results": wrote(driver(), IMPORTED, ONE, USES, done("product"), done("convolution", 7), END),
    "falls back": wrote(driver(), IMPORTED, ONE, USES, {"step": "fallback", "gpu": 0, "called": "GPU 0"}, END),
}  # fmt: skip


@pytest.fixture(scope="module")
def facts() -> Matrix:
    return load_matrix()


@pytest.fixture
def context(facts: Matrix, tmp_path: Path) -> Context:
    return Context(host=HEALTHY, matrix=facts, runner=Scripted(), work=tmp_path)


def texts_of(outcome: Outcome, name: str) -> dict[str, str]:
    assert outcome.status != "pass", name
    return {f"{name} {outcome.status}": outcome.reason, f"{name} fix": outcome.fix}


def test_probes(context: Context, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    texts: dict[str, str] = {}
    for name, end in PROBES.items():
        texts |= texts_of(judge(context, "torch", PYTHON, end), name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    texts |= texts_of(judge(context, "torch", PYTHON, PROBES["sees none"]), "hidden")
    compare("frameworks-probes", texts)


def test_a_probe_that_holds(context: Context) -> None:
    rate = {**done("rate"), "kind": "bf16", "tflops": 70.5}
    omitted = {"step": "omitted", "what": "torch.compile", "error": "no compiler"}
    outcome = judge(context, "torch", PYTHON, wrote(driver(), IMPORTED, ONE, USES, done("product"), rate, omitted, END))
    assert outcome.status == "pass"
    assert outcome.detail == (
        "torch 2.9.1+cu128 in /opt/venv/bin/python3: product, bf16 correct on 1 GPU (NVIDIA L4);"
        " torch.compile omitted: no compiler"
    )
    assert outcome.measurements["bf16-gpu0"].value == 70.5


@pytest.mark.parametrize("level", ["smoke", "full"])
def test_the_probe_names_a_framework_that_is_not_there(level: str, tmp_path: Path) -> None:
    """Each level finds its parts next to it, and what fails to be imported is in its last line."""
    script, *_ = samples.place(tmp_path, "framework_probe.py", "framework_full.py")
    end = LocalRunner().run((sys.executable, str(script), "cupy", level), timeout=60.0)
    last = json.loads(end.out.splitlines()[-1])
    assert (last["step"], last["kind"]) == ("failed", "ModuleNotFoundError")
    assert "cupy" in last["error"]


def test_the_large_models_of_onnx_runtime_are_those_that_its_program_judges() -> None:
    """Model and program agree on the size; the program runs in an interpreter that does not have gpustack."""
    program = (Path(samples.__file__).parent / "framework_full.py").read_text(encoding="utf-8")
    assert f"LARGE = {LARGE}\n" in program
    assert square_model("float16", LARGE).count(b"MatMul") == 1


def environment(path: str, packages: dict[str, str], *problems: Problem) -> PythonEnvironment:
    return PythonEnvironment(
        path=path, site=f"{path}/lib/python3.12/site-packages", python="3.12", packages=packages, problems=problems
    )


def test_environments(context: Context, compare: Compare, tmp_path: Path) -> None:
    wrong = Problem(id="environment-driver", message="torch 2.9.1 in /opt/a is built for CUDA 13.0", fix="upgrade it")
    other = Problem(id="environment-driver", message="JAX 0.7 in /opt/a is built for CUDA 13.0", fix="upgrade it")
    texts: dict[str, str] = {}
    for name, environments in {
        "none": (),
        "wrong": (environment("/opt/a", {"torch": "2.9.1"}, other, wrong),),
        "no interpreter": (environment(str(tmp_path / "gone"), {"torch": "2.9.1"}),),
    }.items():
        host = msgspec.structs.replace(HEALTHY, environments=environments)
        here = msgspec.structs.replace(context, host=host)
        found = {one.id: one for one in run_checks((), "quick", here, ("torch",))}
        for one in (found["torch.found"], found["torch.fit"]):
            if one.status != "pass":
                texts |= {f"{name} {one.id} {one.status}": one.reason, f"{name} {one.id} fix": one.fix}
        outcome = interpreter_of(here, "torch")
        if isinstance(outcome, Outcome):
            shown = {
                key: text.replace(str(tmp_path), "TMP") for key, text in texts_of(outcome, f"{name} python").items()
            }
            texts |= shown
    compare("frameworks-environments", texts)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_root_runs_no_interpreter_of_others(context: Context, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/python3"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    os.chown(program, 12345, 12345)
    outcome = interpreter_of(msgspec.structs.replace(context, given={"python": str(program)}), "torch")
    assert isinstance(outcome, Outcome)
    assert (outcome.reason, outcome.fix) == (
        f"{program} belongs to the user with number 12345: as root, gpustack does not run it",
        "run gpustack as that user",
    )
    gone = interpreter_of(msgspec.structs.replace(context, given={"python": str(tmp_path / "no")}), "torch")
    assert isinstance(gone, Outcome)
    assert (gone.reason, gone.fix) == (
        f"{tmp_path / 'no'} cannot be used: No such file or directory",
        "name another interpreter: `--python FILE`",
    )


@pytest.mark.parametrize("severity", ["warn", "info"])
def test_a_library_that_the_loader_takes_before_the_wheels_own(context: Context, severity: Any) -> None:
    copies = Problem(
        id="detect-cudnn-copies",
        message="several copies differ: 9.14.0 at /usr/lib/libcudnn.so.9, 9.19.0 at /opt/a/lib/python3.12/...",
        fix="take its folder out of LD_LIBRARY_PATH",
        severity=severity,
    )
    host = msgspec.structs.replace(
        HEALTHY, environments=(environment("/opt/a", {"torch": "2.9.1"}),), problems=(copies,)
    )
    (fit,) = (
        one for one in run_checks((), "quick", msgspec.structs.replace(context, host=host), ("torch",))
        if one.id == "torch.fit"
    )  # fmt: skip
    assert (fit.status, fit.reason) == (("fail", copies.message) if severity == "warn" else ("pass", ""))


def test_what_the_full_level_expects() -> None:
    assert EXPECTS == {
        "torch": "fp32, fp16, bf16 and fp8, where a GPU has them, an all-reduce and a compiled function are correct.",
        "tensorflow": "fp32, fp16 and bf16, an all-reduce and a function compiled by XLA are correct.",
        "jax": "fp32, fp16 and bf16, compiled by XLA, and a sum over all GPUs are correct.",
        "onnxruntime-gpu": "Matrix products in fp32 and fp16 by the provider for CUDA are correct.",
        "cupy": "fp32 and fp16, and an all-reduce by NCCL, are correct.",
    }


def test_frameworks_are_checked_when_they_are_named(context: Context) -> None:
    assert not {one.component for one in run_checks((), "quick", context)} & set(CHECKED_FRAMEWORKS)
    assert [one.id for one in run_checks(("jax",), "quick", context)] == ["jax.found", "jax.fit"]


TORCH = {
    "cannot be imported": ("raise ImportError('libcudnn.so.9: cannot open')", "torch cannot be imported: ImportError"),
    "dies": ("import os; os.abort()", "crashed (signal 6, SIGABRT)"),
    "hangs": ("import time; time.sleep(600)", "no answer within 3 s"),
    "lies": ("__version__ = 1", "AttributeError"),
    "writes noise": ("print('{not json'); import sys; sys.exit(3)", "exit code 3"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with an empty package torch."""
    place = tmp_path_factory.mktemp("venv")
    venv.EnvBuilder(symlinks=True).create(place)
    (place / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/torch").mkdir()
    return place


@pytest.mark.parametrize("name", TORCH)
def test_a_stand_in_of_torch_in_a_real_environment(name: str, context: Context, home: Path) -> None:
    (folder,) = home.glob("lib/python3*/site-packages/torch")
    text, expected = TORCH[name]
    (folder / "__init__.py").write_text(text, encoding="utf-8")
    limit = 3.0 if name == "hangs" else 120.0

    class Limited(LocalRunner):
        def run(self, argv: tuple[str, ...], **how: Any) -> Finished:
            return super().run(argv, **{**how, "timeout": limit})

    here = msgspec.structs.replace(context, runner=Limited(), given={"python": str(home / "bin/python")})
    outcome = prove(here, "torch", "smoke")
    assert outcome.status == "fail"
    assert expected in outcome.reason
