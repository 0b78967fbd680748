# SPDX-License-Identifier: Apache-2.0
"""The operator augment, and the Loader's automatic augmentations that use it, give the results of torchvision and timm on PIL images."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader, Pipeline, fn, types
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, StokerError, UnsupportedError
from stoker.loader.lower._policies import _shares
from support import SEED, import_torchvision, photograph

tv = import_torchvision().transforms
v2 = tv.v2
NAMES = "Identity ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness Posterize Solarize AutoContrast Equalize Invert".split()
MAGNITUDES = {
    "ShearX": (0.3, -0.55, 0.99),
    "ShearY": (0.3, -0.17, 0.99),
    "TranslateX": (3, -17, 32, 200),
    "TranslateY": (-3, 70),
    "Rotate": (0, 3.5, -30, 45, 90, 135, 180),
    "Brightness": (0.9, -0.9, 0),
    "Color": (0.9, -0.3),
    "Contrast": (0.9, -0.9),
    "Sharpness": (0.9, -0.9),
    "Posterize": (8, 4, 1),
    "Solarize": (255, 0, 127.5),
}
MODES = (tv.InterpolationMode.NEAREST, tv.InterpolationMode.BILINEAR, tv.InterpolationMode.BICUBIC)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(SEED)
    return [
        photograph(rng, 61, 83),
        photograph(rng, 64, 64),
        rng.integers(9, 240, (7, 2, 3), dtype=np.uint8),
        np.full((5, 5, 3), 8, np.uint8),
    ]


def encoded(image):
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()


def pillow(image, name, magnitude, mode=MODES[0], fill=None):
    from torchvision.transforms.autoaugment import _apply_op

    return np.asarray(_apply_op(Image.fromarray(image), name, magnitude, mode, fill)).reshape(image.shape).astype(int)


@pytest.mark.parametrize("name", NAMES)
def test_each_operation_is_pillows(name, images):
    """Values equal Pillow's exactly, except that up to 30% of bilinear and bicubic values may differ by 1."""
    enhances, moves = name in ("Brightness", "Color", "Contrast", "Sharpness"), NAMES.index(name) in range(1, 6)
    gray = [np.ascontiguousarray(image[..., 0]) for image in images]
    for magnitude in MAGNITUDES.get(name, (0,)):
        given = {"operation": NAMES.index(name), "magnitude": magnitude + enhances}
        for kind, mode in enumerate(MODES if moves else MODES[:1]):
            for sort, fill in ((images, None), (images, [10, 200, 30]), (gray, None)):
                made = fn.eager.augment(sort, interp_type=kind, fill_value=fill or 0, **given)
                for image, out in zip(sort, made, strict=True):
                    gap = np.abs(np.asarray(out) - pillow(image, name, magnitude, mode, fill))
                    assert gap.max() <= (kind > 0) and (gap > 0).mean() < 0.3, (name, magnitude, mode, fill, image.shape, gap.max(), SEED)


def test_solarize_add_is_timms(images):
    for image, out in zip(images, fn.eager.augment(images, operation=15, magnitude=110), strict=True):
        lut = [min(255, i + 110) if i < 128 else i for i in range(256)]
        np.testing.assert_array_equal(np.asarray(out), np.asarray(Image.fromarray(image).point(lut * 3)))


def test_what_is_out_of_range_is_refused(images):
    for words, given in {
        "posterize keeps 0 to 8 bits": {"operation": 10, "magnitude": 9},
        "a factor is at least 0": {"operation": 8, "magnitude": -0.1},
        "solarize_add adds 0 to 255": {"operation": 15, "magnitude": -3},
        "fill_value": {"operation": 1, "magnitude": 0.1, "fill_value": [1, 2]},
        "operation": {"operation": 16},
        "2 operations and 3 magnitudes": {"operation": [1, 2], "magnitude": [0.1, 0.2, 0.3]},
        "row is 2, but there are 2 operations": {"operation": [1, 2], "magnitude": 0.1, "row": 2},
    }.items():
        with pytest.raises(InvalidArgumentError, match=words):
            fn.eager.augment(images, **given)
    with pytest.raises(StokerError, match="uint8"):
        fn.eager.augment([image.astype(np.float32) for image in images], operation=1)


@pytest.mark.parametrize("kind", [-1, 3, 5, 6])
def test_an_interpolation_that_there_is_none_of_is_refused_by_sample(images, kind):
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        image, given = fn.external_source(source=lambda: [images[0]], layout="HWC"), fn.external_source(source=lambda: [np.int64(kind)])
        pipe.set_outputs(fn.augment(image, operation=5, magnitude=9.0, interp_type=given))
    with pytest.raises(InvalidArgumentError, match="interp_type"):
        pipe.run()


def test_a_row_of_lists_is_its_operation(images):
    codes, magnitudes = [10, 0, 6, 2, 13, 5], [3.0, 0.0, 1.0, 0.4, 0.0, -30.0]
    for row, (code, magnitude) in enumerate(zip(codes, magnitudes, strict=True)):
        alone = fn.eager.augment(images, operation=code, magnitude=magnitude)
        for one, other in zip(alone, fn.eager.augment(images, operation=codes, magnitude=magnitudes, row=row), strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_all_rows_are_looked_at_before_the_first_sample():
    with Pipeline(2, 1, device_id=None):
        image = fn.external_source(source=lambda: [np.zeros((4, 4, 3), np.uint8)] * 2, layout="HWC")
        with pytest.raises(InvalidArgumentError, match="posterize keeps 0 to 8 bits"):
            fn.augment(image, operation=[1, 10], magnitude=[0.5, 9.0], row=fn.random.choice(2))


def test_constants_are_made_once_and_still_come_out():
    """A constant that is an output is in each batch. A constant that only operators read is made before the first sample, and all workers and branches read
    it."""
    pipe = Pipeline(8, 3, device_id=None, seed=SEED, enable_conditionals=True)
    with pipe:
        table, out = fn.constant(fdata=[1.5, 2.5, 4.5]), fn.constant(idata=[7, 8])
        drawn = fn.random.choice(3)
        pipe.set_outputs(table[drawn], fn.cast(drawn, dtype=types.INT32), out)
    for _ in range(4):
        value, row, kept = (np.asarray(o.as_array()) for o in pipe.run())
        np.testing.assert_array_equal(value, np.float32([1.5, 2.5, 4.5])[row])
        np.testing.assert_array_equal(kept, [[7, 8]] * 8)


# ---- the Loader ----


def test_positions_beyond_fixed_point_are_refused():
    """A shear whose positions are too large for fixed point is refused; smaller ones give an image of fill. Positions must not wrap around, which would
    give arbitrary pixels."""

    def sheared(by, interpolation):
        pipe = Pipeline(1, 1, device_id=None)
        with pipe:
            tall = fn.external_source(source=lambda: [np.arange(1 << 17, dtype=np.uint8).reshape(-1, 1, 1)], layout="HWC")
            pipe.set_outputs(fn.augment(tall, operation=1, magnitude=by, interp_type=interpolation, fill_value=7))
        return np.asarray(pipe.run()[0].at(0))[:, 0, 0]

    assert all((sheared(by, interpolation) == 7).all() for by, interpolation in ((4000.0, 1), (16384.0, 0)))
    with pytest.raises(StokerError, match="cannot be moved this far"):
        sheared(16384.0, 1)


def drawn(transform, image, count, **kwargs):
    """Returns `count` results of a Loader for one image, and whether the Loader called Python for them."""
    loader = Loader((np.broadcast_to(image, (count, *image.shape)),), count, transforms=transform, dtype=torch.uint8, seed=SEED, **kwargs)
    (batch,) = loader
    return batch.image.permute(0, 2, 3, 1).numpy(), "python_function" in loader.pipeline.explain()


def outcomes(transform, image):
    """Returns all possible results of torchvision's transform for an image, with their probabilities, computed with torchvision's own tables and functions."""
    space = getattr(type(transform), "_AUGMENTATION_SPACE", None)
    height, width = image.shape[:2]
    found: dict[bytes, float] = {}

    def operation(start, name, magnitude, signed):
        signs = (1, -1) if signed else (1,)
        return [
            (pillow(start, name, sign * magnitude, tv.InterpolationMode(transform.interpolation), transform.fill), 1 / len(signs))
            for sign in signs
        ]

    def one_of(start, bins, ks):
        made = []
        for name, (magnitudes_of, signed) in space.items():
            magnitudes = magnitudes_of(bins, height, width)
            for k in ks if magnitudes is not None else [None]:
                chance = 1 / len(space) / (len(ks) if k is not None else 1)
                value = 0.0 if k is None else float(magnitudes[k]) * (255 if name == "Solarize" else 1)
                made += [(out, chance * p) for out, p in operation(start, name, value, signed)]
        return made

    def note(out, p):
        found[out.astype(np.uint8).tobytes()] = found.get(out.astype(np.uint8).tobytes(), 0) + p

    kind = type(transform).__name__
    if kind == "TrivialAugmentWide":
        for out, p in one_of(image, transform.num_magnitude_bins, range(transform.num_magnitude_bins)):
            note(out, p)
    elif kind == "RandAugment":
        for first, p in one_of(image, transform.num_magnitude_bins, [transform.magnitude]):
            for out, q in one_of(first.astype(np.uint8), transform.num_magnitude_bins, [transform.magnitude]):
                note(out, p * q)
    else:
        for policy in transform._policies:
            states = [(image.astype(int), 1 / len(transform._policies))]
            for name, chance, k in policy:
                magnitudes_of, signed = space[name]
                value = 0.0 if k is None else float(magnitudes_of(10, height, width)[k]) * (255 if name == "Solarize" else 1)
                made = [(state, p * (1 - chance)) for state, p in states if chance < 1]
                made += [(out, p * chance * q) for state, p in states for out, q in operation(state.astype(np.uint8), name, value, signed)]
                states = [(out, p) for out, p in made if p > 0]
            for out, p in states:
                note(out, p)
    return found


@pytest.mark.parametrize(
    "reference",
    [
        v2.TrivialAugmentWide(11, fill=[10, 200, 30]),
        v2.RandAugment(2, 9),
        v2.AutoAugment(v2.AutoAugmentPolicy.IMAGENET),
        v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10),
        v2.AutoAugment(v2.AutoAugmentPolicy.SVHN),
    ],
    ids=lambda t: type(t).__name__ + str(getattr(t, "policy", "")),
)
def test_outcomes_are_torchvisions_and_as_frequent(reference):
    """Each image from the Loader equals a possible result of torchvision exactly, and all results have torchvision's probabilities."""
    count, image = 4000, photograph(np.random.default_rng(SEED), 21, 26)
    made, calls = drawn(reference, image, count)
    wanted = outcomes(reference, image)
    assert not calls and abs(sum(wanted.values()) - 1) < 1e-9
    found: dict[bytes, int] = {}
    for out in made:
        found[out.tobytes()] = found.get(out.tobytes(), 0) + 1
    assert found.keys() <= wanted.keys(), (
        f"{sum(n for key, n in found.items() if key not in wanted)} of {count} are not torchvision's (seed {SEED})"
    )
    rare = [key for key, p in wanted.items() if p * count < 5]
    pairs = [(found.get(key, 0), p * count) for key, p in wanted.items() if p * count >= 5]
    if rare:
        pairs.append((sum(found.get(key, 0) for key in rare), sum(wanted[key] for key in rare) * count))
    chi_square, freedom = sum((n - want) ** 2 / want for n, want in pairs if want > 0), len(pairs) - 1
    print(f"seed {SEED}: chi square {chi_square:.1f} of {freedom} degrees of freedom")
    assert chi_square < freedom + 7 * (2 * freedom) ** 0.5


def test_ours_and_the_first_versions_draw_the_same():
    """The classes of stoker.transforms and of torchvision's v1 and v2 share one table, so one seed gives the same images with any number of threads."""
    image = photograph(np.random.default_rng(SEED), 21, 26)
    for name, given in {
        "RandAugment": {"num_ops": 3, "magnitude": 12, "interpolation": MODES[1], "fill": 7},
        "TrivialAugmentWide": {"num_magnitude_bins": 11},
        "AutoAugment": {"fill": [1, 2, 3]},
        "AugMix": {"severity": 4, "mixture_width": 2},
    }.items():
        sorts = [getattr(module, name)(**given) for module in (T, tv, v2)]
        made = [drawn(sort, image, 40, num_threads=1 + k)[0] for k, sort in enumerate(sorts)]
        assert all(np.array_equal(made[0], other) for other in made[1:]), name
        assert len(np.unique(made[0].reshape(40, -1), axis=0)) > 10


def test_translations_follow_the_extent():
    """Translations are fractions of each image's width and height, truncated to whole pixels, also for images whose sizes are unknown in advance."""
    rng = np.random.default_rng(SEED)
    distinct = [encoded(photograph(rng, 18 + 3 * k, 61 - 4 * k)) for k in range(8)]
    files = distinct * 60

    class Files(torch.utils.data.Dataset):
        def __len__(self):
            return len(files)

        def __getitem__(self, i):
            return files[i], i

    loader = Loader(
        Files(), len(files), transforms=[T.RandAugment(1, 9, fill=3), T.CenterCrop(80)], dtype=torch.uint8, shuffle=False, seed=SEED
    )
    (batch,) = loader
    wanted: dict[bytes, set[bytes]] = {}
    for file in distinct:
        image = np.asarray(Image.open(io.BytesIO(file)))
        made = wanted[file] = set()
        for name, (magnitudes_of, signed) in v2.RandAugment._AUGMENTATION_SPACE.items():
            magnitudes = magnitudes_of(31, *image.shape[:2])
            value = 0.0 if magnitudes is None else float(magnitudes[9]) * (255 if name == "Solarize" else 1)
            for sign in (1, -1) if signed else (1,):
                out = Image.fromarray(pillow(image, name, sign * value, fill=3).astype(np.uint8))
                made.add(np.asarray(tv.functional.center_crop(out, 80)).tobytes())
    for out, file in zip(batch.image.permute(0, 2, 3, 1).numpy(), files, strict=True):
        assert out.tobytes() in wanted[file], SEED


def test_augmix_mixes_what_torchvision_mixes():
    """If alpha is large, all weights are equal, so one chain of one operation is mixed half and half. Then checks that weights have a Dirichlet
    distribution."""
    image = photograph(np.random.default_rng(SEED), 21, 26)
    made, calls = drawn(v2.AugMix(severity=2, mixture_width=1, chain_depth=1, alpha=1e6, interpolation=MODES[0]), image, 150)
    assert not calls
    wanted = []
    for name, (magnitudes_of, signed) in v2.AugMix._AUGMENTATION_SPACE.items():
        magnitudes = magnitudes_of(10, *image.shape[:2])
        for k in range(2) if magnitudes is not None else [None]:
            value = 0.0 if k is None else float(magnitudes[k]) * (255 if name == "Solarize" else 1)
            wanted += [(pillow(image, name, sign * value) + image) / 2 for sign in ((1, -1) if signed else (1,))]
    gaps = np.abs(made[:, None] - np.stack(wanted)).reshape(150, len(wanted), -1).max(2)
    assert gaps.min(1).max() <= 1.5, (gaps.min(1).max(), SEED)
    assert len(set(gaps.argmin(1))) > 15

    count, flat = 4000, np.zeros((2, 1, 3), np.uint8)  # white fill shows the weight of the chains that moved the whole image out
    made, _ = drawn(v2.AugMix(severity=10, mixture_width=2, chain_depth=1, alpha=1.0, fill=255), flat, count)
    share = made.reshape(count, -1).mean(1) / 255
    assert 0 < share.mean() < 0.2 and share.max() > 0.8, SEED


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_shares_are_dirichlets(alpha):
    count = 4000
    pipe = Pipeline(batch_size=count, num_threads=1, device_id=None, seed=SEED)
    with pipe:
        pipe.set_outputs(*_shares(alpha, 3))
    shares = np.stack([np.array([float(np.array(v)) for v in output]) for output in pipe.run()])
    np.testing.assert_allclose(shares.sum(0), 1, atol=1e-6)
    variance = 2 / 9 / (3 * alpha + 1)
    assert np.abs(shares.mean(1) - 1 / 3).max() < 6 * (variance / count) ** 0.5, SEED
    assert np.abs(shares.var(1) / variance - 1).max() < 0.25, (shares.var(1), variance, SEED)


def test_draws_follow_the_epoch_and_the_position():
    image = photograph(np.random.default_rng(SEED), 21, 26)
    images = np.broadcast_to(image, (30, *image.shape))

    def loader(**kwargs):
        return Loader((images,), 10, transforms=[T.TrivialAugmentWide()], dtype=torch.uint8, seed=SEED, **kwargs)

    first = loader()
    epochs = [[b.image.clone() for b in first] for _ in range(2)]
    assert not all(torch.equal(a, b) for a, b in zip(*epochs, strict=True))
    resumed = loader()
    iterator = iter(resumed)
    next(iterator)
    state = resumed.state_dict()
    after = loader()
    after.load_state_dict(state)
    assert all(torch.equal(a, b.image) for a, b in zip(epochs[0][1:], after, strict=True))


def test_impossible_arguments_are_named():
    for words, make in {
        "num_ops": lambda: T.RandAugment(-1),
        "magnitude is below": lambda: T.RandAugment(2, 31),
        "num_magnitude_bins": lambda: T.TrivialAugmentWide(1),
        "policy is one of": lambda: T.AutoAugment("image_net"),
        "severity": lambda: T.AugMix(11),
        "alpha": lambda: T.AugMix(alpha=0),
        "nearest, bilinear or bicubic": lambda: T.RandAugment(interpolation="lanczos"),
        "fill is one number": lambda: T.RandAugment(fill=[1, 2]),
    }.items():
        with pytest.raises(ValueError, match=words):
            make()
    image = photograph(np.random.default_rng(SEED), 21, 26)

    class Masks(torch.utils.data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, i):
            return image, np.zeros((21, 26), np.uint8)

    with pytest.raises(UnsupportedError, match="cannot follow an automatic augmentation"):
        next(iter(Loader(Masks(), 1, fields={"image": "Image", "mask": "Mask"}, transforms=[T.RandAugment()])))


# ---- timm ----


class AugmentOp:
    """A class with the attributes of timm's that stoker reads."""

    def __init__(self, name, prob, magnitude, std=0, resample=0):
        self.name, self.prob, self.magnitude, self.magnitude_std, self.magnitude_max = name, prob, magnitude, std, None
        self.hparams = {"translate_const": 9, "translate_pct": 0.3}
        self.kwargs = {"fillcolor": (10, 200, 30), "resample": resample}


def timms(name, **given):
    return type(name, (), {"__module__": "timm.data.auto_augment", **given})()


TIMM = {
    "AutoContrast": [("AutoContrast", 0)],
    "Rotate": [("Rotate", 21.0), ("Rotate", -21.0)],
    "PosterizeIncreasing": [("Posterize", 2)],
    "SolarizeIncreasing": [("Solarize", 256 - 179)],
    "Solarize": [("Solarize", 179)],
    "PosterizeOriginal": [("Posterize", 6)],
    "Color": [("Color", 0.36)],
    "ContrastIncreasing": [("Contrast", 0.63), ("Contrast", -0.63)],
    "ShearX": [("ShearX", 0.21), ("ShearX", -0.21)],
    "TranslateX": [("TranslateX", 6.3), ("TranslateX", -6.3)],
    "TranslateYRel": [("TranslateY", 0.21 * 21), ("TranslateY", -0.21 * 21)],
}


def timms_outcome(image, name, magnitude):
    if name not in ("TranslateX", "TranslateY"):
        return pillow(image, name, magnitude, fill=(10, 200, 30))
    matrix = (1, 0, magnitude * (name == "TranslateX"), 0, 1, magnitude * (name == "TranslateY"))
    picture = Image.fromarray(image)
    return np.asarray(picture.transform(picture.size, Image.Transform.AFFINE, matrix, fillcolor=(10, 200, 30))).astype(int)


def test_timms_policies_run_in_c():
    """Tests RandAugment of magnitude 7 with a probability of 0.5, AutoAugment of two sequences, the second one shorter, and a random magnitude."""
    image, count = photograph(np.random.default_rng(SEED), 21, 26), 3000
    made, calls = drawn(timms("RandAugment", ops=[AugmentOp(n, 0.5, 7) for n in TIMM], num_layers=1, choice_weights=None), image, count)
    assert not calls
    wanted = {image.tobytes(): 0.5}
    for options in TIMM.values():
        for name, magnitude in options:
            key = timms_outcome(image, name, magnitude).astype(np.uint8).tobytes()
            wanted[key] = wanted.get(key, 0) + 0.5 / len(TIMM) / len(options)
    near_shares(made, wanted)

    invert, solarize = (AugmentOp("Invert", 1.0, 5), AugmentOp("SolarizeAdd", 0.25, 10))
    made, _ = drawn(timms("AutoAugment", policy=[[invert, solarize], [invert]]), image, count)
    inverted = 255 - image
    added = np.where(inverted < 128, np.minimum(inverted.astype(int) + 110, 255), inverted).astype(np.uint8)
    near_shares(made, {inverted.tobytes(): 0.875, added.tobytes(): 0.125})

    made, _ = drawn(timms("RandAugment", ops=[AugmentOp("Brightness", 1.0, 9, std=2.0)], num_layers=1, choice_weights=None), image, count)
    levels = np.clip(9 + 2 * np.random.default_rng(SEED).normal(size=100_000), 0, 10)
    factors = 0.1 + 0.18 * levels
    expected = np.clip(image.astype(float)[None] * factors[:2000, None, None, None], 0, 255).mean((1, 2, 3))
    means = made.mean((1, 2, 3))
    assert abs(means.mean() - expected.mean() + 0.5) < 4 and abs(means.std() / expected.std() - 1) < 0.1, SEED
    assert abs((means == means.max()).mean() - (levels == 10).mean()) < 0.05, SEED


def near_shares(made, wanted):
    found: dict[bytes, int] = {}
    for out in made:
        found[out.tobytes()] = found.get(out.tobytes(), 0) + 1
    assert found.keys() == wanted.keys(), (len(found.keys() - wanted.keys()), len(wanted.keys() - found.keys()), SEED)
    for key, p in wanted.items():
        assert abs(found[key] / len(made) - p) < 6 * (p * (1 - p) / len(made)) ** 0.5, (found[key] / len(made), p, SEED)


def test_timms_lists_are_taken():
    """The Loader accepts lists of timm's transforms, with the three colour modes of RandomErasing, and refuses more than one erased rectangle. RandAugment with
    weights, or with operations that the library lacks, runs in Python."""
    image = photograph(np.random.default_rng(SEED), 40, 40)
    crop = timms(
        "RandomResizedCropAndInterpolation",
        size=(32, 32),
        scale=(0.5, 1.0),
        ratio=(0.75, 1.3),
        interpolation=(Image.BILINEAR, Image.BICUBIC),
    )
    shared = {"rand_color": False, "per_pixel": False, "max_count": 1, "min_area": 0.02, "max_area": 1 / 3, "log_aspect_ratio": (-1.2, 1.2)}
    chain = [crop, timms("MaybeToTensor"), T.Normalize([0.5] * 3, [0.5] * 3), timms("RandomErasing", probability=1.0, **shared)]
    (batch,) = Loader((np.broadcast_to(image, (16, *image.shape)),), 16, transforms=chain)
    assert batch.image.shape == (16, 3, 32, 32) and all((one == 0).all(0).sum() >= 15 for one in batch.image)
    for kind, colours in (("per_pixel", 16), ("rand_color", 1)):  # the modes that timm's argument re_mode calls "pixel" and "rand"
        chain[-1] = timms("RandomErasing", probability=1.0, **{**shared, kind: True})
        (batch,) = Loader((np.full((16, 40, 40, 3), 255, np.uint8),), 16, transforms=chain)
        erased = [one[:, (one != 1).all(0)].T.unique(dim=0) for one in batch.image]
        assert all(len(one) >= 3 if colours > 1 else len(one) == 1 for one in erased) and len(torch.cat(erased).unique(dim=0)) >= 16
    with pytest.raises(ValueError, match="re_count=1"):
        T.translate(timms("RandomErasing", probability=1.0, **{**shared, "max_count": 2}))
    weighted = timms(
        "RandAugment", ops=[AugmentOp("Invert", 1.0, 5)], num_layers=1, choice_weights=[1.0], __call__=lambda self, image: image
    )
    assert isinstance(T.translate(weighted), T.Lambda)
    assert isinstance(
        T.translate(timms("AutoAugment", policy=[[AugmentOp("Desaturate", 1.0, 5)]], __call__=lambda self, image: image)), T.Lambda
    )


def test_transforms_made_by_timm_run_in_c():
    """Tests transforms that timm itself makes, if timm is installed."""
    data = pytest.importorskip("timm.data")
    image = photograph(np.random.default_rng(SEED), 80, 90)
    for given in (
        {"auto_augment": "rand-m9-mstd0.5-inc1", "interpolation": "random", "re_prob": 0.25},
        {"auto_augment": "original-mstd0.5"},
        {},
    ):
        loader = Loader((image[None].repeat(8, 0),), 8, transforms=data.create_transform(64, is_training=True, **given))
        (batch,) = loader
        assert batch.image.shape == (8, 3, 64, 64) and "python_function" not in loader.pipeline.explain(), given
