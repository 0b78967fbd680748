# SPDX-License-Identifier: Apache-2.0
"""Trains a policy on a data set in LeRobot's format, and tries the policy in the simulation in which the data set was recorded.

usage: make_dataset.py FOLDER
       train.py FOLDER [--epochs N] [--batch N] [--device cuda]

The policy sees two cameras and the position of the hand, and predicts the next eight positions. After each epoch it moves the hand in 40 new episodes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import stoker
import torch
from reach import CAMERAS, FPS, Table
from torch import nn

AHEAD = 8  # number of consecutive actions that the policy predicts from one frame


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.eyes = nn.ModuleList(self._eye() for _ in CAMERAS)
        self.head = nn.Sequential(nn.Linear(2 * 2 * 16 + 2, 128), nn.ReLU(), nn.Linear(128, AHEAD * 2))

    @staticmethod
    def _eye() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2))

    @staticmethod
    def _mean_positions(features: torch.Tensor) -> torch.Tensor:
        """Returns the mean position of each feature in the picture, weighted by the softmax of its values."""
        n, c, height, width = features.shape
        weights = features.flatten(2).softmax(-1).view(n, c, height, width)
        x = (weights.sum(2) * torch.linspace(0, 1, width, device=features.device)).sum(-1)
        y = (weights.sum(3) * torch.linspace(0, 1, height, device=features.device)).sum(-1)
        return torch.cat([x, y], 1)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Returns the next positions relative to the hand, with shape (N, AHEAD, 2)."""
        seen = [self._mean_positions(eye(batch[camera])) for eye, camera in zip(self.eyes, CAMERAS, strict=True)]
        return self.head(torch.cat([*seen, batch["observation.state"]], 1)).view(-1, AHEAD, 2)


@torch.no_grad()
def success(policy: Policy, device: str, episodes: int = 40) -> float:
    """Returns the share of new episodes in which the policy brings the hand to the square within 30 steps."""
    policy.eval()
    tables = [Table(np.random.default_rng(10_000 + k)) for k in range(episodes)]
    reached = np.zeros(episodes, bool)
    for _ in range(30):
        pictures = [np.stack(p) for p in zip(*(t.pictures() for t in tables), strict=True)]
        batch = {c: torch.from_numpy(p).permute(0, 3, 1, 2).float().div(255).to(device) for c, p in zip(CAMERAS, pictures, strict=True)}
        batch["observation.state"] = torch.tensor(np.stack([t.hand for t in tables]), dtype=torch.float32, device=device)
        for table, step in zip(tables, policy(batch)[:, 0].cpu().numpy(), strict=True):
            table.step(table.hand + step)
        reached |= [t.reached for t in tables]
    policy.train()
    return float(reached.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = stoker.Loader.from_lerobot(
        args.folder, args.batch, delta_timestamps={"action": [k / FPS for k in range(AHEAD)]}, shuffle=True, seed=0, device=args.device
    )
    policy = Policy().to(args.device)
    steps = args.epochs * len(loader)
    optimizer = torch.optim.AdamW(policy.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    print(f"{len(loader.dataset)} frames; before training the hand arrives in {success(policy, args.device):.0%} of 40 episodes")
    for epoch in range(args.epochs):
        losses = []
        for batch in loader:
            wanted = batch["action"] - batch["observation.state"][:, None]
            known = ~batch["action_is_pad"]  # actions after an episode's end are padding
            loss = ((policy(batch) - wanted) ** 2).sum(-1)[known].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {np.mean(losses):.5f}, the hand arrives in {success(policy, args.device):.0%}", flush=True)


if __name__ == "__main__":
    main()
