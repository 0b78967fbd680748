/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>

struct row {
	char name[32];
	_Atomic size_t written; /* number of spans that were added so far; the log has the last `spans` of them */
	struct stk_trace_span *log;
};

struct stk_trace {
	int32_t n_rows;
	size_t spans;
	struct row rows[];
};

struct stk_trace *stk__trace_create(int32_t rows, size_t spans)
{
	struct stk_trace *t = stk__calloc(1, sizeof *t + (size_t)rows * sizeof *t->rows);
	if (!t)
		return NULL;
	t->spans = spans;
	for (; t->n_rows < rows; t->n_rows++) {
		t->rows[t->n_rows].log = stk__calloc(spans, sizeof(struct stk_trace_span));
		if (!t->rows[t->n_rows].log) {
			stk__trace_destroy(t);
			return NULL;
		}
	}
	return t;
}

void stk__trace_destroy(struct stk_trace *t)
{
	if (!t)
		return;
	for (int32_t i = 0; i < t->n_rows; i++)
		stk__free(t->rows[i].log);
	stk__free(t);
}

void stk__trace_name(struct stk_trace *t, int32_t row, const char *name)
{
	if (t)
		snprintf(t->rows[row].name, sizeof t->rows[row].name, "%s", name);
}

void stk__trace_add(struct stk_trace *t, int32_t row, const struct stk_trace_span *span)
{
	if (!t)
		return;
	struct row *r = &t->rows[row];
	size_t at = atomic_load_explicit(&r->written, memory_order_relaxed);
	r->log[at % t->spans] = *span;
	r->log[at % t->spans].thread = (int16_t)row;
	atomic_store_explicit(&r->written, at + 1, memory_order_release);
}

static size_t kept_of(const struct stk_trace *t, size_t written)
{
	return written < t->spans ? written : t->spans;
}

size_t stk__trace_count(const struct stk_trace *t)
{
	size_t n = 0;
	for (int32_t i = 0; t && i < t->n_rows; i++)
		n += kept_of(t, atomic_load_explicit(&t->rows[i].written, memory_order_acquire));
	return n;
}

size_t stk__trace_read(const struct stk_trace *t, struct stk_trace_span *out, size_t n)
{
	size_t used = 0;
	for (int32_t i = 0; t && i < t->n_rows; i++) {
		size_t written = atomic_load_explicit(&t->rows[i].written, memory_order_acquire), count = kept_of(t, written);
		for (size_t k = written - count; k < written && used < n; k++)
			out[used++] = t->rows[i].log[k % t->spans];
	}
	return used;
}

const char *stk__span_name(enum stk_span_kind kind)
{
	static const char *const names[] = {"read", "read ahead", "chain", "batch", "callback", "wait", "submit", "gpu", "copy", "kernel"};
	return names[kind];
}

/* Writes a JSON field with a time of `ns` nanoseconds, in microseconds. printf's %f would write a comma in the locale of many users. */
static void write_time(FILE *f, const char *name, int64_t ns)
{
	const long long size = ns < 0 ? -ns : ns;
	fprintf(f, ",\"%s\":%s%lld.%03lld", name, ns < 0 ? "-" : "", size / 1000, size % 1000);
}

/* Writes one event for a span. phase: 'X' for an event with a duration; 'b' or 'e' for the beginning or end of a span that overlaps others of its row;
 * `number` pairs the two. */
static void write_event(FILE *f, const struct stk_trace_span *s, char phase, int64_t at_ns, size_t number)
{
	const char *kind = stk__span_name(s->kind);
	if (s->name || s->stage < 0)
		fprintf(f, "{\"name\":\"%s\"", s->name ? s->name : kind);
	else
		fprintf(f, "{\"name\":\"%s %d\"", kind, s->stage);
	fprintf(f, ",\"cat\":\"%s\",\"ph\":\"%c\",\"pid\":1,\"tid\":%d", kind, phase, s->thread);
	write_time(f, "ts", at_ns);
	if (phase == 'X')
		write_time(f, "dur", s->end_ns - s->begin_ns);
	else
		fprintf(f, ",\"id\":%zu", number);
	fprintf(f, ",\"args\":{\"batch\":%lld,\"level\":%d,\"first\":%d,\"count\":%d}}", (long long)s->batch, s->level, s->first, s->count);
}

static void write_span(FILE *f, const struct stk_trace_span *s, size_t number)
{
	if (s->kind != STK_SPAN_READ_AHEAD) {
		write_event(f, s, 'X', s->begin_ns, number);
		return;
	}
	write_event(f, s, 'b', s->begin_ns, number);
	fputs(",\n", f);
	write_event(f, s, 'e', s->end_ns, number);
}

enum stk_status stk__trace_write(const struct stk_trace *t, const char *path, struct stk_error *err)
{
	size_t n = stk__trace_count(t);
	struct stk_trace_span *spans = stk__alloc((n + 1) * sizeof *spans);
	if (!spans)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a trace of %zu spans", n);
	struct stk_new_file file;
	FILE *f = stk__new_file_begin(&file, path, 0666) ? fdopen(fcntl(file.fd, F_DUPFD_CLOEXEC, 0), "w") : NULL;
	if (!f) {
		int e = errno;
		stk__free(spans);
		if (file.fd >= 0 && !stk__new_file_end(&file, false))
			errno = e;
		return stk__fail_errno(err, errno, "the trace can't be written to %s", path);
	}
	n = stk__trace_read(t, spans, n);
	fputs("{\"traceEvents\":[\n", f);
	const char *comma = "";
	for (int32_t i = 0; i < t->n_rows; i++, comma = ",\n")
		fprintf(f, "%s{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", comma, i,
			t->rows[i].name);
	for (size_t i = 0; i < n; i++) {
		fputs(comma, f);
		write_span(f, &spans[i], i);
	}
	fputs("\n]}\n", f);
	stk__free(spans);
	bool bad = fflush(f) != 0 || ferror(f) != 0;
	bad |= fclose(f) != 0;
	return stk__new_file_end(&file, !bad) ? STK_OK : stk__fail_errno(err, errno, "the trace can't be written to %s", path);
}
