// Package kafka reads the documents of Slurm's jobcomp/kafka plugin from a topic.
//
// The plugin (src/plugins/jobcomp/kafka, since 23.02) sends each finished job as a message with the
// same document as jobcomp/elasticsearch. A message's offset is committed only after its document
// is durable. After a crash, a message can therefore be read twice; the store recognizes the job.
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
	// Config is a file with librdkafka's properties for connecting to brokers: security.protocol,
	// sasl.* and ssl.*. If it is empty, connections use neither TLS nor credentials.
	Config string
	// Group is the name of the consumer group, whose offsets the brokers store.
	Group string
	// Instance is the name of the group's only reader (group.instance.id). When this reader starts
	// again, even after a crash, the brokers assign the topic to it at once. Without Instance, they
	// wait until the crashed reader has been silent for 45 s. Leave it empty if the group has
	// several readers.
	Instance string
	// Accept makes documents durable. After an error, no document may be stored; the reader then
	// tries again.
	Accept func(topic string, documents [][]byte) error
	// Report is called with errors that the reader recovers from, such as a broker that is down.
	// The same error is reported again only after a success. Report may be called from several
	// goroutines.
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
	maxRecords  = 5000             // maximum number of messages in a batch
	pause       = time.Second      // pause between two attempts
	longPause   = 30 * time.Second // the longest pause
	endTime     = 5 * time.Second  // time limit of the last commit, and of leaving the group
)

// A topic's name has at most maxName of the nameCharacters, and is neither "." nor ".." (Kafka's
// org.apache.kafka.common.internals.Topic).
const (
	maxName        = 249
	nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

// ParseFrom parses BROKER,BROKER.../TOPIC.
func ParseFrom(from string) (brokers []string, topic string, err error) {
	fail := func(why string) ([]string, string, error) {
		return nil, "", fmt.Errorf("--kafka %s: %s (want BROKER,BROKER.../TOPIC)", from, why)
	}
	list, topic, found := strings.Cut(from, "/")
	if !found || topic == "" || strings.Contains(topic, "/") {
		return fail("no topic after the brokers")
	}
	if len(topic) > maxName || strings.Trim(topic, nameCharacters) != "" || topic == "." || topic == ".." {
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

// New returns a reader. It does not connect to a broker yet.
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
		kgo.BlockRebalanceOnPoll(), // another reader of the group starts after what this reader has committed
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("rmreplay"), kgo.FetchMaxWait(time.Second),
		kgo.WithHooks(now),
	)...)
	if err != nil {
		return nil, fmt.Errorf("reading from Kafka: %w", err)
	}
	return &Reader{opts: opts, topic: topic, client: client, faults: now}, nil
}

// Run reads until ctx ends. After each error of a broker it tries again.
func (r *Reader) Run(ctx context.Context) {
	defer r.close(ctx)
	r.find(ctx)
	for ctx.Err() == nil {
		fetches := r.client.PollRecords(ctx, maxRecords)
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

// find waits until the topic exists. It reports a missing topic, because the client would wait
// silently.
func (r *Reader) find(ctx context.Context) {
	request, topic := kmsg.NewMetadataRequest(), kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(r.topic)
	request.Topics = append(request.Topics, topic)
	for {
		answer, err := request.RequestWith(ctx, r.client)
		if err == nil && len(answer.Topics) == 1 { // without an answer, the failure has already been reported
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

// accept passes documents to [Options.Accept] until they are durable, or until ctx ends.
func (r *Reader) accept(ctx context.Context, records []*kgo.Record) bool {
	var documents [][]byte
	for _, record := range records {
		if len(record.Value) > 0 { // in a compacted topic, an empty message deletes a key
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

// commit tells the brokers which messages were read. If this fails, the same messages are read
// again after a restart, and the store recognizes their jobs.
func (r *Reader) commit(ctx context.Context, records []*kgo.Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	r.faults.note("committing offsets", r.client.CommitRecords(ctx, records...))
}

// close leaves the group, so that another reader does not have to wait for a timeout.
func (r *Reader) close(ctx context.Context) {
	r.faults.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	r.client.AllowRebalance()
	_ = r.client.LeaveGroupContext(ctx) // brokers that are down notice the end themselves
	r.client.CloseAllowingRebalance()
}

// faults are the current failures. It is a hook of the client, because the client does not report
// broken connections in another way.
type faults struct {
	topic  string
	report func(err error)

	mu  sync.Mutex
	now map[string]bool // failures that have been reported; nil after end
}

var _ kgo.HookBrokerConnect = (*faults)(nil)

// OnBrokerConnect records the outcome of an attempt to connect.
func (f *faults) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	f.note("connecting to the broker "+net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port))), err)
}

// note records the outcome of an attempt, and reports the first failure after a success.
func (f *faults) note(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.now == nil:
	case err == nil:
		delete(f.now, what)
	case !f.now[what]:
		f.now[what] = true
		f.report(fmt.Errorf("reading %s from Kafka: %s: %w (the server tries again until it succeeds)",
			f.topic, what, err))
	}
}

// end stops the reports. Failures while the client closes do not matter.
func (f *faults) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = nil
}

// sleep waits for d, and returns false if ctx ended before.
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
