/* SPDX-License-Identifier: Apache-2.0
 * stoker view: a batch as the network sees it, as a contact sheet. */
#include "output.h"
#include "session.h"
#include "sheet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The first output that can be looked at, or -1. */
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

/* A number of an output of one element or more, in host memory; 0 where it is not there. */
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

enum { LABEL = 1, SHAPE, ANCHOR, WINDOW, COIN }; /* outputs of the standard graph */

/* Class and file: of a folder's the last two names of the path, of a tar's label and file, whose URI is TAR:OFFSET:FILE. */
static void write_name(struct sheet *sheet, const struct session *session, const struct stk_batch *batch, int32_t i)
{
	const char *uri = stk_batch_sample(batch, i)->uri, *slash = strrchr(uri, '/'), *colon = strrchr(uri, ':');
	char text[256];
	if (session->tars) {
		const char *file = colon ? colon + 1 : uri;
		snprintf(text, sizeof(text), "%" PRId64 "/%s", number_at(batch, LABEL, i, 0), file);
		sheet_write(sheet, i, 0, session->labels ? text : file);
		return;
	}
	while (slash && slash > uri && slash[-1] != '/' && !session->flat)
		slash--; /* the class is the last folder */
	sheet_write(sheet, i, 0, slash ? slash + (session->flat ? 1 : 0) : uri);
}

/* The captions: class and file, then the file's size and the window that was drawn of it. */
static void write_captions(struct sheet *sheet, const struct session *session, const struct stk_batch *batch, int32_t i)
{
	char text[128];
	write_name(sheet, session, batch, i);
	if (!session->standard)
		return;
	snprintf(text, sizeof(text), "%" PRId64 "x%" PRId64 " %" PRId64 ",%" PRId64 "+%" PRId64 "x%" PRId64 "%s",
		number_at(batch, SHAPE, i, 1), number_at(batch, SHAPE, i, 0), number_at(batch, ANCHOR, i, 1),
		number_at(batch, ANCHOR, i, 0), number_at(batch, WINDOW, i, 1), number_at(batch, WINDOW, i, 0),
		number_at(batch, COIN, i, 0) ? " flip" : "");
	sheet_write(sheet, i, 1, text);
}

/* Lines of a caption: one where samples have names. */
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

static int report(const struct session *session, const struct settings *s, const char *path, const struct sheet *sheet,
	const struct stk_batch *batch, int32_t count)
{
	if (!s->json) {
		printf("%s: %d %s in %d %s of %d, %d x %d pixels\n", path, count, noun(count, "sample", "samples"), sheet->rows,
			noun(sheet->rows, "row", "rows"), sheet->columns, sheet->width, sheet->height);
		return EXIT_FINE;
	}
	json_t *o = json_object(), *samples = json_array();
	put_text(o, "file", path);
	put_int(o, "columns", sheet->columns);
	put_int(o, "rows", sheet->rows);
	for (int32_t i = 0; i < count; i++) {
		json_t *sample = json_object();
		put_text(sample, "uri", stk_batch_sample(batch, i)->uri);
		put_int(sample, "position", stk_batch_sample(batch, i)->position);
		if (session->labels)
			put_int(sample, "label", number_at(batch, LABEL, i, 0));
		if (session->standard)
			put_draws(sample, batch, i);
		json_array_append_new(samples, sample);
	}
	json_object_set_new(o, "samples", samples);
	return print_json(o);
}

/* host: the one output to draw, in host memory. */
static int draw_output(const struct session *session, const struct settings *s, struct stk_batch *host, const struct stk_batch *batch)
{
	const struct stk_tensor_list *list = stk_batch_output(host, 0);
	const char *path = s->output ? s->output : "view.png";
	char text[1024];
	struct sheet sheet;
	int code = EXIT_PROBLEM;
	if (!sheet_create(&sheet, list, list->count, (int32_t)s->columns, session->standard ? 2 : has_names(batch))) {
		fail_text("view", "out of memory");
	} else {
		struct sheet_scale scale = scale_of(session, &list->samples[0].desc);
		for (int32_t i = 0; i < list->count; i++)
			sheet_draw(&sheet, i, &list->samples[i], &scale);
		for (int32_t i = 0; sheet.lines && i < list->count; i++)
			write_captions(&sheet, session, batch, i);
		if (write_png(path, sheet.pixels, sheet.width, sheet.height, text, sizeof(text)))
			code = report(session, s, path, &sheet, batch, list->count);
		else
			fail_text("view", "%s", text);
	}
	sheet_destroy(&sheet);
	return code;
}

static int draw_batch(const struct session *session, const struct settings *s, struct stk_batch *batch)
{
	int32_t output = picture_output(batch);
	struct stk_batch *host = NULL;
	struct stk_error err = {0};
	if (output < 0)
		return fail_text("view", "no output of this pipeline looks like an image (HWC or CHW with 1 or 3 channels)");
	if (stk_batch_to_host(batch, output, -1, &host, &err) != STK_OK)
		return fail("view", &err);
	int code = draw_output(session, s, host, batch);
	stk_batch_unref(&host);
	return code;
}

static int run_view(const struct settings *given)
{
	struct settings s = *given;
	struct session session;
	struct stk_batch *batch = NULL;
	struct stk_error err = {0};
	int code = EXIT_PROBLEM;
	if (!s.batch)
		s.batch = s.augment ? s.augment : 64;
	if (open_session(&session, "view", s.args[0], GRAPH_VIEW, &s)) {
		enum stk_status status = stk_pipeline_next(session.pipeline, &batch, &err);
		if (status == STK_END)
			code = fail_text("view", "%s: no samples", s.args[0]);
		else if (status != STK_OK)
			code = fail("view", &err);
		else
			code = draw_batch(&session, &s, batch);
	}
	stk_batch_unref(&batch);
	close_session(&session);
	return code;
}

static const struct option options[] = {OPTION_TEXT_OF("output", 'o', output, "FILE", "Where to write (default view.png)."),
	OPTION_INT_OF("batch", 'b', batch, 1, 4096, "Samples to show (default 64)."),
	OPTION_INT_OF("columns", 'c', columns, 1, 4096, "Samples per row (default: about square)."),
	OPTION_INT_OF("size", 's', size, 1, 8192, "Width and height of the crops of a DIR (default 224)."),
	OPTION_INT_OF("augment", 'a', augment, 1, 4096, "Show the first image alone, under N draws."),
	OPTION_INT_OF("seed", 0, seed, 0, 9e15, "Seed of the random crops and flips."), OPTION_THREADS, OPTION_DEVICE, OPTION_STORAGE,
	OPTION_JSON, {0}};

const struct command command_view = {
	.name = "view",
	.summary = "a batch as the network sees it, as one PNG",
	.usage = "DIR|IMAGE|TAR|INDEX|s3://BUCKET/PREFIX|PIPELINE.json [-o FILE]",
	.details =
		"Draws the first batch of a pipeline as a contact sheet. A DIR goes through the usual training pipeline: random crop,\n"
		"resize, random flip, normalise; the colours are put back before drawing. Below each picture stand its class and file, then\n"
		"the file's width and height, the window that was drawn (x,y+width x height), and whether it was flipped. Numbers of another pipeline that are not uint8\n"
		"are stretched, each sample to its own range.",
	.example = "stoker view /data/train -o batch.png",
	.options = options,
	.arg = "DIR",
	.min_args = 1,
	.max_args = 1,
	.run = run_view,
};
