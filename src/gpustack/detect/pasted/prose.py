"""The host in the sentences of a pasted text, where no command's output has it.

People name their GPU, system, kernel, driver and packages in passing. A value counts where the text names no other one
of its kind: who writes that two drivers were tried does not name the one that runs. What somebody requires, had
before, or was told to install is no state of the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from gpustack.detect.pasted.lines import is_distribution
from gpustack.patterns import later

_MANY = 100
"""So many values of one kind are read."""

_ELSEWHERE = later(
    r"(?:require[sd]?|requiring|needs?|minimum|min\.|at least|[<>]=?|upgrade|update|newer|older|earlier|later|than|"
    r"from|instead of|support\w*|recommend\w*|install(?:ing)?|until|since|either|not|latest|old|another|other|also)"
    r"(?: (?:the|a|an|to|my|for|nvidia|linux|version|of|with|on))*\W{0,3}$",
    re.IGNORECASE,
)
"""Words before a value that make it none of this host's present state."""

_DEMANDED = later(r"\+| ?(?:or|and) (?:later|newer|higher|above|up|greater|less|older)", re.IGNORECASE)
"""Words after a value that make it one that somebody requires."""

_PAST = later(
    r"\b(?:tr(?:y|ied)|work(?:s|ed)|previously|used to|before|downgrad\w*|(?:went|going|roll\w*|revert\w*) back|"
    r"(?:was|is) fine|no (?:issue|problem)s?)\b",
    re.IGNORECASE,
)
"""Words of a sentence about another state than the one that fails."""

_SENTENCE = later(r"(?<=[\w)])[.;!?] +|\n")
_MARKED = later(
    r"\s*(?:at |File \"|\[|\d{4}-\d\d-\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|[|+]|FROM |docker |image:)|.*https?://"
)
"""Lines of programs, tables, commands and addresses: no sentences."""

_GPU = later(
    r"\b((?:GeForce )?(?:RTX|GTX) ?(?:PRO )?A?\d{3,4}(?: ?Ti\b| ?Super\b)*(?: Ada\b)?|"
    r"Tesla [A-Z]\d{1,3}\w?|GeForce MX ?\d{3}|Quadro (?:RTX )?[A-Z]*\d{3,4}\w*|TITAN (?:RTX|Xp|X|V)|"
    r"(?:A100|A10G|A30|A40|H100|H200|B200|B300|GB200|GB300|GH200|GB10|L40S|L40|V100S?|P100|P40|K80|M60)(?![\w.])|"
    r"(?<=NVIDIA )(?:A10|A2|A16|L4|T4|P4)(?![\w.])|T4(?= GPU))",
    re.IGNORECASE,
)
_SYSTEM = later(
    r"(?<![\w:/.@-])((?:Ubuntu(?: Server| Desktop)?|Debian(?: GNU/Linux)?|"
    r"Fedora(?: Linux| Workstation| Server| Silverblue)?|CentOS(?: Stream| Linux)?|Rocky(?: Linux)?|Alma ?Linux|RHEL|"
    r"Red Hat Enterprise Linux|Oracle Linux|openSUSE Leap|Linux Mint|Pop!_OS|Amazon Linux|Windows Server|Windows|SLES)"
    r" v?\d+(?:\.\d+)?(?![\w/-]|\.\d+\.\d)|Arch Linux|NixOS|CachyOS|EndeavourOS|Manjaro|(?:openSUSE )?Tumbleweed)",
    re.IGNORECASE,
)
_DRIVER = later(
    r"(?:\bnvidia[ -]|\b)(?:drivers?|nvidia)(?:[ -](?:version|release|open|dkms|is|at))*[ :=(v]{1,3}"
    r"(\d{3}\.\d{2,3}(?:\.\d{2,3})?)(?![\w.]*\d)",
    re.IGNORECASE,
)
_KERNEL = later(
    r"\bkernel(?: version| release| is)?[ :=(]{1,3}v?(\d\.\d+(?:\.\d+)?(?:-[\w.+~-]*\w)?)(?![\w])", re.IGNORECASE
)
_PACKAGE = later(
    r"(?<![\w/.=-])(pytorch|torch(?:vision|audio)?|tensorflow|jax|jaxlib|vllm|sglang|xformers|flash[_-]attn|bitsandbytes|"
    r"onnxruntime-gpu|deepspeed|ctranslate2|faster-whisper|numpy)(?:==| version[ :]{1,2}| v| )"
    r"(\d+\.\d+\.\d+(?:\.post\d+)?(?:\+\w+)?)(?![\w.]*\d)"
    r"(?:,? ?\(?(?:with |for |and |\+ ?)?(?:CUDA ?(\d\d)\.(\d)\b|cu(\d{3})\b))?",
    re.IGNORECASE,
)
_PYTHON = later(r"\bPython (3\.\d+)(?:\.\d+)?\b", re.IGNORECASE)
_WSL = later(r"\bWSL ?2\b|\b(?:in|on|under|inside) WSL\b|microsoft-standard", re.IGNORECASE)
_JETSON = later(r"\bJetson (?:AGX )?(Nano|TX2|Xavier|Orin|Thor)(?: NX| Nano| Super)*", re.IGNORECASE)
_SOCS = {"nano": "tegra210", "tx2": "tegra186", "xavier": "tegra194", "orin": "tegra234", "thor": "tegra264"}
_SERVER = later(r"x86_64|amd64|NVIDIA-SMI \d|Windows", re.IGNORECASE)
"""Signs that the text is about another machine than the Jetson that it names."""

_CUDA_OF = frozenset({"torch", "torchvision", "torchaudio"})
"""Distributions with builds for several CUDAs: which one "PyTorch 2.5.1" means is known with its CUDA alone."""


def _package(found: re.Match[str]) -> str:
    name = found[1].lower().replace("_", "-").replace("pytorch", "torch")
    tag = found[5] or f"{found[3] or ''}{found[4] or ''}"
    local = f"+cu{tag}" if tag and "+" not in found[2] and name in _CUDA_OF else ""
    return f"{name} {found[2]}{local}"


_KINDS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    ("named", _GPU, lambda one: one[1]),
    ("system", _SYSTEM, lambda one: one[1]),
    ("driver", _DRIVER, lambda one: one[1]),
    ("kernel", _KERNEL, lambda one: f"{one[1]} "),
    ("wheel", _PACKAGE, _package),
    ("python", _PYTHON, lambda one: one[1]),
)
_ALONE = frozenset({"driver", "kernel", "python", "system"})
"""Kinds of which a host has one value."""


def told_in(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What the sentences among the lines tell, each kind as ``kind_of`` names it."""
    text = "\n".join(line for line in lines if not _MARKED.match(line))
    now = "\n".join(one for one in _SENTENCE.split(text) if not _PAST.search(one))
    for kind, pattern, of in _KINDS:
        said = text if kind == "named" else now
        found = dict.fromkeys(
            of(one)
            for one in islice(pattern.finditer(said), _MANY)
            if kind == "named"
            or not (_ELSEWHERE.search(said, max(0, one.start() - 40), one.start()) or _DEMANDED.match(said, one.end()))
        )
        values = _one_each(found) if kind == "wheel" else list(found)
        if kind not in _ALONE or len({value.casefold() for value in values}) == 1:
            yield from ((kind, value) for value in values)


def _one_each(found: Iterable[str]) -> list[str]:
    """The distributions that are named with one release."""
    releases: dict[str, set[str]] = {}
    for one in found:
        name, _, release = one.partition(" ")
        if is_distribution(name) and not (name in _CUDA_OF and "+" not in release):
            releases.setdefault(name, set()).add(release)
    return [f"{name} {release}" for name, known in releases.items() if len(known) == 1 for release in known]


def is_wsl(text: str) -> bool:
    """Whether the text is about Linux under Windows."""
    return "/usr/lib/wsl/lib/" in text or _WSL.search(text) is not None


def jetson(text: str) -> Iterator[tuple[str, str]]:
    """The device tree of the Jetson that the text is about."""
    found = _JETSON.search(text)
    if found and not _SERVER.search(text):
        yield "/proc/device-tree/compatible", f"nvidia,{_SOCS[found[1].lower()]}"
        yield "/proc/device-tree/model", f"NVIDIA {found[0]}"
