/* SPDX-License-Identifier: Apache-2.0
 * Internal declarations of the test server. */
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
	char *file; /* path of a file with the contents; NULL if they are in `data` */
	uint8_t *data;
	size_t size;
	uint32_t version, asked; /* version: part of the ETag; asked: number of requests */
};

struct s3_store {
	struct s3_object **objects; /* sorted by path, as bytes */
	size_t count, capacity;
};
void s3_store_load(struct s3_store *s, const char *root);
void s3_store_put(struct s3_store *s, const char *path, const char *file, const void *data, size_t size);
struct s3_object *s3_store_find(const struct s3_store *s, const char *path);
bool s3_store_has_bucket(const struct s3_store *s, const char *bucket);
/* Writes the object's ETag, without quotes. */
void s3_etag(const struct s3_object *o, char out[32]);
void s3_store_free(struct s3_store *s);
/* Appends a page of the bucket's listing as XML to *out. query: the request's parameters. knobs: the server's settings, indexed by enum s3_knob. */
void s3_store_list(const struct s3_store *s, const char *bucket, const char *query, const double *knobs, struct s3_text *out);

/* Finds a parameter of a query by name and writes its decoded value to `out`. Returns false if the query does not have it. */
bool s3_query(const char *query, const char *name, char *out, size_t capacity);
void s3_decode(char *out, const char *s, size_t n, bool plus);

struct s3_keys {
	const char *id, *secret, *token, *region;
};
/* Checks a request's signature. method, raw path and query are as received; headers: the header's lines; body: of a POST, which is a request to STS. Returns
 * NULL if the signature is valid, else the error code. */
const char *s3_check_signature(
	const struct s3_keys *k, const char *method, const char *path, const char *query, const char *headers, const char *body);
/* Finds a header line by name and copies its value to `out`. Returns false if there is no such line. */
bool s3_header(const char *headers, const char *name, char *out, size_t capacity);

#endif
