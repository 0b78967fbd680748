# SPDX-License-Identifier: Apache-2.0
"""Maps the names of a batch's fields to outputs of the pipeline."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import Any

from stoker._signatures import hint_for
from stoker.errors import InvalidArgumentError

FROM_SAMPLES = ("path", "index", "valid")  # fields that come from a sample's metadata, not from an output
OF_DATASETS = ("index", "valid")  # those of them that every Dataset has; its samples may have no path


def is_name(name: Any) -> bool:
    """Returns whether a batch, which is a NamedTuple, may have a field of this name."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def names_of(fields: Any) -> tuple[str, ...] | None:
    """Returns the names that the user gave, after the checks that need no source; None if the source decides."""
    if fields is None:
        return None
    fields = list(fields) if isinstance(fields, dict) else fields
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not all(map(is_name, fields)):
        raise InvalidArgumentError(f"fields is a sequence of names, as ('image', 'label', 'index'), not {fields!r}")
    if len(set(fields)) != len(fields):
        raise InvalidArgumentError(f"fields: the names must differ: {', '.join(fields)}")
    return tuple(fields)


def internal(names: tuple[str, ...] | None, main: str) -> tuple[str, ...] | None:
    """Returns the names with the image, which the user calls `main`, under the name "image". Returns None if there are no names."""
    return None if names is None else tuple("image" if name == main else name for name in names)


def place_of(names: tuple[str, ...] | None) -> int:
    """Returns the image's number among the parts of a Dataset's tuples, which the names list in order; 0 if the names do not contain the image."""
    parts = [name for name in names or () if name not in OF_DATASETS]
    return parts.index("image") if "image" in parts else 0


def targets_of(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Returns the names of the parts that follow the image in a Dataset's tuples, in order. names: all names, or None, which is returned."""
    return None if names is None else tuple(n for n in names if n not in (*OF_DATASETS, "image"))


def default(targets: int) -> tuple[str, ...]:
    """Returns names for an image and `targets` targets."""
    return ("image", *(("label",) if targets == 1 else (f"target{k}" for k in range(targets))))


def of_folder(fields: tuple[str, ...] | None) -> dict[str, int | None]:
    """Returns the fields of a data set of images and labels, each with the number of its output; None if it comes from a sample's metadata."""
    return of_table(fields, ("label",))


def of_table(fields: tuple[str, ...] | None, columns: tuple[str, ...]) -> dict[str, int | None]:
    """Returns the fields of a table of paths and targets, each with the number of its output; None if it comes from a sample's metadata. Output 1 is the number
    of the row, by which the values of all columns are looked up."""
    return of_known(fields, {"image": 0, **dict.fromkeys(columns, 1)})


def of_known(fields: tuple[str, ...] | None, outputs: dict[str, int]) -> dict[str, int | None]:
    """Returns the fields that the user wants, by default all of `outputs`, each with the number of its output; None if it comes from a sample's metadata.
    outputs: from the name of each field of the source to the number of its output."""
    known = {**outputs, **dict.fromkeys(FROM_SAMPLES)}
    for name in fields or ():
        if name not in known:
            hint = hint_for(name, known, f"there are {', '.join(known)}")
            raise InvalidArgumentError(f"fields: this source has no '{name}'; {hint}")
    return {name: known[name] for name in fields or outputs}


def of_dataset(fields: tuple[str, ...] | None, targets: int, keys: tuple[str, ...] | None) -> dict[str, int | None]:
    """Returns the fields of a Dataset, each with the number of its part; None if it comes from a sample's metadata. "image" is part 0, at whichever position it
    stands among the names; the other names are the other parts, in order. keys: the keys of samples that are dicts, in the order of their parts; a field is
    then the part with its name. None: samples are tuples."""
    if keys is not None:
        return {f: keys.index(f) if f in keys else None for f in (keys if fields is None else fields)}
    given = fields if fields is not None else default(targets)
    names = targets_of(given) or ()
    if len(names) > targets:
        raise InvalidArgumentError(
            f"fields: {', '.join(names)} are {len(names)} targets; the dataset gives {targets} after the image (index and valid come extra)"
        )
    if fields is not None and 0 < len(names) < targets:
        raise InvalidArgumentError(
            f"fields: {', '.join(names)} name {len(names)} of the {targets} targets that the dataset gives: name all of them"
        )
    number = {name: k + 1 for k, name in enumerate(names)} | {"image": 0}
    return {f: number.get(f) for f in given}


def of_pipeline(fields: tuple[str, ...] | None, outputs: int) -> dict[str, int | None]:
    """Returns the fields for a user's Pipeline, each with the number of its output; None if it comes from a sample's metadata. fields: names of the outputs in
    their order, or None for default names; more names than outputs raise InvalidArgumentError."""
    given = fields if fields is not None else default(outputs - 1)
    names = [f for f in given if f not in FROM_SAMPLES]
    if len(names) > outputs:
        raise InvalidArgumentError(
            f"fields: {', '.join(names)} are {len(names)} outputs; the pipeline gives {outputs} (path, index and valid come extra)"
        )
    return {f: names.index(f) if f in names else None for f in given}
