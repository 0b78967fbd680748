# SPDX-License-Identifier: Apache-2.0
"""Draws pipelines as diagrams: levels, chains, passes, and the device on which each part runs. The input is the result of Pipeline.explain(as_json=True)."""

from __future__ import annotations

import os
from typing import Any

from stoker import _files

_LINE, _LETTER, _PAD, _GAP = 18, 7.3, 10, 16  # pixels: height of a line, width of a letter in a font of 12 px, padding, gap
_STYLE = """
  .stoker text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; }
  .stoker .title { font-weight: bold; } .stoker .step { fill: #57606a; }
  .stoker .level { fill: #f6f8fa; stroke: #d0d7de; } .stoker .chain { fill: none; stroke: #8c959f; stroke-dasharray: 4 3; }
  .stoker .cores { fill: #ddf4ff; stroke: #54aeff; } .stoker .gpu { fill: #dafbe1; stroke: #4ac26b; }
  .stoker .reader { fill: #fff8c5; stroke: #d4a72c; } .stoker .python { fill: #fbefff; stroke: #c297ff; }
  .stoker path { stroke: #57606a; fill: none; }
"""


def escape(text: str) -> str:
    """Escapes text for XML. The standard library's modules for this would import many others."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Drawing:
    """A diagram of a pipeline. A notebook shows it. svg: the SVG file's text. text: the pipeline's name in repr()."""

    def __init__(self, svg: str, text: str) -> None:
        self.svg = svg
        self._text = text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the drawing as an SVG file. Raises InvalidArgumentError for a name with the ending of another format."""
        _files.refuse_ending(path, "a drawing", ".svg")
        _files.write(path, self.svg)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f'<a drawing of {self._text}; a notebook shows it, .save("pipeline.svg") writes it>'


def _style_of(group: dict[str, Any]) -> tuple[str, str]:
    """Returns (CSS class of a group's box, text that says where the group runs). The text is "" for a reader."""
    if group["kind"] == "reader":
        return "reader", ""
    if any(op["name"] in ("external_source", "python_function") for op in group["operators"]):
        return "python", "in Python"
    return ("gpu", "on the GPU") if group["device"] == "gpu" else ("cores", "on cores")


class _Box:
    """The box of a group: a title, and a line for each operator and for each condition."""

    def __init__(self, group: dict[str, Any]) -> None:
        self.style, where = _style_of(group)
        self.title = f"{group['kind']}, {where}" if where else group["kind"]
        self.rows = [(op["name"], "" if op["step"] == "run" else op["step"]) for op in group["operators"]]
        self.rows += [(f"when {'' if when['wanted'] else 'not '}{when['operator']}", "") for when in group.get("when", ())]
        letters = max([len(self.title), *(len(name) + (len(step) + 3 if step else 0) for name, step in self.rows)])
        self.width = int(letters * _LETTER) + 2 * _PAD
        self.height = (1 + len(self.rows)) * _LINE + _PAD

    def draw(self, x: int, y: int, width: int) -> list[str]:
        out = [f'<rect class="{self.style}" x="{x}" y="{y}" width="{width}" height="{self.height}" rx="5"/>']
        out.append(f'<text class="title" x="{x + _PAD}" y="{y + _LINE - 2}">{escape(self.title)}</text>')
        for i, (name, step) in enumerate(self.rows, 2):
            extra = f' <tspan class="step">({escape(step)})</tspan>' if step else ""
            out.append(f'<text x="{x + _PAD}" y="{y + i * _LINE - 2}">{escape(name)}{extra}</text>')
        return out


class _Chain:
    """The frame of a chain, with the boxes of its groups one below the other."""

    def __init__(self, chain: dict[str, Any]) -> None:
        self.boxes = [_Box(group) for group in chain["groups"]]
        self.width = max((box.width for box in self.boxes), default=80) + 2 * _PAD
        self.height = sum(box.height + _GAP for box in self.boxes) - _GAP + 2 * _PAD + _LINE
        self.title = "after its bytes were read" if chain["reads"] else "one sample at a time"

    def draw(self, x: int, y: int) -> list[str]:
        out = [f'<rect class="chain" x="{x}" y="{y}" width="{self.width}" height="{self.height}" rx="5"/>']
        out.append(f'<text class="step" x="{x + _PAD}" y="{y + _LINE - 3}">{escape(self.title)}</text>')
        y += _LINE + _PAD
        middle = x + self.width // 2
        for i, box in enumerate(self.boxes):
            if i:
                out.append(f'<path d="M{middle} {y - _GAP} V{y - 3}" marker-end="url(#arrow)"/>')
            out += box.draw(x + _PAD, y, self.width - 2 * _PAD)
            y += box.height + _GAP
        return out


def of_pipeline(explained: dict[str, Any], text: str) -> Drawing:
    """Draws a pipeline. explained: the result of explain(as_json=True). text: the title of the drawing."""
    levels = [[_Chain(chain) for chain in level["chains"]] for level in explained["levels"]]
    inner = [sum(chain.width + _GAP for chain in chains) - _GAP for chains in levels]
    titles = [
        f"level {i}" + (", for the whole batch" if not levels[i] else ", after all samples of the batch" if i else "")
        for i in range(len(levels))
    ]
    width = max([*inner, *(int(len(title) * _LETTER) for title in titles)]) + 4 * _PAD
    body: list[str] = []
    y = _PAD
    for i, chains in enumerate(levels):
        height = max((chain.height for chain in chains), default=0) + _LINE + 2 * _PAD
        if i:
            body.append(f'<path d="M{width // 2} {y - _GAP} V{y - 3}" marker-end="url(#arrow)"/>')
        body.append(f'<rect class="level" x="{_PAD}" y="{y}" width="{width - 2 * _PAD}" height="{height}" rx="8"/>')
        body.append(f'<text class="title" x="{2 * _PAD}" y="{y + _LINE}">{titles[i]}</text>')
        x = 2 * _PAD
        for chain in chains:
            body += chain.draw(x, y + _LINE + _PAD)
            x += chain.width + _GAP
        y += height + _GAP
    height = y - _GAP + _PAD
    arrow = '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8"/></marker>'
    head = f'<svg class="stoker" xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
    parts = [head, f"<title>{escape(text)}</title>", f"<style>{_STYLE}</style>", f"<defs>{arrow}</defs>", *body, "</svg>"]
    return Drawing("\n".join(parts) + "\n", text)
