"""The operating system that ``--os`` names: by os-release, by its full name, by its code name, by NVIDIA's folder."""

from __future__ import annotations

from gpustack.detect.jetpack import as_l4t
from gpustack.errors import UnsupportedError, UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.places import System, find_system
from gpustack.patterns import later

# Letters, digits and what names of systems hold besides ("Pop!_OS 22.04 LTS", "Debian GNU/Linux 12 (bookworm)").
_SAFE = later(r"[A-Za-z0-9][A-Za-z0-9 ._/()!-]{0,59}")
_RELEASE = later(r"[vV]?\d[\w.]*")
_SPELLED = later(
    r"(?P<name>[a-z][a-z /_!.-]*?)"
    r"[ _-]*v?(?P<release>\d+(?:\.\d+)*)?(?:[ _-]*sp(?P<pack>\d))?"
    r"(?: (?:lts|edition|pro|home|enterprise|education|standard|datacenter))*(?: *\([^()]*\))?"
)
_FOLDER = later(r"\d{4}")
_OTHER_WORDS = (
    (later(r"^(.+?)[ _-]+(?:(?:on|in)[ _-]+)?\(?wsl ?2?\)?$"), r"wsl-\1"),
    (later(r"^wsl ?2?[ _-]"), "wsl-"),
    (later(r"^microsoft "), ""),
    (later(r"^(?:[klx]ubuntu|ubuntu[ -](?:budgie|desktop|mate|server|studio))(?=[ \d])"), "ubuntu"),
    (later(r"^(oracle linux) server\b"), r"\1"),
    (later(r"^(win(?:dows)? ?1[01]) \d\dh\d$"), r"\1"),
    (later(r" rolling$"), ""),
    (later(r"^tumbleweed$"), "opensuse-tumbleweed"),
    (later(r"^debian sid$"), "sid"),
    (later(r"^r(?=3\d\.\d)"), "l4t"),
)
"""Names as people and os-release write them, and the form in which they are looked up."""
_SHORTEST = 3  # letters of a part of a name that is taken for the whole


def parse_system(text: str, matrix: Matrix) -> tuple[System, str]:
    """The matrix row and the version that ``--os`` names ("ubuntu24.04", "Ubuntu 24.04 LTS", "noble", "jetpack6.2").

    Raises UsageError for what can be no name, and UnsupportedError with the nearest names for an unknown system.
    """
    if not _SAFE.fullmatch(text):
        msg = f"{text[:60]!r} is not an operating system name"
        raise UsageError(
            msg,
            code="unknown-system",
            where="--os",
            hint="give ID + VERSION_ID of os-release, for example ubuntu24.04 or rhel9.4",
        )
    lowered = text.lower()
    for pattern, form in _OTHER_WORDS:
        lowered = pattern.sub(form, lowered)
    if lowered != text.lower():
        text = lowered
    text = as_l4t(text, matrix)
    lowered = text.lower()
    refused: UnsupportedError | None = None
    for identity in sorted({row.id for row in matrix.systems}, key=len, reverse=True):
        rest = lowered.removeprefix(identity.lower())
        version = rest.lstrip(" _-")
        if rest == lowered or not (_RELEASE.fullmatch(version) or version in {"", "testing", "unstable"}):
            continue
        row = find_system(matrix.systems, identity, version)
        if row is not None:
            return row, text[len(text) - len(version) :]
        refused = _unknown_release(identity, version, matrix)
        break
    found = _spelled(lowered, matrix)
    if found is not None:
        return found
    raise refused or _unknown(text, matrix)


def _unknown_release(identity: str, version: str, matrix: Matrix) -> UnsupportedError:
    known = [row.version for row in matrix.systems if row.id == identity and row.version]
    said = f"{identity} {version}" if version else f"{identity} without a release"
    msg = f"unknown release: {said}"
    hint = f"known releases of {identity}: {_nearest(version, known)}"
    return UnsupportedError(msg, code="unknown-system", where="--os", hint=hint)


def _unknown(text: str, matrix: Matrix) -> UnsupportedError:
    lowered = text.lower()
    near = _nearest(lowered, sorted({row.key for row in matrix.systems}))
    hint = f"nearest: {near}" if near else "`gpustack matrix show systems`"
    if lowered.startswith(("macos", "darwin", "osx")):
        hint = "the facts cover Linux and Windows: describe the host that has the GPU, for example ubuntu24.04"
    msg = f"unknown operating system {text!r}"
    return UnsupportedError(msg, code="unknown-system", where="--os", hint=hint)


def _nearest(text: str, known: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 (only for a message)

    parts = [one for one in known if len(text) >= _SHORTEST and text in one.lower()]
    close = [one for one in get_close_matches(text, known, n=6, cutoff=0.3) if one not in parts]
    return ", ".join([*parts[-3:], *close][:6] or sorted(known)[-6:])


def _spelled(lowered: str, matrix: Matrix) -> tuple[System, str] | None:
    """The one system that another spelling names; None if none or several could be meant."""
    own = [row for row in matrix.systems if row.codename == lowered and not row.base]
    if len(own) == 1:
        return own[0], own[0].version
    folder = [row for row in matrix.systems if row.repo == lowered and row.version and not row.base]
    if len(folder) == 1:
        return folder[0], folder[0].version
    match = _SPELLED.fullmatch(lowered)
    if match is None:
        return None
    word = _bare(match["name"])
    releases = _releases(match["release"] or "", match["pack"])
    for fits in (_is_name, _is_part, _is_initials):
        for release in releases:
            found = [
                (row, release)
                for identity in {row.id for row in matrix.systems}
                if (row := find_system(matrix.systems, identity, release)) is not None and fits(word, row, release)
            ]
            # A row without a release covers every one: it is meant only where no row names the release.
            exact = [one for one in found if one[0].version] or found
            if exact:
                return exact[0] if len(exact) == 1 else None
    return None


def _releases(release: str, pack: str | None) -> tuple[str, ...]:
    """How os-release may write a release: "15sp6" is 15.6 and NVIDIA's folder 2204 is 22.04."""
    if pack:
        return (f"{release}.{pack}",)
    return (release, f"{release[:2]}.{release[2:]}") if _FOLDER.fullmatch(release) else (release,)


def _full_name(row: System) -> str:
    """The row's name without its release and what follows it; a system within WSL goes by its ID alone."""
    name = row.name.partition(" (")[0]
    if row.id.startswith("wsl-"):
        return row.id
    return name.partition(f" {row.version.removesuffix('.0')}")[0] if row.version else name


def _bare(name: str) -> str:
    """The letters of a name that tell systems apart: "Debian GNU/Linux" is debian, "AlmaLinux" is alma."""
    letters = "".join(one for one in name.lower() if one.isalpha())
    return letters.removesuffix("linux").removesuffix("gnu") or letters


def _is_name(word: str, row: System, _release: str) -> bool:
    return word in {_bare(row.id), _bare(_full_name(row))}


def _is_part(word: str, row: System, release: str) -> bool:
    """Whether a word begins or ends a name; without a release too many could be meant."""
    names = (_bare(row.id), _bare(_full_name(row)))
    return bool(release) and len(word) >= _SHORTEST and any(one.startswith(word) or one.endswith(word) for one in names)


def _is_initials(word: str, row: System, release: str) -> bool:
    words = _full_name(row).split()
    return bool(release) and len(words) > 1 and word == "".join(one[0] for one in words).lower()
