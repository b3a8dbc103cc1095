"""Properties of a host from the command line: they override what was detected, or the defaults of its system."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gpustack.errors import UsageError
from gpustack.model.host import Environment, Gpu, Host, Installed
from gpustack.patterns import later

_KERNEL = later(r"\d+\.\d+[A-Za-z0-9.+~_-]{0,80}")
_NUMBERS = later(r"\d{1,5}(?:\.\d{1,5}){0,3}")
_DRIVER = later(r"\d{3}(?:\.\d{1,3}){0,2}")
_EXAMPLES = {
    "kernel": "6.17.0-8-generic",
    "gcc": "14.2",
    "clang": "19",
    "msvc": "19.44",
    "glibc": "2.41",
    "python": "3.12",
    "driver": "580.95.05",
}


class Properties(Struct, frozen=True, kw_only=True):
    """The given properties of a host; None is not given. ``driver`` is the installed version."""

    driver: str | None = None
    kernel: str | None = None
    gcc: str | None = None
    clang: str | None = None
    msvc: str | None = None
    glibc: str | None = None
    python: str | None = None
    secure_boot: bool | None = None
    environment: Environment | None = None


def changed(host: Host, given: Properties, gpus: tuple[Gpu, ...] = ()) -> Host:
    """``host`` with the given properties; ``gpus`` replace the detected ones. Raises UsageError."""
    for name, example in _EXAMPLES.items():
        text = getattr(given, name)
        pattern = {"kernel": _KERNEL, "driver": _DRIVER}.get(name, _NUMBERS)
        if text is not None and not pattern.fullmatch(text):
            what = "a kernel release" if name == "kernel" else f"a version of {name}"
            msg = f"{text[:40]!r} is not {'a driver version' if name == 'driver' else what}"
            raise UsageError(msg, code="invalid-value", where=f"--{name}", hint=f"for example {example}")
    names = ("gcc", "clang", "msvc", "glibc", "python", "secure_boot", "environment")
    changes = {name: value for name in names if (value := getattr(given, name)) is not None}
    if given.kernel is not None:
        changes.update(kernel=given.kernel, next_kernel=None)
    if given.driver is not None:
        changes["installed"] = {**host.installed, "driver": Installed(version=given.driver, method="unknown")}
    if gpus:
        changes["gpus"] = gpus
    return replace(host, **changes) if changes else host
