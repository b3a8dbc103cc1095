"""States of a host that the facts describe: lines of services' logs, settings of files, versions of parts."""

import re
from collections.abc import Iterator

from msgspec import Struct, structs

from gpustack.detect import services
from gpustack.detect.bus import ABOVE
from gpustack.detect.problems.codes import by_versions
from gpustack.detect.problems.demands import beyond, plan_for
from gpustack.detect.problems.logs import has_fault
from gpustack.detect.problems.phrases import stated
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.releases import loaded_and_found
from gpustack.detect.problems.rows import HostRow, LogRow, SettingRow, is_about, is_like, stands
from gpustack.detect.scene import Scene
from gpustack.detect.services import ABSENT
from gpustack.patterns import later
from gpustack.system.paths import matches

_WIDTH = 260
OF_PROGRAMS = {2, 719}
"""Errors that programs cause themselves."""

_OF_COMPAT = {803, 804}
"""Errors that CUDA gives where a libcuda of cuda-compat does not fit the driver or GPU."""

_OF_FAULTS = {46, 999}
"""Errors that every program meets while a GPU has a fault that the kernel's log names."""

_OF_CONTAINERS = ("/var/log/pods/", "/var/log/containers/", "/var/lib/docker/containers/")
_NUMBER = later(
    r"CUDA (?:failure|error)[ :]{1,2}(\d{1,3})\b|(?<!vram )init failure: (\d{1,3})\b|cuInit\(0\) returned (\d{1,3})\b|"
    r"cudaSetDevice err: (\d{1,3})\b|device context (\d{3})(?!\d)|\berror \(?(80[0-5]|999)\b",
    re.IGNORECASE,
)
_BEFORE_NUMBERS = ("cuda ", "init failure", "cuinit(0)", "device context", "cudasetdevice", "error")
"""A line without any of these has no number of an error: the search for numbers takes ten times as long."""
_LIBRARY = later(r"\b(lib(?:cuda|nvidia-[\w-]+)\.so)")
_PREFIX = later(r"^(?:\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+ (?:std(?:out|err) [FP] )?|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S+ )?")


class Code(Struct, frozen=True, kw_only=True):
    """A row of the table of CUDA's errors; ``unless``: texts of a log that names the cause itself."""

    code: int
    name: str
    cause: str
    fix: str
    inside: str = ""
    text: str = ""
    unless: tuple[str, ...] = ()
    src: tuple[str, ...] = ()

    def is_in(self, line: str, numbers: frozenset[str]) -> bool:
        """Whether a line that has these numbers of errors reports this one: by its name, number, or CUDA's words."""
        return self.name in line or str(self.code) in numbers or (bool(self.text) and self.text in line)


@detects("detect-service-log")
def service_log(scene: Scene) -> Iterator[Finding]:
    """Messages of services about GPUs whose cause is known: each once, with the last line that says so."""
    texts = logs(scene)
    explained: set[str] = set()
    found = list(_rows(scene, texts))
    rows = [one for one in found if _is_told(scene, one[0], one[1], found)]
    # What a system or a kind of cluster has of its own stands for what the same line means elsewhere.
    own = {line: max(_place(row) for row, _, told in rows if told == line) for _, _, line in rows}
    said = set()
    for row, path, line in rows:
        explained.add(line)
        if _place(row) == own[line] and (row.says, line) not in said:
            said.add((row.says, line))
            here = f"{about_host(scene)}{_here(scene, line)}{_encoder(scene, row, line)}"
            finding = _finding(scene, row, f"{row.says} ({path}: {quoted(line)}{here})")
            yield structs.replace(finding, fix=f"{_demanded(scene, row, line)}{sandboxed(path)}")
    # What a program says itself of the one failure of a text is nearer than the name of an error.
    if not (scene.evidence.pasted and any(row.severity != "info" for row, _, _ in rows)):
        yield from _errors(scene, texts, explained)


def _errors(scene: Scene, texts: list[tuple[str, str]], explained: set[str]) -> Iterator[Finding]:
    """Errors of CUDA in lines that no row explains."""
    lines = [(path, line, numbers_of(line)) for path, text in texts for line in text.splitlines()]
    everything = "\n".join(line for _, line, _ in lines)
    every_number = frozenset[str]().union(*(numbers for _, _, numbers in lines))
    for code in scene.matrix.rows("driver-errors", "cuda", Code) if lines else ():
        if code.code in OF_PROGRAMS or not code.is_in(everything, every_number):
            continue
        if any(words in everything for words in code.unless):
            continue
        if code.code in _OF_FAULTS and has_fault(scene):
            continue
        compat = next((copy for copy in scene.copies if copy.component == "cuda-compat"), None)
        if code.code in _OF_COMPAT and compat is None and loaded_and_found(scene) is not None:
            continue  # CUDA takes libraries of another release than the module for those of cuda-compat
        said_by = ((path, line) for path, line, numbers in lines if code.is_in(line, numbers))
        place = next((one for one in said_by if one[1] not in explained and not stated(scene, one[1])), None)
        if place is not None:
            path, line = place
            is_inside = side(scene, path) == "inside"
            told = None if is_inside else by_versions(scene, code.code)
            says, fix = told or (code.cause, (code.inside if is_inside else "") or code.fix)
            if compat is not None and code.code in _OF_COMPAT:
                says = f"programs load {compat.path} (forward compatibility) in place of the driver's own libcuda"
                folder = compat.path.rpartition("/")[0]
                fix = f"take {folder} out of /etc/ld.so.conf.d and LD_LIBRARY_PATH, then `sudo ldconfig`; {fix}"
            yield Finding(
                message=f"CUDA error {code.code}: {says} ({path}: {quoted(line)}{about_host(scene)})",
                fix=fix,
                severity="warn",
                reboot=False,
                sources=scene.matrix.addresses(code.src),
                row=f"cuda-{code.code}",
            )


def _demanded(scene: Scene, row: LogRow, line: str) -> str:
    """The fix of a row; where the line demands a driver, with that, or with what is left where the GPU has none."""
    if not row.demand:
        return row.fix
    none, least = beyond(scene, line), plan_for(scene, line)
    if none:
        return f"{none}: {row.fix.partition('; or ')[2] or 'use an older release of the program'}"
    return f"{least} installs a driver that has it; {row.fix}" if least else row.fix


def _is_told(scene: Scene, row: LogRow, path: str, found: list[tuple[LogRow, str, str]]) -> bool:
    """Whether the line of a row is a finding of its own: it names the reason, or nothing else of its kind does."""
    kind = row.id.partition("-")[0]
    others = (one for one, place, _ in found if place == path and not one.last)
    if row.last and any(one.id.partition("-")[0] == kind for one in others):
        return False
    return scene.evidence.excerpt or not row.harmless


_DRIVERS = ("nvidia ", "nouveau ", "vfio-pci ", "NVRM: ", "PCI device ")


def _place(row: LogRow) -> tuple[bool, bool]:
    """How much a row knows of the place that its line is from."""
    return bool(row.near), bool(row.os) or row.environment == ("wsl",)


def _rows(scene: Scene, texts: list[tuple[str, str]]) -> Iterator[tuple[LogRow, str, str]]:
    """The rows that hold on this host, each with the log and the last line that says so."""
    folded_logs = [(path, text, text.casefold()) for path, text in texts]
    whole = scene.evidence.pasted
    above = (path.rpartition("/")[2] for path, mark in scene.evidence.marks.items() if mark == ABOVE)
    places = tuple(place.removeprefix("0000:") for place in (*(gpu.bus_id for gpu in scene.gpus), *above) if place)
    if scene.evidence.excerpt and not places:  # the text does not show the bus: the drivers of GPUs name themselves
        places = _DRIVERS
    for row in scene.matrix.rows("driver-errors", "service_log", LogRow) if texts else ():
        found = next(
            (
                (path, line)
                for path, text, folded in folded_logs
                if row.place in {"", side(scene, path)}
                and (line := _line(row, text, folded, places))
                and stands(row, whole or text)
                and not any(words in whole for words in row.after)
            ),
            None,
        )
        if found is not None and is_like(scene, row):
            yield row, *found


def side(scene: Scene, path: str) -> str:
    """Whether a log was written inside a container or outside of one."""
    return "inside" if scene.environment == "container" or path.startswith(_OF_CONTAINERS) else "outside"


def numbers_of(line: str) -> frozenset[str]:
    """The numbers of CUDA's errors in a line."""
    folded = line.casefold()
    if not any(words in folded for words in _BEFORE_NUMBERS):
        return frozenset()
    return frozenset(next(filter(None, found.groups())) for found in _NUMBER.finditer(line))


def about_host(scene: Scene) -> str:
    """What of the host a message can be about."""
    gpus = dict.fromkeys(gpu.called for gpu in scene.gpus)
    here = (("driver", scene.driver_version), ("kernel", scene.kernel), ("GPU", next(iter(gpus), None)))
    return "".join(f"; {name} {value}" for name, value in here if value)


def _here(scene: Scene, line: str) -> str:
    """Where a library of the driver that the line misses lies on this host after all."""
    found = _LIBRARY.search(line)
    if found is None or not ABSENT.search(line) or scene.environment == "container":
        return ""
    stem = found[1]
    folder = next(
        (folder for folder, names in scene.evidence.listings.items() if any(name.startswith(stem) for name in names)),
        None,
    )
    return f"; the host itself has {stem} in {folder}" if folder else ""


def _encoder(scene: Scene, row: LogRow, line: str) -> str:
    """What the encoder here cannot do, where the row is about one."""
    if not row.id.startswith("nvenc-"):
        return ""
    from gpustack.detect.problems.encoders import refusal  # noqa: PLC0415 (few hosts have such a line)

    return refusal(scene, line)


def sandboxed(path: str) -> str:
    """What else to do where a program's log lies in the home of a flatpak or snap, which have a driver of their own."""
    if "/.var/app/" in path:
        return (
            "; it is a flatpak: `flatpak update` installs the driver's libraries for it (org.freedesktop.Platform.GL."
            "nvidia-...), which must be of the loaded driver's release"
        )
    return "; it is a snap: `sudo snap refresh`" if "/snap/" in path else ""


@detects("detect-setting")
def setting(scene: Scene) -> Iterator[Finding]:
    """Settings of files that keep programs from GPUs, or take GPUs from them."""
    for row in scene.matrix.rows("conflicts", "settings", SettingRow):
        texts = {path: scene.evidence.files[path] for path in _files_like(scene, row.files)}
        if not texts or (row.without and any(re.search(row.without, text) for text in texts.values())):
            continue
        if row.together:
            texts = {", ".join(texts): "".join(texts.values())}
        path = next((path for path, text in texts.items() if not row.holds or re.search(row.holds, text)), None)
        if path is not None and is_like(scene, row):
            yield _finding(scene, row, f"{path}: {row.says}")


@detects("detect-known-part")
def part(scene: Scene) -> Iterator[Finding]:
    """Parts of the stack that are known to go wrong on a host like this."""
    for row in scene.matrix.rows("known-bad", "parts", HostRow):
        if is_like(scene, row):
            yield _finding(scene, row, row.says)


def _finding(scene: Scene, row: HostRow, message: str) -> Finding:
    return Finding(
        message=message,
        fix=row.fix,
        severity=row.severity,
        reboot=False,
        sources=scene.matrix.addresses(row.src),
        row=row.id,
        follows=isinstance(row, LogRow) and row.harmless,
    )


def logs(scene: Scene) -> list[tuple[str, str]]:
    """The logs of services and of the kernel, from files and from commands, each with its place."""
    evidence = scene.evidence
    files = [(path, evidence.files[path]) for path in _files_like(scene, services.LOGS)]
    answers = ((name, evidence.output(name)) for name in ("dmesg", "journalctl", services.JOURNAL))
    return [*files, *((name.partition(" ")[0], text) for name, text in answers if text)]


def _files_like(scene: Scene, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The files whose path matches one of the patterns, sorted; each question is answered once."""
    if patterns not in scene.files_like:
        heads = tuple(pattern.partition("*")[0] for pattern in patterns)
        near = sorted(path for path in scene.evidence.files if path.startswith(heads))
        scene.files_like[patterns] = tuple(path for path in near if any(matches(path, pattern) for pattern in patterns))
    return scene.files_like[patterns]


def _line(row: LogRow, text: str, folded: str, places: tuple[str, ...]) -> str:
    """The last line with all texts of the row, "" without one; ``folded`` is the text in one case.

    ``places`` are the addresses of the host's GPUs on the bus, of which a row about the bus wants one.
    """
    wants = [words.casefold() for words in row.wants]
    if not all(words in folded for words in wants):
        return ""
    for line in reversed(text.splitlines()):
        if row.bus and not any(place in line for place in places):
            continue
        if row.mended and all(words in line for words in row.mended):
            return ""
        if is_about(row, line, line.casefold()):
            return line
    return ""


def quoted(line: str) -> str:
    """The message without what the log daemon or the container engine writes before it."""
    return _PREFIX.sub("", line.replace("#012", " ")).strip()[:_WIDTH]
