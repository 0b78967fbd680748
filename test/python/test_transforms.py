# SPDX-License-Identifier: Apache-2.0
"""stoker.transforms, compared with torchvision on PIL images. Values differ by at most 1 of 255 for transforms that both libraries define alike."""

import itertools
import math

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError
from support import SEED, import_torchvision, write_tree

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

tv = import_torchvision().transforms


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    """Returns a folder of images with odd, even, long and short sides."""
    root = tmp_path_factory.mktemp("varied")
    write_tree(root, np.random.default_rng(SEED + 1), 1, 24, 40, 131)
    return root


def ours(root, transforms, n=24, **kwargs):
    loader = Loader(root, batch_size=1, transforms=transforms, fields=("image", "path"), **kwargs)
    return [(image[0].clone(), path[0]) for image, path in loader][:n]


def check(root, transforms, reference, levels=1, **kwargs):
    """Asserts that no value of an image differs from torchvision's by more than `levels` of 255."""
    for image, path in ours(root, transforms, **kwargs):
        with Image.open(path) as file:
            want = reference(file.convert("RGB"))
        assert image.shape == want.shape, f"{path}: {tuple(image.shape)} and {tuple(want.shape)}"
        difference = (image.double() - want.double()).abs().max().item()
        assert difference <= (levels + 0.001) / 255, f"{path}: differs by {difference * 255:.2f} of 255 (seed {SEED})"


@pytest.mark.essential
@pytest.mark.parametrize("size", [32, 45, 64])
@pytest.mark.parametrize("crop", [31, 32, (20, 27), 70])
def test_resize_and_center_crop(varied, size, crop):
    check(varied, [T.Resize(size), T.CenterCrop(crop)], tv.Compose([tv.Resize(size), tv.CenterCrop(crop), tv.ToTensor()]))


def test_resize_to_height_and_width(varied):
    check(varied, T.Resize((50, 37)), tv.Compose([tv.Resize((50, 37)), tv.ToTensor()]))


@pytest.mark.parametrize("mode", ["bicubic", "lanczos"])
def test_interpolations_equal_those_of_pillow(varied, mode):
    from torchvision.transforms import InterpolationMode

    given = InterpolationMode(mode)
    reference = tv.Compose([tv.Resize((41, 60), given), tv.ToTensor()])
    # Pillow clips to 0..255 between its two passes, which changes the results of filters with negative weights.
    check(varied, T.Resize((41, 60), interpolation=given), reference, levels=3)
    check(varied, T.Resize((41, 60), interpolation=T.InterpolationMode(mode)), reference, levels=3)


def test_nearest_equals_that_of_pillow_but_at_edges(varied):
    """Stoker and DALI compute the nearest pixel with other arithmetic than Pillow, and may choose another one if a position is on a pixel's edge."""
    equal = total = 0
    for image, path in ours(varied, T.Resize((41, 60), interpolation="nearest")):
        with Image.open(path) as file:
            want = tv.Compose([tv.Resize((41, 60), tv.InterpolationMode.NEAREST), tv.ToTensor()])(file.convert("RGB"))
        equal += (image - want).abs().lt(1e-6).sum().item()
        total += image.numel()
    assert equal > 0.97 * total


def test_center_crop_of_what_is_there(varied):
    for size in (39, 40, 140):
        check(varied, [T.CenterCrop(size)], tv.Compose([tv.CenterCrop(size), tv.ToTensor()]))


def test_normalize_is_on_the_scale_of_torchvision(varied):
    reference = tv.Compose([tv.Resize(40), tv.CenterCrop(36), tv.ToTensor(), tv.Normalize(MEAN, STD)])
    for image, path in ours(varied, [T.Resize(40), T.CenterCrop(36), T.Normalize(MEAN, STD)]):
        with Image.open(path) as file:
            want = reference(file.convert("RGB"))
        assert ((image - want) * torch.tensor(STD)[:, None, None]).abs().max() <= 1.001 / 255


def test_flips_are_flips(varied):
    still = ours(varied, [T.Resize((32, 40))], dtype=torch.uint8)
    for transform, axes in ((T.RandomHorizontalFlip(1), [2]), (T.RandomVerticalFlip(1), [1])):
        for (a, _), (b, _) in zip(still, ours(varied, [T.Resize((32, 40)), transform], dtype=torch.uint8), strict=True):
            assert torch.equal(a.flip(axes), b)
        kind = type(transform)
        for (a, _), (b, _) in zip(still, ours(varied, [T.Resize((32, 40)), kind(0)], dtype=torch.uint8), strict=True):
            assert torch.equal(a, b)
    count = sum(
        not torch.equal(a, b)
        for s in range(8)
        for (a, _), (b, _) in zip(
            still, ours(varied, [T.Resize((32, 40)), T.RandomHorizontalFlip()], dtype=torch.uint8, seed=s), strict=True
        )
    )
    n = 8 * len(still)
    assert abs(count - n / 2) < 5 * math.sqrt(n / 4), f"{count} of {n}"


def windows_of(image, crop):
    """Returns the (top, left) of each window of the image that equals the crop."""
    _, h, w = crop.shape
    views = image.unfold(1, h, 1).unfold(2, w, 1)
    same = (views == crop[:, None, None]).all(0).flatten(2).all(2)
    return same.nonzero().tolist()


def test_random_crop_lies_anywhere_with_padding(varied):
    places = set()
    for seed in range(6):
        pairs = zip(
            ours(varied, [T.Resize((32, 32))], dtype=torch.uint8),
            ours(varied, [T.Resize((32, 32)), T.RandomCrop(32, padding=4, fill=7)], dtype=torch.uint8, seed=seed),
            strict=True,
        )
        for (whole, _), (crop, _) in pairs:
            padded = torch.nn.functional.pad(whole, (4, 4, 4, 4), value=7)
            found = windows_of(padded, crop)
            assert found, "no window of the padded image"
            places.update(map(tuple, found))
    rows, columns = {p[0] for p in places}, {p[1] for p in places}
    assert rows == columns == set(range(9)), (rows, columns)


def test_random_crop_of_unequal_images(varied):
    whole = ours(varied, [], dtype=torch.uint8)
    for (image, _), (crop, _) in zip(whole, ours(varied, [T.RandomCrop((30, 33))], dtype=torch.uint8), strict=True):
        assert windows_of(image, crop)


def test_random_resized_crop_draws_as_torchvision(varied):
    """Crops have the given size even for extreme aspect ratios. The same seed gives the same crops, another seed gives others."""
    full = ours(varied, [T.RandomResizedCrop((24, 24), scale=(1, 1), ratio=(1e-4, 1e4))], dtype=torch.uint8)
    assert all(i.shape == (3, 24, 24) for i, _ in full)
    a = ours(varied, [T.RandomResizedCrop(24)], seed=1)
    b = ours(varied, [T.RandomResizedCrop(24)], seed=1)
    c = ours(varied, [T.RandomResizedCrop(24)], seed=2)
    assert all(torch.equal(x, y) for (x, _), (y, _) in zip(a, b, strict=True))
    assert not any(torch.equal(x, y) for (x, _), (y, _) in zip(a, c, strict=True))


def test_color_jitter(varied):
    """A change of fixed strength equals torchvision's; several changes equal torchvision's in one of the possible orders."""
    fixed = {"brightness": (1.4, 1.4), "contrast": (0.5, 0.5), "saturation": (0.3, 0.3), "hue": (0.1, 0.1)}
    for name, value in fixed.items():
        check(varied, T.ColorJitter(**{name: value}), tv.Compose([tv.ColorJitter(**{name: value}), tv.ToTensor()]))
    turned = itertools.permutations([tv.ColorJitter(**{name: value}) for name, value in fixed.items()])
    orders = [tv.Compose([*order, tv.PILToTensor()]) for order in turned]
    seen = set()
    for image, path in ours(varied, T.ColorJitter(**fixed), 10, dtype=torch.uint8):
        with Image.open(path) as file:
            equal = [k for k, order in enumerate(orders) if torch.equal(order(file.convert("RGB")), image)]
        assert equal, f"{path}: no order (seed {SEED})"
        seen.add(equal[0])
    assert len(seen) > 2
    gone = ours(varied, T.RandomApply([T.ColorJitter(**fixed)], 0))
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(gone, ours(varied, []), strict=True))
    assert T.ColorJitter().hue is None and T.ColorJitter(hue=0.2).hue == (-0.2, 0.2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_types_and_memory_formats(varied, dtype, memory_format):
    loader = Loader(varied, batch_size=4, transforms=T.Resize((20, 30)), dtype=dtype, memory_format=memory_format)
    images, _ = next(iter(loader))
    assert images.dtype is dtype and images.shape == (4, 3, 20, 30)
    assert images.is_contiguous(memory_format=memory_format)
    plain, _ = next(iter(Loader(varied, batch_size=4, transforms=T.Resize((20, 30)))))
    scale = 255 if dtype is torch.uint8 else 1
    assert (images.float() / scale - plain).abs().max() <= 2**-8


def test_to_dtype(varied):
    images, _ = next(iter(Loader(varied, batch_size=2, transforms=[T.ToImage(), T.Resize((8, 8)), T.ToDtype(torch.float16, scale=True)])))
    assert images.dtype is torch.float16 and images.max() <= 1


def test_translation_of_torchvision():
    mixed = T.flatten(
        tv.Compose(
            [tv.RandomResizedCrop(224, scale=(0.2, 1)), tv.Compose([tv.RandomHorizontalFlip(0.3)]), tv.ToTensor(), tv.Normalize(MEAN, STD)]
        )
    )
    assert [type(t).__name__ for t in mixed] == ["RandomResizedCrop", "RandomHorizontalFlip", "ToTensor", "Normalize"]
    assert mixed[0].size == (224, 224) and mixed[0].scale == (0.2, 1.0) and mixed[1].p == 0.3 and mixed[3].mean == list(MEAN)
    others = T.flatten(
        [tv.Resize(256), tv.CenterCrop(224), tv.RandomCrop(32, padding=4), tv.ColorJitter(0.4, hue=0.1), tv.RandomVerticalFlip()]
    )
    assert others[0].size == 256 and others[2].padding == (4, 4, 4, 4) and others[3].brightness == (0.6, 1.4)
    called = T.flatten([lambda x: x, tv.Lambda(abs), torch.nn.ZeroPad2d(1)])
    assert [(type(t).__name__, t.takes) for t in called] == [("Lambda", k) for k in ("PIL", "PIL", "tensor")]
    with pytest.raises(TypeError, match="or a function, not 3"):
        T.flatten([3])


def test_translation_of_torchvision_v2():
    from torchvision.transforms import v2

    made = T.flatten(
        v2.Compose(
            [
                v2.RandomResizedCrop(64, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.RandomCrop(32, padding=2),
                v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(MEAN, STD),
            ]
        )
    )
    assert [type(t).__name__ for t in made] == [
        "RandomResizedCrop",
        "RandomHorizontalFlip",
        "RandomCrop",
        "ToImage",
        "ToDtype",
        "Normalize",
    ]


def test_presets_of_torchvisions_references(varied):
    """torchvision's presets work unchanged as transforms and as a dataset's transform, without calls into Python. An object of a class that does more is
    called for each sample."""
    from torchvision.transforms import v2

    class Eval:
        def __init__(self, module, last):
            self.transforms = module.Compose([module.Resize(40, antialias=True), module.CenterCrop(36), module.PILToTensor(), *last])

        def __call__(self, img):
            return self.transforms(img)

    class Train(Eval):
        def __init__(self, module, policy):
            before = [module.RandomResizedCrop(32, antialias=True), module.RandomHorizontalFlip(0.5), policy]
            self.transforms = module.Compose([*before, module.PILToTensor(), *tail(module), module.RandomErasing(p=0.1)])

    class Doubled(Eval):
        def __call__(self, img):
            return self.transforms(self.transforms(img))

    def tail(module):
        to_float = module.ToDtype(torch.float, scale=True) if module is v2 else module.ConvertImageDtype(torch.float)
        return [to_float, module.Normalize(MEAN, STD), *([v2.ToPureTensor()] if module is v2 else [])]

    for module in (tv, v2):
        preset = Eval(module, tail(module))
        for image, path in ours(varied, preset):
            with Image.open(path) as file:
                want = preset(file.convert("RGB"))
            assert ((image - want) * torch.tensor(STD)[:, None, None]).abs().max() <= 1.001 / 255
        for policy in (module.AutoAugment(), module.RandAugment(), module.TrivialAugmentWide(), module.AugMix()):
            loader = Loader(varied, 6, transforms=Train(module, policy))
            assert next(iter(loader))[0].shape == (6, 3, 32, 32) and loader.pipeline.counters().get("user_calls", 0) == 0
    assert [type(t).__name__ for t in T.flatten(Doubled(tv, []))] == ["Lambda"]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: T.RandomResizedCrop("big"), "size"),
        (lambda: T.RandomResizedCrop(10, scale=(1, 0.5)), "scale"),
        (lambda: T.Resize(0), "size"),
        (lambda: T.Resize(10, interpolation="cubist"), "interpolation"),
        (lambda: T.RandomHorizontalFlip(1.5), "probability"),
        (lambda: T.Normalize([0.5], [0]), "zero"),
        (lambda: T.Normalize("0.5", "1"), "Normalize: mean is a number, or a list of one for each channel, not '0.5'"),
        (lambda: T.Normalize([0.5], ["1"]), "Normalize: std is a number"),
        (lambda: T.Normalize({0.5, 0.4, 0.3}, [1]), "Normalize: mean is a number"),
        (lambda: T.Normalize([[0.5]], [1]), "Normalize: mean is a number"),
        (lambda: T.ColorJitter(hue=0.7), "hue"),
        (lambda: T.ColorJitter(brightness=-1), "brightness"),
        (lambda: T.RandomCrop(10, padding_mode="wrap"), "wrap"),
        (lambda: T.JPEG((50, 10)), "quality"),
        (lambda: T.GaussianNoise(clip=False), "clip"),
        (lambda: T.RandomPerspective(1.5), "distortion_scale"),
        (lambda: T.RandomPerspective(interpolation="bicubic"), "bilinear"),
        (lambda: T.ElasticTransform(sigma=-1), "sigma"),
        (lambda: T.RandomShortestSize([]), "whole numbers"),
        (lambda: T.RandomResize(9, 9), "min_size"),
        (lambda: T.RandomZoomOut(side_range=(0.5, 2)), "side_range"),
        (lambda: T.RandomAdjustSharpness(-1), "sharpness_factor"),
        (lambda: T.RandomPhotometricDistort(hue=(0, 0.7)), "hue"),
    ],
)
def test_wrong_arguments(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_what_cannot_be_compiled(varied):
    for transforms, match in (
        ([T.Normalize(MEAN, STD), T.CenterCrop(10)], "comes after Normalize"),
        ([T.Normalize(MEAN, STD), T.Normalize(MEAN, STD)], "two Normalize"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            Loader(varied, batch_size=1, transforms=transforms)
    with pytest.raises(InvalidArgumentError, match="uint8"):
        Loader(varied, batch_size=1, transforms=T.Normalize(MEAN, STD), dtype=torch.uint8)
    with pytest.raises(InvalidArgumentError, match="float64"):
        Loader(varied, batch_size=1, dtype=torch.float64)
