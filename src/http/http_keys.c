/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads accounts, which are the settings and keys of a store, from the environment when a pipeline is made. A thread renews issued keys before they expire. */
#include "aws/aws_issue.h"
#include "aws/google.h"
#include "http/http_impl.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/xxhash.h"
#include "thread/thread.h"

#include <string.h>

/* EARLY_S: number of seconds before the keys expire at which they are renewed. AGAIN_S: minimum time in seconds between two attempts to renew them. SOON_S: the
 * same after a store has refused the keys. */
enum { EARLY_S = 600, AGAIN_S = 30, SOON_S = 2 };

struct stk_http_account *stk__http_read_account(const struct stk_http_settings *settings)
{
	const struct stk_aws_given *given = settings ? settings->given : NULL;
	struct stk_http_account *a = stk__calloc(1, sizeof *a);
	if (!a)
		return NULL;
	a->refs = 1;
	if (settings && settings->google ? stk__google_settings_read(given, &a->aws, &a->error)
					 : stk__aws_settings_read(given, &a->aws, &a->error))
		stk__aws_settings_clear(&a->aws);
	if (!stk__proxies_read(&a->proxies, given ? given->proxy : NULL)) {
		stk__http_account_unref(a);
		return NULL;
	}
	return a;
}

void stk__http_account_unref(struct stk_http_account *a)
{
	if (!a || atomic_fetch_sub(&a->refs, 1) != 1)
		return;
	stk__aws_settings_clear(&a->aws);
	stk__proxies_clear(&a->proxies);
	stk__free(a);
}

struct stk_http_account *stk__http_account(struct stk_http_source *s)
{
	pthread_mutex_lock(&s->lock);
	struct stk_http_account *a = s->account;
	atomic_fetch_add(&a->refs, 1);
	pthread_mutex_unlock(&s->lock);
	return a;
}

uint64_t stk__http_endpoint_hash(const struct stk_http_account *a)
{
	const char *endpoint = a->aws.endpoint;
	return endpoint ? stk__xxh64(endpoint, strlen(endpoint), 0) : 0;
}

/* Makes `a` the current account, with the next number, and releases the previous one. replaced: the account that `a` renews; if it is not current any more,
 * `a` is released instead. NULL: `a` always becomes current. */
static void use_account(struct stk_http_source *s, struct stk_http_account *a, const struct stk_http_account *replaced)
{
	pthread_mutex_lock(&s->lock);
	struct stk_http_account *old = s->account;
	if (replaced && old != replaced) {
		old = a;
	} else {
		a->aws.number = old->aws.number + 1;
		atomic_store(&s->endpoint_hash, stk__http_endpoint_hash(a));
		s->account = a;
	}
	pthread_mutex_unlock(&s->lock);
	stk__http_account_unref(old);
}

/* ---- renewal ---- */

static struct stk_http_account *renewed(struct stk_http_source *s, const struct stk_http_account *a)
{
	struct stk_http_account *n = stk__calloc(1, sizeof *n);
	if (!n)
		return NULL;
	n->refs = 1;
	if (stk__aws_settings_copy(&a->aws, &n->aws) && stk__proxies_copy(&n->proxies, &a->proxies) &&
		stk__aws_issue(&n->aws, &s->curl, &s->ending, NULL, NULL) == STK_OK)
		return n;
	stk__http_account_unref(n);
	return NULL;
}

/* Body of the thread that renews keys. Failures are not reported: the present keys may still be valid for minutes; when they expire, requests report it. */
static void *keep_keys(void *arg)
{
	struct stk_http_source *s = arg;
	int64_t last_attempt = 0;
	pthread_mutex_lock(&s->lock);
	while (!atomic_load(&s->ending)) {
		int64_t expires = s->account->aws.expires, renew_at = s->keys_refused ? 0 : expires - EARLY_S,
			not_before = last_attempt + (s->keys_refused ? SOON_S : AGAIN_S);
		renew_at = renew_at > not_before ? renew_at : not_before;
		if (!expires) {
			pthread_cond_wait(&s->keeper_wake, &s->lock);
			continue;
		}
		if (renew_at > (int64_t)time(NULL)) {
			struct timespec deadline = {renew_at, 0};
			pthread_cond_timedwait(&s->keeper_wake, &s->lock, &deadline);
			continue;
		}
		s->keys_refused = false;
		pthread_mutex_unlock(&s->lock);
		struct stk_http_account *a = stk__http_account(s), *n = renewed(s, a);
		if (n)
			use_account(s, n, a);
		stk__http_account_unref(a);
		pthread_mutex_lock(&s->lock);
		last_attempt = (int64_t)time(NULL);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* Starts the thread that renews keys. If that fails, keys are renewed when the next pipeline is made. */
static void start_keeper(struct stk_http_source *s)
{
	pthread_mutex_lock(&s->lock);
	if (!s->keeper_runs && !atomic_load(&s->ending))
		s->keeper_runs = !stk__thread_start(&s->keeper, "stoker-keys", keep_keys, s, NULL);
	pthread_cond_signal(&s->keeper_wake);
	pthread_mutex_unlock(&s->lock);
}

bool stk__http_keys_refused(struct stk_http_source *s, const struct stk_http_account *a)
{
	pthread_mutex_lock(&s->lock);
	const bool issued = a->aws.expires && s->keeper_runs;
	if (issued && a == s->account) { /* otherwise these keys were renewed already */
		s->keys_refused = true;
		pthread_cond_signal(&s->keeper_wake);
	}
	pthread_mutex_unlock(&s->lock);
	return issued;
}

void stk__http_keeper_join(struct stk_http_source *s)
{
	pthread_mutex_lock(&s->lock);
	pthread_cond_signal(&s->keeper_wake);
	pthread_mutex_unlock(&s->lock);
	if (s->keeper_runs)
		stk__thread_join(s->keeper);
}

/* ---- the environment ---- */

/* Copies the keys of the current account to `a` if both have the same issuer settings and the keys stay valid for EARLY_S seconds. Returns whether it did. */
static bool copy_current_keys(struct stk_http_source *s, struct stk_http_account *a)
{
	struct stk_http_account *old = stk__http_account(s);
	const struct stk_aws_settings *b = &old->aws;
	bool usable = b->key && b->expires > (int64_t)time(NULL) + EARLY_S && stk__aws_issuer_equal(&b->issuer, &a->aws.issuer);
	if (usable) {
		a->aws.key = stk__strdup(b->key);
		a->aws.secret = stk__secret_copy(b->secret);
		a->aws.token = stk__secret_copy(b->token);
		a->aws.expires = b->expires;
		a->aws.origin = b->origin;
		usable = a->aws.key && a->aws.secret;
	}
	stk__http_account_unref(old);
	return usable;
}

static void issue_keys(struct stk_http_source *s, struct stk_http_account *a, const struct stk_access *access)
{
	pthread_mutex_lock(&s->lock);
	enum stk_status status = s->curl.library ? STK_OK : stk__curl_load(&s->curl, &a->error);
	pthread_mutex_unlock(&s->lock);
	if (!status)
		status = stk__aws_issue(&a->aws, &s->curl, &s->ending, access, &a->error);
	if (status == STK_NOT_FOUND)
		/* no error here: a request without keys fails when it is signed, with a message about where to put keys */
		a->error = (struct stk_error){0};
}

static bool has_keys(const struct stk_http_account *a)
{
	return !a->error.code && (a->aws.anonymous || (a->aws.key && a->aws.secret));
}

static bool is_valid(const struct stk_http_account *a)
{
	return has_keys(a) && (!a->aws.expires || a->aws.expires > (int64_t)time(NULL));
}

/* Fails as a request for the URI of a store would fail with this account, which has no keys. */
static enum stk_status fail_without_keys(
	struct stk_http_source *s, const struct stk_http_account *a, const char *uri, struct stk_error *err)
{
	struct stk_http_target target = {0};
	enum stk_status status = a->error.code;
	if (status)
		return stk__fail(err, status, "%s: %s", uri, a->error.message);
	status = stk__s3_target(&target, &a->aws, NULL, uri, stk__http_now(s), err);
	stk__http_target_free(&target);
	return status;
}

/* Gives `a`, which was made for http:// and has no keys, the settings for stores of the account `old`. Returns false if memory is short. */
static bool copy_settings(struct stk_http_account *a, const struct stk_http_account *old)
{
	stk__aws_settings_clear(&a->aws);
	a->aws = (struct stk_aws_settings){0};
	a->error = (struct stk_error){0};
	return stk__aws_settings_copy(&old->aws, &a->aws);
}

/* Reads the environment again and uses its settings from now on. If the URI's store needs issued keys and the present ones expire soon, first gets new ones,
 * which may take seconds. If memory is short, or if the present keys are valid and the environment has none (a program that renews a file of keys may just
 * have truncated it), the settings stay as they were, because other pipelines use them. */
enum stk_status stk__http_refresh(void *source, const char *uri, const struct stk_access *access, struct stk_error *err)
{
	struct stk_http_source *s = source;
	struct stk_http_account *a = stk__http_read_account(&s->settings), *old;
	if (!a)
		return STK_OK;
	const struct stk_aws_settings *aws = &a->aws;
	const bool store = stk__s3_is_store(uri);
	bool needs_keys = store && !a->error.code && !aws->anonymous && !(aws->key && aws->secret) && aws->issuer.kind;
	if (needs_keys && !copy_current_keys(s, a))
		issue_keys(s, a, access);
	old = stk__http_account(s);
	const bool lost = !has_keys(a) && is_valid(old);
	const enum stk_status status = lost && store ? fail_without_keys(s, a, uri, err) : STK_OK;
	const bool ok = !status && (!lost || store || copy_settings(a, old));
	stk__http_account_unref(old);
	if (!ok) {
		stk__http_account_unref(a);
		return status;
	}
	bool expires = a->aws.expires;
	use_account(s, a, NULL);
	if (expires)
		start_keeper(s);
	return STK_OK;
}
