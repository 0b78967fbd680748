/* SPDX-License-Identifier: Apache-2.0 */
#include "format/tfrecord.h"

#include "base/cpu.h"
#include "base/error.h"

#include <string.h>

enum { HEAD = 12, TAIL = 4 };

/* ---- checks ---- */

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t load64(const uint8_t *p)
{
	return load32(p) | (uint64_t)load32(p + 4) << 32;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2,crc32"))) static uint32_t crc_instructions(const uint8_t *data, size_t size)
{
	uint64_t crc = ~0u;
	for (; size >= 8; data += 8, size -= 8)
		crc = __builtin_ia32_crc32di(crc, load64(data));
	for (; size; data++, size--)
		crc = __builtin_ia32_crc32qi((uint32_t)crc, *data);
	return ~(uint32_t)crc;
}
#endif

uint32_t stk__crc32c(unsigned cpu, const uint8_t *data, size_t size)
{
	/* The table of the CRC for four bits at a time, the lowest bit first. */
	static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
#if defined(__x86_64__)
	if (cpu & STK_CPU_CRC32C)
		return crc_instructions(data, size);
#else
	(void)cpu;
#endif
	uint32_t crc = ~0u;
	for (size_t i = 0; i < size; i++) {
		crc ^= data[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

static bool agrees(unsigned cpu, const uint8_t *check, const uint8_t *data, size_t size)
{
	uint32_t crc = stk__crc32c(cpu, data, size);
	return load32(check) == (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static bool agrees_or_none(unsigned cpu, const uint8_t *check, const uint8_t *data, size_t size)
{
	return !load32(check) || agrees(cpu, check, data, size);
}

enum stk_status stk__tfrecord_payload(
	unsigned cpu, const uint8_t *record, size_t size, const uint8_t **payload, size_t *payload_size, struct stk_error *err)
{
	if (size < HEAD + TAIL || load64(record) > size - HEAD - TAIL || !agrees_or_none(cpu, record + 8, record, 8))
		return stk__fail(err, STK_CORRUPT, "the record's length is damaged, or the index is of another file");
	*payload_size = (size_t)load64(record);
	*payload = record + HEAD;
	if (!agrees_or_none(cpu, *payload + *payload_size, *payload, *payload_size))
		return stk__fail(err, STK_CORRUPT, "the record's bytes are damaged: its check differs");
	return STK_OK;
}

/* ---- files ---- */

/* Only the checksums of the lengths distinguish records from other bytes, so they must not be absent here. The bytes of the last record may be missing: then
 * reading that record fails. */
enum stk_status stk__tfrecord_scan(struct stk_archive_file *f, stk_archive_found *found, void *user, struct stk_error *err)
{
	const unsigned cpu = stk__cpu_capabilities();
	enum stk_status s = STK_OK;
	for (int64_t at = 0, next; at < f->size && s == STK_OK; at = next) {
		if (f->size - at < HEAD)
			return stk__archive_bad(
				f, at, err, STK_CORRUPT, "the file ends inside a record's length: it is cut short, or no TFRecord file");
		const uint8_t *head = stk__archive_read(f, at, HEAD, err);
		if (!head)
			return err ? err->code : STK_IO;
		bool zip = at == 0 && head[0] == 0x1f && head[1] == 0x8b;
		if (zip && !agrees(cpu, head + 8, head, 8))
			return stk__archive_bad(f, at, err, STK_UNSUPPORTED,
				"a compressed TFRecord file, in which nothing can be found by its place: write it again without compression");
		uint64_t length = load64(head);
		if (!agrees(cpu, head + 8, head, 8) || length > INT64_MAX - HEAD - TAIL ||
			__builtin_add_overflow(at, (int64_t)length + HEAD + TAIL, &next))
			return stk__archive_bad(f, at, err, STK_CORRUPT,
				at ? "a record's length is damaged" : "no TFRecord file: it does not begin with a record's length");
		s = found(user, &(struct stk_archive_member){"", at, next - at}, err);
	}
	return s;
}
