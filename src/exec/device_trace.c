/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the GPU's copies and kernels for a batch to the trace, on the host's clock. */
#include "exec/device.h"

#include "base/clock.h"

void stk__device_mark(struct stk_pipeline *p, struct stk_device_batch *b, enum stk_span_kind kind, const char *name)
{
	struct stk_device_marks *m = &b->traced_events;
	if (!p->trace)
		return;
	if (m->count == m->capacity) {
		int32_t capacity = m->capacity ? 2 * m->capacity : 8;
		struct stk_device_mark *more = stk__realloc(m->events, (size_t)capacity * sizeof *more);
		if (!more)
			return;
		for (int32_t i = m->capacity; i < capacity; i++)
			more[i] = (struct stk_device_mark){0};
		m->events = more;
		m->capacity = capacity;
	}
	struct stk_device_mark *k = &m->events[m->count];
	k->kind = kind;
	k->name = name;
	if ((k->event || !stk__gpu_event_create(p->parts.device->dev, true, &k->event, NULL)) &&
		!stk__gpu_event_record(p->parts.device->dev, k->event, b->steps_stream, NULL))
		m->count++;
}

/* Relates the GPU's clock to the host's. Differences between events are floats in milliseconds, which are exact to a microsecond only over a few seconds,
 * so the relation is measured again each second. The host notices the event a little late, and much too late if other programs share the GPU; then the
 * measurement is repeated, up to TRIES times. Returns false if the GPU reports an error. */
static bool set_clock(struct stk_gpu_device *dev, struct stk_device_clock *c)
{
	enum { SECOND_NS = 1000000000, SOON_NS = 100000, TRIES = 4 };
	if (c->at_ns && stk__clock_ns() - c->at_ns < SECOND_NS)
		return true;
	if ((!c->stream && stk__gpu_stream_create(dev, STK_GPU_LOW, &c->stream, NULL)) ||
		(!c->event && stk__gpu_event_create(dev, true, &c->event, NULL)))
		return false;
	int64_t begin, end = 0;
	for (int i = 0; i < TRIES; i++) {
		begin = stk__clock_ns();
		if (stk__gpu_event_record(dev, c->event, c->stream, NULL) || stk__gpu_event_sync(dev, c->event, NULL))
			return false;
		end = stk__clock_ns();
		if (end - begin < SOON_NS)
			break;
	}
	c->at_ns = end;
	return true;
}

static bool time_of(const struct stk_device_stage *d, stk_gpu_event event, int64_t *ns)
{
	float milliseconds;
	if (!event || stk__gpu_event_elapsed(d->dev, d->clock.event, event, &milliseconds, NULL))
		return false;
	*ns = d->clock.at_ns + (int64_t)((double)milliseconds * 1e6);
	return true;
}

static void add(const struct stk_pipeline *p, const struct stk_device_batch *b, int32_t row, enum stk_span_kind kind, const char *name,
	int64_t begin_ns, int64_t end_ns)
{
	stk__trace_row(p, row,
		&(struct stk_trace_span){.name = name,
			.kind = (uint8_t)kind,
			.batch = b->current.k,
			.count = b->record->count,
			.level = (int16_t)b->record->level,
			.stage = -1,
			.begin_ns = begin_ns,
			.end_ns = end_ns});
}

/* Adds the spans of a group of files that were decoded together: their copy, and their kernels one after the other. */
static void trace_part(const struct stk_pipeline *p, const struct stk_device_batch *b, int part)
{
	struct stk_jpeg_gpu_times times;
	int64_t at;
	if (stk__jpeg_gpu_times(b->decodes.jpeg, part, &times, NULL) || !time_of(p->parts.device, times.begin, &at))
		return;
	for (int i = 0; i < STK_JPEG_GPU_TIMES; i++) {
		int64_t end = at + (int64_t)((double)times.milliseconds[i] * 1e6);
		add(p, b, STK_ROW_DECODER_STREAMS + times.stream, i ? STK_SPAN_KERNEL : STK_SPAN_COPY, stk__jpeg_gpu_time_name(i), at, end);
		at = end;
	}
}

void stk__device_trace(struct stk_pipeline *p, struct stk_device_batch *b)
{
	const struct stk_device_marks *m = &b->traced_events;
	if (!p->trace || !set_clock(p->parts.device->dev, &p->parts.device->clock))
		return;
	for (int part = 0; b->decodes.n && part < stk__jpeg_gpu_parts(b->decodes.jpeg); part++)
		trace_part(p, b, part);
	for (int32_t i = 1; i < m->count; i++) {
		const struct stk_device_mark *k = &m->events[i];
		int64_t begin, end;
		if (k->name && time_of(p->parts.device, m->events[i - 1].event, &begin) && time_of(p->parts.device, k->event, &end))
			add(p, b, STK_ROW_STEPS, k->kind, k->name, begin, end);
	}
}

void stk__device_trace_free(struct stk_gpu_device *dev, struct stk_device_marks *marks)
{
	for (int32_t i = 0; i < marks->capacity; i++)
		stk__gpu_event_destroy(dev, marks->events[i].event);
	stk__free(marks->events);
	*marks = (struct stk_device_marks){0};
}

void stk__device_clock_free(struct stk_gpu_device *dev, struct stk_device_clock *clock)
{
	stk__gpu_event_destroy(dev, clock->event);
	stk__gpu_stream_destroy(dev, clock->stream);
	*clock = (struct stk_device_clock){0};
}
