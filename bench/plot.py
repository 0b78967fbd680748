#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the comparisons of a result of run.py as bars: images per CPU-second of Stoker and of each peer in the same run.

usage: plot.py RESULTS.json OUT.svg     run.py writes one next to each result; the README shows doc/throughput.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.sax.saxutils import escape

NAMES = {"dali": "NVIDIA DALI, CPU", "torchvision": "DataLoader + torchvision", "simplejpeg": "DataLoader + simplejpeg"}
WIDTH, LEFT, RIGHT, ROW, TOP = 760, 210, 150, 26, 58
OURS, THEIRS, TEXT = "#1f6feb", "#9aa4af", "#57606a"  # the colour of text is readable on white and on GitHub's dark background


def bar(y: int, length: float, colour: str, label: str) -> str:
    return (
        f'<rect x="{LEFT}" y="{y}" width="{length:.0f}" height="{ROW - 8}" rx="2" fill="{colour}"/>'
        f'<text x="{LEFT + length + 8:.0f}" y="{y + 14}">{escape(label)}</text>'
    )


def draw(rows: list[dict], subtitle: str) -> str:
    longest = max(r["stoker"]["images_per_cpu_s"] for r in rows)
    scale = (WIDTH - LEFT - RIGHT) / longest
    parts = []
    for k, r in enumerate(rows):
        y = TOP + k * (2 * ROW + 16)
        ours, theirs = r["stoker"]["images_per_cpu_s"], r["theirs"]["images_per_cpu_s"]
        name = NAMES.get(r["peer"], r["peer"])
        parts.append(f'<text x="{LEFT - 12}" y="{y + 14}" text-anchor="end">Stoker</text>')
        parts.append(bar(y, ours * scale, OURS, f"{ours:.0f}   ({r['ratio_per_cpu_s']:.1f} times)"))
        parts.append(f'<text x="{LEFT - 12}" y="{y + ROW + 10}" text-anchor="end">{escape(name)}</text>')
        parts.append(bar(y + ROW - 4, theirs * scale, THEIRS, f"{theirs:.0f}"))
    height = TOP + len(rows) * (2 * ROW + 16)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{TEXT}">\n'
        f'<text x="8" y="20" font-size="15" font-weight="600">Images per CPU-second: decode, random crop, flip, normalise</text>\n'
        f'<text x="8" y="40">{escape(subtitle)}</text>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def write(results: Path, out: Path) -> None:
    """Writes the chart for the result file `results` to the SVG file `out`. Raises ValueError if the result holds no comparison."""
    found = json.loads(results.read_text())
    rows = [r for r in found["results"] if "ratio_per_cpu_s" in r and r["peer"] in NAMES]
    if not rows:
        raise ValueError(f"{results} has no comparison with {', '.join(NAMES)}; run.py --only compare makes one")
    inputs = found["inputs"]
    machine = f"{found['machine']['processor']}, {found['machine']['cores']} cores"
    subtitle = f"{inputs['files']} JPEGs of {inputs['mean_bytes'] / 1000:.0f} kB, {machine}; longer is better"
    out.write_text(draw(rows, subtitle))


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        write(Path(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
