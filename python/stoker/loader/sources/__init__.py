# SPDX-License-Identifier: Apache-2.0
"""What a Loader reads: a module for each kind of source, and what several of them share."""
