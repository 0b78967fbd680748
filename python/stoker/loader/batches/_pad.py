# SPDX-License-Identifier: Apache-2.0
"""The Loader's argument pad: images of different sizes are padded on the right and at the bottom to the largest height and width in the batch."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stoker.errors import InvalidArgumentError
from stoker.loader.batches._finish import Finishing, Outputs, by_value

SIZE, PADDING = "size", "padding_mask"
FIELDS = (SIZE, PADDING)
_KINDS = ("Image", "Mask", "FloatMap")


def of_lists(pad: Any) -> float | None:
    """Returns the number that pads lists of numbers; None if batches are not padded. Whole numbers stay exact. pad: as `checked` accepts it, but no mapping."""
    value = 0 if isinstance(pad, str) else pad
    return value if value is None else int(value) if isinstance(value, numbers.Integral) else float(value)


def checked(pad: Any) -> dict[str, float] | None:
    """Returns the Loader's argument `pad` as a dict from kinds of fields to the value of the padding; None if batches are not padded. Raises
    InvalidArgumentError for wrong kinds and values."""
    if pad is None:
        return None
    given = (
        {str(getattr(kind, "__name__", kind)): value for kind, value in pad.items()}
        if isinstance(pad, Mapping)
        else dict.fromkeys(_KINDS, pad)
    )
    values = {kind: 0.0 if value == "zeros" else value for kind, value in given.items()}
    for kind, value in values.items():
        if kind not in _KINDS or not isinstance(value, numbers.Real) or isinstance(value, bool) or not math.isfinite(value):
            raise InvalidArgumentError(
                f"Loader: pad is 'zeros', a number, or a number for each kind of field, as {{'Image': 0, 'Mask': 255}}, not {pad!r}"
            )
    return {kind: float(values.get(kind, 0.0)) for kind in _KINDS}


def check_holds(dtype: str, kind: str, value: float, what: str = "Loader: pad") -> None:
    """Raises InvalidArgumentError if a tensor of this type cannot represent the value that fills its padding: the padding would get the nearest value instead.
    kind: the kind of the padded field. dtype: the name that torch gives to the type. what: what gives the value, in the message."""
    low, high = _range_of(dtype)
    whole = "float" not in dtype
    if low <= value <= high and (not whole or value.is_integer()):
        return
    wider = "; masks of another type keep it, as mask.astype('int64') makes them" if kind == "Mask" else ""
    raise InvalidArgumentError(
        f"{what} is {value:g} for a field of the kind {kind}, whose tensors are {dtype}, with {'whole ' * whole}numbers from {low:g} to {high:g}: "
        f"give a number that fits, or one for each kind, as {{'Image': 0, 'Mask': 255}}{wider}"
    )


def _range_of(dtype: str) -> tuple[float, float]:
    """Returns the least and the greatest finite number of a type, by torch's name."""
    if dtype == "bool":
        return 0.0, 1.0
    if dtype.startswith("uint"):
        return 0.0, 2.0 ** int(dtype[4:]) - 1
    if dtype.startswith("int"):
        return -(2.0 ** (int(dtype[3:]) - 1)), 2.0 ** (int(dtype[3:]) - 1) - 1
    high = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}.get(dtype, math.inf)
    return -high, high


def without_own_fields(values: Mapping[str, float] | None, fields: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Returns two things: the user's fields without `size` and `padding_mask`, which padding adds; and the names of all the user's fields if one of these two
    is among them, else None."""
    if values is None or fields is None or not {*FIELDS} & {*fields}:
        return fields, None
    given = [name for name in fields if name not in FIELDS]
    return {name: fields[name] for name in given} if isinstance(fields, Mapping) else given, tuple(fields)


def _mask(outputs: Outputs, number: int) -> Any:
    """Makes the field padding_mask: a bool tensor (N, H, W) that is true for pixels of the padding."""
    import torch

    sizes, image = outputs.values[number], outputs.values[0]
    rows, columns = (torch.arange(n, device=sizes.device) for n in image.shape[-2:])
    return (rows >= sizes[:, :1])[:, :, None] | (columns >= sizes[:, 1:])[:, None, :]


def with_fields(
    fields: Mapping[str, int | None], finishing: Finishing, names: tuple[str, ...] | None, size: int
) -> tuple[dict[str, int | None], Finishing]:
    """Adds the fields `size` and `padding_mask`. names: the names of all fields, in order, if the user named one of these two; None: only `size` is added, as
    the last field. size: the index of the output with the sizes. Raises InvalidArgumentError if the data have a field of one of these names."""
    for name in FIELDS:
        if name in fields:
            raise InvalidArgumentError(
                f"Loader: pad adds a field {name!r}, and the dataset has one of this name: rename it, or leave it out of fields="
            )
    added = {**fields, **{name: size for name in names or (SIZE,) if name in FIELDS}}
    ordered = {name: added[name] for name in names} if names is not None else added
    ordered.update({name: output for name, output in added.items() if name not in ordered})
    return ordered, replace(finishing, finish={**finishing.finish, SIZE: by_value(lambda value: value), PADDING: _mask})
