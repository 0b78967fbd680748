# SPDX-License-Identifier: Apache-2.0
"""A DataLoader with torch's signature and contract, which runs in C what Stoker knows and everything else as torch does."""

from stoker.dataloader.dataloader import DataLoader

__all__ = ["DataLoader"]
