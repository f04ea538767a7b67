/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When does the timer look at those that wait, and at how many? Often while somebody is due, seldom beside
 * those whose turns are long, never beside nobody. What one look takes has a bound on any machine, but for
 * the CPUs that go over to a program that has just become senior, the sums of all CPUs that are read each
 * 16 ms (crowd.bpf.h), and the search for an idle CPU behind one of several caches.
 */
#ifndef TW_LOOK_H
#define TW_LOOK_H

#include "preempt.h"

/* At how many queues that hold somebody, and at how many CPUs, a look of the timer looks at most; and at how
 * many queues that may hold somebody, of which it looks at one more to see that it has been at all. */
#define TW_ROTATION_QUEUES 4
#define TW_ROTATION_CPUS   16
#define TW_ROTATION_MARKS  16

/* The longest look that counts: 1 ms. */
#define TW_LOOK_TAKES_MOST_NS (1000ULL * 1000)

/* The longest time between two looks at those that wait, and where all of them were looked at and nobody was
 * due in that time: 8 and 24 ms. */
#define TW_LOOK_MOST_NS	 (8ULL * 1000 * 1000)
#define TW_LOOK_QUIET_NS (24ULL * 1000 * 1000)

/* What a look takes on the mean, in nanoseconds, after one that took so long: one of the timer, or of a CPU.
 */
static inline u64 tw_look_takes(u64 before_ns, u64 took_ns)
{
	return (15 * before_ns + tw_least(took_ns, TW_LOOK_TAKES_MOST_NS)) / 16;
}

/* What a look takes for which slices leave time: one of the timer, or of a CPU of an unequal machine at
 * faster ones when a slice ends, whichever takes longer. */
static inline u64 tw_longer_look(u64 timer_ns, u64 cpu_ns)
{
	return timer_ns > cpu_ns ? timer_ns : cpu_ns;
}

/* What looks of the timer find: the one at hand, and those before. */
struct tw_look {
	/* In how long the first is due of those at which it looked, in nanoseconds: TW_LOOK_QUIET_NS at most.
	 */
	u64 in_ns;
	/* Queues at which it looked, and those of them that held somebody (tw_look_found()). */
	u32 nr_seen;
	u32 nr_held;
	/* Looks in a row that found nobody waiting. */
	u32 nr_empty;
	/* Queues in a row, before this look, that held nobody who needs one within TW_LOOK_MOST_NS. */
	u32 nr_quiet;
	/* In how many queues those that wait for long have yet to go forward, and since when. */
	u32 nr_unaged;
	u64 aged_at;
	/* CPUs that may still be kicked, one for each queue that holds somebody who waits for that. */
	u32 nr_kicks;
	/* Whether it has been at all queues that may hold something. */
	bool all;
	/* Whether nobody there may need another look before long (tw_look_disturb()). */
	bool quiet;
	/* Whether the last expiry only had CPUs go over to a senior program (tw_look_is_early()). */
	bool was_early;
	/* Whether a CPU was kicked for the foremost, and sent to its queue. */
	bool sent;
};

/* A look begins on a machine of so many CPUs. From time to time those that wait for long go forward in all
 * queues, a few at each look. */
static inline void tw_look_begin(struct tw_look *look, u64 now_ns, u32 nr_cpus)
{
	if (!tw_before(now_ns, look->aged_at + TW_ORDER_NS)) {
		look->aged_at = now_ns;
		look->nr_unaged = nr_cpus;
	}
	look->in_ns = TW_LOOK_QUIET_NS;
	look->nr_seen = 0;
	look->nr_held = 0;
	look->all = false;
	look->quiet = true;
	look->nr_kicks = 0;
	look->sent = false;
}

/* Somebody may need a look before long: is bound to a CPU, which nobody else looks after, had an idle CPU
 * kicked, or is the last thread of a phase. */
static inline void tw_look_disturb(struct tw_look *look)
{
	look->nr_quiet = 0;
	look->quiet = false;
}

/* It comes to a queue: whether those go forward in it that wait for long. */
static inline bool tw_look_ages(struct tw_look *look)
{
	if (!look->nr_unaged)
		return false;
	look->nr_unaged--;
	return true;
}

/* It has been at all queues that may hold something. */
static inline void tw_look_has_all(struct tw_look *look)
{
	look->nr_unaged = 0;
	look->all = true;
}

/* It looked at a queue, which held somebody or not: then somebody may be about to be queued there. */
static inline void tw_look_found(struct tw_look *look, bool held)
{
	look->nr_seen++;
	if (held)
		look->nr_held++;
	else
		tw_look_disturb(look);
}

/* The first task of a queue waits for a CPU whose task makes way. */
static inline void tw_look_waits(struct tw_look *look)
{
	look->nr_kicks++;
}

/*
 * It looked at what runs on a CPU, which makes way for a waiting task in so long (tw_makes_way_in()): whether
 * that is due, and of which class. Where no CPU is kicked any more nobody is, and the next look is not for
 * it.
 */
static inline enum tw_due tw_look_due(struct tw_look *look, const struct tw_task *running,
				      const struct tw_task *waiting, u64 in_ns, const struct tw_tunables *tun)
{
	if (!in_ns && !look->nr_kicks)
		return TW_DUE_NOT;
	/* Who makes way waits then, and others are due beside it in a step. */
	look->in_ns = tw_least(look->in_ns, tw_look_in(running, waiting, in_ns, tun));
	return tw_due_beside(running, waiting, in_ns);
}

/* What becomes of a CPU whose task is due. */
enum tw_kick {
	TW_KICK_NOT = 0,
	TW_KICK = 1,
	/* It is to look at the queue of the foremost. */
	TW_KICK_AND_SEND = 2,
};

/*
 * What runs on a CPU is due to make way for the foremost or for the first of its own queue. The first CPU
 * that is kicked for the foremost looks at its queue; others would find it gone, and one of an earlier class
 * that is due finds out by itself, as it comes to look there.
 */
static inline enum tw_kick tw_look_kick(struct tw_look *look, enum tw_due due, bool for_foremost)
{
	if (!look->nr_kicks)
		return TW_KICK_NOT;
	look->nr_kicks--;
	if (!for_foremost || due == TW_DUE_EARLIER || look->sent)
		return TW_KICK;
	look->sent = true;
	return TW_KICK_AND_SEND;
}

/* A task is about to be queued. Comes before anybody asks whether the timer runs, or a look at that moment
 * might be the last. */
static inline void tw_look_expect(struct tw_look *look)
{
	look->nr_empty = 0;
	tw_look_disturb(look);
}

/*
 * In how long the timer looks after a task that is queued: in a step, or later if it is there for one that
 * goes before it. `nr_threads` are those of its program if it woke up and found no CPU to take, or 0. With a
 * boost, and so few that it is always serial, it waits for others such mostly, and is looked after when their
 * turns are over. Where two wake each other on one CPU a look in each step was 7 % of all instructions.
 */
static inline u64 tw_look_for(const struct tw_task *task, u32 nr_threads, bool foremost,
			      const struct tw_tunables *tun)
{
	bool always_serial = nr_threads && !tw_is_counted(nr_threads, tun->serial_threshold);
	u64 soon_ns = task->step_ns;

	if (always_serial && task->boost_left && tun->serial_turn_ns > soon_ns)
		soon_ns = tun->serial_turn_ns;
	return foremost || soon_ns > TW_LOOK_MOST_NS ? soon_ns : TW_LOOK_MOST_NS;
}

/*
 * The timer expired, and had CPUs go over to a program that became senior, or not. Whether it is too early to
 * look at the others: CPUs look first, but not again and again where programs follow one another quickly.
 */
static inline bool tw_look_is_early(struct tw_look *look, bool went_over)
{
	look->was_early = went_over && !look->was_early;
	return look->was_early;
}

/* In how many looks in a row all queues have been looked at that may hold something, of which one sees
 * TW_ROTATION_MARKS. */
static inline u32 tw_look_round(u32 nr_cpus)
{
	return 1 + nr_cpus / TW_ROTATION_MARKS;
}

/*
 * After a look, in how long those that wait are looked at again; 0: not until somebody is queued. Marks over
 * queues that others emptied must not keep the timer of an idle machine running, but a task that found it
 * armed may not have been in its queue yet. A look takes time of the thread under it, for which all others of
 * its program wait at their next barrier; where turns last for long it finds nothing, and each CPU looks when
 * its slice ends: so it is rare where nobody at any queue was due in TW_LOOK_MOST_NS. It comes soon, in the
 * shortest step, where CPUs have just gone over to a program that became senior, or where the queues at which
 * it looked were empty: then nobody is said to wait (tw_look_saw_nobody()), and a last look makes sure.
 */
static inline u64 tw_look_again(struct tw_look *look, u64 shortest_ns, bool went_over, u32 nr_cpus)
{
	u32 round = tw_look_round(nr_cpus);

	look->nr_empty = look->nr_held ? 0 : look->nr_empty + 1;
	if (!look->nr_seen || look->nr_empty > round + 1) {
		look->nr_empty = 0;
		return 0;
	}
	if (went_over || (!look->nr_held && look->nr_empty <= round))
		look->in_ns = shortest_ns;
	if (!look->quiet || look->in_ns < TW_LOOK_MOST_NS)
		look->nr_quiet = 0;
	else if (look->all && nr_cpus <= TW_ROTATION_CPUS)
		look->nr_quiet = nr_cpus;
	else
		look->nr_quiet += look->nr_seen;
	return tw_least(look->in_ns, look->nr_quiet < nr_cpus ? TW_LOOK_MOST_NS : TW_LOOK_QUIET_NS);
}

/*
 * Whether nobody is said to wait any more after that look, although it looks again: all queues were empty
 * twice. What goes by whether anybody waits, the current vtime above all (tw_clock()), should not go by
 * somebody who has long gone.
 */
static inline bool tw_look_saw_nobody(const struct tw_look *look, u32 nr_cpus)
{
	return look->nr_empty > tw_look_round(nr_cpus);
}

/* Whether the timer runs, until when, and the key of whom it looks after. */
struct tw_timer {
	u64 until_ns;
	u64 key;
	bool armed;
};

/* Whether it does not run, or was lost: it was started for a time that is long over. */
static inline bool tw_timer_stopped(const struct tw_timer *timer, u64 now_ns)
{
	return !timer->armed || tw_before(timer->until_ns + TW_LOOK_MOST_NS, now_ns);
}

/* Whether it is started anew to look in so long, if it runs. */
static inline bool tw_timer_hastens(const struct tw_timer *timer, u64 now_ns, u64 in_ns)
{
	return timer->armed && tw_before(now_ns + in_ns, timer->until_ns);
}

/* Whether it is started to look in so long at the latest. */
static inline bool tw_timer_starts(const struct tw_timer *timer, u64 now_ns, u64 in_ns)
{
	return tw_timer_stopped(timer, now_ns) || tw_timer_hastens(timer, now_ns, in_ns);
}

/*
 * In how long it is started to look after a task that is queued (tw_look_for()), or 0 if it looks before
 * that. The key of whom it looks after is that of the foremost then. Mostly it does look before, and nothing
 * need be known of who goes first.
 */
static inline u64 tw_timer_for(struct tw_timer *timer, const struct tw_task *task, u32 nr_threads, u64 now_ns,
			       const struct tw_tunables *tun)
{
	u64 key, in_ns = tw_look_for(task, nr_threads, true, tun);
	bool foremost;

	if (!tw_timer_starts(timer, now_ns, in_ns))
		return 0;
	key = tw_key(task, tun);
	foremost = tw_timer_stopped(timer, now_ns) || tw_before(key, timer->key);
	in_ns = tw_look_for(task, nr_threads, foremost, tun);
	if (!tw_timer_starts(timer, now_ns, in_ns))
		return 0;
	if (foremost)
		timer->key = key;
	return in_ns;
}

#endif /* TW_LOOK_H */
