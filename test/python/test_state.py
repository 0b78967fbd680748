# SPDX-License-Identifier: Apache-2.0
"""Saved states of pipelines and Loaders: damaged fields are refused by name, any 64-bit seed and epochs below 2**32 survive, and each version of the order
keeps its sequence."""

import json
import re

import numpy as np
import pytest
from stoker import Loader, Pipeline, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import StateError

SAMPLES = 11
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def numbered(files, batch_size=3, **kwargs):
    """Returns a pipeline that gives the labels 0 to 10 in shuffled order, in epochs of 11 samples."""

    @pipeline_def(batch_size=batch_size, num_threads=2, device_id=None)
    def define():
        return fn.readers.file(files=[str(f) for f in files[:SAMPLES]], labels=list(range(SAMPLES)), random_shuffle=True, name="Reader")[1]

    return define(**kwargs)


def take(pipe, samples):
    labels = []
    while len(labels) < samples:
        labels += np.asarray(pipe.run()[0].as_array()).flatten().tolist()
    return labels[:samples]


# ---- the order ----


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def key_of(seed, epoch):
    return mix((mix((seed + GOLDEN) & MASK) + epoch * 0xD1342543DE82EF95) & MASK)


def order_2(seed, epoch, n, i):
    """Returns the sample at position i of n in version 2 of the order, the swap-or-not shuffle."""
    key = key_of(seed, epoch)
    for r in range(48):
        drawn = mix((key + (r + 1) * GOLDEN) & MASK)
        other = (((drawn >> 32) * n >> 32) - i) % n
        if mix((drawn + (max(i, other) + 1) * GOLDEN) & MASK) >> 63:
            i = other
    return i


def order_1(seed, epoch, n, i):
    """Returns the sample at position i of n in version 1 of the order, a Feistel network with cycle walking. Has 24 rounds, as for n up to 2**15."""
    key, bits = key_of(seed, epoch), (n - 1).bit_length()
    half = 1 if bits < 2 else (bits + 1) // 2
    while True:
        left, right = i >> half, i & (1 << half) - 1
        for r in range(24):
            drawn = mix((mix(right ^ ((key + (r + 1) * GOLDEN) & MASK)) + key) & MASK)
            left, right = right, left ^ drawn & (1 << half) - 1
        i = left << half | right
        if i < n:
            return i


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("begin", [0, 4])
def test_a_state_keeps_the_order_of_its_version(files, version, begin):
    state = json.loads(numbered(files, seed=5).checkpoint())
    assert state["order"] == 2
    state |= {"order": version, "epoch": 7, "consumed": begin}
    pipe = numbered(files, seed=5, checkpoint=json.dumps(state))
    order = order_1 if version == 1 else order_2
    want = [order(state["order_seed"], e, SAMPLES, i) for e in (7, 8, 9) for i in range(SAMPLES)][begin:]
    assert take(pipe, len(want)) == want
    again = json.loads(pipe.checkpoint())
    assert again["order"] == version
    rest = take(pipe, SAMPLES)
    assert take(numbered(files, seed=5, checkpoint=json.dumps(again)), SAMPLES) == rest


# ---- damaged states ----


def test_an_invalid_checkpoint_is_refused_with_advice(files):
    with pytest.raises(FileNotFoundError, match=r"a checkpoint is what Pipeline.checkpoint\(\) returns, .*'hello'"):
        numbered(files, checkpoint="hello")


FIELDS = ["stoker_state", "order", "random", "seed", "order_seed", "shuffle", "epoch", "consumed", "size", "fingerprint"]
WRONG = [None, True, -1, 1.5, "x", "1 ", "-1", [], {}, [1], 2**63, 10**30]


def without(state, name):
    return {k: v for k, v in state.items() if k != name}


def damaged(state):
    """Yields (state, name of the field) for states in which a field is missing, has a wrong type, is out of range or is unknown."""
    for name in [*FIELDS, "files", "runs"]:
        yield without(state, name), name
        for wrong in WRONG:
            if not (isinstance(wrong, bool) and name == "shuffle"):
                yield {**state, name: wrong}, name
    for name, wrong in (
        ("epoch", 2**63 - 1),
        ("epoch", 2**32),
        ("consumed", 2**62),
        ("consumed", 2**63 - 1),
        ("size", 2**62),
        ("files", 2**62),
        ("order", 0),
        ("order", 3),
        ("order_seed", str(2**64)),
        ("seed", "0x5"),
        ("runs", state["runs"][:-1]),
        ("fingerprint", state["fingerprint"].upper() + "A"),
        ("something", 1),
    ):
        yield {**state, name: wrong}, name


def test_damaged_states_are_refused_by_name(files):
    good = numbered(files, seed=5)
    take(good, 5)
    state = json.loads(good.checkpoint())
    assert set(state) == {*FIELDS, "files", "runs"}
    numbered(files, seed=5, checkpoint=json.dumps(state)).build()
    for broken, name in damaged(state):
        with pytest.raises(StateError, match=rf"{name}|not the state of a pipeline|another order of samples|big integer"):
            numbered(files, seed=5, checkpoint=json.dumps(broken)).build()
    for text in ("{", "{}", "{[]}", '{"stoker_state": 1}', '{"stoker_state": 1, "stoker_state": 1}'):
        with pytest.raises(StateError):
            numbered(files, seed=5, checkpoint=text).build()


@pytest.mark.parametrize("damage", ["a byte", "a surrogate", "nested", "a number"])
def test_states_with_a_damaged_byte_are_refused(files, tmp_path, damage):
    pipe = numbered(files)
    take(pipe, 3)
    state = pipe.checkpoint()
    if damage == "nested":
        state = state[:1] + b'"stoker_x":' + b"[" * 100_000 + b"," + state[1:]
    elif damage == "a number":
        state = json.dumps({**json.loads(state), "seed": 0}).replace('"seed": 0', '"seed": 1e999').encode()
    else:
        state = state[:20] + (b"\xff" if damage == "a byte" else b"\xed\xa0\x80") + state[21:]
    path = tmp_path / "state.json"
    path.write_bytes(state)
    utf8 = damage in ("a byte", "a surrogate")
    for given, where in (
        (state, ""),
        (path, f"{path}: "),
        (str(path), f"{path}: "),
        (state.decode(errors="surrogatepass") if damage != "a byte" else state, ""),
    ):
        with pytest.raises(
            StateError, match="^" + re.escape(where) + "the state is damaged: it is no text in UTF-8" if utf8 else "state"
        ) as caught:
            numbered(files, checkpoint=given).build()
        assert not utf8 or "position 20" in str(caught.value)


@pytest.mark.parametrize("given", ["\0", "a\0b", "\ud800", "\0{}"])
def test_a_text_that_is_no_path_is_no_state(files, given):
    with pytest.raises(StateError, match="this is no state of a Pipeline, but text: give what"):
        numbered(files, checkpoint=given).build()


def test_a_serialised_pipeline_with_a_damaged_byte_is_refused(files, tmp_path):
    from stoker.errors import InvalidArgumentError

    damaged = bytearray(numbered(files).serialize(filename=None))
    damaged[20] = 0xFF
    path = tmp_path / "graph.json"
    path.write_bytes(damaged)
    with pytest.raises(InvalidArgumentError, match=r"^this is no serialised pipeline"):
        Pipeline.deserialize(bytes(damaged))
    with pytest.raises(InvalidArgumentError, match="^" + re.escape(f"{path} is no serialised pipeline")):
        Pipeline.deserialize(filename=path)


@pytest.mark.parametrize("seed", [0, 2**63 - 1, 2**63, 2**63 + 12345, 2**64 - 1])
def test_any_seed_survives_a_checkpoint(files, seed):
    pipe = numbered(files, seed=seed)
    take(pipe, 3)
    text = pipe.checkpoint()
    assert int(json.loads(text)["seed"]) == seed
    rest = take(pipe, 2 * SAMPLES)
    again = numbered(files, checkpoint=text)
    assert again.seed == seed and take(again, 2 * SAMPLES) == rest
    last = json.loads(text) | {"order_seed": str(2**64 - 1)}
    numbered(files, checkpoint=json.dumps(last)).build()


@pytest.mark.parametrize(
    "kwargs", [{}, {"pad_last_batch": True}, {"num_shards": 3, "shard_id": 2}, {"num_shards": 2, "stick_to_shard": True}]
)
def test_the_last_epochs_that_a_state_may_name(files, kwargs):
    def make(checkpoint=None):
        pipe = Pipeline(batch_size=3, num_threads=2, device_id=None, seed=1, checkpoint=checkpoint)
        with pipe:
            pipe.set_outputs(fn.readers.file(files=[str(f) for f in files[:SAMPLES]], labels=list(range(SAMPLES)), **kwargs)[1])
        return pipe

    state = json.loads(make().checkpoint())
    pipe = make(json.dumps({**state, "epoch": 2**32 - 6}))
    assert all(0 <= label < SAMPLES for label in take(pipe, SAMPLES))
    assert 2**32 - 6 <= json.loads(pipe.checkpoint())["epoch"] < 2**32


def contiguous(files, size, batch, shards=1, shard=0, checkpoint=None, **reader):
    pipe = Pipeline(batch_size=batch, num_threads=2, device_id=None, checkpoint=checkpoint)
    with pipe:
        reader |= {"num_shards": shards, "shard_id": shard}
        pipe.set_outputs(fn.readers.file(files=[str(files[0])] * size, labels=list(range(size)), **reader)[1])
    return pipe


@pytest.mark.parametrize("reader", [{}, {"stick_to_shard": True}, {"pad_last_batch": True}])
def test_contiguous_shards_go_on_only_as_they_were(files, reader):
    """A position in contiguous shards depends on their number and on the batch size. Another division would lose samples and repeat others."""
    pipe = contiguous(files, 12, 2, 2, 1, **reader)
    take(pipe, 4)
    state = pipe.checkpoint()
    rest = take(pipe, 12)
    for batch in (2, 4, 1):
        again = take(contiguous(files, 12, batch, 2, 1, state, **reader), 12)
        assert again[:2] == rest[:2] and (again == rest or (reader and batch == 4)), "in batches of 4 the padded epoch ends elsewhere"
    taken = "the state is of a run that read shard 1 of 2 in batches of 2"
    for batch, shards, here in (
        (2, 1, "shard 0 of 1 in batches of 2"),
        (2, 3, "shard 0 of 3 in batches of 2"),
        (3, 2, "0 of 2 in batches of 3"),
    ):
        with pytest.raises(StateError, match=f"{taken}.*{here}.* lost or repeated: continue with the same settings"):
            contiguous(files, 12, batch, shards, 0, state, **reader).build()
    for shards in (1, 2):
        with pytest.raises(StateError, match=f"{taken}.*; this pipeline reads batches that the ranks take in turn"):
            contiguous(files, 12, 2, shards, 0, state, tail="keep").build()
    with pytest.raises(StateError, match="a run that read batches that the ranks take in turn; this pipeline reads shard 1 of 2"):
        turns = contiguous(files, 12, 2, 2, 1, tail="keep")
        turns.run()
        contiguous(files, 12, 2, 2, 1, turns.checkpoint(), **reader).build()
    take(pipe := contiguous(files, 12, 2, 2, 1, **reader), 6)
    halves = [take(contiguous(files, 12, 3, 4, k, pipe.checkpoint(), **reader), 3) for k in range(4)]
    assert sorted(n for half in halves for n in half) == list(range(12)), "between two epochs any division may follow"


def test_contiguous_shards_of_different_sizes_keep_their_own_states(files):
    """Each shard resumes from its own state, and refuses that of the other. Shard 0 has 4 of 9 samples, and 2 batches in the first epoch, in which shard 1 has
    3."""
    pipes = [contiguous(files, 9, 2, 2, k) for k in range(2)]
    for pipe in pipes:
        take(pipe, 6)
    states = [pipe.checkpoint() for pipe in pipes]
    for k, pipe in enumerate(pipes):
        assert take(contiguous(files, 9, 2, 2, k, states[k]), 20) == take(pipe, 20)
        with pytest.raises(StateError, match=f"read shard {1 - k} of 2 .*; this pipeline reads shard {k} of 2 .*each shard's own state"):
            contiguous(files, 9, 2, 2, k, states[1 - k]).build()


def test_the_entry_of_contiguous_shards_is_checked(files):
    state = json.loads(contiguous(files, 9, 2).checkpoint())
    assert state["shards"] == {"count": 1, "own": 0, "batch": 2, "stick": False, "wraps": True}
    for wrong in (3, {}, {"count": 0}, {"count": 10}, {"own": 1}, {"own": -1}, {"batch": 0}, {"batch": 2**31}):
        entry = wrong and {**state["shards"], **wrong} if isinstance(wrong, dict) else wrong
        with pytest.raises(StateError, match="damaged"):
            contiguous(files, 9, 2, checkpoint=json.dumps({**state, "shards": entry})).build()
    del state["shards"]
    contiguous(files, 9, 2, checkpoint=json.dumps(state)).build()


# ---- states of a Loader ----


class Numbers:
    def __init__(self, size=54):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return np.full((4, 4, 3), i, np.uint8), i


def loaders(files, size=54):
    """Returns functions that make Loaders over `size` samples whose labels are their ids: over files and over a Dataset, with and without a user's order."""
    pairs = [(str(files[i % len(files)]), i) for i in range(size)]
    order = {"sampler": lambda epoch: [(i + epoch) % size for i in range(size)]}
    settings = {"transforms": [T.Resize((8, 8))], "seed": 3}
    return {
        "files": lambda **kw: Loader(pairs, shuffle=True, **settings, **kw),
        "dataset": lambda **kw: Loader(Numbers(size), shuffle=True, **settings, **kw),
        "files in own order": lambda **kw: Loader(pairs, **order, **settings, **kw),
        "dataset in own order": lambda **kw: Loader(Numbers(size), **order, **settings, **kw),
    }


KINDS = ["files", "dataset", "files in own order", "dataset in own order"]


def labels_of(batch):
    return batch.label.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("last", ["drop", "keep", "pad"])
@pytest.mark.parametrize("batch", [8, 9, 40])
def test_a_larger_batch_near_the_end_of_an_epoch(files, kind, last, batch):
    """After 50 of 54 samples, a run resumes with a batch size that exceeds the rest of the epoch. It gets the rest as a short or padded batch, or with
    last_batch="drop" begins the next epoch."""
    make = loaders(files)[kind]
    first = make(batch_size=10, last_batch="keep")
    running = iter(first)
    seen = [x for _ in range(5) for x in labels_of(next(running))]
    loader = make(batch_size=batch, last_batch=last)
    loader.load_state_dict(first.state_dict())
    epoch = 1 if last == "drop" else 0
    assert loader.epoch == epoch
    got = [(loader.epoch, labels_of(b)) for b in loader]
    assert {e for e, _ in got} == {epoch}
    whole = [x for _, labels in got for x in labels]
    if last == "drop":
        assert len(whole) == 54 // batch * batch and len(set(whole)) == len(whole)
    else:
        assert set(whole) == set(range(54)) - set(seen)
    assert loader.epoch == epoch + 1
    assert loader.state_dict()["epoch"] == epoch + 1


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_states_of_a_loader_are_refused(files, kind):
    make = loaders(files)[kind]
    first = make(batch_size=10)
    next(iter(first))
    state = first.state_dict()
    make(batch_size=10).load_state_dict(state)
    # The fields "order", "own_order" and "seed" may be missing, as in states of earlier versions.
    broken = [without(state, name) for name in state if name not in ("order", "own_order", "seed")]
    good = (("pipeline", None), ("own_order", True))
    broken += [{**state, name: wrong} for name in state for wrong in WRONG if not any(name == n and wrong is w for n, w in good)]
    broken += [{**state, "epoch": wrong} for wrong in (2**32, 2**63, np.int64(3), "0")]
    # With a user's order, each epoch has its own pipeline, so epoch 5 is valid.
    broken += [{**state, "epoch": 5}] if "order" not in kind else []
    broken += [{**state, "something": 1}, {**state, 5: 1}, {**state, "pipeline": {"epoch": {1, 2}}}]
    broken += [
        {**state, "pipeline": {**state["pipeline"], name: wrong}} for name in ("epoch", "consumed") for wrong in [*WRONG, float("nan"), {1}]
    ]
    if "dataset" in state:
        facts = state["dataset"]
        broken += [{**state, "dataset": without(facts, name)} for name in facts]
        valid = {"seed": (int,), "shuffle": (bool,), "size": ()}
        broken += [{**state, "dataset": {**facts, name: w}} for name in facts for w in WRONG if not isinstance(w, valid[name])]
    if "order" in state:
        broken += [{**state, "order": without(state["order"], name)} for name in state["order"]]
        broken += [{**state, "order": {**state["order"], name: w}} for name in state["order"] for w in WRONG]
    for wrong in broken:
        loader = make(batch_size=10)
        with pytest.raises(StateError):
            loader.load_state_dict(wrong)
            next(iter(loader))


def test_a_state_of_another_kind_of_loader_is_refused(files):
    made = loaders(files)
    states = {}
    for kind, make in made.items():
        loader = make(batch_size=10)
        for _ in loader:
            pass
        next(iter(loader))  # takes the first batch of epoch 1
        states[kind] = loader.state_dict()
    for of, state in states.items():
        for kind, make in made.items():
            if of != kind:
                loader = make(batch_size=10)
                with pytest.raises(StateError):
                    loader.load_state_dict(state)
                    next(iter(loader))


@pytest.mark.parametrize("sources", ["samples", "batches", "iterable"])
def test_a_source_resumes_with_a_reader_whose_epochs_share_batches(files, sources):
    """A resumed run gets the same values from the reader and from the source as an uninterrupted run. With 11 samples in batches of 3, later epochs begin
    inside a batch of the reader, but at the start of a batch of the source."""

    def sample(info):
        return np.array([info.idx_in_epoch, info.epoch_idx])

    def batch(info):
        return np.array([[3 * info.iteration + i, info.epoch_idx] for i in range(3)])

    @pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def define():
        label = fn.readers.file(files=[str(f) for f in files[:SAMPLES]], labels=list(range(SAMPLES)), random_shuffle=True, name="Reader")[1]
        given = {
            "samples": {"source": sample, "batch": False},
            "batches": {"source": batch, "batch_info": True},
            "iterable": {"source": [np.full((3, 1), k) for k in range(4)], "cycle": "raise"},
        }
        return label, fn.external_source(**given[sources])

    def step(pipe):
        return [np.asarray(o.as_array()).tolist() for o in pipe.run()]

    whole, saved = define(), define()
    steps = [step(whole) for _ in range(12)]
    for taken in range(11):
        state = saved.checkpoint()
        if sources != "iterable" or taken in (0, 4, 8):  # an iterator can resume only at the start of an epoch
            resumed = define(checkpoint=state)
            assert [step(resumed) for _ in range(12 - taken)] == steps[taken:]
        assert step(saved) == steps[taken]
