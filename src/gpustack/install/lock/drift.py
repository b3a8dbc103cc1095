"""Drift: differences between a host and the lock of its installation, and their fixes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from gpustack.model.host import Copy, Host, Installed
from gpustack.model.lock import Lock, LockedPackage
from gpustack.model.resolution import Exposure

Kind = Literal["package", "library", "module", "kernel", "hold", "copy", "repository", "vulnerability"]

REINSTALLS = " (it reinstalls "
"""Stands in a fix between the command and the package that is gone."""


class Drift(Struct, frozen=True, kw_only=True):
    """One difference. ``cure`` is its fix, ``reboot`` whether that requires one; "" in ``found`` is absent."""

    kind: Kind
    what: str
    expected: str
    found: str
    message: str
    cure: str
    reboot: bool = False


class Status(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/status/v1``: all differences; ``reboot`` says whether any fix requires one.

    ``warnings`` are security bulletins against what is installed, unless they count as differences.
    """

    schema: Literal["gpustack/status/v1"] = "gpustack/status/v1"
    lock: str
    packages: int
    drift: tuple[Drift, ...] = ()
    reboot: bool = False
    warnings: tuple[str, ...] = ()


def with_security(found: Status, exposures: tuple[Exposure, ...], *, is_denied: bool) -> Status:
    """A status with security bulletins: one difference each if they are denied, else a warning."""
    if not is_denied:
        return msgspec.structs.replace(found, warnings=tuple(one.reason for one in exposures))
    drift = tuple(
        Drift(
            kind="vulnerability",
            what=one.component,
            expected=f"{one.fixed} or newer" if one.fixed else "a release that is fixed",
            found=one.version,
            message=one.reason,
            cure=f"gpustack install '{one.component}{f'>={one.fixed}' if one.fixed else ''}'",
            reboot=one.component == "driver",
        )
        for one in exposures
    )
    reboot = any(one.reboot for one in drift)
    return msgspec.structs.replace(found, drift=(*found.drift, *drift), reboot=found.reboot or reboot)


def status_of(lock: Lock, host: Host, packages: Mapping[str, str], *, name: str = "LOCK") -> Status:
    """The differences between ``lock`` and ``host``. ``name`` is the lock's file in the words of fixes.

    ``packages`` maps a name to its version with epoch, "" if not installed; others are not judged.
    """
    view = _View(lock, host, packages, f"gpustack install {name}")
    found = (
        *view.packages_changed(),
        *view.libraries(),
        *view.module(),
        *view.kernel(),
        *view.holds(),
        *view.copies(),
        *view.repositories(),
    )
    return Status(
        lock=lock.digest,
        packages=sum(one.kind != "wheel" for one in lock.packages),
        drift=found,
        reboot=any(one.reboot for one in found),
    )


class _View:
    """One comparison. ``before`` is the host after the installation; None if the lock is of a plan only."""

    def __init__(self, lock: Lock, host: Host, packages: Mapping[str, str], install: str) -> None:
        self.lock = lock
        self.host = host
        self.packages = packages
        self.install = install
        self.before = lock.host

    def packages_changed(self) -> Iterator[Drift]:
        """Packages that are gone or have another version."""
        for package in self.lock.packages:
            found = self.packages.get(package.name)
            if package.kind == "wheel" or found is None or _is_at(package.version, found):
                continue
            if found:
                message = f"the package {package.name} is at {found}; the lock has {package.version}"
            else:
                message = f"the package {package.name} {package.version} of the lock is no longer installed"
            yield Drift(
                kind="package",
                what=package.name,
                expected=package.version,
                found=found,
                message=message,
                cure=self._cure_of(package),
                reboot=self._is_of_driver(package) and self._is_loaded(),
            )

    def libraries(self) -> Iterator[Drift]:
        """Components that are gone or have another version, whatever their method."""
        for name, entry in self.lock.stack.items():
            before = self.before.installed.get(name) if self.before else Installed(version=entry.version)
            now = self.host.installed.get(name)
            is_judged_by_module = name == "driver" and (self.before is not None or self._is_loaded())
            if before is None or before.version is None or is_judged_by_module:
                continue
            found = now.version if now else None
            if found == before.version or (now and not self.before and _is_same(before.version, found)):
                continue
            if any(self._explains(package, now or before) for package in self._find_moved()):
                continue
            is_gone = "no longer exists" if self.before else "is not installed"
            has = f"is {found}" if found else is_gone if now is None else "has no version"
            yield Drift(
                kind="library",
                what=name,
                expected=before.version,
                found=found or "",
                message=f"{name} {has}; the lock has {before.version}" + (f" in {before.path}" if before.path else ""),
                cure=self.install,
            )

    def module(self) -> Iterator[Drift]:
        """The running kernel module."""
        if "driver" not in self.lock.stack:
            return
        expected = self.before.module.version if self.before and self.before.module else None
        expected = expected or self.lock.stack["driver"].version
        module = self.host.module
        if module is None or (not module.loaded and self.before and self.before.module and self.before.module.loaded):
            if self.before and self.before.module:
                yield self._module(
                    expected, "", "no kernel module of the driver is loaded; the lock has", "modprobe nvidia"
                )
            return
        if module.loaded and module.version and not _is_same(expected, module.version):
            yield self._module(
                expected,
                module.version,
                f"the loaded kernel module is {module.version}; the lock has",
                "reboot to load the module on the disk",
                reboot=True,
            )

    def _module(self, expected: str, found: str, message: str, cure: str, *, reboot: bool = False) -> Drift:
        return Drift(
            kind="module",
            what="nvidia",
            expected=expected,
            found=found,
            message=f"{message} {expected}",
            cure=cure,
            reboot=reboot,
        )

    def kernel(self) -> Iterator[Drift]:
        """The kernel that boots next: modules are built for a specific one."""
        if self.before is None or "driver" not in self.lock.stack:
            return
        expected = self.before.next_kernel or self.before.kernel
        found = self.host.next_kernel or self.host.kernel
        if expected and found and expected != found:
            headers = any(one.id in {"headers_missing", "kernel_headers_missing"} for one in self.host.problems)
            too_new = next((one for one in self.host.problems if one.id == "kernel_too_new"), None)
            yield Drift(
                kind="kernel",
                what="kernel",
                expected=expected,
                found=found,
                message=f"the kernel that boots next is {found}; the driver was installed for {expected}"
                + (f"; {too_new.message}" if too_new else ""),
                cure=too_new.fix
                if too_new and too_new.fix
                else ("install its headers, then " if headers else "")
                + f"`dkms autoinstall -k {found}` or `{self.install}`, then reboot and `gpustack verify driver`",
                reboot=True,
            )

    def holds(self) -> Iterator[Drift]:
        """Packages that were held and no longer are."""
        for name in self.before.holds if self.before else ():
            if name not in self.host.holds:
                yield Drift(
                    kind="hold",
                    what=name,
                    expected="held",
                    found="",
                    message=f"{name} is no longer held: the next upgrade may replace it",
                    cure=_HOLD.get(self.host.os.family or "", "hold {} again").format(name),
                )

    def copies(self) -> Iterator[Drift]:
        """Another copy of a library or program that now comes first."""
        if self.before is None:
            return
        former = {(one.component, one.soname): one for one in self.before.copies if one.wins}
        for copy in (one for one in self.host.copies if one.wins):
            old = former.get((copy.component, copy.soname))
            if old is not None and old.path != copy.path:
                yield Drift(
                    kind="copy",
                    what=copy.component,
                    expected=old.path,
                    found=copy.path,
                    message=f"{_called(copy)} is taken from {copy.path} first; the lock has {old.path}",
                    cure=_unshadow(copy),
                )

    def repositories(self) -> Iterator[Drift]:
        """Package sources that are gone, disabled, or changed in address or key."""
        now = {one.path: one for one in self.host.repositories}
        for old in self.before.repositories if self.before else ():
            new = now.get(old.path)
            if new == old:
                continue
            if new is None:
                how = "is gone"
            elif new.enabled != old.enabled:
                how = "is now enabled" if new.enabled else "is switched off"
            elif new.url != old.url:
                how = f"leads to {new.url} and not to {old.url}"
            else:
                how = f"is checked by {new.signed_by or 'no key of its own'} and not by {old.signed_by or 'none'}"
            yield Drift(
                kind="repository",
                what=old.path,
                expected=old.url,
                found=new.url if new else "",
                message=f"the package source {old.path} {how}",
                cure=self.install,
            )

    def _find_moved(self) -> list[LockedPackage]:
        known = [one for one in self.lock.packages if one.kind != "wheel" and one.name in self.packages]
        return [one for one in known if not _is_at(one.version, self.packages[one.name])]

    def _explains(self, package: LockedPackage, installed: Installed) -> bool:
        """Whether a changed package explains another version of a component."""
        return package.name in installed.packages

    def _is_of_driver(self, package: LockedPackage) -> bool:
        driver = (self.before or self.host).installed.get("driver")
        return driver is not None and package.name in driver.packages

    def _is_loaded(self) -> bool:
        return self.host.module is not None and self.host.module.loaded

    def _cure_of(self, package: LockedPackage) -> str:
        return self.install + ("" if self.packages.get(package.name) else f"{REINSTALLS}{package.name})")


_HOLD = {
    "apt": "apt-mark hold {}",
    "dnf": "dnf versionlock add '{}'",
    "yum": "yum versionlock add '{}'",
    "zypper": "zypper addlock {}",
}


def _is_at(wanted: str, found: str) -> bool:
    """Whether a package has the version in the lock, which for a mere plan may lack epoch and release."""
    plain = found if ":" in wanted else found.rpartition(":")[2]
    return plain == wanted or ("-" not in wanted and plain.startswith(f"{wanted}-"))


def _is_same(longer: str, shorter: str | None) -> bool:
    return shorter is not None and (
        longer == shorter or longer.startswith(f"{shorter}.") or shorter.startswith(f"{longer}.")
    )


def _called(copy: Copy) -> str:
    return copy.soname or copy.component


def _unshadow(copy: Copy) -> str:
    if copy.owner:
        return f"remove {copy.owner}, or take its folder off the path, then `ldconfig`"
    return f"no package owns {copy.path}: move it away, then `ldconfig`"
