# SPDX-License-Identifier: Apache-2.0
"""Cases of operators on the shape, type and properties of tensors: cat, stack, squeeze, expand_dims, reinterpret, reshape, shapes, cast_like, full and similar,
sequences, permute_batch, one_hot, get_property."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from harness import Batch, Case, Library, T, rng_of
from samples import INTEGERS, per_sample, tensors, values

TYPES = (*INTEGERS, "float16", "float32", "float64", "bool")


def fixed(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "int32", layout: str | None = None) -> Batch:
    return Batch([values(rng, shape, dtype) for _ in range(3)], layout)


def cat() -> Iterator[Case]:
    rng = rng_of("cat")

    def case(shapes: Sequence[tuple[int, ...]], layouts: str = "", error: bool = False, dtype: str = "int32", **kwargs: Any) -> Case:
        names = [name.strip("-") or None for name in layouts.split()] or [None] * len(shapes)
        inputs = [fixed(rng, shape, dtype, name) for shape, name in zip(shapes, names, strict=True)]
        title = f"{dtype} {shapes} {layouts} {kwargs}"
        return Case("cat", inputs, kwargs, title=title, exact=True, error=error)

    for dtype in TYPES:
        yield case([(2, 3), (2, 1), (2, 4)], axis=1, dtype=dtype)
    pair = [(2, 3), (2, 2)]
    for axis in (1, -1, 0, -2, 2, -3):
        yield case(pair, "HW HW", axis=axis, error=axis not in (1, -1))
    yield case([(2, 3), (4, 3), (1, 3)])
    yield case([(2, 3, 4), (2, 1, 4)], "HWC HWC", axis=1)
    yield case(pair, "HW -", axis=1)
    yield case(pair, "- HW", axis=1)
    yield case(pair, "HW AB", axis=1)
    yield case(pair, "HW HW", axis_name="W")
    yield case(pair, "HW -", axis_name="W")
    for name, layouts in (("X", "HW HW"), ("W", "- -"), ("HW", "HW HW"), ("", "HW HW")):
        yield case(pair, layouts, axis_name=name, error=True)
    yield case(pair, "HW HW", axis_name="W", axis=1, error=True)
    yield case([(0, 3), (2, 3)], axis=0)
    yield case([(0, 3), (0, 3)], axis=0)
    yield case([(2, 3)], "HW", axis=1)
    yield case([(), ()], error=True)
    yield case([(2, 3), (3,)], error=True)
    yield Case("cat", [fixed(rng, (2, 3)), fixed(rng, (2, 3), "float32")], title="types differ", error=True)
    yield case([(2, 1)] * 100, axis=1)
    ragged = [tensors(rng, "uint8", 1, "X"), tensors(rng, "uint8", 1, "X")]
    yield Case("cat", ragged, exact=True, title="lengths by sample")
    yield Case("cat", ragged[:1], build=lambda lib, x: lib.fn.cat(x, np.uint8([1, 2])), exact=True, title="with an array")


def stack() -> Iterator[Case]:
    rng = rng_of("stack by name")
    for axis in (0, 1, 2, -1, -2, 3, -4):
        for name in (None, "C"):
            inputs = [fixed(rng, (2, 3), layout="HW") for _ in range(2)]
            kwargs = {"axis": axis} if name is None else {"axis": axis, "axis_name": name}
            yield Case("stack", inputs, kwargs, exact=True, error=axis in (3, -4))
    yield Case("stack", [fixed(rng, (2, 3), layout="HW"), fixed(rng, (2, 3))], {"axis_name": "C"}, exact=True, title="one layout")
    yield Case("stack", [fixed(rng, (2, 3))] * 2, {"axis_name": "C"}, title="no layout to name an axis in", error=True)
    yield Case("stack", [fixed(rng, (2, 3), layout="HW")] * 2, {"axis_name": "CD"}, error=True)
    yield Case("stack", [fixed(rng, (2, 3), layout="HW")] * 2, {"axis_name": ""}, error=True)
    yield Case("stack", [fixed(rng, ())] * 2, {"axis_name": "A"}, exact=True, title="scalars, named")
    yield Case("stack", [fixed(rng, (2, 3), layout="HW")], {"axis_name": "N"}, exact=True, title="one input")


def dims() -> Iterator[Case]:
    rng = rng_of("squeeze and expand_dims")

    def squeeze(shape: tuple[int, ...] = (1, 3, 1), layout: str | None = "HWC", error: bool = False, **kwargs: Any) -> Case:
        return Case("squeeze", [fixed(rng, shape, "uint8", layout)], kwargs, exact=True, title=f"{shape} {layout} {kwargs}", error=error)

    def expand(layout: str | None = "HW", shape: tuple[int, ...] = (2, 3), error: bool = False, **kwargs: Any) -> Case:
        return Case(
            "expand_dims", [fixed(rng, shape, "uint8", layout)], kwargs, exact=True, title=f"{shape} {layout} {kwargs}", error=error
        )

    for layout in ("HWC", None):
        yield squeeze(layout=layout, axes=0)
        yield squeeze(layout=layout, axes=[2, 0])
        yield squeeze(layout=layout, axes=1, error=True)
        yield squeeze(layout=layout, axes=[0, 0], error=True)
        yield squeeze(layout=layout, axes=[])
        yield squeeze(layout=layout, error=True)
        yield squeeze(layout=layout, axis_names="HC", error=layout is None)
    for names in ("W", "X", "HH"):
        yield squeeze(axis_names=names, error=True)
    yield squeeze(axes=0, axis_names="H", error=True)
    yield squeeze((0, 3, 1), axes=2)
    yield squeeze((0, 3, 0), axes=0)
    yield squeeze((0, 3, 1), axes=0, error=True)
    for layout in ("HW", None):
        for axes in (0, 2, [0, 3], [1, 0], [0, 2, 4], []):
            yield expand(layout, axes=axes)
        for axes in (3, -1, [0, 0]):
            yield expand(layout, axes=axes, error=True)
        yield expand(layout, axes=[0], new_axis_names="F", error=layout is None)
        yield expand(layout, axes=[3, 0], new_axis_names="AB", error=layout is None)
    yield expand(error=True)
    yield expand(axes=[0], new_axis_names="FG", error=True)
    yield expand(axes=[0, 1], new_axis_names="F", error=True)
    yield expand(None, (), axes=0)
    yield expand(None, (), axes=[0, 1], new_axis_names="CD")


def reinterpret() -> Iterator[Case]:
    rng = rng_of("reinterpret")
    bytes_ = [(dtype, fixed(rng, (2, 8), dtype)) for dtype in ("uint8", "int16", "int32", "int64", "float32")]
    for dtype, batch in bytes_:
        for to in (T.UINT8, T.INT16, T.UINT32, T.INT64):
            yield Case("reinterpret", [batch], {"dtype": to}, exact=True, title=f"{dtype} as {to}")
    for kwargs in (
        {"dtype": T.INT32, "shape": [4]},
        {"dtype": T.INT32, "shape": [-1, 2]},
        {"dtype": T.INT32, "rel_shape": [1, 0.25]},
        {"dtype": T.INT32, "rel_shape": [0.5, -1]},
        {"dtype": T.INT32, "src_dims": [0, 1]},
        {"dtype": T.INT32, "layout": "AB"},
        {"layout": ""},
        {"dtype": T.INT32, "shape": [4], "layout": "A"},
        {"shape": [16]},
    ):
        yield Case("reinterpret", [fixed(rng, (2, 8), "uint8", "HW")], kwargs, exact=True)
    for kwargs in (
        {},
        {"dtype": T.INT32, "shape": [5]},
        {"dtype": T.INT32, "rel_shape": [1, 1]},
        {"dtype": T.INT32, "src_dims": [1, 0]},
        {"layout": "A"},
    ):
        yield Case("reinterpret", [fixed(rng, (2, 8), "uint8", "HW")], kwargs, error=True)
    yield Case("reinterpret", [fixed(rng, (2, 7), "uint8")], {"dtype": T.INT32}, error=True, title="7 bytes as int32")
    shape = per_sample([[4], [4], [4]], "int32")
    yield Case("reinterpret", [fixed(rng, (2, 8), "uint8"), shape], {"dtype": T.INT32}, exact=True, title="a shape from an input")


def reshape() -> Iterator[Case]:
    rng = rng_of("reshape by factors")

    def case(kwargs: dict[str, Any], error: bool = False, of: tuple[int, ...] = (4, 6, 3), layout: str | None = "HWC") -> Case:
        return Case("reshape", [fixed(rng, of, "uint8", layout)], kwargs, exact=True, error=error, title=f"{of} {layout} {kwargs}")

    for kwargs in (
        {"rel_shape": [1, 1, 1, -1]},
        {"rel_shape": [1, 3, -1]},
        {"rel_shape": [0.3, 1, -1]},
        {"rel_shape": -1},
        {"rel_shape": [1, 1, 1], "src_dims": [2, 1, 0]},
        {"src_dims": [0, 1], "rel_shape": [1, -1]},
        {"src_dims": [0, 1], "rel_shape": [1, 3]},
        {"src_dims": [-1, 0, 1], "rel_shape": [3, 1, 1]},
        {"shape": [4, 6, 3], "src_dims": [0, 1, 2]},
        {"shape": [-2, 18]},
    ):
        yield case(kwargs)
    for kwargs in (
        {},
        {"rel_shape": [1, 1]},
        {"rel_shape": [1, 1, 1, 1]},
        {"rel_shape": [-1, -1, 1]},
        {"src_dims": [0, 1, 3]},
        {"src_dims": [0, 0, 1]},
        {"src_dims": [0, 1, 3], "shape": [4, 6, 3]},
        {"src_dims": [0, 1, -2]},
        {"src_dims": [0, 1], "rel_shape": [1, 3, 1]},
        {"shape": [4, 6, 3], "rel_shape": [1, 1, 1]},
        {"layout": "AB"},
        {"shape": [5, -1]},
    ):
        yield case(kwargs, error=True)
    yield case({"src_dims": [-1, 1, 0], "rel_shape": [-1, 0.5, 2]}, of=(4, 6, 1))
    yield case({"src_dims": [1, 0]}, of=(4, 6, 1), layout=None)
    batch = fixed(rng, (4, 6, 3))
    yield Case("reshape", [batch, per_sample([72] * 3, "int32")], error=True, title="a scalar as shape")
    yield Case("reshape", [batch, per_sample([[72]] * 3, "float32")], error=True, title="floats as shape")
    yield Case("reshape", [batch, per_sample([[72]] * 3, "int32")], exact=True, title="an input as shape")
    yield Case("reshape", [batch], {"rel_shape": per_sample([[0.5, 2, 1], [1, 1, 1], [2, 0.5, 1]])}, exact=True)


def shapes() -> Iterator[Case]:
    rng = rng_of("shapes")
    batch = tensors(rng, "uint8", 3)
    for name in ("INT32", "UINT32", "INT64", "UINT64", "FLOAT", "FLOAT64"):
        yield Case("shapes", [batch], {"dtype": getattr(T, name)}, exact=True)
    for name in ("UINT8", "INT16", "FLOAT16", "BOOL"):
        yield Case("shapes", [batch], {"dtype": getattr(T, name)}, error=True)
    yield Case("shapes", [fixed(rng, ())], exact=True, title="scalars")


def cast_like() -> Iterator[Case]:
    rng = rng_of("cast_like")
    for source in ("uint8", "int64", "float32"):
        for target in ("uint8", "int16", "float32", "float64"):
            yield Case(
                "cast_like", [fixed(rng, (2, 3), source, "HW"), fixed(rng, (1,), target, "C")], exact=True, title=f"{source} like {target}"
            )


def fill() -> Iterator[Case]:
    rng = rng_of("full")
    for name in ("ones", "zeros"):
        for kwargs in (
            {},
            {"shape": [2, 3]},
            {"shape": 3},
            {"shape": []},
            {"shape": [2, 0]},
            {"shape": [2, 3], "dtype": T.FLOAT, "layout": "HW"},
            *({"shape": [2], "dtype": getattr(T, t)} for t in ("BOOL", "FLOAT16", "UINT8", "INT64", "FLOAT64")),
            {"shape": per_sample([[2, 3], [1, 4], [3, 3]], "int32")},
        ):
            yield Case(name, [], kwargs, exact=True)
        yield Case(name, [], {"shape": [2], "layout": "HW"}, error=True)
        yield Case(name + "_like", [tensors(rng, "float32", 2, "HW")], exact=True)
        yield Case(name + "_like", [tensors(rng, "float32", 2, "HW")], {"dtype": T.UINT8}, exact=True)

    def full(title: str, value: Any, error: bool = False, **kwargs: Any) -> Case:
        return Case(
            "full", [], build=lambda lib: lib.fn.full(lib.resolve(value), **lib.resolve_all(kwargs)), title=title, exact=True, error=error
        )

    for value in (3, 3.5, True, [1, 2, 3]):
        yield full(f"{value}", value, shape=[2, 3])
    yield full("a scalar", 3)
    yield full("with layout", 3, shape=[2, 3], layout="HW")
    yield full("wrong layout", 3, shape=[2, 3], layout="H", error=True)
    yield full("does not broadcast", [1, 2], shape=[2, 3], error=True)
    yield full("negative extent", 3, shape=[-1, 3], error=True)
    yield full("empty", 3, shape=[0, 3])
    shapes_by_sample = per_sample([[2, 3], [1, 4], [3, 3]], "int32")
    yield full("a column", np.int32([[1], [2]]), shape=[2, 3])
    yield full("shapes by sample", 7, shape=shapes_by_sample)
    yield full("values by sample", fixed(rng, ()), shape=shapes_by_sample)
    for dtype in ("uint8", "int32", "float32", "float16"):
        like = tensors(rng, dtype, 2, "HW")
        yield Case("full_like", [like], build=lambda lib, x: lib.fn.full_like(x, 3.7), title=f"3.7 like {dtype}", exact=True)
        yield Case("full_like", [like], build=lambda lib, x: lib.fn.full_like(x, 300), title=f"300 like {dtype}", exact=True)
    yield Case("full_like", [fixed(rng, (2, 3), "uint8", "HW"), fixed(rng, (3,), "int32", "C")], exact=True, title="a row")
    yield Case("full_like", [fixed(rng, (2, 3)), fixed(rng, (2,))], error=True, title="does not broadcast")


def sequences() -> Iterator[Case]:
    rng = rng_of("sequences")

    def case(
        op: str, layout: str | None = "FHW", shape: tuple[int, ...] = (3, 2, 2), error: bool = False, dtype: str = "int32", **kwargs: Any
    ) -> Case:
        title = f"{dtype} {shape} {layout} {kwargs}"
        return Case(op, [fixed(rng, shape, dtype, layout)], kwargs, title=title, exact=True, error=error)

    for op, arg in (("element_extract", "element_map"), ("sequence_rearrange", "new_order")):
        for dtype in ("uint8", "int16", "float32", "int64"):
            yield case(op, dtype=dtype, shape=(3, 5, 3), **{arg: [2, 0]})
        for value in (0, [1, 1, 1], [1, 2], [0, 0, 1, 2, 2]):
            for layout in ("FHW", None):
                yield case(op, layout, **{arg: value})
        for value in ([3], [-1], []):
            yield case(op, error=True, **{arg: value})
        yield case(op, error=True)
        yield case(op, "HWC", error=True, **{arg: [0]})
        yield case(op, None, (3,), error=True, **{arg: [0]})
        yield case(op, None, (), error=True, **{arg: [0]})
    orders = Batch([np.int32(o) for o in ([1, 0], [2], [0, 1, 2, 1])])
    yield Case("sequence_rearrange", [fixed(rng, (3, 2, 2))], {"new_order": orders}, exact=True, title="an order a sample")
    empty = Batch([np.int32(o) for o in ([1, 0], [], [0])])
    yield Case("sequence_rearrange", [fixed(rng, (3, 2, 2))], {"new_order": empty}, error=True, title="an empty order")
    for layout in ("FHW", "HWC", None, "***"):
        for replace in (False, True):
            yield case("per_frame", layout, error=layout in ("HWC", "***") and not replace, replace=replace)
    yield case("per_frame", None, (), error=True)
    yield case("per_frame", None, (3,))


def permute_batch() -> Iterator[Case]:
    rng = rng_of("permute_batch")

    def case(title: str, indices: Any, error: bool = False, batch: Batch | None = None) -> Case:
        return Case(
            "permute_batch", [batch or tensors(rng, "float32", 2, "HW")], {"indices": indices}, title=title, exact=True, error=error
        )

    yield case("a list", [2, 0, 0])
    for dtype in ("uint8", "int16", "bool"):
        yield case(f"{dtype}", [1, 2, 0], batch=tensors(rng, dtype, 3))
    yield case("too short", [2, 0], error=True)
    yield case("out of range", [2, 0, 3], error=True)
    yield case("negative", [2, 0, -1], error=True)
    yield case("a node", per_sample([1, 1, 2], "int32"))
    yield case("a node, out of range", per_sample([1, 3, 2], "int32"), error=True)
    yield case("a node with two numbers", per_sample([[1, 0]] * 3, "int32"), error=True)

    def twice(lib: Library, x: Any) -> Any:
        y = lib.fn.permute_batch(x, indices=[1, 2, 0])
        return y, lib.fn.permute_batch(y + x * 0, indices=[1, 2, 0]), lib.fn.cast(y, dtype=lib.types.INT32)

    yield Case("permute_batch", [fixed(rng, (2, 3), "uint8", "HW")], build=twice, title="and again", exact=True)


def one_hot() -> Iterator[Case]:
    rng = rng_of("one_hot by name")
    for layout in ("HW", None):
        for kwargs in (
            {"axis_name": "C"},
            {"axis": 0, "axis_name": "C"},
            {"axis": 3},
            {"axis": -2},
            {"axis_name": "CD"},
            {"axis_name": ""},
        ):
            wrong = "axis_name" not in kwargs or kwargs["axis_name"] != "C" or layout is None
            yield Case("one_hot", [fixed(rng, (2, 3), "uint8", layout)], {"num_classes": 4, **kwargs}, exact=True, error=wrong)
    for shape, layout in (((), None), ((1,), None), ((1,), "X")):
        title = f"{shape} {layout}, named"
        yield Case("one_hot", [fixed(rng, shape, "uint8", layout)], {"num_classes": 4, "axis_name": "C"}, exact=True, title=title)


def properties() -> Iterator[Case]:
    rng = rng_of("get_property")
    for layout in ("HWC", None):
        batch = tensors(rng, "uint8", 3, layout)
        for key in ("layout", "source_info"):
            yield Case("get_property", [batch], {"key": key}, exact=True, title=f"{key} of {layout}")
    yield Case("get_property", [batch], {"key": "date"}, error=True)
    yield Case("get_property", [batch], build=lambda lib, x: x.property("layout"), exact=True, title="x.property")
    yield Case("get_property", [batch], build=lambda lib, x: x.source_info(), exact=True, title="x.source_info")


def all_cases() -> Iterator[Case]:
    groups = (cat, stack, dims, reinterpret, reshape, shapes, cast_like, fill, sequences, permute_batch, one_hot, properties)
    for group in groups:
        yield from group()
