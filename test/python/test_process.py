# SPDX-License-Identifier: Apache-2.0
"""Pipelines and their process: Ctrl-C, the interpreter's exit, forks, the GIL, timeouts, and other libraries of images."""

import pytest

_PIPELINE = """
import os, signal, sys, threading, time
from stoker import fn, pipeline_def
ROOT = sys.argv[1]

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def images():
    data, label = fn.readers.file(file_root=ROOT, random_shuffle=True)
    return fn.resize(fn.decoders.image(data), size=[16, 16]), label

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def slow(seconds):
    import numpy as np
    def source(info):
        time.sleep(seconds)
        return np.zeros(3, np.uint8)
    return fn.external_source(source, batch=False)
"""


def check(script, body, root, timeout=60):
    done = script(_PIPELINE + "\n" + body, str(root), timeout=timeout)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


# A pipeline whose source waits for `interrupted`, and a function that sends Ctrl-C once the source waits.
WAITS = """
begun, interrupted = threading.Event(), threading.Event()

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def waits():
    import numpy as np
    def source(info):
        begun.set()
        interrupted.wait()
        return np.zeros(3, np.uint8)
    return fn.external_source(source, batch=False)

def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.essential
def test_ctrl_c_ends_a_wait(tree, script):
    """The source waits until run() has ended, so run() ends only if Ctrl-C ends its wait."""
    done = check(
        script,
        WAITS
        + """
threading.Thread(target=interrupt).start()
try:
    pipe = waits()
    pipe.build()
    pipe.run()
except KeyboardInterrupt:
    print("interrupted")
    sys.stdout.flush()
    os._exit(0)
os._exit(3)
""",
        tree,
    )
    assert done.stdout == "interrupted\n"


def test_ctrl_c_leaves_the_pipeline_usable(tree, script):
    check(
        script,
        WAITS
        + """
pipe = waits()
pipe.build()
try:
    threading.Thread(target=interrupt).start()
    pipe.run()
    sys.exit("no interrupt")
except KeyboardInterrupt:
    interrupted.set()
assert len(pipe.run()[0]) == 4
""",
        tree,
    )


@pytest.mark.parametrize("where", ["source", "function"])
def test_ctrl_c_ends_a_close_that_waits_for_a_call(tree, script, where):
    """The user's call never returns. After Ctrl-C neither close() nor the interpreter's exit waits for that call."""
    done = check(
        script,
        f"""
import numpy as np
inside, never = threading.Event(), threading.Event()
def waits(x):
    inside.set()
    never.wait()
    return x
@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def define():
    if {where!r} == "source":
        return fn.external_source(lambda info: waits(np.zeros(3, np.uint8)), batch=False)
    return fn.python_function(fn.random.uniform(), function=waits)
pipe = define()
pipe.build()
pipe.start()
assert inside.wait(30)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    pipe.close()
except KeyboardInterrupt:
    print("interrupted")
pipe.close()
try:
    pipe.run()
except RuntimeError as e:
    print(e)
""",
        tree,
    )
    assert done.stdout == "interrupted\nthe pipeline is closed: make a new one\n" and done.stderr == ""


@pytest.mark.essential
@pytest.mark.parametrize(
    "kept", ["pipe", "kept = pipe.run()", "import torch; kept = torch.from_dlpack(pipe.run()[0].as_tensor())", "pipe.start()"]
)
def test_the_interpreter_ends_with_a_running_pipeline(tree, script, kept):
    done = check(script, f"pipe = images()\npipe.run()\n{kept}\n", tree)
    assert done.stderr == ""


def test_the_interpreter_ends_with_a_running_callable(tree, script):
    done = check(script, "pipe = slow(0.01)\npipe.run()\n", tree)
    assert done.stderr == ""


def test_the_interpreter_ends_in_another_threads_wait(tree, script):
    check(script, "pipe = slow(0.2)\npipe.build()\nthreading.Thread(target=pipe.run, daemon=True).start()\ntime.sleep(0.1)\n", tree)


@pytest.mark.essential
def test_pipelines_work_in_a_forked_child(tree, script):
    done = check(
        script,
        """
import warnings
import torch
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # from CPython 3.12 on
pipe = images()
mine = pipe.run()
tensor = torch.from_dlpack(pipe.run()[0].as_tensor())
child = os.fork()
if child == 0:
    try:
        pipe.run()
        os._exit(1)
    except RuntimeError as e:
        if "after a fork" not in str(e):
            os._exit(2)
    new = images()
    if len(new.run()[0]) != 4:
        os._exit(3)
    del pipe, mine, tensor
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert len(pipe.run()[0]) == 4
""",
        tree,
    )
    assert done.stderr == ""


@pytest.mark.parametrize("when", ["before an epoch", "in an epoch", "closed"])
def test_objects_can_be_shown_in_a_forked_child(tree, script, when):
    """A child of a fork shows them in logs and debuggers. The objects work only in the parent process."""
    check(
        script,
        f"""
import warnings
from stoker import Loader, transforms as T
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # from CPython 3.12 on
made = lambda **more: Loader(ROOT, 4, transforms=[T.Resize((16, 16))], **more)
pipe = images()
shown = [made(), made(shuffle=True), made(sampler=lambda epoch: range(8)), Loader(images()), Loader.mix([(made(), 1)]), pipe]
if {when!r} == "in an epoch":
    iterators = [iter(thing) for thing in shown[:3]]
    batches = [next(iterator) for iterator in iterators]
if {when!r} == "closed":
    for thing in shown:
        thing.close()
"""
        + """
child = os.fork()
if child == 0:
    try:
        for thing in shown:
            assert "Loader(" in repr(thing) or "Pipeline(" in repr(thing)
            getattr(thing, "_repr_html_", str)()
        os._exit(0)
    finally:
        os._exit(1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert all(repr(thing) for thing in shown)
""",
        tree,
    )


def test_multiprocessing_by_fork_while_a_pipeline_runs(tree, script):
    check(
        script,
        """
import multiprocessing
def work(n):
    pipe = images()
    return sum(len(pipe.run()[0]) for _ in range(n))
if __name__ == "__main__":
    pipe = images()
    pipe.run()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(work, [1, 2, 3]) == [4, 8, 12]
    pipe.run()
""",
        tree,
    )


def test_the_gil_is_free_while_waiting(tree, script):
    """The source and another Python thread run in turns while run() waits for the source."""
    done = check(
        script,
        """
asked, answered = threading.Semaphore(0), threading.Semaphore(0)

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def waits():
    import numpy as np
    def source(info):
        for _ in range(20):  # run() waits meanwhile
            asked.release()
            answered.acquire()
        return np.zeros(3, np.uint8)
    return fn.external_source(source, batch=False)

def answer():
    while True:
        asked.acquire()
        answered.release()

threading.Thread(target=answer, daemon=True).start()
pipe = waits()
pipe.build()
print(len(pipe.run()[0]))
""",
        tree,
    )
    assert done.stdout == "4\n"


def test_timeout_loses_nothing(tree, script):
    check(
        script,
        """
import numpy as np
from stoker.errors import StalledError
released = threading.Event()
@pipeline_def(batch_size=2, num_threads=1, device_id=None, timeout=0.2)
def waiting():
    def source(info):
        released.wait()
        return np.int32([info.idx_in_epoch])
    return fn.external_source(source, batch=False)
pipe = waiting()
try:
    pipe.run()
    sys.exit("no timeout")
except StalledError as e:
    assert isinstance(e, TimeoutError)
released.set()
assert pipe.run()[0].as_array().flatten().tolist() == [0, 1]
""",
        tree,
    )


def test_import_order_with_other_libraries_of_images(tree, script):
    for before, after in (
        ("import torch, PIL.Image, numpy", ""),
        ("", "import torch, PIL.Image, numpy"),
        ("import PIL.Image", "import torch"),
    ):
        check(script, f"{before}\nimages().run()\n{after}\nimages().run()\n", tree)


def test_a_thread_with_a_small_stack_makes_a_pipeline(tree, script):
    code = """
import threading

def work():
    images().run()
    print("made")

threading.stack_size(128 << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    assert check(script, code, tree).stdout == "made\n"
