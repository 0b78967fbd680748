/* SPDX-License-Identifier: Apache-2.0
 * stoker view: draws a batch, as the network receives it, on a contact sheet. */
#include "folder.h"
#include "output.h"
#include "progress.h"
#include "session.h"
#include "sheet.h"
#include "tars.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Returns the index of the first output that can be drawn as an image, or -1. */
static int32_t picture_output(const struct stk_batch *batch)
{
	for (int32_t i = 0; i < stk_batch_outputs(batch); i++) {
		const struct stk_tensor_list *list = stk_batch_output(batch, i);
		if (list->count > 0 && sheet_takes(&list->samples[0].desc))
			return i;
	}
	return -1;
}

static struct sheet_scale scale_of(const struct session *session, const struct stk_desc *desc)
{
	struct sheet_scale scale = {{1, 1, 1}, {0, 0, 0}, desc->dtype != STK_UINT8};
	for (int c = 0; session->standard && c < 3; c++) {
		scale.scale[c] = session->std[c];
		scale.shift[c] = session->mean[c];
		scale.stretch = false;
	}
	return scale;
}

/* Returns element `at`, which must exist, of a sample of an output. Returns 0 if there is no such output or sample, if the output is on a GPU, or if its
 * numbers are neither int32 nor int64. */
static int64_t number_at(const struct stk_batch *batch, int32_t output, int32_t sample, int32_t at)
{
	const struct stk_tensor_list *list = output < stk_batch_outputs(batch) ? stk_batch_output(batch, output) : NULL;
	if (!list || list->device_id >= 0 || sample >= list->count)
		return 0;
	const struct stk_tensor *t = &list->samples[sample];
	return t->desc.dtype == STK_INT64   ? ((const int64_t *)t->data)[at]
	       : t->desc.dtype == STK_INT32 ? ((const int32_t *)t->data)[at]
					    : 0;
}

enum { LABEL = 1, SHAPE, ANCHOR, WINDOW, COIN }; /* numbers of the standard graph's outputs; output 0 is the image */

/* Returns the part of a file's path that names its class and the file: the path below the source's folder, or its last two names if the files are those of an
 * index. In a folder that holds the images itself there is only the file's name. */
static const char *name_of_file(const struct session *session, const char *uri)
{
	const size_t n = strlen(session->source);
	const char *slash = strrchr(uri, '/');
	if (session->flat || !slash)
		return slash ? slash + 1 : uri;
	if (n && !strncmp(uri, session->source, n) && (uri[n] == '/' || uri[n - 1] == '/'))
		return uri + n + strspn(uri + n, "/");
	while (slash > uri && slash[-1] != '/')
		slash--;
	return slash;
}

/* Writes a caption that names the class and the file. In tars, where the URI is TAR:OFFSET:FILE, these are the label, if samples have one, and FILE. label:
 * nullable. */
static void write_name(struct sheet *sheet, int32_t cell, const struct session *session, const char *uri, const int64_t *label)
{
	const char *colon = strrchr(uri, ':'), *file = colon ? colon + 1 : uri;
	char text[256];
	if (!session->tars) {
		sheet_write(sheet, cell, 0, name_of_file(session, uri));
		return;
	}
	snprintf(text, sizeof(text), "%" PRId64 "/%s", label ? *label : 0, file);
	sheet_write(sheet, cell, 0, session->labels && label ? text : file);
}

/* Writes to `text` the image's size, the randomly drawn window as x,y+WIDTHxHEIGHT, and "flip" if it is mirrored. Returns the number of characters. */
static int32_t geometry_of(const struct stk_batch *batch, int32_t i, char text[160])
{
	return snprintf(text, 160, "%" PRId64 "x%" PRId64 " %" PRId64 ",%" PRId64 "+%" PRId64 "x%" PRId64 "%s",
		number_at(batch, SHAPE, i, 1), number_at(batch, SHAPE, i, 0), number_at(batch, ANCHOR, i, 1),
		number_at(batch, ANCHOR, i, 0), number_at(batch, WINDOW, i, 1), number_at(batch, WINDOW, i, 0),
		number_at(batch, COIN, i, 0) ? " flip" : "");
}

/* Returns the number of characters of the longest line that geometry_of writes for the batch. */
static int32_t geometry_letters(const struct session *session, const struct stk_batch *batch)
{
	char text[160];
	int32_t most = 0;
	for (int32_t i = 0; session->standard && i < stk_batch_size(batch); i++) {
		const int32_t n = geometry_of(batch, i, text);
		most = n > most ? n : most;
	}
	return most;
}

/* Writes the captions of a sample: class and file, then, for the standard graph, the geometry. */
static void write_captions(struct sheet *sheet, int32_t cell, const struct session *session, const struct stk_batch *batch, int32_t i)
{
	char text[160];
	const int64_t label = number_at(batch, LABEL, i, 0);
	write_name(sheet, cell, session, stk_batch_sample(batch, i)->uri, &label);
	geometry_of(batch, i, text);
	if (session->standard)
		sheet_write(sheet, cell, 1, text);
}

/* Returns the number of caption lines for names: 1 if samples have names, otherwise 0. */
static int32_t has_names(const struct stk_batch *batch)
{
	return stk_batch_size(batch) > 0 && stk_batch_sample(batch, 0)->uri[0] ? 1 : 0;
}

static void put_draws(json_t *sample, const struct stk_batch *batch, int32_t i)
{
	static const char *const names[] = {"height", "width", "crop_y", "crop_x", "crop_height", "crop_width", "flipped"};
	for (int32_t k = 0; k < 7; k++)
		put_int(sample, names[k], number_at(batch, 2 + k / 2, i, k % 2));
}

/* One cell of the sheet: a sample of the batch, or a sample that failed. */
struct tile {
	int64_t epoch, position;
	int32_t sample;       /* number of the sample in the batch; -1: the sample failed */
	struct stk_error bad; /* error of a failed sample */
};

struct tiles {
	struct tile *at;
	int32_t count, bad;
};

/* Compares epochs first, because a batch may reach into the next epoch. */
static int by_place(const void *a, const void *b)
{
	const struct tile *x = a, *y = b;
	return x->epoch != y->epoch ? (x->epoch > y->epoch) - (x->epoch < y->epoch)
				    : (x->position > y->position) - (x->position < y->position);
}

/* Collects at most `wanted` failed samples, sorted by epoch and position. */
static void take_failed(struct tiles *t, struct stk_pipeline *p, int32_t wanted)
{
	struct stk_error e;
	for (int64_t i = 0; t->bad < wanted && stk_pipeline_bad_sample(p, i, &e); i++)
		t->at[t->bad++] = (struct tile){.epoch = e.epoch, .position = e.sample, .sample = -1, .bad = e};
	qsort(t->at, (size_t)t->bad, sizeof(*t->at), by_place);
}

/* Merges the batch's samples with the failed ones, in the order of epoch and position. Returns false if memory is short. */
static bool list_tiles(struct tiles *t, struct stk_pipeline *p, const struct stk_batch *batch, int32_t batch_size)
{
	const int32_t ok = stk_batch_size(batch);
	*t = (struct tiles){.at = calloc((size_t)batch_size, sizeof(*t->at))};
	if (!t->at)
		return false;
	take_failed(t, p, batch_size - ok);
	t->count = ok + t->bad;
	for (int32_t i = ok - 1, bad = t->bad - 1, to = t->count - 1; i >= 0; to--) {
		const struct stk_sample *sample = stk_batch_sample(batch, i);
		const struct tile tile = {.epoch = sample->epoch, .position = sample->position, .sample = i};
		const bool failed = bad >= 0 && by_place(&t->at[bad], &tile) > 0;
		t->at[to] = failed ? t->at[bad--] : tile;
		i -= !failed;
	}
	return true;
}

static bool printed_before(const struct tiles *t, int32_t k)
{
	for (int32_t i = 0; i < k; i++) {
		if (t->at[i].sample < 0 && !strcmp(t->at[i].bad.uri, t->at[k].bad.uri))
			return true;
	}
	return false;
}

/* Prints the errors of the first MOST failed files, each file once, then the number of further ones, and advice. */
static void print_failed(const struct session *session, const char *source, const struct tiles *t)
{
	enum { MOST = 10 };
	int32_t files = 0;
	for (int32_t k = 0; k < t->count; k++) {
		if (t->at[k].sample < 0 && !printed_before(t, k) && files++ < MOST)
			fail("view", &t->at[k].bad);
	}
	if (files > MOST)
		fail_text("view", "and %d more", files - MOST);
	if (files && has_inspection(session, source))
		fail_text("view", "these are crossed out; `stoker inspect %s` finds all bad files", source);
}

static json_t *tile_json(const struct session *session, const struct stk_batch *batch, const struct tile *tile, int32_t cell)
{
	json_t *o = json_object();
	put_text(o, "uri", tile->sample < 0 ? tile->bad.uri : stk_batch_sample(batch, tile->sample)->uri);
	put_int(o, "position", tile->position);
	put_int(o, "cell", cell);
	if (tile->sample < 0)
		put_text(o, "message", tile->bad.message);
	if (tile->sample >= 0 && session->labels)
		put_int(o, "label", number_at(batch, LABEL, tile->sample, 0));
	if (tile->sample >= 0 && session->standard)
		put_draws(o, batch, tile->sample);
	return o;
}

static int report(const struct session *session, const struct settings *s, const char *path, const struct sheet *sheet,
	const struct stk_batch *batch, const struct tiles *t)
{
	const int code = t->bad ? EXIT_PROBLEM : EXIT_FINE;
	if (!s->json) {
		printf("%s: %d %s in %d %s of %d, %d x %d pixels\n", path, t->count, noun(t->count, "sample", "samples"), sheet->rows,
			noun(sheet->rows, "row", "rows"), sheet->columns, sheet->width, sheet->height);
		fflush(stdout);
		print_failed(session, s->args[0], t);
		return code;
	}
	json_t *o = json_object(), *samples = json_array(), *bad = json_array();
	put_text(o, "file", path);
	put_int(o, "columns", sheet->columns);
	put_int(o, "rows", sheet->rows);
	for (int32_t k = 0; k < t->count; k++)
		json_array_append_new(t->at[k].sample < 0 ? bad : samples, tile_json(session, batch, &t->at[k], k));
	json_object_set_new(o, "samples", samples);
	json_object_set_new(o, "bad", bad);
	const int printed = print_json(o);
	return printed ? printed : code;
}

/* Draws the samples of `list`, which is in host memory, and writes the PNG. Returns an exit code. */
static int draw_tiles(const struct session *session, const struct settings *s, const struct stk_tensor_list *list,
	const struct stk_batch *batch, const struct tiles *t)
{
	const char *path = s->output ? s->output : "view.png";
	char text[1024];
	struct sheet sheet;
	int code = EXIT_PROBLEM;
	if (!sheet_create(&sheet, list, t->count, (int32_t)s->columns, session->standard ? 2 : has_names(batch),
		    geometry_letters(session, batch))) {
		fail_text("view", "out of memory");
	} else {
		struct sheet_scale scale = scale_of(session, &list->samples[0].desc);
		for (int32_t k = 0; k < t->count && !interrupted(); k++) {
			if (t->at[k].sample < 0)
				sheet_cross_out(&sheet, k);
			else
				sheet_draw(&sheet, k, &list->samples[t->at[k].sample], &scale);
			if (sheet.lines && t->at[k].sample < 0)
				write_name(&sheet, k, session, t->at[k].bad.uri, NULL);
			else if (sheet.lines)
				write_captions(&sheet, k, session, batch, t->at[k].sample);
		}
		if (interrupted())
			fail_text("view", "interrupted");
		else if (write_png(path, sheet.pixels, sheet.width, sheet.height, text, sizeof(text)))
			code = report(session, s, path, &sheet, batch, t);
		else
			fail_text("view", "%s", text);
	}
	sheet_destroy(&sheet);
	return code;
}

/* Draws the first output that looks like an image, after copying it to host memory if it is on a GPU. An output in host memory is not copied: it may be large.
 * Returns an exit code. */
static int draw_batch(const struct session *session, const struct settings *s, struct stk_batch *batch, const struct tiles *t)
{
	const int32_t output = picture_output(batch);
	struct stk_batch *host = NULL;
	struct stk_error err = {0};
	if (output < 0)
		return fail_text("view", "no output of this pipeline looks like an image (HWC or CHW with 1 or 3 channels)");
	const struct stk_tensor_list *list = stk_batch_output(batch, output);
	if (list->device_id >= 0 && stk_batch_to_host(batch, output, -1, &host, &err) != STK_OK)
		return fail("view", &err);
	int code = draw_tiles(session, s, host ? stk_batch_output(host, 0) : list, batch, t);
	stk_batch_unref(&host);
	return code;
}

/* Replaces the error that ended the pipeline by that of the first sample that failed in the same file. If a batch has only this file, the pipeline reads it again
 * in later epochs, and gives up there. */
static void find_first(struct stk_pipeline *p, struct stk_error *err)
{
	struct stk_error e;
	for (int64_t i = 0; *err->uri && stk_pipeline_bad_sample(p, i, &e); i++)
		if (!strcmp(e.uri, err->uri) && (e.epoch < err->epoch || (e.epoch == err->epoch && e.sample < err->sample)))
			*err = e;
}

static int view_batch(const struct session *session, const struct settings *s, struct stk_batch *batch)
{
	struct tiles tiles;
	int code = EXIT_PROBLEM;
	if (!list_tiles(&tiles, session->pipeline, batch, (int32_t)s->batch))
		fail_text("view", "out of memory");
	else if (tiles.count > tiles.bad)
		code = draw_batch(session, s, batch, &tiles);
	else if (tiles.bad)
		code = fail_at(session, s->args[0], &tiles.at[0].bad);
	else
		code = fail_text("view", "%s: no samples", s->args[0]);
	free(tiles.at);
	return code;
}

/* Checks that a batch of floats and the sheet fit into half of the free memory; if not, prints an error and returns false. Returns true for a pipeline from
 * a file, and if the free memory is not known. */
static bool has_room(const struct settings *s)
{
	struct stk_machine m = {.size = sizeof(m)};
	const int64_t size = s->size ? s->size : 224, bytes = s->batch * size * size * 3 * 4 + sheet_bytes(s->batch, size);
	if (is_pipeline(s->args[0]) || stk_machine_probe(&m, NULL) != STK_OK || m.memory_free < 0)
		return true;
	const int64_t memory = (m.memory_limit > 0 && m.memory_limit < m.memory_free ? m.memory_limit : m.memory_free) / 2;
	if (bytes <= memory)
		return true;
	fail_text("view",
		"%" PRId64 " samples of %" PRId64 " x %" PRId64
		" take %.1f GB of memory, and half of the free memory is %.1f GB: lower --batch or --size",
		s->batch, size, size, (double)bytes / 1e9, (double)memory / 1e9);
	return false;
}

/* Returns whether a folder is inside a tree of class folders, or is a folder that holds images directly: a new PNG in it would be one of the images. */
static bool is_image_folder(const char *folder, const char *tree)
{
	char *inner = realpath(folder, NULL), *outer = realpath(tree, NULL);
	struct flat_folder flat = {.count = 0};
	const size_t n = outer ? strlen(outer) : 0;
	bool found = false;
	if (inner && outer && !strcmp(inner, outer))
		found = !is_tars(tree) && flat_folder_list(tree, &flat);
	else if (inner && outer)
		found = !strncmp(inner, outer, n) && (inner[n] == '/' || outer[n - 1] == '/');
	flat_folder_free(&flat);
	free(inner);
	free(outer);
	return found;
}

/* Returns whether the PNG would replace a file of the source, or become one. */
static bool is_of_source(const char *source, const char *output)
{
	struct stat from, to;
	if (!is_folder(source))
		return stat(source, &from) == 0 && stat(output, &to) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino;
	const char *slash = strrchr(output, '/');
	char *folder = slash ? strndup(output, slash > output ? (size_t)(slash - output) : 1) : strdup(".");
	const bool found = folder && is_image_folder(folder, source);
	free(folder);
	return found;
}

static int run_view(const struct settings *original)
{
	struct settings s = *original;
	struct session session = {.device_id = -1};
	struct stk_batch *batch = NULL;
	struct stk_error err = {0};
	int code = EXIT_PROBLEM;
	const size_t length = s.output ? strlen(s.output) : 0;
	if (s.output && (length < 5 || strcasecmp(s.output + length - 4, ".png")))
		return usage_error(&command_view, "--output is the name of a PNG, as view.png, not \"%s\"", s.output);
	if (is_of_source(s.args[0], s.output ? s.output : "view.png"))
		return fail_text("view", "%s: the picture would be a file of %s itself: give a name outside of it (-o FILE)",
			s.output ? s.output : "view.png", s.args[0]);
	if (!is_tree(s.args[0]) && stk_audio_named(s.args[0])) {
		if (s.augment || s.size || s.batch)
			return usage_error(&command_view, "--augment, --size and --batch are for images; a sound is drawn as a whole");
		return run_on_media("view", &s, view_video, view_sound);
	}
	if (!s.batch)
		s.batch = s.augment ? s.augment : 64;
	if (is_video_name(s.args[0]) && (s.augment || s.size))
		return usage_error(&command_view, "--augment and --size are for images; the frames of a video are drawn as they are");
	if (is_video_name(s.args[0]))
		return run_on_media("view", &s, view_video, view_sound);
	if (has_room(&s) && open_session(&session, "view", s.args[0], GRAPH_VIEW, &s)) {
		enum stk_status status = next_batch(&session, &batch, &err);
		if (status == STK_END)
			code = fail_text("view", "%s: no samples", s.args[0]);
		else if (status != STK_OK) {
			find_first(session.pipeline, &err);
			code = fail_at(&session, s.args[0], &err);
		} else
			code = view_batch(&session, &s, batch);
	}
	stk_batch_unref(&batch);
	close_session(&session);
	return code;
}

static const struct option options[] = {OPTION_TEXT_OF("output", 'o', output, "FILE", "File to write (default view.png)."),
	OPTION_INT_OF("batch", 'b', batch, 1, 4096, "Samples to show (default 64)."),
	OPTION_INT_OF("columns", 'c', columns, 1, 4096, "Samples per row (default: about square)."),
	OPTION_INT_OF("size", 's', size, 1, 8192, "Width and height of the crops of a DIR (default 224)."),
	OPTION_INT_OF("augment", 'a', augment, 1, 4096, "Show only the first image, under N draws."),
	OPTION_INT_OF("seed", 0, seed, 0, 9e15, "Seed of the random crops and flips."), OPTION_THREADS, OPTION_DEVICE, OPTION_STORAGE,
	OPTION_JSON, {0}};

const struct command command_view = {
	.name = "view",
	.summary = "draws a batch, as the network receives it, as one PNG",
	.usage = "DIR|IMAGE|SOUND|VIDEO|TAR|INDEX|s3://BUCKET/PREFIX|PIPELINE.json [-o FILE]",
	.details =
		"Draws the first batch of a pipeline as a contact sheet. A DIR goes through the usual training pipeline: random "
		"crop, resize, random flip, normalise; the normalisation is undone before drawing. The captions below each picture "
		"are its class and file, then the file's width and height, the window that was drawn (x,y+width x height), and "
		"whether it was flipped. EXIF's orientation is applied; Loader applies it only with exif_orientation=True. "
		"Samples that fail are crossed out, and the exit code is 1. For other pipelines, numbers that are not uint8 are "
		"stretched to each sample's own range. Of a SOUND, it draws the waveform, and below it the spectrogram, whose colours are "
		"decibels below the loudest point. Of a VIDEO, it draws frames at equal distances, each with its number and its time in seconds, and "
		"\"key\" if decoding can begin at it.",
	.example = "stoker view /data/train -o batch.png",
	.options = options,
	.arg = "DIR",
	.min_args = 1,
	.max_args = 1,
	.run = run_view,
};
