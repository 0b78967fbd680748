# SPDX-License-Identifier: Apache-2.0
"""Points along polylines equal those of numpy.interp over the length along the line, in batches of equal sizes and in ragged ones."""

import numpy as np
import pytest
import torch
from stoker.batching import RaggedBatch, polylines
from stoker.errors import ShapeError
from stoker.structured.lane_helpers import polyline

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def reference(points, distances, relative):
    """Returns the length of a polyline, and the points at these distances along it, with each coordinate interpolated by NumPy."""
    along = np.concatenate([[0], np.cumsum(np.sqrt((np.diff(points, axis=0) ** 2).sum(1)))])
    at = np.clip(distances * along[-1] if relative else distances, 0, along[-1])
    return along[-1], np.stack([np.interp(at, along, points[:, d]) for d in range(points.shape[1])], 1)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_batches_of_one_size(device, rng, dtype, relative):
    points = torch.from_numpy(rng.normal(size=(3, 17, 2))).to(dtype)
    distances = torch.from_numpy(rng.uniform(-0.5, 2 if relative else 60, (3, 40))).to(dtype)
    made = polyline.interpolate(points.to(device), distances.to(device), relative=relative).cpu()
    lengths = polyline.lengths(points.to(device)).cpu()
    assert made.dtype == dtype and made.shape == (3, 40, 2)
    for b in range(3):
        total, wanted = reference(points[b].double().numpy(), distances[b].double().numpy(), relative)
        assert abs(float(lengths[b]) - total) <= TOLERANCE[dtype] * total
        assert np.abs(made[b].double().numpy() - wanted).max() <= TOLERANCE[dtype] * 8


def test_ragged_batches(device, rng):
    counts, asked = [5, 1, 9, 0, 300], [3, 4, 0, 2, 50]
    points = [rng.normal(size=(n, 3)) for n in counts]
    distances = [rng.uniform(0, 30, n) for n in asked]

    def ragged(samples, inner):
        most = max(map(len, samples))
        data = np.full((len(samples), most, *inner), 7.0)
        for row, sample in zip(data, samples, strict=True):
            row[: len(sample)] = sample
        return RaggedBatch(torch.from_numpy(data).to(device), sample_sizes=torch.tensor([len(s) for s in samples], device=device))

    lines = ragged(points, (3,))
    made = polylines.interpolate_var_size_batch(lines, ragged(distances, ()))
    lengths = polylines.lengths_var_size_batch(lines).cpu()
    assert made.sample_sizes.tolist() == asked
    for b, (line, at) in enumerate(zip(points, distances, strict=True)):
        got = made.tensor[b].cpu().numpy()
        assert not got[len(at) :].any()
        if len(line) == 0:
            assert np.isnan(got[: len(at)]).all() and lengths[b] == 0
            continue
        total, wanted = reference(line, at, False)
        assert abs(lengths[b] - total) < 1e-9 and np.abs(got[: len(at)] - wanted).max(initial=0) < 1e-9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("dims", [2, 3])
def test_loops_for_usual_shapes_give_the_bytes_of_the_general_loop(device, rng, dtype, dims):
    # libstoker has loops for 2 dims, for 3 dims and for any number. `wide` has two further dims of zeros, for which the last loop must give the same results.
    for count in [*range(1, 10), 100, 1000]:
        points = torch.from_numpy(rng.normal(size=(3, count, dims)).round(1)).to(dtype)
        points[:, count // 2] = points[:, (count - 1) // 2]  # one point of each polyline is repeated
        distances = torch.from_numpy(rng.uniform(-1, 1.2 * count, (3, 50))).to(dtype)
        wide = torch.cat([points, torch.zeros(3, count, 2, dtype=dtype)], 2)
        made = polylines.interpolate(points.to(device), distances.to(device)).cpu()
        wanted = polylines.interpolate(wide.to(device), distances.to(device)).cpu()[..., :dims]
        assert made.numpy().tobytes() == wanted.contiguous().numpy().tobytes(), count
        assert polylines.lengths(points.to(device)).tolist() == polylines.lengths(wide.to(device)).tolist()


def test_ends_repeated_points_and_nan(device):
    line = torch.tensor([[[0.0, 0.0], [0.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 2.0]]], device=device)
    at = torch.tensor([[-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 9.0, float("inf"), float("nan")]], device=device)
    made = polyline.interpolate(line, at)[0].tolist()
    assert made[:8] == [[0, 0], [0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [2, 2], [2, 2]] and np.isnan(made[8]).all()
    still = polyline.interpolate(torch.ones(1, 3, 2, device=device), torch.tensor([[0.0, 0.5, 1.0]], device=device), relative=True)
    assert still.tolist() == [[[1, 1]] * 3]


def test_infinite_shares_and_lengths(device):
    shares = torch.tensor([[-float("inf"), -1.0, 0.0, 1.0, float("inf")]], device=device)
    for line in ([[2.0, 3.0]], [[2.0, 3.0], [2.0, 3.0]], [[2.0, 3.0], [4.0, 3.0]]):
        made = polyline.interpolate(torch.tensor([line], device=device), shares, relative=True)
        assert made.tolist() == [[line[0]] * 3 + [line[-1]] * 2]
    endless = torch.tensor([[[2.0, 3.0], [float("inf"), 3.0]]], device=device)
    made = polyline.interpolate(endless, shares, relative=True)[0].tolist()
    assert made == [[2, 3]] * 3 + [[float("inf"), 3]] * 2
    assert polyline.interpolate(endless, shares * float("nan"), relative=True)[..., 0].isnan().all()


@pytest.mark.parametrize("relative", [False, True])
def test_a_batch_without_points_gives_nan(device, relative):
    lines, at = (RaggedBatch.FromFullTensor(torch.zeros(2, *shape, device=device)) for shape in ((0, 2), (3,)))
    made = polylines.interpolate_var_size_batch(lines, at, relative=relative)
    assert made.shape == (2, 3, 2) and made.tensor.isnan().all() and made.sample_sizes.tolist() == [3, 3]
    assert polylines.lengths_var_size_batch(lines).tolist() == [0, 0]


def test_inputs_of_the_wrong_form(device):
    points, at = torch.zeros(2, 3, 2, device=device), torch.zeros(2, 4, device=device)
    for bad in [(points[0], at), (points, at[0]), (points, at.double()), (points.long(), at.long()), (points, at[:1])]:
        with pytest.raises(ShapeError):
            polyline.interpolate(*bad)
    with pytest.raises(ShapeError, match=r"call .detach\(\)"):
        polyline.interpolate(points.requires_grad_(), at)
    with pytest.raises(ShapeError, match="no points"):
        polyline.interpolate(torch.zeros(2, 0, 2, device=device), at)
    with pytest.raises(ShapeError, match="RaggedBatch"):
        polyline.lengths_var_size_batch(points)
