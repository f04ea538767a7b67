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

/*
 * A look at idle CPUs for a task: how many are busy in each last-level cache and each package, and the best
 * of the others. It is no variable, as stacks are short (CONTRIBUTING.md), and the verifier would follow the
 * least rank through the loop, one less each time round.
 */
struct tally {
	u32 llc[TW_DOMAINS];
	u32 package[TW_DOMAINS];
	/* What the tasks behind a cache need of it; its CPUs, and how many are at home there
	 * (exchange.bpf.h). */
	u64 need[TW_DOMAINS];
	struct tw_llc homes[TW_DOMAINS];
	struct seeker seeker;
	/* The CPU at hand. */
	struct tw_spot spot;
	/* The rank of the seeker's own CPU, if it runs; the least of the idle ones, and which that is, or -1.
	 */
	u32 own_rank;
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
	return online_at_most(TW_IDLE_SCAN);
}

/* Of all CPUs but one. */
static void count_busy(struct tally *tally, s32 without, const struct cpumask *idle)
{
	u32 i, nr = nr_spots();
	s32 at = next_cpu(tally->seeker.prev);

	__builtin_memset(tally->llc, 0, sizeof(tally->llc));
	__builtin_memset(tally->package, 0, sizeof(tally->package));
	bpf_for(i, 0, nr) {
		s32 cpu = walk_online(&at);

		if (cpu == without || bpf_cpumask_test_cpu(cpu, idle))
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

/* The rank of a CPU as the seeker sees it. */
static u32 rank_spot(const struct task_struct *p, s32 cpu, const struct cpumask *idle,
		     const struct cpumask *online, struct tally *tally)
{
	const struct seeker *seeker = &tally->seeker;
	struct tw_spot *spot = &tally->spot;
	u32 place = spot_place(cpu, seeker->prev, seeker->home, seeker->nr_ready, seeker->rests);

	spot->seat = seat_of(p, cpu, seeker->prev, idle, online);
	spot->spill = place & (TW_PLACE_AWAY - 1);
	spot->away = place / TW_PLACE_AWAY;
	spot->nr_busy_llc = tally->llc[llc_at(cpu)];
	spot->nr_busy_package = tally->package[package_at(cpu)];
	return tw_spot_rank(spot, mode);
}

/* Finds the best of the idle CPUs. */
static void find_spot(const struct task_struct *p, const struct cpumask *idle, const struct cpumask *online,
		      struct tally *tally)
{
	s32 at = tally->seeker.prev;
	u32 i, nr = nr_spots();

	tally->best_rank = TW_SEAT_NONE;
	tally->best = -1;
	bpf_for(i, 0, nr) {
		s32 cpu = walk_online(&at);
		u32 rank;

		if (!bpf_cpumask_test_cpu(cpu, idle) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
		    !bpf_cpumask_test_cpu(cpu, online))
			continue;
		rank = rank_spot(p, cpu, idle, online, tally);
		if (rank >= tally->best_rank)
			continue;
		tally->best = cpu;
		tally->best_rank = rank;
	}
}

/* Looks at idle CPUs for a task that wakes up, or `runs`. That one itself is not counted, which would make
 * all others of its package look busier, or fuller, than its own. */
static void look_at_spots(const struct task_struct *p, bool runs, struct tally *tally)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	const struct cpumask *online = scx_bpf_get_online_cpumask();

	count_busy(tally, runs ? tally->seeker.prev : -1, idle);
	tally->own_rank = runs ? rank_spot(p, tally->seeker.prev, idle, online, tally) : TW_SEAT_NONE;
	find_spot(p, idle, online, tally);
	scx_bpf_put_cpumask(online);
	scx_bpf_put_idle_cpumask(idle);
}

/*
 * Claims the CPU that was found, or -1. A task that comes from another cache rests, and where so few others
 * of its program are ready that is at home there from then on (`known`).
 */
static s32 claim_best(struct task_ctx *tctx, u8 *known, u32 nr_others, const struct tally *tally)
{
	s32 best = tally->best;

	if (best < 0 || !scx_bpf_test_and_clear_cpu_idle(best))
		return -1;
	if (llc_at(best) != llc_at(tally->seeker.prev))
		tw_note_change(&tctx->rest, scx_bpf_now());
	if (tw_founds_home(nr_others))
		*known = llc_at(best) + 1;
	return best;
}

/*
 * An idle CPU as the mode wants it for a task, claimed, or -1: one that wakes up takes the best, one that
 * `runs` leaves its own only for a better one.
 */
__noinline s32 claim_spot(struct task_struct *p __arg_trusted, s32 prev, bool runs)
{
	u32 zero = 0, nr_ready, nr_others;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	u8 *known = find_home(p, &nr_ready);

	if (!tally || !tctx || !known || none_is_idle())
		return -1;
	/* It is counted already, if its program is. */
	nr_others = nr_ready && (runs || is_counted(p)) ? nr_ready - 1 : nr_ready;
	tally->seeker = (struct seeker){
		.prev = prev,
		.home = *known,
		.nr_ready = runs ? nr_ready : nr_others + 1,
		.rests = !tw_may_change(&tctx->rest, scx_bpf_now()),
	};
	look_at_spots(p, runs, tally);
	if (runs && !tw_leaves_spot(class_of(p), tally->own_rank, tally->best_rank))
		return -1;
	return claim_best(tctx, known, nr_others, tally);
}

#endif /* TW_SPREAD_BPF_H */
