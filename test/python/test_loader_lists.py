# SPDX-License-Identifier: Apache-2.0
"""Images with sizes of their own come as a list of tensors if the user asks for one."""

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, ShapeError
from support import SEED, photograph

SIZES = [(20, 30), (24, 30), (20, 16), (40, 33)]


@pytest.fixture
def pictures():
    rng = np.random.default_rng(SEED)
    return [photograph(rng, *size) for size in SIZES]


class Scenes(torch.utils.data.Dataset):
    """Images with a mask of their size, which is the image's first channel."""

    def __init__(self, pictures):
        self.pictures = pictures

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        return self.pictures[i], self.pictures[i][..., 0].copy(), i


def test_images_of_a_list_keep_their_sizes(pictures):
    fields = {"image": list, "mask": "Mask", "label": None}
    for more in ({}, {"memory_format": torch.channels_last}):
        loader = Loader(Scenes(pictures), 4, transforms=[T.RandomHorizontalFlip(1.0), T.PILToTensor()], fields=fields, **more)
        batch = next(iter(loader))
        assert isinstance(batch.image, list) and isinstance(batch.mask, list) and batch.label.tolist() == [0, 1, 2, 3]
        for image, mask, picture in zip(batch.image, batch.mask, pictures, strict=True):
            assert np.array_equal(image.numpy(), picture[:, ::-1].transpose(2, 0, 1)) and np.array_equal(mask.numpy(), picture[:, ::-1, 0])


def test_images_of_one_size_are_a_list_too(pictures):
    fields = {"image": list, "mask": "Mask", "label": None}
    batches = list(Loader(Scenes([pictures[0]] * 3), 2, transforms=[T.PILToTensor()], fields=fields, last_batch="keep"))
    assert [[tuple(image.shape) for image in batch.image] for batch in batches] == [[(3, 20, 30)] * 2, [(3, 20, 30)]]
    assert all(isinstance(batch.mask, list) for batch in batches)


def test_files_of_their_own_sizes(pictures, tmp_path):
    (tmp_path / "c").mkdir()
    for k, picture in enumerate(pictures):
        Image.fromarray(picture).save(tmp_path / "c" / f"{k}.png")
    batch = next(iter(Loader(str(tmp_path), 4, transforms=[T.PILToTensor()], fields={"image": list, "label": None})))
    assert [np.array_equal(image.permute(1, 2, 0).numpy(), picture) for image, picture in zip(batch.image, pictures, strict=True)] == [
        True
    ] * 4
    with pytest.raises(ShapeError, match=r"fields=\{'image': list"):
        next(iter(Loader(str(tmp_path), 4, transforms=[T.PILToTensor()])))


def test_batch_transforms_want_one_tensor(pictures):
    with pytest.raises(InvalidArgumentError, match=r"batch_transforms are of one tensor"):
        Loader(
            Scenes(pictures), 4, fields={"image": list, "mask": "Mask", "label": None}, batch_transforms=T.MixUp(alpha=1.0, num_classes=4)
        )
