package conf

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// The functions in this file compute the values of changed keys. Each takes the site's value,
// or "" if there is none, and returns the new value. An empty result leaves the key out.

func inState(name string) func(*adapter, string) string {
	return func(a *adapter, _ string) string { return filepath.Join(a.env.StateDir, name) }
}

// standardOutput is the path under which a daemon opens its standard output, which goes to its log. The daemon's user
// may have no access to the log's directory.
const standardOutput = "/dev/stdout"

// controllerHost names this machine "localhost". slurmctld replaces "localhost" by its own host name.
func (a *adapter) controllerHost(string) string {
	return fmt.Sprintf("localhost(%s)", a.env.ControlAddress)
}

func (a *adapter) controllerPort(string) string { return strconv.Itoa(int(a.env.ControlPort)) }

func (a *adapter) nodePort(string) string { return strconv.Itoa(int(a.env.NodePort)) }

func (a *adapter) daemonUser(string) string { return a.env.DaemonUser }

func (a *adapter) pluginDir(string) string { return a.env.PluginDir }

// communication keeps the options keepalive* and noaddrcache, and binds every daemon and client to
// loopback. It drops IPv6 and hash checks, which do not work in a replay.
func (a *adapter) communication(site string) string {
	keep := []string{"keepaliveinterval", "keepaliveprobes", "keepalivetime", "noaddrcache"}
	known := history.Options["CommunicationParameters"].Some
	options := selectOptions(site, func(name string) bool {
		return slices.Contains(keep, name) && known[name].Includes(a.release)
	})
	options = append(options, "NoCtldInAddrAny", "NoInAddrAny")
	if known["disable_http"].Includes(a.release) {
		options = append(options, "disable_http")
	}
	return strings.Join(options, ",")
}

// selectOptions returns the options of a comma list that wanted accepts. The function wanted gets the option's name in
// lower case, without "=" and the value.
func selectOptions(list string, wanted func(name string) bool) []string {
	return slices.DeleteFunc(syntax.List(list), func(option string) bool {
		name, _, _ := strings.Cut(option, "=")
		return !wanted(strings.ToLower(name))
	})
}

// resetPeriod keeps a reset period, but not NOW. With NOW slurmctld resets the usage whenever it reads the file, and
// in a replay with a window slurmctld reads the file again when the window begins.
func (a *adapter) resetPeriod(site string) string {
	if strings.EqualFold(site, "NOW") {
		return "NONE" // without this key, slurmctld refuses a configuration that has no decay
	}
	return site
}

// priorityFlags drops the flags that choose the fair-share algorithm, if accounting is off.
func (a *adapter) priorityFlags(site string) string {
	if a.out.Accounting {
		return site
	}
	return strings.Join(selectOptions(site, func(name string) bool { return name != "no_fair_tree" && name != "depth_oblivious" }), ",")
}

// debugLevel limits the log level to info at most and error at least. slurmctld logs dropped messages as errors.
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

// accountingType keeps slurmdbd. It replaces the types of older releases, which wrote directly to
// a database or a file.
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

func (a *adapter) accountingOnly(site string) string {
	if !a.out.Accounting {
		return ""
	}
	return site
}

// builtinTRES are the resources that may have weights without slurmdbd.
var builtinTRES = []string{"billing", "cpu", "energy", "fs/disk", "mem", "node", "pages", "vmem"}

// tresWeights keeps a list of weights ("CPU=1.0,GRES/gpu=8") with slurmdbd. Without slurmdbd it keeps only the weights
// of the resources that 22.05 accepts.
func (a *adapter) tresWeights(site string) string {
	if a.out.Accounting {
		return site
	}
	return strings.Join(selectOptions(site, func(name string) bool { return slices.Contains(builtinTRES, name) }), ",")
}

// storeFlags keeps the flag job_comment, even if the site sets it in the older form AccountingStoreJobComment.
func (a *adapter) storeFlags(site string) string {
	old, _ := a.cluster.Get("AccountingStoreJobComment")
	yes, _ := syntax.ParseBool(old)
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

func (a *adapter) siteScript(site string) string {
	if a.env.KeepScripts {
		return site
	}
	return ""
}

// prologFlags keeps the flags that decide when a job's prolog runs, because a prolog delays the job. It replaces
// Contain, RunInJob and X11 by Alloc, because each of them implies Alloc. A release before 23.02 gets Alloc for
// ForceRequeueOnFail too.
func (a *adapter) prologFlags(site string) string {
	var flags []string
	add := func(flag string) {
		if !slices.ContainsFunc(flags, func(f string) bool { return strings.EqualFold(f, flag) }) {
			flags = append(flags, flag)
		}
	}
	for _, flag := range syntax.List(site) {
		name := strings.ToLower(flag)
		switch {
		case slices.Contains([]string{"contain", "runinjob", "x11"}, name), !history.Options["PrologFlags"].Some[name].Includes(a.release):
			add("Alloc")
		default:
			add(flag)
		}
	}
	return strings.Join(flags, ",")
}

// taskPlugin keeps the only fact that matters to slurmctld: whether the plugin is task/none. With
// CR_CPU, slurmctld's gang scheduler shares CPUs if the plugin is task/none, and otherwise cores
// (src/slurmctld/gang.c, _get_gr_type). slurmctld never loads the plugin.
func (a *adapter) taskPlugin(site string) string {
	if site == "" || strings.EqualFold(site, "task/none") {
		return "task/none"
	}
	return "task/affinity"
}

// slurmdParameters makes slurmctld take the nodes' hardware from slurm.conf (config_overrides). The replay's nodes
// report the same hardware. Without the option, slurmctld might drain a node whose gres.conf describes less than
// slurm.conf, or split its configuration for select/cons_res.
func (a *adapter) slurmdParameters(string) string { return "config_overrides" }

// ownSubmitPlugins are Slurm's job_submit plugins that need no files of the site.
var ownSubmitPlugins = []string{"all_partitions", "defaults", "logging", "partition", "require_timelimit", "throttle"}

func (a *adapter) jobSubmit(site string) string {
	var plugins []string
	for _, plugin := range syntax.List(site) {
		name := strings.TrimPrefix(plugin, "job_submit/")
		if slices.Contains(ownSubmitPlugins, name) && a.installed("job_submit/"+name) {
			plugins = append(plugins, plugin)
			continue
		}
		a.warn("JobSubmitPlugins: %s does not run: jobs that it would change or refuse are submitted unchanged", name)
	}
	return strings.Join(plugins, ",")
}

// siteParameters are options of SlurmctldParameters for clouds, power saving, the distribution of configuration files,
// connections, job steps and restarts. enable_stepmgr needs PrologFlags=Contain, which [adapter.prologFlags] replaces.
var siteParameters = []string{"cloud_dns", "cloud_reg_addrs", "enable_async_reply", "enable_configless", "enable_stepmgr",
	"health_check_report", "idle_on_node_suspend", "max_dbd_msg_action", "max_powered_nodes", "no_quick_restart",
	"power_save_interval", "power_save_min_interval", "reboot_from_controller", "reconfig_on_restart"}

// controllerParameters drops the options of siteParameters, the limits on the rate of messages (rl_), and
// the options of the connection manager (conmgr_). A rate limit would make a real client pause. Since 25.05,
// the order in which slurmctld serves messages depends on the number of processors unless conmgr_threads is
// set (workers.c). So controllerParameters sets conmgr_threads to its default for two processors.
func (a *adapter) controllerParameters(site string) string {
	kept := selectOptions(site, func(name string) bool {
		return !slices.Contains(siteParameters, name) && !strings.HasPrefix(name, "rl_") && !strings.HasPrefix(name, "conmgr_")
	})
	if a.release.Since(slurmspec.R2505) {
		kept = append(kept, "conmgr_threads=4")
	}
	return strings.Join(kept, ",")
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
