// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bodies that attract each other, every one every other: one long parallel phase a step, then a short serial
 * one that moves them. Leapfrog steps, with gravity softened as Plummer (1911) does.
 *
 * Momentum must stay zero, the centre of mass where it was and energy what it was; whatever the number of
 * threads, the bodies are in the same places.
 */
#include <math.h>
#include <stdlib.h>

#include "program.h"

#define DIMENSIONS	   3
#define SOFTENING	   0.05
#define STEP		   1e-3
#define MOMENTUM_TOLERANCE 1e-9
#define CENTRE_TOLERANCE   1e-6
#define ENERGY_TOLERANCE   0.02

static long n;
static double (*position)[DIMENSIONS], (*velocity)[DIMENSIONS], (*acceleration)[DIMENSIONS];
static double mass, energy_at_first, centre_at_first[DIMENSIONS];

/* What body i owes to body j, for a mass of one, and its potential. */
static double attract(long i, long j, double *pull)
{
	double distance[DIMENSIONS], square = SOFTENING * SOFTENING, inverse;

	for (int d = 0; d < DIMENSIONS; d++) {
		distance[d] = position[j][d] - position[i][d];
		square += distance[d] * distance[d];
	}
	inverse = 1 / sqrt(square);
	for (int d = 0; d < DIMENSIONS; d++)
		pull[d] += distance[d] * inverse * inverse * inverse;
	return -inverse;
}

static void attract_all(void)
{
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long i = 0; i < n; i++) {
		double pull[DIMENSIONS] = { 0 };

		for (long j = 0; j < n; j++)
			attract(i, j, pull);
		for (int d = 0; d < DIMENSIONS; d++)
			acceleration[i][d] = mass * pull[d];
	}
	parallel_end();
}

/* In no particular order, as it is only compared with what it was. */
static double energy(void)
{
	double sum = 0;

#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
	for (long i = 0; i < n; i++) {
		double ignored[DIMENSIONS] = { 0 };

		for (int d = 0; d < DIMENSIONS; d++)
			sum += 0.5 * mass * velocity[i][d] * velocity[i][d];
		for (long j = 0; j < i; j++)
			sum += mass * mass * attract(i, j, ignored);
	}
	return sum;
}

static double momentum(int d)
{
	double sum = 0;

	for (long i = 0; i < n; i++)
		sum += mass * velocity[i][d];
	return sum;
}

static double centre(int d)
{
	double sum = 0;

	for (long i = 0; i < n; i++)
		sum += mass * position[i][d];
	return sum;
}

static bool setup(const struct options *options)
{
	n = options->size;
	mass = 1 / (double)n;
	position = malloc((size_t)n * sizeof(*position));
	velocity = malloc((size_t)n * sizeof(*velocity));
	acceleration = malloc((size_t)n * sizeof(*acceleration));
	if (!position || !velocity || !acceleration)
		return false;
	for (long i = 0; i < n; i++)
		for (int d = 0; d < DIMENSIONS; d++) {
			uint64_t at = (uint64_t)(i * DIMENSIONS + d);

			position[i][d] = 2 * random_unit_at(options->seed, 2 * at) - 1;
			velocity[i][d] = 0.5 * random_unit_at(options->seed, 2 * at + 1) - 0.25;
		}
	for (int d = 0; d < DIMENSIONS; d++) {
		double drift = momentum(d);

		for (long i = 0; i < n; i++)
			velocity[i][d] -= drift;
	}
	for (int d = 0; d < DIMENSIONS; d++)
		centre_at_first[d] = centre(d);
	energy_at_first = energy();
	attract_all();
	return true;
}

static void kick(double time)
{
	for (long i = 0; i < n; i++)
		for (int d = 0; d < DIMENSIONS; d++)
			velocity[i][d] += time * acceleration[i][d];
}

static uint64_t iterate(void)
{
	kick(STEP / 2);
	for (long i = 0; i < n; i++)
		for (int d = 0; d < DIMENSIONS; d++)
			position[i][d] += STEP * velocity[i][d];
	attract_all();
	kick(STEP / 2);
	return (uint64_t)(n * n);
}

static void *result(size_t *bytes)
{
	*bytes = (size_t)n * sizeof(*position);
	return position;
}

static bool verify(void)
{
	/* One body of thousands that is astray changes energy by less than the steps do. */
	for (int d = 0; d < DIMENSIONS; d++)
		if (!(fabs(momentum(d)) <= MOMENTUM_TOLERANCE &&
		      fabs(centre(d) - centre_at_first[d]) <= CENTRE_TOLERANCE))
			return false;
	return fabs(energy() - energy_at_first) <= ENERGY_TOLERANCE * fabs(energy_at_first);
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "nbody",
		.about =
			"bodies that attract each other: long parallel phases of arithmetic, short serial ones",
		.unit = "pairs",
		.size_means = "bodies",
		.size = 2000,
		.least = 16,
		.most = 100000,
		.setup = setup,
		.iterate = iterate,
		.result = result,
		.verify = verify,
	};

	return run_program(&program, argc, argv);
}
