# SPDX-License-Identifier: Apache-2.0
"""Stands for DALI's experimental modules: each name raises an error that says what to use instead."""

from typing import NoReturn

from stoker._elsewhere import no_attribute


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
