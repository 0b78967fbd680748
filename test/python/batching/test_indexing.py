# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: B023 - functions are called in the loop that makes them
import random

import pytest
import reference
import stoker.batching as sb
import torch
from torch.autograd import gradcheck, gradgradcheck

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64, torch.bool, torch.uint8, torch.complex64]


def values(shape, dtype, device):
    if dtype == torch.bool:
        return torch.rand(shape, device=device) > 0.5
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(0, 100, shape, dtype=dtype, device=device)
    return torch.randn(shape, device=device).to(dtype)


class Case:
    """Random sizes, indices and data that follow from one seed. Target indices are distinct unless `duplicates` is set."""

    def __init__(self, seed, device, dtype=torch.float64, index_dtype=torch.int64, duplicates=False):
        random.seed(seed)
        torch.manual_seed(seed)
        self.batch, items, targets, count = random.randint(1, 4), random.randint(1, 9), random.randint(1, 9), random.randint(0, 9)
        inner = random.choice([(), (1,), (3,), (2, 4)])
        self.item_sizes = torch.randint(1, items + 1, (self.batch,), device=device)
        self.target_sizes = torch.randint(1, targets + 1, (self.batch,), device=device)
        limit = count if duplicates else min(count, targets)
        self.sizes = torch.randint(0, limit + 1, (self.batch,), device=device)
        if not duplicates:
            self.sizes = torch.minimum(self.sizes, self.target_sizes)
        self.data = values((self.batch, items, *inner), dtype, device)
        self.base = values((self.batch, targets, *inner), dtype, device)
        self.rows = values((self.batch, count, *inner), dtype, device)
        self.source_index = self.indices(self.item_sizes, count, index_dtype, device, True)
        self.target_index = self.indices(self.target_sizes, count, index_dtype, device, duplicates)

    def indices(self, limits, count, dtype, device, duplicates):
        out = torch.full((self.batch, count), 10**6, dtype=dtype, device=device)  # the padding holds an index that must never be used
        for b in range(self.batch):
            limit, n = int(limits[b]), int(self.sizes[b])
            picked = torch.randint(0, limit, (n,)) if duplicates else torch.randperm(limit)[:n]
            negative = torch.rand(n) < 0.3
            out[b, :n] = torch.where(negative, picked - limit, picked).to(device, dtype)
        return out

    def ragged(self, tensor, sizes):
        return sb.RaggedBatch(tensor, sample_sizes=sizes)


def equal(a, b):
    return torch.equal(a.cpu(), b.cpu())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64], ids=str)
def test_functions_equal_loops_over_samples(device, dtype, index_dtype):
    for seed in range(12):
        c = Case(seed, device, dtype, index_dtype, duplicates=seed % 2 == 1)
        filler = 1 if seed % 3 else 0
        source, target = c.ragged(c.source_index, c.sizes), c.ragged(c.target_index, c.sizes)
        got = sb.batched_indexing_access(c.ragged(c.data, c.item_sizes), source, filler)
        want = reference.access(c.data, c.source_index, c.sizes, c.item_sizes, filler)
        assert equal(got.tensor, want) and got.sample_sizes is c.sizes, seed
        got = sb.batched_indexing_write(c.rows, target, c.ragged(c.base, c.target_sizes))
        want = reference.write(c.rows, None, None, c.target_index, c.sizes, c.base, c.target_sizes)
        assert isinstance(got, sb.RaggedBatch) and equal(got.tensor, want), seed
        got = sb.batched_index_mapping(c.ragged(c.data, c.item_sizes), source, target, c.ragged(c.base, c.target_sizes))
        want = reference.write(c.data, c.source_index, c.item_sizes, c.target_index, c.sizes, c.base, c.target_sizes)
        assert equal(got.tensor, want), seed
        full = c.base.shape[1] * torch.ones_like(c.target_sizes)
        positive = torch.where(c.target_index < 0, c.target_index + c.target_sizes[:, None].to(index_dtype), c.target_index)
        got = sb.batched_inverse_indexing_access(c.rows, c.ragged(positive, c.sizes), c.base.shape[1], filler)
        want = reference.write(c.rows, None, None, positive, c.sizes, torch.full_like(c.base, filler), full)
        assert equal(got, want), seed
        mask = sb.get_mask_from_indices(c.base.shape[1], c.ragged(positive, c.sizes))
        ones = torch.ones(c.batch, c.rows.shape[1], dtype=torch.bool)
        assert equal(mask, reference.write(ones, None, None, positive, c.sizes, torch.zeros(mask.shape, dtype=torch.bool), full)), seed
    sb.check()


@pytest.mark.parametrize("duplicates", [False, True])
def test_gradients_of_first_and_second_order_are_right(device, duplicates):
    for seed in range(6):
        c = Case(seed, device, duplicates=duplicates)
        source, target = c.ragged(c.source_index, c.sizes), c.ragged(c.target_index, c.sizes)
        positive = torch.where(c.target_index < 0, c.target_index + c.target_sizes[:, None], c.target_index)
        inverse = c.ragged(positive, c.sizes)
        for t in (c.data, c.base, c.rows):
            t.requires_grad_()
        functions = [
            (lambda d: sb.batched_indexing_access(c.ragged(d, c.item_sizes), source).tensor, (c.data,)),
            (lambda r: sb.batched_inverse_indexing_access(r, inverse, c.base.shape[1]), (c.rows,)),
            (lambda r, t: sb.batched_indexing_write(r, target, c.ragged(t, c.target_sizes)).tensor, (c.rows, c.base)),
            (
                lambda d, t: sb.batched_index_mapping(c.ragged(d, c.item_sizes), source, target, c.ragged(t, c.target_sizes)).tensor,
                (c.data, c.base),
            ),
        ]
        for i, (function, inputs) in enumerate(functions):
            if all(t.numel() for t in inputs):
                assert gradcheck(function, inputs), (seed, i)
                assert gradgradcheck(function, inputs), (seed, i)


def test_only_the_last_write_gets_a_gradient(device):
    rows = torch.ones(1, 3, 2, device=device, requires_grad=True)
    index = sb.RaggedBatch(torch.tensor([[1, 0, 1]], device=device), sample_sizes=torch.tensor([3], device=device))
    base = torch.zeros(1, 4, 2, device=device, requires_grad=True)
    out = sb.batched_indexing_write(rows, index, base)
    assert out[0, :, 0].tolist() == [1, 1, 0, 0]
    (out * torch.arange(8.0, device=device).view(1, 4, 2)).sum().backward()
    assert rows.grad[0].tolist() == [[0, 0], [0, 1], [2, 3]]
    assert base.grad[0].tolist() == [[0, 0], [0, 0], [4, 5], [6, 7]]


@pytest.mark.parametrize("dtype,tolerance", [(torch.float16, 2e-3), (torch.bfloat16, 2e-2), (torch.float32, 1e-6)], ids=str)
def test_sums_of_short_floats(device, dtype, tolerance):
    torch.manual_seed(3)
    data = torch.randn(2, 3, 5, device=device, dtype=dtype, requires_grad=True)
    index = sb.RaggedBatch(torch.randint(0, 3, (2, 300), device=device), sample_sizes=torch.tensor([300, 200], device=device))
    grad = torch.randn(2, 300, 5, device=device, dtype=dtype)
    sb.batched_indexing_access(data, index).tensor.backward(grad)
    want = torch.zeros(2, 3, 5, dtype=torch.float64)
    for b, n in enumerate((300, 200)):
        want[b].index_add_(0, index.tensor[b, :n].cpu(), grad[b, :n].double().cpu())
    assert torch.allclose(data.grad.double().cpu(), want, rtol=tolerance, atol=tolerance * 20)
    again = torch.autograd.grad(sb.batched_indexing_access(data, index).tensor, data, grad)[0]
    assert torch.equal(again, data.grad)  # sums have a fixed order, so two runs are equal bit for bit


def test_later_dims_batch_dims_and_layouts(device):
    torch.manual_seed(5)
    data = torch.randn(2, 3, 4, 6, 5, device=device)  # two batch dims, indexed in dim 3
    index = sb.RaggedBatch(torch.randint(-6, 6, (2, 3, 7), device=device), sample_sizes=torch.randint(0, 8, (2, 3), device=device))
    got = sb.batched_indexing_access(data, index, dim_to_index_in=3)
    assert got.non_uniform_dim == 3 and got.shape == (2, 3, 4, 7, 5)
    want = sb.batched_indexing_access(data.transpose(2, 3).contiguous(), index).tensor.transpose(2, 3)
    assert equal(got.tensor, want)
    for b in range(2):
        for k in range(3):
            n = int(index.sample_sizes[b, k])
            assert equal(got.tensor[b, k, :, :n], data[b, k][:, index.tensor[b, k, :n]])
    moved = data.permute(4, 0, 1, 3, 2).contiguous().permute(1, 2, 4, 3, 0)  # the same values in another memory layout
    assert not moved.is_contiguous() and equal(sb.batched_indexing_access(moved, index, dim_to_index_in=-2).tensor, got.tensor)
    expanded = data[:, :1].expand(2, 3, 4, 6, 5)
    assert equal(
        sb.batched_indexing_access(expanded, index, dim_to_index_in=3).tensor,
        sb.batched_indexing_access(expanded.contiguous(), index, dim_to_index_in=3).tensor,
    )
    leaf = data.clone().requires_grad_()
    out = sb.batched_indexing_access(leaf, index, dim_to_index_in=3).tensor
    weight = torch.randn(2, 3, 7, 5, 4, device=device).permute(0, 1, 4, 2, 3)  # a gradient that is not contiguous
    grad = torch.autograd.grad(out, leaf, weight)[0]
    out = sb.batched_indexing_access(leaf, index, dim_to_index_in=3).tensor
    assert equal(grad, torch.autograd.grad(out, leaf, weight.contiguous())[0])


def test_write_in_later_dims_equals_transposed(device):
    torch.manual_seed(6)
    index = sb.RaggedBatch(
        torch.stack([torch.randperm(9)[:5] for _ in range(4)]).to(device), sample_sizes=torch.tensor([5, 0, 3, 1], device=device)
    )
    rows, base = torch.randn(4, 3, 5, 2, device=device), torch.randn(4, 3, 9, 2, device=device)
    got = sb.batched_indexing_write(rows, index, base, dim_to_index_in=2)
    want = sb.batched_indexing_write(rows.transpose(1, 2), index, base.transpose(1, 2)).transpose(1, 2)
    assert equal(got, want)
    got = sb.batched_inverse_indexing_access(rows, index, 9, -2.0, dim_to_index_in=2)
    assert equal(got, sb.batched_inverse_indexing_access(rows.transpose(1, 2), index, 9, -2.0).transpose(1, 2))
    sizes = torch.tensor([9, 4, 9, 2], device=device)
    ragged_base, ragged_rows = (
        sb.RaggedBatch(base, sample_sizes=sizes, non_uniform_dim=2),
        sb.RaggedBatch(rows, sample_sizes=index.sample_sizes, non_uniform_dim=2),
    )
    small = sb.RaggedBatch(index.tensor % 2, sample_sizes=index.sample_sizes)
    got = sb.batched_index_mapping(ragged_rows, sb.RaggedBatch(index.tensor * 0, sample_sizes=index.sample_sizes), small, ragged_base)
    assert got.non_uniform_dim == 2 and got.shape == base.shape


@pytest.mark.parametrize(
    "make", [lambda d: torch.zeros(0, 4, 2, device=d), lambda d: torch.zeros(3, 4, 0, device=d), lambda d: torch.zeros(3, 0, 2, device=d)]
)
def test_empty_batches_give_empty_results_and_zero_gradients(device, make):
    data = make(device).requires_grad_()
    index = sb.RaggedBatch(
        torch.zeros(data.shape[0], 5, dtype=torch.int64, device=device),
        sample_sizes=torch.zeros(data.shape[0], dtype=torch.int64, device=device),
    )
    out = sb.batched_indexing_access(data, index)
    assert out.shape == (data.shape[0], 5, data.shape[2])
    out.tensor.sum().backward()
    assert data.grad.shape == data.shape and not data.grad.any()
    rows = torch.zeros(data.shape[0], 5, data.shape[2], device=device)
    assert sb.batched_indexing_write(rows, index, data.detach()).shape == data.shape
    assert sb.get_mask_from_indices(4, index).shape == (data.shape[0], 4)


def test_bad_indices(device):
    data = torch.arange(6.0, device=device).view(1, 6, 1)
    ragged = sb.RaggedBatch(data, sample_sizes=torch.tensor([4], device=device))
    index = sb.RaggedBatch(torch.tensor([[0, 4, -5, -4]], device=device), sample_sizes=torch.tensor([4], device=device))
    calls = [
        lambda: sb.batched_indexing_access(ragged, index, -1.0).tensor,
        lambda: sb.batched_indexing_write(data[:, :4] + 10, index, ragged).tensor,
        lambda: (
            sb.batched_index_mapping(
                ragged, index, sb.RaggedBatch(index.tensor.clamp(0, 3), sample_sizes=index.sample_sizes), ragged
            ).tensor
        ),
    ]
    if device == "cpu":
        for call in calls:
            with pytest.raises(IndexError, match="2 of the indices are out of range"):
                call()
        return
    got = [call().flatten().tolist() for call in calls]
    assert got[0] == [0, -1, -1, 0]
    assert got[1] == [13, 1, 2, 3, 4, 5]  # elements 4 and 5 are padding, and must not change
    assert got[2][4:] == [4, 5]
    with pytest.raises(IndexError, match="batched_indexing_access: 2, batched_indexing_write: 2, batched_index_mapping: 2"):
        sb.check()
    sb.check()


def test_wrong_arguments_raise_with_a_message(device):
    data, sizes = torch.zeros(2, 3, 4, device=device), torch.ones(2, dtype=torch.int64, device=device)
    index = sb.RaggedBatch(torch.zeros(2, 5, dtype=torch.int64, device=device), sample_sizes=sizes)
    short = sb.RaggedBatch(index.tensor.int(), sample_sizes=sizes)
    cases = [
        (lambda: sb.batched_indexing_access(data[:1], index), r"input_data has shape \(1, 3, 4\), input_indices \(2, 5\)"),
        (
            lambda: sb.batched_indexing_access(data, sb.RaggedBatch(index.tensor.float(), sample_sizes=sizes)),
            "input_indices must be int32 or int64",
        ),
        (lambda: sb.batched_indexing_access(data, index.tensor), "input_indices must be a RaggedBatch"),
        (lambda: sb.batched_indexing_access(data, index, dim_to_index_in=0), r"dim_to_index_in is 0, but must be in 1\.\.2"),
        (lambda: sb.batched_index_mapping(data, index, short, data), "source_indices is torch.int64, target_indices is torch.int32"),
        (
            lambda: sb.batched_indexing_write(data[..., 0], index, data),
            r"to_write \(2, 3\) and to_write_into \(2, 3, 4\) must have the same number of dimensions",
        ),
        (
            lambda: sb.batched_indexing_write(data, index, data),
            r"to_write \(2, 3, 4\) has 3 entries in dim 1, output_indices \(2, 5\) writes up to 5",
        ),
        (
            lambda: sb.batched_indexing_write(data.repeat(1, 2, 1).double(), index, data),
            "to_write is torch.float64, to_write_into is torch.float32",
        ),
    ]
    for call, text in cases:
        for kind in (sb.ShapeError, AssertionError, RuntimeError):
            with pytest.raises(kind, match=text):
                call()


def test_masks_and_indices_convert_to_each_other(device):
    for seed in range(20):
        torch.manual_seed(seed)
        b, n = int(torch.randint(1, 4, ())), int(torch.randint(0, 300, ()))
        mask = torch.rand(b, n, device=device) < 0.5
        sizes = torch.randint(0, n + 1, (b,), device=device)
        data = torch.randn(b, n, 2, device=device, dtype=torch.float64, requires_grad=True)
        ragged = sb.RaggedBatch(data, sample_sizes=sizes)
        places = sb.get_indices_from_mask(mask)
        for i in range(b):
            assert places.tensor[i, : int(places.sample_sizes[i])].tolist() == mask[i].nonzero().flatten().tolist()
        picked = sb.batched_bool_indexing(ragged, mask)
        want = [data[i, : int(sizes[i])][mask[i, : int(sizes[i])]] for i in range(b)]
        assert picked.max_sample_size == max(map(len, want))
        assert all(equal(a, w) for a, w in zip(picked.split(), want, strict=False))
        base = torch.zeros_like(data).requires_grad_()
        back = sb.batched_bool_indexing_write(picked, mask, sb.RaggedBatch(base, sample_sizes=sizes))
        valid = mask & ragged.mask
        assert equal(back.tensor, torch.where(valid[..., None], data, torch.zeros_like(data)))
        back.tensor.sum().backward()
        assert equal(data.grad, valid[..., None].double().expand_as(data)) and equal(
            base.grad, (~valid)[..., None].double().expand_as(data)
        )
    if n < 30 or device == "cpu":
        small = torch.rand(2, 4, device=device) < 0.5
        x = torch.randn(2, 4, 3, device=device, dtype=torch.float64, requires_grad=True)

        def function(t):
            return sb.batched_bool_indexing_write(sb.batched_bool_indexing(t, small), small, t * t)

        assert gradcheck(function, (x,)) and gradgradcheck(function, (x,))


def test_lazy_views_are_read_by_value(device):
    """Each function reads the values of a lazily conjugated or negated view, and not the different ones in its memory."""
    index = sb.RaggedBatch(torch.tensor([[0, 1], [2, 0]], device=device), sample_sizes=torch.tensor([2, 1], device=device))
    sizes = torch.tensor([3, 2], device=device)
    for view in (torch.randn(2, 3, dtype=torch.complex64, device=device).conj(), torch._neg_view(torch.randn(2, 3, device=device))):
        assert view.is_conj() or view.is_neg()
        plain = view.clone()
        for call in (
            lambda t: sb.batched_indexing_access(t, index).tensor,
            lambda t: sb.batched_inverse_indexing_access(t, index, 4),
            lambda t: sb.batched_indexing_write(t[:, :2], index, torch.zeros_like(plain)),
            lambda t: sb.batched_indexing_write(torch.zeros_like(plain), index, t),
            lambda t: sb.batched_index_mapping(t, index, index, t),
            lambda t: sb.RaggedBatch(t, sample_sizes=sizes).with_padded_set_to(2.0).tensor,
            lambda t: sb.combine_data([t[0], t[1]]).tensor,
        ):
            assert equal(call(view), call(plain))
        ragged = sb.RaggedBatch(view, sample_sizes=sizes)
        ragged.set_padded_to(5.0)
        assert ragged.tensor[1, 2] == 5
    costs, boxes = torch.randn(4, 4, device=device), torch.rand(1, 2, 4, device=device)
    assert equal(sb.linear_sum_assignment(torch._neg_view(costs)).cols.tensor, sb.linear_sum_assignment(-costs).cols.tensor)
    for call in (lambda t: sb.detection_cost(boxes=t, target_boxes=boxes).tensor, lambda t: sb.polylines.interpolate(t, boxes[:, 0])):
        assert equal(call(torch._neg_view(boxes)), call(-boxes))
    place = torch.ones(1, 2, dtype=torch.int64, device=device)
    drawn = sb.draw_heatmap(torch._neg_view(torch.zeros(1, 3, 3, device=device)), place, place[0, :1], place[0, :1] * 0)
    assert drawn[0, 1, 1] == 1


def test_complex_values_have_gradients(device):
    index = sb.RaggedBatch(torch.tensor([[0, 0], [2, 0]], device=device), sample_sizes=torch.tensor([2, 1], device=device))
    data = torch.randn(2, 3, 2, dtype=torch.complex128, device=device, requires_grad=True)
    assert gradcheck(lambda t: sb.batched_indexing_access(t, index).tensor, (data,))
    assert gradgradcheck(lambda t: sb.batched_indexing_access(t, index, dim_to_index_in=1).tensor ** 2, (data,))
    assert gradcheck(lambda t: sb.batched_indexing_access(t, index).tensor, (data.detach().conj().requires_grad_(),))
