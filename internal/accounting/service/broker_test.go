package service_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"rmreplay/internal/accounting/servertest"
	"rmreplay/internal/accounting/service"
	"rmreplay/internal/accounting/store/storetest"
)

// TestKafkaKilled kills the server and the broker of Apache Kafka that it reads from, in turn, while documents are sent
// to the broker. In the end the server has each job once. With RMREPLAY_LONG_TESTS these are a million documents and 100
// kills.
func TestKafkaKilled(t *testing.T) {
	broker := servertest.NewKafka(t, servertest.KafkaOptions{})
	documents, kills := int64(3000), 4
	if os.Getenv("RMREPLAY_LONG_TESTS") != "" {
		documents, kills = 1_000_000, 100
	}
	t.Setenv(kafkaVariable, broker.Address+"/slurm")
	dir, address := filepath.Join(t.TempDir(), "data"), freeAddress(t)
	s := start(t, dir, address)
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.Address), kgo.DefaultProduceTopic("slurm"), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	n, begin := int64(0), time.Now()
	for k := range kills + 1 {
		for ; n < documents*int64(k+1)/int64(kills+1); n++ {
			producer.Produce(t.Context(), &kgo.Record{Value: storetest.Entry(n + 1).Document}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if k == kills {
			break
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		if k%2 == 0 {
			s.end(syscall.SIGKILL)
			s = start(t, dir, address)
		} else {
			broker.Kill()
			broker.Start()
		}
		if k%10 == 9 {
			t.Logf("%v: %d killings, %d documents sent", time.Since(begin).Round(time.Second), k+1, n)
		}
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	untilAll(t, documents, func() int64 {
		info, err := service.New().Info(t.Context(), dir)
		if err != nil { // the server starts
			return 0
		}
		return info.Jobs
	}, &s.log)
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v: %s", err, s.log.String())
	}
	checkJobs(t, dir, documents, synthetic)
	logRow(t, "`--kafka`", "Apache Kafka "+broker.Version(), documents, kills, begin)
}
