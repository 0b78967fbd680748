/* SPDX-License-Identifier: Apache-2.0
 * Stores the contents of NuScenes' tables in a file: a head, then each part as it is in memory. The file serves the machine that made it: if anything
 * differs (the tables, this library's structs, the byte order), the index is not current and is written again. */
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/list.h"
#include "format/nuscenes.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "STKNUSC1"

struct head {
	char magic[8];
	uint64_t element[STK_NUSC_PARTS];
	struct stk_nuscenes_stamp stamps[STK_NUSC_TABLES];
	int64_t count[STK_NUSC_PARTS];
	uint64_t hash; /* hash of the parts and of all members above */
};

static void make_head(const struct stk_nuscenes_stamp *stamps, struct head *out)
{
	memset(out, 0, sizeof *out);
	memcpy(out->magic, MAGIC, sizeof out->magic);
	memcpy(out->stamps, stamps, sizeof out->stamps);
	for (int i = 0; i < STK_NUSC_PARTS; i++)
		out->element[i] = stk__nuscenes_element[i];
}

static uint64_t hash_all(const struct stk_nuscenes *n, const struct head *head)
{
	uint64_t h = stk__hash_bytes(0, head, offsetof(struct head, hash));
	for (int i = 0; i < STK_NUSC_PARTS; i++)
		h = stk__hash_bytes(h, n->part[i], (size_t)n->count[i] * stk__nuscenes_element[i]);
	return h;
}

/* ---- reading ---- */

static bool read_all(int fd, void *to, size_t size)
{
	for (uint8_t *at = to; size > 0;) {
		ssize_t n = stk__fault(STK_FAULT_READ) ? (errno = EIO, -1) : read(fd, at, size);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		at += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* Returns whether the sizes of the head and of the parts add up to the file's size. */
static bool sizes_fit(const struct head *head, int64_t size)
{
	int64_t left = size - (int64_t)sizeof *head;
	for (int i = 0; i < STK_NUSC_PARTS; i++) {
		int64_t element = (int64_t)stk__nuscenes_element[i];
		if (head->count[i] < 0 || left < 0 || head->count[i] > left / element)
			return false;
		left -= head->count[i] * element;
	}
	return left == 0;
}

enum stk_status stk__nuscenes_index_read(
	struct stk_nuscenes *n, const char *path, const struct stk_nuscenes_stamp *stamps, bool *current, struct stk_error *err)
{
	struct head head, wanted;
	struct stat st;
	*current = false;
	int fd = stk__file_open(path, &st);
	if (fd < 0)
		return STK_OK;
	make_head(stamps, &wanted);
	bool ok = read_all(fd, &head, sizeof head) && memcmp(&head, &wanted, offsetof(struct head, count)) == 0 &&
		  sizes_fit(&head, st.st_size);
	enum stk_status s = STK_OK;
	for (int i = 0; i < STK_NUSC_PARTS && ok && s == STK_OK; i++) {
		size_t size = (size_t)head.count[i] * stk__nuscenes_element[i];
		n->part[i] = stk__alloc(size);
		n->count[i] = head.count[i];
		if (!n->part[i])
			s = stk__fail(err, STK_NO_MEMORY, "out of memory for the index %s", path);
		else
			ok = read_all(fd, n->part[i], size);
	}
	close(fd);
	*current = s == STK_OK && ok && hash_all(n, &head) == head.hash && stk__nuscenes_sound(n);
	return s;
}

/* ---- writing ---- */

static bool write_parts(struct stk_new_file *f, const struct stk_nuscenes *n, const struct head *head)
{
	bool ok = stk__new_file_write(f, head, sizeof *head);
	for (int i = 0; i < STK_NUSC_PARTS && ok; i++)
		ok = stk__new_file_write(f, n->part[i], (size_t)n->count[i] * stk__nuscenes_element[i]);
	return ok;
}

enum stk_status stk__nuscenes_index_write(
	const struct stk_nuscenes *n, const char *path, const struct stk_nuscenes_stamp *stamps, struct stk_error *err)
{
	struct stk_new_file f;
	struct head head;
	make_head(stamps, &head);
	memcpy(head.count, n->count, sizeof head.count);
	head.hash = hash_all(n, &head);
	bool ok = stk__new_file_begin(&f, path, 0666);
	if (ok)
		ok = stk__new_file_end(&f, write_parts(&f, n, &head));
	return ok ? STK_OK : stk__file_not_written(path, "index of NuScenes' tables", err);
}
