"""Full check of cuDNN: the network built for other machines whose cross packages are installed. It is not run."""

from __future__ import annotations

import os
from pathlib import Path

from gpustack.verify.cuda.build import Cross, build
from gpustack.verify.cuda.toolchain import Home, select_toolkit
from gpustack.verify.cudnn.digits import build_digits
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.frame.commands import evidence_of

_AARCH64 = 183
"""64-bit Arm in the header of an ELF file."""

TARGETS = {"sbsa-linux": "Arm servers (SBSA)", "aarch64-linux": "DRIVE OS Linux", "aarch64-qnx": "DRIVE OS QNX"}
"""Folders below the toolkit's ``targets``, and the machines of cuDNN's guides."""

COMPILER = "aarch64-linux-gnu-g++"
"""Debian's and Ubuntu's compiler for 64-bit Arm under Linux; QNX's comes with its own platform, behind a login."""

_QNX = "aarch64-qnx"
_NO_QNX = "QNX's compiler was not found: QNX_HOST has no usr/bin/aarch64-unknown-nto-qnx*-g++ (QNX SDP)"


@check(
    "cudnn.cross",
    level="full",
    title="cuDNN programs build for other machines",
    expects="For each installed cross toolkit, a program builds for that machine's architecture.",
    fix="Reinstall the cross packages of CUDA and cuDNN: `gpustack install cudnn --target sbsa`.",
    limit_s=400.0,
)
def cross(context: Context) -> Outcome:
    kit = select_toolkit(context)
    there = [name for name in TARGETS if kit and (kit.root / "targets" / name / "include").is_dir()]
    if kit is None or not there or context.host.arch == "aarch64":
        return needless("no cross toolkit is installed")
    built: list[str] = []
    without: dict[str, tuple[str, str]] = {}
    evidence: dict[str, str] = {}
    for name in there:
        compiler = _compiler(context, name)
        if compiler is None:
            without[name] = _no_compiler(name)
            continue
        outcome = _check_build(context, kit.root / "targets" / name, compiler)
        if outcome.status != "pass":
            return outcome
        built.append(outcome.detail)
        evidence |= outcome.evidence
    left = [f"{TARGETS[name]} skipped: {why}" for name, (why, _) in without.items()]
    if not built:
        return skipped("; ".join(left), next(iter(without.values()))[1])
    return passed(f"built, not run: {'; '.join((*built, *left))}", evidence=evidence)


def _compiler(context: Context, name: str) -> str | None:
    """The compiler for a target; None where it was not found."""
    if name != _QNX:
        return COMPILER if context.run(COMPILER, "--version", timeout=10.0).code == 0 else None
    folder = os.environ.get("QNX_HOST")
    found = sorted(Path(folder, "usr/bin").glob("aarch64-unknown-nto-qnx*-g++")) if folder else []
    return str(found[-1]) if found else None


def _no_compiler(name: str) -> tuple[str, str]:
    if name == _QNX:
        return _NO_QNX, "install the QNX SDP of the DRIVE OS release, and set QNX_HOST and QNX_TARGET to its folders"
    return f"{COMPILER} was not found", "`sudo apt-get install g++-aarch64-linux-gnu`"


def _check_build(context: Context, root: Path, compiler: str) -> Outcome:
    """The network built for one target, or a program without cuDNN where the target's is missing."""
    name = root.name
    home, what = _cudnn_of(root), Cross(folder=name, compiler=compiler)
    built = build_digits(context, home, cross=what) if home else build(context, "vector.cu", cross=what)
    if isinstance(built, Outcome):
        return built
    machine = machine_of(built.program)
    if machine != _AARCH64:
        return failed(f"the program built for {TARGETS[name]} is for ELF machine {machine}, not 64-bit Arm")
    part = "a program with cuDNN" if home else "a program without cuDNN, which is not installed"
    return passed(f"{TARGETS[name]}: {part}", evidence=evidence_of(built.end, work=context.work))


def _cudnn_of(root: Path) -> Home | None:
    """The cuDNN of the target, as its cross packages place it."""
    library = next((path for path in sorted((root / "lib").glob("libcudnn.so*"))), None)
    header = root / "include/cudnn.h"
    return Home(include=header.parent, library=library, origin="cross") if library and header.is_file() else None


def machine_of(program: Path) -> int:
    """The machine in the header of an ELF file; 0 for another file."""
    with program.open("rb") as stream:
        head = stream.read(20)
    return int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" and len(head) == 20 else 0
