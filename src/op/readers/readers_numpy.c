/* SPDX-License-Identifier: Apache-2.0
 * readers.numpy: arrays from .npy files, whole or a window of each. */
#include "format/names.h"
#include "op/decoders/npy_array.h"
#include "op/geometry/slice_args.h"
#include "op/readers/reader_files.h"

#include <string.h>

struct readers_numpy {
	const char *file_root, *file_list, *file_filter;
	struct stk_strings files;
	struct stk_ints roi_start, roi_end, roi_shape, roi_axes;
	struct stk_floats rel_roi_start, rel_roi_end, rel_roi_shape;
	const char *out_of_bounds_policy;
	float fill_value;
	bool cache_header_information, register_buffers, use_o_direct; /* accepted for compatibility with DALI, without effect */
	struct stk_reader_args reader;
};

#define BOUND(member, kind, text)                                                                                                          \
	{                                                                                                                                  \
		.name = #member, .type = kind, .flags = STK_PER_SAMPLE | STK_SCALAR_OK, .offset = offsetof(struct readers_numpy, member),  \
		.min = -0x1p40, .max = 0x1p40, .shapes = true, .doc = text                                                                 \
	}
#define IGNORED(member, dflt, why) STK_ARG(struct readers_numpy, member, STK_ARG_BOOL, dflt, STK_FREE, STK_ACCEPTED, why)

static const struct stk_arg_def readers_numpy_args[] = {
	STK_ARG(struct readers_numpy, file_root, STK_ARG_STRING, NULL, STK_FREE, 0,
		"Folder whose files, and those of its subfolders, are read; or the folder to which the paths of file_list and files are "
		"relative."),
	STK_ARG(struct readers_numpy, file_list, STK_ARG_STRING, NULL, STK_FREE, 0, "Text file with one path a line."),
	STK_ARG(struct readers_numpy, file_filter, STK_ARG_STRING, "\"*.npy\"", STK_FREE, 0,
		"Glob pattern for the names of files in file_root."),
	STK_ARG(struct readers_numpy, files, STK_ARG_STRINGS, NULL, STK_FREE, STK_SCALAR_OK, "Paths, instead of a folder or a list."),
	BOUND(roi_start, STK_ARG_INTS, "First index of the window along each of roi_axes; default: 0."),
	BOUND(roi_end, STK_ARG_INTS, "Index after the last; default: the extent."),
	BOUND(roi_shape, STK_ARG_INTS, "Extent of the window, instead of an end."),
	BOUND(rel_roi_start, STK_ARG_FLOATS, "First index as a fraction of the extent; the result is rounded."),
	BOUND(rel_roi_end, STK_ARG_FLOATS, "Index after the last as a fraction of the extent; the result is rounded."),
	BOUND(rel_roi_shape, STK_ARG_FLOATS, "Extent of the window as a fraction of the array's, instead of an end."),
	STK_ARG(struct readers_numpy, roi_axes, STK_ARG_INTS, NULL, (-STK_MAX_DIMS, STK_MAX_DIMS - 1), STK_SCALAR_OK,
		"Dims to which the window's bounds apply, in this order; negative ones count from the end. Default: all."),
	{.name = "out_of_bounds_policy",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct readers_numpy, out_of_bounds_policy),
		.fallback = "\"error\"",
		.choices = "error|pad|trim_to_shape",
		.doc = "If a window reaches outside of the array: fail, pad with fill_value, or trim the window."},
	STK_ARG(struct readers_numpy, fill_value, STK_ARG_FLOAT, "0.0", STK_FREE, STK_INFINITE | STK_NAN,
		"Value for elements outside of the array, with policy pad."),
	IGNORED(cache_header_information, "false", "Accepted and ignored: headers come with the files' bytes."),
	IGNORED(register_buffers, "true", "Accepted and ignored: GPUDirect Storage is not used."),
	IGNORED(use_o_direct, "false", "Accepted and ignored: files are read through the page cache."),
	STK_ARG_GROUP(struct readers_numpy, reader, stk__reader_group),
	STK_ARG_END,
};

/* ---- list of files ---- */

/* Returns the folder that contains the file `path`, without a slash at its end, or "" if path has no slash. The caller frees it. NULL: out of memory. */
static char *folder_of(const char *path)
{
	char *folder = stk__strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
	if (slash)
		slash[slash == folder] = '\0';
	else if (folder)
		folder[0] = '\0';
	return folder;
}

static enum stk_status open_names(
	const struct readers_numpy *a, const struct stk_access *access, struct stk_names *names, char **root, struct stk_error *err)
{
	enum stk_status s = a->file_list ? stk__names_read_list(access, a->file_list, names, err)
					 : stk__names_read_folder(a->file_root, a->file_filter, true, names, err);
	if (s)
		return s;
	*root = a->file_root ? stk__strdup(a->file_root) : folder_of(a->file_list);
	return *root ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a list of files");
}

static enum stk_status readers_numpy_open(const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	const struct readers_numpy *a = args;
	struct stk_names names = {0};
	struct stk_file_list_options o = {.access = access, .file_root = a->file_root};
	char *root = NULL;
	enum stk_status s = STK_OK;
	if (a->file_list && a->files.count >= 0)
		return stk__fail(err, STK_INVALID, "file_list and files are both given: choose one");
	if (!a->file_root && !a->file_list && a->files.count < 0)
		return stk__fail(err, STK_INVALID, "nothing to read: give file_root, file_list or files");
	o.files = stk__strings_or_none(&a->files, &o.file_count);
	if (!o.files) {
		s = open_names(a, access, &names, &root, err);
		o.file_root = root;
		o.files = names.at;
		o.file_count = names.count;
	}
	if (!s && !o.file_count)
		s = stk__fail(err, STK_INVALID, "%s: it names no files", a->file_list ? a->file_list : "files");
	if (!s)
		s = stk__reader_files_open(&o, &a->reader, shared, err);
	stk__names_free(&names);
	stk__free(root);
	return s;
}

/* ---- a sample ---- */

/* Returns whether the arguments select a window. If all given bounds are empty lists, they select one unless roi_axes is an empty list too. */
static bool has_window(const struct readers_numpy *a)
{
	const int32_t counts[] = {a->roi_start.count, a->roi_end.count, a->roi_shape.count, a->rel_roi_start.count, a->rel_roi_end.count,
		a->rel_roi_shape.count};
	int32_t most = -1;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		most = counts[i] > most ? counts[i] : most;
	return most > 0 || (most == 0 && a->roi_axes.count != 0);
}

static enum stk_status find_window(
	const struct readers_numpy *a, const struct stk_call *call, struct stk_npy_array *array, struct stk_error *err)
{
	static const int64_t all[STK_MAX_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
	const struct stk_slice_args slice = {.start = a->roi_start,
		.end = a->roi_end,
		.shape = a->roi_shape,
		.axes = a->roi_axes.count > 0 ? a->roi_axes : (struct stk_ints){array->whole.ndim, all},
		.rel_start = a->rel_roi_start,
		.rel_end = a->rel_roi_end,
		.rel_shape = a->rel_roi_shape};
	const struct stk_bounds_args bounds = {.out_of_bounds_policy = a->out_of_bounds_policy};
	if (!has_window(a))
		return STK_OK;
	struct stk_desc numbered = array->whole; /* messages number the dims, since an array's dims have no names */
	memcpy(numbered.layout, "01234567", (size_t)numbered.ndim);
	enum stk_status s = stk__window_of_slice(&slice, call, &numbered, &array->window, err);
	return s ? s : stk__window_bound(&array->window, &numbered, stk__bounds(&bounds), err);
}

/* Describes the array or its window. An array in C order of which no window is taken becomes a view of the file's bytes, so that it is not copied unless
 * the pipeline outputs it. */
static enum stk_status readers_numpy_infer(const struct stk_call *call, struct stk_error *err)
{
	struct stk_npy_array *array = call->state;
	call->out[0].desc = (struct stk_desc){.dtype = STK_NO_DTYPE, .ndim = -1};
	if (!call->bytes)
		return STK_OK;
	enum stk_status s = stk__npy_array_take(call, call->bytes->data, call->bytes->size, array, err);
	if (s || (s = find_window(call->args, call, array, err)))
		return s;
	stk__npy_array_place(array, array->file.dtype, &call->out[0]);
	return STK_OK;
}

static enum stk_status readers_numpy_run(const struct stk_call *call, struct stk_error *err)
{
	const struct readers_numpy *a = call->args;
	return stk__npy_array_copy(call, call->state, a->fill_value, err);
}

static void readers_numpy_order(const void *args, const void *shared, struct stk_order *out)
{
	const struct readers_numpy *a = args;
	stk__reader_order(&a->reader, stk__file_list_size(shared), out);
}

static const char *readers_numpy_listed_in(const void *args)
{
	return ((const struct readers_numpy *)args)->file_list;
}

static const struct stk_reader_def readers_numpy_reader = {
	.open = readers_numpy_open,
	.size = stk__reader_files_size,
	.fingerprint = stk__reader_files_fingerprint,
	.digest = stk__reader_files_digest,
	.order = readers_numpy_order,
	.uri = stk__reader_files_uri,
	.listed_in = readers_numpy_listed_in,
};

const struct stk_op_def stk__op_readers_numpy = {
	.name = "readers.numpy",
	.alias = "numpy_reader",
	.doc = "Reads arrays from .npy files.\n\n"
	       "Outputs the array of each file, in C order and the machine's byte order, even if the file has another. The roi "
	       "arguments keep a window of it. Files may\n"
	       "differ in shape; the arrays of a batch must have the same type and number of dims. Arrays of Python objects are "
	       "refused: reading them would run code.",
	.args = readers_numpy_args,
	.args_size = sizeof(struct readers_numpy),
	.state_size = sizeof(struct stk_npy_array),
	.flags = STK_OP_CLONED,
	.teardown = stk__reader_files_close,
	.infer = readers_numpy_infer,
	.run_cpu = readers_numpy_run,
	.reader = &readers_numpy_reader,
};
