# SPDX-License-Identifier: Apache-2.0
"""equalize, autocontrast, adjust_sharpness and color_jitter give exactly Pillow's results."""

import itertools

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from stoker import fn, pipeline_def
from stoker.errors import InvalidArgumentError, StokerError
from support import photograph

ENHANCE = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)


@pytest.fixture
def images(rng):
    tones = rng.integers(0, 256, 4096, dtype=np.uint8)
    noise = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((1, 5), (2, 2), (3, 3), (57, 40))]
    return [
        photograph(rng, 97, 130),
        np.full((9, 9, 3), 77, np.uint8),
        np.stack([np.sort(tones), np.roll(tones, 1), tones], -1).reshape(64, 64, 3),
        *noise,
    ]


def turned(image, hue):
    """Returns the result of torchvision's adjust_hue for a PIL image."""
    h, s, v = image.convert("HSV").split()
    h = Image.fromarray((np.asarray(h).astype(int) + int(hue * 255)).astype(np.uint8))
    return Image.merge("HSV", (h, s, v)).convert("RGB")


def check(images, operator, want, **arguments):
    got = getattr(fn.eager, operator)(images, **arguments)
    for image, out in zip(images, got, strict=True):
        np.testing.assert_array_equal(
            np.asarray(out), np.asarray(want(Image.fromarray(image))), err_msg=f"{operator} {arguments} {image.shape}"
        )


@pytest.mark.essential
def test_each_is_pillows(images):
    check(images, "equalize", ImageOps.equalize, method="pillow")
    check(images, "autocontrast", ImageOps.autocontrast)
    check(
        [i[..., 0].copy() for i in images],
        "color_jitter",
        lambda i: ImageEnhance.Contrast(i).enhance(0.5),
        contrast=0.5,
        saturation=0.5,
        hue=0.25,
    )
    for factor in (0, 0.3, 1, 1.7, 5.5):
        check(images, "adjust_sharpness", lambda i, f=factor: ImageEnhance.Sharpness(i).enhance(f), factor=factor)
        for name, enhance in zip(("brightness", "contrast", "saturation"), ENHANCE, strict=True):
            check(images, "color_jitter", lambda i, e=enhance, f=factor: e(i).enhance(f), **{name: factor})
    for hue in (-0.5, -0.31, 0.002, 0.25, 0.5):
        check(images, "color_jitter", lambda i, h=hue: turned(i, h), hue=hue)


def test_every_order(images):
    factors = {"brightness": 1.3, "contrast": 1.4, "saturation": 0.6}
    for order in itertools.permutations(range(4)):

        def one_by_one(image, order=order):
            for k in order:
                image = turned(image, 0.1) if k == 3 else ENHANCE[k](image).enhance(list(factors.values())[k])
            return image

        check(images, "color_jitter", one_by_one, hue=0.1, order=[order.index(k) for k in range(4)], **factors)


def test_arguments_of_each_sample(images):
    images = images[:1] * 8

    @pipeline_def(batch_size=8, seed=3)
    def define():
        factor, keys = fn.random.uniform(range=[0.2, 2.0]), fn.random.uniform(range=[0.0, 1.0], shape=[4])
        image = fn.external_source(lambda: images)
        return fn.adjust_sharpness(image, factor=factor), fn.color_jitter(image, brightness=factor, contrast=0.5, order=keys), factor, keys

    sharp, jittered, factors, keys = (o.as_array() for o in define().run())
    picture = Image.fromarray(images[0])
    assert len({tuple(k[:2] < k[1::-1]) for k in keys}) > 1
    for i in range(8):
        factor = float(factors[i])
        np.testing.assert_array_equal(sharp[i], np.asarray(ImageEnhance.Sharpness(picture).enhance(factor)))
        steps = [(ImageEnhance.Brightness, factor), (ImageEnhance.Contrast, 0.5)]
        want = picture
        for enhance, f in steps if keys[i][0] <= keys[i][1] else steps[::-1]:
            want = enhance(want).enhance(f)
        np.testing.assert_array_equal(jittered[i], np.asarray(want))


@pytest.mark.parametrize(
    ("layout", "shape"), [("CHW", (3, 8, 9)), ("FCHW", (2, 3, 8, 9)), ("HWCC", (8, 9, 3, 3)), ("FHWCC", (2, 8, 9, 3, 3))]
)
@pytest.mark.parametrize(("operator", "arguments"), [("color_jitter", {"contrast": 2.0}), ("augment", {"operation": 8, "magnitude": 2.0})])
def test_pixels_whose_channels_lie_apart_are_refused(operator, arguments, layout, shape):
    """Images whose channels are the first dim, or two dims, are refused. Otherwise planes would be taken for three gray images, and two dims of channels
    for one."""
    says = f'must lie together, as in HWC, not as in "{layout}"' if layout.endswith("CHW") else "1 or 3 channels here, not 9"

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        image = fn.external_source(source=lambda: [np.zeros(shape, np.uint8)], layout=layout)
        return getattr(fn, operator)(image, **arguments)

    with pytest.raises(StokerError, match=says):
        define().run()


@pytest.mark.parametrize(
    ("operator", "shape", "arguments", "says"),
    [
        ("color_jitter", (4, 4, 2), {}, "1 or 3 channels"),
        ("color_jitter", (4, 4, 3), {"order": [1.0, 2.0]}, "are 4, not 2"),
        ("color_jitter", (4, 4, 3), {"hue": 0.6}, "0.6"),
        ("color_jitter", (4, 4, 3), {"contrast": float("nan")}, "nan"),
        ("adjust_sharpness", (4, 4, 3), {"factor": -1.0}, "-1"),
        ("adjust_sharpness", (4, 4, 3), {}, "factor"),
        ("equalize", (4, 4, 3), {"method": "gimp"}, "gimp"),
    ],
)
def test_what_is_refused(operator, shape, arguments, says):
    with pytest.raises((StokerError, InvalidArgumentError, TypeError), match=says):
        getattr(fn.eager, operator)([np.zeros(shape, np.uint8)], **arguments)
    with pytest.raises(StokerError, match="uint8"):
        getattr(fn.eager, operator)([np.zeros((4, 4, 3), np.float32)], **({"factor": 1.0} if operator == "adjust_sharpness" else {}))
