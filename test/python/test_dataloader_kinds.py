# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader against torch's: samples of many types, data sets inside data sets, and the ways to start workers, drawn at random.
Types, dtypes, layouts and values of the batches are the same, and so are the errors.
"""

import collections
import collections.abc
import dataclasses
import enum
import itertools
import pickle
import random
import types
import typing

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import DataLoader
from support import SEED, import_torchvision, photograph
from torch.utils import data

CASES = 120


class Point(typing.NamedTuple):
    x: torch.Tensor
    y: int = 3
    name: str = "none"


@dataclasses.dataclass
class Record:
    image: torch.Tensor
    label: int = 0


@dataclasses.dataclass(frozen=True)
class Frozen:
    image: torch.Tensor
    label: int = 0


class Tagged(torch.Tensor):
    """A subclass of Tensor whose operations return the same subclass."""


class Loud(torch.Tensor):
    """A subclass of Tensor in which torch.stack has another result."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = super().__torch_function__(func, types, args, kwargs or {})
        return made + 1 if func is torch.stack else made


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Words(str):
    pass


class Rows(list):
    pass


def sparse(i):
    return torch.sparse_coo_tensor(torch.tensor([[0, i % 3], [1, 2]]), torch.tensor([1.0, float(i)]), (3, 4))


LEAVES = {
    "int": lambda i: i,
    "large int": lambda i: 2**62 + i,
    "too large int": lambda i: 2**63 + i,
    "bool": lambda i: i % 2 == 0,
    "float": lambda i: i / 7,
    "not a number": lambda i: float("nan"),
    "complex number": lambda i: complex(i, 1),
    "text": lambda i: f"s{i}",
    "own text": lambda i: Words(i),
    "bytes": lambda i: bytes([i]),
    "none": lambda i: None,
    "enum": lambda i: list(Color)[i % 2],
    "float32": lambda i: torch.full((2, 3), i / 3),
    "bfloat16": lambda i: torch.full((3,), i / 3, dtype=torch.bfloat16),
    "half": lambda i: torch.full((3,), i / 3, dtype=torch.float16),
    "double": lambda i: torch.full((3,), i / 3, dtype=torch.float64),
    "complex64": lambda i: torch.complex(torch.tensor([1.0 * i]), torch.tensor([2.0])),
    "complex128": lambda i: torch.tensor([[i + 2j]], dtype=torch.complex128),
    "uint16": lambda i: torch.tensor([i, 65535], dtype=torch.uint16),
    "float8": lambda i: torch.tensor([i / 4, 1.0]).to(torch.float8_e4m3fn),
    "scalar tensor": lambda i: torch.tensor(i),
    "zero-size": lambda i: torch.zeros(0, 3),
    "zero-size inside": lambda i: torch.zeros(2, 0, 4, dtype=torch.int16),
    "some zero-size": lambda i: torch.zeros(i % 2, 3),
    "ragged": lambda i: torch.arange(i % 3 + 1),
    "sparse": sparse,
    "sparse rows": lambda i: sparse(i).to_sparse_csr(),
    "subclass": lambda i: torch.full((2,), float(i)).as_subclass(Tagged),
    "loud subclass": lambda i: torch.full((2,), float(i)).as_subclass(Loud),
    "parameter": lambda i: torch.nn.Parameter(torch.full((2,), float(i)), requires_grad=False),
    "transposed": lambda i: torch.arange(6).view(2, 3).t() + i,
    "broadcast": lambda i: torch.tensor([float(i)]).expand(4, 3),
    "conjugated": lambda i: torch.tensor([1 + 2j * i]).conj(),
    "array": lambda i: np.full((2, 2), i, np.int16),
    "array of zero dims": lambda i: np.array(i, np.float32),
    "empty array": lambda i: np.zeros((0, 2), np.uint8),
    "array of bytes in another order": lambda i: np.full(2, i, ">i4"),
    "array of texts": lambda i: np.array(["a", "b"]),
    "array of objects": lambda i: np.array([None, i], dtype=object),
    "array of booleans": lambda i: np.array([i % 2 == 0, True]),
    "reversed array": lambda i: np.arange(4)[::-1],
    "masked array": lambda i: np.ma.masked_array([i, 2], mask=[False, True]),
    "float16 of NumPy": lambda i: np.float16(i),
    "int64 of NumPy": lambda i: np.int64(i),
    "bool of NumPy": lambda i: np.bool_(i % 2),
    "text of NumPy": lambda i: np.str_(f"n{i}"),
    "date": lambda i: np.datetime64("2020-01-01"),
    "set": lambda i: {i},
    "object": lambda i: Color,
    "uneven list": lambda i: [i] * (i % 3 + 1),
    "text or number": lambda i: i if i % 4 else "x",
}
PLAIN = [name for name in LEAVES if "too large" not in name]


def container(draw, depth=0):
    """Returns a function that makes a sample from an index, and a description of the sample."""
    kind = draw.choice(
        ["leaf"] * 3 + ["tuple", "list", "dict", "named", "named", "record", "frozen", "ordered", "default", "mapping", "rows", "range"]
    )
    if depth > 2 or kind == "leaf":
        name = draw.choice(list(LEAVES))
        return LEAVES[name], name
    parts = [container(draw, depth + 1) for _ in range(draw.randrange(0 if depth else 1, 4))]
    gives, names = [part[0] for part in parts], [part[1] for part in parts]
    first = gives[0] if gives else LEAVES["int"]
    made = {
        "tuple": lambda i: tuple(give(i) for give in gives),
        "list": lambda i: [give(i) for give in gives],
        "rows": lambda i: Rows(give(i) for give in gives),
        "dict": lambda i: {f"k{k}": give(i) for k, give in enumerate(gives)},
        "ordered": lambda i: collections.OrderedDict((k, give(i)) for k, give in reversed(list(enumerate(gives)))),
        "default": lambda i: collections.defaultdict(list, {k: give(i) for k, give in enumerate(gives)}),
        "mapping": lambda i: types.MappingProxyType({f"k{k}": give(i) for k, give in enumerate(gives)}),
        "named": lambda i: Point(first(i), *(() if i % 2 and len(gives) == 1 else (i,))),
        "record": lambda i: Record(first(i), i),
        "frozen": lambda i: Frozen(first(i)),
        "range": lambda i: range(i, i + 2),
    }
    return made[kind], f"{kind} of {names}"


class Given(data.Dataset):
    def __init__(self, give, length):
        self.give, self.length = give, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not -self.length <= index < self.length:
            raise IndexError(f"there is no sample {index}")
        return self.give(int(index))


class AtOnce(Given):
    """A Dataset that makes all samples of a batch in one call."""

    def __getitems__(self, indices):
        return [self.give(int(index)) for index in indices]


class TooFew(Given):
    def __getitems__(self, indices):
        return [self.give(int(index)) for index in indices[:-1]]


class Stream(data.IterableDataset):
    """A stream that divides its samples among the workers, and adds the worker's number to each."""

    def __init__(self, give, length):
        self.give, self.length = give, length

    def __iter__(self):
        info = data.get_worker_info()
        step, first = (1, 0) if info is None else (info.num_workers, info.id)
        assert info is None or type(info.dataset) in (Stream, StreamOfLength, data.ChainDataset)
        return ((self.give(k), first) for k in range(first, self.length, step))


class StreamOfLength(Stream):
    def __len__(self):
        return self.length


def dataset(draw, base=None):
    """Returns a function that makes a data set, and a description of the data set. base: the kind of the data set; None: drawn."""
    give, what = container(draw)
    length = draw.choice([0, 1, 4, 9, 16])
    kind = draw.choice([Given] * 4 + [AtOnce, AtOnce, TooFew, Stream, StreamOfLength, "tensors", "list", "dict"]) if base is None else base
    what = f"{kind if isinstance(kind, str) else kind.__name__} {length} of {what}"
    if kind == "tensors":
        rows = torch.arange(length * 2).view(length, 2)
        columns = draw.choice(
            [(rows.to(torch.complex64),), (rows.to(torch.bfloat16), rows[:, :0]), (rows.float().as_subclass(Tagged), rows)]
        )
        return lambda: data.TensorDataset(*columns), what
    if kind == "list":
        return lambda: [give(k) for k in range(length)], what
    if kind == "dict":
        return lambda: {k: give(k) for k in range(length)}, what
    return lambda: kind(give, length), what


def around(draw, make, what):
    """Wraps a data set in others, such as Subset, at random. Returns a function that makes the result, and a description of it."""
    for _ in range(draw.choice([0, 0, 1, 1, 2])):
        made = make()
        if isinstance(made, data.IterableDataset):
            return (lambda make=make: data.ChainDataset([make(), make()])), f"chain of {what}"
        length = len(made)
        kind = draw.choice(["subset", "subset of an array", "sum", "split", "stack", "stack by name"])
        ids = [draw.randrange(length) for _ in range(draw.randrange(0, 9))] if length else []
        make = {
            "subset": lambda make=make, ids=ids: data.Subset(make(), ids),
            "subset of an array": lambda make=make, ids=ids: data.Subset(make(), np.array(ids, np.int64)),
            "sum": lambda make=make: data.ConcatDataset([make(), make()]),
            "split": lambda make=make: data.random_split(make(), [0.7, 0.3], torch.Generator().manual_seed(5))[0],
            "stack": lambda make=make: data.StackDataset(make(), make()),
            "stack by name": lambda make=make: data.StackDataset(a=make(), b=make()),
        }[kind]
        what = f"{kind} of {what}"
    return make, what


def order(draw, made):
    length = len(made) if not isinstance(made, data.IterableDataset) else 0
    size, last = draw.choice([1, 2, 3, 5, 20]), draw.random() < 0.3
    if not length:
        return draw.choice([{"batch_size": size, "drop_last": last}, {"batch_size": None}])
    ids = [draw.randrange(length) for _ in range(draw.randrange(0, 12))]
    return draw.choice(
        [
            {"batch_size": size, "drop_last": last},
            {"batch_size": size, "drop_last": last},
            {"batch_size": size, "shuffle": True},
            {"batch_size": size, "shuffle": True, "generator": 11},
            {"batch_size": size, "sampler": ids},
            {"batch_size": None, "sampler": ids},
            {"batch_sampler": [ids[:2], ids[2:3], ids[3:]]},
        ]
    )


def whole(samples):
    return samples


class Refusal(Exception):
    """An exception that cannot be recreated from its text."""

    def __init__(self, number, text):
        super().__init__(text)
        self.number = number


def taken(kind, make, arguments, count=2):
    """Returns all that a loop gets in `count` epochs as a list, with "the end" or an error after each, and the state of torch's generator afterwards."""
    torch.manual_seed(SEED)
    given = dict(arguments)
    if "generator" in given:
        given["generator"] = torch.Generator().manual_seed(given["generator"])
    found = []
    try:
        loader = kind(make(), **given)
        for _ in range(count):
            iterator = iter(loader)
            for _ in range(40):
                try:
                    found.append(next(iterator))
                except StopIteration:
                    found.append("the end")
                    break
                except Exception as e:
                    found.append(e)
                    break
    except Exception as e:
        found.append(e)
    return found, torch.get_rng_state()


def same(a, b, in_workers):
    assert type(a) is type(b), (type(a), type(b), a, b)
    if isinstance(a, Exception):
        assert in_workers or str(a) == str(b), (a, b)
    elif isinstance(a, torch.Tensor):
        facts = [(t.dtype, t.shape, t.layout, t.requires_grad, t.is_conj(), t.device) for t in (a, b)]
        assert facts[0] == facts[1], facts
        if a.layout is torch.strided:
            assert a.stride() == b.stride()
        a, b = (t.as_subclass(torch.Tensor).detach() if t.layout is torch.strided else t.to_dense() for t in (a, b))
        assert bytes_of(a) == bytes_of(b)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and str(a) == str(b)
    elif isinstance(a, collections.abc.Mapping):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key], in_workers)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y, in_workers)
    elif dataclasses.is_dataclass(a) and not isinstance(a, type):
        same(vars(a), vars(b), in_workers)
    else:
        assert a == b or a != a


def bytes_of(tensor):
    tensor = tensor.as_subclass(torch.Tensor).resolve_conj().contiguous()
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def compare(case, seed=SEED, workers=0.02):
    draw = random.Random(f"{seed} kinds {case}")
    make, what = around(draw, *dataset(draw))
    arguments = order(draw, make())
    if draw.random() < 0.25:
        arguments["collate_fn"] = draw.choice([whole, tuple, data.default_collate, lambda samples: samples[0]])
    # Samples with a mappingproxy get no workers: a worker that cannot pickle a batch never answers, neither here nor in torch.
    if draw.random() < workers and "mapping" not in what:
        arguments |= {"num_workers": draw.choice([1, 2]), "persistent_workers": draw.random() < 0.5}
    note = f"seed {seed}, case {case}: {what}; {arguments}"
    expected, state = taken(data.DataLoader, make, arguments)
    given, own = taken(DataLoader, make, arguments)
    assert len(expected) == len(given), (note, expected[-1], given[-1])
    for a, b in zip(expected, given, strict=True):
        try:
            same(a, b, "num_workers" in arguments)
        except AssertionError as e:
            raise AssertionError(f"{note}: {e}") from e
    assert torch.equal(state, own), note
    return expected


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("STOKER_QUIET", "1")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_samples_of_many_types(part):
    results = itertools.chain(*(compare(case) for case in range(part * CASES // 4, (part + 1) * CASES // 4)))
    assert any(not isinstance(result, (Exception, str)) for result in results)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LEAVES)
def test_each_type_separately(name):
    for arguments in ({"batch_size": 3}, {"batch_size": None}, {"batch_size": 2, "collate_fn": whole}):
        for make in (
            lambda: Given(LEAVES[name], 6),
            lambda: data.Subset(AtOnce(LEAVES[name], 6), [4, 1, 2]),
            lambda: Stream(LEAVES[name], 5),
        ):
            expected, _ = taken(data.DataLoader, make, arguments, 1)
            given, _ = taken(DataLoader, make, arguments, 1)
            assert len(expected) == len(given)
            for a, b in zip(expected, given, strict=True):
                same(a, b, False)


class Raising(Given):
    def __getitem__(self, index):
        if index == 3:
            raise Refusal(index, "sample 3")
        return super().__getitem__(index)


def tagged(index):
    return {"tensor": torch.full((2,), float(index)), "point": Point(torch.tensor(index)), "text": f"s{index}", "none": torch.zeros(0)}


def seed_of(worker):
    torch.manual_seed(worker)


@pytest.mark.parametrize("kind", ["map", "stream"])
def test_workers_that_are_not_forks(kind):
    """Spawned workers give torch's batches. The Dataset and the function that initialises a worker are pickled for them."""
    make, arguments = {
        "map": (lambda: data.ConcatDataset([AtOnce(tagged, 5), Given(tagged, 4)]), {"worker_init_fn": seed_of, "shuffle": True}),
        "stream": (lambda: StreamOfLength(tagged, 7), {"persistent_workers": True}),
    }[kind]
    count = 2 if kind == "stream" else 1  # number of epochs; only one for maps, since starting a process for each epoch takes seconds
    arguments |= {"batch_size": 2, "num_workers": 1, "multiprocessing_context": "spawn"}
    expected, state = taken(data.DataLoader, make, arguments, count)
    given, own = taken(DataLoader, make, arguments, count)
    assert len(expected) == len(given) > 4 and torch.equal(state, own)
    for a, b in zip(expected, given, strict=True):
        same(a, b, True)


def test_a_dataset_that_cannot_be_pickled_raises_what_torch_raises():
    for kind in (data.DataLoader, DataLoader):
        with pytest.raises((AttributeError, TypeError, ValueError, pickle.PicklingError), match=r"[Pp]ickle|local object"):
            next(iter(kind(Given(lambda i: i, 4), num_workers=1, multiprocessing_context="spawn")))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_custom_exception(workers):
    for kind in (data.DataLoader, DataLoader):
        iterator = iter(kind(Raising(tagged, 6), 2, num_workers=workers))
        next(iterator)
        with pytest.raises((Refusal, RuntimeError), match="sample 3"):
            next(iterator)
        assert next(iterator)["text"] == ["s4", "s5"]


@pytest.mark.parametrize("form", ["record", "frozen", "named", "nested", "stack", "stack by name", "sum of stacks"])
def test_images_in_samples_of_many_forms(form, tmp_path):
    torchvision = import_torchvision()
    rng = np.random.default_rng(SEED)
    for k in range(7):
        path = tmp_path / f"c{k % 2}" / f"{k}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(photograph(rng, 40, 52)).save(path)
    transform = torchvision.transforms.Compose([torchvision.transforms.CenterCrop(24), torchvision.transforms.ToTensor()])

    def folder():
        return torchvision.datasets.ImageFolder(tmp_path, transform)

    class Pictures(data.Dataset):
        def __init__(self):
            self.samples, self.transform = folder().samples, transform

        def __len__(self):
            return len(self.samples)

        def __getitem__(self, index):
            path, label = self.samples[index]
            image = self.transform(Image.open(path).convert("RGB"))
            if form == "record":
                return Record(image, label)
            if form == "frozen":
                return Frozen(image, label)
            if form == "named":
                return Point(image, name=f"n{label}")
            return {"inputs": {"image": image, "index": index}, "targets": [label, {"one": (label, f"t{label}")}]}

    make = {
        "stack": lambda: data.StackDataset(folder(), folder()),
        "stack by name": lambda: data.StackDataset(left=folder(), number=data.TensorDataset(torch.arange(7))),
        "sum of stacks": lambda: data.Subset(data.ConcatDataset([data.StackDataset(folder(), folder())] * 2), [9, 3, 3, 13, 0]),
    }.get(form, Pictures)
    for more in ({}, {"collate_fn": whole}, {"num_workers": 1}):
        arguments = {"batch_size": 3, "shuffle": True, "generator": 4, **more}
        expected, state = taken(data.DataLoader, make, arguments)
        given, own = taken(DataLoader, make, arguments)
        assert len(expected) == len(given) and torch.equal(state, own)
        for a, b in zip(expected, given, strict=True):
            same(a, b, "num_workers" in more)
