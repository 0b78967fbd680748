# SPDX-License-Identifier: Apache-2.0
"""Compiles transforms of colours. A transform that is not applied to a sample does not run for it, except for a ColorJitter of brightness only on uint8
images, which then multiplies by 1."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from stoker import _branches, fn, math, types
from stoker import transforms as T
from stoker.data_node import DataNode

Gate = DataNode | None  # a node that is 1 if the transform is applied, else 0; None: it is always applied


def where(gate: Gate, node: DataNode, change: Callable[[DataNode], DataNode]) -> DataNode:
    """Returns `change(node)` for samples whose gate is 1, and the node itself for others. Without a gate, returns `change(node)`."""
    if gate is None:
        return change(node)
    changed: DataNode = _branches.either(gate, lambda: change(node), lambda: node)
    return changed


def _with(p: float, gate: Gate, node: DataNode, change: Callable[[DataNode], DataNode]) -> DataNode:
    if p < 1:
        coin = fn.random.coin_flip(probability=p)
        gate = coin if gate is None else coin * gate
    return where(gate, node, change)


def _draw(pair: tuple[float, float]) -> DataNode:
    value: DataNode = fn.random.uniform(range=list(pair))
    return value


def _color_jitter(node: DataNode, t: T.ColorJitter, gate: Gate) -> DataNode:
    ranges = {"brightness": t.brightness, "contrast": t.contrast, "saturation": t.saturation, "hue": t.hue}
    given: dict[str, Any] = {name: pair for name, pair in ranges.items() if pair is not None}
    if not given:
        return node
    draws = {name: _draw(pair) for name, pair in given.items()}
    if list(given) == ["brightness"]:  # brightness without other changes can be a step of a pass
        factor = draws["brightness"]
        bright: DataNode = fn.brightness_contrast(node, brightness=factor if gate is None else factor * gate + (1 - gate) * 1.0)
        return bright
    if len(draws) > 1:
        draws["order"] = fn.random.uniform(range=[0.0, 1.0], shape=[4])
    return where(gate, node, lambda image: fn.color_jitter(image, **draws))


def _permuted(node: DataNode) -> DataNode:
    orders = fn.constant(idata=[0, 1, 2, 0, 2, 1, 1, 0, 2, 1, 2, 0, 2, 0, 1, 2, 1, 0], shape=[6, 3], dtype=types.INT32)
    order = orders[fn.random.choice(6)]
    permuted: DataNode = fn.stack(*(node[:, :, order[k]] for k in range(3)), axis=2)
    named: DataNode = fn.reshape(permuted, layout="HWC")
    return named


def _photometric(node: DataNode, t: T.RandomPhotometricDistort, gate: Gate) -> DataNode:
    def chance() -> DataNode:
        coin: DataNode = fn.random.coin_flip(probability=t.p)
        return coin

    def draw(pair: tuple[float, float], unchanged: float) -> DataNode:
        coin = chance()
        return _draw(pair) * coin + (1 - coin) * unchanged

    factors: dict[str, Any] = {
        "brightness": draw(t.brightness, 1.0),
        "contrast": draw(t.contrast, 1.0),
        "saturation": draw(t.saturation, 1.0),
        "hue": draw(t.hue, 0.0),
        "order": fn.stack(*(types.Constant(k) if k != 1 else 1.0 + 3.0 * fn.random.coin_flip() for k in (0.0, 1, 2.0, 3.0))),
    }
    swaps = chance()
    return where(gate, node, lambda image: where(swaps, fn.color_jitter(image, **factors), _permuted))


def _jpeg(node: DataNode, t: T.JPEG, gate: Gate) -> DataNode:
    low, high = t.quality
    quality: Any = low if low == high else low + fn.cast(fn.random.choice(high - low + 1), dtype=types.INT32)
    return where(gate, node, lambda image: fn.jpeg_compression_distortion(image, quality=quality))


def _noisy(node: DataNode, t: T.GaussianNoise, gate: Gate) -> DataNode:
    return where(gate, node, lambda image: fn.noise.gaussian(image, mean=255 * t.mean, stddev=255 * t.sigma))


def _sharpness(node: DataNode, t: T.RandomAdjustSharpness, gate: Gate) -> DataNode:
    return _with(t.p, gate, node, lambda image: fn.adjust_sharpness(image, factor=t.sharpness_factor))


def _equalize(node: DataNode, t: T.RandomEqualize, gate: Gate) -> DataNode:
    return _with(t.p, gate, node, lambda image: fn.equalize(image, method="pillow"))


def _autocontrast(node: DataNode, t: T.RandomAutocontrast, gate: Gate) -> DataNode:
    return _with(t.p, gate, node, lambda image: fn.autocontrast(image))


# Each function gets the image's node, the transform and the gate, and returns the new node.
COLORS: dict[type[T.Transform], Callable[[DataNode, Any, Gate], DataNode]] = {
    T.ColorJitter: _color_jitter,
    T.GaussianNoise: _noisy,
    T.JPEG: _jpeg,
    T.RandomAdjustSharpness: _sharpness,
    T.RandomAutocontrast: _autocontrast,
    T.RandomChannelPermutation: lambda n, t, g: where(g, n, _permuted),
    T.RandomEqualize: _equalize,
    T.RandomPhotometricDistort: _photometric,
}


# ---- images of floats: colours are on the scale 0..1, as in torchvision's float tensors ----


def _within(node: DataNode) -> DataNode:
    inside: DataNode = math.clamp(node, 0.0, 1.0)
    return inside


def _gray(node: DataNode) -> DataNode:
    return node[:, :, 0:1] * 0.2989 + node[:, :, 1:2] * 0.587 + node[:, :, 2:3] * 0.114


def gray_floats(node: DataNode, t: T.Grayscale | T.RandomGrayscale, gate: Gate) -> DataNode:
    if isinstance(t, T.Grayscale) and t.num_output_channels == 1:
        return _gray(node)

    def change(image: DataNode) -> DataNode:
        gray = _gray(image)
        made: DataNode = fn.cat(gray, gray, gray, axis=2)
        return made

    return where(gate, node, change) if isinstance(t, T.Grayscale) else _with(t.p, gate, node, change)


def _mean(node: DataNode, channels: int | None) -> DataNode:
    gray = node if channels == 1 else _gray(node)
    mean: DataNode = fn.reductions.mean(gray)
    return mean


def _hued(node: DataNode, shift: DataNode) -> DataNode:
    """Shifts the hue by a share of the circle. Computes each channel from hue H, saturation S and value V without a distinction of cases:
    f(n) = V - V S max(0, min(k, 4 - k, 1)) with k = (n + 6 H) mod 6 and n = 5, 3, 1 for red, green and blue."""
    red, green, blue = (node[:, :, k : k + 1] for k in range(3))
    most, least = math.max(red, math.max(green, blue)), math.min(red, math.min(green, blue))
    span = most - least
    some = fn.cast(span > 0.0, dtype=types.FLOAT)
    per = some / (span + (1.0 - some))
    is_red = fn.cast(most == red, dtype=types.FLOAT)
    is_green = fn.cast(most == green, dtype=types.FLOAT) * (1.0 - is_red)
    is_blue = 1.0 - is_red - is_green
    sixths = (
        (is_red * (green - blue) + is_green * (blue - red) + is_blue * (red - green)) * per + 2.0 * is_green + 4.0 * is_blue + 6.0 * shift
    )

    def channel(n: float) -> DataNode:
        k = sixths + n
        k = k - 6.0 * math.floor(k / 6.0)
        return most - span * math.clamp(math.min(k, 4.0 - k), 0.0, 1.0)

    turned: DataNode = fn.cat(channel(5.0), channel(3.0), channel(1.0), axis=2)
    return turned


def _jitter_floats(node: DataNode, t: T.ColorJitter, gate: Gate, channels: int | None) -> DataNode:
    """Applies the changes of ColorJitter in a random order, as torchvision does. Images with one channel keep saturation and hue."""
    changes: list[Callable[[DataNode], DataNode]] = []
    if t.brightness is not None:
        bright = _draw(t.brightness)
        changes.append(lambda image: _within(image * bright))
    if t.contrast is not None:
        strong = _draw(t.contrast)
        changes.append(lambda image: _within(image * strong + (1.0 - strong) * _mean(image, channels)))
    if t.saturation is not None and channels != 1:
        full = _draw(t.saturation)
        changes.append(lambda image: _within(image * full + (1.0 - full) * _gray(image)))
    if t.hue is not None and channels != 1:
        shift = _draw(t.hue)
        changes.append(lambda image: _hued(image, shift))
    if len(changes) < 2:
        return node if not changes else where(gate, node, changes[0])
    orders = list(itertools.permutations(range(len(changes))))
    drawn = fn.random.choice(len(orders))
    for place in range(len(changes)):
        which = fn.constant(idata=[order[place] for order in orders], shape=[len(orders)], dtype=types.INT32)[drawn]
        for number, change in enumerate(changes):
            taken = fn.cast(which == number, dtype=types.INT32)
            node = where(taken if gate is None else taken * gate, node, change)
    return node


def _noisy_floats(node: DataNode, t: T.GaussianNoise, gate: Gate, _channels: int | None) -> DataNode:
    def change(image: DataNode) -> DataNode:
        made: DataNode = fn.noise.gaussian(image, mean=t.mean, stddev=t.sigma)
        return _within(made)

    return where(gate, node, change)


# Each function gets the image's node, the transform, the gate, and the number of channels or None, and returns the new node.
OF_FLOATS: dict[type[T.Transform], Callable[[DataNode, Any, Gate, int | None], DataNode]] = {
    T.ColorJitter: _jitter_floats,
    T.GaussianNoise: _noisy_floats,
}
