package model

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"rmreplay/internal/predict"
)

// TestMixtureWeights compares the weights with the formula. Before the first job has ended, all
// weights are equal.
func TestMixtureWeights(t *testing.T) {
	var m mixture
	c := candidates{100, 200, 300, 400, 500, 600}
	if got := m.mean("ana", c); got != 350 {
		t.Errorf("before any loss: %g, want 350", got)
	}
	m.learn("ana", c, 100) // errors 0, 100, ... 500: their mean is 250
	losses := candidates{0, 100, 200, 300, 400, 500}
	for user, factor := range map[string]float64{"ana": 1 + allShare, "bob": allShare} {
		sum, weights := 0.0, 0.0
		for i, loss := range losses {
			w := math.Exp(-learning * factor * loss / 250)
			sum, weights = sum+w*c[i], weights+w
		}
		if got := m.mean(user, c); math.Abs(got-sum/weights) > 1e-9 {
			t.Errorf("%s: %g, want %g", user, got, sum/weights)
		}
	}
	m.learn("ana", c, 500)
	if want := userDiscount*0 + 400; m.Users["ana"][0] != want || m.Users["ana"][4] != userDiscount*400 {
		t.Errorf("after the second job: %v", m.Users["ana"])
	}
}

// TestMixtureFollows plays a user whose jobs agree first with one rule and then with another.
func TestMixtureFollows(t *testing.T) {
	var m mixture
	c := candidates{10, 1000, 1000, 1000, 5000, 1000}
	for range 200 {
		m.learn("ana", c, 10)
		m.learn("bob", c, 1000)
	}
	if ana, bob := m.mean("ana", c), m.mean("bob", c); math.Abs(ana-10) > 1 || math.Abs(bob-1000) > 10 {
		t.Errorf("ana %g, bob %g; want 10 and 1000", ana, bob)
	}
	for range 200 {
		m.learn("ana", c, 5000)
	}
	if ana := m.mean("ana", c); math.Abs(ana-5000) > 50 {
		t.Errorf("after a change: %g, want 5000", ana)
	}
}

// TestMixtureInFile checks that a model's file keeps the losses, that predictors made from the
// model do not change the model's losses, and that damaged losses are refused.
func TestMixtureInFile(t *testing.T) {
	all := cases(t, log(600, 9))
	written := file(t, all, Boost, 0)
	m, err := Read(bytes.NewReader(written), "m")
	if err != nil {
		t.Fatal(err)
	}
	if m.mixture.Jobs < 50 || len(m.mixture.Users) < 2 || m.mixture.Error <= 0 {
		t.Errorf("the weights of %g jobs and %d users", m.mixture.Jobs, len(m.mixture.Users))
	}
	before := m.mixture.clone()
	online := m.Online()
	later := all.List[500:]
	if err := predict.Play(t.Context(), later, online, nil); err != nil {
		t.Fatal(err)
	}
	if m.mixture.Jobs != before.Jobs || m.mixture.All != before.All {
		t.Error("a predictor has changed its model")
	}
	for user, losses := range before.Users {
		if m.mixture.Users[user] != losses {
			t.Errorf("a predictor has changed its model's weights for %s", user)
		}
	}
	text := unzip(t, written)
	for _, damage := range [][2]string{{`"error_s":`, `"error_s":-1`}, {`"mixture":{"users":{`, `"mixture":{"users":{"x":[1e300],`}} {
		damaged := strings.Replace(text, damage[0], damage[1], 1)
		if _, err := Read(bytes.NewReader(zipped(damaged)), "m"); damaged == text || err == nil || !strings.Contains(err.Error(), "the mixture has a loss of ") {
			t.Errorf("%s: got %v", damage[1], err)
		}
	}
}
