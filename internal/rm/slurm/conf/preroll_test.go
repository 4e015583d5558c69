package conf

import "testing"

func TestPreRoll(t *testing.T) {
	got := string(PreRoll([]byte("ClusterName=a\nSchedulerParameters=bf_continue,bf_interval=60\nSchedulerType=sched/backfill\n"), 3))
	want := "ClusterName=a\nSchedulerType=sched/backfill\nSchedulerParameters=default_queue_depth=11,batch_sched_delay=0,sched_interval=3600,bf_interval=-1\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
