/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON on stdout, with keys in the order in which they were put. A value that could not be made (out of memory) makes print_json fail. */
#ifndef STOKER_CLI_OUTPUT_H
#define STOKER_CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A byte 0xNN of names that are no UTF-8 is printed as \udcNN, which os.fsencode of what Python's json.loads gives makes that byte again. Keys may be such
 * names, too. */
json_t *text_json(const char *value);
void put_text(json_t *object, const char *key, const char *value);
void put_int(json_t *object, const char *key, int64_t value);
void put_real(json_t *object, const char *key, double value); /* not finite: null */
void put_bool(json_t *object, const char *key, bool value);

/* Prints a key of an object as text, in the bytes that it was put with. */
void print_key(const char *key);

/* Prints and frees; returns an enum exit_code. */
int print_json(json_t *value);

#endif
