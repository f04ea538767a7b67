/* SPDX-License-Identifier: GPL-2.0-only */
/* What tasks need of a last-level cache (policy/pairing.h). */
#ifndef TW_PAIRING_BPF_H
#define TW_PAIRING_BPF_H

#include "count.bpf.h"

/* What tells how much a task needs; and the size of a last-level cache, all of which are taken to be alike.
 */
const volatile u32 pairing = TW_PAIRING_OFF;
const volatile u64 llc_bytes = 0;
/* Lines of the cache that one of what is counted as misses stands for. */
const volatile u32 lines_per_miss = 1;

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
		return tw_need_of_resident(resident_bytes(p), llc_bytes, nr_ready_beside(p));
	tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	return tctx ? tctx->need.need : 0;
}

#endif /* TW_PAIRING_BPF_H */
