/* SPDX-License-Identifier: Apache-2.0
 * The inside of the test server. */
#ifndef TEST_S3_IMPL_H
#define TEST_S3_IMPL_H

#include "s3_server.h"

#include <pthread.h>

struct s3_text {
	char *s;
	size_t n, capacity;
};
void s3_text_add(struct s3_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct s3_object {
	char *path; /* "bucket/key" */
	char *file; /* NULL: data */
	uint8_t *data;
	size_t size;
	uint32_t version, asked; /* version: part of the ETag; asked: how often */
};

struct s3_store {
	struct s3_object **objects; /* sorted by path, as bytes */
	size_t count, capacity;
};
void s3_store_load(struct s3_store *s, const char *root);
void s3_store_put(struct s3_store *s, const char *path, const char *file, const void *data, size_t size);
struct s3_object *s3_store_find(const struct s3_store *s, const char *path);
bool s3_store_has_bucket(const struct s3_store *s, const char *bucket);
/* Without quotes. */
void s3_etag(const struct s3_object *o, char out[32]);
void s3_store_free(struct s3_store *s);
/* The XML of a page. */
void s3_store_list(const struct s3_store *s, const char *bucket, const char *query, const double *knobs, struct s3_text *out);

/* The value of a parameter of a query, decoded; false: it is not there. */
bool s3_query(const char *query, const char *name, char *out, size_t capacity);
void s3_decode(char *out, const char *s, size_t n, bool plus);

struct s3_keys {
	const char *id, *secret, *token, *region;
};
/* method, raw path and query as they came; headers: the lines of the header; body: of a POST, which is for STS. NULL: all is well; else the code of the error. */
const char *s3_check_signature(
	const struct s3_keys *k, const char *method, const char *path, const char *query, const char *headers, const char *body);
/* The value of a header line, up to its end; false: it is not there. */
bool s3_header(const char *headers, const char *name, char *out, size_t capacity);

#endif
