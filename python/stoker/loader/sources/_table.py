# SPDX-License-Identifier: Apache-2.0
"""Table: Parquet files as a data set of rows. Threads read row groups ahead, and the memory for row groups is limited."""

from __future__ import annotations

import copy
import functools
import json
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from stoker import _numbers
from stoker._arrays import bytes_of
from stoker._files import without_query, without_signature
from stoker._storage import Storage, common
from stoker._where import notice
from stoker.errors import CorruptError, InvalidArgumentError, LimitError, StateError, StokerError
from stoker.loader import _fields
from stoker.loader._kinds import BOXES, MASK, PICTURES, POINTS, Kind
from stoker.loader._kinds import IMAGE as PICTURE
from stoker.loader.sources._fetch import Threads, unfinished
from stoker.loader.sources._samples import AsDatasets
from stoker.loader.sources._table_columns import (
    ARRAY,
    BYTES,
    IMAGE,
    OBJECT,
    TEXT,
    Column,
    InnerNullError,
    NullError,
    column_of,
    decoded_bytes,
    fill_of,
    has_empty_lists,
    looks_like_images,
    may_hold_files,
    takes_empty_lists,
    values_of,
)
from stoker.loader.sources._table_features import check_mode, features_of, other_classes, reading_sounds
from stoker.loader.sources._table_files import TableFile, find, is_remote, read_footers, read_group, span_of
from stoker.loader.sources._table_folders import NO_VALUE, partition_of

if TYPE_CHECKING:
    from concurrent.futures import Future

MEMORY = 256 << 20  # default limit, in bytes, for the row groups that are kept in memory
_MOST_COLUMNS = 900  # the most columns of a batch; the library limits the number of tensors of a sample, some of which are not columns
_WINDOW_SHARE = 3  # shuffle="groups" has up to three windows of groups in memory: the previous, the current and the next one
_READ_SHARE = 8  # local groups larger than `memory` / _READ_SHARE are read one at a time, because a read needs twice a group's bytes


# For each kind of fields that follow the image: what a row holds, for messages, and the kinds of columns that can hold it.
_HELD = {
    BOXES: ("BoundingBoxes are lists of 4 numbers", (ARRAY,)),
    POINTS: ("KeyPoints are lists of 2 numbers", (ARRAY,)),
    MASK: ("a Mask is the bytes or the path of a file, or lists of whole numbers", (IMAGE, ARRAY)),
    **{k: (f"{k} is the bytes or the path of a file, or lists of numbers", (IMAGE, BYTES, TEXT, ARRAY)) for k in PICTURES},
}
_NUMBERS = {BOXES: 4, POINTS: 2}  # numbers of each row of the fields of these kinds


class Row(dict[str, Any]):
    """A row as a dict from columns to values. where: its file, row group and row, for error messages."""

    __slots__ = ("where",)

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        super().__init__(values)
        self.where = where


class Group:
    """A row group in memory. rows: number of rows. values: dict from columns to functions from a row to its value. bytes: size in memory."""

    def __init__(self, table: Any, columns: Sequence[Column]) -> None:
        self.rows, self.bytes = table.num_rows, 0
        self.values: dict[str, Callable[[int], Any]] = {}
        for c in columns:
            try:
                values = values_of(c, table.column(c.name))
            except MemoryError:
                raise
            except Exception as e:
                e.add_note(f"in column {c.name}")
                raise CorruptError(f"column {c.name}: {e}") from e
            self.values[c.name] = values.at
            self.bytes += values.bytes


class Table:
    """The rows of Parquet files, in the order of files and rows.

    names, kinds: the fields that the user named, and their kinds. image: the name of the column of images; None: the column is found by type or name. nulls:
    dict from columns to the values that stand for nulls. memory: limit in bytes for row groups in memory. sound: the user's name of the column of sounds, if
    rows have sounds instead of images; None: rows have images. main: the user's name of the field of images or sounds, which `names` and `kinds` may call
    "image". padded: whether the user names a field that padding adds to images, such as `size`; then the images are read even if `names` lacks them.

    plain: whether rows are read without an image or a sound; `image` is then the first column.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        storage: Storage | None = None,
        names: tuple[str, ...] | None = None,
        kinds: Mapping[str, Kind] | None = None,
        image: str | None = None,
        nulls: Mapping[str, Any] | None = None,
        memory: int = MEMORY,
        sound: str | None = None,
        main: str = "image",
        padded: bool = False,
    ) -> None:
        self.storage, self.memory, self.sound, self._main, self._padded = storage or common(), memory, sound, main, padded
        self.limit = _numbers.SAMPLE_MEMORY  # the most bytes that a row may take; a Loader sets this to its memory_limit
        files = read_footers(find(patterns, self.storage), self.storage)
        self.files = [f for f in files if f.footer.num_rows]
        if not self.files:
            raise InvalidArgumentError(f"Loader: {patterns[0]}: the table has no rows")
        self.partitions = partitions_of(self.files)
        self._settle_columns(names, kinds or {}, image)
        self.nulls = self._fills(nulls or {})
        self.groups = [(f, g) for f in self.files for g in range(f.footer.num_row_groups) if f.footer.row_group(g).num_rows]
        self.rows = [f.footer.row_group(g).num_rows for f, g in self.groups]  # number of rows of each group
        self.starts = [0]  # for each group, the number of rows before it; the last entry is the number of all rows
        for n in self.rows:
            self.starts.append(self.starts[-1] + n)
        self._bytes: dict[int, int] = {}  # results of group_bytes, by group number
        self._kept: dict[int, Future[Group]] = {}  # by group number: groups in memory, being read, or waiting to be read
        self._failed: dict[int, Future[Group]] = {}  # by group number: reads that failed, with their errors
        self._sizes: OrderedDict[int, int] = OrderedDict()  # bytes of each group in memory, the least recently used one first
        self._kept_bytes = 0  # sum of _sizes
        self._busy = 0  # sum of _reading_bytes of the groups that are being read, or wait for a thread
        self._pinned: frozenset[int] = frozenset()  # groups of the last call of pin(), which are not dropped
        self._needed: frozenset[int] = frozenset()  # the groups of the last call of want()
        self._ahead: OrderedDict[int, None] = OrderedDict()  # groups to read as soon as there is memory for them, in this order
        self._lock = threading.Lock()
        self._large_reads = threading.Lock()  # held while a large group is read
        self._threads: Threads | None = None
        self._closed = False
        self._opening = 0  # number of calls of close(): a read that began before the last call is not counted

    # ---- columns ----

    def _settle_columns(self, names: tuple[str, ...] | None, kinds: Mapping[str, Kind], image: str | None) -> None:
        schema = self._with_types(with_partitions(self.files[0].schema, self.partitions), kinds)
        self.features = features_of(schema)
        self.names = frozenset(schema.names)  # of all columns, also of those that are not read
        found = self._image_column(schema, names, kinds, image)
        self.plain = found is None
        self.image = found if found is not None else self._first_column(schema, names)
        if self.sound is not None and (
            (column := column_of(self.image, schema.field(self.image).type, True)) is None or column.kind != IMAGE
        ):
            raise InvalidArgumentError(
                f"fields: the column '{self.image}' holds {schema.field(self.image).type}: a column of sounds holds the bytes of their files, paths, "
                "or the struct "
                "of both that `datasets` writes"
            )
        masks = {name for name, kind in kinds.items() if kind.name == MASK}
        # If folder names give a column one value in all files, the column comes from a common parent folder. It is read only if the user names it.
        alike = {n for n, values in self.partitions.items() if len(set(values.values())) == 1}
        shown = [n for n in names or () if n != "image"]  # this name stands for the column of images or sounds
        wanted = [n for n in schema.names if n == self.image or n in shown or (names is None and n not in alike)]
        for name in names or ():
            if name not in schema.names and name not in ("image", *_fields.OF_DATASETS):
                other = next((f for f in self.files if name in f.schema.names), None)
                if other is not None:
                    raise InvalidArgumentError(_lacking(self.files[0], name, other))
                raise InvalidArgumentError(f"fields: the table has no column '{name}'; it has {', '.join(schema.names)}")
        self.columns: list[Column] = []
        left_out: list[str] = []
        unnamed: list[str] = []
        for name in wanted:
            is_image = (name == self.image and not self.plain) or name in masks or looks_like_images(schema.field(name).type)
            column = column_of(name, schema.field(name).type, is_image)
            if column is not None and (names is not None or name == self.image or (_fields.is_name(name) and name != "image")):
                self.columns.append(column)
            elif names is None:
                (left_out if column is None else unnamed).append(name)
            else:
                raise InvalidArgumentError(
                    f"fields: the column '{name}' holds {schema.field(name).type}, which has no form in a batch: convert it when the table is written, "
                    "or leave "
                    "it out of fields"
                )
        if len(self.columns) > _MOST_COLUMNS:
            raise InvalidArgumentError(
                f"Loader: {self.files[0].shown} has {len(self.columns)} columns that batches could hold, and they hold at most {_MOST_COLUMNS}: fields= "
                "names those "
                "that you want"
            )
        if left_out:
            notice(
                f"{self.files[0].short}: columns without a form in batches are left out: {', '.join(left_out)}; fields= names those that you want"
            )
        if "image" in unnamed:
            unnamed.remove("image")
            type = schema.field("image").type
            both = f"fields={{'{self.image}': 'Image', 'image': 'Image'}}{'' if image is None else ' without image='} gives both"
            notice(
                f"{self.files[0].short}: the column 'image' is left out, because batches have the column '{self.image}' under this name: "
                + (both if may_hold_files(type) or looks_like_images(type) else "rename it when the table is written")
            )
        if unnamed:
            notice(
                f"{self.files[0].short}: columns are left out whose names cannot be attributes of a batch: {', '.join(unnamed)}: rename those that you "
                "want when the table is written"
            )
        known = set(schema.names)
        for f in self.files[1:]:
            self._check_schema(f)
            if names is None and not known.issuperset(f.roots):  # not schema.names, which pyarrow makes again for each call
                self._check_further(f, known)
        self._refuse_files(kinds)
        self._check_kinds(kinds)
        self._check_classes()
        self._check_folders()
        self._settle_modes(kinds)

    def _with_types(self, schema: Any, kinds: Mapping[str, Kind]) -> Any:
        """Returns the first file's schema, in which columns of empty lists have their type in the first file that has other lists. If all files have only empty
        lists, boxes and points get their type by their kind."""
        import pyarrow as pa

        for at, field in enumerate(schema):
            if has_empty_lists(field.type):
                types = [f.schema.field(field.name).type for f in self.files if field.name in f.roots]
                numbers = _NUMBERS.get(kinds.get(field.name, Kind()).name)
                known = field.type if numbers is None else pa.list_(pa.list_(pa.float32(), numbers))
                schema = schema.set(at, field.with_type(next((t for t in types if takes_empty_lists(t) and not has_empty_lists(t)), known)))
        return schema

    def _refuse_files(self, kinds: Mapping[str, Kind]) -> None:
        """Raises InvalidArgumentError for a column of images or sounds that is read next to the image, or without one, and for which the user gave no kind:
        batches would hold the bytes or the paths of its files. Next to a sound, the user gave the kind None for each column."""
        for column in self.columns if self.sound is None else ():
            feature = self.features.get(column.name, {}).get("_type")
            if column.name in kinds or (column.name == self.image and not self.plain):
                continue
            if feature == "Audio":
                raise InvalidArgumentError(
                    f"Loader: {self.files[0].shown} has a column of sounds, '{column.name}': fields={{'{column.name}': stoker.Audio(), ...}} decodes it, the kind "
                    "None gives the bytes of its files, and without its name in fields it is not read"
                )
            if feature == "Image" or looks_like_images(column.type):
                images = ", ".join(dict.fromkeys((self.image, column.name)))
                raise InvalidArgumentError(
                    f"Loader: {self.files[0].shown} has columns of images: {images}: name the one that you want, and what masks there are, as "
                    "fields={'image': 'Image', 'mask': 'Mask'}; the kind None gives the bytes of files"
                )

    def _check_kinds(self, kinds: Mapping[str, Kind]) -> None:
        """Raises InvalidArgumentError for a column that cannot hold what its kind says. Texts and Python objects would not follow the image."""
        for column in self.columns:
            kind = kinds.get(column.name, Kind()).name
            if column.name == self.image and not self.plain:
                if self.sound is not None:
                    continue
                kind = next((k for k in (kind, kinds.get("image", Kind()).name) if k in PICTURES), PICTURE)
            held, forms = _HELD.get(kind, ("", (column.kind,)))
            if column.kind not in forms:
                raise InvalidArgumentError(
                    f"fields: the column '{column.name}' holds {column.type}, and {held}: write these as a column of their own, or give the kind None to a "
                    "column that does not follow the image"
                )

    def _settle_modes(self, kinds: Mapping[str, Kind]) -> None:
        """Finds the masks that `datasets` reads as images, and the modes of Pillow to which it converts them. Raises InvalidArgumentError for an image that
        `datasets` converts to another mode than RGB, and for a mask with several modes."""
        self.modes: dict[str, str | None] = {}
        has_modes = any(b'"mode"' in written for written in self._schemas)
        for column in self.columns:
            kind = kinds.get(column.name, Kind()).name
            if kind == MASK and (has_modes or self.turned):
                found = self._modes_of(column.name)
                other = next((name for name, mode in found if mode != found[0][1]), None)
                if other is not None:
                    raise InvalidArgumentError(
                        f"{other}: the masks of the column '{column.name}' have another mode of Pillow than those of {found[0][0]}: give the two kinds of files "
                        "to Loaders of their own"
                    )
                if found:
                    self.modes[column.name] = str(found[0][1]) if found[0][1] else None
            elif has_modes and (kind in PICTURES or (column.name == self.image and not self.plain and self.sound is None)):
                for name, mode in self._modes_of(column.name):
                    check_mode(column.name, mode, loaded(name))

    def _modes_of(self, column: str) -> list[tuple[str, Any]]:
        """Returns the modes in the features Image of a column, each with the name of the first file that has the feature."""
        return [(name, f.get("mode")) for name, f in self.features_in_files(column) if f.get("_type") == "Image"]

    def features_in_files(self, column: str) -> list[tuple[str, dict[str, Any]]]:
        """Returns the features of a column that `datasets` wrote, each with the name of the first file that has them; {} for files without features."""
        return [(f.shown, features_of(f.schema).get(column, {})) for f in self._schemas.values()]

    @functools.cached_property
    def _schemas(self) -> dict[bytes, TableFile]:
        """A dict from the texts that `datasets` wrote into schemas to the first file with each. It is made once, since pyarrow copies a schema's metadata."""
        first: dict[bytes, TableFile] = {}
        for f in self.files:
            first.setdefault(_written(f), f)
        return first

    def _check_folders(self) -> None:
        """Raises InvalidArgumentError if a column in a file has other values than the name of the file's folder says. Only the statistics in the footers are
        compared. A value that all folders share is not compared, because it may come from an unrelated folder above the table."""
        parts = [partition_of(f.name) for f in self.files]
        for column in self.columns:
            texts = [p.get(column.name) for p in parts]
            if column.name in self.partitions or None in texts or len(set(texts)) == 1:
                continue
            for file, text in zip(self.files, texts, strict=True):
                bad = next((v for chunk in chunks_of(file, column.name) if (v := other_value(chunk, str(text))) is not None), None)
                if bad is not None:
                    raise InvalidArgumentError(
                        f"{file.shown}: its folder says {column.name}={text}, and its own column '{column.name}' holds {bad!r}: rename the folders, write the "
                        "files again without the column, as partitions are written, or leave it out of fields"
                    )

    def _check_schema(self, file: TableFile) -> None:
        """Raises InvalidArgumentError if the file lacks a column or has it with another type than the first file. Values are never converted silently."""
        for column in self.columns:
            if column.name in self.partitions:
                continue
            at = file.schema.get_field_index(column.name)
            if at < 0:
                raise InvalidArgumentError(_lacking(file, column.name, self.files[0]))
            found = file.schema.field(at).type
            if found != column.type and not (has_empty_lists(found) and takes_empty_lists(column.type)):
                first = next(
                    (f for f in self.files if column.name in f.roots and f.schema.field(column.name).type == column.type), self.files[0]
                )
                raise InvalidArgumentError(
                    f"{file.shown}: the column '{column.name}' holds {found}, and in {first.shown} {column.type}: write the file again with that type, or give "
                    "the two kinds of files to Loaders of their own"
                )

    def _check_further(self, file: TableFile, known: Collection[str]) -> None:
        """Raises InvalidArgumentError if batches could hold a column of the file that is not in `known`, the columns of the first file."""
        for column in file.schema:
            form = column_of(column.name, column.type, looks_like_images(column.type)) if column.name not in known else None
            if form is not None and _fields.is_name(column.name):
                raise InvalidArgumentError(
                    f"{file.shown}: it has a column '{column.name}', which {self.files[0].shown} lacks: name the columns that all files have in fields=, or "
                    "write the files again with the same columns"
                )

    def _check_classes(self) -> None:
        """Raises InvalidArgumentError if a label stands for other classes in one file than in another."""
        differs = other_classes(((f.shown, f.schema) for f in self.files), [c.name for c in self.columns])
        if differs is not None:
            raise InvalidArgumentError(
                f"{differs}: write the files again with the same classes in one order, give the two kinds of files to Loaders of their own, or leave the "
                "column out of fields"
            )

    def check_fields(self, names: Collection[str], kinds: Collection[str], ragged: Collection[str]) -> None:
        """Raises InvalidArgumentError if the user's names of fields include the column of images, but neither the name that it has in batches nor a kind for
        it, and if a column of Python objects shall be ragged. kinds: the fields whose kinds the user gave."""
        for column in self.columns:
            if column.kind == OBJECT and (column.name in ragged or (self.plain and column.name == self.image and "image" in ragged)):
                raise InvalidArgumentError(
                    f"ragged: the column '{column.name}' holds {column.type}, and a RaggedBatch holds numbers: leave it out of ragged"
                    + (", or write it with its type, as pa.list_(pa.int64())" if has_empty_lists(column.type) else "")
                )
        if not self.plain and self.sound is None and self.image != "image" and self.image in names and self.image not in kinds:
            raise InvalidArgumentError(
                f"fields: the column '{self.image}' is read as the image, which batches call `image`: name it so, as fields=('image', ...), or keep its "
                f"name, as fields={{'{self.image}': 'Image', ...}}; fields={{'{self.image}': None, ...}} gives its bytes"
            )

    def _first_column(self, schema: Any, names: tuple[str, ...] | None) -> str:
        """Returns the column for the first output of a table without images. In other tables, that output is the image. Raises InvalidArgumentError if no
        column can be in a batch."""
        if names is not None:
            present = [n for n in names if n in schema.names]
            if not present:
                missing = f"the table has no column '{names[0]}'" if names else "they name no column of the table"
                more = "; pad adds size and padding_mask to images only" if self._padded else ""
                raise InvalidArgumentError(f"fields: {missing}; it has {', '.join(schema.names)}{more}")
            return present[0]
        present = [n for n in schema.names if _has_form(schema, n)]
        if not present:
            types = ", ".join(f"{f.name}: {f.type}" for f in schema)
            raise InvalidArgumentError(
                f"Loader: {self.files[0].shown} has no column that has a form in a batch ({types}): rename or convert columns when the table "
                "is written"
            )
        return "image" if "image" in present else present[0]

    def _image_column(self, schema: Any, names: tuple[str, ...] | None, kinds: Mapping[str, Kind], given: str | None) -> str | None:
        """Returns the column of images or sounds; None if the user wants none, or if a table has no images. given: the column that the user named, or None.
        Raises InvalidArgumentError if several columns may be meant, or if there is no column of sounds."""
        if given is not None:
            if given not in schema.names:
                raise InvalidArgumentError(f"image: the table has no column '{given}'; it has {', '.join(schema.names)}")
            if self._main != "image" and self._main != given and self._main in schema.names:
                raise InvalidArgumentError(
                    f"image='{given}' contradicts fields, by which the column '{self._main}' has the {'images' if self.sound is None else 'sounds'}: leave image= "
                    "out, or name the same column in both"
                )
            return given
        if self.sound is not None and self.sound in schema.names:
            return self.sound
        found = _may_be_decoded(schema, self.features, "Image" if self.sound is None else "Audio")
        found = [n for n in found if kinds.get(n, Kind()).name != MASK]
        if self.sound is None and self._main != "image" and self._main in found:
            return self._main
        sound = next((n for n in schema.names if self.features.get(n, {}).get("_type") == "Audio"), None)
        if self.sound is None and self._wants_none(found, names, kinds) and (names is not None or sound is None):
            return None
        if len(found) > 1 and names is not None:
            found = [n for n in found if n in names] or found
        if "image" in found or ("image" in schema.names and "image" in (names or ())):
            return "image"
        if len(found) == 1:
            return found[0]
        if sound is not None and self.sound is None and not found:
            fields = reading_sounds([n for n in schema.names if _has_form(schema, n)], sound)
            raise InvalidArgumentError(
                f"Loader: {self.files[0].shown} has no column of images, and sounds in the column '{sound}': {fields} reads them"
            )
        columns = ", ".join(found) if found else ", ".join(schema.names)
        paths = "" if found or self.sound is not None else "; if it holds strings, they are paths of files"
        raise InvalidArgumentError(
            f"Loader: {self.files[0].shown} has {'several columns' if found else 'no column'} of {'images' if self.sound is None else 'sounds'} ({columns}): "
            f"Loader.from_parquet(table, ..., image=COLUMN) says which one{paths}"
        )

    def _wants_none(self, found: Sequence[str], names: tuple[str, ...] | None, kinds: Mapping[str, Kind]) -> bool:
        """Returns whether the user wants rows without an image. found: the columns that may have images."""
        if any(kind.follows for kind in kinds.values()) or "image" in (names or ()):
            return False
        if not found or names is None:
            return not found
        named = [n for n in found if n in names]
        return all(n in kinds for n in named) and (bool(named) or not self._padded)

    def _fills(self, nulls: Mapping[str, Any]) -> dict[str, Any]:
        columns = {c.name: c for c in self.columns}
        for name in nulls:
            if name not in columns or (name == self.image and not self.plain):
                raise InvalidArgumentError(
                    f"nulls: there is no column '{name}' in this Loader that can be filled; it reads {', '.join(columns)}"
                )
        return {name: fill_of(name, nulls, columns[name]) for name in nulls}

    @property
    def turned(self) -> bool:
        """Returns whether `datasets` wrote the column of images. That library applies the EXIF orientation when it decodes, so the Loader does too."""
        return self.features.get(self.image, {}).get("_type") == "Image"

    @property
    def rate(self) -> Any:
        """Returns the rate in Hz that `datasets` gives the sounds of this table; None if the table's metadata has no rate. Raises
        InvalidArgumentError if the files have different rates."""
        rates: dict[str, str] = {}
        for name, feature in self.features_in_files(self.image):
            if feature.get("_type") == "Audio":
                rates.setdefault(str(feature.get("sampling_rate")), name)
        if len(rates) > 1:
            (rate, first), (other, file) = list(rates.items())[:2]
            raise InvalidArgumentError(
                f"{file}: the sounds of the column '{self.image}' have the rate {other} in Hz, and in {first} {rate}: fields={{...: Audio(rate=...)}} names "
                "one for all files"
            )
        return self.features.get(self.image, {}).get("sampling_rate")

    @property
    def classes(self) -> list[str]:
        """Returns the class names of the ClassLabel column that is read; [] if there is not exactly one such column."""
        labels = [f for n, f in self.features.items() if f.get("_type") == "ClassLabel" and any(c.name == n for c in self.columns)]
        return [str(n) for n in labels[0].get("names") or ()] if len(labels) == 1 else []

    @property
    def objects(self) -> set[str]:
        """Returns the names of the columns whose values pass through the pipeline as JSON texts."""
        return {c.name for c in self.columns if c.kind == "object"}

    @property
    def lists(self) -> set[str]:
        """Returns the names of the columns whose values are lists of numbers."""
        return {c.name for c in self.columns if c.kind == ARRAY}

    # ---- sizes ----

    def group_bytes(self, group: int) -> int:
        """Returns about how many bytes a group's decoded columns take, from the file's footer. Counts only columns that are read."""
        found = self._bytes.get(group)
        if found is None:
            found = self._bytes[group] = self._group_bytes(group)
        return found

    def _group_bytes(self, group: int) -> int:
        (file, number), columns = self.groups[group], {c.name: c for c in self.columns}
        footer = file.footer.row_group(number)
        return sum(decoded_bytes(columns[name], footer.column(i)) for i, name in enumerate(file.roots) if name in columns)

    def _is_too_large(self, group: int) -> bool:
        """Returns whether a group's mean row is over the limit, so that at least one row is. Rows of a group are read together, so such a group is not read,
        and all its rows are refused."""
        return self.group_bytes(group) > self.limit * self.rows[group]

    def window(self) -> int:
        """Returns how many groups shuffle="groups" mixes with each other: as many as fit into a third of `memory`, but at least 2."""
        mean = max(1, sum(map(self.group_bytes, range(len(self.groups)))) // len(self.groups))
        return max(2, self.memory // _WINDOW_SHARE // mean)

    def bytes(self) -> int:
        return sum(map(self.group_bytes, range(len(self.groups))))

    def digest(self, old: bool = False) -> str:
        """Returns a digest of the files' names, without folders, and of the numbers of rows of all groups, for saved states. old: whether signatures of URLs
        count, as in states of earlier versions."""
        import hashlib

        short = {f.name: f.name.rpartition("/")[2] if old else _short(without_signature(f.name)) for f in self.files}
        facts = [(short[f.name], n) for (f, _), n in zip(self.groups, self.rows, strict=True)]
        return hashlib.blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()

    # ---- rows ----

    def __len__(self) -> int:
        return self.starts[-1]

    def group_of(self, row: int) -> int:
        return bisect_right(self.starts, row) - 1

    def where(self, row: int) -> str:
        group = self.group_of(row)
        file, number = self.groups[group]
        return f"{file.shown}[row group {number}, row {row - self.starts[group]}]"

    def want(self, groups: Iterable[int], ahead: Iterable[int] = ()) -> None:
        """Starts to read those groups that are not in memory, in this order, and marks the others as recently used. Reads a group again if its last read failed,
        unless its data are damaged. ahead: groups that are needed later. Such a group is read when it fits into `memory` after groups that are not pinned were
        dropped, or when memory holds only groups of this call. Ignores groups that are too large, and later groups whose last read
        failed."""
        needed = [g for g in groups if not self._is_too_large(g)]
        for group in needed:
            self._forget_failure(group)
            self._future(group)
        with self._lock:
            self._needed = frozenset(needed)
            ahead = (g for g in ahead if g not in self._kept and g not in self._failed and not self._is_too_large(g))
            self._ahead.update(dict.fromkeys(ahead))
        self._read_ahead()

    def _forget_failure(self, group: int) -> None:
        """Lets the next _future() read a group again if its last read failed, for example because the store could not be reached for a while. Damaged data stay
        damaged, so they are not read again."""
        with self._lock:
            failed = self._failed.get(group)
            if failed is not None and failed.done() and not isinstance(failed.exception(), CorruptError):
                del self._failed[group]

    def pin(self, groups: frozenset[int]) -> None:
        """Keeps these groups, instead of those of the last call, in memory even if they take more than `memory`. A group that is dropped too early would have
        to be read again."""
        with self._lock:
            self._pinned = groups

    def _read_ahead(self) -> None:
        """Starts to read the next groups of `_ahead`, under the conditions that want() describes."""
        while True:
            with self._lock:
                group = next(iter(self._ahead), None)
                if group is None or self._closed:
                    return
                rest = self._busy + self._reading_bytes(group)
                self._drop(self.memory - rest, group)
                if self._kept_bytes + rest > self.memory and any(g not in self._needed for g in self._kept):
                    return
            self._future(group)

    def _reading_bytes(self, group: int) -> int:
        """Returns the most bytes that are needed while a group is read: for the decoded group, and for its pages before they are decoded."""
        return 2 * self.group_bytes(group)

    def _future(self, group: int) -> Future[Group]:
        """Returns the future of a group in memory, and starts to read the group if needed. If its last read failed, returns the future with the error: the rows
        of a batch whose read failed are asked for one by one, and must not each repeat the read."""
        with self._lock:
            if self._closed:  # a thread of the Loader may still call this after close(), and must not start threads again
                raise StateError("the Loader was closed")
            self._ahead.pop(group, None)
            found = self._kept.get(group) or self._failed.get(group)
            if found is None:
                if self._threads is None:
                    self._threads = Threads(8 if any(is_remote(f.name) for f in self.files) else 2)
                self._busy += self._reading_bytes(group)
                found = self._kept[group] = self._threads.submit(self._read, group, self._opening)
            elif group in self._sizes:
                self._sizes.move_to_end(group)
            return found

    def _read(self, group: int, opening: int) -> Group:
        """Reads a group, and starts further reads for which there is memory now. opening: the value of `_opening` when this read was requested."""
        try:
            made = self._made(group)
        except BaseException:
            self._end_read(group, opening, None)
            raise
        self._end_read(group, opening, made.bytes)
        self._read_ahead()
        return made

    def _made(self, group: int) -> Group:
        file, number = self.groups[group]
        large = _READ_SHARE * self.group_bytes(group) > self.memory and not is_remote(file.name)
        try:
            inside = [c for c in self.columns if c.name not in self.partitions]
            with self._large_reads if large else nullcontext():
                encoded = {c.name for c in inside if c.kind in (IMAGE, BYTES, TEXT)}
                made = Group(read_group(file, number, [c.name for c in inside], self.storage, encoded), inside)
            for name, values in self.partitions.items():
                made.values[name] = functools.partial(_constant, values[file.name])
        except CorruptError as e:
            if file.shown in str(e):
                raise
            raise CorruptError(f"{file.shown}: row group {number}: {e}") from e
        return made

    def _end_read(self, group: int, opening: int, size: int | None) -> None:
        """Counts a group that was read, and drops the least recently used groups until the rest fit into `memory`. Never drops this group or pinned ones. size:
        the group's bytes in memory; None: the read failed."""
        with self._lock:
            if opening != self._opening:  # the table was closed meanwhile
                return
            self._busy -= self._reading_bytes(group)
            if size is None:
                self._failed[group] = self._kept.pop(group)
                return
            self._sizes[group] = size
            self._kept_bytes += size
            self._drop(self.memory, group)

    def _drop(self, most: int, but: int) -> None:
        """Drops the least recently used groups until the rest take at most `most` bytes. Never drops pinned groups or group `but`. Call with the lock held."""
        if self._kept_bytes <= most:
            return
        for old in [g for g in self._sizes if g != but and g not in self._pinned]:
            if self._kept_bytes <= most:
                break
            self._kept_bytes -= self._sizes.pop(old)
            del self._kept[old]

    def many(self, ids: Sequence[int]) -> list[Row]:
        """Returns the rows with these numbers; the numbering runs through all files. Raises LimitError for a row of a group that is too large."""
        at = [self.group_of(i) for i in ids]
        for g in dict.fromkeys(at):
            if self._is_too_large(g):
                what = f"its row group has {self.rows[g]} rows that take" if self.rows[g] > 1 else "it takes"
                raise self._too_large(ids[at.index(g)], what, self.group_bytes(g))
        groups = {g: self._future(g) for g in dict.fromkeys(at)}
        try:
            unfinished(list(groups.values()))
            return [self._row(_read(groups[g]), g, i) for g, i in zip(at, ids, strict=True)]
        finally:
            groups.clear()  # otherwise the traceback of an exception would keep the groups in memory

    def __getitem__(self, i: int) -> Row:
        return self.many([i])[0]

    def _row(self, group: Group, number: int, i: int) -> Row:
        values = {}
        for column in self.columns:
            try:
                value = group.values[column.name](i - self.starts[number])
                value = self.nulls.get(column.name) if value is None else value
                if value is None:
                    raise NullError("it is null")
            except (ValueError, OverflowError) as e:
                raise ValueError(f"{self.where(i)}, column '{column.name}': {e}{self._advice(column, e)}") from e
            values[column.name] = value
        if group.bytes > self.limit:
            taken = sum(map(bytes_of, values.values()))
            if taken > self.limit:
                raise self._too_large(i, "it takes", taken)
        for name, mode in self.modes.items():
            if isinstance(values[name], (str, bytes, bytearray, memoryview)):  # `nulls` may give an array
                values[name] = AsDatasets(values[name], mode, self.turned)
        where = self.where(i) if self.sound is None and self.image == "image" else f"{self.where(i)[:-1]}, column '{self.image}']"
        return Row({"image": values.pop(self.image), **values}, where)

    def _too_large(self, row: int, what: str, size: int) -> LimitError:
        return LimitError(
            f'{self.where(row)}: {what} {size} bytes, over memory_limit, {self.limit} bytes a row; raise that, or leave such rows out (on_error="skip")'
        )

    def _advice(self, column: Column, e: Exception) -> str:
        if isinstance(e, OverflowError):
            return " (on_error='skip' leaves such rows out, and without the column in fields=(...) they are read)"
        if not isinstance(e, NullError):
            return ""
        fill = (
            ""
            if column.kind == IMAGE or isinstance(e, InnerNullError)
            else f", nulls={{'{column.name}': VALUE}} of Loader.from_parquet fills such rows in"
        )
        return f" (on_error='skip' leaves such rows out{fill})"

    def open(self) -> None:
        """Allows reading again after close(), and empties the list of groups to read ahead."""
        with self._lock:
            self._closed = False
            self._ahead.clear()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._opening += 1
            threads, self._threads = self._threads, None
            self._kept.clear()
            self._failed.clear()
            self._sizes.clear()
            self._ahead.clear()
            self._kept_bytes = self._busy = 0
        if threads is not None:
            threads.close()

    def __repr__(self) -> str:
        first = self.files[0].shown
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"


def _read(group: Future[Group]) -> Group:
    """Returns a group that was read. If its read failed, raises a copy of the error: the table keeps the error, and each raise would add a traceback, and each
    row a note."""
    e = group.exception()
    if isinstance(e, StokerError):
        raise copy.copy(e) from e.__cause__
    return group.result()


def _short(name: str) -> str:
    """Returns a file's name without its folder. The query of a URL, which may hold slashes, stays."""
    return name[without_query(name).rfind("/") + 1 :]


def _written(file: TableFile) -> bytes:
    """Returns the JSON text that `datasets` wrote into the file's schema; b"" without one."""
    return (file.schema.metadata or {}).get(b"huggingface", b"")


def _lacking(file: TableFile, column: str, other: TableFile) -> str:
    return f"{file.shown}: it has no column '{column}', which {other.shown} has: write the file again with it, or leave it out of fields"


def loaded(name: str) -> str:
    """Returns an expression for messages that opens a file of a table with `datasets`."""
    return f"datasets.Dataset.from_parquet({name!r})"


def _constant(value: Any, row: int) -> Any:
    return value


def partitions_of(files: Sequence[TableFile]) -> dict[str, dict[str, Any]]:
    """Returns the columns that folder names define: a dict from columns to dicts from files to values. The values of a column are whole numbers if all texts
    can be read as such (zeros in front are allowed, as in pyarrow), else strings. Hive's null becomes None. Leaves out columns that some files' names lack, or
    that one of the files has itself."""
    parts = [partition_of(f.name) for f in files]
    found: dict[str, dict[str, Any]] = {}
    for key in parts[0]:
        if not all(key in s for s in parts) or any(f.schema.get_field_index(key) >= 0 for f in files):
            continue
        texts = {f.name: None if s[key] == NO_VALUE else s[key] for f, s in zip(files, parts, strict=True)}
        whole = all(t is None or (t.isascii() and t.removeprefix("-").isdecimal() and len(t) < 19) for t in texts.values())
        found[key] = {name: int(t) if whole and t is not None else t for name, t in texts.items()}
    return found


def chunks_of(file: TableFile, column: str) -> list[Any]:
    """Returns pyarrow's metadata of a column's chunks in all row groups; [] if the column is nested."""
    found = [c for g in range(file.footer.num_row_groups) for c in file.chunks(g, {column})]
    return found if all(c.path_in_schema == column for c in found) else []


def other_value(chunk: Any, text: str) -> Any:
    """Returns a value of the column chunk, a whole number or a string, that is certainly not `text`; None if its statistics show no such value."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        return None
    low, high = statistics.min, statistics.max
    if isinstance(low, str):  # long strings are cut, so that these are only bounds
        return low if low > text else high if high < text else None
    if not isinstance(low, int) or isinstance(low, bool):
        return None
    value = int(text) if text.isascii() and text.removeprefix("-").isdecimal() else None
    return low if low != value else high if high != value else None


def with_partitions(schema: Any, partitions: Mapping[str, Mapping[str, Any]]) -> Any:
    """Returns the schema plus the columns that folder names define. partitions: the result of partitions_of."""
    import pyarrow as pa

    for name, values in partitions.items():
        schema = schema.append(pa.field(name, pa.int64() if any(isinstance(v, int) for v in values.values()) else pa.string()))
    return schema


def _may_be_decoded(schema: Any, features: Mapping[str, Any], what: str) -> list[str]:
    """Returns the columns that may hold images or sounds: those of that type, or without such a column, those of the bytes of files. what: "Image" or
    "Audio", as in the features that `datasets` writes."""
    types = {n: features.get(n, {}).get("_type") for n in schema.names}
    other = "Audio" if what == "Image" else "Image"
    typed = [n for n in schema.names if types[n] == what or (types[n] != other and looks_like_images(schema.field(n).type))]
    return typed or [n for n in schema.names if may_hold_files(schema.field(n).type)]


def _has_form(schema: Any, name: str) -> bool:
    """Returns whether batches can hold the column without a kind for it."""
    type = schema.field(name).type
    return _fields.is_name(name) and column_of(name, type, looks_like_images(type)) is not None


def _forms(schema: Any, features: Mapping[str, Any]) -> dict[str, tuple[str, bool]]:
    """Returns the form of each column in a batch, and whether its values are decoded only if `fields` names it as an image or a sound. The form is that of
    images or sounds if the column can only be one of these, otherwise that without `fields`."""
    found = _may_be_decoded(schema, features, "Image")
    decoded = "image" if "image" in found else found[0] if len(found) == 1 else None
    kinds = {n: features.get(n, {}).get("_type") for n in schema.names}
    typed = {n for n in schema.names if kinds[n] in ("Image", "Audio") or looks_like_images(schema.field(n).type)}
    if typed - {decoded}:  # a Loader without fields refuses these columns
        decoded = None
    forms = {}
    for name in schema.names:
        type = schema.field(name).type
        column = column_of(name, type, name in typed or name == decoded)
        form = "nothing" if column is None else "sound" if column.kind == IMAGE and kinds[name] == "Audio" else column.kind
        forms[name] = form, name != decoded and (form in (IMAGE, "sound") or (form == BYTES and may_hold_files(type)))
    return forms


def inspect(patterns: Sequence[str], storage: Storage | None = None) -> dict[str, Any]:
    """Returns facts about a table for `stoker inspect`. Sizes are in bytes; the size of a column is its compressed size in all files."""
    store = storage or common()
    files = read_footers(find(patterns, store), store)
    sizes: dict[str, int] = {}
    for f in files:
        for g in range(f.footer.num_row_groups):
            group = f.footer.row_group(g)
            for name, c in zip(f.roots, map(group.column, range(group.num_columns)), strict=True):
                sizes[name] = sizes.get(name, 0) + span_of(c)[1]
    partitions = {name: values for name, values in partitions_of(files).items() if len(set(values.values())) > 1}
    schema, features = with_partitions(files[0].schema, partitions), features_of(files[0].schema)
    types = [dict(zip(f.schema.names, f.schema.types, strict=True)) for f in files]
    groups = [f.footer.row_group(g) for f in files for g in range(f.footer.num_row_groups)]
    columns = [
        {"name": name, "type": str(schema.field(name).type), "bytes": sizes.get(name, 0), "becomes": form, "decoded_if_named": named}
        for name, (form, named) in _forms(schema, features).items()
    ]
    return {
        "files": len(files),
        "bytes": sum(f.size for f in files),
        "rows": sum(f.footer.num_rows for f in files),
        "groups": len(groups),
        "group_rows": [min((g.num_rows for g in groups), default=0), max((g.num_rows for g in groups), default=0)],
        "columns": columns,
        "alike": all(t == types[0] for t in types) and other_classes(((f.shown, f.schema) for f in files), schema.names) is None,
    }
