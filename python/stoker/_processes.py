# SPDX-License-Identifier: Apache-2.0
"""external_source(parallel=True): worker processes that call a source ahead of its turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker.errors import InvalidArgumentError

METHODS = ("fork", "spawn", "forkserver")

_function: Callable[..., Any] | None = None  # of this process, where it is a worker


def _begin(function: Any, loads: Callable[[bytes], Any] | None) -> None:
    """In a worker, at its start: Ctrl-C is for the process that asks."""
    import signal

    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _function = loads(function) if loads is not None else function


def _call(arguments: Sequence[Any]) -> list[Any]:
    """In a worker."""
    assert _function is not None
    return [_function(argument) for argument in arguments]


def _nothing() -> None:
    """In a worker: makes it start."""


class Processes:
    """Worker processes of one callable. Taking a batch also begins the batches after it, `ahead` in number.

    arguments: what the callable is called with for a batch (epoch, number): one for each sample, or one for the batch as a whole. ahead: batches begun early.
    """

    def __init__(
        self, function: Callable[..., Any], arguments: Callable[[int, int], list[Any]], workers: int, method: str, pickler: Any, ahead: int
    ) -> None:
        import concurrent.futures
        import multiprocessing

        self._arguments = arguments
        self._workers = workers
        self._ahead = ahead
        self._begun: dict[tuple[int, int], list[Any]] = {}
        given, loads = _packed(function, method, pickler)
        context = multiprocessing.get_context(method)
        self._pool = concurrent.futures.ProcessPoolExecutor(workers, context, _begin, (given, loads))
        self._pool.submit(_nothing)  # a fork happens now, on the thread that builds the pipeline

    def batch(self, epoch: int, number: int) -> list[Any]:
        """What the callable gives for a batch, one entry for each argument; StopIteration where it ends there."""
        for key in [k for k in self._begun if k[0] != epoch or k[1] < number]:
            self._forget(key)
        for k in range(number, number + self._ahead + 1):
            if (epoch, k) not in self._begun:
                self._begun[epoch, k] = self._begin(self._arguments(epoch, k))
        try:
            return [result for part in self._begun.pop((epoch, number)) for result in part.result()]
        except StopIteration:
            for key in list(self._begun):
                self._forget(key)
            raise

    def _begin(self, arguments: list[Any]) -> list[Any]:
        """Divides a batch among the workers."""
        size = -(-len(arguments) // self._workers)
        return [self._pool.submit(_call, arguments[i : i + size]) for i in range(0, len(arguments), size)]

    def _forget(self, key: tuple[int, int]) -> None:
        for part in self._begun.pop(key):
            part.cancel()

    def close(self) -> None:
        """Ends the workers when their present calls are done."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _packed(function: Callable[..., Any], method: str, pickler: Any) -> tuple[Any, Callable[[bytes], Any] | None]:
    """The callable in the form that workers get, and the function that restores it. Forked workers have it as it is, and need none."""
    import pickle

    from stoker import _by_value

    if method == "fork":
        return function, None
    try:
        if pickler is None:
            return _by_value.dumps(function), pickle.loads
        dumps, loads = pickler[:2] if isinstance(pickler, (tuple, list)) else (pickler.dumps, pickler.loads)
        return dumps(function), loads
    except Exception as e:
        raise InvalidArgumentError(
            f"external_source(parallel=True): the callable cannot be sent to a process that was started by {method!r} ({e}); keep what "
            "cannot be pickled out of it, name a py_callback_pickler, or take py_start_method='fork'"
        ) from None
