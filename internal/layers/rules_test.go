package layers

// computes are the imports of packages that need files, processes, the environment or the
// network. A package that only computes has none of them: its callers do that for it.
var computes = []string{"os/...", "net", "net/http/...", "golang.org/x/sys/..."}

// offline packages may read files. They use no network.
var offline = []string{"net", "net/http/..."}

// reserved are imports that only some packages may have.
var reserved = []reservation{
	{"github.com/spf13/cobra/...", []string{"internal/cli", "internal/cli/reference", "internal/cli/slurmcmd"}, "commands and their help belong to internal/cli"},
	{"github.com/spf13/pflag", []string{"internal/cli", "internal/cli/reference", "internal/flags", "tools/feedbackpaper"}, "flags belong to commands"},
	{"github.com/go-sql-driver/mysql", []string{"internal/slurmdb"}, "one package reads slurmdbd's database"},
	{"github.com/parquet-go/parquet-go/...", []string{"internal/run"}, "one package knows how a record lies on disk"},
}

// rules has one rule for each package or family of packages, from the bottom to the top. A
// package may import the packages that its rule names, which stand above it in this list; a
// name that ends in /... stands for a package and for those below it. Every package has exactly
// one rule, and every rule and every name in it matches a package.
var rules = []rule{
	{"nouns", "internal/hpc", nil, computes,
		"every package speaks in these nouns, so they can need none of the packages"},
	{"nouns", "internal/realdata", nil, offline,
		"tests find real data without knowing anything else"},
	{"nouns", "internal/hpc/hpctest", []string{"internal/hpc"}, computes,
		"tests of every package draw the same random jobs"},
	{"nouns", "internal/spelling", nil, computes,
		"the nearest name is found among any names"},
	{"nouns", "internal/hostlist", nil, computes,
		"host lists are a notation and know nothing of clusters"},
	{"nouns", "internal/lines", nil, computes,
		"lines of text are read before anybody knows what they mean"},
	{"nouns", "internal/resources", nil, offline,
		"what a machine gives is known before anybody says what a replay needs"},
	{"nouns", "internal/packed", nil, computes,
		"a store packs any structs and knows nothing of what they stand for"},
	{"nouns", "internal/stats", nil, computes,
		"statistics are about numbers; the caller knows what they measure"},
	{"nouns", "internal/agenda", []string{"internal/hpc"}, computes,
		"an agenda orders whatever is due and knows nothing of what it is"},
	{"nouns", "internal/slurmspec/...", []string{"internal/hpc", "internal/hostlist", "internal/spelling"}, computes,
		"Slurm's vocabulary is a leaf: every package that reads or writes it can import it"},
	{"nouns", "internal/flags", []string{"internal/hpc", "internal/spelling"}, computes,
		"flags are read alike by the program and by its tools"},
	{"nouns", "internal/quantity", []string{"internal/hpc"}, computes,
		"numbers, durations and dates are written for people in one format"},
	{"nouns", "internal/output", nil, offline,
		"files are written alike by every command, whatever they hold"},

	{"processes", "internal/interrupt", nil, offline,
		"signals end any command; it must not know what commands do"},
	{"processes", "internal/vclock/...", []string{"internal/hpc"}, nil,
		"the clock serves any programs; it must not know of Slurm or of jobs"},
	{"processes", "internal/supervise", nil, nil,
		"the guard serves any programs; it must not know of Slurm or of jobs"},
	{"processes", "internal/slurmstore", []string{"internal/interrupt", "internal/slurmspec/..."}, offline,
		"a release is a directory; its use in a replay is the engine's concern, and apt has the network"},

	{"workload", "internal/jobjson", []string{"internal/hpc", "internal/packed", "internal/spelling"}, computes,
		"the JSON of a job is the same for every file that has one"},
	{"workload", "internal/workload", []string{"internal/hpc", "internal/hostlist", "internal/jobjson", "internal/lines", "internal/packed", "internal/slurmspec/..."}, offline,
		"a workload is what happens from outside; it needs no format, resource manager or record"},
	{"workload", "internal/workload/arrays", []string{"internal/hpc", "internal/slurmspec/...", "internal/workload"}, computes,
		"an array is split into jobs whatever format it was read from"},
	{"workload", "internal/workload/session", []string{"internal/hpc", "internal/workload"}, computes,
		"sessions are a function of a workload"},
	{"workload", "internal/workload/transform", []string{"internal/hpc", "internal/hostlist", "internal/slurmspec/...", "internal/workload", "internal/workload/arrays"}, offline,
		"a transformation is a function of workloads"},
	{"workload", "internal/workload/chart", []string{"internal/hpc", "internal/output", "internal/workload"}, offline,
		"charts show a workload"},

	{"formats", "internal/finished", []string{"internal/hpc", "internal/lines", "internal/slurmspec/...", "internal/workload", "internal/workload/arrays"}, computes,
		"a finished job is the same whichever source recorded it"},
	{"formats", "internal/formats/swf", []string{"internal/hpc", "internal/jobjson", "internal/lines", "internal/workload"}, computes,
		"a format knows its own text and the workload"},
	{"formats", "internal/formats/trace", []string{"internal/formats/swf", "internal/hpc", "internal/jobjson", "internal/lines", "internal/output", "internal/workload"}, offline,
		"the trace keeps what SWF has beside its jobs; it needs no other format"},
	{"formats", "internal/formats/events", []string{"internal/hpc", "internal/jobjson", "internal/lines", "internal/slurmspec/...", "internal/workload"}, computes,
		"a format knows its own text and the workload"},
	{"formats", "internal/formats/sacct", []string{"internal/finished", "internal/hpc", "internal/lines", "internal/slurmspec/...", "internal/workload"}, computes,
		"a format knows its own text and the workload"},
	{"formats", "internal/formats/csv", []string{"internal/hpc", "internal/jobjson", "internal/lines", "internal/slurmspec/...", "internal/workload"}, computes,
		"a format knows its own text and the workload"},
	{"formats", "internal/slurmdb", []string{"internal/finished", "internal/hostlist", "internal/hpc", "internal/slurmspec/...", "internal/workload"}, nil,
		"slurmdbd's database is one source of finished jobs"},
	{"formats", "internal/workload/generate", []string{"internal/formats/trace", "internal/hostlist", "internal/hpc", "internal/output", "internal/workload"}, offline,
		"a generator makes workloads from a seed"},
	{"formats", "internal/workload/example", []string{"internal/hpc", "internal/workload", "internal/workload/generate"}, offline,
		"the example is a cluster and a generated workload"},

	{"engines", "internal/rm", []string{"internal/hpc"}, computes,
		"the interface of all resource managers must not know one of them"},
	{"engines", "internal/rm/window", []string{"internal/hostlist", "internal/hpc", "internal/rm", "internal/slurmspec/...", "internal/workload"}, computes,
		"both engines begin a window by the same manoeuvre"},
	{"engines", "internal/rm/rmtest", []string{"internal/hpc", "internal/slurmspec/..."}, computes,
		"scenarios of tests are the same for every engine"},
	{"engines", "internal/run", []string{"internal/finished", "internal/formats/trace", "internal/hpc", "internal/jobjson", "internal/output", "internal/packed", "internal/rm", "internal/slurmspec/...", "internal/workload"}, offline,
		"the record is the same for every engine; it knows events, not who made them"},
	{"engines", "internal/rm/sim/...", []string{"internal/agenda", "internal/hostlist", "internal/hpc", "internal/rm", "internal/rm/window", "internal/slurmspec/..."}, computes,
		"the simulator is one resource manager and knows no other"},
	{"engines", "internal/rm/slurm/...", []string{
		"internal/agenda", "internal/hostlist", "internal/hpc", "internal/lines", "internal/resources", "internal/rm", "internal/rm/window", "internal/run",
		"internal/slurmspec/...", "internal/slurmstore", "internal/spelling", "internal/supervise", "internal/vclock/...", "internal/workload",
	}, nil,
		"Slurm is one resource manager; it knows no other, and not the loop that drives it"},

	{"use cases", "internal/replay", []string{"internal/agenda", "internal/hpc", "internal/rm", "internal/slurmspec/...", "internal/workload", "internal/workload/session"}, computes,
		"the loop drives a resource manager; its caller chooses which"},
	{"use cases", "internal/metrics", []string{"internal/hpc", "internal/rm", "internal/run", "internal/slurmspec"}, computes,
		"metrics are a function of a run record alone, so that any record can be measured again"},
	{"use cases", "internal/compare/releases", []string{
		"internal/hpc", "internal/rm/slurm/jobdesc", "internal/rm/slurm/rpc", "internal/run", "internal/slurmspec/...",
	}, computes,
		"what two releases of Slurm make of one workload follows from run records and from what is known of the releases"},
	{"use cases", "internal/compare", []string{
		"internal/compare/releases", "internal/hostlist", "internal/hpc", "internal/metrics", "internal/run", "internal/slurmspec/...", "internal/stats"}, computes,
		"a comparison is a function of run records alone, whoever made them"},
	{"use cases", "internal/figure", []string{"internal/hpc", "internal/quantity"}, computes,
		"a figure draws series, whatever they mean"},
	{"use cases", "internal/report", []string{
		"internal/compare", "internal/figure", "internal/hostlist", "internal/hpc", "internal/metrics", "internal/quantity", "internal/run", "internal/stats"}, computes,
		"a report shows run records and their comparison, whoever made them"},
	{"use cases", "internal/formats", []string{
		"internal/formats/csv", "internal/formats/events", "internal/formats/sacct", "internal/formats/swf", "internal/formats/trace", "internal/output",
		"internal/run", "internal/workload",
	}, offline,
		"the registry knows every format, and a run as a workload"},
	{"use cases", "internal/workload/build", []string{"internal/formats", "internal/hpc", "internal/output", "internal/rm/slurm/conf", "internal/slurmdb", "internal/workload"}, offline,
		"workloads are built of any source by its own package"},
	{"use cases", "internal/experiment", []string{
		"internal/formats", "internal/hpc", "internal/interrupt", "internal/metrics", "internal/output", "internal/replay", "internal/rm", "internal/rm/sim/...",
		"internal/rm/slurm/...", "internal/run", "internal/slurmspec/...", "internal/vclock/...", "internal/workload", "internal/workload/transform",
	}, offline,
		"a use case needs no command line: a server or a test makes a run with it"},
	{"use cases", "internal/progress", []string{"internal/replay"}, computes,
		"how far a run is follows from what its loop says; the caller has the terminal and the clock"},
	{"use cases", "internal/sweep", []string{"internal/experiment", "internal/interrupt", "internal/metrics", "internal/output", "internal/rm/slurm/conf", "internal/run"}, offline,
		"a sweep runs command lines and reads their records; what a command does is not its concern"},

	{"program", "internal/cli/reference", nil, offline,
		"it reads commands, and knows no package of the program"},
	{"program", "internal/cli/slurmcmd", []string{"internal/rm/slurm/install", "internal/slurmstore"}, offline,
		"the group is a package of its own; internal/cli lends it what it prints with"},
	{"program", "internal/cli", []string{
		"internal/cli/reference", "internal/cli/slurmcmd", "internal/slurmstore",
		"internal/compare", "internal/experiment", "internal/flags", "internal/formats", "internal/hpc", "internal/interrupt", "internal/metrics", "internal/output",
		"internal/progress", "internal/replay", "internal/report", "internal/resources", "internal/rm/sim/...", "internal/rm/slurm/...", "internal/run", "internal/slurmspec/...", "internal/sweep",
		"internal/vclock/...", "internal/workload/...",
	}, offline,
		"a command fills in what packages below do, and prints it"},
	{"program", "cmd/rmreplay", []string{"internal/cli", "internal/supervise"}, nil,
		"main starts the guard or the command line"},
	{"program", "tools/feedbackpaper", []string{
		"internal/experiment", "internal/flags", "internal/formats", "internal/hpc", "internal/metrics", "internal/replay", "internal/rm",
		"internal/rm/sim/...", "internal/run", "internal/workload/...",
	}, offline,
		"a tool is a program of its own"},
	{"program", "tools/realruns", []string{"internal/hpc", "internal/rm", "internal/run"}, offline,
		"a tool is a program of its own"},
	{"program", "tools/reliability", nil, nil,
		"it knows of the program only what users know"},
}
