/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How far ahead of its vtime is a task placed? Serial tasks, and those of the senior parallel program, are
 * boosted: less beside many that wait, not at all where serial tasks take all CPUs. Boosts are bounded, so
 * whoever waits has its turn.
 */
#ifndef TW_BOOST_H
#define TW_BOOST_H

#include "task.h"

/* All of a boost (tw_boost_left()). */
#define TW_BOOST_WHOLE 65536

/* Over how long ready serial tasks are counted (tw_serial_ready()): 16 ms. */
#define TW_CROWD_PERIOD_NS (16ULL * 1000 * 1000)

/* For how long it counts how many they were: 128 ms. */
#define TW_CROWD_RECENTLY_NS (8 * TW_CROWD_PERIOD_NS)

/* For how long it counts that a parallel task was ready that is bound to a CPU: 1 s. */
#define TW_BOUND_RECENTLY_NS (1000ULL * 1000 * 1000)

/*
 * For how long a serial task counts as ready that ran for so long since it was last charged, and waited. Of
 * those that may run on one CPU only each waits for all the others; so many that all are ready are few beside
 * the CPUs of a machine.
 */
static inline u64 tw_serial_ready_ns(u64 ran_ns, u64 waited_ns)
{
	u64 most_ns = ran_ns < TW_SLICE_ALONE_NS ? ran_ns : TW_SLICE_ALONE_NS;

	return most_ns + (waited_ns < 2 * most_ns ? waited_ns : 2 * most_ns);
}

/*
 * How many serial tasks are ready, in 256ths: so many as there were, after they were ready for so long in
 * sum. What was long ago counts for nothing.
 */
static inline u32 tw_serial_ready(u32 before, u64 ready_ns, u64 in_ns)
{
	u64 most = 1ULL << 24, now = most;

	if (ready_ns < 1ULL << 48)
		now = tw_least((ready_ns << 8) / (in_ns ? in_ns : 1), most);
	return in_ns > TW_CROWD_RECENTLY_NS ? now : (3 * (u64)before + now) / 4;
}

/*
 * What is left of boosts, in 65536ths, beside so many ready serial tasks, in 256ths. As long as these leave
 * half of the CPUs to others it is worth most that they go first. Where they take all CPUs it is worth
 * nothing: no CPU runs out of work, and a parallel program whose threads meet every few milliseconds would
 * wait for a boost in each of its phases.
 */
static inline u32 tw_boost_left(u32 serial_ready, u32 nr_cpus)
{
	u64 all = (u64)nr_cpus << 8, half = all / 2;

	if (serial_ready <= half)
		return TW_BOOST_WHOLE;
	return serial_ready < all ? (all - serial_ready) * TW_BOOST_WHOLE / (all - half) : 0;
}

/*
 * Whether a task of a program with so few threads that it is always serial, bound to a CPU, goes by its vtime
 * there, without a boost: where so long ago a parallel task was ready that is bound there too. Neither can go
 * elsewhere, and no thread of its program waits for this one on another CPU, so whoever goes first, none runs
 * out of work. But the parallel program, whose other threads may all wait for that one, would wait for a
 * boost in each of its phases.
 */
static inline bool tw_goes_unboosted(u32 nr_threads, u64 parallel_ago_ns, const struct tw_tunables *tun)
{
	return !tw_is_counted(nr_threads, tun->serial_threshold) && parallel_ago_ns < TW_BOUND_RECENTLY_NS;
}

/*
 * A boost beside so many tasks that wait in a queue. Who goes first matters where CPUs run out of work; with
 * many more tasks than CPUs none does, and boosted tasks only keep the others waiting. So from the third one
 * on boosts shrink: with boost_shares of 4, all of those in a queue together keep others waiting for 2
 * boost_ns at most (nr_waiting times the result, which is largest for 2), however many they are. Beside two
 * it is whole, because two programs with a thread for each CPU leave some queues with two, and one of the
 * senior program's that makes way before its turn is over has all the others wait for it at their next
 * barrier.
 *
 * Two tasks are compared beside the longer of the queues that they come from, or one that is alone on its CPU
 * would go before all that wait elsewhere.
 */
static inline u64 tw_boost(u64 boost_ns, u32 nr_waiting, u32 left, const struct tw_tunables *tun)
{
	u32 nr_others = nr_waiting > 2 ? nr_waiting - 2 : 0;
	u64 shares = tun->boost_shares ? tun->boost_shares : 1, ratio;

	/* Mostly, and without a division. */
	if (!nr_others && left == TW_BOOST_WHOLE)
		return boost_ns;
	ratio = (shares << 16) / (shares + nr_others);
	return ((boost_ns * ratio >> 16) * ratio >> 16) * left >> 16;
}

/* How far ahead of its vtime a task of this class is placed, beside so many that wait. */
static inline u64 tw_boost_of(enum tw_class class, u32 nr_waiting, u32 left, const struct tw_tunables *tun)
{
	switch (class) {
	case TW_CLASS_PARALLEL:
		return 0;
	case TW_CLASS_SENIOR:
		return tw_boost(tun->senior_boost_ns, nr_waiting, left, tun);
	default:
		return tw_boost(tun->serial_boost_ns, nr_waiting, left, tun);
	}
}

/* The largest boost beside so many. */
static inline u64 tw_boost_most(u32 nr_waiting, u32 left, const struct tw_tunables *tun)
{
	u64 boost_ns = tun->serial_boost_ns;

	return tw_boost(boost_ns > tun->senior_boost_ns ? boost_ns : tun->senior_boost_ns, nr_waiting, left,
			tun);
}

#endif /* TW_BOOST_H */
