"""NVIDIA's mnistCUDNN where its samples are installed: make is real, shell scripts stand in for compiler and program.

NVIDIA's own sources may not be kept here. `docs/verify.md` tells with which of them the same code was run by hand.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import msgspec
import pytest

from gpustack.matrix.index import load_matrix
from gpustack.model.host import Gpu, Host, Installed
from gpustack.system.run import Finished, LocalRunner
from gpustack.verify.cuda.toolchain import Home
from gpustack.verify.cudnn import vendor
from gpustack.verify.declare import Context, Outcome

TOOLKIT = Path(sysconfig.get_path("purelib")) / "nvidia/cu13"
RECORDED = Path(__file__).resolve().parents[1] / "fixtures/h100/mnistCUDNN-9.log"
VERSIONS = "cudnnGetVersion() : 91400 , CUDNN_VERSION from cudnn.h : 91400 (9.14.0)"


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setenv("CUDA_HOME", str(TOOLKIT))
    monkeypatch.setattr(vendor, "SAMPLES", tmp_path / "src")
    for name in ("NVCC_CCBIN", "LD_LIBRARY_PATH", "LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    headers = tmp_path / "freeimage"
    headers.mkdir()
    (headers / "FreeImage.h").touch()
    monkeypatch.setenv("CPATH", str(headers))
    (tmp_path / "work").mkdir()
    host = Host(
        arch="x86_64",
        environment="bare-metal",
        gpus=(
            Gpu(name="H100", pci_id="10de:2330", bus_id="0000:01:00.0", compute_capability="9.0"),
            Gpu(name="L4", pci_id="10de:27b8", bus_id="0000:02:00.0", compute_capability="8.9"),
        ),
        installed={"cuda": Installed(version="13.0.2", method="network")},
    )
    return Context(host=host, matrix=load_matrix(), runner=LocalRunner(), work=tmp_path / "work")


@pytest.fixture
def wheel(tmp_path: Path) -> Home:
    """A cuDNN as a wheel lays it out: a library that only its soname names."""
    include, library = tmp_path / "cudnn/include", tmp_path / "cudnn/lib/libcudnn.so.9"
    include.mkdir(parents=True)
    library.parent.mkdir()
    library.touch()
    (include / "cudnn.h").write_text('#include "cudnn_version.h"\n')
    (include / "cudnn_version.h").write_text("#define CUDNN_MAJOR 9\n")
    return Home(include=include, library=library, origin="wheel")


def installed(folder: Path, recipe: str, major: int = 9) -> Path:
    """The samples of one major version, with something that an earlier build left behind."""
    place = folder / f"src/cudnn_samples_v{major}/mnistCUDNN"
    place.mkdir(parents=True)
    (place / "Makefile").write_text(f"all: mnistCUDNN\nmnistCUDNN:\n{recipe}")
    (place / "mnistCUDNN").write_text("an older build\n")
    (place / "fp16_emu.o").write_text("of another machine\n")
    return place.parent


def program(*lines: str, code: int = 0) -> str:
    said = "".join(f"\t@echo \"echo '{line}'\" >> mnistCUDNN\n" for line in lines)
    return f"\t@echo '#!/bin/sh' > mnistCUDNN\n{said}\t@echo 'exit {code}' >> mnistCUDNN\n\t@chmod +x mnistCUDNN\n"


def told(answer: Outcome | vendor.NotRun) -> tuple[str, str, str]:
    if isinstance(answer, vendor.NotRun):
        return "not run", answer.reason, ""
    return answer.status, answer.reason or answer.detail, answer.fix


PASSED = "Test passed!"
TABLE = (
    "^^^^ CUDNN_STATUS_SUCCESS for Algo 1: -1.000000 time",
    "^^^^ CUDNN_STATUS_NOT_SUPPORTED for Algo 6: -1.000000 time",
)
"""What it wrote on an H100 among much else, in a run that passed."""

RUNS = [
    ((VERSIONS, *TABLE, PASSED, *TABLE, PASSED), 0, "pass", "NVIDIA's mnistCUDNN in {folder} with cuDNN 9.14.0: Test passed!", ""),
    ((VERSIONS, *TABLE, PASSED, "Test failed!"), 1, "fail", "NVIDIA's mnistCUDNN ended with exit code 1: Test failed!", ""),
    (
        ("cudnnGetVersion() : 91200 , CUDNN_VERSION from cudnn.h : 91400 (9.14.0)", PASSED), 0, "fail",
        "programs built with cuDNN 9.14.0 ({home}/cudnn.h) load 9.12.0 from another copy: the runtime must have the same major version and must not be older",
        "remove the folder of another copy from LD_LIBRARY_PATH and /etc/ld.so.conf.d, or install both from one release",
    ),
    (
        (VERSIONS, *TABLE, "ERROR: cudnn failure (CUDNN_STATUS_NOT_INITIALIZED) in mnistCUDNN.cpp:501", "Aborting..."), 255,
        "fail",
        "CUDNN_STATUS_NOT_INITIALIZED: cuDNN does not initialize; common causes: it was built for another CUDA than the loaded one, its libraries come from different copies, or the GPU is out of memory",
        "check that one cuDNN for the installed CUDA is loaded (`gpustack verify cudnn`) and GPU memory is free (`nvidia-smi`)",
    ),
    (
        # What the sample of cuDNN 9 wrote where there is no driver.
        (VERSIONS, "ERROR: cuda failure (CUDA driver version is insufficient for CUDA runtime version) in error_util.h:94"),
        255, "fail",
        "CUDA fails in mnistCUDNN before cuDNN is used: CUDA driver version is insufficient for CUDA runtime version",
        "find the cause: `gpustack verify driver cuda --level smoke`",
    ),
    (
        # The form of cuDNN 7's error_util.h: two lines.
        ("Cuda failure", "Error: no CUDA-capable device is detected"), 1, "fail",
        "CUDA fails in mnistCUDNN before cuDNN is used: no CUDA-capable device is detected",
        "find the cause: `gpustack verify driver cuda --level smoke`",
    ),
    (
        (*TABLE, "CUDNN failure", "Error: CUDNN_STATUS_ALLOC_FAILED"), 1, "fail",
        "a call in NVIDIA's mnistCUDNN fails with CUDNN_STATUS_ALLOC_FAILED", "",
    ),
    (("nothing",), 0, "fail", "NVIDIA's mnistCUDNN ended with exit code 0: nothing", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "code", "status", "reason", "fix"),
    RUNS,
    ids=["well", "half", "older", "uninitialized", "no-driver", "seven", "seven-status", "silent"],
)
def test_what_the_sample_says_is_judged(
    context: Context, wheel: Home, tmp_path: Path, lines: tuple[str, ...], code: int, status: str, reason: str, fix: str
) -> None:
    folder = installed(tmp_path, program(*lines, code=code))
    answer = told(vendor.run_vendor_sample(context, wheel))
    assert answer == (status, reason.format(folder=folder, home=wheel.include), fix)
    # The installed folder is as it was.
    assert sorted(path.name for path in (folder / "mnistCUDNN").iterdir()) == ["Makefile", "fp16_emu.o", "mnistCUDNN"]


@pytest.mark.parametrize("said", [RUNS[4][0], RUNS[5][0]], ids=["no-driver", "seven"])
def test_without_a_gpu_it_is_compiled_linked_and_started(
    context: Context, wheel: Home, tmp_path: Path, said: tuple[str, ...]
) -> None:
    folder = installed(tmp_path, program(*said, code=1))
    nowhere = msgspec.structs.replace(context, host=msgspec.structs.replace(context.host, gpus=()))
    why = (
        "no CUDA-capable device is detected"
        if said == RUNS[5][0]
        else "CUDA driver version is insufficient for CUDA runtime version"
    )
    assert told(vendor.run_vendor_sample(nowhere, wheel)) == (
        "pass",
        f"NVIDIA's mnistCUDNN in {folder}: compiled and linked; not run: no GPU here (it starts, and stops at '{why}')",
        "",
    )


def test_what_it_wrote_on_an_h100_is_a_pass(wheel: Home) -> None:
    """The end of the real program's output on 2026-11-21, as evidence of the report keeps it."""
    said = RECORDED.read_text(encoding="utf-8").partition("$ ./mnistCUDNN\n")[2]
    assert "CUDNN_STATUS_NOT_SUPPORTED for Algo" in said
    outcome = vendor._judge(Path("/usr/src/cudnn_samples_v9"), wheel, Finished(argv=("x",), code=0, out=said), {})
    assert told(outcome)[:2] == ("pass", "NVIDIA's mnistCUDNN in /usr/src/cudnn_samples_v9: Test passed!")


def test_make_is_told_what_is_here(context: Context, wheel: Home, tmp_path: Path) -> None:
    """Its own lists have architectures that nvcc no longer builds for, and a wheel's library has no plain name."""
    recipe = (
        "\t@printf '%s\\n' '$(CUDA_PATH)' '$(HOST_COMPILER)' '$(SMS)' '$(CUDNN_INCLUDE_PATH)' \"$$CPATH\" > said\n"
        '\t@readlink "$(CUDNN_LIB_PATH)/libcudnn.so" "$(CUDNN_LIB_PATH)/libcudart.so" >> said\n'
        "\t@ls *.o >> said 2>/dev/null || true\n"
    )
    installed(tmp_path, recipe + program(VERSIONS, PASSED))
    assert told(vendor.run_vendor_sample(context, wheel))[0] == "pass"
    said = (context.folder / "cudnn_samples_v9/mnistCUDNN/said").read_text().splitlines()
    assert said == [
        *(str(TOOLKIT), "g++", "89 90", str(wheel.include), f"{wheel.include}:{tmp_path}/freeimage"),
        *(str(wheel.library), f"{TOOLKIT}/lib/libcudart.so.13"),
    ]


NOT_MADE = [
    (
        # What the Makefile wrote when the linker did not find the toolkit's own libraries: it blames FreeImage and succeeds.
        "\t@echo '/usr/bin/ld: cannot find -lcudart_static: No such file or directory'\n"
        "\t@echo '>>> WARNING - FreeImage is not set up correctly. Please ensure FreeImage is set up correctly. <<<'\n"
        "\t@echo '[@] g++ -o mnistCUDNN'\n",
        "its Makefile could not link FreeImage: /usr/bin/ld: cannot find -lcudart_static: No such file or directory",
    ),
    (
        # What nvcc 13.0 wrote of the samples that came with CUDA 12.
        '\t@echo \'error_util.h(106): error: class "cudaDeviceProp" has no member "clockRate"\'; exit 2\n',
        'nvcc failed: error_util.h(106): error: class "cudaDeviceProp" has no member "clockRate"; these samples are older than CUDA 13.0',
    ),
    (
        "\t@echo 'mnistCUDNN.cpp:40:10: fatal error: cudnn_ops.h: No such file or directory'; exit 1\n",
        "the header cudnn_ops.h is missing",
    ),
]


@pytest.mark.parametrize(("recipe", "why"), NOT_MADE, ids=["freeimage", "older-than-cuda", "header"])
def test_a_sample_that_is_not_built_is_no_verdict_on_cudnn(
    context: Context, wheel: Home, tmp_path: Path, recipe: str, why: str
) -> None:
    folder = installed(tmp_path, recipe)
    answer = vendor.run_vendor_sample(context, wheel)
    assert isinstance(answer, vendor.NotRun)
    assert answer.reason == f"NVIDIA's mnistCUDNN in {folder} was not built: {why}"
    assert answer.evidence


def test_samples_of_another_major_version(context: Context, wheel: Home, tmp_path: Path) -> None:
    folder = installed(tmp_path, program(PASSED), major=8)
    assert told(vendor.run_vendor_sample(context, wheel)) == (
        "not run", f"NVIDIA's samples in {folder} are for another major version", ""
    )  # fmt: skip


def test_samples_that_only_cmake_builds(context: Context, wheel: Home, tmp_path: Path) -> None:
    """As cuDNN's packages for Tegra bring them."""
    folder = installed(tmp_path, program(PASSED))
    (folder / "mnistCUDNN/Makefile").unlink()
    reason = f"{folder}/mnistCUDNN was skipped: it has no Makefile"
    assert told(vendor.run_vendor_sample(context, wheel)) == ("not run", reason, "")


def test_without_freeimage(context: Context, wheel: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = installed(tmp_path, program(PASSED))
    if any(Path(place, "FreeImage.h").exists() for place in ("/usr/include", "/usr/local/include")):
        pytest.skip("FreeImage's headers are installed on this machine")
    monkeypatch.delenv("CPATH")
    assert told(vendor.run_vendor_sample(context, wheel)) == (
        "not run", f"{folder}/mnistCUDNN was skipped: it requires FreeImage", ""
    )  # fmt: skip


def test_no_samples_at_all(context: Context, wheel: Home) -> None:
    assert vendor.run_vendor_sample(context, wheel) == vendor.NotRun()


@pytest.mark.parametrize(("name", "major"), [("cudnn.h", 7), ("cudnn_version.h", 8)])
def test_the_major_version_is_that_of_the_header(tmp_path: Path, name: str, major: int) -> None:
    (tmp_path / name).write_text(f"/* */\n#define CUDNN_MAJOR   {major}\n#define CUDNN_MINOR 6\n")
    home = Home(include=tmp_path, library=tmp_path / "libcudnn.so", origin="system")
    assert vendor.major_of(home) == major
