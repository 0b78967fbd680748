#include "format/format.h"
#include "base/memory.h"
#include "base/error.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
struct stk_file_list { int64_t n; char **p; int32_t *l; int64_t classes; };
enum stk_status stk__file_list_create(const struct stk_file_list_options *o, struct stk_file_list **out, struct stk_error *err) {
 (void)err; struct stk_file_list *f = calloc(1,sizeof *f); f->p = calloc(100000,8); f->l=calloc(100000,4);
 struct dirent **d; int n = scandir(o->file_root,&d,0,alphasort); for (int i=0;i<n;i++) { if (d[i]->d_name[0]=='.') continue; char b[999]; snprintf(b,999,"%s/%s",o->file_root,d[i]->d_name);
  struct dirent **e; int m = scandir(b,&e,0,alphasort); if (m<0) continue; for(int j=0;j<m;j++) { if (e[j]->d_name[0]=='.') continue; char c[2000]; snprintf(c,2000,"%s/%s",b,e[j]->d_name); f->p[f->n]=strdup(c); f->l[f->n++]=(int)f->classes; } f->classes++; }
 *out=f; return STK_OK; }
void stk__file_list_destroy(struct stk_file_list *l) { (void)l; }
int64_t stk__file_list_size(const struct stk_file_list *l) { return l->n; }
int32_t stk__file_list_label(const struct stk_file_list *l, int64_t i) { return l->l[i]; }
size_t stk__file_list_path(const struct stk_file_list *l, int64_t i, char *p, size_t c) { return (size_t)snprintf(p,c,"%s",l->p[i]); }
int64_t stk__file_list_classes(const struct stk_file_list *l) { return l->classes; }
const char *stk__file_list_class_name(const struct stk_file_list *l, int64_t x) { (void)l;(void)x; return "x"; }
uint64_t stk__file_list_fingerprint(const struct stk_file_list *l) { return (uint64_t)l->n; }
