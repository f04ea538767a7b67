/* SPDX-License-Identifier: GPL-2.0-only */
/* The policy's functions as symbols. They are static inline in their headers, for BPF's sake. */
#include "../../../policy/cgroup.h"
#include "../../../policy/clock.h"
#include "../../../policy/crowd.h"
#include "../../../policy/exchange.h"
#include "../../../policy/home.h"
#include "../../../policy/look.h"
#include "../../../policy/members.h"
#include "../../../policy/pairing.h"
#include "../../../policy/preempt.h"
#include "../../../policy/seniority.h"
#include "../../../policy/smt.h"
#include "../../../policy/speed.h"
#include "../../../policy/spread.h"
#include "../../../policy/turn.h"

_Static_assert(sizeof(struct tw_group) == 16, "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_tunables) == 72, "crates/policy/src/lib.rs has the same layout");
_Static_assert(TW_LOOK_MOST_NS == 8000000 && TW_LOOK_QUIET_NS == 24000000,
	       "crates/policy/src/look.rs has the same");
_Static_assert(TW_ROTATION_QUEUES == 4 && TW_ROTATION_CPUS == 16 && TW_ROTATION_MARKS == 16 &&
		       TW_ROTATION_SORTED == 16,
	       "crates/policy/src/look.rs has the same");
_Static_assert(TW_DUE_EARLIER == 1 && TW_DUE_SAME == 2 && TW_DUE_LATER == 3 && TW_KICK_AND_SEND == 2,
	       "crates/policy/src has the same");
_Static_assert(TW_SEARCH_PLACE == 1 && TW_SEARCH_SPOT == 2 && TW_SEARCH_SEAT == 3,
	       "crates/policy/src/lib.rs has the same");
_Static_assert(TW_IDLE_SCAN == 64, "crates/policy/src/lib.rs has the same");
_Static_assert(TW_PLACE_SCAN == 64 && TW_CALL_SCAN == 16, "crates/policy/src/lib.rs has the same");
_Static_assert(sizeof(struct tw_timer) == 24 && sizeof(struct tw_look) == 48,
	       "crates/policy/src/look.rs has the same layout");
_Static_assert(TW_LEAVES_CACHE_NS == 500000, "crates/policy/src/lib.rs has the same");
_Static_assert((TW_WEIGHT_ONE << 16) == 6553600, "crates/policy/src/lib.rs has the same");
_Static_assert(sizeof(struct tw_task) == 32, "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_keys) == 12, "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_ages) == 16, "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_run) == 48, "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_seat) == 5, "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_spot) == 16, "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_llc) == 8 && sizeof(struct tw_stay) == 8,
	       "crates/policy/src/home.rs has the same layout");
_Static_assert(sizeof(struct tw_charged) == 24 && sizeof(struct tw_crowd) == 48,
	       "crates/policy/src/crowd.rs has the same layout");
_Static_assert(sizeof(struct tw_need) == 24, "crates/policy/src/pairing.rs has the same layout");
_Static_assert(sizeof(struct tw_pair) == 24, "crates/policy/src/pairing.rs has the same layout");
_Static_assert(sizeof(struct tw_reading) == 24, "crates/policy/src/pairing.rs has the same layout");
_Static_assert(sizeof(struct tw_rest) == 16, "crates/policy/src/exchange.rs has the same layout");
_Static_assert(sizeof(struct tw_work) == 56, "crates/policy/src/alternation.rs has the same layout");
_Static_assert(sizeof(struct tw_alternation_look) == 72,
	       "crates/policy/src/alternation.rs has the same layout");
_Static_assert(sizeof(struct tw_alternation) == 176, "crates/policy/src/alternation.rs has the same layout");
_Static_assert(sizeof(struct tw_members) == 96 && sizeof(struct tw_witness) == 24,
	       "crates/policy/src/members.rs has the same layout");
_Static_assert(sizeof(struct tw_place) == 16 && sizeof(struct tw_choice) == 24,
	       "crates/policy/src/lib.rs has the same layout");
_Static_assert(sizeof(struct tw_cgroup) == 48, "crates/policy/src/cgroup.rs has the same layout");

u32 tw_native_ready_add(struct tw_group *group)
{
	return tw_ready_add(group);
}

u32 tw_native_ready_sub(struct tw_group *group)
{
	return tw_ready_sub(group);
}

u32 tw_native_class_of(u32 nr_ready, u32 bound_kernel_thread, u32 senior, const struct tw_tunables *tun)
{
	return tw_class_of(nr_ready, bound_kernel_thread, senior, tun);
}

u32 tw_native_is_counted(u32 nr_threads, u32 serial_threshold)
{
	return tw_is_counted(nr_threads, serial_threshold);
}

u32 tw_native_phase_began(u32 nr_ready, u32 serial_threshold)
{
	return tw_phase_began(nr_ready, serial_threshold);
}

u32 tw_native_phase_ended(u32 nr_ready, u32 serial_threshold)
{
	return tw_phase_ended(nr_ready, serial_threshold);
}

void tw_native_phase_begin(struct tw_group *group, u64 now_ns, u64 vtime_now, u32 senior_lost)
{
	tw_phase_begin(group, now_ns, vtime_now, senior_lost);
}

u64 tw_native_phase_age_ns(const struct tw_group *group, u64 now_ns)
{
	return tw_phase_age_ns(group, now_ns);
}

void tw_native_find_origin(struct tw_run *run, const struct tw_group *group, u32 seen, u64 ready_ns,
			   u32 slept, u64 now_ns, u32 serial_threshold)
{
	tw_find_origin(run, group, seen, ready_ns, slept, now_ns, serial_threshold);
}

u64 tw_native_unstamp(u32 stamp, u64 now)
{
	return tw_unstamp(stamp, now);
}

u32 tw_native_loss(u64 waited_ns, u32 weight, u32 nr_ready, u32 nr_threads, u32 nr_cpus)
{
	return tw_loss(waited_ns, weight, nr_ready, nr_threads, nr_cpus);
}

u32 tw_native_counts_loss(u32 nr_threads, u32 unequal, const struct tw_tunables *tun)
{
	return tw_counts_loss(nr_threads, unequal, tun);
}

u32 tw_native_loss_of_speed(u32 class, u64 ran_ns, u32 capacity, u32 weight)
{
	return tw_loss_of_speed(class, ran_ns, capacity, weight);
}

s32 tw_native_lost_more_there(const struct tw_task *task, struct tw_group *group, const struct tw_task *there,
			      struct tw_group *other, const struct tw_tunables *tun)
{
	return tw_lost_more_there(task, group, there, other, tun);
}

u32 tw_native_claims(struct tw_group *group, const struct tw_group *senior, const struct tw_tunables *tun)
{
	return tw_claims(group, senior, tun);
}

u32 tw_native_is_used_up(const struct tw_task *senior, const struct tw_task *waiting,
			 const struct tw_ages *ages, const struct tw_tunables *tun)
{
	return tw_is_used_up(senior, waiting, ages, tun);
}

u32 tw_native_lost_after(const struct tw_group *senior, const struct tw_group *other,
			 const struct tw_tunables *tun)
{
	return tw_lost_after(senior, other, tun);
}

u32 tw_native_is_faster(u32 capacity, u32 than)
{
	return tw_is_faster(capacity, than);
}

u32 tw_native_worth(u32 class, u32 capacity, u32 shared, u32 beside_serial)
{
	return tw_worth(class, capacity, shared, beside_serial);
}

u32 tw_native_chooses(struct tw_choice *choice, u32 class, const struct tw_place *there)
{
	return tw_chooses(choice, class, there);
}

u32 tw_native_has_chosen(const struct tw_choice *choice, u32 capacity)
{
	return tw_has_chosen(choice, capacity);
}

u32 tw_native_answers_call(u32 class)
{
	return tw_answers_call(class);
}

u32 tw_native_takes_turn(const struct tw_task *task, const struct tw_task *there, s32 lost_more,
			 const struct tw_tunables *tun)
{
	return tw_takes_turn(task, there, lost_more, tun);
}

u32 tw_native_seat_rank(const struct tw_seat *seat)
{
	return tw_seat_rank(seat);
}

u32 tw_native_spot_rank(const struct tw_spot *spot, u32 mode)
{
	return tw_spot_rank(spot, mode);
}

u32 tw_native_leaves_spot(u32 class, u32 own_rank, u32 rank)
{
	return tw_leaves_spot(class, own_rank, rank);
}

u32 tw_native_keeps_home(u32 nr_ready, u32 nr_cores)
{
	return tw_keeps_home(nr_ready, nr_cores);
}

u32 tw_native_spill(u32 home, u32 llc, u32 same_package, u32 nr_ready, u32 nr_cores)
{
	return tw_spill(home, llc, same_package, nr_ready, nr_cores);
}

u32 tw_native_founds_home(u32 nr_others)
{
	return tw_founds_home(nr_others);
}

u32 tw_native_counts_at_home(const struct tw_stay *stay, u32 bound)
{
	return tw_counts_at_home(stay, bound);
}

u32 tw_native_moves_home(const struct tw_llc *home, const struct tw_llc *here, u32 nr_ready, u32 bound)
{
	return tw_moves_home(home, here, nr_ready, bound);
}

u32 tw_native_home_gain(const struct tw_stay *own, const struct tw_stay *other)
{
	return tw_home_gain(own, other);
}

void tw_native_note_counts(struct tw_need *need, const struct tw_counts *counts)
{
	tw_note_counts(need, counts);
}

u32 tw_native_need_of_resident(u64 resident_bytes, u64 cache_bytes, u32 nr_ready)
{
	return tw_need_of_resident(resident_bytes, cache_bytes, nr_ready);
}

u64 tw_native_pairing_gain(const struct tw_pair *pair)
{
	return tw_pairing_gain(pair);
}

u32 tw_native_is_whole(const struct tw_reading *last, const struct tw_reading *now)
{
	return tw_is_whole(last, now);
}

u32 tw_native_may_gain(const struct tw_stay *stay, u32 need)
{
	return tw_may_gain(stay, need);
}

u64 tw_native_exchange_gain(const struct tw_stay *own, const struct tw_stay *other,
			    const struct tw_pair *pair)
{
	return tw_exchange_gain(own, other, pair);
}

u32 tw_native_may_change(const struct tw_rest *rest, u64 now_ns)
{
	return tw_may_change(rest, now_ns);
}

void tw_native_note_change(struct tw_rest *rest, u64 now_ns)
{
	tw_note_change(rest, now_ns);
}

u32 tw_native_pairs(u32 mode, u32 nr_llcs, u32 unequal, u32 nr_cpus)
{
	return tw_pairs(mode, nr_llcs, unequal, nr_cpus);
}

u32 tw_native_looks_for_exchange(u32 nr_cpus, u32 others_wait, u64 looked_ago_ns, u64 exchanged_ago_ns)
{
	return tw_looks_for_exchange(nr_cpus, others_wait, looked_ago_ns, exchanged_ago_ns);
}

void tw_native_alternate(struct tw_alternation *alt, const struct tw_alternation_look *look)
{
	tw_alternate(alt, look);
}

void tw_native_alternate_by_resident(struct tw_alternation *alt, const struct tw_alternation_look *look,
				     u32 exceed)
{
	tw_alternate_by_resident(alt, look, exceed);
}

u32 tw_native_exceed_cache(const u64 *resident, u32 members, u64 cache_bytes, u32 was)
{
	return tw_exceed_cache(resident, members, cache_bytes, was);
}

u32 tw_native_takes_turns(const struct tw_alternation *alt)
{
	return tw_takes_turns(alt);
}

u32 tw_native_held(const struct tw_alternation *alt)
{
	return tw_held(alt);
}

u64 tw_native_alternation_look_in(const struct tw_alternation *alt)
{
	return tw_alternation_look_in(alt);
}

void tw_native_consider(struct tw_members *members, const struct tw_witness *task, u32 by_resident,
			u64 cache_bytes, u64 now_ns)
{
	tw_consider(members, task, by_resident, cache_bytes, now_ns);
}

void tw_native_look_at_member(struct tw_members *members, u32 slot, u32 nr_ready, u32 by_resident,
			      u64 cache_bytes, struct tw_alternation_look *look)
{
	tw_look_at_member(members, slot, nr_ready, by_resident, cache_bytes, look);
}

u32 tw_native_hold(struct tw_members *members, u32 held)
{
	return tw_hold(members, held);
}

void tw_native_note_work(struct tw_work *work, const struct tw_members *members, u32 id,
			 const struct tw_counts *counts)
{
	struct tw_counts none = {};

	tw_note_work(work, members, id, counts ? counts : &none, counts);
}

s32 tw_native_find_id(const u32 *ids, u32 id)
{
	return tw_find_id(ids, id);
}

u32 tw_native_looks_for_seat(u32 limit, u64 now_ns, u64 in_vain_at_ns)
{
	return tw_looks_for_seat(limit, now_ns, in_vain_at_ns);
}

u32 tw_native_leaves_seat_for(u32 class, u32 shared, u32 beside_serial)
{
	return tw_leaves_seat_for(class, shared, beside_serial);
}

u64 tw_native_vtime_charge(u64 vtime, u64 ran_ns, u32 weight, u32 capacity)
{
	return tw_vtime_charge(vtime, ran_ns, weight, capacity);
}

u64 tw_native_vtime_advance(u64 vtime, const struct tw_run *run, u64 now, u32 class,
			    const struct tw_tunables *tun)
{
	return tw_vtime_advance(vtime, run, now, class, tun);
}

u64 tw_native_vtime_bound(u64 vtime, const struct tw_run *run, u64 now, u32 class, u32 woke,
			  const struct tw_tunables *tun)
{
	return tw_vtime_bound(vtime, run, now, class, woke, tun);
}

u64 tw_native_clock(u64 now, const struct tw_task *running, u32 weight, u64 light_ago_ns, u32 others_wait,
		    const struct tw_tunables *tun)
{
	return tw_clock(now, running, weight, light_ago_ns, others_wait, tun);
}

u32 tw_native_is_beside_others(const struct tw_task *running, u32 others_wait)
{
	return tw_is_beside_others(running, others_wait);
}

u64 tw_native_weighed_ns(u32 weight, u64 ran_ns)
{
	return tw_weighed_ns(weight, ran_ns);
}

u32 tw_native_mean_weight(u32 before, u64 ran_ns, u64 weighed_ns, u64 in_ns)
{
	return tw_mean_weight(before, ran_ns, weighed_ns, in_ns);
}

u32 tw_native_is_light(u32 weight)
{
	return tw_is_light(weight);
}

u32 tw_native_weight_among(u32 weight, u32 mean)
{
	return tw_weight_among(weight, mean);
}

u32 tw_native_due_beside(const struct tw_task *running, const struct tw_task *waiting, u64 in_ns)
{
	return tw_due_beside(running, waiting, in_ns);
}

u32 tw_native_makes_room(const struct tw_task *running, u32 running_is_bound, u32 waiting_is_bound)
{
	return tw_makes_room(running, running_is_bound, waiting_is_bound);
}

u64 tw_native_makes_way_in(struct tw_task *running, const struct tw_task *waiting, u32 running_bound,
			   u32 waiting_bound, u32 of_one_program, const struct tw_tunables *tun)
{
	struct tw_beside beside = { running_bound, waiting_bound, of_one_program };

	return tw_makes_way_in(running, waiting, &beside, tun);
}

u64 tw_native_slice(u32 others_wait, u32 unequal, u64 look_ns, const struct tw_tunables *tun)
{
	return tw_slice(others_wait, unequal, look_ns, tun);
}

u32 tw_native_goes_on_until_due(u64 due_ns, u32 unequal)
{
	return tw_goes_on_until_due(due_ns, unequal);
}

u32 tw_native_looks_for_better(u32 comes, u32 looked, u32 unequal)
{
	return tw_looks_for_better(comes, looked, unequal);
}

u32 tw_native_search(enum tw_class class, u32 unequal, u32 mode, u32 smt)
{
	return tw_search(class, unequal, mode, smt);
}

u32 tw_native_timer_stopped(const struct tw_timer *timer, u64 now_ns)
{
	return tw_timer_stopped(timer, now_ns);
}

u32 tw_native_timer_hastens(const struct tw_timer *timer, u64 now_ns, u64 in_ns)
{
	return tw_timer_hastens(timer, now_ns, in_ns);
}

u32 tw_native_timer_starts(const struct tw_timer *timer, u64 now_ns, u64 in_ns)
{
	return tw_timer_starts(timer, now_ns, in_ns);
}

u64 tw_native_timer_for(struct tw_timer *timer, const struct tw_task *task, u32 nr_threads, u64 now_ns,
			const struct tw_tunables *tun)
{
	return tw_timer_for(timer, task, nr_threads, now_ns, tun);
}

u64 tw_native_slice_of(u32 class, u64 look_ns, const struct tw_tunables *tun)
{
	return tw_slice_of(class, look_ns, tun);
}

u64 tw_native_slice_beside(u32 class, u64 due_ns, u32 weight, const struct tw_tunables *tun)
{
	return tw_slice_beside(class, due_ns, weight, tun);
}

u64 tw_native_serial_ready_ns(u64 ran_ns, u64 waited_ns)
{
	return tw_serial_ready_ns(ran_ns, waited_ns);
}

u32 tw_native_serial_ready(u32 before, u64 ready_ns, u64 in_ns)
{
	return tw_serial_ready(before, ready_ns, in_ns);
}

u32 tw_native_boost_left(u32 serial_ready, u32 nr_cpus)
{
	return tw_boost_left(serial_ready, nr_cpus);
}

u32 tw_native_crowd_is_due(const struct tw_crowd *crowd, u64 now_ns)
{
	return tw_crowd_is_due(crowd, now_ns);
}

void tw_native_count_crowd(struct tw_crowd *crowd, const struct tw_charged *sums, u64 now_ns, u32 nr_cpus)
{
	tw_count_crowd(crowd, sums, now_ns, nr_cpus);
}

u64 tw_native_boost(u64 boost_ns, u32 nr_waiting, u32 left, const struct tw_tunables *tun)
{
	return tw_boost(boost_ns, nr_waiting, left, tun);
}

u32 tw_native_goes_unboosted(u32 nr_threads, u64 parallel_ago_ns, const struct tw_tunables *tun)
{
	return tw_goes_unboosted(nr_threads, parallel_ago_ns, tun);
}

u32 tw_native_here_ns(u64 ago_ns)
{
	return tw_here_ns(ago_ns);
}

u32 tw_native_waits_us(u64 waits_ns)
{
	return tw_waits_us(waits_ns);
}

u32 tw_native_moves_in_queue(const struct tw_task *task, u64 key, u64 queued_key, u32 all)
{
	return tw_moves_in_queue(task, key, queued_key, all);
}

void tw_native_keys_begin(struct tw_keys *keys, const struct tw_task *task, u32 boost_left)
{
	tw_keys_begin(keys, task, boost_left);
}

void tw_native_keys_renew(struct tw_keys *keys, u32 nr_waiting, u32 boost_left)
{
	tw_keys_renew(keys, nr_waiting, boost_left);
}

u64 tw_native_key_in(const struct tw_keys *keys, const struct tw_task *task, u32 unboosted,
		     const struct tw_tunables *tun)
{
	return tw_key_in(keys, task, unboosted, tun);
}

u32 tw_native_keys_are_stale(const struct tw_keys *keys, u32 nr_waiting, u32 boost_left,
			     const struct tw_tunables *tun)
{
	return tw_keys_are_stale(keys, nr_waiting, boost_left, tun);
}

u64 tw_native_key(const struct tw_task *task, const struct tw_tunables *tun)
{
	return tw_key(task, tun);
}

u32 tw_native_goes_first(const struct tw_task *task, const struct tw_task *other,
			 const struct tw_tunables *tun)
{
	return tw_goes_first(task, other, tun);
}

u32 tw_native_runs_at_once(u32 class)
{
	return tw_runs_at_once(class);
}

u32 tw_native_may_preempt(u32 class)
{
	return tw_may_preempt(class);
}

u32 tw_native_may_take(u32 class, u32 running, u32 wakes, u32 nr_own_threads, const struct tw_tunables *tun)
{
	return tw_may_take(class, running, wakes, nr_own_threads, tun);
}

u32 tw_native_victim_scan(u32 class, u32 nr_cpus)
{
	return tw_victim_scan(class, nr_cpus);
}

u32 tw_native_preempts(const struct tw_task *waking, const struct tw_task *running,
		       const struct tw_tunables *tun)
{
	return tw_preempts(waking, running, tun);
}

u64 tw_native_due_in(const struct tw_task *running, const struct tw_task *waiting,
		     const struct tw_tunables *tun)
{
	return tw_due_in(running, waiting, tun);
}

s64 tw_native_clock_ahead(s64 before_ns, s64 since_ns, s64 read_ns)
{
	return tw_clock_ahead(before_ns, since_ns, read_ns);
}

u32 tw_native_kept_recently(u64 ago_ns, u64 look_ns, const struct tw_tunables *tun)
{
	return tw_kept_recently(ago_ns, look_ns, tun);
}

u64 tw_native_longer_look(u64 timer_ns, u64 cpu_ns)
{
	return tw_longer_look(timer_ns, cpu_ns);
}

u64 tw_native_look_takes(u64 before_ns, u64 took_ns)
{
	return tw_look_takes(before_ns, took_ns);
}

u32 tw_native_just_came(u64 here_ns, const struct tw_tunables *tun)
{
	return tw_just_came(here_ns, tun);
}

u64 tw_native_stays_until(u32 running, u64 here_ns, u64 now, const struct tw_tunables *tun)
{
	return tw_stays_until(running, here_ns, now, tun);
}

u32 tw_native_passed_over(u32 waking, u64 until, u32 nr_parallel, u64 now)
{
	return tw_passed_over(waking, until, nr_parallel, now);
}

u32 tw_native_surely_stays(const struct tw_task *running_at_most, const struct tw_task *waking,
			   const struct tw_tunables *tun)
{
	return tw_surely_stays(running_at_most, waking, tun);
}

u32 tw_native_turns_out(const struct tw_task *running, u32 running_is_bound, u32 waking_is_bound,
			const struct tw_tunables *tun)
{
	return tw_turns_out(running, running_is_bound, waking_is_bound, tun);
}

u64 tw_native_vtime_most(u64 vtime, const struct tw_run *run, u64 now)
{
	return tw_vtime_most(vtime, run, now);
}

u64 tw_native_step(u32 class, u64 age_ns, u64 look_ns, const struct tw_tunables *tun)
{
	return tw_step(class, age_ns, look_ns, tun);
}

u64 tw_native_look_in(const struct tw_task *running, const struct tw_task *waiting, u64 due_ns,
		      const struct tw_tunables *tun)
{
	return tw_look_in(running, waiting, due_ns, tun);
}

u32 tw_native_follows_senior(u32 running)
{
	return tw_follows_senior(running);
}

void tw_native_look_begin(struct tw_look *look, u64 now_ns, u32 nr_cpus)
{
	tw_look_begin(look, now_ns, nr_cpus);
}

u32 tw_native_look_ages(struct tw_look *look)
{
	return tw_look_ages(look);
}

void tw_native_look_has_all(struct tw_look *look)
{
	tw_look_has_all(look);
}

void tw_native_look_disturb(struct tw_look *look)
{
	tw_look_disturb(look);
}

void tw_native_look_found(struct tw_look *look, u32 held)
{
	tw_look_found(look, held);
}

void tw_native_look_waits(struct tw_look *look)
{
	tw_look_waits(look);
}

u32 tw_native_look_due(struct tw_look *look, const struct tw_task *running, const struct tw_task *waiting,
		       u64 in_ns, const struct tw_tunables *tun)
{
	return tw_look_due(look, running, waiting, in_ns, tun);
}

u32 tw_native_look_kick(struct tw_look *look, u32 due, u32 for_foremost)
{
	return tw_look_kick(look, due, for_foremost);
}

void tw_native_look_expect(struct tw_look *look)
{
	tw_look_expect(look);
}

u32 tw_native_look_is_early(struct tw_look *look, u32 went_over)
{
	return tw_look_is_early(look, went_over);
}

u32 tw_native_look_saw_nobody(const struct tw_look *look, u32 nr_cpus)
{
	return tw_look_saw_nobody(look, nr_cpus);
}

u64 tw_native_look_again(struct tw_look *look, u64 shortest_ns, u32 went_over, u32 nr_cpus)
{
	return tw_look_again(look, shortest_ns, went_over, nr_cpus);
}

u32 tw_native_leaves_cache(u32 woke, u64 waits_ns)
{
	return tw_leaves_cache(woke, waits_ns);
}

u64 tw_native_vtime_seen(const struct tw_task *theirs, const struct tw_task *mine, u32 across,
			 const struct tw_tunables *tun)
{
	return tw_vtime_seen(theirs, mine, across, tun);
}

u32 tw_native_yields(const struct tw_task *running, const struct tw_task *waiting,
		     const struct tw_tunables *tun)
{
	return tw_yields(running, waiting, tun);
}

u64 tw_native_cgroup_ready_ns(u64 ran_ns, u64 waited_ns, u64 elapsed_ns)
{
	return tw_cgroup_ready_ns(ran_ns, waited_ns, elapsed_ns);
}

void tw_native_cgroup_begin(struct tw_cgroup *cgroup, u64 ready_sum, u64 load_sum, u64 elapsed_ns)
{
	tw_cgroup_begin(cgroup, ready_sum, load_sum, elapsed_ns);
}

u64 tw_native_cgroup_active(const struct tw_cgroup *cgroup)
{
	return tw_cgroup_active_256(cgroup);
}

u64 tw_native_cgroup_nested(u64 part_16m, const struct tw_cgroup *cgroup, const struct tw_cgroup *parent)
{
	return tw_cgroup_nested(part_16m, cgroup, parent);
}

u64 tw_native_cgroup_share(u64 part_16m, u64 total_256, const struct tw_cgroup *root)
{
	return tw_cgroup_share(part_16m, total_256, root);
}

u32 tw_native_cgroup_weight(u32 nice_weight, const struct tw_cgroup *cgroup, u32 is_root)
{
	return tw_cgroup_weight(nice_weight, cgroup, is_root);
}
