package console

import (
	"context"
	"errors"
	"fmt"
)

// The exit statuses. Scripts rely on them.
const (
	ExitOK          = 0
	ExitFailed      = 1   // the command failed
	ExitUsage       = 2   // the command line is wrong
	ExitInvalid     = 3   // the command finished, but the result is not valid
	ExitBadInput    = 4   // a file, directory or run that the user named is wrong
	ExitMissing     = 5   // something is missing on this machine
	ExitInterrupted = 130 // SIGINT, SIGTERM or SIGHUP; the record has the run up to the signal
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

// BadInput marks an error as an error of the input; nil stays nil.
func BadInput(err error) error { return withStatus(ExitBadInput, err) }

// Missing marks an error as "something is missing on this machine"; nil stays nil.
func Missing(err error) error { return withStatus(ExitMissing, err) }

func withStatus(code int, err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{Code: code, Err: err}
}

// Invalidf makes the error of a command that finished with a result that is not valid.
func Invalidf(format string, args ...any) error {
	return &ExitError{Code: ExitInvalid, Err: fmt.Errorf(format, args...)}
}

// Usagef makes an error of usage, for a mistake that the flags' own checks do not find.
func Usagef(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Interrupted reports whether err comes from the end of ctx.
func Interrupted(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// UnlessInterrupted returns err, unless err comes from an interruption. After an interruption it
// prints left, a text about the location of the results so far. Then it returns ctx's error, which
// does not name the interrupted step.
func (o Output) UnlessInterrupted(ctx context.Context, err error, left string) error {
	if !Interrupted(ctx, err) {
		return err
	}
	o.Say("rmreplay: %s", left)
	return ctx.Err()
}
