"""Secure Boot: modules that the kernel refuses, whose key signed them, and whether the firmware knows that key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.problems import cures
from gpustack.detect.problems.builds import rebuild
from gpustack.detect.problems.kernels import BUILT_PACKAGES, OWN_KERNEL
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.detect.setup import EFIVARS

_REFUSED = (
    r"Key was rejected by service|Loading of unsigned module is rejected|"
    r"Loading of module with unavailable key is rejected|Lockdown: \S+: unsigned module loading is restricted"
)
_SHOWN, _DIGITS = 200, 16
"""The most characters of a log's line, and of the id of a key, that are shown."""

_BUILT_HERE = r"/lib/modules/[^/]+/(?:updates|extra|misc|kernel/drivers/video/)"


@detects("secure_boot_unsigned")
def secure_boot(scene: Scene) -> Iterator[Finding]:
    """A module that Secure Boot refuses, now or after the reboot into the next kernel."""
    if scene.environment in OWN_KERNEL or scene.secure_boot is False:
        return
    refused = _refusal(scene)
    if not (scene.secure_boot or refused):
        return
    loaded = scene.driver_is_loaded
    for kernel in dict.fromkeys((scene.kernel, scene.next_kernel)):
        if kernel is None or (loaded and kernel == scene.kernel):
            continue
        state, key = _signature(scene, kernel)
        why = _why(scene, kernel, state, key, refused)
        if kernel == scene.kernel and "unavailable key" in refused and key in (_firmware_keys(scene) or ()):
            yield _untrusting(kernel, refused)
            return
        if why:
            line = f": {refused}" if refused and kernel == scene.kernel else ""
            yield Finding(
                message=f"Secure Boot is enabled and the nvidia module of kernel {kernel} {why}: the kernel refuses "
                f"it (Key was rejected by service){line}",
                fix=_enrolment(scene, kernel, state, key),
                reboot=True,
            )
            return


def _untrusting(kernel: str, refused: str) -> Finding:
    """A kernel that refuses a module although its key is enrolled."""
    return Finding(
        message=f"Secure Boot is enabled and the nvidia module of kernel {kernel} is signed by a key that is enrolled, "
        f"and the kernel refuses it still: it takes no modules by the firmware's or shim's keys: {refused}",
        fix=f"`sudo modprobe nvidia` shows whether that lasts; a kernel that trusts enrolled keys has "
        f"CONFIG_INTEGRITY_MACHINE_KEYRING=y (`grep INTEGRITY_ /boot/config-{kernel}`): boot the distribution's own "
        "kernel, or switch Secure Boot off",
        reboot=True,
        sources=("https://github.com/deepin-community/kernel/issues/2144",),
    )


def _refusal(scene: Scene) -> str:
    """The first line of the kernel's log that refuses a module of the driver's."""
    commands = (one.out for name, one in scene.evidence.commands.items() if name in {"dmesg", "journalctl"})
    logs = (text for path, text in sorted(scene.evidence.files.items()) if path.startswith("/var/log/"))
    refusing = (text for text in (*logs, *commands) if re.search(_REFUSED, text))
    lines = [line.strip() for text in refusing for line in text.splitlines() if re.search(_REFUSED, line)]
    return next((line for line in lines if "nvidia" in line), lines[0] if lines else "")[:_SHOWN]


def _signature(scene: Scene, kernel: str) -> tuple[str, str]:
    """How the module of a kernel is signed ("signed", "unsigned", "trusted", "" unknown), and the id of the key."""
    head = f"/lib/modules/{kernel}/"
    for path, mark in scene.evidence.marks.items():
        if path.startswith(head) and re.search(r"/nvidia\.ko(?:\.\w+)?$", path) and not mark.startswith("unread"):
            words = mark.split()
            key = words[2] if words[:2] == ["signed", "by"] else ""
            known = words[-1] == "trusted" or (words[0] == "signed" and not re.match(_BUILT_HERE, path))
            return "trusted" if known else words[0], key
    told = scene.evidence.output("modinfo -F sig_key nvidia") or ""
    if kernel == scene.kernel and told.strip():
        return "signed", re.sub(r"^(?:00)+", "", told.strip().replace(":", "").upper())
    return "", ""


def _firmware_keys(scene: Scene) -> set[str] | None:
    """The ids of the certificates that the firmware knows; None where they cannot be read."""
    marks = {path: mark for path, mark in scene.evidence.marks.items() if path.startswith(EFIVARS)}
    lists = [mark.split()[1:] for mark in marks.values() if mark.startswith("holds")]
    if not any("/MokListRT" in path for path in marks) and _has_shim(scene) is not False:
        return None
    return {one for ids in lists for one in ids}


def _has_shim(scene: Scene) -> bool | None:
    """Whether shim started this system: it leaves its list of keys; None where the variables were not seen."""
    names = scene.evidence.listings.get(EFIVARS)
    return any(name.startswith("MokListRT") for name in names) if names else None


def _key_files(scene: Scene) -> dict[str, set[str]]:
    return {
        path: set(mark.split()[1:]) for path, mark in scene.evidence.marks.items() if mark.startswith("certificate ")
    }


def _why(scene: Scene, kernel: str, state: str, key: str, refused: str) -> str:
    """Why the kernel will refuse the module, "" where nothing says so."""
    if state == "unsigned":
        return "is unsigned"
    known = _firmware_keys(scene)
    if state == "trusted" or key in (known or ()):
        return ""
    owner = next((path for path, ids in _key_files(scene).items() if key in ids), "")
    if key and (known is not None or refused):
        return (
            f"is signed by the key of {owner}, which is not enrolled"
            if owner
            else (f"is signed by the key {key[:_DIGITS]}, which is not enrolled")
        )
    signer = scene.module.signer if scene.module is not None else None
    built = scene.installed(BUILT_PACKAGES) and scene.evidence.has("/proc/modules") and kernel == scene.kernel
    if refused or (not state and signer is None and built):
        return "is not loaded, and its signing key may not be enrolled"
    return ""


def _enrolment(scene: Scene, kernel: str, state: str, key: str) -> str:
    """How the firmware gets to know the key that modules are signed with here."""
    files = _key_files(scene)
    path = next((path for path, ids in files.items() if key in ids), next(iter(files), ""))
    names = scene.evidence.listings.get(EFIVARS, ())
    again = f"{rebuild(scene, kernel)}, which signs it; " if state == "unsigned" else ""
    if state == "unsigned" and cures.is_image(scene) and scene.installed("akmod-nvidia.*"):
        again = (
            "rpm-ostree builds the module in a sandbox without this system's key: layer the key as a package "
            "(github.com/CheariX/silverblue-akmods-keys), which makes rpm-ostree sign the next build; "
        )
    if _has_shim(scene) is False:
        return (
            f"{again}this system starts without shim, so a MOK has no effect: add {path or 'the signing certificate'} "
            "to the key list db in the firmware's setup, or start through the distribution's shim"
        )
    if any(name.startswith("MokNew-") for name in names):
        return (
            f"{again}the key already waits for its enrolment: reboot, and on the console (of a virtual machine: its "
            "serial or graphical console) choose 'Enroll MOK' and give the password that was set"
        )
    row = _row(scene)
    if not path and scene.installed("akmod-nvidia.*"):
        path = str(row.get("akmods", ""))
        if not cures.is_image(scene):
            again = f"`sudo kmodgenca --auto`, `sudo akmods --force --rebuild`, then {again}"
    path = path or str(row.get("key", ""))
    if not path:
        return str(row.get("action") or "install the distribution's signed modules")
    return (
        f"{again}{cures.command('mokutil', '--import', path)}, then reboot, and confirm the enrolment ('Enroll MOK') "
        "on the console; or install the distribution's signed modules"
    )


def _row(scene: Scene) -> dict[str, object]:
    by_name = {name: row for row in scene.matrix.rows("preparation", "secure_boot", dict) for name in row["systems"]}
    base = re.sub(r"[\d.]+$", "", scene.os.base or "")
    names = filter(None, (scene.os.system, scene.os.id, base, scene.os.family))
    return next((by_name[name] for name in names if name in by_name), {})
