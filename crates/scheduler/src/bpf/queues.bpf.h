/* SPDX-License-Identifier: GPL-2.0-only */
/* Which CPUs' queues are worth a look. */
#ifndef TW_QUEUES_BPF_H
#define TW_QUEUES_BPF_H

#include "intf.h"

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

/* Whether the queue of this CPU may hold something. Who asks for another CPU may be a moment behind. */
static bool is_marked(s32 cpu)
{
	u64 *word = queued_word(cpu);

	return word && (*word & (1ULL << (cpu & 63)));
}

/* Tasks that wait in this CPU's queue. The kernel finds queues in a hash table, 130 instructions away. */
static u32 nr_waiting_at(s32 cpu)
{
	s32 nr = is_marked(cpu) ? scx_bpf_dsq_nr_queued(cpu) : 0;

	return nr > 0 ? nr : 0;
}

static void unmark(s32 cpu)
{
	u64 *word = queued_word(cpu);

	if (word)
		__sync_fetch_and_and(word, ~(1ULL << (cpu & 63)));
}

static void unmark_if_empty(s32 cpu)
{
	if (is_marked(cpu) && !scx_bpf_dsq_nr_queued(cpu))
		unmark(cpu);
}

/* The bits of this CPU's word, without that of `self`. */
static u64 queued_bits(u32 cpu, s32 self)
{
	u64 *word = queued_word(cpu), bits = word ? *word : 0;

	return self >= 0 && (u32)self / 64 == cpu / 64 ? bits & ~(1ULL << (self & 63)) : bits;
}

/*
 * The next CPU after the cursor, but not `self`, whose queue may hold something, or -1. Looks at one turn
 * of the mask.
 */
static s32 next_queued_cpu(u32 *cursor, s32 self)
{
	u32 nr_words = (nr_cpus + 63) / 64, from = *cursor < nr_cpus ? *cursor : 0, i, cpu = from;
	u64 own = queued_bits(from, self), bits = own & (~0ULL << (from & 63));

	/* With no more than 64 there is one word, and a loop that does not run is still dear. */
	if (nr_words > 1 && !bits) {
		bpf_for(i, 1, nr_words) {
			cpu = (from / 64 + i) % nr_words * 64;
			bits = queued_bits(cpu, self);
			if (bits)
				break;
		}
	}
	if (!bits) {
		cpu = from;
		bits = own;
	}
	if (!bits)
		return -1;
	cpu = cpu / 64 * 64 + ctzll(bits);
	*cursor = cpu + 1;
	return cpu;
}

#endif /* TW_QUEUES_BPF_H */
