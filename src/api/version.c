/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/context.h"

const char *stk_version(void)
{
	return STK_VERSION;
}
