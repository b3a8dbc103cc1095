"""What is in the layers of an image, judged on a host: GPU code of its frameworks, cuDNN, TensorRT."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gpustack.model.frameworks import Build
from gpustack.model.image import ImageContent, Installed
from gpustack.model.resolution import Findings
from gpustack.solve.frameworks.catalog import Catalog, platform_of
from gpustack.solve.frameworks.judge import Judge
from gpustack.solve.question import Question
from gpustack.solve.sentences import rule_sentence

_MAIN = {
    "torch", "tensorflow", "jax-cuda12-plugin", "jax-cuda13-plugin", "onnxruntime-gpu", "cupy-cuda11x",
    "cupy-cuda12x", "cupy-cuda13x", "vllm", "sgl-kernel",
}  # fmt: skip
"""Frameworks that do not run at all without code for the GPU; of others a part does."""

_TITLES = {"cudnn": "cuDNN", "tensorrt": "TensorRT"}
_SHOWN = {"torch", "tensorflow", "jax", "onnxruntime-gpu", "cupy", "vllm", "sglang", "tensorrt-llm"}


def known_build(question: Question, one: Installed) -> tuple[Catalog, Build | None]:
    """The build of the facts that is installed, of the frameworks that the image is for; None if unknown."""
    here = platform_of(question.host)
    catalog = Catalog(question.matrix, here)
    version, _, local = one.version.partition("+")
    builds = catalog.builds(one.name) if one.name in _MAIN else ()
    return catalog, next((row for row in builds if (row.version, row.local) == (version, local)), None)


def layer_findings(question: Question, content: ImageContent) -> Findings:
    """What of the files in the image does not run on the host, and what is in it."""
    if content.layers != "read":
        text = f"image {content.name}: its layers were not read ({content.layers}); it is judged by its configuration"
        return Findings(warnings=(text,))
    found = Findings(hints=(f"image {content.name} contains {', '.join(_contents(content))}",))
    for one in content.installed:
        found += code_findings(question, content.name, one)
    for component, version in content.libraries.items():
        breach, value = question.book.property_breach(component, version, "compute-capability", question.view)
        if breach is not None:
            gpus = ", ".join(question.view.gpus_with(value))
            text = rule_sentence(question, breach).text
            warning = f"image {content.name} contains {_TITLES[component]} {version}. {text}; this is {gpus} of {value}"
            found += Findings(warnings=(warning,))
    return found


def _contents(content: ImageContent) -> Iterator[str]:
    """What of interest is in the image, in words."""
    if content.system:
        yield content.system
    if content.toolkit:
        yield f"CUDA {content.toolkit}"
    for one in content.installed:
        if one.name in _SHOWN:
            built = {None: "", "": " without CUDA"}.get(one.cuda, f" for CUDA {one.cuda}")
            yield f"{one.name} {one.version}{built}"
    for component, version in content.libraries.items():
        yield f"{_TITLES[component]} {version}"
    yield f"cuda-compat of driver {content.compat}" if content.compat else "no cuda-compat"


def code_findings(question: Question, name: str, one: Installed) -> Findings:
    """Whether the GPUs run the code in a framework; a build without CUDA is no obstacle, and said."""
    if one.cuda == "" and one.name in _MAIN and question.host.gpus:
        text = f"image {name}: {one.name} {one.version} is built without CUDA ({one.why})"
        return Findings(warnings=(f"{text}: it does not use the GPU",))
    catalog, build = known_build(question, one)
    if build is None or build.code == "cpu":
        return Findings()
    found = Judge(question, catalog).on_gpus(build)
    conflicts = tuple(
        replace(conflict, kind="image", between=(f"image: {name}", conflict.between[-1]))
        for conflict in found.conflicts
    )
    unknown = tuple(f"image {name}: {unknown.reason}" for unknown in found.unknown)
    return Findings(conflicts=conflicts, warnings=(*found.warnings, *unknown))
