"""Makes the network and the pictures of verify's cuDNN and TensorRT samples: draws digits, trains, writes the files.

    python3 ci/train_digits.py [--check]

The digits are drawn here, from strokes written down below, bent at random; no data set is involved. The network is
trained by plain numpy. ``--check`` judges the committed files on freshly drawn digits and writes nothing.

Files in src/gpustack/verify/samples/digits: network.json tells every tensor's name, shape and place in network.f32
(32-bit floats, little-endian, row by row); pictures.u8 holds 28 x 28 pictures of one byte a pixel, white on black;
network.json also holds the digit that each shows and the probabilities that the reference below computes.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

Array = np.ndarray
FOLDER = Path(__file__).resolve().parent.parent / "src/gpustack/verify/samples/digits"
SIDE = 28
PICTURES = 20
SHAPES = {
    "conv1.weight": (8, 1, 5, 5),
    "conv1.bias": (8,),
    "conv2.weight": (16, 8, 5, 5),
    "conv2.bias": (16,),
    "dense1.weight": (32, 16, 4, 4),
    "dense1.bias": (32,),
    "dense2.weight": (10, 32, 1, 1),
    "dense2.bias": (10,),
}


def arc(  # noqa: PLR0913, PLR0917 (centre, radii, angles)
    x: float, y: float, rx: float, ry: float, begin: float, end: float
) -> Array:
    """Points on an ellipse's edge, angles in degrees, clockwise from the right as y grows downwards."""
    angles = np.radians(np.linspace(begin, end, 13))
    return np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], axis=1)


def line(*points: tuple[float, float]) -> Array:
    return np.array(points)


STROKES: dict[int, list[Array]] = {
    0: [arc(0.5, 0.5, 0.24, 0.38, 0, 360)],
    1: [line((0.36, 0.28), (0.54, 0.12), (0.54, 0.88))],
    2: [arc(0.5, 0.32, 0.23, 0.2, 190, 390), line((0.7, 0.42), (0.28, 0.87), (0.76, 0.87))],
    3: [arc(0.46, 0.31, 0.23, 0.19, 200, 450), arc(0.46, 0.69, 0.26, 0.19, 270, 520)],
    4: [line((0.62, 0.88), (0.62, 0.12), (0.24, 0.62), (0.8, 0.62))],
    5: [line((0.72, 0.13), (0.34, 0.13), (0.31, 0.48)), arc(0.47, 0.65, 0.25, 0.22, 228, 510)],
    6: [line((0.64, 0.12), (0.4, 0.36), (0.28, 0.62)), arc(0.5, 0.67, 0.22, 0.21, 0, 360)],
    7: [line((0.26, 0.14), (0.75, 0.14), (0.44, 0.88))],
    8: [arc(0.5, 0.31, 0.19, 0.18, 0, 360), arc(0.5, 0.69, 0.23, 0.2, 0, 360)],
    9: [arc(0.5, 0.33, 0.22, 0.21, 0, 360), line((0.72, 0.36), (0.62, 0.64), (0.42, 0.88))],
}


def drawn(digit: int, random: np.random.Generator) -> Array:
    """One picture of a digit, bent, moved and blurred at random; values from 0 to 1."""
    turn, lean = np.radians(random.uniform(-12, 12)), random.uniform(-0.15, 0.15)
    scale = random.uniform(0.75, 1.05, 2)
    matrix = np.array([[np.cos(turn), -np.sin(turn) + lean], [np.sin(turn), np.cos(turn)]]) * scale
    shift = 0.5 + random.uniform(-0.07, 0.07, 2)
    width = random.uniform(0.035, 0.07)
    pixels = (np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1).reshape(-1, 2) + 0.5) / SIDE
    nearest = np.full(len(pixels), 9.0)
    for stroke in STROKES[digit]:
        points = (stroke - 0.5 + random.normal(0, 0.008, stroke.shape)) @ matrix.T + shift
        for begin, end in itertools.pairwise(points):
            along = end - begin
            place = np.clip(((pixels - begin) @ along) / max(float(along @ along), 1e-9), 0, 1)
            nearest = np.minimum(nearest, np.linalg.norm(pixels - begin - place[:, None] * along, axis=1))
    ink = np.clip((width - nearest) * SIDE + 0.5, 0, 1) * random.uniform(0.75, 1.0)
    return np.clip(ink + random.normal(0, 0.03, ink.shape), 0, 1).reshape(1, SIDE, SIDE)


def pictures(count: int, random: np.random.Generator) -> tuple[Array, Array]:
    """``count`` pictures as bytes, and the digit that each shows, in turn from 0 to 9."""
    labels = np.arange(count) % 10
    images = np.stack([drawn(int(label), random) for label in labels])
    return np.round(images * 255).astype(np.uint8), labels


def windows(x: Array, size: int) -> Array:
    """Every window of ``size`` x ``size``: (pictures, rows, columns, channels * size * size)."""
    view = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))
    count, channels, rows, columns = view.shape[:4]
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(count, rows, columns, channels * size * size)


def convolved(x: Array, weight: Array, bias: Array) -> tuple[Array, Array]:
    seen = windows(x, weight.shape[2])
    out = seen @ weight.reshape(len(weight), -1).T + bias
    return out.transpose(0, 3, 1, 2), seen


def pooled(x: Array) -> tuple[Array, Array]:
    count, channels, rows, columns = x.shape
    cells = x.reshape(count, channels, rows // 2, 2, columns // 2, 2)
    best = cells.max(axis=(3, 5), keepdims=True)
    mask = cells == best
    return best[:, :, :, 0, :, 0], mask / mask.sum(axis=(3, 5), keepdims=True)


def forward(net: dict[str, Array], images: Array) -> tuple[Array, dict[str, Array]]:
    """Probabilities, and what going back needs. Correlation, no padding; maximum of 2 x 2; relu; softmax."""
    kept: dict[str, Array] = {}
    x = images.astype(net["conv1.bias"].dtype) / 255
    for name in ("conv1", "conv2"):
        kept[f"{name}.shape"] = np.array(x.shape)
        x, kept[f"{name}.seen"] = convolved(x, net[f"{name}.weight"], net[f"{name}.bias"])
        x, kept[f"{name}.mask"] = pooled(x)
        kept[f"{name}.on"] = x > 0
        x = x * kept[f"{name}.on"]
    kept["flat"] = x.reshape(len(x), -1)
    hidden = kept["flat"] @ net["dense1.weight"].reshape(32, -1).T + net["dense1.bias"]
    kept["hidden"] = np.maximum(hidden, 0)
    score = kept["hidden"] @ net["dense2.weight"].reshape(10, -1).T + net["dense2.bias"]
    power = np.exp(score - score.max(axis=1, keepdims=True))
    return power / power.sum(axis=1, keepdims=True), kept


def slopes(net: dict[str, Array], probabilities: Array, labels: Array, kept: dict[str, Array]) -> dict[str, Array]:
    """The gradient of the mean cross entropy by every tensor."""
    found: dict[str, Array] = {}
    d = probabilities.copy()
    d[np.arange(len(labels)), labels] -= 1
    d /= len(labels)
    found["dense2.weight"], found["dense2.bias"] = d.T @ kept["hidden"], d.sum(axis=0)
    d = (d @ net["dense2.weight"].reshape(10, -1)) * (kept["hidden"] > 0)
    found["dense1.weight"], found["dense1.bias"] = d.T @ kept["flat"], d.sum(axis=0)
    d = (d @ net["dense1.weight"].reshape(32, -1)).reshape(kept["conv2.on"].shape)
    for name in ("conv2", "conv1"):
        d *= kept[f"{name}.on"]
        spread = d[:, :, :, None, :, None] * kept[f"{name}.mask"]
        count, channels, rows, _, columns, _ = spread.shape
        d = spread.reshape(count, channels, rows * 2, columns * 2)
        by_place = d.transpose(0, 2, 3, 1).reshape(-1, channels)
        seen = kept[f"{name}.seen"]
        found[f"{name}.weight"] = by_place.T @ seen.reshape(-1, seen.shape[-1])
        found[f"{name}.bias"] = by_place.sum(axis=0)
        if name == "conv2":
            size = net["conv2.weight"].shape[2]
            wide = np.pad(d, ((0, 0), (0, 0), (size - 1, size - 1), (size - 1, size - 1)))
            back = net["conv2.weight"][:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
            d, _ = convolved(wide, back, np.zeros(len(back), dtype=d.dtype))
    return {name: found[name].reshape(SHAPES[name]) for name in SHAPES}


def trained(random: np.random.Generator) -> dict[str, Array]:
    """The network after some rounds of Adam over drawn digits."""
    images, labels = pictures(6000, random)
    net = {
        name: random.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape).astype(np.float32)
        if len(shape) > 1
        else np.zeros(shape, np.float32)
        for name, shape in SHAPES.items()
    }
    first = {name: np.zeros_like(tensor) for name, tensor in net.items()}
    second = {name: np.zeros_like(tensor) for name, tensor in net.items()}
    step = 0
    for turn in range(6):
        order = random.permutation(len(images))
        for begin in range(0, len(images), 100):
            step += 1
            batch = order[begin : begin + 100]
            probabilities, kept = forward(net, images[batch])
            for name, slope in slopes(net, probabilities, labels[batch], kept).items():
                first[name] = 0.9 * first[name] + 0.1 * slope
                second[name] = 0.999 * second[name] + 0.001 * slope**2
                rate = 0.002 * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
                net[name] = (net[name] - rate * first[name] / (np.sqrt(second[name]) + 1e-8)).astype(np.float32)
        print(f"round {turn + 1}: {accuracy(net, *pictures(500, random)):.3f} of new digits are read rightly")
    return net


def accuracy(net: dict[str, Array], images: Array, labels: Array) -> float:
    return float((forward(net, images)[0].argmax(axis=1) == labels).mean())


def write(net: dict[str, Array], random: np.random.Generator) -> None:
    images, labels = pictures(PICTURES, random)
    exact = {name: tensor.astype(np.float64) for name, tensor in net.items()}
    probabilities, _ = forward(exact, images)
    place = 0
    tensors = []
    for name, tensor in net.items():
        tensors.append({"name": name, "shape": list(tensor.shape), "offset": place})
        place += tensor.size
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "network.f32").write_bytes(b"".join(tensor.astype("<f4").tobytes() for tensor in net.values()))
    (FOLDER / "pictures.u8").write_bytes(images.tobytes())
    told = {
        "input": [1, SIDE, SIDE],
        "scale": "each byte divided by 255",
        "layers": [
            "conv1 5x5, maximum of 2x2, relu",
            "conv2 5x5, maximum of 2x2, relu",
            "dense1, relu",
            "dense2, softmax",
        ],
        "tensors": tensors,
        "digits": labels.tolist(),
        "probabilities": [[round(float(p), 9) for p in row] for row in probabilities],
    }
    (FOLDER / "network.json").write_text(json.dumps(told, indent=1) + "\n")


def read() -> dict[str, Array]:
    told = json.loads((FOLDER / "network.json").read_text())
    values = np.frombuffer((FOLDER / "network.f32").read_bytes(), "<f4")
    return {
        t["name"]: values[t["offset"] : t["offset"] + int(np.prod(t["shape"]))].reshape(t["shape"])
        for t in told["tensors"]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="judge the committed network; write nothing")
    random = np.random.default_rng(2026)
    if not parser.parse_args().check:
        write(trained(random), random)
    fresh = pictures(1000, np.random.default_rng(7))
    print(f"{accuracy(read(), *fresh):.3f} of 1000 new digits are read rightly")


if __name__ == "__main__":
    main()
