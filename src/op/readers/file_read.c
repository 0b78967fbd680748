/* SPDX-License-Identifier: Apache-2.0
 * io.file.read: reads the file that its input names, for names that other operators compute. */
#include "base/cancel.h"
#include "format/list.h"
#include "op/nd.h"
#include "storage/storage.h"

#include <string.h>

struct file_read {
	bool dont_use_mmap, use_o_direct; /* accepted for compatibility with DALI, without effect */
};

static const struct stk_arg_def file_read_args[] = {
	STK_ARG(struct file_read, dont_use_mmap, STK_ARG_BOOL, "false", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: files are read, not "
		"mapped."),
	STK_ARG(struct file_read, use_o_direct, STK_ARG_BOOL, "false", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: files are read through the system's cache."),
	STK_ARG_END,
};

enum { MOST_NAME = 4096 };

static enum stk_status take_name(const struct stk_tensor *in, char name[MOST_NAME], struct stk_error *err)
{
	size_t n = (size_t)in->desc.shape[0];
	if (n == 0 || n >= MOST_NAME)
		return stk__fail(err, STK_INVALID, "a file's name must have 1 to %d bytes, not %zu", MOST_NAME - 1, n);
	memcpy(name, in->data, n);
	name[n] = '\0';
	if (strlen(name) != n)
		return stk__fail(err, STK_INVALID, "the file's name holds a zero byte, after \"%s\"", name);
	return STK_OK;
}

static bool is_cancelled(void *cancel)
{
	return stk__cancelled(cancel);
}

/* Reads the file into the worker's scratch memory, and makes the output a view of it. */
static enum stk_status read_file(const struct stk_call *call, const char *name, struct stk_error *err)
{
	struct stk_arena *arena = call->tools->arena;
	uint8_t *data;
	size_t size;
	const struct stk_access access = {.interrupted = is_cancelled, .user = (void *)(uintptr_t)call->tools->cancel};
	enum stk_status s = stk__access_read(&access, name, stk__arena_left(arena), &data, &size, err);
	if (s)
		return s;
	call->out[0].data = stk__arena_take(arena, size ? size : 1);
	call->out[0].desc.shape[0] = (int64_t)size;
	if (!call->out[0].data)
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for %zu bytes of %s", size, name);
	else
		memcpy(call->out[0].data, data, size);
	stk__free(data);
	return s;
}

static enum stk_status file_read_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	char name[MOST_NAME];
	if ((in->ndim >= 0 && in->ndim != 1) || (in->dtype != STK_NO_DTYPE && stk_dtype_size(in->dtype) != 1))
		return stk__fail(err, STK_INVALID, "the input must be the name of a file, a uint8 tensor of 1 dim");
	call->out[0].desc = (struct stk_desc){STK_UINT8, 1, {-1}, ""};
	if (stk__building(call))
		return STK_OK;
	enum stk_status s = take_name(&call->in[0], name, err);
	return s ? s : read_file(call, name, err);
}

static enum stk_status file_read_run(const struct stk_call *call, struct stk_error *err)
{
	(void)call, (void)err;
	return STK_OK;
}

const struct stk_op_def stk__op_file_read = {
	.name = "io.file.read",
	.doc = "Reads a file whose name is a tensor of bytes.\n\n"
	       "np.frombuffer(path.encode(), np.uint8) makes such a tensor from a path, or from a URI that readers accept. A file is "
	       "read when its sample is processed. Readers\n"
	       "fetch ahead, so they are faster if the names are known before the run.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = file_read_args,
	.args_size = sizeof(struct file_read),
	.infer = file_read_infer,
	.run_cpu = file_read_run,
};
