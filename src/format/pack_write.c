/* SPDX-License-Identifier: Apache-2.0
 * Writes a tar: ustar, with pax records for long names. */
#include "format/pack.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "io/wait.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

enum { BLOCK = 512, AHEAD = 32, BYTES_AHEAD = 64 << 20, ROOM = 1 << 20 };

struct writer {
	const struct stk_pack_plan *plan;
	struct stk_new_file file;
	uint8_t *buffer; /* ROOM bytes, of which the first `used` must still be written */
	size_t used;
	int error;                   /* errno of a failed write; 0: no failure */
	struct stk_read_ahead files; /* requests for the files of the next members, in order */
	char paths[AHEAD][PATH_MAX]; /* [slot of `files`]: path of the request's file */
	int64_t bytes;               /* total size of the files in `files` */
	int64_t next;                /* index of the next member to request */
};

/* ---- bytes out ---- */

static void flush(struct writer *w)
{
	if (!w->error && !stk__new_file_write(&w->file, w->buffer, w->used))
		w->error = errno;
	w->used = 0;
}

static void put(struct writer *w, const void *bytes, size_t n)
{
	for (const uint8_t *at = bytes; n && !w->error;) {
		size_t n_copied = ROOM - w->used < n ? ROOM - w->used : n;
		memcpy(w->buffer + w->used, at, n_copied);
		w->used += n_copied;
		at += n_copied;
		n -= n_copied;
		if (w->used == ROOM)
			flush(w);
	}
}

static void pad(struct writer *w, int64_t size)
{
	static const uint8_t zeros[BLOCK];
	put(w, zeros, (size_t)(-size & (BLOCK - 1)));
}

/* Writes a header. It contains neither times nor owners, so that it is the same in every run. */
static void put_header(struct writer *w, const char *name, int64_t size, char type)
{
	char h[BLOCK] = {0};
	unsigned sum = 0;
	size_t n = strlen(name);
	memcpy(h, name, n < STK_PACK_SHORT ? n : STK_PACK_SHORT);
	memcpy(h + 100,
		"0000644\0"
		"0000000\0"
		"0000000\0",
		24);
	if (size < (int64_t)1 << 33) {
		snprintf(h + 124, 13, "%011llo", (unsigned long long)size);
	} else { /* in base 256, since this size does not fit in eleven octal digits */
		h[124] = (char)0x80;
		for (int i = 0; i < 8; i++)
			h[135 - i] = (char)(uint8_t)((uint64_t)size >> 8 * i);
	}
	memcpy(h + 136, "00000000000", 12);
	memcpy(h + 148, "        ", 8);
	h[156] = type;
	memcpy(h + 257,
		"ustar\0"
		"00",
		8);
	for (int i = 0; i < BLOCK; i++)
		sum += (uint8_t)h[i];
	snprintf(h + 148, 8, "%06o", sum);
	put(w, h, sizeof h);
}

static void put_member(struct writer *w, const char *name, const void *data, int64_t size)
{
	int64_t record = stk__pack_record_bytes(name);
	if (record) {
		char head[32];
		int n = snprintf(head, sizeof head, "%lld path=", (long long)record);
		put_header(w, "././@PaxHeader", record, 'x');
		put(w, head, (size_t)n);
		put(w, name, strlen(name));
		put(w, "\n", 1);
		pad(w, record);
	}
	put_header(w, name, size, '0');
	put(w, data, (size_t)size);
	pad(w, size);
}

/* ---- bytes in ---- */

/* Requests the files of the next members before `end`, as many as may be in flight. */
static void ask_ahead(struct writer *w, int64_t end)
{
	struct stk_read_ahead *a = &w->files;
	for (; w->next < end && a->count < AHEAD && (!a->count || w->bytes < BYTES_AHEAD); w->next++) {
		const struct stk_pack_member *m = &w->plan->members[w->next];
		if (m->file < 0)
			continue;
		char *path = w->paths[stk__ahead_at(a, a->count) - a->slots];
		stk__file_list_path(w->plan->list, m->file, path, PATH_MAX);
		w->bytes += m->size;
		stk__ahead_submit(a, &(struct stk_request){.uri = path, .length = -1});
	}
}

static enum stk_status write_file(struct writer *w, const struct stk_pack_member *m, struct stk_error *err)
{
	struct stk_ahead *s = stk__ahead_at(&w->files, 0);
	const struct stk_request *r = &s->request;
	stk__ahead_wait(&w->files, s);
	enum stk_status status = r->status;
	if (status && err && r->error)
		*err = *r->error;
	if (!status && (int64_t)r->size != m->size)
		status = stk__fail(err, STK_IO, "%s: it has %zu bytes, and had %lld when packing began: start again", r->uri, r->size,
			(long long)m->size);
	if (!status)
		put_member(w, w->plan->names + m->name, r->data, m->size);
	w->bytes -= m->size;
	stk__ahead_drop(&w->files);
	return status;
}

static enum stk_status write_members(
	struct writer *w, const struct stk_pack_shard *shard, _Atomic int64_t *packed, const _Atomic bool *stop, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	int64_t end = shard->first + shard->count;
	w->next = shard->first;
	for (int64_t i = shard->first; i < end && s == STK_OK && !w->error; i++) {
		const struct stk_pack_member *m = &w->plan->members[i];
		char label[32];
		ask_ahead(w, end);
		int digits = snprintf(label, sizeof label, "%d", m->label);
		if (atomic_load(stop))
			s = stk__fail(err, STK_CANCELLED, "packing was cancelled");
		else if (m->file >= 0)
			s = write_file(w, m, err);
		else
			put_member(w, w->plan->names + m->name, label, digits);
		if (!s && !w->error)
			atomic_fetch_add(packed, m->file >= 0);
	}
	stk__ahead_drop_all(&w->files);
	return s;
}

enum stk_status stk__pack_write(const struct stk_pack_plan *p, int64_t shard, struct stk_io *io, const char *path, _Atomic int64_t *packed,
	const _Atomic bool *stop, struct stk_error *err)
{
	static const uint8_t end[2 * BLOCK];
	struct writer *w = stk__calloc(1, sizeof *w);
	enum stk_status s = STK_OK;
	if (!w)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to write %.300s", path);
	w->plan = p;
	w->buffer = stk__alloc(ROOM);
	if (!stk__ahead_init(&w->files, io, NULL, AHEAD) || !w->buffer) {
		s = stk__fail(err, STK_NO_MEMORY, "out of memory to write %.300s", path);
		goto out;
	}
	w->error = stk__new_file_begin(&w->file, path, 0666) ? 0 : errno;
	const bool begun = !w->error;
	if (begun) {
		/* a lock, by which other processes see that the tar is being written (remove_parts); some file systems have no locks */
		flock(w->file.fd, LOCK_EX | LOCK_NB);
		s = write_members(w, &p->shards[shard], packed, stop, err);
	}
	put(w, end, sizeof end);
	if (!s)
		flush(w);
	if (begun && !stk__new_file_end(&w->file, !s && !w->error) && !s && !w->error)
		w->error = errno;
	if (!s && w->error) {
		errno = w->error;
		s = stk__file_not_written(path, "tar", err);
	}
out:
	stk__ahead_destroy(&w->files);
	stk__free(w->buffer);
	stk__free(w);
	return s;
}
