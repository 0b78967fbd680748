# SPDX-License-Identifier: Apache-2.0
"""Classes of operators, operators that are called outside of a pipeline definition, users' functions, and fn.eager, on a machine with a GPU."""

from __future__ import annotations

import contextlib
import sys
import types as types_of_python
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stoker import Pipeline, fn, ops, types
from stoker.errors import UnsupportedError
from stoker.tensors import TensorListGPU


def outputs(tree: Path, gpu: bool) -> list[Any]:
    files, labels = ops.readers.File(file_root=str(tree))()
    image = ops.decoders.Image(device="mixed" if gpu else "cpu")(files)
    small = ops.Resize(size=(16, 12), device="gpu" if gpu else "cpu")(image)
    by_sample = fn.python_function(small.cpu(), function=lambda x: x[::2].astype(np.float32))
    by_batch = fn.python_function(fn.decoders.image(files), function=lambda xs: [x[:2, :2] for x in xs], batch_processing=True)
    return [small, (labels.gpu() if gpu else labels) + 1, (by_sample.gpu() if gpu else by_sample) * 2, by_batch]


@pytest.mark.parametrize("loose", [False, True])
def test_functions_and_loose_operators_give_what_the_cores_give(tree: Path, loose: bool) -> None:
    pipes = []
    for device_id in (None, 0):
        pipe = Pipeline(4, 2, device_id, seed=4)
        if loose:
            pipe.set_outputs(*outputs(tree, device_id == 0))
        else:
            with pipe:
                pipe.set_outputs(*outputs(tree, device_id == 0))
        pipes.append(pipe)
    for _ in range(4):
        for k, (host, device) in enumerate(zip(*(pipe.run() for pipe in pipes), strict=True)):
            assert isinstance(device, TensorListGPU) == (k < 3)
            for a, b in zip(host, device.as_cpu(), strict=True):
                np.testing.assert_allclose(np.asarray(a).astype(float), np.asarray(b).astype(float), atol=2 if k in (0, 2) else 0)


def test_places_of_what_has_no_pipeline_yet() -> None:
    fed = fn.external_source(name="in", device="gpu")
    assert fed.device == "gpu"
    pipe = Pipeline(2, 1, 0)
    pipe.set_outputs(fed + 1, types.Constant(np.float32([1, 2]), device="gpu"))
    for key in ("in", fed):
        pipe.feed_input(key, np.ones((2, 3), np.float32))
        more, constant = pipe.run()
        assert isinstance(more, TensorListGPU) and isinstance(constant, TensorListGPU)
        assert more.as_cpu().as_array().tolist() == [[2] * 3] * 2 and constant.as_cpu().as_array().tolist() == [[1, 2]] * 2
    (small,) = fn.eager.resize([np.zeros((8, 8, 3), np.uint8)], size=4, device="gpu")
    assert small.shape == (4, 4, 3)
    with Pipeline(2, 1, 0), pytest.raises(UnsupportedError, match=r"\.cpu\(\)"):
        fn.python_function(fn.random.uniform().gpu(), function=abs)


def test_functions_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function gets the right values on the right device. An array that only claims to be on the GPU replaces one of CuPy."""
    places: list[int] = []

    class Device(contextlib.AbstractContextManager[None]):
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None:
            places.append(self.index)

        def __exit__(self, *_: object) -> None:
            places.pop()

    class Array:
        __cuda_array_interface__ = "not read: get() gives the values"

        def __init__(self, host: np.ndarray) -> None:
            self.host = host

        def get(self) -> np.ndarray:
            return self.host

    cupy = types_of_python.SimpleNamespace(asarray=Array, cuda=types_of_python.SimpleNamespace(Device=Device))
    monkeypatch.setitem(sys.modules, "cupy", cupy)

    def one(x: Array) -> tuple[Array, Array]:
        assert isinstance(x, Array) and places == [0]
        return Array(x.host * 2), Array(x.host.astype(np.float32).sum())

    def all_of_them(xs: list[Array]) -> list[Array]:
        assert len(xs) == 2 and places == [0]
        return [Array(x.host + 1) for x in xs]

    pipe = Pipeline(2, 1, 0)
    with pipe:
        x = fn.external_source(source=[[np.uint8([1, 2, 3]), np.uint8([4])]], cycle=True).gpu()
        twice, total = fn.python_function(x, function=one, num_outputs=2, device="gpu")
        more = fn.python_function(twice, function=all_of_them, device="gpu", batch_processing=True)
        assert twice.device == total.device == more.device == "gpu"
        pipe.set_outputs(twice + 0, total, more)
    a, b, c = (o.as_cpu() for o in pipe.run())
    assert [t.tolist() for t in (a.at(0), a.at(1), b.at(0), b.at(1), c.at(0), c.at(1))] == [[2, 4, 6], [8], 6, 4, [3, 5, 7], [9]]
    monkeypatch.setitem(sys.modules, "cupy", None)
    with Pipeline(2, 1, 0), pytest.raises(UnsupportedError, match=r"library that is missing: .*cupy"):
        fn.python_function(fn.random.uniform().gpu(), function=abs, device="gpu")
