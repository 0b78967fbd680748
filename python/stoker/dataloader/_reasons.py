# SPDX-License-Identifier: Apache-2.0
"""The exception that says why something runs in Python."""

from __future__ import annotations


class InPython(Exception):
    """Stoker cannot give what torch's DataLoader would give here; the message says why. The DataLoader then runs as torch's does."""
