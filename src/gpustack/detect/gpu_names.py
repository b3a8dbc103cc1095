"""GPU names as people write them: any case, with or without vendor, product line and memory size."""

import re
from typing import Any

from msgspec import UNSET, Struct

from gpustack.detect.products import Integrated, Products, device_digits, gpu_of, integrated_gpu
from gpustack.errors import UsageError
from gpustack.model.host import Gpu
from gpustack.model.places import GpuProduct
from gpustack.patterns import later
from gpustack.versions import version_key

BRANDS = frozenset({"nvidia", "tesla", "geforce", "quadro"})
_FORM = later(
    r"\d+g[b]?|\d+|sxm\d*|pcie|hbm\d\w*|nvl|gpu|generation|edition|server|workstation|blackwell|rtx|gtx|hgx|dgx|jetson|"
    r"mobile|laptop|max|q|passive"
)
_MEMORY = later(r"\d+gb?")
_GENERATIONS = frozenset({"ada", "blackwell", "pascal"})
"""Words that make another product of the same number: RTX 6000 and RTX 6000 Ada."""

_SAFE = later(r"[A-Za-z0-9][A-Za-z0-9 ._:()/+-]{0,79}")
MAX_CANDIDATES = 8


class _Named(Struct, frozen=True):
    """One spelling of one product."""

    words: tuple[str, ...]
    spelling: str
    gpu: Gpu


_GLUED = later(r"\b(rtx|gtx|gts|gt|geforce|quadro|tesla)(?=[a-z]?\d)|(?<=\d)(ti|super)(?=super\b|\b)")
"""Words that people write without a space: RTX4090, 3090Ti."""


def words_of(name: str) -> tuple[str, ...]:
    """A name as comparable words: lower case, split at everything except letters and digits, RTX4090 at its number."""
    return tuple(re.findall(r"[a-z0-9]+", _GLUED.sub(r" \1\2 ", name.lower())))


def _brandless(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in BRANDS)


def _without_memory(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in _brandless(words) if not _MEMORY.fullmatch(word) or not word.endswith(("g", "gb")))


def resolve_gpu(text: str, products: Products) -> Gpu:
    """The GPU that ``--gpu`` names. Raises UsageError with the candidates if it is unknown or ambiguous."""
    name = text.strip()
    if not _SAFE.fullmatch(name):
        msg = f"{text[:60]!r} is not a GPU name"
        raise UsageError(
            msg, code="unknown-gpu", where="--gpu", hint="for example H200, 'RTX 4090', 10de:2335 or cc:9.0"
        )
    if name.lower().startswith("cc:"):
        return _by_capability(name[3:].strip(), products)
    if re.fullmatch(r"(?i)10de:.*", name):
        return _by_id(name, products)
    return _by_name(name, products)


def _by_capability(text: str, products: Products) -> Gpu:
    everything = [gpu_of(row) for rows in products.by_device.values() for row in rows]
    everything += [integrated_gpu(row) for row in products.integrated()]
    found = [gpu for gpu in everything if gpu.compute_capability == text]
    if not found and (renamed := products.renamed(text)):
        text, found = renamed, [gpu for gpu in everything if gpu.compute_capability == renamed]
    if not found:
        known = sorted({gpu.compute_capability for gpu in everything if gpu.compute_capability}, key=version_key)
        msg = f"no known GPU has compute capability {text!r}"
        raise UsageError(msg, code="unknown-gpu", where="--gpu", hint=f"known: {', '.join(known)}")
    shared = merged(found, None)
    firsts = [gpu.driver_first for gpu in found if gpu.driver_first]
    first = min(firsts, key=version_key, default=None)
    return Gpu(
        architecture=shared.architecture,
        compute_capability=text,
        kind=shared.kind,
        open_module=shared.open_module,
        driver_first=first,
        driver_last=shared.driver_last,
        nvenc=shared.nvenc,
        nvdec=shared.nvdec,
    )


def _by_id(text: str, products: Products) -> Gpu:
    device = device_digits(text)
    product = products.find(device, None)
    if product is None:
        from difflib import get_close_matches  # noqa: PLC0415 (only for a message)

        near = get_close_matches(device, list(products.by_device), n=4, cutoff=0.5)
        shown = ", ".join(f"10de:{one} ({products.by_device[one][0].name})" for one in near)
        msg = f"unknown GPU PCI id {text!r}"
        raise UsageError(
            msg, code="unknown-gpu", where="--gpu", hint=f"similar: {shown}" if shown else "give its name or cc:X.Y"
        )
    return gpu_of(product)


def _by_name(name: str, products: Products) -> Gpu:
    words = words_of(name)
    known = _names_with(_without_memory(words), products)
    plain = _brandless(words)
    bare = tuple(word for word in words if word != "nvidia")
    levels = (
        [one for one in known if tuple(word for word in one.words if word != "nvidia") == bare],
        [one for one in known if _brandless(one.words) == plain],
        [one for one in known if _without_memory(one.words) == _without_memory(words) and _without_memory(words)],
        [one for one in known if set(plain) < set(_brandless(one.words)) and _only_form(one.words, plain)],
    )
    for number, found in enumerate(levels):
        if not found or not plain:
            continue
        if number:
            found = found + [one for one in known if _is_later_generation(one.words, plain)]  # noqa: PLW2901
        return _one_of(name, found)
    if boards := list(dict.fromkeys(one.gpu.name for one in known if plain and set(plain) <= set(one.words))):
        more = f" and {len(boards) - MAX_CANDIDATES} more" if len(boards) > MAX_CANDIDATES else ""
        msg = f"{name!r} is ambiguous: {', '.join(map(str, boards[:MAX_CANDIDATES]))}{more}"
        raise UsageError(msg, code="ambiguous-gpu", where="--gpu", hint="give the full name or the PCI id")
    from difflib import get_close_matches  # noqa: PLC0415 (only for a message)

    spellings = {" ".join(_brandless(one.words)): one.spelling for one in _names_with((), products)}
    near = get_close_matches(" ".join(plain), list(spellings), n=MAX_CANDIDATES, cutoff=0.5)
    msg = f"unknown GPU name {name!r}"
    if capability := re.fullmatch(r"(?:sm|compute|cc)[ _-]?(\d+?)\.?(\d)a?", name.strip().lower()):
        raise UsageError(
            msg,
            code="unknown-gpu",
            where="--gpu",
            hint=f"write a compute capability as cc:{capability[1]}.{capability[2]}",
        )
    shown = ", ".join(dict.fromkeys(spellings[one] for one in near))
    raise UsageError(
        msg,
        code="unknown-gpu",
        where="--gpu",
        hint=f"nearest: {shown}" if shown else "give a PCI id (10de:2335) or cc:9.0",
    )


def _names_with(parts: tuple[str, ...], products: Products) -> list[_Named]:
    """Every spelling of every product that contains all ``parts``; a name with these parts can mean no other."""
    return [
        *(
            _Named(words_of(one), one, gpu_of(row))
            for row in products.rows_with(parts)
            for one in _spelled_with(parts, row)
        ),
        *(
            _Named(words_of(one), one, integrated_gpu(module))
            for module in products.integrated()
            for one in _spelled_with(parts, module)
        ),
    ]


def _spelled_with(parts: tuple[str, ...], row: GpuProduct | Integrated) -> list[str]:
    return [one for one in (row.name, *row.aliases) if all(map(one.lower().__contains__, parts))]


def _only_form(words: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    """Whether the product's name adds only form, memory or edition to the requested words."""
    rest = [word for word in _brandless(words) if word not in asked]
    return all(_FORM.fullmatch(word) for word in rest)


def _is_later_generation(words: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    plain = _brandless(words)
    return plain[: len(asked)] == asked and len(plain) > len(asked) and plain[len(asked)] in _GENERATIONS


def _one_of(name: str, found: list[_Named]) -> Gpu:
    gpus = {(one.gpu.pci_id, one.gpu.subsystem_id, one.gpu.name): one for one in found}
    kinds = {
        (one.gpu.compute_capability, one.gpu.kind, one.gpu.driver_last, one.gpu.architecture) for one in gpus.values()
    }
    if len(kinds) > 1:
        shown = [
            f"{one.gpu.name} ({one.gpu.pci_id or one.gpu.kind}, compute capability {one.gpu.compute_capability})"
            for one in list(gpus.values())[:MAX_CANDIDATES]
        ]
        msg = f"{name!r} is ambiguous: {', '.join(shown)}"
        raise UsageError(msg, code="ambiguous-gpu", where="--gpu", hint="give the full name or the PCI id")
    measured = [one.gpu for one in gpus.values() if one.gpu.memory_mib] or [one.gpu for one in gpus.values()]
    return merged(measured, min((one.spelling for one in found), key=lambda spelling: (len(spelling), spelling)))


def merged(gpus: list[Gpu], spelling: str | None) -> Gpu:
    """The common fields of several GPUs; fields that differ are unknown. ``spelling`` is the name if names differ."""
    if len(gpus) == 1:
        return gpus[0]
    shared: dict[str, Any] = {}
    for field in Gpu.__struct_fields__:
        values = {getattr(gpu, field) for gpu in gpus}
        shared[field] = values.pop() if len(values) == 1 else None
    shared["name"] = shared["name"] or spelling
    if not shared["pci_id"]:
        shared["devices"] = tuple(sorted({gpu.pci_id for gpu in gpus if gpu.pci_id})) or UNSET
    return Gpu(**shared)
