# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader gives a user's transforms, data sets and arguments the meaning that they have in their own libraries, or refuses them."""

import ast
import datetime
import decimal
import fractions
import functools
import io
import itertools
import os
import re
import shutil
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader, Pipeline, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import CorruptError, InvalidArgumentError, LimitError, NoDataError, ShapeError, StateError, StokerError, UnsupportedError
from stoker.loader._random import bijection
from stoker.loader.sources import _dataset, _fetch
from stoker.loader.sources._dataset import DatasetSource
from stoker.plugin.pytorch import DALIGenericIterator
from support import SEED, import_torchvision

SMALL = [T.Resize((16, 20))]


class Set:
    """A map-style Dataset whose samples are the results of a function."""

    def __init__(self, count, give):
        self.count, self.give = count, give

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.give(i)


def images(source, transforms, **kwargs):
    loader = Loader(source, 1, transforms=transforms, **{"dtype": torch.uint8, **kwargs})
    return torch.cat([b.image.clone() for b in loader])


# ---- groups of transforms ----

TURNS = [T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)]
JITTER = T.ColorJitter(0.5, 0.5, 0.5, 0.3)


@pytest.mark.essential
@pytest.mark.parametrize(
    "inner", [TURNS, [JITTER], [JITTER, TURNS[0]], [T.RandomApply(TURNS, 1)]], ids=["turns", "jitter", "both", "nested"]
)
def test_random_apply_never_and_always(tree, inner):
    plain = images(tree, SMALL)
    assert torch.equal(images(tree, [*SMALL, T.RandomApply(inner, 0)]), plain)
    always = images(tree, [*SMALL, T.RandomApply(inner, 1)])
    if inner is TURNS or isinstance(inner[0], T.RandomApply):
        assert torch.equal(always, plain.flip([2, 3]))
    else:
        assert all(not torch.equal(a, b) for a, b in zip(always, plain, strict=True))


def test_random_apply_draws_for_each_sample(tree):
    plain = images(tree, SMALL)
    applied = total = 0
    for seed in range(12):
        made = images(tree, [*SMALL, T.RandomApply(TURNS, 0.3)], seed=seed)
        for a, b in zip(made, plain, strict=True):
            turned = torch.equal(a, b.flip([1, 2]))
            assert turned or torch.equal(a, b), "half of a RandomApply was applied"
            applied, total = applied + turned, total + 1
    assert abs(applied - 0.3 * total) < 5 * (total * 0.21) ** 0.5, f"{applied} of {total}"


def test_random_choice_takes_one(tree):
    plain = images(tree, SMALL)
    count = [0, 0, 0]
    for seed in range(12):
        made = images(tree, [*SMALL, T.RandomChoice([TURNS[0], TURNS[1], T.Identity()], p=[2, 1, 1])], seed=seed)
        for a, b in zip(made, plain, strict=True):
            kinds = [torch.equal(a, b.flip(2)), torch.equal(a, b.flip(1)), torch.equal(a, b)]
            assert sum(kinds) == 1
            count[kinds.index(True)] += 1
    total = sum(count)
    for got, share in zip(count, (0.5, 0.25, 0.25), strict=True):
        assert abs(got - share * total) < 5 * (total * share * (1 - share)) ** 0.5, count


def test_random_order_where_it_makes_no_difference(tree):
    assert torch.equal(images(tree, [*SMALL, T.RandomOrder(TURNS)]), images(tree, SMALL).flip([2, 3]))


def test_a_shard_of_a_pipeline_is_the_readers(files):
    """The reader of a pipeline divides the files. A Loader refuses a shard= without effect: one that its reader does not have, one that differs from the
    reader's, or one for a pipeline without a reader."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def reads(**reader):
        return fn.readers.file(files=[str(f) for f in files[:8]], **reader)[1]

    with pytest.raises(InvalidArgumentError, match=r"shard=\(1, 4\) would have no effect.*num_shards=4, shard_id=1"):
        Loader(reads(), shard=(1, 4))
    for other in (None, (0, 4), (1, 2)):
        with pytest.raises(InvalidArgumentError, match="its reader reads shard 1 of 4"):
            Loader(reads(num_shards=4, shard_id=1), shard=other)
    for same in ("auto", (1, 4)):
        loader = Loader(reads(num_shards=4, shard_id=1, tail="drop"), shard=same)
        assert next(iter(loader)) is not None and loader.step == len(loader) == 1

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def given():
        return fn.external_source([[np.zeros(2, np.uint8)] * 2])

    with pytest.raises(InvalidArgumentError, match="it has no reader"):
        Loader(given(), shard=(1, 4))


def test_random_order_takes_each_order_as_often():
    """All orders of the transforms are equally frequent. Each gives another image, which equals the result of torchvision's functions in that order."""
    functional = import_torchvision().transforms.v2.functional
    image = np.random.default_rng(0).integers(0, 256, (8, 10, 3), np.uint8)
    plain = torch.from_numpy(image).permute(2, 0, 1)
    parts = {
        "invert": (functional.invert, T.RandomInvert(1.0)),
        "solarize": (lambda x: functional.solarize(x, 100), T.RandomSolarize(100, 1.0)),
        "posterize": (lambda x: functional.posterize(x, 3), T.RandomPosterize(3, 1.0)),
    }
    for names in (["invert", "solarize"], [*parts]):
        orders = list(itertools.permutations(names))
        wanted = [functools.reduce(lambda x, name: parts[name][0](x), order, plain).flip(2) for order in orders]
        assert len({w.numpy().tobytes() for w in wanted}) == len(orders)
        group = T.RandomOrder([T.RandomHorizontalFlip(1.0), *(parts[name][1] for name in names)])
        count = [0] * len(orders)
        for batch in Loader(Set(240, lambda i: (image, i)), 24, transforms=[group], dtype=torch.uint8, seed=3):
            for made in batch.image:
                (found,) = [k for k, w in enumerate(wanted) if torch.equal(made, w)]
                count[found] += 1
        share = 1 / len(orders)
        assert all(abs(c - 240 * share) < 5 * (240 * share * (1 - share)) ** 0.5 for c in count), count


def test_random_order_of_what_moves_pixels_and_flips():
    """A rotation and a flip give different images in each order, and both orders occur. Six transforms are refused."""
    group = T.RandomOrder([T.RandomRotation((30, 30)), T.RandomHorizontalFlip(1.0)])
    picture = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    made = images(Set(64, lambda i: (picture, i)), [group])
    assert len({m.numpy().tobytes() for m in made}) == 2
    with pytest.raises(ValueError, match="6 transforms in a random order are too many"):
        T.RandomOrder([T.RandomInvert(0.5)] * 6)


@pytest.mark.parametrize(
    "transform",
    [
        T.RandomEqualize(1.0),
        T.RandomAutocontrast(1.0),
        T.RandomAdjustSharpness(3.0, 1.0),
        T.RandomPhotometricDistort(p=1.0),
        T.RandomChannelPermutation(),
        T.RandomPosterize(3, 1.0),
        T.GaussianBlur(5),
    ],
    ids=lambda t: type(t).__name__,
)
def test_a_flip_does_not_count_next_to_what_treats_all_pixels_alike(tree, transform):
    """The image is the same whether it is mirrored before the transform or after it, so RandomOrder draws no order for the flip."""
    never = T.RandomVerticalFlip(0.0)  # takes the place of the flip, so that the transform draws the same random numbers
    # The seed is given, because earlier tests may have called torch.manual_seed(). A blur adds up a mirrored window in the opposite order, so that with some
    # seeds a value is rounded the other way.
    before, after = (images(tree, [*SMALL, *order], seed=0) for order in ([TURNS[0], transform, never], [never, transform, TURNS[0]]))
    assert torch.equal(before, after) and not torch.equal(before, images(tree, [*SMALL, TURNS[0]]))
    assert T.RandomOrder([TURNS[0], transform]).in_random_order() == []
    assert len(T.RandomOrder([*TURNS, *[transform] * 5]).in_random_order()) == 5


def test_groups_of_torchvision(tree):
    tv = import_torchvision().transforms
    plain = images(tree, SMALL)
    turns = [tv.RandomHorizontalFlip(1), tv.RandomVerticalFlip(1)]
    for module in (tv, tv.v2):
        resize = module.Resize((16, 20))
        for group, expected in (
            (module.RandomApply(turns, p=0), plain),
            (module.RandomApply(turns, p=1), plain.flip([2, 3])),
            (module.RandomChoice([turns[0]]), plain.flip(3)),
            (module.RandomOrder(turns), plain.flip([2, 3])),
            (torch.nn.Sequential(*turns), plain.flip([2, 3])),
        ):
            assert torch.equal(images(tree, module.Compose([resize, group])), expected), group


def test_what_groups_do_not_take(tree):
    for group in (T.RandomApply([T.Resize(8)]), T.RandomChoice([T.RandomCrop(8), T.CenterCrop(8)])):
        with pytest.raises(UnsupportedError, match="put it outside"):
            Loader(tree, 1, transforms=[*SMALL, group])
    with pytest.raises(ValueError, match="2 weights for 1"):
        T.RandomChoice([TURNS[0]], p=[1, 2])


def test_skipped_files_of_a_folder_are_reported(files, tmp_path, capfd):
    for name in ("a/1.jpg", "a/notes.txt", "a/deep/2.jpg", "b/3.jpg", "b/labels.csv", "b/x.txt", "README.md", "4.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        shutil.copy(files[0], tmp_path / name) if name.endswith("jpg") else (tmp_path / name).touch()
    assert len(Loader(tmp_path, 1, transforms=SMALL)) == 3
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"stoker: {tmp_path}: skipped 3 files that are no images: .") and line.endswith(
        "; 1 image next to the class folders"
    )
    assert ".txt (2)" in line and ".csv (1)" in line
    (tmp_path / ".ipynb_checkpoints").mkdir()
    with pytest.raises(StokerError, match=r"\.ipynb_checkpoints: a class folder without images"):
        Loader(tmp_path, 1)
    shutil.copy(files[0], tmp_path / ".ipynb_checkpoints/5.jpg")
    assert Loader(tmp_path, 1, transforms=SMALL).classes == [".ipynb_checkpoints", "a", "b"]
    assert "hidden folder .ipynb_checkpoints" in capfd.readouterr().err


def test_an_order_of_classes_that_is_not_that_of_image_folder_is_reported(files, tmp_path, capfd):
    """Stoker sorts the names of classes by their bytes, ImageFolder by their characters in Python, where bytes that are not UTF-8 become surrogates. If the two
    orders differ, so do the labels, and a notice says so."""
    for names, noticed in (
        ((b"\xff", "\uffee".encode()), True),
        ((b"\xff", b"z", "é".encode()), False),
        ((b"z", "\uffee".encode()), False),
    ):
        root = tmp_path / str(len(names)) / str(noticed)
        for name in names:
            os.makedirs(os.path.join(os.fsencode(root), name))
            shutil.copy(files[0], os.path.join(os.fsencode(root), name, b"1.jpg"))
        assert Loader(root, 1, transforms=SMALL).classes == [os.fsdecode(name) for name in sorted(names)]
        said = capfd.readouterr().err
        assert ("ImageFolder numbers these otherwise" in said) == (r"the class b'\xff' has" in said) == noticed
        theirs = import_torchvision().datasets.ImageFolder(str(root))
        assert (theirs.classes == [os.fsdecode(name) for name in sorted(names)]) != noticed
        assert Loader(theirs, 1, transforms=SMALL).classes == theirs.classes


# ---- types and ranges ----


def test_ranges_are_torchvisions(tree):
    """Each list of transforms gives the values that torchvision gives for the same file."""
    torchvision = import_torchvision()
    tv, v2 = torchvision.transforms, torchvision.transforms.v2
    size = v2.Resize((16, 20))
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
    lists = [
        [size, tv.ToTensor()],
        [size, tv.PILToTensor()],
        [size, tv.PILToTensor(), tv.ConvertImageDtype(torch.float32)],
        [size, tv.ToTensor(), tv.Normalize(mean, std)],
        [size, v2.ToImage(), v2.ToPureTensor()],
        [size, v2.ToImage(), v2.ToDtype(torch.float32)],
        [size, v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)],
        [size, v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize([120.0, 110.0, 100.0], [60.0, 50.0, 40.0])],
        [size, v2.RGB(), v2.ToImage(), v2.ToDtype({"others": torch.float32}, scale=True), v2.Identity(), torch.nn.Identity()],
    ]
    for transforms in lists:
        reference = torchvision.datasets.ImageFolder(tree, tv.Compose(transforms))
        (batch,) = list(Loader(reference, 21, fields=("image",)))
        want = torch.stack([torch.as_tensor(image) for image, _ in reference])
        assert batch.image.dtype is want.dtype, transforms
        step = (
            1
            if want.max() > 2 and "Normalize" not in repr(transforms)
            else 1 / 40
            if want.max() > 1.5 and "120" in repr(transforms)
            else 1 / 255 / 0.2
        )
        assert (batch.image.double() - want.double()).abs().max() <= 1.01 * step, transforms


def test_ranges_that_cannot_be_meant(tree):
    for transforms, said in (
        ([T.PILToTensor(), T.Normalize([0.5], [0.5])], "while the images are uint8"),
        ([T.Normalize([123.0], [58.0])], "divide mean and std by 255"),
        ([T.ToTensor(), T.ToDtype(torch.uint8)], "scale=True"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            Loader(tree, 1, transforms=[*SMALL, *transforms])


def test_random_crop_raises_where_torchvision_does(tree):
    crop = T.RandomCrop(200)
    with pytest.raises(StokerError, match=r"class0/000.jpg: the window of 200 x 200 does not fit.*pad_if_needed=True"):
        list(Loader(tree, 1, transforms=[crop]))
    with pytest.raises(ValueError, match="does not fit"):
        Loader(tree, 1, transforms=[T.Resize((100, 100)), crop])
    assert images(tree, [T.Resize((100, 100)), T.RandomCrop(120, padding=10)]).shape[-2:] == (120, 120)


# ---- data sets ----


def test_a_subclass_with_its_own_getitem_is_asked(tree):
    torchvision = import_torchvision()

    class Bytes(torchvision.datasets.ImageFolder):
        def __getitem__(self, i):
            path, target = self.samples[i]
            with open(path, "rb") as f:
                return f.read(), 100 + target

    assert {v for b in Loader(Bytes(tree), 7, transforms=SMALL) for v in b.label.tolist()} == {100, 101, 102}

    class Named(torchvision.datasets.ImageFolder):
        pass

    assert [v for b in Loader(Named(tree), 7, transforms=SMALL) for v in b.label.tolist()] == [k // 7 for k in range(21)]
    with pytest.raises(InvalidArgumentError, match="leave one of them out"):
        Loader(torchvision.datasets.ImageFolder(tree, torchvision.transforms.ToTensor()), 7, transforms=SMALL)


def test_parts_and_sums_of_image_folders(tree):
    torchvision = import_torchvision()
    data = torch.utils.data

    def folder(side=16):
        return torchvision.datasets.ImageFolder(
            tree, torchvision.transforms.Compose([torchvision.transforms.Resize((side, 20)), torchvision.transforms.ToTensor()])
        )

    part = data.Subset(folder(), [20, 3, 3, 7])
    split = data.random_split(folder(), [5, 16], torch.Generator().manual_seed(3))
    whole = data.ConcatDataset([folder(), split[0], part])
    for source in (part, *split, whole):
        loader = Loader(source, 4)
        assert "Dataset" not in repr(loader), "its Python is called"
        for batch in loader:
            assert batch.image.shape[1:] == (3, 16, 20)
        want = [source[i] for i in range(len(source))]
        got = [(x, y.item()) for b in Loader(source, 4) for x, y in zip(b.image, b.label, strict=True)]
        assert [y for _, y in got] == [y for _, y in want]
        assert all((x - w).abs().max() <= 1.001 / 255 for (x, _), (w, _) in zip(got, want, strict=True))
    source = data.ConcatDataset([folder(), folder()])
    source.datasets[1].transform = torchvision.transforms.Compose(
        [torchvision.transforms.Resize((16, 20)), lambda x: x, torchvision.transforms.ToTensor()]
    )
    # The parts have different transforms, so the Datasets' own Python runs and returns tensors.
    got = [x for b in Loader(source, 4) for x in b.image]
    assert all(torch.equal(x, source[i][0]) for i, x in enumerate(got))


def test_dicts_and_pil_images(files, capfd):
    from PIL import Image

    source = Set(21, lambda i: {"label": i, "image": Image.open(files[i]), "weight": i / 2})
    for batch in Loader(source, 4, transforms=SMALL):
        assert batch._fields == ("image", "label", "weight") and torch.equal(batch.weight, batch.label / 2)
    plain = images([str(f) for f in files], SMALL)
    assert torch.equal(images(source, SMALL), plain)
    assert next(iter(Loader(source, 4, transforms=SMALL, fields=("weight", "index"))))._fields == ("weight", "index")
    with pytest.raises(InvalidArgumentError, match="no 'wieght'; they have image, label, weight"):
        next(iter(Loader(source, 4, transforms=SMALL, fields=("image", "wieght"))))
    with pytest.raises(TypeError, match="'image'"):
        next(iter(Loader(Set(4, lambda i: {"picture": 1}), 4)))
    with pytest.raises(TypeError, match="the first one had image, a"):
        list(Loader(Set(8, lambda i: {"image": str(files[i]), "a" if i < 6 else "b": 1}), 2, transforms=SMALL))
    grey = Set(4, lambda i: Image.open(files[i]).convert("L"))
    assert images(grey, SMALL).shape[1] == 3
    assert capfd.readouterr().err.count("PIL images") <= 1


@pytest.mark.parametrize("shuffle", [False, True])
def test_targets_of_lists(files, shuffle):
    rng = np.random.default_rng(SEED)
    paths = [str(f) for f in files]
    for targets, dtype in (
        ([3.7 + k for k in range(21)], torch.float32),
        ([3, 4.5] * 10 + [1], torch.float32),
        (rng.normal(size=(21, 3)), torch.float32),
        (rng.integers(0, 9, (21, 2)), torch.int64),
        (np.arange(21, dtype=np.int32), torch.int64),
        ([f"class {k} é" for k in range(20)] + [""], str),
    ):
        for source in (list(zip(paths, targets, strict=True)), (paths, targets)):
            for batch in Loader(source, 4, transforms=SMALL, shuffle=shuffle, fields=("image", "label", "index")):
                want = [targets[i] for i in batch.index.tolist()]
                if dtype is str:
                    assert batch.label == want
                else:
                    assert batch.label.dtype is dtype
                    assert torch.equal(batch.label, torch.as_tensor(np.asarray(want), dtype=dtype))
    with pytest.raises(InvalidArgumentError, match="21 paths and 20 targets"):
        Loader((paths, list(range(20))), 4)
    with pytest.raises(InvalidArgumentError, match="whole numbers, floats, vectors"):
        Loader(list(zip(paths[:2], ([1.0], [1.0, 2.0]), strict=True)), 1)


def test_targets_of_a_dataset(files):
    data = [f.read_bytes() for f in files]
    source = Set(21, lambda i: (data[i], 3.7 + i, f"name {i}", np.arange(3, dtype=np.float32) + i))
    for batch in Loader(source, 4, transforms=SMALL, fields=("image", "weight", "name", "vector", "index")):
        ids = batch.index.tolist()
        assert batch.weight.dtype is torch.float32 and torch.allclose(batch.weight, torch.tensor([3.7 + i for i in ids]))
        assert batch.name == [f"name {i}" for i in ids] and batch.vector.tolist() == [[i, i + 1, i + 2] for i in ids]
    assert next(iter(Loader(source, 4, transforms=SMALL)))._fields == ("image", "target0", "target1", "target2")
    with pytest.raises(InvalidArgumentError, match="name all of them"):
        next(iter(Loader(source, 4, transforms=SMALL, fields=("image", "weight"))))
    with pytest.raises(TypeError, match="strings as target 1 of some samples"):
        list(Loader(Set(8, lambda i: (data[i], "a" if i % 3 else 1)), 4, transforms=SMALL))


def test_a_mask_that_would_not_follow_is_refused(files):
    data = [f.read_bytes() for f in files]
    source = Set(21, lambda i: (data[i], np.zeros((50, 60), np.uint8)))
    for transforms in ([T.RandomResizedCrop(16)], [T.RandomHorizontalFlip()], SMALL, [T.RandomApply(TURNS)]):
        with pytest.raises(InvalidArgumentError, match="Say what it is"):
            next(iter(Loader(source, 1, transforms=transforms)))
    assert next(iter(Loader(source, 1, transforms=[JITTER]))).label.shape == (1, 50, 60)


def test_values_of_a_dataset_come_unchanged_or_are_refused():
    """No value is misread: planes are not read as rows, datetimes not as bytes, and large numbers not as negative ones."""
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)

    def first(give):
        return next(iter(Loader(Set(4, give), 2, dtype=torch.uint8)))

    planes = torch.zeros(3, 40, 50, dtype=torch.uint8)
    for image in (planes.numpy(), planes.numpy()[:1]):
        with pytest.raises(TypeError, match="looks like CHW"):
            first(lambda i, image=image: (image, i))
    assert first(lambda i: (planes.permute(1, 2, 0), i)).image.shape == (2, 3, 40, 50)
    assert first(lambda i: (planes[:2], i)).image.shape == (2, 2, 40, 50)
    for image in (planes[:, :, :2].float(), planes[:, :, :4], torch.zeros(5, 40, 50), torch.zeros(40, 50, 5, dtype=torch.uint8)):
        with pytest.raises(TypeError, match="may be CHW as well as HWC"):
            first(lambda i, image=image: (image, i))
    for target, error, said in (
        (None, TypeError, "NoneType as target 1"),
        ({"a": {}}, TypeError, "dict as target 1"),
        (np.datetime64("2020-01-01"), TypeError, "datetime64.* as target 1"),
        (np.array("a"), TypeError, "as target 1"),
        (np.complex64(1j), TypeError, "complex64 as target 1"),
        (2**63, OverflowError, "as target 1: whole numbers are int64"),
        (np.uint64(2**63), OverflowError, "int64"),
        (np.array([2**63], np.uint64), OverflowError, "int64"),
    ):
        with pytest.raises(error, match=said) as caught:
            first(lambda i, target=target: (picture, target))
        assert caught.value.__notes__ == ["in dataset[0]"]
    with pytest.raises(TypeError, match=r"torch.bfloat16 as target 1, .* convert it"):
        first(lambda i: (picture, torch.ones(2, dtype=torch.bfloat16)))
    with pytest.raises(InvalidArgumentError, match="'replace' is for files"):
        next(iter(Loader(Set(4, lambda i: (b"bad", i)), 2, on_error="replace")))
    assert first(lambda i: (picture, "")).label == ["", ""]
    assert first(lambda i: (picture, np.str_("ab"))).label == ["ab", "ab"]
    assert first(lambda i: (picture, np.uint64(2**63 - 1 - i))).label.tolist() == [2**63 - 1, 2**63 - 2]


BEYOND_FLOAT32 = [1e300, -1e39, [1e300, 2.0], np.float64(1e300), np.longdouble("1e4000"), (0.5, -1e300)]
BEYOND_INT64 = [
    2**63,
    -(2**63) - 1,
    [2**63],
    [2**64],
    [2**63, -1],
    [[1, 2], [3, 2**63]],
    np.uint64(2**63),
    torch.tensor([2**63], dtype=torch.uint64),
]


@pytest.mark.parametrize("target", [*BEYOND_FLOAT32, np.array([np.longdouble("1e4000")])], ids=str)
def test_floats_that_do_not_fit_are_refused(files, target):
    """A finite label that is too large for its type in a batch is refused. It must not become infinite silently."""
    picture = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(OverflowError, match=r"target 1 of the dataset: floats are float\d\d, and .*e\+\d+ does not fit: .*scale"):
        next(iter(Loader(Set(2, lambda i: (picture, target)), 2)))
    with pytest.raises(InvalidArgumentError, match=r"targets of a list of files: floats are float32, and .* does not fit: scale"):
        Loader((files[:2], [target, target]), 2, transforms=SMALL)
    with pytest.raises(InvalidArgumentError, match=r"targets in an array: floats are float32, and .* does not fit: scale"):
        Loader((np.stack([picture, picture]), [target, target]), 2)


@pytest.mark.parametrize("target", BEYOND_INT64, ids=str)
def test_whole_numbers_that_do_not_fit_are_refused(files, target):
    """Integers that no type of a batch can hold are refused. NumPy would turn [2**63, -1] into floats, and [2**63] into uint64."""
    picture = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(OverflowError, match=r"dataset gave -?\d+ as target 1: whole numbers are int64, .* give a string"):
        next(iter(Loader(Set(2, lambda i: (picture, target)), 2)))
    with pytest.raises(InvalidArgumentError, match=r"targets of a list of files: whole numbers are int64 .* does not fit: give strings"):
        Loader((files[:2], [target, target]), 2, transforms=SMALL)
    with pytest.raises(InvalidArgumentError, match=r"targets in an array: whole numbers are int64 .* does not fit: give strings"):
        Loader((np.stack([picture, picture]), [target, target]), 2)


def test_numbers_that_look_too_large_are_accepted(files):
    """Accepts infinity, whole floats, large integers next to a float, and arrays, whose type holds their values. Refuses 70000 as a float16."""
    picture = np.zeros((8, 8, 3), np.uint8)
    for target, want, dtype in (
        (float("inf"), float("inf"), torch.float32),
        ([float("inf"), 3e38], [float("inf"), float(np.float32(3e38))], torch.float32),
        ([2.0**70, 0.5], [2.0**70, 0.5], torch.float32),
        ([2**63, 0.5], [2.0**63, 0.5], torch.float32),
        (np.array([1e300]), [1e300], torch.float64),
        (np.array([1, 2**63], np.uint64), [1, 2**63], torch.uint64),
    ):
        got = next(iter(Loader(Set(2, lambda i, t=target: (picture, t)), 2))).label
        assert got.dtype == dtype and got.tolist() == [want, want]
    got = next(iter(Loader((files[:2], [torch.ones(2, dtype=torch.bfloat16)] * 2), 2, transforms=SMALL))).label
    assert got.dtype == torch.float32 and got.tolist() == [[1.0, 1.0]] * 2
    with pytest.raises(OverflowError, match="target 1 of the dataset: floats are float16, and 70000 does not fit"):
        list(Loader(Set(2, lambda i: (picture, [np.float16(1), 70000][i])), 1))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (decimal.Decimal("1.1"), r"gave Decimal as target 1, .* float\(value\) or str\(value\)"),
        (fractions.Fraction(1, 3), r"gave Fraction as target 1, .* float\(value\)"),
        (datetime.datetime(2020, 1, 1), r"gave datetime as target 1, .* value.timestamp\(\)"),
        (np.timedelta64(3, "s"), r"gave timedelta64\[s\] as target 1, .* value.astype\('int64'\)"),
        (np.array(["2020-01-01"], "M8[D]"), r"gave datetime64\[D\] as target 1, .* value.astype\('int64'\)"),
        (1j, r"gave complex as target 1, .* \[value.real, value.imag\]"),
        (np.void(b"abc"), r"gave \|V3 as target 1: it is a number"),
        (np.array(["a", "b"]), r"gave <U1 as target 1: it is a number"),
        (np.array([1, 2], object), r"gave object as target 1: it is a number"),
    ],
)
def test_targets_without_a_form_in_a_batch_say_what_to_give(files, target, said):
    picture = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(TypeError, match=said):
        next(iter(Loader(Set(2, lambda i: (picture, target)), 2)))
    for source in ((files[:2], [target, target]), (np.stack([picture, picture]), [target, target])):
        with pytest.raises(InvalidArgumentError, match="numbers"):
            Loader(source, 2)


@pytest.mark.parametrize("image", [np.full((8, 8, 3), 1e300), torch.full((8, 8, 3), -1e300, dtype=torch.float64)])
@pytest.mark.parametrize("fields", [None, {"image": "FloatMap", "label": None}])
def test_pixels_that_float32_does_not_hold_are_refused(image, fields):
    with pytest.raises(ValueError, match=r"a number that is too large: floats are float32, and -?1e\+300 does not fit: scale its values"):
        next(iter(Loader(Set(2, lambda i: (image, 1)), 2, fields=fields)))


@pytest.mark.parametrize(
    ("text", "said"), [("1e300", "float32, and 1e.300 does not fit"), ("1e400", "row 2: 'y' is 1e400, which no float holds")]
)
def test_numbers_of_a_csv_file_that_do_not_fit_are_refused(files, tmp_path, text, said):
    (tmp_path / "t.csv").write_text(f"path,y\n{files[0]},0.5\n{files[1]},{text}\n")
    with pytest.raises(InvalidArgumentError, match=said):
        Loader.from_csv(tmp_path / "t.csv", 2, path="path")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("part", ["image", "target"])
def test_memory_limit_counts_all_parts_of_a_sample(part, workers):
    """memory_limit counts the targets of a Dataset's samples, not only the images."""

    def give(i):
        large = np.zeros((1000, 1000, 3) if i == 5 else (10, 10, 3), np.uint8)
        return (large, i) if part == "image" else (np.zeros((10, 10, 3), np.uint8), large.reshape(-1)[: 3000 if i != 5 else None])

    source, settings = Set(12, give), {"memory_limit": "2MB", "python_workers": workers}
    with pytest.raises(LimitError, match=r"takes 30\d{5} bytes, over memory_limit, 2000000 bytes; raise that.*dataset\[5\]"):
        list(Loader(source, 1, **settings))
    assert len(list(Loader(source, 1, on_error="skip", max_errors=1, **settings))) == 11
    assert len(list(Loader(source, 1, memory_limit="4MB", python_workers=workers))) == 12


@pytest.mark.parametrize(("limit", "batches", "at_once"), [("1GB", 2, 16), ("2.1MB", 1, 6), ("1.1MB", 0, 3), ("310kB", 0, 1)])
def test_large_samples_of_a_dataset_are_not_fetched_ahead(monkeypatch, limit, batches, at_once):
    """A batch has 0.9 MB here. memory_limit bounds how many batches are fetched ahead, and how many of the 16 images whose sizes are compared at the start
    are fetched at a time."""
    take, waiting, submitted = DatasetSource._take, [], []

    def taken(self, *arguments):
        made = take(self, *arguments)
        waiting.append(len(self._waiting))
        return made

    def waited(futures, *arguments):
        submitted.append(len(futures))
        return _fetch.unfinished(futures, *arguments)

    monkeypatch.setattr(DatasetSource, "_take", taken)
    monkeypatch.setattr(_dataset, "unfinished", waited)
    image = np.zeros((100, 1000, 3), np.uint8)
    got = [i for batch in Loader(Set(33, lambda i: (image, i)), 3, memory_limit=limit) for i in batch.label.tolist()]
    assert got == list(range(33))
    assert max(waiting) == batches
    assert not submitted or (max(submitted) == at_once and sum(submitted) == 16)


def test_memory_limit_does_not_depend_on_the_address_of_an_array():
    """An image that ends at the end of a page is copied before kernels read it. If the limit counted this copy, it would refuse samples by chance."""
    heights = range(4000, 4400)  # rows have 24 bytes, so the images end everywhere in a page, whatever address they begin at
    loader = Loader(Set(len(heights), lambda i: (np.full((heights[i], 8, 3), i % 256, np.uint8), i)), 1, memory_limit="106kB")
    assert [(int(batch.image[0, 0, -1, -1]), int(batch.label)) for batch in loader] == [(i % 256, i) for i in range(len(heights))]


def test_files_and_arrays_in_one_dataset_name_the_sample(files):
    data, picture = files[0].read_bytes(), np.zeros((8, 8, 3), np.uint8)
    for first, said in ((data, "an array as an image"), (picture, "the bytes of a file as an image")):
        other = picture if first is data else data
        for policy in ("raise", "skip"):
            source = Set(12, lambda i, f=first, o=other: (o if i == 5 else f, i))
            with pytest.raises(TypeError, match=said) as caught:
                list(Loader(source, 4, transforms=SMALL, on_error=policy))
            assert caught.value.__notes__[0] == "in dataset[5]"


@pytest.mark.parametrize("form", ["threads", "processes", "stream"])
@pytest.mark.parametrize("late", [(), (0, 1), (2,), (3, 5)])
def test_the_type_of_lists_that_begin_empty_does_not_depend_on_time(form, late):
    """The first samples have no objects, as in many data sets for detection. The first sample with objects decides the type, and not the call that ends
    first, so empty lists of one batch have the same type."""

    def give(i):
        if i in late:
            time.sleep(0.1)
        return np.zeros((8, 8, 3), np.uint8), *(([], []) if i < 6 else ([i, i], [[i, i, i, i]]))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return map(give, range(12))

    source = Stream() if form == "stream" else Set(12, give)
    loader = Loader(source, 2, fields={"image": "Image", "ids": list, "boxes": list}, python_workers=2 if form == "processes" else 0)
    batches = list(loader)
    assert {(t.dtype, t.shape[1:]) for b in batches for t in b.ids} == {(torch.int64, ())}
    assert {(t.dtype, t.shape[1:]) for b in batches for t in b.boxes} == {(torch.int64, (4,))}
    assert [len(t) for b in batches for t in b.ids] == [0] * 6 + [2] * 6


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_another_type_than_the_first_with_rows_are_bad(workers):
    """Sample 1 is the first with rows, and decides the type, whichever call ends first. So on_error leaves out the same samples in each run."""

    def give(i):
        if i == 1:
            time.sleep(0.1)
        return np.zeros((8, 8, 3), np.uint8), i, [] if i == 0 else [i] if i % 2 else [i + 0.5]

    fields = {"image": "Image", "label": None, "ids": list}
    loader = Loader(Set(8, give), 2, fields=fields, on_error="skip", max_errors=10, python_workers=workers)
    assert [i for b in loader for i in b.label.tolist()] == [0, 1, 3, 5, 7]
    with pytest.raises(TypeError, match=r"gave float32 as target 2 \('ids'\), and int64 in its first sample.*dataset\[2\]"):
        list(Loader(Set(8, give), 2, fields=fields, python_workers=workers))


def test_lists_that_are_all_empty_become_floats_as_in_torch():
    """If the first 64 samples have no rows, the first sample decides the type, to which later whole numbers of Python are converted."""
    source = Set(100, lambda i: (np.zeros((2, 2, 3), np.uint8), [] if i < 90 else [i]))
    found = [t for b in Loader(source, 3, fields={"image": "Image", "ids": list}) for t in b.ids]
    assert {t.dtype for t in found} == {torch.float32} and [t.tolist() for t in found[88:92]] == [[], [], [90.0], [91.0]]


@pytest.mark.parametrize("workers", [0, 2])
def test_strings_after_an_empty_list_are_named(workers):
    source = Set(6, lambda i: (np.zeros((2, 2, 3), np.uint8), [] if i < 2 else "owl"))
    with pytest.raises(TypeError, match=r"strings as target 1 of some samples, and other things of others"):
        list(Loader(source, 2, python_workers=workers))


def test_unequal_samples_without_names_are_named_by_number():
    with pytest.raises(StokerError, match=r"differ in shape: sample 0 and sample 2 have 8 and 9 along dim 0"):
        source = Set(4, lambda i: (np.zeros((9 if i == 2 else 8, 8, 3), np.uint8), i))
        list(Loader(source, batch_sampler=[[0, 1, 2, 3]], memory_format=torch.channels_last))


def test_the_message_of_a_short_timeout_states_it_unrounded():
    released = threading.Event()

    def give(i):
        if i:
            released.wait(60)
        return np.zeros((8, 8, 3), np.uint8), i

    loader = Loader(Set(4, give), 2, timeout=0.5)
    with pytest.raises(StokerError, match=r"no batch for [\d.]+ s") as caught:
        next(iter(loader))
    assert float(str(caught.value).split("no batch for ")[1].split()[0]) >= 0.5  # a busy machine may wake the loop later
    released.set()


def test_a_dataset_that_raises_stop_iteration_does_not_end_the_epoch():
    def give(i):
        return (np.zeros((2, 2, 3), np.uint8), i) if i < 6 else next(iter(()))

    with pytest.raises(RuntimeError, match=r"StopIteration in dataset\[6\]"):
        list(Loader(Set(10, give), 2))


def test_large_whole_targets_of_a_list(files):
    for targets in ([2**40 + i for i in range(4)], [-(2**63), 0, 2**63 - 1, 5]):
        got = torch.cat([b.label for b in Loader(list(zip(files[:4], targets, strict=True)), 2, transforms=SMALL)])
        assert got.dtype == torch.int64 and got.tolist() == targets
    for target in (2**63, np.array([2**63], np.uint64)):
        with pytest.raises(InvalidArgumentError, match="64 bits"):
            Loader([(files[0], target)], 1, transforms=SMALL)


# ---- arguments ----


def test_a_pipeline_refuses_what_it_would_ignore(tree):
    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def pipe():
        data, label = fn.readers.file(file_root=str(tree))
        return fn.resize(fn.decoders.image(data), size=[16, 16]), label

    for arguments in ({"batch_size": 8}, {"shuffle": True}, {"seed": 3, "prefetch": 4}, {"on_error": "skip"}, {"transforms": SMALL}):
        with pytest.raises(InvalidArgumentError, match=f"{next(iter(arguments))}.* no effect on a Pipeline"):
            Loader(pipe(), **arguments)
    assert len(next(iter(Loader(pipe(), fields=("picture", "number")))).number) == 4


def test_numbers_of_other_types(tree):
    assert Loader(tree, np.int64(4), transforms=SMALL).batch_size == 4
    drawn = [Loader(tree, 4, transforms=SMALL, shuffle=True, seed=None) for _ in range(3)]
    assert len({repr(loader) for loader in drawn}) == 3, "seed=None drew the same seed twice"
    with pytest.raises(InvalidArgumentError, match="process group"):
        Loader(tree, 4, transforms=SMALL, seed=None, shard=(0, 2))
    with pytest.raises(InvalidArgumentError, match=r"None draws one. is a whole number"):
        Loader(tree, 4, transforms=SMALL, seed="7")


def test_weights_and_ids_of_another_data_set(tree):
    for sampler, said in (([1.0] * 20, "21"), ([1.0] * 22, "21"), (lambda epoch: [0, 21], "0 to 20"), (lambda epoch: [-1], "-1")):
        with pytest.raises(StokerError, match=said):
            list(Loader(tree, 4, transforms=SMALL, sampler=sampler))


def test_what_a_dataloader_has(tree):
    loader = Loader(dataset=tree, batch_size=4, transforms=SMALL, shuffle=True, drop_last=True, fields=("index",))
    assert loader.class_to_idx == {"class0": 0, "class1": 1, "class2": 2} and loader.num_workers == 0 and loader.drop_last
    assert str(tree) in repr(loader.dataset) and len(loader.dataset) == 21 and len(loader.sampler) == 20
    epochs = [[i for b in loader for i in b.index.tolist()] for _ in range(3)]
    for epoch in (1, 0, 2):
        loader.sampler.set_epoch(epoch)
        assert [i for b in loader for i in b.index.tolist()] == epochs[epoch] and loader.epoch == epoch + 1
    source = Set(21, lambda i: (np.zeros((8, 8, 3), np.uint8), i))
    assert Loader(source, 4).dataset is source and not Loader(source, 4).drop_last
    loader.set_epoch(np.int64(1))
    assert type(loader.state_dict()["epoch"]) is int and loader.epoch == 1
    for epoch, said in ((-1, "set_epoch: .* at least 0"), (2**32, "set_epoch: .* at most 4294967295"), (True, "whole number, not True")):
        with pytest.raises(InvalidArgumentError, match=said):
            loader.set_epoch(epoch)
    for arguments in ({}, {"source": tree, "dataset": tree}):
        with pytest.raises(TypeError, match="one source"):
            Loader(batch_size=4, **arguments)


@pytest.mark.parametrize("wrap", [lambda loader: loader, lambda loader: loader.as_dataloader()], ids=["Loader", "as_dataloader"])
@pytest.mark.parametrize("sampler", [None, [*range(20, 0, -1)]], ids=["shuffle", "ids"])
def test_the_epoch_that_a_loop_left_may_be_set_again(tree, wrap, sampler):
    """Evaluation on a part of the data calls set_epoch() with the same number each time."""

    def made():
        return Loader(tree, 4, transforms=SMALL, shuffle=sampler is None, sampler=sampler, seed=3, fields=("index",))

    def ids(loader, most=None):
        return [batch.index.tolist() for batch in itertools.islice(loader, most)]

    whole = made()
    epochs = [ids(whole) for _ in range(3)]
    loader = wrap(made())
    for epoch in (0, 0, 1, 1, 1, 2, 0):
        loader.set_epoch(epoch)
        assert ids(loader, 2) == epochs[epoch][:2]
    state = loader.state_dict()
    loader = wrap(made())
    loader.load_state_dict(state)
    loader.set_epoch(0)  # a trainer that continues a run calls this, and must not lose the position
    assert ids(loader, 1) == epochs[0][2:3]
    loader.set_epoch(0)
    assert ids(loader) == epochs[0]


@pytest.mark.parametrize("wrap", [lambda loader: loader, lambda loader: loader.as_dataloader()], ids=["Loader", "as_dataloader"])
@pytest.mark.parametrize("sampler", [None, [*range(20, 0, -1)]], ids=["shuffle", "ids"])
def test_an_iteration_goes_on_if_its_epoch_is_set(tree, wrap, sampler):
    """Lightning takes a batch ahead from a Loader without a length, and sets the epoch afterwards."""

    def made():
        return Loader(tree, 4, transforms=SMALL, shuffle=sampler is None, sampler=sampler, seed=3, fields=("index",))

    def ids(batches):
        return [batch.index.tolist() for batch in batches]

    whole = made()
    epochs = [ids(whole) for _ in range(4)]
    loader = made()
    next(iter(loader))
    loader.set_epoch(0)
    loader.close()
    assert ids(loader) == epochs[0][1:]  # close() continues the iteration that it ends
    for early in (False, True):
        loader = wrap(made())
        for epoch in range(3):
            iterator = iter(loader)
            first = ids([next(iterator)])
            loader.set_epoch(epoch)
            state = loader.state_dict()
            assert first + ids(itertools.islice(iterator, 1 if early else None)) == epochs[epoch][: 2 if early else None]
            if early:
                assert ids(itertools.islice(loader, 1)) == epochs[epoch][:1]
                loader.set_epoch(epoch)
                loader.set_epoch(epoch + 1)  # replaces the epoch that was set before
            continued = wrap(made())
            continued.load_state_dict(state)
            assert ids(continued) == epochs[epoch][1:]
        assert ids(loader) == epochs[3]
    loader = wrap(made())
    next(iter(loader))
    state = loader.state_dict()
    loader.set_epoch(0)
    loader.load_state_dict(state)
    assert ids(loader) == epochs[0][1:]


@pytest.mark.parametrize("wrap", [lambda loader: loader, lambda loader: loader.as_dataloader()], ids=["Loader", "as_dataloader"])
@pytest.mark.parametrize("begun", [False, True])
def test_set_epoch_does_not_drop_a_state(tree, wrap, begun):
    """A framework that counts epochs from 0 would go back to the first epoch, and train with samples that the saved run has had."""

    def made():
        return wrap(Loader(tree, 4, transforms=SMALL, shuffle=True, seed=3, fields=("image", "index")))

    def ids(batches):
        return [batch.index.tolist() for batch in batches]

    whole = made()
    epochs = [ids(whole) for _ in range(4)]
    saved = made()
    list(saved)
    list(itertools.islice(saved, 2))
    for epoch in (0, 3):
        loader = made()
        loader.load_state_dict(saved.state_dict())
        iterator = iter(loader) if begun else loader
        with pytest.raises(StateError, match=rf"set_epoch\({epoch}\): a state in the middle of epoch 1 was loaded"):
            loader.sampler.set_epoch(epoch)
        loader.set_epoch(1)
        assert ids(iterator) == epochs[1][2:]
        loader.set_epoch(epoch)
        assert ids(loader) == epochs[epoch]
    for kind in ("closed", "refused"):
        loader = made()
        loader.load_state_dict(saved.state_dict())
        if begun:
            iter(loader)
        if kind == "closed":
            getattr(loader, "loader", loader).close()
        else:
            with pytest.raises(StateError):
                loader.load_state_dict({**saved.state_dict(), "pipeline": {"consumed": 1}})
        with pytest.raises(StateError, match=r"set_epoch\(0\): a state in the middle of epoch 1 was loaded"):
            loader.set_epoch(0)
        assert ids(loader) == epochs[1][2:]
    loader = made()
    loader.load_state_dict(saved.state_dict())
    loader.set_epoch(2)  # the saved run has left its epoch early
    assert ids(loader) == epochs[2]
    list(itertools.islice(loader, 2))
    getattr(loader, "loader", loader).close()
    getattr(loader, "loader", loader).show(1)
    loader.set_epoch(0)
    assert ids(loader) == epochs[0]


@pytest.mark.parametrize("wrap", [lambda loader: loader, lambda loader: loader.as_dataloader()], ids=["Loader", "as_dataloader"])
@pytest.mark.parametrize("sampler", [None, lambda epoch: np.random.default_rng(epoch).permutation(21)], ids=["shuffle", "ids"])
def test_set_epoch_after_a_state_of_the_end_of_an_epoch(tree, wrap, sampler):
    """A loop that saves after each batch also saves after the last one, before the iteration has ended."""

    def made():
        return wrap(Loader(tree, 4, transforms=SMALL, shuffle=sampler is None, sampler=sampler, seed=3, fields=("image", "index")))

    def ids(batches):
        return [batch.index.tolist() for batch in batches]

    whole = made()
    epochs = [ids(whole) for _ in range(4)]
    saved = made()
    list(saved)
    iterator = iter(saved)
    assert ids(next(iterator) for _ in range(6)) == epochs[1]
    for epoch in range(4):
        loader = made()
        loader.load_state_dict(saved.state_dict())
        assert getattr(loader, "loader", loader).epoch == 2
        loader.set_epoch(epoch)
        assert ids(loader) == epochs[epoch]


def test_a_stream_without_a_length_goes_on_if_its_epoch_is_set():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return ((np.full((4, 4, 3), i, np.uint8), i) for i in range(12))

    loader = Loader(Stream(), 2)
    for epoch in range(2):
        iterator = iter(loader)
        first = next(iterator).label.tolist()
        loader.sampler.set_epoch(epoch)
        assert first + [i for batch in iterator for i in batch.label.tolist()] == list(range(12))


def test_a_pipeline_goes_on_if_its_epoch_is_set(tree):
    """A Pipeline cannot begin an epoch again. The next iteration says so, and not the one that runs."""
    with Pipeline(4, 2, None) as pipe:
        pipe.set_outputs(fn.readers.file(file_root=str(tree))[1])
    loader = Loader(pipe, fields=["label"])
    iterator = iter(loader)
    next(iterator)
    loader.set_epoch(0)
    next(iterator)
    with pytest.raises(StateError, match="set_epoch: the user's Pipeline goes through its epochs in order"):
        iter(loader)
    next(iter(loader))
    assert loader.epoch == 1


@pytest.mark.parametrize("steps", [1, "all"])
def test_a_pipeline_takes_the_number_of_its_next_epoch(tree, steps):
    """Trainers that count steps set the epoch after a break, or after the last batch without the end of the iteration."""

    def run(sets):
        found = []
        with Pipeline(4, 2, None, seed=3) as pipe:
            pipe.set_outputs(fn.readers.file(file_root=str(tree), random_shuffle=True)[1])
        loader = Loader(pipe, fields=["label"])
        for epoch in range(3):
            if sets:
                loader.set_epoch(epoch)
                loader.set_epoch(epoch)
            iterator = iter(loader)
            found += [next(iterator).label.tolist() for _ in range(len(loader) if steps == "all" else steps)]
            assert loader.epoch == epoch
        loader.set_epoch(2)  # asks to begin this epoch again, and the next call takes that back
        for epoch in (1, 4):
            with pytest.raises(StateError, match="goes through its epochs in order"):
                loader.set_epoch(epoch)
        loader.set_epoch(3)
        return [*found, next(iter(loader)).label.tolist()]

    assert run(True) == run(False)


def _fed(*others, **more):
    """Returns a Pipeline with batches of one sample that feed_input feeds, and a Loader over it. others: functions that make further outputs."""
    with Pipeline(1, 2, None) as pipe:
        pipe.set_outputs(fn.external_source(name="x", **more), *(other() for other in others))
    return pipe, Loader(pipe, fields=("x", "y")[: 1 + len(others)])


def test_a_loader_of_a_pipeline_that_is_fed_continues_its_epoch():
    """Batches that were fed ahead are delivered after the loop begins again, and none comes twice."""
    pipe, loader = _fed()
    found = []
    for k in range(0, 6, 2):
        for i in (k, k + 1):
            pipe.feed_input("x", [np.array([i])])
        found += [int(next(iter(loader)).x) for _ in range(2)]
    assert found == list(range(6)) and (loader.epoch, loader.step) == (0, 6)


def test_set_epoch_of_a_pipeline_that_is_fed_is_refused():
    """The loop continues the epoch, so set_epoch cannot go to another one, not even to the next."""
    pipe, loader = _fed()
    for k in range(3):
        pipe.feed_input("x", [np.array([k])])
        assert int(next(iter(loader)).x) == k
        for epoch in (1, 2):
            with pytest.raises(StateError, match="goes through its epochs in order"):
                loader.set_epoch(epoch)
    assert (loader.epoch, loader.step) == (0, 3)


def test_set_epoch_after_a_readers_epoch_with_a_fed_source(files):
    """After the last batch of an epoch, which a reader ends, set_epoch may name the next one."""
    pipe, loader = _fed(lambda: fn.readers.file(files=[str(f) for f in files[:2]])[1])
    for epoch in range(3):
        iterator = iter(loader)
        for k in range(2):
            pipe.feed_input("x", [np.array([k])])
            batch = next(iterator)
            assert (int(batch.x), int(batch.y), loader.epoch) == (k, k, epoch)
        loader.set_epoch(epoch + 1)


def test_a_loader_does_not_wait_for_data_that_were_not_fed():
    pipe, loader = _fed()
    for k in range(3):
        with pytest.raises(NoDataError, match=r"'x' has no data: call feed_input\('x', batch\) before each run or step"):
            next(iter(loader))
        pipe.feed_input("x", [np.array([k])])
        assert int(next(iter(loader)).x) == k


def _encoded(good):
    """Returns two samples: the bytes of an image if `good`, else bytes that cannot be decoded."""
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "png")
    return [np.frombuffer(stream.getvalue(), np.uint8) if good else np.zeros(10, np.uint8)] * 2


@pytest.mark.parametrize("kind", ["loader", "iterator"])
def test_a_fed_batch_without_good_samples_asks_for_another(kind):
    """A step whose fed batch has only bad samples raises an error that says so. The next step continues. Batches that were fed ahead need no further step."""
    with Pipeline(2, 2, None, on_error="skip") as pipe:
        pipe.set_outputs(fn.decoders.image(fn.external_source(name="x")))
    iterator = iter(Loader(pipe, fields=("x",)) if kind == "loader" else DALIGenericIterator([pipe], ["x"], prepare_first_batch=False))
    for good in [True, False, False, True, False, True]:
        pipe.feed_input("x", _encoded(good))
        if good:
            batch = next(iterator)
            assert len(batch.x if kind == "loader" else batch[0]["x"]) == 2
        else:
            with pytest.raises(
                CorruptError, match=r"has no good sample and was left out: call feed_input\('x', batch\) with another batch"
            ):
                next(iterator)
    with pytest.raises(NoDataError):
        next(iterator)
    for good in [False, True]:
        pipe.feed_input("x", _encoded(good))
    assert next(iterator) and len(pipe.bad_samples()) == 8


def test_a_loader_waits_for_a_thread_that_feeds():
    pipe, loader = _fed(blocking=True)
    later = threading.Timer(0.1, pipe.feed_input, ("x", [np.array([7])]))
    later.start()
    assert int(next(iter(loader)).x) == 7
    later.join()


@pytest.mark.parametrize("steps", [2, 3, 4])
@pytest.mark.parametrize("tail", ["keep", "wrap"])
def test_a_reader_and_a_fed_source_stay_paired(files, steps, tail):
    """Each loop takes at most `steps` batches. The next loop continues the reader's epoch of 6, or begins the next one after its last batch. If a batch was fed
    when the epoch ended, it is the first of the next epoch."""
    pipe, loader = _fed(lambda: fn.readers.file(files=[str(f) for f in files[:6]], tail=tail)[1])
    fed, found = 0, []
    while len(found) < 18:
        iterator = iter(loader)
        for _ in range(steps):
            if fed == len(found):
                pipe.feed_input("x", [np.array([fed])])
                fed += 1
            batch = next(iterator, None)
            if batch is None:
                break
            found.append((int(batch.x), int(batch.y), loader.epoch))
    assert found[:18] == [(k, k % 6, k // 6) for k in range(18)]


@pytest.mark.parametrize("tail", ["keep", "wrap"])
def test_the_end_of_a_readers_epoch_needs_no_fed_batch(files, tail):
    pipe, loader = _fed(lambda: fn.readers.file(files=[str(f) for f in files[:3]], tail=tail)[1])
    for epoch in range(2):
        for k in range(3):
            pipe.feed_input("x", [np.array([k])])
        assert [(int(b.x), int(b.y)) for b in loader] == [(k, k) for k in range(3)] and loader.epoch == epoch + 1
    with pytest.raises(NoDataError):
        next(iter(loader))


def test_a_pipeline_with_iter_setup_is_refused():
    class Fed(Pipeline):
        def define_graph(self):
            return fn.external_source(name="x")

        def iter_setup(self):
            self.feed_input("x", [np.zeros(1)])

    with pytest.raises(InvalidArgumentError, match="Fed has a method iter_setup, which a Loader does not call"):
        Loader(Fed(1, 1, None))


def test_a_list_of_ids_as_sampler(tree):
    loader = Loader(tree, 2, transforms=SMALL, sampler=[5, 1, 1, 20], fields=("index",))
    for _ in range(2):
        assert [b.index.tolist() for b in loader] == [[5, 1], [1, 20]]


def test_whole_numbers_are_never_weights_that_count_as_ids(tree, capfd):
    """torch's WeightedRandomSampler takes whole numbers. A list of as many whole numbers as samples is refused if it looks like weights; ids that were drawn
    with replacement are taken, and a line says so."""
    fields, weights = ("index",), [5 if i % 7 == 2 else 1 for i in range(21)]
    for given in (
        weights,
        tuple(weights),
        np.array(weights),
        torch.tensor(weights),
        [1] * 21,
        [0, 1] * 10 + [1],
        [1000 + i // 2 for i in range(21)],
    ):
        with pytest.raises(InvalidArgumentError, match=r"ids or weights\?.*float\(w\) for w in weights.*lambda epoch: ids"):
            Loader(tree, 4, transforms=SMALL, sampler=given)
        with pytest.raises(InvalidArgumentError, match=r"ids or weights\?"):
            list(Loader((np.zeros((21, 8, 8, 3), np.uint8), np.arange(21)), 4, sampler=given))
    indices = {
        i for batch in Loader(tree, 4, transforms=SMALL, sampler=[float(w) for w in weights], fields=fields) for i in batch.index.tolist()
    }
    assert len(indices) > 6, "drawn by weight"
    chosen = [i for b in Loader(tree, 4, transforms=SMALL, sampler=lambda epoch: weights, fields=fields) for i in b.index.tolist()]
    assert chosen == weights
    assert "taken as ids" not in capfd.readouterr().err
    drawn = np.random.default_rng(3).integers(0, 21, 21).tolist()
    loader = Loader(tree, 4, transforms=SMALL, sampler=drawn, fields=fields)
    assert [i for b in loader for i in b.index.tolist()] == drawn
    loader.close()
    list(loader)
    assert capfd.readouterr().err.count("taken as ids of samples; [float(w) for w in weights]") == 1
    for balanced in ([0, 3, 3, 8, 8, 15] * 3 + [0] * 3, np.random.default_rng(0).choice(21, 21, p=[0.2] * 4 + [0.2 / 17] * 17).tolist()):
        assert 0 in balanced and 2 < len(set(balanced)) <= 10
        with Loader(tree, 4, transforms=SMALL, sampler=balanced, fields=fields) as loader:
            assert [i for b in loader for i in b.index.tolist()] == balanced
    for ids in (list(range(21))[::-1], [3] * 20, [3] * 22, weights[:5]):
        assert [i for b in Loader(tree, 4, transforms=SMALL, sampler=ids, fields=fields) for i in b.index.tolist()] == ids
    assert not capfd.readouterr().err


@pytest.mark.parametrize("settings", [{"device": "meta"}, {"dtype": "float64"}], ids=lambda settings: next(iter(settings)))
def test_batches_do_not_depend_on_the_defaults_of_torch(tree, settings):
    class Boxes:
        def __len__(self):
            return 6

        def __getitem__(self, i):
            boxes = np.array([[1.0, 2, 10, 12]] * (i % 3), np.float32).reshape(-1, 4)
            return {"image": np.full((32, 32, 3), i, np.uint8), "boxes": boxes, "labels": np.arange(len(boxes))}

    def batches():
        yield from Loader(tree, 4, transforms=SMALL, last_batch="pad", fields=("image", "label", "valid", "index"))
        fields = {"image": "Image", "boxes": "BoundingBoxes", "labels": list}
        yield from Loader(Boxes(), 4, fields=fields, transforms=[T.RandomHorizontalFlip(), T.RandomResizedCrop(16)])

    def flat(part):
        return [tensor for one in part for tensor in flat(one)] if isinstance(part, (list, tuple)) else [part]

    want = flat(list(batches()))
    try:
        if "device" in settings:
            torch.set_default_device("meta")
        else:
            torch.set_default_dtype(torch.float64)
        got = flat(list(batches()))
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert [(t.device, t.dtype) for t in got] == [(t.device, t.dtype) for t in want]
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("last, steps", [("keep", 3), ("pad", 3), ("drop", 2)])
@pytest.mark.parametrize("reported", [3, 40])
def test_a_sampler_that_reports_a_wrong_length(tree, last, steps, reported):
    """The Loader trusts the sampler's length until it has drawn the ids. From then on, it counts these."""

    class Wrong:
        def __iter__(self):
            return iter(range(10))

        def __len__(self):
            return reported

    loader = Loader(tree, 4, transforms=SMALL, sampler=Wrong(), last_batch=last, fields=("index",))
    for epoch in range(2):
        seen = []
        for batch in loader:
            seen.append((len(loader), loader.step, loader._at_last(), len(batch.index)))
        sizes = [4, 4, 2 if last == "keep" else 4][:steps]
        assert seen == [(steps, k + 1, k + 1 == steps, sizes[k]) for k in range(steps)]
        assert loader.epoch == epoch + 1


@pytest.mark.parametrize("size", [2**28, 2**40 + 1, 2**63 - 1])
def test_an_endless_data_set_is_shuffled(size):
    """A Dataset that makes its samples may have any length. Above 2**27 samples the shuffled order is computed and not stored, so that it takes neither memory
    nor time."""

    class Endless:
        def __len__(self):
            return size

        def __getitem__(self, i):
            assert 0 <= i < size
            return np.zeros((4, 4, 3), np.uint8), i

    def ids(seed, epoch=0, shard=None):
        loader = Loader(Endless(), 8, shuffle=True, seed=seed, shard=shard)
        loader.set_epoch(epoch)
        return [i for batch in itertools.islice(loader, 4) for i in batch.label.tolist()]

    drawn = ids(1)
    assert drawn == ids(1) and len({*drawn, *ids(2), *ids(1, 1)}) == 96 and max(drawn) > size // 2
    parts = [ids(1, shard=(rank, 2)) for rank in range(2)]
    assert parts[0][:8] == drawn[:8] and parts[1][:8] == drawn[8:16]
    first, second = (Loader(Endless(), 8, shuffle=True, seed=1) for _ in range(2))
    next(iter(first))
    second.load_state_dict(first.state_dict())
    assert next(iter(second)).label.tolist() == drawn[8:16]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_the_order_that_is_not_stored_has_each_sample_once(size):
    orders = [list(map(bijection(size, 5, epoch), range(size))) for epoch in range(3)]
    assert all(sorted(order) == list(range(size)) for order in orders) and (size < 64 or len(set(map(tuple, orders))) == 3)


def test_ids_of_other_types_are_no_weights(tree):
    """Ids that NumPy or torch drew have types of these libraries, not Python's int. A list of them must not be taken for weights."""
    drawn = np.random.default_rng(SEED).permutation(21)

    def ids(sampler):
        return [i for b in Loader(tree, 4, transforms=SMALL, sampler=sampler, seed=1, fields=("index",)) for i in b.index.tolist()]

    for given in (list(drawn), list(torch.from_numpy(drawn)), tuple(drawn.astype(np.uint8)), [np.array(i) for i in drawn]):
        assert ids(given) == drawn.tolist()
    weighted = ids([0.5] * 21)
    for kind in (np.float64, np.float16, torch.tensor):
        assert ids([kind(0.5)] * 21) == weighted


def test_masks_and_other_lists_are_no_samplers(tree):
    mask = np.arange(21) % 2 == 0
    flags = "it is a list of True and False; give the ids of the samples that you want"
    lists = "it is a list of lists, .*; lists of the ids of each batch are a batch_sampler"
    number = "it has the ids of samples, or a number for each sample as its weight, and not"
    for sampler, said in (
        *((given, flags) for given in (list(mask), list(torch.from_numpy(mask)), torch.from_numpy(mask))),
        *((given, flags) for given in (lambda _: mask.tolist(), lambda _: torch.from_numpy(mask), lambda _: list(torch.from_numpy(mask)))),
        *((given, lists) for given in ([[1, 2], [3, 4]], np.ones((21, 1)), [np.arange(2), np.arange(3)])),
        *((given, number) for given in (["1"] * 21, [None] * 21, [1j] * 21, [b"1"] * 21)),
        ([10**400, *[1.0] * 20], "their sum is finite"),
        ([1e308] * 21, "their sum is finite"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            list(Loader(tree, 4, transforms=SMALL, sampler=sampler))
    for batches in ([mask.tolist()], [torch.from_numpy(mask)], [[0, 1], [True, False]]):
        with pytest.raises(InvalidArgumentError, match=f"batch_sampler: {flags}"):
            list(Loader((np.zeros((21, 8, 8, 3), np.uint8), mask), batch_sampler=batches))


def test_pinned_batches_where_there_is_cuda(tree, monkeypatch):
    batch = next(iter(Loader(tree, 4, transforms=SMALL, pin_memory=True)))
    assert batch.image.is_pinned() == torch.cuda.is_available()
    pinned = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda t: pinned.append(t) or t)
    next(iter(Loader(tree, 4, transforms=SMALL, pin_memory=True)))
    assert len(pinned) == 2


def test_arguments_that_would_count_as_something_else(tree):
    wrong = (
        ({"shuffle": "shard"}, 'shuffle is True or False, "shards" for tars, or "groups" for tables, not \'shard\''),
        ({"strict": "x"}, "strict is True or False"),
        ({"shuffle": np.ones(2)}, r"shuffle is True or False, .*, not array\(\[1"),
        ({"drop_last": True, "last_batch": "keep"}, "contradict each other"),
        ({"shard": (0.5, 2)}, "whole numbers"),
        ({"shard": (True, 2)}, "rank and number of ranks are whole numbers, not .True, 2"),
        ({"shard": (0, 2**40)}, "shard: the number of ranks is at most 2147483647"),
        ({"batch_size": torch.tensor(True)}, r"a batch size is a whole number, not tensor\(True\)"),
        ({"transforms": None, "views": [(True, SMALL)]}, "the count of a view is a whole number, not True"),
        ({"transforms": None, "views": [(0, SMALL)]}, "the count of a view is at least 1, not 0"),
        ({"split": "test"}, "is only for the files of CIFAR or MNIST"),
        ({"split": "val"}, 'split is "train" or "test", not \'val\', and only for the files of CIFAR or MNIST'),
        ({"seed": 2**70}, "is at most"),
        ({"seed": -1}, "is at least 0"),
        ({"batch_size": 2**40}, "at most 1048576"),
        ({"timeout": -1}, "timeout is at least 0"),
        ({"timeout": float("nan")}, "timeout is at least 0"),
        ({"max_errors": float("nan")}, "max_errors is at least 0"),
        ({"sampler": lambda epoch: [1.5]}, "whole numbers"),
        ({"sampler": [float("nan")] * 21}, "finite"),
    )
    for arguments, said in wrong:
        with pytest.raises(InvalidArgumentError, match=said):
            Loader(tree, **{"batch_size": 4, "transforms": SMALL, **arguments})
    assert len(Loader(tree, 4, transforms=SMALL, device=torch.device("cpu", 0), drop_last=True, last_batch="drop")) == 5


# ---- folders ----


def test_folders_are_read_as_image_folder_reads_them(files, tmp_path):
    torchvision = import_torchvision()
    root = tmp_path / "data"
    for k, place in enumerate(
        ["b/1.jpg", "b/x/2.jpg", "b/x/y/3.JPG", "b/a/4.jpg", "b/a-/5.jpg", "b/x.jpg", "a/.hidden/6.jpg", "a/7.jpg", ".c/8.jpg"]
    ):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(files[k], root / place)
    (root / "b/notes.txt").write_text("no image")
    os.symlink(root / "b/x", root / "a/link")
    reference = torchvision.datasets.ImageFolder(root)
    loader = Loader(root, 1, transforms=SMALL, fields=("path", "label"))
    assert [(b.path[0], b.label.item()) for b in loader] == reference.samples
    assert loader.classes == reference.classes
    (root / "empty").mkdir()
    with pytest.raises(FileNotFoundError):
        torchvision.datasets.ImageFolder(root)
    with pytest.raises(StokerError, match="empty"):
        Loader(root, 1, transforms=SMALL)


# ---- defaults of a DataLoader ----


def test_uint8_stays_uint8_if_nothing_is_asked_for(tree):
    """Images of uint8 stay uint8, as in a DataLoader. A float dtype=, a transform or a batch transform makes them floats, as files and PIL images are."""
    x = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (6, 3, 8, 10), np.uint8))
    y = torch.arange(6)
    pairs = torch.utils.data.TensorDataset(x, y)
    hwc = np.ascontiguousarray(x.permute(0, 2, 3, 1).numpy())
    for source in (pairs, (x, y), (hwc, y), Set(6, lambda i: (hwc[i], i)), Set(6, lambda i: (x[i], i))):
        for more in ({}, {"memory_format": torch.channels_last}, {"transforms": []}):
            made = torch.cat([b.image.clone() for b in Loader(source, 4, **more)])
            assert made.dtype is torch.uint8 and torch.equal(made, x)
        for more in ({"dtype": torch.float32}, {"transforms": [T.RandomHorizontalFlip(0.0)]}, {"batch_transforms": T.MixUp(num_classes=6)}):
            assert next(iter(Loader(source, 4, **more))).image.dtype is torch.float32
        made = torch.cat([b.image.clone() for b in Loader(source, 4, dtype=torch.float32)])
        torch.testing.assert_close(made, x / 255)
    gray = Set(6, lambda i: (hwc[i, ..., 0], i))
    assert next(iter(Loader(gray, 4))).image.dtype is torch.uint8
    floats = torch.utils.data.TensorDataset(x / 255, y)
    assert next(iter(Loader(floats, 4))).image.dtype is torch.float32
    assert next(iter(Loader(tree, 1))).image.dtype is torch.float32, "a file holds no tensor"
    from PIL import Image

    pictures = Set(6, lambda i: (Image.fromarray(hwc[i]), i))
    assert next(iter(Loader(pictures, 4))).image.dtype is torch.float32, "a DataLoader cannot make a batch of PIL images"


def test_a_collate_fn_of_a_list_of_samples_is_refused():
    def unequal(batch):
        images, labels = zip(*batch, strict=True)
        return torch.stack(images), torch.tensor(labels)

    class Detection:
        def __call__(self, batch):
            return tuple(zip(*batch))  # noqa: B905

    source = (np.zeros((8, 8, 8, 3), np.uint8), np.arange(8))
    for collate in (torch.utils.data.default_collate, lambda b: tuple(zip(*b)), unequal, Detection(), functools.partial(unequal)):  # noqa: B905
        with pytest.raises(InvalidArgumentError, match=r"collate_fn.*finished batch"):
            Loader(source, 4, collate_fn=collate)
    with pytest.raises(InvalidArgumentError, match="function of the finished batch"):
        Loader(source, 4, collate_fn=3)
    samples = Loader(source, 4, collate_fn=lambda batch: torch.stack([image for image, _ in batch]))
    with pytest.raises(
        ValueError, match=r"too many values .* \(collate_fn gets the finished batch \(image, label\), and no list of samples"
    ):
        next(iter(samples))

    def rows(batch):
        return [image for image, label in zip(batch.image, batch.label, strict=True)]

    assert len(next(iter(Loader(source, 4, collate_fn=rows)))) == 4


def test_columns_whose_names_cannot_be_fields(files, tmp_path):
    table = tmp_path / "table.csv"
    header = "Image Index,Patient Age,View [cm],View (cm)"
    table.write_text("\n".join([header, *(f"{f},{40 + k},{k},{-k}" for k, f in enumerate(files[:4]))]))

    def load(**arguments):
        return next(iter(Loader.from_csv(table, 4, path="Image Index", transforms=SMALL, **arguments)))

    batch = load(targets=["Patient Age", "View [cm]"])
    assert batch._fields == ("image", "Patient_Age", "View_cm") and batch.Patient_Age.tolist() == [40, 41, 42, 43]
    batch = load(targets={"age": "Patient Age", "view": "View (cm)"})
    assert batch._fields == ("image", "age", "view") and batch.view.tolist() == [0, -1, -2, -3]
    with pytest.raises(InvalidArgumentError, match=r"'View .cm.' and 'View .cm.' would both be the field 'View_cm'"):
        load()
    with pytest.raises(InvalidArgumentError, match="cannot be the name of a field"):
        load(targets={"my age": "Patient Age"})
    with pytest.raises(InvalidArgumentError, match="no column 'Age'"):
        load(targets={"age": "Age"})


class Episodes:
    """A batch sampler whose batches have different sizes. In each epoch, the ids of its samples are one higher than in the previous epoch."""

    def __init__(self, batches):
        self.batches, self.epoch = batches, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter([[i + self.epoch for i in batch] for batch in self.batches])


GROUPS = [[0, 1, 2], [3, 4], [5, 6, 7, 8], [9]]


@pytest.mark.parametrize("kind", ["arrays", "Dataset", "files", "csv", "ImageFolder"])
def test_a_batch_sampler_gives_the_batches(kind, tree, files, tmp_path):
    x = np.zeros((21, 8, 8, 3), np.uint8)
    pairs = [(str(f), k) for k, f in enumerate(files)]
    folder = import_torchvision().datasets.ImageFolder(tree)
    folder.samples = folder.imgs = pairs
    sources = {"arrays": (x, np.arange(21)), "Dataset": Set(21, lambda i: (x[i], i)), "files": pairs, "ImageFolder": folder}
    more = {} if kind in ("arrays", "Dataset") else {"transforms": SMALL}

    def load(sampler):
        if kind != "csv":
            return Loader(sources[kind], batch_sampler=sampler, **more)
        table = tmp_path / "table.csv"
        table.write_text("\n".join(["path,label", *(f"{path},{label}" for path, label in pairs)]))
        return Loader.from_csv(table, batch_sampler=sampler, **more)

    loader = load(Episodes(GROUPS))
    assert len(loader) == 4
    for epoch in range(3):
        made = [(len(b.image), b.label.tolist()) for b in loader]
        assert made == [(len(g), [i + epoch for i in g]) for g in GROUPS] and len(loader) == 4 and loader.epoch == epoch + 1
    listed = load(GROUPS)
    assert "batches of the batch_sampler, 4 in an epoch" in repr(listed)
    assert [b.label.tolist() for b in listed] == GROUPS == [b.label.tolist() for b in listed]
    torch_sampler = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(21)), 6, drop_last=False)
    assert [len(b.label) for b in load(torch_sampler)] == [6, 6, 6, 3]


def test_a_state_within_the_batches_of_a_batch_sampler():
    source = (np.zeros((12, 8, 8, 3), np.uint8), np.arange(12))
    for taken in range(5):
        whole, resumed = Loader(source, batch_sampler=Episodes(GROUPS)), Loader(source, batch_sampler=Episodes(GROUPS))
        next(iter(whole))
        for _ in zip(range(taken), whole, strict=False):
            pass
        resumed.load_state_dict(whole.state_dict())
        assert [b.label.tolist() for b in resumed] == [[i + 1 + (taken == 4) for i in g] for g in GROUPS[taken % 4 :]]


def test_what_a_batch_sampler_excludes(tree):
    source = (np.zeros((12, 8, 8, 3), np.uint8), np.arange(12))
    for more in ({"batch_size": 4}, {"shuffle": True}, {"sampler": [1, 2]}, {"drop_last": True}, {"last_batch": "pad"}):
        with pytest.raises(InvalidArgumentError, match=f"batch_sampler gives the batches, and {next(iter(more))}"):
            Loader(source, batch_sampler=GROUPS, **more)
    with pytest.raises(InvalidArgumentError, match=r"of a folder give torchvision's ImageFolder"):
        Loader(tree, batch_sampler=GROUPS)
    for batches, said in (
        ([], "no batches"),
        ([[0], []], "no samples for this batch"),
        ([["a"]], "whole numbers"),
        ([[12]], "has 0 to 11"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            list(Loader(source, batch_sampler=batches))
    with pytest.raises(InvalidArgumentError, match="batch samplers, or a list of lists"):
        Loader(source, batch_sampler=3)


# ---- several views ----


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("form", ["tensors", "arrays", "PIL", "dict"])
def test_a_dataset_that_gives_several_views(form, workers):
    draws = np.random.default_rng(SEED)
    large, small = draws.integers(0, 256, (2, 8, 16, 20, 3), np.uint8), draws.integers(0, 256, (8, 8, 10, 3), np.uint8)

    def give(i):
        views = [large[0, i], large[1, i], small[i]]
        if form == "PIL":
            from PIL import Image

            return [Image.fromarray(v) for v in views], i
        if form in ("tensors", "dict"):
            views = [torch.from_numpy(v).permute(2, 0, 1) for v in views]
        return {"image": tuple(views), "label": i} if form == "dict" else (views, i)

    loader = Loader(Set(8, give), 4, python_workers=workers, **({"dtype": torch.uint8} if form == "PIL" else {}))
    for place, batch in enumerate(loader):
        ids = batch.label.tolist()
        assert ids == list(range(4 * place, 4 * place + 4)) and isinstance(batch.image, list)
        for made, want in zip(batch.image, (large[0, ids], large[1, ids], small[ids]), strict=True):
            assert made.dtype is torch.uint8 and np.array_equal(made.permute(0, 2, 3, 1).numpy(), want)
    flipped = next(iter(Loader(Set(8, give), 4, transforms=[T.RandomHorizontalFlip(1.0), T.PILToTensor()])))
    assert all(np.array_equal(m.flip(3).permute(0, 2, 3, 1).numpy(), w[:4]) for m, w in zip(flipped.image, (*large, small), strict=True))


def test_views_of_a_dataset_that_are_refused():
    view = torch.zeros(3, 8, 8)
    with pytest.raises(TypeError, match="2 views of an image, and 3 in its first sample"):
        list(Loader(Set(4, lambda i: ([view] * (2 if i == 2 else 3), i)), 1))
    with pytest.raises(TypeError, match="empty list of views"):
        list(Loader(Set(4, lambda i: ([], i)), 1))
    with pytest.raises(InvalidArgumentError, match="no views="):
        list(Loader(Set(4, lambda i: ([view, view], i)), 1, views=[(2, [])]))
    fields = {"image": "Image", "boxes": "BoundingBoxes"}
    with pytest.raises(InvalidArgumentError, match="could follow only one"):
        list(Loader(Set(4, lambda i: ([view, view], np.zeros((1, 4), np.float32))), 1, fields=fields))
    (batch,) = Loader(Set(4, lambda i: ([view], i)), 4)
    assert [tuple(v.shape) for v in batch.image] == [(4, 3, 8, 8)]


# ---- random orders without effect, and errors before the first batch ----


def test_a_random_order_of_a_crop_and_mirroring():
    """Both orders give the same images, each equally often. A crop with padding on one side, and a crop with a colour jitter, are refused."""
    tv = import_torchvision().transforms
    picture = np.arange(36, dtype=np.uint8).reshape(6, 6, 1).repeat(3, 2)
    windows = [picture[y : y + 5, x : x + 4] for y in range(2) for x in range(3)]
    wanted = {w.tobytes() for w in windows} | {w[:, ::-1].tobytes() for w in windows}
    mirrored_first = {picture[:, ::-1][y : y + 5, x : x + 4].tobytes() for y in range(2) for x in range(3)}
    assert mirrored_first == {w[:, ::-1].tobytes() for w in windows}
    for group in (
        T.RandomOrder([T.RandomCrop((5, 4)), T.RandomHorizontalFlip()]),
        T.RandomOrder([T.RandomHorizontalFlip(), T.RandomVerticalFlip(0.0), T.RandomCrop((5, 4))]),
        tv.RandomOrder([tv.RandomCrop((5, 4)), tv.RandomHorizontalFlip()]),
    ):
        made = [m.permute(1, 2, 0).numpy().tobytes() for m in images(Set(360, lambda i: (picture, i)), [group])]
        assert set(made) == wanted
        share = 1 / len(wanted)
        assert all(abs(made.count(w) - 360 * share) < 5 * (360 * share * (1 - share)) ** 0.5 for w in wanted)
    for group in (
        T.RandomOrder([T.RandomCrop(4, padding=(1, 0, 0, 0)), T.RandomHorizontalFlip()]),
        T.RandomOrder([T.RandomCrop(4), JITTER]),
    ):
        with pytest.raises(UnsupportedError, match="put it outside"):
            images(Set(4, lambda i: (picture, i)), [group])


def test_many_bad_samples_before_the_first_good_one():
    def give(i):
        if i < 1500:
            raise ValueError("bad")
        return np.zeros((4, 4, 3), np.uint8), i

    loader = Loader(Set(3000, give), 2000, on_error="skip", max_errors=2000)
    assert [b.label.tolist() for b in loader] == [list(range(1500, 2000)), list(range(2000, 3000))]


def test_a_pipeline_whose_order_does_not_fit_is_closed(tree, monkeypatch):
    from stoker.pipeline import Pipeline

    made, closed = [], []
    build, close = Pipeline.build, Pipeline.close
    monkeypatch.setattr(Pipeline, "build", lambda self: (made.append(self), build(self))[1])
    monkeypatch.setattr(Pipeline, "close", lambda self: (closed.append(self), close(self))[1])
    for sampler in ([1.0] * 20, lambda epoch: [0, 21]):
        with pytest.raises(StokerError, match=r"21|0 to 20"):
            list(Loader(tree, 4, transforms=SMALL, sampler=sampler))
    built = [pipe for pipe in made if pipe._session is not None]
    assert built and all(any(pipe is c for c in closed) for pipe in built)


# ---- samplers without an end ----


@pytest.mark.parametrize("kind", ["arrays", "Dataset", "files"])
@pytest.mark.parametrize("form", ["sampler", "function"])
def test_a_sampler_without_an_end_streams(kind, form, files, monkeypatch):
    from stoker.loader._order import Order

    monkeypatch.setattr(Order, "most", 10)
    drawn = []

    class Endless:
        def __iter__(self):
            for k in itertools.count():
                drawn.append(k)
                yield (5 * k) % 21

    x = np.zeros((21, 8, 8, 3), np.uint8)
    source = {"arrays": (x, np.arange(21)), "Dataset": Set(21, lambda i: (x[i], i)), "files": [(str(f), k) for k, f in enumerate(files)]}
    more = {"transforms": SMALL} if kind == "files" else {}
    loader = Loader(source[kind], 4, sampler=Endless() if form == "sampler" else lambda epoch: iter(Endless()), **more)
    made = []
    for batch in loader:
        made += batch.label.tolist()
        assert len(batch.label) == 4 and loader.step == len(made) // 4
        if len(made) == 60:
            break
    assert made == [(5 * k) % 21 for k in range(60)]
    assert len(drawn) < 100, "ids are drawn as they are needed"
    with pytest.raises(TypeError, match="its sampler does not say"):
        len(loader)
    with pytest.raises(StokerError, match="no position that can be saved"):
        loader.state_dict()
    assert next(iter(loader)).label.tolist() == [0, 5, 10, 15] and loader.epoch == 1


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 20])
def test_a_sampler_without_a_length_ends(count, monkeypatch):
    from stoker.loader._order import Order

    monkeypatch.setattr(Order, "most", 8)

    class Some:
        def __iter__(self):
            return iter(range(count))

    loader = Loader((np.zeros((21, 8, 8, 3), np.uint8), np.arange(21)), 4, sampler=Some())
    for epoch in range(2):
        assert loader.epoch == epoch
        assert [i for b in loader for i in b.label.tolist()] == list(range(count))


# ---- streams of Hugging Face ----


def test_a_stream_that_does_not_tell_its_features(files):
    """Streams of `datasets` have no features after map(), and give decoded images after filter(). The Loader finds the image among the values of the first
    row."""
    from PIL import Image

    def rows(encoded):
        for k, path in enumerate(files[:8]):
            image = {"bytes": path.read_bytes(), "path": None} if encoded else Image.open(path)
            yield {"label": k, "picture": image, "other": -k}

    kind = type(
        "IterableDataset", (), {"__module__": "datasets.iterable_dataset", "features": None, "__iter__": lambda self: rows(self.encoded)}
    )
    plain = images([str(f) for f in files[:8]], SMALL)
    for encoded in (False, True):
        stream = kind()
        stream.encoded = encoded
        made = list(Loader(stream, 4, transforms=SMALL, dtype=torch.uint8))
        assert made[0]._fields == ("image", "label", "other") and [i for b in made for i in b.label.tolist()] == list(range(8))
        assert torch.equal(torch.cat([b.image for b in made]), plain)
        assert next(iter(Loader(stream, 4, transforms=SMALL, fields=("image", "other"))))._fields == ("image", "other")
    none = type(
        "IterableDataset", (), {"__module__": "datasets.iterable_dataset", "features": None, "__iter__": lambda self: iter([{"a": 1}])}
    )
    with pytest.raises(InvalidArgumentError, match="has no image; its columns are a"):
        next(iter(Loader(none(), 4)))


def test_streams_of_hugging_face(files):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"image": [str(f) for f in files], "label": list(range(21))}).cast_column("image", datasets.Image())

    def even(row):
        return row["label"] % 2 == 0

    def more(row):
        return {"image": row["image"], "label": row["label"] + 100}

    whole = table.to_iterable_dataset
    for stream in (whole(), whole().filter(even), whole().map(more), whole().filter(even).map(more)):
        made = [i for b in Loader(stream, 4, transforms=SMALL) for i in b.label.tolist()]
        assert made == [e["label"] for e in stream]


def test_images_of_different_sizes_are_refused_with_the_ways_out(tmp_path):
    """A batch of batch_sampler= is refused if its images differ in size. The message proposes a list, padding and buckets."""
    for k, side in enumerate((8, 9)):
        Image.fromarray(np.zeros((side, 8, 3), np.uint8)).save(tmp_path / f"{k}.png")
    with pytest.raises(StokerError, match=r"fields=\{'image': list, .*pad='zeros'.*bucket_by='size'"):
        next(iter(Loader([str(p) for p in sorted(tmp_path.glob("*.png"))], batch_sampler=[[0, 1]])))


# ---- samples whose first value is no image ----

_CRAFT = np.arange(3 * 9 * 10, dtype=np.uint8).reshape(3, 9, 10)


@pytest.mark.parametrize(
    "give",
    [
        lambda i: (i, torch.from_numpy(_CRAFT)),
        lambda i: (i, [torch.from_numpy(_CRAFT), torch.from_numpy(_CRAFT[:, :8])]),
        lambda i: (i, Image.fromarray(_CRAFT.transpose(1, 2, 0)), "a caption"),
        lambda i: {"number": i, "gt": torch.from_numpy(_CRAFT), "lr": torch.from_numpy(_CRAFT[:, :4]), "not a name": 1},
    ],
)
def test_the_message_names_the_image(give):
    """The error proposes an argument. With this argument, the data set is accepted."""
    data = Set(4, give)
    with pytest.raises(TypeError, match="in dataset\\[0\\]") as caught:
        next(iter(Loader(data, 4)))
    fields = ast.literal_eval(re.search(r"fields=(\{[^}]*\})", str(caught.value)).group(1))
    assert [name for name, kind in fields.items() if kind == "Image"] in (["picture"], ["gt"])
    (batch,) = Loader(data, 4, fields=fields)
    assert batch._fields == tuple(fields)
    found = getattr(batch, "picture" if "picture" in fields else "gt")
    found = found[0] if isinstance(found, list) else found
    # Values of PIL images are scaled to 0..1; values of tensors are not.
    found = found if found.dtype == torch.uint8 else (found * 255).round()
    assert torch.equal(found.to(torch.uint8), torch.from_numpy(_CRAFT)[None].expand(4, 3, 9, 10))
    if "gt" in fields:
        assert torch.equal(batch.lr[0], torch.from_numpy(_CRAFT[:, :4])) and batch.number.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "give, said",
    [
        (lambda i: (torch.zeros(1, 100 + i), 16000), r"one row.*Audio.*stoker\.DataLoader"),
        (lambda i: (torch.zeros(100), 16000), r"Audio.*stoker\.DataLoader"),
        (lambda i: (torch.zeros(3, 8, 16, 16), i), r"Video\(frames=16\).*stoker\.DataLoader"),
        (lambda i: (torch.arange(5), i), r"stoker\.DataLoader"),
        (lambda i: {"input_ids": torch.arange(5), "labels": i}, r"input_ids, labels.*hold no image; stoker\.DataLoader"),
        (lambda i: (0.5, i), r"gave float as an image.*stoker\.DataLoader"),
    ],
)
def test_the_message_names_the_way_for_other_samples(give, said):
    with pytest.raises((TypeError, ShapeError), match=said):
        next(iter(Loader(Set(4, give), 4)))
