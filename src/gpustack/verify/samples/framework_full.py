"""What the probe of frameworks adds at level full: rates in each number format, all-reduces, compiled functions."""

# ruff: noqa: B905 (Python 3.8)

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

probe: Any = importlib.import_module("framework_probe")
"""The program that asks for this module: it lies next to it."""

Module = Any
compare, first, report = probe.compare, probe.first, probe.report


LARGE = 8192
"""Rows and columns of the matrices for rates."""

ROUNDS = 10


def rate(gpu: int, called: str, kind: str, multiply: Callable[[], Any], wait: Callable[[Any], Any]) -> None:
    """The rate of a product of two matrices of ones; ``wait`` returns when a product is there."""
    found = multiply()
    wait(found)
    right = float(found[0, 0]) == float(LARGE)
    begun = time.perf_counter()
    for _ in range(ROUNDS):
        found = multiply()
    wait(found)
    tflops = 2.0 * LARGE**3 * ROUNDS / (time.perf_counter() - begun) / 1e12
    report(step="rate", gpu=gpu, called=called, kind=kind, wrong=0 if right else 1, of=1, tflops=round(tflops, 1))


def attempt(what: str, part: Callable[[], None]) -> None:
    """A part that a build may lack, or that a release has under another name."""
    try:
        part()
    except Exception as exc:  # noqa: BLE001 (frameworks raise anything)
        report(step="omitted", what=what, error=f"{type(exc).__name__}: {first(exc)}")


def total(count: int) -> float:
    """The sum of the numbers of the GPUs, from 1 on."""
    return count * (count + 1) / 2


def torch_full() -> None:
    torch: Any = importlib.import_module("torch")

    count = probe.torch_smoke()
    kinds = [("fp32", torch.float32, (5, 0)), ("fp16", torch.float16, (5, 3)), ("bf16", torch.bfloat16, (8, 0))]
    for gpu in range(count):
        called, has = torch.cuda.get_device_name(gpu), torch.cuda.get_device_capability(gpu)
        for name, kind, least in kinds:
            if tuple(has) >= least:
                torch_rate(torch, gpu, called, name, kind)
        if tuple(has) >= (8, 9) and hasattr(torch, "float8_e4m3fn") and hasattr(torch, "_scaled_mm"):
            torch_fp8(torch, gpu, called)
    if count > 1 and torch.cuda.nccl.is_available([torch.zeros(1, device="cuda:0")]):
        each = [torch.full((1 << 20,), float(gpu + 1), device=f"cuda:{gpu}") for gpu in range(count)]
        torch.cuda.nccl.all_reduce(each)
        for gpu, one in enumerate(each):
            compare("all-reduce", gpu, torch.cuda.get_device_name(gpu), one[:1000].tolist(), [total(count)] * 1000)
    if count and hasattr(torch, "compile"):
        attempt("torch.compile", lambda: torch_compile(torch))


def torch_rate(torch: Module, gpu: int, called: str, name: str, kind: Module) -> None:
    ones = torch.ones((LARGE, LARGE), device=f"cuda:{gpu}", dtype=kind)
    rate(gpu, called, name, lambda: ones @ ones, lambda _: torch.cuda.synchronize(gpu))


def torch_fp8(torch: Module, gpu: int, called: str) -> None:
    at = f"cuda:{gpu}"
    a = torch.ones((128, 128), device=at).to(torch.float8_e4m3fn)
    one = torch.tensor(1.0, device=at)
    try:
        found = torch._scaled_mm(  # noqa: SLF001 (torch has no public one)
            a, a.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16
        )
    except (RuntimeError, TypeError, ValueError) as exc:
        report(step="omitted", what="fp8", error=first(exc))
        return
    compare("fp8", gpu, called, found.flatten().tolist(), [128.0] * (128 * 128))


def torch_compile(torch: Module) -> None:
    made = torch.compile(lambda x: (x * 2 + 1).sum())
    found = float(made(torch.arange(1000, device="cuda:0", dtype=torch.float32)))
    compare("compiled", 0, torch.cuda.get_device_name(0), [found], [1000.0 * 999 + 1000])


def tensorflow_full() -> None:
    tf: Any = importlib.import_module("tensorflow")

    names = probe.tensorflow_smoke()
    for gpu, called in enumerate(names):
        for kind, short in (("float32", "fp32"), ("float16", "fp16"), ("bfloat16", "bf16")):
            with tf.device(f"/GPU:{gpu}"):
                ones = tf.ones((LARGE, LARGE), dtype=kind)
                rate(gpu, called, short, partial(tf.linalg.matmul, ones, ones), lambda one: one[0, 0].numpy())

    def compiled() -> None:
        made = tf.function(lambda x: tf.reduce_sum(x * 2 + 1), jit_compile=True)
        with tf.device("/GPU:0"):
            found = float(made(tf.range(1000, dtype=tf.float32)))
        compare("compiled", 0, names[0], [found], [1000.0 * 999 + 1000])

    def reduced() -> None:
        places = [f"/GPU:{gpu}" for gpu in range(len(names))]
        nccl = tf.distribute.NcclAllReduce()
        strategy = tf.distribute.MirroredStrategy(places, cross_device_ops=nccl)

        def each() -> Any:  # noqa: ANN401 (a tensor)
            own = tf.distribute.get_replica_context().replica_id_in_sync_group
            return tf.fill((1000,), tf.cast(own + 1, tf.float32))

        found = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(each), axis=None)
        compare("all-reduce", 0, names[0], found.numpy().tolist(), [total(len(names))] * 1000)

    if names:
        attempt("XLA", compiled)
    if len(names) > 1:
        attempt("all-reduce", reduced)


def jax_full() -> None:
    jax: Any = importlib.import_module("jax")

    jax_more(jax, probe.jax_smoke())


def jax_more(jax: Module, gpus: Any) -> None:  # noqa: ANN401 (devices)
    jnp: Any = importlib.import_module("jax.numpy")

    multiply = jax.jit(jnp.matmul)
    for gpu, device in enumerate(gpus):
        for kind, short in (("float32", "fp32"), ("float16", "fp16"), ("bfloat16", "bf16")):
            ones = jax.device_put(jnp.ones((LARGE, LARGE), dtype=kind), device)
            rate(gpu, device.device_kind, short, partial(multiply, ones, ones), jax.block_until_ready)

    def reduced() -> None:
        each = jnp.stack([jnp.full((1000,), float(gpu + 1), dtype=jnp.float32) for gpu in range(len(gpus))])
        found = jax.pmap(lambda one: jax.lax.psum(one, "gpus"), axis_name="gpus", devices=gpus)(each)
        for gpu, device in enumerate(gpus):
            compare("all-reduce", gpu, device.device_kind, found[gpu].tolist(), [total(len(gpus))] * 1000)

    if len(gpus) > 1:
        attempt("all-reduce", reduced)


def cupy_full() -> None:
    cupy: Any = importlib.import_module("cupy")

    names = probe.cupy_smoke()
    for gpu, called in enumerate(names):
        with cupy.cuda.Device(gpu):
            for kind, short in (("float32", "fp32"), ("float16", "fp16")):
                ones = cupy.ones((LARGE, LARGE), dtype=kind)
                rate(
                    gpu,
                    called,
                    short,
                    partial(cupy.matmul, ones, ones),
                    lambda _: cupy.cuda.get_current_stream().synchronize(),
                )

    def reduced() -> None:
        nccl: Any = importlib.import_module("cupy.cuda.nccl")
        each = []
        for gpu in range(len(names)):
            with cupy.cuda.Device(gpu):
                each.append(cupy.full(1000, gpu + 1, dtype=cupy.float32))
        communicators = nccl.NcclCommunicator.initAll(list(range(len(names))))  # NCCL refuses this within a group
        nccl.groupStart()
        for one, communicator in zip(each, communicators):
            with one.device:
                place = one.data.ptr
                communicator.allReduce(place, place, one.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0)
        nccl.groupEnd()
        for gpu, one in enumerate(each):
            with one.device:
                compare("all-reduce", gpu, names[gpu], one.tolist(), [total(len(names))] * 1000)

    if len(names) > 1:
        attempt("all-reduce", reduced)


def onnxruntime_full(model: str, pictures: str, answers: str, *squares: str) -> None:
    """The products of ``squares``, models for a number format each: "fp16=FILE"."""
    numpy: Any = importlib.import_module("numpy")
    onnxruntime: Any = importlib.import_module("onnxruntime")

    probe.onnxruntime_smoke(model, pictures, answers)
    for gpu in range(probe.visible()):
        for kind, file in (one.split("=", 1) for one in squares):
            ones = numpy.ones((LARGE, LARGE), dtype={"fp32": "float32", "fp16": "float16"}[kind])
            attempt(kind, partial(onnxruntime_rate, onnxruntime, gpu, kind, file, ones))


def onnxruntime_rate(onnxruntime: Module, gpu: int, kind: str, file: str, ones: Any) -> None:  # noqa: ANN401 (an array)
    session = onnxruntime.InferenceSession(file, providers=[("CUDAExecutionProvider", {"device_id": gpu})])
    if "CUDAExecutionProvider" not in session.get_providers():
        report(step="fallback", gpu=gpu, called=f"GPU {gpu}")
        return
    bound = session.io_binding()  # input and output stay on the GPU
    bound.bind_ortvalue_input("input", onnxruntime.OrtValue.ortvalue_from_numpy(ones, "cuda", gpu))
    bound.bind_output("probabilities", "cuda", gpu)

    def multiply() -> Any:  # noqa: ANN401 (a view of the result)
        session.run_with_iobinding(bound)
        return Corner(bound)

    rate(gpu, f"GPU {gpu}", kind, multiply, lambda _: bound.synchronize_outputs())


class Corner:
    """The result of a bound session, copied from the GPU only when one reads it."""

    def __init__(self, bound: Any) -> None:  # noqa: ANN401 (of onnxruntime)
        self.bound = bound

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 (of numpy)
        return self.bound.copy_outputs_to_cpu()[0][place]


FUNCTIONS: dict[str, Callable[..., None]] = {
    "torch": torch_full,
    "tensorflow": tensorflow_full,
    "jax": jax_full,
    "cupy": cupy_full,
    "onnxruntime-gpu": onnxruntime_full,
}
