package interrupt

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// outcome has the results of run, and the time until it returned.
type outcome struct {
	status int
	ended  bool
	took   time.Duration
}

// interrupted runs a command and sends it signals after the given times.
func interrupted(command func(context.Context) int, after ...time.Duration) outcome {
	signals := make(chan os.Signal, len(after))
	begun := time.Now()
	for _, d := range after {
		time.AfterFunc(d, func() { signals <- syscall.SIGTERM })
	}
	status, ended := run(command, signals)
	return outcome{status, ended, time.Since(begun)}
}

// deaf does not look at its context. It outlives every test.
func deaf(context.Context) int {
	time.Sleep(time.Hour)
	return 8
}

// holding returns a command that has a hold and ends a time d after its context is cancelled.
func holding(d time.Duration) func(context.Context) int {
	return func(ctx context.Context) int {
		defer Hold()()
		<-ctx.Done()
		time.Sleep(d)
		return 7
	}
}

func TestRun(t *testing.T) {
	const slack = Grace / 10 // the interval at which run looks for holds
	for name, tt := range map[string]struct {
		command func(context.Context) int
		signals []time.Duration
		want    outcome // took is the least time
		atMost  time.Duration
	}{
		"no signal":                                  {command: func(context.Context) int { return 3 }, want: outcome{3, true, 0}, atMost: slack},
		"ends at the first signal":                   {command: func(ctx context.Context) int { <-ctx.Done(); return 130 }, signals: []time.Duration{0}, want: outcome{130, true, 0}, atMost: slack},
		"ignores the signal":                         {command: deaf, signals: []time.Duration{0}, want: outcome{0, false, Grace}, atMost: Grace + slack},
		"holds for longer than the grace":            {command: holding(2 * Grace), signals: []time.Duration{0}, want: outcome{7, true, 2 * Grace}, atMost: 2*Grace + slack},
		"the same signal twice within the echo time": {command: holding(Grace), signals: []time.Duration{0, 0, echo / 5}, want: outcome{7, true, Grace}, atMost: Grace + slack},
		"a second signal":                            {command: holding(time.Hour), signals: []time.Duration{0, 2 * echo}, want: outcome{0, false, 2 * echo}, atMost: 2*echo + slack},
		"ignores the signal after a hold": {
			command: func(ctx context.Context) int { holding(Grace)(ctx); return deaf(ctx) },
			signals: []time.Duration{0}, want: outcome{0, false, 2 * Grace}, atMost: 2*Grace + slack,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holds.number, holds.released = 0, time.Time{}
				got := interrupted(tt.command, tt.signals...)
				time.Sleep(2 * time.Hour) // every command has ended then
				if got.status != tt.want.status || got.ended != tt.want.ended || got.took < tt.want.took || got.took > tt.atMost {
					t.Errorf("%+v, want %+v and at most %v", got, tt.want, tt.atMost)
				}
			})
		})
	}
}

// TestHoldTwice: a hold that is released twice counts once.
func TestHoldTwice(t *testing.T) {
	holds.number = 0
	first, second := Hold(), Hold()
	first()
	first()
	if idle(time.Now().Add(-time.Hour)) != 0 {
		t.Error("nothing seems to be held")
	}
	second()
	if idle(time.Now().Add(-time.Hour)) == 0 {
		t.Error("something seems to be held")
	}
}
