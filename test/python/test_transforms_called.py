# SPDX-License-Identifier: Apache-2.0
"""A transform that is called on one image gives the values of a Loader, as an object of the image's own type."""

import os
import time

import numpy as np
import pytest
from PIL import Image
from support import SEED, import_torchvision

torch = pytest.importorskip("torch")

import stoker  # noqa: E402
from stoker import Loader, Pipeline, fn  # noqa: E402
from stoker import transforms as T  # noqa: E402
from stoker.errors import InvalidArgumentError  # noqa: E402

FIXED = [
    T.Resize(50),
    T.CenterCrop(40),
    T.Pad(3),
    T.Grayscale(3),
    T.RandomHorizontalFlip(1.0),
    T.Compose([T.Resize(50), T.CenterCrop(30)]),
    T.GaussianBlur(3, 1.0),
]


def picture(*shape):
    return np.random.default_rng(SEED).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("transform", FIXED, ids=repr)
def test_the_same_as_in_a_loader(transform):
    image = picture(70, 90, 3)
    with Loader((image[None],), 1, transforms=[transform], dtype=torch.uint8) as loader:
        wanted = next(iter(loader))[0][0]
    assert torch.equal(transform(torch.from_numpy(image).permute(2, 0, 1)), wanted)
    assert np.array_equal(transform(image), wanted.permute(1, 2, 0).numpy())
    made = transform(Image.fromarray(image))
    assert isinstance(made, Image.Image) and np.array_equal(np.asarray(made), wanted.permute(1, 2, 0).numpy())


@pytest.mark.parametrize("name", ["Resize", "CenterCrop", "Pad"])
def test_near_torchvision(name):
    theirs = getattr(import_torchvision().transforms, name)
    image = Image.fromarray(picture(70, 90, 3))
    ours = np.asarray(getattr(T, name)(31)(image)).astype(int)
    assert np.abs(ours - np.asarray(theirs(31)(image))).max() <= 1


def test_floats_come_from_those_that_make_floats():
    image = picture(20, 30, 3)
    made = T.ToTensor()(Image.fromarray(image))
    assert torch.allclose(made, torch.from_numpy(image).permute(2, 0, 1).float() / 255, atol=1e-6)
    made = T.Compose([T.ToTensor(), T.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))])(image)
    wanted = (image / 255 - np.array([0.5, 0.4, 0.3])) / np.array([0.2, 0.3, 0.4])
    assert made.dtype == np.float32 and np.abs(made - wanted).max() < 1e-5
    floats = (image / 255).astype(np.float32)
    assert np.abs(T.RandomHorizontalFlip(1.0)(floats) - floats[:, ::-1]).max() == 0


def test_erasing_by_noise_makes_floats():
    made = T.RandomErasing(1.0, value="random")(picture(20, 30, 3))
    assert made.dtype == np.float32 and made.min() < 0


def test_gray_images_and_crops():
    gray = picture(20, 30, 1)
    assert np.array_equal(T.RandomVerticalFlip(1.0)(gray), gray[::-1])
    assert np.array_equal(T.RandomVerticalFlip(1.0)(gray[:, :, 0]), gray[::-1])
    made = T.RandomVerticalFlip(1.0)(Image.fromarray(gray[:, :, 0]))
    assert made.mode == "L" and np.array_equal(np.asarray(made), gray[::-1, :, 0])
    image = picture(20, 30, 3)
    corners = T.FiveCrop(8)(image)
    assert [c.shape for c in corners] == [(8, 8, 3)] * 5 and np.array_equal(corners[0], image[:8, :8])


def test_draws_are_new_and_follow_torchs_seed():
    image, crop = picture(200, 200, 3), T.RandomCrop(50)
    torch.manual_seed(3)
    first, second = crop(image), crop(image)
    torch.manual_seed(3)
    assert not np.array_equal(first, second) and np.array_equal(first, crop(image))


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (3, "not int"),
        ("x.jpg", "not str"),
        (np.zeros((2, 9, 9, 3), np.uint8), "a Loader takes batches"),
        (np.zeros((0, 9, 3), np.uint8), "one image is an array"),
        (np.zeros((9, 9, 3), np.int32), "uint8 or float32, not int32"),
        (torch.zeros(2, 2), "one image is a tensor"),
        (Image.new("RGBA", (4, 4)), 'image.convert("RGB")'),
    ],
)
def test_objects_that_are_not_images_are_refused(image, says):
    with pytest.raises(InvalidArgumentError, match=says.replace("(", r"\(").replace(")", r"\)")):
        T.Resize(4)(image)


def test_transforms_of_batches_name_their_place():
    with pytest.raises(InvalidArgumentError, match="batch_transforms="):
        T.MixUp(num_classes=3)(picture(9, 9, 3))


def test_no_advice_is_printed(capfd):
    T.Resize(4)(np.zeros((9, 9, 3), np.float32))
    assert capfd.readouterr() == ("", "")


def test_a_loader_is_no_dataset():
    with Loader((picture(4, 9, 9, 3),), 2) as loader:
        with pytest.raises(TypeError, match=r"as_dataloader\(\)"):
            loader[0]
        with pytest.raises(TypeError, match=r"as_dataloader\(\)"):
            next(iter(torch.utils.data.DataLoader(loader)))


# ---- all transforms ----


def double(image):
    return image


ALL = {
    "JPEG": T.JPEG(40),
    "RGB": T.RGB(),
    "AugMix": T.AugMix(severity=5),
    "AutoAugment": T.AutoAugment(T.AutoAugmentPolicy.CIFAR10),
    "CenterCrop": T.CenterCrop([20, 30]),
    "ColorJitter": T.ColorJitter(brightness=0.5, hue=(-0.1, 0.2)),
    "Compose": T.Compose([T.Resize(40), T.RandomHorizontalFlip(0.3)]),
    "ConvertImageDtype": T.ConvertImageDtype(torch.float32),
    "CutMix": T.CutMix(num_classes=10),
    "ElasticTransform": T.ElasticTransform(50.0),
    "FiveCrop": T.FiveCrop(20),
    "FixedSizeCrop": T.FixedSizeCrop((30, 30)),
    "GaussianBlur": T.GaussianBlur(5, sigma=(0.5, 1.0)),
    "GaussianNoise": T.GaussianNoise(),
    "Grayscale": T.Grayscale(num_output_channels=3),
    "Identity": T.Identity(),
    "Lambda": T.Lambda(double),
    "MixUp": T.MixUp(alpha=0.2, num_classes=3),
    "Normalize": T.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
    "PILToTensor": T.PILToTensor(),
    "Pad": T.Pad((1, 2), fill=3, padding_mode="constant"),
    "RandAugment": T.RandAugment(3, magnitude=5),
    "RandomAdjustSharpness": T.RandomAdjustSharpness(2.0, p=1.0),
    "RandomAffine": T.RandomAffine(10, translate=(0.1, 0.1), interpolation=T.InterpolationMode.BILINEAR),
    "RandomApply": T.RandomApply([T.ColorJitter(0.5)], p=0.4),
    "RandomAutocontrast": T.RandomAutocontrast(),
    "RandomChannelPermutation": T.RandomChannelPermutation(),
    "RandomChoice": T.RandomChoice([T.RandomInvert(1.0), T.RandomSolarize(9, p=1.0)]),
    "RandomCrop": T.RandomCrop(20, padding=4),
    "RandomEqualize": T.RandomEqualize(p=1.0),
    "RandomErasing": T.RandomErasing(1.0, value="random"),
    "RandomGrayscale": T.RandomGrayscale(0.5),
    "RandomHorizontalFlip": T.RandomHorizontalFlip(),
    "RandomInvert": T.RandomInvert(1.0),
    "RandomIoUCrop": T.RandomIoUCrop(min_scale=0.4),
    "RandomOrder": T.RandomOrder([T.RandomInvert(1.0), T.RandomSolarize(9, p=1.0)]),
    "RandomPerspective": T.RandomPerspective(0.4, p=1.0),
    "RandomPhotometricDistort": T.RandomPhotometricDistort(),
    "RandomPosterize": T.RandomPosterize(3, p=1.0),
    "RandomResize": T.RandomResize(20, 40),
    "RandomResizedCrop": T.RandomResizedCrop(24, scale=(0.3, 1.0)),
    "RandomRotation": T.RandomRotation(20, expand=True),
    "RandomShortestSize": T.RandomShortestSize([20, 30], max_size=60),
    "RandomSolarize": T.RandomSolarize(128, p=1.0),
    "RandomVerticalFlip": T.RandomVerticalFlip(p=1.0),
    "RandomZoomOut": T.RandomZoomOut(fill=(1, 2, 3)),
    "Resize": T.Resize((30, 40), interpolation=T.InterpolationMode.BICUBIC),
    "SanitizeBoundingBoxes": T.SanitizeBoundingBoxes(min_size=2),
    "ScaleJitter": T.ScaleJitter((40, 40)),
    "TenCrop": T.TenCrop(20),
    "ToDtype": T.ToDtype(torch.float32, scale=True),
    "ToImage": T.ToImage(),
    "ToTensor": T.ToTensor(),
    "TrivialAugmentWide": T.TrivialAugmentWide(),
}
# Transforms of whole batches, which cannot be called on one image.
NOT_OF_ONE_IMAGE = {"CutMix", "MixUp"}


def test_the_table_has_all_transforms():
    assert {*ALL} == {*T.__all__} - {"Transform", "InterpolationMode", "AutoAugmentPolicy"}


@pytest.mark.parametrize("name", ALL)
def test_repr_is_what_one_would_type(name):
    names = {**{n: getattr(T, n) for n in T.__all__}, "torch": torch, "double": double}
    again = eval(repr(ALL[name]), names)
    assert again == ALL[name] and repr(again) == repr(ALL[name]) and hash(again) == hash(ALL[name])
    assert repr(ALL[name]).startswith(name + "(")


def test_transforms_with_other_arguments_differ():
    assert T.Resize(40) == T.Resize(size=40) != T.Resize(41) and T.Resize(40) != T.CenterCrop(40)
    assert T.Normalize(np.float32([0.5]), [1.0]) == T.Normalize(np.float32([0.5]), [1.0])
    assert len({T.Resize(40), T.Resize(40), T.Resize(41)}) == 2
    changed = T.Resize(40)
    changed.size = 50
    assert "size=50" in repr(changed) and changed != T.Resize(40)
    assert repr(T.Lambda(np.uint8)) == "Lambda(uint8)" and T.Lambda(np.uint8) == T.Lambda(np.uint8) != T.Lambda(np.int8)
    import copy
    import pickle

    for again in (copy.copy(changed), pickle.loads(pickle.dumps(T.Resize(40))), copy.deepcopy(T.Resize(40))):
        assert again in (changed, T.Resize(40)) and repr(again).startswith("Resize(")


@pytest.mark.parametrize("name", [name for name in ALL if name not in NOT_OF_ONE_IMAGE])
def test_every_transform_takes_arrays_tensors_and_pil_images(name):
    if name == "Lambda":
        pytest.skip("calls a Python function, with a tensor")
    image, results = picture(50, 60, 3), []
    for given in (image, torch.from_numpy(image).permute(2, 0, 1), Image.fromarray(image)):
        torch.manual_seed(SEED)
        made = ALL[name](given)
        several = made if isinstance(made, tuple) else (made,)
        for one in several:
            assert type(one) in (type(given), Image.Image, torch.Tensor), (name, type(one))
        results.append([one.permute(1, 2, 0).numpy() if isinstance(one, torch.Tensor) else np.asarray(one) for one in several])
    for other in results[1:]:
        assert len(other) == len(results[0])
        for a, b in zip(results[0], other, strict=True):
            assert a.shape[:2] == b.shape[:2] and np.array_equal(a.reshape(b.shape), b), name


@pytest.mark.parametrize("name", sorted(NOT_OF_ONE_IMAGE))
def test_transforms_of_batches_refuse_one_image(name):
    with pytest.raises((InvalidArgumentError, stoker.StokerError), match=name):
        ALL[name](picture(30, 40, 3))


FLIP = T.RandomHorizontalFlip(1.0)
IN_FUNCTION = T.Lambda(lambda image: FLIP(image))
TWICE_IN_FUNCTION = T.Lambda(lambda image: IN_FUNCTION(image))


class Flipping(torch.utils.data.Dataset):
    """Calls a transform, which calls a function, for each sample."""

    def __init__(self, images, transform):
        self.images, self.transform = images, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return np.asarray(self.transform(self.images[index])), index


@pytest.mark.parametrize("transform", [IN_FUNCTION, TWICE_IN_FUNCTION], ids=["one level", "two levels"])
def test_a_function_that_is_called_for_one_image_calls_a_transform(transform):
    image = picture(8, 9, 3)
    assert np.array_equal(transform(image), image[:, ::-1])


@pytest.mark.parametrize("transform", [FLIP, IN_FUNCTION, TWICE_IN_FUNCTION], ids=["one level", "two levels", "three levels"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("form", ["transform", "Dataset", "python_function"])
def test_a_transform_called_inside_of_a_loop(form, threads, transform):
    images = picture(8, 8, 9, 3)
    flipped = torch.from_numpy(images[:, :, ::-1].copy()).permute(0, 3, 1, 2)
    if form == "python_function":
        pipe = Pipeline(batch_size=8, num_threads=threads, device_id=None)
        with pipe:
            given = fn.external_source(source=lambda: list(images))
            pipe.set_outputs(fn.python_function(given, function=lambda image: transform(image)))
        pipe.build()
        (outputs,) = pipe.run()
        assert np.array_equal(np.stack([np.asarray(one) for one in outputs]), images[:, :, ::-1])
        return
    source, transforms = (images, [lambda image: transform(image)]) if form == "transform" else (Flipping(images, transform), [])
    with Loader(source, 4, transforms=transforms, num_threads=threads, shuffle=False, dtype="uint8") as loader:
        for _epoch in range(2):
            assert torch.equal(torch.cat([batch[0] for batch in loader]), flipped)


def test_pipelines_in_functions_leave_no_threads():
    image = picture(8, 9, 3)
    IN_FUNCTION(image)
    before = len(os.listdir("/proc/self/task"))
    for _ in range(5):
        IN_FUNCTION(image)
    end = time.monotonic() + 30  # the system may list a thread for a moment after it has ended
    while len(os.listdir("/proc/self/task")) > before and time.monotonic() < end:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) <= before
