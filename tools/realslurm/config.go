package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/rm/slurm/conf/syntax"
)

// replaced are the keys of slurm.conf, in lower case, that a run sets itself (own) or omits:
// authentication, credentials, paths, addresses, programs of the site, and logging.
var replaced = map[string]bool{
	"authtype": true, "authinfo": true, "authalttypes": true, "credtype": true, "cryptotype": true,
	"jobcredentialprivatekey": true, "jobcredentialpubliccertificate": true,
	"controlmachine": true, "controladdr": true, "backupcontroller": true, "backupaddr": true, "slurmctldhost": true,
	"slurmctldport": true, "slurmdport": true, "accountingstoragehost": true, "accountingstorageport": true,
	"slurmuser": true, "slurmduser": true, "slurmctldpidfile": true, "slurmdpidfile": true, "plugindir": true,
	"slurmctldlogfile": true, "slurmdlogfile": true, "slurmschedlogfile": true, "slurmschedloglevel": true,
	"slurmdspooldir": true, "statesavelocation": true, "jobcomploc": true, "communicationparameters": true,
	"mailprog": true, "prolog": true, "epilog": true, "prologslurmctld": true, "epilogslurmctld": true,
	"taskprolog": true, "taskepilog": true, "healthcheckprogram": true, "rebootprogram": true,
	"taskplugin": true, "frontendname": true, "logtimeformat": true,
	"slurmctlddebug": true, "debugflags": true,
}

// own has the settings of every run. Slurm 26.05 logs the jobs that backfill starts only with the
// debug flag HetJob, at the level verbose.
const own = `AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=6817
SlurmdPort=6818
AccountingStorageHost=127.0.0.1
AccountingStoragePort=6819
TaskPlugin=task/none
MailProg=/bin/true
LogTimeFormat=iso8601_ms
SlurmctldDebug=verbose
DebugFlags=HetJob
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.%n.log
SlurmdSpoolDir=/var/spool/slurmd.%n
StateSaveLocation=/var/spool/slurmctld
JobCompLoc=/var/log/slurm/jobcomp.log
`

const slurmdbdConf = `AuthType=auth/none
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=6819
SlurmUser=root
LogFile=/var/log/slurm/slurmdbd.log
LogTimeFormat=iso8601_ms
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
`

// firstPort is below the port of the first node.
const firstPort = 7000

// config is a cluster's configuration for a run.
type config struct {
	slurm, gres strings.Builder
	cluster     string
	nodes       []string
	devices     []string // the files that stand for generic resources
}

// adapt adapts a site's slurm.conf. Each node gets a port of its own, and a file
// for each of its generic resources.
func adapt(path string) (*config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &config{}
	c.gres.WriteString("AutoDetect=off\n")
	for line := range syntax.Lines(data) {
		if err := c.line(line.Text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line.Number, err)
		}
	}
	if c.cluster == "" || len(c.nodes) == 0 {
		return nil, fmt.Errorf("%s: no ClusterName, or no node", path)
	}
	c.slurm.WriteString(own)
	return c, nil
}

func (c *config) line(text string) error {
	var kept []string
	node, gres := "", ""
	for rest := text; !syntax.IsBlank(rest); {
		pair, after, ok := syntax.CutPair(rest)
		if !ok {
			return fmt.Errorf("%q: not Key=Value; include no files", strings.TrimSpace(rest))
		}
		rest = after
		switch key := strings.ToLower(pair.Key); {
		case key == "frontendname":
			return nil // every node has its slurmd
		case key == "clustername":
			c.cluster = pair.Value
		case key == "nodename":
			node = pair.Value
		case key == "gres":
			gres = pair.Value
		case node != "" && (key == "nodeaddr" || key == "nodehostname" || key == "port"), node == "" && replaced[key]:
			continue
		}
		operator := ""
		if pair.Operator != 0 {
			operator = string(rune(pair.Operator))
		}
		kept = append(kept, pair.Key+operator+"="+syntax.Quote(pair.Value))
	}
	if node != "" && !strings.EqualFold(node, "DEFAULT") {
		ports, err := c.addNodes(node, gres)
		if err != nil {
			return err
		}
		kept = append(kept, "NodeAddr=127.0.0.1", "Port="+ports)
	}
	if len(kept) > 0 {
		c.slurm.WriteString(strings.Join(kept, " ") + "\n")
	}
	return nil
}

// addNodes adds nodes with their generic resources and returns their ports.
func (c *config) addNodes(names, gres string) (string, error) {
	expanded, err := hostlist.ExpandAtMost(names, 1000)
	if err != nil {
		return "", fmt.Errorf("NodeName=%s: %w", names, err)
	}
	var ports []string
	for _, name := range expanded {
		c.nodes = append(c.nodes, name)
		ports = append(ports, strconv.Itoa(firstPort+len(c.nodes)))
	}
	for _, one := range strings.FieldsFunc(gres, func(r rune) bool { return r == ',' }) {
		if err := c.addGRES(names, one); err != nil {
			return "", fmt.Errorf("key Gres=%s: %w", gres, err)
		}
	}
	return strings.Join(ports, ","), nil
}

// addGRES writes a line of gres.conf for a resource, NAME:COUNT or NAME:TYPE:COUNT.
func (c *config) addGRES(nodes, gres string) error {
	parts := strings.Split(gres, ":")
	count, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil || count < 1 || count > 1000 || len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("%s: want NAME:COUNT or NAME:TYPE:COUNT", gres)
	}
	line := fmt.Sprintf("NodeName=%s Name=%s", nodes, parts[0])
	kind := strings.Join(parts[:len(parts)-1], "-")
	if len(parts) == 3 {
		line += " Type=" + parts[1]
	}
	fmt.Fprintf(&c.gres, "%s File=/etc/slurm/%s-[0-%d]\n", line, kind, count-1)
	for i := range count {
		c.devices = append(c.devices, fmt.Sprintf("etc/slurm/%s-%d", kind, i))
	}
	return nil
}

// write writes the configuration into the daemons' root. users has lines NAME:UID:GROUP:GID.
func (c *config) write(root, site string, users string) error {
	passwd, group := "root:x:0:0::/:/bin/sh\n", "root:x:0:\n"
	seen := map[string]bool{}
	for line := range strings.Lines(users) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 4 {
			return fmt.Errorf("users.sim: %q: want NAME:UID:GROUP:GID", strings.TrimSpace(line))
		}
		passwd += fmt.Sprintf("%s:x:%s:%s::/tmp:/bin/sh\n", f[0], f[1], f[3])
		if !seen[f[3]] {
			seen[f[3]] = true
			group += fmt.Sprintf("%s:x:%s:\n", f[2], f[3])
		}
	}
	files := map[string]string{
		"etc/passwd": passwd, "etc/group": group, "etc/hosts": "127.0.0.1 localhost\n",
		"etc/nsswitch.conf":    "passwd: files\ngroup: files\nhosts: files\n",
		"etc/slurm/slurm.conf": c.slurm.String(), "etc/slurm/gres.conf": c.gres.String(),
		"etc/slurm/slurmdbd.conf": slurmdbdConf, "etc/slurm/cgroup.conf": "CgroupPlugin=disabled\n",
	}
	topology, err := os.ReadFile(filepath.Join(site, "topology.conf"))
	if err == nil {
		files["etc/slurm/topology.conf"] = string(topology)
	} else if !os.IsNotExist(err) {
		return err
	}
	for _, device := range c.devices {
		files[device] = ""
	}
	for _, dir := range []string{"etc/slurm", "run/mysqld", "var/log/slurm", "var/spool/slurmctld", "tmp", "bin", "proc",
		"sys", "dev"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o1777); err != nil {
		return err
	}
	for name, text := range files {
		mode := os.FileMode(0o644)
		if name == "etc/slurm/slurmdbd.conf" {
			mode = 0o600 // slurmdbd refuses another mode
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}
