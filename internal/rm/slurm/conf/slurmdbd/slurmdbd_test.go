package slurmdbd

import (
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

var settings = Settings{Cluster: "c", Address: "127.3.0.1", Port: 7002, User: "me", LogFile: "/dev/stdout", PidFile: "/shm/pid"}

// TestAdapt: Adapt keeps the keys that decide what accounts and limits mean. All other keys get
// the replay's value or are dropped. For a key that the release lacks, the reason says what
// replaces the key.
func TestAdapt(t *testing.T) {
	for _, test := range []struct {
		key, value string
		release    slurmspec.Release
		to, reason string
		unknown    bool
		warning    string
	}{
		{"parameters", "PreserveCaseUser", slurmspec.R2205, "PreserveCaseUser", "", false, ""},
		{"AllResourcesAbsolute", "yes", slurmspec.R2302, "yes", "", false, ""},
		{"AllResourcesAbsolute", "yes", slurmspec.R2205, "", "22.05 does not have it (new in 23.02): sacctmgr reads", true, "other counts of licences"},
		{"AllResourcesAbsolute", "no", slurmspec.R2205, "", "22.05 does not have it", true, ""},
		{"TLSType", "tls/s2n", slurmspec.R2311, "", "23.11 does not have it (new in 24.05)", true, ""},
		{"TLSType", "tls/s2n", slurmspec.R2405, "", whyAuth, false, ""},
		{"PurgeJobEnvAfter", "1month", slurmspec.R2511, "", "environments are purged with their jobs", true, ""},
		{"StoragePass", "secret", slurmspec.R2605, "", whyDB, false, ""},
		{"DbdPort", "6819", slurmspec.R2605, "7002", whyHost, false, ""},
		{"TrackWCKey", "yes", slurmspec.R2605, "", "slurm.conf has wckeys", false, ""},
		{"DefaultQOS", "long", slurmspec.R2605, "", "accounts.sacctmgr", false, "the QOS normal"},
		{"DefaultQOS", "normal", slurmspec.R2605, "", "accounts.sacctmgr", false, ""},
	} {
		f := settings.Adapt(test.key, test.value, test.release)
		if f.To != test.to || !strings.Contains(f.Reason, test.reason) || (f.Reason == "") != (test.reason == "") || f.Unknown != test.unknown ||
			!strings.Contains(f.Warning, test.warning) || (f.Warning == "") != (test.warning == "") {
			t.Errorf("%s=%s in %s: %+v, want %+v", test.key, test.value, test.release, f, test)
		}
		if strings.Contains(f.From, "secret") {
			t.Errorf("%s: the password is shown: %+v", test.key, f)
		}
	}
}

// TestWrite: the file has each key once, and does not have the keys that the replay drops.
func TestWrite(t *testing.T) {
	var site []Finding
	for _, line := range []string{"StoragePass=secret", "DbdPort=6819", "Parameters=PreserveCaseUser", "PurgeJobAfter=1month"} {
		key, value, _ := strings.Cut(line, "=")
		site = append(site, settings.Adapt(key, value, slurmspec.R2605))
	}
	text := string(settings.Write(site))
	for want, count := range map[string]int{"DbdPort=7002\n": 1, "DbdPort": 1, "Parameters=PreserveCaseUser\n": 1, "secret": 0, "Purge": 0, "PluginDir": 0, "TrackWCKey": 0} {
		if got := strings.Count(text, want); got != count {
			t.Errorf("%q is there %d times, want %d:\n%s", want, got, count, text)
		}
	}
}

// TestTables: Keys has every key of history.DatabaseKeys, and has each key once.
func TestTables(t *testing.T) {
	known := map[string]bool{}
	for _, k := range Keys {
		if known[k.Name] {
			t.Errorf("%s occurs twice", k.Name)
		}
		known[k.Name] = true
	}
	for name, l := range history.DatabaseKeys {
		if !known[name] || l == (history.Lifetime{}) {
			t.Errorf("%s: not a key, or without a lifetime", name)
		}
	}
	for name := range history.DatabaseSuccessors {
		if _, ok := history.DatabaseKeys[name]; !ok {
			t.Errorf("%s has a successor, and all releases know it", name)
		}
	}
	for _, v := range settings.values() {
		if !known[v.key] {
			t.Errorf("%s: not a key", v.key)
		}
	}
}
