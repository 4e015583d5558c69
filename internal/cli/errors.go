package cli

import (
	"context"
	"errors"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/usage"
	"rmreplay/internal/experiment"
	"rmreplay/internal/output"
	"rmreplay/internal/resources"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmstore"
)

// exitCode turns errors into exit statuses; no other function does. It checks first for an
// interruption, because an interruption may cause other errors.
func exitCode(ctx context.Context, err error) int {
	var exit *console.ExitError
	var field *experiment.FieldError
	var input *experiment.InputError
	var refused *output.Refused
	var invalid *experiment.InvalidError
	switch {
	case err == nil:
		return console.ExitOK
	case console.Interrupted(ctx, err):
		return console.ExitInterrupted
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &field):
		return console.ExitUsage
	case errors.As(err, &input), errors.As(err, &refused), slurmstore.IsInput(err), errors.Is(err, run.ErrNotRun),
		errors.Is(err, output.ErrNotEmpty):
		return console.ExitBadInput
	case errors.As(err, &invalid):
		return console.ExitInvalid
	case experiment.IsMissing(err), slurmstore.IsMissing(err):
		return console.ExitMissing
	}
	return console.ExitFailed
}

// errorText returns the message for people. The fields of a specification have the names of the
// flags that set them.
func errorText(code int, err error) string {
	if field, ok := err.(*experiment.FieldError); ok { //nolint:errorlint // a wrapping error has more text
		return "--" + field.Error()
	}
	if code == console.ExitInterrupted && (errors.Is(err, context.Canceled) && err.Error() == context.Canceled.Error()) {
		return "interrupted"
	}
	if short := resources.Shortage(err); short != "" {
		return err.Error() + " (" + short + ")"
	}
	return err.Error() + usage.Near(err)
}
