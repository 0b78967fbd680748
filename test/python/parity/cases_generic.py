# SPDX-License-Identifier: Apache-2.0
"""Cases of cast, reshape, transpose, copy, constant, stack, one_hot; arithmetic, comparison and slicing of nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, Library, Name, T, rng_of
from samples import INTEGERS, images, per_sample, tensors, values

NAMES = {"float32": "FLOAT", "float64": "FLOAT64", "float16": "FLOAT16", "bool": "BOOL", **{n: n.upper() for n in INTEGERS}}


def _cast(batch: Batch, source: str, target: str) -> Case:
    """Returns a case of cast. The case of 16-bit integers and FLOAT16 states that DALI rounds in another way."""
    kwargs = {"dtype": Name(target)}
    if target == "FLOAT16" and source in ("int16", "uint16"):
        even = "Numbers half way between two float16 go to the even one, as IEEE 754 and NumPy have it; DALI's go away from zero."
        return Case("cast", [batch], kwargs, bound=32, differs=even)
    return Case("cast", [batch], kwargs, exact=True)


def cast() -> Iterator[Case]:
    rng = rng_of("cast")
    edges = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 127.5, 255.5, 254.49, 1e9, -1e9, 3e19, -3e19, np.inf, -np.inf, 0.49999997])
    for source in NAMES:
        for target in NAMES.values():
            batch = tensors(rng, source, 2)
            if source.startswith("float"):
                batch.samples.append(edges.astype(source).reshape(2, -1))
            yield _cast(batch, source, target)
    nan = Batch([np.array([np.nan, 1], np.float32)] * 2)
    yield Case("cast", [nan], {"dtype": T.UINT8}, exact=True, title="NaN")
    yield Case("cast", [images(rng)], {"dtype": T.FLOAT}, exact=True)


def reshape() -> Iterator[Case]:
    rng = rng_of("reshape")
    fixed = Batch([values(rng, (4, 6, 3), "uint8") for _ in range(3)], "HWC")

    def case(batch: Batch | None = None, *more: Batch, **kwargs: Any) -> Case:
        return Case("reshape", [batch or fixed, *more], kwargs, exact=True)

    yield case(shape=[6, 4, 3])
    yield case(shape=[-1, 3])
    yield case(shape=[72])
    yield case(shape=[-1])
    yield case(shape=[-1, 3], layout="AC")
    yield case(layout="ABC")
    yield case(layout="")
    yield case(shape=[6, 4, 3], layout="HWC")
    yield case(rel_shape=[1, 1, 1])
    yield case(rel_shape=[0.5, 2, 1])
    yield case(rel_shape=[0.5, -1, 1])
    yield case(rel_shape=[-1, 3])
    yield case(src_dims=[1, 0, 2])
    yield case(src_dims=[0, 1], rel_shape=[1, 3])
    yield case(src_dims=[0, -1, 1, 2], layout="HXWC")
    yield case(src_dims=[2, 1, 0], rel_shape=[1, 1, 1])
    yield case(images(rng), src_dims=[1, 0, 2])
    yield case(images(rng), shape=[-1])
    yield case(images(rng), rel_shape=[-1, 3])
    yield case(shape=per_sample([[6, 4, 3], [12, 2, 3], [4, 3, 6]], "int32"))
    yield case(rel_shape=per_sample([[0.5, 2, 1], [1, 1, 1], [2, 0.5, 1]]))
    yield case(None, per_sample([[6, 4, 3], [12, 2, 3], [4, 3, 6]], "int32"))
    for bad in (
        {"shape": [5, 5, 5]},
        {"shape": [-1, -1, 3]},
        {"shape": [-1, 5]},
        {"layout": "AB"},
        {"shape": [72], "rel_shape": [1]},
        {"src_dims": [0, 1, 5]},
    ):
        yield Case("reshape", [fixed], bad, error=True)


def transpose() -> Iterator[Case]:
    rng = rng_of("transpose")
    for dtype in ("uint8", "int16", "float32", "float64", "bool"):
        yield Case("transpose", [tensors(rng, dtype, 3)], {"perm": [2, 0, 1]}, exact=True)
    yield Case("transpose", [images(rng)], {"perm": [2, 0, 1]}, exact=True)
    yield Case("transpose", [images(rng)], {"perm": [1, 0, 2], "transpose_layout": False}, exact=True)
    yield Case("transpose", [images(rng)], {"perm": [2, 0, 1], "output_layout": "ABC"}, exact=True)
    yield Case("transpose", [images(rng)], {"output_layout": "CHW"}, exact=True)
    yield Case("transpose", [images(rng, layout="CHW")], {"output_layout": "HWC"}, exact=True)
    yield Case("transpose", [images(rng)], {}, exact=True)
    yield Case("transpose", [tensors(rng, "int32", 5)], {"perm": [4, 2, 0, 1, 3]}, exact=True)
    yield Case("transpose", [tensors(rng, "int32", 1)], {"perm": [0]}, exact=True)
    for bad in (
        {"perm": [0, 0, 1]},
        {"perm": [0, 1]},
        {"perm": [0, 1, 5]},
        {"perm": [0, 1, -1]},
        {"perm": [-1, -2, -3]},
        {"perm": [0, 1, 33]},
    ):
        yield Case("transpose", [images(rng)], bad, error=True)


def stack_copy_constant() -> Iterator[Case]:
    rng = rng_of("stack")
    for axis in (0, 1, 2, -1):
        pair = [Batch([values(rng, s, "int16") for s in ((3, 4), (5, 6), (1, 2))]) for _ in range(3)]
        yield Case("stack", pair, {"axis": axis}, exact=True)
    pair = [Batch([values(rng, s, "uint8") for s in ((3, 4), (5, 6), (1, 2))], "HW") for _ in range(2)]
    yield Case("stack", pair, {"axis_name": "C", "axis": 2}, exact=True)
    yield Case("stack", pair, {"axis_name": "C"}, exact=True)
    yield Case("stack", pair[:1], {}, exact=True)
    scalars = [Batch([values(rng, (), "float32") for _ in range(3)]) for _ in range(4)]
    yield Case("stack", scalars, {}, exact=True)
    yield Case("stack", pair, {"axis": 4}, error=True)
    yield Case("stack", [tensors(rng, "int32", 2), tensors(rng, "int32", 2)], {}, error=True)
    yield Case("stack", [pair[0], Batch([s.astype("int32") for s in pair[1].samples])], {}, error=True)
    for dtype in ("uint8", "float32", "int64", "bool"):
        yield Case("copy", [tensors(rng, dtype, 3, "HWC")], {}, exact=True)
    for kwargs in (
        {"idata": 7},
        {"fdata": 2.5},
        {"idata": [1, 2, 3]},
        {"fdata": [1.5, 2, 3, 4], "shape": [2, 2]},
        {"idata": [1, 2, 3, 4, 5, 6], "shape": [1, 2, 3], "layout": "HWC", "dtype": T.UINT8},
        {"fdata": 0.25, "shape": [2, 3], "dtype": T.FLOAT16},
        {"idata": 300, "dtype": T.INT16, "shape": [4]},
        {"fdata": [1.5, 2.5], "dtype": T.INT32},
    ):
        yield Case("constant", [], kwargs, exact=True)
    yield Case("constant", [], {"idata": [1, 2, 3], "shape": [2]}, error=True)
    yield Case("constant", [], {"idata": 1, "fdata": 1.0}, error=True)


def one_hot() -> Iterator[Case]:
    rng = rng_of("one_hot")
    scalars = Batch([np.array(v, np.int32) for v in (0, 3, 4)])
    rows = Batch([rng.integers(-1, 7, n).astype(np.int32) for n in (2, 4, 6)])
    planes = Batch([rng.integers(0, 5, (n, 3)).astype(np.int64) for n in (1, 4, 6)], "HW")
    for batch in (scalars, Batch([s.reshape(1) for s in scalars.samples]), rows, planes):
        for kwargs in (
            {"num_classes": 5},
            {"num_classes": 6, "dtype": T.UINT8, "on_value": 7, "off_value": 2},
            {"num_classes": 5, "axis": 0},
            {"num_classes": 5, "axis_name": "C"},
        ):
            if "axis_name" in kwargs and batch is rows:
                continue  # DALI refuses this without a layout
            yield Case("one_hot", [batch], kwargs, exact=True)
    for dtype in ("uint8", "int16", "int64", "float32"):
        yield Case("one_hot", [Batch([np.array([1], dtype), np.array([2], dtype)])], {"num_classes": 3}, exact=True)
    some = [Batch([rng.integers(0, 5, n).astype(np.int32) for n in ns]) for ns in ((1, 3, 1), (1, 1, 1))]
    some.append(Batch([rng.integers(0, 5, (n, 1)).astype(np.int32) for n in (1, 2, 1)]))
    some.append(Batch([rng.integers(0, 5, (1, 1)).astype(np.int32) for _ in range(3)]))
    for batch in some:
        yield Case("one_hot", [batch], {"num_classes": 5}, exact=True)
        yield Case("one_hot", [batch], {"num_classes": 5, "axis": 0}, exact=True)
    yield Case("one_hot", [rows], {"num_classes": 3, "axis": 5}, error=True)


def unlike() -> Iterator[Case]:
    """Batches whose samples differ in type or number of dims are refused, as inputs of operators and as the result of reshape."""
    rng = rng_of("unlike")
    dims = Batch([values(rng, s, "int32") for s in ((3,), (3, 1), (2,))])
    types = Batch([np.zeros(3, np.int32), np.zeros(3, np.float32)])
    for batch, what in ((dims, "of unlike numbers of dims"), (types, "of unlike types")):
        for op, kwargs in (("cast", {"dtype": T.FLOAT}), ("one_hot", {"num_classes": 3}), ("pad", {}), ("copy", {})):
            yield Case(op, [batch], kwargs, title=what, error=True)
        yield Case("stack", [batch, batch], {}, title=what, error=True)
    same = Batch([np.zeros(12, np.int32)] * 2)
    yield Case("reshape", [same], {"shape": per_sample([[3, 4], [12]], "int32")}, title="to unlike numbers of dims", error=True)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

UNARY = ("sqrt", "rsqrt", "cbrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "sinh", "cosh")
UNARY += ("asin", "acos", "atan", "asinh", "atanh", "abs", "fabs", "floor", "ceil", "acosh")


def _operand(rng: np.random.Generator, dtype: str, divisor: bool) -> Batch:
    """Makes values whose results overflow in no type, and divisors without zeros, since C leaves other results undefined."""
    kind = np.dtype(dtype)
    low = 1 if divisor or kind.kind in "u" else -9
    made = [rng.integers(0, 2, (4, 3)) if kind.kind == "b" and not divisor else rng.integers(low, 12, (4, 3)) for _ in range(2)]
    return Batch([(m + (0.25 if kind.kind == "f" else 0)).astype(kind) for m in made])


def _together(rng: np.random.Generator, symbol: str, a: str, b: str) -> Case:
    apply = BINARY[symbol]
    floats = "f" in (np.dtype(a).kind, np.dtype(b).kind)
    refused = (symbol in "&|^" and floats) or (symbol in ("+", "-", "/", "//") and a == b == "bool")
    if symbol == "-" and np.dtype(a).kind in "ub":
        left = Batch([s + np.array(20).astype(a) if a != "bool" else s for s in _operand(rng, a, False).samples])
    else:
        left = _operand(rng, a, False)
    inputs = [left, _operand(rng, b, symbol in ("/", "//"))]
    case = Case("arithmetic", inputs, build=lambda lib, x, y: apply(x, y), title=f"{a} {symbol} {b}", exact=not floats, error=refused)
    if a == "int64" and b == "float32" and symbol in ("<", "<=", ">", ">="):
        case.bound, case.share = 1, 0
        case.differs = "Negative int64 against float32 are compared by value: -4 < -7.75 is false, which DALI says is true."
    return case


def arithmetic() -> Iterator[Case]:
    rng = rng_of("arithmetic")
    dtypes = [*INTEGERS, "float32", "float64", "bool"]
    for symbol in ("+", "*", "/"):
        for a in dtypes:
            for b in dtypes:
                yield _together(rng, symbol, a, b)
    for symbol in BINARY:
        for a, b in (
            ("uint8", "int8"),
            ("int32", "uint16"),
            ("int64", "float32"),
            ("uint8", "uint8"),
            ("int16", "int16"),
            ("bool", "bool"),
        ):
            yield _together(rng, symbol, a, b)
    for dtype in dtypes:
        for value in (3, 2.5, True):
            for symbol in ("+", "*", "/", "//", "<", "&"):
                refused = symbol == "&" and (dtype.startswith("float") or value == 2.5)
                refused = refused or (symbol in ("+", "/", "//") and dtype == "bool" and value is True)

                def left(lib: Library, x: Any, f: Any = BINARY[symbol], v: Any = value) -> Any:
                    return f(x, v)

                def right(lib: Library, x: Any, f: Any = BINARY[symbol], v: Any = value) -> Any:
                    return f(v, x)

                exact = not dtype.startswith("float") and value != 2.5
                x = _operand(rng, dtype, True)
                yield Case("arithmetic", [x], build=left, title=f"{dtype} {symbol} {value}", exact=exact, error=refused)
                if symbol != "//":
                    yield Case("arithmetic", [x], build=right, title=f"{value} {symbol} {dtype}", exact=exact, error=refused)
        for typed in ("uint8", "int16", "int64", "float32", "float64"):

            def with_type(lib: Library, x: Any, t: str = typed) -> Any:
                return x * getattr(lib.types.Constant(2), t)()

            yield Case("arithmetic", [_operand(rng, dtype, True)], build=with_type, title=f"{dtype} * Constant(2).{typed}()")
        if dtype != "bool":
            yield Case("arithmetic", [_operand(rng, dtype, False)], build=lambda lib, x: -x, title=f"-{dtype}", exact=True)
            yield Case("arithmetic", [_operand(rng, dtype, False)], build=lambda lib, x: +x, title=f"+{dtype}", exact=True)
    yield from _more_arithmetic(rng)


def _more_arithmetic(rng: np.random.Generator) -> Iterator[Case]:
    wide = Batch([np.array([[-7, 7, -8], [250, -3, 100]], np.int32)] * 2)
    yield Case("arithmetic", [wide], build=lambda lib, x: x // 2, title="int32 // 2, negative", exact=True)
    yield Case("arithmetic", [wide], build=lambda lib, x: x // -3, title="int32 // -3", exact=True)
    for shape_a, shape_b in (((3, 4), ()), ((3, 4), (1, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (3, 1))):
        pair = [Batch([values(rng, s, "float32")] * 2) for s in (shape_a, shape_b)]
        yield Case("arithmetic", pair, build=lambda lib, x, y: x * y + 1, title=f"broadcast {shape_a} and {shape_b}")
    unlike = [Batch([values(rng, (3, 4), "float32")] * 2), Batch([values(rng, (3, 5), "float32")] * 2)]
    yield Case("arithmetic", unlike, build=lambda lib, x, y: x + y, title="shapes that do not broadcast", error=True)
    yield Case("arithmetic", [images(rng)], build=lambda lib, x: x * 0.5 + 3, title="keeps a layout")
    positive = Batch([rng.uniform(0.05, 0.95, (3, 4)).astype(np.float32) for _ in range(2)])
    for name in UNARY:
        batch = positive if name != "acosh" else Batch([s + 1 for s in positive.samples])

        def call(lib: Library, x: Any, n: str = name) -> Any:
            return getattr(lib.math, n)(x)

        yield Case("arithmetic", [batch], build=call, title=f"math.{name}")
        yield Case("arithmetic", [Batch([np.array([1, 1], np.int32)])], build=call, title=f"math.{name} of int32", error=False)
    for name in ("min", "max", "pow", "fpow", "atan2"):
        for a, b in (("float32", "float32"), ("int32", "float32"), ("uint8", "int16"), ("int32", "int32")):

            def call2(lib: Library, x: Any, y: Any, n: str = name) -> Any:
                return getattr(lib.math, n)(x, y)

            pair = [Batch([rng.integers(1, 5, (3, 4)).astype(t) for _ in range(2)]) for t in (a, b)]
            yield Case("arithmetic", pair, build=call2, title=f"math.{name}({a}, {b})")
    for a, b in (("int32", "int32"), ("int16", "int8"), ("uint8", "int16")):
        pair = [Batch([rng.integers(low, 4, (5, 9)).astype(t) for _ in range(2)]) for t, low in ((a, 0 if a == "uint8" else -3), (b, -4))]
        yield Case("arithmetic", pair, build=lambda lib, x, y: x**y, title=f"{a} ** {b}, also to negative powers", exact=True)
    laid = [Batch([values(rng, s, "float32")] * 2, layout=x) for s, x in (((2, 3, 4), "ABC"), ((3, 4), "BC"))]
    yield Case("arithmetic", laid, build=lambda lib, x, y: x * y, title="a layout that is the end of the other")
    unlaid = [Batch([values(rng, (2, 2, 2), "float32")] * 2, layout="ABC"), Batch([values(rng, (2, 2), "float32")] * 2, layout="AB")]
    yield Case("arithmetic", unlaid, build=lambda lib, x, y: x * y, title="layouts that do not go together", error=True)
    yield Case("arithmetic", [wide], build=lambda lib, x: lib.math.clamp(x, -3, 60), title="math.clamp(int32, -3, 60)")
    yield Case("arithmetic", [positive], build=lambda lib, x: lib.math.clamp(x, 0.2, 0.6), title="math.clamp(float32, .2, .6)")


def subscripts() -> Iterator[Case]:
    rng = rng_of("subscripts")

    def case(title: str, pick: Callable[[Any], Any], batch: Batch | None = None, error: bool = False) -> Case:
        return Case("slicing", [batch or images(rng, low=25)], build=lambda lib, x: pick(x), title=title, exact=True, error=error)

    yield case("x[2:9]", lambda x: x[2:9])
    yield case("x[2:9, 3:]", lambda x: x[2:9, 3:])
    yield case("x[:, ::-1]", lambda x: x[:, ::-1])
    yield case("x[::-1, 20:4:-2]", lambda x: x[::-1, 20:4:-2])
    yield case("x[3]", lambda x: x[3])
    yield case("x[3, 4, 1]", lambda x: x[3, 4, 1])
    yield case("x[-3, :, -1]", lambda x: x[-3, :, -1])
    yield case("x[:, :, 1:2]", lambda x: x[:, :, 1:2])
    yield case("x[-9:-2, ::3]", lambda x: x[-9:-2, ::3])
    yield case("x[:, 1, :]", lambda x: x[:, 1, :])
    yield case("x[5:5]", lambda x: x[5:5])
    yield case("x[200]", lambda x: x[200], error=True)
    yield case("x[0, 0, 0, 0]", lambda x: x[0, 0, 0, 0], error=True)
    yield case("x[0:500]", lambda x: x[0:500])
    for dtype in ("int8", "float16", "float32", "int64", "bool"):
        yield case(f"{dtype} x[1:, ::-1]", lambda x: x[1:, ::-1], tensors(rng, dtype, 2, low=3))
    yield Case("slicing", [images(rng)], build=lambda lib, x: x.shape()[0], title="x.shape()[0]", exact=True)
    yield Case("slicing", [images(rng)], build=lambda lib, x: x.shape(), title="x.shape()", exact=True)
    yield Case("slicing", [images(rng)], build=lambda lib, x: x.shape(dtype=lib.types.FLOAT), title="x.shape(dtype=FLOAT)", exact=True)


def subscripts_by_sample() -> Iterator[Case]:
    rng = rng_of("subscripts by sample")
    batch = images(rng, low=25)
    a, b = per_sample([1, 2, 3], "int32"), per_sample([19, -4, 30], "int64")

    def case(title: str, pick: Callable[..., Any], *nodes: Batch, error: bool = False) -> Case:
        return Case("slicing", [batch, *nodes], build=lambda lib, x, *n: pick(x, *n), title=title, exact=True, error=error)

    yield case("x[a]", lambda x, a: x[a], a)
    yield case("x[-a]", lambda x, a: x[-a], a)
    yield case("x[a:b]", lambda x, a, b: x[a:b], a, b)
    yield case("x[b:a]", lambda x, a, b: x[b:a], a, b)
    yield case("x[b:a:-1]", lambda x, a, b: x[b:a:-1], a, b)
    yield case("x[::a]", lambda x, a: x[::a], a)
    yield case("x[::-a]", lambda x, a: x[::-a], a)
    yield case("x[a:, :b]", lambda x, a, b: x[a:, :b], a, b)
    yield case("x[:, a, 1:]", lambda x, a: x[:, a, 1:], a)
    yield case("x[:, 2:a + 9, -1]", lambda x, a: x[:, 2 : a + 9, -1], a)
    yield case("x[a, b, 1]", lambda x, a, b: x[a, b, 1], a, b)
    yield case("x[x.shape()[0] // 2 :]", lambda x: x[x.shape()[0] // 2 :])
    for dtype in ("uint8", "int16", "uint64"):
        yield case(f"x[a] of {dtype}", lambda x, a: x[a], per_sample([3, 0, 2], dtype))
    for dtype in ("float32", "bool"):
        yield case(f"x[a] of {dtype}", lambda x, a: x[a], per_sample([1, 0, 1], dtype), error=True)
    yield case("x[a], out of range", lambda x, a: x[a], per_sample([3, 500, 2], "int32"), error=True)
    yield case("x[a:], out of range", lambda x, a: x[a:], per_sample([3, 500, -500], "int32"))
    yield case("x[a], a of one element", lambda x, a: x[a], per_sample([[3], [5], [2]], "int32"), error=True)
    yield case("x[::a], a is 0", lambda x, a: x[::a], per_sample([3, 0, 2], "int32"), error=True)


def new_axes() -> Iterator[Case]:
    rng = rng_of("new axes")

    def case(title: str, pick: Callable[[Any, Any], Any], layout: str | None = "HWC", error: bool = False) -> Case:
        def build(lib: Library, x: Any) -> Any:
            return pick(x, lib.newaxis)

        batch = Batch(images(rng, high=30).samples, layout)
        return Case("slicing", [batch], build=build, title=f"{title}, {layout}", exact=True, error=error)

    for layout in ("HWC", None):
        yield case("x[newaxis]", lambda x, new: x[new], layout)
        yield case("x[2:5, newaxis, 1]", lambda x, new: x[2:5, new, 1], layout)
        yield case('x[newaxis("N")]', lambda x, new: x[new("N")], layout, error=layout is None)
    yield case('x[newaxis("N"), :, newaxis("M"), ::2]', lambda x, new: x[new("N"), :, new("M"), ::2])
    yield case('x[:, :, :, newaxis("N")]', lambda x, new: x[:, :, :, new("N")])
    yield case('x[0, 0, 0, newaxis("N")]', lambda x, new: x[0, 0, 0, new("N")])
    yield case('x[newaxis("N"), newaxis]', lambda x, new: x[new("N"), new], error=True)
    yield case('x[newaxis("NM")]', lambda x, new: x[new("NM")], error=True)
    yield case("x[:, :, :, newaxis, 0]", lambda x, new: x[:, :, :, new, 0], error=True)


def all_cases() -> Iterator[Case]:
    groups = (cast, reshape, transpose, stack_copy_constant, one_hot, unlike, arithmetic, subscripts, subscripts_by_sample, new_axes)
    for group in groups:
        yield from group()
