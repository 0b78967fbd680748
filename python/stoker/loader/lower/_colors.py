# SPDX-License-Identifier: Apache-2.0
"""Rules of the transforms of colours. For a sample that a transform leaves unchanged, `where` runs no operator of the transform, or, if the transform is
cheap, its operator gets an argument that changes nothing, such as the factor 1."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from stoker import fn, math, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.errors import UnsupportedError
from stoker.loader.lower._rules import Gate, Image, coin, lowers, where


def _with(p: float, gate: Gate, node: DataNode, change: Callable[[DataNode], DataNode]) -> DataNode:
    return where(gate if p == 1 else coin(p, gate), node, change)


def _draw(pair: tuple[float, float]) -> DataNode:
    value: DataNode = fn.random.uniform(range=list(pair))
    return value


def _jitter_bytes(node: DataNode, t: T.ColorJitter, gate: Gate) -> DataNode:
    ranges = {"brightness": t.brightness, "contrast": t.contrast, "saturation": t.saturation, "hue": t.hue}
    given: dict[str, Any] = {name: pair for name, pair in ranges.items() if pair is not None}
    if not given:
        return node
    draws = {name: _draw(pair) for name, pair in given.items()}
    if list(given) == ["brightness"]:  # this operator, unlike color_jitter, can be fused with its neighbours
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


@lowers(T.RandomPhotometricDistort, takes_units=True, keeps_places=True, channels=(3,))
def _photometric(image: Image, t: T.RandomPhotometricDistort, gate: Gate) -> Image:
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
    return image.changed(where(gate, image.node, lambda node: where(swaps, fn.color_jitter(node, **factors), _permuted)))


# ---- images of floats: colours are on the scale 0..1, as in torchvision's float tensors ----


def _within(node: DataNode) -> DataNode:
    inside: DataNode = math.clamp(node, 0.0, 1.0)
    return inside


def _gray(node: DataNode) -> DataNode:
    return node[:, :, 0:1] * 0.2989 + node[:, :, 1:2] * 0.587 + node[:, :, 2:3] * 0.114


def _gray_in_three(node: DataNode) -> DataNode:
    gray = _gray(node)
    made: DataNode = fn.cat(gray, gray, gray, axis=2)
    return made


def _mean(node: DataNode, channels: int | None) -> DataNode:
    gray = node if channels == 1 else _gray(node)
    mean: DataNode = fn.reductions.mean(gray)
    return mean


def _hued(node: DataNode, shift: DataNode) -> DataNode:
    """Shifts the hue by a share of the circle. Computes each channel from hue H, saturation S and value V without a distinction of cases:
    f(n) = V - V S max(0, min(k, 4 - k, 1)) with k = (n + 6 H) mod 6 and n = 5, 3, 1 for red, green and blue. As in torchvision, f(n) is clipped to 0..1, except
    for the channels with k >= 4, which get V itself. This matters only for images with values outside of 0..1."""
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

    beyond = most - _within(most)

    def channel(n: float) -> DataNode:
        k = sixths + n
        k = k - 6.0 * math.floor(k / 6.0)
        return _within(most - span * math.clamp(math.min(k, 4.0 - k), 0.0, 1.0)) + fn.cast(k >= 4.0, dtype=types.FLOAT) * beyond

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
    for position in range(len(changes)):
        which = fn.constant(idata=[order[position] for order in orders], shape=[len(orders)], dtype=types.INT32)[drawn]
        for number, change in enumerate(changes):
            chosen = fn.cast(which == number, dtype=types.INT32)
            node = where(chosen if gate is None else chosen * gate, node, change)
    return node


# ---- rules ----


@lowers(
    T.ColorJitter,
    takes_units=True,
    channels=lambda t: () if t.contrast is None and t.saturation is None and t.hue is None else (1, 3),
    takes_floats=True,
    takes_clips=True,
    keeps_places=True,
)
def _jitter(image: Image, t: T.ColorJitter, gate: Gate) -> Image:
    return image.changed(_jitter_floats(image.node, t, gate, image.channels) if image.floats else _jitter_bytes(image.node, t, gate))


@lowers(T.GaussianNoise, takes_units=True, takes_floats=True, keeps_places=True)
def _noisy(image: Image, t: T.GaussianNoise, gate: Gate) -> Image:
    unit = 1 if image.floats else 255

    def change(node: DataNode) -> DataNode:
        made: DataNode = fn.noise.gaussian(node, mean=unit * t.mean, stddev=unit * t.sigma)
        return _within(made) if image.floats else made

    return image.changed(where(gate, image.node, change))


_GRAY: dict[str, Any] = {"takes_floats": True, "takes_clips": True, "channels": (3,), "counts_channels": True, "keeps_places": True}


@lowers(T.Grayscale, of_subclasses=True, **_GRAY, colors_gray=lambda t: t.num_output_channels == 3)
def _grayscale(image: Image, t: T.Grayscale, gate: Gate) -> Image:
    channels = t.num_output_channels
    if channels == 1 and gate is not None:
        raise UnsupportedError(
            f"{t!r} stands inside RandomApply, RandomChoice or RandomOrder, and only some images would have one channel: give RandomGrayscale(p) or "
            "Grayscale(3)"
        )
    if image.floats:
        node = _gray(image.node) if channels == 1 else where(gate, image.node, _gray_in_three)
    elif channels == 3:
        node = _luma(image.node, 1 if gate is None else gate)
    else:
        node = fn.color_space_conversion(image.node, image_type=types.RGB, output_type=types.GRAY)
    made = image.changed(node)
    made.gray, made.channels = image.gray or channels == 1, channels
    return made


@lowers(T.RandomGrayscale, of_subclasses=True, **_GRAY)
def _random_grayscale(image: Image, t: T.RandomGrayscale, gate: Gate) -> Image:
    if image.floats:
        return image.changed(_with(t.p, gate, image.node, _gray_in_three))
    return image.changed(_luma(image.node, coin(t.p, gate)))


def _luma(node: DataNode, gate: Any) -> DataNode:
    luma: DataNode = fn.color_twist(node, saturation=1.0 - gate * 1.0)
    return luma


@lowers(T.JPEG, keeps_places=True, channels=(3,))
def _jpeg(image: Image, t: T.JPEG, gate: Gate) -> Image:
    low, high = t.quality
    quality: Any = low if low == high else low + fn.cast(fn.random.choice(high - low + 1), dtype=types.INT32)
    return image.changed(where(gate, image.node, lambda node: fn.jpeg_compression_distortion(node, quality=quality)))


@lowers(T.RandomChannelPermutation, keeps_places=True, channels=(3,))
def _permutation(image: Image, t: T.RandomChannelPermutation, gate: Gate) -> Image:
    return image.changed(where(gate, image.node, _permuted))


@lowers(T.RandomAdjustSharpness, takes_units=True, takes_clips=True, keeps_places=True)
def _sharpness(image: Image, t: T.RandomAdjustSharpness, gate: Gate) -> Image:
    return image.changed(_with(t.p, gate, image.node, lambda node: fn.adjust_sharpness(node, factor=t.sharpness_factor)))


@lowers(T.RandomEqualize, takes_units=True, takes_clips=True, keeps_places=True)
def _equalize(image: Image, t: T.RandomEqualize, gate: Gate) -> Image:
    return image.changed(_with(t.p, gate, image.node, lambda node: fn.equalize(node, method="pillow")))


@lowers(T.RandomAutocontrast, takes_units=True, takes_clips=True, keeps_places=True)
def _autocontrast(image: Image, t: T.RandomAutocontrast, gate: Gate) -> Image:
    return image.changed(_with(t.p, gate, image.node, lambda node: fn.autocontrast(node)))
