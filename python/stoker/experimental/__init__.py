# SPDX-License-Identifier: Apache-2.0
"""DALI's experimental modules: what stands in their place is told."""

from typing import NoReturn

from stoker._elsewhere import no_attribute


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
