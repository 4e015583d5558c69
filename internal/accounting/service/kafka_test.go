package service_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/accounting/store/storetest"
)

// TestKafka reads documents from a topic, including an invalid one and repeated ones, while the
// server is stopped and restarted. A server that reads the topic again from its beginning, as after
// restoring a backup, must add no row.
func TestKafka(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(3, "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("jobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	produce := func(documents ...[]byte) {
		t.Helper()
		for _, document := range documents {
			if err := producer.ProduceSync(t.Context(), &kgo.Record{Value: document}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	jobs := func(first, last int64) (documents [][]byte) {
		for n := first; n <= last; n++ {
			documents = append(documents, storetest.Entry(n).Document)
		}
		return documents
	}
	dir, svc := filepath.Join(t.TempDir(), "data"), service.New()
	// serve runs the server until it has received the given number of documents in total, and
	// returns its messages.
	serve := func(received int64) string {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		var mu sync.Mutex
		var said strings.Builder
		ended := make(chan error, 1)
		address := freeAddress(t)
		opts := service.Serve{Data: dir, Listen: []string{address}, Kafka: strings.Join(cluster.ListenAddrs(), ",") + "/jobs"}
		go func() {
			ended <- svc.Serve(ctx, opts, func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintf(&said, format+"\n", args...)
			})
		}()
		defer cancel()
		for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			if conn, err := net.Dial("tcp", address); err == nil { // before that, Info would open the directory itself
				conn.Close()
				if info, err := svc.Info(ctx, dir); err == nil && info.Received >= received {
					break
				}
			}
			if time.Since(start) > 2*time.Minute {
				mu.Lock()
				t.Fatalf("%d documents do not come: %s", received, said.String())
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return said.String()
	}
	check := func(said, want string) {
		t.Helper()
		if !strings.Contains(said, want) {
			t.Errorf("%s\nwant %s", said, want)
		}
	}

	produce(jobs(1, 40)...)
	produce(jobs(1, 5)...)
	produce([]byte("\xff no job"))
	check(serve(46), "received 46 documents: 41 jobs new, 5 already there")
	produce(jobs(41, 60)...) // while the server is stopped
	check(serve(66), "received 20 documents: 20 jobs new, 0 already there")
	if err := os.Remove(filepath.Join(dir, "kafka-group")); err != nil {
		t.Fatal(err)
	}
	check(serve(66+66), "received 66 documents: 0 jobs new, 66 already there")

	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var kept []string
	garbage := ""
	v := s.View()
	defer v.Close()
	err = v.Each(t.Context(), store.Filter{}, func(d *store.Stored) error {
		if string(d.Document) == "\xff no job" {
			garbage += "a document of " + d.Cluster
			return nil
		}
		kept = append(kept, string(d.Document))
		if d.Source != store.Kafka || d.Cluster != "vale" {
			t.Errorf("source %s, cluster %q: %s", d.Source, d.Cluster, d.Document)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{}
	for _, document := range jobs(1, 60) {
		want = append(want, string(document))
	}
	slices.Sort(kept)
	slices.Sort(want)
	if !slices.Equal(kept, want) || garbage != "a document of jobs" {
		t.Errorf("%d jobs, and %q", len(kept), garbage)
	}
}
