"""What the output of the network's program means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from gpustack.model.results import Measurement
from gpustack.system.run import Finished
from gpustack.verify import samples
from gpustack.verify.cuda.errors import explain
from gpustack.verify.cuda.toolchain import Home
from gpustack.verify.cudnn.quick import INSTALL
from gpustack.verify.declare import Context, Outcome, errored, failed, passed
from gpustack.verify.frame.commands import describe_end, evidence_of
from gpustack.verify.frame.probes import parse_lines

_NOT_INITIALIZED = (
    "cuDNN does not initialize; common causes: it was built for another CUDA than the loaded one, its libraries come"
    " from different copies, or the GPU is out of memory"
)


def judge(context: Context, home: Home, end: Finished) -> Outcome:
    """What the output of the network's program means."""
    evidence = evidence_of(end, work=context.work)
    lines = parse_lines(end.out)
    versions = next((line for line in lines if "header" in line), None)
    if versions is None:
        return _not_started(home, end, evidence)
    loaded = [str(line["loaded"]) for line in lines if "loaded" in line]
    wrong = mismatch(home, versions, loaded, evidence) or _parts(loaded, evidence)
    if wrong is not None:
        return wrong
    broken = next((line for line in lines if "step" in line), None)
    if broken is not None:
        return _broken(context, broken, evidence)
    if end.code is None:
        return errored(f"the network's program produced no output: {end.error}", evidence=evidence)
    answer = next((line for line in lines if "digits" in line), None)
    if answer is None:
        return failed(f"the network's program {describe_end(end)}", evidence=evidence)
    known = "".join(str(digit) for digit in _network()["digits"])
    if answer["wrong"] or answer["digits"] != known:
        return failed(
            f"cuDNN {version_text(versions['library'])} computed wrong results: it recognized {answer['digits']}"
            " instead of"
            f" {known}",
            "reinstall cuDNN; if that does not help, try another GPU",
            evidence=evidence,
        )
    return passed(
        f"Test passed! cuDNN {version_text(versions['library'])} of {_main(loaded) or home.library}"
        f" recognized {len(known)} digits correctly",
        actual=version_text(versions["library"]),
        measurements={"distance-from-reference": Measurement(value=answer["most_apart"])},
        evidence=evidence,
    )


def _network() -> dict[str, Any]:
    return msgspec.json.decode((samples.FOLDER / "digits/network.json").read_bytes(), type=dict[str, Any])


def version_text(number: int) -> str:
    """The version of cuDNN's number: 8907 is 8.9.7, and from 9 on 91400 is 9.14.0."""
    if number >= 90000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


def _main(loaded: list[str]) -> str:
    return next((path for path in loaded if re.search(r"/libcudnn\.so", path)), "")


def mismatch(home: Home, versions: dict[str, Any], loaded: list[str], evidence: dict[str, str]) -> Outcome | None:
    """The failure of a runtime that is older than the headers, or of another major version."""
    built, runs = int(versions["header"]), int(versions["library"])
    if runs >= built and version_text(runs).split(".")[0] == version_text(built).split(".")[0]:
        return None
    place = _main(loaded) or "another copy"
    return failed(
        f"programs built with cuDNN {version_text(built)} ({home.include}/cudnn.h) load {version_text(runs)} from"
        f" {place}: the"
        " runtime must have the same major version and must not be older",
        f"remove the folder of {place} from LD_LIBRARY_PATH and /etc/ld.so.conf.d, or install both from one release",
        expected=f"cuDNN {version_text(built)} or newer",
        actual=f"cuDNN {version_text(runs)}",
        evidence=evidence,
    )


def _parts(loaded: list[str], evidence: dict[str, str]) -> Outcome | None:
    """The failure of libraries from two folders: one release's main library with another's engines."""
    folders = sorted({str(Path(path).resolve().parent) for path in loaded})
    if len(folders) < 2:
        return None
    return failed(
        f"libraries of cuDNN are loaded from different folders: {' and '.join(folders)}",
        "keep one of them on the loader's path",
        evidence=evidence,
    )


def _not_started(home: Home, end: Finished, evidence: dict[str, str]) -> Outcome:
    missing = re.search(r"error while loading shared libraries: (\S+): (.*)", end.err)
    if missing:
        there = sorted(path.name for path in home.library.parent.glob("libcudnn*.so*"))
        return failed(
            f"the loader does not find {missing[1]}; the folder of {home.library} contains"
            f" {', '.join(there) or 'none'}",
            f"reinstall all of cuDNN: {INSTALL}; after unpacking an archive run `sudo ldconfig`",
            evidence=evidence,
        )
    if end.code is None:
        return errored(f"the network's program produced no output: {end.error}", evidence=evidence)
    return failed(f"the network's program {describe_end(end)}", evidence=evidence)


def _broken(context: Context, line: dict[str, Any], evidence: dict[str, str]) -> Outcome:
    step, code, name = str(line["step"]), int(line["code"]), str(line["name"])
    if step.startswith("cuda "):
        cause, fix = explain(code, context, name)
        return failed(f"CUDA fails before cuDNN is used: {cause}", fix, evidence=evidence)
    return status_failure(name, step.removeprefix("cudnn "), evidence)


def status_failure(name: str, call: str, evidence: dict[str, str]) -> Outcome:
    """What a status of cuDNN means, and what fixes it; ``call`` is the call that returned it."""
    if name == "CUDNN_STATUS_NOT_INITIALIZED":
        return failed(
            f"{name}: {_NOT_INITIALIZED}",
            "check that one cuDNN for the installed CUDA is loaded (`gpustack verify cudnn`) and GPU memory is free"
            " (`nvidia-smi`)",
            evidence=evidence,
        )
    if "ARCH_MISMATCH" in name or "EXECUTION_FAILED" in name or "NOT_SUPPORTED" in name:
        return failed(f"{name}: this cuDNN has no code for the host's GPU", INSTALL, evidence=evidence)
    return failed(f"{call} fails with {name}", evidence=evidence)
