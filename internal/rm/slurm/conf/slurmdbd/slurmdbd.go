// Package slurmdbd adapts a site's slurmdbd.conf to a replay. It decides which keys the run's own slurmdbd gets. If the
// release does not have a key, the package says what is lost.
package slurmdbd

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// File is the name of the file. Database is the name of a run's database.
const (
	File     = "slurmdbd.conf"
	Database = "slurm_acct_db"
)

// Key is one key of slurmdbd.conf.
type Key struct {
	Name string
	Kind syntax.Kind
	// Reason says why a replay changes or drops the key; "" for a key that it keeps.
	Reason string
	// Secret hides the value in reports.
	Secret bool
	// effect says how a missing key affects jobs; "" for a key without an effect.
	effect string
}

// The reasons that several keys share.
const (
	whyDB     = "accounting is in a private database of this run"
	whyAuth   = "the replay's clients have no keys of the site"
	whyHost   = "slurmdbd runs here, on loopback"
	whyPath   = "files of this run are in its own directory"
	whyAll    = "the run reads all of its records when it ends"
	whySyslog = "nothing goes to this machine's syslog"
)

// Keys are the keys of slurmdbd.conf in all releases from 20.11 to 26.05
// (src/slurmdbd/read_config.c). [history.DatabaseKeys] says which releases have a key.
var Keys = slices.Concat(
	// Keys that decide what accounts, users and limits mean are kept.
	[]Key{
		{Name: "AllowNoDefAcct", Kind: syntax.Boolean, effect: "a user's jobs may have another account"},
		{Name: "AllResourcesAbsolute", Kind: syntax.Boolean, effect: "clusters may have other counts of licences"},
		{Name: "DisableCoordDBD", Kind: syntax.Boolean},
		{Name: "Parameters"},
	},
	dropped("the replay sets it if slurm.conf has wckeys", syntax.Boolean, "TrackWCKey"),
	dropped("accounts.sacctmgr gives the QOS of accounts and users", syntax.String, "DefaultQOS"),
	dropped(whyHost, syntax.String, "CommunicationParameters", "DbdAddr", "DbdBackupHost", "DbdHost", "SlurmUser"),
	dropped(whyHost, syntax.Uint16, "DbdPort"),
	dropped("connections on loopback need no other limits", syntax.Uint16, "MessageTimeout", "TCPTimeout"),
	dropped(whyAuth, syntax.String, "AuthAltParameters", "AuthAltTypes", "AuthInfo", "AuthType", "HashPlugin",
		"TLSParameters", "TLSType"),
	dropped(whyPath, syntax.String, "LogFile", "LogTimeFormat", "PidFile", "PluginDir"),
	dropped("levels above info slow slurmdbd and fill the disk", syntax.String, "DebugFlags", "DebugLevel"),
	dropped(whySyslog, syntax.String, "DebugLevelSyslog"),
	[]Key{{Name: "StoragePass", Reason: whyDB, Secret: true}},
	dropped(whyDB, syntax.String, "StorageBackupHost", "StorageHost", "StorageLoc", "StorageParameters",
		"StoragePassScript", "StorageType", "StorageUser"),
	dropped(whyDB, syntax.Uint16, "CommitDelay", "StoragePort"),
	dropped(whyAll, syntax.String, "ArchiveDir", "ArchiveScript", "MaxQueryTimeRange", "PrivateData", "PurgeEventAfter",
		"PurgeJobAfter",
		"PurgeJobEnvAfter", "PurgeJobScriptAfter", "PurgeResvAfter", "PurgeStepAfter", "PurgeSuspendAfter", "PurgeTXNAfter",
		"PurgeUsageAfter"),
	dropped(whyAll, syntax.Boolean, "ArchiveEvents", "ArchiveJobEnv", "ArchiveJobScript", "ArchiveJobs", "ArchiveResvs",
		"ArchiveSteps",
		"ArchiveSuspend", "ArchiveTXN", "ArchiveUsage", "DisableArchiveCommands"),
	dropped(whyAll, syntax.Uint32, "JobPurge", "MaxPurgeLimit", "PurgeEventMonths", "PurgeJobMonths", "PurgeStepMonths",
		"PurgeSuspendMonths",
		"PurgeTXNMonths", "PurgeUsageMonths", "StepPurge"),
	dropped("slurmctld does not read sums of usage", syntax.Boolean, "DisableRollups", "TrackSlurmctldDown"),
)

func dropped(reason string, kind syntax.Kind, names ...string) []Key {
	keys := make([]Key, len(names))
	for i, name := range names {
		keys[i] = Key{Name: name, Kind: kind, Reason: reason}
	}
	return keys
}

// Finding says what a replay does with a statement of the site's file.
type Finding struct {
	// Key is in the spelling of the manual page.
	Key string
	// From is the value, hidden if it is secret. To is the value in a replay; "" if the replay leaves
	// the key out.
	From, To string
	// Reason says why the replay does not keep the statement; "" if the replay keeps it.
	Reason string
	// Unknown is set if the release does not have the key: the site itself must then change it.
	// Warning says how the loss of the statement affects jobs; "" if the loss has no effect.
	Unknown bool
	Warning string
}

// Settings are the values that a replay sets in slurmdbd.conf.
type Settings struct {
	// Cluster is the cluster's name. Address and Port are slurmdbd's address and port.
	Cluster, Address string
	Port             uint16
	// User is the user that runs slurmdbd and owns the file, which must have mode 0600.
	User             string
	LogFile, PidFile string
	// PluginDir is the directory of Slurm's plugins; "" for slurmdbd's default.
	PluginDir string
	// TrackWCKey is set if slurmctld uses wckeys: slurmdbd must then use them too.
	TrackWCKey bool
}

// Adapt says what a replay with the given release does with a site's statement.
func (s Settings) Adapt(key, value string, release slurmspec.Release) Finding {
	i := slices.IndexFunc(Keys, func(k Key) bool { return strings.EqualFold(k.Name, key) })
	if i < 0 { // impossible: the parser has refused it
		return Finding{Key: key, From: value, Reason: "no release has the key"}
	}
	k := Keys[i]
	f := Finding{Key: k.Name, From: value, Reason: k.Reason}
	for _, own := range s.values() {
		if own.key == k.Name {
			f.To = own.value
		}
	}
	if k.Secret {
		f.From = "(hidden)"
	}
	life := history.DatabaseKeys[k.Name]
	switch {
	case !life.Includes(release):
		f.Unknown = true
		f.Reason = fmt.Sprintf("%s does not have it (%s)", release.Series(), life.Absence(release))
		if instead := history.DatabaseSuccessors[k.Name]; instead != "" {
			f.Reason += ": " + instead
		}
		if on, err := syntax.ParseBool(value); err != nil || on {
			f.Warning = k.effect
		}
	case k.Reason == "":
		f.To = value
	case k.Name == "DefaultQOS" && !strings.EqualFold(value, "normal"):
		f.Warning = "accounts for which accounts.sacctmgr gives no QOS have the QOS normal"
	}
	return f
}

// setting is a key with its value.
type setting struct{ key, value string }

// values returns the keys that the replay sets, with their values.
//
// StorageHost=localhost makes the MariaDB client use a Unix socket. MYSQL_UNIX_PORT in slurmdbd's
// environment has its path.
func (s Settings) values() []setting {
	list := []setting{
		{"AuthType", "auth/none"},
		{"DbdHost", "localhost"},
		{"DbdAddr", s.Address},
		{"DbdPort", fmt.Sprint(s.Port)},
		{"CommunicationParameters", "NoInAddrAny"},
		{"SlurmUser", s.User},
		{"DebugLevel", "info"},
		{"DebugLevelSyslog", "quiet"},
		{"LogFile", s.LogFile},
		{"PidFile", s.PidFile},
		{"PluginDir", s.PluginDir},
		{"StorageType", "accounting_storage/mysql"},
		{"StorageHost", "localhost"},
		{"StorageLoc", Database},
		{"StorageUser", s.User},
	}
	if s.TrackWCKey {
		list = append(list, setting{"TrackWCKey", "yes"})
	}
	return slices.DeleteFunc(list, func(v setting) bool { return v.value == "" })
}

// Write returns the slurmdbd.conf of a run. It includes the site's statements that the run keeps.
func (s Settings) Write(site []Finding) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# slurmdbd of cluster %s in a replay. Do not edit: written anew for every run.\n", s.Cluster)
	list := s.values()
	for _, f := range site {
		if f.Reason == "" {
			list = append(list, setting{f.Key, f.To})
		}
	}
	for _, v := range list {
		fmt.Fprintln(&b, v.key+"="+syntax.Quote(v.value))
	}
	return b.Bytes()
}
