/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each program did (--programs). Without that the verifier removes the code, the loader leaves out the
 * hooks that serve nothing else, and the table has no room.
 *
 * A table by tgid, and no storage of the leading thread: a thread that is about to switch away for the last
 * time may have outlived its leader.
 */
#ifndef TW_PROGRAMS_BPF_H
#define TW_PROGRAMS_BPF_H

#include "intf.h"
#include "../../../../policy/phase.h"

/* Whether programs are told apart in the statistics. */
const volatile bool tells_programs = false;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tw_program);
} programs SEC(".maps");

static enum tw_state state_of(u32 nr_ready)
{
	if (!nr_ready)
		return TW_STATE_IDLE;
	return tw_phase_of(nr_ready, tunables.serial_threshold) == TW_PARALLEL ? TW_STATE_PARALLEL :
										 TW_STATE_SERIAL;
}

/* Kernel threads are no programs. */
static bool is_told(const struct task_struct *p)
{
	return tells_programs && !(p->flags & PF_KTHREAD);
}

__noinline int count_for(u32 tgid, u32 stat)
{
	struct tw_program *program = bpf_map_lookup_elem(&programs, &tgid);

	if (program && stat < TW_NR_PROGRAM_STATS)
		tw_fetch_add(&program->stats[stat], 1);
	return 0;
}

/* A program did this. */
static void note_stat(u32 tgid, enum tw_program_stat stat)
{
	if (tells_programs)
		count_for(tgid, stat);
}

/*
 * The old state's time first: who reads between the two additions finds all times up to now. Two CPUs that
 * change it at once may disagree on the order by the time that they take for it, nothing else.
 */
__noinline int change_state(u32 tgid, u32 from, u32 to)
{
	struct tw_program *program = bpf_map_lookup_elem(&programs, &tgid);
	u64 now;

	if (!program || from >= TW_NR_STATES || to >= TW_NR_STATES)
		return 0;
	now = bpf_ktime_get_ns();
	tw_fetch_add(&program->state_ns[from], now);
	tw_fetch_add(&program->state_ns[to], -now);
	if (to == TW_STATE_PARALLEL)
		tw_fetch_add(&program->stats[TW_PROGRAM_PHASES], 1);
	return 0;
}

/* A thread of a program became ready, or no longer is. */
static void note_ready(const struct task_struct *p, u32 nr_before, u32 nr_after)
{
	enum tw_state from, to;

	if (!is_told(p))
		return;
	from = state_of(nr_before);
	to = state_of(nr_after);
	if (from != to)
		change_state(p->tgid, from, to);
}

/* A task goes to a CPU ahead of others: because that is a faster one, or it is `taken` from what runs there.
 */
static void note_boost(const struct task_struct *p, enum tw_class class, bool faster, bool taken)
{
	if (!is_told(p))
		return;
	if (class == TW_CLASS_SERIAL && (faster || taken))
		count_for(p->tgid, TW_PROGRAM_BOOSTS);
	if (taken)
		count_for(p->tgid, TW_PROGRAM_PREEMPTIONS);
}

/*
 * A thread comes; it is not ready yet. The first of a program, or the first that is there at attaching, makes
 * the entry. When the table was full then, the program stays out: one that came in later would go before its
 * last thread.
 */
static void note_birth(const struct task_struct *p, bool forked)
{
	u32 tgid = p->tgid;
	struct tw_program *program, fresh = {};

	if (!is_told(p))
		return;
	if (!forked || p->pid == p->tgid) {
		fresh.began_ns = bpf_ktime_get_ns();
		fresh.state_ns[TW_STATE_IDLE] = -fresh.began_ns;
		bpf_map_update_elem(&programs, &tgid, &fresh, BPF_NOEXIST);
	}
	program = bpf_map_lookup_elem(&programs, &tgid);
	if (program)
		tw_fetch_add(&program->nr_tasks, 1);
}

/* A thread goes, as the last thing that it does; or its fork failed. */
static void note_death(const struct task_struct *p)
{
	u32 tgid = p->tgid;
	struct tw_program *program;

	if (!is_told(p))
		return;
	program = bpf_map_lookup_elem(&programs, &tgid);
	if (program && tw_fetch_add(&program->nr_tasks, -1) == 1 && fault != TW_FAULT_HOARD)
		bpf_map_delete_elem(&programs, &tgid);
}

#endif /* TW_PROGRAMS_BPF_H */
