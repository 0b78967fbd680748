/* SPDX-License-Identifier: Apache-2.0
 * Shared by the image decoders: DALI's arguments, reading the header, and the conversion of the file's pixels to the wanted type. Each decoder has struct
 * stk_decode_args as the first member of its arguments and struct stk_decode_state as its state, and only has to set the window to keep. */
#ifndef STK_OP_DECODE_H
#define STK_OP_DECODE_H

#include "op/nd.h"

struct stk_decode_args {
	int32_t output_type, dtype;
	const char *values;
	bool adjust_orientation;
	int64_t scale_denom; /* the argument of decoders.image; 0 in the other decoders, which do not have it */
	/* accepted for compatibility with DALI, without effect */
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
	struct stk_desc whole;    /* HWC, for the whole decoded image */
	struct stk_window window; /* the window to keep; at first everything */
};

/* Checks the arguments, and reads the file's header unless a graph is being built. Sets state->whole, state->window and out[0].desc to the whole image; while a
 * graph is built, its height and width are -1. */
enum stk_status stk__decode_infer(const struct stk_call *call, struct stk_error *err);

/* Sets the output's extents to those of state->window, at the end of an operator's infer. Fails if the window is empty. */
enum stk_status stk__decode_keep(const struct stk_call *call, struct stk_error *err);

/* Functions for the operators' tables (struct stk_op_def): extent, encoded, fetch, lower and classify. lower cuts the window and then converts the type. */
void stk__decode_extent(const struct stk_call *call, struct stk_image *whole);
enum stk_status stk__decode_fetch(const struct stk_call *call, struct stk_rect part, const struct stk_image *dst, struct stk_error *err);
void stk__decode_encoded(const struct stk_call *call, struct stk_encoded *out);
void stk__decode_lower(const struct stk_call *call, struct stk_pass *pass);
unsigned stk__decode_classify(const void *args, const struct stk_desc *in);

#endif
