# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader: sources, order, ranks, epochs, state, fields, what it refuses."""

import inspect
import itertools
import os

import numpy as np
import pytest
import torch
from stoker import Loader, Pipeline, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, StateError, StokerError
from support import import_torchvision

SMALL = [T.Resize((16, 16))]
AUGMENT = [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]


def make(tree, batch_size=4, **kwargs):
    return Loader(tree, batch_size, **{"transforms": SMALL, "fields": ("image", "label", "index"), **kwargs})


def ids(loader):
    return [b.index.tolist() for b in loader]


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


@pytest.mark.essential
def test_a_folder(tree):
    loader = Loader(tree, batch_size=4, transforms=SMALL)
    batches = list(loader)
    assert len(batches) == len(loader) == 6
    images, labels = batches[0]
    assert images.shape == (4, 3, 16, 16) and images.dtype is torch.float32 and images.min() >= 0 and images.max() <= 1
    assert labels.dtype is torch.int64 and labels.shape == (4,)
    assert flat(b.label.tolist() for b in batches) == [i // 7 for i in range(21)]
    assert len(batches[-1].label) == 1
    assert loader.classes == ["class0", "class1", "class2"]


def test_fields(tree, files):
    loader = Loader(tree, batch_size=4, transforms=SMALL, fields=("image", "label", "path", "index"))
    batch = next(iter(loader))
    assert type(batch).__name__ == "Batch" and batch._fields == ("image", "label", "path", "index")
    assert batch.path == [str(f) for f in files[:4]] and batch.index.tolist() == [0, 1, 2, 3]
    (only,) = next(iter(Loader(tree, batch_size=4, transforms=SMALL, fields=("image",))))
    assert only.shape == (4, 3, 16, 16)
    for wrong, said in (("weight", "there are image, label"), ("lable", "did you mean 'label'")):
        with pytest.raises(InvalidArgumentError, match=said):
            Loader(tree, batch_size=4, transforms=SMALL, fields=("image", wrong))
    labels, images = next(iter(Loader(tree, batch_size=4, transforms=SMALL, fields=("label", "image"))))
    assert torch.equal(images, batch.image) and torch.equal(labels, batch.label)


@pytest.mark.parametrize("form", ["pairs", "two lists", "paths", "pathlike"])
def test_lists_of_files(files, form):
    labels = [i % 5 for i in range(len(files))]
    source = {
        "pairs": [(str(f), t) for f, t in zip(files, labels, strict=True)],
        "two lists": ([str(f) for f in files], labels),
        "paths": [str(f) for f in files],
        "pathlike": list(zip(files, labels, strict=True)),
    }[form]
    got = flat(b.label.tolist() for b in Loader(source, batch_size=4, transforms=SMALL))
    assert got == (list(range(len(files))) if form == "paths" else labels)


@pytest.mark.essential
@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("last", ["drop", "keep", "pad"])
def test_ranks_read_one_global_sequence(tree, world, last):
    order = ids(make(tree, batch_size=21, shuffle=True, seed=5, shard=None, last_batch="keep"))[0]
    fields = ("image", "label", "index", "valid")
    ranks = [make(tree, batch_size=2, shuffle=True, seed=5, shard=(r, world), last_batch=last, fields=fields) for r in range(world)]
    assert len({len(r) for r in ranks}) == 1
    seen = []
    for steps in itertools.zip_longest(*ranks):
        assert all(s is not None for s in steps), "ranks with unequal numbers of steps"
        for batch in steps:
            assert len(batch.index) > 0
            seen += batch.index[batch.valid].tolist()
    complete = len(order) // (2 * world) * 2 * world if last == "drop" else len(order)
    assert seen == order[:complete]


def test_shuffling(tree):
    loader = make(tree, shuffle=True, last_batch="keep", seed=1)
    epochs = [flat(ids(loader)) for _ in range(3)]
    assert all(sorted(e) == list(range(21)) for e in epochs) and len({tuple(e) for e in epochs}) == 3
    assert flat(ids(make(tree, shuffle=True, last_batch="keep", seed=1))) == epochs[0]
    assert flat(ids(make(tree, shuffle=True, last_batch="keep", seed=2))) != epochs[0]
    assert [len(batch) for batch in ids(make(tree, shuffle=True))] == [4, 4, 4, 4, 4, 1], "the last batch is kept, as by a DataLoader"
    assert len(make(tree, shuffle=True, drop_last=True)) == 5
    assert [len(batch) for batch in ids(make(tree, batch_size=64, shuffle=True))] == [21]


def test_global_batch_size(tree):
    assert make(tree, None, global_batch_size=8, shard=(1, 4)).batch_size == 2
    with pytest.raises(InvalidArgumentError, match="not divided by 3"):
        make(tree, None, global_batch_size=8, shard=(0, 3))


def test_an_old_iteration_is_over(tree):
    loader = make(tree)
    old = iter(loader)
    next(old)
    new = iter(loader)
    with pytest.raises(StateError, match="newer iteration"):
        next(old)
    assert next(new).index.tolist() == [0, 1, 2, 3]
    assert list(zip(loader, range(1), strict=False))  # a further iteration works as well


@pytest.mark.essential
def test_break_and_new_loaders_leak_nothing(tree):
    def count():
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    for k in range(60):
        for _ in make(tree, shuffle=True):
            break
        if k == 10:
            before = count()
    after = count()
    assert after[0] <= before[0] + 2 and after[1] <= before[1] + 2, (before, after)


def test_samplers(tree):
    chosen = make(tree, sampler=lambda epoch: [epoch, 5, 5, 20, 3])
    assert [flat(ids(chosen)) for _ in range(3)] == [[e, 5, 5, 20, 3] for e in range(3)]
    weights = np.zeros(21)
    weights[[2, 9]] = 1
    loader = make(tree, sampler=weights)
    drawn = flat(ids(loader)) + flat(ids(loader))
    assert set(drawn) == {2, 9} and len(drawn) == 42
    shuffler = torch.utils.data.RandomSampler(range(21), generator=torch.Generator().manual_seed(1))
    loader = make(tree, sampler=shuffler)
    a, b = flat(ids(loader)), flat(ids(loader))
    assert sorted(a) == sorted(b) == list(range(21)) and a != b
    parts = [
        flat(ids(make(tree, sampler=torch.utils.data.DistributedSampler(range(21), 3, r, shuffle=True, seed=1), shard=(r, 3))))
        for r in range(3)
    ]
    assert sorted(flat(parts)) == list(range(21))
    ranks = [flat(ids(make(tree, batch_size=2, sampler=lambda e: range(20, 8, -1), shard=(r, 2)))) for r in range(2)]
    assert ranks == [[20, 19, 16, 15, 12, 11], [18, 17, 14, 13, 10, 9]]


@pytest.mark.parametrize(
    ("sampler", "match"),
    [
        ([1, 2, 30], "30"),
        (lambda e: [99], "99"),
        (lambda e: [], "no samples"),
        (lambda e: ["a"], "whole numbers"),
        (3, "sampler is"),
    ],
)
def test_wrong_samplers(tree, sampler, match):
    with pytest.raises(StokerError, match=match):
        list(make(tree, sampler=sampler))


def test_datasets(files):
    class Pairs:
        def __init__(self, kind):
            self.kind = kind

        def __len__(self):
            return 10

        def __getitem__(self, i):
            if self.kind == "array":
                return np.full((20, 24, 3), 10 * i, np.uint8), i, 0.5 * i
            path = files[i]
            return {"path": path, "bytes": path.read_bytes()}[self.kind], i, 0.5 * i

    plain = [b[0].clone() for b in Loader([str(f) for f in files[:10]], batch_size=4, transforms=SMALL)]
    for kind in ("path", "bytes"):
        got = list(Loader(Pairs(kind), batch_size=4, transforms=SMALL, fields=("image", "label", "score", "index")))
        assert all(torch.equal(a, b.image) for a, b in zip(plain, got, strict=True))
        assert flat(b.label.tolist() for b in got) == list(range(10)) == flat(b.index.tolist() for b in got)
        assert got[0].label.dtype is torch.int64 and got[0].score.dtype is torch.float32 and got[1].score.tolist() == [2.0, 2.5, 3.0, 3.5]
    images = torch.cat([b[0] for b in Loader(Pairs("array"), batch_size=4, dtype=torch.uint8, fields=("image",))])
    assert images.shape == (10, 3, 20, 24) and images[:, 0, 0, 0].tolist() == [10 * i for i in range(10)]
    padded = list(Loader(Pairs("array"), batch_size=4, last_batch="pad", fields=("image", "index")))
    assert padded[-1].valid.tolist() == [True, True, False, False] and padded[-1].index.tolist() == [8, 9, 9, 9]


def test_datasets_run_on_threads_and_only_for_what_is_needed(files):
    import threading

    class Counting:
        def __init__(self):
            self.asked, self.threads = [], set()

        def __len__(self):
            return 21

        def __getitem__(self, i):
            self.asked.append(i)
            self.threads.add(threading.current_thread().name)
            return files[i].read_bytes(), i

    before, after = Counting(), Counting()
    first = make(before, shuffle=True, seed=2)
    assert not before.asked
    iterator = iter(first)
    seen = [next(iterator).index.tolist() for _ in range(3)]
    second = make(after, shuffle=True, seed=2)
    second.load_state_dict(first.state_dict())
    running = iter(second)
    rest = [b.index.tolist() for b in running]
    second.close()
    assert not set(flat(seen)) & set(flat(rest))
    asked = after.asked[: len(flat(rest))]  # later indices belong to the next epoch
    assert not set(flat(seen)) & set(asked), "earlier samples were asked for"
    assert sorted(asked) == sorted(flat(rest))
    assert any("stoker-dataset" in t for t in after.threads)


def test_exceptions_in_datasets(files):
    class Broken:
        def __len__(self):
            return 12

        def __getitem__(self, i):
            if i == 6:
                raise KeyError("no such thing")
            return str(files[i]), i

    loader = make(Broken())
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(KeyError, match="no such thing") as caught:
        next(iterator)
    assert any("dataset[6]" in n for n in caught.value.__notes__)


def test_image_folder(tree):
    torchvision = import_torchvision()
    datasets, tv = torchvision.datasets, torchvision.transforms
    reference = datasets.ImageFolder(tree, tv.Compose([tv.Resize((16, 16)), tv.ToTensor()]))
    for loader in (Loader(reference, batch_size=1), Loader(tree, batch_size=1, transforms=SMALL)):
        for (images, labels), (image, label) in zip(loader, reference, strict=True):
            assert (images[0] - image).abs().max() <= 1.001 / 255 and labels.item() == label
    with pytest.raises(InvalidArgumentError, match="target_transform"):
        Loader(datasets.ImageFolder(tree, tv.ToTensor(), target_transform=str), batch_size=1)


def write_cifar(root, rng):
    """Writes CIFAR's files, all with the same records, and returns one file's labels and images. Each file has the size of a real one, which the reader
    checks."""
    records = rng.integers(0, 255, (10000, 3073), dtype=np.uint8)
    records[:, 0] %= 10
    root.mkdir(exist_ok=True)
    (root / "test_batch.bin").write_bytes(records.tobytes())
    for k in range(1, 6):
        os.link(root / "test_batch.bin", root / f"data_batch_{k}.bin")
    return records[:, 0], records[:, 1:].reshape(-1, 3, 32, 32)


def test_cifar(tmp_path, rng):
    labels, pixels = write_cifar(tmp_path / "cifar-10-batches-bin", rng)
    for folder in (tmp_path, tmp_path / "cifar-10-batches-bin"):
        batches = [(b[0].clone(), b[1]) for b in Loader(folder, batch_size=500, dtype=torch.uint8, split="test")]
        np.testing.assert_array_equal(torch.cat([b[0] for b in batches]).numpy(), pixels)
        np.testing.assert_array_equal(torch.cat([b[1] for b in batches]).numpy(), labels)
    names = tmp_path / "cifar-10-batches-bin" / "batches.meta.txt"
    assert Loader(tmp_path, 500).classes == []
    names.write_text("".join(f"n{k}\n" for k in range(10)) + "\n")
    for split in ("train", "test"):
        assert Loader(tmp_path, 500, split=split).classes == [f"n{k}" for k in range(10)]
    names.write_text("n0\nn1\n")
    assert Loader(tmp_path, 500).classes == []
    train = Loader(
        tmp_path,
        batch_size=32,
        shuffle=True,
        transforms=[T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.Normalize([0.5] * 3, [0.25] * 3)],
    )
    assert len(train) == -(-50000 // 32)
    assert next(iter(train))[0].shape == (32, 3, 32, 32)


def test_a_pipeline(tree):
    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def images(**reader):
        data, label = fn.readers.file(file_root=str(tree), **reader)
        return fn.crop_mirror_normalize(fn.resize(fn.decoders.image(data), size=[16, 16])), label

    loader = Loader(images(tail="keep"))
    assert [len(b.label) for b in loader] == [4, 4, 4, 4, 4, 1] and len(loader) == 6 and loader.batch_size == 4
    wrapping = Loader(images())
    # Without padding, batches continue across epochs: three epochs of 21 samples give 16 batches.
    assert [len(list(wrapping)) for _ in range(3)] == [6, 5, 5]
    with pytest.raises(InvalidArgumentError, match="transforms would have no effect"):
        Loader(images(), transforms=SMALL)


@pytest.mark.parametrize("kind", ["plain", "dataset", "own order"])
def test_step_counts_across_a_resume(tree, files, kind):
    """After a resume, even with another number of ranks, `step` continues to count the steps of the epoch, as a learning-rate schedule needs it."""
    source = {"dataset": type("Set", (), {"__len__": lambda s: 21, "__getitem__": lambda s, i: (str(files[i]), i)})()}.get(kind, tree)
    arguments = {"sampler": (lambda epoch: list(range(21)))} if kind == "own order" else {"shuffle": True}
    arguments["fields"] = ("image", "label")

    def loader(batch, **more):
        return make(source, batch, last_batch="drop", **arguments, **more)

    first = loader(4, shard=None)
    assert first.step == 0
    steps = [first.step for _ in first]
    assert steps == [1, 2, 3, 4, 5] and first.step == 0 and first.epoch == 1
    it = iter(first)
    next(it), next(it)
    second = loader(2, shard=(1, 2))
    second.load_state_dict(first.state_dict())
    assert second.step == 2
    assert [second.step for _ in second] == [3, 4, 5]


def test_shards_from_the_environment(tree, monkeypatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert "rank 2 of 3" in repr(make(tree))
    assert "rank" not in repr(make(tree, shard=None))
    assert "rank 0 of 2" in repr(make(tree, shard=(0, 2)))
    for wrong in ((2, 2), "all", 3):
        with pytest.raises(InvalidArgumentError, match="shard"):
            make(tree, shard=wrong)


def test_ranks_that_differ_are_reported(tree, script):
    done = script(
        """
        import sys, torch.distributed as dist, torch.multiprocessing as mp
        from stoker import Loader
        def work(rank, root, port):
            dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
            assert "rank %d of 2" % rank in repr(Loader(root, 2, shuffle=True))
            try:
                Loader(root, 2, shuffle=True, seed=rank)
            except ValueError as e:
                assert "the ranks differ" in str(e), e
            else:
                raise SystemExit("not noticed")
            dist.destroy_process_group()
        if __name__ == "__main__":
            import socket
            s = socket.socket(); s.bind(("127.0.0.1", 0)); port = s.getsockname()[1]; s.close()
            mp.start_processes(work, (sys.argv[1], port), nprocs=2, start_method="fork")
        """,
        str(tree),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_repr_shows_the_arguments(tree):
    text = repr(make(tree, shuffle=True, seed=7, shard=(1, 2)))
    for part in (str(tree), "rank 1 of 2", "of 21 samples", "seed 7", "batches of 4", "epoch 0"):
        assert part in text, text


def test_arguments_of_dataloader(tree, capfd):
    from stoker import _where

    _where._shown.clear()
    make(tree, num_workers=8, pin_memory=True, drop_last=True, persistent_workers=False)
    make(tree, num_workers=8)
    lines = capfd.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "num_workers" in lines[0]
    assert len(make(tree, drop_last=True)) == 5 and len(make(tree, drop_last=False, shuffle=True)) == 6


class Numbers:
    """A Dataset of 7 small images; the target is the index."""

    def __len__(self):
        return 7

    def __getitem__(self, i):
        return np.full((4, 4, 3), i, np.uint8), i


def seven_samples(files, kind, last):
    """Returns a Loader over 7 samples in batches of 2, shuffled except for kinds that have their own order."""
    pairs = [(str(f), i) for i, f in enumerate(files[:7])]
    if kind == "list":
        return Loader(pairs, 2, transforms=[T.Resize((8, 8))], shuffle=True, last_batch=last)
    if kind == "dataset":
        return Loader(Numbers(), 2, shuffle=True, last_batch=last)
    order = {"sampler": lambda epoch: [(epoch + 3 * i) % 7 for i in range(7)]}
    if kind == "own order":
        return Loader(pairs, 2, transforms=[T.Resize((8, 8))], last_batch=last, **order)
    return Loader(Numbers(), 2, last_batch=last, **order)


@pytest.mark.parametrize("last", ["drop", "keep", "pad"])
@pytest.mark.parametrize("kind", ["list", "dataset", "own order", "dataset in own order"])
@pytest.mark.parametrize("how", ["islice", "zip", "next", "break", "as_dataloader"])
def test_an_epoch_ends_with_its_last_batch(files, how, kind, last):
    """A loop that takes all batches without requesting another one gets the same epochs as a loop that runs to its end."""
    whole = seven_samples(files, kind, last)
    want = [[batch.label.tolist() for batch in whole] for _ in range(4)]
    assert all(len(epoch) == len(whole) > 0 for epoch in want)
    loader, got = seven_samples(files, kind, last), []
    wrapped = loader.as_dataloader()
    for _ in want:
        labels, count = [], len(loader)
        if how == "next":
            running = iter(loader)
            labels = [next(running).label.tolist() for _ in range(count)]
        elif how == "break":
            for batch in loader:
                labels.append(batch.label.tolist())
                if len(labels) == count:
                    break
        elif how == "zip":
            labels = [batch.label.tolist() for _, batch in zip(range(count), loader, strict=False)]
        else:
            labels = [batch.label.tolist() for batch in itertools.islice(wrapped if how == "as_dataloader" else loader, count)]
        got.append(labels)
        again = seven_samples(files, kind, last)
        again.load_state_dict(loader.state_dict())
        assert again.epoch == len(got)
    assert got == want


def test_as_dataloader_can_be_made_again(files, capfd):
    """Lightning's predict() and overfit_batches make another DataLoader of the same class, with the arguments that are attributes and None for the samplers."""
    for kind in ("list", "own order"):
        loader = seven_samples(files, kind, "keep")
        wrapped = loader.as_dataloader()
        kept = {name: getattr(wrapped, name) for name in inspect.signature(type(wrapped)).parameters if hasattr(wrapped, name)}
        assert kept.keys() == {"loader", "dataset", "batch_sampler", "sampler"}
        again = type(wrapped)(**kept | {"batch_sampler": None, "sampler": None})
        want = [batch.label.tolist() for batch in seven_samples(files, kind, "keep")]
        assert [batch.label.tolist() for batch in again] == want
        with pytest.raises(ValueError, match="takes no other sampler"):
            type(wrapped)(**kept | {"batch_sampler": None, "sampler": range(7)})
    assert capfd.readouterr().err.count("overfit_batches needs a Loader with shuffle=False") == 1
    assert loader.batch_sampler is None


def test_frameworks_see_whether_a_loader_is_in_order(files):
    """Lightning's overfit_batches accepts loaders with a SequentialSampler unchanged, and refuses others that are not DataLoaders."""
    data = pytest.importorskip("torch.utils.data")
    in_order = Loader(files, 4)
    assert isinstance(in_order.sampler, data.SequentialSampler) and isinstance(in_order.as_dataloader().sampler, data.SequentialSampler)
    in_order.sampler.set_epoch(2)
    assert (in_order.epoch, len(in_order.sampler)) == (2, 4 * len(in_order))
    pipe = Pipeline(4, 1, None)
    with pipe:
        pipe.set_outputs(fn.readers.file(files=[str(f) for f in files], random_shuffle=True)[1])
    for other in (
        Loader(files, 4, shuffle=True),
        Loader(files, 4, sampler=lambda epoch: range(7)),
        Loader(files, batch_sampler=[[1, 0], [3, 2]]),
        Loader(pipe),
    ):
        assert not isinstance(other.sampler, data.SequentialSampler)


@pytest.mark.parametrize(
    ("arguments", "kind", "match"),
    [
        ({"shufle": True}, TypeError, "did you mean 'shuffle'"),
        ({"batch_sampler": [[1]]}, ValueError, "batch_sampler gives the batches, and batch_size"),
        ({"batch_size": 0}, ValueError, "at least 1"),
        ({"batch_size": None}, ValueError, "batch_size"),
        ({"last_batch": "fill"}, ValueError, "'drop', 'keep' or 'pad'"),
        ({"shuffle": True, "sampler": lambda e: [1]}, ValueError, "exclude each other"),
        ({"device": "tpu"}, ValueError, "device"),
        ({"memory_format": torch.channels_last_3d}, NotImplementedError, "channels_last"),
        ({"fields": ("image", "image")}, ValueError, "differ"),
    ],
)
def test_wrong_arguments(tree, arguments, kind, match):
    with pytest.raises(kind, match=match):
        next(iter(make(tree, **arguments)))


def test_wrong_sources(tmp_path, tree):
    for source, match in (
        (17, "not int"),
        ([], "empty"),
        ([3], "paths, or pairs"),
        (tmp_path / "none", "none"),
        ([("a.jpg", "cat"), ("b.jpg", 3)], "whole numbers"),
    ):
        with pytest.raises(StokerError, match=match):
            Loader(source, batch_size=1)
    with pytest.raises(StokerError, match=r"class0|folders"):
        Loader(tree / "class0", batch_size=1)


def test_bad_samples(files, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(files[0].read_bytes()[:200])
    paths = [str(p) for p in files[:5]] + [str(bad)] + [str(p) for p in files[5:8]]
    with pytest.raises(StokerError, match=r"bad.jpg"):
        list(make(paths, batch_size=3))
    skipping = make(paths, batch_size=3, on_error="skip", max_errors=5)
    assert [b.index.tolist() for b in skipping] == [[0, 1, 2], [3, 4], [6, 7, 8]]
    assert skipping.pipeline.bad_samples()[0].uri == str(bad)
    replaced = ids(make(paths, batch_size=3, on_error="replace", max_errors=5))
    assert [len(b) for b in replaced] == [3, 3, 3] and 5 not in flat(replaced)


def test_repeats_of_a_bad_sample_are_not_counted(files, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"hello")
    paths = [str(p) for p in files[:10]] + [str(bad)]
    for policy in ("skip", "replace"):
        loader = make(paths, 4, last_batch="pad", on_error=policy, max_errors=1)
        for _ in range(2):
            assert sum(int(b.valid.sum()) for b in loader) == (10 if policy == "skip" else 11)
        assert [e.uri for e in loader.pipeline.bad_samples()] == [str(bad)] * 2
