/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the sensors, their calibrations, and the key frames of the cameras and of LIDAR_TOP with the car's pose at each. The millions of other rows are not
 * stored. */
#include "base/error.h"
#include "base/memory.h"
#include "format/nuscenes_load.h"

#include <string.h>

static bool is_text(const struct stk_cell *cell, const char *text)
{
	return cell->n == strlen(text) && memcmp(cell->text, text, cell->n) == 0;
}

static enum stk_status take_sensor(struct stk_row *row, void *user)
{
	struct stk_load *l = user;
	int64_t id, *cameras = &l->out->count[STK_NUSC_CAMERAS];
	enum stk_status s = stk__load_own(l, row, &l->sensors, &id);
	if (!s)
		s = stk__rows_grow(&l->sensor_camera, &l->sensor_capacity, id + 1, sizeof *l->sensor_camera, l->err);
	if (s)
		return s;
	l->sensor_camera[id] = is_text(&row->cell[1], "LIDAR_TOP") ? STK_LIDAR : STK_NO_CAMERA;
	if (!is_text(&row->cell[2], "camera"))
		return STK_OK;
	if (*cameras >= 64)
		return stk__row_bad(row, "there are more than 64 cameras", NULL);
	l->sensor_camera[id] = (int32_t)*cameras;
	s = stk__rows_grow(&l->out->part[STK_NUSC_CAMERAS], &l->capacity[STK_NUSC_CAMERAS], *cameras + 1, sizeof(uint32_t), l->err);
	return s ? s : stk__load_text(l, row->cell[1].text, row->cell[1].n, (uint32_t *)l->out->part[STK_NUSC_CAMERAS] + (*cameras)++);
}

static enum stk_status take_calibration(struct stk_row *row, void *user)
{
	struct stk_load *l = user;
	struct stk_nuscenes_calibration *to;
	const struct stk_cell *intrinsic = &row->cell[4];
	int64_t id, sensor;
	enum stk_status s = stk__load_own(l, row, &l->calibrations, &id);
	if (!s)
		s = stk__load_known(row, &row->cell[1], &l->sensors, "sensor.json has no row", &sensor);
	if (!s)
		s = stk__rows_grow(&l->calibration_camera, &l->calibration_capacity, id + 1, sizeof *l->calibration_camera, l->err);
	if (!s)
		s = stk__rows_grow(&l->out->part[STK_NUSC_CALIBRATIONS], &l->capacity[STK_NUSC_CALIBRATIONS], id + 1, sizeof *to, l->err);
	if (s)
		return s;
	to = (struct stk_nuscenes_calibration *)l->out->part[STK_NUSC_CALIBRATIONS] + id;
	l->out->count[STK_NUSC_CALIBRATIONS] = id + 1;
	l->calibration_camera[id] = l->sensor_camera[sensor];
	if (l->sensor_camera[sensor] >= 0 && intrinsic->count == 0)
		return stk__row_bad(row, "it is of a camera, and has no camera_intrinsic", NULL);
	if (intrinsic->count)
		memcpy(to->intrinsic, intrinsic->reals, sizeof to->intrinsic);
	return stk__load_take_pose(row, &row->cell[2], &row->cell[3], &to->pose);
}

enum { DATA_TOKEN, DATA_SAMPLE, DATA_POSE, DATA_CALIBRATION, DATA_TIME, DATA_KEY, DATA_HEIGHT, DATA_WIDTH, DATA_FILE, DATA_COLUMNS };

/* Returns whether a path leads to a file below the root, as all paths of NuScenes do. */
static bool is_below(const struct stk_cell *path)
{
	const char *text = path->text;
	size_t n = path->n;
	return n > 0 && text[0] != '/' && !(n >= 3 && memcmp(text, "../", 3) == 0) && !memmem(text, n, "/../", 4);
}

static enum stk_status take_extent(const struct stk_row *row, const struct stk_cell *cell, int32_t *out)
{
	*out = (int32_t)cell->integer;
	return cell->integer >= 1 && cell->integer <= 1 << 20 ? STK_OK : stk__row_bad(row, "its width or height is out of range", NULL);
}

static enum stk_status take_data(struct stk_row *row, void *user)
{
	struct stk_load *l = user;
	const struct stk_cell *cell = row->cell;
	int64_t calibration, sample, cameras = l->out->count[STK_NUSC_CAMERAS];
	if (!cell[DATA_KEY].flag)
		return STK_OK;
	enum stk_status s =
		stk__load_known(row, &cell[DATA_CALIBRATION], &l->calibrations, "calibrated_sensor.json has no row", &calibration);
	if (s)
		return s;
	int32_t camera = l->calibration_camera[calibration];
	if (camera == STK_NO_CAMERA)
		return STK_OK;
	if ((s = stk__load_known(row, &cell[DATA_SAMPLE], &l->samples, "sample.json has no row", &sample)))
		return s;
	sample = l->sample[sample].index;
	int64_t *pose = &l->frame_pose[sample * (cameras + 1) + (camera < 0 ? cameras : camera)];
	struct stk_nuscenes_sample *lidar = (struct stk_nuscenes_sample *)l->out->part[STK_NUSC_SAMPLES] + sample;
	if (*pose >= 0)
		return stk__row_bad(row, "its sample has another key frame of this sensor; the sample is", &cell[DATA_SAMPLE]);
	if (!is_below(&cell[DATA_FILE]))
		return stk__row_bad(row, "filename is not a path below the root:", &cell[DATA_FILE]);
	if ((s = stk__load_later(l, &cell[DATA_POSE], &l->poses, pose)))
		return s;
	if (*pose < 0)
		return stk__row_bad(row, "its ego_pose_token is empty", NULL);
	if (camera < 0) {
		lidar->calibration = (int32_t)calibration;
		return stk__load_text(l, cell[DATA_FILE].text, cell[DATA_FILE].n, &lidar->file);
	}
	struct stk_nuscenes_frame *frame = (struct stk_nuscenes_frame *)l->out->part[STK_NUSC_FRAMES] + sample * cameras + camera;
	frame->calibration = (int32_t)calibration;
	frame->timestamp = cell[DATA_TIME].integer;
	s = take_extent(row, &cell[DATA_WIDTH], &frame->width);
	s = s ? s : take_extent(row, &cell[DATA_HEIGHT], &frame->height);
	return s ? s : stk__load_text(l, cell[DATA_FILE].text, cell[DATA_FILE].n, &frame->file);
}

static enum stk_status take_pose(struct stk_row *row, void *user)
{
	struct stk_load *l = user;
	int64_t id = stk__tokens_find(&l->poses, row->cell[0].text, row->cell[0].n);
	if (id < 0)
		return STK_OK;
	if (l->pose_given[id])
		return stk__row_bad(row, "another row has this token", NULL);
	l->pose_given[id] = true;
	return stk__load_take_pose(row, &row->cell[1], &row->cell[2], &l->pose[id]);
}

/* Sets the pose of each key frame. */
static enum stk_status place_poses(struct stk_load *l)
{
	int64_t cameras = l->out->count[STK_NUSC_CAMERAS], samples = l->out->count[STK_NUSC_SAMPLES];
	for (int64_t i = 0; i < samples * (cameras + 1); i++) {
		int64_t sample = i / (cameras + 1), camera = i % (cameras + 1), pose = l->frame_pose[i];
		if (pose < 0)
			continue;
		if (!l->pose_given[pose])
			return stk__load_bad_sample(l, sample, camera == cameras ? STK_LIDAR : (int32_t)camera, "ego_pose.json has no row",
				stk__tokens_text(&l->poses, pose));
		if (camera == cameras)
			((struct stk_nuscenes_sample *)l->out->part[STK_NUSC_SAMPLES])[sample].ego = l->pose[pose];
		else
			((struct stk_nuscenes_frame *)l->out->part[STK_NUSC_FRAMES])[sample * cameras + camera].ego = l->pose[pose];
	}
	return STK_OK;
}

static enum stk_status make_frames(struct stk_load *l)
{
	int64_t cameras = l->out->count[STK_NUSC_CAMERAS], frames = l->out->count[STK_NUSC_SAMPLES] * cameras;
	int64_t all = frames + l->out->count[STK_NUSC_SAMPLES];
	enum stk_status s = stk__rows_grow(
		&l->out->part[STK_NUSC_FRAMES], &l->capacity[STK_NUSC_FRAMES], frames, sizeof(struct stk_nuscenes_frame), l->err);
	l->frame_pose = stk__alloc((size_t)all * sizeof *l->frame_pose);
	if (s || !l->frame_pose)
		return s ? s : stk__fail(l->err, STK_NO_MEMORY, "out of memory for %lld key frames", (long long)all);
	l->out->count[STK_NUSC_FRAMES] = frames;
	for (int64_t i = 0; i < all; i++)
		l->frame_pose[i] = -1;
	for (int64_t i = 0; i < frames; i++)
		((struct stk_nuscenes_frame *)l->out->part[STK_NUSC_FRAMES])[i].calibration = -1;
	return STK_OK;
}

enum stk_status stk__load_frames(struct stk_load *l)
{
	static const struct stk_column sensor[] = {{.name = "token"}, {.name = "channel"}, {.name = "modality"}};
	static const struct stk_column calibrated[] = {{.name = "token"}, {.name = "sensor_token"},
		{.name = "translation", .kind = STK_COLUMN_REALS, .count = 3}, {.name = "rotation", .kind = STK_COLUMN_REALS, .count = 4},
		{.name = "camera_intrinsic", .kind = STK_COLUMN_REALS, .count = 9, .empty = true}};
	static const struct stk_column data[DATA_COLUMNS] = {[DATA_TOKEN] = {.name = "token"},
		[DATA_SAMPLE] = {.name = "sample_token"},
		[DATA_POSE] = {.name = "ego_pose_token"},
		[DATA_CALIBRATION] = {.name = "calibrated_sensor_token"},
		[DATA_TIME] = {.name = "timestamp", .kind = STK_COLUMN_WHOLE},
		[DATA_KEY] = {.name = "is_key_frame", .kind = STK_COLUMN_FLAG},
		[DATA_HEIGHT] = {.name = "height", .kind = STK_COLUMN_WHOLE},
		[DATA_WIDTH] = {.name = "width", .kind = STK_COLUMN_WHOLE},
		[DATA_FILE] = {.name = "filename"}};
	static const struct stk_column pose[] = {{.name = "token"}, {.name = "translation", .kind = STK_COLUMN_REALS, .count = 3},
		{.name = "rotation", .kind = STK_COLUMN_REALS, .count = 4}};
	enum stk_status s = stk__table_read(l->folder, "sensor", sensor, 3, take_sensor, l, l->err);
	if (!s)
		s = stk__table_read(l->folder, "calibrated_sensor", calibrated, 5, take_calibration, l, l->err);
	if (!s)
		s = make_frames(l);
	if (!s)
		s = stk__table_read(l->folder, "sample_data", data, DATA_COLUMNS, take_data, l, l->err);
	if (s)
		return s;
	l->pose = stk__alloc((size_t)l->poses.count * sizeof *l->pose);
	l->pose_given = stk__calloc((size_t)l->poses.count + 1, sizeof *l->pose_given);
	if (!l->pose || !l->pose_given)
		return stk__fail(l->err, STK_NO_MEMORY, "out of memory for %lld poses", (long long)l->poses.count);
	s = stk__table_read(l->folder, "ego_pose", pose, 3, take_pose, l, l->err);
	s = s ? s : place_poses(l);
	stk__tokens_free(&l->poses);
	stk__free(l->pose);
	l->pose = NULL;
	return s;
}
