# SPDX-License-Identifier: Apache-2.0
"""Derives seeds, and gives each sample its own random numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stoker.errors import StateError

# Seeds a sample's random numbers: seed, epoch, position, and the rank if each rank counts its own positions, else 0.
Place = tuple[int, ...]
current = (
    threading.local()
)  # place: the place of the sample that this thread fetches, or None. generator: its generator, or None before sample_rng() is called


def mix(seed: int, *parts: int) -> int:
    """Derives a seed from another seed and further numbers, for an independent sequence of random numbers."""
    import hashlib

    text = ":".join(str(p) for p in (seed, *parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little")


def sample_rng() -> Any:
    """A numpy.random.Generator of the sample that a Dataset is asked for, for random numbers in its own code.

    Call it inside __getitem__: its numbers follow only from the Loader's seed, the epoch and the sample's position, whatever thread or process runs and
    wherever a run was resumed. The global generators (random, numpy.random, torch) are shared by all threads, the training loop's included; with
    Loader(python_workers=N) each process seeds its own for each sample.
    """
    import numpy as np

    place = getattr(current, "place", None)
    if place is None:
        raise StateError("sample_rng() is of a sample: call it inside the __getitem__ of a Dataset that a Loader reads")
    if getattr(current, "generator", None) is None:
        current.generator = np.random.Generator(np.random.Philox(key=mix(*place)))
    return current.generator


@contextmanager
def random_numbers(place: Place) -> Iterator[None]:
    """A context in which sample_rng() returns the generator of the sample at `place`."""
    current.place, current.generator = place, None
    try:
        yield
    finally:
        current.place = None
