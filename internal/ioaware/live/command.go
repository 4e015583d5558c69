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

// commandTime is how long one of Slurm's commands may take. The command's own time-out for
// slurmctld's answers is shorter (MessageTimeout).
const commandTime = 2 * time.Minute

// Exec is the [Command] that runs Slurm's commands of the environment's PATH.
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
