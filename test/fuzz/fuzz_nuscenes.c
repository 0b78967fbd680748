/* SPDX-License-Identifier: Apache-2.0
 * NuScenes' tables. The first byte selects the table that the rest of the input replaces; the other nine are valid. Accepted tables must be consistent. */
#include "fuzz.h"

#include "base/error.h"
#include "format/nuscenes_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TABLES = 10 };

static const char *const ok[TABLES][2] = {
	{"calibrated_sensor",
		"[{\"token\":\"c0\",\"sensor_token\":\"s0\",\"translation\":[1,0,1.5],\"rotation\":[0.5,-0.5,0.5,-0.5],\"camera_intrinsic\":[[100,0,50]"
		",[0,100,40],[0,0,1]]},{\"token\":\"c1\",\"sensor_token\":\"s1\",\"translation\":[0,0,2],\"rotation\":[1,0,0,0],\"camera_intrinsic\":[]"
		"}]"},
	{"category", "[{\"token\":\"g0\",\"name\":\"vehicle.car\"},{\"token\":\"g1\",\"name\":\"animal\"}]"},
	{"ego_pose",
		"[{\"token\":\"p00\",\"translation\":[0,0,0],\"rotation\":[1,0,0,0],\"timestamp\":5},{\"token\":\"p01\",\"translation\":[0,0,0],\"rotation"
		"\":[1,0,0,0],\"timestamp\":5},{\"token\":\"p10\",\"translation\":[1,0,0],\"rotation\":[1,0,0,0],\"timestamp\":5},{\"token\":\"p11\",\"tran"
		"slation\":[1,0,0],\"rotation\":[1,0,0,0],\"timestamp\":5}]"},
	{"instance", "[{\"token\":\"i0\",\"category_token\":\"g0\"},{\"token\":\"i1\",\"category_token\":\"g1\"}]"},
	{"sample",
		"[{\"token\":\"a0\",\"timestamp\":1000000,\"prev\":\"\",\"next\":\"a1\",\"scene_token\":\"e0\"},{\"token\":\"a1\",\"timestamp\":1500000,\"prev\":\"a"
		"0\",\"next\":\"\",\"scene_token\":\"e0\"}]"},
	{"sample_annotation",
		"[{\"token\":\"o0\",\"sample_token\":\"a0\",\"instance_token\":\"i0\",\"visibility_token\":\"1\",\"translation\":[10,1,1],\"size\":[2,4,1.5],"
		"\"rotation\":[0.9,0,0,0.3],\"prev\":\"\",\"next\":\"o1\",\"num_lidar_pts\":3,\"num_radar_pts\":0},{\"token\":\"o1\",\"sample_token\":\"a1\",\"i"
		"nstance_token\":\"i0\",\"visibility_token\":\"2\",\"translation\":[11,1,1],\"size\":[2,4,1.5],\"rotation\":[0.9,0,0,0.3],\"prev\":\"o0\","
		"\"next\":\"\",\"num_lidar_pts\":3,\"num_radar_pts\":0},{\"token\":\"o2\",\"sample_token\":\"a1\",\"instance_token\":\"i1\",\"visibility_token"
		"\":\"\",\"translation\":[2,1,1],\"size\":[2,4,1.5],\"rotation\":[0.9,0,0,0.3],\"prev\":\"\",\"next\":\"\",\"num_lidar_pts\":0,\"num_radar_pt"
		"s\":0}]"},
	{"sample_data",
		"[{\"token\":\"d00\",\"sample_token\":\"a0\",\"ego_pose_token\":\"p00\",\"calibrated_sensor_token\":\"c0\",\"timestamp\":1000000,\"is_key_fr"
		"ame\":true,\"height\":90,\"width\":100,\"filename\":\"x00\"},{\"token\":\"d01\",\"sample_token\":\"a0\",\"ego_pose_token\":\"p01\",\"calibrate"
		"d_sensor_token\":\"c1\",\"timestamp\":1000000,\"is_key_frame\":true,\"height\":0,\"width\":0,\"filename\":\"x01\"},{\"token\":\"d10\",\"samp"
		"le_token\":\"a1\",\"ego_pose_token\":\"p10\",\"calibrated_sensor_token\":\"c0\",\"timestamp\":1500000,\"is_key_frame\":true,\"height\":90"
		",\"width\":100,\"filename\":\"x10\"},{\"token\":\"d11\",\"sample_token\":\"a1\",\"ego_pose_token\":\"p11\",\"calibrated_sensor_token\":\"c1\","
		"\"timestamp\":1500000,\"is_key_frame\":true,\"height\":0,\"width\":0,\"filename\":\"x11\"}]"},
	{"scene", "[{\"token\":\"e0\",\"name\":\"scene-1\",\"nbr_samples\":2,\"first_sample_token\":\"a0\",\"last_sample_token\":\"a1\"}]"},
	{"sensor",
		"[{\"token\":\"s0\",\"channel\":\"CAM_FRONT\",\"modality\":\"camera\"},{\"token\":\"s1\",\"channel\":\"LIDAR_TOP\",\"modality\":\"lidar\"},{\"toke"
		"n\":\"s2\",\"channel\":\"RADAR_FRONT\",\"modality\":\"radar\"}]"},
	{"visibility", "[{\"token\":\"1\",\"level\":\"v0-40\"},{\"token\":\"2\",\"level\":\"v40-60\"}]"},
};

static char root[256];

static void write_table(const char *name, const void *text, size_t size)
{
	char path[320];
	snprintf(path, sizeof path, "%s/v/%s.json", root, name);
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(text, 1, size, f) != size || fclose(f))
		abort();
}

static void remove_set(void)
{
	char path[320];
	for (int i = 0; i < TABLES; i++) {
		snprintf(path, sizeof path, "%s/v/%s.json", root, ok[i][0]);
		unlink(path);
	}
	snprintf(path, sizeof path, "%s/v", root);
	rmdir(path);
	rmdir(root);
}

/* Writes a valid data set into a temporary folder, in a file system in memory if the machine has one, and has it removed at exit. */
static void make_set(void)
{
	char path[320];
	const char *temporary = getenv("TMPDIR");
	snprintf(root, sizeof root, "%s/stoker-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : temporary ? temporary : "/tmp");
	if (!mkdtemp(root) || snprintf(path, sizeof path, "%s/v", root) < 0 || mkdir(path, 0700))
		abort();
	for (int i = 0; i < TABLES; i++)
		write_table(ok[i][0], ok[i][1], strlen(ok[i][1]));
	atexit(remove_set);
}

static void read_sample(const struct stk_nuscenes_view *v, int64_t id, int32_t camera)
{
	const struct stk_nuscenes_sample *s = stk__nuscenes_sample(v->set, v->sample[id]);
	struct stk_nuscenes_seen seen[64];
	if (s->count > 64)
		return;
	int32_t boxes = stk__nuscenes_see(v, id, camera, seen);
	if (boxes < 0 || boxes > s->count)
		abort();
	for (int f = STK_NUSC_IMG_TIMESTAMP; f < STK_NUSC_POINTS; f++) {
		int64_t letters = (int64_t)strlen(stk__nuscenes_text(v->set, s->token));
		int64_t count = f == STK_NUSC_SAMPLE_TOKEN                                 ? letters
				: stk__nuscenes_field_of_boxes((enum stk_nuscenes_field)f) ? boxes
											   : s->count;
		struct stk_desc desc = stk__nuscenes_desc((enum stk_nuscenes_field)f, count);
		void *out = malloc((size_t)stk_desc_bytes(&desc) + 1); /* malloc(0) may return NULL */
		if (!out)
			abort();
		stk__nuscenes_value(v, (enum stk_nuscenes_field)f, id, camera, seen, boxes, false, out);
		free(out);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const cameras[] = {"CAM_FRONT"};
	const struct stk_nuscenes_options o = {
		.size = sizeof o, .root = root, .version = "v", .index = "", .cameras = cameras, .camera_count = 1, .split = 2};
	struct stk_nuscenes_view *v = NULL;
	struct stk_error err = {0};
	if (size == 0)
		return 0;
	if (!root[0])
		make_set();
	const char *const *table = ok[data[0] % TABLES];
	write_table(table[0], data + 1, size - 1);
	if (stk__nuscenes_view_open(&o, &v, &err)) {
		if (!err.message[0])
			abort();
	} else {
		if (!stk__nuscenes_sound(v->set))
			abort();
		for (int64_t i = 0; i < v->size; i++)
			read_sample(v, i, 0);
		stk__nuscenes_view_close(v);
	}
	write_table(table[0], table[1], strlen(table[1]));
	return 0;
}
