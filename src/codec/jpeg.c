/* SPDX-License-Identifier: Apache-2.0
 * The JPEG codec: one header parser, and a choice of decoders. */
#include "base/cpu.h"
#include "codec/codec_impl.h"
#include "codec/jpeg_fast.h"
#include "codec/jpeg_header.h"
#include "codec/jpeg_progressive.h"
#include "codec/jpeg_script.h"
#include "codec/jpeg_turbo.h"

#include <stdlib.h>
#include <string.h>

struct stk_jpeg_decoder {
	struct stk_jpeg_turbo *turbo;
	struct stk_jpeg_kernels kernels;
	struct stk_jpeg_fast *fast;    /* NULL if libjpeg-turbo decodes all files (see wants_fast) */
	struct stk_jpeg_header header; /* header of the image that is being decoded, or was peeked at last */
	uint64_t parse;                /* number of the parse whose result `header` is; other numbers are those of earlier headers */
};

/* Returns whether Stoker's own decoder is used. STOKER_JPEG (libjpeg-turbo or stoker) decides. If it is not set, Stoker's own decoder is used if it has
 * SIMD kernels for the processor, since its kernels in plain C are slower than libjpeg-turbo's assembly. The pixels are the same. */
static bool wants_fast(unsigned cpu)
{
	const char *forced = getenv("STOKER_JPEG");
	if (forced && strcmp(forced, "libjpeg-turbo") == 0)
		return false;
	if (forced && strcmp(forced, "stoker") == 0)
		return true;
	return cpu & STK_CPU_AVX2;
}

enum stk_status stk__jpeg_decoder_create(struct stk_decoder *d, struct stk_error *err)
{
	struct stk_jpeg_decoder *j = stk__calloc(1, sizeof *j);
	if (!j)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a JPEG decoder");
	d->jpeg = j;
	stk__jpeg_kernels_init(&j->kernels, d->cpu);
	if (wants_fast(d->cpu)) {
		j->fast = stk__jpeg_fast_create(&j->kernels);
		if (!j->fast)
			return stk__fail(err, STK_NO_MEMORY, "no memory for a JPEG decoder");
	}
	return stk__jpeg_turbo_create(d->scratch, &j->turbo, err);
}

void stk__jpeg_decoder_destroy(struct stk_jpeg_decoder *j)
{
	if (!j)
		return;
	stk__jpeg_turbo_destroy(j->turbo);
	stk__jpeg_fast_destroy(j->fast);
	stk__free(j);
}

static bool jpeg_probe(const uint8_t *data, size_t size)
{
	return size >= 3 && data[0] == 0xff && data[1] == 0xd8 && data[2] == 0xff;
}

/* Fills info from the header. */
static enum stk_status describe(const struct stk_jpeg_header *h, struct stk_image_info *info, struct stk_error *err)
{
	if (h->color == STK_JPEG_UNKNOWN)
		return stk__fail(err, STK_UNSUPPORTED, "a JPEG of %d components; save it as RGB", h->components);
	info->width = h->width;
	info->height = h->height;
	info->channels = h->components;
	info->bits = 8;
	info->orientation = h->orientation;
	info->progressive = h->process == STK_JPEG_PROGRESSIVE || h->process == STK_JPEG_ARITHMETIC_PROGRESSIVE;
	info->memory = stk__jpeg_memory(h);
	return STK_OK;
}

static enum stk_status jpeg_peek(
	struct stk_decoder *d, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err)
{
	struct stk_jpeg_header own, *h = &own;
	if (d) {
		h = &d->jpeg->header;
		info->jpeg = (struct stk_jpeg_seen){h, ++d->jpeg->parse};
	}
	enum stk_status status = stk__jpeg_header_parse(data, size, h, err);
	return status ? status : describe(h, info, err);
}

const struct stk_jpeg_header *stk__jpeg_peeked(const struct stk_decoder *d, const struct stk_image_info *info)
{
	const bool here = info->jpeg.header == &d->jpeg->header && info->jpeg.parse == d->jpeg->parse;
	return here ? info->jpeg.header : NULL;
}

/* Refuses a file with too many scans. libjpeg-turbo reads all blocks once in each scan, which takes 0.1 to 0.3 us per block. */
static enum stk_status check_scans(
	const struct stk_decoder *d, const struct stk_jpeg_header *h, const struct stk_decode *rq, struct stk_error *err)
{
	struct stk_jpeg_header walk = *h;
	bool several =
		h->process == STK_JPEG_PROGRESSIVE || h->process == STK_JPEG_ARITHMETIC_PROGRESSIVE || h->scan_components < h->components;
	if (!several || stk__jpeg_script_affordable(rq->data, rq->size, &walk, d->limits.max_scans))
		return STK_OK;
	return stk__jpeg_script_fail(h, d->limits.max_scans, err);
}

static enum stk_status jpeg_decode(struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	struct stk_jpeg_header *h = &d->jpeg->header;
	enum stk_status status = stk__jpeg_peeked(d, rq->info) ? STK_OK : stk__jpeg_header_parse(rq->data, rq->size, h, err);
	d->jpeg->parse++; /* the decoders below change the header */
	if (status)
		return status;
	if (h->width != rq->info->width || h->height != rq->info->height || h->components != rq->info->channels)
		return stk__fail(err, STK_INVALID, "the image's info was read from another image");
	/* A truncated file must be refused for every window, but decoders stop after the window's last row. */
	size_t end;
	if (!stk__jpeg_find_eoi(rq->data, rq->size, h, &end) && !d->limits.lenient) {
		status = stk__fail(err, STK_CORRUPT, "a truncated JPEG: no EOI before its end at %zu bytes", rq->size);
		if (err)
			err->offset = (int64_t)rq->size;
		return status;
	}
	if (d->jpeg->fast) {
		struct stk_arena_mark mark = stk__arena_mark(d->scratch);
		status = h->process == STK_JPEG_PROGRESSIVE
				 ? stk__jpeg_progressive_decode(&d->jpeg->kernels, h, d->limits.max_scans, rq, d->scratch)
				 : stk__jpeg_fast_decode(d->jpeg->fast, h, end, rq, d->scratch);
		if (!status || stk__cancelled(rq->cancel))
			return status;
		stk__arena_release(d->scratch, mark);
	}
	status = check_scans(d, h, rq, err);
	return status ? status : stk__jpeg_turbo_decode(d->jpeg->turbo, h, &d->limits, rq, err);
}

static const char *const endings[] = {"jpg", "jpeg", NULL};

const struct stk_codec stk__codec_jpeg = {"jpeg", "JPEG", endings, true, jpeg_probe, jpeg_peek, jpeg_decode};
