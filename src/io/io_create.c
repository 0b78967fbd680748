/* SPDX-License-Identifier: Apache-2.0 */
#include "io/file.h"

enum stk_status stk__io_create(int threads, struct stk_io **out, struct stk_error *err)
{
	enum stk_status s = stk__io_make(out, err);
	if (s || (s = stk__file_source_add(*out, threads, err)) == STK_OK)
		return s;
	stk__io_destroy(*out);
	*out = NULL;
	return s;
}
