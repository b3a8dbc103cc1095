"""Each error code of CUDA and of NVML that the facts explain, with its whole text on a machine and in a container."""

from __future__ import annotations

import pytest

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Copy, Environment, Host
from gpustack.verify.cuda.errors import explained
from gpustack.verify.declare import Context
from gpustack.verify.driver.nvml import Health
from gpustack.verify.driver.smoke_modes import unreadable


@pytest.fixture(scope="module")
def facts() -> Matrix:
    return load_matrix()


def on(facts: Matrix, environment: Environment) -> Context:
    return Context(host=Host(environment=environment), matrix=facts)


CUDA = [
    (
        2,
        "error 2 (CUDA_ERROR_OUT_OF_MEMORY): the GPU has no memory left for a context: other programs hold it",
        "see who holds it with `nvidia-smi`, and end what is not needed",
        "",
    ),
    (
        3,
        "error 3 (CUDA_ERROR_NOT_INITIALIZED): the driver library could not be initialised, mostly because its device files cannot be opened",
        "`ls -l /dev/nvidia*`; `sudo nvidia-modprobe -c 0 -u` makes them",
        "start the container with `--gpus all`",
    ),
    (
        34,
        "error 34 (CUDA_ERROR_STUB_LIBRARY): the libcuda that was loaded is the toolkit's stub, which is for linking only",
        "take the toolkit's folder `stubs` out of LD_LIBRARY_PATH and /etc/ld.so.conf.d",
        "",
    ),
    (
        35,
        "error 35 (cudaErrorInsufficientDriver): the driver is older than the CUDA runtime of the program, or no driver library was found at all",
        "`gpustack install driver`, or build with an older toolkit; `gpustack verify cuda` says which go together",
        "on the machine below the container: install a newer driver; or take an image with an older CUDA",
    ),
    (
        46,
        "error 46 (CUDA_ERROR_DEVICE_UNAVAILABLE): the GPU takes no new context: it is in exclusive or prohibited compute mode, or MIG has no instance",
        "`nvidia-smi -q -d COMPUTE` shows the mode, `sudo nvidia-smi -c 0` sets the default; with MIG on, `nvidia-smi mig -lgi` lists the instances",
        "",
    ),
    (
        100,
        "error 100 (CUDA_ERROR_NO_DEVICE): the driver is there but shows CUDA no GPU: none came up, or all are hidden",
        "look at CUDA_VISIBLE_DEVICES, then for RmInitAdapter lines in `sudo dmesg`",
        "start the container with `--gpus all`, and look at CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES",
    ),
    (
        101,
        "error 101 (CUDA_ERROR_INVALID_DEVICE): the GPU asked for is not among those that CUDA sees",
        "look at CUDA_VISIBLE_DEVICES; with MIG on, name an instance by its UUID",
        "",
    ),
    (
        200,
        "error 200 (CUDA_ERROR_INVALID_IMAGE): the program holds no valid code for this GPU",
        "build it for this GPU's compute capability",
        "",
    ),
    (
        209,
        "error 209 (CUDA_ERROR_NO_BINARY_FOR_GPU): the program holds no code for this GPU's compute capability: it is newer or older than what it was built for",
        "build it for this GPU, or take a release of it that knows the GPU",
        "",
    ),
    (
        214,
        "error 214 (CUDA_ERROR_ECC_UNCORRECTABLE): the GPU's memory had an error that could not be corrected",
        "end all programs and reset it (`sudo nvidia-smi --gpu-reset -i N`); if it comes back, have it replaced",
        "",
    ),
    (
        218,
        "error 218 (CUDA_ERROR_INVALID_PTX): the driver could not compile the program's PTX for this GPU",
        "build it for this GPU's compute capability with a toolkit that knows it",
        "",
    ),
    (
        222,
        "error 222 (CUDA_ERROR_UNSUPPORTED_PTX_VERSION): the program's PTX is from a newer toolkit than the driver knows",
        "`gpustack install driver`, or build machine code for this GPU instead of PTX",
        "on the machine below the container: install a newer driver; or take an image with an older CUDA",
    ),
    (
        304,
        "error 304 (CUDA_ERROR_OPERATING_SYSTEM): a call to the operating system failed, mostly for want of rights on /dev/nvidia*",
        "`ls -l /dev/nvidia*`; `ulimit -a`",
        "",
    ),
    (
        719,
        "error 719 (CUDA_ERROR_LAUNCH_FAILED): the GPU stopped the program with an error",
        "look for NVRM and Xid lines in `sudo dmesg`",
        "",
    ),
    (
        800,
        "error 800 (CUDA_ERROR_NOT_PERMITTED): the driver does not permit this here",
        "look at the container's or the cgroup's device rules",
        "",
    ),
    (
        802,
        "error 802 (CUDA_ERROR_SYSTEM_NOT_READY): the GPUs hang on NVSwitches, and the fabric manager that sets these up has not done so",
        "`systemctl status nvidia-fabricmanager`: it has to run, in the driver's exact version (`gpustack install fabric-manager`)",
        "on the machine below the container: `systemctl status nvidia-fabricmanager` has to show it running, in the driver's exact version",
    ),
    (
        803,
        "error 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH): the kernel module and the driver library are of different versions: one was replaced under the other",
        "`sudo reboot`; if they still differ, reinstall the driver from one origin",
        "remove driver libraries from the image: they have to come from the machine below it",
    ),
    (
        804,
        "error 804 (CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE): a forward compatibility libcuda is loaded, and this GPU (no data-centre GPU) or this driver does not allow it",
        "take the package cuda-compat or its folder off the loader path, and install a newer driver",
        "on the machine below the container: install a newer driver; or take an image with an older CUDA, so that its cuda-compat is not needed",
    ),
    (
        805,
        "error 805 (CUDA_ERROR_MPS_CONNECTION_FAILED): CUDA_MPS_PIPE_DIRECTORY or a running MPS control daemon is there, but its server does not answer",
        "`echo quit | nvidia-cuda-mps-control`, or unset CUDA_MPS_PIPE_DIRECTORY",
        "",
    ),
    (
        999,
        "error 999 (CUDA_ERROR_UNKNOWN): the driver failed without saying why: mostly nvidia_uvm is not loaded or cannot be opened, as after waking from sleep",
        "`sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm`; look for NVRM and Xid lines in `sudo dmesg`",
        "the container lacks /dev/nvidia-uvm: start it anew with `--gpus all`",
    ),
]


@pytest.mark.parametrize(("code", "cause", "fix", "inside"), CUDA, ids=[str(row[0]) for row in CUDA])
def test_a_code_of_cuda(facts: Matrix, code: int, cause: str, fix: str, inside: str) -> None:
    assert explained(code, on(facts, "bare-metal")) == (cause, fix)
    assert explained(code, on(facts, "container")) == (cause, inside or fix)


def test_no_two_codes_have_one_text(facts: Matrix) -> None:
    """github.com/gpustack/gpustack issue 1254: two users, two codes, one hint."""
    causes = [explained(row[0], on(facts, "bare-metal"))[0].partition(": ")[2] for row in CUDA]
    assert len(set(causes)) == len(causes) == len(facts.rows("driver-errors", "cuda", dict))


def test_a_code_that_no_fact_explains(facts: Matrix) -> None:
    assert explained(888, on(facts, "bare-metal"), "CUDA_ERROR_NEW") == (
        "error 888 (CUDA_ERROR_NEW)",
        "look for NVRM and Xid lines in `sudo dmesg`",
    )


def test_the_forward_compatibility_library_is_named(facts: Matrix) -> None:
    copy = Copy(component="cuda-compat", path="/usr/local/cuda/compat/libcuda.so.1", soname="libcuda.so.1", wins=True)
    context = Context(host=Host(environment="bare-metal", copies=(copy,)), matrix=facts)
    assert explained(804, context)[0].endswith("; it is /usr/local/cuda/compat/libcuda.so.1")


NVML = [
    (4, "this user may not ask the driver", "run it with `sudo`, or look at the rights of /dev/nvidia*"),
    (8, "the power cables of a board are not attached as they should be", "connect them"),
    (
        9,
        "the kernel module is not loaded, or there is no GPU that it drives",
        "`sudo modprobe nvidia`; then look for RmInitAdapter lines in `sudo dmesg`",
    ),
    (
        11,
        "the kernel does not get the GPU's interrupts",
        "look for NVRM lines in `sudo dmesg`; look at MSI and ACPI settings of the firmware",
    ),
    (12, "libnvidia-ml.so.1 is missing", "`gpustack install driver`; in a container, start it with `--gpus all`"),
    (14, "the memory that holds the board's settings is damaged", "have the board's vendor write it anew"),
    (15, "a GPU fell off the bus", "look for its Xid 79 line in `sudo dmesg`; only a cold start brings it back"),
    (
        16,
        "a GPU has to be reset before it can be used again",
        "end all programs, then `sudo nvidia-smi --gpu-reset -i N`, or reboot",
    ),
    (
        17,
        "the operating system keeps this process from the GPU's device file, as a container's device rules do",
        "in a container, start it anew with `--gpus all`; after `systemctl daemon-reload` too",
    ),
    (
        18,
        "the kernel module and the driver libraries are of different versions: one was replaced under the other",
        "a reboot cures this: `sudo reboot`",
    ),
]


@pytest.mark.parametrize(("code", "cause", "fix"), NVML, ids=[str(row[0]) for row in NVML])
def test_a_code_of_nvml(facts: Matrix, code: int, cause: str, fix: str) -> None:
    outcome = unreadable(on(facts, "bare-metal"), Health(error="Words of NVML", code=code))
    assert outcome is not None
    assert (outcome.status, outcome.reason, outcome.fix) == ("fail", f"NVML says 'Words of NVML': {cause}", fix)


def test_every_code_of_nvml_that_is_explained_is_here(facts: Matrix) -> None:
    assert [row[0] for row in NVML] == [row["code"] for row in facts.rows("driver-errors", "nvml", dict)]
