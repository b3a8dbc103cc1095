"""Each error code of CUDA and of NVML that the facts explain, with its whole text on a machine and in a container."""

from __future__ import annotations

import pytest

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Copy, Environment, Host
from gpustack.verify.cuda.errors import explain
from gpustack.verify.declare import Context
from gpustack.verify.driver.nvml import Health
from gpustack.verify.driver.smoke_modes import health_failure


@pytest.fixture(scope="module")
def facts() -> Matrix:
    return load_matrix()


def on(facts: Matrix, environment: Environment) -> Context:
    return Context(host=Host(environment=environment), matrix=facts)


CUDA = [
    (
        2,
        "error 2 (CUDA_ERROR_OUT_OF_MEMORY): the GPU has no free memory for a context: other programs use it",
        "list the programs with `nvidia-smi`, and stop those that are not needed",
        "",
    ),
    (
        3,
        "error 3 (CUDA_ERROR_NOT_INITIALIZED): the driver library could not be initialized, usually because its device files cannot be opened",
        "check `ls -l /dev/nvidia*`; create them with `sudo nvidia-modprobe -c 0 -u`",
        "start the container with `--gpus all`",
    ),
    (
        34,
        "error 34 (CUDA_ERROR_STUB_LIBRARY): the loaded libcuda is the toolkit's stub, which is for linking only",
        "remove the toolkit's folder `stubs` from LD_LIBRARY_PATH and /etc/ld.so.conf.d",
        "",
    ),
    (
        35,
        "error 35 (cudaErrorInsufficientDriver): the driver is too old for the CUDA runtime of the program, or no driver library was found",
        "`gpustack install driver`, or build with an older toolkit; `gpustack verify cuda` checks their compatibility",
        "where `nvidia-smi` does not run in it, start it with its GPUs (--gpus all; a pod: runtimeClassName: nvidia): without the driver's libcuda CUDA says the same; else install a newer driver on the container's host, or use an image with an older CUDA",
    ),
    (
        46,
        "error 46 (CUDA_ERROR_DEVICE_UNAVAILABLE): the GPU allows no new context: it is in exclusive or prohibited compute mode, MIG has no instance, or the GPU is to be reset after an Xid",
        "`nvidia-smi -q -d COMPUTE` shows the mode, `sudo nvidia-smi -c 0` sets the default; in MIG mode, `nvidia-smi mig -lgi` lists the instances; after an Xid (`sudo dmesg`) reset the GPU or reboot",
        "",
    ),
    (
        100,
        "error 100 (CUDA_ERROR_NO_DEVICE): the driver is installed but lists no GPU for CUDA: none started, or all are hidden",
        "check CUDA_VISIBLE_DEVICES, that nvidia_uvm is loaded (`sudo modprobe nvidia_uvm`), then `sudo dmesg` for RmInitAdapter messages; a service that found no GPU at boot and finds it after a restart starts too early: After=nvidia-persistenced.service in its unit",
        "start the container with `--gpus all`, and check CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES; one that had its"
        " GPUs before lost them when systemd set its device rules again (`systemctl daemon-reload`, an upgrade): restart it,"
        " and use CDI, or the cgroupfs driver in daemon.json",
    ),
    (
        101,
        "error 101 (CUDA_ERROR_INVALID_DEVICE): the requested GPU is not among those that CUDA lists",
        "check CUDA_VISIBLE_DEVICES; in MIG mode, select an instance by its UUID",
        "",
    ),
    (
        200,
        "error 200 (CUDA_ERROR_INVALID_IMAGE): the program has no valid code for this GPU",
        "build it for this GPU's compute capability",
        "",
    ),
    (
        209,
        "error 209 (CUDA_ERROR_NO_BINARY_FOR_GPU): the program has no code for this GPU's compute capability: it was built for newer or older GPUs",
        "build it for this GPU, or use a release that supports the GPU",
        "",
    ),
    (
        214,
        "error 214 (CUDA_ERROR_ECC_UNCORRECTABLE): the GPU's memory had an uncorrectable error",
        "stop all programs and reset the GPU (`sudo nvidia-smi --gpu-reset`); if the error recurs, replace the GPU",
        "",
    ),
    (
        218,
        "error 218 (CUDA_ERROR_INVALID_PTX): the driver could not compile the program's PTX for this GPU",
        "build it for this GPU's compute capability with a toolkit that supports it",
        "",
    ),
    (
        220,
        "error 220 (CUDA_ERROR_NVLINK_UNCORRECTABLE): a link between GPUs had an uncorrectable error",
        "stop all programs and reset the GPUs of that fabric, or reboot; `nvidia-smi nvlink -s` shows the links",
        "",
    ),
    (
        221,
        "error 221 (CUDA_ERROR_JIT_COMPILER_NOT_FOUND): the driver's compiler, libnvidia-ptxjitcompiler.so.1, is missing, so PTX cannot be run",
        "`gpustack install driver` installs all of the driver's libraries",
        "start the container with `--gpus all`, and with `compute` in NVIDIA_DRIVER_CAPABILITIES",
    ),
    (
        222,
        "error 222 (CUDA_ERROR_UNSUPPORTED_PTX_VERSION): the program's PTX is from a newer toolkit than the driver supports",
        "`gpustack install driver`, or build machine code for this GPU instead of PTX",
        "install a newer driver on the container's host, or use an image with an older CUDA",
    ),
    (
        223,
        "error 223 (CUDA_ERROR_JIT_COMPILATION_DISABLED): the driver is configured not to compile PTX",
        "unset CUDA_DISABLE_PTX_JIT",
        "",
    ),
    (
        304,
        "error 304 (CUDA_ERROR_OPERATING_SYSTEM): a call to the operating system failed, usually because of missing permissions on /dev/nvidia*",
        "check `ls -l /dev/nvidia*` and `ulimit -a`",
        "",
    ),
    (
        719,
        "error 719 (CUDA_ERROR_LAUNCH_FAILED): the GPU stopped the program with an error",
        "check `sudo dmesg` for NVRM and Xid messages",
        "",
    ),
    (
        800,
        "error 800 (CUDA_ERROR_NOT_PERMITTED): the driver does not permit this operation",
        "check the device rules of the container or cgroup",
        "",
    ),
    (
        802,
        "error 802 (CUDA_ERROR_SYSTEM_NOT_READY): the GPUs are attached to NVSwitches, and Fabric Manager has not initialized these",
        "check `systemctl status nvidia-fabricmanager`: it must run, in the driver's exact version (`gpustack install fabric-manager`)",
        "on the container's host, check `systemctl status nvidia-fabricmanager`: it must run, in the driver's exact version",
    ),
    (
        803,
        "error 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH): the kernel module and the driver library have different versions: the driver was upgraded without a reboot",
        "`sudo reboot`; if they still differ, reinstall the driver from one source",
        "remove driver libraries from the image: they must come from the container's host",
    ),
    (
        804,
        "error 804 (CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE): a forward compatibility libcuda is loaded, which this GPU (not a data-center product) or this driver does not support",
        "remove the package cuda-compat, or its folder from the loader's path, and install a newer driver",
        "install a newer driver on the container's host, or use an image with an older CUDA, so that its cuda-compat is not needed",
    ),
    (
        805,
        "error 805 (CUDA_ERROR_MPS_CONNECTION_FAILED): CUDA_MPS_PIPE_DIRECTORY is set or an MPS control daemon is running, but its server does not respond",
        "`echo quit | nvidia-cuda-mps-control`, or unset CUDA_MPS_PIPE_DIRECTORY",
        "give the container the daemon of the host: --ipc=host -v /tmp/nvidia-mps:/tmp/nvidia-mps and "
        "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps, as the user of the daemon; or start MPS inside it",
    ),
    (
        999,
        "error 999 (CUDA_ERROR_UNKNOWN): the driver failed without a reason; usually nvidia_uvm is not loaded or cannot be opened, for example after sleep mode",
        "`sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm`; check `sudo dmesg` for NVRM and Xid messages",
        "the container has no /dev/nvidia-uvm: restart it with `--gpus all`",
    ),
]


@pytest.mark.parametrize(("code", "cause", "fix", "inside"), CUDA, ids=[str(row[0]) for row in CUDA])
def test_a_code_of_cuda(facts: Matrix, code: int, cause: str, fix: str, inside: str) -> None:
    assert explain(code, on(facts, "bare-metal")) == (cause, fix)
    assert explain(code, on(facts, "container")) == (cause, inside or fix)


def test_no_two_codes_have_one_text(facts: Matrix) -> None:
    """github.com/gpustack/gpustack issue 1254: two users, two codes, one hint."""
    causes = [explain(row[0], on(facts, "bare-metal"))[0].partition(": ")[2] for row in CUDA]
    assert len(set(causes)) == len(causes) == len(facts.rows("driver-errors", "cuda", dict))


def test_a_code_that_no_fact_explains(facts: Matrix) -> None:
    assert explain(888, on(facts, "bare-metal"), "CUDA_ERROR_NEW") == (
        "error 888 (CUDA_ERROR_NEW)",
        "check `sudo dmesg` for NVRM and Xid messages",
    )


def test_the_forward_compatibility_library_is_named(facts: Matrix) -> None:
    copy = Copy(component="cuda-compat", path="/usr/local/cuda/compat/libcuda.so.1", soname="libcuda.so.1", wins=True)
    context = Context(host=Host(environment="bare-metal", copies=(copy,)), matrix=facts)
    assert explain(804, context)[0].endswith(" (/usr/local/cuda/compat/libcuda.so.1)")


NVML = [
    (
        4,
        "this user has no permission to query the driver",
        "run it with `sudo`, or check the permissions of /dev/nvidia*",
    ),
    (8, "the power cables of a board are not connected correctly", "connect them"),
    (
        9,
        "the kernel module is not loaded, or supports no GPU of this host",
        "`sudo modprobe nvidia`; then check `sudo dmesg` for RmInitAdapter messages",
    ),
    (
        11,
        "the kernel does not receive the GPU's interrupts",
        "check `sudo dmesg` for NVRM messages, and the MSI and ACPI settings of the firmware",
    ),
    (12, "libnvidia-ml.so.1 is missing", "`gpustack install driver`; in a container, start it with `--gpus all`"),
    (14, "the memory for the board's settings is damaged", "have the board's vendor rewrite it"),
    (15, "a GPU fell off the bus", "check `sudo dmesg` for Xid 79; only a power cycle restores it"),
    (
        16,
        "a GPU must be reset before it can be used again",
        "stop all programs, then `sudo nvidia-smi --gpu-reset`, or reboot",
    ),
    (
        17,
        "the operating system denies this process access to the GPU: the device rules of a container, or under WSL Windows",
        "restart the container with `--gpus all`, also after `systemctl daemon-reload`;"
        " under WSL `nvidia-smi` must first work outside of containers",
    ),
    (
        18,
        "the kernel module and the driver libraries have different versions: the driver was upgraded without a reboot",
        "reboot: `sudo reboot`",
    ),
]


@pytest.mark.parametrize(("code", "cause", "fix"), NVML, ids=[str(row[0]) for row in NVML])
def test_a_code_of_nvml(facts: Matrix, code: int, cause: str, fix: str) -> None:
    outcome = health_failure(on(facts, "bare-metal"), Health(error="Words of NVML", code=code))
    assert outcome is not None
    assert (outcome.status, outcome.reason, outcome.fix) == ("fail", f"NVML reports 'Words of NVML': {cause}", fix)


def test_every_code_of_nvml_that_is_explained_is_here(facts: Matrix) -> None:
    assert [row[0] for row in NVML] == [row["code"] for row in facts.rows("driver-errors", "nvml", dict)]
