"""Faults without an error code in the lines of the kernel, X, installers and Jetson's services."""

from __future__ import annotations

from gpustack.detect.bus import ABOVE
from gpustack.detect.parse.pci import BASE
from gpustack.detect.problems.builds import OWN_HEADER
from gpustack.detect.problems.phrases import Cause, Phrase, said
from gpustack.detect.scene import Scene
from gpustack.patterns import later

ABOUT = later(
    r"pciehp|nv_queue|nobody cared.*nvidia|\bnv_\w+|nvargus|Argus|NvBuf|nvbufsurface|nvv4l2|nvmap|nvgpu|\btegra|"
    r"GLX X_GLX|Failed to enter VT|modesetting permission|Lockdown: modprobe|diversion of|DEST_MODULE_LOCATION|"
    r"find any GPUs|KMS update|nvidia-fs|will not replace this module|version[- ]check failed|drm master|"
    rf"\(gcc. was not found in the /proc/version|{OWN_HEADER}: No such file"
)
"""Lines about such faults that need not name NVIDIA."""

_SLOT = later(r"(?P<place>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)?.*pciehp.*(?:Link Down|Card not present)")
_ROWS: tuple[Phrase, ...] = (
    (r"task \S*(?:nv|Xorg|gnome-shell|kwin|UVM|modprobe)\S* blocked for more|soft lockup.*\[(?:nv|UVM|irq/\d+-nv)",
     "a task hangs inside the driver: the GPU, or its system processor (GSP), does not answer",
     ("`sudo dmesg | grep -E 'NVRM|Xid'` tells what came before; switch the machine off and on again; another driver "
     "release where it comes back (`gpustack plan driver`)"), True),
    (r"irq \d+: nobody cared.*nvidia", "nobody handles the GPU's interrupts: the kernel switched them off",
     "NVreg_EnableMSI=1 for the module nvidia; update the firmware, and take pci=nomsi off the command line", True),
    (r"WARNING: CPU.*\bnv|BUG: unable to handle.*nvidia|NULL pointer.*nvidia|Oops.*nvidia",
     "the kernel reports a fault inside NVIDIA's module: a defect of this pair of driver and kernel",
     "another driver release or kernel: `gpustack plan driver`; `gpustack detect` names pairs that are known", False),
    (r"version magic '(?P<a>[^' ]+).*should be '(?P<b>[^' ]+)",
     "the module was built for kernel {a}, and {b} runs",
     "`sudo dkms autoinstall` with the headers of the running kernel; or boot the other kernel", True),
    (r"Lockdown: modprobe: unsigned module",
     "Secure Boot locks the kernel down, and the module is not signed with a key that it trusts",
     "`gpustack plan driver` names how to sign and enroll; or switch Secure Boot off in the firmware", True),
    (r"nouveau .*(?:init failed|failed to load|unknown chipset|MMIO|Unknown|DRM: .*fail|probe .*failed)",
     "nouveau, the kernel's own driver, does not start this GPU: it lacks firmware or support for it",
     "`gpustack plan driver` installs NVIDIA's driver, and keeps nouveau from the GPU", False),
    (r"No NVIDIA GPU found", "the driver found no NVIDIA GPU on the bus: it is gone, switched off, or held by another",
     "`lspci -nnk -d 10de:` shows GPU and bound driver; laptops: the mode of supergfxctl, envycontrol or the firmware",
     True),
    (r"NVRM.*Assertion failed|nvAssert", ("a check inside the driver failed: alone it is harmless, with an Xid or "
     "RmInitAdapter next to it a defect of this release"), "`sudo dmesg | grep -E 'Xid|RmInit'`", False),
    (r"Power Source change event", "a laptop's change between battery and mains was not handled: harmless alone",
     "update the firmware where clocks stay low on mains", False),
    (r"modesetting permission", "another program holds the display: a second X server, a session or the console",
     "end the other session; `sudo fuser -v /dev/dri/card*` names it", True),
    (r"Failed to enter VT", "X did not get its mode back after a change of the console",
     "restart the login screen; nvidia-drm.modeset=1 and NVreg_PreserveVideoMemoryAllocations=1 keep the state", True),
    (r"find any GPUs", "a compositor finds no GPU that it can draw on",
     "nvidia-drm.modeset=1, and the user in the groups video and render; `ls -l /dev/dri`", True),
    (r"KMS update.*(?:Invalid argument|denied|failed)|KMS.*drmMode",
     "the compositor's changes of the display were refused by nvidia-drm",
     "another driver release or compositor release; one monitor at a time shows which mode is refused", False),
    (r"X Error of failed request.*GLX|GLX X_GLX", ("a program's OpenGL is not the driver's: 32-bit libraries, or those "
     "of a container or snap, are missing or of another release"),
     "install the driver's libraries for that program's architecture in the same release", True),
    (r"nvbufsurface|NvBufSurf|EGLImage", "a Jetson program got no EGL display for its buffers",
     "unset DISPLAY on boards without a monitor, or start it in the desktop's session", True),
    (r"Argus|nvargus", "the Jetson's camera service does not get pictures",
     "`sudo systemctl restart nvargus-daemon`; check the camera's cable and its device tree overlay", True),
    (r"nvidia-fs driver is not loaded|nvidia-fs.*not loaded", ("GPUDirect Storage runs in its slow mode: nvidia-fs is "
     "not loaded"), "`sudo modprobe nvidia-fs`; `gpustack plan gds` installs it", True),
    (r"chvt: command not found", "suspend does not work: nvidia-sleep.sh needs chvt, which is not installed",
     "install the package kbd", True),
    (r"diversion of .*clashes|diversion of .*by", ("dpkg's diversions of graphics libraries clash: a driver of other "
     "packages, or an earlier one, left its own"), "`dpkg-divert --list '*nvidia*'` names them",
     True),
    (r"DEST_MODULE_LOCATION|BUILT_MODULE_NAME", "a dkms.conf of the driver is broken or left over",
     "`dkms status`; remove that version with `sudo dkms remove` and reinstall the driver's package", True),
    (r"nv_pmops\w+.*return(?:s|ed) -\d|failed to (?:quiesce|suspend) async",
     "the driver refused to suspend or to hibernate: it did not save the GPU's state",
     ("enable nvidia-suspend, nvidia-resume and nvidia-hibernate; take nvidia out of the initramfs where hibernation "
     "does not resume; stop programs that use CUDA first"), True),
    (r"will not replace this module", "dkms kept the module that was there in the same version: harmless",
     "`sudo dkms install --force` replaces it where it is broken", True),
    (r"\*ERROR\* \[nvidia-drm\]", "nvidia-drm reports a failure of the display: the picture can freeze or stay black",
     "another driver release (`gpustack plan driver`); nvidia-drm.modeset=1 and, from 550 on, fbdev=1", True),
    (r"kernel module missing. Falling back", ("Fedora's service nvidia-fallback started nouveau, because no nvidia "
     "module is there for the kernel that started"), ("build it (`sudo akmods --force`, `sudo dkms autoinstall`) and "
     "wait for the build before the restart; with Secure Boot enroll its key"), True),
    (r"OptiX denoiser creation|OPTIX_ERROR|[Ff]ailed to load OptiX|nvoptix\.bin", ("OptiX does not start: a part of "
     "the driver (libnvoptix.so.1, libnvidia-rtcore, nvoptix.bin) is missing where the program runs, or older than it "
     "asks for"), ("install the driver's complete libraries in one release; a flatpak has its own (`flatpak update`); "
     "`gpustack plan driver` for a newer one"), True),
    (r"SXid.*Non-fatal", "an NVSwitch reports a link error that it recovers from: harmless alone",
     "look for a fatal SXid or an Xid near it (`sudo dmesg | grep -E 'SXid|Xid'`): that one counts", True),
    (r"version[- ]check failed|\(gcc. was not found in the /proc/version",
     ("the driver's build refuses this kernel: another gcc built it, or the check of an old driver cannot read which "
     "one did"), ("start the newest kernel of this system, which its gcc built; IGNORE_CC_MISMATCH=1 (.run file: "
     "--no-cc-version-check) skips the check at your own risk"), True),
    (rf"(?P<a>{OWN_HEADER}): No such file", ("the driver's own {a} is not found: kernels from 6.15 on no longer read "
     "EXTRA_CFLAGS, with which older drivers name the folders of their headers"),
     "`gpustack plan driver` chooses a release that builds on this kernel; old branches need a distribution's patches",
     True),
    (r"VM: invalid mmap", ("the driver refused to map memory for a program, most often a compositor or a program with "
     "libraries of another release: harmless where the picture stays"),
     "`gpustack detect` names libraries of other releases; another driver release (`gpustack plan driver`)", False),
    (r"drm master", ("a compositor did not get hold of the display: another session has it, seatd or logind does not "
     "run, or nvidia_drm runs without modeset"), ("`cat /sys/module/nvidia_drm/parameters/modeset` must be Y; "
     "`loginctl` shows the sessions"), True),
    (r"update-initramfs: failed", "the initramfs was not rebuilt: the next start has the old driver in it, or none",
     "`df -h /boot`; the lines before tell why; then `sudo update-initramfs -u -k all`", True),
)  # fmt: skip


def fault(scene: Scene, line: str) -> Cause | None:
    """The cause that the line of a fault has."""
    slot = _SLOT.search(line)
    if slot is not None:
        mine = f"{BASE}/{slot['place']}" in scene.evidence.marks if slot["place"] else False
        above = any(mark == ABOVE for mark in scene.evidence.marks.values())
        if above and not mine:
            return None
        return Cause(
            says="the slot above the GPU lost its link: an external GPU was unplugged, or its power or cable failed",
            fix="check cable, power and seating; an external GPU: connect it before the start, `boltctl list` shows it",
            sure=True,
        )
    return said(_ROWS, line)
