/* SPDX-License-Identifier: Apache-2.0
 * stoker inspect: reports the contents of a data set, and the files that would fail. A pipeline decodes every pixel and skips and counts bad samples, so that
 * the same files fail here as in training. */
#include "files.h"
#include "loadable.h"
#include "output.h"
#include "progress.h"
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES 65536
#define MOST_BYTES (1 << 30)

enum { SIZE_CLASSES = 12 }; /* classes of the shorter side: below 32 pixels, below 64, and so on; the last class has no upper limit */

/* Counts of the files so far. Sizes are those of the `good` files. */
struct census {
	int64_t files, good, bytes, classes, skipped;
	int64_t jpeg, png, others, gray, four, progressive, turned, deep;
	int64_t min_w, min_h, max_w, max_h, pixels;
	int32_t smallest[2], largest[2]; /* width and height of the files with the fewest and the most pixels */
	int64_t sizes[SIZE_CLASSES];
	int64_t *of_class; /* [label]: number of good files; NULL if there are no classes or memory is short */
	bool interrupted;  /* true if the user has interrupted the command, so that not all files were read */
	bool tars;         /* true if labels come from the samples of tars, so that of_class grows while they are read */
	char *names;       /* the class names that `stoker pack` wrote into the folder of its tars, one on each line; NULL: not known */
};

/* Returns the text of the class names that `stoker pack` wrote into the folder of its tars; the caller frees it. NULL: the source is not a local one from
 * `stoker pack`, or the names cannot be read. */
static char *packed_names(const char *source)
{
	struct stat st;
	struct stk_error ignored = {0};
	char path[4096];
	size_t size;
	const char *slash = strrchr(source, '/');
	const int length = stat(source, &st) == 0 && S_ISDIR(st.st_mode) ? (int)strlen(source) : slash ? (int)(slash - source) : -1;
	if (strstr(source, "://") || length >= (int)sizeof(path) - 16)
		return NULL;
	snprintf(path, sizeof(path), "%.*s/packing.txt", length < 0 ? 1 : length, length < 0 ? "." : source);
	if (stat(path, &st))
		return NULL;
	snprintf(path, sizeof(path), "%.*s/classes.txt", length < 0 ? 1 : length, length < 0 ? "." : source);
	return read_text_file(path, &size, &ignored);
}

/* Copies line i of a text to `line`, cut to `capacity` bytes. Returns false if the line is empty, or if the text has fewer lines. */
static bool line_of(const char *text, int64_t i, char *line, size_t capacity)
{
	for (; i > 0 && (text = strchr(text, '\n')); i--)
		text++;
	const size_t length = text ? strcspn(text, "\n") : 0;
	if (length == 0)
		return false;
	snprintf(line, capacity, "%.*s", (int)(length < capacity ? length : capacity - 1), text);
	return true;
}

static int size_class(int32_t shorter)
{
	int k = 0;
	for (int32_t end = 32; k < SIZE_CLASSES - 1 && shorter >= end; end *= 2)
		k++;
	return k;
}

static void count_size(struct census *c, const struct stk_image_header *h)
{
	const int64_t pixels = (int64_t)h->width * h->height;
	if (!c->good || pixels < (int64_t)c->smallest[0] * c->smallest[1])
		c->smallest[0] = h->width, c->smallest[1] = h->height;
	if (!c->good || pixels > (int64_t)c->largest[0] * c->largest[1])
		c->largest[0] = h->width, c->largest[1] = h->height;
	c->sizes[size_class(h->width < h->height ? h->width : h->height)]++;
}

static void count_header(struct census *c, const struct stk_image_header *h, int64_t bytes)
{
	count_size(c, h);
	c->bytes += bytes;
	c->jpeg += !strcmp(h->format, "jpeg");
	c->png += !strcmp(h->format, "png");
	c->others += strcmp(h->format, "jpeg") && strcmp(h->format, "png");
	c->gray += h->channels <= 2;
	c->four += h->channels == 4;
	c->deep += h->bits > 8;
	c->progressive += h->progressive;
	c->turned += h->orientation > 1;
	c->pixels += (int64_t)h->width * h->height;
	c->min_w = !c->good || h->width < c->min_w ? h->width : c->min_w;
	c->min_h = !c->good || h->height < c->min_h ? h->height : c->min_h;
	c->max_w = h->width > c->max_w ? h->width : c->max_w;
	c->max_h = h->height > c->max_h ? h->height : c->max_h;
	c->good++;
}

/* Copies the first bad sample of the first epoch from number *i on to *e, and sets *i to the number after it. Returns false if there is no such sample. The
 * pipeline works ahead, so its list may also have bad samples of the next epoch. */
static bool bad_sample(struct stk_pipeline *p, int64_t *i, struct stk_error *e)
{
	while (stk_pipeline_bad_sample(p, (*i)++, e)) {
		if (e->epoch <= 0)
			return true;
	}
	return false;
}

static int64_t count_bad(struct stk_pipeline *p)
{
	struct stk_error e;
	int64_t count = 0;
	for (int64_t i = 0; bad_sample(p, &i, &e);)
		count++;
	return count;
}

/* For tars, grows of_class so that it has an entry for a label. Returns false if the label is too large or memory is short; of_class then stays as it is. */
static bool grow_classes(struct census *census, int64_t label)
{
	enum { MOST = 1 << 20 };
	if (!census->tars || label < census->classes)
		return true;
	int64_t *grown = label < MOST ? realloc(census->of_class, (size_t)(label + 1) * sizeof(*grown)) : NULL;
	if (!grown)
		return false;
	memset(grown + census->classes, 0, (size_t)(label + 1 - census->classes) * sizeof(*grown));
	census->of_class = grown;
	census->classes = label + 1;
	return true;
}

static void count_labels(struct census *census, const struct stk_batch *batch)
{
	const struct stk_tensor_list *labels = stk_batch_output(batch, 1);
	for (int32_t i = 0; (census->of_class || census->tars) && i < labels->count; i++) {
		const struct stk_tensor *t = &labels->samples[i];
		int64_t label = t->desc.dtype == STK_INT64 ? *(const int64_t *)t->data : *(const int32_t *)t->data;
		if (label >= 0 && grow_classes(census, label) && label < census->classes)
			census->of_class[label]++;
	}
}

static void count_headers(struct census *census, const struct stk_tensor_list *files)
{
	for (int32_t i = 0; i < files->count; i++) {
		struct stk_image_header header = {.size = sizeof(header)};
		struct stk_error ignored = {0};
		const struct stk_tensor *file = &files->samples[i];
		if (stk_image_inspect(file->data, (size_t)file->desc.shape[0], &header, &ignored) == STK_OK)
			count_header(census, &header, file->desc.shape[0]);
	}
}

/* Decodes one epoch. Bad samples are no error. If the user interrupts, sets census->interrupted and returns STK_OK. */
static enum stk_status decode_all(struct session *session, bool quiet, struct census *census, struct stk_error *err)
{
	struct progress progress;
	enum stk_status status;
	progress_begin(&progress, "files", census->files, quiet);
	for (;;) {
		struct stk_batch *batch = NULL;
		status = next_batch(session, &batch, err);
		census->interrupted = status == STK_CANCELLED;
		if (status != STK_OK)
			break;
		count_labels(census, batch);
		count_headers(census, stk_batch_output(batch, 2));
		bool last = stk_batch_is_last(batch);
		stk_batch_unref(&batch);
		progress_update(&progress, census->good);
		if (last)
			break;
	}
	progress_end(&progress);
	return status == STK_END || status == STK_CANCELLED ? STK_OK : status;
}

enum { NAME = 256 };

/* Returns the name of a class, or the number of the label as text if the class of a tar has no known name. */
static const char *class_name(struct stk_pipeline *p, const struct census *c, int64_t i, char name[NAME])
{
	if (!c->tars)
		return stk_pipeline_class_name(p, NULL, i);
	if (!c->names || !line_of(c->names, i, name, NAME))
		snprintf(name, NAME, "%" PRId64, i);
	return name;
}

/* Returns whether label i is a class. In tars, a label that no sample has is not a class. */
static bool is_class(const struct census *c, int64_t i)
{
	return !c->tars || c->of_class[i];
}

static int64_t count_classes(const struct census *c)
{
	int64_t count = 0;
	for (int64_t i = 0; c->of_class && i < c->classes; i++)
		count += is_class(c, i);
	return c->of_class ? count : c->classes;
}

static json_t *extent_json(const int32_t extent[2])
{
	json_t *o = json_object();
	put_int(o, "width", extent[0]);
	put_int(o, "height", extent[1]);
	return o;
}

static json_t *census_json(struct stk_pipeline *p, const struct census *c)
{
	json_t *o = json_object(), *by_class = json_object(), *sizes = json_array();
	put_int(o, "files", c->files);
	put_bool(o, "interrupted", c->interrupted);
	put_int(o, "classes", count_classes(c));
	put_int(o, "good", c->good);
	put_int(o, "jpeg", c->jpeg);
	put_int(o, "png", c->png);
	put_int(o, "other_formats", c->others);
	put_int(o, "progressive", c->progressive);
	put_int(o, "gray", c->gray);
	put_int(o, "four_channels", c->four);
	put_int(o, "more_than_8_bits", c->deep);
	put_int(o, "turned_by_exif", c->turned);
	put_real(o, "mean_bytes", c->good ? (double)c->bytes / (double)c->good : 0);
	put_real(o, "mean_pixels", c->good ? (double)c->pixels / (double)c->good : 0);
	put_int(o, "min_width", c->min_w);
	put_int(o, "min_height", c->min_h);
	put_int(o, "max_width", c->max_w);
	put_int(o, "max_height", c->max_h);
	json_object_set_new(o, "smallest", extent_json(c->smallest));
	json_object_set_new(o, "largest", extent_json(c->largest));
	char number[NAME];
	for (int64_t i = 0; c->of_class && i < c->classes; i++) {
		if (is_class(c, i))
			put_int(by_class, class_name(p, c, i, number), c->of_class[i]);
	}
	json_object_set_new(o, "by_class", by_class);
	for (int k = 0; k < SIZE_CLASSES; k++) {
		json_t *bar = json_object();
		put_int(bar, "shorter_side_from", k ? 16 << k : 0);
		put_int(bar, "files", c->sizes[k]);
		if (c->sizes[k])
			json_array_append(sizes, bar);
		json_decref(bar);
	}
	json_object_set_new(o, "sizes", sizes);
	put_int(o, "skipped", c->skipped);
	return o;
}

static void put_loadable(json_t *o, const struct census *c, const struct loadable *l)
{
	json_t *problems = json_array();
	for (int32_t i = 0; i < l->count; i++)
		json_array_append_new(problems, text_json(l->problems[i]));
	if (l->has_folders && !l->count)
		put_int(o, "loader_files", c->files);
	json_object_set_new(o, "loader_problems", problems);
}

static int print_as_json(struct stk_pipeline *p, const struct census *c, const struct loadable *l, int code)
{
	json_t *o = census_json(p, c), *bad = json_array();
	struct stk_error e;
	for (int64_t i = 0; bad_sample(p, &i, &e);) {
		json_t *item = json_object();
		put_text(item, "uri", e.uri);
		put_text(item, "code", stk_status_name(e.code));
		put_text(item, "message", e.message);
		json_array_append_new(bad, item);
	}
	json_object_set_new(o, "bad", bad);
	put_loadable(o, c, l);
	int printed = print_json(o);
	return printed ? printed : code;
}

static void print_bar(int64_t count, int64_t most)
{
	enum { WIDTH = 40 };
	for (int64_t i = 0; i < WIDTH * count / most || i == 0; i++)
		putchar('#');
	putchar('\n');
}

/* Prints the number of files of each class; if there are many classes, only those of the smallest and the largest. */
static void print_classes(struct stk_pipeline *p, const struct census *c)
{
	enum { SHOWN = 20 };
	const int64_t count = count_classes(c);
	int64_t low = -1, high = -1;
	char first[NAME], second[NAME];
	for (int64_t i = 0; i < c->classes; i++) {
		if (!is_class(c, i))
			continue;
		if (count <= SHOWN)
			printf("  %-13s %s: %" PRId64 "\n", low < 0 ? "classes" : "", class_name(p, c, i, first), c->of_class[i]);
		low = low < 0 || c->of_class[i] < c->of_class[low] ? i : low;
		high = high < 0 || c->of_class[i] > c->of_class[high] ? i : high;
	}
	if (count > SHOWN)
		printf("  classes       %" PRId64 " (%s) to %" PRId64 " (%s) good files each\n", c->of_class[low],
			class_name(p, c, low, first), c->of_class[high], class_name(p, c, high, second));
}

static void print_sizes(const struct census *c)
{
	int64_t most = 1;
	for (int k = 0; k < SIZE_CLASSES; k++)
		most = c->sizes[k] > most ? c->sizes[k] : most;
	for (int k = 0, first = 1; k < SIZE_CLASSES; k++) {
		if (!c->sizes[k])
			continue;
		printf("  %-13s %5d+ pixels %8" PRId64 " ", first ? "shorter side" : "", k ? 16 << k : 0, c->sizes[k]);
		print_bar(c->sizes[k], most);
		first = 0;
	}
}

static void print_loadable(const struct loadable *l)
{
	for (int32_t i = 0; i < l->count; i++)
		printf("  Loader would refuse this folder: %s\n", l->problems[i]);
	if (l->count == LOADABLE_PROBLEMS)
		puts("  and there may be more for which it would");
}

static void print_as_text(const struct session *session, const struct census *c, const struct loadable *l)
{
	struct stk_pipeline *p = session->pipeline;
	const char *skipped;
	struct stk_error e;
	int64_t bad = count_bad(p);
	if (c->interrupted)
		printf("interrupted after %" PRId64 " of ", c->good + bad);
	printf("%" PRId64 " %s", c->files, session->tars ? noun(c->files, "sample", "samples") : noun(c->files, "file", "files"));
	if (c->classes)
		printf(" in %" PRId64 " %s", count_classes(c), noun(count_classes(c), "class", "classes"));
	printf(": %" PRId64 " good, %" PRId64 " would fail\n", c->good, bad);
	if (c->good) {
		printf("  formats       %" PRId64 " JPEG (%" PRId64 " progressive), %" PRId64 " PNG, %" PRId64 " others\n", c->jpeg,
			c->progressive, c->png, c->others);
		printf("  size          %d x %d (the smallest) to %d x %d (the largest), mean %.3g megapixels, %.1f KiB\n", c->smallest[0],
			c->smallest[1], c->largest[0], c->largest[1], (double)c->pixels / (double)c->good / 1e6,
			(double)c->bytes / (double)c->good / 1024);
		print_sizes(c);
		printf("  odd ones      %" PRId64 " gray, %" PRId64 " of four channels, %" PRId64 " of 16 bits, %" PRId64
		       " turned by EXIF\n",
			c->gray, c->four, c->deep, c->turned);
	}
	if (c->of_class)
		print_classes(p, c);
	if (stk_pipeline_reader_skipped(p, NULL, &skipped))
		printf("  skipped       %s\n", skipped);
	else if (c->skipped)
		printf("  skipped       %" PRId64 " %s\n", c->skipped,
			noun(c->skipped, "file that is no image", "files that are no images"));
	print_loadable(l);
	for (int64_t i = 0; bad_sample(p, &i, &e);)
		printf("  %s\n", e.message);
}

static enum stk_status take_census(struct session *session, const struct settings *s, struct census *census, struct stk_error *err)
{
	struct stk_reader_meta meta;
	const char *what;
	enum stk_status status = stk_pipeline_reader_meta(session->pipeline, NULL, &meta, err);
	if (status != STK_OK)
		return status;
	census->files = meta.epoch_size;
	census->classes = session->flat ? 0 : meta.classes;
	census->tars = session->tars && session->labels;
	census->names = census->tars ? packed_names(s->args[0]) : NULL;
	census->skipped = session->flat ? (int64_t)session->skipped : stk_pipeline_reader_skipped(session->pipeline, NULL, &what);
	census->of_class = census->classes ? calloc((size_t)census->classes, sizeof(*census->of_class)) : NULL;
	return decode_all(session, s->quiet || s->json, census, err);
}

static int inspect_all(struct session *session, const struct settings *s)
{
	struct census census = {.good = 0};
	struct loadable *loadable = calloc(1, sizeof(*loadable));
	struct stk_error err = {0};
	int code = EXIT_PROBLEM;
	if (!loadable) {
		fail_text("inspect", "out of memory");
	} else if (take_census(session, s, &census, &err) != STK_OK) {
		fail("inspect", &err);
	} else {
		if (!census.interrupted)
			loadable_look(loadable, session);
		code = census.interrupted ? EXIT_INTERRUPTED : count_bad(session->pipeline) || loadable->count ? EXIT_PROBLEM : EXIT_FINE;
		if (s->json)
			code = print_as_json(session->pipeline, &census, loadable, code);
		else
			print_as_text(session, &census, loadable);
	}
	free(census.of_class);
	free(census.names);
	free(loadable);
	return code;
}

/* Opens a regular file, and sets *bytes to its size. Returns the descriptor, or -1 with *err filled. */
static int open_file(const char *path, int64_t *bytes, struct stk_error *err)
{
	struct stat st;
	int fd = open_regular(path, &st);
	*bytes = st.st_size;
	if (fd >= 0)
		return fd;
	snprintf(err->message, sizeof(err->message), "%s: %s", path,
		errno == EINVAL ? "a FIFO, a socket or a device: give a file or a folder" : strerror(errno));
	err->code = STK_IO;
	return -1;
}

static enum stk_status read_part(int fd, const char *path, size_t size, struct stk_image_header *header, struct stk_error *err)
{
	void *part = malloc(size);
	const ssize_t got = part ? pread(fd, part, size, 0) : -1;
	enum stk_status status = STK_IO;
	if (got < 0) {
		snprintf(err->message, sizeof(err->message), "%s: %s", path, strerror(errno));
		err->code = STK_IO;
	} else {
		status = stk_image_inspect(part, (size_t)got, header, err);
	}
	free(part);
	return status;
}

/* Sets *bytes to the size of a file, and reads its header from its first 64 KiB, or from the whole file if these do not hold all of it: if the header is longer,
 * or for a TIFF, PNG or WebP at the file's end. */
static enum stk_status read_header(const char *path, int64_t *bytes, struct stk_image_header *header, struct stk_error *err)
{
	int fd = open_file(path, bytes, err);
	if (fd < 0)
		return err->code;
	enum stk_status status = read_part(fd, path, HEAD_BYTES, header, err);
	if (header->partial && *bytes > HEAD_BYTES && *bytes <= MOST_BYTES) {
		status = read_part(fd, path, (size_t)*bytes, header, err);
	} else if (status && header->partial && *bytes > MOST_BYTES) {
		snprintf(err->message, sizeof(err->message), "a part of its header may be at its end, and the file has more than 1 GiB");
		status = err->code = STK_LIMIT;
	}
	close(fd);
	return status;
}

/* Reads the header of one local file, and prints it, or an error. With `json`, prints nothing and returns EXIT_FINE in any case. */
static int inspect_file(const char *path, bool json)
{
	struct stk_image_header h = {.size = sizeof(h)};
	struct stk_error err = {0};
	int64_t bytes = 0;
	if (read_header(path, &bytes, &h, &err) != STK_OK)
		return json ? EXIT_FINE
			    : fail_text("inspect", "%s%s%s", err.code == STK_IO ? "" : path, err.code == STK_IO ? "" : ": ", err.message);
	if (json)
		return EXIT_FINE;
	print_safe("%s", path);
	printf(": %s, %d x %d, %d channels of %d bits%s, %" PRId64 " bytes, EXIF orientation ", h.format, h.width, h.height, h.channels,
		h.bits, h.progressive ? ", progressive" : "", bytes);
	if (h.partial)
		puts("not looked for, because the file has more than 1 GiB");
	else
		printf("%d\n", h.orientation);
	return EXIT_FINE;
}

static int run_inspect(const struct settings *s)
{
	struct session session = {0};
	int code = EXIT_PROBLEM;
	if (s->arg_count == 2)
		return strcmp(s->args[0], "nuscenes") == 0
			       ? inspect_nuscenes(s->args[1], s->json)
			       : usage_error(
					 &command_inspect, "one folder at a time; \"nuscenes ROOT\" is the only form with two arguments");
	struct stat st;
	if (strcmp(s->args[0], "nuscenes") == 0 && stat(s->args[0], &st) != 0)
		return usage_error(&command_inspect, "nuscenes: name the folder of the data set, as in `stoker inspect nuscenes ROOT`");
	if (!source_is_there("inspect", s->args[0]))
		return EXIT_PROBLEM;
	if (is_video_name(s->args[0]) || (!is_tree(s->args[0]) && stk_audio_named(s->args[0])))
		return run_on_media("inspect", s, inspect_video, inspect_sound);
	if (!is_tree(s->args[0]) && !strstr(s->args[0], "://") && inspect_file(s->args[0], s->json))
		return EXIT_PROBLEM;
	if (open_session(&session, "inspect", s->args[0], GRAPH_DECODE_CHECK, s))
		code = inspect_all(&session, s);
	close_session(&session);
	return code;
}

static const struct option options[] = {OPTION_THREADS, OPTION_QUIET, OPTION_STORAGE, OPTION_JSON, {0}};

const struct command command_inspect = {
	.name = "inspect",
	.summary = "what a data set contains, which files would fail, and why",
	.usage = "DIR|FILE|TAR|INDEX|s3://BUCKET/PREFIX|nuscenes ROOT",
	.details =
		"Reads and decodes every image, as training would, and names each that fails. Exits with 1 if one fails, or if "
		"Loader would refuse the folder, for example because of a class folder without images. DIR holds a folder for "
		"each class, the images themselves, or tars in WebDataset's format; an index (stoker index) is accepted too. "
		"`nuscenes ROOT` counts the scenes, objects and files in NuScenes' tables below ROOT, and names the files that "
		"are missing. Of a sound it reports format, rate, channels and duration, and decodes all of it. Of a video it decodes every "
		"frame, and names each that fails with its time. Of Parquet files it reports rows, row groups and columns, and of a "
		"LeRobot data set its episodes and features; for both, use the `stoker` that the Python package installs.",
	.example = "stoker inspect /data/train --json > report.json",
	.options = options,
	.arg = "DIR",
	.min_args = 1,
	.max_args = 2,
	.run = run_inspect,
};
