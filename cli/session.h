/* SPDX-License-Identifier: Apache-2.0
 *
 * The part that several commands share: a context that logs to stderr, and a pipeline over a source, either with the standard graph for training on photographs
 * or with a graph from a file. Call all functions from one thread. */
#ifndef STOKER_CLI_SESSION_H
#define STOKER_CLI_SESSION_H

#include "command.h"

struct session {
	const char *command; /* name of the command, for messages */
	struct stk_context *ctx;
	struct stk_storage *storage; /* NULL: the context's storage is used */
	struct stk_pipeline *pipeline;
	int32_t device_id;      /* number of the GPU that runs the pipeline; -1: only cores */
	double mean[3], std[3]; /* mean and standard deviation with which the standard graph normalises, in units of 0..255 */
	bool standard;          /* true if the graph is the standard one for images, neither from a file nor for sounds */
	bool sounds;            /* true if the source is a folder of sounds, of which the graph makes log-mel bands */
	bool flat;              /* true if the source is a folder that contains the images directly */
	bool tars, labels;      /* tars: the source consists of tars; labels: their samples have labels, in files that end in .cls */
	size_t skipped;         /* if `flat`: number of the folder's files that are not images */
	const char *source;     /* the folder, file or URI that the caller named */
	bool refused;       /* true if Loader refuses the source's class folders; the pipeline then reads them without their subfolders */
	char refusal[1024]; /* if `refused`: the reason */
};

/* The variants of the standard graph, by their outputs. */
enum graph_kind {
	GRAPH_TRAIN, /* random crop, resized to --size (224 x 224), random flip, normalised float CHW; labels. For a folder of sounds: 80 log-mel bands */
	GRAPH_VIEW, /* the outputs of GRAPH_TRAIN, then the file's shape, the anchor and shape of the drawn window, and the flip. Bad samples are skipped */
	GRAPH_BYTES, /* the files' bytes and labels, in order. Bad samples are skipped and counted */
	GRAPH_DECODE_CHECK /* images, decoded completely, in order, reduced to 16 x 16; labels; the files' bytes. Bad samples are skipped and counted */
};

enum { MOST_GLOBS = 16 };
/* Sets the globs of the files that Loader reads in class folders. Returns their number. */
size_t image_globs(const char *globs[MOST_GLOBS]);
/* Removes the operator's name from the end of a message, for operators that the user did not write. */
void drop_operator(struct stk_error *err);

/* Makes the pipeline of a JSON file, or the standard pipeline of this kind over another source: a folder of classes, of images or of sounds, an index, tars,
 * a prefix of a bucket's keys, one image or, for GRAPH_BYTES, a text file that lists images. Class folders are read by Loader's rules. On an error, prints it
 * and returns false. Call close_session in either case. */
bool open_session(struct session *session, const char *command, const char *source, enum graph_kind kind, const struct settings *s);
void close_session(struct session *session);

/* Takes the next batch, as stk_pipeline_next does. STK_CANCELLED: the user has interrupted the command. */
enum stk_status next_batch(struct session *session, struct stk_batch **batch, struct stk_error *err);

/* Creates a storage from the options; *out is NULL if none of them was given. On an error, prints it and returns false. */
bool open_storage(const char *command, const struct settings *s, struct stk_storage **out);

/* Opens a session with a context and a storage, but without a pipeline. */
bool open_context(struct session *session, const char *command, const struct settings *s);

/* Returns false, after printing the reason, if there is no such file or folder. Returns true for all URIs and tars: these, whose names may be patterns, are
 * looked for when they are read. */
bool source_is_there(const char *command, const char *source);

/* Returns whether `stoker inspect SOURCE` would find all bad files. */
bool has_inspection(const struct session *session, const char *source);
/* Prints an error. After an error about a sample, recommends `stoker inspect` if has_inspection returns true. Returns EXIT_PROBLEM. */
int fail_at(const struct session *session, const char *source, const struct stk_error *err);

/* Reads a whole file of less than 128 MiB and appends a NUL. Free the result with free. On an error, returns NULL and sets *err. */
char *read_text_file(const char *path, size_t *size, struct stk_error *err);

/* Returns true for any folder, an index, tars, or a prefix of a bucket's keys; false for one image, a pipeline or a list. */
bool is_tree(const char *source);
bool is_pipeline(const char *path); /* returns whether the path ends in .json, as pipelines' files do */
/* Returns whether the source is one that `run` and `explain` take: a pipeline, or a data set for which the usual training pipeline is made. Otherwise prints
 * which sources they take. */
bool makes_pipeline(const char *command, const char *source);

#endif
