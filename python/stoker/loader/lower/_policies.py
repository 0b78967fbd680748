# SPDX-License-Identifier: Apache-2.0
"""Rules of the automatic augmentations. Each sample draws a row of a table; the row holds operations and their magnitudes."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

from stoker import _transforms_policies as policies
from stoker import fn, math, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.errors import UnsupportedError
from stoker.loader.lower._rules import Gate, Image, lowers

Extent = tuple[Any, Any]  # height and width: numbers, or nodes

CODES = {
    name: code
    for code, name in enumerate(
        ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness", "Posterize"]
        + ["Solarize", "AutoContrast", "Equalize", "Invert", "SolarizeAdd"]
    )
}
_ENHANCES = ("Brightness", "Color", "Contrast", "Sharpness")


class Step(NamedTuple):
    """An operation for fn.augment. Its magnitude is magnitude + sign * floor(of_width * the image's width + of_height * the image's height)."""

    code: int = 0  # the operation, a value of CODES
    magnitude: float = 0.0
    of_width: float = 0.0
    of_height: float = 0.0
    sign: float = 1.0


def _single(x: float) -> float:
    value: float = struct.unpack("f", struct.pack("f", x))[0]
    return value


def linspace(start: float, end: float, bins: int, k: int) -> float:
    """Computes torch.linspace(start, end, bins)[k]."""
    start, end = _single(start), _single(end)
    step = _single((end - start) / (bins - 1))
    return _single(start + step * k) if k < bins // 2 else _single(end - step * (bins - 1 - k))


def _steps(name: str, most: float | None, bins: int, k: int, size: Extent, *, posterize: int = 8) -> list[Step]:
    """Returns the steps of an operation at bin k of `bins`: two of opposite sign if its magnitude has a sign, else one. most: the largest magnitude; None: the
    operation has no magnitude. posterize: number of bits that Posterize keeps at bin 0."""
    code = CODES[name]
    if most is None:
        return [Step(code)]
    if name == "Posterize":
        return [Step(code, float(round(posterize - k / ((bins - 1) / most))))]
    if name == "Solarize":
        # Rounds the threshold up to a whole number, which float32 represents exactly. This changes no pixel's side of the threshold.
        return [Step(code, float(ceil(most * linspace(1, 0, bins, k))))]
    if name.startswith("Translate") and most <= 1:
        extent = size[1] if name == "TranslateX" else size[0]
        if isinstance(extent, DataNode):
            share = most * k / (bins - 1)
            return [Step(code, 0.0, *((share, 0.0) if name == "TranslateX" else (0.0, share)), sign) for sign in (1.0, -1.0)]
        most *= extent
    value = linspace(0, most, bins, k)
    value = float(int(value)) if name.startswith("Translate") else value
    return [Step(code, (name in _ENHANCES) + sign * value) for sign in (1, -1)]


# ---- rows ----


class _Rows:
    """A table of steps from which each sample draws one row: by weight, or each row with the same probability."""

    def __init__(self, rows: Sequence[Sequence[Step]], size: Extent, weights: Sequence[float] | None = None) -> None:
        self.stages, self.size = len(rows[0]), size
        self.rows = rows
        chances: dict[str, Any] = {} if weights is None else {"p": [w / sum(weights) for w in weights]}
        self.drawn: DataNode = fn.random.choice(len(rows), **chances)

    def _fields(self, stage: int, field: str) -> list[Any]:
        return [getattr(row[stage], field) for row in self.rows]

    def _column(self, stage: int, field: str) -> Any:
        """Returns a field of the drawn row: a number if all rows have the same value, else a node."""
        values = self._fields(stage, field)
        return values[0] if len(set(values)) == 1 else fn.constant(fdata=values, shape=[len(values)], dtype=types.FLOAT)[self.drawn]

    def _magnitude(self, stage: int) -> Any:
        """Returns the magnitudes of all rows, or only of the drawn row if they depend on the image's size."""
        wide, high = self._column(stage, "of_width"), self._column(stage, "of_height")
        if not isinstance(wide, DataNode) and not isinstance(high, DataNode):
            return self._fields(stage, "magnitude")
        moved = math.floor(wide * self.size[1] + high * self.size[0])
        return self._column(stage, "magnitude") + moved * self._column(stage, "sign")

    def apply(self, node: DataNode, t: policies.Augmentation, gate: Gate = None) -> DataNode:
        """Applies the steps of the drawn row. Samples whose gate is 0 are not changed."""
        for stage in range(self.stages):
            codes, magnitude = self._fields(stage, "code"), self._magnitude(stage)
            row = self.drawn
            if gate is not None:  # if the gate is 0, row 0 (Identity) is used
                codes, row = [CODES["Identity"], *codes], (self.drawn + 1) * gate
                magnitude = [0.0, *magnitude] if isinstance(magnitude, list) else magnitude
            node = fn.augment(
                node, operation=codes, magnitude=magnitude, row=row, interp_type=t.interpolation, fill_value=t.fill_of("Image")
            )
        return node


def _equal_shares(options: Sequence[Sequence[Step]]) -> list[list[Step]]:
    """Makes rows such that all operations are equally likely, although some have one step and others several. options: the steps of each operation."""
    longest = max(map(len, options))
    return [[steps[k * len(steps) // longest]] for steps in options for k in range(longest)]


def _of_bins(space: policies.Space, bins: int, drawn: int, size: Extent, posterize: int) -> list[list[Step]]:
    """Returns the rows for drawing an operation of the space and one of its first `drawn` bins, both with equal probabilities. bins: number of all bins."""
    made = [[s for k in range(drawn) for s in _steps(name, most, bins, k, size, posterize=posterize)] for name, most in space.items()]
    return _equal_shares([steps if space[name] is not None else steps[:1] for name, steps in zip(space, made, strict=True)])


def _shares(alpha: float, count: int) -> list[Any]:
    """Draws `count` weights with the sum 1 from a symmetric Dirichlet distribution. Each weight takes a random share of what earlier weights left over."""
    left: Any = 1.0
    made: list[Any] = []
    for k in range(count - 1):
        part = left * fn.random.beta(alpha=alpha, beta=alpha * (count - 1 - k))
        made.append(part)
        left = left - part
    return [*made, left]


Augmenting = Callable[[DataNode, Any, Extent, Gate], DataNode]


def augments(kind: type[T.Transform], **answers: Any) -> Callable[[Augmenting], Augmenting]:
    """Registers a function that adds the operators of an automatic augmentation. The function gets the image's node, the transform, the image's height and
    width, and the gate, and returns the augmented node. kind: the class of the transform. answers: as in rule_for."""

    def registered(change: Augmenting) -> Augmenting:
        @lowers(kind, channels=(1, 3), takes_units=True, **answers)
        def lowered(image: Image, t: T.Transform, gate: Gate) -> Image:
            if image.followers is not None:
                raise UnsupportedError(
                    f"{t!r}: masks, boxes, points and further images cannot follow an automatic augmentation; leave it out, or do it in the Dataset"
                )
            if isinstance(t, policies.Augmentation):
                t, given = copy.copy(t), t
                t.fill = image.as_field().fill(given, image.byte_of_one)
            return image.changed(change(image.node, t, image.size(), gate))

        return change

    return registered


@augments(T.RandAugment, takes_clips=True)
def _rand(node: DataNode, t: T.RandAugment, size: Extent, gate: Gate) -> DataNode:
    options = [_steps(name, most, t.num_magnitude_bins, t.magnitude, size) for name, most in policies.NARROW.items()]
    for _ in range(t.num_ops):
        node = _Rows(_equal_shares(options), size).apply(node, t, gate)
    return node


@augments(T.TrivialAugmentWide, takes_clips=True)
def _trivial(node: DataNode, t: T.TrivialAugmentWide, size: Extent, gate: Gate) -> DataNode:
    return _Rows(_of_bins(policies.WIDE, t.num_magnitude_bins, t.num_magnitude_bins, size, 8), size).apply(node, t, gate)


@augments(T.AutoAugment, takes_clips=True)
def _auto(node: DataNode, t: T.AutoAugment, size: Extent, gate: Gate) -> DataNode:
    space = {**policies.NARROW, "Invert": None}
    rows: list[list[Step]] = []
    weights: list[float] = []
    for line in policies.POLICIES[t.policy.value].strip().splitlines():
        outcomes: list[list[tuple[Step, float]]] = []
        for name, chance, *bins in (step.split() for step in line.split(",")):
            steps, p = _steps(name, space[name] if bins else None, 10, int(bins[0]) if bins else 0, size), float(chance)
            outcomes.append([(Step(), 1 - p), *((step, p / len(steps)) for step in steps)])
        for first, p in outcomes[0]:
            for second, q in outcomes[1]:
                if p * q > 0:
                    rows.append([first, second])
                    weights.append(p * q)
    return _Rows(rows, size, weights).apply(node, t, gate)


@augments(T.AugMix, takes_clips=True)
def _mix(node: DataNode, t: T.AugMix, size: Extent, gate: Gate) -> DataNode:
    space = {name: most for name, most in policies.MIXED.items() if t.all_ops or name not in _ENHANCES}
    rows = _of_bins(space, 10, t.severity, size, 4)
    of_image, of_chains = _shares(t.alpha, 2)
    mixed = node * of_image
    for share in _shares(t.alpha, t.mixture_width):
        chain, depth = node, fn.random.choice(3) if t.chain_depth < 0 else None
        for stage in range(t.chain_depth if depth is None else 3):
            goes = None if depth is None or stage == 0 else fn.cast(depth >= stage, dtype=types.INT32)
            chain = _Rows(rows, size).apply(chain, t, goes)
        mixed = mixed + chain * (share * of_chains)
    whole: DataNode = fn.cast(math.floor(mixed), dtype=types.UINT8)
    return whole if gate is None else fn.cast(whole * gate + node * (1 - gate), dtype=types.UINT8)
