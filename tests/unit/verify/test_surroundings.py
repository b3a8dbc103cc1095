"""Variables, folders and limits that make programs fail are named with the failure that they cause."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.unit.verify.conftest import Recorded

from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.verify.declare import Check, Context, Outcome, failed, passed
from gpustack.verify.frame import runner, scratch, surroundings
from gpustack.verify.frame.surroundings import Variable, set_here


@pytest.fixture(autouse=True)
def _no_variables(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    for row in matrix.rows("environment", "variables", Variable):
        monkeypatch.delenv(row.name, raising=False)


Ask = Callable[..., Outcome]


@pytest.fixture
def ask(matrix: Matrix, healthy: Host) -> Ask:
    """What a check that fails says where these variables are set."""

    def run(
        identity: str,
        *,
        work: Path | None = None,
        gpus: int = 1,
        environment: str = "bare-metal",
        says: str = "it broke",
    ) -> Outcome:
        cards = tuple(
            msgspec.structs.replace(healthy.gpus[0], uuid=f"GPU-{number}{number}ab-cd", bus_id=f"0000:0{number}:00.0")
            for number in range(gpus)
        )
        host = msgspec.structs.replace(healthy, gpus=cards, environment=environment)
        context = Context(host=host, matrix=matrix, runner=Recorded(), work=work)
        check = Check(
            id=identity, component=identity.partition(".")[0], level="smoke", title="", expects="", fix="look closer",
            function=lambda _: failed(says),
        )  # fmt: skip
        return runner._told(check.function(context), check, context)

    return run


SAID = [
    ("nccl.all-reduce", "NCCL_SOCKET_IFNAME", "wan7", "no network interface here has such a name (here are "),
    ("driver.sums", "CUDA_DISABLE_PTX_JIT", "1", "the driver compiles no PTX, so only programs with machine code"),
    ("cudnn.mnist", "CUDA_FORCE_PTX_JIT", "1", "the driver ignores machine code, so libraries without PTX fail"),
    ("cuda.run", "CUDA_MPS_PIPE_DIRECTORY", "/nowhere/mps", "programs look there for the control daemon of MPS and"),
    ("torch.compute", "CUDA_VISIBLE_DEVICES", "9", "CUDA uses only the GPUs that it names (0 of 1 here, because '9'"),
    ("vllm.compute", "CUDA_FORCE_PTX_JIT", "1", "the driver ignores machine code, so libraries without PTX fail"),
    ("nccl.library", "NCCL_ALGO", "Nonsense", "NCCL may use only these algorithms"),
    ("torch.compute", "PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:1", "PyTorch's allocator has these options"),
    ("driver.lists", "CUDA_DEVICE_ORDER", "FOO", "CUDA knows PCI_BUS_ID and FASTEST_FIRST alone"),
    ("cuda.compile", "NVCC_APPEND_FLAGS", "--foo", "nvcc adds these options to every compilation"),
    ("cuda.compile", "NVCC_PREPEND_FLAGS", "-arch=sm_50", "nvcc adds these options to every compilation"),
    ("jax.compute", "JAX_PLATFORMS", "cpu", "JAX starts these platforms and no GPU"),
    ("jax.compute", "XLA_FLAGS", "--nonsense", "XLA has these options, and ends at one that it does not know"),
    (
        "jax.compute",
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
        "abc",
        "JAX takes a number there, and starts no GPU with another",
    ),
    ("nccl.library", "NCCL_NET", "Socketz", "NCCL uses only this network, and fails where it is not there"),
]


@pytest.mark.parametrize(("identity", "name", "value", "says"), SAID, ids=[f"{row[0]} {row[1]}" for row in SAID])
def test_a_variable_that_makes_checks_fail_is_the_first_thing_to_mend(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, identity: str, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    outcome = ask(identity)
    assert outcome.reason.startswith(f"it broke; {name} is {value!r}: {says}")
    assert outcome.fix == f"`unset {name}`, then verify again; if that does not help: look closer"


@pytest.mark.parametrize(
    ("identity", "name", "value"),
    [
        ("nccl.all-reduce", "CUDA_DISABLE_PTX_JIT", "1"),
        ("cuda.run", "NCCL_SOCKET_IFNAME", "wan7"),
        ("nccl.all-reduce", "NCCL_SOCKET_IFNAME", "lo"),
        ("nccl.all-reduce", "NCCL_SOCKET_IFNAME", "=lo"),
        ("nccl.all-reduce", "NCCL_SOCKET_IFNAME", "^wan"),
        ("nccl.all-reduce", "NCCL_P2P_DISABLE", "0"),
        ("cuda.run", "CUDA_DISABLE_PTX_JIT", "0"),
        ("cuda.run", "CUDA_VISIBLE_DEVICES", "0"),
        ("cuda.run", "CUDA_VISIBLE_DEVICES", "GPU-00ab"),
        ("cuda.run", "NVIDIA_VISIBLE_DEVICES", "void"),
        ("cuda.run", "CUDA_MPS_PIPE_DIRECTORY", "/"),
        ("cuda.run", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("cuda.run", "NVCC_APPEND_FLAGS", "-O3"),
        ("jax.compute", "JAX_PLATFORMS", "cuda,cpu"),
        ("jax.compute", "XLA_PYTHON_CLIENT_MEM_FRACTION", ".75"),
        ("torch.compute", "XLA_FLAGS", "--xla_gpu_autotune_level=0"),
    ],
)
def test_a_variable_that_has_nothing_to_do_with_it_is_not_named(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, identity: str, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    outcome = ask(identity)
    assert name not in outcome.reason + outcome.detail
    assert outcome.fix == ""


def test_a_folder_of_the_cache_that_cannot_be_made_is_named(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "cache", Path("/proc/cache")):
        monkeypatch.setenv("CUPY_CACHE_DIR", str(folder))
        assert "CuPy keeps its kernels there and does not start" in ask("cupy.compute").reason


def test_folders_of_modules_are_a_remark(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/srv/shadow")
    outcome = ask("torch.compute")
    assert "Python takes modules from these folders before those of the environment" in outcome.detail
    assert outcome.fix == ""


def test_one_that_only_slows_is_a_remark(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    outcome = ask("nccl.all-reduce")
    assert (outcome.reason, outcome.fix) == ("it broke", "")
    assert outcome.detail.startswith("NCCL_P2P_DISABLE is '1': GPUs do not copy to each other directly")


HIDDEN = [
    ("", "0 of 4 here, because '' names none"),
    ("-1", "0 of 4 here, because '-1' names none"),
    ("0,2", "2 of 4 here"),
    ("0,-1,1", "1 of 4 here, because '-1' names none"),
    ("1,9", "1 of 4 here, because '9' names none"),
    ("GPU-22ab", "1 of 4 here"),
    ("GPU-99", "0 of 4 here, because 'GPU-99' names none"),
    ("GPU-", "0 of 4 here, because 'GPU-' names none"),
    ("MIG-4a8b", "the first MIG instance that it names"),
]


@pytest.mark.parametrize(("value", "left"), HIDDEN, ids=[repr(value) for value, _ in HIDDEN])
def test_how_many_gpus_a_list_leaves(ask: Ask, monkeypatch: pytest.MonkeyPatch, value: str, left: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert ask("cuda.run", gpus=4).reason == (
        f"it broke; CUDA_VISIBLE_DEVICES is {value!r}: CUDA uses only the GPUs that it names ({left})"
    )


def test_a_list_of_all_gpus_hides_none(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert ask("cuda.run", gpus=2).reason == "it broke"


def test_a_container_without_gpus_says_which_variable_keeps_them(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, matrix: Matrix, healthy: Host
) -> None:
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "void")
    outcome = ask("driver.context", environment="container")
    assert outcome.reason.endswith(
        "NVIDIA_VISIBLE_DEVICES is 'void': the container runtime gives this container no GPU"
    )
    assert outcome.fix == (
        "start the container with `--gpus all`, and with the capabilities in NVIDIA_DRIVER_CAPABILITIES"
        "; if that does not help: look closer"
    )
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "wan7")
    host = msgspec.structs.replace(healthy, gpus=(), environment="container")
    results = runner.run_checks(("nccl",), "smoke", Context(host=host, matrix=matrix, runner=Recorded()))
    said = next(one.reason for one in results if one.id == "nccl.all-reduce")
    assert "NVIDIA_VISIBLE_DEVICES is 'void'" in said
    assert "NCCL_SOCKET_IFNAME" not in said


@pytest.mark.parametrize(("value", "is_named"), [("utility", True), ("compute,utility", False), ("all", False)])
def test_capabilities_of_a_container(ask: Ask, monkeypatch: pytest.MonkeyPatch, value: str, *, is_named: bool) -> None:
    monkeypatch.setenv("NVIDIA_DRIVER_CAPABILITIES", value)
    said = ask("driver.context", environment="container").reason
    assert ("without compute, the container has no libcuda" in said) is is_named


def test_a_stub_on_the_loaders_path_is_named_with_its_file(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stub = tmp_path / "lib64/stubs/libcuda.so.1"
    stub.parent.mkdir(parents=True)
    # Toolkits bring this one: linkers use it, and programs, which load libcuda.so.1, do not (seen on an H200).
    stub.with_suffix("").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{stub.parent}")
    assert ask("driver.context").reason == "it broke"
    stub.touch()
    outcome = ask("driver.context")
    assert outcome.reason.endswith(f"which is for linking only, in place of the driver's library ({stub})")
    assert outcome.fix == f"take {stub.parent} out of LD_LIBRARY_PATH; if that does not help: look closer"


def test_a_driver_library_of_another_release_is_named(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, healthy: Host
) -> None:
    """The compat folder of a toolkit in LD_LIBRARY_PATH, as on an H100: CUDA reports error 803."""
    library = tmp_path / "libcuda.so.1.2.3"
    library.touch()
    (tmp_path / "libcuda.so.1").symlink_to(library.name)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    outcome = ask("driver.context")
    assert outcome.reason.endswith(f"which is not of the driver's release ({library})")
    assert outcome.fix == f"take {tmp_path} out of LD_LIBRARY_PATH; if that does not help: look closer"
    own = tmp_path / f"libcuda.so.{healthy.installed['driver'].version}"
    library.rename(own)
    (tmp_path / "libcuda.so.1").unlink()
    (tmp_path / "libcuda.so.1").symlink_to(own.name)
    assert ask("driver.context").reason == "it broke"


def test_device_files_that_this_user_cannot_open_are_named() -> None:
    is_root = os.geteuid() == 0  # which opens every file
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        nodes = [Path(folder) / "nvidiactl", Path(folder) / "nvidia0"]
        for node, mode in zip(nodes, (0o000, 0o666), strict=True):
            node.touch()
            node.chmod(mode)
        if is_root:
            os.seteuid(65534)
        try:
            (found,) = surroundings.closed(nodes)
        finally:
            if is_root:
                os.seteuid(0)
    assert found.says == f"this user cannot open {nodes[0]} (----------)"
    assert found.fix == "run it with `sudo`, or as a user of the group that `ls -l /dev/nvidia*` shows"


def test_limits_of_a_process_that_cuda_does_not_work_with(ask: Ask) -> None:
    import resource

    assert not list(surroundings.process_limits(-1, 1024))
    assert [(one.says, one.fix) for one in surroundings.process_limits(6000000 << 10, 24)] == [
        (
            "`ulimit -v` allows only 5859 MiB of addresses; CUDA reserves more than that",
            "`ulimit -v unlimited`, then verify again",
        ),
        ("`ulimit -n` allows only 24 open files", "`ulimit -n 1024`, then verify again"),
    ]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        assert "allows only 200 open files" in ask("cuda.run").reason
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_another_cudnn_first_is_a_remark_for_those_that_load_it(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "libcudnn.so.8").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert ask("cudnn.mnist").detail.endswith(f"programs load this cuDNN before any other ({tmp_path}/libcudnn.so.8)")
    assert ask("torch.compute").detail == ask("cudnn.mnist").detail
    assert ask("cuda.run").detail == ""


def test_what_is_set_is_told_before_anything_fails(
    matrix: Matrix, healthy: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = Context(host=healthy, matrix=matrix, runner=Recorded())
    assert set_here(context) == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUDA_CACHE_PATH", str(tmp_path / "file/below"))
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    said = set_here(context)
    assert sorted(text.partition(" is ")[0] for text in said) == ["CUDA_CACHE_PATH", "CUDA_DEVICE_ORDER"]
    monkeypatch.setenv("CUDA_CACHE_PATH", str(tmp_path / "new/below"))
    assert len(set_here(context)) == 1


def test_every_test_of_the_table_exists(matrix: Matrix) -> None:
    rows = matrix.rows("environment", "variables", Variable)
    assert {row.test for row in rows} == set(surroundings._TESTS)


class Volume:
    """A file system as statvfs reports it."""

    def __init__(self, *, free: int = 1 << 40, flags: int = 0, inodes: int = 9) -> None:
        self.f_flag, self.f_bavail, self.f_frsize, self.f_favail, self.f_files = flags, free >> 12, 1 << 12, inodes, 10


@pytest.mark.parametrize(
    ("volume", "says"),
    [
        (Volume(flags=os.ST_NOEXEC), "{} is mounted noexec, so programs that checks build there cannot be started"),
        (Volume(free=5 << 20), "{} has only 5 MiB free"),
        (Volume(inodes=0), "{} has no free inodes"),
    ],
    ids=["noexec", "full", "inodes"],
)
def test_a_folder_in_which_nothing_can_be_built(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, volume: Volume, says: str
) -> None:
    work = tmp_path / "gpustack-verify-x/cuda.run"
    real = os.statvfs
    monkeypatch.setattr(os, "statvfs", lambda path: volume if str(path) == str(work) else real(path))
    outcome = ask("cuda.run", work=work)
    assert outcome.reason == f"it broke; {says.format(tmp_path)}"
    assert outcome.fix == "`export TMPDIR=/var/tmp`, then verify again; if that does not help: look closer"


def test_no_other_folder_would_do(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: Volume(free=5 << 20))
    assert ask("cuda.run", work=tmp_path).fix == (
        "set TMPDIR to a folder that has space and allows programs, then verify again; if that does not help:"
        " look closer"
    )


def test_limits_that_nccl_meets() -> None:
    assert [(one.says, one.fix) for one in surroundings.limits(64 << 20, 65536)] == [
        (
            "/dev/shm has only 64 MiB, in which NCCL exchanges data between processes",  # noqa: S108 (a text)
            "enlarge /dev/shm: start the container with `--shm-size=1g` or `--ipc=host`",
        ),
        (
            "`ulimit -l` allows only 64 KiB of locked memory, which InfiniBand needs",
            "start the container with `--ulimit memlock=-1`, or raise memlock in /etc/security/limits.conf",
        ),
    ]
    assert list(surroundings.limits(1 << 30, -1)) == []


def test_what_a_check_names_itself_is_not_told_twice(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_DISABLE_PTX_JIT", "1")
    assert ask("cuda.run", says="CUDA_DISABLE_PTX_JIT is set").reason == "CUDA_DISABLE_PTX_JIT is set"


def test_a_file_that_cannot_be_written_is_no_fault_of_the_check(matrix: Matrix, healthy: Host) -> None:
    def full(_: Context) -> Outcome:
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere/vector.cu")

    check = Check(id="cuda.run", component="cuda", level="smoke", title="", expects="", fix="", function=full)
    outcome = runner._answer(check, Context(host=healthy, matrix=matrix, runner=Recorded()))
    assert (outcome.status, outcome.reason) == (
        "error",
        "/somewhere/vector.cu cannot be read or written: No space left on device",
    )


def test_a_check_that_passes_is_left_alone(monkeypatch: pytest.MonkeyPatch, matrix: Matrix, healthy: Host) -> None:
    monkeypatch.setenv("CUDA_DISABLE_PTX_JIT", "1")
    context = Context(host=healthy, matrix=matrix, runner=Recorded())
    check = Check(
        id="cuda.run", component="cuda", level="smoke", title="", expects="", fix="", function=lambda _: passed("held")
    )
    assert runner._told(check.function(context), check, context) == passed("held")


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", none)
    with pytest.raises(UsageError) as caught, scratch.scratch_folder("x-"):
        pass
    assert (caught.value.code, caught.value.message) == (
        "no-temporary-folder",
        "no folder for temporary files can be made: No space left on device",
    )


def test_a_folder_is_gone_although_a_thread_still_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of a check goes on after an interrupt: what it writes has to go as well."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left: Iterator[int] = iter(range(3))
    real = scratch.stop_commands

    def writes() -> None:
        real()
        folder = next(tmp_path.iterdir(), None)
        if next(left, None) is not None and folder is not None:
            (folder / "late").mkdir(exist_ok=True)

    monkeypatch.setattr(scratch, "stop_commands", writes)

    def interrupted() -> None:
        with scratch.scratch_folder("x-") as root:
            (root / "kept").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_variable_that_the_check_itself_names_is_the_fix_all_the_same(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    outcome = ask("driver.context", says="CUDA lists no GPU; CUDA_VISIBLE_DEVICES is '7'")
    assert outcome.reason == "CUDA lists no GPU; CUDA_VISIBLE_DEVICES is '7'"
    assert outcome.fix == "`unset CUDA_VISIBLE_DEVICES`, then verify again; if that does not help: look closer"
