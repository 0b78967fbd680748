/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/aws_profile.h"

#include "base/memory.h"
#include "base/secret.h"
#include "base/system.h"
#include "io/read_small.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_FILE = 1 << 20 };

char *stk__aws_env(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? stk__strdup(value) : NULL;
}

char *stk__aws_secret_env(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? stk__secret_copy(value) : NULL;
}

bool stk__aws_env_says_yes(const char *name)
{
	const char *v = getenv(name);
	return v && (strcmp(v, "1") == 0 || strcasecmp(v, "yes") == 0 || strcasecmp(v, "true") == 0);
}

static char *read_file(const char *path)
{
	size_t size;
	char *text = stk__read_small(path, LONGEST_FILE, &size);
	return text ? text : stk__calloc(1, 1);
}

/* Returns the text of the file that the variable names, or of ~/.aws/NAME; "" if the file cannot be read. NULL: memory is short. */
static char *read_profile_file(const char *variable, const char *name)
{
	const char *configured = getenv(variable), *home = getenv("HOME");
	char path[4096];
	if (configured && configured[0] == '~' && configured[1] == '/' && home)
		snprintf(path, sizeof path, "%s%s", home, configured + 1);
	else if (configured && *configured)
		snprintf(path, sizeof path, "%s", configured);
	else
		snprintf(path, sizeof path, "%s/.aws/%s", home ? home : "", name);
	return read_file(path);
}

void stk__aws_profile_name(struct stk_aws_profile *p, const char *name)
{
	p->name = name;
	snprintf(p->section, sizeof p->section, "%s%.200s", strcmp(name, "default") == 0 ? "" : "profile ", name);
}

bool stk__aws_profile_read(const char *name, bool environment, struct stk_aws_profile *out)
{
	*out = (struct stk_aws_profile){.environment = environment};
	stk__aws_profile_name(out, name);
	out->credentials = read_profile_file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
	out->config = read_profile_file("AWS_CONFIG_FILE", "config");
	return out->credentials && out->config;
}

void stk__aws_profile_clear(struct stk_aws_profile *p)
{
	char *texts[] = {p->credentials, p->config}; /* a profile's keys may be in either file */
	for (int i = 0; i < 2; i++) {
		if (texts[i])
			stk__erase(texts[i], strlen(texts[i]));
		stk__free(texts[i]);
	}
	*p = (struct stk_aws_profile){0};
}

bool stk__aws_profile_exists(const struct stk_aws_profile *p)
{
	return stk__ini_has(p->config, p->section) || stk__ini_has(p->credentials, p->name);
}

void stk__aws_take(char **slot, char *value)
{
	if (!*slot && value && *value)
		*slot = value;
	else
		stk__free(value);
}

char *stk__aws_config(const struct stk_aws_profile *p, const char *parent, const char *key)
{
	return stk__ini_find(p->config, p->section, parent, key);
}

char *stk__aws_service_endpoint(const struct stk_aws_profile *p, const char *service, const char *variable)
{
	char *found = NULL, *services = NULL;
	if (stk__aws_env_says_yes("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"))
		return NULL;
	stk__aws_take(&found, stk__aws_env(variable));
	stk__aws_take(&found, stk__aws_env("AWS_ENDPOINT_URL"));
	services = stk__aws_config(p, NULL, "services");
	if (services) {
		char section[256];
		snprintf(section, sizeof section, "services %s", services);
		stk__aws_take(&found, stk__ini_find(p->config, section, service, "endpoint_url"));
		stk__free(services);
	}
	stk__aws_take(&found, stk__aws_config(p, service, "endpoint_url"));
	stk__aws_take(&found, stk__aws_config(p, NULL, "endpoint_url"));
	return found;
}
