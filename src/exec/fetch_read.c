/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans the requests of a read, counts and releases its bytes, gives the parts to operators, and makes the chains ready that wait for the read. */
#include "exec/fetch_read.h"

#include "exec/engine.h"

#include "base/clock.h"
#include "base/safe_text.h"

#include <stdio.h>

/* ---- the requests of a read ---- */

/* Checks the headers of the parts in a request's bytes. first_header: the first part's header, if it was read separately; the other headers are in `data`. */
static enum stk_status check_headers(const struct stk_request *r, const uint8_t *first_header, const uint8_t *data, struct stk_error *err)
{
	const struct stk_read_request *q = r->user;
	const struct stk_read *read = q->read;
	const struct stk_program *g = read->sample->record->pipeline->program;
	const struct stk_program_node *n = &g->nodes[g->readers[read->reader].node];
	const size_t header = n->def->reader->header;
	enum stk_status s = STK_OK;
	for (int32_t k = 0; k < stk__read_parts(read) && !s; k++) {
		const struct stk_read_part *part = &read->parts[k];
		if (part->request != q - read->requests || (part->begin && part->begin < header))
			continue;
		s = n->def->reader->check(n->shared, read->id, k, part->begin ? data + part->begin - header : first_header, err);
	}
	return s;
}

static void describe(
	struct stk_read *read, int32_t k, const struct stk_part *part, void (*done)(struct stk_request *q), struct stk_error *err)
{
	struct stk_read_request *q = &read->requests[k];
	int32_t retries = q->io.retries;
	q->io = (struct stk_request){.offset = part->offset,
		.length = part->length,
		.max_bytes = read->sample->record->pipeline->config.memory_limit,
		.done = done,
		.user = q,
		.error = err,
		.retries = retries,
		.admission = &read->sample->record->pipeline->parts.fetch->admission};
	q->read = read;
	q->uri_number = part->uri;
}

/* Returns whether the reader checks the header of a part. A part that is missing from its sample has offset 0, and no header. */
static bool has_header(const struct stk_reader_def *reader, const struct stk_part *part)
{
	return reader->check && part->offset >= (int64_t)reader->header;
}

/* Extends a request, which begins with a part, so that the part's header can be checked. The header of a part in a local file is read separately: its size is
 * returned. Otherwise returns 0, and the request begins with the header: for a remote object, so that the cache has it, and for an empty part, which has no
 * other bytes. */
static size_t add_header(const struct stk_reader_def *reader, const struct stk_known_object *known, struct stk_part *request)
{
	if (!known->remote && request->length)
		return reader->header;
	request->offset -= (int64_t)reader->header;
	request->length += (int64_t)reader->header;
	return 0;
}

/* Returns whether two parts share a request: they belong to one object, their lengths are known, and the bytes between them cost less than another request. */
static bool joins(const struct stk_part *first, const struct stk_part *second)
{
	enum { GAP = 64 << 10 }; /* 64 KiB take 5 ms at 100 Mbit/s; an object store takes several times as long to send its first byte */
	return first->uri == second->uri && first->length >= 0 && second->length >= 0 &&
	       second->offset - (first->offset + first->length) <= GAP;
}

/* Writes the indices of the parts to `order`, sorted by object and offset, since a sample may name its parts in any order. */
static void sort_parts(const struct stk_part *parts, int32_t n, uint8_t *order)
{
	for (int32_t i = 0; i < n; i++) {
		int32_t k = i;
		for (; k > 0; k--) {
			const struct stk_part *previous = &parts[order[k - 1]];
			if (previous->uri < parts[i].uri || (previous->uri == parts[i].uri && previous->offset <= parts[i].offset))
				break;
			order[k] = order[k - 1];
		}
		order[k] = (uint8_t)i;
	}
}

/* Finds the sample's parts and plans requests for them, which call `done` and report errors to `err` (nullable). Of an empty part, only the header is requested
 * if it is to be checked: the object may have been replaced by one in which the part is not empty. Needs no lock. */
void stk__read_plan(struct stk_read *read, void (*done)(struct stk_request *q), struct stk_error *err)
{
	const struct stk_pipeline *p = read->sample->record->pipeline;
	const struct stk_program_node *n = &p->program->nodes[p->program->readers[read->reader].node];
	int64_t id = stk__reader_place(p, read->reader, &read->sample->place).sample;
	read->id = id;
	struct stk_part whole_object = {.uri = id, .length = -1}, request = whole_object;
	struct stk_part buffer[STK_MAX_PARTS], *parts = n->def->reader->parts ? buffer : &whole_object;
	uint8_t order[STK_MAX_PARTS] = {0};
	if (n->def->reader->parts)
		n->def->reader->parts(n->shared, id, buffer);
	sort_parts(parts, stk__read_parts(read), order);
	const struct stk_reader_def *reader = n->def->reader;
	struct stk_known_object known = {0};
	size_t separate_size = 0;
	bool checks = false;
	read->n_requests = read->restarts = 0;
	for (int32_t k = 0; k < stk__read_parts(read); k++) {
		const struct stk_part *next = &parts[order[k]];
		struct stk_read_part *part = &read->parts[order[k]];
		part->request = STK_NO_REQUEST;
		part->length = next->length;
		if (next->length == 0 && !has_header(reader, next))
			continue;
		const bool begins = !read->n_requests || !joins(&request, next);
		if (begins && reader->object)
			reader->object(n->shared, next->uri, &known);
		if (begins)
			checks = has_header(reader, next) && !(known.remote && known.tag);
		if (next->length == 0 && !checks)
			continue;
		if (begins) {
			request = *next;
			read->n_requests++;
			separate_size = checks ? add_header(reader, &known, &request) : 0;
		}
		int64_t length = next->offset + next->length - request.offset;
		if (length > request.length && request.length >= 0)
			request.length = length;
		part->request = read->n_requests - 1;
		part->begin = (size_t)(next->offset - request.offset);
		describe(read, part->request, &request, done, err);
		struct stk_request *io = &read->requests[part->request].io;
		io->expected.size = known.size;
		io->expected.tag = known.tag;
		io->expected.pin = known.pinned ? STK_PIN_INDEX : STK_PIN_NONE;
		io->before = separate_size;
		io->check = checks ? check_headers : NULL;
	}
}

static struct stk_bytes bytes_of(const struct stk_read *read, const struct stk_read_part *part)
{
	static const uint8_t nothing[64];
	if (part->request == STK_NO_REQUEST || part->length == 0)
		return (struct stk_bytes){nothing, 0};
	const struct stk_request *io = &read->requests[part->request].io;
	struct stk_bytes b = {.data = io->data ? io->data + part->begin : part->pinned,
		.size = io->size,
		.offset = io->offset + (int64_t)part->begin,
		.object = io->got.size,
		.tag = io->got.tag};
	if (part->length >= 0)
		b.size = (size_t)part->length;
	else if (!b.offset)
		b.object = (int64_t)b.size;
	return b;
}

/* Plans requests for further parts, whose positions are in the bytes read so far. All requests so far must have ended. Returns whether there are new requests;
 * they are numbers *first to read->n_requests - 1. */
bool stk__read_plan_more(struct stk_read *read, void (*done)(struct stk_request *q), int32_t *first)
{
	const struct stk_pipeline *p = read->sample->record->pipeline;
	const struct stk_program_node *n = &p->program->nodes[p->program->readers[read->reader].node];
	struct stk_part out[STK_MAX_PARTS];
	struct stk_bytes bytes[STK_MAX_PARTS];
	*first = read->n_requests;
	if (!n->def->reader->more || !read->n_requests)
		return false;
	for (int32_t q = 0; q < read->n_requests; q++)
		if (read->requests[q].io.status)
			return false;
	for (int32_t k = 0; k < stk__read_parts(read); k++)
		bytes[k] = bytes_of(read, &read->parts[k]);
	const struct stk_random random = stk__random(n->seed, n->stream, read->sample->place.epoch, read->sample->place.position);
	if (!n->def->reader->more(n->node->args, n->shared, read->id, random, bytes, out))
		return false;
	const struct stk_request *earlier = &read->requests[0].io;
	for (int32_t k = 0; k < stk__read_parts(read); k++) {
		struct stk_read_part *part = &read->parts[k];
		if (out[k].length == 0 || part->request != STK_NO_REQUEST)
			continue;
		part->request = read->n_requests++;
		part->begin = 0;
		part->length = out[k].length;
		struct stk_request *io = &read->requests[part->request].io;
		io->retries = 0;
		describe(read, part->request, &out[k], done, NULL);
		io->expected.size = earlier->got.size;
		io->expected.tag = earlier->got.tag;
		io->expected.pin = STK_PIN_READ; /* the read begins again if the object has changed since the earlier request */
	}
	return read->n_requests > *first;
}

/* ---- memory of a read ---- */

bool stk__read_has_buffers(const struct stk_read *read)
{
	bool has_buffers = false;
	for (int32_t q = 0; read->state == STK_READ_DONE && q < read->n_requests; q++)
		has_buffers |= read->requests[q].io.buffer != NULL;
	return has_buffers;
}

void stk__fetch_ask_again(struct stk_fetch *f)
{
	if (!f->admission_refused)
		return;
	f->admission_refused = false;
	stk__io_admission_changed(f->pipeline->io);
}

void stk__read_admit(struct stk_fetch *f, struct stk_read_request *q, size_t bytes)
{
	const bool less = bytes < q->admitted;
	f->unknown -= q->under_way && !q->admitted && bytes;
	f->admitted += (int64_t)bytes - (int64_t)q->admitted;
	q->admitted = bytes;
	if (less)
		stk__fetch_ask_again(f);
}

/* Returns whether a request of the sample has buffers, or may take some. */
static bool holds_bytes(const struct stk_sample_state *s)
{
	bool holds = false;
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		for (int32_t q = 0; q < s->reads[k].n_requests; q++)
			holds |= s->reads[k].requests[q].admitted > 0;
	return holds;
}

/* Releases the bytes and errors of a read's requests, which must have ended. */
static void release_requests(struct stk_fetch *f, struct stk_read *read)
{
	for (int32_t q = 0; q < read->n_requests; q++) {
		struct stk_read_request *request = &read->requests[q];
		if (request->io.buffer)
			f->read_bytes -= (int64_t)request->io.size;
		stk__buffer_release(request->io.buffer);
		stk__read_admit(f, request, 0);
		request->io.buffer = NULL;
		request->io.data = NULL;
		stk__free(request->error);
		request->error = NULL;
	}
}

/* Releases a read's bytes and errors. Does nothing while requests are under way, since io still writes to them. */
static void release(struct stk_pipeline *p, struct stk_read *read)
{
	struct stk_fetch *f = p->parts.fetch;
	if (stk__read_under_way(read))
		return;
	f->complete -= stk__read_has_buffers(read);
	release_requests(f, read);
	/* Allows another sample to exceed the limit, and makes io ask again. stk__read_admit does so only if the number of admitted bytes falls, and a
	 * failed read has no admitted bytes. */
	if (f->over_limit == read->sample && !holds_bytes(read->sample)) {
		f->over_limit = NULL;
		stk__fetch_ask_again(f);
	}
}

bool stk__read_plan_again(struct stk_read *read, void (*done)(struct stk_request *q))
{
	enum { MOST = 3 };
	const int32_t restarts = read->restarts;
	struct stk_read_version now = {0};
	bool replaced = false;
	for (int32_t q = 0; q < read->n_requests; q++) {
		const struct stk_request *io = &read->requests[q].io;
		if (io->status && !io->replaced)
			return false;
		replaced |= io->status != STK_OK;
		now = io->status ? io->got : now;
	}
	if (!replaced || restarts == MOST)
		return false;
	release_requests(stk__fetch_of(read->sample), read);
	stk__read_plan(read, done, NULL);
	read->restarts = restarts + 1;
	for (int32_t q = 0; q < read->n_requests; q++) { /* a cache must not give the bytes of the earlier version again */
		struct stk_request *io = &read->requests[q].io;
		io->retries = 0;
		if (io->expected.pin == STK_PIN_INDEX)
			continue;
		io->uncached = !now.tag;
		io->expected.tag = now.tag;
		io->expected.size = 0;
	}
	return true;
}

void stk__fetch_release(struct stk_sample_state *s)
{
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		release(s->record->pipeline, &s->reads[k]);
}

static bool is_shared(const struct stk_read *read)
{
	bool in_use = false;
	for (int32_t i = 0; i < stk__read_parts(read); i++)
		in_use |= read->parts[i].pinned || read->parts[i].on_gpu;
	return in_use;
}

static bool has_copies(const struct stk_read *read)
{
	bool copies = true;
	for (int32_t i = 0; i < stk__read_parts(read); i++)
		copies &= read->parts[i].request == STK_NO_REQUEST || read->parts[i].length == 0 || read->parts[i].pinned;
	return copies;
}

/* Releases bytes that no chain needs again. A sample that the GPU refuses runs through its chains again, on the cores. A file that was given to the GPU has
 * a copy in pinned memory for that case, so the buffer from which it was copied is released; reads without such a copy keep their buffers. */
void stk__fetch_read_through(struct stk_sample_state *s)
{
	bool gpu = false;
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		gpu |= s->record->device && is_shared(&s->reads[k]);
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		if (!gpu || has_copies(&s->reads[k]))
			release(s->record->pipeline, &s->reads[k]);
}

static void forget_copies(struct stk_read_part *part)
{
	part->pinned = NULL;
	part->on_gpu = false;
}

void stk__fetch_forget(struct stk_sample_state *s)
{
	s->waiting = 0;
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++) {
		struct stk_read *read = &s->reads[k];
		if (!stk__read_under_way(read))
			read->state = STK_READ_NONE;
		read->deadline = 0;
		for (int32_t i = 0; i < stk__read_parts(read); i++)
			forget_copies(&read->parts[i]);
	}
}

void stk__fetch_again(struct stk_sample_state *s)
{
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++) {
		struct stk_read *read = &s->reads[k];
		read->state = stk__read_under_way(read) ? STK_READ_STALE : STK_READ_NONE;
		for (int32_t i = 0; i < stk__read_parts(read); i++)
			forget_copies(&read->parts[i]);
	}
}

void stk__fetch_opened(struct stk_record *r)
{
	struct stk_fetch *f = r->pipeline->parts.fetch;
	for (int32_t i = 0; f->complete_early && i < r->count; i++)
		for (int32_t k = 0; k < f->n; k++)
			f->complete_early -= stk__read_has_buffers(&r->samples[i].reads[k]);
}

/* ---- a read has ended ---- */

/* Returns whether the chain need not wait: no read that it needs is under way or being tried. Reads that have not begun do not count, since the worker that
 * runs the chain begins them. */
static bool is_free(const struct stk_sample_state *s, const struct stk_chain *chain)
{
	bool free = true;
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		free &= !stk__chain_reads(chain, &s->reads[k]) || s->reads[k].state == STK_READ_DONE || s->reads[k].state == STK_READ_NONE;
	return free;
}

void stk__read_count(struct stk_pipeline *p, struct stk_read_request *q)
{
	struct stk_fetch *f = p->parts.fetch;
	stk__read_admit(f, q, q->io.buffer && !q->io.status ? stk__buffer_capacity(q->io.buffer) : 0);
	/* A request whose object failed in all tries says nothing about the source if requests that began later have succeeded. */
	if (q->io.status && q->io.object_fails && q->io.asked_ns < f->last_success_ns)
		return;
	if (q->io.status) {
		/* A store may be down if it sends errors of any kind, or no objects. A file system that lacks a file works. STK_LIMIT: the file is too large. */
		const bool local = !q->io.asked_ns,
			   answered = q->io.status == STK_LIMIT || q->io.replaced || (local && q->io.status == STK_NOT_FOUND);
		f->missing_in_a_row = answered ? 0 : f->missing_in_a_row + 1;
		return;
	}
	f->read_bytes += q->io.buffer ? (int64_t)q->io.size : 0;
	f->mean_count += f->mean_count < 16;
	f->mean_bytes += ((int64_t)q->io.size - f->mean_bytes) / f->mean_count;
	f->missing_in_a_row = 0;
	f->last_success_ns = stk__clock_ns();
	STK_COUNT(p, bytes_read, (int64_t)q->io.size);
}

/* Ends a read, and makes the chains that waited for it ready. Releases the bytes if the batch is not under way any more, or if the sample was replaced or
 * dropped: until the end of the batch they could take the room that its other samples need. A batch without a slot keeps the bytes, and has no waiting
 * chains. */
void stk__read_ended(struct stk_pipeline *p, struct stk_read *read)
{
	struct stk_sample_state *s = read->sample;
	bool wanted = stk__record_under_way(s->record) && read->state != STK_READ_STALE && !s->dropped;
	read->state = STK_READ_DONE;
	p->parts.fetch->complete += stk__read_has_buffers(read);
	if (!wanted) {
		release(p, read);
		read->state = STK_READ_NONE;
	}
	if (s->record->state < STK_BATCH_OPEN) {
		p->parts.fetch->complete_early += stk__read_has_buffers(read);
		return;
	}
	for (uint64_t left = s->waiting; left; left &= left - 1) {
		int32_t c = __builtin_ctzll(left);
		if (!wanted || is_free(s, stk__sample_chain(s, c))) {
			s->waiting &= ~(1ull << c);
			stk__on_bytes(s, c);
		}
	}
}

/* ---- results of a read ---- */

bool stk__fetch_complete(const struct stk_sample_state *s)
{
	bool complete = true;
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		complete &= s->reads[k].state == STK_READ_DONE;
	return complete;
}

void stk__name_part(const struct stk_sample_state *s, int32_t reader, int32_t part, struct stk_error *err)
{
	const struct stk_pipeline *p = s->record->pipeline;
	const struct stk_program_node *n = &p->program->nodes[p->program->readers[reader].node];
	if (err && n->def->reader->part_name && part >= 0)
		n->def->reader->part_name(n->shared, stk__reader_place(p, reader, &s->place).sample, part, err->uri, sizeof err->uri);
}

/* Adds to the error the title of the reader, which contains the line of the user's program that made it. If an object is missing, also adds the file that lists
 * the object. */
static void blame_reader(const struct stk_program_node *n, struct stk_error *err)
{
	char title[STK_MAX_TITLE];
	const char *list = n->def->reader->listed_in ? n->def->reader->listed_in(n->node->args) : NULL;
	size_t used = strlen(err->message);
	if (list && err->code == STK_NOT_FOUND)
		snprintf(err->message + used, sizeof err->message - used, "; %.200s names it", list);
	stk__safe_text(err->message, sizeof err->message);
	stk__node_title(n->node, title, sizeof title);
	stk__error_set_op(err, title);
}

enum stk_status stk__fetch_status(const struct stk_sample_state *s, const struct stk_chain *chain, struct stk_error *err)
{
	const struct stk_program *g = s->record->pipeline->program;
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++) {
		const struct stk_read *read = &s->reads[k];
		for (int32_t q = 0; stk__chain_reads(chain, read) && q < read->n_requests; q++) {
			const struct stk_read_request *request = &read->requests[q];
			if (!request->io.status)
				continue;
			static const struct stk_error no_memory = {
				.code = STK_NO_MEMORY, .sample = -1, .epoch = -1, .offset = -1, .message = "out of memory for a read"};
			*err = request->error ? *request->error : no_memory;
			blame_reader(&g->nodes[g->readers[read->reader].node], err);
			for (int32_t part = stk__read_parts(read) - 1; part >= 0; part--)
				if (read->parts[part].request == q)
					stk__name_part(s, read->reader, part, err);
			return request->io.status;
		}
	}
	return STK_OK;
}

size_t stk__fetch_bytes(const struct stk_sample_state *s, const struct stk_chain *chain)
{
	size_t bytes = 0;
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		for (int32_t q = 0; stk__chain_reads(chain, &s->reads[k]) && q < s->reads[k].n_requests; q++)
			bytes += s->reads[k].requests[q].io.size;
	return bytes;
}

void stk__fetch_parts(const struct stk_sample_state *s, int32_t reader, struct stk_bytes *out)
{
	const struct stk_read *read = &s->reads[stk__fetch_of(s)->index[reader]];
	for (int32_t i = 0; i < stk__read_parts(read); i++)
		out[i] = bytes_of(read, &read->parts[i]);
}

/* Returns whether to share the buffer instead of copying `data`, which must be all bytes that were read. Small data is copied faster, and sharing a buffer
 * that is mostly unused would waste memory. */
static bool is_worth_sharing(const struct stk_request *io, const uint8_t *data, size_t size)
{
	enum { LEAST = 16 << 10 };
	return io->buffer && io->data == data && io->size == size && size >= LEAST && size >= stk__buffer_capacity(io->buffer) / 2;
}

struct stk_buffer *stk__fetch_share(const struct stk_sample_state *s, int32_t reader, const uint8_t *data, size_t size)
{
	const int32_t k = stk__fetch_of(s)->index[reader];
	for (int32_t q = 0; k != STK_FETCHES_NOTHING && q < s->reads[k].n_requests; q++) {
		const struct stk_request *io = &s->reads[k].requests[q].io;
		if (is_worth_sharing(io, data, size))
			return stk__buffer_share(io->buffer) ? io->buffer : NULL;
	}
	return NULL;
}

bool stk__fetch_is_pinned(const struct stk_sample_state *s, const uint8_t *data)
{
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		for (int32_t i = 0; i < stk__read_parts(&s->reads[k]); i++)
			if (s->reads[k].parts[i].pinned == data)
				return true;
	return false;
}

void stk__fetch_keep_pinned(struct stk_sample_state *s, const uint8_t *data, const uint8_t *file)
{
	for (int32_t k = 0; k < stk__fetch_of(s)->n; k++)
		for (int32_t i = 0; i < stk__read_parts(&s->reads[k]); i++) {
			struct stk_read_part *part = &s->reads[k].parts[i];
			struct stk_bytes bytes = bytes_of(&s->reads[k], part);
			if (bytes.data == data)
				part->pinned = file;
			else if (bytes.data && data > bytes.data && data < bytes.data + bytes.size)
				part->on_gpu = true;
		}
}
