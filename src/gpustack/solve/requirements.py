"""Requirements as users write them: ``cuda>=12.4,<13``, ``cudnn==9.*``, ``ffmpeg``."""

from __future__ import annotations

import re

from gpustack.errors import UsageError
from gpustack.model.facts import COMPONENTS
from gpustack.model.frameworks import COMPILER, DISTRIBUTIONS, FRAMEWORKS
from gpustack.model.request import METHODS, Method, Requirement
from gpustack.versions import version_range

_CLAUSE = r"(?:==|!=|>=|<=|<|>|~=)\d+(?:\.\d+)*(?:(?:a|b|rc)\d+|\.(?:post|dev)\d+)?(?:\.\*)?"
_LOCAL = re.compile(r"==\d+(?:\.\d+)*(?:\.post\d+)?\+[a-z]+[a-z0-9.]*")
_SPECIFIER = re.compile(rf"{_CLAUSE}(?:,{_CLAUSE})*,?")
_EXTRAS = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)\[([A-Za-z0-9_,. -]+)\](.*)")
_REQUIREMENT = re.compile(r"([A-Za-z](?:[A-Za-z0-9_-]|(?<=\d)\.(?=\d))*)\s*(.*)", re.DOTALL)


def parse_requirement(text: str) -> Requirement:
    """The requirement in ``text``. Raises UsageError naming the nearest component or the invalid clause."""
    text = _without_extras(text.strip())
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not a requirement"
        raise UsageError(
            msg,
            code="malformed-requirement",
            hint="write a component and versions of it: cuda>=12.4,<13 or cudnn==9.* or ffmpeg",
        )
    return Requirement(component=component_named(match[1]), versions=specifier(match[2], of=match[1]))


def _without_extras(text: str) -> str:
    """A framework without extras, which only add packages. Raises UsageError for those of JAX, which name plugins."""
    match = _EXTRAS.fullmatch(text)
    name = match[1].lower().replace("_", "-") if match is not None else ""
    if match is None or name not in DISTRIBUTIONS:
        return text
    if name == "jax" and (plugin := f"jax-{match[2].partition('-')[0]}-plugin") in FRAMEWORKS:
        msg = f"{text!r} names two distributions"
        hint = f"ask for both: jax{match[3]} {plugin}{match[3]}"
        raise UsageError(msg, code="malformed-requirement", hint=hint)
    return f"{match[1]}{match[3]}"


def component_named(name: str) -> str:
    """The component with this name in any case. Raises UsageError with the nearest names."""
    lowered = name.lower().replace("_", "-")
    if lowered in COMPONENTS or lowered in DISTRIBUTIONS:
        return lowered
    msg = f"{name!r} is not a component"
    raise UsageError(msg, code="unknown-component", hint=_not_a_component(lowered))


def specifier(text: str, *, of: str) -> str:
    """A PEP 440 specifier as one of our ranges.

    Raises UsageError. A bare version (``cuda 12.4``) is refused: it could mean the version or the line.
    """
    cleaned = "".join(text.split())
    if not cleaned:
        return ""
    if of.lower().replace("_", "-") in FRAMEWORKS and _LOCAL.fullmatch(cleaned.lower()):
        return cleaned.lower()
    if _SPECIFIER.fullmatch(cleaned):
        try:
            return version_range(cleaned).text
        except ValueError:
            pass  # the sentence below says it better
    msg = f"{text.strip()!r} is not a version specifier for {of}"
    raise UsageError(msg, code="malformed-requirement", hint=_advice(cleaned, of))


def _advice(text: str, of: str) -> str:
    """What to write instead, made of the numbers in it, else an example."""
    if re.search(r"latest|newest|stable", text, re.IGNORECASE):
        return f"leave the version out to get the newest compatible one: {of}"
    if clauses := re.findall(r"([<>=~!]+)v?(\d[\d.]*)", text):
        spelled = [(_MISSPELT.get(operator, operator), number.rstrip(".")) for operator, number in clauses]
        listed = ",".join(f"{operator}{number}" for operator, number in spelled)
        if _SPECIFIER.fullmatch(listed) and not re.search(r"[!+]|===", text):
            return f"write {of}{listed}" + (_or_line(of, spelled[0][1]) if listed.startswith("==") else "")
    numbers = re.search(r"\d+(?:\.\d+)*", text)
    if numbers and not re.search(r"[!+]|===", text):
        return f"write {of}=={numbers[0]}{_or_line(of, numbers[0])}"
    return f"write for example {of}>=12.4,<13 or {of}==12.4.*; the vendor's versions are numbers"


_MISSPELT = {"=": "==", "=>": ">=", "=<": "<=", "===": "=="}


def _or_line(of: str, number: str) -> str:
    return "" if number.count(".") > 1 else f", or {of}=={number}.* for any release of that line"


_PACKAGE_LIKE = re.compile(r"(?:lib)?([a-z-]*?[a-z])-?(\d+(?:[.-]\d+)*)")
"""A component and a version in one word, like a package name: cuda-12-4, cudnn8, libcudnn9."""


_SPOKEN = {
    "cupy": "did you mean cupy-cuda12x or cupy-cuda13x, its wheels for CUDA 12 and 13?",
    "deepstream": "it is an image: check --image nvcr.io/nvidia/deepstream:TAG",
    "mig": "MIG is a state of the GPUs: --mig",
    "nvdec": "name a codec, for example nvdec-h264",
    "nvenc": "name a codec, for example nvenc-h264",
    "nvidia": "did you mean driver?",
    "nvidia-driver": "did you mean driver?",
    "nvidia-smi": "it comes with driver",
    "nvlink": "ask for fabric-manager or imex, which GPUs behind NVSwitch need",
    **dict.fromkeys(
        ("nv-peer-mem", "nvidia-peer-memory", "nvidia-peermem", "peermem"),
        "nvidia_peermem is a module of driver 470 and later: ask for driver, and `verify nvidia-peermem` afterwards",
    ),
    "vgpu": "a vGPU is a GPU by name: --gpu 'GRID T4-8Q'",
}
"""Words that people use for a component, or for what is none."""


def _not_a_component(name: str) -> str:
    """A hint for a word that names no component: what it is, or the nearest one, with the version in the word."""
    if name in _SPOKEN:
        return _SPOKEN[name]
    match = _PACKAGE_LIKE.fullmatch(name)
    if match is not None and match[1] in COMPONENTS:
        return f"did you mean {match[1]}=={match[2].replace('-', '.')}.*?"
    usual = (*COMPONENTS, *FRAMEWORKS)
    return nearest(name, (*COMPONENTS, *DISTRIBUTIONS) if "-" in name else usual, shown=usual)


_FORMS = frozenset({"conda", "pixi", "uv"})
"""Forms of a plan that users ask for as methods."""

_SPELLED = {"wheel": "pip", "archive": "tar"}
"""Other words for methods, by what they install."""


def parse_methods(texts: tuple[str, ...]) -> dict[str, Method]:
    """``--method network --method cudnn=tar`` as a mapping from component ("" for all) to method. Raises UsageError."""
    methods: dict[str, Method] = {}
    for text in texts:
        component, equals, name = text.rpartition("=")
        where = component_named(component) if equals else ""
        found = next((method for method in METHODS if method == _SPELLED.get(name, name)), None)
        if found is None:
            msg = f"{name!r} is not a method"
            hint = f"{name} is a form: --format {name}" if name in _FORMS else nearest(name, METHODS)
            raise UsageError(msg, code="unknown-method", hint=hint)
        if methods.get(where, found) != found:
            msg = f"two methods are given for {where or 'all components'}: {methods[where]} and {found}"
            raise UsageError(
                msg, code="conflicting-options", hint="give one, or name the component: --method cudnn=tar"
            )
        methods[where] = found
    return methods


def parse_upgrades(texts: tuple[str, ...]) -> tuple[str, ...]:
    """``--upgrade`` and ``--upgrade cudnn``: components, or "all". Raises UsageError."""
    return tuple(sorted({text if text == "all" else component_named(text) for text in texts}))


def merge(requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    """One requirement per component, in the given order: all its clauses together."""
    merged: dict[str, list[str]] = {}
    for requirement in requirements:
        clauses = merged.setdefault(requirement.component, [])
        if requirement.versions and requirement.versions not in clauses:
            clauses.append(requirement.versions)
    return tuple(Requirement(component=name, versions=",".join(clauses)) for name, clauses in merged.items())


def split_frameworks(
    requirements: tuple[Requirement, ...],
) -> tuple[tuple[Requirement, ...], tuple[Requirement, ...]]:
    """The requirements on components of the stack, and those on frameworks for Python."""
    stack = tuple(one for one in requirements if one.component in COMPONENTS and not _is_compiler(one))
    return stack, tuple(one for one in requirements if one not in stack)


def _is_compiler(requirement: Requirement) -> bool:
    """Whether this means PyTorch's compiler and not the server, whose releases are 0.x to 2.x, or years."""
    return requirement.component == COMPILER and re.match(r"==3(?:\.|$)", requirement.versions) is not None


def nearest(word: str, names: tuple[str, ...], *, shown: tuple[str, ...] = ()) -> str:
    """A hint: the names nearest to ``word``, or all of them; of very many those of ``shown``."""
    import difflib  # noqa: PLC0415 (only on the way to an error)

    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(shown or names)}"
