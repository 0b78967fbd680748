# SPDX-License-Identifier: Apache-2.0
"""Processes are started by spawn, forkserver or fork while a Loader and a Pipeline run: each process builds its own, and gets the parent's batches.

A Loader or Pipeline owns threads and cannot be sent to a process. Sending one is refused with advice to send its state instead.
"""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stoker import Loader, Pipeline, fn
from stoker import transforms as T
from support import SEED

METHODS = ("spawn", "forkserver", "fork")

# A program in a file, because processes started by spawn and forkserver import it again.
PROGRAM = """
import multiprocessing, sys, warnings
import numpy as np
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # from CPython 3.12 on
from stoker import Loader, transforms as T
METHOD, ROOT, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3])

def loader(**more):
    return Loader(ROOT, 4, transforms=[T.RandomResizedCrop(16), T.RandomHorizontalFlip()], shuffle=True, seed=SEED, num_threads=2, **more)

def rest(made):
    return [(batch.image.numpy().tobytes(), batch.label.tolist()) for batch in made]

def in_child(answers, work, *arguments):
    try:
        answers.put(work(*arguments))
    except Exception as e:
        answers.put(f"{type(e).__name__}: {e}")

def ask(work, *arguments):
    context = multiprocessing.get_context(METHOD)
    answers = context.Queue()
    process = context.Process(target=in_child, args=(answers, work, *arguments))
    process.start()
    answer = answers.get(timeout=100)
    process.join(100)
    assert process.exitcode == 0, process.exitcode
    return answer
"""


def check(tmp_path: Path, tree: Path, method: str, body: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + body)
    done = subprocess.run([sys.executable, str(program), method, str(tree), str(SEED)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and done.stderr == "", f"{done.returncode}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("method", METHODS)
def test_a_process_makes_its_own_loader(tmp_path, tree, method):
    check(
        tmp_path,
        tree,
        method,
        """
def epoch():
    with loader() as own:
        return rest(own)

if __name__ == "__main__":
    mine = loader()
    running = iter(mine)
    first = rest([next(running)])
    assert ask(epoch) == first + rest(running)
    assert len(rest(mine)) == len(mine)  # the parent's loader continues
""",
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_state_is_what_goes_to_another_process(tmp_path, tree, method):
    check(
        tmp_path,
        tree,
        method,
        """
def go_on(state):
    with loader() as own:
        own.load_state_dict(state)
        return rest(own)

if __name__ == "__main__":
    mine = loader()
    running = iter(mine)
    next(running), next(running)
    assert ask(go_on, mine.state_dict()) == rest(running)
""",
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_loader_in_another_process_than_its_own_is_refused(tmp_path, tree, method):
    check(
        tmp_path,
        tree,
        method,
        """
if __name__ == "__main__":
    mine = loader()
    next(iter(mine))
    try:
        said = ask(rest, mine)  # forked, the child finds it
    except TypeError as e:
        said = str(e)
    assert ("after a fork, make a new one" if METHOD == "fork" else "Make it in the process that uses it; state_dict()") in said, said
    assert len(rest(mine)) == len(mine)
""",
    )


@pytest.mark.parametrize("method", METHODS)
def test_python_of_a_dataset_in_processes_of_each_kind(tmp_path, tree, method):
    check(
        tmp_path,
        tree,
        method,
        """
class Numbers:
    def __len__(self):
        return 24
    def __getitem__(self, i):
        return np.full((8, 8, 3), i, np.uint8), i

def made(**more):
    return Loader(Numbers(), 4, shuffle=True, seed=SEED, num_threads=2, **more)

if __name__ == "__main__":
    with made() as threads, made(python_workers=2, multiprocessing_context=METHOD) as processes:
        want = rest(threads)
        assert len(want) == 6 and rest(processes) == want
""",
    )


@pytest.mark.parametrize("method", METHODS)
def test_processes_of_each_kind_follow_changes_of_a_dataset(tmp_path, tree, method):
    check(
        tmp_path,
        tree,
        method,
        """
class Numbers:
    value = 0
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return np.full((8, 8, 3), i, np.uint8), self.value

if __name__ == "__main__":
    numbers = Numbers()
    processes = Loader(numbers, 4, python_workers=1, multiprocessing_context=METHOD)
    for numbers.value in (1, 1, 2):
        assert [b.label.tolist() for b in processes] == [[numbers.value] * 4] * 2
    processes.close()
""",
    )


@pytest.mark.parametrize("method", METHODS)
def test_processes_of_a_dataset_of_tensors_remain(tmp_path, tree, method):
    """To send a tensor to a process moves it to shared memory, which is no change."""
    check(
        tmp_path,
        tree,
        method,
        """
import os
import torch

class Tensors:
    def __init__(self):
        self.values = torch.zeros(8, dtype=torch.int64)
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return np.zeros((8, 8, 3), np.uint8), np.array([os.getpid(), self.values[i]])

if __name__ == "__main__":
    tensors = Tensors()
    processes = Loader(tensors, 4, python_workers=1, multiprocessing_context=METHOD)
    found = [torch.cat([b.label for b in processes]) for _ in range(3)]
    assert len({int(pid) for one in found for pid in one[:, 0]}) == 1
    tensors.values = torch.arange(8)
    assert torch.cat([b.label for b in processes])[:, 1].tolist() == list(range(8))
    processes.close()
""",
    )


@pytest.mark.parametrize("method", METHODS[:2])
def test_processes_that_import_the_program_again_remain(tmp_path, tree, method):
    """These processes get the variables that the program's file sets, so that starting them again would change nothing."""
    check(
        tmp_path,
        tree,
        method,
        """
import os
used = [0]

class Numbers:
    of_the_class = 0
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return np.zeros((8, 8, 3), np.uint8), np.array([os.getpid(), used[0], self.of_the_class])

if __name__ == "__main__":
    processes = Loader(Numbers(), 4, python_workers=1, multiprocessing_context=METHOD)
    found = set()
    for k in (1, 2):
        used[0] = Numbers.of_the_class = k
        found.update(tuple(row) for b in processes for row in b.label.tolist())
    assert len(found) == 1 and next(iter(found))[1:] == (0, 0), found
    processes.close()
""",
    )


def test_what_owns_threads_or_memory_is_neither_pickled_nor_copied(tree):
    loader = Loader(tree, 4, transforms=[T.Resize((16, 16))])
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.external_source(source=[[np.zeros(3, np.uint8)] * 2]))
    (output,) = pipe.run()
    cases = [
        (loader, "Loader .*Make it in the process that uses it"),
        (iter(loader), "Loader .*Make it in the process that uses it"),
        (Loader.mix([(Loader(tree, 4, transforms=[T.Resize((16, 16))]), 1)]), "mixture .*Make it in the process that uses it"),
        (loader.as_dataloader(), "Loader .*Make it in the process that uses it"),
        (pipe, "Pipeline .*Make it in the process that uses it, or use serialize"),
        (output, "outputs of a pipeline .*np.array"),
        (output[0], "outputs of a pipeline .*np.array"),
        (output.as_tensor(), "outputs of a pipeline .*np.array"),
    ]
    for what, message in cases:
        for do in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match=message):
                do(what)
    for what, message in cases[:3]:  # a shallow copy would take some of the batches
        with pytest.raises(TypeError, match=message):
            copy.copy(what)


def test_the_data_set_of_a_loader_is_copied(tree):
    listing = Loader(tree, 4, transforms=[T.Resize((16, 16))]).dataset
    for again in (copy.copy(listing), copy.deepcopy(listing), pickle.loads(pickle.dumps(listing))):
        assert len(again) == len(listing) and again.classes == listing.classes and repr(again) == repr(listing)


def test_batches_of_a_loader_go_to_other_processes(tree):
    loader = Loader(tree, 4, transforms=[T.Resize((16, 16))], fields=["image", "label", "path"])
    for batch in loader:
        again = pickle.loads(pickle.dumps(batch))
        assert again._fields == batch._fields and again.path == batch.path
        assert np.array_equal(again.image.numpy(), batch.image.numpy()) and np.array_equal(again.label.numpy(), batch.label.numpy())
