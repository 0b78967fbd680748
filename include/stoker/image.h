/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes single images without a pipeline, for code that reads one file at a time. */
#ifndef STOKER_IMAGE_H
#define STOKER_IMAGE_H

#include "stoker/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A decoder. It works on the calling thread, one call at a time, and reuses its tables and memory for the next image. */
struct stk_image_decoder;

/* Creates a decoder. Reads STOKER_MAX_IMAGE_SIZE and STOKER_MAX_JPEG_SCANS. STK_INVALID: an environment variable of the library has an invalid value.
 * STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_image_decoder_create(struct stk_image_decoder **out, struct stk_error *err);
/* Destroys a decoder and frees its memory. Accepts NULL. */
STK_API void stk_image_decoder_destroy(struct stk_image_decoder *d);

/* A request to decode an image. Zero-initialise it. `lenient` means the same as stk_pipeline_config.lenient. */
struct stk_image_request {
	size_t size;      /* sizeof(struct stk_image_request) */
	const char *path; /* path or URI of the file; NULL: the file's bytes are in `data`. Objects are read with the settings of the
		        * environment */
	const void *data; /* the file's bytes, which must stay valid until the image has been read */
	size_t bytes;
	enum stk_image_type type;
	/* Type of the pixels: UINT8, UINT16, INT16 or FLOAT, to whose range the values are scaled (floats: 0 to 1), or STK_NO_DTYPE for the file's type. */
	enum stk_dtype dtype;
	/* These two matter only for files that hold measurements instead of a picture: floats, signed numbers, or bands that are not colours. keeps_channels:
	 * such a file keeps all its channels, whatever `type` is. keeps_dtype: it keeps its element type, whatever `dtype` is. */
	bool keeps_channels, keeps_dtype;
	bool as_stored; /* true: EXIF's orientation is not applied */
	bool lenient;   /* true: a file that was cut off is decoded as far as possible, and JPEG data about which libjpeg-turbo only
			 * warns is accepted */
	/* Called about twenty times per second, on the same thread, while a call waits for an object of a store or decodes. If it returns true, the call
	 * returns STK_CANCELLED. May be NULL. */
	bool (*interrupted)(void *user);
	void *interrupted_user;
};

/* Reads the file and its header. The image has shape[0] x shape[1] pixels of shape[2] channels. STK_NOT_FOUND, STK_IO: the file cannot be
 * read. STK_CORRUPT: the file is damaged or not an image. STK_UNSUPPORTED: Stoker does not decode this kind of image. STK_LIMIT: the file
 * is larger than 2 GiB, or the image has more pixels than STOKER_MAX_IMAGE_SIZE (2^28). STK_INVALID: the request is invalid, or the path is
 * not a file. STK_CANCELLED: `interrupted` returned true. STK_NO_MEMORY. After an error no image is open. */
STK_API STK_MUST_USE enum stk_status stk_image_open(
	struct stk_image_decoder *d, const struct stk_image_request *request, int64_t shape[3], struct stk_error *err);
/* Returns the type of the pixels of the open image; STK_NO_DTYPE if no image is open. */
STK_API enum stk_dtype stk_image_dtype(const struct stk_image_decoder *d);
/* Writes the pixels of the image that was opened last: of type stk_image_dtype, interleaved, row by row. bytes: the size of all pixels. May be called once
 * for each image. STK_STATE: it was called before, or no image is open. STK_INVALID: `bytes` is wrong; the image stays open. STK_CORRUPT: the image is
 * damaged. STK_LIMIT: the file and its decoding need more than 2 GiB of memory. STK_CANCELLED: `interrupted` returned true. STK_UNSUPPORTED, STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_image_read(struct stk_image_decoder *d, void *to, size_t bytes, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
