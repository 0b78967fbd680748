/* SPDX-License-Identifier: Apache-2.0
 * stoker view FILE of a video: draws frames at equal distances on a contact sheet, with their numbers and times. Only the drawn frames
 * are held in memory, in a smaller size. */
#include "command.h"
#include "output.h"
#include "sheet.h"

#include <stoker/video.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 256 }; /* maximum length of a picture's longer side in pixels; sheet.c draws no larger pictures either */

/* The frames that are drawn. */
struct shots {
	struct stk_video *video;
	int64_t *numbers;
	struct stk_tensor *pictures; /* data NULL: the frame cannot be decoded */
	struct stk_error *errors;
	int32_t count, bad;
};

static void free_shots(struct shots *f)
{
	for (int32_t i = 0; f->pictures && i < f->count; i++)
		free(f->pictures[i].data);
	free(f->pictures);
	free(f->numbers);
	free(f->errors);
	stk_video_close(f->video);
}

/* Copies every step-th pixel of a frame, so that its longer side has at most LARGEST pixels. Returns false if memory runs out. The caller frees out->data. */
static bool copy_small(const uint8_t *pixels, int32_t height, int32_t width, struct stk_tensor *out)
{
	const int32_t longer = height > width ? height : width, step = longer > LARGEST ? (longer + LARGEST - 1) / LARGEST : 1;
	const int32_t h = (height + step - 1) / step, w = (width + step - 1) / step;
	uint8_t *to = malloc((size_t)h * (size_t)w * 3);
	*out = (struct stk_tensor){to, {STK_UINT8, 3, {h, w, 3}, "HWC"}};
	for (int32_t y = 0; to && y < h; y++)
		for (int32_t x = 0; x < w; x++)
			memcpy(to + ((size_t)y * (size_t)w + (size_t)x) * 3,
				pixels + ((size_t)y * (size_t)step * (size_t)width + (size_t)x * (size_t)step) * 3, 3);
	return to != NULL;
}

static enum stk_status read_shots(struct shots *f, int64_t frames, struct stk_error *err)
{
	for (int32_t i = 0; i < f->count; i++) {
		const uint8_t *pixels;
		int32_t height, width;
		f->numbers[i] = f->count > 1 ? i * (frames - 1) / (f->count - 1) : 0;
		const enum stk_status s = stk_video_read(f->video, &f->numbers[i], 1, false, &pixels, &height, &width, &f->errors[i]);
		if (s == STK_NO_MEMORY || s == STK_CANCELLED || s == STK_IO) {
			*err = f->errors[i];
			return s;
		}
		if (s)
			f->bad++;
		else if (!copy_small(pixels, height, width, &f->pictures[i])) {
			snprintf(err->message, sizeof(err->message), "out of memory");
			return STK_NO_MEMORY;
		}
	}
	return STK_OK;
}

static struct stk_video_frame facts_of(const struct shots *f, int32_t i)
{
	struct stk_video_frame frame = {0};
	return stk_video_frame(f->video, f->numbers[i], &frame, NULL) ? (struct stk_video_frame){0} : frame;
}

static int32_t caption_of(const struct shots *f, int32_t i, char text[80])
{
	const struct stk_video_frame frame = facts_of(f, i);
	return snprintf(text, 80, "%" PRId64 " %.3fs%s", f->numbers[i], frame.begin, frame.key ? " key" : "");
}

static int report(const struct shots *f, const struct settings *s, const char *path, const struct sheet *sheet)
{
	const int code = f->bad ? EXIT_PROBLEM : EXIT_FINE;
	if (!s->json) {
		printf("%s: %d %s of %s in %d %s of %d, %d x %d pixels\n", path, f->count, noun(f->count, "frame", "frames"), s->args[0],
			sheet->rows, noun(sheet->rows, "row", "rows"), sheet->columns, sheet->width, sheet->height);
		fflush(stdout);
		for (int32_t i = 0; i < f->count; i++)
			if (!f->pictures[i].data)
				fail("view", &f->errors[i]);
		return code;
	}
	json_t *o = json_object(), *frames = json_array();
	put_text(o, "file", path);
	put_int(o, "columns", sheet->columns);
	put_int(o, "rows", sheet->rows);
	for (int32_t i = 0; i < f->count; i++) {
		const struct stk_video_frame frame = facts_of(f, i);
		json_t *object = json_object();
		put_int(object, "frame", f->numbers[i]);
		put_real(object, "seconds", frame.begin);
		put_bool(object, "key", frame.key);
		put_int(object, "cell", i);
		if (!f->pictures[i].data)
			put_text(object, "message", f->errors[i].message);
		json_array_append_new(frames, object);
	}
	json_object_set_new(o, "frames", frames);
	const int printed = print_json(o);
	return printed ? printed : code;
}

static int draw(const struct shots *f, const struct settings *s)
{
	const struct sheet_scale scale = {{1, 1, 1}, {0, 0, 0}, false};
	const char *path = s->output ? s->output : "view.png";
	struct stk_tensor_list list = {.count = 0, .device_id = -1};
	struct stk_tensor *ok = calloc((size_t)f->count, sizeof(*ok)); /* the pictures of the frames that could be decoded */
	struct sheet sheet = {0};
	char text[1024];
	int32_t letters = 0;
	int code = EXIT_PROBLEM;
	for (int32_t i = 0; i < f->count; i++) {
		const int32_t n = caption_of(f, i, text);
		letters = n > letters ? n : letters;
		if (ok && f->pictures[i].data)
			ok[list.count++] = f->pictures[i];
	}
	list.samples = ok;
	if (ok && list.count == 0)
		code = fail("view", &f->errors[0]);
	else if (!ok || !sheet_create(&sheet, &list, f->count, (int32_t)s->columns, 1, letters))
		fail_text("view", "out of memory");
	else {
		for (int32_t i = 0; i < f->count; i++) {
			if (f->pictures[i].data)
				sheet_draw(&sheet, i, &f->pictures[i], &scale);
			else
				sheet_cross_out(&sheet, i);
			caption_of(f, i, text);
			sheet_write(&sheet, i, 0, text);
		}
		if (write_png(path, sheet.pixels, sheet.width, sheet.height, text, sizeof(text)))
			code = report(f, s, path, &sheet);
		else
			fail_text("view", "%s", text);
	}
	sheet_destroy(&sheet);
	free(ok);
	return code;
}

int view_video(const struct settings *s, struct stk_storage *storage)
{
	struct stk_video_info info = {.size = sizeof(info)};
	const struct stk_video_request request = {.size = sizeof(request), .path = s->args[0], .stream = -1, .storage = storage};
	struct stk_error err = {0};
	struct shots f = {0};
	enum stk_status status = stk_video_open(&request, &f.video, &err);
	if (holds_only_sound(s->args[0], storage, status))
		return view_sound(s, storage);
	if (!status)
		status = stk_video_describe(f.video, &info, &err);
	if (!status) {
		f.count = (int32_t)(info.frames < s->batch ? info.frames : s->batch);
		f.numbers = calloc((size_t)f.count, sizeof(*f.numbers));
		f.pictures = calloc((size_t)f.count, sizeof(*f.pictures));
		f.errors = calloc((size_t)f.count, sizeof(*f.errors));
		if (!f.numbers || !f.pictures || !f.errors) {
			snprintf(err.message, sizeof(err.message), "out of memory");
			status = STK_NO_MEMORY;
		}
	}
	if (!status)
		status = read_shots(&f, info.frames, &err);
	const int code = status ? fail("view", &err) : draw(&f, s);
	free_shots(&f);
	return code;
}
