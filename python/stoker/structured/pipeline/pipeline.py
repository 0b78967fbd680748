# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker import fn
from stoker._sources import OfRank
from stoker.pipeline import Pipeline, pipeline_def
from stoker.structured.pipeline.sample_data_group import Path, SampleDataGroup, path_text
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase

if TYPE_CHECKING:
    from stoker.data_node import DataNode
    from stoker.structured.inputs.callable_base import CallableBase
    from stoker.structured.inputs.iterable_base import IterableBase


class PipelineDefinition:
    """Makes a pipeline from an input and from processing steps, which are applied to each sample in order.

    data_loading_callable_iterable: the input, from stoker.structured.inputs. If its data provider has an operator that reads the samples, no Python runs for a
        sample.
    preprocess_functors: the steps. Elements that are None are ignored.
    check_data_format: whether a field accepts only nodes of its type. This is checked while the pipeline is defined.
    use_parallel_external_source: whether a callable input that is written in Python runs in worker processes (the pipeline's py_num_workers).
    prefetch_queue_depth: the worker processes begin this many batches ahead.
    print_sample_data_group_format: whether to print the format of the samples before the first step and after each step.
    copy_external_source_passthrough_outputs, passthrough_copy_*: are checked but have no effect. In ACCV-Lab, these arguments copy outputs that share the
    input's memory; in Stoker all outputs have their own memory.
    """

    def __init__(
        self,
        data_loading_callable_iterable: CallableBase | IterableBase,
        preprocess_functors: Sequence[PipelineStepBase | None] | None = None,
        check_data_format: bool = True,
        use_parallel_external_source: bool = True,
        prefetch_queue_depth: int = 2,
        print_sample_data_group_format: bool = False,
        copy_external_source_passthrough_outputs: bool | None = None,
        passthrough_copy_field_names: Sequence[str | int] | None = None,
        passthrough_copy_field_names_scope_paths: Sequence[Path] | None = None,
        passthrough_copy_branch_paths: Sequence[Path] | None = None,
    ) -> None:
        self._input = data_loading_callable_iterable
        self._steps = [step for step in preprocess_functors or [] if step is not None]
        for k, step in enumerate(self._steps):
            if isinstance(step, type) or not hasattr(step, "check_input_data_format_and_set_output_data_format"):
                given = f"the class {step.__name__}" if isinstance(step, type) else type(step).__name__
                raise TypeError(
                    f"preprocess_functors: step {k} is {given}: a step is an object of a class that is derived from PipelineStepBase"
                )
        self._check_data_format = check_data_format
        self._parallel = use_parallel_external_source
        self._prefetch_queue_depth = prefetch_queue_depth
        self._print = print_sample_data_group_format
        self._copied = (passthrough_copy_field_names_scope_paths or []), (passthrough_copy_branch_paths or [])
        selected = (passthrough_copy_field_names, passthrough_copy_field_names_scope_paths, passthrough_copy_branch_paths)
        if any(s is not None for s in selected) and not copy_external_source_passthrough_outputs:
            raise ValueError("passthrough_copy_* say what to copy: they need copy_external_source_passthrough_outputs=True")
        if passthrough_copy_field_names_scope_paths and not passthrough_copy_field_names:
            raise ValueError("passthrough_copy_field_names_scope_paths says where passthrough_copy_field_names are looked for: give both")

    @property
    def input_data_structure(self) -> SampleDataGroup:
        """Returns the format of the input's samples."""
        return self._input.used_sample_data_structure.get_empty_like_self()  # an input may return the same tree each time

    def check_and_get_output_data_structure(self) -> SampleDataGroup:
        """Returns the format of the outputs. Raises an error if a step cannot be applied to the format before it, or a path of passthrough_copy_* does not
        exist."""
        structure = self.input_data_structure
        if self._print:
            print(f"Input format:\n{structure.get_string_no_details()}")
        for i, step in enumerate(self._steps):
            structure = step.check_input_data_format_and_set_output_data_format(structure)
            if self._print:
                print(f"After step {i}, {type(step).__name__}:\n{structure.get_string_no_details()}")
        for scope, branches in ((True, self._copied[0]), (False, self._copied[1])):
            for path in branches:
                if not structure.path_exists(path) or (scope and not structure.path_exists_and_is_data_group_field(path)):
                    what = "group" if scope else "field"
                    raise ValueError(
                        f"passthrough_copy_*: there is no {what} at {path!r}; the fields are: {', '.join(structure.field_names_flat)}"
                    )
        return structure

    def get_dali_pipeline(self, **kwargs: Any) -> Pipeline:
        """Returns the pipeline. Its outputs are the data fields of the output format, in the order of field_names_flat, then the outputs of fn.pad_ragged for
        the ragged fields. kwargs: arguments of stoker.Pipeline (batch_size, num_threads, device_id, seed, ...)."""
        self.check_and_get_output_data_structure()
        parts: list[list[int]] = []  # indices of the ragged fields, in one list for each fn.pad_ragged

        def define() -> tuple[DataNode, ...]:
            pipe = Pipeline.current()
            assert pipe is not None
            self._check_batch_size(pipe.batch_size)
            data = self._defined()
            values: tuple[DataNode, ...] = data.get_data()
            ragged = [k for k, is_ragged in enumerate(data.field_ragged_flat) if is_ragged]
            parts.clear()
            for device in dict.fromkeys(values[k].device for k in ragged):  # one call per device, so that no field is copied
                parts.append([k for k in ragged if values[k].device == device])
            names = data.field_names_flat
            made = [node for part in parts for node in fn.pad_ragged(*(values[k] for k in part), names=[names[k] for k in part])]
            return (*values, *made)

        define.__name__ = "structured"
        pipe: Pipeline = pipeline_def(define)(**kwargs)
        sampler: Any = getattr(self._input, "sampler", None)
        endless = sampler is not None and not sampler.is_epoch_based and not pipe._builder.sources
        pipe.keep_for_iterators([tuple(part) for part in parts], endless)
        return pipe

    get_pipeline = get_dali_pipeline

    def _check_batch_size(self, batch_size: int) -> None:
        """Raises ValueError if the input was made for another batch size: it would leave out samples, or return samples of other batches."""
        counted = getattr(self._input, "batch_size", None)
        if counted is not None and counted != batch_size:
            raise ValueError(
                f"{type(self._input).__name__} was made for batches of {counted}, and the pipeline has batches of {batch_size}: give both the "
                "same (of a rank, where ranks share a batch)"
            )

    def _defined(self) -> SampleDataGroup:
        """Adds the operators of the input and of all steps to the graph. Returns the tree of output nodes."""
        data = self.input_data_structure
        data.set_apply_mapping(False)
        data.set_do_check_type(self._check_data_format)
        data.set_data(self._input_nodes(data))
        for step in self._steps:
            data = step(data)
        if missing := [path_text(path) for path, field in data._leaves() if field.value is None]:
            raise ValueError(f"fields without a value after the last step: {', '.join(missing)}. A step that adds a field also assigns it")
        return data

    def _input_nodes(self, structure: SampleDataGroup) -> Sequence[DataNode]:
        provider: Any = getattr(self._input, "data_provider", None)
        nodes = provider.get_data_nodes(self._input) if hasattr(provider, "get_data_nodes") else None
        if nodes is not None:
            return list(nodes)
        of_rank = getattr(self._input, "source_of_rank", None)
        source: Any = (of_rank() if of_rank is not None else None) or self._input
        by_sample = callable(self._input)
        in_order = isinstance(source, OfRank) and not by_sample
        parallel = self._parallel and not in_order  # a sampler gives its batches in order, which processes cannot share
        given: Any = fn.external_source(
            source=source,
            num_outputs=len(structure.field_types_flat),
            dtype=list(structure.field_types_flat),
            batch=not by_sample,
            batch_info=in_order,
            parallel=parallel,
            prefetch_queue_depth=self._prefetch_queue_depth if parallel else None,
            cycle=None if by_sample or in_order else "raise",
        )
        return list(given)
