# SPDX-License-Identifier: Apache-2.0
"""Solutions of assignment problems equal those of scipy.optimize.linear_sum_assignment. Since SciPy 1.4, this also holds if several solutions have the same
cost: both libraries choose the same one."""

import os

import numpy as np
import pytest
import stoker.batching as sb
import torch
from scipy.optimize import linear_sum_assignment

FULL = int(os.environ.get("STOKER_ASSIGNMENT_PROBLEMS", "2000"))


def uniform(rng, r, c):
    return rng.random((r, c))


def ties(rng, r, c):
    return rng.integers(0, 3, (r, c)).astype(float)


def equal_rows(rng, r, c):
    return np.repeat(rng.integers(0, 5, (1, c)).astype(float), r, 0)


def constant(rng, r, c):
    return np.full((r, c), 1.5)


def forbidden(rng, r, c):
    return np.where(rng.random((r, c)) < 0.3, np.inf, rng.integers(-3, 3, (r, c)).astype(float))


def negative(rng, r, c):
    return rng.normal(size=(r, c)) * 100 - 50


def tiny(rng, r, c):
    return 1 + rng.normal(size=(r, c)) * 1e-12


def zeros(rng, r, c):
    return np.where(rng.random((r, c)) < 0.5, 0.0, -0.0)


def large(rng, r, c):
    return rng.random((r, c)) * 10.0 ** rng.integers(-5, 30, (r, c))


def invalid(rng, r, c):
    cost = rng.random((r, c))
    cost[rng.random((r, c)) < 0.01] = rng.choice([np.nan, -np.inf])
    return cost


KINDS = [uniform, ties, equal_rows, constant, forbidden, negative, tiny, zeros, large, invalid]


def expected(cost, maximize=False):
    try:
        return 0, *linear_sum_assignment(cost, maximize)
    except ValueError as error:
        return (1 if "infeasible" in str(error) else 2), np.zeros(0, int), np.zeros(0, int)


def compare(got, index, cost, maximize, where):
    status, rows, cols = expected(cost, maximize)
    n = int(got.rows.sample_sizes[index])
    assert int(got.status[index]) == status, where
    assert got.rows.tensor[index, :n].tolist() == rows.tolist() and got.cols.tensor[index, :n].tolist() == cols.tolist(), where


def on_cpu(got):
    rows = got.rows.cpu()
    return sb.Assignment(rows, got.cols.cpu(), got.status.cpu())


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_equals_scipy(device, kind, dtype):
    """The pairs are SciPy's in each problem of a batch with ragged rows and columns. Some problems are tall, wide, empty or 1x1, some are transposed in memory,
    and some are maximised."""
    rng = np.random.default_rng([KINDS.index(kind), dtype.itemsize])
    done, wanted = 0, max(1, FULL // (len(KINDS) * 4))
    while done < wanted:
        b, r, c = int(rng.integers(1, 20)), int(rng.integers(0, 25)), int(rng.integers(0, 25))
        cost = torch.from_numpy(np.stack([kind(rng, r, c) for _ in range(b)])).to(dtype)
        rows, cols = torch.from_numpy(rng.integers(0, r + 1, b)), torch.from_numpy(rng.integers(0, c + 1, b))
        maximize = bool(rng.integers(0, 2))
        placed = cost.to(device)
        if rng.integers(0, 2):
            placed = placed.transpose(1, 2).contiguous().transpose(1, 2)
        got = on_cpu(sb.linear_sum_assignment(placed, rows.to(device), cols.to(device), maximize))
        for i in range(b):
            compare(got, i, cost[i, : int(rows[i]), : int(cols[i])].double().numpy(), maximize, (kind.__name__, done, i))
        done += b


@pytest.mark.parametrize("shape", [(900, 300), (300, 900), (1, 1), (1, 700), (700, 1), (257, 256), (64, 64), (1500, 20)], ids=str)
def test_costs_of_any_size_are_assigned_as_by_scipy(device, shape):
    rng = np.random.default_rng(shape)
    for kind in (uniform, ties, negative):
        cost = kind(rng, *shape).astype(np.float32)
        got = on_cpu(sb.linear_sum_assignment(torch.from_numpy(cost).to(device)))
        compare(got, 0, cost, False, (kind.__name__, shape))


@pytest.mark.parametrize("shape", [(5, 9000), (9000, 5), (3000, 3)], ids=str)
def test_more_columns_than_registers_hold(device, shape):
    rng = np.random.default_rng(shape)
    cost = rng.integers(0, 50, shape).astype(np.float64)
    got = on_cpu(sb.linear_sum_assignment(torch.from_numpy(cost).to(device)))
    compare(got, 0, cost, False, shape)


def test_one_bad_problem_leaves_the_others(device):
    rng = np.random.default_rng(0)
    cost = rng.random((4, 6, 5)).astype(np.float32)
    cost[1, 2, 3], cost[2, :, 1] = np.nan, np.inf
    cost[2, :, 0] = np.inf
    got = on_cpu(sb.linear_sum_assignment(torch.from_numpy(cost).to(device)))
    assert got.status.tolist() == [0, 2, 1, 0] and got.rows.sample_sizes.tolist() == [5, 0, 0, 5]
    for i in range(4):
        compare(got, i, cost[i], False, i)
    with pytest.raises(IndexError, match="linear_sum_assignment: 2"):
        sb.check()


def test_an_invalid_cost_outranks_infeasible(device):
    cost = torch.full((3, 4), float("inf"), device=device)
    cost[2, 1] = float("nan")
    assert sb.linear_sum_assignment(cost).status.tolist() == [2]
    assert sb.linear_sum_assignment(cost[:2]).status.tolist() == [1]
    with pytest.raises(IndexError):
        sb.check()


def test_batch_dims_ragged_batches_and_integers(device):
    torch.manual_seed(1)
    cost = torch.randint(0, 9, (2, 3, 7, 5), device=device)
    sizes = torch.randint(0, 6, (2, 3), device=device)
    got = sb.linear_sum_assignment(sb.RaggedBatch(cost, sample_sizes=sizes, non_uniform_dim=3))
    assert got.rows.batch_shape == (2, 3) and got.rows.shape == (2, 3, 5) and torch.equal(got.rows.sample_sizes, sizes)
    assert got.rows.sample_sizes is got.cols.sample_sizes
    again = sb.linear_sum_assignment(cost.double(), num_cols=sizes)
    assert torch.equal(got.rows.with_padded_set_to(-1).tensor, again.rows.with_padded_set_to(-1).tensor)
    turned = sb.linear_sum_assignment(sb.RaggedBatch(cost.transpose(2, 3), sample_sizes=sizes, non_uniform_dim=2))
    assert torch.equal(turned.rows.sample_sizes, sizes)
    for b in range(2):
        for k in range(3):
            n = int(sizes[b, k])
            compare(on_cpu(sb.linear_sum_assignment(cost[b, k, :, :n])), 0, cost[b, k, :, :n].cpu().numpy(), False, (b, k))
    assert sb.linear_sum_assignment(cost[0, 0]).rows.shape == (1, 5)
    assert sb.linear_sum_assignment(cost[:0]).rows.shape == (0, 3, 5)
    expanded = cost[:, :1].expand(2, 3, 7, 5).float()
    assert torch.equal(sb.linear_sum_assignment(expanded).cols.tensor[:, 2], sb.linear_sum_assignment(expanded[:, 0]).cols.tensor)
    with pytest.raises(sb.ShapeError, match=r"num_rows has shape \(4,\), the batch of cost \(2, 3, 7, 5\)"):
        sb.linear_sum_assignment(cost, num_rows=torch.zeros(4, dtype=torch.int64, device=device))
    with pytest.raises(sb.ShapeError, match="ragged in its columns"):
        sb.linear_sum_assignment(sb.RaggedBatch(cost, sample_sizes=sizes, non_uniform_dim=3), num_cols=sizes)


def test_arguments_that_scipy_takes_or_that_do_not_fit_are_named():
    for arguments, text in [
        (([[1, 2], [3, 4]],), r"cost is list: give a Tensor, as from torch.as_tensor\(cost\)"),
        ((np.eye(3),), "cost is ndarray: give a Tensor"),
        ((torch.eye(3), -1), r"num_rows is -1, but cost \(3, 3\) has 3 rows"),
        ((torch.eye(3), None, 4), r"num_cols is 4, but cost \(3, 3\) has 3 cols"),
        ((torch.eye(3), 2.0), "num_rows is float: an int or an int64 Tensor"),
        ((torch.eye(3), [2]), "num_rows is list: an int or an int64 Tensor"),
        ((torch.zeros(2, 3, 3), torch.tensor([1, 4])), r"num_rows holds 4, but cost \(2, 3, 3\) has 3 rows"),
        ((torch.zeros(2, 3, 3), None, torch.tensor([-2, 4])), r"num_cols holds -2, but cost \(2, 3, 3\) has 3 cols"),
    ]:
        with pytest.raises(sb.ShapeError, match=text):
            sb.linear_sum_assignment(*arguments)


def test_needs_no_gradient(device):
    cost = torch.rand(2, 4, 4, device=device, requires_grad=True)
    assert not sb.linear_sum_assignment(cost).rows.requires_grad
