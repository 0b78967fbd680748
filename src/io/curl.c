/* SPDX-License-Identifier: Apache-2.0 */
#include "io/curl.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/machine_memory.h"
#include "base/memory.h"
#include "base/philox.h"
#include "io/read_small.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static enum stk_status find_functions(struct stk_curl *c, struct stk_error *err)
{
	static const char *const names[] = {
#define NAME_ROW(name, result, params) #name,
		STK_CURL_FUNCTIONS(NAME_ROW)
#undef NAME_ROW
	};
	void **const slots[] = {
#define SLOT_ROW(name, result, params) (void **)&c->name,
		STK_CURL_FUNCTIONS(SLOT_ROW)
#undef SLOT_ROW
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		*slots[i] = dlsym(c->library, names[i]);
		if (!*slots[i])
			return stk__fail(err, STK_UNSUPPORTED, "http:// and s3:// need libcurl; the one here lacks %s", names[i]);
	}
	return STK_OK;
}

static void find_tls_functions(struct stk_curl *c)
{
#define TLS_ROW(name, result, params)                                                                                                      \
	*(void **)&c->name = dlsym(c->library, #name); /* looks in libcurl and in the libraries that it was linked with */
	STK_TLS_FUNCTIONS(TLS_ROW)
#undef TLS_ROW
}

/* Opens a library with NODELETE, because its dependencies register functions that run at the end of the process. NULL: it cannot be loaded. */
static void *open_library(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* Returns the path of the system's file of trusted authorities, or NULL if none is found. The paths are those of Debian and relatives, Fedora and relatives,
 * openSUSE, older RHEL, Alpine. A wheel's libcurl runs on all these systems, so it has no such path built in. */
static const char *find_certificates(void)
{
	static const char *const paths[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (access(paths[i], R_OK) == 0)
			return paths[i];
	return NULL;
}

static enum stk_status choose_certificates(struct stk_curl *c, bool own, struct stk_error *err)
{
	const char *named = getenv("SSL_CERT_FILE"), *file = named && *named ? named : own ? find_certificates() : NULL;
	if (!file)
		return STK_OK;
	c->certificates = stk__alloc(strlen(file) + 1);
	if (!c->certificates)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	strcpy(c->certificates, file);
	return STK_OK;
}

void stk__certificates_free(struct stk_certificates *loaded)
{
	for (struct stk_certificates *next; loaded; loaded = next) {
		next = loaded->next;
		stk__free(loaded->name);
		stk__free(loaded->text);
		stk__free(loaded);
	}
}

/* Returns the text of a file of certificates: an element of `loaded` or, if the file is new or has changed, a new element with the present text. NULL: the
 * file cannot be read. */
static const struct stk_certificates *read_certificates(const char *file, struct stk_certificates **loaded)
{
	enum { LONGEST = 16 << 20 };
	struct stat st;
	if (stat(file, &st))
		return NULL;
	for (const struct stk_certificates *k = *loaded; k; k = k->next)
		if (strcmp(k->name, file) == 0 && k->changed.tv_sec == st.st_mtim.tv_sec && k->changed.tv_nsec == st.st_mtim.tv_nsec)
			return k;
	struct stk_certificates *k = stk__calloc(1, sizeof *k);
	if (!k)
		return NULL;
	k->changed = st.st_mtim;
	k->name = stk__strdup(file);
	k->text = stk__read_small(file, LONGEST, &k->size);
	if (!k->name || !k->text) {
		stk__certificates_free(k);
		return NULL;
	}
	k->next = *loaded;
	return *loaded = k;
}

/* Passes the text of a file of certificates to libcurl. If libcurl opened the file itself, child processes would inherit the descriptor, and a FIFO would block
 * it. Returns false if the file cannot be read, or if this libcurl takes no certificates from memory; the caller then passes the file's name, so that libcurl
 * opens the file or reports why it cannot. */
static bool trust_text(const struct stk_curl *c, CURL *easy, const char *file, struct stk_certificates **loaded)
{
#if LIBCURL_VERSION_NUM >= 0x074d00
	const struct stk_certificates *k = read_certificates(file, loaded);
	struct curl_blob blob = {.flags = CURL_BLOB_NOCOPY};
	if (k) {
		blob.data = k->text;
		blob.len = k->size;
	}
	return k && c->curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob) == CURLE_OK;
#else
	(void)c, (void)easy, (void)file, (void)loaded;
	return false;
#endif
}

CURLcode stk__curl_trust(const struct stk_curl *c, CURL *easy, const char *file, struct stk_certificates **loaded)
{
	file = file ? file : c->certificates;
	return !file || trust_text(c, easy, file, loaded) ? CURLE_OK : c->curl_easy_setopt(easy, CURLOPT_CAINFO, file);
}

/* ---- descriptors that the user's child processes must not inherit ---- */

curl_socket_t stk__curl_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void)user, (void)purpose;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

struct waiting {
	int in, out; /* in: number of bytes that can be read at this end; out: at the other end */
};

static bool is_unix_socket(int fd)
{
	int domain = 0;
	socklen_t size = sizeof domain;
	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_UNIX;
}

static bool get_waiting(int fd, struct waiting *w)
{
	return !ioctl(fd, FIONREAD, &w->in) && !ioctl(fd, SIOCOUTQ, &w->out);
}

/* A pair of Unix sockets that libcurl has made. write_byte(c, user) makes libcurl write a byte to one end; no thread reads that byte. */
struct pair {
	const struct stk_curl *c;
	void (*write_byte)(const struct stk_curl *c, void *of);
	void *user;
	int ends_left; /* number of ends that were not found yet */
};

/* Returns whether `fd` is an end of the pair. Calls write_byte in some of STEPS steps, chosen at random: the number of waiting bytes at `fd` must rise in these
 * steps and in no other. So a socket that another thread uses at the same moment is not mistaken for an end. The two directions are checked separately,
 * because libcurl's thread may write meanwhile; one direction must pass. */
static bool is_end(const struct pair *p, int fd)
{
	enum { STEPS = 16 };
	const uint64_t pattern = stk__mix64((uint64_t)stk__clock_ns() ^ (uint64_t)(uintptr_t)p) | 1;
	struct waiting before, now;
	bool in = is_unix_socket(fd) && get_waiting(fd, &before), out = in;
	for (int i = 0; i < STEPS && (in || out); i++, before = now) {
		const bool poked = pattern >> i & 1;
		if (poked)
			p->write_byte(p->c, p->user);
		if (!get_waiting(fd, &now))
			return false;
		in &= poked ? now.in == before.in + 1 : now.in == before.in;
		out &= poked ? now.out > before.out : now.out == before.out;
	}
	return in || out;
}

/* Looks for the pair among descriptors `first` to `end` - 1, and marks its ends close-on-exec. */
static void mark_ends(struct pair *p, int first, int end)
{
	for (int fd = first; fd < end && p->ends_left; fd++) {
		const int flags = fcntl(fd, F_GETFD);
		if (flags >= 0 && !(flags & FD_CLOEXEC) && is_end(p, fd)) {
			fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
			p->ends_left--;
		}
	}
}

static bool makes_inheritable_pairs(const struct stk_curl *c)
{
	enum { NEW_PAIRS = 0x080900 };
	return c->curl_version_info(CURLVERSION_NOW)->version_num < NEW_PAIRS;
}

/* Finds a pair of sockets that libcurl has made, and marks it close-on-exec: before 8.9, libcurl lets child processes inherit such pairs, and does not
 * report their descriptors. The kernel gives the lowest free numbers, so the ends usually have the numbers from `first` on, which was free before the pair
 * was made. If an end is not found there, because other threads opened and closed descriptors at the same moment, checks all descriptors below 65536. */
static void mark_pair(struct pair *p, int first)
{
	enum { NEAR = 64, MOST_LOOKED_AT = 65536 };
	first = first < 0 ? 0 : first;
	mark_ends(p, first, first + NEAR);
	if (!p->ends_left)
		return;
	/* The kernel's table is only as large as the highest descriptor so far requires, while the limit of descriptors may be many thousands. */
	const int64_t table = stk__kernel_number("/proc/self/status", "FDSize:"),
		      limit = table > 0 ? table : (int64_t)sysconf(_SC_OPEN_MAX);
	mark_ends(p, 0, first);
	mark_ends(p, first + NEAR, limit > 0 && limit < MOST_LOOKED_AT ? (int)limit : MOST_LOOKED_AT);
}

int stk__lowest_free_fd(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	fd = fd < 0 ? open("/", O_PATH | O_CLOEXEC) : fd; /* used if standard error is closed, so that it has no duplicate */
	if (fd >= 0)
		close(fd);
	/* cppcheck-suppress deallocret ; the number is what is asked for */
	return fd;
}

static void wake_up(const struct stk_curl *c, void *multi)
{
	c->curl_multi_wakeup(multi);
}

CURLM *stk__curl_multi(const struct stk_curl *c)
{
	const bool look = makes_inheritable_pairs(c);
	const int first = look ? stk__lowest_free_fd() : 0;
	CURLM *multi = c->curl_multi_init();
	if (multi && look)
		mark_pair(&(struct pair){.c = c, .write_byte = wake_up, .user = multi, .ends_left = STK_CURL_MULTI_FDS}, first);
	return multi;
}

static void write_byte(const struct stk_curl *c, void *end)
{
	(void)c;
	ssize_t n = send(*(const int *)end, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)n;
}

void stk__curl_close_on_exec(const struct stk_curl *c, int end)
{
	const int flags = fcntl(end, F_GETFD);
	if (flags < 0 || flags & FD_CLOEXEC || !is_unix_socket(end))
		return;
	fcntl(end, F_SETFD, flags | FD_CLOEXEC);
	if (makes_inheritable_pairs(c))
		mark_pair(&(struct pair){.c = c, .write_byte = write_byte, .user = &end, .ends_left = 1}, end + 1);
}

/* Returns the TLS library and session of a connection; NULL if it has no TLS, or if this libcurl does not report it. */
static struct curl_tlssessioninfo *tls_of(const struct stk_curl *c, CURL *easy)
{
	struct curl_tlssessioninfo *tls = NULL;
	return c->curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &tls) == CURLE_OK && tls && tls->internals ? tls : NULL;
}

/* libcurl makes OpenSSL 3 treat every end of a connection as if the server had announced it. This function undoes that. */
void stk__curl_expect_close(const struct stk_curl *c, CURL *easy)
{
	enum { IGNORE_UNEXPECTED_EOF = 1 << 7 }; /* SSL_OP_IGNORE_UNEXPECTED_EOF */
	const struct curl_tlssessioninfo *tls = tls_of(c, easy);
	if (tls && tls->backend == CURLSSLBACKEND_OPENSSL && c->SSL_clear_options)
		c->SSL_clear_options(tls->internals, IGNORE_UNEXPECTED_EOF);
}

bool stk__curl_tls_ended(const struct stk_curl *c, CURL *easy)
{
	enum { RECEIVED_SHUTDOWN = 2 }; /* SSL_RECEIVED_SHUTDOWN */
	const struct curl_tlssessioninfo *tls = tls_of(c, easy);
	if (tls && tls->backend == CURLSSLBACKEND_OPENSSL)
		return c->SSL_get_shutdown && c->SSL_get_shutdown(tls->internals) & RECEIVED_SHUTDOWN;
	return tls && tls->backend == CURLSSLBACKEND_GNUTLS; /* GnuTLS reports any other end as an error, so this one was announced */
}

enum stk_status stk__curl_load(struct stk_curl *c, struct stk_error *err)
{
	*c = (struct stk_curl){.library = open_library("libcurl-stoker.so")}; /* the library of a wheel */
	const bool own = c->library != NULL;
	if (!c->library)
		c->library = open_library("libcurl.so.4");
	if (!c->library)
		c->library = open_library("libcurl-gnutls.so.4");
	if (!c->library)
		return stk__fail(err, STK_UNSUPPORTED,
			"http:// and s3:// need libcurl, which is not here (%s): install the system's (Debian's libcurl4, Fedora's libcurl), or use a released wheel of "
			"Stoker, which brings its own",
			dlerror());
	enum stk_status status = find_functions(c, err);
	find_tls_functions(c);
	if (!status)
		status = choose_certificates(c, own, err);
	if (!status && c->curl_version_info(CURLVERSION_NOW)->version_num < 0x074400)
		status = stk__fail(err, STK_UNSUPPORTED, "http:// and s3:// need libcurl 7.68 or newer, not %s",
			c->curl_version_info(CURLVERSION_NOW)->version);
	if (!status && c->curl_global_init(CURL_GLOBAL_DEFAULT))
		status = stk__fail(err, STK_SYSTEM, "libcurl does not start");
	if (status) {
		stk__free(c->certificates);
		dlclose(c->library);
		*c = (struct stk_curl){0};
	}
	return status;
}

void stk__curl_unload(struct stk_curl *c)
{
	if (!c->library)
		return;
	c->curl_global_cleanup();
	stk__free(c->certificates);
	dlclose(c->library);
	*c = (struct stk_curl){0};
}
