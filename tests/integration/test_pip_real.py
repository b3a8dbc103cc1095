"""Wheels for real: the plan's requirement file, its commands, the configured package index, and the loader."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.plan.making import stack

from gpustack.detect.api import detect
from gpustack.detect.describe import describe
from gpustack.matrix.index import load_matrix
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.model.resolution import Pick
from gpustack.plan.build import build

SMALL = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-nvjitlink", "nvidia-nvtx")
"""The projects of the set that stay under 100 MB together; the whole set is 2 GB."""

RELEASE = "13.2.2"


CUDNN = "9.28.0.42"
RTX = "1.7.1.116"


@cache
def made(*more: Pick) -> Plan:
    matrix = load_matrix()
    machine = replace(describe(matrix, os="debian12", arch="x86_64", gpus=("H100",)), environment="container")
    picks = (Pick(component="cuda", version=RELEASE, method="pip"), *more)
    return build(machine, Request(requirements=()), stack(matrix, machine, *picks), matrix)


def run_plan(root: Path, plan: Plan, keep: Callable[[str], str]) -> subprocess.CompletedProcess[str]:
    """The plan's own steps for the environment, its paths moved under ``root``; the first that fails, or the last.

    ``keep`` leaves of a requirement file what is to be installed.
    """
    done = subprocess.CompletedProcess[str](args=[], returncode=0)
    for step in plan.steps:
        if step.kind not in {"run", "pip-install", "make-link"} or step.phase == "verification":
            continue
        for file in step.files:
            path = Path(file.path.replace("/opt", str(root)))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(keep(file.content) if step.component and path.suffix == ".txt" else file.content)
        for argv in step.commands:
            command = [word.replace("/opt", str(root)) if word.startswith("/opt") else word for word in argv]
            command[0] = sys.executable if command[0] == "python3" else command[0]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return done
    return done


def whole(text: str) -> str:
    return text


def smaller(text: str, *, wrong: bool = False) -> str:
    blocks = text.replace("\\\n", "\\").split("\n")
    kept = [block.replace("\\", "\\\n") for block in blocks if block.partition("==")[0] in SMALL]
    assert len(kept) == len(SMALL)
    if wrong:
        # The smallest wheel alone, with one digit of its sum changed.
        line = next(block for block in kept if block.startswith("nvidia-nvtx"))
        kept = [line[:-1] + ("0" if line[-1] != "0" else "1")]
    return "\n".join(kept) + "\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("opt")
    done = run_plan(root, made(), smaller)
    assert done.returncode == 0, done.stderr
    return root / "gpustack" / "venv-cuda13"


def test_the_requirement_set_installs_and_says_its_versions(home: Path) -> None:
    frozen = subprocess.run(
        [home / "bin" / "python3", "-m", "pip", "freeze"], capture_output=True, text=True, check=True
    )
    installed = set(frozen.stdout.split())
    wanted = {word for step in made().steps for word in step.packages if word.partition("==")[0] in SMALL}
    assert wanted <= installed


def test_the_runtime_loads_and_is_of_the_planned_release(home: Path) -> None:
    runtime = ctypes.CDLL(str(home / "link" / "libcudart.so.13"))
    number = ctypes.c_int()
    assert runtime.cudaRuntimeGetVersion(ctypes.byref(number)) == 0
    assert number.value == 13020


def test_the_compiler_library_builds_for_a_gpu_that_is_not_here(home: Path) -> None:
    library = ctypes.CDLL(str(home / "link" / "libnvrtc.so"))
    program = ctypes.c_void_p()
    source = b'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
    assert library.nvrtcCreateProgram(ctypes.byref(program), source, b"twice.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")
    assert library.nvrtcCompileProgram(program, 1, options) == 0
    size = ctypes.c_size_t()
    assert library.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    assert size.value > 1000


def test_the_linker_finds_the_libraries_and_the_headers_by_their_stable_names(home: Path, tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    assert compiler is not None
    source = tmp_path / "version.c"
    source.write_text(
        "#include <nvrtc.h>\n#include <stdio.h>\n"
        'int main(void) { int a, b; if (nvrtcVersion(&a, &b)) return 1; printf("%d.%d", a, b); return 0; }\n'
    )
    folders = [f"-I{home}/nvidia/cu13/include", f"-L{home}/link", f"-Wl,-rpath,{home}/link"]
    program = tmp_path / "version"
    subprocess.run([compiler, str(source), *folders, "-lnvrtc", "-o", str(program)], check=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "13.2"


def test_a_wrong_sum_is_refused_by_pip(tmp_path: Path) -> None:
    done = run_plan(tmp_path, made(), partial(smaller, wrong=True))
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not list(tmp_path.glob("**/site-packages/nvidia"))


@pytest.mark.slow
def test_the_whole_set_installs_and_cudnn_says_its_version(tmp_path: Path) -> None:
    """Every wheel of the toolkit and of cuDNN: 3 GB from the package index."""
    plan = made(Pick(component="cudnn", version=CUDNN, method="pip"))
    done = run_plan(tmp_path, plan, whole)
    assert done.returncode == 0, done.stdout + done.stderr
    place = tmp_path / "gpustack/venv-cuda13"
    command = [place / "bin/python3", "-m", "pip", "freeze"]
    frozen = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {word for step in plan.steps for word in step.packages if "==" in word} <= set(frozen)
    cudnn = ctypes.CDLL(str(place / "link/libcudnn.so.9"))
    cudnn.cudnnGetVersion.restype = ctypes.c_size_t
    assert cudnn.cudnnGetVersion() == 92800


RTX_BUILDS = """\
import sys
import tensorrt_rtx_bindings as trt
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(0)
given = network.add_input("given", trt.float32, (1, 8))
made = network.add_activation(given, trt.ActivationType.RELU).get_output(0)
network.mark_output(made)
config = builder.create_builder_config()
config.num_compute_capabilities = 1
config.set_compute_capability(trt.ComputeCapability.SM89, 0)
engine = bytes(memoryview(builder.build_serialized_network(network, config)))
print(trt.__version__, len(engine) > 1000)
"""
"""A network of one layer, built for a GPU that is not here."""


def test_tensorrt_rtx_builds_an_engine_without_a_gpu(tmp_path: Path) -> None:
    whole_plan = made(Pick(component="tensorrt-rtx", version=RTX, method="pip"))
    plan = replace(whole_plan, steps=tuple(step for step in whole_plan.steps if step.component != "cuda"))
    done = run_plan(tmp_path, plan, whole)
    assert done.returncode == 0, done.stdout + done.stderr
    home = tmp_path / "gpustack/venv-cuda13"
    told = subprocess.run([home / "bin/python3", "-c", RTX_BUILDS], capture_output=True, text=True, check=False)
    assert told.stdout == f"{RTX} True\n", told.stderr
    assert (home / "link/libtensorrt_rtx.so").is_file()
    # Detection reads a tree that has the environment where the plan puts it.
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n')
    (tree / "opt").mkdir()
    (tmp_path / "gpustack").rename(tree / "opt/gpustack")
    there = detect(tree, load_matrix()).installed["tensorrt-rtx"]
    assert (there.version, there.method) == (RTX, "pip")
