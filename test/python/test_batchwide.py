# SPDX-License-Identifier: Apache-2.0
"""Operators whose result for a sample depends on its batch, and subscripts and steps that differ by sample or channel, compared with NumPy for random
shapes and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stoker import Pipeline, fn, newaxis, types
from stoker.errors import InvalidArgumentError
from support import SEED, write_tree

TRIALS = 25


def run(build: Callable[..., Any], *inputs: Sequence[Any], layout: str | None = None, **kwargs: Any) -> list[list[np.ndarray]]:
    """Returns the outputs of one batch, each as a list of samples."""
    pipe = Pipeline(batch_size=len(inputs[0]), num_threads=2, device_id=None, seed=1, **kwargs)
    with pipe:
        nodes = [fn.external_source(source=[list(x)], cycle=True, layout=layout if i == 0 else None) for i, x in enumerate(inputs)]
        outputs = build(*nodes)
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    return [[np.array(o.at(i)) for i in range(len(o))] for o in pipe.run()]


def arrays(rng: np.random.Generator, ndim: int, dtype: Any = np.uint8, count: int = 4, high: int = 12) -> list[np.ndarray]:
    shapes = rng.integers(1, high, (count, ndim))
    return [rng.integers(0, 100, tuple(s)).astype(dtype) for s in shapes]


# ---- pad ----


def padded(x: np.ndarray, extents: Sequence[int], fill: float) -> np.ndarray:
    out = np.full(extents, fill, x.dtype)
    out[tuple(slice(n) for n in x.shape)] = x
    return out


@pytest.mark.parametrize("trial", range(TRIALS))
def test_padded_batches_equal_numpy(trial: int) -> None:
    rng = np.random.default_rng([SEED, trial])
    ndim = int(rng.integers(1, 5))
    xs = arrays(rng, ndim, rng.choice([np.uint8, np.float32, np.int64]))
    axes = [int(a) for a in rng.permutation(ndim)[: int(rng.integers(1, ndim + 1))]]
    shape = [int(v) for v in rng.choice([-1, 0, 5, 30], len(axes))]
    align = [int(v) for v in rng.choice([1, 2, 7], len(axes))]
    per_sample = rng.choice([-1, 6, 25], (len(xs), len(axes))).astype(np.int32)
    print(f"seed {SEED}, shapes {[x.shape for x in xs]}, axes {axes}, shape {shape}, align {align}, by sample {per_sample.tolist()}")
    largest = np.max([x.shape for x in xs], axis=0)

    def want(x: np.ndarray, shape: Sequence[int], align: Sequence[int], axes: Sequence[int] = axes) -> np.ndarray:
        extents = list(x.shape)
        for axis, n, a in zip(axes, shape, align, strict=True):
            to = max(extents[axis], n if n > 0 else largest[axis])
            extents[axis] = -(-to // a) * a
        return padded(x, extents, 3)

    def build(x: Any, s: Any) -> tuple[Any, ...]:
        return (
            fn.pad(x, fill_value=3),
            fn.pad(x, fill_value=3, axes=axes, shape=shape),
            fn.pad(x, fill_value=3, axes=axes, shape=shape, align=align),
            fn.pad(x, fill_value=3, axes=axes, align=align),
            fn.pad(x, fill_value=3, axes=axes, shape=s),
        )

    outputs = run(build, xs, per_sample)
    none, ones = [-1] * len(axes), [1] * len(axes)
    for i, x in enumerate(xs):
        everywhere = want(x, [-1] * ndim, [1] * ndim, range(ndim))
        expected = (everywhere, want(x, shape, ones), want(x, shape, align), want(x, none, align), want(x, per_sample[i], ones))
        for k, e in enumerate(expected):
            np.testing.assert_array_equal(outputs[k][i], e, err_msg=f"output {k}, sample {i}")


@pytest.mark.parametrize("name,other", [("shape", "align"), ("align", "shape")])
def test_pad_counts_what_does_not_differ(name: str, other: str) -> None:
    """An argument with a wrong number of values is refused when the operator is called, even if another argument differs by sample."""
    with Pipeline(batch_size=2, num_threads=1, device_id=None):
        x = fn.constant(idata=list(range(24)), shape=[2, 3, 4])
        given = fn.random.uniform(range=[1, 4], shape=[3], dtype=types.INT32)
        with pytest.raises(InvalidArgumentError, match=f"{name} has 2 values for 3 axes: give one, or one for each"):
            fn.pad(x, **{name: [5, 6], other: given})


def test_pad_of_what_the_reader_gives(tmp_path: Path) -> None:
    """pad and one_hot, which need all samples of a batch, accept bytes and labels from a reader, which runs sample by sample."""
    paths = sorted(write_tree(tmp_path, np.random.default_rng(SEED), 2, 3))
    pipe = Pipeline(batch_size=6, num_threads=2, device_id=None)
    with pipe:
        data, label = fn.readers.file(file_root=str(tmp_path))
        pipe.set_outputs(fn.pad(data), fn.one_hot(label, num_classes=2), fn.decoders.image(data), data)
    rows, labels, images, _ = pipe.run()
    files = [path.read_bytes() for path in paths]
    for i, data in enumerate(files):
        np.testing.assert_array_equal(np.array(rows.at(i)), padded(np.frombuffer(data, np.uint8), [max(map(len, files))], 0))
        assert np.array(labels.at(i)).tolist() == [float(i < 3), float(i >= 3)]
        assert np.array(images.at(i)).ndim == 3


# ---- normalize ----


@pytest.mark.parametrize("trial", range(TRIALS))
def test_normalize_over_the_batch(trial: int) -> None:
    rng = np.random.default_rng([SEED, 1, trial])
    ndim = int(rng.integers(1, 5))
    axes = sorted(int(a) for a in rng.permutation(ndim)[: int(rng.integers(1, ndim + 1))])
    dtype = rng.choice([np.uint8, np.int16, np.float32, np.int32])
    xs = [rng.integers(0, 100, tuple(rng.integers(2, 9) if d in axes else 3 for d in range(ndim))).astype(dtype) for _ in range(4)]
    ddof, epsilon = int(rng.integers(0, 2)), float(rng.choice([0, 2.5]))
    print(f"seed {SEED}, {np.dtype(dtype)}, shapes {[x.shape for x in xs]}, axes {axes}, ddof {ddof}, epsilon {epsilon}")

    def build(x: Any) -> tuple[Any, ...]:
        common = {"axes": axes, "batch": True, "ddof": ddof, "epsilon": epsilon}
        return fn.normalize(x, **common), fn.normalize(x, mean=40, scale=3, shift=2, **common), fn.normalize(x, stddev=9, **common)

    outputs = run(build, xs)
    kept = [d for d in range(ndim) if d not in axes]
    flat = np.concatenate([np.moveaxis(x.astype(np.float64), kept, range(len(kept))).reshape(*[3] * len(kept), -1) for x in xs], axis=-1)
    mean = flat.mean(-1)

    def spread(values: np.ndarray, about: Any) -> np.ndarray:
        return np.sqrt(((values - np.asarray(about)[..., None]) ** 2).sum(-1) / (values.shape[-1] - ddof) + epsilon)

    def wide(values: np.ndarray) -> np.ndarray:
        return np.expand_dims(values, tuple(axes))

    for i, x in enumerate(xs):
        expected = (
            (x - wide(mean)) / wide(spread(flat, mean)),
            (x - 40.0) / wide(spread(flat, np.full(mean.shape, 40.0))) * 3 + 2,
            (x - wide(mean)) / np.sqrt(81 + epsilon),
        )
        for k, e in enumerate(expected):
            np.testing.assert_allclose(outputs[k][i], e, atol=1e-4, rtol=1e-5, err_msg=f"output {k}, sample {i}")


def test_normalize_needs_alike_places() -> None:
    xs = [np.zeros((4, 3), np.uint8), np.zeros((5, 3), np.uint8), np.zeros((4, 2), np.uint8)]
    with pytest.raises(Exception, match=r"extent of 2 in dim 1.*first.* 3; sample 2 of epoch 0, normalize at .*test_batchwide"):
        run(lambda x: fn.normalize(x, axes=[0], batch=True), xs)


# ---- samples that differ in kind ----


def test_one_hot_goes_by_the_batch() -> None:
    def shapes(*lengths: int) -> list[tuple[int, ...]]:
        (out,) = run(lambda x: fn.one_hot(x, num_classes=4), [np.ones(n, np.int32) for n in lengths])
        return [o.shape for o in out]

    assert shapes(1, 1, 1) == [(4,)] * 3
    assert shapes(1, 2, 1) == [(1, 4), (2, 4), (1, 4)]


UNLIKE = {"dims": [np.zeros(3), np.zeros(3), np.zeros((3, 1))], "types": [np.zeros(3), np.zeros(3), np.zeros(3, np.int32)]}


@pytest.mark.parametrize("kind", UNLIKE)
def test_samples_of_a_source_are_alike(kind: str) -> None:
    for build in (fn.copy, fn.pad, lambda x: fn.cast(x, dtype=types.INT32), lambda x: fn.stack(x, x), lambda x: x + 1):
        with pytest.raises(Exception, match=r"external_source_0.*first sample of the batch.*; sample 2 of epoch 0") as caught:
            run(build, UNLIKE[kind])
        assert caught.value.sample == 2


def test_samples_of_an_output_are_alike() -> None:
    shapes = [np.array(s, np.int32) for s in ([3, 4], [2, 6], [12])]
    with pytest.raises(Exception, match=r"output 0 is int32 with 1 dims, .*; sample 2 of epoch 0, reshape at") as caught:
        run(lambda x, s: fn.reshape(x, shape=s), [np.zeros(12, np.int32)] * 3, shapes)
    assert caught.value.sample == 2


def test_a_skipped_sample_counts_in_the_batch_of_a_gather() -> None:
    """pad uses the largest extents of the samples that had not failed when it began, even if one fails meanwhile."""
    xs = [np.zeros((n, 2), np.uint8) for n in (5, 40, 7, 6, 3, 8, 2, 9)]
    for _ in range(10):
        pads, parts = run(lambda x: (fn.pad(x), fn.slice(x, start=[0], end=[5], axes=[0], out_of_bounds_policy="pad")), xs)
        assert {p.shape for p in pads} == {(40, 2)}
        pads, parts = run(
            lambda x, i: (fn.pad(x), x[i]), xs, [np.int32(n) for n in (1, 45, 1, 1, 1, 1, 1, 1)], on_error="skip", max_errors=5
        )
        assert {p.shape for p in pads} == {(40, 2)}
        assert len(parts) == 7


# ---- subscripts ----


@pytest.mark.parametrize("trial", range(TRIALS))
def test_subscripts_by_sample(trial: int) -> None:
    rng = np.random.default_rng([SEED, 2, trial])
    xs = arrays(rng, 3, np.int16)
    kind = rng.choice([np.int8, np.int32, np.int64])
    a, b, c = (rng.integers(-14, 15, len(xs)).astype(kind) for _ in range(3))
    step = np.where(c == 0, 1, c).astype(kind)
    index = np.array([rng.integers(-x.shape[1], x.shape[1]) for x in xs], kind)
    print(f"seed {SEED}, shapes {[x.shape for x in xs]}, {a}, {b}, {step}, {index}")

    def pick(x: Any, a: Any, b: Any, step: Any, index: Any) -> tuple[Any, ...]:
        return x[a:b], x[:, index], x[a::step, :b], x[b:a:-1, index, 1:], x[::step, ::2, a:], x[0, index, 0]

    outputs = run(pick, xs, a, b, step, index)
    for i, x in enumerate(xs):
        for k, want in enumerate(pick(x, int(a[i]), int(b[i]), int(step[i]), int(index[i]))):
            np.testing.assert_array_equal(outputs[k][i], want, err_msg=f"output {k}, sample {i}")


def test_subscripts_say_what_is_wrong() -> None:
    xs = [np.zeros((4, 3), np.uint8)] * 3
    for bad, text in (
        ([1, 9, 2], "index 9 is out of range for dim 0 of 4; sample 1"),
        ([1.0, 1.0, 2.0], "whole numbers; this one is float64"),
        ([[1], [1], [2]], "scalars; this one has 1 dim"),
    ):
        with pytest.raises(Exception, match=text):
            run(lambda x, a: x[a], xs, [np.array(v) for v in bad])
    with pytest.raises(Exception, match="step of 0 in dim 1; sample 2"):
        run(lambda x, a: x[:, ::a], xs, [np.int32(v) for v in (1, 2, 0)])


def test_new_axes() -> None:
    (x,) = arrays(np.random.default_rng([SEED, 3]), 3, count=1)
    outputs = run(lambda n: (n[newaxis], n[:, newaxis, 0], n[..., newaxis], n[newaxis, ..., 0, newaxis]), [x], layout="HWC")
    for out, want in zip(outputs, (x[None], x[:, None, 0], x[..., None], x[None, ..., 0, None]), strict=True):
        np.testing.assert_array_equal(out[0], want)


# ---- planar images ----


@pytest.mark.parametrize("fuse", ["1", "0"])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_planar_images_are_what_interleaved_ones_are(channels: int, fuse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_FUSE", fuse)
    rng = np.random.default_rng([SEED, 4, channels])
    xs = [rng.integers(0, 256, (*rng.integers(20, 40, 2), channels)).astype(np.uint8) for _ in range(4)]
    mean, std = rng.uniform(50, 150, channels).tolist(), rng.uniform(20, 80, channels).tolist()
    mirror = [np.int32(v) for v in (0, 1, 1, 0)]

    def build(x: Any, m: Any) -> tuple[Any, ...]:
        common = {"mean": mean, "std": std, "mirror": m, "pad_output": True, "out_of_bounds_policy": "pad"}
        fills = list(range(1, channels + 1))
        small = fn.resize(x, size=[17, 23])
        return tuple(
            fn.crop_mirror_normalize(v, crop=[30, 12], fill_values=f, output_layout=layout, **common)
            for v in (x, small, fn.crop(x, crop=[33, 21], out_of_bounds_policy="pad", fill_values=fills))
            for layout in ("CHW", "HWC")
            for f in ([7], fills)
        )

    plain = run(build, xs, mirror, layout="HWC")
    planar = run(build, [np.ascontiguousarray(x.transpose(2, 0, 1)) for x in xs], mirror, layout="CHW")
    for k, (a, b) in enumerate(zip(plain, planar, strict=True)):
        for i in range(len(xs)):
            np.testing.assert_array_equal(a[i], b[i], err_msg=f"output {k}, sample {i}, seed {SEED}")


def test_colours_behind_a_transposition() -> None:
    rng = np.random.default_rng([SEED, 5])
    xs = [rng.integers(0, 256, (3, *rng.integers(20, 40, 2))).astype(np.uint8) for _ in range(3)]
    turned = [np.ascontiguousarray(x.transpose(1, 2, 0)) for x in xs]
    (a,) = run(lambda x: fn.hsv(fn.transpose(x, perm=[1, 2, 0]), hue=40.0), xs, layout="CHW")
    (b,) = run(lambda x: fn.hsv(x, hue=40.0), turned, layout="HWC")
    for i in range(3):
        np.testing.assert_array_equal(a[i], b[i])


# ---- empty images ----

EMPTY: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray] | None]] = {
    "pad": (lambda x: fn.pad(x, axes=[0, 1], shape=[6, 7], fill_value=9), lambda x: padded(x, (6, 7, 3), 9)),
    "flip": (lambda x: fn.flip(x, vertical=1), lambda x: x[::-1, ::-1]),
    "flip, crop": (lambda x: fn.crop(fn.flip(x), crop=[0, 0]), lambda x: x[:, ::-1]),
    "slice": (lambda x: fn.slice(x, start=[0], end=[0], axes=[0]), lambda x: x[:0]),
    "crop": (lambda x: fn.crop(x, crop=[3, 2], out_of_bounds_policy="trim_to_shape"), lambda x: x[:3, :2]),
    "transpose": (lambda x: fn.transpose(x, perm=[2, 0, 1]), lambda x: x.transpose(2, 0, 1)),
    "crop_mirror_normalize": (lambda x: fn.crop_mirror_normalize(x, mirror=1, scale=2, output_layout="HWC"), lambda x: x[:, ::-1] * 2.0),
    "normalize": (lambda x: fn.normalize(x, mean=1.0, stddev=0.5), lambda x: (x - 1.0) * 2),
    "brightness": (lambda x: fn.brightness(x, brightness=1), lambda x: x),
    "hsv": (lambda x: fn.hsv(x), lambda x: x),
    "cast": (lambda x: fn.cast(x, dtype=types.INT32), lambda x: x),
    "color_space_conversion": (
        lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.BGR),
        lambda x: x[..., ::-1],
    ),
    "resize": (lambda x: fn.resize(x, size=[3, 4]), lambda x: np.zeros([s and n for s, n in zip(x.shape, (3, 4, 3), strict=True)])),
    "resize, crop": (
        lambda x: fn.crop_mirror_normalize(fn.resize(x, size=[3, 4]), crop=[2, 2], out_of_bounds_policy="pad", fill_values=7.0),
        lambda x: np.full((3, 2, 2), 7.0),
    ),
    "resize, mirror, floats": (
        lambda x: fn.flip(fn.resize(x, resize_shorter=6, dtype=types.FLOAT)) + 1,
        lambda x: np.zeros([s and 6 for s in x.shape[:2]] + [3]),
    ),
    "random_resized_crop": (lambda x: fn.random_resized_crop(x, size=[3, 4]), None),
    "warp_affine": (lambda x: fn.warp_affine(x, matrix=[1, 0, 0, 0, 1, 0], fill_value=0), lambda x: x),
    "warp_affine, mirror, floats": (lambda x: fn.flip(fn.warp_affine(x, matrix=[2, 0, 1, 0, 1, 0], dtype=types.FLOAT)), lambda x: x),
    "warp_affine to a size": (lambda x: fn.warp_affine(x, matrix=[1, 0, 0, 0, 1, 0], size=[3, 4], fill_value=0), None),
    "rotate": (lambda x: fn.rotate(x, angle=30.0, keep_size=True), lambda x: x),
}


@pytest.mark.parametrize("shape", [(0, 5, 3), (4, 0, 3), (0, 0, 3)])
@pytest.mark.parametrize("name", EMPTY)
def test_empty_images(name: str, shape: tuple[int, ...]) -> None:
    """For an empty image, with or without a layout, the operators give NumPy's results, or report that there is nothing to sample."""
    build, reference = EMPTY[name]
    xs = [np.zeros(shape, np.uint8)]
    if reference is None:
        with pytest.raises(Exception, match=r"nothing to|has no pixels"):
            run(build, xs, layout="HWC")
        return
    for layout in ("HWC", None):
        (out,) = run(build, xs, layout=layout)
        np.testing.assert_array_equal(out[0], reference(xs[0]))


def test_a_warp_to_nothing() -> None:
    with pytest.raises(Exception, match="nothing to warp"):
        run(lambda x: fn.warp_affine(x, matrix=[1, 0, 0, 0, 1, 0], size=[0, 5]), [np.zeros((4, 5, 3), np.uint8)], layout="HWC")
