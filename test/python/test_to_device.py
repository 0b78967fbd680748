# SPDX-License-Identifier: Apache-2.0
"""Trees of tensors and arrays are copied as Tensor.to copies each of them. The tests copy to the CPU, and to "meta", for which tensors are packed."""

import collections
import types
from collections import OrderedDict, namedtuple
from collections.abc import MutableMapping

import numpy as np
import pytest
import stoker
from stoker.errors import InvalidArgumentError
from stoker.structured.multi_tensor_copier import AsyncCopyHandle, start_copy
from stoker.structured.pipeline import SampleDataGroup

torch = pytest.importorskip("torch")

from stoker.batching import RaggedBatch  # noqa: E402

Pair = namedtuple("Pair", "left right")
# The device of the tensors on the CPU has no index. For torch this is another device, so tensors are copied to it.
OTHER_CPU = torch.device("cpu", 0)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def tree_of(rng):
    """Returns a tree of tensors, arrays and other values in many types and containers."""
    grid = torch.from_numpy(rng.normal(size=(5, 6)))
    return {
        "boxes": [torch.from_numpy(rng.normal(size=(int(n), 4)).astype(np.float32)) for n in rng.integers(0, 5, 20)],
        "one": torch.tensor(3),
        "flags": (torch.tensor([True, False]), np.arange(3, dtype=np.int16), "text", None, 4.5),
        "pair": Pair(grid.t(), [grid[::2, 1:4], np.asarray(7.5)]),
        "ordered": OrderedDict(a=torch.ones(2, 3, dtype=torch.bfloat16), b={}),
        "more": [[torch.full((3,), k, dtype=torch.uint8) for k in range(9)], np.arange(6.0)[::-1], torch.ones(2, dtype=torch.complex64)],
    }


def check(made, given, device):
    assert type(made) is type(given) or isinstance(given, np.ndarray)
    if isinstance(given, dict):
        assert list(made) == list(given)
        for key in given:
            check(made[key], given[key], device)
    elif isinstance(given, (list, tuple)):
        assert len(made) == len(given)
        for a, b in zip(made, given, strict=True):
            check(a, b, device)
    elif isinstance(given, (torch.Tensor, np.ndarray)):
        wanted = torch.as_tensor(given.copy() if isinstance(given, np.ndarray) else given)
        assert made.device.type == device and made.dtype == wanted.dtype and made.shape == wanted.shape
        assert device == "meta" or torch.equal(made.cpu(), wanted)
    else:
        assert made is given


@pytest.mark.parametrize("device", [*DEVICES, "meta"])
def test_trees_are_copied(rng, device):
    tree = tree_of(rng)
    check(stoker.to_device(tree, device), tree, device)
    for background in (False, True):
        for pack in (False, True):
            handle = start_copy(tree, device, pack_cpu_tensors=pack, use_background_thread=background, max_packed_chunk_bytes=64)
            assert isinstance(handle, AsyncCopyHandle)
            check(handle.get(), tree, device)
            assert handle.ready()


def test_packing_keeps_values_and_alignment(rng):
    """Tensors that are packed into buffers, here on the CPU, keep their values, become contiguous, and begin at multiples of the alignment."""
    from stoker import _to_device

    leaves = [torch.from_numpy(rng.integers(0, 99, shape)) for shape in [(3,), (3,), (2, 5), (), (3,), (400,), (2, 5)]]
    leaves += [torch.tensor([1, 2, 3], dtype=torch.uint8), torch.ones(4, 3).t()]
    for align, chunk in [(1, 100), (16, 1 << 20), (64, 256), (16, 1)]:
        made = [None] * len(leaves)
        _, sources, rest = _to_device._copy_packed(leaves, made, _to_device.Packing(OTHER_CPU, False, align, chunk, 0))
        assert sources == {torch.device("cpu")} and rest == []
        assert all(torch.equal(a, b) and a.is_contiguous() and a.data_ptr() % align == 0 for a, b in zip(made, leaves, strict=True))
        assert all(a.data_ptr() != b.data_ptr() for a, b in zip(made, leaves, strict=True))


def test_tensors_on_the_device_stay_the_same():
    tensor = torch.ones(3)
    assert stoker.to_device([tensor], "cpu")[0] is tensor


def test_gradients_pass():
    weight = torch.ones(3, requires_grad=True)
    made = stoker.to_device({"w": weight}, "meta")["w"]
    assert made.requires_grad and made.grad_fn is not None


@pytest.mark.parametrize("device", ["meta", *DEVICES[1:]])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_a_change_of_one_tensor_is_no_change_of_others(device, shape):
    one, other = stoker.to_device([torch.ones(shape), torch.ones(shape)], device)
    weight = torch.ones(shape, device=device, requires_grad=True)
    product = (weight * one).sum()
    other.add_(1)
    product.backward()
    other.add_(weight)
    assert other.requires_grad and not one.requires_grad and one._version == 0


def test_values_that_cannot_be_copied():
    with pytest.raises(InvalidArgumentError, match="no form as a tensor"):
        stoker.to_device([np.array(["a"])], "cpu")
    with pytest.raises(InvalidArgumentError, match="power of two"):
        start_copy([torch.ones(2)], "meta", min_packed_alignment_bytes=3)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_masked_arrays_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"holds a masked array: fill it"):
        stoker.to_device({"a": [np.ma.array([1, 2], mask=[False, True])]}, "cpu")


def test_mappings_that_cannot_be_changed_are_named():
    with pytest.raises(InvalidArgumentError, match=r"holds a mappingproxy, .* give it as a dict"):
        stoker.to_device([types.MappingProxyType({"a": torch.ones(1)})], "cpu")


class Inside(MutableMapping):
    """A mapping around a dict, which copy.copy shares."""

    def __init__(self, pairs=()):
        self.inside = dict(pairs)

    def __getitem__(self, key):
        return self.inside[key]

    def __setitem__(self, key, value):
        self.inside[key] = value

    def __delitem__(self, key):
        del self.inside[key]

    def __iter__(self):
        return iter(self.inside)

    def __len__(self):
        return len(self.inside)


class OfKeywords(Inside):
    def __init__(self, **pairs):
        super().__init__(pairs)


class OfName(Inside):
    def __init__(self, name):
        super().__init__()
        self.name = name


def test_mappings_that_were_given_stay_as_they_were():
    own, one = collections.UserDict(a=torch.ones(1)), torch.ones(1)
    given = Inside({"b": one, "a": np.zeros(2)})
    for tree in (given, own):
        made = stoker.to_device(tree, "meta")
        assert type(made) is type(tree) and list(made) == list(tree) and made["a"].is_meta
    assert given["b"] is one and isinstance(given["a"], np.ndarray) and not own["a"].is_meta
    other = OfName("name")
    other["a"] = one
    for tree in (OfKeywords(a=one), other):
        with pytest.raises(InvalidArgumentError, match=r"holds a Of\w+, .* give it as a dict"):
            stoker.to_device(tree, "meta")
        assert tree["a"] is one


def test_mappings_keep_their_other_attributes():
    class Sample(Inside):
        def __init__(self, data=(), form="xyxy"):
            super().__init__(data)
            self.form, self.units = form, dict.fromkeys(self, "none")

    given = Sample({"boxes": torch.ones(2, 4)}, "cxcywh")
    given.units, given.later = {"boxes": "pixels"}, 7
    made = stoker.to_device(given, "meta")
    assert made["boxes"].is_meta and not given["boxes"].is_meta
    assert (made.form, made.units, made.later) == ("cxcywh", {"boxes": "pixels"}, 7)


class InLists(MutableMapping):
    """A mapping whose keys and values are in two lists."""

    def __init__(self, pairs=(), form="xyxy"):
        self.form, self.keys_in_order, self.values_in_order = form, [], []
        for key, value in pairs:
            self[key] = value

    def __getitem__(self, key):
        if key not in self.keys_in_order:
            raise KeyError(key)
        return self.values_in_order[self.keys_in_order.index(key)]

    def __setitem__(self, key, value):
        if key in self.keys_in_order:
            self.values_in_order[self.keys_in_order.index(key)] = value
        else:
            self.keys_in_order.append(key)
            self.values_in_order.append(value)

    def __delitem__(self, key):
        k = self.keys_in_order.index(key)
        del self.keys_in_order[k], self.values_in_order[k]

    def __iter__(self):
        return iter(self.keys_in_order)

    def __len__(self):
        return len(self.keys_in_order)


class OfAnyCase(Inside):
    """A mapping whose keys are found in any case, as that of requests."""

    def __init__(self, pairs=(), form="xyxy"):
        super().__init__({key.lower(): (key, value) for key, value in pairs})
        self.form = form

    def __getitem__(self, key):
        return self.inside[key.lower()][1]

    def __setitem__(self, key, value):
        self.inside[key.lower()] = (key, value)

    def __iter__(self):
        return (key for key, _ in self.inside.values())


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("kind", [InLists, OfAnyCase, Inside])
def test_mappings_hold_their_items_in_any_form(kind, device):
    one = torch.ones(2, 2)
    given = kind([("Boxes", one), ("b", np.zeros(3)), ("name", "x")])
    given.form = "cxcywh"
    made = stoker.to_device(given, device)
    assert type(made) is kind and list(made) == list(given) and made.form == "cxcywh" and made["name"] == "x"
    assert made["Boxes"].device.type == made["b"].device.type == device
    made["more"], made["Boxes"] = 1, 2
    del made["b"]
    assert list(given) == ["Boxes", "b", "name"] and given["Boxes"] is one and isinstance(given["b"], np.ndarray)


class Prefixed(Inside):
    """A mapping whose keys begin with an attribute: a text, or a text inside a list."""

    def __init__(self, pairs=(), prefix=""):
        super().__init__(dict(pairs))
        self.prefix = prefix

    def __getitem__(self, key):
        prefix = "".join(self.prefix)
        if not key.startswith(prefix):
            raise KeyError(key)
        return self.inside[key[len(prefix) :]]

    def __iter__(self):
        return ("".join(self.prefix) + key for key in self.inside)


@pytest.mark.parametrize("prefix", ["cam_", ["cam_"]])
def test_mappings_whose_attributes_change_their_keys_are_refused(prefix):
    given = Prefixed({"front": torch.ones(2)}, prefix)
    with pytest.raises(InvalidArgumentError, match=r"holds a Prefixed, .*its attribute prefix changes the items.* give it as a dict"):
        stoker.to_device(given, "meta")
    assert list(given) == ["cam_front"] and given.prefix == prefix
    assert stoker.to_device(Prefixed({"front": torch.ones(2)}), "meta")["front"].is_meta


def test_tensors_that_cannot_be_packed_are_copied_one_by_one(rng):
    """Sparse, quantized and some empty tensors, and those that require gradients, are not packed; the tensors around them are."""
    from stoker import _to_device

    complex_ones = torch.from_numpy(rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2)))
    leaves = [
        torch.ones(3),
        torch.ones(3, requires_grad=True),
        torch.eye(3).to_sparse(),
        torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
        complex_ones.conj(),
        complex_ones.conj().imag,
        torch.ones(2, 0, 4),
        torch.ones(0, 4),
        torch.nn.Parameter(torch.ones(2)),
        torch.tensor(7),
        torch.full((3, 1, 2), 5.0),
    ]
    made = list(leaves)
    _, _, rest = _to_device._copy_packed(leaves, made, _to_device.Packing(OTHER_CPU, False, 16, 1 << 20, 0))
    assert sorted(rest) == [1, 2, 3, 6, 8]
    for k, (a, b) in enumerate(zip(made, leaves, strict=True)):
        assert (a is b) == (k in rest), k
        assert a.dtype == b.dtype and a.shape == b.shape and (k in rest or torch.equal(a, b.resolve_conj().resolve_neg())), k
    del leaves[3]  # there is no quantized tensor on "meta"
    copies = stoker.to_device(leaves, "meta")
    assert [c.shape for c in copies] == [leaf.shape for leaf in leaves] and copies[1].requires_grad


@pytest.mark.parametrize("least", [0, 20, 1024])
def test_groups_are_the_same_without_dlpacks_table(rng, least):
    """Tensors are grouped alike by DLPack's table of functions and, as with an older torch that has none, by their attributes dtype and shape."""
    from stoker import _core

    class Like:
        def __init__(self, tensor):
            self.dtype, self.shape, self.device = tensor.dtype, tensor.shape, tensor.device

    shapes = [(), (1,), (5,), (4, 3), (2, 3), (0, 3), (2, 0), (3, 1, 7)]
    tensors = [torch.zeros(shapes[k % len(shapes)], dtype=[torch.uint8, torch.float64, torch.bool][k % 3]) for k in range(48)]
    tensors = [tensors[k] for k in rng.permutation(48)]
    by_table, rest = _core.tree_groups(tensors, torch.Tensor, 16, least)
    by_attributes, same_rest = _core.tree_groups([Like(t) for t in tensors], Like, 16, least)
    assert rest == same_rest and len(by_table) == len(by_attributes) > 6
    for (_, *one), (_, *other) in zip(by_table, by_attributes, strict=True):
        assert one == other


def test_tensors_of_two_devices_are_in_different_groups():
    """Tensors of one dtype and shape on different devices are not packed together, also where they are grouped by attributes."""
    from stoker import _core

    class Like:
        dtype, shape = torch.float32, (2, 3)

        def __init__(self, device):
            self.device = torch.device(device)

    groups, rest = _core.tree_groups([Like(name) for name in ("cpu", "cuda:0", "cuda:1", "cpu", "cuda:1")], Like, 16, 0)
    assert rest == []
    assert [[k for k in group[2] if k >= 0] for group in groups] == [[0, 3], [1], [2, 4]]


def test_hundreds_of_shapes_and_dtypes(rng):
    shapes = [tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 6)))) for _ in range(400)]
    dtypes = [torch.float32, torch.int64, torch.bool, torch.float16, torch.complex128]
    leaves = [torch.from_numpy(rng.integers(0, 2, shape)).to(dtypes[k % 5]) for k, shape in enumerate(shapes)]
    made = stoker.to_device(leaves, OTHER_CPU)
    for a, b in zip(made, leaves, strict=True):
        assert a is not b and a.dtype == b.dtype and torch.equal(a, b) and a.data_ptr() % a.element_size() == 0


def test_thousands_of_shapes_have_their_own_groups(rng):
    from stoker import _core

    shapes = [(1, a, b) for a in range(1, 60) for b in range(1, 60)]
    tensors = [torch.empty(shapes[k]) for k in rng.permutation(2 * len(shapes)) % len(shapes)]
    groups, rest = _core.tree_groups(tensors, torch.Tensor, 16, 0)
    assert len(groups) == len(shapes) and rest == []
    for inputs, _, members, _, _ in groups:
        assert [tensors[k].shape for k in members if k >= 0] == [inputs[0].shape] * 2


def test_only_large_tensors_are_aligned(rng):
    leaves = [torch.from_numpy(rng.integers(0, 99, int(n)).astype(np.uint8)) for n in rng.permutation([*range(1, 200), *range(1000, 1050)])]
    made = stoker.to_device(leaves, OTHER_CPU)
    assert all(torch.equal(a, b) for a, b in zip(made, leaves, strict=True))
    assert all(a.data_ptr() % 16 == 0 for a in made if len(a) >= 1024)
    assert len({a.data_ptr() % 16 for a in made if len(a) < 1024}) > 1
    packed = start_copy(leaves, OTHER_CPU, use_background_thread=False).get()
    assert all(a.data_ptr() % 16 == 0 and torch.equal(a, b) for a, b in zip(packed, leaves, strict=True))


def test_containers_of_the_users_come_back_in_order():
    class Record(dict):
        pass

    tree = {"z": (1, [torch.ones(1)], Record(b=torch.zeros(2), a=("x", torch.tensor(4)))), "a": [], "t": ()}
    made = stoker.to_device(tree, "meta")
    assert list(made) == ["z", "a", "t"] and made["a"] == [] and made["t"] == ()
    assert type(made["z"][2]) is Record and list(made["z"][2]) == ["b", "a"] and made["z"][2]["a"][0] == "x"
    assert made["z"][1][0].is_meta and made["z"][2]["a"][1].is_meta
    assert tree["z"][1][0].device.type == "cpu"


def test_batches_of_structured_pipelines_are_copied():
    boxes = RaggedBatch(torch.arange(24.0).view(2, 3, 4), sample_sizes=torch.tensor([3, 1]))
    group = SampleDataGroup()
    for name, kind in (("image", stoker.types.UINT8), ("boxes", stoker.types.FLOAT), ("token", stoker.types.STRING)):
        group.add_data_field(name, kind)
    sample = SampleDataGroup()
    sample.add_data_group_field("camera", group)
    sample.set_data([torch.ones(2, dtype=torch.uint8), boxes, ["a", "b"]])
    made = stoker.to_device({"sample": sample, "other": (boxes.get_non_uniform_dimension_transposed_to(2), "text")}, "meta")
    camera = made["sample"]["camera"]
    assert camera["image"].is_meta and camera["boxes"].tensor.is_meta and camera["boxes"].sample_sizes.is_meta
    assert camera["token"] == ["a", "b"] and made["other"][1] == "text"
    assert made["other"][0].non_uniform_dim == 2 and made["other"][0].shape == (2, 4, 3)
    assert not boxes.tensor.is_meta and sample["camera"]["boxes"] is boxes  # the tree that was given stays as it was
    again = stoker.to_device(sample, "cpu")["camera"]["boxes"]
    assert torch.equal(again.tensor, boxes.tensor) and torch.equal(again.mask, boxes.mask)


def test_a_tree_that_holds_itself_is_refused():
    tree = [torch.ones(1)]
    tree.append(tree)
    with pytest.raises(RecursionError, match="tree of tensors"):
        stoker.to_device(tree, "meta")
