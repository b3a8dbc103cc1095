"""What follows for an image that is judged by its name alone, and for names of images that are not for this host."""

from msgspec import UNSET

from gpustack.model.resolution import Conflict, Findings, ImageAnswer, Unknown
from gpustack.solve.cuda_runs import drivers_of, newest_cuda, release_of
from gpustack.solve.images.demands import demand_findings, known_demands, unknown_demands
from gpustack.solve.images.names import PYTORCH, Name, framework_in, other_maker, parsed, tegra_of
from gpustack.solve.images.tags import Image
from gpustack.solve.question import Question
from gpustack.versions import version_key

_CONTAINERS = "https://github.com/dusty-nv/jetson-containers"
"""States which Jetson Linux the images of Jetson run on."""

_OF_ANOTHER_MAJOR = (
    "https://github.com/dusty-nv/jetson-containers/issues/149",
    "https://github.com/dusty-nv/jetson-containers/issues/725",
    "https://github.com/dusty-nv/jetson-containers/issues/802",
)
"""Images of r34 on r32 and of r36 on r35 find no GPU, nor do those of r35 on r36."""

_REBUILT = ("35", "36")

_SPLIT_MAJOR = "32"
"""Of this Jetson Linux, images run on the same minor release only; of later ones on the same major."""


def image_conflict(name: str, other: str, reason: str, sources: tuple[str, ...]) -> Conflict:
    """A conflict between an image and something of the host."""
    between = (f"image: {name}", other)
    return Conflict(kind="image", between=between, reason=reason, sources=tuple(dict.fromkeys(sources)))


def foreign_findings(question: Question, name: str, parts: Name) -> tuple[Findings, ImageAnswer] | None:
    """The answer for images whose name says that they are for Jetson, or not for GPUs of NVIDIA; None for others."""
    tegra = tegra_of(parts)
    if tegra is not None or parts.tag.endswith("-igpu"):
        return _on_jetson(question, name, tegra)
    word = other_maker(parts)
    if not word:
        return None
    gpus = question.host.gpus
    if not gpus:
        unknown = Unknown(reason=f"image {name}: its name says {word}; whether it uses a GPU of NVIDIA is unknown")
        return Findings(unknown=(unknown,)), ImageAnswer(name=name, runs="unknown")
    reason = f"The name of the image says {word}: it does not use {gpus[0].called}."
    conflict = image_conflict(name, f"gpu: {gpus[0].called}", reason, ())
    return Findings(conflicts=(conflict,)), ImageAnswer(name=name, runs="does not run")


def _on_jetson(question: Question, name: str, tegra: tuple[str, str] | None) -> tuple[Findings, ImageAnswer]:
    """An image for Jetson Linux: it runs on Jetsons, with the release that it is for."""
    host = question.host
    wanted = f"r{tegra[0]}.{tegra[1]}" if tegra is not None else ""
    if host.environment != "jetson":
        reason = f"The image is for Jetson{f' with Jetson Linux {wanted}' if wanted else ''}; this host is none."
        conflict = image_conflict(name, f"os: {host.os.spelled} {host.arch}", reason, (_CONTAINERS,))
        return Findings(conflicts=(conflict,)), ImageAnswer(name=name, runs="does not run")
    here = (host.os.version_id or "") if host.l4t is UNSET else str(host.l4t)
    major, _, rest = here.partition(".")
    minor = rest.partition(".")[0]
    if tegra is not None and tegra[0] == major and (major != _SPLIT_MAJOR or tegra[1] == minor):
        return Findings(warnings=(f"image {name} is judged by its name: Jetson Linux {wanted}",)), ImageAnswer(
            name=name, runs="runs"
        )
    if tegra is not None and ((major.isdecimal() and int(tegra[0]) > int(major)) or (tegra[0], major) == _REBUILT):
        reason = (
            f"The image is for Jetson Linux {wanted}, whose CUDA finds no GPU on another major release; this is {here}."
        )
        conflict = image_conflict(name, f"os: {host.os.spelled} {host.arch}", reason, _OF_ANOTHER_MAJOR)
        return Findings(conflicts=(conflict,)), ImageAnswer(name=name, runs="does not run")
    reason = f"image {name}: it is for Jetson Linux {wanted or 'that its name does not say'}; this is {here}"
    unknown = Unknown(reason=reason, sources=(_CONTAINERS,))
    return Findings(unknown=(unknown,)), ImageAnswer(name=name, runs="unknown")


def guessed_findings(question: Question, name: str, image: Image, answer: ImageAnswer) -> Findings:
    """What stays unknown of an image that is judged by its name."""
    return Findings(unknown=tuple(Unknown(reason=f"image {name}: {why}") for why in _doubts(question, image, answer)))


def _doubts(question: Question, image: Image, answer: ImageAnswer) -> list[str]:
    doubts = []
    parts = parsed(f"{image.repository}:{image.tag}")
    framework = framework_in(parts) if parts is not None else None
    if image.repository == PYTORCH and framework is not None and not _has_build(question, framework.version):
        doubts.append(f"PyTorch {framework.version} is unknown, so this tag may not exist")
    if answer.runs == "needs forward compatibility":
        doubts.append("it is unknown whether cuda-compat is in it; save it, and check the file")
    major = image.cuda.partition(".")[0]
    for driver in drivers_of(question) if answer.runs != "does not run" else ():
        newest = newest_cuda(question, driver)
        if newest.partition(".")[0] != major and version_key(newest or "0") > version_key(image.cuda):
            continue  # this driver runs every CUDA of the image's major
        if "whose wheel" in image.basis and not image.repository.startswith("tensorflow/"):
            doubts.append(f"its CUDA may be newer than that of the wheel, and driver {driver} too old for it")
            continue
        demands = known_demands(question, "cuda", image.cuda)
        release = release_of(question, image.cuda)
        if demands is not None and demand_findings(question, "", demands, release, (driver,)).conflicts:
            doubts.append(f"if its base is nvidia/cuda, the container toolkit does not start it on driver {driver}")
        elif unknown_demands(question, "", "cuda", image.cuda).unknown:
            doubts.append(
                f"what images of CUDA {image.cuda} demand at start is unknown; driver {driver} is older than it"
            )
    return doubts


def _has_build(question: Question, version: str) -> bool:
    from gpustack.solve.frameworks.catalog import Catalog, platform_of  # noqa: PLC0415 (few ask for these images)

    catalog = Catalog(question.matrix, platform_of(question.host))
    release, _, local = version.partition("+")
    builds = [row for row in catalog.builds("torch") if row.version == release]
    cuda = f"{local[2:-1]}.{local[-1]}" if local else ""
    return any(row.local == local or (not row.local and catalog.cuda_of(row) == cuda) for row in builds)
