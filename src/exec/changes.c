/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes the changes in a list of files since a state was saved. A state is too small for names, so it has a digest for each of 32 equally long runs
 * of files. The first run whose digest differs contains the first change; the message names files of the present list near that change. */
#include "exec/exec.h"

#include <stdio.h>
#include <string.h>

enum { HEX = STK_STATE_RUN_DIGITS / STK_STATE_RUNS }; /* number of hexadecimal digits for each run */

/* Digests of one reader's runs of files, for states. */
struct stk_digests {
	uint32_t runs[STK_STATE_RUNS];
};

void stk__changes_free(struct stk_pipeline *p)
{
	stk__free(p->parts.digests);
	p->parts.digests = NULL;
}

static const struct stk_reader_def *reader_of(const struct stk_pipeline *p, const void **shared)
{
	const struct stk_program_node *n = p->program->reader < 0 ? NULL : &p->program->nodes[p->program->reader];
	*shared = n ? n->shared : NULL;
	return n && n->def->reader->digest ? n->def->reader : NULL;
}

/* Returns the index of the first file of run j, if n files are divided into STK_STATE_RUNS runs of about equal length. */
static int64_t run_begin(int64_t n, int j)
{
	return n / STK_STATE_RUNS * j + n % STK_STATE_RUNS * j / STK_STATE_RUNS;
}

/* Returns the digest of run j of the present list. n: number of files when the state was saved, from which the limits of the run follow. Files that the present
 * list does not have any more are left out. */
static uint32_t digest_of(const struct stk_reader_def *reader, const void *shared, int64_t n, int j)
{
	int64_t size_now = reader->size(shared), begin = run_begin(n, j), end = run_begin(n, j + 1);
	begin = begin < size_now ? begin : size_now;
	end = end < size_now ? end : size_now;
	return (uint32_t)reader->digest(shared, begin, end - begin);
}

void stk__changes_save(struct stk_pipeline *p, struct stk_text *t)
{
	const void *shared;
	const struct stk_reader_def *reader = reader_of(p, &shared);
	if (!reader)
		return;
	int64_t n = reader->size(shared);
	struct stk_digests *d = p->parts.digests;
	if (!d && (d = p->parts.digests = stk__calloc(1, sizeof *d)))
		for (int j = 0; j < STK_STATE_RUNS; j++)
			d->runs[j] = digest_of(reader, shared, n, j);
	if (!d) {
		t->failed = true;
		return;
	}
	stk__text_add(t, ", \"files\": %lld, \"runs\": \"", (long long)n);
	for (int j = 0; j < STK_STATE_RUNS; j++)
		stk__text_add(t, "%0*x", HEX, (unsigned)d->runs[j]);
	stk__text_add(t, "\"");
}

/* Returns the first run whose digest differs from `runs`, the saved digests in hexadecimal, or STK_STATE_RUNS if no run differs. n: number of files when
 * the state was saved. */
static int first_change(const struct stk_reader_def *reader, const void *shared, int64_t n, const char *runs)
{
	for (int j = 0; j < STK_STATE_RUNS; j++) {
		char hex[HEX + 1];
		snprintf(hex, sizeof hex, "%0*x", HEX, (unsigned)digest_of(reader, shared, n, j));
		if (strncmp(hex, runs + (size_t)j * HEX, HEX) != 0)
			return j;
	}
	return STK_STATE_RUNS;
}

static const char *name_of(const struct stk_reader_def *reader, const void *shared, int64_t i, char name[STK_MAX_URI])
{
	name[0] = '\0';
	if (reader->uri)
		reader->uri(shared, i, name, STK_MAX_URI);
	return name;
}

/* Appends to a message where the list of files changed first. Only run j is known to differ, so this names the last file before that run, and the last file
 * in it. was: number of files when the state was saved. */
static void add_place(struct stk_text *t, const struct stk_reader_def *reader, const void *shared, int64_t was, int j)
{
	char name[STK_MAX_URI];
	int64_t size_now = reader->size(shared), begin = j < STK_STATE_RUNS ? run_begin(was, j) : was;
	int64_t end = j < STK_STATE_RUNS ? run_begin(was, j + 1) : was + 1;
	begin = begin < size_now ? begin : size_now;
	if (begin > 0)
		stk__text_add(t, "; the first %lld are the same, up to %.300s", (long long)begin, name_of(reader, shared, begin - 1, name));
	if (begin == size_now)
		stk__text_add(t, "; the files after it are missing");
	else if (begin < end && end <= size_now) /* an empty run cannot differ; if it seems to, the saved digest is damaged */
		stk__text_add(t, "; the first change is at %.300s%s", name_of(reader, shared, end - 1, name),
			end - begin > 1 ? " or before it" : "");
}

enum stk_status stk__changes_describe(const struct stk_pipeline *p, int64_t was, const char *runs, struct stk_error *err)
{
	const void *shared;
	const struct stk_reader_def *reader = reader_of(p, &shared);
	if (!reader || !runs || was < 1)
		return STK_OK;
	int j = first_change(reader, shared, was, runs);
	if (j == STK_STATE_RUNS &&
		was == reader->size(shared)) /* the files are the same; for example, an empty class folder was added or removed */
		return STK_OK;
	struct stk_text t = {0};
	long long size_now = (long long)reader->size(shared), gone = (long long)was - size_now, count = gone < 0 ? -gone : gone;
	if (gone)
		stk__text_add(&t, "%lld file%s %s than when the state was saved (%lld, now %lld)", count, count == 1 ? "" : "s",
			gone > 0 ? "fewer" : "more", (long long)was, size_now);
	else
		stk__text_add(&t, "as many files as when the state was saved (%lld), but not the same ones", size_now);
	add_place(&t, reader, shared, was, j);
	enum stk_status s =
		stk__fail(err, STK_STATE, "the data set has changed: %s" STK_STATE_WAY_OUT, t.failed ? "out of memory to say how" : t.s);
	stk__free(t.s);
	return s;
}
