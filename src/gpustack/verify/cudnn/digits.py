"""Gpustack's own network that recognizes digits through cuDNN: built, run, and its answers checked."""

from __future__ import annotations

from gpustack.verify import samples
from gpustack.verify.cuda.build import Built, Cross, build
from gpustack.verify.cuda.toolchain import Home
from gpustack.verify.cudnn.answers import judge
from gpustack.verify.declare import Context, Outcome


def build_digits(context: Context, home: Home, *, cross: Cross | None = None) -> Built | Outcome:
    """Build the network with one copy of cuDNN, for this machine or for ``cross``."""
    return build(context, "digits.cpp", home, options=("-Wno-deprecated-declarations",), cross=cross)


def run_digits(context: Context, home: Home, gpu: int, built: Built | None = None) -> Outcome:
    """Build the network with one copy of cuDNN, run it on one GPU, and check its answers."""
    program = built or build_digits(context, home)
    if isinstance(program, Outcome):
        return program
    samples.place(context.folder, "digits/network.f32", "digits/pictures.u8")
    end = context.run(str(program.program), str(context.folder), str(gpu), timeout=90.0, env=program.environment)
    return judge(context, home, end)
