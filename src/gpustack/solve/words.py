"""Ranges, rules and releases in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpustack.model.facts import Rule
from gpustack.versions import Clause, version_range

TITLES = {
    "driver": "driver",
    "fabric-manager": "Fabric Manager",
    "imex": "IMEX",
    "cuda": "CUDA",
    "cuda-compat": "cuda-compat",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "tensorrt": "TensorRT",
    "tensorrt-rtx": "TensorRT-RTX",
    "nv-codec-headers": "nv-codec-headers",
    "ffmpeg": "FFmpeg",
    "container-toolkit": "NVIDIA Container Toolkit",
    "dcgm": "DCGM",
    "gdrcopy": "GDRCopy",
    "gds": "GPUDirect Storage",
    "triton": "Triton",
    "compute-capability": "compute capability",
    "kernel": "kernel",
    "glibc": "glibc",
    "gcc": "GCC",
    "clang": "Clang",
    "msvc": "MSVC",
    "python": "Python",
    "l4t": "Jetson Linux",
    "os": "operating system",
    "arch": "architecture",
    "environment": "environment",
    "gpu": "GPU",
}


def title(name: str) -> str:
    """A component or property as people write it."""
    return TITLES.get(name, name)


def in_words(range_text: str) -> str:
    """A range in words: ``>=580`` is "580 or newer"."""
    alternatives = sorted(version_range(range_text).alternatives, key=_lowest)
    return _join_or([_clauses_in_words(clauses) for clauses in alternatives])


def _lowest(clauses: tuple[Clause, ...]) -> tuple[bool, Any]:
    """The sort key of alternatives: those without a lower end first, then the oldest."""
    lows = [clause.version for clause in clauses if clause.operator in {">=", ">", "==", "~="}]
    return (True, max(lows)) if lows else (False, 0)


def join_and(texts: Sequence[str]) -> str:
    """A list with "and" before the last."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def _join_or(texts: list[str]) -> str:
    """Alternatives as a list with "or" before the last."""
    return " or ".join(texts) if len(texts) < 3 else f"{', '.join(texts[:-1])}, or {texts[-1]}"


_ALWAYS_SMALL = ("nvcc", "lib", "glibc", "gcc")
"""Prefixes of proper names, which keep their small letter."""


def capitalised(sentence: str) -> str:
    """The sentence with a capital first letter; proper names (cuDNN, nvcc, nv-codec-headers) stay as they are."""
    first = sentence.partition(" ")[0]
    is_plain = first.isalpha() and first.islower() and not first.startswith(_ALWAYS_SMALL)
    return sentence[:1].upper() + sentence[1:] if is_plain else sentence


def ranges_in_words(ranges: tuple[str, ...]) -> str:
    """Alternatives in words, the oldest first."""
    return in_words(" | ".join(ranges))


def _clauses_in_words(clauses: tuple[Clause, ...]) -> str:
    if not clauses:
        return "any version"
    low = next((clause for clause in clauses if clause.operator == ">="), None)
    high = next((clause for clause in clauses if clause.operator == "<="), None)
    if low and high and len(clauses) == 2:
        return f"{low.version} to {high.version}"
    below = next((clause for clause in clauses if clause.operator == "<"), None)
    if low and below and len(clauses) == 2:
        major = low.version.numbers[0]
        is_whole_major = not any(low.version.numbers[1:]) and below.version.numbers == (major + 1,)
        return f"{major}.x" if is_whole_major else f"{low.version} to before {below.version}"
    return " and ".join(_clause_in_words(clause) for clause in clauses)


def contradiction_in_words(component: str, range_text: str) -> str:
    """Which two clauses of a range no version meets together, "" if all can hold."""
    found = version_range(range_text).contradiction
    if found is None:
        return ""
    one, other = found
    both = f"no version of {title(component)} is both {_clause_in_words(one)} and {_clause_in_words(other)}"
    return f"{both}: {component}{one} and {component}{other} exclude each other"


def _clause_in_words(clause: Clause) -> str:
    text = str(clause.version)
    match clause.operator:
        case "==":
            return f"{text}.x" if clause.wildcard else text
        case "!=":
            return f"not {text}{'.x' if clause.wildcard else ''}"
        case ">=":
            return f"{text} or newer"
        case "<=":
            return f"{text} or older"
        case ">":
            return f"newer than {text}"
        case "<":
            return f"older than {text}"
        case _:
            return f"compatible with {text}"


def rule_in_words(rule: Rule, subject: str) -> str:
    """The sentence of a rule; ``subject`` names what it binds ("CUDA 13.0.2", "every requested CUDA")."""
    if rule.says:
        return rule.says.rstrip(".")
    if rule.equal:
        others = ", ".join(title(name) for name in rule.equal)
        return f"{subject} requires {others} in exactly the same version"
    if rule.none:
        return f"{subject} is not compatible with {title(rule.needs)} {ranges_in_words(rule.none)}"
    verb = "recommends" if rule.strength == "advised" else "requires"
    if rule.needs == "compute-capability":
        return f"{subject} {verb} a GPU of compute capability {ranges_in_words(rule.any)}"
    return f"{subject} {verb} {title(rule.needs)} {ranges_in_words(rule.any)}"
