// Package kafka takes the documents of Slurm's jobcomp/kafka plugin from a topic.
//
// The plugin (src/plugins/jobcomp/kafka, since 23.02) sends each finished job as a message with the
// same document as jobcomp/elasticsearch. A message's offset is committed only when its document is
// durable. So a message can come twice after a crash; the store recognizes its job.
package kafka

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options configures [New].
type Options struct {
	// From is BROKER,BROKER.../TOPIC, where a broker is HOST or HOST:PORT.
	From string
	// Config is a file of librdkafka's properties that say how brokers are reached: security.protocol,
	// sasl.* and ssl.*. Empty means without TLS and credentials.
	Config string
	// Group is the name of the consumer group, whose offsets the brokers keep.
	Group string
	// Instance names the only reader of a group (group.instance.id). When it starts again, also after
	// a crash, the brokers give it the topic at once. Without it they first wait until the reader that
	// crashed has been silent for 45 s. It is empty if the group has several readers.
	Instance string
	// Accept makes documents durable. On error nothing is stored, and the reader tries again.
	Accept func(topic string, documents [][]byte) error
	// Report is told of errors that the reader overcomes by itself, such as a broker that is away. An error
	// is reported once until what failed has succeeded. Report may be called from several goroutines.
	Report func(err error)
}

// Reader reads a topic.
type Reader struct {
	opts   Options
	topic  string
	client *kgo.Client
	faults *faults
}

const (
	defaultPort = "9092"
	mostRecords = 5000             // in a batch
	pause       = time.Second      // between attempts
	longPause   = 30 * time.Second // the longest one
	endTime     = 5 * time.Second  // for the last commit, and for leaving the group
)

// A topic's name is neither "." nor "..", and has at most mostName of the nameCharacters (Kafka's
// org.apache.kafka.common.internals.Topic).
const (
	mostName       = 249
	nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

// ParseFrom returns the brokers and the topic of BROKER,BROKER.../TOPIC.
func ParseFrom(from string) (brokers []string, topic string, err error) {
	fail := func(why string) ([]string, string, error) {
		return nil, "", fmt.Errorf("--kafka %s: %s (want BROKER,BROKER.../TOPIC)", from, why)
	}
	list, topic, found := strings.Cut(from, "/")
	if !found || topic == "" || strings.Contains(topic, "/") {
		return fail("no topic behind the brokers")
	}
	if len(topic) > mostName || strings.Trim(topic, nameCharacters) != "" || topic == "." || topic == ".." {
		return fail(fmt.Sprintf("%q is not the name of a topic", topic))
	}
	for _, broker := range strings.Split(list, ",") {
		host, port, err := net.SplitHostPort(broker)
		if err != nil {
			host, port = strings.Trim(broker, "[]"), defaultPort
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" || strings.ContainsAny(host, " []") {
			return fail(fmt.Sprintf("%q is not a broker", broker))
		}
		brokers = append(brokers, net.JoinHostPort(host, port))
	}
	return brokers, topic, nil
}

// New returns a reader. It connects to no broker yet.
func New(opts Options) (*Reader, error) {
	brokers, topic, err := ParseFrom(opts.From)
	if err != nil {
		return nil, err
	}
	reached, err := security(opts.Config)
	if err != nil {
		return nil, err
	}
	now := &faults{topic: topic, report: opts.Report, now: map[string]bool{}}
	if opts.Instance != "" {
		reached = append(reached, kgo.InstanceID(opts.Instance))
	}
	client, err := kgo.NewClient(append(reached,
		kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(opts.Group), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), // another reader of the group starts behind what this one has committed
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("rmreplay"), kgo.FetchMaxWait(time.Second),
		kgo.WithHooks(now),
	)...)
	if err != nil {
		return nil, fmt.Errorf("reading from Kafka: %w", err)
	}
	return &Reader{opts: opts, topic: topic, client: client, faults: now}, nil
}

// Run reads until ctx ends. It tries again after every error of a broker.
func (r *Reader) Run(ctx context.Context) {
	defer r.close(ctx)
	r.find(ctx)
	for ctx.Err() == nil {
		fetches := r.client.PollRecords(ctx, mostRecords)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		records, err := fetches.Records(), fetches.Err()
		r.faults.note("fetching messages", err)
		if len(records) > 0 && r.accept(ctx, records) {
			r.commit(ctx, records)
		} else if err != nil {
			sleep(ctx, pause)
		}
		r.client.AllowRebalance()
	}
}

// find waits until the topic exists, and reports if it does not: the client itself would wait silently.
func (r *Reader) find(ctx context.Context) {
	request, topic := kmsg.NewMetadataRequest(), kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(r.topic)
	request.Topics = append(request.Topics, topic)
	for {
		answer, err := request.RequestWith(ctx, r.client)
		if err == nil && len(answer.Topics) == 1 { // otherwise no broker is there, which has been reported
			err = kerr.ErrorForCode(answer.Topics[0].ErrorCode)
			r.faults.note("looking for the topic", err)
			if err == nil {
				r.client.ForceMetadataRefresh()
				return
			}
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// accept hands documents over until they are durable, or ctx ends.
func (r *Reader) accept(ctx context.Context, records []*kgo.Record) bool {
	var documents [][]byte
	for _, record := range records {
		if len(record.Value) > 0 { // an empty message, of a topic that is compacted, removes a key
			documents = append(documents, record.Value)
		}
	}
	if len(documents) == 0 {
		return true
	}
	for wait := pause; ; wait = min(2*wait, longPause) {
		err := r.opts.Accept(r.topic, documents)
		r.faults.note("keeping documents", err)
		if err == nil {
			return true
		}
		if !sleep(ctx, wait) {
			return false
		}
	}
}

// commit tells the brokers how far the reader is. If that fails, the same messages come again after a
// restart, and their jobs are known then.
func (r *Reader) commit(ctx context.Context, records []*kgo.Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	r.faults.note("committing offsets", r.client.CommitRecords(ctx, records...))
}

// close leaves the group, so that another reader need not wait until the brokers miss this one.
func (r *Reader) close(ctx context.Context) {
	r.faults.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	r.client.AllowRebalance()
	_ = r.client.LeaveGroupContext(ctx) // brokers that are away notice by themselves
	r.client.CloseAllowingRebalance()
}

// faults is what fails at present. As a hook of the client it learns of brokers that are away, which the
// client otherwise hides.
type faults struct {
	topic  string
	report func(err error)

	mu  sync.Mutex
	now map[string]bool // what has failed and was reported; nil at the end
}

var _ kgo.HookBrokerConnect = (*faults)(nil)

// OnBrokerConnect takes the outcome of an attempt to connect.
func (f *faults) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	f.note("connecting to the broker "+net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port))), err)
}

// note takes the outcome of an attempt, and reports the first of several failures.
func (f *faults) note(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.now == nil:
	case err == nil:
		delete(f.now, what)
	case !f.now[what]:
		f.now[what] = true
		f.report(fmt.Errorf("reading %s from Kafka: %s: %w (it is tried again until it succeeds)", f.topic, what, err))
	}
}

// end ends reports: what fails when the client closes is no fault.
func (f *faults) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = nil
}

// sleep reports whether it has slept to the end, without an end of ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
