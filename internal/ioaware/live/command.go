package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// commandTime is the time limit of one of Slurm's commands. It exceeds the command's own time limit
// for slurmctld's answers (MessageTimeout).
const commandTime = 2 * time.Minute

// Exec is a [Command] that runs Slurm's commands from PATH.
func Exec(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	var out, wrong bytes.Buffer
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "TZ=UTC", "SLURM_TIME_FORMAT=standard")
	c.Stdout, c.Stderr = &out, &wrong
	if err := c.Run(); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(wrong.String()), "\n")
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if text != "" {
			err = errors.New(text)
		}
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return out.Bytes(), nil
}
