# SPDX-License-Identifier: Apache-2.0
"""All consumers of a pipeline share one count of batches and agree on the end of an epoch."""

import numpy as np
import pytest
from stoker import Loader, fn, pipeline_def
from stoker.errors import CorruptError, NoDataError


@pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=1)
def labels(root):
    _, label = fn.readers.file(file_root=str(root), name="Reader")
    return label


def epochs(session, count):
    """Returns a list of (the batch's epoch, its step) for each epoch."""
    found = []
    for _ in range(count):
        found.append([])
        while (batch := session.next()) is not None:
            found[-1].append((batch.epoch, session.step))
        assert session.step == 0 and not session.last
    return found


def test_an_epoch_of_an_endless_reader_ends(tree):
    pipe = labels(tree)
    session = pipe._started()
    assert session.meta()["wraps"] and session.meta() == session.meta("Reader")
    # Number of steps in the first epoch; the second epoch begins inside a batch, and may have one step less.
    steps = session.meta()["steps"]
    first, second = epochs(session, 2)
    assert [step for _, step in first] == list(range(1, steps + 1)) and {e for e, _ in first} == {0}
    assert {e for e, _ in second} == {1} and session.delivered == len(first) + len(second)


def test_a_pipelines_run_passes_over_that_end(tree):
    pipe = labels(tree)
    session = pipe._started()
    steps = session.meta()["steps"]
    seen = []
    for _ in range(steps + 2):
        pipe.run()
        seen.append(session.step)
    assert seen == [*range(1, steps + 1), 1, 2] and session.delivered == steps + 2


@pytest.mark.parametrize("taken", ["some", "all"])
def test_skipping_leads_to_the_next_epoch(tree, taken):
    pipe = labels(tree)
    session = pipe._started()
    for _ in range(2 if taken == "some" else session.meta()["steps"]):
        session.next()
    assert session.last == (taken == "all")
    session.skip_epoch()
    assert session.step == 0
    assert session.next().epoch == 1 and session.step == 1


def test_a_loader_counts_the_batches_that_run_took(tree):
    pipe = labels(tree)
    other = labels(tree)
    first, second = epochs(other._started(), 2)
    pipe.run()
    loader = Loader(pipe, fields=["label"])
    assert sum(1 for _ in loader) == len(first) - 1
    assert sum(1 for _ in loader) == len(second) and loader.epoch == 2


def test_a_state_goes_back_to_where_it_was_taken(tree):
    pipe = labels(tree)
    session = pipe._started()
    session.next()
    state = session.state()
    want = session.next().sample(0)
    other = labels(tree)
    again = other._started()
    again.restore(state)
    assert again.next().sample(0) == want


def decoded_labels(files, **reader):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        data, label = fn.readers.file(files=[str(f) for f in files], labels=list(range(len(files))), name="Reader", **reader)
        return fn.decoders.image(data), label

    return define()


@pytest.mark.parametrize("bad", [1, 4, 6])
@pytest.mark.parametrize("reader", [{}, {"pad_last_batch": True}, {"tail": "keep"}])
def test_a_batch_that_fails_is_a_step(files, tmp_path, bad, reader):
    """A batch whose error next() raised counts as taken, so that an epoch whose last batch fails ends like any other."""
    listed = list(files[:7])
    listed[bad] = tmp_path / "bad.jpg"
    listed[bad].write_bytes(b"no image")
    pipes = decoded_labels(listed, **reader), decoded_labels(files[:7], **reader)
    session, whole = (pipe._started() for pipe in pipes)
    for _ in range(7):
        batch = whole.next()
        try:
            assert (session.next() is None) == (batch is None)
        except CorruptError:
            assert session.failed == (batch.epoch, batch.planned, batch.is_last)
        assert (session.step, session.last, session.delivered) == (whole.step, whole.last, whole.delivered)


def test_a_fed_batch_that_failed_is_used_up():
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        return fn.decoders.image(fn.external_source(name="x"))

    pipe = define()
    for _ in range(2):
        pipe.feed_input("x", [np.frombuffer(b"no image", np.uint8)])
        with pytest.raises(CorruptError):
            pipe.run()
        with pytest.raises(NoDataError):
            pipe.run()


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("fed_first", [True, False])
@pytest.mark.parametrize("reset", ["at the end", "after the last batch"])
def test_a_batch_that_was_fed_when_another_source_ended_is_the_next(depth, fed_first, reset):
    @pipeline_def(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=depth)
    def define():
        makes = [
            lambda: fn.external_source(name="fed"),
            lambda: fn.external_source([[np.int32([10])], [np.int32([11])]], cycle="raise"),
        ]
        made = [make() for make in (makes if fed_first else makes[::-1])]
        return tuple(made if fed_first else made[::-1])

    def run():
        return [output.as_array().item() for output in pipe.run()]

    pipe = define()
    for k in range(6):
        pipe.feed_input("fed", [np.int32([k])])
        if reset == "at the end" and k in {2, 4}:
            with pytest.raises(StopIteration):
                run()
            pipe.reset()
        assert run() == [k, 10 + k % 2]
        if reset == "after the last batch" and k % 2:
            pipe.reset()
        elif k % 2 == 0:
            with pytest.raises(NoDataError):
                run()
