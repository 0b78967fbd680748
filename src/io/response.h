/* SPDX-License-Identifier: Apache-2.0
 * The responses of HTTP/1.1 servers (RFC 9112), a piece at a time, in whatever pieces they come:
 *
 *   HEAD  -> CONTENT   the header has ended, and bytes of the body come next
 *         -> END       there is no body
 *   CONTENT -> FRAME   a chunk has ended
 *           -> END     the body has
 *   FRAME -> CONTENT   the next chunk begins
 *         -> END       after the last one and its trailer
 *   HEAD, FRAME -> BAD what comes is no such response, or two readers could understand it differently: nothing on this connection counts any more
 *
 * What is framing, stk__response_read takes. What is content, the caller moves wherever it likes, and says how much. */
#ifndef STK_IO_RESPONSE_H
#define STK_IO_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STK_RESPONSE_LINE = 2048, STK_RESPONSE_HEAD = 128 << 10 }; /* bytes: of a line that counts; of a header, or of a trailer */

/* What the header says. */
struct stk_response {
	int status;
	int64_t length;            /* of the body; -1: not told */
	int64_t first, last, size; /* Content-Range: of the bytes, and of the whole object; -1: not told */
	bool ranged;               /* there is a Content-Range */
	bool encoded;              /* Content-Encoding: the bytes are not those of the object */
	bool multipart;            /* Content-Type: several ranges, each with a header of its own */
	int64_t date;              /* seconds since 1970; 0: not told */
	char etag[128], region[64];
	char modified[48]; /* Last-Modified */
	char location[STK_RESPONSE_LINE];
	bool long_location; /* there is one of more bytes than are kept; `location` is empty */
};

enum stk_response_state { STK_RESPONSE_IN_HEAD, STK_RESPONSE_IN_CONTENT, STK_RESPONSE_IN_FRAME, STK_RESPONSE_ENDED, STK_RESPONSE_BAD };

struct stk_response_reader {
	enum stk_response_state state;
	bool keep;       /* the connection serves another request after the end */
	int64_t left;    /* CONTENT: bytes of the body, or of its chunk; -1: until the connection ends */
	const char *why; /* BAD: what is wrong, as the end of a sentence */
	struct stk_response says;
	/* its own */
	enum { STK_STATUS_LINE, STK_FIELD, STK_CHUNK_SIZE, STK_CHUNK_END, STK_TRAILER } next; /* the line that comes */
	bool chunked, old;                                                                    /* old: HTTP/1.0 */
	size_t taken;                                                                         /* bytes of the header or trailer so far */
	size_t line_size; /* of the line whose end has not come, of which `line` holds the beginning */
	char line[STK_RESPONSE_LINE];
};

/* Before each response. */
void stk__response_begin(struct stk_response_reader *p);
/* In HEAD or FRAME: takes framing, up to the first byte of content, the end, or what is wrong. Returns how many bytes it took; all of them in HEAD and FRAME. */
size_t stk__response_read(struct stk_response_reader *p, const char *bytes, size_t n);
/* In CONTENT: the caller has taken n bytes of it, at most `left`. */
void stk__response_took(struct stk_response_reader *p, size_t n);
/* The connection has ended. True: and the response with it, as it was to be. */
bool stk__response_closed(struct stk_response_reader *p);

#endif
