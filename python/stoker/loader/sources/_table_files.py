# SPDX-License-Identifier: Apache-2.0
"""Expands patterns for Parquet files, reads the footers of these files, and opens them for pyarrow. Local files are opened by path; remote ones are read in
ranges through a Storage."""

from __future__ import annotations

import io
import os
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from stoker import _core
from stoker._at_exit import library_call
from stoker._files import named_path, open_binary
from stoker._progress import counted
from stoker._storage import Storage
from stoker._where import notice
from stoker.errors import (
    CorruptError,
    InvalidArgumentError,
    MissingFileError,
    NotFoundError,
    ReadError,
    StokerError,
    UnsupportedError,
    safe_text,
)
from stoker.loader.sources._fetch import Threads, unfinished
from stoker.loader.sources._table_columns import INDEX
from stoker.loader.sources._table_folders import MAGIC, names_tables
from stoker.loader.sources._table_kept import Kept, keep, load

_TAIL = 1 << 16  # bytes at the end of a file that are read first: they hold the footer of most files
_GAP = 1 << 16  # ranges of a remote file with at most this many bytes between them are read together
_MOST_FOOTER = 1 << 30  # a file that names a footer of more than this many bytes counts as damaged
_LARGE_CHUNK = 4 << 20  # bytes of a local column chunk above which its pages are read one after the other
_PAGES = 1 << 20  # size in bytes of the buffer for reading page by page; pyarrow enlarges it for larger pages
_UNUSUAL = 16 << 20  # a dictionary of at least this many bytes has long values, because writers stop filling a dictionary at about 1 MiB
_SLICE = 32 << 20  # a group that takes more than twice this many bytes is decoded in slices of this size
_PATIENCE = 10  # the most seconds to wait for pyarrow's threads


def parquet() -> ModuleType:
    """Returns pyarrow.parquet, which is imported only where tables are read. Raises UnsupportedError if it is not installed."""
    try:
        import pyarrow.parquet as pq
    except ImportError as e:
        raise UnsupportedError(f"Parquet files are read with pyarrow, which is not installed ({e}): pip install pyarrow") from None
    return pq


def is_remote(name: str) -> bool:
    return "://" in name and not name.startswith("file://")


def shown_name(name: str) -> str:
    """Returns a file's name for messages: that of a remote file has neither the query of its URL nor credentials, since both may be secrets."""
    if not is_remote(name):
        return name
    return safe_text(name if name.lower().startswith(("s3://", "gs://")) else name.partition("?")[0])  # keys of S3 may have a question mark


@dataclass
class TableFile:
    """A Parquet file with its footer."""

    name: str
    size: int  # in bytes
    mark: tuple[Any, ...]  # identifies the version: size, times and inode of a local file; size and version of an object in a store
    footer: Any  # pyarrow.parquet.FileMetaData
    schema: Any  # pyarrow.Schema
    roots: list[str]  # for each column chunk of a row group, the name of its column
    shown: str = field(init=False)  # the name for messages

    def __post_init__(self) -> None:
        self.shown = shown_name(self.name)

    def chunks(self, group: int, names: Collection[str]) -> list[Any]:
        """Returns pyarrow's metadata of a row group's column chunks, for the columns with these names."""
        footer = self.footer.row_group(group)
        return [footer.column(i) for i, name in enumerate(self.roots) if name in names]

    @property
    def short(self) -> str:
        return self.shown.rpartition("/")[2]


class Listed(NamedTuple):
    """A file in a listing. size: in bytes, or -1 if the listing has no sizes. tag: identifies the version of the file, 0 if not known."""

    name: str
    size: int = -1
    tag: int = 0


def find(patterns: Sequence[str], storage: Storage) -> list[Listed]:
    """Expands braces and globs in `patterns`, and returns the files in order. Raises MissingFileError if a pattern fits no file."""
    try:
        with library_call():
            found = storage.core().find([os.fsencode(p) for p in patterns])
    except NotFoundError as e:
        raise _about(e, f"Loader: {e}") from None
    return [Listed(named_path(os.fsdecode(name)), size, tag) for name, size, tag in found]


def _about(e: StokerError, message: str) -> StokerError:
    """Makes an error like `e`, about the same file, with another message."""
    made = type(e)(message)
    made.uri = e.uri
    return made


def read_footers(files: Sequence[Listed], storage: Storage) -> list[TableFile]:
    """Reads the footers of all files, many at a time. Saves those of remote files in ~/.cache/stoker for the next start, and prints a notice if that fails."""
    parquet()
    threads = min(128 if any(is_remote(f.name) for f in files) else 4, len(files) or 1)
    found = _side_by_side(threads, [(_read_footer, f, storage) for f in files])
    not_kept = [file.shown for file, kept in found if not kept]
    if not_kept:
        notice(f"{not_kept[0]}: its footer could not be kept in ~/.cache/stoker: the next start reads it again")
    return [file for file, _ in found]


def _side_by_side(count: int, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Calls functions on `count` threads, and returns their results in order. calls: tuples of a function and its arguments. After Ctrl-C or an error, neither
    this function nor the interpreter's exit waits for running calls, because a server may never answer."""
    threads = Threads(count)
    try:
        futures = [threads.submit(*call) for call in calls]
        found = []
        for future in counted(futures, "reading footers", len(futures)):
            unfinished([future])
            found.append(future.result())
        return found
    finally:
        threads.close()


def _read_footer(listed: Listed, storage: Storage) -> tuple[TableFile, bool]:
    """Returns a file with its footer, and False if saving the footer for the next start failed. Footers of local files are not saved."""
    name = listed.name
    if not is_remote(name):
        with _opening(name), open_binary(name) as file:
            size, mark = _identity(file)
            return _file_of(name, size, mark, _end_of(name, size, lambda offset, length: _read_at(file, offset, length))), True
    with _opening(name):
        kept = load(name)
        if kept is not None and listed.tag and (listed.size, listed.tag) == (kept.size, storage.core().tag(kept.version)):
            made = _of_kept(name, kept)
            if made is not None:
                return made, True
        ranges, end = _begin(listed, storage)
        if end is None and kept is not None and kept.version and (kept.size, kept.version) == (ranges.size, ranges.version):
            made = _of_kept(name, kept)
            if made is not None:
                return made, True
        if end is None:
            end = _end_of(name, ranges.size, lambda offset, length: _read_at(ranges, offset, length))
        file_of = _file_of(name, *_identity(ranges), end)
        return file_of, not ranges.version or keep(name, Kept(ranges.size, ranges.version, end))


def _begin(listed: Listed, storage: Storage) -> tuple[_Ranges, bytes | None]:
    """Opens a remote file. If the listing gave the right size, also returns the end of the file, from its footer on; otherwise None in its place."""
    if listed.size > 0:
        ranges = _Ranges(listed.name, storage, listed.size, None)
        try:
            return ranges, _end_of(listed.name, listed.size, lambda offset, length: _read_at(ranges, offset, length))
        except (CorruptError, _Changed):
            pass  # the file was replaced since the listing, or is damaged; reading it again shows which
    return _Ranges.begin(listed.name, storage), None


def _of_kept(name: str, kept: Kept) -> TableFile | None:
    """Makes a TableFile from a footer that an earlier start saved; None if pyarrow cannot read it."""
    try:
        return _file_of(name, kept.size, (kept.size, kept.version), kept.end)
    except Exception:
        return None


def _end_of(name: str, size: int, read: Callable[[int, int], bytes]) -> bytes:
    """Returns the end of a file, from its footer on. read(offset, length) returns bytes of the file. Raises CorruptError if the file is cut short, encrypted or
    not a Parquet file."""
    if size < 12:
        raise CorruptError(f"{name}: it has {size} bytes, and no Parquet file is that small: it is empty or cut short")
    tail = read(size - min(_TAIL, size), min(_TAIL, size))
    if tail[-4:] != MAGIC:
        encrypted = ": it is encrypted" if tail[-4:] == b"PARE" else ": it is no Parquet file, or cut short"
        raise CorruptError(f"{name}: it does not end in PAR1{encrypted}")
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length + 4 > size or length > _MOST_FOOTER:
        raise CorruptError(f"{name}: its last bytes name a footer of {length - 8} bytes, and the file has {size}: it is damaged")
    return tail[-length:] if length <= len(tail) else read(size - length, length - len(tail)) + tail


def _file_of(name: str, size: int, mark: tuple[Any, ...], end: bytes) -> TableFile:
    """Makes a TableFile from the end of a file, which holds its footer. Raises CorruptError if the footer is damaged or a column is encrypted."""
    import pyarrow as pa

    footer = parquet().read_metadata(pa.BufferReader(end))
    # pyarrow ends the process if a column chunk does not fit the schema, by a C++ exception that it does not catch. So the footer is checked first.
    fault = _core.footer_fault(end[-8 - int.from_bytes(end[-8:-4], "little") : -8])
    if fault is not None:
        kind, text = fault
        raise CorruptError(f"{name}: {text}: {'encrypted files cannot be read' if kind == 'encrypted' else 'it is damaged'}")
    schema = footer.schema.to_arrow_schema()
    _check_footer(name, size, footer)
    if len(set(schema.names)) < len(schema.names):
        twice = next(n for n in schema.names if schema.names.count(n) > 1)
        raise InvalidArgumentError(f"{name}: several columns are called {twice!r}: write the file again with different names")
    return TableFile(name, size, mark, footer, schema, roots_of(footer, schema))


def _check_footer(name: str, size: int, footer: Any) -> None:
    """Raises CorruptError if parts of a footer contradict each other."""
    rows = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
    if any(n < 0 for n in rows) or sum(rows) != footer.num_rows:
        raise CorruptError(f"{name}: its footer names {footer.num_rows} rows, and its row groups hold {sum(rows)}: it is damaged")
    for g in range(footer.num_row_groups):
        group = footer.row_group(g)
        if not group.num_rows:  # some writers set the offsets of empty groups to 0
            continue
        for c in range(group.num_columns):
            begin, length = span_of(group.column(c))
            if begin < 4 or length < 0 or begin + length > size:
                raise CorruptError(
                    f"{name}: row group {g}, column {group.column(c).path_in_schema}: the footer says bytes {begin} to {begin + length}, and the file "
                    f"has {size}: "
                    "it is damaged or cut short"
                )


def roots_of(footer: Any, schema: Any) -> list[str]:
    """Returns for each column chunk of a row group the name of its column. A chunk's path joins names by dots, and names may contain dots, so the number of
    chunks of each column follows from its type. If a type is unknown here, the name ends at the first dot of the path."""
    found = [column.name for column in schema for _ in range(_parts(column.type))]
    paths = [footer.schema.column(i).path for i in range(footer.num_columns)]
    if len(found) == len(paths) and all(p == name or p.startswith(name + ".") for p, name in zip(paths, found, strict=True)):
        return found
    return [path.partition(".")[0] for path in paths]


def _parts(type: Any) -> int:
    """Returns the number of column chunks in which Parquet stores a column of this type."""
    import pyarrow.types as t

    if hasattr(type, "storage_type"):
        return _parts(type.storage_type)
    if t.is_struct(type):
        return sum(_parts(type.field(k).type) for k in range(type.num_fields))
    if t.is_map(type):
        return _parts(type.key_type) + _parts(type.item_type)
    if t.is_list(type) or t.is_large_list(type) or t.is_fixed_size_list(type):
        return _parts(type.value_type)
    return 1


def span_of(column: Any) -> tuple[int, int]:
    """Returns the offset in the file and the size in bytes of a column chunk. Both include the chunk's dictionary."""
    begin = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None and 0 < column.dictionary_page_offset < begin:
        begin = column.dictionary_page_offset
    return begin, column.total_compressed_size


class _opening:
    """A context that turns errors of pyarrow and of the system into Stoker's errors, with the file's name in the message."""

    def __init__(self, name: str, detail: str = "") -> None:
        self.file = shown_name(name)
        self.name = self.file + detail

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, e: BaseException | None, _: Any) -> None:
        if e is None or isinstance(e, (MemoryError, InvalidArgumentError)) or (isinstance(e, StokerError) and self.name in str(e)):
            return
        if isinstance(e, StokerError):
            raise _about(e, f"{self.name}: {str(e).removeprefix(f'{self.file}: ')}") from e
        if isinstance(e, FileNotFoundError):
            missing = MissingFileError(f"{self.name}: {e.strerror or e}")
            missing.uri = self.file
            raise missing from e
        if isinstance(e, OSError) and e.errno:  # for damaged pages, pyarrow raises OSErrors without a number
            raise ReadError(f"{self.name}: {e.strerror or e}") from e
        if isinstance(e, Exception):
            raise CorruptError(f"{self.name}: {e}") from e


def _identity(file: Any) -> tuple[int, tuple[Any, ...]]:
    if isinstance(file, _Ranges):
        return file.size, (file.size, file.version)
    found = os.fstat(file.fileno())
    return found.st_size, (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _read_at(file: Any, offset: int, length: int) -> bytes:
    if isinstance(file, _Ranges):
        file.load([(offset, length)])
    file.seek(offset)
    return bytes(file.read(length))


class _Changed(Exception):
    """Raised if an object's size is not the one in the listing."""


class _Ranges(io.RawIOBase):
    """A remote object as a file. `load` reads ranges into memory, and drops the ranges of an earlier call. A read outside of these ranges makes its own
    request.

    version: the version of the object that each answer must have. None: the first answer sets it.
    """

    def __init__(self, name: str, storage: Storage, size: int, version: str | None) -> None:
        super().__init__()
        self.name, self._core, self.size, self.version = name, storage.core(), size, version
        self._parts: list[tuple[int, memoryview]] = []
        self._at = 0

    @classmethod
    def begin(cls, name: str, storage: Storage) -> _Ranges:
        """Opens an object, and asks the store for its size and version. Raises UnsupportedError if the store does not know the size."""
        try:
            _, size, version = storage.core().read(name, 0, 4)
        except (NotFoundError, ReadError) as e:
            if names_tables(name) or name.startswith(("http://", "https://")):  # HTTP has no folders
                raise
            folder = shown_name(name).rstrip("/")
            raise _about(
                e,
                f"{e}; if it is a folder, give a pattern for the files of one split, as {folder}/train-*.parquet, or {folder}/*.parquet for all of its files",
            ) from e
        if size < 0:
            raise UnsupportedError(
                f"{name}: its size is unknown, and a Parquet file is read from its end: a fetch function needs a list as well, as Storage(fetch=..., list=...)"
            )
        return cls(name, storage, size, version)

    def load(self, spans: Sequence[tuple[int, int]]) -> None:
        """Reads ranges of (offset, length) into memory. Ranges with at most _GAP bytes between them are read as one."""
        merged: list[list[int]] = []
        for begin, length in sorted(spans):
            if merged and begin <= merged[-1][1] + _GAP:
                merged[-1][1] = max(merged[-1][1], begin + length)
            else:
                merged.append([begin, begin + length])
        if len(merged) > 1:
            parts = _side_by_side(min(16, len(merged)), [(self._fetch, begin, end - begin) for begin, end in merged])
            self._parts = [(m[0], part) for m, part in zip(merged, parts, strict=True)]
        else:
            self._parts = [(m[0], self._fetch(m[0], m[1] - m[0])) for m in merged]

    def _fetch(self, offset: int, length: int) -> memoryview:
        data, size, version = self._core.read(self.name, offset, length, self.size, self.version)
        if self.version is None:  # only the size from the listing is known so far
            if size >= 0 and size != self.size:
                raise _Changed
            self.version = version
        if (size >= 0 and size != self.size) or version != self.version:
            raise ReadError(f"{self.name}: the object was replaced while it was read: start again, so that its footer is read again")
        return memoryview(data)[:length]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> Any:
        length = max(0, min(self.size - self._at, size if size is not None and size >= 0 else self.size))
        begin, self._at = self._at, self._at + length
        for start, data in self._parts:
            if start <= begin and begin + length <= start + len(data):
                return data[begin - start : begin - start + length]
        return self._fetch(begin, length) if length else b""

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


# pyarrow decodes on its own threads, which drop their last references to a file and its bytes shortly after pyarrow has returned the table. If these are
# Python objects and the interpreter ends at that moment, the process is aborted.


def _through(opened: Any, read: Callable[[Any], Any]) -> Any:
    """Returns read(file) for an open file. `file` is one of pyarrow's own files, without a reference to a Python object, if the system can open it by path;
    otherwise the file object of _released."""
    import pyarrow as pa

    name = "" if isinstance(opened, _Ranges) else f"/proc/self/fd/{opened.fileno()}"
    if not name or not os.path.exists(name):
        return _released(opened, read)
    with pa.OSFile(name) as file:
        return read(file)


def _released(opened: Any, read: Callable[[Any], Any]) -> Any:
    """Returns read(file) for a file object in Python. At the end, waits up to _PATIENCE seconds until pyarrow has dropped the file object and all bytes that it
    read. This function creates the file object, so that no caller's variable refers to it."""
    file = _Given(opened)
    seen, itself = file.seen, weakref.ref(file)
    try:
        made = read(file)
        seen.append(itself)  # only after success: the traceback of a failed call refers to the file, so the wait would never end
        return made
    finally:
        del file
        end = time.monotonic() + _PATIENCE
        while any(ref() is not None for ref in seen) and time.monotonic() < end:
            time.sleep(0.0002)


class _Given(io.RawIOBase):
    """A file object that keeps weak references to the bytes that it returned."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file
        self.seen: list[weakref.ref[Any]] = []

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int = -1) -> Any:
        data = memoryview(self._file.read(size))
        self.seen.append(weakref.ref(data))
        return data


def read_group(file: TableFile, group: int, columns: Sequence[str], storage: Storage, encoded: Collection[str] = ()) -> Any:
    """Reads columns of a row group, and returns them as a pyarrow.Table. encoded: columns of texts or bytes that may be returned as indices into a dictionary,
    which is done if repeated long values would otherwise take much more memory than the file's pages. Raises ReadError if the file was replaced."""
    import pyarrow as pa

    pq = parquet()
    footer = file.footer.row_group(group)
    wanted = set(columns)
    chunks = file.chunks(group, wanted)
    detail = f": row group {group}"
    where = file.shown + detail

    # A large column chunk of a local file is read a page at a time. A large group is decoded in slices of rows: a buffer for all rows would double its size
    # whenever it is full, and could take twice the memory that the rows need.
    pages = _PAGES if not is_remote(file.name) and any(c.total_compressed_size > _LARGE_CHUNK for c in chunks) else 0
    size = sum(max(0, c.total_uncompressed_size) for c in chunks)
    rows = max(1, footer.num_rows * _SLICE // size) if size > 2 * _SLICE else footer.num_rows

    def whole(source: Any) -> Any:
        repeated = [c.path_in_schema for c in file.chunks(group, encoded) if _repeats(source, c, footer.num_rows)] if encoded else []
        more: dict[str, Any] = {"read_dictionary": repeated} if repeated else {}
        with pq.ParquetFile(
            source, metadata=file.footer, pre_buffer=False, buffer_size=pages, page_checksum_verification=True, **more
        ) as reader:
            if rows == footer.num_rows:
                return reader.read_row_group(group, columns=list(columns), use_threads=False)
            slices = list(reader.iter_batches(batch_size=rows, row_groups=[group], columns=list(columns), use_threads=False))
            return pa.Table.from_batches(slices)

    with _opening(file.name, detail), _reopened(file, storage) as opened:
        if isinstance(opened, _Ranges):
            opened.load([span_of(c) for c in chunks])
        try:
            table = _through(opened, whole)
        finally:
            # If the file was replaced or written to meanwhile, neither the result nor an error of the read can be trusted.
            if not _is_same(file, opened):
                raise _replaced(file.shown)
    if table.num_rows != footer.num_rows:
        raise CorruptError(f"{where}: it holds {table.num_rows} rows, and its footer says {footer.num_rows}: the file is damaged")
    return table


def _repeats(source: Any, chunk: Any, rows: int) -> bool:
    """Returns whether the values of a column chunk of texts or bytes must stay indices into its dictionary, because a copy of the value for each row would take
    far more memory than the chunk's pages. The memory of a group is estimated from its pages (decoded_bytes)."""
    path, _, leaf = chunk.path_in_schema.rpartition(".")
    if chunk.physical_type != "BYTE_ARRAY" or (path and leaf not in ("bytes", "path")):
        return False
    begin, _ = span_of(chunk)
    if begin == chunk.data_page_offset:
        return False
    source.seek(begin)
    size, count = _dictionary_page(bytes(source.read(64)))
    most = 4 * max(chunk.total_uncompressed_size, rows * INDEX)
    return rows * size > most * count or (size >= _UNUSUAL and rows > 4 * count)


def _dictionary_page(head: bytes) -> tuple[int, int]:
    """Returns a dictionary's size in bytes and its number of values, from the first bytes of its page; (0, 1) if they are not the header of such a page. The
    header is a struct in Thrift's compact protocol: the type of the page, two sizes, perhaps a checksum, and a struct whose first field is the number of
    values."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while at < len(head) and shift < 35:
            byte = head[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        return value >> 1 ^ -(value & 1)

    def follows(mark: int) -> bool:
        nonlocal at
        found = at < len(head) and head[at] == mark
        at += found
        return found

    if not (follows(0x15) and number() == 2 and follows(0x15)):  # 0x15: the next field, an integer of 32 bits; 2: a dictionary page
        return 0, 1
    size = number()
    if not follows(0x15):
        return 0, 1
    number()  # skips the size of the compressed page
    nested = 0x4C  # the next field is a struct, and its number is 4 larger than that of the field before
    if follows(0x15):
        number()  # skips the checksum
        nested = 0x3C
    count = number() if follows(nested) and follows(0x15) else 0
    return (size, count) if size > 0 and count > 0 else (0, 1)


def _reopened(file: TableFile, storage: Storage) -> Any:
    if is_remote(file.name):
        return _Ranges(file.name, storage, *file.mark)
    opened = open_binary(file.name).detach()  # type: ignore[attr-defined]
    if not _is_same(file, opened):
        opened.close()
        raise _replaced(file.shown)
    return opened


def _is_same(file: TableFile, opened: Any) -> bool:
    """Returns whether the open file still has the footer that was read. Compares footers if only times differ, as after chown."""
    mark = _identity(opened)[1]
    if mark == file.mark or mark[:2] != file.mark[:2]:
        return mark == file.mark
    try:
        return bool(parquet().read_metadata(opened).equals(file.footer))
    except Exception:  # the file is half written
        return False


def _replaced(name: str) -> ReadError:
    return ReadError(f"{name}: the file was replaced while it was read: start again, so that its footer is read again")
