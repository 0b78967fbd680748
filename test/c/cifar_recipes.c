/* SPDX-License-Identifier: Apache-2.0 */
#include "cifar_recipes.h"

/* Casts the labels to int64 on the cores, and copies them to the GPU. */
static struct value labels_there(struct cifar in)
{
	struct value cast = ADD(in.g, "cast", .in = {in.label}, .args = {stk_arg_int("dtype", 7)});
	return ADD(in.g, "copy", .in = {cast}, .gpu = true);
}

static void training(struct cifar in)
{
	struct value labels = labels_there(in);
	struct value window = ADD(in.g, "random_crop", .in = {in.image},
		.args = {INTS("size", 32, 32), INTS("padding", 4, 4, 4, 4), INTS("fill_values", 9, 8, 7)}, .gpu = true);
	struct value flipped = ADD(in.g, "flip", .in = {window}, .args = {stk_arg_node("horizontal", in.flip.node)}, .gpu = true);
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {flipped},
		.args = {NORM, stk_arg_int("dtype", 8), stk_arg_string("output_layout", "HWC")}, .gpu = true);
	OUTPUTS(in.g, normalized, labels);
}

static void validation(struct cifar in)
{
	struct value labels = labels_there(in);
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {in.image}, .args = {NORM}, .gpu = true);
	OUTPUTS(in.g, normalized, labels);
}

static void uint8(struct cifar in)
{
	struct value labels = labels_there(in);
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {in.image},
		.args = {stk_arg_node("mirror", in.flip.node), stk_arg_int("dtype", 0)}, .gpu = true);
	OUTPUTS(in.g, normalized, labels);
}

static void uneven_windows_two_coins_of_one_appended_channels(struct cifar in)
{
	struct value window = ADD(in.g, "random_crop", .in = {in.image},
		.args = {INTS("size", 37, 29), INTS("padding", 3, 0, 1, 9), INTS("fill_values", 1, 2, 3)}, .gpu = true);
	struct value flipped = ADD(in.g, "flip", .in = {window},
		.args = {stk_arg_node("horizontal", in.flip.node), stk_arg_node("vertical", in.flip.node)}, .gpu = true);
	struct value window_2 =
		ADD(in.g, "crop", .in = {flipped}, .args = {INTS("crop", 19, 21), stk_arg_float("crop_pos_x", 0.3)}, .gpu = true);
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {window_2},
		.args = {stk_arg_node("mirror", in.seldom.node), NORM, stk_arg_int("dtype", 12), stk_arg_bool("pad_output", true)},
		.gpu = true);
	OUTPUTS(in.g, normalized);
}

static void a_window_outside_normalised_before_the_fill(struct cifar in)
{
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {in.image},
		.args = {INTS("crop", 40, 24), stk_arg_float("crop_pos_x", 0.9), stk_arg_string("out_of_bounds_policy", "pad"),
			FLOATS("fill_values", 0.5), stk_arg_node("mirror", in.flip.node), NORM},
		.gpu = true);
	OUTPUTS(in.g, normalized);
}

static void two_views_and_two_tables(struct cifar in)
{
	struct value labels = labels_there(in);
	struct value classes = ADD(in.g, "one_hot", .in = {in.label}, .args = {stk_arg_int("num_classes", 11)}, .gpu = true);
	struct value window = ADD(in.g, "random_crop", .name = "A", .in = {in.image}, .args = {INTS("size", 24, 24)}, .gpu = true);
	struct value window_2 = ADD(in.g, "random_crop", .name = "B", .in = {in.image}, .args = {INTS("size", 24, 24)}, .gpu = true);
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {window}, .args = {NORM}, .gpu = true);
	struct value normalized_2 =
		ADD(in.g, "crop_mirror_normalize", .in = {window_2}, .args = {NORM, stk_arg_node("mirror", in.seldom.node)}, .gpu = true);
	OUTPUTS(in.g, normalized, normalized_2, labels, classes);
}

static void an_output_twice(struct cifar in)
{
	struct value labels = labels_there(in);
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {in.image}, .args = {NORM}, .gpu = true);
	OUTPUTS(in.g, normalized, labels, normalized);
}

static void labels_on_the_cores(struct cifar in)
{
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {in.image}, .args = {NORM}, .gpu = true);
	OUTPUTS(in.g, normalized, in.label);
}

static void a_resize(struct cifar in)
{
	struct value resized = ADD(in.g, "resize", .in = {in.image}, .args = {INTS("size", 24, 40)}, .gpu = true);
	OUTPUTS(in.g, resized);
}

static void a_brightness_that_is_drawn(struct cifar in)
{
	struct value drawn = ADD(in.g, "random.uniform", .args = {FLOATS("range", 0.5, 1.5)});
	struct value bright =
		ADD(in.g, "brightness_contrast", .in = {in.image}, .args = {stk_arg_node("brightness", drawn.node)}, .gpu = true);
	OUTPUTS(in.g, bright);
}

static void a_coin_that_decides_on_the_fill(struct cifar in)
{
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {in.image},
		.args = {INTS("crop", 20, 20), stk_arg_node("crop_pos_x", in.flip.node), NORM}, .gpu = true);
	OUTPUTS(in.g, normalized);
}

static void a_draw_that_is_kept(struct cifar in)
{
	struct value copied = ADD(in.g, "copy", .in = {in.flip}, .gpu = true);
	struct value normalized = ADD(in.g, "crop_mirror_normalize", .in = {in.image}, .args = {NORM}, .gpu = true);
	OUTPUTS(in.g, normalized, copied);
}

const struct recipe recipes[RECIPES] = {
	{"training", training, true, true},
	{"validation", validation, true, true},
	{"uint8", uint8, true, true},
	{"uneven windows, two coins of one, appended channels", uneven_windows_two_coins_of_one_appended_channels, true, true},
	{"a window outside, normalised before the fill", a_window_outside_normalised_before_the_fill, true, true},
	{"two views and two tables", two_views_and_two_tables, true, true},
	{"an output twice", an_output_twice, false},
	{"labels on the cores", labels_on_the_cores, false, true},
	{"a resize", a_resize, false},
	{"a brightness that is drawn", a_brightness_that_is_drawn, false},
	{"a coin that decides on the fill", a_coin_that_decides_on_the_fill, true, true},
	{"a draw that is kept", a_draw_that_is_kept, false},
};
