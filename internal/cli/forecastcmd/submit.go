package forecastcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/finished"
	"rmreplay/internal/forecast"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
)

// variants returns the job of --submit and its variants, and notes about them.
func (o commands) variants(opts forecastOptions, at hpc.Time) (list []forecast.Variant, notes []string, err error) {
	if opts.submit == "" {
		return nil, nil, nil
	}
	words, err := submission(opts.submit)
	if err != nil {
		return nil, nil, console.Usagef("--submit: %w", err)
	}
	for i, change := range append([]string{""}, opts.whatIf...) {
		name, flag := change, "--what-if "+change
		if i == 0 {
			name, flag = "as submitted", "--submit "+opts.submit
		}
		more, err := changes(change)
		if err != nil {
			return nil, nil, console.Usagef("%s: %w", flag, err)
		}
		parsed, err := sbatch.Parse(append(append(append([]string{}, words...), more...), "job.sh"), at)
		if err != nil {
			return nil, nil, console.Usagef("%s: %w", flag, err)
		}
		request := parsed.Request
		if opts.user != "" {
			request.User = opts.user
		}
		if request.Array != "" {
			return nil, nil, console.Usagef("%s: a job array (want a single job)", flag)
		}
		list = append(list, forecast.Variant{Name: name, Request: request})
		if parsed.Fewer != "" {
			notes = append(notes, parsed.Fewer)
		}
	}
	return list, notes, nil
}

// submission returns options of sbatch. If text is the path of a batch script, it reads them from
// the script; otherwise text is a list of options.
func submission(text string) ([]string, error) {
	script, err := os.ReadFile(text)
	switch {
	case err == nil && strings.HasPrefix(string(script), "#!"):
		return finished.ScriptOptions(string(script)), nil
	case err == nil:
		return nil, errors.New("the file is not a batch script (want one that begins with #!)")
	}
	missing := err
	words, err := sbatch.Split(text)
	if !strings.HasPrefix(text, "-") && (len(words) == 1 && words[0] != "sbatch" || !errors.Is(missing, fs.ErrNotExist)) {
		return nil, fmt.Errorf("%w (want a batch script, or options of sbatch)", missing)
	}
	if err == nil && len(words) > 0 && words[0] == "sbatch" {
		words = words[1:]
	}
	if err == nil && (len(words) == 0 || !strings.HasPrefix(words[0], "-")) {
		err = errors.New("neither a batch script nor options of sbatch")
	}
	return words, err
}

// changes returns the options of a variant: "limit=1:00:00 partition=short", or options of sbatch.
func changes(text string) ([]string, error) {
	words, err := sbatch.Split(text)
	if err != nil {
		return nil, err
	}
	for i, word := range words {
		if strings.HasPrefix(word, "-") {
			continue
		}
		key, value, ok := strings.Cut(word, "=")
		if !ok && (i == 0 || !strings.HasPrefix(words[i-1], "-")) {
			return nil, errors.New(word + ": not a change (want, for example, limit=1:00:00)")
		}
		if !ok {
			continue // the value of the previous option
		}
		if key == "limit" {
			key = "time"
		}
		words[i] = "--" + key + "=" + value
	}
	return words, nil
}
