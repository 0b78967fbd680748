# SPDX-License-Identifier: Apache-2.0
"""Modules with the names of other libraries that decode videos: stoker.video.accvlab. Stoker's own class for one file is stoker.VideoDecoder."""
