"""NVIDIA's mnistCUDNN, where its samples are installed: copied, built and run as cuDNN's guide does."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from msgspec import Struct, field

from gpustack.system.run import Finished
from gpustack.verify.cuda.build import build_failure
from gpustack.verify.cuda.toolchain import Home, HostCompiler, Toolkit, select_compiler, select_toolkit
from gpustack.verify.cudnn.answers import mismatch, status_failure, version_text
from gpustack.verify.declare import Context, Outcome, errored, failed, passed
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of, first_line

SAMPLES = Path("/usr/src")
"""Where NVIDIA's packages put their samples, each major version of cuDNN in a folder of its own."""

MAJORS = (9, 8, 7)

_LINKED = ("cudart", "cublas", "cublasLt")
"""The toolkit's libraries that the sample is linked with."""

_ANY = "75"
"""The compute capability to build for where none is known: every nvcc from CUDA 10 on has it."""

_CUDA_FAILURE = re.compile(r"[Cc]uda failure\W+(?:Error: )?([^)\n]+)")
_OLD_SAMPLE = ("has no member", "Unsupported gpu architecture", "is not defined for option 'gpu-architecture'")


class NotRun(Struct, frozen=True, kw_only=True):
    """NVIDIA's sample did not run: ``reason`` says why, "" where none is installed."""

    reason: str = ""
    evidence: dict[str, str] = field(default_factory=dict)


def run_vendor_sample(context: Context, home: Home) -> Outcome | NotRun:
    """The result of NVIDIA's sample for this cuDNN's major version, or why it did not run."""
    there = {number: SAMPLES / f"cudnn_samples_v{number}" for number in MAJORS}
    there = {number: folder for number, folder in there.items() if (folder / "mnistCUDNN").is_dir()}
    major = major_of(home)
    if not there:
        return NotRun()
    if major not in there:
        which = ", ".join(str(folder) for folder in there.values())
        return NotRun(reason=f"NVIDIA's samples in {which} are for another major version")
    if not (there[major] / "mnistCUDNN/Makefile").is_file():
        return NotRun(reason=f"{there[major]}/mnistCUDNN was skipped: it has no Makefile")
    return run_sample(context, there[major], home)


def major_of(home: Home) -> int | None:
    """The major version in the header of this copy; cuDNN 8 and later keep it in a file of its own."""
    for name in ("cudnn_version.h", "cudnn.h"):
        file = home.include / name
        match = (
            re.search(r"#define\s+CUDNN_MAJOR\s+(\d+)", file.read_text(errors="replace")) if file.is_file() else None
        )
        if match:
            return int(match[1])
    return None


def run_sample(context: Context, folder: Path, home: Home) -> Outcome | NotRun:
    """Build the mnistCUDNN of ``folder`` from a copy against one cuDNN, run it and judge it."""
    kit, host = select_toolkit(context), select_compiler(context)
    if kit is None or host.path is None:
        return NotRun(reason=f"{folder}/mnistCUDNN was skipped: it requires nvcc and a host compiler")
    if not _has_freeimage(folder):
        return NotRun(reason=f"{folder}/mnistCUDNN was skipped: it requires FreeImage")
    copy = context.folder / folder.name
    shutil.copytree(folder, copy, symlinks=True, ignore=_built_before)
    place = copy / "mnistCUDNN"
    made = context.run(*_make(context, kit, host, home), timeout=240.0, cwd=place, env=_for_linking(context, kit, home))
    if made.code != 0 or not (place / "mnistCUDNN").is_file():
        return _not_made(context, made, kit, host, folder)
    ran = context.run("./mnistCUDNN", timeout=120.0, cwd=place, env=_for_running(kit, home))
    evidence = evidence_of(made, ran, work=context.work)
    stop = _CUDA_FAILURE.search(ran.out + ran.err)
    if stop and not host_facts.own_gpus(context.host):
        return passed(
            f"NVIDIA's mnistCUDNN in {folder}: compiled and linked; not run: no GPU here"
            f" (it starts, and stops at {stop[1].strip()!r})",
            evidence=evidence,
        )
    return _judge(folder, home, ran, evidence)


def _has_freeimage(folder: Path) -> bool:
    """Whether the compiler finds FreeImage's header; the oldest samples include it."""
    own = str(folder / "mnistCUDNN/FreeImage/include")
    named = [part for part in os.environ.get("CPATH", "").split(":") if part]
    return any(Path(part, "FreeImage.h").is_file() for part in ("/usr/include", "/usr/local/include", own, *named))


def _built_before(folder: str, names: list[str]) -> list[str]:
    """What a build in the installed folder left behind; make would reuse it."""
    if Path(folder).name != "mnistCUDNN":
        return []
    return [name for name in names if name.endswith(".o") or name in {"mnistCUDNN", "a.out", "test.c"}]


def _make(context: Context, kit: Toolkit, host: HostCompiler, home: Home) -> list[str]:
    """Build for the host's GPUs only: its own list of architectures has some that newer nvccs do not support."""
    capabilities = {gpu.compute_capability for gpu in host_facts.own_gpus(context.host) if gpu.compute_capability}
    here = " ".join(sorted((text.replace(".", "") for text in capabilities), key=int)) or _ANY
    chosen = [f"CUDNN_INCLUDE_PATH={home.include}", f"CUDNN_LIB_PATH={context.folder / 'links'}"]
    return ["make", f"CUDA_PATH={kit.root}", f"HOST_COMPILER={host.path}", *chosen, f"SMS={here}"]


def _for_linking(context: Context, kit: Toolkit, home: Home) -> dict[str, str]:
    """The settings with which compiler and linker find this cuDNN, with the plain names that wheels lack."""
    links = context.folder / "links"
    links.mkdir(exist_ok=True)
    libraries = {"cudnn": home.library}
    if not (kit.root / "lib64").exists():
        for name in _LINKED:
            found = sorted((kit.root / "lib").glob(f"lib{name}.so*"))
            libraries |= {name: found[0]} if found else {}
    for name, library in libraries.items():
        link = links / f"lib{name}.so"
        if not link.is_symlink():
            link.symlink_to(library)
    own = [str(home.include)] if home.origin == "wheel" or not str(home.include).startswith("/usr/include") else []
    return {"CPATH": _path(*own, old="CPATH"), "LIBRARY_PATH": _path(str(links), f"{kit.root}/lib", old="LIBRARY_PATH")}


def _for_running(kit: Toolkit, home: Home) -> dict[str, str]:
    """The loader's own path first, as a user's program would find the libraries."""
    old = os.environ.get("LD_LIBRARY_PATH", "")
    folders = (old, str(home.library.parent), f"{kit.root}/lib64", f"{kit.root}/lib")
    return {"LD_LIBRARY_PATH": ":".join(part for part in folders if part)}


def _path(*folders: str, old: str) -> str:
    return ":".join(part for part in (*folders, os.environ.get(old, "")) if part)


def _not_made(context: Context, made: Finished, kit: Toolkit, host: HostCompiler, folder: Path) -> NotRun:
    """Why it was not built. That is not a failure of cuDNN: gpustack's own network is built instead."""
    text = made.out + made.err
    if "FreeImage is not set up correctly" in text:
        # The Makefile prints this whatever the reason why its first small program does not link.
        said = next((line.strip() for line in text.splitlines() if "cannot find" in line or "rror:" in line), "")
        why = f"its Makefile could not link FreeImage{f': {said}' if said else ''}"
    else:
        why = build_failure(context, made, kit, f"{host.path} {host.version}".strip(), host.chosen_by).reason
        if any(words in text for words in _OLD_SAMPLE):
            why += f"; these samples are older than CUDA {kit.release}"
    return NotRun(
        reason=f"NVIDIA's mnistCUDNN in {folder} was not built: {why}", evidence=evidence_of(made, work=context.work)
    )


def _judge(folder: Path, home: Home, ran: Finished, evidence: dict[str, str]) -> Outcome:
    """Judge its output: it prints "Test passed!" once for each precision."""
    text = ran.out + ran.err
    match = re.search(r"cudnnGetVersion\(\) : (\d+) , CUDNN_VERSION from cudnn.h : (\d+)", text)
    wrong = mismatch(home, {"library": match[1], "header": match[2]}, [], evidence) if match else None
    if wrong is not None:
        return wrong
    if ran.code is None:
        return errored(f"mnistCUDNN produced no output: {ran.error}", evidence=evidence)
    if ran.code == 0 and "Test passed!" in text and "Test failed!" not in text:
        release = version_text(int(match[1])) if match else ""
        with_it = f" with cuDNN {release}" if release else ""
        return passed(f"NVIDIA's mnistCUDNN in {folder}{with_it}: Test passed!", actual=release, evidence=evidence)
    # Its tables of algorithms contain statuses too, even in a run that passes.
    status = re.search(r"(?:cudnn|CUDNN) failure\W+(?:Error: )?(CUDNN_STATUS_\w+)", text)
    if status:
        return status_failure(status[1], "a call in NVIDIA's mnistCUDNN", evidence)
    cuda = _CUDA_FAILURE.search(text)
    if cuda:
        return failed(
            f"CUDA fails in mnistCUDNN before cuDNN is used: {cuda[1].strip()}",
            "find the cause: `gpustack verify driver cuda --level smoke`",
            evidence=evidence,
        )
    lines = [line.strip() for line in text.splitlines() if "rror" in line or "failed" in line]
    said = lines[0] if lines else first_line(ran)
    return failed(f"NVIDIA's mnistCUDNN ended with exit code {ran.code}: {said}", evidence=evidence)
