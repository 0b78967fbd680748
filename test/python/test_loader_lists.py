# SPDX-License-Identifier: Apache-2.0
"""Images that differ in size are delivered as a list of tensors."""

import os
import tarfile

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
    """Images, each with a mask of its size that equals the image's first channel."""

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


def test_images_that_batches_do_not_hold_may_differ_in_size(pictures, tmp_path):
    (tmp_path / "a").mkdir()
    paths = [str(tmp_path / "a" / f"{k}.png") for k in range(len(pictures))]
    for path, picture in zip(paths, pictures, strict=True):
        Image.fromarray(picture).save(path)
    for source in (tmp_path, [(path, 0) for path in paths]):
        assert [b._fields for b in Loader(source, 4, fields=("label",))] == [("label",)]
        assert [b.index.tolist() for b in Loader(source, 2, fields=("index", "label"))] == [[0, 1], [2, 3]]


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


def saved(folder, pictures):
    """Writes pictures as PNGs in a folder of two classes, and returns their paths."""
    paths = []
    for k, picture in enumerate(pictures):
        paths.append(folder / "ab"[k % 2] / f"{k:02d}.png")
        paths[-1].parent.mkdir(exist_ok=True)
        Image.fromarray(picture).save(paths[-1])
    return paths


KINDS = ["folder", "list", "dataset", "paths of a dataset", "tar"]


def source_of(kind, pictures, folder):
    """Returns a Loader's source of these pictures, in this order unless it is a folder."""
    if kind == "dataset":
        return Views(pictures)
    paths = saved(folder, pictures)
    if kind == "tar":
        (folder / "tars").mkdir()
        with tarfile.open(folder / "tars" / "all.tar", "w") as tar:
            for k, path in enumerate(paths):
                tar.add(path, f"{k:03d}.png")
        return str(folder / "tars")
    return {"folder": str(folder), "list": [(str(path), 0) for path in paths], "paths of a dataset": Paths(paths)}[kind]


def kinds_of_batches(loader):
    return {type(batch.image) for batch in loader}


@pytest.mark.parametrize("reverse", [False, True])
def test_copies_of_a_folder_decide_alike(pictures, tmp_path, monkeypatch, reverse):
    """File systems list a folder in orders of their own. Ranks on different machines must still compare the same images, or their batches would have
    different types."""
    walk = os.walk

    def listed(folder, **more):
        for at, folders, names in walk(folder, **more):
            folders.sort(reverse=reverse)
            yield at, folders, sorted(names, reverse=reverse)

    monkeypatch.setattr(os, "walk", listed)
    (tmp_path / "c" / "few").mkdir(parents=True)
    (tmp_path / "c" / "more").mkdir()
    for k in range(40):  # only the last one has another size, and more images than the Loader compares come before it
        Image.fromarray(pictures[0 if k < 39 else 1]).save(tmp_path / "c" / ("few" if k < 8 else "more") / f"{k:02d}.png")
    assert type(next(iter(Loader(str(tmp_path), 2, transforms=[T.PILToTensor()], shard=(0, 2)))).image) is torch.Tensor


@pytest.fixture
def notices(monkeypatch):
    lines = []
    monkeypatch.setattr("stoker.loader.loader.log", lines.append)
    return lines


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_images_that_differ_in_size_come_as_a_list(kind, shuffle, pictures, tmp_path, notices):
    """All batches are lists, even if their images happen to have one size, as in the first batch. The Loader decides this by fixed samples of the data set."""
    mixed = [pictures[0], pictures[0], *pictures, pictures[0], pictures[0]]
    source = source_of(kind, mixed, tmp_path)
    loader = Loader(source, 2, shuffle=shuffle, transforms=[T.RandomHorizontalFlip(), T.PILToTensor()])
    assert kinds_of_batches(loader) == kinds_of_batches(loader) == {list}
    assert len(notices) == 1 and "differ in size" in notices[0] and "T.Resize((224, 224))" in notices[0] and "'image': list" in notices[0]
    batch = next(iter(Loader(source, 8, transforms=[T.PILToTensor()])))
    given = sorted(picture.transpose(2, 0, 1).tobytes() for picture in mixed)
    assert sorted(image.numpy().tobytes() for image in batch.image) == given


def test_images_that_get_one_size_after_a_border_come_as_a_tensor(tmp_path, notices):
    """The Loader foresees whether results differ in size. Images of 200 x 100 and 500 x 300 have different aspect ratios, but the same one with a border of
    50."""
    (tmp_path / "c").mkdir()
    for k, (width, height) in enumerate([(200, 100), (500, 300), (200, 100), (500, 300)]):
        Image.new("RGB", (width, height)).save(tmp_path / "c" / f"{k}.png")
    batch = next(iter(Loader(str(tmp_path), 4, transforms=[T.Pad(50), T.Resize(100), T.PILToTensor()])))
    assert tuple(batch.image.shape) == (4, 3, 100, 150) and not notices
    batch = next(iter(Loader(str(tmp_path), 4, transforms=[T.Pad(40), T.Resize(100), T.PILToTensor()])))
    assert [tuple(image.shape) for image in batch.image] == [(3, 100, 155), (3, 100, 152)] * 2 and len(notices) == 1


class Views(Scenes):
    def __getitem__(self, i):
        return self.pictures[i], i


class Paths(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return str(self.paths[i]), i


def test_a_resumed_run_gets_lists_too(pictures, tmp_path, notices):
    dataset = Views([pictures[0], pictures[1], *[pictures[0]] * 4])
    loader = Loader(dataset, 2)
    iterator = iter(loader)
    assert isinstance(next(iterator).image, list)
    state = loader.state_dict()
    fresh = Loader(dataset, 2)
    fresh.load_state_dict(state)
    assert kinds_of_batches(fresh) == {list} and len(notices) == 1
    fresh = Loader(dataset, 2)
    # A state of an earlier version has no entry "listed".
    fresh.load_state_dict({name: value for name, value in state.items() if name != "listed"})
    assert kinds_of_batches(fresh) == {list}


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_decide_alike(kind, pictures, tmp_path, notices):
    """Batches of both ranks are lists, although only one rank has images of different sizes in its first batch."""
    source = source_of(kind, [pictures[0], pictures[0], pictures[1], pictures[2], *[pictures[0]] * 4], tmp_path)
    loaders = [Loader(source, 2, shard=(rank, 2), transforms=[T.PILToTensor()]) for rank in (0, 1)]
    assert [kinds_of_batches(loader) for loader in loaders] == [{list}, {list}]


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, pictures):
        self.pictures = pictures

    def __iter__(self):
        return iter([(picture, k) for k, picture in enumerate(self.pictures)])


def test_a_first_batch_decides_in_one_process_only(pictures, notices):
    """If the sizes of the images are not known in advance, as in a stream, or not all compared, as in a large Dataset, the first batch decides whether
    batches are lists. With several ranks, a first batch of different sizes is an error."""
    rare = [pictures[0]] * 100
    rare[1] = pictures[1]
    for source in (Stream(pictures), Views(rare)):
        assert kinds_of_batches(Loader(source, 2)) == {list}
        with pytest.raises(ShapeError, match=r"this rank's first batch differ in size.*fields=\{'image': list.*pad='zeros'"):
            next(iter(Loader(source, 2, shard=(0, 2))))
        for declared in ({"fields": {"image": list, "label": None}}, {"pad": "zeros"}):
            next(iter(Loader(source, 2, shard=(0, 2), **declared)))
    rare[1], rare[3] = pictures[0], pictures[1]
    with pytest.raises(ShapeError, match=r"fields=\{'image': list"):
        list(Loader(Views(rare), 2))


@pytest.mark.parametrize(
    "transform",
    [
        T.ScaleJitter((24, 24)),
        T.RandomShortestSize([16, 24], 60),
        T.RandomZoomOut(),
        T.RandomResize(16, 24),
        T.RandomApply([T.RandomZoomOut(p=1.0)], 0.3),
        T.RandomRotation(30, expand=True),
    ],
    ids=lambda t: type(t).__name__,
)
def test_transforms_that_draw_sizes_make_lists(transform, pictures, notices):
    """Batches are lists, even if the transforms draw equal sizes for the first batch."""
    for seed in range(4):
        assert isinstance(next(iter(Loader(Views([pictures[0]] * 2), 2, transforms=[transform], seed=seed))).image, list)
    fixed = Loader(Views([pictures[0]] * 2), 2, transforms=[transform, T.Resize((16, 16))])
    assert kinds_of_batches(fixed) == {torch.Tensor}
    after = Loader(Views([pictures[0]] * 2), 2, transforms=[T.Resize((16, 16)), transform])
    assert kinds_of_batches(after) == {list}


@pytest.mark.parametrize(
    "transform",
    [
        T.RandomZoomOut(p=1.0, side_range=(1.5, 1.5)),
        T.RandomZoomOut(p=0.0),
        T.ScaleJitter((32, 32), scale_range=(0.5, 0.5)),
        T.RandomShortestSize([24]),
        T.RandomResize(24, 25),
        T.RandomApply([T.RandomZoomOut(p=0.0)]),
        T.RandomRotation((30, 30), expand=True),
    ],
    ids=lambda t: type(t).__name__,
)
def test_transforms_that_draw_one_size_make_tensors(transform, pictures):
    assert kinds_of_batches(Loader(Views([pictures[0]] * 4), 2, transforms=[transform])) == {torch.Tensor}


def test_looking_at_samples_leaves_the_generators_as_they_are(pictures):
    """The Dataset draws from the global generators. The calls with which the Loader looks at samples in advance must not change the draws of the batches."""

    class Drawing(Views):
        def __getitem__(self, i):
            return self.pictures[i], np.random.randint(1 << 30) + torch.randint(1 << 30, ()).item()

    class Held(Drawing):  # holds an open file, so the Loader makes only one call at a time
        def __init__(self, pictures):
            super().__init__(pictures)
            self.file = open("/dev/null", "rb")  # noqa: SIM115

    def states(**more):
        np.random.seed(4)
        torch.manual_seed(4)
        dataset = Held([pictures[0]] * 6)
        loader = Loader(dataset, 6, seed=1, transforms=[T.PILToTensor()], **more)
        batch = next(iter(loader))
        loader.close()
        dataset.file.close()
        return batch.label.tolist()

    assert sorted(states()) == sorted(states(fields={"image": list, "label": None}))


def test_images_of_one_size_stay_one_tensor(pictures, tmp_path, notices):
    paths = saved(tmp_path, [pictures[0]] * 8)
    for source in (str(tmp_path), [str(path) for path in paths], Paths(paths), Views([pictures[0]] * 8)):
        assert kinds_of_batches(Loader(source, 3, transforms=[T.PILToTensor()])) == {torch.Tensor}
    assert not notices


def test_transforms_and_arguments_that_make_one_tensor(pictures, tmp_path, notices):
    paths = [str(path) for path in saved(tmp_path, pictures)]
    ways = [
        dict(transforms=[T.Resize((16, 16))]),
        dict(transforms=[T.Resize(8), T.CenterCrop(8)]),
        dict(transforms=[T.RandomResizedCrop(12)]),
        dict(transforms=[T.RandomOrder([T.RandomCrop(12), T.RandomHorizontalFlip()])]),
        dict(pad="zeros"),
    ]
    for way in ways:
        assert kinds_of_batches(Loader(paths, 2, **way)) == {torch.Tensor}
    assert kinds_of_batches(Loader(paths, 1)) == {torch.Tensor}  # batches of one image are tensors, as with default_collate
    assert not notices


def test_a_resize_that_keeps_the_ratio_may_make_one_size(tmp_path, notices):
    rng = np.random.default_rng(SEED)
    paths = [str(path) for path in saved(tmp_path, [photograph(rng, 20 * k, 30 * k) for k in (1, 2, 1, 3)])]
    assert kinds_of_batches(Loader(paths, 2, transforms=[T.Resize(10)])) == {torch.Tensor} and not notices


def test_an_order_that_puts_equal_sizes_together_keeps_its_tensors(pictures, tmp_path):
    paths = [str(path) for path in saved(tmp_path, [pictures[0], pictures[1], pictures[0], pictures[1]])]
    for way in (
        dict(batch_size=2, bucket_by=[0, 1, 0, 1]),
        dict(batch_sampler=[[0, 2], [1, 3]]),
        dict(batch_size=2, sampler=lambda _: [0, 2, 1, 3]),
    ):
        assert kinds_of_batches(Loader(paths, **way)) == {torch.Tensor}
    with pytest.raises(ShapeError, match=r"fields=\{'image': list"):
        list(Loader(paths, batch_sampler=[[0, 1]]))


def test_masks_and_maps_are_lists_with_the_images(pictures):
    class WithMaps(Scenes):
        def __getitem__(self, i):
            picture = self.pictures[i]
            masks = np.stack([picture[..., 0] > 128] * (1 + i)).astype(np.uint8)
            return {"image": picture, "mask": picture[..., 0].copy(), "masks": masks, "depth": picture[..., 1].astype(np.float32)}

    kinds = {"mask": "Mask", "masks": "Mask", "depth": "FloatMap"}
    for fields in ({"image": "Image", **kinds}, {"image": list, **kinds}):
        batch = next(iter(Loader(WithMaps(pictures), 4, transforms=[T.RandomHorizontalFlip(1.0), T.PILToTensor()], fields=fields)))
        for i, picture in enumerate(pictures):
            assert np.array_equal(batch.image[i].numpy(), picture[:, ::-1].transpose(2, 0, 1))
            assert np.array_equal(batch.mask[i].numpy(), picture[:, ::-1, 0]) and batch.masks[i].shape == (1 + i, *picture.shape[:2])
            assert np.array_equal(batch.depth[i].squeeze().numpy(), picture[:, ::-1, 1].astype(np.float32))


def test_batch_transforms_want_one_tensor(pictures):
    with pytest.raises(InvalidArgumentError, match=r"batch_transforms are of one tensor"):
        Loader(
            Scenes(pictures), 4, fields={"image": list, "mask": "Mask", "label": None}, batch_transforms=T.MixUp(alpha=1.0, num_classes=4)
        )


@pytest.mark.parametrize("value, dtype", [([True, None], "bool"), ([1, None], "int64"), ([2**63, 1], "int64"), ([[1], [1, 2]], "float32")])
def test_rows_of_datasets_that_cannot_be_arrays_stay_lists(value, dtype):
    """Rows that NumPy would change stay lists, which the Loader refuses. For example, NumPy makes False of a null among booleans."""
    from stoker.loader.sources._hub import _as_array

    assert _as_array(value, dtype, [-1]) is value
    assert _as_array([True, False], "bool", [-1]).tolist() == [True, False]


class Given(torch.utils.data.Dataset):
    """The samples of a list."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


@pytest.mark.parametrize("form", ["dicts", "tuples"])
@pytest.mark.parametrize("kind, width", [("BoundingBoxes", 4), ("KeyPoints", 2), (("BoundingBoxes", "CXCYWH"), 4)])
def test_strings_are_no_boxes_and_no_points(kind, width, form):
    image, text = np.zeros((8, 9, 3), np.uint8), "[1, 2, 3, 4]"
    samples = Given([(image, text) if form == "tuples" else {"image": image, "at": text}] * 2)
    fields = {"image": "Image", "at": kind}
    with pytest.raises(TypeError, match=rf"gave a string as target 1 \('at'\), and .* lists of numbers, {width} a row"):
        next(iter(Loader(samples, 2, fields=fields, transforms=[T.RandomHorizontalFlip(1.0)])))
    assert next(iter(Loader(samples, 2, fields={**fields, "at": None}))).at == [text] * 2


def test_strings_after_boxes_are_bad_samples():
    samples = Given([{"image": np.zeros((8, 9, 3), np.uint8), "at": at} for at in ([[1, 2, 3, 4]], "1, 2, 3, 4", [])])
    made = Loader(samples, 1, fields={"image": "Image", "at": "BoundingBoxes"}, on_error="skip", max_errors=1)
    assert [tuple(at.shape) for batch in made for at in batch.at] == [(1, 4), (0, 4)]


def test_strings_cannot_be_ragged():
    samples = Given([{"image": np.zeros((8, 9, 3), np.uint8), "word": "x"}] * 2)
    with pytest.raises(InvalidArgumentError, match="ragged: 'word' holds strings"):
        next(iter(Loader(samples, 2, ragged="word")))
