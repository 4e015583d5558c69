package conf

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"rmreplay/internal/rm/slurm/conf/slurmdbd"
	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec/history"
)

// databaseGrammar is the grammar of slurmdbd.conf.
var databaseGrammar = func() syntax.Grammar {
	g := syntax.Grammar{}
	for _, k := range slurmdbd.Keys {
		g.Add(k.Kind, k.Name)
	}
	return g
}()

// readDatabase reads the site's slurmdbd.conf. The file has a password, so the user may have no
// permission to read it.
func (c *Cluster) readDatabase(path string, files *files) (err error) {
	if c.Database, err = optional(path, databaseGrammar, files); errors.Is(err, fs.ErrPermission) {
		c.Warnings, err = append(c.Warnings, err.Error()+"; the replay does not use the file"), nil
	}
	return err
}

// slurmdbd returns the slurmdbd.conf of a run. It reports how the file differs from the site's.
func (a *adapter) slurmdbd() []byte {
	settings := slurmdbd.Settings{
		Cluster: a.cluster.Name, Address: a.env.ControlAddress.String(), Port: a.env.DBPort, User: a.env.DaemonUser, LogFile: standardOutput,
		PidFile: filepath.Join(a.env.StateDir, "slurmdbd.pid"), PluginDir: a.env.PluginDir, TrackWCKey: a.cluster.tracksWCKeys(),
	}
	var site []slurmdbd.Finding
	for _, s := range a.cluster.Database {
		f := settings.Adapt(s.Key, s.Value, a.release)
		site = append(site, f)
		c := Change{Key: slurmdbd.File + " " + f.Key, From: f.From, To: f.To, Reason: f.Reason, File: s.File, Line: s.Line}
		if f.Unknown {
			a.out.Upgrade = append(a.out.Upgrade, c)
		}
		if f.To != s.Value {
			a.out.Changes = append(a.out.Changes, c)
		}
		if f.Warning != "" {
			a.warn("%s", s.warningf("%s=%s: %s", f.Key, f.From, f.Warning))
		}
	}
	return settings.Write(site)
}

// database narrows the range to the series that know the keys of slurmdbd.conf.
func (e *evidence) database(c *Cluster) {
	for _, s := range c.Database {
		e.See(history.DatabaseKeys[databaseGrammar.Canonical(s.Key)])
	}
}

// tracksWCKeys reports whether slurmctld uses wckeys. slurmdbd must then use them too. Enforcing wckeys, or enforcing
// everything, implies tracking them.
func (c *Cluster) tracksWCKeys() bool {
	flag, _ := c.Get("TrackWCKey")
	if yes, err := syntax.ParseBool(flag); err == nil && yes {
		return true
	}
	enforce, _ := c.Get("AccountingStorageEnforce")
	for _, item := range syntax.List(enforce) {
		if strings.EqualFold(item, "wckeys") || strings.EqualFold(item, "all") {
			return true
		}
	}
	return false
}
