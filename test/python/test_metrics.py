# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus and OpenTelemetry equal the pipelines' counters. Also tests the dashboard, and values that are logged to TensorBoard and others."""

import contextlib
import gc
import json
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
from support import import_torchvision

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]


def loader(count=32):
    return stoker.Loader((np.zeros((count, 9, 9, 3), np.uint8), np.arange(count)), 8)


def parsed(text):
    """Returns two dicts whose keys are the names of the metrics. An entry of the first is a dict from labels to a value, an entry of the second is the metric's
    kind."""
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
    later = re.compile("^(storage|cache)_")  # counters that exist only if a store or a cache is used
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
        with pytest.raises(InvalidArgumentError, match="port is at most 65535, not 99999"):
            stoker.metrics.prometheus(train, port=99999)
        with pytest.raises(TypeError, match="port is a whole number, not True"):
            stoker.metrics.prometheus(train, port=True)


def test_a_pipeline_that_is_closed_during_a_scrape():
    class Closing:
        def counters(self):
            raise RuntimeError("the pipeline is closed")

    class Iterator:
        _pipes = (Closing(),)

    iterator = Iterator()
    with loader() as train:
        next(iter(train))
        assert list(stoker.metrics.read({"closed": iterator, "train": train})["train"])
        assert 'loader="train"' in stoker.metrics.text({"closed": iterator, "train": train})


def test_silent_clients_lose_their_connections(monkeypatch):
    monkeypatch.setattr(stoker.metrics, "_PATIENCE_S", 0.2)
    with loader() as train, stoker.metrics.prometheus(train, port=0) as exporter:
        clients = [socket.create_connection(("127.0.0.1", exporter.port), timeout=60) for _ in range(20)]
        for client in clients[:10]:
            client.sendall(b"GET /me")
        for client in clients:
            with client, contextlib.suppress(ConnectionResetError):
                assert client.recv(100) == b""


def test_opentelemetry_observes_the_counters(monkeypatch):
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


def test_the_dashboard_asks_for_documented_metrics_only():
    dashboard = json.loads((ROOT / "doc/grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [variable["query"] for variable in dashboard["templating"]["list"]]
    kinds = {f"stoker_{m.name}": m.kind for m in stoker.metrics.METRICS}
    names = set()
    for text in asked:
        found = re.findall(r"\bstoker_\w+", text)
        names.update(found)
        for name in found:
            assert name in kinds, text
            if kinds[name] == "gauge":
                assert f"rate({name}" not in text, text
    assert names == set(kinds), "every metric is on the dashboard"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24 and panel["title"] and panel["datasource"]["uid"] == "${datasource}"


class Writer:
    """Replaces TensorBoard's SummaryWriter."""

    def __init__(self):
        self.rows = []

    def add_scalar(self, name, value, step):
        self.rows.append((step, name, value))


class Run:
    """Replaces a run of Weights & Biases."""

    def __init__(self):
        self.rows = []

    def log(self, values, step=None):
        self.rows.append((step, values))


def documented():
    page = (ROOT / "doc/metrics.md").read_text().split("## TensorBoard")[1]
    return set(re.findall(r"^\| `(\w+)` \|", page, re.M))


def test_a_plain_loop_logs_every_few_steps():
    writer, run, called = Writer(), Run(), []
    with loader(64) as train:
        log = stoker.metrics.Log(train, [writer, run, lambda values, step: called.append((step, values))], every=3)
        given = [log.step(step) for step, _ in enumerate(train)]
        assert [bool(values) for values in given] == [False, False, True, False, False, True, False, False]
        assert [step for step, _ in run.rows] == [2, 5] == [step for step, _ in called]
        assert called == run.rows and {step for step, _, _ in writer.rows} == {2, 5}
        assert {name: value for step, name, value in writer.rows if step == 5} == given[5]
        names = {name.removeprefix("stoker/") for name in given[5]}
        assert names <= documented() and {"batches_per_second", "wait_share", "bad_samples"} <= names
        assert given[5]["stoker/batches_per_second"] > 0 and 0 <= given[5]["stoker/wait_share"] <= 1


def test_the_page_lists_all_values():
    now = {"decodes": 4.0, "gpu_decodes": 2.0, "storage_latency_ms": 30.0, "batches_delivered": 6.0, "wait_ns": 5e8}
    values = stoker.metrics._scalars([now], [{"batches_delivered": 2.0}], 2.0)
    assert set(values) == documented()
    assert (values["batches_per_second"], values["gpu_decode_share"], values["wait_share"]) == (2.0, 0.5, 0.25)
    assert values["storage_latency_seconds"] == pytest.approx(0.03)
    restarted = stoker.metrics._scalars([{"batches_delivered": 1.0}], [{"batches_delivered": 9.0}], 1.0)
    assert restarted["batches_per_second"] == 1.0  # a new pipeline counts from 0


def test_several_loaders_have_their_names_in_a_log():
    with loader() as train, loader() as val:
        log = stoker.metrics.Log({"train": train, "val": val}, Run(), every=1, prefix="feed")
        next(iter(train))
        values = log.step()
        assert any(name.startswith("feed/train/") for name in values) and not any(name.startswith("feed/val/") for name in values)


def test_what_cannot_be_logged_to():
    with loader() as train:
        with pytest.raises(InvalidArgumentError, match="a int cannot be written to"):
            stoker.metrics.Log(train, 3)
        with pytest.raises(InvalidArgumentError, match="every"):
            stoker.metrics.Log(train, print, every=0)
        with pytest.raises(InvalidArgumentError, match="not a Loader"):
            stoker.metrics.Log([1], print)


def test_tensorboard_shows_the_curves(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with loader(64) as train, tensorboard.SummaryWriter(tmp_path) as writer:
        log = stoker.metrics.Log(train, writer, every=4)
        for step, _ in enumerate(train):
            log.step(step)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in events.Scalars("stoker/batches_per_second")] == [3, 7]


def fake_lightning(monkeypatch):
    """Replaces Lightning's package, and returns a class that calls a Trainer's hooks in their order."""
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    module = types.ModuleType("lightning.pytorch")
    module.Callback = type("Callback", (), {})
    monkeypatch.setitem(sys.modules, "lightning.pytorch", module)

    class Trainer:
        def __init__(self, callback, loggers):
            self.callback, self.loggers, self.global_step = callback, loggers, 0

        def fit(self, train_dataloader):
            self.train_dataloader = train_dataloader
            self.callback.on_train_start(self, None)
            for index, batch in enumerate(train_dataloader):
                self.global_step += 1
                self.callback.on_train_batch_end(self, None, None, batch, index)
            self.callback.on_train_end(self, None)

    return Trainer


class Logger:
    def __init__(self):
        self.rows = []

    def log_metrics(self, values, step):
        self.rows.append((step, values))


def test_a_callback_logs_from_lightning(monkeypatch):
    trainer_of = fake_lightning(monkeypatch)
    for made in (lambda train: train, lambda train: train.as_dataloader()):
        with loader(64) as train:
            logger = Logger()
            trainer_of(stoker.metrics.lightning(every=4), [logger]).fit(made(train))
            assert [step for step, _ in logger.rows] == [4, 8]
            assert logger.rows[0][1]["stoker/batches_per_second"] > 0
    with loader() as train, pytest.raises(InvalidArgumentError, match=r"not a stoker\.Loader"):
        trainer_of(stoker.metrics.lightning(), [Logger()]).fit([1, 2])
    with loader() as train:
        trainer_of(stoker.metrics.lightning(train), []).fit(train)  # there is no logger, so the callback has nothing to write


def test_without_lightning(monkeypatch):
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnsupportedError, match="pip install lightning"):
        stoker.metrics.lightning()


def test_real_lightning_takes_the_callback(tmp_path):
    import_torchvision()  # makes sure that torchvision, which Lightning imports, can be imported
    lightning = pytest.importorskip("lightning")
    import torch

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(9 * 9 * 3, 32)

        def training_step(self, batch, index):
            images, labels = batch
            return torch.nn.functional.cross_entropy(self.layer(images.float().flatten(1)), labels % 32)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    logger = lightning.pytorch.loggers.CSVLogger(tmp_path, name="run", version=0)
    with loader(64) as train:
        trainer = lightning.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=logger,
            callbacks=[stoker.metrics.lightning(every=4)],
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            log_every_n_steps=1,
        )
        trainer.fit(Model(), train.as_dataloader())
    assert "stoker/batches_per_second" in (tmp_path / "run/version_0/metrics.csv").read_text()


def test_a_mixture_is_measured_as_its_sources():
    a, b = loader(), loader(24)
    mixed = stoker.Loader.mix({"a": (a, 0.5), "b": (b, 0.5)}, steps=4)
    assert stoker.metrics.read(mixed) == {"loader": {}}
    log = stoker.metrics.Log(mixed, [], every=4)
    written = [log.step() for _ in mixed]
    found = stoker.metrics.read({"all": mixed, **dict(zip(mixed.names, mixed.loaders, strict=True))})
    assert [found[name]["batches_delivered"] for name in ("all", "a", "b")] == [4, 2, 2]
    assert 'stoker_batches_total{loader="train"} 4\n' in stoker.metrics.text({"train": mixed})
    assert written[:3] == [{}] * 3 and written[3]["stoker/batches_per_second"] > 0
    nested = stoker.Loader.mix([(mixed, 1)], steps=1)
    assert stoker.metrics.read(nested)["loader"]["batches_delivered"] == 4
    mixed.close()
    assert stoker.metrics.read(mixed) == {"loader": {}}


def test_a_new_pipeline_of_one_source_counts_from_0(monkeypatch):
    """A Loader with a sampler makes a pipeline for each epoch, whose counters begin at 0. The counters of the other sources continue."""
    clock = iter(range(100))
    monkeypatch.setattr(stoker.metrics, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    again = stoker.Loader((np.zeros((8, 9, 9, 3), np.uint8), np.arange(8)), 8, sampler=lambda epoch: range(8))
    mixed = stoker.Loader.mix([(loader(800), 0.9), (again, 0.1)], steps=100)
    log = stoker.metrics.Log(mixed, [], every=10)
    rates = [values["stoker/batches_per_second"] for _ in mixed if (values := log.step())]
    mixed.close()
    assert len(rates) == 10 and max(rates) <= 10 and min(rates) >= 9
