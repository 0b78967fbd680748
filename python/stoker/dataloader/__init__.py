# SPDX-License-Identifier: Apache-2.0
"""A DataLoader with torch's signature and contract. Data sets and transforms that Stoker knows run in C. With others, torch's own
DataLoader does the work."""

from stoker.dataloader.dataloader import DataLoader

__all__ = ["DataLoader"]
