/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * corespeed: a QEMU TCG plugin that gives each virtual CPU its speed, in instructions per second.
 *
 * Every translation block adds its instructions to its vCPU's count. When the count reaches a
 * quantum, the vCPU's own clock moves on by what these instructions take at its rate, and the vCPU
 * sleeps until that time has come. An idle vCPU saves nothing up: when it resumes, its clock is
 * now.
 *
 * While a vCPU is behind its clock because the host has not run it, the machine's time stands still
 * (clock.h), for all vCPUs and timers, until it has caught up: a slow or disturbed host makes a run longer
 * and changes little in it. Where time goes on, a vCPU may catch up so much (CATCH_UP_NS); what goes beyond
 * is lost, is counted as lost, and voids the measurement.
 *
 * With caches= it looks at memory accesses too. Each vCPU has a first-level cache, each group of vCPUs a
 * last-level cache (cache.h), of which one set in N is modelled; what misses both there stands for N misses,
 * and the vCPU stands still for as long as these take. Without it no access is looked at.
 *
 * Arguments: rates=K0:K1:... (thousands of instructions per second, one a vCPU),
 *            stats=FILE (struct shared, mapped for the lab to read the counters and set the speeds in force),
 *            quantum=N (instructions, default 20000),
 *            still=0 (time goes on while the host is late, as it does where QEMU's clock cannot be stopped),
 *            groupsL=G0:G1:... (of level L, 0 to 3, innermost first: the pipe or core of each vCPU),
 *            gainL=N (what each further unit of it that runs adds to its speed, in percent),
 *            clocksL=C0:C1:... (the clock of level L's units while one, two, ... of them run; the last for
 * all more), caches=G0:G1:... (the last-level cache of each vCPU), sizes=B0:B1:... (bytes of each of these
 * caches), latency=P (picoseconds that a miss takes), sample=N (one set in N is modelled, a power of two up
 * to 64; default 16), profile=FILE (struct profile: how often each translation block ran while speeds were in
 * force).
 *
 * QEMU's header is not packaged, so what is used of plugin API version 4 (QEMU 9.1 and later,
 * include/qemu/qemu-plugin.h, docs/devel/tcg-plugins.rst) is declared here.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "cache.h"
#include "clock.h"

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_plugin_hwaddr;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;
typedef struct {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	struct {
		int smp_vcpus;
		int max_vcpus;
	} system;
} qemu_info_t;
enum { QEMU_PLUGIN_INLINE_ADD_U64 = 0 };
enum { QEMU_PLUGIN_CB_NO_REGS = 0 };
enum { QEMU_PLUGIN_COND_GE = 7 };
enum { QEMU_PLUGIN_MEM_RW = 3 };
typedef void (*vcpu_cb)(qemu_plugin_id_t id, unsigned int vcpu);
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, vcpu_cb cb);
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t id, vcpu_cb cb);
void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t id, vcpu_cb cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb, int op,
						       qemu_plugin_u64 entry, uint64_t imm);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *tb,
					       void (*cb)(unsigned int vcpu, void *data), int flags, int cond,
					       qemu_plugin_u64 entry, uint64_t imm, void *data);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*cb)(unsigned int vcpu, void *data), int flags, void *data);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest, size_t len);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      void (*cb)(unsigned int vcpu, qemu_plugin_meminfo_t info,
						 uint64_t address, void *data),
				      int flags, int rw, void *data);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *where);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *where);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int vcpu);
/*
 * Exported as what clock.h declares: a vCPU, and whether it was woken (cpu-common.c,
 * hw/core/cpu-system.c).
 */
struct CPUState;
__attribute__((weak)) struct CPUState *qemu_get_cpu(int index);
__attribute__((weak)) bool cpu_has_work(struct CPUState *cpu);

__attribute__((visibility("default"))) int qemu_plugin_version = 4;

#define MAX_VCPUS  256
#define MAX_LEVELS 4
#define PS_PER_NS  1000ULL
/* How far behind its clock a vCPU may be and still catch up, where time goes on and where it stands still. */
#define CATCH_UP_NS	  4000000ULL
#define CATCH_UP_STILL_NS 50000000ULL
/* What is less late than this disturbs nobody: programs of the lab meet every few milliseconds. */
#define LATE_PS (400000 * PS_PER_NS)
/*
 * PAUSE leaves the translated code, which is dear for the host, and takes some 40 to 140 cycles on
 * current x86 processors too (Intel SDM vol. 2; Skylake made it longer): charge it as that many.
 */
#define PAUSE_INSNS 60
/*
 * What is between a vCPU and its last-level cache: 32 KiB of eight ways, the data cache of most x86
 * processors since 2006. Without it the lines of the stack, which never get so far, would keep others from
 * the last-level cache.
 */
#define FIRST_LEVEL_BYTES 32768
#define FIRST_LEVEL_WAYS  8
#define LAST_LEVEL_WAYS	  16
/* How long to spin for a set before the host is asked for another thread: who has it may have lost its CPU.
 */
#define SPINS 200

/* What the lab reads: one a vCPU. */
struct counters {
	uint64_t instructions;
	uint64_t quanta;
	/* Quanta that ended later than by another quantum, or LATE_PS if that is more. */
	uint64_t late_quanta;
	/* Time that the vCPU was entitled to run and did not get, beyond what it could catch up. */
	uint64_t lost_ns;
	/* What the executed instructions take at the vCPU's rate, and the misses. */
	uint64_t busy_ns;
	/* Accesses that got as far as the last-level cache, those that missed it, and what these took. */
	uint64_t llc_accesses;
	uint64_t llc_misses;
	uint64_t stalled_ns;
};

/* What is shared with the lab. The layout is that of crates/lab/src/governor.rs. */
struct shared {
	struct counters vcpus[MAX_VCPUS];
	struct clock_page clock;
};

/* Blocks in a profile; translations beyond that are counted, but not profiled. */
#define MAX_BLOCKS (1 << 20)

/* What the lab reads when it asked for a profile. The layout is that of crates/lab/src/profile.rs. */
struct profile {
	uint64_t nr_blocks;
	/* A block that is translated again is another. */
	struct block {
		uint64_t address;
		uint64_t nr_insns;
		uint64_t nr_runs;
	} blocks[MAX_BLOCKS];
};

/* The governor's own state of a vCPU; only its thread changes it. */
struct vcpu {
	/* Others look at this one, and whether it runs. */
	uint64_t clock_ps;
	uint64_t ps_per_insn;
	/* By level. */
	uint32_t groups[MAX_LEVELS];
	/* Whether it counts among those that run. */
	bool running;
	/* Whether it had no speed when it last asked. */
	bool was_free;
	/* QEMU's own, once the vCPU has started. */
	struct CPUState *cpu;
	/* What misses took since the clock was brought up last, and as what they count there towards the
	 * quantum. */
	uint64_t stall_ps;
	uint64_t stall_insns;
	/* As what a sampled miss counts towards the quantum. */
	uint64_t insns_per_miss;
	struct cache first_level;
	/* Shared with others. */
	struct cache *last_level;
};

struct count {
	/* Executed, and those that misses count as. */
	uint64_t insns;
};

static struct vcpu vcpus[MAX_VCPUS];
static struct shared unshared = { .clock.governed = 1 };
static struct shared *shared = &unshared;
static struct profile *profile;
static struct qemu_plugin_scoreboard *counts;
static uint64_t quantum = 20000;
static unsigned int nr_watched;
static bool may_stand_still = true;
/* Levels whose units share their speed. */
static unsigned int nr_levels;
/* Units that run, by level and group. */
static uint32_t nr_running[MAX_LEVELS][MAX_VCPUS];
/* How much longer an instruction takes where so many of a group's units run, in thousandths. */
static uint64_t slowdown[MAX_LEVELS][MAX_VCPUS + 1];
/* Whether caches are modelled, and one set in how many. */
static bool has_caches;
static uint32_t one_in = 16;
static uint64_t latency_ps;
static struct cache last_levels[MAX_VCPUS];

static uint64_t now_ps(void)
{
	return clock_ns() * PS_PER_NS;
}

static void set_clock(unsigned int index, uint64_t ps)
{
	__atomic_store_n(&vcpus[index].clock_ps, ps, __ATOMIC_RELAXED);
}

/*
 * A group that others keep running is the same unit further out. Whoever makes it run says so there before it
 * can stop, so no count falls below the truth.
 */
static void set_running(unsigned int index, bool running)
{
	if (vcpus[index].running == running)
		return;
	__atomic_store_n(&vcpus[index].running, running, __ATOMIC_RELEASE);
	for (unsigned int level = 0; level < nr_levels; level++) {
		uint32_t *nr = &nr_running[level][vcpus[index].groups[level]];
		uint32_t others = __atomic_fetch_add(nr, running ? 1 : -1, __ATOMIC_RELAXED) - !running;

		if (others > 0)
			break;
	}
}

/*
 * What so many instructions take now. Pipes and cores count as shared by as many as run on them now; that may
 * have been otherwise at the start of a quantum, as often more as less.
 */
static uint64_t takes_ps(unsigned int index, uint64_t insns)
{
	const struct vcpu *vcpu = &vcpus[index];
	uint64_t ps = insns * vcpu->ps_per_insn;

	for (unsigned int level = 0; level < nr_levels; level++) {
		uint32_t *nr = &nr_running[level][vcpu->groups[level]];

		ps = ps * slowdown[level][__atomic_load_n(nr, __ATOMIC_RELAXED)] / 1000;
	}
	return ps;
}

/* Brings the vCPU's clock up to what it executed, and says what that takes. */
static uint64_t settle(unsigned int index)
{
	struct count *count = qemu_plugin_scoreboard_find(counts, index);
	struct counters *c = &shared->vcpus[index];
	struct vcpu *vcpu = &vcpus[index];
	uint64_t insns = count->insns - vcpu->stall_insns;
	/* Memory knows nothing of pipes, cores and their clocks. */
	uint64_t took_ps = takes_ps(index, insns) + vcpu->stall_ps;

	c->instructions += insns;
	c->busy_ns += took_ps / PS_PER_NS;
	c->stalled_ns += vcpu->stall_ps / PS_PER_NS;
	count->insns = vcpu->stall_insns = vcpu->stall_ps = 0;
	set_clock(index, vcpu->clock_ps + took_ps);
	return took_ps;
}

/* Writes off what cannot be caught up. */
static void write_off(unsigned int index, uint64_t now)
{
	uint64_t catch_up = (timekeeper.has_standstill ? CATCH_UP_STILL_NS : CATCH_UP_NS) * PS_PER_NS;
	uint64_t clock = vcpus[index].clock_ps;

	if (clock + catch_up >= now)
		return;
	shared->vcpus[index].lost_ns += (now - catch_up - clock) / PS_PER_NS;
	set_clock(index, now - catch_up);
}

/* Whether the vCPU has had no speed. It begins with what it does from here on when it gets one. */
static bool is_free(unsigned int index)
{
	struct count *count = qemu_plugin_scoreboard_find(counts, index);
	bool governed = __atomic_load_n(&shared->clock.governed, __ATOMIC_RELAXED);

	if (governed && !vcpus[index].was_free)
		return false;
	vcpus[index].was_free = !governed;
	count->insns = vcpus[index].stall_insns = vcpus[index].stall_ps = 0;
	set_clock(index, now_ps());
	return true;
}

static void quantum_over(unsigned int index, void *data)
{
	uint64_t took_ps, now;

	(void)data;
	set_running(index, true);
	if (is_free(index))
		return;
	took_ps = settle(index);
	now = now_ps();
	shared->vcpus[index].quanta++;
	if (vcpus[index].clock_ps > now) {
		clock_wait_until(vcpus[index].clock_ps / PS_PER_NS);
		return;
	}
	if (now - vcpus[index].clock_ps > (took_ps > LATE_PS ? took_ps : LATE_PS))
		shared->vcpus[index].late_quanta++;
	write_off(index, now);
}

/* The cost of a block in instructions of ordinary length. */
static uint64_t cost_of(const struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	uint64_t cost = n;
	uint8_t bytes[2];

	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_data(insn, bytes, sizeof(bytes)) == 2 && bytes[0] == 0xf3 &&
		    bytes[1] == 0x90)
			cost += PAUSE_INSNS - 1;
	}
	return cost;
}

static void block_ran(unsigned int index, void *data)
{
	struct block *block = data;

	(void)index;
	if (__atomic_load_n(&shared->clock.governed, __ATOMIC_RELAXED))
		__atomic_fetch_add(&block->nr_runs, 1, __ATOMIC_RELAXED);
}

static void profile_block(struct qemu_plugin_tb *tb)
{
	uint64_t index = __atomic_fetch_add(&profile->nr_blocks, 1, __ATOMIC_RELAXED);
	struct block *block;

	if (index >= MAX_BLOCKS)
		return;
	block = &profile->blocks[index];
	block->address = qemu_plugin_tb_vaddr(tb);
	block->nr_insns = qemu_plugin_tb_n_insns(tb);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_ran, QEMU_PLUGIN_CB_NO_REGS, block);
}

static bool use_shared(struct cache *cache, uint64_t line)
{
	struct cache_set *set = cache_set_of(cache, line);
	bool hit;

	for (unsigned int spins = 0; __atomic_exchange_n(&set->locked, 1, __ATOMIC_ACQUIRE); spins++)
		if (spins % SPINS == SPINS - 1)
			sched_yield();
	hit = cache_use(set, cache->nr_ways, line);
	__atomic_store_n(&set->locked, 0, __ATOMIC_RELEASE);
	return hit;
}

/* The vCPU is to stand still for a miss; what that counts towards the quantum ends it the earlier. */
static void miss(unsigned int index)
{
	struct count *count = qemu_plugin_scoreboard_find(counts, index);
	struct vcpu *vcpu = &vcpus[index];

	shared->vcpus[index].llc_misses += one_in;
	vcpu->stall_ps += one_in * latency_ps;
	vcpu->stall_insns += vcpu->insns_per_miss;
	count->insns += vcpu->insns_per_miss;
}

static void memory_accessed(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct vcpu *vcpu = &vcpus[index];
	const struct qemu_plugin_hwaddr *where;
	uint64_t line;

	(void)data;
	if (!cache_is_sampled(address, one_in) || !__atomic_load_n(&shared->clock.governed, __ATOMIC_RELAXED))
		return;
	where = qemu_plugin_get_hwaddr(info, address);
	if (!where || qemu_plugin_hwaddr_is_io(where))
		return;
	line = qemu_plugin_hwaddr_phys_addr(where) / LINE_BYTES;
	if (cache_use(cache_set_of(&vcpu->first_level, line), FIRST_LEVEL_WAYS, line))
		return;
	shared->vcpus[index].llc_accesses += one_in;
	if (!use_shared(vcpu->last_level, line))
		miss(index);
}

static void look_at_memory(struct qemu_plugin_tb *tb)
{
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++)
		qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), memory_accessed,
						 QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

static void block_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	qemu_plugin_u64 entry = { .score = counts, .offset = 0 };

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, entry, cost_of(tb));
	qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, quantum_over, QEMU_PLUGIN_CB_NO_REGS,
						  QEMU_PLUGIN_COND_GE, entry, quantum, NULL);
	if (has_caches)
		look_at_memory(tb);
	if (profile)
		profile_block(tb);
}

static void vcpu_started(qemu_plugin_id_t id, unsigned int index)
{
	(void)id;
	/* The host rounds sleeps up by this much, 50 us by default. This runs in the vCPU's thread. */
	prctl(PR_SET_TIMERSLACK, 1);
	set_clock(index, now_ps());
	if (qemu_get_cpu)
		__atomic_store_n(&vcpus[index].cpu, qemu_get_cpu((int)index), __ATOMIC_RELEASE);
}

/* It waits for an interrupt. What it did late until now was late for whoever waited for it. */
static void vcpu_idle(qemu_plugin_id_t id, unsigned int index)
{
	(void)id;
	if (!is_free(index)) {
		settle(index);
		write_off(index, now_ps());
	}
	set_running(index, false);
}

static void vcpu_resumed(qemu_plugin_id_t id, unsigned int index)
{
	uint64_t now = now_ps();

	(void)id;
	if (vcpus[index].clock_ps < now)
		set_clock(index, now);
	/* After that: whoever sees it run sees a clock that is not behind. */
	set_running(index, true);
}

/*
 * Whether a vCPU should be through with half its quantum by now and is not through with any, or was woken and
 * does not run yet. On a quiet host it executes a quantum at once, in a fraction of the time that this takes
 * at its rate.
 */
static bool is_behind(unsigned int index, uint64_t now)
{
	const struct vcpu *vcpu = &vcpus[index];
	struct CPUState *cpu = __atomic_load_n(&vcpu->cpu, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&vcpu->running, __ATOMIC_ACQUIRE))
		return __atomic_load_n(&vcpu->clock_ps, __ATOMIC_RELAXED) + takes_ps(index, quantum) / 2 <
		       now;
	return cpu && cpu_has_work && cpu_has_work(cpu);
}

static bool is_anyone_behind(void)
{
	uint64_t now = now_ps();

	for (unsigned int i = 0; i < nr_watched; i++)
		if (is_behind(i, now))
			return true;
	return false;
}

static int fail(const char *what, const char *value)
{
	fprintf(stderr, "corespeed: %s: %s\n", what, value);
	return -1;
}

static int parse_rates(const char *text, int nr_vcpus)
{
	char *end;

	for (int i = 0; i < nr_vcpus; i++) {
		unsigned long kips = strtoul(text, &end, 10);

		if (end == text || kips < 100 || kips > 100000000)
			return fail("rates= needs a rate of 100 to 100000000 for each vCPU", text);
		vcpus[i].ps_per_insn = 1000000000 / kips;
		text = *end == ':' ? end + 1 : end;
	}
	return *text ? fail("rates= names more vCPUs than there are", text) : 0;
}

static int parse_groups(unsigned int level, const char *text, int nr_vcpus)
{
	char *end;

	for (int i = 0; i < nr_vcpus; i++) {
		unsigned long group = strtoul(text, &end, 10);

		if (end == text || group >= MAX_VCPUS)
			return fail("groups needs a group below 256 for each vCPU", text);
		vcpus[i].groups[level] = group;
		text = *end == ':' ? end + 1 : end;
	}
	if (nr_levels <= level)
		nr_levels = level + 1;
	return *text ? fail("groups names more vCPUs than there are", text) : 0;
}

static int parse_gain(unsigned int level, const char *text)
{
	char *end;
	unsigned long gain = strtoul(text, &end, 10);

	if (end == text || *end || gain > 100)
		return fail("gain needs 0 to 100 percent", text);
	for (uint64_t nr = 1; nr <= MAX_VCPUS; nr++)
		slowdown[level][nr] = nr * 1000 * 100 / (100 + (nr - 1) * gain);
	return 0;
}

static int parse_clocks(unsigned int level, const char *text)
{
	unsigned long first = 0, clock = 0;
	char *end;

	for (uint64_t nr = 1; nr <= MAX_VCPUS; nr++) {
		if (nr == 1 || *text) {
			clock = strtoul(text, &end, 10);
			if (end == text || !clock || clock > 1000000)
				return fail("clocks needs clocks of 1 to 1000000", text);
			text = *end == ':' ? end + 1 : end;
		}
		if (!first)
			first = clock;
		slowdown[level][nr] = first * 1000 / clock;
	}
	return 0;
}

/* Which of the last-level caches is whose; parse_sizes() makes them. */
static int parse_caches(const char *text, int nr_vcpus)
{
	char *end;

	for (int i = 0; i < nr_vcpus; i++) {
		unsigned long group = strtoul(text, &end, 10);

		if (end == text || group >= MAX_VCPUS)
			return fail("caches= needs a group below 256 for each vCPU", text);
		vcpus[i].last_level = &last_levels[group];
		text = *end == ':' ? end + 1 : end;
	}
	has_caches = true;
	return *text ? fail("caches= names more vCPUs than there are", text) : 0;
}

/* sample= comes before. */
static int parse_sizes(const char *text)
{
	char *end;

	for (int i = 0; i < MAX_VCPUS && *text; i++) {
		unsigned long long bytes = strtoull(text, &end, 10);

		if (end == text || bytes < (1 << 12) || bytes > (1ULL << 36))
			return fail("sizes= needs 4096 to 2^36 bytes for each cache", text);
		if (!cache_make(&last_levels[i], bytes, LAST_LEVEL_WAYS, one_in))
			return fail("no memory for a cache of", text);
		text = *end == ':' ? end + 1 : end;
	}
	return 0;
}

static int parse_sample(const char *text)
{
	one_in = (uint32_t)strtoul(text, NULL, 10);
	if (!one_in || one_in > LINES_OF_PAGE || (one_in & (one_in - 1)))
		return fail("sample= needs a power of two up to 64", text);
	return 0;
}

/* What the arguments say of caches, made into caches. */
static int prepare_caches(int nr_vcpus)
{
	if (!latency_ps)
		return fail("caches= needs", "latency=P");
	for (int i = 0; i < nr_vcpus; i++) {
		vcpus[i].insns_per_miss = one_in * latency_ps / vcpus[i].ps_per_insn;
		if (!vcpus[i].last_level->sets)
			return fail("caches= needs", "sizes=B0:B1:...");
		if (!cache_make(&vcpus[i].first_level, FIRST_LEVEL_BYTES, FIRST_LEVEL_WAYS, one_in))
			return fail("no memory for", "first-level caches");
	}
	return 0;
}

/* The value of an argument such as gain1=50 and its level, or NULL. */
static const char *of_level(const char *argument, const char *name, unsigned int *level)
{
	size_t length = strlen(name);

	if (strncmp(argument, name, length) || argument[length] < '0' ||
	    argument[length] >= '0' + MAX_LEVELS || argument[length + 1] != '=')
		return NULL;
	*level = (unsigned int)(argument[length] - '0');
	return argument + length + 2;
}

/* A file of this size in memory, or NULL. */
static void *map_file(const char *path, size_t size)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	void *map;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		fail("cannot create", path);
		return NULL;
	}
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		return map;
	fail("cannot map", path);
	return NULL;
}

/* Of a cache; 1 if it is none of those. */
static int parse_cache_argument(const char *argument, int nr_vcpus)
{
	if (!strncmp(argument, "caches=", 7))
		return parse_caches(argument + 7, nr_vcpus);
	if (!strncmp(argument, "sample=", 7))
		return parse_sample(argument + 7);
	if (!strncmp(argument, "sizes=", 6))
		return parse_sizes(argument + 6);
	if (strncmp(argument, "latency=", 8))
		return 1;
	latency_ps = strtoull(argument + 8, NULL, 10);
	if (!latency_ps || latency_ps > 1000000000000)
		return fail("latency= needs 1 to 10^12 picoseconds", argument);
	return 0;
}

static int parse_argument(const char *argument, int nr_vcpus)
{
	unsigned int level;
	const char *value;
	int parsed;

	if (!strncmp(argument, "rates=", 6))
		return parse_rates(argument + 6, nr_vcpus);
	if (!strncmp(argument, "stats=", 6)) {
		shared = map_file(argument + 6, sizeof(*shared));
		return shared ? 0 : -1;
	}
	if (!strncmp(argument, "profile=", 8)) {
		profile = map_file(argument + 8, sizeof(*profile));
		return profile ? 0 : -1;
	}
	if (!strncmp(argument, "quantum=", 8)) {
		quantum = strtoull(argument + 8, NULL, 10);
		if (quantum < 1000 || quantum > 10000000)
			return fail("quantum= needs 1000 to 10000000 instructions", argument);
		return 0;
	}
	if (!strcmp(argument, "still=0")) {
		may_stand_still = false;
		return 0;
	}
	if ((value = of_level(argument, "groups", &level)))
		return parse_groups(level, value, nr_vcpus);
	if ((value = of_level(argument, "gain", &level)))
		return parse_gain(level, value);
	if ((value = of_level(argument, "clocks", &level)))
		return parse_clocks(level, value);
	parsed = parse_cache_argument(argument, nr_vcpus);
	return parsed > 0 ? fail("unknown argument", argument) : parsed;
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
							       int argc, char **argv)
{
	for (unsigned int level = 0; level < MAX_LEVELS; level++)
		for (uint32_t i = 0; i <= MAX_VCPUS; i++)
			slowdown[level][i] = 1000;
	if (!info->system_emulation || info->system.max_vcpus > MAX_VCPUS)
		return fail("needs a whole machine of at most 256 vCPUs", info->target_name);
	for (int i = 0; i < argc; i++)
		if (parse_argument(argv[i], info->system.max_vcpus) < 0)
			return -1;
	if (!vcpus[0].ps_per_insn)
		return fail("needs", "rates=K0:K1:...");
	if (has_caches && prepare_caches(info->system.max_vcpus) < 0)
		return -1;
	counts = qemu_plugin_scoreboard_new(sizeof(struct count));
	nr_watched = (unsigned int)info->system.smp_vcpus;
	if (clock_start(&shared->clock, may_stand_still, is_anyone_behind))
		return fail("cannot start", "a thread");
	qemu_plugin_register_vcpu_init_cb(id, vcpu_started);
	qemu_plugin_register_vcpu_idle_cb(id, vcpu_idle);
	qemu_plugin_register_vcpu_resume_cb(id, vcpu_resumed);
	qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
	return 0;
}
