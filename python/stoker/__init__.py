# SPDX-License-Identifier: Apache-2.0
"""Stoker: data pipelines that keep GPUs fed, and batched losses."""

from .errors import ShapeError

__all__ = ["ShapeError"]
