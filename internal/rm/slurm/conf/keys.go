package conf

import (
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec/history"
)

// action is what the adaptation does with a key of slurm.conf.
type action uint8

const (
	unclassified action = iota
	keep                // written unchanged
	change              // written with another value, or with a part of the value
	drop                // not written
)

// rule classifies one key of slurm.conf.
type rule struct {
	key    string
	kind   syntax.Kind
	action action
	// known says which releases have the key.
	known history.Lifetime
	// reason tells users why the adaptation changes or drops the key.
	reason string
	// value returns the new value of a changed key, or the effective part of a kept key's value. site
	// is the site's value, or "". An empty result leaves the key out.
	value func(a *adapter, site string) string
	// warning is set if the change may alter scheduling. For the site's value, warning returns a text about the
	// difference, or "".
	warning func(site string) string
	// plugin is the prefix of a kept key's value ("select/"). The plugin that the value names must be installed.
	plugin string
	// secret hides the value in reports.
	secret bool
	// attributes is set for a key that begins the line of an object.
	attributes syntax.Grammar
}

// The reasons that several keys share.
const (
	whyPath       = "files of this run are in its own directory"
	whyHost       = "the daemons run here, on loopback"
	whyNoSlurmd   = "concerns slurmd and the processes of jobs, which a replay does not start"
	whyNoClient   = "concerns srun, salloc and other client commands, which a replay does not use"
	whySite       = "runs a program of the site"
	whyAuth       = "the replay's nodes and clients have no keys of the site; messages carry the user's id"
	whyPower      = "nodes are always powered on; outages come from the workload"
	whyHA         = "there is one controller"
	whyDB         = "accounting is in a private database of this run"
	whyJobComp    = "completed jobs are logged to a file of this run"
	whyEnergy     = "no hardware sensors are read"
	whyTRES       = "without slurmdbd only the built-in resources have weights; slurmctld refuses others"
	whyFederation = "one cluster is replayed"
	whySchedLog   = "it logs every job that a cycle tries: many times the replay's own output"
)

func always(text string) func(string) string { return func(string) string { return text } }

// rules has every key of slurm.conf, grouped by what the keys are about. The keys come from
// slurm_conf_options in src/common/read_config.c of 22.05 to 26.05; some are older. [history.Keys]
// says which releases have a key. A key that is not here is an error, as it is for Slurm.
var rules = slices.Concat(
	// Keys that decide scheduling, limits and priorities are kept.
	kept(str, "ClusterName", "DependencyParameters", "EnforcePartLimits", "GresTypes",
		"LicenseParameters", "Licenses", "MCSParameters", "PreemptMode", "PreemptExemptTime", "PriorityDecayHalfLife",
		"PriorityCalcPeriod", "PriorityMaxAge", "PriorityParameters",
		"PropagateResourceLimits", "PropagateResourceLimitsExcept", "ReconfigFlags",
		"PreemptParameters", "RequeueExit", "RequeueExitHold", "SchedulerParameters", "SelectTypeParameters", "TopologyParam"),
	kept(u16, "BatchStartTimeout", "CompleteWait", "FairShareDampeningFactor", "GroupUpdateForce",
		"GroupUpdateTime", "InactiveLimit", "JobFileAppend", "JobRequeue", "KillOnBadExit", "KillWait",
		"EpilogTimeout", "MaxTasksPerNode", "MessageTimeout", "OverTimeLimit", "PrologEpilogTimeout", "PrologTimeout",
		"ResvOverRun",
		"SchedulerTimeSlice", "SlurmctldTimeout", "TCPTimeout", "TreeWidth", "UnkillableStepTimeout", "VSizeFactor",
		"WaitTime"),
	kept(u32, "EpilogMsgTime", "FirstJobId", "MaxArraySize", "MaxBatchRequeue", "MaxDBDMsgs", "MaxJobCount", "MaxJobId",
		"MaxNodeCount", "MaxStepCount", "MinJobAge", "PriorityWeightAge", "PriorityWeightAssoc",
		"PriorityWeightFairshare", "PriorityWeightJobSize", "PriorityWeightPartition", "PriorityWeightQOS"),
	kept(u64, "DefCPUPerGPU", "DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode", "MaxMemPerCPU", "MaxMemPerNode"),
	kept(boolean, "AllowSpecResourcesUsage", "DisableRootJobs", "PriorityFavorSmall", "TrackWCKey"),
	[]rule{
		{key: "MCSPlugin", action: keep, plugin: "mcs/"},
		{key: "PreemptType", action: keep, plugin: "preempt/"},
		{key: "PriorityFlags", action: keep, reason: "without slurmdbd there is no tree of fair-shares, and slurmctld of some releases crashes", value: (*adapter).priorityFlags},
		{key: "PriorityUsageResetPeriod", action: change, reason: "NOW would reset the workload's usage whenever slurmctld reads the file", value: (*adapter).resetPeriod},
		{key: "PriorityType", action: keep, plugin: "priority/"},
		{key: "SchedulerType", action: keep, plugin: "sched/"},
		{key: "SelectType", action: keep, plugin: "select/"},
		{key: "TopologyPlugin", action: keep, plugin: "topology/"},
	},

	// Hosts, ports, users.
	[]rule{
		{key: "SlurmctldHost", action: change, reason: whyHost, value: (*adapter).controllerHost, attributes: syntax.Grammar{}},
		{key: "SlurmctldPort", action: change, reason: "a free port of this run", value: (*adapter).controllerPort},
		{key: "SlurmdPort", kind: u32, action: change, reason: "one port serves all nodes, each at its own address", value: (*adapter).nodePort},
		{key: "SlurmUser", action: change, reason: "the daemons run as the user who starts the replay, and never as root", value: (*adapter).daemonUser},
		{key: "CommunicationParameters", action: change, reason: "listen on loopback only", value: (*adapter).communication},
	},
	dropped(whyHost, str, "ControlAddr", "ControlMachine", "SlurmctldAddr"),
	dropped(whyHA, str, "BackupAddr", "BackupController", "SlurmctldPrimaryOffProg", "SlurmctldPrimaryOnProg"),
	dropped(whyNoSlurmd, str, "SlurmdUser"),
	dropped(whyFederation, str, "FederationParameters"),
	dropped("loopback connections stay alive; in 22.05 it is part of CommunicationParameters", u32, "KeepAliveTime"),

	// Authentication.
	[]rule{
		{key: "AuthType", action: change, reason: whyAuth, value: constant("auth/none")},
		{key: "CredType", action: change, reason: whyAuth, value: constant("cred/none")},
	},
	dropped(whyAuth, str, "AuthAltParameters", "AuthAltTypes", "AuthInfo", "CryptoType", "HashPlugin",
		"JobCredentialPrivateKey", "JobCredentialPublicCertificate"),
	dropped("no connection leaves this machine, so none is encrypted", str, "CertgenParameters", "CertgenType",
		"CertmgrParameters", "CertmgrType", "TLSParameters", "TLSType"),
	dropped("a replay serves no metrics and no HTTP", str, "HttpParserType", "MetricsAuthUsers", "MetricsParameters",
		"MetricsType", "SlurmctldHttpAuthParameters", "SlurmdHttpAuthParameters", "UrlParserType"),

	// Files and logs.
	[]rule{
		{key: "PluginDir", action: change, reason: "where Slurm is installed here", value: (*adapter).pluginDir},
		{key: "StateSaveLocation", action: change, reason: "the run's own state, in memory", value: inState("state")},
		{key: "SlurmdSpoolDir", action: change, reason: whyPath, value: inState("spool")},
		{key: "SlurmctldPidFile", action: change, reason: whyPath, value: inState("slurmctld.pid")},
		{key: "SlurmdPidFile", action: change, reason: whyPath, value: inState("slurmd.pid")},
		{key: "SlurmctldLogFile", action: change, reason: "RUN/logs/slurmctld.log, to which the replay directs slurmctld's output", value: constant(standardOutput)},
		{key: "SlurmctldDebug", action: change, reason: "levels above info slow slurmctld and fill the disk; levels below error hide the messages that it drops", value: (*adapter).debugLevel},
		{key: "SlurmctldSyslogDebug", action: change, reason: "nothing goes to this machine's syslog", value: constant("quiet")},
		{key: "DebugFlags", action: change, reason: "shorter logs; NO_CONF_HASH because nodes do not read the " +
			"file", value: constant("NO_CONF_HASH")},
	},
	dropped(whySchedLog, str, "SlurmSchedLogFile"),
	dropped(whySchedLog, u16, "SlurmSchedLogLevel"),
	dropped("logs have Slurm's default time format, which the replay reads", str, "LogTimeFormat"),
	dropped(whyNoSlurmd, str, "SlurmdDebug", "SlurmdLogFile", "SlurmdSyslogDebug"),

	// Accounting.
	[]rule{
		{key: "AccountingStorageType", action: change, reason: whyDB, value: (*adapter).accountingType},
		{key: "AccountingStorageHost", action: change, reason: whyDB, value: (*adapter).accountingHost},
		{key: "AccountingStoragePort", kind: u16, action: change, reason: whyDB, value: (*adapter).accountingPort},
		{key: "AccountingStorageEnforce", action: change, reason: "slurmctld enforces associations only with slurmdbd", value: (*adapter).accountingOnly},
		{key: "AccountingStorageTRES", action: change, reason: "22.05 refuses to track resources of a site without slurmdbd", value: (*adapter).accountingOnly},
		{key: "PriorityWeightTRES", action: change, reason: whyTRES, value: (*adapter).tresWeights},
		{key: "AccountingStoreFlags", action: change, reason: "scripts and environments of jobs are not stored", value: (*adapter).storeFlags},
		{key: "AccountingStoreJobComment", kind: boolean, action: drop, reason: "22.05 refuses it; AccountingStoreFlags=job_comment replaces it"},
		{key: "AccountingStoragePass", action: drop, reason: whyDB, secret: true},
		{key: "JobCompType", action: change, reason: whyJobComp, value: constant("jobcomp/filetxt")},
		{key: "JobCompLoc", action: change, reason: whyJobComp, value: (*adapter).jobCompletionPath},
		{key: "JobCompPass", action: drop, reason: whyJobComp, secret: true},
		{key: "JobCompPassScript", action: drop, reason: whyJobComp},
	},
	dropped(whyFederation, str, "AccountingStorageExternalHost"),
	dropped(whyDB, str, "AccountingStorageBackupHost", "AccountingStorageParameters", "AccountingStorageUser"),
	dropped("22.05 refuses it", str, "AccountingStorageLoc"),
	dropped(whyJobComp, str, "JobCompHost", "JobCompParams", "JobCompUser"),
	dropped(whyJobComp, u32, "JobCompPort"),

	// Prologs, epilogs and other programs.
	[]rule{
		{key: "PrologSlurmctld", action: change, reason: whySite, value: (*adapter).siteScript},
		{key: "EpilogSlurmctld", action: change, reason: whySite, value: (*adapter).siteScript},
		{key: "PrologFlags", action: change, reason: "no containers or X11; Contain and RunInJob imply Alloc", value: (*adapter).prologFlags},
		{key: "MailProg", action: change, reason: "a replay sends no mail", value: constant("/bin/true")},
		{key: "RebootProgram", action: drop, reason: whySite, warning: always("jobs that ask for a reboot of their nodes start without one")},
	},
	dropped(whySite, str, "Epilog", "HealthCheckNodeState", "HealthCheckProgram", "PrEpParameters", "PrEpPlugins",
		"Prolog", "ResvEpilog", "ResvProlog", "UnkillableStepProgram"),
	dropped(whySite, u16, "HealthCheckInterval", "HealthCheckTimeout"),
	dropped("a replay sends no mail", str, "MailDomain"),

	// Nodes' processes.
	[]rule{
		{key: "ProctrackType", action: change, reason: whyNoSlurmd, value: constant("proctrack/linuxproc")},
		{key: "TaskPlugin", action: change, reason: "no tasks are started; slurmctld only checks whether it is task/none (gang scheduling of CPUs)", value: (*adapter).taskPlugin},
		{key: "JobAcctGatherType", action: change, reason: whyNoSlurmd, value: constant("jobacct_gather/none")},
		{key: "SwitchType", action: change, reason: "this machine does not have the interconnect's hardware", value: constant("switch/none")},
		{key: "SlurmdParameters", action: change, reason: "slurmctld takes the nodes' hardware from slurm.conf, and the nodes report the same", value: (*adapter).slurmdParameters},
		{key: "SlurmdTimeout", kind: u16, action: change, reason: "no pings; node failures come from the workload", value: constant("0")},
		{key: "ReturnToService", kind: u16, action: change, reason: "a node that is down returns to service only when the workload resumes it, and not when slurmctld finds that it responds", value: constant("0")},
	},
	dropped(whyNoSlurmd, str, "AcctGatherProfileType", "BcastExclude", "BcastParameters", "CoreSpecPlugin",
		"CpuFreqDef", "CpuFreqGovernors", "GpuFreqDef", "JobAcctGatherFrequency", "JobAcctGatherParams",
		"JobContainerType", "LaunchParameters", "MpiDefault", "MpiParams", "NamespaceType",
		"SbcastParameters", "SwitchParameters",
		"TaskEpilog", "TaskPluginParam", "TaskProlog", "TmpFS", "X11Parameters"),
	dropped(whyNoSlurmd, u16, "PropagatePrioProcess"),
	dropped(whyNoSlurmd, boolean, "UsePAM"),
	dropped(whyEnergy, str, "AcctGatherEnergyType", "AcctGatherFilesystemType", "AcctGatherInfinibandType",
		"AcctGatherInterconnectType", "ExtSensorsType"),
	dropped(whyEnergy, u16, "AcctGatherNodeFreq", "ExtSensorsFreq"),
	dropped(whyNoClient, str, "CliFilterParameters", "CliFilterPlugins", "DataParserParameters",
		"InteractiveStepOptions", "LaunchType", "PlugStackConfig",
		"ScronParameters", "SrunEpilog", "SrunPortRange", "SrunProlog"),
	dropped(whyNoClient, u16, "EioTimeout", "GetEnvTimeout"),
	dropped("22.05 refuses it", str, "SallocDefaultCommand"),
	dropped("every query of the replay sees everything", str, "PrivateData"),
	dropped("all nodes are one process; messages need no routes", str, "RoutePlugin"),
	dropped("defunct in 22.05", str, "SchedulerAuth"),

	// Keys that need programs, plugins or storage of the site.
	[]rule{
		{key: "JobSubmitPlugins", action: change, reason: "only Slurm's own plugins that need no files of the site", value: (*adapter).jobSubmit},
		{key: "SlurmctldParameters", action: change, reason: "options of clouds, power saving, message traffic and job steps belong to the site", value: (*adapter).controllerParameters},
		{key: "BurstBufferType", action: drop, reason: "needs the site's storage", warning: always("jobs do not wait for burst buffers")},
		{key: "BurstBufferParameters", action: drop, reason: "needs the site's storage"},
		{key: "NodeFeaturesPlugins", action: drop, reason: "needs the site's nodes", warning: always("nodes never reboot into other features; jobs that ask for a feature to be switched on are refused")},
		{key: "PrioritySiteFactorPlugin", action: change, reason: "a plugin of the site that is not installed here", value: (*adapter).siteFactor},
		{key: "PrioritySiteFactorParameters", action: change, reason: "its plugin is not used", value: (*adapter).siteFactorParameters},
		{key: "SlurmctldPlugstack", action: drop, reason: "a plugin that needs the site", warning: always("the controller's extra plugins do not run")},
		{key: "FastSchedule", kind: u16, action: drop, reason: "22.05 refuses it; SlurmdParameters=config_overrides replaces it"},
	},

	// Power saving.
	[]rule{
		{key: "SuspendProgram", action: drop, reason: whyPower, warning: always("power saving is off: jobs never wait for nodes to boot")},
		{key: "PowerAction", action: drop, reason: whyPower, attributes: powerActionAttributes},
		{key: "PowerPlugin", action: drop, reason: whyPower, warning: powerPluginWarning},
	},
	dropped(whyPower, str, "PowerParameters", "ResumeFailProgram", "ResumeProgram", "SuspendExcNodes",
		"SuspendExcParts", "SuspendExcStates", "SuspendTime"),
	dropped(whyPower, u16, "ResumeRate", "ResumeTimeout", "SuspendRate", "SuspendTimeout"),

	// Objects. Their attributes are adapted in adapt_nodes.go.
	[]rule{
		{key: "NodeName", action: change, reason: "each node at a loopback address of its own", attributes: nodeAttributes},
		{key: "PartitionName", action: change, reason: "attributes of power saving and of submit hosts", attributes: partitionAttributes},
		{key: "DownNodes", action: change, reason: "nodes that the site takes out are drained", attributes: downNodesAttributes},
		{key: "NodeSet", action: keep, attributes: nodeSetAttributes},
		{key: "FrontendName", action: drop, reason: "22.05 as packaged has no front-end mode; every node is present", attributes: frontendAttributes},
	},

	// Keys that sites still have, although no release from 22.05 on knows them. [ruleOf] drops them.
	unknown(str, "CacheGroups", "CheckpointType", "ChosLoc", "DefaultStorageHost", "DefaultStorageLoc", "DefaultStoragePort",
		"DefaultStorageType", "DefaultStorageUser", "DynAllocPort", "JobCheckpointDir", "Layouts",
		"MemLimitEnforce", "MsgAggregationParams", "SchedulerPort", "SchedulerRootFilter", "SlurmdPlugstack", "UseSpecResources"),
	[]rule{{key: "DefaultStoragePass", secret: true}},
)

var rulesByKey map[string]*rule

// init builds the map of rules. The map's declaration cannot refer to rules: rules refers to
// methods of adapter, and these refer to the map.
func init() {
	rulesByKey = make(map[string]*rule, len(rules))
	for i := range rules {
		rules[i].known = history.Keys[rules[i].key]
		rulesByKey[strings.ToLower(rules[i].key)] = &rules[i]
	}
}

func kept(k syntax.Kind, names ...string) []rule {
	rs := make([]rule, len(names))
	for i, name := range names {
		rs[i] = rule{key: name, kind: k, action: keep}
	}
	return rs
}

func unknown(k syntax.Kind, names ...string) []rule {
	rs := make([]rule, len(names))
	for i, name := range names {
		rs[i] = rule{key: name, kind: k}
	}
	return rs
}

func dropped(reason string, k syntax.Kind, names ...string) []rule {
	rs := make([]rule, len(names))
	for i, name := range names {
		rs[i] = rule{key: name, kind: k, action: drop, reason: reason}
	}
	return rs
}

func constant(v string) func(*adapter, string) string {
	return func(*adapter, string) string { return v }
}

func powerPluginWarning(site string) string {
	if strings.EqualFold(site, "power/none") {
		return ""
	}
	return "power management is off: the power budget limits no job"
}
