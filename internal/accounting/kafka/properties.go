package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The supported properties of librdkafka's CONFIGURATION.md, all for connecting to brokers.
const (
	protocolProperty    = "security.protocol"
	mechanismProperty   = "sasl.mechanism"
	mechanismsProperty  = "sasl.mechanisms"
	userProperty        = "sasl.username"
	passwordProperty    = "sasl.password"
	authorityProperty   = "ssl.ca.location"
	certificateProperty = "ssl.certificate.location"
	keyProperty         = "ssl.key.location"
)

// security returns a client's options for connecting to brokers, from a file with librdkafka's
// properties, such as the file for Slurm's plugin. Properties that do not concern TLS or SASL are
// about sending, and are ignored. An unknown property of TLS or SASL is an error. Otherwise the
// client might connect differently from what the file demands.
func security(path string) ([]kgo.Opt, error) {
	if path == "" {
		return nil, nil
	}
	properties, err := readProperties(path)
	if err != nil {
		return nil, fmt.Errorf("reading the properties for Kafka: %w", err)
	}
	opts, err := properties.options()
	if err != nil {
		return nil, fmt.Errorf("the properties for Kafka in %s: %w", path, err)
	}
	return opts, nil
}

type properties map[string]string

func readProperties(path string) (properties, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := properties{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("%s:%d: not a property (want NAME=VALUE)", path, number)
		}
		p[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if p[passwordProperty] != "" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has a password, and other users can read or change the file (mode %#o, want 0600)",
			path, info.Mode().Perm())
	}
	return p, nil
}

// options converts the properties to options of a client.
func (p properties) options() (opts []kgo.Opt, err error) {
	known := []string{protocolProperty, mechanismProperty, mechanismsProperty, userProperty, passwordProperty,
		authorityProperty, certificateProperty, keyProperty}
	for name := range p {
		ours := strings.HasPrefix(name, "ssl.") || strings.HasPrefix(name, "sasl.") || strings.HasPrefix(name, "security.") ||
			name == "enable.ssl.certificate.verification"
		if ours && !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s is not supported (want some of %s)", name, strings.Join(known, ", "))
		}
	}
	protocol := strings.ToUpper(p[protocolProperty])
	switch protocol {
	case "", "PLAINTEXT":
		return nil, nil
	case "SSL", "SASL_PLAINTEXT", "SASL_SSL":
	default:
		return nil, fmt.Errorf("%s=%s (want plaintext, ssl, sasl_plaintext or sasl_ssl)", protocolProperty,
			p[protocolProperty])
	}
	if strings.HasSuffix(protocol, "SSL") {
		config, err := p.tls()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if strings.HasPrefix(protocol, "SASL") {
		login, err := p.sasl()
		if err != nil {
			return nil, err
		}
		opts = append(opts, login)
	}
	return opts, nil
}

func (p properties) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if path := p[authorityProperty]; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", authorityProperty, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate (want PEM)", authorityProperty, path)
		}
	}
	if p[certificateProperty] != "" || p[keyProperty] != "" {
		pair, err := tls.LoadX509KeyPair(p[certificateProperty], p[keyProperty])
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", certificateProperty, keyProperty, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (p properties) sasl() (kgo.Opt, error) {
	user, password := p[userProperty], p[passwordProperty]
	if user == "" || password == "" {
		return nil, errors.New(userProperty + " and " + passwordProperty + " are missing")
	}
	mechanism := p[mechanismsProperty]
	if mechanism == "" {
		mechanism = p[mechanismProperty]
	}
	switch strings.ToUpper(mechanism) {
	case "PLAIN":
		return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()), nil
	case "SCRAM-SHA-256":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()), nil
	case "SCRAM-SHA-512":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), nil
	}
	return nil, fmt.Errorf("%s=%s (want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512)", mechanismsProperty, mechanism)
}
