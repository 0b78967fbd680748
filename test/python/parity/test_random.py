# SPDX-License-Identifier: Apache-2.0
"""Random operators have DALI's distributions, but their own random streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import RECORDS, SEED, Case, Library, Record, T, libraries, library

stats = pytest.importorskip("scipy.stats")

ALPHA = 1e-3  # significance level; the seed is fixed, so a test that passes once always passes
DRAWS = 4000


def _drawn(lib: Library, build: Callable[[Library], Any], batches: int = 8, batch: int = 500) -> np.ndarray:
    pipe = lib.Pipeline(batch_size=batch, num_threads=1, device_id=None, seed=SEED, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(build(lib))
    runs = [pipe.run()[0] for _ in range(batches)]
    return np.concatenate([np.array(r.at(i))[None] for r in runs for i in range(batch)])


def _note(op: str, case: str, p: float) -> None:
    print(f"{op}({case}): p = {p:.3g}, seed {SEED}")
    RECORDS.append(Record(op, case, 0, 1, 1, False, f"distribution, p > {ALPHA}", ""))
    assert p > ALPHA


CONTINUOUS: list[tuple[str, dict[str, Any]]] = [
    ("random.uniform", {}),
    ("random.uniform", {"range": [-3.0, 5.0]}),
    ("random.uniform", {"range": [0.0, 1.0], "shape": [3]}),
    ("random.normal", {}),
    ("random.normal", {"mean": 4.0, "stddev": 2.5}),
    ("random.normal", {"mean": -1.0, "shape": [2, 2]}),
    ("random.beta", {}),
    ("random.beta", {"alpha": 0.2, "beta": 0.4}),
    ("random.beta", {"alpha": 3.0, "beta": 1.5, "shape": [2]}),
    ("random.beta", {"alpha": 0.01, "beta": 0.01}),
    ("random.beta", {"alpha": 40.0, "beta": 0.5}),
    ("random.beta", {"alpha": 0.05, "beta": 2.0}),
]


@pytest.mark.parametrize(("op", "kwargs"), CONTINUOUS)
def test_continuous_distributions_are_those_of_dali(op: str, kwargs: dict[str, Any]) -> None:
    dali, ours = (_drawn(lib, lambda l: l.operator(op)(**kwargs)) for lib in libraries())
    assert (ours.shape, ours.dtype) == (dali.shape, dali.dtype)
    _note(op, str(kwargs), stats.ks_2samp(ours.ravel(), dali.ravel()).pvalue)


@pytest.mark.parametrize("op", ["uniform", "normal", "beta", "coin_flip"])
def test_draws_in_the_shape_of_an_input_have_no_layout(op: str) -> None:
    found = []
    for lib in libraries():
        pipe = lib.Pipeline(batch_size=2, num_threads=1, device_id=None)
        with pipe:
            image = lib.fn.external_source(source=[[np.zeros((2, 3, 4), np.float32)] * 2], cycle=True, layout="HWC")
            pipe.set_outputs(lib.operator(f"random.{op}")(image))
        (drawn,) = pipe.run()
        found.append((drawn.layout(), [np.array(drawn.at(i)).shape for i in range(2)]))
    assert found[1] == found[0] == ("", [(2, 3, 4)] * 2)


DISCRETE: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("random.coin_flip", (), {}),
    ("random.coin_flip", (), {"probability": 0.2}),
    ("random.coin_flip", (), {"probability": 0.7, "dtype": T.UINT8, "shape": [2]}),
    ("random.uniform", (), {"values": [1.0, 2.0, 5.0]}),
    ("random.uniform", (), {"range": [0, 5], "dtype": T.INT32}),
    ("random.choice", (6,), {}),
    ("random.choice", (4,), {"p": [0.1, 0.2, 0.3, 0.4]}),
    ("random.choice", ([10, 20, 30],), {"shape": [2]}),
    ("random.normal", (), {"mean": 3.0, "stddev": 1.5, "dtype": T.INT32}),
]


@pytest.mark.parametrize(("op", "inputs", "kwargs"), DISCRETE)
def test_discrete_distributions_are_those_of_dali(op: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    def build(lib: Library) -> Any:
        return lib.operator(op)(*inputs, **{k: lib.resolve(v) for k, v in kwargs.items()})

    dali, ours = (_drawn(lib, build) for lib in libraries())
    assert (ours.shape, ours.dtype) == (dali.shape, dali.dtype)
    values = np.union1d(dali, ours)
    table = np.array([[(x == v).sum() for v in values] for x in (dali, ours)])
    table = table[:, table.sum(0) >= 10]
    _note(op, str(kwargs), stats.chi2_contingency(table).pvalue)


def _coordinates(height: int, width: int) -> np.ndarray:
    """Makes a picture whose pixels store their own positions, so that a window of it shows its position."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x, y, np.zeros_like(x)], -1).astype(np.float32)


WINDOWS: list[tuple[tuple[int, int], dict[str, Any]]] = [
    ((120, 160), {}),
    ((60, 300), {}),
    ((100, 100), {"random_area": [0.3, 0.6], "random_aspect_ratio": [0.5, 2.0]}),
    ((30, 400), {"random_area": [0.9, 1.0], "num_attempts": 2}),
]


def _windows(lib: Library, extent: tuple[int, int], kwargs: dict[str, Any]) -> np.ndarray:
    """Returns left, top, width and height of drawn windows. They follow from crops of a picture of coordinates, resized to 2x2 pixels with a linear filter."""
    picture = _coordinates(*extent)

    def build(lib: Library) -> Any:
        image = lib.fn.external_source(source=[[picture] * 250], cycle=True, layout="HWC")
        return lib.fn.random_resized_crop(image, size=[2, 2], interp_type=lib.types.INTERP_LINEAR, antialias=False, **kwargs)

    out = _drawn(lib, build, batches=8, batch=250)
    left, right = out[:, 0, 0, 0], out[:, 0, 1, 0]
    top, bottom = out[:, 0, 0, 1], out[:, 1, 0, 1]
    width, height = 2 * (right - left), 2 * (bottom - top)  # the two pixels' centres are half of the crop's extent apart
    return np.stack([left + 0.5 - width / 4, top + 0.5 - height / 4, width, height], 1)


@pytest.mark.parametrize(("extent", "kwargs"), WINDOWS)
def test_windows_have_the_distribution_of_dali(extent: tuple[int, int], kwargs: dict[str, Any]) -> None:
    dali, ours = (_windows(lib, extent, kwargs) for lib in libraries())
    for what, of in (
        ("left", lambda w: w[:, 0]),
        ("top", lambda w: w[:, 1]),
        ("area", lambda w: w[:, 2] * w[:, 3]),
        ("aspect", lambda w: w[:, 2] / w[:, 3]),
    ):
        _note("random_resized_crop", f"{extent} {kwargs}: {what}", stats.ks_2samp(of(ours).round(2), of(dali).round(2)).pvalue)


def test_windows_of_the_decoder() -> None:
    import cv2

    picture = np.random.default_rng(SEED).integers(0, 255, (120, 160, 3)).astype(np.uint8)
    data = cv2.imencode(".png", picture)[1]

    def build(lib: Library) -> Any:
        files = lib.fn.external_source(source=[[data] * 250], cycle=True)
        return lib.fn.decoders.image_random_crop(files).shape()

    dali, ours = (_drawn(lib, build, batches=8, batch=250) for lib in libraries())
    for k, what in enumerate(("height", "width")):
        _note("decoders.image_random_crop", what, stats.ks_2samp(ours[:, k], dali[:, k]).pvalue)
    _note("decoders.image_random_crop", "aspect", stats.ks_2samp(ours[:, 1] / ours[:, 0], dali[:, 1] / dali[:, 0]).pvalue)


def test_torchvisions_windows() -> None:
    """The windows have the distribution of torchvision's RandomResizedCrop.get_params, which this test implements from its documentation."""
    rng = np.random.default_rng(SEED)
    height, width, reference = 120, 160, []
    while len(reference) < 2000:
        for _ in range(10):
            area, aspect = height * width * rng.uniform(0.08, 1), np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
            w, h = round(float(np.sqrt(area * aspect))), round(float(np.sqrt(area / aspect)))
            if 0 < w <= width and 0 < h <= height:
                reference.append((w, h))
                break
    sizes = np.array(reference)
    ours = _windows(list(libraries())[1], (height, width), {})
    _note("random_resized_crop", "torchvision: area", stats.ks_2samp((ours[:, 2] * ours[:, 3]).round(), sizes[:, 0] * sizes[:, 1]).pvalue)
    _note("random_resized_crop", "torchvision: width", stats.ks_2samp(ours[:, 2].round(), sizes[:, 0]).pvalue)


def test_both_libraries_refuse_the_same_arguments() -> None:
    from harness import check

    check(Case("random.choice", (), {"p": [0.5, 0.5]}, build=lambda l: l.fn.random.choice(3, p=[0.5, 0.5]), error=True))
    check(Case("random.choice", (), {"p": 1.0}, build=lambda l: l.fn.random.choice(2, p=1.0), error=True))
    check(Case("random.choice", (), {"p": 1.0}, build=lambda l: l.fn.random.choice(1, p=1.0), exact=True))
    for kwargs in ({"alpha": 0.0}, {"beta": 0.0}, {"alpha": -1.0}, {"dtype": T.FLOAT16}, {"dtype": T.UINT8}):
        check(Case("random.beta", (), kwargs, error=True))


NOISES: list[tuple[str, str, int, dict[str, Any]]] = [
    ("noise.gaussian", "float32", 100, {"mean": 2.0, "stddev": 3.5}),
    ("noise.gaussian", "uint8", 100, {"stddev": 2.5}),
    ("noise.gaussian", "int16", -7, {"mean": -1.5, "stddev": 40.0}),
    ("noise.shot", "float32", 100, {"factor": 20.0}),
    ("noise.shot", "uint8", 100, {"factor": 12.0}),  # DALI documents 20 as the default, but uses 12
    ("noise.shot", "uint16", 5000, {"factor": 10.0}),
    ("noise.shot", "int32", 9, {"factor": 0.5}),
    ("noise.salt_and_pepper", "uint8", 100, {"prob": 0.3, "salt_vs_pepper": 0.25}),
    ("noise.salt_and_pepper", "float32", 0, {"prob": 0.5, "per_channel": True}),
    ("noise.salt_and_pepper", "int16", 3, {"prob": 0.2, "salt_val": 7.0, "pepper_val": -9.5}),
]


@pytest.mark.parametrize(("op", "dtype", "value", "kwargs"), NOISES)
def test_noise_has_the_distribution_of_dali(op: str, dtype: str, value: int, kwargs: dict[str, Any]) -> None:
    image = np.full((40, 50, 3), value, dtype)

    def build(lib: Library) -> Any:
        return lib.operator(op)(lib.fn.external_source(source=[[image] * 4], cycle=True, layout="HWC"), **kwargs)

    dali, ours = (_drawn(lib, build, 2, 4) for lib in libraries())
    assert (ours.shape, ours.dtype) == (dali.shape, dali.dtype)
    together = op.endswith("pepper") and not kwargs.get("per_channel")
    for drawn in (dali, ours):
        assert (drawn[..., 0] == drawn[..., 1]).all() == together
        assert (drawn[0] != drawn[1]).any() and (drawn[0] != drawn[4]).any(), "samples and batches draw the same"
    if together:
        dali, ours = dali[..., 0], ours[..., 0]
    if op == "noise.gaussian" and dtype == "float32":
        p = stats.ks_2samp(ours.ravel(), dali.ravel()).pvalue
    else:
        values = np.union1d(dali, ours)
        counts = np.array([[np.count_nonzero(drawn == v) for v in values] for drawn in (dali, ours)])
        rare = counts.sum(axis=0) < 20
        counts = np.column_stack([counts[:, ~rare], counts[:, rare].sum(axis=1)])
        p = stats.chi2_contingency(counts[:, counts.sum(axis=0) > 0]).pvalue
    _note(op, f"{dtype}, {kwargs}", p)


def test_shot_noise_of_factor_0_changes_nothing() -> None:
    """Stoker's noise.shot returns the image unchanged, as DALI documents it. DALI's own operator gives 0 everywhere, so it is not compared."""
    ours = library("stoker")
    for dtype in (np.uint8, np.float32):
        image = np.arange(24, dtype=dtype).reshape(2, 4, 3)
        got = _drawn(ours, lambda l, i=image: l.fn.noise.shot(l.fn.external_source(source=[[i]], cycle=True), factor=0.0), 1, 1)
        assert (got[0] == image).all()


def test_choices_that_32_bits_do_not_hold() -> None:
    import stoker
    from stoker import fn, types

    for count in (2**32 - 1, 2**32 + 5, 3 * 2**61):
        pipe = stoker.Pipeline(batch_size=2, num_threads=2, seed=11)
        with pipe:
            pipe.set_outputs(fn.random.choice(types.Constant(np.int64(count), dtype=types.INT64), shape=[5000]))
        (drawn,) = pipe.run()
        x = np.concatenate([drawn.at(i) for i in range(2)])
        assert x.dtype == np.int64 and x.min() >= 0 and x.max() < count
        assert stats.kstest(x / count, "uniform").pvalue > 1e-4, count
        assert stats.chisquare(np.bincount(x & 15, minlength=16)).pvalue > 1e-4, count
