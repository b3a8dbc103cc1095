"""Makes the PTX that gpustack ships, src/gpustack/verify/samples/sums.ptx, of the source beside it.

    pip install --target FOLDER nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cuda-nvcc-cu12==12.9.86
    python3 ci/build_ptx.py FOLDER [--check]

NVRTC compiles for compute capability 5.0, the oldest that its CUDA knows: the driver of any newer GPU compiles that for
it. A driver refuses PTX of a newer version than its own, whatever is in it, so the version in the head is lowered to
5.0 (CUDA 8); ptxas then has to accept the text as that version's, for every GPU that it knows. ``--check`` writes
nothing, and fails where the committed file is another.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "src/gpustack/verify/samples"
HEAD = (
    "// Made of sums.cu by ci/build_ptx.py: NVRTC 12.9.86 for compute_50, the version lowered to 5.0 and held by ptxas."
)
CAPABILITIES = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121)


def compiled(folder: Path) -> str:
    """The PTX of the source as NVRTC makes it."""
    nvrtc = ctypes.CDLL(str(next((folder / "nvidia/cuda_nvrtc/lib").glob("libnvrtc.so.*"))))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = (SAMPLES / "sums.cu").read_bytes()
    _hold(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"sums.cu", 0, None, None))
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_50")
    _hold(nvrtc.nvrtcCompileProgram(program, 1, options))
    _hold(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _hold(nvrtc.nvrtcGetPTX(program, text))
    return text.value.decode("ascii")


def _hold(code: int) -> None:
    if code:
        sys.exit(f"NVRTC ended with {code}")


def lowered(ptx: str) -> str:
    """The text without comments, as version 5.0."""
    lines = [line for line in ptx.splitlines() if line.strip() and not line.startswith("//")]
    return "\n".join([HEAD, *(re.sub(r"^\.version .*", ".version 5.0", line) for line in lines)]) + "\n"


def main() -> int:
    folder = Path(sys.argv[1])
    text = lowered(compiled(folder))
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "sums.ptx"
        file.write_text(text, encoding="ascii")
        for number in CAPABILITIES:
            command = [str(folder / "nvidia/cuda_nvcc/bin/ptxas"), f"-arch=sm_{number}", "-o", f"{name}/out", str(file)]
            subprocess.run(command, check=True)
    target = SAMPLES / "sums.ptx"
    if "--check" in sys.argv:
        return int(target.read_text(encoding="ascii") != text)
    target.write_text(text, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
