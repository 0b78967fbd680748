# SPDX-License-Identifier: Apache-2.0
"""Trains with Composer in a process of its own, because Composer leaves temporary files and keeps its last Trainer until the process ends.

composer_runs.py FOLDER OUT KIND: prints, as JSON, the samples of the batches of a whole run, those of its evaluation, and those of two runs that
stop and of the runs that load their checkpoints.
KIND: "torch:N" (torch's DataLoader with N workers), "own:N" (stoker.DataLoader), or "wrapped" (as_dataloader()).
"""

import json
import sys
from pathlib import Path

from test_frameworks import (
    BATCH,
    STEPS,
    Net,
    dataset,
    numbers,
    own,
    wrapped,
)  # the first import, because it prepares torchvision, which Composer imports

# isort: split
import composer
import torch
from composer.models import ComposerModel
from torchmetrics.classification import MulticlassAccuracy


class Model(ComposerModel):
    def __init__(self):
        super().__init__()
        self.net, self.checked = Net(), []
        self.accuracy = MulticlassAccuracy(num_classes=2)

    def forward(self, batch):
        return self.net(batch[0])

    def loss(self, outputs, batch):
        return torch.nn.functional.cross_entropy(outputs, batch[1])

    def eval_forward(self, batch, outputs=None):
        self.checked += numbers(batch[0])
        return self.net(batch[0])

    def get_metrics(self, is_train=False):
        return {} if is_train else {"accuracy": self.accuracy}

    def update_metric(self, batch, outputs, metric):
        metric.update(outputs, batch[1])


def make(folder, kind, shuffle):
    kind, _, workers = kind.partition(":")
    if kind == "wrapped":
        return wrapped(folder, shuffle)
    if kind == "own":
        return own(folder, shuffle, int(workers))
    generator = torch.Generator().manual_seed(3) if shuffle else None
    return torch.utils.data.DataLoader(dataset(folder), BATCH, shuffle=shuffle, generator=generator, num_workers=int(workers))


def fit(folder, kind, duration, path=None, **saving):
    """Trains for `duration`, from the checkpoint `path` if it is given. Returns the model, and the samples of each batch that it was trained with. Composer
    gives the model each batch in two halves, which are joined here."""
    model = Model()
    trainer = composer.Trainer(
        model=model,
        train_dataloader=make(folder, kind, True),
        eval_dataloader=make(folder, kind, False),
        optimizers=torch.optim.SGD(model.parameters(), 0.01),
        max_duration=duration,
        device="cpu",
        device_train_microbatch_size=BATCH // 2,
        progress_bar=False,
        load_path=path,
        **saving,
    )
    trainer.fit()
    trainer.close()
    halves = model.net.seen
    return model, [halves[k] + halves[k + 1] for k in range(0, len(halves), 2)]


def main(folder, out, kind):
    model, whole = fit(folder, kind, "2ep")
    runs = {"whole": whole, "checked": model.checked}
    for after in (STEPS, STEPS + 2):
        place = Path(out) / str(after)
        _, first = fit(folder, kind, f"{after}ba", save_folder=str(place), save_interval=f"{after}ba", save_filename="saved.pt")
        _, rest = fit(folder, kind, "2ep", str(place / "saved.pt"))
        runs[f"after {after}"] = [first, rest]
    print(json.dumps(runs))


if __name__ == "__main__":
    main(*sys.argv[1:])
