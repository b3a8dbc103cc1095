"""What accompanies a positive verdict: breached advice, and what the GPUs cannot do whatever is installed."""

from __future__ import annotations

from collections.abc import Mapping

from gpustack.solve.forward_compat import is_bridged
from gpustack.solve.known_bad import warnings
from gpustack.solve.listed import remarks
from gpustack.solve.question import Candidate, Question
from gpustack.solve.sentences import host_has, rule_sentence


def advice(question: Question, picks: Mapping[str, Candidate]) -> list[str]:
    """Every breach of advice, by the host and between two components, and codecs without an engine in a GPU."""
    found: dict[str, None] = {}
    for name, candidate in picks.items():
        for bound, _ in question.book.host_breaches(name, candidate.version, question.view, advice=True):
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
    return list(found)
