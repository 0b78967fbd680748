/* SPDX-License-Identifier: Apache-2.0
 * stoker pack-video: writes the camera images of a NuScenes data set as videos, one for each camera and scene.
 *
 * The folder holds SCENE/CAMERA.mp4 and index.json, which lists each scene's samples in the order of the frames. The index is written first, as incomplete,
 * so that a second run with other settings is refused; the last step marks it as complete. A video gets its final name after its number of frames and its
 * size were checked. */
#include "command.h"
#include "encode.h"
#include "files.h"
#include "output.h"
#include "progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096, FORMAT = 1 };
static const double RATE = 2; /* key frames of NuScenes per second */

struct packing {
	const struct settings *settings;
	struct encoder_settings encoder;
	struct stk_nuscenes_view *view;
	struct stk_nuscenes_info info;
	struct stk_image_decoder *decoder;
	const char *folder, *tables;
	char table_name[256];
	struct progress bar;
	uint8_t *pixels;
	int32_t width, height; /* size in pixels of the video that is being written; 0: not known yet */
	int64_t images, videos, kept, bytes;
	bool failure_printed; /* true if a failure has occurred, whose reason was printed */
};

static bool refuse(struct packing *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(struct packing *p, const char *fmt, ...)
{
	char text[1600];
	va_list list;
	va_start(list, fmt);
	vsnprintf(text, sizeof text, fmt, list);
	va_end(list);
	progress_end(&p->bar);
	if (!p->failure_printed)
		fail_text("pack-video", "%s", text);
	p->failure_printed = true;
	return false;
}

static bool failed(struct packing *p, const struct stk_error *err)
{
	progress_end(&p->bar);
	if (!p->failure_printed)
		fail("pack-video", err);
	p->failure_printed = true;
	return false;
}

/* ---- the data set ---- */

/* Sets p->tables to the folder of tables that the user has named, or to the only one in the data set; refuses several, or none. */
static bool find_tables(struct packing *p)
{
	const char *root = p->settings->args[0];
	struct dirent **entries = NULL;
	int found = 0;
	if (p->settings->tables) {
		p->tables = p->settings->tables;
		return true;
	}
	const int n = scandir(root, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (holds_tables(root, entries[i]->d_name) && found++ == 0)
			snprintf(p->table_name, sizeof p->table_name, "%s", entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	p->tables = p->table_name;
	if (!found)
		return refuse(p, "%s holds no folder with NuScenes' tables, as v1.0-trainval: sample_data.json and the others", root);
	return found == 1 || refuse(p, "%s holds several folders of tables: name one (--tables %s)", root, p->tables);
}

static bool open_set(struct packing *p)
{
	struct stk_error err = {0};
	const struct stk_nuscenes_options o = {.size = sizeof o, .root = p->settings->args[0], .version = p->tables};
	p->info.size = sizeof p->info;
	if (stk_nuscenes_open(&o, &p->view, &err) || stk_nuscenes_describe(p->view, &p->info, &err) ||
		stk_image_decoder_create(&p->decoder, &err))
		return failed(p, &err);
	return true;
}

/* Returns whether a scene's or camera's name can be used as a file's name: it must not be empty, begin with a dot or have a slash. */
static bool is_name(const char *name)
{
	return name[0] && name[0] != '.' && !strchr(name, '/');
}

/* Refuses two scenes of one name: the second one's videos would have the paths of the first one's. */
static bool check_names(struct packing *p)
{
	for (int64_t i = 0; i < p->info.sequences; i++) {
		const char *name = stk_nuscenes_scene(p->view, stk_nuscenes_sequence(p->view, i));
		for (int64_t k = 0; k < i; k++)
			if (strcmp(name, stk_nuscenes_scene(p->view, stk_nuscenes_sequence(p->view, k))) == 0)
				return refuse(p,
					"two scenes in %s/%s/scene.json have the name \"%s\", which names the folder of their videos: rename one",
					p->settings->args[0], p->tables, name);
	}
	return true;
}

/* ---- the index ---- */

static json_t *scene_json(struct packing *p, int64_t scene)
{
	json_t *samples = json_array(), *out = json_object();
	const int64_t first = stk_nuscenes_sequence(p->view, scene), end = stk_nuscenes_sequence(p->view, scene + 1);
	for (int64_t i = first; i < end; i++) {
		char token[512] = "";
		struct stk_desc desc;
		struct stk_error err = {0};
		if (stk_nuscenes_field(p->view, i, 0, "sample_token", &desc, token, sizeof token - 1, &err))
			failed(p, &err);
		json_array_append_new(samples, json_string(token));
	}
	json_object_set_new(out, "name", json_string(stk_nuscenes_scene(p->view, first)));
	json_object_set_new(out, "samples", samples);
	return out;
}

static json_t *index_json(struct packing *p, bool complete)
{
	json_t *out = json_object(), *cameras = json_array(), *scenes = json_array();
	json_object_set_new(out, "format", json_integer(FORMAT));
	json_object_set_new(out, "complete", json_boolean(complete));
	json_object_set_new(out, "tables", json_string(p->tables));
	json_object_set_new(out, "codec", json_string(p->encoder.codec));
	json_object_set_new(out, "gop", json_integer(p->encoder.gop));
	json_object_set_new(out, "quality", p->encoder.lossless ? json_null() : json_integer(encoder_quality(&p->encoder)));
	json_object_set_new(out, "rate", json_real(RATE));
	for (int32_t c = 0; c < p->info.cameras; c++)
		json_array_append_new(cameras, json_string(stk_nuscenes_camera(p->view, c)));
	for (int64_t i = 0; i < p->info.sequences; i++)
		json_array_append_new(scenes, scene_json(p, i));
	json_object_set_new(out, "cameras", cameras);
	json_object_set_new(out, "scenes", scenes);
	return out;
}

static void index_path(const struct packing *p, char path[PATH])
{
	snprintf(path, PATH, "%s/index.json", p->folder);
}

static bool write_index(struct packing *p, bool complete)
{
	char path[PATH];
	json_t *index = index_json(p, complete);
	char *text = json_dumps(index, JSON_INDENT(1));
	json_decref(index);
	index_path(p, path);
	errno = ENOMEM;
	const bool ok = text && write_file(path, text, strlen(text));
	const int code = errno;
	free(text);
	return !p->failure_printed && (ok || refuse(p, "%s: %s", path, strerror(code)));
}

/* Reads the index that an earlier run has written. If it cannot be read, prints why and returns NULL. */
static json_t *read_index(struct packing *p, const char *path)
{
	struct stat st;
	json_error_t error;
	const int fd = open_regular(path, &st);
	if (fd < 0) {
		refuse(p, "%s: %s", path, errno == EINVAL ? "not a file" : strerror(errno));
		return NULL;
	}
	json_t *stored = json_loadfd(fd, 0, &error);
	close(fd);
	if (!stored)
		refuse(p, "%s: %s", path, error.text);
	return stored;
}

/* Compares an existing index with the one that this run would write. If they differ, prints the difference and returns false. */
static bool check_index(struct packing *p, json_t *stored)
{
	static const char *const keys[] = {"format", "tables", "codec", "gop", "quality", "cameras", "scenes"};
	json_t *expected = index_json(p, false);
	bool same = true;
	for (size_t i = 0; i < sizeof keys / sizeof *keys && same && !p->failure_printed; i++) {
		json_t *a = json_object_get(stored, keys[i]), *b = json_object_get(expected, keys[i]);
		if (json_equal(a, b))
			continue;
		char *was = a && !json_is_array(a) ? json_dumps(a, JSON_ENCODE_ANY) : NULL;
		char *now = was ? json_dumps(b, JSON_ENCODE_ANY) : NULL;
		same = refuse(p,
			"%s holds videos of other settings: %s%s%s%s%s; give the same settings and data set, or another folder (-o)",
			p->folder, keys[i], was ? " is " : " differ", was ? was : "", was ? " there, not " : "", now ? now : "");
		free(was);
		free(now);
	}
	json_decref(expected);
	return same && !p->failure_printed;
}

/* Returns whether this is the name of an index that an interrupted run was writing. */
static bool is_part(const char *name)
{
	const size_t n = strlen(name);
	return strncmp(name, "index.json.", 11) == 0 && n > 16 && strcmp(name + n - 5, ".part") == 0;
}

/* Makes the folder, which may exist if it is empty, and writes the index as incomplete. If the folder has an index already, only checks that an earlier run
 * with the same settings has written it. */
static bool prepare_folder(struct packing *p)
{
	char path[PATH];
	struct stat st;
	struct dirent **entries = NULL;
	if (mkdir(p->folder, 0777) && errno != EEXIST)
		return refuse(p, "%s: %s", p->folder, strerror(errno));
	index_path(p, path);
	if (stat(path, &st) == 0) {
		json_t *stored = read_index(p, path);
		const bool same = stored && check_index(p, stored);
		json_decref(stored);
		return same;
	}
	const int n = scandir(p->folder, &entries, NULL, alphasort);
	int others = 0;
	for (int i = 0; i < n; i++) {
		others += strcmp(entries[i]->d_name, ".") && strcmp(entries[i]->d_name, "..") && !is_part(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	if (n < 0)
		return refuse(p, "%s: %s", p->folder, strerror(errno));
	if (others)
		return refuse(p, "%s has files in it, and no index.json of pack-video: name a new folder (-o)", p->folder);
	return write_index(p, false);
}

/* ---- a video ---- */

/* Decodes an image to p->pixels. The first image of a video sets p->width and p->height; later images of another size are refused. */
static bool load_image(struct packing *p, int64_t sample, int32_t camera)
{
	char path[PATH];
	int64_t shape[3];
	struct stk_error err = {0};
	if (stk_nuscenes_file(p->view, sample, camera, path, sizeof path) >= sizeof path)
		return refuse(p, "the path of an image is too long");
	const struct stk_image_request request = {.size = sizeof request, .path = path, .type = STK_RGB, .dtype = STK_UINT8};
	if (stk_image_open(p->decoder, &request, shape, &err))
		return failed(p, &err);
	if (!p->width) {
		p->height = (int32_t)shape[0];
		p->width = (int32_t)shape[1];
		free(p->pixels);
		p->pixels = malloc((size_t)(shape[0] * shape[1] * 3));
		if (!p->pixels)
			return refuse(p, "out of memory");
	}
	if (shape[0] != p->height || shape[1] != p->width)
		return refuse(p, "%s has %" PRId64 " x %" PRId64 " pixels, and the images before it in its video have %d x %d", path,
			shape[1], shape[0], p->width, p->height);
	if (stk_image_read(p->decoder, p->pixels, (size_t)p->width * (size_t)p->height * 3, &err))
		return failed(p, &err);
	return true;
}

/* Checks that a video can be opened, that it has `frames` frames and, if it is new, that it has the size of the images. Adds its size in bytes to p->bytes. */
static bool check_video(struct packing *p, const char *path, int64_t frames, bool new)
{
	const struct stk_video_request request = {.size = sizeof request, .path = path, .stream = -1};
	struct stk_video_info info = {.size = sizeof info};
	struct stk_video *v = NULL;
	struct stk_error err = {0};
	struct stat st;
	bool ok = stk_video_open(&request, &v, &err) == STK_OK && stk_video_describe(v, &info, &err) == STK_OK;
	if (!ok)
		failed(p, &err);
	else if (info.frames != frames || (new && (info.width != p->width || info.height != p->height)))
		ok = refuse(p, "%s has %" PRId64 " frames of %d x %d pixels instead of %" PRId64 "%s", path, info.frames, info.width,
			info.height, frames,
			new ? ": the ffmpeg program here does not keep them" : ": remove it, and start the command again");
	stk_video_close(v);
	if (ok && stat(path, &st) == 0)
		p->bytes += st.st_size;
	return ok;
}

/* Reports that ffmpeg has failed, and what to do if the reason may be an odd size. */
static bool encoding_failed(struct packing *p, const char *part, const struct encoder_error *failure)
{
	const bool is_odd = (p->width % 2 || p->height % 2) && !p->encoder.lossless && strcmp(p->encoder.codec, "vp9") != 0;
	if (!is_odd || interrupted())
		return refuse(p, "%s: %s", part, failure->text);
	return refuse(p,
		"%s: the images have %d x %d pixels, and many encoders need an even width and height: give --codec vp9, or --lossless with h264 or "
		"hevc; %s",
		part, p->width, p->height, failure->text);
}

static bool encode(struct packing *p, const char *part, int fd, int64_t first, int64_t end, int32_t camera)
{
	struct encoder_error failure;
	struct encoder *e = NULL;
	p->width = p->height = 0;
	for (int64_t i = first; i < end; i++) {
		bool ok = load_image(p, i, camera);
		if (ok && !e && !(e = encoder_start(&p->encoder, p->width, p->height, fd, &failure)))
			return refuse(p, "%s", failure.text);
		if (ok && !encoder_add(e, p->pixels, &failure))
			ok = encoding_failed(p, part, &failure);
		if (!ok) {
			encoder_stop(e);
			return false;
		}
		progress_update(&p->bar, ++p->images);
	}
	return encoder_finish(e, &failure) || encoding_failed(p, part, &failure);
}

static bool pack_video(struct packing *p, int64_t scene, int32_t camera)
{
	char folder[PATH], path[PATH + 300], part[PATH + 300];
	const int64_t first = stk_nuscenes_sequence(p->view, scene), end = stk_nuscenes_sequence(p->view, scene + 1);
	const char *name = stk_nuscenes_scene(p->view, first), *channel = stk_nuscenes_camera(p->view, camera);
	struct stat st;
	if (!is_name(name) || !is_name(channel))
		return refuse(p, "a scene or a camera has the name \"%s\", which cannot be that of a file", is_name(name) ? channel : name);
	if (snprintf(folder, sizeof folder, "%s/%s", p->folder, name) >= (int)sizeof folder)
		return refuse(p, "the path %s is too long", p->folder);
	snprintf(path, sizeof path, "%s/%.250s.mp4", folder, channel);
	snprintf(part, sizeof part, "%s/.%.250s.mp4.part", folder, channel);
	if (stat(path, &st) == 0) {
		p->kept++;
		progress_update(&p->bar, p->images += end - first);
		return check_video(p, path, end - first, false);
	}
	if (mkdir(folder, 0777) && errno != EEXIST)
		return refuse(p, "%s: %s", folder, strerror(errno));
	if (lstat(folder, &st) || !S_ISDIR(st.st_mode))
		return refuse(p, "%s: it is not a folder, but a link or a file: remove it", folder);
	/* ffmpeg gets the opened file and not its name, at which another process could place a link meanwhile. */
	if (unlink(part) && errno != ENOENT)
		return refuse(p, "%s: %s", part, strerror(errno));
	const int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return refuse(p, "%s: %s", part, strerror(errno));
	const bool encoded = encode(p, part, fd, first, end, camera);
	close(fd);
	bool ok = encoded && check_video(p, part, end - first, true);
	if (ok && rename(part, path))
		ok = refuse(p, "%s: %s", path, strerror(errno));
	if (!ok)
		unlink(part);
	p->videos += ok;
	return ok;
}

static bool pack_all(struct packing *p)
{
	for (int64_t i = 0; i < p->info.sequences; i++)
		for (int32_t c = 0; c < p->info.cameras; c++)
			if (!pack_video(p, i, c) || interrupted())
				return refuse(p, "interrupted: start the command again to continue");
	return write_index(p, true);
}

/* Checks, before anything is written, that this machine can encode and decode videos. */
static bool check_machine(struct packing *p)
{
	const struct stk_video_request request = {.size = sizeof request, .data = "", .stream = -1};
	struct stk_video *v = NULL;
	struct stk_error err = {0};
	if (!program_exists("ffmpeg"))
		return refuse(
			p, "the ffmpeg program encodes the videos, and is not on the PATH: install it (Debian: apt-get install ffmpeg)");
	/* The request is an empty file, for which a build that can read videos returns STK_CORRUPT. */
	if (stk_video_open(&request, &v, &err) == STK_UNSUPPORTED)
		return failed(p, &err);
	return true;
}

static int print_result(const struct packing *p)
{
	char bytes[32];
	if (p->settings->json) {
		json_t *out = json_object();
		put_int(out, "videos", p->videos + p->kept);
		put_int(out, "kept", p->kept);
		put_int(out, "frames", p->images);
		put_int(out, "bytes", p->bytes);
		return print_json(out);
	}
	printf("%s: %" PRId64 " %s of %" PRId64 " %s, %s", p->folder, p->videos + p->kept, noun(p->videos + p->kept, "video", "videos"),
		p->images, noun(p->images, "frame", "frames"), size_text(p->bytes, bytes));
	if (p->kept)
		printf("; %" PRId64 " of them %s there already", p->kept, noun(p->kept, "was", "were"));
	printf("\n");
	return EXIT_FINE;
}

static int run_pack_video(const struct settings *s)
{
	struct packing p = {.settings = s,
		.folder = s->output,
		.encoder = {.codec = s->codec ? s->codec : "hevc",
			.gop = s->gop ? s->gop : 30,
			.quality = s->quality ? s->quality : -1,
			.lossless = s->lossless,
			.threads = s->threads,
			.rate = RATE}};
	if (!s->output)
		return usage_error(&command_pack_video, "say where the videos go (-o DIR)");
	if (!encoder_knows(p.encoder.codec))
		return usage_error(&command_pack_video, "--codec is one of %s, not \"%s\"", encoder_codecs, p.encoder.codec);
	if (s->lossless && (s->quality || !strchr("h", p.encoder.codec[0])))
		return usage_error(&command_pack_video, "--lossless is for h264 and hevc, and without --quality");
	if (strlen(s->output) > PATH - 300)
		return usage_error(&command_pack_video, "the folder's path is too long");
	bool ok = check_machine(&p) && find_tables(&p) && open_set(&p) && check_names(&p) && prepare_folder(&p);
	if (ok) {
		encoder_catch_signals();
		progress_begin(&p.bar, "images", p.info.samples * p.info.cameras, s->quiet);
		ok = pack_all(&p);
		progress_end(&p.bar);
	}
	free(p.pixels);
	stk_image_decoder_destroy(p.decoder);
	stk_nuscenes_close(p.view);
	return ok ? print_result(&p) : EXIT_PROBLEM;
}

static const struct option options[] = {
	OPTION_TEXT_OF("output", 'o', output, "DIR", "Folder for the videos; created if it does not exist."),
	OPTION_TEXT_OF("codec", 'c', codec, "NAME", "hevc (the default), h264, av1 or vp9."),
	OPTION_INT_OF("gop", 'g', gop, 1, 10000,
		"Frames from one key frame to the next (default: 30). A small N makes random frames faster, a large one makes files smaller."),
	OPTION_INT_OF(
		"quality", 'r', quality, 1, 63, "The codec's rate factor, where less is better (default: 22; h264 20; av1 and vp9 28)."),
	OPTION_FLAG_OF("lossless", 0, lossless, "Keep the pixels as they are, as RGB (h264 or hevc)."),
	OPTION_TEXT_OF("tables", 0, tables, "NAME", "Name of the tables' folder, as v1.0-mini (default: the only one there)."),
	OPTION_THREADS, OPTION_QUIET, OPTION_JSON, {0}};

const struct command command_pack_video = {
	.name = "pack-video",
	.summary = "writes the cameras of a NuScenes data set as videos",
	.usage = "ROOT -o DIR",
	.details = "Writes DIR/SCENE/CAMERA.mp4, one video for each camera and scene, whose frames are the key frames of the tables, and "
		   "index.json, which lists the samples of each scene: sample k is frame k of the scene's videos. The ffmpeg program "
		   "encodes. Each video is read back before it gets its name, so that no half-written file has one. If the command was "
		   "interrupted, start it again: it writes the videos that are missing. The tables and the other sensors stay in ROOT.",
	.example = "stoker pack-video /data/nuscenes -o videos --gop 30     # then NuScenes(\"/data/nuscenes\", video_root=\"videos\")",
	.options = options,
	.arg = "ROOT",
	.min_args = 1,
	.max_args = 1,
	.run = run_pack_video,
};
