# SPDX-License-Identifier: Apache-2.0
"""Values of enumerations in a pipeline: the operators that draw them, the arguments that accept them, and other uses, which are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stoker
from stoker import fn, types
from stoker.errors import InvalidArgumentError

FILTERS = [types.INTERP_LINEAR, types.INTERP_NN, types.INTERP_CUBIC]
KINDS = {
    types.INTERP_TYPE: FILTERS,
    types.IMAGE_TYPE: [types.RGB, types.GRAY],
    types.DATA_TYPE: [types.FLOAT, types.INT16],
}


def outputs(define: Callable[[], Any], **settings: Any) -> Any:
    @stoker.pipeline_def(batch_size=8, num_threads=2, device_id=None, seed=11, **settings)
    def pipe() -> Any:
        return define()

    return pipe().run()


@pytest.mark.parametrize("dtype", KINDS)
def test_a_choice_keeps_the_type(dtype: types.DALIDataType) -> None:
    drawn, numbers, bits = outputs(
        lambda: (x := fn.random.choice(KINDS[dtype], shape=[5]), fn.cast(x, dtype=types.FLOAT), fn.reinterpret(x, dtype=types.INT32))
    )
    assert drawn.dtype == drawn[0].dtype == dtype
    assert drawn.shape() == [(5,)] * 8
    assert set(np.unique(numbers.as_array())) == {int(v) for v in KINDS[dtype]}
    assert np.array_equal(bits.as_array(), numbers.as_array())
    with pytest.raises(TypeError, match="cast"):
        drawn.as_array()
    with pytest.raises(stoker.errors.UnsupportedError, match="cast"):
        drawn[0].__dlpack__()


def test_a_drawn_filter_is_each_samples_own() -> None:
    image = np.random.default_rng(5).integers(0, 255, (9, 7, 3), np.uint8)

    def define() -> Any:
        drawn = fn.random.choice(FILTERS)
        return fn.cast(drawn, dtype=types.INT32), *(
            fn.resize(types.Constant(image), size=(20, 17), interp_type=f) for f in (drawn, *FILTERS)
        )

    numbers, drawn, *each = (o.as_array() for o in outputs(define))
    assert len(set(numbers.tolist())) > 1
    for i, number in enumerate(numbers):
        assert np.array_equal(drawn[i], each[FILTERS.index(number)][i])


def test_they_go_through_branches_and_subscripts() -> None:
    def define() -> Any:
        if fn.random.coin_flip(dtype=types.BOOL):
            drawn = fn.random.choice(FILTERS, shape=[4])[1:3]
        else:
            drawn = fn.copy(types.Constant([types.INTERP_GAUSSIAN] * 2, device="cpu"))
        return drawn, fn.cast(drawn, dtype=types.INT64)

    drawn, numbers = outputs(define, enable_conditionals=True)
    assert drawn.dtype == types.INTERP_TYPE
    assert set(np.unique(numbers.as_array())) <= {int(v) for v in (*FILTERS, types.INTERP_GAUSSIAN)}


@pytest.mark.parametrize(
    ("define", "says"),
    [
        (lambda: fn.random.choice(FILTERS) + 1, "cast makes int32"),
        (lambda: fn.stack(fn.random.choice(FILTERS), fn.random.choice(FILTERS)), "cast makes int32"),
        (lambda: fn.random.choice(types.Constant(types.RGB)), "must be an integer"),
        (lambda: fn.ones(shape=fn.random.choice(FILTERS, shape=[2])), "of type interpolation type"),
        (lambda: fn.resize(np.zeros((4, 4, 3), np.uint8), size=(3, 3), interp_type=fn.random.choice([types.RGB])), "of type image type"),
    ],
)
def test_enumeration_values_are_not_numbers(define: Callable[[], Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        outputs(define)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (fn.noise.gaussian, r"input 0 holds values of an enumeration \(interpolation type\): cast makes int32"),
        (lambda drawn: fn.transforms.scale(scale=drawn), 'argument "scale" takes .*, and this value is of type interpolation type'),
    ],
)
def test_enumeration_values_are_not_numbers_if_the_graph_knows_no_type(use: Callable[[Any], Any], says: str) -> None:
    """One branch draws a filter, the other one gives a number of a source without a declared type. Operators on numbers must refuse the result, which may
    be a filter."""

    def define(flag: bool) -> Any:
        if fn.external_source(lambda: [np.bool_(flag)] * 8, dtype=types.BOOL, ndim=0):
            drawn = fn.random.choice(fn.external_source(lambda: [np.float32([1, 2])] * 8), shape=[2])
        else:
            drawn = fn.random.choice(FILTERS, shape=[2])
        return use(drawn)

    assert outputs(lambda: define(True), enable_conditionals=True)[0].dtype == types.FLOAT
    with pytest.raises(InvalidArgumentError, match=says):
        outputs(lambda: define(False), enable_conditionals=True)


def test_lists_are_of_one_enumeration() -> None:
    with pytest.raises(TypeError, match="one enumeration"):
        outputs(lambda: fn.random.choice([types.RGB, types.INTERP_NN]))
    with pytest.raises(TypeError, match="one enumeration"):
        outputs(lambda: fn.random.choice([types.RGB, 1]))


def test_a_comparison_with_a_member_is_one_of_numbers() -> None:
    (equal,) = outputs(lambda: fn.cast(fn.random.choice([types.GRAY]), dtype=types.INT32) == types.GRAY)
    assert equal.as_array().all()


def test_choices_of_tensors_have_what_the_layout_says() -> None:
    image = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    shapes: list[tuple[list[int] | None, str]] = [(None, "WC"), ([], "WC"), ([2], "HWC"), ([2, 2], "")]
    for shape, layout in shapes:
        named = {} if shape is None else {"shape": shape}
        (drawn,) = outputs(lambda named=named: fn.random.choice(types.Constant(image, layout="HWC"), **named))
        assert drawn.layout() == layout
        assert drawn.shape()[0] == (*(shape or []), 4, 5)


def test_constants_of_fractions_and_lists() -> None:
    whole, empty = outputs(
        lambda: (types.Constant([5.4, 6.5, -1.5, 300], dtype=types.UINT8, device="cpu"), types.Constant([], device="cpu"))
    )
    assert whole.as_array()[0].tolist() == [5, 7, 0, 255]
    assert empty.dtype == types.FLOAT
    (pair,) = outputs(lambda: [1, 2])  # a list of numbers becomes one constant
    assert pair.as_array()[0].tolist() == [1, 2]


def test_numbers_for_each_frame_may_be_computed_with() -> None:
    frames = np.random.default_rng(3).integers(0, 255, (3, 9, 8, 3), np.uint8)

    def define() -> Any:
        video = fn.external_source(lambda: [frames] * 8, layout="FHWC")
        sigma = fn.per_frame(fn.external_source(lambda: [np.float32([0, 1, 2])] * 8))
        known = fn.per_frame(types.Constant(np.float32([1, 2, 3])))
        return (
            fn.gaussian_blur(video, sigma=sigma + 1),
            fn.gaussian_blur(video, sigma=known),
            fn.gaussian_blur(video, sigma=sigma / 2 + sigma / 2 + 1),
        )

    computed, known, twice = (o.as_array() for o in outputs(define))
    assert np.array_equal(computed, known)
    assert np.array_equal(twice, known)


def test_enumeration_values_are_neither_constants_nor_subscripts() -> None:
    with pytest.raises(TypeError, match="holds numbers, not 'a'"):
        outputs(lambda: types.Constant(["a"], dtype=types.UINT8, device="cpu"))
    for wrong in (1.5, "a", [1, 2], np.int32([1, 2])):
        with pytest.raises(TypeError, match="a whole number is needed"):
            outputs(lambda wrong=wrong: types.Constant(np.zeros(3), device="cpu")[wrong])
