# SPDX-License-Identifier: Apache-2.0
"""What stoker raises.

Every exception is a StokerError (a RuntimeError, as DALI raises) and, where Python has a word for it, of that type too.
"""

from __future__ import annotations


class StokerError(RuntimeError):
    """A failure of a pipeline, with what is known about where it happened.

    code: the library's status ("CORRUPT", "IO", ...); op: the operator and the line that added it; uri: the sample's file; sample: its
    position in the epoch; epoch; offset: byte in the file. Unknown texts are empty, unknown numbers -1.
    """

    code: str = ""
    op: str = ""
    uri: str = ""
    sample: int = -1
    epoch: int = -1
    offset: int = -1


class InvalidArgumentError(StokerError, ValueError):
    """An invalid argument, graph or file of settings."""


class ArgumentError(InvalidArgumentError, TypeError):
    """An argument of the wrong name or type."""


class UnknownArgumentError(ArgumentError, KeyError):
    """An unknown name of an argument or an input. DALI raises a KeyError."""

    __str__ = Exception.__str__  # KeyError's shows a repr


class ShapeError(StokerError, ValueError, AssertionError, IndexError):
    """Shapes that do not fit together, or an axis that a tensor does not have. An IndexError too, which DALI raises for such an axis, and an
    AssertionError, since code written for ACCV-Lab's batching helpers expects one."""


class NotFoundError(StokerError, LookupError):
    """There is no operator, reader or file of this name."""


class UnsupportedError(StokerError, NotImplementedError):
    """Something that exists elsewhere and not here."""


class ReadError(StokerError, OSError):
    """The source of the bytes failed: the file system, not the data."""


class CorruptError(StokerError):
    """Damaged data: a sample that cannot be decoded."""


class LimitError(StokerError):
    """Data that asks for more than a limit allows."""


class OutOfMemoryError(StokerError, MemoryError):
    """No memory."""


class StateError(StokerError):
    """A checkpoint that does not fit, or a call at the wrong time."""


class NoDataError(StateError, IndexError):
    """A run for which nothing was fed. DALI raises an IndexError."""


class StalledError(StokerError, TimeoutError):
    """No batch came within the given time; nothing is lost, the next call goes on waiting."""


class CancelledError(StokerError):
    """The pipeline was closed while a batch was waited for."""


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


def from_status(code: str, message: str, op: str, uri: str, sample: int, epoch: int, offset: int) -> StokerError:
    """The exception for a failure of the library. Called by the extension module."""
    # Errors found when a graph is checked belong to no sample: their message may not name the operator and its line yet.
    error = _BY_STATUS.get(code, StokerError)(message if not op or op in message else f"{message}; {op}")
    error.code, error.op, error.uri = code, op, uri
    error.sample, error.epoch, error.offset = sample, epoch, offset
    return error
