/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The emulated machine's time, which stands still while the host is late, and who keeps it.
 *
 * QEMU has one clock for its timers and the guest's time stamp counter, and stops it where it stops a
 * machine. It exports the functions for its modules, and so for plugins, but promises them to neither: they
 * are weak here, and a QEMU without them has a clock that cannot stand still.
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
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ULL
/* How often it is looked whether someone is behind; if so twice in a row, time stops. */
#define LOOK_NS	     50000ULL
#define IDLE_LOOK_NS 1000000ULL
/* The timekeeper comes first; under SCHED_FIFO it would be throttled where it has to spin. */
#define TIMEKEEPER_NICE (-20)
/* How long to wait for a time that does not come. */
#define PATIENCE_NS 20000000ULL
/* How long, and in what steps, to wait for who holds the clock's lock. */
#define LOCK_PATIENCE_NS 2000000ULL
#define LOCK_STEP_NS	 20000ULL

/*
 * system/cpu-timers.c (QEMU 10.0), nanoseconds. The two that write want QEMU's big lock against each other;
 * the other one who writes is QEMU when it starts or stops the whole machine.
 */
__attribute__((weak)) int64_t cpu_get_clock(void);
__attribute__((weak)) void cpu_disable_ticks(void);
__attribute__((weak)) void cpu_enable_ticks(void);
/* util/qemu-timer.c: until a timer of this clock is due, 0 if one is, below 0 if there is none. */
__attribute__((weak)) int64_t qemu_clock_deadline_ns_all(int clock, int attributes);
#define QEMU_CLOCK_VIRTUAL  1
#define QEMU_TIMER_ATTR_ALL (~0)
/*
 * system/timers-state.h: the clock's spin lock is the sixth word of 32 bits. Were it another one that is
 * never 0, each stop would be 2 ms late.
 */
__attribute__((weak)) extern uint32_t timers_state[];
#define CLOCK_LOCK_WORD 5

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

/* How often time stopped and went on: odd while it stands still. Who waits for a time waits for a change. */
static uint32_t clock_changes;
/* The host's time at the start, where QEMU has no clock for us. */
static uint64_t clock_started_ns;

static bool clock_can_stand_still(void)
{
	return cpu_get_clock && cpu_disable_ticks && cpu_enable_ticks;
}

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

static bool clock_is_held(void)
{
	return timers_state && __atomic_load_n(&timers_state[CLOCK_LOCK_WORD], __ATOMIC_RELAXED);
}

/*
 * Both that follow take the clock's spin lock, which vCPUs hold while they read the time stamp counter. The
 * timekeeper wakes up often, comes first, and may just have preempted one that does: it would spin for its
 * whole slice, on that one's CPU.
 */
static void clock_let_holder_go_on(void)
{
	for (uint64_t ns = 0; ns < LOCK_PATIENCE_NS && clock_is_held(); ns += LOCK_STEP_NS)
		sleep_ns(LOCK_STEP_NS);
}

static void clock_stop(void)
{
	clock_let_holder_go_on();
	cpu_disable_ticks();
	__atomic_add_fetch(&clock_changes, 1, __ATOMIC_RELEASE);
}

static void clock_go_on(void)
{
	clock_let_holder_go_on();
	cpu_enable_ticks();
	__atomic_add_fetch(&clock_changes, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &clock_changes, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/*
 * Returns once the machine's time has come to this, or does not come. A vCPU has to come back: QEMU may want
 * all of them out of the translated code, as it does before it changes that for all, while time stands still
 * for the one that is to do it; or it has stopped the machine.
 */
static void clock_wait_until(uint64_t ns)
{
	for (;;) {
		struct timespec patience = timespec_of(PATIENCE_NS);
		/* Read first: if time stands still then, it is this time that has not come. */
		uint32_t changes = __atomic_load_n(&clock_changes, __ATOMIC_ACQUIRE);
		uint64_t now = clock_ns();

		if (now >= ns)
			return;
		if (!(changes % 2)) {
			sleep_ns(ns - now);
			if (clock_ns() == now)
				return;
		} else if (syscall(SYS_futex, &clock_changes, FUTEX_WAIT_PRIVATE, changes, &patience, NULL,
				   0) &&
			   errno == ETIMEDOUT) {
			return;
		}
	}
}

/* Whom the timekeeper watches, whom it tells, and what it did. */
static struct {
	bool (*is_anyone_behind)(void);
	struct clock_page *page;
	bool has_standstill;
	bool was_behind;
	bool is_stopped;
	/* The host's time of the last look. */
	uint64_t last_ns;
} timekeeper;

/* Stops time once someone is behind twice in a row, lets it go on once nobody is, and tells the time. */
static void clock_look(void)
{
	bool governed = __atomic_load_n(&timekeeper.page->governed, __ATOMIC_RELAXED);
	bool behind = timekeeper.has_standstill && governed &&
		      (timekeeper.is_anyone_behind() || clock_timer_is_due());
	uint64_t now = host_ns();

	if (timekeeper.is_stopped)
		__atomic_store_n(&timekeeper.page->stood_still_ns,
				 timekeeper.page->stood_still_ns + now - timekeeper.last_ns,
				 __ATOMIC_RELAXED);
	timekeeper.last_ns = now;
	if (timekeeper.is_stopped && !behind) {
		clock_go_on();
		timekeeper.is_stopped = false;
	} else if (!timekeeper.is_stopped && behind && timekeeper.was_behind) {
		clock_stop();
		timekeeper.is_stopped = true;
	}
	timekeeper.was_behind = behind;
	__atomic_store_n(&timekeeper.page->ns, clock_ns(), __ATOMIC_RELAXED);
}

static void *clock_keep(void *unused)
{
	struct sched_param normal = { .sched_priority = 0 };

	(void)unused;
	prctl(PR_SET_TIMERSLACK, 1);
	/* Where the host does not let it come first, time is stopped later. */
	sched_setscheduler(0, SCHED_OTHER, &normal);
	setpriority(PRIO_PROCESS, 0, TIMEKEEPER_NICE);
	for (;;) {
		bool governed = __atomic_load_n(&timekeeper.page->governed, __ATOMIC_RELAXED);

		clock_look();
		sleep_ns(governed && timekeeper.has_standstill ? LOOK_NS : IDLE_LOOK_NS);
	}
	return NULL;
}

/*
 * Starts the timekeeper, which tells the time, and stops it while someone is behind, if it may and can. Its
 * thread has all signals blocked: they are QEMU's. Returns an errno, or 0.
 */
static int clock_start(struct clock_page *page, bool may_stand_still, bool (*is_anyone_behind)(void))
{
	sigset_t all, before;
	pthread_t thread;
	int error;

	clock_started_ns = host_ns();
	timekeeper.page = page;
	timekeeper.has_standstill = may_stand_still && clock_can_stand_still();
	timekeeper.is_anyone_behind = is_anyone_behind;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, clock_keep, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
#endif
