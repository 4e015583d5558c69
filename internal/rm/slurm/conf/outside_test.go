package conf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"rmreplay/internal/slurmspec"
)

const secret = "s3cret"

// TestOutside: no message quotes a file outside the cluster's directory, which root may read and
// the configuration's writer may not.
func TestOutside(t *testing.T) {
	const good = "ClusterName=a\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n"
	for name, content := range map[string]string{
		"a file of passwords": "root:" + secret + ":19000:0:99999:7:::\ndaemon:" + secret + "\n",
		"an unknown key":      secret + "=1\n",
		"a wrong value":       "MaxJobCount=" + secret + "\n",
		"an attribute":        "NodeName=n2 " + secret + "=1\n",
		"a second key":        "MaxJobCount=1 " + secret + "\n",
		"a node":              "NodeName=n[" + secret + "\n",
		"a partition":         "PartitionName=q Nodes=" + secret + "\n",
	} {
		for _, how := range []string{"include", "link", "gres.conf", "topology.conf", "topology.yaml", "slurmdbd.conf", "users"} {
			t.Run(name+" by "+how, func(t *testing.T) {
				dir, other := t.TempDir(), filepath.Join(t.TempDir(), "private")
				text, err := good, os.WriteFile(other, []byte(content), 0o600)
				switch how {
				case "include":
					text += "Include " + other + "\n"
				case "link":
					text += "Include more.conf\n"
					err = errors.Join(err, os.Symlink(other, filepath.Join(dir, "more.conf")))
				default:
					err = errors.Join(err, os.Symlink(other, filepath.Join(dir, how)))
				}
				if err = errors.Join(err, os.WriteFile(filepath.Join(dir, slurmConf), []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
				_, err = Open(dir)
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%v", err)
				}
				if strings.HasPrefix(name, "a file") && how == "include" && (err == nil || !strings.Contains(err.Error(), other+":2: a mistake (its text is not shown")) {
					t.Errorf("want the place: %v", err)
				}
			})
		}
	}
}

// TestOutsideChanges: the table of changes has the keys of an included file and not its values.
// Files below the directory are quoted.
func TestOutsideChanges(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "private")
	text := "ClusterName=a\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\nMailProg=/inner\nInclude " + other + "\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, slurmConf), []byte(text), 0o600), os.WriteFile(other, []byte("Prolog=/"+secret+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cluster, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	release, err := slurmspec.ParseRelease("22.05.8")
	if err != nil {
		t.Fatal(err)
	}
	adapted, err := Adapt(cluster, release, testEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := adapted.Render(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, secret) || !strings.Contains(got, "Prolog") || !strings.Contains(got, "/inner") || !strings.Contains(got, hidden) {
		t.Errorf("%s", got)
	}
}

// TestPipeInCluster: Open refuses a named pipe in a cluster's directory and does not wait for it.
func TestPipeInCluster(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, slurmConf), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(fmt.Sprint(err), "a named pipe") {
		t.Errorf("%v", err)
	}
}
