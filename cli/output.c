/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "command.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void put_text(json_t *object, const char *key, const char *value)
{
	json_t *text = json_string(value);
	if (!text) { /* file names are bytes, JSON is UTF-8 */
		char copy[4096];
		size_t n = 0;
		for (; value[n] && n + 1 < sizeof(copy); n++)
			copy[n] = (signed char)value[n] < 0 ? '?' : value[n];
		copy[n] = '\0';
		text = json_string(copy);
	}
	json_object_set_new(object, key, text);
}

void put_int(json_t *object, const char *key, int64_t value)
{
	json_object_set_new(object, key, json_integer(value));
}

void put_real(json_t *object, const char *key, double value)
{
	json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

void put_bool(json_t *object, const char *key, bool value)
{
	json_object_set_new(object, key, json_boolean(value));
}

int print_json(json_t *value)
{
	int failed = !value || json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12) | JSON_ENCODE_ANY);
	json_decref(value);
	putchar('\n');
	return failed ? EXIT_PROBLEM : EXIT_FINE;
}
