# SPDX-License-Identifier: Apache-2.0
"""Samples of data sets of all kinds are used unchanged, converted with a notice, or refused with advice. torchvision, NumPy and pandas are the references."""

import collections
import contextlib
import copy
import dataclasses
import gzip
import os
import signal

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, LimitError, StateError
from support import SEED, import_torchvision, photograph

PICTURE = photograph(np.random.default_rng(SEED), 40, 50)


class Set:
    """A map-style Dataset whose samples are the results of a function of the index, or the entries of a list."""

    def __init__(self, samples, give=None):
        self.samples = samples if give is None else range(samples)
        self.give = give or self.samples.__getitem__

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        if not 0 <= i < len(self.samples):
            raise IndexError(i)
        return self.give(i)


def first(source, batch=2, **arguments):
    return next(iter(Loader(source, batch, **arguments)))


# ---- the loader's data set ----


def test_len_of_the_dataset_is_the_number_of_samples(tree, files):
    """loader.dataset has the data set's length, classes and class_to_idx, even if an epoch has fewer samples. Users divide by len(loader.dataset)."""
    torchvision = import_torchvision()
    folder = torchvision.datasets.ImageFolder(tree)
    part = torch.utils.data.Subset(folder, [1, 2, 3])
    pairs = [(f, 1) for f in files[:5]]
    arrays = (np.zeros((7, 8, 8, 3), np.uint8), np.arange(7))
    paths = ([str(f) for f in files[:4]], [1, 2, 3, 4])
    for source, count in ((tree, 21), (folder, 21), (part, 3), (pairs, 5), (arrays, 7), (paths, 4), (Set(9, lambda i: (PICTURE, i)), 9)):
        assert len(Loader(source, 2).dataset) == count
        assert len(Loader(source, 2, sampler=[0, 1]).dataset) == count, "of the data, whatever an epoch takes of it"
    assert Loader(folder, 2).dataset is folder and Loader(part, 2).dataset is part and Loader(pairs, 2).dataset is pairs
    loader = Loader(tree, 2)
    assert loader.dataset.classes == folder.classes and loader.dataset.class_to_idx == folder.class_to_idx
    # ImageNet's classes have several names each.
    folder.classes, folder.class_to_idx = [("cat", "house cat"), ("dog",)], {"cat": 0, "house cat": 0, "dog": 1}
    assert Loader(folder, 2).classes == folder.classes and Loader(folder, 2).class_to_idx == folder.class_to_idx


# ---- images ----


def test_images_of_floats_stay_as_they_are(capfd):
    rng = np.random.default_rng(SEED)
    values = rng.normal(0.5, 2, (4, 3, 24, 32)).astype(np.float32)  # values outside of 0..1, as if they were normalised
    tensors = torch.from_numpy(values)
    source = torch.utils.data.TensorDataset(tensors, torch.arange(4))
    batch = first(source, 4)
    assert torch.equal(batch.image, tensors) and batch.label.tolist() == [0, 1, 2, 3]
    rows = np.ascontiguousarray(values.transpose(0, 2, 3, 1))
    for give in (tensors.double(), tensors.to(torch.float16), rows, rows.astype(np.float64)):
        assert torch.allclose(first(Set(4, lambda i, g=give: (g[i], i)), 4).image, tensors, atol=3e-3)
    mean, std = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
    made = first(source, 4, transforms=[T.RandomHorizontalFlip(1), T.CenterCrop(16), T.ToTensor(), T.Normalize(mean, std)]).image
    torchvision = import_torchvision()
    tv = torchvision.transforms
    want = tv.Compose([tv.RandomHorizontalFlip(1), tv.CenterCrop(16), tv.Normalize(mean, std)])(tensors)
    assert torch.allclose(made, want, atol=1e-6)
    resized = first(source, 4, transforms=[T.Resize((12, 20))]).image
    assert torch.allclose(resized, tv.Resize((12, 20), antialias=True)(tensors), atol=1e-4)
    gray = Image.fromarray(values[0, 0])
    assert gray.mode == "F" and torch.equal(first(Set(2, lambda i: (gray, i))).image[0], tv.ToTensor()(gray))
    for refused in ([T.RandomEqualize(1.0)], [T.JPEG(50)], [T.RandomApply([T.RandomPosterize(1)])]):
        with pytest.raises(InvalidArgumentError, match="have floats"):
            first(source, transforms=refused)
    with pytest.raises(InvalidArgumentError, match="cut to whole numbers"):
        first(source, dtype=torch.uint8)
    assert capfd.readouterr().err.count("images of floats") <= 1


def test_pixels_of_other_forms_are_those_of_torchvision():
    torchvision = import_torchvision()
    planes = torch.from_numpy(PICTURE).permute(2, 0, 1)
    for image in (planes, planes.contiguous(), torchvision.tv_tensors.Image(planes), torch.from_numpy(PICTURE)):
        assert torch.equal(first(Set(2, lambda i, x=image: (x, i)), dtype=torch.uint8).image[0], planes)
    gray = PICTURE[..., 0]
    for image in (gray, torch.from_numpy(gray), torch.from_numpy(gray)[None], gray[..., None]):
        assert torch.equal(first(Set(2, lambda i, x=image: (x, i)), dtype=torch.uint8).image[0, 0], torch.from_numpy(gray))
    deep = np.arange(2000, dtype=np.uint16).reshape(40, 50) * 32
    scan = Image.fromarray(deep)
    assert scan.mode.startswith("I;16")
    assert np.array_equal(first(Set(2, lambda i: (scan, i)), dtype=torch.uint8).image[0, 1].numpy(), np.rint(deep / 257))
    for image, said in ((Image.fromarray(deep.astype(np.int32)), "mode I"), (np.repeat(deep[..., None], 3, 2), "uint16.*float32")):
        with pytest.raises(TypeError, match=said):
            first(Set(2, lambda i, x=image: (x, i)))


def test_gray_arrays_become_three_channels_where_it_is_asked():
    torchvision = import_torchvision()
    tv, v2 = torchvision.transforms, torchvision.transforms.v2
    images = np.random.default_rng(SEED).integers(0, 256, (4, 28, 28), np.uint8)
    for steps in (
        [tv.Grayscale(3), tv.Resize(32), tv.ToTensor()],
        [v2.RGB(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)],
        [tv.Grayscale(1), tv.ToTensor()],
        [v2.Grayscale(1), v2.RGB(), tv.ToTensor()],
    ):
        want = torch.stack([torch.as_tensor(tv.Compose(steps)(Image.fromarray(x))) for x in images])
        got = first((images, np.arange(4)), 4, transforms=steps).image
        assert got.shape == want.shape and (got - want).abs().max() <= 1.001 / 255


# ---- samples and targets ----


def test_samples_with_names():
    Pair = collections.namedtuple("Pair", "label image extra")

    @dataclasses.dataclass
    class Record:
        label: int
        image: object
        extra: float

    for sample in (Pair(3, PICTURE, 2.5), Record(3, PICTURE, 2.5), collections.OrderedDict(label=3, image=PICTURE, extra=2.5)):
        batch = first(Set([sample] * 2))
        assert batch._fields == ("image", "label", "extra") and batch.label.tolist() == [3, 3] and batch.extra.tolist() == [2.5, 2.5]
        assert first(Set([sample] * 2), fields=("extra", "image"))._fields == ("extra", "image")
    with pytest.raises(TypeError, match=r"fields=.*pixel_values"):
        first(Set([{"pixel_values": PICTURE}] * 2))


def test_a_loop_that_reads_dicts():
    """A segmentation Dataset of dicts gives its loop the same dicts as torch's DataLoader, in each batch."""
    samples = [{"image": torch.rand(3, 6, 8), "mask": torch.arange(48).reshape(6, 8) % 2} for _ in range(5)]
    loader = Loader(Set(samples), 2, collate_fn=lambda batch: batch._asdict())
    whole = list(torch.utils.data.DataLoader(Set(samples), 2))
    assert len(whole) == len(loader)
    for a, b in zip(loader, whole, strict=True):
        assert type(a) is dict and list(a) == list(b)
        assert all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in b)


def test_fields_that_are_not_wanted_are_not_converted():
    nested = {"image": PICTURE, "label": 1, "meta": {"a": [None]}, "class": object()}
    assert first(Set([nested] * 2), fields=("image", "label")).label.tolist() == [1, 1]
    # A dict as in VOCDetection's targets.
    assert first(Set([(PICTURE, {"annotation": {"object": []}})] * 2), fields=("image",))._fields == ("image",)
    assert first(Set([(PICTURE, object())] * 2), fields=("image", "index")).index.tolist() == [0, 1]
    with pytest.raises(TypeError, match=r"dict as target 2 \('meta'\).*leave the names out"):
        first(Set([{k: nested[k] for k in ("image", "label", "meta")}] * 2))
    for key in ("class", "_x", "a b", 3):
        with pytest.raises(InvalidArgumentError, match="name the fields that you want"):
            first(Set([{"image": PICTURE, key: 1}] * 2))
    with pytest.raises(InvalidArgumentError, match="'valid' of their own"):
        first(Set([{"image": PICTURE, "valid": 1}] * 3), last_batch="pad")


def test_a_path_is_what_the_dataset_says_it_is(files):
    """The field "path" is the Dataset's own value, and is refused if the Dataset has none."""
    named = Set(4, lambda i: {"image": str(files[i]), "path": f"p{i}"})
    assert first(named, transforms=[T.Resize((8, 8))], fields=("image", "path")).path == ["p0", "p1"]
    assert first(Set(4, lambda i: (PICTURE, i, f"p{i}")), fields=("image", "label", "path")).path == ["p0", "p1"]
    for source in (Set(4, lambda i: (PICTURE, i)), (np.zeros((4, 8, 8, 3), np.uint8), np.arange(4))):
        with pytest.raises(InvalidArgumentError, match="label, path are 2 targets"):
            first(source, fields=("image", "label", "path"))
    with pytest.raises(InvalidArgumentError, match="no 'path'"):
        first(Set(4, lambda i: {"image": PICTURE}), fields=("image", "path"))


def test_targets_have_one_type():
    def labels(*values, **arguments):
        return [b.label for b in Loader(Set([(PICTURE, v) for v in values]), 2, **arguments)]

    assert [x.tolist() for x in labels(2.5, 1, True, 3)] == [[2.5, 1.0], [1.0, 3.0]]
    assert all(x.dtype is torch.float32 for x in labels([1.5, 2], [3, 4]) + labels(np.float64(0.1), 0.2))
    for values, said in (
        ((1, 2, 2.5, 3.5), "float32 as target 1, and int64 in its first sample.*float"),
        (("a", "b", 1, 2), "strings as target 1 of some samples"),
        ((1, 2, "a", "b"), "strings as target 1 of some samples"),
    ):
        with pytest.raises(TypeError, match=said) as caught:
            labels(*values)
        assert caught.value.__notes__[0] == "in dataset[2]"
    for value in ((1, PICTURE), ["a", "b"]):
        with pytest.raises(TypeError, match=r"as target 1: it is a number.*\(image, \*targets\)"):
            labels(value, value)


@pytest.mark.parametrize("counts", [(0, 2, 3, 0), (2, 0, 0, 1), (0, 0, 2, 2)])
def test_images_without_objects(counts):
    """COCO has images without objects. For these, a Dataset in plain Python gives empty lists, and no masks. Both go through the same geometry as other
    boxes and masks."""

    def give(i):
        n = counts[i]
        masks = np.zeros((n, 40, 50), np.uint8)
        for k in range(n):
            masks[k, 4 * k : 4 * k + 4, 10:20] = 1 + k
        boxes = [[10, 4 * k, 10, 4] for k in range(n)]
        typed = np.asarray([7] * n, np.int64)
        return {"image": PICTURE, "boxes": boxes, "masks": masks, "labels": [1.5] * n, "crowd": typed, "points": [[1.0, 2.0]] * n}

    fields = {"image": "Image", "boxes": ("BoundingBoxes", "XYWH"), "masks": "Mask", "labels": list, "crowd": list, "points": "KeyPoints"}
    seen = 0
    for batch in Loader(Set(4, give), 2, fields=fields, transforms=[T.Resize((20, 25)), T.RandomHorizontalFlip(1)]):
        for boxes, masks, labels, crowd, points in zip(batch.boxes, batch.masks, batch.labels, batch.crowd, batch.points, strict=True):
            n, seen = counts[seen], seen + 1
            assert boxes.shape == (n, 4) and masks.shape == (n, 20, 25) and labels.tolist() == [1.5] * n and points.shape == (n, 2)
            assert crowd.dtype is torch.int64 and crowd.tolist() == [7] * n
            for k in range(n):
                assert boxes[k].tolist() == [15, 2 * k, 5, 2]
                assert masks[k].amax() == 1 + k and masks[k, 2 * k : 2 * k + 2, 15:20].eq(1 + k).all()
    assert seen == 4


def test_a_mask_may_have_a_channel():
    mask = np.arange(2000, dtype=np.int32).reshape(40, 50)
    made = [
        first(Set([(PICTURE, m)] * 2), fields={"image": "Image", "mask": "Mask"}, transforms=[T.CenterCrop(16)]).mask
        for m in (mask, mask[..., None])
    ]
    assert torch.equal(*made) and made[0].shape == (2, 16, 16)


# ---- data that changes ----


def test_a_dataset_may_change_between_epochs():
    """Like a DataLoader, the Loader reads no sample of an epoch before its `for` begins, and uses the Dataset's length at that time."""
    source = Set(4, lambda i: (PICTURE, value))
    loader, value = Loader(source, 2), 0
    for value in range(4):
        source.samples = range(4 + 2 * (value % 2))
        got = [x for b in loader for x in b.label.tolist()]
        assert got == [value] * len(source) and len(loader) == len(source) // 2
    running = iter(loader)
    next(running)
    value = 9
    assert [x for b in loader for x in b.label.tolist()] == [9] * 6, "a new epoch, which begins after the change"
    loader.close()
    pipe = Loader(source, 2).pipeline
    for _ in range(2):  # runs two epochs of the pipeline without the Loader
        assert [pipe.run()[1].as_array().tolist() for _ in range(3)] == [[9, 9]] * 3
        with pytest.raises(StopIteration):
            pipe.run()
        pipe.reset()


def test_a_source_that_can_be_iterated_once_is_not_empty_in_the_next_epoch(files):
    loader = Loader(((str(f), k) for k, f in enumerate(files[:4])), 2, transforms=[T.Resize((8, 8))])
    assert [b.label.tolist() for b in loader] == [[0, 1], [2, 3]]
    with pytest.raises(StateError, match="iterated once"):
        next(iter(loader))
    with pytest.raises(InvalidArgumentError, match="iterated once"):
        loader = Loader(str(files[0].parent.parent), 2, sampler=iter([1, 2]), transforms=[T.Resize((8, 8))])
        list(loader), list(loader)


# ---- tables ----

# The texts that pandas.read_csv takes for missing values by default, without those that Python reads as the float nan.
MISSING = ["#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "None", "n/a", "null"]


def table(tmp_path, files, text, **arguments):
    path = tmp_path / "ü, table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for k in range(2):
        (tmp_path / f"{k}, ü.jpg").write_bytes(files[k].read_bytes())
    return Loader.from_csv(path, 2, transforms=[T.Resize((8, 8))], **arguments)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_tables_in_files(tmp_path, files, end):
    lines = ["path,n,x,text,ok,code", '"0, ü.jpg",7,1.5,"a, ""b""",True,1_000', '"1, ü.jpg",-3,2,ü,False,2_000', ""]
    for mark in (b"", b"\xef\xbb\xbf"):
        batch = next(iter(table(tmp_path, files, mark + end.join(lines).encode())))
        assert batch.n.tolist() == [7, -3] and batch.x.tolist() == [1.5, 2.0] and batch.text == ['a, "b"', "ü"]
        assert batch.ok.tolist() == [1, 0] and batch.code == ["1_000", "2_000"], "as pandas reads them"
    for values in (["NA", "DE"], ["NA", "null"], ["1_000", "NA"]):
        text = f'path,land\n"0, ü.jpg",{values[0]}\n"1, ü.jpg",{values[1]}\n'
        assert next(iter(table(tmp_path, files, text))).land == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("path,index\na,1\n", "column 'index'.*targets="),
        ("path,image\na,1\n", "column 'image'.*targets="),
        ("path,valid\na,1\n", "column 'valid'"),
        ("file,path\na,1\n", "column 'path'"),
        (",path,y\n0,a,1\n", "index=False"),
        ("path;y\na;1\n", "';' between its columns.*sep=';'"),
        ("path,y\n,1\n", "row 1 has no path"),
        ("path,y\na,\nb,2\n", "row 1 has no value for 'y'"),
        ("path,y\na,NaN\nb,2\n", "row 1 has no value for 'y'"),
        *((f"path,y\na,1\nb,{text}\n", f"row 2 has no value for 'y': it holds '{text}'") for text in MISSING),
        ("path,y\na,true\nb,NA\n", "row 2 has no value for 'y': it holds 'NA'"),
        ("path,y\na,99999999999999999999\n", "column 'y'.*64 bits"),
        ("path,y\na,é\n".encode("latin1"), "UTF-8.*encoding="),
        (gzip.compress(b"path,y\na,1\n", mtime=0), r"is compressed: .*pandas\.read_csv"),
        ("path,y,z,y\na,1,2,3\n", "each once, and it has 'y' 2 times"),
        ("path,y\na,1\nb\0c,2\n", r"row 2: the path 'b\\x00c' holds a zero byte"),
    ],
)
def test_tables_that_cannot_be_meant(tmp_path, files, text, said):
    column = {"path": "file"} if not isinstance(text, bytes) and text.startswith("file") else {}
    with pytest.raises(InvalidArgumentError, match=said):
        table(tmp_path, files, text, **column)


class Frame:
    """A replacement for pandas.DataFrame with the parts that the library uses, if pandas is not installed."""

    class Missing:
        def __bool__(self):
            raise TypeError("boolean value of NA is ambiguous")

        def __eq__(self, other):
            return self

        __ne__, __hash__ = __eq__, None

        def __repr__(self):
            return "<NA>"

    def __init__(self, columns):
        self.held, self.columns, self.iloc = columns, [name for name, _ in columns], None

    def __getitem__(self, name):
        return np.array(dict(self.held)[name], object)


def test_tables_in_memory(files):
    paths = [str(f) for f in files[:2]]
    with pytest.raises(InvalidArgumentError, match="row 2 has no value for 'n'"):
        Loader.from_csv(Frame([("path", paths), ("n", [1, Frame.Missing()])]), 2)
    with pytest.raises(InvalidArgumentError, match="several columns of one name: path, n, n"):
        Loader.from_csv(Frame([("path", paths), ("n", [1, 2]), ("n", [1, 2])]), 2)
    with pytest.raises(InvalidArgumentError, match="row 2 has no path"):
        Loader.from_csv(Frame([("path", [paths[0], float("nan")]), ("n", [1, 2])]), 2)
    for source in (Frame([("path", paths), ("n", [1, 2])]), "train.csv"):
        with pytest.raises(InvalidArgumentError, match=r"Loader\.from_csv"):
            Loader(source, 2)
    with pytest.raises(InvalidArgumentError, match=r"give one of them \(train, test\)"):
        Loader({"train": [], "test": []}, 2)


class Column:
    """A replacement for pandas.Series whose index is that of a filtered table: an entry's label differs from its position."""

    def __init__(self, values):
        self.values = self.iloc = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, label):
        return self.values[{10 * k: k for k in range(len(self.values))}[label]]

    def __iter__(self):
        return iter(self.values)

    def tolist(self):
        return list(self.values)


def test_columns_of_paths(files):
    """Arrays of strings and columns of tables are lists of paths."""
    paths, small = [str(f) for f in files[:3]], {"transforms": [T.Resize((8, 8))]}
    want = torch.cat([b.image for b in Loader(paths, 2, **small)])
    for source in (np.array(paths), list(np.array(paths)), np.array(paths, bytes), Column(paths)):
        assert torch.equal(torch.cat([b.image for b in Loader(source, 2, **small)]), want), type(source)
    for pair in (
        (np.array(paths), np.array([3, 1, 2])),
        (Column(paths), Column([3, 1, 2])),
        list(zip(np.array(paths), [3, 1, 2], strict=True)),
    ):
        assert [x for b in Loader(pair, 2, **small) for x in b.label.tolist()] == [3, 1, 2]
    with pytest.raises(InvalidArgumentError, match=r"2 dimensions.*give \(paths, labels\)"):
        Loader(np.array([[p, "1"] for p in paths]), 2)
    for kind in (set, frozenset):
        with pytest.raises(InvalidArgumentError, match=r"sorted\(paths\)"):
            Loader(kind(paths), 2)


def test_tables_of_other_packages(files):
    pyarrow = pytest.importorskip("pyarrow")

    class Polars:
        """Has the parts of polars.DataFrame that the library uses."""

        columns = ("path", "n")

        def __getitem__(self, name):
            return type("Series", (), {"to_list": lambda _: values[name]})()

    values = {"path": [str(f) for f in files[:3]], "n": [3, 1, 2]}
    for source in (pyarrow.table(values), Polars()):
        (batch,) = Loader.from_csv(source, 3, transforms=[T.Resize((8, 8))])
        assert batch.n.tolist() == [3, 1, 2] and batch._fields == ("image", "n")
    with pytest.raises(InvalidArgumentError, match="row 2 has no value for 'n'"):
        Loader.from_csv(pyarrow.table({**values, "n": [3, None, 2]}), 3)


def test_tables_without_targets(files, tmp_path):
    """Batches of a table without targets have only images. They must not get the numbers of the rows as targets."""
    for text, targets in ((f"path\n{files[0]}\n", None), (f"path,n\n{files[0]},1\n", []), (f"path,n\n{files[0]},1\n", {})):
        batch = next(iter(table(tmp_path, files, text, targets=targets)))
        assert batch._fields == ("image",)
    with pytest.raises(InvalidArgumentError, match="has no column ''"):
        table(tmp_path, files, "path,n\na,1\n", targets="")


def test_fields_of_tables_that_are_no_columns_of_paths(files, tmp_path):
    text = f"path,mask,boxes\n{files[0]},{files[0]},1\n{files[0]},,1\n"
    for kind, said in (
        ({"mask": "Mask"}, "'mask' is a Mask, .* hold paths: in row 2 it holds ''"),
        ({"seg": "Mask"}, "a column of this name has to hold paths$"),
        ({"boxes": "BoundingBoxes"}, "'boxes' is of the kind BoundingBoxes, .*give a Dataset"),
        ({"boxes": "KeyPoints"}, "KeyPoints, .*give a Dataset"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            table(tmp_path, files, text, fields={"image": "Image", **kind})


# ---- processes and arguments ----


def _end(i):
    if i == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return PICTURE, i


def _interrupt(i):
    if i == 3:
        raise KeyboardInterrupt
    return PICTURE, i


@pytest.mark.parametrize(
    ("give", "said"), [(_end, r"ended by SIGKILL \(as where memory is short\) in dataset\[3\]"), (_interrupt, "raised KeyboardInterrupt")]
)
def test_processes_that_end(give, said, capfd):
    with pytest.raises(RuntimeError, match=said):
        list(Loader(Set(6, give), 2, python_workers=2))
    assert "Traceback" not in capfd.readouterr().err


def test_arguments_of_dataloader_and_masks_as_samplers():
    source = Set(4, lambda i: (PICTURE, i))
    assert len(list(Loader(source, 2, in_order=True, pin_memory_device=""))) == 2
    for mask in ([True, False, True, True], np.array([True, False, True, True])):
        with pytest.raises(InvalidArgumentError, match="flatnonzero"):
            Loader(source, 2, sampler=mask)
    with pytest.raises(InvalidArgumentError, match="last_batch='keep'"):
        first(source, 8, shuffle=True, drop_last=True)
    assert [len(b.label) for b in Loader(source, 8, shuffle=True)] == [4]


def test_a_folder_whose_files_another_function_reads(tree):
    torchvision = import_torchvision()
    folder = torchvision.datasets.ImageFolder(
        tree, loader=lambda path: Image.open(path).convert("L").resize((8, 8)), transform=torchvision.transforms.ToTensor()
    )
    batch = first(folder, 4)
    assert torch.equal(batch.image, torch.stack([folder[i][0] for i in range(4)])) and batch.label.tolist() == [0] * 4


# ---- what a DataLoader makes of the same source ----


def taken(loader, field=1):
    return [value for batch in loader for value in batch[field].tolist()]


def test_subclasses_say_which_samples_there_are(tree):
    """The Loader uses the __len__ and __getitem__ that a subclass defines, as a DataLoader does."""
    torchvision = import_torchvision()

    class Short(torchvision.datasets.ImageFolder):
        def __len__(self):
            return 5

    class Part(torch.utils.data.Subset):
        def __len__(self):
            return 2

    whole = torchvision.datasets.ImageFolder(tree, torchvision.transforms.ToTensor())
    for source in (Short(tree, torchvision.transforms.ToTensor()), Part(whole, [20, 3, 7]), torch.utils.data.Subset(whole, [20, 3, 7])):
        alone = Loader(source, 1, last_batch="keep")
        assert taken(alone) == taken(torch.utils.data.DataLoader(source)) and len(alone) == len(source)


def test_changes_of_a_data_set_whose_files_were_read(tree):
    """The Loader reads the files and the transform of torchvision's data sets once. A DataLoader would follow the changes."""
    torchvision = import_torchvision()
    small = torchvision.transforms.Compose([torchvision.transforms.Resize((8, 8)), torchvision.transforms.ToTensor()])

    def folder():
        return torchvision.datasets.ImageFolder(tree, small)

    def part(whole):
        return torch.utils.data.Subset(whole, [1, 2, 3])

    def in_memory(name, data, targets):
        kind = getattr(torchvision.datasets, name)
        source = kind.__new__(kind)
        source.data, source.targets, source.transform, source.target_transform, source.transforms = data, targets, small, None, None
        return source

    def replace(name, value):
        return lambda source: setattr(source, name, value)

    def inside(change):
        return lambda source: change(source.dataset)

    pairs = folder()
    pairs.samples = [[path, target] for path, target in pairs.samples]
    tuples = folder()
    tuples.samples = [(path, [target, target]) for path, target in tuples.samples]
    for source, change, name in (
        (folder(), replace("transform", None), "transform"),
        (folder(), lambda s: setattr(s, "samples", s.samples[:4]), "samples"),
        (folder(), lambda s: s.samples.pop(), "samples"),
        (part(folder()), replace("indices", [5]), "indices"),
        (part(folder()), inside(replace("transform", small.transforms[1])), "transform"),
        (torch.utils.data.ConcatDataset([folder(), folder()]), lambda s: replace("transform", None)(s.datasets[1]), "transform"),
        (folder(), lambda s: s.samples.__setitem__(3, (s.samples[3][0], 9)), "samples"),
        (folder(), lambda s: s.samples.reverse(), "samples"),
        (part(folder()), lambda s: s.indices.__setitem__(1, 7), "indices"),
        (torch.utils.data.Subset(folder(), np.arange(3)), lambda s: s.indices.__setitem__(1, 7), "indices"),
        (part(folder()), inside(lambda s: s.samples.__setitem__(20, (s.samples[20][0], np.zeros(2)))), "samples"),
        (pairs, lambda s: s.samples[2].__setitem__(1, 1), "samples"),
        (tuples, lambda s: s.samples[2][1].__setitem__(1, 1), "samples"),
        (in_memory("MNIST", torch.zeros(4, 6, 5, dtype=torch.uint8), torch.zeros(4)), lambda s: s.targets.add_(1), "targets"),
        (in_memory("MNIST", torch.zeros(4, 6, 5, dtype=torch.uint8), torch.zeros(4)), lambda s: s.data[3].add_(1), "data"),
        (in_memory("CIFAR10", np.zeros((4, 6, 5, 3), np.uint8), [0] * 4), lambda s: s.targets.__setitem__(1, 2), "targets"),
        (in_memory("CIFAR10", np.zeros((4, 6, 5, 3), np.uint8), [0] * 4), lambda s: s.data.__setitem__(1, 2), "data"),
    ):
        loader = Loader(source, 4)
        assert sum(len(b.label) for b in loader) == len(source)
        change(source)
        with pytest.raises(StateError, match=f"its {name} was changed after the Loader had read it"):
            iter(loader)
    kept = folder()
    kept.labels, kept.data = torch.zeros(len(kept)), [0]  # attributes that other data sets have
    loader = Loader(kept, 4)
    kept.targets, kept.epoch = [], 3
    kept.labels[:], kept.data[0] = 1, 1
    kept.samples[3] = (str(kept.samples[3][0]), int(kept.samples[3][1]))  # an equal entry
    assert len(list(loader)) == len(loader) == len(list(loader))


def test_only_the_samples_of_a_subset_are_compared():
    """Changes of other samples have no effect on the batches."""
    torchvision = import_torchvision()

    def cifar():
        source = torchvision.datasets.CIFAR10.__new__(torchvision.datasets.CIFAR10)
        source.data, source.targets = np.zeros((40, 6, 5, 3), np.uint8), [0] * 40
        source.transform, source.target_transform, source.transforms = torchvision.transforms.ToTensor(), None, None
        return source

    def subset(source, ids):
        return torch.utils.data.Subset(source, ids)

    shapes = (
        lambda s: subset(s, [1, 5, -1]),
        lambda s: subset(subset(s, [7, 5, 1, 39, 8]), np.array([1, 2, 3])),
        lambda s: torch.utils.data.ConcatDataset([subset(s, range(5, 6)), subset(s, [39, 1])]),
        lambda s: subset(torch.utils.data.ConcatDataset([subset(s, [0, 1, 2]), subset(s, [39, 5])]), [1, 3, -1]),
    )
    for shape in shapes:
        for changed in range(40):
            source = cifar()
            loader = Loader(shape(source), 3)
            source.data[changed, 5, 4, 2] = 1
            with pytest.raises(StateError, match="its data") if changed in (1, 5, 39) else contextlib.nullcontext():
                loader._spec.check_taken()


@pytest.mark.parametrize("kind", ["array", "tensor", "transposed", "subset"])
def test_of_many_images_only_some_are_compared(kind, monkeypatch):
    """Each epoch would begin with the time of a checksum of all images. Changes of all of them, or of many in a row, are noticed. Labels are all compared."""
    from stoker.loader.sources import _contents, _known

    torchvision = import_torchvision()

    def source():
        if kind == "tensor":
            made = torchvision.datasets.MNIST.__new__(torchvision.datasets.MNIST)
            made.data, made.targets = torch.zeros(20_000, 28, 28, dtype=torch.uint8), torch.zeros(20_000, dtype=torch.int64)
        else:
            made = torchvision.datasets.CIFAR10.__new__(torchvision.datasets.CIFAR10)
            made.data, made.targets = np.zeros((5000, 32, 32, 3), np.uint8), [0] * 5000
            if kind == "transposed":  # as torchvision's own
                made.data = np.zeros((5000, 3, 32, 32), np.uint8).transpose(0, 2, 3, 1)
        made.transform, made.target_transform, made.transforms = torchvision.transforms.ToTensor(), None, None
        return made, torch.utils.data.Subset(made, range(0, len(made.data), 2)) if kind == "subset" else made

    read = []
    memory_of = _contents.memory_of
    monkeypatch.setattr(_known, "_MOST_OF_IMAGES", 1 << 20)
    monkeypatch.setattr(_contents, "memory_of", lambda a: read.append(a.nbytes) or memory_of(a))
    for change in (
        lambda d: d.data.__setitem__(slice(None), 1),
        lambda d: d.data.__setitem__(slice(1000, 1100), 1),
        lambda d: d.data.__setitem__(slice(2, None, 4) if kind == "subset" else slice(1, None, 2), 1),
        lambda d: d.targets.__setitem__(1234, 1),
    ):
        inside, whole = source()
        taken = _known.Taken(whole)
        read.clear()
        taken.check()
        assert sum(n for n in read if n != inside.data.nbytes) < 2 << 20
        change(inside)
        with pytest.raises(StateError):
            taken.check()


def test_what_was_read_is_compared_once_when_an_epoch_begins(monkeypatch):
    from stoker.loader._spec import Spec

    loader = Loader((np.zeros((8, 4, 4, 3), np.uint8), np.arange(8)), 2, sampler=range(8))
    calls, check = [], Spec.check_taken
    monkeypatch.setattr(Spec, "check_taken", lambda spec: calls.append(1) or check(spec))
    for epoch in range(1, 4):
        assert len(list(loader)) == 4
        assert len(calls) == epoch


@pytest.mark.parametrize(
    "indices",
    [
        np.array([3, 1, -1]),
        np.array([3, 1, 7], np.uint8),
        torch.tensor([3, 1, 7]),
        torch.tensor([3, 1, 7], dtype=torch.int32),
        torch.nonzero(torch.tensor([False, True, False, True])),
        torch.tensor([[3], [1]], dtype=torch.int32),
        [3, np.int64(1), torch.tensor(7)],
        range(1, 4),
        (i for i in (3, 1)),
    ],
    ids=lambda indices: type(indices).__name__,
)
def test_indices_of_a_subset_are_whole_numbers(indices):
    from stoker.loader.sources._known import ids_of

    indices = list(indices) if hasattr(indices, "send") else indices
    ids = ids_of(indices)
    assert ids == [int(i) for i in indices] and set(map(type, ids)) == {int}


@pytest.mark.parametrize(
    "indices",
    [[0.0, 1.0], np.array([True, False]), np.array([1.0]), torch.tensor([True]), [torch.tensor(True)], [True, 0], torch.tensor([0.5])],
    ids=str,
)
def test_indices_of_a_subset_that_are_no_whole_numbers(indices):
    from stoker.loader.sources._known import ids_of

    with pytest.raises(TypeError, match="the indices of a Subset are the ids of samples"):
        ids_of(indices)


class Preset:
    """A preset as torchvision's reference scripts write it."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        return self.transforms(img)


class RandomResizedCropAndInterpolation:
    """The attributes of timm's transform that stoker reads."""

    def __init__(self):
        self.size, self.scale, self.ratio, self.interpolation = (8, 8), (0.5, 1.0), (1.0, 1.0), "bilinear"

    def __call__(self, img):
        return img.resize(self.size)


RandomResizedCropAndInterpolation.__module__ = "timm.data.transforms"


def test_changes_inside_the_transform_of_a_data_set(tree):
    torchvision = import_torchvision()
    old, new = torchvision.transforms, pytest.importorskip("torchvision.transforms.v2")

    def small(t, *more):
        return t.Compose([t.Resize((8, 8)), *more, t.PILToTensor(), t.ConvertImageDtype(torch.float32)])

    def also_inside(t):
        return small(t, t.RandomApply([t.ColorJitter(0.5)], p=0.2))

    for transform, change in (
        (small(old), lambda t: t.transforms.append(old.Normalize([0.5] * 3, [0.2] * 3))),
        (small(old), lambda t: t.transforms.pop(0)),
        (small(old), lambda t: setattr(t.transforms[0], "size", (4, 4))),
        (small(new), lambda t: t.transforms.insert(1, new.RandomHorizontalFlip())),
        (new.Compose([*small(new).transforms, new.Normalize([0.5] * 3, [0.2] * 3)]), lambda t: t.transforms[3].mean.__setitem__(0, 0.1)),
        (also_inside(old), lambda t: setattr(t.transforms[1], "p", 0.9)),
        (also_inside(old), lambda t: setattr(t.transforms[1].transforms[0], "brightness", [0.1, 3.0])),
        (torch.nn.Sequential(new.Resize((8, 8)), new.PILToTensor()), lambda t: t.append(new.RandomHorizontalFlip())),
        (Preset(small(new)), lambda t: setattr(t, "transforms", new.Compose([new.Resize((4, 4)), new.PILToTensor()]))),
        (Preset(small(old)), lambda t: setattr(t.transforms.transforms[0], "size", (4, 4))),
        (Preset(small(old)), lambda t: setattr(t, "transforms", [old.Resize((8, 8)), 5])),
        (old.Compose([RandomResizedCropAndInterpolation(), old.ToTensor()]), lambda t: setattr(t.transforms[0], "size", (4, 4))),
    ):
        for indices in (None, [0, 2]):
            own = copy.deepcopy(transform)
            source = torchvision.datasets.ImageFolder(tree, own)
            source = source if indices is None else torch.utils.data.Subset(source, indices)
            loader = Loader(source, 4)
            assert len(list(loader)) == len(loader) and source[0]
            if isinstance(own, torch.nn.Module):
                own.eval()
            assert len(list(loader)) == len(loader)  # neither a call nor eval() changes what a transform does
            change(own)
            with pytest.raises(StateError, match="its transform was changed after the Loader had read it"):
                iter(loader)


def test_transforms_of_a_data_set_that_run_in_python_may_change(tree):
    torchvision = import_torchvision()

    class Larger(torchvision.transforms.Resize):
        def forward(self, img):
            return super().forward(img)

    resize, matrix = Larger((8, 8)), torch.eye(192)
    whiten = torchvision.transforms.LinearTransformation(matrix, torch.zeros(192))
    source = torchvision.datasets.ImageFolder(tree, torchvision.transforms.Compose([resize, torchvision.transforms.ToTensor(), whiten]))
    loader = Loader(source, 7)
    for scale in (1, 2):
        whiten.transformation_matrix = matrix * scale
        for got, wanted in zip(loader, torch.utils.data.DataLoader(source, 7), strict=True):
            assert torch.allclose(got[0], wanted[0], atol=1e-2)


def test_large_arrays_are_settings():
    from stoker.loader.sources._known import _settings_of

    for array in (np.zeros(20000), np.zeros((300, 400), order="F")[:, ::2], torch.zeros(20000), torch.zeros(20000).to(torch.bfloat16)):
        before = _settings_of([array])
        assert _settings_of([array]) == before == _settings_of([array + 0]) != _settings_of([array.reshape(-1, 2)])
        array[..., -1] = 1
        assert _settings_of([array]) != before


def lists_of_transforms():
    """Returns pairs of a list of transforms, of stoker, of torchvision's v1 or of its v2, and of a function that changes it."""
    old, new = import_torchvision().transforms, pytest.importorskip("torchvision.transforms.v2")

    def on_p(k):
        return lambda steps: setattr(steps[k], "p", 1.0)

    class Mine(T.RandomInvert):
        pass

    for t in (T, old, new):
        yield [t.Resize((8, 8)), t.RandomInvert(0.0)], on_p(1)
        yield [t.Resize((8, 8))], lambda steps, t=t: steps.append(t.RandomInvert(1.0))
        yield [t.Resize((8, 8)), t.RandomApply([t.RandomInvert(0.0)], 1.0)], lambda steps: setattr(steps[1].transforms[0], "p", 1.0)
        yield t.Compose([t.Resize((8, 8)), t.RandomInvert(0.0)]), lambda one: one.transforms.pop()
    yield [T.Resize((8, 8)), Mine(0.0)], on_p(1)


def test_attributes_of_the_users_own_are_no_change_of_a_transform():
    images = np.stack([PICTURE] * 4)
    for t in (T.RandomInvert(1.0), pytest.importorskip("torchvision.transforms.v2").RandomInvert(1.0)):
        t.owner = {"invert": [t]}
        loader = Loader((images, np.arange(4)), 2, transforms=[t])
        assert len(list(loader)) == 2
        t.label = "strong"
        assert len(list(loader)) == 2


@pytest.mark.parametrize("sampler", [None, lambda epoch: [3, 1, 2, 0]])
@pytest.mark.parametrize("argument", ["transforms", "views", "batch_transforms"])
def test_changes_of_the_transforms_of_a_loader(tree, argument, sampler):
    """A pipeline that is made later, as for each epoch of a sampler, would otherwise differ from the first one, and so would a run that is resumed."""
    new = pytest.importorskip("torchvision.transforms.v2")
    images = np.stack([PICTURE] * 4)
    cases = list(lists_of_transforms())
    if argument == "batch_transforms":
        cases = [
            ([new.MixUp(num_classes=4)], lambda steps: setattr(steps[0], "alpha", 0.1)),
            ([T.MixUp(num_classes=4)], lambda steps: steps.pop()),
            (
                [new.RandomChoice([new.CutMix(num_classes=4), T.CutMix(num_classes=4)])],
                lambda steps: setattr(steps[0].transforms[0], "alpha", 0.1),
            ),
        ]
    for transforms, change in cases:
        given = {argument: [(1, transforms)] if argument == "views" else transforms}
        loader = Loader((images, np.arange(4)), 2, sampler=sampler, **given)
        assert len(list(loader)) == len(list(loader)) == 2
        unfinished = iter(loader)
        next(unfinished)
        change(transforms)
        assert len(list(unfinished)) == 1  # the epoch ends with the settings that it began with
        for _ in range(2):
            with pytest.raises(StateError, match=f"Loader: the argument {argument} was changed after the Loader had read it"):
                iter(loader)
        assert len(loader) == 2 and loader.epoch == 3
        again = Loader((images, np.arange(4)), 2, sampler=sampler, **given)
        again.load_state_dict(loader.state_dict())
        assert len(list(again)) == 2


def test_transforms_that_may_change():
    """Functions, and transforms of stoker that work on batches, run in Python and follow changes. An attribute that only torch reads changes nothing."""
    torchvision = import_torchvision()

    class Albumentation:
        def __call__(self, *, image):
            return {"image": image + self.added}

    Albumentation.__module__ = "albumentations"

    class Adding(torch.nn.Module):
        def forward(self, image):
            return image + self.added

    for step in (Albumentation(), Adding()):
        for given in ({"transforms": [T.RandomHorizontalFlip(0.0), step]}, {"views": [(1, [step])]}):
            step.added = 1
            loader = Loader((np.zeros((4, 6, 5, 3), np.uint8), np.arange(4)), 4, **given)
            for added in (1, 3):
                step.added = added
                assert len(list(loader)) == 1
    mixing = T.MixUp(num_classes=4)
    loader = Loader((np.zeros((4, 6, 5, 3), np.uint8), np.arange(4)), 4, batch_transforms=[mixing])
    assert list(loader)
    mixing.alpha = 1e-6
    assert set(next(iter(loader)).label.flatten().tolist()) == {0.0, 1.0}
    warp = torchvision.transforms.Compose([torchvision.transforms.RandomAffine(0, fill=(1, 2, 3)), torchvision.transforms.Resize((4, 4))])
    assert len(list(Loader((np.zeros((4, 6, 5, 3), np.uint8), np.arange(4)), 2, transforms=warp))) == 2


def test_a_transform_that_holds_classes_of_tensors(tree):
    """v2.Lambda(function, tv_tensors.Image) holds such a class, for example. A class of tensors has the attributes of a tensor, and no values."""
    from stoker.loader.sources._known import _settings_of

    torchvision = import_torchvision()

    def folder(kind):
        small = torchvision.transforms.Resize((8, 8))
        small.kinds = [kind, {"of": kind}]
        return torchvision.datasets.ImageFolder(tree, torchvision.transforms.Compose([small, torchvision.transforms.ToTensor()]))

    for kind, other in ((torch.Tensor, np.float32), (np.ndarray, torch.Tensor), (torch.nn.Parameter, torch.Tensor)):
        source = folder(kind)
        loader = Loader(source, 4)
        assert len(list(loader)) == len(list(loader)) == len(loader)
        before = _settings_of(source.transform)
        assert _settings_of(source.transform) == before
        source.transform.transforms[0].kinds[1]["of"] = other
        assert _settings_of(source.transform) != before
        assert len(list(loader)) == len(loader)  # Stoker's Resize has no such attribute
        for second in (kind, other):
            assert len(next(iter(Loader(torch.utils.data.ConcatDataset([folder(kind), folder(second)]), 4))).label) == 4


class Many(Set):
    """A Dataset whose __getitems__ adds 100 to the target. torch's DataLoader calls this method in place of __getitem__ if there is one."""

    def __getitems__(self, ids):
        return [(image, target + 100) for image, target in (super(Many, self).__getitem__(i) for i in ids)]


class OnlyMany:
    """A Dataset that has only __getitems__. Its __getitem__ raises NotImplementedError, as in a Dataset of torch that defines none."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        raise NotImplementedError

    def __getitems__(self, ids):
        return [(PICTURE, i) for i in ids]


class One(Many):
    """Replaces only __getitem__. torch's DataLoader calls the __getitems__ of the base class, and never this method."""

    def __getitem__(self, i):
        return PICTURE, -i


class Whole(Set):
    """A Dataset whose __getitems__ makes a batch."""

    def __getitems__(self, ids):
        return np.stack([PICTURE] * len(ids)), np.asarray(ids)


def numbered(index):
    return PICTURE, index


@pytest.mark.parametrize("workers", [0, 1])
def test_getitems_gives_the_samples(workers):
    subset = torch.utils.data.Subset
    for source, labels in (
        (Many(4, numbered), [100, 101, 102, 103]),
        (subset(Many(4, numbered), [3, 1]), [103, 101]),
        (torch.utils.data.ConcatDataset([subset(Many(4, numbered), [3])]), [3]),  # asks __getitem__, also in a DataLoader
        (OnlyMany(), [0, 1, 2, 3]),
        (One(4, numbered), [0, -1, -2, -3]),
        (Whole(4, numbered), [0, 1, 2, 3]),
    ):
        assert [x for b in Loader(source, 3, python_workers=workers) for x in b.label.tolist()] == labels, source


class Brightness:
    """A transform whose objects can have the same repr but different effects."""

    def __init__(self, value):
        self.value = value

    def __call__(self, image):
        return Image.new("RGB", image.size, (self.value,) * 3)

    def __repr__(self):
        return "Brightness()"


def test_parts_of_a_sum_have_the_transforms_that_they_have(tree):
    torchvision = import_torchvision()
    tv = torchvision.transforms

    def joined(*transforms):
        parts = [torchvision.datasets.ImageFolder(tree, tv.Compose([t, tv.Resize((8, 8)), tv.ToTensor()])) for t in transforms]
        return torch.utils.data.ConcatDataset(parts)

    def tint(value):
        return tv.Lambda(lambda image: Image.new("RGB", image.size, (value,) * 3))

    for source in (joined(Brightness(10), Brightness(200)), joined(tint(10), tint(200))):
        got = [float(i.mean()) for batch in Loader(source, 4) for i in batch[0]]
        want = [float(i.mean()) for batch in torch.utils.data.DataLoader(source, 4) for i in batch[0]]
        np.testing.assert_allclose(got, want, atol=1e-6)
    alike = joined(tv.RandomHorizontalFlip(0.5), tv.RandomHorizontalFlip(0.5))
    assert "42 files" in repr(Loader(alike, 4)), "what is alike stays in C"


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2,)])
def test_targets_keep_their_shape(shape):
    """Targets keep their shape and type, also (N, 1) for predictions of (N, 1): with a vector, a loss would broadcast to (N, N)."""
    for dtype in (np.float32, np.int64, np.uint64, np.int16, np.bool_):
        source = Set(5, lambda i, dtype=dtype: (PICTURE, np.full(shape, i % 2, dtype)))
        for made, want in zip(Loader(source, 2), torch.utils.data.DataLoader(range(5), 2), strict=True):
            assert made[1].shape == (len(want), *shape)
            np.testing.assert_array_equal(made[1].numpy().astype(np.int64), np.stack([np.full(shape, int(i) % 2) for i in want]))
    images, targets = np.zeros((5, 4, 4, 3), np.uint8), np.arange(5.0).reshape(5, 1)
    assert [tuple(b[1].shape) for b in Loader((images, targets), 2)] == [(2, 1), (2, 1), (1, 1)]
    assert first(Set(4, lambda i: (PICTURE, np.arange(i))), 1, fields={"image": "Image", "t": None}).t.shape == (1, 0)


def test_the_result_of_a_collate_fn_is_iterated(tree):
    assert list(Loader(tree, 8, transforms=[T.Resize((8, 8))], collate_fn=lambda batch: None)) == [None] * 3

    def ends(batch):
        raise StopIteration

    for arguments in ({"collate_fn": ends}, {"batch_transforms": lambda images, labels: next(iter(()))}):
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            list(Loader(tree, 8, transforms=[T.Resize((8, 8))], **arguments))


def test_a_fork_does_not_end_the_processes():
    """A forked copy of the program drops its copy of a loader. The processes of python_workers still belong to the parent."""
    loader = Loader(Set(40, lambda i: (PICTURE, i)), 4, python_workers=2)
    batches = iter(loader)
    labels = next(batches)[1].tolist()
    child = os.fork()
    if child == 0:
        loader.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert labels + taken(batches) == list(range(40))


def test_names_that_are_not_utf_8_are_strings():
    names = [os.fsdecode(b"\xff\xfe.jpg"), "\ud800", ""]
    assert first(Set(3, lambda i: (PICTURE, names[i])), 3).label == names


def test_targets_that_cannot_be_taken_are_named():
    for value, message in (
        (torch.ones(2, dtype=torch.bfloat16), r"torch.bfloat16 as target 1, which NumPy does not have: convert it, as by .float\(\)"),
        (torch.eye(2).to_sparse(), r"layout torch.sparse_coo as target 1: give a dense one"),
        (torch.eye(2) + 0j, "torch.complex64 as target 1"),
    ):
        with pytest.raises(TypeError, match=message):
            first(Set(2, lambda i, value=value: (PICTURE, value)))
    with pytest.raises(TypeError, match=r"int64 as target 1, and int32 in its first .* numpy.int64\)"):
        list(Loader(Set(2, lambda i: (PICTURE, [np.int32(1), np.int64(2)][i])), 1))


def test_numbers_of_any_byte_order_and_precision():
    for value, want in ((np.longdouble(1.5), torch.float32), (np.array([1.5, 2], np.longdouble), torch.float64)):
        assert first(Set(2, lambda i, value=value: (PICTURE, value))).label.dtype is want
    orders = [np.array([1, 2], ">i4"), np.array([3, 4], "<i4")]
    assert first(Set(2, lambda i: (PICTURE, orders[i]))).label.tolist() == [[1, 2], [3, 4]]


def test_images_without_pixels_and_with_negated_ones():
    with pytest.raises(ValueError, match=r"\(5, 0, 3\), which has no pixels"):
        first(Set(2, lambda i: Image.new("RGB", (0, 5))))
    negated = torch.ones(4, 5, 3)._neg_view()
    assert first(Set(2, lambda i: negated), layout="HWC").image.unique().tolist() == [-1]


def test_a_class_is_not_a_source():
    with pytest.raises(InvalidArgumentError, match=r"the source is the class Set: give an object of it, Set\(\.\.\.\)"):
        Loader(Set, 4)


def test_a_class_is_not_a_transform():
    for given in (T.Resize, [T.Resize((4, 4)), T.RandomHorizontalFlip], torch.nn.Identity):
        with pytest.raises(TypeError, match=r"is a class: \w+\(\.\.\.\)"):
            Loader(Set(2, lambda i: PICTURE), 2, transforms=given)


def labels(loader):
    return [v for batch in loader for v in (batch.label if isinstance(batch.label, list) else batch.label.tolist())]


def test_targets_of_arrays():
    images = np.random.default_rng(SEED).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    for targets, want in (
        (np.array(["a", "bc", ""]), ["a", "bc", ""]),
        (torch.tensor([0.5, 1.5, 2.5], dtype=torch.bfloat16), [0.5, 1.5, 2.5]),
        (torch.tensor([1.0, 2.0, 3.0], requires_grad=True), [1.0, 2.0, 3.0]),
        (torch.ones(3)._neg_view(), [-1.0, -1.0, -1.0]),
        (np.array([1, 2, 2**63 - 1], np.uint64), [1, 2, 2**63 - 1]),
    ):
        assert labels(Loader((images, targets), 2)) == want
    for targets, message in (
        (np.array([1, 2, 2**63], np.uint64), "whole numbers are int64 .64 bits., and 9223372036854775808 does not fit"),
        (5, "one for each of 3 images, not int"),
        ([[1], [1, 2], [3]], "differ in shape"),
        ([1, "a", 2], "numbers or strings, the same for all"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            Loader((images, targets), 2)


def test_links_that_lead_back_are_named(tmp_path):
    """A link to a folder that contains the link is refused by name; other links are followed. Otherwise two such links would be followed forever."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "a" / "1.png")
    Image.new("RGB", (4, 4)).save(tmp_path / "elsewhere.png")
    (tmp_path / "a" / "b" / "inner.png").symlink_to(tmp_path / "elsewhere.png")
    (tmp_path / "c").symlink_to("a")
    assert [int(batch.label) for batch in Loader(tmp_path, 1)] == [0, 0, 1, 1], "links that lead elsewhere are followed"
    for link, target in (("a/b/up", ".."), ("a/b/here", "."), ("a/b/top", "../..")):
        (tmp_path / link).symlink_to(target)
        with pytest.raises(LimitError, match=f"{link}: a link that leads back"):
            Loader(tmp_path, 1)
        (tmp_path / link).unlink()
    (tmp_path / "d").symlink_to(".")
    (tmp_path / "a" / "up").symlink_to("..")
    with pytest.raises(LimitError, match=r"a/up: a link that leads back"):
        Loader(tmp_path, 1)


@pytest.mark.parametrize("antialias", [False, None])
def test_resizing_tensors_without_a_filter_is_refused(antialias):
    """torchvision's Resize without antialias is refused for tensors, and accepted for PIL images, which torchvision always antialiases. NEAREST_EXACT and
    stoker's own Resize are also accepted for tensors."""
    v2 = pytest.importorskip("torchvision.transforms.v2") if import_torchvision() else None
    images = torch.from_numpy(np.random.default_rng(SEED).integers(0, 256, (2, 3, 24, 32), np.uint8))
    tensors = torch.utils.data.TensorDataset(images, torch.arange(2))
    resize = v2.Resize((9, 13), antialias=antialias)
    with pytest.raises(InvalidArgumentError, match=r"stoker\.transforms\.Resize with antialias=False"):
        first(tensors, 2, transforms=[resize])
    pictures = Set(2, lambda i: (Image.fromarray(PICTURE), i))
    with pytest.raises(InvalidArgumentError, match="antialias=False or None"):
        first(pictures, 2, transforms=[v2.PILToTensor(), resize])
    taken = first(pictures, 2, transforms=[resize, v2.PILToTensor()]).image
    want = v2.PILToTensor()(resize(Image.fromarray(PICTURE)))
    assert (taken[0].int() - want.int()).abs().max() <= 1
    own = first(tensors, 2, transforms=[T.Resize((9, 13), antialias=False), T.PILToTensor()]).image
    assert (own.int() - resize(images).int()).abs().max() <= 1
    exact = v2.Resize((12, 16), interpolation=v2.InterpolationMode.NEAREST_EXACT, antialias=antialias)
    assert len(first(tensors, 2, transforms=[exact]).image) == 2
    nearest = v2.Resize((9, 13), interpolation=v2.InterpolationMode.NEAREST, antialias=antialias)
    with pytest.raises(InvalidArgumentError, match="NEAREST_EXACT in place of NEAREST"):
        first(tensors, 2, transforms=[nearest])
    taken = first(pictures, 2, transforms=[nearest, v2.PILToTensor()]).image
    assert torch.equal(taken[0], v2.PILToTensor()(nearest(Image.fromarray(PICTURE))))


def test_masked_values_are_refused():
    """No field of a tensor says which values are masked, so the numbers under a mask must not appear as data."""
    labels = np.ma.masked_array([3, 4, 5], mask=[False, True, False])
    pixels = np.ma.masked_array(np.full((3, 8, 8, 3), 7, np.uint8), mask=False)
    pixels[1, 0, 0, 0] = np.ma.masked
    plain = pixels.filled(0)

    class Data:
        def __init__(self, *parts):
            self.parts = parts

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return tuple(part[i] for part in self.parts)

    for source in (
        (plain, labels),
        (pixels, labels.filled(0)),
        Data(pixels, [0] * 3),
        Data(plain, labels),
        Data(plain, [[1], [labels], [2]]),
    ):
        with pytest.raises(ValueError, match=r"of a numpy\.ma\.MaskedArray are masked, .* \.filled\(0\)"):
            list(Loader(source, 3))
    masks = np.ma.masked_array(np.ones((3, 8, 8), np.uint8), mask=True)
    with pytest.raises(ValueError, match=r"64 of 64 values of a numpy\.ma\.MaskedArray are masked"):
        list(Loader(Data(plain, masks), 3, fields={"image": "Image", "mask": "Mask"}))
    (batch,) = Loader((np.ma.masked_array(plain), labels.filled(0)), 3)
    assert batch[1].tolist() == [3, 0, 5]


def test_the_class_of_a_dataset_is_freed_with_its_loader():
    """A cache that is keyed by classes would keep all that the class's module holds."""
    import gc
    import weakref

    class Own(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return np.full((4, 4, 3), i, np.uint8), i

    assert len(list(Loader(Own(), 2))) == 2
    kept = weakref.ref(Own)
    del Own
    gc.collect()
    assert kept() is None


def test_arguments_cannot_be_set_on_a_loader(tree):
    """torch's DataLoader and data sets may be changed through their attributes. A Loader reads its arguments once, so that a change would have no effect."""
    once = "is read when the Loader is made. Make another Loader"
    loader = Loader(tree, 2, transforms=[T.Resize((8, 8))])
    wrapped = loader.as_dataloader()
    for of, names in (
        (
            loader,
            (
                "transforms",
                "transform",
                "collate_fn",
                "shuffle",
                "seed",
                "batch_size",
                "sampler",
                "dataset",
                "drop_last",
                "num_workers",
                "timeout",
            ),
        ),
        (loader.dataset, ("transform", "transforms", "target_transform")),
        (wrapped, ("transforms", "transform", "collate_fn", "shuffle", "seed", "device")),
        (wrapped.dataset, ("transform", "transforms", "target_transform")),
    ):
        for name in names:
            with pytest.raises(AttributeError, match=f"{name!r} cannot be set: it {once}"):
                setattr(of, name, None)
    loader.name = wrapped.name = loader.dataset.name = wrapped.dataset.name = "train"
    wrapped.num_workers, wrapped.pin_memory = 0, True  # frameworks set these
    with pytest.raises(AttributeError):
        loader.epoch = 3
    assert loader.name == "train" and len(list(loader)) == len(list(wrapped)) == len(loader)
    torchvision = import_torchvision()
    loader = Loader(torchvision.datasets.ImageFolder(tree), 2, transforms=[T.Resize((8, 8))])
    loader.as_dataloader().dataset.transform = torchvision.transforms.Resize((4, 4))
    with pytest.raises(StateError, match="was changed after the Loader had read it"):
        next(iter(loader))


def test_a_subclass_of_loader_has_attributes_of_its_own(tree):
    class Own(Loader):
        frames = 3

        def __init__(self, root, transforms, seed):
            self.transforms = transforms
            super().__init__(root, 2, transforms=transforms, seed=seed)
            self.seed = seed

        def become(self, device):
            self.device = device

        @property
        def layout(self):
            return self._given_layout

        @layout.setter
        def layout(self, value):
            self._given_layout = value

    loader = Own(tree, [T.Resize((8, 8))], 5)
    loader.become("cpu")
    loader.transforms, loader.layout, loader.frames, loader.seed = [], "HWC", 4, 6
    assert (loader.transforms, loader.layout, loader.frames, loader.seed, loader.device) == ([], "HWC", 4, 6, "cpu")
    with pytest.raises(AttributeError, match="Own: 'shuffle' cannot be set"):
        loader.shuffle = True
    assert next(iter(loader))[0].shape == (2, 3, 8, 8)


def test_any_code_of_a_subclass_of_loader_sets_its_attributes(tree):
    def helper(loader):
        loader.device = "helper"

    def attached(it):
        it.split = "attached"

    class Mixin:
        def set_up(this):
            this.memory_format = "mixin"

    class Own(Mixin, Loader):
        def __init__(self, root):
            super().__init__(root, 2)
            [setattr(self, name, value) for name, value in {"stride": 7, "layout": "x"}.items()]

            def closure():
                self.frames = 8

            closure()
            helper(self)
            (lambda: setattr(self, "pad", 9))()

        @classmethod
        def made(cls, root):
            made = cls(root)
            made.ragged = "classmethod"
            return made

    Own.attach = attached
    loader = Own.made(tree)
    loader.attach()
    loader.set_up()
    assert (loader.stride, loader.layout, loader.frames, loader.device, loader.pad) == (7, "x", 8, "helper", 9)
    assert (loader.ragged, loader.split, loader.memory_format) == ("classmethod", "attached", "mixin")

    def outside(loader):
        loader.shuffle = True

    for other in (loader, Loader(tree, 2)):
        with pytest.raises(AttributeError, match="'shuffle' cannot be set"):
            outside(other)
