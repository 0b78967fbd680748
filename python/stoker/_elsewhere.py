# SPDX-License-Identifier: Apache-2.0
"""Advice for names that DALI's modules have and Stoker's lack: what to use instead. Errors about missing attributes and modules contain it. For operators,
the C library has the advice."""

from __future__ import annotations

import sys

from stoker._where import missing

_MEMORY = "memory is taken and given back as batches need it; Pipeline(memory_limit=, gpu_memory_limit=, held_limit=) bound it"
_GROWTH = (
    "GetDeviceBufferGrowthFactor GetHostBufferGrowthFactor GetHostBufferShrinkThreshold SetBufferGrowthFactor SetDeviceBufferGrowthFactor"
)
_GROWTH += " SetHostBufferGrowthFactor SetHostBufferShrinkThreshold PreallocateDeviceMemory PreallocatePinnedMemory ReleaseUnusedMemory"
_OPERATORS = "stoker.fn lists the operators, and `stoker ops NAME` says what one takes"
_VERSIONS = "`stoker doctor` prints the build, the driver and the GPUs"
_OWN = "operators of one's own are Python functions: fn.python_function, fn.external_source"
_STREAMS = "streams are the library's own; TensorListGPU.use_stream names those that read a batch"
_NUMBA = "fn.python_function takes functions that numba compiled, as numba_function's run_fn: what it returns are the outputs"
_PARTS = "it is a part of DALI's own workings"
_VIEW = "a batch on a GPU is described by its pipeline: fn.reshape, fn.reinterpret and fn.squeeze there, or views of torch's or CuPy's through DLPack"
_MADE = "lists on a GPU are made only by pipelines: external_source takes torch's and CuPy's tensors, and DLPack"
_IN_PLACE = {
    **dict.fromkeys("as_reshaped_tensor reinterpret set_layout squeeze".split(), _VIEW),
    **dict.fromkeys("broadcast from_dlpack_list".split(), _MADE),
    "reset": "its memory is given back when the last tensor over it dies",
    "stream": "what is delivered is complete on every stream; use_stream names those that read it",
}
_INSTEAD = {
    "stoker": {
        "OperatorConcurrency": "how operators run side by side is decided by the library",
        "StreamPolicy": _STREAMS,
        "external_source": "it is fn.external_source",
        "plugin_manager": _OWN,
        "python_function_plugin": _OWN,
        "pickling": "py_callback_pickler= takes a module, or (dumps, loads)",
        "reducers": "py_callback_pickler= takes a module, or (dumps, loads)",
        "sysconfig": "the C library comes with pkg-config: pkg-config --cflags --libs stoker",
        "internal": _PARTS,
    },
    "stoker.auto_aug.core": {
        "decorator": "stoker.auto_aug.core has augmentation",
        "policy": "stoker.auto_aug.core has Policy",
    },
    "stoker.backend": {
        **dict.fromkeys(_GROWTH.split(), _MEMORY),
        **dict.fromkeys("GetSchema GetSchemaAndTarget TryGetSchema OpSchema OpSpec".split(), _OPERATORS),
        **dict.fromkeys("RegisteredCPUOps RegisteredGPUOps RegisteredMixedOps".split(), _OPERATORS),
        **dict.fromkeys("GetCudaVersion GetCufftVersion GetNppVersion GetNvimgcodecVersion GetNvjpegVersion".split(), _VERSIONS),
        **dict.fromkeys("GetOpenCVVersion GetCxx11AbiFlag GetCUDADeviceCount IsDriverInitialized".split(), _VERSIONS),
        **dict.fromkeys("LoadDefaultPlugins LoadDirectory LoadLibrary".split(), _OWN),
        **dict.fromkeys("CUDAStreamSynchronize GetCUDAStreamDevice Stream".split(), _STREAMS),
        **dict.fromkeys("GetCUDACurrentDevice SetCUDACurrentDevice".split(), "a pipeline's GPU is its device_id"),
        **dict.fromkeys("Pipeline PipelineDebug".split(), "the class is stoker.Pipeline"),
        **dict.fromkeys("check_cuda_runtime cuda_checked initialized deprecation_warning".split(), _PARTS),
        **dict.fromkeys("Init CheckDLPackCapsule DLDeviceType ExternalContextCheckpoint SharedMem".split(), _PARTS),
        "RestrictPinnedMemUsage": _MEMORY,
        "tfrecord": "it is stoker.tfrecord",
        "types": "it is stoker.types",
    },
    "stoker.data_node": {"not_iterable": _PARTS},
    "stoker.experimental": {
        "dynamic": "fn.eager calls one operator over arrays, and stoker.imread reads an image",
        "eager": "fn.eager calls one operator over arrays: fn.eager.resize(batch, size=224)",
        "numba": _NUMBA,
        "torchvision": "stoker.transforms has torchvision's transforms, for a Loader",
    },
    **{
        f"stoker.{kind}{group}": {"hidden": _PARTS}
        for kind in ("fn", "ops")
        for group in (".experimental", ".experimental.decoders", ".readers")
    },
    "stoker.fn": {"hidden": _PARTS},
    "stoker.ops": {
        **dict.fromkeys("cpu_ops gpu_ops mixed_ops register_cpu_op register_gpu_op".split(), _OPERATORS),
        **dict.fromkeys("hidden python_op_factory Reload".split(), _PARTS),
    },
    "stoker.pipeline": {
        "OperatorConcurrency": "how operators run side by side is decided by the library",
        "StreamPolicy": _STREAMS,
        "WorkerPool": "external_source(parallel=True) starts its processes itself",
        "dali_pickle": "py_callback_pickler= takes a module, or (dumps, loads)",
        "b": _PARTS,
        "internal": _PARTS,
        "tensors": "it is stoker.tensors",
    },
    # DALI's plugins for other frameworks.
    "stoker.plugin": {
        "dynlink": _OWN,
        "mxnet": "stoker.plugin.dlpack.DLPackIterator takes the framework's from_dlpack",
        "numba": _NUMBA,
        "paddle": "stoker.plugin.dlpack.DLPackIterator takes its from_dlpack: lambda tensor: paddle.utils.dlpack.from_dlpack(tensor.__dlpack__())",
        "tf": "stoker.plugin.dlpack.DLPackIterator takes its from_dlpack: lambda tensor: tf.experimental.dlpack.from_dlpack(tensor.__dlpack__())",
        "triton": "Stoker has no backend for Triton's server",
    },
    "stoker.plugin.base_iterator": {"types": "it is stoker.types"},
    "stoker.plugin.pytorch": {
        "loader_evaluator": "stoker.advise tells what the data costs a training loop, and which stage bounds it",
        "experimental": "DALIGenericIterator hands batches to torch; a Loader is what a DataLoader is",
        "ops": "the functions are in stoker.plugin.pytorch.fn",
        "torch_utils": _PARTS,
    },
    "stoker.ops.Operator": dict.fromkeys(("schema", "spec"), _OPERATORS),
    "stoker.tensors.TensorGPU": _IN_PLACE,
    "stoker.tensors.TensorListGPU": _IN_PLACE,
    "stoker.tensors": dict.fromkeys("PipelineBatchAdapter PipelineTensorAdapter format_batch format_tensor".split(), _PARTS),
    # Names of DALI's types of arguments, and of modules that it imports.
    "stoker.types": {
        **dict.fromkeys("FEATURE PYTHON_OBJECT TENSOR_LAYOUT".split(), "no tensor here has that type"),
        "SAME": "give the type itself",
        "backend_impl": "it is stoker.backend_impl",
        "dali_type_converters": "types.to_dtype takes types of torch, NumPy and Python",
        "tfrec": "readers of TFRecord take names and types of features as arguments",
    },
}
_INSTEAD["stoker.backend_impl"] = _INSTEAD["stoker.backend"]


def instead(full: str) -> str:
    """Returns ": only DALI has it; " and what to use instead, for a name such as "stoker.plugin.tf"; "" if there is no advice."""
    module, _, name = full.rpartition(".")
    advice = _INSTEAD.get(module, {}).get(name)
    return f": only DALI has it; {advice}" if advice else ""


def no_member(kind: str, name: str) -> AttributeError:
    """Returns the AttributeError that a class's __getattr__ raises. kind: full name of the class, such as "stoker.tensors.TensorGPU"."""
    return AttributeError(f"{kind.rpartition('.')[2]!r} object has no attribute {name!r}{instead(f'{kind}.{name}')}")


def no_attribute(module: str, name: str) -> Exception:
    """Returns the exception for a module's __getattr__. Its message has the advice for DALI's names, or else the module's most similar name."""
    advice = instead(f"{module}.{name}")
    if not advice and module in sys.modules and not name.startswith("_"):
        from stoker._signatures import hint_for  # imported only for this message

        hint = hint_for(name, [n for n in dir(sys.modules[module]) if not n.startswith("_")], "", 0.7)
        advice = f"; {hint}" if hint else ""
    return missing(f"module {module!r} has no attribute {name!r}{advice}", 3)
