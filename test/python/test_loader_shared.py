# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader over Datasets and transforms whose calls share something, such as a buffer that each call fills again, or an open file."""

import functools
import io
import tarfile
import threading
import time
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader
from stoker.loader.sources._shared import open_file, owned
from support import import_torchvision
from torch.utils.data import ConcatDataset, IterableDataset, Subset

import_torchvision()
from torchvision import datasets  # noqa: E402
from torchvision import transforms as v1  # noqa: E402


class Frames(IterableDataset):
    """Yields 24 samples, for each of which it fills the same frame and target again. make: makes a sample from the frame, the target and the sample's index."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        frame, target = np.zeros((16, 16, 3), np.uint8), np.zeros((), np.int64)
        for i in range(24):
            frame[:], target[...] = i, i
            yield self.make(frame, target, i)


class Buffers:
    """A Dataset that fills buffers again like the stream Frames, but has a frame and a target for each thread."""

    def __init__(self, make):
        self.make, self.own = make, threading.local()

    def __len__(self):
        return 24

    def __getitem__(self, i):
        own = self.own.__dict__
        frame, target = own.setdefault("frame", np.zeros((16, 16, 3), np.uint8)), own.setdefault("target", np.zeros((), np.int64))
        frame[:], target[...] = i, i
        return self.make(frame, target, i)


SAMPLES = {
    "arrays": lambda frame, target, i: (frame, target),
    "views": lambda frame, target, i: (frame[::-1][:8], target[()]),
    "tensors": lambda frame, target, i: (torch.from_numpy(frame).permute(2, 0, 1), torch.from_numpy(target)),
    "dicts": lambda frame, target, i: {"image": frame, "label": target},
    "bytes": lambda frame, target, i: (memoryview(b"P6 16 16 255\n").obj + frame.tobytes(), target),
}


@pytest.mark.parametrize("samples", SAMPLES)
@pytest.mark.parametrize("kind", [Frames, Buffers])
def test_buffers_that_are_filled_again(kind, samples):
    """Each sample has its own pixels and label, although the Dataset fills its buffers again for later samples before the loop reads the batch."""
    for _ in range(3):
        loader = Loader(kind(SAMPLES[samples]), 2, dtype=torch.uint8)
        pairs = [(image.unique().tolist(), int(label)) for images, labels in loader for image, label in zip(images, labels, strict=True)]
        assert pairs == [([i], i) for i in range(24)]


class Pool:
    """A Dataset that returns arrays of a pool. It overwrites each array before it returns it (fill=True), or returns the arrays as they are."""

    def __init__(self, pool, fill=True):
        self.pool, self.fill, self.running, self.most = pool, fill, 0, 0

    def __len__(self):
        return 120

    def __getitem__(self, i):
        self.running += 1
        self.most = max(self.most, self.running)
        array = self.pool[i % len(self.pool)]
        if self.fill:
            array[:] = i
        time.sleep(0.001)  # lets other threads run
        self.running -= 1
        return array, i


def arrays(count):
    return [np.zeros((16, 16, 3), np.uint8) for _ in range(count)]


POOLS = {
    "one": lambda: arrays(1),
    "batch": lambda: arrays(8),
    "stack": lambda: np.stack(arrays(8)),
    "tensors": lambda: [torch.zeros(3, 16, 16, dtype=torch.uint8) for _ in range(4)],
}


@pytest.mark.parametrize("pool", POOLS)
def test_arrays_that_several_calls_fill(pool, capfd, monkeypatch):
    """If the calls of a Dataset fill the same arrays, they run one at a time: another call would fill an array again before it is copied."""
    monkeypatch.setattr("stoker._where._shown", set())
    loader = Loader(Pool(POOLS[pool]()), 8, dtype=torch.uint8)
    for _ in range(2):
        for images, labels in loader:
            assert torch.equal(images, labels[:, None, None, None].expand_as(images).to(torch.uint8))
    assert capfd.readouterr().err.count("one at a time") == 1


@pytest.mark.parametrize(
    "pool", [lambda: np.stack(arrays(120)), lambda: arrays(120), lambda: arrays(1), lambda: torch.zeros(120, 3, 16, 16)]
)
def test_arrays_that_a_dataset_holds(pool, capfd):
    """If a Dataset gives the same array to several samples but does not change it, several threads call the Dataset at once."""
    dataset = Pool(pool(), fill=False)
    assert len([labels for _, labels in Loader(dataset, 8)]) == 15
    assert dataset.most > 1 and "one at a time" not in capfd.readouterr().err


@pytest.mark.parametrize("reads", ["bytearray", "memoryview", "array"])
def test_a_buffer_that_files_are_read_into(files, reads):
    class Reader(IterableDataset):
        def __iter__(self):
            buffer = bytearray(1 << 20)
            for file in files:
                data = file.read_bytes()
                if reads == "bytearray":
                    buffer[:] = data
                    yield buffer
                else:
                    buffer[: len(data)] = data
                    view = memoryview(buffer)[: len(data)]
                    yield view if reads == "memoryview" else np.frombuffer(view, np.uint8)

    plain = Loader([str(f) for f in files], 1, dtype=torch.uint8, fields=["image"])
    for (image,), (want,) in zip(Loader(Reader(), 1, dtype=torch.uint8, fields=["image"]), plain, strict=True):
        assert torch.equal(image, want)


def test_arrays_that_others_may_write_to_are_copied():
    kept, mapped = np.zeros((4, 8, 8, 3), np.uint8), np.frombuffer(bytes(192), np.uint8).reshape(8, 8, 3)
    base, locked = np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8, 3), np.uint8)
    locked.flags.writeable = False

    def same(make):
        row = (make(),)
        (part,) = owned(row)
        assert np.array_equal(part, row[0])
        return part is row[0]

    alone = [
        lambda: np.zeros((8, 8, 3), np.uint8),
        lambda: np.zeros((8, 8, 3), np.uint8)[::-1, 2:],
        lambda: np.zeros((8, 8, 3), np.uint8).reshape(-1)[:4].reshape(2, 2),
        lambda: mapped,
        lambda: mapped[2:],
        lambda: locked,
        lambda: locked[2:],
        lambda: bytes(8),
        lambda: bytearray(8),
    ]
    shared = [lambda: kept, lambda: kept[1], lambda: kept[1][::-1], lambda: base, lambda: base[..., None], lambda: torch.zeros(3)]
    assert [same(make) for make in alone] == [True] * len(alone)
    assert [same(make) for make in shared] == [False] * len(shared)


class Records:
    """Images in a file, read by seek() and read(). hold: makes the attribute `held` from the open file. late: the first sample opens the file, not __init__."""

    def __init__(self, path, hold=lambda file: file, late=False):
        self.path, self.hold = path, hold
        self.held = None if late else hold(path.open("rb", buffering=0))
        self.running, self.most = 0, 0

    def __len__(self):
        return 200

    def __getitem__(self, i):
        self.held = self.held or self.hold(self.path.open("rb", buffering=0))
        file = self.held[0] if isinstance(self.held, list) else self.held
        self.running += 1
        self.most = max(self.most, self.running)
        file.seek(i * 192)
        data = file.read(192)
        self.running -= 1
        return np.frombuffer(data, np.uint8).reshape(8, 8, 3), i


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(b"".join(bytes([i]) * 192 for i in range(200)))
    return path


@pytest.mark.parametrize("how", ["attribute", "late", "list", "subset", "concat", "processes"])
def test_an_open_file_is_read_by_one_call_at_a_time(records, how, capfd, monkeypatch):
    monkeypatch.setattr("stoker._where._shown", set())
    inner = Records(records, (lambda file: [file]) if how == "list" else lambda file: file, how == "late")
    source = {"subset": lambda: Subset(inner, range(200)), "concat": lambda: ConcatDataset([Subset(inner, range(200))])}
    loader = Loader(source.get(how, lambda: inner)(), 10, dtype=torch.uint8, shuffle=True, python_workers=4 if how == "processes" else 0)
    for _ in range(2):
        for images, labels in loader:
            assert torch.equal(images, labels[:, None, None, None].expand_as(images).to(torch.uint8))
    assert inner.most <= 1
    notices = [line for line in capfd.readouterr().err.splitlines() if "Records.held is an open file" in line]
    assert len(notices) == 1 and "__getitem__" in notices[0] and "python_workers" in notices[0]


def test_what_counts_as_an_open_file(records, tmp_path):
    def held(value, forked=False):
        return open_file(Records(records, lambda _: value), forked)

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as z:
        z.writestr("a", b"a")
    with tarfile.open(tmp_path / "a.tar", "w") as t:
        t.add(records, "a")
    with records.open("rb") as file, zipfile.ZipFile(tmp_path / "a.zip") as z, tarfile.open(tmp_path / "a.tar") as t:
        for value in (file, t, {"a": file}, io.BytesIO(b"a")):
            assert held(value) == "Records.held"
        assert held(z) is None and held(z, forked=True) == "Records.held"  # a ZipFile has a lock, which threads share but processes do not
    for value in (file, z, t, [], {}, "text", None, records.open("ab"), np.zeros(4)):
        assert held(value) is None and held(value, forked=True) is None
    assert held(io.BytesIO(b"a"), forked=True) is None


class Drawn:
    """A transform that draws a number in one method and applies it in another, as transforms of videos and of MONAI do."""

    def __init__(self):
        self.number, self.wide = 0, True

    def draw(self, number):
        if number % 3:
            self.number = number

    def __call__(self, image):
        time.sleep(0.0005)  # gives another thread time to draw
        return np.full_like(image, self.number)


class Joint:
    def __init__(self):
        self.transform, self.opened, self.cache, self.lock = Drawn(), None, {}, threading.Lock()

    def __len__(self):
        return 120

    def __getitem__(self, i):
        self.opened = self.opened or object()
        with self.lock:  # the lock covers only draw(), so the calls below may use another thread's draw
            self.transform.draw(i)
        return self.transform(np.zeros((8, 8, 3), np.uint8)), self.transform(np.zeros((8, 8), np.uint8))


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Subset(d, range(120)), lambda d: ConcatDataset([Subset(d, range(120))])])
def test_a_dataset_that_keeps_what_it_draws_is_called_one_at_a_time(wrap, capfd, monkeypatch):
    monkeypatch.setattr("stoker._where._shown", set())
    loader = Loader(wrap(Joint()), 8)
    for _ in range(2):
        for images, masks in loader:
            assert torch.equal(images[:, 0], masks)
    notices = [line for line in capfd.readouterr().err.splitlines() if "Drawn.number" in line]
    assert len(notices) == 1 and "one at a time" in notices[0] and "python_workers" in notices[0]


class Steady:
    """A Dataset that creates an object in its first call, as if it opened a file, and fills a cache. No call changes an entry that another call made."""

    def __init__(self):
        self.opened, self.cache, self.nan, self.meeting = None, {}, float("nan"), threading.Barrier(2)
        self.label = [functools.partial(int, base=10), Steady.__len__, threading, self]
        self.serial = 9

    def __len__(self):
        return 400

    def __getitem__(self, i):
        self.opened = self.opened or object()
        self.cache[i] = i
        if len(self.cache) > 100 and self.serial:
            try:
                self.meeting.wait(60)  # waits until two threads are in this method at once
                self.serial = 0
            except threading.BrokenBarrierError:
                pass
        return np.zeros((8, 8, 3), np.uint8), i


def test_a_dataset_that_opens_a_file_is_called_by_several_threads(capfd, monkeypatch):
    monkeypatch.setattr("stoker._where._shown", set())
    dataset = Steady()
    assert [n for _, labels in Loader(dataset, 8) for n in labels.tolist()] == list(range(400))
    assert dataset.serial == 0 and "one at a time" not in capfd.readouterr().err


class Meeting:
    """A Dataset or transform whose calls return its attribute `value`, and from the value 8 on wait until two threads call at once."""

    def __init__(self):
        self.value, self.meeting = 0, threading.Barrier(2)

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return self(np.zeros((8, 8, 3), np.uint8)), i

    def __call__(self, image):
        if self.value >= 8:
            self.meeting.wait(60)
        return np.full_like(image, self.value)


@pytest.mark.parametrize("inside", [False, True])
def test_a_change_between_epochs_is_none_of_a_call(inside, capfd, monkeypatch):
    monkeypatch.setattr("stoker._where._shown", set())
    thing = Meeting()
    loader = (
        Loader(np.zeros((6, 8, 8, 3), np.uint8), 3, transforms=[thing], num_threads=2, dtype="uint8")
        if inside
        else Loader(thing, 3, dtype="uint8")
    )
    for thing.value in range(10):
        for images, *_ in loader:
            assert bool((images == thing.value).all())
    assert "one at a time" not in capfd.readouterr().err


def test_a_list_with_code_of_its_own_is_not_changed():
    class Counting(list):
        reads = 0

        def __getitem__(self, place):
            Counting.reads += 1
            return super().__getitem__(place)

    class Holds(Steady):
        def __init__(self):
            super().__init__()
            self.items, self.serial = Counting(range(400)), 0

    list(Loader(Holds(), 8))
    assert Counting.reads == 0


class DrawsThenPaints:
    def __init__(self):
        self.number = 0

    def __call__(self, image):
        self.number = (self.number + 7) % 256 if np.asarray(image).max() < 128 else self.number + 0  # the number changes only in some calls
        pixels = np.array(image)
        pixels[..., :4, :] = self.number
        time.sleep(0.0005)  # gives another thread time to draw
        pixels[..., 4:, :] = self.number
        return type(image)(pixels) if isinstance(image, torch.Tensor) else Image.fromarray(pixels)


class TwoViews:
    def __init__(self, transform):
        self.transform = transform

    def __call__(self, image):
        return [v1.functional.pil_to_tensor(self.transform(image)), v1.functional.pil_to_tensor(image)]


@pytest.mark.parametrize(
    "transforms",
    [
        lambda t: [t],
        lambda t: [v1.Compose([t, v1.PILToTensor()])],
        lambda t: [
            v1.ToTensor(),
            v1.Lambda(lambda x: (x * 255).byte()),
            v1.Lambda(lambda x: torch.from_numpy(np.array(t(Image.fromarray(x[0].numpy())))[None])),
        ],
        TwoViews,
    ],
    ids=["in the list", "in a Compose", "of tensors", "several views"],
)
def test_a_transform_that_keeps_what_it_draws_is_called_one_at_a_time(transforms, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("stoker._where._shown", set())
    (tmp_path / "class").mkdir()
    for i in range(48):
        Image.fromarray(np.full((8, 8, 3), i * 5, np.uint8)).save(tmp_path / "class" / f"{i}.png")
    made = transforms(DrawsThenPaints())
    if isinstance(made, TwoViews):
        loader = Loader(datasets.ImageFolder(tmp_path, made), 8)
    else:
        loader = Loader(tmp_path, 8, transforms=made)
    for batch in loader:
        images = batch[0][0] if isinstance(batch[0], list) else batch[0]
        assert torch.equal(images[:, :, 0], images[:, :, 7])
    assert "DrawsThenPaints.number" in capfd.readouterr().err
