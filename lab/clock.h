/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The emulated machine's time, which goes on only while the host keeps up, and who keeps it.
 *
 * QEMU has one clock for its timers and the guest's time stamp counter, and stops it where it stops a
 * machine. While programs run it is stopped for good here, and a thread, the timekeeper, moves it on in small
 * steps: by the time that passed for the host, but not while someone is behind, and never by more than a
 * step, so what the host does to the timekeeper itself is no time of the machine's.
 *
 * QEMU exports the functions and the clock's state for its modules, and so for plugins, but promises them to
 * neither: they are weak here, what is written is looked for in the state, and a QEMU without them has a
 * clock that cannot stand still.
 */
#ifndef THREADWISE_LAB_CLOCK_H
#define THREADWISE_LAB_CLOCK_H

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ULL
/* How often time moves on, and by how much at most. */
#define LOOK_NS	     50000ULL
#define STEP_NS	     100000ULL
#define IDLE_LOOK_NS 1000000ULL
/* Where the host does not let it come first, the machine takes longer. */
#define TIMEKEEPER_NICE (-20)
/* How long to wait for a time that does not come, and how long at least before the next look at the clock. */
#define PATIENCE_NS   20000000ULL
#define LEAST_WAIT_NS 20000ULL

/*
 * system/cpu-timers.c (QEMU 10.0): nanoseconds and ticks of the time stamp counter. The two that write want
 * QEMU's big lock against each other; the other one who writes is QEMU when it starts or stops the whole
 * machine.
 */
__attribute__((weak)) int64_t cpu_get_clock(void);
__attribute__((weak)) int64_t cpu_get_ticks(void);
__attribute__((weak)) void cpu_disable_ticks(void);
__attribute__((weak)) void cpu_enable_ticks(void);
/*
 * system/timers-state.h: where it stands while it is stopped, among other words. Ticks are there twice, first
 * as they were read last.
 */
#define CLOCK_STATE_WORDS 16
__attribute__((weak)) extern int64_t timers_state[];
/* util/qemu-timer.c: until a timer of this clock is due, 0 if one is, below 0 if there is none. */
__attribute__((weak)) int64_t qemu_clock_deadline_ns_all(int clock, int attributes);
#define QEMU_CLOCK_VIRTUAL  1
#define QEMU_TIMER_ATTR_ALL (~0)

/* What the clock shares with the lab. */
struct clock_page {
	/*
	 * The lab sets this while programs run. Until then, while the guest boots or the verifier looks at a
	 * scheduler, vCPUs are as fast as the host, nothing is counted, and time goes on.
	 */
	uint64_t governed;
	/* The machine's time, as it was a look ago, and for how long of the host's it has stood still. */
	uint64_t ns;
	uint64_t stood_still_ns;
};

/* How often time stood still and went on: odd while it stands still. Who waits for a time waits for a change.
 */
static uint32_t clock_changes;
/* The host's time at the start, where QEMU has no clock for us. */
static uint64_t clock_started_ns;

static uint64_t host_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
}

static void sleep_ns(uint64_t ns)
{
	struct timespec t = timespec_of(ns);

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* The machine's time in nanoseconds. It never goes back. */
static uint64_t clock_ns(void)
{
	return cpu_get_clock ? (uint64_t)cpu_get_clock() : host_ns() - clock_started_ns;
}

/* Whether a timer of the machine's is due, which QEMU's main thread is to call. */
static bool clock_timer_is_due(void)
{
	return qemu_clock_deadline_ns_all &&
	       qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL, QEMU_TIMER_ATTR_ALL) == 0;
}

/*
 * Returns once the machine's time has come to this, or does not come. A vCPU has to come back: QEMU may want
 * all of them out of the translated code, as it does before it changes that for all, while time stands still
 * for the one that is to do it; or it has stopped the machine.
 */
static void clock_wait_until(uint64_t ns)
{
	struct timespec patience = timespec_of(PATIENCE_NS);
	uint64_t begun = host_ns();

	for (;;) {
		/* Read first: if time stands still then, it is this time that has not come. */
		uint32_t changes = __atomic_load_n(&clock_changes, __ATOMIC_ACQUIRE);
		uint64_t now = clock_ns();

		if (now >= ns || host_ns() - begun >= PATIENCE_NS)
			return;
		if (changes % 2)
			syscall(SYS_futex, &clock_changes, FUTEX_WAIT_PRIVATE, changes, &patience, NULL, 0);
		else
			sleep_ns(ns - now > LEAST_WAIT_NS ? ns - now : LEAST_WAIT_NS);
	}
}

/* Whom the timekeeper watches, whom it tells, and what it did. */
static struct {
	bool (*is_anyone_behind)(void);
	struct clock_page *page;
	/* Whether time may stand still, and whether QEMU's clock is stopped for that. */
	bool has_standstill;
	bool steps;
	/* Where QEMU has the time of a stopped clock, and the time stamp counter's. */
	int64_t *clock;
	int64_t *ticks;
	double ticks_per_ns;
	/* Parts of a tick that are still to come. */
	double ticks_left;
	/* Looks in a row that found someone behind. */
	uint32_t nr_behind;
	/* The host's time of the last look. */
	uint64_t last_ns;
} timekeeper;

/* The last word of the clock's state that says this, or NULL. */
static int64_t *clock_word(int64_t value)
{
	int64_t *found = NULL;

	for (int i = 0; i < CLOCK_STATE_WORDS; i++)
		if (timers_state[i] == value)
			found = &timers_state[i];
	return found;
}

/* Whether the clock can be moved on by hand. It is stopped. */
static bool clock_find_words(void)
{
	int64_t ns = cpu_get_clock(), ticks = cpu_get_ticks();

	timekeeper.clock = clock_word(ns);
	timekeeper.ticks = clock_word(ticks);
	if (!timekeeper.clock || !timekeeper.ticks || timekeeper.clock == timekeeper.ticks)
		return false;
	__atomic_store_n(timekeeper.clock, ns + 1, __ATOMIC_RELAXED);
	__atomic_store_n(timekeeper.ticks, ticks + 1, __ATOMIC_RELAXED);
	return cpu_get_clock() == ns + 1 && cpu_get_ticks() == ticks + 1;
}

/* From here on time moves by steps, where it can. */
static void clock_stop(void)
{
	cpu_disable_ticks();
	/* Both began at 0 when the machine did, some time ago. */
	timekeeper.ticks_per_ns = (double)cpu_get_ticks() / (double)cpu_get_clock();
	timekeeper.steps = clock_find_words();
	if (timekeeper.steps)
		return;
	cpu_enable_ticks();
	timekeeper.has_standstill = false;
	fprintf(stderr,
		"corespeed: QEMU's clock is not where it was in 10.0: time goes on while the host is late\n");
}

/* From here on it goes on by itself. */
static void clock_go_on(void)
{
	cpu_enable_ticks();
	timekeeper.steps = false;
}

/* Nobody else writes while it is stopped; who reads sees the one or the other. */
static void clock_step(uint64_t ns)
{
	double ticks = (double)ns * timekeeper.ticks_per_ns + timekeeper.ticks_left;

	timekeeper.ticks_left = ticks - (double)(int64_t)ticks;
	__atomic_add_fetch(timekeeper.ticks, (int64_t)ticks, __ATOMIC_RELAXED);
	__atomic_add_fetch(timekeeper.clock, (int64_t)ns, __ATOMIC_RELEASE);
}

/* Whether others are to wait for a change rather than look again. */
static void clock_say_still(bool still)
{
	if (clock_changes % 2 == still)
		return;
	__atomic_add_fetch(&clock_changes, 1, __ATOMIC_RELEASE);
	if (!still)
		syscall(SYS_futex, &clock_changes, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Moves time on by what passed since the last look, unless someone is behind or that was long ago. */
static void clock_move_on(uint64_t passed_ns)
{
	bool behind = timekeeper.is_anyone_behind() || clock_timer_is_due();
	uint64_t ns = behind ? 0 : passed_ns < STEP_NS ? passed_ns : STEP_NS;

	clock_step(ns);
	timekeeper.nr_behind = behind ? timekeeper.nr_behind + 1 : 0;
	clock_say_still(timekeeper.nr_behind > 1);
	__atomic_store_n(&timekeeper.page->stood_still_ns, timekeeper.page->stood_still_ns + passed_ns - ns,
			 __ATOMIC_RELAXED);
}

static void clock_look(void)
{
	bool governed = __atomic_load_n(&timekeeper.page->governed, __ATOMIC_RELAXED);
	bool steps = governed && timekeeper.has_standstill;
	uint64_t now = host_ns();

	if (steps && timekeeper.steps)
		clock_move_on(now - timekeeper.last_ns);
	else if (steps)
		clock_stop();
	else if (timekeeper.steps)
		clock_go_on();
	if (!timekeeper.steps)
		clock_say_still(false);
	timekeeper.last_ns = now;
	__atomic_store_n(&timekeeper.page->ns, clock_ns(), __ATOMIC_RELAXED);
}

static void *clock_keep(void *unused)
{
	struct sched_param normal = { .sched_priority = 0 };

	(void)unused;
	prctl(PR_SET_TIMERSLACK, 1);
	sched_setscheduler(0, SCHED_OTHER, &normal);
	setpriority(PRIO_PROCESS, 0, TIMEKEEPER_NICE);
	for (;;) {
		clock_look();
		sleep_ns(timekeeper.steps ? LOOK_NS : IDLE_LOOK_NS);
	}
	return NULL;
}

/*
 * Starts the timekeeper, which tells the time, and has it stand still while someone is behind, if it may and
 * can. Its thread has all signals blocked: they are QEMU's. Returns an errno, or 0.
 */
static int clock_start(struct clock_page *page, bool may_stand_still, bool (*is_anyone_behind)(void))
{
	bool has_clock = cpu_get_clock && cpu_get_ticks && cpu_disable_ticks && cpu_enable_ticks;
	sigset_t all, before;
	pthread_t thread;
	int error;

	clock_started_ns = host_ns();
	timekeeper.page = page;
	timekeeper.has_standstill = may_stand_still && has_clock && timers_state;
	timekeeper.is_anyone_behind = is_anyone_behind;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, clock_keep, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
#endif
