package service

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// soonerCluster is a cluster with an idle partition that all may use, and a partition for another
// account.
func soonerCluster(t testing.TB) *cluster {
	c := newCluster(t)
	c.files = map[string]string{
		"nodes.txt": "NodeName=n1 State=IDLE\nNodeName=n2 State=IDLE\nNodeName=n3 State=IDLE\nNodeName=n4 State=IDLE\n",
		"cluster/slurm.conf": "ClusterName=c\nSlurmctldHost=h\nSelectType=select/cons_tres\nNodeName=n[1-4] CPUs=4\n" +
			"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=associations,qos,limits\n" +
			"PartitionName=batch Nodes=n[1-2] Default=YES MaxTime=1:00:00\nPartitionName=idle Nodes=n3 MaxTime=1:00:00\n" +
			"PartitionName=brief Nodes=n3 MaxTime=30\nPartitionName=closed Nodes=n4 AllowAccounts=other\n",
		"cluster/accounts.sacctmgr": "add qos name=high\nadd qos name=secret\nadd cluster name=c\nadd account name=a\nadd account name=other\n" +
			"add user name=ann account=a qos=normal,high\nadd user name=bob account=a qos=normal\nadd user name=eve account=a qos=normal\n",
	}
	return c
}

// TestSooner: changes that Slurm would refuse are not tried, the gains equal the gains in a changed
// queue, and answers are kept and counted.
func TestSooner(t *testing.T) {
	c := soonerCluster(t)
	s := c.open(filepath.Join(t.TempDir(), "data"))
	h := s.Handler(nil)
	var refused struct{ Error string }
	if status := get(t, h, "/v1/jobs/3/sooner", &refused); status != http.StatusServiceUnavailable {
		t.Errorf("without a forecast: %d %s", status, refused.Error)
	}
	c.turn(s)
	var a Sooner
	if status := get(t, h, "/v1/jobs/3/sooner", &a); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	var names []string
	for i := range a.Changes {
		names = append(names, a.Changes[i].Change)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "Partition=idle QOS=high TimeLimit=00:15:00 TimeLimit=00:30:00" {
		t.Errorf("changes: %s", got)
	}
	best := a.Changes[0]
	if best.Change != "Partition=idle" || best.P50 == nil || best.P50.Sub(began) > time.Minute || best.GainP50 == nil ||
		*best.GainP50 != a.P50.Sub(*best.P50).Seconds() || *best.GainP50 <= 0 ||
		best.Command != "scontrol update JobId=3 Partition=idle" {
		t.Errorf("the best: %+v, as it is %v", best, a.P50)
	}
	for i := range a.Changes {
		if g := &a.Changes[i]; strings.HasPrefix(g.Change, "TimeLimit") != strings.Contains(g.Condition, "% of jobs like it do") {
			t.Errorf("condition: %+v", g)
		}
	}
	if a.Forecast.Stale || *a.Forecast.At != began {
		t.Errorf("head: %+v", a.Forecast)
	}
	for path, want := range map[string]int{"/v1/jobs/1/sooner": 409, "/v1/jobs/6/sooner": 400, "/v1/jobs/99/sooner": 404, "/v1/jobs/x/sooner": 400} {
		if status := get(t, h, path, &refused); status != want {
			t.Errorf("%s: %d %s", path, status, refused.Error)
		}
	}
	// The same question again is not counted; three different questions count.
	for i, path := range []string{"/v1/jobs/3/sooner", "/v1/jobs/3/sooner", "/v1/jobs/4/sooner", "/v1/jobs/6_2/sooner", "/v1/jobs/6_1/sooner"} {
		want := 200
		if i == 4 {
			want = http.StatusTooManyRequests
		}
		if status := get(t, h, path, &refused); status != want {
			t.Errorf("question %d, %s: %d %s", i, path, status, refused.Error)
		}
	}
	if !strings.Contains(refused.Error, "the limit is 3 questions an hour for each user (try again at 13:00:00)") {
		t.Errorf("%q", refused.Error)
	}
	var text string
	if status := get(t, h, "/jobs/3/sooner", &text); status != 200 || !strings.Contains(text, "scontrol update JobId=3 Partition=idle") {
		t.Errorf("page: %d %s", status, text)
	}
	inactive(t, "/jobs/3/sooner", text)
	c.at = began.Add(time.Hour)
	c.turn(s)
	if status := get(t, h, "/v1/jobs/6_1/sooner", &a); status != 200 || *a.Forecast.At != c.at {
		t.Errorf("an hour later: %d %+v", status, a.Forecast)
	}
}
