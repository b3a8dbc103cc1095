"""Which platforms and architectures the facts about a component cover: elsewhere there is no answer."""

from msgspec import Struct

from gpustack.model.host import Gpu, Host
from gpustack.model.resolution import Unknown
from gpustack.solve.hostview import OPTIONS
from gpustack.solve.packaged import without_compiler
from gpustack.solve.question import Question
from gpustack.solve.words import in_words, title
from gpustack.versions import is_within

SUBJECT = "applies"

PLATFORMS = {"jetson": "Jetson", "wsl": "WSL", "windows": "Windows", "container": "containers", "server": "Linux"}


class Applies(Struct, frozen=True, kw_only=True):
    """One row: a component has builds on these platforms and architectures in these versions ("" all)."""

    id: str
    component: str
    platforms: tuple[str, ...]
    arch: tuple[str, ...]
    versions: str = ""
    src: tuple[str, ...] = ()


class Elsewhere(Struct, frozen=True, kw_only=True):
    """What to say about a component without a row."""

    component: str
    platform: str
    text: str
    src: tuple[str, ...] = ()


class Unlisted(Struct, frozen=True, kw_only=True):
    """Releases of systems that the vendor's guides for these versions do not name, or that its notes drop."""

    id: str
    components: tuple[str, ...]
    systems: tuple[str, ...]
    versions: str
    text: str
    arch: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


class UnlistedGpus(Struct, frozen=True, kw_only=True):
    """GPUs, by compute capability or by name, that the vendor's pages do not name for these versions.

    With ``platforms`` only there.
    """

    id: str
    components: tuple[str, ...]
    versions: str
    text: str
    compute_capability: str = ""
    gpus: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    src: tuple[str, ...] = ()

    def names(self, gpu: Gpu) -> bool:
        """Whether the row is about this GPU."""
        capability = gpu.compute_capability
        return gpu.name in self.gpus or bool(
            capability and self.compute_capability and is_within(capability, self.compute_capability)
        )


class Unsigned(Struct, frozen=True, kw_only=True):
    """A component whose kernel module its maker does not support with Secure Boot."""

    component: str
    text: str
    src: tuple[str, ...] = ()


class Unshown(Struct, frozen=True, kw_only=True):
    """Values of a property on which the vendor's pages show versions whose requirement they do not state."""

    id: str
    components: tuple[str, ...]
    property: str
    shown: str
    text: str
    versions: str = ""
    src: tuple[str, ...] = ()


def platform(host: Host) -> str:
    """The platform of a host in the words of the facts: server, container, wsl, windows or jetson."""
    if host.os.family == "windows":
        return "windows"
    return host.environment if host.environment in {"jetson", "wsl", "container"} else "server"


def outside(question: Question, component: str, version_text: str = "") -> Unknown | None:
    """Why the facts do not say whether a component, or one version of it, runs here; None if they do.

    A component without any row is one of an overlay that makes no statement.
    """
    rows = [row for row in question.matrix.rows(SUBJECT, "applies", Applies) if row.component == component]
    place, arch = platform(question.host), question.host.arch
    here = [row for row in rows if place in row.platforms]
    if not rows or any(_covers(row, arch, version_text) for row in here):
        return (
            _unlisted(question, component, version_text)
            or _unlisted_gpu(question, component, version_text)
            or _unshown(question, component, version_text)
            or without_compiler(question, component, version_text)
            or _unsigned(question, component, version_text)
        )
    subject = f"{component}=={version_text}" if version_text else component
    if not here:
        row = _elsewhere(question, component, place)
        text = row.text if row is not None else f"the facts do not cover {title(component)} on {PLATFORMS[place]}"
        sources = question.matrix.addresses(row.src if row is not None else rows[0].src)
        option = "--environment" if place in {"jetson", "container"} else "--os"
        return Unknown(
            reason=f"{subject}: {text}", rule=rows[0].id, needs="environment", option=option, sources=sources
        )
    what = f"{title(component)} {version_text}".strip()
    known = "; ".join(f"{', '.join(row.arch)}: {in_words(row.versions) if row.versions else 'any'}" for row in here)
    if arch is None:
        known = f"{what} is known on {PLATFORMS[place]} for {known}"
        text = f"the architecture of this host is unknown (--arch gives it); {known}"
    else:
        text = f"no build of {what} is known for {PLATFORMS[place]} on {arch}; known for {known}"
    sources = question.matrix.addresses(tuple(dict.fromkeys(key for row in here for key in row.src)))
    return Unknown(reason=f"{subject}: {text}", rule=here[0].id, needs="arch", option="--arch", sources=sources)


def _covers(row: Applies, arch: str | None, version_text: str) -> bool:
    return arch in row.arch and (not version_text or not row.versions or is_within(version_text, row.versions))


def _unlisted(question: Question, component: str, version_text: str) -> Unknown | None:
    """That the vendor does not name this release of the system for a version; None if no row says so."""
    if not version_text:
        return None
    here = {f"{system.id}{system.version}" for system in question.offers.rows.systems}
    for row in question.matrix.rows(SUBJECT, "unlisted", Unlisted):
        is_here = here.intersection(row.systems) and (not row.arch or question.host.arch in row.arch)
        if is_here and component in row.components and is_within(version_text, row.versions):
            sources = question.matrix.addresses(row.src)
            return Unknown(
                reason=f"{component}=={version_text}: {row.text}",
                rule=row.id,
                needs="os",
                option="--os",
                sources=sources,
            )
    return None


def _unlisted_gpu(question: Question, component: str, version_text: str) -> Unknown | None:
    """That the vendor does not name a GPU of the host for a version; None if no row says so."""
    if not version_text:
        return None
    for row in question.matrix.rows(SUBJECT, "unlisted_gpus", UnlistedGpus):
        is_here = not row.platforms or platform(question.host) in row.platforms
        if not is_here or component not in row.components or not is_within(version_text, row.versions):
            continue
        for gpu in question.host.gpus:
            if row.names(gpu):
                return Unknown(
                    reason=f"{component}=={version_text}: {gpu.called}: {row.text}",
                    rule=row.id,
                    needs="gpu",
                    option="--gpu",
                    sources=question.matrix.addresses(row.src),
                )
    return None


def is_shown(question: Question, component: str, version_text: str, name: str) -> bool:
    """Whether the facts have the values of a property on which a version is shown to run."""
    return any(row.property == name for row in _shown_rows(question, component, version_text))


def _shown_rows(question: Question, component: str, version_text: str) -> list[Unshown]:
    return [
        row
        for row in question.matrix.rows(SUBJECT, "unshown", Unshown)
        if component in row.components and (not row.versions or is_within(version_text, row.versions))
    ]


def _unshown(question: Question, component: str, version_text: str) -> Unknown | None:
    """That a version is shown on other values of a property only; None if no row says so."""
    if not version_text or question.view.is_windows:
        return None
    for row in _shown_rows(question, component, version_text):
        for value in question.view.values(row.property):
            if not is_within(value, row.shown):
                return Unknown(
                    reason=f"{component}=={version_text}: {row.text}; this host has {title(row.property)} {value}",
                    rule=row.id,
                    needs=row.property,
                    option=OPTIONS[row.property],
                    sources=question.matrix.addresses(row.src),
                )
    return None


def _unsigned(question: Question, component: str, version_text: str) -> Unknown | None:
    """That a component is not supported on a host with Secure Boot; None without it."""
    rows = question.matrix.rows(SUBJECT, "unsigned", Unsigned) if question.host.secure_boot else ()
    return next(
        (
            Unknown(
                reason=f"{component}=={version_text}: {row.text}",
                needs="secure-boot",
                option="--secure-boot",
                sources=question.matrix.addresses(row.src),
            )
            for row in rows
            if row.component == component
        ),
        None,
    )


def _elsewhere(question: Question, component: str, place: str) -> Elsewhere | None:
    rows = question.matrix.rows(SUBJECT, "elsewhere", Elsewhere)
    return next((row for row in rows if (row.component, row.platform) == (component, place)), None)
