# SPDX-License-Identifier: Apache-2.0
"""Forward-mode derivatives and the transforms of torch.func: they agree with the derivatives that backward() computes."""

import pytest
import stoker.batching as sb
import torch
from torch.autograd import forward_ad, functional, gradcheck

SIZES = torch.tensor([4, 0, 2])
MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]]).bool()


def ragged(tensor, sizes=SIZES):
    return sb.RaggedBatch(tensor, sample_sizes=sizes.to(tensor.device))


def indices(rows, device):
    return ragged(torch.tensor(rows, device=device), torch.tensor([3, 2, 0]))


def read(device):
    return indices([[2, 0, 1], [1, 1, 9], [0, 0, 0]], device)


def written(device):
    return indices([[0, 0, 1], [3, 1, 9], [0, 0, 0]], device)


def set_in_place(data, base):
    made = ragged(data * 1)
    made.set_padded_to(3.0)
    return made.tensor


# Each takes data (3, 4, 2) and base (3, 5, 2).
FUNCTIONS = {
    "access": lambda data, base: sb.batched_indexing_access(data, read(data.device), 7.0).tensor,
    "inverse": lambda data, base: sb.batched_inverse_indexing_access(data[:, :3], written(data.device), 6, 7.0),
    "write": lambda data, base: sb.batched_indexing_write(data[:, :3], written(data.device), base),
    "mapping": lambda data, base: sb.batched_index_mapping(data, read(data.device), written(data.device), base),
    "padding": lambda data, base: ragged(data).with_padded_set_to(3.0).tensor,
    "padding in place": set_in_place,
    "sum": lambda data, base: sb.sum_over_targets(ragged(data)),
    "average": lambda data, base: sb.average_over_targets(ragged(data)),
    "combine": lambda data, base: sb.combine_data([data[0], base[1, :2]]).tensor,
    "bool": lambda data, base: sb.batched_bool_indexing(data, MASK.to(data.device)).tensor,
}


def inputs(device):
    generator = torch.Generator().manual_seed(3)
    return [torch.rand(shape, generator=generator, dtype=torch.float64).to(device) for shape in [(3, 4, 2), (3, 5, 2)] * 2]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode_agrees_with_differences(device, name):
    function = FUNCTIONS[name]
    data, base, data_tangent, base_tangent = inputs(device)
    assert gradcheck(function, (data.clone().requires_grad_(), base.clone().requires_grad_()), check_forward_ad=True)
    for along_data, along_base in ((1, 1), (1, 0), (0, 1)):  # a tangent of both, and of one
        with forward_ad.dual_level():
            dual = (
                forward_ad.make_dual(data, data_tangent) if along_data else data,
                forward_ad.make_dual(base, base_tangent) if along_base else base,
            )
            change = forward_ad.unpack_dual(function(*dual)).tangent
        wanted = function(data + along_data * data_tangent, base + along_base * base_tangent) - function(data, base)
        torch.testing.assert_close(torch.zeros_like(wanted) if change is None else change, wanted)  # the functions are linear


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "padding in place"])
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_torch_func_agrees_with_backward(device, name):
    function = FUNCTIONS[name]
    data, base, other_data, other_base = inputs(device)
    wanted = functional.jacobian(function, (data, base))
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(function, (0, 1))(data, base), wanted)

    def square(data, base):
        return function(data, base).square().sum()

    both = torch.stack([data, other_data]), torch.stack([base, other_base])
    torch.testing.assert_close(torch.vmap(function)(*both)[1], function(other_data, other_base))
    grads = [functional.jacobian(square, pair)[0] for pair in ((data, base), (other_data, other_base))]
    torch.testing.assert_close(torch.vmap(torch.func.grad(square))(*both), torch.stack(grads))
    torch.testing.assert_close(torch.func.grad(lambda *given: torch.vmap(square)(*given).sum())(*both), torch.stack(grads))


def test_polylines_refuse_tangents(device):
    lane, ones = torch.tensor([[[0.0, 0.0], [4.0, 0.0]]], device=device), torch.ones(1, 2, 2, device=device)
    with forward_ad.dual_level(), pytest.raises(sb.ShapeError, match="polylines are not differentiable, and an input has a tangent"):
        sb.polylines.lengths(forward_ad.make_dual(lane, ones))
