# SPDX-License-Identifier: Apache-2.0
"""Random streams give new draws in every epoch and at every position, independent of the batch size; states of other data are refused."""

import numpy as np
import pytest
from stoker import StokerError, fn, pipeline_def


def draws(files, batch, seed, epochs=2):
    """Returns two streams of draws over `epochs` passes through the files, in order."""

    @pipeline_def(batch_size=batch, num_threads=2, device_id=None, seed=seed)
    def program():
        labels = fn.readers.file(files=[str(f) for f in files], labels=list(range(len(files))))[1]
        return labels, fn.random.uniform(range=(0.0, 1.0)), fn.random.uniform(range=(0.0, 1.0))

    pipe = program()
    batches = [
        [np.stack([np.atleast_1d(o.at(i)) for i in range(batch)])[:, 0] for o in pipe.run()] for _ in range(epochs * len(files) // batch)
    ]
    labels, first, second = (np.concatenate(column) for column in zip(*batches, strict=True))
    np.testing.assert_array_equal(labels, np.tile(np.arange(len(files)), epochs))
    return first, second


def test_draws_are_fresh_and_do_not_follow_the_batch(files):
    files = files[:12]
    first, second = draws(files, 4, seed=5)
    # 24 draws of 24 bits each from two streams: with one seed in 15 000 two draws are equal by chance, but not with this seed.
    assert len(set(first) | set(second)) == 48, "a stream repeats itself in the next epoch, at another position, or in another operator"
    for batch in (2, 3, 6, 12):
        for want, got in zip((first, second), draws(files, batch, seed=5), strict=True):
            np.testing.assert_array_equal(want, got)
    assert not set(first) & set(draws(files, 4, seed=6)[0])


def test_a_state_of_renamed_files_is_refused(files):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def listed(paths):
        return fn.readers.file(files=[str(p) for p in paths])[1]

    pipe = listed(files[:8])
    pipe.run()
    state = pipe.checkpoint()
    listed(files[:8], checkpoint=state).build()
    with pytest.raises(StokerError, match=r"as many files .* but not the same ones"):
        listed(files[1:9], checkpoint=state).build()
