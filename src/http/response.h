/* SPDX-License-Identifier: Apache-2.0
 * Parses responses of HTTP/1.1 servers (RFC 9112), in pieces of any size:
 *
 *   HEAD  -> CONTENT   the header has ended, and bytes of the body come next
 *         -> END       there is no body
 *   CONTENT -> FRAME   a chunk has ended
 *           -> END     the body has ended
 *   FRAME -> CONTENT   the next chunk begins
 *         -> END       after the last one and its trailer
 *   HEAD, FRAME -> BAD the bytes are not a valid response, or are ambiguous: nothing more on this connection is used
 *
 * stk__response_read consumes the framing. The caller reads the content itself and reports the number of bytes with stk__response_took. */
#ifndef STK_HTTP_RESPONSE_H
#define STK_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STK_RESPONSE_LINE = 2048, STK_RESPONSE_HEAD = 128 << 10 }; /* in bytes: longest line that is understood; longest header or trailer */

/* The fields of the header that the library uses. */
struct stk_response {
	int status;
	int64_t length;            /* size of the body in bytes; -1: the header does not say */
	int64_t first, last, size; /* Content-Range: first and last byte, and size of the whole object in bytes; -1: not in the header */
	bool ranged;               /* true if the header has a Content-Range */
	bool encoded;              /* Content-Encoding: true if the bytes are not the object's */
	bool multipart;            /* Content-Type: true if the body has several ranges, each with its own header */
	int64_t date;              /* Date, in seconds since 1970; 0: the header has none */
	int64_t retry_s, retry_at; /* Retry-After, as a number of seconds or as seconds since 1970; 0: the header has none of this form */
	char etag[128], region[64];
	char modified[48]; /* Last-Modified, as text; "" if the header has none */
	char location[STK_RESPONSE_LINE];
	bool long_location; /* true if the header has a Location that is too long to store; `location` is then empty */
};

enum stk_response_state { STK_RESPONSE_IN_HEAD, STK_RESPONSE_IN_CONTENT, STK_RESPONSE_IN_FRAME, STK_RESPONSE_ENDED, STK_RESPONSE_BAD };

struct stk_response_reader {
	enum stk_response_state state;
	bool keep_alive;      /* true if the connection can serve another request after this response */
	int64_t content_left; /* in state CONTENT: number of bytes left in the body or chunk; -1: all until the connection ends */
	const char *reason;   /* in state BAD: the fault of the response, as the end of a sentence */
	struct stk_response message;
	/* private to response.c */
	enum { STK_STATUS_LINE, STK_FIELD, STK_CHUNK_SIZE, STK_CHUNK_END, STK_TRAILER } next; /* the kind of the next line */
	bool chunked, is_http_1_0;
	size_t line_bytes; /* number of bytes so far of the header, of the lines around a chunk, or of the trailer */
	size_t line_size;  /* number of bytes so far of the incomplete line, whose beginning is in `line` */
	char line[STK_RESPONSE_LINE];
};

/* Resets the reader. Call before each response. */
void stk__response_begin(struct stk_response_reader *p);
/* Reads the header of a response, or the lines around a chunk, which is possible in the states HEAD and FRAME. Stops before the first byte of content, at
 * the response's end, or at an error. Returns the number of bytes read. If all n bytes were read and the state is still HEAD or FRAME, call it again with
 * the bytes that follow. */
size_t stk__response_read(struct stk_response_reader *p, const char *bytes, size_t n);
/* Reports that the caller has read n bytes of content in state CONTENT; n is at most `content_left`. Changes the state if the chunk or the body has ended. */
void stk__response_took(struct stk_response_reader *p, size_t n);
/* Reports that the connection has ended. Returns whether the response is complete. */
bool stk__response_closed(struct stk_response_reader *p);

#endif
