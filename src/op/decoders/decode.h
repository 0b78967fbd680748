/* SPDX-License-Identifier: Apache-2.0
 * What the decoders share: DALI's arguments, the header, and the way from the file's pixels to the type asked for. An operator of the family keeps
 * struct stk_decode_args as its first member and struct stk_decode_state as its state; it only has to say which window it keeps. */
#ifndef STK_OP_DECODE_H
#define STK_OP_DECODE_H

#include "op/nd.h"

struct stk_decode_args {
	int32_t output_type, dtype;
	bool adjust_orientation;
	int64_t scale_denom; /* decoders.image alone has it; 0 elsewhere */
	/* DALI's, without effect here */
	bool affine, jpeg_fancy_upsampling, use_fast_idct, cache_debug, cache_batch_copy;
	float hw_decoder_load;
	int64_t hybrid_huffman_threshold, device_memory_padding, device_memory_padding_jpeg2k, host_memory_padding,
		host_memory_padding_jpeg2k;
	int64_t preallocate_width_hint, preallocate_height_hint, cache_size, cache_threshold;
	const char *cache_type;
};
extern const struct stk_arg_def stk__decode_group[], stk__decode_cache_group[];

struct stk_decode_state {
	struct stk_image_info info;
	struct stk_desc whole;    /* HWC, as if all of it were decoded */
	struct stk_window window; /* what is kept; everything to begin with */
};

/* Peeks at the header. state->whole, state->window and out[0].desc describe the whole image then; extents are -1 while a graph is built. */
enum stk_status stk__decode_infer(const struct stk_call *call, struct stk_error *err);

/* For the end of an operator's infer: checks that state->window is not empty and takes its extents for the output. */
enum stk_status stk__decode_keep(const struct stk_call *call, struct stk_error *err);

/* Members of the table: extent, encoded, fetch, lower (window, then type) and classify. */
void stk__decode_extent(const struct stk_call *call, struct stk_image *whole);
enum stk_status stk__decode_fetch(const struct stk_call *call, struct stk_rect part, const struct stk_image *dst, struct stk_error *err);
void stk__decode_encoded(const struct stk_call *call, struct stk_encoded *out);
void stk__decode_lower(const struct stk_call *call, struct stk_pass *pass);
unsigned stk__decode_classify(const void *args, const struct stk_desc *in);

#endif
