/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of NuScenes as a training uses them: the selected scenes, cameras and classes, and the values of a sample's fields. The values that
 * mmdetection3d's and StreamPETR's converters write into their info files are computed here on demand, from the same formulas. */
#ifndef STK_FORMAT_NUSCENES_FIELDS_H
#define STK_FORMAT_NUSCENES_FIELDS_H

#include "format/nuscenes.h"
#include "stoker/nuscenes.h"
#include "stoker/tensor.h"

/* The fields: name, element type, shape, whether each camera has its own, description. */
#define STK_NUSC_FIELDS(X)                                                                                                                 \
	X(IMAGE, "image", STK_UINT8, FILE, true, "a camera's file")                                                                        \
	X(IMG_TIMESTAMP, "img_timestamp", STK_FLOAT64, SCALAR, true, "when it was taken, in seconds")                                      \
	X(INTRINSICS, "intrinsics", STK_FLOAT, MATRIX, true, "from the camera's frame to pixels")                                          \
	X(EXTRINSICS, "extrinsics", STK_FLOAT, MATRIX, true, "from the lidar's frame to the camera's")                                     \
	X(LIDAR2IMG, "lidar2img", STK_FLOAT, MATRIX, true, "from the lidar's frame to pixels")                                             \
	X(BBOXES2D, "bboxes2d", STK_FLOAT, BOXES4, true, "left, top, right, bottom of objects in the image, in pixels")                    \
	X(LABELS2D, "labels2d", STK_INT32, BOXES, true, "their classes")                                                                   \
	X(CENTERS2D, "centers2d", STK_FLOAT, BOXES2, true, "where the middles of their 3-D boxes are seen")                                \
	X(DEPTHS2D, "depths2d", STK_FLOAT, BOXES, true, "how far ahead of the camera these are, in metres")                                \
	X(NUM_LIDAR2D, "num_lidar_points2d", STK_INT32, BOXES, true, "points of the lidar in them")                                        \
	X(NUM_RADAR2D, "num_radar_points2d", STK_INT32, BOXES, true, "points of radars in them")                                           \
	X(VISIBILITY2D, "visibility2d", STK_INT32, BOXES, true, "how much of them is seen: 1 (least) to 4; 0: not known")                  \
	X(EGO_POSE, "ego_pose", STK_FLOAT, MATRIX, false, "from the lidar's frame to the world's")                                         \
	X(EGO_POSE_INV, "ego_pose_inv", STK_FLOAT, MATRIX, false, "its inverse")                                                           \
	X(TIMESTAMP, "timestamp", STK_FLOAT64, SCALAR, false, "of the sample, in seconds")                                                 \
	X(PREV_EXISTS, "prev_exists", STK_FLOAT, SCALAR, false, "0 where a sequence begins, else 1")                                       \
	X(SCENE, "scene", STK_INT32, SCALAR, false, "the scene's number in the set")                                                       \
	X(FRAME, "frame", STK_INT32, SCALAR, false, "the sample's number in its scene")                                                    \
	X(SAMPLE_TOKEN, "sample_token", STK_UINT8, TEXT, false, "its token")                                                               \
	X(BBOXES3D, "gt_bboxes_3d", STK_FLOAT, OBJECTS9, false,                                                                            \
		"x, y, z of the middle, length, width, height, yaw, velocity, in the lidar's frame")                                       \
	X(LABELS3D, "gt_labels_3d", STK_INT32, OBJECTS, false, "classes; -1: none of them")                                                \
	X(TRANSLATIONS, "translations", STK_FLOAT, OBJECTS3, false, "x, y, z of gt_bboxes_3d")                                             \
	X(SIZES, "sizes", STK_FLOAT, OBJECTS3, false, "length, width, height")                                                             \
	X(ORIENTATIONS, "orientations", STK_FLOAT, OBJECTS, false, "yaw, in radians")                                                      \
	X(VELOCITIES, "velocities", STK_FLOAT, OBJECTS3, false, "x, y, z in metres a second, z is 0; 0 where it is not known")             \
	X(NUM_LIDAR, "num_lidar_points", STK_INT32, OBJECTS, false, "points of the lidar in them")                                         \
	X(NUM_RADAR, "num_radar_points", STK_INT32, OBJECTS, false, "points of radars in them")                                            \
	X(VISIBILITY, "visibility", STK_INT32, OBJECTS, false, "as visibility2d")                                                          \
	X(INSTANCES, "instances", STK_INT32, OBJECTS, false, "a number for each object, the same in all samples")                          \
	X(POINTS, "points", STK_FLOAT, POINTS5, false, "the lidar's: x, y, z, intensity, ring")

enum stk_nuscenes_field {
#define STK_NUSC_ENUM(id, name, dtype, shape, camera, text) STK_NUSC_##id,
	STK_NUSC_FIELDS(STK_NUSC_ENUM)
#undef STK_NUSC_ENUM
		STK_NUSC_FIELD_COUNT
};
int32_t stk__nuscenes_field_find(const char *name); /* returns -1 if no field has this name */
bool stk__nuscenes_field_of_camera(enum stk_nuscenes_field f);
bool stk__nuscenes_field_of_boxes(enum stk_nuscenes_field f); /* returns whether the field lists boxes in an image */

/* ---- selection of samples ---- */

/* A view of a set: the selected samples, cameras and classes. Does not change after it is opened: any thread may read it. */
struct stk_nuscenes_view {
	struct stk_nuscenes *set;
	int32_t cameras, camera[64];
	int32_t classes;
	const char *class_name[10]; /* [label]: name of the class */
	int32_t *label;             /* [category]: label of its class; -1: its class is not selected */
	int32_t *sample;            /* [sample of the view]: its index in the set */
	bool *starts;               /* [sample of the view]: true if it begins a sequence */
	int32_t *sequences;         /* [sequence]: index of its first sample; the last entry is the number of samples */
	int64_t size, sequence_count;
};

/* Opens a view. Each sample must have a key frame of each camera and of the lidar. */
STK_MUST_USE enum stk_status stk__nuscenes_view_open(
	const struct stk_nuscenes_options *o, struct stk_nuscenes_view **out, struct stk_error *err);
void stk__nuscenes_view_close(struct stk_nuscenes_view *v);

/* Writes the name of a sample: "scene-0061, sample TOKEN". Returns the length of the whole text, which is cut if that is >= capacity. */
size_t stk__nuscenes_name(const struct stk_nuscenes_view *v, int64_t id, char *out, size_t capacity);
/* Writes the path of a camera's file, or of the lidar's (-1), including the root. Returns the length like stk__nuscenes_name. */
size_t stk__nuscenes_path(const struct stk_nuscenes_view *v, int64_t id, int32_t camera, char *out, size_t capacity);
/* Returns a hash of `count` samples from index `first` on: of their tokens and times, and of the poses, sizes and labels of their objects. */
uint64_t stk__nuscenes_digest(const struct stk_nuscenes_view *v, int64_t first, int64_t count);

/* ---- values ---- */

/* An object in the image of a camera, from which all 2-D fields are computed. Such objects are in the order of the sample's objects. */
struct stk_nuscenes_seen {
	int32_t object; /* index among the sample's objects */
	/* box: left, top, right and bottom edges in the image, in pixels. center: position in the image of the middle of the object's 3-D box, in pixels.
	 * depth: distance of that middle in front of the camera, in metres. */
	float box[4], center[2], depth;
};
/* Finds the objects of the view's classes that a camera sees, and returns their number. out: must have room for all objects of the sample. */
int32_t stk__nuscenes_see(const struct stk_nuscenes_view *v, int64_t id, int32_t camera, struct stk_nuscenes_seen *out);

/* Returns type and shape of a field. count: the first extent, as a number of objects, boxes, points or bytes; -1: not known. Scalars and matrices ignore it. */
struct stk_desc stk__nuscenes_desc(enum stk_nuscenes_field f, int64_t count);
/* Writes the values of a field to `out`; not for IMAGE and POINTS, whose values are files. seen: for a 2-D field, the objects that the camera sees. begins:
 * true if the sample begins a sequence. */
void stk__nuscenes_value(const struct stk_nuscenes_view *v, enum stk_nuscenes_field f, int64_t id, int32_t camera,
	const struct stk_nuscenes_seen *seen, int32_t seen_count, bool begins, void *out);

#endif
