package service_test

import (
	"context"
	"fmt"
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
	"rmreplay/internal/rm/slurm/rpc/rpctest"
	"rmreplay/internal/slurmspec"
)

// TestKafkaKilled sends documents to a broker of Apache Kafka from which a server reads, and kills
// server and broker in turn. In the end the server must have each job once, and it must have
// continued reading soon after each crash. With RMREPLAY_LONG_TESTS it sends a million documents
// and kills 100 times.
func TestKafkaKilled(t *testing.T) {
	t.Parallel()
	broker := servertest.NewKafka(t, servertest.KafkaOptions{})
	documents, kills := int64(3000), 2
	if n := longKills(t); n > 0 {
		documents, kills = documentsAKill*int64(n), n
	}
	from := kafkaVariable + "=" + broker.Address + "/slurm"
	dir, address := filepath.Join(t.TempDir(), "data"), freeAddress(t)
	s := start(t, dir, address, from)
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.Address), kgo.DefaultProduceTopic("slurm"), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	n, begin := int64(0), time.Now()
	stored := func() int64 {
		info, err := service.New().Info(t.Context(), dir)
		if err != nil { // the server is still starting
			return 0
		}
		return info.Jobs
	}
	produce := func() {
		n++
		producer.Produce(t.Context(), &kgo.Record{Value: storetest.Entry(n).Document}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	soonest := time.Hour
	for k := range kills + 1 {
		untilAll(t, n, stored, &s.log) // otherwise the kills could come before the server reads anything
		for n < documents*int64(k+1)/int64(kills+1) {
			produce()
		}
		if k == kills {
			break
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		if k%2 == 0 {
			s.end(syscall.SIGKILL)
			s = start(t, dir, address, from)
			produce()
			again := time.Now()
			untilAll(t, n, stored, &s.log)
			soonest = min(soonest, time.Since(again))
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
	untilAll(t, documents, stored, &s.log)
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v: %s", err, s.log.String())
	}
	info, err := service.New().Info(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	waitApplied(t, dir, info.Received)
	if soonest > 40*time.Second {
		t.Errorf("after a crash the server reads again after %v: did it wait until the broker gave its reader up, after 45 s?", soonest)
	}
	checkJobs(t, dir, documents, synthetic)
	logRow(t, "`--kafka`", "Apache Kafka "+broker.Version(), documents, kills, begin)
}

// TestKafkaPlugin runs short jobs on stock daemons, whose stock plugin sends them to Apache Kafka,
// from which the server reads. The broker is down while some jobs end. All jobs must arrive, and
// agree with sacct.
func TestKafkaPlugin(t *testing.T) {
	t.Parallel() // it waits most of the time
	rpctest.Each(t, slurmspec.R2411, []string{"slurmd", "slurmdbd", "sbatch", "sacct", "sacctmgr", "sinfo", "squeue"}, func(t *testing.T, slurm *rpctest.Slurm) {
		if slurm.Release.Since(slurmspec.R2605) {
			needLong(t)
		}
		broker := servertest.NewKafka(t, servertest.KafkaOptions{})
		properties := filepath.Join(t.TempDir(), "kafka.conf")
		if err := os.WriteFile(properties, []byte("bootstrap.servers="+broker.Address+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newSite(t, slurm, "jobcomp_kafka", "JobCompType=jobcomp/kafka\nJobCompLoc="+properties+"\nJobCompParams=topic=test,requeue_on_msg_timeout")
		data := filepath.Join(t.TempDir(), "data")
		server := start(t, data, freeAddress(t), kafkaVariable+"="+broker.Address+"/test")
		ctx, svc := context.Background(), service.New()
		arrived := func(jobs int64) {
			t.Helper()
			s.until(fmt.Sprintf("%d jobs", jobs), func() bool {
				info, err := svc.Info(ctx, data)
				return err == nil && info.Jobs == jobs
			})
		}
		s.startController()
		s.submit(6, "-J", "plain")
		s.submit(3, "-J", "name \"quoted\" ü", "-N", "1", "-n", "3", "--comment=c")
		s.submit(1, "-J", "array", "--array=1-4")
		arrived(13)
		broker.Kill()
		s.submit(4, "-J", "away")
		broker.Start()
		s.submit(2, "-J", "after")
		arrived(19)
		r, err := svc.Reconcile(ctx, data, service.Records{Sources: []string{s.sacct(19)}, From: "sacct"}, false)
		if err != nil {
			t.Fatal(err)
		}
		if r.Records != 19 || r.Equal != 19 || len(r.Missing)+len(r.Differing)+r.Unknown > 0 {
			t.Errorf("%+v", r)
		}
		if err := server.end(syscall.SIGTERM); err != nil {
			t.Errorf("%v: %s", err, server.log.String())
		}
	})
}
