/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads bytes by a user's function (`fetch` of struct stk_storage_config). */
#ifndef STK_IO_USER_H
#define STK_IO_USER_H

#include "io/io.h"

/* Adds a source that reads the URIs of config->fetch_schemes with the user's function config->fetch. If this fails, config->fetch_done has been called. */
STK_MUST_USE enum stk_status stk__user_source_add(struct stk_io *io, const struct stk_storage_config *config, struct stk_error *err);

#endif
