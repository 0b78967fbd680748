/* SPDX-License-Identifier: Apache-2.0
 *
 * NuScenes: the contents of its tables about the key frames of cameras and lidar, and values that are computed from them for one sample: matrices, boxes in
 * the lidar's frame and in images. The tables are read one row at a time; the result takes some 200 MB for the full set. An index in the tables' folder
 * contains the same data and loads faster. */
#ifndef STK_FORMAT_NUSCENES_H
#define STK_FORMAT_NUSCENES_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

/* The pose of a frame of reference in its parent frame: a point p of the frame has the coordinates R(rotation) p + translation in the parent. rotation: a
 * quaternion w, x, y, z of any length but 0. */
struct stk_pose {
	double translation[3], rotation[4];
};

struct stk_nuscenes_scene {
	int32_t first, count; /* index of the scene's first sample, and number of its samples, which are in the order of time */
	uint32_t name, token; /* offsets in the part STK_NUSC_TEXTS, like all members of type uint32_t below */
};

struct stk_nuscenes_sample {
	struct stk_pose ego; /* pose of the car in the world at the time of the lidar's scan */
	int64_t timestamp;   /* in microseconds */
	int64_t first;       /* index of the sample's first object */
	int32_t count, scene, frame;
	uint32_t token, file; /* file: path of the file with the lidar's points, relative to the root */
	int32_t calibration;  /* index of the lidar's calibration; -1: the sample has no frame of the lidar */
};

struct stk_nuscenes_frame {
	struct stk_pose ego;
	int64_t timestamp;
	uint32_t file;
	int32_t calibration; /* index of the camera's calibration; -1: the camera has no key frame for the sample */
	int32_t width, height;
};

struct stk_nuscenes_calibration {
	struct stk_pose pose; /* pose of the sensor in the car's frame */
	double intrinsic[9];
};

/* An annotation, in the world's frame. */
struct stk_nuscenes_object {
	struct stk_pose pose;
	float size[3];     /* width, length, height in metres */
	float velocity[2]; /* in metres per second; NAN: not known */
	/* lidar, radar: number of points in the object; visibility: 1 to 4, or 0 if it is not known */
	int32_t category, lidar, radar, instance, visibility;
};

enum stk_nuscenes_part {
	STK_NUSC_SCENES,
	STK_NUSC_SAMPLES,
	STK_NUSC_FRAMES, /* the frames of all cameras for the first sample, then for the second, and so on */
	STK_NUSC_CALIBRATIONS,
	STK_NUSC_OBJECTS, /* sorted by sample, and within a sample in the order of the table */
	STK_NUSC_CATEGORIES,
	STK_NUSC_CAMERAS, /* names of the cameras' channels, as offsets in the texts */
	STK_NUSC_TEXTS,
	STK_NUSC_PARTS,
};
extern const size_t stk__nuscenes_element[STK_NUSC_PARTS];

/* A data set: an array for each part. Does not change after stk__nuscenes_open: any thread may read it. */
struct stk_nuscenes {
	void *part[STK_NUSC_PARTS];
	int64_t count[STK_NUSC_PARTS];
	char *root;
	bool from_index;
};

/* Size and time of change of each table from which an index was made. If they are the same, the index is current. */
enum { STK_NUSC_TABLES = 10 };
extern const char *const stk__nuscenes_tables[STK_NUSC_TABLES];
struct stk_nuscenes_stamp {
	int64_t size, seconds, nanoseconds;
};

/* Reads root/version/TABLE.json. index: path of a file that is read if it is current, and written otherwise; NULL: root/version/stoker.index, which is not
 * written if the folder is read-only; "": no index. If `root` is a URI, no index is used. The caller closes *out. */
STK_MUST_USE enum stk_status stk__nuscenes_open(
	const char *root, const char *version, const char *index, struct stk_nuscenes **out, struct stk_error *err);
void stk__nuscenes_close(struct stk_nuscenes *n);

/* Reads the tables of a folder into an empty set, without an index. */
STK_MUST_USE enum stk_status stk__nuscenes_load(struct stk_nuscenes *n, const char *folder, struct stk_error *err);
/* Reads an index. *current: set to whether the index was made from these tables and is not damaged; if not, n may contain parts of it. */
STK_MUST_USE enum stk_status stk__nuscenes_index_read(
	struct stk_nuscenes *n, const char *path, const struct stk_nuscenes_stamp *stamps, bool *current, struct stk_error *err);
STK_MUST_USE enum stk_status stk__nuscenes_index_write(
	const struct stk_nuscenes *n, const char *path, const struct stk_nuscenes_stamp *stamps, struct stk_error *err);
/* Returns whether all references in the set refer to existing entries. */
bool stk__nuscenes_sound(const struct stk_nuscenes *n);

static inline const char *stk__nuscenes_text(const struct stk_nuscenes *n, uint32_t at)
{
	return (const char *)n->part[STK_NUSC_TEXTS] + at;
}

static inline const struct stk_nuscenes_scene *stk__nuscenes_scene(const struct stk_nuscenes *n, int64_t i)
{
	return (const struct stk_nuscenes_scene *)n->part[STK_NUSC_SCENES] + i;
}

static inline const struct stk_nuscenes_sample *stk__nuscenes_sample(const struct stk_nuscenes *n, int64_t i)
{
	return (const struct stk_nuscenes_sample *)n->part[STK_NUSC_SAMPLES] + i;
}

static inline const struct stk_nuscenes_frame *stk__nuscenes_frame(const struct stk_nuscenes *n, int64_t sample, int64_t camera)
{
	return (const struct stk_nuscenes_frame *)n->part[STK_NUSC_FRAMES] + sample * n->count[STK_NUSC_CAMERAS] + camera;
}

static inline const struct stk_nuscenes_calibration *stk__nuscenes_calibration(const struct stk_nuscenes *n, int64_t i)
{
	return (const struct stk_nuscenes_calibration *)n->part[STK_NUSC_CALIBRATIONS] + i;
}

static inline const struct stk_nuscenes_object *stk__nuscenes_object(const struct stk_nuscenes *n, int64_t i)
{
	return (const struct stk_nuscenes_object *)n->part[STK_NUSC_OBJECTS] + i;
}

static inline const char *stk__nuscenes_category(const struct stk_nuscenes *n, int64_t i)
{
	return stk__nuscenes_text(n, ((const uint32_t *)n->part[STK_NUSC_CATEGORIES])[i]);
}

static inline const char *stk__nuscenes_camera(const struct stk_nuscenes *n, int64_t i)
{
	return stk__nuscenes_text(n, ((const uint32_t *)n->part[STK_NUSC_CAMERAS])[i]);
}

#endif
