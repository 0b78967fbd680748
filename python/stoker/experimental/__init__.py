# SPDX-License-Identifier: Apache-2.0
"""DALI's experimental modules. An error names the replacement of each."""

from typing import NoReturn

from stoker._elsewhere import no_attribute


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
