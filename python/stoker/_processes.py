# SPDX-License-Identifier: Apache-2.0
"""external_source(parallel=True): worker processes that call a source ahead of its turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker.errors import InvalidArgumentError

METHODS = ("fork", "spawn", "forkserver")

_function: Callable[..., Any] | None = None  # of this process, where it is a worker
_calls: Any = None  # in it: its id, and the epoch, the batch and the index in it that it calls the function for


class Raised:
    """In the place of what the callable would have given: its exception."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _begin(function: Any, loads: Callable[[bytes], Any] | None, calls: Any, begun: Any) -> None:
    """In a worker, at its start: Ctrl-C is for the process that asks. calls: four numbers for each worker; begun: how many workers there are."""
    import os
    import signal

    global _function, _calls
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _function = loads(function) if loads is not None else function
    with begun.get_lock():
        row, begun.value = begun.value, begun.value + 1
    _calls = memoryview(calls).cast("B").cast("q")[4 * row : 4 * row + 4]
    _calls[0], _calls[1] = os.getpid(), -1


def _call(epoch: int, number: int, first: int, arguments: Sequence[Any]) -> list[Any]:
    """In a worker: what the callable gives for arguments `first` and following of a batch. Behind one that it raised for there are no more."""
    assert _function is not None
    results: list[Any] = []
    for index, argument in enumerate(arguments, first):
        _calls[1], _calls[2], _calls[3] = epoch, number, index
        try:
            results.append(_function(argument))
        except StopIteration:
            return [*results, Raised(StopIteration())]
        except Exception as e:
            return [*results, Raised(portable(e, "external_source(parallel=True)"))]
    return results


def portable(error: Exception, process: str) -> Exception:
    """An exception of a process ("python_workers") with its traceback as a note, or its text where it cannot be pickled."""
    import pickle
    import traceback

    text = "".join(traceback.format_exception(error))
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            error.add_note(f"in a process of {process}:\n{text}")
            return error
    except Exception:
        pass
    return RuntimeError(f"{type(error).__name__} in a process of {process}:\n{text}")


def _nothing() -> None:
    """In a worker: makes it start."""


class Processes:
    """Worker processes of one callable. Taking a batch also begins the batches after it, `ahead` in number.

    arguments: what the callable is called with for a batch (epoch, number): one for each sample, or one for the batch as a whole. ahead: batches begun early.
    """

    def __init__(
        self, function: Callable[..., Any], arguments: Callable[[int, int], list[Any]], workers: int, method: str, pickler: Any, ahead: int
    ) -> None:
        import concurrent.futures.process
        import ctypes
        import multiprocessing

        self._arguments = arguments
        self._workers = workers
        self._ahead = ahead
        self._begun: dict[tuple[int, int], list[Any]] = {}
        given, loads = _packed(function, method, pickler)
        context = multiprocessing.get_context(method)
        self._calls: Any = context.RawArray(ctypes.c_int64, 4 * workers)  # four numbers a worker
        self._broken = concurrent.futures.process.BrokenProcessPool
        self._pool = concurrent.futures.ProcessPoolExecutor(workers, context, _begin, (given, loads, self._calls, context.Value("q", 0)))
        self._pool.submit(_nothing)  # a fork happens now, on the thread that builds the pipeline
        self._processes: dict[int, Any] = getattr(self._pool, "_processes", None) or {}  # by id; the pool keeps it current

    def batch(self, epoch: int, number: int) -> list[Any]:
        """What the callable gives for a batch, one entry for each argument; the last one is Raised where the callable raised an exception."""
        for key in [k for k in self._begun if k[0] != epoch or k[1] < number]:
            self._forget(key)
        for k in range(number, number + self._ahead + 1):
            if (epoch, k) not in self._begun:
                self._begun[epoch, k] = self._begin(epoch, k, self._arguments(epoch, k))
        results: list[Any] = []
        for part in self._begun.pop((epoch, number)):
            try:
                results += part.result()
            except self._broken:
                raise RuntimeError(f"a process of external_source(parallel=True) {self._end()}") from None
            if results and isinstance(results[-1], Raised):
                break
        if results and isinstance(results[-1], Raised) and isinstance(results[-1].error, StopIteration):
            for key in list(self._begun):
                self._forget(key)
        return results

    def _begin(self, epoch: int, number: int, arguments: list[Any]) -> list[Any]:
        """Divides a batch among the workers."""
        size = -(-len(arguments) // self._workers)
        parts = range(0, len(arguments), size)
        try:
            return [self._pool.submit(_call, epoch, number, i, arguments[i : i + size]) for i in parts]
        except self._broken:
            raise RuntimeError(f"a process of external_source(parallel=True) {self._end()}") from None

    def _end(self) -> str:
        """How a worker ended, and in which call."""
        import signal
        import time

        until = time.monotonic() + 1
        while not any(process.exitcode is not None for process in list(self._processes.values())) and time.monotonic() < until:
            time.sleep(0.01)
        codes = {pid: process.exitcode for pid, process in list(self._processes.items())}
        # The pool ends the others with it, by SIGTERM.
        pid = max(codes, key=lambda pid: (codes[pid] is not None, codes[pid] != -signal.SIGTERM), default=0)
        code = codes.get(pid)
        if code is None or code >= 0:
            how = f"ended (exit code {code})"
        else:
            name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
            how = f"was ended by {name}" + (" (as where memory is short)" if name == "SIGKILL" else "")
        rows = list(self._calls)
        for owner, epoch, number, index in zip(*(rows[i::4] for i in range(4)), strict=True):
            if owner == pid and epoch >= 0:
                return f"{how} in the call for {self._arguments(epoch, number)[index]!r}"
        return f"{how} before it was called: what it printed says why"

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
