# SPDX-License-Identifier: Apache-2.0
"""Helpers for lanes, with the names of NVIDIA ACCV-Lab's lane_helpers: `lane_helpers.polyline` holds interpolate, lengths and their forms for ragged batches."""

from stoker.batching import polylines as polyline

__all__ = ["polyline"]
