#ifndef STK_THREAD_THREAD_H
#define STK_THREAD_THREAD_H
#include "stoker/status.h"
#include <pthread.h>
struct stk_cpu_budget { int32_t usable; };
void stk__cpu_budget(struct stk_cpu_budget *b);
enum stk_status stk__thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg, struct stk_error *err);
#endif
