# SPDX-License-Identifier: Apache-2.0
"""Translates timm's RandAugment and AutoAugment, as made from strings like "rand-m9-mstd0.5-inc1". Part of stoker.transforms."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from stoker import _transform_arguments as arguments
from stoker import types
from stoker._transforms_base import Transform


@dataclass(frozen=True)
class Levelled:
    """An operation whose magnitude is computed from a level: start + direction * min(level * slope, most), but at least `least`."""

    name: str  # a key of stoker.loader.lower._policies.CODES
    chance: float
    level: float
    deviation: float  # standard deviation of the normal distribution around `level` to draw from; inf: uniform from 0 to `level`
    highest: float  # largest level
    slope: float = 0.0
    start: float = 0.0
    direction: int = 0  # 1 or -1; 0: drawn for each sample
    whole: bool = False  # whether level * slope is truncated to a whole number
    most: float = 1e4
    least: float = -1e4
    of: str = ""  # "width" or "height" if the magnitude is a share of that extent; else ""


@dataclass(repr=False)
class LevelledAugment(Transform):
    """Draws one of `sequences`, `draws` times, and applies each step of a drawn sequence with the step's own probability."""

    draws: int
    sequences: list[list[Levelled]]
    interpolations: list[types.DALIInterpType]  # one of these is drawn for each step
    fill: list[float]


_ENHANCES = ("Color", "Contrast", "Brightness", "Sharpness")
_FORMS: dict[str, dict[str, Any]] = {
    "AutoContrast": {},
    "Equalize": {},
    "Invert": {},
    "Rotate": {"slope": 3.0},
    "Posterize": {"slope": 0.4, "direction": 1, "whole": True},
    "PosterizeIncreasing": {"name": "Posterize", "start": 4.0, "slope": 0.4, "direction": -1, "whole": True, "least": 0.0},
    "PosterizeOriginal": {"name": "Posterize", "start": 4.0, "slope": 0.4, "direction": 1, "whole": True},
    "Solarize": {"slope": 25.6, "direction": 1, "whole": True, "most": 256.0},
    "SolarizeIncreasing": {"name": "Solarize", "start": 256.0, "slope": 25.6, "direction": -1, "whole": True, "most": 256.0},
    "SolarizeAdd": {"slope": 11.0, "direction": 1, "whole": True, "most": 128.0},
    "ShearX": {"slope": 0.03},
    "ShearY": {"slope": 0.03},
    "TranslateX": {},
    "TranslateY": {},
    "TranslateXRel": {"name": "TranslateX", "of": "width"},
    "TranslateYRel": {"name": "TranslateY", "of": "height"},
    **{name: {"start": 0.1, "slope": 0.18, "direction": 1} for name in _ENHANCES},
    **{f"{name}Increasing": {"name": name, "start": 1.0, "slope": 0.09, "least": 0.1} for name in _ENHANCES},
}


def _levelled(op: Any) -> Levelled | None:
    form = _FORMS.get(op.name)
    if form is None:
        return None
    highest = float(op.magnitude_max or 10)
    if op.name.startswith("Translate"):
        form = {**form, "slope": op.hparams.get("translate_pct", 0.45) / 10 if "of" in form else op.hparams["translate_const"] / 10}
    return Levelled(
        **{
            "name": op.name,
            "chance": op.prob,
            "level": float(op.magnitude),
            "deviation": float(op.magnitude_std),
            "highest": highest,
            **form,
        }
    )


def augmentation(transform: Any) -> LevelledAugment | None:
    """Translates an object of timm's class RandAugment or AutoAugment. Returns None if it has an operation that _FORMS lacks, draws operations with given
    weights, or if its operations differ in fill or interpolation."""
    if type(transform).__name__ == "RandAugment":
        if transform.choice_weights is not None:
            return None
        ops, draws = [[op] for op in transform.ops], int(transform.num_layers)
    else:
        ops, draws = [list(sequence) for sequence in transform.policy], 1
    sequences = [[_levelled(op) for op in sequence] for sequence in ops]
    looks = [(op.kwargs.get("fillcolor"), op.kwargs.get("resample")) for sequence in ops for op in sequence]
    if any(step is None for sequence in sequences for step in sequence) or any(look != looks[0] for look in looks):
        return None
    fill, resample = looks[0]
    modes = [arguments.interp("RandAugment", int(mode)) for mode in (resample if isinstance(resample, (tuple, list)) else [resample])]
    known = [[step for step in sequence if step is not None] for sequence in sequences]
    length = max(map(len, known))
    nothing = Levelled("Identity", 1.0, 0.0, 0.0, inf)
    padded = [sequence + [nothing] * (length - len(sequence)) for sequence in known]
    return LevelledAugment(draws, padded, modes, [float(v) for v in (fill if isinstance(fill, (tuple, list)) else [fill])])
