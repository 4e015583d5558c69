package service_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/accounting/servertest"
	"rmreplay/internal/accounting/service"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
	"rmreplay/internal/rm/slurm/rpc/rpctest"
	"rmreplay/internal/slurmspec"
)

// TestForwardKilled kills the server and the node of OpenSearch that it forwards to, in turn, while clients post to
// the server. In the end the index has each job once, with its document. With RMREPLAY_LONG_TESTS it posts a million
// documents and kills 100 times.
func TestForwardKilled(t *testing.T) {
	node := servertest.NewOpenSearch(t)
	documents, kills, clients := int64(2000), 4, 8
	if os.Getenv("RMREPLAY_LONG_TESTS") != "" {
		documents, kills, clients = 1_000_000, 100, 64
	}
	t.Setenv(forwardVariable, node.URL)
	p := &posting{address: freeAddress(t), documents: documents}
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, dir, p.address)
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() { p.run(c) })
	}
	begin := time.Now()
	for k := range kills {
		for p.acknowledged.Load() < documents*int64(k+1)/int64(kills+1) {
			time.Sleep(time.Millisecond)
		}
		// A moment at random within what the server sends in a second.
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		if k%2 == 0 {
			s.end(syscall.SIGKILL)
			s = start(t, dir, p.address)
		} else {
			node.Kill()
			node.Start()
		}
		if k%10 == 9 {
			t.Logf("%v: %d killings, %d documents acknowledged", time.Since(begin).Round(time.Second), k+1, p.acknowledged.Load())
		}
	}
	group.Wait()
	for begin := time.Now(); node.Count("slurm") < int(documents); time.Sleep(time.Second) {
		if time.Since(begin) > 10*time.Minute {
			t.Fatalf("the index has %d of %d documents: %s", node.Count("slurm"), documents, s.log.String())
		}
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v: %s", err, s.log.String())
	}
	numbers := make(map[string]int64, documents)
	for n := int64(1); n <= documents; n++ {
		e := storetest.Entry(n)
		numbers[store.ID(&e.Job)] = n
	}
	node.Each("slurm", func(d servertest.Document) {
		n, ok := numbers[d.ID]
		if !ok || string(storetest.Entry(n).Document) != string(d.Source) {
			t.Errorf("%s: %s", d.ID, d.Source)
		}
		delete(numbers, d.ID) // one that comes again is wrong
	})
	if len(numbers) > 0 {
		t.Errorf("%d of %d jobs are missing", len(numbers), documents)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "forward-refused.jsonl")); !os.IsNotExist(err) {
		t.Errorf("the cluster has refused: %s, %v", text, err)
	}
	t.Logf("%d documents, %d kills of the server and of the node, %v", documents, kills, time.Since(begin).Round(time.Second))
}

// TestPluginIndex lets the stock plugin of each release post to OpenSearch itself. The pages over that index have the
// numbers of a server that got the same documents.
func TestPluginIndex(t *testing.T) {
	node := servertest.NewOpenSearch(t)
	rpctest.Each(t, slurmspec.R2205, []string{"slurmd", "slurmdbd", "sbatch", "sacct", "sacctmgr", "sinfo", "squeue"}, func(t *testing.T, slurm *rpctest.Slurm) {
		index := "slurm-" + slurm.Release.String()
		s := newSite(t, slurm, "jobcomp_elasticsearch", "JobCompType=jobcomp/elasticsearch\nJobCompLoc="+node.URL+"/"+index+"/_doc")
		s.startController()
		s.submit(6, "-J", "plain")
		s.submit(2, "-J", "name \"quoted\" ü", "-N", "1", "-n", "3", "--comment=c")
		s.submit(1, "-J", "array", "--array=1-3")
		const jobs = 11
		s.until("all jobs", func() bool { return node.Count(index) == jobs })
		own, _ := listening(t, service.Serve{Data: filepath.Join(t.TempDir(), "data")})
		node.Each(index, func(d servertest.Document) {
			if status, answer, err := post(own, d.Source); err != nil || status != 201 {
				t.Fatal(status, answer, err)
			}
		})
		pages, _ := listening(t, service.Serve{Store: service.Elasticsearch, URL: node.URL + "/" + index})
		for _, name := range []string{"summary", "users", "accounts", "partitions", "names", "runs", "sizes", "shares", "week", "limits"} {
			var want, got struct{ Rows [][]any }
			for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) { // until the server has them all
				read(t, own, name, &want)
				if name != "summary" || want.Rows[0][0] == float64(jobs) || time.Since(begin) > time.Minute {
					break
				}
			}
			read(t, pages, name, &got)
			if !alike(want.Rows, got.Rows) {
				t.Errorf("%s: %v, want %v", name, got.Rows, want.Rows)
			}
			if name == "summary" && got.Rows[0][0] != float64(jobs) {
				t.Errorf("%v, want %d jobs", got.Rows, jobs)
			}
		}
	})
}

// read reads a panel of a server's pages.
func read(t *testing.T, address, panel string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body(t, "http://"+address+"/_ui/api/v1/panels/"+panel+"?last=all", 200)), to); err != nil {
		t.Fatal(err)
	}
}

// alike reports whether rows are the same but for the last digits of numbers, and what a cluster of Slurm's own
// documents does not know.
func alike(want, got [][]any) bool {
	if len(want) != len(got) {
		return false
	}
	for i, row := range want {
		for k, v := range row {
			a, ok := v.(float64)
			b, known := got[i][k].(float64)
			switch {
			case got[i][k] == nil:
			case ok && known:
				if math.Abs(a-b) > 1e-4+1e-6*math.Abs(a) {
					return false
				}
			case fmt.Sprint(v) != fmt.Sprint(got[i][k]):
				return false
			}
		}
	}
	return true
}
