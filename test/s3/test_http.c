/* SPDX-License-Identifier: Apache-2.0
 * http:// and s3:// against the test server: reading bytes and ranges of every kind, faults, cancelled requests, and keys that must not appear in messages. */
#include "test.h"

#include "base/memory.h"
#include "base/philox.h"
#include "http/http.h"
#include "io/cache.h"
#include "io/cache_disk.h"
#include "s3_server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY "AKIATESTTESTTEST"
#define SECRET "sEcReT/of+the=tests"

static struct s3_server *server;
static char folder[64];
static const struct stk_http_settings quick = {
	.connect_ms = 2000, .first_byte_ms = 1000, .stall_ms = 500, .retries = 30, .backoff_ms = 5, .most_backoff_ms = 50};

static uint8_t byte_at(const char *name, size_t i)
{
	return (uint8_t)((i * 2654435761u >> 13) + strlen(name));
}

static void put(const char *name, size_t size)
{
	uint8_t *data = malloc(size + 1);
	for (size_t i = 0; i < size; i++)
		data[i] = byte_at(name, i);
	s3_server_put(server, name, data, size);
	free(data);
}

static void use(const char *id, const char *secret)
{
	char endpoint[64];
	snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", s3_server_port(server));
	setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
	setenv("AWS_ACCESS_KEY_ID", id, 1);
	setenv("AWS_SECRET_ACCESS_KEY", secret, 1);
	setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	unsetenv("AWS_PROFILE");
	unsetenv("AWS_SESSION_TOKEN");
	unsetenv("AWS_REGION");
	unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
	unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

static int begin(void **state)
{
	(void)state;
	server = s3_server_start(NULL, 0, KEY, SECRET, NULL, NULL);
	use(KEY, SECRET);
	strcpy(folder, "/tmp/stk-http-XXXXXX");
	return server && mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	char command[80];
	s3_server_stop(server);
	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	return system(command);
}

static struct stk_io *make_io(void)
{
	struct stk_io *io;
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	assert_int_equal(stk__http_add(io, &quick, NULL), STK_OK);
	return io;
}

/* ---- waiting ---- */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int done;
};

static void gate_done(struct stk_request *r)
{
	struct gate *g = r->user;
	pthread_mutex_lock(&g->lock);
	g->done++;
	pthread_cond_broadcast(&g->wake);
	pthread_mutex_unlock(&g->lock);
}

static void gate_wait(struct gate *g, int count)
{
	pthread_mutex_lock(&g->lock);
	while (g->done < count)
		pthread_cond_wait(&g->wake, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

#define GATE                                                                                                                               \
	{                                                                                                                                  \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                                                                     \
	}

static struct stk_request read_range(struct stk_io *io, const char *uri, int64_t offset, int64_t length, size_t most, struct stk_error *err)
{
	struct gate g = GATE;
	*err = (struct stk_error){0};
	struct stk_request r = {
		.uri = uri, .offset = offset, .length = length, .max_bytes = most, .done = gate_done, .user = &g, .error = err};
	assert_false(stk__io_try(io, &r));
	stk__io_submit(io, &r);
	gate_wait(&g, 1);
	return r;
}

static void check_bytes(struct stk_io *io, const char *name, int64_t offset, int64_t length, size_t want)
{
	char uri[2048];
	struct stk_error err;
	snprintf(uri, sizeof uri, "s3://%s", name);
	struct stk_request r = read_range(io, uri, offset, length, 0, &err);
	if (r.status)
		fail_msg("%s", err.message);
	assert_int_equal(r.size, want);
	for (size_t i = 0; i < want; i++)
		if (r.data[i] != byte_at(name, (size_t)offset + i))
			fail_msg("%s: byte %zu is wrong", uri, i);
	for (int i = 0; i < 64; i++)
		assert_int_equal(r.data[want + (size_t)i], 0);
	stk__buffer_release(r.buffer);
}

static void check_failure(struct stk_io *io, const char *uri, int64_t offset, int64_t length, enum stk_status want, const char *message)
{
	struct stk_error err;
	struct stk_request r = read_range(io, uri, offset, length, 1000000, &err);
	if (r.status != want || !strstr(err.message, message))
		fail_msg("%s: %s, \"%s\"", uri, stk_status_name(r.status), err.message);
	assert_int_equal(err.missing, want == STK_NOT_FOUND && !strstr(err.message, "403"));
	assert_null(r.buffer);
	assert_null(strstr(err.message, SECRET));
	assert_null(strstr(err.message, "Signature="));
}

/* ---- bytes ---- */

static void test_sizes_and_ranges(void **state)
{
	(void)state;
	const size_t sizes[] = {0, 1, 4095, 131072, 131073, 1000000};
	struct stk_io *io = make_io();
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		size_t size = sizes[k];
		int64_t third = (int64_t)size / 3;
		put("b/object", size);
		check_bytes(io, "b/object", 0, -1, size);
		check_bytes(io, "b/object", third, -1, size - (size_t)third);
		check_bytes(io, "b/object", third, third, (size_t)third);
		check_bytes(io, "b/object", (int64_t)size + 10, -1, 0);
		if (third)
			check_failure(io, "s3://b/object", third, (int64_t)size, STK_CORRUPT, "ends before byte");
	}
	stk__io_destroy(io);
}

static void test_names(void **state)
{
	(void)state;
	char longest[1100] = "b/";
	memset(longest + 2, 'k', 1024);
	const char *const names[] = {
		"b/a b", "b/+%41%", "b/x//y/../z/./", "b/\xc3\xa9\xe2\x82\xac", "b/~!$&'()*,;=:@?#[]", "b/\"<>\\^`{|}", longest};
	struct stk_io *io = make_io();
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		put(names[k], 1000 + k);
		check_bytes(io, names[k], 0, -1, 1000 + k);
	}
	assert_int_equal(s3_server_counts(server).refused, 0);
	stk__io_destroy(io);
}

/* Allocates memory for an object. io calls this once, with the object's size, before it reads the bytes. */
static uint8_t *give_room(void *user, size_t size)
{
	uint8_t **place = user;
	assert_null(*place);
	*place = malloc(size + 64);
	return *place;
}

static void test_room_and_most(void **state)
{
	(void)state;
	struct stk_io *io = make_io();
	struct stk_error err = {0};
	struct gate g = GATE;
	uint8_t *place = NULL;
	put("b/object", 300000);
	struct stk_request r = {.uri = "s3://b/object",
		.length = -1,
		.done = gate_done,
		.user = &g,
		.error = &err,
		.allocate = give_room,
		.allocate_user = &place};
	stk__io_submit(io, &r);
	gate_wait(&g, 1);
	assert_int_equal(r.status, STK_OK);
	assert_ptr_equal(r.data, place);
	assert_null(r.buffer);
	assert_int_equal(place[299999], byte_at("b/object", 299999));
	free(place);
	r = read_range(io, "s3://b/object", 0, -1, 299999, &err);
	assert_int_equal(r.status, STK_LIMIT);
	r = read_range(io, "s3://b/object", 1, -1, 299999, &err);
	assert_int_equal(r.status, STK_OK);
	stk__buffer_release(r.buffer);
	stk__io_destroy(io);
}

/* Plain URLs: the client follows a redirect, and messages show a URL without its query. */
static void test_plain_http(void **state)
{
	(void)state;
	s3_server_stop(server);
	server = s3_server_start(NULL, 0, NULL, NULL, NULL, NULL);
	struct stk_io *io = make_io();
	struct stk_error err;
	char uri[128];
	put("b/a b", 5000);
	for (int i = 0; i < 2; i++) {
		snprintf(uri, sizeof uri, "http://127.0.0.1:%d/%sb/a%s", s3_server_port(server), i ? "_to/" : "",
			i ? "%20b" : " b?X-Amz-Signature=hidden");
		struct stk_request r = read_range(io, uri, 100, 1000, 0, &err);
		if (r.status)
			fail_msg("%s", err.message);
		assert_int_equal(r.size, 1000);
		assert_int_equal(r.data[0], byte_at("b/a b", 100));
		stk__buffer_release(r.buffer);
	}
	snprintf(uri, sizeof uri, "http://127.0.0.1:%d/b/none?X-Amz-Signature=hidden", s3_server_port(server));
	read_range(io, uri, 0, -1, 0, &err);
	assert_null(strstr(err.message, "hidden"));
	assert_null(strstr(err.uri, "hidden"));
	assert_non_null(strstr(err.message, "/b/none: the server answers 404 NoSuchKey"));
	snprintf(uri, sizeof uri, "http://user:hidden@127.0.0.1:%d/b/none", s3_server_port(server));
	assert_int_equal(read_range(io, uri, 0, -1, 0, &err).status, STK_INVALID);
	assert_null(strstr(err.message, "hidden"));
	assert_null(strstr(err.uri, "hidden"));
	stk__io_destroy(io);
}

/* ---- faults ---- */

enum { MANY = 300 };

/* Reads many objects at the same time. Each must arrive once and intact. Returns the number of retries. */
static int read_many(struct stk_io *io)
{
	struct gate g = GATE;
	static struct stk_request r[MANY];
	static char uris[MANY][32];
	int retries = 0;
	for (int i = 0; i < MANY; i++) {
		snprintf(uris[i], sizeof uris[i], "s3://b/%d", i % 20);
		r[i] = (struct stk_request){.uri = uris[i], .length = -1, .deadline = i, .done = gate_done, .user = &g};
		stk__io_submit(io, &r[i]);
	}
	gate_wait(&g, MANY);
	for (int i = 0; i < MANY; i++) {
		if (r[i].status)
			fail_msg("%s", r[i].error ? r[i].error->message : "failed");
		assert_int_equal(r[i].size, 3000 + 7000 * (i % 20));
		for (size_t k = 0; k < r[i].size; k++)
			if (r[i].data[k] != byte_at(uris[i] + 5, k))
				fail_msg("%s: byte %zu is wrong", uris[i], k);
		stk__buffer_release(r[i].buffer);
		stk__free(r[i].error);
		retries += r[i].retries;
	}
	return retries;
}

static void put_many(void)
{
	for (int i = 0; i < 20; i++) {
		char name[16];
		snprintf(name, sizeof name, "b/%d", i);
		put(name, 3000 + 7000 * (size_t)i);
	}
}

static void test_faults_are_got_over(void **state)
{
	(void)state;
	const char *const faults[] = {"p503=0.3", "p500=0.3", "reset=0.4", "truncate=0.4", "change=0.4", "length=0.3", "stall=0.1",
		"silent=0.1", "trickle=0.05",
		"p503=0.05&reset=0.1&truncate=0.1&change=0.1&stall=0.03&silent=0.03&latency_ms=10&jitter_ms=30", "many=14&latency_ms=20"};
	put_many();
	for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
		struct stk_io *io = make_io();
		uint64_t before = s3_server_counts(server).faults;
		assert_true(s3_server_set(server, faults[k]));
		int retries = read_many(io);
		struct s3_counts c = s3_server_counts(server);
		print_message("%s: %d retries of %d faults\n", faults[k], retries, (int)(c.faults - before));
		assert_true(c.faults > before);
		struct stk_io_counters io_counts;
		stk__io_counters(io, &io_counts);
		assert_int_equal(io_counts.completed, MANY);
		stk__io_destroy(io);
	}
}

/* The server never answers some requests. The client repeats each of them long before the time limit of 20 s, and the repetition is answered. If several
 * repetitions stay unanswered too, as on a busy machine, the client sends no more of them. So up to 7 of the 300 requests may reach the limit, as in slow runs
 * with sanitizers. Without repetitions about 15 requests would reach it, and 7 or fewer only in one of 70 runs. */
static void test_late_answers_are_hedged(void **state)
{
	(void)state;
	const struct stk_http_settings patient = {.first_byte_ms = 20000, .stall_ms = 1000000};
	struct stk_io *io;
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	assert_int_equal(stk__http_add(io, &patient, NULL), STK_OK);
	put_many();
	s3_server_set(server, "latency_ms=2");
	assert_int_equal(read_many(io), 0); /* from here on the client knows the usual latency */
	uint64_t before = s3_server_counts(server).faults;
	s3_server_set(server, "latency_ms=2&silent=0.05");
	assert_true(read_many(io) <= 7);
	assert_true(s3_server_counts(server).faults > before);
	stk__io_destroy(io);
}

/* If a body is cut off, the client continues at that byte, without counting a retry and without requesting a byte twice. */
static void test_resumption(void **state)
{
	(void)state;
	struct stk_io *io = make_io();
	struct stk_error err;
	put("b/object", 400000);
	s3_server_set(server, "truncate=1");
	uint64_t before = s3_server_counts(server).requests;
	struct stk_request r = read_range(io, "s3://b/object", 0, -1, 0, &err);
	assert_int_equal(r.status, STK_IO); /* each response has half of the remaining bytes, so the client gives up */
	assert_non_null(strstr(err.message, "after a part of it"));
	assert_true(s3_server_counts(server).requests - before > 8);
	s3_server_set(server, "change=1");
	r = read_range(io, "s3://b/object", 0, -1, 0, &err);
	assert_int_equal(r.status, STK_IO);
	assert_non_null(strstr(err.message, "it changed while it was read: "));
	assert_non_null(strstr(err.message, "its ETag "));
	/* If the server sends no ETags, the client compares the date of the last change, or at least the size. */
	s3_server_set(server, "change=1&untagged=1");
	r = read_range(io, "s3://b/object", 0, -1, 0, &err);
	assert_int_equal(r.status, STK_IO);
	assert_non_null(strstr(err.message, "it changed while it was read: its Last-Modified was Sun, 06 Nov 1994"));
	s3_server_set(server, "change=1&untagged=2");
	r = read_range(io, "s3://b/object", 0, -1, 0, &err);
	assert_int_equal(r.status, STK_IO);
	assert_non_null(strstr(err.message, "it changed while it was read: it had "));
	stk__io_destroy(io);
}

static void refresh(struct stk_io *io)
{
	struct stk_error err = {0};
	if (stk__io_refresh(io, "s3://b/object", NULL, &err))
		fail_msg("%s", err.message);
}

static void test_errors_are_named(void **state)
{
	(void)state;
	struct stk_io *io = make_io();
	put("b/object", 1000);
	check_failure(io, "s3://b/none", 0, -1, STK_NOT_FOUND,
		"s3://b/none: the server answers 404 NoSuchKey, The specified key does not exist.");
	check_failure(io, "s3://nobody/none", 0, -1, STK_IO, "NoSuchBucket");
	check_failure(io, "s3://b", 0, -1, STK_INVALID, "names a bucket and no object");
	s3_server_set(server, "p403=1");
	check_failure(io, "s3://b/object", 0, -1, STK_IO, "403 AccessDenied, Access Denied: check the credentials");
	s3_server_set(server, "");
	use(KEY, "not-" SECRET);
	refresh(io);
	check_failure(io, "s3://b/object", 0, -1, STK_IO, "403 SignatureDoesNotMatch");
	stk__io_destroy(io);
	use("", "");
	io = make_io();
	refresh(io);
	check_failure(io, "s3://b/object", 0, -1, STK_IO, "there are no credentials");
	setenv("AWS_REGION", "not a region", 1);
	refresh(io);
	check_failure(io, "s3://b/object", 0, -1, STK_INVALID, "AWS_REGION");
	use(KEY, SECRET);
	setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1", 1);
	refresh(io);
	check_failure(io, "s3://b/object", 0, -1, STK_IO, "127.0.0.1");
	check_failure(io, "gs://b/object", 0, -1, STK_UNSUPPORTED, "gs://");
	use(KEY, SECRET);
	refresh(io);
	check_bytes(io, "b/object", 0, -1, 1000);
	stk__io_destroy(io);
}

/* A pipeline is made while the environment has no valid keys, on a storage that other pipelines use: only the new pipeline fails. If it reads http://, it needs
 * no keys. */
static void test_lost_keys_concern_only_new_pipelines(void **state)
{
	(void)state;
	char url[64];
	struct stk_error err;
	struct stk_io *io = make_io();
	put("b/object", 1000);
	snprintf(url, sizeof url, "http://127.0.0.1:%d/b/object", s3_server_port(server));
	for (int i = 0; i < 3; i++) {
		if (i == 2)
			setenv("AWS_REGION", "not a region", 1);
		else
			use("", "");
		err = (struct stk_error){0};
		const enum stk_status status = stk__io_refresh(io, i ? "s3://b/object" : url, NULL, &err);
		assert_int_equal(status, i == 0 ? STK_OK : i == 1 ? STK_IO : STK_INVALID);
		assert_non_null(strstr(err.message, i == 0 ? "" : i == 1 ? "s3://b/object: there are no credentials" : "AWS_REGION"));
		check_bytes(io, "b/object", 0, -1, 1000);
	}
	use(KEY, SECRET);
	refresh(io);
	check_bytes(io, "b/object", 0, -1, 1000);
	use("", "");
	setenv("AWS_NO_SIGN_REQUEST", "yes", 1); /* no keys are needed, so this is what the next requests use */
	refresh(io);
	unsetenv("AWS_NO_SIGN_REQUEST");
	check_failure(io, "s3://b/object", 0, -1, STK_NOT_FOUND, "403");
	stk__io_destroy(io);
}

/* The client signs the token of a session together with the request. It learns the bucket's region from the server's refusal. */
static void test_token_and_region(void **state)
{
	(void)state;
	s3_server_stop(server);
	server = s3_server_start(NULL, 0, KEY, SECRET, "a/token+of=many", "eu-north-1");
	use(KEY, SECRET);
	setenv("AWS_SESSION_TOKEN", "a/token+of=many", 1);
	struct stk_io *io = make_io();
	put("b/object", 1000);
	check_bytes(io, "b/object", 0, -1, 1000);
	assert_int_equal(s3_server_counts(server).refused, 1);
	check_bytes(io, "b/object", 0, -1, 1000);
	assert_int_equal(s3_server_counts(server).refused, 1);
	stk__io_destroy(io);
}

/* ---- cancelling: the server never answers, so a request that is not cancelled would not end ---- */

static void test_cancel(void **state)
{
	(void)state;
	const struct stk_http_settings patient = {.requests = 8, .backoff_ms = 1000000000, .most_backoff_ms = 1000000000};
	struct gate g = GATE;
	struct stk_request r[40];
	struct stk_io *io;
	put("b/object", 1000);
	for (int all = 0; all < 2; all++) {
		assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
		assert_int_equal(stk__http_add(io, &patient, NULL), STK_OK);
		g.done = 0;
		uint64_t before = s3_server_counts(server).requests;
		for (int i = 0; i < 40; i++) { /* the first requests wait for a retry, some are in flight, most wait in the queue */
			if (i == 0 || i == 8) {
				while (s3_server_counts(server).requests < before + (uint64_t)i)
					sched_yield();
				s3_server_set(server, i ? "silent=1" : "p503=1");
			}
			r[i] = (struct stk_request){.uri = "s3://b/object", .length = -1, .done = gate_done, .user = &g};
			stk__io_submit(io, &r[i]);
		}
		while (s3_server_counts(server).requests < before + 12)
			sched_yield();
		for (int i = 0; i < 40 && !all; i++)
			stk__io_cancel(io, &r[i]);
		if (!all)
			gate_wait(&g, 40);
		stk__io_destroy(io);
		assert_int_equal(g.done, 40);
		for (int i = 0; i < 40; i++) {
			assert_int_equal(r[i].status,
				i < 8 && r[i].status == STK_IO ? STK_IO : STK_CANCELLED); /* the refusal may come before the cancellation */
			stk__free(r[i].error);
		}
	}
}

/* ---- claims of a cache: a request waits for another one that fetches the same object, but not for one that cannot continue ---- */

/* The limit of a caller, which admits nothing while `closed` is set. */
struct limit {
	struct stk_admission admission;
	_Atomic bool closed, was_asked;
};

static bool admit_if_open(struct stk_admission *a, struct stk_request *r, size_t bytes)
{
	struct limit *l = (struct limit *)a;
	(void)r;
	(void)bytes;
	atomic_store(&l->was_asked, true);
	return !atomic_load(&l->closed);
}

static struct stk_cache *add_cache(struct stk_io *io)
{
	struct stk_cache *cache;
	assert_int_equal(stk__cache_add(io, folder, 1 << 24, &cache, NULL), STK_OK);
	return cache;
}

/* A request whose memory is not admitted gives up its claim on the object, because the caller may need a second request for the object first. Both give the
 * right bytes in the end. */
static void test_a_parked_request_gives_up_its_claim(void **state)
{
	(void)state;
	struct gate first = GATE, second = GATE;
	struct limit full = {.admission.admit = admit_if_open, .closed = true}, empty = {.admission.admit = admit_if_open};
	struct stk_io *io = make_io();
	struct stk_cache *cache = add_cache(io);
	put("b/object", 100000);
	struct stk_request parked = {
		.uri = "s3://b/object", .length = -1, .turn = 1, .admission = &full.admission, .done = gate_done, .user = &first};
	struct stk_request needed = {
		.uri = "s3://b/object", .length = -1, .turn = 1, .admission = &empty.admission, .done = gate_done, .user = &second};
	stk__io_submit(io, &parked);
	while (!atomic_load(&full.was_asked))
		sched_yield();
	stk__io_submit(io, &needed);
	gate_wait(&second, 1);
	assert_int_equal(first.done, 0);
	assert_true(needed.cache.cache_waits > 0 && needed.cache.cache_waits < 200); /* without the claim's end, it would wait 400 times */
	atomic_store(&full.closed, false);
	stk__io_admission_changed(io);
	gate_wait(&first, 1);
	for (int i = 0; i < 2; i++) {
		const struct stk_request *r = i ? &parked : &needed;
		assert_int_equal(r->status, STK_OK);
		assert_int_equal(r->size, 100000);
		assert_int_equal(r->data[99999], byte_at("b/object", 99999));
		stk__buffer_release(r->buffer);
		stk__free(r->error);
	}
	struct stk_cache_counters counted;
	do
		stk__cache_counters(cache, &counted);
	while (counted.pending);
	assert_int_equal(counted.misses, 2);
	stk__io_destroy(io);
}

/* The object is claimed by another process, here by the same folder that is opened twice. A request without which its caller cannot continue waits less often
 * than others before it fetches the object itself. */
static void test_an_awaited_request_does_not_wait_long(void **state)
{
	(void)state;
	char notice[512], uri[] = "s3://b/object";
	struct gate g = GATE;
	struct limit open = {.admission.admit = admit_if_open};
	struct stk_cache_disk disk;
	struct stk_io *io = make_io();
	add_cache(io);
	put("b/object", 1000);
	assert_int_equal(stk__cache_disk_open(&disk, folder, 1 << 24, notice, NULL), STK_OK);
	struct stk_request r[] = {
		{.uri = uri, .length = -1, .turn = 1, .admission = &open.admission, .done = gate_done, .user = &g},
		{.uri = uri, .length = 500, .admission = &open.admission, .done = gate_done, .user = &g},
	};
	for (int i = 0; i < 2; i++) {
		stk__io_submit(io, &r[i]); /* fills in r->cache.store, by which the key is found; the first round fetches the objects */
		gate_wait(&g, i + 1);
		stk__buffer_release(r[i].buffer);
	}
	g.done = 0;
	for (int i = 0; i < 2; i++) {
		char name[STK_CACHE_NAME];
		const struct stk_cache_key key = stk__cache_key(uri, 0, r[i].length, r[i].cache.store);
		stk__cache_name(key, name);
		while (!stk__cache_remove(&disk, name, NULL)) /* until it is stored */
			sched_yield();
		while (!stk__cache_claim(&disk, key)) /* until its own claim has ended */
			sched_yield();
		stk__io_submit(io, &r[i]);
	}
	gate_wait(&g, 1);
	assert_int_equal(r[1].status, STK_OK);
	assert_true(r[1].cache.cache_waits > 10 && r[1].cache.cache_waits < 100);
	for (int i = 0; i < 2; i++)
		stk__cache_unclaim(&disk, stk__cache_key(uri, 0, r[i].length, r[i].cache.store));
	gate_wait(&g, 2);
	assert_int_equal(r[0].status, STK_OK);
	for (int i = 0; i < 2; i++) {
		stk__buffer_release(r[i].buffer);
		stk__free(r[i].error);
	}
	stk__cache_disk_close(&disk);
	stk__io_destroy(io);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_sizes_and_ranges),
		TEST(test_names),
		TEST(test_room_and_most),
		TEST(test_plain_http),
		TEST(test_faults_are_got_over),
		TEST(test_late_answers_are_hedged),
		TEST(test_resumption),
		TEST(test_errors_are_named),
		TEST(test_lost_keys_concern_only_new_pipelines),
		TEST(test_token_and_region),
		TEST(test_cancel),
		TEST(test_a_parked_request_gives_up_its_claim),
		TEST(test_an_awaited_request_does_not_wait_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
