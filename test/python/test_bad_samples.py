# SPDX-License-Identifier: Apache-2.0
"""on_error: batches whose samples are all bad, samples that a Dataset cannot return, and the messages about such samples."""

import gc
import itertools
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from leftovers import _native_threads
from PIL import Image
from stoker import Loader, Pipeline, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import CorruptError, InvalidArgumentError, LimitError, ReadError, StokerError
from stoker.loader.sources._dataset import forget_frames
from stoker.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

SMALL = [T.Resize((8, 8))]
SKIP = {"transforms": SMALL, "on_error": "skip", "max_errors": 100, "last_batch": "keep"}


class Data:
    """A Dataset whose sample i is function(i)."""

    def __init__(self, size, function):
        self.size, self.function = size, function

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return self.function(i)


@pytest.fixture
def listed(tmp_path):
    """Returns a function that writes images and returns a list of (path, number). The files whose numbers are in `bad` are not images."""

    def make(count, bad=()):
        pairs = []
        for i in range(count):
            path = tmp_path / f"{i}{'-bad' if i in bad else ''}.png"
            if i in bad:
                path.write_bytes(b"no image")
            else:
                Image.new("RGB", (8, 8), (i, 0, 0)).save(path)
            pairs.append((str(path), i))
        return pairs

    return make


def labels(loader):
    return [b[1].tolist() for b in loader]


# ---- files that cannot be read ----


@pytest.mark.parametrize("form", ["skip", "replace"])
@pytest.mark.parametrize("bad", [{2}, set(range(5, 17)), set(range(10, 90))], ids=["one", "twelve", "eighty"])
def test_files_that_give_an_io_error(listed, form, bad):
    """Reading /proc/self/mem fails with EIO, as reading a bad sector does: that is the sample's failure. But 32 in a row show that the disk fails."""
    pairs = [("/proc/self/mem" if i in bad else path, i) for path, i in listed(100)]
    loader = Loader(pairs, 4, **{**SKIP, "on_error": form, "max_errors": 1000})
    if len(bad) > 32:
        with pytest.raises(ReadError, match="Input/output error"):
            labels(loader)
        return
    got = [i for batch in labels(loader) for i in batch]
    if form == "skip":
        assert got == [i for i in range(100) if i not in bad]
    else:
        assert [i for i in range(100) if got[i] != i] == sorted(bad) and not set(got) & bad
    assert {e.sample for e in loader.pipeline.bad_samples()} >= bad


@pytest.mark.parametrize("form", ["skip", "replace"])
def test_many_missing_files_in_a_row(listed, form):
    """Only max_errors limits the number of files that are missing: a disk that says so works."""
    pairs, gone = listed(200), range(40, 120)
    for i in gone:
        Path(pairs[i][0]).unlink()
    loader = Loader(pairs, 4, **{**SKIP, "on_error": form, "max_errors": 2000})
    got = [i for batch in labels(loader) for i in batch]
    if form == "skip":
        assert got == [i for i in range(200) if i not in gone]
    else:
        assert [i for i in range(200) if got[i] != i] == list(gone) and not set(got) & set(gone)
    assert {e.sample for e in loader.pipeline.bad_samples()} >= set(gone)


# ---- batches without samples ----


@pytest.mark.parametrize("form", ["files", "dataset", "pipeline"])
@pytest.mark.parametrize("bad", [(0, 1), (2, 3), (6, 7), (6,), (0, 1, 2, 3)])
def test_a_batch_of_bad_samples_is_left_out(listed, form, bad):
    count = 7 if bad == (6,) else 8
    pairs = listed(count, bad)

    def make():
        if form == "pipeline":
            return Loader(_reading(pairs, tail="keep"))
        return Loader(Data(count, pairs.__getitem__) if form == "dataset" else pairs, 2, **SKIP)

    whole = [[i for i in range(k, min(k + 2, count))] for k in range(0, count, 2)]
    want = [b for b in whole if not set(b) <= set(bad)]
    loader = make()
    epochs = []
    for epoch in range(2):
        assert loader.epoch == epoch and len(loader) == len(whole)
        epochs.append([np.ravel(b[1]).tolist() for b in loader])
    assert epochs == [want, want]
    assert [e.sample for e in loader.pipeline.bad_samples()] == [*bad, *bad]
    for taken in range(len(want) + 1):
        first = make()
        batches = list(itertools.islice(first, taken))
        assert first.step == (whole.index(want[taken - 1]) + 1 if taken and first.epoch == 0 else 0)
        again = make()
        again.load_state_dict(first.state_dict())
        rest = [np.ravel(b[1]).tolist() for b in again] if len(batches) < len(want) else []
        assert [np.ravel(b[1]).tolist() for b in batches] + rest == want


@pytest.mark.parametrize("form", ["files", "dataset", "pipeline", "sampler", "exceptions", "types", "batches", "stream", "table"])
def test_a_restored_epoch_may_end_in_bad_samples(listed, tmp_path, form):
    """A run is saved after its last good batch. The rest of its epoch then has no batches, and the next epoch has all."""
    pairs = listed(8, (6, 7))

    def fetched(i):
        return pairs[i] if i < 6 else _fails(i, i)

    def boxes(i):  # the type of boxes is not known before the fourth sample
        return (*fetched(i), torch.ones((1, 4), dtype=torch.float64) if i >= 3 else [])

    class Stream:
        def __iter__(self):
            return iter([(path if i < 6 else None, i) for path, i in pairs])

    batches = [[0, 1], [2, 3], [4, 5], [6, 7]]
    data, more = {
        "dataset": (Data(8, pairs.__getitem__), {}),
        "exceptions": (Data(8, fetched), {}),
        "types": (Data(8, boxes), {"fields": {"image": "Image", "label": None, "boxes": "BoundingBoxes"}}),
        "batches": (Data(8, fetched), {"batch_sampler": batches}),
        "stream": (Stream(), {}),
        "sampler": (pairs, {"sampler": lambda epoch: range(8)}),
    }.get(form, (pairs, {}))
    how = {**SKIP, "batch_size": None, "last_batch": None} if form == "batches" else {**SKIP, "batch_size": 2}
    if form == "table":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        rows = pa.table({"image": [Path(path).read_bytes() if i < 6 else None for path, i in pairs], "label": [i for _, i in pairs]})
        pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=4)

    def make():
        if form == "pipeline":
            return Loader(_reading(pairs, tail="keep"))
        if form == "table":
            return Loader.from_parquet(tmp_path / "rows.parquet", 2, **SKIP)
        return Loader(data, **how, **more)

    with make() as first, make() as again:
        for _ in itertools.islice(first, 3):
            pass
        again.load_state_dict(first.state_dict())
        assert list(again) == [] and again.epoch == 1
        assert [np.ravel(b[1]).tolist() for b in again] == [[0, 1], [2, 3], [4, 5]]
        first.close()
        assert list(first) == [] and first.epoch == 1


@pytest.mark.parametrize("kind", ["dataset", "stream"])
def test_a_restored_epoch_without_a_good_sample_raises(kind):
    """Samples that were good when the state was saved fail now."""
    image, bad = np.zeros((8, 8, 3), np.uint8), set()

    class Stream:
        def __iter__(self):
            return iter([(None if i in bad else image, i) for i in range(8)])

    data = Data(8, lambda i: _fails(i, i) if i in bad else (image, i)) if kind == "dataset" else Stream()
    first, again = Loader(data, 2, **SKIP), Loader(data, 2, **SKIP)
    next(iter(first))
    bad |= set(range(8))
    with pytest.raises((OSError, TypeError)):
        again.load_state_dict(first.state_dict())
        list(again)


def test_collate_functions_never_get_an_empty_batch(listed):
    seen = []

    def collate(batch):
        seen.append(batch.image.shape)
        return batch

    pairs = listed(8, (2, 3))
    loader = Loader(pairs, 2, collate_fn=collate, batch_transforms=T.MixUp(alpha=0.2, num_classes=8), **SKIP)
    assert [tuple(b.label.shape) for b in loader] == [(2, 8)] * 3 and set(seen) == {(2, 3, 8, 8)}
    ragged = Data(8, lambda i: (pairs[i][0], torch.arange(i + 1)))
    sizes = [b.more.sample_sizes.tolist() for b in Loader(ragged, 2, fields=("image", "more"), ragged="more", **SKIP)]
    assert sizes == [[1, 2], [5, 6], [7, 8]]


def test_an_epoch_without_a_good_sample_is_an_error(listed):
    pairs = listed(4, range(4))
    with pytest.raises(CorruptError, match=r"epoch 0 has no good sample.*3-bad\.png"):
        list(Loader(pairs, 2, **SKIP))
    with pytest.raises(CorruptError, match=r"has no good sample"):
        next(DALIGenericIterator(_reading(pairs), ["data", "label"]))
    loader = Loader(pairs, 2, bucket_by=[1, 1, 2, 2], **SKIP)  # with a pipeline for each epoch
    for epoch in range(2):
        with pytest.raises(CorruptError, match=rf"epoch {epoch} has no good sample.*-bad\.png"):
            list(loader)


def _without_lines(error):
    """Returns the error's message without the lines of this file at which graphs were made."""
    return re.sub(r"\.py:\d+", ".py", str(error))


@pytest.mark.parametrize("form", ["files", "dataset", "iterator"])
def test_one_of_several_ranks_leaves_out_no_batch(listed, form):
    """A rank whose batch has no good sample raises an error. If it skipped the batch, the other ranks would wait for it forever."""
    pairs = listed(12, (6, 7))

    def steps(rank):
        if form == "iterator":
            return DALIGenericIterator(_reading(pairs, tail="drop", rank=rank), ["data", "label"], reader_name="R")
        return Loader(Data(12, pairs.__getitem__) if form == "dataset" else pairs, 2, shard=(rank, 2), **{**SKIP, "last_batch": "drop"})

    assert len(list(steps(0))) == 3
    made = steps(1)
    bad = iter(made)
    next(bad)
    state = None if form == "iterator" else made.state_dict()
    with pytest.raises(
        CorruptError, match=r"a batch of epoch 0 has no samples.*6-bad\.png, \S*7-bad\.png\. With 2 ranks.*on_error=\"replace\""
    ) as caught:
        next(bad)
    assert next(bad) is not None
    if state is not None:  # a resumed run counts its batches from 0, so the message names no batch number, and is the same
        resumed = steps(1)
        resumed.load_state_dict(state)
        with pytest.raises(CorruptError) as again:
            next(iter(resumed))
        assert _without_lines(again.value) == _without_lines(caught.value)


@pytest.mark.parametrize("form", ["files", "dataset", "pipeline"])
@pytest.mark.parametrize("size", [9, 17])
def test_ranks_without_samples_repeat_one_and_mark_it(listed, capfd, monkeypatch, form, size):
    """A rank without a sample in the last step gets the last sample again, marked as not valid, and prints a notice. A batch of no samples would have no
    shape, and the mean of its loss would be NaN."""
    monkeypatch.setattr("stoker._where._shown", set())
    pairs = listed(size)

    def loader(rank):
        fields = ("image", "label", "index", "valid")
        if form == "pipeline":
            return Loader(_reading(pairs, batch=4, rank=rank, ranks=3, tail="keep"), fields=fields)
        return Loader(Data(size, pairs.__getitem__) if form == "dataset" else pairs, 4, shard=(rank, 3), fields=fields, **SKIP)

    ranks = [[(b.image.shape[0], b.label.tolist(), b.index.tolist(), b.valid.tolist()) for b in loader(rank)] for rank in range(3)]
    last = size - 1
    repeat = (1, [last], [last], [False])
    whole = [list(range(size - 9 + k, size - 5 + k)) for k in (0, 4)]
    want = [(4, ids, ids, [True] * 4) for ids in whole] if size == 9 else [(4, whole[1], whole[1], [True] * 4)]
    assert [steps[-1] for steps in ranks] == [*want, (1, [last], [last], [True]), repeat][:3]
    assert len({len(steps) for steps in ranks}) == 1
    valid = [i for steps in ranks for _, _, ids, own in steps for i, v in zip(ids, own, strict=True) if v]
    assert sorted(valid) == list(range(size))
    noticed = f"on 1 of 3 ranks ({size} samples in batches of 4 for each rank" in capfd.readouterr().err
    assert noticed == (size == 17)


def _reading(pairs, batch=2, rank=None, ranks=2, **reader):
    @pipeline_def(batch_size=batch, num_threads=1, device_id=None, on_error="skip", max_errors=100)
    def pipe():
        shard = {} if rank is None else {"num_shards": ranks, "shard_id": rank}
        data, label = fn.readers.file(files=[p for p, _ in pairs], labels=[i for _, i in pairs], name="R", **shard, **reader)
        return fn.decoders.image(data), label

    return pipe()


@pytest.mark.parametrize("policy", list(LastBatchPolicy))
@pytest.mark.parametrize("end", [{"reader_name": "R"}, {"size": 8}])
@pytest.mark.parametrize("bad", [(0, 1), (2, 3), (6, 7)])
def test_iterators_leave_out_a_batch_of_bad_samples(listed, policy, end, bad):
    iterator = DALIGenericIterator(_reading(listed(8, bad)), ["data", "label"], last_batch_policy=policy, auto_reset=True, **end)
    want = [b for b in ([0, 1], [2, 3], [4, 5], [6, 7]) if b != list(bad)]
    for _ in range(3):
        assert [step[0]["label"].flatten().tolist() for step in iterator] == want


@pytest.mark.parametrize("end", [{"reader_name": "R"}, {"size": 7}])
@pytest.mark.parametrize("bad", [(6,), (0,), (2, 6), (1, 2, 3)])
def test_bad_samples_do_not_move_the_end_of_an_iterators_epoch(listed, end, bad):
    """Each epoch of an iterator has each good sample once, although batches of three continue from an epoch of seven samples into the next."""
    pipe = _reading(listed(7, bad), 3)
    iterator = DALIGenericIterator(pipe, ["data", "label"], last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True, **end)
    for _ in range(4):
        assert sorted(x for step in iterator for x in step[0]["label"].flatten().tolist()) == sorted({*range(7)} - {*bad})


def test_run_gives_each_step(listed):
    """run() also returns batches without samples, because programs that call it count steps themselves."""
    pipe = _reading(listed(6, (2, 3)))
    assert [len(pipe.run()[1]) for _ in range(3)] == [2, 0, 2]


# ---- samples that a Dataset cannot give ----


def _fails(i, bad=2):
    if i == bad:
        raise OSError("the network is down")


FAULTS = {
    "no file": (lambda pairs, tmp: lambda i: (str(tmp / "none.png") if i == 2 else pairs[i][0], i), r"none\.png.*dataset\[2\]"),
    "a folder": (lambda pairs, tmp: lambda i: (str(tmp) if i == 2 else pairs[i][0], i), r"directory.*dataset\[2\]"),
    "an exception": (lambda pairs, tmp: lambda i: _fails(i) or pairs[i], r"OSError: the network is down.*dataset\[2\]"),
    "None": (lambda pairs, tmp: lambda i: (None if i == 2 else pairs[i][0], i), r"NoneType as an image.*dataset\[2\]"),
    "None as a sample": (lambda pairs, tmp: lambda i: None if i == 2 else pairs[i], r"None(Type)? as an? (sample|image).*dataset\[2\]"),
    "a part less": (lambda pairs, tmp: lambda i: (pairs[i][0],) if i == 2 else pairs[i], r"a sample of 1 part;.*dataset\[2\]"),
    "a damaged file": (lambda pairs, tmp: lambda i: (_damaged(tmp) if i == 2 else pairs[i][0], i), r"damaged\.png: not a.*dataset\[2\]"),
    "a damaged mask": (
        lambda pairs, tmp: lambda i: {"image": pairs[i][0], "mask": _damaged(tmp) if i == 2 else pairs[i][0].replace(".png", ".mask")},
        r"the mask 'mask'.*damaged\.png.*dataset\[2\]",
    ),
}


def _damaged(folder):
    (folder / "damaged.png").write_bytes(b"no image")
    return str(folder / "damaged.png")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_dataset_cannot_give_is_skipped_as_a_listed_file_is(listed, tmp_path, fault, first, workers):
    """A sample that a Dataset cannot return is left out of its batch and reported with its number, or its error is raised. This also holds for the first
    sample, which determines the structure of all samples."""
    if fault == "a part less" and first:
        pytest.skip("the first sample says how many parts all have")
    make, said = FAULTS[fault]
    pairs = listed(6)
    for path, _ in pairs:
        Image.new("L", (8, 8)).save(path.replace(".png", ".mask"), "PNG")
    order = {"sampler": lambda epoch: [2, 0, 1, 3, 4, 5] if first else range(6)}
    how = {"fields": {"image": "Image", "mask": "Mask"}} if "mask" in fault else {}
    if workers:
        how |= {"python_workers": workers, "multiprocessing_context": "fork"}
    source = Data(6, make(pairs, tmp_path))
    loader = Loader(source, 2, **SKIP, **order, **how)
    assert [len(b[0]) for b in loader] == ([1, 2, 2] if first else [2, 1, 2])
    (error,) = loader.pipeline.bad_samples()
    assert _matches(said, str(error)) and error.sample == (0 if first else 2)
    with pytest.raises(Exception, match=said.split(".*")[0].replace("OSError: ", "")) as caught:
        list(Loader(source, 2, **{**SKIP, "on_error": "raise"}, **order, **how))
    notes = " ".join(getattr(caught.value, "__notes__", ()))
    assert "dataset[2]" in str(caught.value) + notes


def _matches(pattern, text):
    import re

    return re.search(pattern, text) is not None


def test_bad_samples_of_a_dataset_are_counted_as_files_are(listed):
    """By default one sample in a hundred may be bad in an epoch, and at least one, for Datasets as for readers of files."""
    pairs = listed(6)
    for bad in ((2,), (2, 4)):
        source = Data(6, lambda i, bad=bad: (None if i in bad else pairs[i][0], i))
        loader = Loader(source, 2, transforms=SMALL, on_error="skip", last_batch="keep")
        if len(bad) == 1:
            assert sum(len(b.image) for b in loader) == 5
        else:
            with pytest.raises(LimitError, match="2 bad samples in epoch 0, over max_errors"):
                list(loader)


def test_samples_of_an_iterable_that_cannot_be_read_are_skipped(listed):
    class Stream:
        def __iter__(self):
            return iter([(None, 7), *pairs[:2], ("none.png", 3), *pairs[2:]])

    pairs = listed(4)
    loader = Loader(Stream(), 2, **SKIP)
    assert labels(loader) == [[0], [1], [2, 3]] == labels(loader)
    assert "none.png" in str(loader.pipeline.bad_samples()[1])


def test_a_dataset_that_gives_nothing_at_all_raises_what_it_raised():
    with pytest.raises(OSError, match="the network is down"):
        next(iter(Loader(Data(8, lambda i: _fails(i, i)), 2, **SKIP)))


def _raise_from_itself():
    e = KeyError("no such row")
    raise e from e


def _raise_a_cycle():
    """Raises an error whose context is an error with this error as context."""
    first, second = KeyError("no such row"), ValueError("no such row")
    first.__context__, second.__context__ = second, first
    raise first


def _raise_a_cycle_of_causes():
    first, second = KeyError("no such row"), ValueError("no such row")
    first.__cause__, second.__cause__ = second, first
    raise first


@pytest.mark.parametrize("fail", [_raise_from_itself, _raise_a_cycle, _raise_a_cycle_of_causes])
def test_errors_that_cause_each_other_are_skipped(fail):
    picture = np.zeros((8, 8, 3), np.uint8)
    loader = Loader(Data(6, lambda i: fail() if i in (0, 3) else (picture, i)), 2, **SKIP)
    assert [i for batch in labels(loader) for i in batch] == [1, 2, 4, 5]
    assert ["no such row" in str(e) for e in loader.pipeline.bad_samples()] == [True, True]


def test_the_tracebacks_of_all_causes_are_removed():
    """The cause and the context of an error both lose their tracebacks."""
    errors = [KeyError(name) for name in "abcd"]
    for e in errors:
        with pytest.raises(KeyError):
            raise e
    whole, cause, context, deeper = errors
    whole.__cause__, whole.__context__, context.__cause__ = cause, context, deeper
    deeper.__context__ = whole
    forget_frames(whole)
    assert [e.__traceback__ for e in errors] == [None] * 4


@pytest.mark.parametrize("size", [50, 200, 500])
@pytest.mark.parametrize("first", [4, 500, 990])
def test_an_exception_keeps_its_class_in_a_batch_of_many_bad_samples(size, first):
    """A loop can catch the exception of its Dataset by its class, however many samples of the batches that are made ahead fail."""
    image = np.zeros((8, 8, 3), np.uint8)

    def sample(i):
        if i >= first:
            raise KeyError(f"no sample {i}")
        return image, i

    with Loader(Data(1000, sample), size, prefetch=4) as loader, pytest.raises(KeyError, match=f"no sample {first}'"):
        list(loader)


def test_ranks_over_a_dataset_keep_to_their_positions(listed):
    pairs = listed(12, (5,))
    source = Data(12, lambda i: (None if i == 0 else pairs[i][0], i))
    ranks = [labels(Loader(source, 2, shard=(r, 2), **{**SKIP, "last_batch": "drop"})) for r in range(2)]
    assert ranks == [[[1], [4], [8, 9]], [[2, 3], [6, 7], [10, 11]]]


# ---- one seed for a resumed run ----


@pytest.mark.parametrize("taken", [1, 3, 4])
@pytest.mark.parametrize("form", ["files", "dataset", "stream", "weights", "pipeline", "mixed"])
def test_a_resumed_run_keeps_the_seed_of_its_state(listed, form, taken):
    """A resumed run has the order and draws of the state's seed, in this epoch and in later ones, whatever seed was passed to the new Loader."""
    pairs = listed(9)
    draws = {"transforms": [T.Resize((8, 8)), T.ColorJitter(0.9, 0.9)], "last_batch": "keep"}

    def make(seed):
        if form == "pipeline":
            return Loader(_drawing(pairs, seed))
        if form == "stream":
            return Loader(_Stream(pairs), 3, seed=seed, **draws)
        more = {"weights": {"sampler": [1.5] * 9}}.get(form, {"shuffle": True})
        if form == "mixed":
            more["batch_transforms"] = T.MixUp(num_classes=9)
        return Loader(Data(9, pairs.__getitem__) if form == "dataset" else pairs, 3, seed=seed, **more, **draws)

    first = make(None if form == "files" else 5)
    steps = iter(first)
    for _ in range(taken):
        next(steps, None)
    state = first.state_dict()
    again = make(None if form == "files" else 6)
    again.load_state_dict(state)
    rest = [*steps, *first, *first]
    got = [*again, *again] + ([] if taken > 3 else list(again) if taken < 3 else [])
    for want, have in zip(rest, got, strict=False):
        assert all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(want, have, strict=True))
    assert repr(first).split("seed ")[1].split()[0] == repr(again).split("seed ")[1].split()[0]


class _Stream:
    def __init__(self, pairs):
        self.pairs = pairs

    def __iter__(self):
        return iter(self.pairs)


def _drawing(pairs, seed):
    @pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=seed)
    def pipe():
        data, label = fn.readers.file(files=[p for p, _ in pairs], labels=[i for _, i in pairs], random_shuffle=True, tail="keep")
        return fn.brightness(fn.decoders.image(data), brightness=fn.random.uniform(range=[0.0, 2.0])), label

    return pipe()


def test_a_pipeline_keeps_the_seed_of_its_checkpoint(listed):
    pairs = listed(9)
    first = _drawing(pairs, 5)
    first.run()
    state = first.checkpoint()
    again = _drawing(pairs, 6).__class__.deserialize(_drawing(pairs, 6).serialize(), checkpoint=state)
    assert again.seed == 5
    want, have = first.run()[0], again.run()[0]
    assert all(np.array_equal(np.array(a), np.array(b)) for a, b in zip(want, have, strict=True))


def test_weights_of_the_wrong_length_are_named(listed):
    for count in (3, 9):
        for source in (listed(6), Data(6, listed(6).__getitem__)):
            with pytest.raises(StokerError, match=rf"there are {count} weights; the data set has 6 samples"):
                next(iter(Loader(source, 2, sampler=[1.5] * count, transforms=SMALL)))


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("form", ["files", "dataset", "iterator"])
def test_max_errors_of_0_tolerates_none(listed, policy, form):
    """With max_errors=0 one bad sample is an error; with 1, or by default, it is not. A limit of 0 must not be mistaken for a missing one."""
    pairs = listed(8, (5,))

    def run(limit):
        settings = {"on_error": policy} if limit is None else {"on_error": policy, "max_errors": limit}
        if form == "iterator":

            @pipeline_def(batch_size=2, num_threads=1, device_id=None, **settings)
            def pipe():
                return fn.decoders.image(fn.readers.file(files=[p for p, _ in pairs], tail="keep")[0])

            p = pipe()
            for _ in range(4):
                p.run()
            return
        list(Loader(Data(8, pairs.__getitem__) if form == "dataset" else pairs, 2, transforms=SMALL, last_batch="keep", **settings))

    if form == "dataset" and policy == "replace":
        pytest.skip("a Dataset gives another sample itself")
    run(1)
    run(None)  # the default is one bad sample in a hundred, and at least one
    with pytest.raises(LimitError, match=r"1 bad samples in epoch 0, over max_errors \(0\)"):
        run(0)


@pytest.mark.parametrize("how", ["skip", "raise", "first", "stream"])
def test_a_dataset_that_fails_keeps_no_pipeline_alive(how):
    """The library stores the exception. The exception's traceback must not keep the Loader alive: a Loader that was dropped would never be freed, and its
    threads would stay."""
    picture = np.zeros((8, 8, 3), np.uint8)
    bad = {"skip": 2, "raise": 2, "first": 0, "stream": 0}[how]

    def run():
        data = Data(6, lambda i: (None if i == bad else picture, i))
        source = map(data.__getitem__, range(6)) if how == "stream" else data
        loader = Loader(source, 2, **({} if how == "raise" else SKIP))
        if how == "raise":
            with pytest.raises(TypeError):
                list(loader)
        else:
            assert sum(len(b[0]) for b in loader) == 5

    before = _native_threads()
    run()
    until = time.monotonic() + 20
    while not set(_native_threads()) <= set(before) and time.monotonic() < until:
        gc.collect()
        time.sleep(0.05)
    assert set(_native_threads()) <= set(before)


# ---- numbers of epochs ----

ORDERS = {
    "shuffled": {"batch_size": 2, "shuffle": True},
    "sampler": {"batch_size": 2, "sampler": lambda epoch: range(8)},
    "batch_sampler": {"batch_sampler": [[0, 1], [2, 3], [4, 5], [6, 7]]},
    "bucket_by": {"batch_size": 2, "bucket_by": [1] * 8},
}


@pytest.mark.parametrize("order", ORDERS)
def test_bad_samples_are_of_the_loaders_epoch(listed, order):
    """Errors of bad samples name the Loader's epoch. If the user gives the order, each epoch has a pipeline of its own, which numbers its epochs from 0."""
    pairs = listed(8, (2, 5))
    loader = Loader(pairs, **ORDERS[order], transforms=SMALL, on_error="skip", max_errors=100)
    for _ in range(3):
        list(loader)
    bad = loader.pipeline.bad_samples()
    assert [e.epoch for e in bad] == [0, 0, 1, 1, 2, 2]
    assert [int(re.search(r" of epoch (\d+)", str(e))[1]) for e in bad] == [0, 0, 1, 1, 2, 2]
    limited = Loader(pairs, **ORDERS[order], transforms=SMALL, on_error="skip", max_errors=1)
    limited.set_epoch(4)
    with pytest.raises(LimitError, match=r"2 bad samples in epoch 4, .* of epoch 4"):
        list(limited)


@pytest.mark.parametrize("order", ["shuffled", "sampler"])
def test_the_users_exceptions_are_of_the_loaders_epoch(listed, order):
    def transform(image):
        raise ValueError("no")

    def given(i):
        if i == 2:
            raise KeyError("two")
        return torch.zeros(3, 8, 8), i

    loader = Loader(listed(8), **ORDERS[order], transforms=[*SMALL, transform])
    loader.set_epoch(3)
    with pytest.raises(ValueError, match="no") as e:
        list(loader)
    assert " of epoch 3" in e.value.__notes__[0]
    loader = Loader(Data(8, given), **ORDERS[order])
    loader.set_epoch(3)
    with pytest.raises(KeyError, match="two"):
        list(loader)


# ---- the number of bad samples that are kept ----


def test_more_bad_samples_than_are_kept(tmp_path, capfd):
    """The errors of the last 10 000 bad samples are kept, and bad_samples() says that there were more."""
    (tmp_path / "a.png").write_bytes(b"no image")
    Image.new("RGB", (8, 8)).save(tmp_path / "b.png")
    pairs = [(str(tmp_path / ("b.png" if i % 200 == 0 else "a.png")), i) for i in range(10200)]
    loader = Loader(pairs, 200, **{**SKIP, "max_errors": 20000})
    list(loader)
    bad = loader.pipeline.bad_samples()
    assert len(bad) == 10000 and bad[-1].sample == 10199 and bad[0].sample == 10199 - 10000 - 50 + 1
    assert "bad_samples() has the last 10000 of 10149 bad samples" in capfd.readouterr().err
    ordered = Loader(pairs, 200, sampler=lambda epoch: range(10200), **{**SKIP, "max_errors": 20000})
    list(ordered)
    assert len(ordered.pipeline.bad_samples()) == 10000
    list(itertools.islice(ordered, 2))
    bad = ordered.pipeline.bad_samples()
    assert len(bad) == 10000 and bad[-1].epoch == 1 and bad[0].epoch == 0
    assert "bad_samples() has the last 10000 of 10547 bad samples" in capfd.readouterr().err


def test_a_limit_without_on_error_is_refused(listed):
    """Without on_error the first bad sample is an error, so a user who gives only max_errors would wait in vain for samples to be skipped."""
    for make in (lambda **more: Loader(listed(6, (2,)), 2, transforms=SMALL, **more), lambda **more: Pipeline(2, 1, None, **more)):
        for limit in (5, 0.1):
            with pytest.raises(InvalidArgumentError, match=rf'max_errors={limit} .*: give on_error="skip" or "replace" too'):
                make(max_errors=limit)
        with pytest.raises(InvalidArgumentError, match="max_errors is at least 0"):
            make(max_errors=-1)
        for settings in ({"max_errors": 0}, {"max_errors": None}, {"max_errors": 5, "on_error": "raise"}):
            make(**settings)
