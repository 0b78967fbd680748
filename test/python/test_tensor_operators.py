# SPDX-License-Identifier: Apache-2.0
"""Tensor operators where DALI is not a reference: its results contradict its documentation, or the case has draws, bad samples or odd values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stoker import Pipeline, fn, types
from stoker.errors import StokerError
from support import SEED


def run(define: Callable[[], Any], batches: int = 1, batch_size: int = 3, **settings: Any) -> list[list[list[np.ndarray]]]:
    """Runs a graph, and returns its values as [batch][output][sample]."""
    pipe = Pipeline(batch_size=batch_size, num_threads=2, device_id=None, seed=SEED, **settings)
    with pipe:
        nodes = define()
        pipe.set_outputs(*(nodes if isinstance(nodes, (tuple, list)) else (nodes,)))
    return [[[np.array(sample) for sample in output] for output in pipe.run()] for _ in range(batches)]


def given(samples: list[np.ndarray], layout: str | None = None) -> Any:
    return fn.external_source(source=[samples], cycle=True, layout=layout)


def refused(define: Callable[[], Any], match: str, **settings: Any) -> None:
    with pytest.raises((StokerError, TypeError), match=match):
        run(define, **settings)


ROWS = [np.arange(6, dtype=np.int32).reshape(2, 3) + 10 * i for i in range(3)]


def test_cat_by_name_takes_the_layout_that_there_is() -> None:
    def layouts(*names: str | None) -> str:
        pipe = Pipeline(batch_size=3, num_threads=1, device_id=None)
        with pipe:
            pipe.set_outputs(fn.cat(*(given(ROWS, name) for name in names), axis_name="W"))
        return str(pipe.run()[0].layout())

    assert layouts(None, "HW") == layouts("HW", None) == "HW"
    refused(lambda: fn.cat(given(ROWS, "HW"), given(ROWS, "AB"), axis_name="W"), '"HW" and "AB"')


def test_squeeze_refuses_axes_that_are_not_there() -> None:
    row = [np.zeros((1, 3, 1), np.uint8)] * 3
    refused(lambda: fn.squeeze(given(row), axes=3), "axis 3 .* out of range")
    refused(lambda: fn.squeeze(given(row), axes=-1), "axes")


def test_reshape_drops_a_layout_that_does_not_fit() -> None:
    pipe = Pipeline(batch_size=3, num_threads=1, device_id=None)
    with pipe:
        x = given([np.zeros((4, 6, 1), np.uint8)] * 3, "HWC")
        pipe.set_outputs(fn.reshape(x, src_dims=[1, 0]), fn.reshape(x, src_dims=[1, 0], layout="WH"))
    a, b = pipe.run()
    assert a.shape() == b.shape() == [(6, 4)] * 3 and (a.layout(), b.layout()) == ("", "WH")


def test_nothing_fills_the_largest_shapes() -> None:
    """A tensor without elements may have extents whose strides exceed 64 bits. It keeps its shape, and its sum is computed."""
    pipe = Pipeline(batch_size=3, num_threads=1, device_id=None)
    with pipe:
        wide = fn.full(given([np.int32(1)] * 3), shape=[0, 4294967301, 4294967296])
        pipe.set_outputs(wide, fn.reductions.sum(wide))
    shapes = [o.shape() for o in pipe.run()]
    assert shapes == [[(0, 4294967301, 4294967296)] * 3, [()] * 3]


def test_messages_tell_the_way_out() -> None:
    refused(lambda: fn.full(given(ROWS), shape=[3]), "does not fit")
    refused(lambda: fn.cat(given([np.int32(1)] * 3), given([np.int32(1)] * 3)), "stack gives them one")
    refused(lambda: fn.reinterpret(given([np.zeros(7, np.uint8)] * 3), dtype=types.INT32), "7 bytes .* give a shape")
    refused(lambda: given(ROWS).shape(dtype=types.UINT8), "cast the result")
    refused(lambda: fn.element_extract(given(ROWS), element_map=[0] * 1000), "1 to 999")
    refused(lambda: fn.brightness(given(ROWS, "HW"), brightness=fn.per_frame(given([np.ones(2, np.float32)] * 3))), "for each frame")


def test_bytes_that_begin_anywhere_as_a_wider_type() -> None:
    rng = np.random.default_rng(SEED)
    odd = [rng.integers(0, 256, 65, dtype=np.uint8)[1:] for _ in range(3)]
    clips = [rng.integers(0, 256, (5, 12), dtype=np.uint8) for _ in range(3)]

    def define() -> Any:
        frames = fn.element_extract(given(clips), element_map=[1, 3, 3])
        order = fn.sequence_rearrange(given(clips), new_order=[1, 2, 3, 4])
        wide = [fn.reinterpret(x, dtype=types.UINT32) for x in (*frames, order)]
        return fn.reinterpret(given(odd), dtype=types.INT64), *wide

    found = run(define)[0]
    for i in range(3):
        assert (found[0][i] == np.frombuffer(odd[i].tobytes(), np.int64)).all()
        for k, at in ((1, 1), (2, 3), (3, 3), (4, slice(1, None))):
            assert (found[k][i] == clips[i][at].view(np.uint32)).all()


def test_a_batch_is_permuted() -> None:
    def define(**kwargs: Any) -> Any:
        return fn.batch_permutation(**kwargs)

    size = 12
    plain = run(define, 40, size)
    derangements = run(lambda: define(no_fixed_points=True), 40, size)
    repeated = run(lambda: define(allow_repetitions=True), 40, size)
    others = run(lambda: define(allow_repetitions=True, no_fixed_points=True), 40, size)
    for found, whole, fixed in ((plain, True, True), (derangements, True, False), (repeated, False, True), (others, False, False)):
        drawn = np.array([[int(s) for s in batch[0]] for batch in found])
        assert found[0][0][0].dtype == np.int32 and drawn.min() >= 0 and drawn.max() < size
        assert (np.sort(drawn, 1) == np.arange(size)).all() == whole, SEED
        assert (drawn == np.arange(size)).any() == fixed, SEED
        assert len({tuple(d) for d in drawn}) == 40, "batches differ"
    assert run(lambda: define(no_fixed_points=True), 1, 1)[0][0][0] == 0
    same = run(lambda: (define(seed=5), define(seed=5), define(seed=6)), 4, size)
    assert all(a == b for a, b, _ in same) and any(a != c for a, _, c in same)


def test_all_permutations_are_as_likely() -> None:
    drawn = [tuple(int(s) for s in b[0]) for b in run(lambda: fn.batch_permutation(no_fixed_points=True), 900, 4)]
    counts = np.unique(drawn, axis=0, return_counts=True)[1]
    assert len(counts) == 9 and counts.min() > 60 and counts.max() < 145, (
        f"of 900 draws {counts}; seed {SEED}"
    )  # the expected number is 100, with a standard deviation of 9.4


def test_permuted_samples_belong_together(tree: Path) -> None:
    def define() -> Any:
        data, label = fn.readers.file(file_root=str(tree), random_shuffle=True)
        perm = fn.batch_permutation()
        image = fn.decoders.image(data)
        return image, label, data.source_info(), perm, *(fn.permute_batch(x, indices=perm) for x in (image, label, data))

    for batch in run(define, 6, 5):
        images, labels, names, perm, images2, labels2, files2 = batch
        for i in range(5):
            j = int(perm[i])
            assert (images2[i].shape, images2[i].tobytes(), int(labels2[i][0])) == (images[j].shape, images[j].tobytes(), int(labels[j][0]))
            assert files2[i].tobytes() == Path(names[j].tobytes().decode()).read_bytes()


def test_bad_samples_keep_their_numbers(tree: Path, tmp_path: Path) -> None:
    """A bad sample that is left out does not change the numbers of the others. A sample that takes values from it is bad too."""
    files = sorted(p for p in tree.rglob("*") if p.is_file())[:6]
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"hello")
    files[2] = bad

    def define() -> Any:
        data, label = fn.readers.file(files=[str(f) for f in files], labels=list(range(6)))
        image = fn.decoders.image(data)
        return fn.permute_batch(image.shape(), indices=[1, 0, 5, 4, 3, 2]), label, fn.permute_batch(label, indices=[1, 0, 5, 4, 3, 2])

    _shapes, labels, taken = run(define, 1, 6, on_error="skip", max_errors=2)[0]
    assert [int(v[0]) for v in labels] == [0, 1, 3, 4] and [int(v[0]) for v in taken] == [1, 0, 4, 3]


def test_names_of_samples(tree: Path) -> None:
    def define() -> Any:
        data, label = fn.readers.file(file_root=str(tree))
        return label, fn.get_property(label, key="source_info"), fn.decoders.image(data).property("layout")

    pipe = Pipeline(batch_size=3, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(*define())
    labels, names, layouts = pipe.run()
    assert [bytes(np.array(n)).decode() for n in names] == labels.source_info()
    assert {bytes(np.array(n)) for n in layouts} == {b"HWC"}


KINDS = ("float16", "bfloat16", "float64", "bool", "uint8", "int64")
NUMPY = {"sum": np.sum, "mean": np.mean, "min": np.min, "max": np.max}


@pytest.mark.parametrize("kind", KINDS)
def test_reductions_of_types_that_dali_refuses(kind: str) -> None:
    """Compares with NumPy in float64, which represents all values of this test."""
    rng = np.random.default_rng(SEED)
    plain = [rng.integers(0, 2 if kind == "bool" else 100, (3, 400, 5)).astype(np.float64) for _ in range(3)]
    target = types.to_dtype(kind)

    def define() -> Any:
        x = fn.cast(given(plain), dtype=target)
        found = [getattr(fn.reductions, name)(x, axes=[1]) for name in NUMPY]
        deviation = fn.reductions.std_dev(
            x, fn.reductions.mean(x, axes=[1], keep_dims=True) if kind != "float64" else found[1], axes=[1], ddof=1
        )
        return [
            fn.cast(f, dtype=types.FLOAT64)
            for f in (*found, fn.reductions.mean_square(x, axes=[1]), fn.reductions.rms(x, axes=[1]), deviation)
        ]

    wanted = [*(f(np.array(plain), 2) for f in NUMPY.values()), np.mean(np.square(plain), 2), np.sqrt(np.mean(np.square(plain), 2))]
    wanted.append(np.std(np.array(plain), 2, ddof=1))
    for got, want in zip(run(define)[0], wanted, strict=True):
        np.testing.assert_allclose(np.array(got), want, rtol=2e-6, err_msg=f"{kind}, seed {SEED}")


def test_constants_refuse_what_they_do_not_take() -> None:
    with pytest.raises(KeyError, match="there is no argument 'shpae'"), Pipeline(batch_size=1, num_threads=1, device_id=None):
        types.Constant([1, 2], shpae=[2])
    with Pipeline(batch_size=1, num_threads=1, device_id=None):
        types.Constant([1, 2], name="c", preserve=True)


def test_types_of_reductions() -> None:
    def kinds(source: types.DALIDataType, *names: str) -> list[types.DALIDataType]:
        pipe = Pipeline(batch_size=3, num_threads=1, device_id=None)
        with pipe:
            x = fn.cast(given(ROWS), dtype=source)
            pipe.set_outputs(*(getattr(fn.reductions, n)(x) for n in names), fn.reductions.variance(x, 3.0))
        return [o.dtype for o in pipe.run()]

    names = ("sum", "mean", "min", "max", "rms", "mean_square")
    assert kinds(types.FLOAT64, *names) == [types.FLOAT64] * 7
    assert kinds(types.BOOL, *names) == [types.UINT64, types.FLOAT, types.BOOL, types.BOOL, *[types.FLOAT] * 3]
    assert kinds(types.FLOAT16, *names) == [types.FLOAT, types.FLOAT, types.FLOAT16, types.FLOAT16, *[types.FLOAT] * 3]
    refused(lambda: fn.reductions.sum(given(ROWS), dtype=types.UINT8), "cast the result")
    refused(lambda: fn.reductions.sum(given(ROWS, "HW"), axis_names="HH"), 'axis "H" is given twice in axis_names')
    refused(lambda: fn.reductions.sum(given(ROWS, "HW"), axis_names="HX"), 'axis "X" is not in the layout "HW"')
    refused(lambda: fn.reductions.sum(given(ROWS), axes=[0, -2]), "axis -2 is given twice, also counted from the start")
    for axes in (-100, [0, 100]):
        with pytest.raises(IndexError, match="is out of range for a tensor of 2 dims"):
            run(lambda axes=axes: fn.reductions.sum(given(ROWS), axes=axes))
    refused(lambda: fn.reductions.sum(given(ROWS), axes=5), "axis 5 is out of range for a tensor of 2 dims: axes go from -2 to 1")
    with pytest.raises(IndexError):  # DALI raises the same error
        run(lambda: fn.reductions.sum(given(ROWS), axes=5))
    with pytest.raises(AttributeError, match=r'did you mean "reductions.mean"'):
        fn.reductions.avg  # noqa: B018
    refused(lambda: fn.reductions.variance(given(ROWS), fn.constant(idata=[1])), "cast it")


def test_means_of_groups() -> None:
    """The given mean may be one value for all groups (where DALI reads out of bounds) or one for each group, with the dimensions of the input or of the
    output. Other shapes are refused."""
    x = np.float32(ROWS)

    def deviations(mean: Any, **kwargs: Any) -> np.ndarray:
        return np.array(run(lambda: fn.reductions.variance(given(list(x)), mean, **kwargs))[0][0])

    np.testing.assert_allclose(deviations(np.float32(2), axes=1), ((x - 2) ** 2).mean(2))
    np.testing.assert_allclose(deviations(np.float32([1, 2]), axes=1), ((x - np.float32([[1], [2]])) ** 2).mean(2))
    np.testing.assert_allclose(
        deviations(np.float32([[1], [2]]), axes=1, keep_dims=True)[..., 0], ((x - np.float32([[1], [2]])) ** 2).mean(2)
    )
    refused(lambda: deviations(np.float32([[1, 2]]), axes=1), "2 values, .* 2 places")
    refused(lambda: deviations(np.float32([1, 2, 3]), axes=1), "3 values, .* 2 places")


def test_extremes_of_strange_numbers() -> None:
    rows = [np.array(v, np.float32) for v in ([-np.inf, np.nan, -5], [np.nan, np.inf, 5], [np.nan, np.nan, np.nan])]
    least, greatest = (np.array(o, np.float32) for o in run(lambda: (fn.reductions.min(given(rows)), fn.reductions.max(given(rows))))[0])
    assert least.tolist() == [-np.inf, 5, np.inf] and greatest.tolist() == [-5, np.inf, -np.inf]


def test_sums_of_whole_numbers_are_exact() -> None:
    """Sums of integers are exact even if float32 and double would lose digits, and wrap around in the output's type."""
    wide = [np.array([2**62, 2**62 - 1, 7, -(2**61)] * 300, np.int64) for _ in range(3)]
    bytes_ = [np.full(5000, 255, np.uint8)] * 3
    total, narrow, mean = run(
        lambda: (fn.reductions.sum(given(wide)), fn.reductions.sum(given(bytes_), dtype=types.UINT8), fn.reductions.mean(given(bytes_)))
    )[0]
    assert int(total[0]) == int(np.sum(wide[0])) and int(narrow[0]) == 5000 * 255 % 256 and float(mean[0]) == 255
