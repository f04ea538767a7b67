/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine's clock (lab/clock.h) with a clock of this program's in QEMU's place: it says what went wrong
 * and ends with 1, or ends with 0. Without WITH_CLOCK there is none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"

#define MS 1000000ULL

#ifdef WITH_CLOCK
/* As QEMU has it: ticks twice, a lock, and some words on the clock. Ticks are quarters of a nanosecond. */
#define TICKS 4
int64_t timers_state[CLOCK_STATE_WORDS];
static int64_t *const ticks_read = &timers_state[0], *const ticks = &timers_state[1];
static int64_t *const offset = &timers_state[WITH_CLOCK];
static int64_t started;
static bool is_ticking;

static int64_t since_start(void)
{
	return (int64_t)host_ns() - started;
}

int64_t cpu_get_clock(void)
{
	return __atomic_load_n(offset, __ATOMIC_ACQUIRE) + (is_ticking ? since_start() : 0);
}

int64_t cpu_get_ticks(void)
{
	int64_t now = __atomic_load_n(ticks, __ATOMIC_ACQUIRE) + (is_ticking ? since_start() * TICKS : 0);

	__atomic_store_n(ticks_read, now, __ATOMIC_RELAXED);
	return now;
}

static void tick(bool on)
{
	int64_t sign = on == is_ticking ? 0 : on ? -1 : 1, now = since_start();

	is_ticking = on;
	*offset += sign * now;
	*ticks += sign * now * TICKS;
}

void cpu_disable_ticks(void)
{
	tick(false);
}

void cpu_enable_ticks(void)
{
	tick(true);
}
#endif

static struct clock_page page;
static uint32_t behind;
/* For how long the host keeps the timekeeper from its work each time. */
static uint64_t held_up_ns;

static bool is_anyone_behind(void)
{
	uint64_t ns = __atomic_load_n(&held_up_ns, __ATOMIC_RELAXED);

	if (ns)
		sleep_ns(ns);
	return __atomic_load_n(&behind, __ATOMIC_RELAXED);
}

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	printf("%s: time %lu, stood still %lu ns\n", what, page.ns, page.stood_still_ns);
	exit(1);
}

/* What passes of the machine's time in so much of the host's. */
static uint64_t passes_in(uint64_t ns)
{
	uint64_t begun = clock_ns();

	sleep_ns(ns);
	return clock_ns() - begun;
}

#ifdef WITH_CLOCK
/* Who waits for a time finds that it has come, or gives up when it has not for a while. */
static void *wait_often(void *times)
{
	for (uint64_t n = *(uint64_t *)times; n > 0; n--) {
		uint64_t begun = host_ns(), until = clock_ns() + MS / 10;

		clock_wait_until(until);
		expect(clock_ns() >= until || host_ns() - begun >= PATIENCE_NS,
		       "who waited came back too early");
	}
	return NULL;
}

/* Time is stopped and goes on while several wait for it: none is left waiting. */
static void stop_while_others_wait(void)
{
	pthread_t waiting[4];
	uint64_t times = 2000;

	for (int i = 0; i < 4; i++)
		pthread_create(&waiting[i], NULL, wait_often, &times);
	for (int i = 0; i < 500; i++) {
		__atomic_store_n(&behind, i % 2 == 0, __ATOMIC_RELAXED);
		sleep_ns(MS / 4);
	}
	__atomic_store_n(&behind, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		pthread_join(waiting[i], NULL);
}

/* Ticks and time are those of one clock, whoever moves it on. */
static void expect_one_clock(void)
{
	int64_t more;

	do {
		int64_t ns = cpu_get_clock();

		more = cpu_get_ticks() - ns * TICKS;
		if (cpu_get_clock() == ns)
			break;
	} while (true);
	expect(more > -100 && more < 100, "ticks are not those of the time");
}

static void stand_still(void)
{
	uint64_t stood_still, passed;

	__atomic_store_n(&behind, 1, __ATOMIC_RELAXED);
	sleep_ns(100 * MS);
	expect(passes_in(100 * MS) == 0, "time goes on while someone is behind");
	stood_still = page.stood_still_ns;
	expect(stood_still >= 100 * MS, "a stop that lasts is not told");
	expect_one_clock();
	/* QEMU wants a vCPU back whose time does not come. */
	clock_wait_until(clock_ns() + MS);
	__atomic_store_n(&behind, 0, __ATOMIC_RELAXED);
	sleep_ns(100 * MS);
	expect(passes_in(20 * MS) > 0, "time does not go on again");
	expect_one_clock();
	stop_while_others_wait();
	/* At each look by what passed, up to a step. */
	__atomic_store_n(&held_up_ns, 10 * MS, __ATOMIC_RELAXED);
	sleep_ns(50 * MS);
	passed = passes_in(200 * MS);
	expect(passed > 0 && passed <= 21 * STEP_NS, "time goes on while the timekeeper is held up");
	__atomic_store_n(&held_up_ns, 0, __ATOMIC_RELAXED);
}
#endif

int main(void)
{
	uint64_t until;

#ifdef WITH_CLOCK
	started = (int64_t)host_ns();
	cpu_enable_ticks();
#endif
	expect(clock_start(&page, true, is_anyone_behind) == 0, "no thread");
	__atomic_store_n(&behind, 1, __ATOMIC_RELAXED);
	expect(passes_in(100 * MS) >= 100 * MS, "time does not go on while nothing is governed");
	__atomic_store_n(&behind, 0, __ATOMIC_RELAXED);
	page.governed = 1;
	sleep_ns(20 * MS);
	expect(passes_in(20 * MS) > 0, "time does not go on while nobody is behind");
	expect(page.ns > 0, "it is not told");
#ifdef WITH_CLOCK
	if (WITH_CLOCK != 1) {
		stand_still();
		__atomic_store_n(&behind, 1, __ATOMIC_RELAXED);
		page.governed = 0;
		sleep_ns(20 * MS);
		expect(passes_in(20 * MS) >= 20 * MS, "time does not go on once nothing is governed");
		return 0;
	}
#endif
	__atomic_store_n(&behind, 1, __ATOMIC_RELAXED);
	expect(passes_in(20 * MS) >= 20 * MS && page.stood_still_ns == 0, "what cannot be stopped was");
	until = clock_ns() + MS;
	clock_wait_until(until);
	expect(clock_ns() >= until, "who waited came back too early");
	return 0;
}
