package usage

// otherCommands maps names of commands of other programs, and common words, to the commands of
// rmreplay that do the same work.
var otherCommands = map[string]string{
	"run": "replay", "start": "replay", "play": "replay",
	"analyze": "metrics", "analyse": "metrics", "stats": "metrics", "statistics": "metrics",
	"summary": "metrics",
	"show":    "metrics", "results": "metrics", "utilization": "metrics", "plot": "report", "chart": "report",
	"graph": "report",
	"html":  "report", "diff": "compare", "why": "explain", "reason": "explain", "list": "jobs", "ls": "jobs",
	"sacct":  "jobs",
	"squeue": "forecast", "dashboard": "accounting serve", "dashboards": "accounting serve",
	"web": "accounting serve",
	"ui":  "accounting serve", "gui": "accounting serve", "store": "accounting import",
	"check": "workload validate",
	"lint":  "workload validate", "optimize": "tune", "optimise": "tune", "grid": "sweep", "experiment": "sweep",
	"anonymize": "workload transform", "anonymise": "workload transform", "filter": "workload transform",
	"adjust": "workload transform", "trace": "workload build", "repeat": "rerun", "again": "rerun",
	"setup":  "doctor",
	"status": "debug clock", "maintenance": "workload transform", "reserve": "workload transform",
}

// otherFlags maps names that other programs use to the flags that may have been meant. The message
// names the first flag that the command has.
var otherFlags = map[string][]string{
	"format": {"json", "to", "from"}, "csv": {"csv", "json", "to"}, "yaml": {"json"}, "out": {"output"},
	"outfile": {"output"},
	"out-dir": {"output"}, "dest": {"output"}, "o": {"output"}, "f": {"filter"}, "file": {"output"},
	"to-file":   {"output"},
	"scheduler": {"policy", "engine"}, "algorithm": {"policy"}, "algo": {"policy"}, "workers": {"parallel"},
	"threads": {"parallel"}, "cores": {"parallel", "processors"}, "cpus": {"processors", "parallel"},
	"p":     {"policy", "parallel"},
	"procs": {"processors"}, "from": {"start"}, "since": {"start"}, "begin": {"start"}, "until": {"end"},
	"to":   {"format", "end"},
	"till": {"end"}, "conf": {"cluster"}, "config": {"cluster"}, "slurm-conf": {"cluster"},
	"slurmconf": {"cluster"},
	"site":      {"cluster"}, "c": {"cluster"}, "force": {"overwrite"}, "replace": {"overwrite"},
	"runs": {"realizations"},
	"reps": {"realizations"}, "repetitions": {"realizations"}, "replications": {"realizations"},
	"seeds": {"realizations"},
	"n":     {"realizations", "limit"}, "samples": {"resamples", "realizations"}, "where": {"filter", "where"},
	"query": {"filter"}, "select": {"filter", "columns"}, "fields": {"columns"}, "group-by": {"by"},
	"group":   {"by"},
	"groupby": {"by"}, "per": {"by"}, "order": {"sort"}, "order-by": {"sort"}, "top": {"limit"},
	"head": {"limit"},
	"tz":   {"timezone"}, "silent": {"quiet"}, "release": {"slurm"}, "version": {"slurm"},
	"load":       {"scale-arrivals"},
	"scale-load": {"scale-arrivals"}, "scale": {"scale-arrivals"}, "noise": {"jitter"},
	"walltime": {"max-time-limit"},
	"maxtime":  {"max-time-limit"}, "max-time": {"max-time-limit"}, "time-limits": {"time-limit-accuracy"},
	"name": {"title"}, "port": {"listen"}, "address": {"listen"}, "host": {"listen"}, "bind": {"listen"},
	"time": {"at"},
	"when": {"at"}, "level": {"confidence"}, "ci": {"confidence"}, "users": {"feedback"},
	"anonymise": {"anonymize"},
}
