/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes and errors.
 *
 * Every function that can fail returns enum stk_status and takes a nullable struct stk_error * last. There is no other error state: no
 * globals, no thread-locals. A status must not be ignored.
 *
 * Unless its comment says otherwise, a function checks its arguments: a NULL that the header does not allow, a number outside its enumeration, a size or a
 * time out of range give STK_INVALID, with a message that names it. Functions that return something else then return NULL, 0, -1 or false. */
#ifndef STOKER_STATUS_H
#define STOKER_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define STK_API __attribute__((visibility("default")))
#define STK_MUST_USE __attribute__((warn_unused_result))
#else
#define STK_API
#define STK_MUST_USE
#endif

/* The enum, the names and the texts are made from this list. Values never change: a new code is added at the end. */
#define STK_STATUS_LIST(X)                                                                                                                 \
	X(OK, "success")                                                                                                                   \
	X(END, "end of the epoch")                                                                                                         \
	X(INVALID, "invalid argument")                                                                                                     \
	X(NOT_FOUND, "not found")                                                                                                          \
	X(IO, "input/output error")                                                                                                        \
	X(CORRUPT, "damaged data")                                                                                                         \
	X(UNSUPPORTED, "not supported")                                                                                                    \
	X(LIMIT, "over a limit")                                                                                                           \
	X(NO_MEMORY, "out of memory")                                                                                                      \
	X(SHAPE, "shapes do not fit")                                                                                                      \
	X(STATE, "wrong state")                                                                                                            \
	X(TIMEOUT, "timed out")                                                                                                            \
	X(CANCELLED, "cancelled")                                                                                                          \
	X(USER, "a user's callback failed")                                                                                                \
	X(SYSTEM, "a system call failed")                                                                                                  \
	X(CUDA, "a CUDA call failed")

enum stk_status {
#define STK_STATUS_ENUM(name, text) STK_##name,
	STK_STATUS_LIST(STK_STATUS_ENUM)
#undef STK_STATUS_ENUM
};

/* An error: what failed, where, and advice. The caller owns the struct; functions fill it only on failure. Strings end with NUL and are cut to fit.
 * Zero-initialise it: struct stk_error err = {0}. */
struct stk_error {
	enum stk_status code;
	bool missing;       /* the code is STK_NOT_FOUND because a file, folder or object does not exist */
	int64_t sample;     /* position in the epoch's global sequence, or -1 */
	int64_t epoch;      /* number of the epoch, or -1 */
	int64_t offset;     /* byte offset in the source, or -1 */
	char op[256];       /* operator, and where the user wrote it ("decoders.image at train.py:31"), or "" */
	char uri[512];      /* the sample's file or object, or "" */
	char message[1024]; /* the complete message for the user */
};

/* Return the name of a status ("INVALID", "IO", ...) and a short text. Any thread. Never NULL. */
STK_API const char *stk_status_name(enum stk_status status);
STK_API const char *stk_status_text(enum stk_status status);

/* Removes secrets from a text in place, so that it can be shown to anyone; this library's own messages need no such treatment. URLs lose user, password and
 * query, and parameters such as X-Amz-Signature lose their values. Control characters become \xNN, and a line break becomes \n. capacity: size of the text's
 * memory; what no longer fits is cut. Does nothing if the text is NULL. Any thread. */
STK_API void stk_text_make_safe(char *text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
