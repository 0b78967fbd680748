/* SPDX-License-Identifier: Apache-2.0
 * A small object store for tests, on loopback alone: GET with ranges and If-Match, ListObjectsV2, signatures checked by code of its own on OpenSSL, and
 * faults on command. One thread, epoll. Also a program (main.c). */
#ifndef TEST_S3_SERVER_H
#define TEST_S3_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct s3_server;

/* What may be asked for, by name: probabilities of what happens to a request of an object, and numbers.
 *
 *   p503 p500 p403          an error with its XML instead of the object
 *   reset truncate stall    half of the body, then RST; then FIN; then nothing
 *   change                  half of the body, then FIN; from then on the object has another ETag
 *   length                  Content-Length is twice what comes
 *   trickle                 the body comes in drops of 64 bytes
 *   silent                  no answer at all
 *   latency_ms jitter_ms    before the first byte
 *   page                    keys in a page of a listing, at most
 *   many                    requests under way above which all others get 503
 *   deaf                    a listing begins at its prefix, whatever start-after says
 *   untagged                objects have no ETag, and say when they last changed; 2: nor that, and a change makes them shorter
 *   reverse                 the entries of a page are in the order of their keys from the end
 *   seed                    of the draws */
enum s3_knob {
	S3_P503,
	S3_P500,
	S3_P403,
	S3_RESET,
	S3_TRUNCATE,
	S3_STALL,
	S3_CHANGE,
	S3_LENGTH,
	S3_TRICKLE,
	S3_SILENT,
	S3_FAULTS, /* how many are faults: the rest are numbers */
	S3_LATENCY_MS = S3_FAULTS,
	S3_JITTER_MS,
	S3_PAGE,
	S3_MANY,
	S3_DEAF,
	S3_REVERSE,
	S3_UNTAGGED,
	S3_SEED,
	S3_KNOBS
};

/* root: ROOT/BUCKET/KEY are the objects; NULL: none but those that are put. key NULL: anyone may ask. region: of all buckets, NULL: any will do.
 * Port 0: any that is free. NULL: it does not start. */
struct s3_server *s3_server_start(const char *root, int port, const char *key, const char *secret, const char *token, const char *region);
void s3_server_stop(struct s3_server *s);
int s3_server_port(const struct s3_server *s);
/* "bucket/key". The data are copied. */
void s3_server_put(struct s3_server *s, const char *path, const void *data, size_t size);
/* "p503=0.1&seed=3": sets what is named and resets the rest. False: a name is unknown. */
bool s3_server_set(struct s3_server *s, const char *settings);

/* The body of the last request that had one: up to 4095 bytes, larger ones are refused. */
void s3_server_posted(struct s3_server *s, char *out, size_t capacity);

struct s3_counts {
	uint64_t requests, faults, refused, connections; /* refused: by the check of signatures */
	uint64_t most_under_way;
};
struct s3_counts s3_server_counts(struct s3_server *s);

#endif
