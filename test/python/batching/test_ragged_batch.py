# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: B023 - functions are called in the loop that makes them
import copy
import io
import itertools
import pickle
from collections import namedtuple

import pytest
import stoker
import stoker.batching as sb
import torch
from torch.autograd import gradcheck, gradgradcheck

SIZES = torch.tensor([2, 0, 3])


def batch(device="cpu", **kwargs):
    return sb.RaggedBatch(torch.arange(24.0, device=device).view(3, 4, 2), sample_sizes=SIZES.to(device), **kwargs)


def test_mask_and_sizes(device):
    b = batch(device)
    assert b.mask.tolist() == [[True, True, False, False], [False] * 4, [True, True, True, False]] and b.mask is b.mask
    again = sb.RaggedBatch(b.tensor, mask=b.mask)
    assert torch.equal(again.sample_sizes, b.sample_sizes) and again.sample_sizes.dtype == torch.int64
    # The mask's last dimension is that of the entries, whatever non_uniform_dim is.
    later = sb.RaggedBatch(torch.zeros(3, 2, 5, 4, device=device), mask=b.mask, non_uniform_dim=3)
    assert torch.equal(later.sample_sizes, b.sample_sizes)
    two = sb.RaggedBatch(torch.zeros(3, 4, 2, device=device), sample_sizes=torch.ones(3, 4, dtype=torch.int64, device=device))
    assert two.num_batch_dims == 2 and two.non_uniform_dim == 2 and two.batch_shape == (3, 4)
    assert (b.total_num_entries, b.total_num_samples_in_batch, b.max_sample_size) == (5, 3, 4)
    derived = b.detach()
    assert derived.mask is b.mask and b.to_dtype(torch.int64).sample_sizes is b.sample_sizes
    lazy = batch(device)
    child = lazy.float()
    assert child.mask is lazy.mask  # both share the mask, which the child computed first


def test_constructors_set_shape_mask_and_sizes(device):
    b = sb.RaggedBatch.FromOversizeTensor(torch.zeros(3, 9, 2, device=device), sample_sizes=SIZES.to(device))
    assert b.shape == (3, 3, 2)
    b = sb.RaggedBatch.FromOversizeTensor(torch.zeros(3, 2, 4, device=device), mask=batch(device).mask, non_uniform_dim=2)
    assert b.shape == (3, 2, 3) and b.mask.shape == (3, 3)
    for arguments, shape in [
        ({}, (0, 0, 0)),
        ({"num_batch_dims": 2}, (0, 0, 0)),
        ({"batch_shape": 4}, (4, 0, 0)),
        ({"batch_shape": (4, 2)}, (4, 2, 0)),
    ]:
        e = sb.RaggedBatch.Empty(3, 2, device, **arguments)
        assert e.shape == shape and e.mask.shape == (*e.batch_shape, 0) and e.total_num_entries == 0
    full = sb.RaggedBatch.FromFullTensor(torch.zeros(2, 3, 4, 5, device=device), non_uniform_dim=3, num_batch_dims=2)
    assert full.sample_sizes.tolist() == [[5] * 3] * 2 and bool(full.mask.all())


@pytest.mark.parametrize(
    "make,text",
    [
        (lambda t: sb.RaggedBatch(t), "mask or sample_sizes must be given"),
        (lambda t: sb.RaggedBatch(t, sample_sizes=[2, 0, 3]), "sample_sizes is list: give a Tensor"),
        (lambda t: sb.RaggedBatch(t.numpy(), sample_sizes=SIZES), "tensor is ndarray: give a Tensor"),
        (lambda t: sb.RaggedBatch(t, sample_sizes=torch.ones(2, dtype=torch.int64)), r"sample_sizes has shape \(2,\), tensor \(3, 4, 2\)"),
        (lambda t: sb.RaggedBatch(t, mask=torch.ones(3, 5, dtype=torch.bool)), r"mask has shape \(3, 5\), tensor \(3, 4, 2\)"),
        (lambda t: sb.RaggedBatch(t, mask=torch.ones(3, 4)), "mask must be bool, not torch.float32"),
        (lambda t: sb.RaggedBatch(t, sample_sizes=SIZES, non_uniform_dim=0), "non_uniform_dim is 0"),
        (lambda t: sb.RaggedBatch(t[:, 0, 0], sample_sizes=SIZES), "tensor must have more dims than the 1 batch dims"),
        (lambda t: batch().create_with_sample_sizes_like_self(t[:, :3]), r"tensor of shape \(3, 3, 2\) with non_uniform_dim 1"),
        (lambda t: batch().set_tensor(t[:2]), r"tensor of shape \(2, 4, 2\) cannot replace one of shape \(3, 4, 2\)"),
        (lambda t: batch().reshape_batch_dims((2, 2)), r"new_batch_shape \(2, 2\) does not hold the samples of batch shape \(3,\)"),
        (lambda t: batch().broadcast_batch_dims_to_shape((4,)), r"batch shape \(3,\) cannot be broadcast to \(4,\)"),
        (lambda t: batch().broadcast_batch_dims_to_shape((3, 4)), "must have the same number of dimensions"),
        (lambda t: sb.RaggedBatch.Empty(3, 1, "cpu", 1, (2,)), "not both"),
        (lambda t: sb.RaggedBatch(t, sample_sizes=SIZES + 2), "sample_sizes holds 5: .* room for 0 to 4 entries"),
        (lambda t: sb.RaggedBatch(t, sample_sizes=SIZES - 1), "sample_sizes holds -1: .* room for 0 to 4 entries"),
        (lambda t: sb.RaggedBatch(t, mask=torch.arange(4).expand(3, 4) != 1), "mask has True after False"),
        (lambda t: sb.RaggedBatch(t, mask=batch().mask, sample_sizes=SIZES.flip(0)), "sample_sizes differs from its number of True"),
    ],
)
def test_wrong_arguments_raise_shape_errors(make, text):
    with pytest.raises(stoker.ShapeError, match=text) as error:
        make(torch.zeros(3, 4, 2))
    assert isinstance(error.value, AssertionError) and isinstance(error.value, RuntimeError)


def test_padding_is_replaced_and_entries_stay(device):
    b = batch(device)
    filled = b.with_padded_set_to(-1.0)
    assert torch.equal(filled.tensor, torch.where(b.mask[..., None], b.tensor, torch.full_like(b.tensor, -1)))
    assert not torch.equal(filled.tensor, b.tensor)
    memory = b.tensor
    b.set_padded_to(-1.0)
    assert b.tensor is memory and torch.equal(memory, filled.tensor)
    assert torch.equal(b.get_existence_weights(), b.mask[..., None].float().expand(3, 4, 2))
    later = sb.RaggedBatch(torch.zeros(3, 2, 4, 5, device=device), sample_sizes=SIZES.to(device), non_uniform_dim=2)
    weights = later.get_existence_weights(torch.float64)
    assert weights.shape == later.shape and torch.equal(weights[:, 1, :, 2].bool(), later.mask)
    assert torch.equal(later.with_padded_set_to(1.0).tensor, 1 - weights.float())
    expanded = sb.RaggedBatch(torch.zeros(1, 4, 2, device=device).expand(3, 4, 2), sample_sizes=SIZES.to(device))
    expanded.set_padded_to(7.0)
    assert torch.equal(expanded.tensor[..., 0] == 7, ~expanded.mask)


@pytest.mark.parametrize("shape", [(3, 4, 2), (2, 5), (1, 3), (2, 3, 4, 2)])
def test_padding_of_views_is_replaced_and_entries_stay(device, shape):
    """In many views of strides up to 7, elements share memory."""
    memory = torch.arange(200.0, device=device)
    sizes = torch.tensor([1, 3, 0][: shape[0]], device=device)
    for strides in itertools.product(*(range(8) if k < 3 else (1,) for k in range(len(shape)))):
        view = memory.clone().as_strided(shape, strides)
        batch = sb.RaggedBatch(view, sample_sizes=sizes)
        wanted = batch.with_padded_set_to(-1.0).tensor
        batch.set_padded_to(-1.0)
        assert torch.equal(batch.tensor, wanted), strides


def test_views_whose_elements_do_not_share_memory_are_written_in_place(device):
    whole = torch.arange(120.0, device=device).view(3, 8, 5)
    for view in (whole, whole[:, ::2, 1:3], whole.transpose(1, 2), whole.permute(2, 0, 1)[:3, :, ::3], whole[:, :, 0], whole[:, :1, :1]):
        batch = sb.RaggedBatch(view, sample_sizes=torch.tensor([1, 0, 1], device=device))
        batch.set_padded_to(-1.0)
        assert batch.tensor is view and torch.equal(view[1], torch.full_like(view[1], -1)) and (view[0, 1:] == -1).all()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.uint8, 300),
        (torch.uint8, -1),
        (torch.int8, 1e300),
        (torch.int32, float("nan")),
        (torch.int64, float("inf")),
        (torch.int64, 2**63),
        (torch.int64, 2**60 + 1),
        (torch.float16, 1e10),
    ],
)
def test_fillers_that_the_type_cannot_represent_are_refused(device, dtype, value):
    rows = sb.RaggedBatch(torch.ones(2, 3, dtype=dtype, device=device), sample_sizes=torch.tensor([1, 2], device=device))
    with pytest.raises(ValueError, match="cannot represent: "):
        rows.with_padded_set_to(value)
    with pytest.raises(ValueError, match="cannot represent: "):
        rows.set_padded_to(value)
    assert (rows.tensor == 1).all()


@pytest.mark.parametrize(
    ("dtype", "value", "filled"),
    [
        (torch.uint8, 255, 255),
        (torch.int8, -128, -128),
        (torch.int32, 1.5, 1),
        (torch.int64, -(2**63), -(2**63)),
        (torch.float16, 65504, 65504),
        (torch.float32, float("-inf"), float("-inf")),
        (torch.bool, 2, True),
    ],
)
def test_fillers_at_the_ends_of_a_type(device, dtype, value, filled):
    rows = sb.RaggedBatch(torch.ones(2, 3, dtype=dtype, device=device), sample_sizes=torch.tensor([1, 2], device=device))
    assert rows.with_padded_set_to(value).tensor[0].tolist() == [1, filled, filled]


def test_padding_gradients(device):
    x = torch.randn(3, 4, 2, dtype=torch.float64, device=device, requires_grad=True)
    sizes = SIZES.to(device)

    def copied(t):
        return sb.RaggedBatch(t, sample_sizes=sizes).with_padded_set_to(2.0).tensor

    def in_place(t):
        b = sb.RaggedBatch(t * 3, sample_sizes=sizes)
        memory = b.tensor
        b.set_padded_to(2.0)
        assert b.tensor is memory
        return b.tensor

    for function in (copied, in_place):
        assert gradcheck(function, (x,)) and gradgradcheck(function, (x,))
    leaf = sb.RaggedBatch(x, sample_sizes=sizes)
    leaf.set_padded_to(5.0)
    assert leaf.tensor is not x
    weight = torch.randn(2, 4, 3, dtype=torch.float64, device=device).permute(2, 1, 0)  # a gradient that is not contiguous
    grad = torch.autograd.grad(leaf.tensor, x, weight)[0]
    assert torch.equal(grad, torch.where(leaf.mask[..., None], weight, torch.zeros_like(weight)))


def test_batch_dims(device):
    b = batch(device)
    assert b.mask is not None  # computes the mask, so that the operations below must change it too
    assert b.repeat_samples(2).batch_shape == (6,) and b.repeat_samples(2).sample_sizes.tolist() == [2, 0, 3, 2, 0, 3]
    u = b.unsqueeze_batch_dim(1)
    assert u.batch_shape == (3, 1) and u.non_uniform_dim == 2 and u.mask.shape == (3, 1, 4)
    assert u.repeat_samples((1, 2)).sample_sizes.tolist() == [[2, 2], [0, 0], [3, 3]]
    assert u.squeeze_batch_dim(1).shape == b.shape
    with pytest.raises(ValueError, match="batch_dim 0 has size 3"):
        u.squeeze_batch_dim(0)
    six = b.repeat_samples(2)
    assert six.reshape_batch_dims((2, -1)).batch_shape == (2, 3) and six.reshape_batch_dims((2, 3)).flatten_batch_dims().shape == six.shape
    empty = sb.RaggedBatch.Empty(3, 2, device, batch_shape=(0, 2))
    assert empty.flatten_batch_dims().batch_shape == (0,)
    assert b.broadcast_batch_dims_to_shape((6,)).sample_sizes.tolist() == [2, 0, 3, 2, 0, 3]
    left, right = sb.RaggedBatch.broadcast_batch_dims([u, u.reshape_batch_dims((1, 3)).repeat_samples((3, 1))])
    assert left.batch_shape == right.batch_shape == (3, 3)


def test_data_dims(device):
    b = batch(device)
    swapped = b.get_non_uniform_dimension_transposed_to(2)
    assert swapped.shape == (3, 2, 4) and swapped.non_uniform_dim == 2 and b.get_non_uniform_dimension_transposed_to(1) is b
    assert b.unsqueeze_data_dim(1).non_uniform_dim == 2 and b.unsqueeze_data_dim(-1).shape == (3, 4, 2, 1)
    s = sb.squeeze_except_batch_and_sample(
        sb.RaggedBatch(torch.zeros(4, 1, 1, 3, 4, 1), sample_sizes=torch.ones(4, 1, dtype=torch.int64), non_uniform_dim=3)
    )
    assert s.shape == (4, 1, 3, 4) and s.non_uniform_dim == 2
    assert sb.squeeze_except_batch_and_sample(torch.zeros(1, 1, 1, 3)).shape == (1, 1, 3)


def test_apply_split_and_items(device):
    b = batch(device)
    assert torch.equal(b.apply(torch.relu).tensor, b.tensor.relu())
    assert torch.equal(b.apply(lambda t, m: t * m[..., None]).tensor, b.tensor * b.mask[..., None])
    one, two = b.apply(lambda t, m, s: (t + 1, t[..., 0] * s[:, None]))
    assert torch.equal(one.tensor, b.tensor + 1) and two.shape == (3, 4)
    assert torch.equal(b.apply(functools_partial_scale(3)).tensor, b.tensor * 3)
    with pytest.raises(ValueError, match="1, 2 or 3 are passed"):
        b.apply(lambda a, b, c, d: a)
    parts = b.split()
    assert [p.shape[0] for p in parts] == [2, 0, 3] and torch.equal(parts[2], b.tensor[2, :3])
    nested = sb.RaggedBatch(torch.zeros(2, 3, 5, 4), sample_sizes=torch.tensor([[1, 2, 3], [4, 0, 2]]), non_uniform_dim=3).split()
    assert [[p.shape for p in row] for row in nested] == [[(5, 1), (5, 2), (5, 3)], [(5, 4), (5, 0), (5, 2)]]
    b[0, 0] = 9
    assert b[0, 0].tolist() == [9, 9] and len(b) == 3 and b.size(1) == 4 and b.dim() == 3


def functools_partial_scale(factor):
    class Scale:  # an object with __call__ serves as the function
        def __call__(self, t):
            return t * factor

    return Scale()


def test_casts_and_devices(device):
    b = batch(device)
    for name in ["int", "long", "bool", "half", "bfloat16", "float", "double", "cfloat", "cdouble"]:
        assert getattr(b, name)().dtype == getattr(b.tensor, name)().dtype
    assert b.to(torch.float16).dtype == torch.float16 and b.cpu().device.type == b.cpu().sample_sizes.device.type == "cpu"
    b.requires_grad = True
    assert b.requires_grad and not b.detach().requires_grad
    c = b.as_self_with_cloned_data()
    c.retain_grad()
    assert c.retains_grad and c.tensor.data_ptr() != b.tensor.data_ptr()


def test_pickle_and_repr():
    b = batch()
    memory = io.BytesIO()
    torch.save(b, memory)
    memory.seek(0)
    for other in (pickle.loads(pickle.dumps(b)), copy.deepcopy(b), torch.load(memory, weights_only=False)):
        assert torch.equal(other.tensor, b.tensor) and torch.equal(other.sample_sizes, b.sample_sizes) and other.non_uniform_dim == 1
    text = repr(b)
    assert all(word in text for word in ("tensor=", "mask=", "sample_sizes=tensor([2, 0, 3])", "non_uniform_dim=1"))


def test_sums_and_means_leave_out_padding(device):
    x = torch.randn(3, 4, 2, dtype=torch.float64, device=device)
    x[0, 3] = float("nan")  # padding may have any value, and must not count
    x[1] = float("inf")
    x.requires_grad_()
    b = sb.RaggedBatch(x, sample_sizes=SIZES.to(device))
    assert torch.allclose(sb.sum_over_targets(b), torch.stack([s.sum(0) for s in b.split()]))
    mean = sb.average_over_targets(b)
    assert torch.allclose(mean[[0, 2]], torch.stack([b.split()[0].mean(0), b.split()[2].mean(0)])) and mean[1].tolist() == [0, 0]
    assert bool(sb.average_over_targets(b, nans_to_zero=False)[1].isnan().all())
    mean.sum().backward()
    assert bool(x.grad.isfinite().all()) and float(x.grad[2, 0, 0]) == pytest.approx(1 / 3) and not x.grad[~b.mask].any()
    assert sb.average_over_targets(b.detach().with_padded_set_to(0).int()).dtype == torch.float32
    assert sb.sum_over_targets(b.detach().bool()).dtype == torch.int64
    y = torch.randn(3, 2, 4, dtype=torch.float64, device=device, requires_grad=True)
    for function in (sb.sum_over_targets, sb.average_over_targets):

        def call(t):
            return function(sb.RaggedBatch(t, sample_sizes=SIZES.to(device), non_uniform_dim=2))

        assert gradcheck(call, (y,)) and gradgradcheck(call, (y,))


def test_apply_mask(device):
    data, mask = torch.randn(3, 4, 2, device=device), batch(device).mask
    assert torch.equal(sb.apply_mask_to_tensor(data, mask, 3.0), torch.where(mask[..., None], data, torch.tensor(3.0, device=device)))
    with pytest.raises(sb.ShapeError, match=r"mask \(2,\) does not cover the first dims of data \(3, 4, 2\)"):
        sb.apply_mask_to_tensor(data, mask[0, :2])


def test_compact_lists_hold_the_masked_items(device):
    mask = batch(device).mask.flip(1)
    fields = namedtuple("fields", "a name b")
    a, b = torch.randn(3, 4, device=device), torch.randn(3, 4, 2, 2, dtype=torch.float64, device=device, requires_grad=True)
    got = sb.get_compact_from_named_tuple(mask, fields(a, "text", b))
    assert got.name == "text" and got.a.shape == (3, 3) and got.b.sample_sizes is got.a.sample_sizes
    for i in range(3):
        assert torch.equal(got.a.split()[i], a[i][mask[i]]) and torch.equal(got.b.split()[i], b[i][mask[i]])
    assert gradcheck(lambda t: sb.get_compact_lists(mask, [t])[0].tensor, (b,))
    assert sb.get_compact_lists(torch.zeros(3, 4, dtype=torch.bool, device=device), [a])[0].shape == (3, 0)


def test_batches_do_not_depend_on_the_defaults_of_torch(device):
    samples = [torch.randn(n, 2, device=device) for n in (2, 0, 5)]
    leaves = [sample.clone().requires_grad_() for sample in samples]
    want = sb.combine_data(samples).tensor
    try:
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        made = [sb.combine_data(samples), sb.combine_data(leaves)]
        empty = sb.RaggedBatch.Empty(3, 1, device)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    for one in made:
        assert torch.equal(one.tensor, want) and one.sample_sizes.tolist() == [2, 0, 5] and one.sample_sizes.device.type == device
    assert empty.dtype == torch.float32 and empty.device.type == device


def test_combined_samples_are_those_that_were_given(device):
    samples = [torch.randn(n, 2, device=device) for n in (2, 0, 5)]
    got = sb.combine_data(samples)
    assert got.shape == (3, 5, 2) and got.device.type == device and got.sample_sizes.tolist() == [2, 0, 5]
    assert all(torch.equal(a, b) for a, b in zip(got.split(), samples, strict=False)) and not got.tensor[~got.mask].any()
    nested = sb.combine_data([samples, samples], flatten_batch_dims=False)
    assert nested.batch_shape == (2, 3) and sb.combine_data([samples, [samples]]).batch_shape == (6,)
    with pytest.raises(sb.ShapeError, match="unequal length"):
        sb.combine_data([samples, samples[:2]], flatten_batch_dims=False)
    with pytest.raises(sb.ShapeError, match=r"sample 1 has shape \(2, 3\)"):
        sb.combine_data([samples[0], torch.zeros(2, 3, device=device)])
    shared = sb.combine_data([s[:, 0].long() for s in samples], other_with_same_sample_sizes=got)
    assert shared.sample_sizes is got.sample_sizes and shared.dtype == torch.int64
    leaves = [s.double().requires_grad_() for s in samples]
    combined = sb.combine_data(leaves)
    combined.tensor.backward(torch.ones_like(combined.tensor))
    assert all(torch.equal(s.grad, torch.ones_like(s)) for s in leaves)
    moved = sb.combine_data([s.cpu() for s in samples], device=device)
    assert torch.equal(moved.tensor, got.tensor) and moved.sample_sizes.device.type == device
    mixed = sb.combine_data([samples[0].cpu(), *samples[1:]], device=device)
    assert torch.equal(mixed.tensor, got.tensor)


def test_combined_data_may_change_while_a_derivative_needs_the_sizes(device):
    with torch.no_grad():
        made = sb.combine_data([torch.ones(2, 4), torch.ones(1, 4)], device=device)
    x = torch.ones(2, 2, 4, device=device, requires_grad=True)
    total = made.create_with_sample_sizes_like_self(x).with_padded_set_to(0.0).tensor.sum()
    made.tensor.mul_(2)
    made.set_padded_to(-1.0)
    total.backward()
    assert torch.equal(x.grad, made.get_existence_weights())
    made.tensor.add_(x)  # views that were made under no_grad refuse this
    assert made.requires_grad


def test_stack_and_cat(device):
    a = batch(device)
    b = sb.RaggedBatch(torch.ones(3, 2, 2, device=device), sample_sizes=torch.tensor([1, 2, 0], device=device))
    stacked = sb.stack([a, b])
    assert stacked.shape == (2, 3, 4, 2) and stacked.sample_sizes.tolist() == [[2, 0, 3], [1, 2, 0]]
    assert torch.equal(stacked.tensor[1, :, :2], b.tensor)
    assert sb.cat([a, b]).batch_shape == (6,) and sb.stack([a, b], dim=1).batch_shape == (3, 2)
    with pytest.raises(sb.ShapeError, match=r"batches\[1\] has shape \(3, 4, 1\)"):
        sb.cat([a, sb.RaggedBatch(a.tensor[..., :1], sample_sizes=a.sample_sizes)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_combine_data_takes_empty_samples_without_a_shape(device, dtype):
    full = torch.arange(6, device=device).reshape(2, 3).to(dtype)
    empty = torch.tensor([], device=device)
    for samples, sizes in (([full, empty], [2, 0]), ([empty, full], [0, 2]), ([empty, full, empty, full], [0, 2, 0, 2])):
        got = sb.combine_data(samples)
        assert got.sample_sizes.tolist() == sizes and got.shape == (len(sizes), 2, 3) and got.dtype == dtype
        assert all(torch.equal(s, full) if n else s.shape == (0, 3) for s, n in zip(got.split(), sizes, strict=True))
    one = sb.combine_data([full[:, 0], empty])
    assert one.sample_sizes.tolist() == [2, 0] and one.dtype == dtype
    assert sb.combine_data([empty, empty]).shape == (2, 0)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("abc", "data_list is str"),
        (["abc"], r"data_list\[0\] is str"),
        (7, "data_list is int"),
        ([torch.zeros(2, 3), 7], r"data_list\[1\] is int"),
        ([[torch.zeros(2, 3)], [3.0]], r"data_list\[1\]\[0\] is float"),
        ([], "data_list is empty"),
        ([torch.zeros(2, 3), []], r"data_list\[1\] is empty"),
        ({"a": torch.zeros(2)}, "data_list is dict"),
        (None, "data_list is NoneType"),
        (torch.zeros(2, 3), "data_list is a Tensor"),
        ([torch.zeros(())], r"sample 0 has shape \(\)"),
        ([torch.zeros(2, 3), torch.zeros(0, 4)], "only dim 0 may differ"),
    ],
)
def test_combine_data_refuses_what_is_no_list_of_samples(data, text):
    for flatten in (True, False):
        with pytest.raises(sb.ShapeError, match=text):
            sb.combine_data(data, flatten_batch_dims=flatten)


def of_sizes(*sizes, shape=(2, 3), fill=torch.zeros):
    return sb.RaggedBatch(fill(*shape), sample_sizes=torch.tensor(sizes))


def whole(*sizes, shape=(2, 3)):
    return of_sizes(*sizes, shape=shape, fill=lambda *shape: torch.zeros(shape, dtype=torch.int64))


def selected(*sizes):
    return of_sizes(*sizes, fill=lambda *shape: torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: sb.combine_data([torch.zeros(2), torch.zeros(1)], other_with_same_sample_sizes=of_sizes(1, 2)),
            r"data_list has sample sizes \[2, 1\], other_with_same_sample_sizes \[1, 2\]: they must be equal",
        ),
        (
            lambda: sb.draw_heatmap_batched(torch.zeros(2, 8, 8), whole(1, 3, shape=(2, 3, 2)), whole(3, 1)),
            r"radii has sample sizes \[3, 1\], centers \[1, 3\]",
        ),
        (
            lambda: sb.draw_heatmap_batched(torch.zeros(2, 4, 8, 8), torch.zeros(2, 3, 2).int(), whole(3, 1), labels=whole(3, 2)),
            r"radii has sample sizes \[3, 1\], labels \[3, 2\]",
        ),
        (
            lambda: sb.batched_index_mapping(torch.zeros(2, 3), whole(1, 3), whole(3, 1), torch.zeros(2, 5)),
            r"source_indices has sample sizes \[1, 3\], target_indices \[3, 1\]",
        ),
        (
            lambda: sb.batched_indexing_write(of_sizes(3, 1), whole(1, 3), torch.zeros(2, 5)),
            r"to_write has sample sizes \[3, 1\], output_indices \[1, 3\]: they must be at least those",
        ),
        (
            lambda: sb.batched_inverse_indexing_access(of_sizes(3, 1), whole(1, 3), 5),
            r"input_data has sample sizes \[3, 1\], output_indices",
        ),
        (
            lambda: sb.batched_bool_indexing(of_sizes(3, 1), selected(1, 3)),
            r"input_mask with sample sizes \[1, 3\] selects 2 entries in the padding of input_data, whose samples have the sizes \[3, 1\]",
        ),
        (
            lambda: sb.batched_bool_indexing_write(of_sizes(3, 3), selected(1, 3), of_sizes(3, 1)),
            r"output_mask with sample sizes \[1, 3\] selects 2 entries in the padding of to_write_into",
        ),
        (
            lambda: sb.batched_bool_indexing_write(of_sizes(1, 3), torch.ones(2, 3, dtype=torch.bool), torch.zeros(2, 3)),
            r"to_write has sample sizes \[1, 3\], output_mask has \[3, 3\] True entries: they must be equal",
        ),
        (
            lambda: sb.batched_bool_indexing_write(of_sizes(3, 3), torch.ones(2, 3, dtype=torch.bool), of_sizes(3, 2)),
            r"to_write has sample sizes \[3, 3\], output_mask has \[3, 2\] True entries",
        ),
        (
            lambda: sb.batched_bool_indexing_write(of_sizes(3, 3, shape=(2, 3, 3)), torch.ones(2, 3, 3).bool(), torch.zeros(2, 3, 3)),
            "to_write has 1 batch dims, output_mask 2: they must be equal",
        ),
    ],
)
def test_batches_whose_samples_differ_in_size_are_refused(call, text):
    with pytest.raises(sb.ShapeError, match=text):
        call()


def test_batches_with_enough_entries_are_taken():
    made = sb.batched_inverse_indexing_access(of_sizes(3, 2, fill=torch.ones), whole(1, 2), 5)
    assert made.sum(1).tolist() == [1, 1]
    assert sb.batched_bool_indexing(of_sizes(3, 2), selected(1, 2)).sample_sizes.tolist() == [1, 2]
    full = selected(3, 3)
    full.tensor[1, 1:] = False  # False in the padding of the data
    assert sb.batched_bool_indexing(of_sizes(3, 1), full).sample_sizes.tolist() == [3, 1]


def test_indices_come_from_masks_of_places(device):
    for shape in ((), (5,)):
        with pytest.raises(sb.ShapeError, match="batch dims and one more"):
            sb.get_indices_from_mask(torch.ones(shape, dtype=torch.bool, device=device))
    sizes = torch.tensor([2, 1], device=device)
    with pytest.raises(sb.ShapeError, match="with 1 batch dims"):
        sb.get_indices_from_mask(sb.RaggedBatch(torch.ones(2, 2, 3, dtype=torch.bool, device=device), sample_sizes=sizes))
    got = sb.get_indices_from_mask(sb.RaggedBatch(torch.ones(2, 2, dtype=torch.bool, device=device), sample_sizes=sizes))
    assert [x.tolist() for x in got.split()] == [[0, 1], [0]]


def test_repr_tells_the_batch_shape():
    batch = sb.RaggedBatch(torch.zeros(2, 3, 4, 5), sample_sizes=torch.full((2, 3), 4))
    assert "batch_shape=(2, 3)" in repr(batch)
