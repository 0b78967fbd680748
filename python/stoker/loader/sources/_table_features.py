# SPDX-License-Identifier: Apache-2.0
"""The features of columns: what the package `datasets` writes about them into a schema, such as names of classes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from stoker.errors import InvalidArgumentError
from stoker.loader._fields import is_name


def features_of(schema: Any) -> dict[str, Any]:
    """Returns a dict from columns to the features that `datasets` wrote into the schema; {} for a schema without features."""
    try:
        found = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    return {n: f for n, f in found.items() if isinstance(f, dict)} if isinstance(found, dict) else {}


def check_mode(column: str, mode: Any, source: str) -> None:
    """Raises InvalidArgumentError if `datasets` converts images to a mode of Pillow that a Loader does not decode. mode: from the column's feature. source: the
    data set in messages, as "table", of which the user can cast the column."""
    if mode not in (None, "RGB"):
        raise InvalidArgumentError(
            f"Loader: the column '{column}' has the feature Image(mode={mode!r}), and a Loader decodes images as RGB: "
            f"{source}.cast_column('{column}', datasets.Image()) gives RGB, and transforms convert it, as transforms.Grayscale() does to gray"
        )


def check_sound(column: str, channels: Any, stream: Any, mono: bool, source: str) -> None:
    """Raises InvalidArgumentError if a feature Audio demands other channels than stoker.Audio(mono=mono) gives, or another stream than the first. A Loader gives
    one channel, or those of each file, but does not convert to two, for example. source: as in check_mode."""
    rest = ""
    if stream not in (None, 0):
        said, why = f"stream_index={stream}", "a Loader decodes the first sound of a file"
    elif channels not in (None, 1):
        said, why = f"num_channels={channels}", "a Loader gives one channel (mono=True of stoker.Audio) or those of each file (mono=False)"
    elif channels == 1 and not mono:
        said, why, rest = "num_channels=1", "the field is stoker.Audio(mono=False)", ", or give stoker.Audio(mono=True)"
    else:
        return
    raise InvalidArgumentError(
        f"Loader: the column '{column}' has the feature Audio({said}), and {why}: {source}.cast_column('{column}', datasets.Audio()) removes that from the "
        f"feature{rest}"
    )


def reading_sounds(columns: Iterable[str], sound: str) -> str:
    """Returns the Loader's argument `fields` that reads the column `sound` as sounds, for messages. Leaves out columns with the name of a field that a sound
    adds. columns: the names of all columns that can be in a batch."""
    taken = ("rate", f"{sound}_lengths")
    named = [name for name in columns if is_name(name) and name not in taken]
    return "fields={" + ", ".join(f"'{name}': {'stoker.Audio()' if name == sound else None}" for name in named) + "}"


def other_classes(files: Iterable[tuple[str, Any]], columns: Collection[str]) -> str | None:
    """Returns a message about the first of these columns whose labels have other classes in one file than in another; None if there is no such column. Files
    without classes are left out. files: names and schemas."""
    known: dict[str, tuple[str, list[Any]]] = {}
    seen: set[bytes] = set()
    for name, schema in files:
        written = (schema.metadata or {}).get(b"huggingface")
        if written is None or written in seen:
            continue
        seen.add(written)
        features = features_of(schema)
        for path, classes in (found for column in columns for found in _classes(column, features.get(column))):
            first, wanted = known.setdefault(path, (name, classes))
            if classes != wanted:
                at = next((k for k, (a, b) in enumerate(zip(classes, wanted, strict=False)) if a != b), min(len(classes), len(wanted)))
                return (
                    f"{name}: the classes of the column '{path}' are, from number {at} on, {classes[at:]!r:.100}, and in {first} {wanted[at:]!r:.100}, so that "
                    "a label has two meanings"
                )
    return None


def _classes(column: str, feature: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yields the names of classes in a column's feature, also in lists and structs. Each comes with the path of its labels, such as "objects.category"."""
    rest = [(column, feature)]
    while rest:
        path, feature = rest.pop()
        if isinstance(feature, list):
            rest += [(path, inner) for inner in feature]
        elif isinstance(feature, dict):
            if feature.get("_type") == "ClassLabel":
                if isinstance(names := feature.get("names"), list):
                    yield path, names
            else:
                is_list = isinstance(feature.get("_type"), str)  # in a struct, "feature" is the name of a field
                rest += [(path if is_list and name == "feature" else f"{path}.{name}", inner) for name, inner in feature.items()]
