"""Whether one build of a framework runs on a host: platform, Python, C library, GPUs and driver."""

from __future__ import annotations

from typing import Literal

from gpustack.model.frameworks import Build, Confined, pins
from gpustack.model.host import Gpu
from gpustack.model.resolution import Conflict, Findings, Unknown
from gpustack.solve.forward_compat import is_bridged
from gpustack.solve.frameworks.catalog import Catalog, platform_of
from gpustack.solve.question import Question
from gpustack.solve.rulebook import BoundRule
from gpustack.solve.sentences import Sentence, rule_sentence
from gpustack.solve.words import in_words
from gpustack.versions import is_within, version

Cover = Literal["code", "ptx", "no", "unknown"]

PROPERTIES = ("python", "glibc", "driver")
"""What of the system below a build is judged."""

_PLATFORM_NAMES = {
    "linux-x86_64": "Linux on x86_64",
    "linux-aarch64": "Linux on aarch64",
    "windows-x86_64": "Windows on x86_64",
    "windows-aarch64": "Windows on aarch64",
}


class Judge:
    """Judges builds for one question; what it finds about a build is kept.

    ``properties`` are judged: an image has a system of its own, and perhaps cuda-compat.
    """

    def __init__(self, question: Question, catalog: Catalog, *, properties: tuple[str, ...] = PROPERTIES) -> None:
        self.question = question
        self.catalog = catalog
        self.properties = properties
        self.platform = catalog.platform
        self._found: dict[Build, Findings] = {}

    def here(self, build: Build) -> bool:
        """Whether a build is for the host's platform."""
        return build.platform in {self.platform, "any"}

    def of(self, build: Build) -> Findings:
        """Everything that the host refuses of a build, or that is unknown of it here."""
        if build not in self._found:
            self._found[build] = self._python(build) + self._glibc(build) + self.on_gpus(build) + self._driver(build)
        return self._found[build]

    def _python(self, build: Build) -> Findings:
        return self._property(build, "python", build.python, f"installs on Python {pythons_in_words(build.python)}")

    def _glibc(self, build: Build) -> Findings:
        needed = f">={build.glibc}" if build.glibc and self.platform.startswith("linux") else ""
        found = self._property(build, "glibc", needed, f"requires glibc {build.glibc} or newer")
        is_judged = needed and "glibc" in self.properties and not (found.conflicts or found.unknown)
        row = self.catalog.built_on(build) if is_judged else None
        values = self.question.view.values("glibc") if row is not None else ()
        if row is None or all(is_within(value, f">={row.glibc}") for value in values):
            return found
        required = row.glibc if row.refused else "a newer one"
        text = f"its tag says glibc {build.glibc}, and its libraries are reported to require {required}"
        if row.refused:
            reason = f"The wheel of {build.named} does not load: {text}; this is glibc {values[0]}."
            return self._conflict(build, f"glibc: {values[0]}", reason, self.question.matrix.addresses(row.src))
        reason = f"{build.named}: {text}; whether they load with glibc {values[0]} is unknown"
        return Findings(unknown=(self._unknown(build, reason, needs="glibc"),))

    def _property(self, build: Build, name: str, needed: str, text: str) -> Findings:
        if not needed or name not in self.properties:
            return Findings()
        values = self.question.view.values(name)
        if not values:
            option = f"--{name}"
            reason = f"{build.named}: it {text}, and that of this host is unknown ({option} gives it)"
            return Findings(unknown=(self._unknown(build, reason, needs=name, option=option),))
        if all(is_within(value, needed) for value in values):
            return Findings()
        own = self.question.view.is_assumed(name) or not getattr(self.question.host, name)
        whose = f"{self.question.host.os.called} has" if own else "this is"
        word = "Python" if name == "python" else name
        reason = f"The wheel of {build.named} {text}; {whose} {word} {values[0]}."
        return self._conflict(build, f"{name}: {values[0]}", reason)

    def on_gpus(self, build: Build) -> Findings:
        """Whether the GPUs of the host run the code of a build."""
        gpus = self.question.host.gpus
        if not gpus:
            return self._on_jetson(build, "the Jetson's") if self._is_older_jetson() else Findings()
        if build.code == "python":
            refused = (self._beyond(build, gpu) for gpu in gpus if gpu.compute_capability)
            return next((one for one in refused if one is not None), Findings())
        if build.code == "cpu":
            return self._without_cuda(build, gpus[0].called)
        if self._is_board_of_its_own():
            return self._on_jetson(build, gpus[0].called)
        found = Findings()
        for gpu in gpus:
            found += self._gpu(build, gpu)
        return found

    def _without_cuda(self, build: Build, called: str) -> Findings:
        what = f"the build {build.number}" if build.local else f"the wheel of {build.named} for this platform"
        return self._conflict(build, f"gpu: {called}", f"This wheel has no CUDA: {what} is a CPU build.")

    def _is_board_of_its_own(self) -> bool:
        """Whether this is a Jetson before Thor: CUDA's libraries for servers do not support its GPU."""
        capabilities = self.question.view.capabilities
        return self.question.host.environment == "jetson" and not any(is_within(one, ">=11") for one in capabilities)

    def _is_older_jetson(self) -> bool:
        """Whether this is a Jetson whose GPU nobody named, of a JetPack that Thor does not have."""
        return self._is_board_of_its_own() and any(is_within(one, "<38") for one in self.question.view.values("l4t"))

    def _on_jetson(self, build: Build, called: str) -> Findings:
        """A wheel for servers is refused by its CUDA where the JetPack has another; else no plan takes it."""
        if build.code == "python":
            return Findings()
        if build.code == "cpu":
            return self._without_cuda(build, called)
        release, values = self.release(build), self.question.view.values("l4t")
        rules = self.question.book.applying("cuda", release).get("l4t", ()) if release else ()
        held = (one for one in rules if not one.is_advice and self.question.view.holds(one.rule, "cuda"))
        refused = next(
            (one for one in held if values and not any(one.accepts(release, value) for value in values)), None
        )
        if refused is not None:
            sentence = rule_sentence(self.question, refused)
            reason = f"{build.named} is built for CUDA {self.catalog.cuda_of(build)}. {sentence.text}."
            return self._conflict(build, f"os: Jetson Linux {values[0]}", reason, sentence.sources)
        if self.question.mode == "plan":
            reason = f"The wheel of {build.named} is for servers: NVIDIA has others for each JetPack"
            return self._conflict(build, f"gpu: {called}", f"{reason}, and whether this one runs is unknown.")
        reason = f"{build.named}: it is unknown whether a wheel for servers runs on a Jetson (NVIDIA has its own)"
        return Findings(unknown=(self._unknown(build, reason, needs="gpu"),))

    def _gpu(self, build: Build, gpu: Gpu) -> Findings:
        if not gpu.compute_capability:
            reason = f"{build.named}: the compute capability of {gpu.called} is unknown (--gpu gives it)"
            return Findings(unknown=(self._unknown(build, reason, needs="compute-capability", option="--gpu"),))
        if build.code == "library":
            return self._library(build, gpu)
        match self.covers(build, gpu.compute_capability):
            case "code":
                return self._partly_compiled(build, gpu)
            case "unknown":
                has = "compiles for" if build.code == "jit" else "has code for"
                reason = f"{build.named}: it is unknown which GPUs its wheel {has}"
                return Findings(unknown=(self._unknown(build, reason, needs="compute-capability"),))
            case "ptx":
                return self._beyond(build, gpu) or self._compiled_at_start(build, gpu)
            case _:
                return self._conflict(build, f"gpu: {gpu.called}", f"{self._contents(build)}; {_is_of(gpu)}.")

    def _library(self, build: Build, gpu: Gpu) -> Findings:
        """Whether a library of NVIDIA has code for a GPU: by the rules of its component and of its CUDA."""
        from gpustack.solve.frameworks.library_facts import breach_on  # noqa: PLC0415 (few ask about them)

        bound = breach_on(self.question, build, self.release(build), gpu)
        if bound is None:
            return Findings()
        sentence = rule_sentence(self.question, bound)
        reason = f"{build.named} is for CUDA {build.cuda}. {sentence.text.rstrip('.')}; {_is_of(gpu)}."
        return self._conflict(build, f"gpu: {gpu.called}", reason, sentence.sources)

    def _beyond(self, build: Build, gpu: Gpu) -> Findings | None:
        """That a framework fails, or may fail, on a GPU that its PTX would run on; None if nobody says so."""
        row = self.catalog.capability_of(build)
        if row is None or is_within(gpu.compute_capability, row.capability):
            return None
        reason = f"{build.named} on {gpu.called}: {row.says}"
        if row.refused:
            return self._conflict(build, f"gpu: {gpu.called}", f"{reason}.", self.question.matrix.addresses(row.src))
        sources = self.question.matrix.addresses(row.src)
        return Findings(unknown=(Unknown(reason=reason, needs="compute-capability", sources=sources),))

    def covers(self, build: Build, capability: str) -> Cover:
        """How a build supports GPUs of a compute capability.

        Machine code runs on its own capability and later ones of the same major; PTX on any later one, compiled by
        the driver.
        """
        if build.code == "jit":
            return self._compiles_for(build, capability)
        if not build.sass and not build.ptx:
            return "unknown"
        major = capability.partition(".")[0]
        own = (text for text in build.sass if text.partition(".")[0] == major)
        if any(version(text) <= version(capability) for text in own):
            return "code"
        return "ptx" if any(version(text) <= version(capability) for text in build.ptx) else "no"

    def _compiles_for(self, build: Build, capability: str) -> Cover:
        """Whether a framework that compiles at run time supports a GPU: as it states, else as its CUDA does."""
        row = self.catalog.capability_of(build)
        if row is not None:
            return "code" if is_within(capability, row.capability) else "no"
        compiles = self._compiles(self.release(build), capability)
        return "unknown" if compiles is None else "code" if compiles else "no"

    def _compiles(self, release: str, capability: str) -> bool | None:
        """Whether a release of CUDA supports a compute capability; None if unknown."""
        rules = self.question.book.applying("cuda", release).get("compute-capability", ()) if release else ()
        held = [one for one in rules if not one.is_advice and self.question.view.holds(one.rule, "cuda")]
        return all(one.accepts(release, capability) for one in held) if held else None

    def newest(self, build: Build) -> str:
        """The newest release of CUDA of a build's major, whose libraries it may load; "" if unknown."""
        major = self.catalog.cuda_of(build).partition(".")[0]
        rows = self.question.matrix.releases("cuda") if major else ()
        return next((row.version for row in rows if row.version.partition(".")[0] == major), "")

    def _contents(self, build: Build) -> str:
        if build.code == "jit" and self.catalog.capability_of(build) is None:
            return f"{build.named} compiles for the GPU with CUDA {self.cuda_named(build)}, which lacks this one"
        row = self.catalog.capability_of(build) if build.code == "jit" else None
        if row is not None:
            return f"{build.named} supports GPUs of compute capability {in_words(row.capability)}"
        code = f"{build.named} contains code for compute capabilities {', '.join(build.sass)}"
        ptx = f" and PTX for {', '.join(build.ptx)}" if build.ptx else " and no PTX"
        return f"{code}{ptx}: on other GPUs CUDA reports 'no kernel image is available for execution on the device'"

    def _compiled_at_start(self, build: Build, gpu: Gpu) -> Findings:
        """PTX needs a driver of its own CUDA release: compatibility within a major is for machine code only."""
        if (older := self._older_driver(build)) is not None:
            driver, sentence = older
            reason = (
                f"{build.named} has only PTX for {gpu.called}, which driver {driver} cannot compile: that needs a "
                f"driver of CUDA {self.catalog.cuda_of(build)}. {sentence.text}."
            )
            return self._conflict(build, f"driver=={driver}", reason, sentence.sources)
        newest = self.newest(build)
        if newest and self._compiles(newest, gpu.compute_capability or "") is False:
            line = newest.partition(".")[0]
            reason = f"{build.named} has only PTX for {gpu.called}, and CUDA {line} has no libraries for it"
            return Findings(unknown=(self._unknown(build, reason, needs="compute-capability"),))
        return Findings(
            warnings=(f"{build.named} has only PTX for {gpu.called}: the driver compiles it at the first start",)
        )

    def _partly_compiled(self, build: Build, gpu: Gpu) -> Findings:
        """That a part of a build is PTX only for a GPU, where the driver is older than the build's CUDA."""
        row = self.catalog.ptx_part_of(build, gpu.compute_capability or "")
        older = self._older_driver(build) if row is not None else None
        if row is None or older is None:
            return Findings()
        driver, sentence = older
        reason = f"{build.named} on {gpu.called} with driver {driver}: {row.says}. {sentence.text}"
        sources = (*self.question.matrix.addresses(row.src), *sentence.sources)
        return Findings(unknown=(Unknown(reason=reason, needs="driver", option="--driver", sources=sources),))

    def _older_driver(self, build: Build) -> tuple[str, Sentence] | None:
        """The driver that is older than that of a build's CUDA release, and so compiles none of its PTX."""
        release = self.release(build)
        own = self._bound(release, is_advice=True) if release else None
        if own is None:
            return None
        driver = next((one for one in self.drivers if not own.accepts(release, one)), None)
        return (driver, rule_sentence(self.question, own)) if driver is not None else None

    @property
    def drivers(self) -> tuple[str, ...]:
        """The driver that is asked about, or installed; () if neither."""
        question = self.question
        if "driver" not in question.asked and "driver" not in question.host.installed:
            return ()
        return tuple(candidate.version for candidate in question.candidates("driver"))

    def release(self, build: Build) -> str:
        """The newest toolkit release of a build's CUDA line, whose rules on the driver hold for it; "" if unknown.

        One that compiles with any toolkit has the CUDA that is asked about.
        """
        line = self.catalog.cuda_of(build)
        if not line and build.code == "jit" and "cuda" in self.question.asked:
            return next((one.version for one in self.question.candidates("cuda")), "")
        rows = self.question.matrix.releases("cuda") if line else ()
        return next((row.version for row in rows if is_within(row.version, f"=={line}.*")), "")

    def cuda_named(self, build: Build) -> str:
        """The CUDA of a build, or the one that is asked about and that it compiles with."""
        return self.catalog.cuda_of(build) or self.release(build)

    def driver_range(self, build: Build) -> str:
        """The drivers that run a build's CUDA, as a range; "" if it has none, or if unknown."""
        bound = self._bound(self.release(build), is_advice=False)
        return " | ".join(bound.rule.any) if bound is not None else ""

    def _bound(self, release: str, *, is_advice: bool) -> BoundRule | None:
        rules = self.question.book.applying("cuda", release).get("driver", ()) if release else ()
        held = (one for one in rules if self.question.view.holds(one.rule, "cuda"))
        return next((one for one in held if one.is_advice == is_advice), None)

    def _driver(self, build: Build) -> Findings:
        if build.code in {"cpu", "python"} or not self.drivers or "driver" not in self.properties:
            return Findings()
        release = self.release(build)
        bound = self._bound(release, is_advice=False)
        if bound is None and "torch" in pins(build.requires):
            return Findings()  # its CUDA is that of the PyTorch next to it
        if bound is None:
            reason = f"{build.named}: it is unknown which driver its CUDA requires"
            return Findings(unknown=(self._unknown(build, reason, needs="driver"),))
        if any(bound.accepts(release, one) or is_bridged(self.question, release, one) for one in self.drivers):
            return Findings()
        sentence = rule_sentence(self.question, bound)
        built = "is built for" if self.catalog.cuda_of(build) else "compiles with"
        reason = f"{build.named} {built} CUDA {self.cuda_named(build)}. {sentence.text}; this is {self.drivers[0]}."
        return self._conflict(build, f"driver=={self.drivers[0]}", reason, sentence.sources)

    def _conflict(self, build: Build, other: str, reason: str, sources: tuple[str, ...] = ()) -> Findings:
        addresses = tuple(dict.fromkeys((*self.question.matrix.addresses(build.src), *sources)))
        one = Conflict(kind="framework", between=(build.named, other), reason=reason, sources=addresses)
        return Findings(conflicts=(one,))

    def _unknown(self, build: Build, reason: str, *, needs: str, option: str = "") -> Unknown:
        return Unknown(reason=reason, needs=needs, option=option, sources=self.question.matrix.addresses(build.src))


def platforms_of(builds: tuple[Build, ...]) -> list[str]:
    """The platforms of builds in words."""
    return sorted({_PLATFORM_NAMES.get(build.platform, build.platform) for build in builds})


def no_wheel(question: Question, name: str, wanted: str, builds: tuple[Build, ...], only: Confined | None) -> Conflict:
    """That a release has no wheel for this platform, or none that runs here (``only``), with those that it is for."""
    platform = platform_of(question.host)
    names = ", ".join(platforms_of(builds))
    here = _PLATFORM_NAMES.get(platform, platform or "this architecture")
    reason = f"No wheel of {name}{wanted} is for {here}; there are wheels for {names}."
    return Conflict(
        kind="framework",
        between=(f"{name}{wanted}", f"platform: {here}"),
        reason=reason if only is None else f"{name}{wanted} runs on {names} only: {only.says}.",
        sources=question.matrix.addresses((*builds[0].src, *(only.src if only is not None else ()))),
    )


def pythons_in_words(range_text: str) -> str:
    return in_words(range_text).replace(" to before ", " up to, not including, ")


def _is_of(gpu: Gpu) -> str:
    return f"{gpu.called} is of {gpu.compute_capability}"
