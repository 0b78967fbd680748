# SPDX-License-Identifier: Apache-2.0
"""Comparison with NVIDIA DALI on the CPU; skipped if DALI is not installed. --parity-page FILE writes the page of results."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--parity-page", metavar="FILE", help="write what was compared as a page of Markdown")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "peer: compares with another library than DALI")
    config.addinivalue_line("markers", "dali: compares with NVIDIA DALI; skipped where it is not installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = importlib.util.find_spec("nvidia") is None or importlib.util.find_spec("nvidia.dali") is None
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("peer") is None:
            item.add_marker(pytest.mark.dali)
            if missing:
                item.add_marker(pytest.mark.skip(reason="NVIDIA DALI is not installed"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    target = session.config.getoption("--parity-page", default=None)
    if target and exitstatus == 0:
        from page import page

        Path(target).write_text(page())
