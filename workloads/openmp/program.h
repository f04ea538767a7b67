/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the OpenMP programs of this folder have in common: options, clock, verification, report. A program
 * fills in a struct program and hands it to run_program(); start at stencil.c.
 *
 * They stand in for SPEC-OMP (thread-essence, Table 8): real algorithms whose result is verified after every
 * run, with phases of different shapes. They keep no statistics of their own beyond the time in parallel
 * regions.
 */
#ifndef THREADWISE_PROGRAM_H
#define THREADWISE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the command line asks for. */
struct options {
	int threads; /* of a parallel region, the main thread included */
	double seconds; /* to run; counts if iterations is 0 */
	long iterations; /* to run; 0: as many as fit into seconds */
	long size; /* of the problem, as the program defines it */
	bool dynamic; /* schedule of loops: dynamic instead of static */
	bool inject_fault; /* spoil the result before it is verified */
	uint64_t seed; /* of the input */
	uint64_t start_at_ns; /* when to begin, on CLOCK_MONOTONIC; 0: at once */
};

/* A program. */
struct program {
	const char *name;
	const char *about; /* one line for --help */
	const char *unit; /* what a unit of work is */
	const char *size_means; /* what --size counts */
	long size, least, most; /* its default and its range */
	bool power_of_two; /* size must be one */
	int static_chunk; /* iterations of a loop that a thread gets at once if static; 0: an equal share */
	/* Makes the input; false if there is not enough memory. Not timed. */
	bool (*setup)(const struct options *options);
	/* Performs one iteration and returns the units of work in it. */
	uint64_t (*iterate)(void);
	/* The result so far and its size, which the report's checksum is of. */
	void *(*result)(size_t *bytes);
	/* Whether it is right, by other means than it was computed by. Not timed. */
	bool (*verify)(void);
};

/*
 * Runs the program and prints its report as one line of JSON. Exit status: 0 done; 1 the result is wrong, or
 * a start time is past; 2 an error of the caller.
 */
int run_program(const struct program *program, int argc, char **argv);

/* Around each parallel region: the report says how long the program was in one. */
void parallel_begin(void);
void parallel_end(void);

/* The n-th number of a seed's sequence (splitmix64, by Sebastiano Vigna, in the public domain): any thread
 * can have any. */
static inline uint64_t random_at(uint64_t seed, uint64_t n)
{
	uint64_t z = seed * 0xd1342543de82ef95ULL + (n + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* The same in [0, 1). */
static inline double random_unit_at(uint64_t seed, uint64_t n)
{
	return (double)(random_at(seed, n) >> 11) * 0x1p-53;
}

#endif
