"""Why PyTorch found no memory on a GPU: by the amounts that its message names."""

from __future__ import annotations

import re

from gpustack.detect.problems.phrases import Cause
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_SIZE = r"(\d+(?:\.\d+)?) ?([KMG]i?B)"
_TRIED = later(rf"out of memory\. Tried to allocate {_SIZE}")
_TOTAL = later(rf"total capacity of {_SIZE}|{_SIZE} total capacity")
_FREE = later(rf"of which {_SIZE} is free|{_SIZE} free")
_OWN = later(rf"this process has {_SIZE} memory in use")
"""What other processes have is a wrong number in containers, and the difference to the whole is right everywhere."""

_ALLOCATED = later(rf"{_SIZE} (?:is allocated by PyTorch|already allocated)")
_UNUSED = later(rf"{_SIZE} is reserved by PyTorch but unallocated")
_RESERVED = later(rf"{_SIZE} reserved in total by PyTorch")
_IN_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}
_MUCH = 0.1
"""The share of the GPU that others hold, or that is unused, before that is the reason: a context takes some too."""


def exhausted(scene: Scene, line: str) -> Cause | None:
    """Whether other programs hold the memory, it lies in pieces, or what is asked for never fits."""
    tried, total = _size(_TRIED, line), _size(_TOTAL, line)
    if not tried or not total:
        return None
    allocated, free, reserved = _size(_ALLOCATED, line), _size(_FREE, line), _size(_RESERVED, line)
    unused = _size(_UNUSED, line) or max(0.0, reserved - allocated)
    own = _size(_OWN, line) or reserved
    others = max(0.0, total - free - own) if own else 0.0
    if tried <= total and not own and not allocated:
        return None
    if tried > total:
        says = f"one allocation of {_said(tried)} is larger than the GPU's whole memory ({_said(total)})"
        fix = "no setting makes room for it: a shorter sequence, smaller image or batch, an attention that does not "
        fix += 'store the whole matrix (attn_implementation="sdpa", flash-attn, xformers), or a larger GPU'
    elif others > _MUCH * total and others + free > tried:
        says = f"other programs hold {_said(others)} of the GPU's {_said(total)}"
        fix = "`nvidia-smi` lists them: end those that are not needed (a notebook's kernel, an earlier run), or choose "
        fix += "another GPU by CUDA_VISIBLE_DEVICES"
    elif unused + free > tried and unused > max(free, _MUCH * total):
        says = f"the GPU's memory is in pieces: PyTorch holds {_said(unused)} unused, and no piece has {_said(tried)}"
        fix = f"{_allocator(scene)} before the program starts; torch.cuda.empty_cache() between phases"
    else:
        says = f"the program itself fills the GPU: PyTorch has {_said(allocated)} in use of {_said(total)}"
        fix = "a smaller batch or context, gradient checkpointing, a quantized model, parts of it in the processor's "
        fix += "memory (offload), or more GPUs; no setting of the allocator helps"
    return Cause(says=says, fix=fix, sure=True)


def _allocator(scene: Scene) -> str:
    """The setting against memory in pieces; Windows has no expandable segments."""
    setting = "max_split_size_mb:128" if scene.os.family == "windows" else "expandable_segments:True"
    return f"PYTORCH_CUDA_ALLOC_CONF={setting}"


def _size(pattern: re.Pattern[str], line: str) -> float:
    """The amount in MiB, 0 where the line names none."""
    found = pattern.search(line)
    amount = [group for group in found.groups() if group] if found else []
    return _mib(*amount) if amount else 0.0


def _mib(number: str, unit: str) -> float:
    return float(number) * _IN_MIB[unit[0]]


def _said(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"
