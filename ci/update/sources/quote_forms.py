"""Files that quote sums and name what they belong to by parts: version, CUDA, platform."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from update.form import text_of
from update.record import Body, refuse

Pairs = Iterator[tuple[str, str]]

_SET = re.compile(r'\{% set (\w+) = "([\w.]+)" %\}')
_ASKED = re.compile(r'cuda_compiler_version (==|not in|in) ("[\d.]+"|\([^)]*\))')
_LINE = re.compile(r"\s+(?:- )?(url|sha256): (.+?)  # \[(.*)\]")
_PLATFORMS = ("linux64", "win64", "win", "ppc64le", "aarch64")


def _filled(pattern: str, template: str, values: Mapping[str, str]) -> str:
    """A template with its values; what has none stays as it is."""
    return re.sub(pattern, lambda known: values.get(known[1], known[0]), template)


def _conda(body: Body) -> Pairs:
    """conda-forge: the address and the sum of a file are the lines with the same platform and CUDA."""
    content = text_of(body)
    names = dict(_SET.findall(content))
    if "version" not in names:
        raise refuse(body.address, "sets no version")
    lines = [(known[1], known[2], known[3]) for line in content.splitlines() if (known := _LINE.match(line))]
    for kind, digest, condition in lines:
        asked = _ASKED.search(condition)
        if kind != "sha256" or asked is None or asked[1] != "==":
            continue
        cuda = asked[2].strip('"')
        urls = [url for other, url, where in lines if other == "url" and _is_for(where, condition, cuda)]
        if len(urls) != 1:
            raise refuse(body.address, f"has {len(urls)} addresses for {condition}")
        values = {**names, "cuda_compiler_version": cuda}
        values["cudnn_cuda_version"] = names.get("cudnn_cuda_version", cuda) if cuda.startswith("11") else cuda
        yield _filled(r"\{\{ (\w+) \}\}", urls[0].rpartition("/")[2], values), digest


def _is_for(where: str, condition: str, cuda: str) -> bool:
    """Whether an address is for the platform of a sum, and for its CUDA."""
    platform = next(one for one in _PLATFORMS if one in condition).removesuffix("64") if "win" in condition else None
    same = "win" in where if platform else any(one in where and one in condition for one in _PLATFORMS)
    asked = _ASKED.search(where)
    if not same or asked is None:
        return same
    is_named = f'"{cuda}"' in asked[2]
    return not is_named if asked[1] == "not in" else is_named


def _easybuild(body: Body) -> Pairs:
    """EasyBuild: the names of files are templates of name, version and CUDA."""
    content = text_of(body)
    values = dict(re.findall(r"(?m)^(name|version) = '([\w.]+)'$", content))
    cuda = re.search(r"\('CUDA(?:core)?', '(\d+)\.(\d+)", content)
    if set(values) != {"name", "version"} or cuda is None:
        raise refuse(body.address, "names no version or no CUDA")
    values |= {"namelower": values["name"].lower(), "cudamajver": cuda[1], "cudashortver": f"{cuda[1]}.{cuda[2]}"}
    for template, digest in re.findall(r"'(\S+)':\s+'([0-9a-f]{64})'", content):
        yield _filled(r"%\((\w+)\)s", template, values), digest


def _nixos(body: Body) -> Pairs:
    """A configuration of NixOS: the driver by its version."""
    for version, digest in re.findall(r'version = "([\d.]+)";\s+sha256_64bit = "(sha256-[\w+/]{43}=)"', text_of(body)):
        yield f"NVIDIA-Linux-x86_64-{version}.run", digest


def _keyrings(body: Body) -> Pairs:
    """Google's installer: the package with the repository's key, by system and version."""
    end = re.search(r'"/repos/\{system\}\{version\}(/\S+\.deb)"', text_of(body))
    for system, block in re.findall(r'"([a-z]+)": \{([^{}]*)\}', text_of(body)):
        for version, digest in re.findall(r'"(\d+)": "([0-9a-f]{64})"', block):
            if end:
                yield f"{system}{version}{end[1]}", digest


def _manifest(body: Body) -> Pairs:
    """A manifest of which only the first entries are there."""
    yield from re.findall(r'"relative_path": "[^"\s]*/([^"\s/]+)",\s+"sha256": "([0-9a-f]{64})"', text_of(body))


def _msys2(body: Body) -> Pairs:
    """MSYS2's installer, by its day."""
    values = dict(re.findall(r"const INSTALLER_(\w+) = [`'](\S+)[`'];", text_of(body)))
    if set(values) >= {"VERSION", "CHECKSUM"}:
        yield f"msys2-base-x86_64-{values['VERSION'].replace('-', '')}.sfx.exe", values["CHECKSUM"]


FORMS: Mapping[str, Callable[[Body], Pairs]] = {
    "/conda-forge/": _conda,
    "/easybuilders/": _easybuild,
    "NixOS configuration": _nixos,
    "/compute-gpu-installation/": _keyrings,
    "/setup-msys2/": _msys2,
    "/cudnn/redist/": _manifest,
}
"""How a body is read, by a part of its address."""
