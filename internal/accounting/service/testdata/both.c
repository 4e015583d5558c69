/* A plugin in the place of jobcomp/filetxt, for tests: it passes every call on to the stock
 * jobcomp/filetxt, from which a replay learns of the ends of jobs, and to the stock
 * jobcomp/elasticsearch. slurmctld loads one plugin of the kind.
 *
 * FILETXT and ELASTICSEARCH are the paths of the stock plugins, LOCATION is the JobCompLoc of the
 * second one, and VERSION is Slurm's: slurmctld loads no plugin of another version. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

const char plugin_name[] = "jobcomp/filetxt and jobcomp/elasticsearch";
const char plugin_type[] = "jobcomp/filetxt";
const uint32_t plugin_version = VERSION;

static void *plugins[2];

static void *stock(const char *path)
{
	void *plugin = dlopen(path, RTLD_LAZY);
	if (!plugin) {
		fprintf(stderr, "both: %s\n", dlerror());
		abort();
	}
	return plugin;
}

__attribute__((constructor)) static void load(void)
{
	plugins[0] = stock(FILETXT);
	plugins[1] = stock(ELASTICSEARCH);
}

/* location_in_conf returns the place of JobCompLoc in slurmctld's slurm_conf, whose layout differs
 * from release to release. The test's value ends in /jobcomp.pipe, and no other does. */
static char **location_in_conf(void)
{
	static const char end[] = "/jobcomp.pipe";
	Dl_info about;
	const ElfW(Sym) *symbol = NULL;
	char *conf = dlsym(RTLD_DEFAULT, "slurm_conf");
	if (!conf || !dladdr1(conf, &about, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return NULL;
	for (size_t at = 0; at + sizeof(char *) <= symbol->st_size; at += sizeof(char *)) {
		char **place = (char **)(conf + at);
		char text[4096] = "";
		struct iovec to = {text, sizeof text - 1}, from = {*place, 0};
		/* Whether a word is the address of a text, only the kernel knows. It reads up to the
		 * end of a page. */
		from.iov_len = 4096 - ((uintptr_t)*place & 4095);
		if (!*place || process_vm_readv(getpid(), &to, 1, &from, 1, 0) <= 0)
			continue;
		size_t n = strnlen(text, sizeof text);
		if (n >= sizeof end && !strcmp(text + n - strlen(end), end))
			return place;
	}
	return NULL;
}

static int first_of(const char *name)
{
	int (*call)(void) = (int (*)(void))dlsym(plugins[0], name);
	return call ? call() : 0;
}

int init(void)
{
	first_of("init");
	int (*call)(void) = (int (*)(void))dlsym(plugins[1], "init");
	call();
	return 0;
}

int fini(void)
{
	first_of("fini");
	int (*call)(void) = (int (*)(void))dlsym(plugins[1], "fini");
	call();
	return 0;
}

/* 22.05 gives the location to the plugin; newer releases let the plugin read slurm_conf. */
int jobcomp_p_set_location(char *location)
{
	typedef int set_location(char *);
	static char url[] = LOCATION;
	int failed = ((set_location *)dlsym(plugins[0], "jobcomp_p_set_location"))(location);
	char **place = location_in_conf(), *kept = place ? *place : NULL;
	if (place)
		*place = url;
	failed |= ((set_location *)dlsym(plugins[1], "jobcomp_p_set_location"))(url);
	if (place)
		*place = kept;
	return failed;
}

static int both(const char *name, void *job, uint32_t event)
{
	int failed = 0;
	for (int i = 0; i < 2; i++) {
		int (*call)(void *, uint32_t) = (int (*)(void *, uint32_t))dlsym(plugins[i], name);
		failed |= call ? call(job, event) : 0;
	}
	return failed;
}

int jobcomp_p_log_record(void *job) { return both("jobcomp_p_log_record", job, 0); }
int jobcomp_p_record_job_end(void *job, uint32_t event) { return both("jobcomp_p_record_job_end", job, event); }
int jobcomp_p_record_job_start(void *job, uint32_t event) { return both("jobcomp_p_record_job_start", job, event); }

void *jobcomp_p_get_jobs(void *condition)
{
	void *(*call)(void *) = (void *(*)(void *))dlsym(plugins[0], "jobcomp_p_get_jobs");
	return call(condition);
}
