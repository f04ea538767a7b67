// SPDX-License-Identifier: GPL-2.0-only
/*
 * LU factorisation with partial pivoting, by blocks of columns (Golub and Van Loan, Matrix Computations,
 * section 3.6): a block is factored serially, then the rest updated in parallel. As the rest shrinks, the
 * serial share grows. An iteration is one block; after the last the matrix is taken anew.
 *
 * The factors, completed if need be, must solve a system of equations.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

#define BLOCK	  16
#define TOLERANCE 1e-9

static long n, column;
static double *matrix, *factors;
static long *pivot;

static bool setup(const struct options *options)
{
	n = options->size;
	matrix = malloc((size_t)(n * n) * sizeof(*matrix));
	factors = malloc((size_t)(n * n) * sizeof(*factors));
	pivot = malloc((size_t)n * sizeof(*pivot));
	if (!matrix || !factors || !pivot)
		return false;
	for (long i = 0; i < n * n; i++)
		matrix[i] = factors[i] = random_unit_at(options->seed, (uint64_t)i) - 0.5;
	return true;
}

static void swap_rows(long a, long b)
{
	for (long j = 0; a != b && j < n; j++) {
		double swap = factors[a * n + j];

		factors[a * n + j] = factors[b * n + j];
		factors[b * n + j] = swap;
	}
}

/* Row -= multiple of another, from one column up to another. */
static void subtract(double *row, double multiple, const double *other, long from, long to)
{
	for (long j = from; j < to; j++)
		row[j] -= multiple * other[j];
}

/* Columns from k to end, with the rows below; then the rows of the block, right of it. */
static void factor_block(long end)
{
	for (long k = column; k < end; k++) {
		pivot[k] = k;
		for (long i = k + 1; i < n; i++)
			if (fabs(factors[i * n + k]) > fabs(factors[pivot[k] * n + k]))
				pivot[k] = i;
		swap_rows(k, pivot[k]);
		for (long i = k + 1; i < n; i++) {
			factors[i * n + k] /= factors[k * n + k];
			subtract(factors + i * n, factors[i * n + k], factors + k * n, k + 1, end);
		}
	}
	for (long k = column; k < end; k++)
		for (long i = k + 1; i < end; i++)
			subtract(factors + i * n, factors[i * n + k], factors + k * n, end, n);
}

static uint64_t iterate(void)
{
	long start, end;

	if (column >= n) {
		column = 0;
		memcpy(factors, matrix, (size_t)(n * n) * sizeof(*factors));
	}
	start = column;
	end = start + BLOCK < n ? start + BLOCK : n;
	factor_block(end);
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long i = end; i < n; i++)
		for (long k = start; k < end; k++)
			subtract(factors + i * n, factors[i * n + k], factors + k * n, end, n);
	parallel_end();
	column = end;
	/* Products: each of the block's columns with the rows and columns that were left. */
	return (uint64_t)((end - start) * (n - start) * (n - start));
}

static void *result(size_t *bytes)
{
	*bytes = (size_t)(n * n) * sizeof(*factors);
	return factors;
}

/* Solves in place. */
static void solve(double *x)
{
	for (long k = 0; k < n; k++) {
		double swap = x[k];

		x[k] = x[pivot[k]];
		x[pivot[k]] = swap;
	}
	for (long i = 0; i < n; i++)
		for (long j = 0; j < i; j++)
			x[i] -= factors[i * n + j] * x[j];
	for (long i = n - 1; i >= 0; i--) {
		for (long j = i + 1; j < n; j++)
			x[i] -= factors[i * n + j] * x[j];
		x[i] /= factors[i * n + i];
	}
}

/* The right-hand side is that of a solution of ones. */
static bool verify(void)
{
	double *x = malloc((size_t)n * sizeof(*x));
	bool right = x != NULL;

	while (column < n)
		iterate();
	for (long i = 0; x && i < n; i++) {
		x[i] = 0;
		for (long j = 0; j < n; j++)
			x[i] += matrix[i * n + j];
	}
	if (x)
		solve(x);
	for (long i = 0; right && i < n; i++) {
		double residual = 0;

		for (long j = 0; j < n; j++)
			residual += matrix[i * n + j] * (x[j] - 1);
		right = fabs(residual) <= TOLERANCE * (double)n;
	}
	free(x);
	return right;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "lu",
		.about = "LU factorisation: the serial share grows to the end, then it begins anew",
		.unit = "products",
		.size_means = "rows and columns of the matrix",
		.size = 768,
		.least = 4,
		.most = 8192,
		.setup = setup,
		.iterate = iterate,
		.result = result,
		.verify = verify,
	};

	return run_program(&program, argc, argv);
}
