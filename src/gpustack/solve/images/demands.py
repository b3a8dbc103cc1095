"""What an image demands at its start, judged against driver and GPUs; and the demands of known images."""

from msgspec import Struct

from gpustack.model.facts import Release
from gpustack.model.resolution import Conflict, Findings, Unknown
from gpustack.solve.cuda_runs import drivers_of, newest_cuda, runs_on
from gpustack.solve.images.require_cuda import Told, holds, is_disabled, malformed, requirements_of
from gpustack.solve.question import Question
from gpustack.versions import version_key

_OF_CUDA = {"cuda", "deepstream", "huggingface/text-generation-inference", "vllm/vllm-openai"}
"""Repositories whose images have the demand of nvidia/cuda."""


class _Row(Struct, frozen=True, kw_only=True):
    """The demand of a line of images: its CUDA, or a branch of the driver with a brand; none on ``alone``."""

    cuda: str
    branches: tuple[int, ...] = ()
    brands: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


class Demands(Struct, frozen=True, kw_only=True):
    """The variables of an image, and the pages that state them ("" where the image itself does)."""

    environment: dict[str, str]
    sources: tuple[str, ...] = ()


def known_demands(question: Question, repository: str, cuda: str) -> Demands | None:
    """The demands of an image of nvidia/cuda, or built from it, with this CUDA; None for others and unknown lines."""
    line = ".".join(cuda.split(".")[:2])
    rows = question.matrix.rows("image-demands", "cuda", _Row) if repository in _OF_CUDA else ()
    row = next((one for one in rows if one.cuda == line), None)
    if row is None:
        return None
    others = () if question.host.arch in row.alone else row.branches
    words = [f"brand={brand},driver>={branch},driver<{branch + 1}" for branch in others for brand in row.brands]
    text = " ".join([f"cuda>={row.cuda}", *words])
    return Demands(environment={"NVIDIA_REQUIRE_CUDA": text}, sources=question.matrix.addresses(row.src))


def unknown_demands(question: Question, name: str, repository: str, cuda: str) -> Findings:
    """The doubt about an image built from nvidia/cuda, of a line whose demand is unknown and that a driver lacks."""
    if repository not in _OF_CUDA or known_demands(question, repository, cuda) is not None:
        return Findings()
    first = min((row.cuda for row in question.matrix.rows("image-demands", "cuda", _Row)), key=version_key, default="")
    drivers = [
        one
        for one in drivers_of(question)
        if version_key(newest_cuda(question, one) or "0") < version_key(".".join(cuda.split(".")[:2]))
    ]
    if not drivers or version_key(cuda) < version_key(first):
        return Findings()
    reason = f"image {name}: what the image demands at its start is unknown, and driver {drivers[0]} has no CUDA {cuda}"
    return Findings(unknown=(Unknown(reason=reason, needs="driver"),))


def demand_findings(
    question: Question, name: str, demands: Demands, release: Release | None, drivers: tuple[str, ...]
) -> Findings:
    """What the image demands before it starts and this host does not meet."""
    wanted = requirements_of(demands.environment)
    if not wanted or is_disabled(demands.environment):
        return Findings()
    broken = {one: term for one, text in wanted.items() if (term := malformed(text))}
    unknown = [Unknown(reason=f"image {name}: {one} has {term!r}, which is no term") for one, term in broken.items()]
    conflicts: list[Conflict] = []
    for driver in drivers:
        told = Told(cuda=newest_cuda(question, driver), driver=driver, gpus=question.host.gpus)
        for one, text in wanted.items():
            answer = holds(text, told)
            if answer == "unknown" and one not in broken:
                reason = f"image {name}: whether driver {driver} meets {one} depends on the GPU"
                unknown.append(Unknown(reason=reason, needs="gpu", option="--gpu"))
            elif answer == "no":
                reason = _reason(question, release, told, (one, text))
                between = (f"image: {name}", f"driver=={driver}")
                conflicts.append(Conflict(kind="image", between=between, reason=reason, sources=demands.sources))
    return Findings(conflicts=tuple(conflicts), unknown=tuple(dict.fromkeys(unknown)))


def _reason(question: Question, release: Release | None, told: Told, wanted: tuple[str, str]) -> str:
    name, text = wanted
    first, _, others = text.partition(" ")
    also = ", or one of the driver branches and brands of GPU that it lists" if others else ""
    has = f"driver {told.driver} has CUDA {told.cuda}" if told.cuda else f"this is driver {told.driver}"
    reason = f"The image demands {first}{also} ({name}); {has}. The container toolkit does not start it."
    runs = runs_on(question, release, told.driver) if release is not None else "unknown"
    if runs in {"does not run", "unknown"}:
        return reason
    return f"{reason} With NVIDIA_DISABLE_REQUIRE=1 it {'would run' if runs == 'runs' else runs}."
