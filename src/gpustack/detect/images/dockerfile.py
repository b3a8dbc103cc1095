"""A Dockerfile: the base of its last stage, variables, labels, and what pip installs."""

from __future__ import annotations

import re
import shlex

from msgspec import Struct, field

from gpustack.model.image import ImageContent
from gpustack.patterns import later

MAX_LINES = 20_000
_WORDS = later(r"[A-Za-z]+")
_FROM = later(r"(?:--\S+\s+)*(\S+)(?:\s+[Aa][Ss]\s+(\S+))?\s*$")
_VARIABLE = later(r"\$(?:\{(\w+)(?:(:?[-+])([^}]*))?\}|(\w+))")
_HEREDOC = later(r"<<-?\s*[\"']?(\w+)[\"']?")
_PIP = later(r"(?:^|[\s;&|])(?:python[\d.]*\s+-m\s+pip|pip[\d.]*|uv\s+pip|uv)\s+(?:install|add)\s+([^;&|]*)")
_WHEEL = later(r"[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?(?:(?:===|==|~=|>=|<=|!=|<|>)[\w.*+!,<>=~-]+)?")
_INDEXES = {"-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links"}
_TORCH_INDEX = later(r"https?://download\.pytorch\.org/whl/(cu\d+|cpu)/?")
_OF_TORCH = later(r"torch(?:vision|audio)?==[\d.]+")
_LIBRARIES = later(
    r"(?<![\w-])(?:lib(?:cudnn|cublas)[\w-]*|cudnn[\w-]*|cudatoolkit|cuda-(?:toolkit|libraries|runtime|cudart|\d)[\w-]*)"
    r"|/usr/local/cuda|nvidia/(?:cudnn|cublas)|nvidia-(?:cuda|cudnn)"
)
_UNREAD = later(
    r"\s(?:-r|--requirement|-e)[\s=]|\b(?:uv\s+sync|poetry\s+install|(?:conda|mamba)\s+(?:install|env|create))"
    r"|\binstall\s(?:[^;&|]*\s)?(?:\.|/)[\w./\[\],-]*(?:\s|$)"
)
"""Installations of which a Dockerfile does not say what they contain."""
_NAMED = later(r"(?m)^[ \t-]*image:[ \t]*[\"']?([a-z0-9][\w./:@-]{1,200})[\"']?[ \t\r]*$")
"""An image that a compose file, or a manifest of Kubernetes, names."""
_VALUES = {"-r", "--requirement", "-c", "--constraint", "-t", "--target", "--prefix", "--root", "--timeout", "-e"}


class _Stage(Struct, kw_only=True):
    """One stage: its base, then what its instructions add."""

    base: str
    line: int
    name: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    wheels: list[str] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    unresolved: list[str] = field(default_factory=list)
    arch: str = ""
    adds_libraries: bool = False
    unread: bool = False


def read_dockerfile(name: str, data: bytes) -> ImageContent:
    """The content of the image that a Dockerfile builds. Raises ValueError for another text."""
    stages: list[_Stage] = []
    globals_: dict[str, str] = {}
    for number, word, rest in _instructions(data.decode("utf-8", "replace")):
        if word == "FROM":
            stages.append(_from(number, rest, globals_, stages))
        elif word == "ARG":
            _argument(rest, stages[-1].arguments if stages else globals_, globals_ if stages else {})
        elif stages:
            _apply(stages[-1], number, word, rest)
    if not stages:
        msg = "is no Dockerfile: no FROM is in it"
        if (named := _NAMED.search(data.decode("utf-8", "replace"))) is not None:
            msg = f"{msg}; check the image that it names: --image {named[1]}"
        raise ValueError(msg)
    last = stages[-1]
    return ImageContent(
        name=name,
        form="Dockerfile",
        environment=last.environment,
        labels=last.labels,
        arch=last.arch,
        base=last.base,
        wheels=tuple(last.wheels),
        indexes=tuple(last.indexes),
        lines=last.lines,
        unresolved=tuple(last.unresolved),
        adds_libraries=last.adds_libraries,
        unread=last.unread,
    )


def _instructions(text: str) -> list[tuple[int, str, str]]:
    """Line number, instruction and its words; continued lines are joined, here-documents belong to theirs."""
    found: list[tuple[int, str, str]] = []
    lines = text.splitlines()[:MAX_LINES]
    at = 0
    while at < len(lines):
        number = 0
        parts: list[str] = []
        while at < len(lines):
            line = lines[at]
            at += 1
            if line.lstrip().startswith("#") or (parts and not line.strip()):
                continue
            number = number or at
            if not line.rstrip().endswith("\\"):
                parts.append(line)
                break
            parts.append(line.rstrip()[:-1])
        joined = " ".join(parts).strip()
        word, _, rest = joined.partition(" ")
        for mark in _HEREDOC.findall(rest) if word.upper() in {"RUN", "COPY"} else ():
            body = []
            while at < len(lines) and lines[at].strip() != mark:
                body.append(lines[at])
                at += 1
            at += 1
            rest = f"{rest} ; {' ; '.join(body)}" if word.upper() == "RUN" else rest
        if _WORDS.fullmatch(word):
            found.append((number, word.upper(), rest.strip()))
    return found


def _from(number: int, rest: str, values: dict[str, str], stages: list[_Stage]) -> _Stage:
    match = _FROM.match(rest)
    platform = re.search(r"--platform=linux/(\w+)", rest)
    unresolved: list[str] = []
    base = _expanded(match[1], values, unresolved) if match else ""
    before = next((one for one in reversed(stages) if one.name and one.name.lower() == base.lower()), None)
    if before is None:
        stage = _Stage(base=base, line=number, lines={"base": number}, unresolved=unresolved)
    else:  # a stage begins where another one ended
        stage = _Stage(
            base=before.base,
            line=number,
            environment=dict(before.environment),
            labels=dict(before.labels),
            wheels=list(before.wheels),
            indexes=list(before.indexes),
            lines=dict(before.lines),
            unresolved=list(before.unresolved),
            arch=before.arch,
            adds_libraries=before.adds_libraries,
            unread=before.unread,
        )
    stage.name = (match[2] or "") if match else ""
    if platform:
        stage.arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform[1], platform[1])
    return stage


def _argument(rest: str, into: dict[str, str], outer: dict[str, str]) -> None:
    for word in _split(rest):
        name, equals, value = word.partition("=")
        if equals:
            into[name] = _expanded(value, {**outer, **into}, [])
        elif name in outer:
            into[name] = outer[name]


def _apply(stage: _Stage, number: int, word: str, rest: str) -> None:
    known = {**stage.arguments, **stage.environment}
    if word in {"ENV", "LABEL"}:
        into = stage.environment if word == "ENV" else stage.labels
        for name, value in _pairs(rest):
            into[name] = _expanded(value, known, stage.unresolved if word == "ENV" and name == "CUDA_VERSION" else [])
            stage.lines[name] = number
    elif word == "RUN":
        text = _expanded(rest, known, [])
        for match in _PIP.finditer(text):
            stage.lines.setdefault("wheels", number)
            _pip(stage, match[1])
        stage.unread |= _UNREAD.search(text) is not None
        stage.adds_libraries |= stage.unread or _LIBRARIES.search(_PIP.sub(" ", text)) is not None
    elif word in {"COPY", "ADD"}:
        stage.adds_libraries |= _LIBRARIES.search(rest) is not None


def _pairs(rest: str) -> list[tuple[str, str]]:
    """The variables of ENV and LABEL, in the form with and that without "="."""
    if re.match(r"[\w.-]+=", rest) or re.match(r"[\"'][\w.-]+[\"']=", rest):
        found = (word.partition("=") for word in _split(rest))
        return [(name, value) for name, equals, value in found if equals]
    name, _, value = rest.partition(" ")
    words = _split(value)
    return [(name, words[0] if len(words) == 1 else value.strip())] if name else []


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation mark without its partner
        return text.split()


def _expanded(text: str, values: dict[str, str], unresolved: list[str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[4]
        kind, other = match[2] or "", match[3] or ""
        if kind.endswith("+"):
            return other if values.get(name) else ""
        found = values.get(name) or other
        if not found:
            unresolved.append(f"${name}")
        return found

    return _VARIABLE.sub(value, text)


def _pip(stage: _Stage, text: str) -> None:
    """One call of an installer: a release of PyTorch from its index of a CUDA is the build with that local part."""
    words = iter(_split(text))
    builds = [match[1] for match in _TORCH_INDEX.finditer(text)]
    for word in words:
        option, equals, value = word.partition("=") if word.startswith("-") else (word, "", "")
        if option in _INDEXES:
            stage.indexes.append(value if equals else next(words, ""))
        elif option in _VALUES:
            if not equals:
                next(words, None)
        elif _WHEEL.fullmatch(word):
            is_theirs = len(builds) == 1 and _OF_TORCH.fullmatch(word)
            stage.wheels.append(f"{word}+{builds[0]}" if is_theirs else word)
