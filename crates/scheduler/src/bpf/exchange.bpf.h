/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks of different last-level caches change places (policy/exchange.h), where whoever would be better off
 * elsewhere finds no idle CPU there.
 */
#ifndef TW_EXCHANGE_BPF_H
#define TW_EXCHANGE_BPF_H

#include "home.bpf.h"
#include "pairing.bpf.h"
#include "speed.bpf.h"
#include "spread.bpf.h"

/* When two tasks changed places last, or a home was moved. */
u64 exchanged_at;

/* What runs on a CPU, where its program is at home, and whether it may go to `to`: not while it rests. */
struct candidate {
	u32 need;
	u32 nr_ready;
	struct tw_stay stay;
	bool goes;
	/* It may run on one CPU only. */
	bool is_bound;
};

__noinline bool look_at_candidate(s32 cpu, s32 to, struct candidate *found __arg_nonnull)
{
	struct task_struct *running;
	struct task_ctx *tctx;
	u8 *known;

	*found = (struct candidate){ .stay.here = llc_at(cpu) + 1 };
	bpf_rcu_read_lock();
	running = running_on(cpu);
	tctx = running ? bpf_task_storage_get(&task_ctxs, running, 0, 0) : NULL;
	known = running ? find_home(running, &found->nr_ready) : NULL;
	if (tctx && known) {
		found->stay.home = home_of(known, found->nr_ready);
		found->is_bound = running->nr_cpus_allowed == 1;
		found->goes = class_of(running) != TW_CLASS_KERNEL && may_move(running) &&
			      bpf_cpumask_test_cpu(to, running->cpus_ptr) &&
			      tw_may_change(&tctx->rest, scx_bpf_now());
		if (pairing && tw_spreads(mode))
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

/* What the tasks behind each last-level cache need, its CPUs, and how many of all tasks are at home there. */
static void sum_up(struct tally *tally)
{
	u32 i, nr = nr_spots();
	struct candidate found;
	s32 at = next_cpu(0);

	__builtin_memset(tally->need, 0, sizeof(tally->need));
	__builtin_memset(tally->homes, 0, sizeof(tally->homes));
	bpf_for(i, 0, nr) {
		s32 cpu = walk_online(&at);

		tally->homes[llc_at(cpu)].nr_cpus++;
		if (!look_at_candidate(cpu, cpu, &found))
			continue;
		tally->need[llc_at(cpu)] += found.need;
		if (tw_counts_at_home(&found.stay, found.is_bound))
			tally->homes[(found.stay.home - 1) & (TW_DOMAINS - 1)].nr_at_home++;
	}
}

/* Whether the program of a task that is away from home is to be at home here. */
static bool moves_home(const struct candidate *own, const struct tally *tally)
{
	const struct tw_llc *home = &tally->homes[(own->stay.home - 1) & (TW_DOMAINS - 1)];
	const struct tw_llc *here = &tally->homes[(own->stay.here - 1) & (TW_DOMAINS - 1)];

	return own->stay.home && tw_moves_home(home, here, own->nr_ready, own->is_bound);
}

static u64 gain_of(const struct candidate *own, const struct candidate *other, const struct tally *tally)
{
	struct tw_pair pair = {
		.own_need = own->need,
		.other_need = other->need,
		.own_sum = tally->need[(own->stay.here - 1) & (TW_DOMAINS - 1)],
		.other_sum = tally->need[(other->stay.here - 1) & (TW_DOMAINS - 1)],
	};

	return tw_exchange_gain(&own->stay, &other->stay, &pair);
}

/* The CPU behind another cache with whose task an exchange gains most, or -1. */
static s32 find_partner(const struct task_struct *p, s32 cpu, const struct candidate *own,
			const struct tally *tally)
{
	u32 i, nr = nr_spots();
	s32 best = -1, at = cpu;
	u64 most = 0;

	bpf_for(i, 0, nr) {
		s32 other = walk_online(&at);
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
 * A CPU keeps its task. If that would be better off behind another cache, its program is at home here from
 * now on, or the CPU of one that would not be worse off here is asked for an exchange (speed.bpf.h). Of
 * several CPUs that look at once one acts.
 */
static void exchange(struct cpu_ctx *cctx, s32 cpu, struct task_struct *p, u64 now)
{
	u64 last = exchanged_at;
	struct cpu_ctx *there = NULL;
	struct candidate own;
	struct tally *tally;
	u32 zero = 0, nr_ready;
	s32 other = -1;
	u8 *home;

	if (fault == TW_FAULT_ALOOF ||
	    !tw_looks_for_exchange(nr_online, tasks_wait, now - cctx->exchange_looked_at,
				   since_ns(last, now)))
		return;
	cctx->exchange_looked_at = now;
	tally = bpf_map_lookup_elem(&tallies, &zero);
	home = find_home(p, &nr_ready);
	if (!tally || !home || !look_at_candidate(cpu, cpu, &own) || !own.goes ||
	    !tw_may_gain(&own.stay, own.need))
		return;
	sum_up(tally);
	if (!moves_home(&own, tally)) {
		other = find_partner(p, cpu, &own, tally);
		there = cpu_ctx_of(other);
		if (other < 0 || !there)
			return;
	}
	if (__sync_val_compare_and_swap(&exchanged_at, last, now) != last)
		return;
	note_change(cpu, now);
	if (!there) {
		*home = own.stay.here;
		count(cctx, TW_STAT_HOMES_MOVED);
		return;
	}
	note_change(other, now);
	there->called_to = cpu + 1;
	count(cctx, TW_STAT_EXCHANGED);
	scx_bpf_kick_cpu(other, SCX_KICK_PREEMPT);
}

#endif /* TW_EXCHANGE_BPF_H */
