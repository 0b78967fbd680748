/* SPDX-License-Identifier: Apache-2.0
 *
 * Records spans: which thread did which work for which batch, and when. Each thread writes to its own log, so that recording costs two clock reads. The logs
 * are read after the work. */
#ifndef STK_TRACE_TRACE_H
#define STK_TRACE_TRACE_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

enum stk_span_kind {
	STK_SPAN_READ,
	STK_SPAN_READ_AHEAD, /* the only kind whose spans overlap */
	STK_SPAN_CHAIN,
	STK_SPAN_BATCH,
	STK_SPAN_CALLBACK,
	STK_SPAN_WAIT,
	STK_SPAN_SUBMIT,
	STK_SPAN_GPU,
	STK_SPAN_COPY,
	STK_SPAN_KERNEL,
};

struct stk_trace_span {
	const char *name; /* name to show, a constant string; NULL: the span is shown by its kind and stage */
	int64_t batch, begin_ns, end_ns;
	int32_t first, count; /* samples of the batch: number of the first one, and how many */
	int16_t level,
		stage; /* level: number of the level (graph/program.h) that the work belongs to; stage: number of the chain in it, or of a gather's node; -1: none */
	int16_t thread;
	uint8_t kind;
};

struct stk_trace; /* NULL: tracing is off; stk__trace_write needs a trace, the other functions below do nothing */

/* Creates a trace. `rows` is the number of threads that record spans. `spans` is the maximum number of spans in each row, after which new spans replace the
 * oldest. NULL: memory is short. */
struct stk_trace *stk__trace_create(int32_t rows, size_t spans);
void stk__trace_destroy(struct stk_trace *t);

/* Names a row, with up to 31 characters. Call it before a span is added to the row. */
void stk__trace_name(struct stk_trace *t, int32_t row, const char *name);

/* Adds a span to a row. Only one thread at a time may add to a row. */
void stk__trace_add(struct stk_trace *t, int32_t row, const struct stk_trace_span *span);

size_t stk__trace_count(const struct stk_trace *t); /* returns the number of spans in all rows */
/* Copies at most n spans, row by row, and returns their number. While threads still record, the newest spans may be missing, and the oldest may be
 * overwritten while they are copied. */
size_t stk__trace_read(const struct stk_trace *t, struct stk_trace_span *out, size_t n);

const char *stk__span_name(enum stk_span_kind kind);

/* Writes the spans as a file in Chrome's trace format (chrome://tracing, Perfetto). */
STK_MUST_USE enum stk_status stk__trace_write(const struct stk_trace *t, const char *path, struct stk_error *err);

#endif
