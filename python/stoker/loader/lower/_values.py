# SPDX-License-Identifier: Apache-2.0
"""Rules of the transforms that change values one by one, blur, or erase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import fn, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.errors import UnsupportedError
from stoker.loader.lower._follow import in_bytes
from stoker.loader.lower._rules import Gate, Image, Parts, Rule, coin, lowers, rule_for


def _wide(node: DataNode) -> DataNode:
    wide: DataNode = fn.cast(node, dtype=types.INT32)
    return wide


def _as_bytes(node: DataNode) -> DataNode:
    narrow: DataNode = fn.cast(node, dtype=types.UINT8)
    return narrow


def _inverted(image: Image, chosen: DataNode) -> Image:
    """Replaces bytes by 255 - value, and floats, on the scale 0..1, by 1 - value. chosen: a node that is 1 for the values to replace, else 0."""
    node = image.node
    return image.changed(node + chosen * (1.0 - 2.0 * node) if image.floats else _as_bytes(node + chosen * (255 - 2 * _wide(node))))


@lowers(T.RandomInvert, of_subclasses=True, takes_units=True, takes_floats=True, takes_clips=True, keeps_places=True)
def _invert(image: Image, t: T.RandomInvert, gate: Gate) -> Image:
    return _inverted(image, coin(t.p, gate))


@lowers(T.RandomSolarize, of_subclasses=True, takes_units=True, takes_floats=True, takes_clips=True, keeps_places=True)
def _solarize(image: Image, t: T.RandomSolarize, gate: Gate) -> Image:
    drawn = coin(t.p, gate)
    (threshold,) = [t.threshold] if t.threshold < 0 else image.in_bytes(t, "threshold", [t.threshold])  # all values are above one below 0
    return _inverted(image, drawn * fn.cast(image.node >= threshold, dtype=types.INT32))


@lowers(T.RandomPosterize, of_subclasses=True, takes_units=True, takes_clips=True, keeps_places=True)
def _posterize(image: Image, t: T.RandomPosterize, gate: Gate) -> Image:
    dropped = (1 << (8 - t.bits)) - 1
    return image.changed(_as_bytes(image.node - coin(t.p, gate) * (_wide(image.node) & dropped)))


@lowers(T.GaussianBlur, of_subclasses=True, takes_floats=True, takes_clips=True, keeps_places=True)
def _blur(image: Image, t: T.GaussianBlur, gate: Gate) -> Image:
    """Blurs the image. If the gate is 0, the window is one pixel, which changes nothing."""
    width, height = t.kernel_size  # as in torchvision, the width comes first
    low, high = t.sigma
    sigma = fn.random.uniform(range=[low, high]) if low < high else low
    window: Any = [height, width] if gate is None else fn.stack(1 + gate * (height - 1), 1 + gate * (width - 1))
    return image.changed(fn.gaussian_blur(image.node, sigma=sigma, window_size=window))


@rule_for(T.RandomErasing, of_subclasses=True, takes_floats=lambda t: t.noise is None, takes_clips=True, keeps_places=True)
class _Erasing(Rule):
    def lowered(self, image: Image, gate: Gate) -> Image:
        if self.t.noise:
            raise UnsupportedError(
                f"{self.t!r} stands inside RandomApply, RandomChoice or RandomOrder, where images are bytes: put it at the list's end"
            )
        value = image.in_bytes(self.t, "value", self.t.value)
        return image.changed(erase(image.node, self.t, value, image.size(), coin(self.t.p, gate)))

    def stand_after(self, parts: Parts) -> None:
        """As in Rule. If no transform has set a type, the value is for floats from 0 to 1, because torchvision's RandomErasing comes after ToTensor."""
        self.byte_of_one = 255.0 if parts.unit and parts.dtype != types.UINT8 else 1.0

    def add_to(self, parts: Parts) -> None:
        """Adds the erasing to the steps, which work on 0..255, or to the erasings of the finished image."""
        if parts.finished or self.t.noise:
            parts.erasings.append(self.t)
        else:
            parts.steps.append(self)

    def check_for_bytes(self) -> None:
        in_bytes(self.t, "value", self.t.value, self.byte_of_one)


def erase(node: DataNode, t: T.RandomErasing, value: Sequence[float], extent: tuple[Any, Any], gate: Any) -> DataNode:
    """Replaces a random window. t.noise says by what: by random pixels ("values"), by one random color ("channels"), or by `value` (None). value: t.value on the
    scale of the node. gate: a node, or the number 1; if it is 0, the window is empty. extent: the image's height and width. t.ratio is height / width, as in
    torchvision; fn.random_crop_generator takes width / height."""
    size = types.Constant(list(extent), dtype=types.INT32) if isinstance(extent[0], int) else fn.stack(*extent)
    low, high = t.ratio
    anchor, shape = fn.random_crop_generator(size, random_area=list(t.scale), random_aspect_ratio=[1 / high, 1 / low], smaller=True)
    where: dict[str, Any] = {"anchor": anchor, "shape": shape * gate}
    if t.noise == "values":
        noisy: DataNode = fn.erase_noise(node, axis_names="HW", **where)
        return noisy
    fill = list(value) if t.noise is None else fn.random.normal(shape=[3])
    erased: DataNode = fn.cutout(node, fill_value=fill, **where)
    return erased
