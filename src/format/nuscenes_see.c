/* SPDX-License-Identifier: Apache-2.0
 * Finds the objects that a camera sees, and their boxes in the image: the convex hull of the corners of a 3-D box that are in front of the camera, cut to the
 * image, as NuScenes' devkit exports 2-D boxes. */
#include "format/nuscenes_fields.h"
#include "format/nuscenes_rigid.h"

#include <math.h>
#include <string.h>

/* ---- rigid motions ---- */

struct stk_rigid stk__rigid_of(const struct stk_pose *pose)
{
	double w = pose->rotation[0], x = pose->rotation[1], y = pose->rotation[2], z = pose->rotation[3],
	       s = 2 / (w * w + x * x + y * y + z * z);
	return (struct stk_rigid){
		.rotation = {1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y), s * (x * y + w * z),
			1 - s * (x * x + z * z), s * (y * z - w * x), s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)},
		.translation = {pose->translation[0], pose->translation[1], pose->translation[2]}};
}

void stk__rigid_apply(const struct stk_rigid *m, const double *p, double *out)
{
	for (int i = 0; i < 3; i++)
		out[i] = m->rotation[3 * i] * p[0] + m->rotation[3 * i + 1] * p[1] + m->rotation[3 * i + 2] * p[2] + m->translation[i];
}

struct stk_rigid stk__rigid_inverse(const struct stk_rigid *m)
{
	struct stk_rigid out;
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			out.rotation[3 * i + k] = m->rotation[3 * k + i];
		out.translation[i] = -(m->rotation[i] * m->translation[0] + m->rotation[3 + i] * m->translation[1] +
				       m->rotation[6 + i] * m->translation[2]);
	}
	return out;
}

struct stk_rigid stk__rigid_compose(const struct stk_rigid *second, const struct stk_rigid *first)
{
	struct stk_rigid out;
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			out.rotation[3 * i + k] = second->rotation[3 * i] * first->rotation[k] +
						  second->rotation[3 * i + 1] * first->rotation[3 + k] +
						  second->rotation[3 * i + 2] * first->rotation[6 + k];
	stk__rigid_apply(second, first->translation, out.translation);
	return out;
}

struct stk_rigid stk__nuscenes_lidar_to_world(const struct stk_nuscenes *n, int64_t sample)
{
	const struct stk_nuscenes_sample *s = stk__nuscenes_sample(n, sample);
	const struct stk_rigid ego = stk__rigid_of(&s->ego), lidar = stk__rigid_of(&stk__nuscenes_calibration(n, s->calibration)->pose);
	return stk__rigid_compose(&ego, &lidar);
}

struct stk_rigid stk__nuscenes_world_to_camera(const struct stk_nuscenes *n, int64_t sample, int64_t camera)
{
	const struct stk_nuscenes_frame *f = stk__nuscenes_frame(n, sample, camera);
	const struct stk_rigid ego = stk__rigid_of(&f->ego), sensor = stk__rigid_of(&stk__nuscenes_calibration(n, f->calibration)->pose);
	const struct stk_rigid world = stk__rigid_compose(&ego, &sensor);
	return stk__rigid_inverse(&world);
}

/* ---- polygons ---- */

struct point {
	double x, y;
};
/* Each cut of a convex polygon adds at most one point. If rounding or an overflow has made the polygon non-convex, a cut could double the points. */
enum { CORNERS = 8, MOST_POINTS = CORNERS << 4 };

static double side_of(struct point a, struct point b, struct point p)
{
	return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
}

/* Computes the convex hull of n points (Andrew's monotone chain, 1979), and returns the number of its points. Sorts `at`; `out` has room for 2 n points. */
static int find_hull(struct point *at, int n, struct point *out)
{
	int count = 0;
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && (at[k].x < at[k - 1].x || (at[k].x == at[k - 1].x && at[k].y < at[k - 1].y)); k--) {
			struct point swap = at[k];
			at[k] = at[k - 1];
			at[k - 1] = swap;
		}
	for (int i = 0; i < n; i++) {
		while (count >= 2 && side_of(out[count - 2], out[count - 1], at[i]) <= 0)
			count--;
		out[count++] = at[i];
	}
	for (int i = n - 2, lower = count + 1; i >= 0; i--) {
		while (count >= lower && side_of(out[count - 2], out[count - 1], at[i]) <= 0)
			count--;
		out[count++] = at[i];
	}
	return count - 1;
}

/* Clips a polygon of n points at a straight line (Sutherland and Hodgman, 1974): the part remains where sign * y (if `vertical`) or sign * x (otherwise) is
 * at least `limit`. Writes the clipped polygon to `to`, which may have one point more if the polygon is convex. Returns the number of its points. */
static int clip(const struct point *from, int n, bool vertical, double sign, double limit, struct point *to)
{
	int count = 0;
	for (int i = 0; i < n; i++) {
		struct point a = from[i], b = from[i + 1 < n ? i + 1 : 0];
		double da = sign * (vertical ? a.y : a.x) - limit, db = sign * (vertical ? b.y : b.x) - limit;
		if (da >= 0)
			to[count++] = a;
		if ((da >= 0) != (db >= 0)) {
			double t = da / (da - db);
			struct point p = {a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)};
			*(vertical ? &p.y : &p.x) = sign * limit; /* exactly on the border */
			to[count++] = p;
		}
	}
	return count;
}

static void bounds_of(const struct point *at, int n, double *box)
{
	box[0] = box[2] = at[0].x;
	box[1] = box[3] = at[0].y;
	for (int i = 1; i < n; i++) {
		box[0] = fmin(box[0], at[i].x);
		box[1] = fmin(box[1], at[i].y);
		box[2] = fmax(box[2], at[i].x);
		box[3] = fmax(box[3], at[i].y);
	}
}

/* Computes the bounds of the part of the points' convex hull that is in the image. Returns false if no part is, or if there are fewer than three points. */
static bool bounds_in_image(struct point *at, int n, double width, double height, double *box)
{
	struct point hull[2 * CORNERS], clipped[2][MOST_POINTS];
	if (n < 3)
		return false;
	bounds_of(at, n, box);
	if (box[0] >= 0 && box[1] >= 0 && box[2] <= width && box[3] <= height)
		return true;
	if (box[2] < 0 || box[3] < 0 || box[0] > width || box[1] > height)
		return false;
	n = find_hull(at, n, hull);
	n = clip(hull, n, false, 1, 0, clipped[0]);
	n = clip(clipped[0], n, false, -1, -width, clipped[1]);
	n = clip(clipped[1], n, true, 1, 0, clipped[0]);
	n = clip(clipped[0], n, true, -1, -height, clipped[1]);
	if (n < 3)
		return false;
	bounds_of(clipped[1], n, box);
	return true;
}

/* ---- objects ---- */

static void project(const double *k, const double *p, double *out)
{
	for (int i = 0; i < 3; i++)
		out[i] = k[3 * i] * p[0] + k[3 * i + 1] * p[1] + k[3 * i + 2] * p[2];
	out[0] /= out[2];
	out[1] /= out[2];
}

/* The limits of a camera's view: planes through the camera and the borders of the image. */
struct view {
	const double *k;
	double width, height;
	/* normal: a point p in front of the camera is in the image if its dot product with each normal is at least 0. length: lengths of the normals;
	 * INFINITY: the planes cannot be used to reject objects. */
	double normal[4][3], length[4];
};

static struct view view_of(const double *k, double width, double height)
{
	struct view v = {.k = k, .width = width, .height = height};
	/* With another last row, k would divide some points in front of the camera by a negative number, for which the planes are wrong. */
	bool usual_row = k[6] == 0 && k[7] == 0 && k[8] == 1;
	for (int plane = 0; plane < 4; plane++) {
		const double *row = k + 3 * (plane / 2);
		double extent = plane / 2 ? height : width, square = 0;
		for (int i = 0; i < 3; i++) {
			v.normal[plane][i] = plane % 2 ? extent * k[6 + i] - row[i] : row[i];
			square += v.normal[plane][i] * v.normal[plane][i];
		}
		v.length[plane] = usual_row ? sqrt(square) : INFINITY;
	}
	return v;
}

/* Returns false if the ball around an object is outside of the image, as for most objects in front of the camera. Never returns false for a visible object.
 * middle: position of the object's middle in the camera's frame. */
static bool may_be_seen(const struct view *v, const double *middle, const float *size)
{
	double square = 0;
	for (int i = 0; i < 3; i++)
		square += 0.25 * (double)size[i] * (double)size[i];
	double radius = sqrt(square) * (1 + 1e-9) + 1e-9;
	for (int plane = 0; plane < 4; plane++) {
		const double *n = v->normal[plane];
		if (n[0] * middle[0] + n[1] * middle[1] + n[2] * middle[2] < -radius * v->length[plane])
			return false;
	}
	return true;
}

static bool see_object(
	const struct stk_nuscenes_object *o, const struct stk_rigid *to_camera, const struct view *v, struct stk_nuscenes_seen *out)
{
	const double *row = to_camera->rotation + 6, *position = o->pose.translation;
	double middle[3];
	/* Rejects the objects that are not in front of the camera, about half of them, before anything else is computed. */
	if (!(row[0] * position[0] + row[1] * position[1] + row[2] * position[2] + to_camera->translation[2] > 0))
		return false;
	stk__rigid_apply(to_camera, position, middle);
	if (!may_be_seen(v, middle, o->size))
		return false;
	const struct stk_rigid pose = stk__rigid_of(&o->pose), in_camera = stk__rigid_compose(to_camera, &pose);
	struct point at[CORNERS];
	double box[4], center[3];
	int n = 0;
	for (int corner = 0; corner < CORNERS; corner++) {
		double half[3] = {0.5 * (double)o->size[1], 0.5 * (double)o->size[0], 0.5 * (double)o->size[2]}, p[3], image[3];
		for (int i = 0; i < 3; i++)
			half[i] = corner >> i & 1 ? half[i] : -half[i];
		stk__rigid_apply(&in_camera, half, p);
		if (p[2] <= 0)
			continue;
		project(v->k, p, image);
		at[n++] = (struct point){image[0], image[1]};
	}
	if (!bounds_in_image(at, n, v->width, v->height, box) || box[2] - box[0] < 1 || box[3] - box[1] < 1)
		return false;
	project(v->k, in_camera.translation, center);
	for (int i = 0; i < 4; i++)
		out->box[i] = (float)box[i];
	out->center[0] = (float)center[0];
	out->center[1] = (float)center[1];
	out->depth = (float)center[2];
	return true;
}

int32_t stk__nuscenes_see(const struct stk_nuscenes_view *v, int64_t id, int32_t camera, struct stk_nuscenes_seen *out)
{
	int32_t sample = v->sample[id], count = 0;
	const struct stk_nuscenes_sample *s = stk__nuscenes_sample(v->set, sample);
	const struct stk_nuscenes_frame *frame = stk__nuscenes_frame(v->set, sample, v->camera[camera]);
	const struct view image = view_of(stk__nuscenes_calibration(v->set, frame->calibration)->intrinsic, frame->width, frame->height);
	const struct stk_rigid to_camera = stk__nuscenes_world_to_camera(v->set, sample, v->camera[camera]);
	for (int32_t i = 0; i < s->count; i++) {
		const struct stk_nuscenes_object *o = stk__nuscenes_object(v->set, s->first + i);
		if (v->label[o->category] < 0 || !see_object(o, &to_camera, &image, &out[count]))
			continue;
		out[count++].object = i;
	}
	return count;
}
