# SPDX-License-Identifier: Apache-2.0
"""A DataLoader with torch's signature and contract. The parts that Stoker knows run in C, and everything else runs in torch's own DataLoader."""

from stoker.dataloader.dataloader import DataLoader

__all__ = ["DataLoader"]
