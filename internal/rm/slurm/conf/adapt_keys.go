package conf

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The functions here give the changed keys of the rules their values. Each takes the
// site's value, empty when there is none, and returns the new one; an empty result
// leaves the key out.

func inState(name string) func(*adapter, string) string {
	return func(a *adapter, _ string) string { return filepath.Join(a.env.StateDir, name) }
}

func inLog(name string) func(*adapter, string) string {
	return func(a *adapter, _ string) string { return filepath.Join(a.env.LogDir, name) }
}

// controllerHost names this machine as "localhost", which slurmctld replaces by
// its host name before it compares the two.
func (a *adapter) controllerHost(string) string {
	return fmt.Sprintf("localhost(%s)", a.env.ControlAddress)
}

func (a *adapter) controllerPort(string) string { return strconv.Itoa(int(a.env.ControlPort)) }

func (a *adapter) nodePort(string) string { return strconv.Itoa(int(a.env.NodePort)) }

func (a *adapter) daemonUser(string) string { return a.env.DaemonUser }

func (a *adapter) pluginDir(string) string { return a.env.PluginDir }

// communication keeps what shapes the traffic of messages and binds every daemon
// and client to loopback. IPv6 and hash checks would break that.
func (a *adapter) communication(site string) string {
	keep := []string{"keepaliveinterval", "keepaliveprobes", "keepalivetime", "noaddrcache"}
	options := selectOptions(site, func(name string) bool { return slices.Contains(keep, name) })
	return strings.Join(append(options, "NoCtldInAddrAny", "NoInAddrAny"), ",")
}

// selectOptions returns the options of a comma list whose name (before any "=", in
// lower case) is wanted.
func selectOptions(list string, wanted func(name string) bool) []string {
	return slices.DeleteFunc(splitList(list), func(option string) bool {
		name, _, _ := strings.Cut(option, "=")
		return !wanted(strings.ToLower(name))
	})
}

// resetPeriod keeps when usage is reset from time to time. NOW is no such period: it resets
// whenever slurmctld reads the file, which it does for a window more often than the site's.
func (a *adapter) resetPeriod(site string) string {
	if strings.EqualFold(site, "NOW") {
		return "NONE" // which, other than nothing, is allowed without decay
	}
	return site
}

// debugLevel caps the log level at info, and raises it to error: by its errors slurmctld
// tells what it lost. Slurm takes names and numbers.
func (a *adapter) debugLevel(site string) string {
	for i, name := range []string{"quiet", "fatal", "error", "info"} {
		if !strings.EqualFold(site, name) && site != strconv.Itoa(i) {
			continue
		}
		if i < 2 {
			return "error"
		}
		return site
	}
	return "info"
}

// accountingType keeps slurmdbd and replaces the kinds that older versions wrote
// to directly.
func (a *adapter) accountingType(site string) string {
	if a.out.Accounting {
		return "accounting_storage/slurmdbd"
	}
	if site == "" {
		return ""
	}
	return "accounting_storage/none"
}

func (a *adapter) accountingHost(string) string {
	if !a.out.Accounting {
		return ""
	}
	return a.env.ControlAddress.String()
}

func (a *adapter) accountingPort(string) string {
	if !a.out.Accounting {
		return ""
	}
	return strconv.Itoa(int(a.env.DBPort))
}

// accountingOnly keeps what slurmctld cannot do without slurmdbd.
func (a *adapter) accountingOnly(site string) string {
	if !a.out.Accounting {
		return ""
	}
	return site
}

// builtinTRES are the resources that slurmctld can weigh without slurmdbd.
var builtinTRES = []string{"billing", "cpu", "energy", "fs/disk", "mem", "node", "pages", "vmem"}

// tresWeights keeps a list of weights ("CPU=1.0,GRES/gpu=8") whole with slurmdbd,
// and without it what 22.05 does not refuse.
func (a *adapter) tresWeights(site string) string {
	if a.out.Accounting {
		return site
	}
	return strings.Join(selectOptions(site, func(name string) bool { return slices.Contains(builtinTRES, name) }), ",")
}

// storeFlags keeps the comment, which costs nothing, and brings back the flag that
// the former AccountingStoreJobComment stood for.
func (a *adapter) storeFlags(site string) string {
	old, _ := a.cluster.Get("AccountingStoreJobComment")
	yes, _ := parseBool(old)
	if yes || strings.Contains(strings.ToLower(site), "job_comment") {
		return "job_comment"
	}
	return ""
}

func (a *adapter) jobCompletionPath(string) string {
	if a.env.JobCompletionPath != "" {
		return a.env.JobCompletionPath
	}
	return filepath.Join(a.env.LogDir, "jobcomp.log")
}

// siteScript keeps a script of the controller only when asked to.
func (a *adapter) siteScript(site string) string {
	if a.env.KeepScripts {
		return site
	}
	return ""
}

// prologFlags keeps when a job's prolog runs, which delays its start, and drops
// containers: Contain and X11 both imply Alloc.
func (a *adapter) prologFlags(site string) string {
	var flags []string
	add := func(flag string) {
		if !slices.ContainsFunc(flags, func(f string) bool { return strings.EqualFold(f, flag) }) {
			flags = append(flags, flag)
		}
	}
	for _, flag := range splitList(site) {
		switch strings.ToLower(flag) {
		case "contain", "x11":
			add("Alloc")
		default:
			add(flag)
		}
	}
	return strings.Join(flags, ",")
}

// taskPlugin keeps only the difference that slurmctld sees: with CR_CPU its gang
// scheduler shares cores, not CPUs, unless tasks are left unbound by task/none
// (src/slurmctld/gang.c, _get_gr_type). It never loads the plugin.
func (a *adapter) taskPlugin(site string) string {
	if site == "" || strings.EqualFold(site, "task/none") {
		return "task/none"
	}
	return "task/affinity"
}

// slurmdParameters makes slurmctld trust slurm.conf for what the nodes are
// (config_overrides). The replay's nodes report exactly that, so the checks could
// only drain a node over a gres.conf that describes less than slurm.conf, or let
// select/cons_res split a node's configuration.
func (a *adapter) slurmdParameters(string) string { return "config_overrides" }

// ownSubmitPlugins are Slurm's job_submit plugins that need nothing of the site.
var ownSubmitPlugins = []string{"all_partitions", "defaults", "logging", "partition", "require_timelimit", "throttle"}

func (a *adapter) jobSubmit(site string) string {
	var plugins []string
	for _, plugin := range splitList(site) {
		name := strings.TrimPrefix(plugin, "job_submit/")
		if slices.Contains(ownSubmitPlugins, name) && a.installed("job_submit/"+name) {
			plugins = append(plugins, plugin)
			continue
		}
		a.warn("JobSubmitPlugins: %s does not run: jobs that it would change or refuse are submitted as the workload has them", name)
	}
	return strings.Join(plugins, ",")
}

// controllerParameters drops the options of clouds, power saving and distribution
// of the configuration; the others keep their effect.
func (a *adapter) controllerParameters(site string) string {
	gone := []string{"cloud_dns", "cloud_reg_addrs", "enable_configless", "idle_on_node_suspend",
		"max_dbd_msg_action", "power_save_interval", "power_save_min_interval", "reboot_from_controller"}
	return strings.Join(selectOptions(site, func(name string) bool { return !slices.Contains(gone, name) }), ",")
}

// siteFactor keeps a site's priority plugin if it is installed here.
func (a *adapter) siteFactor(site string) string {
	if site == "" || a.env.PluginDir != "" && a.installed(site) {
		return site
	}
	a.warn("PrioritySiteFactorPlugin=%s is not installed: priorities lack the site's factor", site)
	return ""
}

func (a *adapter) siteFactorParameters(site string) string {
	plugin, _ := a.cluster.Get("PrioritySiteFactorPlugin")
	if plugin == "" || a.env.PluginDir == "" || !a.installed(plugin) {
		return ""
	}
	return site
}
