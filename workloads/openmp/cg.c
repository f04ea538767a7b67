// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conjugate gradients (Hestenes and Stiefel, 1952) with a sparse matrix in rows: three parallel regions an
 * iteration, each followed by a serial sum. The matrix is that of Poisson's equation on a square.
 *
 * Sums are by blocks in a fixed order, so that the result does not depend on the number of threads. At any
 * iteration the residual that the method carries along must be that of the solution so far.
 */
#include <math.h>
#include <stdlib.h>

#include "program.h"

#define BLOCK 256
/* Of the right-hand side: nearer is solved, and the next right-hand side comes. */
#define CONVERGED 1e-8
#define TOLERANCE 1e-10

static long side, rows, nr_blocks;
static long *start, *column;
static double *value, *b, *x, *r, *p, *q, *partial;
static double rr, bb;
static uint64_t seed, systems;

static void add(long neighbour, double coefficient, long *used)
{
	column[*used] = neighbour;
	value[(*used)++] = coefficient;
}

static void make_matrix(void)
{
	long used = 0;

	for (long i = 0; i < rows; i++) {
		start[i] = used;
		if (i >= side)
			add(i - side, -1, &used);
		if (i % side)
			add(i - 1, -1, &used);
		add(i, 4, &used);
		if (i % side < side - 1)
			add(i + 1, -1, &used);
		if (i < rows - side)
			add(i + side, -1, &used);
	}
	start[rows] = used;
}

/* A new right-hand side, and zero as the first guess. Serial. */
static void begin(void)
{
	rr = 0;
	for (long i = 0; i < rows; i++) {
		b[i] = random_unit_at(seed + systems, (uint64_t)i) - 0.5;
		x[i] = 0;
		r[i] = p[i] = b[i];
		rr += b[i] * b[i];
	}
	bb = rr;
	systems++;
}

static bool setup(const struct options *options)
{
	double **vectors[] = { &b, &x, &r, &p, &q };

	side = options->size;
	rows = side * side;
	nr_blocks = (rows + BLOCK - 1) / BLOCK;
	seed = options->seed;
	start = malloc((size_t)(rows + 1) * sizeof(*start));
	column = malloc((size_t)rows * 5 * sizeof(*column));
	value = malloc((size_t)rows * 5 * sizeof(*value));
	partial = malloc((size_t)nr_blocks * sizeof(*partial));
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		if (!(*vectors[i] = malloc((size_t)rows * sizeof(double))))
			return false;
	if (!start || !column || !value || !partial)
		return false;
	make_matrix();
	begin();
	return true;
}

static double row_times(long row, const double *vector)
{
	double sum = 0;

	for (long k = start[row]; k < start[row + 1]; k++)
		sum += value[k] * vector[column[k]];
	return sum;
}

static long end_of(long block)
{
	long end = (block + 1) * BLOCK;

	return end < rows ? end : rows;
}

static double sum_of_partial(void)
{
	double sum = 0;

	for (long block = 0; block < nr_blocks; block++)
		sum += partial[block];
	return sum;
}

/* q = A p; returns p·q. */
static double multiply(void)
{
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long block = 0; block < nr_blocks; block++) {
		double sum = 0;

		for (long i = block * BLOCK; i < end_of(block); i++) {
			q[i] = row_times(i, p);
			sum += p[i] * q[i];
		}
		partial[block] = sum;
	}
	parallel_end();
	return sum_of_partial();
}

/* x += alpha p, r -= alpha q; returns r·r. */
static double step(double alpha)
{
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long block = 0; block < nr_blocks; block++) {
		double sum = 0;

		for (long i = block * BLOCK; i < end_of(block); i++) {
			x[i] += alpha * p[i];
			r[i] -= alpha * q[i];
			sum += r[i] * r[i];
		}
		partial[block] = sum;
	}
	parallel_end();
	return sum_of_partial();
}

/* p = r + beta p. */
static void turn(double beta)
{
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long block = 0; block < nr_blocks; block++)
		for (long i = block * BLOCK; i < end_of(block); i++)
			p[i] = r[i] + beta * p[i];
	parallel_end();
}

static uint64_t iterate(void)
{
	double before = rr;

	rr = step(before / multiply());
	if (rr <= CONVERGED * CONVERGED * bb)
		begin();
	else
		turn(rr / before);
	return (uint64_t)rows;
}

static void *result(size_t *bytes)
{
	*bytes = (size_t)rows * sizeof(*x);
	return x;
}

static bool verify(void)
{
	double error = 0;

	for (long i = 0; i < rows; i++) {
		double difference = b[i] - row_times(i, x) - r[i];

		error += difference * difference;
	}
	return error <= TOLERANCE * TOLERANCE * bb;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "cg",
		.about =
			"conjugate gradients with a sparse matrix: short parallel phases, each followed by a serial sum",
		.unit = "rows",
		.size_means = "rows and columns of the square, whose points are the unknowns",
		.size = 512,
		.least = 4,
		.most = 4096,
		.setup = setup,
		.iterate = iterate,
		.result = result,
		.verify = verify,
	};

	return run_program(&program, argc, argv);
}
