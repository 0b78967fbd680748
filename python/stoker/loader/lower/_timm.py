# SPDX-License-Identifier: Apache-2.0
"""Rules of timm's automatic augmentations. Each sample draws an operation, a level, a sign, and whether the operation is applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import fn, math, types
from stoker._transforms_timm import Levelled, LevelledAugment
from stoker.data_node import DataNode
from stoker.loader.lower._policies import CODES, Extent, augments
from stoker.loader.lower._rules import Gate, one_of


class _Drawn:
    """The steps at one position in the sequences of a LevelledAugment, as a table with a row for each sequence. row: a node with the drawn row's index."""

    def __init__(self, steps: Sequence[Levelled], row: DataNode) -> None:
        self.steps, self.row = steps, row

    def column(self, values: Sequence[float]) -> Any:
        """Returns the drawn row's value: a number if all values are equal, else a node."""
        if all(v == values[0] for v in values):
            return values[0]
        return fn.constant(fdata=[float(v) for v in values], shape=[len(values)], dtype=types.FLOAT)[self.row]

    def field(self, name: str) -> Any:
        return self.column([float(getattr(step, name)) for step in self.steps])

    def term(self) -> Any:
        """Returns min(level * slope, most) for the drawn level (at most `highest`), truncated to a whole number if the operation's `whole` is set."""
        if all(step.deviation == 0 for step in self.steps):
            terms = [min(step.highest, step.level) / 10 * (step.slope * 10) for step in self.steps]
            return self.column([min(s.most, float(int(t + 1e-9)) if s.whole else t) for s, t in zip(self.steps, terms, strict=True)])
        if all(step.deviation == float("inf") for step in self.steps):
            level = self.field("level") * fn.random.uniform(range=[0.0, 1.0])
        else:
            level = self.field("level") + self.field("deviation") * fn.random.normal()
        term = math.clamp(level, 0.0, self.field("highest")) * self.field("slope")
        return math.min(term - self.field("whole") * (term - math.floor(term)), self.field("most"))

    def magnitude(self, size: Extent) -> Any:
        direction = self.field("direction")
        signed = self.column([float(step.direction == 0) for step in self.steps])
        sign = direction + signed * (2.0 * fn.random.coin_flip() - 1.0)
        extents = [self.column([float(step.of == of) for step in self.steps]) for of in ("width", "height")]
        scale = 1.0 + extents[0] * (size[1] - 1.0) + extents[1] * (size[0] - 1.0)
        return math.max(self.field("start") + sign * self.term(), self.field("least")) * scale


@augments(LevelledAugment)
def _levelled(node: DataNode, t: LevelledAugment, size: Extent, gate: Gate) -> DataNode:
    for _ in range(t.draws):
        row = fn.random.choice(len(t.sequences))
        for steps in zip(*t.sequences, strict=True):
            drawn = _Drawn(steps, row)
            coin = fn.cast(fn.random.uniform(range=[0.0, 1.0]) < drawn.field("chance"), dtype=types.INT32)
            codes = fn.constant(idata=[CODES[step.name] for step in steps], shape=[len(steps)], dtype=types.INT32)[row]
            node = fn.augment(
                node,
                operation=codes * coin if gate is None else codes * coin * gate,
                magnitude=drawn.magnitude(size),
                interp_type=one_of(t.interpolations),
                fill_value=t.fill,
            )
    return node
