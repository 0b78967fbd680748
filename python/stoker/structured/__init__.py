# SPDX-License-Identifier: Apache-2.0
"""Structured samples: many sensors and many fields in one sample."""

from .nuscenes_make import make_nuscenes

__all__ = ["make_nuscenes"]
