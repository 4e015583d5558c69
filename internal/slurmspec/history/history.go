package history

import (
	"slices"
	"strings"

	"rmreplay/internal/slurmspec"
)

// Lifetime is the range of releases that have a key, an option or a plugin: from Since on, and
// older than Until. A zero Since means the oldest series of [slurmspec.Releases] or an older one.
// A zero Until means that the newest series still has the key, option or plugin.
type Lifetime struct{ Since, Until slurmspec.Release }

// Keys has the keys of slurm.conf that one of the known series lacks. It follows
// slurm_conf_options in src/common/read_config.c of the last patch of each series from 20.11
// to 26.05.
var Keys = map[string]Lifetime{
	"AccountingStorageLoc":        {Until: slurmspec.R2511},
	"AccountingStoreFlags":        {Since: slurmspec.R2108},
	"BcastExclude":                {Since: slurmspec.R2108},
	"BcastParameters":             {Since: slurmspec.R2108},
	"CacheGroups":                 {Until: slurmspec.R2108},
	"CertgenParameters":           {Since: slurmspec.R2505},
	"CertgenType":                 {Since: slurmspec.R2505},
	"CertmgrParameters":           {Since: slurmspec.R2411},
	"CertmgrType":                 {Since: slurmspec.R2411},
	"CheckpointType":              {Until: slurmspec.R2108},
	"ChosLoc":                     {Until: slurmspec.R2011},
	"CliFilterParameters":         {Since: slurmspec.R2511},
	"DataParserParameters":        {Since: slurmspec.R2411},
	"DefaultStorageHost":          {Until: slurmspec.R2108},
	"DefaultStorageLoc":           {Until: slurmspec.R2108},
	"DefaultStoragePass":          {Until: slurmspec.R2108},
	"DefaultStoragePort":          {Until: slurmspec.R2108},
	"DefaultStorageType":          {Until: slurmspec.R2108},
	"DefaultStorageUser":          {Until: slurmspec.R2108},
	"DynAllocPort":                {Until: slurmspec.R2011},
	"EpilogTimeout":               {Since: slurmspec.R2505},
	"FrontendName":                {Until: slurmspec.R2505},
	"HashPlugin":                  {Since: slurmspec.R2405},
	"HealthCheckTimeout":          {Since: slurmspec.R2605},
	"HttpParserType":              {Since: slurmspec.R2511},
	"JobCheckpointDir":            {Until: slurmspec.R2108},
	"JobCompPassScript":           {Since: slurmspec.R2511},
	"Layouts":                     {Until: slurmspec.R2011},
	"LicenseParameters":           {Since: slurmspec.R2605},
	"MaxBatchRequeue":             {Since: slurmspec.R2302},
	"MaxNodeCount":                {Since: slurmspec.R2205},
	"MemLimitEnforce":             {Until: slurmspec.R2108},
	"MetricsAuthUsers":            {Since: slurmspec.R2605},
	"MetricsParameters":           {Since: slurmspec.R2605},
	"MetricsType":                 {Since: slurmspec.R2511},
	"MsgAggregationParams":        {Until: slurmspec.R2011},
	"NamespaceType":               {Since: slurmspec.R2511},
	"PowerAction":                 {Since: slurmspec.R2605},
	"PreemptParameters":           {Since: slurmspec.R2302},
	"PrologTimeout":               {Since: slurmspec.R2505},
	"SchedulerAuth":               {Until: slurmspec.R2405},
	"SchedulerPort":               {Until: slurmspec.R2108},
	"SchedulerRootFilter":         {Until: slurmspec.R2108},
	"SlurmctldHttpAuthParameters": {Since: slurmspec.R2605},
	"SlurmctldPlugstack":          {Until: slurmspec.R2302},
	"SlurmdHttpAuthParameters":    {Since: slurmspec.R2605},
	"SlurmdPlugstack":             {Until: slurmspec.R2011},
	"SuspendExcStates":            {Since: slurmspec.R2302},
	"SwitchParameters":            {Since: slurmspec.R2108},
	"TLSParameters":               {Since: slurmspec.R2405},
	"TLSType":                     {Since: slurmspec.R2405},
	"UrlParserType":               {Since: slurmspec.R2511},
	"UseSpecResources":            {Until: slurmspec.R2011},
}

// Attributes has the attributes of NodeName and PartitionName lines that one of the
// series from 22.05 to 26.05 lacks, by key and attribute. It follows _nodename_options
// (src/common/read_config.c, node_conf.c) and _partition_options.
var Attributes = map[string]Lifetime{
	"NodeName GresConf":              {Since: slurmspec.R2511},
	"NodeName Parameters":            {Since: slurmspec.R2511},
	"NodeName RestrictedCoresPerGPU": {Since: slurmspec.R2405},
	"NodeName SuspendTime":           {Since: slurmspec.R2605},
	"NodeName Topology":              {Since: slurmspec.R2505},
	"PartitionName Exclusive":        {Since: slurmspec.R2605},
	"PartitionName ExclusiveTopo":    {Since: slurmspec.R2405},
	"PartitionName MaxCPUsPerSocket": {Since: slurmspec.R2302},
	"PartitionName PowerDownOnIdle":  {Since: slurmspec.R2302},
	"PartitionName Topology":         {Since: slurmspec.R2505},
}

// Defunct are the keys that a release reads but ignores, with the first series that ignores them.
// slurmctld logs an error for each (_defunct_option in src/common/read_config.c), except for LaunchType.
var Defunct = map[string]slurmspec.Release{
	"AccountingStorageUser":          slurmspec.R2511,
	"CoreSpecPlugin":                 slurmspec.R2405,
	"ExtSensorsFreq":                 slurmspec.R2311,
	"ExtSensorsType":                 slurmspec.R2311,
	"GetEnvTimeout":                  slurmspec.R2505,
	"JobCredentialPrivateKey":        slurmspec.R2311,
	"JobCredentialPublicCertificate": slurmspec.R2311,
	"LaunchType":                     slurmspec.R2302,
	"PowerParameters":                slurmspec.R2405,
	"PowerPlugin":                    slurmspec.R2405,
	"SchedulerAuth":                  slurmspec.R2011,
}

// Successors says what replaced a key in other releases, or how releases without the key behave.
var Successors = map[string]string{
	"AccountingStorageLoc": "the database of completed jobs is set in slurmdbd.conf",
	"DefaultStorageType":   "AccountingStorageType and JobCompType have no other default",
	"EpilogTimeout":        "PrologEpilogTimeout sets both timeouts",
	"FrontendName":         "every node needs its own slurmd",
	"JobCompPassScript":    "JobCompPass has the password",
	"MaxBatchRequeue":      "slurmctld holds a batch job after 5 requeues",
	"NamespaceType":        "JobContainerType is the older name",
	"PowerAction":          "RebootProgram, ResumeProgram and SuspendProgram are the actions",
	"PreemptParameters":    "SchedulerParameters has the options, with the prefix preempt_",
	"PrologTimeout":        "PrologEpilogTimeout sets both timeouts",
	"SchedulerAuth":        "it has had no effect for years",
	"SlurmctldPlugstack":   "there are no such plugins any more",
}

// Includes reports whether a release belongs to the lifetime.
func (l Lifetime) Includes(release slurmspec.Release) bool {
	return (l.Since.IsZero() || release.Since(l.Since)) && (l.Until.IsZero() || !release.Since(l.Until))
}

// Absence says why a release outside the lifetime lacks the key, option or plugin: "new in 24.05"
// or "removed in 24.05".
func (l Lifetime) Absence(release slurmspec.Release) string {
	if !l.Since.IsZero() && !release.Since(l.Since) {
		return "new in " + l.Since.String()
	}
	return "removed in " + l.Until.String()
}

// OptionList describes the options of one key of slurm.conf whose value is a comma list.
type OptionList struct {
	// Refused says that slurmctld refuses a configuration with an option that it does not know; otherwise it ignores the
	// option.
	Refused bool
	// Always has the options, in lower case, that all releases from 22.05 on know. It is set
	// only if Refused is set.
	Always []string
	// Some has the options, in lower case, that only some of these releases know.
	Some map[string]Option
}

// Option is the lifetime of one option.
type Option struct {
	Lifetime
	// Refused says that slurmctld refuses this option, although it ignores others.
	Refused bool
	// Instead is the option that replaces this option in other releases; "" if none does.
	Instead string
	// Effect is the difference that the missing option makes to scheduling; "" for no difference.
	Effect string
}

// Options has the options by key. The names come from the functions that read them:
// _parse_select_type_param, preempt_mode_num, prolog_str2flags, reconfig_str2flags,
// _validate_accounting_storage_enforce and _validate_and_set_defaults in src/common/read_config.c,
// and the readers of SchedulerParameters in src/slurmctld and src/plugins/sched. Package conf keeps
// options that are not in this table.
var Options = map[string]OptionList{
	"AccountingStoreFlags": {Some: map[string]Option{
		"job_extra": {Lifetime: Lifetime{Since: slurmspec.R2302}},
		"no_stdio":  {Lifetime: Lifetime{Since: slurmspec.R2405}},
	}},
	"CommunicationParameters": {Some: map[string]Option{
		"disable_http":              {Lifetime: Lifetime{Since: slurmspec.R2511}},
		"getnameinfo_cache_timeout": {Lifetime: Lifetime{Since: slurmspec.R2302}},
		"host_unreach_retry_count":  {Lifetime: Lifetime{Since: slurmspec.R2505}},
		"noaddrcache":               {Lifetime: Lifetime{Until: slurmspec.R2311}},
	}},
	"AccountingStorageEnforce": {
		Refused: true,
		Always:  []string{"1", "2", "all", "associations", "limits", "nojobs", "nosteps", "qos", "safe", "wckeys"},
	},
	"PreemptMode": {
		Refused: true,
		Always:  []string{"cancel", "cluster", "gang", "off", "on", "requeue", "suspend", "within"},
		Some: map[string]Option{
			"priority": {Lifetime: Lifetime{Since: slurmspec.R2505}, Effect: "jobs also preempt jobs of a higher priority, if " +
				"the QOS or the partition allows it"},
		},
	},
	"PriorityFlags": {Some: map[string]Option{
		"max_tres_gres": {Lifetime: Lifetime{Since: slurmspec.R2505}, Instead: "MAX_TRES",
			Effect: "other releases take it as MAX_TRES and bill jobs with generic resources differently"},
	}},
	"PrologFlags": {
		Refused: true,
		Always:  []string{"alloc", "contain", "deferbatch", "nohold", "serial", "x11"},
		Some: map[string]Option{
			"forcerequeueonfail": {Lifetime: Lifetime{Since: slurmspec.R2302}, Instead: "Alloc"},
			"runinjob":           {Lifetime: Lifetime{Since: slurmspec.R2405}, Instead: "Contain"},
		},
	},
	"ReconfigFlags": {Some: map[string]Option{
		"keepnodestatefuture":   {Lifetime: Lifetime{Since: slurmspec.R2411, Until: slurmspec.R2505}},
		"keeppowersavesettings": {Lifetime: Lifetime{Since: slurmspec.R2302}},
	}},
	"SchedulerParameters": {Some: map[string]Option{
		"bf_allow_magnetic_slot": {Lifetime: Lifetime{Since: slurmspec.R2411},
			Effect: "backfill does not plan jobs in magnetic reservations"},
		"bf_topopt_enable": {Lifetime: Lifetime{Since: slurmspec.R2411},
			Effect: "backfill does not choose among placements by topology"},
		"bf_topopt_iterations": {Lifetime: Lifetime{Since: slurmspec.R2411}},
		"bf_yield_rpc_cnt":     {Lifetime: Lifetime{Since: slurmspec.R2505}},
		"bf_yield_rpc_count":   {Lifetime: Lifetime{Since: slurmspec.R2505}},
		"defer_batch": {Lifetime: Lifetime{Since: slurmspec.R2302},
			Effect: "slurmctld tries to start batch jobs at their submission"},
		"enable_job_state_cache": {Lifetime: Lifetime{Since: slurmspec.R2311, Until: slurmspec.R2605}},
		"extra_constraints": {Lifetime: Lifetime{Since: slurmspec.R2311},
			Effect: "jobs cannot constrain their nodes with --extra"},
		"ignore_constraint_validation": {Lifetime: Lifetime{Since: slurmspec.R2411},
			Effect: "slurmctld refuses jobs whose constraint no node can meet"},
		"max_job_bf":            {Lifetime: Lifetime{Until: slurmspec.R2205}, Refused: true, Instead: "bf_max_job_test"},
		"max_submit_line_size":  {Lifetime: Lifetime{Since: slurmspec.R2311}},
		"nohold_on_prolog_fail": {Lifetime: Lifetime{Since: slurmspec.R2302}},
		"requeue_delay": {Lifetime: Lifetime{Since: slurmspec.R2511},
			Effect: "requeued jobs wait for as long as the release's default says"},
		"requeue_on_resume_failure": {Lifetime: Lifetime{Since: slurmspec.R2505}},
		"time_min_as_soft_limit": {Lifetime: Lifetime{Since: slurmspec.R2311},
			Effect: "--time-min only lets backfill shorten a job, and is not a soft limit"},
	}},
	"SlurmctldParameters": {Some: map[string]Option{
		"cloud_reg_addrs":           {Lifetime: Lifetime{Until: slurmspec.R2311}},
		"disable_triggers":          {Lifetime: Lifetime{Since: slurmspec.R2311}},
		"enable_async_reply":        {Lifetime: Lifetime{Since: slurmspec.R2511}},
		"enable_expedited_requeue":  {Lifetime: Lifetime{Since: slurmspec.R2511}},
		"enable_stepmgr":            {Lifetime: Lifetime{Since: slurmspec.R2405}},
		"health_check_report":       {Lifetime: Lifetime{Since: slurmspec.R2605}},
		"max_powered_nodes":         {Lifetime: Lifetime{Since: slurmspec.R2405}},
		"no_quick_restart":          {Lifetime: Lifetime{Since: slurmspec.R2311}},
		"reconfig_on_restart":       {Lifetime: Lifetime{Since: slurmspec.R2511}},
		"rl_enable":                 {Lifetime: Lifetime{Since: slurmspec.R2302}},
		"validate_nodeaddr_threads": {Lifetime: Lifetime{Since: slurmspec.R2302}},
	}},
	"TopologyParam": {Some: map[string]Option{
		"blockasnoderank": {Lifetime: Lifetime{Since: slurmspec.R2511}, Effect: "tasks are ranked by the nodes' names"},
		"routepart":       {Lifetime: Lifetime{Since: slurmspec.R2311}},
		"routetree":       {Lifetime: Lifetime{Since: slurmspec.R2311}},
		"switchasnoderank": {Lifetime: Lifetime{Since: slurmspec.R2302},
			Effect: "nodes are ordered by their names, not by switch"},
		"topomaxsizeunroll": {Lifetime: Lifetime{Since: slurmspec.R2411},
			Effect: "topology/block tries fewer sizes of a job with a range of nodes"},
	}},
	"SelectTypeParameters": {
		Refused: true,
		Always: []string{"cr_core", "cr_core_default_dist_block", "cr_core_memory", "cr_cpu", "cr_cpu_memory", "cr_lln",
			"cr_memory", "cr_one_task_per_core", "cr_pack_nodes", "cr_socket", "cr_socket_memory"},
		Some: map[string]Option{
			"cr_allocate_full_socket": {Lifetime: Lifetime{Until: slurmspec.R2302}},
			"cr_no_dist_topo_block": {Lifetime: Lifetime{Since: slurmspec.R2605},
				Effect: "tasks are distributed over blocks"},
			"enforce_binding_gres": {Lifetime: Lifetime{Since: slurmspec.R2311},
				Effect: "jobs may get generic resources of another socket than that of their cores"},
			"ll_shared_gres": {Lifetime: Lifetime{Since: slurmspec.R2311},
				Effect: "shared generic resources do not go to the least loaded device first"},
			"multiple_sharing_gres_pj":  {Lifetime: Lifetime{Since: slurmspec.R2311}, Effect: "a job may share one device only"},
			"one_task_per_sharing_gres": {Lifetime: Lifetime{Since: slurmspec.R2311}, Effect: "tasks may share a device"},
			"other_cons_res":            {Lifetime: Lifetime{Until: slurmspec.R2311}},
			"other_cons_tres":           {Lifetime: Lifetime{Until: slurmspec.R2405}},
		},
	},
}

// PreemptOptions are the options of PreemptParameters that 22.05 knows. Each has the key that
// contains it in 22.05 with the prefix preempt_ (slurm.conf(5) of 22.05 and 23.02).
var PreemptOptions = map[string]string{
	"reorder_count":    "SchedulerParameters",
	"send_user_signal": "SlurmctldParameters",
	"strict_order":     "SchedulerParameters",
	"youngest_first":   "SchedulerParameters",
}

// Plugin is the lifetime of a plugin.
type Plugin struct {
	Lifetime
	// Instead is the plugin that replaces this plugin in older or newer releases, with the same effect on scheduling; ""
	// if none does.
	Instead string
}

// Plugins are the plugins that some series from 22.05 to 26.05 lacks: plugins whose kind decides
// scheduling, and others that sites name. It follows the directories of src/plugins. Plugins named
// "none" are left out: since 23.11 this name means that no plugin is loaded.
var Plugins = map[string]Plugin{
	"auth/slurm":                {Lifetime: Lifetime{Since: slurmspec.R2311}},
	"hash/sha3":                 {Lifetime: Lifetime{Since: slurmspec.R2405}},
	"job_container/cncu":        {Lifetime: Lifetime{Until: slurmspec.R2405}},
	"job_container/tmpfs":       {Lifetime: Lifetime{Until: slurmspec.R2511}, Instead: "namespace/tmpfs"},
	"jobcomp/kafka":             {Lifetime: Lifetime{Since: slurmspec.R2302}},
	"mcs/label":                 {Lifetime: Lifetime{Since: slurmspec.R2411}},
	"node_features/knl_cray":    {Lifetime: Lifetime{Until: slurmspec.R2405}},
	"node_features/knl_generic": {Lifetime: Lifetime{Until: slurmspec.R2511}},
	"proctrack/cray_aries":      {Lifetime: Lifetime{Until: slurmspec.R2405}},
	"route/default":             {Lifetime: Lifetime{Until: slurmspec.R2311}},
	"route/topology":            {Lifetime: Lifetime{Until: slurmspec.R2311}, Instead: "TopologyParam=RouteTree"},
	"select/cons_res":           {Lifetime: Lifetime{Until: slurmspec.R2311}, Instead: "select/cons_tres"},
	"select/cray_aries":         {Lifetime: Lifetime{Until: slurmspec.R2405}},
	"switch/cray_aries":         {Lifetime: Lifetime{Until: slurmspec.R2405}},
	"switch/nvidia_imex":        {Lifetime: Lifetime{Since: slurmspec.R2405}},
	"task/cray_aries":           {Lifetime: Lifetime{Until: slurmspec.R2405}},
	"topology/3d_torus":         {Lifetime: Lifetime{Until: slurmspec.R2505}},
	"topology/block":            {Lifetime: Lifetime{Since: slurmspec.R2311}},
	"topology/default":          {Lifetime: Lifetime{Since: slurmspec.R2311}, Instead: "topology/none"},
	"topology/flat":             {Lifetime: Lifetime{Since: slurmspec.R2505}, Instead: "topology/none"},
	"topology/hypercube":        {Lifetime: Lifetime{Until: slurmspec.R2311}},
	"topology/ring":             {Lifetime: Lifetime{Since: slurmspec.R2605}},
	"topology/torus3d":          {Lifetime: Lifetime{Since: slurmspec.R2605}},
}

// NoPlugin reports whether a plugin's name means "no plugin" to a release, so that no file has to
// exist. 23.11 removed the plugins that do nothing, except topology/default, which 25.05
// replaced by topology/flat.
func NoPlugin(name string, release slurmspec.Release) bool {
	if strings.EqualFold(name, "topology/default") {
		return release.Since(slurmspec.R2505)
	}
	return release.Since(slurmspec.R2311) && strings.HasSuffix(strings.ToLower(name), "/none")
}

// Default is a default that another release changed, and that decides scheduling.
type Default struct {
	Key           string
	Since         slurmspec.Release
	Before, After string
	// Effect says what the two values mean for scheduling.
	Effect string
}

// The defaults in src/common/read_config.h that changed from 22.05 to 26.05. All other defaults that
// changed there concern slurmd, logs and message traffic. The defaults of SchedulerParameters did not
// change.
var (
	PriorityType = Default{"PriorityType", slurmspec.R2311, "priority/basic", "priority/multifactor",
		"priority/basic starts jobs in the order of their submission; priority/multifactor computes priorities"}
	SelectType = Default{"SelectType", slurmspec.R2311, "select/linear", "select/cons_tres",
		"select/linear gives jobs whole nodes; select/cons_tres gives them cores, memory and GPUs"}

	Defaults = []Default{PriorityType, SelectType}
)

// In returns the default in a release.
func (d Default) In(release slurmspec.Release) string {
	if release.Since(d.Since) {
		return d.After
	}
	return d.Before
}

// At returns the default that a replay on a release uses for a site whose series lies between from
// and to. It is the site's default, or the release's own if the default changed between these two
// series.
func (d Default) At(release, from, to slurmspec.Release) string {
	if d.In(from) == d.In(to) {
		return d.In(from)
	}
	return d.In(release)
}

// OptionName returns the name of an option ("bf_window=10") in lower case.
func OptionName(option string) string {
	name, _, _ := strings.Cut(option, "=")
	return strings.ToLower(strings.TrimSpace(name))
}

// Knows reports whether any release from 22.05 on knows an option of the list. It returns true for
// a list that does not name all known options.
func (l OptionList) Knows(name string) bool {
	if !l.Refused {
		return true
	}
	_, some := l.Some[name]
	return some || slices.Contains(l.Always, name)
}

// Complete returns a function like get, which returns a site's values of slurm.conf. The site's series lies between
// from and to. The returned function also has the values that decide scheduling in a replay on a release if slurm.conf
// lacks them: those of [Default.At], and CR_Core_Memory for SelectTypeParameters if the plugin allocates cores. If the
// release does not have the site's plugin of SelectType, the value is the plugin that replaces it.
func Complete(get func(key string) (string, bool), release, from, to slurmspec.Release) func(string) (string, bool) {
	values := map[string]string{}
	for _, d := range Defaults {
		if _, set := get(d.Key); !set {
			values[strings.ToLower(d.Key)] = d.At(release, from, to)
		}
	}
	kind, set := get("SelectType")
	if kind = strings.ToLower(kind); !set {
		kind = values["selecttype"]
	} else if plugin := Plugins[kind]; plugin.Instead != "" && !plugin.Includes(release) {
		kind = plugin.Instead
		values["selecttype"] = kind
	}
	if text, _ := get("SelectTypeParameters"); text == "" && strings.HasPrefix(kind, "select/cons_") {
		values["selecttypeparameters"] = "CR_Core_Memory"
	}
	return func(key string) (string, bool) {
		if value, known := values[strings.ToLower(key)]; known {
			return value, true
		}
		return get(key)
	}
}
