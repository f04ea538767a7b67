/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Programs that run one after the other (policy/alternation.h), where that was asked for: who they are, what
 * they got done, and a queue for each in which its tasks wait while it is another's turn. A timer gives turns
 * and takes them. Without the option the verifier removes all of it.
 */
#ifndef TW_ALTERNATION_BPF_H
#define TW_ALTERNATION_BPF_H

#include "pairing.bpf.h"
#include "rotation.bpf.h"

/* The queue of the first program; those of CPUs come before. */
#define TW_HELD_QUEUE TW_MAX_CPUS

/* The programs, from when they were found worth a trial until they are gone; 0: nobody. */
struct alternating {
	u32 tgids[TW_ALTERNATION_PROGRAMS];
	/* When each was last seen to have a ready thread. */
	u64 ready_ns[TW_ALTERNATION_PROGRAMS];
	u64 resident[TW_ALTERNATION_PROGRAMS];
	/* Those of whom it is not the turn, and the others 0. */
	u32 held[TW_ALTERNATION_PROGRAMS];
	/* The timer's, as is adding programs: behind which CPU its next look begins, and the policy's. */
	s32 last_cpu;
	struct tw_alternation state;
	struct tw_alternation_look look;
};

struct alternating alternating;

struct alternation_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct alternation_timer);
} alternation_timers SEC(".maps");

/* What was done on each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tw_work);
} works SEC(".maps");

/* Where a tgid stands among these, or -1. */
static s32 find_tgid(const u32 *tgids, u32 tgid)
{
	s32 slot;

	for (slot = 0; slot < TW_ALTERNATION_PROGRAMS; slot++) {
		if (tgids[slot] == tgid)
			return slot;
	}
	return -1;
}

/* The program of a task that has to wait for its program's turn, or -1. One that exits does not. */
static s32 held_as(const struct task_struct *p)
{
	if (!alternate || (p->flags & PF_EXITING))
		return -1;
	return find_tgid(alternating.held, p->tgid);
}

/* A task ran while counters counted this, or did not count all the time. */
static void note_work(const struct task_struct *p, const struct tw_counts *counts, bool whole)
{
	u32 zero = 0;
	struct tw_work *work = alternate == TW_ALTERNATE_COUNTERS ? bpf_map_lookup_elem(&works, &zero) : NULL;
	s32 slot;

	if (!work)
		return;
	work->nr_samples++;
	if (!whole) {
		work->nr_lost++;
		return;
	}
	work->machine += counts->instructions;
	slot = find_tgid(alternating.tgids, p->tgid);
	if (slot >= 0)
		work->of[slot & (TW_ALTERNATION_PROGRAMS - 1)] += counts->instructions;
}

/*
 * The kernel accounts what runs on this CPU, at ticks and when it is switched away from: so are its counters.
 * Struct_ops may not read them, so this is a program of its own, which the loader leaves out where there are
 * none.
 */
SEC("tp_btf/sched_stat_runtime")
int BPF_PROG(threadwise_note_runtime, struct task_struct *p, u64 runtime)
{
	struct tw_counts counts = {};
	struct task_ctx *tctx;
	bool whole;

	/* A waker accounts what runs on the other CPU, whose counters are not these. */
	if (p->pid != bpf_get_current_task_btf()->pid)
		return 0;
	whole = read_counters(&counts);
	note_work(p, &counts, whole);
	tctx = whole ? bpf_task_storage_get(&task_ctxs, p, 0, 0) : NULL;
	if (tctx)
		tw_note_counts(&tctx->need, &counts);
	return 0;
}

/* Whether a program is worth a trial, or by its resident set may be worth turns. */
static bool is_worth_turns(struct task_struct *p)
{
	struct task_ctx *tctx;

	if (alternate == TW_ALTERNATE_RESIDENT)
		return tw_fills_cache(resident_bytes(p), llc_bytes);
	tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	return tctx && tctx->need.need >= TW_ALTERNATION_NEED;
}

/* Adds a program, if there is room. */
static void add_alternating(u32 tgid)
{
	s32 slot = find_tgid(alternating.tgids, 0);

	if (slot < 0)
		return;
	slot &= TW_ALTERNATION_PROGRAMS - 1;
	alternating.ready_ns[slot] = scx_bpf_now();
	alternating.resident[slot] = 0;
	alternating.tgids[slot] = tgid;
}

/* What runs on a CPU: if its program is parallel and may be worth turns, it is one of them from now on. */
static void consider(struct task_struct *p)
{
	s32 slot;

	if (class_of(p) < TW_CLASS_SENIOR)
		return;
	slot = find_tgid(alternating.tgids, p->tgid);
	if (slot < 0 && is_worth_turns(p))
		add_alternating(p->tgid);
	if (slot >= 0 && alternate == TW_ALTERNATE_RESIDENT)
		alternating.resident[slot & (TW_ALTERNATION_PROGRAMS - 1)] = resident_bytes(p);
}

__noinline int consider_running(s32 cpu)
{
	struct task_struct *running;

	bpf_rcu_read_lock();
	running = running_on(cpu);
	if (running)
		consider(running);
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * Looks at what runs on some CPUs. Not where CPUs look at their tasks themselves: those of a program that
 * meet at barriers never come to the end of a slice.
 */
static void consider_some(void)
{
	s32 at = next_cpu(alternating.last_cpu);
	u32 i, nr = nr_spots();

	bpf_for(i, 0, nr) {
		alternating.last_cpu = walk_online(&at);
		consider_running(alternating.last_cpu);
	}
}

/* A task waits for its program's turn. */
static void hold(struct task_struct *p, s32 slot, const struct tw_task *task, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, TW_HELD_QUEUE + slot, tunables.slice_ns, tw_key(task, tun()), enq_flags);
}

/* Who is there, and has a ready thread. */
static void look_at_programs(struct tw_alternation_look *look)
{
	s32 slot;

	look->members = look->ready = 0;
	for (slot = 0; slot < TW_ALTERNATION_PROGRAMS; slot++) {
		u32 tgid = alternating.tgids[slot];

		if (tgid && nr_ready_of(tgid)) {
			look->ready |= 1u << slot;
			alternating.ready_ns[slot] = look->now_ns;
		}
		if (tgid && (tw_is_gone(alternating.ready_ns[slot], look->now_ns) ||
			     (alternate == TW_ALTERNATE_RESIDENT &&
			      tw_outgrows_cache(alternating.resident[slot], llc_bytes))))
			alternating.tgids[slot] = tgid = 0;
		if (tgid)
			look->members |= 1u << slot;
	}
}

/* Adds up what was done on all CPUs. */
static void look_at_works(struct tw_work *done)
{
	u32 cpu, zero = 0;

	__builtin_memset(done, 0, sizeof(*done));
	bpf_for(cpu, 0, nr_cpus) {
		const struct tw_work *work = bpf_map_lookup_percpu_elem(&works, &zero, cpu);
		s32 slot;

		if (!work)
			continue;
		for (slot = 0; slot < TW_ALTERNATION_PROGRAMS; slot++)
			done->of[slot] += work->of[slot];
		done->machine += work->machine;
		done->nr_samples += work->nr_samples;
		done->nr_lost += work->nr_lost;
	}
}

/* Says whose turn it is not; true if that is somebody else than before. */
static bool publish_held(u32 held)
{
	bool changed = false;
	s32 slot;

	for (slot = 0; slot < TW_ALTERNATION_PROGRAMS; slot++) {
		u32 tgid = held >> slot & 1 ? alternating.tgids[slot] : 0;

		changed |= alternating.held[slot] != tgid;
		alternating.held[slot] = tgid;
	}
	return changed;
}

/* Has what runs on a CPU leave it if its program has to wait. */
__noinline int kick_if_held(s32 cpu)
{
	struct task_struct *running;
	bool held;

	bpf_rcu_read_lock();
	running = running_on(cpu);
	held = running && held_as(running) >= 0;
	bpf_rcu_read_unlock();
	if (held)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/*
 * Tasks whose turn it is go to their CPUs' queues, as if they were queued now, and anybody takes them from
 * there. The mark comes last too: the CPU may find its queue empty between the first and the move.
 */
__noinline int release_held(s32 slot)
{
	u64 queue = TW_HELD_QUEUE + (slot & (TW_ALTERNATION_PROGRAMS - 1)), now = clock_now();
	struct task_struct *p;

	if (scx_bpf_dsq_nr_queued(queue) <= 0)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
		s32 cpu = scx_bpf_task_cpu(p);
		struct cpu_ctx *cctx = cpu_ctx_of(cpu);
		struct tw_task task;
		bool unboosted;
		u64 key;

		if (!tctx || !cctx)
			continue;
		unboosted = look_at_charged(p, tctx, nr_waiting_at(cpu), now, &task);
		task.step_ns = step_of(task.class, group_of(p->tgid), now);
		task.waits_us = 0;
		tw_keys_begin(&cctx->keys, &task, crowd.boost_left);
		key = key_in(&cctx->keys, &task, unboosted);
		mark_queued(cpu, p->nr_cpus_allowed > 1);
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, tunables.slice_ns);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, key);
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, cpu, 0))
			continue;
		mark_queued(cpu, p->nr_cpus_allowed > 1);
		arm_rotation(&task, 0, now);
		kick_idle_for(p, now);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Asks the policy who has a turn, and notes what came of it. */
static void pass_time(void)
{
	struct tw_alternation *state = &alternating.state;
	struct tw_alternation_look *look = &alternating.look;
	u32 nr_trials = state->nr_trials;

	look->now_ns = clock_now();
	look_at_programs(look);
	if (alternate == TW_ALTERNATE_RESIDENT) {
		bool exceed = tw_exceed_cache(alternating.resident, look->members, llc_bytes,
					      tw_takes_turns(state));

		tw_alternate_by_resident(state, look, exceed);
	} else {
		look_at_works(&look->done);
		tw_alternate(state, look);
	}
	if (state->nr_trials > nr_trials)
		count_here(TW_STAT_TRIALS);
}

static int give_turns(void *map, u32 *zero, struct alternation_timer *timer)
{
	u32 held;
	s32 slot, cpu;

	consider_some();
	pass_time();
	held = tw_held(&alternating.state);
	if (publish_held(held)) {
		count_here(TW_STAT_ALTERNATED);
		bpf_for(cpu, 0, nr_cpus)
			kick_if_held(cpu);
	}
	/* At each look, for a task that was queued just as its program's turn began. */
	bpf_for(slot, 0, TW_ALTERNATION_PROGRAMS) {
		if (!(held >> slot & 1))
			release_held(slot);
	}
	if (bpf_timer_start(&timer->timer, tw_alternation_look_in(&alternating.state), 0)) {
		/* The loader is gone. Nobody waits for turns that nobody gives. */
		publish_held(0);
		bpf_for(slot, 0, TW_ALTERNATION_PROGRAMS)
			release_held(slot);
	}
	return 0;
}

static s32 init_alternation(void)
{
	struct alternation_timer *timer;
	u32 zero = 0;
	s32 slot, err;

	if (!alternate)
		return 0;
	bpf_for(slot, 0, TW_ALTERNATION_PROGRAMS) {
		err = scx_bpf_create_dsq(TW_HELD_QUEUE + slot, -1);
		if (err) {
			scx_bpf_error("cannot create the queue of program %d: %d", slot, err);
			return err;
		}
	}
	timer = bpf_map_lookup_elem(&alternation_timers, &zero);
	if (!timer)
		return -ENOENT;
	bpf_timer_init(&timer->timer, &alternation_timers, CLOCK_MONOTONIC);
	err = bpf_timer_set_callback(&timer->timer, give_turns);
	return err ?: bpf_timer_start(&timer->timer, TW_ALTERNATION_LOOK_IDLE_NS, 0);
}

#endif /* TW_ALTERNATION_BPF_H */
