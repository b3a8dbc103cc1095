"""cuDNN 7, 8 and 9 linked statically: real headers, out of wheels, and archives of the real names with stand-ins inside.

NVIDIA's static archives cannot be had where these tests run. The stand-ins hold the functions that the network calls; one
member of an archive is needed by nothing and registers itself when the program starts, as cuDNN's engines do, which is
why cuDNN's guide has the archives linked whole.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.integration.nvcc import HOST, TOOLKIT

from gpustack.matrix.index import load_matrix
from gpustack.system.run import LocalRunner
from gpustack.verify import samples
from gpustack.verify.cuda.build import Built
from gpustack.verify.cuda.toolchain import Home
from gpustack.verify.cudnn.digits import run_digits
from gpustack.verify.cudnn.static import build_static
from gpustack.verify.declare import Context, Outcome

pytestmark = pytest.mark.slow

CALLED = sorted(set(re.findall(r"\b(cudnn[A-Z]\w+)\(", (samples.FOLDER / "digits.cpp").read_text())))
CONVOLUTION = [name for name in CALLED if "Convolution" in name]
REST = [name for name in CALLED if name not in CONVOLUTION]
NO_DRIVER = "CUDA fails before cuDNN is used: error 35 (cudaErrorInsufficientDriver)"

KINDS = {
    7: ("cupy-cuda101==7.8.0", "cupy/.data", 7605, {"cudnn_static": CALLED}),
    8: ("nvidia-cudnn-cu12==8.9.7.29", "nvidia/cudnn", 8907,
        {"cudnn_cnn_infer_static": CONVOLUTION, "cudnn_ops_infer_static": REST, "cudnn_adv_train_static": []}),
    9: ("nvidia-cudnn-cu13==9.14.0.64", "nvidia/cudnn", 91400,
        {"cudnn_cnn_static_v9": CONVOLUTION, "cudnn_ops_static_v9": REST, "cudnn_graph_static_v9": [],
         "cudnn_heuristic_static_v9": [], "cudnn_engines_precompiled_static_v9": [],
         "cudnn_engines_runtime_compiled_static_v9": [], "cudnn_adv_static_v9": []}),
}  # fmt: skip


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setenv("CUDA_HOME", str(TOOLKIT))
    for name in ("NVCC_CCBIN", "LD_LIBRARY_PATH", "CPATH"):
        monkeypatch.delenv(name, raising=False)
    # zlib, which cuDNN 8 and 9 need, wherever this machine has it or not.
    archive(tmp_path / "zlib", "z", "int zlibVersion(void) { return 0; }")
    monkeypatch.setenv("LIBRARY_PATH", str(tmp_path / "zlib"))
    (tmp_path / "work").mkdir()
    return Context(host=HOST, matrix=load_matrix(), runner=LocalRunner(), work=tmp_path / "work")


def archive(folder: Path, name: str, *sources: str) -> None:
    folder.mkdir(exist_ok=True)
    objects = []
    for number, source in enumerate(sources):
        file = folder / f"{name}-{number}.c"
        file.write_text(source)
        subprocess.run(["gcc", "-fPIC", "-c", "-o", str(file.with_suffix(".o")), str(file)], check=True)
        objects.append(str(file.with_suffix(".o")))
    subprocess.run(["ar", "rcs", str(folder / f"lib{name}.a"), *objects], check=True)


def function(name: str, version: int) -> str:
    if name == "cudnnGetVersion":
        return (
            f"int stand_in_registered; unsigned long {name}(void) {{ return stand_in_registered ? {version} : 0; }}\n"
        )
    if name == "cudnnGetErrorString":
        return f'const char *{name}(int code) {{ return "stand-in"; }}\n'
    return f"unsigned long {name}(void) {{ return 0; }}\n"


REGISTERS = "extern int stand_in_registered;\n__attribute__((constructor)) static void begin(void) { stand_in_registered = 1; }\n"


def installed(folder: Path, major: int) -> tuple[Home, int]:
    """Headers of that cuDNN and its archives in one folder, as packages place them."""
    wheel, place, version, archives = KINDS[major]
    options = ("--python-version", "3.8", "--only-binary=:all:") if major == 7 else ()
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *options, "-d", str(folder), wheel]
    subprocess.run(command, check=True)
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as packed:
        packed.extractall(folder, [name for name in packed.namelist() if name.startswith(f"{place}/include/")])
    file.unlink()
    library = folder / "lib"
    for number, (name, functions) in enumerate(archives.items()):
        told = "".join(function(one, version) for one in functions)
        # The last one of those that are linked holds what nobody calls.
        archive(library, name, told or f"int stand_in_{number};", *([REGISTERS] if number == 0 else []))
    (library / "libcudnn.so").touch()
    return Home(include=folder / place / "include", library=library / "libcudnn.so", origin="system"), version


@pytest.mark.parametrize("major", [7, 8, 9])
def test_the_network_holds_cudnn(context: Context, tmp_path: Path, major: int) -> None:
    home, version = installed(tmp_path, major)
    built = build_static(context, home)
    assert isinstance(built, Built), built
    needed = subprocess.run(["readelf", "-d", str(built.program)], capture_output=True, text=True, check=True).stdout
    assert "libcudnn" not in needed
    outcome = run_digits(context, home, 0, built)
    assert outcome.reason.startswith(NO_DRIVER)
    (said,) = outcome.evidence.values()
    # What nobody calls registered itself; without the archives whole the version would be 0.
    assert f'"header": {version}, "library": {version}' in said


def test_an_archive_that_is_missing(context: Context, tmp_path: Path) -> None:
    home, _ = installed(tmp_path, 8)
    (home.library.parent / "libcudnn_ops_infer_static.a").unlink()
    outcome = build_static(context, home)
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.fix) == (
        "fail",
        "a library is missing or from another release: install libraries and headers of one release",
    )
    assert re.fullmatch(r"none of the libraries that it is linked with holds cudnn\w+ and \d+ more", outcome.reason)


def test_no_archives_are_nothing_to_check(context: Context, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include/cudnn.h").write_text("#define CUDNN_MAJOR 7\n")
    outcome = build_static(
        context, Home(include=tmp_path / "include", library=tmp_path / "libcudnn.so", origin="system")
    )
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.reason) == (
        "skip",
        "cuDNN's static libraries are not installed; only statically linked programs require them",
    )
