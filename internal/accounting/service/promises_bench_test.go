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

// BenchmarkFresh sends 20,000 documents a second, or as many as the server accepts, for ten seconds
// per round, and requests panels meanwhile. It measures the time from a document's acknowledgement
// to the first answer with the document, and the rate of documents.
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

// BenchmarkMemory sends hostile questions to a store of 500,000 jobs for ten seconds per round,
// while documents arrive. It measures the highest memory of the server and its engines: the sum of
// the kernel's VmHWM over all processes that existed at the same time. More than a GiB is an error.
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

// peak returns the highest memory of a process, in KiB; 0 if the process has ended.
func peak(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // the process may have ended
	if _, after, ok := strings.Cut(string(text), "VmHWM:"); ok {
		_, _ = fmt.Sscan(after, &kib)
	}
	return kib
}
