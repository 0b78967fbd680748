# SPDX-License-Identifier: Apache-2.0
"""Transforms of values, warps, the user's functions and views, compared with torchvision on PIL images. Values differ by at most 1 of 255."""

import io

import numpy as np
import pytest
import stoker
import torch
from PIL import Image
from stoker import Loader, sample_rng, types
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, UnsupportedError
from support import SEED, import_torchvision, photograph

torchvision = import_torchvision()
from torchvision import datasets  # noqa: E402

tv = torchvision.transforms
PICTURES = np.stack([photograph(np.random.default_rng(SEED + k), 45, 60) for k in range(5)])
NEAREST, BILINEAR = tv.InterpolationMode.NEAREST, tv.InterpolationMode.BILINEAR


def made(transforms, pictures=PICTURES, **kwargs):
    (batch,) = Loader((pictures,), len(pictures), transforms=transforms, **{"dtype": torch.uint8, **kwargs})
    return batch.image


def affine(mode):
    return lambda image: tv.functional.affine(image, 20, (0, 0), 0.8, (10, 5), mode, fill=20)


def through_jpeg(image):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=40)
    return Image.open(file)


SAME = {
    "gray": (T.Grayscale(), tv.Grayscale()),
    "gray of three": (T.Grayscale(3), tv.Grayscale(3)),
    "random gray": (T.RandomGrayscale(1), tv.RandomGrayscale(1)),
    "invert": (T.RandomInvert(1), tv.RandomInvert(1)),
    "solarize": (T.RandomSolarize(100, 1), tv.RandomSolarize(100, 1)),
    "posterize": (T.RandomPosterize(3, 1), tv.RandomPosterize(3, 1)),
    "blur": (T.GaussianBlur((5, 9), 1.3), tv.GaussianBlur((5, 9), 1.3)),
    "applied blur": (T.RandomApply([T.GaussianBlur((5, 9), 1.3)], 1), tv.GaussianBlur((5, 9), 1.3)),
    "pad": (T.Pad((1, 2, 3, 4), fill=(9, 8, 7)), tv.Pad((1, 2, 3, 4), fill=(9, 8, 7))),
    "rotation": (T.RandomRotation((30, 30), fill=20), tv.RandomRotation((30, 30), fill=20)),
    "rotation about a place": (T.RandomRotation((30, 30), center=(5, 9)), tv.RandomRotation((30, 30), center=(5, 9))),
    "bilinear rotation": (T.RandomRotation((-77, -77), "bilinear", fill=20), tv.RandomRotation((-77, -77), BILINEAR, fill=20)),
    "expanded rotation": (T.RandomRotation((30, 30), expand=True, fill=20), tv.RandomRotation((30, 30), expand=True, fill=20)),
    "expanded, bilinear": (tv.RandomRotation((-77, -77), BILINEAR, True), tv.RandomRotation((-77, -77), BILINEAR, True)),
    "a quarter": (T.RandomRotation((90, 90), expand=True), tv.RandomRotation((90, 90), expand=True)),
    "affine": (T.RandomAffine((20, 20), scale=(0.8, 0.8), shear=(10, 10, 5, 5), fill=20), affine(NEAREST)),
    "bilinear affine": (T.RandomAffine((20, 20), None, (0.8, 0.8), (10, 10, 5, 5), "bilinear", 20), affine(BILINEAR)),
    "reversed": (T.Lambda(lambda image: image[::-1]), tv.RandomVerticalFlip(1)),
    "module": (torch.nn.ZeroPad2d(2), tv.Pad(2)),
    "equalize": (T.RandomEqualize(1), tv.RandomEqualize(1)),
    "autocontrast": (T.RandomAutocontrast(1), tv.RandomAutocontrast(1)),
    "sharpness": (T.RandomAdjustSharpness(1.7, 1), tv.RandomAdjustSharpness(1.7, 1)),
    "theirs": (
        tv.Compose([tv.RandomEqualize(1), tv.RandomAdjustSharpness(0, 1)]),
        tv.Compose([tv.RandomEqualize(1), tv.RandomAdjustSharpness(0, 1)]),
    ),
    "JPEG": (T.JPEG(40), through_jpeg),
    "edge": (T.Pad((1, 2, 3, 4), padding_mode="edge"), tv.Pad((1, 2, 3, 4), padding_mode="edge")),
    "reflect": (T.Pad(50, padding_mode="reflect"), tv.Pad(50, padding_mode="reflect")),
    "symmetric": (T.Pad((70, 9), padding_mode="symmetric"), tv.Pad((70, 9), padding_mode="symmetric")),
}


@pytest.mark.parametrize("name", SAME)
def test_same_as_torchvision(name, capfd):
    transform, reference = SAME[name]
    got = made([transform]).permute(0, 2, 3, 1).numpy().astype(int)
    want = np.stack([np.asarray(reference(Image.fromarray(p))).reshape(got.shape[1:]) for p in PICTURES]).astype(int)
    near = (abs(got - want) <= 1).mean()
    assert near >= (0.99 if "NEAREST" in repr(transform) or getattr(transform, "interpolation", None) == types.INTERP_NN else 1), (
        f"{near} (seed {SEED})"
    )


@pytest.mark.parametrize(
    "transform",
    [
        T.RandomGrayscale(0),
        T.RandomInvert(0),
        T.RandomPosterize(2, 0),
        T.RandomSolarize(9, 0),
        T.RandomErasing(0),
        T.RandomApply([T.GaussianBlur(5)], 0),
        T.RandomApply([T.RandomAffine(40, (0.3, 0.3), (0.5, 2), 20)], 0),
        T.RandomApply([T.RandomInvert(1), T.RandomErasing(1)], 0),
    ],
    ids=str,
)
def test_a_probability_of_0_changes_nothing(transform):
    assert torch.equal(made([transform]), torch.from_numpy(PICTURES).permute(0, 3, 1, 2))


def test_draws_are_of_the_sample():
    many = np.stack([PICTURES[0]] * 40)
    for transform in (
        T.RandomRotation(90),
        T.RandomAffine(0, translate=(0.3, 0.3)),
        T.GaussianBlur(9),
        T.RandomErasing(1),
        T.RandomInvert(),
    ):
        images = made([transform], many)
        kinds = {image.numpy().tobytes() for image in images}
        assert len(kinds) == 2 if isinstance(transform, T.RandomInvert) else len(kinds) > 30, transform
        assert torch.equal(images, made([transform], many)) and not torch.equal(images, made([transform], many, seed=9))


def test_translations_are_whole_pixels_within_bounds():
    picture = np.zeros((40, 50, 3), np.uint8)
    picture[20, 25] = 255
    places = [np.argwhere(image[0].numpy()) for image in made([T.RandomAffine(0, translate=(0.2, 0.1))], np.stack([picture] * 200))]
    moved = np.array([p[0] for p in places if len(p) == 1]) - [20, 25]
    assert len(moved) == 200 and abs(moved[:, 0]).max() == 4 and abs(moved[:, 1]).max() == 10 and abs(moved.mean(0)).max() < 1.5


def test_resize_with_a_largest_edge(tree):
    """Images of files, whose sizes are unknown in advance, differ by at most 1 from torchvision's. A max_size that is not larger than the size is refused."""
    for size, most in ((40, 44), (60, 61), (30, 400)):
        for image, path in Loader(tree, 1, transforms=[T.Resize(size, max_size=most)], fields=("image", "path"), dtype=torch.uint8):
            with Image.open(path[0]) as file:
                want = torch.from_numpy(np.asarray(tv.Resize(size, max_size=most)(file.convert("RGB"))).astype(int))
            got = image[0].permute(1, 2, 0).int()
            assert got.shape == want.shape and (got - want).abs().max() <= 1, path
    with pytest.raises(ValueError, match="max_size"):
        T.Resize(40, max_size=40)


def test_random_crop_pads_where_that_is_needed():
    """As in torchvision, a smaller image is padded on both sides, and the window is anywhere in the padded image."""
    seen = set()
    for image in made([T.RandomCrop((53, 40), padding=(2, 0), pad_if_needed=True, fill=7)], np.stack([PICTURES[0]] * 100)):
        padded = np.pad(PICTURES[0], ((8, 8), (2, 2), (0, 0)), constant_values=7)
        image = image.permute(1, 2, 0).numpy()
        places = [(y, x) for y in range(9) for x in range(25) if np.array_equal(padded[y : y + 53, x : x + 40], image)]
        assert places, "no window of the padded image"
        seen.add(places[0])
    assert {y for y, _ in seen} == set(range(9)) and len({x for _, x in seen}) > 20
    large = made([T.RandomCrop(20, pad_if_needed=True)])
    assert all(
        any(np.array_equal(p[y : y + 20, x : x + 20], i.permute(1, 2, 0)) for y in range(26) for x in range(41))
        for i, p in zip(large, PICTURES, strict=True)
    )


@pytest.mark.parametrize("padding", [3, (2,), (1, 2), [1, 2, 3, 4]], ids=str)
@pytest.mark.parametrize("module", [tv, tv.v2], ids=["v1", "v2"])
def test_padding_of_torchvisions_random_crop(module, padding):
    """Each side is padded by its own number of pixels. torchvision's argument has the order left, top, right, bottom, but the class of v2 stores left, right,
    top, bottom."""
    width, height = module.Pad(padding)(Image.fromarray(PICTURES[0])).size
    crop = module.RandomCrop((height, width), padding=padding, fill=7)
    for image, picture in zip(made([crop]), PICTURES, strict=True):
        assert np.array_equal(image.permute(1, 2, 0), np.asarray(crop(Image.fromarray(picture))))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("module", [tv, tv.v2], ids=["v1", "v2"])
def test_padding_and_pad_if_needed(module, mode):
    """v1 pads twice, so that the second padding continues the padded image; v2 pads once, by the sum. The window is one of torchvision's."""
    crop = module.RandomCrop((51, 62), padding=(1, 2), pad_if_needed=True, padding_mode=mode)
    picture = Image.fromarray(PICTURES[0])
    theirs = {np.asarray(crop(picture)).tobytes() for _ in range(100)}
    ours = {image.permute(1, 2, 0).numpy().tobytes() for image in made([crop], np.stack([PICTURES[0]] * 20))}
    assert len(ours) > 1 and ours <= theirs


@pytest.mark.parametrize("where", ["before", "normalized", "uint8"])
def test_erasing_fills_one_window(where):
    """The window's area and aspect ratio are within their bounds. `value` is in the scale that the images have at that step."""
    white = np.full((300, 50, 40, 3), 255, np.uint8)
    erasing = T.RandomErasing(0.7, scale=(0.05, 0.2), ratio=(0.5, 2), value=(0.2, 0.4, 0.6) if where != "uint8" else (51, 102, 153))
    steps = {
        "before": [T.ToTensor(), erasing],
        "normalized": [T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3), erasing],
        "uint8": [T.PILToTensor(), erasing],
    }[where]
    images = made(steps, white, dtype=None).double()
    value = torch.tensor([51.0, 102, 153] if where == "uint8" else [0.2, 0.4, 0.6]).double()[:, None]
    erased = 0
    for image in images:
        hit = image[0] != image.max()
        assert ((image[:, ~hit] - image.max()).abs() < 1e-6).all()
        if hit.any():
            erased += 1
            rows, columns = hit.any(1).nonzero()[:, 0], hit.any(0).nonzero()[:, 0]
            h, w = len(rows), len(columns)
            assert hit.sum() == h * w, "not one window"
            assert 0.04 < h * w / 2000 < 0.22 and 0.4 < h / w < 2.4
            assert ((image[:, hit] - value).abs() < 1.01 / 255).all()
    assert abs(erased - 210) < 5 * (300 * 0.21) ** 0.5, erased


@pytest.mark.parametrize("module", ["ours", "v1", "v2"])
def test_erasing_by_noise(module):
    """Each value of the window is drawn separately from the normal distribution, at any scale of the images. Other values do not change."""
    white = np.full((200, 50, 40, 3), 255, np.uint8)
    space = {"ours": T, "v1": tv, "v2": tv.v2}[module]
    erasing = space.RandomErasing(0.7, scale=(0.05, 0.2), ratio=(0.5, 2), value="random")
    images = made([T.ToTensor(), T.Normalize([0.25] * 3, [0.25] * 3), erasing], white, dtype=None)
    hit = images != 3
    windows = hit[hit.flatten(1).any(1)]
    assert abs(len(windows) - 140) < 5 * (200 * 0.21) ** 0.5 and (windows.all(1) == windows.any(1)).all()
    for window in windows[:, 0]:
        h, w = window.any(1).sum(), window.any(0).sum()
        assert window.sum() == h * w and 0.04 < h * w / 2000 < 0.22
    noise = images[hit].double()
    n = len(noise)
    assert n > 50000 and len(noise.unique()) > 0.9 * n
    assert abs(noise.mean()) < 5 / n**0.5 and abs(noise.std() - 1) < 5 / (2 * n) ** 0.5 and 3.5 < noise.abs().max() < 6.5
    assert abs((noise.abs() < 1).double().mean() - 0.6827) < 5 * (0.217 / n) ** 0.5
    assert torch.equal(images, made([T.ToTensor(), T.Normalize([0.25] * 3, [0.25] * 3), erasing], white, dtype=None))
    with pytest.raises(InvalidArgumentError, match="cannot be uint8"):
        made([T.PILToTensor(), erasing], white, dtype=None)
    with pytest.raises(UnsupportedError, match="at the list's end"):
        made([T.RandomApply([erasing])], white, dtype=None)


def windows_in(images):
    """Returns height and width of the window of ones in each of the black images."""
    hit = images[:, 0] != 0
    return torch.stack([hit.any(2).sum(1), hit.any(1).sum(1)], 1)


@pytest.mark.parametrize(
    ("extent", "scale", "ratio"),
    [
        ((6, 90), (0.02, 0.33), (0.3, 3.3)),
        ((90, 6), (0.1, 0.4), (0.3, 3.3)),
        ((24, 24), (0.9, 1.0), (0.3, 3.3)),
        ((24, 20), (0.0, 0.01), (0.5, 2.0)),
        ((24, 20), (0.0, 0.0), (0.5, 2.0)),
        ((12, 12), (0.01, 0.05), (0.2, 5.0)),
        ((50, 40), (0.02, 0.33), (0.3, 3.3)),
        ((9, 9), (1.0, 1.0), (1.0, 1.0)),
    ],
    ids=str,
)
@pytest.mark.parametrize("module", ["ours", "v1", "v2", "after Normalize", "DataLoader"])
def test_windows_of_erasing_are_those_of_torchvision(module, extent, scale, ratio):
    """A window is smaller than the image along both axes. If ten draws give no such window, the image does not change."""
    count = 2000 if module == "ours" else 500
    erasing = {"v1": tv.RandomErasing, "v2": tv.v2.RandomErasing}.get(module, T.RandomErasing)(1.0, scale=scale, ratio=ratio, value=1)
    black = np.zeros((count, *extent, 3), np.uint8)
    if module == "DataLoader":
        data = object.__new__(datasets.CIFAR10)
        data.data, data.targets = black, [0] * count
        data.transform, data.target_transform = tv.Compose([tv.ToTensor(), tv.RandomErasing(1.0, scale, ratio, 1)]), None
        loader = stoker.DataLoader(data, count, num_workers=1)
        images = next(iter(loader))[0]
        assert "cutout" in loader.explain()
    else:
        images = made([T.ToTensor(), *([T.Normalize([0.0], [1.0])] if module == "after Normalize" else []), erasing], black, dtype=None)
    ours = windows_in(images)
    random = tv.RandomErasing(1.0, scale, ratio)
    torch.manual_seed(SEED)
    theirs = torch.tensor([random.get_params(torch.zeros(3, *extent), scale, ratio, [1.0])[2:4] for _ in range(2000)])
    theirs[(theirs == torch.tensor(extent)).all(1)] = 0  # torchvision's sign that no draw fits
    theirs[(theirs == 0).any(1)] = 0
    for a, b in ((ours == 0, theirs == 0), (ours, theirs), (ours.prod(1), theirs.prod(1))):
        a, b = a.double(), b.double()
        assert ((a.mean(0) - b.mean(0)).abs() <= 5 * (a.var(0) / count + b.var(0) / 2000) ** 0.5 + 1e-9).all(), (a.mean(0), b.mean(0))


def test_a_random_order_of_one():
    """RandomOrder of one transform always applies it, so it accepts a transform that changes the image's size."""
    assert torch.equal(made([T.RandomOrder([T.CenterCrop(24)])]), made([T.CenterCrop(24)]))


@pytest.mark.parametrize("version", [tv, tv.v2])
def test_a_notice_about_tensors(version, capfd, monkeypatch):
    """torchvision computes some transforms for tensors in another way than for PIL images. The Loader gives the pixels of PIL images, and says so once."""
    rest = "After ToImage, PILToTensor or ToTensor, torchvision gives others: put it before them, and both give the same"
    hue, turned, quarter = version.ColorJitter(hue=0.2), version.RandomRotation(30, BILINEAR), version.RandomRotation((90, 90))
    for steps, said in (
        ([version.PILToTensor(), hue], ["ColorJitter with a hue"]),
        ([version.PILToTensor(), version.RandomApply([turned])], ["RandomRotation with bilinear"]),
        ([version.PILToTensor(), turned, quarter], ["RandomRotation with bilinear", "RandomRotation by a fixed angle, scale or shear"]),
        ([hue, turned, quarter, version.PILToTensor()], []),
        ([version.PILToTensor(), version.RandomRotation(30), version.ColorJitter(0.2)], []),
        ([T.PILToTensor(), T.ColorJitter(hue=0.2)], []),
    ):
        monkeypatch.setattr("stoker._where._shown", set())
        capfd.readouterr()
        made(steps)
        made(steps)
        notices = capfd.readouterr().err.splitlines()
        assert notices == [f"stoker: {words} gives the pixels of PIL images. {rest}" for words in said]


def test_advice_about_tensors_is_not_shown_as_a_setting():
    resize = tv.Resize(24, interpolation=tv.InterpolationMode.NEAREST)
    assert "of_tensors" not in repr(T.flatten([resize]))


@pytest.mark.parametrize(
    "kind, given",
    [(T.RandomInvert, (1.0,)), (T.Compose, ([T.Resize(12)],)), (T.Transform, ()), (T.Identity, ()), (T.Lambda, (abs,)), (T.MixUp, ())],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_code_that_was_added_to_a_transform_is_refused(kind, given):
    class Mine(kind):
        def __call__(self, image):
            return image * 0

    class Inherits(Mine):
        pass

    changed = kind(*given)
    changed.__call__ = lambda image: image * 0
    for step, added in ((Mine(*given), "a __call__"), (Inherits(*given), "a __call__"), (changed, "a method __call__")):
        for steps in (step, [step], T.Compose([step]), [T.RandomHorizontalFlip(0.0), tv.RandomHorizontalFlip(0.0), step]):
            for arguments in ({"transforms": steps}, {"views": [(1, steps)]}, {"batch_transforms": steps}):
                with pytest.raises(TypeError, match=f"{type(step).__name__} has {added} of its own, which Stoker would not call"):
                    Loader((PICTURES,), 5, **arguments)
        with pytest.raises(TypeError, match="of its own, which Stoker would not call"):
            T.RandomApply([step])


def test_code_that_was_added_to_a_part_of_a_group_is_refused():
    class Mine(T.RandomInvert):
        def __call__(self, image):
            return image * 0

    appended, changed, nested = (T.RandomApply([T.RandomVerticalFlip(1.0)], 1.0) for _ in range(3))
    appended.transforms.append(Mine(1.0))
    changed.transforms[0].__call__ = lambda image: image * 0
    nested.transforms.append(T.RandomChoice([T.RandomVerticalFlip(1.0)]))
    nested.transforms[1].transforms[0] = Mine(1.0)
    replaced = T.RandomChoice([T.RandomVerticalFlip(1.0)])
    replaced.transforms[0] = Mine(1.0)
    for step in (appended, changed, nested, replaced):
        for steps in (step, [T.Compose([step])]):
            with pytest.raises(TypeError, match="of its own, which Stoker would not call"):
                Loader((PICTURES,), 5, transforms=steps)


def test_a_call_of_a_subclass_may_call_the_transform():
    class Halved(T.RandomInvert):
        def __call__(self, image):
            return super().__call__(image) // 2

    class Composed(T.Compose):
        def __call__(self, image):
            return super().__call__(image) // 2

    for step in (Halved(1.0), Composed([T.RandomInvert(1.0)])):
        assert np.array_equal(step(PICTURES[0]), (255 - PICTURES[0]) // 2)
        assert torch.equal(made([T.Lambda(step)], PICTURES[:1]), torch.from_numpy((255 - PICTURES[:1]) // 2).permute(0, 3, 1, 2))


def test_functions_get_repeatable_random_numbers(capfd):
    """Functions run for each sample, with repeatable random numbers, and their results are checked."""
    capfd.readouterr()

    def noisy(image):
        image[0, 0] = sample_rng().integers(0, 256, 3)
        return image

    first, second = made([noisy, T.RandomHorizontalFlip(1)]), made([noisy, T.RandomHorizontalFlip(1)])
    assert torch.equal(first, second) and torch.equal(first[:, :, 1:], torch.from_numpy(PICTURES).permute(0, 3, 1, 2).flip(3)[:, :, 1:])
    assert len({tuple(i[:, 0, -1].tolist()) for i in first}) == 5 and not torch.equal(
        first, made([noisy, T.RandomHorizontalFlip(1)], seed=4)
    )
    notices = [line for line in capfd.readouterr().err.splitlines() if "runs in Python" in line]
    assert len(notices) == 1 and "noisy runs in Python, one sample at a time under the GIL; the other transforms run in C" in notices[0]

    class Compose:
        def __call__(self, *, image):
            return {"image": 255 - image}

    Compose.__module__ = "albumentations.core.composition"
    assert torch.equal(made([Compose()]), made([T.RandomInvert(1)]))
    for wrong, said in (
        (lambda image: image / 255, "gave float64"),
        (lambda image: image[0, 0], "of the shape"),
        (lambda image: None, "gave object|gave NoneType"),
        (lambda image: image.transpose(2, 0, 1), r"gave an array of the shape \(3, \d+, \d+\), channels first"),
    ):
        with pytest.raises(TypeError, match=said):
            made([wrong])
    with pytest.raises(InvalidArgumentError, match="noisy gets floats and gives numbers of its own: leave out dtype"):
        made([T.ToTensor(), noisy])
    with pytest.raises(UnsupportedError, match="cannot follow a function"):
        pairs = [(p, np.zeros((45, 60), np.uint8)) for p in PICTURES]
        next(iter(Loader(pairs_of(pairs), 2, transforms=[noisy], fields={"image": "Image", "mask": "Mask"})))


def pairs_of(pairs):
    class Pairs:
        def __len__(self):
            return len(pairs)

        def __getitem__(self, i):
            return pairs[i]

    return Pairs()


def test_each_view_has_its_own_draws(tree):
    """All views of a sample come from one decoded image, but each view has its own draws."""
    large, small = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()], [T.Resize((8, 9)), T.RandomVerticalFlip(1)]
    loader = Loader(tree, 5, views=[(2, large), (3, small)], fields=("image", "label", "index"), dtype=torch.uint8)
    plain = Loader(tree, 5, transforms=small, dtype=torch.uint8)
    for batch, (reference, labels) in zip(loader, plain, strict=True):
        assert [tuple(v.shape[1:]) for v in batch.image] == [(3, 32, 32)] * 2 + [(3, 8, 9)] * 3
        assert not torch.equal(batch.image[0], batch.image[1]) and torch.equal(batch.label, labels)
        assert all(torch.equal(v, reference) for v in batch.image[2:])
    assert loader.pipeline.explain().count("decode") == Loader(tree, 5, transforms=small).pipeline.explain().count("decode")
    (one,) = next(iter(Loader(tree, 5, views=[(1, small)], fields=("image",))))
    assert isinstance(one, list) and len(one) == 1
    dataset = pairs_of([(str(p), k / 2) for k, p in enumerate(sorted(tree.glob("*/*.jpg")))])
    for batch in Loader(dataset, 5, views=[(2, small)], memory_format=torch.channels_last, drop_last=True):
        assert len(batch.image) == 2 and torch.equal(*batch.image) and batch.image[1].is_contiguous(memory_format=torch.channels_last)
        assert batch.label.dtype is torch.float32
    for wrong, said in (([], "list of"), ([small], "list of"), ([(0, small)], "list of|count of a view is at least 1")):
        with pytest.raises(InvalidArgumentError, match=said):
            Loader(tree, 5, views=wrong)
    with pytest.raises(InvalidArgumentError, match="leave transforms out"):
        Loader(tree, 5, views=[(1, small)], transforms=small)
