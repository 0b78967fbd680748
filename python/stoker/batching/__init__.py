# SPDX-License-Identifier: Apache-2.0
"""Batches whose samples have different numbers of objects: ragged batches, and indexing, assignment, costs, heatmaps and losses for them."""

from ..errors import ShapeError
from . import losses, polylines
from ._native import check
from .assignment import Assignment, linear_sum_assignment
from .costs import detection_cost
from .heatmaps import draw_heatmap, draw_heatmap_batched, gaussian_radius
from .indexing import (
    batched_index_mapping,
    batched_indexing_access,
    batched_indexing_write,
    batched_inverse_indexing_access,
    get_indices_from_mask,
    get_mask_from_indices,
)
from .masks import batched_bool_indexing, batched_bool_indexing_write, get_compact_from_named_tuple, get_compact_lists
from .processing import (
    apply_mask_to_tensor,
    average_over_targets,
    cat,
    combine_data,
    squeeze_except_batch_and_sample,
    stack,
    sum_over_targets,
)
from .ragged_batch import RaggedBatch

__all__ = [
    "Assignment",
    "RaggedBatch",
    "ShapeError",
    "apply_mask_to_tensor",
    "average_over_targets",
    "batched_bool_indexing",
    "batched_bool_indexing_write",
    "batched_index_mapping",
    "batched_indexing_access",
    "batched_indexing_write",
    "batched_inverse_indexing_access",
    "cat",
    "check",
    "combine_data",
    "detection_cost",
    "draw_heatmap",
    "draw_heatmap_batched",
    "gaussian_radius",
    "get_compact_from_named_tuple",
    "get_compact_lists",
    "get_indices_from_mask",
    "get_mask_from_indices",
    "linear_sum_assignment",
    "losses",
    "polylines",
    "squeeze_except_batch_and_sample",
    "stack",
    "sum_over_targets",
]
