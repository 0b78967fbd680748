/* SPDX-License-Identifier: Apache-2.0
 * stoker bench of videos: decodes clips from random positions, one after another on one thread, and reports where the time goes. The rate of a pipeline is
 * about this rate times its number of cores. */
#include "command.h"
#include "output.h"
#include "progress.h"
#include "session.h"
#include "store.h"

#include <stoker/video.h>

#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 1000, FRAMES = 16, STRIDE = 4 };
enum { OPENING, READING, DECODING, CONVERTING, PARTS };
static const char *const parts[] = {"opening files", "reading packets", "decoding", "conversion to RGB"};

static struct {
	char *videos[MOST_FILES];
	int32_t count, others;
} found; /* the videos that ftw has visited, and the number of other files; global, because ftw passes no user pointer to its callback */

static int count_file(const char *path, const struct stat *st, int kind)
{
	(void)st;
	if (kind != FTW_F)
		return 0;
	if (!is_video_name(path))
		found.others++;
	else if ((found.videos[found.count] = strdup(path)))
		found.count++;
	return found.count == MOST_FILES || found.others > MOST_FILES;
}

bool holds_videos(const char *path)
{
	if (is_video_name(path))
		return (found.videos[found.count++] = strdup(path));
	if (!strstr(path, "://"))
		ftw(path, count_file, 16);
	return found.count > found.others;
}

struct sums {
	int64_t clips, frames, decoded, bad;
	double seconds[PARTS], all;
};

/* Returns a pseudorandom number below n; each run of the command draws the same sequence. */
static int64_t draw(uint64_t *state, int64_t n)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((*state >> 33) % (uint64_t)n);
}

/* Decodes a clip from a random frame of the video on, and adds the work to *sums. If the video is shorter than a clip, repeats its last frame. */
static enum stk_status read_clip(struct stk_video *v, int64_t frames, uint64_t *state, struct sums *sums, struct stk_error *err)
{
	const int64_t span = (FRAMES - 1) * STRIDE, first = frames > span ? draw(state, frames - span) : 0;
	int64_t wanted[FRAMES];
	int32_t height, width;
	const uint8_t *pixels;
	for (int i = 0; i < FRAMES; i++)
		wanted[i] = first + i * STRIDE < frames ? first + i * STRIDE : frames - 1;
	struct stk_counter all[16];
	const enum stk_status s = stk_video_read(v, wanted, FRAMES, true, &pixels, &height, &width, err);
	const size_t n = stk_video_counters(v, all, 16);
	sums->frames += (int64_t)counter_value(all, n, "frames_wanted");
	sums->decoded += (int64_t)counter_value(all, n, "packets_decoded");
	sums->seconds[READING] += counter_value(all, n, "read_seconds");
	sums->seconds[DECODING] += counter_value(all, n, "decode_seconds");
	sums->seconds[CONVERTING] += counter_value(all, n, "convert_seconds");
	return s;
}

/* Opens a video and decodes a clip, as a loader does for a sample. Adds times and work to *sums. state: the state of draw(). */
static enum stk_status run_file(const char *path, struct stk_storage *storage, uint64_t *state, struct sums *sums, struct stk_error *err)
{
	struct stk_video_info info = {.size = sizeof(info)};
	const struct stk_video_request request = {.size = sizeof(request), .path = path, .stream = -1, .storage = storage};
	struct stk_video *v = NULL;
	const double began = wall_seconds();
	enum stk_status s = stk_video_open(&request, &v, err);
	if (!s)
		s = stk_video_describe(v, &info, err);
	sums->seconds[OPENING] += wall_seconds() - began;
	if (!s)
		s = read_clip(v, info.frames, state, sums, err);
	stk_video_close(v);
	return s;
}

static double share(const struct sums *m, int part)
{
	return m->all > 0 ? 100 * m->seconds[part] / m->all : 0;
}

static int slowest(const struct sums *m)
{
	int most = 0;
	for (int i = 1; i < PARTS; i++)
		most = m->seconds[i] > m->seconds[most] ? i : most;
	return most;
}

static int print_json_of(const struct sums *m)
{
	static const char *const keys[] = {"opening_percent", "reading_percent", "decoding_percent", "conversion_percent"};
	json_t *o = json_object();
	put_int(o, "videos", found.count);
	put_int(o, "clips", m->clips);
	put_int(o, "failed", m->bad);
	put_real(o, "clips_per_second", (double)m->clips / m->all);
	put_real(o, "frames_per_second", (double)m->frames / m->all);
	put_real(o, "decoded_per_frame", m->frames ? (double)m->decoded / (double)m->frames : 0);
	for (int i = 0; i < PARTS; i++)
		put_real(o, keys[i], share(m, i));
	put_text(o, "bound_by", parts[slowest(m)]);
	return print_json(o);
}

static void print_text(const char *path, const struct sums *m)
{
	printf("%s: %d %s, clips of %d frames with stride %d at random places, on one thread\n", path, found.count,
		noun(found.count, "video", "videos"), FRAMES, STRIDE);
	printf("  %.1f clips/s, %.0f frames/s; %.2f frames are decoded for each that is wanted\n", (double)m->clips / m->all,
		(double)m->frames / m->all, m->frames ? (double)m->decoded / (double)m->frames : 0);
	for (int i = 0; i < PARTS; i++)
		printf("  %5.1f%% %s\n", share(m, i), parts[i]);
	printf("  bound by %s%s\n", parts[slowest(m)],
		slowest(m) == DECODING && m->decoded > 2 * m->frames ? ": key frames at shorter distances would save most of it" : "");
	if (m->bad)
		printf("  %" PRId64 " clips failed\n", m->bad);
}

int bench_video(const struct settings *s)
{
	struct sums sums = {0};
	struct stk_error err = {0};
	uint64_t state = 1;
	const double began = wall_seconds(), seconds = s->seconds > 0 ? s->seconds : 10;
	int64_t attempts = 0;
	struct progress bar;
	struct stk_storage *storage;
	if (!open_storage("bench", s, &storage))
		return EXIT_PROBLEM;
	catch_interrupts();
	progress_begin(&bar, "seconds", (int64_t)ceil(seconds), s->quiet || s->json);
	/* Opens each file once at first, which stores its index, so that later openings find the index, as in later epochs. */
	while (!interrupted() && (attempts < found.count || wall_seconds() - began < seconds)) {
		const char *path = found.videos[attempts < found.count ? attempts : draw(&state, found.count)];
		const enum stk_status status = run_file(path, storage, &state, &sums, &err);
		if (status == STK_CANCELLED || status == STK_NO_MEMORY || status == STK_UNSUPPORTED) {
			progress_end(&bar);
			stk_storage_unref(&storage);
			return fail("bench", &err);
		}
		if (status && sums.bad++ == 0)
			fail("bench", &err);
		sums.clips += !status;
		attempts++;
		progress_update(&bar, (int64_t)fmin(wall_seconds() - began, ceil(seconds)));
		if (sums.bad == attempts && attempts >= 10)
			break;
	}
	progress_end(&bar);
	stk_storage_unref(&storage);
	sums.all = wall_seconds() - began;
	int code = sums.clips ? EXIT_FINE : EXIT_PROBLEM;
	if (s->json && code == EXIT_FINE)
		code = print_json_of(&sums);
	else if (code == EXIT_FINE)
		print_text(s->args[0], &sums);
	for (int32_t i = 0; i < found.count; i++)
		free(found.videos[i]);
	if (interrupted() && sums.clips)
		return stopped_text("bench", "these are the figures of %" PRId64 " clips", sums.clips);
	return code == EXIT_FINE && sums.bad ? EXIT_PROBLEM : code;
}
