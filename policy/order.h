/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who goes first? Every waiting task has a key; the smaller key goes first. It is its vtime less its boost:
 * bounded both, so a waiting task's turn always comes. Whoever runs moves on in vtime, and is overtaken when
 * it is ahead by more than its boost, or at the end of its turn.
 */
#ifndef TW_ORDER_H
#define TW_ORDER_H

#include "vtime.h"

/* A parallel task in another queue that is no longer than a CPU's own is so much later there: 10 ms. */
#define TW_ELSEWHERE_NS (10ULL * 1000 * 1000)

/* Who waits for longer, for each task of its CPU but the first 16 only, goes forward in its queue, and before
 * who runs: 0.2 s. */
#define TW_PATIENCE_NS	  (200ULL * 1000 * 1000)
#define TW_PATIENCE_TASKS 16

/* Tasks of each queue that are put in order at once, at most. */
#define TW_ROTATION_SORTED 16

/* So often at most those whose wait has come to count go forward in queues: 100 ms. */
#define TW_ORDER_NS (TW_PATIENCE_NS / 2)

/*
 * By how much a task goes forward that waits for long. Boosts and debts are in vtime, and those that a heavy
 * or a serial task (tw_vtime_bound()) runs ahead may last for many times as long. So from some time on
 * waiting counts like vtime, and whoever runs makes way in as much time as boost and spans are long, whatever
 * it weighs. That is late enough, and later beside many, that it says nothing of those that wait for their
 * turn by weight: vtimes are bounded, so who goes before it is due has that forgiven.
 */
static inline u64 tw_age(const struct tw_task *task, u32 nr_waiting)
{
	u64 tasks = tw_least(nr_waiting + 1ULL, TW_PATIENCE_TASKS);
	u64 waits_ns = task->waits_us * 1000ULL, patience_ns = TW_PATIENCE_NS * tasks;

	return waits_ns > patience_ns ? waits_ns - patience_ns : 0;
}

/*
 * Whether a waiting task moves within its queue, from the key that it was queued under to this one: where
 * `all` are put in order, or if it goes forward because it waits for long. Who keeps its key keeps its place
 * among those with the same.
 */
static inline bool tw_moves_in_queue(const struct tw_task *task, u64 key, u64 queued_key, bool all)
{
	if (all)
		return key != queued_key;
	return tw_age(task, task->nr_waiting) && tw_before(key, queued_key);
}

/* The position of a task beside so many that wait. */
static inline u64 tw_position(const struct tw_task *task, u32 nr_waiting, u32 left,
			      const struct tw_tunables *tun)
{
	return task->vtime - tw_boost_of(task->class, nr_waiting, left, tun) - tw_age(task, nr_waiting);
}

/* The position of a task beside those that wait at its CPU now. In that queue it has another (tw_key_in()).
 */
static inline u64 tw_key(const struct tw_task *task, const struct tw_tunables *tun)
{
	return tw_position(task, task->nr_waiting, task->boost_left, tun);
}

/*
 * What the keys of a queue go by: beside how many they are, and what serial tasks leave of boosts. All of
 * them by the same. Were each task's key beside those that it finds there, one that comes while many wait
 * would be behind all that come when few do, by up to a whole boost, until they have used that up or the
 * queue is empty: rcu_preempt, which hardly runs, waited for 29 ms beside three that had the CPU in turns.
 */
struct tw_keys {
	u32 nr_waiting;
	u32 boost_left;
	/* Looks that have yet to put the queue in order, each those tasks that are first then. */
	u32 nr_looks;
};

/* What the keys of a queue go by that begins with this task, beside which so many wait: anew if none does. */
static inline void tw_keys_begin(struct tw_keys *keys, const struct tw_task *task, u32 boost_left)
{
	if (task->nr_waiting)
		return;
	keys->nr_waiting = 0;
	keys->boost_left = boost_left;
	keys->nr_looks = 0;
}

/*
 * Has a queue's keys go by what holds now, where so many wait. They are put in order by a look for each
 * TW_ROTATION_SORTED of them, and by one more: who was being queued at the first may have a key by the old
 * ones.
 */
static inline void tw_keys_renew(struct tw_keys *keys, u32 nr_waiting, u32 boost_left)
{
	keys->nr_waiting = nr_waiting;
	keys->boost_left = boost_left;
	keys->nr_looks = 1 + (nr_waiting + TW_ROTATION_SORTED - 1) / TW_ROTATION_SORTED;
}

/* The key of a task, `unboosted` (tw_goes_unboosted()) or not. Its age goes by how many wait now. */
static inline u64 tw_key_in(const struct tw_keys *keys, const struct tw_task *task, bool unboosted,
			    const struct tw_tunables *tun)
{
	u32 left = unboosted ? 0 : keys->boost_left;

	return task->vtime - tw_boost_of(task->class, keys->nr_waiting, left, tun) -
	       tw_age(task, task->nr_waiting);
}

/*
 * Whether a queue's keys go by so much else than what holds now that they are made anew: by boosts of more
 * than twice, or less than half, what they are, and 10 ms apart. So boosts of a queue together keep others
 * waiting for twice what tw_boost() says, or for 10 ms of each more; where many come at once to an empty
 * queue, for a whole boost of each until the timer has looked at it.
 */
static inline bool tw_keys_are_stale(const struct tw_keys *keys, u32 nr_waiting, u32 boost_left,
				     const struct tw_tunables *tun)
{
	u64 then = tw_boost_most(keys->nr_waiting, keys->boost_left, tun);
	u64 now = tw_boost_most(nr_waiting, boost_left, tun);
	u64 less = tw_least(then, now), more = then > now ? then : now;

	return more > 2 * less && more - less >= TW_SPAN_LEAST_NS;
}

/* How many wait in the longer of the queues of two tasks, and what both leave of boosts: beside these two
 * tasks are compared. */
static inline u32 tw_longer_queue(const struct tw_task *task, const struct tw_task *of)
{
	return task->nr_waiting > of->nr_waiting ? task->nr_waiting : of->nr_waiting;
}

static inline u32 tw_left_beside(const struct tw_task *task, const struct tw_task *of)
{
	return task->boost_left < of->boost_left ? task->boost_left : of->boost_left;
}

/*
 * How far a task is ahead of another in vtime and boost: before it, and less than 0, if it goes first. Where
 * one of the two has no boost (tw_goes_unboosted()) that of the other does not count either: a senior program
 * is ahead anew in each phase, and would have twice its share.
 */
static inline s64 tw_ahead(const struct tw_task *task, const struct tw_task *of,
			   const struct tw_tunables *tun)
{
	u32 longer = tw_longer_queue(task, of), left = tw_left_beside(task, of);

	return (s64)(tw_position(task, longer, left, tun) - tw_position(of, longer, left, tun));
}

/* Whether one of two waiting tasks goes first. */
static inline bool tw_goes_first(const struct tw_task *task, const struct tw_task *other,
				 const struct tw_tunables *tun)
{
	return tw_ahead(task, other, tun) < 0;
}

/*
 * The vtime of a task that waits behind another last-level cache, for CPUs of this one to go by: a
 * millisecond later (rotate_ns). To go there it has to fill that cache first, and two tasks that are
 * hardly apart would be exchanged again and again.
 */
static inline u64 tw_vtime_across(u64 vtime, const struct tw_tunables *tun)
{
	return vtime + tun->rotate_ns;
}

/*
 * The vtime of `theirs`, the first task of another CPU's queue, for a CPU to go by whose own queue begins
 * with `mine`. Who has to make way waits in the queue of the CPU that it leaves, so each task that comes from
 * another queue lengthens this one by one and shortens that. Tasks hardly apart would be exchanged until some
 * queues are long and some empty, and a long one shrinks boosts (tw_boost()): the senior program's threads
 * there would make way long before its turn is over, and its others wait for them at the next barrier. So a
 * parallel task in a queue that is no longer than the own one waits for this much longer to be taken from
 * there, unless only that is of the senior program. Its own CPU goes by its vtime as it is.
 */
static inline u64 tw_vtime_elsewhere(const struct tw_task *theirs, const struct tw_task *mine)
{
	bool is_serial = theirs->class <= TW_CLASS_SERIAL;
	bool is_longer = theirs->nr_waiting > mine->nr_waiting;

	return is_serial || is_longer || theirs->class < mine->class ? theirs->vtime :
								       theirs->vtime + TW_ELSEWHERE_NS;
}

/* The vtime of a task in another queue, behind the same last-level cache or `across`, for a CPU to go by
 * whose own queue begins with `mine`, or holds nobody (NULL). */
static inline u64 tw_vtime_seen(const struct tw_task *theirs, const struct tw_task *mine, bool across,
				const struct tw_tunables *tun)
{
	u64 vtime = mine ? tw_vtime_elsewhere(theirs, mine) : theirs->vtime;

	return across ? tw_vtime_across(vtime, tun) : vtime;
}

#endif /* TW_ORDER_H */
