package servertest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Kafka is a broker of Apache Kafka that is also its own controller.
type Kafka struct {
	*Process
	Address string // HOST:PORT for clients
}

// KafkaOptions says how clients connect to a broker.
type KafkaOptions struct {
	// Protocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; empty means PLAINTEXT.
	Protocol string
	// Properties has additional lines for server.properties.
	Properties string
	// Format has additional options for kafka-storage.sh format, which create users for SCRAM.
	Format []string
}

// NewKafka starts a broker.
func NewKafka(t testing.TB, opts KafkaOptions) *Kafka {
	t.Helper()
	k := &Kafka{Process: newProcess(t, "kafka")}
	port, controller, inner := freePort(t), freePort(t), freePort(t)
	k.Address = fmt.Sprintf("127.0.0.1:%d", port)
	if opts.Protocol == "" {
		opts.Protocol = "PLAINTEXT"
	}
	properties := filepath.Join(k.dir, "server.properties")
	err := os.WriteFile(properties, fmt.Appendf(nil, `process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listeners=CLIENT://%[1]s,CONTROLLER://127.0.0.1:%[2]d,INNER://127.0.0.1:%[6]d
advertised.listeners=CLIENT://%[1]s,INNER://127.0.0.1:%[6]d
inter.broker.listener.name=INNER
listener.security.protocol.map=CLIENT:%[3]s,CONTROLLER:PLAINTEXT,INNER:PLAINTEXT
log.dirs=%[4]s/data
num.partitions=3
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
%[5]s
`, k.Address, controller, opts.Protocol, k.dir, opts.Properties, inner), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	k.args = func() []string { return append([]string{properties}, opts.Format...) }
	k.ready = func() error {
		conn, err := net.DialTimeout("tcp", k.Address, time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	k.Start()
	return k
}

// Version returns the version of the broker's programs.
func (k *Kafka) Version() string {
	k.t.Helper()
	pattern := filepath.Join(k.root(), "lib", "kafka-server-[0-9]*.jar")
	jars, err := filepath.Glob(pattern)
	if err != nil || len(jars) != 1 {
		k.t.Fatalf("%s: %q, %v (want one file)", pattern, jars, err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "kafka-server-"), ".jar")
}
