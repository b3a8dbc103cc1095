"""From requirements on frameworks to builds, and to what these require of the driver."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from gpustack.errors import NoSolutionError
from gpustack.matrix.index import Matrix
from gpustack.model.frameworks import Build, pins
from gpustack.model.host import Host
from gpustack.model.request import Request, Requirement
from gpustack.model.resolution import FrameworkPick, Reason, Resolution
from gpustack.solve.frameworks.check import PLUGINS, Chosen, Frameworks
from gpustack.solve.question import KERNEL_SIDE, Question
from gpustack.solve.words import in_words

Resolve = Callable[[Matrix, Host, Request], Resolution]


def resolve_with(matrix: Matrix, host: Host, request: Request, resolve: Resolve) -> Resolution:
    """The newest builds that run on the host, and the stack below them. Raises NoSolutionError (exit 3)."""
    question = _question(matrix, host, request)
    frameworks = Frameworks(question, _with_plugin(question, request.frameworks or ()))
    found = frameworks.findings()
    chosen = None if found.conflicts else frameworks.chosen()
    if chosen is None:
        told = [one.reason for one in found.conflicts] + [one.reason for one in found.unknown]
        hint = found.hints[0] if found.hints else "ask for other versions; `gpustack check` judges one combination"
        reasons = "\n  ".join(told)
        msg = f"no compatible build of these frameworks\n  {reasons}"
        raise NoSolutionError(msg, code="no-compatible-stack", hint=hint)
    drivers = tuple(dict.fromkeys(filter(None, map(frameworks.judge.driver_range, chosen.values()))))
    below = resolve(matrix, host, _with_driver(question, request, drivers))
    remarks = tuple(text for text in found.warnings if "requires driver" not in text)
    return replace(
        below,
        frameworks=tuple(_pick(frameworks, chosen, one, request.frameworks or ()) for one in chosen.values()),
        warnings=(*below.warnings, *remarks),
        unknown=(*below.unknown, *found.unknown),
    )


def _with_plugin(question: Question, requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    """JAX with the newest of its plugins for CUDA that runs here: alone it computes on the CPU."""
    names = {one.component for one in requirements}
    if "jax" not in names or not question.host.gpus or not names.isdisjoint(PLUGINS):
        return requirements
    for name in PLUGINS:
        more = (*requirements, Requirement(component=name))
        if not Frameworks(question, more).findings().conflicts:
            return more
    return requirements


def _question(matrix: Matrix, host: Host, request: Request) -> Question:
    """The question about the builds: a driver that can be replaced, and is not asked about, limits nothing."""
    question = Question(matrix, host, replace(request, frameworks=UNSET), mode="plan")
    if "driver" in question.asked or not question.may_install("driver"):
        return question
    installed = {name: entry for name, entry in host.installed.items() if name not in KERNEL_SIDE}
    return Question(matrix, replace(host, installed=installed), question.request, mode="plan")


def _with_driver(question: Question, request: Request, drivers: tuple[str, ...]) -> Request:
    """The request for the stack below the builds, with the driver that they require."""
    below = replace(request, frameworks=UNSET)
    if not question.host.gpus or not question.may_install("driver"):
        return below
    clauses = [text for text in drivers if "|" not in text]
    asked = question.asked.get("driver")
    texts = [asked.versions] if asked is not None and asked.versions else []
    driver = Requirement(component="driver", versions=",".join(dict.fromkeys((*texts, *clauses))))
    rest = tuple(one for one in below.requirements if one.component != "driver")
    return replace(below, requirements=(driver, *rest))


def _pick(frameworks: Frameworks, chosen: Chosen, build: Build, requested: tuple[Requirement, ...]) -> FrameworkPick:
    """A build with the reasons for it."""
    addresses = frameworks.question.matrix.addresses(build.src)
    is_added = build.component in PLUGINS and build.component not in {one.component for one in requested}
    if is_added:
        origin = "added: JAX alone, which pip and uv take by themselves, computes on the CPU"
    elif build.component in frameworks.asked:
        origin = f"requested ({frameworks.asked[build.component] or 'any version'})"
    else:
        by = [one for one in chosen.values() if build.component in pins(one.requires)]
        origin = f"needed: {by[0].named} requires {build.component}{pins(by[0].requires)[build.component]}"
    found = [Reason(role="asked", text=origin, sources=addresses)]
    driver, cuda = frameworks.judge.driver_range(build), frameworks.catalog.cuda_of(build)
    if driver and build.code in {"cuda", "jit", "library"}:
        found.append(Reason(role="host", text=f"built for CUDA {cuda}, which requires driver {in_words(driver)}"))
    by = [one for one in chosen.values() if build.code == "library" and build.component in pins(one.requires)]
    if by:
        pin = pins(by[0].requires)[build.component]
        found.append(Reason(role="newest", text=f"{by[0].named} requires {build.component}{pin}"))
    elif build.component in frameworks.asked and not is_added:
        found.append(Reason(role="newest", text=_by_itself(frameworks, build)))
    return FrameworkPick(build=build, reasons=tuple(found))


def _by_itself(frameworks: Frameworks, build: Build) -> str:
    """What pip and uv take for the requirement without this plan, and whether that is right here."""
    judge = frameworks.judge
    taken = next(
        (
            one
            for one in frameworks.candidates(build.component)
            if not one.index
            and not any(c.between[1].startswith(("python:", "glibc:")) for c in judge.of(one).conflicts)
        ),
        None,
    )
    if taken is None and build.index:
        return f"pip and uv by themselves find no wheel of it: {build.index_option} names the index that has them"
    if taken is None or taken == build:
        return "pip and uv take the same build by themselves"
    refused = judge.of(taken).conflicts
    why = refused[0].reason.rstrip(".") if refused else "what it requires does not run here"
    return f"pip and uv by themselves take {taken.named}, which is wrong here: {why}"
