# SPDX-License-Identifier: Apache-2.0
"""The exceptions that stoker raises beside Python's own."""


class ShapeError(AssertionError, RuntimeError):
    """Shapes, dtypes or devices do not fit. The text names the argument and both sides.

    It derives from AssertionError and RuntimeError because code written for ACCV-Lab's batching helpers expects one or the other.
    """
