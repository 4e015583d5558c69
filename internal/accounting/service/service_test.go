package service_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/service"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
	"rmreplay/internal/finished"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/supervise"
	"rmreplay/internal/workload"
)

// serveVariable makes the test's program a server. Its value is a data directory and an address.
// The server forwards to the URL in forwardVariable, or has the index at the URL in storeVariable
// as its store, and reads the topic in kafkaVariable.
const (
	serveVariable   = "RMREPLAY_TEST_SERVE"
	forwardVariable = "RMREPLAY_TEST_FORWARD"
	storeVariable   = "RMREPLAY_TEST_STORE"
	kafkaVariable   = "RMREPLAY_TEST_KAFKA"
)

func TestMain(m *testing.M) {
	supervise.RunIfGuard() // the guard of a replay's daemons
	if dir, address, ok := strings.Cut(os.Getenv(serveVariable), " "); ok {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		opts := service.Serve{Data: dir, Listen: []string{address}, Forward: os.Getenv(forwardVariable), Kafka: os.Getenv(kafkaVariable)}
		if index := os.Getenv(storeVariable); index != "" {
			opts.Store, opts.URL = service.Elasticsearch, index
		}
		err := service.New().Serve(ctx, opts, func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, format+"\n", args...)
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// server is a server in a separate process.
type server struct {
	dir, address string
	command      *exec.Cmd
	log          bytes.Buffer
}

// start starts a server with further environment variables and waits until it answers.
func start(t testing.TB, dir, address string, variables ...string) *server {
	t.Helper()
	s := &server{dir: dir, address: address, command: exec.Command(os.Args[0])}
	s.command.Env = append(append(os.Environ(), variables...), serveVariable+"="+dir+" "+address)
	s.command.Stderr = &s.log
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	for range 600 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return s
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.end(syscall.SIGKILL)
	t.Fatalf("the server does not answer: %s", s.log.String())
	return nil
}

// end sends a signal and waits for the process's end.
func (s *server) end(with syscall.Signal) error {
	_ = s.command.Process.Signal(with) // the process may have ended
	return s.command.Wait()
}

// freeAddress returns an unused address. Its port is below the range that the kernel assigns to
// clients. Otherwise a client of a server that has ended could get the server's port, and so
// connect to itself.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// post posts a document on a new connection, as Slurm's plugin does, and returns the status.
func post(address string, text []byte) (int, string, error) {
	return postBy(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}, address, text)
}

func postBy(client *http.Client, address string, text []byte) (int, string, error) {
	response, err := client.Post("http://"+address+"/slurm/_doc", "application/json", bytes.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// posting has clients that post synthetic jobs until each job is acknowledged. Some clients lose a
// response and send the job again.
type posting struct {
	address             string
	documents           int64
	document            func(n int64) []byte // nil for documents of package storetest
	next                atomic.Int64
	acknowledged        atomic.Int64
	lost, full, unheard atomic.Int64 // responses that were lost, that reported a full disk, or that never came
}

// run runs client number c.
func (p *posting) run(c int) {
	r := rand.New(rand.NewPCG(uint64(c), 1))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: c%2 == 0}, Timeout: time.Minute} // Slurm's plugin keeps none
	defer client.CloseIdleConnections()
	document := p.document
	if document == nil {
		document = synthetic
	}
	for {
		n := p.next.Add(1)
		if n > p.documents {
			return
		}
		text := document(n)
		for {
			if r.IntN(40) == 0 { // the response is lost
				if conn, err := net.Dial("tcp", p.address); err == nil {
					fmt.Fprintf(conn, "POST /slurm/_doc HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
					conn.Close()
					p.lost.Add(1)
				}
			}
			status, body, err := postBy(client, p.address, text)
			if err == nil && status == http.StatusCreated {
				p.acknowledged.Add(1)
				break
			}
			switch {
			case err != nil:
				p.unheard.Add(1)
			case status == http.StatusServiceUnavailable && strings.Contains(body, "no space left on device"):
				p.full.Add(1)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// TestKilled kills the server at random while clients post to it, and sometimes fills its disk. In
// the end each job must be in the store once. With RMREPLAY_LONG_TESTS it posts a million documents
// and kills 100 times.
func TestKilled(t *testing.T) {
	documents, kills, clients, fills := int64(1500), 4, 12, 0
	dir := filepath.Join(t.TempDir(), "data")
	if os.Getenv("RMREPLAY_LONG_TESTS") != "" {
		documents, kills, clients, fills = 1_000_000, 100, 64, 10
		dir = filepath.Join(smallDisk(t, "1500m"), "data")
	}
	begin := time.Now()
	p := &posting{address: freeAddress(t), documents: documents}
	s := start(t, dir, p.address)
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() { p.run(c) })
	}
	for k := range kills {
		for p.acknowledged.Load() < documents*int64(k+1)/int64(kills+1) {
			time.Sleep(time.Millisecond)
		}
		if fills > 0 && k%(kills/fills) == 0 {
			full := p.full.Load()
			fillDisk(t, filepath.Dir(dir), func() bool { return p.full.Load() > full+int64(clients) })
		}
		s.end(syscall.SIGKILL)
		s = start(t, dir, p.address)
		if k%10 == 9 {
			t.Logf("%v: %d killings, %d documents acknowledged", time.Since(begin).Round(time.Second), k+1, p.acknowledged.Load())
		}
	}
	group.Wait()
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Fatalf("the server ended with %v: %s", err, s.log.String())
	}
	info, err := service.New().Info(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	waitApplied(t, dir, info.Received)
	if info, err = service.New().Info(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	checkJobs(t, dir, documents, synthetic)
	t.Logf("%d documents, %d kills, disk full %d times (%d posts refused), %d answers lost by the client, %d by the server's end, %d duplicates", documents, kills, fills, p.full.Load(),
		p.lost.Load(), p.unheard.Load(), info.Counts[store.CountDuplicate])
}

// TestFirstAnswer: a server that has just started again after SIGKILL answers about all documents,
// although its tables lack most of them. A directory that was closed no longer needs its journal.
func TestFirstAnswer(t *testing.T) {
	const documents = 20_000
	dir, address := filepath.Join(t.TempDir(), "data"), freeAddress(t)
	s := start(t, dir, address)
	var bulk bytes.Buffer
	for n := int64(1); n <= documents; n++ {
		fmt.Fprintf(&bulk, "{\"create\":{}}\n%s\n", storetest.Entry(n).Document)
	}
	response, err := http.Post("http://"+address+"/slurm/_bulk", "application/x-ndjson", &bulk)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	response.Body.Close()
	s.end(syscall.SIGKILL)
	s = start(t, dir, address)
	var summary struct{ Rows [][]any }
	if read(t, address, "summary", &summary); summary.Rows[0][0] != float64(documents) {
		t.Errorf("the pages show %v jobs at first, want %d", summary.Rows[0][0], documents)
	}
	s.end(syscall.SIGKILL)
	s = start(t, dir, address)
	var count struct{ Count int }
	if text := body(t, "http://"+address+"/slurm/_count", 200); json.Unmarshal([]byte(text), &count) != nil || count.Count != documents {
		t.Errorf("the search counts at first %s, want %d", text, documents)
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	kept, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if kept.Durable() != documents {
		t.Errorf("after its end the tables have %d documents on disk, want %d", kept.Durable(), documents)
	}
}

// smallDisk mounts a file system of the given size.
func smallDisk(t *testing.T, size string) (path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: it mounts a small file system, which only root can do")
	}
	path = t.TempDir()
	if err := unix.Mount("rmreplay-test", path, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("SKIPPED: mounting a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return path
}

// fillDisk fills a file system until done returns true, and then frees the space.
func fillDisk(t *testing.T, path string, done func() bool) {
	t.Helper()
	ballast := filepath.Join(path, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(f.Close(), os.Remove(ballast)); err != nil {
			t.Error(err)
		}
	}()
	for size, step := int64(0), int64(64<<20); step > 0; { // in steps of decreasing size
		if err := unix.Fallocate(int(f.Fd()), 0, size, step); err == nil {
			size += step
		} else if step /= 2; !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Minute); !done(); {
		if _, err := io.Copy(f, zeros{}); !errors.Is(err, unix.ENOSPC) { // fills space that the server has freed
			t.Fatalf("the disk is endless: %v", err)
		}
		if time.Now().After(deadline) {
			t.Fatal("no document is refused, though the disk is full")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// waitApplied opens a directory until its store has all received documents in its own files. The
// last documents could otherwise be in the journal only.
func waitApplied(t *testing.T, dir string, received int64) {
	t.Helper()
	in, err := intake.Open(context.Background(), dir, intake.Options{Now: time.Now, Report: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Wait(context.Background(), received), in.Store().Seal()); err != nil {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// synthetic returns the document of synthetic job n.
func synthetic(n int64) []byte { return storetest.Entry(n).Document }

// checkJobs checks that a directory has each of the first jobs once, with its document.
func checkJobs(t *testing.T, dir string, jobs int64, of func(n int64) []byte) {
	t.Helper()
	s, err := store.Open(context.Background(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	seen := make(map[string]bool, jobs)
	v := s.View()
	defer v.Close()
	err = v.Each(context.Background(), store.Filter{}, func(d *store.Stored) error {
		j := document.Parse(d.Document, d.Cluster)
		if want := of(j.JobID); string(d.Document) != string(want) || seen[store.ID(&j)] {
			t.Errorf("document %d occurs twice, or changed: %s", d.Seq, d.Document)
		}
		seen[store.ID(&j)] = true
		return nil
	})
	if err != nil || int64(len(seen)) != jobs {
		t.Errorf("%d jobs, want %d: %v", len(seen), jobs, err)
	}
}

// TestFullDisk fills a server's disk. Documents must be refused with status 503 and the reason, and
// be accepted again when there is space.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, "24m")
	dir, address := filepath.Join(disk, "data"), freeAddress(t)
	s := start(t, dir, address)
	kept := int64(0)
	must := func() {
		t.Helper()
		kept++
		if status, body, err := post(address, storetest.Entry(kept).Document); err != nil || status != http.StatusCreated {
			t.Fatal(status, body, err)
		}
	}
	for range 20 {
		must()
	}
	for range 3 {
		ballast := filepath.Join(disk, "ballast")
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, zeros{}); err == nil {
			t.Fatal("the disk is endless")
		}
		f.Close()
		refused := false
		for range 40 { // there may be space in a page of the journal
			status, body, err := post(address, storetest.Entry(kept+1).Document)
			if err != nil {
				t.Fatal(err)
			}
			if status == http.StatusServiceUnavailable && strings.Contains(body, "no space left on device") {
				refused = true
				break
			}
			if status != http.StatusCreated {
				t.Fatal(status, body)
			}
			kept++
		}
		if !refused {
			t.Error("no document was refused")
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			must()
		}
	}
	info, err := service.New().Info(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 600 {
		if info, err = service.New().Info(context.Background(), dir); err != nil {
			t.Fatal(err)
		} else if info.Applied == info.Received {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if info.Jobs != kept {
		t.Errorf("%d jobs, want %d: %+v\n%s", info.Jobs, kept, info, s.log.String())
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v: %s", err, s.log.String())
	}
	checkJobs(t, dir, kept, synthetic)
}

type zeros struct{}

func (zeros) Read(to []byte) (int, error) {
	clear(to)
	return len(to), nil
}

// TestSecond checks that a second server is refused, with the process id of the first server.
func TestSecond(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := start(t, dir, freeAddress(t))
	err := service.New().Serve(context.Background(), service.Serve{Data: dir, Listen: []string{"127.0.0.1:0"}}, t.Logf)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d has it open", first.command.Process.Pid)) {
		t.Error(err)
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:9200", ":9200"} {
		if err := service.New().Serve(context.Background(), service.Serve{Data: t.TempDir(), Listen: []string{address}}, t.Logf); err == nil || !strings.Contains(err.Error(), "--auth") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

const sacct = `JobID|JobIDRaw|JobName|User|UID|GID|Account|Partition|QOS|Submit|Eligible|Start|End|State|ExitCode|Timelimit|AllocCPUS|NNodes|ReqTRES|AllocTRES|NodeList|Cluster
1|1|a|ann|1000|100|physics|batch|normal|2024-03-01T00:00:00|2024-03-01T00:00:00|2024-03-01T00:01:00|2024-03-01T00:11:00|COMPLETED|0:0|01:00:00|4|1|cpu=4,mem=8G,node=1|cpu=4,mem=8G,node=1|n1|vale
1.batch|1.batch|batch||||physics||||2024-03-01T00:01:00|2024-03-01T00:01:00|2024-03-01T00:11:00|COMPLETED|0:0||4|1||cpu=4|n1|vale
2|2|b|bob|1001|100|physics|batch|normal|2024-03-01T00:00:30|2024-03-01T00:00:30|2024-03-01T00:02:00|2024-03-01T00:12:00|FAILED|1:0|01:00:00|4|1|cpu=4,mem=8G,node=1|cpu=4,mem=8G,node=1|n2|vale
3_1|4|c|ann|1000|100|physics|batch|normal|2024-03-01T00:03:00|2024-03-01T00:03:00|2024-03-01T00:04:00|2024-03-01T00:05:00|TIMEOUT|0:15|00:01:00|8|2|cpu=8,node=2|cpu=8,node=2|n[1-2]|vale
5|5|d|ann|1000|100|physics|batch|normal|2024-03-01T00:06:00|2024-03-01T00:06:00|None|2024-03-01T00:07:00|CANCELLED by 1000|0:0|01:00:00|0|1|cpu=4,node=1||None assigned|vale
6|6|e|ann|1000|100|physics|batch|normal|2024-03-01T00:06:00|2024-03-01T00:06:00|2024-03-01T00:08:00|Unknown|RUNNING|0:0|01:00:00|4|1|cpu=4,node=1|cpu=4,node=1|n1|vale
`

// TestWaited imports records of waiting and running jobs, and then those of the next day. Each job
// must be there once. A job that was requeued and waits again must also have the row of its first
// run.
func TestWaited(t *testing.T) {
	ctx, svc, scratch := context.Background(), service.New(), t.TempDir()
	dir := filepath.Join(scratch, "data")
	add := func(lines ...string) *service.Imported {
		t.Helper()
		file := filepath.Join(scratch, "some.sacct")
		text := "JobIDRaw|JobID|Cluster|User|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS\n" + strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		imported, err := svc.Import(ctx, dir, service.Records{Sources: []string{file}, From: "auto"})
		if err != nil {
			t.Fatal(err)
		}
		return imported
	}
	const requeued = "3|3|vale|ann|batch|REQUEUED|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:02:00|60|60|1|4"
	const waitsAgain = "3|3|vale|ann|batch|PENDING|2024-03-01T10:00:00|Unknown|Unknown|0|60|1|4"
	first := add(
		"1|1|vale|ann|batch|PENDING|2024-03-01T10:00:00|Unknown|Unknown|0|60|1|4",
		"2|2|vale|ann|batch|RUNNING|2024-03-01T10:00:00|2024-03-01T10:01:00|Unknown|100|60|1|4",
		requeued, waitsAgain,
		"4|4|vale|ann|batch|PENDING|2024-03-01T10:00:00|Unknown|Unknown|0|60|1|4",
	)
	if first.Added != 5 {
		t.Errorf("%+v", first)
	}
	second := add(
		"1|1|vale|ann|batch|COMPLETED|2024-03-01T10:00:00|2024-03-01T11:00:00|2024-03-01T11:10:00|600|60|1|4",
		"2|2|vale|ann|batch|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:41:00|2400|60|1|4",
		requeued, waitsAgain,
		"4|4|vale|ann|batch|CANCELLED by 7|2024-03-01T10:00:00|None|2024-03-01T10:30:00|0|60|1|4",
	)
	if second.Added != 0 || second.Replaced != 3 || second.Duplicate != 2 {
		t.Errorf("%+v", second)
	}
	if again := add(requeued, "3|3|vale|ann|batch|COMPLETED|2024-03-01T10:00:00|2024-03-01T12:00:00|2024-03-01T12:10:00|600|60|1|4"); again.Replaced != 1 || again.Added != 0 {
		t.Errorf("%+v", again)
	}
	add( // in sacct, PREEMPTED and NODE_FAIL occur for lost runs and for ended jobs
		"5|5|vale|ann|batch|PREEMPTED|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:02:00|60|60|1|4",
		"6|6|vale|ann|batch|PREEMPTED|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:02:00|60|60|1|4",
		"7|7|vale|ann|batch|NODE_FAIL|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:02:00|60|60|1|4",
		"5|5|vale|ann|batch|PREEMPTED|2024-03-01T10:02:00|2024-03-01T10:05:00|2024-03-01T10:06:00|60|60|1|4",
		"7|7|vale|ann|batch|CANCELLED by 7|2024-03-01T10:02:01|None|2024-03-01T10:30:00|0|60|1|4",
		"8|8|vale|ann|batch|PREEMPTED|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:02:00|60|60|1|4",
		"8|8|vale|ann|batch|COMPLETED|2024-03-03T10:00:00|2024-03-03T10:01:00|2024-03-03T10:02:00|60|60|1|4", // number reused
	)
	path := filepath.Join(scratch, "out.csv")
	if _, err := svc.Export(ctx, dir, service.Export{Output: path, Format: "csv"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var states, again []string
	for _, row := range rows[1:] {
		if row[slices.Index(rows[0], "jobid")] == "5" {
			again = append(again, row[slices.Index(rows[0], "wait_s")])
		}
		states = append(states, row[slices.Index(rows[0], "jobid")]+" "+row[slices.Index(rows[0], "state")]+" "+row[slices.Index(rows[0], "lost")])
	}
	slices.Sort(states)
	if want := []string{
		"1 COMPLETED 0", "2 COMPLETED 0", "3 COMPLETED 0", "3 REQUEUED 1", "4 CANCELLED 0", "5 PREEMPTED 0", "5 PREEMPTED 1", "6 PREEMPTED 0", "7 CANCELLED 0",
		"7 NODE_FAIL 1", "8 COMPLETED 0", "8 PREEMPTED 0",
	}; !slices.Equal(states, want) {
		t.Errorf("%q, want %q", states, want)
	}
	if slices.Sort(again); !slices.Equal(again, []string{"", "240"}) {
		t.Errorf("the runs of job 5 waited %q s, want the whole wait for the last one only", again)
	}
}

// TestReconcileUnnamed reconciles jobs whose documents do not name a cluster, because slurmdbd has
// no association for them. They are stored under the index's name, but the records name the
// cluster.
func TestReconcileUnnamed(t *testing.T) {
	ctx, svc := context.Background(), service.New()
	scratch := t.TempDir()
	dir, address := filepath.Join(scratch, "data"), freeAddress(t)
	s := start(t, dir, address)
	for _, text := range []string{
		`{"jobid":1,"username":"ann","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:11:00","nodes":"n1","state":"COMPLETED","exit_code":"0:0","total_cpus":4,"time_limit":3600}`,
		`{"jobid":2,"username":"bob","@submit":"2024-03-01T00:00:30","@start":"2024-03-01T00:02:00","@end":"2024-03-01T00:12:00","nodes":"n2","state":"NODE_FAIL","exit_code":"1:0","total_cpus":4}`,
		`{"jobid":77,"username":"bob","@submit":"2024-03-01T00:00:30","@start":"2024-03-01T00:02:00","@end":"2024-03-01T00:10:00","nodes":"n2","state":"COMPLETED","total_cpus":4}`, // of another cluster
	} {
		if status, body, err := post(address, []byte(text)); err != nil || status != http.StatusCreated {
			t.Fatal(status, body, err)
		}
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Fatal(err, s.log.String())
	}
	file := filepath.Join(scratch, "day.sacct")
	if err := os.WriteFile(file, []byte(sacct), 0o600); err != nil {
		t.Fatal(err)
	}
	from := service.Records{Sources: []string{file}, From: "auto"}
	r, err := svc.Reconcile(ctx, dir, from, true)
	if err != nil {
		t.Fatal(err)
	}
	if r.Equal != 1 || r.NoCluster != 2 || r.Unknown != 0 || fmt.Sprint(r.Missing) != "[vale:4:1709251440 vale:5:-1709251560]" ||
		fmt.Sprint(r.Differing) != "[{vale:2:1709251320 state FAILED NODE_FAIL}]" {
		t.Errorf("%+v", r)
	}
	info, err := svc.Info(ctx, dir)
	if err != nil || info.Jobs != 5 {
		t.Errorf("%+v %v", info, err)
	}
	imported, err := svc.Import(ctx, dir, from)
	if err != nil || imported.NoClusterBefore != 3 || imported.NoCluster != 0 {
		t.Errorf("%+v %v", imported, err)
	}
}

// TestImportNoCluster: an import counts the records that name no cluster, unless the options name it. It leaves out steps,
// even if the file has their job.
func TestImportNoCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "day.sacct")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(sacct, "|vale", "|")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"": 5, "vale": 0} {
		r, err := service.New().Import(context.Background(), filepath.Join(t.TempDir(), "data"),
			service.Records{Sources: []string{file}, From: "auto", ClusterName: name})
		if err != nil || r.NoCluster != want || r.Records != 5 || r.NoClusterBefore != 0 || r.Rules[finished.NoteStep] != 1 {
			t.Errorf("--cluster-name %q: %+v %v", name, r, err)
		}
	}
}

// TestMistakes checks the messages about sources, files and clusters that do not exist or are of a
// wrong kind.
func TestMistakes(t *testing.T) {
	ctx, svc := context.Background(), service.New()
	scratch := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(scratch, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	says := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	dir := filepath.Join(scratch, "data")
	plan := filepath.Join(scratch, "plan.jsonl")
	job := &hpc.Job{ID: "1", Submit: hpc.Unix(1709251200)}
	job.Tasks, job.RunTime = 1, time.Minute
	if err := formats.Save(plan, &workload.Workload{Jobs: workload.JobsOf(job)}); err != nil {
		t.Fatal(err)
	}
	set := filepath.Join(scratch, "set")
	if err := os.Mkdir(set, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := run.WriteSetIndex(set, run.SetIndex{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		set:                              "a set of realizations (want runs of the set, such as " + filepath.Join(set, "realization-001") + ")",
		file("host", "vale\n"):           "format not known (want records of",
		plan:                             "make a run of a workload",
		filepath.Join(scratch, "absent"): "no such file",
	} {
		_, err := svc.Import(ctx, dir, service.Records{Sources: []string{name}, From: "auto"})
		says(err, want)
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a directory is left: %v", name, err)
		}
	}
	if _, err := svc.Import(ctx, dir, service.Records{Sources: []string{file("day.sacct", sacct)}, From: "auto"}); err != nil {
		t.Fatal(err)
	}
	_, err := svc.Export(ctx, dir, service.Export{Output: filepath.Join(scratch, "v.csv"), Format: "csv", ClusterName: "moor"})
	says(err, `it has no jobs of the cluster "moor" (want one of vale)`)
	for condition, want := range map[string]string{
		"state = FAILED":                          `--where "state = FAILED": there is no column FAILED (a text needs quotes: 'FAILED')`,
		"sate = 'FAILED'":                         "there is no column sate (did you mean state? a text needs quotes: 'sate')",
		"status = 'FAILED'":                       "there is no column status (did you mean state? a text needs quotes: 'status')",
		"user != 'ada'":                           `--where "user != 'ada'": user is a keyword of SQL, not a column (want user_name)`,
		"state = 'x' OR\nnot CURRENT_USER='user'": "CURRENT_USER is a keyword of SQL, not a column (want user_name)",
		"session_user IS NULL":                    "session_user is a keyword of SQL, not a column (want user_name)",
		"current_schema = 'vale'":                 "current_schema is a keyword of SQL, not a column (want cluster)",
		`"user" = 'ada'`:                          "user is a keyword of SQL, not a column (want user_name)",
		`state = "FAILED"`:                        "there is no column FAILED (a text needs quotes: 'FAILED')",
		"elapsed_s > 'long'":                      `"long": not a value of the column (want a number)`,
		"end_time > 'monday'":                     "want",
		"state ==":                                "(want a condition in SQL, such as state = 'FAILED' AND elapsed_s > 3600)",
		"hours(elapsed_s) > 1":                    "(want a condition in SQL",
	} {
		for _, format := range []string{"csv", "trace"} {
			_, err = svc.Export(ctx, dir, service.Export{Output: filepath.Join(scratch, "v."+format), Format: format, Where: condition})
			says(err, want)
			for _, foreign := range []string{"Error:", "LINE", "Candidate", "SELECT", "FROM"} {
				if err != nil && strings.Contains(err.Error(), foreign) {
					t.Errorf("%s: %v", condition, err)
				}
			}
		}
	}
	for _, cluster := range []string{"fen", "glen"} {
		other := strings.ReplaceAll(sacct, "vale", cluster)
		more := service.Records{Sources: []string{file(cluster+".sacct", other)}, From: "auto"}
		if _, err := svc.Import(ctx, dir, more); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = svc.Workload(ctx, dir, workload.ReadOptions{})
	says(err, "jobs of 3 clusters: fen, glen, vale (want --cluster-name with one of them)")
	for condition, want := range map[string]string{
		"state = 'FALED'": `; no job has state "FALED" (`,
		"elapsed_s > 0 AND user_name in ('ada''s', 'nobody')": `; no job has user_name "ada's" (`,
		"elapsed_s < 0": "",
		"elapsed_s < 0 /* user */ OR comment = 'user = ''user' AND false": `; no job has comment "user = 'user" (`,
		"end_time > current_date AND user_name IS NULL":                   "",
	} {
		opts := service.Export{Output: filepath.Join(scratch, "none.csv"), Format: "csv", Where: condition}
		out, err := svc.Export(ctx, dir, opts)
		if err != nil || out.Jobs != 0 || !strings.HasPrefix(out.Absent, want) || (want == "") != (out.Absent == "") {
			t.Errorf("%s: %+v: %v, want %q", condition, out, err, want)
		}
		opts.Output, opts.Format, opts.ClusterName = filepath.Join(scratch, "none.jsonl"), "trace", "vale"
		_, err = svc.Export(ctx, dir, opts)
		says(err, "it has no usable job"+want)
	}
	_, _, err = svc.Workload(ctx, dir, workload.ReadOptions{Cluster: "moor"})
	says(err, `it has no jobs of the cluster "moor" (want one of fen, glen, vale)`)
	_, err = svc.Backup(ctx, dir, filepath.Join(dir, "a", "copy"))
	says(err, "is in the data directory")
	packed := filepath.Join(scratch, "v.csv.gz")
	if _, err := svc.Export(ctx, dir, service.Export{Output: packed, Format: "csv", ClusterName: "vale"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := csv.NewReader(zip).ReadAll(); err != nil || len(rows) != 6 {
		t.Errorf("%d rows, want 6: %v", len(rows), err)
	}
}

// TestImportLive imports a run that another process writes. Its pending jobs would stay in the store
// beside the same jobs of a later import, so that it is refused until it ends or is interrupted.
func TestImportLive(t *testing.T) {
	ctx, svc, scratch := t.Context(), service.New(), t.TempDir()
	record, dir := filepath.Join(scratch, "run"), filepath.Join(scratch, "data")
	w, err := run.Create(record, run.Manifest{Engine: "sim", Started: time.Now()}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, err = svc.Import(ctx, dir, service.Records{Sources: []string{record}, From: "auto"})
	if want := record + ": the run is still going on: import it when it has ended"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory is left: %v", err)
	}
	if err := w.Close(); err != nil { // as after an interruption
		t.Fatal(err)
	}
	if _, err := svc.Import(ctx, dir, service.Records{Sources: []string{record}, From: "auto"}); err != nil {
		t.Errorf("an interrupted run: %v", err)
	}
}

// TestReconcileZone reconciles records whose times are read in another zone than the times of the
// records in the directory.
func TestReconcileZone(t *testing.T) {
	ctx, svc := context.Background(), service.New()
	scratch := t.TempDir()
	dir, file := filepath.Join(scratch, "data"), filepath.Join(scratch, "day.sacct")
	if err := os.WriteFile(file, []byte(sacct), 0o600); err != nil {
		t.Fatal(err)
	}
	from := service.Records{Sources: []string{file}, From: "auto"}
	imported, err := svc.Import(ctx, dir, from)
	if err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	from.Zone.Add(set)
	if err := set.Set("timezone", "Europe/Zurich"); err != nil {
		t.Fatal(err)
	}
	r, err := svc.Reconcile(ctx, dir, from, false)
	if err != nil || r.Records != 4 || len(r.Missing) != 4 || r.Shifted != 4 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := svc.Reconcile(ctx, dir, from, true); err == nil || !strings.Contains(err.Error(), "4 of 4 missing jobs") || !strings.Contains(err.Error(), "--timezone") {
		t.Error(err)
	}
	if info, err := svc.Info(ctx, dir); err != nil || info.Jobs != int64(imported.Added) {
		t.Errorf("%+v %v, want %d jobs", info, err, imported.Added)
	}
}

// TestRecords imports, reconciles, exports and copies, with and without a server.
func TestRecords(t *testing.T) {
	ctx, svc := context.Background(), service.New()
	for _, served := range []bool{false, true} {
		t.Run(fmt.Sprintf("served=%v", served), func(t *testing.T) {
			scratch := t.TempDir()
			dir, address := filepath.Join(scratch, "data"), freeAddress(t)
			s := start(t, dir, address)
			// Slurm sent jobs 1 and 2, and was killed before it sent the others. It sent job 2 with
			// another state.
			for _, text := range []string{
				`{"jobid":1,"cluster":"vale","username":"ann","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:11:00","nodes":"n1","state":"COMPLETED","exit_code":"0:0","total_cpus":4,"time_limit":3600}`,
				`{"jobid":2,"cluster":"vale","username":"bob","@submit":"2024-03-01T00:00:30","@start":"2024-03-01T00:02:00","@end":"2024-03-01T00:12:00","nodes":"n2","state":"NODE_FAIL","exit_code":"1:0","total_cpus":4}`,
				`{"jobid":9,"cluster":"vale","username":"bob","@submit":"2024-03-01T00:00:30","@start":"2024-03-01T00:02:00","@end":"2024-03-01T00:10:00","nodes":"n2","state":"COMPLETED","total_cpus":4}`,
			} {
				if status, body, err := post(address, []byte(text)); err != nil || status != http.StatusCreated {
					t.Fatal(status, body, err)
				}
			}
			if !served {
				if err := s.end(syscall.SIGTERM); err != nil {
					t.Fatal(err, s.log.String())
				}
			}
			file := filepath.Join(scratch, "day.sacct")
			if err := os.WriteFile(file, []byte(sacct), 0o600); err != nil {
				t.Fatal(err)
			}
			from := service.Records{Sources: []string{file}, From: "auto"}
			r, err := svc.Reconcile(ctx, dir, from, false)
			if err != nil {
				t.Fatal(err)
			}
			if r.Records != 4 || r.Equal != 1 || r.Unknown != 1 || r.Filled != 0 ||
				fmt.Sprint(r.Missing) != "[vale:4:1709251440 vale:5:-1709251560]" || fmt.Sprint(r.Differing) != "[{vale:2:1709251320 state FAILED NODE_FAIL}]" {
				t.Errorf("%+v", r)
			}
			if r, err = svc.Reconcile(ctx, dir, from, true); err != nil || r.Filled != 2 {
				t.Fatal(r, err)
			}
			if r, err = svc.Reconcile(ctx, dir, from, true); err != nil || len(r.Missing) != 0 || r.Equal != 3 || r.Filled != 0 {
				t.Fatal(r, err)
			}
			imported, err := svc.Import(ctx, dir, from)
			if err != nil || imported.Records != 5 || imported.Added != 1 || imported.Kept != 2 || imported.Duplicate != 2 {
				t.Errorf("%+v %v", imported, err)
			}
			info, err := svc.Info(ctx, dir)
			if err != nil || info.Jobs != 6 || info.Sources["reconciled"] != 2 || info.Sources["imported"] != 1 || info.Sources["received"] != 3 {
				t.Errorf("%+v %v", info, err)
			}
			trace := filepath.Join(scratch, "day.jsonl")
			exported, err := svc.Export(ctx, dir, service.Export{Output: trace, Format: "trace", Where: "state IS NOT NULL AND end_time IS NOT NULL"})
			if err != nil {
				t.Fatal(err)
			}
			w, err := formats.Open(trace)
			if err != nil || w.Jobs.Len() != 5 || exported.Jobs != 5 {
				t.Errorf("%+v %v", exported, err)
			}
			for _, format := range []string{"parquet", "csv", "swf"} {
				path := filepath.Join(scratch, "out."+format)
				if exported, err := svc.Export(ctx, dir, service.Export{Output: path, Format: format, ClusterName: "vale"}); err != nil || exported.Jobs < 5 {
					t.Errorf("%s: %+v %v", format, exported, err)
				}
			}
			if imported, err = svc.Import(ctx, dir, service.Records{Sources: []string{trace}, From: "auto", ClusterName: "what-if"}); err != nil || imported.Added != 5 {
				t.Errorf("%+v %v", imported, err)
			}
			target := filepath.Join(scratch, "copy")
			if _, err := svc.Backup(ctx, dir, target); err != nil {
				t.Fatal(err)
			}
			if _, err := svc.Backup(ctx, dir, target); err == nil || !strings.Contains(err.Error(), "the directory exists already") {
				t.Error(err)
			}
			if info, err := svc.Info(ctx, target); err != nil || info.Jobs != 11 || info.Clusters["what-if"] != 5 {
				t.Errorf("%+v %v", info, err)
			}
		})
	}
	if _, err := svc.Info(ctx, t.TempDir()); err == nil || !strings.Contains(err.Error(), "no store") {
		t.Error(err)
	}
}
