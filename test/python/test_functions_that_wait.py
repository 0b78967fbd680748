# SPDX-License-Identifier: Apache-2.0
"""Users' functions that wait for other pipelines. Each run of the cases is a process with a time limit, because such a function could wait for itself."""

import pytest
from support import run_script

pytest.importorskip("torch")

PROGRAM = """
import faulthandler, sys, threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from stoker import Loader, Pipeline, fn
from stoker import transforms as T
from stoker.errors import StateError

faulthandler.dump_traceback_later(100, exit=True)
threads = int(sys.argv[1])
images = np.zeros((12, 8, 9, 3), np.uint8)
others = np.full((12, 8, 9, 3), 7, np.uint8)
pool = ThreadPoolExecutor(2)


def loader(source, *functions, **more):
    return Loader(source, 4, transforms=list(functions), num_threads=threads, shuffle=False, dtype="uint8", **more)


class Drawn:
    "Returns an image of another Loader's next batch at each call. The lock allows several workers to call it."

    def __init__(self, loader):
        self.loader, self.batches, self.lock = loader, iter(()), threading.Lock()

    def __call__(self):
        with self.lock:
            batch = next(self.batches, None)
            if batch is None:
                self.batches = iter(self.loader)
                batch = next(self.batches)
            return batch[0][0].permute(1, 2, 0).numpy()


class Dataset(torch.utils.data.Dataset):
    def __init__(self, drawn):
        self.drawn = drawn

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return self.drawn(), index


def pipeline(source, function=None, by_batch=False):
    pipe = Pipeline(batch_size=4, num_threads=threads, device_id=None)
    with pipe:
        made = fn.external_source(source=source)
        pipe.set_outputs(made if function is None else fn.python_function(made, function=function, batch_processing=by_batch))
    pipe.build()
    return pipe


def epoch(loader):
    return [int(batch[0].min()) for batch in loader]


def drawing(drawn):
    return lambda image: np.maximum(image, drawn())


def a_plain_loader():
    assert epoch(loader(images, drawing(Drawn(loader(others))))) == [7] * 3


def a_loader_with_a_function():
    inner = Drawn(loader(others))
    assert epoch(loader(images, drawing(Drawn(loader(others, drawing(inner)))))) == [7] * 3


def a_loader_on_a_thread_of_the_function():
    drawn = Drawn(loader(others))
    assert epoch(loader(images, drawing(lambda: pool.submit(drawn).result()))) == [7] * 3


def transforms_on_threads_of_the_function():
    flip, brighten = T.RandomHorizontalFlip(1.0), T.Lambda(lambda image: image + 7)
    for transform, expected in ((flip, 0), (brighten, 7)):
        views = lambda image: np.maximum(*pool.map(transform, [image, image]))
        assert epoch(loader(images, views)) == [expected] * 3


def operators_on_a_thread_of_the_function():
    flipped = lambda image: pool.submit(lambda: fn.eager.flip([image])[0] + 7).result()
    assert epoch(loader(images, flipped)) == [7] * 3


def pipelines():
    for by_batch in (False, True):
        inner, lock = pipeline(lambda: list(others[:4])), threading.Lock()

        def drawn():
            with lock:
                return np.array(inner.run()[0].at(0))

        function = (lambda batch: [np.maximum(image, drawn()) for image in batch]) if by_batch else drawing(drawn)
        outer = pipeline(lambda: list(images[:4]), function, by_batch)
        for _ in range(3):
            assert np.asarray(outer.run()[0].as_array()).min() == 7


def sources_and_functions_at_once():
    drawn = Drawn(loader(others, lambda image: image + 1))
    outer = pipeline(lambda: [drawn() for _ in range(4)], drawing(drawn))
    for _ in range(3):
        assert np.asarray(outer.run()[0].as_array()).min() == 8


def a_dataset_and_a_function_at_once():
    drawn = Drawn(loader(others, lambda image: image + 1))
    assert epoch(loader(Dataset(drawn), drawing(drawn))) == [8] * 3


def its_own_loader():
    made = []
    made.append(loader(images, lambda image: np.maximum(image, next(iter(made[0]))[0][0].permute(1, 2, 0).numpy())))
    try:
        epoch(made[0])
    except StateError as e:
        assert "one thread at a time" in str(e)
    else:
        raise AssertionError("a function took a batch of its own Loader")


def loaders_in_a_circle():
    drawn = []
    first = loader(images, drawing(lambda: drawn[0]()))
    drawn.append(Drawn(loader(others, drawing(Drawn(first)))))
    try:
        epoch(first)
    except StateError as e:
        assert "one thread at a time" in str(e)
    else:
        raise AssertionError("functions of two Loaders took batches of each other")


def a_loader_that_the_function_closes():
    other = loader(others)
    drawn, lock, calls = Drawn(other), threading.Lock(), []

    def function(image):
        with lock:
            calls.append(None)
            if len(calls) == 1:
                assert drawn().min() == 7
                other.close()
        return image

    assert len(epoch(loader(images, function))) == 3


cases = [value for value in list(globals().values()) if type(value) is type(epoch) and not value.__code__.co_argcount]
for case in cases:
    print(case.__name__, flush=True)
    case()
print(len(cases), "cases")
kept = iter(loader(images, drawing(Drawn(loader(others)))))
next(kept)  # the process ends while functions wait
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_functions_that_wait_for_pipelines(threads):
    run = run_script(PROGRAM, str(threads), timeout=120)
    assert run.returncode == 0 and run.stdout.endswith("11 cases\n"), run.stdout + run.stderr
