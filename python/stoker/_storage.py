# SPDX-License-Identifier: Apache-2.0
"""The class Storage: settings for reading objects that are not on a local disk."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from stoker import _core, _files, _numbers
from stoker._signatures import suggests
from stoker.errors import InvalidArgumentError, safe_text

_ADDRESSING = {None: 0, True: 1, False: 2}


class _Secret:
    """A value that must not appear in a repr or a pickle."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "<given>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Storage with keys of its own is not pickled: make it where it is used, or leave the keys to the environment")


@suggests
class Storage:
    """Settings for reading objects that are not on a local disk. Missing arguments are taken from the places where AWS's tools look (doc/storage.md).

        store = stoker.Storage(endpoint="https://minio.example.org:9000", access_key=..., secret_key=...)
        train = Loader("s3://bucket/train", 256, storage=store)

    endpoint: URL of the store. region: its region. access_key, secret_key, session_token: the keys that sign requests. profile: in place of keys, the name of
    keys in AWS's files. anonymous=True: requests are not signed. path_style: True puts the bucket into the URL's path, False into the host's name; None: into
    the path if an endpoint is given.
    ca_bundle: path of a file with the certificates that are trusted. proxy: URL of a proxy; "": no proxy.
    requests: the most requests that are sent at the same time, up to 2048. Their connections take at most half of the files that the process may open,
    which is a second limit. threads: number of threads that send requests: 2 by default, at most 16.
    retries: how often a request that failed at the store or in the network is sent again: 10 times by default. Until a server has answered for the first
    time, a request is sent again only 4 times, or once after a time-out.
    hedging: whether a request is sent a second time if its answer takes longer than nearly all others did.
    connect_timeout: seconds in which a connection must be made, including the TLS handshake (5). answer_timeout: seconds until the first byte (20).
    stall_timeout: seconds in which each 4 KiB must arrive (10). Each try of a request has these limits.
    fetch: a function of yours that reads objects in place of Stoker: fetch(uri, offset, length) returns the bytes as an object with a buffer; if length is
    None, all bytes from offset on. It is called on threads, at most fetch_threads (32) calls at a time. If it raises FileNotFoundError, that sample has
    failed; after other errors it is called again, as often as a request to a store is sent again, except for PermissionError, MemoryError and mistakes in the
    program such as TypeError. fetch_schemes: the schemes of the URIs that the function reads, such as ("gs", "s3"); None: all schemes that Stoker does not
    read itself.
    fetch_name: a name of the store that the function reads, which is needed with a cache. Stores in which the same URI names different objects, such as two
    accounts, need different names.
    list: a second function of yours. list(uri) gets the URI of a folder, which ends in a slash, and returns a pair (URI, bytes) for each file below it, at
    any depth. With it, folders, globs and tars without an index can be read too. An fsspec filesystem can be given for both functions: fetch=fs.

    cache: a folder of this host in which objects are kept, such as "/nvme/stoker"; "memory" is a folder in /dev/shm. cache_limit: the most bytes in it, as a
    number or as "200GB"; by default four fifths of the free space and the cache together, or half of the available memory and the cache
    if it is in memory. All processes of the host share the folder, so that each object is
    downloaded once. When it is full, objects that no run has used for a while are removed. The command `stoker cache` shows and empties it.

    Pipelines and Loaders that are given the same Storage share its connections. Keys appear in no repr, message, trace, state or pickle.
    """

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        profile: str | None = None,
        anonymous: bool = False,
        path_style: bool | None = None,
        ca_bundle: str | os.PathLike[str] | None = None,
        proxy: str | None = None,
        requests: int | None = None,
        threads: int | None = None,
        retries: int | None = None,
        hedging: bool = True,
        connect_timeout: float | None = None,
        answer_timeout: float | None = None,
        stall_timeout: float | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_limit: int | str | None = None,
        fetch: Callable[[str, int, int | None], Any] | Any = None,
        list: Callable[[str], Iterable[tuple[str, int]]] | None = None,
        fetch_schemes: str | Sequence[str] | None = None,
        fetch_threads: int | None = None,
        fetch_name: str | None = None,
    ) -> None:
        if fetch is None and any(given is not None for given in (list, fetch_schemes, fetch_threads, fetch_name)):
            raise InvalidArgumentError("Storage: list, fetch_schemes, fetch_threads and fetch_name go with fetch")
        if fetch is not None and cache is not None and not fetch_name:
            raise InvalidArgumentError(
                "Storage: fetch and cache need fetch_name, a name of the store that fetch reads (such as its account), so that the cache does not "
                "confuse its objects with those of another store"
            )
        source = None
        if fetch is not None:
            from stoker._fetched import function_source  # it imports urllib.parse, and most programs have no fetch

            source = function_source(fetch, list)
        if path_style not in _ADDRESSING:
            raise InvalidArgumentError(f"Storage: path_style is True, False or None, not {path_style!r}")
        self._given: dict[str, Any] = {
            "endpoint": endpoint,
            "region": region,
            "profile": profile,
            "access_key": _secret("access_key", access_key),
            "secret_key": _secret("secret_key", secret_key),
            "session_token": _secret("session_token", session_token),
            "anonymous": _numbers.flag("Storage: anonymous", anonymous),
            "addressing": _ADDRESSING[path_style],
            "ca_bundle": None if ca_bundle is None else os.path.expanduser(ca_bundle),
            "proxy": _secret("proxy", proxy),  # the URL may hold a password
            "threads": _count("threads", threads, 1, 16),
            "requests": _count("requests", requests, 1),
            "retries": _count("retries", retries, 0) or (0 if retries is None else -1),
            "connect_ms": _milliseconds("connect_timeout", connect_timeout),
            "first_byte_ms": _milliseconds("answer_timeout", answer_timeout),
            "stall_ms": _milliseconds("stall_timeout", stall_timeout),
            "no_hedging": not _numbers.flag("Storage: hedging", hedging),
            "cache": None if cache is None else _folder(cache),
            "cache_limit": 0 if cache_limit is None else _numbers.size("Storage: cache_limit", cache_limit, 1),
            "fetch": source,
            "fetch_lists": source is not None and source.list is not None,
            "fetch_schemes": fetch_schemes if fetch_schemes is None or isinstance(fetch_schemes, str) else " ".join(fetch_schemes),
            "fetch_threads": _count("fetch_threads", fetch_threads, 1, 512),
            "fetch_name": fetch_name,
        }
        self._made: tuple[int, _core.Storage] | None = None
        self.core()  # raises an error now if an argument is wrong

    def core(self) -> _core.Storage:
        """Returns the C module's object for this Storage, which each process makes once. Raises an error for wrong arguments."""
        if self._made is None or self._made[0] != os.getpid():
            plain = {k: v.value if isinstance(v, _Secret) else v for k, v in self._given.items()}
            self._made = (os.getpid(), _core.Storage(**plain))
        return self._made[1]

    def counters(self) -> dict[str, float]:
        """Returns a dict of counters over all pipelines that share this Storage: requests, bytes, retries, hedges, times in ms, hits and misses of the
        cache."""
        return self.core().counters()

    def __repr__(self) -> str:
        given = {name: value for name, value in self._given.items() if value not in (None, False, 0)}
        if given.get("retries") == -1:  # the library's number for no retries; its 0 means the default
            given["retries"] = 0
        settings = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return safe_text(f"Storage({settings})")

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given, "_made": None}


_common: tuple[dict[str, str], weakref.ref[Storage]] | None = None


def common() -> Storage:
    """Returns the Storage for pipelines without one. Its settings come from the environment. Pipelines that exist at the same time share it, with its
    connections, as long as the environment is the same."""
    global _common
    environment = dict(os.environ)
    found = _common[1]() if _common is not None and _common[0] == environment else None
    if found is None:
        found = Storage()
        _common = (environment, weakref.ref(found))
    return found


def of(source: Any, storage: Storage | None) -> Storage | None:
    """Returns the Storage that reads a source: `storage` if it is given, else the common one for a URL, else None. Raises InvalidArgumentError if `storage` is
    not a Storage."""
    if storage is not None and not isinstance(storage, Storage):
        raise InvalidArgumentError(f"storage is a stoker.Storage, not {storage!r:.100}")
    return common() if storage is None and isinstance(source, str) and "://" in source else storage


def _folder(cache: str | os.PathLike[str]) -> str:
    """Returns the absolute path of the cache's folder. Returns "memory" unchanged: the library then makes the folder in /dev/shm."""
    if not os.fspath(cache):
        raise InvalidArgumentError("Storage: cache is empty: name a folder, or leave it out")
    if cache == "memory":
        return "memory"
    try:
        return os.path.abspath(os.path.expanduser(_files.local_path(cache)))
    except OSError as e:
        raise InvalidArgumentError(f"Storage: cache: {e.filename}: {e.strerror}") from None


def _secret(name: str, value: Any) -> _Secret | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"Storage: {name} is a string, not {type(value).__name__}")
    return _Secret(value)


def _count(name: str, value: Any, least: int, most: int = _numbers.INT32_MAX) -> int:
    """Returns `value`, or 0, the library's default, for None. Raises an error unless it is a whole number from `least` to `most`."""
    return 0 if value is None else _numbers.whole(f"Storage: {name}", value, least, most)


def _milliseconds(name: str, value: Any) -> int:
    """Converts seconds to milliseconds. Returns 0, the library's default, for None. Raises InvalidArgumentError unless it is from 0.001 to 1e6 seconds."""
    if value is None:
        return 0
    seconds = _numbers.number(f"Storage: {name}", value, -math.inf)
    if not 0.001 <= seconds <= 1e6:
        raise InvalidArgumentError(f"Storage: {name} is a number of seconds from 0.001 to 1e6, not {value!r}")
    return round(1000 * seconds)
