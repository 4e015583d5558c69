package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"rmreplay/internal/accounting/kafka"
)

const topic = "jobs"

func cluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, topic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func produce(t *testing.T, c *kfake.Cluster, values ...string) {
	t.Helper()
	produceTo(t, c.ListenAddrs(), values)
}

func produceTo(t *testing.T, brokers, values []string, opts ...kgo.Opt) {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation())...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, v := range values {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// receiver keeps the documents that a reader passes on.
type receiver struct {
	mu       sync.Mutex
	got      []string
	reported []string
	refuse   error
}

func (r *receiver) accept(_ string, documents [][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return r.refuse
	}
	for _, d := range documents {
		r.got = append(r.got, string(d))
	}
	return nil
}

func (r *receiver) read(t *testing.T, from string) (stop func()) {
	t.Helper()
	return r.readAs(t, from, "")
}

// readAs starts a reader with a file of properties.
func (r *receiver) readAs(t *testing.T, from, config string) (stop func()) {
	t.Helper()
	reader, err := kafka.New(kafka.Options{From: from, Config: config, Group: "rmreplay", Accept: r.accept, Report: func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reported = append(r.reported, err.Error())
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); reader.Run(ctx) }()
	return func() { cancel(); <-done }
}

func (r *receiver) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 1200 {
		r.mu.Lock()
		ok := holds()
		r.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Fatalf("waiting for %s: %d documents, %q", what, len(r.got), r.reported)
}

// TestOffsets reads a topic, stops and continues: no document is read twice, and refused documents
// are passed on again until they are accepted.
func TestOffsets(t *testing.T) {
	c := cluster(t)
	from := strings.Join(c.ListenAddrs(), ",") + "/" + topic
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf(`{"jobid":%d}`, i))
	}
	r := new(receiver)
	stop := r.read(t, from)
	produce(t, c, want[:60]...)
	produce(t, c, "") // a message without a value
	r.until(t, "60 documents", func() bool { return len(r.got) == 60 })
	stop()

	r.refuse = errors.New("no space left on device")
	produce(t, c, want[60:]...)
	stop = r.read(t, from)
	r.until(t, "a report", func() bool { return len(r.reported) > 0 })
	stop() // refused documents are not committed
	if len(r.got) != 60 || !strings.Contains(r.reported[0], "reading jobs from Kafka: keeping documents: no space left on device") {
		t.Errorf("%d documents, %q", len(r.got), r.reported)
	}

	r.refuse = nil
	stop = r.read(t, from)
	r.until(t, "100 documents", func() bool { return len(r.got) == 100 })
	stop()
	slices.Sort(r.got)
	slices.Sort(want)
	if !slices.Equal(r.got, want) {
		t.Errorf("%q", r.got)
	}
}

// gate is a listener that closes each connection while it is shut.
type gate struct {
	net.Listener
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func (g *gate) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns = append(g.conns, conn); g.shut {
		_ = conn.Close()
	}
	return conn, nil
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	for _, conn := range g.conns {
		_ = conn.Close()
	}
	g.conns = nil
}

// TestAway starts a reader while no broker is up, and then starts, stops and restarts the broker.
// Each failure is reported once. A reader can also end while its broker is down.
func TestAway(t *testing.T) {
	first := cluster(t)
	address := first.ListenAddrs()[0]
	first.Close()
	r := new(receiver)
	stop := r.read(t, address+"/"+topic)
	r.until(t, "a report", func() bool { return len(r.reported) > 0 })
	if want := "reading jobs from Kafka: connecting to the broker " + address + ": "; !strings.HasPrefix(r.reported[0], want) {
		t.Errorf("%q, want %q", r.reported, want)
	}
	var port int
	if _, err := fmt.Sscanf(address[strings.LastIndexByte(address, ':'):], ":%d", &port); err != nil {
		t.Fatal(err)
	}
	var door *gate
	c := cluster(t, kfake.Ports(port), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		listener, err := net.Listen(network, address)
		door = &gate{Listener: listener}
		return door, err
	}))
	produce(t, c, "one")
	r.until(t, "one document", func() bool { return len(r.got) == 1 })
	before := len(r.reported)
	if before != 1 {
		t.Errorf("%q", r.reported)
	}

	door.set(true)
	r.until(t, "another report", func() bool { return len(r.reported) > before })
	door.set(false)
	produce(t, c, "two")
	r.until(t, "two documents", func() bool { return len(r.got) == 2 })

	door.set(true)
	before = len(r.reported)
	r.until(t, "a third report", func() bool { return len(r.reported) > before })
	stop()
	if !slices.Equal(r.got, []string{"one", "two"}) {
		t.Errorf("%q", r.got)
	}
}

// TestTopic reads a topic that is created later.
func TestTopic(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := new(receiver)
	defer r.read(t, strings.Join(c.ListenAddrs(), ",")+"/"+topic)()
	r.until(t, "a report", func() bool { return len(r.reported) > 0 })
	produce(t, c, "one")
	r.until(t, "one document", func() bool { return len(r.got) == 1 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reported) != 1 || !strings.Contains(r.reported[0], "reading jobs from Kafka: looking for the topic: UNKNOWN_TOPIC_OR_PARTITION") {
		t.Errorf("%q", r.reported)
	}
}

func TestParseFrom(t *testing.T) {
	for from, want := range map[string]string{
		"a/jobs":                  "[a:9092] jobs",
		"a,b:9093/slurm-jobs":     "[a:9092 b:9093] slurm-jobs",
		"[2001:db8::1]:9092/jobs": "[[2001:db8::1]:9092] jobs",
		"[::1]/jobs":              "[[::1]:9092] jobs",
	} {
		brokers, topic, err := kafka.ParseFrom(from)
		if got := fmt.Sprint(brokers, " ", topic); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", from, got, err, want)
		}
	}
	for _, from := range []string{"", "a", "a/", "/jobs", "a,/jobs", "a/b/c", ":9092/jobs", "a b/jobs", "a/job topic", "a/..", "a:x/jobs", "a/" + strings.Repeat("x", 250)} {
		if _, _, err := kafka.ParseFrom(from); err == nil || !strings.Contains(err.Error(), "want BROKER") {
			t.Errorf("%q: %v", from, err)
		}
	}
	if _, err := kafka.New(kafka.Options{From: "nothing"}); err == nil {
		t.Error("no error")
	}
}

func FuzzParseFrom(f *testing.F) {
	f.Add("a,b:9093/jobs")
	f.Add("[::1]:1/x")
	f.Fuzz(func(t *testing.T, from string) {
		brokers, topic, err := kafka.ParseFrom(from)
		if err == nil && (len(brokers) == 0 || topic == "" || strings.Contains(topic, "/") || slices.Contains(brokers, "")) {
			t.Errorf("%q: %q %q", from, brokers, topic)
		}
	})
}
