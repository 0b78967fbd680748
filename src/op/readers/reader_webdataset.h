/* SPDX-License-Identifier: Apache-2.0
 * Shared by the two readers of WebDataset's tars. One knows all samples before it delivers the first; the other finds the samples while it reads. */
#ifndef STK_OP_READER_WEBDATASET_H
#define STK_OP_READER_WEBDATASET_H

#include "format/webdataset.h"
#include "op/readers/reader_samples.h"

struct stk_webdataset_args {
	struct stk_strings paths, index_paths, ext;
	struct stk_ints dtypes;
	const char *missing_component_behavior;
	bool case_sensitive_extensions, shuffle_shards;
	struct stk_reader_args reader;
};
extern const struct stk_arg_def stk__webdataset_args[];

/* The reader's options, computed from its arguments. `options` has pointers to `paths`, to `elements` and to the arguments, so the struct must not be moved. */
struct stk_webdataset_request {
	struct stk_archive_paths paths;
	size_t elements[STK_MAX_PARTS];
	struct stk_webdataset_options options;
};
STK_MUST_USE enum stk_status stk__webdataset_request(
	const struct stk_webdataset_args *a, const struct stk_access *access, struct stk_webdataset_request *out, struct stk_error *err);

/* Functions for struct stk_op_def. */
int32_t stk__webdataset_outputs(const void *args);
enum stk_status stk__webdataset_infer(const struct stk_call *call, struct stk_error *err);
enum stk_status stk__webdataset_run(const struct stk_call *call, struct stk_error *err);

#endif
