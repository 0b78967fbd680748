/* SPDX-License-Identifier: Apache-2.0
 * Manifests of NeMo: each entry of an accepted manifest must have a path, finite times, and a text that lies inside the manifest's buffer of texts. */
#include "fuzz.h"

#include "base/error.h"
#include "format/nemo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_nemo n = {0};
	struct stk_error err = {0};
	const struct stk_nemo_limits limits = {size % 3 == 1 ? 1.0 : 0, size % 3 == 2 ? 5.0 : 0};
	enum stk_status s = stk__nemo_parse(&n, &limits, (const char *)data, size, "manifest", &err);
	if (s && !err.message[0])
		abort();
	stk__names_settle(&n.paths);
	if (n.paths.count != n.count)
		abort();
	for (size_t i = 0; i < n.count; i++) {
		const struct stk_nemo_entry *e = &n.entries[i];
		if (!n.paths.at[i][0] || !isfinite(e->offset) || !isfinite(e->duration) || e->index != (int64_t)i ||
			e->text + e->text_size > n.text_size)
			abort();
	}
	stk__nemo_free(&n);
	return 0;
}

uint8_t *fuzz_seed(int i, size_t *size)
{
	static const char *const texts[] = {"{\"audio_filepath\": \"a.wav\", \"duration\": 3.45, \"text\": \"one two\"}\n"
					    "{\"audio_filepath\": \"a.wav\", \"offset\": 3.45, \"duration\": 1.45}\n",
		"\xef\xbb\xbf{\n \"text\": \"a \\\"b\\\" \\u00e9 \\ud83d\\ude00\",\n \"audio_filepath\": \"\\/a\\\\b\",\n \"x\": [1, {\"y\": null}]\n}",
		"{\"audio_filepath\":\"a\",\"text\":null,\"duration\":null,\"offset\":-1e3}{\"audio_filepath\":\"b\"}", "\n \n", ""};
	if ((size_t)i >= sizeof texts / sizeof *texts)
		return NULL;
	*size = strlen(texts[i]);
	uint8_t *copy = malloc(*size + 1);
	memcpy(copy, texts[i], *size);
	return copy;
}
