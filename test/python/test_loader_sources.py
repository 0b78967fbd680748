# SPDX-License-Identifier: Apache-2.0
"""Sources of a Loader other than folders: torchvision's data sets, arrays, tables, streams, Hugging Face's datasets; the threads that run their Python."""

import contextlib
import gzip
import io
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import stoker
import torch
from PIL import Image
from sound_files import pcm16
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, StateError
from support import import_torchvision, tar_of, write_tree

SMALL = [T.Resize((16, 20))]
ROOT = Path(__file__).resolve().parents[2]


def flat(loader, field="label"):
    return [
        v
        for batch in loader
        for v in (getattr(batch, field).tolist() if hasattr(getattr(batch, field), "tolist") else getattr(batch, field))
    ]


def cifar_pickles(root, rng, fine=False):
    """Writes the pickles of CIFAR-10's archive, or of CIFAR-100's if `fine`, with four images each. Returns their folder, training images and labels."""
    folder = root / ("cifar-100-python" if fine else "cifar-10-batches-py")
    folder.mkdir(parents=True)
    names = ["train", "test"] if fine else [f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]
    images, labels = [], []
    for name in names:
        data = rng.integers(0, 256, (4, 3072), dtype=np.uint8)
        targets = rng.integers(0, 10, 4).tolist()
        with (folder / name).open("wb") as f:
            pickle.dump({"data": data, "fine_labels" if fine else "labels": targets, "filenames": ["x.png"] * 4}, f, protocol=2)
        if "test" not in name:
            images.append(data.reshape(-1, 3, 32, 32))
            labels += targets
    (folder / ("meta" if fine else "batches.meta")).write_bytes(pickle.dumps({"label_names": ["a"]}))
    return folder, np.concatenate(images), labels


def idx(values):
    return b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


# ---- arrays, and files that hold them ----


@pytest.mark.parametrize("fine", [False, True])
def test_cifar_pickles(tmp_path, rng, fine):
    folder, images, labels = cifar_pickles(tmp_path, rng, fine)
    for where in (tmp_path, folder):
        loader = Loader(where, 3, dtype=torch.uint8)
        assert torch.equal(torch.cat([b.image for b in loader]), torch.from_numpy(images)) and flat(loader) == labels
    assert len(Loader(tmp_path, 3, split="test")) == 2
    shuffled = Loader(tmp_path, 3, shuffle=True, fields=("image", "label", "index"), dtype=torch.uint8, last_batch="keep")
    for batch in shuffled:
        assert torch.equal(batch.image, torch.from_numpy(images[batch.index.numpy()])) and batch.label.tolist() == [
            labels[i] for i in batch.index
        ]

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/owned",)

    with (folder / ("train" if fine else "data_batch_1")).open("wb") as f:
        pickle.dump({"data": Evil()}, f)
    with pytest.raises(InvalidArgumentError, match=r"names posix.system"):
        Loader(tmp_path, 3)
    assert not (tmp_path / "owned").exists()


def test_cifar_has_the_names_of_its_classes(tmp_path, rng):
    names = [f"n{k}" for k in range(10)]
    folder, _, _ = cifar_pickles(tmp_path, rng)
    assert Loader(folder, 4).classes == [], "one name, and labels up to 9"
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": names, "num_vis": 3072}, protocol=2))
    for where in (tmp_path, folder):
        loader = Loader(where, 4)
        assert loader.classes == names == loader.dataset.classes and loader.class_to_idx["n3"] == 3
    for content in (b"no pickle", pickle.dumps([1]), pickle.dumps({"label_names": "0123456789"}), pickle.dumps({"label_names": [1] * 10})):
        (folder / "batches.meta").write_bytes(content)
        assert Loader(folder, 4).classes == []

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/owned",)

    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": Evil()}))
    assert Loader(folder, 4).classes == [] and not (tmp_path / "owned").exists()
    (folder / "batches.meta").unlink()
    assert Loader(folder, 4).classes == []
    folder, _, _ = cifar_pickles(tmp_path / "fine", rng, fine=True)
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names, "coarse_label_names": ["x"]}))
    assert Loader(folder, 4).classes == names


def rewrite(path, protocol=2, **entries):
    path.write_bytes(pickle.dumps(pickle.loads(path.read_bytes()) | entries, protocol=protocol))


def test_cifar_pickles_that_were_written_again(tmp_path, rng):
    """Reads what newer versions of Python and NumPy write for the same contents."""
    folder, images, labels = cifar_pickles(tmp_path, rng)
    rewrite(folder / "data_batch_1", 5)
    rewrite(folder / "data_batch_2", 2, labels=np.array(labels[4:8]))
    rewrite(folder / "data_batch_3", 5, labels=np.array(labels[8:12]))
    rewrite(folder / "data_batch_4", 4, labels=[np.int64(label) for label in labels[12:16]])
    loader = Loader(tmp_path, 3, dtype=torch.uint8)
    assert torch.equal(torch.cat([b.image for b in loader]), torch.from_numpy(images)) and flat(loader) == labels


def test_cifar_pickles_of_other_counts_are_refused(tmp_path, rng):
    """A file with fewer or more labels than images is refused, even if the numbers of all files together are equal. Otherwise images would get labels of other
    images."""
    folder, _, labels = cifar_pickles(tmp_path, rng)
    rewrite(folder / "data_batch_4", labels=labels[:5])
    rewrite(folder / "data_batch_5", labels=labels[:3])
    with pytest.raises(InvalidArgumentError, match=r"data_batch_4: no pickle of CIFAR: it holds 4 images and 5 labels"):
        Loader(tmp_path, 3)
    rewrite(folder / "data_batch_4", labels=None)
    with pytest.raises(InvalidArgumentError, match=r"data_batch_4: no pickle of CIFAR: it holds 4 images and no list of labels"):
        Loader(tmp_path, 3)


def test_a_folder_of_several_data_sets_is_refused(tmp_path, rng):
    """torchvision unpacks data sets next to each other if they have the same `root`. The Loader must not choose one of them silently."""
    ten, _, labels = cifar_pickles(tmp_path, rng)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((1, 28, 28), np.uint8)))
    with pytest.raises(InvalidArgumentError, match=r"several data sets \(cifar-10-batches-py, MNIST\): give the folder of one"):
        Loader(tmp_path, 3)
    shutil.rmtree(raw.parent)
    (tmp_path / "cifar-10-batches-bin").mkdir()
    assert flat(Loader(tmp_path, 3)) == labels, "CIFAR-10 in both of its versions"
    (tmp_path / "cifar-100-binary").mkdir()
    with pytest.raises(InvalidArgumentError, match=r"several data sets \(cifar-10-batches-bin, cifar-100-binary\)"):
        Loader(tmp_path, 3)
    assert flat(Loader(ten, 3)) == labels
    (tmp_path / "cifar-100-binary").rmdir()
    cifar_pickles(tmp_path, rng, fine=True)
    for split in ("train", "test"):
        with pytest.raises(InvalidArgumentError, match=r"several data sets \(cifar-10-batches-bin, cifar-100-python\)"):
            Loader(tmp_path, 3, split=split)


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_gives_its_images_and_labels(tmp_path, rng, packed):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    images, labels = rng.integers(0, 256, (7, 28, 28), dtype=np.uint8), rng.integers(0, 10, 7, dtype=np.uint8)
    for prefix, n in (("train", 7), ("t10k", 3)):
        for part, values in (("images-idx3", images[:n]), ("labels-idx1", labels[:n])):
            data = idx(values)
            (raw / f"{prefix}-{part}-ubyte{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)
    steps = [T.ToTensor(), T.Normalize((0.1307,), (0.3081,))]
    for where in (tmp_path, raw):
        (batch,) = Loader(where, 7, transforms=steps)
        want = (images[:, None] / 255 - 0.1307) / 0.3081
        assert batch.image.shape == (7, 1, 28, 28) and np.allclose(batch.image, want, atol=1e-5) and batch.label.tolist() == labels.tolist()
    assert len(Loader(tmp_path, 3, split="test")) == 1
    end = ".gz" if packed else ""
    (raw / f"train-images-idx3-ubyte{end}").write_bytes(idx(images)[:-1])
    with pytest.raises(InvalidArgumentError, match="7 x 28 x 28 values, and holds 5487"):
        Loader(tmp_path, 3)
    whole = gzip.compress(idx(images))
    flipped = bytes([*whole[:-5], whole[-5] ^ 1, *whole[-4:]])
    for damaged in (whole[:-9], flipped):
        (raw / f"train-images-idx3-ubyte{end}").write_bytes(damaged)
        with pytest.raises(InvalidArgumentError, match=f"train-images-idx3-ubyte{end}: it is damaged or cut short"):
            Loader(tmp_path, 3)


def test_arrays_give_their_images_and_targets(rng):
    images, labels = rng.integers(0, 256, (11, 12, 9, 3), dtype=np.uint8), rng.normal(size=11)
    for targets, dtype in ((labels, torch.float32), (list(range(11)), torch.int64), (torch.arange(22).reshape(11, 2), torch.int64)):
        (batch,) = Loader((torch.from_numpy(images), targets), 11, dtype=torch.uint8)
        assert torch.equal(batch.image, torch.from_numpy(images).permute(0, 3, 1, 2)) and batch.label.dtype is dtype
        assert torch.equal(batch.label, torch.as_tensor(np.asarray(targets), dtype=dtype))
    names = [f"n{k}" for k in range(11)]
    assert flat(Loader((images, names), 4)) == names
    assert [b._fields for b in Loader((images,), 6)] == [("image",)] * 2
    loader = Loader((images, list(range(11))), 4, shuffle=True, seed=3, last_batch="keep")
    next(iter(loader))
    state = loader.state_dict()
    other = Loader((images, list(range(11))), 4, shuffle=True, seed=3, last_batch="keep")
    other.load_state_dict(state)
    assert flat(other) == flat(Loader((images, list(range(11))), 4, shuffle=True, seed=3, last_batch="keep"))[4:]
    for wrong, said in (
        ((images.transpose(0, 3, 1, 2), names), "look like NCHW"),
        ((images / 255, names), "uint8"),
        ((images, names[:-1]), "11 images and 10 targets"),
        ((images[:0], []), "holds no images"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            Loader(wrong, 2)


def test_torchvisions_own(tmp_path, files, rng):
    """The Loader gives the samples of torchvision's data sets. If a data set contains its images or lists their files, the Loader runs none of its Python."""
    datasets = import_torchvision().datasets
    tv = import_torchvision().transforms
    data = torch.utils.data
    cifar_pickles(tmp_path, rng)

    class Cifar(datasets.CIFAR10):
        def _check_integrity(self):
            return True

        def _load_meta(self):
            self.classes = list("abcdefghij")
            self.class_to_idx = {c: i for i, c in enumerate(self.classes)}

    cifar = Cifar(tmp_path, transform=tv.Compose([tv.RandomHorizontalFlip(0), tv.ToTensor()]))
    mnist = datasets.MNIST.__new__(datasets.FashionMNIST)
    mnist.data, mnist.targets = torch.from_numpy(rng.integers(0, 256, (9, 28, 28), dtype=np.uint8)), torch.arange(9)
    mnist.transform, mnist.target_transform = tv.ToTensor(), None
    svhn = datasets.SVHN.__new__(datasets.SVHN)
    svhn.data, svhn.labels, svhn.transform, svhn.target_transform = (
        rng.integers(0, 256, (5, 3, 32, 32), dtype=np.uint8),
        np.arange(5),
        tv.ToTensor(),
        None,
    )
    food = datasets.Food101.__new__(datasets.Food101)
    food._image_files, food._labels, food.classes = list(files), [k % 5 for k in range(21)], list("abcde")
    food.transform, food.target_transform, food.loader = (
        tv.Compose([tv.Resize((16, 20)), tv.ToTensor()]),
        None,
        datasets.folder.default_loader,
    )
    sets = [
        cifar,
        mnist,
        svhn,
        food,
        data.Subset(cifar, [3, 3, 1]),
        *data.random_split(mnist, [4, 5]),
        data.ConcatDataset([cifar, data.Subset(cifar, [5])]),
    ]
    for source in sets:
        before = threading.enumerate()
        loader = Loader(source, 4)
        want = [source[i] for i in range(len(source))]
        got = [(x, int(y)) for b in loader for x, y in zip(b.image, b.label, strict=True)]
        assert [y for _, y in got] == [int(y) for _, y in want], source
        assert all((x - w).abs().max() <= 1.001 / 255 for (x, _), (w, _) in zip(got, want, strict=True)), source
        assert "Dataset(" not in repr(loader) and not any("stoker-dataset" in t.name for t in threading.enumerate() if t not in before)
    assert Loader(data.Subset(cifar, [1]), 1).class_to_idx["c"] == 2 and Loader(food, 1).classes == list("abcde")
    mnist.target_transform = str
    with pytest.raises(InvalidArgumentError, match="target_transform"):
        Loader(mnist, 2)


# ---- tables ----


def test_from_csv(tmp_path, files):
    rows = [(f"{f.parent.name}/{f.name}", k % 3, k / 4, f"name {k}") for k, f in enumerate(files)]
    for f in files:
        (tmp_path / f.parent.name).mkdir(exist_ok=True)
        (tmp_path / f.parent.name / f.name).write_bytes(f.read_bytes())
    text = "path,label,weight,name\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows)
    (tmp_path / "all.csv").write_text(text)
    loader = Loader.from_csv(
        tmp_path / "all.csv", 4, transforms=SMALL, shuffle=True, last_batch="keep", fields=("image", "weight", "index", "name", "label")
    )
    for batch in loader:
        ids = batch.index.tolist()
        assert batch.label.tolist() == [k % 3 for k in ids] and batch.label.dtype is torch.int64
        assert batch.weight.tolist() == [k / 4 for k in ids] and batch.weight.dtype is torch.float32
        assert batch.name == [f"name {k}" for k in ids]
    images, labels = next(iter(Loader.from_csv(tmp_path / "all.csv", 4, targets="label", transforms=SMALL)))
    assert images.shape == (4, 3, 16, 20) and labels.tolist() == [0, 1, 2, 0]

    class Frame:  # has only those attributes of a DataFrame that the Loader uses
        columns = ("file", "label")

        def __getitem__(self, name):
            return np.array([r[0] for r in rows]) if name == "file" else np.array([r[1] for r in rows])

    assert flat(Loader.from_csv(Frame(), 4, path="file", root=tmp_path, transforms=SMALL)) == [k % 3 for k in range(21)]
    for change, arguments, said in (
        ("", {"targets": "lable"}, "no column 'lable'; did you mean 'label'"),
        ("a.jpg,1,,x\n", {}, "row 22 has no value for 'weight'"),
        ("a.jpg,1,2\n", {}, "line 23 has 3 values for 4 columns"),
    ):
        (tmp_path / "bad.csv").write_text(text + change)
        with pytest.raises(InvalidArgumentError, match=said):
            Loader.from_csv(tmp_path / "bad.csv", 4, **arguments)


def test_tables_that_csv_cannot_read(tmp_path, files):
    """Errors about tables name the file and the line. Python's csv module names neither; after an open quote, it reads the rest of a file as one value."""
    path, line = tmp_path / "some.csv", f"{files[0]},1\n"
    for text, number in (
        (f"path,label\n{line}{files[1]},{'x' * 140000}\n", 3),
        (f'path,label\n{line}{files[1]},"open\n{line}', 4),
        (f'path,label\n{line}"{files[1]}', 3),
    ):
        path.write_text(text)
        with pytest.raises(InvalidArgumentError, match=rf"some\.csv: line {number}: .*pandas\.read_csv"):
            Loader.from_csv(path, 1, transforms=SMALL)
    path.write_text(f'path,label\n"{files[0].parent}"/{files[0].name},1\n')  # a field of which only a part is quoted is read as in pandas
    assert flat(Loader.from_csv(path, 1, transforms=SMALL, last_batch="keep")) == [1]


# ---- streams ----


class Stream(torch.utils.data.IterableDataset):
    """A stream of (path, 100 * epoch + number). `epochs` records the epochs that were set, and `asked` counts the samples that were requested."""

    def __init__(self, files, sized=False):
        self.files, self.epochs, self.asked = files, [], 0
        if sized:
            self.__class__ = type("Sized", (Stream,), {"__len__": lambda s: len(s.files)})

    def set_epoch(self, epoch):
        self.epochs.append(epoch)

    def __iter__(self):
        epoch = self.epochs[-1]
        for k, f in enumerate(self.files):
            self.asked += 1
            yield str(f), 100 * epoch + k


def test_streams_give_each_epoch_in_their_order(files):
    source = Stream(files)
    loader = Loader(source, 4, transforms=SMALL)
    for epoch in range(3):
        assert flat(loader) == [100 * epoch + k for k in range(21)]
    assert loader.epoch == 3 and len(list(Loader(Stream(files), 4, transforms=SMALL, drop_last=True))) == 5
    with pytest.raises(TypeError, match="no length"):
        len(loader)
    sized = Loader(Stream(files, sized=True), 4, transforms=SMALL)
    assert len(sized) == 6 and flat(sized) == list(range(21)) and "Stream" in repr(loader)
    loader = Loader(Stream(files), 4, transforms=SMALL)
    it = iter(loader)
    next(it), next(it)
    state = loader.state_dict()
    other = Loader(Stream(files), 4, transforms=SMALL)
    other.load_state_dict(state)
    assert flat(other) == list(range(8, 21)) and flat(other) == [100 + k for k in range(21)]
    for arguments in ({"shuffle": True}, {"sampler": [1, 2]}, {"last_batch": "pad"}, {"python_workers": 1}):
        with pytest.raises(InvalidArgumentError, match="IterableDataset"):
            Loader(Stream(files), 4, **arguments)

    def generator():
        yield (files[0].read_bytes(), 1)
        raise KeyError("lost")

    class Broken(torch.utils.data.IterableDataset):
        def __iter__(self):
            return generator()

    with pytest.raises(KeyError, match="lost") as caught:
        list(Loader(Broken(), 4))
    assert "in sample 1 of the IterableDataset" in caught.value.__notes__


class Held(torch.utils.data.IterableDataset):
    """A stream of `count` samples that ends only when the event `over` is set."""

    def __init__(self, count, over):
        self.count, self.over, self.epoch = count, over, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        for k in range(self.count):
            yield np.full((8, 8, 3), k, np.uint8), 1000 * self.epoch + k
        assert self.over.wait(60)


@pytest.mark.parametrize("last_batch", ["keep", "drop"])
def test_a_state_after_the_last_batch_of_a_stream_begins_the_next_epoch(last_batch):
    """The state has the next epoch's number, and no empty epoch follows, whether or not the stream had ended when the state was saved."""
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for ended in (True, False):
        batch = int(rng.integers(1, 5))
        count = batch * int(rng.integers(1, 6)) + (int(rng.integers(0, batch)) if last_batch == "drop" else 0)
        over, now = threading.Event(), threading.Event()
        now.set()
        loader = Loader(Held(count, over), batch, transforms=[], last_batch=last_batch)
        steps = iter(loader)
        taken = [x for _ in range(count // batch) for x in next(steps)[1].tolist()]
        assert taken == list(range(count // batch * batch))
        if ended:
            over.set()
            assert next(steps, None) is None
        else:
            assert loader.step == count // batch
        states = [loader.state_dict()]
        over.set()
        if not ended:
            until = time.monotonic() + 60
            while loader.state_dict()["epoch"] == 0 and time.monotonic() < until:
                time.sleep(0.01)
            assert loader.state_dict()["epoch"] == 1 and loader.step == count // batch
            states.append(loader.state_dict())
        loader.close()
        for state in states:
            other = Loader(Held(count, now), batch, transforms=[], last_batch=last_batch)
            other.load_state_dict(state)
            assert (other.epoch, other.step) == (1, 0), (ended, state)
            assert flat(other) == [1000 + k for k in taken] and other.epoch == 2
        again = Loader(Held(count, now), batch, transforms=[], last_batch=last_batch)
        again.load_state_dict(states[0])
        again.close()
        assert flat(again) == [1000 + k for k in taken]


# ---- Hugging Face ----


class FakeImage:
    def __init__(self, decode=True):
        self.decode = decode


FakeImage.__name__ = "Image"


class ClassLabel:
    names = ("cat", "dog")


class FakeTable:
    """A replacement for datasets.Dataset with the attributes that the library uses, if the package is not installed."""

    def __init__(self, rows, features, format=None):
        self.rows, self.features, self.format = rows, features, format or {"type": None, "columns": list(features)}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        if isinstance(i, list):
            return {c: [self[k][c] for k in i] for c in self.features}
        assert not self.features["picture"].decode, "an image was decoded in Python"
        return {c: self.rows[i][c] for c in self.features}

    def with_format(self, kind):
        return FakeTable(self.rows, self.features, {"type": kind, "columns": list(self.features)})

    def remove_columns(self, names):
        return FakeTable(self.rows, {c: f for c, f in self.features.items() if c not in names}, self.format)

    def select(self, ids):
        return FakeTable([self.rows[i] for i in ids], self.features, self.format)

    def cast_column(self, name, feature):
        return FakeTable(self.rows, {**self.features, name: feature}, self.format)


FakeTable.__module__, FakeTable.__name__ = "datasets.arrow_dataset", "Dataset"


def hub_table(files):
    try:
        import datasets
    except ImportError:
        rows = [
            {"picture": {"bytes": f.read_bytes(), "path": None}, "label": k % 2, "text": f"t{k}", "xy": [k, k]} for k, f in enumerate(files)
        ]
        return FakeTable(rows, {"picture": FakeImage(), "label": ClassLabel(), "text": None, "xy": None})
    columns = {
        "picture": [str(f) for f in files],
        "label": [k % 2 for k in range(21)],
        "text": [f"t{k}" for k in range(21)],
        "xy": [[k, k] for k in range(21)],
    }
    table = datasets.Dataset.from_dict(columns).cast_column("picture", datasets.Image())
    return table.cast_column("label", datasets.ClassLabel(names=["cat", "dog"]))


def _own_transform(rows):
    return {"image": rows["picture"], "n": [len(t) for t in rows["text"]]}


def test_hugging_face(files):
    table = hub_table(files)
    loader = Loader(table, 4, transforms=SMALL, fields=("image", "label", "text", "xy", "index"), shuffle=True, last_batch="keep")
    plain = Loader([str(f) for f in files], 1, transforms=SMALL)
    images = [b.image[0].clone() for b in plain]
    for batch in loader:
        ids = batch.index.tolist()
        assert all(torch.equal(batch.image[k], images[i]) for k, i in enumerate(ids))
        assert (
            batch.label.tolist() == [i % 2 for i in ids]
            and batch.text == [f"t{i}" for i in ids]
            and batch.xy.tolist() == [[i, i] for i in ids]
        )
    assert loader.classes == ["cat", "dog"] and Loader(table, 4)._run.source.dataset.column == "picture"
    made = next(iter(Loader(table, 4, transforms=SMALL, collate_fn=lambda b: {"pixel_values": b.image, "labels": b.label})))
    assert set(made) == {"pixel_values", "labels"} and made["pixel_values"].shape == (4, 3, 16, 20)
    with pytest.raises(InvalidArgumentError, match=r"with_format\('pandas'\)"):
        Loader(table.with_format("pandas"), 4)
    assert flat(Loader(torch.utils.data.Subset(table, [5, 3, 3]), 2, transforms=SMALL), "text") == ["t5", "t3", "t3"]
    for mask in ([1.7], np.array([True, False])):
        with pytest.raises(TypeError, match="the indices of a Subset are the ids of samples"):
            Loader(torch.utils.data.Subset(table, mask), 2)
    if isinstance(table, FakeTable):
        some = {"type": "torch", "columns": ["picture", "label"]}
        assert len(next(iter(Loader(FakeTable(table.rows, table.features, some), 2, transforms=SMALL)))._fields) == 2
        every = FakeTable(table.rows, table.features, {**some, "output_all_columns": True})
        assert next(iter(Loader(every, 2, transforms=SMALL)))._fields == ("image", "label", "text", "xy")
        with pytest.raises(InvalidArgumentError, match=r"with_format\('torch', dtype='float64'\) converts values"):
            Loader(FakeTable(table.rows, table.features, {**some, "format_kwargs": {"dtype": "float64"}}), 2)
        pytest.skip("the package datasets is not installed: a class with the same attributes stood in for it")
    part = table.select([5, 3, 3]).shuffle(seed=1)
    assert flat(Loader(part, 2, transforms=SMALL), "text") == part["text"]
    assert next(iter(Loader(table.with_format("torch", columns=["picture", "label"]), 2, transforms=SMALL)))._fields == ("image", "label")
    own = table.with_transform(_own_transform)
    assert next(iter(Loader(own, 2, transforms=SMALL))).n.tolist() == [2, 2]
    assert flat(Loader(table.to_iterable_dataset(), 4, transforms=SMALL), "text") == [f"t{k}" for k in range(21)]
    with pytest.raises(InvalidArgumentError, match=r"no column of images; .*\.cast_column.*to_parquet\(path\)"):
        Loader(table.remove_columns("picture"), 2)


def test_hugging_face_turns_images_as_their_exif_data_says(tmp_path):
    """Images of a table of `datasets` are rotated by their EXIF data, as when the package or a DataLoader over the table decodes them. Those of listed files
    are not."""
    pixels = np.zeros((24, 32, 3), np.uint8)
    pixels[:12], pixels[:, :8] = (255, 0, 0), (0, 0, 255)
    picture = Image.fromarray(pixels)
    exif = picture.getexif()
    exif[0x112] = 6
    picture.save(tmp_path / "turned.png", exif=exif)
    table = hub_table([tmp_path / "turned.png"] * 21)
    (batch, *_) = Loader(table, 1, transforms=[], dtype=torch.uint8, fields=("image", "label"))
    assert np.array_equal(batch.image[0].permute(1, 2, 0).numpy(), np.rot90(pixels, -1))
    (plain, *_) = Loader([str(tmp_path / "turned.png")], 1, transforms=[], dtype=torch.uint8)
    assert plain.image.shape == (1, 3, 24, 32)


# ---- random numbers in users' code, and the threads it runs on ----


class Noisy:
    """A Dataset whose samples hold random numbers: two from the sample's own generator and, unless `own_only`, one from the global generator of Python, NumPy
    and torch each. The sample's index and the process's id follow."""

    def __init__(self, own_only=True):
        self.own_only = own_only

    def __len__(self):
        return 13

    def __getitem__(self, i):
        rng = stoker.sample_rng()
        own = [rng.random(), stoker.sample_rng().random()]
        import random

        others = [] if self.own_only else [random.random(), np.random.random(), torch.rand(()).item()]
        return np.zeros((4, 4, 3), np.uint8), torch.tensor(own + others), i, os.getpid()


def noise(loader):
    return {(epoch, int(i)): tuple(v.tolist()) for epoch in range(2) for b in loader for v, i in zip(b.target0, b.target1, strict=True)}


def test_random_numbers_of_samples():
    """Random numbers depend only on seed, epoch and position, and not on batches, ranks, threads or a resume."""
    arguments = {"shuffle": True, "seed": 5, "last_batch": "keep"}
    want = noise(Loader(Noisy(), 4, **arguments))
    assert len(set(want.values())) == 26 and all(a != b for a, b in want.values())
    assert noise(Loader(Noisy(), 3, **arguments)) == want != noise(Loader(Noisy(), 4, **{**arguments, "seed": 6}))
    ranks = [noise(Loader(Noisy(), 2, shard=(r, 2), **{**arguments, "last_batch": "drop"})) for r in range(2)]
    assert all(want[k] == v for rank in ranks for k, v in rank.items()) and len({**ranks[0], **ranks[1]}) >= 24
    loader = Loader(Noisy(), 4, **arguments)
    next(iter(loader))
    other = Loader(Noisy(), 4, **arguments)
    other.load_state_dict(loader.state_dict())
    rest = {int(i): tuple(v.tolist()) for b in other for v, i in zip(b.target0, b.target1, strict=True)}
    assert len(rest) == 9 and all(want[0, i] == v for i, v in rest.items())
    with pytest.raises(StateError, match="inside the __getitem__"):
        stoker.sample_rng()


def test_processes_give_the_samples_of_threads():
    arguments = {"shuffle": True, "seed": 5, "last_batch": "keep"}
    torch.manual_seed(1)
    before = torch.get_rng_state()
    loaders = [Loader(Noisy(own_only=False), n, python_workers=w, **arguments) for n, w in ((4, 1), (3, 2))]
    results = [noise(loader) for loader in loaders]
    assert results[0] == results[1] and torch.equal(torch.get_rng_state(), before)
    threads = noise(Loader(Noisy(), 4, **arguments))
    assert all(results[0][k][:2] == v for k, v in threads.items())
    pids = {int(p) for b in loaders[1] for p in b.target2}
    assert 1 <= len(pids) <= 2 and os.getpid() not in pids
    for loader in loaders:
        loader.close()

    class Failing(Noisy):
        def __getitem__(self, i):
            if i == 5:
                raise KeyError("broken")
            if i == 7:
                os._exit(3)
            return super().__getitem__(i)

    for at, kind, said in ((5, KeyError, "broken"), (7, RuntimeError, r"ended \(exit code 3\) in dataset\[7\]")):
        with pytest.raises(kind, match=said) as caught:
            list(Loader(Failing(), 1, python_workers=1, sampler=[0, at]))
        assert at != 5 or any("dataset[5]" in n for n in caught.value.__notes__)
    with pytest.raises(InvalidArgumentError, match=r"could not be started.*pickle"):
        next(iter(Loader(Failing(), 1, python_workers=1, multiprocessing_context="spawn")))
    with pytest.raises(InvalidArgumentError, match="a number of processes"):
        Loader(Noisy(), 1, python_workers=-1)


OF_THE_MODULE = {"value": 0}


def _read_of_the_module():
    return OF_THE_MODULE["value"]


class Changing:
    """A Dataset whose targets depend on each kind of thing that a training loop may change. Its calls change attributes of their own, as caches do."""

    of_the_class = 0

    def __init__(self, own):
        self.value, self.entries, self.array, self.tensor = 0, [(f"{i}.jpg", 0) for i in range(2000)], np.zeros(5), torch.zeros(5)
        self.parts, self.function, self.calls, self.cache = {"deep": [[0]]}, own, 0, {}

    def __len__(self):
        return 8

    def __getitem__(self, i):
        self.calls += 1
        self.cache[i] = self.calls
        held = [self.value, self.entries[i][1], self.array[2], self.tensor[3].item(), self.parts["deep"][0][0]]
        used = [self.of_the_class, self.function(), _read_of_the_module()]
        return np.zeros((4, 4, 3), np.uint8), np.array(held + used, np.float32), os.getpid()


def test_processes_get_the_dataset_as_it_is_when_an_epoch_begins():
    """Each epoch has the values that a DataLoader gives, which starts processes for each epoch. Without a change the processes remain."""
    number = 0
    source = Changing(lambda: number)

    def change_number(value):
        nonlocal number
        number = value

    changes = [
        lambda k: setattr(source, "value", k),
        lambda k: source.entries.__setitem__(3, ("other.jpg", k)),
        lambda k: source.array.__setitem__(2, k),
        lambda k: source.tensor.__setitem__(3, k),
        lambda k: source.parts["deep"][0].__setitem__(0, k),
        lambda k: setattr(Changing, "of_the_class", k),
        change_number,
        lambda k: OF_THE_MODULE.update(value=k),
        lambda k: setattr(source, "lock", threading.Lock()),  # cannot be pickled
        lambda k: source.entries.__setitem__(3, ("other.jpg", k)),
        lambda k: setattr(source, "value", -k),
    ]
    loader = Loader(source, 2, python_workers=2, multiprocessing_context="fork")
    reference = torch.utils.data.DataLoader(source, 2, num_workers=1, multiprocessing_context="fork")
    try:
        processes, same = set(), 0
        for k, change in enumerate([lambda k: None, *changes]):
            change(k)
            for again in range(2):
                batches = list(loader)
                assert torch.equal(torch.cat([b.target0 for b in batches]), torch.cat([target for _, target, _ in reference])), (k, again)
                now = {pid for b in batches for pid in b.target1.tolist()}
                same += again and bool(now & processes)
                assert again or not now & processes, (k, again)
                processes = now
        assert same == len(changes) + 1
    finally:
        Changing.of_the_class, OF_THE_MODULE["value"] = 0, 0
        loader.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataset_may_change_after_the_pipeline_was_built(workers):
    source = Changing(int)
    loader = Loader(source, 4, python_workers=workers)
    assert loader.pipeline
    source.value = 3
    assert [float(v) for b in loader for v in b.target0[:, 0]] == [3.0] * 8
    loader.close()


def test_processes_of_a_program_whose_torch_has_used_threads(script):
    """The threads do not exist in a fork. A Dataset that uses torch there would wait for them forever."""
    done = script(
        """
        import numpy as np
        import torch
        from stoker import Loader
        torch.set_num_threads(2)
        class Sums:
            def __len__(self):
                return 4
            def __getitem__(self, i):
                return np.zeros((4, 4, 3), np.uint8), int(torch.exp(torch.zeros(1_000_000)).sum())
        torch.exp(torch.zeros(1_000_000))
        print([batch.label.tolist() for batch in Loader(Sums(), 4, python_workers=1, multiprocessing_context="fork")])
        """,
        timeout=60,
    )
    assert done.stdout == "[[1000000, 1000000, 1000000, 1000000]]\n", done.stderr


def test_what_can_be_compared_of_a_dataset():
    from stoker.loader.sources._contents import Contents

    def contents(thing):
        return Contents(thing, 1 << 20)

    def endless():
        return endless

    plain = [{i: (i, "a") for i in range(5000)}, [[i] for i in range(500)], float("nan"), np.float32(1), T.Resize(3)]
    arrays = [np.zeros((4, 5))[:, ::2], np.zeros(0), np.array(["a", None], object), torch.zeros(()), torch.nn.Linear(2, 2)]
    for thing in (*plain, *arrays, endless, Changing, torch):
        assert contents(thing).digest is not None and contents(thing) == contents(thing), thing
    counter = multiprocessing.Value("i", 0)
    with open(os.devnull) as file:
        for thing in (threading.Lock(), counter, counter.get_obj, file, {"lock": threading.Lock(), "a": 1}, (i for i in "a")):
            assert contents(thing) == contents(thing), thing
    before = contents(counter)
    counter.value = 1  # which the processes see
    assert before == contents(counter) != contents(threading.Lock())
    masked = np.ma.masked_array([1, 2], [False, True])
    before = contents(masked)
    masked.mask[0] = True
    assert before != contents(masked)
    long = [0] * 5000
    before = contents(long)
    long[7] = "0"
    assert before != contents(long) and contents(long) == contents(long)


def test_what_is_compared_of_a_large_dataset():
    """Processes of an unchanged Dataset remain, however large it is. Of changes inside a large one, the most common are noticed."""
    from stoker.loader.sources._contents import Contents

    class Large:
        def __init__(self, lock):
            self.lock, self.records, self.array, self.tensor = (
                lock,
                [{"id": i, "box": [i]} for i in range(5000)],
                np.ones(1 << 18),
                torch.ones(1 << 18),
            )
            self.by_name, self.ids, self.text, self.transform = (
                {str(i): [i] for i in range(5000)},
                set(range(5000)),
                "a" * (1 << 21),
                T.Resize(8),
            )
            self.table, self.view = torch.ones(1 << 20), np.ones((1 << 10, 1 << 10))[:, ::2]

    changes = [
        lambda s: setattr(s, "epoch", 1),
        lambda s: setattr(s.transform, "size", 9),
        lambda s: setattr(s, "lock", threading.Lock()),
        lambda s: s.records.append(s.records[0]),
        lambda s: s.records.__setitem__(4999, {"id": 4999, "box": [0]}),
        lambda s: s.records[0].__setitem__("id", 5),
        lambda s: s.records[4999]["box"].append(3) or s.records.reverse(),
        lambda s: s.by_name.__setitem__("4999", [0]),
        lambda s: s.ids.add(-1),
        lambda s: s.array.__imul__(2),
        lambda s: setattr(s, "array", s.array.copy()),
        lambda s: s.tensor.__setitem__(77, 0),
        lambda s: s.table.__setitem__(77, 0),
        lambda s: setattr(s, "view", s.view.copy()),
        lambda s: setattr(s, "text", "b" * (1 << 21)),
    ]
    for k, change in enumerate(changes):
        source = Large(threading.Lock())
        before = Contents(source, 1 << 18)
        assert before.digest is not None and before == Contents(source, 1 << 18)
        change(source)
        assert before != Contents(source, 1 << 18), k


class Chain:
    """A chain of more objects than pickle can follow."""

    def __init__(self, length=3000):
        self.value, self.rest = 0, None
        if length:
            self.rest = Chain(0)
            last = self.rest
            for _ in range(length):
                last.rest = Chain(0)
                last = last.rest


def test_chains_of_objects_are_compared_by_identity():
    """The processes of such a Dataset remain. Changes outside of the chain are noticed, also in a Dataset inside of another."""
    from stoker.loader.sources._contents import Contents

    chain, numbers = Chain(), [0]

    class Holding:
        def __init__(self):
            self.value, self.chain = 0, Chain()

        def __getitem__(self, i):
            return chain, numbers[0]

    class Inside:
        def __init__(self):
            self.dataset, self.many = Holding(), [Chain()] * 2000

    changes = [
        lambda s: setattr(s.dataset, "value", 1),
        lambda s: setattr(s.dataset, "chain", Chain()),
        lambda s: setattr(s, "many", list(s.many)),
        lambda s: numbers.__setitem__(0, 1),
    ]
    for k, change in enumerate(changes):
        source = Inside()
        before = Contents(source, 1 << 20)
        assert before.digest is not None and before == Contents(source, 1 << 20)
        change(source)
        assert before != Contents(source, 1 << 20), k
    assert Contents(chain, 1 << 20) == Contents(chain, 1 << 20) != Contents(Chain(), 1 << 20)


IMAGES = [0]  # has the name of an attribute of the Dataset below, as variables of training loops have


def test_processes_remain_if_a_variable_has_the_name_of_an_attribute(monkeypatch):
    class Named:
        def __init__(self):
            self.IMAGES = np.zeros((8, 4, 4, 3), np.uint8)

        def __len__(self):
            return 8

        def __getitem__(self, i):
            return self.IMAGES[i], os.getpid()

    processes = set()
    with Loader(Named(), 4, python_workers=1, multiprocessing_context="fork") as loader:
        for k in range(3):
            monkeypatch.setitem(globals(), "IMAGES", [k])
            processes.update(flat(loader))
    assert len(processes) == 1


def test_processes_end_before_others_start(monkeypatch):
    """A Dataset's thread does not delay this. There are never twice as many copies of the Dataset."""
    from stoker.loader.sources import _fetch

    class Threaded(Changing):
        def __getitem__(self, i):
            threading.Thread(target=time.sleep, args=(60,)).start()
            return np.zeros((4, 4, 3), np.uint8), self.value

    started, messages, start = [], [], _fetch._Process.__init__

    def begin(self, *arguments):
        started.append([process.worker.process.exitcode for process in made])
        start(self, *arguments)
        made.append(self)

    made = []
    monkeypatch.setattr(_fetch._Process, "__init__", begin)
    monkeypatch.setattr("stoker._processes.log", messages.append)
    source = Threaded(int)
    loader = Loader(source, 4, python_workers=1, multiprocessing_context="fork")
    for source.value in (1, 2):
        assert [b.label.tolist() for b in loader] == [[source.value] * 4] * 2
    assert started == [[], [-signal.SIGTERM]]
    loader.close()
    assert not messages


@pytest.mark.parametrize("to", ["process", "thread"])
@pytest.mark.parametrize("workers", [0, 1])
def test_no_python_is_waited_for_after_ctrl_c(script, workers, to):
    """Calls of the Dataset that are queued or running would take days. Ctrl-C ends the program, even if the signal goes to another thread or comes just
    before the main thread begins to wait."""
    done = script(
        """
        import os, signal, sys, threading, time
        import numpy as np
        from stoker import Loader
        started = threading.Event()
        class Slow:
            def __len__(self):
                return 400
            def __getitem__(self, i):
                if i:
                    started.set()
                    time.sleep(86400)
                return np.zeros((4, 4, 3), np.uint8), i
        def interrupt():
            started.wait(None if sys.argv[1] == "0" else 2)
            if sys.argv[2] == "thread":
                time.sleep(1)  # the main thread is in its wait by then
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            else:
                os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            for batch in Loader(Slow(), 8, python_workers=int(sys.argv[1])):
                pass
        except KeyboardInterrupt:
            print("interrupted")
        """,
        str(workers),
        to,
        timeout=60,
    )
    assert done.stdout == "interrupted\n", done.stderr
    assert done.returncode == 0
    assert (done.stderr.count("\n") == 1 and "not waited for any longer" in done.stderr) if workers == 0 else done.stderr == ""


def test_calls_that_come_while_threads_are_closed_are_answered():
    """A call after close() gets an error. Otherwise its caller would wait forever, and the end of the pipeline would wait for that caller."""
    from stoker.errors import StateError
    from stoker.loader.sources._fetch import Threads

    threads = Threads(2)
    assert threads.submit(lambda: 3).result(20) == 3
    threads.close()
    with pytest.raises(StateError, match="the Loader was closed"):
        threads.submit(lambda: 3).result(20)


# ---- types ----


def test_type_checkers_know_arguments_and_batches(tmp_path):
    """mypy finds unknown arguments and wrong types of a batch's fields. torch is replaced by a stub, because mypy reads it slowly."""
    pytest.importorskip("mypy")
    (tmp_path / "torch.pyi").write_text("class Tensor: ...\nclass dtype: ...\nclass memory_format: ...\n")
    (tmp_path / "use.py").write_text(
        textwrap.dedent(
            """
            import torch
            from stoker import Loader

            loader = Loader("data", batch_size=4, shufle=True)
            Loader.from_csv("a.csv", 4, drop_lst=True)
            for batch in Loader("data", 4, timeout=3.0, num_workers=2):
                right: torch.Tensor = batch.image
                wrong: int = batch.image
                images, labels = batch
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-site-packages", "--follow-imports=silent", "--config-file", os.devnull, "use.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(ROOT / "python")},
    )
    errors = [line for line in done.stdout.splitlines() if line.startswith("use.py") and "error" in line]
    assert len(errors) == 3, done.stdout
    assert '"shufle"' in errors[0] and '"drop_lst"' in errors[1] and 'expression has type "Tensor"' in errors[2]


def test_arguments_by_name_are_typed():
    import inspect

    from stoker.loader import _options

    own = set(inspect.signature(Loader.__init__).parameters) - {"self", "source", "batch_size"}
    typed = set(_options.LoaderArguments.__annotations__)
    assert {n for n in own if n not in _options.Arguments.__annotations__} - {"dataloader_arguments"} <= typed


def test_collate_fn_gets_the_finished_batch(tree):
    made = list(Loader(tree, 4, transforms=SMALL, collate_fn=lambda b: (b.image.mean((1, 2, 3)), b._fields)))
    assert len(made) == 6 and made[0][0].shape == (4,) and made[0][1] == ("image", "label")


def test_tables_may_hold_uris(tmp_path):
    """A column of paths may contain URIs, which are not relative to the table's folder. If root= is a URI, the paths in the column are relative to it."""
    bucket = {}
    for k in range(6):
        out = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), 20 * k, np.uint8)).save(out, "PNG")
        bucket[f"mine://{'ab'[k % 2]}/{k}.png"] = out.getvalue()

    def fetch(uri, offset, length):
        return bucket[uri][offset : None if length is None else offset + length]

    table = tmp_path / "table.csv"
    table.write_text("path,label\n" + "".join(f"{uri},{k}\n" for k, uri in enumerate(bucket)))
    storage = stoker.Storage(fetch=fetch, fetch_schemes="mine")
    with Loader.from_csv(table, 3, storage=storage) as loader:
        batches = list(loader)
    assert [round(float(b.image[i].mean() * 255)) for b in batches for i in range(3)] == [20 * k for k in range(6)]
    table.write_text("path,label\n" + "".join(f"{uri.rpartition('/')[2]},{k}\n" for k, uri in enumerate(bucket) if k % 2 == 0))
    with Loader.from_csv(table, 3, root="mine://a", storage=storage) as loader:
        assert [round(float(x.mean() * 255)) for x in next(iter(loader)).image] == [0, 40, 80]


def test_derived_loaders_that_pass_arguments_on(tree, tmp_path):
    """from_csv and the other constructors accept arguments that a derived class passes on as **named."""

    class Mine(stoker.Loader):
        def __init__(self, *given, alpha=0, **named):
            super().__init__(*given, **named)
            self.alpha = alpha

    files = sorted(tree.glob("*/*.jpg"))
    (tmp_path / "t.csv").write_text("path,label\n" + "".join(f"{path},{k}\n" for k, path in enumerate(files)))
    more = {"batch_size": 4, "path": "path", "targets": "label", "transforms": [T.Resize((8, 8))]}
    mine = Mine.from_csv(tmp_path / "t.csv", alpha=3, shuffle=False, **more)
    assert mine.alpha == 3 and sum(len(batch.label) for batch in mine) == len(files)
    with pytest.raises(TypeError, match="there is no argument 'shufle'; did you mean 'shuffle'"):
        Mine.from_csv(tmp_path / "t.csv", shufle=True, **more)


# ---- split ----


def sources_without_splits(root, rng):
    """Yields the name, a function that makes a Loader with further arguments, and the advice of each kind of source that has no splits."""
    paths = write_tree(root / "tree", rng, 2, 2, 20, 30)
    data = paths[0].read_bytes()
    pairs = [(str(path), 0) for path in paths]
    (root / "flat").mkdir()
    (root / "flat" / "a.tar").write_bytes(tar_of([("0.jpg", data), ("0.cls", b"0")]))
    (root / "t.csv").write_text("path,label\n" + "".join(f"{path},0\n" for path, _ in pairs))
    (root / "sounds" / "one").mkdir(parents=True)
    (root / "sounds" / "one" / "a.wav").write_bytes(pcm16(rng, 800))
    (root / "videos" / "one").mkdir(parents=True)
    (root / "videos" / "one" / "a.mp4").write_bytes(b"0")
    arrays = (np.zeros((4, 8, 8, 3), np.uint8), np.zeros(4, np.int64))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(pairs)

    folder, samples, tars = "give the folder of the split itself", "give the samples of the split only", "data/test-*.tar"
    yield "folder", lambda **more: Loader(root / "tree", 4, transforms=SMALL, **more), folder
    yield "sounds", lambda **more: Loader(root / "sounds", 1, fields={"audio": stoker.Audio(), "label": None}, **more), folder
    yield "videos", lambda **more: Loader(root / "videos", 1, frames=2, **more), folder
    yield "tars", lambda **more: Loader(root / "flat", 1, **more), tars
    yield "from_tars", lambda **more: Loader.from_tars(root / "flat" / "a.tar", 1, **more), tars
    yield "pairs", lambda **more: Loader(pairs, 4, transforms=SMALL, **more), samples
    yield "paths", lambda **more: Loader([path for path, _ in pairs], 4, transforms=SMALL, **more), samples
    yield "csv", lambda **more: Loader.from_csv(root / "t.csv", 4, targets="label", transforms=SMALL, **more), samples
    yield "arrays", lambda **more: Loader(arrays, 4, **more), samples
    yield "tensors", lambda **more: Loader(torch.utils.data.TensorDataset(*map(torch.from_numpy, arrays)), 4, **more), samples
    yield "dataset", lambda **more: Loader(FilesOf(pairs), 4, transforms=SMALL, **more), samples
    yield "stream", lambda **more: Loader(Stream(), 4, transforms=SMALL, **more), samples
    with contextlib.suppress(ImportError):
        import pyarrow as pa
        import pyarrow.parquet as pq

        (root / "hf").mkdir()
        pq.write_table(pa.table({"x": [1.0, 2.0]}), root / "hf" / "train-00000.parquet")
        glob = str(root / "hf" / "test-*.parquet")
        yield "table", lambda **more: Loader(root / "hf", 2, **more), repr(glob)
        yield "from_parquet", lambda **more: Loader.from_parquet(root / "hf", 2, **more), "data/test-"
        yield "glob", lambda **more: Loader(root / "hf" / "*.parquet", 2, **more), "data/test-"


class FilesOf(torch.utils.data.Dataset):
    def __init__(self, pairs):
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


def test_sources_without_splits_refuse_one(tmp_path, rng):
    """Only CIFAR's and MNIST's files have splits. Any other source would be read whole, as if it were the split."""
    for name, make, said in sources_without_splits(tmp_path, rng):
        make().close()
        with pytest.raises(InvalidArgumentError, match=f"split='test' is only for the files of CIFAR or MNIST.*{re.escape(said)}"):
            make(split="test")
        for split in ("val", ""):
            with pytest.raises(InvalidArgumentError, match='split is "train" or "test"'):
                make(split=split)
        if name in ("folder", "sounds", "videos"):
            make(split="train").close()
        else:
            with pytest.raises(InvalidArgumentError, match="split='train' is only for the files of CIFAR or MNIST"):
                make(split="train")
    with contextlib.suppress(ImportError):
        import datasets

        rows = datasets.Dataset.from_dict({"image": [b"x"] * 2}).cast_column("image", datasets.Image())
        for source, kind in (
            (rows, "Dataset"),
            (rows.to_iterable_dataset(), "IterableDataset"),
            (torch.utils.data.Subset(rows, [1]), "Subset"),
        ):
            with pytest.raises(InvalidArgumentError, match=f"this {kind} has none: give the samples of the split only"):
                Loader(source, 2, split="train")
    folder, _, _ = cifar_pickles(tmp_path / "cifar", rng)
    for split in ("val", ""):
        with pytest.raises(InvalidArgumentError, match='split is "train" or "test"'):
            Loader(folder, 3, split=split)
