# SPDX-License-Identifier: Apache-2.0
"""Makes stoker.batching.polylines available under the name that it has in NVIDIA ACCV-Lab, `lane_helpers.polyline`."""

from stoker.batching import polylines as polyline

__all__ = ["polyline"]
