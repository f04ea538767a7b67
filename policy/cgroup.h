/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a thread weighs among threads of other cgroups (Documentation/admin-guide/cgroup-v2.rst, cpu.weight):
 * siblings that compete share what their parent gets by their weights, however many threads each has, and the
 * threads of one share what that gets by their nice values. So a thread's weight is its own, times what its
 * cgroup gets of the machine, over the weights of all that are ready there.
 *
 * Whoever is ready is not counted at wake-ups, which would cost each of them, but told from the time for
 * which threads ran and waited, whenever they are charged. Threads that are ready half of the time count
 * half, and so does a cgroup whose only thread is: what it leaves goes to the others.
 *
 * Weights are scaled such that their mean over all ready threads stays what nice values make it: a single
 * cgroup's threads weigh what they would without it, and distances in vtime keep their meaning.
 *
 * Numbers of threads and weights are fixed point with 8 bits after the point (_256), shares with 16 (_64k),
 * and parts of them, of which small ones are multiplied, with 24 (_16m).
 */
#ifndef TW_CGROUP_H
#define TW_CGROUP_H

#include "task.h"

/* Who was ready is a mean over about this time: 268 ms. */
#define TW_CGROUP_MEMORY_NS (1ULL << 28)

/* The mean is taken again after this time, at the earliest: 32 ms. */
#define TW_CGROUP_REFRESH_NS (32ULL * 1000 * 1000)

/* With fewer threads that are ready on the mean, a sixteenth of one, a cgroup is idle. */
#define TW_CGROUP_IDLE_256 16

/* More than any machine has of what is a mean here: 16 million nice-0 threads, over 100. */
#define TW_CGROUP_MEAN_MAX (1ULL << 32)

/* All zero: a cgroup without threads, and nothing known of it. */
struct tw_cgroup {
	/* Its own threads that are ready on the mean, and what they weigh by nice value. */
	u64 ready_256;
	u64 load_256;
	/* Ready threads with those of the cgroups below it. */
	u64 below_256;
	/* What shares what it gets: its own threads, and the cgroups next below it as far as they are active.
	 */
	u64 rivals_256;
	/* What it gets; 0: not known yet. */
	u64 share_64k;
	/* cpu.weight, 1 to 10000; 0: there is no such cgroup. */
	u32 weight;
};

/* The weight of a cgroup: cpu.idle has it weigh least, whatever cpu.weight says. */
static inline u32 tw_cgroup_own_weight(u32 weight, bool idle)
{
	return idle ? 1 : weight;
}

/*
 * For how long a thread was ready of late that ran and waited for so long in all since it was last charged.
 * Of one that was not charged for long, because nobody waited, the mean counts; what it waited is recent.
 */
static inline u64 tw_cgroup_ready_ns(u64 ran_ns, u64 waited_ns, u64 elapsed_ns)
{
	if (elapsed_ns > TW_CGROUP_MEMORY_NS) {
		ran_ns = (ran_ns / (elapsed_ns >> 18)) << 10;
		if (ran_ns > TW_CGROUP_MEMORY_NS)
			ran_ns = TW_CGROUP_MEMORY_NS;
	}
	if (waited_ns > 4 * TW_CGROUP_MEMORY_NS)
		waited_ns = 4 * TW_CGROUP_MEMORY_NS;
	return ran_ns + waited_ns;
}

/* The mean after `sum`, a number times nanoseconds, was added up in elapsed_ns, of which there is at least
 * one. */
static inline u64 tw_cgroup_mean(u64 mean_256, u64 sum, u64 elapsed_ns, bool anew)
{
	u64 most = 1ULL << 55, recent_256 = ((sum < most ? sum : most) << 8) / (elapsed_ns ? elapsed_ns : 1);
	u64 part_ns = elapsed_ns < TW_CGROUP_MEMORY_NS ? elapsed_ns : TW_CGROUP_MEMORY_NS;

	if (recent_256 > TW_CGROUP_MEAN_MAX)
		recent_256 = TW_CGROUP_MEAN_MAX;
	if (anew && mean_256 < recent_256)
		return recent_256;
	return mean_256 - mean_256 * part_ns / TW_CGROUP_MEMORY_NS +
	       recent_256 * part_ns / TW_CGROUP_MEMORY_NS;
}

/*
 * A new look begins: what its own threads added up since the last one. A cgroup that was idle counts at once
 * when it wakes up: with the weight of all for each thread, it would take the machine. Any other is followed
 * slowly, up as down: threads that wait for long are charged in lumps, and were lumps believed, those that
 * wait most would be taken for many, and weigh the less.
 */
static inline void tw_cgroup_begin(struct tw_cgroup *cgroup, u64 ready_sum, u64 load_sum, u64 elapsed_ns)
{
	bool anew = cgroup->ready_256 < TW_CGROUP_IDLE_256;

	cgroup->ready_256 = tw_cgroup_mean(cgroup->ready_256, ready_sum, elapsed_ns, anew);
	cgroup->load_256 = tw_cgroup_mean(cgroup->load_256, load_sum, elapsed_ns, anew);
	cgroup->below_256 = 0;
	cgroup->rivals_256 = cgroup->load_256;
}

/* The weight with which it competes on the mean: all of it with one ready thread or more. */
static inline u64 tw_cgroup_active_256(const struct tw_cgroup *cgroup)
{
	return cgroup->weight * (cgroup->below_256 < 256 ? cgroup->below_256 : 256);
}

/*
 * Of this part of a cgroup's weight, what it is of its parent's, of which the cgroup gets its part beside all
 * others that are active. The result is 1 or more, and no more than the parent's weight if part was no more
 * than its own.
 */
static inline u64 tw_cgroup_nested(u64 part_16m, const struct tw_cgroup *cgroup,
				   const struct tw_cgroup *parent)
{
	u64 weight_256 = (u64)cgroup->weight << 8, others_256 = 0, active_256 = tw_cgroup_active_256(cgroup);

	if (parent->rivals_256 > active_256)
		others_256 = parent->rivals_256 - active_256;
	part_16m = (part_16m * parent->weight << 8) / (others_256 + (weight_256 ? weight_256 : 256));
	return part_16m ? part_16m : 1;
}

/*
 * What a part of the weights next below the root comes to, where all that is ready weighs total_256 by nice
 * value. Whoever shares the machine there are the root's rivals.
 */
static inline u64 tw_cgroup_share(u64 part_16m, u64 total_256, const struct tw_cgroup *root)
{
	u64 total = total_256 < TW_CGROUP_MEAN_MAX ? total_256 : TW_CGROUP_MEAN_MAX, most = 1ULL << 48;
	u64 rivals = root->rivals_256 ? root->rivals_256 : 1, share_64k;

	if (part_16m < 1ULL << 28)
		share_64k = part_16m * total / rivals >> 8;
	else
		share_64k = (part_16m >> 8) * total / rivals;
	return !share_64k ? 1 : share_64k < most ? share_64k : most;
}

/*
 * The weight, 1 to 10000, of a thread with a nice value of this weight. It shares with what is ready in its
 * cgroup, which is at least itself. Threads of the root are no cgroup: there they compete with the highest
 * ones, each for itself.
 */
static inline u32 tw_cgroup_weight(u32 nice_weight, const struct tw_cgroup *cgroup, bool is_root)
{
	u64 share_64k = cgroup->share_64k, own_256 = (u64)nice_weight << 8, among_256 = cgroup->rivals_256,
	    weight;

	if (!cgroup->weight || !share_64k)
		return nice_weight;
	if (is_root)
		among_256 = (u64)TW_WEIGHT_MAX << 8;
	else if (among_256 < own_256)
		among_256 = own_256;
	weight = (nice_weight * share_64k / among_256 + 128) >> 8;
	return !weight ? 1 : weight < TW_WEIGHT_MAX ? weight : TW_WEIGHT_MAX;
}

#endif /* TW_CGROUP_H */
