// SPDX-License-Identifier: GPL-2.0-only
/*
 * Heat on a square plate by Jacobi's method: a barrier after every sweep, next to no serial work, even load.
 *
 * The first temperature is an eigenvector of the sweep, sin(x)·sin(y), so that after k sweeps it must be the
 * same one times cos(pi / (n + 1))^k (LeVeque, Finite Difference Methods, section 4.2).
 */
#include <math.h>
#include <stdlib.h>

#include "program.h"

/* Colder than this, the plate is heated anew, serially. */
#define COLD	  1e-3
#define TOLERANCE 1e-10

static long n;
static double *now, *next, *sine;
static double decay, amplitude;

static double eigenvector(long row, long column)
{
	return sine[row] * sine[column];
}

static void heat(void)
{
	for (long row = 0; row < n + 2; row++)
		for (long column = 0; column < n + 2; column++)
			now[row * (n + 2) + column] = eigenvector(row, column);
	amplitude = 1;
}

static bool setup(const struct options *options)
{
	n = options->size;
	now = malloc((size_t)(n + 2) * (size_t)(n + 2) * sizeof(*now));
	next = calloc((size_t)(n + 2) * (size_t)(n + 2), sizeof(*next));
	sine = malloc((size_t)(n + 2) * sizeof(*sine));
	if (!now || !next || !sine)
		return false;
	for (long i = 0; i < n + 2; i++)
		sine[i] = sin(M_PI * (double)i / (double)(n + 1));
	decay = cos(M_PI / (double)(n + 1));
	heat();
	/* The edge, which no sweep writes. */
	for (long i = 0; i < n + 2; i++) {
		next[i] = now[i];
		next[(n + 1) * (n + 2) + i] = now[(n + 1) * (n + 2) + i];
		next[i * (n + 2)] = now[i * (n + 2)];
		next[i * (n + 2) + n + 1] = now[i * (n + 2) + n + 1];
	}
	return true;
}

static void sweep_row(const double *middle, double *to)
{
	const double *above = middle - (n + 2), *below = middle + (n + 2);

	for (long column = 1; column <= n; column++)
		to[column] = 0.25 * (above[column] + below[column] + middle[column - 1] + middle[column + 1]);
}

static uint64_t iterate(void)
{
	double *swap;

	if (amplitude < COLD)
		heat();
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long row = 1; row <= n; row++)
		sweep_row(now + row * (n + 2), next + row * (n + 2));
	parallel_end();
	swap = now;
	now = next;
	next = swap;
	amplitude *= decay;
	return (uint64_t)(n * n);
}

static void *result(size_t *bytes)
{
	*bytes = (size_t)(n + 2) * (size_t)(n + 2) * sizeof(*now);
	return now;
}

static bool verify(void)
{
	for (long row = 0; row < n + 2; row++)
		for (long column = 0; column < n + 2; column++) {
			double error = now[row * (n + 2) + column] - amplitude * eigenvector(row, column);

			if (!(fabs(error) <= TOLERANCE))
				return false;
		}
	return true;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "stencil",
		.about = "heat on a plate: a sweep, a barrier, a sweep",
		.unit = "points",
		.size_means = "rows and columns of the plate",
		.size = 1024,
		.least = 4,
		.most = 16384,
		.setup = setup,
		.iterate = iterate,
		.result = result,
		.verify = verify,
	};

	return run_program(&program, argc, argv);
}
