/* SPDX-License-Identifier: GPL-2.0-only */
/* Which CPUs' queues are worth a look. */
#ifndef TW_QUEUES_BPF_H
#define TW_QUEUES_BPF_H

#include "state.bpf.h"

/*
 * A bit for each CPU whose queue may hold something. It is set when a task is queued and cleared by
 * that CPU's own dispatch when the queue is empty. Both happen under its rq lock (the insertion
 * itself comes only after ops.enqueue() returns), so a queued task is never without its bit. A bit
 * may be set over a queue that others emptied, until that CPU's next dispatch.
 */
u64 queued_mask[TW_MASK_WORDS];

/* The word of the queued mask that holds the CPU's bit, or NULL for what is no CPU. */
static u64 *queued_word(u32 cpu)
{
	return ARRAY_ELEM_PTR(queued_mask, cpu / 64, TW_MASK_WORDS);
}

static void mark_queued(s32 cpu)
{
	u64 *word = queued_word(cpu), bit = 1ULL << (cpu & 63);

	if (word && !(*word & bit))
		__sync_fetch_and_or(word, bit);
}

/* Whether the queue of this CPU, which asks for itself, may hold something. */
static bool is_marked(s32 cpu)
{
	u64 *word = queued_word(cpu);

	return word && (*word & (1ULL << (cpu & 63)));
}

static void unmark_if_empty(s32 cpu)
{
	u64 *word = queued_word(cpu), bit = 1ULL << (cpu & 63);

	if (word && (*word & bit) && !scx_bpf_dsq_nr_queued(cpu))
		__sync_fetch_and_and(word, ~bit);
}

/* As next_queued_cpu(), which is most of the cost of a switch, where there are at most 64. */
static s32 next_of_few(u32 *cursor, s32 self)
{
	u64 bits = queued_mask[0], later;
	u32 cpu;

	if (self >= 0)
		bits &= ~(1ULL << (self & 63));
	if (!bits)
		return -1;
	later = bits & (~0ULL << (*cursor & 63));
	cpu = ctzll(later ?: bits);
	*cursor = cpu + 1;
	return cpu;
}

/*
 * The next CPU after the cursor, but not `self`, whose queue may hold something, or -1. Looks at one turn
 * of the mask.
 */
static s32 next_queued_cpu(u32 *cursor, s32 self)
{
	u32 i, nr_words = (nr_cpus + 63) / 64, from = *cursor, first = from / 64;

	if (nr_words == 1)
		return next_of_few(cursor, self);
	bpf_for(i, 0, nr_words + 1) {
		u32 base = (first + i) % nr_words * 64, cpu;
		u64 *word = queued_word(base), bits;

		if (!word)
			return -1;
		bits = *word;
		if (self >= 0 && (u32)self / 64 == base / 64)
			bits &= ~(1ULL << (self & 63));
		if (i == 0)
			bits &= ~0ULL << (from & 63);
		if (!bits)
			continue;
		cpu = base + ctzll(bits);
		*cursor = (cpu + 1) % nr_cpus;
		return cpu;
	}
	return -1;
}

/* Wakes an idle CPU on which a waiting task may run; it will look for that itself. */
static bool kick_idle_for(const struct task_struct *p)
{
	s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (idle < 0)
		return false;
	scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	return true;
}

#endif /* TW_QUEUES_BPF_H */
