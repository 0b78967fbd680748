# SPDX-License-Identifier: Apache-2.0
"""Adapts a user's functions, or an fsspec filesystem, to a Storage. For the library, both are one function of (uri, offset, length) that returns bytes: those
of an object, or a listing as the XML of an S3 store."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs, quote

from stoker._at_exit import call

Entry = tuple[str, int]  # a file's URI and its size in bytes
_Kept = tuple[float, str, list[str], list[int]]  # a cached listing: its time, the folder, and URIs and sizes of the files below the folder
_KEPT_S = 30.0  # seconds for which a listing is reused, because a folder is listed once for its classes and again for each class


class FunctionSource:
    """The user's functions that a storage calls. fetch: returns a range of an object's bytes. list: lists a folder; None if folders cannot be listed. The
    library requests a listing by a URI whose scheme ends in "list", and expects the XML of an S3 store."""

    def __init__(self, fetch: Callable[[str, int, int | None], Any], list: Callable[[str], Iterable[Entry]] | None) -> None:
        self.fetch, self.list = fetch, list
        self._kept: _Kept | None = None
        self._lock = threading.RLock()  # the user's list may list a folder through its own Storage, on the same thread

    def __call__(self, uri: str, offset: int, length: int | None) -> Any:
        return call(self._answer, uri, offset, length)

    def _answer(self, uri: str, offset: int, length: int | None) -> Any:
        scheme, _, rest = uri.partition("://")
        if self.list is None or not scheme.endswith("list"):
            return self.fetch(uri, offset, length)
        root, _, query = rest.partition("?")
        asked = parse_qs(query, keep_blank_values=True)
        return self._page(f"{scheme[:-4]}://{root}/", asked["prefix"][0], asked.get("delimiter", [""])[0])

    def _page(self, root: str, prefix: str, delimiter: str) -> bytes:
        """Returns a complete listing in the XML of an S3 store: the files below root whose names begin with prefix. With a delimiter, files whose names are
        equal up to the next delimiter are listed as one folder (CommonPrefixes)."""
        uris, sizes = self._below(root + prefix[: prefix.rfind("/") + 1])
        begin = bisect.bisect_left(uris, root + prefix)
        out, folder = [], None
        for uri, size in zip(uris[begin:], sizes[begin:], strict=True):
            if not uri.startswith(root + prefix):
                break
            rest, slash, _ = uri[len(root + prefix) :].partition(delimiter) if delimiter else (uri, "", "")
            if slash and rest == folder:
                continue
            folder = rest if slash else None
            if folder is None:
                out.append(f"<Contents><Key>{quote(uri[len(root) :])}</Key><Size>{size}</Size></Contents>")
            else:
                out.append(f"<CommonPrefixes><Prefix>{quote(prefix + folder + slash)}</Prefix></CommonPrefixes>")
        return f"<ListBucketResult><EncodingType>url</EncodingType>{''.join(out)}</ListBucketResult>".encode()

    def _below(self, folder: str) -> tuple[list[str], list[int]]:
        """Returns the URIs of all files below a folder, sorted, and their sizes. If the folder or a parent folder was listed less than _KEPT_S seconds ago,
        returns that whole listing, which may contain files outside of the folder."""
        assert self.list is not None
        with self._lock:
            kept = self._kept
            if kept is None or time.monotonic() - kept[0] > _KEPT_S or not folder.startswith(kept[1]):
                found = sorted(_entry(e, folder) for e in self.list(folder))
                kept = self._kept = (time.monotonic(), folder, [u for u, _ in found], [s for _, s in found])
        return kept[2], kept[3]

    def __repr__(self) -> str:
        return repr(self.fetch)

    def __getstate__(self) -> dict[str, Any]:
        return {"fetch": self.fetch, "list": self.list}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _entry(entry: Any, folder: str) -> Entry:
    uri, size = entry if isinstance(entry, (tuple, list)) and len(entry) == 2 else (None, None)
    if not isinstance(uri, str) or not uri.startswith(folder) or not isinstance(size, int):
        raise TypeError(f"list({folder!r}) gives pairs of a URI that begins with it and its bytes, not {entry!r}")
    return uri, size


class _Filesystem:
    """The functions fetch and list of an fsspec filesystem."""

    def __init__(self, fs: Any) -> None:
        self.fs = fs

    def fetch(self, uri: str, offset: int, length: int | None) -> Any:
        return self.fs.cat_file(uri, start=offset, end=None if length is None else offset + length)

    def list(self, uri: str) -> Iterable[Entry]:
        """Lists the objects below a URI. fsspec returns names without the scheme, some of them with a slash at the beginning."""
        root = self.fs._strip_protocol(uri).rstrip("/")
        self.fs.invalidate_cache()
        found = self.fs.find(root, detail=True)
        return [(uri + name[len(root) :].lstrip("/"), int(info["size"])) for name, info in found.items()]


def function_source(fetch: Any, list: Callable[[str], Iterable[Entry]] | None) -> FunctionSource:
    if list is not None and not callable(list):
        raise TypeError(f"Storage: list is a function of a folder's URI, not {type(list).__name__}")
    if all(callable(getattr(fetch, name, None)) for name in ("cat_file", "find", "_strip_protocol")):
        fs = _Filesystem(fetch)
        return FunctionSource(fs.fetch, list or fs.list)
    if not callable(fetch):
        raise TypeError(f"Storage: fetch is a function of (uri, offset, length), or an fsspec filesystem, not {type(fetch).__name__}")
    return FunctionSource(fetch, list)
