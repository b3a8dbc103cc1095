"""Rows of the facts that describe a host by its evidence, rules with conditions, and whether a host is like that."""

import re

from msgspec import Struct
from msgspec.structs import replace

from gpustack.detect.parse.toolkit import glibc_version
from gpustack.detect.problems.registry import Severity
from gpustack.detect.scene import Scene
from gpustack.model.host import Host
from gpustack.patterns import later
from gpustack.solve.hostview import HostView
from gpustack.system.paths import matches
from gpustack.versions import is_within

_NUMBERS = later(r"\d+(?:\.\d+)*")
_PACKAGE = later(r"([^<>=!]+)(.*)")


class HostRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A state of a host, with the sentence and the fix; all conditions that are given must hold.

    ``driver`` and ``kernel`` are ranges; ``gpus`` are regular expressions of their names; ``has`` and ``lacks`` are
    packages (a regular expression of the name, and a range after it); ``there`` and ``missing`` are paths or patterns
    of them; ``module`` is loaded or absent, ``unloaded`` are kernel modules that are not loaded.
    """

    id: str
    says: str
    fix: str = ""
    severity: Severity = "warn"
    driver: str = ""
    kernel: str = ""
    flavour: str = ""
    module: str = ""
    compute_capability: str = ""
    kind: str = ""
    gpus: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    os: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unloaded: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


class LogRow(HostRow, frozen=True, kw_only=True, omit_defaults=True):
    """``wants``: texts that one line of a service's log holds, with one of ``any``, and none of ``unlike``.

    ``bus``: it names the address of one of the host's GPUs; ``mended``: texts of a later line that takes it back.
    ``unless``: texts of which none stands anywhere in the log: another row explains what this line follows from.
    ``after``: the same for a pasted text, which is about one failure.
    ``near``: expressions of which one is found anywhere in the log, in any case: they tell where the line is from. Such
    a row stands for what the same line means elsewhere.
    ``place``: ``inside`` a container, ``outside`` of them. ``demand``: the line names a release that demands a driver.
    ``last``: a program writes it after the line with the reason: told where no other row of its kind, by the first word
    of their ids, tells one of the same log. ``harmless``: a warning without effect, told of a text alone: people ask
    about it.
    """

    wants: tuple[str, ...]
    any: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    demand: bool = False
    last: bool = False
    harmless: bool = False
    bus: bool = False
    place: str = ""


class SettingRow(HostRow, frozen=True, kw_only=True, omit_defaults=True):
    """``files``: patterns of paths; their text matches the expression ``holds``, and not ``without``.

    ``together``: the files are read as one, in the order of their paths.
    """

    files: tuple[str, ...]
    holds: str = ""
    without: str = ""
    together: bool = False


class KernelRow(Struct, frozen=True, kw_only=True):
    """Texts of a message of the kernel's log that a row explains."""

    wants: tuple[str, ...]


def view(scene: Scene, *, kernel: str = "") -> HostView:
    """The host as the rules of compatibility see it, with that kernel."""
    system, environment = scene.os, scene.environment
    if kernel and scene.evidence.excerpt:  # a text that names its kernel, and no system, is of a plain Linux
        system = replace(system, family=system.family or "")
        environment = environment or "bare-metal"
    host = Host(
        os=system,
        arch=scene.arch,
        environment=environment,
        gpus=scene.gpus,
        nvswitches=scene.nvswitches,
        kernel=kernel,
        glibc=glibc_version(scene.evidence, scene.packages),
    )
    return HostView(host, systems=(scene.system,) if scene.system is not None else ())


def is_like(scene: Scene, row: HostRow) -> bool:
    """Whether all conditions of the row hold on this host; a text that tells no kind of machine is of a plain one."""
    kernel = _NUMBERS.match(scene.kernel or scene.next_kernel or "")
    # Nobody pastes what is not there: a text alone does not show that a file is missing on a plain machine.
    environment = scene.environment or ("bare-metal" if scene.evidence.excerpt and not row.missing else None)
    # A text that names its kernel need not be of a plain machine.
    is_unknown = scene.environment is None or (bool(scene.evidence.pasted) and scene.environment == "bare-metal")
    kinds = {environment, scene.environment, scene.container, *(["unknown"] if is_unknown else [])}
    return (
        (not row.environment or bool(kinds & {*row.environment}))
        and (not row.os or scene.os.id in row.os)
        and (not row.driver or within(scene.driver_version, row.driver))
        and (not row.kernel or within(kernel[0] if kernel else None, row.kernel))
        and _is_module(scene, row)
        and _has_gpu(scene, row)
        and all(_installed(scene, words) for words in row.has)
        and not any(_installed(scene, words) for words in row.lacks)
        and all(_exists(scene, path) for path in row.there)
        and not any(_exists(scene, path) for path in row.missing)
        and not (row.unloaded and (not scene.modules or set(row.unloaded) & set(scene.modules)))
    )


def stands(row: LogRow, text: str) -> bool:
    """Whether a log, or all of a pasted text, has what the row wants near its line, and nothing that explains it."""
    return not any(words in text for words in row.unless) and (
        not row.near or any(re.search(like, text, re.IGNORECASE | re.MULTILINE) for like in row.near)
    )


def is_about(row: LogRow, line: str, folded: str) -> bool:
    """Whether the line is the one that the row describes; ``folded`` is the line in one case."""
    return (
        all(words.casefold() in folded for words in row.wants)
        and not any(words in line for words in row.unlike)
        and (not row.any or any(words.casefold() in folded for words in row.any))
    )


def tells_more(scene: Scene, line: str) -> bool:
    """Whether a row that knows what stands near a line of a pasted text tells its cause."""
    text, folded = scene.evidence.pasted, line.casefold()
    return bool(text) and any(
        row.near and is_about(row, line, folded) and stands(row, text) and is_like(scene, row)
        for row in scene.matrix.rows("driver-errors", "service_log", LogRow)
    )


def within(text: str | None, range_text: str) -> bool:
    """Whether a version is known and in the range; what is no version is not."""
    try:
        return text is not None and is_within(text, range_text)
    except ValueError:
        return False


def _is_module(scene: Scene, row: HostRow) -> bool:
    module = scene.module
    flavour = module.flavour if module is not None else None
    loaded = module is not None and module.loaded
    unknown = module is None and scene.evidence.excerpt and isinstance(row, LogRow)
    return (not row.flavour or flavour == row.flavour) and (
        not row.module or unknown or loaded == (row.module == "loaded")
    )


def _has_gpu(scene: Scene, row: HostRow) -> bool:
    """Whether one GPU fulfils all that the row says about GPUs."""
    unknown = not scene.gpus and scene.evidence.excerpt and row.gpus == (".",)
    if unknown or not (row.compute_capability or row.kind or row.gpus):
        return True
    return any(
        (not row.kind or gpu.kind == row.kind)
        and (not row.gpus or any(re.search(text, gpu.name or "") for text in row.gpus))
        and (not row.compute_capability or within(gpu.compute_capability, row.compute_capability))
        for gpu in scene.gpus
    )


def _installed(scene: Scene, words: str) -> bool:
    """Whether a package of this name and within this range is installed."""
    match = _PACKAGE.fullmatch(words)
    name, limits = (match[1], match[2]) if match else (words, "")
    return any(not limits or within(_numbers(package.upstream), limits) for package in scene.installed(name))


def _numbers(version: str) -> str | None:
    """The numbers that a version starts with: distributions write much after them."""
    found = _NUMBERS.match(version)
    return found[0] if found else None


def _exists(scene: Scene, path: str) -> bool:
    if "*" in path:
        seen = (*scene.evidence.marks, *scene.evidence.files)
        folder, _, name = path.rpartition("/")
        listed = ((place, names) for place, names in scene.evidence.listings.items() if matches(place, folder))
        return any(matches(one, path) for one in seen) or any(
            matches(one, name) for _, names in listed for one in names
        )
    return scene.evidence.has(path) or any(one.startswith(f"{path}/") for one in scene.evidence.files)
