/* SPDX-License-Identifier: Apache-2.0
 * File systems that respond late, as NFS does. Opening a file on which another process holds a lease blocks until that process gives it up. The tests check
 * that many such reads run at a time, and do not delay reads of other files. */
#include "test.h"

#include "base/memory.h"
#include "io/io.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 48, THREADS = 16, BYTES = 5000 };

static char folder[64];
static char paths[FILES][128];
static int leases[FILES];

static int begin(void **state)
{
	(void)state;
	signal(SIGIO, SIG_IGN); /* the kernel sends SIGIO to ask for a lease back; by default it would end the process */
	strcpy(folder, "/tmp/stk-lease-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	for (int i = 0; i < FILES; i++) {
		char bytes[BYTES];
		memset(bytes, i, sizeof bytes);
		snprintf(paths[i], sizeof paths[i], "%s/%d", folder, i);
		leases[i] = open(paths[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (leases[i] < 0 || write(leases[i], bytes, sizeof bytes) != BYTES)
			return -1;
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < FILES; i++) {
		close(leases[i]);
		unlink(paths[i]);
	}
	return rmdir(folder);
}

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

static int wanted_back(void)
{
	int n = 0;
	for (int i = 0; i < FILES; i++)
		n += fcntl(leases[i], F_GETLEASE) != F_WRLCK;
	return n;
}

static void check(const struct stk_request *r, int i)
{
	assert_int_equal(r->status, STK_OK);
	assert_int_equal(r->size, BYTES);
	assert_int_equal(r->data[0], i);
	assert_int_equal(r->data[BYTES - 1], i);
}

static void test_many_wait_at_a_time(void **state)
{
	static struct stk_request requests[FILES], quick;
	struct gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
	struct stk_io *io;
	char free_path[128];
	(void)state;
	for (int i = 0; i < FILES; i++)
		if (fcntl(leases[i], F_SETLEASE, F_WRLCK))
			skip(); /* the file system has no leases, or another process has the files open */
	assert_int_equal(stk__io_create(THREADS, &io, NULL), STK_OK);
	for (int i = 0; i < FILES; i++) {
		requests[i] = (struct stk_request){.uri = paths[i], .length = -1, .deadline = i, .done = gate_done, .user = &g};
		stk__io_submit(io, &requests[i]);
	}
	const struct timespec nap = {.tv_nsec = 1000000};
	while (wanted_back() < THREADS)
		nanosleep(&nap, NULL);
	assert_int_equal(g.done, 0);
	for (int i = 0; i < FILES; i++) /* io opens only the most urgent files, one in each thread */
		assert_int_equal(fcntl(leases[i], F_GETLEASE) != F_WRLCK, i < THREADS);
	snprintf(free_path, sizeof free_path, "%s/free", folder);
	FILE *f = fopen(free_path, "w");
	fputs("at hand", f);
	fclose(f);
	quick = (struct stk_request){.uri = free_path, .length = -1};
	if (stk__io_try(io, &quick)) { /* true if the file system can report that the file is in the page cache */
		assert_int_equal(quick.size, 7);
		stk__buffer_release(quick.buffer);
	}
	unlink(free_path);
	for (int i = 0; i < FILES; i++)
		fcntl(leases[i], F_SETLEASE, F_UNLCK);
	gate_wait(&g, FILES);
	for (int i = 0; i < FILES; i++) {
		check(&requests[i], i);
		stk__buffer_release(requests[i].buffer);
		stk__free(requests[i].error);
	}
	stk__io_destroy(io);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_wait_at_a_time)};
	return cmocka_run_group_tests(tests, begin, end);
}
