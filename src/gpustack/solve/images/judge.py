"""Container images by tag: which driver they run on, and how, judged by the tables of NGC images."""

from msgspec.structs import replace

from gpustack.model.facts import Release
from gpustack.model.resolution import Conflict, Findings, ImageAnswer, ImageRuns, Unknown
from gpustack.solve.cuda_runs import driver_rule, drivers_of, release_of, runs_on, smallest_driver
from gpustack.solve.forward_compat import PACKAGE
from gpustack.solve.images.demands import demand_findings, known_demands, unknown_demands
from gpustack.solve.images.guesses import foreign_findings, guessed_findings, image_conflict
from gpustack.solve.images.names import PYTORCH, Name, framework_in, named_major, parsed
from gpustack.solve.images.tags import Image, find_image, known_images, repository_of, unlisted
from gpustack.solve.question import Question
from gpustack.versions import is_within, version_key


def image_findings(question: Question, name: str) -> tuple[Findings, ImageAnswer]:
    """What refuses the image on the host of ``question``, and how it runs there."""
    parts = parsed(name)
    if parts is None:
        return _unknown(name, "this is no name of an image")
    if question.view.is_windows:
        return _unknown(name, "images of Linux run on Windows in WSL only: ask with --os wsl-ubuntu24.04")
    foreign = foreign_findings(question, name, parts)
    if foreign is not None:
        return foreign
    is_board = question.host.environment == "jetson"
    if is_board and not any(is_within(one, ">=11") for one in question.view.capabilities):
        return _unknown(name, "whether an image for servers runs on a Jetson is unknown; those for it say igpu or l4t")
    image = find_image(question, parts)
    if image is None:
        from gpustack.solve.images.statements import stated_findings  # noqa: PLC0415 (few images have none of the facts)

        return (
            stated_findings(question, name, parts)
            or _by_major(question, name, parts)
            or _unknown(name, unlisted(known_images(question, repository_of(parts)), parts))
        )
    release = release_of(question, image.cuda)
    if release is None:
        return _unknown(name, f"its CUDA {image.cuda} is unknown", _sources(question, image))
    found, answer = judge_image(question, name, image, release)
    more = _demands_of(question, name, image)
    if image.basis:
        more += guessed_findings(question, name, image, answer)
        found += _says_basis(name, image)
    elif answer.runs == "needs forward compatibility" and image.repository == PYTORCH:
        reason = f"image {name}: it is unknown whether cuda-compat is in it; save the image, and check the file"
        more += Findings(unknown=(Unknown(reason=reason, sources=_sources(question, image)),))
    if found.conflicts or not more.conflicts:
        is_doubtful = more.unknown and not found.conflicts and answer.runs != "needs forward compatibility"
        runs: ImageRuns = "unknown" if is_doubtful else answer.runs
        return found + more, replace(answer, runs=runs)
    nearest = nearest_tag(question, image)
    hints = (f"the nearest tag that runs here is {nearest}",) if nearest else ()
    return found + more + Findings(hints=hints), replace(answer, runs="does not run", nearest=nearest)


def _by_major(question: Question, name: str, parts: Name) -> tuple[Findings, ImageAnswer] | None:
    """The answer for a name that says CUDA's major only: where it is the same for every CUDA of it."""
    major = named_major(parts)
    releases = [row for row in question.matrix.releases("cuda") if row.version.partition(".")[0] == major]
    if not major or not releases:
        return None
    newest_of = {
        ".".join(row.version.split(".")[:2]): row for row in sorted(releases, key=lambda one: version_key(one.version))
    }
    answers = []
    for release in newest_of.values():
        image = Image(
            repository=repository_of(parts), tag=parts.tag, cuda=release.version, holds=major,
            basis=f"its name says CUDA {major}",
        )  # fmt: skip
        found, answer = judge_image(question, name, image, release)
        found += guessed_findings(question, name, image, answer)
        answers.append((found + _says_basis(name, image), answer))
    if all(found.conflicts for found, _ in answers):
        found, answer = answers[0]
        return found, replace(answer, runs="does not run")
    if any(found.conflicts or found.unknown for found, _ in answers):
        return None
    return answers[-1]


def _says_basis(name: str, image: Image) -> Findings:
    """That the image is judged by its name, and by what in it."""
    return Findings(warnings=(f"image {name}: the facts do not have this tag; {image.basis}",))


def _unknown(name: str, why: str, sources: tuple[str, ...] = ()) -> tuple[Findings, ImageAnswer]:
    unknown = Unknown(reason=f"image {name}: {why}", sources=sources)
    return Findings(unknown=(unknown,)), ImageAnswer(name=name, runs="unknown")


def _demands_of(question: Question, name: str, image: Image) -> Findings:
    """What a known image demands, at its start or of the GPU, and this host does not meet."""
    found = Findings()
    parts = parsed(f"{image.repository}:{image.tag}")
    framework = framework_in(parts) if parts is not None else None
    if framework is not None:
        from gpustack.solve.images.layers import code_findings  # noqa: PLC0415 (few ask for these images)

        found = code_findings(question, name, framework)
    demands = known_demands(question, image.repository, image.cuda)
    is_on_triton = image.repository == "deepstream" and "-triton" in image.tag  # whose demand any driver meets
    if image.basis or is_on_triton:
        return found
    if demands is None:
        return found + unknown_demands(question, name, image.repository, image.cuda)
    release = release_of(question, image.cuda)
    return found + demand_findings(question, name, demands, release, drivers_of(question))


def judge_image(question: Question, name: str, image: Image, release: Release) -> tuple[Findings, ImageAnswer]:
    """The same for an image whose CUDA is ``release``."""
    gpu = _gpu_refusal(question, name, image, release)
    drivers = drivers_of(question)
    answers = [runs_on(question, release, one) for one in drivers]
    runs: ImageRuns = max(answers, key=_worse) if answers else "unknown"
    smallest = smallest_driver(question, release)
    refused = gpu is not None or runs == "does not run"
    nearest = nearest_tag(question, image) if refused else ""
    answer = ImageAnswer(
        name=name,
        runs="does not run" if gpu is not None else runs,
        cuda=release.version,
        smallest_driver=smallest,
        nearest=nearest,
    )
    conflicts = [gpu] if gpu is not None else []
    doubt = _gpu_doubt(question, image) if not refused else ""
    if doubt:
        answer = replace(answer, runs="unknown")
    warnings = [f"image {name} requires driver {smallest} or newer (CUDA {release.version})"] if not drivers else []
    unknown = [Unknown(reason=f"image {name}: {doubt}", sources=_sources(question, image))] if doubt else []
    if drivers and runs == "does not run":
        conflicts.append(_driver_conflict(question, name, image, release, drivers))
    elif drivers and runs == "unknown":
        reason = f"image {name}: it is unknown whether cuda-compat bridges driver {drivers[0]} here"
        unknown.append(Unknown(reason=reason, needs="gpu", option="--gpu"))
    elif runs in {"runs by minor-version compatibility", "needs forward compatibility"}:
        warnings.append(f"image {name} {runs} on driver {drivers[0]}: it holds CUDA {release.version}")
    hints = (f"the nearest tag that runs here is {nearest}",) if nearest else ()
    found = Findings(conflicts=tuple(conflicts), unknown=tuple(unknown), warnings=tuple(warnings), hints=hints)
    return found, answer


_ORDER: tuple[ImageRuns, ...] = (
    "runs",
    "runs by minor-version compatibility",
    "needs forward compatibility",
    "unknown",
    "does not run",
)


def _worse(runs: ImageRuns) -> int:
    return _ORDER.index(runs)


def _gpu_refusal(question: Question, name: str, image: Image, release: Release) -> Conflict | None:
    """Why the image, or its CUDA, does not support a GPU of the host."""
    for gpu in question.host.gpus:
        capability = gpu.compute_capability
        if capability and image.cc_min and not is_within(capability, f">={image.cc_min}"):
            reason = (
                f"The image is built for compute capability {image.cc_min} and later;"
                f" this is {gpu.called} of {capability}."
            )
            return image_conflict(name, f"gpu: {gpu.called}", reason, _sources(question, image))
    breach, value = question.book.property_breach("cuda", release.version, "compute-capability", question.view)
    if breach is None:
        return None
    from gpustack.solve.sentences import rule_sentence  # noqa: PLC0415 (most images run)

    sentence = rule_sentence(question, breach)
    named = ", ".join(question.view.gpus_with(value))
    reason = f"The image holds CUDA {image.holds or release.version}. {sentence.text}; this is {named} of {value}."
    return image_conflict(name, f"gpu: {named}", reason, (*_sources(question, image), *sentence.sources))


def _gpu_doubt(question: Question, image: Image) -> str:
    """Why it is unknown whether the image supports a GPU of the host; "" if nothing makes one doubt it."""
    for gpu in question.host.gpus:
        capability = gpu.compute_capability
        if not image.cc_min and capability and image.cc_around and not is_within(capability, f">={image.cc_around}"):
            return (
                f"no source states its lowest compute capability; images of the months around it are built for"
                f" {image.cc_around} and later, and this is {gpu.called} of {capability}"
            )
    return ""


def _driver_conflict(
    question: Question, name: str, image: Image, release: Release, drivers: tuple[str, ...]
) -> Conflict:
    from gpustack.solve.sentences import rule_sentence  # noqa: PLC0415 (most images run)

    required = driver_rule(question, release, advice=False)
    sentence = rule_sentence(question, required) if required is not None else None
    compat = question.book.applying(PACKAGE, release.version).get("driver", ())
    bridges = next((bound for bound in compat if not bound.is_advice), None)
    parts = [f"The image holds CUDA {image.holds or release.version}"]
    if sentence is not None:
        parts.append(f"{sentence.text}; this is driver {drivers[0]}")
    if any(gpu.kind != "datacenter" for gpu in question.host.gpus):
        parts.append("Forward compatibility (cuda-compat) does not exist for this class of GPU")
    elif bridges is not None:
        parts.append(rule_sentence(question, bridges).text)
    sources = (*_sources(question, image), *(sentence.sources if sentence is not None else ()))
    return image_conflict(name, f"driver=={drivers[0]}", ". ".join(parts) + ".", sources)


def nearest_tag(question: Question, image: Image) -> str:
    """The newest earlier tag that runs here, else the oldest later one, of the same kind if any; "" if none does."""
    known = known_images(question, image.repository) if image.repository else ()
    place = next((at for at, one in enumerate(known) if one.tag == image.tag), len(known))
    drivers = drivers_of(question)
    order = (*reversed(known[:place]), *known[place + 1 :])
    for one in sorted(order, key=lambda other: _kind(other) != _kind(image)):
        release = release_of(question, one.cuda)
        if release is None or _gpu_refusal(question, one.tag, one, release) is not None or _gpu_doubt(question, one):
            continue
        runs = all(_worse(runs_on(question, release, driver)) < _worse("unknown") for driver in drivers)
        if runs and not _demands_of(question, one.tag, one).conflicts:
            return one.tag
    return ""


def _kind(image: Image) -> str:
    """The part of a tag after its version: runtime-ubuntu24.04."""
    return image.tag.partition("-")[2]


def _sources(question: Question, image: Image) -> tuple[str, ...]:
    return question.matrix.addresses(image.src)
