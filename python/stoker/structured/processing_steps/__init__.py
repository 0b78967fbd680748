# SPDX-License-Identifier: Apache-2.0
"""Processing steps of structured pipelines, and the base classes for steps that users write."""

from stoker.structured.processing_steps.affine_transformer import AffineTransformer
from stoker.structured.processing_steps.annotation_element_condition_eval import AnnotationElementConditionEval
from stoker.structured.processing_steps.axes_layout_setter import AxesLayoutSetter
from stoker.structured.processing_steps.bev_bboxes_transformer_3d import BEVBBoxesTransformer3D
from stoker.structured.processing_steps.bounding_box_to_heatmap_converter import BoundingBoxToHeatmapConverter
from stoker.structured.processing_steps.conditional_element_removal import ConditionalElementRemover
from stoker.structured.processing_steps.coordinate_cropper import CoordinateCropper
from stoker.structured.processing_steps.data_group_array_in_path_elements_applied_step import DataGroupArrayInPathElementsAppliedStep
from stoker.structured.processing_steps.data_group_array_with_name_elements_applied_step import DataGroupArrayWithNameElementsAppliedStep
from stoker.structured.processing_steps.data_group_in_path_applied_step import DataGroupInPathAppliedStep
from stoker.structured.processing_steps.data_groups_with_name_applied_step import DataGroupsWithNameAppliedStep
from stoker.structured.processing_steps.group_to_apply_to_selected_step_base import GroupToApplyToSelectedStepBase
from stoker.structured.processing_steps.image_decoder import ImageDecoder
from stoker.structured.processing_steps.image_mean_std_dev_normalizer import ImageMeanStdDevNormalizer
from stoker.structured.processing_steps.image_range_01_normalizer import ImageRange01Normalizer
from stoker.structured.processing_steps.image_to_tile_size_padder import ImageToTileSizePadder
from stoker.structured.processing_steps.padding_to_uniform import PaddingToUniform
from stoker.structured.processing_steps.photo_metric_distorter import PhotoMetricDistorter
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase
from stoker.structured.processing_steps.points_in_range_check import PointsInRangeCheck
from stoker.structured.processing_steps.tensor_size_adder import TensorSizeAdder
from stoker.structured.processing_steps.unneeded_fields_remover import UnneededFieldRemover
from stoker.structured.processing_steps.visible_bbox_selector import VisibleBboxSelector

__all__ = [
    "AffineTransformer",
    "AnnotationElementConditionEval",
    "AxesLayoutSetter",
    "BEVBBoxesTransformer3D",
    "BoundingBoxToHeatmapConverter",
    "ConditionalElementRemover",
    "CoordinateCropper",
    "DataGroupArrayInPathElementsAppliedStep",
    "DataGroupArrayWithNameElementsAppliedStep",
    "DataGroupInPathAppliedStep",
    "DataGroupsWithNameAppliedStep",
    "GroupToApplyToSelectedStepBase",
    "ImageDecoder",
    "ImageMeanStdDevNormalizer",
    "ImageRange01Normalizer",
    "ImageToTileSizePadder",
    "PaddingToUniform",
    "PhotoMetricDistorter",
    "PipelineStepBase",
    "PointsInRangeCheck",
    "TensorSizeAdder",
    "UnneededFieldRemover",
    "VisibleBboxSelector",
]
