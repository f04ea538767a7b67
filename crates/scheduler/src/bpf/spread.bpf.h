/* SPDX-License-Identifier: GPL-2.0-only */
/* Idle CPUs by what they share with those that are busy (policy/spread.h), where a mode was asked for. */
#ifndef TW_SPREAD_BPF_H
#define TW_SPREAD_BPF_H

#include "home.bpf.h"
#include "smt.bpf.h"

/* The mode as it is now. */
u32 mode;

/* The package of each CPU, and of each last-level cache. */
const volatile u8 package_of[TW_MAX_CPUS];
const volatile u8 llc_package[TW_DOMAINS];

/* A task that looks for a CPU. */
struct seeker {
	/* Where it ran. */
	s32 prev;
	/* Where its program is at home, plus one, or 0; and how many threads of that are ready. */
	u32 home;
	u32 nr_ready;
	/* It came from another last-level cache of late, or changed places. */
	bool rests;
};

/* How many CPUs are busy, in each last-level cache and each package, and the best of the idle ones. */
struct tally {
	u32 llc[TW_DOMAINS];
	u32 package[TW_DOMAINS];
	/* What the tasks behind a cache need of it; its CPUs, and how many are at home there
	 * (exchange.bpf.h). */
	u64 need[TW_DOMAINS];
	struct tw_llc homes[TW_DOMAINS];
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

static u32 package_at(s32 cpu)
{
	return package_of[cpu & (TW_MAX_CPUS - 1)] & (TW_DOMAINS - 1);
}

static u32 nr_spots(void)
{
	return nr_cpus < TW_IDLE_SCAN ? nr_cpus : TW_IDLE_SCAN;
}

/* Of all CPUs, from this one on, or those after it. */
static void count_busy(struct tally *tally, s32 from, u32 first, const struct cpumask *idle,
		       const struct cpumask *online)
{
	u32 i, nr = nr_spots();

	__builtin_memset(tally->llc, 0, sizeof(tally->llc));
	__builtin_memset(tally->package, 0, sizeof(tally->package));
	bpf_for(i, first, nr) {
		s32 cpu = (from + i) % nr_cpus;

		if (bpf_cpumask_test_cpu(cpu, idle) || !bpf_cpumask_test_cpu(cpu, online))
			continue;
		tally->llc[llc_at(cpu)]++;
		tally->package[package_at(cpu)]++;
	}
}

/* Of what spot_place() says: the task rests, and the CPU is behind another cache. */
#define TW_PLACE_AWAY 0x100

/*
 * The place of a CPU's last-level cache in the order in which a task's program takes them, and whether it is
 * away from `prev` for one that rests. The verifier looks at a function that others may call once, and not
 * for each way through it in each round of a loop.
 */
__noinline u32 spot_place(s32 cpu, s32 prev, u32 home, u32 nr_ready, bool rests)
{
	u32 llc = llc_at(cpu);
	bool same_package = llc_package[(home - 1) & (TW_DOMAINS - 1)] == package_at(cpu);
	u32 spill = tw_spill(home, llc + 1, same_package, nr_ready, cores_of_llc(home - 1));

	return rests && llc != llc_at(prev) ? spill | TW_PLACE_AWAY : spill;
}

/* A CPU as a task sees it. */
static struct tw_spot spot_of(s32 cpu, const struct tw_seat *seat, const struct seeker *seeker,
			      const struct tally *tally)
{
	u32 place = spot_place(cpu, seeker->prev, seeker->home, seeker->nr_ready, seeker->rests);

	return (struct tw_spot){
		.seat = *seat,
		.spill = place & (TW_PLACE_AWAY - 1),
		.away = place / TW_PLACE_AWAY,
		.nr_busy_llc = tally->llc[llc_at(cpu)],
		.nr_busy_package = tally->package[package_at(cpu)],
	};
}

/* Finds the best of the idle CPUs for a task, or -1. */
static void find_spot(const struct task_struct *p, const struct seeker *seeker, const struct cpumask *idle,
		      const struct cpumask *online, struct tally *tally)
{
	s32 prev = seeker->prev;
	u32 i, nr = nr_spots();

	tally->best_rank = TW_SEAT_NONE;
	tally->best = -1;
	bpf_for(i, 0, nr) {
		s32 cpu = (prev + i) % nr_cpus;
		struct tw_seat seat;
		struct tw_spot spot;
		u32 rank;

		if (!bpf_cpumask_test_cpu(cpu, idle) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
		    !bpf_cpumask_test_cpu(cpu, online))
			continue;
		seat = seat_of(p, cpu, prev, idle, online);
		spot = spot_of(cpu, &seat, seeker, tally);
		rank = tw_spot_rank(&spot, mode);
		if (rank >= tally->best_rank)
			continue;
		tally->best = cpu;
		tally->best_rank = rank;
	}
}

/* Claims the CPU that was found, and has the task rest if it comes from another cache; or -1. */
static s32 claim_best(struct task_ctx *tctx, const struct seeker *seeker, const struct tally *tally)
{
	if (tally->best < 0 || !scx_bpf_test_and_clear_cpu_idle(tally->best))
		return -1;
	if (llc_at(tally->best) != llc_at(seeker->prev))
		tw_note_change(&tctx->rest, scx_bpf_now());
	return tally->best;
}

/* An idle CPU as the mode wants it for a task that wakes up, claimed, or -1. */
static s32 claim_spot(struct task_struct *p, s32 prev)
{
	u32 zero = 0, nr_others;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	u8 *known = find_home(p, &nr_others);
	const struct cpumask *idle, *online;
	struct seeker seeker;
	s32 best;

	if (!tally || !tctx || !known || none_is_idle())
		return -1;
	/* It is counted already, if its program is. */
	if (nr_others && is_counted(p))
		nr_others--;
	seeker = (struct seeker){
		.prev = prev,
		.home = *known,
		.nr_ready = nr_others + 1,
		.rests = !tw_may_change(&tctx->rest, scx_bpf_now()),
	};
	idle = scx_bpf_get_idle_cpumask();
	online = scx_bpf_get_online_cpumask();
	count_busy(tally, prev, 0, idle, online);
	find_spot(p, &seeker, idle, online, tally);
	scx_bpf_put_cpumask(online);
	scx_bpf_put_idle_cpumask(idle);
	best = claim_best(tctx, &seeker, tally);
	if (best >= 0 && tw_founds_home(nr_others))
		*known = llc_at(best) + 1;
	return best;
}

/* An idle CPU for which a running task leaves its own, claimed, or -1. */
static s32 find_better_spot(struct task_struct *p, s32 cpu)
{
	u32 zero = 0, nr_ready, own_rank;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	u8 *known = find_home(p, &nr_ready);
	const struct cpumask *idle, *online;
	struct seeker seeker;
	struct tw_seat seat;
	struct tw_spot own;
	s32 best;

	if (!tally || !tctx || !known || none_is_idle())
		return -1;
	seeker = (struct seeker){
		.prev = cpu,
		.home = *known,
		.nr_ready = nr_ready,
		.rests = !tw_may_change(&tctx->rest, scx_bpf_now()),
	};
	idle = scx_bpf_get_idle_cpumask();
	online = scx_bpf_get_online_cpumask();
	/* Not itself, which would make all others of its package look busier, or fuller, than its own. */
	count_busy(tally, cpu, 1, idle, online);
	seat = seat_of(p, cpu, cpu, idle, online);
	own = spot_of(cpu, &seat, &seeker, tally);
	own_rank = tw_spot_rank(&own, mode);
	find_spot(p, &seeker, idle, online, tally);
	scx_bpf_put_cpumask(online);
	scx_bpf_put_idle_cpumask(idle);
	if (!tw_leaves_spot(own_rank, tally->best_rank))
		return -1;
	best = claim_best(tctx, &seeker, tally);
	if (best >= 0 && tw_founds_home(nr_ready ? nr_ready - 1 : 0))
		*known = llc_at(best) + 1;
	return best;
}

#endif /* TW_SPREAD_BPF_H */
