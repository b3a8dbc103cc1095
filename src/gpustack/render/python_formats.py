"""The Python environment of a plan in the formats of pip, uv, conda and pixi."""

from __future__ import annotations

import json

from gpustack.errors import UsageError
from gpustack.model.plan import Plan, PythonEnvironment, PythonPackage, PythonWheel, hashed_requirements

_NAME = "gpu-environment"
_WHEELS = "wheels"
"""The folder next to a pylock.toml in which its wheels lie; a bundle of `gpustack fetch` has the same."""

_MARKERS = {
    "linux-x86_64": "sys_platform == 'linux' and platform_machine == 'x86_64'",
    "linux-aarch64": "sys_platform == 'linux' and platform_machine == 'aarch64'",
    "windows-x86_64": "sys_platform == 'win32' and platform_machine == 'AMD64'",
    "windows-aarch64": "sys_platform == 'win32' and platform_machine == 'ARM64'",
}
_CONDA = {"linux-x86_64": "linux-64", "linux-aarch64": "linux-aarch64", "windows-x86_64": "win-64"}


def render(plan: Plan, form: str, index: str = "") -> str:
    """The environment in one of the formats. Raises UsageError for a plan without frameworks.

    ``index`` is the package index that it names in place of the installer's default; "" names none.
    """
    found = plan.python
    if not isinstance(found, PythonEnvironment):
        msg = f"the plan has no Python environment, which the format {form!r} describes"
        raise UsageError(
            msg, code="format-unsupported", where="--format", hint="request a framework: gpustack plan torch"
        )
    write = {"requirements": _requirements, "uv": _uv, "conda": _conda, "pixi": _pixi, "pylock": _pylock}[form]
    lines = write(found, index)
    return "\n".join(lines) + "\n"


_FILLED = (
    "pylock expects the wheels in the folder wheels next to it, as each index has addresses of its own for files: "
    "`pip download --no-deps --require-hashes --only-binary=:all: -d wheels -r FILE` fills it, with a FILE of "
    "`--format requirements`"
)


def omitted(plan: Plan, form: str) -> list[str]:
    """What a format does not hold, one sentence each."""
    found = plan.python
    if not isinstance(found, PythonEnvironment) or form not in {"requirements", "pylock"}:
        return []
    words = " ".join(one.word for one in found.requested)
    text = (
        f"{form} holds the frameworks and NVIDIA's libraries that they are pinned to; the pure Python packages that"
        f" they also require are not pinned: `pip install {words}` adds them"
    )
    return [text, _FILLED] if form == "pylock" else [text]


def _requirements(found: PythonEnvironment, index: str) -> list[str]:
    default = [f"--index-url {index}"] if index else []
    if all(one.wheels for one in found.packages):
        usage = "# pip install --no-deps --require-hashes --only-binary=:all: -r FILE"
        first, _, rest = hashed_requirements(found.packages).rstrip("\n").partition("\n")
        return [first, usage, *default, rest]
    unknown = ", ".join(one.word for one in found.packages if not one.wheels)
    head = ["# Written by gpustack", f"# Without checksums: the facts have none of {unknown}"]
    indexes = [f"--extra-index-url {address}" for address in found.own_indexes]
    return [*head, *default, *indexes, *(one.word for one in found.packages)]


def _text(value: str) -> str:
    """A string of TOML or YAML."""
    return json.dumps(value, ensure_ascii=False)


def _index_name(address: str) -> str:
    """The name of an index in uv's file: "pytorch-cu126", "pypi-nvidia-com"."""
    host, _, path = address.partition("://")[2].rstrip("/").partition("/")
    return f"pytorch-{path.rpartition('/')[2]}" if path else host.replace(".", "-")


def _requires_python(found: PythonEnvironment) -> list[str]:
    if not found.python:
        return []
    major, minor = found.python.split(".")
    return [f"requires-python = {_text(f'>={found.python},<{major}.{int(minor) + 1}')}"]


def _uv(found: PythonEnvironment, index: str) -> list[str]:
    """A pyproject.toml: the builds of other indexes come from these alone. uv reads none of pip's settings."""
    lines = ["# Written by gpustack", "[project]", f"name = {_text(_NAME)}", 'version = "0"', *_requires_python(found)]
    lines += ["dependencies = [", *(f"    {_text(one.word)}," for one in found.requested), "]", "", "[tool.uv]"]
    lines.append(f"environments = [{_text(_MARKERS[found.platform])}]")
    if index:
        lines += ["", "[[tool.uv.index]]", 'name = "package-index"', f"url = {_text(index)}", "default = true"]
    for address in found.own_indexes:
        lines += ["", "[[tool.uv.index]]", f"name = {_text(_index_name(address))}", f"url = {_text(address)}"]
        lines.append("explicit = true")
    sources = [f"{one.name} = {{ index = {_text(_index_name(one.index))} }}" for one in found.requested if one.index]
    return [*lines, "", "[tool.uv.sources]", *sources] if sources else lines


def _conda(found: PythonEnvironment, index: str) -> list[str]:
    """An environment.yml: Python from conda-forge, the wheels by pip, as nobody else builds the same ones."""
    lines = ["# Written by gpustack", f"name: {_NAME}", "channels:", "  - conda-forge", "dependencies:"]
    lines += [f"  - python={found.python}" if found.python else "  - python", "  - pip", "  - pip:"]
    words = [f"--index-url {index}"] if index else []
    words += [f"--extra-index-url {address}" for address in found.own_indexes]
    return [*lines, *(f"    - {_text(word)}" for word in (*words, *(one.word for one in found.requested)))]


def _pixi(found: PythonEnvironment, index: str) -> list[str]:
    """A pixi.toml, whose system requirement keeps it off hosts with an older driver."""
    platform = _CONDA.get(found.platform)
    if platform is None:
        msg = f"pixi has no platform for {found.platform}"
        raise UsageError(msg, code="format-unsupported", where="--format", hint="--format requirements or uv")
    lines = ["# Written by gpustack", "[workspace]", f"name = {_text(_NAME)}", 'channels = ["conda-forge"]']
    lines.append(f"platforms = [{_text(platform)}]")
    if found.cuda:
        lines += ["", "[system-requirements]", f"cuda = {_text(found.cuda)}"]
    lines += ["", "[dependencies]", f"python = {_text(f'{found.python}.*' if found.python else '*')}"]
    if index:
        lines += ["", "[pypi-options]", f"index-url = {_text(index)}"]
    return [*lines, "", "[pypi-dependencies]", *(_pixi_line(one) for one in found.requested)]


def _pixi_line(one: PythonPackage) -> str:
    index = f", index = {_text(one.index)}" if one.index else ""
    return f"{one.name} = {{ version = {_text(f'=={one.version}')}{index} }}"


def _pylock(found: PythonEnvironment, index: str) -> list[str]:
    """A pylock.toml (PEP 751). Raises UsageError for a build whose files the facts do not have."""
    unknown = next((one for one in found.packages if not one.wheels and not one.pinned), None)
    if unknown is not None:
        msg = f"pylock requires the files of each package, and the facts have none of {unknown.word}"
        raise UsageError(msg, code="format-unsupported", where="--format", hint="--format requirements or uv")
    marker = _MARKERS[found.platform]
    lines = ["# Written by gpustack", 'lock-version = "1.0"', f"environments = [{_text(marker)}]"]
    lines += [*_requires_python(found), 'created-by = "gpustack"']
    for one in found.packages:
        if one.wheels:
            lines += ["", "[[packages]]", f"name = {_text(one.name)}", f"version = {_text(one.version)}"]
            lines += [f"index = {_text(index)}"] if index else []
            lines += [line for file in one.wheels for line in _locked(file)]
    return lines


def _locked(file: PythonWheel) -> list[str]:
    """One wheel of a pylock.toml: where a plan has no address, in a folder next to it."""
    place = f"url = {_text(file.url)}" if file.url else f"path = {_text(f'{_WHEELS}/{file.name}')}"
    lines = ["", "[[packages.wheels]]", f"name = {_text(file.name)}", place]
    lines += [f"size = {file.size}"] if file.size else []
    return [*lines, f"hashes = {{ sha256 = {_text(file.sha256)} }}"]
