"""Variables that files set for every session or service, and that keep programs from GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.signs import logs
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_PLACES = (
    "/etc/environment", "/etc/profile.d/", "/etc/environment.d/", "/etc/systemd/system/", "/etc/nccl.conf",
)  # fmt: skip
_ASSIGNMENT = later(
    r"(?m)^\s*(?:export\s+|Environment=\s*\"?)?([A-Z][A-Z0-9_]+)=(?:\"([^\"\n]*)\"?|'([^'\n]*)'?|([^\s\"'#;]*))"
)
_SET = later(
    r"(?m)^[ \t]*(?:[$#>] )?(?:export[ \t]+|os\.environ\[[\"'])?([A-Z][A-Z0-9_]+)(?:[\"']\] ?)?="
    r" ?(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s\"'#;]*))[ \t]*$"
)
"""An assignment that is a line of a pasted text: of a shell, of Python, or of what env prints."""

_FROM_SIGHT = frozenset({"hides", "stub"})
_NO_GPU = {"", "-1", "none", "NoDevFiles"}
"""Values of CUDA_VISIBLE_DEVICES that leave no GPU."""


class Variable(Struct, frozen=True, kw_only=True):
    """A row of the table of variables; here only those that alone make programs fail count."""

    name: str
    test: str
    says: str
    value: str = ""
    blocks: bool = False
    container: bool = False
    src: tuple[str, ...] = ()


@detects("detect-variable")
def variable(scene: Scene) -> Iterator[Finding]:
    """Assignments in files of the system that hide the GPUs, or put the toolkit's stubs before the driver."""
    found = [
        (path, match[1], next((text for text in match.groups()[1:] if text is not None), ""))
        for path, text in sorted(scene.evidence.files.items())
        if path.startswith(_PLACES)
        for match in _ASSIGNMENT.finditer(text)
    ]
    if not found:
        return
    rows = [row for row in scene.matrix.rows("environment", "variables", Variable) if row.blocks and not row.container]
    for path, name, value in found:
        row = next((row for row in rows if row.name == name and _disturbs(scene, row, value)), None)
        if row is not None:
            yield Finding(
                message=f"{path} sets {name}={value!r} for all its programs: {row.says}",
                fix=f"take it out of {path}; then log in again, or restart the service",
                severity="info" if row.name.startswith("NCCL_") else "warn",
                reboot=False,
                sources=scene.matrix.addresses(row.src),
            )


@detects("detect-variable-told")
def variable_told(scene: Scene) -> Iterator[Finding]:
    """Assignments that a pasted text shows, and that take the GPUs out of programs' sight."""
    found = [
        (path, one) for path, text in logs(scene) if "=" in text for one in _SET.finditer(text)
    ] if scene.evidence.excerpt else []  # fmt: skip
    for path, one in found:
        name, value = one[1], next((text for text in one.groups()[1:] if text is not None), "")
        rows = scene.matrix.rows("environment", "variables", Variable)
        row = next((row for row in rows if row.name == name and row.blocks and _disturbs(scene, row, value)), None)
        if row is not None and row.test in _FROM_SIGHT:
            yield Finding(
                message=f"{name} is {value!r}, so that programs see no GPU: {row.says} ({path}: {one[0].strip()})",
                fix=f"`unset {name}` before the program starts, and take it out of what sets it (the script, ~/.bashrc,"
                " a unit, a compose file)",
                severity="warn",
                reboot=False,
                sources=scene.matrix.addresses(row.src),
            )
            return


def _disturbs(scene: Scene, row: Variable, value: str) -> bool:
    """Whether this value disturbs on this host, as far as files tell."""
    if row.test == "matches":
        return re.fullmatch(row.value, value) is not None
    if row.test == "hides":
        return value.strip() in _NO_GPU
    if row.test == "stub":
        return any(part.rstrip("/").endswith("/stubs") for part in value.split(":"))
    if row.test == "no-interface":
        return _lacks_interface(scene, value)
    return False


def _lacks_interface(scene: Scene, value: str) -> bool:
    """Whether none of this host's network interfaces has a name that the value allows; False where they are unknown."""
    names = [name for name in scene.evidence.listings.get("/sys/class/net", ()) if name != "lo"]
    wants = [word.partition(":")[0] for word in value.removeprefix("=").split(",") if word]
    if not names or not wants or value.startswith("^"):
        return False
    exact = value.startswith("=")
    return not any(name == word or (not exact and name.startswith(word)) for name in names for word in wants)


@detects("detect-stub-path")
def stub_path(scene: Scene) -> Iterator[Finding]:
    """The toolkit's stubs among the folders that the loader searches for all programs."""
    for path, text in sorted(scene.evidence.files.items()):
        if path.startswith("/etc/ld.so.conf") and re.search(r"(?m)^\s*/\S*/stubs/?\s*$", text):
            yield Finding(
                message=f"{path} names a folder of the toolkit's stubs, which are for linking only: programs can load "
                "the stub libcuda in place of the driver's (CUDA_ERROR_STUB_LIBRARY)",
                fix=f"take that line out of {path}, then `sudo ldconfig`",
                severity="warn",
                reboot=False,
            )
