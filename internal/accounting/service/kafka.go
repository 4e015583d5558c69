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

// kafka starts to read a topic, if opts names a topic. The returned function stops the reader.
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

// acceptMessages makes a topic's documents durable. The topic is used as the name of their index,
// because jobcomp/kafka uses the cluster's name as topic by default (JobCompParams=topic).
func (s *site) acceptMessages(topic string, documents [][]byte) error {
	arrivals := make([]intake.Arrival, len(documents))
	for i, document := range documents {
		arrivals[i] = intake.Arrival{Source: store.Kafka, Index: topic, Document: document}
	}
	_, err := s.intake.Accept(arrivals...)
	return err
}

// groupFile has the name of a data directory's consumer group. Readers of one group share a topic's
// messages, so each directory has its own group. Backups do not include the file: a restored
// directory reads the topic from its beginning, so that documents after the backup are not lost.
const groupFile = "kafka-group"

// consumerGroup returns the name of a directory's group, and creates a random name the first time.
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
