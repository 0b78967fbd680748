/* SPDX-License-Identifier: Apache-2.0
 * The state while NuScenes' tables are read, shared by the files that read them. */
#ifndef STK_FORMAT_NUSCENES_LOAD_H
#define STK_FORMAT_NUSCENES_LOAD_H

#include "format/nuscenes.h"
#include "format/nuscenes_table.h"

enum { STK_NO_CAMERA = -1, STK_LIDAR = -2 };

struct stk_load_scene {
	struct stk_nuscenes_scene scene;
	/* row: number of the scene's row in its table. first, last: token numbers of its first and last sample. count: number of its samples. */
	int64_t row, first, last, count;
};

struct stk_load_sample {
	int64_t timestamp, prev, next; /* prev, next: token numbers of the previous and the next sample of the scene; -1: none */
	int64_t index;                 /* index of the sample in the set; -1: not known yet */
	int32_t scene;
	bool has_row; /* true if the sample's own row was read */
};

/* An annotation, indexed by the number of its token. row: number of its row in its table. prev, next: token numbers of the same object's annotations before
 * and after it; -1: none. has_row: true if its own row was read. */
struct stk_load_object {
	int64_t row, prev, next;
	int32_t sample;
	bool has_row;
};

struct stk_load {
	struct stk_nuscenes *out;
	const char *folder;
	struct stk_error *err;
	int64_t capacity[STK_NUSC_PARTS];
	struct stk_tokens sensors, calibrations, scenes, samples, poses, categories, visibilities, instances, objects;
	int32_t *sensor_camera; /* [sensor]: index of the camera, or STK_LIDAR or STK_NO_CAMERA */
	int32_t *calibration_camera, *visibility, *instance_category;
	struct stk_load_scene *scene;
	struct stk_load_sample *sample;
	struct stk_load_object *object;
	struct stk_pose *pose; /* [token number of a pose]: the pose, valid if pose_given is true */
	bool *pose_given;
	int64_t *frame_pose; /* token numbers of poses: for each sample those of its cameras' frames, then of its lidar's; -1: none */
	int64_t sensor_capacity, calibration_capacity, scene_capacity, sample_capacity, object_capacity, visibility_capacity,
		instance_capacity;
};

/* Sets *out to the number of a row's own token. Fails if the token is empty, or if an earlier row had it. */
STK_MUST_USE enum stk_status stk__load_own(struct stk_load *l, const struct stk_row *row, struct stk_tokens *tokens, int64_t *out);
/* Sets *out to the number of a token whose own row was read before. Fails if there was no such row. what: the fault, such as "scene.json has no row". */
STK_MUST_USE enum stk_status stk__load_known(
	const struct stk_row *row, const struct stk_cell *cell, const struct stk_tokens *tokens, const char *what, int64_t *out);
/* Sets *out to the number of a token whose own row may come later, or to -1 if the token is empty. */
STK_MUST_USE enum stk_status stk__load_later(struct stk_load *l, const struct stk_cell *cell, struct stk_tokens *tokens, int64_t *out);
/* Appends a text to the set's texts, and sets *out to the offset in these texts. */
STK_MUST_USE enum stk_status stk__load_text(struct stk_load *l, const char *text, size_t n, uint32_t *out);
/* Makes a pose from a cell with three coordinates and a cell with a quaternion. STK_CORRUPT: the quaternion has length 0. */
STK_MUST_USE enum stk_status stk__load_take_pose(
	const struct stk_row *row, const struct stk_cell *at, const struct stk_cell *turn, struct stk_pose *out);
/* Fails with STK_CORRUPT and the message "scene-0061, sample TOKEN, CAM_FRONT: what". camera: a camera's index, STK_LIDAR, or STK_NO_CAMERA for no sensor. */
STK_MUST_USE enum stk_status stk__load_bad_sample(
	const struct stk_load *l, int64_t sample, int32_t camera, const char *what, const char *token);

STK_MUST_USE enum stk_status stk__load_scenes(struct stk_load *l);  /* reads the tables scene and sample, and orders the samples */
STK_MUST_USE enum stk_status stk__load_frames(struct stk_load *l);  /* reads the tables sensor, calibrated_sensor, sample_data, ego_pose */
STK_MUST_USE enum stk_status stk__load_objects(struct stk_load *l); /* reads the tables category, visibility, instance, sample_annotation */

#endif
