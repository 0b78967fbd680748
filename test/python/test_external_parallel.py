# SPDX-License-Identifier: Apache-2.0
"""fn.external_source(parallel=True): sources that run in processes."""

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from stoker import fn, pipeline_def, types
from stoker.errors import InvalidArgumentError
from support import alive, run_script

# CPython warns if a process forks while it has threads.
pytestmark = pytest.mark.filterwarnings("error", "ignore:This process:DeprecationWarning")


def pipeline(source, size=4, settings=None, **kwargs):
    @pipeline_def(batch_size=size, num_threads=2, device_id=None, **(settings or {}))
    def define():
        nodes = fn.external_source(source, parallel=True, **kwargs)
        return tuple(nodes) if isinstance(nodes, list) else nodes

    return define()


def until_end(pipe):
    batches = []
    try:
        while True:
            batches.append([[np.array(t).tolist() for t in o] for o in pipe.run()])
    except StopIteration:
        return batches


def numbered(info):
    """Returns the sample's numbers and this process's id. A function of the module, so that it can be pickled."""
    if info.idx_in_epoch >= 10:
        raise StopIteration
    return np.int64([info.idx_in_epoch, info.idx_in_batch, info.iteration, info.epoch_idx]), np.int64(os.getpid())


def want(epoch, size=4):
    return [[[k * size + i, i, k, epoch] for i in range(size)] for k in range(10 // size)]


@pytest.mark.parametrize(("method", "workers"), [("fork", 1), ("fork", 3)])
def test_samples_come_in_order_from_other_processes(method, workers):
    settings = {"py_num_workers": workers, "py_start_method": method}
    pipe = pipeline(numbered, batch=False, num_outputs=2, settings=settings)
    assert (pipe.py_num_workers, pipe.py_start_method) == (workers, method)
    pids = set()
    for epoch in range(2):
        batches = until_end(pipe)
        assert [b[0] for b in batches] == want(epoch)
        pids |= {pid for b in batches for pid in b[1]}
        pipe.reset()
    assert os.getpid() not in pids and 1 <= len(pids) <= workers
    pipe.close()
    until = time.monotonic() + 20
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < until, "workers outlive their pipeline"
        time.sleep(0.02)


def test_batches_are_begun_early():
    """Batches are begun before they are requested: each of two processes makes one of the first two, which wait for each other."""
    meeting = multiprocessing.get_context("fork").Barrier(2, timeout=60)

    def source(b):
        if b.epoch_idx == 0 and b.iteration < 2:
            meeting.wait()
        if b.iteration >= 6:
            raise StopIteration
        return [np.int64([b.iteration, os.getpid()])] * 3

    pipe = pipeline(
        source,
        batch_info=True,
        prefetch_queue_depth=2,
        settings={"py_num_workers": 2},
    )
    batches = [b[0] for b in until_end(pipe)]
    assert [b[0][0] for b in batches] == list(range(6)) and len({b[0][1] for b in batches}) == 2


class Boom(Exception):
    pass


def test_the_run_continues_after_exceptions_of_a_process():
    def source(info):
        if info.idx_in_epoch == 5:
            raise Boom("broken")
        return np.int64([info.idx_in_epoch])

    pipe = pipeline(source, batch=False, settings={"py_num_workers": 2})
    assert [t.tolist() for t in pipe.run()[0].as_array()] == [[0], [1], [2], [3]]
    with pytest.raises(Boom, match="broken"):
        pipe.run()
    assert [t.tolist() for t in pipe.run()[0].as_array()] == [[8], [9], [10], [11]]


class Unpicklable(Exception):
    def __init__(self, path, line):
        super().__init__(f"{path}:{line}: bad record")


@pytest.mark.parametrize(("workers", "error"), [(1, Unpicklable("a.csv", 17)), (3, Unpicklable("a.csv", 17)), (2, Boom("a.csv:17"))])
def test_an_exception_names_its_sample_and_keeps_its_type(workers, error):
    def source(info):
        if info.idx_in_epoch == 6:
            raise error
        return np.int64([info.idx_in_epoch])

    pipe = pipeline(source, batch=False, settings={"py_num_workers": workers})
    pipe.run()
    with pytest.raises((RuntimeError, Boom), match=r"a\.csv:17") as raised:
        pipe.run()
    text = "".join(traceback.format_exception(raised.value))
    assert "raise error" in text and "in a process of external_source(parallel=True)" in text and type(error).__name__ in text
    assert f"in the source of external_source at {Path(__file__).name}:" in text and "for sample 6 of epoch 0 (batch 1)" in text
    assert [t.tolist() for t in pipe.run()[0].as_array()] == [[8], [9], [10], [11]]


@pytest.mark.parametrize("end", ["ended (exit code 4)", "was ended by SIGKILL (as where memory is short)"])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_process_that_dies_is_named_with_its_call(end, workers):
    def source(info):
        if info.idx_in_epoch == 6:
            os.kill(os.getpid(), signal.SIGKILL) if "SIGKILL" in end else os._exit(4)
        return np.int64([info.idx_in_epoch])

    pipe = pipeline(source, batch=False, settings={"py_num_workers": workers})
    with pytest.raises(RuntimeError) as raised:
        for _ in range(2):
            pipe.run()
    call = "SampleInfo(idx_in_epoch=6, idx_in_batch=2, iteration=1, epoch_idx=0)"
    assert str(raised.value) == f"a process of external_source(parallel=True) {end} in the call for {call}"
    assert f"external_source at {Path(__file__).name}:" in raised.value.__notes__[0]


def test_sources_that_stay_on_the_thread_and_sources_that_are_refused():
    for source, batch in ((lambda: [np.int64([os.getpid()])] * 4, True), ([[np.int64([os.getpid()])] * 4], True)):
        assert pipeline(source, batch=batch).run()[0].as_array().tolist() == [[os.getpid()]] * 4
    with pytest.raises(InvalidArgumentError, match="py_start_method is one of fork, spawn, forkserver"):
        pipeline(numbered, settings={"py_start_method": "thread"})
    with pytest.raises(InvalidArgumentError, match="py_num_workers=1 or more"):
        pipeline(numbered, settings={"py_num_workers": 0}).build()
    with pytest.raises(InvalidArgumentError, match="py_num_workers is at least 0"):
        pipeline(numbered, settings={"py_num_workers": -1})
    for source in (lambda: [np.int64([3])] * 4, [[np.int64([3])] * 4]):
        assert pipeline(source, batch=True, settings={"py_num_workers": 0}).run()[0].as_array().tolist() == [[3]] * 4
    lock = threading.Lock()
    with pytest.raises(InvalidArgumentError, match=r"cannot be sent .*py_callback_pickler"):
        pipeline(lambda i: lock, settings={"py_start_method": "forkserver"}).build()
    called = []

    def dumps(function):
        called.append(function)
        return pickle.dumps(numbered)

    settings = {"py_start_method": "spawn", "py_callback_pickler": (dumps, pickle.loads)}
    pipe = pipeline(lambda info: 1 / 0, batch=False, num_outputs=2, settings=settings, dtype=types.INT64)
    assert pipe.run()[0].as_array().tolist() == want(0)[0] and len(called) == 1


OFFSET = np.int64(7)


def shifted(i):
    return [np.int64([i]) + OFFSET]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_functions_that_no_process_can_import_go_by_value(method):
    """Functions that use closures, recursion, defaults, inner functions or names of their module are sent to processes by value."""
    scale, later = 3, None

    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    def source(info, first=100, *, more=1000):
        def made():
            return np.int64([info.idx_in_epoch * scale + factorial(4) + first + more, *shifted(2)[0]])

        assert later == "assigned after the function was made"
        return made()

    later = "assigned after the function was made"
    source.__module__ = "__main__"  # as in a program: the names that the function uses from its module are sent too
    pipe = pipeline(lambda info: source(info), batch=False, settings={"py_start_method": method, "py_num_workers": 2})
    assert pipe.run()[0].as_array().tolist() == [[i * 3 + 24 + 1100, 9] for i in range(4)]
    pipe.close()


LOCK = threading.Lock()  # has the name of an attribute in the test below


def test_a_function_by_value_takes_the_variables_that_it_uses(monkeypatch):
    """A variable with the name of an attribute is not used. Pickle refuses this one."""
    from stoker import _by_value

    monkeypatch.setitem(globals(), "FIRST", 1)

    def source(info):
        class Inside:
            value = FIRST  # noqa: F821

        return info.LOCK, Inside.value, [int(k) for k in (SECOND, "3")]  # noqa: F821

    monkeypatch.setitem(globals(), "SECOND", "2")
    made = pickle.loads(_by_value.dumps(source))
    assert made.__globals__ is not globals()
    assert made(SimpleNamespace(LOCK=0)) == (0, 1, [2, 3])


@pytest.mark.timeout(60)
def test_a_batch_of_workers_that_the_garbage_collector_has_ended():
    """A pipeline without references may request a batch after its workers were ended. It must get an error, since no thread reads the answers of the
    workers any more."""
    from stoker._processes import Processes
    from stoker.errors import StateError

    made = Processes(lambda i: i, lambda epoch, number: [number], 1, "fork", None, 1)
    assert made.batch(0, 0) == [0]
    made._stop()  # as weakref.finalize calls it
    with pytest.raises(StateError):
        for number in (1, 2, 3):  # batch 1 may have been begun before _stop()
            made.batch(0, number)
    made.close()


def test_forked_workers_that_use_torch():
    """The threads of OpenMP that torch has used in the program do not exist in a fork. A callable that uses torch there would wait for them forever."""
    done = run_script(
        """
        import numpy as np
        import torch
        from stoker import Pipeline, fn
        torch.set_num_threads(2)
        torch.exp(torch.zeros(1_000_000))
        def total(info):
            return np.array([torch.exp(torch.zeros(1_000_000)).sum()])
        pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, py_num_workers=1, py_start_method="fork")
        with pipe:
            pipe.set_outputs(fn.external_source(total, parallel=True, batch=False))
        print([int(np.asarray(sample)[0]) for sample in pipe.run()[0]])
        """
    )
    assert done.stdout == "[1000000, 1000000]\n", done.stderr
