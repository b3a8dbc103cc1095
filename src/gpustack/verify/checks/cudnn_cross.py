"""A full check of cuDNN: the network built for the other machines whose cross packages are installed. It is not run."""

from __future__ import annotations

from pathlib import Path

from gpustack.verify.build import Cross, build
from gpustack.verify.commands import evidence_of
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.toolchain import Home, toolkit

_AARCH64 = 183
"""What the header of an ELF file calls 64-bit Arm."""

TARGETS = {"sbsa-linux": "Arm servers (SBSA)", "aarch64-linux": "DRIVE OS Linux"}
"""Folders below the toolkit's ``targets``, and the machines of cuDNN's guides. QNX needs a compiler of its own."""

COMPILER = "aarch64-linux-gnu-g++"


@check(
    "cudnn.cross",
    level="full",
    title="the network built for other machines",
    expects="For each installed cross toolkit the network is built, as a program of that machine's architecture.",
    mends="Reinstall the cross packages of CUDA and cuDNN: `gpustack install cudnn --target sbsa`.",
    limit_s=400.0,
)
def cross(context: Context) -> Outcome:
    kit = toolkit(context)
    there = [name for name in TARGETS if kit and (kit.root / "targets" / name / "include").is_dir()]
    if kit is None or not there or context.host.arch == "aarch64":
        return needless("no cross toolkit is installed here")
    if context.run(COMPILER, "--version", timeout=10.0).code != 0:
        return skipped(
            f"the cross toolkit is here, but {COMPILER} is not", "`sudo apt-get install g++-aarch64-linux-gnu`"
        )
    told: list[str] = []
    evidence: dict[str, str] = {}
    for name in there:
        root = kit.root / "targets" / name
        home = _cudnn_of(root)
        what = Cross(folder=name, compiler=COMPILER)
        options = ("-Wno-deprecated-declarations",)
        built = build(context, "digits.cpp", home, options=options, cross=what) if home else build(
            context, "vector.cu", cross=what
        )  # fmt: skip
        if isinstance(built, Outcome):
            return built
        machine = machine_of(built.program)
        if machine != _AARCH64:
            return failed(f"what was built for {TARGETS[name]} is a program of machine {machine}, not of 64-bit Arm")
        told.append(
            f"{TARGETS[name]}: {'the network with cuDNN' if home else 'a program without cuDNN, which is missing'}"
        )
        evidence |= evidence_of(built.end, work=context.work)
    return passed(f"built, not run: {'; '.join(told)}", evidence=evidence)


def _cudnn_of(root: Path) -> Home | None:
    """The cuDNN of the target, as its cross packages place it."""
    library = next((path for path in sorted((root / "lib").glob("libcudnn.so*"))), None)
    header = root / "include/cudnn.h"
    return Home(include=header.parent, library=library, origin="cross") if library and header.is_file() else None


def machine_of(program: Path) -> int:
    """The machine that an ELF file names in its header; 0 where it is none."""
    with program.open("rb") as stream:
        head = stream.read(20)
    return int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" and len(head) == 20 else 0
