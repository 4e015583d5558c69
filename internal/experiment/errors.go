package experiment

import (
	"errors"

	"rmreplay/internal/metrics"
	"rmreplay/internal/rm/slurm/install"
)

// FieldError says that the value of a field of a [Spec] is wrong.
type FieldError struct {
	// Field is the field's name as the command line spells it: "drain-limit".
	Field string
	Err   error
}

// Error returns the field's name and the fault of its value.
func (e *FieldError) Error() string { return e.Field + " " + e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *FieldError) Unwrap() error { return e.Err }

// bothOf joins two errors. It leaves out the later error if both texts are equal: after a failed write, closing the
// record returns the same error again.
func bothOf(err, later error) error {
	if err != nil && later != nil && err.Error() == later.Error() {
		return err
	}
	return errors.Join(err, later)
}

// InputError says that a file or directory that a [Spec] names is wrong or missing.
type InputError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *InputError) Unwrap() error { return e.Err }

// inputError wraps an error in an [InputError]. It returns nil for nil.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	return &InputError{err}
}

// InvalidError says that a run ended and that its result is not valid.
type InvalidError struct{ Reason string }

// Error says why the run is not valid.
func (e *InvalidError) Error() string { return "the run is not valid: " + e.Reason }

// Valid returns nil if the run's result is valid, and otherwise an [InvalidError] with the reason.
func Valid(s *metrics.Summary) error {
	if s.Valid {
		return nil
	}
	return &InvalidError{s.Doubt}
}

// IsMissing reports whether err is about this machine: it lacks a program, has an unsupported
// release of a program, or does not allow a replay.
func IsMissing(err error) bool {
	var missing *install.MissingError
	var version *install.VersionError
	var directory *install.DirectoryError
	var broken *install.BrokenError
	var unfit *install.UnfitError
	var user *install.UserError
	var network *install.NetworkError
	return errors.As(err, &missing) || errors.As(err, &version) || errors.As(err, &directory) || errors.As(err, &broken) ||
		errors.As(err, &unfit) || errors.As(err, &user) || errors.As(err, &network)
}
