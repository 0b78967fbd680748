/* SPDX-License-Identifier: Apache-2.0
 * readers.cifar: CIFAR-10 and CIFAR-100 from their binary files. */
#include "format/format.h"
#include "op/readers/reader_args.h"

struct readers_cifar {
	const char *root, *split, *label;
	struct stk_reader_args reader;
};

static const struct stk_arg_def readers_cifar_args[] = {
	STK_ARG(struct readers_cifar, root, STK_ARG_STRING, NULL, STK_FREE, STK_REQUIRED,
		"Folder with the binary files, or its parent folder, as the archives unpack."),
	{.name = "split",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct readers_cifar, split),
		.fallback = "\"train\"",
		.choices = "train|test",
		.doc = "The 50 000 images for training or the 10 000 for testing."},
	{.name = "label",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct readers_cifar, label),
		.fallback = "\"fine\"",
		.choices = "fine|coarse",
		.doc = "For CIFAR-100: labels are one of 100 classes (fine) or of 20 groups of them (coarse)."},
	STK_ARG_GROUP(struct readers_cifar, reader, stk__reader_group),
	STK_ARG_END,
};

static enum stk_status readers_cifar_setup(const void *args, void **shared, struct stk_error *err)
{
	const struct readers_cifar *a = args;
	struct stk_cifar *c = NULL;
	enum stk_status s = stk__cifar_open(a->root, a->split[1] == 'r' ? STK_CIFAR_TRAIN : STK_CIFAR_TEST, &c, err);
	if (s)
		return s;
	s = stk__reader_check(&a->reader, stk__cifar_size(c), err);
	if (s == STK_OK && a->label[0] == 'c' && stk__cifar_coarse_label(c, 0) < 0)
		s = stk__fail(err, STK_INVALID, "label=\"coarse\" is for CIFAR-100; %s holds CIFAR-10", a->root);
	if (s) {
		stk__cifar_close(c);
		return s;
	}
	*shared = c;
	return STK_OK;
}

static void readers_cifar_teardown(void *shared)
{
	stk__cifar_close(shared);
}

static enum stk_status readers_cifar_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	call->out[0].desc = (struct stk_desc){STK_UINT8, 3, {32, 32, 3}, "HWC"};
	call->out[1].desc = (struct stk_desc){STK_INT32, 1, {1}, ""};
	if (call->tools) /* not NULL: called for a sample, whose image is a view of the data set and not a copy */
		call->out[0].data = (void *)(uintptr_t)stk__cifar_pixels(call->shared, call->place.sample);
	return STK_OK;
}

static enum stk_status readers_cifar_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct readers_cifar *a = call->args;
	const struct stk_cifar *c = call->shared;
	*(int32_t *)call->out[1].data =
		a->label[0] == 'c' ? stk__cifar_coarse_label(c, call->place.sample) : stk__cifar_label(c, call->place.sample);
	return STK_OK;
}

static int64_t readers_cifar_size(const void *shared)
{
	return stk__cifar_size(shared);
}

static uint64_t readers_cifar_fingerprint(const void *shared, enum stk_digest_form form)
{
	(void)form; /* no names of files are hashed */
	return stk__cifar_fingerprint(shared);
}

static void readers_cifar_order(const void *args, const void *shared, struct stk_order *out)
{
	const struct readers_cifar *a = args;
	stk__reader_order(&a->reader, stk__cifar_size(shared), out);
}

static const uint8_t *readers_cifar_resident(const void *shared, int32_t output, size_t *stride)
{
	*stride = (size_t)stk__cifar_pixels(shared, 1) - (size_t)stk__cifar_pixels(shared, 0);
	return output == 0 ? stk__cifar_pixels(shared, 0) : NULL;
}

/* Prefetches an image into the processor's cache. In shuffled order, images that follow each other are far apart in memory, so that without this a crop
 * would spend most of its time waiting for memory. */
static void readers_cifar_prefetch(const void *shared, int64_t id)
{
	enum { LINE = 64 };
	const uint8_t *pixels = stk__cifar_pixels(shared, id);
	for (int i = 0; i < 32 * 32 * 3; i += LINE)
		__builtin_prefetch(pixels + i);
}

static const struct stk_reader_def readers_cifar_reader = {
	.size = readers_cifar_size,
	.fingerprint = readers_cifar_fingerprint,
	.order = readers_cifar_order,
	.resident = readers_cifar_resident,
	.prefetch = readers_cifar_prefetch,
};

const struct stk_op_def stk__op_readers_cifar = {
	.name = "readers.cifar",
	.doc = "Reads CIFAR-10 or CIFAR-100.\n\n"
	       "Outputs images of shape (32, 32, 3), uint8, HWC, and a label, an int32 of shape (1,). The whole data set is kept in "
	       "memory, decoded.",
	.outputs = 2,
	.args = readers_cifar_args,
	.args_size = sizeof(struct readers_cifar),
	.flags = STK_OP_CLONED,
	.setup = readers_cifar_setup,
	.teardown = readers_cifar_teardown,
	.infer = readers_cifar_infer,
	.run_cpu = readers_cifar_run,
	.reader = &readers_cifar_reader,
};
