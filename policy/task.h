/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the policy knows of a task, and the settings by which it decides.
 *
 * All times are nanoseconds unless their name says otherwise. vtime wraps; compare with tw_before() only.
 */
#ifndef TW_TASK_H
#define TW_TASK_H

#include "types.h"
#include "phase.h"

/* The weight of a nice-0 task (kernel/sched/ext.c, SCX weights: 1 to 10000). */
#define TW_WEIGHT_ONE 100

/* The largest weight, as of cpu.weight (include/linux/cgroup.h, CGROUP_WEIGHT_MAX). */
#define TW_WEIGHT_MAX 10000

/* Heavier tasks, about those of nice -10, are owed less of what others are boosted more. */
#define TW_WEIGHT_HEAVY 1000

/* The capacity of the fastest CPU (Documentation/scheduler/sched-capacity.rst). */
#define TW_CAPACITY_ONE 1024

/* What a task gets at once where nobody waits: 20 ms. */
#define TW_SLICE_ALONE_NS (20ULL * 1000 * 1000)

enum tw_class {
	/* A kernel thread bound to its CPU: others depend on it, it runs briefly, it goes at once. */
	TW_CLASS_KERNEL = 0,
	TW_CLASS_SERIAL = 1,
	/* Of the senior parallel program (phase.h). */
	TW_CLASS_SENIOR = 2,
	TW_CLASS_PARALLEL = 3,
};

struct tw_tunables {
	/* How long a task runs before those who wait are considered. */
	u64 slice_ns;
	/* How far a task's vtime may run ahead of that of a waiting one before it yields, at most, unless
	 * looks take long. Threads of a program rotate in steps (tw_step()), so that they reach their next
	 * barrier together.
	 */
	u64 rotate_ns;
	/* How far ahead of its vtime a serial task is placed. */
	u64 serial_boost_ns;
	/* How long a serial task has a CPU before it makes way for another serial one. */
	u64 serial_turn_ns;
	/* How far ahead of its vtime a task of the senior parallel program is placed. */
	u64 senior_boost_ns;
	/* The turn of the senior program, where others lose as much meanwhile: it ends when one has lost half
	 * of that more (tw_stays_senior()). */
	u64 senior_turn_ns;
	/* How far behind the current vtime a parallel task may be that wakes up, and what a serial one keeps
	 * of what it ran ahead, for each task of its CPU (tw_behind_most(), tw_ahead_most()). */
	u64 vtime_window_ns;
	/* How far from the current vtime a task may be, either way, where nobody waits beside it; and further
	 * by what boosts differ (vtime.h). */
	u64 vtime_lag_ns;
	/* At most so many ready threads, and the thread group is serial. */
	u32 serial_threshold;
	/* As many tasks waiting in a queue, beyond the second, halve a boost twice; 1 to 65535. */
	u32 boost_shares;
};

/* A task as the ordering sees it. */
struct tw_task {
	u64 vtime;
	/* How long ago it came to the CPU on which it runs (tw_here_ns()); nothing goes by it while it waits.
	 */
	u32 here_ns;
	enum tw_class class;
	/* Tasks that wait in the queue of its CPU. */
	u32 nr_waiting;
	/* What serial tasks leave of boosts (tw_boost_left()), or 0 (tw_goes_unboosted()). */
	u32 boost_left;
	/* How long it has been waiting, in microseconds (tw_waits_us()); 0 if it runs. */
	u32 waits_us;
	/* How far it may run ahead of one that waits before it yields, in nanoseconds (tw_step()). */
	u32 step_ns;
};

static inline bool tw_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* Whether tasks of a class go before those of another. */
static inline bool tw_is_before(enum tw_class class, enum tw_class other)
{
	return class < other;
}

/* The class of a task whose thread group has so many ready threads, and is the senior one or not. */
static inline enum tw_class tw_class_of(u32 nr_ready, bool bound_kernel_thread, bool senior,
					const struct tw_tunables *tun)
{
	if (bound_kernel_thread)
		return TW_CLASS_KERNEL;
	if (tw_phase_of(nr_ready, tun->serial_threshold) == TW_SERIAL)
		return TW_CLASS_SERIAL;
	return senior ? TW_CLASS_SENIOR : TW_CLASS_PARALLEL;
}

/* What struct tw_task says of so long: a second at most, which is more than any turn. */
static inline u32 tw_here_ns(u64 ago_ns)
{
	return tw_least(ago_ns, 1000ULL * 1000 * 1000);
}

/* What struct tw_task says of a wait of so long: an hour at most. */
static inline u32 tw_waits_us(u64 waits_ns)
{
	return tw_least(waits_ns / 1000, 3600ULL * 1000 * 1000);
}

#endif /* TW_TASK_H */
