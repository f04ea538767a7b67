/* SPDX-License-Identifier: GPL-2.0-only */
/* Who takes the CPU of a task that runs? */
#ifndef TW_PREEMPT_H
#define TW_PREEMPT_H

#include "rotation.h"

/* CPUs that one serial wake-up looks at, at most. */
#define TW_VICTIM_SCAN 64

/* Whether a task of this class ever takes the CPU of a running one. */
static inline bool tw_may_preempt(enum tw_class class)
{
	return class != TW_CLASS_PARALLEL;
}

/* Whether a task of this class runs at once on its CPU, whatever runs there: a kernel thread that is bound to
 * it, for which tasks of any program may wait. */
static inline bool tw_runs_at_once(enum tw_class class)
{
	return class == TW_CLASS_KERNEL;
}

/*
 * Whether a task of this class may take the CPU of a running one of that class at all; `nr_own_threads` are
 * those of the program, if both are of one, and 0 if they are not. One that is neither new nor woke up had a
 * turn and made way for the best that waits, or was moved: it takes none from its class. One that is or did
 * takes none from a thread of its class and program: threads that wake each other, at the end of a barrier
 * say, would run one by one, and a parallel program would never be seen to have many ready. One of so few
 * threads that it is always serial has nothing to gain by that.
 */
static inline bool tw_may_take(enum tw_class class, enum tw_class running, bool wakes, u32 nr_own_threads,
			       const struct tw_tunables *tun)
{
	bool own = tw_is_counted(nr_own_threads, tun->serial_threshold);

	return tw_is_before(class, running) || (wakes && running == class && !own);
}

/*
 * Whether a CPU on which a task of this class runs looks at its queue at once when another program has become
 * senior: threads that meet get on only while all of them run. Those of an earlier class do not make way.
 */
static inline bool tw_follows_senior(enum tw_class running)
{
	return running == TW_CLASS_PARALLEL;
}

/*
 * How many CPUs a waking task of this class looks at for one to take over. A serial task is worth a
 * search, of bounded length; the senior program's look at their own CPU, and rotate onto others.
 */
static inline u32 tw_victim_scan(enum tw_class class, u32 nr_cpus)
{
	if (class != TW_CLASS_SERIAL)
		return 1;
	return nr_cpus < TW_VICTIM_SCAN ? nr_cpus : TW_VICTIM_SCAN;
}

/*
 * Whether a task that just became ready takes the CPU from the one that runs there: that of a later class,
 * which it goes before, or of two serial ones that which is due to make way for it anyway, at the next look.
 */
static inline bool tw_preempts(const struct tw_task *waking, const struct tw_task *running,
			       const struct tw_tunables *tun)
{
	if (running->class < waking->class)
		return false;
	if (running->class == waking->class)
		return waking->class == TW_CLASS_SERIAL && tw_yields(running, waking, tun);
	return tw_goes_first(waking, running, tun);
}

/*
 * Whether a serial task that came so long ago goes on beside a serial one that woke up, whoever that is and
 * whatever it is owed: nothing else need be known of the two.
 */
static inline bool tw_just_came(u64 here_ns, const struct tw_tunables *tun)
{
	return here_ns < tw_turn_least(tun);
}

/*
 * Until when no serial task that wakes up can take a CPU on which a task of this class came so long ago, nor
 * whatever comes there next, if that is serial too: who comes later just came for longer. So what was found
 * once holds until then, a step later at most. Of another class it is no time to come (0). Of a CPU that runs
 * none of ours, only what comes next counts (TW_CLASS_KERNEL, 0), or who runs there becomes ours, which is
 * seen a step later.
 */
static inline u64 tw_stays_until(enum tw_class running, u64 here_ns, u64 now, const struct tw_tunables *tun)
{
	return running > TW_CLASS_SERIAL ? 0 : now - here_ns + tw_turn_least(tun);
}

/*
 * Whether a task of this class need not look at a CPU to take it, or at any: none is to be had before `until`
 * (tw_stays_until(), the first of several), unless a program is parallel, of which a task may have come
 * since. Where clients and servers keep waking each other each would look at all CPUs, and of two that share
 * one each at that.
 */
static inline bool tw_passed_over(enum tw_class waking, u64 until, u32 nr_parallel, u64 now)
{
	return waking == TW_CLASS_SERIAL && !nr_parallel && (s64)(until - now) > 0;
}

/*
 * Whether a serial task goes on beside a serial one that woke up (tw_preempts()), as shows without a closer
 * look at it: by a vtime beyond which its own is not (tw_vtime_most()), its turn goes on.
 */
static inline bool tw_surely_stays(const struct tw_task *running_at_most, const struct tw_task *waking,
				   const struct tw_tunables *tun)
{
	s64 ahead = (s64)(running_at_most->vtime - waking->vtime);

	return tw_turn_left(running_at_most, waking, ahead, tun) > 0;
}

/* Whether what runs on a CPU is due to make way for a task that waits, and of which class it is beside that.
 */
enum tw_due {
	TW_DUE_NOT = 0,
	TW_DUE_EARLIER = 1,
	TW_DUE_SAME = 2,
	TW_DUE_LATER = 3,
};

/* The same where it is due in so long (tw_due_in()). */
static inline enum tw_due tw_due_beside(const struct tw_task *running, const struct tw_task *waiting,
					u64 in_ns)
{
	if (in_ns)
		return TW_DUE_NOT;
	if (tw_is_before(waiting->class, running->class))
		return TW_DUE_LATER;
	return tw_is_before(running->class, waiting->class) ? TW_DUE_EARLIER : TW_DUE_SAME;
}

/*
 * Whether a serial task makes way for one that is bound to this CPU, however the two are ordered: it finds
 * another CPU, in place of a parallel task if need be, but a bound thread would hold up its program here.
 */
static inline bool tw_makes_room(const struct tw_task *running, bool running_is_bound, bool waiting_is_bound)
{
	return waiting_is_bound && !running_is_bound && running->class == TW_CLASS_SERIAL;
}

/* What a task that runs is to one that waits: whether each may run on one CPU only, and both are of one
 * program. */
struct tw_beside {
	bool running_bound;
	bool waiting_bound;
	bool of_one_program;
};

/* For how long a task may go on before it makes way for one that waits, with all that comes before
 * tw_due_in(); the step between the two is noted in it. */
static inline u64 tw_makes_way_in(struct tw_task *running, const struct tw_task *waiting,
				  const struct tw_beside *beside, const struct tw_tunables *tun)
{
	bool both_bound = beside->running_bound && beside->waiting_bound;

	running->step_ns = tw_step_beside(running, beside->of_one_program, both_bound, tun);
	if (tw_makes_room(running, beside->running_bound, beside->waiting_bound))
		return 0;
	return tw_due_in(running, waiting, tun);
}

/*
 * Whether a task that woke up takes its CPU at once from a serial one that makes room for it: after a step,
 * or that would get nowhere where each CPU that it may use has one that wakes up again and again.
 */
static inline bool tw_turns_out(const struct tw_task *running, bool running_is_bound, bool waking_is_bound,
				const struct tw_tunables *tun)
{
	return tw_makes_room(running, running_is_bound, waking_is_bound) &&
	       !tw_just_came(running->here_ns, tun);
}

#endif /* TW_PREEMPT_H */
