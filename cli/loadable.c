/* SPDX-License-Identifier: Apache-2.0 */
#include "loadable.h"

#include "folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 5000 }; /* with more classes, those at fault are not searched for: each step of the bisection lists the folder */

struct search {
	struct loadable *found;
	struct session *session;
	const char *source;
	char **globs; /* [class]: a glob that matches its name */
	struct stk_pipeline *pipeline;
	struct stk_error err;
};

/* Lists `count` classes from `first` on, or the whole source if count is 0. Returns false and sets s->err if Loader would refuse them. */
static bool list(struct search *s, int64_t first, int64_t count)
{
	const char *filters[16];
	const struct stk_pipeline_config config = {
		.size = sizeof(config), .batch_size = 1, .device_id = -1, .max_batches = 1, .storage = s->session->storage};
	struct stk_arg args[4];
	struct stk_graph *graph = NULL;
	struct stk_node file;
	size_t n = 0;
	size_t filtered = 0;
	while (filtered < sizeof(filters) / sizeof(*filters) && (filters[filtered] = stk_image_glob(filtered)))
		filtered++;
	args[n++] = stk_arg_string("file_root", s->source);
	args[n++] = stk_arg_bool("nested", true);
	args[n++] = stk_arg_list("file_filters", STK_VALUE_STRINGS, filters, filtered);
	if (count)
		args[n++] = stk_arg_list("dir_filters", STK_VALUE_STRINGS, s->globs + first, (size_t)count);
	stk_pipeline_destroy(s->pipeline);
	s->pipeline = NULL;
	s->err = (struct stk_error){0};
	enum stk_status status = stk_graph_create(&graph, &s->err);
	if (status == STK_OK)
		status = stk_graph_add(graph, "readers.file", NULL, 0, args, n, NULL, &file, &s->err);
	if (status == STK_OK)
		status = stk_graph_output(graph, file, &s->err);
	if (status == STK_OK)
		status = stk_pipeline_create(s->session->ctx, graph, &config, &s->pipeline, &s->err);
	stk_graph_destroy(graph);
	return status == STK_OK;
}

/* Stores the message of s->err, unless an equal message is stored. Removes the operator's name from the end of the message, since the user did not write
 * that operator. */
static void keep_problem(struct search *s)
{
	char *text = s->err.message;
	const size_t length = strlen(text), op = strlen(s->err.op);
	if (op && length > op + 2 && !strcmp(text + length - op, s->err.op) && !memcmp(text + length - op - 2, "; ", 2))
		text[length - op - 2] = '\0';
	for (int32_t i = 0; i < s->found->count; i++) {
		if (!strcmp(s->found->problems[i], text))
			return;
	}
	snprintf(s->found->problems[s->found->count++], sizeof(*s->found->problems), "%s", text);
}

/* Finds the classes that Loader refuses among `count` classes from `first` on, by bisection, and stores their errors. Stops after LOADABLE_PROBLEMS errors. */
static void find_problems(struct search *s, int64_t first, int64_t count)
{
	if (s->found->count == LOADABLE_PROBLEMS || list(s, first, count))
		return;
	if (count == 1) {
		keep_problem(s);
		return;
	}
	find_problems(s, first, count / 2);
	find_problems(s, first + count / 2, count - count / 2);
}

/* Returns a glob that matches exactly this name, which the caller frees; NULL if `name` is NULL or memory is short. */
static char *glob_of(const char *name)
{
	char *glob = name ? malloc(2 * strlen(name) + 1) : NULL, *end = glob;
	for (; glob && *name; name++) {
		if (strchr("*?[\\", *name))
			*end++ = '\\';
		*end++ = *name;
	}
	if (glob)
		*end = '\0';
	return glob;
}

static void find_all(struct search *s, int64_t classes)
{
	const struct stk_error of_source = s->err;
	bool complete = classes > 1 && classes <= MOST_CLASSES && !strstr(s->source, "://");
	s->globs = complete ? calloc((size_t)classes, sizeof(*s->globs)) : NULL;
	for (int64_t i = 0; s->globs && i < classes; i++)
		complete &= (s->globs[i] = glob_of(stk_pipeline_class_name(s->session->pipeline, NULL, i))) != NULL;
	if (s->globs && complete)
		find_problems(s, 0, classes);
	for (int64_t i = 0; s->globs && i < classes; i++)
		free(s->globs[i]);
	free(s->globs);
	s->err = of_source;
	if (!s->found->count)
		keep_problem(s);
}

void loadable_look(struct loadable *l, struct session *session, const char *source)
{
	struct search s = {.found = l, .session = session, .source = source};
	struct stk_reader_meta meta;
	const char *skipped;
	*l = (struct loadable){.has_folders = session->standard && !session->flat && !session->tars && is_tree(source), .files = -1};
	if (!l->has_folders)
		return;
	if (list(&s, 0, 0) && stk_pipeline_reader_meta(s.pipeline, NULL, &meta, &s.err) == STK_OK) {
		l->files = meta.epoch_size;
		if (stk_pipeline_reader_skipped(s.pipeline, NULL, &skipped))
			snprintf(l->skipped, sizeof(l->skipped), "%s", skipped);
	} else {
		find_all(&s, stk_pipeline_reader_meta(session->pipeline, NULL, &meta, NULL) == STK_OK ? meta.classes : 0);
	}
	stk_pipeline_destroy(s.pipeline);
}
