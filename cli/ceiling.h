/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the rate that `stoker bench` compares Stoker with: reads files and decodes random windows of them with libjpeg-turbo, and does nothing else. The
 * windows follow the distribution of decoders.image_random_crop (area 0.08 to 1, aspect 3/4 to 4/3). Decoding settings are stoker's: accurate DCT, fancy
 * upsampling, RGB (files with four channels: CMYK); lines above the window are skipped, those below are not read, columns outside are cropped. */
#ifndef STOKER_CLI_CEILING_H
#define STOKER_CLI_CEILING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ceiling {
	char **paths; /* paths of the JPEG files, which ceiling_close frees */
	size_t count, capacity;
	int32_t threads;
	/* number of the next image, which also seeds its window; not reset by later runs, so that a file gets other windows */
	int64_t next;
};

/* Lists the JPEG files under a folder. Returns false if it finds no files or memory is short. */
bool ceiling_open(struct ceiling *c, const char *folder, int32_t threads);
/* Decodes files on the threads for `seconds`, at least one file on each thread, and waits for the threads. Returns the number of files that were decoded
 * without an error. *cpu: set to the CPU time of the threads in seconds. */
int64_t ceiling_run(struct ceiling *c, double seconds, double *cpu);
void ceiling_close(struct ceiling *c);

#endif
