/* SPDX-License-Identifier: Apache-2.0 */
#include "format/webdataset.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/list.h"
#include "format/number.h"
#include "format/pack.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512, MOST_PARTS = 64 }; /* `found_parts` has a bit for each part */

struct stk_collect {
	const struct stk_webdataset_options *o;
	struct stk_samples *t;
	struct stk_components *there; /* counts of the components in the archives */
	int32_t archive;
	uint64_t found_parts;           /* bit mask of the parts that have been found, even if they are empty */
	uint64_t ending_of[MOST_PARTS]; /* [part]: hash of its ending */
	bool open;                      /* true if the last sample may get further files */
	int64_t begin;                  /* offset of the last sample's first file */
	struct stk_sample_part *parts;  /* the parts of the last sample, inside the table */
	const char *where;              /* name of the index, for messages with `line`; NULL: the samples come from the archive */
	int64_t line;
	struct stk_error *err;
};

static enum stk_status bad_index(const struct stk_collect *c, const char *what)
{
	return stk__fail(c->err, STK_CORRUPT, "%.300s, line %lld: %s", c->where, (long long)c->line, what);
}

static const char *last_name(const struct stk_collect *c)
{
	return c->t->names + c->t->places[c->t->size - 1].name;
}

static enum stk_status begin_sample(struct stk_collect *c, const char *name, size_t n)
{
	c->found_parts = 0;
	c->open = true;
	return stk__samples_add(c->t, c->archive, name, n, &c->parts, c->err);
}

static enum stk_status end_sample(struct stk_collect *c)
{
	static const char way_out[] =
		"missing_component_behavior=\"skip\", an argument of Loader.from_tars and readers.webdataset, leaves such samples out";
	uint64_t all = c->o->part_count == 64 ? ~0ull : (1ull << c->o->part_count) - 1;
	bool open = c->open;
	c->open = false;
	if (!open || c->found_parts == all || c->o->missing == STK_MISSING_EMPTY || c->o->missing == STK_MISSING_DEFAULT)
		return STK_OK;
	if (c->o->missing == STK_MISSING_SKIP) {
		stk__samples_drop_last(c->t);
		return STK_OK;
	}
	const char *lacks = c->o->endings[__builtin_ctzll(~c->found_parts)], *archive = c->t->archives[c->archive];
	if (c->where)
		return stk__fail(c->err, STK_NOT_FOUND, "%.200s, line %lld: the sample has no component \"%.60s\"; %s", c->where,
			(long long)c->line, lacks, way_out);
	return stk__fail(c->err, STK_NOT_FOUND, "%.200s: the sample that begins with %.100s has no component \"%.60s\"; %s", archive,
		last_name(c), lacks, way_out);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool same(const char *a, const char *b, size_t n, bool ignore_case)
{
	for (size_t i = 0; i < n; i++)
		if (ignore_case ? lower(a[i]) != lower(b[i]) : a[i] != b[i])
			return false;
	return true;
}

/* Returns the same hash for endings that `same` finds equal. */
static uint64_t hash_of(const char *ending, size_t n, bool ignore_case)
{
	uint64_t hash = 0;
	char piece[64];
	for (size_t m; n; ending += m, n -= m) {
		m = n < sizeof piece ? n : sizeof piece;
		for (size_t i = 0; i < m; i++)
			piece[i] = ignore_case ? lower(ending[i]) : ending[i];
		hash = stk__hash_bytes(hash, piece, m);
	}
	return hash;
}

/* Returns whether `ending`, of n bytes, is one of the alternatives, such as "jpg;png". */
static bool is_wanted(const char *alternatives, const char *ending, size_t n, bool ignore_case)
{
	for (const char *p = alternatives; *p; p += *p == ';') {
		size_t length = strcspn(p, ";");
		if (length == n && same(p, ending, n, ignore_case))
			return true;
		p += length;
	}
	return false;
}

static void count_ending(struct stk_components *c, const char *ending, size_t n)
{
	n = n < sizeof c->at->ending - 1 ? n : sizeof c->at->ending - 1;
	int32_t i = 0;
	while (i < c->count && (strncmp(c->at[i].ending, ending, n) != 0 || c->at[i].ending[n]))
		i++;
	c->more |= i == (int32_t)(sizeof c->at / sizeof *c->at);
	if (c->more && i >= c->count)
		return;
	if (i == c->count)
		memcpy(c->at[c->count++].ending, ending, n);
	c->at[i].files++;
}

/* Called for a file whose sample already has a file with this ending, because two neighbouring samples have the same name or a file was packed twice. Counts
 * the file; fails if the option is STK_MISSING_ERROR. */
static enum stk_status found_double(struct stk_collect *c, const char *ending, size_t n, int64_t offset)
{
	const char *archive = c->t->archives[c->archive];
	if (c->o->missing == STK_MISSING_ERROR)
		return stk__fail(c->err, STK_CORRUPT,
			"%.200s, at byte %lld: the sample that begins with %.100s has a second \"%.*s\": samples that follow each other need "
			"different names, up to the first dot",
			archive, (long long)offset, last_name(c), n < 60 ? (int)n : 60, ending);
	if (c->there->doubles++ == 0)
		snprintf(c->there->double_name, sizeof c->there->double_name, "%.60s in %.30s", last_name(c), last_part(archive));
	return STK_OK;
}

static enum stk_status add_component(
	struct stk_collect *c, const char *ending, size_t n, int64_t offset, int64_t size, uint32_t header_hash)
{
	uint64_t hash = hash_of(ending, n, c->o->ignore_case);
	bool reported = false;
	count_ending(c->there, ending, n);
	for (int32_t k = 0; k < c->o->part_count; k++) {
		if (!is_wanted(c->o->endings[k], ending, n, c->o->ignore_case))
			continue;
		if (c->found_parts >> k & 1) {
			enum stk_status s = c->ending_of[k] == hash && !reported ? found_double(c, ending, n, offset) : STK_OK;
			reported |= c->ending_of[k] == hash;
			if (s)
				return s;
			continue;
		}
		c->ending_of[k] = hash;
		if (size % (int64_t)c->o->elements[k])
			return stk__fail(c->err, STK_CORRUPT,
				"%.200s, at byte %lld: component \"%.*s\" of %.100s has %lld bytes, no whole number of elements of %zu (dtypes)",
				c->t->archives[c->archive], (long long)offset, n < 60 ? (int)n : 60, ending, last_name(c), (long long)size,
				c->o->elements[k]);
		c->found_parts |= 1ull << k;
		c->parts[k] = (struct stk_sample_part){offset, size};
		c->t->header_hashes[(c->t->size - 1) * c->t->parts_each + k] = header_hash;
	}
	return STK_OK;
}

/* ---- from the archive ---- */

/* The stem ends before the first dot after the last slash. Without a dot, it is the whole name. */
size_t stk__webdataset_stem(const char *name)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strchr(base, '.');
	return dot ? (size_t)(dot - name) : strlen(name);
}

bool stk__webdataset_is_link(const char *name)
{
	size_t n = strlen(name);
	return n && name[n - 1] == '/';
}

/* Returns the ending in the name of a symbolic link, and sets *n to its length. */
static const char *link_ending(const char *name, size_t *n)
{
	const char *end = name + strlen(name) - 1, *base = end;
	while (base > name && base[-1] != '/')
		base--;
	const char *dot = memchr(base, '.', (size_t)(end - base)), *ending = dot ? dot + 1 : base;
	*n = (size_t)(end - ending);
	return ending;
}

/* Refuses a symbolic link in place of a component that is read. Others, such as README.md or a folder "v1.0", matter to no sample. */
static enum stk_status check_link(const struct stk_collect *c, const struct stk_archive_member *m)
{
	size_t n;
	const char *ending = link_ending(m->name, &n);
	for (int32_t k = 0; k < c->o->part_count; k++)
		if (is_wanted(c->o->endings[k], ending, n, c->o->ignore_case))
			return stk__fail(c->err, STK_UNSUPPORTED,
				"%.200s, at byte %lld: a symbolic link, \"%.*s\", whose bytes are not in the archive: pack it again with tar's "
				"--dereference",
				c->t->archives[c->archive], (long long)m->offset - BLOCK, (int)strnlen(m->name, 251) - 1, m->name);
	return STK_OK;
}

/* Returns the ending in a file's name, and sets *stem to the length of the part that identifies the sample. A name without a dot is its own ending, as in
 * DALI. NULL: a hidden file, which belongs to no sample. */
static const char *ending_of(const char *name, size_t *stem)
{
	*stem = stk__webdataset_stem(name);
	if (*stem == 0 || name[*stem - 1] == '/')
		return NULL;
	return name[*stem] ? name + *stem + 1 : name;
}

void stk__components_count(struct stk_components *c, const char *name)
{
	size_t n;
	const bool is_link = stk__webdataset_is_link(name);
	const char *ending = is_link ? link_ending(name, &n) : ending_of(name, &n);
	if (ending)
		count_ending(c, ending, is_link ? n : strlen(ending));
}

enum stk_status stk__collect_file(void *user, const struct stk_archive_member *m, struct stk_error *err)
{
	struct stk_collect *c = user;
	size_t stem;
	c->err = err;
	if (stk__webdataset_is_link(m->name))
		return check_link(c, m);
	const char *ending = ending_of(m->name, &stem);
	if (!ending)
		return STK_OK;
	bool goes_on = c->open && stk__webdataset_stem(last_name(c)) == stem && memcmp(last_name(c), m->name, stem) == 0;
	enum stk_status s = goes_on ? STK_OK : end_sample(c);
	if (!s && !goes_on) {
		c->begin = m->offset;
		s = begin_sample(c, m->name, strlen(m->name));
	}
	return s ? s : add_component(c, ending, strlen(ending), m->offset, m->size, m->header_hash);
}

enum stk_status stk__collect_begin(const struct stk_webdataset_options *o, int32_t archive, struct stk_samples *t,
	struct stk_components *components, struct stk_collect **out, struct stk_error *err)
{
	struct stk_collect *c = *out = stk__alloc(sizeof *c);
	if (!c)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the samples of %.200s", o->paths[archive]);
	*c = (struct stk_collect){.o = o, .t = t, .there = components, .archive = archive};
	return STK_OK;
}

int64_t stk__collect_complete(const struct stk_collect *c)
{
	return c->t->size - c->open;
}

int64_t stk__collect_begun(const struct stk_collect *c)
{
	return c->begin;
}

enum stk_status stk__collect_last(struct stk_collect *c, struct stk_error *err)
{
	c->err = err;
	return end_sample(c);
}

void stk__collect_end(struct stk_collect *c)
{
	stk__free(c);
}

enum stk_status stk__webdataset_add(const struct stk_webdataset_options *o, int32_t archive, const struct stk_archive_index *index,
	struct stk_samples *t, struct stk_components *components, struct stk_error *err)
{
	struct stk_collect c = {.o = o, .t = t, .there = components, .archive = archive};
	enum stk_status s = stk__archive_index_each(index, stk__collect_file, &c, err);
	return s ? s : stk__collect_last(&c, err);
}

/* ---- from an index ---- */

struct word {
	const char *at;
	size_t n;
};

/* Returns the next word of a line; n 0: the line has no more words. */
static struct word next_word(const char **at, const char *end)
{
	while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r'))
		++*at;
	struct word w = {*at, 0};
	while (*at < end && **at != ' ' && **at != '\t' && **at != '\r')
		++*at;
	w.n = (size_t)(*at - w.at);
	return w;
}

static bool word_number(const char **at, const char *end, int64_t *out)
{
	struct word w = next_word(at, end);
	const char *digit = w.at;
	return stk__take_number(&digit, w.at + w.n, out) && digit == w.at + w.n;
}

static enum stk_status parse_sample(struct stk_collect *c, const char *at, const char *end, bool named)
{
	enum stk_status s = STK_OK;
	bool any = false;
	for (struct word ending; s == STK_OK && (ending = next_word(&at, end)).n; any = true) {
		int64_t offset, size, last;
		struct word name = {"", 0};
		if (!word_number(&at, end, &offset) || !word_number(&at, end, &size))
			return bad_index(c, "an ending without an offset and a size after it");
		if (named && !(name = next_word(&at, end)).n)
			return bad_index(c, "a component without a name, which version 1.2 has");
		if (offset % BLOCK || offset == 0 || __builtin_add_overflow(offset, size, &last))
			return bad_index(c, "a place that no file in a tar has: is it an index of wds2idx?");
		if (memchr(name.at, '\0', name.n))
			return bad_index(c, "a name with a zero byte");
		if (!any)
			s = begin_sample(c, name.at, name.n);
		if (!s)
			s = add_component(c, ending.at, ending.n, offset, size, 0);
	}
	if (s || !any)
		return s ? s : bad_index(c, "a sample without components");
	return end_sample(c);
}

static enum stk_status parse_head(struct stk_collect *c, const char *at, const char *end, bool *named, int64_t *count)
{
	struct word version = next_word(&at, end);
	*named = version.n == 4 && memcmp(version.at, "v1.2", 4) == 0;
	if (!*named && !(version.n == 4 && memcmp(version.at, "v1.1", 4) == 0))
		return bad_index(c, "not an index of wds2idx of version 1.1 or 1.2: it begins with neither v1.1 nor v1.2");
	return word_number(&at, end, count) ? STK_OK : bad_index(c, "the number of samples is expected after the version");
}

enum stk_status stk__webdataset_parse_index(const struct stk_webdataset_options *o, int32_t archive, const char *text, size_t size,
	const char *path, struct stk_samples *t, struct stk_components *components, struct stk_error *err)
{
	struct stk_collect c = {.o = o, .t = t, .there = components, .archive = archive, .where = path, .err = err};
	bool named = false;
	int64_t count = 0;
	enum stk_status s = STK_OK;
	const char *at = text + stk__byte_order_mark(text, size), *end = text + size;
	for (; s == STK_OK && (at < end || c.line == 0) && c.line <= count; c.line++) {
		const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
		stop = stop ? stop : end;
		s = c.line == 0 ? parse_head(&c, at, stop, &named, &count) : parse_sample(&c, at, stop, named);
		at = stop + (stop < end);
	}
	if (!s && c.line <= count)
		s = stk__fail(err, STK_CORRUPT, "%.300s: it announces %lld samples and has %lld: it is cut short", path, (long long)count,
			(long long)c.line - 1);
	return s;
}

/* ---- all archives ---- */

/* Returns whether the archives have files with one of the endings, even if they did not become parts. Also returns true if `components` is full, since such
 * files may not have been counted. */
static bool is_there(const struct stk_components *components, const char *alternatives, bool ignore_case)
{
	bool found = components->more;
	for (int32_t i = 0; i < components->count; i++)
		found |= is_wanted(alternatives, components->at[i].ending, strlen(components->at[i].ending), ignore_case);
	return found;
}

enum stk_status stk__webdataset_check(
	const struct stk_webdataset_options *o, const struct stk_components *components, struct stk_error *err)
{
	for (int32_t k = 0; o->missing == STK_MISSING_DEFAULT && k < o->part_count; k++) {
		if (!o->endings[k][0] || is_there(components, o->endings[k], o->ignore_case))
			continue;
		char names[300] = "none";
		size_t n = 0;
		for (int32_t i = 0; i < components->count && n + 60 < sizeof names; i++)
			n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", components->at[i].ending);
		return stk__fail(err, STK_NOT_FOUND,
			"%.200s%s: no sample has a component \"%.60s\"; there are: %s. For empty outputs say missing_component_behavior=\"empty\"",
			o->paths[0], o->path_count > 1 ? " and the others" : "", o->endings[k], names);
	}
	return STK_OK;
}

static enum stk_status see_end(void *user, const struct stk_archive_member *m, struct stk_error *err)
{
	int64_t *end = user;
	(void)err;
	*end = m->offset + m->size;
	return STK_OK;
}

bool stk__tar_has_end(const struct stk_archive_index *tar)
{
	int64_t end = 0;
	return stk__archive_index_each(tar, see_end, &end, NULL) || end <= tar->size - BLOCK;
}

void stk__webdataset_unended(const char *tar, const char *more, char text[400])
{
	snprintf(text, 400,
		"%.200s%s: it ends without the blocks of zeros that end a tar: if it was cut short, or is still being written, samples are missing",
		tar, more);
}

static void notify_missing_ends(const struct stk_webdataset_options *o, const struct stk_archives *tars)
{
	int32_t first = -1, count = 0;
	char text[400], more[40] = "";
	for (int32_t i = 0; i < tars->count; i++) {
		bool ends = stk__tar_has_end(&tars->at[i]);
		first = !ends && first < 0 ? i : first;
		count += !ends;
	}
	if (first < 0)
		return;
	if (count > 1)
		snprintf(more, sizeof more, " and %d others", count - 1);
	stk__webdataset_unended(tars->at[first].path, more, text);
	o->access->notice(o->access->notice_user, text);
}

void stk__webdataset_say_cut(struct stk_error *err)
{
	const size_t n = strlen(err->message);
	snprintf(err->message + n, sizeof err->message - n,
		"; the tar ends without the blocks of zeros that end one: it may have been cut short");
}

bool stk__webdataset_doubles(const struct stk_components *components, char text[400])
{
	snprintf(text, 400,
		"%lld files of tars are passed over, since their samples have one of the same ending already, as that of %s: samples that follow "
		"each other need different names",
		(long long)components->doubles, components->double_name);
	return components->doubles > 0;
}

static enum stk_status open_indexed(
	const struct stk_webdataset_options *o, struct stk_samples *out, struct stk_components *components, struct stk_error *err)
{
	enum stk_status s = stk__samples_init(out, o->paths, o->path_count, o->part_count, err);
	for (int32_t i = 0; i < o->path_count && s == STK_OK; i++) {
		uint8_t *text = NULL;
		size_t size;
		s = stk__access_read(o->access, o->index_paths[i], (size_t)1 << 40, &text, &size, err);
		if (!s)
			s = stk__webdataset_parse_index(o, i, (const char *)text, size, o->index_paths[i], out, components, err);
		stk__free(text);
	}
	return s;
}

static enum stk_status open_searched(
	const struct stk_webdataset_options *o, struct stk_samples *out, struct stk_components *components, struct stk_error *err)
{
	struct stk_archives tars;
	char text[400];
	enum stk_status s = stk__archives_open(STK_ARCHIVE_TAR, o->access, o->paths, o->path_count, NULL, &tars, err);
	if (s)
		return s;
	s = stk__archives_samples(&tars, o->part_count, out, err);
	for (int32_t i = 0; i < tars.count && s == STK_OK; i++) {
		s = stk__webdataset_add(o, i, &tars.at[i], out, components, err);
		if (s && err && !stk__tar_has_end(&tars.at[i]))
			stk__webdataset_say_cut(err);
	}
	if (!s && o->access && o->access->notice) {
		notify_missing_ends(o, &tars);
		if (tars.count && stk__pack_is_unfinished(tars.at[0].path, text))
			o->access->notice(o->access->notice_user, text);
	}
	stk__archives_free(&tars);
	return s;
}

enum stk_status stk__webdataset_open(const struct stk_webdataset_options *o, struct stk_samples *out, struct stk_error *err)
{
	struct stk_components *components = stk__calloc(1, sizeof *components);
	char text[400];
	*out = (struct stk_samples){0};
	if (!components)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to open %.200s", o->paths[0]);
	enum stk_status s = o->index_paths ? open_indexed(o, out, components, err) : open_searched(o, out, components, err);
	if (!s)
		s = stk__webdataset_check(o, components, err);
	if (!s && o->access && o->access->notice && stk__webdataset_doubles(components, text))
		o->access->notice(o->access->notice_user, text);
	stk__free(components);
	if (s)
		stk__samples_free(out);
	return s;
}
