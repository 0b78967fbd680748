# SPDX-License-Identifier: Apache-2.0
"""Maps the names of a batch's fields to outputs of the pipeline."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from stoker._signatures import hint_for
from stoker.errors import InvalidArgumentError

FROM_SAMPLES = ("path", "index", "valid")  # fields that come from a sample's metadata, not from an output
OF_DATASETS = ("index", "valid")  # the names in FROM_SAMPLES that every Dataset has


def is_name(name: Any) -> bool:
    """Returns whether a batch, which is a NamedTuple, can have a field of this name."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def names_of(fields: Any) -> tuple[str, ...] | None:
    """Returns the names in the Loader's argument `fields`, or None for None. Raises InvalidArgumentError for other types, for wrong or equal
    names, and for an empty sequence."""
    if fields is None:
        return None
    fields = list(fields) if isinstance(fields, dict) else fields
    if isinstance(fields, str) or not isinstance(fields, Sequence):
        raise InvalidArgumentError(f"fields is a sequence of names, as ('image', 'label', 'index'), not {fields!r}")
    wrong = [name for name in fields if not is_name(name)]
    if wrong:
        inside = ": rename a column of this name, and write a part of a struct as a column of its own" if "." in str(wrong[0]) else ""
        raise InvalidArgumentError(
            f"fields: {wrong[0]!r} cannot be a field's name, which is an identifier of Python and does not begin with _{inside}"
        )
    if not fields:
        raise InvalidArgumentError(
            "fields is empty: it names what batches hold, as ('image', 'label'); without it they hold all that the data have"
        )
    if len(set(fields)) != len(fields):
        raise InvalidArgumentError(f"fields: the names must differ: {', '.join(fields)}")
    return tuple(fields)


def refuse_double(made: Iterable[str], columns: Collection[str]) -> None:
    """Raises InvalidArgumentError if a field that a sound makes has the name of a column, which it would replace. made: the names of such fields, as far as
    the user wants them. columns: the names of all columns, components or entries of the data."""
    for name in made:
        if name in columns:
            about = name == "rate" or name.endswith("_lengths")  # other names are those of the sound itself
            way = "leave it out of fields=" if about else "give the sound another name in fields=, as 'sound'"
            raise InvalidArgumentError(f"Loader: a sound adds a field {name!r}, and the data have one of this name: rename it, or {way}")


def refuse_padded(padded: Iterable[str], columns: Collection[str]) -> None:
    """Raises InvalidArgumentError if a field that padding adds has the name of a column, which it would replace. padded: the names of such fields that the user
    named. columns: as for `refuse_double`."""
    for name in padded:
        if name in columns:
            raise InvalidArgumentError(
                f"Loader: pad adds a field {name!r}, and the dataset has one of this name, which fields= names: rename that one, or leave pad out"
            )


def internal(names: tuple[str, ...] | None, main: str) -> tuple[str, ...] | None:
    """Returns the names with `main`, the user's name for the image, replaced by "image"; None for None."""
    return None if names is None else tuple("image" if name == main else name for name in names)


def place_of(names: tuple[str, ...] | None) -> int:
    """Returns the index of "image" among the parts of a Dataset's tuples; 0 if it is not named. names: the parts in order; "index" and "valid" are no parts."""
    parts = [name for name in names or () if name not in OF_DATASETS]
    return parts.index("image") if "image" in parts else 0


def targets_of(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Returns the names of the parts of a Dataset's tuples other than the image, in order; None for None."""
    return None if names is None else tuple(n for n in names if n not in (*OF_DATASETS, "image"))


def default(targets: int) -> tuple[str, ...]:
    """Returns the default names: "image", then "label" for one target, or "target0", "target1", ... for another number of targets."""
    return ("image", *(("label",) if targets == 1 else (f"target{k}" for k in range(targets))))


def of_folder(fields: tuple[str, ...] | None) -> dict[str, int | None]:
    """Returns the fields of a data set of images and labels: a dict from names to the indices of outputs, or to None for metadata of samples."""
    return of_table(fields, ("label",))


def of_table(fields: tuple[str, ...] | None, columns: tuple[str, ...]) -> dict[str, int | None]:
    """Returns the fields of a table of paths and targets: a dict from names to the indices of outputs, or to None for metadata of samples. Output 1 is the
    index of the row, with which the values of all columns are looked up."""
    return of_known(fields, {"image": 0, **dict.fromkeys(columns, 1)})


def of_known(fields: tuple[str, ...] | None, outputs: dict[str, int]) -> dict[str, int | None]:
    """Returns the fields that the user wants, by default all of `outputs`: a dict from names to the indices of outputs, or to None for metadata of samples.
    outputs: maps the source's fields to indices of outputs. Raises InvalidArgumentError for an unknown field."""
    known = {**outputs, **dict.fromkeys(FROM_SAMPLES)}
    for name in fields or ():
        if name not in known:
            hint = hint_for(name, known, f"there are {', '.join(known)}")
            raise InvalidArgumentError(f"fields: this source has no '{name}'; {hint}")
    return {name: known[name] for name in (outputs if fields is None else fields)}


def of_dataset(fields: tuple[str, ...] | None, targets: int, keys: tuple[str, ...] | None) -> dict[str, int | None]:
    """Returns the fields of a Dataset: a dict from names to the indices of parts, or to None for metadata of samples. keys: for samples that are dicts, the
    keys of their parts in order; a field is the part with its name. None: samples are tuples; "image" is part 0, and the other names are the other parts in
    order. targets: the number of parts after the image. Raises InvalidArgumentError if the number of names does not fit."""
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
    """Returns the fields of a user's Pipeline: a dict from names to the indices of outputs, or to None for metadata of samples. fields: names of the outputs in
    order, or None for default names. Raises InvalidArgumentError if there are more names than outputs."""
    given = fields if fields is not None else default(outputs - 1)
    names = [f for f in given if f not in FROM_SAMPLES]
    if len(names) > outputs:
        raise InvalidArgumentError(
            f"fields: {', '.join(names)} are {len(names)} outputs; the pipeline gives {outputs} (path, index and valid come extra)"
        )
    return {f: names.index(f) if f in names else None for f in given}
