#include "io/io.h"
#include "base/memory.h"
#include "base/error.h"
#include <fcntl.h>
#include <unistd.h>
#include <errno.h>
struct stk_io { int x; };
struct stk_buffer { size_t cap; _Alignas(64) uint8_t d[]; };
enum stk_status stk__io_create(int t, struct stk_io **o, struct stk_error *e) { (void)t;(void)e; *o = stk__calloc(1,sizeof **o); return STK_OK; }
void stk__io_destroy(struct stk_io *io) { stk__free(io); }
struct stk_buffer *stk__buffer_take(struct stk_io *io, size_t n) { (void)io; struct stk_buffer *b = stk__alloc(sizeof *b+n+64); b->cap=n; return b; }
uint8_t *stk__buffer_data(struct stk_buffer *b) { return b->d; }
void stk__buffer_release(struct stk_io *io, struct stk_buffer *b) { (void)io; stk__free(b); }
bool stk__io_try(struct stk_io *io, struct stk_request *r) {
 int fd = open(r->uri, O_RDONLY); if (fd<0) { r->status = stk__fail_errno(r->error, errno, "open"); return true; }
 off_t n = lseek(fd,0,SEEK_END); r->buffer = stk__buffer_take(io,(size_t)n); r->data = r->buffer->d; r->size=(size_t)pread(fd, r->buffer->d, (size_t)n, 0); close(fd); r->status=STK_OK; return true; }
void stk__io_submit(struct stk_io *io, struct stk_request *r) { stk__io_try(io,r); r->done(r); }
void stk__io_counters(const struct stk_io *io, struct stk_io_counters *o) { (void)io; *o=(struct stk_io_counters){0}; }
