/* SPDX-License-Identifier: Apache-2.0
 * Sends a few small requests to a store, and reports how it answers. */
#include "format/s3_page.h"
#include "http/s3.h"
#include "io/wait.h"
#include "storage/storage.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUESTIONS = 5 };

/* Reads the first `length` bytes of an object (-1: all), not from the cache. Returns the time that this took in milliseconds. *status: set to the request's
 * status; STK_OK also for an object without bytes. answer: filled with the ended request, whose buffer the caller must release; may be NULL. */
static double ask(
	struct stk_io *io, const char *uri, int64_t length, struct stk_request *answer, enum stk_status *status, struct stk_error *err)
{
	struct stk_request r = {.uri = uri, .length = length, .uncached = true, .error = err};
	int64_t begin = stk__clock_ns();
	stk__io_wait(io, &r, NULL);
	*status = r.status == STK_CORRUPT ? STK_OK : r.status;
	if (answer)
		*answer = r;
	else
		stk__buffer_release(r.buffer);
	return (double)(stk__clock_ns() - begin) / 1e6;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* If the message begins with `name`, replaces it by `uri`, the name that the user gave. */
static void name_again(struct stk_error *err, const char *name, const char *uri)
{
	char text[sizeof err->message];
	size_t n = strlen(name);
	if (!err || strncmp(err->message, name, n) != 0)
		return;
	memcpy(text, err->message, sizeof text);
	snprintf(err->message, sizeof err->message, "%.300s%s", uri, text + n);
	snprintf(err->uri, sizeof err->uri, "%s", uri);
}

/* ---- the objects of a bucket ---- */

static enum stk_status take_first(void *user, const char *key, struct stk_list_object object, struct stk_error *err)
{
	struct stk_text *first = user;
	(void)object, (void)err;
	if (!first->length)
		stk__text_add(first, "%s", key);
	return STK_OK;
}

static enum stk_status pass_by(void *user, const char *prefix, struct stk_error *err)
{
	(void)user, (void)prefix, (void)err;
	return STK_OK;
}

/* Reads the first byte of the first object in a listing, since a key may allow listing but not reading. *found: set to whether there is an object. */
static enum stk_status ask_first(
	struct stk_io *io, const char *list, const char *bucket, const struct stk_request *answer, bool *found, struct stk_error *err)
{
	struct stk_text key = {0}, uri = {0}, token = {0};
	const struct stk_s3_visitor visitor = {&key, take_first, pass_by};
	enum stk_status status = stk__s3_page_parse((const char *)answer->data, answer->size, list, &visitor, &token, err);
	*found = !status && key.length > 0;
	if (*found)
		stk__text_add(&uri, "%.2s://%s/%s", list, bucket, key.s); /* %.2s: "s3" or "gs" */
	if (key.failed || uri.failed)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory to ask a store");
	else if (*found)
		ask(io, uri.s, 1, NULL, &status, err);
	stk__text_free(&key);
	stk__text_free(&uri);
	stk__text_free(&token);
	return status;
}

/* Returns whether the URI names an object that may be read. Called if the bucket could not be listed. key: the rest of the URI after the bucket, which begins
 * with a slash or is empty. */
static bool is_there(struct stk_io *io, const char *uri, const char *key)
{
	enum stk_status status = STK_NOT_FOUND;
	struct stk_error why;
	if (key[0] && key[1])
		ask(io, uri, 1, NULL, &status, &why);
	return !status;
}

/* Probes a bucket: lists the keys of a prefix and reads the first byte of one. If listing fails, reads the first byte of the object that `uri` names. If that
 * fails too, returns the status of the listing. */
static enum stk_status ask_bucket(
	struct stk_io *io, const char *uri, const char *bucket, const char *list, struct stk_storage_report *out, struct stk_error *err)
{
	struct stk_request answer = {0};
	enum stk_status status = STK_OK;
	out->first_ms = ask(io, list, -1, &answer, &status, err);
	out->listed = !status;
	if (out->listed)
		status = ask_first(io, list, bucket, &answer, &out->found, err);
	stk__buffer_release(answer.buffer);
	if (!out->listed && is_there(io, uri, uri + strlen("s3://") + strlen(bucket))) {
		status = STK_OK;
		out->found = true;
	}
	return status;
}

static enum stk_status ask_all(struct stk_io *io, const char *uri, struct stk_storage_report *out, struct stk_error *err)
{
	struct stk_text list = {0};
	char bucket[256];
	double times[QUESTIONS];
	enum stk_status status = STK_OK;
	const bool s3 = (strncmp(uri, "s3://", 5) == 0 || strncmp(uri, "gs://", 5) == 0) && stk__s3_bucket(uri, bucket);
	const char *key = s3 ? uri + strlen("s3://") + strlen(bucket) : uri;
	if (s3)
		stk__s3_list_uri(&list, uri, bucket, key + (*key == '/'), "", NULL, NULL);
	if (list.failed)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to ask a store");
	if (s3)
		status = ask_bucket(io, uri, bucket, list.s, out, err);
	else
		out->first_ms = ask(io, uri, 1, NULL, &status, err);
	out->found |= !s3 && !status;
	const char *timed_uri = s3 && out->listed ? list.s : uri;
	for (int i = 0; i < QUESTIONS && !status; i++)
		times[i] = ask(io, timed_uri, out->listed ? -1 : 1, NULL, &status, err);
	if (!status) {
		qsort(times, QUESTIONS, sizeof *times, by_size);
		out->answer_ms = times[QUESTIONS / 2];
	}
	if (status && s3)
		name_again(err, list.s, uri);
	stk__text_free(&list);
	return status;
}

enum stk_status stk_storage_probe(struct stk_storage *s, const char *uri, struct stk_storage_report *out, struct stk_error *err)
{
	if (STK_NEED(err, s, uri, out))
		return STK_INVALID;
	if (out->size != sizeof *out)
		return stk__fail(err, STK_INVALID, "stk_storage_report.size is %zu; this library expects %zu", out->size, sizeof *out);
	*out = (struct stk_storage_report){.size = sizeof *out, .clock_s = INT64_MIN};
	struct stk_io *io = stk__storage_io(s);
	if (!stk__io_remote(io, uri))
		return stk__fail(err, STK_UNSUPPORTED, "%.*s is not an s3://, gs://, http:// or https:// address%s", stk__uri_shown(uri),
			uri, strstr(uri, "://") ? stk__scheme_hint(uri) : "");
	enum stk_status status = stk__io_refresh(io, uri, NULL, err);
	if (!status)
		status = ask_all(io, uri, out, err);
	stk__io_describe(io, uri, out);
	return status;
}
