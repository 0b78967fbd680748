# SPDX-License-Identifier: Apache-2.0
"""Trees of tensors and arrays are copied as Tensor.to copies each of them. The tests use the CPU as both ends, and "meta" as a device that packs."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import stoker
from stoker.errors import InvalidArgumentError
from stoker.structured.multi_tensor_copier import AsyncCopyHandle, start_copy

torch = pytest.importorskip("torch")
Pair = namedtuple("Pair", "left right")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def tree_of(rng):
    """A tree of all types and forms that a batch may hold."""
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
    """Packs on the CPU, into a buffer on the CPU."""
    from stoker import _to_device

    leaves = [torch.from_numpy(rng.integers(0, 99, shape)) for shape in [(3,), (3,), (2, 5), (), (3,), (400,), (2, 5)]]
    leaves += [torch.tensor([1, 2, 3], dtype=torch.uint8), torch.ones(4, 3).t()]
    for align, chunk in [(1, 100), (16, 1 << 20), (64, 256), (16, 1)]:
        packed = {}
        for k, leaf in enumerate(leaves):
            packed.setdefault(leaf.device, {}).setdefault((leaf.dtype, leaf.shape), []).append(k)
        made = [None] * len(leaves)
        cpu = torch.device("cpu")
        _to_device._copy_packed(leaves, made, packed, cpu, False, align, chunk, torch)
        assert all(torch.equal(a, b) and a.is_contiguous() and a.data_ptr() % align == 0 for a, b in zip(made, leaves, strict=True))
        assert all(a.data_ptr() != b.data_ptr() for a, b in zip(made, leaves, strict=True))


def test_tensors_that_are_there_stay_the_same():
    tensor = torch.ones(3)
    assert stoker.to_device([tensor], "cpu")[0] is tensor


def test_gradients_pass():
    weight = torch.ones(3, requires_grad=True)
    made = stoker.to_device({"w": weight}, "meta")["w"]
    assert made.requires_grad and made.grad_fn is not None


def test_what_cannot_be_copied():
    with pytest.raises(InvalidArgumentError, match="no form as a tensor"):
        stoker.to_device([np.array(["a"])], "cpu")
    with pytest.raises(InvalidArgumentError, match="power of two"):
        start_copy([torch.ones(2)], "meta", min_packed_alignment_bytes=3)
