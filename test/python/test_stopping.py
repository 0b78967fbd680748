# SPDX-License-Identifier: Apache-2.0
"""Every kind of work ends soon if it is interrupted, closed, dropped, killed, or still running at the program's end.

Each kind of work (stopping.py) is stopped at a random moment; the seed is printed. STOKER_LONG=1 tries more moments and all ways to stop.
"""

import contextlib
import os
import random
import signal
import struct
import subprocess
import sys
import time

import pytest
import stopping
from support import SEED, alive, run_script

SOON = 20  # maximum number of seconds in which work must end; on an idle machine it takes 2
LONG = bool(os.environ.get("STOKER_LONG"))
MOMENTS = 4 if LONG else 1

# Each kind of work in one random way, or in all ways if STOKER_LONG is set; but READS are only interrupted, and PROCESSES are killed and stopped too.
_draw = random.Random(SEED)
CASES = [
    *(
        (kind, way)
        for kind in stopping.KINDS
        if kind not in stopping.READS
        for way in (stopping.ways_of(kind) if LONG else [_draw.choice(stopping.ways_of(kind))])
    ),
    *((kind, "interrupt") for kind in stopping.READS),
    *((kind, way) for kind in stopping.PROCESSES for way in ("kill", "stop")),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopping")
    stopping.make_files(folder)
    return folder


def wait_until(happens, seconds):
    until = time.monotonic() + seconds
    while not happens() and time.monotonic() < until:
        time.sleep(0.02)
    return happens()


@pytest.mark.parametrize(("kind", "way"), dict.fromkeys(CASES))
def test_a_user_who_stops(files, kind, way):
    for moment in range(MOMENTS):
        seconds = random.Random(f"{SEED} {kind} {way} {moment}").uniform(0, 1)
        stop(files, kind, way, seconds)


def stop(files, kind, way, seconds):
    command = [sys.executable, stopping.__file__, kind, way, str(seconds), str(files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        case = f"{kind}, {way} after {seconds:.3f} s (STOKER_TEST_SEED={SEED})"
        started = set()
        try:
            assert process.stdout.readline() == "ready\n", (case, process.stderr.read())
            time.sleep(seconds)
            started = stopping.descendants(process.pid)
            if way == "kill":
                process.kill()
            elif way == "interrupt":
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SOON)
            assert process.returncode == (-signal.SIGKILL if way == "kill" else 0), (case, process.returncode, err)
            assert "Traceback" not in err, (case, err)
            assert way not in ("close", "stop") or out.endswith("closed\n"), (case, out, err)
            assert wait_until(lambda: not any(map(alive, started)), SOON), f"{case}: processes outlive it"
        except subprocess.TimeoutExpired:
            pytest.fail(f"{case}: it has not ended within {SOON} s")
        finally:
            for pid in {process.pid, *started}:
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)


READS_NO_MORE = """
import sys
import time

import numpy as np
from stoker import DataLoader

class Large:
    def __len__(self):
        return 1000

    def __getitem__(self, i):
        return np.zeros(200_000)

if __name__ == "__main__":
    batches = iter(DataLoader(Large(), 2, num_workers=2, collate_fn=np.stack, multiprocessing_context=sys.argv[1]))
    next(batches)
    print("ready", flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_with_unread_batches_end_if_the_program_is_killed(context, tmp_path):
    """The batches fill the pipe to the killed process, so that workers cannot write them all."""
    program = tmp_path / "program.py"
    program.write_text(READS_NO_MORE)
    with subprocess.Popen([sys.executable, program, context], stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(1)
            workers = stopping.descendants(process.pid)
        finally:
            process.kill()
    try:
        assert len(workers) >= 2
        assert wait_until(lambda: not any(map(alive, workers)), SOON)
    finally:
        for pid in filter(alive, workers):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def alarms(handler):
    """Sends SIGALRM every 20 ms; Python calls the handler in the main thread. All signals that arrive before Python runs the handler result in one call."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def sound_of_many_channels(folder, frames=200_000, channels=1024):
    """Makes a WAV file of zeros, most of which is a hole without disk blocks."""
    path, size = folder / "wide.wav", frames * channels * 2
    form = struct.pack("<HHIIHH", 1, channels, 8000, 16000 * channels, 2 * channels, 16)
    with open(path, "wb") as f:
        f.write(b"RIFF" + struct.pack("<I", size + 36) + b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", size))
        f.truncate(size + 44)
    return path


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "tiff", "wav"])
def test_handlers_of_signals_run_inside_one_long_read(files, tmp_path, kind):
    """A signal's handler runs while a file is decoded, may itself read images, and does not disturb the decoding."""
    import stoker

    small = files / "tree" / "a" / "00.jpg"
    want, calls = stoker.imread(small), []

    def handler(*_):
        assert (stoker.imread(small) == want).all()
        calls.append(0)

    path = sound_of_many_channels(tmp_path) if kind == "wav" else files / stopping.IMAGES[kind]
    with alarms(handler):
        if kind == "wav":
            samples = stoker.audioread(path, mono=True)[0]
            assert samples.size == 200_000
        else:
            assert stoker.imread(path).shape[0] >= stopping.SIZE // 2
    assert len(calls) > 1


def test_a_handler_that_raises_ends_the_decoding(files, tmp_path):
    import numpy as np
    import stoker

    class Stop(Exception):
        pass

    def handler(*_):
        raise Stop

    out = np.full((stopping.SIZE, stopping.SIZE, 3), 77, np.uint8)
    for kind in ("jpeg", "png"):
        with pytest.raises(Stop), alarms(handler):
            stoker.imread(files / stopping.IMAGES[kind], out)
        assert (out[-1] == 77).all(), "the last row was decoded"
    with pytest.raises(Stop), alarms(handler):
        stoker.audioread(sound_of_many_channels(tmp_path), mono=True)
    assert stoker.imread(files / "tree" / "a" / "00.jpg").shape == (200, 200, 3)


def test_workers_outlive_the_thread_that_builds_their_pipeline():
    """The worker processes end with the program, not with the thread that has started them."""
    import threading

    import numpy as np
    from stoker import Pipeline, fn

    made = []

    def build():
        pipe = Pipeline(2, 1, None, py_num_workers=1)
        with pipe:
            pipe.set_outputs(fn.external_source(lambda info: np.int64([os.getpid()]), parallel=True, batch=False))
        pipe.build()
        made.append(pipe)

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert {int(t) for t in made[0].run()[0].as_array().ravel()} == {int(t) for t in made[0].run()[0].as_array().ravel()} != {os.getpid()}
    made[0].close()


def test_workers_that_start_while_the_interpreter_exits():
    """A pipeline starts worker processes while the interpreter exits. The program still exits with code 0, although a sample hangs."""
    code = """
import atexit, multiprocessing.util, threading, time
from stoker import Pipeline, fn
import stopping

built, made = threading.Event(), []

def build():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    pipe = Pipeline(2, 1, None, py_num_workers=2, py_start_method="fork")
    with pipe:
        pipe.set_outputs(fn.external_source(stopping.Hangs(), parallel=True, batch=False))
    made.append(pipe)
    try:
        pipe.build()
    finally:
        built.set()

threading.Thread(target=build, daemon=True).start()
atexit.register(built.wait, 60)
"""
    path = os.pathsep.join([os.path.dirname(stopping.__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FREES_AT_EXIT = """
import os, pathlib, sys, threading
import stopping
import torch

work, begun = stopping.KINDS[sys.argv[1]](pathlib.Path(sys.argv[2])), threading.Event()

def train():
    try:
        while True:
            for batch in work.thing:
                tensors = [torch.zeros(1) for _ in range(500)]
                begun.set()
                del tensors
    finally:
        os.write(1, b"the loop was ended")

threading.Thread(target=train, daemon=True).start()
assert begun.wait(60)
"""


@pytest.mark.parametrize("kind", ["loader", "table", "robot", "mixture", "iterator of the plugin"])
def test_a_daemon_thread_frees_tensors_at_the_programs_end(files, kind):
    """The thread's loop over batches frees tensors nearly all of the time. Torch aborts the process if the interpreter ends the thread meanwhile. The loop is
    ended without a traceback, because the end of the program is no error."""
    pytest.importorskip("torch")
    path = os.pathsep.join([os.path.dirname(stopping.__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run_script(FREES_AT_EXIT, kind, str(files), PYTHONPATH=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the loop was ended", "")


LEFT_AT_EXIT = """
import os, sys, threading, time
from stoker import Loader, Pipeline, Storage, fn
import stopping

class Late:
    closed = done = False

    def write(self, text):
        return len(text)

    def flush(self):
        if self.done or not sys.is_finalizing():  # from then on, Python ends all other threads that ask for the GIL
            return
        self.done = True
        time.sleep(0.5)
        until = time.monotonic() + 20
        while left() and time.monotonic() < until:
            time.sleep(0.01)
        os.write(1, b"left" if left() else b"ended")

def left():
    for task in os.listdir("/proc/self/task"):
        try:
            if open(f"/proc/self/task/{task}/comm").read() == "stk-crew\\n":
                return True
        except OSError:  # the thread has just ended
            pass
    return False

def build(outputs, storage):
    pipe = Pipeline(2, 2, None, storage=storage)
    with pipe:
        pipe.set_outputs(outputs())
    pipe.build()

server = stopping.Silent()
storage = Storage(answer_timeout=60, retries=0, endpoint=server.url, anonymous=True)
work = {
    "tar": lambda: build(lambda: fn.readers.webdataset(paths=["s3://b/a.tar"], ext=["cls"]), storage),
    "tars of a Loader": lambda: Loader(["s3://b/a.tar", "s3://b/b.tar"], 2, storage=storage),
    "listing": lambda: build(lambda: fn.readers.file(file_root="s3://b/train")[0], storage),
    "listing of tables": lambda: Loader("s3://b/*.parquet", 2, storage=storage),
}[sys.argv[1]]
threading.Thread(target=work, daemon=True).start()
connection = server.socket.accept()
time.sleep(0.3)  # the thread waits for the answer by then
sys.stdout = Late()
"""


@pytest.mark.parametrize("kind", ["tar", "tars of a Loader", "listing", "listing of tables"])
def test_a_thread_that_opens_files_while_the_interpreter_exits(kind):
    """While the interpreter exits, Python ends each daemon thread that requests the GIL. The library's threads must not use the stack of an ended thread."""
    path = os.pathsep.join([os.path.dirname(stopping.__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", LEFT_AT_EXIT, kind]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ended"), done.stderr


def test_a_loader_is_closed_while_another_thread_iterates(tmp_path):
    """close() may be called at any moment: it raises nothing, the iteration ends, and another one resumes from the state."""
    import threading

    from PIL import Image
    from stoker import Loader
    from stoker import transforms as T
    from stoker.errors import StateError

    (tmp_path / "a").mkdir()
    for i in range(16):
        Image.effect_noise((100, 100), 50).convert("RGB").save(tmp_path / "a" / f"{i:02}.jpg")
    draw = random.Random(SEED)
    ends = []
    for _ in range(100 if LONG else 25):
        loader = Loader(tmp_path, 2, shuffle=True, num_threads=2, transforms=[T.Resize((64, 64))])

        def iterate(loader=loader):
            try:
                while True:
                    for _ in loader:
                        pass
            except StateError as e:
                ends.append(str(e))

        thread = threading.Thread(target=iterate, daemon=True)
        thread.start()
        time.sleep(draw.uniform(0, 0.05))
        loader.close()
        thread.join(0.2)
        while thread.is_alive():  # if close() was called between two epochs, the thread has begun the next one
            loader.close()
            thread.join(0.2)
        state = loader.state_dict()
        assert sum(len(batch.label) for batch in loader) in range(2, 17, 2)
        assert state["stoker_loader"] == 1
        loader.close()
    assert all("closed" in text for text in ends) and ends


def test_a_thread_waits_while_another_one_closes_the_loader():
    """The waiting thread must not be refused as a second thread that iterates, which CPython without a GIL would make likely."""
    import threading

    from stoker.loader._one_thread import OneThread

    guard, begun, tries, go, entered = OneThread(), threading.Event(), threading.Event(), threading.Event(), []

    def enter():
        tries.set()
        with guard:
            entered.append(go.is_set())

    threads = [threading.Thread(target=guard.ask, args=(lambda: (begun.set(), go.wait(SOON)), print)), threading.Thread(target=enter)]
    threads[0].start()
    assert begun.wait(SOON)
    threads[1].start()
    assert tries.wait(SOON)
    time.sleep(0.05)  # gives the thread time to enter; if it needs more, the test passes too
    go.set()
    for thread in threads:
        thread.join(SOON)
    assert entered == [True]


def test_calls_that_wait_for_a_thread_fail_when_their_loader_is_closed():
    """Waiting calls raise the same error as running ones, not an error of concurrent.futures."""
    import threading

    from stoker.errors import StateError
    from stoker.loader.sources._fetch import Threads

    begun, go = threading.Event(), threading.Event()
    threads = Threads(1)
    runs = threads.submit(lambda: (begun.set(), go.wait(SOON)))
    assert begun.wait(SOON)
    waits = threads.submit(print)
    threads.close()
    for future in (runs, waits):
        with pytest.raises(StateError, match="the Loader was closed"):
            future.result(SOON)
    go.set()


def test_a_handler_of_a_signal_closes_the_loader_that_waits():
    import threading

    from stoker import Loader, Storage
    from stoker import transforms as T
    from stoker.errors import StateError

    server = stopping.Silent()
    storage = Storage(answer_timeout=60)
    loader = Loader([(f"{server.url}/{i}.jpg", i) for i in range(8)], 2, storage=storage, transforms=[T.Resize((8, 8))], num_threads=1)
    before = signal.signal(signal.SIGALRM, lambda *_: loader.close())

    def interrupt():
        connection, _ = server.socket.accept()  # the Loader reads, and its thread waits or is about to
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        connections.append(connection)

    connections = []
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(StateError, match="the Loader was closed"):
            next(iter(loader))
    finally:
        signal.signal(signal.SIGALRM, before)
        server.socket.close()
    assert loader.state_dict()["epoch"] == 0


class Alarm(Exception):
    pass


def raise_alarm(*_):
    raise Alarm


@pytest.mark.parametrize("kind", ["loader", "pipeline"])
def test_a_handler_that_raises_loses_no_batch(kind):
    """A signal arrives during each wait for a batch, just before the batch does. The signal's handler raises an error; the batch must not be lost, but returned
    by the next call."""
    import numpy as np
    from stoker import Loader, Pipeline, fn

    class Slow:
        def __len__(self):
            return 8

        def __getitem__(self, i):
            time.sleep(0.04)
            return np.full((4, 4, 3), i, np.uint8), i

    if kind == "loader":
        loader = Loader(Slow(), 1, num_threads=1)
        iterator = iter(loader)
        take = lambda: int(next(iterator)[1])  # noqa: E731
        position = lambda: (loader.state_dict()["pipeline"] or {"consumed": 0})["consumed"]  # noqa: E731
    else:
        pipe = Pipeline(1, 1, None)
        with pipe:
            pipe.set_outputs(fn.external_source(lambda i: [np.int64([Slow()[i.iteration][1]])], batch_info=True))
        pipe.build()
        take = lambda: int(np.array(pipe.run()[0][0])[0])  # noqa: E731
        position = lambda: len(taken)  # noqa: E731
    before = signal.signal(signal.SIGALRM, raise_alarm)
    taken, alarms = [take()], 0  # the first batch comes without an alarm: modules are imported for it
    try:
        while len(taken) < 8:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                number = take()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Alarm:
                alarms += 1
                assert position() == len(taken)
                number = take()
            taken.append(number)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert taken == list(range(8)) and alarms


def raising(at, *files, kind=Alarm):
    """Returns a function for sys.setprofile that raises `kind` at the `at`-th call of a function in one of these files, or return of a function in C to them:
    there the interpreter runs the handlers of signals. The function's attribute `calls` counts them."""

    def profile(frame, event, _):
        if event in ("call", "c_return") and frame.f_code.co_filename.endswith(files):
            profile.calls += 1
            if profile.calls == at:
                sys.setprofile(None)
                raise kind

    profile.calls = 0
    return profile


def test_a_handler_that_raises_at_the_end_does_not_begin_the_next_epoch():
    import numpy as np
    from stoker import Loader

    images, labels = np.zeros((6, 4, 4, 3), np.uint8), np.arange(6)
    for at in range(1, 60):
        loader = Loader((images, labels), 3, num_threads=1)
        batches = iter(loader)
        taken = [next(batches).label.tolist() for _ in range(2)]
        profile = raising(at, "_waiting.py")
        sys.setprofile(profile)
        try:
            assert next(batches, None) is None
        except Alarm:
            pass
        finally:
            sys.setprofile(None)
        taken += [batch.label.tolist() for batch in batches]
        assert taken == [[0, 1, 2], [3, 4, 5]], at
        assert len(list(loader)) == 2
        if profile.calls < at:
            break
    assert at > 2


class Stop(KeyboardInterrupt):
    pass


def _plain_loader(**settings):
    import numpy as np
    from stoker import Loader

    return Loader((np.zeros((8, 4, 4, 3), np.uint8), np.arange(8)), 2, num_threads=1, **settings)


def _dataset_loader():
    import numpy as np
    from stoker import Loader

    class Samples:
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return np.zeros((4, 4, 3), np.uint8), i

    return Loader(Samples(), 2, num_threads=1)


INTERRUPTED = {
    "arrays": _plain_loader,
    "dataset": _dataset_loader,
    "sampler": lambda: _plain_loader(sampler=list(range(8))),
    "valid": lambda: _plain_loader(last_batch="pad", fields=("label", "valid")),
    "collate": lambda: _plain_loader(collate_fn=stopping.add_in_place),
    "mix": lambda: _plain_loader(batch_transforms=[stopping.add_to_labels]),
}


@pytest.mark.parametrize("saved", [False, True], ids=["goes on", "saves"])
@pytest.mark.parametrize("kind", INTERRUPTED)
def test_an_interrupt_at_any_call_loses_no_batch(kind, saved):
    """Ctrl-C comes at each call between the loop and the library in turn. The batch that did not reach the loop is the next one, of this Loader or of another
    one that continues from its state, and its bytes were not changed twice."""
    files = (
        "loader/loader.py",
        "_run.py",
        "_session.py",
        "_epoch.py",
        "_one_thread.py",
        "_tuples.py",
        "_handover.py",
        "_collate.py",
        "_mix.py",
        "/stopping.py",
    )
    wanted = [[i + 100 * (kind in ("collate", "mix")) for i in (k, k + 1)] for k in range(0, 8, 2)]
    loader, at = INTERRUPTED[kind](), 0
    try:
        while True:
            at += 1
            batches = iter(loader)
            taken = [next(batches).label.tolist()]
            profile = raising(at, *files, kind=Stop)
            sys.setprofile(profile)
            try:
                taken.append(next(batches).label.tolist())
            except Stop:
                pass
            finally:
                sys.setprofile(None)
            if saved:
                state = loader.state_dict()
                loader.close()
                loader = INTERRUPTED[kind]()
                loader.load_state_dict(state)
                batches = iter(loader)
            taken += [batch.label.tolist() for batch in batches]
            assert taken == wanted, at
            if profile.calls < at:
                break
    finally:
        loader.close()
    assert at > 10


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("way", ["run", "pytorch", "dlpack"])
def test_an_interrupt_at_any_call_loses_no_batch_of_a_pipeline(way, second):
    """As above, for Pipeline.run and DALI's iterators: the next call gives the batch that did not reach the caller."""
    import numpy as np
    from stoker import Pipeline, fn
    from stoker.plugin.dlpack import DLPackIterator
    from stoker.plugin.pytorch import DALIGenericIterator

    class Numbers:
        def __call__(self, info):
            if info.idx_in_epoch >= 8:
                raise StopIteration
            return np.array([info.idx_in_epoch])

    files = ("base_iterator.py", "dlpack.py", "_handover.py", "_session.py", "pipeline.py", "pytorch/__init__.py")
    for at in range(1, 200):
        pipe = Pipeline(2, 1, None)
        with pipe:
            pipe.set_outputs(fn.external_source(Numbers(), batch=False))
        pipe.build()
        if way == "run":
            take = lambda: np.array(pipe.run()[0].as_tensor()).ravel().tolist()  # noqa: E731, B023
        elif way == "pytorch":
            iterator = DALIGenericIterator(pipe, ["x"])
            take = lambda: next(iterator)[0]["x"].ravel().tolist()  # noqa: E731, B023
        else:
            iterator = DLPackIterator(pipe, ["x"], np.from_dlpack)
            take = lambda: next(iterator)["x"].ravel().tolist()  # noqa: E731, B023
        taken = [take()] if second else []
        profile = raising(at, *files, kind=Stop)
        sys.setprofile(profile)
        try:
            taken.append(take())
        except Stop:
            pass
        finally:
            sys.setprofile(None)
        with contextlib.suppress(StopIteration):
            while True:
                taken.append(take())
        assert taken == [[0, 1], [2, 3], [4, 5], [6, 7]], at
        if profile.calls < at:
            break
    assert at > 5


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the exception may come in a __del__, where CPython prints it
@pytest.mark.parametrize("ahead", [False, True])
def test_an_interrupt_at_any_call_loses_no_id_of_a_sampler_without_a_length(ahead, monkeypatch):
    """Ctrl-C comes at each call in turn, as the ids of the next stretch are drawn: in the middle of an epoch, or at its end, where too few ids are left."""
    from stoker.loader._order import Order

    monkeypatch.setattr(Order, "most", 4)  # ids in a stretch
    files = ("loader/loader.py", "_run.py", "_session.py", "_order.py", "_spec.py", "_waiting.py")
    wanted = [[i % 8, i % 8 + 1] for i in range(0, 10, 2)]
    loader, at = _plain_loader(sampler=_TenIds(), last_batch="drop"), 0
    try:
        while True:
            at += 1
            batches = iter(loader)
            taken = [next(batches).label.tolist() for _ in range(4 if ahead else 2)]
            profile = raising(at, *files, kind=Stop)
            sys.setprofile(profile)
            try:
                taken.append(next(batches).label.tolist())
            except Stop:
                pass
            finally:
                sys.setprofile(None)
            taken += [batch.label.tolist() for batch in batches]
            assert taken == wanted, at
            if profile.calls < at:
                break
    finally:
        loader.close()
    assert at > 10


@pytest.mark.parametrize("kind", [Stop, ValueError])
def test_a_sampler_that_an_exception_has_ended_loses_no_ids_silently(kind, monkeypatch):
    """The exception passes through the user's generator, which gives no further ids then. The Loader says so instead of ending the epoch early."""
    from stoker.errors import StateError
    from stoker.loader._order import Order

    monkeypatch.setattr(Order, "most", 4)  # ids in a stretch
    wanted = [[i % 8, i % 8 + 1] for i in range(0, 10, 2)]
    raises = [True]

    def ids(epoch):
        for i in range(10):
            if i == 6 and raises:
                raises.clear()
                raise kind
            yield i % 8

    loader = _plain_loader(sampler=ids)
    try:
        batches = iter(loader)
        assert [next(batches).label.tolist() for _ in range(2)] == wanted[:2]
        with pytest.raises(kind):
            next(batches)
        for _ in range(3):
            with pytest.raises(StateError, match="an exception has ended the sampler, a generator"):
                next(batches)
        loader.set_epoch(loader.epoch)
        assert [batch.label.tolist() for batch in loader] == wanted and loader.epoch == 1
    finally:
        loader.close()


class _TenIds:
    def __iter__(self):
        return (i % 8 for i in range(10))


INTERRUPTED_AT_ENDS = {
    **INTERRUPTED,
    "stretches": lambda: _plain_loader(sampler=_WithoutLength()),
    "own pipeline": lambda: _loader_of_a_pipeline(),
}


class _WithoutLength:
    def __iter__(self):
        return iter(range(8))


def _loader_of_a_pipeline():
    from stoker import Loader, Pipeline, fn

    pipe = Pipeline(2, 1, None)
    with pipe:
        pipe.set_outputs(fn.readers.file(files=[__file__] * 8, labels=list(range(8)), name="Reader", tail="keep")[1])
    return Loader(pipe, fields=("label",))


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the exception may come in a __del__, where CPython prints it
@pytest.mark.parametrize("then", ["goes on", "begins a loop", "saves"])
@pytest.mark.parametrize("kind", INTERRUPTED_AT_ENDS)
def test_an_interrupt_at_the_end_of_an_epoch_does_not_lose_the_end(kind, then, monkeypatch):
    """Ctrl-C comes at each call between the loop and the library in turn, after the epoch's last batch. The next call reports the end, and a new loop has the
    batches of the next epoch."""
    from stoker.loader._order import Order

    monkeypatch.setattr(Order, "most", 4)  # ids in a stretch
    files = (
        "loader/loader.py",
        "_run.py",
        "_session.py",
        "_epoch.py",
        "_one_thread.py",
        "_waiting.py",
        "pipeline.py",
        "_dataset.py",
        "_source.py",
    )
    wanted = [[i + 100 * (kind in ("collate", "mix")) for i in (k, k + 1)] for k in range(0, 8, 2)]
    loader, at, epoch = INTERRUPTED_AT_ENDS[kind](), 0, 0
    try:
        while True:
            at += 1
            batches = iter(loader)
            taken = [next(batches).label.flatten().tolist() for _ in range(4)]
            profile = raising(at, *files, kind=Stop)
            sys.setprofile(profile)
            try:
                assert next(batches, None) is None
            except Stop:
                pass
            finally:
                sys.setprofile(None)
            if then == "goes on":
                taken += [batch.label.flatten().tolist() for batch in batches]
            elif then == "saves" and kind not in (
                "own pipeline",
                "stretches",
            ):  # whose states are of another kind, or refused before the end is known
                state = loader.state_dict()
                loader.close()
                loader = INTERRUPTED_AT_ENDS[kind]()
                loader.load_state_dict(state)
            assert taken == wanted, at
            assert [batch.label.flatten().tolist() for batch in loader] == wanted, at
            epoch += 2
            assert loader.epoch == epoch, at
            if profile.calls < at:
                break
    finally:
        loader.close()
    assert at > 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", ["run", "pytorch", "dlpack", "pytorch with auto_reset", "two pipelines", "reader"])
def test_an_interrupt_does_not_lose_the_end_of_an_epoch_of_a_pipeline(way):
    """As above, for Pipeline.run and DALI's iterators: the next call raises StopIteration, once."""
    import numpy as np
    from stoker import Pipeline, fn
    from stoker.plugin.dlpack import DLPackIterator
    from stoker.plugin.pytorch import DALIGenericIterator

    def numbers(info):
        if info.idx_in_epoch >= 6:
            raise StopIteration
        return np.array([info.idx_in_epoch + 100 * info.epoch_idx])

    def made():
        pipe = Pipeline(2, 1, None)
        with pipe:
            if way == "reader":
                pipe.set_outputs(fn.readers.file(files=[__file__] * 6, labels=list(range(6)), name="Reader")[1])
            else:
                pipe.set_outputs(fn.external_source(numbers, batch=False))
        pipe.build()
        return pipe

    def taken():
        try:
            return take()
        except StopIteration:
            return "end"

    files = ("base_iterator.py", "dlpack.py", "_session.py", "pipeline.py", "pytorch/__init__.py")
    for at in range(1, 300):
        pipe = made()
        pipes, settings = [pipe], {"auto_reset": "auto_reset" in way}
        if way == "two pipelines":
            pipes.append(made())
            settings["size"] = 12
        elif way == "reader":
            settings |= {"reader_name": "Reader", "auto_reset": True}
        if way == "run":
            take, reset = lambda: np.array(pipe.run()[0].as_tensor()).ravel().tolist(), pipe.reset  # noqa: B023
        elif way == "dlpack":
            iterator = DLPackIterator(pipe, ["x"], np.from_dlpack)
            take, reset = lambda: next(iterator)["x"].ravel().tolist(), iterator.reset  # noqa: B023
        else:
            iterator = DALIGenericIterator(pipes, ["x"], **settings)
            take, reset = lambda: next(iterator)[0]["x"].ravel().tolist(), iterator.reset  # noqa: B023
        steps = [taken() for _ in range(3)]
        profile = raising(at, *files, kind=Stop)
        sys.setprofile(profile)
        try:
            steps.append(taken())
        except Stop:
            steps.append(taken())
        finally:
            sys.setprofile(None)
        if not settings["auto_reset"]:
            reset()
        steps += [taken() for _ in range(4)]
        second = 0 if way == "reader" else 100
        epochs = [[i + first for i in (k, k + 1)] for first in (0, second) for k in (0, 2, 4)]
        assert steps == [*epochs[:3], "end", *epochs[3:], "end"], at
        for one in pipes:
            one.close()
        if profile.calls < at:
            break
    assert at > 5


@pytest.mark.parametrize("feeds", ["run", "iter_setup"])
def test_an_interrupt_does_not_pair_inputs_with_the_results_of_others(feeds, monkeypatch):
    """If the user feeds each batch, a batch that an interrupt kept from the caller is not given as the result of the next input."""
    import numpy as np
    from stoker import Pipeline, fn, pipeline

    class Fed(Pipeline):
        number = 0

        def iter_setup(self):
            if feeds == "iter_setup":
                self.feed_input("x", [np.array([self.number])])

    converted = pipeline.tensor_list

    def interrupted(batch, output):
        if pipe.number == 2:
            raise Stop
        return converted(batch, output)

    monkeypatch.setattr(pipeline, "tensor_list", interrupted)
    pipe = Fed(1, 1, None)
    with pipe:
        pipe.set_outputs(fn.external_source(name="x"))
    pipe.build()
    pairs = []
    for pipe.number in range(5):
        with contextlib.suppress(Stop):
            out = pipe.run(x=[np.array([pipe.number])]) if feeds == "run" else pipe.run()
            pairs.append((pipe.number, np.array(out[0].as_tensor()).ravel().tolist()))
    assert pairs == [(k, [k]) for k in (0, 1, 3, 4)]


@pytest.mark.parametrize("kind", ["collate", "once"])
def test_a_new_loop_after_an_interrupt_in_a_users_function_begins_the_next_epoch(kind):
    import numpy as np
    import torch
    from stoker import Loader

    class Once(torch.utils.data.IterableDataset):
        def __init__(self):
            self.numbers = iter(range(8))

        def __iter__(self):
            return self

        def __next__(self):
            return np.zeros((4, 4, 3), np.uint8), next(self.numbers)

    def interrupted(batch):
        seen.append(batch.label.tolist())
        if len(seen) == 2:
            raise Stop
        return batch

    seen = []
    data = Once() if kind == "once" else (np.zeros((8, 4, 4, 3), np.uint8), np.arange(8))
    loader = Loader(data, 2, num_threads=1, collate_fn=interrupted)
    batches = iter(loader)
    taken = [next(batches).label.tolist()]
    with pytest.raises(Stop):
        next(batches)
    if kind == "once":  # the data cannot be read again, so the loop continues with the batch after the interrupted one
        assert [batch.label.tolist() for batch in batches] == [[4, 5], [6, 7]]
    else:
        assert len(list(loader)) == 4 and loader.epoch == 2
    assert taken == [[0, 1]]


@pytest.mark.parametrize("call", ["iter", "state_dict"])
def test_a_handler_that_raises_does_not_lock_a_loader(call):
    """The Loader is not "in use" after the exception, wherever it came: not for this thread, and not for another one."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    from stoker import Loader

    data = np.zeros((6, 4, 4, 3), np.uint8), np.arange(6)
    for at in range(1, 60):
        with Loader(data, 3, num_threads=1) as loader:
            profile = raising(at, "_one_thread.py", "_fair_lock.py")
            sys.setprofile(profile)
            try:
                iter(loader) if call == "iter" else loader.state_dict()
            except Alarm:
                pass
            finally:
                sys.setprofile(None)
            if at % 2:
                with ThreadPoolExecutor(1) as thread:
                    assert len(list(thread.submit(list, loader).result())) == 2, at
            loader.state_dict()
            assert len(list(loader)) == 2, at
            assert not loader._one_thread._lock.locked()
        if profile.calls < at:
            break
    assert at > 4


def test_the_users_pipeline_continues_after_its_loader_was_closed():
    """Closing the Loader ends the other thread's wait, but leaves the user's pipeline running."""
    import queue
    import threading

    import numpy as np
    from stoker import Loader, Pipeline, fn
    from stoker.errors import StateError

    numbers, begun = queue.SimpleQueue(), threading.Event()
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(fn.external_source(lambda: begun.set() or [np.int64([numbers.get()])]))
    loader = Loader(pipe)
    ends = []

    def iterate():
        try:
            for _ in loader:
                pass
        except StateError as e:
            ends.append(str(e))

    thread = threading.Thread(target=iterate, daemon=True)
    thread.start()
    assert begun.wait(SOON)
    time.sleep(0.3)  # the thread is in its wait by then
    loader.close()
    thread.join(SOON)
    assert ends == ["the Loader was closed while a batch was waited for"]
    for i in range(8):
        numbers.put(i)
    assert [int(pipe.run()[0].as_array()[0, 0]) for _ in range(3)] == [0, 1, 2]
    for i in range(8):  # lets the calls in progress return
        numbers.put(i)
    pipe.close()


ENDS_AMID_CALLS = """
    import os, sys, time
    import numpy as np
    import stoker
    kind, seconds = sys.argv[1], float(sys.argv[2])
    picture = np.zeros((8, 8, 3), np.uint8)
    def work():
        os.write(1, b"begun ")
        time.sleep(seconds)
        os.write(1, b"ended ")
    class Photos:
        def __len__(self):
            return 1000
        def __getitem__(self, i):
            if i:
                work()
            return picture, i
    def fetch(uri, offset, length):
        if not uri.endswith("/0.bin"):
            work()
        return bytes(100)
    if kind == "dataset":
        loader = stoker.Loader(Photos(), 2, transforms=[stoker.transforms.Resize((8, 8))], num_threads=2)  # of one size, so that none is compared
        batches = iter(loader)
    else:
        from stoker import Pipeline, fn
        pipe = Pipeline(2, 2, None, storage=stoker.Storage(fetch=fetch, fetch_threads=4))
        with pipe:
            pipe.set_outputs(fn.readers.file(files=[f"store://b/{i}.bin" for i in range(100)])[0])
        pipe.build()
        pipe.run()
    if kind == "dataset":
        next(batches)
    os.write(1, b"taken ")
"""


@pytest.mark.parametrize("kind", ["dataset", "fetch"])
def test_the_end_of_a_program_waits_for_running_calls(kind):
    """The end of a program waits for running calls. If a call returned after the interpreter has ended, C++ code would abort the process."""
    for seconds in (0.05, 0.3):
        words = run_script(ENDS_AMID_CALLS, kind, str(seconds), timeout=100).stdout.split()
        assert "taken" in words and words.count("begun") == words.count("ended") > 0, words


ENDS_AMID_A_RESULTS_END = """
import os, sys, threading, time
from stoker.loader.sources._fetch import Threads
begun, go, freeing = threading.Event(), threading.Event(), threading.Event()
class Result:  # as a tensor of torch, whose memory C++ code frees without Python's lock
    def __del__(self):
        os.write(1, b"begun ")
        freeing.set()
        time.sleep(0.3)
        os.write(1, b"ended ")
def make():
    begun.set()
    go.wait()
    return Result()
threads = Threads(2)
future = threads.submit(make)
begun.wait()
if sys.argv[1] == "closed":  # the result has no owner
    threads.close()
else:
    future.add_done_callback(lambda future: globals().pop("future"))
    del threads
go.set()
freeing.wait()
"""


@pytest.mark.parametrize("kind", ["closed", "dropped"])
def test_the_end_of_a_program_waits_until_a_result_is_freed(kind):
    begun = time.monotonic()
    done = run_script(ENDS_AMID_A_RESULTS_END, kind, timeout=100)
    assert done.stdout.split() == ["begun", "ended"]
    assert time.monotonic() - begun < SOON


def test_the_end_of_a_program_gives_up_on_a_call_that_hangs():
    begun = time.monotonic()
    done = run_script(ENDS_AMID_CALLS.replace("if i:", "if i > 1:"), "dataset", "1000", timeout=100)
    assert done.stdout.count("begun") > done.stdout.count("ended") == 0
    assert "not waited for any longer" in done.stderr
    assert time.monotonic() - begun < SOON * 2
