# SPDX-License-Identifier: Apache-2.0
"""The notice after an epoch in which the loop waited for batches, for invented counters and for real runs. Of real runs, the tests check counters but no
times."""

import threading
import time

import numpy as np
import pytest
from stoker import Loader, _core, fn, pipeline_def
from stoker import transforms as T
from stoker.loader import _waiting
from stoker.loader._waiting import Spent, line

MACHINE = {"cpus_online": 64, "cpus_allowed": 64, "cpu_quota": 2.0, "local_ranks": 1, "threads": 2}


def spent(**kwargs):
    return Spent(
        **{"elapsed": 100.0, "wait": 18.0, "busy": 195.0, "source": 0.0, "bytes_read": 5e9, "batches": 100, "threads": 2, **kwargs}
    )


def test_the_notice_names_the_cores():
    assert line(spent(), MACHINE) == "waited 18%; bound by cores: 2 usable (cgroup quota) of 64; with 3 the wait would be 0%"
    assert line(spent(wait=66.0), MACHINE) == "waited 66%; bound by cores: 2 usable (cgroup quota) of 64; with 6 the wait would be 0%"
    nothing_else = line(spent(wait=99.0), MACHINE)
    assert nothing_else == "waited 99%; bound by cores: 2 usable (cgroup quota) of 64"


@pytest.mark.parametrize(
    ("machine", "threads", "says"),
    [
        ({"cpu_quota": 0.0, "cpus_allowed": 2}, 2, "2 usable (affinity mask) of 64"),
        ({"cpu_quota": 0.0, "cpus_online": 2, "cpus_allowed": 2}, 2, "all 2 of this machine"),
        ({"cpu_quota": 0.0, "local_ranks": 8, "threads": 8}, 8, "8 for each of 8 ranks on this machine of 64"),
        ({"cpu_quota": 0.0, "threads": 64}, 2, "num_threads=2, 64 usable"),
    ],
)
def test_what_limits_the_cores(machine, threads, says):
    assert f"bound by cores: {says}; with" in line(spent(threads=threads, busy=97.0 * threads), {**MACHINE, **machine})


def test_other_bounds():
    assert line(spent(busy=60.0), MACHINE) == "waited 18%; bound by reading: 50.0 MB/s came; the cores were 30% busy"
    assert "bound by reading or the GPU: 50.0 MB/s" in line(spent(busy=60.0, gpu=True), MACHINE)
    assert line(spent(busy=60.0, source=97.0), MACHINE) == (
        "waited 18%; bound by the source's Python, which ran 97% of the time; the cores were 30% busy"
    )


def test_reading_is_not_named_where_nothing_was_read():
    """The notice does not mention reading if the library has read no bytes, as with a Dataset that reads its own files."""
    said = line(spent(busy=60.0, source=40.0, bytes_read=0.0), MACHINE)
    assert said.startswith("waited 18%: the cores were 30% busy, and the source's Python ran 40% of the time;") and "reading" not in said
    assert line(spent(busy=60.0, bytes_read=0.0, gpu=True), MACHINE).startswith("waited 18%; bound by the GPU: the cores were 30% busy")


def test_an_object_store():
    counters = {
        "storage_requests": 8000.0,
        "storage_retries": 0.0,
        "storage_slowdowns": 0.0,
        "storage_latency_ms": 160.0,
        "storage_latency_ms_p95": 540.0,
    }
    assert line(spent(busy=60.0, store=counters), MACHINE) == (
        "waited 18%; bound by the object store: 50.0 MB/s came, 80 objects/s; an answer took 160 ms, one in twenty over 540 ms; the cores were 30% busy"
    )
    refused = line(spent(busy=60.0, store={**counters, "storage_retries": 7.0, "storage_slowdowns": 3.0}), MACHINE)
    assert "; it asked for fewer requests 3 times (503); 7 tries were repeated; the cores" in refused
    assert "bound by cores" in line(spent(store=counters), MACHINE)


def test_no_line():
    assert line(spent(wait=5.0), MACHINE) is None
    assert line(spent(wait=0.0, elapsed=0.0), MACHINE) is None
    assert line(spent(elapsed=0.9, wait=0.5), MACHINE) is None  # the epoch is too short for a notice
    assert (
        line(spent(wait=99.91, batches=100), MACHINE) is None
    )  # a loop that does nothing with its batches only waits, which is no problem
    assert line(spent(wait=99.89, batches=100), MACHINE) is not None


def test_the_machine_is_described():
    machine = _core.machine()
    assert set(machine) == set(MACHINE)
    assert 1 <= machine["cpus_allowed"] <= machine["cpus_online"] and machine["threads"] >= 1


class Slow:
    """A Dataset whose Python code takes long for each sample."""

    lock = threading.Lock()

    def __len__(self):
        return 36

    def __getitem__(self, i):
        with self.lock:
            time.sleep(0.01)
        return np.zeros((4, 4, 3), np.uint8), i


def lines(capfd):
    return [x for x in capfd.readouterr().err.splitlines() if "waited" in x]


def counted(loader):
    """Returns the counters wait_ns, source_ns and busy_ns."""
    counters = loader.pipeline.counters()
    return counters["wait_ns"], counters["source_ns"], counters["busy_ns"]


def test_a_slow_source_is_told_once_an_epoch(capfd, monkeypatch):
    monkeypatch.setattr(_waiting, "SHORT", 0.0)
    monkeypatch.setattr(_waiting, "STEP", 0.0)
    loader = Loader(Slow(), batch_size=3, transforms=[T.Resize((4, 4))])
    for epoch in range(3):
        for _ in loader:
            pass
        (notice,) = lines(capfd)
        assert notice.startswith(f"stoker: epoch {epoch}: waited ") and "the source's Python" in notice
    wait, source, busy = counted(loader)
    assert wait > 0 and source > busy


def test_a_slow_consumer_is_told_nothing(capfd, monkeypatch, tree):
    monkeypatch.setattr(_waiting, "SHORT", 0.0)
    monkeypatch.setattr(_waiting, "STEP", 0.0)
    recorded = []
    monkeypatch.setattr(_waiting, "line", lambda spent, machine: recorded.append(spent) or line(spent, machine))
    for _ in Loader(tree, batch_size=3, transforms=[T.Resize((8, 8))]):
        time.sleep(0.05)
    (epoch,) = recorded
    assert (line(epoch, _core.machine()) is None) == (not lines(capfd)) == (epoch.wait <= 0.05 * epoch.elapsed)
    assert epoch.elapsed > epoch.wait >= 0
    assert epoch.bytes_read >= 0  # with few files, all bytes may have been read before counting began


def test_an_epoch_that_is_left_is_not_counted(capfd, monkeypatch):
    monkeypatch.setattr(_waiting, "SHORT", 0.0)
    monkeypatch.setattr(_waiting, "STEP", 0.0)
    loader = Loader(Slow(), batch_size=3, transforms=[T.Resize((4, 4))])
    for _ in loader:
        break
    next(iter(loader))
    assert lines(capfd) == []


def test_a_short_epoch_says_nothing(capfd, monkeypatch):
    monkeypatch.setattr(_waiting, "SHORT", 1e6)  # however slow the machine is, the epoch is shorter
    monkeypatch.setattr(_waiting, "STEP", 0.0)
    for _ in Loader(Slow(), batch_size=3, transforms=[T.Resize((4, 4))]):
        pass
    assert lines(capfd) == []


def test_a_pipeline_of_the_users(capfd, monkeypatch, tree):
    monkeypatch.setattr(_waiting, "SHORT", 0.0)
    monkeypatch.setattr(_waiting, "STEP", 0.0)
    monkeypatch.setattr(_waiting, "LEAST", -1.0)

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def images():
        data, label = fn.readers.file(file_root=tree, pad_last_batch=True)
        return fn.resize(fn.decoders.image(data), size=(8, 8)), label

    for _ in Loader(images()):
        pass
    assert len(lines(capfd)) == 1
