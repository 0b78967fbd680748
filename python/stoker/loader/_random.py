# SPDX-License-Identifier: Apache-2.0
"""Derives seeds, and makes a random generator for each sample."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stoker.errors import StateError

# The numbers from which a sample's random generator is seeded: seed, epoch, position, and the rank if each rank counts its own positions, else 0.
Place = tuple[int, ...]
current = (
    threading.local()
)  # place: the Place from which this thread's sample is seeded, or None. generator: its generator, or None before sample_rng() is called


def mix(seed: int, *parts: int) -> int:
    """Derives a seed of 56 bits from another seed and further numbers, by a hash."""
    import hashlib

    text = ":".join(str(p) for p in (seed, *parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little")


def bijection(size: int, *key: int) -> Callable[[int], int]:
    """Returns a function that maps the numbers 0 .. size - 1 to each other in a random order, which depends only on the key and is not stored. It takes some 30
    microseconds a number.

    Six rounds of a Feistel network are a bijection of numbers of an even number of bits. A result of `size` or more goes through it again until it is less."""
    half = (max(size - 1, 1).bit_length() + 1) // 2
    mask = (1 << half) - 1

    def at(number: int) -> int:
        while True:
            left, right = number >> half, number & mask
            for turn in range(6):
                left, right = right, left ^ (mix(*key, turn, right) & mask)
            number = left << half | right
            if number < size:
                return number

    return at


def sample_rng() -> Any:
    """Returns a numpy.random.Generator for the sample that is being fetched. Use it in a Dataset's __getitem__, or in a function among the transforms.

    Its numbers depend only on the Loader's seed, the epoch and the sample's position. They are the same in any thread or process, and after a run was
    resumed. The global generators (random, numpy.random, torch) do not have this property, because all threads share them; only with Loader(python_workers=N)
    does each process seed its own for each sample. Raises StateError if no sample is being fetched.
    """
    import numpy as np

    place = getattr(current, "place", None)
    if place is None:
        raise StateError("sample_rng() belongs to one sample: call it inside the __getitem__ of a Dataset that a Loader reads")
    if getattr(current, "generator", None) is None:
        current.generator = np.random.Generator(np.random.Philox(key=mix(*place)))
    return current.generator


@contextmanager
def random_numbers(place: Place) -> Iterator[None]:
    """A context in which sample_rng() returns a generator that is seeded from `place`."""
    current.place, current.generator = place, None
    try:
        yield
    finally:
        current.place = None


@contextmanager
def same_generators() -> Iterator[None]:
    """A context that restores the states of the program's random generators (random, NumPy, torch) at its end."""
    import random

    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    states = random.getstate(), numpy and numpy.random.get_state(), torch and torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        if numpy is not None:
            numpy.random.set_state(states[1])
        if torch is not None:
            torch.set_rng_state(states[2])
