/* SPDX-License-Identifier: Apache-2.0
 * stoker doctor: reports the cores, limits, GPUs and libraries that stoker may use, and gives advice. */
#include "command.h"
#include "output.h"
#include "session.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ADVICE 16

/* Advice for the user. problem: true for a fault, false for a hint. */
struct advice {
	struct {
		bool problem;
		char text[1100];
	} items[MAX_ADVICE];
	int count;
};

static void advise(struct advice *a, bool problem, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void advise(struct advice *a, bool problem, const char *fmt, ...)
{
	va_list list;
	if (a->count == MAX_ADVICE)
		return;
	va_start(list, fmt);
	char *text = format_safe(fmt, list);
	va_end(list);
	snprintf(a->items[a->count].text, sizeof(a->items[a->count].text), "%s", text ? text : "out of memory");
	free(text);
	a->items[a->count++].problem = problem;
}

static void look_at_cores(const struct stk_machine *m, struct advice *a)
{
	if (m->cpu_quota > 0 && m->cpu_quota < m->cpus_allowed)
		advise(a, m->cpu_quota < 1,
			"the cgroup grants %.1f of %d cores: more threads than that would be throttled; raise cpu.max for more",
			m->cpu_quota, m->cpus_allowed);
	else if (m->cpus_allowed < m->cpus_online)
		advise(a, false, "the affinity mask leaves %d of %d cores (taskset, or the job scheduler)", m->cpus_allowed,
			m->cpus_online);
	if (m->local_ranks > 1)
		advise(a, false, "%d ranks share this machine (LOCAL_WORLD_SIZE): each takes %d threads", m->local_ranks, m->threads);
	if (!strcmp(m->cpu_level, "c"))
		advise(a, false,
			"plain C kernels run: results are the same, several times slower than with AVX2 (STOKER_CPU=c, or an old "
			"processor)");
}

static void look_at_limits(const struct stk_machine *m, struct advice *a)
{
	if (m->open_files >= 0 && m->open_files < 1024)
		advise(a, m->open_files < 256, "only %" PRId64 " files may be open: reads ahead need up to 256; ulimit -n %" PRId64,
			m->open_files, m->open_files_max);
	if (m->memory_limit > 0 && m->memory_limit < INT64_C(1) << 30)
		advise(a, m->memory_limit < INT64_C(256) << 20, "the cgroup allows %" PRId64 " MiB of memory: keep batches small",
			m->memory_limit >> 20);
	if (m->memory_free >= 0 && m->memory_free < INT64_C(512) << 20)
		advise(a, true, "only %" PRId64 " MiB of memory are free", m->memory_free >> 20);
}

/* Reports why this process cannot use the GPUs. Reports only the first cause, because the later ones depend on it. */
static void look_at_gpus(const struct stk_machine *m, const struct stk_cuda_info *c, struct advice *a)
{
	const char *shown = getenv("CUDA_VISIBLE_DEVICES");
	bool kernel_side = access("/proc/driver/nvidia/version", F_OK) == 0;
	if (!c->driver && kernel_side)
		advise(a, true,
			"the machine's NVIDIA driver cannot be used from here (%.120s): in a container, start it with --gpus all and "
			"NVIDIA_DRIVER_CAPABILITIES=compute,utility",
			c->problem);
	else if (!c->driver)
		advise(a, false, "everything runs on the cores: %.400s", c->problem);
	else if (!c->gpus)
		advise(a, false, "the CUDA driver shows no GPU%s%s", shown ? ": CUDA_VISIBLE_DEVICES is " : "", shown ? shown : "");
	else if (!m->cuda_built)
		advise(a, false,
			"there are GPUs, and no CUDA kernels in this build: install the wheel, or build where nvcc is found "
			"(-Dcuda=enabled)");
	else if (c->driver < m->cuda_needed)
		advise(a, true, "the driver supports CUDA %d.%d, the kernels of this build need %d.%d or newer: update the driver",
			c->driver / 1000, c->driver / 10 % 100, m->cuda_needed / 1000, m->cuda_needed / 10 % 100);
}

/* Checks one GPU. cuda_archs begins with the oldest architecture that kernels were built for. Newer GPUs work too: the driver compiles for them. */
static void look_at_gpu(const struct stk_machine *m, int32_t i, const struct stk_gpu_info *g, struct advice *a)
{
	int oldest = atoi(m->cuda_archs);
	if (m->cuda_built && g->major * 10 + g->minor < oldest)
		advise(a, true, "GPU %d (%s, sm_%d%d) is older than the kernels of this build, which begin at sm_%d", (int)i, g->name,
			g->major, g->minor, oldest);
	if (g->cpus_near > 0 && !g->cpus[0])
		advise(a, true,
			"none of the %d cores near GPU %d is allowed to this process: give it some of them (taskset, numactl, the job's "
			"binding)",
			(int)g->cpus_near, (int)i);
}

/* Reports the parts that this build lacks. LEFT_OUT, from meson.build, has a text for each part with advice on how to get it; '|' separates them. */
static void look_at_build(struct advice *a)
{
	for (const char *text = LEFT_OUT; *text; text += strcspn(text, "|"), text += *text == '|')
		advise(a, false, "this build leaves out: %.*s", (int)strcspn(text, "|"), text);
}

static void put_bytes(json_t *o, const char *key, int64_t value)
{
	if (value < 0)
		json_object_set_new(o, key, json_null());
	else
		put_int(o, key, value);
}

static json_t *machine_json(const struct stk_machine *m)
{
	json_t *o = json_object();
	put_text(o, "version", stk_version());
	put_text(o, "kernels", m->cpu_level);
	put_int(o, "cpus_online", m->cpus_online);
	put_int(o, "cpus_allowed", m->cpus_allowed);
	put_real(o, "cpu_quota", m->cpu_quota);
	put_int(o, "local_ranks", m->local_ranks);
	put_int(o, "threads", m->threads);
	put_bytes(o, "memory", m->memory);
	put_bytes(o, "memory_limit", m->memory_limit);
	put_bytes(o, "memory_free", m->memory_free);
	put_bytes(o, "open_files", m->open_files);
	put_bytes(o, "open_files_max", m->open_files_max);
	put_bytes(o, "locked_memory", m->locked_memory);
	put_bool(o, "cuda_built", m->cuda_built);
	put_text(o, "cuda_archs", m->cuda_archs);
	put_int(o, "cuda_needed", m->cuda_needed);
	return o;
}

static json_t *gpus_json(const struct stk_cuda_info *c)
{
	json_t *list = json_array();
	for (int32_t i = 0; i < c->gpus; i++) {
		struct stk_gpu_info g = {.size = sizeof(g)};
		json_t *o = json_object();
		if (stk_gpu_info(i, &g, NULL) == STK_OK) {
			put_text(o, "name", g.name);
			put_text(o, "pci", g.pci);
			put_text(o, "cpus", g.cpus);
			put_int(o, "memory", g.memory);
			put_int(o, "capability", g.major * 10 + g.minor);
			put_int(o, "processors", g.processors);
		}
		json_array_append_new(list, o);
	}
	return list;
}

/* ---- an object store ---- */

struct store {
	bool asked, answers;
	struct stk_storage_report report;
	struct stk_error err;
};

/* Probes the store with few retries, because a person waits for the answer. */
static bool ask_store(const struct settings *s, struct store *st)
{
	struct stk_storage *storage;
	struct settings quick = *s;
	quick.retries = 1;
	quick.cache = quick.cache_limit = NULL; /* without a cache, which would create its folder */
	if (!open_storage("doctor", &quick, &storage))
		return false;
	st->report.size = sizeof(st->report);
	enum stk_status status = stk_storage_probe(storage, s->storage_uri, &st->report, &st->err);
	stk_storage_unref(&storage);
	st->asked = true;
	st->answers = status == STK_OK;
	return true;
}

static void look_at_store(const struct settings *s, const struct store *st, struct advice *a)
{
	const struct stk_storage_report *r = &st->report;
	const bool skewed = r->clock_s != INT64_MIN && (r->clock_s > 300 || r->clock_s < -300);
	if (!st->answers)
		advise(a, true, "%s", st->err.message);
	if (st->answers && !r->found)
		advise(a, true,
			"%s: nothing is listed there: check the name, and the endpoint (AWS_ENDPOINT_URL), which must be the store's without the bucket",
			s->storage_uri);
	if (skewed)
		advise(a, false,
			"this machine's clock is %" PRId64
			" s %s the store's, which refuses requests that are 900 s off: set it (chrony, ntpd)",
			r->clock_s < 0 ? -r->clock_s : r->clock_s, r->clock_s < 0 ? "ahead of" : "behind");
	if (st->answers && !r->listed && !strncmp(s->storage_uri, "s3://", 5))
		advise(a, false, "objects can be read, but the bucket cannot be listed: give files, or an index that was made elsewhere");
	if (st->answers && r->answer_ms > 300)
		advise(a, false,
			"an answer takes %.0f ms: is the bucket in another region? Training needs some %.0f requests under way for each 1000 images/s",
			r->answer_ms, r->answer_ms);
}

static void put_store(json_t *o, const struct store *st)
{
	const struct stk_storage_report *r = &st->report;
	json_t *store = json_object();
	put_bool(store, "answers", st->answers);
	put_text(store, "problem", st->answers ? "" : st->err.message);
	put_text(store, "endpoint", r->endpoint);
	put_text(store, "region", r->region);
	put_text(store, "keys", r->keys);
	put_bool(store, "listed", r->listed);
	put_bool(store, "found", r->found);
	put_real(store, "first_ms", r->first_ms);
	put_real(store, "answer_ms", r->answer_ms);
	if (r->clock_s != INT64_MIN)
		put_int(store, "clock_s", r->clock_s);
	json_object_set_new(o, "storage", store);
}

static void print_store(const char *uri, const struct store *st)
{
	const struct stk_storage_report *r = &st->report;
	printf("\nstorage\n  %-18s ", "asked for");
	print_safe("%s: it %s", uri, st->answers ? "answers" : "cannot be read");
	putchar('\n');
	if (r->endpoint[0])
		printf("  %-18s %s, region %s\n  %-18s %s%s\n", "endpoint", r->endpoint, r->region, "keys",
			r->keys[0] ? "from " : "none: requests are not signed", r->keys);
	if (st->answers)
		printf("  %-18s %.1f ms; the first, with the connection, %.1f ms\n", "an answer takes", r->answer_ms, r->first_ms);
	if (r->clock_s != INT64_MIN)
		printf("  %-18s %+" PRId64 " s\n", "the store's clock", r->clock_s);
}

static json_t *libraries_json(void)
{
	json_t *o = json_object();
	struct stk_library_info library;
	for (size_t i = 0; stk_library_info(i, &library); i++)
		put_text(o, library.name, library.version);
	return o;
}

static int print_as_json(
	const struct stk_machine *m, const struct stk_cuda_info *c, const struct store *st, const struct advice *a, int code)
{
	json_t *o = machine_json(m), *advice = json_array();
	json_object_set_new(o, "libraries", libraries_json());
	put_int(o, "cuda_driver", c->driver);
	put_text(o, "cuda_problem", c->problem);
	json_object_set_new(o, "gpus", gpus_json(c));
	if (st->asked)
		put_store(o, st);
	for (int i = 0; i < a->count; i++) {
		json_t *item = json_object();
		put_bool(item, "problem", a->items[i].problem);
		put_text(item, "text", a->items[i].text);
		json_array_append_new(advice, item);
	}
	json_object_set_new(o, "advice", advice);
	int printed = print_json(o);
	return printed ? printed : code;
}

static void print_libraries(void)
{
	struct stk_library_info library;
	for (size_t i = 0; stk_library_info(i, &library); i++)
		printf("  %-18s %s (%s)\n", library.name, library.version, library.use);
}

/* Prints versions for bug reports and for comparison with the libraries' known vulnerabilities. */
static int print_versions(const struct stk_machine *m, bool json)
{
	if (!json) {
		printf("stoker %s\n\nlibraries\n", stk_version());
		print_libraries();
		printf("\nCUDA kernels\n  %-18s %s\n", "for sm_", m->cuda_built ? m->cuda_archs : "none in this build");
		return EXIT_FINE;
	}
	json_t *o = json_object();
	put_text(o, "version", stk_version());
	put_text(o, "cuda_archs", m->cuda_archs);
	json_object_set_new(o, "libraries", libraries_json());
	return print_json(o);
}

static void print_size(const char *what, int64_t bytes)
{
	if (bytes < 0)
		printf("  %-18s no limit\n", what);
	else if (bytes < INT64_C(1) << 30)
		printf("  %-18s %.1f MiB\n", what, (double)bytes / (1 << 20));
	else
		printf("  %-18s %.1f GiB\n", what, (double)bytes / (1 << 30));
}

static void print_gpus(const struct stk_machine *m, const struct stk_cuda_info *c)
{
	printf("\ngpus\n  %-18s ", "kernels");
	if (m->cuda_built)
		printf("for sm_%s; they need a driver for CUDA %d.%d\n", m->cuda_archs, m->cuda_needed / 1000, m->cuda_needed / 10 % 100);
	else
		puts("none in this build");
	if (c->driver)
		printf("  %-18s for CUDA %d.%d\n", "driver", c->driver / 1000, c->driver / 10 % 100);
	else
		printf("  %-18s none\n", "driver"); /* the advice at the end says why */
	for (int32_t i = 0; i < c->gpus; i++) {
		struct stk_gpu_info g = {.size = sizeof(g)};
		struct stk_error err = {0};
		if (stk_gpu_info(i, &g, &err) == STK_OK)
			printf("  GPU %-14d %s, %.1f GiB, sm_%d%d, %d multiprocessors, %s\n", (int)i, g.name, (double)g.memory / (1 << 30),
				g.major, g.minor, g.processors, g.pci);
		else
			printf("  GPU %-14d %s\n", (int)i, err.message);
		if (g.cpus[0])
			printf("  %-18s %s\n", "cores near it", g.cpus);
	}
}

static void print_as_text(
	const struct stk_machine *m, const struct stk_cuda_info *c, const char *uri, const struct store *st, const struct advice *a)
{
	printf("stoker %s\n\ncores\n  %-18s %d in the machine, %d allowed", stk_version(), "processors", m->cpus_online, m->cpus_allowed);
	if (m->cpu_quota > 0)
		printf(", quota %.2f", m->cpu_quota);
	printf("\n  %-18s %s\n  %-18s %d (default for a pipeline)\n\nmemory\n", "kernels", m->cpu_level, "threads", m->threads);
	print_size("in the machine", m->memory);
	print_size("cgroup's limit", m->memory_limit);
	print_size("free", m->memory_free);
	print_size("locked at most", m->locked_memory);
	printf("\nfiles\n  %-18s %" PRId64 " of at most %" PRId64 "\n", "open at once", m->open_files, m->open_files_max);
	print_gpus(m, c);
	if (st->asked)
		print_store(uri, st);
	puts("\nlibraries");
	print_libraries();
	puts("\nwhat follows");
	for (int i = 0; i < a->count; i++)
		printf("  %s %s\n", a->items[i].problem ? "!" : "-", a->items[i].text);
	if (!a->count)
		puts("  - nothing stands in the way");
}

static int run_doctor(const struct settings *s)
{
	struct store store = {.asked = false};
	struct stk_machine machine = {.size = sizeof(machine)};
	struct stk_cuda_info cuda = {.size = sizeof(cuda)};
	struct stk_error err = {0};
	struct advice advice = {.count = 0};
	int code = EXIT_FINE;
	if (!s->storage_uri && (s->endpoint || s->region || s->profile || s->anonymous || s->path_style || s->ca_bundle || s->cache))
		return usage_error(&command_doctor, "the options of a store go with --storage URI");
	if (stk_machine_probe(&machine, &err) != STK_OK)
		return fail("doctor", &err);
	if (s->versions)
		return print_versions(&machine, s->json);
	if (stk_cuda_probe(&cuda, &err) != STK_OK)
		return fail("doctor", &err);
	look_at_build(&advice);
	look_at_cores(&machine, &advice);
	look_at_limits(&machine, &advice);
	look_at_gpus(&machine, &cuda, &advice);
	for (int32_t i = 0; i < cuda.gpus; i++) {
		struct stk_gpu_info gpu = {.size = sizeof(gpu)};
		if (stk_gpu_info(i, &gpu, &err) == STK_OK)
			look_at_gpu(&machine, i, &gpu, &advice);
	}
	if (s->storage_uri && !ask_store(s, &store))
		return EXIT_PROBLEM;
	if (store.asked)
		look_at_store(s, &store, &advice);
	for (int i = 0; i < advice.count; i++)
		code = advice.items[i].problem ? EXIT_PROBLEM : code;
	if (s->json)
		return print_as_json(&machine, &cuda, &store, &advice, code);
	print_as_text(&machine, &cuda, s->storage_uri, &store, &advice);
	return code;
}

static const struct option options[] = {OPTION_FLAG_OF("versions", 0, versions, "Print only the versions of stoker and of its libraries."),
	OPTION_TEXT_OF("storage", 0, storage_uri, "URI", "Check an object store too: s3://BUCKET/PREFIX or https://..."), OPTION_STORAGE,
	OPTION_JSON, {0}};

const struct command command_doctor = {
	.name = "doctor",
	.summary = "this machine: cores, quota, limits, GPUs, libraries, and advice",
	.usage = "[--versions] [--storage URI] [--json]",
	.details = "Prints the cores, memory and GPUs that stoker may use, with advice for pipelines. With --storage it also "
		   "reports whether a store can be reached, with which keys, how fast it answers, and how far its clock is off. "
		   "Exits with 1 if something is wrong.",
	.example = "stoker doctor",
	.options = options,
	.run = run_doctor,
};
