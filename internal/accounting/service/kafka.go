package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/kafka"
	"rmreplay/internal/accounting/store"
)

// kafka starts to read a topic. The returned function stops it.
func (s *site) kafka(ctx context.Context, opts Serve, say func(format string, args ...any)) (end func(), err error) {
	if opts.Kafka == "" {
		return func() {}, nil
	}
	group, err := consumerGroup(s.dir)
	if err != nil {
		return nil, fmt.Errorf("reading from Kafka: %w", err)
	}
	reader, err := kafka.New(kafka.Options{
		From: opts.Kafka, Config: opts.KafkaConfig, Group: group, Instance: "server", Accept: s.acceptMessages,
		Report: func(err error) { say("rmreplay: %v", err) },
	})
	if err != nil {
		return nil, err
	}
	say("rmreplay: reading %s from Kafka, as the consumer group %s", opts.Kafka, group)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); reader.Run(ctx) }()
	return func() { cancel(); <-done }, nil
}

// acceptMessages makes documents of a topic durable. The topic is their index: jobcomp/kafka gives it the
// cluster's name by default (JobCompParams=topic).
func (s *site) acceptMessages(topic string, documents [][]byte) error {
	arrivals := make([]intake.Arrival, len(documents))
	for i, document := range documents {
		arrivals[i] = intake.Arrival{Source: store.Kafka, Index: topic, Document: document}
	}
	_, err := s.intake.Accept(arrivals...)
	return err
}

// groupFile names the consumer group of a data directory. Readers of one group share a topic's messages,
// so each directory has its own. A backup does not have the file: a directory that is restored reads the
// topic from its beginning, and what came after the backup is not lost.
const groupFile = "kafka-group"

// consumerGroup reads the name of a directory's group, and makes one up if there is none.
func consumerGroup(dir string) (string, error) {
	path := filepath.Join(dir, groupFile)
	text, err := os.ReadFile(path)
	if err == nil {
		if group := strings.TrimSpace(string(text)); group != "" {
			return group, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	group := "rmreplay-" + strings.ToLower(rand.Text()[:12])
	return group, os.WriteFile(path, []byte(group+"\n"), 0o600)
}
