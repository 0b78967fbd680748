# SPDX-License-Identifier: Apache-2.0
"""Reads and writes files safely, also in folders to which other users may write.

Only regular files are opened for reading, so that a FIFO or a device is an error instead of a wait. A file is written under a random name in the same folder
and then renamed, so that no link is followed and no reader sees half a file. Paths in /proc, and in /dev outside of /dev/shm, are opened as they are.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Any, BinaryIO

from stoker import _core
from stoker.errors import CorruptError, InvalidArgumentError, safe_text

_URI = r"[A-Za-z][A-Za-z0-9+.-]*://"
UNSIZED_MOST = 16 << 20  # the most bytes that are read from a file that reports a size of 0, because some files in /proc never end


def named_path(name: str) -> str:
    """Returns the path that a file:// URI names, which may name the host "localhost" (RFC 8089). Returns other names as they are."""
    if not name.startswith("file://"):
        return name
    path = name[len("file://") :]
    host, slash, rest = path.partition("/")
    return slash + rest if slash and host.lower() == "localhost" else path


def without_query(name: str) -> str:
    """Returns a file's name, that of http without its query. In other names, a question mark is part of the name."""
    return name.partition("?")[0] if name[:8].lower().startswith(("http://", "https://")) else name


def without_signature(name: str) -> str:
    """Returns a file's name. From that of http, leaves out the parameters of the query that a signature consists of, because a URL that was signed again names
    the same object. Other parameters stay, since a server may find its objects by them."""
    return name if without_query(name) == name else os.fsdecode(_core.unsigned_name(os.fsencode(name)))


def _is_special(path: str) -> bool:
    return (path.startswith("/dev/") and not path.startswith("/dev/shm/")) or path.startswith("/proc/")


def _kind(mode: int) -> str:
    return "a FIFO" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def _refuse_others(mode: int, name: str) -> None:
    """Raises OSError unless the mode is that of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"{_kind(mode)}, not a file", name)


def is_uri(path: str | bytes | os.PathLike[str]) -> bool:
    return re.match(_URI, os.fsdecode(path)) is not None


def local_path(path: str | bytes | os.PathLike[str]) -> str:
    """Returns a path as a str. Raises OSError for a URI, because open() would take its parts for folders. The message shows no secrets in the URI."""
    name = os.fsdecode(path)
    if is_uri(name):
        raise OSError(errno.EINVAL, "a URI, where only a path on this machine can be given", safe_text(name))
    return name


def path_of(path: Any, instead: str) -> bytes:
    """Returns a path as bytes. Raises ValueError for bytes with a zero byte: they are probably a file's contents. instead: the function that takes contents,
    for the message."""
    made = os.fsencode(path)
    if isinstance(path, bytes) and b"\0" in path:
        raise ValueError(f"a path holds no zero byte, and these {len(path)} bytes do: {instead} takes the bytes of a file")
    return made


def open_binary(path: str | bytes | os.PathLike[str]) -> BinaryIO:
    """Opens a regular file for reading. Raises OSError if the path leads to anything else."""
    name = local_path(path)
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode) or not _is_special(name):
            _refuse_others(mode, name)
        os.set_blocking(fd, True)
        return open(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_bytes(path: str | bytes | os.PathLike[str]) -> bytes:
    with open_binary(path) as f:
        if os.fstat(f.fileno()).st_size:
            return f.read()
        data = f.read(UNSIZED_MOST + 1)
    if len(data) > UNSIZED_MOST:
        raise OSError(errno.EFBIG, f"it reports a size of 0, and gives more than {UNSIZED_MOST} bytes", os.fsdecode(path))
    return data


def read_values(path: str | bytes | os.PathLike[str], kind: str, row: int = 1) -> Any:
    """Returns the file's bytes as an array of numbers. kind: their NumPy type. row: how many numbers belong together; CorruptError is raised if the last row is
    not whole."""
    import numpy as np

    with open_binary(path) as f:
        data = np.empty(os.fstat(f.fileno()).st_size, np.uint8)
        data = data[: f.readinto(data)]  # type: ignore[attr-defined]
    if data.size % (np.dtype(kind).itemsize * row):
        raise CorruptError(
            f"{os.fsdecode(path)}: it has {data.size} bytes, which is no whole number of rows of {row} numbers: it is cut short"
        )
    return data.view(kind)


def read_text(path: str | bytes | os.PathLike[str]) -> str:
    return read_bytes(path).decode()


_OF_PICTURES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pdf", ".png", ".svg", ".tif", ".tiff", ".webp"))


def refuse_ending(path: str | os.PathLike[str], what: str, own: str) -> None:
    """Raises InvalidArgumentError if the path ends like a picture of another format than that of `own`, the ending of the format that is written."""
    ending = os.path.splitext(os.fsdecode(path))[1].lower()
    if ending != own and ending in _OF_PICTURES:
        raise InvalidArgumentError(
            f"{os.fsdecode(path)}: {what} is written in the format {own[1:].upper()}: give a name that ends in {own}"
        )


def write(path: str | os.PathLike[str], data: bytes | str) -> None:
    name, whole = local_path(path), data.encode() if isinstance(data, str) else data
    try:
        present: os.stat_result | None = os.lstat(name)
    except FileNotFoundError:
        present = None
    if _is_special(name) and os.path.exists(name) and not os.path.isfile(name):
        with open(os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "wb") as f:
            f.write(whole)
        return
    if os.path.isdir(name):  # a link to a folder counts as that folder
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if present is not None and not stat.S_ISLNK(present.st_mode):
        _refuse_others(present.st_mode, name)
    part = f"{name}.{os.urandom(8).hex()}.part"
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as e:  # names the user's file, and not the temporary one
        raise OSError(e.errno, e.strerror, name) from None
    try:
        with open(fd, "wb") as f:
            if present is not None and stat.S_ISREG(present.st_mode) and present.st_uid == os.geteuid():
                os.fchmod(fd, present.st_mode & 0o777)
            f.write(whole)
        os.replace(part, name)
    except BaseException:
        os.unlink(part)
        raise
