/* SPDX-License-Identifier: Apache-2.0
 * The test server as a program: prints its port, and exits when its standard input closes.
 *
 * usage: s3_server ROOT [SETTINGS]      SETTINGS: "p503=0.1&latency_ms=20"
 * environment: S3_KEY, S3_SECRET, S3_TOKEN (if unset, requests need no signature), S3_REGION */
#include "s3_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct s3_server *s =
		argc < 2 ? NULL
			 : s3_server_start(argv[1], 0, getenv("S3_KEY"), getenv("S3_SECRET"), getenv("S3_TOKEN"), getenv("S3_REGION"));
	if (!s || (argc > 2 && !s3_server_set(s, argv[2]))) {
		fprintf(stderr, "usage: s3_server ROOT [SETTINGS]\n");
		return 2;
	}
	printf("%d\n", s3_server_port(s));
	fflush(stdout);
	char c;
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	s3_server_stop(s);
	return 0;
}
