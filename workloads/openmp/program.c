// SPDX-License-Identifier: GPL-2.0-only
/* See program.h. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program.h"

#define MAX_THREADS 1024
#define SECOND_NS   1000000000ULL

/* What is printed with a report of this name does not change its meaning. */
#define SCHEMA "threadwise.program/1"

static uint64_t parallel_ns, parallel_since_ns;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

void parallel_begin(void)
{
	parallel_since_ns = now_ns();
}

void parallel_end(void)
{
	parallel_ns += now_ns() - parallel_since_ns;
}

static void usage(const struct program *program, FILE *to)
{
	fprintf(to,
		"omp-%s: %s\n\n"
		"  --threads N           threads, 1 to %d [default: OMP_NUM_THREADS, or the CPUs available]\n"
		"  --seconds S           run for so long [default: 10]\n"
		"  --iterations I        run so many iterations instead\n"
		"  --size N              %s, %ld to %ld%s [default: %ld]\n"
		"  --schedule S          how loops are shared: static or dynamic [default: static]\n"
		"  --seed N              of the input [default: 1]\n"
		"  --start-at-ns T       begin at this time of CLOCK_MONOTONIC; an error if it is past\n"
		"  --inject-fault        spoil the result, so that the verification must fail\n\n"
		"Prints one line of JSON; a unit of work is: %s. OMP_WAIT_POLICY and GOMP_SPINCOUNT say how threads\n"
		"wait. Exit status: 0 done, 1 the result is wrong or the start time is past, 2 an error.\n",
		program->name, program->about, MAX_THREADS, program->size_means, program->least,
		program->most, program->power_of_two ? ", a power of two" : "", program->size, program->unit);
}

/* Says what is wrong with the command line, and ends. */
static _Noreturn void refuse(const struct program *program, const char *option, const char *value,
			     const char *want)
{
	fprintf(stderr, "omp-%s: --%s %s: want %s\n", program->name, option, value, want);
	exit(2);
}

/* A whole number of the command line, from least to most. */
static long whole(const struct program *program, const char *option, const char *text, long least, long most)
{
	char *end, want[80];
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most) {
		snprintf(want, sizeof(want), "a whole number from %ld to %ld", least, most);
		refuse(program, option, text, want);
	}
	return value;
}

static double positive(const struct program *program, const char *option, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0 && value <= 1e6))
		refuse(program, option, text, "a number above 0, up to 1000000");
	return value;
}

static bool is_dynamic(const struct program *program, const char *text)
{
	if (strcmp(text, "dynamic") && strcmp(text, "static"))
		refuse(program, "schedule", text, "static or dynamic");
	return !strcmp(text, "dynamic");
}

static struct options parse(const struct program *program, int argc, char **argv)
{
	enum { THREADS = 1, SECONDS, ITERATIONS, SIZE, SCHEDULE, SEED, START, FAULT, HELP };
	static const struct option known[] = {
		{ "threads", 1, 0, THREADS },
		{ "seconds", 1, 0, SECONDS },
		{ "iterations", 1, 0, ITERATIONS },
		{ "size", 1, 0, SIZE },
		{ "schedule", 1, 0, SCHEDULE },
		{ "seed", 1, 0, SEED },
		{ "start-at-ns", 1, 0, START },
		{ "inject-fault", 0, 0, FAULT },
		{ "help", 0, 0, HELP },
		{ 0 },
	};
	struct options options = {
		.threads = omp_get_max_threads(), .seconds = 10, .size = program->size, .seed = 1
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case THREADS:
			options.threads = (int)whole(program, "threads", optarg, 1, MAX_THREADS);
			break;
		case SECONDS:
			options.seconds = positive(program, "seconds", optarg);
			break;
		case ITERATIONS:
			options.iterations = whole(program, "iterations", optarg, 1, 1000000000);
			break;
		case SIZE:
			options.size = whole(program, "size", optarg, program->least, program->most);
			if (program->power_of_two && options.size & (options.size - 1))
				refuse(program, "size", optarg, "a power of two");
			break;
		case SCHEDULE:
			options.dynamic = is_dynamic(program, optarg);
			break;
		case SEED:
			options.seed = (uint64_t)whole(program, "seed", optarg, 0, INT64_MAX);
			break;
		case START:
			options.start_at_ns = (uint64_t)whole(program, "start-at-ns", optarg, 0, INT64_MAX);
			break;
		case FAULT:
			options.inject_fault = true;
			break;
		case HELP:
			usage(program, stdout);
			exit(0);
		default:
			fprintf(stderr, "omp-%s: see --help\n", program->name);
			exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "omp-%s: unexpected %s; see --help\n", program->name, argv[optind]);
		exit(2);
	}
	return options;
}

/* Creates the threads, which OpenMP does at the first parallel region, and has all of them meet. */
static void create_threads(const struct program *program, const struct options *options)
{
	int there = 0;

	omp_set_dynamic(0);
	omp_set_num_threads(options->threads);
	omp_set_schedule(options->dynamic ? omp_sched_dynamic : omp_sched_static,
			 options->dynamic ? 1 : program->static_chunk);
#pragma omp parallel reduction(+ : there)
	there++;
	if (there != options->threads) {
		fprintf(stderr, "omp-%s: OpenMP gave %d of %d threads: is OMP_THREAD_LIMIT set?\n",
			program->name, there, options->threads);
		exit(2);
	}
}

/* Waits for the common start. False if it is past. */
static bool wait_for_start(const struct program *program, uint64_t start_at_ns)
{
	struct timespec at = { .tv_sec = (time_t)(start_at_ns / SECOND_NS),
			       .tv_nsec = (long)(start_at_ns % SECOND_NS) };
	uint64_t now = now_ns();

	if (!start_at_ns)
		return true;
	if (start_at_ns < now) {
		/* The lab knows a start that was too late by these words. */
		fprintf(stderr,
			"omp-%s: the start time %llu ns is past: it was %llu ns when the input was ready\n",
			program->name, (unsigned long long)start_at_ns, (unsigned long long)now);
		return false;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
	return true;
}

struct course {
	uint64_t started_at_ns, duration_ns, parallel_ns, iterations, work_units;
};

static struct course iterate(const struct program *program, const struct options *options)
{
	/* Programs that start together are measured from the same moment, whoever has a CPU first. */
	struct course course = { .started_at_ns = options->start_at_ns ? options->start_at_ns : now_ns() };
	uint64_t limit_ns = (uint64_t)(options->seconds * 1e9);
	bool goes_on;

	parallel_ns = 0;
	do {
		course.work_units += program->iterate();
		course.iterations++;
		course.duration_ns = now_ns() - course.started_at_ns;
		goes_on = options->iterations ? course.iterations < (uint64_t)options->iterations :
						course.duration_ns < limit_ns;
	} while (goes_on);
	/* Verification may iterate too. */
	course.parallel_ns = parallel_ns;
	return course;
}

/* FNV-1a, by Fowler, Noll and Vo, of a result's words instead of its bytes; what is left at the end is a word
 * too. */
static uint64_t checksum(const unsigned char *bytes, size_t nr_bytes)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < nr_bytes; i += sizeof(hash)) {
		size_t left = nr_bytes - i;
		uint64_t word = 0;

		memcpy(&word, bytes + i, left < sizeof(word) ? left : sizeof(word));
		hash = (hash ^ word) * 0x100000001b3ULL;
	}
	return hash;
}

static void report(const struct program *program, const struct options *options, const struct course *course,
		   uint64_t hash)
{
	const char *wait = getenv("OMP_WAIT_POLICY");
	bool active = wait && (wait[0] == 'a' || wait[0] == 'A');
	double duration_s = (double)course->duration_ns * 1e-9,
	       parallel_s = (double)course->parallel_ns * 1e-9;

	printf("{\"schema\":\"" SCHEMA "\",\"program\":\"%s\",\"threads\":%d,\"size\":%ld,\"seed\":%llu,"
	       "\"schedule\":\"%s\",\"wait\":\"%s\",\"started_at_ns\":%llu,\"duration_s\":%.9f,"
	       "\"work_unit\":\"%s\",\"work_units\":%llu,\"work_units_per_s\":%.3f,\"rounds\":%llu,"
	       "\"parallel_s\":%.9f,\"serial_s\":%.9f,\"checksum\":\"%016llx\",\"verified\":true}\n",
	       program->name, options->threads, options->size, (unsigned long long)options->seed,
	       options->dynamic ? "dynamic" : "static",
	       active ? "active" :
	       wait   ? "passive" :
			"default",
	       (unsigned long long)course->started_at_ns, duration_s, program->unit,
	       (unsigned long long)course->work_units, (double)course->work_units / duration_s,
	       (unsigned long long)course->iterations, parallel_s, fmax(0, duration_s - parallel_s),
	       (unsigned long long)hash);
}

int run_program(const struct program *program, int argc, char **argv)
{
	struct options options = parse(program, argc, argv);
	struct course course;
	unsigned char *bytes;
	size_t nr_bytes;
	uint64_t hash;

	create_threads(program, &options);
	if (!program->setup(&options)) {
		fprintf(stderr, "omp-%s: not enough memory for --size %ld\n", program->name, options.size);
		return 2;
	}
	if (!wait_for_start(program, options.start_at_ns))
		return 1;
	course = iterate(program, &options);
	bytes = program->result(&nr_bytes);
	hash = checksum(bytes, nr_bytes);
	/* The highest byte of a middle word: of a double, the top of the exponent. */
	if (options.inject_fault)
		bytes[(nr_bytes / 2) | 7] ^= 0x40;
	if (!program->verify()) {
		fprintf(stderr, "omp-%s: the result is wrong: size %ld, %llu iterations, %d threads\n",
			program->name, options.size, (unsigned long long)course.iterations, options.threads);
		return 1;
	}
	report(program, &options, &course, hash);
	return fflush(stdout) ? 2 : 0;
}
