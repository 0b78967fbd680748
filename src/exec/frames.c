/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/frames.h"

#include "kernel/pass/pass.h"

bool stk__frames_fit(const struct stk_desc *desc)
{
	int64_t most = STK_PASS_MAX_EXTENT, frames = 1;
	for (int32_t k = 0; k < desc->ndim; k++) {
		if (desc->shape[k] > most)
			return false;
		frames *= k < desc->ndim - 3 && desc->shape[k] ? desc->shape[k] : 1;
		if (frames > most)
			return false;
	}
	return true;
}

struct stk_frames stk__frames_of(const struct stk_tensor *t)
{
	static const char *const by_ndim[] = {[2] = "HW", [3] = "HWC", [4] = "FHWC", [5] = "FDHWC"};
	const struct stk_desc *d = &t->desc;
	const char *layout = d->layout[0] ? d->layout : by_ndim[d->ndim];
	ptrdiff_t stride = (ptrdiff_t)stk_dtype_size(d->dtype);
	struct stk_frames f = {
		.image = {.data = t->data, .dtype = d->dtype, .width = 1, .height = 1, .channels = 1, .channel = stride}, .count = 1};
	for (int32_t k = d->ndim - 1; k >= 0; k--) {
		int32_t n = (int32_t)d->shape[k];
		switch (layout[k]) {
		case 'W':
			f.image.width = n;
			f.image.pixel = stride;
			break;
		case 'H':
			f.image.height = n;
			f.image.row = stride;
			break;
		case 'C':
			f.image.channels = n;
			f.image.channel = stride;
			break;
		default: /* leading dims are frames */
			f.stride = f.count == 1 ? stride : f.stride;
			f.count *= n;
		}
		stride *= n;
	}
	return f;
}

bool stk__is_planar(const struct stk_image *i)
{
	return i->channels > 1 && i->channel != (ptrdiff_t)stk_dtype_size(i->dtype);
}

struct stk_frames stk__frames_plane(const struct stk_frames *f, int32_t plane, int32_t channels)
{
	struct stk_frames p = *f;
	p.image.data = (char *)p.image.data + plane * p.image.channel;
	p.image.channels = channels;
	return p;
}
