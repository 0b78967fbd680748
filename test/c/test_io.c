/* SPDX-License-Identifier: Apache-2.0
 * Tests of io: files of every size and kind are read, or refused with a message that names them; cached files are read without a thread; each request completes
 * once, in the order of deadlines, even if other requests are cancelled. */
#include "test.h"

#include "base/memory.h"
#include "base/philox.h"
#include "io/queue.h"
#include "reverse_source.h"
#include "thread/thread.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char root[64];

static int make_root(void **state)
{
	(void)state;
	strcpy(root, "/tmp/stk-io-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof command, "rm -rf '%s'", root);
	return system(command);
}

static const char *path_of(const char *name)
{
	static char paths[4][128];
	static int turn;
	char *path = paths[turn++ % 4];
	snprintf(path, sizeof paths[0], "%s/%s", root, name);
	return path;
}

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 2654435761u >> 13);
}

static void put(const char *name, size_t size)
{
	FILE *f = fopen(path_of(name), "wb");
	assert_non_null(f);
	for (size_t i = 0; i < size; i++)
		putc(byte_at(i), f);
	fclose(f);
}

/* ---- waiting for requests ---- */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int done;
	int64_t order[4096];
};

static void gate_init(struct gate *g)
{
	memset(g, 0, sizeof *g);
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->wake, NULL);
}

static void gate_done(struct stk_request *r)
{
	struct gate *g = r->user;
	pthread_mutex_lock(&g->lock);
	g->order[g->done++] = r->deadline;
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

static struct stk_io *make_io(int threads)
{
	struct stk_io *io;
	assert_int_equal(stk__io_create(threads, &io, NULL), STK_OK);
	return io;
}

static _Thread_local int32_t retries; /* number of retries in this thread's last call of read_one */

/* Reads on the calling thread if `try` is set and io can do so, otherwise on another thread. If this succeeds, checks that it read the `want` bytes from
 * `offset` on, and that 64 zeros follow them. */
static enum stk_status read_one(
	struct stk_io *io, const char *uri, int64_t offset, int64_t length, bool try, int64_t want, struct stk_error *err)
{
	struct gate g;
	gate_init(&g);
	*err = (struct stk_error){0};
	struct stk_request r = {.uri = uri, .offset = offset, .length = length, .done = gate_done, .user = &g, .error = err};
	if (!try || !stk__io_try(io, &r)) {
		stk__io_submit(io, &r);
		gate_wait(&g, 1);
	}
	retries = r.retries;
	if (r.status) {
		assert_null(r.buffer);
		assert_int_equal(err->code, r.status);
		assert_string_equal(err->uri, uri);
		return r.status;
	}
	assert_int_equal(r.size, want);
	for (size_t i = 0; i < r.size; i++)
		if (r.data[i] != byte_at((size_t)offset + i))
			fail_msg("%s: byte %zu is wrong", uri, i);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(r.data[r.size + i], 0);
	stk__buffer_release(r.buffer);
	return STK_OK;
}

static void test_files_of_every_size(void **state)
{
	(void)state;
	const size_t sizes[] = {0, 1, 63, 64, 4095, 4096, 4097, 65536, 131071, 131072, 131073, 262144, 1000000, 5242880};
	for (int try = 0; try < 2; try++) {
		struct stk_io *io = make_io(2);
		struct stk_error err;
		/* The sizes increase, so that they overflow the first buffer, and then decrease. */
		for (int k = 0, n = sizeof sizes / sizeof *sizes; k < 2 * n; k++) {
			size_t size = sizes[k < n ? k : 2 * n - 1 - k];
			put("f", size);
			assert_int_equal(read_one(io, path_of("f"), 0, -1, try, (int64_t)size, &err), STK_OK);
			assert_int_equal(read_one(io, path_of("f"), (int64_t)size / 3, -1, try, (int64_t)(size - size / 3), &err), STK_OK);
			assert_int_equal(
				read_one(io, path_of("f"), (int64_t)size / 3, (int64_t)size / 2, try, (int64_t)size / 2, &err), STK_OK);
			assert_int_equal(read_one(io, path_of("f"), 0, (int64_t)size + 1, try, 0, &err), STK_CORRUPT);
			assert_non_null(strstr(err.message, "ends before byte"));
			assert_int_equal(read_one(io, path_of("f"), (int64_t)size + 10, -1, try, 0, &err), STK_OK);
		}
		char uri[160];
		snprintf(uri, sizeof uri, "file://%s", path_of("f"));
		assert_int_equal(read_one(io, uri, 0, -1, try, 0, &err), STK_OK);
		stk__io_destroy(io);
	}
}

static void test_what_is_not_a_file(void **state)
{
	(void)state;
	assert_int_equal(mkdir(path_of("dir.jpg"), 0777), 0);
	assert_int_equal(mkfifo(path_of("fifo.jpg"), 0666), 0);
	assert_int_equal(symlink("nowhere", path_of("lost.jpg")), 0);
	assert_int_equal(symlink("loop.jpg", path_of("loop.jpg")), 0);
	put("good", 100);
	assert_int_equal(symlink("good", path_of("link.jpg")), 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path_of("socket.jpg"));
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof address), 0);
	close(s);
	const struct {
		const char *name;
		enum stk_status status;
		const char *says;
	} rows[] = {
		{"dir.jpg", STK_INVALID, "a directory"},
		{"fifo.jpg", STK_INVALID, "a FIFO"},
		{"lost.jpg", STK_NOT_FOUND, "a link that leads nowhere"},
		{"loop.jpg", STK_NOT_FOUND, "symbolic links"},
		{"gone.jpg", STK_NOT_FOUND, "No such file"},
		{"good/x", STK_NOT_FOUND, "Not a directory"},
		{"socket.jpg", STK_INVALID, "a socket"},
	};
	struct stk_io *io = make_io(1);
	struct stk_error err;
	for (int try = 0; try < 2; try++) {
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
			assert_int_equal(read_one(io, path_of(rows[i].name), 0, -1, try, 0, &err), rows[i].status);
			if (!strstr(err.message, rows[i].says) || !strstr(err.message, rows[i].name))
				fail_msg("%s: \"%s\" does not say \"%s\"", rows[i].name, err.message, rows[i].says);
			assert_int_equal(err.missing, rows[i].status == STK_NOT_FOUND && strcmp(rows[i].name, "loop.jpg") != 0);
		}
		assert_int_equal(read_one(io, path_of("link.jpg"), 0, -1, try, 100, &err), STK_OK);
		assert_int_equal(read_one(io, "/dev/zero", 0, -1, try, 0, &err), STK_INVALID);
		assert_non_null(strstr(err.message, "a device"));
	}
	assert_int_equal(read_one(io, "gopher://x/y", 0, -1, true, 0, &err), STK_UNSUPPORTED);
	assert_non_null(strstr(err.message, "gopher://"));
	struct stk_io_counters c;
	stk__io_counters(io, &c);
	assert_int_equal(c.failed, 2 * (sizeof rows / sizeof *rows + 1) + 1);
	assert_int_equal(c.completed, 2);
	assert_int_equal(c.bytes, 200);
	assert_int_equal(c.requests, c.failed + c.completed);
	stk__io_destroy(io);
}

/* A cached file is read on the caller's thread: no thread is started. */
static void test_cached_files_need_no_thread(void **state)
{
	(void)state;
	struct stk_io *io = make_io(4);
	struct stk_error err;
	struct stk_io_counters c;
	put("f", 90000);
	for (int i = 0; i < 100; i++)
		assert_int_equal(read_one(io, path_of("f"), 0, -1, true, 90000, &err), STK_OK);
	stk__io_counters(io, &c);
	assert_int_equal(c.requests, 100);
	/* The file system does not support RWF_NOWAIT. Then io must stop trying to read on the calling thread, and other reads must work. */
	if (c.tried_now == 0) {
		assert_true(c.threads > 0);
		stk__io_destroy(io);
		skip();
	}
	assert_int_equal(c.tried_now, 100);
	assert_int_equal(c.threads, 0);
	uint64_t before = stk__alloc_count();
	for (int i = 0; i < 100; i++)
		assert_int_equal(read_one(io, path_of("f"), 0, -1, true, 90000, &err), STK_OK);
	assert_int_equal(stk__alloc_count(), before);
	stk__io_destroy(io);
}

/* The limit is one byte more than the file has, its size, or one byte less. Reads whole files and ranges: on the calling thread, into a buffer that may be
 * larger than the file, and on another thread, which first asks for the size. */
static void test_objects_over_a_limit_are_refused(void **state)
{
	(void)state;
	static const size_t sizes[] = {2, 4000, 90000, 300000};
	struct stk_io *io = make_io(1);
	struct stk_error err;
	for (int i = 0; i < 4; i++) {
		put("limited", sizes[i]);
		for (int mode = 0; mode < 4; mode++) {
			for (int over = -1; over <= 1; over++) {
				struct gate g;
				gate_init(&g);
				struct stk_request r = {.uri = path_of("limited"),
					.length = mode & 2 ? (int64_t)sizes[i] : -1,
					.max_bytes = sizes[i] - (size_t)over,
					.done = gate_done,
					.user = &g,
					.error = &err};
				if (!(mode & 1) || !stk__io_try(io, &r)) {
					stk__io_submit(io, &r);
					gate_wait(&g, 1);
				}
				assert_int_equal(r.status, over == 1 ? STK_LIMIT : STK_OK);
				if (r.status)
					assert_non_null(strstr(err.message, "memory_limit"));
				stk__buffer_release(r.buffer);
			}
		}
	}
	stk__io_destroy(io);
}

/* Changes the length of files while they are read. The result must be a prefix of the written bytes, or an error that says so; never other bytes or a hang. */
struct changer {
	_Atomic bool stop;
	int fd;
};

static void *change_size(void *arg)
{
	struct changer *c = arg;
	while (!atomic_load(&c->stop))
		if (ftruncate(c->fd, 4000) || ftruncate(c->fd, 300000))
			break;
	return NULL;
}

static void test_files_that_change_size(void **state)
{
	(void)state;
	pthread_t thread;
	struct gate g;
	put("changing", 0);
	struct changer c = {.fd = open(path_of("changing"), O_WRONLY)};
	struct stk_io *io = make_io(1);
	assert_int_equal(stk__thread_start(&thread, "change", change_size, &c, NULL), STK_OK);
	for (int i = 0; i < 3000; i++) {
		struct stk_error err = {0};
		gate_init(&g);
		struct stk_request r = {.uri = path_of("changing"), .length = -1, .done = gate_done, .user = &g, .error = &err};
		if (i % 2 || !stk__io_try(io, &r)) {
			stk__io_submit(io, &r);
			gate_wait(&g, 1);
		}
		if (r.status) {
			assert_int_equal(r.status, STK_IO);
			assert_non_null(strstr(err.message, "changed its size"));
			continue;
		}
		assert_true(r.size <= 300000);
		for (size_t k = 0; k < r.size + 64; k++)
			assert_int_equal(r.data[k], 0);
		stk__buffer_release(r.buffer);
	}
	atomic_store(&c.stop, true);
	stk__thread_join(thread);
	close(c.fd);
	stk__io_destroy(io);
}

/* ---- the queue ---- */

static void test_queue_is_ordered(void **state)
{
	(void)state;
	enum { N = 500 };
	static struct stk_request requests[N];
	struct stk_random random = stk__random(11, 0, 0, 0);
	for (int round = 0; round < 50; round++) {
		struct stk_request_queue q = {0};
		int count[64] = {0}, held = 0;
		for (int i = 0; i < N; i++) {
			requests[i].deadline = stk__random_below(&random, 64);
			count[requests[i].deadline]++;
			stk__queue_push(&q, &requests[i]);
			held++;
			if (stk__random_below(&random, 3) == 0) { /* takes the most urgent request */
				struct stk_request *r = stk__queue_pop(&q);
				for (int d = 0; d < r->deadline; d++)
					assert_int_equal(count[d], 0);
				count[r->deadline]--;
				held--;
			}
		}
		int64_t last = -1;
		for (struct stk_request *r; (r = stk__queue_pop(&q)); held--) {
			assert_true(r->deadline >= last);
			last = r->deadline;
		}
		assert_int_equal(held, 0);
	}
}

/* Blocks io's only thread in a request's `done` function while other requests are queued. (A read of a file would not block for long enough.) Records the
 * order in which requests complete. */
struct holder {
	struct gate gate;
	pthread_barrier_t in, out;
};

static void hold(struct stk_request *r)
{
	struct holder *h = r->user;
	pthread_barrier_wait(&h->in);
	pthread_barrier_wait(&h->out);
}

/* Cancels every `cancelled`-th request (0: none) before any of them has begun. The others must complete in the order of their deadlines. */
static void check_requests(int cancelled)
{
	enum { N = 200 };
	static struct stk_request requests[N];
	struct holder h;
	struct stk_io *io = make_io(1);
	struct stk_error err = {0};
	struct stk_request first = {.uri = path_of("none"), .length = -1, .done = hold, .user = &h, .error = &err};
	gate_init(&h.gate);
	pthread_barrier_init(&h.in, NULL, 2);
	pthread_barrier_init(&h.out, NULL, 2);
	put("f", 1000);
	stk__io_submit(io, &first);
	pthread_barrier_wait(&h.in);
	char path[128];
	strcpy(path, path_of("f"));
	for (int i = 0; i < N; i++) {
		requests[i] = (struct stk_request){.uri = path, .length = -1, .deadline = (i * 77) % N, .done = gate_done, .user = &h.gate};
		stk__io_submit(io, &requests[i]);
	}
	int gone = 0;
	for (int i = 0; i < N && cancelled; i += cancelled) {
		stk__io_cancel(io, &requests[i]);
		assert_int_equal(h.gate.done, ++gone);
		assert_int_equal(requests[i].status, STK_CANCELLED);
	}
	pthread_barrier_wait(&h.out);
	gate_wait(&h.gate, N);
	for (int i = gone + 1; i < N; i++)
		assert_true(h.gate.order[i - 1] < h.gate.order[i]);
	for (int i = 0; i < N; i++) {
		bool was = cancelled && i % cancelled == 0;
		assert_int_equal(requests[i].status, was ? STK_CANCELLED : STK_OK);
		stk__io_cancel(io, &requests[i]); /* the request has ended, so this does nothing */
		stk__buffer_release(requests[i].buffer);
		stk__free(requests[i].error);
	}
	assert_int_equal(h.gate.done, N);
	stk__io_destroy(io);
	pthread_barrier_destroy(&h.in);
	pthread_barrier_destroy(&h.out);
}

static void test_requests_start_by_deadline(void **state)
{
	(void)state;
	check_requests(0);
}

static void test_requests_are_cancelled_one_by_one(void **state)
{
	(void)state;
	check_requests(1);
	check_requests(2);
	check_requests(7);
}

static void test_destroy_cancels_what_waits(void **state)
{
	(void)state;
	enum { N = 300 };
	static struct stk_request requests[N];
	static struct stk_error errors[N];
	struct gate g;
	char path[128];
	put("f", 200000);
	strcpy(path, path_of("f"));
	for (int round = 0; round < 20; round++) {
		struct stk_io *io = make_io(2);
		gate_init(&g);
		for (int i = 0; i < N; i++) {
			/* the length exceeds the file's, so the request fails, and must not leak its buffer */
			requests[i] = (struct stk_request){
				.uri = path, .length = 300000, .deadline = i, .done = gate_done, .user = &g, .error = &errors[i]};
			stk__io_submit(io, &requests[i]);
		}
		stk__io_destroy(io);
		assert_int_equal(g.done, N);
		for (int i = 0; i < N; i++)
			assert_true(requests[i].status == STK_CANCELLED || requests[i].status == STK_CORRUPT);
	}
}

/* Shared by many threads that read directly and submit requests at the same time. Every request must complete once, with its own bytes. */
struct crowd {
	struct stk_io *io;
	unsigned seed;
};

static void *read_many(void *arg)
{
	struct crowd *c = arg;
	struct stk_error err;
	char path[128];
	for (unsigned i = 0; i < 300; i++) {
		unsigned k = (c->seed + i * 7) % 20;
		snprintf(path, sizeof path, "%s/m%u", root, k);
		enum stk_status status = read_one(c->io, path, 0, -1, i % 2, k * 3000, &err);
		if (status)
			return arg;
	}
	return NULL;
}

static void test_a_crowd(void **state)
{
	(void)state;
	struct stk_io *io = make_io(3);
	pthread_t threads[4];
	struct crowd crowds[4];
	char name[16];
	for (unsigned k = 0; k < 20; k++) {
		snprintf(name, sizeof name, "m%u", k);
		put(name, k * 3000);
	}
	for (unsigned t = 0; t < 4; t++) {
		crowds[t] = (struct crowd){io, t};
		assert_int_equal(pthread_create(&threads[t], NULL, read_many, &crowds[t]), 0);
	}
	for (int t = 0; t < 4; t++) {
		void *failed;
		pthread_join(threads[t], &failed);
		assert_null(failed);
	}
	struct stk_io_counters c;
	stk__io_counters(io, &c);
	assert_int_equal(c.completed, 1200);
	assert_int_equal(c.failed, 0);
	assert_true(c.threads <= 3);
	stk__io_destroy(io);
}

/* ---- sources other than files ---- */

static void test_reverse_source(void **state)
{
	(void)state;
	enum { N = 256 };
	static struct stk_request requests[N];
	static char uris[N][32];
	struct gate g;
	gate_init(&g);
	struct stk_io *io = make_io(1);
	struct reverse_source *s = reverse_source_create(100000000);
	assert_int_equal(stk__io_add_source(io, &reverse_source_ops, s, NULL), STK_OK);
	assert_int_equal(stk__io_add_source(io, &reverse_source_ops, reverse_source_create(1), NULL), STK_INVALID);
	for (int i = 0; i < N; i++) {
		snprintf(uris[i], sizeof uris[i], "reverse://object/%d", i);
		requests[i] = (struct stk_request){.uri = uris[i], .length = -1, .deadline = i, .done = gate_done, .user = &g};
		assert_false(stk__io_try(io, &requests[i]));
		stk__io_submit(io, &requests[i]);
	}
	gate_wait(&g, N);
	/* A slow machine may serve the requests in more than one wave, of which each is reversed. */
	if (reverse_source_peak(s) == N)
		for (int i = 0; i < N; i++)
			assert_int_equal(g.order[i], N - 1 - i);
	for (int i = 0; i < N; i++) {
		assert_int_equal(requests[i].size, reverse_size(uris[i]));
		for (size_t k = 0; k < requests[i].size; k++)
			if (requests[i].data[k] != reverse_byte(uris[i], k))
				fail_msg("%s: byte %zu", uris[i], k);
		stk__buffer_release(requests[i].buffer);
	}
	gate_init(&g);
	for (int i = 0; i < N; i++)
		stk__io_submit(io, &requests[i]);
	stk__io_destroy(io);
	assert_int_equal(g.done, N);
	for (int i = 0; i < N; i++)
		assert_int_equal(requests[i].status, STK_CANCELLED);
}

#ifdef STK_FAULTS
/* Runs each scenario with each kind of fault at every possible call. A run must leak nothing (the sanitizers check that), and must return an error or, if a
 * failed read was retried, the bytes. */
static void test_fault_loop(void **state)
{
	(void)state;
	put("f", 400000); /* more bytes than a read takes room for before it knows the size of the file */
	for (int try = 0; try < 2; try++)
		for (int kind = 0; kind < STK_FAULT_KINDS; kind++)
			for (int64_t nth = 0, met = 1; met; nth++) {
				struct stk_io *io = NULL;
				struct stk_error err = {0};
				stk__fault_set((enum stk_fault)kind, nth);
				retries = 0;
				enum stk_status status = stk__io_create(1, &io, &err);
				if (!status) {
					enum stk_status read = read_one(io, path_of("f"), 0, -1, try, 400000, &err);
					status = read;
				}
				stk__io_destroy(io);
				met = stk__fault_passed((enum stk_fault)kind) > nth;
				stk__fault_set((enum stk_fault)kind, -1);
				assert_int_equal(status != STK_OK || retries, met);
				/* An allocation that fails is no error of the source, so the read is not tried again. */
				assert_int_equal(retries, met && kind != STK_FAULT_ALLOC ? 1 : 0);
				if (status)
					assert_int_equal(err.code, status);
				assert_true(nth < 100);
			}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_files_of_every_size, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_what_is_not_a_file, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_cached_files_need_no_thread, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_objects_over_a_limit_are_refused, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_files_that_change_size, make_root, remove_root),
		cmocka_unit_test(test_queue_is_ordered),
		cmocka_unit_test_setup_teardown(test_requests_start_by_deadline, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_requests_are_cancelled_one_by_one, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_destroy_cancels_what_waits, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_a_crowd, make_root, remove_root),
		cmocka_unit_test(test_reverse_source),
#ifdef STK_FAULTS
		cmocka_unit_test_setup_teardown(test_fault_loop, make_root, remove_root),
#endif
	};
	return cmocka_run_group_tests_name("io", tests, NULL, NULL);
}
