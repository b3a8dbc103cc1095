"""What accompanies a positive verdict: breached advice, and what the GPUs cannot do whatever is installed."""

import re
from collections.abc import Mapping

from msgspec import Struct

from gpustack.solve.forward_compat import is_bridged
from gpustack.solve.known_bad import warnings
from gpustack.solve.listed import remarks
from gpustack.solve.question import Candidate, Question
from gpustack.solve.sentences import host_has, rule_sentence
from gpustack.solve.unknown import refused_kernel
from gpustack.versions import is_within


def advice(question: Question, picks: Mapping[str, Candidate]) -> list[str]:
    """Every breach of advice, by the host and between two components, and codecs without an engine in a GPU."""
    found: dict[str, None] = {}
    for name, candidate in picks.items():
        for bound, _ in question.book.host_breaches(name, candidate.version, question.view, advice=True):
            if name == "driver" and bound is refused_kernel(question, candidate):
                continue  # no kernel of the system is accepted: the verdict is unknown, and says why
            has = host_has(question, bound.rule.needs)
            found[f"{rule_sentence(question, bound).text}; {has[:1].lower()}{has[1:]}"] = None
        for other, second in picks.items():
            if (name, other) == ("cuda", "driver") and is_bridged(question, candidate.version, second.version):
                continue  # the libraries of cuda-compat are those of the newer driver
            breaches = question.book.one_way_breaches(
                (name, candidate.version), (other, second.version), question.view, advice=True
            )
            for bound in breaches:
                found[f"{rule_sentence(question, bound).text}; this is {second.version}"] = None
        found |= dict.fromkeys(remarks(question, candidate))
    if "driver" in picks:
        found |= dict.fromkeys(warnings(question, picks["driver"]))
    if "ffmpeg" in picks:
        found |= dict.fromkeys(
            f"{gpu.called} has no NVENC: FFmpeg can decode on it (NVDEC) but not encode"
            for gpu in question.host.gpus
            if gpu.nvenc == 0
        )
    if {"triton", "tensorrt"} <= picks.keys():
        found |= dict.fromkeys(filter(None, [_engines(question, picks["triton"].version, picks["tensorrt"].version)]))
    return list(found)


class _Month(Struct, frozen=True, kw_only=True):
    """The TensorRT in the image of a month, "" if nobody says."""

    version: str
    tensorrt: str = ""


def _engines(question: Question, month: str, version: str) -> str:
    """Where an engine of this TensorRT does not load in Triton's image, which takes its own release's: what to do."""
    rows = question.matrix.rows("triton", "releases", _Month)
    held = next((row.tensorrt for row in rows if row.version == month), "")
    held_here = held and is_within(version, f"=={'.'.join(held.split('.')[:3])}.*")
    if held_here or not re.fullmatch(r"\d\d\.\d\d", month):
        return ""
    says = f"Triton {month} holds TensorRT {held}" if held else f"which TensorRT Triton {month} holds is not known"
    return (
        f"{says}: an engine loads only in the release that built it, this is {version}; the image "
        f"nvcr.io/nvidia/tensorrt:{month}-py3 builds engines for that Triton"
    )
