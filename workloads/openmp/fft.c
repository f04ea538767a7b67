// SPDX-License-Identifier: GPL-2.0-only
/*
 * A picture is shifted by one column, by way of its two-dimensional Fourier transform: seven parallel phases
 * an iteration, of which two are transpositions, which move memory only. Rows are transformed by Cooley and
 * Tukey's method (1965), radix 2.
 *
 * After k iterations the picture must be the first one, shifted by k columns.
 */
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "program.h"

#define TOLERANCE 1e-8
/* Of a transposition: a tile of it stays in the first-level cache. */
#define TILE 16

static long n;
static int log2_n;
static double complex *picture, *turned, *root;
static long *reversed;
static uint64_t seed, shifts;

static double complex first(long row, long column)
{
	return random_unit_at(seed, (uint64_t)(row * n + column)) - 0.5;
}

static bool setup(const struct options *options)
{
	n = options->size;
	seed = options->seed;
	picture = malloc((size_t)n * (size_t)n * sizeof(*picture));
	turned = malloc((size_t)n * (size_t)n * sizeof(*turned));
	root = malloc((size_t)n * sizeof(*root));
	reversed = calloc((size_t)n, sizeof(*reversed));
	if (!picture || !turned || !root || !reversed)
		return false;
	while (1L << log2_n < n)
		log2_n++;
	for (long i = 0; i < n; i++) {
		root[i] = cexp(-2 * M_PI * I * (double)i / (double)n);
		for (int bit = 0; bit < log2_n; bit++)
			reversed[i] |= (i >> bit & 1) << (log2_n - 1 - bit);
		for (long column = 0; column < n; column++)
			picture[i * n + column] = first(i, column);
	}
	return true;
}

/* Written out, as the compiler's own product checks for infinities. */
static double complex times(double complex a, double complex b)
{
	return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

static void transform(double complex *row, bool inverse)
{
	for (long i = 0; i < n; i++)
		if (i < reversed[i]) {
			double complex swap = row[i];

			row[i] = row[reversed[i]];
			row[reversed[i]] = swap;
		}
	for (long half = 1; half < n; half *= 2)
		for (long from = 0; from < n; from += 2 * half)
			for (long i = 0; i < half; i++) {
				double complex w = root[i * (n / (2 * half))];
				double complex odd = times(inverse ? conj(w) : w, row[from + i + half]);

				row[from + i + half] = row[from + i] - odd;
				row[from + i] += odd;
			}
}

static void transform_rows(double complex *rows, bool inverse)
{
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long row = 0; row < n; row++)
		transform(rows + row * n, inverse);
	parallel_end();
}

static void transpose(const double complex *from, double complex *to)
{
	long tiles = (n + TILE - 1) / TILE;

	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long tile = 0; tile < tiles; tile++)
		for (long start = 0; start < n; start += TILE)
			for (long row = tile * TILE; row < tile * TILE + TILE && row < n; row++)
				for (long column = start; column < start + TILE && column < n; column++)
					to[row * n + column] = from[column * n + row];
	parallel_end();
}

/* By the shift theorem; a row of the transposed spectrum is one frequency along the rows of the picture. */
static void shift_and_scale(void)
{
	double scale = 1 / (double)(n * n);

	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long frequency = 0; frequency < n; frequency++)
		for (long i = 0; i < n; i++)
			turned[frequency * n + i] = times(turned[frequency * n + i], root[frequency] * scale);
	parallel_end();
}

static uint64_t iterate(void)
{
	transform_rows(picture, false);
	transpose(picture, turned);
	transform_rows(turned, false);
	shift_and_scale();
	transform_rows(turned, true);
	transpose(turned, picture);
	transform_rows(picture, true);
	shifts++;
	return (uint64_t)(n * n);
}

static void *result(size_t *bytes)
{
	*bytes = (size_t)n * (size_t)n * sizeof(*picture);
	return picture;
}

static bool verify(void)
{
	long shift = (long)(shifts % (uint64_t)n);

	for (long row = 0; row < n; row++)
		for (long column = 0; column < n; column++) {
			double complex expected = first(row, (column - shift + n) % n);

			if (!(cabs(picture[row * n + column] - expected) <= TOLERANCE))
				return false;
		}
	return true;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "fft",
		.about =
			"two-dimensional Fourier transforms: parallel phases of arithmetic and of memory in turn",
		.unit = "points",
		.size_means = "rows and columns of the picture",
		.size = 512,
		.least = 4,
		.most = 8192,
		.power_of_two = true,
		.setup = setup,
		.iterate = iterate,
		.result = result,
		.verify = verify,
	};

	return run_program(&program, argc, argv);
}
