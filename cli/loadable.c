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
	struct stk_error err;
};

/* Lists `count` classes from `first` on. Returns false and sets s->err if Loader would refuse them. */
static bool list(struct search *s, int64_t first, int64_t count)
{
	const char *globs[MOST_GLOBS] = {NULL};
	const struct stk_pipeline_config config = {
		.size = sizeof(config), .batch_size = 1, .device_id = -1, .max_batches = 1, .storage = s->session->storage};
	struct stk_arg args[4];
	struct stk_graph *graph = NULL;
	struct stk_node file;
	size_t n = 0;
	args[n++] = stk_arg_string("file_root", s->source);
	args[n++] = stk_arg_bool("nested", true);
	args[n++] = stk_arg_list("file_filters", STK_VALUE_STRINGS, globs, image_globs(globs));
	args[n++] = stk_arg_list("dir_filters", STK_VALUE_STRINGS, s->globs + first, (size_t)count);
	struct stk_pipeline *pipeline = NULL;
	s->err = (struct stk_error){0};
	enum stk_status status = stk_graph_create(&graph, &s->err);
	if (status == STK_OK)
		status = stk_graph_add(graph, "readers.file", NULL, 0, args, n, NULL, &file, &s->err);
	if (status == STK_OK)
		status = stk_graph_output(graph, file, &s->err);
	if (status == STK_OK)
		status = stk_pipeline_create(s->session->ctx, graph, &config, &pipeline, &s->err);
	stk_pipeline_destroy(pipeline);
	stk_graph_destroy(graph);
	return status == STK_OK;
}

/* Stores a message, unless an equal one is stored. */
static void keep_problem(struct loadable *found, const char *text)
{
	for (int32_t i = 0; i < found->count; i++) {
		if (!strcmp(found->problems[i], text))
			return;
	}
	snprintf(found->problems[found->count++], sizeof(*found->problems), "%s", text);
}

/* Finds the classes that Loader refuses among `count` classes from `first` on, by bisection, and stores their errors. Stops after LOADABLE_PROBLEMS errors. */
static void find_problems(struct search *s, int64_t first, int64_t count)
{
	if (s->found->count == LOADABLE_PROBLEMS || list(s, first, count))
		return;
	if (count == 1) {
		drop_operator(&s->err);
		keep_problem(s->found, s->err.message);
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
	bool complete = classes > 1 && classes <= MOST_CLASSES && !strstr(s->source, "://");
	s->globs = complete ? calloc((size_t)classes, sizeof(*s->globs)) : NULL;
	for (int64_t i = 0; s->globs && i < classes; i++)
		complete &= (s->globs[i] = glob_of(stk_pipeline_class_name(s->session->pipeline, NULL, i))) != NULL;
	if (s->globs && complete)
		find_problems(s, 0, classes);
	for (int64_t i = 0; s->globs && i < classes; i++)
		free(s->globs[i]);
	free(s->globs);
	if (!s->found->count)
		keep_problem(s->found, s->session->refusal);
}

void loadable_look(struct loadable *l, struct session *session)
{
	struct search s = {.found = l, .session = session, .source = session->source};
	struct stk_reader_meta meta;
	*l = (struct loadable){.has_folders = session->standard && !session->flat && !session->tars && is_tree(session->source)};
	if (session->refused)
		find_all(&s, stk_pipeline_reader_meta(session->pipeline, NULL, &meta, NULL) == STK_OK ? meta.classes : 0);
}
