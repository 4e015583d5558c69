package cli

import (
	"context"
	"errors"
	"fmt"

	"rmreplay/internal/experiment"
	"rmreplay/internal/run"
)

// The exit statuses. Scripts rely on them.
const (
	exitOK          = 0
	ExitFailed      = 1   // it could not be done
	ExitUsage       = 2   // the command line is wrong
	ExitInvalid     = 3   // it was done, but the result is not valid
	ExitBadInput    = 4   // a file that was given is wrong
	ExitMissing     = 5   // something is missing on this machine
	ExitInterrupted = 130 // SIGINT or SIGTERM; what was done is kept
)

// ExitError is an error for which the program exits with a status of its own.
type ExitError struct {
	Code int
	Err  error
}

// Error is the text of the error within.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the error within.
func (e *ExitError) Unwrap() error { return e.Err }

// badInput marks an error as one of the input that was given.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{Code: ExitBadInput, Err: err}
}

// invalidf makes the error of a command that ended with a result that does not count.
func invalidf(format string, args ...any) error {
	return &ExitError{Code: ExitInvalid, Err: fmt.Errorf(format, args...)}
}

// usagef makes the error of a command line that the flags' own checks cannot see.
func usagef(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// exitCode is the one place where errors become exit statuses. An interruption wins:
// what fails because of it is not a failure.
func exitCode(ctx context.Context, err error) int {
	var exit *ExitError
	var field *experiment.FieldError
	var input *experiment.InputError
	var invalid *experiment.InvalidError
	switch {
	case err == nil:
		return exitOK
	case interrupted(ctx, err):
		return ExitInterrupted
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &field):
		return ExitUsage
	case errors.As(err, &input), errors.Is(err, run.ErrNotRun):
		return ExitBadInput
	case errors.As(err, &invalid):
		return ExitInvalid
	case experiment.IsMissing(err):
		return ExitMissing
	}
	return ExitFailed
}

// errorText is what a person is told. The fields of a specification have the names of flags.
func errorText(code int, err error) string {
	if field, ok := err.(*experiment.FieldError); ok { //nolint:errorlint // a wrapped one has a text before it
		return "--" + field.Error()
	}
	if code == ExitInterrupted && (errors.Is(err, context.Canceled) && err.Error() == context.Canceled.Error()) {
		return "interrupted"
	}
	return err.Error()
}

// interrupted reports whether err is the end of ctx and nothing else.
func interrupted(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// unlessInterrupted returns err. For an interruption it says what is left of the work and
// returns ctx's error alone: what was being done at that moment is of no interest.
func (g *globals) unlessInterrupted(ctx context.Context, err error, left string) error {
	if !interrupted(ctx, err) {
		return err
	}
	g.say("rmreplay: %s", left)
	return ctx.Err()
}
