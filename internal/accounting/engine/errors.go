package engine

import (
	"errors"
	"fmt"

	"rmreplay/internal/accounting/engine/wire"
)

// Errors that [Pool.Read] wraps.
var (
	// ErrAbsent means that the engine's program cannot be started.
	ErrAbsent = errors.New("the query engine is not installed " +
		"(want the program rmreplay-engine beside this one or in PATH)")
	// ErrTime means that the question exceeded [Options.Limit].
	ErrTime = errors.New("the query took too long")
	// ErrMemory means that the question needed more memory than an engine may have.
	ErrMemory = errors.New("the query needs too much memory")
	// ErrLarge means that the answers exceeded [Options.AnswerMiB].
	ErrLarge = errors.New("the answer is too large")
	// ErrBusy means that the question did not get an engine in time, because other questions used all engines.
	ErrBusy = errors.New("too many queries are under way")
	// ErrGone means that a file of the tables was removed. The caller may ask again with newer
	// tables.
	ErrGone = errors.New("a file of the tables has been removed")
	// ErrEnded means that the engine ended during the question.
	ErrEnded = errors.New("the query engine ended")
	// ErrClosed means that the pool is closed.
	ErrClosed = errors.New("the query engines are closed")
)

// errMoved ends a question that starts again in the slow lane.
var errMoved = errors.New("the query continues with the long queries")

// fault converts the payload of a [wire.Fault] to an error.
func fault(payload []byte) (cause wire.Cause, err error) {
	if len(payload) == 0 {
		return wire.Broken, fmt.Errorf("%w: it sent a fault without a cause", ErrEnded)
	}
	cause, text := wire.Cause(payload[0]), string(payload[1:])
	switch cause {
	case wire.Interrupted:
		return cause, errors.New("the query was interrupted")
	case wire.Memory:
		return cause, fmt.Errorf("%w: %s", ErrMemory, text)
	case wire.Gone:
		return cause, fmt.Errorf("%w: %s", ErrGone, text)
	case wire.Large:
		return cause, fmt.Errorf("%w: %s", ErrLarge, text)
	case wire.Broken:
		return cause, fmt.Errorf("%w: %s", ErrEnded, text)
	}
	return cause, errors.New(text)
}
