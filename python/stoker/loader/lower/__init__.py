# SPDX-License-Identifier: Apache-2.0
"""Compiles transforms to operators of a graph: _rules.py says how for one transform, _recipe.py for a list. Most other files hold the rules of transforms."""

from stoker.loader.lower import _affine, _boxes, _colors, _geometry, _groups, _moves, _policies, _timm, _types, _values  # noqa: F401
from stoker.loader.lower._follow import Field, Followers
from stoker.loader.lower._recipe import Recipe, refuse_other_kind, refuse_other_tensors
from stoker.loader.lower._rules import Image

__all__ = ["Field", "Followers", "Image", "Recipe", "refuse_other_kind", "refuse_other_tensors"]
