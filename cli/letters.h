/* SPDX-License-Identifier: Apache-2.0
 *
 * A font of 3 x 5 dots for captions. Small letters look like capitals. */
#ifndef STOKER_CLI_LETTERS_H
#define STOKER_CLI_LETTERS_H

#include <stdbool.h>

enum { LETTER_WIDTH = 3, LETTER_HEIGHT = 5 };

/* Returns whether a dot of a letter is set. Characters that the font lacks look like a question mark. */
bool letter_dot(char letter, int x, int y);

#endif
