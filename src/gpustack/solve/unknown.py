"""Where the facts end: versions and pairs that no fact covers, reported as such instead of guessed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gpustack.model.resolution import Unknown
from gpustack.solve.applies import outside
from gpustack.solve.hostview import COMPILERS, OPTIONS
from gpustack.solve.question import Candidate, Question, is_meant
from gpustack.solve.rulebook import BoundRule
from gpustack.solve.words import ranges_in_words, title
from gpustack.versions import Clause, is_within, version, version_range

UNKNOWN_KERNELS = "it is unknown on which kernels its modules build"

COVERED_PAIRS = (
    ("cuda", "driver"),
    ("cuda-compat", "driver"),
    ("dcgm", "driver"),
    ("gdrcopy", "driver"),
    ("gds", "driver"),
    ("cudnn", "cuda"),
    ("nccl", "cuda"),
    ("tensorrt", "cuda"),
    ("tensorrt-rtx", "cuda"),
    ("ffmpeg", "nv-codec-headers"),
    ("nv-codec-headers", "driver"),
    ("triton", "driver"),
)
"""Pairs with a fact for every release, or else the answer is unknown: the second limits the first."""


def unknown_versions(question: Question) -> list[Unknown]:
    """Requested versions that the facts do not contain, with the nearest known ones."""
    found = []
    for name, requirement in question.asked.items():
        candidates = question.candidates(name)
        if candidates and any(candidate.is_known for candidate in candidates):
            continue
        if version_range(requirement.versions).contradiction:
            continue  # a conflict, and nothing that facts could know
        from gpustack.solve.offered import build_number, known_elsewhere  # noqa: PLC0415 (most versions are known)

        what = (
            known_elsewhere(question, name, requirement.versions)
            or build_number(question, name, requirement.versions)
            or _seen(question, name, requirement.versions)
        )
        near = nearest_known(question, name, requirement.versions)
        found.append(Unknown(reason=f"{requirement}: {what}; {near}"))
    return found


def unjudged_release(question: Question, candidate: Candidate) -> str:
    """That nobody has read what a release requires, which a file of the user's own is."""
    wanted = f"=={candidate.version}"
    near = nearest_known(question, candidate.component, wanted)
    what = _seen(question, candidate.component, wanted)
    return f"{candidate.component}{wanted}: {what}, so nothing can be judged of it; {near}"


def _seen(question: Question, component: str, range_text: str) -> str:
    """What is known of a version that nobody has judged: at most that it was released, and on which day."""
    rows = question.released_here(component)
    row = next((row for row in rows if not row.is_judged and is_meant(range_text, row.version)), None)
    if row is None:
        return "this version is not known"
    day = f"was released on {row.date}" if row.date else f"was released by {question.matrix.read_on(row.src)}"
    return f"it {day}, and its requirements are not in the facts yet"


def nearest_known(question: Question, component: str, range_text: str) -> str:
    """The known versions around a requested one, in words."""
    system, arch = question.view.system(component), question.host.arch
    judged = {row.version for row in question.released_here(component) if row.is_judged}
    releases = sorted(judged, key=lambda text: version(text).key)
    if not releases:
        return f"no release of {title(component)} is known for {system.capitalize()} on {arch or 'this architecture'}"
    clauses = _clauses(range_text)
    if clauses and version(releases[-1]) < clauses[0].version:
        return f"the nearest known is {releases[-1]}, the newest of the facts{_as_of(question, component)}"
    return around(releases, range_text)


def _clauses(range_text: str) -> list[Clause]:
    return [clause for clauses in version_range(range_text).alternatives for clause in clauses]


def around(known: list[str], range_text: str) -> str:
    """Which of these versions, oldest first, are around a requested one, in words."""
    clauses = _clauses(range_text)
    if not clauses:
        return f"known are {known[0]} to {known[-1]}"
    wanted = clauses[0].version
    below = [text for text in known if version(text) < wanted]
    above = [text for text in known if version(text) > wanted]
    near = [*below[-1:], *above[:1]]
    return f"the nearest known {'is' if len(near) == 1 else 'are'} {' and '.join(near)}"


def _as_of(question: Question, component: str) -> str:
    """When the facts about a component were read, and how to add newer ones."""
    read = max((source.read for source in question.matrix.sources(component).values()), default="")
    return f", which were read on {read} (newer ones: --matrices DIR)" if read else ""


def unknown_pairs(question: Question, picks: Mapping[str, Candidate]) -> list[Unknown]:
    """Pairs of known versions that no rule covers although every release should have one, or of which none is sure."""
    found = []
    for subject, other in COVERED_PAIRS:
        one, two = picks.get(subject), picks.get(other)
        if one is None or two is None or not one.is_known or not two.is_known:
            continue
        if not question.book.covers(subject, one.version, other, question.view):
            pair = f"{subject}=={one.version} with {other}=={two.version}"
            found.append(Unknown(reason=f"{pair}: compatibility unknown: no fact covers this pair"))
            continue
        found += [
            Unknown(
                reason=f"{subject}=={one.version} with {other}=={two.version}: {bound.rule.says.rstrip('.')}",
                rule=bound.rule.id,
                sources=question.matrix.addresses(bound.rule.src),
            )
            for bound in question.book.unproven((subject, one.version), (other, two.version), question.view)
        ]
    return found


def unknown_splits(question: Question, picks: Mapping[str, Candidate]) -> list[Unknown]:
    """GPUs to be split by MIG for which the first supporting driver is unknown."""
    if "driver" not in picks:
        return []
    rules = [bound.rule.when for bound in question.book.of("driver") if bound.rule.when.mig]
    named = {name for when in rules for name in when.gpu}
    return [
        Unknown(
            reason=f"driver=={picks['driver'].version}: it is unknown from which driver on MIG can split {gpu.name}"
        )
        for gpu in question.host.gpus
        if gpu.is_mig and gpu.name and gpu.name not in named
    ]


def unknown_compilers(question: Question, judged: Mapping[str, Candidate]) -> list[Unknown]:
    """Named compilers of unknown compatibility with a requested toolkit."""
    book, view = question.book, question.view
    return [
        Unknown(reason=f"{name}=={judged[name].version}: it is unknown which {title(compiler)} its compiler supports")
        for compiler in sorted(COMPILERS.intersection(question.request.named or ()))
        for name in question.asked
        if name in judged and any(bound.is_of_compiling for bound in book.of(name))
        if not any(
            bound.is_of_compiling and view.holds(bound.rule, name)
            for bound in book.applying(name, judged[name].version).get(compiler, ())
        )
    ]


def unknown_kernels(question: Question, picks: Mapping[str, Candidate]) -> list[Unknown]:
    """A driver release whose kernels no fact states, where the kernel of the host is known."""
    candidate = picks.get("driver")
    if candidate is None:
        return []
    if question.view.is_assumed("kernel"):
        return _no_kernel(question, candidate)
    if not lacks_kernels(question, candidate):
        return []
    text = f"{UNKNOWN_KERNELS}, so nothing can be said of Linux {question.view.values('kernel')[0]}"
    return [Unknown(reason=f"driver=={candidate.version}: {text}", needs="kernel", option=OPTIONS["kernel"])]


def _no_kernel(question: Question, driver: Candidate) -> list[Unknown]:
    """That a driver release is for other kernels than the default of the system and those that it is known to offer."""
    bound = refused_kernel(question, driver)
    if bound is None:
        return []
    system = question.view.default("kernel")[1]
    reason = f"driver=={driver.version}: it is unknown whether {system} has such a kernel: {bound.rule.says}"
    sources = question.matrix.addresses(bound.rule.src)
    return [Unknown(reason=reason, rule=bound.rule.id, needs="kernel", option=OPTIONS["kernel"], sources=sources)]


def refused_kernel(question: Question, driver: Candidate) -> BoundRule | None:
    """The rule of a driver release that refuses the default kernel of the system and every other that it offers.

    A rule about the first kernel that is too new counts if ``check`` is asked about a driver alone: next to something
    else the system is often that of a container, and a plan warns.
    """
    if not question.view.is_assumed("kernel"):
        return None
    modules = {"driver", "fabric-manager", "imex"}
    is_alone = question.mode == "check" and question.asked.keys() <= modules and not question.request.frameworks
    kernels = question.view.values("kernel")
    return next(
        (
            bound
            for bound in question.book.applying("driver", driver.version).get("kernel", ())
            if not bound.is_advice
            and (is_alone or not _bounds_above(question, bound))
            and question.view.holds(bound.rule, "driver")
            and not any(bound.accepts(driver.version, kernel) for kernel in kernels)
            and not _offers_one(question, bound, driver)
        ),
        None,
    )


def _offers_one(question: Question, bound: BoundRule, driver: Candidate) -> bool:
    """Whether the system offers a further kernel that the rule accepts."""
    from gpustack.solve.kernels import offered_kernels  # noqa: PLC0415 (few systems have so old a kernel)

    return any(bound.accepts(driver.version, row.kernel) for row in offered_kernels(question))


def lacks_kernels(question: Question, driver: Candidate) -> bool:
    """Whether no fact names the kernels on which the modules of a driver build; an installed one was built."""
    known = [bound for bound in question.book.of("driver") if _bounds_above(question, bound)]
    rules = question.book.applying("driver", driver.version).get("kernel", ())
    is_open = bool(question.view.values("kernel")) and not driver.is_installed
    return is_open and bool(known) and not any(_bounds_above(question, bound) for bound in rules)


def _bounds_above(question: Question, bound: BoundRule) -> bool:
    """Whether a rule about kernels that binds here names the last one, or the first that is too new."""
    rule = bound.rule
    names_an_end = bool(rule.none) or any("<" in text for text in rule.any)
    return rule.needs == "kernel" and names_an_end and question.view.holds(rule, "driver")


def outside_of_the_facts(question: Question, judged: Mapping[str, Candidate]) -> list[Unknown]:
    """Requested components, in a known version, on a platform or architecture that the facts do not cover."""
    asked = [judged[name] for name in question.asked if name in judged]
    return [found for one in asked if (found := doubt(question, one)) is not None]


def doubt(question: Question, candidate: Candidate) -> Unknown | None:
    """Why the facts do not cover this version on this platform and architecture; None if they do."""
    if candidate.component == "driver" and any(gpu.is_vgpu for gpu in question.host.gpus):
        consumer = next((gpu for gpu in question.host.gpus if gpu.is_vgpu and gpu.kind == "consumer"), None)
        if consumer is not None:
            why = (
                f"NVIDIA's vGPU software is for data-centre and professional GPUs, and no fact covers {consumer.called}"
            )
            return Unknown(reason=f"driver=={candidate.version}: {why}", needs="gpu", option="--gpu")
        asked = question.asked.get("driver")
        wanted = asked.versions if asked and asked.versions.startswith("==") else f"=={candidate.version}"
        if not any(is_within(number, wanted) for number in _guest_drivers(question)):
            near = around(_guest_drivers(question), wanted)
            return Unknown(reason=f"driver{wanted}: {VGPU_DRIVER}; {near}")
        return _not_for_board(question, candidate.version)
    if why := _class_of_gpu(question, candidate.component):
        return Unknown(reason=f"{candidate.component}=={candidate.version}: {why}", needs="gpu", option="--gpu")
    if not candidate.is_known:
        return None
    return outside(question, candidate.component, candidate.version) or _unproven_on_board(question, candidate)


def _unproven_on_board(question: Question, candidate: Candidate) -> Unknown | None:
    """On a Jetson, a version that no rule states to run on any Jetson Linux."""
    name, number = candidate.component, candidate.version
    if question.host.environment != "jetson" or question.book.is_proven_on_boards(name, number):
        return None
    release = ", ".join(question.view.values("l4t"))
    where = f"Jetson Linux {release}" if release else "a Jetson"
    return Unknown(reason=f"{name}=={number}: it is unknown whether it runs on {where}")


def _class_of_gpu(question: Question, component: str) -> str:
    """Why the facts about a component do not cover GPUs like these, "" if they do."""
    gpus = question.host.gpus
    if component == "cuda-compat" and any(gpu.kind == "professional" for gpu in gpus):
        return "of professional boards NVIDIA supports selected NGC-Ready ones, and it is unknown which"
    if component == "imex" and gpus and not any(gpu.fabric == "nvl" or gpu.called.startswith("GH200") for gpu in gpus):
        # GH200 comes alone and in racks: NVIDIA's documents on ComputeDomains name it (cloud-native-docs, pull 162).
        return "IMEX joins the GPUs of NVLink racks (GB200, GB300, some GH200), and the facts do not cover other GPUs"
    if component in _OF_WHOLE_GPUS and any(gpu.is_vgpu for gpu in gpus):
        return "it is for GPUs that a host has whole, and the facts do not cover vGPUs"
    if component in _RUN_CUDA and any(gpu.is_vgpu and str(gpu.part).endswith(("A", "B")) for gpu in gpus):
        return "vGPU types of the series A and B are for applications and desktops, and no fact covers CUDA on them"
    if component == "dcgm" and any(gpu.is_vgpu for gpu in gpus):
        return "DCGM supports GPUs that are passed through whole, and the facts do not cover vGPUs"
    if component in {"gdrcopy", "gds"} and any(gpu.kind == "consumer" for gpu in gpus):
        return "NVIDIA supports data-centre and professional GPUs, and the facts do not cover GeForce"
    if component in {"cuda-compat", "gdrcopy", "gds"} and any(gpu.kind == "soc" for gpu in gpus):
        return "NVIDIA supports data-centre GPUs, and the facts do not cover GPUs that are one chip with the processor"
    return ""


_OF_WHOLE_GPUS = frozenset({"fabric-manager", "gdrcopy", "gds"})
_RUN_CUDA = frozenset({"cuda", "cuda-compat", "cudnn", "nccl", "tensorrt", "tensorrt-rtx", "triton"})


def _guest_drivers(question: Question) -> list[str]:
    """The guest drivers of vGPU software for this system, oldest first."""
    system = "windows" if question.view.is_windows else "linux"
    rows = question.matrix.rows("gpu-names", "vgpu_guests", _VgpuGuest)
    return sorted((row.version for row in rows if row.os == system), key=lambda text: version(text).key)


class _VgpuChip(Struct, frozen=True, kw_only=True):
    """The guest drivers that are for boards of a compute capability."""

    compute_capability: str
    drivers: str
    text: str
    src: tuple[str, ...] = ()


class _VgpuShape(Struct, frozen=True, kw_only=True):
    """A cloud shape with a vGPU, and the guest drivers that its host serves ("" unknown)."""

    name: str
    guest: str = ""
    src: tuple[str, ...] = ()


def _not_for_board(question: Question, driver: str) -> Unknown | None:
    """That a guest driver belongs to vGPU software that the board or the cloud's host does not serve, if a row does."""
    parts = {str(gpu.part) for gpu in question.host.gpus if gpu.is_vgpu}
    for shape in question.matrix.rows("gpu-names", "instances", _VgpuShape):
        if shape.guest and f"vGPU of {shape.name}" in parts and not is_within(driver, shape.guest):
            served = ranges_in_words((shape.guest,))
            reason = f"driver=={driver}: as far as is known, the hosts of {shape.name} serve guest drivers {served}"
            return Unknown(reason=reason, needs="gpu", option="--gpu", sources=question.matrix.addresses(shape.src))
    for row in question.matrix.rows("gpu-names", "vgpu_chips", _VgpuChip):
        for gpu in question.host.gpus:
            is_of_it = bool(gpu.compute_capability) and is_within(gpu.compute_capability or "", row.compute_capability)
            if gpu.is_vgpu and is_of_it and not is_within(driver, row.drivers):
                reason = f"driver=={driver} on {gpu.called}: as far as is known of NVIDIA's vGPU software, {row.text}"
                return Unknown(reason=reason, needs="gpu", option="--gpu", sources=question.matrix.addresses(row.src))
    return None


class _VgpuGuest(Struct, frozen=True, kw_only=True):
    """A guest driver of the vGPU software."""

    version: str
    os: str


VGPU_DRIVER = (
    "a vGPU runs on the guest drivers of NVIDIA's vGPU software, which have releases of their own; no fact lists"
    " this one among them, and the drivers of servers and desktops do not drive it"
)
"""Why there is no verdict on a driver with a vGPU."""
