"""What CUDA's error codes mean to whoever has to mend the host: each with a cause and a cure of its own."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.host import Host
from gpustack.verify import view


class Meaning(Struct, frozen=True, kw_only=True):
    """A code's name, its cause, and what mends it on a machine; ``inside`` is the cure in a container, if another."""

    name: str
    cause: str
    fix: str
    inside: str = ""


_DMESG = "look for NVRM and Xid lines in `sudo dmesg`"
_ON_HOST = "on the machine below the container: "

MEANINGS: dict[int, Meaning] = {
    2: Meaning(
        name="CUDA_ERROR_OUT_OF_MEMORY",
        cause="the GPU has no memory left for a context: other programs hold it",
        fix="see who holds it with `nvidia-smi`, and end what is not needed",
    ),
    3: Meaning(
        name="CUDA_ERROR_NOT_INITIALIZED",
        cause="the driver library could not be initialised, mostly because its device files cannot be opened",
        fix="`ls -l /dev/nvidia*`; `sudo nvidia-modprobe -c 0 -u` makes them",
        inside="start the container with `--gpus all`",
    ),
    34: Meaning(
        name="CUDA_ERROR_STUB_LIBRARY",
        cause="the libcuda that was loaded is the toolkit's stub, which is for linking only",
        fix="take the toolkit's folder `stubs` out of LD_LIBRARY_PATH and /etc/ld.so.conf.d",
    ),
    35: Meaning(
        name="cudaErrorInsufficientDriver",
        cause="the driver is older than the CUDA runtime of the program, or no driver library was found at all",
        fix="`gpustack install driver`, or build with an older toolkit; `gpustack verify cuda` says which go together",
        inside=f"{_ON_HOST}install a newer driver; or take an image with an older CUDA",
    ),
    46: Meaning(
        name="CUDA_ERROR_DEVICE_UNAVAILABLE",
        cause="the GPU takes no new context: it is in exclusive or prohibited compute mode, or MIG has no instance",
        fix="`nvidia-smi -q -d COMPUTE` shows the mode, `sudo nvidia-smi -c 0` sets the default; with MIG on,"
        " `nvidia-smi mig -lgi` lists the instances",
    ),
    100: Meaning(
        name="CUDA_ERROR_NO_DEVICE",
        cause="the driver is there but shows CUDA no GPU: none came up, or all are hidden",
        fix="look at CUDA_VISIBLE_DEVICES, then for RmInitAdapter lines in `sudo dmesg`",
        inside="start the container with `--gpus all`, and look at CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES",
    ),
    101: Meaning(
        name="CUDA_ERROR_INVALID_DEVICE",
        cause="the GPU asked for is not among those that CUDA sees",
        fix="look at CUDA_VISIBLE_DEVICES; with MIG on, name an instance by its UUID",
    ),
    200: Meaning(
        name="CUDA_ERROR_INVALID_IMAGE",
        cause="the program holds no valid code for this GPU",
        fix="build it for this GPU's compute capability",
    ),
    209: Meaning(
        name="CUDA_ERROR_NO_BINARY_FOR_GPU",
        cause="the program holds no code for this GPU's compute capability: it is newer or older than what it was"
        " built for",
        fix="build it for this GPU, or take a release of it that knows the GPU",
    ),
    214: Meaning(
        name="CUDA_ERROR_ECC_UNCORRECTABLE",
        cause="the GPU's memory had an error that could not be corrected",
        fix="end all programs and reset it (`sudo nvidia-smi --gpu-reset -i N`); if it comes back, have it replaced",
    ),
    218: Meaning(
        name="CUDA_ERROR_INVALID_PTX",
        cause="the driver could not compile the program's PTX for this GPU",
        fix="build it for this GPU's compute capability with a toolkit that knows it",
    ),
    222: Meaning(
        name="CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        cause="the program's PTX is from a newer toolkit than the driver knows",
        fix="`gpustack install driver`, or build machine code for this GPU instead of PTX",
        inside=f"{_ON_HOST}install a newer driver; or take an image with an older CUDA",
    ),
    304: Meaning(
        name="CUDA_ERROR_OPERATING_SYSTEM",
        cause="a call to the operating system failed, mostly for want of rights on /dev/nvidia*",
        fix="`ls -l /dev/nvidia*`; `ulimit -a`",
    ),
    719: Meaning(
        name="CUDA_ERROR_LAUNCH_FAILED",
        cause="the GPU stopped the program with an error",
        fix=_DMESG,
    ),
    800: Meaning(
        name="CUDA_ERROR_NOT_PERMITTED",
        cause="the driver does not permit this here",
        fix="look at the container's or the cgroup's device rules",
    ),
    802: Meaning(
        name="CUDA_ERROR_SYSTEM_NOT_READY",
        cause="the GPUs hang on NVSwitches, and the fabric manager that sets these up has not done so",
        fix="`systemctl status nvidia-fabricmanager`: it has to run, in the driver's exact version"
        " (`gpustack install fabric-manager`)",
        inside=f"{_ON_HOST}`systemctl status nvidia-fabricmanager` has to show it running, in the driver's exact"
        " version",
    ),
    803: Meaning(
        name="CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        cause="the kernel module and the driver library are of different versions: one was replaced under the other",
        fix="`sudo reboot`; if they still differ, reinstall the driver from one origin",
        inside="remove driver libraries from the image: they have to come from the machine below it",
    ),
    804: Meaning(
        name="CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        cause="a forward compatibility libcuda is loaded, and this GPU (no data-centre GPU) or this driver does not"
        " allow it",
        fix="take the package cuda-compat or its folder off the loader path, and install a newer driver",
        inside=f"{_ON_HOST}install a newer driver; or take an image with an older CUDA, so that its cuda-compat is"
        " not needed",
    ),
    805: Meaning(
        name="CUDA_ERROR_MPS_CONNECTION_FAILED",
        cause="CUDA_MPS_PIPE_DIRECTORY or a running MPS control daemon is there, but its server does not answer",
        fix="`echo quit | nvidia-cuda-mps-control`, or unset CUDA_MPS_PIPE_DIRECTORY",
    ),
    999: Meaning(
        name="CUDA_ERROR_UNKNOWN",
        cause="the driver failed without saying why: mostly nvidia_uvm is not loaded or cannot be opened, as after"
        " waking from sleep",
        fix=f"`sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm`; {_DMESG}",
        inside="the container lacks /dev/nvidia-uvm: start it anew with `--gpus all`",
    ),
}


def explained(code: int, host: Host, name: str = "") -> tuple[str, str]:
    """Cause and cure of an error code on this host."""
    meaning = MEANINGS.get(code)
    if meaning is None:
        return f"error {code}{f' ({name})' if name else ''}", _DMESG
    cure = meaning.inside if host.environment == "container" and meaning.inside else meaning.fix
    told = f"error {code} ({meaning.name}): {meaning.cause}"
    compat = view.compat_library(host)
    if code == 804 and compat is not None:
        told += f"; it is {compat.path}"
    return told, cure
