/* SPDX-License-Identifier: Apache-2.0
 * Finds the files of a tar: ustar, pax and GNU (POSIX.1-2017 pax, "Tar Format" in GNU tar's manual). */
#ifndef STK_FORMAT_TAR_H
#define STK_FORMAT_TAR_H

#include "format/archive_file.h"

enum { STK_TAR_HEADER = 512 };

/* Calls `found` for each regular file, in order; skips folders and devices. Also calls it for each symbolic link whose name has an ending, as that of a
 * sample's file. The link gets a slash after its name, which no regular file has, and no bytes. A reader must refuse it if it wants files of this ending,
 * since the sample would be missing. Other symbolic links, which usually lead to folders, and those with the name of a hidden file are skipped. A hard link, a
 * sparse file, a part of a multi-volume archive, and a second archive after the end of the first are errors. The last file may seem to end after the archive's
 * end; then reading that file fails. */
STK_MUST_USE enum stk_status stk__tar_scan(struct stk_archive_file *f, stk_archive_found *found, void *user, struct stk_error *err);

/* Returns whether these 512 bytes are the header of a file of this size; sizes from 8 GiB on are not compared. */
bool stk__tar_header_fits(const uint8_t *header, int64_t size);

#endif
