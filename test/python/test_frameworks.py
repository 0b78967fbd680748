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
import robots
import torch
from PIL import Image
from stoker import DataLoader, Loader
from stoker.errors import StateError
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
    return [round(float(image.float().mean()) * 25.5) for image in images]


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


def label_of(batch):
    """Returns the indices of a batch's samples, or of each batch of a CombinedLoader."""
    return [numbers(part[0]) for part in batch] if isinstance(batch[0], (list, tuple)) else numbers(batch[0])


class Fits:
    """Trains with Lightning, and continues from checkpoints that were saved after some steps, or at the end of a validation."""

    def __init__(self, folder):
        self.lightning = pytest.importorskip("lightning")
        self.folder, self.checked, self.label = folder, [], label_of

    def fit(self, train, path=None, saves=(), valid=None, **arguments):
        """Returns the labels of the batches that training_step() gets."""
        lightning, seen, checked, folder, label = self.lightning, [], self.checked, self.folder, self.label

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(1, 1)

            def training_step(self, batch, _):
                seen.append(label(batch))
                return self.linear(torch.ones(1, 1)).sum()

            def validation_step(self, batch, _):
                checked.extend(numbers(batch[0]))

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.01)

        class Saving(lightning.Callback):
            def on_train_batch_end(self, trainer, *_):
                if trainer.global_step in saves:
                    trainer.save_checkpoint(folder / f"{trainer.global_step}.ckpt")

            def on_validation_end(self, trainer, _):
                if saves:
                    trainer.save_checkpoint(folder / f"valid{trainer.global_step}.ckpt")

        quiet = ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")
        settings = {
            **dict.fromkeys(quiet, False),
            "max_epochs": 2,
            "num_sanity_val_steps": 0,
            "callbacks": [Saving()],
            **arguments,
        }
        lightning.Trainer(accelerator="cpu", default_root_dir=folder, **settings).fit(
            Module(), train, valid, ckpt_path=path, **({"weights_only": False} if path else {})
        )
        return seen

    def check(self, make, saves, **arguments):
        """Checks that a run continues from each checkpoint with the batches that the run that was saved got after it."""
        whole = self.fit(make(), saves=saves, **arguments)
        validations = [int(path.stem.removeprefix("valid")) for path in self.folder.glob("valid*.ckpt")]
        assert bool(validations) == ("valid" in arguments)
        for after, kind in [*((after, "") for after in saves), *((after, "valid") for after in validations)]:
            assert self.fit(make(), self.folder / f"{kind}{after}.ckpt", **arguments) == whole[after:], (kind, after)
        return whole


@pytest.fixture
def fits(tmp_path):
    return Fits(tmp_path)


@KINDS
@pytest.mark.filterwarnings("ignore")
def test_lightning_continues_with_the_batches_that_were_left(make, folder, fits):
    check_epochs(fits.check(lambda: make(folder), (STEPS - 2, STEPS, STEPS + 2), valid=make(folder, False)), 2)
    assert fits.checked[: 2 * SAMPLES] == in_order() * 2


@KINDS
@pytest.mark.filterwarnings("ignore")
def test_lightning_continues_after_an_epoch_that_it_ended_early(make, folder, fits):
    assert len(fits.check(lambda: make(folder), (2, 3, 4), valid=make(folder, False), limit_train_batches=3)) == 6


@pytest.mark.parametrize("ends", [{"steps": STEPS}, {"epoch": 0}, {"epoch": 1}])
@pytest.mark.filterwarnings("ignore")
def test_lightning_continues_with_a_mixture(ends, folder, fits):
    def make():
        shares = zip((3, 4), (0.6, 0.4), strict=True)
        return Loader.mix([(Loader(dataset(folder), BATCH, shuffle=True, seed=seed), share) for seed, share in shares], **ends)

    whole = len(make())
    valid = wrapped(folder, False)
    assert len(fits.check(make, (2, whole, whole + 1), valid=valid)) > whole
    for path in fits.folder.glob("*.ckpt"):
        path.unlink()
    assert len(fits.check(make, (2, 3, 4), valid=valid, limit_train_batches=3)) == 6


@pytest.mark.filterwarnings("ignore")
def test_lightning_continues_with_robot_data(tmp_path, folder, fits):
    robots.make(tmp_path / "robots")
    fits.label = lambda batch: batch["index"].tolist()

    def make():
        return Loader.from_lerobot(tmp_path / "robots", 5, shuffle=True, seed=2)

    steps, valid = len(make()), wrapped(folder, False)
    assert len(fits.check(make, (steps - 1, steps, steps + 1), valid=valid)) == 2 * steps
    for path in fits.folder.glob("*.ckpt"):
        path.unlink()
    assert len(fits.check(make, (2, 3, 4), valid=valid, limit_train_batches=3)) == 6


class Samples(torch.utils.data.Dataset):
    """Another data set's samples, which are made in Python."""

    def __init__(self, of):
        self.of = of

    def __len__(self):
        return len(self.of)

    def __getitem__(self, k):
        return self.of[k]


def _short_order(epoch):
    return np.random.default_rng(epoch).permutation(2 * BATCH)


SHORT = {
    "own": (own, lambda part: DataLoader(part, BATCH, shuffle=True, generator=torch.Generator().manual_seed(5))),
    "shuffle": (wrapped, lambda part: Loader(part, BATCH, shuffle=True, seed=5, collate_fn=tuple).as_dataloader()),
    "sampler": (wrapped, lambda part: Loader(part, BATCH, sampler=_short_order, collate_fn=tuple).as_dataloader()),
    "samples": (wrapped, lambda part: Loader(Samples(part), BATCH, shuffle=True, seed=5, collate_fn=tuple)),
}


@pytest.mark.parametrize("kind", SHORT)
@pytest.mark.filterwarnings("ignore")
def test_lightning_continues_with_a_loader_that_begins_again_in_an_epoch(kind, folder, fits):
    """In a CombinedLoader, the shorter loader is in a later epoch than Lightning."""
    combined = pytest.importorskip("lightning.pytorch.utilities").CombinedLoader
    part = torch.utils.data.Subset(dataset(folder), range(2 * BATCH))
    make, make_short = SHORT[kind]

    def both():
        return combined([make(folder), make_short(part)], "max_size_cycle")

    fits.check(both, (1, 2, 4, STEPS, 8), valid=make(folder, False))
    for path in fits.folder.glob("*.ckpt"):
        path.unlink()
    fits.check(both, (2, 3, 4, 6), limit_train_batches=4)  # the shorter loader ends with Lightning's epoch


class Stream(torch.utils.data.IterableDataset):
    """Yields images of one colour each, with a darker half on the left."""

    def __iter__(self):
        for k in range(SAMPLES):
            yield self.sample(k)

    @staticmethod
    def sample(k):
        image = np.full((8, 8, 3), k * 10, np.uint8)
        image[:, :4] -= 3 * (k > 0)
        return image, k


class OwnState(Stream):
    """A stream that saves its position, in a dict that it changes later."""

    def __init__(self):
        self.state = {"next": 0}

    def __iter__(self):
        while self.state["next"] < SAMPLES:
            self.state["next"] += 1
            yield self.sample(self.state["next"] - 1)
        self.state["next"] = 0

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = dict(state)


def _arrays(rows):
    return torch.stack([torch.from_numpy(image) for image, _ in rows]), torch.tensor([k for _, k in rows])


STREAMS = {
    "own": lambda: DataLoader(Stream(), BATCH, collate_fn=_arrays),
    "worker": lambda: DataLoader(Stream(), BATCH, collate_fn=_arrays, num_workers=1),
    "own state": lambda: DataLoader(OwnState(), BATCH, collate_fn=_arrays),
    "state of a worker": lambda: DataLoader(OwnState(), BATCH, collate_fn=_arrays, num_workers=1),
    "loader": lambda: Loader(Stream(), BATCH),
    "wrapped": lambda: Loader(Stream(), BATCH, collate_fn=tuple).as_dataloader(),
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.filterwarnings("ignore")
def test_lightning_continues_with_a_loader_without_a_length(kind, fits):
    """Lightning takes a batch ahead of training from such a loader. Its checkpoint is of the position of training."""
    fits.label = lambda batch: [int(image.float().mean()) for image in batch[0]]
    whole = fits.check(STREAMS[kind], (1, STEPS - 1, STEPS, STEPS + 2), valid=STREAMS["loader"]())
    assert len(whole) == 2 * STEPS and whole[:STEPS] == whole[STEPS:]
    for path in fits.folder.glob("*.ckpt"):
        path.unlink()
    fits.check(STREAMS[kind], (1, 3, 4), valid=STREAMS["loader"](), limit_train_batches=3)


class Endless:
    """A sampler whose epoch never ends."""

    def __iter__(self):
        return itertools.cycle(range(SAMPLES))


class WithoutState(Stream):
    """A stream whose state cannot be saved in mid-epoch."""

    inside = False

    def __iter__(self):
        self.inside = True
        yield from super().__iter__()
        self.inside = False

    def state_dict(self):
        if self.inside:
            raise ValueError("no state in mid-epoch")
        return {}

    def load_state_dict(self, state): ...


class LargeState(Stream):
    """A stream whose state takes long to copy."""

    def __init__(self):
        self.parts = [[k] for k in range(200_000)]
        self.calls = self.copied = 0

    def state_dict(self):
        self.calls += 1
        return {"parts": Counted(self), "more": self.parts}

    def load_state_dict(self, state):
        self.parts = state["more"]


class Counted:
    """Counts its copies."""

    def __init__(self, stream):
        self.stream = stream

    def __reduce__(self):
        self.stream.copied += 1
        return dict, ()

    def __deepcopy__(self, _):
        self.stream.copied += 1
        return self


def _endless(folder):
    return Loader(dataset(folder), BATCH, sampler=Endless(), collate_fn=tuple)


WITHOUT_STATE = {
    "sampler": (_endless, "a sampler without a length has no position"),
    "wrapped": (lambda folder: _endless(folder).as_dataloader(), "a sampler without a length has no position"),
    "mixture": (lambda folder: Loader.mix([(_endless(folder), 1)], epoch=0), "a sampler without a length has no position"),
    "stream": (lambda _: DataLoader(WithoutState(), BATCH, collate_fn=_arrays), "ValueError: no state in mid-epoch"),
    "large": (lambda _: DataLoader(LargeState(), BATCH, collate_fn=_arrays), "states of over 256 KB are not copied for each batch"),
}


@pytest.mark.parametrize("kind", WITHOUT_STATE)
@pytest.mark.filterwarnings("ignore")
def test_lightning_trains_with_a_loader_that_has_no_state(kind, folder, fits):
    """Only a checkpoint needs the state."""
    make, message = WITHOUT_STATE[kind]
    fits.label = lambda batch: len(batch[0])
    assert fits.fit(make(folder), max_steps=4, max_epochs=-1) == [BATCH] * 4
    with pytest.raises(StateError, match=message):
        fits.fit(make(folder), max_steps=4, max_epochs=-1, saves=(2,))


@pytest.mark.filterwarnings("ignore")
def test_lightning_copies_no_large_state_for_each_batch(fits):
    fits.label = len
    stream = LargeState()
    assert len(fits.fit(DataLoader(stream, BATCH, collate_fn=_arrays))) == 2 * STEPS
    assert stream.calls <= 4 and stream.copied <= 2


class Short(Stream):
    """A stream of only the first samples."""

    def __iter__(self):
        return itertools.islice(super().__iter__(), 2 * BATCH)


UNEQUAL = {
    "own": lambda _: [_own_stream(Stream()), _own_stream(Short())],
    "loader": lambda _: [Loader(Stream(), BATCH, collate_fn=tuple), Loader(Short(), BATCH, collate_fn=tuple)],
    "own with a length": lambda folder: [own(folder), _part(folder, DataLoader, generator=torch.Generator().manual_seed(5))],
    "loader with a length": lambda folder: [wrapped(folder), _part(folder, Loader, seed=5, collate_fn=tuple)],
}


def _own_stream(stream):
    return DataLoader(stream, BATCH, collate_fn=_arrays)


def _part(folder, kind, **arguments):
    return kind(torch.utils.data.Subset(dataset(folder), range(2 * BATCH)), BATCH, shuffle=True, **arguments)


@pytest.mark.parametrize("kind", UNEQUAL)
@pytest.mark.filterwarnings("ignore")
def test_lightning_continues_after_the_end_of_a_shorter_loader(kind, folder, fits):
    """A CombinedLoader of mode "max_size" gives None in place of its batches."""
    combined = pytest.importorskip("lightning.pytorch.utilities").CombinedLoader
    fits.label = lambda batch: [None if part is None else [float(image.float().mean()) for image in part[0]] for part in batch]
    whole = fits.check(lambda: combined(UNEQUAL[kind](folder), "max_size"), (1, 2, 3, STEPS - 1, STEPS, STEPS + 3))
    assert [short is None for _, short in whole] == [False, False, True, True, True] * 2


@pytest.mark.parametrize("before", ["a batch", "an epoch", "fit"])
@pytest.mark.parametrize("wrap", [lambda loader: loader, lambda loader: loader.as_dataloader()], ids=["loader", "as_dataloader"])
@pytest.mark.filterwarnings("ignore")
def test_lightning_sets_the_epoch_of_a_loader_without_a_length(before, wrap, fits):
    """Lightning sets the epoch after it has taken the first batch. The random draws are still those of Lightning's epoch."""
    fits.label = lambda batch: batch[0].tolist()

    def make():
        return wrap(Loader(Stream(), BATCH, transforms=[torchvision.transforms.RandomHorizontalFlip()], seed=3, collate_fn=tuple))

    expected = make()
    expected = [images.tolist() for _ in range(2) for images, _ in expected]
    assert expected[:STEPS] != expected[STEPS:]
    loader = make()
    if before == "fit":
        assert fits.fit(loader) == expected
    elif before == "an epoch":
        list(loader)
    else:
        next(iter(loader))
    assert fits.fit(loader) == expected
    callbacks = pytest.importorskip("lightning.pytorch.callbacks")
    saving = callbacks.ModelCheckpoint(fits.folder, "{epoch}", save_top_k=-1)
    fits.fit(make(), max_epochs=1, enable_checkpointing=True, callbacks=[saving])
    assert fits.fit(make(), fits.folder / "epoch=0.ckpt") == expected[STEPS:]


@pytest.mark.filterwarnings("ignore")
def test_lightning_does_not_drop_a_state_that_was_loaded(folder, fits):
    saved, loader = wrapped(folder), wrapped(folder)
    list(saved)
    next(iter(saved))
    loader.load_state_dict(saved.state_dict())
    with pytest.raises(StateError, match=r"set_epoch\(0\): a state in the middle of epoch 1 was loaded"):
        fits.fit(loader)


@pytest.mark.filterwarnings("ignore")
def test_only_the_fit_that_loaded_a_state_keeps_its_epoch(folder, fits):
    """A fit() that has no step left loads the state into the loader, and takes no batch."""
    whole = fits.fit(wrapped(folder), saves=(STEPS + 2,))
    loader, path = wrapped(folder), fits.folder / f"{STEPS + 2}.ckpt"
    assert fits.fit(loader, path, max_steps=STEPS + 2) == []
    refused = r"set_epoch\(0\): a state in the middle of epoch 1 was loaded"
    with pytest.raises(StateError, match=refused):
        loader.sampler.set_epoch(0)
    with pytest.raises(StateError, match=refused):
        fits.fit(loader)
    lightning = fits.lightning

    class Setting(lightning.Callback):
        def on_train_start(self, *_):
            with pytest.raises(StateError, match=refused):
                loader.sampler.set_epoch(0)

    assert fits.fit(loader, path, callbacks=[Setting()]) == whole[STEPS + 2 :]


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
