/* SPDX-License-Identifier: GPL-2.0-only */
/* Tasks that need much of a last-level cache beside those that need little (policy/pairing.h). */
#ifndef TW_PAIRING_BPF_H
#define TW_PAIRING_BPF_H

#include "state.bpf.h"
#include "speed.bpf.h"
#include "spread.bpf.h"

/* What tells how much a task needs; and the size of a last-level cache, all of which are taken to be alike.
 */
const volatile u32 pairing = TW_PAIRING_OFF;
const volatile u64 llc_bytes = 0;
/* Lines of the cache that one of what is counted as misses stands for. */
const volatile u32 lines_per_miss = 1;

/* When two tasks changed places last. */
u64 paired_at;

/* The counters of each CPU, which the loader opens where tasks are paired by them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, u32);
	__type(value, u32);
} instruction_counters SEC(".maps"), miss_counters SEC(".maps");

/* What they said last. */
struct readings {
	struct tw_reading instructions;
	struct tw_reading misses;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct readings);
} last_readings SEC(".maps");

/* What counters of this CPU counted since they were last read, if they did all the time. */
static bool read_counters(struct tw_counts *counts)
{
	struct bpf_perf_event_value instructions, misses;
	struct readings *last, now;
	u32 zero = 0;
	bool whole;

	last = bpf_map_lookup_elem(&last_readings, &zero);
	if (!last ||
	    bpf_perf_event_read_value(&instruction_counters, BPF_F_CURRENT_CPU, &instructions,
				      sizeof(instructions)) ||
	    bpf_perf_event_read_value(&miss_counters, BPF_F_CURRENT_CPU, &misses, sizeof(misses)))
		return false;
	now.instructions =
		(struct tw_reading){ instructions.counter, instructions.enabled, instructions.running };
	now.misses = (struct tw_reading){ misses.counter, misses.enabled, misses.running };
	whole = tw_is_whole(&last->instructions, &now.instructions) &&
		tw_is_whole(&last->misses, &now.misses);
	counts->instructions = now.instructions.counter - last->instructions.counter;
	counts->misses = (now.misses.counter - last->misses.counter) * lines_per_miss;
	*last = now;
	return whole;
}

/* include/linux/mm_types_task.h */
#define MM_FILEPAGES  0
#define MM_ANONPAGES  1
#define MM_SHMEMPAGES 3

/* How many bits of an address are within a page. */
const volatile u32 page_shift = 12;

/* The resident set of a task's program, to within what CPUs have not added up yet. */
static u64 resident_bytes(const struct task_struct *p)
{
	struct mm_struct *mm = p->mm;
	s64 pages;

	if (!mm)
		return 0;
	pages = mm->rss_stat[MM_FILEPAGES].count + mm->rss_stat[MM_ANONPAGES].count +
		mm->rss_stat[MM_SHMEMPAGES].count;
	return pages > 0 ? (u64)pages << page_shift : 0;
}

static u32 need_of(struct task_struct *p)
{
	struct task_ctx *tctx;

	if (pairing == TW_PAIRING_RESIDENT)
		return tw_need_of_resident(resident_bytes(p), llc_bytes, nr_ready_of(p->tgid));
	tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	return tctx ? tctx->need.need : 0;
}

/*
 * Whether a task may change places with one of this CPU: not where its program is at home, nor while it rests
 * from the last time.
 */
static bool may_pair(struct task_struct *p, s32 to)
{
	u32 nr_ready;
	u8 *known = find_home(p, &nr_ready);
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	return known && tctx && !home_of(known, nr_ready) && bpf_cpumask_test_cpu(to, p->cpus_ptr) &&
	       tw_may_change(&tctx->rest, scx_bpf_now());
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

/* What runs on a CPU needs so much, and may go to `to`, or not. */
struct candidate {
	u32 need;
	bool goes;
};

__noinline bool look_at_candidate(s32 cpu, s32 to, struct candidate *found __arg_nonnull)
{
	struct task_struct *running;

	found->need = 0;
	found->goes = false;
	bpf_rcu_read_lock();
	running = running_on(cpu);
	if (running) {
		found->need = need_of(running);
		found->goes = may_pair(running, to);
	}
	bpf_rcu_read_unlock();
	return running;
}

/* What the tasks behind each last-level cache need. */
static void sum_needs(struct tally *tally)
{
	u32 i, nr = nr_spots();
	struct candidate found;

	__builtin_memset(tally->need, 0, sizeof(tally->need));
	bpf_for(i, 0, nr) {
		if (look_at_candidate(i, i, &found))
			tally->need[llc_at(i)] += found.need;
	}
}

/* The CPU behind another cache with whose task an exchange gains most, or -1. */
static s32 find_partner(const struct task_struct *p, s32 cpu, u32 need, const struct tally *tally)
{
	u32 i, nr = nr_spots();
	u64 most = 0;
	s32 best = -1;

	bpf_for(i, 0, nr) {
		s32 other = (cpu + i) % nr_cpus;
		struct candidate found;
		struct tw_pair pair;
		u64 gain;

		if (llc_at(other) == llc_at(cpu) || !bpf_cpumask_test_cpu(other, p->cpus_ptr) ||
		    !look_at_candidate(other, cpu, &found) || !found.goes)
			continue;
		pair.own_need = need;
		pair.other_need = found.need;
		pair.own_sum = tally->need[llc_at(cpu)];
		pair.other_sum = tally->need[llc_at(other)];
		gain = tw_pairing_gain(&pair);
		if (gain <= most)
			continue;
		most = gain;
		best = other;
	}
	return best;
}

/*
 * A CPU keeps its task. If that would be better off behind another cache, in place of one that needs less,
 * this one's CPU is asked for the exchange (speed.bpf.h). Not while tasks wait: who runs is another one soon,
 * and that changes the sums. Nor with more CPUs than a look takes in, when sums and candidates would be those
 * of different CPUs.
 */
static void pair(struct cpu_ctx *cctx, s32 cpu, struct task_struct *p)
{
	u64 now = scx_bpf_now(), last = paired_at;
	u32 zero = 0, need;
	struct tally *tally;
	struct cpu_ctx *there;
	s32 other;

	if (!pairing || nr_cpus > TW_IDLE_SCAN || mode != TW_MODE_PERFORMANCE || tasks_wait ||
	    now - cctx->paired_at < TW_PAIRING_EVERY_NS || now - last < TW_PAIRING_GAP_NS)
		return;
	cctx->paired_at = now;
	need = need_of(p);
	tally = bpf_map_lookup_elem(&tallies, &zero);
	if (!need || !tally || !may_pair(p, cpu))
		return;
	sum_needs(tally);
	other = find_partner(p, cpu, need, tally);
	there = cpu_ctx_of(other);
	if (other < 0 || !there || __sync_val_compare_and_swap(&paired_at, last, now) != last)
		return;
	there->called_to = cpu + 1;
	note_change(cpu, now);
	note_change(other, now);
	count(cctx, TW_STAT_PAIRED);
	scx_bpf_kick_cpu(other, SCX_KICK_PREEMPT);
}

#endif /* TW_PAIRING_BPF_H */
