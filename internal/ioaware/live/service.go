package live

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"

	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioservice"
)

// Service sends requests over TCP to an analytical service: rmreplay io serve, or the service of
// the Slurm-LDMS project. It implements [Forecaster].
type Service struct {
	Address string // HOST:PORT
}

// patience is the time limit for an answer of the service.
const patience = 5 * time.Second

// A job's comment can name its class in two ways: by the class's ID or by its name.
var (
	classID   = regexp.MustCompile(`^variety_id=([^;]+);`)
	className = regexp.MustCompile(`(?:^|;)jobtype=([A-Za-z0-9_]+);`)
)

// classOf returns the ID of the class that a job's comment names; "" if it does not name a class.
func classOf(comment string) string {
	if m := classID.FindStringSubmatch(comment); m != nil && m[1] != "N/A" {
		return m[1]
	}
	if m := className.FindStringSubmatch(comment); m != nil {
		return ioservice.NamedClass(m[1])
	}
	return ""
}

// Estimate implements [Forecaster].
func (s Service) Estimate(ctx context.Context, class string) (e ioaware.Estimate, err error) {
	answer, err := s.ask(ctx, map[string]any{"type": "job_utilization", "req_id": "1", "variety_id": class})
	if err != nil {
		return e, err
	}
	if e.Use, err = answered(answer, "lustre"); err != nil {
		return e, err
	}
	minutes, err := answered(answer, "time_limit")
	e.RunTime = time.Duration(min(minutes, 1<<31)) * time.Minute
	return e, err
}

// Used implements [Forecaster].
func (s Service) Used(ctx context.Context) (int64, error) {
	answer, err := s.ask(ctx, map[string]any{"type": "usage", "req_id": "1", "request": []string{"lustre"}})
	if err != nil {
		return 0, err
	}
	return answered(answer, "lustre")
}

// answered returns a number in an answer, or 0 if the number is missing, as for an unknown class.
func answered(a ioservice.Answer, name string) (int64, error) {
	text, given := a.Response[name]
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the service answers %s=%q (want a number of at least 0)", name, text)
	}
	return n, nil
}

// ask sends a request on a new connection.
func (s Service) ask(ctx context.Context, request map[string]any) (a ioservice.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return a, fmt.Errorf("asking the service: %w", err)
	}
	defer conn.Close() // the answer has been read
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return a, err
		}
	}
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return a, fmt.Errorf("asking the service: %w", err)
	}
	if err := json.NewDecoder(bufio.NewReader(conn)).Decode(&a); err != nil {
		return a, fmt.Errorf("reading the service's answer: %w", err)
	}
	if a.Status != ioservice.StatusOK {
		return a, fmt.Errorf("the service answers %s %s", a.Status, a.Error)
	}
	return a, nil
}
