package cli

import (
	"fmt"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/completion"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/recordcmd"
	"rmreplay/internal/cli/slurmcmd"
	"rmreplay/internal/experiment"
	"rmreplay/internal/fairstart"
	"rmreplay/internal/formats"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload/build"
	"rmreplay/internal/workload/chart"
	"rmreplay/internal/workload/complete"
	"rmreplay/internal/workload/generate"
)

// flagValues are the values that a shell completes.
var flagValues = completion.Values{
	"--arrivals":       these("none", "recent", "recorded"),
	"--by":             console.Groupings,
	"--clock":          these("frozen", "measured", "measured="),
	"simulate --clock": these("frozen", "charged="),
	"--engine":         these("simulator", "slurm"),
	"--epilog-delay":   these(delays...),
	"--fair-start": func() []string {
		return append(policyNames(), fairstart.OwnPolicy+"\tthe policy of the run")
	},
	"--feedback": modelNames,
	"--format":   these(service.ExportFormats...),
	"accounting --from": func() []string {
		return append(formats.AccountingNames(), string(build.Slurmdbd), string(build.Auto))
	},
	"workload build --from":   kindNames,
	"--io-schedule":           these(strategies...),
	"jobs --columns":          recordcmd.Columns,
	"jobs --sort":             recordcmd.Columns,
	"--keep":                  these("hosts", "cluster"),
	"--launch-delay":          these(delays...),
	"predict train --model":   these("linear", "forest", "boost"),
	"workload build --map":    build.MapNames,
	"--models":                these(models...),
	"--on":                    these(onLocal, onSlurm),
	"--plot-format":           these(chart.Formats...),
	"forecast --policy":       allPolicyNames,
	"rerun --policy":          allPolicyNames,
	"simulate --policy":       allPolicyNames,
	"sweep --policy":          these(experiment.SlurmPolicy),
	"tune --policy":           these(experiment.SlurmPolicy),
	"--prolog-delay":          these(delays...),
	"--rule":                  ruleNames,
	"--run-times":             these(append([]string{"history", "limits"}, models...)...),
	"--site-slurm":            releaseNames,
	"simulate --slurm":        releaseNames,
	"--slurm":                 slurmcmd.Stored,
	"--sessions":              these("arrival:60m", "last:20m", "max:20m"),
	"workload generate --set": these(generate.IOSets...),
	"--store":                 these(service.Embedded, service.Elasticsearch),
	"--strategy":              these(strategies...),
	"--target":                these("run-time", "memory", "io"),
	"--ties":                  these(string(sim.EndsFirst), string(sim.ArrivalsFirst)),
	"--time-limit":            these(limitAsked, limitTwice),
	"--time-limit-model":      these("tsafrir"),
	"--timezone":              these(zones...),
	"--to":                    formats.Names,
}

func these(values ...string) func() []string { return func() []string { return values } }

// models are the names of the models of run times. strategies are the names of the strategies of I/O-aware plans.
var (
	models     = []string{"limit", "last2", "class", "linear", "forest", "boost"}
	strategies = []string{"baseline", "aware", "two-group"}
)

// delays are the distributions that a flag for delays accepts.
var delays = []string{"uniform:", "exp:", "lognormal:"}

// zones are examples of time zones. The flag takes all names of the IANA database.
var zones = []string{
	"UTC", "Local", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/New_York", "America/Sao_Paulo",
	"Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney", "Europe/Berlin", "Europe/London", "Europe/Paris", "Europe/Zurich",
}

func policyNames() (names []string) {
	for _, p := range policy.List() {
		names = append(names, fmt.Sprintf("%s\t%s", p.Name, p.Doc))
	}
	return names
}

// allPolicyNames returns the names of the simulator's policies and of the policy that is a model of Slurm.
func allPolicyNames() []string {
	return append(policyNames(), experiment.SlurmPolicy+"\ta model of Slurm's own scheduler")
}

// ruleNames returns the rules of workload complete, as FIELD=RULE.
func ruleNames() (names []string) {
	for _, r := range complete.Rules {
		names = append(names, fmt.Sprintf("%s=%s\t%s", r.Field, r.Name, r.Doc))
	}
	return names
}

func releaseNames() (names []string) {
	for _, r := range slurmspec.SupportedReleases() {
		names = append(names, r.String())
	}
	return names
}

func kindNames() (names []string) {
	for _, k := range build.Kinds {
		names = append(names, string(k))
	}
	return names
}
