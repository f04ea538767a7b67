// SPDX-License-Identifier: GPL-2.0-only
/*
 * Edges of the frames of a film: blur along rows, blur along columns, gradient (Sobel), each a parallel
 * phase; then, serially, the histogram and from it the threshold (Otsu, 1979), which the last parallel phase
 * applies.
 *
 * The last frame is computed again, with the two blurs in one, to the same bits.
 */
#include <stdlib.h>
#include <string.h>

#include "program.h"

#define LEVELS 256

static long n;
static uint8_t *scene, *blurred, *gradient, *edges;
static uint16_t *half_blurred;
static uint64_t seed, frame;
static const int weight[5] = { 1, 4, 6, 4, 1 };

static long inside(long i)
{
	return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* The scene moves up by a row a frame. */
static uint8_t pixel(long row, long column)
{
	return scene[(inside(row) + (long)(frame % (uint64_t)n)) % n * n + inside(column)];
}

static bool setup(const struct options *options)
{
	size_t pixels = (size_t)options->size * (size_t)options->size;

	n = options->size;
	seed = options->seed;
	scene = malloc(pixels);
	blurred = malloc(pixels);
	gradient = malloc(pixels);
	edges = calloc(pixels, 1);
	half_blurred = malloc(pixels * sizeof(*half_blurred));
	if (!scene || !blurred || !gradient || !edges || !half_blurred)
		return false;
	/* Squares of random brightness, with noise. */
	for (long row = 0; row < n; row++)
		for (long column = 0; column < n; column++) {
			uint64_t square = random_at(seed, (uint64_t)(row / 16 * n + column / 16));
			uint64_t noise = random_at(seed + 1, (uint64_t)(row * n + column));

			scene[row * n + column] = (uint8_t)(square % 224 + noise % 32);
		}
	return true;
}

static void blur_rows(void)
{
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long row = 0; row < n; row++)
		for (long column = 0; column < n; column++) {
			int sum = 0;

			for (int i = 0; i < 5; i++)
				sum += weight[i] * pixel(row, column + i - 2);
			half_blurred[row * n + column] = (uint16_t)sum;
		}
	parallel_end();
}

static void blur_columns(void)
{
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long row = 0; row < n; row++)
		for (long column = 0; column < n; column++) {
			int sum = 0;

			for (int i = 0; i < 5; i++)
				sum += weight[i] * half_blurred[inside(row + i - 2) * n + column];
			blurred[row * n + column] = (uint8_t)(sum / 256);
		}
	parallel_end();
}

static uint8_t gradient_at(long row, long column)
{
	const uint8_t *above = blurred + inside(row - 1) * n, *at = blurred + row * n;
	const uint8_t *below = blurred + inside(row + 1) * n;
	long left = inside(column - 1), right = inside(column + 1);
	int across = above[right] + 2 * at[right] + below[right] - above[left] - 2 * at[left] - below[left];
	int down = below[left] + 2 * below[column] + below[right] - above[left] - 2 * above[column] -
		   above[right];
	int sum = abs(across) + abs(down);

	return (uint8_t)(sum < LEVELS ? sum : LEVELS - 1);
}

static void find_gradient(void)
{
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long row = 0; row < n; row++)
		for (long column = 0; column < n; column++)
			gradient[row * n + column] = gradient_at(row, column);
	parallel_end();
}

/* The level that parts dark from bright with the largest variance between the two. */
static int threshold(void)
{
	long count[LEVELS] = { 0 }, dark = 0, pixels = n * n;
	double sum = 0, dark_sum = 0, best = -1;
	int level = 0;

	for (long i = 0; i < pixels; i++)
		count[gradient[i]]++;
	for (int i = 0; i < LEVELS; i++)
		sum += (double)i * (double)count[i];
	for (int i = 0; i < LEVELS; i++) {
		double difference, variance;

		dark += count[i];
		dark_sum += (double)i * (double)count[i];
		if (!dark || dark == pixels)
			continue;
		difference = dark_sum / (double)dark - (sum - dark_sum) / (double)(pixels - dark);
		variance = (double)dark * (double)(pixels - dark) * difference * difference;
		if (variance > best) {
			best = variance;
			level = i;
		}
	}
	return level;
}

static uint64_t iterate(void)
{
	int level;

	frame++;
	blur_rows();
	blur_columns();
	find_gradient();
	level = threshold();
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long row = 0; row < n; row++)
		for (long i = row * n; i < (row + 1) * n; i++)
			edges[i] = gradient[i] > level ? 255 : 0;
	parallel_end();
	return (uint64_t)(n * n);
}

static void *result(size_t *bytes)
{
	*bytes = (size_t)(n * n);
	return edges;
}

static uint8_t blurred_at_once(long row, long column)
{
	int sum = 0;

	for (int i = 0; i < 5; i++) {
		const uint8_t *from = scene + (inside(row + i - 2) + (long)(frame % (uint64_t)n)) % n * n;

		for (int j = 0; j < 5; j++)
			sum += weight[i] * weight[j] * from[inside(column + j - 2)];
	}
	return (uint8_t)(sum / 256);
}

static bool verify(void)
{
	int level;

#pragma omp parallel for schedule(static)
	for (long row = 0; row < n; row++)
		for (long column = 0; column < n; column++)
			blurred[row * n + column] = blurred_at_once(row, column);
	for (long i = 0; i < n * n; i++)
		gradient[i] = gradient_at(i / n, i % n);
	level = threshold();
	for (long i = 0; i < n * n; i++)
		if (edges[i] != (gradient[i] > level ? 255 : 0))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "image",
		.about = "edges in pictures: four parallel phases and a serial one, in bytes",
		.unit = "pixels",
		.size_means = "rows and columns of a picture",
		.size = 1024,
		.least = 16,
		.most = 16384,
		.setup = setup,
		.iterate = iterate,
		.result = result,
		.verify = verify,
	};

	return run_program(&program, argc, argv);
}
