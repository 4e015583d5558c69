package iocmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/ioservice/site"
	"rmreplay/internal/wal"
)

// asCommand, in the environment, makes the test's program the command `rmreplay io`.
const asCommand = "RMREPLAY_TEST_IO"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := execute(ctx, os.Stdout, os.Stderr, os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// execute runs the command group.
func execute(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	c := New(console.Output{Stdout: stdout, Stderr: stderr})
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	return c.ExecuteContext(ctx)
}

// service is a process that serves.
type service struct {
	*exec.Cmd
	address, http string
	messages      *bytes.Buffer
	read          chan struct{} // closed when stderr has ended
}

// serve starts a service. It is killed when the test ends.
func serve(t *testing.T, state string, args ...string) *service {
	t.Helper()
	s := &service{Cmd: exec.Command(os.Args[0], append([]string{"serve", "--state", state, "--bandwidth", "10kB/s", "--listen", "127.0.0.1:0"}, args...)...), messages: &bytes.Buffer{}, read: make(chan struct{})}
	s.Env = append(os.Environ(), asCommand+"=1")
	s.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := s.StderrPipe()
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Process.Kill() })
	lines := bufio.NewReader(stderr)
	for _, to := range []*string{&s.address, &s.http} {
		if to == &s.http && !strings.Contains(strings.Join(args, " "), "--http") {
			break
		}
		line, err := lines.ReadString('\n')
		address, found := strings.CutPrefix(strings.TrimSpace(line), "serving at ")
		if !found {
			t.Fatalf("%q, %v", line, err)
		}
		*to = address
	}
	go func() {
		_, _ = io.Copy(s.messages, lines) // until the process ends
		close(s.read)
	}()
	return s
}

// end ends a service and returns its error and its messages.
func (s *service) end(with os.Signal) (string, error) {
	_ = s.Process.Signal(with) // Wait says if it has ended by itself
	<-s.read
	return s.messages.String(), s.Wait()
}

// TestKill kills the service 50 times with SIGKILL while jobs arrive. Each acknowledged job must be
// counted exactly once.
func TestKill(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	random := rand.New(rand.NewPCG(1, 2))
	acknowledged, sent := map[int]bool{}, 0
	for range 50 {
		s := serve(t, state)
		var group sync.WaitGroup
		var mu sync.Mutex
		before := len(acknowledged)
		for range 3 {
			group.Go(func() {
				conn, err := net.Dial("tcp", s.address)
				if err != nil {
					return
				}
				defer conn.Close()
				buffer := make([]byte, 1024)
				for {
					mu.Lock()
					sent++
					id := sent
					mu.Unlock()
					_, _ = io.WriteString(conn, request(id)) // Read returns an error if the service was killed
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					if !bytes.Contains(buffer[:n], []byte(`"status":"ACK"`)) {
						t.Errorf("%s", buffer[:n])
						return
					}
					mu.Lock()
					acknowledged[id] = true
					mu.Unlock()
				}
			})
		}
		for known, tries := -1, 0; known <= before && tries < 500; time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond) {
			mu.Lock()
			known, tries = len(acknowledged), tries+1
			mu.Unlock()
		}
		_, _ = s.end(syscall.SIGKILL)
		group.Wait()
	}
	log, saved, records, err := wal.OpenState(state, "io")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	config := ioservice.DefaultConfig()
	config.Bandwidth = 1
	again, err := ioservice.New(config, nil, nil, saved, records)
	if err != nil {
		t.Fatal(err)
	}
	before := again.Status(0).Accepted
	for id := range acknowledged {
		again.Handle(hpc.Unix(1), []byte(request(id)))
	}
	if lost := again.Status(0).Accepted - before; lost != 0 || len(acknowledged) < 50 {
		t.Errorf("%d of %d acknowledged jobs are lost", lost, len(acknowledged))
	}
	if before > uint64(sent) {
		t.Errorf("%d jobs are known, and %d were sent", before, sent)
	}
	t.Logf("%d jobs acknowledged, %d known, %d sent", len(acknowledged), before, sent)
}

func request(id int) string {
	return fmt.Sprintf(`{"type":"process_job","job_id":"%d","variety_id":"c","job_start":"1699999000","job_end":"1699999900","job_nodes":"n1","req_id":"%d"}`, id, id)
}

// TestServe: LDMS counters and the epilog's request become licenses in the class table, over TCP
// and HTTP. A restarted service continues with its state.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	csv, table, state := filepath.Join(dir, "lustre.1"), filepath.Join(dir, "classes"), filepath.Join(dir, "state")
	text := "#Time,ProducerName,component_id,job_id,read_bytes.sum,write_bytes.sum\n"
	begin := time.Now().Unix() - 100
	for i := range 7 {
		text += fmt.Sprintf("%d.0,n1,1,12,0,%d\n", begin+int64(10*i), 10_000*i) // 1 kB/s for 60 s
	}
	if err := os.WriteFile(csv, []byte(text+"broken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, state, "--source", "ldms:"+filepath.Join(dir, "lustre.*"), "--class-table", table, "--http", "127.0.0.1:0", "--delay", "1s")
	var epilog string
	for _, f := range site.Files {
		if f.Name == "epilog.sh" {
			epilog = filepath.Join(dir, f.Name)
			if err := os.WriteFile(epilog, []byte(f.Text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	script := exec.Command(epilog)
	script.Env = append(os.Environ(), "RMREPLAY_IO="+s.address, "SLURM_JOB_ID=12", "SLURM_JOB_COMMENT=jobtype=ior_w;of mine", "SLURM_JOB_NODELIST=n1",
		fmt.Sprintf("SLURM_JOB_START_TIME=%d", begin), fmt.Sprintf("SLURM_JOB_END_TIME=%d", begin+59))
	if out, err := script.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("epilog: %v: %s", err, out)
	}
	got := ""
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) && got == ""; time.Sleep(50 * time.Millisecond) {
		file, _ := os.ReadFile(table) // the service writes it later
		got = string(file)
	}
	if got != "ior_w 1000 1\n" {
		t.Errorf("class table: %q", got)
	}
	for _, message := range []string{"1 columns (want 6", ""} {
		response, err := http.Get("http://" + s.http + "/v1/classes")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		var answer struct{ Classes []ioservice.Forecast }
		if err != nil || json.Unmarshal(body, &answer) != nil || len(answer.Classes) != 1 || answer.Classes[0].Licenses != 1000 || answer.Classes[0].Seconds.Mean != 60 {
			t.Errorf("%v: %s", err, body)
		}
		messages, err := s.end(syscall.SIGTERM)
		if err != nil || !strings.Contains(messages, message) {
			t.Errorf("%v: %s", err, messages)
		}
		s = serve(t, state, "--http", "127.0.0.1:0")
	}
}

func TestLearn(t *testing.T) {
	dir := t.TempDir()
	file, state := filepath.Join(dir, "march.txt"), filepath.Join(dir, "state")
	text := "JobID|Start|End|Comment|TRESUsageInTot|TRESUsageOutTot\n" +
		"7|2024-03-05T12:00:00|2024-03-05T12:01:40|jobtype=ior;||\n7.0|||||fs/disk=50000\n7.1||||fs/disk=50000|\n" +
		"8|2024-03-05T12:00:00|2024-03-05T12:01:40|jobtype=ior;||\n9|2024-03-05T12:00:00|2024-03-05T12:01:40|||\n10|Unknown|Unknown||||\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"learned_jobs":1,"known_jobs":0,"jobs_without_class":1,"jobs_without_data":1,"jobs_not_ended":1,"classes":1}`,
		`{"learned_jobs":0,"known_jobs":1,"jobs_without_class":1,"jobs_without_data":1,"jobs_not_ended":1,"classes":1}`,
	} {
		if got, messages, err := answer(t, "learn", file, "--state", state, "--json"); err != nil || got != want {
			t.Errorf("%v: %s%s, want %s", err, got, messages, want)
		}
	}
}

// answer runs a command and returns its JSON without spaces, and its messages.
func answer(t *testing.T, args ...string) (printed, messages string, err error) {
	t.Helper()
	var out, said, compact bytes.Buffer
	err = execute(t.Context(), &out, &said, args...)
	if err == nil && json.Compact(&compact, out.Bytes()) != nil {
		t.Errorf("%q: not JSON: %s", args, out.String())
	}
	return strings.TrimSpace(compact.String()), said.String(), err
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	public := filepath.Join(dir, "public")
	if err := os.Mkdir(public, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(public, 0o755); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--state", state}, `required flag(s) "bandwidth" not set`},
		{[]string{"serve", "--state", state, "--bandwidth", "0"}, "not a rate"},
		{[]string{"serve", "--state", state, "--bandwidth", "10 apples"}, "not a rate"},
		{[]string{"serve", "--state", state, "--bandwidth", "1GB/s", "--source", "nfs:x"}, "want KIND:FILES with a kind of ldms, jobstats, collectl, darshan, sacct"},
		{[]string{"serve", "--state", state, "--bandwidth", "1GB/s", "--source", "ldms:["}, "syntax error in pattern"},
		{[]string{"serve", "--state", state, "--bandwidth", "1GB/s", "--connections", "0"}, "want 1 or more"},
		{[]string{"serve", "--state", state, "--bandwidth", "1GB/s", "--decay", "1"}, "decay: 1 (want 0 or more, and below 1)"},
		{[]string{"serve", "--state", state, "--bandwidth", "1GB/s", "--listen", "nowhere"}, "missing port"},
		{[]string{"serve", "--state", public, "--bandwidth", "1GB/s"}, "want 0700"},
		{[]string{"learn", filepath.Join(dir, "none"), "--state", state}, "no such file"},
		{[]string{"schedule"}, `required flag(s) "partition" not set`},
		{[]string{"schedule", "--partition", "batch", "--strategy", "best"}, "want baseline, aware or two-group"},
		{[]string{"schedule", "--partition", "batch", "--interval", "1ms"}, "want at least 1s"},
		{[]string{"schedule", "--partition", "batch"}, "scontrol"}, // there is no cluster to change
		{[]string{"release", "--partition", "batch"}, "squeue"},
		{[]string{"script", "epilog"}, "want job_submit.lua or hold.lua or epilog.sh"},
	} {
		var out bytes.Buffer
		if err := execute(t.Context(), &out, &out, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %s", test.args, err, test.want)
		}
	}
}
