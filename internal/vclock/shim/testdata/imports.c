/* Imports functions of each kind that the preload library does not handle, and some that it does.
 * It is not run. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

static int child(void *arg)
{
	return arg != NULL;
}

int main(int argc, char **argv)
{
	char stack[4096];
	struct tms tms;
	sleep(1);
	return flock(argc, LOCK_EX) + (int)times(&tms) + clone(child, stack + sizeof stack, 0, NULL) +
	       tgkill(argc, argc, 0) + (int)syscall(SYS_getpid) + (int)a64l(argv[0]) + (int)time(NULL);
}
