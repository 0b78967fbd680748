# SPDX-License-Identifier: Apache-2.0
"""Each case of the tables, one test each."""

from __future__ import annotations

import importlib

import pytest
from harness import Case, check

TABLES = ("cases_decoders", "cases_geometry", "cases_pixels", "cases_generic")
CASES = [case for table in TABLES for case in importlib.import_module(table).all_cases()]


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c.name}" for i, c in enumerate(CASES)])
def test_as_dali(case: Case) -> None:
    check(case)
