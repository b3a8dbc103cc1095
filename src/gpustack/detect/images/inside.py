"""What the files of an image say: frameworks, toolkit, libraries, forward compatibility, system."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpustack.detect.environments.parse import environments_in
from gpustack.detect.environments.read import distributions, kept_fields
from gpustack.detect.evidence import Evidence
from gpustack.detect.parse.os_release import parse_os_release
from gpustack.detect.parse.toolkit import find_toolkits
from gpustack.model.image import ImageContent, Installed
from gpustack.patterns import later
from gpustack.versions import version_key

_METADATA = later(r"(/.+/(?:site|dist)-packages)/([^/]+\.dist-info)/METADATA")
_CONDA = later(r"(/.+/conda-meta)/([^/]+\.json)")
_COMPAT = later(r"/usr/local/cuda.*/libcuda\.so\.(\d{3}\.[\d.]*\d)")
_LIBRARY = later(r"/.*/(libcudnn|libnvinfer)\.so\.([\d.]+)")
_COMPONENTS = {"libcudnn": "cudnn", "libnvinfer": "tensorrt"}
_WHEELS = {"cudnn": r"nvidia-cudnn-cu\d+", "tensorrt": r"tensorrt(?:-cu\d+)?(?:-libs)?"}


def with_files(content: ImageContent, files: dict[str, bytes]) -> ImageContent:
    """The content with what its files say."""
    evidence = _evidence(files)
    toolkits = [kit.version for kit in find_toolkits(evidence, ())]
    libraries: dict[str, str] = {}
    for found in filter(None, map(_LIBRARY.fullmatch, files)):
        name = _COMPONENTS[found[1]]
        libraries[name] = max(libraries.get(name, "0"), found[2], key=version_key)
    installed = _installed(evidence)
    for one in installed:
        component = next((name for name, wheel in _WHEELS.items() if re.fullmatch(wheel, one.name)), None)
        if component:
            libraries[component] = max(libraries.get(component, "0"), one.version, key=version_key)
    compat = [found[1] for found in map(_COMPAT.fullmatch, files) if found]
    system = parse_os_release(evidence.text("/etc/os-release", "/usr/lib/os-release") or "")
    return replace(
        content,
        layers="read",
        installed=installed,
        toolkit=max(toolkits, key=version_key, default=""),
        libraries=libraries,
        compat=max(compat, key=version_key, default=""),
        system=system.get("PRETTY_NAME", ""),
    )


def _evidence(files: dict[str, bytes]) -> Evidence:
    """The files as the readers of hosts know them."""
    texts: dict[str, str] = {}
    listings: dict[str, list[str]] = {}
    for path, data in files.items():
        text = data.decode("utf-8", "replace")
        if found := _METADATA.fullmatch(path):
            listings.setdefault(found[1], []).append(found[2])
            texts[path] = kept_fields(text)
        elif found := _CONDA.fullmatch(path):
            listings.setdefault(found[1], []).append(found[2])
        elif data:
            texts[path] = text
    kept = {
        folder: distributions(tuple(sorted(here))) if folder.endswith("-packages") else tuple(sorted(here))
        for folder, here in listings.items()
    }
    return Evidence(files=texts, listings=kept)


def _installed(evidence: Evidence) -> tuple[Installed, ...]:
    """The distributions that matter in all environments; of frameworks also what their own files state."""
    found: dict[tuple[str, str], Installed] = {}
    for one in environments_in(evidence):
        for name, version in one.packages.items():
            found[name, version] = Installed(name=name, version=version, place=one.path)
        for build in one.builds.values():
            version = one.packages.get(build.name, build.version)
            found[build.name, version] = Installed(
                name=build.name, version=version, place=one.path, cuda=build.cuda, why=build.why
            )
    return tuple(found.values())
