# SPDX-License-Identifier: Apache-2.0
"""Runs the same pipeline on the cores and on the GPU, and compares the outputs byte by byte. Nothing here needs torch."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from stoker import Pipeline, fn, types
from stoker.errors import StokerError
from stoker.tensors import TensorListGPU
from support import SEED

MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


@functools.cache
def usable(device_id: int) -> str:
    """Returns the reason why this GPU cannot be used; "" if it can be used."""
    try:
        pipe = Pipeline(batch_size=1, num_threads=1, device_id=device_id)
        with pipe:
            pipe.set_outputs(fn.constant(idata=[1, 2, 3]).gpu())
        pipe.run()
        pipe.close()
    except StokerError as e:
        return str(e)
    return ""


@functools.cache
def emulated() -> bool:
    """Returns whether this process's CUDA driver is the one that the tests emulate on the host."""
    name = ctypes.create_string_buffer(100)
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return cuda.cuInit(0) == 0 and cuda.cuDeviceGetName(name, 100, 0) == 0 and name.value == b"emulated GPU"


def why_no_gpu() -> str:
    """Returns the reason why GPU 0 cannot be used; "" if it can be used."""
    return usable(0)


@functools.cache
def gpus() -> int:
    """Returns how many of GPUs 0 and 1 are usable; 0 if GPU 0 is not."""
    return sum(not usable(i) for i in range(2)) if not usable(0) else 0


def size_of(dtype: types.DALIDataType) -> int:
    return 2 if dtype == types.BFLOAT16 else np.dtype(types.dtype_name(dtype)).itemsize


def raw(tensor: Any) -> bytes:
    """Returns the bytes of a tensor in host memory, of any type."""
    return ctypes.string_at(tensor.data_ptr(), math.prod(tensor.shape()) * size_of(tensor.dtype))


@dataclass
class Output:
    """One output of a batch, in host memory."""

    kind: str
    dtype: types.DALIDataType
    layout: str
    shapes: list[tuple[int, ...]]
    data: list[bytes]
    sources: list[str]
    places: list[Any]

    @classmethod
    def of(cls, output: Any) -> Output:
        host = output.as_cpu()
        return cls(
            "gpu" if isinstance(output, TensorListGPU) else "cpu",
            output.dtype,
            output.layout(),
            output.shape(),
            [raw(t) for t in host],
            host.source_info(),
            [(t.get_property("epoch"), t.get_property("position"), t.get_property("replaced")) for t in host],
        )


def difference(a: Output, b: Output) -> str:
    """Describes the first difference between two outputs, apart from their devices; "" if the outputs are equal. Any two NaN are equal, because a sum with a NaN
    gives other bits on a GPU than on a core."""
    for what in ("dtype", "layout", "shapes", "sources", "places"):
        if getattr(a, what) != getattr(b, what):
            return f"{what}: {getattr(a, what)} on the cores, {getattr(b, what)} on the GPU"
    for i, (x, y) in enumerate(zip(a.data, b.data, strict=True)):
        if x != y and not _only_nan_differs(a.dtype, x, y):
            return f"sample {i} ({a.sources[i]}) of shape {a.shapes[i]}, {a.dtype!r}: {_numbers(a, x, y)}"
    return ""


def numbers(dtype: types.DALIDataType, data: bytes) -> np.ndarray:
    if dtype == types.BFLOAT16:
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, types.dtype_name(dtype))


def _only_nan_differs(dtype: types.DALIDataType, x: bytes, y: bytes) -> bool:
    """Returns whether two arrays of equal shapes differ only in the bits of their NaN."""
    p, q = numbers(dtype, x), numbers(dtype, y)
    if p.dtype.kind != "f":
        return False
    numbers_too = ~(np.isnan(p) & np.isnan(q))
    return p[numbers_too].tobytes() == q[numbers_too].tobytes()


def _numbers(a: Output, x: bytes, y: bytes) -> str:
    p, q = numbers(a.dtype, x).astype(np.float64), numbers(a.dtype, y).astype(np.float64)
    wrong = np.flatnonzero(~((p == q) | (np.isnan(p) & np.isnan(q))))
    if not wrong.size:
        return "equal numbers in other bits"
    at = wrong[0]
    worst = np.nanmax(np.abs(p - q))
    return f"{wrong.size} of {p.size} values differ, by at most {worst:g}; the first at {at}: {p[at]!r} and {q[at]!r}"


def batches(
    define: Callable[[], Any], device_id: int | None, count: int, counters: dict[str, int] | None = None, **settings: Any
) -> Iterator[list[Output]]:
    """Yields `count` batches of a pipeline, or fewer if its source ends. Checks that each output is on the device that its node states. counters: set to the
    pipeline's counters at the end."""
    pipe = Pipeline(**{"batch_size": 3, "num_threads": 2, "seed": SEED, **settings}, device_id=device_id)
    with pipe:
        nodes = define()
        pipe.set_outputs(*(nodes if isinstance(nodes, (tuple, list)) else (nodes,)))
        places = [n.device for n in pipe._outputs or []]
    for _ in range(count):
        try:
            batch = [Output.of(o) for o in pipe.run()]
        except StopIteration:
            break
        assert [o.kind for o in batch] == places, "an output lies where its node does not"
        yield batch
    if counters is not None:
        counters.update(pipe.counters())
    pipe.close()


def assert_sides_agree(
    define: Callable[[], Any], count: int = 2, title: str = "", counters: dict[str, int] | None = None, **settings: Any
) -> list[list[Output]]:
    """Asserts that the definition gives the same bytes on the cores and on the GPU. Returns the GPU's batches. counters: set to the counters of the GPU's
    pipeline."""
    cores = list(batches(define, None, count, **settings))
    gpu = list(batches(define, 0, count, counters, **settings))
    assert len(cores) == len(gpu), f"{title}: {len(cores)} batches on the cores, {len(gpu)} on the GPU; seed {SEED}"
    for step, (a, b) in enumerate(zip(cores, gpu, strict=True)):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            found = difference(x, y)
            assert not found, f"{title} batch {step}, output {k}, seed {SEED}: {found}"
    return gpu


def training(root: Any, *, dtype: Any = types.FLOAT, layout: str = "CHW", size: int = 64, **reader: Any) -> Any:
    """Makes a graph that trains on a folder: it decodes, crops at random, resizes, flips and normalises an image, and copies the label to the GPU."""
    arguments = {"random_shuffle": True, "shuffle_seed": 5, "name": "Reader", **reader}
    data, label = fn.readers.file(file_root=str(root), **arguments)
    image = fn.decoders.image_random_crop(data, device="mixed", output_type=types.RGB)
    image = fn.resize(image, size=[size, size])
    mirror = fn.random.coin_flip()
    return fn.crop_mirror_normalize(image, mirror=mirror, mean=MEAN, std=STD, dtype=dtype, output_layout=layout), label.gpu()


def make(
    root: Any, device_id: int | None = 0, define: Callable[..., Any] = training, graph: dict[str, Any] | None = None, **settings: Any
) -> Pipeline:
    """Makes and builds a pipeline whose outputs are define(root, **graph). settings: arguments of Pipeline."""
    pipe = Pipeline(**{"batch_size": 4, "num_threads": 2, "seed": SEED, **settings}, device_id=device_id)
    with pipe:
        pipe.set_outputs(*define(root, **(graph or {})))
    pipe.build()
    return pipe
