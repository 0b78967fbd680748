/* SPDX-License-Identifier: Apache-2.0
 *
 * What several commands need: a context that logs to stderr, the graph that training on photographs uses, graphs from files, and a pipeline over
 * one of them. All calls belong to one thread. */
#ifndef STOKER_CLI_SESSION_H
#define STOKER_CLI_SESSION_H

#include "command.h"

struct session {
	const char *command; /* named in messages */
	struct stk_context *ctx;
	struct stk_storage *storage; /* NULL: the context's */
	struct stk_pipeline *pipeline;
	int32_t device_id;      /* of the GPU it runs on; -1: the cores alone */
	double mean[3], std[3]; /* that the standard graph normalises with, in units of 0..255 */
	bool standard;          /* the graph is the standard one */
	bool flat;              /* the source is a folder that holds the images itself */
	bool tars, labels;      /* the source is tars; their samples have labels (cls) */
	size_t skipped;         /* files of that folder that are not images */
};

/* What the standard graph ends in. */
enum graph_kind {
	GRAPH_TRAIN, /* random crop, 224 x 224, random flip, normalised float CHW */
	GRAPH_VIEW, /* the same, and behind image and label what was drawn: the file's shape, the window's anchor and shape, the flip. Bad samples are skipped */
	GRAPH_BYTES,       /* the files' bytes and labels, in order */
	GRAPH_DECODE_CHECK /* every pixel decoded, in order, shrunk to a stamp; labels; the files' bytes. Bad samples are skipped and counted */
};

/* Opens DIR (a folder of classes, tars, or one image) with the standard graph of that kind, or a pipeline's JSON. Prints what went wrong and returns
 * false; close_session is to be called in either case. */
bool open_session(struct session *session, const char *command, const char *source, enum graph_kind kind, const struct settings *s);
void close_session(struct session *session);

/* A storage from the options, NULL where none of them is given. Prints what is wrong with them and returns false. */
bool open_storage(const char *command, const struct settings *s, struct stk_storage **out);

/* The session without a pipeline: only its context. */
bool open_context(struct session *session, const char *command, const struct settings *s);

/* False, and said so: no such file or folder. Stores and tars, whose names may be patterns, are looked for when they are read. */
bool source_is_there(const char *command, const char *source);

/* Whether `stoker inspect SOURCE` would find all bad files; fail_at says so behind the error of a sample, and returns EXIT_PROBLEM. */
bool has_inspection(const struct session *session, const char *source);
int fail_at(const struct session *session, const char *source, const struct stk_error *err);

/* Whole file, with a NUL behind it; freed with free. NULL: *err says why. */
char *read_text_file(const char *path, size_t *size, struct stk_error *err);

/* True for a folder of classes or of images, an index, tars, or a prefix of a bucket's keys; false for one image or a pipeline. */
bool is_tree(const char *source);
bool is_pipeline(const char *path); /* by its name */

#endif
