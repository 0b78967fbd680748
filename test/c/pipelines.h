/* SPDX-License-Identifier: Apache-2.0
 * Small pipelines over real files, for tests of the engine. */
#ifndef STK_TEST_PIPELINES_H
#define STK_TEST_PIPELINES_H

#include "stoker/stoker.h"

#include <stdio.h>

/* Creates a temporary folder with `files` JPEGs of various sizes in 3 classes. remove_folder deletes it and frees its name. */
char *make_folder(int files, uint64_t seed);
void remove_folder(char *folder);
/* Writes the path of file i of the folder to `path`. The file belongs to class i % 3. */
void file_path(const char *folder, int i, char *path, size_t capacity);

struct options {
	int32_t threads, batch, prefetch, rank, ranks, max_batches,
		read_requests; /* 0 stands for the library's default; for ranks, 0 stands for one rank */
	const char *tail;
	uint64_t seed;
	bool no_fuse, in_order, trace, epoch_by_epoch;
	bool whole; /* reads whole images instead of random windows, so that a sample needs the same memory in each epoch */
	enum stk_on_error on_error;
	double max_errors;
};

/* Makes the pipeline readers.file -> decoders.image_random_crop (with `whole`, decoders.image) -> resize 32x24 -> crop_mirror_normalize, and the label. Asserts
 * success. */
struct stk_pipeline *open_pipeline(const char *folder, const struct options *o, struct stk_context **ctx);
void close_pipeline(struct stk_pipeline *p, struct stk_context *ctx);

struct run_sample {
	int64_t epoch, position, id;
	uint64_t hash; /* hash of all outputs and their shapes */
};
struct run {
	struct run_sample *samples;
	size_t count;
};
uint64_t hash_sample(struct stk_batch *b, int32_t i);
struct run drain_epochs(struct stk_pipeline *p, int epochs);
struct run run_epochs(const char *folder, const struct options *o, int epochs);
/* Runs the rest of the epoch from a saved state. */
struct run resume_epoch(const char *folder, const struct options *o, const char *state);

double pipeline_counter(struct stk_pipeline *p, const char *name); /* returns a counter; fails the test if it does not exist */

#endif
