/* SPDX-License-Identifier: Apache-2.0
 * Where the files of a tar lie: ustar, pax and GNU (POSIX.1-2017 pax, "Tar Format" in GNU tar's manual). */
#ifndef STK_FORMAT_TAR_H
#define STK_FORMAT_TAR_H

#include "format/archive_file.h"

enum { STK_TAR_HEADER = 512 };

/* Calls `found` for each regular file, in order. Folders, links and devices are passed over. The bytes of the last may reach past the archive's end: reading
 * them is then that file's failure. */
STK_MUST_USE enum stk_status stk__tar_scan(struct stk_archive_file *f, stk_archive_found *found, void *user, struct stk_error *err);

/* Whether these 512 bytes are the header of a file of this size. */
bool stk__tar_header_fits(const uint8_t *header, int64_t size);

#endif
