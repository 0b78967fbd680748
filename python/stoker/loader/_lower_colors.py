# SPDX-License-Identifier: Apache-2.0
"""Transforms of colours as operators. Where one does not take effect for a sample, the sample does not run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker import _branches, fn, types
from stoker import transforms as T
from stoker.data_node import DataNode

Gate = DataNode | None  # a node of 1 where the transform takes effect and 0 where it does not; None: it always does


def where(gate: Gate, node: DataNode, change: Callable[[DataNode], DataNode]) -> DataNode:
    """The node changed, for the samples whose gate is open."""
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
    if list(given) == ["brightness"]:  # by itself it is a step of a pass
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


# Each gets the image's node, the transform and the gate.
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
