# SPDX-License-Identifier: Apache-2.0
"""Notices go through a logger, so that a program can silence or collect them."""

import pytest
from support import run_script

PROGRAM = """
    import logging
    {setup}
    from stoker import Pipeline, fn
    from stoker._where import notice
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(fn.random.uniform(range=[0.0, 1.0]))
    pipe.run()
    notice("twice")
    notice("twice")
"""
UNKNOWN = "the environment variable STOKER_FUZE is set, and nothing reads it; did you mean STOKER_FUSE?"


@pytest.mark.parametrize(
    ("setup", "want"),
    [
        ("", f"stoker: {UNKNOWN}\nstoker: twice\n"),
        ("logging.getLogger('stoker').setLevel(logging.ERROR)", ""),
        ("logging.basicConfig(level='DEBUG')", f"stoker: {UNKNOWN}\nstoker: twice\n"),
        ("logging.getLogger('stoker').addHandler(logging.NullHandler()); logging.getLogger('stoker').propagate = False", ""),
        (
            "import sys; h = logging.StreamHandler(); h.setFormatter(logging.Formatter('%(name)s %(levelname)s %(message)s')); "
            "logging.getLogger('stoker').addHandler(h)",
            f"stoker WARNING {UNKNOWN}\nstoker WARNING twice\n",
        ),
    ],
)
def test_notices_are_logged(setup, want):
    assert run_script(PROGRAM.format(setup=setup), STOKER_FUZE="0").stderr == want
