/* SPDX-License-Identifier: Apache-2.0
 * Responses with temporary keys: STS's XML, and the JSON of single sign-on, programs and local services. Accepted keys have an id, a secret, and a time of
 * expiry that can be compared. */
#include "fuzz.h"

#include "aws/aws_ask.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static bool take_plain(struct stk_aws_fresh *out, const struct stk_text *answer)
{
	return stk__aws_take_json(out, answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool (*const takes[])(struct stk_aws_fresh * out, const struct stk_text *answer) = {
		take_plain, stk__aws_take_sts, stk__aws_take_portal};
	for (size_t k = 0; k < sizeof takes / sizeof *takes; k++) {
		struct stk_aws_fresh keys = {0};
		struct stk_text answer = {0};
		for (size_t i = 0; i < size && data[i]; i++) /* a response is a text, so it ends at the first NUL */
			stk__text_add(&answer, "%c", data[i]);
		const bool ok = takes[k](&keys, &answer);
		if (ok && (!keys.key || !*keys.key || !keys.secret || !*keys.secret))
			abort();
		stk__aws_fresh_clear(&keys);
		stk__text_free(&answer);
	}
	return 0;
}

uint8_t *fuzz_seed(int i, size_t *size)
{
	static const char *const texts[] = {
		"{\"Version\": 1, \"AccessKeyId\": \"AKIA\", \"SecretAccessKey\": \"s\", \"SessionToken\": \"t\", \"Expiration\": \"2026-01-31T12:00:00Z\"}",
		"{\"Code\": \"Success\", \"AccessKeyId\": \"AKIA\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", \"Expiration\": \"2026-01-31T12:00:00.5+01:00\"}",
		"{\"AccessKeyId\": \"AKIA\", \"SecretAccessKey\": \"s\", \"Expiration\": \"soon\"}",
		"{\"AccessKeyId\": 7, \"SecretAccessKey\": [\"s\"]}",
		"{\"roleCredentials\": {\"accessKeyId\": \"AKIA\", \"secretAccessKey\": \"s\", \"sessionToken\": \"t\", \"expiration\": 1790000000000}}",
		"{\"roleCredentials\": {\"accessKeyId\": \"AKIA\", \"secretAccessKey\": \"s\", \"expiration\": -9223372036854775808}}",
		"{\"roleCredentials\": \"none\"}",
		"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>AKIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
		"<SessionToken>t</SessionToken><Expiration>2096-10-02T07:06:40Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
		"<Credentials><AccessKeyId>AKIA<SecretAccessKey>s",
		"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>", ""};
	if ((size_t)i >= sizeof texts / sizeof *texts)
		return NULL;
	*size = strlen(texts[i]);
	uint8_t *copy = malloc(*size + 1);
	memcpy(copy, texts[i], *size);
	return copy;
}
