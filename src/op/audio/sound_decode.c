/* SPDX-License-Identifier: Apache-2.0 */
#include "op/audio/sound_decode.h"

#include "op/nd.h"

#include <math.h>
#include <string.h>

void stk__sound_shared_clear(struct stk_sound_shared *shared)
{
	stk__audio_tables_clear(&shared->tables);
	stk__sound_library_destroy(atomic_load(&shared->library));
}

/* Sets *out to the library that decodes sound files, which the first call loads. */
static enum stk_status take_library(struct stk_sound_shared *shared, struct stk_sound_library **out, struct stk_error *err)
{
	struct stk_sound_library *none = NULL;
	*out = atomic_load(&shared->library);
	if (*out)
		return STK_OK;
	enum stk_status s = stk__sound_library_create(out, err);
	if (!s && !atomic_compare_exchange_strong(&shared->library, &none, *out)) { /* another thread has stored its library first */
		stk__sound_library_destroy(*out);
		*out = none;
	}
	return s;
}

/* ---- the window ---- */

static double frames_of(double seconds, const struct stk_sound_want *want, int32_t rate)
{
	return want->nearest ? round(seconds * rate) : floor(seconds * rate);
}

static enum stk_status refuse_start(const struct stk_sound_want *want, double end, struct stk_error *err)
{
	return stk__fail(err, STK_INVALID, "the window begins at %g s; the file ends at %g s", want->start, end);
}

/* Finds which frames to decode for a window that is given in the file's timestamps. Parts of the window in which the file has no sound become silence.
 * STK_INVALID: the window is not valid. */
static enum stk_status find_timed(const struct stk_sound_want *want, int64_t frames, struct stk_sound_state *state, struct stk_error *err)
{
	const double rate = state->info.rate, all = frames < 0 ? 0x1p50 : (double)frames;
	const double first = round((want->window[0] - state->info.origin) * rate),
		     end = round((want->window[1] - state->info.origin) * rate);
	const double count = want->duration >= 0 ? round(want->duration * rate) : end - first;
	if (!(fabs(first) < 0x1p50) || !(count >= 0) || !(count <= STK_JOB_MOST))
		return stk__fail(err, STK_INVALID,
			"the window from %g s to %g s is not valid: it must not end before it begins, and holds at most 2^31 - 1 samples",
			want->window[0], want->window[1]);
	const double lead = first < 0 ? (-first < count ? -first : count) : 0, from = first < 0 ? 0 : first < all ? first : all;
	const double take = count - lead < all - from ? count - lead : all - from;
	state->first = (int64_t)from;
	state->count = (int64_t)take;
	state->lead = (int64_t)lead;
	state->tail = (int64_t)(count - lead - take);
	return STK_OK;
}

/* Finds which frames to decode: sets state->first, count, lead and tail. A window that is not given in timestamps is cut at the end of the file. frames: number
 * of frames in the file; -1: not known, so that the window may end after the file. STK_INVALID: the window begins after the end of the file, or its timestamps
 * are not valid. */
static enum stk_status find_window(const struct stk_sound_want *want, int64_t frames, struct stk_sound_state *state, struct stk_error *err)
{
	const int32_t rate = state->info.rate;
	state->lead = state->tail = 0;
	if (want->window)
		return find_timed(want, frames, state, err);
	double all = frames < 0 ? 0x1p50 : (double)frames, count = want->duration >= 0 ? frames_of(want->duration, want, rate) : -1;
	double first = want->start > 0 ? frames_of(want->start, want, rate) : 0;
	if (want->position >= 0)
		first = count < all ? floor(want->position * (all - count + 1)) : 0;
	/* Position 1 would be one frame after the last possible start. */
	first = want->position >= 0 && first > all - count && count < all ? all - count : first;
	if (first > all)
		return refuse_start(want, all / rate, err);
	state->first = (int64_t)first;
	state->count = (int64_t)(count >= 0 && count < all - first ? count : all - first);
	return STK_OK;
}

enum stk_status stk__sound_find_frames(const struct stk_sound_want *want, struct stk_sound_state *state, struct stk_error *err)
{
	return find_window(want, state->info.frames, state, err);
}

/* Sets state->frames, the number of output frames: the frames of the window after resampling. If the output is padded, or if the window has timestamps and
 * a duration, the number follows from want->duration instead. STK_LIMIT: it exceeds STK_JOB_MOST. */
static enum stk_status count_output(const struct stk_sound_want *want, struct stk_sound_state *state, struct stk_error *err)
{
	const double rate = (double)stk__sound_rate(want, state);
	const int64_t window = state->lead + state->count + state->tail;
	double frames = (double)window;
	if (state->resampled)
		frames = stk__resampling_length(&(struct stk_resampling){.in = state->info.rate, .out = rate}, window);
	if (want->pad || (want->window && want->duration >= 0))
		frames = round(want->duration * rate);
	if (frames > STK_JOB_MOST)
		return stk__fail(err, STK_LIMIT, "a sound of %.0f samples is too long; at most %d are possible", frames, STK_JOB_MOST);
	state->frames = (int64_t)frames;
	return STK_OK;
}

/* Returns STK_LIMIT if resampling would multiply the number of samples by more than MOST_TIMES: a damaged header may state a rate of 1 Hz, and the
 * output of a small file would then take gigabytes. */
static enum stk_status check_rate(const struct stk_sound_want *want, const struct stk_sound_state *state, struct stk_error *err)
{
	enum { MOST_TIMES = 256 };
	if (want->rate <= (float)state->info.rate * MOST_TIMES)
		return STK_OK;
	return stk__fail(err, STK_LIMIT,
		"the file's header says %d Hz, and resampling to %g Hz would make more than %d samples of each: the header is damaged, or the output's rate is "
		"wrong",
		state->info.rate, (double)want->rate, MOST_TIMES);
}

/* ---- decoding ---- */

/* Returns the type to which samples are decoded: float32 if they will be resampled, as in DALI; otherwise the output's type. */
static enum stk_dtype decoded_type(const struct stk_sound_want *want, const struct stk_sound_state *state)
{
	return state->resampled ? STK_FLOAT : (enum stk_dtype)want->dtype;
}

static size_t frame_size(const struct stk_sound_want *want, const struct stk_sound_state *state)
{
	return (size_t)(want->mono ? 1 : state->info.channels) * stk_dtype_size(decoded_type(want, state));
}

/* Maximum number of bytes kept while a file is decoded to find its length. The window of a longer file is decoded again. */
enum { MOST_KEPT = 256 << 20 };

/* A buffer of decoded samples, which grows while `collect` adds to it, since their number is not known beforehand: a window may be far longer than the file. */
struct collected {
	const struct stk_sound_want *want;
	const struct stk_sound_state *state;
	struct stk_arena *arena;
	int64_t wanted;   /* the number of frames that are wanted; INT64_MAX: all */
	int64_t expected; /* an estimate of the number of frames from the first wanted one to the file's end; -1: unknown */
	uint8_t *data;
	int64_t frames, capacity;
	size_t most; /* maximum number of bytes to store; further frames are only counted; 0: no limit */
};

enum { LEAST_CAPACITY = 1 << 15 };

/* Returns the number of frames for which memory is taken first. If it is too small, the frames are copied to more memory, and both count towards the limit
 * for a sample, so the number is that of all frames if there is room. The duration that a file states may be far too long: then most of the memory must stay
 * free. */
static int64_t first_capacity(const struct collected *c)
{
	enum { MARGIN = 4096 }; /* MARGIN: AAC files have some more frames than they state */
	const size_t size = frame_size(c->want, c->state), allowed = stk__arena_left(c->arena), top = (size_t)1 << 32;
	const size_t left = allowed < top ? allowed : top;
	const int64_t most = c->expected < 0 ? INT64_MAX : c->expected + MARGIN, n = c->wanted < most ? c->wanted : most;
	const bool sure = c->wanted <= c->expected;
	if ((uint64_t)n <= (sure ? left : left - left / 8) / size)
		return n;
	const int64_t share = (int64_t)(left / 4 / size);
	return c->expected < 0 || share < LEAST_CAPACITY ? LEAST_CAPACITY : share;
}

static enum stk_status collect(void *user, const uint8_t *samples, int64_t frames, struct stk_error *err)
{
	struct collected *c = user;
	const size_t size = frame_size(c->want, c->state);
	if (c->most && (size_t)(c->frames + frames) * size > c->most) {
		c->frames += frames;
		return STK_OK;
	}
	if (c->frames + frames > c->capacity) {
		int64_t capacity = c->capacity ? 2 * c->capacity : first_capacity(c);
		capacity = capacity < c->wanted ? capacity : c->wanted;
		capacity = capacity > c->frames + frames ? capacity : c->frames + frames;
		if (c->most && (size_t)capacity * size > c->most)
			capacity = (int64_t)(c->most / size);
		uint8_t *data = stk__arena_take(c->arena, (size_t)capacity * size);
		if (!data)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld frames of a sound", (long long)capacity);
		if (c->frames)
			memcpy(data, c->data, (size_t)c->frames * size);
		c->data = data;
		c->capacity = capacity;
	}
	stk__pcm_convert(c->state->info.pcm, samples, frames, c->state->info.channels, c->want->mono, decoded_type(c->want, c->state),
		c->data + (size_t)c->frames * size);
	c->frames += frames;
	return STK_OK;
}

/* Stops counting memory that was taken for more frames than there are, and that was never written, towards the limit for a sample. */
static void discharge_rest(struct collected *c)
{
	if (c->capacity - c->frames > LEAST_CAPACITY) /* smaller takes may not have been counted */
		stk__arena_discharge(c->arena, (size_t)(c->capacity - c->frames) * frame_size(c->want, c->state));
}

/* Decodes the window of an open stream to the worker's scratch memory, to which state->decoded then points. Sets the numbers of frames in *state to what
 * the file really has. */
static enum stk_status decode_stream(const struct stk_call *call, struct stk_sound_stream *stream, const struct stk_sound_want *want,
	struct stk_sound_state *state, struct stk_error *err)
{
	struct collected c = {
		.want = want, .state = state, .arena = call->tools->arena, .wanted = INT64_MAX, .expected = state->info.expected};
	const struct stk_cancel *cancel = call->tools->cancel;
	enum stk_status s;
	state->resampled = want->rate > 0 && want->rate != (float)state->info.rate;
	if (want->position >= 0 && (s = stk__stream_count(stream, cancel, &state->info.frames, err)))
		return s;
	if (want->position >= 0 && state->info.frames < 0) { /* where the window begins depends on the file's length */
		const size_t size = frame_size(want, state);
		const int64_t expected = state->info.expected;
		c.most = expected > 0 && (uint64_t)expected * size > MOST_KEPT ? 1 : MOST_KEPT;
		if ((s = stk__stream_decode(stream, 0, -1, collect, &c, cancel, err)) || (s = find_window(want, c.frames, state, err)))
			return s;
		if ((size_t)c.frames * size <= c.most) {
			discharge_rest(&c);
			state->decoded = c.data + (size_t)state->first * size;
			return STK_OK;
		}
		c = (struct collected){
			.want = want, .state = state, .arena = call->tools->arena, .wanted = state->count, .expected = state->count};
		s = stk__stream_decode(stream, state->first, state->count, collect, &c, cancel, err);
		state->decoded = c.data;
		state->count = c.frames;
		return s;
	}
	if ((s = find_window(want, state->info.frames, state, err)))
		return s;
	const bool all = state->count >= (int64_t)1 << 40;
	c.wanted = all ? INT64_MAX : state->count;
	if (c.expected >= 0)
		c.expected = c.expected > state->first ? c.expected - state->first : 0;
	if ((s = stk__stream_decode(stream, state->first, all ? -1 : state->count, collect, &c, cancel, err)))
		return s;
	if (c.frames == 0 && state->first > 0 && state->count > 0 && !want->window)
		return stk__fail(err, STK_INVALID, "the window begins at %g s, after the end of the file", want->start);
	discharge_rest(&c);
	state->decoded = c.data;
	if (want->window)
		state->tail += state->count - c.frames;
	state->count = c.frames;
	return STK_OK;
}

static enum stk_status infer_stream(const struct stk_call *call, struct stk_sound_shared *shared, const struct stk_sound_want *want,
	const struct stk_sound_bytes *bytes, struct stk_sound_state *state, struct stk_error *err)
{
	struct stk_sound_library *library;
	struct stk_sound_stream *stream;
	enum stk_status s = take_library(shared, &library, err);
	if (s || (s = stk__stream_open(library, bytes, call->tools->lenient, &stream, &state->info, err)))
		return s;
	s = check_rate(want, state, err);
	s = s ? s : decode_stream(call, stream, want, state, err);
	stk__stream_close(stream);
	return s;
}

/* ---- the functions ---- */

enum stk_status stk__sound_infer(const struct stk_call *call, struct stk_sound_shared *shared, const struct stk_sound_want *want,
	const struct stk_sound_bytes *bytes, struct stk_sound_state *state, struct stk_desc *out, struct stk_error *err)
{
	if (want->dtype != STK_FLOAT && want->dtype != STK_INT16 && want->dtype != STK_INT32)
		return stk__fail(err, STK_INVALID, "dtype is FLOAT, INT16 or INT32; cast the samples to other types");
	*out = (struct stk_desc){(enum stk_dtype)want->dtype, want->mono ? 1 : 2, {-1, -1}, ""};
	if (!bytes)
		return STK_OK;
	enum stk_status s = stk__sound_peek(bytes, call->tools->lenient, &state->info, err);
	if (s == STK_UNSUPPORTED) {
		s = infer_stream(call, shared, want, bytes, state, err);
	} else if (!s && !(s = check_rate(want, state, err))) {
		state->resampled = want->rate > 0 && want->rate != (float)state->info.rate;
		s = find_window(want, state->info.frames, state, err);
	}
	if (s || (s = count_output(want, state, err)))
		return s;
	out->shape[0] = state->frames;
	if (!want->mono)
		out->shape[1] = state->info.channels;
	return STK_OK;
}

/* Resamples the window's decoded samples to the beginning of the output. *n_frames: number of frames written, at most state->frames; the caller fills the rest.
 * */
static enum stk_status resample(const struct stk_call *call, struct stk_sound_shared *shared, const struct stk_sound_want *want,
	const struct stk_sound_state *state, const void *decoded, const struct stk_tensor *out, int64_t *n_frames, struct stk_error *err)
{
	const struct stk_resampling r = {.in = state->info.rate,
		.out = (double)want->rate,
		.lobes = stk__resampling_lobes(want->quality),
		.low_pass = want->low_pass};
	const int64_t count = state->lead + state->count + state->tail;
	const double length = stk__resampling_length(&r, count);
	struct stk_tensor in = {.desc = out->desc, .data = (void *)(uintptr_t)decoded}, part = *out;
	*n_frames = length < (double)state->frames ? (int64_t)length : state->frames;
	in.desc.dtype = STK_FLOAT;
	in.desc.shape[0] = count;
	part.desc.shape[0] = *n_frames;
	if (*n_frames == 0)
		return STK_OK;
	return stk__resampling_job(&r, &shared->tables, call->tools->arena, &call->tools->cpu_jobs, &in, &part, err);
}

/* Decodes the first `n_frames` frames of the window to `to`. */
static enum stk_status decode_window(const struct stk_call *call, const struct stk_sound_want *want, const struct stk_sound_bytes *bytes,
	const struct stk_sound_state *state, int64_t n_frames, void *to, struct stk_error *err)
{
	const struct stk_sound_window window = {.first = state->first,
		.count = n_frames,
		.dtype = decoded_type(want, state),
		.mono = want->mono,
		.to = to,
		.cancel = call->tools->cancel,
		.cpu = call->tools->cpu_jobs.cpu,
		.lenient = call->tools->lenient};
	return stk__sound_read(bytes, &state->info, &window, err);
}

enum stk_status stk__sound_run(const struct stk_call *call, struct stk_sound_shared *shared, const struct stk_sound_want *want,
	const struct stk_sound_bytes *bytes, const struct stk_sound_state *state, const struct stk_tensor *out, struct stk_error *err)
{
	const size_t frame = frame_size(want, state),
		     out_frame = (size_t)(want->mono ? 1 : state->info.channels) * stk_dtype_size(out->desc.dtype);
	const int64_t window = state->lead + state->count + state->tail;
	const bool silent = state->lead || state->tail, needs_scratch = state->resampled || (silent && window > state->frames);
	const void *decoded = state->decoded;
	int64_t n_frames = window < state->frames ? window : state->frames;
	uint8_t *to = out->data;
	enum stk_status s = STK_OK;
	if ((needs_scratch && (!decoded || silent)) && !(to = stk__arena_take(call->tools->arena, (size_t)window * frame + 1)))
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld frames of a sound", (long long)window);
	if (silent) {
		memset(to, 0, (size_t)state->lead * frame);
		memset(to + (size_t)(state->lead + state->count) * frame, 0, (size_t)state->tail * frame);
	}
	if (!decoded && state->count) {
		const int64_t wanted = needs_scratch || silent ? state->count : n_frames;
		s = decode_window(call, want, bytes, state, wanted, to + (size_t)state->lead * frame, err);
		decoded = to;
	} else if (silent) {
		if (state->count)
			memcpy(to + (size_t)state->lead * frame, decoded, (size_t)state->count * frame);
		decoded = to;
	}
	if (s || (state->resampled && (s = resample(call, shared, want, state, decoded, out, &n_frames, err))))
		return s;
	if (!state->resampled && n_frames && decoded != out->data)
		memcpy(out->data, decoded, (size_t)n_frames * frame);
	memset((uint8_t *)out->data + (size_t)n_frames * out_frame, 0, (size_t)(state->frames - n_frames) * out_frame);
	return STK_OK;
}
