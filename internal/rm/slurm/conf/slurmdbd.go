package conf

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
)

// DatabaseName is the name of slurmdbd's database.
const DatabaseName = "slurm_acct_db"

// SlurmDBD returns the slurmdbd.conf of a run. slurmdbd requires mode 0600 and the user named in
// the file as its owner.
//
// StorageHost=localhost makes the MariaDB client use a Unix socket. MYSQL_UNIX_PORT in
// slurmdbd's environment has its path. The file leaves out the site's purging, archiving and
// private data, because the run reads all of its records when it ends.
func SlurmDBD(c *Cluster, env Environment) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# slurmdbd of cluster %s in a replay. Do not edit: written anew for every run.\n", c.Name)
	set := func(key, value string) { fmt.Fprintln(&b, line(key, value)) }
	set("AuthType", "auth/none")
	set("DbdHost", "localhost")
	set("DbdAddr", env.ControlAddress.String())
	set("DbdPort", fmt.Sprint(env.DBPort))
	set("CommunicationParameters", "NoInAddrAny")
	set("SlurmUser", env.DaemonUser)
	set("DebugLevel", "info")
	set("DebugLevelSyslog", "quiet")
	set("LogFile", standardOutput)
	set("PidFile", filepath.Join(env.StateDir, "slurmdbd.pid"))
	if env.PluginDir != "" {
		set("PluginDir", env.PluginDir)
	}
	set("StorageType", "accounting_storage/mysql")
	set("StorageHost", "localhost")
	set("StorageLoc", DatabaseName)
	set("StorageUser", env.DaemonUser)
	if c.tracksWCKeys() {
		set("TrackWCKey", "yes")
	}
	return b.Bytes()
}

// tracksWCKeys reports whether slurmctld uses wckeys. slurmdbd must then use them too. Enforcing
// wckeys, or everything, implies tracking them.
func (c *Cluster) tracksWCKeys() bool {
	flag, _ := c.Get("TrackWCKey")
	if yes, err := syntax.ParseBool(flag); err == nil && yes {
		return true
	}
	enforce, _ := c.Get("AccountingStorageEnforce")
	for _, item := range splitList(enforce) {
		if strings.EqualFold(item, "wckeys") || strings.EqualFold(item, "all") {
			return true
		}
	}
	return false
}
