package conf

import (
	"strings"

	"rmreplay/internal/slurmspec"
)

// lifetime says which releases know a key of slurm.conf: those from since on, and before
// until. A zero since means the oldest series of [slurmspec.Releases] or an older one. A zero
// until means that the newest series still knows the key.
type lifetime struct{ since, until slurmspec.Release }

// lifetimes has the keys of [rules] that one of the known series lacks. It follows
// slurm_conf_options in src/common/read_config.c of the last patch of each series from 20.11
// to 26.05.
var lifetimes = map[string]lifetime{
	"AccountingStorageLoc": {until: slurmspec.R2511},
	"AccountingStoreFlags": {since: slurmspec.R2108},
	"BcastExclude":         {since: slurmspec.R2108},
	"BcastParameters":      {since: slurmspec.R2108},
	"CacheGroups":          {until: slurmspec.R2108},
	"CheckpointType":       {until: slurmspec.R2108},
	"ChosLoc":              {until: slurmspec.R2011},
	"DataParserParameters": {since: slurmspec.R2411},
	"DynAllocPort":         {until: slurmspec.R2011},
	"FrontendName":         {until: slurmspec.R2505},
	"HashPlugin":           {since: slurmspec.R2405},
	"JobCheckpointDir":     {until: slurmspec.R2108},
	"Layouts":              {until: slurmspec.R2011},
	"MaxNodeCount":         {since: slurmspec.R2205},
	"MemLimitEnforce":      {until: slurmspec.R2108},
	"MsgAggregationParams": {until: slurmspec.R2011},
	"SchedulerAuth":        {until: slurmspec.R2405},
	"SchedulerPort":        {until: slurmspec.R2108},
	"SchedulerRootFilter":  {until: slurmspec.R2108},
	"SlurmctldPlugstack":   {until: slurmspec.R2302},
	"SwitchParameters":     {since: slurmspec.R2108},
	"TLSParameters":        {since: slurmspec.R2405},
	"TLSType":              {since: slurmspec.R2405},
	"UseSpecResources":     {until: slurmspec.R2011},
}

// includes reports whether a release belongs to the lifetime.
func (l lifetime) includes(release slurmspec.Release) bool {
	return (l.since.IsZero() || release.Since(l.since)) && (l.until.IsZero() || !release.Since(l.until))
}

// ruleOf returns the rule for a key, compared without case, in a release. The rule for a key
// of other releases drops the key. ruleOf returns nil for a key of no release.
func ruleOf(key string, release slurmspec.Release) *rule {
	r := rulesByKey[strings.ToLower(key)]
	if r == nil || r.known.includes(release) {
		return r
	}
	return &rule{
		key: r.key, kind: r.kind, known: r.known, secret: r.secret,
		action: drop, reason: "key of another Slurm version, unknown to " + release.Series().String(),
	}
}
