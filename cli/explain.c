/* SPDX-License-Identifier: Apache-2.0
 * stoker explain: prints how the library executes a pipeline: its chains, passes and slots. */
#include "session.h"

#include <stdio.h>

static int run_explain(const struct settings *s)
{
	struct session session;
	struct stk_error err = {0};
	char *text = NULL;
	int code = EXIT_PROBLEM;
	if (!makes_pipeline("explain", s->args[0]))
		return EXIT_PROBLEM;
	if (open_session(&session, "explain", s->args[0], GRAPH_TRAIN, s)) {
		if (stk_pipeline_explain(session.pipeline, s->json, &text, &err) != STK_OK) {
			fail("explain", &err);
		} else {
			puts(text);
			code = EXIT_FINE;
		}
	}
	stk_text_free(text);
	close_session(&session);
	return code;
}

static const struct option options[] = {OPTION_BATCH, OPTION_THREADS, OPTION_DEVICE, OPTION_JSON, {0}};

const struct command command_explain = {
	.name = "explain",
	.summary = "how a pipeline is executed: chains, fused passes, slots",
	.usage = "PIPELINE.json|DIR|TAR|INDEX|s3://BUCKET/PREFIX",
	.details = "Compiles a pipeline and prints the structures that would run. For a DIR, TAR, INDEX or prefix, that is the "
		   "usual training pipeline over its images. Set STOKER_FUSE=0 to see (and run) the same without fusion.",
	.example = "stoker explain pipeline.json",
	.options = options,
	.arg = "PIPELINE.json or DIR",
	.min_args = 1,
	.max_args = 1,
	.run = run_explain,
};
