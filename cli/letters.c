/* SPDX-License-Identifier: Apache-2.0 */
#include "letters.h"

#include <stdio.h>
#include <string.h>

/* The characters from 0x20 to 0x7e and from 0xa0 on. Each has one digit for each of its 13 rows, from the top: '0' plus the row's dots as 5 bits. The sixth,
 * rightmost dot is never set. */
/* clang-format off */
static const char rows[] =
	"0000000000000004444444040000:::00000000000::O:O::000004?DD>55N400009E:248:EB000008DD8DCB=00004440000000002448888844200844222224480"
	"004E>E4000000000044O4400000000000006480000000O0000000000000004>40001122488@@00004:AAAAA:400004<D44444O0000>AA1248@O0000O124>11A>00"
	"00226::BO220000O@@FI11A>0000>A@@NAAA>0000O122448880000>AAA>AAA>0000>AAA?11A>0000004>4004>4000004>4006480001248@84210000000O00O0000"
	"00@8421248@0000>AA1244040000>AACEEF@?00004:AAAOAAA0000N999>999N0000>A@@@@@A>0000N9999999N0000O@@@N@@@O0000O@@@N@@@@0000>A@@@CAA>00"
	"00AAAAOAAAA0000>4444444>00007222222B<0000AABDHDBAA0000@@@@@@@@O0000AAKEEAAAA0000AIIEECCAA0000>AAAAAAA>0000NAAAN@@@@0000>AAAAAAE>10"
	"00NAAANDBAA0000>A@@>11A>0000O444444440000AAAAAAAA>0000AAAA:::440000AAAAEEEE:0000AA::4::AA0000AA::444440000O122488@O000>888888888>0"
	"00@@8842211000>222222222>0004:A0000000000000000000O0042000000000000000>1?AC=0000@@@NAAAAN0000000>A@@A>0000111?AAAA?0000000>AO@A>00"
	"006988N88880000000>AAA?1A>00@@@FIAAAA0000040<4444>000002062222BB<00@@@BDHDBA0000<4444444>0000000JEEEEA0000000FIAAAA0000000>AAAA>00"
	"00000NAAAN@@@00000?AAA?11100000FI@@@@0000000>A<2A>0000088N888960000000AAAAC=0000000AAA::40000000AAEEE:0000000A:44:A0000000AAAC=1A>"
	"00000O248@O00034444H44443000444444444000H444434444H0009EB0000000000000000000000040444444400004>EDDE>4000006988L889F000000A>::>A000"
	"00AA::O4O4400004444044440006986996196000::00000000000>AEKIKEA>00000>1?A?0O000000005:DD:5000000000O110000000000>0000000>AMKKMKA>000"
	"00O0000000000006996000000000044O440O00008D48L000000008D84H0000000024000000000000000AAAACM@@00?MMMM=5550000000060000000000000000024"
	"08H88L000000000>AAA>0O00000000D:55:D00008H88L135710008H88L251270008D84D93571000040448@AA>0008404:AAOAA0002404:AAOAA0006904:AAOAA00"
	"05:04:AAOAA000::04:AAOAA0004:44:AAOAA0000;DDDFLDDG0000>A@@@@@A>480840O@@N@@O000240O@@N@@O000690O@@N@@O000::0O@@N@@O000840>44444>00"
	"0240>44444>000690>44444>000::0>44444>0000N999M999N0005:0AAIECAA000840>AAAAA>000240>AAAAA>000690>AAAAA>0005:0>AAAAA>000::0>AAAAA>00"
	"00000A:4:A00001>CCEEEII>@00840AAAAAA>000240AAAAAA>000690AAAAAA>000::0AAAAAA>000240AA:44440000@NAAAN@@@0000<BBDDBAAF0000840>1?AC=00"
	"00240>1?AC=0000690>1?AC=00005:0>1?AC=0000::0>1?AC=0006960>1?AC=0000000>5>DE:0000000>A@@A>4800840>AO@A>0000240>AO@A>0000690>AO@A>00"
	"00::0>AO@A>0000840<4444>0000240<4444>0000690<4444>0000::0<4444>000:4<2>AAAA>00005:0FIAAAA0000840>AAAA>0000240>AAAA>0000690>AAAA>00"
	"005:0>AAAA>0000::0>AAAA>00000440O04400000001>CEEI>@000840AAAAC=0000240AAAAC=0000690AAAAC=0000::0AAAAC=0000240AAAC=1A>000@@FIAAIF@@"
	"00::0AAAC=1A>";
/* clang-format on */

bool letter_dot(uint8_t letter, int x, int y)
{
	enum { FIRST = 0x20, END = 0x7f, SECOND = 0xa0 };
	const int i = letter >= SECOND ? END - FIRST + letter - SECOND : letter - FIRST;
	const bool there = letter >= SECOND || (letter >= FIRST && letter < END);
	return there && x < LETTER_WIDTH - 1 && (rows[i * LETTER_HEIGHT + y] - '0') >> (LETTER_WIDTH - 2 - x) & 1;
}

/* Returns the first character of a text, or -1 if its bytes are not UTF-8. Sets *bytes to the number of its bytes. */
static int32_t character(const unsigned char *text, int *bytes)
{
	static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const int count = *text < 0x80 ? 1 : *text >> 5 == 6 ? 2 : *text >> 4 == 14 ? 3 : *text >> 3 == 30 ? 4 : 0;
	int32_t code = count == 1 ? *text : *text & (0x7f >> count);
	*bytes = 1;
	for (int i = 1; i < count; i++) {
		if (text[i] >> 6 != 2) /* true also for the NUL at the end of the text */
			return -1;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (count == 0 || code < least[count] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return -1;
	*bytes = count;
	return code;
}

size_t letters_of(const char *text, uint8_t *letters)
{
	size_t n = 0;
	for (int bytes; *text; text += bytes) {
		char escape[16] = "";
		const int32_t code = character((const unsigned char *)text, &bytes);
		if (code < 0)
			snprintf(escape, sizeof(escape), "\\x%02x", (unsigned)(unsigned char)*text);
		else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
			snprintf(escape, sizeof(escape), "\\x%02x", (unsigned)code);
		else if (code > 0xff)
			snprintf(escape, sizeof(escape), code > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)code);
		else
			letters[n++] = (uint8_t)code;
		memcpy(letters + n, escape, strlen(escape));
		n += strlen(escape);
	}
	return n;
}
