package forecast

import (
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/features"
)

// observer is a predictor that keeps a history, and counts the events that it sees.
type observer struct {
	*features.History
	submits, starts, ends int
}

func (o *observer) Predict(predict.Submission) predict.Prediction { return predict.Prediction{} }

func (o *observer) Submit(s predict.Submission) predict.Prediction {
	o.submits++
	o.History.Submit(s)
	return predict.Prediction{}
}

func (o *observer) Start(number int64, at hpc.Time) {
	o.starts++
	o.History.Start(number, at)
}

func (o *observer) End(number int64, at hpc.Time, state hpc.State) {
	o.ends++
	o.History.End(number, at, state)
}

// TestTrainedKnowsItsData plays a history that begins before the end of the model's data. The model
// sees no events of jobs that ended or left by then: their ends would be missing, so they would seem
// to run for ever. Jobs that were still open continue.
func TestTrainedKnowsItsData(t *testing.T) {
	request := &hpc.Request{User: "a", Tasks: 1, TimeLimit: time.Hour}
	second := func(s int64) hpc.Time { return hpc.Unix(1e9 + s) }
	made := func(number, at, start, end int64) predict.Case {
		return predict.Case{Submission: predict.Submission{Number: number, At: second(at), Request: request}, Start: second(start), End: second(end), State: hpc.Completed}
	}
	cancelled := made(3, 30, 0, 0)
	cancelled.Start, cancelled.End, cancelled.Gone = 0, 0, second(50)
	list := []predict.Case{
		made(1, 10, 20, 100), made(2, 15, 30, 90), cancelled,
		made(4, 40, 60, 300), // runs at 100
		made(5, 50, 200, 5000),
		made(6, 150, 160, 180),
	}
	model := &observer{History: features.New(predict.RunTime)}
	learner := Trained(second(100), model)
	if err := predict.PlayUntil(t.Context(), list, second(1000), learner); err != nil {
		t.Fatal(err)
	}
	s := predict.Submission{Number: -1, At: second(1000), Request: request}
	learner.Distribution(s)
	if model.submits != 3 || model.starts != 3 || model.ends != 2 {
		t.Errorf("the model was told of %d submissions, %d starts and %d ends, want 3, 3 and 2", model.submits, model.starts, model.ends)
	}
	x := model.Vector(s, nil)
	for name, want := range map[string]float32{"user_running": 1, "user_waiting": 0} {
		if got := x[slices.Index(features.Names(), name)]; got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}

	// A history that ends with the model's data: the jobs that are open then run or wait.
	model = &observer{History: features.New(predict.RunTime)}
	learner = Trained(second(100), model)
	if err := predict.PlayUntil(t.Context(), list[:5], second(100), learner); err != nil {
		t.Fatal(err)
	}
	learner.Distribution(predict.Submission{Number: -1, At: second(100), Request: request})
	if model.submits != 2 || model.starts != 1 || model.ends != 0 {
		t.Errorf("at the end of its data the model was told of %d submissions, %d starts and %d ends, want 2, 1 and 0", model.submits, model.starts, model.ends)
	}
}
