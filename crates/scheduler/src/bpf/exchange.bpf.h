/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where all CPUs are busy, tasks of different last-level caches change places: to come to where their
 * programs are at home (policy/home.h), or to even out what is needed of the caches (policy/pairing.h).
 */
#ifndef TW_EXCHANGE_BPF_H
#define TW_EXCHANGE_BPF_H

#include "state.bpf.h"
#include "home.bpf.h"
#include "pairing.bpf.h"
#include "speed.bpf.h"
#include "spread.bpf.h"

/* When two tasks changed places last. */
u64 exchanged_at;

/* What runs on a CPU, where its program is at home, and whether it may go to `to`: not while it rests. */
struct candidate {
	u32 need;
	struct tw_stay stay;
	bool goes;
};

__noinline bool look_at_candidate(s32 cpu, s32 to, struct candidate *found __arg_nonnull)
{
	struct task_struct *running;
	struct task_ctx *tctx;
	u32 nr_ready;
	u8 *known;

	found->need = 0;
	found->stay = (struct tw_stay){ .here = llc_at(cpu) + 1 };
	found->goes = false;
	bpf_rcu_read_lock();
	running = running_on(cpu);
	tctx = running ? bpf_task_storage_get(&task_ctxs, running, 0, 0) : NULL;
	known = running ? find_home(running, &nr_ready) : NULL;
	if (tctx && known) {
		found->stay.home = home_of(known, nr_ready);
		found->goes = bpf_cpumask_test_cpu(to, running->cpus_ptr) &&
			      tw_may_change(&tctx->rest, scx_bpf_now());
		/* Who fills a package does not spread over another. */
		if (pairing && mode == TW_MODE_PERFORMANCE)
			found->need = need_of(running);
	}
	bpf_rcu_read_unlock();
	return tctx && known;
}

/* What runs on a CPU is to change places. If that is another task by now, it rests in its stead. */
__noinline int note_change(s32 cpu, u64 now)
{
	struct task_struct *running;
	struct task_ctx *tctx;

	bpf_rcu_read_lock();
	running = running_on(cpu);
	tctx = running ? bpf_task_storage_get(&task_ctxs, running, 0, 0) : NULL;
	if (tctx)
		tw_note_change(&tctx->rest, now);
	bpf_rcu_read_unlock();
	return 0;
}

/* What the tasks behind each last-level cache need, and how many of all are at home there. */
static void sum_up(struct tally *tally)
{
	u32 i, nr = nr_spots();
	struct candidate found;

	__builtin_memset(tally->need, 0, sizeof(tally->need));
	__builtin_memset(tally->at_home, 0, sizeof(tally->at_home));
	bpf_for(i, 0, nr) {
		if (!look_at_candidate(i, i, &found))
			continue;
		tally->need[llc_at(i)] += found.need;
		if (found.stay.home)
			tally->at_home[(found.stay.home - 1) & (TW_DOMAINS - 1)]++;
	}
}

static struct tw_llc look_at_llc(u32 llc, const struct tally *tally)
{
	return (struct tw_llc){ cores_of_llc(llc), tally->at_home[llc & (TW_DOMAINS - 1)] };
}

/* The program of a task that is away from home may be at home here from now on. */
static bool move_home(struct task_struct *p, const struct candidate *own, const struct tally *tally)
{
	struct tw_llc home = look_at_llc(own->stay.home - 1, tally);
	struct tw_llc here = look_at_llc(own->stay.here - 1, tally);
	u32 nr_ready;
	u8 *known = find_home(p, &nr_ready);

	if (!known || !tw_moves_home(&home, &here, nr_ready))
		return false;
	*known = own->stay.here;
	return true;
}

/* What an exchange of two tasks gains: tasks that come home, for one that is away; or else by pairing. */
static u64 gain_of(const struct candidate *own, const struct candidate *other, const struct tally *tally)
{
	struct tw_pair pair = {
		.own_need = own->need,
		.other_need = other->need,
		.own_sum = tally->need[(own->stay.here - 1) & (TW_DOMAINS - 1)],
		.other_sum = tally->need[(other->stay.here - 1) & (TW_DOMAINS - 1)],
	};

	if (own->stay.home)
		return tw_home_gain(&own->stay, &other->stay);
	return other->stay.home ? 0 : tw_pairing_gain(&pair);
}

/* The CPU behind another cache with whose task an exchange gains most, or -1. */
static s32 find_partner(const struct task_struct *p, s32 cpu, const struct candidate *own,
			const struct tally *tally)
{
	u32 i, nr = nr_spots();
	u64 most = 0;
	s32 best = -1;

	bpf_for(i, 0, nr) {
		s32 other = (cpu + i) % nr_cpus;
		struct candidate found;
		u64 gain;

		if (llc_at(other) == llc_at(cpu) || !bpf_cpumask_test_cpu(other, p->cpus_ptr) ||
		    !look_at_candidate(other, cpu, &found) || !found.goes)
			continue;
		gain = gain_of(own, &found, tally);
		if (gain <= most)
			continue;
		most = gain;
		best = other;
	}
	return best;
}

/*
 * A CPU keeps its task. If that would be better off behind another cache, in place of one that would not be
 * worse off here, this one's CPU is asked for the exchange (speed.bpf.h). Not while tasks wait: who runs is
 * another one soon, and that changes the sums. Nor with more CPUs than a look takes in, when sums and
 * candidates would be those of different CPUs.
 */
static void exchange(struct cpu_ctx *cctx, s32 cpu, struct task_struct *p)
{
	u64 now = scx_bpf_now(), last = exchanged_at;
	struct candidate own;
	struct cpu_ctx *there;
	struct tally *tally;
	u32 zero = 0;
	s32 other;

	if (!has_homes || fault == TW_FAULT_ALOOF || nr_cpus > TW_IDLE_SCAN || tasks_wait ||
	    now - cctx->looked_at < TW_EXCHANGE_EVERY_NS || now - last < TW_EXCHANGE_GAP_NS)
		return;
	cctx->looked_at = now;
	tally = bpf_map_lookup_elem(&tallies, &zero);
	if (!tally || !look_at_candidate(cpu, cpu, &own) || !own.goes || own.stay.home == own.stay.here ||
	    (!own.stay.home && !own.need))
		return;
	sum_up(tally);
	if (own.stay.home && move_home(p, &own, tally))
		return;
	other = find_partner(p, cpu, &own, tally);
	there = cpu_ctx_of(other);
	if (other < 0 || !there || __sync_val_compare_and_swap(&exchanged_at, last, now) != last)
		return;
	there->called_to = cpu + 1;
	note_change(cpu, now);
	note_change(other, now);
	count(cctx, TW_STAT_EXCHANGED);
	scx_bpf_kick_cpu(other, SCX_KICK_PREEMPT);
}

#endif /* TW_EXCHANGE_BPF_H */
