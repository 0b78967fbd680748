# SPDX-License-Identifier: Apache-2.0
"""Rules of the transforms that apply other transforms, and of those that do nothing. A group's attributes, such as takes_clips, follow from those of its
parts."""

from __future__ import annotations

import itertools

from stoker import fn, types
from stoker import transforms as T
from stoker.loader.lower._rules import Gate, Image, Parts, Rule, Size, coin, lowers, rule_for, rule_of


@rule_for(T.Group, of_subclasses=True)
class _Group(Rule):
    """The rule of a group that applies all parts to the same samples, in order."""

    def __init__(self, t: T.Group) -> None:
        super().__init__(t)
        self.parts = [rule_of(part) for part in t.transforms]
        self.takes_clips = all(part.takes_clips for part in self.parts)
        self.keeps_places = all(part.keeps_places for part in self.parts)
        self.counts_channels = any(part.counts_channels for part in self.parts)
        self.calls_function = any(part.calls_function for part in self.parts)
        for part in self.parts:
            self.fixes_size = part.fixes_size or (self.fixes_size and not part.draws(True))

    def stand_after(self, parts: Parts) -> None:
        super().stand_after(parts)
        for part in self.parts:
            part.stand_after(parts)

    def apply(self, image: Image, gate: Gate = None) -> Image:
        """Changes an image without the checks of Rule.apply, because each part of the group makes them itself."""
        return self.lowered(image, gate)

    def lowered(self, image: Image, gate: Gate) -> Image:
        for part in self.parts:
            image = part.apply(image, gate)
        return image

    def draws(self, boxes: bool) -> bool:
        return any(part.draws(boxes) for part in self.parts)

    def size_after(self, size: Size) -> Size | None:
        after: Size | None = size
        for part in self.parts:
            after = None if after is None else part.size_after(after)
        return after


@rule_for(T.RandomApply)
class _Apply(_Group):
    def lowered(self, image: Image, gate: Gate) -> Image:
        return super().lowered(image, coin(self.t.p, gate))


@rule_for(T.RandomChoice)
class _Choice(_Group):
    def lowered(self, image: Image, gate: Gate) -> Image:
        chosen = fn.random.choice(len(self.parts), p=self.t.p)
        for number, option in enumerate(self.parts):
            taken = fn.cast(chosen == number, dtype=types.INT32)
            image = option.apply(image, taken if gate is None else taken * gate)
        return image


@rule_for(T.RandomOrder)
class _Order(_Group):
    def lowered(self, image: Image, gate: Gate) -> Image:
        """First applies the transforms whose position in the order does not matter. Then, for each position in the order, adds the operators of all other
        transforms, with gates that let only one of them change a sample: the one that the sample's random permutation has at this position."""
        in_random_order = self.t.in_random_order()
        shuffled = [part for part in self.parts if any(part.t is s for s in in_random_order)]
        for part in self.parts:
            if part not in shuffled:
                image = part.apply(image, gate)
        if not shuffled:
            return image
        orders = list(itertools.permutations(range(len(shuffled))))
        drawn = fn.random.choice(len(orders))
        for position in range(len(shuffled)):
            which = fn.constant(idata=[order[position] for order in orders], shape=[len(orders)], dtype=types.INT32)[drawn]
            for number, part in enumerate(shuffled):
                taken = fn.cast(which == number, dtype=types.INT32)
                image = part.apply(image, taken if gate is None else taken * gate)
        return image


@lowers(T.Identity, of_subclasses=True, takes_floats=True, takes_clips=True, keeps_places=True, does_nothing=True)
def _unchanged(image: Image, t: T.Identity, gate: Gate) -> Image:
    return image


@rule_for(T.RGB, of_subclasses=True, takes_floats=True, takes_clips=True, counts_channels=True, colors_gray=True, keeps_places=True)
class _RGB(Rule):
    def lowered(self, image: Image, gate: Gate) -> Image:
        return image

    def add_to(self, parts: Parts) -> None:
        parts.steps.append(self)
