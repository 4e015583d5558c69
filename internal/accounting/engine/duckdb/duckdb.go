// Package duckdb is the code inside an engine process, which answers queries over read-only Parquet
// files with DuckDB. Package engine starts, watches and ends such processes; package wire defines
// the protocol between an engine and package engine.
//
// Queries are assumed to be hostile. An engine runs only single SELECT statements. DuckDB's
// settings forbid files outside the given directories, extensions, and changes of settings. The
// kernel limits the memory of the process. If anything else goes wrong, the process ends. This
// loses nothing, because the process stores no data.
package duckdb

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"rmreplay/internal/accounting/engine/wire"
)

// Main is the whole program of an engine. It serves on standard input and output, and returns the
// exit status.
func Main() int {
	if err := isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "rmreplay-engine:", err)
		return 1
	}
	if err := Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rmreplay-engine:", err)
		return 1
	}
	return 0
}

// Serve reads frames from in, and writes answers to out. It returns nil at the end of the input, even while a query
// runs, because without its parent the process must end. An unreadable frame is an error.
func Serve(in io.Reader, out io.Writer) error {
	s := &server{out: wire.NewWriter(out), requests: make(chan request, 8)}
	ended := make(chan error, 2)
	go func() { ended <- s.listen(wire.NewReader(in)) }()
	go func() { ended <- s.work() }()
	return <-ended
}

// request is a frame with its context, which an interrupt cancels.
type request struct {
	ctx    context.Context
	cancel context.CancelFunc
	kind   wire.Kind
	fields *wire.Decoder
}

// server answers the requests of the process that started the engine. The goroutine that runs the method work alone
// uses the fields after requests.
type server struct {
	out      *wire.Writer
	requests chan request

	connector *duckdb.Connector
	conn      *duckdb.Conn
	limit     int // highest number of bytes in the answers to one question
	left      int // how many bytes the remaining answers may have
}

// listen reads frames. It handles interrupts and passes all other frames to work.
func (s *server) listen(in *wire.Reader) error {
	var number uint64
	cancel := func() {}
	for {
		kind, payload, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r := request{kind: kind, fields: wire.NewDecoder(payload)}
		switch kind {
		case wire.Interrupt:
			if n := r.fields.Uint(); n == number {
				cancel()
			}
			continue
		case wire.Begin, wire.Ask:
			number = r.fields.Uint()
		}
		r.ctx, r.cancel = context.WithCancel(context.Background())
		cancel = r.cancel
		s.requests <- r
	}
}

// work answers one request after another.
func (s *server) work() error {
	for r := range s.requests {
		err := s.answer(r)
		r.cancel()
		if err == nil {
			continue
		}
		cause := causeOf(err)
		payload := append([]byte{byte(cause)}, err.Error()...)
		if err := s.out.Send(wire.Fault, payload); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
		if cause == wire.Broken {
			return err
		}
	}
	return nil
}

// errSend means that the engine cannot continue, for example because its parent does not read
// answers.
type errSend struct{ error }

// errLarge is the error of an answer with too many bytes.
var errLarge = errors.New("the answer is too large")

// causeOf classifies an error for the parent.
func causeOf(err error) wire.Cause {
	var fault *duckdb.Error
	switch {
	case errors.As(err, &errSend{}):
		return wire.Broken
	case errors.Is(err, context.Canceled):
		return wire.Interrupted
	case errors.Is(err, errLarge):
		return wire.Large
	case !errors.As(err, &fault):
		return wire.Failed
	}
	text := fault.Msg
	switch fault.Type {
	case duckdb.ErrorTypeInterrupt:
		return wire.Interrupted
	case duckdb.ErrorTypeOutOfMemory:
		return wire.Memory
	case duckdb.ErrorTypeFatal, duckdb.ErrorTypeInternal:
		return wire.Broken
	case duckdb.ErrorTypeIO:
		if strings.Contains(text, "No files found") || strings.Contains(text, "No such file") {
			return wire.Gone
		}
	}
	if strings.Contains(text, "bad_alloc") || strings.Contains(text, "Out of Memory Error") {
		return wire.Memory
	}
	return wire.Failed
}

func (s *server) answer(r request) error {
	if s.conn == nil && r.kind != wire.Configure {
		return errSend{errors.New("a query came before the settings")}
	}
	switch r.kind {
	case wire.Configure:
		return s.configure(r.ctx, r.fields.Rest())
	case wire.Begin:
		return s.begin(r)
	case wire.Ask:
		return s.ask(r)
	case wire.End:
		release()
		return nil
	}
	return errSend{fmt.Errorf("a frame of kind %d came (want a request: kind %d to %d)", r.kind, wire.Configure, wire.End)}
}

// send sends a frame. The engine ends if the parent does not read.
func (s *server) send(kind wire.Kind, payload []byte) error {
	if err := s.out.Send(kind, payload); err != nil {
		return errSend{fmt.Errorf("answering: %w", err)}
	}
	return nil
}

// configure opens the database. The engine ends if this fails.
func (s *server) configure(ctx context.Context, text []byte) (err error) {
	defer func() {
		if err != nil {
			err = errSend{fmt.Errorf("starting DuckDB: %w", err)}
		}
	}()
	var settings wire.Settings
	if err := json.Unmarshal(text, &settings); err != nil {
		return err
	}
	if s.connector, err = duckdb.NewConnector("", nil); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	for _, statement := range statements(settings) {
		if err := execute(ctx, s.conn, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	if err := bound(settings.DataMiB); err != nil {
		return err
	}
	s.limit = settings.AnswerMiB << 20
	status, err := json.Marshal(wire.Status{Version: duckDBVersion()})
	if err != nil {
		return err
	}
	return s.send(wire.Ready, status)
}

// connect opens a new connection in place of the old one. This removes all temporary views, because they belong to a
// connection.
func (s *server) connect(ctx context.Context) error {
	if s.conn != nil {
		if err := s.conn.Close(); err != nil {
			return err
		}
	}
	conn, err := s.connector.Connect(ctx)
	if err != nil {
		return err
	}
	s.conn = conn.(*duckdb.Conn)
	return nil
}

// begin begins a question. Statements in the frame create the views of a new version of the tables.
func (s *server) begin(r request) error {
	s.left = s.limit
	if r.fields.More() {
		if err := s.connect(r.ctx); err != nil {
			return errSend{err}
		}
	}
	for r.fields.More() {
		statement := r.fields.String()
		if err := execute(r.ctx, s.conn, statement); err != nil {
			return fmt.Errorf("making the tables: %w", err)
		}
	}
	if err := r.fields.Err(); err != nil {
		return errSend{err}
	}
	return s.send(wire.Done, nil)
}

func execute(ctx context.Context, conn *duckdb.Conn, statement string) error {
	_, err := conn.ExecContext(ctx, statement, nil)
	return err
}

// ask answers one query.
func (s *server) ask(r request) (err error) {
	text := r.fields.String()
	var args []driver.NamedValue
	for r.fields.More() {
		args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: r.fields.Value()})
	}
	if err := r.fields.Err(); err != nil {
		return errSend{err}
	}
	statement, err := s.prepare(text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, statement.Close()) }()
	if n := statement.NumInput(); n != len(args) {
		return fmt.Errorf("the query has %d parameters and %d arguments (want one argument for each parameter)",
			n, len(args))
	}
	rows, err := statement.QueryContext(r.ctx, args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if err := s.answerRows(r.ctx, rows); err != nil {
		return err
	}
	return s.send(wire.Done, nil)
}

// errSelect is the error for a statement other than one SELECT.
var errSelect = errors.New("the engine only answers queries (want one SELECT statement)")

// query matches the beginning of a query. It is needed because DuckDB reports a statement's type
// only after it has prepared the statement, and preparing EXPORT DATABASE already makes a
// directory. A comment at the beginning does not match, because it could hide a statement.
var query = regexp.MustCompile(`(?i)^\s*(\(|(SELECT|WITH|FROM|VALUES)\b)`)

// prepare prepares a query. Everything except a single SELECT statement is an error. For example, a
// temporary table would hide a view from later questions.
func (s *server) prepare(text string) (*duckdb.Stmt, error) {
	if !query.MatchString(text) {
		return nil, errSelect
	}
	prepared, err := s.conn.Prepare(text) // unlike PrepareContext, it fails for several statements
	if err != nil {
		return nil, err
	}
	statement := prepared.(*duckdb.Stmt)
	kind, err := statement.StatementType()
	if err == nil && kind != duckdb.STATEMENT_TYPE_SELECT {
		err = errSelect
	}
	if err != nil {
		return nil, errors.Join(err, statement.Close())
	}
	return statement, nil
}

// answerRows sends the rows of an answer.
func (s *server) answerRows(ctx context.Context, rows driver.Rows) error {
	names := rows.Columns()
	var b []byte
	for _, name := range names {
		b = wire.AppendString(b, name)
	}
	if err := s.send(wire.Columns, b); err != nil {
		return err
	}
	b = b[:0]
	values := make([]driver.Value, len(names))
	for {
		err := rows.Next(values)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		begin := len(b)
		for i, v := range values {
			if b, err = wire.AppendValue(b, plain(v)); err != nil {
				return fmt.Errorf("column %s: %w (want a cast to another type)", names[i], err)
			}
		}
		if s.left -= len(b) - begin; s.left < 0 {
			return fmt.Errorf("%w (limit %d MiB)", errLarge, s.limit>>20)
		}
		if len(b) < wire.BatchSize {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.send(wire.Rows, b); err != nil {
			return err
		}
		b = b[:0]
	}
	if len(b) == 0 {
		return nil
	}
	return s.send(wire.Rows, b)
}

// plain converts values of the types of DuckDB's driver to types that package wire can send. A
// decimal number becomes the nearest float64.
func plain(value any) any {
	switch v := value.(type) {
	case duckdb.Decimal:
		return v.Float64()
	case duckdb.UUID:
		return v[:]
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	}
	return value
}
