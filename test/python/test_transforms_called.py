# SPDX-License-Identifier: Apache-2.0
"""A transform that is called on one image gives what a Loader makes of it, as the kind of object that the image was."""

import numpy as np
import pytest
from PIL import Image
from support import SEED, import_torchvision

torch = pytest.importorskip("torch")

from stoker import Loader  # noqa: E402
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
def test_what_is_no_image_is_refused(image, says):
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
