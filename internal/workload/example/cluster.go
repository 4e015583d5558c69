package example

import (
	"embed"
	"fmt"
	"strings"
)

// The nodes of the cluster, as in cluster/nodes.conf.
const (
	cpuNodes        = 36
	coresPerCPUNode = 32
	gpuNodes        = 14
	gpusPerNode     = 4
)

//go:embed cluster
var cluster embed.FS

// clusterNames are the files of the cluster directory that do not depend on users.
var clusterNames = []string{"slurm.conf", "nodes.conf", "gres.conf", "topology.conf"}

func clusterFiles() map[string]string {
	files := map[string]string{
		"accounts.sacctmgr": accountsFile(),
		"users":             usersFile(),
	}
	for _, name := range clusterNames {
		text, err := cluster.ReadFile("cluster/" + name)
		if err != nil {
			panic(err) // the files are part of the binary
		}
		files[name] = string(text)
	}
	return files
}

// account is an account of the example with its users.
type account struct {
	name, parent string
	fairshare    int
	users        []string
}

// accounts are in the order in which they must be created: parents first.
var accounts = []account{
	{name: "science", fairshare: 50},
	{name: "engineering", fairshare: 30},
	{name: "learning", fairshare: 20},
	{name: "physics", parent: "science", fairshare: 40, users: []string{"ada", "boris", "chloe", "dmitri", "elif"}},
	{name: "chemistry", parent: "science", fairshare: 35, users: []string{"farid", "greta", "hugo", "ines"}},
	{name: "biology", parent: "science", fairshare: 25, users: []string{"jonas", "keiko", "lucia"}},
	{name: "fluids", parent: "engineering", fairshare: 60, users: []string{"marek", "nadia", "oscar", "petra"}},
	{name: "structures", parent: "engineering", fairshare: 40, users: []string{"quinn", "rosa", "sven"}},
	{name: "vision", parent: "learning", fairshare: 50, users: []string{"tariq", "uma", "viktor"}},
	{name: "language", parent: "learning", fairshare: 50, users: []string{"wen", "ximena"}},
}

// firstID is the uid of the first user and the gid of the first account.
const firstID = 20001

func usersFile() string {
	var b strings.Builder
	b.WriteString("# name:uid:group:gid\n")
	uid := firstID
	for i, a := range accounts {
		for _, user := range a.users {
			fmt.Fprintf(&b, "%s:%d:%s:%d\n", user, uid, a.name, firstID+i)
			uid++
		}
	}
	return b.String()
}

// The limits of the example's QOS. The generator makes no job beyond these limits, because such a job would wait for
// ever.
const (
	highCPUsPerUser = 256
	longCPUs        = 512
)

// accountsFile returns commands for sacctmgr, one on each line. It has no comments, because
// sacctmgr exits with 1 after a comment.
func accountsFile() string {
	var b strings.Builder
	b.WriteString("modify qos where name=normal set priority=100 maxjobsperuser=60 maxsubmitjobsperuser=1000\n")
	fmt.Fprintf(&b, "add qos name=high priority=1000 maxjobsperuser=8 maxtresperuser=cpu=%d\n", highCPUsPerUser)
	fmt.Fprintf(&b, "add qos name=long priority=10 grptres=cpu=%d maxwall=1-00:00:00\n", longCPUs)
	b.WriteString("add cluster name=vale fairshare=1 qos=normal,high,long\n")
	for _, a := range accounts {
		fmt.Fprintf(&b, "add account name=%s", a.name)
		if a.parent != "" {
			fmt.Fprintf(&b, " parent=%s", a.parent)
		}
		fmt.Fprintf(&b, " description=%s organization=vale fairshare=%d\n", a.name, a.fairshare)
	}
	for _, a := range accounts {
		for _, user := range a.users {
			fmt.Fprintf(&b, "add user name=%s account=%s defaultaccount=%s fairshare=10\n", user, a.name, a.name)
		}
	}
	return b.String()
}
