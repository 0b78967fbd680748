# SPDX-License-Identifier: Apache-2.0
"""A user who stops: every kind of work ends soon if it is interrupted, closed, dropped, killed, or still runs at the program's end.

Each kind of work (stopping.py) is stopped in each way at a random moment; the seed is printed. STOKER_LONG=1 tries more moments.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import stopping
from support import SEED, alive

SOON = 20  # seconds; it takes 2 on an idle machine
LONG = bool(os.environ.get("STOKER_LONG"))
MOMENTS = 4 if LONG else 1

# By default each kind is stopped in one way, with STOKER_LONG in all ways.
_draw = random.Random(SEED)
CASES = [
    *((kind, way) for kind in stopping.KINDS if kind != "imread" for way in (stopping.WAYS if LONG else [_draw.choice(stopping.WAYS)])),
    ("imread", "interrupt"),
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
        told = f"{kind}, {way} after {seconds:.3f} s (STOKER_TEST_SEED={SEED})"
        started = set()
        try:
            assert process.stdout.readline() == "ready\n", (told, process.stderr.read())
            time.sleep(seconds)
            started = stopping.descendants(process.pid)
            if way == "kill":
                process.kill()
            elif way == "interrupt":
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SOON)
            assert process.returncode == (-signal.SIGKILL if way == "kill" else 0), (told, process.returncode, err)
            assert "Traceback" not in err, (told, err)
            assert way not in ("close", "stop") or out.endswith("closed\n"), (told, out, err)
            assert wait_until(lambda: not any(map(alive, started)), SOON), f"{told}: processes outlive it"
        except subprocess.TimeoutExpired:
            pytest.fail(f"{told}: it has not ended within {SOON} s")
        finally:
            for pid in {process.pid, *started}:
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)


def test_workers_outlive_the_thread_that_builds_their_pipeline():
    """The workers end with the process, and not with that thread."""
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


def test_a_loader_is_closed_while_another_thread_iterates(tmp_path):
    """The close comes at any moment: close() raises nothing, the iteration ends, and another one resumes from the state."""
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
        while thread.is_alive():  # the close came between two epochs, and the thread has begun the next one
            loader.close()
            thread.join(0.2)
        state = loader.state_dict()
        assert sum(len(batch.label) for batch in loader) in range(2, 17, 2)
        assert state["stoker_loader"] == 1
        loader.close()
    assert all("closed" in text for text in ends) and ends


def test_a_handler_of_a_signal_closes_the_loader_that_waits(tmp_path):
    from stoker import Loader, Storage
    from stoker import transforms as T
    from stoker.errors import StateError

    server = stopping.Silent()
    storage = Storage(answer_timeout=60)
    loader = Loader([(f"{server.url}/{i}.jpg", i) for i in range(8)], 2, storage=storage, transforms=[T.Resize((8, 8))], num_threads=1)
    before = signal.signal(signal.SIGALRM, lambda *_: loader.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(StateError, match="the Loader was closed"):
            next(iter(loader))
    finally:
        signal.signal(signal.SIGALRM, before)
        server.socket.close()
    assert loader.state_dict()["epoch"] == 0


def test_a_pipeline_of_the_users_goes_on_after_its_loader_was_closed():
    """Closing the Loader ends the other thread's wait, but leaves the user's pipeline running."""
    import queue
    import threading

    import numpy as np
    from stoker import Loader, Pipeline, fn
    from stoker.errors import StateError

    numbers = queue.SimpleQueue()
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(fn.external_source(lambda: [np.int64([numbers.get()])]))
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
    time.sleep(0.3)
    loader.close()
    thread.join(SOON)
    assert ends == ["the Loader was closed while a batch was waited for"]
    for i in range(8):
        numbers.put(i)
    assert [int(pipe.run()[0].as_array()[0, 0]) for _ in range(3)] == [0, 1, 2]
    for i in range(8):  # lets the calls in progress return
        numbers.put(i)
    pipe.close()
