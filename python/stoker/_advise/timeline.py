# SPDX-License-Identifier: Apache-2.0
"""Draws a picture of a trial: the steps of the first live and the first cached block on a common time axis, and all live steps as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker._advise.plan import Step
from stoker._advise.png import Canvas

_WIDTH, _LEFT, _RIGHT = 1200, 120, 20
_LANE, _BARS = 46, 200
_GROUND, _INK, _FAINT = (255, 255, 255), (40, 40, 40), (225, 225, 225)
_WAIT, _EVEN, _ODD = (214, 69, 65), (66, 114, 178), (104, 150, 208)  # RGB of waits, and of steps with even and odd numbers


def draw(title: str, facts: str, lanes: Mapping[str, Sequence[Step]], bars: Sequence[Step]) -> bytes:
    """Returns the bytes of a PNG file. lanes: the names and the steps of the rows, from top to bottom. bars: the steps to draw as bars."""
    canvas = Canvas(_WIDTH, 90 + len(lanes) * (_LANE + 14) + 40 + _BARS + 50, _GROUND)
    _heading(canvas, title, facts)
    span = max(lane[-1].end - lane[0].asked for lane in lanes.values())
    y = 90
    for name, lane in lanes.items():
        _lane(canvas, y, name, lane, span)
        y += _LANE + 14
    _seconds(canvas, y - 6, span)
    _bars(canvas, y + 34, bars)
    return canvas.png()


def _heading(canvas: Canvas, title: str, facts: str) -> None:
    canvas.text(20, 14, title, _INK, 2)
    canvas.text(20, 41, facts, _INK)
    x = 20.0
    for colour, words in ((_WAIT, "waiting for data"), (_EVEN, "step")):
        canvas.box(x, 62, 14, 10, colour)
        x = canvas.text(x + 20, 60, words, _INK) + 24


def _lane(canvas: Canvas, y: float, name: str, steps: Sequence[Step], span: float) -> None:
    scale = (_WIDTH - _LEFT - _RIGHT) / max(span, 1e-9)
    begin = steps[0].asked
    canvas.text(20, y + _LANE / 2 - 6, name, _INK)
    canvas.box(_LEFT, y, _WIDTH - _LEFT - _RIGHT, _LANE, _FAINT)
    for i, step in enumerate(steps):
        canvas.box(_LEFT + (step.asked - begin) * scale, y, step.wait * scale, _LANE, _WAIT)
        canvas.box(_LEFT + (step.got - begin) * scale, y, (step.end - step.got) * scale, _LANE, _ODD if i % 2 else _EVEN)


def _seconds(canvas: Canvas, y: float, span: float) -> None:
    """Draws six ticks with their times, from 0 to `span` seconds."""
    for i in range(6):
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * i / 5
        canvas.box(x, y - 6, 1, 5, _INK)
        text = _time(span * i / 5)
        canvas.text(x - (6 * len(text) if i == 5 else 3 * len(text)), y + 1, text, _INK)


def _bars(canvas: Canvas, y: float, steps: Sequence[Step]) -> None:
    """Draws a bar for each live step: the wait at the bottom, the rest above it."""
    highest = max(s.whole for s in steps)
    pitch = (_WIDTH - _LEFT - _RIGHT) / len(steps)
    canvas.text(20, y, _time(highest), _INK)
    canvas.text(20, y + _BARS - 11, "0", _INK)
    for i, step in enumerate(steps):
        whole, wait = (_BARS * v / max(highest, 1e-9) for v in (step.whole, step.wait))
        x, width = _LEFT + i * pitch, max(1.0, pitch - (1 if pitch > 3 else 0))
        canvas.box(x, y + _BARS - whole, width, whole - wait, _EVEN)
        canvas.box(x, y + _BARS - wait, width, wait, _WAIT)
    canvas.box(_LEFT, y + _BARS, _WIDTH - _LEFT - _RIGHT, 1, _INK)
    canvas.text(_LEFT, y + _BARS + 10, f"{len(steps)} live steps in their order", _INK)


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"
