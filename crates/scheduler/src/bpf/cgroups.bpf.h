/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which cgroup each task is in, and what that makes it weigh (policy/cgroup.h). Nothing happens when tasks
 * wake up or sleep: who is ready is told from what tasks ran and waited when they are charged, which is when
 * somebody has to wait; and while somebody does, the timer (rotation.bpf.h) has shares worked out anew.
 *
 * Known here are the cgroups with the cpu controller, as the kernel tells of them; tasks of others belong to
 * the nearest one above. A cgroup for which there is no room, or that lies too deep, counts as part of its
 * parent.
 */
#ifndef TW_CGROUPS_BPF_H
#define TW_CGROUPS_BPF_H

#include "../../../../policy/cgroup.h"

/* Whether the kernel tells of cgroups, and they are to count. When not, the verifier removes the code. */
const volatile bool has_cgroups = false;

/* The slot of the root. */
#define ROOT_SLOT 0

struct cgroup_ctx {
	struct tw_cgroup cgroup;
	/* The slot of its parent. */
	u32 parent;
	/* 1 if the slot is taken. */
	u32 taken;
	/* cpu.weight, and whether cpu.idle is set beside it. */
	u32 weight;
	bool idle;
	/* The two sums as of the last look. */
	u64 seen_ready_ns;
	u64 seen_load_ns;
	/* What its tasks were ready, and that times the weights of their nice values. They wrap. All CPUs
	 * write here. */
	u64 ready_ns __attribute__((aligned(64)));
	u64 load_ns;
};

struct cgroup_ctx cgroup_ctxs[TW_MAX_CGROUPS];

/* The slots that have ever been taken are the first so many. */
u32 nr_cgroup_slots;

/* When shares were last worked out. */
u64 cgroups_refreshed_ns;

/* What is known of a cgroup. */
struct cgroup_place {
	u32 slot;
	/* Not so if that is its parent's. */
	bool own;
};

/*
 * The cgroups by their addresses, from cgroup_init to cgroup_exit. They have no storage: in the arguments of
 * init_task stands an address that no helper takes, and ids are unique in one of several hierarchies only
 * (version 1).
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct cgroup_place);
} cgroup_places SEC(".maps");

/* What a task's context says of its cgroup. */
struct membership {
	u32 slot;
	/* When it was last charged. 0: not yet. */
	u64 charged_at_ns;
};

static struct cgroup_ctx *cgroup_at(u32 slot)
{
	return ARRAY_ELEM_PTR(cgroup_ctxs, slot, TW_MAX_CGROUPS);
}

/* Whether there are cgroups beside the root. */
static bool cgroups_matter(void)
{
	return has_cgroups && nr_cgroup_slots > 1;
}

__noinline u32 weight_in_cgroup(u32 slot, u32 nice_weight)
{
	struct cgroup_ctx *cctx = cgroup_at(slot);

	return cctx ? tw_cgroup_weight(nice_weight, &cctx->cgroup, slot == ROOT_SLOT) : nice_weight;
}

/* What a task weighs, by its nice value and its cgroup. */
static u32 own_weight_of(const struct task_struct *p, const struct membership *in)
{
	return cgroups_matter() ? weight_in_cgroup(in->slot, p->scx.weight) : p->scx.weight;
}

/* A task is charged for ran_ns: for so long and while it waited it was ready. */
static void count_ready_time(const struct task_struct *p, struct membership *in, u64 ran_ns, u64 waited_ns,
			     u64 now)
{
	struct cgroup_ctx *cctx = cgroups_matter() ? cgroup_at(in->slot) : NULL;
	u64 since = in->charged_at_ns, ready_ns;

	if (!cctx)
		return;
	in->charged_at_ns = now;
	if (!since)
		return;
	ready_ns = tw_cgroup_ready_ns(ran_ns, waited_ns, since_ns(since, now));
	__sync_fetch_and_add(&cctx->ready_ns, ready_ns);
	__sync_fetch_and_add(&cctx->load_ns, ready_ns * p->scx.weight);
}

static void begin_look(struct cgroup_ctx *cctx, u64 elapsed_ns)
{
	u64 ready_ns = tw_read(&cctx->ready_ns), load_ns = tw_read(&cctx->load_ns);

	cctx->cgroup.weight = tw_cgroup_own_weight(cctx->weight, cctx->idle);
	tw_cgroup_begin(&cctx->cgroup, ready_ns - cctx->seen_ready_ns, load_ns - cctx->seen_load_ns,
			elapsed_ns);
	cctx->seen_ready_ns = ready_ns;
	cctx->seen_load_ns = load_ns;
}

/* The ready tasks of a cgroup count in all above it too. */
static void count_below(u32 slot, u64 ready_256)
{
	struct cgroup_ctx *cctx;
	u32 i;

	bpf_for(i, 0, TW_CGROUP_DEPTH) {
		cctx = cgroup_at(slot);
		if (!cctx)
			return;
		cctx->cgroup.below_256 += ready_256;
		if (slot == ROOT_SLOT)
			return;
		slot = cctx->parent;
	}
}

/* How much of the machine's highest weights a cgroup has. */
static u64 part_of(u32 slot)
{
	struct cgroup_ctx *cctx = cgroup_at(slot), *parent;
	u64 part_16m = cctx ? (u64)cctx->cgroup.weight << 24 : 0;
	u32 i;

	bpf_for(i, 0, TW_CGROUP_DEPTH) {
		if (!cctx || cctx->parent == ROOT_SLOT)
			break;
		parent = cgroup_at(cctx->parent);
		if (!parent)
			break;
		part_16m = tw_cgroup_nested(part_16m, &cctx->cgroup, &parent->cgroup);
		cctx = parent;
	}
	return part_16m;
}

/* The passes of a look, in this order, each over all cgroups. */
enum look_pass {
	LOOK_BEGIN,
	LOOK_COUNT,
	LOOK_COMPETE,
	LOOK_SHARE,
	NR_LOOK_PASSES,
};

/* What a look finds out: the weights of all ready tasks by their nice values; and how far it looks back. */
u64 look_total_256;
u64 look_elapsed_ns;

/* One pass over one cgroup. */
__noinline int look_at_cgroup(u32 slot, u32 pass)
{
	struct cgroup_ctx *cctx = cgroup_at(slot), *root = cgroup_at(ROOT_SLOT), *parent;
	u64 part_16m;

	if (!cctx || !root || !cctx->taken)
		return 0;
	switch (pass) {
	case LOOK_BEGIN:
		begin_look(cctx, look_elapsed_ns);
		look_total_256 += cctx->cgroup.load_256;
		break;
	case LOOK_COUNT:
		if (cctx->cgroup.ready_256)
			count_below(slot, cctx->cgroup.ready_256);
		break;
	case LOOK_COMPETE:
		parent = cgroup_at(cctx->parent);
		if (parent && slot != ROOT_SLOT)
			parent->cgroup.rivals_256 += tw_cgroup_active_256(&cctx->cgroup);
		break;
	default:
		part_16m = slot == ROOT_SLOT ? (u64)TW_WEIGHT_MAX << 24 : part_of(slot);
		cctx->cgroup.share_64k = tw_cgroup_share(part_16m, look_total_256, &root->cgroup);
	}
	return 0;
}

/* The timer looks: shares are worked out anew if that is due. */
static void refresh_cgroups(u64 now)
{
	u32 pass, slot, nr = nr_cgroup_slots;

	if (!cgroups_matter())
		return;
	if ((s64)(now - cgroups_refreshed_ns) < (s64)TW_CGROUP_REFRESH_NS)
		return;
	look_elapsed_ns = now - cgroups_refreshed_ns;
	look_total_256 = 0;
	cgroups_refreshed_ns = now;
	bpf_for(pass, 0, NR_LOOK_PASSES) {
		bpf_for(slot, 0, nr) {
			look_at_cgroup(slot, pass);
		}
	}
}

/* A free slot, taken, or 0. */
static u32 take_slot(void)
{
	struct cgroup_ctx *cctx;
	u32 slot;

	bpf_for(slot, 1, TW_MAX_CGROUPS) {
		cctx = cgroup_at(slot);
		if (cctx && !cctx->taken && !__sync_val_compare_and_swap(&cctx->taken, 0, 1))
			return slot;
	}
	return 0;
}

static struct cgroup_place *place_of(const struct cgroup *cgrp)
{
	u64 address = (u64)cgrp;

	return bpf_map_lookup_elem(&cgroup_places, &address);
}

static u32 slot_of(const struct cgroup *cgrp)
{
	struct cgroup_place *place = place_of(cgrp);

	return place ? place->slot : ROOT_SLOT;
}

static u32 slot_above(struct cgroup *cgrp)
{
	struct cgroup *parent = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	u32 slot = ROOT_SLOT;

	if (parent) {
		slot = slot_of(parent);
		bpf_cgroup_release(parent);
	}
	return slot;
}

static void fill_slot(u32 slot, u32 parent, u32 weight, bool idle)
{
	struct cgroup_ctx *cctx = cgroup_at(slot);

	if (!cctx)
		return;
	cctx->taken = 1;
	cctx->cgroup = (struct tw_cgroup){};
	cctx->parent = parent;
	cctx->weight = weight;
	cctx->idle = idle;
	cctx->seen_ready_ns = cctx->ready_ns;
	cctx->seen_load_ns = cctx->load_ns;
	if (slot >= nr_cgroup_slots)
		nr_cgroup_slots = slot + 1;
}

static void free_slot(struct cgroup_ctx *cctx)
{
	if (!cctx)
		return;
	cctx->cgroup = (struct tw_cgroup){};
	__sync_val_compare_and_swap(&cctx->taken, 1, 0);
}

static s32 add_cgroup(struct cgroup *cgrp, u32 weight, bool idle)
{
	u32 parent = ROOT_SLOT, slot = ROOT_SLOT, level = cgrp->level;
	u64 address = (u64)cgrp;
	struct cgroup_place place;

	if (level) {
		parent = slot_above(cgrp);
		slot = level < TW_CGROUP_DEPTH ? take_slot() : 0;
	}
	place = (struct cgroup_place){ .slot = slot ? slot : parent, .own = slot || !level };
	if (place.own)
		fill_slot(slot, parent, weight, idle);
	/* Tasks of one that finds no room even here count as the root's. */
	if (bpf_map_update_elem(&cgroup_places, &address, &place, BPF_ANY) && slot)
		free_slot(cgroup_at(slot));
	return 0;
}

/* The cgroup's own slot, or NULL. */
static struct cgroup_ctx *cgroup_ctx_of(const struct cgroup *cgrp)
{
	struct cgroup_place *place = place_of(cgrp);

	return place && place->own ? cgroup_at(place->slot) : NULL;
}

static void remove_cgroup(const struct cgroup *cgrp)
{
	struct cgroup_ctx *cctx = cgroup_ctx_of(cgrp);
	u64 address = (u64)cgrp;

	free_slot(cctx);
	bpf_map_delete_elem(&cgroup_places, &address);
}

#endif /* TW_CGROUPS_BPF_H */
