# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, comparison and slicing of DataNodes, with DALI's promotion of types."""

import itertools

import numpy as np
import pytest
import stoker.math as smath
from stoker import fn, pipeline_def, types
from stoker.errors import InvalidArgumentError, StokerError


def evaluate(build, *arrays):
    """Evaluates an expression over nodes with these arrays. Returns the values, and their type in the pipeline."""

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        nodes = [fn.external_source(lambda info, a=a: a, batch=False, dtype=types.to_dtype(a.dtype), ndim=a.ndim) for a in arrays]
        return build(*nodes)

    (out,) = define().run()
    return out.at(0).copy(), out.dtype


BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("left", "right"), list(itertools.product(["uint8", "int16", "int32", "float32"], repeat=2)))
def test_binary_operators_equal_numpy(name, left, right, rng):
    a, b = rng.integers(0, 11, (3, 4)).astype(left), rng.integers(1, 11, (3, 4)).astype(right)
    value, dtype = evaluate(BINARY[name], a, b)
    want = BINARY[name](a.astype(np.float64), b.astype(np.float64))
    if name in ("<", "<=", ">", ">=", "==", "!="):
        assert dtype is types.BOOL
    elif "float32" in (left, right):
        assert dtype is types.FLOAT
    else:
        assert "INT" in dtype.name
        want = want.astype(np.int64).astype(types.to_numpy_type(dtype))  # casting negative floats to unsigned depends on the processor
    np.testing.assert_array_equal(value, want)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "int64", "uint64"])
def test_shifts_and_not(dtype, rng):
    info = np.iinfo(dtype)
    a = np.concatenate([rng.integers(info.min, info.max, 50, dtype=dtype), np.array([info.min, info.max], dtype)])
    b = (np.arange(52) % info.bits).astype(dtype)
    for build, want in [
        (lambda x, y: x << y, a << b),
        (lambda x, y: x >> y, a >> b),
        (lambda x, y: ~x, ~a),
        (lambda x, y: ~(x > y), ~(a > b)),
    ]:
        value, _ = evaluate(build, a, b)
        np.testing.assert_array_equal(value, want)
        assert value.dtype == want.dtype
    small = np.array([-5, 7], np.int32)
    for build, want in [
        (lambda x: 1 << abs(x), [32, 128]),
        (lambda x: x >> 1, [-3, 3]),
        (lambda x: x << 40, [0, 0]),  # all bits are shifted out
        (lambda x: x >> 40, [-1, 0]),
        (lambda x: x >> -1, [-1, 0]),
    ]:
        value, kind = evaluate(build, small)
        assert value.tolist() == want and kind is types.INT32
    with pytest.raises(InvalidArgumentError, match="takes integers"):
        evaluate(lambda x: x << 1, small.astype(np.float32))


def test_numbers_of_python(rng):
    a = rng.integers(0, 100, (5,)).astype(np.uint8)
    for build, want, dtype in [
        (lambda x: x + 300, a + 300.0, types.INT32),
        (lambda x: 300 - x, 300.0 - a, types.INT32),
        (lambda x: x * 0.5, a * 0.5, types.FLOAT),
        (lambda x: x / 4, a / 4, types.FLOAT),
        (lambda x: x // 7, a // 7, types.INT32),
        (lambda x: -(x * 1) // 7, np.trunc(-a.astype(float) / 7), types.INT32),  # rounds towards zero
        (lambda x: x > 50, a > 50, types.BOOL),
        (lambda x: types.Constant(3).uint8() * x, a * np.uint8(3), types.UINT8),
        (lambda x: +x, a, types.UINT8),
        (lambda x: abs(x - 50), abs(a - 50.0), types.INT32),
        (lambda x: (x > 20) & (x < 80), (a > 20) & (a < 80), types.BOOL),
        (lambda x: x | 1, a | 1, types.INT32),
        (lambda x: x ^ 255, a ^ 255, types.INT32),
    ]:
        value, got = evaluate(build, a)
        assert got is dtype
        np.testing.assert_array_equal(value, np.asarray(want).astype(value.dtype))


def test_scalars_spread(rng):
    a, s = rng.random((2, 3)).astype(np.float32), np.float32(2.5).reshape(())
    np.testing.assert_allclose(evaluate(lambda x, y: x * y, a, s)[0], a * 2.5, rtol=1e-6)


def test_functions_equal_numpy(rng):
    a = rng.uniform(0.1, 3, (4, 5)).astype(np.float32)
    for name in ("sqrt", "exp", "log", "floor", "ceil", "sin", "cos", "abs"):
        value, _ = evaluate(lambda x, name=name: getattr(smath, name)(x), a)
        np.testing.assert_allclose(value, getattr(np, name)(a), rtol=2e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(evaluate(lambda x: smath.clamp(x, 1, 2), a)[0], np.clip(a, 1, 2))
    np.testing.assert_allclose(
        evaluate(lambda x: smath.max(x, 2.0) + smath.min(x, 0.5), a)[0], np.maximum(a, 2) + np.minimum(a, 0.5), rtol=1e-6
    )
    np.testing.assert_allclose(evaluate(lambda x: x**2.0, a)[0], a**2.0, rtol=2e-5)
    with pytest.raises(AttributeError):
        smath.squirt  # noqa: B018


KEYS = [
    np.s_[2],
    np.s_[-1],
    np.s_[1:4],
    np.s_[:, 2],
    np.s_[:, :, 0],
    np.s_[::-1],
    np.s_[::2, 1:3],
    np.s_[4:1:-1, :, 1],
    np.s_[1:, -2:],
    np.s_[..., 1],
    np.s_[0, ...],
    np.s_[-3:-1, ::-2, ::-1],
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_slices_equal_numpy(key, rng):
    a = rng.integers(0, 255, (5, 4, 3), dtype=np.uint8)
    value, dtype = evaluate(lambda x: x[key], a)
    assert dtype is types.UINT8
    np.testing.assert_array_equal(value, a[key])


def test_slices_that_cannot_be():
    a = np.zeros((3, 2), np.uint8)
    for build in (lambda x: x["a"], lambda x: x[1.5], lambda x: x[None]):
        with pytest.raises(StokerError, match=r"subscript at test_arithmetic.py:"):
            evaluate(build, a)
    with pytest.raises((StokerError, IndexError)):
        evaluate(lambda x: x[7], a)


def test_shape_is_that_of_each_sample(tree, files):
    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def define():
        data, _ = fn.readers.file(file_root=str(tree))
        image = fn.decoders.image(data)
        return image.shape(), image.shape(dtype=types.INT32)[:2], fn.peek_image_shape(data)

    a, b, c = define().run()
    from PIL import Image

    for i in range(4):
        width, height = Image.open(files[i]).size
        assert a.at(i).tolist() == [height, width, 3] == c.at(i).tolist()
        assert b.at(i).tolist() == [height, width]
    assert a.dtype is types.INT64 and b.dtype is types.INT32


def test_constants_are_outputs_with_their_values():
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        return (
            types.Constant([[1, 2], [3, 4]]),
            types.Constant(np.float32([0.5, 1.5])),
            fn.constant(idata=7),
            types.Constant(True, shape=[]),
            5,
            np.arange(3),
        )

    outputs = [o.at(1).tolist() for o in define().run()]
    assert outputs == [[[1, 2], [3, 4]], [0.5, 1.5], [7], True, 5, [0, 1, 2]]


@pytest.mark.parametrize("value", [[[], [1]], [[1], []], [[1], [1, 2]], [1, [2]], [[[]], [[1]]]])
def test_ragged_constants_are_refused(value):
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        return types.Constant(value, device="cpu")

    with pytest.raises((StokerError, ValueError), match="differ in length"):
        define().run()


def test_selection_per_sample():
    """Arithmetic with a random flag selects a value for each sample without an if statement."""

    @pipeline_def(batch_size=8, num_threads=2, device_id=None, seed=1)
    def define():
        flip = fn.random.coin_flip()
        value = fn.random.uniform(range=[0.0, 1.0])
        return flip, value, value * flip + (1.0 - value) * (flip == 0)

    flip, value, chosen = (np.asarray(o.as_tensor()) for o in define().run())
    np.testing.assert_allclose(chosen, np.where(flip == 1, value, 1 - value), rtol=1e-6)


def test_wrong_operands():
    for build in (lambda x: x + "a", lambda x: x * None):
        with pytest.raises(InvalidArgumentError, match="operand is a DataNode or a number"):
            evaluate(build, np.zeros(2, np.uint8))


def test_whole_numbers_to_negative_powers_are_0(rng):
    base, exponent = rng.integers(-3, 4, (7, 9)).astype(np.int16), rng.integers(-4, 5, (7, 9)).astype(np.int8)
    got, dtype = evaluate(lambda a, b: a**b, base, exponent)
    want = np.where(exponent < 0, 0, base.astype(np.int64) ** np.maximum(exponent, 0))
    assert dtype == types.INT16
    np.testing.assert_array_equal(got, want.astype(np.int16))


@pytest.mark.parametrize(
    ("left", "right", "fits"), [("ABC", "BC", True), ("C", "ABC", True), ("ABC", "ABC", True), ("ABC", "AB", False), ("X", "ABC", False)]
)
def test_layouts_of_operands_are_ends_of_each_other(left, right, fits):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        a, b = (types.Constant(np.ones((2,) * len(x), np.float32), layout=x) for x in (left, right))
        return a + b, a < b

    if fits:
        assert [o.layout() for o in define().run()] == ["ABC", "ABC"]
    else:
        with pytest.raises(StokerError, match=rf'the layouts "{left}" and "{right}" do not go together'):
            define().run()
