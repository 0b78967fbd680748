/* SPDX-License-Identifier: Apache-2.0 */
#include "media/ffmpeg.h"

#include "base/error.h"
#include "media/video.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_OF(x) #x
#define NUMBER_TEXT(x) TEXT_OF(x)

struct library {
	const char *name, *version;
	const char *const *functions;
	void **const *slots;
	size_t count;
};

/* Opens a library, or returns NULL. suffix: "-stoker" for the copy in a wheel, "" for the system's. RTLD_NODELETE keeps the library mapped after dlclose,
 * since libraries that FFmpeg depends on register functions that run at the end of the process. */
static void *open_library(const struct library *l, const char *suffix)
{
	char file[64];
	snprintf(file, sizeof file, "%s%s.so.%s", l->name, suffix, l->version);
	return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* Opens a library, unless *handle is the open library already, and finds its functions. */
static enum stk_status load_library(void **handle, const struct library *l, const char *suffix, struct stk_error *err)
{
	if (!*handle)
		*handle = open_library(l, suffix);
	if (!*handle)
		return stk__fail(err, STK_UNSUPPORTED,
			"video needs FFmpeg's %s%s.so.%s, the version that this build of Stoker was made for, and it cannot be loaded (%s): install the system's FFmpeg "
			"libraries (Debian: libavformat-dev libavcodec-dev libavutil-dev) and build Stoker against them",
			l->name, suffix, l->version, dlerror());
	for (size_t i = 0; i < l->count; i++) {
		*l->slots[i] = dlsym(*handle, l->functions[i]);
		if (!*l->slots[i])
			return stk__fail(err, STK_UNSUPPORTED, "video needs FFmpeg; the %s%s.so.%s here lacks %s", l->name, suffix,
				l->version, l->functions[i]);
	}
	return STK_OK;
}

static enum stk_status load_all(struct stk_ffmpeg *f, struct stk_error *err)
{
#define NAME_ROW(name, result, params) #name,
#define SLOT_ROW(name, result, params) (void **)&f->name,
	static const char *const util_names[] = {STK_AVUTIL_FUNCTIONS(NAME_ROW)}, *const codec_names[] = {STK_AVCODEC_FUNCTIONS(NAME_ROW)},
				 *const format_names[] = {STK_AVFORMAT_FUNCTIONS(NAME_ROW)};
	void **const util_slots[] = {STK_AVUTIL_FUNCTIONS(SLOT_ROW)}, **const codec_slots[] = {STK_AVCODEC_FUNCTIONS(SLOT_ROW)},
		     **const format_slots[] = {STK_AVFORMAT_FUNCTIONS(SLOT_ROW)};
#undef NAME_ROW
#undef SLOT_ROW
#define COUNT(names) (sizeof(names) / sizeof *(names))
	const struct library util = {"libavutil", NUMBER_TEXT(LIBAVUTIL_VERSION_MAJOR), util_names, util_slots, COUNT(util_names)};
	const struct library codec = {"libavcodec", NUMBER_TEXT(LIBAVCODEC_VERSION_MAJOR), codec_names, codec_slots, COUNT(codec_names)};
	const struct library format = {
		"libavformat", NUMBER_TEXT(LIBAVFORMAT_VERSION_MAJOR), format_names, format_slots, COUNT(format_names)};
#undef COUNT
	/* A wheel holds all three libraries, so the first decides for the others. Trying both names for each would be slow: a name that is not found costs a
	 * search through all directories, and this function runs for each video that is opened. */
	f->util = open_library(&util, "-stoker");
	const char *suffix = f->util ? "-stoker" : "";
	enum stk_status s = load_library(&f->util, &util, suffix, err);
	if (!s)
		s = load_library(&f->codec, &codec, suffix, err);
	return s ? s : load_library(&f->format, &format, suffix, err);
}

enum stk_status stk__ffmpeg_load(struct stk_ffmpeg *f, struct stk_error *err)
{
	*f = (struct stk_ffmpeg){0};
	enum stk_status s = load_all(f, err);
	if (s)
		stk__ffmpeg_unload(f);
	else if (f->av_log_get_level() == AV_LOG_INFO) /* this is FFmpeg's default, so the process has not chosen a level */
		f->av_log_set_level(AV_LOG_QUIET);
	return s;
}

const char *stk__ffmpeg_version(void)
{
	struct stk_ffmpeg f;
	if (stk__ffmpeg_load(&f, NULL))
		return "";
	return f.av_version_info(); /* the libraries stay loaded, since the text lies in them */
}

void stk__ffmpeg_unload(struct stk_ffmpeg *f)
{
	void *const libraries[] = {f->format, f->codec, f->util};
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
		if (libraries[i])
			dlclose(libraries[i]);
	*f = (struct stk_ffmpeg){0};
}

const uint8_t *stk__ffmpeg_side_data(const struct stk_ffmpeg *f, const AVStream *stream, enum AVPacketSideDataType type, size_t *size)
{
#if STK_SIDE_DATA_IN_PARAMETERS
	const AVCodecParameters *p = stream->codecpar;
	(void)f;
	for (int i = 0; i < p->nb_coded_side_data; i++)
		if (p->coded_side_data[i].type == type) {
			*size = p->coded_side_data[i].size;
			return p->coded_side_data[i].data;
		}
	return NULL;
#else
	return f->av_stream_get_side_data(stream, type, size);
#endif
}

enum stk_status stk__ffmpeg_fail(const struct stk_ffmpeg *f, int code, const char *what, struct stk_error *err)
{
	char text[AV_ERROR_MAX_STRING_SIZE] = "";
	if (code == AVERROR(ENOMEM))
		return stk__fail(err, STK_NO_MEMORY, "%s: out of memory", what);
	f->av_strerror(code, text, sizeof text);
	const bool lacks = code == AVERROR_DECODER_NOT_FOUND || code == AVERROR_DEMUXER_NOT_FOUND || code == AVERROR_PATCHWELCOME;
	return stk__fail(err, lacks ? STK_UNSUPPORTED : STK_CORRUPT, "%s: %s", what, text);
}
