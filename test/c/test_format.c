/* SPDX-License-Identifier: Apache-2.0
 * Formats of data sets: folders are listed in the order of DALI 2.4 (its results were recorded), list files are parsed, and errors say what is wrong.
 * Also tests fingerprints, globs, CIFAR's files, the memory of a list, and checksums. */
#include "test.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "format/cifar.h"
#include "format/list.h"
#include "format/names.h"
#include "format/tfrecord.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static int make_root(void **state)
{
	(void)state;
	strcpy(root, "/tmp/stk-format-XXXXXX");
	return mkdtemp(root) ? chdir(root) : -1;
}

static int remove_root(void **state)
{
	(void)state;
	char command[256];
	snprintf(command, sizeof command, "chmod -R u+rwx '%s'; rm -rf '%s'", root, root);
	return chdir("/") || system(command);
}

static void make_folders(const char *path)
{
	char part[256];
	snprintf(part, sizeof part, "%s", path);
	for (char *p = part; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(part, 0777);
		*p = '/';
	}
}

/* Writes a file with this text, or makes a folder if the path ends in '/'. */
static void put(const char *path, const char *text)
{
	make_folders(path);
	if (path[strlen(path) - 1] == '/')
		return;
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* Lists the files and compares the list with `want`, a text such as "a/1.jpg 0|b/2.jpg 1": each file's path and label, in order. */
static void assert_list(const struct stk_file_list_options *o, const char *want)
{
	struct stk_file_list *l;
	struct stk_error err = {0};
	static char got[8192];
	char path[1024];
	size_t used = 0;
	if (stk__file_list_create(o, &l, &err))
		fail_msg("%s", err.message);
	got[0] = 0;
	for (int64_t i = 0; i < stk__file_list_size(l); i++) {
		size_t n = stk__file_list_path(l, i, path, sizeof path);
		assert_int_equal(n, strlen(path));
		used += (size_t)snprintf(got + used, sizeof got - used, "%s%s %d", i ? "|" : "", path, stk__file_list_label(l, i));
	}
	assert_string_equal(got, want);
	stk__file_list_destroy(l);
}

static void assert_refused(const struct stk_file_list_options *o, enum stk_status status, const char *says)
{
	struct stk_file_list *l = (void *)1;
	struct stk_error err = {0};
	assert_int_equal(stk__file_list_create(o, &l, &err), status);
	assert_null(l);
	assert_int_equal(err.code, status);
	if (!strstr(err.message, says))
		fail_msg("\"%s\" does not say \"%s\"", err.message, says);
}

static void plant_tree(void)
{
	put("t/b/1.jpg", "x");
	put("t/b/.hidden.jpg", "x");
	put("t/b/2.JPG", "x");
	put("t/b/3.txt", "x");
	put("t/a/", NULL);
	put("t/c/x.txt", "x");
	put("t/d/sub/9.jpg", "x");
	put("t/d/9.jpg", "x");
	put("t/d/dir.jpg/", NULL);
	put("t/.hid/1.jpg", "x");
	put("t/top.jpg", "x");
	assert_int_equal(symlink("b", "t/e"), 0);
	assert_int_equal(symlink("../b/1.jpg", "t/d/lnk.jpg"), 0);
	assert_int_equal(mkfifo("t/d/fifo.jpg", 0666), 0);
}

#define WHOLE_TREE                                                                                                                         \
	"t/.hid/1.jpg 0|t/b/.hidden.jpg 2|t/b/1.jpg 2|t/b/2.JPG 2|t/d/9.jpg 4|t/d/lnk.jpg 4|t/e/.hidden.jpg 5|t/e/1.jpg 5|t/e/2.JPG 5"

static void test_trees_are_listed_as_dali_does(void **state)
{
	(void)state;
	const char *b_to_d[] = {"[b-d]"}, *txt[] = {"*.TXT"}, *jpg[] = {"*.jpg"}, *twice[] = {"*.jpg", "1*"};
	plant_tree();
	assert_list(&(struct stk_file_list_options){.file_root = "t"}, WHOLE_TREE);
	assert_list(&(struct stk_file_list_options){.file_root = "t///"}, WHOLE_TREE);
	assert_list(&(struct stk_file_list_options){.file_root = "t", .dir_filters = b_to_d, .dir_filter_count = 1},
		"t/b/.hidden.jpg 0|t/b/1.jpg 0|t/b/2.JPG 0|t/d/9.jpg 2|t/d/lnk.jpg 2");
	assert_list(&(struct stk_file_list_options){.file_root = "t", .file_filters = txt, .filter_count = 1},
		"t/b/3.txt 2|t/c/x.txt 3|t/e/3.txt 5");
	assert_list(&(struct stk_file_list_options){.file_root = "t", .file_filters = jpg, .filter_count = 1, .case_sensitive = true},
		"t/.hid/1.jpg 0|t/b/.hidden.jpg 2|t/b/1.jpg 2|t/d/9.jpg 4|t/d/lnk.jpg 4|t/e/.hidden.jpg 5|t/e/1.jpg 5");
	assert_list(&(struct stk_file_list_options){.file_root = "t", .file_filters = twice, .filter_count = 2}, WHOLE_TREE);
	/* a link to a missing file is listed, and is an error of that sample; a link to a folder is not a file; a link to a missing folder is refused, because
	 * without this class the labels would differ */
	assert_int_equal(symlink("nowhere", "t/d/lost.jpg"), 0);
	assert_int_equal(symlink("../b", "t/d/folder.jpg"), 0);
	assert_list(&(struct stk_file_list_options){.file_root = "t", .dir_filters = b_to_d, .dir_filter_count = 1},
		"t/b/.hidden.jpg 0|t/b/1.jpg 0|t/b/2.JPG 0|t/d/9.jpg 2|t/d/lnk.jpg 2|t/d/lost.jpg 2");
	assert_int_equal(symlink("nowhere", "t/f"), 0);
	assert_refused(&(struct stk_file_list_options){.file_root = "t"}, STK_NOT_FOUND, "t/f: a link that leads nowhere");
}

static void test_classes_have_names(void **state)
{
	(void)state;
	struct stk_file_list *l;
	plant_tree();
	assert_int_equal(stk__file_list_create(&(struct stk_file_list_options){.file_root = "t"}, &l, NULL), STK_OK);
	const char *names[] = {".hid", "a", "b", "c", "d", "e"};
	assert_int_equal(stk__file_list_classes(l), 6);
	for (int i = 0; i < 6; i++)
		assert_string_equal(stk__file_list_class_name(l, i), names[i]);
	assert_null(stk__file_list_class_name(l, 6));
	assert_null(stk__file_list_class_name(l, -1));
	char small[4];
	assert_int_equal(stk__file_list_path(l, 0, small, sizeof small), strlen("t/.hid/1.jpg"));
	assert_string_equal(small, "t/.");
	stk__file_list_destroy(l);
}

static void test_errors_say_what_is_there(void **state)
{
	(void)state;
	const char *none[] = {"zzz*"};
	put("data/cat/1.jpg", "x");
	put("data/cat/2.png", "x");
	put("empty/", NULL);
	put("bare/a/", NULL);
	put("bare/b/", NULL);
	put("text/a/1.txt", "x");
	put("text/a/2.txt", "x");
	put("text/b/3.npy", "x");
	put("text/b/noending", "x");
	put("notes/readme.md", "x");
	put("cifar/cifar-10-batches-py/data_batch_1", "x");
	put("mnist/raw/t10k-images-idx3-ubyte.gz", "x");
	put("deep/train/cat/1.jpg", "x");
	put("deep/val/cat/1.jpg", "x");
	put("secret/a/1.jpg", "x");
	put("alone.jpg", "x");
	assert_refused(&(struct stk_file_list_options){.file_root = "data/cat"}, STK_INVALID,
		"data/cat holds 2 images but no class folders (ROOT/CLASS/FILE is what is read): for images without classes give the list of the "
		"files, with labels if there are any");
	assert_refused(&(struct stk_file_list_options){.file_root = "deep/train/cat"}, STK_INVALID, "with labels if there are any");
	put("pets/cat/1.jpg", "x");
	for (int i = 0; i < 4; i++) {
		static const char *const others[] = {"pets/dog/1.jpg", "pets/.git/config", "pets/notes.txt", "pets/masks/1.txt"};
		put(others[i], "x");
		struct stk_file_list *l;
		struct stk_error error;
		assert_int_equal(stk__file_list_create(&(struct stk_file_list_options){.file_root = "pets/cat"}, &l, &error), STK_INVALID);
		assert_int_equal(strstr(error.message, "; if this folder is one of several classes, give \"pets\"") != NULL, i < 3);
	}
	put("parts/train/1.jpg", "x");
	put("parts/extra/1.jpg", "x");
	struct stk_file_list *flat;
	struct stk_error said;
	assert_int_equal(stk__file_list_create(&(struct stk_file_list_options){.file_root = "parts/extra"}, &flat, &said), STK_INVALID);
	assert_null(strstr(said.message, "several classes"));
	assert_refused(&(struct stk_file_list_options){.file_root = "empty"}, STK_INVALID,
		"empty: the folder is empty; it should hold a folder of files");
	assert_refused(&(struct stk_file_list_options){.file_root = "bare"}, STK_INVALID, "its 2 class folders are empty");
	assert_refused(
		&(struct stk_file_list_options){.file_root = "text"}, STK_INVALID, "endings seen: .txt (2), 1 without an ending, .npy (1)");
	assert_refused(&(struct stk_file_list_options){.file_root = "notes"}, STK_INVALID, "holds 1 file but no class folders");
	for (int i = 0; i < 4; i++) {
		static const char *const roots[] = {"cifar", "cifar/cifar-10-batches-py", "mnist", "mnist/raw"};
		assert_refused(&(struct stk_file_list_options){.file_root = roots[i]}, STK_INVALID,
			"; the files of CIFAR and MNIST are read by Loader(FOLDER) of the Python package");
	}
	put("tables/a/0.parquet", "x");
	put("tables/a/1.txt", "x");
	put("tables/b/2.PQ", "x");
	assert_refused(&(struct stk_file_list_options){.file_root = "tables/a"}, STK_INVALID,
		"tables/a holds Parquet files but no class folders with images: give a pattern for the files of one split, as "
		"tables/a/train-*.parquet, or tables/a/*.parquet for all of them");
	assert_refused(&(struct stk_file_list_options){.file_root = "tables/b"}, STK_INVALID, "or tables/b/*.parquet for");
	assert_refused(&(struct stk_file_list_options){.file_root = "tables", .nested = true}, STK_INVALID,
		"tables/a: a class folder without images: give a list of files and labels; endings seen: .parquet (1), .txt (1); Parquet files are "
		"read by Loader(\"FOLDER/*.parquet\") of the Python package, or a list of such patterns");
	assert_refused(&(struct stk_file_list_options){.file_root = "deep"}, STK_INVALID, "did you mean \"deep/");
	const char *of_videos[] = {"*.mov", "*.mp4"}, *of_sounds[] = {"*.wav"}, *of_others[] = {"*.bin"};
	put("clips/a/1.mp4", "x");
	put("clips/a/0.txt", "x");
	put("clips/b/2.mp4", "x");
	put("clips/loose.mp4", "x");
	put("clips/b/more/3.mp4", "x");
	put("clips/c/", NULL);
	assert_refused(&(struct stk_file_list_options){.file_root = "clips/a"}, STK_INVALID,
		"clips/a holds 2 files but no class folders with images (ROOT/CLASS/FILE is what is read); videos are read by Loader(frames=N)");
	assert_refused(&(struct stk_file_list_options){.file_root = "clips/a", .file_filters = of_videos, .filter_count = 2}, STK_INVALID,
		"clips/a holds 1 video but no class folders (ROOT/CLASS/FILE is what is read): for videos without classes give the list of the files");
	assert_refused(&(struct stk_file_list_options){.file_root = "clips", .file_filters = of_videos, .filter_count = 2, .nested = true},
		STK_INVALID, "clips/c: a class folder without videos: remove it");
	assert_refused(&(struct stk_file_list_options){.file_root = "clips", .file_filters = of_sounds, .filter_count = 1, .nested = true},
		STK_INVALID,
		"clips/a: a class folder without sounds: remove it, or give a list of files and labels; endings seen: .mp4 (1), "
		".txt (1); videos are read by Loader(frames=N)");
	assert_refused(&(struct stk_file_list_options){.file_root = "clips", .file_filters = of_others, .filter_count = 1, .nested = true},
		STK_INVALID, "clips/a: a class folder without files that match file_filters: remove it");
	assert_refused(&(struct stk_file_list_options){.file_root = "data", .file_filters = of_videos, .filter_count = 2, .nested = true},
		STK_INVALID, "endings seen: .jpg (1), .png (1); images are read by a Loader without frames or an Audio field");
	struct stk_file_list *clips = NULL;
	const char *skipped;
	assert_int_equal(
		stk__file_list_create(
			&(struct stk_file_list_options){.file_root = "clips", .file_filters = of_videos, .filter_count = 2}, &clips, NULL),
		STK_OK);
	assert_int_equal(stk__file_list_skipped(clips, &skipped), 4);
	assert_string_equal(skipped,
		"1 file that is no video: .txt (1); 1 video next to the class folders; 1 folder inside a class folder; "
		"1 class folder without videos");
	stk__file_list_destroy(clips);
	assert_refused(&(struct stk_file_list_options){.file_root = "alone.jpg"}, STK_INVALID, "a file, not a folder");
	assert_refused(&(struct stk_file_list_options){.file_root = "gone"}, STK_NOT_FOUND, "gone: cannot open the folder");
	static const char *const meant_as_uris[] = {"S3://bucket/train", "s3:/bucket/train", "HTTP://host/train"};
	for (int i = 0; i < 3; i++)
		assert_refused(&(struct stk_file_list_options){.file_root = meant_as_uris[i]}, STK_NOT_FOUND,
			"URIs are written as in s3://bucket/prefix");
	assert_refused(&(struct stk_file_list_options){.file_root = "data", .dir_filters = none, .dir_filter_count = 1}, STK_INVALID,
		"dir_filters leave out all of its 1 folders");
	assert_refused(&(struct stk_file_list_options){.file_root = "data", .file_filters = none, .filter_count = 1}, STK_INVALID,
		"matches file_filters; endings seen: .jpg (1), .png (1)");
	assert_refused(&(struct stk_file_list_options){.file_root = ""}, STK_INVALID, "give file_root");
	if (geteuid() != 0) {
		assert_int_equal(chmod("secret/a", 0), 0);
		assert_refused(&(struct stk_file_list_options){.file_root = "secret"}, STK_IO,
			"secret/a: cannot open the folder: Permission denied");
	}
}

static void test_lists(void **state)
{
	(void)state;
	const struct {
		const char *text, *want; /* NULL: the input must be refused */
		const char *says;
	} rows[] = {
		{"b/1.jpg 3\n\nb/2.JPG 4", "t/b/1.jpg 3|t/b/2.JPG 4", NULL},
		{"b/1.jpg 3\r\n", "t/b/1.jpg 3", NULL},
		{"b/1 x.jpg 2\n", "t/b/1 x.jpg 2", NULL},
		{"b/1.jpg   2  \n", "t/b/1.jpg 2", NULL},
		{"  b/1.jpg 2\n", "t/  b/1.jpg 2", NULL},
		{"b/1.jpg\t5\n", "t/b/1.jpg 5", NULL},
		{"/etc/hostname 1\n", "/etc/hostname 1", NULL},
		{"s3://bucket/key 1\n", "s3://bucket/key 1", NULL},
		{"a 2147483647", "t/a 2147483647", NULL},
		{"a 1\nb/1.jpg -1\n", NULL, "t/l.txt, line 2: the label is negative"},
		{"a 1\n\n\nb/1.jpg\n", NULL, "line 4: one field where"},
		{"b/1.jpg 2x\n", NULL, "line 1: the label is not a whole number"},
		{"b/1.jpg 1.5\n", NULL, "not a whole number"},
		{"b/1.jpg 2147483648\n", NULL, "above 2147483647"},
		{" 7\n", NULL, "one field"},
		{"", NULL, "t/l.txt: it names no files"},
		{"\n \n\t\n", NULL, "it names no files"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (int rooted = 0; rooted < 2; rooted++) {
			put("t/l.txt", rows[i].text);
			struct stk_file_list_options o = {.file_list = "t/l.txt", .file_root = rooted ? "t" : NULL};
			if (rows[i].want)
				assert_list(&o, rows[i].want);
			else
				assert_refused(&o, STK_INVALID, rows[i].says);
		}
	put("l.txt", "b/1.jpg 0\n");
	assert_list(&(struct stk_file_list_options){.file_list = "l.txt"}, "b/1.jpg 0");
	assert_refused(&(struct stk_file_list_options){.file_list = "gone.txt"}, STK_NOT_FOUND, "gone.txt");
	assert_refused(&(struct stk_file_list_options){.file_list = "t"}, STK_INVALID, "t: a directory, not a file");
}

static void test_files_of_the_caller(void **state)
{
	(void)state;
	const char *files[] = {"b/1.jpg", "/x/2.jpg"};
	const int64_t labels[] = {-4, 7}, wide[] = {0, 1ll << 40};
	struct stk_file_list_options o = {.files = files, .file_count = 2};
	assert_list(&o, "b/1.jpg 0|/x/2.jpg 1");
	o.file_root = "t";
	o.labels = labels;
	assert_list(&o, "t/b/1.jpg -4|/x/2.jpg 7");
	o.labels = wide;
	assert_refused(&o, STK_INVALID, "labels[1] is 1099511627776");
	o.file_count = 0;
	assert_refused(&o, STK_INVALID, "empty");
	o.file_list = "l.txt";
	assert_refused(&o, STK_INVALID, "exclude each other");
}

static uint64_t fingerprint_of(const char *dir)
{
	struct stk_file_list *l;
	assert_int_equal(stk__file_list_create(&(struct stk_file_list_options){.file_root = dir}, &l, NULL), STK_OK);
	uint64_t h = stk__file_list_fingerprint(l, STK_DIGEST_NOW);
	stk__file_list_destroy(l);
	return h;
}

/* The fingerprint depends on names and labels, but not on the root or on the order in which the system lists files. */
static void test_fingerprint(void **state)
{
	(void)state;
	put("t/a/1.jpg", "x");
	put("t/b/2.jpg", "x");
	put("u/b/2.jpg", "x");
	put("u/a/1.jpg", "x");
	uint64_t h = fingerprint_of("t");
	assert_true(h == fingerprint_of("u"));
	put("u/b/3.jpg", "x");
	assert_true(h != fingerprint_of("u"));
	unlink("u/b/3.jpg");
	assert_true(h == fingerprint_of("u"));
	put("u/aa/", NULL); /* the new class comes before others, and so changes their labels */
	assert_true(h != fingerprint_of("u"));
	rename("t/b/2.jpg", "t/a/2.jpg");
	assert_true(h != fingerprint_of("t"));
}

static uint64_t fingerprint_of_two(const char *first, const char *second, enum stk_digest_form form)
{
	struct stk_file_list *l;
	const char *files[] = {first, second};
	assert_int_equal(stk__file_list_create(&(struct stk_file_list_options){.files = files, .file_count = 2}, &l, NULL), STK_OK);
	uint64_t h = stk__file_list_fingerprint(l, form);
	stk__file_list_destroy(l);
	return h;
}

static uint64_t now(const char *first, const char *second)
{
	return fingerprint_of_two(first, second, STK_DIGEST_NOW);
}

/* The fingerprint of absolute names leaves out their common folder, so it stays the same after the files were moved. Relative names count from their
 * beginning. */
static void test_fingerprint_of_moved_files(void **state)
{
	(void)state;
	const uint64_t h = now("/data/x/a/1.jpg", "/data/x/b/2.jpg");
	assert_true(h == now("/y/a/1.jpg", "/y/b/2.jpg"));
	assert_true(h == now("s3://bucket/a/1.jpg", "s3://bucket/b/2.jpg"));
	assert_true(h != now("/y/b/2.jpg", "/y/a/1.jpg"));
	assert_true(h != now("/y/a/1.jpg", "/y/b/3.jpg"));
	assert_true(h != now("/y/a/1.jpg", "/y/a/2.jpg"));
	assert_true(now("a/1.jpg", "b/2.jpg") == h);
	assert_true(now("x/a/1.jpg", "x/b/2.jpg") != h);
	const enum stk_digest_form whole = STK_DIGEST_WHOLE;
	assert_true(fingerprint_of_two("/y/a/1.jpg", "/y/b/2.jpg", whole) != fingerprint_of_two("/x/a/1.jpg", "/x/b/2.jpg", whole));
	assert_true(fingerprint_of_two("a/1.jpg", "b/2.jpg", whole) == h);
}

/* A URL that was signed again names the same file. In the older forms of a fingerprint, signatures count, as they still do in names of other stores. */
static void test_fingerprint_of_signed_urls(void **state)
{
	(void)state;
	static const char first[] = "https://h/x/a/1.jpg?X-Amz-Signature=o/1&v=1",
			  second[] = "https://h/x/b/2.jpg?v=1&Signature=2&Expires=3";
	const uint64_t h = now(first, second);
	assert_true(h == now("/y/a/1.jpg?v=1", "/y/b/2.jpg?v=1"));
	assert_true(h == now("http://i/a/1.jpg?v=1&X-Amz-Signature=p/q", "http://i/b/2.jpg?Expires=9&v=1&Signature=/"));
	assert_true(h != now("http://i/a/1.jpg?v=2&X-Amz-Signature=p/q", "http://i/b/2.jpg?Expires=9&v=1&Signature=/"));
	assert_true(now("http://i/a.jpg?Expires=1", "http://i/b.jpg") != now("http://i/a.jpg?Expires=2", "http://i/b.jpg"));
	assert_true(now("http://i/a.jpg?Signature=b/1", "http://i/a.jpg?Signature=b/2") == now("a.jpg", "a.jpg"));
	const uint64_t stored = now("s3://h/x/a/1.jpg?X-Amz-Signature=o/1&v=1", "s3://h/x/b/2.jpg?v=1&Signature=2&Expires=3");
	assert_true(fingerprint_of_two(first, second, STK_DIGEST_SIGNED) == stored);
	assert_true(stored != now("s3://h/x/a/1.jpg?X-Amz-Signature=o/2&v=1", "s3://h/x/b/2.jpg?v=1&Signature=2&Expires=3"));
	const uint64_t whole = fingerprint_of_two(first, second, STK_DIGEST_WHOLE);
	assert_true(whole != h && whole != stored);
	char path[2 * STK_MAX_SIGNED] = "http://h/a.jpg?Signature=";
	memset(path + strlen(path), 'x', STK_MAX_SIGNED); /* a name that no file can have */
	assert_true(now(path, path) != now("http://h/a.jpg", "http://h/a.jpg"));
}

static void test_lists_stay_small(void **state)
{
	(void)state;
	struct stk_file_list *l;
	char path[128];
	for (int i = 0; i < 3000; i++) {
		snprintf(path, sizeof path, "t/n0144076%d/n0144076%d_%d.JPEG", i % 10, i % 10, i);
		put(path, "");
	}
	assert_int_equal(stk__file_list_create(&(struct stk_file_list_options){.file_root = "t"}, &l, NULL), STK_OK);
	assert_int_equal(stk__file_list_size(l), 3000);
	assert_true(
		l->names_capacity + (size_t)l->capacity * sizeof *l->files + (size_t)l->folder_capacity * sizeof *l->folders < 3000 * 40);
	assert_null(l->labels);
	char last[128] = "";
	for (int64_t i = 0; i < 3000; i++) {
		stk__file_list_path(l, i, path, sizeof path);
		assert_true(strcmp(last, path) < 0);
		assert_int_equal(stk__file_list_label(l, i), path[10] - '0');
		assert_int_equal(access(path, F_OK), 0);
		strcpy(last, path);
	}
	stk__file_list_destroy(l);
}

/* Compares our glob with the system's fnmatch, for random globs and names of few letters. */
static void test_globs(void **state)
{
	(void)state;
	static const char glob_letters[] = "ab*?[]!-\\A.", name_letters[] = "abAB.-";
	unsigned random = 1;
	int matched = 0;
	for (int i = 0; i < 300000; i++) {
		char glob[9] = "", name[9] = "";
		random = random * 1664525 + 1013904223;
		unsigned length = random >> 29, other = random >> 26 & 7;
		for (unsigned k = 0; k < length; k++)
			glob[k] = glob_letters[((random = random * 1664525 + 1013904223) >> 16) % (sizeof glob_letters - 1)];
		for (unsigned k = 0; k < other; k++)
			name[k] = name_letters[((random = random * 1664525 + 1013904223) >> 16) % (sizeof name_letters - 1)];
		if (strpbrk(glob, "[\\"))
			continue; /* fnmatch handles some sets differently (collation, unclosed sets); these are tested below */
		bool want = fnmatch(glob, name, 0) == 0;
		if (stk__glob_match(glob, name, true) != want)
			fail_msg("glob \"%s\" name \"%s\": fnmatch says %d", glob, name, want);
		want = fnmatch(glob, name, FNM_CASEFOLD) == 0;
		if (stk__glob_match(glob, name, false) != want)
			fail_msg("glob \"%s\" name \"%s\", any case: fnmatch says %d", glob, name, want);
		matched += want;
	}
	assert_true(matched > 1000);
	const struct {
		const char *glob, *name;
		bool match;
	} rows[] = {{"[b-d]", "c", true}, {"[b-d]", "C", true}, {"[!b-d]", "c", false}, {"[]x]", "]", true}, {"[a", "[a", true},
		{"\\*", "*", true}, {"\\*", "a", false}, {"*[0-9].jpg", "x7.jpg", true}, {"*[0-9].jpg", "xy.jpg", false},
		{"[a-]", "-", true}, {"[^a]", "b", true}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (stk__glob_match(rows[i].glob, rows[i].name, false) != rows[i].match)
			fail_msg("glob %s, name %s", rows[i].glob, rows[i].name);
}

static int by_text(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;
	return strcmp(*x, *y);
}

/* Compares the expansion of a path with the system's glob. */
static void compare_expansion(const char *path)
{
	const char *paths[] = {path};
	struct stk_names got;
	struct stk_error err = {0};
	glob_t want = {0};
	const int failed = glob(path, 0, NULL, &want);
	const enum stk_status s = stk__names_expand(NULL, paths, 1, &got, &err);
	if (s != (failed == GLOB_NOMATCH ? STK_NOT_FOUND : STK_OK) || got.count != want.gl_pathc)
		fail_msg("%s: %zu matches, and glob finds %zu: %s", path, got.count, want.gl_pathc, err.message);
	if (got.count)
		qsort(want.gl_pathv, want.gl_pathc, sizeof *want.gl_pathv, by_text);
	for (size_t i = 0; i < got.count; i++)
		assert_string_equal(got.at[i], want.gl_pathv[i]);
	stk__names_free(&got);
	globfree(&want);
}

static void test_paths_are_expanded_as_by_glob(void **state)
{
	(void)state;
	static const char letters[] = "ab*?[]-\\./";
	static const char *const files[] = {"a", "ab", "b/a", "b/b", "b/ab", "b/a-b", "ba/a", "ba/.a", ".b/a", "-/b", "b./a/b", "b./b/b"};
	unsigned random = 1;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		put(files[i], "x");
	assert_int_equal(symlink("b", "aa") | symlink("missing", "bb") | symlink("loop", "loop"), 0);
	for (int i = 0; i < 60000; i++) {
		char glob[9] = "";
		const unsigned length = (random = random * 1664525 + 1013904223) >> 29;
		for (unsigned k = 0; k < length; k++)
			glob[k] = letters[((random = random * 1664525 + 1013904223) >> 16) % (sizeof letters - 1)];
		/* Names that exist are not expanded. In glob, ".*" finds . and .. , "[." begins a collating symbol, and a glob that ends in a slash finds files. */
		if (!strpbrk(glob, "*?[") || access(glob, F_OK) == 0 || strstr(glob, ".*") || strstr(glob, ".?") || strstr(glob, ".[") ||
			strstr(glob, "[.") || strstr(glob, "\\/") || strstr(glob, "///") || *glob == '/' || glob[length - 1] == '/')
			continue;
		compare_expansion(glob);
	}
	char absolute[128];
	snprintf(absolute, sizeof absolute, "%s/*//a*", root);
	compare_expansion(absolute);
}

/* A folder that cannot be read is an error that names it, since its files would be missing from the data set. */
static void test_folders_that_cannot_be_read(void **state)
{
	(void)state;
	static const char *const globs[] = {"*/*.tar", "b/*.tar", "*/1.tar", "*/c/*.tar"};
	const uid_t user = geteuid();
	put("a/1.tar", "x");
	put("b/2.tar", "x");
	put("b/c/3.tar", "x");
	put("f/d/4.tar", "x");
	put("f/lost+found/5.tar", "x");
	assert_int_equal(chmod(root, 0777) | chmod("b/c", 0777) | chmod("b", 0) | chmod("f", 0777) | chmod("f/d", 0777), 0);
	assert_int_equal(chmod("f/lost+found", 0) | (user ? 0 : seteuid(65534)), 0);
	for (size_t i = 0; i < sizeof globs / sizeof *globs; i++) {
		struct stk_names names;
		struct stk_error err = {0};
		const enum stk_status s = stk__names_expand(NULL, &globs[i], 1, &names, &err);
		if (s != STK_IO || strncmp(err.message, "b", 1) || !strstr(err.message, "Permission denied"))
			fail_msg("%s: %s: \"%s\"", globs[i], stk_status_name(s), err.message);
	}
	struct stk_names names;
	const char *found_in_f = "f/*/*.tar";
	assert_int_equal(stk__names_expand(NULL, &found_in_f, 1, &names, NULL), STK_OK);
	assert_int_equal(names.count, 1);
	stk__names_free(&names);
	assert_int_equal(seteuid(user) | chmod("f/lost+found", 0700), 0);
}

/* ---- CIFAR ---- */

static uint8_t pixel(int64_t record, size_t i)
{
	return (uint8_t)(record * 131 + (int64_t)i * 7);
}

static void put_cifar(const char *path, int label_bytes, int64_t first, int64_t records, size_t cut)
{
	size_t record = (size_t)label_bytes + STK_CIFAR_PIXELS, size = record * (size_t)records;
	uint8_t *data = stk__alloc(size);
	assert_non_null(data);
	for (int64_t i = 0; i < records; i++) {
		uint8_t *r = data + (size_t)i * record;
		r[0] = (uint8_t)((first + i) % (label_bytes == 2 ? 20 : 10));
		r[label_bytes - 1] = (uint8_t)((first + i) % (label_bytes == 2 ? 100 : 10));
		if (label_bytes == 2)
			r[0] = (uint8_t)((first + i) % 20);
		for (size_t k = 0; k < STK_CIFAR_PIXELS; k++)
			r[(size_t)label_bytes + k] = pixel(first + i, k);
	}
	make_folders(path);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, size - cut, f), size - cut);
	fclose(f);
	stk__free(data);
}

static void check_cifar(const char *folder, enum stk_cifar_split split, int64_t records, int classes)
{
	struct stk_cifar *c;
	struct stk_error err = {0};
	if (stk__cifar_open(folder, split, &c, &err))
		fail_msg("%s", err.message);
	assert_int_equal(stk__cifar_size(c), records);
	for (int64_t i = 0; i < records; i += 997) {
		assert_int_equal(stk__cifar_label(c, i), i % classes);
		assert_int_equal(stk__cifar_coarse_label(c, i), classes == 100 ? i % 20 : -1);
		for (size_t k = 0; k < STK_CIFAR_PIXELS; k++)
			if (stk__cifar_pixels(c, i)[k % 1024 * 3 + k / 1024] != pixel(i, k))
				fail_msg("%s: record %lld, value %zu", folder, (long long)i, k);
	}
	stk__cifar_close(c);
}

static void refuse_cifar(const char *folder, enum stk_status status, const char *says)
{
	struct stk_cifar *c = (void *)1;
	struct stk_error err = {0};
	assert_int_equal(stk__cifar_open(folder, STK_CIFAR_TEST, &c, &err), status);
	assert_null(c);
	if (!strstr(err.message, says))
		fail_msg("\"%s\" does not say \"%s\"", err.message, says);
}

static void test_cifar(void **state)
{
	(void)state;
	char path[64];
	for (int i = 0; i < 5; i++) {
		snprintf(path, sizeof path, "ten/cifar-10-batches-bin/data_batch_%d.bin", i + 1);
		put_cifar(path, 1, i * 10000, 10000, 0);
	}
	put_cifar("ten/cifar-10-batches-bin/test_batch.bin", 1, 0, 10000, 0);
	put_cifar("hundred/test.bin", 2, 0, 10000, 0);
	check_cifar("ten", STK_CIFAR_TRAIN, 50000, 10);
	check_cifar("ten/cifar-10-batches-bin", STK_CIFAR_TRAIN, 50000, 10);
	check_cifar("ten", STK_CIFAR_TEST, 10000, 10);
	check_cifar("hundred", STK_CIFAR_TEST, 10000, 100);
	put_cifar("cut/test_batch.bin", 1, 0, 10000, 5);
	refuse_cifar("cut", STK_CORRUPT,
		"cut/test_batch.bin: 10000 records of 3073 bytes make 30730000 bytes, and it has 30729995: it is cut short");
	put_cifar("long/test.bin", 2, 0, 10001, 0);
	refuse_cifar("long", STK_CORRUPT, "30740000 bytes, and it has 30743074");
	put_cifar("label/test_batch.bin", 2, 10, 10000, 10000); /* the file has the right size, but its labels are at other offsets */
	refuse_cifar("label", STK_CORRUPT, "has the label");
	put("other/x", "");
	refuse_cifar("other", STK_NOT_FOUND, "neither test_batch.bin");
	refuse_cifar("gone", STK_NOT_FOUND, "gone: no such folder");
	put("ten/cifar-100-binary/test.bin", "");
	refuse_cifar("ten", STK_INVALID, "ten holds both CIFAR-10 and CIFAR-100: give the folder of one");
	check_cifar("ten", STK_CIFAR_TRAIN, 50000, 10); /* the folder has only the other split of CIFAR-100 */
	check_cifar("ten/cifar-10-batches-bin", STK_CIFAR_TEST, 10000, 10);
	refuse_cifar("ten/cifar-10-batches-bin/test_batch.bin", STK_NOT_FOUND, "neither");
}

#ifdef STK_FAULTS
static void run_with_faults(const struct stk_file_list_options *o)
{
	const enum stk_fault kinds[] = {STK_FAULT_ALLOC, STK_FAULT_READ};
	for (size_t k = 0; k < 2; k++)
		for (int64_t nth = 0, met = 1; met; nth++) {
			struct stk_file_list *l;
			struct stk_error err = {0};
			stk__fault_set(kinds[k], nth);
			enum stk_status status = stk__file_list_create(o, &l, &err);
			met = stk__fault_passed(kinds[k]) > nth;
			stk__fault_set(kinds[k], -1);
			if (!met)
				assert_int_equal(status, STK_OK);
			else if (status)
				assert_int_equal(err.code, status); /* else shrinking a block failed, which only costs memory */
			stk__file_list_destroy(l);
			assert_true(nth < 1000);
		}
}

static void test_fault_loops(void **state)
{
	(void)state;
	const char *files[] = {"a", "b"};
	plant_tree();
	put("l.txt", "a 1\nb 2\n");
	run_with_faults(&(struct stk_file_list_options){.file_root = "t"});
	run_with_faults(&(struct stk_file_list_options){.file_list = "l.txt"});
	run_with_faults(&(struct stk_file_list_options){.files = files, .file_count = 2});
}
#endif

/* Tests the check value from the algorithm's catalogue, and compares the processor's instruction with plain C at every length and alignment. */
static void test_checksums(void **state)
{
	(void)state;
	uint8_t bytes[80];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	assert_int_equal(stk__crc32c(0, (const uint8_t *)"123456789", 9), 0xe3069283);
	for (size_t begin = 0; begin < 8; begin++)
		for (size_t n = 0; begin + n <= sizeof bytes; n++)
			assert_int_equal(stk__crc32c(stk__cpu_capabilities(), bytes + begin, n), stk__crc32c(0, bytes + begin, n));
}

#define IN_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ROOT(test_trees_are_listed_as_dali_does),
		IN_ROOT(test_classes_have_names),
		IN_ROOT(test_errors_say_what_is_there),
		IN_ROOT(test_lists),
		IN_ROOT(test_files_of_the_caller),
		IN_ROOT(test_fingerprint),
		cmocka_unit_test(test_fingerprint_of_moved_files),
		cmocka_unit_test(test_fingerprint_of_signed_urls),
		IN_ROOT(test_lists_stay_small),
		cmocka_unit_test(test_globs),
		IN_ROOT(test_paths_are_expanded_as_by_glob),
		IN_ROOT(test_folders_that_cannot_be_read),
		cmocka_unit_test(test_checksums),
		IN_ROOT(test_cifar),
#ifdef STK_FAULTS
		IN_ROOT(test_fault_loops),
#endif
	};
	return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
