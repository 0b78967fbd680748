# SPDX-License-Identifier: Apache-2.0
"""The command `stoker inspect` for robot data sets: reads and checks their metadata and tables as a Loader does, and prints facts from the metadata."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from stoker.loader.sources._command import shown
from stoker.loader.sources._inspect import count_text, operands, print_facts
from stoker.loader.sources._robots import Robots


def asked(arguments: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """Returns the folder that `stoker inspect FOLDER` names if it holds meta/info.json, and the options; None for other commands. arguments: the arguments
    after `inspect`."""
    folders, options = operands(arguments)
    return (folders[0], options) if len(folders) == 1 and os.path.isfile(os.path.join(folders[0], "meta", "info.json")) else None


def main(folder: str, options: dict[str, Any]) -> int:
    """Prints facts about a data set, as text or JSON. Returns the exit status, as print_facts does."""
    return print_facts(lambda: inspect(folder), _lines, "json" in options)


def inspect(folder: str) -> dict[str, Any]:
    """Returns facts about a data set. Raises the errors of Loader.from_lerobot, also for contradictions between tables; videos are not opened."""
    robots = Robots(folder)
    return {
        "version": str(robots.info["codebase_version"]),
        "episodes": robots.num_episodes,
        "frames": robots.num_frames,
        "fps": robots.fps,
        "seconds": robots.num_frames / robots.fps,
        "tasks": list(robots.tasks.values()),
        "features": [{"name": n, "dtype": f["dtype"], "shape": list(f.get("shape") or ())} for n, f in robots.features.items()],
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = [
        f"LeRobot {facts['version']}: {count_text(facts['episodes'], 'episode')}, {count_text(facts['frames'], 'frame')} at {facts['fps']:g} Hz "
        f"({facts['seconds']:.1f} s), {count_text(len(facts['tasks']), 'task')}"
    ]
    names = [shown(f["name"]) for f in facts["features"]]
    width = max(map(len, names), default=0)
    for name, f in zip(names, facts["features"], strict=True):
        lines.append(f"  {name:{width}}  {f['dtype']} {f['shape']}")
    return lines
