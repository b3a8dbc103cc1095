"""One module for each kind of publication: ``rows(bodies)`` is pure. ``ALL`` lists them in the order of a run."""

from __future__ import annotations

from update.record import Source
from update.sources import (
    apt,
    codec_headers,
    csaf,
    driver_releases,
    ends,
    ffmpeg_pages,
    frameworks,
    gpu_lists,
    image_files,
    image_tags,
    installers,
    instances,
    manifest_sums,
    nccl_makefiles,
    pci_ids,
    pins,
    quotes,
    redist,
    releases,
    rpm,
    runfiles,
    scoop,
    tag_days,
    tags,
    tensorrt_manifests,
    tensorrt_wheels,
    toolkit_targets,
    triton_branches,
    wheels,
)

ALL: tuple[Source, ...] = tuple(
    Source(module.__name__.rpartition(".")[2], module.rows, module.HAND_OUT)
    for module in (
        tags,
        tag_days,
        codec_headers,
        releases,
        driver_releases,
        redist,
        runfiles,
        wheels,
        frameworks,
        apt,
        rpm,
        csaf,
        gpu_lists,
        image_tags,
        image_files,
        instances,
        pci_ids,
        ends,
        pins,
        quotes,
        scoop,
        installers,
        ffmpeg_pages,
        nccl_makefiles,
        manifest_sums,
        tensorrt_manifests,
        tensorrt_wheels,
        toolkit_targets,
        triton_branches,
    )
)
"""Sources of releases come first: what they name confirms the rows of the others."""


def source(name: str) -> Source:
    """The source of that name. Raises KeyError without one."""
    return {one.name: one for one in ALL}[name]
