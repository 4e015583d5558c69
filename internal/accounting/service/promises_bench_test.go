package service_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkFresh sends 20,000 documents a second, or as many as the server takes, for ten seconds each round, and asks
// panels meanwhile. It measures how long after its acknowledgement a document is in an answer, and the rate.
func BenchmarkFresh(b *testing.B) {
	const rate, each, seconds = 20_000, 1000, 10
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	var ages []time.Duration
	sent, took := int64(0), time.Duration(0)
	for range b.N {
		s := serveFilled(b, 1000)
		f, done, begin := freshness{}, make(chan bool), time.Now()
		go func() {
			defer close(done)
			for n := int64(1001); n <= 1000+rate*seconds && time.Since(begin) < 6*seconds*time.Second; n += each {
				time.Sleep(time.Until(begin.Add(time.Duration(n-1001) * time.Second / rate)))
				send(b, client, s.address, n, n+each-1)
				f.acknowledge(n + each - 1)
				sent += each
			}
			took += time.Since(begin)
		}()
		for ended := false; !ended && !b.Failed(); {
			select {
			case <-done:
				ended = f.by(time.Now()) == 0 // all of them were in an answer
			default:
			}
			ages = append(ages, f.age(jobsOf(b, client, s.address, true), time.Now())...)
		}
		<-done
		if err := s.end(syscall.SIGTERM); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(ages)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(sent)/took.Seconds(), "documents/s")
	b.ReportMetric(ages[len(ages)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(ages[len(ages)*99/100].Seconds()*1000, "p99-ms")
}

// BenchmarkMemory asks hostile questions of a store of 500,000 jobs for ten seconds each round, while documents come.
// It measures the most that the server and its engines have held: the sum of what the kernel says of all
// processes that were there together (VmHWM). More than a GiB is an error.
func BenchmarkMemory(b *testing.B) {
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	most, own, answered := 0, 0, int64(0)
	for range b.N {
		s := serveFilled(b, 500_000)
		count, end := readers(s.address, 10)
		for n, begin := int64(500_001), time.Now(); time.Since(begin) < 10*time.Second; n += 200 {
			send(b, client, s.address, n, n+199)
			server := peak(s.command.Process.Pid)
			all := server
			for _, pid := range s.engines() {
				all += peak(pid)
			}
			most, own = max(most, all), max(own, server)
			time.Sleep(50 * time.Millisecond)
		}
		end()
		answered += count.Load()
		if err := s.end(syscall.SIGTERM); err != nil {
			b.Fatal(err)
		}
	}
	if most > 1<<20 || answered == 0 {
		b.Errorf("%d MiB, %d answers", most>>10, answered)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(most)/1024, "all-MiB")
	b.ReportMetric(float64(own)/1024, "server-MiB")
	b.ReportMetric(float64(answered)/float64(b.N)/10, "answers/s")
}

// peak returns the most memory that a process has held, in KiB; 0 if it has ended.
func peak(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // as above
	if _, after, ok := strings.Cut(string(text), "VmHWM:"); ok {
		_, _ = fmt.Sscan(after, &kib)
	}
	return kib
}
