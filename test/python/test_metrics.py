# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus and OpenTelemetry, against the counters that they show."""

import gc
import re
import socket
import sys
import types
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import stoker
from stoker.errors import InvalidArgumentError, UnsupportedError

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]


def loader(count=32):
    return stoker.Loader((np.zeros((count, 9, 9, 3), np.uint8), np.arange(count)), 8)


def parsed(text):
    """Returns name -> labels -> value, and name -> kind."""
    values, kinds = {}, dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()
            values.setdefault(name, {})[labels] = float(value)
    return values, kinds


def test_prometheus_gets_the_counters():
    with loader() as train, loader(16) as val, stoker.metrics.prometheus({"train": train, 'a "b"\\': val}, port=0) as exporter:
        for _ in train:
            pass
        next(iter(val))
        with urllib.request.urlopen(exporter.url, timeout=20) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            values, kinds = parsed(answer.read().decode())
        counters = train.pipeline.counters()
        assert values["stoker_batches_total"] == {'loader="train"': 4.0, 'loader="a \\"b\\"\\\\"': 1.0}
        assert values["stoker_wait_seconds_total"]['loader="train"'] == pytest.approx(counters["wait_ns"] / 1e9)
        assert values["stoker_batch_memory_bytes"]['loader="train"'] == counters["slot_bytes"]
        assert set(kinds) == set(values) and set(kinds.values()) == {"counter", "gauge"}
        assert all(name.endswith("_total") == (kind == "counter") for name, kind in kinds.items())
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(exporter.url + "s", timeout=20)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(exporter.url, timeout=20)


def test_loaders_may_go_while_they_are_measured():
    train = loader()
    with stoker.metrics.prometheus(train, port=0) as exporter:
        next(iter(train))
        train.close()
        with urllib.request.urlopen(exporter.url, timeout=20) as answer:
            answer.read()
        del train
        gc.collect()
        with urllib.request.urlopen(exporter.url, timeout=20) as answer:
            assert answer.read() == b""


def test_pipelines_and_iterators():
    @stoker.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def made():
        return stoker.fn.external_source(lambda: np.zeros((2, 3), np.float32))

    with made() as pipe:
        pipe.run()
        assert parsed(stoker.metrics.text({"p": pipe}))[0]["stoker_batches_total"] == {'loader="p"': 1.0}
        assert stoker.metrics.read(pipe)["loader"]["batches_delivered"] == 1
    with made() as pipe:
        iterator = stoker.plugin.pytorch.DALIGenericIterator([pipe], ["x"], size=6)
        assert len(list(iterator)) == 3
        assert stoker.metrics.read(iterator)["loader"]["batches_delivered"] >= 3


def test_every_counter_of_the_table_exists_and_the_page_lists_it():
    with loader() as train:
        for _ in train:
            pass
        known = {*train.pipeline.counters()}
    later = re.compile("^(storage|cache)_")  # once a store or a cache is in use
    assert {m.counter for m in stoker.metrics.METRICS if not later.match(m.counter)} <= known
    page = (ROOT / "doc/metrics.md").read_text()
    assert {f"stoker_{m.name}" for m in stoker.metrics.METRICS} == set(re.findall(r"^\| `(stoker_\w+)` \|", page, re.M))


def test_what_cannot_be_measured():
    with pytest.raises(InvalidArgumentError, match="not a Loader"):
        stoker.metrics.text({"x": [1, 2]})
    with pytest.raises(InvalidArgumentError, match="no loaders"):
        stoker.metrics.text({})
    with pytest.raises(UnsupportedError, match=r"a stoker\.Loader has"):
        stoker.metrics.text(stoker.DataLoader([1, 2]))
    with loader() as train, socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(InvalidArgumentError, match="port=0 takes a free one"):
            stoker.metrics.prometheus(train, port=taken.getsockname()[1])
        with pytest.raises(InvalidArgumentError, match="port 99999"):
            stoker.metrics.prometheus(train, port=99999)


def test_opentelemetry(monkeypatch):
    with loader() as train:
        next(iter(train))
        monkeypatch.setitem(sys.modules, "opentelemetry", None)
        with pytest.raises(UnsupportedError, match="opentelemetry-api"):
            stoker.metrics.opentelemetry(train)
        made = {}

        class Meter:
            def create_observable_counter(self, name, callbacks, description):
                made[name] = ("counter", callbacks, description)

            def create_observable_gauge(self, name, callbacks, description):
                made[name] = ("gauge", callbacks, description)

        api = types.SimpleNamespace(Observation=lambda value, labels: (value, labels))
        monkeypatch.setitem(sys.modules, "opentelemetry", types.SimpleNamespace(metrics=api))
        stoker.metrics.opentelemetry({"train": train}, Meter())
        kind, [callback], _ = made["stoker.batches"]
        assert kind == "counter" and list(callback(None)) == [(train.pipeline.counters()["batches_delivered"], {"loader": "train"})]
        assert {labels["quantile"] for m in stoker.metrics.METRICS if (labels := dict(m.labels))} == {"0.5", "0.95", "0.99"}
