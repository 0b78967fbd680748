# SPDX-License-Identifier: Apache-2.0
"""stoker.auto_aug and DALI's: augmentations at each magnitude, suites, policies and errors. Draws differ, so only their distributions are compared."""

from __future__ import annotations

import importlib
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stoker
from support import SEED

dali = pytest.importorskip("nvidia.dali")

BINS = 11
SIZES = [(40 + i, 57 - i) for i in range(2 * BINS)]


def library(module: Any) -> Any:
    names = (
        "fn",
        "types",
        "auto_aug.augmentations",
        "auto_aug.auto_augment",
        "auto_aug.core",
        "auto_aug.rand_augment",
        "auto_aug.trivial_augment",
    )
    parts = {name.rpartition(".")[2]: importlib.import_module(f"{module.__name__}.{name}") for name in names}
    return SimpleNamespace(pipeline_def=importlib.import_module(f"{module.__name__}.pipeline").pipeline_def, **parts)


STOKER, DALI = library(stoker), library(dali)
BOTH = pytest.mark.parametrize("lib", [STOKER, DALI], ids=["stoker", "dali"])


def picture(height: int, width: int, number: int) -> Any:
    """Makes a smooth picture with edges and some noise. It does not use the whole range of values, so that auto_contrast changes it."""
    rng = np.random.default_rng((SEED, number))
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / (5 + c)) + np.cos(y / (7 - c)) + ((x + y) // 16 % 2) for c in range(3)]
    image = np.stack(waves, 2) * 40 + 100 + rng.normal(0, 4, (height, width, 3))
    return np.clip(image, 20 + number, 235).astype(np.uint8)


IMAGES = [picture(*size, i) for i, size in enumerate(SIZES)]


def run(lib: Any, define: Any, batch: int = len(IMAGES), **kwargs: Any) -> list[list[Any]]:
    settings = {"batch_size": batch, "num_threads": 2, "device_id": None, "seed": SEED, "enable_conditionals": True, **kwargs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = lib.pipeline_def(define)(**settings)
        pipe.build()
        return [[np.array(t) for t in output] for output in pipe.run()]


def given(lib: Any, values: Any, **kwargs: Any) -> Any:
    samples = [np.asarray(v) for v in values]
    return lib.fn.external_source(lambda: samples, batch=True, **kwargs)


NAMES = (
    "shear_x shear_y translate_x translate_x_no_shape translate_y translate_y_no_shape rotate brightness contrast color sharpness posterize solarize "
    "solarize_add invert equalize auto_contrast identity"
).split()


def test_each_augmentation_at_each_magnitude() -> None:
    """Tests all magnitude bins with both signs, in the ranges that the suites use. Some warps are tested again with nearest interpolation and without a fill
    value, so that border pixels are repeated."""

    def of(lib: Any) -> Any:
        def define() -> Any:
            image = given(lib, IMAGES, layout="HWC")
            bins, signs = (
                given(lib, v, ndim=0) for v in (np.arange(2 * BINS, dtype=np.int32) // 2, np.arange(2 * BINS, dtype=np.int32) % 2)
            )
            signed = lib.core.signed_bin(bins, random_sign=signs)
            made = []
            for name in NAMES:
                aug, more = (
                    getattr(lib.augmentations, name),
                    {"shape": lib.fn.shapes(image)} if name in ("translate_x", "translate_y") else {},
                )
                made.append(aug(image, magnitude_bin=signed, num_magnitude_bins=BINS, **more))
            nearest = {"fill_value": None, "interp_type": lib.types.INTERP_NN}
            for name in ("shear_x", "rotate", "translate_y_no_shape"):
                made.append(getattr(lib.augmentations, name)(image, magnitude_bin=signed, num_magnitude_bins=BINS, **nearest))
            made.append(lib.augmentations.color.augmentation((0.1, 1.9), False, None)(image, magnitude_bin=bins, num_magnitude_bins=BINS))
            made.append(lib.augmentations.posterize(image, magnitude_bin=7, num_magnitude_bins=BINS))
            return tuple(made)

        return define

    ours, theirs = run(STOKER, of(STOKER)), run(DALI, of(DALI))
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        name = NAMES[number] if number < len(NAMES) else f"further {number - len(NAMES)}"
        gaps = [np.abs(x.astype(int) - y.astype(int)) for x, y in zip(a, b, strict=True)]
        most, differ = max(int(g.max()) for g in gaps), np.mean([np.mean(g > 0) for g in gaps])
        nearest = number in range(len(NAMES), len(NAMES) + 3)
        assert all(x.shape == y.shape for x, y in zip(a, b, strict=True)), name
        assert (np.mean([np.mean(g > 1) for g in gaps]) < 0.002) if nearest else most <= 1, (name, most, SEED)
        assert differ < 0.02, (name, differ, SEED)


@BOTH
def test_policies_and_suites_are_the_same(lib: Any) -> None:
    """Compares names, probabilities, bins and ranges of all policies and suites with the other library's."""
    other = DALI if lib is STOKER else STOKER

    def suite(of: Any, made: Any) -> Any:
        return [
            (a.name, None if a.mag_range is None else tuple(a.mag_range), a.randomly_negate, a.mag_to_param.__name__, a.param_device)
            for a in made
        ]

    def all_of(of: Any) -> Any:
        found = []
        for arguments in ({}, {"use_shape": True}, {"max_translate_abs": (10, 20)}, {"use_shape": True, "max_translate_rel": 0.25}):
            found.append(suite(of, of.rand_augment.get_rand_augment_suite(**arguments)))
            found.append(suite(of, of.rand_augment.get_rand_augment_non_monotonic_suite(**arguments)))
            found.append(suite(of, of.trivial_augment.get_trivial_augment_wide_suite(**arguments)))
            policies = [getattr(of.auto_augment, f"get_{name}_policy")(**arguments) for name in ("image_net", "svhn", "reduced_cifar10")]
            for policy in [*policies, of.auto_augment.get_reduced_image_net_policy()]:
                found.append((policy.name, policy.num_magnitude_bins))
                found += [[(a.name, p, m) for a, p, m in sub] for sub in policy.sub_policies]
                found.append(suite(of, policy.augmentations.values()))
        return [[tuple("array" if v == "_np_wrap" else v for v in x) if isinstance(x, tuple) else x for x in f] for f in found]

    assert all_of(lib) == all_of(other)


def test_choices_are_even() -> None:
    """Counts which augmentations and magnitudes are drawn for 3000 samples, with augmentations that output their number and their parameter. Tests only Stoker,
    because several draws with the same seed are independent in Stoker, but not in DALI."""
    lib, count = STOKER, 3000

    def define() -> Any:
        core, fn, types = lib.core, lib.fn, lib.types

        def numbered(number: int) -> Any:
            def op(data: Any, parameter: Any) -> Any:
                return fn.stack(types.Constant(float(number)), fn.cast(parameter, dtype=types.FLOAT) * 1.0, axis=0)

            return core.augmentation(op, mag_range=(10, 14), randomly_negate=True, name=f"op{number}")

        def both(data: Any, parameter: Any) -> Any:
            return data * 3 + parameter

        data, zero = types.Constant(np.zeros(2, np.float32)), given(lib, np.zeros(count, np.float32), ndim=0)
        trivial = lib.trivial_augment.apply_trivial_augment([numbered(k) for k in range(5)], data, num_magnitude_bins=3, seed=SEED)
        digits = [core.augmentation(both, mag_range=np.array([d, d], np.float32), name=f"digit{d}") for d in range(3)]
        pair = lib.rand_augment.apply_rand_augment(digits, zero, 2, 1, num_magnitude_bins=2)
        policy = core.Policy("mine", 2, [[(digits[1], 0.25, 1), (digits[2], 1.0, 0)], [(digits[2], 0.5, 0)]])
        return trivial, pair, lib.auto_augment.apply_auto_augment(policy, zero)

    trivial, pair, policy = (np.array(output) for output in run(lib, define, batch=count))

    def shares(values: Any) -> dict[Any, float]:
        found, counts = np.unique(values, axis=0, return_counts=True)
        return {tuple(np.ravel(f).tolist()): c / count for f, c in zip(found, counts, strict=True)}

    def near(found: dict[Any, float], wanted: dict[Any, float]) -> None:
        assert found.keys() == wanted.keys(), (found, SEED)
        for key, share in wanted.items():
            assert abs(found[key] - share) < 6 * (share * (1 - share) / count) ** 0.5, (key, found[key], share, SEED)

    print("seed", SEED)
    near(shares(trivial), {(k, s * m): 1 / 30 for k in range(5) for m in (10.0, 12.0, 14.0) for s in (1, -1)})
    near(shares(pair), {(3.0 * a + b,): 1 / 9 for a in range(3) for b in range(3)})
    near(shares(policy), {(2.0,): 0.375 + 0.25, (5.0,): 0.125, (0.0,): 0.25})


def test_a_sample_runs_only_its_augmentation() -> None:
    calls: list[str] = []

    def define() -> Any:
        image = given(STOKER, IMAGES, layout="HWC")

        def named(name: str) -> Any:
            def note(x: Any) -> Any:
                calls.append(name)
                return x

            return STOKER.core.augmentation(lambda data, _: STOKER.fn.python_function(data, function=note), name=name)

        return STOKER.rand_augment.apply_rand_augment([named("a"), named("b"), named("c")], image, 1, 0)

    run(STOKER, define, max_batches=1, prefetch_queue_depth=1)
    assert len(calls) == len(IMAGES) and set(calls) == {"a", "b", "c"}


def test_seeds_repeat() -> None:
    def define() -> Any:
        image = given(STOKER, IMAGES, layout="HWC")
        return tuple(STOKER.trivial_augment.trivial_augment_wide(image, seed=seed) for seed in (3, 3, 4))

    first, second, third = run(STOKER, define)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, third, strict=True))


@BOTH
def test_wrong_arguments_are_named(lib: Any) -> None:
    core, a, ta, ra, aa = lib.core, lib.augmentations, lib.trivial_augment, lib.rand_augment, lib.auto_augment

    def fails(words: str, call: Any) -> None:
        def define() -> Any:
            call(given(lib, IMAGES, layout="HWC"))
            return lib.types.Constant(0)

        with pytest.raises(Exception, match=words):
            run(lib, define)

    fails("at least two", lambda x: core.augmentation(lambda data: data))
    fails("not callable", lambda x: core.augmentation(7))
    fails("already decorated", lambda x: core.augmentation(a.invert))
    fails("requires `magnitude_bin`", lambda x: a.rotate(x, num_magnitude_bins=3))
    fails("`num_magnitude_bins` argument is missing", lambda x: a.solarize(x, magnitude_bin=3))
    fails("must be an int or", lambda x: core.signed_bin("3"))
    fails("`random_sign` cannot be specified together", lambda x: core.signed_bin(3, random_sign=x, seed=2))
    fails("nd.array of length 4", lambda x: a.solarize.augmentation(np.arange(4))(x, magnitude_bin=3, num_magnitude_bins=5))
    fails(
        "same type and shape",
        lambda x: a.color.augmentation(mag_to_param=lambda m: [0] * (1 + int(m > 0)))(
            x, magnitude_bin=core.signed_bin(1), num_magnitude_bins=3
        ),
    )
    fails("returned `DataNode`", lambda x: a.solarize.augmentation(mag_to_param=lambda m: x)(x, magnitude_bin=1, num_magnitude_bins=3))
    fails("following named argument.*shape", lambda x: a.translate_x(x, magnitude_bin=core.signed_bin(1), num_magnitude_bins=3))
    fails("translate_x.* requires `shape`", lambda x: ta.apply_trivial_augment([a.translate_x], x))
    fails("does not contain augmentation with this name", lambda x: ra.rand_augment(x, 2, 9, excluded=["rotat"]))
    fails("list cannot be empty", lambda x: ta.apply_trivial_augment([], x))
    fails("kwarg `fil` is not used", lambda x: ra.apply_rand_augment([a.shear_x], x, 2, 9, fil=3))
    fails("`m` must be an integer|magnitude bin `m`", lambda x: ra.rand_augment(x, 2, 31))
    fails("`n` must be", lambda x: ra.rand_augment(x, -1, 3))
    fails("must be a positive integer", lambda x: ta.trivial_augment_wide(x, num_magnitude_bins=0))
    fails("`max_translate_rel` cannot", lambda x: ra.rand_augment(x, 2, 9, max_translate_rel=0.3))
    fails("must not be specified", lambda x: aa.auto_augment(x, "reduced_image_net", max_translate_abs=3))
    fails("`policy_name` must be", lambda x: aa.auto_augment(x, "imagenet"))
    fails("empty policy", lambda x: aa.apply_auto_augment(core.Policy("none", 3, []), x))
    fails("a triple", lambda x: core.Policy("p", 3, [[(a.invert, 0.5)]]))
    fails("instance of", lambda x: core.Policy("p", 3, [[("invert", 0.5, None)]]))
    fails("number from", lambda x: core.Policy("p", 3, [[(a.invert, 1.5, None)]]))
    fails("magnitude bin is required", lambda x: core.Policy("p", 3, [[(a.rotate, 0.5, None)]]))
    fails("must be an integer from", lambda x: core.Policy("p", 3, [[(a.rotate, 0.5, 3)]]))


def test_the_message_without_conditionals_says_what_to_do() -> None:
    def define() -> Any:
        return STOKER.rand_augment.rand_augment(given(STOKER, IMAGES, layout="HWC"), 1, 9)

    with pytest.raises(stoker.StokerError, match="enable_conditionals"):
        run(STOKER, define, enable_conditionals=False)
