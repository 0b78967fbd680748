/* SPDX-License-Identifier: Apache-2.0 */
#include "encode.h"
#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

const char encoder_codecs[] = "hevc h264 av1 vp9";

struct encoder {
	pid_t child;
	int pipe;           /* descriptor of the pipe to the child's standard input */
	FILE *child_stderr; /* file that receives the child's standard error */
	size_t picture;
};

void encoder_catch_signals(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	catch_interrupts();
	sigaction(SIGPIPE, &ignore, NULL); /* a write to an ffmpeg that has ended then fails with EPIPE */
}

bool encoder_knows(const char *codec)
{
	const size_t n = strlen(codec);
	for (const char *at = encoder_codecs; *at; at += strcspn(at, " "), at += strspn(at, " "))
		if (strcspn(at, " ") == n && strncmp(at, codec, n) == 0)
			return true;
	return false;
}

int64_t encoder_quality(const struct encoder_settings *s)
{
	const bool new_codec = strcmp(s->codec, "av1") == 0 || strcmp(s->codec, "vp9") == 0;
	return s->quality >= 0 ? s->quality : new_codec ? 28 : strcmp(s->codec, "hevc") == 0 ? 22 : 20;
}

bool program_exists(const char *name)
{
	char path[4096];
	const char *at = getenv("PATH");
	while (at && *at) {
		const size_t n = strcspn(at, ":");
		if (snprintf(path, sizeof path, "%.*s/%s", (int)n, at, name) < (int)sizeof path && access(path, X_OK) == 0)
			return true;
		at += n + (at[n] == ':');
	}
	return false;
}

/* ---- the command line ---- */

enum { MOST_WORDS = 64, MOST_TEXT = 2048, OUTPUT = 3 /* descriptor of the video in the child */ };

struct words {
	char *word[MOST_WORDS + 1];
	char text[MOST_TEXT];
	size_t count, used;
};

/* Formats a text, splits it at its blanks, and appends the words. Words after the first MOST_WORDS are dropped. */
__attribute__((format(printf, 2, 3))) static void add(struct words *w, const char *fmt, ...)
{
	va_list list;
	va_start(list, fmt);
	char *at = w->text + w->used;
	const int n = vsnprintf(at, MOST_TEXT - w->used, fmt, list);
	va_end(list);
	w->used += (size_t)n + 1;
	for (char *rest = NULL, *word = strtok_r(at, " ", &rest); word && w->count < MOST_WORDS; word = strtok_r(NULL, " ", &rest))
		w->word[w->count++] = word;
}

static void add_codec(struct words *w, const struct encoder_settings *s)
{
	const long long gop = s->gop, quality = encoder_quality(s);
	if (strcmp(s->codec, "h264") == 0) {
		add(w, "-c:v %s -g %lld -keyint_min %lld -sc_threshold 0 -bf 0", s->lossless ? "libx264rgb" : "libx264", gop, gop);
		if (s->lossless)
			add(w, "-qp 0 -pix_fmt rgb24");
		else
			add(w, "-crf %lld", quality);
	} else if (strcmp(s->codec, "hevc") == 0) {
		add(w, "-c:v libx265 -tag:v hvc1 -x265-params");
		add(w, "keyint=%lld:min-keyint=%lld:scenecut=0:open-gop=0:bframes=0:log-level=error%s", gop, gop,
			s->lossless ? ":lossless=1" : "");
		if (s->lossless)
			add(w, "-pix_fmt gbrp");
		else
			add(w, "-crf %lld", quality);
	} else if (strcmp(s->codec, "av1") == 0) {
		add(w, "-c:v libsvtav1 -preset 8 -g %lld -crf %lld", gop, quality);
	} else {
		add(w, "-c:v libvpx-vp9 -row-mt 1 -b:v 0 -auto-alt-ref 0 -g %lld -keyint_min %lld -crf %lld", gop, gop, quality);
	}
	if (!s->lossless) /* the stream must say which matrix converted its pixels from RGB: decoders guess it otherwise */
		add(w, "-vf scale=out_color_matrix=bt709:out_range=tv -pix_fmt yuv420p -colorspace bt709 -color_primaries bt709 -color_trc "
		       "bt709 -color_range tv");
	if (s->threads)
		add(w, "-threads %lld", (long long)s->threads);
}

/* ---- the program ---- */

static struct encoder *cannot(struct encoder *e, struct encoder_error *err, const char *what, int code)
{
	snprintf(err->text, sizeof err->text, "%s: %s", what, strerror(code));
	if (e && e->child_stderr)
		fclose(e->child_stderr);
	free(e);
	return NULL;
}

struct encoder *encoder_start(const struct encoder_settings *s, int32_t width, int32_t height, int out, struct encoder_error *err)
{
	struct words w = {.count = 0};
	struct encoder *e = calloc(1, sizeof *e);
	int pipe_ends[2];
	char size[40];
	if (!e || !(e->child_stderr = tmpfile()))
		return cannot(e, err, "cannot start ffmpeg", errno);
	if (pipe2(pipe_ends, O_CLOEXEC))
		return cannot(e, err, "cannot start ffmpeg", errno);
	e->picture = (size_t)width * (size_t)height * 3;
	e->pipe = pipe_ends[1];
	snprintf(size, sizeof size, "%dx%d", width, height);
	add(&w, "ffmpeg -nostdin -v error -y -f rawvideo -pix_fmt rgb24 -s %s -r %g -i pipe:0", size, s->rate);
	add_codec(&w, s);
	/* ffmpeg opens this name twice: once to write the file, and once more for +faststart, which moves the file's index to the front. */
	add(&w, "-movflags +faststart -f mp4 /proc/self/fd/%d", OUTPUT);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, OUTPUT);
	posix_spawn_file_actions_adddup2(&actions, pipe_ends[0], 0);
	posix_spawn_file_actions_adddup2(&actions, fileno(e->child_stderr), 1);
	posix_spawn_file_actions_adddup2(&actions, fileno(e->child_stderr), 2);
	/* The child gets its own process group, so that Ctrl-C reaches only this program, which then ends the child. */
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	const int code = posix_spawnp(&e->child, "ffmpeg", &actions, &attributes, w.word, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	close(pipe_ends[0]);
	if (!code)
		return e;
	close(pipe_ends[1]);
	return cannot(e, err, "cannot start ffmpeg", code);
}

/* Sets the error's text: how ffmpeg has ended, and the last two non-empty lines that it printed. The reason, such as a full disk, may be in the line before the
 * last. status: from waitpid. */
static void take_words(const struct encoder *e, int status, struct encoder_error *err)
{
	char line[350], last[350] = "", previous[350] = "";
	rewind(e->child_stderr);
	while (fgets(line, sizeof line, e->child_stderr)) {
		line[strcspn(line, "\n")] = '\0';
		if (!line[0])
			continue;
		memcpy(previous, last, sizeof previous);
		memcpy(last, line, sizeof last);
	}
	const char *separator = previous[0] ? "; " : "";
	if (WIFSIGNALED(status))
		snprintf(err->text, sizeof err->text, "ffmpeg was ended by signal %d: %s%s%s", WTERMSIG(status), previous, separator, last);
	else
		snprintf(
			err->text, sizeof err->text, "ffmpeg failed: %s%s%s", previous, separator, last[0] ? last : "it printed no reason");
}

static int wait_for(const struct encoder *e)
{
	int status = -1;
	while (waitpid(e->child, &status, 0) < 0 && errno == EINTR)
		if (interrupted())
			kill(e->child, SIGKILL);
	return status;
}

bool encoder_add(struct encoder *e, const void *pixels, struct encoder_error *err)
{
	for (size_t written = 0; written < e->picture && !interrupted();) {
		const ssize_t n = write(e->pipe, (const char *)pixels + written, e->picture - written);
		if (n > 0)
			written += (size_t)n;
		else if (errno != EINTR && errno != EPIPE) {
			snprintf(err->text, sizeof err->text, "writing to ffmpeg: %s", strerror(errno));
			return false;
		} else if (errno == EPIPE) {
			close(e->pipe);
			e->pipe = -1;
			const int status = wait_for(e);
			e->child = 0;
			take_words(e, status, err);
			return false;
		}
	}
	if (interrupted())
		snprintf(err->text, sizeof err->text, "interrupted");
	return !interrupted();
}

static void free_encoder(struct encoder *e)
{
	if (e->pipe >= 0)
		close(e->pipe);
	fclose(e->child_stderr);
	free(e);
}

bool encoder_finish(struct encoder *e, struct encoder_error *err)
{
	close(e->pipe);
	e->pipe = -1;
	const int status = wait_for(e);
	const bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (!ok)
		take_words(e, status, err);
	if (interrupted())
		snprintf(err->text, sizeof err->text, "interrupted");
	free_encoder(e);
	return ok && !interrupted();
}

void encoder_stop(struct encoder *e)
{
	if (!e)
		return;
	if (e->child > 0) {
		kill(e->child, SIGKILL);
		int status;
		while (waitpid(e->child, &status, 0) < 0 && errno == EINTR)
			;
	}
	free_encoder(e);
}
