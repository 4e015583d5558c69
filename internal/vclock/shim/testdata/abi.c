/* Prints the layout and the constants of abi.h, for abi_test.go. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>

#include "../abi.h"

#define FIELD(type, name) \
	printf(#type "." #name " %zu %zu\n", offsetof(struct rmr_##type, name), sizeof(((struct rmr_##type *)0)->name))
#define CONSTANT(name, value) printf(name " %lld\n", (long long)(value))

int main(void)
{
	FIELD(clock, magic);
	FIELD(clock, version);
	FIELD(clock, slots);
	FIELD(clock, slot_size);
	FIELD(clock, driver_ip);
	FIELD(clock, driver_port);
	FIELD(clock, own_address);
	FIELD(clock, fifo_dev);
	FIELD(clock, fifo_ino);
	FIELD(clock, now);
	FIELD(clock, limit);
	FIELD(clock, busy);
	FIELD(clock, lock);
	FIELD(clock, epoch);
	FIELD(clock, verified);
	FIELD(clock, inbox);
	FIELD(clock, driver_word);
	FIELD(clock, driver_waiting);
	FIELD(clock, used);
	FIELD(clock, signals);
	FIELD(clock, steps);
	FIELD(clock, writers);
	FIELD(clock, factor);
	FIELD(clock, charged);
	FIELD(clock, connecting);
	FIELD(clock, home);
	FIELD(clock, cpus);
	FIELD(clock, inherited);
	FIELD(clock, ports);
	FIELD(clock, slot);
	FIELD(clock, link);
	FIELD(slot, state);
	FIELD(slot, pid);
	FIELD(slot, tid);
	FIELD(slot, why);
	FIELD(slot, deadline);
	FIELD(slot, object);
	FIELD(link, state);
	FIELD(link, from_ip);
	FIELD(link, to_ip);
	FIELD(link, ports);
	CONSTANT("sizeof clock", sizeof(struct rmr_clock));
	CONSTANT("sizeof slot", sizeof(struct rmr_slot));
	CONSTANT("magic", RMR_ABI_MAGIC);
	CONSTANT("version", RMR_ABI_VERSION);
	CONSTANT("slots", RMR_SLOTS);
	CONSTANT("inherited", RMR_INHERITED);
	CONSTANT("links", RMR_LINKS);
	CONSTANT("link reach", RMR_LINK_REACH);
	CONSTANT("never", RMR_NEVER);
	CONSTANT("free", RMR_FREE);
	CONSTANT("running", RMR_RUNNING);
	CONSTANT("slot", RMR_SLOT);
	CONSTANT("kernel", RMR_KERNEL);
	CONSTANT("exiting", RMR_EXITING);
	CONSTANT("poll", RMR_WHY_POLL);
	CONSTANT("signal", RMR_WHY_SIGNAL);
	CONSTANT("outside", RMR_WHY_OUTSIDE);
	CONSTANT("write", RMR_WHY_WRITE);
	CONSTANT("stream", RMR_WHY_STREAM);
	CONSTANT("reasons", RMR_WHY_TIMER + 1);
	CONSTANT("wake signal", SIGRTMIN + 5);
	return 0;
}
