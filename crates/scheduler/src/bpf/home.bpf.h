/* SPDX-License-Identifier: GPL-2.0-only */
/* Where programs are at home (policy/home.h). */
#ifndef TW_HOME_BPF_H
#define TW_HOME_BPF_H

#include "count.bpf.h"

/* How many cores each last-level cache has. */
const volatile u16 llc_cores[TW_DOMAINS];

/* The last-level cache where each program is at home, plus one: that of the first thread of it that was
 * ready, until it moves (exchange.bpf.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8);
} homes SEC(".maps");

static u32 cores_of_llc(u32 llc)
{
	return llc_cores[llc & (TW_DOMAINS - 1)];
}

/* The last-level cache in which the task's program is kept with so many ready threads, plus one; or 0. */
static u32 home_of(const u8 *known, u32 nr_ready)
{
	u32 home = *known;

	return home && tw_keeps_home(nr_ready, cores_of_llc(home - 1)) ? home : 0;
}

/* Where a task's program is at home, or those that share memory with it; and how many of their threads are
 * ready. */
static u8 *find_home(struct task_struct *p, u32 *nr_ready)
{
	struct task_ctx *tctx = nr_shares ? bpf_task_storage_get(&task_ctxs, p, 0, 0) : NULL;
	struct share *share = tctx ? share_at(tctx->shared.in) : NULL;
	u32 tgid = p->tgid;

	if (share) {
		*nr_ready = tw_read(&share->nr_ready);
		return &share->home;
	}
	*nr_ready = nr_ready_beside(p);
	return bpf_map_lookup_elem(&homes, &tgid);
}

#endif /* TW_HOME_BPF_H */
