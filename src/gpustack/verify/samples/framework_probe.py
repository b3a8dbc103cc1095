"""Uses one framework on every GPU: a product of matrices and a convolution of small integers, whose results are exact.

    python framework_probe.py torch|tensorflow|jax|onnxruntime-gpu|cupy|vllm smoke|full [MODEL INPUT EXPECTED]

Runs in the framework's own interpreter, Python 3.8 or later, with nothing but the standard library and the framework;
level full is in framework_full.py next to it.
One JSON line a step; each is written before the next begins, so a crash shows where it was.
"""

# ruff: noqa: B905, PTH123 (Python 3.8; text is quicker)

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
from array import array
from importlib.metadata import distributions
from typing import Any

Module = Any
"""A framework, and what it makes, has no types here."""

SIDE = 64
"""Rows and columns of the matrices."""

PICTURE, KERNEL = 12, 3


def report(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def matrices() -> tuple[list[list[float]], list[list[float]]]:
    a = [[float((row + column) % 7) for column in range(SIDE)] for row in range(SIDE)]
    b = [[float((row * column) % 5) for column in range(SIDE)] for row in range(SIDE)]
    return a, b


def product() -> list[float]:
    a, b = matrices()
    columns = list(zip(*b))
    return [sum(x * y for x, y in zip(row, column)) for row in a for column in columns]


def pictures() -> tuple[list[list[float]], list[list[float]]]:
    picture = [[float((row * 5 + column) % 6) for column in range(PICTURE)] for row in range(PICTURE)]
    kernel = [[float(row - column) for column in range(KERNEL)] for row in range(KERNEL)]
    return picture, kernel


def convolution() -> list[float]:
    """The cross-correlation, as frameworks compute it."""
    picture, kernel = pictures()
    size = range(PICTURE - KERNEL + 1)
    window = [(row, column) for row in range(KERNEL) for column in range(KERNEL)]
    return [
        sum(picture[y + row][x + column] * kernel[row][column] for row, column in window) for y in size for x in size
    ]


def compare(step: str, gpu: int, called: str, found: list[Any], expected: list[float]) -> None:
    found = [float(one) for one in found]
    wrong = sum(1 for one, other in zip(found, expected) if one != other) + abs(len(found) - len(expected))
    report(step=step, gpu=gpu, called=called, wrong=wrong, of=len(expected))


def first(exc: BaseException) -> str:
    """The first line of an error."""
    return next(iter(str(exc).strip().splitlines()), type(exc).__name__)[:300]


def driver() -> None:
    """What libcuda itself answers: a framework only says that there is no GPU."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as exc:
        report(step="driver", error=str(exc))
        return
    code = library.cuInit(0)
    version, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    if code == 0:
        code = library.cuDeviceGetCount(ctypes.byref(count))
    name = ctypes.c_char_p()
    library.cuGetErrorName(code, ctypes.byref(name))
    text = (name.value or b"").decode("ascii", "replace")
    report(step="driver", code=code, name=text, cuda=version.value, count=count.value)


def torch_smoke() -> int:
    torch: Any = importlib.import_module("torch")

    cuda = torch.version.cuda
    archs = list(torch.cuda.get_arch_list()) if cuda else []
    report(
        step="imported",
        version=torch.__version__,
        cuda=cuda or "",
        hip=getattr(torch.version, "hip", None),
        archs=archs,
    )
    if not cuda:
        return 0
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    report(step="devices", count=count, cudnn=torch.backends.cudnn.version() if count else 0)
    a, b = matrices()
    picture, kernel = pictures()
    for gpu in range(count):
        at = f"cuda:{gpu}"
        called = torch.cuda.get_device_name(gpu)
        report(step="uses", gpu=gpu, called=called)
        found = torch.tensor(a, device=at) @ torch.tensor(b, device=at)
        compare("product", gpu, called, found.flatten().tolist(), product())
        found = torch.nn.functional.conv2d(torch.tensor([[picture]], device=at), torch.tensor([[kernel]], device=at))
        compare("convolution", gpu, called, found.flatten().tolist(), convolution())
    return count


def tensorflow_smoke() -> list[str]:
    tf: Any = importlib.import_module("tensorflow")

    build = tf.sysconfig.get_build_info()
    report(
        step="imported",
        version=tf.__version__,
        cuda=build.get("cuda_version", "") if build.get("is_cuda_build") else "",
    )
    gpus = tf.config.list_physical_devices("GPU")
    report(step="devices", count=len(gpus))
    a, b = matrices()
    picture, kernel = pictures()
    names = []
    for gpu in range(len(gpus)):
        called = str(tf.config.experimental.get_device_details(gpus[gpu]).get("device_name", f"GPU {gpu}"))
        names.append(called)
        report(step="uses", gpu=gpu, called=called)
        with tf.device(f"/GPU:{gpu}"):
            found = tf.linalg.matmul(tf.constant(a), tf.constant(b))
            compare("product", gpu, called, found.numpy().flatten().tolist(), product())
            shaped = tf.reshape(tf.constant(picture), (1, PICTURE, PICTURE, 1))
            weights = tf.reshape(tf.constant(kernel), (KERNEL, KERNEL, 1, 1))
            found = tf.nn.conv2d(shaped, weights, strides=1, padding="VALID")
            compare("convolution", gpu, called, found.numpy().flatten().tolist(), convolution())
    return names


def jax_smoke() -> Any:  # noqa: ANN401 (devices)
    jax: Any = importlib.import_module("jax")
    jnp: Any = importlib.import_module("jax.numpy")

    try:
        gpus = jax.devices("gpu")
    except RuntimeError as exc:
        plugin = any((one.metadata["Name"] or "").startswith("jax-cuda") for one in distributions())
        report(step="imported", version=jax.__version__, cuda="plugin" if plugin else "")
        report(step="devices", count=0, error=first(exc))
        return []
    report(step="imported", version=jax.__version__, cuda="plugin")
    report(step="devices", count=len(gpus))
    a, b = matrices()
    picture, kernel = pictures()
    for gpu, device in enumerate(gpus):
        report(step="uses", gpu=gpu, called=device.device_kind)
        put = [jax.device_put(jnp.array(one, dtype=jnp.float32), device) for one in (a, b, [[picture]], [[kernel]])]
        found = jnp.matmul(put[0], put[1], precision=jax.lax.Precision.HIGHEST)
        compare("product", gpu, device.device_kind, found.flatten().tolist(), product())
        found = jax.lax.conv(put[2], put[3], (1, 1), "VALID", precision=jax.lax.Precision.HIGHEST)
        compare("convolution", gpu, device.device_kind, found.flatten().tolist(), convolution())
    return gpus


def cupy_smoke() -> list[str]:
    cupy: Any = importlib.import_module("cupy")

    version = cupy.cuda.runtime.runtimeGetVersion()
    report(step="imported", version=cupy.__version__, cuda=f"{version // 1000}.{version % 1000 // 10}")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as exc:
        report(step="devices", count=0, error=str(exc))
        return []
    report(step="devices", count=count)
    a, b = matrices()
    names = []
    for gpu in range(count):
        called = cupy.cuda.runtime.getDeviceProperties(gpu)["name"].decode()
        names.append(called)
        report(step="uses", gpu=gpu, called=called)
        with cupy.cuda.Device(gpu):
            found = cupy.array(a, dtype=cupy.float32) @ cupy.array(b, dtype=cupy.float32)
            compare("product", gpu, called, found.flatten().tolist(), product())
            found = cupy.ElementwiseKernel("float32 x", "float32 y", "y = x * 2 + 1", "twice")(
                cupy.arange(1000, dtype=cupy.float32)
            )
            compare("kernel", gpu, called, found.tolist(), [2.0 * one + 1 for one in range(1000)])
    return names


def onnxruntime_smoke(model: str, pictures_file: str, expected_file: str) -> None:
    numpy: Any = importlib.import_module("numpy")
    onnxruntime: Any = importlib.import_module("onnxruntime")

    providers = onnxruntime.get_available_providers()
    has = "CUDAExecutionProvider" in providers
    report(step="imported", version=onnxruntime.__version__, cuda="provider" if has else "", providers=providers)
    if not has:
        return
    preload = getattr(onnxruntime, "preload_dlls", None)
    if preload is not None:
        preload()
    count = visible()
    report(step="devices", count=count)
    values, wanted = array("f"), array("f")
    with open(pictures_file, "rb") as stream:
        values.frombytes(stream.read())
    with open(expected_file, "rb") as stream:
        wanted.frombytes(stream.read())
    inputs = numpy.array(values, dtype=numpy.float32).reshape(-1, 1, 1, 28, 28)
    for gpu in range(count):
        called = f"GPU {gpu}"
        report(step="uses", gpu=gpu, called=called)
        session = onnxruntime.InferenceSession(model, providers=[("CUDAExecutionProvider", {"device_id": gpu})])
        if "CUDAExecutionProvider" not in session.get_providers():
            report(step="fallback", gpu=gpu, called=called)
            return
        found = [value for one in inputs for value in session.run(None, {"input": one})[0].flatten().tolist()]
        wrong = sum(1 for one, other in zip(found, wanted) if abs(one - other) > 1e-2)
        report(step="digits", gpu=gpu, called=called, wrong=wrong, of=len(wanted))


def visible() -> int:
    library, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    return count.value if library.cuInit(0) == 0 and library.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def vllm_smoke() -> None:
    vllm: Any = importlib.import_module("vllm")

    report(step="engine", version=getattr(vllm, "__version__", ""))
    importlib.import_module("vllm._C")  # its kernels have to load

    torch_smoke()


def main() -> None:
    name, level, *files = sys.argv[1:]
    driver()
    functions: dict[str, Any] = {
        "torch": torch_smoke,
        "tensorflow": tensorflow_smoke,
        "jax": jax_smoke,
        "cupy": cupy_smoke,
        "onnxruntime-gpu": onnxruntime_smoke,
        "vllm": vllm_smoke,
    }
    try:
        if level == "full":
            importlib.import_module("framework_full").FUNCTIONS[name](*files)
        else:
            functions[name](*files)
    except Exception as exc:  # noqa: BLE001 (whatever fails is the answer)
        lines = str(exc).strip().splitlines() or [""]
        report(step="failed", kind=type(exc).__name__, error=lines[0][:500], last=lines[-1][:500])
        return
    report(step="end")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
