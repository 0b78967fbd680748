# SPDX-License-Identifier: Apache-2.0
"""A simulated task: move a hand to a square on a table. Positions are x and y from 0 to 1."""

from __future__ import annotations

import numpy as np

SIZE, SPEED, FPS = 64, 0.07, 10  # side of a picture in pixels; longest step of the hand, if the table's side is 1; steps per second
CAMERAS = ("observation.images.top", "observation.images.wrist")


class Table:
    """The hand and the square on the table, which begin at random positions."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.hand, self.square = rng.uniform(0.1, 0.9, 2), rng.uniform(0.1, 0.9, 2)
        self._grain = rng.integers(0, 50, (SIZE, SIZE, 3), dtype=np.uint8)

    def expert(self) -> np.ndarray:
        """Returns the position to which an expert moves the hand next."""
        way = self.square - self.hand
        return self.hand + way * min(1, SPEED / max(np.linalg.norm(way), 1e-9))

    def step(self, goal: np.ndarray) -> None:
        way = np.clip(goal, 0, 1) - self.hand
        self.hand = self.hand + way * min(1, SPEED / max(np.linalg.norm(way), 1e-9))

    @property
    def reached(self) -> bool:
        return bool(np.linalg.norm(self.hand - self.square) < 0.06)

    def pictures(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pictures of two cameras: the table from above, and the surroundings of the hand at twice the size."""
        top = self._grain.copy()
        y, x = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1)
        top[np.maximum(abs(x - self.square[0]), abs(y - self.square[1])) < 0.06] = (40, 220, 60)
        top[(x - self.hand[0]) ** 2 + (y - self.hand[1]) ** 2 < 0.05**2] = (230, 50, 40)
        left, upper = (round(p * (SIZE - 1)) for p in self.hand)
        around = np.pad(top, ((16, 16), (16, 16), (0, 0)))[upper : upper + 32, left : left + 32]
        return top, around.repeat(2, 0).repeat(2, 1)
