package kafka_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/accounting/kafka"
)

// TestProperties reads files of properties, with and without mistakes.
func TestProperties(t *testing.T) {
	dir := t.TempDir()
	certificates(t, dir)
	login := "sasl.username=ann\nsasl.password=secret\n"
	for text, want := range map[string]string{
		"": "", "# nothing\n\nbootstrap.servers=a:1\nmessage.timeout.ms=5\n": "", "security.protocol=plaintext": "",
		"security.protocol=ssl": "", "security.protocol=SSL\nssl.ca.location=" + dir + "/ca.pem": "",
		"security.protocol=ssl\nssl.certificate.location=" + dir + "/ca.pem\nssl.key.location=" + dir + "/broker.pem": "",
		"security.protocol=sasl_plaintext\nsasl.mechanism=scram-sha-256\n" + login:                                    "",
		"one word": "kafka.conf:1: not a property", "security.protocol=tls": "want plaintext, ssl,",
		"security.protocol=ssl\nssl.ca.location=" + dir + "/absent":             "ssl.ca.location: ",
		"security.protocol=ssl\nssl.ca.location=" + dir:                         "ssl.ca.location: ",
		"security.protocol=ssl\nssl.ca.location=" + filepath.Join(dir, "empty"): "has no certificate",
		"security.protocol=ssl\nssl.key.location=" + dir + "/broker.pem":        "ssl.certificate.location and ssl.key.location: ",
		"security.protocol=ssl\nssl.keystore.location=x":                        "ssl.keystore.location is not supported",
		"enable.ssl.certificate.verification=false":                             "is not supported",
		"security.protocol=sasl_ssl\nsasl.mechanisms=PLAIN":                     "sasl.username and sasl.password are missing",
		"security.protocol=sasl_ssl\n" + login:                                  "want PLAIN, SCRAM-SHA-256",
		"security.protocol=sasl_ssl\nsasl.mechanisms=GSSAPI\n" + login:          "sasl.mechanisms=GSSAPI (want PLAIN",
	} {
		write(t, filepath.Join(dir, "empty"), "", 0o600)
		path := write(t, filepath.Join(dir, "kafka.conf"), text, 0o600)
		reader, err := kafka.New(kafka.Options{From: "a/jobs", Config: path, Group: "rmreplay", Report: func(error) {}})
		if err == nil {
			ended, end := context.WithCancel(t.Context())
			end()
			reader.Run(ended) // in order to close the client
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	open := write(t, filepath.Join(t.TempDir(), "kafka.conf"), login, 0o644)
	if _, err := kafka.New(kafka.Options{From: "a/jobs", Config: open}); err == nil || !strings.Contains(err.Error(), "want 0600") {
		t.Error(err)
	}
	if _, err := kafka.New(kafka.Options{From: "a/jobs", Config: filepath.Join(dir, "absent")}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
