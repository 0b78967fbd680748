# SPDX-License-Identifier: Apache-2.0
"""Numbers that are not finite are refused as arguments of operators, except where the operators' tables allow them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stoker import Pipeline, _core, fn, types
from stoker._catalog import Arg, ArgKind, Op, operators
from stoker._values import ValueKind
from stoker.errors import InvalidArgumentError

NAN, INF = math.nan, math.inf
IMAGE = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
FLOATS = [(op, arg) for op in operators().values() for arg in op.args if arg.kind in (ArgKind.FLOAT, ArgKind.FLOATS)]


def add(op: Op, arg: Arg, value: float) -> str:
    """Adds the operator with this one argument to a graph. Returns the library's message if the library refuses it, otherwise ""."""
    graph = _core.Graph()
    inputs = [graph.add("external_source", (), ()) for _ in range(op.min_inputs)]
    given = (arg.name, ValueKind.FLOATS, [0.5, value]) if arg.kind == ArgKind.FLOATS else (arg.name, ValueKind.FLOAT, value)
    try:
        graph.add(op.name, [(ordinal, 0) for ordinal, _ in inputs], [given])
    except Exception as e:
        return str(e)
    return ""


@pytest.mark.parametrize(("op", "arg"), FLOATS, ids=[f"{op.name}-{arg.name}" for op, arg in FLOATS])
def test_constants_are_finite_but_where_the_table_says_otherwise(op: Op, arg: Arg) -> None:
    place = " at index 1" if arg.kind == ArgKind.FLOATS else ""
    for value, allowed in ((NAN, arg.nan), (INF, arg.infinite), (-INF, arg.infinite), (1e39, arg.infinite)):
        refusal = f'argument "{arg.name}" is {value:g}{place}; it must be '
        assert (refusal in add(op, arg, value)) != allowed, value


@pytest.mark.parametrize(("op", "arg"), FLOATS, ids=[f"{op.name}-{arg.name}" for op, arg in FLOATS])
def test_nan_never_stands_for_an_argument_that_is_left_out(op: Op, arg: Arg) -> None:
    """A float argument without a default must not allow NaN, because NaN is what the library stores if the argument is not given."""
    assert not (arg.nan and arg.kind == ArgKind.FLOAT and arg.default_text is None)


def run(define: Callable[..., Any], image: np.ndarray = IMAGE, device_id: int | None = None, **kwargs: Any) -> list[np.ndarray]:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=device_id, seed=3, **kwargs)
    with pipe:
        pipe.set_outputs(define(fn.external_source(lambda: [image, image], layout="HWC")))
    out = pipe.run()[0]
    return [np.array(out.at(i)) for i in range(len(out))]


def each(*values: Any, dtype: Any = np.float32) -> Any:
    """Returns a node with a value for each of the two samples."""
    return fn.external_source(lambda: [np.array(v, dtype) for v in values])


def eye(value: float, rows: int = 2) -> np.ndarray:
    matrix = np.eye(rows, 3, dtype=np.float32)
    matrix[1, 1] = value
    return matrix


# With NaN or infinity in these arguments, the operators would give black, unchanged or NaN images without an error.
OPERATORS: dict[str, tuple[Callable[..., Any], str]] = {
    "brightness": (lambda x, v: fn.brightness(x, brightness=v), "brightness"),
    "brightness_contrast": (lambda x, v: fn.brightness_contrast(x, brightness_shift=v), "brightness_shift"),
    "contrast": (lambda x, v: fn.contrast(x, contrast=v), "contrast"),
    "contrast_center": (lambda x, v: fn.contrast(x, contrast=2, contrast_center=v), "contrast_center"),
    "hsv": (lambda x, v: fn.hsv(x, saturation=v), "saturation"),
    "hue": (lambda x, v: fn.hue(x, hue=v), "hue"),
    "saturation": (lambda x, v: fn.saturation(x, saturation=v), "saturation"),
    "color_twist": (lambda x, v: fn.color_twist(x, contrast=v), "contrast"),
    "rotate": (lambda x, v: fn.rotate(x, angle=v), "angle"),
    "noise.gaussian": (lambda x, v: fn.noise.gaussian(x, stddev=v), "stddev"),
    "noise.shot": (lambda x, v: fn.noise.shot(x, factor=v), "factor"),
    "noise.salt_and_pepper": (lambda x, v: fn.noise.salt_and_pepper(x, prob=v), "prob"),
    "grid_mask": (lambda x, v: fn.grid_mask(x, ratio=v), "ratio"),
    "resize": (lambda x, v: fn.resize(x, resize_x=v), "resize_x"),
    "gaussian_blur": (lambda x, v: fn.gaussian_blur(x, sigma=v), "sigma"),
    "laplacian": (lambda x, v: fn.laplacian(x, scale=v), "scale"),
    "normalize": (lambda x, v: fn.normalize(x, mean=v, stddev=1), "mean"),
    "crop": (lambda x, v: fn.crop(x, crop_w=4, crop_h=4, crop_pos_x=v), "crop_pos_x"),
}


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_sample_with_a_number_that_is_not_finite_is_a_bad_sample(name: str, value: float) -> None:
    define, arg = OPERATORS[name]
    with pytest.raises(
        InvalidArgumentError, match=rf'argument "{arg}" is {value:g}.*; it must be .*; sample 1 of epoch 0, .*test_finite.py'
    ) as e:
        run(lambda x: define(x, each(0.5, value)))
    assert e.value.sample == 1
    kept = run(lambda x: define(x, each(0.5, value)), on_error="skip", max_errors=100)
    assert len(kept) == 1 and np.array_equal(kept[0], run(lambda x: define(x, each(0.5, 0.5)))[0])


@pytest.mark.parametrize(
    "define",
    [
        lambda x: fn.crop_mirror_normalize(x, mean=each([1, 2, 3], [1, NAN, 3])),
        lambda x: fn.crop_mirror_normalize(x, std=each([1, 2, 3], [1, INF, 3])),
        lambda x: fn.warp_affine(x, matrix=each([1, 0, 0, 0, 1, 0], [1, NAN, 0, 0, 1, 0])),
        lambda x: fn.erase(x, anchor=each([1, 1], [1, NAN]), shape=(2.0, 2.0)),
        lambda x: fn.resize(x, size=(3, 3), roi_start=each([1, 1], [1, NAN]), roi_end=(4.0, 4.0)),
        lambda x: fn.coord_transform(fn.cast(x, dtype=types.FLOAT), T=each([1, 1, 1], [1, INF, 1])),
    ],
)
def test_lists_of_samples_tell_where(define: Callable[..., Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r" is (nan|inf) at index 1; it must be a finite float32 .*; sample 1 of epoch 0, "):
        run(define)


def test_nan_for_a_frame_is_refused() -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        clips = fn.external_source(lambda: [np.stack([IMAGE, IMAGE])] * 2, layout="FHWC")
        pipe.set_outputs(fn.brightness(clips, brightness=fn.per_frame(each([1.0, 1.0], [1.0, NAN]))))
    with pytest.raises(InvalidArgumentError, match=r'"brightness" is nan.*; sample 1 of epoch 0, brightness at test_finite.py'):
        pipe.run()


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_whole_numbers_and_flags_do_not_take_them_either(value: float) -> None:
    for define in (
        lambda x: fn.grid_mask(x, tile=each(5, value)),
        lambda x: fn.flip(x, horizontal=each(1, value)),
        lambda x: fn.slice(x, start=each([1, 1], [1, value]), shape=[2, 2], axes=[0, 1]),
        lambda x: fn.flip(x, vertical=each(0, value)),
    ):
        with pytest.raises(InvalidArgumentError, match=rf"is {value:g}( at index 1)?; it must be .*; sample 1 of epoch 0"):
            run(define)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_whole_numbers_are_not_made_by_rounding(dtype: Any) -> None:
    """Fractions in samples of integer arguments and flags are refused, and not rounded silently. DALI refuses all floats; Stoker accepts those that are
    whole numbers."""
    for define, arg in (
        (lambda x, v: fn.gaussian_blur(x, window_size=each(3, v, dtype=dtype)), "window_size"),
        (lambda x, v: fn.grid_mask(x, tile=each(5, v, dtype=dtype)), "tile"),
        (lambda x, v: fn.flip(x, horizontal=each(1, v, dtype=dtype)), "horizontal"),
        (lambda x, v: fn.slice(x, start=each([1, 1], [1, v], dtype=dtype), shape=[2, 2], axes=[0, 1]), "start"),
    ):
        with pytest.raises(InvalidArgumentError, match=rf'"{arg}" takes whole numbers, not 0.75; cast.* rounds it; sample 1 of epoch 0, '):
            run(lambda x: define(x, 0.75))  # noqa: B023
        assert len(run(lambda x: define(x, 1))) == 2  # noqa: B023


@pytest.mark.parametrize("value", [NAN, INF])
def test_matrices_that_are_inputs(value: float) -> None:
    for define in (
        lambda x: fn.warp_affine(x, each(eye(1), eye(value))),
        lambda x: fn.experimental.warp_perspective(x, each(eye(1, 3), eye(value, 3))),
    ):
        with pytest.raises(
            InvalidArgumentError, match=rf"the matrix, .* holds {value:g}; it must hold finite float32 numbers; sample 1 of epoch 0"
        ):
            run(define)


def test_inverses_that_are_too_large() -> None:
    for define in (
        lambda x: fn.warp_affine(x, matrix=[1e-40, 0, 0, 0, 1, 0], inverse_map=False),
        lambda x: fn.experimental.warp_perspective(x, matrix=[1e-40, 0, 0, 0, 1, 0, 0, 0, 1], inverse_map=False),
    ):
        with pytest.raises(InvalidArgumentError, match=r"the matrix, .* holds inf; it must hold finite float32 numbers"):
            run(define)


# Arguments whose values are written to the output unchanged.
FILLS: dict[str, tuple[Callable[..., Any], str]] = {
    "pad": (lambda x, v: fn.pad(x, axes=[0], shape=[9], fill_value=v), "fill_value"),
    "pad, for each sample": (lambda x, v: fn.pad(x, axes=[0], shape=[9], fill_value=each(v, v)), "fill_value"),
    "crop": (lambda x, v: fn.crop(x, crop=(9, 9), out_of_bounds_policy="pad", fill_values=v), "fill_values"),
    "slice": (lambda x, v: fn.slice(x, start=[-2], shape=[6], axes=[0], out_of_bounds_policy="pad", fill_values=[v]), "fill_values"),
    "erase": (lambda x, v: fn.erase(x, anchor=(1.0, 1.0), shape=(2.0, 2.0), fill_value=v), "fill_value"),
    "erase, for each sample": (lambda x, v: fn.erase(x, anchor=(1.0, 1.0), shape=(2.0, 2.0), fill_value=each(v, v)), "fill_value"),
    "cutout": (lambda x, v: fn.cutout(x, anchor=(1.0, 1.0), shape=(2.0, 2.0), fill_value=v), "fill_value"),
}


@pytest.mark.parametrize("name", FILLS)
def test_fills_of_nan_need_a_float_type(name: str) -> None:
    """An output of floats accepts NaN, as in DALI. An output of integers refuses it, whether its type is known when the graph is built or not."""
    define, arg = FILLS[name]
    as_float = IMAGE.astype(np.float32)
    filled = run(lambda x: define(x, -7), as_float)[0] == -7
    assert filled.any() and not filled.all()
    assert np.array_equal(np.isnan(run(lambda x: define(x, NAN), as_float)[0]), filled)
    assert np.array_equal(np.isinf(run(lambda x: define(x, INF), as_float)[0]), filled)
    for cast in (lambda x: x, lambda x: fn.cast(x, dtype=types.UINT8)):
        assert (run(lambda x: define(cast(x), INF))[0][filled] == 255).all()  # noqa: B023
        with pytest.raises(InvalidArgumentError, match=f'argument "{arg}" is nan, which an output of uint8 can\'t hold'):
            run(lambda x: define(cast(x), NAN))  # noqa: B023


def test_fills_of_outputs_of_another_type_than_the_input() -> None:
    define = lambda x, **kwargs: fn.crop_mirror_normalize(x, crop=(9, 9), out_of_bounds_policy="pad", fill_values=NAN, **kwargs)  # noqa: E731
    assert np.isnan(run(define)[0]).any()
    with pytest.raises(InvalidArgumentError, match='"fill_values" is nan, which an output of uint8'):
        run(lambda x: define(x, dtype=types.UINT8))
    assert np.isnan(run(lambda x: fn.one_hot(each(1, 1, dtype=np.int32), num_classes=3, off_value=NAN))[0]).tolist() == [True, False, True]
    with pytest.raises(InvalidArgumentError, match='"off_value" is nan, which an output of int32'):
        run(lambda x: fn.one_hot(each(1, 1, dtype=np.int32), num_classes=3, off_value=NAN, dtype=types.INT32))
    with pytest.raises(InvalidArgumentError, match='"default_value" is nan, which an output of uint8'):
        run(lambda x: fn.lookup_table(x, keys=[1], values=[2.0], default_value=NAN, dtype=types.UINT8))


def test_a_fill_that_is_nan_is_not_one_that_is_left_out() -> None:
    """A fill of NaN is refused. It must not have the effect of no fill, with which warps repeat the image's edge, and salt is the type's largest value."""
    for define in (
        lambda x: fn.warp_affine(x, matrix=[1, 0, 2, 0, 1, 0], fill_value=NAN),
        lambda x: fn.rotate(x, angle=30, fill_value=NAN),
        lambda x: fn.noise.salt_and_pepper(x, salt_val=NAN),
    ):
        with pytest.raises(InvalidArgumentError, match=r'argument "(fill_value|salt_val)" is nan; it must be a (finite float32|number) '):
            run(define)


@pytest.mark.parametrize("per_sample", [False, True])
def test_deviations_and_factors_of_noise_are_not_negative(per_sample: bool) -> None:
    for define, arg in (
        (lambda x, v: fn.noise.gaussian(x, stddev=v), "stddev"),
        (lambda x, v: fn.noise.shot(x, factor=v), "factor"),
        (lambda x, v: fn.random.normal(x, stddev=v), "stddev"),
    ):
        with pytest.raises(InvalidArgumentError, match=f'argument "{arg}" is -1; it must be finite and at least 0'):
            run(lambda x: define(x, each(1, -1) if per_sample else -1))  # noqa: B023


def test_arithmetic_computes_with_them() -> None:
    assert np.isnan(run(lambda x: x * NAN)[0]).all()
    assert np.isinf(run(lambda x: x + INF)[0]).all()
