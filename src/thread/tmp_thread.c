#include "thread/thread.h"
void stk__cpu_budget(struct stk_cpu_budget *b) { b->usable = 2; }
enum stk_status stk__thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg, struct stk_error *err) { (void)name;(void)err; pthread_create(out,0,run,arg); return STK_OK; }
