"""Smoke and full checks of cuDNN: NVIDIA's sample where it is installed, else a network of gpustack's own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import msgspec

from gpustack.model.results import Measurement
from gpustack.system.run import Finished
from gpustack.verify import samples, view
from gpustack.verify.build import Built, build, not_built
from gpustack.verify.checks.cudnn import INSTALL
from gpustack.verify.commands import evidence_of, first_line
from gpustack.verify.cuda_errors import explained
from gpustack.verify.declare import Context, Outcome, check, errored, failed, needless, passed, skipped
from gpustack.verify.probes import lines_of
from gpustack.verify.toolchain import Home, compiler, homes, toolkit

SAMPLES = tuple(Path(f"/usr/src/cudnn_samples_v{major}") for major in (9, 8, 7))
"""Where NVIDIA's packages put their samples."""

_NOT_INITIALIZED = (
    "cuDNN does not start: mostly it is made for another CUDA than the one that is loaded, parts of it come from"
    " another copy, or the GPU has no memory left"
)


@check(
    "cudnn.mnist",
    level="smoke",
    title="a network reads digits through cuDNN",
    expects="A program built here against cuDNN reads every digit as it should.",
    mends="Keep one cuDNN, of the installed CUDA's major version: `gpustack install cudnn`.",
    needs=("cudnn.found", "cuda.compile", "driver.context"),
    unless=(view.no_gpu,),
    limit_s=420.0,
)
def mnist(context: Context) -> Outcome:
    sample = next((folder for folder in SAMPLES if (folder / "mnistCUDNN/Makefile").is_file()), None)
    if sample is not None and _has_freeimage():
        return vendor_sample(context, sample)
    found = homes(context, "cudnn.h", "libcudnn", "cudnn")
    if not found:
        return skipped("no cudnn.h with its library was found, so nothing can be built against cuDNN", INSTALL)
    outcome = own_sample(context, found[0], 0)
    if sample is not None and outcome.status == "pass":
        why = f"; {sample}/mnistCUDNN is installed too, but needs FreeImage to be built"
        return msgspec.structs.replace(outcome, detail=outcome.detail + why)
    return outcome


def _has_freeimage() -> bool:
    return any(Path(folder, "FreeImage.h").is_file() for folder in ("/usr/include", "/usr/local/include"))


def vendor_sample(context: Context, folder: Path) -> Outcome:
    """Build and run NVIDIA's mnistCUDNN from a copy, as the guide of cuDNN does."""
    kit, host = toolkit(context), compiler(context)
    if kit is None or host.path is None:
        return skipped("no nvcc with a host compiler was found", "`gpustack install cuda`")
    copy = context.folder / folder.name
    shutil.copytree(folder, copy, symlinks=True)
    place = copy / "mnistCUDNN"
    made = context.run("make", f"CUDA_PATH={kit.root}", f"HOST_COMPILER={host.path}", timeout=240.0, cwd=place)
    if made.code != 0:
        return not_built(context, made, kit, host.path, host.chosen_by)
    ran = context.run("./mnistCUDNN", timeout=120.0, cwd=place)
    evidence = evidence_of(made, ran, work=context.work)
    if ran.code == 0 and "Test passed!" in ran.out:
        return passed(f"NVIDIA's mnistCUDNN of {folder}: Test passed!", evidence=evidence)
    if ran.code is None:
        return errored(f"mnistCUDNN gave no answer: {ran.error}", evidence=evidence)
    said = next(
        (line for line in (ran.out + ran.err).splitlines() if "rror" in line or "failed" in line), first_line(ran)
    )
    return failed(f"NVIDIA's mnistCUDNN ends with exit code {ran.code}: {said.strip()}", evidence=evidence)


def own_sample(context: Context, home: Home, gpu: int, built: Built | None = None) -> Outcome:
    """Build the network against one copy of cuDNN, run it on one GPU, and judge its answers."""
    program = built or build(context, "digits.cpp", home, options=("-Wno-deprecated-declarations",))
    if isinstance(program, Outcome):
        return program
    samples.place(context.folder, "digits/network.f32", "digits/pictures.u8")
    end = context.run(str(program.program), str(context.folder), str(gpu), timeout=90.0, env=program.environment)
    return judge(context, home, end)


def judge(context: Context, home: Home, end: Finished) -> Outcome:
    """What the network's program answered, in the user's words."""
    evidence = evidence_of(end, work=context.work)
    lines = lines_of(end.out)
    versions = next((line for line in lines if "header" in line), None)
    if versions is None:
        return _not_started(home, end, evidence)
    loaded = [str(line["loaded"]) for line in lines if "loaded" in line]
    wrong = _mismatch(home, versions, loaded, evidence) or _parts(loaded, evidence)
    if wrong is not None:
        return wrong
    broken = next((line for line in lines if "step" in line), None)
    if broken is not None:
        return _broken(context, broken, evidence)
    if end.code is None:
        return errored(f"the network gave no answer: {end.error}", evidence=evidence)
    answer = next((line for line in lines if "digits" in line), None)
    if answer is None:
        return failed(f"the network's program ends with exit code {end.code}: {first_line(end)}", evidence=evidence)
    known = "".join(str(digit) for digit in _network()["digits"])
    if answer["wrong"] or answer["digits"] != known:
        return failed(
            f"cuDNN {_spelled(versions['library'])} computes wrongly: it reads {answer['digits']}, shown are {known}",
            "the same network is right on the CPU: reinstall cuDNN, then try another GPU",
            evidence=evidence,
        )
    return passed(
        f"Test passed! cuDNN {_spelled(versions['library'])} of {_main(loaded) or home.library}"
        f" reads {len(known)} digits rightly",
        actual=_spelled(versions["library"]),
        measurements={"distance-from-reference": Measurement(value=answer["most_apart"])},
        evidence=evidence,
    )


def _network() -> dict[str, Any]:
    return msgspec.json.decode((samples.FOLDER / "digits/network.json").read_bytes(), type=dict[str, Any])


def _spelled(number: int) -> str:
    """CuDNN's own way of counting: 8907 is 8.9.7, and from 9 on 91400 is 9.14.0."""
    if number >= 90000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


def _main(loaded: list[str]) -> str:
    return next((path for path in loaded if re.search(r"/libcudnn\.so", path)), "")


def _mismatch(home: Home, versions: dict[str, Any], loaded: list[str], evidence: dict[str, str]) -> Outcome | None:
    """A runtime that is older than what the program was built with, or of another major version."""
    built, runs = int(versions["header"]), int(versions["library"])
    if runs >= built and _spelled(runs).split(".")[0] == _spelled(built).split(".")[0]:
        return None
    place = _main(loaded) or "another copy"
    return failed(
        f"programs built with cuDNN {_spelled(built)} ({home.include}/cudnn.h) load {_spelled(runs)} from {place}: the"
        " runtime has to be of the same major version and not older",
        f"take the folder of {place} out of LD_LIBRARY_PATH and /etc/ld.so.conf.d, or make both one release",
        expected=f"cuDNN {_spelled(built)} or newer",
        actual=f"cuDNN {_spelled(runs)}",
        evidence=evidence,
    )


def _parts(loaded: list[str], evidence: dict[str, str]) -> Outcome | None:
    """Parts of cuDNN out of two folders: one release's main library with another's engines."""
    folders = sorted({str(Path(path).resolve().parent) for path in loaded})
    if len(folders) < 2:
        return None
    return failed(
        f"parts of cuDNN are loaded from different folders: {' and '.join(folders)}",
        "keep one of them on the loader's path",
        evidence=evidence,
    )


def _not_started(home: Home, end: Finished, evidence: dict[str, str]) -> Outcome:
    missing = re.search(r"error while loading shared libraries: (\S+): (.*)", end.err)
    if missing:
        there = sorted(path.name for path in home.library.parent.glob("libcudnn*.so*"))
        return failed(
            f"the loader does not find {missing[1]}; beside {home.library} there are {', '.join(there) or 'none'}",
            f"reinstall cuDNN whole: {INSTALL}; `sudo ldconfig` after unpacking it by hand",
            evidence=evidence,
        )
    if end.code is None:
        return errored(f"the network's program gave no answer: {end.error}", evidence=evidence)
    return failed(f"the network's program ends with exit code {end.code}: {first_line(end)}", evidence=evidence)


def _broken(context: Context, line: dict[str, Any], evidence: dict[str, str]) -> Outcome:
    step, code, name = str(line["step"]), int(line["code"]), str(line["name"])
    if step.startswith("cuda "):
        cause, fix = explained(code, context.host, name)
        return failed(f"before cuDNN is reached, CUDA answers with {cause}", fix, evidence=evidence)
    if name == "CUDNN_STATUS_NOT_INITIALIZED":
        return failed(
            f"{name}: {_NOT_INITIALIZED}",
            "compare `gpustack verify cudnn` with `nvidia-smi`: one cuDNN of the toolkit's CUDA, and free GPU memory",
            evidence=evidence,
        )
    if "ARCH_MISMATCH" in name or "EXECUTION_FAILED" in name or "NOT_SUPPORTED" in name:
        return failed(f"{name}: this cuDNN has no code for the GPU here", INSTALL, evidence=evidence)
    return failed(f"cuDNN answers with {name} to {step.removeprefix('cudnn ')}", evidence=evidence)


@check(
    "cudnn.copies",
    level="full",
    title="the network through every copy of cuDNN, on every GPU",
    expects="Every cuDNN that has headers, the system's and those of Python environments, works on every GPU.",
    mends="Remove the copies that do not work, or reinstall them: `gpustack install cudnn`.",
    needs=("cudnn.mnist",),
    unless=(view.no_gpu,),
    limit_s=900.0,
)
def every_copy(context: Context) -> Outcome:
    found = homes(context, "cudnn.h", "libcudnn", "cudnn")
    if not found:
        return skipped("no cudnn.h with its library was found", INSTALL)
    told: list[str] = []
    evidence: dict[str, str] = {}
    for home in found:
        program = build(context, "digits.cpp", home, options=("-Wno-deprecated-declarations",))
        if isinstance(program, Outcome):
            return program
        for number in range(len(view.own_gpus(context.host))):
            outcome = own_sample(context, home, number, program)
            if outcome.status != "pass":
                return msgspec.structs.replace(outcome, reason=f"{home.library}, GPU {number}: {outcome.reason}")
            evidence |= outcome.evidence
        told.append(str(home.library))
    gpus = len(view.own_gpus(context.host))
    return passed(f"{', '.join(told)}: right on {gpus} GPU{'s' if gpus > 1 else ''}", evidence=evidence)


@check(
    "cudnn.static",
    level="full",
    title="the network with cuDNN linked statically",
    expects="The network built against cuDNN's static libraries reads every digit as it should.",
    mends="Install the static libraries of cuDNN and cuBLAS of the same release.",
    needs=("cudnn.mnist",),
    unless=(view.no_gpu,),
    limit_s=600.0,
)
def static(context: Context) -> Outcome:
    home = next(iter(homes(context, "cudnn.h", "libcudnn", "cudnn")), None)
    kit = toolkit(context)
    archives = sorted(home.library.parent.glob("libcudnn*_static*.a")) if home else []
    if home is None or kit is None or not archives:
        return needless("cuDNN's static libraries are not installed here; only programs linked statically need them")
    names = (
        "cublas_static",
        "cublasLt_static",
        "nvrtc_static",
        "nvrtc-builtins_static",
        "nvptxcompiler_static",
        "culibos",
    )
    own = [kit.root / "lib64" / f"lib{name}.a" for name in names]
    objects = [str(path) for path in (*{path.resolve() for path in archives}, *own) if path.exists()]
    group = [word for text in ("--start-group", *objects, "--end-group") for word in ("-Xlinker", text)]
    built = build(
        context, "digits.cpp", Home(include=home.include, library=archives[0], origin=home.origin),
        options=("-Wno-deprecated-declarations", *group, "-lz", "-ldl", "-lpthread", "-lrt"),
    )  # fmt: skip
    return built if isinstance(built, Outcome) else own_sample(context, home, 0, built)
