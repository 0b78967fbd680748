/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the NuScenes tables about a data set's samples, without the images. The operator readers.nuscenes gives the same data, with the files, to
 * pipelines.
 *
 * An open data set does not change, so any thread may use it. */
#ifndef STOKER_NUSCENES_H
#define STOKER_NUSCENES_H

#include "stoker/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options for opening a data set. Zero-initialise them. A list that is NULL stands for its default: the six cameras; the ten detection classes in
 * StreamPETR's order; all scenes; no exclusions. */
struct stk_nuscenes_options {
	size_t size;                /* sizeof(struct stk_nuscenes_options) */
	const char *root, *version; /* the tables are files such as root/version/sample.json */
	const char *index;          /* file in which the tables are cached; NULL: stoker.index in their folder, if that can be written;
	                             * "": no cache */
	const char *const *cameras, *const *classes, *const *scenes, *const *exclude; /* names of the cameras, classes and scenes to
										       * read, and of scenes to leave out */
	size_t camera_count, class_count, scene_count, exclude_count;
	int32_t split; /* number of sequences into which each scene is cut; 0: one */
};

struct stk_nuscenes_view;

struct stk_nuscenes_info {
	size_t size;                                 /* sizeof(struct stk_nuscenes_info), set by the caller */
	int64_t samples, sequences, scenes, objects; /* numbers of selected samples, sequences, scenes and objects */
	int32_t cameras, classes;
	bool from_index; /* true if the data came from the index, so that the tables were not read */
};

/* Reads the tables, or the index if it is up to date. Fails if a sample lacks a key frame of one of the cameras or of the lidar. */
STK_API STK_MUST_USE enum stk_status stk_nuscenes_open(
	const struct stk_nuscenes_options *o, struct stk_nuscenes_view **out, struct stk_error *err);
STK_API void stk_nuscenes_close(struct stk_nuscenes_view *v); /* accepts NULL */
STK_API STK_MUST_USE enum stk_status stk_nuscenes_describe(
	const struct stk_nuscenes_view *v, struct stk_nuscenes_info *info, struct stk_error *err);

/* Samples, cameras and labels are numbered from 0; stk_nuscenes_info has their counts. If a number is out of range or the data set is NULL, the functions below
 * return -1, 0 or NULL. */
/* Returns the first sample of sequence i. For i equal to `sequences`, returns the number of samples. */
STK_API int64_t stk_nuscenes_sequence(const struct stk_nuscenes_view *v, int64_t i);
/* Return names, which are valid while the data set is open. stk_nuscenes_class: the name of a label. */
STK_API const char *stk_nuscenes_scene(const struct stk_nuscenes_view *v, int64_t sample);
STK_API const char *stk_nuscenes_camera(const struct stk_nuscenes_view *v, int32_t camera);
STK_API const char *stk_nuscenes_class(const struct stk_nuscenes_view *v, int32_t label);

/* Writes the path of a camera's image, or of the lidar's points (camera -1). Returns its length; if that is >= capacity, the path was cut. */
STK_API size_t stk_nuscenes_file(const struct stk_nuscenes_view *v, int64_t sample, int32_t camera, char *out, size_t capacity);

/* Reads a field of a sample. name: the field's name in readers.nuscenes, except image and points. camera: number of the camera, for fields that each camera
 * has. Sets desc to the type and shape, and copies the values to `out` unless it is NULL. capacity: number of bytes of memory at `out`. STK_INVALID: the
 * field, sample or camera does not exist, or capacity is too small (desc is set in that case). STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_nuscenes_field(const struct stk_nuscenes_view *v, int64_t sample, int32_t camera, const char *name,
	struct stk_desc *desc, void *out, size_t capacity, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
