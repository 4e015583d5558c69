package slurm

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/supervise"
	"rmreplay/internal/workload"
)

func TestMain(m *testing.M) {
	supervise.RunIfGuard()
	os.Exit(m.Run())
}

func TestSmoke(t *testing.T) {
	data := "../../../../shared/data/slurm/micro"
	cl, err := conf.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	in, err := install.Find()
	if err != nil {
		t.Fatal(err)
	}
	wl, err := workload.Open(data + "/" + os.Getenv("EVENTS"))
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("LOGDIR")
	if dir == "" {
		dir = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Second)
	defer cancel()
	t0 := time.Now()
	e, err := Start(ctx, Config{Cluster: cl, Install: in, Users: wl.Users, Epoch: wl.Epoch, LogDir: dir, Progress: func(s string) { fmt.Println(time.Since(t0), s) }}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	fmt.Println("up", time.Since(t0), e.CPU())
	t1 := time.Now()
	n := 0
	kinds := map[string]int{}
	for n < len(wl.Jobs) || true {
		next := hpc.Time(1 << 62)
		for n < len(wl.Jobs) && wl.Jobs[n].Submit <= e.Now() {
			if err := e.Submit(wl.Jobs[n]); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n < len(wl.Jobs) {
			next = wl.Jobs[n].Submit
		} else if kinds["ended"]+kinds["rejected"] == len(wl.Jobs) {
			break
		}
		evs, err := e.AdvanceTo(ctx, next)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range evs {
			kinds[string(ev.Kind)]++
			if ev.Outcome != nil && ev.Kind == "ended" {
				kinds[string(ev.Outcome.State)]++
			}
			if ev.Kind == "rejected" {
				fmt.Println(ev.Job, ev.Reason)
			}
		}
	}
	fmt.Println(kinds, e.Now().Sub(wl.Epoch), time.Since(t1), e.CPU(), fmt.Sprintf("%+v", e.clock.Stats()), e.Warnings())
	s, err := e.Sacct(ctx)
	fmt.Println(len(s), err)
	os.WriteFile(dir+"/sacct.txt", []byte(s), 0o644)
}
