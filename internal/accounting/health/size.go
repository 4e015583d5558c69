package health

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/accounting/store"
)

// sizeEvery is the interval at which the cluster's size is requested.
const sizeEvery = time.Hour

// sinfo returns the command that lists the nodes of the same cluster: the given command with sinfo
// instead of sdiag. The result is nil if the command does not contain sdiag, for example because it
// is a script.
func sinfo(sdiag []string) []string {
	command := slices.Clone(sdiag)
	for i, word := range command {
		if filepath.Base(word) == "sdiag" {
			command[i] = strings.TrimSuffix(word, "sdiag") + "sinfo"
		}
	}
	if slices.Equal(command, sdiag) {
		return nil
	}
	return append(command, "--all", "--noheader", "--Node", "--format=%N|%c|%G")
}

// askSize gets the cluster's size from slurmctld, with sinfo.
func (p *Poller) askSize(ctx context.Context) error {
	command := sinfo(p.Command)
	if command == nil || p.SetSize == nil {
		return nil
	}
	out, err := p.run(ctx, command)
	if err != nil {
		return err
	}
	c, err := parseSize(string(out))
	if err != nil {
		return err
	}
	c.Name, c.Kind = p.Cluster, "site"
	return p.SetSize(ctx, c)
}

// parseSize adds up the nodes in sinfo's output, with lines NAME|CPUS|GRES. A node has one line per
// partition. Other lines, such as the cluster's name that -M adds, are ignored.
func parseSize(text string) (c store.Cluster, err error) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 3 || seen[fields[0]] {
			continue
		}
		seen[fields[0]] = true
		cpus, err := counter(fields[1])
		if err != nil {
			return c, fmt.Errorf("reading the output of sinfo: %q: %w", line, err)
		}
		c.Nodes.Value++
		c.CPUs.Value += cpus
		c.GPUs.Value += gpus(fields[2])
	}
	if len(seen) == 0 {
		return c, fmt.Errorf("reading the output of sinfo: it lists no node: %.200q", text)
	}
	c.Nodes.Known, c.CPUs.Known, c.GPUs.Known = true, true, true
	return c, nil
}

// gpus returns the number of GPUs in a node's GRES, such as gpu:a100:4(S:0-1),nic:2.
func gpus(gres string) (n int64) {
	for item := range strings.SplitSeq(gres, ",") {
		item, _, _ = strings.Cut(item, "(")
		if parts := strings.Split(item, ":"); parts[0] == "gpu" {
			if count, err := strconv.ParseInt(parts[len(parts)-1], 10, 32); err == nil && count > 0 {
				n += count
			}
		}
	}
	return n
}
