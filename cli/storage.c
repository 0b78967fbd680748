/* SPDX-License-Identifier: Apache-2.0
 * Creates a storage from the options of OPTION_STORAGE, also for commands on a sound or a video. */
#include "session.h"

#include <stdio.h>
#include <strings.h>
#include <unistd.h>

bool open_storage(const char *command, const struct settings *s, struct stk_storage **out)
{
	struct stk_error err = {0};
	struct stk_storage_config c = {.size = sizeof(c),
		.endpoint = s->endpoint,
		.region = s->region,
		.profile = s->profile,
		.anonymous = s->anonymous,
		.addressing = s->path_style ? STK_ADDRESSING_PATH : STK_ADDRESSING_AUTO,
		.ca_bundle = s->ca_bundle,
		.retries = s->retries,
		.cache = s->cache,
		.cache_limit = s->cache_limit ? bytes_of(s->cache_limit) : 0};
	*out = NULL;
	if (!c.endpoint && !c.region && !c.profile && !c.anonymous && !c.addressing && !c.ca_bundle && !c.cache && !c.cache_limit &&
		!c.retries)
		return true;
	if (stk_storage_create(&c, out, &err) == STK_OK)
		return true;
	fail(command, &err);
	return false;
}

int run_on_media(const char *command, const struct settings *s, media_command *video, media_command *sound)
{
	struct stk_storage *storage;
	if (!open_storage(command, s, &storage))
		return EXIT_PROBLEM;
	const int code = (is_video_name(s->args[0]) ? video : sound)(s, storage);
	stk_storage_unref(&storage);
	return code;
}
