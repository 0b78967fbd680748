/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "files.h"
#include "folder.h"
#include "progress.h"
#include "tars.h"

#include <stoker/audio.h>
#include <stoker/inspect.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Mean and standard deviation of ImageNet's pixels for each channel, in units of 0..255. */
static const double imagenet_mean[3] = {123.675, 116.28, 103.53}, imagenet_std[3] = {58.395, 57.12, 57.375};

static void print_log(void *user, enum stk_log_level level, const char *text)
{
	(void)user;
	if (level <= STK_LOG_WARNING)
		fprintf(stderr, "stoker: %s\n", text);
}

/* Returns whether a URI is a prefix of many objects. A URI that ends like the name of an image or a sound is a single object. */
static bool is_prefix(const char *uri)
{
	return !stk_image_named(uri) && !stk_audio_named(uri) && strstr(uri, "://");
}

bool is_tree(const char *source)
{
	return is_folder(source) || is_prefix(source) || file_begins(source, STK_INDEX_MAGIC) || is_tars(source);
}

bool source_is_there(const char *command, const char *source)
{
	struct stat st;
	if (strstr(source, "://") || names_tar(source) || stat(source, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
		return true;
	fail_text(command, "%s: no such file or folder%s", source,
		!strstr(source, ":/")               ? ""
		: !strncasecmp(source, "file:/", 6) ? "; URIs of local files are written as in file:///data/train"
						    : "; URIs are written as in s3://bucket/prefix");
	return false;
}

bool makes_pipeline(const char *command, const char *source)
{
	if (!source_is_there(command, source))
		return false;
	if (is_tree(source) || is_pipeline(source) || strstr(source, "://"))
		return true;
	fail_text(command,
		"%s is neither a folder of images nor a pipeline (NAME.json): give one that Pipeline.serialize wrote, or a folder, tar, index or "
		"s3:// prefix, for which the usual training pipeline is made; `stoker inspect %s` describes a single file",
		source, source);
	return false;
}

bool has_inspection(const struct session *session, const char *source)
{
	return session->standard && is_tree(source);
}

int fail_at(const struct session *session, const char *source, const struct stk_error *err)
{
	return err->uri[0] && has_inspection(session, source)
		       ? fail_text(session->command, "%s; `stoker inspect %s` finds all bad files", err->message, source)
		       : fail(session->command, err);
}

char *read_text_file(const char *path, size_t *size, struct stk_error *err)
{
	enum { MOST = 64 << 20 };
	char *text = NULL;
	size_t used = 0, capacity = 0;
	int fd = open_text(path);
	while (fd >= 0) {
		if (used + 1 >= capacity) {
			capacity = capacity ? capacity * 2 : 65536;
			char *grown = capacity <= 2 * MOST ? realloc(text, capacity) : NULL;
			if (!grown) {
				errno = capacity <= 2 * MOST ? ENOMEM : EFBIG;
				break;
			}
			text = grown;
		}
		ssize_t n = read(fd, text + used, capacity - used - 1);
		if (n < 0 && errno != EINTR)
			break;
		used += n > 0 ? (size_t)n : 0;
		if (n == 0) {
			close(fd);
			text[used] = '\0';
			*size = used;
			return text;
		}
	}
	snprintf(err->message, sizeof(err->message), "%s: %s", path, strerror(errno));
	err->code = STK_IO;
	if (fd >= 0)
		close(fd);
	free(text);
	return NULL;
}

static enum stk_status add_at(struct stk_graph *g, const char *op, enum stk_device device, struct stk_node *value,
	const struct stk_arg *args, size_t n, struct stk_error *err)
{
	const struct stk_graph_options options = {.device = device};
	struct stk_node out;
	enum stk_status status = stk_graph_add(g, op, value->op < 0 ? NULL : value, value->op < 0 ? 0 : 1, args, n, &options, &out, err);
	if (status == STK_OK)
		*value = out;
	return status;
}

static enum stk_status add(
	struct stk_graph *g, const char *op, struct stk_node *value, const struct stk_arg *args, size_t n, struct stk_error *err)
{
	return add_at(g, op, STK_DEVICE_ANY, value, args, n, err);
}

/* The outputs of a reader. `label` is a constant 0 for tars whose samples have no label. */
struct sample_nodes {
	struct stk_node file, label;
};

static size_t order_args(struct stk_arg *args, bool train, bool augment)
{
	static const int64_t first = 0;
	size_t n = 0;
	args[n++] = stk_arg_bool("random_shuffle", train && !augment);
	args[n++] = stk_arg_string("tail", train ? "wrap" : "keep");
	if (augment)
		args[n++] = stk_arg_list("indices", STK_VALUE_INTS, &first, 1);
	return n;
}

static enum stk_status add_tars(struct stk_graph *g, struct session *session, const char *source, bool train, bool augment,
	struct sample_nodes *out, struct stk_error *err)
{
	static const int64_t none = 0;
	struct tars tars;
	struct stk_arg args[8];
	enum stk_status status = tars_look(&tars, source, session->storage, err);
	const char *const endings[] = {tars.images, "cls"};
	size_t n = order_args(args, train, augment);
	args[n++] = stk_arg_list("paths", STK_VALUE_STRINGS, tars.paths, (size_t)tars.count);
	args[n++] = stk_arg_list("ext", STK_VALUE_STRINGS, endings, tars.labels ? 2 : 1);
	args[n++] = stk_arg_string("missing_component_behavior", "error");
	args[n++] = stk_arg_bool("case_sensitive_extensions", false);
	session->tars = true;
	session->labels = tars.labels;
	out->file.op = out->label.op = -1;
	if (status == STK_OK)
		status = add(g, "readers.webdataset", &out->file, args, n, err);
	const struct stk_arg zero = stk_arg_list("idata", STK_VALUE_INTS, &none, 1);
	if (tars.labels)
		out->label = (struct stk_node){out->file.op, 1};
	if (status == STK_OK)
		status = add(g, tars.labels ? "_whole_number" : "constant", &out->label, &zero, tars.labels ? 0 : 1, err);
	tars_free(&tars);
	return status;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);
	return n >= m && !strcmp(text + n - m, end);
}

bool is_pipeline(const char *path)
{
	return ends_with(path, ".json");
}

/* Returns whether the source is a text file with a path, or a path and a label, on each line: a regular file whose name is not that of an image, a pipeline,
 * an index or a tar. */
static bool is_list(const char *source)
{
	struct stat st;
	return !is_tree(source) && !is_pipeline(source) && !stk_image_named(source) && stat(source, &st) == 0 && S_ISREG(st.st_mode);
}

/* Splits a text into lines in place, and returns an array of the lines that are not empty, each of which is a path. The caller frees the array. Returns NULL if
 * a line has more than one word, for example a path and a label, or if memory is short. */
static const char **single_words(char *text, size_t *count)
{
	size_t n = 0, lines = 1;
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	const char **paths = calloc(lines, sizeof(*paths));
	for (char *line = text; paths && *line;) {
		char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
		while (end > line && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
			end--;
		while (*line == ' ' || *line == '\t')
			line++;
		if (line < end && line + strcspn(line, " \t") < end) {
			free((void *)paths);
			return NULL;
		}
		if (line < end) {
			*end = '\0';
			paths[n++] = line;
		}
		line = next;
	}
	*count = n;
	return paths;
}

static enum stk_status add_list(struct stk_graph *g, const char *source, struct sample_nodes *out, struct stk_error *err)
{
	struct stk_arg args[3];
	size_t n = order_args(args, false, false), size, count = 0;
	char *text = read_text_file(source, &size, err);
	if (!text)
		return err->code;
	const char **paths = memchr(text, '\0', size) ? NULL : single_words(text, &count);
	args[n++] = paths && count ? stk_arg_list("files", STK_VALUE_STRINGS, paths, count) : stk_arg_string("file_list", source);
	out->file.op = -1;
	enum stk_status status = add(g, "readers.file", &out->file, args, n, err);
	out->label = (struct stk_node){out->file.op, 1};
	free((void *)paths);
	free(text);
	return status;
}

size_t image_globs(const char *globs[MOST_GLOBS])
{
	size_t n = 0;
	while (n < MOST_GLOBS && (globs[n] = stk_image_glob(n)))
		n++;
	return n;
}

/* Sets the arguments by which readers.file lists class folders as Loader does: with all their subfolders, and only files that match the globs. If Loader has
 * refused the source, they are listed without subfolders. Returns the number of arguments, 3. */
static size_t tree_args(const struct session *session, const char *source, const char *const *globs, size_t count, struct stk_arg *args)
{
	args[0] = stk_arg_string("file_root", source);
	args[1] = stk_arg_bool("nested", !session->refused);
	args[2] = stk_arg_list("file_filters", STK_VALUE_STRINGS, globs, count);
	return 3;
}

/* Adds the reader for the source. With `augment` the reader repeats the first image only. */
static enum stk_status add_reader(struct stk_graph *g, struct session *session, const char *source, bool train, bool augment,
	struct sample_nodes *out, struct stk_error *err)
{
	struct flat_folder flat = {.count = 0};
	struct stk_arg args[8];
	const char *globs[MOST_GLOBS] = {NULL};
	size_t n = order_args(args, train, augment);
	if (is_tars(source))
		return add_tars(g, session, source, train, augment, out, err);
	session->flat = is_folder(source) && flat_folder_list(source, &flat);
	session->skipped = flat.skipped;
	if (session->flat)
		args[n++] = stk_arg_list("files", STK_VALUE_STRINGS, flat.paths, flat.count);
	else if (is_tree(source))
		n += tree_args(session, source, globs, image_globs(globs), args + n);
	else
		args[n++] = stk_arg_list("files", STK_VALUE_STRINGS, &source, 1);
	out->file.op = -1;
	enum stk_status status = add(g, "readers.file", &out->file, args, n, err);
	out->label = (struct stk_node){out->file.op, 1};
	flat_folder_free(&flat);
	return status;
}

/* Adds outputs for the captions: the file's shape, the window's anchor and shape, and the flip. The window is drawn a second time with the decoder's seed,
 * which gives the same numbers. */
static enum stk_status add_draws(
	struct stk_graph *g, struct stk_node file, struct stk_node coin, const struct stk_arg *seed, struct stk_error *err)
{
	struct stk_node shape = file, window;
	enum stk_status status = add(g, "peek_image_shape", &shape, NULL, 0, err);
	window = shape;
	if (status == STK_OK)
		status = add(g, "random_crop_generator", &window, seed, 1, err);
	const struct stk_node outputs[] = {shape, window, {window.op, 1}, coin};
	for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]) && status == STK_OK; i++)
		status = stk_graph_output(g, outputs[i], err);
	return status;
}

/* Builds the graph of GRAPH_TRAIN or, with `view`, of GRAPH_VIEW. If the pipeline has a GPU, it decodes and transforms there, and delivers images there. Labels
 * are also delivered there, except with `view`. */
static enum stk_status build_train_graph(
	struct stk_graph *g, struct session *session, const char *source, bool view, const struct settings *s, struct stk_error *err)
{
	const int64_t size[2] = {s->size ? s->size : 224, s->size ? s->size : 224};
	const struct stk_arg seed = stk_arg_int("seed", s->seed + 1);
	struct sample_nodes sample;
	struct stk_node coin = {-1, 0};
	enum stk_status status = add_reader(g, session, source, true, view && s->augment > 0, &sample, err);
	struct stk_node image = sample.file, label = sample.label;
	if (status == STK_OK)
		status = add_at(g, "decoders.image_random_crop", STK_DEVICE_GPU, &image, &seed, view ? 1 : 0, err);
	const struct stk_arg resize[] = {stk_arg_list("size", STK_VALUE_INTS, size, 2)};
	if (status == STK_OK)
		status = add(g, "resize", &image, resize, 1, err);
	if (status == STK_OK)
		status = add(g, "random.coin_flip", &coin, NULL, 0, err);
	const struct stk_arg normalize[] = {stk_arg_node("mirror", coin), stk_arg_list("mean", STK_VALUE_FLOATS, imagenet_mean, 3),
		stk_arg_list("std", STK_VALUE_FLOATS, imagenet_std, 3), stk_arg_string("output_layout", "CHW")};
	if (status == STK_OK)
		status = add(g, "crop_mirror_normalize", &image, normalize, 4, err);
	if (status == STK_OK && s->device && !view) /* in GRAPH_VIEW the labels stay in host memory, where captions are written */
		status = add_at(g, "copy", STK_DEVICE_GPU, &label, NULL, 0, err);
	if (status == STK_OK)
		status = stk_graph_output(g, image, err);
	if (status == STK_OK)
		status = stk_graph_output(g, label, err);
	if (status == STK_OK && view)
		status = add_draws(g, sample.file, coin, &seed, err);
	return status;
}

/* Builds a graph that resamples sounds to 16 kHz, and makes 80 log-mel bands of windows of 25 ms. */
static enum stk_status build_sound_graph(struct stk_graph *g, const struct session *session, const char *source, struct stk_error *err)
{
	static const char *const all[] = {
		"*.wav", "*.wave", "*.bwf", "*.rf64", "*.flac", "*.ogg", "*.oga", "*.opus", "*.mp3", "*.m4a", "*.aac"};
	struct stk_node sound = {-1, 0}, label;
	struct stk_arg args[8];
	const char *globs[MOST_GLOBS] = {NULL};
	size_t n = order_args(args, true, false), count = 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (stk_audio_named(all[i]))
			globs[count++] = all[i];
	n += tree_args(session, source, globs, count, args + n);
	enum stk_status status = add(g, "readers.file", &sound, args, n, err);
	label = (struct stk_node){sound.op, 1};
	const struct stk_arg decode[] = {stk_arg_bool("downmix", true), stk_arg_float("sample_rate", 16000)};
	const struct stk_arg frames[] = {stk_arg_int("nfft", 512), stk_arg_int("window_length", 400), stk_arg_int("window_step", 160)};
	const struct stk_arg bands[] = {stk_arg_int("nfilter", 80), stk_arg_float("sample_rate", 16000)};
	if (status == STK_OK)
		status = add(g, "decoders.audio", &sound, decode, 2, err);
	if (status == STK_OK)
		status = add(g, "spectrogram", &sound, frames, 3, err);
	if (status == STK_OK)
		status = add(g, "mel_filter_bank", &sound, bands, 2, err);
	if (status == STK_OK)
		status = add(g, "to_decibels", &sound, NULL, 0, err);
	if (status == STK_OK)
		status = stk_graph_output(g, sound, err);
	return status == STK_OK ? stk_graph_output(g, label, err) : status;
}

/* Builds the graph of GRAPH_DECODE_CHECK. The files' bytes are an output too, so that the caller can inspect their headers. */
static enum stk_status build_check_graph(struct stk_graph *g, struct session *session, const char *source, struct stk_error *err)
{
	const int64_t stamp[2] = {16, 16};
	const struct stk_arg resize[] = {stk_arg_list("size", STK_VALUE_INTS, stamp, 2)};
	struct sample_nodes sample;
	enum stk_status status = add_reader(g, session, source, false, false, &sample, err);
	struct stk_node image = sample.file;
	if (status == STK_OK)
		status = add(g, "decoders.image", &image, NULL, 0, err);
	if (status == STK_OK)
		status = add(g, "resize", &image, resize, 1, err);
	const struct stk_node outputs[] = {image, sample.label, sample.file};
	for (size_t i = 0; i < 3 && status == STK_OK; i++)
		status = stk_graph_output(g, outputs[i], err);
	return status;
}

static enum stk_status build_bytes_graph(struct stk_graph *g, struct session *session, const char *source, struct stk_error *err)
{
	struct sample_nodes sample;
	enum stk_status status =
		is_list(source) ? add_list(g, source, &sample, err) : add_reader(g, session, source, false, false, &sample, err);
	if (status == STK_OK)
		status = stk_graph_output(g, sample.file, err);
	return status == STK_OK ? stk_graph_output(g, sample.label, err) : status;
}

static enum stk_status make_graph(struct session *session, const char *source, enum graph_kind kind, const struct settings *s,
	struct stk_graph **out, struct stk_error *err)
{
	if (is_pipeline(source)) {
		size_t size;
		char *text = read_text_file(source, &size, err);
		if (!text)
			return err->code;
		enum stk_status status = stk_graph_deserialize(text, size, out, err);
		free(text);
		if (status != STK_OK) {
			const struct stk_error inner = *err;
			snprintf(err->message, sizeof(err->message), "%.400s: %.600s", source, inner.message);
		}
		return status;
	}
	session->standard = true;
	memcpy(session->mean, imagenet_mean, sizeof(imagenet_mean));
	memcpy(session->std, imagenet_std, sizeof(imagenet_std));
	enum stk_status status = stk_graph_create(out, err);
	if (status != STK_OK)
		return status;
	if (kind == GRAPH_BYTES)
		return build_bytes_graph(*out, session, source, err);
	if (kind == GRAPH_DECODE_CHECK)
		return build_check_graph(*out, session, source, err);
	session->sounds = kind == GRAPH_TRAIN && holds_sounds(source);
	session->standard = !session->sounds;
	if (session->sounds)
		return build_sound_graph(*out, session, source, err);
	return build_train_graph(*out, session, source, kind == GRAPH_VIEW, s, err);
}

bool open_context(struct session *session, const char *command, const struct settings *s)
{
	const struct stk_context_config config = {.size = sizeof(config), .threads = (int32_t)s->threads, .log = print_log};
	struct stk_error err = {0};
	*session = (struct session){.command = command, .device_id = -1};
	if (stk_context_create(&config, &session->ctx, &err) == STK_OK)
		return open_storage(command, s, &session->storage);
	fail(command, &err);
	return false;
}

static void on_entries(void *user, int64_t entries)
{
	progress_update(user, entries);
}

static bool stops_listing(void *user)
{
	(void)user;
	return interrupted();
}

enum stk_status next_batch(struct session *session, struct stk_batch **batch, struct stk_error *err)
{
	enum { SLICE = 100 }; /* maximum wait in ms before the next check for Ctrl-C */
	enum stk_status status = STK_TIMEOUT;
	while (status == STK_TIMEOUT && !interrupted())
		status = stk_pipeline_next_within(session->pipeline, SLICE, batch, err);
	if (status != STK_TIMEOUT)
		return status;
	*err = (struct stk_error){.code = STK_CANCELLED};
	snprintf(err->message, sizeof(err->message), "interrupted");
	return STK_CANCELLED;
}

static enum stk_status open_pipeline(
	struct session *session, const char *source, enum graph_kind kind, const struct settings *s, struct stk_error *err)
{
	struct stk_graph *graph = NULL;
	struct progress listing;
	const bool skips = kind == GRAPH_DECODE_CHECK || kind == GRAPH_BYTES || kind == GRAPH_VIEW;
	const struct stk_pipeline_config config = {.size = sizeof(config),
		.batch_size = (int32_t)(s->batch                     ? s->batch
					: kind == GRAPH_DECODE_CHECK ? 32
								     : 128),
		.device_id = session->device_id,
		.max_batches = kind == GRAPH_VIEW ? 1 : 0, /* view draws only the first batch */
		.seed = (uint64_t)s->seed,
		.storage = session->storage,
		.listed = on_entries,
		.interrupted = stops_listing,
		.interrupted_user = &listing,
		.on_error = skips ? STK_ON_ERROR_SKIP : STK_ON_ERROR_RAISE,
		.max_errors = skips ? 1e15 : 0};
	enum stk_status status = make_graph(session, source, kind, s, &graph, err);
	catch_interrupts();
	if (status == STK_OK) {
		progress_begin(&listing, "objects listed", 0, s->quiet || s->json);
		status = stk_pipeline_create(session->ctx, graph, &config, &session->pipeline, err);
		progress_end(&listing);
	}
	stk_graph_destroy(graph);
	return status;
}

void drop_operator(struct stk_error *err)
{
	const size_t length = strlen(err->message), op = strlen(err->op);
	if (op && length > op + 2 && !strcmp(err->message + length - op, err->op) && !memcmp(err->message + length - op - 2, "; ", 2))
		err->message[length - op - 2] = '\0';
}

/* Returns whether an error is that of a listing of class folders by Loader's rules, and another listing may succeed. */
static bool is_refusal(const struct session *session, const char *source, const struct stk_error *err)
{
	const bool tree = is_tree(source) && !is_pipeline(source) && !session->flat && !session->tars;
	return tree && !strcmp(err->op, "readers.file") && (err->code == STK_INVALID || !strstr(source, "://"));
}

bool open_session(struct session *session, const char *command, const char *source, enum graph_kind kind, const struct settings *s)
{
	struct stk_error err = {0};
	if (!open_context(session, command, s) || !source_is_there(command, source))
		return false;
	device_of(s->device, &session->device_id);
	session->source = source;
	enum stk_status status = open_pipeline(session, source, kind, s, &err);
	if (status != STK_OK && status != STK_CANCELLED && is_refusal(session, source, &err)) {
		drop_operator(&err);
		snprintf(session->refusal, sizeof(session->refusal), "%s", err.message);
		session->refused = true;
		err = (struct stk_error){0};
		status = open_pipeline(session, source, kind, s, &err);
		if (status == STK_OK && kind != GRAPH_DECODE_CHECK)
			fail_text(command, "Loader would refuse this folder, which is read without its subfolders here: %s",
				session->refusal);
	}
	if (status == STK_CANCELLED)
		fail_text(command, "interrupted while %s was listed", source);
	else if (status != STK_OK)
		fail(command, &err);
	return status == STK_OK;
}

void close_session(struct session *session)
{
	stk_pipeline_destroy(session->pipeline);
	stk_storage_unref(&session->storage);
	stk_context_unref(&session->ctx);
}
