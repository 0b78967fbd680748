# SPDX-License-Identifier: Apache-2.0
"""Stoker's own exceptions.

Each class is a StokerError, which is a RuntimeError, the type that DALI raises. If Python has a type for the same failure, such as MemoryError, the class
is derived from that type too.
"""

from __future__ import annotations

import errno
import re
from typing import Any

# The first error compiles these patterns, since most programs raise none: compiling them takes longer than importing the rest of this file.
_IN_WORD = "[\"'<>`](?=[A-Za-z0-9@%&=+])"  # a quotation mark inside a word, for example in a password
_WORD = rf"(?:[^ \t\r\n\"'<>`]|{_IN_WORD})*"
_SCHEME = r"[A-Za-z0-9+.-]+://"
_COLON = "(?i::|%3A)"
_PLAIN_KEYS = {"s3", "s3list", "gs", "gslist", "file"}  # schemes of URLs in which ? and # may be part of a name
_PARAMETER = (
    r"(?i)((?:[?&;_-]|%26|%3F|%2D)(?:signature|security-token|credential|token|password|passwd|secret|sig|accesskeyid)(?:=|%3D|%253D))"
    rf"((?:(?!%26)(?:[^ \t\r\n\"'<>`&;]|{_IN_WORD}))*)"
)
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_MARKS = ",:;.)"  # characters that end a word in a sentence
# A text of more characters before the first slash is not a host or bucket: it is credentials whose @ was cut off with the end of a long URL.
_NO_HOST = 180


def _user_end(look: str, authority: str, size: int) -> int:
    """Returns the index at which "user:password@" ends in a URL without its scheme: the index after the last @ in `look`, the first part of that text. An
    encoded @ (%40) counts too if it lies in `authority`; one after `authority` counts only if there is no other @. Returns 0 if there is no @ at all. But if
    `look` is too long for a host (_NO_HOST), all of the text may be credentials, so then returns `size`, the text's length."""
    encoded = [found.end() for found in re.finditer("%40", look)]
    end = max(look.rfind("@") + 1, *(end for end in encoded if end - 3 < len(authority)), 0) or max(encoded, default=0)
    return end or (size if len(look) > _NO_HOST else 0)


def _without_user(rest: str, every: bool) -> str:
    """Returns `rest`, the text after "://" up to the end of the word, without "user:password@". Text after a colon that is not a port is a password, which may
    contain a slash. every: removes a user without a password too."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    port = re.split(_COLON, authority, maxsplit=1)[1:]
    if rest.startswith(("NAME:PASSWORD@", "[")) or not (every or port):
        return rest
    is_port = not port or re.fullmatch("[0-9]*", port[0])
    return rest[_user_end(authority if is_port else rest, authority, len(rest)) :]


def _credentials_size(rest: str) -> int:
    """Returns the size of "ID:SECRET@" before a bucket's name; 0 without such a text. Names of buckets have no @, and in few stores a colon, but keys may
    contain an @ and secrets slashes."""
    bucket = rest.partition("/")[0]
    return _user_end(rest if re.search(_COLON, bucket) else bucket, bucket, len(rest))


def _spaced_user_size(text: str, at: int, word: str, is_bucket: bool) -> int:
    """Returns the size of "user:password@" at `at` if the password continues after a space, at which the word ends; otherwise 0."""
    authority = re.split(r"[/?#]", word, maxsplit=1)[0]
    secret = re.split(_COLON, authority, maxsplit=1)[1:]
    if not secret or word.startswith("[") or word[-1] in _MARKS or _user_end(word, authority, len(word)):
        return 0
    if not is_bucket and re.fullmatch("[0-9]*", secret[0]):
        return 0
    found = re.match(r"[^@\n]*@", text[at + len(word) :])
    return len(word) + found.end() if found and "://" not in word + found[0] else 0


def _clean_parameter(found: re.Match[str]) -> str:
    more = found.string[found.end() : found.end() + 1] in ("&", ";", "%")
    return found[1] + ("" if more else found[2][len(found[2].rstrip(_MARKS)) :])


def safe_text(text: str) -> str:
    """Returns the text without secrets in URLs (user, password, query, signatures), and without control characters except line breaks and tabs. Does the same
    as src/base/safe_text.h for the library's messages."""
    at = 0
    scheme_of, word_at = re.compile(_SCHEME).search, re.compile(_WORD).match
    while found := scheme_of(text, at):
        at = found.end()
        scheme = found[0][:-3].lower().lstrip("0123456789+.-")  # "--http://h" is an option of a command
        if scheme == "file":
            continue
        word = word_at(text, at)
        rest = word[0] if word else ""
        if spaced := _spaced_user_size(text, at, rest, scheme in _PLAIN_KEYS):
            text = text[:at] + text[at + spaced :]
            word = word_at(text, at)
            rest = word[0] if word else ""
        if scheme in _PLAIN_KEYS:
            text = text[:at] + text[at + _credentials_size(rest) :]
            continue
        shown = _without_user(rest, scheme.startswith("http"))
        bare = shown.rstrip(_MARKS)
        query = re.search(r"(?i)[?#]|%3F", bare)
        text = text[:at] + (bare[: query.start()] if query else bare) + shown[len(bare) :] + text[at + len(rest) :]
    if "=" in text or "%" in text:
        text = re.sub(_PARAMETER, _clean_parameter, text)
    return re.sub(_CONTROL, lambda m: f"\\x{ord(m[0]):02x}", text)


class StokerError(RuntimeError):
    """A failure of a pipeline, with what is known about where it happened.

    code: the library's status ("CORRUPT", "IO", ...); op: the operator and the line that added it; uri: the sample's file; sample: its
        position in the epoch; epoch: the epoch's number, from 0 on; offset: the byte of the file. Unknown texts are "", unknown numbers -1.
    """

    code: str = ""
    op: str = ""
    uri: str = ""
    sample: int = -1
    epoch: int = -1
    offset: int = -1

    def __init__(self, *args: Any) -> None:
        super().__init__(*(safe_text(a) if isinstance(a, str) else a for a in args))


class InvalidArgumentError(StokerError, ValueError):
    """Raised for an invalid argument, graph or file of settings."""


class ArgumentError(InvalidArgumentError, TypeError):
    """Raised for an argument of the wrong name or type."""


class UnknownArgumentError(ArgumentError, KeyError):
    """Raised for an unknown name of an argument or an input. Also a KeyError, which DALI raises."""

    __str__ = Exception.__str__  # KeyError's shows a repr


class ShapeError(StokerError, ValueError, AssertionError, IndexError):
    """Raised for shapes that do not fit together, or for an axis that a tensor does not have. Also an IndexError, which DALI raises for such an axis, and an
    AssertionError, which code written for ACCV-Lab's batching helpers expects."""


class NotFoundError(StokerError, LookupError):
    """Raised if an operator, a reader or a file with the given name does not exist."""


class MissingFileError(NotFoundError, FileNotFoundError):
    """Raised if a file, folder or object with the given path or URL does not exist. errno is ENOENT, and filename is `uri`, or None if that is not known."""

    __str__ = Exception.__str__  # OSError's shows its own text if there is a filename

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.errno = errno.ENOENT

    @property
    def filename(self) -> str | None:  # a property, so that a copy from pickle has it too
        return self.uri or None


class UnsupportedError(StokerError, NotImplementedError):
    """Raised for a feature that DALI or another library has, but Stoker does not."""


class ReadError(StokerError, OSError):
    """Raised if bytes could not be read because the file system or the store failed. Damaged data raises CorruptError."""


class CorruptError(StokerError):
    """Raised for damaged data that cannot be decoded."""


class LimitError(StokerError):
    """Raised for data that needs more than a limit allows."""


class OutOfMemoryError(StokerError, MemoryError):
    """Raised if memory could not be allocated."""


class StateError(StokerError):
    """Raised for a saved state that does not fit the pipeline, and for a call that is not possible at this time, such as after close()."""


class NoDataError(StateError, IndexError):
    """Raised by a run that needs a batch which was not passed to feed_input. Also an IndexError, which DALI raises."""


class StalledError(StokerError, TimeoutError):
    """Raised if no batch was ready within the given time. No batch is lost: the next call continues to wait."""


class CancelledError(StokerError):
    """Raised if a pipeline is closed, or its wait interrupted, while a batch is waited for."""


_BY_STATUS: dict[str, type[StokerError]] = {
    "INVALID": InvalidArgumentError,
    "SHAPE": ShapeError,
    "NOT_FOUND": NotFoundError,
    "UNSUPPORTED": UnsupportedError,
    "IO": ReadError,
    "CORRUPT": CorruptError,
    "LIMIT": LimitError,
    "NO_MEMORY": OutOfMemoryError,
    "STATE": StateError,
    "TIMEOUT": StalledError,
    "CANCELLED": CancelledError,
}


def from_status(code: str, message: str, op: str, uri: str, sample: int, epoch: int, offset: int, missing: bool) -> StokerError:
    """Makes the exception for an error of the library, from the members of its struct stk_error. The C module calls this."""
    # Errors from the check of a graph do not belong to a sample, and their message may lack the operator and its line.
    kind = _BY_STATUS.get(code, StokerError)
    if missing and kind is NotFoundError:  # drivers, operators and readers may be missing too
        kind = MissingFileError
    error = kind(message if not op or op in message else f"{message}; {op}")
    error.code, error.op, error.uri = code, op, uri
    error.sample, error.epoch, error.offset = sample, epoch, offset
    return error
