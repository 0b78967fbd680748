/* SPDX-License-Identifier: Apache-2.0
 * Computes the values of a sample's fields. */
#include "format/nuscenes_fields.h"

#include "format/nuscenes_rigid.h"

#include <math.h>
#include <string.h>

/* The shapes of fields. The first extent is a number of bytes, boxes, objects or points, except for scalars and matrices. A digit at the end of a name is the
 * second extent. */
enum shape { FILE_BYTES, SCALAR, MATRIX, BOXES, BOXES2, BOXES4, TEXT, OBJECTS, OBJECTS3, OBJECTS9, POINTS5 };
#define FILE FILE_BYTES

static const struct field {
	const char *name;
	enum stk_dtype dtype;
	enum shape shape;
	bool camera;
} fields[STK_NUSC_FIELD_COUNT] = {
#define STK_NUSC_ROW(id, name, dtype, shape, camera, text) {name, dtype, shape, camera},
	STK_NUSC_FIELDS(STK_NUSC_ROW)
#undef STK_NUSC_ROW
};

bool stk__nuscenes_field_of_camera(enum stk_nuscenes_field f)
{
	return fields[f].camera;
}

bool stk__nuscenes_field_of_boxes(enum stk_nuscenes_field f)
{
	return fields[f].shape == BOXES || fields[f].shape == BOXES2 || fields[f].shape == BOXES4;
}

int32_t stk__nuscenes_field_find(const char *name)
{
	for (int32_t f = 0; f < STK_NUSC_FIELD_COUNT; f++)
		if (strcmp(fields[f].name, name) == 0)
			return f;
	return -1;
}

struct stk_desc stk__nuscenes_desc(enum stk_nuscenes_field f, int64_t count)
{
	static const int8_t columns[] = {[BOXES2] = 2, [BOXES4] = 4, [OBJECTS3] = 3, [OBJECTS9] = 9, [POINTS5] = 5};
	struct stk_desc desc = {.dtype = fields[f].dtype, .ndim = 1, .shape = {count}};
	switch (fields[f].shape) {
	case SCALAR:
		desc.ndim = 0;
		desc.shape[0] = 0;
		break;
	case MATRIX:
		desc.ndim = 2;
		desc.shape[0] = desc.shape[1] = 4;
		break;
	case FILE_BYTES:
	case TEXT:
	case BOXES:
	case OBJECTS:
		break;
	default:
		desc.ndim = 2;
		desc.shape[1] = columns[fields[f].shape];
	}
	return desc;
}

/* ---- matrices ---- */

static void put_matrix(const struct stk_rigid *m, float *out)
{
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			out[4 * i + k] = (float)m->rotation[3 * i + k];
		out[4 * i + 3] = (float)m->translation[i];
		out[12 + i] = 0;
	}
	out[15] = 1;
}

static void put_intrinsics(const double *k, float *out)
{
	for (int i = 0; i < 16; i++)
		out[i] = i / 4 < 3 && i % 4 < 3 ? (float)k[i / 4 * 3 + i % 4] : i == 15;
}

static void put_projection(const struct stk_rigid *m, const double *k, float *out)
{
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 4; j++) {
			double sum = 0;
			for (int n = 0; n < 3; n++)
				sum += k[3 * i + n] * (j < 3 ? m->rotation[3 * n + j] : m->translation[n]);
			out[4 * i + j] = (float)sum;
		}
	memset(out + 12, 0, 3 * sizeof *out);
	out[15] = 1;
}

static void put_of_camera(const struct stk_nuscenes_view *v, enum stk_nuscenes_field f, int32_t sample, int32_t camera, void *out)
{
	const struct stk_nuscenes_frame *frame = stk__nuscenes_frame(v->set, sample, v->camera[camera]);
	const struct stk_nuscenes_calibration *c = stk__nuscenes_calibration(v->set, frame->calibration);
	struct stk_rigid from_lidar;
	if (f == STK_NUSC_IMG_TIMESTAMP) {
		*(double *)out = (double)frame->timestamp / 1e6;
	} else if (f == STK_NUSC_INTRINSICS) {
		put_intrinsics(c->intrinsic, out);
	} else {
		const struct stk_rigid world = stk__nuscenes_lidar_to_world(v->set, sample);
		const struct stk_rigid to_camera = stk__nuscenes_world_to_camera(v->set, sample, v->camera[camera]);
		from_lidar = stk__rigid_compose(&to_camera, &world);
		if (f == STK_NUSC_EXTRINSICS)
			put_matrix(&from_lidar, out);
		else
			put_projection(&from_lidar, c->intrinsic, out);
	}
}

/* ---- objects ---- */

/* Returns the angle of an object's heading, from the x axis of the lidar's frame towards y, in radians. */
static float yaw_of(const struct stk_nuscenes_object *o, const struct stk_rigid *to_lidar)
{
	const struct stk_rigid pose = stk__rigid_of(&o->pose);
	double row[2];
	for (int i = 0; i < 2; i++)
		row[i] = to_lidar->rotation[0] * pose.rotation[i] + to_lidar->rotation[1] * pose.rotation[3 + i] +
			 to_lidar->rotation[2] * pose.rotation[6 + i];
	return (float)atan2(-row[1], row[0]);
}

/* Writes the part of a box that field f asks for, or for BBOXES3D all parts one after the other. Returns the address after the written values. */
static float *put_box(const struct stk_nuscenes_object *o, enum stk_nuscenes_field f, const struct stk_rigid *to_lidar, float *out)
{
	bool all = f == STK_NUSC_BBOXES3D;
	if (all || f == STK_NUSC_TRANSLATIONS) {
		double at[3];
		stk__rigid_apply(to_lidar, o->pose.translation, at);
		for (int i = 0; i < 3; i++)
			*out++ = (float)at[i];
	}
	if (all || f == STK_NUSC_SIZES) {
		*out++ = o->size[1];
		*out++ = o->size[0];
		*out++ = o->size[2];
	}
	if (all || f == STK_NUSC_ORIENTATIONS)
		*out++ = yaw_of(o, to_lidar);
	if (all || f == STK_NUSC_VELOCITIES)
		for (int i = 0; i < 2; i++)
			*out++ = isnan(o->velocity[0]) ? 0
						       : (float)(to_lidar->rotation[3 * i] * (double)o->velocity[0] +
								 to_lidar->rotation[3 * i + 1] * (double)o->velocity[1]);
	if (f == STK_NUSC_VELOCITIES)
		*out++ = 0; /* z, which the annotations do not give */
	return out;
}

static void put_boxes(
	const struct stk_nuscenes_view *v, enum stk_nuscenes_field f, int32_t sample, const struct stk_nuscenes_sample *s, float *out)
{
	const struct stk_rigid world = stk__nuscenes_lidar_to_world(v->set, sample), to_lidar = stk__rigid_inverse(&world);
	for (int32_t i = 0; i < s->count; i++)
		out = put_box(stk__nuscenes_object(v->set, s->first + i), f, &to_lidar, out);
}

/* Returns an object's value of a field with one integer for each object. A 2-D field has the same values as the 3-D field. */
static int32_t number_of(const struct stk_nuscenes_view *v, enum stk_nuscenes_field f, const struct stk_nuscenes_object *o)
{
	switch (f) {
	case STK_NUSC_LABELS2D:
	case STK_NUSC_LABELS3D:
		return v->label[o->category];
	case STK_NUSC_NUM_LIDAR2D:
	case STK_NUSC_NUM_LIDAR:
		return o->lidar;
	case STK_NUSC_NUM_RADAR2D:
	case STK_NUSC_NUM_RADAR:
		return o->radar;
	case STK_NUSC_INSTANCES:
		return o->instance;
	default:
		return o->visibility;
	}
}

static void put_seen(const struct stk_nuscenes_view *v, enum stk_nuscenes_field f, const struct stk_nuscenes_sample *s,
	const struct stk_nuscenes_seen *seen, int32_t count, void *out)
{
	float *reals = out;
	for (int32_t i = 0; i < count; i++, seen++) {
		if (f == STK_NUSC_BBOXES2D)
			memcpy(reals + 4 * i, seen->box, sizeof seen->box);
		else if (f == STK_NUSC_CENTERS2D)
			memcpy(reals + 2 * i, seen->center, sizeof seen->center);
		else if (f == STK_NUSC_DEPTHS2D)
			reals[i] = seen->depth;
		else
			((int32_t *)out)[i] = number_of(v, f, stk__nuscenes_object(v->set, s->first + seen->object));
	}
}

/* ---- a field ---- */

static void put_of_sample(const struct stk_nuscenes_view *v, enum stk_nuscenes_field f, int32_t sample, const struct stk_nuscenes_sample *s,
	bool begins, void *out)
{
	const struct stk_rigid world = stk__nuscenes_lidar_to_world(v->set, sample), inverse = stk__rigid_inverse(&world);
	const char *token = stk__nuscenes_text(v->set, s->token);
	switch (f) {
	case STK_NUSC_EGO_POSE:
		put_matrix(&world, out);
		break;
	case STK_NUSC_EGO_POSE_INV:
		put_matrix(&inverse, out);
		break;
	case STK_NUSC_TIMESTAMP:
		*(double *)out = (double)s->timestamp / 1e6;
		break;
	case STK_NUSC_PREV_EXISTS:
		*(float *)out = !begins;
		break;
	case STK_NUSC_SCENE:
		*(int32_t *)out = s->scene;
		break;
	case STK_NUSC_FRAME:
		*(int32_t *)out = s->frame;
		break;
	default:
		memcpy(out, token, strlen(token));
	}
}

void stk__nuscenes_value(const struct stk_nuscenes_view *v, enum stk_nuscenes_field f, int64_t id, int32_t camera,
	const struct stk_nuscenes_seen *seen, int32_t seen_count, bool begins, void *out)
{
	int32_t sample = v->sample[id];
	const struct stk_nuscenes_sample *s = stk__nuscenes_sample(v->set, sample);
	enum shape shape = fields[f].shape;
	if (stk__nuscenes_field_of_boxes(f))
		put_seen(v, f, s, seen, seen_count, out);
	else if (fields[f].camera)
		put_of_camera(v, f, sample, camera, out);
	else if (fields[f].dtype == STK_FLOAT && shape != MATRIX && shape != SCALAR)
		put_boxes(v, f, sample, s, out);
	else if (shape == OBJECTS)
		for (int32_t i = 0; i < s->count; i++)
			((int32_t *)out)[i] = number_of(v, f, stk__nuscenes_object(v->set, s->first + i));
	else
		put_of_sample(v, f, sample, s, begins, out);
}
