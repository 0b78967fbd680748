/* SPDX-License-Identifier: Apache-2.0
 * stoker view FILE for a sound: draws its waveform, with its spectrogram below. */
#include "command.h"
#include "output.h"
#include "sheet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* WINDOW: number of samples of a spectrum. The spectrogram has one row for each bin, with the lowest at the bottom. */
enum { COLUMNS = 1000, WAVE = 160, WINDOW = 512, BINS = WINDOW / 2 + 1, HEIGHT = WAVE + BINS, FRAMES = 1 << 16 };
#define RANGE 80.0f /* range of the spectrogram in decibels: points that are quieter than the loudest one by this much or more are black */

struct drawing {
	struct stk_audio *audio;
	struct stk_audio_info info;
	int32_t columns;
	float *low, *high; /* smallest and largest sample of each column */
	float *power;      /* COLUMNS x BINS, in decibels */
	uint8_t *pixels;
	float samples[FRAMES];
};

static int64_t begin_of(const struct drawing *d, int32_t column)
{
	return (int64_t)((double)d->info.frames * column / d->columns);
}

/* Reads `count` frames from number `first` on to d->samples, and averages the channels of each. */
static enum stk_status read_frames(struct drawing *d, int64_t first, int64_t count, struct stk_error *err)
{
	return stk_audio_read(d->audio, first, count, STK_FLOAT, true, d->samples, sizeof(float) * (size_t)count, err);
}

static enum stk_status find_extremes(struct drawing *d, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	int32_t column = 0;
	for (int64_t at = 0, n; at < d->info.frames && status == STK_OK; at += n) {
		n = d->info.frames - at < FRAMES ? d->info.frames - at : FRAMES;
		status = read_frames(d, at, n, err);
		for (int64_t i = 0; i < n && status == STK_OK; i++) {
			while (column + 1 < d->columns && at + i >= begin_of(d, column + 1))
				column++;
			d->low[column] = fminf(d->low[column], d->samples[i]);
			d->high[column] = fmaxf(d->high[column], d->samples[i]);
		}
	}
	return status;
}

/* Computes the spectrum of the samples around the middle of each column. */
static enum stk_status find_spectra(struct drawing *d, struct stk_error *err)
{
	float cosine[WINDOW], window[WINDOW], x[WINDOW];
	for (int i = 0; i < WINDOW; i++) {
		cosine[i] = cosf(6.2831853f * (float)i / WINDOW);
		window[i] = 0.5f - 0.5f * cosf(6.2831853f * ((float)i + 0.5f) / WINDOW);
	}
	for (int32_t c = 0; c < d->columns; c++) {
		const int64_t middle = (begin_of(d, c) + begin_of(d, c + 1)) / 2;
		const int64_t first = middle < WINDOW / 2 ? 0 : middle - WINDOW / 2;
		const int64_t n = d->info.frames - first < WINDOW ? d->info.frames - first : WINDOW;
		enum stk_status status = read_frames(d, first, n, err);
		if (status != STK_OK)
			return status;
		for (int i = 0; i < WINDOW; i++)
			x[i] = i < n && isfinite(d->samples[i]) ? d->samples[i] * window[i] : 0;
		for (int k = 0; k < BINS; k++) {
			float re = 0, im = 0;
			for (int i = 0; i < WINDOW; i++) {
				re += x[i] * cosine[i * k % WINDOW];
				im += x[i] * cosine[(i * k + WINDOW / 4) % WINDOW];
			}
			d->power[c * BINS + k] = 10 * log10f(re * re + im * im + 1e-12f);
		}
	}
	return STK_OK;
}

static void set_pixel(struct drawing *d, int32_t x, int32_t y, const float rgb[3])
{
	for (int c = 0; c < 3; c++)
		d->pixels[((size_t)y * (size_t)d->columns + (size_t)x) * 3 + (size_t)c] = (uint8_t)(rgb[c] * 255 + 0.5f);
}

/* Maps 0..1 to a colour: from black over purple and orange to a light yellow. */
static void color_of(float part, float rgb[3])
{
	static const float stops[5][3] = {
		{0, 0, 0.02f}, {0.34f, 0.06f, 0.43f}, {0.73f, 0.21f, 0.33f}, {0.98f, 0.55f, 0.04f}, {0.99f, 1, 0.64f}};
	const float at = fminf(fmaxf(part, 0), 1) * 4;
	const int k = at >= 4 ? 3 : (int)at;
	for (int c = 0; c < 3; c++)
		rgb[c] = stops[k][c] + (stops[k + 1][c] - stops[k][c]) * (at - (float)k);
}

static int32_t row_of(float sample)
{
	const float at = (1 - fminf(fmaxf(sample, -1), 1)) / 2 * (WAVE - 1);
	return (int32_t)(at + 0.5f);
}

static void draw(struct drawing *d)
{
	static const float wave[3] = {0.16f, 0.38f, 0.66f}, paper[3] = {1, 1, 1};
	float loudest = -INFINITY, rgb[3];
	for (int32_t i = 0; i < d->columns * BINS; i++)
		loudest = fmaxf(loudest, d->power[i]);
	for (int32_t x = 0; x < d->columns; x++) {
		for (int32_t y = 0; y < WAVE; y++)
			set_pixel(d, x, y, y >= row_of(d->high[x]) && y <= row_of(d->low[x]) ? wave : paper);
		for (int32_t k = 0; k < BINS; k++) {
			color_of(1 + (d->power[x * BINS + k] - loudest) / RANGE, rgb);
			set_pixel(d, x, HEIGHT - 1 - k, rgb);
		}
	}
}

static int report(const struct drawing *d, const char *path, const char *output, bool json)
{
	const double seconds = (double)d->info.frames / d->info.rate;
	if (!json) {
		printf("%s: waveform and spectrogram of %s: %.3f s, 0 to %d Hz, %d x %d pixels\n", output, path, seconds, d->info.rate / 2,
			d->columns, HEIGHT);
		return EXIT_FINE;
	}
	json_t *o = json_object();
	put_text(o, "file", output);
	put_text(o, "sound", path);
	put_real(o, "seconds", seconds);
	put_int(o, "rate", d->info.rate);
	put_int(o, "channels", d->info.channels);
	put_int(o, "width", d->columns);
	put_int(o, "height", HEIGHT);
	return print_json(o);
}

static int draw_file(struct drawing *d, const char *path, struct stk_storage *storage, const char *output, bool json, struct stk_error *err)
{
	const struct stk_audio_request request = {.size = sizeof(request), .path = path, .storage = storage};
	char text[1024];
	d->info.size = sizeof(d->info);
	if (stk_audio_open(&request, &d->audio, &d->info, err) != STK_OK)
		return fail("view", err);
	if (d->info.frames == 0)
		return fail_text("view", "%s: the file has no samples", path);
	d->columns = d->info.frames < COLUMNS ? (int32_t)d->info.frames : COLUMNS;
	if (find_extremes(d, err) != STK_OK || find_spectra(d, err) != STK_OK)
		return fail("view", err);
	draw(d);
	if (!write_png(output, d->pixels, d->columns, HEIGHT, text, sizeof(text)))
		return fail_text("view", "%s", text);
	return report(d, path, output, json);
}

int view_sound(const struct settings *s, struct stk_storage *storage)
{
	struct drawing *d = calloc(1, sizeof(*d));
	struct stk_error err = {0};
	int code = EXIT_PROBLEM;
	if (d) {
		d->low = calloc(COLUMNS, sizeof(float));
		d->high = calloc(COLUMNS, sizeof(float));
		d->power = calloc((size_t)COLUMNS * BINS, sizeof(float));
		d->pixels = calloc((size_t)COLUMNS * HEIGHT, 3);
	}
	if (!d || !d->low || !d->high || !d->power || !d->pixels)
		fail_text("view", "out of memory");
	else
		code = draw_file(d, s->args[0], storage, s->output ? s->output : "view.png", s->json, &err);
	if (d) {
		stk_audio_close(d->audio);
		free(d->low);
		free(d->high);
		free(d->power);
		free(d->pixels);
	}
	free(d);
	return code;
}
