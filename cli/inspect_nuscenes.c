/* SPDX-License-Identifier: Apache-2.0
 * stoker inspect nuscenes ROOT: counts the contents of a NuScenes data set from its tables, and names the files that are missing. */
#include "command.h"
#include "output.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CLASSES = 10, CAMERAS = 6, FILES = CAMERAS + 1, NAMED = 20, PATH = 4200 };

struct nuscenes_census {
	struct stk_nuscenes_info info;
	int64_t of_class[CLASSES + 1]; /* [label]: number of objects; the last entry is for objects without a class */
	int64_t files[FILES], missing[FILES], missing_in_all;
	int64_t shortest, longest; /* number of samples of the shortest and the longest scene */
	double seconds;            /* sum of the scenes' durations, each from its first to its last sample */
	char named[NAMED][PATH];   /* texts about the first files that are missing */
};

static const char *file_name(const struct stk_nuscenes_view *v, int32_t k)
{
	return k < CAMERAS ? stk_nuscenes_camera(v, k) : "LIDAR_TOP";
}

/* Copies a field of at most `capacity` bytes, which is a scalar or an array, to `out`. Returns its number of elements, or -1 on an error. */
static int64_t take(const struct stk_nuscenes_view *v, int64_t sample, const char *field, void *out, size_t capacity, struct stk_error *err)
{
	struct stk_desc desc;
	return stk_nuscenes_field(v, sample, 0, field, &desc, out, capacity, err) == STK_OK ? stk_desc_elements(&desc) : -1;
}

static void count_file(struct nuscenes_census *c, const struct stk_nuscenes_view *v, int64_t sample, int32_t k, const char *token)
{
	char path[4096];
	struct stat st;
	c->files[k]++;
	if (stk_nuscenes_file(v, sample, k < CAMERAS ? k : -1, path, sizeof path) < sizeof path && stat(path, &st) == 0)
		return;
	c->missing[k]++;
	if (c->missing_in_all++ < NAMED)
		snprintf(c->named[c->missing_in_all - 1], PATH, "%.100s, sample %.100s, %.60s: %.3800s is not there",
			stk_nuscenes_scene(v, sample), token, file_name(v, k), path);
}

static bool count_sample(struct nuscenes_census *c, const struct stk_nuscenes_view *v, int64_t sample, struct stk_error *err)
{
	char token[512] = "";
	struct stk_desc desc;
	if (stk_nuscenes_field(v, sample, 0, "gt_labels_3d", &desc, NULL, 0, err))
		return false;
	size_t size = (size_t)stk_desc_bytes(&desc);
	int32_t *labels = malloc(size + 1);
	bool ok = labels && take(v, sample, "gt_labels_3d", labels, size, err) >= 0 &&
		  take(v, sample, "sample_token", token, sizeof token - 1, err) >= 0;
	for (int64_t i = 0; ok && i < desc.shape[0]; i++)
		c->of_class[labels[i] < 0 ? CLASSES : labels[i]]++;
	for (int32_t k = 0; ok && k < FILES; k++)
		count_file(c, v, sample, k, token);
	free(labels);
	return ok;
}

static bool count_all(struct nuscenes_census *c, const struct stk_nuscenes_view *v, struct stk_error *err)
{
	c->info.size = sizeof c->info;
	if (stk_nuscenes_describe(v, &c->info, err))
		return false;
	for (int64_t i = 0; i < c->info.samples; i++)
		if (!count_sample(c, v, i, err))
			return false;
	for (int64_t i = 0; i < c->info.sequences; i++) {
		double begin, end;
		int64_t first = stk_nuscenes_sequence(v, i), count = stk_nuscenes_sequence(v, i + 1) - first;
		if (take(v, first, "timestamp", &begin, sizeof begin, err) < 0 ||
			take(v, first + count - 1, "timestamp", &end, sizeof end, err) < 0)
			return false;
		c->seconds += end - begin;
		c->shortest = i == 0 || count < c->shortest ? count : c->shortest;
		c->longest = count > c->longest ? count : c->longest;
	}
	return true;
}

static void print_text(const struct nuscenes_census *c, const struct stk_nuscenes_view *v, const char *version)
{
	printf("%s: %" PRId64 " %s, %" PRId64 " %s, %" PRId64 " %s\n", version, c->info.scenes, noun(c->info.scenes, "scene", "scenes"),
		c->info.samples, noun(c->info.samples, "sample", "samples"), c->info.objects, noun(c->info.objects, "object", "objects"));
	printf("  scenes        %" PRId64 " to %" PRId64 " samples, %.1f seconds on average\n", c->shortest, c->longest,
		c->seconds / (double)c->info.scenes);
	for (int k = 0; k < FILES; k++)
		printf("  %-13s %s: %" PRId64 " %s, %" PRId64 " of which %s not there\n", k ? "" : "key frames", file_name(v, k),
			c->files[k], noun(c->files[k], "file", "files"), c->missing[k], noun(c->missing[k], "is", "are"));
	for (int k = 0; k <= CLASSES; k++)
		printf("  %-13s %s: %" PRId64 "\n", k ? "" : "objects", k < CLASSES ? stk_nuscenes_class(v, k) : "(of other categories)",
			c->of_class[k]);
	for (int64_t i = 0; i < c->missing_in_all && i < NAMED; i++)
		printf("  %s\n", c->named[i]);
	if (c->missing_in_all > NAMED)
		printf("  and %" PRId64 " more\n", c->missing_in_all - NAMED);
}

static json_t *as_json(const struct nuscenes_census *c, const struct stk_nuscenes_view *v, const char *version)
{
	json_t *object = json_object(), *classes = json_object(), *files = json_object(), *missing = json_array();
	put_text(object, "version", version);
	put_int(object, "scenes", c->info.scenes);
	put_int(object, "samples", c->info.samples);
	put_int(object, "objects", c->info.objects);
	put_real(object, "seconds", c->seconds);
	for (int k = 0; k <= CLASSES; k++)
		put_int(classes, k < CLASSES ? stk_nuscenes_class(v, k) : "other", c->of_class[k]);
	for (int k = 0; k < FILES; k++)
		put_int(files, file_name(v, k), c->files[k]);
	for (int64_t i = 0; i < c->missing_in_all && i < NAMED; i++)
		json_array_append_new(missing, text_json(c->named[i]));
	json_object_set_new(object, "by_class", classes);
	json_object_set_new(object, "files", files);
	put_int(object, "missing_files", c->missing_in_all);
	json_object_set_new(object, "missing", missing);
	return object;
}

/* Inspects one version of the data set. Adds the results to the array `found`, or prints them as text if it is NULL. Returns an enum exit_code. */
static int inspect_version(const char *root, const char *version, json_t *found)
{
	const struct stk_nuscenes_options o = {.size = sizeof o, .root = root, .version = version};
	struct nuscenes_census *c = calloc(1, sizeof *c);
	struct stk_nuscenes_view *v = NULL;
	struct stk_error err = {0};
	int code = c ? EXIT_FINE : fail_text("inspect", "out of memory");
	if (c && (stk_nuscenes_open(&o, &v, &err) || !count_all(c, v, &err))) {
		code = fail("inspect", &err);
	} else if (c) {
		code = c->missing_in_all ? EXIT_PROBLEM : EXIT_FINE;
		if (found)
			json_array_append_new(found, as_json(c, v, version));
		else
			print_text(c, v, version);
	}
	stk_nuscenes_close(v);
	free(c);
	return code;
}

/* Prints one JSON document: the version itself, or {"versions": [...]} if there are several or none. Returns `code`, or another exit code if printing fails. */
static int print_found(json_t *found, int code)
{
	json_t *o = json_array_size(found) == 1 ? json_incref(json_array_get(found, 0)) : json_object();
	if (json_array_size(found) != 1)
		json_object_set(o, "versions", found);
	const int printed = print_json(o);
	return printed ? printed : code;
}

bool holds_tables(const char *root, const char *name)
{
	char path[4096];
	struct stat st;
	return name[0] != '.' && snprintf(path, sizeof path, "%s/%s/sample_data.json", root, name) < (int)sizeof path &&
	       stat(path, &st) == 0;
}

int inspect_nuscenes(const char *root, bool json)
{
	struct dirent **entries = NULL;
	json_t *found = json ? json_array() : NULL;
	int code = EXIT_FINE, versions = 0;
	const int n = scandir(root, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (holds_tables(root, entries[i]->d_name)) {
			int one = inspect_version(root, entries[i]->d_name, found);
			code = one != EXIT_FINE ? one : code;
			versions++;
		}
		free(entries[i]);
	}
	free(entries);
	if (!versions)
		code = fail_text(
			"inspect", "%s holds no folder with NuScenes' tables, as v1.0-trainval: sample_data.json and the others", root);
	else if (json && json_array_size(found))
		code = print_found(found, code);
	json_decref(found);
	return code;
}
