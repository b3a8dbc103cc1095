"""The libraries of NVIDIA that a framework loads, against those that the environment and the loader have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.environments.parse import Code, Found
from gpustack.detect.environments.rows import SUBJECT, OwnSearch
from gpustack.detect.parse.libraries import loader_folders
from gpustack.detect.scene import Scene
from gpustack.model.host import Problem
from gpustack.patterns import later

WHEELS = {
    "libcudnn": r"nvidia-cudnn-cu\d+", "libcublas": r"nvidia-cublas(?:-cu\d+)?", "libnccl": r"nvidia-nccl-cu\d+",
    "libcudart": r"nvidia-cuda-runtime(?:-cu\d+)?", "libnvinfer": r"tensorrt(?:-cu\d+)?-libs",
}  # fmt: skip
"""The wheels that contain each library."""

_TITLES = {"libcudnn": "cuDNN", "libcublas": "cuBLAS", "libnccl": "NCCL", "libcudart": "the CUDA runtime",
           "libnvinfer": "TensorRT"}  # fmt: skip
_SONAME = later(r"(libcudnn|libcublas|libnccl|libcudart|libnvinfer)\.so\.(\d+)(?:\.0)?")


def about_libraries(found: Found, scene: Scene) -> Iterator[Problem]:
    """Sonames that a framework's library needs and that nothing here provides, or provides only on request."""
    if found.conda:
        return  # conda's libraries lie in its own prefix
    searches = scene.matrix.rows(SUBJECT, "own_search", OwnSearch)
    for code in found.codes:
        inside = code.path.removeprefix(f"{found.site}/")
        row = next((one for one in searches if re.fullmatch(one.library, inside)), None)
        # A provider that nobody asked for may lack its library: TensorRT is optional.
        if row is None or "_tensorrt" in inside:
            continue
        lost = [
            match for soname in code.needs if (match := _SONAME.fullmatch(soname)) and not _is_loaded(scene, soname)
        ]
        in_wheels = {match: name for match in lost if (name := _wheel(found, match[1], match[2]))}
        if in_wheels:
            yield _on_request(found, scene, code, in_wheels, row)
        if missing := [match for match in lost if match not in in_wheels]:
            yield _absent(found, scene, code, missing)


def _is_loaded(scene: Scene, soname: str) -> bool:
    """Whether a folder that the loader searches has the library."""
    listings = scene.evidence.listings
    return any(
        name == soname or name.startswith(f"{soname}.")
        for folder in loader_folders(scene.evidence)
        for name in listings.get(folder, ())
    )


def _wheel(found: Found, stem: str, major: str) -> str:
    """The wheel in this environment that has a library, "" if none has."""
    wheels = (name for name in found.packages if re.fullmatch(WHEELS[stem], name))
    return next((name for name in wheels if _provides(name, found.packages[name], stem, major)), "")


def _on_request(found: Found, scene: Scene, code: Code, wheels: dict[re.Match[str], str], row: OwnSearch) -> Problem:
    sonames = " and ".join(match[0] for match in wheels)
    names = " and ".join(f"{name} {found.packages[name]}" for name in dict.fromkeys(wheels.values()))
    return Problem(
        id="environment-library",
        message=f"{code.path} needs {sonames}: {names} has it, but in no folder that the loader searches",
        fix=row.says,
        severity="info",
        reboot=False,
        sources=scene.matrix.addresses(row.src),
    )


def _absent(found: Found, scene: Scene, code: Code, missing: list[re.Match[str]]) -> Problem:
    stems = {match[1] for match in missing}
    others = [
        f"{name} {version}"
        for name, version in found.packages.items()
        if any(re.fullmatch(WHEELS[stem], name) for stem in stems)
    ]
    copies = (copy.path for copy in scene.copies if copy.path.rpartition("/")[2].partition(".so")[0] in stems)
    others += [path for path in copies if not path.startswith(found.site)]
    here = f"; here is {', '.join(others[:4])}" if others else ""
    return Problem(
        id="environment-library",
        message=f"{code.path} needs {' and '.join(match[0] for match in missing)}, which neither this environment nor"
        f" the loader's folders have{here}: the framework uses the CPU, or does not start",
        fix="; ".join(dict.fromkeys(_install(found, code, match[1], match[2]) for match in missing)),
        severity="warn",
        reboot=False,
    )


def _provides(name: str, version: str, stem: str, major: str) -> bool:
    """Whether a wheel has the library of this soname: by its own version, or by the CUDA that it is for."""
    if stem in {"libcudnn", "libnvinfer", "libnccl"}:
        return version.split(".", maxsplit=1)[0] == major
    suffix = re.search(r"-cu(\d+)$", name)
    return (suffix[1] if suffix else version.split(".", maxsplit=1)[0]) == major


def _install(found: Found, code: Code, stem: str, major: str) -> str:
    """How to install it: as the framework's own METADATA requires it in an extra, else in words."""
    owner = code.path.removeprefix(f"{found.site}/").partition("/")[0]
    for name in (f"{owner}-gpu", owner):
        for line in found.requires(name):
            requirement = line.partition(";")[0].strip()
            if re.match(rf"{WHEELS[stem]}(?![\w-])", requirement):
                return f'`{found.path}/bin/python -m pip install "{requirement}"`'
    return f"install {_TITLES[stem]} {major}, or a release for what is here"
