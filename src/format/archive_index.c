/* SPDX-License-Identifier: Apache-2.0 */
#include "format/archive_index.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/xxhash.h"
#include "format/list.h"
#include "format/tar.h"
#include "format/tfrecord.h"

#include <stdatomic.h>
#include <string.h>

static const char magic[8] = {'S', 'T', 'K', 'P', 'A', 'R', 'T', 'S'};
enum { VERSION = 2, PROBES = 8, SEAL = 4, HEAD = sizeof magic + 2, LONGEST_NAME = 64 << 10 };

void stk__archive_index_free(struct stk_archive_index *x)
{
	stk__free(x->path);
	stk__free(x->bytes.data);
	*x = (struct stk_archive_index){.last = -1};
}

uint32_t stk__header_hash(const uint8_t *header, size_t least)
{
	uint32_t header_hash = (uint32_t)stk__xxh64(header, least, 0);
	return header_hash ? header_hash : 1;
}

size_t stk__archive_least(enum stk_archive_kind kind)
{
	return kind == STK_ARCHIVE_TAR ? 512 : 12;
}

/* ---- from the archive ---- */

struct scan {
	enum stk_archive_kind kind;
	struct stk_archive_file *file;
	struct stk_archive_index *x;
	char *previous_name; /* in a buffer of LONGEST_NAME bytes */
	int64_t end;         /* offset of the end of the previous member */
	uint64_t first;
	stk_archive_found *found;
	void *user;
};

/* Returns the offset of a member's header in the archive. offset: offset of the member's bytes. */
static int64_t header_of(enum stk_archive_kind kind, int64_t offset)
{
	return kind == STK_ARCHIVE_TAR ? offset - 512 : offset;
}

static uint64_t header_hash_begin(enum stk_archive_kind kind, struct stk_archive_file *f, struct stk_error *err)
{
	size_t least = stk__archive_least(kind);
	const uint8_t *first = f->size >= (int64_t)least ? stk__archive_read(f, 0, least, err) : NULL;
	return first ? stk__hash_bytes(0, first, least) : 0;
}

/* Combines the hashes of the first and the last header. header: the last one; NULL: the archive has no member. The result has 63 bits, like a coded number. */
static uint64_t header_hash_end(uint64_t first, const uint8_t *header, size_t least)
{
	return (header ? stk__hash_bytes(first, header, least) : first) >> 1;
}

static enum stk_status found_member(void *user, const struct stk_archive_member *m, struct stk_error *err)
{
	struct scan *s = user;
	struct stk_archive_index *x = s->x;
	size_t least = stk__archive_least(s->kind);
	x->last = header_of(s->kind, m->offset);
	stk__put_name(&x->bytes, m->name, s->previous_name);
	stk__put_number(&x->bytes, (uint64_t)(m->offset - s->end));
	stk__put_number(&x->bytes, (uint64_t)m->size);
	strcpy(s->previous_name, m->name);
	s->end = m->offset + m->size;
	x->members++;
	if (s->file->found)
		atomic_fetch_add_explicit(s->file->found, 1, memory_order_relaxed);
	if (s->file->stop && atomic_load_explicit(s->file->stop, memory_order_relaxed))
		return stk__fail(err, STK_CANCELLED, "%.300s: the search for its members was cancelled", s->file->path);
	const uint8_t *header = stk__archive_read(s->file, x->last, least, err); /* still in the buffer, since it was read last */
	if (!header)
		return err ? err->code : STK_IO;
	const struct stk_archive_member member = {m->name, m->offset, m->size, stk__header_hash(header, least)};
	x->header_hash = header_hash_end(s->first, header, least);
	stk__put(&x->bytes, &member.header_hash, SEAL);
	if (x->bytes.failed)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the index of %.300s", s->file->path);
	return s->found ? s->found(s->user, &member, err) : STK_OK;
}

enum stk_status stk__archive_index_scan(enum stk_archive_kind kind, struct stk_archive_file *f, stk_archive_found *found, void *user,
	struct stk_archive_index *x, struct stk_error *err)
{
	*x = (struct stk_archive_index){
		.last = -1, .size = f->size, .modified_ns = f->modified_ns, .changed_ns = f->changed_ns, .inode = f->inode};
	struct scan s = {.kind = kind, .file = f, .x = x, .previous_name = stk__calloc(1, LONGEST_NAME), .found = found, .user = user};
	if (!s.previous_name)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to search %.300s", f->path);
	memcpy(x->version, f->object.version, sizeof x->version);
	s.first = header_hash_begin(kind, f, err);
	x->header_hash = header_hash_end(s.first, NULL, 0);
	enum stk_status status =
		kind == STK_ARCHIVE_TAR ? stk__tar_scan(f, found_member, &s, err) : stk__tfrecord_scan(f, found_member, &s, err);
	stk__free(s.previous_name);
	if (status)
		stk__archive_index_free(x);
	return status;
}

/* A comparison of every step-th header of a local archive with the hash in its index. left: number of members to skip before the next one. */
struct probe {
	enum stk_archive_kind kind;
	struct stk_archive_file *file;
	int64_t step, left;
	bool differs;
};

static enum stk_status probe_member(void *user, const struct stk_archive_member *m, struct stk_error *err)
{
	struct probe *p = user;
	const size_t least = stk__archive_least(p->kind);
	const int64_t at = header_of(p->kind, m->offset);
	(void)err;
	if (p->differs || p->left-- > 0)
		return STK_OK;
	p->left = p->step - 1;
	const uint8_t *header = at >= 0 && at <= p->file->size - (int64_t)least ? stk__archive_read(p->file, at, least, NULL) : NULL;
	p->differs = !header || stk__header_hash(header, least) != m->header_hash;
	return STK_OK;
}

static bool same_headers(enum stk_archive_kind kind, const struct stk_archive_index *x, struct stk_archive_file *f)
{
	struct probe p = {.kind = kind, .file = f, .step = x->members / PROBES + 1};
	return stk__archive_index_each(x, probe_member, &p, NULL) == STK_OK && !p.differs;
}

bool stk__archive_index_fits(enum stk_archive_kind kind, const struct stk_archive_index *x, struct stk_archive_file *f)
{
	size_t least = stk__archive_least(kind), n;
	uint8_t *last = NULL;
	if (x->size != f->size || (x->last >= 0 && x->last > x->size - (int64_t)least))
		return false;
	if (f->io && x->version[0])
		return strcmp(x->version, f->object.version) == 0;
	if (!f->io && x->modified_ns && x->modified_ns != f->modified_ns)
		return false;
	if (!f->io && x->modified_ns && x->changed_ns == f->changed_ns && x->inode == f->inode)
		return true;
	uint64_t header_hash = header_hash_begin(kind, f, NULL);
	if (x->last < 0)
		return header_hash_end(header_hash, NULL, 0) == x->header_hash;
	if (!f->io) {
		const uint8_t *header = stk__archive_read(f, x->last, least, NULL);
		return header && header_hash_end(header_hash, header, least) == x->header_hash && same_headers(kind, x, f);
	}
	enum stk_status s = stk__read_object(f->access, f->io, f->path, x->last, (int64_t)least, 0, &last, &n, NULL, NULL);
	bool same = s == STK_OK && header_hash_end(header_hash, last, least) == x->header_hash;
	stk__free(last);
	return same;
}

/* ---- members ---- */

enum stk_status stk__archive_index_each(const struct stk_archive_index *x, stk_archive_found *found, void *user, struct stk_error *err)
{
	struct stk_coded_in in = {x->bytes.data, x->bytes.data ? x->bytes.data + x->bytes.n : NULL, false};
	struct stk_archive_member m = {0};
	char *name = stk__calloc(1, LONGEST_NAME);
	enum stk_status s = name ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for the members of %.300s", x->path);
	int64_t end = 0;
	for (int64_t i = 0; i < x->members && s == STK_OK; i++) {
		stk__take_name(&in, name, LONGEST_NAME);
		uint64_t gap = stk__take_coded(&in), size = stk__take_coded(&in);
		m.name = name;
		m.header_hash = 0;
		in.failed |= !in.failed && in.end - in.at < SEAL;
		if (!in.failed) {
			memcpy(&m.header_hash, in.at, SEAL);
			in.at += SEAL;
		}
		if (in.failed || __builtin_add_overflow(end, (int64_t)gap, &m.offset) ||
			__builtin_add_overflow(m.offset, (int64_t)size, &end))
			s = stk__fail(err, STK_CORRUPT, "%.300s: the index of its members contradicts itself", x->path);
		m.size = (int64_t)size;
		if (!s && found)
			s = found(user, &m, err);
	}
	if (!s && in.at != in.end)
		s = stk__fail(err, STK_CORRUPT, "%.300s: the index of its members contradicts itself", x->path);
	stk__free(name);
	return s;
}

/* ---- as a file ---- */

void stk__archive_index_begin(struct stk_coded_out *out, enum stk_archive_kind kind, int32_t count)
{
	const uint8_t head[] = {VERSION, (uint8_t)kind};
	stk__put(out, magic, sizeof magic);
	stk__put(out, head, sizeof head);
	stk__put_number(out, (uint64_t)count);
}

void stk__archive_index_put(struct stk_coded_out *out, const struct stk_archive_index *x, const char *path)
{
	stk__put_text(out, path, strlen(path));
	stk__put_number(out, (uint64_t)x->size);
	stk__put_number(out, (uint64_t)x->modified_ns);
	stk__put_number(out, (uint64_t)x->changed_ns);
	stk__put_number(out, x->inode);
	stk__put_text(out, x->version, strlen(x->version));
	stk__put_number(out, x->header_hash);
	stk__put_number(out, (uint64_t)(x->last + 1));
	stk__put_number(out, (uint64_t)x->members);
	stk__put_text(out, (const char *)x->bytes.data, x->bytes.n);
	out->failed |= x->bytes.failed;
}

bool stk__archive_index_is(const void *data, size_t n)
{
	return n >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

static void take_archive(struct stk_coded_in *in, struct stk_archive_index *x)
{
	char path[STK_CODED_LONGEST] = "";
	stk__take_text(in, path, 0, sizeof path);
	x->size = (int64_t)stk__take_coded(in);
	x->modified_ns = (int64_t)stk__take_coded(in);
	x->changed_ns = (int64_t)stk__take_coded(in);
	x->inode = stk__take_coded(in);
	stk__take_text(in, x->version, 0, sizeof x->version);
	x->header_hash = stk__take_coded(in);
	x->last = (int64_t)stk__take_coded(in) - 1;
	x->members = (int64_t)stk__take_coded(in);
	uint64_t n = stk__take_coded(in);
	in->failed |= n > (uint64_t)(in->end - in->at) || x->size < 0 || x->members < 0;
	if (in->failed)
		return;
	stk__put(&x->bytes, in->at, n);
	in->at += n;
	x->path = stk__strdup(path);
	x->bytes.failed |= !x->path;
	in->failed |= !x->bytes.failed && stk__archive_index_each(x, NULL, NULL, NULL) != STK_OK;
}

static enum stk_status damaged(const char *name, struct stk_error *err)
{
	return stk__fail(err, STK_CORRUPT, "%.300s: the index is damaged or cut off: make it again (stoker index)", name);
}

enum stk_status stk__archive_index_parse(enum stk_archive_kind kind, const uint8_t *data, size_t n, const char *name,
	struct stk_archive_index **out, int32_t *count, struct stk_error *err)
{
	*out = NULL;
	*count = 0;
	if (!stk__archive_index_is(data, n) || n < HEAD + 1 + STK_CODED_HASH || !stk__coded_is_whole(data, n))
		return damaged(name, err);
	if (data[sizeof magic] != VERSION)
		return stk__fail(err, STK_UNSUPPORTED,
			"%.300s: an index of version %d; this library knows version %d: make it again (stoker index)", name,
			data[sizeof magic], VERSION);
	if (data[sizeof magic + 1] != kind)
		return stk__fail(err, STK_INVALID, "%.300s: an index of %s, and not of %s", name,
			data[sizeof magic + 1] == STK_ARCHIVE_TAR ? "tars" : "TFRecord files",
			kind == STK_ARCHIVE_TAR ? "tars" : "TFRecord files");
	struct stk_coded_in in = {data + HEAD, data + n - STK_CODED_HASH, false};
	uint64_t archives = stk__take_coded(&in);
	if (in.failed || archives > n || archives > INT32_MAX)
		return damaged(name, err);
	struct stk_archive_index *x = stk__calloc((size_t)archives + 1, sizeof *x);
	bool memory = x;
	for (uint64_t i = 0; memory && i < archives && !in.failed; i++) {
		take_archive(&in, &x[i]);
		memory = !x[i].bytes.failed;
	}
	if (memory && !in.failed && in.at == in.end) {
		*out = x;
		*count = (int32_t)archives;
		return STK_OK;
	}
	for (uint64_t i = 0; x && i < archives; i++)
		stk__archive_index_free(&x[i]);
	stk__free(x);
	return memory ? damaged(name, err) : stk__fail(err, STK_NO_MEMORY, "out of memory for the index %.300s", name);
}
