/* SPDX-License-Identifier: Apache-2.0
 * Bad input of every kind: folders, files, arguments, pipeline JSON and states. Bad input gives an error that says what is wrong; none may crash or hang. */
#include "test.h"

#include "image_files.h"
#include "pipelines.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 9 };
static char *folder;
static struct stk_context *ctx;

static int set_up(void **state)
{
	(void)state;
	const struct stk_context_config c = {.size = sizeof c, .threads = 2};
	folder = make_folder(FILES, 77);
	return !folder || stk_context_create(&c, &ctx, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	stk_context_unref(&ctx);
	remove_folder(folder);
	return 0;
}

/* ---- files ---- */

static void write_file(const char *path, const void *data, size_t size)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, size, f), size);
	fclose(f);
}

/* Makes a pipeline that decodes the images of a folder, or of the given files. */
static enum stk_status open_images(const char *root, const char *const *files, size_t n, struct stk_pipeline **p, struct stk_error *err)
{
	struct stk_graph *g;
	struct stk_node file, image;
	const struct stk_arg args[] = {stk_arg_string("tail", "keep"),
		root ? stk_arg_string("file_root", root) : stk_arg_list("files", STK_VALUE_STRINGS, files, n)};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = 1, .device_id = -1};
	*p = NULL;
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	enum stk_status s = stk_graph_add(g, "readers.file", NULL, 0, args, 2, NULL, &file, err);
	if (s == STK_OK)
		s = stk_graph_add(g, "decoders.image", &file, 1, NULL, 0, NULL, &image, err);
	if (s == STK_OK)
		s = stk_graph_output(g, image, err);
	if (s == STK_OK)
		s = stk_pipeline_create(ctx, g, &c, p, err);
	stk_graph_destroy(g);
	return s;
}

static void refuse_folder(const char *root, const char *says)
{
	struct stk_pipeline *p;
	struct stk_error err = {0};
	enum stk_status s = open_images(root, NULL, 0, &p, &err);
	assert_true(s == STK_NOT_FOUND || s == STK_INVALID);
	assert_int_equal(err.code, s);
	if (!strstr(err.message, says))
		fail_msg("\"%s\" does not say \"%s\"", err.message, says);
}

static void test_folders_without_images(void **state)
{
	(void)state;
	char root[] = "/tmp/stoker-bad-XXXXXX", path[256];
	assert_non_null(mkdtemp(root));
	refuse_folder(root, root);
	refuse_folder("/no/such/folder", "/no/such/folder");
	snprintf(path, sizeof path, "%s/class", root);
	mkdir(path, 0700);
	refuse_folder(root, root);
	snprintf(path, sizeof path, "%s/class/notes.txt", root);
	write_file(path, "milk", 4);
	refuse_folder(root, root);
	remove_folder(strdup(root));
}

static enum stk_status read_one(const char *path, struct stk_error *err)
{
	struct stk_pipeline *p;
	struct stk_batch *b = NULL;
	*err = (struct stk_error){0};
	enum stk_status s = open_images(NULL, &path, 1, &p, err);
	if (s == STK_OK)
		s = stk_pipeline_next(p, &b, err);
	assert_int_equal(s == STK_OK, b != NULL);
	if (s) {
		assert_int_equal(err->code, s);
		if (!strstr(err->message, path))
			fail_msg("\"%s\" does not name %s", err->message, path);
	}
	stk_batch_unref(&b);
	stk_pipeline_destroy(p);
	return s;
}

static void test_what_is_no_image(void **state)
{
	(void)state;
	char path[256];
	struct stk_error err;
	snprintf(path, sizeof path, "%s/class0/bad.jpg", folder);
	assert_int_not_equal(read_one(path, &err), STK_OK); /* the file does not exist */
	assert_int_equal(symlink("/no/such/file", path), 0);
	assert_int_not_equal(read_one(path, &err), STK_OK);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0); /* a FIFO without a writer: opening it must not block */
	assert_int_not_equal(read_one(path, &err), STK_OK);
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_not_equal(read_one(path, &err), STK_OK);
	rmdir(path);
	write_file(path, "", 0);
	assert_int_equal(read_one(path, &err), STK_CORRUPT);
	write_file(path, "hello", 5);
	assert_int_equal(read_one(path, &err), STK_CORRUPT);
	assert_non_null(strstr(err.message, "hello"));
	if (geteuid() != 0) {
		assert_int_equal(chmod(path, 0), 0);
		assert_int_not_equal(read_one(path, &err), STK_OK);
	}
	unlink(path);
}

/* Reads the file `tries` times with flipped bits or cut off. Each of these damaged files must give an image or an error. *refused: increased by the number
 * of errors. */
static void damage(const struct test_file *f, const char *path, uint64_t *seed, int tries, int *refused)
{
	uint8_t *copy = malloc(f->size);
	for (int t = 0; t < tries; t++) {
		struct stk_error err;
		uint64_t this_seed = *seed;
		size_t size = f->size;
		memcpy(copy, f->data, size);
		for (int k = test_random_in(seed, 1, 4); k > 0; k--) {
			/* half of the changes are in headers, since changes there have the greatest effect */
			size_t at = test_random(seed) % (test_random(seed) & 1 && size > 700 ? 700 : size);
			copy[at] ^= (uint8_t)(1u << test_random(seed) % 8);
		}
		if (t % 4 == 0)
			size = test_random(seed) % size;
		write_file(path, copy, size);
		alarm(200);
		enum stk_status s = read_one(path, &err);
		alarm(0);
		*refused += s != STK_OK;
		if (s && s != STK_CORRUPT && s != STK_UNSUPPORTED && s != STK_LIMIT)
			fail_msg("seed %llu: %s: %s", (unsigned long long)this_seed, stk_status_name(s), err.message);
	}
	free(copy);
}

static void test_flipped_and_cut_files(void **state)
{
	(void)state;
	uint64_t seed = test_seed();
	int refused = 0, tries = 0;
	char path[256];
	snprintf(path, sizeof path, "%s/class0/flipped.jpg", folder);
	print_message("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 6; i++, tries += 100) {
		struct test_jpeg j = {
			.width = 67, .height = 45, .components = 3, .quality = 85, .noise = 0.3, .seed = (uint64_t)i, .orientation = 6};
		struct test_png png = {.width = 37, .height = 29, .color = i == 4 ? 2 : 3, .bits = 8, .seed = 5};
		j.h[0] = j.v[0] = i & 1 ? 2 : 1;
		j.progressive = i == 2;
		j.restart = i == 3 ? 2 : 0;
		struct test_file f = i < 4 ? test_jpeg_make(&j) : test_png_make(&png);
		damage(&f, path, &seed, 100, &refused);
		free(f.data);
	}
	print_message("%d of %d damaged files were refused\n", refused, tries);
	assert_true(refused > tries / 4);
	unlink(path);
}

/* EXIF data is ignored if it points outside of itself or in a circle, or has an invalid orientation: the whole image is decoded. */
static void test_nonsense_exif(void **state)
{
	(void)state;
	char path[256];
	uint64_t seed = test_seed();
	const struct test_jpeg j = {.width = 40, .height = 24, .components = 3, .quality = 85, .orientation = 6, .seed = 1};
	struct test_file f = test_jpeg_make(&j);
	uint8_t *exif = memmem(f.data, f.size, "Exif\0", 5);
	assert_non_null(exif);
	snprintf(path, sizeof path, "%s/class0/exif.jpg", folder);
	for (int t = 0; t < 200; t++) {
		uint8_t kept[24];
		struct stk_error err;
		memcpy(kept, exif + 6, sizeof kept);
		for (int k = 0; k < 3; k++)
			exif[6 + test_random(&seed) % sizeof kept] = (uint8_t)(test_random(&seed) & 1 ? 0xff : test_random(&seed));
		write_file(path, f.data, f.size);
		enum stk_status s = read_one(path, &err);
		if (s)
			fail_msg("seed %llu, try %d: %s", (unsigned long long)test_seed(), t, err.message);
		memcpy(exif + 6, kept, sizeof kept);
	}
	free(f.data);
	unlink(path);
}

/* ---- arguments ---- */

static void refuse(const char *op, const struct stk_arg *args, size_t n, enum stk_status want, const char *says)
{
	struct stk_graph *g;
	struct stk_node source, out;
	struct stk_error err = {0};
	const struct stk_arg layout = stk_arg_string("layout", "HWC");
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	assert_int_equal(stk_graph_add(g, "external_source", NULL, 0, &layout, 1, NULL, &source, NULL), STK_OK);
	enum stk_status s = stk_graph_add(g, op, &source, 1, args, n, NULL, &out, &err);
	if (s != want || err.code != s || !strstr(err.message, says))
		fail_msg("%s: %s \"%s\", not %s and \"%s\"", op, stk_status_name(s), err.message, stk_status_name(want), says);
	stk_graph_destroy(g);
}

static void test_arguments(void **state)
{
	(void)state;
	const struct stk_arg wrong_name = stk_arg_int("resize_xx", 3), wrong_type = stk_arg_string("horizontal", "yes"),
			     out_of_range = stk_arg_int("horizontal", 7), not_there = stk_arg_node("horizontal", (struct stk_node){55, 0}),
			     negative = stk_arg_node("horizontal", (struct stk_node){-1, -1}),
			     no_choice = stk_arg_string("interp_type", "fractal");
	refuse("resize", &wrong_name, 1, STK_INVALID, "resize_x");
	refuse("flip", &wrong_type, 1, STK_INVALID, "horizontal");
	refuse("flip", &out_of_range, 1, STK_INVALID, "horizontal");
	refuse("flip", &not_there, 1, STK_INVALID, "");
	refuse("flip", &negative, 1, STK_INVALID, "");
	refuse("resize", &no_choice, 1, STK_INVALID, "interp_type");
	refuse("resise", NULL, 0, STK_NOT_FOUND, "resize");
	refuse("", NULL, 0, STK_NOT_FOUND, "");
	refuse("transpose", &(struct stk_arg){"perm", STK_VALUE_BOOL, {0}}, 1, STK_INVALID, "perm");
}

static void test_configurations(void **state)
{
	(void)state;
	const int32_t batches[] = {0, -1, INT32_MIN, INT32_MAX};
	for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
		struct stk_graph *g;
		struct stk_node c;
		struct stk_error err = {0};
		struct stk_pipeline *p;
		const struct stk_pipeline_config config = {.size = sizeof config, .batch_size = batches[i], .device_id = -1};
		assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
		assert_int_equal(stk_graph_add(g, "random.coin_flip", NULL, 0, NULL, 0, NULL, &c, NULL), STK_OK);
		assert_int_equal(stk_graph_output(g, c, NULL), STK_OK);
		assert_int_equal(stk_pipeline_create(ctx, g, &config, &p, &err), STK_INVALID);
		assert_non_null(strstr(err.message, "batch_size"));
		assert_null(p);
		stk_graph_destroy(g);
	}
}

/* ---- JSON texts: graphs and states ---- */

/* Replaces one to three random characters, mostly by others that JSON uses. */
static void edit(char *text, size_t size, uint64_t *seed)
{
	static const char bytes[] = "{}[]\",:0123456789-.eE \\ntf\x01\xff";
	for (int k = test_random_in(seed, 1, 3); k > 0; k--)
		text[test_random(seed) % size] = bytes[test_random(seed) % (sizeof bytes - 1)];
}

static void test_damaged_json(void **state)
{
	(void)state;
	static const char json[] = "{\"stoker_graph\": 1, \"operators\": [{\"op\": \"external_source\", \"args\": {\"layout\": "
				   "[\"HWC\"]}}, {\"op\": \"resize\", "
				   "\"inputs\": [[0, 0]], \"args\": {\"size\": [24, 32], \"interp_type\": 1}}], \"outputs\": [[1, 0]]}";
	uint64_t seed = test_seed();
	int taken = 0, refused = 0;
	for (int t = 0; t < 5000; t++) {
		char copy[sizeof json];
		struct stk_graph *g;
		struct stk_error err = {0};
		memcpy(copy, json, sizeof json);
		edit(copy, sizeof json - 1, &seed);
		enum stk_status s = stk_graph_deserialize(copy, t % 5 ? sizeof json - 1 : (size_t)(t / 5) % sizeof json, &g, &err);
		assert_int_equal(s == STK_OK, g != NULL);
		assert_true(s == STK_OK || (err.code == s && err.message[0]));
		taken += s == STK_OK;
		refused += s != STK_OK;
		stk_graph_destroy(g);
	}
	assert_true(taken > 0 && refused > taken);
}

static void test_damaged_states(void **state)
{
	(void)state;
	const struct options o = {.threads = 1, .batch = 4, .tail = "keep"};
	struct stk_context *own;
	struct stk_pipeline *p = open_pipeline(folder, &o, &own);
	struct stk_batch *b;
	char *text;
	uint64_t seed = test_seed();
	int taken = 0, refused = 0;
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	stk_batch_unref(&b);
	assert_int_equal(stk_pipeline_save(p, &text, NULL), STK_OK);
	close_pipeline(p, own);
	size_t size = strlen(text);
	char *copy = malloc(size + 1);
	for (int t = 0; t < 1000; t++) {
		struct stk_error err = {0};
		p = open_pipeline(folder, &o, &own);
		memcpy(copy, text, size + 1);
		edit(copy, size, &seed);
		enum stk_status s = stk_pipeline_restore(p, copy, size, &err);
		if (s == STK_OK) { /* the edit gave another valid number, so that next() must return a batch or the end */
			alarm(200);
			s = stk_pipeline_next(p, &b, &err);
			alarm(0);
			if (s && s != STK_END)
				fail_msg("restored from %s: %s", copy, err.message);
			stk_batch_unref(&b);
			taken++;
		} else {
			assert_int_equal(s, STK_STATE);
			assert_true(err.code == s && err.message[0]);
			refused++;
		}
		close_pipeline(p, own);
	}
	assert_true(taken > 0 && refused > taken);
	free(copy);
	stk_text_free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_folders_without_images),
		cmocka_unit_test(test_what_is_no_image),
		cmocka_unit_test(test_flipped_and_cut_files),
		cmocka_unit_test(test_nonsense_exif),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_configurations),
		cmocka_unit_test(test_damaged_json),
		cmocka_unit_test(test_damaged_states),
	};
	return cmocka_run_group_tests_name("bad_input", tests, set_up, tear_down);
}
