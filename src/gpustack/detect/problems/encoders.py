"""What the encoder of this host's GPU cannot do, where a line reports that it refuses something."""

from __future__ import annotations

from msgspec import Struct

from gpustack.detect.scene import Scene
from gpustack.model.host import Gpu
from gpustack.patterns import later
from gpustack.solve.engines import rows_of

_CODEC = later(
    r"(?i)\b(h264|hevc|h265|av1)_nvenc|nvenc_(h264|h265|hevc|av1)|init_encoder_(h264|hevc|av1)|"
    r"\bnv(?:cuda)?(h264|h265|av1)enc"
)
_SPELLED = {"h265": "hevc"}
_CALLED = {"h264": "H.264", "hevc": "HEVC", "av1": "AV1"}
_B_FRAMES = later(r"(?i)\bb[- ]?frames?\b")
_TEN_BITS = later(r"(?i)\b10[- ]?bit")


class EncodeClass(Struct, frozen=True, kw_only=True):
    """What an encoder of a class can do."""

    id: str
    h264_420: bool = False
    hevc_420: bool = False
    av1_420: bool = False
    hevc_bframes: bool = False
    hevc_10bit: bool = False
    h264_10bit: bool = False


def refusal(scene: Scene, line: str) -> str:
    """What all GPUs here cannot encode of that which the line is about, as the end of a sentence; "" if unknown."""
    codec = next((one for found in _CODEC.findall(line) for one in found if one), "").lower()
    codec = _SPELLED.get(codec, codec)
    kinds = {gpu.called: _class(scene, gpu) for gpu in scene.gpus}
    if len(kinds) != 1:
        return ""
    ((name, kind),) = kinds.items()
    if kind is None:
        return ""
    if kind.id == "none":
        return f"; {name} has no NVENC: another GPU, or the CPU, must encode"
    if codec and not getattr(kind, f"{codec}_420"):
        return f"; NVENC of {name} encodes no {_CALLED[codec]}"
    if codec == "hevc" and _B_FRAMES.search(line) and not kind.hevc_bframes:
        return f"; NVENC of {name} encodes HEVC without B frames"
    if codec and _TEN_BITS.search(line) and not getattr(kind, f"{codec}_10bit", True):
        return f"; NVENC of {name} encodes {_CALLED[codec]} with 8 bits only"
    return ""


def _class(scene: Scene, gpu: Gpu) -> EncodeClass | None:
    """The class of the GPU's encoder, None where the facts know none or several."""
    named = {row.encode for row in rows_of(scene.matrix, gpu)} - {""}
    rows = scene.matrix.rows("nvenc", "encode_classes", EncodeClass)
    return next((row for row in rows if named == {row.id}), None)
