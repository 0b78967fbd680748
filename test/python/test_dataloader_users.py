# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader over Datasets that users write. For some of them C code makes the images, for the others torch. The batches are the same as torch's."""

import collections
import os
import random
import re
import sys
from pathlib import Path

import numpy as np
import PIL
import pytest
import torch
from PIL import Image
from stoker import DataLoader
from support import SEED, import_torchvision, photograph, write_tree
from torch.utils import data

torchvision = import_torchvision()
from torchvision import datasets  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

TRANSFORM = v1.Compose([v1.Resize((20, 24)), v1.ToTensor()])
SCALE = 1
Pair = collections.namedtuple("Pair", "views number")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("users")
    write_tree(folder, np.random.default_rng(SEED), 3, 5)
    return folder


class Files(data.Dataset):
    """A Dataset of files like the one in PyTorch's tutorial."""

    def __init__(self, root, transform=TRANSFORM):
        self.root = str(root)
        self.names = sorted(str(path.relative_to(root)) for path in Path(root).glob("*/*.jpg"))
        self.transform = transform

    def __len__(self):
        return len(self.names)

    def __getitem__(self, idx):
        if torch.is_tensor(idx):
            idx = idx.tolist()
        path = os.path.join(self.root, self.names[idx])
        image = Image.open(path).convert("RGB")
        label = torch.tensor(int(idx) % 3, dtype=torch.long)
        if self.transform is not None:
            image = self.transform(image)
        return image, label * SCALE


def load(path):
    with open(path, "rb") as f:
        image = Image.open(f)
        return image.convert("RGB")


class Dicts(Files):
    def path(self, index):
        return f"{self.root}/{self.names[index]}"

    def __getitem__(self, index):
        sample = {"image": load(self.path(index)), "id": index}
        sample["name"] = os.path.basename(self.names[index])
        sample["image"] = self.transform(sample["image"])
        return sample


class OfItsMode(Files):
    def __getitem__(self, index):
        return self.transform(PIL.Image.open(os.path.join(self.root, self.names[index]))), index


class TwoViews(Files):
    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return Pair([self.transform(image), self.transform(image)], index)


class Transformed(data.Dataset):
    """Gives a part of a random_split its own transform, as users write it."""

    def __init__(self, subset, transform=None):
        self.subset, self.transform = subset, transform

    def __len__(self):
        return len(self.subset)

    def __getitem__(self, index):
        x, y = self.subset[index]
        if self.transform:
            x = self.transform(x)
        return x, y


class WithPaths(datasets.ImageFolder):
    def __getitem__(self, index):
        return (*super().__getitem__(index), self.imgs[index][0])


class OwnItems(datasets.ImageFolder):
    def __getitem__(self, index):
        path, target = self.samples[index]
        sample = self.loader(path)
        if self.transform is not None:
            sample = self.transform(sample)
        return {"x": sample, "y": target}


class Arrays(data.Dataset):
    def __init__(self):
        self.data = np.random.default_rng(0).integers(0, 256, (15, 30, 28, 3), np.uint8)

    def __len__(self):
        return 15

    def __getitem__(self, index):
        image = Image.fromarray(self.data[index])
        return TRANSFORM(image), index


def tokens(text):
    return torch.tensor([ord(letter) for letter in os.path.basename(text)])


class Tokens(Files):
    """A Dataset with a function as an attribute, which raises its own error for indices out of range."""

    def __init__(self, root, tokenize=tokens):
        super().__init__(root)
        self.tokenize = tokenize

    def __getitem__(self, index):
        if index >= len(self.names):
            raise IndexError(f"no sample {index}")
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), self.tokenize(self.names[index])


class Knows(Transformed):
    """Asks for what a Dataset may ask for, and has an attribute in two variables."""

    factor = 3

    def __init__(self, subset):
        super().__init__(subset, TRANSFORM)
        self.again, self.other = TRANSFORM, subset

    def __getitem__(self, index):
        x, y = self.subset[index]
        if bool(self.transform) and self.subset and len(self.subset) > 1 and hasattr(self.subset, "dataset"):
            x = self.again(x)
        names = [type(self).__name__, self.__class__.__name__, type(y).__name__]
        return x, y * type(self).factor * (type(self) is Knows) * isinstance(self, Knows), names, self.transform is not None


def half(root, transform=None):
    return data.random_split(datasets.ImageFolder(root, transform), [0.5, 0.5], torch.Generator().manual_seed(0))[0]


IN_C = {
    "files": Files,
    "dicts": Dicts,
    "of_its_mode": OfItsMode,
    "two_views": TwoViews,
    "subset_with_a_transform": lambda root: Transformed(half(root), TRANSFORM),
    "subset_that_has_one": lambda root: Transformed(half(root, TRANSFORM)),
    "arrays_inside": lambda root: Transformed(_cifar(), TRANSFORM),
    "knows": lambda root: Knows(half(root)),
    "with_paths": lambda root: WithPaths(root, TRANSFORM),
    "own_items": lambda root: OwnItems(root, TRANSFORM),
    "arrays": lambda root: Arrays(),
    "tokens": Tokens,
    "own_loader": lambda root: datasets.ImageFolder(root, TRANSFORM, loader=load),
    "part": lambda root: data.Subset(Dicts(root), [3, 4, 1, 1]),
    "sum": lambda root: data.ConcatDataset([Files(root), Files(root)]),
}


def _cifar():
    made = object.__new__(datasets.CIFAR10)
    made.transform = made.target_transform = None
    made.data, made.targets = np.random.default_rng(3).integers(0, 256, (23, 32, 32, 3), np.uint8), [k % 10 for k in range(23)]
    return made


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert (a.double() - b.double()).abs().max().item() <= (1.01 / 255 if a.ndim > 2 else 0)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


def compare(make, epochs=2, **arguments):
    def run(kind):
        torch.manual_seed(3), np.random.seed(3), random.seed(3)
        loader = kind(make(), 4, shuffle=True, **arguments)
        return [batch for _ in range(epochs) for batch in loader]

    same(run(data.DataLoader), run(DataLoader))


@pytest.mark.parametrize("name", IN_C)
def test_images_of_users_datasets_in_c(root, name):
    def make():
        return IN_C[name](root)

    for workers in (0, 1):
        assert "run in C" in DataLoader(make(), 4, num_workers=workers).explain().splitlines()[0]
    compare(make)
    compare(make, 1, collate_fn=list)
    compare(make, 1, num_workers=1)


# ---- what is left to torch ----


class Counts(Files):
    def __getitem__(self, index):
        self.last = index
        return super().__getitem__(index)


class Draws(Files):
    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), random.random()


class Crops(Files):
    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image.crop((0, 0, 30, 30))), index


class Doubles(Files):
    def __getitem__(self, index):
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")) * 2, index


class Caches(Files):
    def __getitem__(self, index):
        held = self.held
        if index not in held:
            held[index] = self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB"))
        return held[index], index

    held = {}  # noqa: RUF012


class Appends(Files):
    seen = []  # noqa: RUF012

    def __getitem__(self, index):
        self.seen.append(index)
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")), index


class Tries(Files):
    def __getitem__(self, index):
        try:
            image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        except OSError:
            return self[index + 1]
        return self.transform(image), index


class Sizes(Files):
    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), image.size[0]


class Two(Files):
    other = v1.Compose([v1.Resize((8, 8)), v1.ToTensor()])

    def __init__(self, root):
        super().__init__(root)
        self.second = v1.Compose([v1.Resize((8, 8)), v1.ToTensor()])

    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), self.second(image)


class Batched(Files):
    def __getitems__(self, indices):
        return [self[i] for i in indices]


class Ends(Files):
    def __del__(self):
        pass


class Grows(Files):
    def __getitem__(self, index):
        global SEEN
        SEEN = index
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")), index


class Gray(Files):
    def __getitem__(self, index):
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("L")), index


class Raw(Files):
    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), np.array(image).shape[2]


class RawInside(Files):
    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), {"pixels": np.array(image)[:20, :20]}


class Text(Files):
    def __getitem__(self, index):
        image = self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB"))
        return image, f"{len(str(image)) > 0}"


class Asks(Files):
    def __getitem__(self, index):
        image = self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB"))
        return image, 1 if torch.is_tensor(image) else 0


class Kinds(Files):
    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        kind = 1 if isinstance(image, Image.Image) else 0
        return self.transform(image), kind


class Compares(Files):
    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), index if image == self.root else -index


class HasAProperty(Files):
    calls = 0

    @property
    def count(self):
        self.calls += 1
        return self.calls

    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), self.count


class AddsInPlace(Files):
    def __init__(self, root):
        super().__init__(root)
        self.total = np.zeros(2)

    def __getitem__(self, index):
        total = self.total
        total += index
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")), total.copy()


class AppendsUnpacked(Files):
    def __init__(self, root):
        super().__init__(root)
        self.seen = []

    def __getitem__(self, index):
        seen = []
        seen, first = self.seen, 0
        seen.append(index)
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")), len(seen) + first


class NumbersNames(Files):
    """A Dataset that gives a name the next number when the name is first requested."""

    def __init__(self, root):
        super().__init__(root)
        self.numbers = collections.defaultdict(lambda: len(self.numbers))

    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), self.numbers[self.names[index]]


class ReadsAnIterator(Files):
    def __init__(self, root):
        super().__init__(root)
        self.lines = iter(range(1000))

    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
        return self.transform(image), [number for number, _ in zip(self.lines, [0], strict=False)]


def drawn_tokens(text):
    return torch.tensor([random.random() for _ in text[:3]])


class DrawsInAFunctionItHolds(Tokens):
    def __init__(self, root):
        super().__init__(root, drawn_tokens)


class Tracker:
    """An object whose operators, methods and properties change its attribute `count`."""

    def __init__(self):
        self.count, self.limit = 0, 3

    def get(self, index):
        self.count += 1
        return index

    def __getitem__(self, index):
        return self.get(index)

    def __len__(self):
        return self.get(3)

    def __iter__(self):
        return iter([self.get(1)])

    def __add__(self, other):
        return self.get(other)

    def __enter__(self):
        return self.get(self)

    def __exit__(self, *_):
        pass

    @property
    def size(self):
        return self.get(3)


class Item:
    def __init__(self, number):
        self.number, self.reads = number, 0

    @property
    def label(self):
        self.reads += 1
        return self.number + self.reads

    def get(self):
        return self.label


TRACKER = Tracker()


def counted(*, len):
    return len(3)


class WithTracker(Files):
    def __init__(self, root):
        super().__init__(root)
        self.tracker, self.lists, self.items = Tracker(), [[], []], [Item(k) for k in range(len(self.names))]

    def image(self, index):
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB"))

    def bump(self, number):
        self.tracker.count += number
        return self.tracker.count


class CallsAMethod(WithTracker):
    def __getitem__(self, index):
        return self.image(index), self.tracker.get(index)


class Indexes(WithTracker):
    def __getitem__(self, index):
        return self.image(index), self.tracker[index]


class Enters(WithTracker):
    def __getitem__(self, index):
        with self.tracker:
            return self.image(index), index


class Measures(WithTracker):
    def __getitem__(self, index):
        return self.image(index), len(self.tracker)


class Iterates(WithTracker):
    def __getitem__(self, index):
        return self.image(index), [number for number in self.tracker]


class AddsToAnObject(WithTracker):
    def __getitem__(self, index):
        return self.image(index), self.tracker + index


class ReadsAProperty(WithTracker):
    def __getitem__(self, index):
        return self.image(index), self.tracker.size


class ReadsAPropertyOfAnElement(WithTracker):
    def __getitem__(self, index):
        item = self.items[index]
        return self.image(index), item.label


class CallsAMethodOfAnElement(WithTracker):
    def __getitem__(self, index):
        return self.image(index), self.items[index].get()


class CallsAGlobal(WithTracker):
    def __getitem__(self, index):
        return self.image(index), TRACKER.get(index)


class CallsAnArgument(WithTracker):
    def __getitem__(self, index):
        return self.image(index), counted(len=self.bump)


class AppendsInAComprehension(WithTracker):
    def __getitem__(self, index):
        lists = []
        [lists.append(index) for lists in self.lists]
        return self.image(index), len(self.lists[0]) + len(lists)


class OpensToWrite(WithTracker):
    def __getitem__(self, index):
        with open(os.path.join(self.root, "log.txt"), "a"):
            return self.image(index), index


class AsksATransform(Files):
    """A Dataset that asks its transform for a property. Each class below asks in another way."""

    def image(self, index):
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB"))


class AsksForItsClass(AsksATransform):
    def __getitem__(self, index):
        return self.image(index), isinstance(self.transform, v1.Compose)


class AsksForItsType(AsksATransform):
    def __getitem__(self, index):
        return self.image(index), type(self.transform).__name__


class AsksALocalForItsType(AsksATransform):
    def __getitem__(self, index):
        transform = self.transform
        return self.image(index), type(transform).__name__


class AsksForAnAttribute(AsksATransform):
    def __getitem__(self, index):
        return self.image(index), hasattr(self.transform, "transforms")


class AsksALocalForAnAttribute(AsksATransform):
    def __getitem__(self, index):
        transform = self.transform
        return self.image(index), len(getattr(transform, "transforms", ()))


class AsksForItsText(AsksATransform):
    def __getitem__(self, index):
        return self.image(index), str(self.transform), f"{self.transform}"


class AsksForEquality(AsksATransform):
    def __getitem__(self, index):
        return self.image(index), self.transform == self.transform  # noqa: PLR0124


class AsksForIdentity(AsksATransform):
    def __getitem__(self, index):
        return self.image(index), self.transform is [self.transform, self.root][0]


class AsksItsLoader(AsksATransform):
    def __init__(self, root):
        super().__init__(root)
        self.loader = datasets.folder.default_loader

    def __getitem__(self, index):
        return self.image(index), self.loader.__name__


class AsksADataset(Transformed):
    def __init__(self, root):
        super().__init__(data.Subset(datasets.ImageFolder(root), range(15)), TRANSFORM)

    def __getitem__(self, index):
        x, y = self.subset[index]
        return self.transform(x), y + 100 * isinstance(self.subset, data.Subset)


class AsksALocalDataset(AsksADataset):
    def __getitem__(self, index):
        subset = self.subset
        x, y = subset[index]
        return self.transform(x), f"{y} of {type(subset).__name__}"


class CallsADataset(Transformed):
    def __init__(self, root):
        super().__init__(Gets(root), TRANSFORM)

    def __getitem__(self, index):
        x, y = self.subset[index]
        return x, y, self.subset.get(index)


class Gets(Files):
    calls = 0

    def get(self, index):
        self.calls += 1
        return self.calls


class Parts(Transformed):
    def __init__(self, root):
        super().__init__([Counts(root), Draws(root)], None)

    def __len__(self):
        return 15

    def __getitem__(self, index):
        return self.subset[0][index], self.subset[1][index]


class InAList(Transformed):
    def __init__(self, root):
        super().__init__([datasets.ImageFolder(root, TRANSFORM)])

    def __len__(self):
        return len(self.subset[0])

    def __getitem__(self, index):
        return self.subset[0][index]


FOLDERS = {}


class InAGlobalDict(Transformed):
    def __init__(self, root):
        FOLDERS["train"] = datasets.ImageFolder(root, TRANSFORM)
        super().__init__(None)

    def __len__(self):
        return 15

    def __getitem__(self, index):
        return FOLDERS["train"][index]


PYTHON = {
    InAList: "InAList.subset holds Datasets in a container, and only the images of Datasets that are attributes of their own",
    InAGlobalDict: "FOLDERS holds Datasets in a container",
    AsksForItsClass: "calls isinstance with self.transform",
    AsksForItsType: "calls type with self.transform",
    AsksALocalForItsType: "does more with an image",
    AsksForAnAttribute: "calls hasattr with self.transform",
    AsksALocalForAnAttribute: "does more with an image",
    AsksForItsText: "calls str with self.transform",
    AsksForEquality: "does more with an image",
    AsksForIdentity: "compares objects by `is`",
    AsksItsLoader: "reads an attribute of self.loader",
    AsksADataset: "calls isinstance with self.subset",
    AsksALocalDataset: "does more with an image",
    CallsADataset: r"calls .get\(\)",
    Parts: "uses objects of the class (Counts|Draws)",
    CallsAMethod: "reads self.tracker.get, which is computed",
    Indexes: "uses self.tracker, an object of the class Tracker",
    Enters: "uses self.tracker",
    Measures: "uses self.tracker",
    Iterates: "uses self.tracker",
    AddsToAnObject: "uses self.tracker",
    ReadsAProperty: "reads self.tracker.size, which is computed",
    ReadsAPropertyOfAnElement: "reads .label, which objects of the Dataset compute",
    CallsAMethodOfAnElement: "reads .get, which objects of the Dataset compute",
    CallsAGlobal: "reads TRACKER.get, which is computed",
    CallsAnArgument: "hands on the function self.bump",
    AppendsInAComprehension: "changes lists",
    OpensToWrite: "opens a file to write",
    Raw: "does more with an image",
    RawInside: "does more with an image",
    Text: "does more with an image",
    Asks: "does more with an image",
    Kinds: "does more with an image",
    Compares: "does more with an image",
    Counts: "changes self.last",
    Draws: r"calls random.random",
    NumbersNames: "numbers is a defaultdict",
    ReadsAnIterator: "lines is a range_iterator",
    HasAProperty: "reads the property count",
    AddsInPlace: "changes total",
    AppendsUnpacked: "changes seen",
    DrawsInAFunctionItHolds: "drawn_tokens calls random.random",
    Crops: r"calls .crop\(\)",
    Doubles: "unsupported operand",
    Caches: r"changes held\[index\]",
    Appends: "changes self.seen",
    Tries: "has a statement try",
    Sizes: "does more with an image",
    Two: "does more with an image",
    Batched: "__getitems__",
    Ends: "__del__",
    Grows: "has a statement global",
    Gray: "does more with an image",
}


def test_a_path_in_place_of_a_dataset_is_named(tmp_path):
    assert "a str is no Dataset" in DataLoader(str(tmp_path), 4).explain()


@pytest.mark.parametrize("kind", PYTHON, ids=lambda kind: kind.__name__)
def test_other_code_runs_as_python(root, kind):
    assert re.search("all of it runs in Python.*" + PYTHON[kind], DataLoader(kind(root), 4).explain())
    compare(lambda: kind(root), 1)


class PlainObjects(WithTracker):
    """Reading attributes of plain objects has no side effect, so the images are made in C."""

    def __getitem__(self, index):
        item = self.items[index]
        number = item.number if self.tracker is not None and self.tracker.limit else 0
        return self.image(index), number


def test_attributes_of_plain_objects_stay_in_c(root):
    assert "run in C" in DataLoader(PlainObjects(root), 4).explain()
    compare(lambda: PlainObjects(root), 1)


def test_images_that_are_returned_as_they_are(root):
    class Both(Files):
        def __getitem__(self, index):
            image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
            return self.transform(image), image

    (x, image), *_ = next(iter(DataLoader(Both(root), 2, collate_fn=list)))
    assert x.shape == (3, 20, 24) and isinstance(image, Image.Image)


def test_a_transform_that_is_returned_as_it_is(root):
    class Both(AsksATransform):
        def __getitem__(self, index):
            return self.image(index), [self.transform]

    (x, [transform]), *_ = next(iter(DataLoader(Both(root), 2, collate_fn=list)))
    assert x.shape == (3, 20, 24) and transform is TRANSFORM


# ---- calls ----


def calls_of(function, run):
    """Returns how often `run` calls the code of a function on this thread."""
    calls = 0

    def count(frame, event, _):
        nonlocal calls
        calls += event == "call" and frame.f_code is function.__code__

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", ["Subset", "ConcatDataset", "Tokens"])
def test_samples_that_were_looked_at_are_kept_for_workers(root, kind):
    """Samples that Stoker computes before an epoch, to look at the Dataset, are kept for it: with workers, each epoch computes 15 samples."""
    dataset = Tokens(root)
    if kind == "Subset":
        dataset = data.Subset(dataset, range(15))
    elif kind == "ConcatDataset":
        dataset = data.ConcatDataset([dataset])
    loader = DataLoader(dataset, 4, num_workers=1, shuffle=True)
    assert "run in C" in loader.explain()
    assert calls_of(tokens, lambda: list(loader)) == 15
    assert calls_of(tokens, lambda: list(loader)) == 15


def test_calls_of_a_dataset_that_has_effects(root):
    """Stoker calls a Dataset with side effects once for each sample, in the sampler's order, and never before an epoch."""
    dataset, seen = Appends(root), []
    dataset.seen = seen
    loader = DataLoader(dataset, 4)
    loader.explain()
    assert not seen
    list(loader)
    assert len(seen) == 15


def test_a_loop_that_changes_a_list_before_the_first_batch(root):
    def run(kind):
        dataset = Files(root)
        iterator = iter(kind(dataset, 4))
        dataset.names.reverse()
        return list(iterator)

    same(run(data.DataLoader), run(DataLoader))


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("of", [lambda dataset: dataset, lambda dataset: data.Subset(dataset, range(15))], ids=["whole", "part"])
def test_slow_python_stays_in_workers(root, slow, of, monkeypatch):
    monkeypatch.setattr("stoker.dataloader._user._SLOW_S", -1.0 if slow else float("inf"))
    explained = DataLoader(of(Files(root)), 4, num_workers=1).explain()
    assert ("workers run it next to the loop" in explained) == slow
    assert "run in C" in DataLoader(of(Files(root)), 4).explain()
    compare(lambda: of(Files(root)), 1)
    compare(lambda: of(Files(root)), 1, num_workers=1)


def test_the_first_batch_does_not_wait_for_the_python_of_others(root, monkeypatch):
    monkeypatch.setattr("stoker.dataloader._user._SLOW_S", -1.0)
    iterator = iter(DataLoader(Tokens(root), 4))
    assert calls_of(tokens, lambda: next(iterator)) == 4


# ---- target_transform ----


class Remembers:
    """A target_transform with an effect: it keeps the targets that it got."""

    def __init__(self):
        self.seen = []

    def __call__(self, target):
        self.seen.append(target)
        return target + random.random()


class Labelled(Files):
    def __init__(self, root, target_transform=None):
        super().__init__(root)
        self.target_transform = target_transform

    def __getitem__(self, index):
        label = index
        if self.target_transform:
            label = self.target_transform(label)
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")), label


def _folder(root, function, kind=datasets.ImageFolder, transform=TRANSFORM, **named):
    return kind(root, transform, target_transform=function, **named)


def _numbers(root, function):
    made = _cifar()
    made.transform, made.target_transform = TRANSFORM, function
    return made


TARGETS = {
    "folder": (_folder, True),
    "part": (lambda root, function: data.Subset(_folder(root, function), [3, 1, 14, 2, 9]), True),
    "sum": (lambda root, function: data.ConcatDataset([_folder(root, function), _folder(root, None)]), True),
    "arrays": (_numbers, True),
    "own": (Labelled, False),
    "own_loader": (lambda root, function: _folder(root, function, loader=load), False),
    "own_item": (lambda root, function: _folder(root, function, WithPaths), False),
    "inside": (lambda root, function: Transformed(data.Subset(_folder(root, function, transform=None), range(15)), TRANSFORM), False),
    "sum_inside": (lambda root, function: Transformed(data.ConcatDataset([_folder(root, function), _folder(root, None)])), False),
    "reversed_sum_inside": (lambda root, function: Transformed(data.ConcatDataset([_folder(root, None), _folder(root, function)])), False),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_transform_with_effects(root, name):
    """It is called once for each sample, with the draws that it has with torch, only when the loop asks for the batch, and not by explain()."""
    make, in_c = TARGETS[name]

    def run(kind):
        torch.manual_seed(3), random.seed(3)
        function = Remembers()
        loader = kind(make(root, function), 4, shuffle=True)
        if kind is DataLoader:
            assert ("run in C" in loader.explain()) == in_c and not function.seen
        found = []
        for batch in loader:
            found.append((batch, len(function.seen), random.random()))
        return found, function.seen

    same(run(data.DataLoader), run(DataLoader))


def double(target):
    return target * 2 + SCALE


def drawn(target):
    return target + random.random()


NAMES = {0: 4, 1: 7, 2: 5}


@pytest.mark.parametrize("function", [double, float, lambda t: t + 1, lambda t: NAMES[int(t) % 3] - min(t, SCALE)])
@pytest.mark.parametrize("name", TARGETS)
def test_a_target_transform_that_only_computes(root, name, function):
    make, _ = TARGETS[name]
    assert "run in C" in DataLoader(make(root, function), 4).explain()
    compare(lambda: make(root, function))
    compare(lambda: make(root, function), 1, num_workers=1, collate_fn=list)


@pytest.mark.parametrize(
    "function", [lambda t: t + random.random(), lambda t: NAMES.pop(t, t), lambda t: print(t) or t, lambda t: same(t, t) or t]
)
def test_a_lambda_that_may_have_effects_runs_in_python(root, function):
    for name, (make, in_c) in TARGETS.items():
        assert ("run in C" in DataLoader(make(root, function), 4).explain()) == in_c, name


def test_a_target_transform_that_draws_says_so(root):
    for name, (make, in_c) in TARGETS.items():
        explained = DataLoader(make(root, drawn), 4).explain()
        assert ("run in C" in explained) if in_c else "drawn calls random.random" in explained, name
        assert in_c or "target_transform" in DataLoader(make(root, Remembers()), 4).explain()


# ---- changes and failures while a loop runs ----


@pytest.mark.parametrize("change", ["transform", "folder", "global"])
def test_a_loop_that_changes_its_dataset(root, change, monkeypatch):
    """Without workers the next batch shows the change, as with torch's DataLoader."""
    other = v1.Compose([v1.Resize((9, 9)), v1.ToTensor()])

    def run(kind):
        monkeypatch.setitem(globals(), "SCALE", 1)
        dataset = datasets.ImageFolder(root, TRANSFORM) if change == "folder" else Files(root)
        found = []
        for k, batch in enumerate(kind(dataset, 4)):
            found.append(batch)
            if k == 1 and change == "global":
                monkeypatch.setitem(globals(), "SCALE", 7)
            elif k == 1:
                dataset.transform = other
        return found

    same(run(data.DataLoader), run(DataLoader))


class Settings:
    offset = 0


class OfObject(Files):
    def __getitem__(self, index):
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")), index + self.settings.offset


class OfClass(Files):
    def __getitem__(self, index):
        return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")), index + Settings.offset


def _with_object(root):
    made = OfObject(root)
    made.settings = Settings()
    made.settings.offset = 0
    return made, lambda: setattr(made.settings, "offset", 1000)


def _with_class(root):
    Settings.offset = 0
    return OfClass(root), lambda: setattr(Settings, "offset", 1000)


def _with_own_class(root):
    class Own(Files):
        offset = 0

        def __getitem__(self, index):
            image = Image.open(os.path.join(self.root, self.names[index])).convert("RGB")
            return self.transform(image), index + self.offset + getattr(self, "offset", 0)

    return Own(root), lambda: setattr(Own, "offset", 1000)


def _with_method(root):
    class Own(Files):
        def label(self, index):
            return index

        def __getitem__(self, index):
            return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")), self.label(index)

    return Own(root), lambda: setattr(Own, "label", lambda self, index: index + 1000)


def _in_a_function(root):
    offset = 0

    def change():
        nonlocal offset
        offset = 1000

    class Own(Files):
        def __getitem__(self, index):
            return self.transform(Image.open(os.path.join(self.root, self.names[index])).convert("RGB")), index + offset

    return Own(root), change


def _labelled(make):
    """Returns a function that makes a data set with a lambda, which reads a variable of the enclosing function or a global one."""

    def of(root):
        offset = SCALE - 1

        def change():
            nonlocal offset
            offset = 1000

        return make(root, lambda target: target + offset), change

    return of


def _global_lambda(root):
    globals()["SCALE"] = 1
    return Labelled(root, lambda target: target * SCALE), lambda: globals().update(SCALE=7)


def _list_of_a_function(root):
    offsets = [0]
    return Labelled(root, lambda target: target + max(offsets)), lambda: offsets.append(1000)


def _scaled(target):
    return target * SCALE


def _of_folder(root, function, change):
    globals()["SCALE"] = 1
    made = datasets.ImageFolder(root, TRANSFORM, function)
    made.samples = made.samples * 2
    return made, change


def _folder_and_a_list(root):
    names = [3, 4, 5, 6]
    return _of_folder(root, lambda target: names[target], lambda: names.__setitem__(slice(None), [7] * 4))


VARIABLES = {
    "folder": (lambda root: _of_folder(root, _scaled, lambda: globals().update(SCALE=7)), (0, 1)),
    "folder and a lambda": (lambda root: _of_folder(root, lambda target: target + SCALE, lambda: globals().update(SCALE=7)), (0, 1)),
    "folder and a list": (_folder_and_a_list, (1,)),
    "object": (_with_object, (0,)),
    "class": (_with_class, (0,)),
    "own class": (_with_own_class, (0, 1)),
    "method": (_with_method, (0,)),
    "enclosing function": (_in_a_function, (0, 1)),
    "lambda": (_labelled(Labelled), (0, 1)),
    "lambda inside": (_labelled(TARGETS["inside"][0]), (0, 1)),
    "lambda and a global": (_global_lambda, (0, 1)),
    "list": (_list_of_a_function, (1,)),
}


@pytest.mark.parametrize(("name", "workers"), [(name, workers) for name, (_, of) in VARIABLES.items() for workers in of])
def test_a_loop_that_changes_what_code_reads(root, name, workers, monkeypatch):
    """Without workers the next batch shows a change of a variable or a class. Torch's workers keep their copies."""
    monkeypatch.setitem(globals(), "SCALE", 1)

    def run(kind):
        dataset, change = VARIABLES[name][0](root)
        found = []
        for k, batch in enumerate(kind(dataset, 1, num_workers=workers)):
            found.append(batch)
            if k == 1:
                change()
        return found

    assert "run in C" in DataLoader(VARIABLES[name][0](root)[0], 1, num_workers=workers).explain()
    same(run(data.DataLoader), run(DataLoader))


SMALL = (9, 9)


def _labels(dataset):
    for k, (path, _) in enumerate(dataset.samples):
        dataset.samples[k] = path, 7


def _hook(dataset):
    dataset.transform.register_forward_hook(lambda module, given, result: result + 1)


CHANGES = {
    "a part": lambda d: d.transform.transforms.__setitem__(0, v1.Resize(SMALL)),
    "a size": lambda d: setattr(d.transform.transforms[0], "size", SMALL),
    "a number of a size": lambda d: d.transform.transforms[0].size.__setitem__(0, 9),
    "one more": lambda d: d.transform.transforms.append(v1.Normalize([0.5] * 3, [0.5] * 3)),
    "a module": lambda d: setattr(d.transform, "1", v2.CenterCrop(SMALL)),
    "a hook": _hook,
    "labels": _labels,
    "one label": lambda d: d.samples.__setitem__(6, (d.samples[6][0], 9)),
    "fewer": lambda d: d.samples.__delitem__(slice(1, 3)),
    "a target_transform": lambda d: setattr(d, "target_transform", lambda target: target + 5),
}


def _changing(kind, make, change, workers):
    dataset, found = make(), []
    for k, batch in enumerate(kind(dataset, 2, num_workers=workers)):
        found.append(batch)
        if k == 0:
            change(dataset)
        elif k == 5:
            return found
    return found


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("change", CHANGES)
def test_a_loop_that_changes_a_folder(root, change, workers):
    """Without workers the next batch shows the change, as with torch's DataLoader. With workers, which have copies, no batch of the epoch shows it."""

    def make():
        parts = [v2.Resize([20, 24]), v2.CenterCrop(18), *([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])]
        in_modules = change in ("a module", "a hook")
        return datasets.ImageFolder(root, torch.nn.Sequential(*parts) if in_modules else v1.Compose([v1.Resize([20, 24]), v1.ToTensor()]))

    assert "run in C" in DataLoader(make(), 2, num_workers=workers).explain()
    same(*(_changing(kind, make, CHANGES[change], workers) for kind in (data.DataLoader, DataLoader)))


def _of_tensors():
    return data.TensorDataset(torch.arange(16))


def _of_cifar():
    made = _cifar()
    made.transform = TRANSFORM
    return made


def _of_one_label():
    made = _of_cifar()
    made.targets = [7] * 23
    return made


WRAPPED = {
    "indices": (lambda: data.Subset(_of_tensors(), list(range(16))), lambda d: setattr(d, "indices", [15] * 16)),
    "an index": (lambda: data.Subset(_of_tensors(), list(range(16))), lambda d: d.indices.__setitem__(5, 0)),
    "whole": (lambda: data.Subset(_of_tensors(), range(16)), lambda d: setattr(d, "dataset", data.TensorDataset(torch.ones(16)))),
    "tensors": (_of_tensors, lambda d: setattr(d, "tensors", (torch.zeros(16),))),
    "indices of images": (lambda: data.Subset(_of_cifar(), list(range(16))), lambda d: setattr(d, "indices", [15] * 16)),
    "an index of an image": (lambda: data.Subset(_of_cifar(), list(range(16))), lambda d: d.indices.__setitem__(5, 0)),
    "an index of equal labels": (lambda: data.Subset(_of_one_label(), list(range(16))), lambda d: d.indices.__setitem__(5, 0)),
    "an index in an array": (lambda: data.Subset(_of_one_label(), np.arange(16)), lambda d: d.indices.__setitem__(5, 0)),
    "an index of arrays": (lambda: data.Subset(Arrays(), list(range(15))), lambda d: d.indices.__setitem__(5, 0)),
    "an index of a part": (
        lambda: data.Subset(data.ConcatDataset([Arrays(), data.Subset(_of_one_label(), torch.arange(16))]), list(range(12, 30))),
        lambda d: d.dataset.datasets[1].indices.__setitem__(2, 9),
    ),
    "targets": (_of_cifar, lambda d: d.targets.__setitem__(slice(3, 9), [700] * 6)),
    "data": (_of_cifar, lambda d: setattr(d, "data", d.data[::-1])),
    "a part": (lambda: data.ConcatDataset([_of_cifar(), _of_cifar()]), lambda d: d.datasets.__setitem__(0, d.datasets[1])),
    "ends": (lambda: data.ConcatDataset([_of_cifar(), _of_cifar()]), lambda d: setattr(d, "cumulative_sizes", [2, 46])),
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("change", WRAPPED)
def test_a_loop_that_changes_what_its_dataset_holds(change, workers):
    make, apply = WRAPPED[change]
    assert re.search("run in C|indexed at once", DataLoader(make(), 2, num_workers=workers).explain())
    same(*(_changing(kind, make, apply, workers) for kind in (data.DataLoader, DataLoader)))


LABELS = {"list": list, "tuple": tuple, "array": np.array, "objects": lambda v: np.array(v, dtype=object), "tensor": torch.tensor}


def _with_labels(name, labels):
    rng = np.random.default_rng(3)
    made = object.__new__(getattr(datasets, name))
    made.transform, made.target_transform = TRANSFORM, None
    shape = {"MNIST": (23, 28, 28), "SVHN": (23, 3, 32, 32)}.get(name, (23, 32, 32, 3))
    made.data = rng.integers(0, 256, shape, np.uint8)
    if name == "MNIST":
        made.data = torch.from_numpy(made.data)
    setattr(made, "labels" if name == "SVHN" else "targets", labels)
    return made


class ByName(Arrays):
    """A Dataset that takes texts too."""

    def __getitem__(self, key):
        return TRANSFORM(Image.fromarray(self.data[int(key)])), int(key)


KEYS = {
    "texts": lambda: np.array([str(k) for k in range(15)]),
    "objects": lambda: np.array([str(k) for k in range(15)], dtype=object),
    "list": lambda: [str(k) for k in range(15)],
    "bytes": lambda: np.array([b"%d" % k for k in range(15)]),
    "numbers": lambda: np.arange(15),
}


@pytest.mark.parametrize("form", KEYS)
def test_keys_of_a_subset_that_do_not_change_stay_in_c(form):
    _stays_in_c(lambda: data.Subset(ByName(), KEYS[form]()))
    same(*(_changing(kind, lambda: data.Subset(ByName(), KEYS[form]()), _swap, 0) for kind in (data.DataLoader, DataLoader)))


def _swap(subset):
    subset.indices[5] = subset.indices[0]


def _stays_in_c(make):
    iterator = iter(DataLoader(make(), 4))
    same(list(data.DataLoader(make(), 4)), list(iterator))
    assert not iterator._rest_in_python


@pytest.mark.parametrize("container", LABELS)
@pytest.mark.parametrize("name", ["CIFAR10", "MNIST", "SVHN"])
def test_labels_in_an_array_stay_in_c(name, container):
    labels = LABELS[container]([k * 1000 for k in range(23)])
    _stays_in_c(lambda: _with_labels(name, labels))
    _stays_in_c(lambda: data.Subset(data.ConcatDataset([_with_labels(name, labels)] * 2), [40, 3, 7, 3, 22, 30]))


@pytest.mark.parametrize("container", ["list", "tuple", "objects"])
def test_samples_in_an_array_stay_in_c(root, container):
    def make():
        made = datasets.ImageFolder(root, TRANSFORM)
        made.samples = LABELS[container](made.samples)
        return made

    _stays_in_c(make)


def test_a_loop_that_changes_a_list_has_no_effect_with_workers(root):
    assert "run in C" in DataLoader(Files(root), 2, num_workers=1).explain()
    same(*(_changing(kind, lambda: Files(root), lambda d: d.names.reverse(), 1) for kind in (data.DataLoader, DataLoader)))


def test_samples_that_only_pillow_reads(root, tmp_path):
    """A batch may contain images that were made in C and images that only Pillow can read."""
    rng = np.random.default_rng(1)
    (tmp_path / "a").mkdir()
    for k in range(40):
        Image.fromarray(photograph(rng, 40, 50)).save(tmp_path / "a" / f"{k:02d}.jpg")
    Image.fromarray(photograph(rng, 40, 50)).convert("L").save(tmp_path / "a" / "07.jpg")
    Image.fromarray(photograph(rng, 40, 50)).save(tmp_path / "a" / "13.jpg", format="GIF")

    class Three(OfItsMode):
        def __getitem__(self, index):
            return self.transform(Image.open(os.path.join(self.root, self.names[index]))), index

    assert "run in C" in DataLoader(Three(tmp_path), 4).explain()
    compare(lambda: Three(tmp_path), 1, collate_fn=list)


def test_a_file_that_is_gone(root):
    dataset = Files(root)
    dataset.names[4] = "class0/none.jpg"
    iterator = iter(DataLoader(dataset, 4))
    next(iterator)
    with pytest.raises(FileNotFoundError, match=r"none\.jpg"):
        next(iterator)
    assert next(iterator)[1].tolist() == [2, 0, 1, 2]


def test_copies_leave_the_dataset_as_it_is(root):
    dataset = Dicts(root)
    before = dict(vars(dataset))
    list(DataLoader(dataset, 4))
    assert vars(dataset) == before and type(dataset) is Dicts and type(dataset[0]["image"]) is torch.Tensor


# ---- data sets whose targets are of several kinds ----


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    """Writes a folder as OxfordIIITPet expects it."""
    top = tmp_path_factory.mktemp("pets")
    folder = top / "oxford-iiit-pet"
    for name in ("images", "annotations/trimaps"):
        (folder / name).mkdir(parents=True)
    lines = []
    for k in range(9):
        picture = photograph(np.random.default_rng(k), 40, 48)
        Image.fromarray(picture).save(folder / "images" / f"Pet_{k % 3}_{k}.jpg")
        Image.fromarray(picture[..., 0] % 3 + 1).save(folder / "annotations/trimaps" / f"Pet_{k % 3}_{k}.png")
        lines.append(f"Pet_{k % 3}_{k} {k % 3 + 1} {k % 2 + 1} 1")
    (folder / "annotations/trainval.txt").write_text("\n".join(lines))
    return top


def _tensor(target):
    return torch.from_numpy(np.array(target)[:20, :24].copy()) if isinstance(target, Image.Image) else target


def _tensors(target):
    return tuple(map(_tensor, target)) if isinstance(target, tuple) else _tensor(target)


@pytest.mark.parametrize(
    "kinds", ["category", "binary-category", "segmentation", ["category", "binary-category"], ["category", "segmentation"]]
)
def test_targets_of_oxford_pets(pets, kinds):
    """The samples are listed in advance only for the target "category"; for other targets, the data set's own Python runs."""
    from stoker import Loader

    def make(**more):
        return datasets.OxfordIIITPet(pets, target_types=kinds, transform=TRANSFORM, **more)

    def with_tensors():
        return make(target_transform=_tensors)

    compare(with_tensors, 2)
    loader = DataLoader(make(), 4, collate_fn=list)
    assert ("9 files of OxfordIIITPet" in loader.explain()) == (kinds == "category")
    expected = [sample for sample in make()]
    if not isinstance(kinds, list):
        made = [(image, label) for batch in Loader(make(), 4) for image, label in zip(batch.image, batch.label, strict=True)]
        for (image, label), (wanted, target) in zip(made, expected, strict=True):
            assert np.array_equal(label, np.array(target)) and (image - wanted).abs().max() <= 1.001 / 255


def test_transforms_of_image_and_target_together(pets):
    """`transforms` is called with image and target, so the data set's own Python has to run."""
    from stoker import Loader

    def swapped(image, target):
        return TRANSFORM(image) * 0 + target, 100 + target

    def make():
        return datasets.OxfordIIITPet(pets, transforms=swapped)

    compare(make, 1)
    for images, labels in Loader(make(), 4):
        assert (labels >= 100).all() and torch.equal(images[:, 0, 0, 0], labels - 100.0)
