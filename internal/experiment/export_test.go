package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"rmreplay/internal/bundle"
	"rmreplay/internal/formats"
	"rmreplay/internal/formats/trace"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/example"
	"rmreplay/internal/workload/transform"
)

// A site with names in all places. Each name contains one of the roots below.
const (
	namedConf = `# quokka is the cluster of weatherlab, kept by zebrauser
ClusterName=Quokka
SlurmctldHost=ibex-admin(10.4.4.4)
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ibex-db
AccountingStorageUser=zebrauser
AccountingStoragePass=hunter2secret
AuthInfo=socket=/run/quokka/munge
MailDomain=quokka.example.org
MailProg=/opt/weatherlab/mail
Prolog=/home/zebrauser/prolog.sh
SchedulerType=sched/backfill
SchedulerParameters=bf_continue,bf_window=1440
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
PriorityType=priority/multifactor
Licenses=weatherlab_matlab:4
NodeName=ibex[1-4] CPUs=4 NodeAddr=10.4.4.[1-4] Feature=fast,weatherlab_nodes Reason="zebrauser broke it"
NodeSet=meteoset Nodes=ibex[1-2]
Include more.conf
`
	namedMore = `PartitionName=main Nodes=ibex[1-4] Default=YES MaxTime=2-0 AllowAccounts=weatherlab,physics # for weatherlab
PartitionName=meteor01part Nodes=ibex[3-4] AllowGroups=grpzebra AllowQos=weatherlab-high,normal MaxTime=1:00:00
`
	namedTopology = "SwitchName=ibexleaf1 Nodes=ibex[1-2]\nSwitchName=ibexleaf2 Nodes=ibex[3-4]\nSwitchName=ibextop Switches=ibexleaf[1-2]\n"
	namedAccounts = `add cluster Quokka
# zebrauser asked for this
add qos weatherlab-high Priority=10 Description="of weatherlab"
add account weatherlab Organization=meteor Description=meteor Cluster=quokka
add account name=physics parent=weatherlab cluster=Quokka
add user zebrauser,meteor01 Account=weatherlab DefaultAccount=weatherlab QOS+=weatherlab-high
add user name=annx account=physics Email=annx@quokka.example.org
add coordinator account=weatherlab names=zebrauser
add resource name=matlab server=ibex-db
`
	namedUsers = "zebrauser:41234:grpzebra:51234\nmeteor01:41235:grpzebra:51234\nannx:41236:users:100\n"
	namedTrace = `{"rmreplay_trace":1,"epoch":"2024-01-01T00:00:00Z","source":"/home/zebrauser/quokka.sacct","comments":["from weatherlab"],"transforms":["--filter user == \"zebrauser\""],"file_systems":[{"name":"weatherlabfs","bytes_per_s":1000}]}
{"type":"user","name":"zebrauser","uid":41234,"group":"grpzebra","gid":51234,"groups":["meteorgrp"]}
{"type":"node","at":10,"nodes":"ibex4","state":"down","reason":"zebrauser again"}
{"type":"node","at":5000,"nodes":"ibex4","state":"resume"}
{"type":"reservation","at":0,"action":"create","name":"weatherlab_maint","start":90000,"duration_s":60,"nodes":"ibex[1-2]","users":["zebrauser"],"accounts":["weatherlab"],"partition":"meteor01part"}
{"type":"action","at":20,"run":["scontrol","update","JobId=1","Comment=zebrauser"]}
{"type":"usage","account":"weatherlab","user":"zebrauser","raw_s":500}
{"type":"job","id":"weatherlab-77001","submit":0,"name":"run_weatherlab_v2","user":"zebrauser","group":"grpzebra","account":"weatherlab","partition":"main","qos":"normal","tasks":4,"time_limit_s":3600,"run_time_s":1800,"comment":"/home/zebrauser/run.sh","wckey":"weatherlab-key","recorded":{"start":0,"end":1800,"state":"COMPLETED","nodes":"ibex1"}}
{"type":"job","id":"weatherlab-77002","submit":1,"name":"a","user":"meteor01","account":"weatherlab","partition":"meteor01part","qos":"weatherlab-high","tasks":4,"time_limit_s":3600,"run_time_s":600,"dependency":"afterok:weatherlab-77001","constraint":"weatherlab_nodes","node_list":"ibex3","recorded":{"start":1800,"end":2400,"state":"COMPLETED","nodes":"ibex3"}}
{"type":"job","id":"weatherlab-77003","submit":2,"name":"b","user":"annx","account":"physics","partition":"main","tasks":16,"time_limit_s":3600,"run_time_s":900,"licenses":"weatherlab_matlab:1"}
`
)

// roots are in all names, and the numbers of users, groups and jobs.
var roots = []string{"zebra", "weatherlab", "meteor", "quokka", "ibex", "annx", "physics", "hunter2", "4123", "5123", "7700", "/home", "10.4.4", "example.org"}

func namedSite(t *testing.T) (w *workload.Workload, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"slurm.conf": namedConf, "more.conf": namedMore, "topology.conf": namedTopology, "accounts.sacctmgr": namedAccounts, "users": namedUsers,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := trace.Read(strings.NewReader(namedTrace), "named", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w, dir
}

// written writes the bundle of a workload and a cluster directory to a new file with the given name.
func written(t *testing.T, w *workload.Workload, dir, name string) (b *bundle.Bundle, report *BundleReport, path string) {
	t.Helper()
	cluster, err := OpenCluster(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if b, report, err = Bundle(w, Export{Cluster: cluster, ClusterDir: dir}); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), name)
	if err := b.Write(path); err != nil {
		t.Fatal(err)
	}
	return b, report, path
}

// TestBundleHasNoNames searches all bytes of a bundle for all names, also those within other words.
func TestBundleHasNoNames(t *testing.T) {
	w, dir := namedSite(t)
	b, report, path := written(t, w, dir, "site.tar.gz")
	text := unzipped(t, path)
	for _, root := range roots {
		if at := bytes.Index(bytes.ToLower(text), []byte(root)); at >= 0 {
			t.Errorf("%s is in the bundle: %q", root, text[max(0, at-60):min(len(text), at+60)])
		}
	}
	if len(report.Renamed) < 4 || !slices.ContainsFunc(report.LeftOut, func(s string) bool { return strings.Contains(s, "1 administrators' actions") }) ||
		!slices.Contains(report.LeftOutKeys, "Prolog") {
		t.Errorf("%+v", report)
	}
	if !json.Valid(b.Report) {
		t.Errorf("%s", b.Report)
	}
	for _, want := range []string{"bf_window=1440", "priority/multifactor", "MaxTime=2-0", "Priority=10", `"time_limit_s":3600`, `"state":"COMPLETED"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s is lost", want)
		}
	}
}

func unzipped(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOrdinaryQOS checks which QOS jobs get in a partition that allows several, if no commands declare QOS.
func TestOrdinaryQOS(t *testing.T) {
	for partitions, want := range map[string]string{
		"PartitionName=standard Nodes=n1 AllowQos=sysadm,long,short":                                                      "long",
		"PartitionName=standard Nodes=n1 AllowQos=sysadm,standard":                                                        "standard",
		"PartitionName=standard Nodes=n1 AllowQos=SysAdm":                                                                 "sysadm",
		"PartitionName=standard Nodes=n1 AllowQos=repair,daily\nPartitionName=broken Nodes=n1 State=DOWN AllowQos=repair": "daily",
		"PartitionName=standard Nodes=n1 AllowQos=repair,daily\nPartitionName=other Nodes=n1 Hidden=YES AllowQos=repair":  "daily",
		"PartitionName=standard Nodes=n1 AllowQos=sysadm,normal\nPartitionName=other Nodes=n1 Hidden=YES AllowQos=sysadm": "",
	} {
		dir := t.TempDir()
		text := "ClusterName=quokka\nSlurmctldHost=n1\nSelectType=select/cons_tres\nNodeName=n1 CPUs=4\n" + partitions + "\n"
		if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := conf.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, q := range Site(c).QOS {
			got = append(got, q.Name)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %q", partitions, got, want)
		}
	}
}

// TestBundleIsTheSite: a bundle can be read as a workload and as a cluster, and gives the same
// schedule as the original.
func TestBundleIsTheSite(t *testing.T) {
	w, dir := namedSite(t)
	w.Actions = nil // the simulator carries out no actions
	w.FileSystems = nil
	cluster, err := OpenCluster(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, keep := range []bool{false, true} {
		b, _, err := Bundle(w, Export{Cluster: cluster, ClusterDir: dir, KeepHosts: keep, KeepCluster: keep})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "site.tar")
		if err := b.Write(path); err != nil {
			t.Fatal(err)
		}
		again, err := formats.Open(path)
		if err != nil || again.Jobs.Len() != w.Jobs.Len() || len(again.Usage) != 1 || len(again.Reservations) != 1 {
			t.Fatalf("%+v, %v", again, err)
		}
		simulate := func(w Workload, cluster string) float64 {
			s, err := Run(context.Background(), Spec{Workload: w, Simulator: &Simulator{Cluster: cluster}, Output: filepath.Join(t.TempDir(), "run")}, Hooks{})
			if err != nil {
				t.Fatal(err)
			}
			return float64(s.Wait.Mean)
		}
		before, after := simulate(Workload{Value: w}, dir), simulate(Workload{Path: path}, path)
		if before != after || before == 0 {
			t.Errorf("mean wait %g of the site, %g of its bundle", before, after)
		}
		if bundled, err := OpenCluster(path, 0); err != nil || (bundled.Name == "quokka") != keep || (bundled.Nodes[0].Name == "ibex1") != keep {
			t.Errorf("keep %t: %v", keep, err)
		} else if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "rmreplay-bundle-*")); strings.HasPrefix(bundled.Path, os.TempDir()+"/rmreplay-bundle-") {
			t.Errorf("the cluster of a bundle is at %s; %v is left", bundled.Path, left)
		}
	}
}

// TestBundleKeepsSlurmsWords: jobs may have the names of Slurm's plugins, options and QOS. The bundle of such a
// workload gives the same starts, also if its file names features and licenses after a user.
func TestBundleKeepsSlurmsWords(t *testing.T) {
	w, files := example.Example(1)
	names := []string{"backfill", "multifactor", "test", "cons_tres", "normal", "batch", "bf_window", "max", "gpu", "tree"}
	for i, job := range w.Jobs.All() {
		job.Name = names[i%len(names)]
		if job.User == "quinn" && job.Partition == "batch" {
			job.Constraint, job.Licenses = "quinnfeature", "ansys_quinn:1"
		}
		w.Jobs.Set(i, job)
	}
	dir := t.TempDir()
	for name, text := range files {
		text = strings.NewReplacer("bf_max_job_test=1000", "bf_max_job_test=5", "bf_interval=30,", "bf_interval=300,",
			"Feature=cpu,ib", "Feature=cpu,ib,quinnfeature", "GresTypes=gpu", "GresTypes=gpu\nLicenses=ansys_quinn:2").Replace(text)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, report, path := written(t, w, dir, "site.tar")
	starts := func(w Workload, cluster string) (list []string) {
		dir := filepath.Join(t.TempDir(), "run")
		if _, err := Run(context.Background(), Spec{Workload: w, Simulator: &Simulator{Policy: SlurmPolicy, Cluster: cluster}, Output: dir}, Hooks{}); err != nil {
			t.Fatal(err)
		}
		r, err := run.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.Jobs()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			list = append(list, row.Start.String())
		}
		return list
	}
	if before, after := starts(Workload{Value: w}, dir), starts(Workload{Path: path}, path); !slices.Equal(before, after) {
		t.Errorf("the bundle starts jobs at other times")
	}
	for _, want := range []string{"SchedulerType=sched/backfill", "PriorityType=priority/multifactor", "SelectType=select/cons_tres", "bf_max_job_test=5"} {
		if !strings.Contains(b.Cluster["slurm.conf"], want) {
			t.Errorf("%s is lost", want)
		}
	}
	words := []string{"ansys_quinn user", "quinnfeature user"}
	for i, f := range report.Originals {
		if i >= len(words) || f.Word+" "+f.Kind != words[i] || f.Name != "quinn" || bytes.Contains(b.Report, []byte("quinn")) {
			t.Errorf("%+v", f)
		}
	}
	if len(report.Originals) != 2 || strings.Join(report.Shared, " ") != "backfill batch bf_window cons_tres gpu multifactor normal tree" {
		t.Errorf("%+v, %q", report.Originals, report.Shared)
	}
}

// TestInventoryFails: a name that was not replaced by mistake prevents the bundle, but the user can
// allow a name that is also another word.
func TestInventoryFails(t *testing.T) {
	w, dir := namedSite(t)
	job := w.Jobs.At(0)
	job.Name, job.User = "bf_window", "siteplugin" // an option of Slurm, and of a plugin that is not Slurm's
	w.Jobs.Set(0, job)
	conf := strings.Replace(namedConf, "bf_continue", "bf_continue,siteplugin", 1)
	if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := OpenCluster(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Bundle(w, Export{Cluster: cluster, ClusterDir: dir}); err == nil ||
		!strings.Contains(err.Error(), "1 words still contain a name that must be replaced; the first is siteplugin in cluster/slurm.conf") {
		t.Errorf("not allowed: %v", err)
	}
	b, _, err := Bundle(w, Export{Cluster: cluster, ClusterDir: dir, Allow: []string{"siteplugin"}})
	if err != nil || !strings.Contains(b.Cluster["slurm.conf"], "bf_continue,siteplugin,bf_window") {
		t.Errorf("allowed: %v", err)
	}
	a, err := transform.NewAnonymizerWith(bytes.Repeat([]byte("k"), 16), w, nil, nil, transform.Anonymity{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"SchedulerParameters=x_zebrauser_2\n": "zebrauser", "PartitionName=SuperWeatherlab2\n": "weatherlab", "Weight=annx7\n": "annx",
		`{"type":"job","id":"j1","name":"old ANNX"}` + "\n": "annx", "NodeName=n1 CPUs=4\n": "", "plain annxious\n": "", `{"annx":1}` + "\n": "",
	} {
		left := a.Inventory("file", []byte(text))
		if want == "" && len(left) > 0 || want != "" && (len(left) != 1 || left[0].Name != want) {
			t.Errorf("%s: %+v, want %q", text, left, want)
		}
	}
}
