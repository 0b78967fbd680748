# SPDX-License-Identifier: Apache-2.0
"""Augmentation: a function of an image and a parameter. Each sample's parameter is looked up by the index (bin) of a magnitude."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stoker import fn, types
from stoker.auto_aug.core import _arguments
from stoker.data_node import DataNode
from stoker.errors import ArgumentError, InvalidArgumentError

_KEPT: Any = object()  # stands for an argument that was not given, because None is a valid value


def seed_of(seed: int | None, which: int) -> int | None:
    """Returns a seed for draw number `which` of several that share the caller's seed: with equal seeds, operators would draw equal numbers. Returns None and
    negative seeds unchanged, and any seed for draw 0."""
    return seed if seed is None or seed < 0 or which == 0 else (seed * 1_000_003 + which) % (1 << 62)


class _SignedMagnitudeBin:
    """A bin with a random sign for each sample. signed_magnitude_idx: the index that belongs to bin and sign in a table with the magnitudes of both signs."""

    def __init__(self, magnitude_bin: int | DataNode, random_sign: DataNode, signed_magnitude_idx: DataNode) -> None:
        self.bin = magnitude_bin
        self.random_sign = random_sign
        self.signed_magnitude_idx = signed_magnitude_idx

    def __getitem__(self, index: int) -> _SignedMagnitudeBin:
        """Returns the bin and the sign of entry `index`. An int bin belongs to all entries."""
        of_one = self.bin if isinstance(self.bin, int) else self.bin[index]
        return _SignedMagnitudeBin(of_one, self.random_sign[index], self.signed_magnitude_idx[index])


def signed_bin(
    magnitude_bin: int | DataNode, random_sign: DataNode | None = None, seed: int | None = None, shape: Sequence[int] | None = None
) -> _SignedMagnitudeBin:
    """Returns a bin (or several) with random signs. random_sign=1 negates a magnitude. By default random_sign is drawn from 0 and 1, with the given shape.

    For augmentations in the branches of an `if`, call this before the `if`.
    """
    if isinstance(magnitude_bin, bool) or not isinstance(magnitude_bin, (int, DataNode)):
        raise ArgumentError(
            f"The `magnitude_bin` must be an int or a DataNode of ints, from 0 to num_magnitude_bins - 1. Got {magnitude_bin!r} instead."
        )
    if random_sign is None:
        random_sign = fn.random.uniform(values=[0, 1], dtype=types.INT32, seed=seed, shape=shape)
    elif seed is not None or shape is not None:
        raise ArgumentError("The `random_sign` cannot be specified together with `seed` or `shape`: these are for signs that are drawn.")
    return _SignedMagnitudeBin(magnitude_bin, random_sign, 2 * magnitude_bin + random_sign)


class Augmentation:
    """A function of (data, parameter, ...) that is called with the bin of a magnitude. Made by the decorator @augmentation.

    The magnitudes are num_magnitude_bins numbers from mag_range[0] to mag_range[1], or mag_range itself if it is an array. The parameter is
    mag_to_param(magnitudes[magnitude_bin] * (-1) ** random_sign), with the sign only if randomly_negate is set. If a bin or a sign differs between samples,
    the parameter is looked up in a table of all parameters. Without mag_range the parameter is None.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        mag_range: Any = None,
        randomly_negate: bool | None = None,
        mag_to_param: Callable[[Any], Any] | None = None,
        param_device: str | None = None,
        name: str | None = None,
    ) -> None:
        self._op = op
        self._config = {
            "mag_range": mag_range,
            "randomly_negate": randomly_negate,
            "mag_to_param": mag_to_param,
            "param_device": param_device,
            "name": name,
        }
        if (given := _arguments.positional(op)) < _arguments.DATA_AND_PARAMETER:
            raise ArgumentError(
                f"The function {op!r} accepts {given} positional argument(s), but an augmentation must accept at least two: the data and the parameter."
            )

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in self._config.items() if value is not None]
        return f"Augmentation({', '.join([repr(self._op), *given])})"

    @property
    def op(self) -> Callable[..., Any]:
        """Returns the function that was decorated."""
        return self._op

    @property
    def mag_range(self) -> Any:
        """Returns the first and the last magnitude, or an array of all magnitudes, or None if the augmentation has no parameter."""
        return self._config["mag_range"]

    @property
    def randomly_negate(self) -> bool:
        """Returns whether each sample's magnitude is negated at random."""
        return bool(self._config["randomly_negate"])

    @property
    def mag_to_param(self) -> Callable[[Any], Any]:
        """Returns the function that converts a magnitude to a parameter."""
        given: Any = self._config["mag_to_param"]
        return given or np.array

    @property
    def param_device(self) -> str:
        """Returns the device of the parameters: "cpu", "gpu", or "auto", which means the device of the data."""
        return str(self._config["param_device"] or "cpu")

    @property
    def name(self) -> str:
        """Returns the name of the augmentation: the given one, else the function's."""
        return str(self._config["name"] or self._op.__name__)

    def augmentation(
        self,
        mag_range: Any = _KEPT,
        randomly_negate: Any = _KEPT,
        mag_to_param: Any = _KEPT,
        param_device: Any = _KEPT,
        name: Any = _KEPT,
        augmentation_cls: type[Augmentation] | None = None,
    ) -> Augmentation:
        """Returns a copy of the augmentation with the given arguments changed."""
        given = {
            "mag_range": mag_range,
            "randomly_negate": randomly_negate,
            "mag_to_param": mag_to_param,
            "param_device": param_device,
            "name": name,
        }
        changed: dict[str, Any] = {key: value for key, value in given.items() if value is not _KEPT}
        return (augmentation_cls or type(self))(self._op, **{**self._config, **changed})

    def __call__(self, data: DataNode, *, magnitude_bin: Any = None, num_magnitude_bins: int | None = None, **kwargs: Any) -> Any:
        """Calls the function with the data, the parameter, and those named arguments that the function takes. Returns the function's result.

        magnitude_bin: an int or a DataNode of ints, from 0 to num_magnitude_bins - 1, or the result of signed_bin for one of these.
        """
        device = (data.device or "cpu") if self.param_device == "auto" else self.param_device
        parameter = self._parameter(magnitude_bin, num_magnitude_bins, device)
        if missing := _arguments.missing(self._op, kwargs):
            raise _arguments.MissingArgException(
                f"The augmentation `{self.name}` requires following named argument(s) which were not provided to the call: {', '.join(missing)}.",
                self,
                missing,
            )
        return self._op(data, parameter, **_arguments.accepted(self._op, kwargs))

    # ---- the parameter ----

    def _parameter(self, magnitude_bin: Any, bins: int | None, device: str) -> Any:
        if self.mag_range is None:
            return None
        magnitudes = self._magnitudes(bins)
        if magnitude_bin is None:
            raise ArgumentError(
                f"The augmentation `{self.name}` has `mag_range` specified, so it requires `magnitude_bin` when called: which of the magnitudes is "
                "meant. It is "
                f"{self!r}"
            )
        if self.randomly_negate:
            return self._of_both_signs(magnitude_bin, magnitudes, device)
        of_bin = magnitude_bin.bin if isinstance(magnitude_bin, _SignedMagnitudeBin) else magnitude_bin
        if isinstance(of_bin, DataNode):
            return self._table(magnitudes, device)[of_bin]
        return types.Constant(self._made(self._at(magnitudes, of_bin)), device=device)

    def _of_both_signs(self, magnitude_bin: Any, magnitudes: Any, device: str) -> Any:
        if not isinstance(magnitude_bin, _SignedMagnitudeBin):
            magnitude_bin = signed_bin(magnitude_bin)
            warnings.warn(
                f"The augmentation `{self.name}` was declared with `randomly_negate=True`, but an unsigned `magnitude_bin` was passed to the call: "
                "signs are drawn "
                "for this call only. Several augmentations in branches can share signs that are drawn before: magnitude_bin=signed_bin(magnitude_bin)",
                Warning,
                stacklevel=3,
            )
        index: DataNode = magnitude_bin.signed_magnitude_idx
        if not isinstance(magnitude_bin.bin, DataNode):
            magnitudes = [self._at(magnitudes, magnitude_bin.bin)]
            index = magnitude_bin.random_sign
        return self._table([sign * m for m in magnitudes for sign in (1, -1)], device)[index]

    def _at(self, magnitudes: Any, which: int) -> Any:
        if isinstance(which, bool) or not isinstance(which, (int, np.integer)) or not 0 <= which < len(magnitudes):
            raise InvalidArgumentError(
                f"The `magnitude_bin` of the augmentation `{self.name}` is {which!r}; there are bins from 0 to {len(magnitudes) - 1}"
            )
        return magnitudes[which]

    def _magnitudes(self, bins: int | None) -> Any:
        mag_range = self.mag_range
        if isinstance(mag_range, np.ndarray):
            if bins is not None and len(mag_range) != bins:
                raise InvalidArgumentError(
                    f"The augmentation `{self.name}` has nd.array of length {len(mag_range)} specified as the `mag_range`. However, the "
                    "`num_magnitude_bins` passed "
                    f"to the call is {bins}."
                )
            return mag_range
        if bins is None:
            raise ArgumentError(
                f"The `num_magnitude_bins` argument is missing in the call of the `{self.name}` augmentation: into how many bins its range is divided"
            )
        if not hasattr(mag_range, "__len__") or len(mag_range) != 2:
            raise InvalidArgumentError(
                f"The `mag_range` must be a tuple of (low, high), or an nd.array of all magnitudes. Got `{mag_range}` for augmentation `{self.name}`."
            )
        return np.linspace(mag_range[0], mag_range[1], bins, dtype=np.float32)

    def _made(self, magnitude: Any) -> Any:
        parameter = self.mag_to_param(magnitude)
        if _holds_node(parameter):
            raise InvalidArgumentError(
                f"The `mag_to_param` callback of `{self.name}` augmentation returned `DataNode`, which belongs to a sample; parameters are numbers and "
                "arrays that "
                "are computed once. Call operators in the function itself, which gets the parameter"
            )
        return np.array(parameter)

    def _table(self, magnitudes: Sequence[Any], device: str) -> Any:
        made = [self._made(m) for m in magnitudes]
        for magnitude, parameter in zip(magnitudes, made, strict=True):
            if parameter.shape != made[0].shape or parameter.dtype != made[0].dtype:
                raise InvalidArgumentError(
                    f"The `mag_to_param` callback of `{self.name}` augmentation must return the arrays of the same type and shape for different "
                    "magnitudes. Got "
                    f"{made[0].dtype} of the shape {made[0].shape} for {magnitudes[0]}, {parameter.dtype} of {parameter.shape} for {magnitude}."
                )
        return types.Constant(np.array(made), device=device)


def _holds_node(thing: Any) -> bool:
    return any(map(_holds_node, thing)) if isinstance(thing, (tuple, list)) else isinstance(thing, DataNode)


def augmentation(
    function: Callable[..., Any] | None = None,
    *,
    mag_range: Any = None,
    randomly_negate: bool | None = None,
    mag_to_param: Callable[[Any], Any] | None = None,
    param_device: str | None = None,
    name: str | None = None,
    augmentation_cls: type[Augmentation] | None = None,
) -> Any:
    """Makes an Augmentation of a function that takes data, a parameter, and any named arguments.

    mag_range: the magnitudes of the first and the last bin, or an array with a magnitude for each bin; None: the function gets None as its parameter.
    randomly_negate: whether each sample's magnitude is negated at random. mag_to_param: function that converts a magnitude to an array, or to a value that
    NumPy converts to one; all of them need the same type and shape. None: numpy.array. param_device: device of the parameters: "cpu" (the default), "gpu" or
    "auto" (the data's device). name: name of the augmentation; by default the function's.
    """

    def made(function: Any) -> Augmentation:
        if isinstance(function, Augmentation):
            raise ArgumentError(
                f"The `@augmentation` was applied to already decorated Augmentation: {function.name}.augmentation(...) changes its setup, and "
                f"{function.name}.op is "
                "its function"
            )
        if not callable(function):
            raise ArgumentError(f"The `@augmentation` decorator was used to decorate the object that is not callable: {function!r}.")
        return (augmentation_cls or Augmentation)(
            function,
            mag_range=mag_range,
            randomly_negate=randomly_negate,
            mag_to_param=mag_to_param,
            param_device=param_device,
            name=name,
        )

    return made if function is None else made(function)
