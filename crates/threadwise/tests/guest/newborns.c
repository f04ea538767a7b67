/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program whose threads live for a moment: each does some work, starts the next and ends. So many are alive at a time, as
 * in a server with a thread for each request.
 *
 * newborns THREADS ROUNDS SECONDS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long rounds;
static time_t end;

static void start(void);

static void *live(void *unused)
{
	for (volatile long i = 0; i < rounds * 1000; i++)
		;
	if (time(NULL) < end)
		start();
	return unused;
}

static void start(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, live, NULL)) {
		perror("newborns: a thread");
		exit(1);
	}
	pthread_detach(thread);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	rounds = atol(argv[2]);
	end = time(NULL) + atol(argv[3]);
	for (long i = 0; i < atol(argv[1]); i++)
		start();
	sleep(atol(argv[3]) + 1);
	return 0;
}
