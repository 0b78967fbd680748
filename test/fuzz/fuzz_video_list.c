/* SPDX-License-Identifier: Apache-2.0
 * Lists of videos: each entry of an accepted list must have a path without blanks, a label of 32 bits, and finite numbers if it has numbers. */
#include "fuzz.h"

#include "base/error.h"
#include "format/video_list.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_video_list l;
	struct stk_error err = {0};
	if (stk__video_list_parse((const char *)data, size, "videos", &l, &err)) {
		if (!strstr(err.message, "videos") || l.names || l.text)
			abort();
		return 0;
	}
	if (l.count < 1)
		abort();
	for (int64_t i = 0; i < l.count; i++) {
		const bool finite = !isinf(l.starts[i]) && !isinf(l.ends[i]), order = !isnan(l.starts[i]) || isnan(l.ends[i]);
		if (!l.names[i][0] || strpbrk(l.names[i], " \t\r\n") || l.labels[i] != (int32_t)l.labels[i] || !finite || !order)
			abort();
	}
	stk__video_list_free(&l);
	return 0;
}

uint8_t *fuzz_seed(int i, size_t *size)
{
	static const char *const texts[] = {"a.mp4 1\n", "a.mp4 1 0.5 1e3\nb.mp4 -7 -3\n",
		"\xef\xbb\xbf/data/c.webm\t0\t2\r\n\n  \nd 5 6 7", "a.mp4 2147483648", "a 1 nan", "a 1 0x1p3 inf", "a\n", ""};
	if ((size_t)i >= sizeof texts / sizeof *texts)
		return NULL;
	*size = strlen(texts[i]);
	uint8_t *copy = malloc(*size + 1);
	memcpy(copy, texts[i], *size);
	return copy;
}
