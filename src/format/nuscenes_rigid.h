/* SPDX-License-Identifier: Apache-2.0
 * Rigid motions, in doubles, because coordinates in the world's frame reach kilometres. */
#ifndef STK_FORMAT_NUSCENES_RIGID_H
#define STK_FORMAT_NUSCENES_RIGID_H

#include "format/nuscenes.h"

/* Maps p to rotation p + translation. rotation: 3x3, by rows. */
struct stk_rigid {
	double rotation[9], translation[3];
};
struct stk_rigid stk__rigid_of(const struct stk_pose *pose); /* returns the map from coordinates in the frame to those in its parent */
struct stk_rigid stk__rigid_inverse(const struct stk_rigid *m);
struct stk_rigid stk__rigid_compose(const struct stk_rigid *second, const struct stk_rigid *first);
void stk__rigid_apply(const struct stk_rigid *m, const double *p, double *out);

/* Return the motions from the lidar's frame to the world's, and from the world's frame to a camera's. sample, camera: indices in the set. The sample must
 * have a frame of its lidar and of the camera. */
struct stk_rigid stk__nuscenes_lidar_to_world(const struct stk_nuscenes *n, int64_t sample);
struct stk_rigid stk__nuscenes_world_to_camera(const struct stk_nuscenes *n, int64_t sample, int64_t camera);

#endif
