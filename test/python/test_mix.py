# SPDX-License-Identifier: Apache-2.0
"""MixUp and CutMix as batch_transforms equal torchvision's v2 with the same draws, which depend on seed, epoch and batch."""

import numpy as np
import pytest
import torch
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError
from support import SEED, import_torchvision, photograph

v2 = import_torchvision().transforms.v2
from torchvision import tv_tensors  # noqa: E402

PICTURES = np.stack([photograph(np.random.default_rng(SEED + k), 24, 30) for k in range(20)])
LABELS = np.arange(20) % 5


class Same:
    """A Dataset whose samples are all the same."""

    def __init__(self, sample):
        self.sample = sample

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.sample


def batches(mixing, **kwargs):
    loader = Loader((PICTURES, LABELS), 5, **{"shuffle": True, "batch_transforms": mixing, **kwargs})
    return [(b.image, b.label) for b in loader]


def share_of(mixed, label):
    """Returns the weight of each image in its own mixture, which is the same for all images of a batch. Reads it from the soft labels, because neighbours in a
    batch have different labels."""
    shares = mixed[torch.arange(len(label)), label]
    assert torch.allclose(mixed.sum(1), torch.ones(len(mixed))) and shares.max() - shares.min() < 1e-6
    return shares.double().mean().item()


@pytest.mark.essential
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_both_are_torchvisions(memory_format):
    plain = batches(None, shuffle=False, memory_format=memory_format, dtype=torch.float32)
    for given in (T.MixUp(alpha=0.7, num_classes=5), v2.MixUp(alpha=0.7, num_classes=5)):
        for (image, label), (mixed, soft) in zip(plain, batches(given, shuffle=False, memory_format=memory_format), strict=True):
            share = share_of(soft, label)
            theirs = v2.MixUp(num_classes=5)
            params = {"labels": label, "batch_size": 5, "lam": share}
            torch.testing.assert_close(mixed, theirs.transform(image, params))
            torch.testing.assert_close(soft, theirs.transform(label, params))
            assert mixed.is_contiguous(memory_format=memory_format)
    changed = 0
    for (image, label), (mixed, soft) in zip(
        plain, batches(v2.CutMix(num_classes=5), shuffle=False, memory_format=memory_format), strict=True
    ):
        where = (mixed != image).any(0).any(0)
        rows, columns = where.any(1).nonzero()[:, 0], where.any(0).nonzero()[:, 0]
        box = (columns[0].item(), rows[0].item(), columns[-1].item() + 1, rows[-1].item() + 1) if where.any() else (0, 0, 0, 0)
        left = 1 - (box[2] - box[0]) * (box[3] - box[1]) / where.numel()
        assert abs(share_of(soft, label) - left) < 0.02
        theirs = v2.CutMix(num_classes=5)
        params = {"labels": label, "batch_size": 5, "box": box, "lam_adjusted": share_of(soft, label)}
        assert torch.equal(mixed, theirs.transform(image, params))
        torch.testing.assert_close(soft, theirs.transform(label, params))
        changed += where.any().item()
    assert changed


def test_draws_follow_from_seed_epoch_and_batch():
    choice = v2.RandomChoice([v2.MixUp(num_classes=5), v2.CutMix(num_classes=5)], p=[0.5, 0.5])

    def run(loader):
        return [b.image for b in loader]

    def loader(**kwargs):
        return Loader((PICTURES, LABELS), 5, **{"shuffle": True, "batch_transforms": choice, **kwargs})

    first = loader()
    epochs = [run(first), run(first)]
    again = loader()
    for epoch in epochs:
        assert all(torch.equal(a, b) for a, b in zip(epoch, run(again), strict=True))
    resumed, whole = loader(), loader()
    for _ in zip(range(2), whole, strict=False):
        pass
    resumed.load_state_dict(whole.state_dict())
    rest = run(resumed)
    assert all(torch.equal(a, b) for a, b in zip(epochs[0][-len(rest) :], rest, strict=True)) and 0 < len(rest) < 4
    assert not torch.equal(run(loader(seed=9))[0], epochs[0][0])
    plain = Loader((PICTURES, LABELS), 5, shuffle=True, dtype=torch.float32)
    kinds = set()
    for _ in range(8):
        kinds |= {(a == b).flatten(1).float().mean().item() > 0.02 for a, b in zip(run(first), [i for i, _ in plain], strict=True)}
    assert kinds == {True, False}  # in CutMix, pixels outside of the window keep their values; in MixUp, few do


def test_labels_are_mixed_as_vectors(tree):
    """The Loader turns labels into vectors of its classes, and mixes labels that are vectors already. Functions get images and labels. A batch that RandomApply
    skips has its own labels."""
    images, labels = next(iter(Loader(tree, 4, transforms=[T.Resize((8, 8))], batch_transforms=T.MixUp())))
    assert labels.shape == (4, len(Loader(tree, 4).classes)) and labels.dtype is torch.float32
    soft = np.eye(5, dtype=np.float32)[LABELS]
    (batch,) = Loader((PICTURES, soft), 20, batch_transforms=[T.CutMix(), T.RandomApply([T.MixUp()], 0)])
    assert batch.label.shape == (20, 5) and torch.allclose(batch.label.sum(1), torch.ones(20))
    (batch,) = Loader((PICTURES, LABELS), 20, batch_transforms=lambda image, label: (image * 0, label + 1))
    assert not batch.image.any() and torch.equal(batch.label, torch.from_numpy(LABELS + 1))
    (same,) = Loader((PICTURES, LABELS), 20, batch_transforms=[T.RandomApply([T.MixUp(num_classes=5)], 0)], dtype=torch.uint8)
    assert same.label.dtype is torch.int64
    (cut,) = Loader((PICTURES, LABELS), 20, batch_transforms=[T.CutMix(num_classes=5)], dtype=torch.uint8, collate_fn=lambda b: b)
    assert cut.image.dtype is torch.uint8 and images.dtype is torch.float32


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"batch_transforms": T.MixUp()}, "num_classes is needed"),
        ({"batch_transforms": T.MixUp(num_classes=5), "dtype": torch.uint8}, "MixUp mixes floats"),
        ({"batch_transforms": [T.RandomHorizontalFlip()]}, "changes one sample"),
        ({"transforms": [v2.CutMix(num_classes=5)]}, r"batch_transforms=\[CutMix"),
        ({"batch_transforms": T.MixUp(num_classes=5), "fields": ("label",)}, "fields image and label"),
        ({"batch_transforms": T.MixUp(num_classes=5), "transforms": [T.FiveCrop(9)]}, "one image a sample"),
    ],
)
def test_what_is_refused(arguments, says):
    with pytest.raises(InvalidArgumentError, match=says):
        next(iter(Loader((PICTURES, LABELS), 5, **arguments)))


@pytest.mark.parametrize("kind", [T.MixUp, T.CutMix])
@pytest.mark.parametrize(
    ("labels", "classes", "says"),
    [
        (LABELS + 0.5, 9, "labels are floats"),
        (np.eye(5, dtype=np.float32)[LABELS], 4, "num_classes is 4, and the labels are vectors of 5 numbers"),
        (LABELS, 2, "there are 2 classes, and the labels of this batch go from 0 to 4"),
        (LABELS - 1, 5, "go from -1 to 3"),
    ],
)
def test_labels_that_are_no_classes(kind, labels, classes, says):
    """Labels that do not name classes are refused, as by torchvision. Labels that are floats would be truncated to other classes."""
    with pytest.raises(InvalidArgumentError, match=f"{kind.__name__}: .*{says}"):
        next(iter(Loader((PICTURES, labels), 20, batch_transforms=kind(num_classes=classes))))


@pytest.mark.parametrize("mixing", [T.MixUp(num_classes=5), T.RandomApply([T.RandomChoice([T.CutMix(num_classes=5)])], 1.0)])
def test_parts_that_would_not_be_mixed(mixing):
    """Masks and boxes are refused, as by torchvision: a mask of one sample does not belong to an image that is mixed from two."""
    mask, box = np.zeros((24, 30), np.uint8), np.array([[1, 2, 8, 9]], np.float32)
    tensors = tv_tensors.Image(torch.from_numpy(PICTURES[0]).movedim(-1, 0)), tv_tensors.Mask(torch.from_numpy(mask))
    for sample, kinds, named in (
        ((PICTURES[0], mask, 1), {"image": "Image", "mask": "Mask", "label": None}, "Mask"),
        ((PICTURES[0], box, 1), {"image": "Image", "boxes": "BoundingBoxes", "label": None}, "BoundingBoxes"),
        ((PICTURES[0], PICTURES[1], 1), {"image": "Image", "other": "Image", "label": None}, "Image"),
        ((*tensors, 1), ("image", "mask", "label"), "Mask"),
    ):
        with pytest.raises(InvalidArgumentError, match=rf"(MixUp|CutMix) mixes the image and the label.* of the kind {named}, "):
            next(iter(Loader(Same(sample), 4, fields=kinds, batch_transforms=mixing)))
        (batch, *_) = Loader(Same(sample), 4, fields=kinds, batch_transforms=lambda image, label: (image, label + 1))
        assert batch.label.tolist() == [2] * 4


@pytest.mark.parametrize("kind", [v2.MixUp, v2.CutMix])
def test_functions_that_find_the_labels_are_refused(kind):
    """The error's advice, torchvision's own transform on the finished batch, mixes the labels that the function finds."""
    mix = kind(num_classes=20, labels_getter=lambda batch: batch["fine"])
    sample = {"image": PICTURES[0], "label": 1, "fine": 2}
    for given in (mix, [mix]):
        with pytest.raises(ValueError, match=rf"{kind.__name__}: labels_getter is not compiled.*collate_fn=lambda batch: mix"):
            Loader(Same(sample), 4, batch_transforms=given)
    with pytest.raises(ValueError, match="labels_getter"):
        Loader(Same(sample), 4, batch_transforms=kind(num_classes=20, labels_getter=None))
    loader = Loader(Same(sample), 4, fields=("image", "label", "fine"), dtype="float32", collate_fn=lambda batch: mix(batch._asdict()))
    made = next(iter(loader))
    assert made["label"].tolist() == [1] * 4 and made["fine"].argmax(1).tolist() == [2] * 4


def test_functions_return_both():
    """A function that returns only images is refused, because a tensor of two images could be unpacked as images and labels."""
    for function in (lambda image, label: image, lambda image, label: None, lambda image, label: {"image": image, "label": label}):
        with pytest.raises(InvalidArgumentError, match=r"lambda.* returns \(images, labels\); it returned"):
            next(iter(Loader((PICTURES[:2], LABELS[:2]), 2, batch_transforms=function)))


def test_wrong_arguments():
    for make, says in (
        (lambda: T.MixUp(alpha=0), "alpha"),
        (lambda: T.CutMix(num_classes=0), "num_classes"),
        (lambda: T.MixUp(alpha="1"), "alpha"),
    ):
        with pytest.raises(ValueError, match=says):
            make()
