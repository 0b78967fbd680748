/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON on stdout. Keys are printed in the order in which they were added. If memory ran out for a value, print_json fails. */
#ifndef STOKER_CLI_OUTPUT_H
#define STOKER_CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns a text as JSON. A byte 0xNN that is not part of valid UTF-8 is printed as \udcNN, which Python's json.loads followed by os.fsencode turns into the
 * same byte again. Keys are printed in the same way. */
json_t *text_json(const char *value);
void put_text(json_t *object, const char *key, const char *value);
void put_int(json_t *object, const char *key, int64_t value);
void put_real(json_t *object, const char *key, double value); /* writes null if the value is not finite */
void put_bool(json_t *object, const char *key, bool value);

/* Prints a key of an object as text, with the bytes that it had when it was added. */
void print_key(const char *key);

/* Prints a value and frees it; returns an enum exit_code. */
int print_json(json_t *value);

#endif
