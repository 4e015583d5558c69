package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"rmreplay/internal/accounting/servertest"
)

// documents returns documents with the job numbers first to last.
func documents(first, last int) (list []string) {
	for n := first; n <= last; n++ {
		list = append(list, fmt.Sprintf(`{"jobid":%d}`, n))
	}
	return list
}

// count returns how many different documents the receivers have, and how many arrived repeatedly.
func count(receivers ...*receiver) (different, again int) {
	seen := map[string]bool{}
	for _, r := range receivers {
		r.mu.Lock()
		for _, d := range r.got {
			if seen[d] {
				again++
			}
			seen[d] = true
		}
		r.mu.Unlock()
	}
	return len(seen), again
}

// upTo waits until the receivers have the given number of different documents.
func upTo(t *testing.T, want int, receivers ...*receiver) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if different, _ := count(receivers...); different >= want {
			return
		}
		if time.Since(begin) > 2*time.Minute {
			different, again := count(receivers...)
			t.Fatalf("%d documents, %d twice, want %d: %q", different, again, want, receivers[0].reported)
		}
	}
}

// TestBroker reads a topic with three partitions from Apache Kafka with two readers of one group:
// one joins later, and one leaves. Each document arrives exactly once. Then the broker is killed
// and restarted: no document is lost.
func TestBroker(t *testing.T) {
	broker := servertest.NewKafka(t, servertest.KafkaOptions{})
	brokers, from := []string{broker.Address}, broker.Address+"/"+topic
	produceTo(t, brokers, documents(1, 100))
	first, second := new(receiver), new(receiver)
	endFirst := first.read(t, from)
	upTo(t, 100, first)
	endSecond := second.read(t, from)
	n := 100
	for begin := time.Now(); len(second.documents()) == 0; n += 20 { // until the second reader has a partition
		if time.Since(begin) > time.Minute {
			t.Fatalf("the second reader gets no document of %d", n)
		}
		produceTo(t, brokers, documents(n+1, n+20))
		upTo(t, n+20, first, second)
	}
	endFirst()
	produceTo(t, brokers, documents(n+1, n+100))
	n += 100
	upTo(t, n, first, second)
	if different, again := count(first, second); different != n || again != 0 {
		t.Errorf("%d documents, %d twice, want %d", different, again, n)
	}
	if len(first.reported)+len(second.reported) > 0 {
		t.Errorf("%q %q", first.reported, second.reported)
	}

	broker.Kill()
	second.until(t, "a report", func() bool { return len(second.reported) > 0 })
	broker.Start()
	produceTo(t, brokers, documents(n+1, n+100))
	upTo(t, n+100, first, second)
	endSecond()
	third := new(receiver) // starts after what the second reader has committed
	endThird := third.read(t, from)
	produceTo(t, brokers, documents(n+101, n+110))
	upTo(t, n+110, first, second, third)
	endThird()
	if len(third.documents()) != 10 {
		t.Errorf("%d documents after a restart, want 10", len(third.documents()))
	}
}

// documents returns the documents that arrived.
func (r *receiver) documents() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// certificates writes a self-signed certificate for 127.0.0.1: ca.pem, and for a broker, with the
// key, broker.pem.
func certificates(t *testing.T, dir string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	text, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: text})
	both := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), certificate...)
	write(t, filepath.Join(dir, "ca.pem"), string(certificate), 0o644)
	write(t, filepath.Join(dir, "broker.pem"), string(both), 0o600)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSecurity reads from a broker with TLS and passwords, with each mechanism, and with a wrong
// password.
func TestSecurity(t *testing.T) {
	dir := t.TempDir()
	config := certificates(t, dir)
	broker := servertest.NewKafka(t, servertest.KafkaOptions{
		Protocol: "SASL_SSL",
		Properties: "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\nssl.keystore.type=PEM\nssl.keystore.location=" + dir + "/broker.pem\n" +
			`listener.name.client.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret";` + "\n" +
			"listener.name.client.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n" +
			"listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n",
		Format: []string{"--add-scram", "SCRAM-SHA-256=[name=ann,password=secret]", "--add-scram", "SCRAM-SHA-512=[name=ann,password=secret]"},
	})
	from := broker.Address + "/" + topic
	properties := func(mechanism, password string) string {
		return write(t, filepath.Join(t.TempDir(), "kafka.conf"), "# as jobcomp/kafka has it\nbootstrap.servers="+broker.Address+"\nsecurity.protocol = SASL_SSL\nsasl.mechanisms="+mechanism+
			"\nsasl.username=ann\nsasl.password="+password+"\nssl.ca.location="+dir+"/ca.pem\nmessage.timeout.ms=5000\n", 0o600)
	}
	login := []kgo.Opt{kgo.DialTLSConfig(config), kgo.SASL(plain.Auth{User: "ann", Pass: "secret"}.AsMechanism())}
	n := 0
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		produceTo(t, []string{broker.Address}, documents(n+1, n+10), login...)
		r := new(receiver)
		end := r.readAs(t, from, properties(mechanism, "secret"))
		upTo(t, 10, r)
		end()
		if n += 10; len(r.got) != 10 || len(r.reported) > 0 {
			t.Errorf("%s: %q, %q", mechanism, r.got, r.reported)
		}
	}
	r := new(receiver)
	end := r.readAs(t, from, properties("PLAIN", "wrong"))
	r.until(t, "a report", func() bool { return len(r.reported) > 0 })
	end()
	if !strings.Contains(r.reported[0], "SASL_AUTHENTICATION_FAILED") || strings.Contains(r.reported[0], "wrong") {
		t.Errorf("%q", r.reported)
	}
}
