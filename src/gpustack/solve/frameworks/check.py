"""The frameworks of a question: which builds they mean, whether these run here, and whether they run together."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gpustack.model.frameworks import LIBRARIES, Build, PartnerTorch, pins
from gpustack.model.request import Requirement
from gpustack.model.resolution import Conflict, Findings, Unknown
from gpustack.solve.frameworks.catalog import Catalog, platform_of
from gpustack.solve.frameworks.judge import PROPERTIES, Judge, no_wheel, platforms_of
from gpustack.solve.frameworks.neighbours import breach, doubt
from gpustack.solve.frameworks.remarks import remarks
from gpustack.solve.question import Question, is_meant
from gpustack.solve.unknown import around
from gpustack.solve.words import capitalised, contradiction_in_words, in_words
from gpustack.versions import is_within, version_key

Chosen = dict[str, Build]

_BINDING = (
    *("torch", "jaxlib", "jax-cuda12-pjrt", "jax-cuda13-pjrt", "sgl-kernel", "sglang-kernel"),
    *("libcudf-cu12", "libcudf-cu13", "libcuml-cu12", "libcuml-cu13"),
)
"""Frameworks that take part if another requires them: their code is the code of the one that is asked about."""

PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")
"""What makes JAX compute on GPUs, the newer CUDA first."""

_PYTHONS = tuple(f"3.{minor}" for minor in range(8, 20))
"""Versions of Python that an environment may get, oldest first: those that most systems can have."""


class Frameworks:
    """The frameworks of one question."""

    def __init__(
        self, question: Question, requirements: tuple[Requirement, ...], *, properties: tuple[str, ...] = PROPERTIES
    ) -> None:
        self.question = question
        self.asked = {one.component: one.versions for one in requirements}
        self.catalog = Catalog(question.matrix, platform_of(question.host))
        self.judge = Judge(question, self.catalog, properties=properties)

    def findings(self) -> Findings:
        """What is wrong with the frameworks that are asked about, or unknown of them."""
        found = Findings()
        for name in self.asked:
            found += self._existence(name)
        if found.conflicts or found.unknown:
            return found
        chosen = self.chosen()
        if chosen is None:
            return self._refusals()
        for build in chosen.values():
            found += self.judge.of(build)
        return found + self._remarks(chosen)

    def chosen(self) -> Chosen | None:
        """The newest builds that run here and with each other; those of unknown compatibility last, None if none do."""
        if len(self.asked) == 1 and not any(self.candidates(name) for name in self.asked):
            return None
        return next(self._extended({}, list(self.asked)), None)

    def candidates(self, name: str, wanted: str | None = None) -> tuple[Build, ...]:
        """The builds of a framework for this platform that a requirement means, newest first.

        Without a local part that is the wheel of the default index; a plan that may choose the version may also choose
        another index.
        """
        text = self.asked.get(name, "") if wanted is None else wanted
        is_free = self.question.mode == "plan" and "==" not in text
        here = (one for one in self.catalog.builds(name) if self.judge.here(one))
        found = [one for one in here if _means(text, replace(one, local="") if is_free else one)]
        exact = [one for one in found if text.startswith("==") and one.version == text[2:].partition("+")[0]]
        found = exact or found  # 0.12.0 is another release than 0.12.0.1, as for pip
        return tuple(one for one in found if one.status != "yanked" or text.startswith("==")) or tuple(found)

    def _existence(self, name: str) -> Findings:
        """That a requirement means no build here: another platform's, or one that no fact covers."""
        wanted = self.asked[name]
        if self.candidates(name):
            return Findings()
        if why := contradiction_in_words(name, wanted):
            return Findings(
                conflicts=(
                    Conflict(kind="no-combination", between=(f"{name}{wanted}",), reason=f"{capitalised(why)}."),
                )
            )
        everywhere = tuple(one for one in self.catalog.everywhere(name) if _means(wanted, one))
        if everywhere and name in LIBRARIES and not self._is_without_windows(name):
            reason = f"{name}{wanted}: the facts cover its wheels for {', '.join(platforms_of(everywhere))} only"
            return Findings(unknown=(Unknown(reason=reason, needs="arch", option="--arch"),))
        if everywhere and "+" in wanted and self.judge.platform == "linux-aarch64":
            # the pages about PyTorch's indexes before 2.9 speak of x86_64 only, and some have more
            reason = f"{name}{wanted}: whether its index has a wheel for Linux on aarch64 is unknown"
            return Findings(unknown=(Unknown(reason=reason),))
        if everywhere and self.judge.platform:
            only = self.catalog.confined(everywhere[0])
            return Findings(conflicts=(no_wheel(self.question, name, wanted, everywhere, only),))
        if (row := self.catalog.unjudged(name)) is not None:
            sources = self.question.matrix.addresses(row.src)
            return Findings(unknown=(Unknown(reason=f"{name}{wanted}: {row.says}", sources=sources),))
        if everywhere:
            reason = f"{name}{wanted}: the architecture of this host is unknown (--arch gives it)"
            return Findings(unknown=(Unknown(reason=reason, needs="arch", option="--arch"),))
        return Findings(unknown=(Unknown(reason=f"{name}{wanted}: {self._nearest(name, wanted)}"),))

    def _is_without_windows(self, name: str) -> bool:
        """Whether this is Windows, and the releases of a library of NVIDIA for it are known."""
        from gpustack.solve.frameworks.library_facts import windows_wheels  # noqa: PLC0415 (few ask about them)

        is_windows = self.judge.platform == "windows-x86_64"
        return is_windows and windows_wheels(self.question.matrix, name) is not None

    def _nearest(self, name: str, wanted: str) -> str:
        number, _, local = wanted.removeprefix("==").partition("+")
        builds = self.catalog.builds(name) or self.catalog.everywhere(name)
        if not builds:
            return "no fact covers any release of it"
        there = [one.local for one in builds if is_meant(f"=={number}", one.version)] if local else []
        if there:
            named = ", ".join(sorted(filter(None, there))) or "that of the default index alone"
            return f"no such build is known; the builds of {name} {number} are {named}"
        known = sorted({one.version for one in builds if not one.local}, key=version_key)
        if version_key(known[-1]) < version_key(number.removesuffix(".*")):
            return f"this version is not known; the newest of the facts is {known[-1]}"
        return f"this version is not known; {around(known, f'=={number}')}"

    def _extended(self, chosen: Chosen, names: list[str]) -> Iterator[Chosen]:
        """Complete sets of builds, preferred first: each runs here and keeps the pins of the others."""
        if not names:
            yield chosen
            return
        name, rest = names[0], names[1:]
        later = []
        for build in self._fitting(name, chosen):
            found = self.judge.of(build)
            if found.conflicts:
                continue
            if found.unknown:
                later.append(build)
                continue
            yield from self._with(build, chosen, rest)
        for build in later:
            yield from self._with(build, chosen, rest)

    def _with(self, build: Build, chosen: Chosen, rest: list[str]) -> Iterator[Chosen]:
        more = [name for name in pins(build.requires) if name in _BINDING and name not in chosen and name not in rest]
        more = [name for name in more if self.catalog.builds(name)]
        yield from self._extended({**chosen, build.component: build}, [*rest, *more])

    def _fitting(self, name: str, chosen: Chosen) -> list[Build]:
        """The candidates that break no pin; a framework that another requires comes from the same index."""
        found = self.candidates(name) if name in self.asked else self._required(name, chosen)
        return [one for one in found if self._broken(one, chosen) is None]

    def _required(self, name: str, chosen: Chosen) -> tuple[Build, ...]:
        """The builds that the chosen ones require of a framework that nobody asked about."""
        wanted = [text for one in chosen.values() if (text := pins(one.requires).get(name)) is not None]
        named = (text.partition("+")[2] for text in wanted)
        same = (one.local for one in chosen.values() if name in pins(one.requires))
        local = next(filter(None, (*named, *same)), "")
        found = [
            one
            for one in self.catalog.builds(name)
            if self.judge.here(one) and one.local == local and all(_keeps(one, text) for text in wanted)
        ]
        rows = (self.catalog.partner_torch(one) for one in chosen.values() if name == "torch")
        ranges = [row.torch for row in rows if row is not None]
        return tuple(one for one in found if all(is_within(one.version, text) for text in ranges)) or tuple(found)

    def _broken(self, build: Build, chosen: Chosen, *, keeps_pins: bool = False) -> Conflict | None:
        """What a build breaks of the pins between it and the chosen ones; ``keeps_pins`` as pip does, to the letter."""
        for other in chosen.values():
            for one, two in ((build, other), (other, build)):
                if two.code == "library":
                    if reason := self._library_breach(one, two, keeps_pins=keeps_pins):
                        return self._pair(one, two, reason)
                    continue
                if reason := self._pin_breach(one, two):
                    return self._pair(one, two, reason)
            if "library" not in {build.code, other.code} and (reason := breach(build, other)):
                return self._pair(build, other, reason)
            mine, its = self.catalog.cuda_of(build), self.catalog.cuda_of(other)
            is_mixed = {build.code, other.code} == {"cuda", "cpu"} and "torch" in {build.component, other.component}
            if is_mixed and (mine or its) and self._share_libraries(build, other):
                cpu, gpu = (build, other) if build.code == "cpu" else (other, build)
                return self._pair(gpu, cpu, f"{gpu.named} is built for CUDA, {cpu.named} without: one does not load")
            is_shared = (
                self._bound_to(build, other) or self._bound_to(other, build) or self._share_libraries(build, other)
            )
            if mine and its and is_shared and mine.split(".")[0] != its.split(".")[0]:
                reason = f"{build.named} is built for CUDA {mine}, {other.named} for CUDA {its}"
                return self._pair(build, other, f"{reason}: each loads the libraries of its own major release")
        return None

    def _pin_breach(self, one: Build, two: Build) -> str:
        """What one framework requires of another one that this one is not; "" if it requires nothing else."""
        wanted = {**pins(one.optional), **pins(one.requires)}.get(two.component)
        if wanted and not _keeps(two, wanted):
            return f"{one.named} requires {two.component}{wanted}"
        if (newer := self.catalog.not_newer(one, two)) is not None:
            return f"{one.named} is newer than {two.named}: {newer.says}"
        partner = self._bound_to(one, two)
        if partner is not None and not is_within(two.version, partner.torch):
            return f"{one.named} loads with torch {in_words(partner.torch)} only"
        row = self.catalog.partner_cuda(one) if two.component == "torch" and two.code == "cuda" else None
        line = self.catalog.cuda_of(two)
        if row is not None and line and not is_within(line, row.cuda):
            return f"{one.named} has no library for CUDA {line}, which {two.named} is built for{row.says}"
        return ""

    def _library_breach(self, build: Build, library: Build, *, keeps_pins: bool) -> str:
        """What a build breaks with a library of NVIDIA next to it; a plan keeps to pins, as pip does."""
        from gpustack.solve.frameworks.libraries import breach_between  # noqa: PLC0415 (few ask about them)

        asked = self.asked.get(library.component, "")
        is_exact = not keeps_pins and self.question.mode == "check" and asked.startswith("==") and "*" not in asked
        return breach_between(self.catalog, build, library, may_be_newer=is_exact)

    def _share_libraries(self, one: Build, other: Build) -> bool:
        return one.component in pins(other.requires) or other.component in pins(one.requires)

    def _bound_to(self, one: Build, torch: Build) -> PartnerTorch | None:
        """The PyTorch that a wheel has code for alone, so that it loads the same CUDA; None where any would do."""
        row = self.catalog.partner_torch(one) if torch.component == "torch" else None
        return row if row is not None and row.refused else None

    def _pair(self, one: Build, two: Build, reason: str) -> Conflict:
        return Conflict(
            kind="framework",
            between=(one.named, two.named),
            reason=f"{reason}.",
            sources=self.question.matrix.addresses(tuple(dict.fromkeys((*one.src, *two.src)))),
        )

    def _refusals(self) -> Findings:
        """Why no set of builds runs here: what refuses each alone, else the first pair that refuses each other."""
        found = Findings()
        for name in self.asked:
            builds = self.candidates(name)
            judged = [self.judge.of(one) for one in builds]
            if judged and all(one.conflicts for one in judged):
                found += Findings(conflicts=judged[0].conflicts, hints=self._hints(builds[0]))
        if not found.conflicts:
            found += self._required_refusals()
        return found

    def _required_refusals(self) -> Findings:
        chosen: Chosen = {}
        for name in self.asked:
            build = next((one for one in self.candidates(name) if not self.judge.of(one).conflicts), None)
            if build is None:
                continue
            broken = self._broken(build, chosen)
            if broken is not None:
                return Findings(conflicts=(broken,), hints=self._pair_hints(build, chosen))
            chosen[name] = build
        for build in list(chosen.values()):
            for name, wanted in pins(build.requires).items():
                needed = self._required(name, {build.component: build}) if name in _BINDING else ()
                for one in needed[:1]:
                    if refused := self.judge.of(one).conflicts:
                        conflict = Conflict(
                            kind="framework",
                            between=(build.named, *refused[0].between[1:]),
                            reason=f"{build.named} requires {name}{wanted}. {refused[0].reason}",
                            sources=refused[0].sources,
                        )
                        return Findings(
                            conflicts=(conflict,), hints=self._other_index(build, name) or self._hints(build)
                        )
                    if (broken := self._broken(one, chosen)) is not None:
                        return Findings(conflicts=(broken,))
        names = ", ".join(f"{name}{text}" for name, text in self.asked.items())
        reason = f"No set of builds of {names} that the facts know keeps all pins and runs here."
        return Findings(conflicts=(Conflict(kind="framework", between=tuple(self.asked), reason=reason),))

    def _other_index(self, build: Build, name: str) -> tuple[str, ...]:
        """The build of a required framework in an index of its own that runs here."""
        wanted = pins(build.requires)[name]
        for one in self.catalog.builds(name):
            if not one.local or not is_within(one.version, wanted) or doubt(self.catalog, build, one):
                continue
            if self.judge.here(one) and not self.judge.of(one).conflicts and self._broken(one, {name: build}) is None:
                return (f"compatible with {build.named}: {one.named} ({one.index_option})",)
        return ()

    def _hints(self, refused: Build) -> tuple[str, ...]:
        """A build of the same release that runs here, else the newest release that does."""
        builds = [one for one in self.catalog.builds(refused.component) if self.judge.here(one) and one != refused]
        same = [one for one in builds if one.version == refused.version]
        for one in (*same, *builds):
            found = self.judge.of(one)
            if not found.conflicts and not found.unknown and one.status != "yanked" and self._closed(one):
                where = f", from {one.index_option}" if one.index else ""
                return (f"compatible here: {one.named}{where}",)
        return self._one_obstacle([refused, *builds])

    def _one_obstacle(self, builds: list[Build]) -> tuple[str, ...]:
        """What refuses every release here: the GPU, or else a Python that one of them would run on."""
        refused = [(one, {c.between[1].partition(":")[0] for c in self.judge.of(one).conflicts}) for one in builds]
        if all("gpu" in subjects for _, subjects in refused):
            gpus = ", ".join(dict.fromkeys(gpu.called for gpu in self.question.host.gpus)) or "a Jetson before Thor"
            return (f"no known release of {builds[0].component} runs on {gpus}",)
        for one, subjects in refused:
            if subjects == {"python"} and one.status != "yanked":
                python = next((minor for minor in _PYTHONS if is_within(minor, one.python)), "")
                return (f"with another Python (--python {python}): {one.named}",) if python else ()
        return ()

    def _closed(self, build: Build) -> bool:
        """Whether what a build requires runs here too."""
        return next(self._with(build, {}, []), None) is not None

    def _pair_hints(self, build: Build, chosen: Chosen) -> tuple[str, ...]:
        library = next((one for one in chosen.values() if one.code == "library"), None)
        if library is not None and build.code != "library":  # the framework is the question, its library the answer
            build, chosen = library, {**chosen, build.component: build}
            del chosen[library.component]
        builds = (one for one in self.catalog.builds(build.component) if self.judge.here(one))
        for one in builds:
            if not self.judge.of(one).conflicts and self._broken(one, chosen, keeps_pins=True) is None:
                with_ = ", ".join(other.named for other in chosen.values())
                where = f" ({one.index_option})" if one.index else ""
                return (f"compatible with {with_}: {one.named}{where}",)
        return ()

    def _remarks(self, chosen: Chosen) -> Findings:
        """What differs and does not matter; JAX alone has no CUDA."""
        found = remarks(self.judge, chosen) + self._unread(chosen)
        jax = chosen.get("jax")
        if not self.question.host.gpus or any(name in chosen for name in PLUGINS):
            return found
        if jax is not None:
            found += self._plugin_findings(jax)
        elif (jaxlib := chosen.get("jaxlib")) is not None:
            found += Findings(conflicts=(self._without_cuda(jaxlib, "the plugins for CUDA are wheels of their own"),))
        return found

    def _unread(self, chosen: Chosen) -> Findings:
        """The code of a framework that lies in a wheel which no fact covers."""
        found = Findings()
        for build in chosen.values() if self.question.host.gpus else ():
            for name in pins(build.requires):
                if name in _BINDING and name not in chosen:
                    reason = f"{build.named}: it is unknown which GPUs {name}, which it requires, has code for"
                    found += Findings(unknown=(Unknown(reason=reason, needs="compute-capability"),))
        return found

    def _plugin_findings(self, jax: Build) -> Findings:
        """JAX alone computes on the CPU; with one of its plugins for CUDA, if one runs here, on the GPU."""
        judged = {}
        for name in PLUGINS:
            wanted = pins(jax.optional).get(name)
            builds = self._required(name, {"jax": jax}) if wanted is None else self.candidates(name, wanted)
            if wanted and builds:
                # The toolkit that is asked about may be of another CUDA.
                beside = remarks(self.judge, {name: builds[0]})
                judged[name] = self.judge.of(builds[0]) + Findings(conflicts=beside.conflicts)
        good = [name for name, found in judged.items() if not found.conflicts]
        if good:
            extra = "cuda13" if "cuda13" in good[0] else "cuda12"
            text = f'{jax.named} alone computes on the CPU; pip install "jax[{extra}]=={jax.version}" adds {good[0]}'
            return Findings(warnings=(text,))
        refused = next((found.conflicts for found in judged.values() if found.conflicts), ())
        if refused:
            return Findings(conflicts=refused)
        return Findings(conflicts=(self._without_cuda(jax, "no plugin for CUDA of this release is for this platform"),))

    def _without_cuda(self, build: Build, why: str) -> Conflict:
        return Conflict(
            kind="framework",
            between=(build.named, f"gpu: {self.question.host.gpus[0].called}"),
            reason=f"{build.named} has no CUDA: {why}.",
            sources=self.question.matrix.addresses(build.src),
        )


def _keeps(build: Build, pin: str) -> bool:
    """Whether a build is in the range of a pin; one with a local part means that build alone."""
    return _means(pin, build) if "+" in pin else is_within(build.version, pin)


def _means(range_text: str, build: Build) -> bool:
    """Whether a requirement means a build: its local part is named, or is none."""
    number, plus, local = range_text.partition("+")
    if plus:
        return build.local == local and is_meant(number, build.version)
    return not build.local and (not range_text or is_meant(range_text, build.version))


def framework_findings(question: Question, requirements: tuple[Requirement, ...]) -> Findings:
    """The findings on the frameworks of a question."""
    return Frameworks(question, requirements).findings()
