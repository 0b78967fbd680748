/* SPDX-License-Identifier: Apache-2.0 */
#include "io/io.h"

#include <string.h>

const char *stk__scheme_hint(const char *uri)
{
	if (strncmp(uri, "gs://", 5) == 0)
		return ": Google's buckets are s3:// with AWS_ENDPOINT_URL_S3=https://storage.googleapis.com and an HMAC key, or a function of yours "
		       "reads them: stoker.Storage(fetch=...)";
	return ": a function of yours can read it, as fsspec's: stoker.Storage(fetch=...)";
}
