/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who goes first? Every waiting task has a key; the smaller key goes first. The key of a parallel
 * task is its vtime: the time that it ran, divided by its weight. The key of a serial task is its
 * vtime less a boost. The boost is bounded, so a waiting task's key is always reached: whatever
 * the others do, vtime moves on by at least one slice for each slice that somebody runs.
 *
 * All times are nanoseconds. vtime wraps; compare with tw_before() only.
 */
#ifndef TW_ORDER_H
#define TW_ORDER_H

#include "types.h"
#include "phase.h"

/* The weight of a nice-0 task (kernel/sched/ext.c, SCX weights: 1 to 10000). */
#define TW_WEIGHT_ONE 100

enum tw_class {
	/* A kernel thread bound to its CPU: others depend on it, it runs briefly, it goes at once. */
	TW_CLASS_KERNEL = 0,
	TW_CLASS_SERIAL = 1,
	TW_CLASS_PARALLEL = 2,
};

struct tw_tunables {
	/* How long a task runs before those who wait are considered. */
	u64 slice_ns;
	/* How far a task's vtime may run ahead of that of a waiting one before it yields. Threads of
	 * a program rotate in these steps, so that they reach their next barrier together. */
	u64 rotate_ns;
	/* How far ahead of its vtime a serial task is placed. */
	u64 serial_boost_ns;
	/* How far a parallel task's vtime may run ahead of that of a waiting task of another program
	 * before it yields: a turn. Turns are longer than slices so that programs that compete
	 * for the whole machine alternate seldom, and one of them ends its phase early (section VII,
	 * on needless context switches between parallel programs). */
	u64 turn_ns;
	/* How far from the current vtime a task that wakes up may be, in either direction. */
	u64 vtime_window_ns;
	/* At most so many ready threads, and the thread group is serial. */
	u32 serial_threshold;
};

/* A task as the ordering sees it. */
struct tw_task {
	u64 vtime;
	/* The thread group. */
	u32 tgid;
	enum tw_class class;
};

static inline bool tw_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static inline enum tw_class tw_class_of(u64 ready, bool bound_kernel_thread, const struct tw_tunables *tun)
{
	if (bound_kernel_thread)
		return TW_CLASS_KERNEL;
	return tw_phase_of(ready, tun->serial_threshold) == TW_SERIAL ? TW_CLASS_SERIAL : TW_CLASS_PARALLEL;
}

/* The vtime after running for ran_ns with a weight of 1 to 10000. */
static inline u64 tw_vtime_charge(u64 vtime, u64 ran_ns, u32 weight)
{
	return vtime + ran_ns * TW_WEIGHT_ONE / (weight ? weight : 1);
}

/*
 * The vtime of a task that comes back from sleep: neither may it have saved up more than a window
 * of credit, nor must it wait longer than a window for what it ran while nobody competed.
 */
static inline u64 tw_vtime_on_wakeup(u64 vtime, u64 now, const struct tw_tunables *tun)
{
	if (tw_before(vtime, now - tun->vtime_window_ns))
		return now - tun->vtime_window_ns;
	if (tw_before(now + tun->vtime_window_ns, vtime))
		return now + tun->vtime_window_ns;
	return vtime;
}

/* The position of a waiting task among the others. */
static inline u64 tw_key(const struct tw_task *task, const struct tw_tunables *tun)
{
	return task->class == TW_CLASS_PARALLEL ? task->vtime : task->vtime - tun->serial_boost_ns;
}

/* Whether a task that just became ready takes the CPU from the one that runs there. */
static inline bool tw_preempts(const struct tw_task *waking, const struct tw_task *running,
			       const struct tw_tunables *tun)
{
	if (waking->class == TW_CLASS_KERNEL)
		return true;
	return waking->class == TW_CLASS_SERIAL && running->class == TW_CLASS_PARALLEL &&
	       tw_before(tw_key(waking, tun), tw_key(running, tun));
}

/*
 * Whether a task that has used up its slice makes way for the best that waits: when it is ahead by
 * a step of the rotation, or, between two parallel programs, by a whole turn.
 */
static inline bool tw_yields(const struct tw_task *running, const struct tw_task *waiting, u64 waiting_key,
			     const struct tw_tunables *tun)
{
	u64 lead_ns = tun->rotate_ns;

	if (running->class == TW_CLASS_PARALLEL && waiting->class == TW_CLASS_PARALLEL &&
	    running->tgid != waiting->tgid)
		lead_ns = tun->turn_ns;
	return tw_before(waiting_key + lead_ns, tw_key(running, tun));
}

#endif /* TW_ORDER_H */
