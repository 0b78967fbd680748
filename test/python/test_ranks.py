# SPDX-License-Identifier: Apache-2.0
"""Several ranks divide the data and compare their settings. If a rank has wrong settings, dies or is interrupted, the others get an error and do not hang."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from pathlib import Path

import pytest
from ranks import TORCHRUN, all_well, launch
from stoker import Loader
from stoker import transforms as T
from stoker.errors import StateError

pytest.importorskip("torch.distributed")
SMALL = {"transforms": [T.Resize((16, 16))], "fields": ("image", "label", "index")}


def test_all_have_the_same_steps_and_each_sample_once(tree):
    all_well(
        launch(
            """
            MARKED = {**SMALL, "fields": (*SMALL["fields"], "valid")}
            for shuffle in (False, True):
                for last in ("drop", "keep", "pad"):
                    for batch in (1, 4, 8, 10):
                        loader = Loader(ARGS[0], batch, shuffle=shuffle, last_batch=last, **MARKED)
                        assert f"rank {RANK} of 2" in repr(loader)
                        own = [(b.index.tolist(), b.valid.tolist()) for b in loader]
                        assert all(ids for ids, _ in own)
                        assert len(own) == len(loader)
                        both = gathered(own)
                        assert len(both[0]) == len(both[1]), (last, batch)
                        ids = [i for rank in both for ids, valid in rank for i, v in zip(ids, valid) if v]
                        assert len(ids) == len(set(ids)) == (21 if last != "drop" else 21 // (2 * batch) * 2 * batch), (shuffle, last, batch)
            """,
            tree,
        )
    )


def test_ranks_that_read_other_things(tree, files):
    """If ranks read different data, the error of each rank names both values, and the next Loader works."""
    all_well(
        launch(
            """
            import torch.utils.data as data
            def differ(*args, **kwargs):
                text = error(ValueError, Loader, *args, **{**SMALL, **kwargs})
                assert "the ranks differ" in text, text
                return text
            root, files = ARGS[0], sorted(ARGS[1:])
            text = differ([(f, 0) for f in files[RANK:]], 2)
            assert "samples: rank 0 has 21, rank 1 has 20" in text and "files" in text, text
            other = files[:-1] + [files[-RANK - 1]]
            text = differ([(f, 0) for f in other], 2)
            assert "files (digest)" in text and "samples" not in text, text
            assert "seed: rank 0 has 0, rank 1 has 1" in differ(root, 2, shuffle=True, seed=RANK)
            assert "batch size: rank 0 has 2, rank 1 has 3" in differ(root, 2 + RANK)
            assert "order" in differ(root, 2, shuffle=bool(RANK))
            class Own(data.Sampler):
                def __iter__(self): return iter(range(10 + RANK))
            assert "length: rank 0 has 10, rank 1 has 11" in differ(root, 2, sampler=Own())
            class Sized(Own):
                def __len__(self): return 10 + RANK
            assert "rank 0 has 10, rank 1 has 11" in differ(root, 2, sampler=Sized())
            class Set:
                def __len__(self): return 5 + RANK
                def __getitem__(self, i): return open(files[i], "rb").read(), i
            assert "samples: rank 0 has 5, rank 1 has 6" in differ(Set(), 2, last_batch="pad", fields=("image", "label"))
            assert "ids of the sampler" in differ(root, 2, sampler=lambda epoch: [RANK, 2, 3, 4])
            assert len(list(Loader(root, 2, shuffle=True, **SMALL))) == 6
            assert len(list(Loader(root, 2, shuffle=True, drop_last=True, **SMALL))) == 5
            if RANK == 0:
                assert len(Loader(root, 2, shard=None, **SMALL)) == 11  # one that a rank uses alone
            """,
            tree,
            *files,
        )
    )


def test_readers_of_pipelines_agree(tree):
    """A reader's own seed determines its order. If ranks have different seeds, the error names both."""
    all_well(
        launch(
            """
            from stoker import fn, pipeline_def
            from stoker.plugin.pytorch import DALIGenericIterator
            @pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=12 + RANK)
            def labels(order):
                return fn.readers.file(file_root=ARGS[0], name="Reader", random_shuffle=True, num_shards=WORLD, shard_id=RANK, seed=order)[1]
            def iterate(order):
                return DALIGenericIterator(labels(order), ["label"], reader_name="Reader")
            text = error(ValueError, iterate, 5 + RANK)
            assert "seed of the order: rank 0 has 5, rank 1 has 6" in text, text
            first, other = ([step[0]["label"].flatten().tolist() for step in iterate(order)] for order in (5, 6))
            assert len(first) == 4 and first != other
            """,
            tree,
        )
    )


def test_a_sampler_whose_length_comes_to_differ(tree):
    all_well(
        launch(
            """
            import torch.utils.data as data
            class Own(data.Sampler):
                def set_epoch(self, epoch): self.n = 4 + epoch * RANK
                def __iter__(self): return iter(range(self.n))
            loader = Loader(ARGS[0], 2, sampler=Own(), **SMALL)
            assert len(list(loader)) == 2
            text = error(ValueError, lambda: list(loader))
            assert "samplers in epoch 1" in text and "rank 0 has 4, rank 1 has 5" in text, text
            """,
            tree,
        )
    )


def test_a_rank_that_makes_no_loader(tree):
    ended = launch(
        """
        from stoker.errors import StalledError
        if RANK == 1:
            import time
            time.sleep(4)
            os._exit(7)
        text = error(StalledError, Loader, ARGS[0], 2, **SMALL)
        print(text)
        os._exit(0)
        """,
        tree,
        timeout=2,
    )
    assert [e.code for e in ended] == [0, 7], ended
    assert "rank 1 has made no such Loader or iterator, or died" in ended[0].output and "shard=None" in ended[0].output


def test_the_rank_that_keeps_the_store_dies(tree):
    ended = launch(
        """
        from stoker.errors import StokerError
        if RANK == 0:
            import time
            time.sleep(0.5)
            os._exit(7)
        print(error(StokerError, Loader, ARGS[0], 2, **SMALL))
        os._exit(0)
        """,
        tree,
        timeout=3,
    )
    assert [e.code for e in ended] == [7, 0], ended
    assert "rank 0" in ended[1].output


@pytest.mark.parametrize("death", ["os._exit(9)", "os.kill(os.getpid(), 9)", "raise ValueError('the loss is NaN')"])
def test_a_rank_that_dies_in_the_loop(tree, death):
    """The other ranks get the error of their collective operation, and can exit while their loader runs."""
    ended = launch(
        f"""
        loader = Loader(ARGS[0], 1, shuffle=True, **SMALL)
        for step, (images, labels, index) in enumerate(loader):
            if RANK == 1 and step == 3:
                {death}
            dist.all_reduce(images.sum())
        """,
        tree,
        timeout=5,
    )
    assert all(e.code != 0 for e in ended), ended
    assert "Error" in ended[0].output and "all_reduce" in ended[0].output
    if "ValueError" in death:
        assert "the loss is NaN" in ended[1].output


def test_resume_with_another_number_of_ranks(tree, tmp_path):
    """A state that two ranks saved in mid-epoch is resumed by three ranks, and by one."""
    state = tmp_path / "state.json"
    all_well(
        launch(
            """
            loader = Loader(ARGS[0], 2, shuffle=True, last_batch="keep", **SMALL)
            list(loader)
            it = iter(loader)
            had = [i for b in (next(it), next(it)) for i in b.index.tolist()]
            states = gathered(loader.state_dict())
            assert states[0] == states[1]
            had = sum(gathered(had), [])
            if RANK == 0:
                json.dump({"loader": states[0], "had": had}, open(ARGS[1], "w"))
            """,
            tree,
            state,
        )
    )
    all_well(
        launch(
            """
            saved = json.load(open(ARGS[1]))
            for shard in ("auto", None):
                fields = (*SMALL["fields"], "valid")
                loader = Loader(ARGS[0], 2, shuffle=True, last_batch="keep", shard=shard, **{**SMALL, "fields": fields})
                loader.load_state_dict(saved["loader"])
                assert loader.epoch == 1
                rest = [i for b in loader for i in b.index[b.valid].tolist()]
                rest = sum(gathered(rest), []) if shard else rest
                assert sorted(saved["had"] + rest) == list(range(21)), (shard, saved["had"], rest)
                assert loader.epoch == 2
            """,
            tree,
            state,
            world=3,
        )
    )


def test_exact_validation(tree):
    all_well(
        launch(
            """
            loader = Loader(ARGS[0], 4, last_batch="pad", transforms=[T.Resize((16, 16))])
            found = torch.zeros(2, dtype=torch.float64)
            for images, labels, valid in loader:
                assert len(images) == 4
                means = images.double().mean((1, 2, 3))
                found += torch.stack([(means * valid).sum(), valid.sum().double()])
            dist.all_reduce(found)
            alone = Loader(ARGS[0], 7, transforms=[T.Resize((16, 16))], shard=None)
            expected = sum(images.double().mean((1, 2, 3)).sum() for images, _ in alone)
            assert found[1] == 21 and torch.isclose(found[0], expected, rtol=1e-12), (found, expected)
            """,
            tree,
        )
    )


def test_accelerate_on_two_ranks(tree):
    """gather_for_metrics gives each sample once, in order; gradients are synchronised in every second step and at the end of the epoch."""
    pytest.importorskip("accelerate")
    all_well(
        launch(
            """
            os.environ |= {"RANK": str(RANK), "WORLD_SIZE": "2", "LOCAL_RANK": str(RANK), "LOCAL_WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            import accelerate
            accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
            assert accelerator.num_processes == 2
            loader = Loader(ARGS[0], 4, last_batch="pad", **SMALL)
            wrapped = accelerator.prepare(loader.as_dataloader())
            assert wrapped.loader is loader
            model = accelerator.prepare(torch.nn.Linear(768, 3))
            seen, synced = [], []
            for batch in wrapped:
                with accelerator.accumulate(model):
                    accelerator.backward(model(batch.image.flatten(1)).sum())
                    synced.append(accelerator.sync_gradients)
                seen += accelerator.gather_for_metrics(batch.index).tolist()
            assert seen == list(range(21)), seen
            assert synced == [False, True, True], synced
            """,
            tree,
        )
    )


@pytest.mark.parametrize("shuffle", [False, True])
def test_accelerate_divides_a_dataloader(tree, shuffle):
    """accelerate's prepare() divides a stoker.DataLoader among the ranks like torch's, and the library still makes the images in C."""
    pytest.importorskip("accelerate")
    all_well(
        launch(
            """
            os.environ |= {"RANK": str(RANK), "WORLD_SIZE": "2", "LOCAL_RANK": str(RANK), "LOCAL_WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            import accelerate, stoker, sys
            sys.path.insert(0, ARGS[2])
            from support import import_torchvision
            import_torchvision()
            from torchvision import datasets, transforms
            accelerator = accelerate.Accelerator(cpu=True)
            found = []
            for kind in (stoker.DataLoader, torch.utils.data.DataLoader):
                accelerate.utils.set_seed(3)
                dataset = datasets.ImageFolder(ARGS[0], transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()]))
                dataset.samples = [(path, k) for k, (path, _) in enumerate(dataset.samples)]
                loader = accelerator.prepare(kind(dataset, 4, shuffle=ARGS[1] == "True", num_workers=1))
                assert type(loader.base_dataloader) is kind
                found.append([[y.tolist() for _, y in loader] for _ in range(2)])
                seen = [accelerator.gather_for_metrics(y).tolist() for _, y in loader]
                assert sorted(sum(seen, [])) == list(range(21)), seen
                if kind is stoker.DataLoader:
                    assert "run in C" in loader.base_dataloader.explain()
            assert found[0] == found[1], found
            """,
            tree,
            str(shuffle),
            Path(__file__).parent,
        )
    )


@pytest.mark.parametrize("by_environment", [False, True])
def test_cores_are_divided(tree, by_environment):
    body = """
        from stoker._cores import usable_cores
        loader = Loader(ARGS[0], 2, **SMALL)
        assert loader.pipeline.num_threads == max(1, int(usable_cores()) // 2), loader.pipeline.num_threads
        alone = Loader(ARGS[0], 2, num_threads=3, **SMALL)
        assert alone.pipeline.num_threads == 3
        """
    all_well(launch(body, tree, **({"LOCAL_WORLD_SIZE": "2"} if by_environment else {})))


_UNDER_TORCHRUN = """
import os, sys, time, torch, torch.distributed as dist
from stoker import Loader, transforms as T
dist.init_process_group("gloo")
loader = Loader(sys.argv[1], 1, shuffle=True, transforms=[T.Resize((16, 16))])
step = 0
while True:
    for images, labels in loader:
        dist.all_reduce(images.sum())
        time.sleep(0.02)
        step += 1
        if step == 5:
            open(f"{sys.argv[2]}/ready{dist.get_rank()}", "w").close()
        if sys.argv[3] == "raise" and step == 7 and dist.get_rank() == 1:
            raise ValueError("the loss is NaN")
"""


def _torchrun(tmp_path, tree, what):
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(_UNDER_TORCHRUN))
    run = [sys.executable, *TORCHRUN, f"--log-dir={tmp_path / 'logs'}", "--nproc-per-node=2", str(program), str(tree), str(tmp_path), what]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=environment)


def _in_session(session):
    """Returns the ids of the running processes of a session."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    fields = f.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(name))
    return found


def test_ctrl_c_under_torchrun(tmp_path, tree):
    child = _torchrun(tmp_path, tree, "go on")
    try:
        while not all((tmp_path / f"ready{r}").exists() for r in range(2)):
            assert child.poll() is None, child.communicate()[0]
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does, sends SIGINT to the whole process group
        output, _ = child.communicate(timeout=45)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode != 0 and ("KeyboardInterrupt" in output or "SIGINT" in output), output
    assert _in_session(child.pid) == []


def test_an_exception_under_torchrun(tmp_path, tree):
    child = _torchrun(tmp_path, tree, "raise")
    try:
        output, _ = child.communicate(timeout=90)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode != 0 and "the loss is NaN" in output and _in_session(child.pid) == []


# ---- one process ----


@pytest.fixture(params=["alone", "with Accelerate"])
def registered(request, monkeypatch):
    """Returns the list of loaders that are registered with Accelerate. Each test runs twice: without Accelerate, and with a replacement of it."""
    loaders = []
    if request.param == "with Accelerate":
        state = types.SimpleNamespace(_add_dataloader=loaders.append, _remove_dataloader=loaders.remove)

        class GradientState:
            _shared_state = types.MappingProxyType({"sync_gradients": True})

            def __new__(cls):
                return state

        monkeypatch.setitem(sys.modules, "accelerate.state", types.SimpleNamespace(GradientState=GradientState))
    return loaders


def test_two_threads_at_once(tree, registered, monkeypatch):
    """If a second thread requests a batch while the first one waits, it gets an error, and neither thread loses a batch."""
    inside, leave = threading.Event(), threading.Event()

    class Slow:
        def __len__(self):
            return 8

        def __getitem__(self, i):
            if i >= 2:
                inside.set()
                leave.wait(30)
            return bytes((tree / "class0/000.jpg").read_bytes()), i

    loader = Loader(Slow(), 2, transforms=[T.Resize((16, 16))])
    it = iter(loader)
    next(it)
    state = loader.state_dict()
    assert registered in ([], [loader])
    was = list(registered)
    got = []
    thread = threading.Thread(target=lambda: got.extend(it), name="first", daemon=True)
    thread.start()
    inside.wait(30)
    while not loader._one_thread.owner:
        time.sleep(0.001)
    for use in (lambda: next(it), lambda: iter(loader), lambda: loader.load_state_dict(state)):
        with pytest.raises(StateError, match=r"in use by the thread 'first'.*one thread at a time"):
            use()
    assert "Loader(" in repr(loader) and loader._repr_html_()  # although the pipeline is in use
    monkeypatch.setattr("stoker.loader._one_thread.VISIT", 0.1)
    for ask in (loader.state_dict, lambda: loader.step):
        with pytest.raises(StateError, match="the thread 'first' has been waiting for a batch"):
            ask()
    assert registered == was
    leave.set()
    thread.join(30)
    assert [b.label.tolist() for b in got] == [[2, 3], [4, 5], [6, 7]]
    assert not registered
    assert len(list(loader)) == 4  # threads may use the loader in turn


def test_an_error_does_not_end_the_epoch(tree, registered):
    """After an exception of the Dataset the iteration continues. With Accelerate, the Loader is registered until the iteration ends or is dropped."""

    class Once:
        failed = False

        def __len__(self):
            return 6

        def __getitem__(self, i):
            if i == 2 and not self.failed:
                self.failed = True
                raise KeyError("not yet")
            return (tree / "class0/000.jpg").read_bytes(), i

    def labels(it):
        while True:
            try:
                yield next(it).label.tolist()
            except KeyError:
                yield "failed"
            except StopIteration:
                return

    loader = Loader(Once(), 2, transforms=[T.Resize((16, 16))], prefetch=1, num_threads=1)
    it = iter(loader)
    assert len(it) == 3
    assert list(labels(it)) == [[0, 1], "failed", [4, 5]]
    assert not registered
    it = iter(loader)
    next(it)
    del it
    assert not registered


def test_left_for_validation_and_resumed(tree):
    """An iteration that was not finished continues at its position, whatever other loaders did meanwhile."""
    expected = [b.index.tolist() for b in Loader(tree, 3, shuffle=True, **SMALL)]
    train, valid = Loader(tree, 3, shuffle=True, **SMALL), Loader(tree, 4, **SMALL)
    seen, it = [], iter(train)
    for batch in it:
        seen.append(batch.index.tolist())
        if len(seen) in (2, 5):
            assert sum(len(b.index) for b in valid) == 21
    assert seen == expected
    # Another loader resumes from a state and is left in the same way.
    train = Loader(tree, 3, shuffle=True, **SMALL)
    it = iter(train)
    seen = [next(it).index.tolist() for _ in range(4)]
    state = train.state_dict()
    train.close()
    assert sum(len(b.index) for b in valid) == 21
    again = Loader(tree, 3, shuffle=True, **SMALL)
    again.load_state_dict(state)
    assert seen + [b.index.tolist() for b in again] == expected


def test_several_loaders_at_once(tree):
    one, two, three = (Loader(tree, n, shuffle=s, seed=n, **SMALL) for n, s in ((3, True), (4, False), (5, True)))
    alone = [[b.index.tolist() for b in Loader(tree, n, shuffle=s, seed=n, **SMALL)] for n, s in ((3, True), (4, False), (5, True))]
    together = [tuple(b.index.tolist() for b in bs) for bs in zip(one, two, three, strict=False)]
    assert together == list(zip(*alone, strict=False))


def test_loaders_in_threads_of_their_own(tree):
    expected = [b.index.tolist() for b in Loader(tree, 2, shuffle=True, **SMALL)]
    found = [None] * 4

    def work(i):
        with Loader(tree, 2, shuffle=True, **SMALL) as loader:
            found[i] = [b.index.tolist() for b in loader]

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert found == [expected] * 4


def test_an_exception_in_the_loop_leaves_the_loader_usable(tree):
    loader = Loader(tree, 3, shuffle=True, **SMALL)
    with pytest.raises(ValueError, match="NaN"):
        for i, _ in enumerate(loader):
            if i == 2:
                raise ValueError("NaN")
    fresh = Loader(tree, 3, shuffle=True, **SMALL)
    list(fresh)
    assert [b.index.tolist() for b in loader] == [b.index.tolist() for b in fresh]


PARTS = """
import numpy as np, torch
import torch.utils.data as data
X, y = np.random.default_rng(0).integers(0, 256, (80, 8, 8, 3), np.uint8), np.arange(80) // 40
class Part(data.Dataset):
    calls = 0
    def __init__(self, ids, noise=False): self.ids, self.noise = list(ids), noise
    def __len__(self): return len(self.ids)
    def __getitem__(self, i):
        image = X[self.ids[i]]
        if self.noise:
            image = (image ^ np.random.randint(0, 255, image.shape)).astype(np.uint8)
        return image, y[self.ids[i]]
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_data_that_each_rank_has_divided_already(workers):
    all_well(
        launch(
            PARTS
            + f"""
more = {{"python_workers": {workers}}}
own = range(RANK, 80, 2)
for made in (lambda: Part(own), lambda: data.Subset(Part(range(80)), own), lambda: (X[RANK::2], y[RANK::2])):
    text = error(ValueError, Loader, made(), 4, shuffle=True, **more)
    assert "of the data set is another one on rank 0 than on rank 1" in text and "shard=None" in text, text
    assert sum(len(b.label) for b in Loader(made(), 4, shard=None, **more)) == 40
    assert len(Loader(made(), 4, shard=(RANK, 2), **more)) == 5
"""
        )
    )


def test_the_same_data_on_all_ranks_is_divided():
    """Ranks with the same data are recognised even if the Dataset augments its samples at random. Comparing samples advances no random generator."""
    all_well(
        launch(
            PARTS
            + """
import random
for seeded in (0, RANK):
    for whole in (Part(range(80)), Part(range(80), noise=True), (X, y)):
        random.seed(seeded), np.random.seed(seeded), torch.manual_seed(seeded)
        expected = random.random(), np.random.rand(), torch.rand(1).item()
        random.seed(seeded), np.random.seed(seeded), torch.manual_seed(seeded)
        loader = Loader(whole, 4, shuffle=True, seed=3)
        assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected
        assert len(loader) == 10
        assert sum(len(b.label) for b in loader) == 40
class Order(data.Sampler):
    def __len__(self): return 8
    def __iter__(self): return iter(range(8))
assert len(Loader(Part(range(RANK, 80, 2)), 4, sampler=Order())) == 2  # a sampler is of this rank's own data
"""
        )
    )
