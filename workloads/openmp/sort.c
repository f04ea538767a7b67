// SPDX-License-Identifier: GPL-2.0-only
/*
 * Merge sort of new keys in every iteration: fewer and fewer threads have something to merge, until the last
 * merge is serial. With --schedule dynamic the parts are tasks, which idle threads take; with static each
 * level is a loop.
 *
 * The result must be in order and have the sum and the product of the keys (as odd numbers, modulo 2^64).
 */
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* Parts that are sorted by one thread each, as a power of two: 64. */
#define LEVELS 6
#define PARTS  (1L << LEVELS)
/* Parts shorter than this are sorted by insertion. */
#define SHORT 24

static long n;
static bool with_tasks;
static uint64_t *keys, *spare, seed;

static uint64_t key_at(long i)
{
	return random_at(seed, (uint64_t)i);
}

static long bound(long part, long parts)
{
	return n * part / parts;
}

static bool setup(const struct options *options)
{
	n = options->size;
	with_tasks = options->dynamic;
	seed = options->seed;
	keys = malloc((size_t)n * sizeof(*keys));
	spare = malloc((size_t)n * sizeof(*spare));
	return keys && spare;
}

static void insert_sort(uint64_t *from, long count)
{
	for (long i = 1; i < count; i++) {
		uint64_t key = from[i];
		long to = i;

		for (; to > 0 && from[to - 1] > key; to--)
			from[to] = from[to - 1];
		from[to] = key;
	}
}

static void merge(long start, long middle, long end)
{
	long left = start, right = middle;

	for (long to = start; to < end; to++) {
		bool take_left = right == end || (left < middle && keys[left] <= keys[right]);

		spare[to] = take_left ? keys[left++] : keys[right++];
	}
	memcpy(keys + start, spare + start, (size_t)(end - start) * sizeof(*keys));
}

static void sort_serially(long start, long end)
{
	long middle = start + (end - start) / 2;

	if (end - start < SHORT) {
		insert_sort(keys + start, end - start);
		return;
	}
	sort_serially(start, middle);
	sort_serially(middle, end);
	merge(start, middle, end);
}

/* Part `part` of `parts`, by tasks. */
static void sort_by_tasks(long part, long parts)
{
	if (parts == PARTS) {
		sort_serially(bound(part, parts), bound(part + 1, parts));
		return;
	}
#pragma omp task
	sort_by_tasks(2 * part, 2 * parts);
#pragma omp task
	sort_by_tasks(2 * part + 1, 2 * parts);
#pragma omp taskwait
	merge(bound(part, parts), bound(2 * part + 1, 2 * parts), bound(part + 1, parts));
}

static void sort_by_levels(void)
{
#pragma omp parallel
	{
#pragma omp for schedule(static)
		for (long part = 0; part < PARTS; part++)
			sort_serially(bound(part, PARTS), bound(part + 1, PARTS));
		for (long parts = PARTS / 2; parts; parts /= 2) {
#pragma omp for schedule(static)
			for (long part = 0; part < parts; part++)
				merge(bound(part, parts), bound(2 * part + 1, 2 * parts),
				      bound(part + 1, parts));
		}
	}
}

static uint64_t iterate(void)
{
	seed++;
	parallel_begin();
#pragma omp parallel for schedule(static)
	for (long i = 0; i < n; i++)
		keys[i] = key_at(i);
	if (with_tasks) {
#pragma omp parallel
#pragma omp single
		sort_by_tasks(0, 1);
	} else {
		sort_by_levels();
	}
	parallel_end();
	return (uint64_t)n;
}

static void *result(size_t *bytes)
{
	*bytes = (size_t)n * sizeof(*keys);
	return keys;
}

static bool verify(void)
{
	uint64_t sum = 0, product = 1, expected = 1;

	for (long i = 0; i < n; i++) {
		if (i && keys[i - 1] > keys[i])
			return false;
		sum += keys[i] - key_at(i);
		product *= keys[i] | 1;
		expected *= key_at(i) | 1;
	}
	return sum == 0 && product == expected;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "sort",
		.about = "merge sort: parallelism that fades away, to a serial merge at the end",
		.unit = "keys",
		.size_means = "keys",
		.size = 1000000,
		.least = 64,
		.most = 1000000000,
		.setup = setup,
		.iterate = iterate,
		.result = result,
		.verify = verify,
	};

	return run_program(&program, argc, argv);
}
