# SPDX-License-Identifier: Apache-2.0
"""Computes lengths of polylines, and points at distances along them, for a whole batch in one call. Names and meaning are those of NVIDIA ACCV-Lab's
lane_helpers."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import ShapeError
from ._native import CODES, FLOATS, PLAIN, device_of, direct, lib, pointer
from ._ops import _dense, _register, _tangents
from ._shapes import require
from .ragged_batch import RaggedBatch


def interpolate(points: Tensor, distances: Tensor, *, relative: bool = False) -> Tensor:
    """Returns (batch, distances, dims), the points at the given distances along each polyline from its first point.
    points: (batch, points, dims), the vertices of each polyline. distances: (batch, distances), in any order; they are clamped to the polyline's length.
    relative: distances are fractions of the polyline's length."""
    _check(points, distances)
    if points.shape[1] == 0 and distances.numel():
        raise ShapeError(f"points have the shape {tuple(points.shape)}: there are no points to interpolate between")
    return _interpolate(points, None, distances, None, relative)


def lengths(points: Tensor) -> Tensor:
    """Returns the lengths (batch) of polylines. points: (batch, points, dims), the vertices of each polyline."""
    _check(points, None)
    return _lengths(points, None)


def interpolate_var_size_batch(points: RaggedBatch, distances: RaggedBatch, *, relative: bool = False) -> RaggedBatch:
    """Returns the same as `interpolate` for polylines with different numbers of points and distances. A polyline without points gives NaN."""
    _check_ragged(points, "points")
    _check_ragged(distances, "distances")
    _check(points.tensor, distances.tensor)
    made = _interpolate(points.tensor, points.sample_sizes, distances.tensor, distances.sample_sizes, relative)
    return distances.create_with_sample_sizes_like_self(made)


def lengths_var_size_batch(points: RaggedBatch) -> Tensor:
    """Returns the lengths (batch) of polylines with different numbers of points; 0 for one without points."""
    _check_ragged(points, "points")
    _check(points.tensor, None)
    return _lengths(points.tensor, points.sample_sizes)


def _check_ragged(batch: RaggedBatch, name: str) -> None:
    require(isinstance(batch, RaggedBatch), lambda: f"{name} is a RaggedBatch, not {type(batch).__name__}")
    require(
        batch.num_batch_dims == 1 and batch.non_uniform_dim == 1,
        lambda: (
            f"{name} has {batch.num_batch_dims} batch dims and is ragged in dim {batch.non_uniform_dim}: one batch dim and dim 1 are expected"
        ),
    )


def _check(points: Tensor, distances: Tensor | None) -> None:
    # A call on one short polyline takes three microseconds, so a check builds its message only after it has failed.
    if points.dim() != 3:
        raise ShapeError(f"points have the shape {tuple(points.shape)}: (batch, points, dims) is expected")
    if points.dtype not in FLOATS:
        raise ShapeError(f"points are {points.dtype}: floats are expected")
    if torch.is_grad_enabled() and (points.requires_grad or (distances is not None and distances.requires_grad)):
        raise ShapeError("polylines are not differentiable, and an input requires grad: call .detach() on it")
    if _tangents(points, distances):
        raise ShapeError("polylines are not differentiable, and an input has a tangent: pass forward_ad.unpack_dual(input).primal")
    if distances is None:
        return
    shape, lines = distances.shape, points.shape
    if len(shape) != 2 or shape[0] != lines[0]:
        raise ShapeError(f"distances have the shape {tuple(shape)}: (batch, distances) with a batch of {lines[0]} is expected")
    if distances.dtype != points.dtype or not ((points.is_cpu and distances.is_cpu) or distances.device == points.device):
        raise ShapeError(
            f"distances are {distances.dtype} on {distances.device}, and points {points.dtype} on {points.device}: they have to be equal"
        )


def _interpolate_run(points: Tensor, sizes: Tensor | None, distances: Tensor, sample_sizes: Tensor | None, relative: bool) -> Tensor:
    points, distances = _dense(points), _dense(distances)
    batch, count, dims = points.shape
    samples = distances.shape[1]
    out = points.new_empty((batch, samples, dims))
    device = device_of(points)
    if not device.cuda and sizes is None and sample_sizes is None:
        lib.polyline(
            device.handle, 0, CODES[points.dtype], relative, batch, count, dims, samples,
            points.data_ptr(), 0, distances.data_ptr(), 0, out.data_ptr(), 0, 0,
        )  # fmt: skip
        return out
    _call(points, sizes, distances, sample_sizes, out, None, relative)
    return out


def _interpolate_fake(points, sizes, distances, sample_sizes, relative):
    return points.new_empty((points.shape[0], distances.shape[1], points.shape[2]))


def _lengths_run(points: Tensor, sizes: Tensor | None) -> Tensor:
    points = _dense(points)
    out = points.new_empty(points.shape[0])
    _call(points, sizes, None, None, None, out, False)
    return out


def _lengths_fake(points, sizes):
    return points.new_empty((points.shape[0],))


def _call(
    points: Tensor, sizes: Tensor | None, distances: Tensor | None, sample_sizes: Tensor | None, out: Tensor | None, length: Tensor | None, relative: bool
) -> None:  # fmt: skip
    device = device_of(points)
    batch, count, dims = points.shape
    sizes, sample_sizes = _dense(sizes), _dense(sample_sizes)
    scratch = points.new_empty((batch, count), dtype=torch.float64) if device.cuda else None
    lib.polyline(
        device.handle, device.stream(), CODES[points.dtype], relative, batch, count, dims, 0 if distances is None else distances.shape[1],
        points.data_ptr(), pointer(sizes), pointer(distances), pointer(sample_sizes), pointer(out), pointer(length), pointer(scratch),
    )  # fmt: skip


_register(
    "polyline_points(Tensor points, Tensor? sizes, Tensor distances, Tensor? sample_sizes, bool relative) -> Tensor",
    _interpolate_run,
    _interpolate_fake,
)
_register("polyline_lengths(Tensor points, Tensor? sizes) -> Tensor", _lengths_run, _lengths_fake)


def _interpolate(points: Tensor, sizes: Tensor | None, distances: Tensor, sample_sizes: Tensor | None, relative: bool) -> Tensor:
    run = _interpolate_run if direct(points) and type(distances) in PLAIN else torch.ops.stoker.polyline_points
    return run(points, sizes, distances, sample_sizes, relative)


def _lengths(points: Tensor, sizes: Tensor | None) -> Tensor:
    return _lengths_run(points, sizes) if direct(points) else torch.ops.stoker.polyline_lengths(points, sizes)
