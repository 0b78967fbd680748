# SPDX-License-Identifier: Apache-2.0
"""Handover, which gives a training loop the tensors of a batch: their shapes, their memory, and the GIL while a ready batch is taken."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest
import torch
from stoker import Pipeline, fn
from stoker.plugin._handover import AS_IT_LIES, CHANNELS_FIRST, NUMBERS, Handover

BATCH = 3


def of_arrays(arrays, layout=None):
    """Returns a pipeline that delivers a batch of these samples again and again."""
    pipe = Pipeline(BATCH, 2, None, 1)
    with pipe:
        pipe.set_outputs(fn.external_source(lambda: list(arrays), layout=layout))
    return pipe


SHAPES = [
    ((), None),
    ((1,), None),
    ((1, 1), None),
    ((2,), None),
    ((5, 4, 3), "HWC"),
    ((1, 1, 1), "HWC"),
    ((2, 5, 4, 3), "FHWC"),
    ((3, 5, 4), "CHW"),
]


@pytest.mark.parametrize(("shape", "layout"), SHAPES)
@pytest.mark.parametrize("view", [AS_IT_LIES, CHANNELS_FIRST, NUMBERS])
def test_views_have_the_shape_and_strides_of_torch(shape, layout, view):
    rng = np.random.default_rng(len(shape))
    arrays = [rng.integers(0, 255, shape, dtype=np.uint8).reshape(shape) for _ in range(BATCH)]
    batch = of_arrays(arrays, layout)._next()
    (tensor,) = Handover([view], batch).tensors(batch)
    wanted = torch.from_numpy(np.stack(arrays))
    if view == CHANNELS_FIRST and layout in ("HWC", "FHWC"):
        wanted = wanted.movedim(-1, -3)
    if view == NUMBERS and wanted.numel() == BATCH:
        wanted = wanted.reshape(BATCH)
    assert tensor.dtype == wanted.dtype and tensor.shape == wanted.shape and torch.equal(tensor, wanted)
    assert tensor.stride() == wanted.stride()
    tensor.fill_(9)  # writes to the batch's memory
    (again,) = Handover([AS_IT_LIES], batch).tensors(batch)
    assert (again == 9).all()


def test_samples_that_differ_have_no_tensor():
    batch = of_arrays([np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((2, 2))])._next()
    assert Handover([AS_IT_LIES], batch).tensors(batch) == [None]


def test_more_views_than_outputs():
    batch = of_arrays([np.zeros(2)] * BATCH)._next()
    with pytest.raises(IndexError, match="2 views of 1 outputs"):
        batch.capsules(bytes(2), 0)


def test_a_tensor_holds_its_batch():
    pipe = of_arrays([np.full((4,), 7.0)] * BATCH)
    batch = pipe._next()
    held = Handover([AS_IT_LIES], batch).tensors(batch)
    del batch
    for _ in range(8):
        other = pipe._next()
        Handover([AS_IT_LIES], other).tensors(other)[0].fill_(1.0)
    assert (held[0] == 7.0).all()
    pipe.close()
    assert (held[0] == 7.0).all()


def test_a_batch_that_is_ready_is_taken_without_giving_up_the_interpreter(tree):
    """No other Python thread runs while a batch that is ready is taken. If it did, it could stop the loop's thread for a switch interval at each batch."""
    pipe = Pipeline(BATCH, 2, None, 1, prefetch_queue_depth=2)
    with pipe:
        pipe.set_outputs(fn.readers.file(file_root=str(tree), name="Reader")[1])
    core = pipe._running()
    core.start()
    while core.counters()["samples"] < 2 * BATCH:
        time.sleep(0.001)
    time.sleep(0.1)
    begin, stop, laps = threading.Event(), threading.Event(), [0]

    def busy():
        begin.wait()
        while not stop.is_set():
            laps[0] += 1

    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(60.0)
    try:
        begin.set()
        until = time.perf_counter() + 0.05  # time in which the other thread wakes up and waits for the interpreter's lock
        while time.perf_counter() < until:
            pass
        lapped = laps[0]
        batch = core.next()
        assert laps[0] == lapped, "the interpreter was given up for a batch that lay ready"
    finally:
        stop.set()
        sys.setswitchinterval(before)
    thread.join()
    assert len(batch) == BATCH
