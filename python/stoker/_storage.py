# SPDX-License-Identifier: Apache-2.0
"""Storage: how to read objects that are not on a local disk."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from stoker import _core, _files, _numbers
from stoker._fetched import function_source
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


class Storage:
    """How to read objects that are not on a local disk. Missing arguments are taken from the places in which AWS's tools look (doc/storage.md).

        store = stoker.Storage(endpoint="https://minio.example.org:9000", access_key=..., secret_key=...)
        train = Loader("s3://bucket/train", 256, storage=store)

    endpoint, region: of the store. access_key, secret_key, session_token: keys, or profile: the name of those in AWS's files, or anonymous=True: requests are
    not signed. path_style: True puts the bucket into the path, False into the host's name; None: into the path where an endpoint is given.
    ca_bundle: a file of the certificates that are trusted. proxy: a URL; "" for none.
    requests: under way at a time, at most 2048, and as many connections as hold half of the files that may be open. threads: that send them,
    2 (at most 16).
    retries: of a request that the store or the network fails, 10; before any server has answered, 4, and 1 where a time-out was waited for.
    hedging: whether a request whose answer is later than nearly all others is sent a second time.
    connect_timeout (with TLS's handshake), answer_timeout (to the first byte), stall_timeout (in which 4 KiB must come): seconds of each try; 5, 20 and 10.
    fetch: a function of yours that replaces Stoker's own source: fetch(uri, offset, length) gives the bytes, of any type with a buffer; length None: all
    from offset on. It is called on threads, fetch_threads (32) at a time. FileNotFoundError is a failure of that sample; other errors are tried again, as a
    store's are, unless they are mistakes (TypeError and the like) or PermissionError. fetch_schemes: of the URIs that it reads, as ("gs", "s3"); None:
    all that Stoker does not read itself. list: a second function; list(uri), for the URI of a folder, which ends in a slash, gives all files below it at any
    depth, as pairs of URI and bytes. With it, folders, globs and tars without an index are read too. An fsspec filesystem may stand for both: fetch=fs.

    cache: a folder in which objects are kept on this host, as "/nvme/stoker", or "memory": one in /dev/shm. cache_limit: its bytes, as a number or "200GB";
    four fifths of what is free. It is shared by all processes of the host, which download an object once, and filled up to its limit; what no run uses for
    a while goes when others need room. `stoker cache` looks after it.

    Pipelines and Loaders that are given the same Storage share its connections. Keys show in no repr, message, trace, state or pickle.
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
    ) -> None:
        if fetch is None and (fetch_schemes is not None or fetch_threads is not None or list is not None):
            raise InvalidArgumentError("Storage: list, fetch_schemes and fetch_threads go with fetch")
        source = None if fetch is None else function_source(fetch, list)
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
            "proxy": _secret("proxy", proxy),  # it may hold a password
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
            "fetch_threads": _count("fetch_threads", fetch_threads, 1, 4096),
        }
        self._made: tuple[int, _core.Storage] | None = None
        self.core()  # mistakes show here

    def core(self) -> _core.Storage:
        """Returns this process's object of the library."""
        if self._made is None or self._made[0] != os.getpid():
            plain = {k: v.value if isinstance(v, _Secret) else v for k, v in self._given.items()}
            self._made = (os.getpid(), _core.Storage(**plain))
        return self._made[1]

    def counters(self) -> dict[str, float]:
        """Returns counters over all its pipelines so far: requests, bytes, retries, hedges, times in ms, and hits and misses of the cache."""
        return self.core().counters()

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._given.items() if value not in (None, False, 0))
        return safe_text(f"Storage({settings})")

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given, "_made": None}


_common: tuple[dict[str, str], weakref.ref[Storage]] | None = None


def common() -> Storage:
    """Returns the Storage of those who name none. All that live at the same time share one, with its connections, as long as the environment, from which its
    settings come, stays as it is."""
    global _common
    environment = dict(os.environ)
    found = _common[1]() if _common is not None and _common[0] == environment else None
    if found is None:
        found = Storage()
        _common = (environment, weakref.ref(found))
    return found


def of(source: Any, storage: Storage | None) -> Storage | None:
    """Returns the Storage that reads a source: the one that the user names, the common one for a URL, or None."""
    if storage is not None and not isinstance(storage, Storage):
        raise InvalidArgumentError(f"storage is a stoker.Storage, not {storage!r:.100}")
    return common() if storage is None and isinstance(source, str) and "://" in source else storage


def _folder(cache: str | os.PathLike[str]) -> str:
    """ "memory" is the library's word for a folder that the kernel keeps in memory and that only this user may read."""
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
    """0 stands for the library's default."""
    return 0 if value is None else _numbers.whole(f"Storage: {name}", value, least, most)


def _milliseconds(name: str, value: Any) -> int:
    """0 stands for the library's default."""
    if value is None:
        return 0
    seconds = _numbers.number(f"Storage: {name}", value, -math.inf)
    if not 0.001 <= seconds <= 1e6:
        raise InvalidArgumentError(f"Storage: {name} is a number of seconds from 0.001 to 1e6, not {value!r}")
    return round(1000 * seconds)
