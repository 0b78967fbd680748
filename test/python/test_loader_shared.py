# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader over Datasets whose calls share something: buffers that are filled again."""

import threading

import numpy as np
import pytest
import torch
from stoker import Loader
from stoker.loader._shared import owned
from torch.utils.data import IterableDataset


class Frames(IterableDataset):
    """Fills one frame and one target after the other; make: what a sample is made of the two."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        frame, target = np.zeros((16, 16, 3), np.uint8), np.zeros((), np.int64)
        for i in range(24):
            frame[:], target[...] = i, i
            yield self.make(frame, target, i)


class Buffers:
    """As Frames, with a frame and a target for each thread."""

    def __init__(self, make):
        self.make, self.own = make, threading.local()

    def __len__(self):
        return 24

    def __getitem__(self, i):
        own = self.own.__dict__
        frame, target = own.setdefault("frame", np.zeros((16, 16, 3), np.uint8)), own.setdefault("target", np.zeros((), np.int64))
        frame[:], target[...] = i, i
        return self.make(frame, target, i)


SAMPLES = {
    "arrays": lambda frame, target, i: (frame, target),
    "views": lambda frame, target, i: (frame[::-1][:8], target[()]),
    "tensors": lambda frame, target, i: (torch.from_numpy(frame).permute(2, 0, 1), torch.from_numpy(target)),
    "dicts": lambda frame, target, i: {"image": frame, "label": target},
    "bytes": lambda frame, target, i: (memoryview(b"P6 16 16 255\n").obj + frame.tobytes(), target),
}


@pytest.mark.parametrize("samples", SAMPLES)
@pytest.mark.parametrize("kind", [Frames, Buffers])
def test_buffers_that_are_filled_again(kind, samples):
    """Samples of later batches are fetched before an earlier batch is read."""
    for _ in range(3):
        loader = Loader(kind(SAMPLES[samples]), 2, dtype=torch.uint8)
        pairs = [(image.unique().tolist(), int(label)) for images, labels in loader for image, label in zip(images, labels, strict=True)]
        assert pairs == [([i], i) for i in range(24)]


@pytest.mark.parametrize("reads", ["bytearray", "memoryview", "array"])
def test_a_buffer_that_files_are_read_into(files, reads):
    class Reader(IterableDataset):
        def __iter__(self):
            buffer = bytearray(1 << 20)
            for file in files:
                data = file.read_bytes()
                if reads == "bytearray":
                    buffer[:] = data
                    yield buffer
                else:
                    buffer[: len(data)] = data
                    view = memoryview(buffer)[: len(data)]
                    yield view if reads == "memoryview" else np.frombuffer(view, np.uint8)

    plain = Loader([str(f) for f in files], 1, dtype=torch.uint8, fields=["image"])
    for (image,), (want,) in zip(Loader(Reader(), 1, dtype=torch.uint8, fields=["image"]), plain, strict=True):
        assert torch.equal(image, want)


def test_what_is_copied():
    """What somebody else may write to, and nothing else."""
    kept, mapped = np.zeros((4, 8, 8, 3), np.uint8), np.frombuffer(bytes(192), np.uint8).reshape(8, 8, 3)
    base, locked = np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8, 3), np.uint8)
    locked.flags.writeable = False

    def same(make):
        row = (make(),)
        (part,) = owned(row)
        assert np.array_equal(part, row[0])
        return part is row[0]

    alone = [
        lambda: np.zeros((8, 8, 3), np.uint8),
        lambda: np.zeros((8, 8, 3), np.uint8)[::-1, 2:],
        lambda: np.zeros((8, 8, 3), np.uint8).reshape(-1)[:4].reshape(2, 2),
        lambda: mapped,
        lambda: mapped[2:],
        lambda: locked,
        lambda: locked[2:],
        lambda: bytes(8),
        lambda: bytearray(8),
    ]
    shared = [lambda: kept, lambda: kept[1], lambda: kept[1][::-1], lambda: base, lambda: base[..., None], lambda: torch.zeros(3)]
    assert [same(make) for make in alone] == [True] * len(alone)
    assert [same(make) for make in shared] == [False] * len(shared)
