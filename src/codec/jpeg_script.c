/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_script.h"

#include <string.h>

enum { MAX_LOW = 13, UNCODED = -1 };

/* [component][position in zigzag order]: number of the lowest bit of the coefficient that the scans so far contain; UNCODED: they contain none. */
struct coded_bits {
	int8_t low_bit[3][64];
};

/* Records which bits of a component's coefficients the scan contains. Returns false if the scan does not follow the earlier ones as the standard says. */
static bool add_scan(int8_t low_bit[64], const struct stk_jpeg_header *h)
{
	if (h->spectral_start > 0 && low_bit[0] == UNCODED)
		return false;
	for (int k = h->spectral_start; k <= h->spectral_end; k++) {
		if (low_bit[k] != (h->approx_high ? h->approx_high : UNCODED))
			return false;
		low_bit[k] = (int8_t)h->approx_low;
	}
	return true;
}

static bool scan_sound(const struct stk_jpeg_header *h, struct coded_bits *coded)
{
	bool dc = h->spectral_start == 0;
	if (dc ? h->spectral_end != 0 : h->spectral_end < h->spectral_start || h->spectral_end > 63 || h->scan_components != 1)
		return false;
	if (h->approx_low > MAX_LOW || (h->approx_high && h->approx_high != h->approx_low + 1))
		return false;
	for (int i = 0; i < h->scan_components; i++)
		if ((i && h->scan_order[i] < h->scan_order[i - 1]) || !add_scan(coded->low_bit[h->scan_order[i]], h))
			return false;
	return true;
}

static bool all_coded(const struct coded_bits *coded, int components)
{
	for (int c = 0; c < components; c++)
		for (int k = 0; k < 64; k++)
			if (coded->low_bit[c][k] != 0)
				return false;
	return true;
}

/* ---- work ---- */

static int64_t blocks_along(int32_t samples)
{
	return (samples + 7) / 8;
}

/* Returns the number of blocks of all components, without those that only pad an image to whole MCUs. */
static int64_t blocks_of(const struct stk_jpeg_header *h)
{
	int64_t blocks = 0;
	for (int c = 0; c < h->components; c++)
		blocks += blocks_along(h->component[c].width) * blocks_along(h->component[c].height);
	return blocks;
}

/* Returns the number of blocks that the scan visits. */
static int64_t visits_of(const struct stk_jpeg_header *h)
{
	int64_t visits = 0;
	for (int i = 0; i < h->scan_components; i++) {
		const struct stk_jpeg_component *c = &h->component[h->scan_order[i]];
		visits += blocks_along(c->width) * blocks_along(c->height);
	}
	return visits;
}

enum { FULL_TIMES = 32, SCANS_A_TIME = 8, FREE_VISITS_A_SCAN = 1 << 14 };

static int64_t times_allowed(int max_scans)
{
	int64_t times = max_scans / SCANS_A_TIME;
	return max_scans < FULL_TIMES ? max_scans : times < FULL_TIMES ? FULL_TIMES : times;
}

int64_t stk__jpeg_visits_allowed(const struct stk_jpeg_header *h, int max_scans)
{
	return (int64_t)max_scans * FREE_VISITS_A_SCAN + times_allowed(max_scans) * blocks_of(h);
}

bool stk__jpeg_script_affordable(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans)
{
	int64_t left = stk__jpeg_visits_allowed(h, max_scans);
	size_t at = h->scan_offset;
	for (int scans = 1; scans <= max_scans; scans++) {
		left -= visits_of(h);
		if (left < 0)
			return false;
		if (stk__jpeg_header_next(data, size, h, &at) != STK_JPEG_NEXT_SCAN)
			return true;
	}
	return false;
}

enum stk_status stk__jpeg_script_fail(const struct stk_jpeg_header *h, int max_scans, struct stk_error *err)
{
	return stk__fail(err, STK_LIMIT,
		"a JPEG of more than %d scans, or whose scans go over its %dx%d pixels more than %lld times (STOKER_MAX_JPEG_SCANS=%d)",
		max_scans, h->width, h->height, (long long)(stk__jpeg_visits_allowed(h, max_scans) / blocks_of(h)), max_scans);
}

/* ---- the walk ---- */

bool stk__jpeg_script_walk(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans,
	bool (*visit)(void *user, const struct stk_jpeg_header *h), void *user)
{
	struct coded_bits coded;
	size_t at = h->scan_offset;
	int64_t left = stk__jpeg_visits_allowed(h, max_scans);
	memset(coded.low_bit, UNCODED, sizeof coded.low_bit);
	for (int scans = 1; scans <= max_scans; scans++) {
		left -= visits_of(h);
		if (left < 0 || !scan_sound(h, &coded) || !visit(user, h))
			return false;
		enum stk_jpeg_next next = stk__jpeg_header_next(data, size, h, &at);
		if (next != STK_JPEG_NEXT_SCAN)
			return next == STK_JPEG_NEXT_END && all_coded(&coded, h->components);
	}
	return false;
}

static bool pass_by(void *user, const struct stk_jpeg_header *h)
{
	(void)user;
	(void)h;
	return true;
}

bool stk__jpeg_script_sound(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans)
{
	return stk__jpeg_script_walk(data, size, h, max_scans, pass_by, NULL);
}
