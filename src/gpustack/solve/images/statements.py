"""Images whose maker states the GPUs and drivers that they support, and not their CUDA: NIM, Ollama, and others."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.model.resolution import Findings, ImageAnswer, ImageRuns, Unknown
from gpustack.solve.cuda_runs import drivers_of
from gpustack.solve.images.guesses import image_conflict
from gpustack.solve.images.names import Name
from gpustack.solve.images.tags import repository_of
from gpustack.solve.question import Question
from gpustack.solve.words import in_words
from gpustack.versions import is_within


class Statement(Struct, frozen=True, kw_only=True):
    """What a maker states of the images whose whole tag the pattern ``tags`` matches.

    Drivers outside of ``driver`` are refused; on data center GPUs those outside of ``datacenter``, where it is given.
    Those outside of ``sure`` are unknown; where all GPUs are of the compute capability ``newer``, those outside of
    ``sure_newer``.
    """

    repository: str
    tags: str
    capability: str
    driver: str
    datacenter: str = ""
    sure: str = ""
    newer: str = ""
    sure_newer: str = ""
    says: str
    src: tuple[str, ...] = ()


def stated_findings(question: Question, name: str, parts: Name) -> tuple[Findings, ImageAnswer] | None:
    """The answer by a maker's statement; None where the facts have none about this image."""
    repository = repository_of(parts)
    rows = question.matrix.rows("ngc", "statements", Statement)
    mine = [row for row in rows if row.repository == repository]
    row = next((row for row in mine if re.fullmatch(row.tags, parts.tag)), None)
    if row is not None:
        return _judged(question, name, row)
    if not mine:
        return None
    reason = f"image {name}: what its maker states of this tag is unknown: save the image, and check the file"
    sources = question.matrix.addresses(mine[-1].src)
    return Findings(unknown=(Unknown(reason=reason, sources=sources),)), ImageAnswer(name=name, runs="unknown")


def _judged(question: Question, name: str, row: Statement) -> tuple[Findings, ImageAnswer]:
    sources = question.matrix.addresses(row.src)
    found = Findings(warnings=(f"image {name}: {row.says}",))
    for gpu in question.host.gpus:
        capability = gpu.compute_capability
        if not capability:
            reason = f"image {name}: the compute capability of {gpu.called} is unknown (--gpu gives it)"
            found += Findings(unknown=(Unknown(reason=reason, needs="compute-capability", option="--gpu"),))
        elif not is_within(capability, row.capability):
            reason = (
                f"The image supports compute capability {in_words(row.capability)}; {gpu.called} is of {capability}."
            )
            found += Findings(conflicts=(image_conflict(name, f"gpu: {gpu.called}", reason, sources),))
    gpus = [gpu.compute_capability or "0" for gpu in question.host.gpus]
    are_newer = bool(gpus and row.newer) and all(is_within(one, row.newer) for one in gpus)
    sure = row.sure_newer if are_newer else row.sure
    drivers = drivers_of(question)
    are_for_servers = all(gpu.kind == "datacenter" for gpu in question.host.gpus) and bool(question.host.gpus)
    allowed = row.datacenter if row.datacenter and are_for_servers else row.driver
    for driver in drivers:
        if not is_within(driver, allowed):
            reason = f"The image requires driver {in_words(allowed)}; this is {driver}."
            found += Findings(conflicts=(image_conflict(name, f"driver=={driver}", reason, sources),))
        elif sure and not is_within(driver, sure):
            reason = f"image {name}: its maker names driver {in_words(sure)}; whether {driver} is enough is unknown"
            found += Findings(unknown=(Unknown(reason=reason, needs="driver", sources=sources),))
    smallest = row.driver.removeprefix(">=")
    if not drivers:
        found += Findings(warnings=(f"image {name} requires driver {in_words(row.driver)}",))
    runs: ImageRuns = "does not run" if found.conflicts else "unknown" if found.unknown or not drivers else "runs"
    return found, ImageAnswer(name=name, runs=runs, smallest_driver=smallest)
