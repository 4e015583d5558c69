package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"rmreplay/internal/accounting/engine/wire"
)

// connector, conn and rows implement a driver of database/sql for one engine, so that questions can
// use the conversions and rows of database/sql.
type connector struct{ engine *process }

func (c connector) Connect(context.Context) (driver.Conn, error) { return conn(c), nil }

func (c connector) Driver() driver.Driver { return c }

// Open is never called, because engines do not have names.
func (c connector) Open(string) (driver.Conn, error) { return conn(c), nil }

type conn struct{ engine *process }

var errQueries = errors.New("an engine only answers queries")

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errQueries }

func (conn) Begin() (driver.Tx, error) { return nil, errQueries }

func (conn) Close() error { return nil }

// CheckNamedValue also accepts lists as arguments, which DuckDB supports and most drivers do not.
func (conn) CheckNamedValue(v *driver.NamedValue) error {
	if _, ok := v.Value.([]any); ok {
		return nil
	}
	return driver.ErrSkip
}

// QueryContext sends a query and waits for the names of the answer's columns.
func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	e := c.engine
	b := wire.AppendUint(nil, e.number+1)
	b = wire.AppendString(b, query)
	for i, arg := range args {
		var err error
		if b, err = wire.AppendValue(b, arg.Value); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	if len(b) > wire.MaxFrame {
		return nil, fmt.Errorf("a query of %d bytes (want at most %d)", len(b), wire.MaxFrame)
	}
	r := &rows{engine: e, request: e.request(ctx)}
	if err := e.out.Send(wire.Ask, b); err != nil {
		r.request.finish()
		return nil, e.lost(err)
	}
	_, payload, err := e.receive(wire.Columns)
	if err != nil {
		r.request.finish()
		return nil, err
	}
	names := wire.NewDecoder(payload)
	for names.More() {
		r.names = append(r.names, names.String())
	}
	return r, nil
}

// rows reads the rows of an answer.
type rows struct {
	engine  *process
	request *request
	names   []string
	values  *wire.Decoder // the unread values of the last frame
	ended   bool
}

func (r *rows) Columns() []string { return r.names }

// Next reads a row.
func (r *rows) Next(to []driver.Value) error {
	for r.values == nil || !r.values.More() {
		if r.ended {
			return io.EOF
		}
		if err := r.more(); err != nil {
			return err
		}
	}
	for i := range to {
		to[i] = r.values.Value()
	}
	if err := r.values.Err(); err != nil {
		r.end()
		return r.engine.lost(err)
	}
	return nil
}

// more reads the next frame.
func (r *rows) more() error {
	kind, payload, err := r.engine.receive(wire.Rows, wire.Done)
	if err != nil {
		r.end()
		return err
	}
	if kind == wire.Done {
		r.end()
		return nil
	}
	r.values = wire.NewDecoder(payload)
	return nil
}

func (r *rows) end() {
	r.ended = true
	r.request.finish()
}

// Close ends an answer early: it interrupts the engine, and discards the rows that the engine has already sent.
func (r *rows) Close() error {
	if r.ended {
		return nil
	}
	failure := r.engine.failure
	r.engine.interrupt(r.request.number)
	for !r.ended {
		_ = r.more()
	}
	r.engine.failure = failure // this interrupt is not a failure of the engine
	return nil
}
