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
/* As QEMU has it. Read and written under its lock, the sixth word. */
uint32_t timers_state[8];
static int64_t offset;
static bool is_ticking = true;

static void lock(void)
{
	while (__atomic_exchange_n(&timers_state[CLOCK_LOCK_WORD], 1, __ATOMIC_ACQUIRE))
		;
}

static void unlock(void)
{
	__atomic_store_n(&timers_state[CLOCK_LOCK_WORD], 0, __ATOMIC_RELEASE);
}

int64_t cpu_get_clock(void)
{
	int64_t now;

	lock();
	now = offset + (is_ticking ? (int64_t)host_ns() : 0);
	unlock();
	return now;
}

void cpu_disable_ticks(void)
{
	lock();
	if (is_ticking)
		offset += (int64_t)host_ns();
	is_ticking = false;
	unlock();
}

void cpu_enable_ticks(void)
{
	lock();
	if (!is_ticking)
		offset -= (int64_t)host_ns();
	is_ticking = true;
	unlock();
}
#endif

static struct clock_page page = { .governed = 1 };
static uint32_t behind;

static bool is_anyone_behind(void)
{
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

int main(void)
{
	uint64_t stood_still;

	expect(clock_start(&page, true, is_anyone_behind) == 0, "no thread");
	expect(passes_in(20 * MS) >= 20 * MS, "time does not go on while nobody is behind");
	expect(page.ns > 0 && page.stood_still_ns == 0, "it is not told");
	__atomic_store_n(&behind, 1, __ATOMIC_RELAXED);
	sleep_ns(100 * MS);
	if (!clock_can_stand_still()) {
		expect(passes_in(20 * MS) >= 20 * MS && page.stood_still_ns == 0,
		       "what cannot be stopped was");
		return 0;
	}
	expect(passes_in(100 * MS) == 0, "time goes on while someone is behind");
	stood_still = page.stood_still_ns;
	expect(stood_still >= 100 * MS, "a stop that lasts is not told");
	/* QEMU wants a vCPU back whose time does not come. */
	clock_wait_until(clock_ns() + MS);
	__atomic_store_n(&behind, 0, __ATOMIC_RELAXED);
	sleep_ns(100 * MS);
	expect(passes_in(20 * MS) >= 20 * MS, "time does not go on again");
	stop_while_others_wait();
	/* QEMU stops the machine: who waits comes back. */
	cpu_disable_ticks();
	clock_wait_until(clock_ns() + MS);
	return 0;
}
