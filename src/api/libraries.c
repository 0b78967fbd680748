/* SPDX-License-Identifier: Apache-2.0
 * Lists the libraries that this build contains or loads, with their versions. */
#include "stoker/machine.h"

#include "api/build_versions.h"
#include "http/http.h"
#include "media/video.h"

#include <jansson.h>
#include <spng.h>
#include <stdio.h> /* jpeglib.h needs it */
#include <zlib.h>

#include <jpeglib.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

bool stk_library_info(size_t i, struct stk_library_info *out)
{
	if (!out)
		return false;
	struct stk_http_library http = stk__http_library();
	const struct stk_library_info all[] = {
		{"libjpeg-turbo", TEXT(LIBJPEG_TURBO_VERSION), "JPEG that is neither baseline nor progressive, or damaged"},
		{"libspng", spng_version_string(), "PNG"},
		{"libdeflate", STK_LIBDEFLATE_VERSION, "undamaged PNG that is not interlaced"},
		{"libwebp", STK_WEBP_VERSION, "WebP"},
		{"FFmpeg", stk__ffmpeg_version(), "video, and sound other than WAV and FLAC"},
		{"zlib", zlibVersion(), "PNG, TIFF, the kernels of GPUs"},
		{"jansson", jansson_version_str(), "JSON: pipelines and state"},
		{"libcurl", http.curl, "http:// and s3://"},
		{"TLS", http.tls, "https:// and s3://, in libcurl"},
	};
	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		if (all[k].version && *all[k].version && i-- == 0) {
			*out = all[k];
			return true;
		}
	return false;
}
