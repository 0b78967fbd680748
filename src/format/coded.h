/* SPDX-License-Identifier: Apache-2.0
 * The encoding of index files. A number has seven bits in each byte, the lowest bits first, and ends with a byte below 128; a text is its length and its
 * bytes. A file ends in a hash of all bytes before the hash. */
#ifndef STK_FORMAT_CODED_H
#define STK_FORMAT_CODED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STK_CODED_HASH = 8, STK_CODED_LONGEST = 4096 };

/* A growing buffer; after a failed allocation further writes have no effect. All zero: empty. Free `data` with stk__free. */
struct stk_coded_out {
	uint8_t *data;
	size_t n, capacity;
	bool failed;
};
void stk__put(struct stk_coded_out *o, const void *bytes, size_t n);
void stk__put_number(struct stk_coded_out *o, uint64_t v);
void stk__put_text(struct stk_coded_out *o, const char *s, size_t n);
/* Writes a name as the number of bytes that it shares with the previous name, and the rest. */
void stk__put_name(struct stk_coded_out *o, const char *name, const char *previous);
void stk__put_hash(struct stk_coded_out *o);

struct stk_coded_in {
	const uint8_t *at, *end;
	bool failed;
};
/* Reads a number of up to 63 bits. Returns 0 and sets in->failed if the bytes are not a number. */
uint64_t stk__take_coded(struct stk_coded_in *in);
/* Reads a text and appends it to the `used` bytes that are already in `name`, with a NUL. capacity: size of `name`. Sets in->failed if the text is not
 * complete, contains a zero byte, or does not fit. */
void stk__take_text(struct stk_coded_in *in, char *name, size_t used, size_t capacity);
/* Reads a name that stk__put_name wrote; `name` must contain the previous name, and receives the new one. */
void stk__take_name(struct stk_coded_in *in, char *name, size_t capacity);
/* Returns whether the last STK_CODED_HASH of the n bytes are the hash of the bytes before them. */
bool stk__coded_is_whole(const uint8_t *data, size_t n);

#endif
