# SPDX-License-Identifier: Apache-2.0
"""Settings of all tests: the layer of each file as a marker, the seed in the header, failures printed at once, and fixtures: a random generator, small JPEGs
in folders of classes, programs in separate processes, and videos."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import SEED, run_script, write_tree

os.environ.setdefault("STOKER_TOP", "0")  # otherwise the sockets for `stoker top` would be outside of the tests' own folders
pytest_plugins = ["hangs", "leftovers"]

# Names of the test files or folders of each layer, like the suites in C (test/meson.build). `pytest -m op` tests a change of src/op.
LAYERS = {
    "io": (
        "test_budgets test_cache test_doctor test_endpoints test_google test_hostile_server test_neighbour test_proxies test_remote "
        "test_replaced_sounds test_secrets test_signed_urls test_storage test_zero_bytes"
    ),
    "codec": "test_foreign_files test_image_peers test_orientation",
    "op": (
        "test_byte_order_mark test_enumerations test_nuscenes_devkit test_windows test_gpu_arrays test_gpu_images "
        "test_audio test_audio_bench test_audio_codecs test_audio_flac test_audio_models test_audio_peers "
        "test_audioread test_sound_times test_coco test_numpy_reader test_nuscenes test_nuscenes_provider "
        "test_tfrecord test_webdataset "
        "test_arithmetic test_batchwide test_catalog test_cutout test_enhance test_finite test_geometry test_hostile_graphs test_ops_parity "
        "test_scaled_decoding "
        "test_tensor_operators test_operators test_signals test_random test_random_boxes test_random_graphs test_gpu_operators"
    ),
    "graph": (
        "test_auto_aug_parity test_conditionals test_conditionals_parity test_gpu_conditionals test_definition test_ops_classes test_places "
        "test_forms test_import test_surface test_gpu_surface"
    ),
    "exec": (
        "test_bad_samples test_metrics test_session "
        "test_external_forms test_external_parallel test_function test_images test_tensors_made "
        "test_round_trips test_several_readers test_formats test_image_depths test_png_rows test_bytes test_notices "
        "test_external test_extremes test_handover test_kept test_limits test_many_threads test_pipeline test_process test_settings test_state test_stopping "
        "test_streams test_video test_video_clips test_video_contexts test_video_frames test_video_readers test_video_samplers test_waiting test_work "
        "test_gpu_augment test_gpu_files test_gpu_kept test_gpu_process test_gpu_streams test_gpu_tensors test_gpu_driver test_gpu_video "
        "test_gpu_video_readers "
        "test_readers"
    ),
    "order": "test_ranks",
    "loader": (
        "test_functions_that_wait test_loader_videos test_pack_video test_video_accvlab test_video_beside "
        "test_mixture test_robots test_loader_floats test_loader_lists test_loader_python_transforms test_start_methods test_transforms_called "
        "test_dataloader test_dataloader_arguments test_dataloader_differential test_dataloader_kinds test_dataloader_states test_dataloader_torch "
        "test_dataloader_users test_frameworks "
        "test_loader test_loader_adopted test_loader_detection test_loader_fields test_loader_follow test_loader_layout test_loader_meaning test_loader_pad "
        "test_loader_sources "
        "test_to_device test_loader_sounds test_loader_sound_windows test_loader_sound_rows test_clips_with_sound test_help test_types test_newcomer "
        "test_loops test_state_data test_state_extremes "
        "test_loader_shared test_loader_state test_mix test_tables test_tars test_unindexed test_training test_augment test_transforms "
        "test_transforms_arguments test_transforms_scales "
        "test_hub_formats test_hub_streams test_table_columns test_table_features test_table_folders test_table_memory test_table_reads test_table_urls "
        "test_tables_damaged "
        "test_transforms_more test_unknown_arguments test_without_packages "
        "test_transforms_geometry test_gpu_loader test_gpu_robots test_loader_parity"
    ),
    "iterators": (
        "test_gpu_structured test_dali test_iterators test_iterators_restored test_iterators_parity test_use_cases test_structured "
        "test_structured_samples test_structured_steps"
    ),
    "command": (
        "test_advise test_command test_table_pack test_getting_started test_pages test_papers test_progress test_sheet test_top test_view_sound"
    ),
    "ragged": "batching",
    "examples": "test_examples test_notebooks test_nuscenes_made test_ported test_streampetr",
    "tools": "test_environment test_hangs test_hardening test_instructions test_measure test_packaging test_release test_setting_up test_site",
}


def layers_of(path: Path) -> list[str]:
    """Returns the layers whose entry in LAYERS lists the test file or its folder."""
    return [layer for layer, names in LAYERS.items() if {path.stem, path.parent.name} & set(names.split())]


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with SIGINT ignored. Without this, programs that tests start would ignore it too, and never end after it.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for layer in LAYERS:
        config.addinivalue_line("markers", f"{layer}: of this layer (test/python/conftest.py)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for layer in layers_of(item.path):
            item.add_marker(layer)


def pytest_report_header() -> str:
    return f"stoker: seed {SEED} (STOKER_TEST_SEED)"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Prints a failure at once, so that an interrupted run has reported its failures."""
    if report.failed:
        why = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
        print(f"\nFAILED {report.nodeid} ({report.when})", *why[:3], sep="\n", flush=True)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes three classes of seven images of different sizes, and returns their folder."""
    root = tmp_path_factory.mktemp("tree")
    write_tree(root, np.random.default_rng(SEED), 3, 7)
    return root


@pytest.fixture(scope="session")
def files(tree: Path) -> list[Path]:
    """Returns the tree's files, in the order of their ids."""
    return sorted(tree.glob("*/*.jpg"))


@pytest.fixture
def script():
    return run_script


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns a function from a small video's name in videos.py to its path. Tests must not write to its folder, which may be that of STOKER_TEST_VIDEOS."""
    import videos

    folder = videos.READY or tmp_path_factory.mktemp("videos")
    return lambda name: videos.make(folder, name)
