/* SPDX-License-Identifier: Apache-2.0
 * stoker inspect FILE for a sound: prints its header, then decodes it, so that damage is found. */
#include "command.h"
#include "files.h"
#include "output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 1 << 16 }; /* number of samples, of all channels together, that are decoded at a time */

/* Decodes the whole file and drops the samples. Returns the first error. */
static enum stk_status decode(struct stk_audio *a, const struct stk_audio_info *info, struct stk_error *err)
{
	const int64_t most = FRAMES / info->channels ? FRAMES / info->channels : 1;
	const size_t frame = sizeof(float) * (size_t)info->channels;
	float *samples = malloc((size_t)most * frame);
	enum stk_status status = STK_OK;
	if (!samples) {
		snprintf(err->message, sizeof(err->message), "out of memory");
		return err->code = STK_NO_MEMORY;
	}
	for (int64_t at = 0; at < info->frames && status == STK_OK; at += most) {
		const int64_t n = info->frames - at < most ? info->frames - at : most;
		status = stk_audio_read(a, at, n, STK_FLOAT, false, samples, (size_t)n * frame, err);
	}
	free(samples);
	return status;
}

static int print_as_json(const char *path, const struct stk_audio_info *info, const struct stk_error *err)
{
	json_t *o = json_object();
	put_text(o, "file", path);
	put_bool(o, "good", err->code == STK_OK);
	if (info->format) {
		put_text(o, "format", info->format);
		put_text(o, "coding", info->coding);
		put_int(o, "rate", info->rate);
		put_int(o, "channels", info->channels);
		put_int(o, "bits", info->bits);
		put_int(o, "frames", info->frames);
		put_int(o, "missing_frames", info->missing);
		put_real(o, "seconds", (double)info->frames / info->rate);
	}
	put_text(o, "message", err->message);
	const int printed = print_json(o);
	return printed ? printed : err->code ? EXIT_PROBLEM : EXIT_FINE;
}

int inspect_sound(const struct settings *s, struct stk_storage *storage)
{
	const char *path = s->args[0];
	struct stk_audio_info info = {.size = sizeof(info)};
	struct stk_audio_request request = {.size = sizeof(request), .path = path, .storage = storage};
	struct stk_audio *a = NULL;
	struct stk_error err = {0}, ignored = {0};
	enum stk_status status = stk_audio_open(&request, &a, &info, &err);
	if (status == STK_OK) {
		status = decode(a, &info, &err);
	} else { /* opens a damaged file anyway, to print what its header says */
		request.lenient = true;
		if (stk_audio_open(&request, &a, &info, &ignored) != STK_OK)
			info.format = NULL;
	}
	stk_audio_close(a);
	if (s->json)
		return print_as_json(path, &info, &err);
	if (info.format)
		printf("%s: %s, %s, %d %s of %d bits, %d Hz, %.3f s (%" PRId64 " frames)\n", path, info.format, info.coding, info.channels,
			noun(info.channels, "channel", "channels"), info.bits, info.rate, (double)info.frames / info.rate, info.frames);
	return status == STK_OK ? EXIT_FINE : fail_text("inspect", "%s", err.message);
}
