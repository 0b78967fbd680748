/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the part of a file's name that identifies the file, without the signature of its URL. */
#ifndef STK_BASE_URL_H
#define STK_BASE_URL_H

#include <stdbool.h>
#include <stddef.h>

/* How names of files enter a digest of a data set. States are saved with the first form; earlier versions used the others. */
enum stk_digest_form {
	STK_DIGEST_NOW,    /* without the folder with which all names begin, and without the signatures of URLs */
	STK_DIGEST_SIGNED, /* without that folder */
	STK_DIGEST_WHOLE,  /* the whole names */
	STK_DIGEST_FORMS
};

/* The most bytes of a signed URL, with its NUL. Longer names are never taken for signed URLs. No longer name can be read, either. */
enum { STK_MAX_SIGNED = 4096 };

/* A text of n bytes, which need not end in a NUL. */
struct stk_file_name {
	const char *text;
	size_t n;
};

/* Returns whether a name is an http URL with a query, which may hold a signature. Other names may contain a question mark, too. */
bool stk__has_query(const char *name);
/* Returns a file's name. From that of an http URL, leaves out the parameters of the query that a signature consists of, because a URL that was signed again
 * names the same object. Other parameters stay, since a server may find its objects by them. The result's text lies in `name`, or in `copy`. */
struct stk_file_name stk__without_signature(const char *name, char copy[STK_MAX_SIGNED]);

#endif
