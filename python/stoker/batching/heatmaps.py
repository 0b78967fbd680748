# SPDX-License-Identifier: Apache-2.0
"""Draws Gaussian heatmaps for a whole batch in one call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import ShapeError
from ._native import HEATMAP, INDEX_BYTES, device_of, direct, lib, pointer, refuse
from ._ops import _dense, _library
from ._shapes import require
from .ragged_batch import RaggedBatch, check_sizes

Ragged = Tensor | RaggedBatch


def _draw_run(
    heatmap: Tensor, centers: Tensor, radii: Tensor, sizes: Tensor | None, labels: Tensor | None, map_index: Tensor | None,
    sigma_factor: float, k: float, accumulate: bool,
) -> None:  # fmt: skip
    device = device_of(heatmap)
    centers, radii, sizes, labels, map_index = _dense(centers), _dense(radii), _dense(sizes), _dense(labels), _dense(map_index)
    shape = heatmap.shape
    classes = shape[1] if heatmap.dim() == 4 else 1

    def width(t: Tensor | None) -> int:
        return 4 if t is None else INDEX_BYTES[t.dtype]

    refused = lib.heatmap(
        device.handle, device.stream(), heatmap.data_ptr(), shape[0], classes, shape[-2], shape[-1], radii.shape[-1], pointer(sizes),
        centers.data_ptr(), radii.data_ptr(), pointer(labels), pointer(map_index), width(centers), width(radii), width(labels),
        width(map_index), sigma_factor, k, accumulate, device.counter(HEATMAP),
    )  # fmt: skip
    refuse(HEATMAP, refused)


_library.define(
    "draw_heatmap(Tensor(a!) heatmap, Tensor centers, Tensor radii, Tensor? sizes, Tensor? labels, Tensor? map_index, float sigma_factor, "
    "float k, bool accumulate) -> ()"
)
for _key in ("CPU", "CUDA"):
    _library.impl("draw_heatmap", _draw_run, _key)
torch.library.register_fake("stoker::draw_heatmap", lambda *args: None, lib=_library)


def _draw(heatmap: Tensor, *args: Any) -> Tensor:
    if direct(heatmap):
        if heatmap.is_neg():  # the memory of a negated view holds other values
            return heatmap.copy_(_draw(heatmap.resolve_neg(), *args))
        _draw_run(heatmap, *args)
        torch.autograd.graph.increment_version(heatmap)
    else:
        torch.ops.stoker.draw_heatmap(heatmap, *args)
    return heatmap


def _check(name: str, heatmap: Tensor, dims: tuple[int, ...], **integers: Tensor | None) -> None:
    require(heatmap.dtype == torch.float32, lambda: f"{name} must be float32, not {heatmap.dtype}")
    require(heatmap.dim() in dims, lambda: f"{name} has shape {tuple(heatmap.shape)}: {' or '.join(map(str, dims))} dims are expected")
    require(
        heatmap.is_contiguous(),
        lambda: f"{name} of shape {tuple(heatmap.shape)} and strides {heatmap.stride()} must be contiguous: it is drawn into",
    )
    require(not (heatmap.requires_grad and torch.is_grad_enabled()), lambda: f"{name} requires grad; drawing is not differentiable")
    for other, t in integers.items():
        if t is not None and t.dtype not in INDEX_BYTES:
            raise ShapeError(f"{other} must be int32 or int64, not {t.dtype}")
        if t is not None and t.device != heatmap.device:
            raise ShapeError(f"{other} is on {t.device}, {name} on {heatmap.device}")


def draw_heatmap(
    heatmaps: Tensor,
    centers: Tensor,
    radii: Tensor,
    heatmap_idxes: Tensor,
    diameter_to_sigma_factor: float = 6,
    k_scale: float = 1,
    accumulate: bool = True,
) -> Tensor:
    """Draws T Gaussians into N maps, in place, and returns the maps.
    heatmaps: (N, H, W), float32, contiguous. centers: (T, 2), x and y in pixels. radii: (T), in pixels. heatmap_idxes: (T), for each Gaussian the index of its
    map. centers, radii and heatmap_idxes are int32 or int64.

    A Gaussian is k_scale * exp(-(dx^2 + dy^2) / (2 sigma^2)) with sigma = (2 radius + 1) / diameter_to_sigma_factor, drawn in the square from -radius to
    +radius around its center. A pixel gets the largest value of all Gaussians and, with accumulate, of its previous value. accumulate=False: previous values
    are ignored, and pixels without a Gaussian become 0.
    """
    _check("heatmaps", heatmaps, (3,), centers=centers, radii=radii, heatmap_idxes=heatmap_idxes)
    count = (radii.shape[0] if radii.dim() == 1 else -1,)
    if tuple(centers.shape) != (*count, 2) or tuple(heatmap_idxes.shape) != count:
        raise ShapeError(
            f"centers {tuple(centers.shape)}, radii {tuple(radii.shape)} and heatmap_idxes {tuple(heatmap_idxes.shape)} must be (T, 2), (T) and (T)"
        )
    return _draw(heatmaps, centers, radii, None, None, heatmap_idxes, float(diameter_to_sigma_factor), float(k_scale), accumulate)


def draw_heatmap_batched(
    heatmap: Tensor,
    centers: Ragged,
    radii: Ragged,
    diameter_to_sigma_factor: float = 6.0,
    k_scale: float = 1.0,
    labels: Ragged | None = None,
    accumulate: bool = True,
) -> Tensor:
    """Draws the T targets of each sample b into map b, in place, and returns the maps. The arguments are those of draw_heatmap, with other shapes.
    heatmap: (B, H, W). centers: (B, T, 2). radii: (B, T). centers and radii are RaggedBatches over T, or tensors without padding.

    labels: (B, T), int32 or int64. With labels, heatmap is (B, C, H, W), and a target is drawn into the map of its class. A label outside 0..C-1
    raises IndexError on the CPU; on CUDA, its target is not drawn, and check() raises the error.
    """
    points, extents = (t.tensor if isinstance(t, RaggedBatch) else t for t in (centers, radii))
    classes = labels.tensor if isinstance(labels, RaggedBatch) else labels
    _check("heatmap", heatmap, (3,) if labels is None else (4,), centers=points, radii=extents, labels=classes)
    want = (heatmap.shape[0], extents.shape[1] if extents.dim() == 2 else -1)
    if tuple(extents.shape) != want or tuple(points.shape) != (*want, 2) or (classes is not None and tuple(classes.shape) != want):
        what = f"centers {tuple(points.shape)}, radii {tuple(extents.shape)}" + (
            "" if classes is None else f", labels {tuple(classes.shape)}"
        )
        raise ShapeError(f"{what} do not fit heatmap {tuple(heatmap.shape)}: (B, T, 2), (B, T) and (B, T) are expected")
    for name, other in (("centers", centers), ("labels", labels)):
        check_sizes("radii", radii, name, other)
    check_sizes("centers", centers, "labels", labels)
    sizes = next((t.sample_sizes for t in (radii, centers, labels) if isinstance(t, RaggedBatch)), None)
    return _draw(heatmap, points, extents, sizes, classes, None, float(diameter_to_sigma_factor), float(k_scale), accumulate)


def gaussian_radius(h: Any, w: Any, min_overlap: float = 0.7, variant: str = "cornernet") -> Any:
    """Returns the largest distance by which both corners of a box may move so that its IoU with the original box is at least min_overlap (CornerNet, Law and
    Deng, ECCV 2018).

    h, w: height and width of the box. The result is a float if both are numbers, else a float tensor. variant: "cornernet", or "centernet" for the formula of
    CenterNet and mmdet3d, which takes the larger roots of the quadratic equations and does not divide them by the leading coefficients.
    """
    require(variant in ("cornernet", "centernet"), lambda: f"variant is {variant!r}, not one of cornernet, centernet")
    tensors = [v for v in (h, w) if isinstance(v, Tensor)]
    if not tensors:
        return float(gaussian_radius(torch.tensor(float(h), dtype=torch.float64, device="cpu"), float(w), min_overlap, variant))
    kind = (h + w).dtype
    if kind in (torch.float16, torch.bfloat16):  # the square of h + w is beyond the largest float16 from 256 on
        h, w = (v.float() if isinstance(v, Tensor) else v for v in (h, w))
        return gaussian_radius(h, w, min_overlap, variant).to(kind)
    if not any(t.dtype.is_floating_point for t in tensors):
        h, w = (v.float() if isinstance(v, Tensor) else v for v in (h, w))
    total, area = h + w, h * w
    cases = (
        (1.0, total, area * ((1 - min_overlap) / (1 + min_overlap)), -1),
        (4.0, 2 * total, (1 - min_overlap) * area, -1),
        (4 * min_overlap, -2 * min_overlap * total, (min_overlap - 1) * area, 1),
    )
    radii = []
    for a, b, c, sign in cases:
        root = (b * b - 4 * a * c).clamp(min=0).sqrt()
        radii.append((b + root) / 2 if variant == "centernet" else (b + sign * root) / (2 * a))
    return torch.minimum(torch.minimum(radii[0], radii[1]), radii[2])
