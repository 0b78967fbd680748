# SPDX-License-Identifier: Apache-2.0
"""Worker processes that call users' Python functions, for external_source(parallel=True) and for the Loader's python_workers.

A worker must not outlive the process that started it, however that process ends. So each worker has the read end of a pipe whose write end is open only in
the process that started the workers. When that end closes, the kernel sends the worker SIGKILL. Worker.end() waits up to a second, by default, for calls to
end. Then it kills workers that hang or are stopped, and logs that.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stoker._where import log
from stoker.errors import InvalidArgumentError, StateError

if TYPE_CHECKING:
    import queue
    from concurrent.futures import Future

METHODS = ("fork", "spawn", "forkserver")
PATIENCE = 1.0  # seconds that close() waits for a call to end

_function: Callable[..., Any] | None = None  # in a worker: the user's callable
_calls: Any = None  # in a worker: four int64 in memory shared with the parent: process id; epoch, batch and index of the current call

# ---- in a worker ----


class Raised:
    """Stands for the result of a call that raised `error`. It is the last entry of a list of results."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _serve(pipe: Any, life: Any, name: str, forked: bool, begin: Callable[..., Callable[..., Any]], arguments: tuple[Any, ...]) -> None:
    """Runs in a worker until it receives None. Calls `begin` with `arguments`, which returns a function. Each request is a tuple of arguments for that
    function; the answer is (None, result) or (exception, None). life: as in _end_with. name: the process's name in messages. forked: the process is a fork of
    the program."""
    import signal
    from multiprocessing.reduction import ForkingPickler

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    _end_with(life)
    torch = sys.modules.get("torch")
    if forked and torch is not None:
        # As in a DataLoader. The threads of OpenMP that torch has used in the program do not exist here, and torch would wait for them.
        torch.set_num_threads(1)
    function = begin(*arguments)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while (asked := pipe.recv()) is not None:
            answer: tuple[Exception | None, Any]
            try:
                answer = (None, function(*asked))
            except Exception as e:
                answer = (portable(e, name), None)
            except BaseException as e:
                answer = (RuntimeError(f"the function raised {type(e).__name__} in a process of {name}"), None)
            try:
                data = ForkingPickler.dumps(answer)
            except Exception as e:
                data = ForkingPickler.dumps((portable(e, name), None))
            pipe.send_bytes(data)


def _end_with(life: Any) -> None:
    """Makes the kernel kill this process when the write end of a pipe closes. life: the pipe's read end. If the kernel does not support this, a thread waits
    for the close."""
    import fcntl
    import signal

    try:
        # Open the pipe again: owner and signal are settings of an open file description, and all workers share the inherited one.
        own = os.open(f"/proc/self/fd/{life.fileno()}", os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(own, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(own, fcntl.F_SETFL, fcntl.fcntl(own, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:
        threading.Thread(target=_watch, args=(life,), daemon=True).start()
    if life.poll(0):  # the write end was closed already
        os._exit(1)


def _watch(life: Any) -> None:
    import signal

    with suppress(EOFError, OSError):
        life.recv_bytes()
    os.kill(os.getpid(), signal.SIGKILL)


def _begin(function: Any, loads: Callable[[bytes], Any] | None, calls: Any, row: int) -> Callable[..., Any]:
    """Prepares a worker of external_source, and returns the function that answers requests. loads: restores the callable from `function`, which is then bytes;
    None: `function` is the callable. calls: shared memory with four int64 for each worker. row: the index of this worker."""
    global _function, _calls
    _function = loads(function) if loads is not None else function
    _calls = memoryview(calls).cast("B").cast("q")[4 * row : 4 * row + 4]
    _calls[0], _calls[1] = os.getpid(), -1
    return _call


def _call(epoch: int, number: int, first: int, arguments: Sequence[Any]) -> list[Any]:
    """Returns the callable's results for some arguments of a batch. first: index of the first of them in the batch. If a call raises an exception, the last
    entry is Raised, and the arguments after it are skipped. Runs in a worker."""
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
    """Returns the exception with its traceback as a note, or a RuntimeError with the same text if the exception cannot be pickled. process: the process's
    name in messages."""
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


# ---- in the process that starts workers ----


class _Life:
    """The pipe through which workers notice that the process that started them has ended. The write end is open only in that process."""

    pid = 0
    reader: Any = None
    writer: Any = None

    @classmethod
    def here(cls) -> Any:
        """Returns the pipe's read end, for workers. Makes the pipe at the first call in each process."""
        import atexit
        import multiprocessing.util  # imported before atexit.register, so that its exit function, which waits for workers without a limit, runs after ours

        if cls.pid != os.getpid():
            if not cls.pid:
                os.register_at_fork(after_in_child=cls.forget)
            cls.reader, cls.writer = multiprocessing.Pipe(duplex=False)
            cls.pid = os.getpid()
            atexit.register(_end_all)
        return cls.reader

    @classmethod
    def forget(cls) -> None:
        """Closes the write end in a forked child, which would otherwise keep the parent's workers alive. Leaves the read end open: the child may be a
        worker."""
        if cls.writer is not None:
            cls.writer.close()
            cls.writer = None
        cls.pid = -1
        _open.clear()


_open: weakref.WeakSet[Any] = weakref.WeakSet()  # objects that have workers


def _end_all() -> None:
    for thing in list(_open):
        thing.close()


def end_at_exit(thing: Any) -> None:
    """Lets the interpreter call thing.close() when it exits, before multiprocessing waits for its processes. If the main thread has already ended, calls it
    at once."""
    _open.add(thing)
    if not threading.main_thread().is_alive():
        thing.close()


class Ended(Exception):
    """Raised if a call finds that its worker process has ended. worker: that worker."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker.process.exitcode)
        self.worker = worker


class Worker:
    """A process that answers calls, one at a time. begin(*arguments) runs in it and returns the function to call. title: the name of the process. name: its
    name in messages."""

    def __init__(self, context: Any, title: str, name: str, daemon: bool, begin: Callable[..., Any], *arguments: Any) -> None:
        self._owner = os.getpid()
        life = _Life.here()
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, life, name, context.get_start_method() == "fork", begin, arguments), name=title, daemon=daemon
        )
        self.process.start()
        theirs.close()

    def call(self, *arguments: Any) -> Any:
        """Calls the function in the process and returns its result. Raises the function's exception, or Ended if the process has ended."""
        try:
            self._pipe.send(arguments)
            error, result = self._pipe.recv()
        except (EOFError, OSError):
            self.process.join(1)
            raise Ended(self) from None
        if error is not None:
            raise error
        return result

    def finish(self) -> None:
        """Lets the process end after its current call."""
        with suppress(OSError):
            self._pipe.send(None)

    def terminate(self) -> None:
        """Sends SIGTERM, which ends the process even during a call, unless it is stopped. Does nothing in a fork of the process that started the worker."""
        if os.getpid() == self._owner:
            self.process.terminate()

    def end_text(self) -> str:
        """Returns a text for messages that says how the process ended."""
        import signal

        code = self.process.exitcode
        if code is None or code >= 0:
            return f"ended (exit code {code})"
        name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
        return f"was ended by {name}" + (" (as where memory is short)" if name == "SIGKILL" else "")

    @staticmethod
    def end(workers: Sequence[Worker], name: str, patience: float = PATIENCE) -> None:
        """Waits up to `patience` seconds for processes to end, kills the others, and logs that. Leaves out workers that another process started."""
        from multiprocessing.connection import wait

        # A forked child has copies of these objects and calls this too, but only the process that started the workers may end them.
        left = [w.process for w in workers if w._owner == os.getpid()]
        until = time.monotonic() + patience
        try:
            while left := [p for p in left if p.exitcode is None]:
                if not wait([p.sentinel for p in left], max(0.0, until - time.monotonic())):
                    break
        finally:  # this runs also if Ctrl-C ends the wait
            left = [p for p in left if p.exitcode is None]
            for process in left:
                process.kill()  # a stopped process would not handle SIGTERM
        for process in left:
            process.join(1)
        if left:
            ids = ", ".join(str(p.pid) for p in left)
            log(f"{name}: worker processes did not end within {patience:g} s and were killed ({ids}): a call hangs, or they were stopped")


def fail(future: Future[Any], error: BaseException) -> None:
    """Sets an exception as the future's outcome. Does nothing if the future has an outcome already."""
    from concurrent.futures import InvalidStateError

    with suppress(InvalidStateError):  # another thread has set the result meanwhile
        future.set_exception(error)


_NAME = "external_source(parallel=True)"


class Processes:
    """Worker processes of one callable. batch() also starts the calls for the next `ahead` batches.

    arguments: a function of (epoch, number of the batch) that returns the callable's arguments: one for each sample, or one for the whole batch.
    """

    def __init__(
        self, function: Callable[..., Any], arguments: Callable[[int, int], list[Any]], workers: int, method: str, pickler: Any, ahead: int
    ) -> None:
        import ctypes
        import multiprocessing
        import queue

        self._arguments = arguments
        self._ahead = ahead
        self._begun: dict[tuple[int, int], list[Future[Any]]] = {}
        self._closed = False
        given, loads = _packed(function, method, pickler)
        context = multiprocessing.get_context(method)
        self._calls: Any = context.RawArray(ctypes.c_int64, 4 * workers)  # for each worker, the four numbers that _calls describes
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._workers: list[Worker] = []
        self._stop = weakref.finalize(self, _stop, self._jobs, self._workers, os.getpid())
        self._stop.atexit = False
        for row in range(workers):
            self._workers.append(Worker(context, "stoker-source", _NAME, False, _begin, given, loads, self._calls, row))
        for worker in self._workers:
            threading.Thread(target=_run, args=(self._jobs, worker), name="stoker-source", daemon=True).start()
        end_at_exit(self)

    def batch(self, epoch: int, number: int) -> list[Any]:
        """Returns the callable's results for a batch, one for each argument. If a call raised an exception, the last entry is Raised, and the arguments after
        it have no entry. Raises RuntimeError if a worker process has ended, and StateError if this object was closed."""
        for key in [k for k in list(self._begun) if k[0] != epoch or k[1] < number]:
            self._cancel(key)
        for k in range(number, number + self._ahead + 1):
            if (epoch, k) not in self._begun:
                self._begun[epoch, k] = self._begin(epoch, k, self._arguments(epoch, k))
        results: list[Any] = []
        # Another thread may have closed this object, perhaps before the calls above began, or the garbage collector may have ended the workers.
        if self._closed or not self._stop.alive:
            self._fail_all()
        for part in self._begun.pop((epoch, number), ()):
            try:
                results += part.result()
            except Ended as e:
                raise RuntimeError(f"a process of {_NAME} {self._end_text_of(e.worker)}") from None
            if results and isinstance(results[-1], Raised):
                break
        if results and isinstance(results[-1], Raised) and isinstance(results[-1].error, StopIteration):
            for key in list(self._begun):
                self._cancel(key)
        return results

    def _begin(self, epoch: int, number: int, arguments: list[Any]) -> list[Future[Any]]:
        """Divides a batch among the workers. Returns a future for each part, in order, whose result is the list that _call returns."""
        from concurrent.futures import Future

        size = -(-len(arguments) // len(self._workers))
        futures: list[Future[Any]] = []
        for i in range(0, len(arguments), size):
            futures.append(Future())
            self._jobs.put((futures[-1], (epoch, number, i, arguments[i : i + size])))
        return futures

    def _end_text_of(self, worker: Worker) -> str:
        """Returns a text for messages that says how a worker ended, and during which call."""
        rows = list(self._calls)
        for owner, epoch, number, index in zip(*(rows[i::4] for i in range(4)), strict=True):
            if owner == worker.process.pid and epoch >= 0:
                return f"{worker.end_text()} in the call for {self._arguments(epoch, number)[index]!r}"
        return f"{worker.end_text()} before it was called: what it printed says why"

    def _cancel(self, key: tuple[int, int]) -> None:
        for part in self._begun.pop(key, ()):
            part.cancel()

    def _fail_all(self) -> None:
        for parts in list(self._begun.values()):
            for part in parts:
                fail(part, StateError("the pipeline was closed"))

    def close(self) -> None:
        """Ends the workers after their current calls. Kills those whose calls take longer than PATIENCE."""
        if self._closed or not self._stop.alive:
            return
        self._closed = True
        self._fail_all()
        self._stop()
        Worker.end(self._workers, _NAME)


def _stop(jobs: queue.SimpleQueue[Any], workers: Sequence[Worker], pid: int) -> None:
    """Ends the workers' threads, each of which then lets its worker end. Does nothing in a process other than `pid`, such as a fork."""
    if os.getpid() == pid:
        for _ in workers:
            jobs.put(None)


def _run(jobs: queue.SimpleQueue[Any], worker: Worker) -> None:
    """Passes jobs to one worker until it gets None, then lets the worker end. Each worker has a thread that runs this. If a worker has ended, its jobs fail
    with Ended."""
    from concurrent.futures import InvalidStateError

    while (job := jobs.get()) is not None:
        future, arguments = job
        try:
            if not future.done():
                future.set_result(worker.call(*arguments))
        except InvalidStateError:
            pass  # close() has already set the future's exception
        except BaseException as e:
            fail(future, e)
        del job, future, arguments  # free the result before the wait for the next job
    worker.finish()


def _packed(function: Callable[..., Any], method: str, pickler: Any) -> tuple[Any, Callable[[bytes], Any] | None]:
    """Returns the callable in the form in which workers receive it, and a function that restores the callable from that form. The function is None if workers
    receive the callable itself."""
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
