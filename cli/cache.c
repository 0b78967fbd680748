/* SPDX-License-Identifier: Apache-2.0
 * stoker cache: lists, verifies, clears and fills a cache of objects. */
#include "command.h"
#include "output.h"
#include "progress.h"
#include "session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct visit {
	struct progress progress;
	int64_t seen;
	/* prints: entries are printed as text, not JSON. removed: the command is `verify`, which deletes damaged entries. */
	bool prints, removed;
	json_t *list;
};

static void put_entry(json_t *list, const struct stk_cache_entry *e)
{
	json_t *o = json_object();
	put_text(o, "uri", e->uri);
	put_int(o, "offset", e->offset);
	put_int(o, "length", e->length);
	put_int(o, "bytes", e->bytes);
	put_int(o, "used", e->used);
	put_bool(o, "damaged", e->damaged);
	json_array_append_new(list, o);
}

static bool visit_entry(void *user, const struct stk_cache_entry *e)
{
	struct visit *v = user;
	if (interrupted())
		return false;
	progress_update(&v->progress, ++v->seen);
	if (v->list) {
		put_entry(v->list, e);
	} else if (v->prints && e->damaged) {
		printf("damaged%s: %s\n", v->removed ? " and removed" : "", *e->uri ? e->uri : "an entry whose header cannot be read");
	} else if (v->prints && !v->removed) {
		char range[64] = "", date[32];
		time_t used = (time_t)e->used;
		struct tm tm;
		if (e->length >= 0)
			snprintf(range, sizeof(range), " bytes %" PRId64 " to %" PRId64, e->offset, e->offset + e->length - 1);
		strftime(date, sizeof(date), "%Y-%m-%d", localtime_r(&used, &tm));
		printf("%12" PRId64 "  %s  %s%s\n", e->bytes, date, e->uri, range);
	}
	return true;
}

static int print_facts(const struct settings *s, const struct stk_cache_facts *f, json_t *list, const char *action)
{
	if (!s->json) {
		if (!strcmp(action, "clear"))
			printf("removed %" PRId64 " %s, %.1f MB; %" PRId64 " %s left\n", f->removed, noun(f->removed, "entry", "entries"),
				(double)f->removed_bytes / 1e6, f->entries, noun(f->entries, "is", "are"));
		else
			printf("%" PRId64 " %s, %.1f MB%s", f->entries, noun(f->entries, "entry", "entries"), (double)f->bytes / 1e6,
				f->damaged ? "; " : "\n");
		if (strcmp(action, "clear") && f->damaged)
			printf("%" PRId64 " %s damaged%s\n", f->damaged, noun(f->damaged, "was", "were"),
				!strcmp(action, "verify") ? ", to be fetched again when needed" : "");
		return EXIT_FINE;
	}
	json_t *o = json_object();
	put_int(o, "entries", f->entries);
	put_int(o, "bytes", f->bytes);
	put_int(o, "damaged", f->damaged);
	put_int(o, "removed", f->removed);
	put_int(o, "removed_bytes", f->removed_bytes);
	if (list)
		json_object_set_new(o, "list", list);
	return print_json(o);
}

static int show_cache(const struct settings *s, const char *action)
{
	const bool lists = !strcmp(action, "list"), verifies = !strcmp(action, "verify");
	struct stk_cache_facts facts = {.size = sizeof(facts)};
	struct stk_error err = {0};
	/* "memory" is not a path: the library chooses the folder in /dev/shm. */
	if (strcmp(s->args[1], "memory") && !source_is_there("cache", s->args[1]))
		return EXIT_PROBLEM;
	struct visit v = {.prints = !s->json, .removed = verifies, .list = lists && s->json ? json_array() : NULL};
	enum stk_status status;
	catch_interrupts();
	progress_begin(&v.progress, "entries", 0, s->quiet || s->json || lists);
	if (lists)
		status = stk_cache_list(s->args[1], visit_entry, &v, &facts, &err);
	else if (verifies)
		status = stk_cache_verify(s->args[1], visit_entry, &v, &facts, &err);
	else
		status = stk_cache_clear(s->args[1], s->arg_count > 2 ? s->args[2] : NULL, &facts, &err);
	progress_end(&v.progress);
	if (status != STK_OK)
		json_decref(v.list);
	if (status != STK_OK)
		return fail("cache", &err);
	if (interrupted())
		fprintf(stderr, "stoker cache: interrupted after %" PRId64 " %s\n", v.seen, noun(v.seen, "entry", "entries"));
	const int printed = print_facts(s, &facts, v.list, action);
	if (interrupted() && printed == EXIT_FINE)
		return EXIT_INTERRUPTED;
	if (printed || strcmp(action, "clear") || s->arg_count > 2 || !facts.entries)
		return printed;
	return fail_text("cache", "%" PRId64 " %s not be removed: may this user write to %s?", facts.entries,
		noun(facts.entries, "entry could", "entries could"), s->args[1]);
}

/* ---- filling a cache: stoker cache warm ---- */

static double counter(struct stk_storage *storage, const char *name)
{
	struct stk_counter all[64];
	size_t n = stk_storage_counters(storage, all, 64);
	for (size_t i = 0; i < n && i < 64; i++) {
		if (!strcmp(all[i].name, name))
			return all[i].value;
	}
	return 0;
}

/* Waits until at most `most` bytes must still be written to the cache. The queue of writes is bounded: if the disk is slower than the network, further
 * entries are dropped instead of written. */
static void wait_for_disk(struct stk_storage *storage, double most)
{
	const struct timespec nap = {.tv_nsec = 2 * 1000 * 1000};
	while (counter(storage, "cache_pending_bytes") > most)
		nanosleep(&nap, NULL);
}

static enum stk_status read_all(struct session *session, const struct settings *s, int64_t *objects, struct stk_error *err)
{
	struct stk_reader_meta meta;
	struct progress progress;
	enum stk_status status = stk_pipeline_reader_meta(session->pipeline, NULL, &meta, err);
	progress_begin(&progress, "objects", status == STK_OK ? meta.epoch_size : 0, s->quiet || s->json);
	while (status == STK_OK) {
		struct stk_batch *batch = NULL;
		wait_for_disk(session->storage, 16e6);
		status = next_batch(session, &batch, err);
		*objects += status == STK_OK ? stk_batch_size(batch) : 0;
		stk_batch_unref(&batch);
		progress_update(&progress, *objects);
	}
	wait_for_disk(session->storage, 0);
	progress_end(&progress);
	return status == STK_END || status == STK_CANCELLED ? STK_OK : status;
}

/* Prints that a source on this host is not copied to a cache. Returns EXIT_PROBLEM. */
static int refuse_local(const char *source)
{
	return fail_text("cache", "warm: %s lies on this host: a cache keeps what comes over a network", source);
}

/* Copies the first object that could not be read, from number *i on, to *e, and sets *i to the number after it. Returns false if all others could be read.
 * The pipeline reads ahead, so its list may also have objects of the next epoch. */
static bool unread_object(const struct session *session, int64_t *i, struct stk_error *e)
{
	while (stk_pipeline_bad_sample(session->pipeline, (*i)++, e)) {
		if (e->epoch <= 0)
			return true;
	}
	return false;
}

static void print_unread(const struct session *session, int64_t failed)
{
	enum { MOST = 10 };
	struct stk_error e;
	int64_t shown = 0;
	printf("%" PRId64 " %s could not be read:\n", failed, noun(failed, "object", "objects"));
	for (int64_t i = 0; shown < MOST && unread_object(session, &i, &e); shown++)
		printf("  %s\n", e.message);
	if (failed > shown)
		printf("  and %" PRId64 " more\n", failed - shown);
}

/* Returns how many of the objects were fetched. objects: number of objects that were read; failed: number of those that could not be read. The pipeline reads
 * ahead, so the storage's counters may include objects of the next epoch, namely those that find no room in the cache or cannot be read. */
static int64_t count_fetched(struct stk_storage *st, int64_t objects, int64_t failed)
{
	const double missed = counter(st, "cache_misses") - (double)failed,
		     read = counter(st, "cache_kept") + counter(st, "cache_left_out");
	return (int64_t)fmin(fmax(fmin(missed, read), 0), (double)objects);
}

/* Prints how many objects were fetched, kept and already in the cache. objects: number of objects that could be read. Returns an exit code: EXIT_PROBLEM if
 * another object could not be read. */
static int print_warmed(const struct session *session, const struct settings *s, int64_t objects)
{
	struct stk_storage *st = session->storage;
	struct stk_error e;
	int64_t failed = 0;
	for (int64_t i = 0; unread_object(session, &i, &e);)
		failed++;
	const int64_t fetched = count_fetched(st, objects, failed), cached = objects - fetched;
	const double left = fmin(counter(st, "cache_left_out"), (double)fetched);
	if (s->json) {
		json_t *o = json_object();
		put_int(o, "fetched", fetched);
		put_int(o, "kept", (int64_t)counter(st, "cache_kept"));
		put_int(o, "kept_bytes", (int64_t)counter(st, "cache_kept_bytes"));
		put_int(o, "there", cached);
		put_int(o, "left_out", (int64_t)left);
		put_int(o, "failed", failed);
		int code = print_json(o);
		return failed ? EXIT_PROBLEM : code;
	}
	printf("%" PRId64 " %s there, %" PRId64 " %s fetched, %.1f MB of them kept; %.1f of %.1f MB are used\n", cached,
		noun(cached, "object was", "objects were"), fetched, noun(fetched, "was", "were"), counter(st, "cache_kept_bytes") / 1e6,
		counter(st, "cache_bytes") / 1e6, counter(st, "cache_limit") / 1e6);
	if (left > 0)
		printf("%.0f found no room: raise --cache-limit, or make room with stoker cache clear\n", left);
	if (failed)
		print_unread(session, failed);
	return failed ? EXIT_PROBLEM : EXIT_FINE;
}

static int warm(const struct settings *s)
{
	struct session session;
	struct stk_error err = {0};
	int code = EXIT_PROBLEM;
	if (!s->cache)
		return usage_error(&command_cache, "warm: --cache DIR is missing: where the objects are kept");
	struct stat st;
	if (stat(s->args[1], &st) == 0 && S_ISDIR(st.st_mode))
		return refuse_local(s->args[1]);
	if (open_session(&session, "cache", s->args[1], GRAPH_BYTES, s)) {
		int64_t objects = 0;
		enum stk_status status = read_all(&session, s, &objects, &err);
		const bool local = counter(session.storage, "cache_hits") + counter(session.storage, "cache_misses") == 0;
		code = status != STK_OK   ? fail("cache", &err)
		       : objects && local ? refuse_local(s->args[1])
					  : print_warmed(&session, s, objects);
		if (interrupted()) {
			fprintf(stderr, "stoker cache: interrupted: start the command again to continue\n");
			code = code == EXIT_FINE ? EXIT_INTERRUPTED : code;
		}
	}
	close_session(&session);
	return code;
}

static int run_cache(const struct settings *s)
{
	const char *action = s->args[0];
	if (!strcmp(action, "warm") && s->arg_count == 2)
		return warm(s);
	const bool known = !strcmp(action, "list") || !strcmp(action, "verify") || !strcmp(action, "clear");
	if (known && s->arg_count >= 2 && (s->arg_count == 2 || !strcmp(action, "clear")))
		return show_cache(s, action);
	return usage_error(&command_cache, "it is list DIR, verify DIR, clear DIR [PREFIX] or warm URI|INDEX|LIST --cache DIR");
}

static const struct option options[] = {OPTION_STORAGE, OPTION_QUIET, OPTION_JSON, {0}};

const struct command command_cache = {
	.name = "cache",
	.summary = "lists, checks, fills and empties a cache of objects",
	.usage = "list DIR | verify DIR | clear DIR [PREFIX] | warm URI|INDEX|LIST --cache DIR",
	.details = "list    prints the objects, with their bytes and the day of their last use\n"
		   "verify  reads them all, and removes those whose bytes are not what was written\n"
		   "clear   removes those whose URI begins with PREFIX, or all; nothing but a cache's own files is touched\n"
		   "warm    reads the objects of a folder of a bucket, an index or a list (a text file: a URI a line, or a URI and "
		   "a label) into the cache, so that training finds them there",
	.example = "stoker cache warm s3://bucket/train --cache /nvme/stoker --cache-limit 200GB",
	.options = options,
	.arg = "what to do (list, verify, clear or warm), or the DIR or URI of it,",
	.min_args = 2,
	.max_args = 3,
	.run = run_cache,
};
