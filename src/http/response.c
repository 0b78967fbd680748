/* SPDX-License-Identifier: Apache-2.0 */
#include "http/response.h"

#include "io/time_text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- values ---- */

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Parses a number of bytes; returns -1 if the text is empty, or has other characters than digits or more than 18 digits. */
static int64_t read_length(const char *value, size_t n)
{
	int64_t length = n > 0 && n < 19 ? 0 : -1;
	for (size_t i = 0; i < n && length >= 0; i++)
		length = digit(value[i]) ? length * 10 + (value[i] - '0') : -1;
	return length;
}

static void copy_text(char *out, size_t capacity, const char *value, size_t n)
{
	n = n < capacity ? n : capacity - 1;
	memcpy(out, value, n);
	out[n] = 0;
}

/* Parses a Content-Range such as "bytes 0-99/1000". A star stands for an unknown size, or for a missing range. Fields that cannot be parsed stay -1. */
static void read_range(struct stk_response *r, const char *value, size_t n)
{
	r->ranged = true;
	static const char unit[] = "bytes ";
	const char *end = value + n, *slash = memchr(value, '/', n), *dash = slash ? memchr(value, '-', (size_t)(slash - value)) : NULL;
	if (n >= sizeof unit - 1 && strncasecmp(value, unit, sizeof unit - 1) == 0 && dash) {
		const char *begin = value + sizeof unit - 1;
		while (begin < dash && *begin == ' ')
			begin++;
		int64_t first = dash > begin ? read_length(begin, (size_t)(dash - begin)) : -1;
		int64_t last = read_length(dash + 1, (size_t)(slash - dash - 1));
		if (first >= 0 && last >= first) {
			r->first = first;
			r->last = last;
		}
	}
	if (slash)
		r->size = read_length(slash + 1, (size_t)(end - slash - 1));
	if (r->size >= 0 && r->last >= r->size)
		r->first = r->last = -1;
}

/* ---- lines ---- */

static bool malformed(struct stk_response_reader *p, const char *why)
{
	p->state = STK_RESPONSE_BAD;
	p->reason = why;
	p->keep_alive = false;
	return false;
}

static void forget(struct stk_response *r)
{
	r->status = 0;
	r->date = r->retry_s = r->retry_at = 0;
	r->length = r->first = r->last = r->size = -1;
	r->ranged = r->encoded = r->multipart = r->long_location = false;
	r->etag[0] = r->modified[0] = r->region[0] = r->location[0] = 0;
}

/* Parses "HTTP/1.1 200 OK". Like the functions for other lines, calls malformed() and returns false if the line is not valid. */
static bool read_status(struct stk_response_reader *p, const char *line, size_t n)
{
	if (n < 12 || memcmp(line, "HTTP/1.", 7) != 0 || !digit(line[7]) || line[8] != ' ')
		return malformed(p, "it does not begin like an HTTP/1.1 response");
	if (!digit(line[9]) || !digit(line[10]) || !digit(line[11]) || (n > 12 && line[12] != ' '))
		return malformed(p, "its status is not a number");
	forget(&p->message);
	p->message.status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + line[11] - '0';
	if (p->message.status < 100 || p->message.status == 101)
		return malformed(p, "its status does not answer a request");
	p->is_http_1_0 = line[7] == '0';
	p->keep_alive = !p->is_http_1_0;
	p->next = STK_FIELD;
	return true;
}

/* Returns whether a comma-separated list contains the word, in upper or lower case. */
static bool has_word(const char *value, size_t n, const char *word)
{
	const size_t size = strlen(word);
	for (size_t i = 0; i < n;) {
		size_t end = i;
		while (end < n && value[end] != ',')
			end++;
		size_t a = i, b = end;
		while (a < b && (value[a] == ' ' || value[a] == '\t'))
			a++;
		while (b > a && (value[b - 1] == ' ' || value[b - 1] == '\t'))
			b--;
		if (b - a == size && strncasecmp(value + a, word, size) == 0)
			return true;
		i = end + 1;
	}
	return false;
}

static bool take_length(struct stk_response_reader *p, const char *value, size_t n)
{
	int64_t length = read_length(value, n);
	if (length < 0)
		return malformed(p, "its Content-Length is not a number");
	if (p->message.length >= 0 && p->message.length != length)
		return malformed(p, "it has two lengths");
	p->message.length = length;
	return true;
}

static bool take_coding(struct stk_response_reader *p, const char *value, size_t n)
{
	if (p->chunked || p->is_http_1_0 || n != 7 || strncasecmp(value, "chunked", 7) != 0)
		return malformed(p, "its Transfer-Encoding is not chunked");
	p->chunked = true;
	return true;
}

static bool take_connection(struct stk_response_reader *p, const char *value, size_t n)
{
	if (has_word(value, n, "close"))
		p->keep_alive = false;
	else if (p->is_http_1_0 && has_word(value, n, "keep-alive"))
		p->keep_alive = true;
	return true;
}

static bool take_range(struct stk_response_reader *p, const char *value, size_t n)
{
	const int64_t first = p->message.first, last = p->message.last, size = p->message.size;
	const bool repeated = p->message.ranged;
	p->message.first = p->message.last = p->message.size = -1;
	read_range(&p->message, value, n);
	if (repeated && (first != p->message.first || last != p->message.last || size != p->message.size))
		return malformed(p, "it has two ranges");
	return true;
}

static void read_retry_after(struct stk_response *r, const char *value, size_t n)
{
	const int64_t seconds = read_length(value, n);
	int64_t retry_at = 0;
	r->retry_s = seconds > 0 ? seconds : 0;
	r->retry_at = stk__http_date(value, n, &retry_at) ? retry_at : 0;
}

/* Returns whether an encoding leaves the bytes unchanged. Some S3 clients store "aws-chunked", which only describes their upload, as the encoding of an
 * object whose bytes are plain. */
static bool is_plain_encoding(const char *value, size_t n)
{
	return !n || (n == 8 && strncasecmp(value, "identity", 8) == 0) || (n == 11 && strncasecmp(value, "aws-chunked", 11) == 0);
}

/* Handles a field of the header. complete: false if `value` is only the beginning of the field's value. */
static bool take_field(struct stk_response_reader *p, const char *name, size_t size, const char *value, size_t n, bool complete)
{
	struct stk_response *r = &p->message;
#define IS(text) (size == sizeof text - 1 && strncasecmp(name, text, size) == 0)
	const bool frames =
		IS("content-length") || IS("transfer-encoding") || IS("connection") || IS("content-range") || IS("content-encoding");
	if (!complete) {
		r->long_location |= IS("location");
		return frames ? malformed(p, "a line of its header is too long") : true;
	}
	if (IS("content-length"))
		return take_length(p, value, n);
	if (IS("transfer-encoding"))
		return take_coding(p, value, n);
	if (IS("connection"))
		return take_connection(p, value, n);
	if (IS("content-range"))
		return take_range(p, value, n);
	if (IS("content-encoding"))
		r->encoded |= !is_plain_encoding(value, n);
	else if (IS("content-type"))
		r->multipart |= n >= 20 && strncasecmp(value, "multipart/byteranges", 20) == 0;
	else if (IS("etag"))
		copy_text(r->etag, sizeof r->etag, value, n);
	else if (IS("x-amz-bucket-region"))
		copy_text(r->region, sizeof r->region, value, n);
	else if (IS("location"))
		copy_text(r->location, sizeof r->location, value, n);
	else if (IS("date"))
		r->date = stk__http_date(value, n, &r->date) ? r->date : 0;
	else if (IS("retry-after"))
		read_retry_after(r, value, n);
	else if (IS("last-modified"))
		copy_text(r->modified, sizeof r->modified, value, n);
#undef IS
	return true;
}

/* Returns the length of the field's name before the colon, or 0 if the line does not begin with a valid name and a colon. A blank in a name or
 * before its colon is refused, because servers disagree whether it belongs to the name. */
static size_t name_size(const char *line, size_t n)
{
	size_t i = 0;
	while (i < n && line[i] != ':' && line[i] > ' ' && line[i] < 127 && !strchr("\"(),/;<=>?@[\\]{}", line[i]))
		i++;
	return i < n && line[i] == ':' ? i : 0;
}

static bool read_field(struct stk_response_reader *p, const char *line, size_t n, bool complete)
{
	size_t name = name_size(line, n), begin = name + 1;
	if (!name)
		return malformed(p, "a line of its header has no name");
	while (begin < n && (line[begin] == ' ' || line[begin] == '\t'))
		begin++;
	while (n > begin && (line[n - 1] == ' ' || line[n - 1] == '\t'))
		n--;
	if (memchr(line, 0, n))
		return malformed(p, "a line of its header holds a zero byte");
	if (memchr(line, '\r', n))
		return malformed(p, "a line of its header holds a carriage return");
	return take_field(p, line, name, line + begin, n - begin, complete);
}

/* ---- framing of the body ---- */

static void end(struct stk_response_reader *p)
{
	p->state = STK_RESPONSE_ENDED;
}

static bool header_ended(struct stk_response_reader *p)
{
	const int status = p->message.status;
	if (status < 200) { /* another response follows */
		p->next = STK_STATUS_LINE;
		return !p->chunked || malformed(p, "it announces a body where none is allowed");
	}
	p->line_bytes = 0;
	if (p->chunked && p->message.length >= 0)
		return malformed(p, "it has both a length and chunks");
	if (status == 204 || status == 304 || (!p->chunked && p->message.length == 0)) {
		end(p);
	} else if (p->chunked) {
		p->state = STK_RESPONSE_IN_FRAME;
		p->next = STK_CHUNK_SIZE;
	} else {
		p->state = STK_RESPONSE_IN_CONTENT;
		p->content_left = p->message.length;
		p->keep_alive &= p->content_left >= 0;
	}
	return true;
}

/* Parses the line before a chunk, such as "1f40;name=value": the chunk's size in hexadecimal, and extensions, which have no effect. Returns false if the
 * line is not valid. */
static bool read_chunk_size(struct stk_response_reader *p, const char *line, size_t n)
{
	int64_t size = 0;
	size_t i = 0;
	for (; i < n && i < 15; i++) {
		const char *digit = memchr("0123456789abcdef0123456789ABCDEF", line[i], 32);
		if (!digit)
			break;
		size = size * 16 + ((digit - "0123456789abcdef0123456789ABCDEF") & 15);
	}
	const size_t digits = i;
	while (i < n && (line[i] == ' ' || line[i] == '\t'))
		i++;
	if (!digits || (i < n && line[i] != ';') || memchr(line, '\r', n))
		return malformed(p, "the size of a chunk is not a number");
	p->next = size ? STK_CHUNK_END : STK_TRAILER;
	if (size) {
		p->line_bytes = 0;
		p->content_left = size;
		p->state = STK_RESPONSE_IN_CONTENT;
	}
	return true;
}

/* Handles a line without its line end. complete: false if these are only its first bytes. */
static bool take_line(struct stk_response_reader *p, const char *line, size_t n, bool complete)
{
	if (p->next == STK_STATUS_LINE)
		return read_status(p, line, n);
	if (p->next == STK_FIELD)
		return n ? read_field(p, line, n, complete) : header_ended(p);
	if (p->next == STK_CHUNK_SIZE)
		return complete ? read_chunk_size(p, line, n) : malformed(p, "the size of a chunk is not a number");
	if (p->next == STK_CHUNK_END) {
		p->next = STK_CHUNK_SIZE;
		return !n || malformed(p, "a chunk is longer than its size");
	}
	if (!n)
		end(p);
	return true;
}

/* Handles the end of a line of `size` bytes, of which the first `n` are available. */
static void line_ended(struct stk_response_reader *p, const char *line, size_t n, size_t size)
{
	const bool frames = p->next == STK_CHUNK_SIZE || p->next == STK_CHUNK_END;
	if (size && n == size && line[n - 1] == '\r') {
		n--;
		size--;
		/* the lines around a chunk must end in CR LF: if LF were enough, a chunk that is a byte longer than its size would not be noticed */
	} else if (frames && n == size) {
		malformed(p, p->next == STK_CHUNK_END ? "a chunk is longer than its size" : "the size of a chunk is not a number");
		return;
	}
	take_line(p, line, n, n == size);
}

void stk__response_begin(struct stk_response_reader *p)
{
	p->state = STK_RESPONSE_IN_HEAD;
	p->next = STK_STATUS_LINE;
	forget(&p->message);
	p->reason = NULL;
	p->keep_alive = p->chunked = p->is_http_1_0 = false;
	p->line_bytes = p->line_size = 0;
	p->content_left = 0;
}

size_t stk__response_read(struct stk_response_reader *p, const char *bytes, size_t n)
{
	size_t at = 0;
	while (at < n && (p->state == STK_RESPONSE_IN_HEAD || p->state == STK_RESPONSE_IN_FRAME)) {
		const char *begin = bytes + at, *newline = memchr(begin, '\n', n - at);
		size_t added = newline ? (size_t)(newline - begin) : n - at, size = p->line_size + added;
		size_t had = p->line_size < sizeof p->line ? p->line_size : sizeof p->line;
		size_t take = added < sizeof p->line - had ? added : sizeof p->line - had;
		p->line_bytes += added + (newline != NULL);
		at += added + (newline != NULL);
		if (p->line_bytes > STK_RESPONSE_HEAD) {
			malformed(p, "its header is too long");
			break;
		}
		if (p->line_size || !newline)
			memcpy(p->line + had, begin, take);
		p->line_size = newline ? 0 : size;
		if (newline)
			line_ended(p, had ? p->line : begin, had + take, size);
	}
	return at;
}

void stk__response_took(struct stk_response_reader *p, size_t n)
{
	if (p->content_left < 0)
		return;
	p->content_left -= (int64_t)n;
	if (p->content_left > 0)
		return;
	if (p->chunked)
		p->state = STK_RESPONSE_IN_FRAME;
	else
		end(p);
}

bool stk__response_closed(struct stk_response_reader *p)
{
	p->keep_alive = false;
	if (p->state == STK_RESPONSE_IN_CONTENT && p->content_left < 0)
		end(p);
	return p->state == STK_RESPONSE_ENDED;
}
