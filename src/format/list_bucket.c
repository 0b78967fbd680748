/* SPDX-License-Identifier: Apache-2.0
 * Class folders of a bucket: "folders" are what keys have in common up to a slash. Each class is listed by itself, many at a time; a class's own pages come
 * one after the other, since only a page tells where the next begins. Classes and files then come in the order that a local tree has. */
#include "format/list_census.h"
#include "format/s3_page.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/s3.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { AT_A_TIME = 64 };

/* The pages below one prefix. */
struct listing {
	struct bucket *bucket;
	struct listing *next;   /* of those whose page has come */
	const char *class_name; /* NULL: the root */
	char *prefix;
	struct stk_file_list files; /* by their names from the prefix on */
	struct stk_text uri, token;
	struct stk_request request;
	bool asked; /* the request is under way */
};

struct bucket {
	struct stk_io *io;
	const struct stk_file_list_options *options;
	char name[256];
	struct stk_list_census census;
	struct stk_file_list classes; /* found in the root */
	int64_t objects;              /* met at all */
	bool given_up;
	pthread_mutex_t lock;
	pthread_cond_t come;
	struct listing *pages; /* with the lock */
};

/* ---- entries ---- */

static const char *last_part(const char *name)
{
	const char *slash = strrchr(name, '/');
	return slash ? slash + 1 : name;
}

/* What lies behind the prefix, NULL for the prefix itself and for what the store should not have sent. */
static const char *below(const struct listing *l, const char *key)
{
	size_t n = strlen(l->prefix);
	return strncmp(key, l->prefix, n) == 0 && key[n] ? key + n : NULL;
}

/* Keys that end in a slash stand for folders: what some tools put there so that empty ones can be seen. */
static enum stk_status take_object(void *user, const char *key, struct stk_list_object object, struct stk_error *err)
{
	struct listing *l = user;
	struct bucket *b = l->bucket;
	const char *name = below(l, key);
	b->objects++;
	if (!name || name[strlen(name) - 1] == '/')
		return STK_OK;
	if (!l->class_name)
		stk__census_beside(&b->census, b->options, name);
	else if (stk__list_wants(b->options, last_part(name)))
		return stk__list_add_sized(&l->files, name, strlen(name), object, err);
	else
		stk__census_other(&b->census, last_part(name));
	return STK_OK;
}

static enum stk_status take_prefix(void *user, const char *prefix, struct stk_error *err)
{
	struct listing *l = user;
	struct bucket *b = l->bucket;
	char folder[STK_S3_LONGEST_KEY + 1];
	const char *name = below(l, prefix);
	b->objects++;
	if (!name)
		return STK_OK;
	snprintf(folder, sizeof folder, "%.*s", (int)strlen(name) - (name[strlen(name) - 1] == '/'), name);
	if (l->class_name) {
		stk__census_folder(&b->census, l->class_name);
		return STK_OK;
	}
	if (stk__list_wants_class(b->options, folder))
		return stk__list_add_file(&b->classes, folder, strlen(folder), err);
	b->census.left_out++;
	return STK_OK;
}

/* ---- pages ---- */

static void page_came(struct stk_request *r)
{
	struct listing *l = r->user;
	struct bucket *b = l->bucket;
	pthread_mutex_lock(&b->lock);
	l->next = b->pages;
	b->pages = l;
	pthread_cond_signal(&b->come);
	pthread_mutex_unlock(&b->lock);
}

/* NULL: whoever waits for the listing gives it up. */
static struct listing *wait_page(struct bucket *b)
{
	bool on = true;
	pthread_mutex_lock(&b->lock);
	while (!b->pages && on)
		on = stk__access_wait(b->given_up ? NULL : b->options->access, &b->come, &b->lock);
	struct listing *l = b->pages;
	if (l)
		b->pages = l->next;
	pthread_mutex_unlock(&b->lock);
	return l;
}

/* Requests that are under way end with STK_CANCELLED, and are waited for as ever. */
static enum stk_status give_up(struct bucket *b, struct listing *listings, int64_t begun, struct stk_error *err)
{
	b->given_up = true;
	for (int64_t i = 0; i < begun; i++)
		if (listings[i].asked)
			stk__io_cancel(b->io, &listings[i].request);
	return stk__fail(err, STK_CANCELLED, "%s: listing it was interrupted", b->options->file_root);
}

static enum stk_status ask_page(struct listing *l, struct stk_error *err)
{
	struct bucket *b = l->bucket;
	l->uri.length = 0;
	bool deep = l->class_name && b->options->nested;
	stk__s3_list_uri(&l->uri, b->options->file_root, b->name, l->prefix, deep ? "" : "/", l->token.length ? l->token.s : NULL);
	if (l->uri.failed)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to list %s", b->options->file_root);
	l->request = (struct stk_request){.uri = l->uri.s, .length = -1, .done = page_came, .user = l};
	l->asked = true;
	stk__io_submit(b->io, &l->request);
	return STK_OK;
}

/* Reports the message of the request's error, with the name that the user gave. */
static enum stk_status page_failed(struct listing *l, struct stk_error *err)
{
	struct stk_request *r = &l->request;
	const char *text = r->error ? r->error->message : "out of memory";
	size_t n = strlen(r->uri);
	bool named = strncmp(text, r->uri, n) == 0 && text[n] == ':';
	enum stk_status status = stk__fail(err, r->status == STK_NOT_FOUND ? STK_IO : r->status, "%s: listing %s failed: %s",
		l->bucket->options->file_root, *l->prefix ? l->prefix : "it", named ? text + n + 2 : text);
	stk__free(r->error);
	return status;
}

static enum stk_status take_page(struct listing *l, struct stk_error *err)
{
	struct stk_request *r = &l->request;
	if (r->status)
		return page_failed(l, err);
	const struct stk_s3_visitor visitor = {l, take_object, take_prefix};
	enum stk_status status =
		stk__s3_page_parse((const char *)r->data, r->size, l->bucket->options->file_root, &visitor, &l->token, err);
	stk__buffer_release(l->bucket->io, r->buffer);
	stk__free(r->error); /* of a try before */
	return status;
}

/* Lists `count` prefixes to their ends. After a failure what is under way is waited for, and nothing is begun. */
static enum stk_status list_all(struct bucket *b, struct listing *listings, int64_t count, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	int64_t begun = 0;
	for (int under_way = 0; under_way || (begun < count && !status);) {
		while (!status && begun < count && under_way < AT_A_TIME && !(status = ask_page(&listings[begun], err))) {
			begun++;
			under_way++;
		}
		if (!under_way)
			break;
		struct listing *l = wait_page(b);
		struct stk_error why = {0};
		if (!l) {
			status = give_up(b, listings, begun, err);
			continue;
		}
		l->asked = false;
		enum stk_status page = take_page(l, &why);
		if (!page && !status && l->token.length && !(page = ask_page(l, &why)))
			continue;
		under_way--;
		if (page && !status) {
			status = page;
			if (err)
				*err = why;
		}
	}
	return status;
}

/* ---- the tree ---- */

static bool begin_listing(struct listing *l, struct bucket *b, const char *root, const char *class_name)
{
	struct stk_text prefix = {0};
	stk__text_add(&prefix, "%s%s%s%s", root, *root ? "/" : "", class_name ? class_name : "", class_name ? "/" : "");
	*l = (struct listing){.bucket = b, .class_name = class_name, .prefix = prefix.s, .files = {.sized = true}};
	return !prefix.failed;
}

static void end_listing(struct listing *l)
{
	stk__free(l->prefix);
	stk__free(l->files.names);
	stk__free(l->files.files);
	stk__text_free(&l->uri);
	stk__text_free(&l->token);
}

static enum stk_status find_classes(struct bucket *b, const char *prefix, const struct stk_file_list *l, struct stk_error *err)
{
	struct listing root;
	enum stk_status status = begin_listing(&root, b, prefix, NULL) ? list_all(b, &root, 1, err)
								       : stk__fail(err, STK_NO_MEMORY, "out of memory to list %s", l->root);
	end_listing(&root);
	if (!status && !b->objects)
		status = stk__fail(err, STK_INVALID, "%s: the bucket has no object whose key begins with \"%s%s\"", l->root, prefix,
			*prefix ? "/" : "");
	if (!status && b->classes.size == 0)
		status = stk__census_no_classes(&b->census, l, err);
	if (!status && b->classes.size > INT32_MAX)
		status = stk__fail(err, STK_LIMIT, "%s: %lld class folders", l->root, (long long)b->classes.size);
	stk__list_sort(&b->classes, 0, false);
	return status;
}

static enum stk_status add_class(struct stk_file_list *l, struct bucket *b, const struct listing *c, struct stk_error *err)
{
	int64_t first = l->size;
	enum stk_status status = stk__list_add_folder(l, c->class_name, err);
	for (int64_t i = 0; i < c->files.size && !status; i++) {
		const char *name = c->files.names + c->files.files[i];
		status = stk__list_add_sized(l, name, strlen(name), stk__list_object(&c->files, i), err);
	}
	return status ? status : stk__list_end_class(l, b->options, &b->census, first, c->class_name, err);
}

static enum stk_status list_classes(struct bucket *b, const char *prefix, struct stk_file_list *l, struct stk_error *err)
{
	const int64_t n = b->classes.size, beside = b->census.images;
	struct listing *listings = stk__calloc((size_t)n, sizeof *listings);
	enum stk_status status = STK_OK;
	b->census = (struct stk_list_census){0};
	l->sized = true;
	for (int64_t i = 0; i < n && listings && !status; i++)
		if (!begin_listing(&listings[i], b, prefix, b->classes.names + b->classes.files[i]))
			status = STK_NO_MEMORY;
	if (!listings || status)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory to list %s", l->root);
	if (!status)
		status = list_all(b, listings, n, err);
	for (int64_t i = 0; i < n && !status; i++)
		status = add_class(l, b, &listings[i], err);
	for (int64_t i = 0; i < n && listings; i++)
		end_listing(&listings[i]);
	stk__free(listings);
	return status ? status : stk__census_end(&b->census, l, b->options, beside, err);
}

enum stk_status stk__list_read_bucket(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err)
{
	struct bucket b = {.options = o};
	if (!stk__s3_bucket(l->root, b.name))
		return stk__fail(
			err, STK_INVALID, "%s: it names no bucket (%.*s://BUCKET/PREFIX)", l->root, (int)strcspn(l->root, ":"), l->root);
	const char *prefix = strstr(l->root, "://") + 3 + strlen(b.name);
	prefix += *prefix == '/';
	struct stk_storage *storage;
	enum stk_status status = stk__access_open(o->access, l->root, &storage, err);
	if (status)
		return status;
	b.io = stk__storage_io(storage);
	pthread_mutex_init(&b.lock, NULL);
	pthread_cond_init(&b.come, NULL);
	status = find_classes(&b, prefix, l, err);
	if (!status)
		status = list_classes(&b, prefix, l, err);
	stk__free(b.classes.names);
	stk__free(b.classes.files);
	stk_storage_unref(&storage);
	pthread_cond_destroy(&b.come);
	pthread_mutex_destroy(&b.lock);
	return status;
}
