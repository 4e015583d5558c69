package cli

import (
	"context"
	"errors"
	"fmt"

	"rmreplay/internal/experiment"
	"rmreplay/internal/output"
	"rmreplay/internal/resources"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmstore"
)

// The exit statuses. Scripts rely on them.
const (
	exitOK          = 0
	ExitFailed      = 1   // the command failed
	ExitUsage       = 2   // the command line is wrong
	ExitInvalid     = 3   // the command finished, but the result is not valid
	ExitBadInput    = 4   // a file, directory or run that the user named is wrong
	ExitMissing     = 5   // something is missing on this machine
	ExitInterrupted = 130 // SIGINT, SIGTERM or SIGHUP; the record of a run so far is kept
)

// ExitError is an error with the exit status that the program ends with.
type ExitError struct {
	Code int
	Err  error
}

// Error is the text of the error within.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the error within.
func (e *ExitError) Unwrap() error { return e.Err }

// badInput marks an error as one of the input; nil stays nil.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{Code: ExitBadInput, Err: err}
}

// invalidf makes the error of a command that finished with a result that is not valid.
func invalidf(format string, args ...any) error {
	return &ExitError{Code: ExitInvalid, Err: fmt.Errorf(format, args...)}
}

// usagef makes an error of usage that the flags' own checks do not find.
func usagef(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// exitCode turns errors into exit statuses; no other function does. An interruption comes
// first, because it may cause other errors.
func exitCode(ctx context.Context, err error) int {
	var exit *ExitError
	var field *experiment.FieldError
	var input *experiment.InputError
	var refused *output.Refused
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
	case errors.As(err, &input), errors.As(err, &refused), slurmstore.IsInput(err), errors.Is(err, run.ErrNotRun), errors.Is(err, output.ErrNotEmpty):
		return ExitBadInput
	case errors.As(err, &invalid):
		return ExitInvalid
	case experiment.IsMissing(err), slurmstore.IsMissing(err):
		return ExitMissing
	}
	return ExitFailed
}

// errorText is the message for people. Fields of a specification have the names of flags.
func errorText(code int, err error) string {
	if field, ok := err.(*experiment.FieldError); ok { //nolint:errorlint // a wrapped one has a text before it
		return "--" + field.Error()
	}
	if code == ExitInterrupted && (errors.Is(err, context.Canceled) && err.Error() == context.Canceled.Error()) {
		return "interrupted"
	}
	if short := resources.Shortage(err); short != "" {
		return err.Error() + " (" + short + ")"
	}
	return err.Error()
}

// interrupted reports whether err only says that ctx was cancelled.
func interrupted(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// unlessInterrupted returns err. After an interruption it prints where the results so far are
// and returns ctx's error alone, without the step that was interrupted.
func (g *globals) unlessInterrupted(ctx context.Context, err error, left string) error {
	if !interrupted(ctx, err) {
		return err
	}
	g.say("rmreplay: %s", left)
	return ctx.Err()
}
