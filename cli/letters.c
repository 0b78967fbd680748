/* SPDX-License-Identifier: Apache-2.0 */
#include "letters.h"

#include <string.h>

/* Each character is followed by its five rows from the top, one octal digit for each row. */
static const char letters[] = " 00000.00002,00024-00700_00007/11244:02020+02720(12221)42224=07070?71202"
			      "075557126227271747371717455711574717674757771122875757975717A25755B65656"
			      "C34443D65556E74647F74644G34553H55755I72227J11152K55655L44447M57755N65555"
			      "O25552P65644Q25573R65655S34216T72222U55557V55552W55775X55255Y55222Z71247";

bool letter_dot(char letter, int x, int y)
{
	enum { STRIDE = 1 + LETTER_HEIGHT };
	const char capital = (char)(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
	const char *found = NULL;
	for (const char *l = letters; *l && !found; l += STRIDE) {
		if (*l == capital)
			found = l;
	}
	return found ? (found[1 + y] - '0') >> (LETTER_WIDTH - 1 - x) & 1 : letter_dot('?', x, y);
}
