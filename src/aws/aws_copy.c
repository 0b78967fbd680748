/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies settings of object stores, compares their issuers, and erases their strings from memory when they are freed. */
#include "aws/aws.h"

#include "base/memory.h"
#include "base/secret.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The offsets of the strings that are not secret in each struct. */
static const size_t settings_strings[] = {offsetof(struct stk_aws_settings, endpoint), offsetof(struct stk_aws_settings, region),
	offsetof(struct stk_aws_settings, ca_bundle), offsetof(struct stk_aws_settings, proxy), offsetof(struct stk_aws_settings, key),
	offsetof(struct stk_aws_settings, profile)};
static const size_t issuer_strings[] = {offsetof(struct stk_aws_issuer, endpoint), offsetof(struct stk_aws_issuer, role),
	offsetof(struct stk_aws_issuer, session), offsetof(struct stk_aws_issuer, external_id), offsetof(struct stk_aws_issuer, seconds),
	offsetof(struct stk_aws_issuer, token_file), offsetof(struct stk_aws_issuer, key), offsetof(struct stk_aws_issuer, account),
	offsetof(struct stk_aws_issuer, renewal), offsetof(struct stk_aws_issuer, profile), offsetof(struct stk_aws_issuer, region)};
/* The offsets of the strings that are secret, which are allocated with base/secret.h. */
static const size_t settings_secrets[] = {offsetof(struct stk_aws_settings, secret), offsetof(struct stk_aws_settings, token)};
static const size_t issuer_secrets[] = {offsetof(struct stk_aws_issuer, secret), offsetof(struct stk_aws_issuer, token)};
enum { SECRETS = 2 };
enum { SETTINGS = sizeof settings_strings / sizeof *settings_strings, ISSUER = sizeof issuer_strings / sizeof *issuer_strings };

static char **string_at(const void *s, size_t offset)
{
	return (char **)((uintptr_t)s + offset);
}

static void clear_strings(void *s, const size_t *offsets, int n, void (*release)(char *text))
{
	for (int i = 0; i < n; i++) {
		char **text = string_at(s, offsets[i]);
		release(*text);
		*text = NULL;
	}
}

/* Replaces the strings in `s`, which still belong to another struct, with copies. Returns false if memory is short; strings that were not copied are NULL. */
static bool own_strings(void *s, const size_t *offsets, int n, char *(*copy_of)(const char *text))
{
	bool ok = true;
	for (int i = 0; i < n; i++) {
		char **text = string_at(s, offsets[i]), *copy = *text ? copy_of(*text) : NULL;
		ok &= !*text || copy;
		*text = copy;
	}
	return ok;
}

void stk__aws_issuer_clear(struct stk_aws_issuer *i)
{
	if (i->base)
		stk__aws_issuer_clear(i->base);
	stk__free(i->base);
	clear_strings(i, issuer_strings, ISSUER, stk__erase_free);
	clear_strings(i, issuer_secrets, SECRETS, stk__secret_free);
	*i = (struct stk_aws_issuer){0};
}

static bool copy_issuer(const struct stk_aws_issuer *from, struct stk_aws_issuer *to)
{
	*to = *from;
	bool ok = own_strings(to, issuer_strings, ISSUER, stk__strdup);
	ok &= own_strings(to, issuer_secrets, SECRETS, stk__secret_copy);
	if (!from->base)
		return ok;
	to->base = stk__calloc(1, sizeof *to->base);
	return to->base && copy_issuer(from->base, to->base) && ok;
}

void stk__aws_settings_clear(struct stk_aws_settings *s)
{
	clear_strings(s, settings_strings, SETTINGS, stk__erase_free);
	clear_strings(s, settings_secrets, SECRETS, stk__secret_free);
	stk__aws_issuer_clear(&s->issuer);
	*s = (struct stk_aws_settings){0};
}

bool stk__aws_settings_copy(const struct stk_aws_settings *from, struct stk_aws_settings *to)
{
	*to = *from;
	bool ok = own_strings(to, settings_strings, SETTINGS, stk__strdup);
	ok &= own_strings(to, settings_secrets, SECRETS, stk__secret_copy);
	return copy_issuer(&from->issuer, &to->issuer) && ok;
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool stk__aws_issuer_equal(const struct stk_aws_issuer *a, const struct stk_aws_issuer *b)
{
	bool equal = a->kind == b->kind && !a->base == !b->base;
	for (int i = 0; i < ISSUER && equal; i++)
		equal = same(*string_at(a, issuer_strings[i]), *string_at(b, issuer_strings[i]));
	for (int i = 0; i < SECRETS && equal; i++)
		equal = same(*string_at(a, issuer_secrets[i]), *string_at(b, issuer_secrets[i]));
	return equal && (!a->base || stk__aws_issuer_equal(a->base, b->base));
}
