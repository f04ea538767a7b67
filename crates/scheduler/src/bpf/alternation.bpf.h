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

/* The programs, by tgid; what the timer's look found, and the policy's state; behind which CPU its next look
 * at what runs begins. */
struct alternating {
	struct tw_members members;
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

static bool by_resident(void)
{
	return alternate == TW_ALTERNATE_RESIDENT;
}

/* The program of a task that has to wait for its program's turn, or -1. One that exits does not. */
static s32 held_as(const struct task_struct *p)
{
	if (!alternate || (p->flags & PF_EXITING))
		return -1;
	return tw_find_id(alternating.members.held, p->tgid);
}

/* A task ran while counters counted this, or did not count all the time. */
static void note_work(const struct task_struct *p, const struct tw_counts *counts, bool whole)
{
	u32 zero = 0;
	struct tw_work *work = alternate == TW_ALTERNATE_COUNTERS ? bpf_map_lookup_elem(&works, &zero) : NULL;

	if (work)
		tw_note_work(work, &alternating.members, p->tgid, counts, whole);
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

/* What runs on a CPU: its program may be one of them from now on. */
static void consider(struct task_struct *p)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	struct tw_witness task = {
		.id = p->tgid,
		.class = class_of(p),
		.resident = by_resident() ? resident_bytes(p) : 0,
		.need = tctx ? tctx->need.need : 0,
	};

	tw_consider(&alternating.members, &task, by_resident(), llc_bytes, scx_bpf_now());
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
static void look_at_members(struct tw_alternation_look *look)
{
	struct tw_members *members = &alternating.members;
	u32 slot;

	look->members = look->ready = 0;
	for (slot = 0; slot < TW_ALTERNATION_PROGRAMS; slot++)
		tw_look_at_member(members, slot, nr_ready_of(members->ids[slot]), by_resident(), llc_bytes,
				  look);
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
	look_at_members(look);
	if (by_resident()) {
		bool exceed = tw_exceed_cache(alternating.members.resident, look->members, llc_bytes,
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
	if (tw_hold(&alternating.members, held)) {
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
		tw_hold(&alternating.members, 0);
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
