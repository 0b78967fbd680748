/* SPDX-License-Identifier: Apache-2.0
 * A small object store for tests, which only listens on the loopback interface: GET with ranges and If-Match, ListObjectsV2, a check of signatures that shares
 * no code with the library and uses OpenSSL, and faults on demand. It has one thread, with epoll. It is also a program (main.c). */
#ifndef TEST_S3_SERVER_H
#define TEST_S3_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct s3_server;

/* Settings, by name: probabilities of faults for each GET of an object, and numbers.
 *
 *   p503 p500 p403          an error with its XML instead of the object
 *   reset truncate stall    half of the body, then RST, FIN, or silence
 *   change                  half of the body, then FIN; from then on the object has another ETag
 *   length                  Content-Length is larger than the body
 *   trickle                 the body comes in drops of 64 bytes
 *   silent                  no response at all
 *   latency_ms jitter_ms    delay before the first byte of an object; latency_ms also delays a listing
 *   page                    maximum number of keys in a page of a listing
 *   many                    maximum number of concurrent requests; all others get 503
 *   deaf                    a listing begins at its prefix and ignores start-after
 *   untagged                1: objects have Last-Modified and no ETag; 2: they have neither, and a change makes them shorter
 *   reverse                 the entries of a page are in reverse order of their keys
 *   seed                    seed of the random draws */
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
	S3_FAULTS, /* number of faults; the settings that follow are numbers */
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

/* Starts a server. root: the folder that holds the objects as ROOT/BUCKET/KEY; NULL for a store that starts empty. key: NULL if requests need no signature.
 * region: of all buckets; NULL accepts any region. Port 0 chooses a free one. Returns NULL if the server cannot start. */
struct s3_server *s3_server_start(const char *root, int port, const char *key, const char *secret, const char *token, const char *region);
void s3_server_stop(struct s3_server *s);
int s3_server_port(const struct s3_server *s);
/* Stores an object at "bucket/key". Copies the data. */
void s3_server_put(struct s3_server *s, const char *path, const void *data, size_t size);
/* Sets the settings in a text like "p503=0.1&seed=3" and resets all others. Returns false if a name is unknown. */
bool s3_server_set(struct s3_server *s, const char *settings);

/* Returns the body of the last request that had one. The server refuses bodies of more than 4095 bytes. */
void s3_server_posted(struct s3_server *s, char *out, size_t capacity);

struct s3_counts {
	uint64_t requests, faults, refused, connections; /* refused: requests with a wrong signature */
	uint64_t most_under_way;
};
struct s3_counts s3_server_counts(struct s3_server *s);

#endif
