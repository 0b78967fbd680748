/* SPDX-License-Identifier: Apache-2.0
 * stoker inspect FILE of a video: reports its stream, decodes every frame, and names those that fail. */
#include "command.h"
#include "output.h"
#include "progress.h"

#include <stoker/inspect.h>
#include <stoker/video.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NAMED = 20 };

bool is_video_name(const char *path)
{
	const char *dot = strrchr(path, '.'), *glob;
	for (size_t i = 0; dot && (glob = stk_video_glob(i)); i++)
		if (strcasecmp(dot, strchr(glob, '.')) == 0)
			return true;
	return false;
}

bool holds_only_sound(const char *path, struct stk_storage *storage, enum stk_status status)
{
	const struct stk_audio_request request = {.size = sizeof(request), .path = path, .lenient = true, .storage = storage};
	struct stk_audio_info info = {.size = sizeof(info)};
	struct stk_audio *a = NULL;
	struct stk_error err = {0};
	if (status != STK_UNSUPPORTED || stk_audio_open(&request, &a, &info, &err) != STK_OK)
		return false;
	stk_audio_close(a);
	return true;
}

/* Facts about a video, from decoding all frames. */
struct video_census {
	struct stk_video_info info;
	int64_t longest_group, damaged; /* maximum number of frames from one key frame to the next; number of frames that fail to decode */
	int64_t read;                   /* number of frames decoded or failed so far; fewer than all if the user interrupted the command */
	double shortest, longest;       /* shortest and longest time for which a frame is shown, in seconds */
	char named[NAMED][sizeof(((struct stk_error *)NULL)->message)];
};

static enum stk_status count_frames(struct stk_video *v, struct video_census *c, struct stk_error *err)
{
	int64_t group = 0;
	for (int64_t i = 0; i < c->info.frames; i++) {
		struct stk_video_frame frame;
		enum stk_status s = stk_video_frame(v, i, &frame, err);
		if (s)
			return s;
		group = frame.key ? 1 : group + 1;
		c->longest_group = group > c->longest_group ? group : c->longest_group;
		c->shortest = i == 0 || frame.duration < c->shortest ? frame.duration : c->shortest;
		c->longest = frame.duration > c->longest ? frame.duration : c->longest;
	}
	return STK_OK;
}

static enum stk_status decode_frames(struct stk_video *v, struct video_census *c, bool quiet, struct stk_error *err)
{
	struct progress bar;
	enum stk_status fatal = STK_OK;
	catch_interrupts();
	progress_begin(&bar, "frames", c->info.frames, quiet);
	for (int64_t i = 0; i < c->info.frames && !fatal && !interrupted(); i++) {
		const uint8_t *pixels;
		int32_t height, width;
		enum stk_status s = stk_video_read(v, &i, 1, false, &pixels, &height, &width, err);
		if (s == STK_NO_MEMORY || s == STK_CANCELLED || s == STK_IO) {
			fatal = s;
			break;
		}
		if (s && c->damaged < NAMED)
			snprintf(c->named[c->damaged], sizeof(c->named[0]), "%s", err->message);
		c->damaged += s != STK_OK;
		progress_update(&bar, ++c->read);
	}
	progress_end(&bar);
	return fatal;
}

/* Returns whether the frames are shown for different times. A difference of a millisecond does not count, because containers such as Matroska round times to
 * milliseconds. */
static bool has_variable_rate(const struct video_census *c)
{
	return c->longest - c->shortest > 1.5e-3;
}

static void print_text(const char *path, const struct video_census *c)
{
	const struct stk_video_info *i = &c->info;
	printf("%s: %s in %s\n", path, i->codec, i->container);
	printf("  %" PRId64 " frames of %d x %d%s, %.3f s from %.3f s on, ", i->frames, i->width, i->height,
		i->rotation ? ", turned as the file asks" : "", i->duration, i->begin);
	if (has_variable_rate(c))
		printf("variable rate, %.2f frames a second on average\n", i->average_fps);
	else
		printf("%.2f frames a second\n", i->average_fps);
	printf("  %" PRId64 " key frames, at most %" PRId64 " frames from one to the next; %.0f kbit/s\n", i->keys, c->longest_group,
		i->bit_rate / 1000);
	if (c->read < i->frames)
		printf("  interrupted: %" PRId64 " of the frames were decoded\n", c->read);
	if (c->damaged)
		printf("  %" PRId64 " frames cannot be decoded:\n", c->damaged);
	for (int64_t k = 0; k < c->damaged && k < NAMED; k++)
		printf("    %s\n", c->named[k]);
}

static int print_facts(const char *path, const struct video_census *c)
{
	json_t *object = json_object(), *named = json_array();
	put_text(object, "file", path);
	put_text(object, "codec", c->info.codec);
	put_text(object, "container", c->info.container);
	put_int(object, "frames", c->info.frames);
	put_int(object, "width", c->info.width);
	put_int(object, "height", c->info.height);
	put_int(object, "rotation", c->info.rotation);
	put_real(object, "begin", c->info.begin);
	put_real(object, "end", c->info.end);
	put_real(object, "bit_rate", c->info.bit_rate);
	put_int(object, "key_frames", c->info.keys);
	put_int(object, "longest_group", c->longest_group);
	put_bool(object, "variable_rate", has_variable_rate(c));
	put_bool(object, "interrupted", c->read < c->info.frames);
	put_int(object, "damaged", c->damaged);
	for (int64_t k = 0; k < c->damaged && k < NAMED; k++)
		json_array_append_new(named, text_json(c->named[k]));
	json_object_set_new(object, "failures", named);
	return print_json(object);
}

int inspect_video(const struct settings *settings, struct stk_storage *storage)
{
	const char *path = settings->args[0];
	const bool json = settings->json;
	struct video_census c = {.info = {.size = sizeof(c.info)}};
	struct stk_error err = {0};
	struct stk_video *v = NULL;
	const struct stk_video_request request = {.size = sizeof(request), .path = path, .stream = -1, .storage = storage};
	enum stk_status s = stk_video_open(&request, &v, &err);
	if (holds_only_sound(path, storage, s))
		return inspect_sound(settings, storage);
	if (!s)
		s = stk_video_describe(v, &c.info, &err);
	if (!s)
		s = count_frames(v, &c, &err);
	if (!s)
		s = decode_frames(v, &c, json || settings->quiet, &err);
	int code = s ? fail("inspect", &err) : c.damaged ? EXIT_PROBLEM : EXIT_FINE;
	if (!s && json)
		code = print_facts(path, &c) == EXIT_FINE ? code : EXIT_PROBLEM;
	else if (!s)
		print_text(path, &c);
	stk_video_close(v);
	if (!s && c.read < c.info.frames)
		code = EXIT_INTERRUPTED;
	return code;
}
