/* SPDX-License-Identifier: Apache-2.0
 *
 * The font of captions: X11's "misc-fixed" of 6 x 13 dots, which is in the public domain, with the characters of Latin-1. */
#ifndef STOKER_CLI_LETTERS_H
#define STOKER_CLI_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LETTER_WIDTH = 6, LETTER_HEIGHT = 13 }; /* size of a letter in dots, including the gap to the next letter */

/* Returns whether the dot in column x and row y of a Latin-1 character is set. */
bool letter_dot(uint8_t letter, int x, int y);

/* Writes a UTF-8 text to `letters` as Latin-1, and returns the number of characters. Characters that the font lacks become \u4e2d or \U0001f600, control
 * characters and bytes that are not UTF-8 become \x0a, so that a reader can type them. `letters` must have room for ten times the bytes of the text. */
size_t letters_of(const char *text, uint8_t *letters);

#endif
