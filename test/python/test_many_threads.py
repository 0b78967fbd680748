# SPDX-License-Identifier: Apache-2.0
"""Several threads use Loaders and one Pipeline at the same time. On a free-threaded CPython nothing but the objects' own locks orders them."""

import contextlib
import os
import random
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import stoker
from sound_files import wav
from stoker import Loader, Pipeline, _core, fn, types
from stoker.errors import CancelledError, StalledError, StateError
from support import SEED

THREADS = 4


def in_threads(*functions):
    """Runs each function on a thread of its own, all from the same moment on. Raises the first exception of any of them."""
    begin, failures = threading.Barrier(len(functions)), []

    def run(function):
        try:
            begin.wait()
            function()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Squares:
    """A Dataset in pure Python. Every seventh sample fails if `fails`."""

    def __init__(self, fails=False):
        self.fails = fails

    def __len__(self):
        return 96

    def __getitem__(self, i):
        if self.fails and i % 7 == 0:
            raise ValueError(f"sample {i}")
        return np.full((4, 4, 3), sum(k * k for k in range(i)) % 256, np.uint8), i


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled(), reason="this interpreter has a GIL")
def test_importing_everything_leaves_the_gil_disabled(script):
    done = script("""
        import sys, warnings
        warnings.simplefilter("error")
        import stoker, stoker.fn, stoker.transforms
        from stoker import _core, Pipeline
        import importlib.util
        from importlib.machinery import ExtensionFileLoader
        loader = ExtensionFileLoader("stoker._batching", _core.__file__)  # as stoker.batching loads it
        loader.exec_module(importlib.util.module_from_spec(importlib.util.spec_from_file_location(loader.name, loader.path, loader=loader)))
        print(sys._is_gil_enabled())
    """)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_loaders_on_threads_give_what_one_gives():
    pytest.importorskip("torch")

    def run():
        got = []
        with Loader(Squares(), 8, num_threads=2, seed=SEED, shuffle=True) as loader:
            for _ in range(2):
                got += [(values.numpy().copy(), numbers.tolist()) for values, numbers in loader]
        return got

    expected, results = run(), []
    in_threads(*[lambda: results.append(run())] * THREADS)
    assert len(results) == THREADS
    for got in results:
        assert [numbers for _, numbers in got] == [numbers for _, numbers in expected]
        assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(got, expected, strict=True))


def test_failures_of_datasets_on_threads_are_all_counted():
    pytest.importorskip("torch")

    def run():
        with Loader(Squares(fails=True), 8, num_threads=2, on_error="skip", max_errors=1000) as loader:
            numbers = [n for _ in range(3) for _, batch in loader for n in batch.tolist()]
        assert sorted(numbers) == sorted([i for i in range(96) if i % 7] * 3)

    in_threads(*[run] * THREADS)


def test_calls_of_batching_raise_for_their_own_indices_only():
    torch = pytest.importorskip("torch")
    from stoker.batching import RaggedBatch, batched_indexing_access

    sizes = torch.full((64,), 100)
    data = torch.zeros(64, 500, 8)
    valid, invalid = (RaggedBatch(torch.full((64, 100), i), sample_sizes=sizes) for i in (0, 500))

    def read():
        for _ in range(300):
            batched_indexing_access(data, valid)

    def fail():
        for _ in range(300):
            with pytest.raises(IndexError, match=": 6400 of the indices"):
                batched_indexing_access(data, invalid)

    in_threads(*[read, fail] * (THREADS // 2))


def pipeline(draw):
    pipe = Pipeline(batch_size=4, num_threads=2, device_id=None, seed=draw.randrange(1 << 30))
    with pipe:
        pipe.set_outputs(fn.external_source(lambda info: np.full(5, info.idx_in_epoch, np.int32), batch=False, dtype=None))
    pipe.build()
    return pipe


def use_until_closed(core, reads):
    """Reads, watches and closes one pipeline with four threads. A call may fail only by a stall, a cancellation, close(), or another thread's call."""
    ended = threading.Event()

    def use(call):
        while not ended.is_set():
            try:
                call()
            except (CancelledError, StalledError):
                pass
            except RuntimeError as e:
                assert "closed" in str(e) or "another thread" in str(e), e

    def close():
        try:
            for _ in range(reads):
                core.counters()
        finally:
            core.close()
            ended.set()

    in_threads(
        lambda: use(lambda: core.next(1.0)),
        lambda: use(lambda: core.next(0.0)),
        lambda: use(lambda: (core.counters(), core.readers(), core.bad_samples())),
        close,
    )


def test_one_pipeline_is_read_watched_and_closed_by_several_threads():
    draw = random.Random(SEED)
    for _ in range(20):
        pipe = pipeline(draw)
        use_until_closed(pipe._running(), draw.randrange(60))


def test_a_source_that_dies_while_threads_pull_from_it():
    """The pipeline's threads may ask for the next batch at the moment at which the Source loses its last reference."""

    def run():
        draw = random.Random(SEED)
        for _ in range(30):
            pipe = pipeline(draw)
            for _ in range(draw.randrange(3)):
                (values,) = pipe.run()
                assert len(values) == 4
            del pipe

    in_threads(*[run] * THREADS)


def test_an_open_sound_serves_one_thread_and_refuses_others():
    """A read that is not refused gives the frames that were asked for, whatever other threads do."""
    samples = np.random.default_rng(SEED).integers(-30000, 30000, (40000, 1), np.int16)
    file = _core.AudioFile(None, wav(samples), True, None)
    served = []

    def read(seed):
        draw, count, out = random.Random(seed), 0, np.empty((500, 1), np.int16)
        while count < 200:
            first = draw.randrange(39500)
            try:
                file.read(first, 500, int(types.INT16), False, out)
            except RuntimeError as e:
                assert "an AudioDecoder serves one thread at a time: make one for each thread" in str(e)
                continue
            assert np.array_equal(out, samples[first : first + 500])
            count += 1
        served.append(count)

    in_threads(*[lambda seed=SEED + k: read(seed) for k in range(THREADS)])
    assert served == [200] * THREADS


def test_a_tensor_is_read_while_another_thread_removes_its_axes():
    """Each read sees the tensor before or after the change, never a mixture."""
    ended = threading.Event()
    made = [np.arange(6, dtype=np.int32).reshape(1, 1, 6), np.arange(12, dtype=np.int32).reshape(12)]
    tensor = _core.Tensor(_core.wrap([made[0]], ""), 0, 0)
    others = [_core.Tensor(_core.wrap([one], ""), 0, 0) for one in made]
    shapes = {one.shape for one in made}

    def read():
        while not ended.is_set():
            assert tuple(tensor.shape()) in shapes
            assert tensor.__array_interface__["shape"] in shapes
            tensor.__dlpack__()

    def change():
        try:
            for k in range(2000):
                tensor._become(others[k % 2])
        finally:
            ended.set()

    in_threads(read, read, change)


def test_a_loader_resumes_as_one_that_was_not_stopped():
    """The Dataset runs on threads, which read ahead. A state holds the position of the consumer, not theirs."""
    pytest.importorskip("torch")

    def numbers(loader, most=None):
        got = []
        for _, batch in loader:
            got.append(batch.tolist())
            if len(got) == most:
                break
        return got

    def run():
        with Loader(Squares(), 8, num_threads=2, seed=SEED, shuffle=True) as whole:
            expected = numbers(whole)
        with Loader(Squares(), 8, num_threads=2, seed=SEED, shuffle=True) as first:
            begun = numbers(first, 5)
            state = first.state_dict()
        with Loader(Squares(), 8, num_threads=2, seed=SEED, shuffle=True) as second:
            second.load_state_dict(state)
            assert begun + numbers(second) == expected

    in_threads(*[run] * THREADS)


def test_a_thread_that_waits_for_a_loader_comes_next():
    """The thread inside leaves and enters again at once, as a training loop does. The thread that waits must not wait until the loop pauses."""
    from stoker.loader._one_thread import OneThread

    guard, visited = OneThread(), []

    def visit(number):
        with guard.visit("state_dict()"):
            visited.append(number)

    threads = []
    with guard:
        for number in range(3):
            threads.append(threading.Thread(target=visit, args=(number,)))
            threads[-1].start()
            while len(guard._line) <= number:
                time.sleep(0.001)
        assert guard.is_mine() and not visited
    with guard:
        assert visited == [0, 1, 2]
    for thread in threads:
        thread.join()
    with guard:
        pass


def test_a_thread_that_stops_waiting_leaves_the_line(monkeypatch):
    from stoker.loader import _one_thread

    monkeypatch.setattr(_one_thread, "VISIT", 0.01)
    guard, errors = _one_thread.OneThread(), []

    def visit():
        try:
            with guard.visit("state_dict()"):
                pass
        except StateError as error:
            errors.append(str(error))

    with guard:
        thread = threading.Thread(target=visit)
        thread.start()
        thread.join()
    assert "has been waiting for a batch" in errors[0] and not guard._line and not guard.owner
    with guard:
        pass


def test_many_threads_pass_a_lock_on():
    from stoker.loader._fair_lock import FairLock

    lock, inside, total, lost = FairLock(), [], [], []

    def work(patience):
        for _ in range(300):
            if lock.acquire(patience):
                inside.append(1)
                lost.extend(inside[1:])
                total.append(1)
                inside.pop()
                lock.release()

    threads = [threading.Thread(target=work, args=(patience,)) for patience in (30, 30, 0, 0.0001)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not lost and len(total) >= 600 and not lock.owner and lock.try_acquire()


@pytest.mark.parametrize("kind", ["Loader", "DataLoader"])
def test_a_state_in_a_forked_child_needs_no_thread_of_the_parent(kind):
    """Another thread of the parent process is inside, and does not exist in the child."""
    inside, leave = threading.Event(), threading.Event()

    class Slow:
        def __len__(self):
            return 8

        def __getitem__(self, index):
            inside.set()
            leave.wait(60)
            return np.zeros((8, 8, 3), np.uint8), index

    loader = stoker.DataLoader(Slow(), 2) if kind == "DataLoader" else Loader(Slow(), 2)
    thread = threading.Thread(target=list, args=(loader,), daemon=True)
    thread.start()
    assert inside.wait(60)
    guard = loader._stoker_progress.lock if kind == "DataLoader" else loader._one_thread
    while not guard.owner:
        time.sleep(0.001)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads, from CPython 3.12 on
        child = os.fork()
    if child == 0:
        try:
            assert guard.acquire(0)
            guard.release()
            with contextlib.suppress(StateError):  # the pipeline belongs to the parent process
                loader.state_dict()
            os._exit(0)
        finally:
            os._exit(1)
    leave.set()
    assert os.waitpid(child, 0)[1] == 0
    thread.join(60)
