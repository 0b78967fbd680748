# SPDX-License-Identifier: Apache-2.0
"""Cases of reductions.*: every type and dtype, axes by number and name, layouts, long and short groups, given means, empty inputs; and of normalize with a
mean that a reduction computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, Library, Name, rng_of
from samples import INTEGERS

NAMES = {**{n: n.upper() for n in INTEGERS}, "float32": "FLOAT"}
DTYPED = ("sum", "mean", "mean_square", "rms")
MEANT = ("std_dev", "variance")
ALL = (*DTYPED, "min", "max", *MEANT)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, most: int = 2**15) -> np.ndarray:
    """Makes values, integers up to `most`. By default their squares do not overflow in DALI, which squares uint16 in int."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.uniform(-3, 5, shape).astype(kind)
    limits = np.iinfo(kind)
    return rng.integers(max(limits.min, -most), min(limits.max, most), shape).astype(kind)


def batch(rng: np.random.Generator, shapes: list[tuple[int, ...]], dtype: str, layout: str | None = None, most: int = 2**15) -> Batch:
    return Batch([numbers(rng, s, dtype, most) for s in shapes], layout)


SMALL = [(4, 5, 3), (2, 7, 3), (1, 1, 3)]


def call(op: str, data: Batch, mean: Batch | None = None, error: bool = False, title: str = "", **kwargs: Any) -> Case:
    inputs = [data]
    if op in MEANT:
        axes = kwargs.get("axes")
        over = tuple(axes) if isinstance(axes, list) else axes
        inputs.append(mean or Batch([np.asarray(s.mean(over, keepdims=True), np.float32) for s in data.samples]))
    return Case(f"reductions.{op}", inputs, kwargs, error=error, title=title or f"{data.samples[0].dtype} {data.layout or ''} {kwargs}")


def types() -> Iterator[Case]:
    rng = rng_of("reductions, types")
    for op in ALL:
        for dtype in NAMES:
            over = {"axes": [0, 1]} if op in ("mean", "min", "variance") else {}
            yield call(op, batch(rng, SMALL, dtype, "HWC"), **over)
    for op in DTYPED:
        for dtype in ("uint8", "int16", "uint64", "float32"):
            for target in ("UINT8", "INT16", "UINT64", "INT64", "FLOAT", "BOOL"):
                small = batch(rng, SMALL, dtype, most=100)  # for values up to 100, DALI's sums of squares in float32 are exact
                yield call(op, small, dtype=Name(target), error=not _taken(op, NAMES[dtype], target))
    for mean in (np.float64(1), np.int32(1), np.uint8(1)):
        yield call("variance", batch(rng, SMALL, "uint8"), Batch([mean] * 3), error=True, title=f"a mean of {mean.dtype}")


def _taken(op: str, source: str, target: str) -> bool:
    """Returns whether DALI accepts this combination of input and output types."""
    widest = "FLOAT" if source == "FLOAT" else "UINT64" if source.startswith("U") else "INT64"
    taken = {"FLOAT", widest if op in ("sum", "mean_square") else source, source if op != "mean_square" else widest}
    if op == "sum" and source.endswith("64"):
        taken = {source}
    return target in taken


def axes() -> Iterator[Case]:
    rng = rng_of("reductions, axes")
    for op in ("sum", "max"):
        for layout in ("HWC", None):
            for kwargs in (
                *({"axes": a} for a in (0, -1, [0, 1], [1, 0], [0, 1, 2], [], [-1, 0])),
                {"keep_dims": True},
                {"axes": [0, 2], "keep_dims": True},
                {"axes": [], "keep_dims": True},
                {"axis_names": "HW"},
                {"axis_names": "WC", "keep_dims": True},
                {"axis_names": ""},
            ):
                named = bool(kwargs.get("axis_names"))
                yield call(op, batch(rng, SMALL, "float32", layout), error=named and layout is None, **kwargs)
        for wrong in ({"axes": [3]}, {"axes": [-4]}, {"axes": [0, 0]}, {"axis_names": "X"}, {"axes": [0], "axis_names": "H"}):
            yield call(op, batch(rng, SMALL, "float32", "HWC"), error=True, **wrong)
        yield call(op, batch(rng, [()] * 3, "float32"))
        yield call(op, batch(rng, [()] * 3, "float32"), axes=0, error=True)
    four = batch(rng, [(3, 4, 5, 2), (2, 6, 3, 4)], "int16", "FHWC")
    for chosen in ([0], [1], [2], [3], [0, 2], [1, 3], [0, 3], [1, 2], [0, 1, 3]):
        for op in ("sum", "mean", "min", "std_dev"):
            yield call(op, four, axes=chosen)


def lengths() -> Iterator[Case]:
    """Yields cases whose reduced axes, contiguous and strided, are long enough for each loop of the kernels."""
    rng = rng_of("reductions, lengths")
    for op in ALL:
        for dtype in ("uint8", "float32"):
            for shape, chosen in (
                ((70, 60, 3), [0, 1]),
                ((3, 70, 60), [1, 2]),
                ((5, 2000), [1]),
                ((2000, 21), [0]),
                ((1500,), [0]),
                ((3, 900), [0]),
            ):
                data = Batch([numbers(rng, shape, dtype), numbers(rng, shape, dtype)])
                yield call(op, data, axes=chosen, title=f"{dtype} {shape} over {chosen}")


def means() -> Iterator[Case]:
    rng = rng_of("reductions, means")
    data = batch(rng, [(4, 5, 3)] * 3, "uint8", "HWC")
    for op in MEANT:
        for shape, kwargs in (
            ((), {}),
            ((1,), {"ddof": 1}),
            ((1, 1, 3), {"axes": [0, 1]}),
            ((3,), {"axes": [0, 1], "keep_dims": True}),
            ((4, 5), {"axes": 2, "ddof": 1}),
            ((4, 5, 1), {"axes": 2, "keep_dims": True}),
            ((), {"ddof": 59}),
            ((), {"ddof": -3}),
        ):
            given = Batch([rng.uniform(90, 150, shape).astype(np.float32) for _ in range(3)])
            yield call(op, data, given, title=f"mean of {shape}, {kwargs}", **kwargs)

        def own(lib: Library, x: Any, name: str = op) -> Any:
            mean = lib.fn.reductions.mean(x, axes=[0, 1])
            return mean, getattr(lib.fn.reductions, name)(x, mean, axes=[0, 1])

        yield Case(f"reductions.{op}", [data], build=own, title="of its own mean")
        yield Case(f"reductions.{op}", [data], build=lambda lib, x, n=op: getattr(lib.fn.reductions, n)(x, 110.5), title="a number as mean")
        yield Case(f"reductions.{op}", [data], title="no mean", error=True)


def nothing() -> Iterator[Case]:
    rng = rng_of("reductions, nothing")
    for op in ("sum", "mean", "mean_square", "rms", "min", "max"):
        for dtype in ("float32", "uint8"):
            for kwargs in ({}, {"axes": 0}, {"axes": 1}):
                yield call(op, batch(rng, [(0, 3), (0, 3)], dtype), title=f"{dtype} of nothing, {kwargs}", **kwargs)
    strange = Batch([np.array(v, np.float32) for v in ([1, np.nan, 3], [np.nan, 3, 1], [np.nan, -0.0, 0.0])])
    for op in ("min", "max"):
        yield call(op, strange, title="NaN among others")


def normalized() -> Iterator[Case]:
    rng = rng_of("reductions, normalize")

    def own_mean(lib: Library, x: Any) -> Any:
        mean = lib.fn.reductions.mean(x, axes=[0, 1], keep_dims=True)
        return lib.fn.normalize(x, mean=mean.cpu() if mean.device == "gpu" else mean, axes=[0, 1])

    yield Case("normalize", [batch(rng, SMALL[:2], "float32", "HWC")], build=own_mean, title="its own mean from a node")


def all_cases() -> Iterator[Case]:
    for group in (types, axes, lengths, means, nothing, normalized):
        yield from group()
