# SPDX-License-Identifier: Apache-2.0
"""Fixtures: small photographs-like JPEGs in folders of classes, made once a session with a seed that is printed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import SEED, run_script, write_tree


def pytest_report_header() -> str:
    return f"stoker: seed {SEED} (STOKER_TEST_SEED)"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Names a failure at once: a run that is cut off has told what it found."""
    if report.failed:
        why = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
        print(f"\nFAILED {report.nodeid} ({report.when})", *why[:3], sep="\n", flush=True)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of seven images, all of unequal size."""
    root = tmp_path_factory.mktemp("tree")
    write_tree(root, np.random.default_rng(SEED), 3, 7)
    return root


@pytest.fixture(scope="session")
def files(tree: Path) -> list[Path]:
    """The tree's files, in the order of their ids."""
    return sorted(tree.glob("*/*.jpg"))


@pytest.fixture
def script():
    return run_script
