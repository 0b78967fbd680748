# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations


class InPython(Exception):
    """Raised if Stoker cannot give the results of torch's DataLoader. The message says why. The DataLoader then runs torch's own code."""
