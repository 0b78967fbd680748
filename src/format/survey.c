/* SPDX-License-Identifier: Apache-2.0 */
#include "format/survey.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/list.h"
#include "format/survey_window.h"
#include "io/version.h"
#include "thread/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* OPENERS: number of threads that open tars, up to OPEN_AHEAD tars ahead of the search, since the store must answer one or two requests for each. MOST_PARTS:
 * maximum number of parts of a sample. SLACK: readable bytes after data. NOTICES: maximum number of notices to store. */
enum { OPENERS = 4, OPEN_AHEAD = 16, MOST_PARTS = 64, SLACK = 64, NOTICES = 8 };

/* An element of search_order: one tar. */
struct searched_tar {
	int32_t tar;
	bool open, kept; /* kept: true if the tar has an index, so that it need not be searched */
	enum stk_status status;
	struct stk_error error;
	struct stk_archive_index index; /* valid if `kept`; otherwise made by the search */
	int64_t size, modified_ns;
};

struct stk_survey {
	struct stk_webdataset_options o;
	size_t elements[MOST_PARTS];
	struct stk_storage *storage; /* NULL: all tars are local files */
	struct stk_components *components;
	pthread_mutex_t lock; /* guards the fields below that change while several threads use them */
	pthread_cond_t opened_cond;
	struct stk_samples table;
	struct stk_survey_plan plan;
	int32_t *search_index; /* [tar]: its index in `search_order` */
	struct searched_tar *search_order;
	struct stk_window window;
	struct stk_collect *collect; /* collects the samples of the tar that is being searched */
	struct stk_survey_known known;
	struct stk_error error; /* the reason why the search failed */
	int64_t wanted;         /* number of samples that a caller waits for; 0: none */
	/* next_open: index in `search_order` of the next tar to open; n_released: number of its first tars whose pieces stk__survey_passed has released */
	int32_t next_open, n_released;
	char notices[NOTICES][400]; /* notices that were not returned yet, the oldest first; further ones are dropped */
	int32_t notice_count;
	pthread_t searcher, openers[OPENERS];
	int openers_count;
	bool begun, is_searching;
	_Atomic bool stop;
};

enum stk_status stk__survey_create(const struct stk_webdataset_options *o, struct stk_survey **out, struct stk_error *err)
{
	struct stk_survey *s = *out = stk__calloc(1, sizeof *s);
	if (!s)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d tars", o->path_count);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->opened_cond, NULL);
	s->components = stk__calloc(1, sizeof *s->components);
	s->search_index = stk__calloc((size_t)o->path_count, sizeof *s->search_index);
	s->search_order = stk__calloc((size_t)o->path_count, sizeof *s->search_order);
	enum stk_status status = stk__survey_window_init(&s->window, &s->lock, o->path_count, err);
	if (!status && (!s->components || !s->search_index || !s->search_order))
		status = stk__fail(err, STK_NO_MEMORY, "out of memory for %d tars", o->path_count);
	if (!status)
		status = stk__samples_init(&s->table, o->paths, o->path_count, o->part_count, err);
	s->o = *o;
	s->o.paths = (const char *const *)s->table.archives;
	s->o.elements = memcpy(s->elements, o->elements, (size_t)o->part_count * sizeof *s->elements);
	s->o.access = NULL;
	for (int32_t i = 0; i < o->path_count && !status && !s->storage; i++)
		if (stk__is_object(o->paths[i]))
			status = stk__access_open(o->access, o->paths[i], &s->storage, err);
	if (status) {
		stk__survey_destroy(s);
		*out = NULL;
	}
	return status;
}

void stk__survey_destroy(struct stk_survey *s)
{
	if (!s)
		return;
	stk__survey_end(s);
	stk__survey_window_free(&s->window);
	for (int32_t i = 0; s->search_order && i < s->o.path_count; i++)
		stk__archive_index_free(&s->search_order[i].index);
	stk__samples_free(&s->table);
	stk_storage_unref(&s->storage);
	stk__free(s->plan.order);
	stk__free(s->search_order);
	stk__free(s->search_index);
	stk__free(s->components);
	pthread_cond_destroy(&s->opened_cond);
	pthread_mutex_destroy(&s->lock);
	stk__free(s);
}

int32_t stk__survey_tars(const struct stk_survey *s)
{
	return s->o.path_count;
}

uint64_t stk__survey_digest(const struct stk_survey *s, enum stk_digest_form form)
{
	uint64_t h = 0;
	for (int32_t i = 0; i < s->o.path_count; i++)
		h = stk__hash_archive_name(h, s->table.archives[i], form);
	return h;
}

/* ---- opening ---- */

static void take_notice(void *user, const char *text)
{
	struct stk_survey *s = user;
	pthread_mutex_lock(&s->lock);
	if (s->notice_count < NOTICES)
		snprintf(s->notices[s->notice_count++], sizeof *s->notices, "%s", text);
	pthread_mutex_unlock(&s->lock);
}

static bool is_cancelled(void *user)
{
	return atomic_load(&((struct stk_survey *)user)->stop);
}

static enum stk_status open_searched(struct stk_survey *s, struct searched_tar *t, struct stk_object *object)
{
	const char *path = s->table.archives[t->tar];
	const struct stk_archive_watch watch = {.notice = take_notice, .user = s};
	const struct stk_access access = {.interrupted = is_cancelled, .user = s};
	struct stk_io *io = stk__is_object(path) ? stk__storage_io(s->storage) : NULL;
	struct stk_archive_file f;
	enum stk_status status = stk__archive_open(
		&f, path, io, &access, (struct stk_archive_pace){.max_requests = 1}, stk__archive_least(STK_ARCHIVE_TAR), &t->error);
	if (status)
		return status;
	t->size = f.size;
	t->modified_ns = f.modified_ns;
	*object = f.object;
	t->kept = stk__archive_kept_load(STK_ARCHIVE_TAR, &f, &t->index, &watch);
	stk__archive_close(&f);
	return STK_OK;
}

static void *open_tars(void *user)
{
	struct stk_survey *s = user;
	pthread_mutex_lock(&s->lock);
	while (!atomic_load(&s->stop) && s->next_open < s->o.path_count) {
		if (s->next_open > s->window.at + OPEN_AHEAD) {
			pthread_cond_wait(&s->opened_cond, &s->lock);
			continue;
		}
		int32_t i = s->next_open++;
		struct searched_tar *t = &s->search_order[i];
		struct stk_object object = {.size = -1};
		pthread_mutex_unlock(&s->lock);
		enum stk_status status = open_searched(s, t, &object);
		pthread_mutex_lock(&s->lock);
		struct stk_stretch *stretch = &s->window.tars[i];
		*stretch = (struct stk_stretch){
			.uri = s->table.archives[t->tar], .object = object, .may_request = !status && !t->kept && object.size >= 0};
		s->table.objects[t->tar] =
			(struct stk_samples_object){.size = object.size > 0 ? object.size : 0, .tag = stk__etag_hash(object.version)};
		t->status = status;
		t->open = true;
		pthread_cond_broadcast(&s->opened_cond);
		stk__survey_window_wake(&s->window); /* the tar may be read ahead now */
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- searching ---- */

/* Makes the first `samples` samples of the table known, and marks in the window the parts of those that will be read. Returns whether the waiting
 * caller must be notified. Call with the lock held. */
static bool publish(struct stk_survey *s, int64_t samples)
{
	int32_t index = s->window.at;
	for (int64_t i = s->known.samples; i < samples; i++)
		for (int32_t k = 0; i >= s->plan.first && k < s->table.parts_each; k++)
			stk__survey_window_expect(&s->window, index, &s->table.parts[i * s->table.parts_each + k]);
	s->known.samples = samples;
	bool notify = s->wanted && (s->known.all || samples >= s->wanted);
	if (notify) {
		s->wanted = 0;
		s->window.blocked = false;
	}
	return notify;
}

static enum stk_status found_file(void *user, const struct stk_archive_member *m, struct stk_error *err)
{
	struct stk_survey *s = user;
	pthread_mutex_lock(&s->lock);
	enum stk_status status = stk__collect_file(s->collect, m, err);
	int64_t complete = stk__collect_complete(s->collect);
	bool notify = complete > s->known.samples && publish(s, complete);
	s->window.tars[s->window.at].settled = stk__collect_begun(s->collect);
	pthread_mutex_unlock(&s->lock);
	if (notify)
		s->plan.more(s->plan.user);
	return status;
}

static const uint8_t *read_window(void *user, int64_t offset, size_t n, struct stk_error *err)
{
	return stk__survey_window_read(user, offset, n, err);
}

/* Finds the samples by a search of the tar itself, and stores its index. */
static enum stk_status search(struct stk_survey *s, struct searched_tar *t, struct stk_error *err)
{
	const struct stk_archive_watch watch = {.notice = take_notice, .user = s};
	struct stk_archive_file f = {.path = s->table.archives[t->tar],
		.fd = -1,
		.size = t->size,
		.object = s->window.tars[s->window.at].object,
		.read = read_window,
		.read_user = &s->window};
	enum stk_status status = STK_OK;
	if (!s->window.tars[s->window.at].may_request)
		status = stk__archive_open(&f, f.path, NULL, NULL, (struct stk_archive_pace){0}, stk__archive_least(STK_ARCHIVE_TAR), err);
	if (status)
		return status;
	f.stop = &s->stop;
	status = stk__archive_index_scan(STK_ARCHIVE_TAR, &f, found_file, s, &t->index, err);
	if (!f.read)
		stk__archive_close(&f);
	if (status)
		return status;
	t->index.path = (char *)(uintptr_t)s->table.archives[t->tar];
	stk__archive_keep(STK_ARCHIVE_TAR, &t->index, &watch);
	t->index.path = NULL;
	return STK_OK;
}

static enum stk_status search_tar(struct stk_survey *s, struct searched_tar *t, struct stk_error *err)
{
	char text[400];
	enum stk_status status = stk__collect_begin(&s->o, t->tar, &s->table, s->components, &s->collect, err);
	if (status)
		return status;
	status = t->kept ? stk__archive_index_each(&t->index, found_file, s, err) : search(s, t, err);
	pthread_mutex_lock(&s->lock);
	if (!status)
		status = stk__collect_last(s->collect, err);
	s->window.tars[s->window.at].settled = INT64_MAX;
	s->window.tars[s->window.at].cursor = INT64_MAX;
	bool notify = publish(s, status ? s->known.samples : s->table.size);
	stk__survey_window_sweep(&s->window, s->window.at, 0);
	pthread_mutex_unlock(&s->lock);
	if (notify)
		s->plan.more(s->plan.user);
	stk__collect_end(s->collect);
	bool truncated = t->index.size && !stk__tar_has_end(&t->index);
	if (status && truncated && err)
		stk__webdataset_say_cut(err);
	if (!status && truncated) {
		stk__webdataset_unended(s->table.archives[t->tar], "", text);
		take_notice(s, text);
	}
	stk__archive_index_free(&t->index);
	return status;
}

/* Waits until tar number i of `search_order` is open, and returns it. Returns NULL if the search was cancelled. */
static struct searched_tar *wait_open(struct stk_survey *s, int32_t i)
{
	pthread_mutex_lock(&s->lock);
	s->window.at = i;
	pthread_cond_broadcast(&s->opened_cond);
	while (!s->search_order[i].open && !atomic_load(&s->stop))
		pthread_cond_wait(&s->opened_cond, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return atomic_load(&s->stop) ? NULL : &s->search_order[i];
}

static void *search_tars(void *user)
{
	struct stk_survey *s = user;
	struct stk_error err = {0};
	char text[400];
	enum stk_status status = STK_OK;
	for (int32_t i = 0; i < s->o.path_count && !status; i++) {
		struct searched_tar *t = wait_open(s, i);
		if (!t)
			status = stk__fail(&err, STK_CANCELLED, "the search of tars was cancelled");
		else if ((status = t->status))
			err = t->error;
		else
			status = search_tar(s, t, &err);
	}
	if (!status)
		status = stk__webdataset_check(&s->o, s->components, &err);
	if (!status && !s->known.samples)
		status = stk__fail(&err, STK_NOT_FOUND, "the data set has no samples");
	if (!status && stk__webdataset_doubles(s->components, text))
		take_notice(s, text);
	pthread_mutex_lock(&s->lock);
	s->error = err;
	s->known.failed = status;
	s->known.all = true;
	publish(s, s->known.samples);
	pthread_mutex_unlock(&s->lock);
	s->plan.more(s->plan.user);
	return NULL;
}

/* ---- beginning and end ---- */

enum stk_status stk__survey_begin(struct stk_survey *s, const struct stk_survey_plan *plan, struct stk_error *err)
{
	s->plan = *plan;
	s->begun = true;
	s->window.requests.io = s->storage ? stk__storage_io(s->storage) : NULL;
	s->window.limit = plan->bytes;
	for (int32_t i = 0; i < s->o.path_count; i++) {
		s->search_order[i].tar = plan->order[i];
		s->search_index[plan->order[i]] = i;
	}
	int openers = s->o.path_count < OPENERS ? s->o.path_count : OPENERS;
	enum stk_status status = STK_OK;
	for (; !status && s->openers_count < openers; s->openers_count += !status)
		status = stk__thread_start(&s->openers[s->openers_count], "stoker-tars", open_tars, s, err);
	if (!status)
		status = stk__thread_start(&s->searcher, "stoker-survey", search_tars, s, err);
	s->is_searching = !status;
	if (!status)
		return STK_OK;
	stk__survey_end(s);
	s->known = (struct stk_survey_known){.all = true, .failed = status}; /* so that later calls report the failure again */
	if (err)
		s->error = *err;
	return status;
}

void stk__survey_end(struct stk_survey *s)
{
	if (!s->begun)
		return;
	pthread_mutex_lock(&s->lock);
	atomic_store(&s->stop, true);
	s->window.stop = true;
	pthread_cond_broadcast(&s->opened_cond);
	stk__survey_window_wake(&s->window);
	pthread_mutex_unlock(&s->lock);
	for (int i = 0; i < s->openers_count; i++)
		stk__thread_join(s->openers[i]);
	if (s->is_searching)
		stk__thread_join(s->searcher);
	s->openers_count = 0;
	s->is_searching = s->begun = false;
	stk__survey_window_end(&s->window);
}

struct stk_survey_known stk__survey_known(struct stk_survey *s, int64_t want, bool starved, struct stk_error *err)
{
	pthread_mutex_lock(&s->lock);
	struct stk_survey_known known = s->known;
	if (known.failed && err)
		*err = s->error;
	if (!known.all && known.samples < want) {
		s->wanted = want;
		if (starved && !s->window.blocked) {
			s->window.blocked = true;
			stk__survey_window_wake(&s->window);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return known;
}

void stk__survey_passed(struct stk_survey *s, int64_t sample)
{
	pthread_mutex_lock(&s->lock);
	sample = sample < s->known.samples ? sample : s->known.samples;
	if (sample > 0) {
		int32_t index = s->search_index[s->table.places[sample - 1].archive];
		int64_t end = 0;
		for (int32_t k = 0; k < s->table.parts_each; k++) {
			const struct stk_sample_part *part = &s->table.parts[(sample - 1) * s->table.parts_each + k];
			end = part->offset + part->length > end ? part->offset + part->length : end;
		}
		for (; s->n_released < index; s->n_released++)
			stk__survey_window_sweep(&s->window, s->n_released, INT64_MAX);
		stk__survey_window_sweep(&s->window, index, end);
	}
	pthread_mutex_unlock(&s->lock);
}

bool stk__survey_notice(struct stk_survey *s, char text[400])
{
	pthread_mutex_lock(&s->lock);
	const bool any = s->notice_count > 0;
	if (any) {
		memcpy(text, s->notices[0], sizeof *s->notices);
		memmove(s->notices, s->notices + 1, (size_t)--s->notice_count * sizeof *s->notices);
	}
	pthread_mutex_unlock(&s->lock);
	return any;
}

/* ---- samples ---- */

size_t stk__survey_tar(struct stk_survey *s, int64_t tar, char *uri, size_t capacity)
{
	return (size_t)snprintf(uri, capacity, "%s", s->table.archives[tar]);
}

size_t stk__survey_uri(struct stk_survey *s, int64_t id, char *uri, size_t capacity)
{
	pthread_mutex_lock(&s->lock);
	size_t n = id < s->table.size ? stk__samples_name(&s->table, id, uri, capacity) : stk__survey_tar(s, 0, uri, capacity);
	pthread_mutex_unlock(&s->lock);
	return n;
}

int32_t stk__survey_parts(struct stk_survey *s, int64_t id, struct stk_sample_part *out, uint32_t *header_hashes, int32_t *tar)
{
	pthread_mutex_lock(&s->lock);
	memcpy(out, &s->table.parts[id * s->table.parts_each], (size_t)s->table.parts_each * sizeof *out);
	if (header_hashes)
		memcpy(header_hashes, &s->table.header_hashes[id * s->table.parts_each],
			(size_t)s->table.parts_each * sizeof *header_hashes);
	*tar = (int32_t)s->table.places[id].archive;
	pthread_mutex_unlock(&s->lock);
	return s->table.parts_each;
}

struct stk_samples_object stk__survey_object(struct stk_survey *s, int64_t tar)
{
	pthread_mutex_lock(&s->lock);
	const struct stk_samples_object object = s->table.objects[tar];
	pthread_mutex_unlock(&s->lock);
	return object;
}

/* Finds the sample's parts that are inside the request, and returns their number. Call with the lock held. */
static int32_t parts_of(const struct stk_survey *s, int64_t id, const struct stk_request *r, struct stk_sample_part *out)
{
	int32_t n = 0;
	for (int32_t k = 0; k < s->table.parts_each; k++) {
		const struct stk_sample_part *part = &s->table.parts[id * s->table.parts_each + k];
		if (part->offset >= r->offset && part->offset + part->length <= r->offset + r->length)
			out[n++] = *part;
	}
	return n;
}

/* Checks the members' headers, as io does for bytes that it fetches: the object may have changed between the requests for the headers and for the members. */
static enum stk_status check_kept(struct stk_request *r)
{
	enum stk_status status = r->check ? stk__io_check_bytes(r) : STK_OK;
	if (status)
		r->data = NULL;
	return status;
}

bool stk__survey_read(struct stk_survey *s, int64_t id, struct stk_request *r)
{
	struct stk_sample_part parts[MOST_PARTS];
	struct stk_io *io = s->window.requests.io;
	if (!io || r->before || r->length < 0 || (r->max_bytes && (uint64_t)r->length > r->max_bytes))
		return false;
	pthread_mutex_lock(&s->lock);
	int32_t index = s->search_index[s->table.places[id].archive], n = parts_of(s, id, r, parts);
	struct stk_piece *piece = stk__survey_window_pin(&s->window, index, r->offset, r->length);
	pthread_mutex_unlock(&s->lock);
	if (!piece)
		return false;
	size_t size = (size_t)r->length;
	uint8_t *to = stk__request_memory(io, r, size, &r->buffer);
	if (to) {
		stk__survey_window_copy(piece, r->offset, r->length, to);
		memset(to + size, 0, SLACK);
		r->data = to;
		r->size = size;
		r->status = check_kept(r);
	}
	pthread_mutex_lock(&s->lock);
	stk__survey_window_unpin(&s->window, index, piece, r->offset + r->length, parts, to ? n : 0);
	pthread_mutex_unlock(&s->lock);
	return to;
}
