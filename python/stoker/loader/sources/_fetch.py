# SPDX-License-Identifier: Apache-2.0
"""Calls dataset[i] for several samples at once, on threads or in worker processes. Each worker process has a thread here that waits for its answers."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stoker import _at_exit
from stoker._processes import Ended, Worker, end_at_exit, fail, portable
from stoker._sources import Description
from stoker._where import notice
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader._changes import DATASET, Changes
from stoker.loader._random import Place, current, mix
from stoker.loader.sources._samples import Samples, UnlikeError, place_of
from stoker.loader.sources._shared import ReuseDetector, open_file, owned

if TYPE_CHECKING:
    from concurrent.futures import Future

    from stoker.loader.sources._contents import Contents

_WAIT = 0.2  # seconds; `unfinished` waits in steps of this length

Item = tuple[int, Place]  # a sample's id, and the numbers that seed its random generator


@dataclass(slots=True)
class Fetched:
    """A sample in the form that the pipeline accepts, or the exception that fetching it raised."""

    parts: tuple[Any, ...] | None  # the converted parts; None if the sample failed
    index: int | None = None  # the sample's index in the dataset; None if it is not known
    path: str | None = None  # the result of Samples.path_of: the image's file, or the row of a table; None if neither is known
    error: Exception | None = None

    @property
    def description(self) -> Description:
        """Returns (path, index, failure message or None, exception or None), which go to the library with the sample."""
        failure = None if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return self.path, self.index, failure, self.error


def _has_getitems(kind: type) -> bool:
    """Returns whether a class of Datasets has a __getitems__ that still belongs to its __getitem__: False if a derived class has replaced only __getitem__. The
    result is not cached: the cache would keep the class alive, and with it all that its module holds, such as a Loader with its threads."""
    for base in kind.__mro__:
        if vars(base).get("__getitems__"):
            return True
        if "__getitem__" in vars(base):
            return False
    return False


def sample_of(dataset: Any, index: int) -> Any:
    """Returns a sample. Like torch's DataLoader, asks the Dataset's __getitems__ if there is one; but only for one sample at a time, so that the samples of a
    batch are fetched at once on several threads."""
    kind: Any = type(dataset)
    if _has_getitems(kind):
        given = dataset.__getitems__([index])
        if isinstance(given, (list, tuple)) and len(given) == 1:
            return given[0]
    return dataset[index]  # also if __getitems__ makes whole batches, for a collate_fn that takes these


def converted(samples: Samples, item: Any, index: int | None, where: str) -> Fetched:
    """Converts a sample of a dataset. An exception that concerns only this sample is stored in the result; an exception that would concern all samples is
    raised. index: the sample's index, or None. where: the place in the dataset that messages name."""
    path = samples.path_of(item)
    try:
        return Fetched(samples.convert(item), index, path)
    except (InvalidArgumentError, UnlikeError) as e:
        e.add_note(where)
        raise
    except (MemoryError, RecursionError):
        raise
    except Exception as e:
        row = place_of(item)
        where = where if row is None else f"in {row}"
        if len(e.args) == 1 and isinstance(e.args[0], str):
            e.args = (f"{e.args[0]} ({where})",)
        elif row is not None and isinstance(e, OSError) and e.strerror:
            e.strerror = f"{e.strerror} ({where})"
        e.add_note(where)
        return Fetched(None, index, path, e)


class Fetch:
    """Fetches samples from the dataset and converts them."""

    def __init__(self, dataset: Any, samples: Samples) -> None:
        self.dataset, self.samples = dataset, samples

    def fetch_first(self, item: Item) -> tuple[Fetched, tuple[Any, ...]]:
        """Fetches the first sample. Returns it, and the format that all samples must have. If the sample fails, the next sample defines the format."""
        learned = self.samples.kinds is not None
        (fetched,) = self([item])
        if fetched.parts is None and not learned:
            self.samples.forget_format()
        return fetched, self.samples.format()

    def set_format(self, learned: tuple[Any, ...]) -> None:
        """Sets the format that all samples must have, which another process found in the first sample."""
        self.samples.set_format(learned)

    def __call__(self, items: Sequence[Item]) -> list[Fetched]:
        return [self._one(index, place) for index, place in items]

    def _one(self, index: int, place: Place) -> Fetched:
        current.place, current.generator = place, None
        try:
            item = sample_of(self.dataset, index)
        except StopIteration as e:  # the caller would take a StopIteration for the end of the epoch
            error = RuntimeError(f"the dataset raised StopIteration in dataset[{index}]: its length says where it ends")
            error.__cause__ = e
            return Fetched(None, index, error=error)
        except (MemoryError, RecursionError):
            raise
        except Exception as e:
            e.add_note(f"in dataset[{index}]")
            return Fetched(None, index, error=e)
        finally:
            current.place = None
        return converted(self.samples, item, index, f"in dataset[{index}]")


class FetchMany(Fetch):
    """Fetches samples by one call of the dataset's many(ids), or one by one if that call fails."""

    def __call__(self, items: Sequence[Item]) -> list[Fetched]:
        try:
            given = self.dataset.many([index for index, _ in items])
        except Exception:  # one sample failed: fetch each separately to find out which
            return super().__call__(items)
        return [converted(self.samples, item, index, f"in dataset[{index}]") for (index, _), item in zip(items, given, strict=True)]


class Threads:
    """Calls functions on daemon threads. close() does not wait for running calls, and fails all unfinished futures with StateError. At its exit, the
    interpreter waits for running calls only as long as stoker._at_exit allows."""

    def __init__(self, count: int) -> None:
        self.pid = os.getpid()  # the process in which the threads run
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: set[Future[Any]] = set()
        self._closed = False
        self._stop = weakref.finalize(self, _stop, self._jobs, count)
        for _ in range(count):
            threading.Thread(target=self._run, args=(self._jobs,), name="stoker-dataset", daemon=True).start()

    @staticmethod
    def _run(jobs: queue.SimpleQueue[Any]) -> None:
        while (job := jobs.get()) is not None:
            with _at_exit.job():
                _finish(*job)
                del job  # frees the result if the caller has dropped its future; `job` would keep it alive until the next call

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        from concurrent.futures import Future

        future: Future[Any] = Future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        self._jobs.put((future, function, arguments))
        # Another thread's close() may have failed the waiting futures before this one was added, or the garbage collector may have ended the threads.
        if self._closed or not self._stop.alive:
            self._answer()
        return future

    def close(self) -> None:
        self._closed = True
        self._answer()
        self._stop()

    def _answer(self) -> None:
        for future in list(self._waiting):
            fail(future, StateError("the Loader was closed"))


def _finish(future: Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    from concurrent.futures import InvalidStateError  # imported here, because it loads the module logging

    try:
        if not future.done():
            future.set_result(_at_exit.call(function, *arguments))
    except InvalidStateError:
        pass  # close() has already failed this future
    except BaseException as e:
        fail(future, e)


def _stop(jobs: queue.SimpleQueue[Any], count: int) -> None:
    for _ in range(count):
        jobs.put(None)


def unfinished(futures: Sequence[Future[Any]], limit: float | None = None) -> set[Future[Any]]:
    """Waits for all futures, at most `limit` seconds. Returns those that have not finished. Waits in steps, because a signal that arrives just before a wait
    does not end it: a single Ctrl-C could have no effect."""
    from concurrent.futures import wait

    end = None if limit is None else time.monotonic() + limit
    late = {future for future in futures if not future.done()}
    while late:
        left = _WAIT if end is None else min(_WAIT, end - time.monotonic())
        late = wait(late, max(0.0, left)).not_done
        if left <= 0:
            break
    return late


class Workers:
    """Fetches samples on threads."""

    def __init__(self, fetch: Fetch, count: int, watch: ReuseDetector | None = None) -> None:
        self._fetch = fetch
        self.count = count
        self._watch = watch or ReuseDetector(0)
        self._changes = Changes(*DATASET)
        self._one_call = threading.Lock()
        self._threads: Threads | None = None  # None until the first sample was fetched

    def fetch_first(self, item: Item) -> Fetched:
        """Fetches the first sample. If it does not fail, all other samples must have its format, and the threads are started."""
        fetched = self._fetch_first(item)
        if self._threads is None and fetched.parts is not None:
            self._threads = Threads(self.count)
        return fetched

    def _fetch_first(self, item: Item) -> Fetched:
        fetched = self._fetch.fetch_first(item)[0]
        row, fetched.parts = fetched.parts, None
        if row is None:
            return fetched
        made = owned(row)
        self.count = _at_once(self._fetch, self.count, False)  # checked now, because many Datasets open their file in the first call
        self._watch.begin(row, made)
        if self.count > 1 and not isinstance(self._fetch, FetchMany):  # FetchMany reads tables, which several threads may use at once
            self._changes.begin(self._fetch.dataset)
        return replace(fetched, parts=made)

    def fetch_next(self, item: Item) -> Fetched:
        """Fetches another sample before the first batch. Call after fetch_first, while no other sample is being fetched."""
        future = self.submit([item])
        unfinished([future])
        fetched: Fetched = future.result()[0]
        return fetched

    def share_format(self) -> None:
        """Gives the format of samples to the processes that fetch them. Does nothing for threads, which share it."""

    def begin_epoch(self) -> None:
        """Lets all calls that follow use the Dataset as it is now. Call while no sample is being fetched. Does nothing for threads, which share it."""

    def submit(self, items: Sequence[Item]) -> Future[Any]:
        assert self._threads is not None
        return self._threads.submit(self._call, items)

    def _call(self, items: Sequence[Item]) -> list[Fetched]:
        if self._changes.counting:
            return [fetched for item in items for fetched in self._called([item])]
        return self._called(items)

    def _called(self, items: Sequence[Item]) -> list[Fetched]:
        """Fetches samples, and copies them if the Dataset may reuse their buffers. During the first calls only one thread at a time does this, so that changes
        of the Dataset's attributes can be found. If there are changes, or the Dataset fills its buffers again, later calls run one at a time too."""
        changes = self._changes
        if not (self._watch.copies or changes.counting or changes.serial):
            return self._fetch(items)
        with self._one_call if self._watch.serial or changes.counting or changes.serial else nullcontext():
            changes.mark(self._fetch.dataset)
            fetched = self._fetch(items)
            fetched = [self._owned(one) for one in fetched] if self._watch.copies else fetched
            changes.compare(self._fetch.dataset)
        return fetched

    def _owned(self, fetched: Fetched) -> Fetched:
        row, fetched.parts = fetched.parts, None
        if row is not None:
            fetched.parts = owned(row)
            self._watch.check(row, fetched.parts)
        return fetched

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()


def _at_once(fetch: Fetch, count: int, forked: bool) -> int:
    """Returns how many calls of the Dataset may run at once: `count`; or 1, after printing a notice, if the Dataset has an open file. forked: the calls run in
    forked processes."""
    attribute = open_file(fetch.dataset, forked) if count > 1 else None
    if attribute is None:
        return count
    notice(
        f"{attribute} is an open file, and calls that run at the same time would change its position for each other: the dataset is called one at a time. "
        "Open the file in __getitem__, or with python_workers=N in the first call of each process"
    )
    return 1


# Number of bytes that are read at most to find out whether a Dataset was changed. For as many bytes of dicts or lists, which are read as objects, this takes
# half a second; for arrays and texts a tenth.
_MOST_COMPARED = 1 << 26


class ProcessWorkers(Workers):
    """Fetches samples in processes, each of which has a copy of the Dataset. A thread for each process waits for its answers."""

    def __init__(self, fetch: Fetch, count: int, context: Any) -> None:
        self._context = context
        self._forks = context.get_start_method() == "fork"
        self._free: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        self._processes: list[_Process] = []
        self._ended = False
        self._copied: Contents | None = (
            None  # the contents of the Dataset of which the processes have copies; None while there are no processes
        )
        super().__init__(fetch, _at_once(fetch, count, True) if self._forks else count)
        end_at_exit(self)
        self._start(self._contents())

    def _contents(self) -> Contents:
        from stoker.loader.sources._contents import Contents  # imported here, because it loads pickle

        # Processes that are not forked import the program's modules again: they get no variables or attributes of classes.
        return Contents(self._fetch.dataset, _MOST_COMPARED, code=self._forks)

    def _start(self, contents: Contents) -> None:
        """Starts processes, and lets later calls run in them. If that fails, ends them again. contents: those of the Dataset now."""
        made: list[_Process] = []
        free: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        try:
            for _ in range(self.count):
                made.append(_Process(self._fetch, self._context))
                free.put(made[-1])
        except BaseException as e:
            _end(made)
            if not isinstance(e, Exception):
                raise
            raise InvalidArgumentError(
                f"python_workers: a process could not be started ({type(e).__name__}: {e}). A Dataset that cannot be pickled needs "
                "multiprocessing_context='fork', or threads (python_workers=0)"
            ) from e
        self._processes, self._free = made, free
        self._copied = contents if self._forks else self._contents()  # to send a tensor to a process moves it to shared memory
        if self._ended:  # another thread has called close() meanwhile
            _end(made)

    def begin_epoch(self) -> None:
        """Starts the processes again if a change of the Dataset is seen since they got their copies. Ends the earlier processes first, so that there are never
        twice as many copies of the Dataset."""
        if self._threads is None or self._threads.pid != os.getpid():
            return
        contents = self._contents()
        if contents == self._copied:
            return
        before, self._processes, self._copied = self._processes, [], None
        _end(before)
        self._start(contents)

    def _fetch_first(self, item: Item) -> Fetched:
        first: Fetched
        first, learned = self._processes[0].call("fetch_first", item)
        if first.parts is None:
            return first
        self._fetch.set_format(learned)
        self.share_format()
        return first

    def fetch_next(self, item: Item) -> Fetched:
        return self._fetch_first(item)

    def share_format(self) -> None:
        learned = self._fetch.samples.format()
        for process in self._processes:
            process.call("set_format", learned)

    def _call(self, items: Sequence[Item]) -> list[Fetched]:
        free = self._free
        process = free.get()
        try:
            rows: list[Fetched] = process.call("__call__", items)
            return rows
        finally:
            free.put(process)

    def close(self) -> None:
        self._ended = True
        super().close()
        _end(self._processes)


def _end(processes: Sequence[_Process]) -> None:
    workers = [process.worker for process in processes]
    for worker in workers:
        worker.terminate()
    Worker.end(workers, "python_workers")


class _Process:
    def __init__(self, fetch: Fetch, context: Any) -> None:
        self.worker = Worker(context, "stoker-dataset", "python_workers", True, _begin, fetch)

    def call(self, method: str, *arguments: Any) -> Any:
        try:
            return self.worker.call(method, arguments)
        except Ended:
            raise RuntimeError(f"a process of python_workers {self.worker.end_text()}{_asked_for(method, arguments)}") from None


def _asked_for(method: str, arguments: Any) -> str:
    items = arguments[0] if method == "__call__" else arguments if method == "fetch_first" else ()
    return f" in {', '.join(f'dataset[{index}]' for index, _ in items)}" if items else ""


def _begin(fetch: Fetch) -> Callable[..., Any]:
    """Returns the function with which a new process answers each request. Runs in that process."""

    def answer(method: str, arguments: Any) -> Any:
        if method != "set_format":
            _seed_all(arguments[0] if method == "fetch_first" else arguments[0][0])
        return _plain(_calls(fetch, method, arguments))

    return answer


def _calls(fetch: Fetch, method: str, arguments: Any) -> Any:
    if method != "__call__":
        return getattr(fetch, method)(*arguments)
    rows: list[Any] = []
    for item in arguments[0]:
        _seed_all(item)
        rows += fetch([item])
    return rows


def _seed_all(item: Item) -> None:
    import random

    seed = mix(*item[1])
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)
    if torch is not None:
        torch.default_generator.manual_seed(seed)


def _plain(value: Any) -> Any:
    """Converts torch's tensors to arrays, which are sent without shared memory, and exceptions to a form that can be pickled."""
    if isinstance(value, Fetched):
        error = None if value.error is None else portable(value.error, "python_workers")
        return replace(value, parts=_plain(value.parts), error=error)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return value.numpy() if type(value).__module__ == "torch" and hasattr(value, "numpy") else value
