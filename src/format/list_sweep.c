/* SPDX-License-Identifier: Apache-2.0 */
#include "format/list_sweep.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/xxhash.h"
#include "format/s3_page.h"
#include "http/s3.h"
#include "io/wait.h"

#include <stddef.h>
#include <string.h>

/* AT_A_TIME: maximum number of requests in flight. CUTS_A_PAGE: maximum number of cuts of a prefix for each of its pages that have arrived. MOST_CUTS:
 * maximum number of candidates for cuts. MOST_EMPTY: maximum number of consecutive pages without new names. If millions of objects were deleted, some
 * hundred such pages follow each other. */
enum { AT_A_TIME = 64, CUTS_A_PAGE = 8, MOST_CUTS = 512, MOST_EMPTY = 5000 };

/* A hash table of the names in a list, for finding repeated names. The number of slots is a power of two. */
struct name_set {
	struct name_slot {
		uint64_t hash; /* 0: the slot is free */
		int64_t at;    /* index of the name in the list */
	} * slots;
	size_t size, used;
};

struct run;

/* One of the listed prefixes. Its keys are listed in parts ("stretches"), which are linked in the order of their keys. */
struct listed_prefix {
	const char *prefix;
	struct stretch *first;
	int64_t under_way, pages; /* number of requests in flight; number of pages that have arrived */
	bool whole_listing;       /* true if the prefix must not be cut: the store returned keys out of order or ignored start-after */
	bool spoilt;              /* true if `whole_listing` was set after the prefix had been cut: it is listed again without cuts */
	bool seen[128];           /* [ASCII character]: true if a listed key has it after the prefix */
};

/* A stretch: the keys after the key `after`, up to and including `until`. */
struct stretch {
	struct run *run;
	struct listed_prefix *listed;
	struct stretch *right, *queued; /* right: next stretch in the order of keys; queued: next stretch in run.waiting */
	char *after, *until;            /* after NULL: from the first key; until NULL: to the last key */
	struct stk_text first, last;    /* smallest entry, and last key or folder, of the last page that added entries */
	struct stk_text uri, token;
	struct stk_file_list objects, folders; /* the entries that have arrived */
	struct stk_request request;
	bool requested, ended;
	bool disorder; /* true if keys of a page are out of order */
	/* For the detection of endless pages. `marked` is the hash of an earlier page's token. It is replaced by that of the current page after 1, 2, 4, ...
	 * pages, so that a cycle of tokens of any length reaches it again (Brent's algorithm). */
	uint64_t marked;
	int64_t pages, mark_at;
	int64_t empty;                              /* number of consecutive pages without new entries */
	struct name_set objects_seen, folders_seen; /* if `disorder`: all entries that have arrived, by which repeated entries are found */
};

struct run {
	struct stk_sweep *sweep;
	struct listed_prefix *prefixes;
	int64_t count, begun;    /* number of prefixes, and number of prefixes whose listing has begun */
	int64_t under_way;       /* number of requests in flight */
	struct stretch *waiting; /* stretches whose next page must be requested */
	int64_t n_waiting;
	bool cancelled;
	int64_t listed_ns; /* time of the last call of access->listed */
	struct stk_requests pages;
};

static enum stk_status no_memory(const struct run *r, struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory to list %s", r->sweep->root);
}

/* ---- names that come twice ---- */

static bool is_at(const struct stk_file_list *l, int64_t at, const char *name)
{
	return at < l->size && strcmp(l->names + l->files[at], name) == 0;
}

/* Returns the slot of a name that the list contains, or the free slot for a new name. name NULL: always returns a free slot. */
static struct name_slot *find_slot(const struct name_set *s, const struct stk_file_list *l, uint64_t hash, const char *name)
{
	size_t k = (size_t)(hash >> 1) & (s->size - 1); /* the lowest bit of every hash is 1 */
	while (s->slots[k].hash && !(name && s->slots[k].hash == hash && is_at(l, s->slots[k].at, name)))
		k = (k + 1) & (s->size - 1);
	return &s->slots[k];
}

static bool grow_set(struct name_set *s)
{
	struct name_set more = {.size = s->size ? 2 * s->size : 1024, .used = s->used};
	more.slots = stk__calloc(more.size, sizeof *more.slots);
	if (!more.slots)
		return false;
	for (size_t i = 0; i < s->size; i++)
		if (s->slots[i].hash)
			*find_slot(&more, NULL, s->slots[i].hash, NULL) = s->slots[i];
	stk__free(s->slots);
	*s = more;
	return true;
}

/* Adds a name with index `at` in the list, which may be added to the list afterwards. *repeated: set to whether the set contains the name already. Returns
 * false if memory is short. */
static bool set_add(struct name_set *s, const struct stk_file_list *l, int64_t at, const char *name, bool *repeated)
{
	if (2 * s->used >= s->size && !grow_set(s))
		return false;
	const uint64_t hash = stk__xxh64(name, strlen(name), 0) | 1;
	struct name_slot *slot = find_slot(s, l, hash, name);
	*repeated = slot->hash != 0;
	if (!*repeated) {
		*slot = (struct name_slot){hash, at};
		s->used++;
	}
	return true;
}

/* Adds all names of a list to an empty set. Returns false if memory is short. */
static bool set_fill(struct name_set *s, const struct stk_file_list *l)
{
	bool repeated, ok = true;
	for (int64_t i = 0; i < l->size && ok; i++)
		ok = set_add(s, l, i, l->names + l->files[i], &repeated);
	return ok;
}

/* ---- stretches ---- */

static void empty_list(struct stk_file_list *l)
{
	stk__free(l->names);
	stk__free(l->files);
	*l = (struct stk_file_list){.sized = l->sized};
}

static void free_stretches(struct listed_prefix *w)
{
	for (struct stretch *t = w->first, *right; t; t = right) {
		right = t->right;
		empty_list(&t->objects);
		empty_list(&t->folders);
		stk__text_free(&t->first);
		stk__text_free(&t->last);
		stk__text_free(&t->uri);
		stk__text_free(&t->token);
		stk__free(t->objects_seen.slots);
		stk__free(t->folders_seen.slots);
		stk__free(t->after);
		stk__free(t->until);
		stk__free(t);
	}
	w->first = NULL;
}

static struct stretch *new_stretch(struct run *r, struct listed_prefix *w)
{
	struct stretch *t = stk__calloc(1, sizeof *t);
	if (t)
		*t = (struct stretch){.run = r, .listed = w, .objects = {.sized = true}};
	return t;
}

/* Splits the stretch at the key `at`: the keys after it become a new stretch, which waits for its first request. Returns false if memory is short. */
static bool cut_at(struct stretch *t, const char *at)
{
	struct run *r = t->run;
	struct stretch *right = new_stretch(r, t->listed);
	char *until = stk__strdup(at), *after = stk__strdup(at);
	if (!right || !until || !after) {
		stk__free(right);
		stk__free(until);
		stk__free(after);
		return false;
	}
	right->after = after;
	right->until = t->until;
	right->right = t->right;
	t->until = until;
	t->right = right;
	right->queued = r->waiting;
	r->waiting = right;
	r->n_waiting++;
	return true;
}

/* ---- cutting a stretch into parts that are listed at the same time ---- */

enum kind { DIGIT, SMALL, CAPITAL, SIGN };

static enum kind kind_of(int c)
{
	return c >= '0' && c <= '9' ? DIGIT : c >= 'a' && c <= 'z' ? SMALL : c >= 'A' && c <= 'Z' ? CAPITAL : SIGN;
}

/* Finds at most `most` keys at which to cut the stretch, in ascending order, and returns their number. A cut is made from the last key of the page: one of
 * its characters is replaced by a larger one of the same kind that names in this listing use, and the characters after it are left out. Only characters up
 * to the first one in which the page's keys differ are replaced, since cuts further to the right would be within a page. No cut is inside a folder that is
 * listed as one entry. */
static int find_cuts(const struct stretch *t, char (*cuts)[STK_S3_LONGEST_KEY + 2], int most)
{
	const struct stk_sweep *s = t->run->sweep;
	const size_t base = strlen(t->listed->prefix);
	const char *first = t->first.s + base, *last = t->last.s + base;
	size_t depth = 0;
	int n = 0;
	while (last[depth] && first[depth] == last[depth])
		depth++;
	if (*s->delimiter) {
		size_t slash = strcspn(last, s->delimiter);
		depth = depth < slash ? depth : slash;
	}
	for (size_t i = depth + 1; i-- > 0;) {
		const unsigned char here = (unsigned char)last[i];
		if (here >= 0x80 || base + i + 1 > STK_S3_LONGEST_KEY)
			continue; /* a byte that no ASCII character exceeds, or a cut that would be longer than a key may be */
		for (int c = here + 1; c < 0x7f && n < most; c++) {
			if (!t->listed->seen[c] || kind_of(c) != kind_of(here) || (*s->delimiter && c == *s->delimiter))
				continue;
			memcpy(cuts[n], t->last.s, base + i);
			cuts[n][base + i] = (char)c;
			cuts[n][base + i + 1] = '\0';
			n += !t->until || strcmp(cuts[n], t->until) < 0;
		}
	}
	return n;
}

/* Cuts a stretch that has more pages, if more requests may be in flight. Returns false if memory is short. */
static bool cut(struct stretch *t)
{
	struct run *r = t->run;
	int64_t most = AT_A_TIME - r->under_way - r->n_waiting, by_pages = t->listed->pages * CUTS_A_PAGE;
	most = most < by_pages ? most : by_pages;
	if (t->listed->whole_listing || r->begun < r->count || most < 1 || !t->last.length)
		return true; /* without a last key all pages so far were empty, as after deletions, so it is not known where to cut */
	char(*cuts)[STK_S3_LONGEST_KEY + 2] = stk__alloc(MOST_CUTS * sizeof *cuts);
	if (!cuts)
		return false;
	bool ok = true;
	const int n = find_cuts(t, cuts, MOST_CUTS), take = n < most ? n : (int)most;
	for (int i = take - 1; i >= 0 && ok; i--) /* from right to left, so that each cut divides the leftmost part */
		ok = cut_at(t, cuts[(int64_t)i * n / take]);
	stk__free(cuts);
	return ok;
}

/* ---- pages ---- */

/* Waits for a page, and returns its stretch. Returns NULL if the user cancels the listing. */
static struct stretch *wait_page(struct run *r)
{
	struct stk_request *page = stk__requests_any(&r->pages, r->cancelled ? NULL : r->sweep->access);
	return page ? (struct stretch *)((char *)page - offsetof(struct stretch, request)) : NULL;
}

static enum stk_status ask_page(struct stretch *t, struct stk_error *err)
{
	const struct stk_sweep *s = t->run->sweep;
	const bool begins = !t->token.length;
	t->uri.length = 0;
	stk__s3_list_uri(
		&t->uri, s->root, s->bucket, t->listed->prefix, s->delimiter, begins ? NULL : t->token.s, begins ? t->after : NULL);
	if (t->uri.failed)
		return no_memory(t->run, err);
	t->request = (struct stk_request){.uri = t->uri.s, .length = -1};
	t->requested = true;
	t->run->under_way++;
	t->listed->under_way++;
	stk__requests_submit(&t->run->pages, &t->request);
	return STK_OK;
}

/* Cancels the requests in flight; run_all then waits for them without asking the user again. Returns STK_CANCELLED. */
static enum stk_status cancel_run(struct run *r, struct stk_error *err)
{
	r->cancelled = true;
	for (int64_t i = 0; i < r->begun; i++)
		for (struct stretch *t = r->prefixes[i].first; t; t = t->right)
			if (t->requested)
				stk__io_cancel(r->sweep->io, &t->request);
	return stk__fail(err, STK_CANCELLED, "%s: listing it was interrupted", r->sweep->root);
}

/* Returns the error of the stretch's request, with the name that the user gave, and frees the request's own error. The message shows the prefix as part of
 * a URI: credentials that the user wrote before the bucket may be in the prefix, and they are removed from messages only in URIs. */
static enum stk_status page_failed(struct stretch *t, struct stk_error *err)
{
	struct stk_request *q = &t->request;
	const char *text = q->error ? q->error->message : "out of memory";
	size_t n = strlen(q->uri);
	bool named = strncmp(text, q->uri, n) == 0 && text[n] == ':';
	const struct stk_sweep *sweep = t->run->sweep;
	enum stk_status status = stk__fail(err, q->status == STK_NOT_FOUND ? STK_IO : q->status, "%s: listing %.*s://%s/%s failed: %s",
		sweep->root, (int)strcspn(sweep->root, ":"), sweep->root, sweep->bucket, t->listed->prefix, named ? text + n + 2 : text);
	stk__free(q->error);
	return status;
}

/* Adds the names that have arrived to the sets, unless the sets are in use already. After disorder, each new name is looked up in them. Returns false if
 * memory is short. */
static bool begin_sets(struct stretch *t)
{
	return t->objects_seen.size ||
	       (grow_set(&t->objects_seen) && set_fill(&t->objects_seen, &t->objects) && set_fill(&t->folders_seen, &t->folders));
}

/* Sets *accepted to whether a key or a folder of the current page is new and belongs to this stretch. `previous`: the previous entry of the same kind on this
 * page. A store that keeps the order of keys repeats no name; another store may repeat a folder, but a repeated object would be two samples. */
static enum stk_status accept_entry(
	struct stretch *t, const char *key, bool folder, struct stk_text *previous, bool *accepted, struct stk_error *err)
{
	const size_t base = strlen(t->listed->prefix);
	bool repeated = false;
	*accepted = false;
	if (strncmp(key, t->listed->prefix, base) != 0)
		return STK_OK; /* an entry of another prefix, which the store should not have sent */
	t->disorder |= (t->after && strcmp(key, t->after) <= 0) || (previous->length && strcmp(previous->s, key) >= 0) ||
		       (t->last.length && strcmp(key, t->last.s) <= 0);
	previous->length = 0;
	stk__text_add(previous, "%s", key);
	if (t->until && strcmp(key, t->until) > 0) {
		t->ended = true; /* the key belongs to the stretch to the right */
		return STK_OK;
	}
	const struct stk_file_list *list = folder ? &t->folders : &t->objects;
	if (t->disorder && !(begin_sets(t) && set_add(folder ? &t->folders_seen : &t->objects_seen, list, list->size, key, &repeated)))
		return no_memory(t->run, err);
	/* An object that is listed twice is an error only in a prefix without cuts. A prefix with cuts will be listed again without them. */
	if (repeated && !folder && !t->after && !t->right)
		return stk__fail(err, STK_CORRUPT,
			"%s: the store lists %s twice, so that its listing is not to be relied on: give the files, or a list of them",
			t->run->sweep->root, key);
	if (repeated)
		return STK_OK;
	for (const char *c = key + base; *c; c++)
		if ((unsigned char)*c < 0x80)
			t->listed->seen[(unsigned char)*c] = true;
	t->run->sweep->entries++;
	*accepted = true;
	return STK_OK;
}

/* What take_object and take_folder need while a page is parsed. */
struct reading {
	struct stretch *t;
	struct stk_text objects, folders; /* the last key, and the last folder, on the page so far */
	struct stk_text first;            /* the smallest entry of the page, key or folder, that was added to the stretch */
};

static void note_smallest(struct reading *p, const char *key)
{
	if (p->first.length && strcmp(key, p->first.s) >= 0)
		return;
	p->first.length = 0;
	stk__text_add(&p->first, "%s", key);
}

static enum stk_status take_object(void *user, const char *key, struct stk_list_object object, struct stk_error *err)
{
	struct reading *p = user;
	bool accepted;
	enum stk_status status = accept_entry(p->t, key, false, &p->objects, &accepted, err);
	if (status || !accepted)
		return status;
	note_smallest(p, key);
	return stk__list_add_sized(&p->t->objects, key, strlen(key), object, err);
}

static enum stk_status take_folder(void *user, const char *prefix, struct stk_error *err)
{
	struct reading *p = user;
	bool accepted;
	enum stk_status status = accept_entry(p->t, prefix, true, &p->folders, &accepted, err);
	if (status || !accepted)
		return status;
	note_smallest(p, prefix);
	return stk__list_add_file(&p->t->folders, prefix, strlen(prefix), err);
}

/* After a page that added entries, sets the stretch's first to the smallest of these, and its last to the larger of the page's last key and last folder.
 * Returns false if memory is short. */
static bool move_on(struct reading *p)
{
	struct stretch *t = p->t;
	const struct stk_text *a = &p->objects, *b = &p->folders, *last = !b->length || (a->length && strcmp(a->s, b->s) > 0) ? a : b;
	if (p->first.length) {
		t->first.length = t->last.length = 0;
		stk__text_add(&t->first, "%s", p->first.s);
		stk__text_add(&t->last, "%s", last->s);
	}
	return !t->first.failed && !t->last.failed && !a->failed && !b->failed && !p->first.failed;
}

/* Fails if the pages would never end: the token of this page, which is not the last one, came before, or this is page MOST_EMPTY in a row without new
 * entries. brought: number of new entries of this page. */
static enum stk_status check_progress(struct stretch *t, int64_t brought, struct stk_error *err)
{
	const uint64_t token = stk__xxh64(t->token.s, t->token.length, 0);
	if (t->pages && token == t->marked)
		return stk__fail(err, STK_CORRUPT,
			"%s: the store's listing goes in a circle (a continuation token came twice): give the files, or a list of them",
			t->run->sweep->root);
	t->empty = brought ? 0 : t->empty + 1;
	if (t->empty == MOST_EMPTY)
		return stk__fail(err, STK_CORRUPT,
			"%s: the store's listing has no end: %d pages in a row bring nothing new: give the files, or a list of them",
			t->run->sweep->root, MOST_EMPTY);
	if (++t->pages >= t->mark_at) {
		t->marked = token;
		t->mark_at = 2 * t->pages;
	}
	return STK_OK;
}

static enum stk_status take_page(struct stretch *t, struct stk_error *err)
{
	const int64_t before = t->objects.size + t->folders.size;
	struct stk_request *q = &t->request;
	struct reading p = {.t = t};
	const struct stk_s3_visitor visitor = {&p, take_object, take_folder};
	if (q->status)
		return page_failed(t, err);
	enum stk_status status = stk__s3_page_parse((const char *)q->data, q->size, t->run->sweep->root, &visitor, &t->token, err);
	stk__buffer_release(q->buffer);
	stk__free(q->error); /* the error of an earlier attempt */
	if (!status && t->token.length && !t->ended)
		status = check_progress(t, t->objects.size + t->folders.size - before, err);
	if (!status && !move_on(&p))
		status = no_memory(t->run, err);
	stk__text_free(&p.objects);
	stk__text_free(&p.folders);
	stk__text_free(&p.first);
	t->listed->pages++;
	t->ended |= !t->token.length;
	if (t->disorder) {
		t->listed->whole_listing = true;
		t->listed->spoilt |= t->listed->first->right != NULL;
		t->ended = !t->token.length; /* only the last page ends the stretch: smaller keys may follow one that exceeds `until` */
	}
	return status;
}

/* ---- the run ---- */

static enum stk_status begin_prefix(struct run *r, struct listed_prefix *w, struct stk_error *err)
{
	w->first = new_stretch(r, w);
	return w->first ? ask_page(w->first, err) : no_memory(r, err);
}

static struct stretch *next_waiting(struct run *r)
{
	struct stretch *t = r->waiting;
	if (t) {
		r->waiting = t->queued;
		r->n_waiting--;
	}
	return t;
}

/* Removes the stretches of a prefix from the list of those that wait for their next request. */
static void drop_waiting(struct run *r, const struct listed_prefix *w)
{
	for (struct stretch **at = &r->waiting; *at;) {
		if ((*at)->listed == w) {
			*at = (*at)->queued;
			r->n_waiting--;
		} else {
			at = &(*at)->queued;
		}
	}
}

static enum stk_status begin_more(struct run *r, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	while (!status && r->under_way < AT_A_TIME) {
		struct stretch *t = r->begun < r->count ? NULL : next_waiting(r);
		if (t)
			status = ask_page(t, err);
		else if (r->begun < r->count)
			status = begin_prefix(r, &r->prefixes[r->begun++], err);
		else
			break;
	}
	return status;
}

/* Passes the entries of a complete prefix to the caller, and frees them: stretch by stretch in the order of keys, and of each stretch first the objects and
 * then the folders. */
static enum stk_status add_to_list(struct run *r, struct listed_prefix *w, struct stk_error *err)
{
	const struct stk_sweep *s = r->sweep;
	enum stk_status status = STK_OK;
	const int64_t prefix_number = w - r->prefixes;
	for (struct stretch *t = w->first; t && !status; t = t->right) {
		for (int64_t i = 0; i < t->objects.size && !status; i++)
			status = s->object(
				s->user, prefix_number, t->objects.names + t->objects.files[i], stk__list_object(&t->objects, i), err);
		for (int64_t i = 0; i < t->folders.size && !status; i++)
			status = s->folder(s->user, prefix_number, t->folders.names + t->folders.files[i], err);
	}
	free_stretches(w);
	return status;
}

static bool is_complete(const struct listed_prefix *w)
{
	bool ended = true;
	for (const struct stretch *t = w->first; t && ended; t = t->right)
		ended = t->ended;
	return ended;
}

static void forget(struct run *r, struct listed_prefix *w)
{
	for (struct stretch *t = w->first; t; t = t->right)
		r->sweep->entries -= t->objects.size + t->folders.size;
	free_stretches(w);
	w->spoilt = false;
}

/* Continues after a page of a stretch: requests the next page, and cuts the stretch if that is possible. When all pages of the prefix have arrived, passes
 * its entries to the caller. A spoilt prefix begins again when its requests have ended. */
static enum stk_status continue_stretch(struct run *r, struct stretch *t, struct stk_error *err)
{
	struct listed_prefix *w = t->listed;
	if (w->spoilt)
		drop_waiting(r, w);
	if (w->spoilt && w->under_way)
		return STK_OK;
	if (w->spoilt) {
		forget(r, w);
		return begin_prefix(r, w, err);
	}
	if (!t->ended)
		return cut(t) ? ask_page(t, err) : no_memory(r, err);
	return !w->under_way && is_complete(w) ? add_to_list(r, w, err) : STK_OK;
}

static void report_progress(struct run *r)
{
	enum { GAP_NS = 100000000 };
	const struct stk_access *access = r->sweep->access;
	const int64_t now = stk__clock_ns();
	if (!access || !access->listed || now - r->listed_ns < GAP_NS)
		return;
	r->listed_ns = now;
	access->listed(access->user, r->sweep->entries);
}

static enum stk_status run_all(struct run *r, struct stk_error *err)
{
	enum stk_status status = begin_more(r, err);
	while (r->under_way) {
		struct stretch *t = wait_page(r);
		struct stk_error why = {0};
		if (!t) {
			status = cancel_run(r, err);
			continue;
		}
		t->requested = false;
		r->under_way--;
		t->listed->under_way--;
		enum stk_status page = take_page(t, &why);
		report_progress(r);
		if (!page && !status)
			page = continue_stretch(r, t, &why);
		if (!page && !status)
			page = begin_more(r, &why);
		if (page && !status) {
			status = page;
			if (err)
				*err = why;
		}
	}
	return status;
}

enum stk_status stk__sweep(struct stk_sweep *s, const char *const *prefixes, int64_t count, struct stk_error *err)
{
	struct run r = {.sweep = s, .count = count, .prefixes = stk__calloc((size_t)count, sizeof *r.prefixes)};
	if (!r.prefixes)
		return no_memory(&r, err);
	for (int64_t i = 0; i < count; i++)
		r.prefixes[i].prefix = prefixes[i];
	stk__requests_init(&r.pages, s->io);
	enum stk_status status = run_all(&r, err);
	for (int64_t i = 0; i < count; i++)
		free_stretches(&r.prefixes[i]);
	stk__free(r.prefixes);
	stk__requests_destroy(&r.pages);
	return status;
}
