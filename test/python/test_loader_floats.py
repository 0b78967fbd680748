# SPDX-License-Identifier: Apache-2.0
"""Warps and blurs of images of floats with many channels, compared with torchvision's; erasing of such images; and transforms that are refused for them."""

import pytest
import torch
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError
from support import SEED, import_torchvision

torchvision = import_torchvision()
from torchvision import transforms as tt  # noqa: E402

IMAGES = torch.rand(4, 31, 24, 34, generator=torch.Generator().manual_seed(SEED)) * 4 - 2


def made(*transforms):
    return next(iter(Loader(torch.utils.data.TensorDataset(IMAGES, torch.arange(4)), 4, layout="CHW", transforms=list(transforms))))[0]


def test_blurs_and_warps_agree_with_torchvision():
    for transform in (
        tt.GaussianBlur(3, (1.2, 1.2)),
        tt.GaussianBlur((5, 7), (0.7, 0.7)),
        tt.RandomRotation((90, 90)),
        tt.RandomAffine((180, 180)),
    ):
        assert torch.allclose(made(transform), transform(IMAGES), atol=1e-5), transform


def test_turns_by_any_angle_take_values_of_the_image():
    turned = made(T.RandomRotation((20, 20)))
    wanted = torchvision.transforms.functional.rotate(IMAGES, 20)
    assert ((turned - wanted).abs() < 1e-6).float().mean() > 0.99, "nearest pixels, apart from places in the middle of two"


def test_erasing_puts_its_value_on_the_scale_of_the_images():
    erased = made(T.RandomErasing(1.0, scale=(0.2, 0.2), value=1.5))
    changed = erased != IMAGES
    assert changed.any() and (erased[changed] == 1.5).all() and not changed.all()


def test_what_is_not_known_of_floats_is_refused():
    for transform in (T.RandomPosterize(3), T.RandomEqualize(), T.RandomAdjustSharpness(2.0), T.JPEG(50), T.RandomPhotometricDistort()):
        with pytest.raises(InvalidArgumentError, match="these have floats: give uint8 or"):
            made(transform)


def test_hues_agree_with_torchvision_outside_of_0_to_1():
    """torchvision clips to 0..1 all channels but the largest one."""
    images = torch.rand(4, 3, 24, 34, generator=torch.Generator().manual_seed(SEED)) * 4 - 2
    images[1] = images[1, :1]  # gray
    images[2] = images[2].clamp(0, 1)
    data = torch.utils.data.TensorDataset(images, torch.arange(4))
    for module in (tt, tt.v2):
        for shift in (-0.5, -0.23, 0.0, 0.11, 0.4):
            transform = module.ColorJitter(hue=(shift, shift))
            hued = next(iter(Loader(data, 4, layout="CHW", transforms=[transform])))[0]
            assert ((hued - transform(images)).abs() < 1e-5).float().mean() > 0.999, "but for hues where the largest channel changes"
            assert torch.allclose(hued[2], transform(images[2]), atol=1e-5)
