/* SPDX-License-Identifier: Apache-2.0
 * Bytes of index files. A number is seven bits a byte, the lowest first, the last byte below 128; a text is its length and its bytes. A file ends in a hash
 * of all before. */
#ifndef STK_FORMAT_CODED_H
#define STK_FORMAT_CODED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STK_CODED_HASH = 8, STK_CODED_LONGEST = 4096 };

/* Grows by itself; after a failed allocation nothing more is put. Zeroed: empty. Free `data` with stk__free. */
struct stk_coded_out {
	uint8_t *data;
	size_t n, capacity;
	bool failed;
};
void stk__put(struct stk_coded_out *o, const void *bytes, size_t n);
void stk__put_number(struct stk_coded_out *o, uint64_t v);
void stk__put_text(struct stk_coded_out *o, const char *s, size_t n);
/* A name behind another one: how many bytes they share, and the rest. */
void stk__put_name(struct stk_coded_out *o, const char *name, const char *before);
void stk__put_hash(struct stk_coded_out *o);

struct stk_coded_in {
	const uint8_t *at, *end;
	bool failed;
};
uint64_t stk__take_coded(struct stk_coded_in *in);
/* A text, behind the `used` bytes that `name` has already. Adds a NUL. `room` bytes of name in all. */
void stk__take_text(struct stk_coded_in *in, char *name, size_t used, size_t room);
/* What stk__put_name put; `name` holds the name before. */
void stk__take_name(struct stk_coded_in *in, char *name, size_t room);
/* Whether n bytes end in the hash of those before. */
bool stk__coded_is_whole(const uint8_t *data, size_t n);

#endif
