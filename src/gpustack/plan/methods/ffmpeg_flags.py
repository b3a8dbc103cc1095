"""The arguments of FFmpeg's ``./configure``: right for this release, toolkit and GPUs, and none obsolete."""

from msgspec import Struct

from gpustack.model.resolution import Pick
from gpustack.plan.context import Context
from gpustack.versions import is_within, version_key

_NVCC_SINCE = ">=4.2"
_NPP_UNTIL = "<8.1"


class Window(Struct, frozen=True, kw_only=True):
    """The compute capabilities that a toolkit release compiles for."""

    version: str
    cc_min: str = ""
    cc_max: str = ""
    src: tuple[str, ...] = ()


def configure_words(ctx: Context, pick: Pick, toolkit: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arguments, and a sentence on the reason of each; ``toolkit`` are those for its headers and libraries."""
    words = ["--enable-nvenc"]
    reasons = [
        "--enable-nvenc makes configure stop on incompatible headers, which would otherwise silently drop the encoders"
    ]
    if not is_within(pick.version, "<4.0"):
        words += ["--enable-ffnvcodec", "--enable-nvdec"]
    words.append("--enable-cuvid")
    cuda = ctx.version("cuda")
    if cuda is None:
        return tuple(words), (*reasons, "without a CUDA toolkit clang compiles the GPU filters, if it is installed")
    if is_within(pick.version, _NVCC_SINCE):
        arch, why = nvcc_architecture(ctx, cuda)
        words += ["--enable-cuda-nvcc", "--enable-nonfree"]
        if arch:
            words.append(f"--nvccflags=-gencode arch=compute_{arch},code=sm_{arch} -O2")
            reasons.append(why)
        reasons.append(
            "--enable-nonfree: the GPU filters are compiled by nvcc, and the binary may not be redistributed"
        )
    if is_within(pick.version, _NPP_UNTIL) and is_within(cuda, "<13"):
        words.append("--enable-libnpp")
        words += [] if "--enable-nonfree" in words else ["--enable-nonfree"]
        words += toolkit
        reasons.append("libnpp builds with this release and toolkit")
    return tuple(words), tuple(reasons)


def nvcc_architecture(ctx: Context, cuda: str) -> tuple[str, str]:
    """The architecture number for nvcc ("75") and why: FFmpeg compiles for one only, which newer GPUs run too.

    ("", "") if the facts do not know what the toolkit compiles for.
    """
    window = next((row for row in ctx.matrix.rows("cuda", "releases", Window) if row.version == cuda), None)
    if window is None or not window.cc_min:
        return "", ""
    host = sorted({gpu.compute_capability for gpu in ctx.host.gpus if gpu.compute_capability}, key=version_key)
    lowest = next((text for text in host if is_within(text, f">={window.cc_min}")), None)
    chosen = lowest or window.cc_min
    if window.cc_max and not is_within(chosen, f"<={window.cc_max}"):
        chosen = window.cc_max
    whose = "the oldest GPU here" if lowest == chosen else f"the oldest that CUDA {cuda} compiles for"
    why = f"nvcc compiles for {chosen}, {whose}: the toolkit may no longer support FFmpeg's default"
    return chosen.replace(".", ""), why
