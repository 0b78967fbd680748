# SPDX-License-Identifier: Apache-2.0
"""The operator augment, and the Loader's automatic augmentations that stand on it: against torchvision on PIL images."""

import numpy as np
import pytest
from PIL import Image
from stoker import fn
from stoker.errors import InvalidArgumentError, StokerError
from support import SEED, import_torchvision, photograph

tv = import_torchvision().transforms
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


def pillow(image, name, magnitude, mode=MODES[0], fill=None):
    from torchvision.transforms.autoaugment import _apply_op

    return np.asarray(_apply_op(Image.fromarray(image), name, magnitude, mode, fill)).reshape(image.shape).astype(int)


@pytest.mark.parametrize("name", NAMES)
def test_each_operation_is_pillows(name, images):
    """To the bit, but that bilinear and bicubic values may differ by 1, in a few places."""
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
    }.items():
        with pytest.raises(InvalidArgumentError, match=words):
            fn.eager.augment(images, **given)
    with pytest.raises(StokerError, match="uint8"):
        fn.eager.augment([image.astype(np.float32) for image in images], operation=1)
