/* SPDX-License-Identifier: Apache-2.0 */
#include "media/coded_size.h"

#include "media/unit_bits.h"

enum { MOST_PIXELS = 1 << 16 };

struct coded {
	enum stk_unit_codec codec;
	int32_t width, height; /* size in pixels without the cropped parts; 0: no set was found */
	bool is_left, is_top;  /* whether pixels at these sides are cropped */
	bool differ;           /* whether there are sets of several sizes, or sets that cannot be read */
};

/* Reads the four cropped parts, and sets the size. unit_x, unit_y: number of pixels in the units in which the stream gives the parts, along x and y. */
static void take_crop(struct stk_unit_bits *b, int64_t width, int64_t height, uint32_t unit_x, uint32_t unit_y, struct coded *c)
{
	int64_t left = 0, right = 0, top = 0, bottom = 0;
	if (stk__take_bits(b, 1)) {
		left = (int64_t)stk__take_ue(b) * unit_x;
		right = (int64_t)stk__take_ue(b) * unit_x;
		top = (int64_t)stk__take_ue(b) * unit_y;
		bottom = (int64_t)stk__take_ue(b) * unit_y;
	}
	width -= left + right;
	height -= top + bottom;
	if (b->ended || width <= 0 || height <= 0 || width > MOST_PIXELS || height > MOST_PIXELS ||
		(c->width && (c->width != width || c->height != height))) {
		c->differ = true;
		return;
	}
	c->width = (int32_t)width;
	c->height = (int32_t)height;
	c->is_left |= left > 0;
	c->is_top |= top > 0;
}

static void skip_scaling_list(struct stk_unit_bits *b, int size)
{
	int last = 8, next = 8;
	for (int i = 0; i < size && next && !b->ended; i++) {
		next = (last + stk__take_se(b)) & 255;
		last = next ? next : last;
	}
}

/* Returns whether sets of this profile of H.264 describe the format of chroma. In other profiles the format is 4:2:0. */
static bool has_chroma(uint32_t profile)
{
	static const uint8_t profiles[] = {44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 144, 244};
	for (size_t i = 0; i < sizeof profiles; i++)
		if (profiles[i] == profile)
			return true;
	return false;
}

/* Reads a sequence parameter set of H.264 after its unit's first byte. Comments name the fields as section 7.3.2.1.1 of the standard does. */
static void read_h264(struct stk_unit_bits *b, struct coded *c)
{
	const uint32_t profile = stk__take_bits(b, 8);
	uint32_t chroma = 1;
	stk__take_bits(b, 16); /* constraints and level */
	stk__take_ue(b);       /* seq_parameter_set_id */
	if (has_chroma(profile)) {
		chroma = stk__take_ue(b);
		if (chroma == 3)
			stk__take_bits(b, 1); /* separate_colour_plane_flag */
		stk__take_ue(b);              /* bit_depth_luma_minus8 */
		stk__take_ue(b);              /* bit_depth_chroma_minus8 */
		stk__take_bits(b, 1);         /* qpprime_y_zero_transform_bypass_flag */
		if (stk__take_bits(b, 1))     /* seq_scaling_matrix_present_flag */
			for (int i = 0; i < (chroma == 3 ? 12 : 8) && !b->ended; i++)
				if (stk__take_bits(b, 1))
					skip_scaling_list(b, i < 6 ? 16 : 64);
	}
	stk__take_ue(b); /* log2_max_frame_num_minus4 */
	const uint32_t order = stk__take_ue(b);
	if (order == 0) {
		stk__take_ue(b); /* log2_max_pic_order_cnt_lsb_minus4 */
	} else if (order == 1) {
		stk__take_bits(b, 1); /* delta_pic_order_always_zero_flag */
		stk__take_se(b);      /* offset_for_non_ref_pic */
		stk__take_se(b);      /* offset_for_top_to_bottom_field */
		for (uint32_t n = stk__take_ue(b); n && !b->ended; n--)
			stk__take_se(b); /* offset_for_ref_frame */
	}
	stk__take_ue(b);      /* max_num_ref_frames */
	stk__take_bits(b, 1); /* gaps_in_frame_num_value_allowed_flag */
	const int64_t width = 16 * ((int64_t)stk__take_ue(b) + 1), units = (int64_t)stk__take_ue(b) + 1;
	const bool frames = stk__take_bits(b, 1); /* frame_mbs_only_flag */
	if (!frames)
		stk__take_bits(b, 1); /* mb_adaptive_frame_field_flag */
	stk__take_bits(b, 1);         /* direct_8x8_inference_flag */
	const uint32_t fields = frames ? 1 : 2;
	take_crop(b, width, 16 * units * fields, chroma == 1 || chroma == 2 ? 2 : 1, (chroma == 1 ? 2 : 1) * fields, c);
}

/* Reads a sequence parameter set of HEVC after its unit's two first bytes. Comments name the fields as sections 7.3.2.2.1 and 7.3.3 of the standard do. */
static void read_hevc(struct stk_unit_bits *b, struct coded *c)
{
	enum { PROFILE = 88, LEVEL = 8, MOST_SUB_LAYERS = 7 };
	bool profiles[MOST_SUB_LAYERS], levels[MOST_SUB_LAYERS];
	stk__take_bits(b, 4);                         /* sps_video_parameter_set_id */
	const int layers = (int)stk__take_bits(b, 3); /* sps_max_sub_layers_minus1 */
	stk__take_bits(b, 1);                         /* sps_temporal_id_nesting_flag */
	for (int i = 0; i < PROFILE + LEVEL; i += 8)
		stk__take_bits(b, 8);
	for (int i = 0; i < layers; i++) {
		profiles[i] = stk__take_bits(b, 1);
		levels[i] = stk__take_bits(b, 1);
	}
	if (layers > 0)
		stk__take_bits(b, 2 * (8 - layers)); /* reserved_zero_2bits */
	for (int i = 0; i < layers; i++)
		for (int n = (profiles[i] ? PROFILE : 0) + (levels[i] ? LEVEL : 0); n > 0; n -= 8)
			stk__take_bits(b, 8);
	stk__take_ue(b); /* sps_seq_parameter_set_id */
	const uint32_t chroma = stk__take_ue(b);
	if (chroma == 3)
		stk__take_bits(b, 1); /* separate_colour_plane_flag */
	const int64_t width = stk__take_ue(b), height = stk__take_ue(b);
	take_crop(b, width, height, chroma == 1 || chroma == 2 ? 2 : 1, chroma == 1 ? 2 : 1, c);
}

static bool read_unit(void *user, const uint8_t *unit, size_t size)
{
	enum { H264_SPS = 7, HEVC_SPS = 33 };
	struct coded *c = user;
	if (c->codec == STK_UNITS_H264 && size > 1 && (unit[0] & 31) == H264_SPS) {
		struct stk_unit_bits b = stk__unit_bits(unit + 1, size - 1);
		read_h264(&b, c);
	} else if (c->codec == STK_UNITS_HEVC && size > 2 && (unit[0] >> 1 & 63) == HEVC_SPS && !(unit[0] & 1) && unit[1] >> 3 == 0) {
		struct stk_unit_bits b = stk__unit_bits(unit + 2, size - 2); /* a set of the base layer: other layers have other pictures */
		read_hevc(&b, c);
	}
	return c->differ;
}

static int32_t round_up(int32_t v)
{
	return (v + 15) / 16 * 16;
}

void stk__coded_size(enum stk_unit_codec codec, const uint8_t *header, size_t size, int32_t *width, int32_t *height)
{
	struct coded c = {.codec = codec};
	struct stk_annex_b a;
	if (stk__annex_b_create(codec, header, size, &a, NULL))
		return;
	stk__annex_b_each_unit(a.head, a.head_size, read_unit, &c);
	stk__annex_b_free(&a);
	if (c.differ || !c.width)
		return;
	/* If the container's size leaves out only a part of H.264's last blocks, FFmpeg crops the pictures to it. */
	if (codec == STK_UNITS_H264 && !c.is_left && !c.is_top && *width > 0 && *height > 0 && *width <= c.width && *height <= c.height &&
		round_up(*width) == round_up(c.width) && round_up(*height) == round_up(c.height))
		return;
	*width = c.width;
	*height = c.height;
}
