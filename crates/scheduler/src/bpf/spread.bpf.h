/* SPDX-License-Identifier: GPL-2.0-only */
/* Idle CPUs by what they share with those that are busy (policy/spread.h), where a mode was asked for. */
#ifndef TW_SPREAD_BPF_H
#define TW_SPREAD_BPF_H

#include "state.bpf.h"
#include "smt.bpf.h"

/* Whether a mode was asked for, and which it is now. */
const volatile bool has_mode = false;
u32 mode;

/* The last-level cache and the package of each CPU, and how many cores each cache has. */
const volatile u8 llc_of[TW_MAX_CPUS];
const volatile u8 package_of[TW_MAX_CPUS];
const volatile u16 llc_cores[TW_DOMAINS];

/* The last-level cache of each program, plus one: that of the first thread of it that was ready. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8);
} homes SEC(".maps");

/* How many CPUs are busy, in each last-level cache and each package, and the best of the idle ones. */
struct tally {
	u32 llc[TW_DOMAINS];
	u32 package[TW_DOMAINS];
	/*
	 * No variables, because the verifier would follow the least rank through the loop, one less each time
	 * round.
	 */
	u32 best_rank;
	s32 best;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tally);
} tallies SEC(".maps");

static u32 llc_at(s32 cpu)
{
	return llc_of[cpu & (TW_MAX_CPUS - 1)] & (TW_DOMAINS - 1);
}

static u32 package_at(s32 cpu)
{
	return package_of[cpu & (TW_MAX_CPUS - 1)] & (TW_DOMAINS - 1);
}

static u32 nr_spots(void)
{
	return nr_cpus < TW_IDLE_SCAN ? nr_cpus : TW_IDLE_SCAN;
}

static void count_busy(struct tally *tally, s32 from, const struct cpumask *idle)
{
	u32 i, nr = nr_spots();

	__builtin_memset(tally, 0, sizeof(*tally));
	bpf_for(i, 0, nr) {
		s32 cpu = (from + i) % nr_cpus;

		if (bpf_cpumask_test_cpu(cpu, idle))
			continue;
		tally->llc[llc_at(cpu)]++;
		tally->package[package_at(cpu)]++;
	}
}

/* Finds the best of the idle CPUs for a task that ran on `prev` and whose program is at `home`, or -1. */
static void find_spot(const struct task_struct *p, s32 prev, u32 home, const struct cpumask *idle,
		      struct tally *tally)
{
	u32 i, nr = nr_spots();

	tally->best_rank = TW_SEAT_NONE;
	tally->best = -1;
	bpf_for(i, 0, nr) {
		s32 cpu = (prev + i) % nr_cpus;
		struct tw_spot spot = {};
		u32 rank;

		if (!bpf_cpumask_test_cpu(cpu, idle) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		spot.seat = seat_of(p, cpu, prev, idle);
		spot.home = home == llc_at(cpu) + 1;
		spot.nr_busy_llc = tally->llc[llc_at(cpu)];
		spot.nr_busy_package = tally->package[package_at(cpu)];
		rank = tw_spot_rank(&spot, mode);
		if (rank >= tally->best_rank)
			continue;
		tally->best = cpu;
		tally->best_rank = rank;
	}
}

/* An idle CPU as the mode wants it, claimed, or -1. */
static s32 claim_spot(const struct task_struct *p, s32 prev)
{
	u32 zero = 0, tgid = p->tgid, nr_ready = nr_ready_of(tgid), home = 0;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
	u8 *known = bpf_map_lookup_elem(&homes, &tgid);
	const struct cpumask *idle;
	s32 best;

	if (!tally || !known)
		return -1;
	/* It is not counted yet. */
	if (nr_ready && *known && tw_fits_llc(nr_ready + 1, llc_cores[(*known - 1) & (TW_DOMAINS - 1)]))
		home = *known;
	idle = scx_bpf_get_idle_cpumask();
	count_busy(tally, prev, idle);
	find_spot(p, prev, home, idle, tally);
	scx_bpf_put_idle_cpumask(idle);
	best = tally->best;
	if (best < 0 || !scx_bpf_test_and_clear_cpu_idle(best))
		return -1;
	if (!nr_ready)
		*known = llc_at(best) + 1;
	return best;
}

#endif /* TW_SPREAD_BPF_H */
