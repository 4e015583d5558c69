package service_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// TestForwardKilled lets clients post documents to a server that forwards them to a node of
// OpenSearch, and kills server and node in turn. The first part only forwards; in the second part,
// an index of three shards is the server's store. In the end the index must have each job once,
// with its document. With RMREPLAY_LONG_TESTS it posts a million documents and kills 100 times:
// see longKills.
func TestForwardKilled(t *testing.T) {
	t.Parallel()
	node := servertest.NewOpenSearch(t, servertest.OpenSearch2)
	t.Run("forward", func(t *testing.T) { testForwardKilled(t, node, false) })
	t.Run("store", func(t *testing.T) { testForwardKilled(t, node, true) })
}

func testForwardKilled(t *testing.T, node *servertest.OpenSearch, asStore bool) {
	documents, kills, clients := int64(2000), 2, 8
	if n := longKills(t); n > 0 {
		documents, kills, clients = documentsAKill*int64(n), n, 64
	}
	what, index, to := "`--forward`", "slurm", forwardVariable+"="+node.URL
	if asStore {
		what, index, to = "`--store elasticsearch`", "store", storeVariable+"="+node.URL+"/store"
		node.Ask(http.MethodPut, "/_index_template/shards", `{"index_patterns":["store"],"template":{"settings":{"number_of_shards":3}}}`, nil)
	}
	p := &posting{address: freeAddress(t), documents: documents}
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, dir, p.address, to)
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() { p.run(c) })
	}
	begin := time.Now()
	for k := range kills {
		// The index lags behind the server. Kills at fixed shares of the received documents would come
		// in quick succession, with almost nothing forwarded in between.
		share := documents * int64(k+1) / int64(kills+1)
		untilAll(t, share, func() int64 { return int64(node.Count(index)) }, &s.log)
		// A random time within a second.
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		if k%2 == 0 {
			s.end(syscall.SIGKILL)
			s = start(t, dir, p.address, to)
		} else {
			node.Kill()
			node.Start()
		}
		if k%10 == 9 {
			t.Logf("%v: %d killings, %d documents acknowledged, the index had %d", time.Since(begin).Round(time.Second), k+1, p.acknowledged.Load(), share)
		}
	}
	group.Wait()
	untilAll(t, documents, func() int64 { return int64(node.Count(index)) }, &s.log)
	if asStore {
		checkSummary(t, p.address, documents)
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v: %s", err, s.log.String())
	}
	checkIndex(t, node, index, documents, asStore)
	if text, err := os.ReadFile(filepath.Join(dir, "forward-refused.jsonl")); !os.IsNotExist(err) {
		t.Errorf("the cluster has refused: %s, %v", text, err)
	}
	logRow(t, what, "OpenSearch "+node.Version(), documents, kills, begin)
}

// documentsAKill is the number of documents per kill in the long tests.
const documentsAKill = 10_000

// longKills returns the number of kills in the long tests: RMREPLAY_KILLS, by default 100. It
// returns 0 unless RMREPLAY_LONG_TESTS is set.
func longKills(t *testing.T) (kills int) {
	t.Helper()
	text := os.Getenv("RMREPLAY_KILLS")
	switch {
	case os.Getenv("RMREPLAY_LONG_TESTS") == "":
		return 0
	case text == "":
		return 100
	}
	kills, err := strconv.Atoi(text)
	if err != nil || kills <= 0 {
		t.Fatalf("RMREPLAY_KILLS=%s: want a number above 0", text)
	}
	return kills
}

// needLong skips a release of Slurm unless RMREPLAY_LONG_TESTS is set, because another release
// shows the same.
func needLong(t *testing.T) {
	t.Helper()
	if os.Getenv("RMREPLAY_LONG_TESTS") == "" {
		t.Skip("SKIPPED: this release; set RMREPLAY_LONG_TESTS=1 for it")
	}
}

// untilAll waits until count returns at least documents. It fails if count does not grow for ten
// minutes.
func untilAll(t *testing.T, documents int64, count func() int64, log fmt.Stringer) {
	t.Helper()
	last, since := int64(-1), time.Now()
	for n := count(); n < documents; n = count() {
		if n > last {
			last, since = n, time.Now()
		}
		if time.Since(since) > 10*time.Minute {
			t.Fatalf("%d of %d documents have come, and no other in ten minutes: %s", n, documents, log)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// logRow logs a row of the table of docs/measurements/servers.md, which tools/kill-servers collects.
func logRow(t *testing.T, what, server string, documents int64, kills int, begin time.Time) {
	t.Helper()
	verdict := "each once, as it was sent"
	if t.Failed() {
		verdict = "FAILED"
	}
	t.Logf("| %s | %s | %d | %d of rmreplay, %d of the server | %v | %s |", what, server, documents, (kills+1)/2, kills/2,
		time.Since(begin).Round(time.Second), verdict)
}

// checkIndex checks that an index has each document once. If derived, documents must also have the
// member "rmreplay", with the right ID and wait.
func checkIndex(t *testing.T, node *servertest.OpenSearch, index string, documents int64, derived bool) {
	t.Helper()
	numbers := make(map[string]int64, documents)
	for n := int64(1); n <= documents; n++ {
		e := storetest.Entry(n)
		numbers[store.ID(&e.Job)] = n
	}
	wrong := 0
	node.Each(index, func(d servertest.Document) {
		n, ok := numbers[d.ID]
		e := storetest.Entry(n)
		delete(numbers, d.ID) // each document may occur only once
		source := string(d.Source)
		if derived {
			text, own, _ := strings.Cut(source, `,"rmreplay":`)
			source = text + "}"
			var member struct {
				ID   string  `json:"id"`
				Wait float64 `json:"wait_s"`
			}
			err := json.Unmarshal([]byte(strings.TrimSuffix(own, "}")), &member)
			ok = ok && err == nil && member.ID == d.ID && member.Wait == e.Job.Start.Sub(e.Job.Submit).Seconds()
		}
		if ok && string(e.Document) == source {
			return
		}
		if wrong++; wrong <= 10 {
			t.Errorf("%s is strange, there twice, or changed: %s", d.ID, d.Source)
		}
	})
	if wrong > 0 || len(numbers) > 0 {
		t.Errorf("of %d jobs %d are missing, and %d documents are wrong", documents, len(numbers), wrong)
	}
}

// checkSummary checks the number of jobs that a server's pages show.
func checkSummary(t *testing.T, address string, documents int64) {
	t.Helper()
	var summary struct{ Rows [][]any }
	read(t, address, "summary", &summary)
	if summary.Rows[0][0] != float64(documents) {
		t.Errorf("the pages show %v jobs, want %d", summary.Rows[0][0], documents)
	}
}

// TestPluginIndex lets each release's stock plugin post to OpenSearch itself. The pages over this
// index must show the same numbers as a server that received the same documents. 26.05 posts to
// OpenSearch 3, the others to OpenSearch 2.
func TestPluginIndex(t *testing.T) {
	rpctest.Each(t, slurmspec.R2205, []string{"slurmd", "slurmdbd", "sbatch", "sacct", "sacctmgr", "sinfo", "squeue"}, func(t *testing.T, slurm *rpctest.Slurm) {
		t.Parallel() // it waits most of the time
		if slurm.Release.Series() == slurmspec.R2411.Series() {
			needLong(t)
		}
		release := servertest.OpenSearch2
		if slurm.Release.Since(slurmspec.R2605) {
			release = servertest.OpenSearch3
		}
		node, index := servertest.NewOpenSearch(t, release), "slurm-"+slurm.Release.String()
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
			for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) { // until the server has all of them
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

// alike reports whether rows are equal, except for the last digits of numbers, and for values that
// a cluster with Slurm's own documents lacks.
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
