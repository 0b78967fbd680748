/* SPDX-License-Identifier: Apache-2.0 */
#include "io/io.h"

#include <string.h>

const char *stk__azure_hint(const char *uri)
{
	if (strncmp(uri, "az://", 5) == 0 || strncmp(uri, "abfs", 4) == 0)
		return ": Azure's containers are not read by the library yet: a function of yours reads them, as stoker.Storage(fetch=adlfs.AzureBlobFileSystem(...), "
		       "fetch_schemes=(\"az\", \"abfs\")), or azcopy copies them to s3://, gs:// or a disk";
	return "";
}

const char *stk__scheme_hint(const char *uri)
{
	const char *azure = stk__azure_hint(uri);
	if (strncmp(uri, "s3a://", 6) == 0 || strncmp(uri, "s3n://", 6) == 0)
		return ": write s3:// instead";
	if (strncmp(uri, "gcs://", 6) == 0)
		return ": write gs:// instead";
	return *azure ? azure : ": a function of yours can read it, as fsspec's: stoker.Storage(fetch=...)";
}
