package slurm

import "testing"

func TestPreRoll(t *testing.T) {
	const scheduling = "default_queue_depth=11,batch_sched_delay=0,sched_interval=3600,bf_interval=-1\n"
	for _, test := range []struct{ adapted, want string }{
		{"ClusterName=a\nSchedulerParameters=bf_continue,bf_interval=60\nSchedulerType=sched/backfill\n",
			"ClusterName=a\nSchedulerType=sched/backfill\nSchedulerParameters=" + scheduling},
		{"ClusterName=a\n", "ClusterName=a\nSchedulerParameters=" + scheduling},
		// Options that decide which jobs slurmctld accepts stay, and they come first.
		{"schedulerparameters=Default_Queue_Depth=5,allow_zero_lic,defer,max_array_tasks=9,sched_min_interval=2,ignore_prefer_validation\n",
			"SchedulerParameters=allow_zero_lic,max_array_tasks=9,ignore_prefer_validation," + scheduling},
	} {
		if got := string(preRoll([]byte(test.adapted), 3, 0)); got != test.want {
			t.Errorf("%q: got\n%swant\n%s", test.adapted, got, test.want)
		}
	}
}

func TestKeepPartitions(t *testing.T) {
	for adapted, want := range map[string]string{
		"ReconfigFlags=KeepPartState\nClusterName=a\n": "ClusterName=a\nReconfigFlags=KeepPartInfo\n",
		"ClusterName=a\n": "ClusterName=a\nReconfigFlags=KeepPartInfo\n",
	} {
		if got := string(keepPartitions([]byte(adapted))); got != want {
			t.Errorf("%q: got\n%swant\n%s", adapted, got, want)
		}
	}
}
