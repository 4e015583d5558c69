package conf

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
)

// TestNewSiteGolden adapts a site of 26.05 to the oldest release, to a release between, and to its
// own.
func TestNewSiteGolden(t *testing.T) {
	for _, release := range []slurmspec.Release{slurmspec.R2205, slurmspec.R2411, slurmspec.R2605} {
		t.Run(release.String(), func(t *testing.T) {
			ad, err := Adapt(mustOpen(t, "testdata/new"), release, testEnvironment())
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			got.Write(ad.Files[slurmConf])
			got.WriteString("-- changes --\n")
			if err := ad.Render(&got); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "new-"+release.String()+".golden"), got.Bytes())
		})
	}
}

// translated adapts a small site to a release.
func translated(t *testing.T, text, partition string, release slurmspec.Release) (*Cluster, *Adapted, error) {
	t.Helper()
	c, err := openText(t, "ClusterName=c\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL "+partition+"\n"+text+"\n")
	if err != nil {
		t.Fatal(err)
	}
	ad, err := Adapt(c, release, testEnvironment())
	if err != nil {
		return nil, nil, err
	}
	dir := t.TempDir()
	if err := ad.Write(dir); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, dir), ad, nil
}

// TestTranslate: text that a release does not know is translated, or left out with a warning if
// that changes scheduling. The site's own file needs the same changes.
func TestTranslate(t *testing.T) {
	const absent = ""
	for _, test := range []struct {
		name, text, key, want string
		release               slurmspec.Release
		warning               string // a part of the warning; "" for none
		upgrade               bool
	}{
		{"cons_res", "SelectType=select/cons_res", "SelectType", "select/cons_tres", slurmspec.R2311, "", true},
		{"cons_res before 23.11", "SelectType=select/cons_res", "SelectType", "select/cons_res", slurmspec.R2302, "", false},
		{"flat", "TopologyPlugin=topology/flat", "TopologyPlugin", "topology/none", slurmspec.R2411, "", true},
		{"default since 25.05", "TopologyPlugin=topology/default", "TopologyPlugin", "topology/default", slurmspec.R2605, "", false},
		{"no preemption", "PreemptType=preempt/none", "PreemptType", "preempt/none", slurmspec.R2605, "", false},
		{"renamed and refused option", "SchedulerParameters=max_job_bf=50,bf_window=60", "SchedulerParameters", "bf_max_job_test=50,bf_window=60", slurmspec.R2205, "", true},
		{"option of later releases", "SchedulerParameters=defer_batch,bf_window=60", "SchedulerParameters", "bf_window=60", slurmspec.R2205, "slurmctld tries to start batch jobs at their submission", true},
		{"option of earlier releases", "SchedulerParameters=enable_job_state_cache", "SchedulerParameters", absent, slurmspec.R2605, "", true},
		{"option without a release", "SchedulerParameters=jobs_per_user_per_hour=3", "SchedulerParameters", "jobs_per_user_per_hour=3", slurmspec.R2605, "", false},
		{"resources", "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core,ll_shared_gres", "SelectTypeParameters", "CR_Core", slurmspec.R2302, "least loaded", true},
		{"resources, release knows them", "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core,ll_shared_gres", "SelectTypeParameters", "CR_Core,ll_shared_gres", slurmspec.R2311, "", false},
		{"other_cons_tres", "SelectType=select/cons_tres\nSelectTypeParameters=other_cons_tres,CR_CPU", "SelectTypeParameters", "CR_CPU", slurmspec.R2405, "", true},
		{"preemption options move to SchedulerParameters", "PreemptParameters=youngest_first,reorder_count=2\nSchedulerParameters=bf_window=9", "SchedulerParameters", "bf_window=9,preempt_youngest_first,preempt_reorder_count=2", slurmspec.R2205, "", true},
		{"preemption options move to a new line", "PreemptParameters=strict_order", "SchedulerParameters", "preempt_strict_order", slurmspec.R2205, "", true},
		{"preemption by signal", "PreemptParameters=send_user_signal", "SlurmctldParameters", "preempt_send_user_signal", slurmspec.R2205, "", true},
		{"preemption for licences", "PreemptParameters=reclaim_licenses", "PreemptParameters", absent, slurmspec.R2205, "PreemptParameters=reclaim_licenses: 22.05 has no such option", true},
		{"preemption options that the release knows", "PreemptParameters=reclaim_licenses", "PreemptParameters", "reclaim_licenses", slurmspec.R2302, "", false},
		{"preemption by priority", "PreemptType=preempt/qos\nPreemptMode=REQUEUE,PRIORITY", "PreemptMode", "REQUEUE", slurmspec.R2411, "jobs also preempt jobs of a higher priority", true},
		{"preemption by priority, release knows it", "PreemptType=preempt/qos\nPreemptMode=REQUEUE,PRIORITY", "PreemptMode", "REQUEUE,PRIORITY", slurmspec.R2505, "lacks accounts.sacctmgr", false},
		{"future nodes at a reconfiguration", "ReconfigFlags=KeepNodeStateFuture", "ReconfigFlags", absent, slurmspec.R2205, "", true},
		{"key set twice", "MaxDBDMsgs=1\nMaxDBDMsgs=10000", "MaxDBDMsgs", "10000", slurmspec.R2205, "is set again", false},
		{"a CPU for each socket", "NodeName=odd CPUs=2 Sockets=2 CoresPerSocket=8\nSelectType=select/cons_tres", "SelectType", "select/cons_tres", slurmspec.R2302, "", false},
		{"storage of releases before 21.08", "DefaultStorageType=none\nSlurmdPlugstack=x", "DefaultStorageType", absent, slurmspec.R2205, "", true},
		{"requeues", "MaxBatchRequeue=9", "MaxBatchRequeue", absent, slurmspec.R2205, "22.05 holds a batch job after 5 requeues", true},
		{"five requeues", "MaxBatchRequeue=5", "MaxBatchRequeue", absent, slurmspec.R2205, "", true},
		{"requeues, release knows the limit", "MaxBatchRequeue=9", "MaxBatchRequeue", "9", slurmspec.R2411, "", false},
		{"prolog in the job", "PrologFlags=RunInJob", "PrologFlags", "Alloc", slurmspec.R2205, "", true},
		{"prolog in the job, release knows it", "PrologFlags=RunInJob,ForceRequeueOnFail", "PrologFlags", "Alloc,ForceRequeueOnFail", slurmspec.R2405, "", false},
		{"step manager", "SlurmctldParameters=enable_stepmgr,enable_rpc_queue,rl_enable", "SlurmctldParameters", "enable_rpc_queue,conmgr_threads=4", slurmspec.R2605, "", false},
		{"address cache", "CommunicationParameters=NoAddrCache", "CommunicationParameters", "NoCtldInAddrAny,NoInAddrAny", slurmspec.R2311, "", true},
		{"no HTTP", "", "CommunicationParameters", "NoCtldInAddrAny,NoInAddrAny,disable_http", slurmspec.R2511, "", false},
		{"billing", "PriorityFlags=MAX_TRES_GRES", "PriorityFlags", "MAX_TRES", slurmspec.R2411, "take it as MAX_TRES", true},
		{"reconfiguration", "ReconfigFlags=KeepNodeStateFuture,KeepPartInfo", "ReconfigFlags", "KeepPartInfo", slurmspec.R2505, "", true},
		{"timeouts", "PrologTimeout=60", "PrologTimeout", absent, slurmspec.R2411, "", true},
		{"timeouts, release knows them", "PrologTimeout=60", "PrologTimeout", "60", slurmspec.R2505, "", false},
		{"remote licences", "LicenseParameters=RemoteFuzzyMatch", "LicenseParameters", absent, slurmspec.R2511, "jobs must give the exact names of remote licences", true},
		{"a licence of a server", "Licenses=a@server:3,b", "Licenses", "a@server:3,b", slurmspec.R2605, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, ad, err := translated(t, test.text, "", test.release)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := c.Get(test.key); got != test.want {
				t.Errorf("%s=%s, want %s", test.key, got, test.want)
			}
			all := strings.Join(ad.Warnings, "\n")
			if !strings.Contains(all, test.warning) || (test.warning == "") != (all == "") {
				t.Errorf("warnings %q, want one with %q", all, test.warning)
			}
			if (len(ad.Upgrade) > 0) != test.upgrade {
				t.Errorf("upgrade %+v, want some: %v", ad.Upgrade, test.upgrade)
			}
		})
	}
}

// TestTranslatePartition: attributes of a partition that a release does not know become older
// attributes with the same effect, or are left out with a warning.
func TestTranslatePartition(t *testing.T) {
	for _, test := range []struct {
		attribute string
		release   slurmspec.Release
		want      string
		warning   string
	}{
		{"Exclusive=USER", slurmspec.R2511, "ExclusiveUser=YES", ""},
		{"Exclusive=NODE", slurmspec.R2205, "OverSubscribe=EXCLUSIVE", ""},
		{"Exclusive=TOPO", slurmspec.R2405, "ExclusiveTopo=YES", ""},
		{"Exclusive=TOPO", slurmspec.R2311, "OverSubscribe=EXCLUSIVE", "other jobs may run on the same block"},
		{"Exclusive=NO", slurmspec.R2511, "", ""},
		{"Exclusive=USER", slurmspec.R2605, "Exclusive=USER", ""},
		{"MaxCPUsPerSocket=2", slurmspec.R2205, "", "all CPUs of a socket"},
		{"MaxCPUsPerSocket=2", slurmspec.R2302, "MaxCPUsPerSocket=2", ""},
		{"PowerDownOnIdle=YES", slurmspec.R2605, "", ""},
		{"PreemptMode=CANCEL,PRIORITY", slurmspec.R2411, "PreemptMode=CANCEL", "jobs also preempt jobs of a higher priority"},
		{"PreemptMode=OFF", slurmspec.R2205, "PreemptMode=OFF", ""},
		{"SelectTypeParameters=CR_Core,LL_SHARED_GRES", slurmspec.R2205, "SelectTypeParameters=CR_Core", "least loaded"},
	} {
		t.Run(test.attribute+" in "+test.release.String(), func(t *testing.T) {
			c, ad, err := translated(t, "SelectType=select/cons_tres", test.attribute, test.release)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range c.Partitions[0].Attributes {
				if a.Key != "Nodes" {
					got = append(got, a.Key+"="+a.Value)
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("attributes %q, want %q", got, test.want)
			}
			all := strings.Join(ad.Warnings, "\n")
			if !strings.Contains(all, test.warning) || (test.warning == "") != (all == "") {
				t.Errorf("warnings %q, want one with %q", all, test.warning)
			}
			if !slices.ContainsFunc(ad.Changes, func(ch Change) bool { return strings.HasPrefix(ch.Key, "PartitionName=p ") }) &&
				test.want != test.attribute {
				t.Errorf("the change is not reported: %+v", ad.Changes)
			}
		})
	}
}

// TestDefaultsByRelease: where defaults differ, the replay has the default of the site's release.
func TestDefaultsByRelease(t *testing.T) {
	for _, test := range []struct {
		name, text        string
		site, run         slurmspec.Release
		selects, priority string
		reason            string // of SelectType's change
		upgrade           []string
	}{
		{"old site, new run", "", slurmspec.R2205, slurmspec.R2605, "select/linear", "priority/basic", "the default of the site's release; the default of 26.05 is select/cons_tres", []string{"PriorityType", "SelectType"}},
		{"new site, old run", "", slurmspec.R2605, slurmspec.R2205, "select/cons_tres", "priority/multifactor", "the default of the site's release; the default of 22.05 is select/linear", []string{"PriorityType", "SelectType"}},
		{"one release for site and run", "", slurmspec.R2205, slurmspec.R2205, "select/linear", "priority/basic", "the default before 23.11; since then, it is select/cons_tres", nil},
		{"site and run both since 23.11", "", slurmspec.R2311, slurmspec.R2411, "select/cons_tres", "priority/multifactor", "the default since 23.11; before, it was select/linear", nil},
		{"site one release before 23.11", "", slurmspec.R2302, slurmspec.R2311, "select/linear", "priority/basic", "the default of the site's release; the default of 23.11 is select/cons_tres", []string{"PriorityType", "SelectType"}},
		{"release unknown", "", slurmspec.Release{}, slurmspec.R2205, "select/linear", "priority/basic", "the configuration does not tell which release the site runs", nil},
		{"release from a new key", "NamespaceType=namespace/tmpfs", slurmspec.Release{}, slurmspec.R2205, "select/cons_tres", "priority/multifactor", "the default of the site's release", []string{"NamespaceType", "PriorityType", "SelectType"}},
		{"release from an old key", "SlurmctldPlugstack=x", slurmspec.Release{}, slurmspec.R2605, "select/linear", "priority/basic", "the default of the site's release", []string{"SlurmctldPlugstack", "PriorityType", "SelectType"}},
		{"select plugin from CR_Core", "SelectTypeParameters=CR_Core", slurmspec.Release{}, slurmspec.R2205, "select/cons_tres", "priority/multifactor", "the default of the site's release", []string{"PriorityType", "SelectType"}},
		{"values that the site sets", "SelectType=select/linear\nPriorityType=priority/basic", slurmspec.R2205, slurmspec.R2605, "select/linear", "priority/basic", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := openText(t, "ClusterName=c\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL\n"+test.text+"\n")
			if err != nil {
				t.Fatal(err)
			}
			c.SiteRelease = test.site
			ad, err := Adapt(c, test.run, testEnvironment())
			if err != nil {
				t.Fatal(err)
			}
			if ad.SelectType != test.selects {
				t.Errorf("select type %s, want %s", ad.SelectType, test.selects)
			}
			for _, line := range []string{"SelectType=" + test.selects, "PriorityType=" + test.priority} {
				if !bytes.Contains(ad.Files[slurmConf], []byte(line+"\n")) {
					t.Errorf("no %s in\n%s", line, ad.Files[slurmConf])
				}
			}
			reason, keys := "", []string(nil)
			for _, ch := range ad.Changes {
				if ch.Key == "SelectType" {
					reason = ch.Reason
				}
			}
			for _, ch := range ad.Upgrade {
				keys = append(keys, ch.Key)
			}
			if !strings.Contains(reason, test.reason) || (reason == "") != (test.reason == "") {
				t.Errorf("reason %q, want one with %q", reason, test.reason)
			}
			if !slices.Equal(keys, test.upgrade) {
				t.Errorf("upgrade %v, want %v", keys, test.upgrade)
			}
		})
	}
}

// TestRefusedByRelease: values with which slurmctld does not start are errors with their place.
func TestRefusedByRelease(t *testing.T) {
	for _, test := range []struct {
		text    string
		release slurmspec.Release
		want    string
	}{
		{"Licenses=a:3@server", slurmspec.R2411, "slurm.conf:4: Licenses=a:3@server: a:3@server: not a licence (want NAME or NAME:COUNT"},
		{"PreemptMode=CANCEL,REQUEUE", slurmspec.R2411, "slurm.conf:4: PreemptMode=CANCEL,REQUEUE: more than one mode"},
		{"PreemptType=preempt/qos", slurmspec.R2411, "slurm.conf:4: PreemptType=preempt/qos: slurmctld refuses a PreemptType without a mode"},
		{"PreemptType=preempt/qos\nPreemptMode=PRIORITY", slurmspec.R2205, "slurm.conf:4: PreemptType=preempt/qos: slurmctld refuses a PreemptType without a mode"},
		{"MaxDBDMsgs=1\nMaxDBDMsgs=2", slurmspec.R2411, "slurm.conf:5: MaxDBDMsgs=2: slurmctld refuses this value (want 10000 or more)"},
		{"SelectType=select/linear\nSelectTypeParameters=CR_Core", slurmspec.R2605, "SelectTypeParameters=CR_Core: slurmctld refuses this value with SelectType=select/linear"},
		{"PartitionName=q Nodes=n1 OverSubscribe=MAYBE", slurmspec.R2205, "slurm.conf:4: PartitionName=q OverSubscribe=MAYBE: slurmctld does not know this value"},
		{"PartitionName=DEFAULT MaxTime=NONE", slurmspec.R2205, "slurm.conf:4: PartitionName=DEFAULT MaxTime=NONE: not a time"},
		{"AccountingStorageEnforce=qos,jobs", slurmspec.R2205, "no release from 22.05 to 26.05 knows jobs"},
		{"NodeName=odd CPUs=2 Sockets=2 CoresPerSocket=8\nSelectType=select/cons_tres", slurmspec.R2205, "slurm.conf:4: NodeName=odd CPUs=2: slurmctld 22.05 refuses one CPU for each socket (want CPUs=16)"},
		{"NodeName=twin CPUs=2\nNodeSet=twin Nodes=n1", slurmspec.R2411, "slurm.conf:5: NodeSet=twin: a node has the same name, which slurmctld refuses since 24.11 (want another name)"},
		{"PrologFlags=RunInJobs", slurmspec.R2605, "slurm.conf:4: PrologFlags=RunInJobs: no release from 22.05 to 26.05 knows RunInJobs"},
		{"SelectTypeParameters=CR_Cores", slurmspec.R2205, "no release from 22.05 to 26.05 knows CR_Cores"},
		{"SelectType=select/cray_aries", slurmspec.R2405, "SelectType=select/cray_aries: 24.05 does not have it (removed in 24.05)"},
	} {
		if _, _, err := translated(t, test.text, "", test.release); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s in %v: %v, want an error with %q", test.text, test.release, err, test.want)
		}
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "slurm.conf"), "ClusterName=c\nTopologyPlugin=topology/block\nNodeName=n[1-2]\nPartitionName=p Nodes=ALL\n")
	writeFile(t, filepath.Join(dir, "topology.conf"), "BlockName=b1 Nodes=n[1-2]\n")
	c := mustOpen(t, dir)
	if _, err := Adapt(c, slurmspec.R2302, testEnvironment()); err == nil || !strings.Contains(err.Error(), "topology/block: 23.02 does not have it (new in 23.11)") {
		t.Errorf("topology/block in 23.02: %v, want an error", err)
	}
	c = mustOpen(t, "testdata/tree")
	if _, err := Adapt(c, slurmspec.R2311, testEnvironment()); err != nil {
		t.Errorf("select/linear with topology/tree in 23.11: %v", err)
	}
	if _, err := Adapt(c, slurmspec.R2405, testEnvironment()); err == nil || !strings.Contains(err.Error(), "since 24.05") {
		t.Errorf("select/linear with topology/tree in 24.05: %v, want an error", err)
	}
}
