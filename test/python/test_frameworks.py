# SPDX-License-Identifier: Apache-2.0
"""Frameworks that take a DataLoader train with stoker.DataLoader and with as_dataloader(), and continue saved runs with the remaining batches.
Tests of a framework that is not installed are skipped. To run all: pip install fastai pytorch-ignite lightning accelerate transformers mosaicml.
"""

import contextlib
import importlib.util
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import DataLoader, Loader
from support import import_torchvision

torchvision = import_torchvision()

SAMPLES, BATCH = 20, 4
STEPS = SAMPLES // BATCH


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Writes images of one colour each, which identifies the sample in a batch."""
    root = tmp_path_factory.mktemp("colours")
    for k in range(SAMPLES):
        path = root / f"c{k % 2}" / f"{k:02d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((16, 16, 3), k * 10, np.uint8)).save(path)
    return root


def numbers(images):
    return [round(float(image.mean()) * 25.5) for image in images]


def dataset(folder):
    make = torchvision.transforms
    return torchvision.datasets.ImageFolder(folder, make.Compose([make.CenterCrop(8), make.ToTensor()]))


def own(folder, shuffle=True, workers=0, collate=None):
    generator = torch.Generator().manual_seed(3) if shuffle else None
    return DataLoader(dataset(folder), BATCH, shuffle=shuffle, generator=generator, num_workers=workers, collate_fn=collate)


def wrapped(folder, shuffle=True, collate=tuple):
    return Loader(dataset(folder), BATCH, shuffle=shuffle, seed=3, collate_fn=collate).as_dataloader()


KINDS = pytest.mark.parametrize(
    "make", [own, lambda folder, shuffle=True: own(folder, shuffle, 1), wrapped], ids=["own", "worker", "wrapped"]
)


class Net(torch.nn.Module):
    """A model that records the samples that it has been trained with."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.linear = torch.nn.Linear(192, 2)
        self.seen = []

    def forward(self, images):
        if self.training:
            self.seen.append(numbers(images))
        return self.linear(images.flatten(1))

    def loss(self, images, labels):
        return torch.nn.functional.cross_entropy(self(images), labels)


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


def check_epochs(seen, epochs):
    assert len(seen) == epochs * STEPS
    for epoch in range(epochs):
        assert sorted(flat(seen[epoch * STEPS : (epoch + 1) * STEPS])) == list(range(SAMPLES))
    assert seen[:STEPS] != seen[STEPS : 2 * STEPS]


def in_order():
    return sorted(range(SAMPLES), key=lambda k: (k % 2, k))


@KINDS
@pytest.mark.parametrize("after", [STEPS, STEPS + 2])
def test_fastai_continues_with_the_batches_that_were_left(make, after, folder, tmp_path):
    """A Learner stops after some batches, and another one loads its model and its DataLoader's state. Together they do what one uninterrupted Learner does."""
    learners = pytest.importorskip("fastai.learner")
    pytest.importorskip("fastai.callback.progress")  # adds no_bar() to Learner

    class Stop(learners.Callback):
        def __init__(self):
            self.taken = 0

        def after_batch(self):
            self.taken += self.training
            if self.training and self.taken == after:
                raise learners.CancelFitException

    def learner():
        loaders = learners.DataLoaders(make(folder), make(folder, False), device=torch.device("cpu"))
        loss = torch.nn.CrossEntropyLoss()
        made = learners.Learner(loaders, Net(), loss_func=loss, opt_func=learners.SGD, path=tmp_path)
        made.logger = lambda *_: None
        return made

    whole, first, second = learner(), learner(), learner()
    with contextlib.redirect_stdout(None), whole.no_bar(), first.no_bar(), second.no_bar():
        whole.fit(3, 0.01)
        if after == STEPS:
            first.fit(1, 0.01)
        else:
            first.fit(3, 0.01, cbs=Stop())
        first.save("saved")
        second.load("saved", with_opt=True)
        second.dls.train.load_state_dict(first.dls.train.state_dict())
        second.fit(3, 0.01, start_epoch=1)
        predictions, targets = whole.get_preds(dl=whole.dls.valid)
    check_epochs(whole.model.seen, 3)
    assert first.model.seen + second.model.seen == whole.model.seen
    assert torch.equal(second.model.linear.weight, whole.model.linear.weight)
    assert predictions.shape == (SAMPLES, 2) and targets.tolist() == [k % 2 for k in in_order()]


@KINDS
def test_ignite_continues_with_the_batches_that_were_left(make, folder):
    engines = pytest.importorskip("ignite.engine")

    def run(loader, **arguments):
        seen = []
        engines.Engine(lambda _, batch: seen.append(numbers(batch[0]))).run(loader, **arguments)
        return seen

    whole = run(make(folder), max_epochs=2)
    check_epochs(whole, 2)
    assert flat(run(make(folder, False), max_epochs=1)) == in_order()
    first, second = make(folder), make(folder)
    iterator = iter(first)
    had = [numbers(next(iterator)[0]) for _ in range(2)]
    second.load_state_dict(first.state_dict())
    assert had + run(second, max_epochs=1, epoch_length=STEPS - 2) == whole[:STEPS]
    assert len(run(make(folder), max_epochs=3, epoch_length=4)) == 12


@KINDS
@pytest.mark.parametrize("after", [STEPS - 2, STEPS + 2])
@pytest.mark.filterwarnings("ignore")
def test_lightning_continues_with_the_batches_that_were_left(make, after, folder, tmp_path):
    lightning = pytest.importorskip("lightning")
    callbacks = pytest.importorskip("lightning.pytorch.callbacks")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.checked = Net(), []

        def training_step(self, batch, _):
            return self.net.loss(*batch)

        def validation_step(self, batch, _):
            self.checked += numbers(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    def fit(path=None, **arguments):
        module = Module()
        settings = {
            "logger": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": False,
            "max_epochs": 2,
        }
        trainer = lightning.Trainer(accelerator="cpu", default_root_dir=tmp_path, **{**settings, **arguments})
        trainer.fit(module, make(folder), make(folder, False), ckpt_path=path)
        return module

    saving = callbacks.ModelCheckpoint(tmp_path, "at{step}", every_n_train_steps=after, save_top_k=-1, auto_insert_metric_name=False)
    whole = fit(num_sanity_val_steps=0, callbacks=[saving], enable_checkpointing=True)
    check_epochs(whole.net.seen, 2)
    assert whole.checked == in_order() * 2
    assert fit(tmp_path / f"at{after}.ckpt").net.seen == whole.net.seen[after:]
    assert len(fit(limit_train_batches=3, max_epochs=1).net.seen) == 3


def _with_composer(folder, out, kind):
    environment = {**os.environ, "TMPDIR": str(out), "OMP_NUM_THREADS": "1"}
    out.mkdir()
    command = [sys.executable, str(Path(__file__).with_name("composer_runs.py")), str(folder), str(out), kind]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["own:0", "own:1", "wrapped"])
def test_composer(kind, folder, tmp_path):
    """A Trainer trains with halves of batches and evaluates each sample once. Composer continues a run by skipping batches. With a generator and workers,
    torch's DataLoader then gives other batches, and Stoker's gives the same ones."""
    if importlib.util.find_spec("composer") is None:
        pytest.skip("Composer is not installed")
    runs = _with_composer(folder, tmp_path / "runs", kind)
    check_epochs(runs["whole"], 2)
    assert runs["checked"] == in_order() * 2
    if kind != "own:1":
        for after in (STEPS, STEPS + 2):
            first, rest = runs[f"after {after}"]
            assert first + rest == runs["whole"]
    if kind != "wrapped":
        assert runs == _with_composer(folder, tmp_path / "of torch", kind.replace("own", "torch"))


@KINDS
def test_accelerate_continues_with_the_batches_that_were_left(make, folder):
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    train, valid = accelerator.prepare(make(folder), make(folder, False))
    seen = [numbers(images) for _ in range(2) for images, _ in train]
    check_epochs(seen, 2)
    assert [k for images, _ in valid for k in accelerator.gather_for_metrics(torch.tensor(numbers(images))).tolist()] == in_order()
    assert [numbers(x) for x, _ in accelerator.skip_first_batches(accelerator.prepare(make(folder)), 2)] == seen[2:STEPS]


def _named(rows):
    return {"images": torch.stack([image for image, _ in rows]), "labels": torch.tensor([label for _, label in rows])}


def _named_batch(batch):
    return {"images": batch.image, "labels": batch.label}


@pytest.mark.parametrize("kind", ["own", "wrapped"])
@pytest.mark.filterwarnings("ignore")
def test_trainer_of_transformers(kind, folder, tmp_path):
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, images=None, labels=None):
            scores = self.net(images)
            return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}

    def loader(shuffle):
        return own(folder, shuffle, 1, _named) if kind == "own" else wrapped(folder, shuffle, _named_batch)

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return self.accelerator.prepare(loader(True))

        def get_eval_dataloader(self, eval_dataset=None):
            return self.accelerator.prepare(loader(False))

    def trained(checkpoint=None):
        settings = {
            "report_to": [],
            "use_cpu": True,
            "disable_tqdm": True,
            "logging_strategy": "no",
            "save_strategy": "steps",
            "save_steps": 7,
        }
        arguments = transformers.TrainingArguments(str(tmp_path), num_train_epochs=2, per_device_train_batch_size=BATCH, **settings)
        model = Model()
        trainer = Trainer(model, arguments, train_dataset=dataset(folder), eval_dataset=dataset(folder))
        with contextlib.redirect_stdout(None):
            trainer.train(resume_from_checkpoint=checkpoint)
        return trainer, model.net.seen

    trainer, whole = trained()
    check_epochs(whole, 2)
    assert np.isfinite(trainer.evaluate()["eval_loss"])
    _, rest = trained(str(tmp_path / "checkpoint-7"))
    assert rest == whole[7:]
