/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_turbo.h"

#include "codec/convert.h"
#include "codec/jpeg_memory.h"
#include "codec/jpeg_script.h"

#include <setjmp.h>
#include <string.h>

#include <jerror.h>

struct stk_jpeg_turbo {
	struct jpeg_decompress_struct cinfo;
	struct stk_jpeg_memory memory;
	struct jpeg_error_mgr errors;
	struct jpeg_source_mgr source;
	struct jpeg_progress_mgr progress;
	/* the state of the current decode */
	jmp_buf escape;
	enum stk_status status;
	struct stk_error *err;
	size_t size;
	const struct stk_jpeg_header *header;
	const struct stk_cancel *cancel;
	int max_scans;
	int64_t visits_left; /* number of blocks that scans may still visit */
	bool buffering;      /* libjpeg is reading scans into coefficients and has not begun to make rows of pixels */
	bool lenient;
};

static struct stk_jpeg_turbo *turbo_of(j_common_ptr cinfo)
{
	return (struct stk_jpeg_turbo *)cinfo; /* cinfo is the first member of the struct */
}

/* ---- errors ---- */

static enum stk_status status_of(int code)
{
	switch (code) {
	case JERR_OUT_OF_MEMORY:
		return STK_NO_MEMORY;
	case JERR_ARITH_NOTIMPL:
	case JERR_BAD_PRECISION:
	case JERR_CCIR601_NOTIMPL:
	case JERR_CONVERSION_NOTIMPL:
	case JERR_FRACT_SAMPLE_NOTIMPL:
	case JERR_NOTIMPL:
	case JERR_NOT_COMPILED:
	case JERR_SOF_UNSUPPORTED:
		return STK_UNSUPPORTED;
	default:
		return STK_CORRUPT;
	}
}

/* Returns whether a warning with this code means that libjpeg guesses pixels. Other warnings (stray bytes, unusual versions) do no harm. */
static bool loses_data(int code)
{
	return code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC ||
	       code == JWRN_JPEG_EOF;
}

static void abort_decode(j_common_ptr cinfo, enum stk_status status)
{
	struct stk_jpeg_turbo *t = turbo_of(cinfo);
	char text[JMSG_LENGTH_MAX];
	size_t offset = t->size - (t->cinfo.src ? t->cinfo.src->bytes_in_buffer : 0);
	cinfo->err->format_message(cinfo, text);
	t->status = stk__fail(t->err, status, "JPEG, near offset %zu: %s", offset, text);
	if (t->err)
		t->err->offset = (int64_t)offset;
	longjmp(t->escape, 1);
}

static void on_error(j_common_ptr cinfo)
{
	abort_decode(cinfo, status_of(cinfo->err->msg_code));
}

static void on_message(j_common_ptr cinfo, int level)
{
	if (level < 0 && !turbo_of(cinfo)->lenient && loses_data(cinfo->err->msg_code))
		abort_decode(cinfo, STK_CORRUPT);
}

static void on_output(j_common_ptr cinfo)
{
	(void)cinfo;
}

/* Returns the number of blocks that the current scan has in a row of MCUs. */
static int64_t blocks_a_row(const struct jpeg_decompress_struct *cinfo)
{
	int64_t rows = cinfo->comps_in_scan == 1 ? cinfo->cur_comp_info[0]->v_samp_factor : 1;
	return rows * cinfo->MCUs_per_row * cinfo->blocks_in_MCU;
}

/* Called by libjpeg for each row of MCUs of each scan, and for each row of pixels. Stops a decode that is cancelled or exceeds the limits of scans. Such
 * limits are needed here too: a file of a few KB may have thousands of scans over a large image, and check_scans in jpeg.c misses some scans. */
static void on_progress(j_common_ptr cinfo)
{
	struct stk_jpeg_turbo *t = turbo_of(cinfo);
	if (stk__cancelled(t->cancel)) {
		t->status = STK_CANCELLED; /* stk__image_decode fills the error */
		longjmp(t->escape, 1);
	}
	if (t->buffering && t->cinfo.input_iMCU_row > 0)
		t->visits_left -= blocks_a_row(&t->cinfo);
	if (t->cinfo.input_scan_number <= t->max_scans && t->visits_left >= 0)
		return;
	t->status = stk__jpeg_script_fail(t->header, t->max_scans, t->err);
	longjmp(t->escape, 1);
}

/* ---- source ---- */

static void source_begin(j_decompress_ptr cinfo)
{
	(void)cinfo;
}

/* Supplies an EOI whenever libjpeg asks for bytes after the end of the data. */
static boolean source_fill(j_decompress_ptr cinfo)
{
	static const JOCTET eoi[] = {0xff, JPEG_EOI};
	WARNMS(cinfo, JWRN_JPEG_EOF);
	cinfo->src->next_input_byte = eoi;
	cinfo->src->bytes_in_buffer = sizeof eoi;
	return TRUE;
}

static void source_skip(j_decompress_ptr cinfo, long count)
{
	struct jpeg_source_mgr *s = cinfo->src;
	if (count <= 0)
		return;
	if ((size_t)count > s->bytes_in_buffer) {
		(void)source_fill(cinfo);
		return;
	}
	s->next_input_byte += count;
	s->bytes_in_buffer -= (size_t)count;
}

/* ---- life ---- */

enum stk_status stk__jpeg_turbo_create(struct stk_arena *scratch, struct stk_jpeg_turbo **out, struct stk_error *err)
{
	*out = NULL;
	struct stk_jpeg_turbo *t = stk__calloc(1, sizeof *t);
	if (!t)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a JPEG decoder");
	t->cinfo.err = jpeg_std_error(&t->errors);
	t->errors.error_exit = on_error;
	t->errors.emit_message = on_message;
	t->errors.output_message = on_output;
	t->err = err;
	if (setjmp(t->escape)) {
		jpeg_destroy_decompress(&t->cinfo);
		enum stk_status status = t->status;
		stk__free(t);
		return status;
	}
	jpeg_create_decompress(&t->cinfo);
	stk__jpeg_memory_install(&t->cinfo, &t->memory, scratch);
	t->source = (struct jpeg_source_mgr){.init_source = source_begin,
		.fill_input_buffer = source_fill,
		.skip_input_data = source_skip,
		.resync_to_restart = jpeg_resync_to_restart,
		.term_source = source_begin};
	t->cinfo.src = &t->source;
	t->progress.progress_monitor = on_progress;
	t->cinfo.progress = &t->progress;
	*out = t;
	return STK_OK;
}

void stk__jpeg_turbo_destroy(struct stk_jpeg_turbo *t)
{
	if (!t)
		return;
	jpeg_destroy_decompress(&t->cinfo);
	stk__free(t);
}

/* ---- decoding ---- */

/* How libjpeg's rows are converted to the rows that the caller wants. */
struct output {
	enum stk_pixels pixels;
	J_COLOR_SPACE space;
	int channels; /* number of channels of libjpeg's rows */
	bool direct;  /* libjpeg's rows have the wanted format, so nothing is converted */
};

static struct output choose_output(const struct stk_jpeg_header *h, enum stk_image_type type)
{
	if (h->color == STK_JPEG_CMYK || h->color == STK_JPEG_YCCK)
		return (struct output){h->adobe ? STK_PIXELS_CMYK_INVERTED : STK_PIXELS_CMYK, JCS_CMYK, 4, false};
	if (type == STK_GRAY || (type == STK_ANY_DATA && h->components == 1))
		return (struct output){STK_PIXELS_GRAY, JCS_GRAYSCALE, 1, true};
	if (type == STK_BGR)
		return (struct output){STK_PIXELS_RGB, JCS_EXT_BGR, 3, true};
	return (struct output){STK_PIXELS_RGB, JCS_RGB, 3, type != STK_YCBCR};
}

/* Returns whether libjpeg will smooth blocks: it guesses coefficients from neighbouring blocks if scans leave some of their bits undefined. */
static bool smooths_blocks(const struct jpeg_decompress_struct *cinfo)
{
	for (int c = 0; cinfo->coef_bits && c < cinfo->num_components; c++)
		for (int k = 0; k < DCTSIZE2; k++)
			if (cinfo->coef_bits[c][k] != 0)
				return true;
	return false;
}

/* Chooses the columns that libjpeg decodes: the window and a margin. The margin serves two purposes: triangle upsampling at the window's edges can read its
 * neighbours (one sample, which is up to max_h pixels), and every cropped component has at least 3 samples, below which libjpeg would not use the triangle
 * filter. Chooses whole rows in two cases: when decoding at a fraction of the size, since libjpeg-turbo 2.1 crops wrongly if components have different block
 * sizes; and when blocks are smoothed, since libjpeg would take the first cropped column of blocks for the first of the image. */
static void crop_columns(j_decompress_ptr cinfo, const struct stk_rect *window, JDIMENSION *first, JDIMENSION *count)
{
	int margin = 2 * cinfo->max_h_samp_factor, width = (int)cinfo->output_width;
	int x0 = window->x > margin ? window->x - margin : 0;
	int x1 = window->x + window->w < width - margin ? window->x + window->w + margin : width;
	*first = 0;
	*count = cinfo->output_width;
	if ((x0 == 0 && x1 == width) || cinfo->scale_denom > 1 || smooths_blocks(cinfo))
		return;
	*first = (JDIMENSION)x0;
	*count = (JDIMENSION)(x1 - x0);
	jpeg_crop_scanline(cinfo, first, count);
}

static void read_window(struct stk_jpeg_turbo *t, const struct output *o, const struct stk_decode *rq)
{
	j_decompress_ptr cinfo = &t->cinfo;
	const struct stk_rect *w = &rq->window;
	JDIMENSION first, count;
	crop_columns(cinfo, w, &first, &count);
	bool straight = o->direct && first == (JDIMENSION)w->x && count == (JDIMENSION)w->w;
	JSAMPROW line = straight ? NULL : cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE, (size_t)count * (size_t)o->channels);
	if (w->y > 0)
		(void)jpeg_skip_scanlines(cinfo, (JDIMENSION)w->y);
	for (int y = 0; y < w->h; y++) {
		uint8_t *to = (uint8_t *)rq->dst.data + y * rq->dst.row;
		JSAMPROW row = straight ? to : line;
		(void)jpeg_read_scanlines(cinfo, &row, 1);
		if (straight)
			continue;
		const uint8_t *from = line + ((size_t)w->x - first) * (size_t)o->channels;
		if (o->direct)
			memcpy(to, from, (size_t)w->w * (size_t)o->channels);
		else
			stk__convert_row(o->pixels, STK_UINT8, from, rq->type, STK_UINT8, to, w->w, STK_GRAY_TRUNCATED);
	}
}

static void decode(struct stk_jpeg_turbo *t, const struct stk_jpeg_header *header, const struct stk_decode *rq)
{
	j_decompress_ptr cinfo = &t->cinfo;
	struct output o = choose_output(header, rq->type);
	stk__jpeg_memory_forget_tables(cinfo);
	t->source.next_input_byte = rq->data;
	t->source.bytes_in_buffer = rq->size;
	(void)jpeg_read_header(cinfo, TRUE);
	cinfo->out_color_space = o.space;
	cinfo->scale_num = 1;
	cinfo->scale_denom = rq->denom > 1 ? (unsigned)rq->denom : 1;
	cinfo->dct_method = JDCT_ISLOW;
	cinfo->do_fancy_upsampling = TRUE;
	t->buffering = true;
	(void)jpeg_start_decompress(cinfo);
	t->buffering = false;
	read_window(t, &o, rq);
}

enum stk_status stk__jpeg_turbo_decode(struct stk_jpeg_turbo *t, const struct stk_jpeg_header *header,
	const struct stk_codec_limits *limits, const struct stk_decode *request, struct stk_error *err)
{
	t->status = STK_OK;
	t->err = err;
	t->size = request->size;
	t->header = header;
	t->cancel = request->cancel;
	t->max_scans = limits->max_scans;
	t->visits_left = stk__jpeg_visits_allowed(header, limits->max_scans);
	t->buffering = false;
	t->lenient = limits->lenient;
	if (!setjmp(t->escape))
		decode(t, header, request);
	jpeg_abort_decompress(&t->cinfo);
	return t->status;
}
