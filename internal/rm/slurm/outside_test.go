package slurm

import (
	"strings"
	"testing"
)

// TestOutside: Outside changes the scheduling in its result and keeps all other settings. It does
// not change the site's cluster.
func TestOutside(t *testing.T) {
	site := writeCluster(t, clusterFiles(t, "bf_interval=30,bf_continue", "bf_interval=60,enable_user_top,defer,default_queue_depth=5"))
	c := Outside(site)
	for key, want := range map[string]string{"SchedulerType": OutsideScheduler, "SchedulerParameters": "enable_user_top," + OutsideParameters} {
		if got, _ := c.Get(key); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	if before, _ := site.Get("SchedulerType"); before != "sched/backfill" {
		t.Errorf("the site's cluster now has %s", before)
	}
	if len(c.Statements) != len(site.Statements) || len(c.Nodes) != len(site.Nodes) {
		t.Errorf("%d statements and %d nodes, want %d and %d", len(c.Statements), len(c.Nodes), len(site.Statements), len(site.Nodes))
	}
	if again := Outside(c); !strings.HasSuffix(value(again, "SchedulerParameters"), OutsideParameters) || strings.Count(value(again, "SchedulerParameters"), "sched_interval") != 1 {
		t.Errorf("twice: %s", value(again, "SchedulerParameters"))
	}
}

func value(c interface{ Get(string) (string, bool) }, key string) string {
	text, _ := c.Get(key)
	return text
}
