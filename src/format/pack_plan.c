/* SPDX-License-Identifier: Apache-2.0
 * Assigns files to tars by their names and sizes, without reading them. */
#include "format/pack.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/philox.h"
#include "codec/codec.h"
#include "format/list_census.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

void stk__pack_plan_free(struct stk_pack_plan *p)
{
	stk__file_list_destroy(p->list);
	stk__free(p->members);
	stk__free(p->shards);
	stk__free(p->names);
	*p = (struct stk_pack_plan){0};
}

/* ---- names ---- */

struct planning {
	struct stk_pack_plan *plan;
	const struct stk_pack_options *options;
	const struct stk_file_list_options *images; /* filters for the names of images */
	struct stk_error *err;
	int64_t *samples; /* indices of the files that are images */
	bool *used;       /* [file]: true if the plan contains the file; a file that belongs to several images counts once in plan->files */
	size_t root;      /* length of the part of a path before the class folder */
};

static enum stk_status no_memory(const struct planning *g)
{
	return stk__fail(g->err, STK_NO_MEMORY, "out of memory to plan the packing of %.300s", g->options->source);
}

/* Writes the part of a file's path from the class folder's name on. */
static void path_of(const struct planning *g, int64_t file, char out[PATH_MAX])
{
	char full_path[PATH_MAX];
	stk__file_list_path(g->plan->list, file, full_path, sizeof full_path);
	snprintf(out, PATH_MAX, "%s", strlen(full_path) > g->root ? full_path + g->root : full_path);
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Returns the length of a file's path up to the last dot of its name; the whole length if the name has no dot or only a leading one. */
static size_t stem_of(const char *path)
{
	const char *base = base_of(path), *dot = strrchr(base, '.');
	return dot && dot != base ? (size_t)(dot - path) : strlen(path);
}

/* Returns whether readers of WebDataset join two members into one sample: their paths are equal up to the first dot after the last slash. */
static bool same_sample(const char *a, const char *b)
{
	size_t n = (size_t)(base_of(a) - a) + strcspn(base_of(a), ".");
	return strncmp(a, b, n) == 0 && (size_t)(base_of(b) - b) + strcspn(base_of(b), ".") == n;
}

static bool is_image(const struct planning *g, const char *path)
{
	return stk__list_wants(g->images, base_of(path));
}

/* Returns whether a file's path begins with the stem of an image, n bytes long, and a dot: "a.txt" and "a.v2.json" belong to "a.jpg". */
static bool has_stem(const char *file, const char *image, size_t n)
{
	return strncmp(file, image, n) == 0 && file[n] == '.' && !strchr(file + n, '/');
}

/* ---- members ---- */

int64_t stk__pack_record_bytes(const char *name)
{
	int64_t fixed = (int64_t)strlen(name) + (int64_t)strlen(" path=\n"), total = fixed + 1, previous = 0;
	while (total != previous) { /* the record begins with its length, which includes the length's own digits */
		char text[32];
		previous = total;
		total = fixed + snprintf(text, sizeof text, "%lld", (long long)total);
	}
	return strlen(name) > STK_PACK_SHORT ? total : 0;
}

int64_t stk__pack_member_bytes(const char *name, int64_t size)
{
	enum { BLOCK = 512 };
	int64_t record = stk__pack_record_bytes(name);
	return (record ? BLOCK + (record + BLOCK - 1) / BLOCK * BLOCK : 0) + BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
}

static bool add_member(struct stk_pack_plan *p, struct stk_pack_member member, const char *name)
{
	size_t n = strlen(name) + 1;
	if (p->count == p->capacity) {
		int64_t capacity = p->capacity + p->capacity / 2 + 256;
		struct stk_pack_member *grown = stk__realloc(p->members, (size_t)capacity * sizeof *grown);
		if (!grown)
			return false;
		p->members = grown;
		p->capacity = capacity;
	}
	if (p->names_capacity - p->names_size < n) {
		uint64_t capacity = p->names_capacity + p->names_capacity / 2 + n + 4096;
		char *grown = stk__realloc(p->names, capacity);
		if (!grown)
			return false;
		p->names = grown;
		p->names_capacity = capacity;
	}
	memcpy(p->names + p->names_size, name, n);
	member.name = p->names_size;
	p->members[p->count++] = member;
	p->names_size += n;
	return true;
}

/* Sets the member's size and source from its file. */
static enum stk_status look_at_file(const struct planning *g, struct stk_pack_member *m)
{
	char path[PATH_MAX];
	struct stat st;
	const struct stk_file_list *l = g->plan->list;
	if (l->sized) {
		const struct stk_list_object object = stk__list_object(l, m->file);
		m->size = object.size;
		m->source = object.tag;
		return STK_OK;
	}
	stk__file_list_path(l, m->file, path, sizeof path);
	if (stat(path, &st))
		return stk__fail_errno(g->err, errno, "%s: cannot stat it", path);
	/* not the numbers of the device and of the inode, which may be others after the file system was mounted again */
	const uint64_t facts[] = {(uint64_t)st.st_size, (uint64_t)stk__file_ns(st.st_mtim), (uint64_t)stk__file_ns(st.st_ctim)};
	m->size = st.st_size;
	m->source = stk__hash_bytes(0, facts, sizeof facts);
	return STK_OK;
}

/* Writes the key of a sample. A member's name is the key, a dot, and the component. Readers of WebDataset end the key at the first dot of a member's name,
 * and skip names that begin with a dot. So the stem of an image is its key only if the name has exactly one dot, not at its beginning, and no other image has
 * this stem (`twice`). Otherwise the key is the image's whole path with _ for the dots of the name, then _ and the image's number. */
static void key_of(int64_t file, const char *path, bool twice, char out[PATH_MAX + 32])
{
	size_t stem = stem_of(path), base = (size_t)(base_of(path) - path);
	if (!twice && path[stem] && !memchr(path + base, '.', stem - base)) {
		snprintf(out, PATH_MAX + 32, "%.*s", (int)stem, path);
		return;
	}
	snprintf(out, PATH_MAX + 32, "%s_%lld", path, (long long)file);
	for (char *c = out + base; *c; c++)
		*c = *c == '.' ? '_' : *c;
}

struct stem_group { /* the files whose paths begin with one stem and a dot, which are neighbours in the list */
	int64_t first, end;
	bool twice; /* true if several images have this stem */
};

/* Returns the group of an image's stem. The files of a group are neighbours, since a folder's files are sorted by name. */
static struct stem_group stem_group_of(const struct planning *g, int64_t file, const char *path)
{
	char other[PATH_MAX];
	struct stem_group s = {file, file + 1, false};
	size_t stem = stem_of(path);
	for (bool on = path[stem]; on && s.first > 0; s.first -= on) {
		path_of(g, s.first - 1, other);
		on = has_stem(other, path, stem);
		s.twice |= on && stem_of(other) == stem && is_image(g, other);
	}
	for (bool on = path[stem]; on && s.end < g->plan->list->size; s.end += on) {
		path_of(g, s.end, other);
		on = has_stem(other, path, stem);
		s.twice |= on && stem_of(other) == stem && is_image(g, other);
	}
	return s;
}

/* Returns whether another image of the group with a longer stem fits the file: "a.v2.json" belongs to "a.v2.jpg" and not to "a.jpg". */
static bool fits_better(const struct planning *g, const struct stem_group *stem_group, const char *path, const char *file)
{
	char other[PATH_MAX];
	for (int64_t i = stem_group->first; i < stem_group->end; i++) {
		path_of(g, i, other);
		size_t stem = stem_of(other);
		if (stem > stem_of(path) && other[stem] && has_stem(file, other, stem) && is_image(g, other))
			return true;
	}
	return false;
}

static enum stk_status add_file(const struct planning *g, int64_t file, const char *key, const char *ending, int32_t label)
{
	char name[2 * PATH_MAX];
	struct stk_pack_member member = {.file = file, .label = label};
	enum stk_status s = look_at_file(g, &member);
	if (s)
		return s;
	snprintf(name, sizeof name, "%s.%s", key, ending);
	g->plan->files += !g->used[file];
	g->used[file] = true;
	return add_member(g->plan, member, name) ? STK_OK : no_memory(g);
}

static enum stk_status add_label(const struct planning *g, const char *key, int32_t label)
{
	char name[PATH_MAX + 64], text[32];
	snprintf(name, sizeof name, "%s.cls", key);
	const struct stk_pack_member member = {.file = -1, .size = snprintf(text, sizeof text, "%d", label), .label = label};
	return add_member(g->plan, member, name) ? STK_OK : no_memory(g);
}

static enum stk_status add_sample(const struct planning *g, int64_t file)
{
	char path[PATH_MAX], other[PATH_MAX], key[PATH_MAX + 32];
	int32_t label = stk__file_list_label(g->plan->list, file);
	path_of(g, file, path);
	struct stem_group stem_group = stem_group_of(g, file, path);
	key_of(file, path, stem_group.twice, key);
	const char *dot = strrchr(path, '.');
	enum stk_status s = add_file(g, file, key, dot ? dot + 1 : "", label);
	if (!s)
		s = add_label(g, key, label);
	for (int64_t i = stem_group.first; i < stem_group.end && s == STK_OK; i++) {
		path_of(g, i, other);
		if (is_image(g, other) || fits_better(g, &stem_group, path, other))
			continue;
		const char *component = other + stem_of(path) + 1;
		if (strcasecmp(component, "cls") == 0)
			return stk__fail(g->err, STK_INVALID,
				"%.300s/%s: labels are those of the class folders, and go into a component of this name: rename it",
				g->options->source, other);
		s = add_file(g, i, key, component, label);
	}
	return s;
}

/* ---- shards ---- */

static bool begin_shard(struct stk_pack_plan *p, int64_t first)
{
	if (p->shard_count == p->shard_capacity) {
		int64_t capacity = 2 * p->shard_capacity + 64;
		struct stk_pack_shard *grown = stk__realloc(p->shards, (size_t)capacity * sizeof *grown);
		if (!grown)
			return false;
		p->shards = grown;
		p->shard_capacity = capacity;
	}
	p->shards[p->shard_count++] =
		(struct stk_pack_shard){.first = first, .bytes = 1024}; /* with the two empty blocks at the end of the tar */
	return true;
}

static enum stk_status plan_sample(const struct planning *g, int64_t file)
{
	struct stk_pack_plan *p = g->plan;
	int64_t first = p->count, bytes = 0, most = g->options->shard_bytes ? g->options->shard_bytes : 256000000;
	enum stk_status s = add_sample(g, file);
	if (s)
		return s;
	for (int64_t i = first; i < p->count; i++)
		bytes += stk__pack_member_bytes(p->names + p->members[i].name, p->members[i].size);
	const char *name = p->names + p->members[first].name, *previous = first ? p->names + p->members[first - 1].name : "";
	if (same_sample(name, previous))
		return stk__fail(
			g->err, STK_INVALID, "%.300s: two samples would both be called %.300s: rename one", g->options->source, name);
	struct stk_pack_shard *shard = p->shard_count ? &p->shards[p->shard_count - 1] : NULL;
	if ((!shard || (shard->count && shard->bytes + bytes > most)) && !begin_shard(p, first))
		return no_memory(g);
	shard = &p->shards[p->shard_count - 1];
	shard->count += p->count - first;
	shard->bytes += bytes;
	for (int64_t i = first; i < p->count; i++)
		shard->sources = stk__hash_bytes(shard->sources, &p->members[i].source, sizeof p->members[i].source);
	p->samples++;
	return STK_OK;
}

static void digest_plan(const struct planning *g)
{
	struct stk_pack_plan *p = g->plan;
	p->digest = stk__hash_bytes(0, p->names, p->names_size);
	for (int64_t i = 0; i < p->count; i++) {
		int64_t facts[2] = {p->members[i].size, p->members[i].label};
		p->digest = stk__hash_bytes(p->digest, facts, sizeof facts);
	}
	for (int64_t i = 0; i < p->shard_count; i++)
		p->digest = stk__hash_bytes(p->digest, &p->shards[i].count, sizeof p->shards[i].count);
}

/* Shuffles n ids (Fisher and Yates). Each swap takes one draw, which depends only on the seed and the position. */
static void shuffle(int64_t *ids, int64_t n, uint64_t seed)
{
	for (int64_t i = n - 1; i > 0; i--) {
		struct stk_random r = stk__random(seed, stk__random_stream("pack.order"), 0, i);
		int64_t k = (int64_t)(stk__random_double(&r) * (double)(i + 1)), id = ids[i];
		ids[i] = ids[k];
		ids[k] = id;
	}
}

static enum stk_status plan_all(struct planning *g)
{
	struct stk_pack_plan *p = g->plan;
	char path[PATH_MAX];
	int64_t n = 0;
	enum stk_status s = STK_OK;
	for (int64_t i = 0; i < p->list->size; i++) {
		path_of(g, i, path);
		if (is_image(g, path))
			g->samples[n++] = i;
	}
	if (!n)
		return stk__fail(g->err, STK_NOT_FOUND, "%.300s: there is no image in it, and only images are packed", g->options->source);
	if (g->options->seed >= 0)
		shuffle(g->samples, n, (uint64_t)g->options->seed);
	for (int64_t i = 0; i < n && s == STK_OK; i++)
		s = plan_sample(g, g->samples[i]);
	p->left_out = p->list->size - p->files;
	digest_plan(g);
	return s;
}

/* A listing of the source, which the caller watches and can stop. */
struct listing {
	const struct stk_pack_options *options;
	bool ended;
};

static void report_entries(void *user, int64_t entries)
{
	struct listing *l = user;
	l->ended |= l->options->progress && !l->options->progress(l->options->user, entries, 0);
}

static bool is_ended(void *user)
{
	return ((const struct listing *)user)->ended;
}

enum stk_status stk__pack_plan(const struct stk_pack_options *o, struct stk_pack_plan *out, struct stk_error *err)
{
	const struct stk_file_list_options images = {.file_filters = stk__image_globs, .filter_count = STK_IMAGE_GLOBS};
	struct planning g = {.plan = out, .options = o, .images = &images, .err = err};
	*out = (struct stk_pack_plan){0};
	struct listing listing = {.options = o};
	const struct stk_access access = {.storage = o->storage, .interrupted = is_ended, .listed = report_entries, .user = &listing};
	enum stk_status s = stk__file_list_create(
		&(struct stk_file_list_options){.access = &access, .file_root = o->source, .nested = true, .everything = true}, &out->list,
		err);
	if (s)
		return s;
	size_t root = strlen(out->list->root);
	g.root = root + (root && out->list->root[root - 1] != '/');
	g.samples = stk__calloc((size_t)out->list->size + 1, sizeof *g.samples);
	g.used = stk__calloc((size_t)out->list->size + 1, sizeof *g.used);
	s = g.samples && g.used ? plan_all(&g) : no_memory(&g);
	stk__free(g.samples);
	stk__free(g.used);
	if (s)
		stk__pack_plan_free(out);
	return s;
}

/* ---- plans of other runs ---- */

bool stk__pack_is_unfinished(const char *tar, char text[400])
{
	static const char begin[] = "stoker pack 1\n";
	char path[PATH_MAX];
	uint8_t *plan = NULL;
	size_t size = 0;
	struct stat st;
	const char *local = stk__file_path(tar), *slash = strrchr(local, '/');
	const int n = slash ? (int)(slash - local) : 1;
	if (stk__is_uri(local) || snprintf(path, sizeof path, "%.*s/" STK_PACK_PLAN, n, slash ? local : ".") >= PATH_MAX)
		return false;
	const bool found = stk__read_whole(path, 1 << 16, &plan, &size, NULL) == STK_OK && size >= sizeof begin &&
			   memcmp(plan, begin, sizeof begin - 1) == 0 &&
			   memmem(plan, size, " tars\n", 6) != NULL; /* tars of tables have another plan, and may have no file of names */
	stk__free(plan);
	if (!found || snprintf(path, sizeof path, "%.*s/" STK_PACK_CLASSES, n, slash ? local : ".") >= PATH_MAX || stat(path, &st) == 0)
		return false;
	snprintf(text, 400,
		"%.*s: `stoker pack` has not finished there: tars may be missing, and their samples with them. If it does not run any "
		"more, start it again",
		n < 200 ? n : 200, slash ? local : ".");
	return true;
}
