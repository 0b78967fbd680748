/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of NVIDIA's video decoder. A session turns packets into pictures in GPU memory, on one of the GPU's engines. Creating a session takes 40 ms and
 * destroying it 150 ms, so sessions are kept and reused for other videos of the same codec.
 *
 * Threads: one thread at a time may use a session, between stk__gpu_enter and stk__gpu_leave of its device. Any thread may call the other functions. */
#ifndef STK_MEDIA_NVDEC_H
#define STK_MEDIA_NVDEC_H

#include "gpu/cuvid.h"
#include "gpu/gpu.h"
#include "media/convert.h"

/* The decoder of one GPU, with its idle sessions. */
struct stk_nvdec;

/* Opens the decoder of a GPU, and adds a reference to `dev`. Without a video decoder in the driver, only stk__nvdec_take fails. */
STK_MUST_USE enum stk_status stk__nvdec_open(struct stk_gpu_device *dev, struct stk_nvdec **out, struct stk_error *err);
struct stk_nvdec *stk__nvdec_ref(struct stk_nvdec *n); /* adds a reference, and returns `n` */
/* Drops a reference; accepts NULL. All sessions must have been given back before the last reference is dropped. */
void stk__nvdec_close(struct stk_nvdec *n);
struct stk_gpu_device *stk__nvdec_device(const struct stk_nvdec *n);
/* stk__nvdec_note stores the reason why frames were decoded on the cores. stk__nvdec_core_reason copies the latest such reason to `out`, which has `size`
 * bytes, or "" if all frames were decoded on the GPU. Any thread. */
void stk__nvdec_note(struct stk_nvdec *n, const char *why);
void stk__nvdec_core_reason(struct stk_nvdec *n, char *out, size_t size);

/* Queues the conversion of a picture in GPU memory to RGB. The `data` of the image `to` is a device address. Call inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__nvdec_to_rgb(
	struct stk_nvdec *n, const struct stk_picture *p, const struct stk_image *to, stk_gpu_stream stream, struct stk_error *err);

struct stk_nvdec_session;
enum { STK_NVDEC_MORE_SURFACES = 10 }; /* number of surfaces of a session in addition to those for a stream's references */

/* Takes a session for streams of a codec, if possible one that has decoded pictures of this size. STK_UNSUPPORTED: the driver has no video decoder.
 * STK_LIMIT: STK_NVDEC_SESSIONS sessions are in use; a later call may find one. */
enum { STK_NVDEC_SESSIONS = 64 };
STK_MUST_USE enum stk_status stk__nvdec_take(struct stk_nvdec *n, enum stk_cuvid_codec codec, int32_t width, int32_t height,
	struct stk_nvdec_session **out, struct stk_error *err);
/* Gives a session back, for use with other videos. Call stk__nvdec_take_below first, so that none of its pictures is still in use. A broken session is
 * destroyed. Accepts NULL. */
void stk__nvdec_give(struct stk_nvdec *n, struct stk_nvdec_session *s);
/* Returns whether a call of the session's decoder or parser has failed. Such a session cannot be used any more. */
bool stk__nvdec_broken(const struct stk_nvdec_session *s);

/* A run decodes packets in order, from a key packet on. This is the destination of its pictures. */
struct stk_nvdec_run {
	/* Called once for each wanted picture, with the number that was passed to stk__nvdec_send, in the order of decoding. The planes are device
	 * addresses, which are valid for work that is queued on `stream` during the call; `matrix` is not set. If it returns an error, the run ends, and the
	 * function of this header that is running returns the error. */
	enum stk_status (*take)(void *user, int32_t number, const struct stk_picture *picture, struct stk_error *err);
	void *user;
	stk_gpu_stream stream;
};
enum { STK_NVDEC_UNWANTED = -1 };

/* The functions below return STK_UNSUPPORTED if the engine cannot decode the stream, and STK_CORRUPT if it found damage. The caller then decodes on the
 * cores, which decide whether the file is damaged. Pictures that were taken before the error are intact. */

/* Begins a run at a key packet. head: the parameter sets that precede the packet; may be empty. */
STK_MUST_USE enum stk_status stk__nvdec_begin(
	struct stk_nvdec_session *s, const struct stk_nvdec_run *run, const uint8_t *head, size_t size, struct stk_error *err);
/* Continues a run with the next packets. run: replaces the destination of its pictures. */
void stk__nvdec_continue(struct stk_nvdec_session *s, const struct stk_nvdec_run *run);
/* Decodes a packet. number: the caller's number for the picture that it shows, or STK_NVDEC_UNWANTED. skip: the picture need not be decoded, since no other
 * picture refers to it. hidden: the packet may show no picture; otherwise it must show one. */
STK_MUST_USE enum stk_status stk__nvdec_send(
	struct stk_nvdec_session *s, const uint8_t *data, size_t size, int32_t number, bool skip, bool hidden, struct stk_error *err);
/* If a surface still contains the picture of an earlier packet, passes it to run->take and sets *found; otherwise clears *found. packet: index among the
 * packets sent since stk__nvdec_begin. */
STK_MUST_USE enum stk_status stk__nvdec_take_if_decoded(
	struct stk_nvdec_session *s, int32_t packet, int32_t number, bool *found, struct stk_error *err);
bool stk__nvdec_holds(const struct stk_nvdec_session *s, int32_t packet);
/* Changes the number of the picture of an earlier packet, which must be wanted and not yet passed to run->take. number: STK_NVDEC_UNWANTED if the picture is
 * not wanted any more. Returns false if there is no such picture. */
bool stk__nvdec_renumber(struct stk_nvdec_session *s, int32_t packet, int32_t number);
/* Passes the pictures with numbers below `limit` to run->take, and waits until the work that was queued for all pictures passed so far is done. Meanwhile
 * the engine continues to decode the others. */
STK_MUST_USE enum stk_status stk__nvdec_take_below(struct stk_nvdec_session *s, int32_t limit, struct stk_error *err);

/* Returns the format of the run's stream; valid after its first packet. */
const struct stk_cuvid_format *stk__nvdec_format(const struct stk_nvdec_session *s);

#endif
